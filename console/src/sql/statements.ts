// Where statements begin and end, and which one is meant.

import { tokens } from "./tokens";

/** A statement's place, without the semicolon and what is around it. */
export interface Span {
  from: number;
  to: number;
}

export function statements(text: string): Span[] {
  const spans: Span[] = [];
  let span = null as Span | null;
  for (const token of tokens(text)) {
    if (token.kind === "mark" && text[token.from] === ";") {
      if (span) spans.push(span);
      span = null;
    } else if (token.kind !== "comment") {
      span = { from: span?.from ?? token.from, to: token.to };
    }
  }
  if (span) spans.push(span);
  return spans;
}

/**
 * The statement at a place: the one around it; else the one that ends on the same line, as when
 * the cursor is behind a semicolon; else the next; else the last.
 */
export function statementAt(text: string, place: number): Span | null {
  const spans = statements(text);
  const around = spans.find(({ from, to }) => from <= place && place <= to);
  if (around) return around;
  const before = spans.findLast(({ to }) => to <= place);
  if (before && !text.slice(before.to, place).includes("\n")) return before;
  return spans.find(({ from }) => place <= from) ?? before ?? null;
}
