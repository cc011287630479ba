//! Statements that define tables and views.

use crate::fixture::{Random, TestDatabase, TestError, check_all, on_runtime};

#[test]
fn columns_of_each_type_hold_their_values() {
    check_all(
        &["CREATE TABLE t (ts TIMESTAMP, a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, \
           f FLOAT, g DOUBLE, h DECIMAL(10,3), i DATE, j SYMBOL, k VARCHAR, l UUID, m IPV4, \
           n TIMESTAMP_NS, o BINARY) TIMESTAMP(ts) PARTITION BY MONTH"],
        &[
            (
                "INSERT INTO t VALUES ('2025-03-01', true, -128, 32767, -2147483648, \
                 9223372036854775807, 0.5, 1e300, 1.5, '2025-03-01', 's', 'v', \
                 '00010203-0405-0607-0809-0a0b0c0d0e0f', '10.0.0.1', \
                  '2025-03-01T00:00:00.000000001', \
                 NULL)",
                "INSERT 0 1",
            ),
            ("SELECT a, b, c, d, e FROM t", "true -128 32767 -2147483648 9223372036854775807"),
            ("SELECT f, g, h, i, j, k FROM t", "0.5 1e300 1.500 2025-03-01 s v"),
            (
                "SELECT l::VARCHAR, m::VARCHAR, n FROM t",
                "00010203-0405-0607-0809-0a0b0c0d0e0f 10.0.0.1 2025-03-01T00:00:00.000000001",
            ),
            ("INSERT INTO t (ts) VALUES ('2025-03-02')", "INSERT 0 1"),
            ("SELECT count(*), count(a), count(k), count(o) FROM t", "2 1 1 0"),
            (
                "INSERT INTO t (ts, b) VALUES (0, 128)",
                "OutOfRange at 1:34: line 1, column 34: '128' is not a valid TINYINT: out of range",
            ),
            (
                "INSERT INTO t (ts, c) VALUES (0, 40000)",
                "OutOfRange at 1:34: line 1, column 34: '40000' is not a valid SMALLINT: out of \
                    range",
            ),
            (
                "INSERT INTO t (ts, h) VALUES (0, 12345678.5)",
                "OutOfRange at 1:34: line 1, column 34: '12345678.5' is not a valid DECIMAL(10,3): \
                 out of range",
            ),
            (
                "INSERT INTO t (ts, l) VALUES (0, 'no')",
                "InvalidText at 1:34: line 1, column 34: 'no' is not a valid UUID: expected a \
                    UUID like 123e4567-e89b-12d3-a456-426614174000",
            ),
            (
                "INSERT INTO t (ts, m) VALUES (0, '1.2.3')",
                "InvalidText at 1:34: line 1, column 34: '1.2.3' is not a valid IPV4: expected \
                    four numbers of 0 to 255 with points",
            ),
            ("SELECT count(*) FROM t", "2"),
        ],
    );
}

#[test]
fn names_keep_their_case_and_are_found_in_any() {
    check_all(
        &["CREATE TABLE \"Trades\" (\"Ts\" TIMESTAMP, \"a b\" INT) TIMESTAMP(\"Ts\")"],
        &[
            ("INSERT INTO TRADES VALUES (1, 2)", "INSERT 0 1"),
            ("SELECT \"A B\", TS FROM trades", "2 1970-01-01T00:00:00.000001"),
            ("CREATE TABLE trades (a INT)", "DuplicateTable: table `trades` exists already"),
            ("ALTER TABLE trades RENAME COLUMN \"A b\" TO c", "ALTER TABLE"),
            ("SELECT C FROM trades", "2"),
            ("RENAME TABLE TRADES TO \"Deals\"", "RENAME TABLE"),
            ("SELECT count(*) FROM deals", "1"),
            ("SELECT table_name FROM tables()", "Deals"),
        ],
    );
}

#[test]
fn columns_come_and_go() {
    check_all(
        &[
            "CREATE TABLE t (ts TIMESTAMP, a INT) TIMESTAMP(ts)",
            "INSERT INTO t VALUES (1, 10), (2, 20)",
        ],
        &[
            ("ALTER TABLE t ADD COLUMN b SYMBOL", "ALTER TABLE"),
            ("SELECT a, b FROM t", "10 NULL\n20 NULL"),
            ("ALTER TABLE t ADD COLUMN c INT DEFAULT 7", "ALTER TABLE"),
            ("SELECT a, c FROM t", "10 7\n20 7"),
            ("INSERT INTO t (ts) VALUES (3)", "INSERT 0 1"),
            ("SELECT a, b, c FROM t WHERE ts = 3", "NULL NULL 7"),
            ("ALTER TABLE t ALTER COLUMN c SET DEFAULT 8", "ALTER TABLE"),
            ("ALTER TABLE t RENAME COLUMN a TO d", "ALTER TABLE"),
            ("ALTER TABLE t DROP COLUMN b", "ALTER TABLE"),
            ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE"),
            ("INSERT INTO t (ts) VALUES (4)", "INSERT 0 1"),
            ("SELECT d, a, c FROM t", "10 NULL 7\n20 NULL 7\nNULL NULL 7\nNULL NULL 8"),
            ("ALTER TABLE t ALTER COLUMN c DROP DEFAULT", "ALTER TABLE"),
            ("ALTER TABLE t ALTER COLUMN c TYPE INT", "ALTER TABLE"),
            (
                "ALTER TABLE t ALTER COLUMN c TYPE VARCHAR",
                "FeatureNotSupported at 1:28: line 1, column 28: ALTER COLUMN .. TYPE of another \
                    type is not supported: make the table anew with CREATE TABLE .. AS, and CAST \
                    the column",
            ),
        ],
    );
}

#[test]
fn partitions_are_dropped_by_name_and_by_condition() {
    check_all(
        &[
            "CREATE TABLE t (ts TIMESTAMP, a INT) TIMESTAMP(ts) PARTITION BY DAY",
            "INSERT INTO t SELECT dateadd('d', CAST(x AS INT), '2025-02-28'::TIMESTAMP), x \
             FROM long_sequence(6)",
        ],
        &[
            ("ALTER TABLE t DROP PARTITION LIST '2025-03-01', '2025-03-02'", "ALTER TABLE"),
            ("SELECT a FROM t", "3\n4\n5\n6"),
            ("ALTER TABLE t DROP PARTITION WHERE ts < '2025-03-05'", "ALTER TABLE"),
            ("SELECT a FROM t", "5\n6"),
            ("ALTER TABLE t DROP PARTITION WHERE ts < '2025-03-05T12:00:00'", "ALTER TABLE"),
            ("SELECT a FROM t", "5\n6"),
            (
                "ALTER TABLE t DROP PARTITION LIST '2031-01-01'",
                "UndefinedObject at 1:35: line 1, column 35: partition `2031-01-01` does not exist",
            ),
            (
                "ALTER TABLE t DROP PARTITION LIST 'x'",
                "UndefinedObject at 1:35: line 1, column 35: partition `x` does not exist",
            ),
            (
                "ALTER TABLE t DROP PARTITION WHERE a = 1",
                "InvalidObjectDefinition at 1:36: line 1, column 36: DROP PARTITION WHERE takes \
                    conditions on the designated timestamp only",
            ),
            ("ALTER TABLE t SET TTL 1 DAY", "ALTER TABLE"),
            ("ALTER TABLE t SET TTL 0", "ALTER TABLE"),
            (
                "ALTER TABLE t SET TTL 90 MINUTES",
                "SyntaxError at 1:26: line 1, column 26: expected HOURS, DAYS, WEEKS, MONTHS or \
                    YEARS, found `MINUTES`",
            ),
        ],
    );
}

#[test]
fn temporary_tables_hide_others_and_end_with_their_session() {
    on_runtime(async {
        let mut test = TestDatabase::after(&[
            "CREATE TABLE t (a INT)",
            "INSERT INTO t VALUES (1)",
            "CREATE TEMP TABLE t (a INT)",
            "INSERT INTO t VALUES (2), (3)",
        ])
        .await?;
        test.check("SELECT a FROM t", "2\n3").await;
        test.check("SELECT a FROM public.t", "1").await;
        test.check("SELECT a FROM pg_temp.t", "2\n3").await;
        test.check("UPDATE t SET a = a * 10", "UPDATE 2").await;
        test.check("DELETE FROM t WHERE a = 20", "DELETE 1").await;
        test.check("SELECT a FROM t", "30").await;
        let own = std::mem::replace(&mut test.session, crate::fixture::lasting_session());
        test.check("SELECT a FROM t", "1").await;
        test.session = own;
        test.check("DROP TABLE t", "DROP TABLE").await;
        test.check("SELECT a FROM t", "1").await;
        test.run("begin").await?;
        test.check("CREATE TEMP TABLE u (a INT) ON COMMIT DROP", "CREATE TABLE").await;
        test.check("INSERT INTO u VALUES (1)", "INSERT 0 1").await;
        test.check("SELECT a FROM u", "1").await;
        test.run("commit").await?;
        assert!(test.output("SELECT a FROM u").await.is_err());
        Ok::<(), TestError>(())
    });
}

#[test]
fn views_stand_for_their_queries() {
    check_all(
        &[
            "CREATE TABLE t (ts TIMESTAMP, a INT) TIMESTAMP(ts)",
            "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
            "CREATE VIEW large AS SELECT ts, a AS b FROM t WHERE a > 10",
        ],
        &[
            ("SELECT b FROM large", "20\n30"),
            ("SELECT max(b) FROM large WHERE ts < 3", "20"),
            ("CREATE VIEW largest AS SELECT max(b) AS c FROM large", "CREATE VIEW"),
            ("largest", "30"),
            ("INSERT INTO t VALUES (4, 40)", "INSERT 0 1"),
            ("largest", "40"),
            ("CREATE VIEW large AS SELECT 1 AS a", "DuplicateTable: view `large` exists already"),
            ("INSERT INTO large VALUES (1, 2)", "WrongObjectType: `large` is a view, not a table"),
            ("DROP TABLE large", "WrongObjectType: `large` is a view, not a table"),
            ("DROP VIEW t", "WrongObjectType: `t` is a table, not a view"),
            ("ALTER TABLE t RENAME COLUMN a TO z", "ALTER TABLE"),
            ("SELECT b FROM large", "20\n30\n40"),
            ("ALTER TABLE t DROP COLUMN z", "ALTER TABLE"),
            (
                "SELECT b FROM large",
                "UndefinedColumn: view `large`: line 1, column 12: column `a` does not exist, is \
                    `ts` meant?",
            ),
            ("CREATE OR REPLACE VIEW large AS SELECT ts, 1 AS b FROM t", "CREATE VIEW"),
            ("largest", "1"),
            (
                "DROP VIEW large",
                "DROP VIEW; view `largest` reads `large`, and cannot be read without it",
            ),
            (
                "largest",
                "UndefinedTable: view `largest`: line 1, column 25: table `large` does not exist",
            ),
            ("DROP VIEW IF EXISTS large", "DROP VIEW; view `large` does not exist"),
        ],
    );
}

/// A random table in the syntax that `SHOW CREATE TABLE` writes.
fn definition(random: &mut Random, name: &str) -> String {
    const TYPES: [&str; 14] = [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(18,4)",
        "DATE",
        "SYMBOL",
        "VARCHAR",
        "VARCHAR(7)",
        "UUID",
        "TIMESTAMP_NS",
    ];
    let mut columns = Vec::new();
    for at in 0..1 + random.below(8) {
        let (_, ty) = random.one_of(&TYPES);
        columns.push(format!("\"c {at}\" {ty}"));
    }
    if random.below(4) == 0 {
        return format!("CREATE TABLE {name} ({})", columns.join(", "));
    }
    let at = usize::try_from(random.below(columns.len() as u64 + 1)).expect("it is below");
    columns.insert(at, "ts TIMESTAMP".to_owned());
    let (_, unit) = random.one_of(&["HOUR", "DAY", "WEEK", "MONTH", "YEAR", "NONE"]);
    let ttl = match (random.below(3), *unit) {
        (0, "DAY") => " TTL 30 DAYS",
        (0, "MONTH") => " TTL 12 MONTHS",
        _ => "",
    };
    let keys = if random.below(3) == 0 { " DEDUP UPSERT KEYS(ts)" } else { "" };
    let columns = columns.join(", ");
    format!("CREATE TABLE {name} ({columns}) TIMESTAMP(ts) PARTITION BY {unit}{ttl}{keys}")
}

/// Creates a table from the statement that SHOW CREATE TABLE gives for another one: both have the
/// same columns and the same statement.
#[test]
fn the_statement_of_a_table_makes_the_same_table() {
    on_runtime(async {
        let mut test = TestDatabase::new()?;
        let mut random = Random(8);
        for number in 0..40 {
            let (name, copy) = (format!("t{number}"), format!("copy{number}"));
            let sql = definition(&mut random, &name);
            test.run(&sql).await.map_err(|error| TestError(format!("{sql}: {error}")))?;
            let statement =
                test.rows(&format!("SHOW CREATE TABLE {name}")).await?.concat().concat();
            let again = statement.replacen(&name, &copy, 1);
            test.run(&again).await.map_err(|error| TestError(format!("{again}: {error}")))?;
            let columns = |name: &str| format!("SHOW COLUMNS FROM {name}");
            let (first, second) =
                (test.rows(&columns(&name)).await?, test.rows(&columns(&copy)).await?);
            assert_eq!(first, second, "seed 8: {sql}");
            let copied = test.rows(&format!("SHOW CREATE TABLE {copy}")).await?.concat().concat();
            assert_eq!(copied.replacen(&copy, &name, 1), statement, "seed 8: {sql}");
        }
        Ok::<(), TestError>(())
    });
}
