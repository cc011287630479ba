// A scroll bar for more rows than a browser has pixels.
//
// - SC1. `top` is where the view begins, in pixels of all rows, whatever the browser's bar can say.
// - SC2. Up to `SPACE_MAX` pixels the bar is exact, and the browser scrolls by itself. Beyond, the
//   bar stands for a part of the whole: dragging it goes anywhere, and wheel and keys, which we
//   apply ourselves, go by rows.

/** Browsers lay out 17 million pixels and more; some less exactly than others. */
export const SPACE_MAX = 8_000_000;

/** The height that the browser is told. */
export function spaceOf(total: number): number {
  return Math.min(total, SPACE_MAX);
}

/** Where the bar stands for a top. */
export function barOf(top: number, total: number, seen: number): number {
  const space = spaceOf(total);
  if (space === total) return top;
  return (top / (total - seen)) * (space - seen);
}

/** Which top a place of the bar stands for. */
export function topOf(bar: number, total: number, seen: number): number {
  const space = spaceOf(total);
  if (space === total) return bar;
  return space <= seen ? 0 : (bar / (space - seen)) * (total - seen);
}

/** A top that shows nothing beyond the ends. */
export function clampTop(top: number, total: number, seen: number): number {
  return Math.max(0, Math.min(top, total - seen));
}
