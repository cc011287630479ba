//! Repeated queries with cached plans: their answers are those of new queries, for all values of
//! their parameters and after all changes of their tables.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tidegate_platform::SimDisk;
use tidegate_query::{
    Answer, CachedAnswer, CancelHandle, Engine, EngineOptions, Error, Parameter, StatementOptions,
};
use tokio::runtime::Handle;

use crate::fixture::{Cells, Output, Random, TestError, engine_options, on_runtime, open, taken};

const SEEDS: [u64; 3] = [1, 2, 3];
const STEPS: usize = 500;

/// The repeated queries. The first `FOR_ANY` have one plan for all values; the others have a plan
/// for each value, or none in the cache, because planning depends on the value.
const QUERIES: [(&str, &[Kind]); 37] = [
    ("SELECT * FROM t WHERE s = $1 LATEST ON ts PARTITION BY s", &[Kind::Symbol]),
    ("SELECT n, x FROM t WHERE $1 = s AND n > $2", &[Kind::Symbol, Kind::Integer]),
    ("SELECT ts, v FROM t WHERE ts >= $1 AND ts < $2", &[Kind::Time, Kind::Time]),
    ("SELECT v FROM t WHERE ts >= $1 AND ts < $2 AND s = 's1'", &[Kind::Time, Kind::Time]),
    ("SELECT ts, n FROM t WHERE (n <= $1) AND s != 's2' LIMIT -3", &[Kind::Integer]),
    ("SELECT n FROM t WHERE b = $1 LIMIT 2", &[Kind::Integer]),
    ("SELECT v FROM t WHERE v = $1", &[Kind::Text]),
    ("SELECT v, x * 2 FROM t WHERE x < $1", &[Kind::Double]),
    ("SELECT v FROM t WHERE ts = $1", &[Kind::Time]),
    ("SELECT n, s FROM t WHERE s IN ($1, $2)", &[Kind::Symbol, Kind::Symbol]),
    (
        "SELECT n FROM t WHERE b IN ($1, $2, $3, $4) AND x > $5",
        &[Kind::Integer, Kind::Integer, Kind::Integer, Kind::Integer, Kind::Double],
    ),
    ("SELECT ts FROM t WHERE n BETWEEN $1 AND $2", &[Kind::Integer, Kind::Integer]),
    ("SELECT count(*), max(n) FROM t WHERE s = $1", &[Kind::Symbol]),
    ("SELECT s, count(*) FROM t WHERE n > $1 GROUP BY s ORDER BY s", &[Kind::Integer]),
    ("SELECT s, n, sum(x) AS x FROM t WHERE s = $1 GROUP BY s, n ORDER BY n", &[Kind::Symbol]),
    (
        "SELECT ts, max(x) FROM t WHERE s IN ($1, $2) AND ts >= $3 SAMPLE BY 1h",
        &[Kind::Symbol, Kind::Symbol, Kind::Time],
    ),
    (
        "SELECT ts, s, avg(b) FROM t WHERE ts >= $1 SAMPLE BY 6h FILL(PREV) ORDER BY ts, s",
        &[Kind::Time],
    ),
    (
        "SELECT date_trunc('hour', ts) AS h, s, first(n), last(v) FROM t WHERE n < $1 \
         GROUP BY h, s ORDER BY h DESC, s LIMIT 7",
        &[Kind::Integer],
    ),
    (
        "SELECT v, count(*) AS c FROM t WHERE x < $1 GROUP BY v HAVING count(*) > 1 ORDER BY c, v",
        &[Kind::Double],
    ),
    ("SELECT DISTINCT s FROM t WHERE v = $1 ORDER BY s", &[Kind::Text]),
    ("SELECT v FROM t WHERE n > $1", &[Kind::Double]),
    // These queries have no plan for all values.
    ("SELECT n FROM t WHERE n > $1 AND n > 10", &[Kind::Integer]),
    ("SELECT n FROM t WHERE n > $1 AND n > $2", &[Kind::Integer, Kind::Integer]),
    ("SELECT n, count(*) FROM t WHERE n > $1 GROUP BY n HAVING n > 3 ORDER BY n", &[Kind::Integer]),
    (
        "SELECT n AS m, count(*) FROM t WHERE n <= $1 GROUP BY m HAVING m < 8 ORDER BY m",
        &[Kind::Integer],
    ),
    ("SELECT ts, count(*) FROM t WHERE ts >= $1 SAMPLE BY 1d FROM '2025-03-02'", &[Kind::Time]),
    (
        "SELECT b, n FROM t AS x(ts, s, b, n, x, v) WHERE b <= $1 AND n <= $2",
        &[Kind::Integer, Kind::Integer],
    ),
    ("SELECT n FROM t WHERE n = $1 OR b = $1", &[Kind::Integer]),
    ("SELECT n + $1 AS m FROM t WHERE n = $1", &[Kind::Integer]),
    ("SELECT n FROM t WHERE n IN ($1, 4, $2)", &[Kind::Integer, Kind::Integer]),
    ("SELECT n FROM t WHERE n NOT IN ($1, $2)", &[Kind::Integer, Kind::Integer]),
    ("SELECT count(*) FROM t WHERE ts >= $1 AND ts < $2", &[Kind::Time, Kind::Time]),
    ("SELECT a.n FROM t a JOIN t b ON a.n = b.n WHERE a.s = $1 ORDER BY 1", &[Kind::Symbol]),
    ("SELECT n FROM t WHERE s = $1 ORDER BY n LIMIT 5", &[Kind::Symbol]),
    ("SELECT * FROM t LATEST ON ts PARTITION BY s", &[]),
    ("SELECT count(*), min(ts) FROM t", &[]),
    ("SELECT n FROM t WHERE s IN ('s0', 's3') LIMIT 4", &[]),
];
const FOR_ANY: usize = 21;

/// Kind of the values of a parameter.
#[derive(Clone, Copy)]
enum Kind {
    Symbol,
    Text,
    Integer,
    Double,
    Time,
}

impl Kind {
    /// Returns a value, and its text in SQL.
    fn value(self, random: &mut Random) -> (Parameter, String) {
        let text = |text: String| {
            let written = format!("'{}'", text.replace('\'', "''"));
            (Parameter::Text(text), written)
        };
        match self {
            Kind::Symbol => text(format!("s{}", random.below(6))),
            Kind::Text => text((*random.one_of(&["", "it's", "v1", "v2", "V1"]).1).to_owned()),
            Kind::Integer => {
                let (_, &value) = random.one_of(&[-5, 0, 3, 10, 17, 300, 3_000_000_000]);
                (Parameter::Integer(value), value.to_string())
            }
            Kind::Double => {
                let (_, &value) = random.one_of(&[-0.5, -0.0, 0.0, 2.5, 7.0]);
                (Parameter::Double(value), format!("{value:?}"))
            }
            Kind::Time => {
                let (day, hour) = (1 + random.below(4), random.below(24));
                let instant = format!("2025-03-0{day}T{hour:02}:00:00");
                match random.below(8) {
                    // A date without a time: it means the whole day where the query asks
                    // for that.
                    0 => text(format!("2025-03-0{day}")),
                    1..=6 => text(instant),
                    _ => {
                        let written = format!("CAST('{instant}' AS TIMESTAMP)");
                        (Parameter::Typed("TIMESTAMP".into(), Some(instant)), written)
                    }
                }
            }
        }
    }
}

/// Returns an engine that takes every cached query for a quick one.
fn engine() -> Result<Engine, TestError> {
    let options = EngineOptions { quick_max: Duration::from_hours(1), ..engine_options() };
    Ok(Engine::new(open(&SimDisk::new(1))?, &options)?)
}

async fn done(engine: &Engine, sql: &str) -> Result<(), TestError> {
    match engine.execute(sql).await? {
        Answer::Done { .. } => Ok(()),
        Answer::Rows { .. } => Err(TestError(format!("{sql} gives rows"))),
    }
}

/// Returns the names of the columns and all rows of an answer, in their order.
async fn rows(answer: Answer) -> Result<Vec<Cells>, TestError> {
    match taken(answer).await? {
        Output::Rows { names, mut rows } => {
            rows.insert(0, names);
            Ok(rows)
        }
        Output::Done { tag, .. } => Err(TestError(format!("{tag} gives no rows"))),
    }
}

/// Changes the table between two queries.
async fn change(engine: &Engine, random: &mut Random) -> Result<(), TestError> {
    match random.below(60) {
        0..=20 => {
            let row = |random: &mut Random| {
                let (day, hour) = (1 + random.below(3), random.below(24));
                let (n, x, v) = (random.below(20), random.below(9), random.below(4));
                format!(
                    "('2025-03-0{day}T{hour:02}:00:00', 's{}', {n}, {n}, {x}.5, 'v{v}')",
                    random.below(5)
                )
            };
            let values: Vec<_> = (0..1 + random.below(20)).map(|_| row(random)).collect();
            done(engine, &format!("INSERT INTO t VALUES {}", values.join(", "))).await
        }
        21..=24 => done(engine, &format!("DELETE FROM t WHERE n = {}", random.below(20))).await,
        25 | 26 => {
            done(engine, &format!("UPDATE t SET s = 's9' WHERE n = {}", random.below(20))).await
        }
        27 => {
            done(engine, "DROP TABLE t").await?;
            create(engine).await
        }
        _ => Ok(()),
    }
}

async fn create(engine: &Engine) -> Result<(), TestError> {
    let columns = "ts TIMESTAMP, s SYMBOL, n INT, b BIGINT, x DOUBLE, v VARCHAR";
    done(engine, &format!("CREATE TABLE t ({columns}) TIMESTAMP(ts) PARTITION BY DAY")).await
}

#[test]
fn repeated_queries_answer_as_new_ones() {
    on_runtime(async {
        // Answers of cached plans, for parameters and for literals.
        let mut known = [[0; 2]; QUERIES.len()];
        for seed in SEEDS {
            let engine = engine()?;
            let mut random = Random(seed);
            create(&engine).await?;
            for step in 0..STEPS {
                change(&engine, &mut random).await?;
                let (at, &(sql, kinds)) = random.one_of(&QUERIES);
                let (values, written): (Vec<_>, Vec<_>) =
                    kinds.iter().map(|kind| kind.value(&mut random)).unzip();
                let mut literal = sql.to_owned();
                for (number, text) in written.iter().enumerate() {
                    literal = literal.replace(&format!("${}", number + 1), text);
                }
                let new = format!("{literal} -- {step}");
                // The same template is for parameters, and for literals.
                let (sql, values) =
                    if random.below(2) == 0 { (sql, values) } else { (&*literal, Vec::new()) };
                let expected = rows(engine.execute(&new).await?).await?;
                let options = StatementOptions::default();
                let text: Arc<str> = Arc::from(sql);
                let cached = engine.execute_cached(&text, &values, &options, &Handle::current());
                let answer = match cached {
                    Some(answer) => {
                        known[at][usize::from(values.is_empty())] += 1;
                        Answer::from(answer?)
                    }
                    None => engine.execute_bound(sql, &values, &options).await?,
                };
                let found = rows(answer).await?;
                assert_eq!(found, expected, "seed {seed}, step {step}: {sql} with {values:?}");
            }
        }
        for (known, (sql, _)) in known.iter().zip(&QUERIES).take(FOR_ANY) {
            assert!(known[0] > 0 && known[1] > 0, "{sql}: {known:?} answers of cached plans");
        }
        Ok::<(), TestError>(())
    });
}

/// A conversion of a parameter applies to each of its values: the first value here needs none, and
/// the second one does.
#[test]
fn conversions_of_a_parameter_apply_to_each_of_its_values() {
    on_runtime(async {
        let engine = engine()?;
        let columns = "ts TIMESTAMP, n INT, b BIGINT, x DOUBLE, v VARCHAR, ns TIMESTAMP_NS";
        done(&engine, &format!("CREATE TABLE t ({columns}) TIMESTAMP(ts)")).await?;
        let noon = "'2025-03-01T12:00:00'";
        done(&engine, &format!("INSERT INTO t VALUES ({noon}, 5, 5, 0.1, 'abc', {noon})")).await?;
        done(&engine, &format!("INSERT INTO t VALUES ({noon}, -5, 7, 5.5, 'abcdef', {noon})"))
            .await?;
        let text = |text: &str| Parameter::Text(text.to_owned());
        let time = |text: &str| Parameter::Typed("TIMESTAMP".into(), Some(text.to_owned()));
        for (sql, first, second) in [
            ("SELECT n FROM t WHERE n > -$1", Parameter::Integer(0), Parameter::Integer(5)),
            ("SELECT n FROM t WHERE x > -$1", Parameter::Double(0.0), Parameter::Double(7.0)),
            ("SELECT n FROM t WHERE x >= $1::REAL", Parameter::Double(0.5), Parameter::Double(0.1)),
            ("SELECT n FROM t WHERE x >= $1::INT", Parameter::Double(5.0), Parameter::Double(5.5)),
            ("SELECT n FROM t WHERE v = $1::VARCHAR(3)", text("abc"), text("abcdef")),
            (
                "SELECT n FROM t WHERE b = $1::SMALLINT",
                Parameter::Integer(5),
                Parameter::Integer(100_000),
            ),
            (
                "SELECT n FROM t WHERE ts >= $1::DATE",
                text("2025-03-01"),
                text("2025-03-01T13:00:00"),
            ),
            (
                "SELECT n FROM t WHERE ns >= $1",
                time("2025-03-01"),
                time("2025-03-01T12:00:00.123456789"),
            ),
            ("SELECT n FROM t WHERE b = $1", Parameter::Integer(5), Parameter::Null),
            ("SELECT n FROM t WHERE n = $1", Parameter::Integer(5), Parameter::Integer(1 << 40)),
            ("SELECT n FROM t WHERE x < $1", Parameter::Double(1.0), Parameter::Double(f64::NAN)),
        ] {
            let options = StatementOptions::default();
            let answer = async |sql: &str, value: &Parameter| {
                let answer = engine.execute_bound(sql, std::slice::from_ref(value), &options).await;
                match answer {
                    Ok(answer) => rows(answer).await.map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                }
            };
            for _ in 0..2 {
                answer(sql, &first).await.map_err(TestError)?;
            }
            let new = answer(&format!("{sql} -- for the first time"), &second).await;
            assert_eq!(answer(sql, &second).await, new, "{sql} with {second:?}");
        }
        Ok::<(), TestError>(())
    });
}

/// Executes a query that is cached and quick.
fn cached(
    engine: &Engine,
    sql: &Arc<str>,
    options: &StatementOptions,
) -> Result<CachedAnswer, Error> {
    engine.execute_cached(sql, &[], options, &Handle::current()).expect("it is cached")
}

/// Timeout, cancel and the list of statements hold for a cached query on the thread of its
/// connection.
#[test]
fn a_cached_query_ends_like_any_other() {
    on_runtime(async {
        let engine = engine()?;
        create(&engine).await?;
        let insert = "INSERT INTO t SELECT CAST(x * 1000000 AS TIMESTAMP), 's' || (x % 7), x, x, \
             1, 'v' FROM long_sequence(20000)";
        done(&engine, insert).await?;
        let sql: Arc<str> = Arc::from("SELECT * FROM t WHERE n >= 0");
        let all = rows(engine.execute(&sql).await?).await?;
        let cancel_handle = CancelHandle::default();
        let options =
            StatementOptions { cancel_handle: Some(cancel_handle.clone()), ..Default::default() };
        let mut answer = cached(&engine, &sql, &options)?;
        let first = answer.stream.next().await.expect("it has rows").map_err(Error::from)?;
        assert!(0 < first.num_rows() && first.num_rows() < all.len() - 1, "there are more");
        let listed = rows(engine.execute("SELECT query FROM query_activity()").await?).await?;
        assert!(listed.contains(&vec![sql.to_string()]), "{listed:?}");
        cancel_handle.cancel();
        let error =
            answer.stream.next().await.expect("it was cancelled").expect_err("no more rows");
        assert_eq!(Error::from(error).to_string(), "query cancelled by user");
        drop(answer);
        let listed = rows(engine.execute("SELECT query FROM query_activity() -- 2").await?).await?;
        assert!(!listed.contains(&vec![sql.to_string()]), "{listed:?}");
        let cancel_handle = CancelHandle::default();
        cancel_handle.cancel();
        let options = StatementOptions { cancel_handle: Some(cancel_handle), ..Default::default() };
        let mut answer = cached(&engine, &sql, &options)?;
        let error = answer.stream.next().await.expect("it was cancelled").expect_err("no rows");
        assert_eq!(
            Error::from(error).to_string(),
            "query cancelled by user",
            "before it has begun"
        );
        Ok::<(), TestError>(())
    });
}

/// A query that was quick on short values would run on the thread of its connection for long ones
/// too, and other connections of that thread would wait for seconds.
#[test]
fn queries_that_may_take_long_are_not_answered_on_the_callers_thread() {
    on_runtime(async {
        let engine = engine()?;
        create(&engine).await?;
        done(&engine, "INSERT INTO t VALUES ('2025-03-01', 's1', 1, 1, 1.5, 'v')").await?;
        for (what, is_known) in [
            ("v, round(x) AS x, date_trunc('hour', ts) AS ts", true),
            ("levenshtein(v, s) AS d", false),
            ("regexp_replace(v, '(a|b)+', 'x') AS v", false),
        ] {
            let sql: Arc<str> = Arc::from(format!("SELECT {what} FROM t WHERE n = $1"));
            let options = StatementOptions::default();
            let values = [Parameter::Integer(1)];
            for _ in 0..2 {
                rows(engine.execute_bound(&sql, &values, &options).await?).await?;
            }
            let known = engine.execute_cached(&sql, &values, &options, &Handle::current());
            assert_eq!(known.is_some(), is_known, "plan_cache-2: {sql}");
        }
        Ok::<(), TestError>(())
    });
}
