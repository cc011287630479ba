//! Transactions compared with two lists of rows: the committed rows, and the rows that the
//! transaction sees. Its session must see the second list and all others the first, by every way of
//! reading a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_query::{Access, Condition as Kind, Engine, Session, StatementOptions};

use crate::fixture::{Cells, Random, TestDatabase, TestError, lasting_session, on_runtime, taken};

const SEEDS: u64 = 4;
const STEPS: usize = 25;
/// Queries after each step, chosen from all queries.
const ASKED: u64 = 3;
/// Number of timestamps in three days, so that statements touch several partitions.
const INSTANTS: u64 = 30;
const INSTANT: u64 = 3 * 86_400 / INSTANTS;

/// A row: its instant, a text and a number.
type Row = (u64, Option<u64>, u64);

/// A table as a list of rows; rows with equal timestamps stand in the order of commits.
#[derive(Clone)]
struct Model {
    rows: Vec<Row>,
    /// True if rows with the same timestamp and text replace each other.
    has_keys: bool,
}

impl Model {
    fn insert(&mut self, new: &[Row]) {
        for row in new {
            if self.has_keys {
                self.rows.retain(|old| (old.0, old.1) != (row.0, row.1));
            }
            self.rows.push(*row);
        }
        self.rows.sort_by_key(|row| row.0);
    }

    fn take(&mut self, is_it: impl Fn(&Row) -> bool) -> Vec<Row> {
        let taken = self.rows.iter().filter(|row| is_it(row)).copied().collect();
        self.rows.retain(|row| !is_it(row));
        taken
    }
}

/// The condition of a WHERE.
#[derive(Clone, Copy)]
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
            4 | 5 => Condition::Before(random.below(INSTANTS)),
            6 | 7 => Condition::Text(random.below(6)),
            _ => Condition::NoText,
        }
    }

    fn sql(self) -> String {
        match self {
            Condition::All => String::new(),
            Condition::Remainder(by, rest) => format!(" WHERE n % {by} = {rest}"),
            Condition::Before(at) => format!(" WHERE ts < {}", at * INSTANT * 1_000_000),
            Condition::Text(number) => format!(" WHERE s = 's{number}'"),
            Condition::NoText => " WHERE s IS NULL".to_owned(),
        }
    }

    fn is_true_of(self, row: &Row) -> bool {
        match self {
            Condition::All => true,
            Condition::Remainder(by, rest) => row.2 % by == rest,
            Condition::Before(at) => row.0 < at,
            Condition::Text(number) => row.1 == Some(number),
            Condition::NoText => row.1.is_none(),
        }
    }
}

fn text(s: Option<u64>) -> String {
    s.map_or("NULL".to_owned(), |s| format!("s{s}"))
}

/// Makes the same change to a table and to its list.
fn step(random: &mut Random, model: &mut Model) -> String {
    let condition = Condition::new(random);
    match random.below(10) {
        0..=4 => {
            let mut row = || {
                let s = (random.below(5) > 0).then(|| random.below(6));
                (random.below(INSTANTS), s, random.below(100))
            };
            let rows = (0..1 + row().2 % 8).map(|_| row()).collect::<Vec<_>>();
            model.insert(&rows);
            let values = rows.iter().map(|(at, s, n)| {
                let s = s.map_or("NULL".to_owned(), |s| format!("'s{s}'"));
                format!("({}, {s}, {n})", at * INSTANT * 1_000_000)
            });
            format!("INSERT INTO t VALUES {}", values.collect::<Vec<_>>().join(", "))
        }
        5..=7 => {
            let mut rows = model.take(|row| condition.is_true_of(row));
            rows.iter_mut().for_each(|row| row.2 = row.2 * 2 % 100);
            model.insert(&rows);
            format!("UPDATE t SET n = n * 2 % 100{}", condition.sql())
        }
        8 => {
            let rows = model.rows.iter().filter(|row| condition.is_true_of(row));
            let rows = rows.map(|row| (row.0, row.1, row.2 + 1)).collect::<Vec<_>>();
            if 60 < rows.len() {
                return "SELECT 1".to_owned();
            }
            model.insert(&rows);
            format!("INSERT INTO t SELECT ts, s, n + 1 FROM t{}", condition.sql())
        }
        _ => {
            model.take(|row| condition.is_true_of(row));
            format!("DELETE FROM t{}", condition.sql())
        }
    }
}

/// Returns queries with the answers that the list gives.
fn answers(rows: &[Row]) -> Vec<(String, Vec<Cells>)> {
    let shown = |row: &Row| vec![(row.0 * INSTANT).to_string(), text(row.1), row.2.to_string()];
    let all = "SELECT CAST(ts AS BIGINT) / 1000000, s, n FROM t";
    let middle = (10, 20);
    let between = format!(
        "{all} WHERE ts >= {} AND ts < {}",
        middle.0 * INSTANT * 1_000_000,
        middle.1 * INSTANT * 1_000_000
    );
    let in_middle = rows.iter().filter(|row| middle.0 <= row.0 && row.0 < middle.1);
    let mut days: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut texts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut latest: BTreeMap<Option<u64>, Row> = BTreeMap::new();
    for row in rows {
        let day = days.entry(row.0 * INSTANT / 86_400).or_default();
        (day.0, day.1) = (day.0 + 1, day.1 + row.2);
        let of_text = texts.entry(text(row.1)).or_default();
        (of_text.0, of_text.1) = (of_text.0 + 1, of_text.1.max(row.2));
        latest.insert(row.1, *row);
    }
    let number = |n: u64| n.to_string();
    let bounds = rows.first().zip(rows.last());
    let bounds = bounds.map_or(["NULL".to_owned(), "NULL".to_owned()], |(first, last)| {
        [number(first.0 * INSTANT), number(last.0 * INSTANT)]
    });
    let mut latest = latest.into_values().collect::<Vec<_>>();
    latest.sort_by_key(|row| text(row.1));
    vec![
        (all.to_owned(), rows.iter().map(shown).collect()),
        (between, in_middle.map(shown).collect()),
        ("SELECT count(*) FROM t".to_owned(), vec![vec![number(rows.len() as u64)]]),
        (
            "SELECT CAST(min(ts) AS BIGINT) / 1000000, CAST(max(ts) AS BIGINT) / 1000000 FROM t"
                .to_owned(),
            vec![bounds.to_vec()],
        ),
        (
            format!("{all} LIMIT -7"),
            rows[rows.len().saturating_sub(7)..].iter().map(shown).collect(),
        ),
        (
            "SELECT CAST(ts AS BIGINT) / 86400000000, count(*), sum(n) FROM t SAMPLE BY 1d"
                .to_owned(),
            days.iter().map(|(day, it)| vec![number(*day), number(it.0), number(it.1)]).collect(),
        ),
        (
            "SELECT CASE WHEN s IS NULL THEN 'NULL' ELSE s END AS k, count(*), max(n) FROM t \
             GROUP BY k ORDER BY k"
                .to_owned(),
            texts.iter().map(|(s, it)| vec![s.clone(), number(it.0), number(it.1)]).collect(),
        ),
        (
            format!(
                "{} ORDER BY CASE WHEN s IS NULL THEN 'NULL' ELSE s END",
                "SELECT CAST(ts AS BIGINT) / 1000000, s, n FROM (SELECT * FROM t LATEST ON ts \
                 PARTITION BY s)"
            ),
            latest.iter().map(shown).collect(),
        ),
        (
            "SELECT count(*) FROM t a ASOF JOIN t b ON (s)".to_owned(),
            vec![vec![number(rows.len() as u64)]],
        ),
        (
            "SELECT count(*) FROM t WHERE s IN (SELECT s FROM t WHERE s = 's1')".to_owned(),
            vec![vec![number(rows.iter().filter(|row| row.1 == Some(1)).count() as u64)]],
        ),
    ]
}

impl TestDatabase {
    async fn check_answers(
        &mut self,
        model: &Model,
        place: &str,
        random: &mut Random,
    ) -> Result<(), TestError> {
        let all = answers(&model.rows);
        for at in 0..ASKED {
            // The first query returns all rows, in their order.
            let at = if at == 0 { 0 } else { random.below(all.len() as u64) };
            let (sql, expected) = &all[usize::try_from(at).expect("it is below")];
            let rows = self.rows(sql).await?;
            assert_eq!(&rows, expected, "{place}: {sql}");
        }
        Ok(())
    }

    async fn as_session<T>(
        &mut self,
        session: &Session,
        work: impl AsyncFnOnce(&mut TestDatabase) -> Result<T, TestError>,
    ) -> Result<T, TestError> {
        let own = std::mem::replace(&mut self.session, session.clone());
        let done = work(self).await;
        self.session = own;
        done
    }
}

async fn with_table(has_keys: bool) -> Result<TestDatabase, TestError> {
    let mut test = TestDatabase::new()?;
    let keys = if has_keys { " DEDUP UPSERT KEYS(ts, s)" } else { "" };
    let create = format!(
        "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, n BIGINT) TIMESTAMP(ts) PARTITION BY DAY{keys}"
    );
    test.run(&create).await?;
    Ok(test)
}

#[test]
fn a_transaction_sees_its_own_changes_and_others_do_not() {
    on_runtime(compare_with_two_lists());
}

async fn compare_with_two_lists() -> Result<(), TestError> {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let has_keys = seed % 2 == 1;
        let mut test = with_table(has_keys).await?;
        let other = lasting_session();
        let mut committed = Model { rows: Vec::new(), has_keys };
        let mut open: Option<Model> = None;
        let mut saved: Vec<Model> = Vec::new();
        for at in 0..STEPS {
            let place = format!("seed {seed}, step {at}");
            if random.below(6) == 0 {
                test.maintain()?;
            }
            match (random.below(8), &mut open) {
                (0 | 1, None) => {
                    test.run("begin").await?;
                    open = Some(committed.clone());
                    saved.clear();
                }
                (0, Some(model)) => {
                    test.run("commit")
                        .await
                        .map_err(|it| TestError(format!("{place}: {}", it.0)))?;
                    committed = model.clone();
                    open = None;
                }
                (1, Some(_)) if random.below(3) == 0 => {
                    test.run("rollback").await?;
                    open = None;
                }
                (2, Some(model)) => {
                    test.run("savepoint a").await?;
                    saved.push(model.clone());
                }
                (3, Some(model)) if !saved.is_empty() => {
                    test.run("rollback to a").await?;
                    *model = saved.last().expect("there is one").clone();
                }
                (_, model) => {
                    let model = model.as_mut().unwrap_or(&mut committed);
                    let sql = step(&mut random, model);
                    let done = test.run(&sql).await;
                    done.map_err(|it| TestError(format!("{place}: {sql}: {}", it.0)))?;
                }
            }
            let seen = open.as_ref().unwrap_or(&committed);
            test.check_answers(seen, &place, &mut random).await?;
            let (committed, random) = (&committed, &mut random);
            let of_other = async |test: &mut TestDatabase| {
                let rows = test.rows("SELECT n FROM t").await?;
                let expected = committed.rows.iter().map(|row| vec![row.2.to_string()]);
                assert_eq!(rows, expected.collect::<Vec<_>>(), "{place}: others");
                if random.below(4) == 0 {
                    test.check_answers(committed, &place, random).await?;
                }
                Ok(())
            };
            test.as_session(&other, of_other).await?;
        }
    }
    Ok(())
}

#[test]
fn of_two_transactions_the_first_to_commit_has_the_row() {
    on_runtime(two_transactions_delete_a_row());
}

/// Both transactions delete the same row. A compaction in between does not matter: the segments in
/// which a transaction has found rows stay.
async fn two_transactions_delete_a_row() -> Result<(), TestError> {
    let mut test = TestDatabase::new()?;
    test.run("CREATE TABLE t (ts TIMESTAMP, s SYMBOL, n BIGINT) TIMESTAMP(ts) PARTITION BY DAY")
        .await?;
    for n in 0..8 {
        test.run(&format!("INSERT INTO t VALUES ({n}, 'a', {n})")).await?;
        test.run("DELETE FROM t WHERE n = 99").await?;
    }
    let other = lasting_session();
    test.run("begin").await?;
    test.run("UPDATE t SET n = 10 WHERE n = 1").await?;
    test.compact("t")?;
    let all = "SELECT sum(n) FROM t";
    test.as_session(&other, async |test| {
        test.run("begin").await?;
        test.run("UPDATE t SET n = 20 WHERE n = 2").await?;
        test.run("DELETE FROM t WHERE n = 1").await?;
        let rows = test.rows(all).await?;
        assert_eq!(rows, [["45"]]);
        Ok(())
    })
    .await?;
    test.run("commit").await?;
    test.as_session(&other, async |test| {
        let refused = test.run("commit").await.expect_err("n = 1 is gone").0;
        assert!(refused.contains("rows of table `t` that this transaction changes"), "{refused}");
        Ok(())
    })
    .await?;
    let rows = test.rows(all).await?;
    assert_eq!(rows, [["37"]]);
    test.compact("t")?;
    let runs = |test: &TestDatabase| {
        test.database().snapshot("t").expect("it is there").segments().count()
    };
    assert!(runs(&test) < 8, "no transaction is in the way of a compaction any more");
    Ok(())
}

#[test]
fn transactions_that_change_one_row_lose_no_change() {
    on_runtime(async {
        let test = TestDatabase::after(&[
            "CREATE TABLE t (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)",
            "INSERT INTO t VALUES (1, 0)",
        ])
        .await?;
        let engine = Arc::clone(test.engine());
        let changed = (0..3).map(|_| tokio::spawn(change_one_row(Arc::clone(&engine))));
        let mut count = 0;
        for changed in changed.collect::<Vec<_>>() {
            count += changed.await.expect("no thread panics")?;
        }
        let rows = test.rows("SELECT n FROM t").await?;
        assert_eq!(rows, [[count.to_string()]], "snapshot-5");
        Ok::<(), TestError>(())
    });
}

/// Adds one to the only row again and again, and returns the number of changes committed.
async fn change_one_row(engine: Arc<Engine>) -> Result<u64, TestError> {
    let mut count = 0;
    for _ in 0..100 {
        let session = lasting_session();
        session.begin(Access::ReadWrite);
        let options = StatementOptions { session: session.clone(), ..StatementOptions::default() };
        let update = engine.execute_with("UPDATE t SET n = n + 1", &options).await;
        let updated = match update {
            Ok(answer) => taken(answer).await?.count(),
            Err(error) if error.condition() == Kind::Conflict => continue,
            Err(error) => return Err(error.into()),
        };
        assert_eq!(updated, 1, "snapshot-5: the row is always there");
        match engine.commit(&session).await {
            Ok(_) => count += 1,
            Err(error) if error.condition() == Kind::Conflict => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(count)
}
