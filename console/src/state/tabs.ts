// Tabs: each has a text, its answer and what was made of it.
//
// - TA1. There is one tab at least, and one of them is shown.
// - TA2. A tab runs one statement at a time; its answer stays until the next one begins.
// - TA3. Answers share a budget of memory: the one that was shown longest ago goes first, and the
//   tab says so.

import { signal, type Signal } from "@preact/signals";
import { execute, type Running } from "../api/exec";
import type { Failure, Outcome } from "../api/answer";
import { Rows } from "../data/cells";
import { guessChart, type ChartColumns } from "../data/guess";
import { duration, plural } from "../data/format";
import type { Span } from "../sql/statements";
import { remember } from "./history";
import { refreshSchema } from "./schema";
import { isRecord, load, save } from "./stored";
import { rowsMax } from "./view";

/** An answer, as far as it has come. */
export interface Result {
  sql: string;
  /** Where the statement stood in the text, and what stood before it. */
  span: Span;
  before: string;
  rows: Rows | null;
  timestamp: number;
  /** Rises with each batch, because rows are one growing value. */
  version: number;
  startedAt: number;
  ms: number;
  outcome: Outcome | null;
  /** Rows or bytes ended at their bound. */
  cut: "" | "rows" | "bytes";
  /** What the chart shows; `null` until it is looked at. */
  chart: ChartColumns | null;
}

export interface Tab {
  id: number;
  title: Signal<string>;
  text: string;
  result: Signal<Result | null>;
  running: Signal<Running | null>;
  shows: Signal<"grid" | "chart">;
  /** Why the answer is gone. */
  dropped: Signal<boolean>;
}

const TABS_MAX = 20;
const TEXT_MAX = 256 << 10;
/** Cells of all tabs (TA3). */
const BYTES_MAX = 1.5 * (1 << 30);
const FIRST_TEXT = `-- Ctrl+Enter runs the statement at the cursor, Ctrl+K finds everything else.
tables();
`;

let nextId = 1;

function newTab(title: string, text: string): Tab {
  return {
    id: nextId++,
    title: signal(title),
    text,
    result: signal(null),
    running: signal(null),
    shows: signal("grid"),
    dropped: signal(false),
  };
}

interface Stored {
  tabs: { title: string; text: string }[];
  shown: number;
}

function check(value: unknown): Stored | null {
  if (!isRecord(value) || !Array.isArray(value.tabs) || value.tabs.length === 0) return null;
  const stored = value.tabs.filter(isRecord).slice(0, TABS_MAX);
  const kept = stored.map(({ title, text }) => ({
    title: String(title),
    text: String(text ?? ""),
  }));
  const shown = typeof value.shown === "number" && kept[value.shown] ? value.shown : 0;
  return kept.length === 0 ? null : { tabs: kept, shown };
}

const stored = load("tabs", check, { tabs: [{ title: "Query 1", text: FIRST_TEXT }], shown: 0 });
export const tabs = signal<Tab[]>(stored.tabs.map(({ title, text }) => newTab(title, text)));
export const shown = signal<Tab>(tabs.value[stored.shown]!);
/** The tabs by when they were shown, the latest last (TA3). */
let recent: Tab[] = [];

export function saveTabs(): void {
  const kept = tabs.value.map(({ title, text }) => ({
    title: title.value,
    text: text.slice(0, TEXT_MAX),
  }));
  save("tabs", { tabs: kept, shown: tabs.value.indexOf(shown.value) });
}

export function show(tab: Tab): void {
  shown.value = tab;
  recent = [...recent.filter((other) => other !== tab), tab];
  saveTabs();
}

export function openTab(text: string, title?: string): Tab | null {
  if (TABS_MAX <= tabs.value.length) return null;
  const used = new Set(tabs.value.map(({ title }) => title.value));
  let number = 1;
  while (used.has(`Query ${number}`)) number += 1;
  const tab = newTab(title ?? `Query ${number}`, text);
  tabs.value = [...tabs.value, tab];
  show(tab);
  return tab;
}

export function closeTab(tab: Tab): void {
  tab.running.value?.cancel();
  const at = tabs.value.indexOf(tab);
  const left = tabs.value.filter((other) => other !== tab);
  recent = recent.filter((other) => other !== tab);
  tabs.value = left.length === 0 ? [newTab("Query 1", "")] : left; // TA1
  if (shown.value === tab) show(tabs.value[Math.min(at, tabs.value.length - 1)]!);
  saveTabs();
}

/** Runs a statement of the tab; what it still runs is stopped first. */
export function run(tab: Tab, span: Span): void {
  tab.running.value?.cancel();
  const sql = tab.text.slice(span.from, span.to);
  const startedAt = performance.now();
  const most = rowsMax.value;
  let result: Result = {
    sql,
    span,
    before: tab.text.slice(0, span.from),
    rows: null,
    timestamp: -1,
    version: 0,
    startedAt,
    ms: 0,
    outcome: null,
    cut: "",
    chart: null,
  };
  const update = (change: Partial<Result>) => {
    result = {
      ...result,
      ms: performance.now() - startedAt,
      version: result.version + 1,
      ...change,
    };
    // TA2: what comes of a statement that was replaced goes nowhere.
    if (tab.running.value === running) tab.result.value = result;
  };
  tab.dropped.value = false;
  const running = execute(sql, most, {
    onHead: (head) => update({ rows: new Rows(head.columns), timestamp: head.timestamp }),
    onBatch: (batch) => {
      if (most < result.rows!.length + batch.rows) trim(batch, most - result.rows!.length);
      result.rows!.push(batch);
      update({});
    },
    onEnd: (outcome, isCut) => {
      const hasMore = outcome.kind === "rows" && most < outcome.count;
      if (hasMore) outcome.count = most;
      update({ outcome, cut: isCut ? "bytes" : hasMore ? "rows" : "", chart: result.chart });
      if (tab.running.value === running) tab.running.value = null;
      finish(result);
    },
  });
  tab.running.value = running;
  tab.result.value = result;
}

/** Takes rows from the end of a batch: one more was asked for than is shown. */
function trim(
  batch: { rows: number; columns: { ends: Uint32Array<ArrayBuffer> }[] },
  rows: number,
): void {
  batch.rows = rows;
  for (const column of batch.columns) column.ends = column.ends.subarray(0, rows);
}

function finish(result: Result): void {
  const outcome = result.outcome!;
  const failure = failureOf(outcome);
  const said =
    failure?.message ??
    (outcome.kind === "rows" ? plural(outcome.count, "row") : resultText(outcome));
  remember({
    sql: result.sql,
    at: Date.now(),
    ms: result.ms,
    result: said,
    isError: failure !== null,
  });
  if (outcome.kind === "done") void refreshSchema();
  dropOldest();
}

/** TA3. */
function dropOldest(): void {
  const bytes = () =>
    tabs.value.reduce((sum, tab) => sum + (tab.result.value?.rows?.bytes ?? 0), 0);
  const oldFirst = [...tabs.value].sort((a, b) => recent.indexOf(a) - recent.indexOf(b));
  for (const tab of oldFirst) {
    if (bytes() <= BYTES_MAX) return;
    if (tab === shown.value || tab.running.value !== null || tab.result.value === null) continue;
    tab.result.value = null;
    tab.dropped.value = true;
  }
}

export function failureOf(outcome: Outcome | null): Failure | null {
  if (outcome === null || outcome.kind === "done") return null;
  return outcome.failure ?? null;
}

export function resultText(outcome: Outcome): string {
  return outcome.kind === "done" ? outcome.text : "";
}

/** What the chart of a result shows: what was chosen, or a guess. */
export function chartOf(result: Result): ChartColumns {
  return result.chart ?? guessChart(result.rows!, result.timestamp);
}

export function setChart(tab: Tab, chart: ChartColumns): void {
  if (tab.result.value) tab.result.value = { ...tab.result.value, chart };
}

/** In a few words how a statement went, for the line below the answer. */
export function summary(result: Result): string {
  const { outcome, rows, ms } = result;
  if (outcome?.kind === "done") return `${outcome.text} in ${duration(ms)}`;
  const count = plural(rows?.length ?? 0, "row");
  return outcome === null ? `${count} so far` : `${count} in ${duration(ms)}`;
}
