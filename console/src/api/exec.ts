// Statements: sent, read by another thread, and stopped.
//
// - EX1. A statement ends with a comment that has a token, so that it can be found among those
//   that work and be cancelled there. It stands behind the statement: no position moves. A text
//   that comes again is a new one to the server, which plans it anew: that takes a millisecond.
// - EX2. One row more is asked for than is shown: so we know that there are more.

import { Rows, type Batch, type Column } from "../data/cells";
import type { Head, Outcome } from "./answer";
import type { FromReader, ToReader } from "./reader.worker";

const MARK = "-- console:";
/** How long the server has to say that a statement was cancelled, before we hang up. */
const CANCEL_MS = 1_500;

export interface Listener {
  onHead(head: Head): void;
  onBatch(batch: Batch): void;
  onEnd(outcome: Outcome, isCut: boolean): void;
}

export interface Running {
  cancel(): void;
}

let worker: Worker | null = null;
let nextId = 1;
const listeners = new Map<number, Listener>();

function reader(): Worker {
  if (worker === null) {
    worker = new Worker(new URL("./reader.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (event: MessageEvent<FromReader>) => deliver(event.data);
  }
  return worker;
}

function deliver(message: FromReader): void {
  const listener = listeners.get(message.id);
  if (listener === undefined) return;
  if (message.kind === "head") listener.onHead(message.head);
  else if (message.kind === "batch") listener.onBatch(message.batch);
  else {
    listeners.delete(message.id);
    listener.onEnd(message.outcome, message.isCut);
  }
}

/** Runs a statement; `rowsMax` and one more are asked for (EX2). */
export function execute(sql: string, rowsMax: number, listener: Listener): Running {
  const id = nextId++;
  const token = crypto.getRandomValues(new Uint32Array(2)).join("-");
  listeners.set(id, listener);
  const url = new URL(`/exec?limit=${rowsMax + 1}&timings=true`, location.href).href;
  post({ id, url, sql: `${sql}\n${MARK}${token}` }); // EX1
  const abort = () => post({ id, abort: true });
  return {
    cancel() {
      // The server's own word is better than ours, and hanging up ends the statement as well.
      const timer = setTimeout(abort, CANCEL_MS);
      void cancelByToken(token).then((isFound) => {
        if (!isFound) {
          clearTimeout(timer);
          abort();
        }
      });
    },
  };
}

function post(message: ToReader): void {
  reader().postMessage(message);
}

/** A statement's text as it was written, without our mark. */
export function withoutMark(sql: string): string {
  const at = sql.lastIndexOf(`\n${MARK}`);
  return at < 0 ? sql : sql.slice(0, at);
}

async function cancelByToken(token: string): Promise<boolean> {
  try {
    const working = await ask("SELECT query_id, query FROM query_activity()");
    const ours = working.findRow((row) => working.text(row, "query").endsWith(`${MARK}${token}`));
    if (ours < 0) return false;
    await ask(`CANCEL QUERY ${working.text(ours, "query_id")}`);
    return true;
  } catch {
    return false;
  }
}

/** A small answer, with its columns by name. */
export class Answer {
  private readonly places: Map<string, number>;
  constructor(private readonly rows: Rows) {
    this.places = new Map(rows.columns.map(({ name }, place) => [name.toLowerCase(), place]));
  }

  get length(): number {
    return this.rows.length;
  }

  has(column: string): boolean {
    return this.places.has(column.toLowerCase());
  }

  /** A cell; `null` for NULL, and for a column that an older or newer server does not have. */
  cell(row: number, column: string): string | null {
    const place = this.places.get(column.toLowerCase());
    return place === undefined ? null : this.rows.cell(row, place);
  }

  text(row: number, column: string): string {
    return this.cell(row, column) ?? "";
  }

  number(row: number, column: string): number {
    return Number(this.cell(row, column) ?? 0);
  }

  findRow(is: (row: number) => boolean): number {
    for (let row = 0; row < this.length; row++) if (is(row)) return row;
    return -1;
  }

  map<T>(make: (row: number) => T): T[] {
    return Array.from({ length: this.length }, (_, row) => make(row));
  }
}

/** Rows of the lists that the console asks for itself. */
const LIST_ROWS_MAX = 20_000;

/** Runs a statement of the console's own. */
export function ask(sql: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let rows = new Rows([] as Column[]);
    const id = nextId++;
    listeners.set(id, {
      onHead: (head) => (rows = new Rows(head.columns)),
      onBatch: (batch) => rows.push(batch),
      onEnd: (outcome) => {
        if (outcome.kind === "failed") reject(new Error(outcome.failure.message));
        else if (outcome.kind === "rows" && outcome.failure) {
          reject(new Error(outcome.failure.message));
        } else resolve(new Answer(rows));
      },
    });
    const url = new URL(`/exec?limit=${LIST_ROWS_MAX}`, location.href).href;
    post({ id, url, sql: `${sql}\n${MARK}own` });
  });
}

/** Whether a statement is one that the console asks for itself. */
export function isOwn(sql: string): boolean {
  return sql.endsWith(`\n${MARK}own`);
}
