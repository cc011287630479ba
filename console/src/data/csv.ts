// The first lines of a file, to show what is in it. The server reads the file itself, by its own
// rules: of what is guessed here, only the header is sent to it, so that what is shown is imported.

const DELIMITERS = [",", "\t", ";", "|"];

export interface Preview {
  delimiter: string;
  rows: string[][];
}

/** The records of a text whose end may be cut off; at most `rowsMax`. */
export function preview(text: string, rowsMax: number): Preview {
  const delimiter = guessDelimiter(text);
  const rows: string[][] = [];
  for (const record of records(text, delimiter)) {
    if (rows.length === rowsMax) break;
    rows.push(record);
  }
  return { delimiter, rows };
}

/** The one that the first line has most of. */
function guessDelimiter(text: string): string {
  const end = text.indexOf("\n");
  const line = end < 0 ? text : text.slice(0, end);
  const counts = DELIMITERS.map((delimiter) => line.split(delimiter).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))]!;
}

/** Records by RFC 4180; the last one only if it is ended. */
export function* records(text: string, delimiter: string): Generator<string[]> {
  let [record, field, isQuoted] = [[] as string[], "", false];
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (isQuoted) {
      if (char !== '"') field += char;
      else if (text[at + 1] === '"') field += text[at++]!;
      else isQuoted = false;
    } else if (char === '"' && field === "") {
      isQuoted = true;
    } else if (char === delimiter) {
      record.push(field);
      field = "";
    } else if (char === "\n") {
      record.push(field.endsWith("\r") ? field.slice(0, -1) : field);
      yield record;
      [record, field] = [[], ""];
    } else {
      field += char;
    }
  }
}

/** Whether a first record could be the names of columns: texts, each another one. */
export function looksLikeNames(record: string[]): boolean {
  const isName = (cell: string) => /^[A-Za-z_\u0080-\uffff][\w .\u0080-\uffff-]{0,63}$/.test(cell);
  const isValue = (cell: string) => looksLike([cell]) !== "text" || /^(true|false)$/i.test(cell);
  const names = record.map((cell) => cell.trim());
  const isDistinct = new Set(names.map((name) => name.toLowerCase())).size === names.length;
  return isDistinct && names.every((name) => isName(name) && !isValue(name));
}

/** The names of the columns and the rows of a preview, as the server makes them. */
export function withNames(rows: string[][], hasHeader: boolean): [string[], string[][]] {
  const [first, ...rest] = rows;
  if (!first) return [[], []];
  const names = first.map((cell, at) => (hasHeader ? cell.trim() : "") || `f${at}`);
  return [names, hasHeader ? rest : rows];
}

/** What more than half of the cells of a column look like. */
export function looksLike(cells: string[]): "time" | "number" | "text" {
  const filled = cells.filter((cell) => cell !== "");
  const most = (shape: RegExp) =>
    filled.length < 2 * filled.filter((cell) => shape.test(cell)).length;
  if (most(/^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}|$)/)) return "time";
  return most(/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i) ? "number" : "text";
}
