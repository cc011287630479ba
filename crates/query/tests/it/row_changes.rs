//! Random statements that change rows, on a table and on a list of rows: both have the same rows,
//! in the same order, and return the same counts.

use crate::fixture::{Random, TestDatabase, TestError, on_runtime};

const SEEDS: [u64; 3] = [1, 2, 3];
const STEPS: usize = 30;

/// Range of the timestamps: three days, so that statements touch several partitions, with few
/// instants, so that many rows have the same one.
const SECONDS: u64 = 3 * 86_400;
const INSTANTS: u64 = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    ts: u64,
    n: Option<u64>,
    s: Option<String>,
}

fn random_row(random: &mut Random) -> Row {
    Row {
        ts: random.below(INSTANTS) * (SECONDS / INSTANTS),
        n: (random.below(8) > 0).then(|| random.below(50)),
        s: (random.below(5) > 0).then(|| format!("s{}", random.below(4))),
    }
}

/// The condition of a WHERE.
enum Asked {
    All,
    Remainder(u64, u64),
    Before(u64),
    Text(u64),
    NoText,
}

impl Asked {
    fn new(random: &mut Random) -> Asked {
        match random.below(9) {
            0 => Asked::All,
            1..=3 => Asked::Remainder(2 + random.below(4), random.below(2)),
            4 | 5 => Asked::Before(random.below(SECONDS)),
            6 | 7 => Asked::Text(random.below(4)),
            _ => Asked::NoText,
        }
    }

    fn sql(&self) -> String {
        match self {
            Asked::All => String::new(),
            Asked::Remainder(by, rest) => format!(" WHERE n % {by} = {rest}"),
            Asked::Before(second) => format!(" WHERE ts < {}", second * 1_000_000),
            Asked::Text(number) => format!(" WHERE s = 's{number}'"),
            Asked::NoText => " WHERE s IS NULL".to_owned(),
        }
    }

    fn is_true_of(&self, row: &Row) -> bool {
        match self {
            Asked::All => true,
            Asked::Remainder(by, rest) => row.n.is_some_and(|n| n % by == *rest),
            Asked::Before(second) => row.ts < *second,
            Asked::Text(number) => row.s == Some(format!("s{number}")),
            Asked::NoText => row.s.is_none(),
        }
    }
}

/// Changes the list as the statement that it returns changes the table, and returns the number of
/// changed rows.
fn step(random: &mut Random, rows: &mut Vec<Row>) -> (String, u64) {
    let asked = Asked::new(random);
    let matching = rows.iter().filter(|row| asked.is_true_of(row)).cloned().collect::<Vec<_>>();
    let (sql, added) = match random.below(10) {
        0..=4 => {
            let added = (0..1 + random.below(30)).map(|_| random_row(random)).collect::<Vec<_>>();
            let values = added.iter().map(|Row { ts, n, s }| {
                let n = n.map_or("NULL".to_owned(), |n| n.to_string());
                let s = s.as_ref().map_or("NULL".to_owned(), |s| format!("'{s}'"));
                format!("({n}, {}, {s})", ts * 1_000_000)
            });
            let values = values.collect::<Vec<_>>().join(", ");
            (format!("INSERT INTO t (n, ts, s) VALUES {values}"), added)
        }
        5 if matching.len() < 300 => {
            let mut added = matching;
            added.iter_mut().for_each(|row| row.n = row.n.map(|n| n + 1));
            (format!("INSERT INTO t SELECT ts, n + 1, s FROM t{}", asked.sql()), added)
        }
        5..=7 => {
            rows.retain(|row| !asked.is_true_of(row));
            let mut added = matching;
            let text = format!("s{}", random.below(4));
            for row in &mut added {
                row.n = row.n.map(|n| n * 2 % 100);
                row.s = Some(text.clone());
            }
            (format!("UPDATE t SET n = n * 2 % 100, s = '{text}'{}", asked.sql()), added)
        }
        _ => {
            rows.retain(|row| !asked.is_true_of(row));
            let count = matching.len() as u64;
            return (format!("DELETE FROM t{}", asked.sql()), count);
        }
    };
    let count = added.len() as u64;
    rows.extend(added);
    // Rows with equal times stay in the order of commits.
    rows.sort_by_key(|row| row.ts);
    (sql, count)
}

#[test]
fn statements_change_rows_as_a_list_would() {
    on_runtime(compare_with_a_list());
}

async fn compare_with_a_list() -> Result<(), TestError> {
    for seed in SEEDS {
        let mut random = Random(seed);
        let mut test = TestDatabase::new()?;
        let create = "CREATE TABLE t (ts TIMESTAMP, n BIGINT, s SYMBOL) \
            TIMESTAMP(ts) PARTITION BY DAY";
        test.run(create).await?;
        let mut rows = Vec::new();
        for at in 0..STEPS {
            match random.below(8) {
                0 => test.reopen()?,
                1 => test.maintain()?,
                _ => {}
            }
            let (sql, expected) = step(&mut random, &mut rows);
            let place = format!("seed {seed}, step {at}: {sql}");
            let count = test.run(&sql).await?.count();
            assert_eq!(count, expected, "{place}");
            let read = "SELECT CAST(ts AS BIGINT) / 1000000, n, s FROM t";
            let read = test.rows(read).await?;
            let shown = |row: &Row| {
                let n = row.n.map_or("NULL".to_owned(), |n| n.to_string());
                vec![row.ts.to_string(), n, row.s.clone().unwrap_or("NULL".to_owned())]
            };
            assert_eq!(read, rows.iter().map(shown).collect::<Vec<_>>(), "{place}");
        }
    }
    Ok(())
}
