// Which columns of an answer make a chart.
//
// - GU1. The time is the designated timestamp, else the first column of times.
// - GU2. Values are numbers, but not those that are called like a key.
// - GU3. A column of texts makes series if it has 2 to `SERIES_MAX` texts and times come twice:
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

export function guessChart(rows: Rows, timestamp: number): ChartColumns {
  const { columns } = rows;
  const time = timeColumn(columns, timestamp);
  const numbers = columns.flatMap(({ type }, i) => (kindOf(type) === "number" ? [i] : []));
  const named = numbers.filter((i) => !isKey(columns[i]!.name)); // GU2
  const values = named.length === 0 ? numbers : named;
  const series = time === null ? null : seriesColumn(rows, time);
  return { time, values: values.slice(0, series === null ? VALUES_MAX : 1), series };
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
function seriesColumn(rows: Rows, time: number): number | null {
  const sample = Math.min(rows.length, SAMPLE_ROWS);
  if (distinct(rows, time, sample, sample) === sample) return null;
  const texts = rows.columns.flatMap(({ type }, i) =>
    kindOf(type) === "symbol" || kindOf(type) === "text" ? [i] : [],
  );
  const symbolsFirst = texts.sort((a, b) => rank(rows.columns[a]!) - rank(rows.columns[b]!) || a - b);
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
