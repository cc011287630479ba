//! Statements of each kind: their command tags, their rows, and their errors with positions.

use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use tidegate_query::{
    Access, Condition, Described, EngineOptions, Error, Origin, Parameter, Role, Session,
    StatementOptions, Timeout,
};
use tidegate_storage::TYPE_KEY;

use crate::fixture::{
    TestDatabase, TestError, check_all, engine_options, on_runtime, shown, taken,
};

const TRADES: &[&str] = &[
    "CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, price DOUBLE, n INT) \
     TIMESTAMP(ts) PARTITION BY DAY",
    "INSERT INTO trades VALUES ('2025-03-01T10:00:00', 'a', 1.5, 1), \
     ('2025-03-01T11:00:00', 'b', 2.5, NULL), ('2025-03-02T00:00:00', NULL, NULL, 3)",
];

#[test]
fn each_kind_of_statement_has_its_command_tag() {
    check_all(
        TRADES,
        &[
            ("SELECT 1", "1"),
            ("VALUES (1, 'x'), (2, NULL)", "1 x\n2 NULL"),
            (
                "trades",
                "2025-03-01T10:00:00 a 1.5 1\n2025-03-01T11:00:00 b 2.5 NULL\n2025-03-02T00:00:00 \
                    NULL NULL 3",
            ),
            ("trades WHERE n = 1", "2025-03-01T10:00:00 a 1.5 1"),
            ("CREATE TABLE t (a INT)", "CREATE TABLE"),
            ("CREATE TABLE IF NOT EXISTS t (a INT)", "CREATE TABLE; table `t` exists already"),
            ("CREATE TABLE u AS SELECT n FROM trades", "CREATE TABLE"),
            ("INSERT INTO t VALUES (1), (2)", "INSERT 0 2"),
            ("UPDATE t SET a = a + 1", "UPDATE 2"),
            ("DELETE FROM t WHERE a = 3", "DELETE 1"),
            ("TRUNCATE TABLE t", "TRUNCATE TABLE"),
            ("ALTER TABLE t ADD COLUMN b INT", "ALTER TABLE"),
            ("ALTER TABLE t RENAME COLUMN b TO c", "ALTER TABLE"),
            ("ALTER TABLE t DROP COLUMN c", "ALTER TABLE"),
            ("RENAME TABLE t TO t2", "RENAME TABLE"),
            ("CREATE VIEW v AS SELECT a FROM t2", "CREATE VIEW"),
            ("DROP VIEW v", "DROP VIEW"),
            ("DROP TABLE t2, u", "DROP TABLE"),
            ("DROP TABLE IF EXISTS t2", "DROP TABLE; table `t2` does not exist"),
            ("SET statement_timeout = 5000", "SET"),
            ("RESET statement_timeout", "SET"),
            ("COMMENT ON TABLE trades IS 'of the market'", "COMMENT"),
            ("VACUUM", "VACUUM; VACUUM has no effect: maintenance goes on in the background"),
            (
                "ANALYZE trades",
                "ANALYZE; ANALYZE has no effect: maintenance goes on in the background",
            ),
        ],
    );
}

/// Statements, each with its error: condition, place and message.
const ERRORS: &[(&str, &str)] = &[
    (
        "SELEC 1",
        "SyntaxError at 1:1: line 1, column 1: expected SELECT, VALUES, or a subquery in \
                    the query body, found `SELEC`",
    ),
    ("", "SyntaxError at 1:1: line 1, column 1: there is no statement"),
    (
        "SELECT 1; SELECT 2",
        "SyntaxError at 1:9: line 1, column 9: expected the end of the query, found `;`",
    ),
    ("SELECT 'open", "SyntaxError at 1:8: line 1, column 8: this ' is never closed"),
    ("SELECT \"open", "SyntaxError at 1:8: line 1, column 8: this \" is never closed"),
    ("SELECT (1", "SyntaxError at 1:10: line 1, column 10: expected ), found the end"),
    ("SELECT 1)", "SyntaxError at 1:9: line 1, column 9: expected the end of the query, found `)`"),
    (
        "SELECT\n  nope FROM trades",
        "UndefinedColumn at 2:3: line 2, column 3: column `nope` does not exist",
    ),
    (
        "SELECT * FROM nope",
        "UndefinedTable at 1:15: line 1, column 15: table `nope` does not exist",
    ),
    (
        "SELECT n\nFROM trades\nWHERE nope = 1",
        "UndefinedColumn at 3:7: line 3, column 7: column `nope` does not exist",
    ),
    (
        "SELECT nope(1)",
        "UndefinedFunction at 1:8: line 1, column 8: Invalid function 'nope'. Did you \
                    mean 'now'?",
    ),
    (
        "SELECT a.n FROM trades a, trades b WHERE n = 1",
        "AmbiguousName at 1:10: line 1, column 10: column `n` could be one of several \
                    columns",
    ),
    (
        "SELECT trades.n FROM trades a",
        "UndefinedColumn at 1:15: line 1, column 15: column `trades.n` does not exist, is \
                    `ts` meant?",
    ),
    (
        "SELECT n FROM trades a, trades a",
        "DuplicateAlias: Schema contains duplicate qualified field name a.ts",
    ),
    (
        "SELECT max(n) FROM trades WHERE max(n) > 1",
        "Grouping: Aggregate functions are not allowed in the WHERE clause. Consider \
                    using HAVING instead",
    ),
    (
        "SELECT n, max(price) FROM trades GROUP BY sym",
        "Grouping at 1:8: line 1, column 8: Column in SELECT must be in GROUP BY or an \
                    aggregate function: While expanding wildcard, column \"trades.n\" must appear \
                    in the GROUP BY clause or must be part of an aggregate function, currently \
                    only \"trades.sym, max(trades.price)\" appears in the SELECT clause satisfies \
                    this requirement",
    ),
    ("SELECT (SELECT n FROM trades)", "Cardinality: Scalar subquery returned more than one row"),
    (
        "SELECT 1 / (n - n) FROM trades",
        "DivisionByZero at 1:10: line 1, column 10: division by zero",
    ),
    (
        "SELECT CAST('x' AS INT)",
        "InvalidText at 1:13: line 1, column 13: 'x' is not a valid INT: expected a number",
    ),
    (
        "SELECT CAST(3000000000 AS INT)",
        "OutOfRange at 1:13: line 1, column 13: '3000000000' is not a valid INT: out of \
                    range",
    ),
    (
        "SELECT CAST('2025-13-01' AS TIMESTAMP)",
        "DatetimeOverflow at 1:13: line 1, column 13: '2025-13-01' is not a valid \
                    TIMESTAMP: there is no such date or time",
    ),
    (
        "SELECT CAST(1 AS NOTYPE)",
        "UndefinedObject at 1:18: line 1, column 18: Unsupported SQL type notype",
    ),
    ("SELECT * FROM trades WHERE sym ~ '('", "InvalidPattern: regex parse error: unclosed group"),
    (
        "SELECT * FROM trades WHERE ts IN '2025-13'",
        "DatetimeOverflow at 1:34: line 1, column 34: '2025-13' is not a valid TIMESTAMP: \
                    there is no such date or time",
    ),
    (
        "SELECT * FROM trades LIMIT -3, 2",
        "InvalidParameter at 1:29: line 1, column 29: LIMIT with a negative lower bound \
                    takes no positive upper bound",
    ),
    (
        "SELECT * FROM trades SAMPLE BY 1x",
        "SyntaxError at 1:33: line 1, column 33: expected one of the units n U T s m h d \
                    w M y, found `x`",
    ),
    (
        "SELECT ts, count() FROM trades SAMPLE BY 1h FILL(SOMETHING)",
        "InvalidParameter at 1:32: line 1, column 32: FILL takes constants of the \
                    aggregate's type, and that of `count()` has another",
    ),
    (
        "SELECT * FROM trades LATEST ON nope PARTITION BY sym",
        "UndefinedColumn at 1:32: line 1, column 32: column `nope` does not exist",
    ),
    (
        "SELECT * FROM trades ORDER BY 9",
        "InvalidColumnReference at 1:31: line 1, column 31: Order by column out of \
                    bounds, specified: 9, max: 4",
    ),
    (
        "INSERT INTO trades VALUES (1, 2)",
        "SyntaxError at 1:27: line 1, column 27: 2 values for 4 columns",
    ),
    (
        "INSERT INTO trades (ts, nope) VALUES (1, 2)",
        "UndefinedColumn at 1:25: line 1, column 25: column `nope` does not exist",
    ),
    (
        "INSERT INTO trades (ts, ts) VALUES (1, 2)",
        "DuplicateColumn at 1:25: line 1, column 25: column `ts` comes twice",
    ),
    (
        "INSERT INTO trades (n) VALUES (1)",
        "NotNull at 1:21: line 1, column 21: column `ts` is the designated timestamp, and \
                    cannot be NULL",
    ),
    (
        "INSERT INTO nope VALUES (1)",
        "UndefinedTable at 1:13: line 1, column 13: table `nope` does not exist",
    ),
    (
        "UPDATE trades SET nope = 1",
        "UndefinedColumn at 1:19: line 1, column 19: column `nope` does not exist",
    ),
    (
        "UPDATE trades SET ts = 1",
        "FeatureNotSupported at 1:19: line 1, column 19: UPDATE of the designated \
                    timestamp is not supported yet",
    ),
    (
        "DELETE FROM trades USING trades t WHERE trades.n = t.n",
        "FeatureNotSupported at 1:20: line 1, column 20: DELETE with USING is not \
                    supported yet",
    ),
    ("CREATE TABLE trades (a INT)", "DuplicateTable: table `trades` exists already"),
    (
        "CREATE TABLE t (a INT, a INT)",
        "DuplicateColumn: column `a` is there twice (names are compared without case)",
    ),
    (
        "CREATE TABLE t (a NOTYPE)",
        "UndefinedObject at 1:19: line 1, column 19: type `NOTYPE` does not exist",
    ),
    (
        "CREATE TABLE t (a INT) TIMESTAMP(a)",
        "InvalidObjectDefinition: column `a` is INT, but a designated timestamp is \
                    TIMESTAMP or TIMESTAMP_NS",
    ),
    (
        "CREATE TABLE t (a INT) PARTITION BY DAY",
        "InvalidObjectDefinition: PARTITION BY DAY needs a designated timestamp",
    ),
    ("DROP TABLE nope", "UndefinedTable at 1:12: line 1, column 12: table `nope` does not exist"),
    (
        "ALTER TABLE trades DROP COLUMN ts",
        "InvalidTableDefinition: column `ts` is the designated timestamp and cannot be \
                    dropped",
    ),
    (
        "ALTER TABLE trades DROP COLUMN nope",
        "UndefinedColumn at 1:32: line 1, column 32: column `nope` does not exist",
    ),
    (
        "ALTER TABLE trades ADD COLUMN n INT",
        "DuplicateColumn: column `n` is there twice (names are compared without case)",
    ),
    (
        "ALTER TABLE trades RENAME COLUMN n TO price",
        "DuplicateColumn: column `price` is there twice (names are compared without case)",
    ),
    ("SET nope = 1", "UndefinedObject at 1:5: line 1, column 5: there is no setting `nope`"),
    (
        "SET statement_timeout = 'soon'",
        "InvalidParameter at 1:5: line 1, column 5: statement_timeout cannot be 'soon': \
                    it takes milliseconds, or a time like 5s, of at most 24 hours, or 0 for none",
    ),
    ("SHOW nope", "UndefinedObject at 1:6: line 1, column 6: there is no setting `nope`"),
    (
        "CANCEL QUERY 99",
        "UndefinedObject at 1:14: line 1, column 14: there is no statement 99 that could \
                    be cancelled",
    ),
    (
        "EXPLAIN SELEC 1",
        "SyntaxError at 1:9: line 1, column 9: expected SELECT, VALUES, or a subquery in \
                    the query body, found `SELEC`",
    ),
    ("COPY trades FROM 'x.csv'", "InvalidStatement: this program does not copy files"),
    (
        "INSERT INTO sys.ilp_rejects (ts) VALUES (1)",
        "NotAllowed at 1:13: line 1, column 13: permission denied: table \
                    `sys.ilp_rejects` is one of the system's",
    ),
    (
        "GRANT ALL ON trades TO bob",
        "FeatureNotSupported at 1:1: line 1, column 1: GRANT is not supported yet",
    ),
    (
        "CREATE VIEW v AS SELECT nope FROM trades",
        "UndefinedColumn at 1:25: line 1, column 25: column `nope` does not exist",
    ),
    ("SELECT $1", "SyntaxError at 1:8: line 1, column 8: there is no value for $1: 0 given"),
];

#[test]
fn errors_name_their_condition_and_their_place() {
    check_all(TRADES, ERRORS);
}

/// Positions count characters, not bytes, and lines from 1.
#[test]
fn positions_count_lines_and_characters() {
    check_all(
        TRADES,
        &[
            (
                "SELECT '\u{e9}\u{1F600}', nope FROM trades",
                "UndefinedColumn at 1:14: line 1, column 14: column `nope` does not exist",
            ),
            (
                "-- first\n/* second\nthird */ SELECT nope FROM trades",
                "UndefinedColumn at 3:17: line 3, column 17: column `nope` does not exist",
            ),
            (
                "SELECT 1,\r\n\tnope",
                "UndefinedColumn at 2:2: line 2, column 2: column `nope` does not exist",
            ),
            (
                "SELECT \"Ts\", \"nope\" FROM trades",
                "UndefinedColumn at 1:14: line 1, column 14: column `nope` does not exist",
            ),
        ],
    );
}

#[test]
fn parameters_have_values_and_types() {
    on_runtime(async {
        let test = TestDatabase::after(TRADES).await?;
        let text = |text: &str| Parameter::Text(text.to_owned());
        let typed =
            |ty: &'static str, text: &str| Parameter::Typed(ty.into(), Some(text.to_owned()));
        for (sql, parameters, expected) in [
            ("SELECT $1 + 1", vec![Parameter::Integer(41)], "42"),
            ("SELECT $2, $1, $2", vec![text("a"), Parameter::Boolean(true)], "true a true"),
            ("SELECT $1", vec![Parameter::Null], "NULL"),
            ("SELECT $1 * 2", vec![Parameter::Double(0.25)], "0.5"),
            ("SELECT n FROM trades WHERE sym = $1", vec![text("a")], "1"),
            ("SELECT n FROM trades WHERE ts = $1", vec![text("2025-03-02")], "3"),
            ("SELECT n FROM trades WHERE ts IN $1", vec![text("2025-03-02")], "3"),
            ("SELECT n FROM trades LIMIT $1", vec![Parameter::Integer(1)], "1"),
            ("SELECT n FROM trades LIMIT $1", vec![Parameter::Integer(-1)], "3"),
            ("SELECT $1", vec![typed("DATE", "2025-03-01")], "2025-03-01"),
            ("SELECT encode($1, 'hex')", vec![Parameter::Bytes(vec![0, 255])], "00ff"),
            (
                "SELECT n FROM trades WHERE n = ANY($1)",
                vec![Parameter::List(None, vec![Parameter::Integer(3), Parameter::Null])],
                "3",
            ),
            (
                "INSERT INTO trades VALUES ($1, $2, $3, $4)",
                vec![text("2025-03-03"), text("c"), Parameter::Double(1.0), Parameter::Integer(9)],
                "INSERT 0 1",
            ),
            (
                "UPDATE trades SET n = $1 WHERE sym = $2",
                vec![Parameter::Integer(10), text("c")],
                "UPDATE 1",
            ),
            ("SELECT n FROM trades WHERE n = $1", vec![typed("INT", "10")], "10"),
            ("DELETE FROM trades WHERE n = $1", vec![Parameter::Integer(10)], "DELETE 1"),
            (
                "SELECT $1, $3",
                vec![text("a"), text("b")],
                "SyntaxError at 1:12: line 1, column 12: there is no value for $3: 2 given",
            ),
        ] {
            let options = test.options();
            let outcome = match test.engine().execute_bound(sql, &parameters, &options).await {
                Ok(answer) => taken(answer).await,
                Err(error) => Err(error),
            };
            assert_eq!(shown(outcome), expected, "{sql} with {parameters:?}");
        }
        Ok::<(), TestError>(())
    });
}

/// Returns the types of a statement's parameters, in PostgreSQL's words.
fn parameter_types(described: &Described) -> String {
    let name = |(at, found): (usize, &Option<FieldRef>)| {
        let ty = found.as_ref().map(|field| field.data_type());
        let tag = found.as_ref().and_then(|field| field.metadata().get(TYPE_KEY));
        match ty {
            Some(DataType::FixedSizeBinary(16)) if tag.is_some_and(|tag| tag == "uuid") => "uuid",
            Some(DataType::UInt32) if tag.is_some_and(|tag| tag == "ipv4") => "ipv4",
            Some(DataType::Binary | DataType::BinaryView) => "bytea",
            None if described.untyped.contains(&at) => "none",
            None | Some(DataType::Utf8 | DataType::Utf8View) => "text",
            Some(DataType::Boolean) => "bool",
            Some(DataType::Int32) => "int4",
            Some(DataType::Int64) => "int8",
            Some(DataType::Float64) => "float8",
            Some(DataType::Decimal128(..)) => "numeric",
            Some(DataType::Timestamp(..)) => "timestamp",
            Some(DataType::Interval(_)) => "interval",
            Some(other) => panic!("no parameter is expected to be a {other}"),
        }
    };
    described.parameters.iter().enumerate().map(name).collect::<Vec<_>>().join(", ")
}

/// The types are those of PostgreSQL 15, but a constant beside VALUES is a BIGINT.
const DESCRIBED: &[(&str, &str)] = &[
    ("SELECT lag(n, $1, $2) OVER (ORDER BY ts) FROM trades", "int4, int4"),
    ("SELECT lead(ts, 1, $1) OVER (ORDER BY ts) FROM trades", "timestamp"),
    ("SELECT nth_value(price, $1) OVER (ORDER BY ts) FROM trades", "int4"),
    ("SELECT ntile($1) OVER (ORDER BY ts) FROM trades", "int4"),
    ("SELECT sum(price) OVER (ORDER BY ts ROWS $1 PRECEDING) FROM trades", "int8"),
    ("SELECT sum(price) OVER (ORDER BY ts RANGE $1 PRECEDING) FROM trades", "interval"),
    ("SELECT $1 || 'a'", "text"),
    ("SELECT n || $1 FROM trades", "text"),
    ("SELECT ts + $1 FROM trades", "interval"),
    ("SELECT $1 + ts FROM trades", "interval"),
    ("SELECT ts - $1 FROM trades", "timestamp"),
    ("SELECT $1 - ts FROM trades", "timestamp"),
    ("SELECT INTERVAL '1 day' * $1", "float8"),
    ("SELECT $1 AND $2", "bool, bool"),
    ("SELECT n + $1, price * $2 FROM trades", "int4, float8"),
    ("SELECT to_timestamp($1)", "float8"),
    ("SELECT to_timestamp($1, $2)", "text, text"),
    ("SELECT round($1, 1), round($2)", "numeric, float8"),
    ("SELECT make_timestamp(2025, $1, 1, 0, 0, $2)", "int4, float8"),
    ("SELECT dateadd('d', $1, ts) FROM trades", "int4"),
    ("SELECT CASE WHEN n = 1 THEN price ELSE $1 END FROM trades", "float8"),
    ("SELECT coalesce(ts, $1) FROM trades", "timestamp"),
    ("SELECT n FROM trades WHERE n IN ($1, $2)", "int4, int4"),
    ("SELECT value FROM generate_series(1, $1)", "int4"),
    ("VALUES ($1, 1), ('b', $2)", "text, int8"),
    ("SELECT * FROM (VALUES ($1, 2), (3, $2)) AS v (a, b)", "int8, int8"),
    ("INSERT INTO trades (ts, n) VALUES ($1, $2), ($3, DEFAULT)", "timestamp, int4, timestamp"),
    ("INSERT INTO trades (ts, n) VALUES ($1, $2 + 1)", "timestamp, int4"),
    ("INSERT INTO trades (ts, sym) VALUES (now() + $1, lower($2))", "interval, text"),
    ("SELECT n FROM trades WHERE $1 IS NULL AND n = $3", "none, none, int4"),
    ("SELECT $1", "text"),
    ("SELECT $1 + $2", "AmbiguousFunction"),
    ("SELECT CAST(ts AS DATE) + $1 FROM trades", "AmbiguousFunction"),
    ("INSERT INTO trades (ts, n) VALUES (now(), $1 + $2)", "AmbiguousFunction"),
];

const IDS: &[&str] = &["CREATE TABLE ids (ts TIMESTAMP, id UUID, ip IPV4, bin BINARY, \
     m DECIMAL(8, 3)) TIMESTAMP(ts) PARTITION BY DAY"];

/// Parameters beside values of which a type that stores others is the one that DataFusion knows.
const DESCRIBED_BESIDE_IDS: &[(&str, &str)] = &[
    ("SELECT nullif(id, $1), coalesce($2, id), ifnull(id, $3) FROM ids", "uuid, uuid, uuid"),
    ("SELECT coalesce(nullif(id, $1), $2), least($3, ip) FROM ids", "uuid, uuid, ipv4"),
    ("SELECT greatest(id, $1), CASE WHEN ts > now() THEN $2 ELSE id END FROM ids", "uuid, uuid"),
    ("SELECT CASE id WHEN $1 THEN 1 END, CASE $2 WHEN ip THEN 1 END FROM ids", "uuid, ipv4"),
    ("SELECT ts FROM ids WHERE id IN ($1, $2) AND $3 IN (ip, ip)", "uuid, uuid, ipv4"),
    ("SELECT ts FROM ids WHERE id BETWEEN $1 AND $2 AND $3 BETWEEN ip AND ip", "uuid, uuid, ipv4"),
    (
        "SELECT ts FROM ids WHERE coalesce(id, $1) = $2 AND ip = coalesce($3, ip)",
        "uuid, uuid, ipv4",
    ),
    ("SELECT ts FROM ids WHERE id IS DISTINCT FROM $1", "uuid"),
    (
        "SELECT coalesce(bin, $1), nullif(bin, $2), coalesce(m, $3) FROM ids",
        "bytea, bytea, numeric",
    ),
];

#[test]
fn parameters_have_the_types_of_postgresql() {
    check_described(TRADES, DESCRIBED);
}

// A parameter beside a UUID was described as bytea, and asyncpg refused a UUID for it.
#[test]
fn parameters_beside_a_uuid_are_uuids() {
    check_described(IDS, DESCRIBED_BESIDE_IDS);
}

#[track_caller]
fn check_described(setup: &[&str], statements: &[(&str, &str)]) {
    on_runtime(async {
        let test = TestDatabase::after(setup).await?;
        let mut wrong = Vec::new();
        for (sql, expected) in statements {
            let found = match test.engine().describe(sql, &[], &test.options()).await {
                Ok(described) => parameter_types(&described),
                Err(error) => format!("{:?}", error.condition()),
            };
            if found != *expected {
                wrong.push(format!("{sql}: expected {expected}, found {found}"));
            }
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(TestError(wrong.join("\n"))),
        }
    });
}

fn user(role: Role) -> Session {
    Session::new(Origin { protocol: "test", peer: None, user: Some("ann".to_owned()), role })
}

/// Each statement needs a privilege, and each role has some of them.
#[test]
fn roles_permit_statements() {
    on_runtime(async {
        for (sql, reader, writer) in [
            ("SELECT n FROM trades", true, true),
            ("SHOW TABLES", true, true),
            ("EXPLAIN DELETE FROM trades", true, true),
            ("SET statement_timeout = 1000", true, true),
            ("INSERT INTO trades (ts) VALUES (1)", false, true),
            ("UPDATE trades SET n = 2", false, true),
            ("DELETE FROM trades", false, true),
            ("EXPLAIN ANALYZE DELETE FROM trades", false, true),
            ("CREATE TABLE t (a INT)", false, false),
            ("CREATE TABLE t AS SELECT 1 AS a", false, false),
            ("CREATE VIEW v AS SELECT 1 AS a", false, false),
            ("ALTER TABLE trades ADD COLUMN a INT", false, false),
            ("TRUNCATE TABLE trades", false, false),
            ("RENAME TABLE trades TO t", false, false),
            ("COMMENT ON TABLE trades IS 'x'", false, false),
            ("DROP TABLE trades", false, false),
            ("COPY trades FROM 'x.csv'", false, false),
            ("COPY trades TO 'x.csv' (FORMAT csv)", false, false),
        ] {
            for (role, is_allowed) in [(Role::Reader, reader), (Role::Writer, writer)] {
                let test = TestDatabase::after(TRADES).await?;
                let before = test.rows("trades").await?;
                let options = StatementOptions { session: user(role), ..test.options() };
                let outcome = match test.engine().execute_with(sql, &options).await {
                    Ok(answer) => taken(answer).await.map(drop),
                    Err(error) => Err(error),
                };
                let is_denied =
                    matches!(&outcome, Err(it) if it.condition() == Condition::NotAllowed);
                assert_eq!(!is_denied, is_allowed, "{role:?}: {sql}: {outcome:?}");
                if !is_allowed {
                    assert_eq!(test.rows("trades").await?, before, "{role:?}: {sql}");
                }
            }
        }
        Ok::<(), TestError>(())
    });
}

/// A session, a transaction or a setting can forbid changes.
#[test]
fn a_read_only_session_changes_nothing() {
    const CHANGES: [&str; 5] = [
        "INSERT INTO trades (ts) VALUES (1)",
        "UPDATE trades SET n = 2",
        "DELETE FROM trades",
        "CREATE TABLE t (a INT)",
        "DROP TABLE trades",
    ];
    on_runtime(async {
        type Prepare = fn(&Session);
        let prepare: [(&str, Prepare); 3] = [
            ("keep_read_only", |session| session.keep_read_only()),
            ("transaction", |session| session.begin(Access::ReadOnly)),
            ("setting", |session| {
                session.set("default_transaction_read_only", "on").expect("it is a setting");
            }),
        ];
        let mut test = TestDatabase::after(TRADES).await?;
        let before = test.rows("trades").await?;
        for (way, prepare) in prepare {
            test.session = crate::fixture::lasting_session();
            prepare(&test.session);
            for sql in CHANGES {
                let error = test.output(sql).await.expect_err(sql);
                assert_eq!(error.condition(), Condition::ReadOnly, "{way}: {sql}: {error}");
            }
            assert_eq!(test.rows("trades").await?, before, "{way}");
        }
        Ok::<(), TestError>(())
    });
}

async fn failed(options: EngineOptions, sql: &str) -> Result<Error, TestError> {
    let test = TestDatabase::with(options)?;
    Ok(test.output(sql).await.expect_err(sql))
}

/// The query would run for hours.
#[test]
fn the_timeouts_of_an_engine_end_statements() {
    const ENDLESS: &str = "SELECT count(*) FROM long_sequence(1000000000) a, long_sequence(1000) b";
    on_runtime(async {
        let soon = Timeout::After(Duration::from_millis(20));
        let options = EngineOptions { timeout: soon, ..engine_options() };
        let error = failed(options, ENDLESS).await?;
        assert_eq!(error.condition(), Condition::QueryCanceled, "{error}");
        let options = EngineOptions { timeout_max: soon, ..engine_options() };
        let error = failed(options, ENDLESS).await?;
        assert_eq!(error.condition(), Condition::QueryCanceled, "{error}");
        Ok::<(), TestError>(())
    });
}

/// A setting of the session counts before the default of the engine, and never above its maximum.
#[test]
fn timeouts_come_from_statement_session_and_engine() {
    on_runtime(async {
        let hour = Timeout::After(Duration::from_hours(1));
        let options = EngineOptions { timeout_max: hour, ..engine_options() };
        let test = TestDatabase::with(options)?;
        test.check("SHOW statement_timeout", "1min").await;
        test.check("SET statement_timeout = 20", "SET").await;
        test.check("SHOW statement_timeout", "20ms").await;
        let endless = "SELECT count(*) FROM long_sequence(1000000000) a, long_sequence(1000) b";
        let error = test.output(endless).await.expect_err(endless);
        assert_eq!(error.condition(), Condition::QueryCanceled, "{error}");
        test.check("SET statement_timeout = '2h'", "SET").await;
        test.check("SHOW statement_timeout", "2h").await;
        test.check("RESET ALL", "SET").await;
        test.check("SHOW statement_timeout", "1min").await;
        Ok::<(), TestError>(())
    });
}
