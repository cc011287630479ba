//! Races between reading a table and committing to it: another commit is made right when the writer
//! opens a file, so that nothing depends on threads or time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_model::ColumnType;
use tidegate_platform::{OpenMode, SimDisk};
use tidegate_storage::{Database, Error};

use crate::fixture::{Row, append, columns, new_database, open};
use crate::model::{Step, Tables, check, check_reopened};

/// The point at which a writer is overtaken: it is about to open a file in this mode whose name has
/// this suffix.
#[derive(Clone, Copy)]
struct FileOpening {
    mode: OpenMode,
    suffix: &'static str,
}

const NEW_DELETION_VECTOR: FileOpening = FileOpening { mode: OpenMode::CreateNew, suffix: ".mask" };
const READ_SYMBOLS: FileOpening = FileOpening { mode: OpenMode::Read, suffix: ".sym" };
const WRITE_SYMBOLS: FileOpening = FileOpening { mode: OpenMode::ReadWrite, suffix: ".sym" };

/// Runs steps when the writer is about to open such a file.
fn overtake(
    disk: &SimDisk,
    database: &Arc<Database>,
    opening: FileOpening,
    steps: &[Step],
) -> Arc<AtomicU64> {
    let done = Arc::new(AtomicU64::new(0));
    let (count, database, steps) = (Arc::clone(&done), Arc::clone(database), steps.to_vec());
    disk.before_open(opening.mode, opening.suffix, move || {
        for step in steps {
            step.run(&database).unwrap();
            count.fetch_add(1, Relaxed);
        }
    });
    done
}

/// A table with keys and a segment; new rows replace one of its rows, so that a deletion vector is
/// written between the read and the commit.
#[track_caller]
fn check_overtaken(others: &[Step]) {
    check_overtaken_at(
        NEW_DELETION_VECTOR,
        others,
        &Step::Append(vec![("t", rows_to_come(), None)]),
    );
}

#[track_caller]
fn check_import_overtaken(others: &[Step]) {
    check_overtaken_at(NEW_DELETION_VECTOR, others, &Step::Import("t", rows_to_come()));
}

fn rows_to_come() -> Vec<Row> {
    vec![(5, "a", 9), (5, "a", 10), (7, "c", 11)]
}

#[track_caller]
fn check_overtaken_at(opening: FileOpening, others: &[Step], mine: &Step) {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let rows = vec![(5, "a", 1), (5, "b", 2), (6, "a", 3)];
    for step in [Step::ImportNew("t", rows), Step::Keys("t", true)] {
        step.run(&database).unwrap();
        step.apply(&mut tables);
    }
    let done = overtake(&disk, &database, opening, others);
    mine.run(&database).unwrap();
    others.iter().for_each(|step| step.apply(&mut tables));
    mine.apply(&mut tables);
    assert_eq!(done.load(Relaxed), others.len() as u64);
    check(&disk, &database, &tables, &format!("{others:?}"));
    check_reopened(&disk.after_power_loss(), &tables, &format!("{others:?}, then power loss"));
}

#[test]
fn deduplicated_rows_are_encoded_again_after_a_concurrent_commit() {
    // The segment has another deletion vector then, of a row that stays or of the row that is
    // replaced anyway. A writer that changes rows handles keys itself, and would wait (replace-2).
    check_overtaken(&[Step::Delete("t", 2)]);
    check_overtaken(&[Step::Delete("t", 1)]);
    check_overtaken(&[Step::Delete("t", 3), Step::Delete("t", 2)]);
    // The rows are deleted.
    check_overtaken(&[Step::Truncate("t")]);
    // The table is dropped.
    check_overtaken(&[Step::Drop(vec!["t"])]);
    check_overtaken(&[Step::Drop(vec!["t"]), Step::Create("t")]);
    // Columns or keys are changed.
    check_overtaken(&[Step::AddColumn("t", "more", ColumnType::Int64)]);
    check_overtaken(&[Step::Keys("t", false)]);
}

#[test]
fn rows_of_an_import_that_replace_others_are_looked_at_anew_too() {
    check_import_overtaken(&[Step::Delete("t", 2)]);
    check_import_overtaken(&[Step::Delete("t", 1)]);
    check_import_overtaken(&[Step::Delete("t", 3), Step::Delete("t", 2)]);
    check_import_overtaken(&[Step::AddColumn("t", "more", ColumnType::Varchar)]);
    check_import_overtaken(&[Step::Keys("t", false)]);
    // The table gets keys again after it was read without keys.
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let first = Step::ImportNew("t", vec![(5, "a", 1), (5, "b", 2)]);
    let others = [Step::Keys("t", true)];
    let mine = Step::Import("t", vec![(5, "a", 3), (5, "c", 4)]);
    first.run(&database).unwrap();
    drop(database);
    let database = open(&disk);
    let done = overtake(&disk, &database, WRITE_SYMBOLS, &others);
    mine.run(&database).unwrap();
    [&first, &others[0], &mine].iter().for_each(|step| step.apply(&mut tables));
    assert_eq!(done.load(Relaxed), 1);
    check(&disk, &database, &tables, "keys that came");
}

#[test]
fn rows_of_columns_that_change_meanwhile_are_encoded_anew() {
    // The dictionary of a column is read when the first row after an open is encoded.
    for others in [
        vec![Step::AddColumn("t", "more", ColumnType::Int64)],
        vec![Step::RenameColumn("t", "value", "number")],
        vec![Step::Truncate("t")],
        vec![Step::Drop(vec!["t"])],
    ] {
        let (disk, database) = new_database();
        let mut tables = Tables::new();
        let first = Step::ImportNew("t", vec![(5, "a", 1), (5, "b", 2)]);
        first.run(&database).unwrap();
        first.apply(&mut tables);
        drop(database);
        let database = open(&disk);
        let done = overtake(&disk, &database, READ_SYMBOLS, &others);
        let mine = Step::Append(vec![("t", vec![(5, "a", 10), (7, "c", 11)], None)]);
        mine.run(&database).unwrap();
        others.iter().for_each(|step| step.apply(&mut tables));
        mine.apply(&mut tables);
        assert_eq!(done.load(Relaxed), others.len() as u64);
        check(&disk, &database, &tables, &format!("{others:?}"));
        check_reopened(&disk.after_power_loss(), &tables, &format!("{others:?}, then power loss"));
    }
}

#[test]
fn an_append_overtaken_at_every_attempt_fails_with_an_error() {
    /// Adds a column each time that a deletion vector is about to be written.
    fn overtake_always(disk: &SimDisk, database: &Arc<Database>, count: &Arc<AtomicU64>) {
        let again = (disk.clone(), Arc::clone(database), Arc::clone(count));
        let FileOpening { mode, suffix } = NEW_DELETION_VECTOR;
        disk.before_open(mode, suffix, move || {
            let (disk, database, count) = again;
            let name = format!("more_{}", count.fetch_add(1, Relaxed));
            database.add_columns("t", &columns(&[(name.as_str(), ColumnType::Int64)])).unwrap();
            overtake_always(&disk, &database, &count);
        });
    }
    let (disk, database) = new_database();
    // One of the old rows stays, because otherwise no deletion vector would be written.
    let rows: [Row; 2] = [(5, "a", 1), (6, "a", 1)];
    append(&database, "t", &rows).unwrap();
    database.flush_table("t").unwrap();
    database.set_dedup_keys("t", &["ts", "host"]).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    overtake_always(&disk, &database, &count);
    let error = append(&database, "t", &[(5, "a", 2)]).unwrap_err();
    assert!(matches!(error, Error::SchemaChanged { .. }), "{error:?}");
    assert_eq!(count.load(Relaxed), 32);
    disk.before_open(OpenMode::CreateNew, "", || {});
    assert_eq!(database.snapshot("t").unwrap().rows().0, 2);
}
