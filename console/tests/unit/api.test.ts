// What the server says, besides rows: metrics, and answers to imports.

import { expect, test } from "vitest";
import { importUrl, outcomeOf, tableNameOf, type ImportOptions } from "../../src/api/imports";
import { parseMetrics, rate } from "../../src/api/metrics";

test("metrics are summed over their labels", () => {
  const text =
    '# HELP x\ntidegate_rows_written_total{protocol="http"} 5\n' +
    'tidegate_rows_written_total{protocol="tcp"} 7\ntidegate_memory_bytes 1e6\n' +
    'tidegate_q_bucket{le="1"} 3\nbroken\n';
  expect([...parseMetrics(text)]).toEqual([
    ["rows_written_total", 12],
    ["memory_bytes", 1_000_000],
  ]);
  expect([rate(10, 30, 2_000), rate(30, 10, 2_000)]).toEqual([10, NaN]);
});

const OPTIONS: ImportOptions = {
  table: "grid",
  timestamp: "",
  partitionBy: "",
  atomicity: "skipRow",
  mode: "append",
  header: "detect",
};

test("an import says what is meant, and no more", () => {
  expect(importUrl(OPTIONS)).toBe("/imp?fmt=json&name=grid&atomicity=skipRow");
  const all = importUrl({
    ...OPTIONS,
    table: "a b&c",
    timestamp: "ts",
    partitionBy: "DAY",
    mode: "overwrite",
    header: "first line",
  });
  expect(all).toBe(
    "/imp?fmt=json&name=a+b%26c&timestamp=ts&partitionBy=DAY&atomicity=skipRow" +
      "&overwrite=true&forceHeader=true",
  );
});

test("what came of an import is read, whatever it is", () => {
  const ok =
    '{"status":"OK","location":"grid","rowsRejected":1,"rowsImported":999,"header":true,' +
    '"partitionBy":"DAY","timestamp":"ts",' +
    '"warnings":["table is partitioned by DAY, partitionBy ignored"],' +
    '"columns":[{"name":"ts","type":"TIMESTAMP","size":8,"errors":0}],"importId":"1f7e"}';
  expect(outcomeOf(200, ok)).toEqual({
    kind: "imported",
    result: {
      table: "grid",
      imported: 999,
      rejected: 1,
      warnings: ["table is partitioned by DAY, partitionBy ignored"],
      columns: [{ name: "ts", type: "TIMESTAMP", errors: 0 }],
      importId: "1f7e",
    },
  });
  expect(
    outcomeOf(400, '{"status":"not a number","code":"22P02","line":7,"column":"load"}'),
  ).toEqual({
    kind: "failed",
    failure: { message: "not a number", code: "22P02", line: 7, column: "load" },
  });
  expect(outcomeOf(404, '{"error":"there is nothing at this path","requestId":"9f"}')).toEqual({
    kind: "failed",
    failure: { message: "there is nothing at this path" },
  });
  expect(outcomeOf(502, "<html>"), "IM2").toEqual({
    kind: "failed",
    failure: { message: "<html>" },
  });
  expect(outcomeOf(500, ""), "IM2").toEqual({
    kind: "failed",
    failure: { message: "the server answered 500" },
  });
});

test("a file's name makes a table's name", () => {
  expect(
    ["hits.csv", "CPU load (1).csv.gz", "2025-03.tsv", "/a/b/Ünï.txt", "x.y.parquet"].map(
      tableNameOf,
    ),
  ).toEqual(["hits", "cpu_load_1", "t_2025_03", "n", "x_y"]);
});
