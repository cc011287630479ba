// A file to /imp: one request, told how far it is, and what came of it.
//
// - IM1. The file is sent as it is, never read into memory here.
// - IM2. Whatever the server answers, what is shown is its message: JSON if it is that, else text.

export interface ImportOptions {
  table: string;
  /** A column's name, or "" for none. */
  timestamp: string;
  partitionBy: string;
  atomicity: "skipCol" | "skipRow" | "abort";
  mode: "append" | "overwrite";
  header: "detect" | "first line";
}

export interface ImportColumn {
  name: string;
  type: string;
  errors: number;
}

export interface Imported {
  table: string;
  imported: number;
  rejected: number;
  columns: ImportColumn[];
  warnings: string[];
  importId: string;
}

export interface ImportFailure {
  message: string;
  code?: string;
  line?: number;
  column?: string;
}

export type ImportOutcome =
  | { kind: "imported"; result: Imported }
  | { kind: "failed"; failure: ImportFailure }
  | { kind: "stopped" };

export interface Upload {
  outcome: Promise<ImportOutcome>;
  stop(): void;
}

/** The address with its parameters; those that say nothing are left out. */
export function importUrl(options: ImportOptions): string {
  const params = new URLSearchParams({ fmt: "json", name: options.table });
  if (options.timestamp !== "") params.set("timestamp", options.timestamp);
  if (options.partitionBy !== "") params.set("partitionBy", options.partitionBy);
  params.set("atomicity", options.atomicity);
  if (options.mode === "overwrite") params.set("overwrite", "true");
  if (options.header === "first line") params.set("forceHeader", "true");
  return `/imp?${params}`;
}

/** Sends a file; `onSent` has the part of it that is on its way, 0 to 1. */
export function upload(file: File, options: ImportOptions, onSent: (part: number) => void): Upload {
  const request = new XMLHttpRequest();
  const outcome = new Promise<ImportOutcome>((resolve) => {
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onSent(event.loaded / event.total);
    };
    request.onload = () => resolve(outcomeOf(request.status, request.responseText));
    request.onabort = () => resolve({ kind: "stopped" });
    request.onerror = () =>
      resolve({ kind: "failed", failure: { message: "the connection to the server was lost" } });
  });
  const form = new FormData();
  form.append("data", file, file.name); // IM1
  request.open("POST", importUrl(options));
  request.send(form);
  return { outcome, stop: () => request.abort() };
}

/** What an answer says. */
export function outcomeOf(status: number, text: string): ImportOutcome {
  const body = objectOf(text);
  if (status === 200 && body?.status === "OK") {
    return { kind: "imported", result: importedOf(body) };
  }
  if (body === null) {
    const message = text.trim().slice(0, 500) || `the server answered ${status}`;
    return { kind: "failed", failure: { message } };
  }
  const message = String(body.status ?? body.error ?? `the server answered ${status}`);
  const failure: ImportFailure = { message };
  if (typeof body.code === "string") failure.code = body.code;
  if (typeof body.line === "number") failure.line = body.line;
  if (typeof body.column === "string") failure.column = body.column;
  return { kind: "failed", failure };
}

function importedOf(body: Record<string, unknown>): Imported {
  const columns = Array.isArray(body.columns) ? (body.columns as Record<string, unknown>[]) : [];
  return {
    table: String(body.location ?? ""),
    imported: Number(body.rowsImported ?? 0),
    rejected: Number(body.rowsRejected ?? 0),
    columns: columns.map(({ name, type, errors }) => ({
      name: String(name),
      type: String(type),
      errors: Number(errors ?? 0),
    })),
    warnings: Array.isArray(body.warnings) ? body.warnings.map(String) : [],
    importId: String(body.importId ?? ""),
  };
}

function objectOf(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null; // IM2
  }
}

/** A table's name for a file: `CPU load (1).csv.gz` is `cpu_load_1`. */
export function tableNameOf(file: string): string {
  const base = file
    .replace(/^.*[\\/]/, "")
    .replace(/(\.(csv|tsv|txt|gz|zst|parquet|ndjson))+$/i, "");
  const name = base
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, "_")
    .replace(/^_+|_+$/g, "");
  return /^[a-z_]/.test(name) ? name : `t_${name}`;
}
