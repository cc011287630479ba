//! Random queries whose answers are compared with those of a slow and simple implementation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::fixture::{Random, TestDatabase, TestError, on_runtime};

/// Returns the rows of a query, a text each.
async fn rows_of(test: &TestDatabase, sql: &str) -> Result<Vec<String>, TestError> {
    let rows = test.rows(sql).await?;
    Ok(rows.iter().map(|row| row.join(" ")).collect())
}

/// Compares groups by buckets of the designated timestamp, which are made on encoded values, with
/// groups by buckets of a copy of it, which are not.
#[test]
fn groups_by_several_buckets_are_those_of_any_column() {
    on_runtime(async {
        const BUCKETS: [&str; 9] = [
            "date_trunc('hour', ts)",
            "date_trunc('day', ts)",
            "date_trunc('week', ts)",
            "date_trunc('month', ts)",
            "CAST(ts AS DATE)",
            "timestamp_floor('15m', ts)",
            "timestamp_floor('6h', ts)",
            "timestamp_floor('1d', ts)",
            "date_bin(INTERVAL '90 minutes', ts)",
        ];
        let mut test = TestDatabase::new()?;
        test.run("CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY MONTH").await?;
        test.run(
            "INSERT INTO t SELECT CAST(1735689600000000 + x * \
             977000000 AS TIMESTAMP) AS ts, CASE WHEN x % 7 = 0 THEN NULL \
             ELSE CAST(x % 5 AS INT) END \
             AS n FROM long_sequence(20000)",
        )
        .await?;
        test.flush("t")?;
        test.run("INSERT INTO t SELECT dateadd('s', 7, ts), n + 1 FROM t WHERE n > 2").await?;
        let copy = "(SELECT CAST(CAST(ts AS BIGINT) AS TIMESTAMP) AS ts, n FROM t)";
        let mut random = Random(11);
        for _ in 0..30 {
            let count = 2 + random.below(2);
            let mut keys = Vec::new();
            for number in 0..count {
                keys.push(format!("{} AS k{number}", random.one_of(&BUCKETS).1));
            }
            if random.below(3) == 0 {
                keys.push("n AS k9".to_owned());
            }
            let places = (1..=keys.len()).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
            let query = |from: &str| {
                let keys = keys.join(", ");
                format!(
                    "SELECT {keys}, count(*), sum(n), max(ts) FROM {from} GROUP BY {places} ORDER \
                        BY \
                     {places}"
                )
            };
            let (found, expected) = (query("t"), query(copy));
            let (found, expected) =
                (rows_of(&test, &found).await?, rows_of(&test, &expected).await?);
            assert_eq!(found, expected, "{}", query("t"));
        }
        Ok::<(), TestError>(())
    });
}

/// Compares EXCEPT ALL and INTERSECT ALL with counts of rows.
#[test]
fn multisets_are_counted() {
    on_runtime(async {
        let test = TestDatabase::new()?;
        let mut random = Random(5);
        for _ in 0..40 {
            let mut lists: [BTreeMap<String, usize>; 2] = Default::default();
            let mut texts = Vec::new();
            for list in &mut lists {
                let mut rows = vec!["(7, 'x')".to_owned()];
                for _ in 0..random.below(12) {
                    let (_, number) = random.one_of(&["NULL", "0", "1"]);
                    let (_, text) = random.one_of(&["NULL", "'a'"]);
                    rows.push(format!("({number}, {text})"));
                }
                for row in &rows {
                    *list.entry(row.clone()).or_default() += 1;
                }
                texts.push(format!("SELECT * FROM (VALUES {}) AS v(n, t)", rows.join(", ")));
            }
            for (word, is_except) in [("EXCEPT", true), ("INTERSECT", false)] {
                let sql = format!("{} {word} ALL {}", texts[0], texts[1]);
                let mut found = rows_of(&test, &sql).await?;
                found.sort();
                let mut expected = Vec::new();
                for (row, &count) in &lists[0] {
                    let others = lists[1].get(row).copied().unwrap_or(0);
                    let kept =
                        if is_except { count.saturating_sub(others) } else { count.min(others) };
                    let shown = row.trim_matches(['(', ')']).replace([',', '\''], "");
                    expected.extend(std::iter::repeat_n(shown, kept));
                }
                expected.sort();
                assert_eq!(found, expected, "{sql}");
            }
        }
        Ok::<(), TestError>(())
    });
}

/// A row of either table, with two numbers that may be NULL.
#[derive(Debug, Clone, Copy)]
struct Row {
    n: Option<i64>,
    g: Option<i64>,
}

/// A function that evaluates a condition for a row and the rows of the other table; `None` for
/// NULL.
type Of = dyn Fn(Row, &[Row]) -> Option<bool>;

/// A condition, as text and as a function.
struct Condition {
    sql: String,
    of: Box<Of>,
}

const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

fn compared(op: &str, left: Option<i64>, right: Option<i64>) -> Option<bool> {
    let (left, right) = (left?, right?);
    Some(match op {
        "=" => left == right,
        "<>" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}

fn any(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut known = Some(false);
    for value in values {
        known = match (known, value) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (None, _) | (_, None) => None,
            _ => Some(false),
        };
    }
    known
}

/// A function that filters rows of a subquery: takes an operator, a constant, the outer row and the
/// row.
type Chosen = fn(&str, i64, Row, Row) -> Option<bool>;

/// Returns the filter of a subquery as text and as a function, with its operator and its constant.
fn chosen(random: &mut Random) -> (String, Chosen, &'static str, i64) {
    let (_, &op) = random.one_of(&COMPARISONS);
    let constant = i64::try_from(random.below(5)).expect("it is small");
    match random.below(5) {
        0 => (String::new(), |_, _, _, _| Some(true), op, constant),
        1 => (" WHERE g > 8".to_owned(), |_, _, _, _| Some(false), op, constant),
        2 => {
            let of = |op: &str, constant, _: Row, inner: Row| compared(op, inner.n, Some(constant));
            (format!(" WHERE q.n {op} {constant}"), of, op, constant)
        }
        3 => (
            " WHERE q.g = o.g".to_owned(),
            |_, _, outer, inner| compared("=", inner.g, outer.g),
            op,
            constant,
        ),
        _ => {
            let of = |op: &str, _, outer: Row, inner: Row| compared(op, inner.g, outer.g);
            (format!(" WHERE q.g {op} o.g"), of, op, constant)
        }
    }
}

fn subquery(random: &mut Random) -> Condition {
    let (filter, is_chosen, op, constant) = chosen(random);
    let rows = move |outer: Row, all: &[Row]| {
        let is_it = |inner: &&Row| is_chosen(op, constant, outer, **inner) == Some(true);
        all.iter().filter(is_it).copied().collect::<Vec<_>>()
    };
    let (_, &by) = random.one_of(&COMPARISONS);
    match random.below(6) {
        0 => Condition {
            sql: format!("EXISTS (SELECT 1 FROM q{filter})"),
            of: Box::new(move |row, all| Some(!rows(row, all).is_empty())),
        },
        1 => Condition {
            sql: format!("o.n IN (SELECT n FROM q{filter})"),
            of: Box::new(move |row, all| {
                any(rows(row, all).iter().map(|inner| compared("=", row.n, inner.n)))
            }),
        },
        2 => Condition {
            sql: format!("o.n NOT IN (SELECT n FROM q{filter})"),
            of: Box::new(move |row, all| {
                any(rows(row, all).iter().map(|inner| compared("=", row.n, inner.n))).map(|is| !is)
            }),
        },
        3 => Condition {
            sql: format!("o.n {by} ANY (SELECT n FROM q{filter})"),
            of: Box::new(move |row, all| {
                any(rows(row, all).iter().map(|inner| compared(by, row.n, inner.n)))
            }),
        },
        4 => Condition {
            sql: format!("o.n {by} ALL (SELECT n FROM q{filter})"),
            of: Box::new(move |row, all| {
                let other = |inner: &Row| compared(by, row.n, inner.n).map(|is| !is);
                any(rows(row, all).iter().map(other)).map(|is| !is)
            }),
        },
        _ => Condition {
            sql: format!("o.n {by} (SELECT max(n) FROM q{filter})"),
            of: Box::new(move |row, all| {
                compared(by, row.n, rows(row, all).iter().filter_map(|inner| inner.n).max())
            }),
        },
    }
}

fn condition(random: &mut Random, depth: u64) -> Condition {
    if depth == 0 {
        return match random.below(4) {
            0 => {
                let (_, &op) = random.one_of(&COMPARISONS);
                let sql = format!("o.g {op} 1");
                Condition { sql, of: Box::new(move |row, _| compared(op, row.g, Some(1))) }
            }
            _ => subquery(random),
        };
    }
    let left = condition(random, depth - 1);
    match random.below(5) {
        0 => Condition {
            sql: format!("NOT ({})", left.sql),
            of: Box::new(move |row, all| (left.of)(row, all).map(|is| !is)),
        },
        1 => Condition {
            sql: format!("({}) IS NULL", left.sql),
            of: Box::new(move |row, all| Some((left.of)(row, all).is_none())),
        },
        2 => {
            let right = condition(random, depth - 1);
            Condition {
                sql: format!("({} OR {})", left.sql, right.sql),
                of: Box::new(move |row, all| {
                    any([(left.of)(row, all), (right.of)(row, all)].into_iter())
                }),
            }
        }
        3 => {
            let right = condition(random, depth - 1);
            Condition {
                sql: format!("({} AND {})", left.sql, right.sql),
                of: Box::new(move |row, all| {
                    let not = |is: Option<bool>| is.map(|is| !is);
                    let sides = [not((left.of)(row, all)), not((right.of)(row, all))];
                    not(any(sides.into_iter()))
                }),
            }
        }
        _ => {
            let right = condition(random, depth - 1);
            Condition {
                sql: format!("CASE WHEN {} THEN false ELSE {} END", left.sql, right.sql),
                of: Box::new(move |row, all| match (left.of)(row, all) {
                    Some(true) => Some(false),
                    _ => (right.of)(row, all),
                }),
            }
        }
    }
}

/// Compares conditions with subqueries, as filters and as values, with three-valued logic row by
/// row.
#[test]
fn subqueries_have_three_answers() {
    on_runtime(async {
        let mut random = Random(3);
        for has_null in [true, false] {
            let mut test = TestDatabase::new()?;
            let mut tables = Vec::new();
            for name in ["o", "q"] {
                let columns = "(ts TIMESTAMP, id INT, n INT, g INT) TIMESTAMP(ts) PARTITION BY DAY";
                test.run(&format!("CREATE TABLE {name} {columns}")).await?;
                let mut rows = Vec::new();
                let mut insert = format!("INSERT INTO {name} VALUES ");
                for id in 0..if name == "o" { 12 } else { 6 } {
                    let mut value = || {
                        let value = i64::try_from(random.below(5)).expect("it is small");
                        (value > 0 || !has_null).then_some(value)
                    };
                    let row = Row { n: value(), g: value() };
                    let shown =
                        |value: Option<i64>| value.map_or("NULL".to_owned(), |v| v.to_string());
                    let comma = if id > 0 { ", " } else { "" };
                    let (n, g) = (shown(row.n), shown(row.g));
                    write!(insert, "{comma}({id}000000, {id}, {n}, {g})").expect("it is a text");
                    rows.push(row);
                }
                test.run(&insert).await?;
                tables.push(rows);
            }
            for number in 0..120 {
                let Condition { sql, of } = condition(&mut random, number % 3);
                let answers = tables[0].iter().map(|&row| of(row, &tables[1])).enumerate();
                let answers = answers.collect::<Vec<_>>();
                let kept = answers.iter().filter(|(_, answer)| *answer == Some(true));
                let kept = kept.map(|(id, _)| id.to_string()).collect::<Vec<_>>();
                let found = format!("SELECT id FROM o WHERE {sql} ORDER BY id");
                assert_eq!(rows_of(&test, &found).await?, kept, "{found}");
                let shown =
                    |answer: Option<bool>| answer.map_or("NULL".to_owned(), |is| is.to_string());
                let all = answers.iter().map(|(id, answer)| format!("{id} {}", shown(*answer)));
                let found = format!("SELECT id, {sql} FROM o ORDER BY id");
                assert_eq!(rows_of(&test, &found).await?, all.collect::<Vec<_>>(), "{found}");
            }
        }
        Ok::<(), TestError>(())
    });
}
