// From columns to lines, and from a million points to as many as a screen shows.
//
// - SR1. A line's points ascend by time; points without a time are left out.
// - SR2. Of the points that share a sliver of the screen, the least and the greatest are drawn, in
//   the order in which they come: no peak is lost, whatever the zoom.
// - SR3. A NULL between points is a gap; where another line has a point and this has none, is not.

import type { Rows } from "./cells";
import { SERIES_MAX, type ChartColumns } from "./guess";

export interface Line {
  label: string;
  x: Float64Array;
  y: Float64Array;
}

export interface Lines {
  lines: Line[];
  /** Series that are not drawn, because there are too many. */
  leftOut: number;
}

/** The lines that some columns make. */
export function linesOf(rows: Rows, { time, values, series }: ChartColumns): Lines {
  if (time === null) return { lines: [], leftOut: 0 };
  const x = rows.times(time);
  const groups = series === null ? null : groupsOf(rows, series);
  const labels = groups ? groups.labels.slice(0, SERIES_MAX) : [null];
  const lines = values.flatMap((value) => {
    const y = rows.numbers(value);
    const name = rows.columns[value]!.name;
    return labels.map((label, group) => {
      const title = label === null ? name : values.length === 1 ? label : `${label} ${name}`;
      return lineOf(title, x, y, groups && ((row) => groups.of[row] === group));
    });
  });
  // By name: colours do not depend on which series happens to come first.
  if (groups) lines.sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
  return { lines, leftOut: groups ? groups.labels.length - labels.length : 0 };
}

/** A number for each text of a column, by first coming, and the texts by number. */
function groupsOf(rows: Rows, column: number): { of: Int32Array; labels: string[] } {
  const numbers = new Map<string | null, number>();
  const of = new Int32Array(rows.length);
  for (let row = 0; row < rows.length; row++) {
    const text = rows.cell(row, column);
    let group = numbers.get(text);
    if (group === undefined) numbers.set(text, (group = numbers.size));
    of[row] = group;
  }
  return { of, labels: [...numbers.keys()].map((text) => text ?? "NULL") };
}

function lineOf(
  label: string,
  x: Float64Array,
  y: Float64Array,
  isOurs: ((row: number) => boolean) | null,
): Line {
  const [xs, ys] = [new Float64Array(x.length), new Float64Array(x.length)];
  let [count, isSorted] = [0, true];
  for (let row = 0; row < x.length; row++) {
    const at = x[row]!;
    if (Number.isNaN(at) || (isOurs && !isOurs(row))) continue;
    if (0 < count && at < xs[count - 1]!) isSorted = false;
    xs[count] = at;
    ys[count++] = y[row]!;
  }
  const line = { label, x: xs.slice(0, count), y: ys.slice(0, count) };
  return isSorted ? line : sorted(line); // SR1
}

function sorted({ label, x, y }: Line): Line {
  const order = Uint32Array.from(x, (_, i) => i).sort((a, b) => x[a]! - x[b]!);
  return {
    label,
    x: Float64Array.from(order, (i) => x[i]!),
    y: Float64Array.from(order, (i) => y[i]!),
  };
}

/** The first and the last time of all lines. */
export function extent(lines: Line[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const { x } of lines) {
    if (x.length === 0) continue;
    low = Math.min(low, x[0]!);
    high = Math.max(high, x[x.length - 1]!);
  }
  return [low, high];
}

/** As uPlot takes it: times, and for each line a value, `null` for a gap, `undefined` for none. */
export type Aligned = [number[], ...(number | null | undefined)[][]];

/** What is drawn of the lines between two times on so many slivers. */
export function drawn(lines: Line[], low: number, high: number, slivers: number): Aligned {
  const parts = lines.map((line) => window(line, low, high));
  const most = Math.max(0, ...parts.map(({ x }) => x.length));
  const thin = parts.map((part) =>
    most <= 2 * slivers ? part : thinned(part, low, high, slivers),
  );
  return aligned(thin);
}

/** The points between two times, and one beyond on each side, so that lines go to the edge. */
function window({ label, x, y }: Line, low: number, high: number): Line {
  const from = Math.max(0, lowerBound(x, low) - 1);
  const to = Math.min(x.length, lowerBound(x, high) + 2);
  return { label, x: x.subarray(from, to), y: y.subarray(from, to) };
}

function lowerBound(x: Float64Array, wanted: number): number {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** SR2: two points a sliver, at the same two places for all lines, so that they stay few. */
function thinned({ label, x, y }: Line, low: number, high: number, slivers: number): Line {
  const width = (high - low) / slivers || 1;
  const [xs, ys]: [number[], number[]] = [[], []];
  let at = 0;
  while (at < x.length) {
    const sliver = Math.floor((x[at]! - low) / width);
    let [least, greatest] = [-1, -1];
    for (; at < x.length && Math.floor((x[at]! - low) / width) === sliver; at++) {
      if (Number.isNaN(y[at]!)) continue;
      if (least < 0 || y[at]! < y[least]!) least = at;
      if (greatest < 0 || y[greatest]! < y[at]!) greatest = at;
    }
    const [first, second] = [Math.min(least, greatest), Math.max(least, greatest)];
    xs.push(low + (sliver + 0.25) * width, low + (sliver + 0.75) * width);
    ys.push(first < 0 ? NaN : y[first]!, second < 0 ? NaN : y[second]!);
  }
  return { label, x: Float64Array.from(xs), y: Float64Array.from(ys) };
}

/** SR3. */
function aligned(lines: Line[]): Aligned {
  const times = new Float64Array(lines.reduce((sum, { x }) => sum + x.length, 0));
  let count = 0;
  for (const { x } of lines) {
    times.set(x, count);
    count += x.length;
  }
  times.sort();
  const x = [...times].filter((time, i) => i === 0 || time !== times[i - 1]);
  return [x, ...lines.map((line) => spread(line, x))];
}

function spread({ x, y }: Line, times: number[]): (number | null | undefined)[] {
  const values = new Array<number | null | undefined>(times.length).fill(undefined);
  let place = 0;
  for (let i = 0; i < x.length; i++) {
    while (times[place]! < x[i]!) place += 1;
    // Of several points at one time the last one stands.
    values[place] = Number.isFinite(y[i]!) ? y[i]! : null;
  }
  return values;
}
