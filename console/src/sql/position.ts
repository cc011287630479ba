// Places in a statement, as the server and as the browser count them.

/** The place in a text of so many characters; the browser counts UTF-16. */
export function offsetOf(text: string, characters: number): number {
  let at = 0;
  for (let left = characters; 0 < left && at < text.length; left--) {
    at += 0xffff < text.codePointAt(at)! ? 2 : 1;
  }
  return at;
}

/** Line and column, from 1, of a place in a statement that stands behind another text. */
export function placeOf(
  before: string,
  sql: string,
  characters: number,
): { line: number; column: number } {
  const lines = (before + sql.slice(0, offsetOf(sql, characters))).split("\n");
  return { line: lines.length, column: [...lines.at(-1)!].length + 1 };
}

/** The word at a place, or the one character there: what is underlined. */
export function wordAt(text: string, at: number): { from: number; to: number } {
  const word = /^[\p{L}\p{N}_$]+/u.exec(text.slice(at));
  if (word) return { from: at, to: at + word[0].length };
  // At the end of the text there is nothing to underline but what stands before.
  return at < text.length ? { from: at, to: at + 1 } : { from: Math.max(0, at - 1), to: at };
}
