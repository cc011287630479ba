// Lines, and what is drawn of them.

import { expect, test } from "vitest";
import { drawn, extent, linesOf, type Line } from "../../src/data/series";
import { rowsOf } from "./rows";

const line = (label: string, points: [number, number][]): Line => ({
  label,
  x: Float64Array.from(points, ([x]) => x),
  y: Float64Array.from(points, ([, y]) => y),
});

test("a column of texts makes a line for each, in the order of names and of time (SR1)", () => {
  const rows = rowsOf(
    [
      ["ts", "TIMESTAMP"],
      ["sym", "SYMBOL"],
      ["v", "DOUBLE"],
    ],
    [
      ["1970-01-01T00:00:02.000000Z", "b", "1"],
      ["1970-01-01T00:00:01.000000Z", "b", "2"],
      ["1970-01-01T00:00:01.000000Z", null, "3"],
      [null, "b", "4"],
    ],
  );
  const { lines, leftOut } = linesOf(rows, { time: 0, values: [2], series: 1 });
  expect(lines.map(({ label, x, y }) => [label, [...x], [...y]])).toEqual([
    ["b", [1, 2], [2, 1]],
    ["NULL", [1], [3]],
  ]);
  expect([leftOut, extent(lines)]).toEqual([0, [1, 2]]);
});

test("series above the most are left out and counted", () => {
  const values = Array.from({ length: 15 }, (_, i) => [
    "1970-01-01T00:00:01.000000Z",
    `s${i}`,
    "1",
  ]);
  const { lines, leftOut } = linesOf(
    rowsOf(
      [
        ["ts", "TIMESTAMP"],
        ["s", "SYMBOL"],
        ["v", "INT"],
      ],
      values,
    ),
    { time: 0, values: [2], series: 1 },
  );
  expect([lines.length, leftOut]).toEqual([12, 3]);
});

test("few points are all drawn, NULL is a gap and another line's time is none (SR3)", () => {
  const [x, a, b] = drawn(
    [
      line("a", [
        [1, 10],
        [3, NaN],
        [5, 30],
      ]),
      line("b", [[2, 7]]),
    ],
    0,
    9,
    100,
  );
  expect(x).toEqual([1, 2, 3, 5]);
  expect(a, "SR3").toEqual([10, undefined, null, 30]);
  expect(b, "SR3").toEqual([undefined, 7, undefined, undefined]);
});

test("of a million points no peak is lost, whatever the zoom (SR2)", () => {
  const points = 1_000_000;
  const y = Float64Array.from({ length: points }, (_, i) => Math.sin(i / 9_000));
  y[123_456] = 50;
  y[777_777] = -50;
  const all = { label: "a", x: Float64Array.from({ length: points }, (_, i) => i), y };
  for (const [low, high, peaks] of [
    [0, 999_999, [50, -50]],
    [100_000, 200_000, [50]],
    [123_400, 123_500, [50]],
  ] as const) {
    const [x, values] = drawn([all], low, high, 500);
    expect(x.length).toBeLessThan(1_100);
    for (const peak of peaks) expect(values, "SR2").toContain(peak);
    expect(
      x.every((at, i) => i === 0 || x[i - 1]! < at),
      "SR1",
    ).toBe(true);
  }
});
