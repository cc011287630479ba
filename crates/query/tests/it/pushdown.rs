//! Aggregate pushdown: aggregates that a scan computes on encoded values are those that DataFusion
//! computes on the rows.
//!
//! `FROM (SELECT * FROM t LIMIT n)` with more rows than the table has prevents the pushdown and
//! changes nothing else, so that the same query runs both ways in the same engine. EXPLAIN shows
//! that the two plans are different ones.

use std::fmt::Write as _;

use tidegate_model::ByteCount;
use tidegate_query::EngineOptions;

use crate::fixture::{Random, TestDatabase, TestError, engine_options, on_runtime};

const SEEDS: [u64; 3] = [1, 2, 3];
const QUERIES: usize = 40;
/// The rows as DataFusion aggregates them.
const PLAIN: &str = "(SELECT * FROM t LIMIT 1000000)";

const AGGREGATES: [&str; 31] = [
    "count(*)",
    "count(n)",
    "count(x)",
    "count(s)",
    "sum(n)",
    "sum(b)",
    "sum(x)",
    "avg(n)",
    "avg(x)",
    "min(n)",
    "max(n)",
    "min(x)",
    "max(x)",
    "min(b)",
    "max(b)",
    "min(ts)",
    "max(ts)",
    "first(n)",
    "last(n)",
    "last(x)",
    "min(u)",
    "max(u)",
    "sum(length(v))",
    "avg(length(v))",
    "max(length(v))",
    "min(octet_length(v))",
    "count(length(v))",
    "count(DISTINCT s)",
    "count(DISTINCT n)",
    "count(DISTINCT flag)",
    "count(DISTINCT v)",
];
const KEYS: [&str; 13] = [
    "s",
    "n",
    "flag",
    "timestamp_floor('6h', ts)",
    "date_trunc('day', ts)",
    "CAST(ts AS DATE)",
    "u",
    "extract(hour FROM ts)",
    "date_part('dow', ts)",
    "minute(ts)",
    "hour(to_timezone(ts, 'Europe/Berlin'))",
    "n % 3",
    "CASE WHEN n > 2 THEN 'many' WHEN n IS NULL THEN 'none' ELSE 'few' END",
];
const FILTERS: [&str; 14] = [
    "n > 3",
    "n <= 3 OR n IS NULL",
    "x > 0",
    "x = x",
    "s = 's1'",
    "s IS NULL",
    "s IN ('s0', 's2')",
    "ts >= '2025-03-02' AND ts < '2025-03-03T12:00:00'",
    "b % 2 = 0",
    "flag",
    "n IS NOT NULL AND s != 's3'",
    "n > 1000",
    "v <> ''",
    "v LIKE '%/sensors/%7%'",
];

/// Values of DOUBLE, among them those whose order and sums are special.
const DOUBLES: [&str; 8] =
    ["NULL", "0.5", "-1.25", "3", "-0.0", "CAST('NaN' AS DOUBLE)", "0.0", "7.75"];

const UBIGINTS: [&str; 5] = ["NULL", "0", "7", "9223372036854775808", "18446744073709551615"];

/// Inserts rows in commits that overlap in time, and deletes some.
async fn filled(random: &mut Random) -> Result<TestDatabase, TestError> {
    let test = TestDatabase::after(&[
        "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, n INT, b BIGINT, x DOUBLE, u UTINYINT, \
         flag BOOLEAN, v VARCHAR, w UBIGINT) TIMESTAMP(ts) PARTITION BY DAY",
    ])
    .await?;
    for commit in 0..6 {
        let mut values = String::new();
        for row in 0..60 {
            let comma = if row > 0 { ", " } else { "" };
            let (day, hour, minute) = (1 + random.below(4), random.below(24), random.below(60));
            let s = match random.below(6) {
                0 => "NULL".to_owned(),
                other => format!("'s{other}'"),
            };
            let mut number = |bound: u64, null: u64| match random.below(null) {
                0 => "NULL".to_owned(),
                _ => (i64::try_from(random.below(bound)).expect("small") - 5).to_string(),
            };
            let (n, b) = (number(12, 5), number(1 << 40, 9));
            let (_, x) = random.one_of(&DOUBLES);
            let (_, u) = random.one_of(&["NULL", "0", "7", "255"]);
            let (_, flag) = random.one_of(&["NULL", "true", "false"]);
            let v = match random.below(5) {
                0 => "NULL".to_owned(),
                1 => "''".to_owned(),
                length => {
                    let unit = "z\u{fc}rich".repeat(usize::try_from(length).expect("few"));
                    format!("'https://example.org/sensors/{}/{unit}'", random.below(100))
                }
            };
            let (_, w) = random.one_of(&UBIGINTS);
            let ts = format!("'2025-03-0{day}T{hour:02}:{minute:02}:00'");
            let row = format!("({ts}, {s}, {n}, {b}, {x}, {u}, {flag}, {v}, {w})");
            write!(values, "{comma}{row}").expect("text");
        }
        test.output(&format!("INSERT INTO t VALUES {values}")).await?;
        match commit {
            1 | 3 => test.flush("t")?,
            4 => drop(test.output("DELETE FROM t WHERE n = 2 OR b % 7 = 3").await?),
            _ => {}
        }
    }
    Ok(test)
}

fn list(random: &mut Random, all: &[&'static str], count: u64) -> Vec<&'static str> {
    let mut chosen = Vec::new();
    for _ in 0..count {
        let (_, &one) = random.one_of(all);
        if !chosen.contains(&one) {
            chosen.push(one);
        }
    }
    chosen
}

/// A random aggregate over a relation that is named later.
fn query(random: &mut Random) -> impl Fn(&str) -> String + use<> {
    let count = 1 + random.below(4);
    let aggregates = list(random, &AGGREGATES, count);
    let count = random.below(3);
    let keys = list(random, &KEYS, count);
    let (_, filter) = random.one_of(&FILTERS);
    let filter = if random.below(2) == 0 { format!(" WHERE {filter}") } else { String::new() };
    move |from: &str| {
        let named = keys.iter().enumerate().map(|(at, key)| format!("{key} AS k{at}"));
        let items = named.chain(aggregates.iter().map(|it| (*it).to_owned()));
        let items = items.collect::<Vec<_>>().join(", ");
        let places = (1..=keys.len()).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
        let grouped = match keys.is_empty() {
            true => String::new(),
            false => format!(" GROUP BY {places} ORDER BY {places}"),
        };
        format!("SELECT {items} FROM {from}{filter}{grouped}")
    }
}

/// True if the scan of a query computes its aggregate: no partial aggregate is left.
async fn is_pushed(test: &TestDatabase, sql: &str) -> Result<bool, TestError> {
    let plan = test.rows(&format!("EXPLAIN {sql}")).await?.concat().concat();
    Ok(!plan.contains("mode=Partial,") && !plan.contains("mode=Single,"))
}

#[test]
fn pushed_aggregates_are_those_of_the_rows() {
    for seed in SEEDS {
        on_runtime(async {
            let mut random = Random(seed);
            let test = filled(&mut random).await?;
            let mut pushed = 0;
            for _ in 0..QUERIES {
                let query = query(&mut random);
                let (sql, plain) = (query("t"), query(PLAIN));
                pushed += usize::from(is_pushed(&test, &sql).await?);
                assert!(!is_pushed(&test, &plain).await?, "{plain}");
                assert_eq!(test.rows(&sql).await?, test.rows(&plain).await?, "seed {seed}: {sql}");
            }
            assert!(QUERIES / 4 < pushed, "seed {seed}: {pushed} aggregates are pushed down");
            Ok::<(), TestError>(())
        });
    }
}

/// SAMPLE BY with each way of aligning its buckets.
const SAMPLES: [&str; 6] = [
    "SAMPLE BY 1h",
    "SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin'",
    "SAMPLE BY 5h ALIGN TO CALENDAR WITH OFFSET '00:45'",
    "SAMPLE BY 7h FROM '2025-03-01T01:30' TO '2025-03-04'",
    "SAMPLE BY 5h ALIGN TO FIRST OBSERVATION",
    "SAMPLE BY 6h FILL(NULL)",
];

#[test]
fn sampled_aggregates_are_pushed_down_and_those_of_the_rows() {
    for seed in SEEDS {
        on_runtime(async {
            let mut random = Random(seed);
            let test = filled(&mut random).await?;
            for sample in SAMPLES {
                for keys in ["ts, ", "s, ts, ", "flag, s, ", ""] {
                    let count = 1 + random.below(3);
                    let aggregates = list(&mut random, &AGGREGATES[..17], count).join(", ");
                    let (_, filter) = random.one_of(&FILTERS);
                    let query = |from: &str| {
                        format!("SELECT {keys}{aggregates} FROM {from} WHERE {filter} {sample}")
                    };
                    let (sql, plain) = (query("t"), query(PLAIN));
                    assert!(is_pushed(&test, &sql).await?, "{sql}");
                    assert!(!is_pushed(&test, &plain).await?, "{plain}");
                    let (mut rows, mut expected) =
                        (test.rows(&sql).await?, test.rows(&plain).await?);
                    if keys.contains("ts") {
                        // They ascend by bucket; groups of one bucket are in no order.
                        let at = if keys.starts_with("ts") { 0 } else { 1 };
                        assert!(rows.is_sorted_by_key(|row| row[at].clone()), "{sql}");
                    }
                    rows.sort();
                    expected.sort();
                    assert_eq!(rows, expected, "seed {seed}: {sql}");
                }
            }
            Ok::<(), TestError>(())
        });
    }
}

/// With a limit, only as much is read as completes so many groups, from either end of the time.
#[test]
fn the_first_groups_by_time_are_those_of_all() {
    for seed in SEEDS {
        on_runtime(async {
            let mut random = Random(seed);
            let test = filled(&mut random).await?;
            let mut pushed = 0;
            for (sample, order) in SAMPLES[..4].iter().flat_map(|it| [(it, ""), (it, " DESC")]) {
                for keys in ["ts, ", "ts, s, "] {
                    let (_, filter) = random.one_of(&FILTERS);
                    let (_, aggregate) = random.one_of(&["max(n)", "last(b)", "avg(x)"]);
                    let from = format!("FROM t WHERE {filter} {sample} ORDER BY ts{order}");
                    let sql = format!("SELECT {keys}count(*), {aggregate} {from}");
                    let all = test.rows(&sql).await?;
                    for limit in [1, 2, 5, 40, 1_000] {
                        let limited = format!("{sql} LIMIT {limit}");
                        let plan = test.rows(&format!("EXPLAIN {limited}")).await?.concat();
                        let plan = plan.join("\n");
                        let is_pushed = plan.contains("PushedAggregateExec");
                        assert!(!is_pushed || !plan.contains("SortExec"), "{plan}");
                        pushed += usize::from(is_pushed && plan.contains("fetch="));
                        let rows = test.rows(&limited).await?;
                        let count = all.len().min(limit);
                        assert_eq!(rows.len(), count, "seed {seed}: {limited}");
                        let times = |rows: &[Vec<String>]| {
                            rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>()
                        };
                        assert_eq!(times(&rows), times(&all[..count]), "seed {seed}: {limited}");
                        // Groups of one bucket are in no order.
                        let is_one = |row: &Vec<String>| all.iter().filter(|it| *it == row).count();
                        assert!(rows.iter().all(|row| is_one(row) == 1), "seed {seed}: {limited}");
                    }
                }
            }
            assert!(20 < pushed, "seed {seed}: {pushed} limits are pushed down");
            Ok::<(), TestError>(())
        });
    }
}

/// Keys of which some have more values than there can be slots.
const HASH_KEYS: [&str; 12] = [
    "v",
    "b",
    "w",
    "ts",
    "s",
    "n",
    "flag",
    "u",
    "timestamp_floor('6h', ts)",
    "extract(minute FROM ts)",
    "day(ts)",
    "n IS NULL OR n > 3",
];

/// Parts of `$t`, which stands for each column of times, and expressions of them.
const PARTS: [&str; 27] = [
    "extract(minute FROM $t)",
    "extract(hour FROM $t)",
    "extract(day FROM $t)",
    "extract(dow FROM $t)",
    "extract(isodow FROM $t)",
    "extract(doy FROM $t)",
    "extract(week FROM $t)",
    "extract(month FROM $t)",
    "extract(quarter FROM $t)",
    "extract(year FROM $t)",
    "date_part('isoyear', $t)",
    "date_part('decade', $t)",
    "date_part('century', $t)",
    "date_part('millennium', $t)",
    "second($t)",
    "day_of_week($t)",
    "week_of_year($t)",
    "days_in_month($t)",
    "is_leap_year($t)",
    "hour($t) * 60 + minute($t)",
    "extract(dow FROM $t) IN (0, 6)",
    "CASE WHEN hour($t) IS NULL THEN 'none' WHEN hour($t) < 12 THEN 'am' ELSE 'pm' END",
    "coalesce(year($t), -1)",
    "extract(hour FROM $t AT TIME ZONE 'America/St_Johns')",
    "minute(to_timezone($t, 'Europe/Berlin'))",
    "hour(to_timezone($t, '+05:45'))",
    "extract(hour FROM $t AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin')",
];

/// Times before the year 1, before and after 1970, at changes of clocks, and at a change of an
/// offset that is no whole minute.
const INSTANTS: [&str; 14] = [
    "TIMESTAMP '0001-01-01' - INTERVAL '4000 years'",
    "TIMESTAMP '0001-01-01' - INTERVAL '1 microsecond'",
    "TIMESTAMP '0001-01-01'",
    "TIMESTAMP '1500-02-28T23:59:59.5'",
    "TIMESTAMP '1893-03-31T23:06:31.999999'",
    "TIMESTAMP '1969-12-31T23:59:59.999999'",
    "TIMESTAMP '1970-01-01'",
    "TIMESTAMP '1999-12-31T23:59:59'",
    "TIMESTAMP '2006-10-29T02:30:59.999999'",
    "TIMESTAMP '2025-03-30T00:59:59.999999'",
    "TIMESTAMP '2025-10-26T00:30:00'",
    "TIMESTAMP '2025-10-26T02:59:59.999999'",
    "TIMESTAMP '2100-02-28T12:00:00'",
    "TIMESTAMP '9999-12-31T20:00:00'",
];

/// computed_key-1: a part of a time is that of all times of its cell, whatever the time.
#[test]
fn parts_of_times_are_those_of_the_rows() {
    on_runtime(async {
        let test = TestDatabase::after(&[
            "CREATE TABLE t (ts TIMESTAMP, v TIMESTAMP, d DATE, i INT) TIMESTAMP(ts) \
             PARTITION BY YEAR",
        ])
        .await?;
        for (at, instants) in INSTANTS.chunks(5).enumerate() {
            let instants = instants.join("), (");
            // Each time, some times near to it, and NULL.
            let times = "CASE WHEN k % 5 = 4 THEN NULL ELSE ts + k * INTERVAL '37 minutes' END";
            let insert = format!(
                "INSERT INTO t SELECT ts, {times}, CAST({times} AS DATE), k FROM \
                 (SELECT at + k * INTERVAL '29 minutes 0.25 seconds' AS ts, k \
                 FROM (VALUES ({instants})) AS w(at) CROSS JOIN generate_series(0, 14) AS g(k))"
            );
            test.output(&insert).await?;
            if at == 1 {
                test.flush("t")?;
            }
        }
        let filters = ["", " WHERE ts >= '1980-01-01'"];
        let columns = |part| ["ts", "v", "d"].map(|column| (part, column));
        for ((part, column), filter) in PARTS.iter().flat_map(columns).zip(filters.iter().cycle()) {
            let key = part.replace("$t", column);
            let query = |from: &str| {
                format!("SELECT {key} AS k, count(*), max(i) FROM {from}{filter} GROUP BY 1")
            };
            let (sql, plain) = (query("t"), query(PLAIN));
            // 14,000 years have too many days for an expression of which more is not known.
            let has_many_cells =
                part.starts_with("coalesce") && (filter.is_empty() || column != "ts");
            assert!(is_pushed(&test, &sql).await? || has_many_cells, "{sql}");
            let (mut rows, mut expected) = (test.rows(&sql).await?, test.rows(&plain).await?);
            rows.sort();
            expected.sort();
            assert_eq!(rows, expected, "computed_key-1: {sql}");
        }
        Ok::<(), TestError>(())
    });
}

#[test]
fn groups_found_by_hash_are_those_of_the_rows() {
    for seed in SEEDS {
        on_runtime(async {
            let mut random = Random(seed);
            let test = filled(&mut random).await?;
            let mut hashed = 0;
            for _ in 0..QUERIES {
                let count = 1 + random.below(3);
                let keys = list(&mut random, &HASH_KEYS, count).join(", ");
                // Without aggregates it is DISTINCT.
                let count = random.below(4);
                let aggregates = list(&mut random, &AGGREGATES, count);
                let items = std::iter::once(keys.as_str()).chain(aggregates);
                let items = items.collect::<Vec<_>>().join(", ");
                let (_, filter) = random.one_of(&FILTERS);
                let query = |from: &str| {
                    format!("SELECT {items} FROM {from} WHERE {filter} GROUP BY {keys}")
                };
                let (sql, plain) = (query("t"), query(PLAIN));
                let plan = test.rows(&format!("EXPLAIN {sql}")).await?.concat().concat();
                hashed += usize::from(plan.contains(", hash, "));
                assert!(!is_pushed(&test, &plain).await?, "{plain}");
                let (mut rows, mut expected) = (test.rows(&sql).await?, test.rows(&plain).await?);
                rows.sort();
                expected.sort();
                assert_eq!(rows, expected, "seed {seed}: {sql}");
            }
            assert!(QUERIES / 4 < hashed, "seed {seed}: {hashed} groups are found by hash");
            Ok::<(), TestError>(())
        });
    }
}

/// A sort with a limit by a count takes only some groups, and DISTINCT with a limit ends early.
#[test]
fn limits_above_groups_found_by_hash_are_those_of_all_groups() {
    on_runtime(async {
        let test = filled(&mut Random(4)).await?;
        for keys in ["v", "b, v", "ts, w", "s, b, flag"] {
            let counted = format!("SELECT {keys}, count(*) AS c, count(n) AS d FROM");
            let all = test.rows(&format!("{counted} {PLAIN} GROUP BY {keys}")).await?;
            let width = all[0].len();
            for limit in [1, 2, 30, 1_000] {
                for (by, order) in [("c", "DESC"), ("c", "ASC"), ("d", "DESC"), ("d", "")] {
                    let sorted = |from: &str, then: &str| {
                        let by = format!("ORDER BY {by} {order}{then} LIMIT {limit}");
                        format!("{counted} {from} GROUP BY {keys} {by}")
                    };
                    let sql = sorted("t", "");
                    let plan = test.rows(&format!("EXPLAIN {sql}")).await?.concat().concat();
                    assert!(plan.contains(&format!(", top={limit}")), "{plan}");
                    let rows = test.rows(&sql).await?;
                    let of = |rows: &[Vec<String>]| {
                        let at = if by == "c" { width - 2 } else { width - 1 };
                        rows.iter().map(|row| row[at].parse::<u64>()).collect::<Vec<_>>()
                    };
                    let plain = test.rows(&sorted(PLAIN, "")).await?;
                    assert_eq!(of(&rows), of(&plain), "{sql}");
                    let is_one =
                        |row: &Vec<String>| all.iter().filter(|it| *it == row).count() == 1;
                    assert!(rows.iter().all(is_one), "{sql}");
                    // Ties are sorted by the keys.
                    let (sql, plain) =
                        (sorted("t", &format!(", {keys}")), sorted(PLAIN, &format!(", {keys}")));
                    assert_eq!(test.rows(&sql).await?, test.rows(&plain).await?, "{sql}");
                }
                let sql = format!("SELECT DISTINCT {keys} FROM t LIMIT {limit}");
                let plan = test.rows(&format!("EXPLAIN {sql}")).await?.concat().concat();
                assert!(plan.contains(&format!(", fetch={limit}")), "{plan}");
                let mut rows = test.rows(&sql).await?;
                assert_eq!(rows.len(), all.len().min(limit), "{sql}");
                let is_there = |row: &Vec<String>| all.iter().any(|it| it[..width - 2] == row[..]);
                assert!(rows.iter().all(is_there), "{sql}");
                rows.sort();
                rows.dedup();
                assert_eq!(rows.len(), all.len().min(limit), "{sql}");
            }
            let first = keys.split(", ").next().expect("one at least");
            let distinct = |from: &str| format!("SELECT count(DISTINCT {first}) FROM {from}");
            let (sql, plain) = (distinct("t"), distinct(PLAIN));
            assert_eq!(test.rows(&sql).await?, test.rows(&plain).await?, "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

/// All four segments have the same texts: the tables of two workers are more than the memory of the
/// statement, and what DataFusion has for each part of the texts is less.
#[test]
fn groups_without_memory_are_those_of_another_operator() {
    on_runtime(async {
        let mut test = TestDatabase::after(&[
            "CREATE TABLE t (ts TIMESTAMP, n INT, v VARCHAR) TIMESTAMP(ts) PARTITION BY DAY",
        ])
        .await?;
        for day in 1..=4 {
            let insert = format!(
                "INSERT INTO t SELECT TIMESTAMP '2025-03-0{day}' + i * INTERVAL '1 second', \
                 i % 7, 'a text of some length, number ' || i % 10000 \
                 FROM generate_series(0, 14999) AS g(i)"
            );
            test.run(&insert).await?;
            test.flush("t")?;
        }
        let statement_memory_max = ByteCount(4 << 20);
        test.reopen_with(EngineOptions { statement_memory_max, ..engine_options() })?;
        let query = |from: &str| {
            let groups = format!(
                "SELECT v, count(n) FILTER (WHERE n < 7) AS c, sum(n) AS s, min(n) AS m, \
                 max(ts) AS x FROM {from} GROUP BY v"
            );
            format!("SELECT count(*), sum(c), sum(s), min(m), max(x), max(v) FROM ({groups})")
        };
        let (sql, plain) = (query("t"), query(PLAIN));
        let ran = test.rows(&format!("EXPLAIN ANALYZE {sql}")).await?.concat().concat();
        assert!(ran.contains(", hash, ") && ran.contains("memory_refused=1"), "{ran}");
        let rows = test.rows(&sql).await?;
        assert_eq!(rows[0][..2], ["10000", "60000"]);
        assert_eq!(rows, test.rows(&plain).await?);
        Ok::<(), TestError>(())
    });
}

// A zone of long texts was copied and decompressed before its memory was reserved: six statements
// over a table of 600 MB had 5 GB. Now they are read in pieces, and leave in batches of a few.
#[test]
fn groups_of_long_texts_are_those_of_the_rows() {
    on_runtime(async {
        let mut test = TestDatabase::after(&[
            "CREATE TABLE t (ts TIMESTAMP, n INT, v VARCHAR) TIMESTAMP(ts) PARTITION BY DAY",
        ])
        .await?;
        for day in 1..=2 {
            let insert = format!(
                "INSERT INTO t SELECT TIMESTAMP '2025-03-0{day}' + i * INTERVAL '1 second', \
                 i % 3, CASE WHEN i % 9 > 0 THEN repeat('reading {day} of ' || i % 68, 3500) END \
                 FROM generate_series(0, 69) AS g(i)"
            );
            test.run(&insert).await?;
            if day == 1 {
                // They are compressed; the others are as they came.
                test.flush("t")?;
            }
        }
        let short = "substr(v, 1, 15), length(v)";
        let queries = |from: &str| {
            let groups = format!("SELECT v, count(*) AS c, sum(n) AS s FROM {from} GROUP BY v");
            [
                format!("SELECT {short}, c, s FROM ({groups})"),
                format!(
                    "SELECT {short}, n, c FROM \
                     (SELECT v, n, count(*) AS c FROM {from} WHERE n > 0 GROUP BY v, n)"
                ),
                format!("SELECT {short}, c FROM ({groups} ORDER BY c DESC, v LIMIT 7)"),
                format!("SELECT count(DISTINCT v) FROM {from}"),
            ]
        };
        for statement_memory_max in [engine_options().statement_memory_max, ByteCount(32 << 20)] {
            test.reopen_with(EngineOptions { statement_memory_max, ..engine_options() })?;
            for (sql, plain) in queries("t").iter().zip(&queries(PLAIN)) {
                let plan = test.rows(&format!("EXPLAIN {sql}")).await?.concat().concat();
                assert!(plan.contains(", hash, "), "{plan}");
                let (mut rows, mut expected) = (test.rows(sql).await?, test.rows(plain).await?);
                rows.sort();
                expected.sort();
                assert_eq!(rows, expected, "{sql}");
            }
        }
        Ok::<(), TestError>(())
    });
}

#[test]
fn distinct_values_beside_other_aggregates_are_those_of_the_rows() {
    on_runtime(async {
        let test = filled(&mut Random(5)).await?;
        let grouped = [
            "",
            " GROUP BY s",
            " GROUP BY flag, s",
            " GROUP BY v",
            " GROUP BY b, s",
            " SAMPLE BY 6h",
        ];
        for distinct in ["s", "n", "flag", "u", "n % 3", "hour(ts)", "date_trunc('day', ts)"] {
            let filters = ["", " WHERE x > 0", " WHERE n > 1000"];
            for (by, filter) in grouped.iter().zip(filters.iter().cycle()) {
                let query = |from: &str| {
                    format!(
                        "SELECT count(*), count(DISTINCT {distinct}), count(DISTINCT n), \
                         count(DISTINCT {distinct}) * 2, sum(n) FROM {from}{filter}{by}"
                    )
                };
                let (sql, plain) = (query("t"), query(PLAIN));
                assert!(is_pushed(&test, &sql).await?, "{sql}");
                let (mut rows, mut expected) = (test.rows(&sql).await?, test.rows(&plain).await?);
                rows.sort();
                expected.sort();
                assert_eq!(rows, expected, "{sql}");
            }
        }
        Ok::<(), TestError>(())
    });
}

/// Aggregates of expressions, and aggregates with FILTER.
const CALCULATED: [&str; 27] = [
    "sum(CASE WHEN n > 2 THEN 1 ELSE 0 END)",
    "sum(CASE WHEN s = 's1' THEN b END)",
    "sum(CASE WHEN x > 0 THEN x ELSE 0 END)",
    "count(CASE WHEN flag THEN 1 END)",
    "avg(CASE WHEN x > 0 THEN n END)",
    "sum(b * 2 + n)",
    "avg(n * 3)",
    "avg(x + n)",
    "sum(x * 4)",
    "min(x * 2)",
    "max(0 - x)",
    "min(n - b)",
    "max(n % 3)",
    "count(n + b)",
    "sum(length(s))",
    "count(*) FILTER (WHERE n > 2)",
    "count(n) FILTER (WHERE flag)",
    "sum(b) FILTER (WHERE s = 's1' OR x > 0)",
    "avg(n) FILTER (WHERE n <> 3)",
    "avg(x) FILTER (WHERE flag IS NULL)",
    "min(x) FILTER (WHERE n > 1000)",
    "max(ts) FILTER (WHERE n < 0)",
    "sum(n * 2) FILTER (WHERE x = x)",
    "max(n * 2) FILTER (WHERE n <> 0 AND b > 2)",
    "sum(length(s)) FILTER (WHERE flag)",
    "count(DISTINCT n) FILTER (WHERE x > 0)",
    "count(DISTINCT s) FILTER (WHERE n > 2 AND x < 5)",
];

/// calculated-1: expressions are evaluated in the scan as they are above it.
#[test]
fn aggregates_of_expressions_are_those_of_the_rows() {
    for seed in SEEDS {
        on_runtime(async {
            let mut random = Random(seed);
            let test = filled(&mut random).await?;
            for aggregate in CALCULATED {
                let all = ["", " GROUP BY s", " GROUP BY v, n % 3", " SAMPLE BY 6h"];
                let (_, by) = random.one_of(&all);
                let (_, filter) = random.one_of(&FILTERS);
                let (_, other) = random.one_of(&CALCULATED);
                let query = |from: &str| {
                    format!(
                        "SELECT count(*), {aggregate}, sum(n) AS s, {other} AS o FROM {from} \
                         WHERE {filter}{by}"
                    )
                };
                let (sql, plain) = (query("t"), query(PLAIN));
                assert!(is_pushed(&test, &sql).await?, "{sql}");
                let (mut rows, mut expected) = (test.rows(&sql).await?, test.rows(&plain).await?);
                rows.sort();
                expected.sort();
                assert_eq!(rows, expected, "calculated-1: seed {seed}: {sql}");
            }
            Ok::<(), TestError>(())
        });
    }
}

#[test]
fn each_aggregate_alone_is_that_of_the_rows() {
    on_runtime(async {
        let test = filled(&mut Random(9)).await?;
        for aggregate in AGGREGATES {
            for by in ["", " GROUP BY s ORDER BY s"] {
                let key = if by.is_empty() { "" } else { "s, " };
                let query = |from: &str| format!("SELECT {key}{aggregate} FROM {from}{by}");
                let (sql, plain) = (query("t"), query(PLAIN));
                assert_eq!(test.rows(&sql).await?, test.rows(&plain).await?, "{sql}");
            }
        }
        Ok::<(), TestError>(())
    });
}

/// A table without rows, and one whose rows are all deleted, have the answers of no rows.
#[test]
fn aggregates_of_no_rows_are_null() {
    on_runtime(async {
        let mut test = TestDatabase::after(&[
            "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, n INT, x DOUBLE) TIMESTAMP(ts)",
        ])
        .await?;
        for _ in 0..2 {
            test.check(
                "SELECT count(*), sum(n), min(x), max(ts), avg(x) FROM t",
                "0 NULL NULL NULL NULL",
            )
            .await;
            test.check("SELECT s, count(*) FROM t GROUP BY s", "").await;
            test.run("INSERT INTO t VALUES (1, 'a', 1, 1), (2, NULL, NULL, NULL)").await?;
            test.flush("t")?;
            test.check("SELECT count(*), sum(n), count(x) FROM t", "2 1 1").await;
            test.run("DELETE FROM t").await?;
        }
        Ok::<(), TestError>(())
    });
}
