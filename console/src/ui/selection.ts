// Which cells of a grid are selected: a rectangle between an anchor and a head.

import type { Region } from "../data/table_text";

export interface Place {
  row: number;
  column: number;
}

export interface Selection {
  anchor: Place;
  head: Place;
}

export function regionOf({ anchor, head }: Selection): Region {
  return {
    from: Math.min(anchor.row, head.row),
    to: Math.max(anchor.row, head.row) + 1,
    left: Math.min(anchor.column, head.column),
    right: Math.max(anchor.column, head.column) + 1,
  };
}

/** Where a key leads from a place; `null` if it leads nowhere. */
export function moved(
  { row, column }: Place,
  key: string,
  isFar: boolean,
  size: { rows: number; columns: number; page: number },
): Place | null {
  const [lastRow, lastColumn] = [size.rows - 1, size.columns - 1];
  const clamp = (value: number, most: number) => Math.max(0, Math.min(value, most));
  switch (key) {
    case "ArrowUp":
      return { row: isFar ? 0 : clamp(row - 1, lastRow), column };
    case "ArrowDown":
      return { row: isFar ? lastRow : clamp(row + 1, lastRow), column };
    case "ArrowLeft":
      return { row, column: isFar ? 0 : clamp(column - 1, lastColumn) };
    case "ArrowRight":
      return { row, column: isFar ? lastColumn : clamp(column + 1, lastColumn) };
    case "PageUp":
      return { row: clamp(row - size.page, lastRow), column };
    case "PageDown":
      return { row: clamp(row + size.page, lastRow), column };
    case "Home":
      return { row: isFar ? 0 : row, column: 0 };
    case "End":
      return { row: isFar ? lastRow : row, column: lastColumn };
    default:
      return null;
  }
}
