// Statements, places and names in SQL.

import { expect, test } from "vitest";
import { quoteName, unquoteName } from "../../src/sql/names";
import { offsetOf, placeOf, wordAt } from "../../src/sql/position";
import { statementAt, statements } from "../../src/sql/statements";
import { tokens } from "../../src/sql/tokens";

const texts = (text: string) => statements(text).map(({ from, to }) => text.slice(from, to));

/** The statement at the bar, which is not a part of the text. */
function at(marked: string): string | null {
  const place = marked.indexOf("|");
  const text = marked.replace("|", "");
  const span = statementAt(text, place);
  return span && text.slice(span.from, span.to);
}

test("semicolons in texts, names and comments end nothing", () => {
  expect(texts("a 'x;''y' ; b \";\" -- ;\n; /* ; /* ; */ ; */ c;;")).toEqual([
    "a 'x;''y'",
    'b ";"',
    "c",
  ]);
  expect(texts("-- only a comment")).toEqual([]);
  expect(texts("select 'open ; to the end")).toEqual(["select 'open ; to the end"]);
});

test("every character is in one token or is white space (TK1)", () => {
  for (const text of ["a 'b", '"c', "/* d /* e */", "1.5e3+é_x$.y", "--", "'''", "/*", "😀;"]) {
    const found = [...tokens(text)];
    let end = 0;
    for (const { from, to } of found) {
      expect(text.slice(end, from).trim(), `TK1: ${text}`).toBe("");
      expect(end <= from && from < to && to <= text.length, `TK1: ${text}`).toBe(true);
      end = to;
    }
    expect(text.slice(end).trim(), `TK1: ${text}`).toBe("");
  }
});

test("the statement at the cursor is the one that is meant", () => {
  expect(at("sel|ect 1; select 2")).toBe("select 1");
  expect(at("select 1;| select 2")).toBe("select 1");
  expect(at("select 1;  | select 2")).toBe("select 1");
  expect(at("select 1;\n|\nselect 2")).toBe("select 2");
  expect(at("select 1;\n\n|select 2")).toBe("select 2");
  expect(at("select 1;\n\n|")).toBe("select 1");
  expect(at("|-- says\nselect 1")).toBe("select 1");
  expect(at("|")).toBe(null);
});

test("places of the server are characters, those of the browser are not", () => {
  expect(offsetOf("'😀' nope", 4)).toBe(5);
  expect(offsetOf("ab", 9)).toBe(2);
  expect(placeOf("select 1;\n", "select '😀',\n  nope", 14)).toEqual({ line: 3, column: 3 });
  expect(wordAt("avg(nope)", 4)).toEqual({ from: 4, to: 8 });
  expect(wordAt("a + ", 4)).toEqual({ from: 3, to: 4 });
  expect(wordAt("a ) b", 2)).toEqual({ from: 2, to: 3 });
});

test("names are quoted where they must be", () => {
  expect(
    ["trades", "Load_1", "order", "a b", '5"', "sys.ilp_rejects", "a.b"].map(quoteName),
  ).toEqual(["trades", "Load_1", '"order"', '"a b"', '"5"""', "sys.ilp_rejects", '"a.b"']);
  expect(unquoteName('"5"""')).toBe('5"');
});
