// An answer comes in pieces, cut anywhere, and is always the same one.

import { expect, test } from "vitest";
import { AnswerParser, type Outcome } from "../../src/api/answer";
import { Rows } from "../../src/data/cells";

const utf8 = new TextEncoder();

/** What comes of a body that arrives in pieces of `size` bytes, taken after each of them. */
function read(
  body: string,
  size: number,
): { rows: (string | null)[][]; names: string[]; outcome: Outcome } {
  const parser = new AnswerParser();
  const bytes = utf8.encode(body);
  let rows: Rows | null = null;
  const take = () => {
    const batch = parser.take();
    if (batch === null) return;
    rows ??= new Rows(parser.head!.columns);
    rows.push(batch);
  };
  for (let at = 0; at < bytes.length; at += size) {
    parser.push(bytes.slice(at, at + size));
    take();
  }
  const outcome = parser.finish();
  take();
  const columns = parser.head?.columns ?? [];
  const all = rows as Rows | null;
  const cells = Array.from({ length: all?.length ?? 0 }, (_, row) =>
    columns.map((_, i) => all!.cell(row, i)),
  );
  return { rows: cells, names: columns.map(({ name }) => name), outcome };
}

const BODY =
  '{"query":"select \\"dataset\\":[1] \\\\","columns":[{"name":"ts","type":"TIMESTAMP"},' +
  '{"name":"a \\"dataset\\":[","type":"VARCHAR"},{"name":"n","type":"LONG"}],"timestamp":0,' +
  '"dataset":[["2025-03-01T00:00:00.000000Z","a\\"b\\\\c\\n\\u00e9 €",9223372036854775807],' +
  '[null,"",-1.5e-7],["x","null",null],["[","]",{"a":[1,"]"]}],' +
  '["longer than thirty-two bytes, so that it is copied as a whole","é€😀",true]],' +
  '"count":5,"timings":{"compiler":1200,"execute":5600}}';
const ROWS = [
  ["2025-03-01T00:00:00.000000Z", 'a"b\\c\né €', "9223372036854775807"],
  [null, "", "-1.5e-7"],
  ["x", "null", null],
  ["[", "]", '{"a":[1,"]"]}'],
  ["longer than thirty-two bytes, so that it is copied as a whole", "é€😀", "true"],
];

test("the same cells come out however the bytes are cut (AN1)", () => {
  for (let size = 1; size <= BODY.length; size++) {
    const { rows, names, outcome } = read(BODY, size);
    expect(rows, `AN1, pieces of ${size}`).toEqual(ROWS);
    expect(names).toEqual(["ts", 'a "dataset":[', "n"]);
    expect(outcome).toEqual({ kind: "rows", count: 5, compilerNs: 1200, executeNs: 5600 });
  }
});

test("an error within the rows keeps the rows before it (AN3)", () => {
  const body =
    '{"query":"q","columns":[{"name":"a","type":"INT"}],"timestamp":-1,"dataset":[[1],[2]],' +
    '"count":2,"error":"division by zero","errorPos":7,"code":"22012"}';
  const { rows, outcome } = read(body, 10);
  expect(rows).toEqual([["1"], ["2"]]);
  expect(outcome).toEqual({
    kind: "rows",
    count: 2,
    failure: { message: "division by zero", position: 7, code: "22012" },
  });
});

test("a cut answer keeps its whole rows and says that it was cut (AN2, AN3)", () => {
  const at = BODY.indexOf("-1.5e-7") + 3;
  const { rows, outcome } = read(BODY.slice(0, at), 7);
  expect(rows).toEqual(ROWS.slice(0, 1));
  expect(outcome).toMatchObject({
    kind: "rows",
    count: 1,
    failure: { message: "the connection ended within the answer" },
  });
});

test("answers without rows are what they say", () => {
  const outcome = (body: string) => read(body, 5).outcome;
  expect(outcome('{"ddl":"OK"}')).toEqual({ kind: "done", text: "done" });
  expect(outcome('{"dml":"OK","inserted":1234}')).toEqual({ kind: "done", text: "inserted 1,234" });
  expect(
    outcome(
      '{"query":"selec 1","error":"expected a statement","position":0,"code":"42601",' +
        '"requestId":"9f"}',
    ),
  ).toEqual({
    kind: "failed",
    failure: { message: "expected a statement", position: 0, code: "42601", requestId: "9f" },
  });
  expect(outcome("<html>a proxy</html>")).toMatchObject({ kind: "failed" });
  expect(outcome("")).toEqual({
    kind: "failed",
    failure: { message: "the server sent no answer" },
  });
});

test("a large value costs time in its size, not in its square (AN2)", () => {
  const text = "x".repeat(8_000_000);
  const head = '{"query":"","columns":[{"name":"a","type":"VARCHAR"}],"timestamp":-1,"dataset":';
  const body = `${head}[["${text}"]],"count":1}`;
  const start = performance.now();
  const { rows } = read(body, 16_384);
  expect(rows[0]![0]!.length).toBe(8_000_000);
  expect(performance.now() - start).toBeLessThan(5_000);
});

test("no rows and no columns are no trouble", () => {
  expect(
    read(
      '{"query":"","columns":[{"name":"a","type":"INT"}],"timestamp":-1,"dataset":[],"count":0}',
      3,
    ).rows,
  ).toEqual([]);
});
