// The first lines of a file, to show what is in it. The server reads the file itself, by its own
// rules: what is guessed here decides nothing but what the form offers.

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

/** What more than half of the cells of a column look like. */
export function looksLike(cells: string[]): "time" | "number" | "text" {
  const filled = cells.filter((cell) => cell !== "");
  const most = (shape: RegExp) =>
    filled.length < 2 * filled.filter((cell) => shape.test(cell)).length;
  if (most(/^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}|$)/)) return "time";
  return most(/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i) ? "number" : "text";
}
