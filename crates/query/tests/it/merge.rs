//! Scans that merge runs which overlap in time: the memtable, segments of late rows, deletes and
//! replaced rows. The answers are those of a sorted list of rows.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::fixture::{Cells, TestDatabase, TestError, on_runtime};

/// Random histories; each takes some dozen statements.
const CASES: u32 = 12;
/// Instants of two days, so that runs overlap and many rows have equal times.
const INSTANTS: u8 = 12;
const INSTANT_MICROS: i64 = 4 * 3_600 * 1_000_000;

/// A row: its instant, its key, and a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    at: u8,
    key: u8,
    number: u32,
}

#[derive(Clone, Debug)]
enum Step {
    /// Rows of one commit, as instants and keys.
    Insert(Vec<(u8, u8)>),
    DeleteKey(u8),
    DeleteBefore(u8),
    /// Moves the rows of a key behind all others with the same times.
    Update(u8),
    Flush,
    Compact,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rows = prop::collection::vec((0..INSTANTS, 0_u8..5), 1..9);
    let step = prop_oneof![
        6 => rows.prop_map(Step::Insert),
        1 => (0_u8..5).prop_map(Step::DeleteKey),
        1 => (0..INSTANTS).prop_map(Step::DeleteBefore),
        1 => (0_u8..5).prop_map(Step::Update),
        3 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..14)
}

/// A table as a list of rows in the order of a scan.
struct Model {
    rows: Vec<Row>,
    next: u32,
    replaces: bool,
}

impl Model {
    fn insert(&mut self, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            if self.replaces {
                self.rows.retain(|old| (old.at, old.key) != (row.at, row.key));
            }
            self.rows.push(row);
        }
        // Rows with equal times stay in the order of their commits.
        self.rows.sort_by_key(|row| row.at);
    }

    /// Applies a step, and returns its statement.
    fn apply(&mut self, step: &Step) -> Option<String> {
        match step {
            Step::Insert(rows) => {
                let first = self.next;
                self.next += u32::try_from(rows.len()).expect("few rows");
                let rows = (first..).zip(rows).map(|(number, &(at, key))| Row { at, key, number });
                let rows = rows.collect::<Vec<_>>();
                let values = rows
                    .iter()
                    .map(|row| format!("({}, 'k{}', {})", micros(row.at), row.key, row.number));
                let values = values.collect::<Vec<_>>().join(", ");
                self.insert(rows);
                Some(format!("INSERT INTO t VALUES {values}"))
            }
            Step::DeleteKey(key) => {
                self.rows.retain(|row| row.key != *key);
                Some(format!("DELETE FROM t WHERE k = 'k{key}'"))
            }
            Step::DeleteBefore(at) => {
                self.rows.retain(|row| row.at >= *at);
                Some(format!("DELETE FROM t WHERE ts < {}", micros(*at)))
            }
            Step::Update(key) => {
                let (moved, kept) = self.rows.iter().partition(|row| row.key == *key);
                self.rows = kept;
                let moved: Vec<Row> = moved;
                self.insert(moved.into_iter().map(|row| Row { number: row.number + 1_000, ..row }));
                Some(format!("UPDATE t SET n = n + 1000 WHERE k = 'k{key}'"))
            }
            Step::Flush | Step::Compact | Step::Reopen => None,
        }
    }

    /// Queries with the numbers of the rows that they return.
    fn answers(&self) -> Vec<(String, Vec<u32>)> {
        let of = |keep: &dyn Fn(&Row) -> bool| {
            self.rows.iter().filter(|row| keep(row)).map(|row| row.number).collect::<Vec<_>>()
        };
        let all = of(&|_| true);
        let reversed = all.iter().rev().copied().collect::<Vec<_>>();
        let (low, high) = (micros(3), micros(8));
        vec![
            ("SELECT n FROM t".to_owned(), all.clone()),
            ("SELECT n FROM t ORDER BY ts".to_owned(), all.clone()),
            ("SELECT n FROM t LIMIT 5".to_owned(), all.iter().take(5).copied().collect()),
            ("SELECT n FROM t LIMIT -5".to_owned(), all[all.len().saturating_sub(5)..].to_vec()),
            (
                format!("SELECT n FROM t WHERE ts >= {low} AND ts < {high}"),
                of(&|row| (3..8).contains(&row.at)),
            ),
            ("SELECT n FROM t WHERE k = 'k1'".to_owned(), of(&|row| row.key == 1)),
            (
                format!("SELECT n FROM t WHERE ts > {low} AND k != 'k2' LIMIT 3"),
                of(&|row| 3 < row.at && row.key != 2).into_iter().take(3).collect(),
            ),
            (
                "SELECT n FROM (SELECT * FROM t ORDER BY ts DESC)".to_owned(),
                // Only the times are in descending order: equal ones are compared as sets below.
                reversed,
            ),
        ]
    }
}

fn micros(at: u8) -> i64 {
    i64::from(at) * INSTANT_MICROS
}

async fn check(steps: &[Step], replaces: bool) -> Result<(), TestError> {
    let mut test = TestDatabase::new()?;
    let keys = if replaces { " DEDUP UPSERT KEYS(ts, k)" } else { "" };
    test.run(&format!(
        "CREATE TABLE t (ts TIMESTAMP, k SYMBOL, n BIGINT) TIMESTAMP(ts) PARTITION BY DAY{keys}"
    ))
    .await?;
    let mut model = Model { rows: Vec::new(), next: 0, replaces };
    for step in steps {
        if let Some(sql) = model.apply(step) {
            test.run(&sql).await?;
        }
        match step {
            Step::Flush => test.flush("t")?,
            Step::Compact => test.compact("t")?,
            Step::Reopen => test.reopen()?,
            _ => {}
        }
    }
    for (sql, expected) in model.answers() {
        let mut found = test.rows(&sql).await?;
        let mut expected: Vec<Cells> = expected.iter().map(|n| vec![n.to_string()]).collect();
        if sql.contains("DESC") {
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected, "{sql}");
    }
    // The times themselves descend when that is asked for.
    let times = test.rows("SELECT CAST(ts AS BIGINT) FROM t ORDER BY ts DESC").await?;
    let expected = model.rows.iter().rev().map(|row| vec![micros(row.at).to_string()]);
    assert_eq!(times, expected.collect::<Vec<_>>());
    Ok(())
}

fn run(replaces: bool) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, random).run(&steps(), |steps| {
        on_runtime(check(&steps, replaces));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn a_scan_returns_rows_as_a_sorted_list_would() {
    run(false);
}

#[test]
fn a_scan_of_a_table_with_keys_returns_the_last_row_of_each_key() {
    run(true);
}

/// Runs that overlap over several batches of a scan: their rows alternate, in steps of different
/// lengths, and each third row is deleted.
#[test]
fn long_runs_are_merged_over_many_batches() {
    const ROWS: i64 = 20_000;
    on_runtime(async {
        let test = TestDatabase::after(&[
            "CREATE TABLE t (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts) PARTITION BY MONTH",
        ])
        .await?;
        let mut rows = Vec::new();
        for (run, step) in [(0, 1_000), (1, 700), (2, 1_301)] {
            let insert = format!(
                "INSERT INTO t SELECT CAST(x * {step} AS TIMESTAMP), x * 3 + {run} \
                 FROM long_sequence({ROWS})"
            );
            test.output(&insert).await?;
            test.flush("t")?;
            rows.extend((1..=ROWS).map(|x| (x * step, x * 3 + run)));
        }
        rows.sort_by_key(|row| row.0);
        test.output("DELETE FROM t WHERE n % 3 = 1 AND n % 2 = 0").await?;
        rows.retain(|row| !(row.1 % 3 == 1 && row.1 % 2 == 0));
        let shown = |rows: &[(i64, i64)]| -> Vec<Cells> {
            rows.iter().map(|row| vec![row.1.to_string()]).collect()
        };
        // `assert_eq` would print all rows.
        assert!(test.rows("SELECT n FROM t").await? == shown(&rows), "all rows");
        let last = &rows[rows.len() - 9_000..];
        assert!(test.rows("SELECT n FROM t LIMIT -9000").await? == shown(last), "the last rows");
        let (low, high) = (5_000_000, 9_000_000);
        let between = rows.iter().filter(|row| low <= row.0 && row.0 < high).copied();
        let sql = format!("SELECT n FROM t WHERE ts >= {low} AND ts < {high}");
        assert!(test.rows(&sql).await? == shown(&between.collect::<Vec<_>>()), "{sql}");
        Ok::<(), TestError>(())
    });
}
