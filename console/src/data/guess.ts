// Which columns of an answer make a chart.
//
// - GU1. The time is the designated timestamp, else the first column of times.
// - GU2. Values are numbers, but not those that are called like a key.
// - GU3. What is drawn together has a scale together: columns whose numbers are far larger or
//   smaller than those of the first one wait to be chosen.
// - GU4. A column of texts makes series if it has 2 to `SERIES_MAX` texts and times come twice:
//   then each series has one row a time, and otherwise the lines would jump between them.

import type { Column, Rows } from "./cells";
import { kindOf } from "./types";

export interface ChartColumns {
  /** `null`: there is nothing to draw by time. */
  time: number | null;
  values: number[];
  series: number | null;
}

/** More lines than that are a thicket. */
export const SERIES_MAX = 12;
const VALUES_MAX = 4;
/** Rows that are looked at, from the beginning. */
const SAMPLE_ROWS = 5_000;
/** Rows that are looked at all over the answer, for scales (GU3). */
const SCALE_ROWS = 500;
const SCALE_MAX = 30;

export function guessChart(rows: Rows, timestamp: number): ChartColumns {
  const { columns } = rows;
  const time = timeColumn(columns, timestamp);
  const numbers = columns.flatMap(({ type }, i) => (kindOf(type) === "number" ? [i] : []));
  const named = numbers.filter((i) => !isKey(columns[i]!.name)); // GU2
  const values = named.length === 0 ? numbers : named;
  const series = time === null ? null : seriesColumn(rows, time);
  const together = ofOneScale(rows, values);
  return { time, values: together.slice(0, series === null ? VALUES_MAX : 1), series };
}

/** GU1. */
function timeColumn(columns: Column[], timestamp: number): number | null {
  const designated = columns[timestamp];
  if (designated && kindOf(designated.type) === "time") return timestamp;
  const first = columns.findIndex(({ type }) => kindOf(type) === "time");
  return first < 0 ? null : first;
}

function isKey(name: string): boolean {
  return /(^|_)(id|key|txn|uuid)$/i.test(name);
}

/** GU3. */
function ofOneScale(rows: Rows, values: number[]): number[] {
  const first = values[0];
  if (first === undefined) return [];
  const scale = magnitude(rows, first);
  return values.filter((column) => {
    const ratio = magnitude(rows, column) / scale;
    return column === first || (1 / SCALE_MAX <= ratio && ratio <= SCALE_MAX);
  });
}

/** The largest size among the first numbers; rows that have none count as 0. */
function magnitude(rows: Rows, column: number): number {
  let most = 0;
  const step = Math.max(1, Math.floor(rows.length / SCALE_ROWS));
  for (let row = 0; row < rows.length; row += step) {
    const size = Math.abs(Number(rows.cell(row, column) ?? 0));
    if (most < size) most = size;
  }
  return most;
}

/** GU4. */
function seriesColumn(rows: Rows, time: number): number | null {
  const sample = Math.min(rows.length, SAMPLE_ROWS);
  if (distinct(rows, time, sample, sample) === sample) return null;
  const texts = rows.columns.flatMap(({ type }, i) =>
    kindOf(type) === "symbol" || kindOf(type) === "text" ? [i] : [],
  );
  const symbolsFirst = texts.sort(
    (a, b) => rank(rows.columns[a]!) - rank(rows.columns[b]!) || a - b,
  );
  const fitting = symbolsFirst.find((column) => {
    const count = distinct(rows, column, sample, SERIES_MAX);
    return 2 <= count && count <= SERIES_MAX;
  });
  return fitting ?? null;
}

function rank(column: Column): number {
  return kindOf(column.type) === "symbol" ? 0 : 1;
}

/** How many different cells the first rows have; no more than `most` + 1 are counted. */
function distinct(rows: Rows, column: number, sample: number, most: number): number {
  const seen = new Set<string | null>();
  for (let row = 0; row < sample && seen.size <= most; row++) seen.add(rows.cell(row, column));
  return seen.size;
}
