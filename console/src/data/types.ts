// What kind of values a type has, by the names that the server gives.

export type Kind = "number" | "time" | "boolean" | "symbol" | "text" | "bytes";

const NUMBERS = new Set([
  "BYTE",
  "SHORT",
  "INT",
  "LONG",
  "UTINYINT",
  "USMALLINT",
  "UINT",
  "UBIGINT",
  "FLOAT",
  "DOUBLE",
  "TINYINT",
  "SMALLINT",
  "BIGINT",
  "INTEGER",
  "REAL",
]);

export function kindOf(type: string): Kind {
  const name = type.toUpperCase();
  if (NUMBERS.has(name) || name.startsWith("DECIMAL")) return "number";
  if (name.startsWith("TIMESTAMP") || name === "DATE") return "time";
  if (name === "BOOLEAN") return "boolean";
  if (name === "SYMBOL") return "symbol";
  return name === "BINARY" ? "bytes" : "text";
}

/** Numbers stand at the right, so that their digits are below each other. */
export function isRightAligned(type: string): boolean {
  return kindOf(type) === "number";
}
