// Names of tables and columns as SQL has them.

const RESERVED = new Set(
  (
    "all and any as asc between by case cast create cross delete desc distinct drop else end " +
    "exists false from full group having in inner insert into is join latest left like limit " +
    "not null on or order outer over partition right sample select set table then to true union " +
    "update using values when where window with"
  ).split(" "),
);

/** A name as it can stand in a statement: quoted only where it must be. */
export function quoteName(name: string): string {
  const isPlain = (part: string) =>
    /^[a-z_][a-z0-9_]*$/i.test(part) && !RESERVED.has(part.toLowerCase());
  if (isPlain(name)) return name;
  // Tables of the system have a schema.
  if (name.startsWith("sys.") && isPlain(name.slice(4))) return name;
  return `"${name.replaceAll('"', '""')}"`;
}

/** A quoted name as it is meant. */
export function unquoteName(text: string): string {
  return text.startsWith('"') ? text.slice(1).replace(/"$/, "").replaceAll('""', '"') : text;
}
