// What a chart is guessed to show.

import { expect, test } from "vitest";
import { guessChart } from "../../src/data/guess";
import { rowsOf } from "./rows";

const T = (n: number) => `2025-03-01T00:00:0${n}.000000Z`;

test("the designated timestamp is the time, else the first times (GU1)", () => {
  const rows = rowsOf(
    [
      ["a", "DATE"],
      ["v", "DOUBLE"],
      ["b", "TIMESTAMP"],
    ],
    [[T(0), "1", T(1)]],
  );
  expect(guessChart(rows, 2).time, "GU1").toBe(2);
  expect(guessChart(rows, -1).time, "GU1").toBe(0);
  expect(guessChart(rowsOf([["v", "DOUBLE"]], [["1"]]), -1)).toEqual({
    time: null,
    values: [0],
    series: null,
  });
});

test("keys are no values, unless there are no others (GU2)", () => {
  const rows = rowsOf(
    [
      ["ts", "TIMESTAMP"],
      ["order_id", "LONG"],
      ["price", "DOUBLE"],
    ],
    [[T(0), "7", "1.5"]],
  );
  expect(guessChart(rows, 0).values, "GU2").toEqual([2]);
  expect(
    guessChart(
      rowsOf(
        [
          ["ts", "TIMESTAMP"],
          ["id", "LONG"],
        ],
        [[T(0), "7"]],
      ),
      0,
    ).values,
  ).toEqual([1]);
});

test("values of another scale wait (GU3)", () => {
  const rows = rowsOf(
    [
      ["ts", "TIMESTAMP"],
      ["load", "DOUBLE"],
      ["bytes", "LONG"],
      ["peak", "DOUBLE"],
    ],
    [
      [T(0), "0.5", "1000000000", "0.9"],
      [T(1), "0.6", "2000000000", "1.9"],
    ],
  );
  expect(guessChart(rows, 0).values, "GU3").toEqual([1, 3]);
});

test("texts make series where times come twice (GU4)", () => {
  const columns: [string, string][] = [
    ["ts", "TIMESTAMP"],
    ["note", "VARCHAR"],
    ["sym", "SYMBOL"],
    ["v", "DOUBLE"],
    ["w", "DOUBLE"],
  ];
  const twice = [
    [T(0), "x", "a", "1", "1"],
    [T(0), "y", "b", "2", "1"],
    [T(1), "x", "a", "3", "1"],
    [T(1), "y", "b", "4", "1"],
  ];
  expect(guessChart(rowsOf(columns, twice), 0), "GU4").toEqual({ time: 0, values: [3], series: 2 });
  const once = twice.map((row, i) => [T(i), ...row.slice(1)]);
  expect(guessChart(rowsOf(columns, once), 0), "GU4").toEqual({
    time: 0,
    values: [3, 4],
    series: null,
  });
  const many = Array.from({ length: 40 }, (_, i) => [T(i % 4), "x", `s${i}`, "1", "1"]);
  expect(guessChart(rowsOf(columns, many), 0).series, "GU4").toBe(null);
});
