//! Statements on disks that fail or fill up: the error has the class of the machine, the table
//! stays as it was, and the same statement succeeds once the disk works again.

use std::sync::Arc;

use tidegate_platform::{SimCall, SimErrno};
use tidegate_query::{Engine, Error, StatementOptions};
use tidegate_storage::Class;

use crate::fixture::{Cells, TestDatabase, TestError, engine_options, on_runtime, open, taken};

const SETUP: [&str; 3] = [
    "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, n INT) TIMESTAMP(ts) PARTITION BY DAY",
    "INSERT INTO t SELECT CAST(x * 10000000000 AS TIMESTAMP), 's' || (x % 3), x \
     FROM long_sequence(40)",
    "INSERT INTO t VALUES (5, 'late', 100)",
];

/// Statements that change rows or tables, and a query that shows the change.
const STATEMENTS: [(&str, &str); 9] = [
    ("INSERT INTO t VALUES (7, 'new', 200)", "SELECT * FROM t"),
    ("INSERT INTO t SELECT ts, 'copy', n + 1000 FROM t", "SELECT * FROM t"),
    ("UPDATE t SET n = n + 1", "SELECT * FROM t"),
    ("DELETE FROM t WHERE n % 2 = 0", "SELECT * FROM t"),
    ("DELETE FROM t", "SELECT * FROM t"),
    ("ALTER TABLE t ADD COLUMN m INT DEFAULT 5", "SELECT * FROM t"),
    ("ALTER TABLE t DROP COLUMN n", "SELECT * FROM t"),
    ("CREATE TABLE u AS SELECT n FROM t", "SELECT table_name FROM tables() ORDER BY 1"),
    ("TRUNCATE TABLE t", "SELECT * FROM t"),
];

async fn prepared() -> Result<TestDatabase, TestError> {
    let mut test = TestDatabase::after(&SETUP[..2]).await?;
    test.flush("t")?;
    test.run(SETUP[2]).await?;
    Ok(test)
}

/// Rows of a query, in a new engine on the same disk.
async fn reopened(test: &TestDatabase, query: &str) -> Result<Vec<Cells>, TestError> {
    let disk = test.disk.after_power_loss();
    let engine = Arc::new(Engine::new(open(&disk)?, &engine_options())?);
    Ok(taken(engine.execute_with(query, &StatementOptions::default()).await?).await?.rows())
}

fn check_class(sql: &str, error: &Error) {
    assert_eq!(error.class(), Class::Environment, "{sql}: {}", TestError::of(error));
    let message = TestError::of(error).0;
    assert!(message.contains("/db"), "the file is named: {sql}: {message}");
}

/// Runs a statement with a fault, for the first, the second, ... write, until it succeeds.
async fn with_each_fault(
    plan: impl Fn(&TestDatabase, u64),
    sql: &str,
    query: &str,
) -> Result<u64, TestError> {
    for nth in 1..200 {
        let test = prepared().await?;
        let before = test.rows(query).await?;
        plan(&test, nth);
        let outcome = test.output(sql).await;
        test.disk.clear_faults();
        let after = test.rows(query).await?;
        match outcome {
            Ok(_) => return Ok(nth - 1),
            Err(error) => {
                check_class(sql, &error);
                assert_eq!(after, before, "fault {nth}: {sql}");
            }
        }
        // The file was closed at the fault: another one takes its place.
        let again = test.output(sql).await;
        assert!(again.is_ok(), "fault {nth}: again {sql}: {again:?}");
        assert_ne!(test.rows(query).await?, before, "fault {nth}: {sql}");
    }
    Err(TestError(format!("{sql} never succeeds")))
}

#[test]
fn a_write_that_fails_changes_nothing() {
    for (sql, query) in STATEMENTS {
        on_runtime(async {
            let fail = |test: &TestDatabase, nth| test.disk.fail_write_at(nth);
            let faults = with_each_fault(fail, sql, query).await?;
            assert!(0 < faults, "{sql} writes");
            Ok::<(), TestError>(())
        });
    }
}

#[test]
fn a_full_disk_changes_nothing_and_is_named() {
    for (sql, query) in STATEMENTS {
        on_runtime(async {
            let test = prepared().await?;
            let before = test.rows(query).await?;
            let used: u64 = test.disk.files().iter().map(|(_, bytes)| bytes).sum();
            test.disk.set_capacity(used);
            match test.output(sql).await {
                // Some changes need no more bytes than the log has reserved.
                Ok(_) => return Ok(()),
                Err(error) => check_class(sql, &error),
            }
            assert_eq!(test.rows(query).await?, before, "{sql}");
            test.disk.clear_faults();
            test.output(sql).await?;
            assert_ne!(test.rows(query).await?, before, "{sql}");
            Ok::<(), TestError>(())
        });
    }
}

// ALTER TABLE .. ADD COLUMN .. DEFAULT was two commits: after a crash between them, the column had
// no values in the existing rows.
#[test]
fn a_crash_leaves_a_statement_undone_or_done() {
    for (sql, query) in STATEMENTS {
        on_runtime(async {
            let done = prepared().await?;
            let before = done.rows(query).await?;
            done.output(sql).await?;
            let after = done.rows(query).await?;
            for nth in 1..100 {
                let test = prepared().await?;
                test.disk.crash_at_sync(nth);
                let outcome = test.output(sql).await;
                let found = reopened(&test, query).await?;
                let is_either = found == before || found == after;
                assert!(is_either, "sync {nth}: {sql}: {outcome:?}: {found:?}");
                if outcome.is_ok() {
                    assert_eq!(found, after, "sync {nth}: {sql}");
                    return Ok(());
                }
            }
            Err(TestError(format!("{sql} never succeeds")))
        });
    }
}

/// After a failed sync it is unknown whether the statement is durable: until the restart it has not
/// happened, or it has as a whole.
#[test]
fn a_sync_that_fails_leaves_a_statement_undone_or_done() {
    for (sql, query) in STATEMENTS {
        on_runtime(async {
            let done = prepared().await?;
            let before = done.rows(query).await?;
            done.output(sql).await?;
            let after = done.rows(query).await?;
            for nth in 1..6 {
                let test = prepared().await?;
                test.disk.fail_sync_at(nth);
                let outcome = test.output(sql).await;
                test.disk.clear_faults();
                let found = reopened(&test, query).await?;
                let is_either = found == before || found == after;
                assert!(is_either, "sync {nth}: {sql}: {outcome:?}: {found:?}");
                if outcome.is_ok() {
                    assert_eq!(found, after, "sync {nth}: {sql}");
                }
            }
            Ok::<(), TestError>(())
        });
    }
}

#[test]
fn statements_survive_a_power_loss_as_a_whole() {
    for (sql, query) in STATEMENTS {
        on_runtime(async {
            let test = prepared().await?;
            test.output(sql).await?;
            let expected = test.rows(query).await?;
            assert_eq!(reopened(&test, query).await?, expected, "{sql}");
            Ok::<(), TestError>(())
        });
    }
}

/// A query that cannot read a file fails with the error of the machine, and the next one succeeds.
#[test]
fn a_read_that_fails_ends_its_query_only() {
    on_runtime(async {
        let mut test = prepared().await?;
        let expected = test.rows("SELECT * FROM t").await?;
        test.reopen()?;
        test.disk.fail_call_at(SimCall::Open, 1, SimErrno::TooManyFiles, true);
        let outcome = test.output("SELECT * FROM t").await;
        test.disk.clear_faults();
        if let Err(error) = outcome {
            check_class("SELECT", &error);
        }
        assert_eq!(test.rows("SELECT * FROM t").await?, expected);
        Ok::<(), TestError>(())
    });
}

/// Commits of a transaction fail as a whole, and leave the session without a transaction.
#[test]
fn a_commit_that_fails_undoes_its_transaction() {
    on_runtime(async {
        let mut test = prepared().await?;
        let before = test.rows("SELECT * FROM t").await?;
        test.run("begin").await?;
        test.run("DELETE FROM t WHERE n < 20").await?;
        test.run("INSERT INTO t VALUES (9, 'x', 1)").await?;
        assert_ne!(test.rows("SELECT * FROM t").await?, before);
        test.disk.fail_write_at(1);
        assert!(test.run("commit").await.is_err());
        test.disk.clear_faults();
        assert_eq!(test.rows("SELECT * FROM t").await?, before);
        test.run("INSERT INTO t VALUES (9, 'x', 1)").await?;
        assert_eq!(test.rows("SELECT * FROM t").await?.len(), before.len() + 1);
        Ok::<(), TestError>(())
    });
}
