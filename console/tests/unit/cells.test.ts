// Cells: what came, exactly.

import { expect, test } from "vitest";
import { ColumnBuilder, numberOf } from "../../src/data/cells";
import { rowsOf } from "./rows";

test("cells of all batches are found, NULL and empty text are two (CE2)", () => {
  const values = Array.from({ length: 17 }, (_, i) => [
    i % 3 === 0 ? null : i % 3 === 1 ? "" : `é${i}`,
  ]);
  for (const batchRows of [1, 2, 5, 17]) {
    const rows = rowsOf([["a", "VARCHAR"]], values, batchRows);
    expect(
      values.map((_, row) => [rows.cell(row, 0)]),
      "CE2",
    ).toEqual(values);
    expect(values.map((_, i) => [rows.cell(16 - i, 0)])).toEqual([...values].reverse());
  }
});

test("numbers and times are read from what came", () => {
  const rows = rowsOf(
    [
      ["n", "DOUBLE"],
      ["t", "TIMESTAMP"],
    ],
    [
      ["1.5", "1970-01-01T00:00:01.500000Z"],
      [null, null],
      ["-2e3", "1969-12-31T23:59:59.000000Z"],
    ],
  );
  expect([...rows.numbers(0)]).toEqual([1.5, NaN, -2000]);
  expect([...rows.times(1)]).toEqual([1.5, NaN, -1]);
});

test("a builder forgets the cells of a row that is not all there", () => {
  const builder = new ColumnBuilder();
  const bytes = new TextEncoder().encode("abcdef");
  builder.add(bytes, 0, 2);
  builder.add(bytes, 2, 6);
  builder.truncate(1);
  builder.add(bytes, 5, 6);
  const { bytes: taken, ends } = builder.take();
  expect([new TextDecoder().decode(taken), [...ends]]).toEqual(["abf", [2, 3]]);
});

test("numbers are those that the browser reads, however many digits they have", () => {
  const texts = [
    "0",
    "-0",
    "1.5",
    "-2e3",
    "0.1",
    "100.05",
    "123456789012345",
    "1234567890123456.75",
  ];
  const many = Array.from({ length: 500 }, (_, i) => String(((i * 7919) % 1009) / (1 + (i % 97))));
  for (const text of [...texts, ...many, "9223372036854775807", "1e-320", "12345678901234.5"]) {
    const bytes = new TextEncoder().encode(text);
    expect(numberOf(bytes, 0, bytes.length), text).toBe(Number(text));
  }
  for (const text of ["", "x", "1.2.3", "-"]) {
    const bytes = new TextEncoder().encode(text);
    expect(numberOf(bytes, 0, bytes.length), text).toBeNaN();
  }
});
