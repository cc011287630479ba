//! Write conflicts: another statement commits between the search for rows and the commit, right
//! before the deletion vector is written, so that nothing depends on threads or time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tidegate_model::{ColumnDefault, ColumnType, TimeUnit};
use tidegate_platform::{OpenMode, SimDisk};
use tidegate_query::{Answer, Condition, Engine, Error};
use tidegate_storage::{
    AppendOptions, BatchColumn, BatchValues, Database, ImportTarget, NewColumns, RowBatch,
    SchemaEdit, SegmentDeletes, SnapshotDeletes, TableAppend, TableDdl,
};

use crate::fixture::{TestError, engine_options, on_runtime, open, taken};

/// Creates a table with ten rows in one segment, `n` from 0, on a disk in memory.
async fn ten_rows() -> Result<(SimDisk, Arc<Engine>), TestError> {
    let disk = SimDisk::new(1);
    let engine = Arc::new(Engine::new(open(&disk)?, &engine_options())?);
    engine.execute("CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)").await?;
    let rows = (0..10).map(|n| format!("({}, {n})", n * 1_000_000)).collect::<Vec<_>>();
    engine.execute(&format!("INSERT INTO t VALUES {}", rows.join(", "))).await?;
    Ok((disk, engine))
}

/// Deletes the first live row of the segment.
fn delete_first_row(database: &Arc<Database>) {
    let snapshot = database.snapshot("t").expect("it is there");
    let run = snapshot.segments().next().expect("it has a segment");
    let is_live = |row: &u64| run.deletion_vector.as_ref().is_none_or(|mask| mask.is_live(*row));
    let row = (0..run.meta.rows.0).find(is_live).expect("it has a row");
    let mut rows = [SegmentDeletes { segment: run.meta.id, rows: vec![row] }].into_iter();
    let txn = database.begin_change(ImportTarget::Existing("t")).expect("it is there");
    txn.commit(Some(SnapshotDeletes { snapshot: &snapshot, rows: &mut rows }))
        .expect("no other writer changes them");
}

/// Returns all values of `n`, in the order of the table.
async fn values(engine: &Engine) -> Result<String, TestError> {
    let rows = taken(engine.execute("SELECT n FROM t ORDER BY ts").await?).await?.rows();
    Ok(rows.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Runs a statement during which another writer deletes the first row, `times` times.
async fn overtaken(sql: &str, times: u64) -> Result<(Result<u64, Error>, String, u64), TestError> {
    fn overtake(disk: &SimDisk, database: &Arc<Database>, times: u64, count: &Arc<AtomicU64>) {
        if count.load(Relaxed) == times {
            return;
        }
        let again = (disk.clone(), Arc::clone(database), Arc::clone(count));
        disk.before_open(OpenMode::CreateNew, ".mask", move || {
            let (disk, database, count) = again;
            count.fetch_add(1, Relaxed);
            delete_first_row(&database);
            overtake(&disk, &database, times, &count);
        });
    }
    let (disk, engine) = ten_rows().await?;
    // The flush happens here, and so not within the statement.
    engine.database().flush_table("t")?;
    let count = Arc::new(AtomicU64::new(0));
    overtake(&disk, engine.database(), times, &count);
    let done = match engine.execute(sql).await {
        Ok(Answer::Done { rows, .. }) => Ok(rows.unwrap_or_default()),
        Ok(Answer::Rows { .. }) => panic!("{sql} gives no rows"),
        Err(error) => Err(error),
    };
    disk.before_open(OpenMode::CreateNew, "", || {});
    Ok((done, values(&engine).await?, count.load(Relaxed)))
}

#[test]
fn a_statement_whose_rows_were_changed_begins_again() {
    on_runtime(async {
        for (sql, times, rows, expected) in [
            ("DELETE FROM t WHERE n = 5", 1, 1, "1 2 3 4 6 7 8 9"),
            ("DELETE FROM t WHERE n = 0", 1, 0, "1 2 3 4 5 6 7 8 9"),
            ("DELETE FROM t WHERE n < 4", 2, 2, "4 5 6 7 8 9"),
            ("DELETE FROM t WHERE n < 9", 7, 2, "9"),
            // A segment that has lost all rows has no deletion vector.
            ("DELETE FROM t", 0, 10, ""),
            ("UPDATE t SET n = n + 10 WHERE n = 5", 1, 1, "1 2 3 4 15 6 7 8 9"),
            ("UPDATE t SET n = n + 10 WHERE n % 4 = 1", 7, 1, "7 8 19"),
        ] {
            let (done, values, overtaken) = overtaken(sql, times).await?;
            assert_eq!((done?, values.as_str(), overtaken), (rows, expected, times), "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

#[test]
fn a_statement_that_is_overtaken_every_time_changes_nothing() {
    on_runtime(async {
        for sql in ["DELETE FROM t WHERE n = 9", "UPDATE t SET n = 99 WHERE n = 9"] {
            let (done, values, overtaken) = overtaken(sql, u64::MAX).await?;
            let error = done.expect_err(sql);
            assert_eq!(error.condition(), Condition::Conflict, "{sql}: {error}");
            assert_eq!((values.as_str(), overtaken), ("8 9", 8), "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

#[test]
fn a_statement_begins_again_on_a_table_that_was_emptied() {
    on_runtime(async {
        for sql in ["DELETE FROM t WHERE n = 9", "UPDATE t SET n = 99 WHERE n = 9"] {
            let (disk, engine) = ten_rows().await?;
            let database = Arc::clone(engine.database());
            disk.before_open(OpenMode::CreateNew, ".mask", move || {
                database.truncate_table("t").expect("it is there")
            });
            let Answer::Done { rows, .. } = engine.execute(sql).await? else {
                panic!("{sql} gives no rows")
            };
            assert_eq!((rows, values(&engine).await?.as_str()), (Some(0), ""), "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

/// A statement was planned with the columns of one moment and the text of another, and failed when
/// any column was dropped before its commit. A client that adds columns all the time, as lines with
/// new fields do, thus stopped every UPDATE. Now the statement applies to the columns that it has
/// seen.
#[test]
fn rows_change_while_other_columns_come_and_go() {
    on_runtime(async {
        const ROUNDS: usize = 30;
        let (_, engine) = ten_rows().await?;
        let (database, is_done) = (Arc::clone(engine.database()), Arc::new(AtomicBool::new(false)));
        let others = std::thread::spawn({
            let is_done = Arc::clone(&is_done);
            move || {
                let mut rounds = 0_u64;
                while !is_done.load(Relaxed) {
                    let (name, ty) = (format!("x{}", rounds % 3), ColumnType::Symbol);
                    database.add_columns("t", &[(name.clone(), ty)]).expect("it is new");
                    database.drop_columns("t", &[&name]).expect("it is there");
                    rounds += 1;
                }
                rounds
            }
        });
        let mut outcome = Ok(());
        'rounds: for round in 0..ROUNDS {
            let insert =
                format!("INSERT INTO t (ts, n) SELECT ts, -1 FROM t WHERE n = {}", round + 1);
            for (sql, expected) in [
                ("UPDATE t SET n = n + 1", 10),
                ("INSERT INTO t SELECT * FROM t WHERE n < 0", 0),
                (insert.as_str(), 1),
                ("DELETE FROM t WHERE n < 0", 1),
            ] {
                match engine.execute(sql).await {
                    Ok(Answer::Done { rows, .. }) if rows == Some(expected) => {}
                    Ok(_) => panic!("{sql}: other rows than {expected}, round {round}"),
                    Err(error) => {
                        outcome = Err(TestError::from(error));
                        break 'rounds;
                    }
                }
            }
        }
        is_done.store(true, Relaxed);
        assert!(others.join().expect("it ends") > 0, "columns came and went");
        outcome?;
        let expected = (0..10).map(|n| (n + ROUNDS).to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(values(&engine).await?, expected, "no value is lost");
        Ok::<(), TestError>(())
    });
}

/// Adds a row to the table without a value for new columns.
fn add_row(database: &Arc<Database>, at: u64) {
    let column =
        |name: &str, ty, values| BatchColumn { name: name.to_owned(), ty, values, validity: None };
    let ts = i64::try_from(100_000_000 + at).expect("it is small");
    let columns = vec![
        column("ts", ColumnType::Timestamp(TimeUnit::Micros), BatchValues::I64(vec![ts])),
        column("n", ColumnType::Int32, BatchValues::I32(vec![7])),
    ];
    let rows = RowBatch::new(1, columns);
    let append = TableAppend {
        table: "t".to_owned(),
        id: None,
        create: None,
        add_columns: false,
        made_for: None,
        rows,
    };
    database.append(&[append], &AppendOptions::default()).expect("it is a row of the table");
}

// A new column and its values come with one commit: rows that are added meanwhile must not be left
// out.
#[test]
fn rows_that_are_added_while_a_column_is_filled_get_its_default() {
    fn overtake(disk: &SimDisk, database: &Arc<Database>, times: u64) {
        if times > 0 {
            let again = (disk.clone(), Arc::clone(database));
            disk.before_open(OpenMode::CreateNew, ".seg", move || {
                let (disk, database) = again;
                add_row(&database, times);
                overtake(&disk, &database, times - 1);
            });
        }
    }
    on_runtime(async {
        for times in 0..8 {
            let (disk, engine) = ten_rows().await?;
            engine.database().flush_table("t")?;
            overtake(&disk, engine.database(), times);
            engine.execute("ALTER TABLE t ADD COLUMN m INT DEFAULT 5").await?;
            let sql = "SELECT count(*), count(m), sum(m) FROM t";
            let rows = taken(engine.execute(sql).await?).await?.rows();
            let count = 10 + times;
            let expected = [count, count, 5 * count].map(|number| number.to_string());
            assert_eq!(rows, [expected.to_vec()], "{times}");
        }
        Ok::<(), TestError>(())
    });
}

// A column that another session added while this one was filled took its place: the statement
// failed with an error about its own column, or, for a column of the same name, in spite of IF NOT
// EXISTS.
#[test]
fn a_column_is_added_and_filled_while_others_add_columns() {
    fn overtake(disk: &SimDisk, database: &Arc<Database>, names: &'static [&'static str]) {
        if let Some((name, rest)) = names.split_first() {
            let again = (disk.clone(), Arc::clone(database));
            disk.before_open(OpenMode::CreateNew, ".seg", move || {
                let (disk, database) = again;
                let column = ((*name).to_owned(), ColumnType::Int32);
                database.add_columns("t", &[column]).expect("it is new");
                overtake(&disk, &database, rest);
            });
        }
    }
    on_runtime(async {
        let (others, same): (&[&str], &[&str]) = (&["a", "b", "c", "d", "e"], &["m"]);
        for (sql, names, expected) in [
            ("ALTER TABLE t ADD COLUMN m INT DEFAULT 5", others, Ok(0)),
            ("ALTER TABLE t ADD COLUMN IF NOT EXISTS m INT DEFAULT 5", others, Ok(0)),
            ("ALTER TABLE t ADD COLUMN IF NOT EXISTS m INT DEFAULT 5", same, Ok(1)),
            ("ALTER TABLE t ADD COLUMN m INT DEFAULT 5", same, Err(Condition::DuplicateColumn)),
        ] {
            let (disk, engine) = ten_rows().await?;
            engine.database().flush_table("t")?;
            overtake(&disk, engine.database(), names);
            let outcome = match engine.execute(sql).await {
                Ok(Answer::Done { notices, .. }) => Ok(notices.len()),
                Ok(Answer::Rows { .. }) => panic!("{sql} gives no rows"),
                Err(error) => Err(error.condition()),
            };
            assert_eq!(outcome, expected, "{sql}");
            let rows = taken(engine.execute("SELECT count(m) FROM t").await?).await?.rows();
            let filled = if names == others { "10" } else { "0" };
            assert_eq!(rows, [[filled]], "{sql}");
        }
        Ok::<(), TestError>(())
    });
}

// An INSERT that was planned before a column with a default was added, and committed behind it, had
// NULL there for good: nothing fills the row any more. Here the search for the row that it replaces
// is between the two.
#[test]
fn an_insert_begins_again_if_a_column_with_a_default_was_added() {
    on_runtime(async {
        let disk = SimDisk::new(1);
        let engine = Arc::new(Engine::new(open(&disk)?, &engine_options())?);
        let keys = "TIMESTAMP(ts) PARTITION BY DAY DEDUP UPSERT KEYS(ts)";
        engine.execute(&format!("CREATE TABLE t (ts TIMESTAMP, n INT) {keys}")).await?;
        engine.execute("INSERT INTO t VALUES (1, 1), (2, 2)").await?;
        let database = Arc::clone(engine.database());
        database.flush_table("t")?;
        let added = NewColumns {
            columns: vec![("m".to_owned(), ColumnType::Int32)],
            defaults: vec![("m".to_owned(), ColumnDefault::Expression("7".to_owned()))],
            ..NewColumns::default()
        };
        let ddl = TableDdl::Alter { table: "t".to_owned(), edit: SchemaEdit::Add(added) };
        disk.before_open(OpenMode::CreateNew, ".mask", move || {
            database.define(ddl).expect("the column is new");
        });
        engine.execute("INSERT INTO t (ts, n) VALUES (1, 10)").await?;
        let rows = taken(engine.execute("SELECT n, m FROM t").await?).await?.rows();
        assert_eq!(rows, [["10", "7"], ["2", "NULL"]]);
        Ok::<(), TestError>(())
    });
}

// The value of a default counted as named by the INSERT, so that a single INSERT failed when
// another session dropped the column.
#[test]
fn an_insert_does_not_need_the_columns_that_it_does_not_name() {
    on_runtime(async {
        let rename = SchemaEdit::Rename { from: "m".to_owned(), to: "k".to_owned() };
        for (edit, query, expected) in [
            (SchemaEdit::Drop(vec!["m".to_owned()]), "SELECT n FROM t", "10 2"),
            (rename, "SELECT n, k FROM t", "10 7 2 7"),
        ] {
            let disk = SimDisk::new(1);
            let engine = Arc::new(Engine::new(open(&disk)?, &engine_options())?);
            let keys = "TIMESTAMP(ts) PARTITION BY DAY DEDUP UPSERT KEYS(ts)";
            let create = format!("CREATE TABLE t (ts TIMESTAMP, n INT, m INT DEFAULT 7) {keys}");
            engine.execute(&create).await?;
            engine.execute("INSERT INTO t (ts, n) VALUES (1, 1), (2, 2)").await?;
            let database = Arc::clone(engine.database());
            database.flush_table("t")?;
            let ddl = TableDdl::Alter { table: "t".to_owned(), edit };
            disk.before_open(OpenMode::CreateNew, ".mask", move || {
                database.define(ddl).expect("the column is there");
            });
            engine.execute("INSERT INTO t (ts, n) VALUES (1, 10)").await?;
            let rows = taken(engine.execute(query).await?).await?.rows();
            assert_eq!(rows.concat().join(" "), expected, "append-4");
        }
        Ok::<(), TestError>(())
    });
}

#[test]
fn a_statement_fails_if_a_column_it_names_is_dropped() {
    on_runtime(async {
        for (sql, dropped, expected) in [
            ("UPDATE t SET m = 1 WHERE n = 5", "m", Err(Condition::Conflict)),
            ("UPDATE t SET n = 50 WHERE m = 5", "m", Ok(1)),
            ("DELETE FROM t WHERE m = 5", "m", Ok(1)),
        ] {
            let (disk, engine) = ten_rows().await?;
            for sql in ["ALTER TABLE t ADD COLUMN m INT", "UPDATE t SET m = n"] {
                engine.execute(sql).await?;
            }
            let database = Arc::clone(engine.database());
            disk.before_open(OpenMode::CreateNew, ".mask", move || {
                database.drop_columns("t", &[dropped]).expect("it is there");
            });
            let outcome = match engine.execute(sql).await {
                Ok(Answer::Done { rows, .. }) => Ok(rows.unwrap_or_default()),
                Ok(Answer::Rows { .. }) => panic!("{sql} gives no rows"),
                Err(error) => Err(error.condition()),
            };
            assert_eq!(outcome, expected, "{sql}");
        }
        Ok::<(), TestError>(())
    });
}
