// Statements that were run, the latest first.
//
// - HI1. A statement that is run again moves to the front and is not listed twice.

import { signal } from "@preact/signals";
import { isRecord, load, save } from "./stored";

export interface Past {
  sql: string;
  at: number;
  ms: number;
  /** What came of it, in a few words. */
  result: string;
  isError: boolean;
}

/** As many as one looks through, and as long as a browser's store takes. */
const PAST_MAX = 300;
const SQL_MAX = 20_000;

export const past = signal<Past[]>(load("history", check, []));

function check(value: unknown): Past[] | null {
  if (!Array.isArray(value)) return null;
  return value.filter(isRecord).map(({ sql, at, ms, result, isError }) => ({
    sql: String(sql ?? ""),
    at: Number(at ?? 0),
    ms: Number(ms ?? 0),
    result: String(result ?? ""),
    isError: isError === true,
  }));
}

export function remember(one: Past): void {
  if (SQL_MAX < one.sql.length) return;
  const others = past.value.filter(({ sql }) => sql !== one.sql); // HI1
  past.value = [one, ...others].slice(0, PAST_MAX);
  save("history", past.value);
}

export function forgetAll(): void {
  past.value = [];
  save("history", []);
}
