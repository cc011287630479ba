// SQL as tokens: as much of it as an editor needs.
//
// - TK1. Every character of the text is in one token or is white space, whatever the text is: a
//   string or comment without its end goes to the end of the text.

export type TokenKind = "word" | "quoted" | "string" | "number" | "comment" | "mark";

export interface Token {
  kind: TokenKind;
  from: number;
  to: number;
}

const SPACE = /\s/;
const WORD_START = /[\p{L}_$]/u;
const WORD = /[\p{L}\p{N}_$]/u;

export function* tokens(text: string): Generator<Token> {
  let at = 0;
  while (at < text.length) {
    const char = text[at]!;
    if (SPACE.test(char)) {
      at += 1;
      continue;
    }
    const [kind, to] = next(text, at, char);
    yield { kind, from: at, to };
    at = to;
  }
}

function next(text: string, at: number, char: string): [TokenKind, number] {
  if (char === "'") return ["string", afterQuote(text, at, "'")];
  if (char === '"') return ["quoted", afterQuote(text, at, '"')];
  if (char === "-" && text[at + 1] === "-") return ["comment", lineEnd(text, at)];
  if (char === "/" && text[at + 1] === "*") return ["comment", afterComment(text, at + 2)];
  if (WORD_START.test(char)) return ["word", while_(text, at, WORD)];
  if (/\d/.test(char)) return ["number", while_(text, at, /[\w.]/)];
  return ["mark", at + 1];
}

/** Behind the closing quote; one that is doubled does not close. */
function afterQuote(text: string, from: number, quote: string): number {
  let at = from + 1;
  while (at < text.length) {
    if (text[at] !== quote) at += 1;
    else if (text[at + 1] === quote) at += 2;
    else return at + 1;
  }
  return text.length;
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end < 0 ? text.length : end;
}

/** Behind the comment; they stand within each other. */
function afterComment(text: string, from: number): number {
  let [at, depth] = [from, 1];
  while (at < text.length && 0 < depth) {
    const two = text.slice(at, at + 2);
    if (two === "/*") depth += 1;
    else if (two === "*/") depth -= 1;
    at += two === "/*" || two === "*/" ? 2 : 1;
  }
  return at;
}

function while_(text: string, from: number, is: RegExp): number {
  let at = from;
  while (at < text.length && is.test(text[at]!)) at += 1;
  return at;
}
