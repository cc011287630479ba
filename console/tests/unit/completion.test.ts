// What is offered at the cursor.

import { expect, test } from "vitest";
import { suggest, type Catalog } from "../../src/sql/completion";

const CATALOG: Catalog = {
  tables: [
    {
      name: "trades",
      columns: [
        { name: "ts", type: "TIMESTAMP" },
        { name: "price", type: "DOUBLE" },
      ],
    },
    { name: "Odd Name", columns: [{ name: "order", type: "INT" }] },
    { name: "sys.ilp_rejects", columns: [{ name: "reason", type: "VARCHAR" }] },
  ],
  functions: [
    { name: "avg", signature: "avg(x)", kind: "AGGREGATE", description: "The mean." },
    { name: "tables", signature: "tables()", kind: "TABLE", description: "" },
  ],
};

function offered(marked: string, type: string): string[] | null {
  const found = suggest(marked.replace("|", ""), marked.indexOf("|"), CATALOG);
  return found && found.options.filter((one) => one.type === type).map(({ label }) => label);
}

test("columns are those of the tables that the statement names (CM3)", () => {
  expect(offered("select | from trades", "column"), "CM3").toEqual(["ts", "price"]);
  expect(offered('select | from "Odd Name" o', "column"), "CM3").toEqual(["order"]);
  expect(offered("select | from sys.ilp_rejects", "column"), "CM3").toEqual(["reason"]);
  expect(offered("trades where |", "column"), "CM3").toEqual(["ts", "price"]);
  expect(offered("select |", "column"), "CM3").toEqual(["ts", "price", "order", "reason"]);
  expect(offered('select 1 from trades; select | from "odd name"', "column"), "CM3").toEqual([
    "order",
  ]);
});

test("behind a point only columns of that table are (CM2)", () => {
  const all = suggest("select t.p from trades t", 10, CATALOG)!;
  expect([all.from, all.options.map(({ label }) => label)], "CM2").toEqual([9, ["ts", "price"]]);
  expect(offered("select x.| from trades t", "column"), "CM2").toEqual([]);
  expect(
    offered('select 1 from trades t join "Odd Name" as b on t.ts = b.|', "column"),
    "CM2",
  ).toEqual(["order"]);
});

test("behind FROM tables come, and functions that make tables (CM2)", () => {
  expect(offered("select 1 from |", "table"), "CM2").toEqual([
    "trades",
    "Odd Name",
    "sys.ilp_rejects",
  ]);
  expect(offered("select 1 from tr|", "function"), "CM2").toEqual(["tables"]);
  expect(offered("insert into |", "column"), "CM2").toEqual([]);
});

test("nothing is offered in texts, comments and numbers (CM1)", () => {
  for (const text of ["select 'a|", "select 'a|b'", "-- tr|", "/* x| */ select 1", "select 12|"]) {
    expect(suggest(text.replace("|", ""), text.indexOf("|"), CATALOG), `CM1: ${text}`).toBe(null);
  }
});

test("words are replaced from their beginning, odd names are quoted", () => {
  const found = suggest("select 1 from od", 16, CATALOG)!;
  expect(found.from).toBe(14);
  expect(found.options.find(({ label }) => label === "Odd Name")?.apply).toBe('"Odd Name"');
  expect(offered("sel|", "keyword")).toContain("SELECT");
});
