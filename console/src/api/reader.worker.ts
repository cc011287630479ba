// The thread that asks and reads, so that the page never waits for an answer of any size.
//
// - RD1. Batches are handed over without a copy, the first one as soon as there is a row.
// - RD2. An answer has at most `BYTES_MAX` bytes of cells: reading ends there, and says so.

import { AnswerParser, type Head, type Outcome } from "./answer";
import type { Batch } from "../data/cells";

export type ToReader = { id: number; url: string; sql: string } | { id: number; abort: true };

export type FromReader =
  | { id: number; kind: "head"; head: Head }
  | { id: number; kind: "batch"; batch: Batch }
  | { id: number; kind: "end"; outcome: Outcome; isCut: boolean };

/** How long rows are gathered before they are handed over. */
const BATCH_MS = 60;
/** A batch's cells, at most: some hundred batches are a large answer. */
const BATCH_BYTES = 8 << 20;
/** Cells of one answer: a tab of a browser has a few gigabytes (RD2). */
const BYTES_MAX = 1 << 30;

const running = new Map<number, AbortController>();

self.onmessage = (event: MessageEvent<ToReader>) => {
  const message = event.data;
  if ("abort" in message) running.get(message.id)?.abort();
  else void read(message.id, message.url, message.sql);
};

function send(message: FromReader, transfer: Transferable[] = []): void {
  self.postMessage(message, { transfer });
}

async function read(id: number, url: string, sql: string): Promise<void> {
  const abort = new AbortController();
  running.set(id, abort);
  const parser = new AnswerParser();
  let isCut = false;
  try {
    const headers = { "Content-Type": "text/plain; charset=utf-8" };
    const { signal } = abort;
    const answer = await fetch(url, { method: "POST", body: sql, headers, signal });
    isCut = answer.body !== null && (await readBody(id, answer.body, parser));
    send({ id, kind: "end", outcome: parser.finish(), isCut });
  } catch (error) {
    send({ id, kind: "end", outcome: brokenOff(parser, error, abort.signal.aborted), isCut });
  } finally {
    running.delete(id);
  }
}

/** Reads to the end; whether it ended at the bound (RD2). */
async function readBody(
  id: number,
  body: ReadableStream<Uint8Array>,
  parser: AnswerParser,
): Promise<boolean> {
  const reader = body.getReader();
  let [bytes, last, hasHead] = [0, 0, false];
  for (;;) {
    const { done, value } = await reader.read();
    if (value) parser.push(value);
    if (!hasHead && parser.head) {
      send({ id, kind: "head", head: parser.head });
      hasHead = true;
    }
    const isTime = BATCH_MS < performance.now() - last || BATCH_BYTES < parser.batchBytes;
    if (done || isTime) {
      const batch = parser.take();
      if (batch) {
        bytes += sendBatch(id, batch);
        last = performance.now();
      }
    }
    if (done) return false;
    if (BYTES_MAX < bytes) {
      await reader.cancel();
      return true;
    }
  }
}

function sendBatch(id: number, batch: Batch): number {
  const buffers = batch.columns.flatMap(({ bytes, ends }) => [bytes.buffer, ends.buffer]);
  const size = buffers.reduce((sum, buffer) => sum + buffer.byteLength, 0);
  send({ id, kind: "batch", batch }, buffers); // RD1
  return size;
}

function brokenOff(parser: AnswerParser, error: unknown, isAborted: boolean): Outcome {
  const reason = error instanceof Error ? error.message : String(error);
  const message = isAborted ? "stopped" : `the server cannot be reached: ${reason}`;
  const failure = { message, code: isAborted ? "57014" : undefined };
  if (parser.head === null) return { kind: "failed", failure };
  return { kind: "rows", count: parser.rows, failure };
}
