//! Aggregate pushdown compared with DataFusion's own aggregates: a LIMIT that keeps all rows
//! prevents the pushdown.

use std::fmt::Write;

use crate::world::World;

const SCHEMA: &str = "CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, txt VARCHAR, uniq VARCHAR, \
    b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, u8 UTINYINT, u16 USMALLINT, \
    u32 UINT, u64 UBIGINT, f32 FLOAT, f64 DOUBLE, d DATE, same INT, none INT) \
    TIMESTAMP(ts) PARTITION BY MONTH";

/// Number of rows: more than one page frame.
const ROWS: u64 = 70_000;

const KEYS: [&str; 12] = [
    "",
    "sym",
    "txt",
    "b",
    "i8",
    "d",
    "sym, b",
    "txt, sym",
    "same, none",
    "date_trunc('minute', ts)",
    "timestamp_floor('7h', ts), sym",
    "date_bin(INTERVAL '90 minutes', ts), i8",
];

/// Keys with more groups than there can be slots.
const HASH_KEYS: [&str; 6] =
    ["uniq", "i64", "ts", "txt, uniq", "i64, txt, timestamp_floor('7h', ts)", "u64, d, sym, uniq"];

const HASH_AGGREGATES: &str = "count(*), count(i32), sum(i64), sum(f64), min(u64), max(f64), \
    avg(i32), max(ts), max(length(uniq))";

const AGGREGATES: &str = "count(*), count(i32), count(uniq), count(none), \
    sum(i8), sum(i16), sum(i32), sum(i64), sum(u8), sum(u16), sum(u32), sum(u64), sum(none), \
    min(i8), min(i16), min(i32), min(i64), min(u64), min(f32), min(f64), min(ts), min(d), \
    max(i8), max(i16), max(i32), max(i64), max(u64), max(f32), max(f64), max(ts), max(none), \
    sum(f64), avg(f64), avg(i32), sum(f32), avg(u64), avg(none), sum(same), max(same), avg(same)";

const BY_POSITION: &str = "first(i32), last(i32), first(f64), last(ts), first_not_null(i64), \
    last_not_null(u64), first(none), last(same)";

const FILTERS: [&str; 5] = [
    "",
    "WHERE i16 > 12000",
    "WHERE sym IN ('s1', 's3') AND f64 < 10",
    "WHERE ts IN '2024-03-01T03;5h' AND i8 <> 3",
    "WHERE i32 > 2000000000",
];

/// Returns random rows, with NULL in every column except the designated timestamp.
fn rows(count: u64, seed: u64) -> String {
    let mut text =
        String::from("ts,sym,txt,uniq,b,i8,i16,i32,i64,u8,u16,u32,u64,f32,f64,d,same,none\n");
    let mut state = seed;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for row in 0..count {
        let second = random(2 * 86_400);
        let (day, second) = (1 + second / 86_400, second % 86_400);
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        let _ = write!(text, "2024-03-{day:02}T{hour:02}:{minute:02}:{:02}.", second % 60);
        let _ = write!(text, "{:06}Z", random(1_000_000));
        let mut field = |value: String| {
            text.push(',');
            if random(13) > 0 {
                text.push_str(&value);
            }
        };
        field(format!("s{}", row % 5));
        field(format!("text {}", row * row % 97));
        field(format!("unique {row} {seed}"));
        field((row % 3 == 0).to_string());
        field((row as i64 % 11 - 5).to_string());
        field((row as i64 * 7_919 % 65_536 - 32_768).to_string());
        field((row as i64 * 99_991 % 2_000_000_000 - 900_000_000).to_string());
        field((row as i64 * 1_000_000_000_039 - 7).to_string());
        field((row % 256).to_string());
        field((row * 31 % 65_536).to_string());
        field((row * 104_729 % 4_294_967_296).to_string());
        field((u64::MAX - row * 1_000_003).to_string());
        field(format!("{}.25", row % 1_000));
        field(match row % 500 {
            7 => "0.3333333333333333".to_owned(),
            9 => "-1e-9".to_owned(),
            _ => format!("{}.{:02}", row as i64 % 300 - 150, row % 100),
        });
        field(format!("2024-0{}-1{}", 1 + row % 9, row % 10));
        text.push_str(",42,\n");
    }
    text
}

/// Returns a query for every key, each with one of the filters.
fn queries(keys: &[&str], aggregates: &str, source: &str, explain: &str) -> String {
    let mut text = String::new();
    for (keys, filter) in keys.iter().zip(FILTERS.iter().cycle()) {
        let _ = if keys.is_empty() {
            writeln!(text, "{explain}SELECT {aggregates} FROM {source} {filter};")
        } else {
            let by = format!("GROUP BY {keys} ORDER BY {keys}");
            writeln!(text, "{explain}SELECT {keys}, {aggregates} FROM {source} {filter} {by};")
        };
    }
    text
}

/// Compares two rows; float sums may differ in their last digits, which depend on the order of the
/// rows.
fn is_same(a: &str, b: &str) -> bool {
    let is_close = |(a, b): (&str, &str)| {
        a == b
            || match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
                _ => false,
            }
    };
    a.split(',').count() == b.split(',').count() && a.split(',').zip(b.split(',')).all(is_close)
}

fn answers(world: &World, queries: String) -> String {
    world.file("queries.sql", queries);
    world.run(&["sql", "--format", "csv", "-f", "queries.sql"]).succeeds()
}

fn import(world: &World, count: u64, seed: u64) {
    world.file("t.sql", SCHEMA);
    world.file("rows.csv", rows(count, seed));
    let import = ["import", "rows.csv", "--table", "t", "--schema", "t.sql", "--progress", "none"];
    world.run(&import).succeeds();
}

/// Checks that so many of the plans have the pushdown, and that all queries give the same rows as
/// without it.
#[track_caller]
fn check(world: &World, keys: &[&str], aggregates: &str, fused: usize) {
    const UNFUSED: &str = "(SELECT * FROM t LIMIT 100000000)";
    for (source, expected) in [("t", fused), (UNFUSED, 0)] {
        let plans = answers(world, queries(keys, aggregates, source, "EXPLAIN "));
        assert_eq!(plans.matches("PushedAggregateExec").count(), expected, "{plans}");
    }
    let fused = answers(world, queries(keys, aggregates, "t", ""));
    let plain = answers(world, queries(keys, aggregates, UNFUSED, ""));
    assert!(fused.lines().count() > keys.len());
    for (fused, plain) in fused.lines().zip(plain.lines()) {
        assert!(is_same(fused, plain), "\n{fused}\n{plain}");
    }
    assert_eq!(fused.lines().count(), plain.lines().count());
}

#[test]
fn fused_aggregates_answer_as_others_do() {
    let world = World::new();
    import(&world, ROWS, 1);
    check(&world, &KEYS, BY_POSITION, KEYS.len());
    check(&world, &KEYS, AGGREGATES, KEYS.len());
    // Rows that overlap in time have an order only after a merge.
    import(&world, 1_000, 2);
    check(&world, &KEYS, BY_POSITION, 0);
    check(&world, &KEYS, AGGREGATES, KEYS.len());
}

/// Texts of two imports, each compressed with a table of its own, and of some rows in memory.
#[test]
fn groups_found_by_hash_are_those_of_others() {
    let world = World::new();
    import(&world, ROWS, 1);
    check(&world, &HASH_KEYS, HASH_AGGREGATES, HASH_KEYS.len());
    import(&world, 3_000, 1);
    let insert = "INSERT INTO t (ts, sym, uniq, txt, i64) VALUES \
        ('2024-03-01T12:00:00', 's1', 'unique 5 1', '', 5), \
        ('2024-03-01T12:00:00', 's1', '', 'text 1', NULL), \
        ('2024-03-02T12:00:00', NULL, NULL, NULL, 5)";
    world.run(&["sql", insert]).succeeds();
    check(&world, &HASH_KEYS, HASH_AGGREGATES, HASH_KEYS.len());
}
