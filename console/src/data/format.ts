// Numbers, sizes and times for people. Cells of an answer are not formatted: they are what came.

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** `1,234,567`. */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** `950`, `12.3 k`, `4.56 M`: three digits that matter. */
export function short(value: number): string {
  for (const [unit, factor] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const) {
    if (factor <= Math.abs(value)) return `${digits(value / factor)} ${unit}`;
  }
  return Number.isInteger(value) ? String(value) : digits(value);
}

/** `512 B`, `1.5 KiB`. */
export function bytes(value: number): string {
  let unit = 0;
  while (1024 <= Math.abs(value) && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : digits(value)} ${BYTE_UNITS[unit]}`;
}

/** `0.8 ms`, `120 ms`, `3.2 s`, `2 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** `1 row`, `2 rows`. */
export function plural(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

/** `just now`, `5 min ago`, `3 h ago`, then the date. */
export function ago(then: number, now: number): string {
  const minutes = Math.floor((now - then) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return new Date(then).toISOString().slice(0, 10);
}

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
}
