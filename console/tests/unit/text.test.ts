// Cells as text for others, and texts of others as cells.

import { expect, test } from "vitest";
import { looksLike, looksLikeNames, preview, records, withNames } from "../../src/data/csv";
import * as format from "../../src/data/format";
import { toCsv, toTsv } from "../../src/data/table_text";
import { rowsOf } from "./rows";

const ROWS = rowsOf(
  [
    ["a", "DOUBLE"],
    ['b "x"', "VARCHAR"],
  ],
  [
    ["1.5", 'say "hi",\nyou\tthere'],
    [null, null],
    ["2", ""],
  ],
);

test("a clipboard gets flat cells (TT1)", () => {
  const all = { from: 0, to: 3, left: 0, right: 2 };
  expect(toTsv(ROWS, all, "with names"), "TT1").toBe('a\tb "x"\n1.5\tsay "hi", you there\n\t\n2\t');
  expect(toTsv(ROWS, { from: 1, to: 3, left: 0, right: 1 }, "cells alone")).toBe("\n2");
});

test("a file keeps NULL and empty text apart, and reads back (TT2)", () => {
  const csv = [...toCsv(ROWS)].join("");
  expect(csv, "TT2").toBe('"a","b ""x"""\r\n1.5,"say ""hi"",\nyou\tthere"\r\n,\r\n2,""\r\n');
  expect([...records(csv, ",")]).toEqual([
    ["a", 'b "x"'],
    ["1.5", 'say "hi",\nyou\tthere'],
    ["", ""],
    ["2", ""],
  ]);
});

test("a preview has whole records and finds the delimiter", () => {
  expect(preview("a;b\n1;2,5\n3;", 9)).toEqual({
    delimiter: ";",
    rows: [
      ["a", "b"],
      ["1", "2,5"],
    ],
  });
  expect(preview("a\tb\r\n1\t2\r\n", 1)).toEqual({ delimiter: "\t", rows: [["a", "b"]] });
  expect(preview("", 9).rows).toEqual([]);
});

test("columns look like what most of their cells are", () => {
  expect(looksLike(["2025-03-01T00:00:00Z", "2025-03-01 10:00", ""])).toBe("time");
  expect(looksLike(["2025-03-01"])).toBe("time");
  expect(looksLike(["1", "-2.5e7", ".5", "oops"])).toBe("number");
  expect(looksLike(["1", "a"])).toBe("text");
  expect(looksLike([])).toBe("text");
});

test("a first record is shown as names only if it could be some", () => {
  expect(looksLikeNames(["name", "user id", "größe"])).toBe(true);
  expect(looksLikeNames(["name", "7"])).toBe(false);
  expect(looksLikeNames(["name", "Name"])).toBe(false);
  expect(looksLikeNames(["2025-01-01", "x"])).toBe(false);
  expect(looksLikeNames(["true", "x"])).toBe(false);
  expect(looksLikeNames(["a", ""])).toBe(false);
  const rows = [
    ["a", "b"],
    ["1", "2"],
  ];
  expect(withNames(rows, true)).toEqual([["a", "b"], [["1", "2"]]]);
  expect(withNames(rows, false)).toEqual([["f0", "f1"], rows]);
  expect(withNames([], true)).toEqual([[], []]);
});

test("numbers are written for people", () => {
  expect([0, 950, 12_345, 4_560_000, 0.25, 1e10].map(format.short)).toEqual([
    "0",
    "950",
    "12.3 k",
    "4.56 M",
    "0.25",
    "10.0 G",
  ]);
  expect([0, 512, 1536, 5 * 2 ** 30].map(format.bytes)).toEqual([
    "0 B",
    "512 B",
    "1.50 KiB",
    "5.00 GiB",
  ]);
  expect([0.84, 120, 3_210, 12_345, 125_000].map(format.duration)).toEqual([
    "0.8 ms",
    "120 ms",
    "3.21 s",
    "12.3 s",
    "2 min 5 s",
  ]);
  expect([format.plural(1, "row"), format.plural(1_000, "row")]).toEqual(["1 row", "1,000 rows"]);
  expect(format.ago(0, 90 * 60_000)).toBe("1 h ago");
});
