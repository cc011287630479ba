//! Changes by a statement: any number of batches, and deleted rows, in one commit.

use std::path::Path;
use std::sync::Arc;

use tidegate_model::ColumnType;
use tidegate_platform::{SimClock, SimDisk};
use tidegate_storage::{
    Database, DdlBefore, Error, ImportTarget, NewColumns, OpenOptions, OtherRows, PendingDdl,
    Result, SchemaEdit, SegmentDeletes, SnapshotDeletes, TableDdl,
};

use crate::fixture::{DAY, DIR, Row, batch, columns, files, new_database, schema, try_open};
use crate::model::{Step, Tables, change, check, check_reopened, read_table};

/// Applies a change to a table of some rows, and compares the result with the model.
#[track_caller]
fn check_change(value: i64, batches: Vec<Vec<Row>>) {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let steps = [
        Step::Create("t"),
        Step::Import("t", vec![(5, "a", 1), (5, "b", 2), (DAY, "a", 3)]),
        Step::Append(vec![("t", vec![(4, "c", 4), (5, "c", 5)], None)]),
        Step::Change("t", value, batches),
        Step::Append(vec![("t", vec![(5, "d", 6)], None)]),
    ];
    for step in steps {
        step.run(&database).unwrap();
        step.apply(&mut tables);
        check(&disk, &database, &tables, &format!("{step:?}"));
    }
    check_reopened(&disk.after_power_loss(), &tables, "after power loss");
}

#[test]
fn one_commit_deletes_rows_and_adds_others() {
    check_change(2, vec![vec![(5, "x", 20)]]);
    check_change(4, vec![vec![(5, "x", 20), (3, "y", 21)], vec![(5, "x", 22), (DAY, "x", 23)]]);
    check_change(99, vec![vec![(1, "x", 20)]]);
    check_change(1, vec![]);
    check_change(99, vec![vec![]]);
}

#[test]
fn equal_timestamps_of_a_change_stand_in_the_order_of_its_batches() {
    // By their bounds alone, segments of one commit would be in another order.
    let batches = vec![
        vec![(8, "x", 1), (10, "x", 2)],
        vec![(2, "y", 3), (10, "y", 4), (DAY + 1, "y", 5)],
        vec![(10, "z", 6), (10, "a", 7), (DAY, "z", 8)],
    ];
    check_change(99, batches);
    let in_order = vec![vec![(5, "x", 1)], vec![(5, "y", 2), (6, "y", 3)], vec![(6, "z", 4)]];
    check_change(99, in_order);
}

/// Adds a column with the values of `batch` to the rows of a table; others write `meanwhile`.
fn add_filled(
    database: &Arc<Database>,
    rows: &[Row],
    meanwhile: &[Step],
    other_rows: OtherRows,
) -> Result<()> {
    let mut ddl = PendingDdl::default();
    let columns = columns(&[("e0", ColumnType::Int64)]);
    let edit = SchemaEdit::Add(NewColumns { columns, ..NewColumns::default() });
    ddl.push(database, TableDdl::Alter { table: "t".to_owned(), edit })?;
    let snapshot = database.visible(&ddl).snapshot("t")?;
    let all = snapshot
        .segments()
        .map(|run| SegmentDeletes { segment: run.meta.id, rows: (0..run.meta.rows.0).collect() });
    let mut all = all.collect::<Vec<_>>().into_iter();
    let before = DdlBefore { ddl, other_rows };
    let mut txn = database.begin_change_after(before, &snapshot, &[])?;
    txn.add(&batch(rows, Some("e0")))?;
    meanwhile.iter().for_each(|step| step.run(database).unwrap());
    txn.commit(Some(SnapshotDeletes { snapshot: &snapshot, rows: &mut all })).map(drop)
}

/// The columns of table `t`, and its values of `e0` in the order of rows.
fn filled(database: &Database) -> (usize, Vec<Option<String>>) {
    let table = read_table(&database.snapshot("t").unwrap());
    let values = table.rows.iter().map(|row| row.get(3).cloned().flatten());
    (table.columns.len(), values.collect())
}

// ALTER TABLE .. ADD COLUMN .. DEFAULT was two commits. A crash between them left the column with
// NULL in all rows, and the statement could not be repeated; other sessions saw the same meanwhile.
#[test]
fn a_column_and_its_values_come_with_one_commit_or_not_at_all() {
    let rows = [(1, "a", 1), (DAY, "b", 2)];
    let text = |value: i64| Some(value.to_string());
    let (mut before, mut after) = (0, 0);
    for keys in [false, true] {
        for crash_at in 1..40 {
            let (disk, database) = new_database();
            for step in [Step::Create("t"), Step::Keys("t", keys), Step::Import("t", rows.to_vec())]
            {
                step.run(&database).unwrap();
            }
            let seq_txn = database.snapshot("t").unwrap().seq_txn;
            disk.crash_at_sync(crash_at);
            let added = add_filled(&database, &rows, &[], OtherRows::AreRefused);
            if added.is_ok() {
                assert_eq!(database.snapshot("t").unwrap().seq_txn, seq_txn.next());
            }
            drop(database);
            let found = filled(&try_open(&disk.after_power_loss()).unwrap());
            match found.0 {
                3 => {
                    assert!(added.is_err(), "sync {crash_at}");
                    before += 1;
                }
                _ => {
                    assert_eq!(found, (4, vec![text(10), text(20)]), "sync {crash_at}");
                    after += 1;
                }
            }
        }
    }
    assert!(before > 4 && after > 4, "{before} {after}");
}

#[test]
fn a_column_with_values_for_all_rows_refuses_rows_that_came_meanwhile() {
    let rows = [(1, "a", 1), (DAY, "b", 2)];
    let steps = [Step::Create("t"), Step::Import("t", rows.to_vec())];
    for step in [
        Step::Append(vec![("t", vec![(2, "c", 3)], None)]),
        Step::Import("t", vec![(2, "c", 3)]),
        Step::AddColumn("t", "other", ColumnType::Int64),
    ] {
        let (_disk, database) = new_database();
        steps.iter().for_each(|step| step.run(&database).unwrap());
        let (context, meanwhile) = (format!("{step:?}"), [step]);
        let added = add_filled(&database, &rows, &meanwhile, OtherRows::AreRefused);
        let is_refused =
            matches!(added, Err(Error::SegmentChanged { .. } | Error::SchemaChanged { .. }));
        assert!(is_refused, "{context}: {added:?}");
        let snapshot = database.snapshot("t").unwrap();
        assert!(snapshot.schema.find("e0").is_none(), "{context}");
    }
    let (_disk, database) = new_database();
    steps.iter().for_each(|step| step.run(&database).unwrap());
    let meanwhile = [Step::Append(vec![("t", vec![(2, "c", 3)], None)])];
    add_filled(&database, &rows, &meanwhile, OtherRows::Stay).unwrap();
    let values = [Some("10"), None, Some("20")].map(|it| it.map(str::to_owned));
    assert_eq!(filled(&database), (4, values.to_vec()));
}

#[test]
fn a_change_that_is_given_up_leaves_no_file() {
    let (disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let mut txn = database.begin_change(ImportTarget::Existing("t")).unwrap();
    txn.add(&batch(&[(7, "a", 1)], None)).unwrap();
    txn.add(&batch(&[(3, "b", 2)], None)).unwrap();
    assert_eq!(files(&disk, ".seg").len(), 2);
    drop(txn);
    assert_eq!(files(&disk, ".seg").len(), 0, "write_import-2");
}

#[test]
fn rows_that_others_have_changed_are_not_taken_out() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    for step in [Step::Create("t"), Step::Import("t", vec![(1, "a", 1), (2, "a", 2)])] {
        step.run(&database).unwrap();
        step.apply(&mut tables);
    }
    let before = database.snapshot("t").unwrap();
    let step = Step::Delete("t", 1);
    step.run(&database).unwrap();
    step.apply(&mut tables);
    let segment = before.segments().next().unwrap().meta.id;
    let deleted = [SegmentDeletes { segment, rows: vec![1] }];
    let outcome = change(&database, &before, &deleted, &[batch(&[(9, "new", 9)], None)]);
    assert!(matches!(outcome, Err(Error::SegmentChanged { .. })), "{outcome:?}");
    check(&disk, &database, &tables, "nothing has changed");
    assert_eq!(files(&disk, ".seg").len(), 1, "write_import-2");
    assert_eq!(files(&disk, ".mask").len(), 1, "write_import-2");
}

/// Runs steps, checks the number of segments and deletion vectors on disk after each, and compares.
#[track_caller]
fn check_files(steps: &[(Step, usize, usize)]) {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    for (step, segments, deletion_vectors) in steps {
        step.run(&database).unwrap();
        step.apply(&mut tables);
        check(&disk, &database, &tables, &format!("{step:?}"));
        let found = (files(&disk, ".seg").len(), files(&disk, ".mask").len());
        assert_eq!(found, (*segments, *deletion_vectors), "{step:?}");
    }
    check_reopened(&disk.after_power_loss(), &tables, "after power loss");
    drop(database);
    check_reopened(&disk, &tables, "after a clean end");
}

#[test]
fn a_segment_goes_with_its_last_row() {
    check_files(&[
        (Step::Create("t"), 0, 0),
        (Step::Import("t", vec![(1, "a", 1), (2, "a", 2), (DAY, "a", 3)]), 2, 0),
        (Step::Delete("t", 1), 2, 1),
        // The segment's last row is deleted, and its deletion vector is removed too.
        (Step::Delete("t", 2), 1, 0),
        // Another segment is added in its place.
        (Step::Change("t", 3, vec![vec![(DAY, "b", 4)]]), 1, 0),
        (Step::Delete("t", 4), 0, 0),
    ]);
}

#[test]
fn a_segment_goes_when_all_of_its_rows_are_replaced() {
    let first = vec![(1, "a", 1), (2, "b", 2), (DAY, "a", 3)];
    let same = |value| vec![(1, "a", value), (2, "b", value + 1)];
    check_files(&[
        (Step::Create("t"), 0, 0),
        (Step::Keys("t", true), 0, 0),
        (Step::Import("t", first), 2, 0),
        (Step::Import("t", same(10)), 2, 0),
        (Step::Append(vec![("t", vec![(1, "a", 20)], None)]), 2, 1),
        (Step::Append(vec![("t", vec![(2, "b", 30)], None)]), 1, 0),
        // Rows of the memtable are flushed, and the deletion of replaced rows waits.
        (Step::Append(vec![("t", vec![(1, "a", 40)], None)]), 2, 0),
    ]);
}

#[test]
fn a_snapshot_still_reads_a_segment_after_its_last_row_is_deleted() {
    let (disk, database) = new_database();
    for step in [Step::Create("t"), Step::Import("t", vec![(1, "a", 1), (DAY, "a", 2)])] {
        step.run(&database).unwrap();
    }
    let before = database.snapshot("t").unwrap();
    Step::Delete("t", 1).run(&database).unwrap();
    let now = database.snapshot("t").unwrap();
    assert_eq!((before.rows().0, now.rows().0), (2, 1));
    assert_eq!(now.min_max_ts(), Some((DAY, DAY)), "vectors-1");
    assert_eq!(read_table(&before).rows.len(), 2, "snapshot-4");
    assert_eq!(files(&disk, ".seg").len(), 2, "snapshot-4");
    drop(before);
    assert_eq!(files(&disk, ".seg").len(), 1, "snapshot-4");
}

#[test]
fn a_changed_row_replaces_those_with_its_keys() {
    // The value that a change deletes, the rows it adds, and the files and memtable afterwards.
    check_files(&[
        (Step::Create("t"), 0, 0),
        (Step::Keys("t", true), 0, 0),
        (Step::Import("t", vec![(1, "a", 1), (1, "b", 2), (2, "c", 3), (DAY, "a", 4)]), 2, 0),
        // `a` becomes `b`, whose row is replaced too.
        (Step::Change("t", 1, vec![vec![(1, "b", 10)]]), 3, 1),
        // Within the change, the later row wins.
        (Step::Change("t", 4, vec![vec![(DAY, "x", 20)], vec![(DAY, "x", 21)]]), 3, 1),
    ]);
}

#[test]
fn a_changed_row_replaces_those_that_came_meanwhile() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let steps = [
        Step::Create("t"),
        Step::Keys("t", true),
        Step::Import("t", vec![(1, "a", 1), (1, "c", 3)]),
    ];
    for step in steps {
        step.run(&database).unwrap();
        step.apply(&mut tables);
    }
    let before = database.snapshot("t").unwrap();
    let append = Step::Append(vec![("t", vec![(1, "b", 2), (1, "d", 4)], None)]);
    append.run(&database).unwrap();
    append.apply(&mut tables);
    let segment = before.segments().next().unwrap().meta.id;
    let deleted = [SegmentDeletes { segment, rows: vec![0] }];
    change(&database, &before, &deleted, &[batch(&[(1, "b", 10)], None)]).unwrap();
    Step::Change("t", 1, vec![vec![(1, "b", 10)]]).apply(&mut tables);
    check(&disk, &database, &tables, "replace-4");
    check_reopened(&disk.after_power_loss(), &tables, "replace-4");
    // The same change again: its row no longer exists.
    let again = change(&database, &before, &deleted, &[batch(&[(1, "b", 11)], None)]);
    assert!(matches!(again, Err(Error::SegmentChanged { .. })), "{again:?}");
    check(&disk, &database, &tables, "nothing has changed");
}

/// Changes a row while the columns of its table are changed concurrently.
#[track_caller]
fn check_columns(meanwhile: &[Step], needed: &str, is_done: bool) {
    for is_begun in [false, true] {
        let (disk, database) = new_database();
        let mut tables = Tables::new();
        let steps = [
            Step::Create("t"),
            Step::AddColumn("t", "e0", ColumnType::Int64),
            Step::Import("t", vec![(1, "a", 1), (2, "a", 2)]),
        ];
        for step in &steps {
            step.run(&database).unwrap();
            step.apply(&mut tables);
        }
        let snapshot = database.snapshot("t").unwrap();
        let segment = snapshot.segments().next().unwrap().meta.id;
        let needed = [snapshot.schema.find(needed).unwrap().clone()];
        let begin = || database.begin_change_of(&snapshot, &needed);
        let add = |mut txn: tidegate_storage::ChangeTxn| {
            txn.add(&batch(&[(1, "a", 10)], Some("e0"))).map(|()| txn)
        };
        let begun = is_begun.then(|| add(begin().unwrap()).unwrap());
        for step in meanwhile {
            step.run(&database).unwrap();
            step.apply(&mut tables);
        }
        let txn = begun.map_or_else(|| begin().and_then(add), Ok);
        let mut deleted = [SegmentDeletes { segment, rows: vec![0] }].into_iter();
        let removal = SnapshotDeletes { snapshot: &snapshot, rows: &mut deleted };
        let outcome = txn.and_then(|txn| txn.commit(Some(removal)));
        assert_eq!(outcome.is_ok(), is_done, "{meanwhile:?}: {outcome:?}");
        if is_done {
            let table = tables.get_mut("t").unwrap();
            let at = |name: &str| table.columns.iter().position(|(known, _)| known == name);
            let (host, e0) = (at("host").or(at("h")), at("e0"));
            table.rows[0][at("value").unwrap()] = Some("10".to_owned());
            for (at, text) in [(host, "a"), (e0, "100")] {
                if let Some(at) = at {
                    table.rows[0][at] = Some(text.to_owned());
                }
            }
        } else {
            assert!(matches!(outcome, Err(Error::ColumnDropped { .. })), "{outcome:?}");
        }
        let context = format!("update-3, {meanwhile:?}, begun: {is_begun}");
        check(&disk, &database, &tables, &context);
        check_reopened(&disk.after_power_loss(), &tables, &context);
    }
}

#[test]
fn an_update_survives_changes_of_other_columns() {
    let more = || Step::AddColumn("t", "e1", ColumnType::Int64);
    check_columns(&[more()], "value", true);
    check_columns(&[more(), Step::DropColumn("t", "e1")], "value", true);
    check_columns(&[Step::DropColumn("t", "e0")], "value", true);
    check_columns(&[Step::DropColumn("t", "host"), more()], "value", true);
    check_columns(&[Step::RenameColumn("t", "host", "h")], "value", true);
    check_columns(&[Step::DropColumn("t", "e0")], "e0", false);
    check_columns(&[Step::DropColumn("t", "host")], "host", false);
}

// A change kept the files of all its segments open until its commit: a change of rows in more
// partitions than a process may have open files always failed.
#[test]
fn a_change_keeps_few_files_open() {
    let rows = |from: i64| -> Vec<Row> { (from..from + 400).map(|n| (n * DAY, "x", n)).collect() };
    // In order, so that segments are not rewritten, out of order, and with keys.
    for batches in [vec![rows(0)], vec![rows(0), rows(0)]] {
        for has_keys in [false, true] {
            let (disk, database) = new_database();
            let mut tables = Tables::new();
            let mut steps = vec![Step::Create("t"), Step::Import("t", vec![(1, "a", 7)])];
            if has_keys {
                steps.push(Step::Keys("t", true));
            }
            steps.push(Step::Change("t", 7, batches.clone()));
            for step in &steps {
                step.run(&database).unwrap();
                step.apply(&mut tables);
            }
            let context = format!("{} batches, keys: {has_keys}", batches.len());
            let open = disk.open_files_max();
            assert!(open < 200, "{context}: {open} files were open");
            check(&disk, &database, &tables, &context);
        }
    }
}

#[test]
fn rows_of_a_table_that_was_made_anew_are_not_changed() {
    let (_, database) = new_database();
    let rows = || vec![(1, "a", 1)];
    for step in [Step::Create("t"), Step::Import("t", rows())] {
        step.run(&database).unwrap();
    }
    let snapshot = database.snapshot("t").unwrap();
    for step in [Step::Drop(vec!["t"]), Step::Create("t"), Step::Import("t", rows())] {
        step.run(&database).unwrap();
    }
    let outcome = database.begin_change_of(&snapshot, &[]);
    assert!(matches!(outcome, Err(Error::TableDropped { .. })), "{outcome:?}");
}

/// Maximal time of deleted rows in segments, in microseconds.
const DELETE_COMPACTION_AFTER: u32 = 1_000_000;

fn open_at(disk: &SimDisk, clock: &Arc<SimClock>) -> Arc<Database> {
    let clock = Arc::clone(clock);
    let mut options = OpenOptions::new(clock);
    options.maintenance.delete_compaction_after_nanos = u64::from(DELETE_COMPACTION_AFTER) * 1_000;
    Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap()
}

#[test]
fn deleted_rows_go_from_the_disk_of_a_table_without_writes() {
    let (disk, clock) = (SimDisk::new(1), Arc::new(SimClock::new(1)));
    let database = open_at(&disk, &clock);
    let mut tables = Tables::new();
    let rows = vec![(1, "a", 1), (1, "b", 2), (1, "c", 3), (DAY, "d", 4), (DAY, "e", 5)];
    for step in [Step::Create("t"), Step::Import("t", rows), Step::Maintain, Step::Delete("t", 2)] {
        step.run(&database).unwrap();
        step.apply(&mut tables);
    }
    let untouched = database.snapshot("t").unwrap().segments().last().unwrap().meta.id;
    // A later deletion does not extend the wait of the first one.
    for (delete_compactions, deletion_vectors, step) in
        [(0, 1, Step::Sync), (0, 1, Step::Delete("t", 3)), (1, 0, Step::Sync)]
    {
        step.run(&database).unwrap();
        step.apply(&mut tables);
        check(&disk, &database, &tables, &format!("{step:?}"));
        assert_eq!(
            database.maintain().unwrap().delete_compactions,
            delete_compactions,
            "delete_compaction-1, {step:?}"
        );
        assert_eq!(files(&disk, ".mask").len(), deletion_vectors, "delete_compaction-1, {step:?}");
        clock.advance_micros(DELETE_COMPACTION_AFTER / 2);
    }
    let now = database.snapshot("t").unwrap();
    assert_eq!(now.segments().last().unwrap().meta.id, untouched, "delete_compaction-1");
    check_reopened(&disk.after_power_loss(), &tables, "delete_compaction-1");
}

#[test]
fn deletion_vectors_that_an_open_finds_are_as_old_as_their_segment() {
    let (disk, clock) = (SimDisk::new(1), Arc::new(SimClock::new(1)));
    let database = open_at(&disk, &clock);
    for step in [Step::Create("t"), Step::Import("t", vec![(1, "a", 1), (2, "a", 2)])] {
        step.run(&database).unwrap();
    }
    Step::Delete("t", 1).run(&database).unwrap();
    drop(database);
    // The simulated disk counts changes instead of time, so its files are about as old as the
    // clock.
    for (micros, delete_compactions) in
        [(DELETE_COMPACTION_AFTER / 2, 0), (DELETE_COMPACTION_AFTER * 2, 1)]
    {
        clock.set_micros(micros.into());
        let database = open_at(&disk, &clock);
        assert_eq!(
            database.maintain().unwrap().delete_compactions,
            delete_compactions,
            "delete_compaction-1, {micros}"
        );
    }
}

#[test]
fn a_delete_compaction_keeps_the_order_of_equal_timestamps() {
    let (disk, clock) = (SimDisk::new(1), Arc::new(SimClock::new(1)));
    let database = open_at(&disk, &clock);
    let mut tables = Tables::new();
    let batches = vec![
        vec![(1, "w", 1)],
        vec![(4, "x", 2), (5, "x", 3)],
        vec![(5, "y", 4), (6, "y", 5)],
        vec![(6, "z", 6), (7, "z", 7)],
    ];
    let steps = [Step::Create("t"), Step::Change("t", 99, batches), Step::Maintain];
    for step in steps.into_iter().chain([Step::Delete("t", 5)]) {
        step.run(&database).unwrap();
        step.apply(&mut tables);
    }
    let ids = || -> Vec<_> {
        database.snapshot("t").unwrap().segments().map(|run| run.meta.id).collect()
    };
    let before = ids();
    assert_eq!((before.len(), database.maintain().unwrap().delete_compactions), (4, 0));
    clock.advance_micros(DELETE_COMPACTION_AFTER);
    assert_eq!(database.maintain().unwrap().delete_compactions, 1);
    check(&disk, &database, &tables, "policy-3");
    assert_eq!((ids().len(), ids()[0], files(&disk, ".mask").len()), (2, before[0], 0), "policy-3");
    check_reopened(&disk.after_power_loss(), &tables, "policy-3");
}
