// An answer of /exec, read while it comes: bytes in, batches of cells out.
//
// - AN1. However the bytes are cut, the same cells come out.
// - AN2. A row counts when all of it is there. What is behind the last whole row waits, and is
//   looked at again only when it has doubled: a value of any size costs time in its size.
// - AN3. An answer that breaks off keeps its rows and says so: a server that ends early says why
//   in the body's own end, a connection that is cut says nothing.

import { ColumnBuilder, type Batch, type Column } from "../data/cells";

export interface Head {
  query: string;
  columns: Column[];
  /** The designated timestamp's place, or -1. */
  timestamp: number;
}

export interface Failure {
  message: string;
  /** Characters of the statement before the place. */
  position?: number;
  code?: string;
  requestId?: string;
}

/** How an answer has ended. */
export type Outcome =
  | { kind: "rows"; count: number; compilerNs?: number; executeNs?: number; failure?: Failure }
  | { kind: "done"; text: string }
  | { kind: "failed"; failure: Failure };

const [QUOTE, BACKSLASH, COMMA, OPEN, CLOSE] = [0x22, 0x5c, 0x2c, 0x5b, 0x5d];
const NULL_FIRST = 0x6e;
const utf8 = new TextDecoder();
const encoder = new TextEncoder();

/**
 * Where the rows begin. No string of JSON holds these bytes: within one, the quote before the colon
 * would have a backslash, and behind one stands no `dataset`, because no column or query is a key.
 */
const DATASET = encoder.encode('"dataset":[');

export class AnswerParser {
  head: Head | null = null;
  rows = 0;
  private waiting: Uint8Array[] = [];
  private waitingBytes = 0;
  /** How many bytes must wait before it is worth to look again (AN2). */
  private wanted = 0;
  private state: "head" | "rows" | "tail" = "head";
  private builders: ColumnBuilder[] = [];
  private batchRows = 0;

  push(bytes: Uint8Array): void {
    this.waiting.push(bytes);
    this.waitingBytes += bytes.length;
    if (this.state === "tail" || this.waitingBytes < this.wanted) return;
    const all = this.joined();
    let at = 0;
    if (this.state === "head") at = this.readHead(all);
    if (this.state === "rows") at = this.readRows(all, at);
    this.keep(all, at);
  }

  /** The rows since the last time; `null` without any. */
  take(): Batch | null {
    if (this.batchRows === 0) return null;
    const batch = { rows: this.batchRows, columns: this.builders.map((cells) => cells.take()) };
    this.batchRows = 0;
    return batch;
  }

  /** Bytes of the rows that `take` would give. */
  get batchBytes(): number {
    return this.builders.reduce((sum, cells) => sum + cells.size, 0);
  }

  /** How it has ended; to be asked when no bytes come any more. */
  finish(): Outcome {
    this.wanted = 0;
    if (this.state === "rows") this.push(new Uint8Array(0));
    const rest = utf8.decode(this.joined());
    if (this.state === "head") return wholeOutcome(rest);
    if (this.state === "rows") {
      const message = "the connection ended within the answer";
      return { kind: "rows", count: this.rows, failure: { message } }; // AN3
    }
    return tailOutcome(rest, this.rows);
  }

  private joined(): Uint8Array {
    if (this.waiting.length === 1) return this.waiting[0]!;
    const all = new Uint8Array(this.waitingBytes);
    let at = 0;
    for (const part of this.waiting) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  private keep(all: Uint8Array, from: number): void {
    const rest = all.subarray(from);
    this.waiting = rest.length === 0 ? [] : [rest];
    this.waitingBytes = rest.length;
    this.wanted = from === 0 ? 2 * rest.length : 0;
  }

  /** Reads all up to the rows; gives where they begin, or 0. */
  private readHead(all: Uint8Array): number {
    const found = indexOf(all, DATASET);
    if (found < 0) return 0;
    this.head = headOf(`${utf8.decode(all.subarray(0, found))}"dataset":[]}`);
    this.builders = this.head.columns.map(() => new ColumnBuilder());
    this.state = "rows";
    return found + DATASET.length;
  }

  /** Reads whole rows; gives where the first one begins that is not all there. */
  private readRows(all: Uint8Array, from: number): number {
    let at = from;
    for (;;) {
      if (all[at] === COMMA) at += 1;
      const first = all[at];
      if (first === undefined) return at;
      if (first === CLOSE) {
        this.state = "tail";
        return at + 1;
      }
      if (first !== OPEN) throw new Error(`the answer has no row where one should be: ${first}`);
      const end = this.readRow(all, at + 1);
      if (end < 0) {
        for (const cells of this.builders) cells.truncate(this.batchRows); // AN2
        return at;
      }
      this.rows += 1;
      this.batchRows += 1;
      at = end;
    }
  }

  /** Reads the cells of a row; gives where it ends, or -1 if that has not come. */
  private readRow(all: Uint8Array, from: number): number {
    let at = from;
    for (const cells of this.builders) {
      const end = readCell(all, at, cells);
      if (end < 0 || all.length <= end) return -1;
      at = end + 1; // The comma, or the bracket of the row.
    }
    // A row without columns: its bracket is still there.
    return this.builders.length === 0 ? at + 1 : at;
  }
}

/** Reads one value; gives where it ends, or -1 if that has not come. */
function readCell(all: Uint8Array, from: number, cells: ColumnBuilder): number {
  const first = all[from];
  if (first === QUOTE) return readString(all, from + 1, cells);
  if (first === OPEN || first === 0x7b) return readNested(all, from, cells);
  let at = from;
  while (at < all.length && all[at] !== COMMA && all[at] !== CLOSE) at += 1;
  if (at === all.length) return -1;
  if (first === NULL_FIRST) cells.addNull();
  else cells.add(all, from, at);
  return at;
}

function readString(all: Uint8Array, from: number, cells: ColumnBuilder): number {
  let [at, isEscaped] = [from, false];
  for (; at < all.length; at++) {
    const byte = all[at];
    if (byte === QUOTE) break;
    if (byte === BACKSLASH) {
      isEscaped = true;
      at += 1;
    }
  }
  if (all.length <= at) return -1;
  if (isEscaped) {
    const text = encoder.encode(JSON.parse(utf8.decode(all.subarray(from - 1, at + 1))) as string);
    cells.add(text, 0, text.length);
  } else {
    cells.add(all, from, at);
  }
  return at + 1;
}

/** A list or an object: its text is its cell. */
function readNested(all: Uint8Array, from: number, cells: ColumnBuilder): number {
  let [depth, isText] = [0, false];
  for (let at = from; at < all.length; at++) {
    const byte = all[at]!;
    if (isText) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) isText = false;
    } else if (byte === QUOTE) {
      isText = true;
    } else if (byte === OPEN || byte === 0x7b) {
      depth += 1;
    } else if (byte === CLOSE || byte === 0x7d) {
      depth -= 1;
      if (depth === 0) {
        cells.add(all, from, at + 1);
        return at + 1;
      }
    }
  }
  return -1;
}

function indexOf(all: Uint8Array, wanted: Uint8Array): number {
  for (let at = all.indexOf(wanted[0]!); 0 <= at; at = all.indexOf(wanted[0]!, at + 1)) {
    if (wanted.every((byte, i) => all[at + i] === byte)) return at;
  }
  return -1;
}

function headOf(text: string): Head {
  const { query, columns, timestamp } = JSON.parse(text) as Partial<Head>;
  return { query: query ?? "", columns: columns ?? [], timestamp: timestamp ?? -1 };
}

interface Whole {
  ddl?: string;
  dml?: string;
  notice?: string;
  inserted?: number;
  updated?: number;
  deleted?: number;
  error?: string;
  position?: number;
  errorPos?: number;
  code?: string;
  requestId?: string;
  count?: number;
  timings?: { compiler?: number; execute?: number };
}

/** An answer without rows. */
function wholeOutcome(text: string): Outcome {
  const whole = parsed(text);
  if (whole === null) {
    const message =
      text.trim() === "" ? "the server sent no answer" : `not an answer of SQL: ${text}`;
    return { kind: "failed", failure: { message: message.slice(0, 500) } };
  }
  if (whole.error !== undefined) {
    const { error: message, position, code, requestId } = whole;
    return { kind: "failed", failure: { message, position, code, requestId } };
  }
  for (const word of ["inserted", "updated", "deleted"] as const) {
    const rows = whole[word];
    if (rows !== undefined)
      return { kind: "done", text: `${word} ${rows.toLocaleString("en-US")}` };
  }
  return { kind: "done", text: whole.notice ?? "done" };
}

/** What stands behind the rows: `,"count":2}`. */
function tailOutcome(text: string, rows: number): Outcome {
  const tail = parsed(`{${text.replace(/^,/, "")}`);
  if (tail === null) {
    const message = "the connection ended at the end of the answer";
    return { kind: "rows", count: rows, failure: { message } };
  }
  const outcome: Outcome = { kind: "rows", count: tail.count ?? rows };
  if (tail.timings) {
    outcome.compilerNs = tail.timings.compiler;
    outcome.executeNs = tail.timings.execute;
  }
  if (tail.error !== undefined) {
    // A place of 0 says nothing: the form has one always.
    const position = tail.errorPos === 0 ? undefined : tail.errorPos;
    outcome.failure = { message: tail.error, position, code: tail.code };
  }
  return outcome;
}

function parsed(text: string): Whole | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Whole) : null;
  } catch {
    return null;
  }
}
