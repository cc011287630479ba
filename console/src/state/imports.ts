// Files on their way into tables: chosen, sent one after the other, and what came of each.
//
// - IF1. One file is sent at a time: an import takes the whole server as it is.

import { signal, type Signal } from "@preact/signals";
import {
  upload,
  tableNameOf,
  type ImportOptions,
  type ImportOutcome,
  type Upload,
} from "../api/imports";
import { looksLike, looksLikeNames, preview, withNames, type Preview } from "../data/csv";
import { findTable, refreshSchema } from "./schema";
import { say, view } from "./view";

export interface ImportJob {
  id: number;
  file: File;
  options: Signal<ImportOptions>;
  /** The first lines; `null` where they cannot be read as text. */
  preview: Signal<Preview | null>;
  state: Signal<"chosen" | "waiting" | "sending" | "ended">;
  /** 0 to 1. */
  sent: Signal<number>;
  startedAt: number;
  outcome: Signal<ImportOutcome | null>;
  upload: Upload | null;
}

const FILES_MAX = 50;
const PREVIEW_BYTES = 64 << 10;
const PREVIEW_ROWS = 9;

export const jobs = signal<ImportJob[]>([]);
let nextId = 1;

/** Takes files that were dropped or chosen. */
export function choose(files: Iterable<File>): void {
  const made = [...files].map(newJob);
  if (made.length === 0) return;
  view.value = "import";
  jobs.value = [...made, ...jobs.value].slice(0, FILES_MAX);
  if (FILES_MAX < made.length) say(`Only the first ${FILES_MAX} files were accepted`);
}

function newJob(file: File): ImportJob {
  const table = tableNameOf(file.name);
  const known = findTable(table);
  const job: ImportJob = {
    id: nextId++,
    file,
    options: signal({
      table,
      timestamp: known?.timestamp ?? "",
      partitionBy: known?.partitionBy ?? "",
      atomicity: "skipRow",
      mode: "append",
      header: "detect",
    }),
    preview: signal(null),
    state: signal("chosen"),
    sent: signal(0),
    startedAt: 0,
    outcome: signal(null),
    upload: null,
  };
  void look(job);
  return job;
}

/** Reads the first lines, and offers the first column of times as designated timestamp. */
async function look(job: ImportJob): Promise<void> {
  if (/\.(gz|zst|parquet)$/i.test(job.file.name)) return;
  const found = preview(await job.file.slice(0, PREVIEW_BYTES).text(), PREVIEW_ROWS);
  job.preview.value = found;
  const first = found.rows[0];
  if (!first) return;
  const known = findTable(job.options.value.table)?.columns;
  const isKnown = (cell: string) =>
    known?.some(({ name }) => name.toLowerCase() === cell.trim().toLowerCase()) ?? false;
  // What the preview shows as names is imported as names.
  const hasHeader = known ? first.some(isKnown) : looksLikeNames(first);
  if (hasHeader) change(job, { header: "first line" });
  if (job.options.value.timestamp !== "") return;
  const [names, rows] = withNames(found.rows, hasHeader);
  const time = names.findIndex((_, i) => looksLike(rows.map((row) => row[i] ?? "")) === "time");
  if (0 <= time) change(job, { timestamp: names[time]!, partitionBy: "DAY" });
}

export function change(job: ImportJob, changed: Partial<ImportOptions>): void {
  job.options.value = { ...job.options.value, ...changed };
}

export function start(job: ImportJob): void {
  job.state.value = "waiting";
  sendNext();
}

export function stop(job: ImportJob): void {
  if (job.state.value === "sending") job.upload?.stop();
  else if (job.state.value === "waiting") job.state.value = "chosen";
}

export function again(job: ImportJob): void {
  job.outcome.value = null;
  job.sent.value = 0;
  job.state.value = "chosen";
}

export function remove(job: ImportJob): void {
  stop(job);
  jobs.value = jobs.value.filter((other) => other !== job);
}

/** IF1. */
function sendNext(): void {
  if (jobs.value.some((job) => job.state.value === "sending")) return;
  const job = jobs.value.findLast(({ state }) => state.value === "waiting");
  if (!job) return;
  job.state.value = "sending";
  job.startedAt = performance.now();
  job.upload = upload(job.file, job.options.value, (sent) => (job.sent.value = sent));
  void job.upload.outcome.then((outcome) => {
    job.outcome.value = outcome;
    job.state.value = outcome.kind === "stopped" ? "chosen" : "ended";
    if (outcome.kind === "stopped") job.sent.value = 0;
    if (outcome.kind === "imported") void refreshSchema();
    sendNext();
  });
}
