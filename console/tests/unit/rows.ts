// Rows that tests are about.

import { ColumnBuilder, Rows } from "../../src/data/cells";

/** Rows of columns with names and types, in batches of so many. */
export function rowsOf(
  columns: [string, string][],
  values: (string | null)[][],
  batchRows = 2,
): Rows {
  const rows = new Rows(columns.map(([name, type]) => ({ name, type })));
  const utf8 = new TextEncoder();
  for (let from = 0; from < values.length; from += batchRows) {
    const part = values.slice(from, from + batchRows);
    const builders = columns.map((_, column) => {
      const builder = new ColumnBuilder();
      for (const row of part) {
        const value = row[column]!;
        if (value === null) builder.addNull();
        else builder.add(utf8.encode(value), 0, utf8.encode(value).length);
      }
      return builder.take();
    });
    rows.push({ rows: part.length, columns: builders });
  }
  return rows;
}
