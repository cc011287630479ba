// What the browser remembers: each value under a name of its own, with a bound.
//
// - ST1. What was stored can be anything (another version, another hand): whoever reads checks it.
// - ST2. A full or forbidden store is no error: then nothing is remembered.

const PREFIX = "tidegate.";

/** What was stored, if `check` takes it. */
export function load<T>(name: string, check: (value: unknown) => T | null, otherwise: T): T {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return (text === null ? null : check(JSON.parse(text))) ?? otherwise; // ST1
  } catch {
    return otherwise;
  }
}

export function save(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // ST2.
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
