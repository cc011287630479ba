//! SAMPLE BY, FILL, LATEST ON, ASOF and LT JOIN, compared with slow and simple implementations over
//! lists of rows.

use std::collections::BTreeMap;

use crate::fixture::{Cells, Random, TestDatabase, TestError, on_runtime};

const SEEDS: [u64; 4] = [1, 2, 3, 4];
const SECOND: i64 = 1_000_000;
/// Times of three hours.
const SECONDS: u64 = 3 * 3_600;

/// A row: its time in seconds, a key and a number, which may be NULL.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    at: i64,
    key: Option<u64>,
    n: Option<i64>,
}

fn row(random: &mut Random) -> Row {
    Row {
        at: i64::try_from(random.below(SECONDS / 60) * 60).expect("small"),
        key: (random.below(5) > 0).then(|| random.below(3)),
        n: (random.below(6) > 0).then(|| i64::try_from(random.below(100)).expect("small")),
    }
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

fn key(row: &Row) -> String {
    row.key.map_or("NULL".to_owned(), |key| format!("k{key}"))
}

fn cells(row: &Row) -> Cells {
    vec![row.at.to_string(), key(row), text(row.n)]
}

/// Creates a table with these rows, in commits of which some are flushed; returns them in the order
/// of the table.
async fn table(
    test: &TestDatabase,
    name: &str,
    random: &mut Random,
) -> Result<Vec<Row>, TestError> {
    let columns = "(ts TIMESTAMP, k SYMBOL, n BIGINT) TIMESTAMP(ts) PARTITION BY HOUR";
    test.output(&format!("CREATE TABLE {name} {columns}")).await?;
    let mut rows = Vec::new();
    for commit in 0..4 {
        let new = (0..=random.below(12)).map(|_| row(random)).collect::<Vec<_>>();
        let values = new.iter().map(|row| {
            let key = row.key.map_or("NULL".to_owned(), |key| format!("'k{key}'"));
            format!("({}, {key}, {})", row.at * SECOND, text(row.n))
        });
        let values = values.collect::<Vec<_>>().join(", ");
        test.output(&format!("INSERT INTO {name} VALUES {values}")).await?;
        if commit == 1 {
            test.flush(name)?;
        }
        rows.extend(new);
    }
    rows.sort_by_key(|row| row.at);
    Ok(rows)
}

/// The rows of an answer, sorted: their order is not part of the comparison.
async fn sorted(test: &TestDatabase, sql: &str) -> Result<Vec<Cells>, TestError> {
    let mut rows = test.rows(sql).await?;
    rows.sort();
    Ok(rows)
}

/// The buckets of a list: their starts in seconds, with their numbers.
fn buckets(rows: &[Row], width: i64) -> BTreeMap<(Option<u64>, i64), Vec<Option<i64>>> {
    let mut buckets: BTreeMap<_, Vec<Option<i64>>> = BTreeMap::new();
    for row in rows {
        buckets.entry((row.key, row.at / width * width)).or_default().push(row.n);
    }
    buckets
}

/// The way in which FILL makes the rows of empty buckets.
#[derive(Clone, Copy, Debug)]
enum Fill {
    None,
    Null,
    Previous,
    Constant,
    Linear,
}

impl Fill {
    const ALL: [Fill; 5] = [Fill::None, Fill::Null, Fill::Previous, Fill::Constant, Fill::Linear];

    fn sql(self) -> &'static str {
        match self {
            Fill::None => "",
            Fill::Null => " FILL(NULL)",
            Fill::Previous => " FILL(PREV)",
            Fill::Constant => " FILL(7)",
            Fill::Linear => " FILL(LINEAR)",
        }
    }
}

/// The maximum of each bucket of one key, with the rows of empty buckets between `low` and `high`.
fn filled(
    known: &BTreeMap<i64, Option<i64>>,
    low: i64,
    high: i64,
    width: i64,
    fill: Fill,
) -> Vec<(i64, Option<f64>)> {
    #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
    let double = |n: i64| n as f64;
    let mut rows = Vec::new();
    let mut previous: Option<f64> = None;
    let mut at = low;
    while at <= high {
        match (known.get(&at), fill) {
            (Some(value), _) => {
                previous = value.map(double);
                rows.push((at, previous));
            }
            (None, Fill::None) => {}
            (None, Fill::Null) => rows.push((at, None)),
            (None, Fill::Previous) => rows.push((at, previous)),
            (None, Fill::Constant) => rows.push((at, Some(7.0))),
            (None, Fill::Linear) => {
                let value = |it: (&i64, &Option<i64>)| it.1.map(|n| (double(*it.0), double(n)));
                let before = known.range(..at).rev().find_map(value);
                let after = known.range(at..).find_map(value);
                let between = before
                    .zip(after)
                    .map(|((x0, y0), (x1, y1))| y0 + (y1 - y0) * (double(at) - x0) / (x1 - x0));
                rows.push((at, between));
            }
        }
        at += width;
    }
    rows
}

#[test]
fn sampled_rows_are_those_of_buckets_in_a_map() {
    for seed in SEEDS {
        on_runtime(async {
            let (test, mut random) = (TestDatabase::new()?, Random(seed));
            let rows = table(&test, "t", &mut random).await?;
            for (unit, width) in [("1m", 60), ("7m", 420), ("1h", 3_600), ("20m", 1_200)] {
                let expected = buckets(&rows, width).into_iter().map(|((key, at), values)| {
                    let known = values.iter().flatten();
                    vec![
                        at.to_string(),
                        key.map_or("NULL".to_owned(), |key| format!("k{key}")),
                        values.len().to_string(),
                        text((known.clone().count() > 0).then(|| known.clone().sum::<i64>())),
                        text(known.clone().min()),
                        text(values.first().copied().flatten()),
                        text(values.last().copied().flatten()),
                    ]
                });
                let mut expected = expected.collect::<Vec<_>>();
                expected.sort();
                let sql = format!(
                    "SELECT CAST(b AS BIGINT) / {SECOND}, k, c, s, l, f, z FROM (SELECT ts AS b, \
                     k, count() AS c, sum(n) AS s, min(n) AS l, first(n) AS f, last(n) AS z FROM t \
                     SAMPLE BY {unit})"
                );
                assert_eq!(sorted(&test, &sql).await?, expected, "seed {seed}: {sql}");
            }
            Ok::<(), TestError>(())
        });
    }
}

#[test]
fn empty_buckets_are_filled_as_in_a_list() {
    for seed in SEEDS {
        on_runtime(async {
            let (test, mut random) = (TestDatabase::new()?, Random(seed));
            let rows = table(&test, "t", &mut random).await?;
            let width = 600;
            let mut by_key: BTreeMap<Option<u64>, BTreeMap<i64, Option<i64>>> = BTreeMap::new();
            for ((key, at), values) in buckets(&rows, width) {
                by_key.entry(key).or_default().insert(at, values.into_iter().flatten().max());
            }
            let starts = by_key.values().flat_map(BTreeMap::keys);
            let bounds = starts.clone().min().zip(starts.max()).expect("there are rows");
            let (low, high) = (*bounds.0, *bounds.1);
            for fill in Fill::ALL {
                let mut expected: Vec<Cells> = Vec::new();
                for (key, known) in &by_key {
                    for (at, value) in filled(known, low, high, width, fill) {
                        let key = key.map_or("NULL".to_owned(), |key| format!("k{key}"));
                        expected.push(vec![at.to_string(), key, text(value)]);
                    }
                }
                let sql = format!(
                    "SELECT CAST(b AS BIGINT) / {SECOND}, k, CAST(m AS DOUBLE) FROM (SELECT ts AS \
                     b, k, max(CAST(n AS DOUBLE)) AS m FROM t SAMPLE BY 10m{})",
                    fill.sql()
                );
                let mut found = sorted(&test, &sql).await?;
                // The two ways of interpolating differ in the last digits.
                for row in found.iter_mut().chain(&mut expected) {
                    if let Ok(value) = row[2].parse::<f64>() {
                        row[2] = format!("{value:.9}");
                    }
                }
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "seed {seed}: {fill:?}");
            }
            Ok::<(), TestError>(())
        });
    }
}

#[test]
fn the_latest_row_of_a_key_is_the_last_of_the_list() {
    for seed in SEEDS {
        on_runtime(async {
            let (test, mut random) = (TestDatabase::new()?, Random(seed));
            let rows = table(&test, "t", &mut random).await?;
            let limit = 1 + random.below(SECONDS);
            for (filter, keep) in [
                (String::new(), &(|_: &Row| true) as &dyn Fn(&Row) -> bool),
                (" WHERE n > 50".to_owned(), &|row: &Row| row.n.is_some_and(|n| 50 < n)),
                (" WHERE k = 'k1'".to_owned(), &|row: &Row| row.key == Some(1)),
                (format!(" WHERE ts < {}", limit * 1_000_000), &|row: &Row| {
                    row.at.unsigned_abs() < limit
                }),
            ] {
                let mut latest = BTreeMap::new();
                for row in rows.iter().filter(|row| keep(row)) {
                    latest.insert(row.key, row.clone());
                }
                let mut expected = latest.values().map(cells).collect::<Vec<_>>();
                expected.sort();
                for clause in ["LATEST ON ts PARTITION BY k", "LATEST BY k"] {
                    let sql = format!(
                        "SELECT CAST(ts AS BIGINT) / {SECOND}, k, n FROM (SELECT * FROM t{filter} \
                         {clause})"
                    );
                    assert_eq!(sorted(&test, &sql).await?, expected, "seed {seed}: {sql}");
                }
            }
            Ok::<(), TestError>(())
        });
    }
}

/// The rules of a join in time.
#[derive(Clone, Copy)]
struct JoinRules {
    /// True if the right row must be before the left one.
    is_strict: bool,
    has_keys: bool,
    tolerance: Option<i64>,
}

/// The row of the right side that is joined to a row of the left one.
fn joined_row<'a>(left: &Row, right: &'a [Row], rules: JoinRules) -> Option<&'a Row> {
    let JoinRules { is_strict, has_keys, tolerance } = rules;
    let is_it = |row: &&Row| {
        let is_before = if is_strict { row.at < left.at } else { row.at <= left.at };
        let is_same = !has_keys || (left.key.is_some() && left.key == row.key);
        is_before && is_same
    };
    let found = right.iter().rfind(is_it)?;
    tolerance.is_none_or(|most| left.at - found.at <= most).then_some(found)
}

#[test]
fn joins_in_time_find_the_row_before() {
    for seed in SEEDS {
        on_runtime(async {
            let (test, mut random) = (TestDatabase::new()?, Random(seed));
            let left = table(&test, "l", &mut random).await?;
            let right = table(&test, "r", &mut random).await?;
            for (join, is_strict) in [("ASOF JOIN", false), ("LT JOIN", true)] {
                for has_keys in [true, false] {
                    for (clause, tolerance) in [("", None), (" TOLERANCE 10m", Some(600))] {
                        let on = if has_keys { " ON (k)" } else { "" };
                        let sql = format!(
                            "SELECT CAST(l.ts AS BIGINT) / {SECOND}, l.k, l.n, \
                             CAST(r.ts AS BIGINT) / {SECOND}, r.k, r.n FROM l {join} r{on}{clause}"
                        );
                        let expected = left.iter().map(|row| {
                            let rules = JoinRules { is_strict, has_keys, tolerance };
                            let found = joined_row(row, &right, rules);
                            let none = || vec!["NULL".to_owned(); 3];
                            [cells(row), found.map_or_else(none, cells)].concat()
                        });
                        let expected = expected.collect::<Vec<_>>();
                        assert_eq!(test.rows(&sql).await?, expected, "seed {seed}: {sql}");
                    }
                }
            }
            Ok::<(), TestError>(())
        });
    }
}

#[test]
fn intervals_of_time_keep_the_rows_of_their_bounds() {
    on_runtime(async {
        let (test, mut random) = (TestDatabase::new()?, Random(77));
        let rows = table(&test, "t", &mut random).await?;
        for _ in 0..30 {
            let (hour, minute) = (random.below(3), random.below(60));
            let minutes = 1 + random.below(90);
            let low = i64::try_from(hour * 3_600 + minute * 60).expect("small");
            let length = i64::try_from(minutes * 60).expect("small");
            let start = format!("1970-01-01T{hour:02}:{minute:02}");
            for (condition, low, high) in [
                (format!("ts IN '{start}'"), low, low + 60),
                (format!("ts IN '{start};{minutes}m'"), low, low + length),
                (
                    format!(
                        "ts >= '{start}' AND ts < dateadd('m', {minutes}, '{start}'::TIMESTAMP)"
                    ),
                    low,
                    low + length,
                ),
                (format!("NOT (ts < '{start}') AND ts IN '1970-01-01'"), low, 86_400),
            ] {
                let sql =
                    format!("SELECT CAST(ts AS BIGINT) / {SECOND}, k, n FROM t WHERE {condition}");
                let expected = rows.iter().filter(|row| low <= row.at && row.at < high);
                assert_eq!(
                    test.rows(&sql).await?,
                    expected.map(cells).collect::<Vec<_>>(),
                    "{sql}"
                );
            }
        }
        Ok::<(), TestError>(())
    });
}
