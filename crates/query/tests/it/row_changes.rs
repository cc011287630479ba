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
enum Condition {
    All,
    Remainder(u64, u64),
    Before(u64),
    Text(u64),
    NoText,
}

impl Condition {
    fn new(random: &mut Random) -> Condition {
        match random.below(9) {
            0 => Condition::All,
            1..=3 => Condition::Remainder(2 + random.below(4), random.below(2)),
            4 | 5 => Condition::Before(random.below(SECONDS)),
            6 | 7 => Condition::Text(random.below(4)),
            _ => Condition::NoText,
        }
    }

    fn sql(&self) -> String {
        match self {
            Condition::All => String::new(),
            Condition::Remainder(by, rest) => format!(" WHERE n % {by} = {rest}"),
            Condition::Before(second) => format!(" WHERE ts < {}", second * 1_000_000),
            Condition::Text(number) => format!(" WHERE s = 's{number}'"),
            Condition::NoText => " WHERE s IS NULL".to_owned(),
        }
    }

    fn is_true_of(&self, row: &Row) -> bool {
        match self {
            Condition::All => true,
            Condition::Remainder(by, rest) => row.n.is_some_and(|n| n % by == *rest),
            Condition::Before(second) => row.ts < *second,
            Condition::Text(number) => row.s == Some(format!("s{number}")),
            Condition::NoText => row.s.is_none(),
        }
    }
}

/// Changes the list as the statement that it returns changes the table, and returns the number of
/// changed rows.
fn step(random: &mut Random, rows: &mut Vec<Row>) -> (String, u64) {
    let condition = Condition::new(random);
    let matching = rows.iter().filter(|row| condition.is_true_of(row)).cloned().collect::<Vec<_>>();
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
            (format!("INSERT INTO t SELECT ts, n + 1, s FROM t{}", condition.sql()), added)
        }
        5..=7 => {
            rows.retain(|row| !condition.is_true_of(row));
            let mut added = matching;
            let text = format!("s{}", random.below(4));
            for row in &mut added {
                row.n = row.n.map(|n| n * 2 % 100);
                row.s = Some(text.clone());
            }
            (format!("UPDATE t SET n = n * 2 % 100, s = '{text}'{}", condition.sql()), added)
        }
        _ => {
            rows.retain(|row| !condition.is_true_of(row));
            let count = matching.len() as u64;
            return (format!("DELETE FROM t{}", condition.sql()), count);
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
