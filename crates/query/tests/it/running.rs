//! Running statements, as other sessions list and cancel them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use tidegate_model::ByteCount;
use tidegate_platform::HeapGroup;
use tidegate_query::{
    Answer, CancelHandle, Condition, Engine, EngineOptions, Error, Origin, Role, STACK_BYTES,
    Session, StatementOptions, Timeout,
};
use tokio::runtime::{Builder, Handle};

use crate::fixture::{Output, TestDatabase, TestError, engine_options, on_runtime, taken};

/// Statements that would run for hours; `random()` keeps their plans out of the plan cache.
const ENDLESS: [&str; 6] = [
    "SELECT sum(length(a.t) + random()) FROM many a CROSS JOIN many b",
    "EXPLAIN ANALYZE SELECT a.ts, random() AS r FROM many a, many b ORDER BY r LIMIT 5",
    "INSERT INTO many SELECT a.ts, 'x' FROM many a, many b WHERE a.t || b.t || random() = 'x'",
    "UPDATE many SET t = 'x' WHERE t = (SELECT max(a.t || b.t || random()) FROM many a, many b)",
    "DELETE FROM many WHERE t = (SELECT max(a.t || b.t || random()) FROM many a, many b)",
    "EXPLAIN ANALYZE DELETE FROM many \
     WHERE t = (SELECT max(a.t || b.t || random()) FROM many a, many b)",
];

/// A table with rows in several partitions and page frames, and a text that does not sort like the
/// time.
async fn many_rows() -> Result<TestDatabase, TestError> {
    let test = TestDatabase::after(&[
        "CREATE TABLE many (ts TIMESTAMP, t VARCHAR) TIMESTAMP(ts) PARTITION BY DAY",
        "INSERT INTO many SELECT CAST(x * 2000000 AS TIMESTAMP), \
         'text number ' || ((x * 7919) % 150001) FROM long_sequence(150000)",
    ]);
    let test = test.await?;
    test.flush("many")?;
    Ok(test)
}

fn options(user: &str, role: Role) -> StatementOptions {
    let origin = Origin {
        protocol: "test",
        peer: Some("here".to_owned()),
        user: Some(user.to_owned()),
        role,
    };
    let (timeout, session) = (Some(Timeout::Never), Session::new(origin));
    StatementOptions { timeout, session, cancel_handle: None }
}

async fn take_all(
    engine: Arc<Engine>,
    sql: String,
    options: StatementOptions,
) -> Result<(), Error> {
    if let Answer::Rows { stream, .. } = engine.execute_with(&sql, &options).await? {
        stream.try_collect::<Vec<_>>().await?;
    }
    Ok(())
}

/// Returns the id of a statement with this text in this state, if there is one.
async fn find(engine: &Engine, sql: &str, state: &str) -> Result<Option<i64>, TestError> {
    let sql = sql.replace('\'', "''");
    let ids = format!(
        "SELECT query_id FROM query_activity() WHERE query = '{sql}' AND state LIKE '{state}'"
    );
    let rows = taken(engine.execute(&ids).await?).await?.rows();
    Ok(rows.first().map(|row| row[0].parse().expect("an id")))
}

/// Asks for the id until there is one.
async fn wait_for(engine: &Engine, sql: &str, state: &str) -> Result<i64, TestError> {
    let mut turns = 0;
    loop {
        if let Some(id) = find(engine, sql, state).await? {
            return Ok(id);
        }
        turns += 1;
        assert!(turns < 5_000, "{sql} is never {state}");
        tokio::task::yield_now().await;
    }
}

/// Checks that a cancel from another thread ends each statement: with its error, without a change,
/// and with its work.
#[test]
fn a_cancel_ends_statements_of_any_kind() {
    on_runtime(async {
        let test = many_rows().await?;
        let engine = Arc::clone(test.engine());
        let database = Arc::clone(engine.database());
        let snapshot = database.snapshot("many").map_err(|error| TestError::of(&error))?;
        let before = Arc::strong_count(&snapshot);
        let mut last_id = 0;
        for sql in ENDLESS {
            let working = take_all(Arc::clone(&engine), sql.to_owned(), options("a", Role::Writer));
            let working = tokio::spawn(working);
            let id = wait_for(&engine, sql, "running").await?;
            assert!(last_id < id, "ids are given once");
            last_id = id;
            let (canceling, handle) = (Arc::clone(&engine), Handle::current());
            let cancel = move || {
                let own = options("a", Role::Writer);
                let sql = format!("CANCEL QUERY {id}");
                handle.block_on(canceling.execute_with(&sql, &own)).map(drop)
            };
            std::thread::spawn(cancel).join().expect("it does not panic")?;
            let ended = working.await.expect("it does not panic");
            let error = ended.expect_err(sql);
            assert_eq!(error.condition(), Condition::QueryCanceled, "{sql}: {error}");
            assert_eq!(error.to_string(), "query cancelled by user", "{sql}");
            assert_eq!(find(&engine, sql, "%").await?, None, "it is no longer listed");
            let mut yields = 0;
            while Arc::strong_count(&snapshot) > before {
                yields += 1;
                assert!(yields < 10_000_000, "{sql} still runs");
                tokio::task::yield_now().await;
            }
            let after = database.snapshot("many").map_err(|error| TestError::of(&error))?;
            assert_eq!(after.seq_txn, snapshot.seq_txn, "{sql} has changed nothing");
        }
        // The id of an earlier statement ends no other one.
        let sql = ENDLESS[0];
        let working = take_all(Arc::clone(&engine), sql.to_owned(), options("a", Role::Writer));
        let working = tokio::spawn(working);
        let id = wait_for(&engine, sql, "running").await?;
        for old in 1..=last_id.min(3) {
            let error = engine.execute(&format!("CANCEL QUERY {old}")).await.map(drop);
            assert_eq!(error.expect_err(sql).condition(), Condition::UndefinedObject);
        }
        let error = engine.execute(&format!("CANCEL QUERY {last_id}")).await.map(drop);
        assert_eq!(error.expect_err(sql).condition(), Condition::UndefinedObject);
        assert!(!working.is_finished());
        test.rows(&format!("SELECT cancel_query({id})")).await?;
        let ended = working.await.expect("it does not panic");
        assert_eq!(ended.expect_err(sql).to_string(), "query cancelled by user");
        Ok::<(), TestError>(())
    });
}

/// Checks that users see their own statements, and administrators all.
#[test]
fn statements_of_others_are_out_of_reach() {
    on_runtime(async {
        let test = many_rows().await?;
        let engine = Arc::clone(test.engine());
        let sql = ENDLESS[0];
        let working = take_all(Arc::clone(&engine), sql.to_owned(), options("ann", Role::Reader));
        let working = tokio::spawn(working);
        let id = wait_for(&engine, sql, "running").await?;
        let ask = |sql: String, user: &'static str| {
            let engine = Arc::clone(&engine);
            async move {
                let bob = options(user, Role::Reader);
                taken(engine.execute_with(&sql, &bob).await?).await.map(Output::rows)
            }
        };
        let hidden = ["query_start", "state_change", "state", "query", "protocol", "peer"];
        let hidden = [&hidden[..], &["rows_out", "memory_bytes", "spill_bytes"]].concat();
        for (user, is_hidden) in [("bob", true), ("ann", false)] {
            for column in &hidden {
                let seen = format!(
                    "SELECT {column} IS NULL, username FROM query_activity() WHERE query_id = {id}"
                );
                let rows = ask(seen, user).await?;
                let expected = [[is_hidden.to_string(), "ann".to_owned()]];
                assert_eq!(rows, expected, "{user} {column}");
            }
        }
        // As in PostgreSQL.
        let activity = "SELECT query, client_addr IS NULL AND state IS NULL FROM pg_stat_activity \
                        WHERE usename = 'ann'";
        let rows = ask(activity.to_owned(), "bob").await?;
        assert_eq!(rows, [["<insufficient privilege>", "true"]]);
        let error = ask(format!("CANCEL QUERY {id}"), "bob").await.expect_err(sql);
        assert_eq!(error.condition(), Condition::UndefinedObject);
        let rows = ask(format!("SELECT cancel_query({id})"), "bob").await?;
        assert_eq!(rows, [["false"]]);
        assert!(!working.is_finished());
        ask(format!("SELECT cancel_query({id})"), "ann").await?;
        assert!(working.await.expect("it does not panic").is_err());
        Ok::<(), TestError>(())
    });
}

/// Checks that readers are members of no role but their own.
#[test]
fn readers_are_no_members_of_other_roles() {
    on_runtime(async {
        let test = TestDatabase::after(&[]).await?;
        for (user, role, expected) in [
            ("bob", Role::Reader, ["false", "false", "true", "true", "false"]),
            ("root", Role::Admin, ["true", "false", "true", "true", "true"]),
        ] {
            let asked = "SELECT pg_has_role('admin', 'member'), \
                         pg_has_role('bob', 'admin', 'usage'), pg_has_role('bob', 'member'), \
                         pg_has_role(current_user, 'usage'), \
                         pg_has_role(current_user, 'member with admin option')";
            let answer = test.engine().execute_with(asked, &options(user, role)).await?;
            assert_eq!(taken(answer).await?.rows(), [expected], "{user}");
        }
        Ok::<(), TestError>(())
    });
}

/// Checks that a statement is listed, with a count of its rows, as long as a client takes them.
#[test]
fn a_statement_is_listed_until_its_rows_end() {
    on_runtime(async {
        let test = many_rows().await?;
        let engine = Arc::clone(test.engine());
        let sql = "SELECT * FROM many";
        let Answer::Rows { mut stream, .. } = engine.execute(sql).await? else {
            panic!("it gives rows");
        };
        let batch = stream.try_next().await.map_err(Error::from)?.expect("it has rows");
        let rows_out = "SELECT rows_out FROM query_activity() WHERE query = 'SELECT * FROM many'";
        let counted = test.rows(rows_out).await?;
        assert_eq!(counted, [[batch.num_rows().to_string()]]);
        wait_for(&engine, sql, "waiting").await?;
        drop(stream);
        assert_eq!(find(&engine, sql, "%").await?, None, "its rows were dropped");
        let Answer::Rows { stream, .. } = engine.execute(sql).await? else {
            panic!("it gives rows");
        };
        let mut stream = stream;
        while stream.try_next().await.map_err(Error::from)?.is_some() {}
        assert_eq!(find(&engine, sql, "%").await?, None, "all rows were taken");
        drop(stream);
        assert!(engine.execute("SELECT nothing FROM many").await.is_err());
        assert_eq!(find(&engine, "SELECT nothing FROM many", "%").await?, None, "it has failed");
        Ok::<(), TestError>(())
    });
}

/// Checks that rows that wait for a client count to its statement. A hundred clients that read
/// nothing had 13 MB each, which no limit saw.
#[test]
fn rows_that_wait_for_a_client_are_charged() {
    on_runtime(async {
        let test = many_rows().await?;
        let engine = Arc::clone(test.engine());
        let sql = "SELECT * FROM many";
        let Answer::Rows { mut stream, .. } = engine.execute(sql).await? else {
            panic!("it gives rows");
        };
        // The first day is decoded by the stream itself, and the next ones ahead of it.
        let mut rows = 0;
        while rows <= 43_200 {
            let batch = stream.try_next().await.map_err(Error::from)?.expect("there are more days");
            rows += batch.num_rows();
        }
        wait_for(&engine, sql, "waiting").await?;
        let of_it = format!("SELECT memory_bytes FROM query_activity() WHERE query = '{sql}'");
        let held: u64 = test.rows(&of_it).await?[0][0].parse().expect("a number");
        // Three batches of 8,192 rows at least: two that wait for the client, and one ahead.
        assert!(3 * 8_192 * 24 < held, "{held} bytes are charged");
        while stream.try_next().await.map_err(Error::from)?.is_some() {}
        drop(stream);
        assert_eq!(find(&engine, sql, "%").await?, None);
        Ok::<(), TestError>(())
    });
}

/// A query releases its snapshot when its stream is dropped, at any stage of its work.
#[test]
fn a_dropped_stream_ends_its_work() {
    on_runtime(async {
        let test = many_rows().await?;
        let database = Arc::clone(test.engine().database());
        let snapshot = database.snapshot("many")?;
        for sql in
            ["SELECT * FROM many", "SELECT t FROM many WHERE t > 'text'", "SELECT max(t) FROM many"]
        {
            // The first execution puts the plan, and all that is kept with it, into the plan cache.
            test.rows(sql).await?;
            let before = Arc::strong_count(&snapshot);
            let Answer::Rows { mut stream, .. } = test.engine().execute(sql).await? else {
                panic!("{sql} gives rows");
            };
            assert!(Arc::strong_count(&snapshot) > before, "{sql} reads the snapshot");
            let first = stream.try_next().await.map_err(Error::from)?;
            assert!(first.is_some(), "{sql} has rows");
            drop(stream);
            // Tasks on other threads end at their next step.
            let mut yields = 0;
            while Arc::strong_count(&snapshot) > before {
                yields += 1;
                assert!(yields < 10_000_000, "{sql} still runs");
                tokio::task::yield_now().await;
            }
        }
        Ok::<(), TestError>(())
    });
}

/// Each of these queries would run for hours. The timeout releases its snapshot and its memory;
/// `random()` keeps its plan out of the plan cache.
#[test]
fn a_timeout_ends_queries_of_any_kind() {
    on_runtime(async {
        let test = many_rows().await?;
        let database = Arc::clone(test.engine().database());
        let snapshot = database.snapshot("many")?;
        let before = Arc::strong_count(&snapshot);
        let after = Duration::from_millis(100);
        let session = Session::default();
        let options =
            StatementOptions { timeout: Some(Timeout::After(after)), session, cancel_handle: None };
        for sql in [
            "SELECT sum(length(a.t) + random()) FROM many a CROSS JOIN many b",
            "SELECT max(a.t || b.t || random()) FROM many a, many b GROUP BY length(a.t) + \
                length(b.t)",
            "EXPLAIN ANALYZE SELECT a.ts, random() AS r FROM many a, many b ORDER BY r LIMIT 5",
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x % 9 + 1 FROM n) SELECT sum(x) \
                FROM n",
        ] {
            let error = match test.engine().execute_with(sql, &options).await {
                Ok(Answer::Rows { stream, .. }) => {
                    let rows = stream.try_collect::<Vec<_>>().await;
                    Error::from(rows.expect_err(sql))
                }
                Ok(Answer::Done { tag, .. }) => panic!("{sql} is {tag}"),
                Err(error) => error,
            };
            assert_eq!(error.condition(), Condition::QueryCanceled, "{sql}: {error}");
            let shown = error.to_string();
            assert!(shown.starts_with("query timed out [") && shown.ends_with("timeout=100ms]"));
            let mut yields = 0;
            while Arc::strong_count(&snapshot) > before {
                yields += 1;
                assert!(yields < 10_000_000, "{sql} still runs");
                tokio::task::yield_now().await;
            }
        }
        // A statement that is quick enough is not affected.
        let Answer::Rows { stream, .. } = test.engine().execute_with("SELECT 1", &options).await?
        else {
            panic!("it gives rows");
        };
        let rows = stream.try_collect::<Vec<_>>().await.map_err(Error::from)?;
        assert_eq!(rows.len(), 1);
        Ok::<(), TestError>(())
    });
}

// DDL runs to its end, and did so also if it was cancelled before it began. A client that does not
// wait for it had the answer of the cancel, and the table was there.
#[test]
fn ddl_that_was_cancelled_before_it_began_does_not_begin() {
    on_runtime(async {
        let test = TestDatabase::new()?;
        let sql = "CREATE TABLE t (ts TIMESTAMP) TIMESTAMP(ts)";
        let cancel_handle = CancelHandle::default();
        assert!(cancel_handle.cancel_before_begin());
        let options = StatementOptions { cancel_handle: Some(cancel_handle), ..test.options() };
        let Err(error) = test.engine().execute_with(sql, &options).await else {
            return Err(TestError("it began".to_owned()));
        };
        assert_eq!(error.condition(), Condition::QueryCanceled, "{error}");
        test.output(sql).await?;
        Ok::<(), TestError>(())
    });
}

/// Runs a test beside threads whose heap is counted together, as that of a lane of the server is.
#[track_caller]
fn beside_counted_threads(work: impl Future<Output = Result<(), TestError>>) {
    let group = Arc::new(HeapGroup::default());
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK_BYTES)
        .on_thread_start(move || group.enter())
        .on_thread_stop(HeapGroup::leave)
        .enable_time()
        .build()
        .expect("a runtime starts");
    if let Err(error) = runtime.block_on(work) {
        panic!("{error}");
    }
}

/// Opens a cursor on the counted threads; it is never read.
async fn open_cursor(engine: &Arc<Engine>, sql: String, user: &str) -> Result<Answer, Error> {
    let (engine, options) = (Arc::clone(engine), options(user, Role::Reader));
    let opening = tokio::spawn(async move { engine.open_cursor(&sql, &[], &options).await });
    opening.await.expect("it does not panic")
}

/// Cursors that were never read kept plans that no limit counted: a call of forty bytes that is
/// folded made 250 KB, and a literal of 60 KB more than a megabyte. Those of one reader took twice
/// the memory limit of the process.
#[test]
fn the_plans_of_idle_cursors_are_memory_of_their_user() {
    beside_counted_threads(async {
        let (memory_max, statement_memory_max) = (ByteCount(8 << 20), ByteCount(4 << 20));
        let options = EngineOptions { memory_max, statement_memory_max, ..engine_options() };
        let test = TestDatabase::with(options)?;
        let engine = test.engine();
        let literal = format!("'{}'", "x".repeat(60_000));
        for value in ["repeat('x', 65000)", literal.as_str()] {
            let sql =
                |number: usize| format!("SELECT {value} || '{number}' AS v FROM long_sequence(9)");
            let mut open = Vec::new();
            let error = loop {
                match open_cursor(engine, sql(open.len()), "ann").await {
                    Ok(answer) => open.push(answer),
                    Err(error) => break error,
                }
                assert!(open.len() < 100, "running_queries-5: their plans are counted");
            };
            assert_eq!(error.condition(), Condition::OutOfMemory, "running_queries-5: {error}");
            assert!(error.to_string().contains("QueryPlan"), "running_queries-5: {error}");
            assert!(!open.is_empty(), "one of them has room");
            drop(open_cursor(engine, "SELECT x FROM long_sequence(9)".to_owned(), "bob").await?);
            drop(open);
            drop(open_cursor(engine, sql(0), "ann").await?);
        }
        Ok(())
    });
}

/// Cursors of the same threads counted the plans of all later ones: the end of one was to make up
/// for an excess of ninety megabytes, and gave back a quarter of one. A cancelled cursor kept its
/// plan until its client came.
#[test]
fn a_cursor_counts_no_plans_of_later_ones_and_a_cancel_frees_its_own() {
    beside_counted_threads(async {
        let test = TestDatabase::new()?;
        let engine = test.engine();
        let (count, mut open) = (12, Vec::new());
        for number in 0..count {
            let value = "x".repeat(60_000);
            let sql = format!("SELECT '{value}' || '{number}' AS v FROM long_sequence(9)");
            open.push(open_cursor(engine, sql, "ann").await?);
        }
        let held = "SELECT sum(memory_bytes)::BIGINT FROM query_activity() WHERE username = 'ann'";
        let all: u64 = test.rows(held).await?[0][0].parse().expect("a number");
        let mut ended = HashSet::new();
        for _ in 0..count {
            let (id, bytes) = engine.end_largest(ByteCount(1 << 20)).expect("one goes on");
            assert!(bytes.0 < all / 2, "running_queries-4: {bytes} of {all}");
            assert!(ended.insert(id), "each is ended once");
        }
        let freed = "SELECT count(*) FROM query_activity() \
                     WHERE state = 'cancelled' AND memory_bytes = 0";
        assert_eq!(test.rows(freed).await?, [[count.to_string()]], "running_queries-5");
        drop(open);
        Ok(())
    });
}
