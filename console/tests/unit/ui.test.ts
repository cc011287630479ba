// The arithmetic of the grid, of axes, and of what is typed into the palette.

import { expect, test } from "vitest";
import { columnsWithin, edgesOf, fittingWidth } from "../../src/ui/columns";
import { barOf, clampTop, spaceOf, SPACE_MAX, topOf } from "../../src/ui/scroll";
import { moved, regionOf } from "../../src/ui/selection";
import { sparkPath } from "../../src/ui/spark";
import { rowsOf } from "./rows";

test("few rows scroll by themselves, many by a part of the whole (SC2)", () => {
  expect([spaceOf(1_000), barOf(300, 1_000, 200), topOf(300, 1_000, 200)], "SC2").toEqual([
    1_000, 300, 300,
  ]);
  const [total, seen] = [24_000_000, 480];
  expect(barOf(total - seen, total, seen), "SC2").toBeCloseTo(SPACE_MAX - seen, 6);
  expect(topOf(SPACE_MAX - seen, total, seen), "SC2").toBeCloseTo(total - seen, 6);
  expect(barOf(0, total, seen)).toBe(0);
  for (const top of [1, 24, 12_345_678, 23_999_000])
    expect(topOf(barOf(top, total, seen), total, seen)).toBeCloseTo(top, 3);
  expect([clampTop(-5, 100, 40), clampTop(90, 100, 40), clampTop(5, 10, 40)]).toEqual([0, 60, 0]);
});

test("columns are those in sight", () => {
  const edges = edgesOf([100, 50, 200, 60]);
  expect(edges).toEqual([0, 100, 150, 350, 410]);
  expect(columnsWithin(edges, 0, 120)).toEqual([0, 2]);
  expect(columnsWithin(edges, 100, 150)).toEqual([1, 2]);
  expect(columnsWithin(edges, 360, 900)).toEqual([3, 4]);
  expect(columnsWithin([0], 0, 100)).toEqual([0, 0]);
});

test("a column is as wide as its name and its cells want, within bounds", () => {
  const rows = rowsOf(
    [
      ["a", "INT"],
      ["b", "VARCHAR"],
    ],
    [
      ["1", "x".repeat(500)],
      ["123456789012345", null],
    ],
  );
  expect(fittingWidth(rows, 0)).toBe(Math.round(15 * 7.25 + 22));
  expect(fittingWidth(rows, 1)).toBe(420);
});

test("keys move within the rows", () => {
  const size = { rows: 100, columns: 5, page: 10 };
  const from = { row: 50, column: 2 };
  const to = (key: string, isFar = false) => Object.values(moved(from, key, isFar, size) ?? {});
  expect([
    to("ArrowUp"),
    to("PageDown"),
    to("Home"),
    to("End", true),
    to("ArrowDown", true),
    to("x"),
  ]).toEqual([[49, 2], [60, 2], [50, 0], [99, 4], [99, 2], []]);
  expect(moved({ row: 0, column: 0 }, "ArrowUp", false, size)).toEqual({ row: 0, column: 0 });
  expect(regionOf({ anchor: { row: 5, column: 3 }, head: { row: 2, column: 4 } })).toEqual({
    from: 2,
    to: 6,
    left: 3,
    right: 5,
  });
});

test("a small line begins at zero and leaves out what is not known", () => {
  expect(sparkPath([NaN, 0, 10, 5], 20, 12)).toBe("M0.0 11.0L10.0 1.0L20.0 6.0");
  expect(sparkPath([1], 20, 12)).toBe("");
});
