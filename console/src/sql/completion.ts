// What can stand at the cursor: tables, columns, functions, words.
//
// - CM1. Nothing is offered within a string, a comment or a number.
// - CM2. Behind `t.` only columns of `t` are; behind FROM and its like, tables come first.
// - CM3. Columns are those of the tables that the statement names, or of all if it names none yet.

import { PHRASES } from "./dialect";
import { quoteName, unquoteName } from "./names";
import { statements } from "./statements";
import { tokens, type Token } from "./tokens";

export interface CatalogTable {
  name: string;
  columns: { name: string; type: string }[];
}

export interface CatalogFunction {
  name: string;
  signature: string;
  kind: string;
  description: string;
}

export interface Catalog {
  tables: CatalogTable[];
  functions: CatalogFunction[];
}

export interface Suggestion {
  label: string;
  type: "table" | "column" | "function" | "keyword";
  detail: string;
  info?: string;
  /** What is written, if that is not the label. */
  apply?: string;
  /** Higher comes first. */
  boost: number;
}

export interface Suggestions {
  /** Where the word begins that is being written. */
  from: number;
  options: Suggestion[];
}

/** Words that a table's name follows. */
const BEFORE_TABLE = new Set(["from", "join", "into", "update", "table", "describe"]);

/** What can stand at `place`; `null` where nothing can. */
export function suggest(text: string, place: number, catalog: Catalog): Suggestions | null {
  const here = statementAround(text, place);
  const all = [...tokens(here.text)];
  const at = place - here.from;
  const inside = all.find((token) => token.from < at && at <= token.to);
  if (inside && isClosed(here.text, inside, at)) return null; // CM1
  const word = inside?.kind === "word" || inside?.kind === "quoted" ? inside : null;
  const from = word ? word.from : at;
  const before = all.filter((token) => token.to <= from && token.kind !== "comment");
  const written = (token: Token | undefined) =>
    token ? here.text.slice(token.from, token.to) : "";
  const named = namedTables(here.text, all, catalog);
  const last = before.at(-1);
  if (written(last) === ".") {
    const owner = unquoteName(written(before.at(-2))).toLowerCase();
    return { from: here.from + from, options: columnsOf(named.get(owner) ?? []) }; // CM2
  }
  const wantsTable = BEFORE_TABLE.has(written(last).toLowerCase());
  return { from: here.from + from, options: everything(catalog, named, wantsTable) };
}

/** The statement that is being written, with all that stands before the next semicolon. */
function statementAround(text: string, place: number): { from: number; text: string } {
  const spans = statements(text);
  const before = spans.findLast(({ to }) => to < place && text.slice(to, place).includes(";"));
  const from = before ? text.indexOf(";", before.to) + 1 : 0;
  const after = spans.find((span) => place <= span.from && span.from !== from);
  const around = spans.find((span) => span.from <= place && place <= span.to);
  const to = around
    ? around.to
    : Math.max(place, Math.min(after?.from ?? text.length, text.length));
  return { from, text: text.slice(from, Math.max(to, place)) };
}

/** Whether the cursor is within something that is no name. */
function isClosed(text: string, token: Token, at: number): boolean {
  if (token.kind === "number") return true;
  const isEnded = token.kind === "string" && at === token.to && 1 < token.to - token.from;
  if (token.kind === "string") return !(isEnded && text[token.to - 1] === "'");
  return token.kind === "comment" && !(at === token.to && text.startsWith("/*", token.from));
}

/** The tables of a statement by the names that they have in it. */
function namedTables(
  text: string,
  all: Token[],
  catalog: Catalog,
): Map<string, CatalogTable["columns"]> {
  const byName = new Map(catalog.tables.map((table) => [table.name.toLowerCase(), table]));
  const named = new Map<string, CatalogTable["columns"]>();
  const solid = all.filter(({ kind }) => kind !== "comment");
  for (let i = 0; i < solid.length; i++) {
    const [table, next] = nameFrom(text, solid, i);
    const found = byName.get(table);
    // A name that stands first is a query of its own: `trades WHERE ...`.
    const before =
      i === 0 ? "from" : text.slice(solid[i - 1]!.from, solid[i - 1]!.to).toLowerCase();
    if (!found || !(BEFORE_TABLE.has(before) || before === ",")) continue;
    named.set(table, found.columns);
    const alias = aliasAt(text, solid, next);
    if (alias) named.set(alias, found.columns);
  }
  return named;
}

/** A name of one or two parts, and the place behind it. */
function nameFrom(text: string, solid: Token[], i: number): [string, number] {
  const part = (token: Token | undefined) =>
    token && (token.kind === "word" || token.kind === "quoted")
      ? unquoteName(text.slice(token.from, token.to)).toLowerCase()
      : "";
  const isPair = solid[i + 1] !== undefined && text[solid[i + 1]!.from] === ".";
  return isPair ? [`${part(solid[i])}.${part(solid[i + 2])}`, i + 3] : [part(solid[i]), i + 1];
}

const NO_ALIAS = new Set([
  "where",
  "on",
  "sample",
  "latest",
  "group",
  "order",
  "limit",
  "join",
  "left",
  "right",
  "full",
  "inner",
  "cross",
  "asof",
  "lt",
  "union",
  "having",
  "set",
  "values",
  "select",
  "using",
  "window",
  "fill",
  "align",
  "tolerance",
  "timestamp",
  "except",
  "intersect",
  "natural",
  "partition",
]);

function aliasAt(text: string, solid: Token[], i: number): string | null {
  const word = (token: Token | undefined) =>
    token ? text.slice(token.from, token.to).toLowerCase() : "";
  const token = word(solid[i]) === "as" ? solid[i + 1] : solid[i];
  if (!token || (token.kind !== "word" && token.kind !== "quoted")) return null;
  const name = unquoteName(word(token));
  return NO_ALIAS.has(name) ? null : name;
}

function everything(
  catalog: Catalog,
  named: Map<string, CatalogTable["columns"]>,
  wantsTable: boolean,
): Suggestion[] {
  const tables = catalog.tables.map((table): Suggestion => {
    const detail = `table, ${table.columns.length} columns`;
    return named_(table.name, "table", detail, wantsTable ? 90 : 5);
  });
  const functions = catalog.functions.map(functionSuggestion);
  if (wantsTable) {
    const makers = catalog.functions.flatMap((one, i) =>
      one.kind === "TABLE" ? [functions[i]!] : [],
    );
    return [...tables, ...makers]; // CM2
  }
  const lists = 0 < named.size ? [...named.values()] : catalog.tables.map(({ columns }) => columns);
  const columns = columnsOf(lists.flat()); // CM3
  const words = PHRASES.map((label): Suggestion => ({
    label,
    type: "keyword",
    detail: "",
    boost: 0,
  }));
  return [...columns, ...tables, ...functions, ...words];
}

function columnsOf(columns: CatalogTable["columns"]): Suggestion[] {
  const byName = new Map(columns.map((column) => [column.name.toLowerCase(), column]));
  return [...byName.values()].map(({ name, type }) => named_(name, "column", type, 50));
}

function named_(name: string, type: "table" | "column", detail: string, boost: number): Suggestion {
  const apply = quoteName(name);
  return { label: name, type, detail, boost, ...(apply === name ? {} : { apply }) };
}

function functionSuggestion({ name, signature, kind, description }: CatalogFunction): Suggestion {
  const detail = kind.toLowerCase();
  const info = description === "" ? signature : `${signature}\n${description}`;
  return { label: name, type: "function", detail, info, apply: `${name}(`, boost: -10 };
}
