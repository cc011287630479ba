// The words of Tidegate's SQL, for colours and completion.

export const KEYWORDS = (
  "add after align alter analyze and any as asc asof at attach before between by calendar cancel " +
  "case cast column columns commit copy create cross dedup default delete desc disable distinct " +
  "drop else enable end except exists explain false fetch fill filter first following for from " +
  "full group having if ignore in inner insert intersect into is join keys last latest left like " +
  "ilike limit linear list lt natural none not null nulls observation offset on only or order " +
  "outer over param parameters partition partitions preceding prev query range recursive rename " +
  "reset right row rows sample select set show squash table tables then time timestamp to " +
  "tolerance true truncate ttl type unbounded union update upsert using values verify when where " +
  "window with within zone day week month year hour days weeks months years hours"
).split(" ");

export const TYPES = (
  "boolean tinyint smallint int integer bigint byte short long float real double decimal numeric " +
  "timestamp timestamp_ns date symbol varchar text string char uuid ipv4 binary interval"
).split(" ");

/** What is offered as a whole, because nobody writes the half of it. */
export const PHRASES = [
  "SELECT",
  "FROM",
  "WHERE",
  "GROUP BY",
  "ORDER BY",
  "SAMPLE BY",
  "LATEST ON",
  "PARTITION BY",
  "ASOF JOIN",
  "LT JOIN",
  "LEFT JOIN",
  "INNER JOIN",
  "CROSS JOIN",
  "TOLERANCE",
  "LIMIT",
  "OFFSET",
  "FILL(NULL)",
  "FILL(PREV)",
  "FILL(LINEAR)",
  "FILL(0)",
  "ALIGN TO CALENDAR",
  "ALIGN TO FIRST OBSERVATION",
  "TIME ZONE",
  "WITH OFFSET",
  "HAVING",
  "UNION ALL",
  "DISTINCT",
  "BETWEEN",
  "AND",
  "OR",
  "NOT",
  "IN",
  "IS NULL",
  "IS NOT NULL",
  "LIKE",
  "ILIKE",
  "AS",
  "ASC",
  "DESC",
  "CASE",
  "WHEN",
  "THEN",
  "ELSE",
  "END",
  "CAST",
  "OVER",
  "WITH",
  "EXISTS",
  "NULL",
  "INSERT INTO",
  "VALUES",
  "UPDATE",
  "SET",
  "DELETE FROM",
  "CREATE TABLE",
  "ALTER TABLE",
  "DROP TABLE",
  "TRUNCATE TABLE",
  "RENAME TABLE",
  "ADD COLUMN",
  "DROP PARTITION",
  "TIMESTAMP",
  "DEDUP UPSERT KEYS",
  "TTL",
  "EXPLAIN",
  "EXPLAIN ANALYZE",
  "SHOW TABLES",
  "SHOW COLUMNS FROM",
  "SHOW PARTITIONS FROM",
  "SHOW CREATE TABLE",
  "SHOW PARAMETERS",
  "CANCEL QUERY",
  "FILTER",
  "QUALIFY",
  "EXCEPT",
  "INTERSECT",
  "USING",
  "ON",
  "TRUE",
  "FALSE",
];
