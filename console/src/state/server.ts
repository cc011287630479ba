// How the server is: numbers of /metrics, asked for every two seconds while the page is seen.
//
// - SV1. A page that is not seen asks for nothing.
// - SV2. What is kept is a window of samples, not all since the page was opened.

import { signal } from "@preact/signals";
import { parseMetrics, rate } from "../api/metrics";

export interface Sample {
  at: number;
  rowsPerSecond: number;
  walPerSecond: number;
  queriesPerSecond: number;
  running: number;
  memory: number;
  memtables: number;
}

const EVERY_MS = 2_000;
/** Five minutes (SV2). */
const SAMPLES_MAX = 150;

export const samples = signal<Sample[]>([]);
export const metrics = signal<Map<string, number>>(new Map());
export const state = signal<"connecting" | "up" | "down">("connecting");
export const version = signal("");

let before: { at: number; values: Map<string, number> } | null = null;

export function startServer(): void {
  void poll();
  setInterval(() => void poll(), EVERY_MS);
  document.addEventListener("visibilitychange", () => void poll());
}

async function poll(): Promise<void> {
  if (document.hidden) return; // SV1
  try {
    const answer = await fetch("/metrics", { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    const text = await answer.text();
    version.value = /build_info\{version="([^"]*)"/.exec(text)?.[1] ?? "";
    take(parseMetrics(text), Date.now());
    state.value = "up";
  } catch {
    state.value = "down";
    before = null;
  }
}

function take(values: Map<string, number>, at: number): void {
  metrics.value = values;
  const growth = (name: string) => {
    if (before === null) return NaN;
    return rate(before.values.get(name) ?? 0, values.get(name) ?? 0, at - before.at);
  };
  const sample: Sample = {
    at,
    rowsPerSecond: growth("rows_written_total"),
    walPerSecond: growth("wal_written_bytes_total"),
    queriesPerSecond: growth("queries_total"),
    running: values.get("queries_running") ?? 0,
    memory: values.get("memory_bytes") ?? 0,
    memtables: values.get("memtable_bytes") ?? 0,
  };
  if (before !== null) samples.value = [...samples.value, sample].slice(-SAMPLES_MAX);
  before = { at, values };
}
