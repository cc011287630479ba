// Cells as text for the clipboard and for files.
//
// - TT1. TSV for the clipboard, as spreadsheets paste it: a tab or line end within a cell is a
//   space. NULL is empty.
// - TT2. CSV as RFC 4180 has it: NULL is empty, empty text is `""`, so that both come back.

import { isRightAligned, kindOf } from "./types";
import type { Rows } from "./cells";

/** A rectangle of cells: rows from..to and columns left..right, the ends not included. */
export interface Region {
  from: number;
  to: number;
  left: number;
  right: number;
}

export function toTsv(rows: Rows, region: Region, header: "with names" | "cells alone"): string {
  const lines: string[] = [];
  if (header === "with names") {
    lines.push(
      rows.columns
        .slice(region.left, region.right)
        .map(({ name }) => flat(name))
        .join("\t"),
    );
  }
  for (let row = region.from; row < region.to; row++) {
    const cells: string[] = [];
    for (let column = region.left; column < region.right; column++) {
      cells.push(flat(rows.cell(row, column) ?? ""));
    }
    lines.push(cells.join("\t"));
  }
  return lines.join("\n");
}

function flat(text: string): string {
  return text.replace(/[\t\r\n]+/g, " "); // TT1
}

/** Parts of a CSV file, some thousand rows each, for a Blob. */
export function* toCsv(rows: Rows): Generator<string> {
  yield `${rows.columns.map(({ name }) => quoted(name)).join(",")}\r\n`;
  const isBare = rows.columns.map(({ type }) => isRightAligned(type) || kindOf(type) === "boolean");
  let part: string[] = [];
  for (let row = 0; row < rows.length; row++) {
    const cells = rows.columns.map((_, column) => {
      const text = rows.cell(row, column);
      return text === null ? "" : isBare[column] ? text : quoted(text); // TT2
    });
    part.push(`${cells.join(",")}\r\n`);
    if (part.length === 4_096) {
      yield part.join("");
      part = [];
    }
  }
  yield part.join("");
}

function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}
