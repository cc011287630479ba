// Where the columns of a grid are.

import type { Rows } from "../data/cells";

const CHAR_WIDTH = 7.25;
const PADDING = 22;
const [WIDTH_MIN, WIDTH_MAX] = [56, 420];
/** Rows, from all over the answer, whose cells say how wide a column is. */
const SAMPLE_ROWS = 100;

/** Left edges of columns, and the right edge of the last one. */
export function edgesOf(widths: number[]): number[] {
  const edges = [0];
  for (const width of widths) edges.push(edges.at(-1)! + width);
  return edges;
}

/** The columns that meet left..right: from the first to behind the last. */
export function columnsWithin(edges: number[], left: number, right: number): [number, number] {
  const count = edges.length - 1;
  let from = 0;
  while (from < count - 1 && edges[from + 1]! <= left) from += 1;
  let to = from;
  while (to < count && edges[to]! < right) to += 1;
  return [from, to];
}

/** Wide enough for the name and for the first cells. */
export function fittingWidth(rows: Rows, column: number): number {
  const { name, type } = rows.columns[column]!;
  let chars = Math.max(name.length + 2, type.length);
  const last = rows.length - 1;
  const step = Math.max(1, last / (SAMPLE_ROWS - 1));
  for (let at = 0; at <= last; at += step) {
    const row = Math.round(at);
    chars = Math.max(chars, rows.cell(row, column)?.length ?? 4);
  }
  return Math.round(Math.max(WIDTH_MIN, Math.min(WIDTH_MAX, chars * CHAR_WIDTH + PADDING)));
}
