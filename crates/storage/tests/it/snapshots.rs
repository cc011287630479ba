//! Snapshots: they do not change, and they keep their files.

use tidegate_model::{PartitionUnit, RowCount, Schema};
use tidegate_platform::SimDisk;
use tidegate_storage::{Database, ImportTarget, Run, SegmentDeletes};

use crate::fixture::{DAY, columns, files, import, import_into, new_database, open, schema};
use crate::model::{Step, Tables, change, check_reopened, read, read_table};

fn segments(disk: &SimDisk) -> usize {
    files(disk, ".seg").len()
}

fn with_rows() -> (SimDisk, std::sync::Arc<Database>) {
    let (disk, database) = new_database();
    Step::ImportNew("t", vec![(1, "a", 1), (DAY, "b", 2)]).run(&database).unwrap();
    (disk, database)
}

#[test]
fn files_of_a_dropped_table_stay_while_a_snapshot_reads_them() {
    for step in [Step::Drop(vec!["t"]), Step::Truncate("t")] {
        let (disk, database) = with_rows();
        let snapshot = database.snapshot("t").unwrap();
        let before = read_table(&snapshot);
        step.run(&database).unwrap();
        assert_eq!(segments(&disk), 2, "snapshot-4");
        assert_eq!(read_table(&snapshot), before);
        drop(snapshot);
        assert_eq!(segments(&disk), 0, "snapshot-4");
        assert_eq!(files(&disk, ".sym").is_empty(), matches!(step, Step::Drop(_)), "directory-2");
    }
}

#[test]
fn files_of_a_dropped_table_are_removed_without_readers_or_at_the_next_open() {
    let (disk, database) = with_rows();
    database.drop_tables(&["t"]).unwrap();
    assert_eq!(segments(&disk), 0, "snapshot-4");
    drop(database);

    let (disk, database) = with_rows();
    let snapshot = database.snapshot("t").unwrap();
    database.drop_tables(&["t"]).unwrap();
    drop(database);
    assert_eq!(segments(&disk), 2, "snapshot-4");
    let database = open(&disk);
    assert_eq!(segments(&disk), 0);
    drop(snapshot);
    assert!(database.tables().is_empty());
}

#[test]
fn a_snapshot_is_the_same_until_something_is_committed() {
    let (_, database) = with_rows();
    let first = database.snapshot("t").unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &database.snapshot("T").unwrap()));
    import(&database, "t", &[(2, "c", 3)]).unwrap();
    let second = database.snapshot("t").unwrap();
    assert_eq!((first.rows(), second.rows()), (RowCount(2), RowCount(3)));
    assert_eq!(second.seq_txn, first.seq_txn.next());
    assert_eq!(first.symbols.iter().count(), 1);
}

#[test]
fn several_tables_are_read_as_of_one_moment() {
    let (_, database) = new_database();
    Step::Create("a").run(&database).unwrap();
    Step::Create("b").run(&database).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..40 {
                // Always first `a`, then `b`.
                import(&database, "a", &[(n, "x", n)]).unwrap();
                import(&database, "b", &[(n, "x", n)]).unwrap();
            }
        });
        while !writer.is_finished() {
            let both = database.snapshots(&["b", "a"]).unwrap();
            let (b, a) = (both[0].rows().0, both[1].rows().0);
            assert!(b <= a && a <= b + 1, "{a} {b}");
        }
    });
}

#[test]
fn late_rows_make_groups_and_others_do_not() {
    let (_, database) = with_rows();
    import(&database, "t", &[(2, "c", 3)]).unwrap();
    import(&database, "t", &[(2, "d", 4), (9, "d", 5)]).unwrap();
    import(&database, "t", &[(5, "late", 6)]).unwrap();
    let snapshot = database.snapshot("t").unwrap();
    let shape: Vec<(i64, Vec<i64>)> = snapshot
        .groups
        .iter()
        .map(|group| {
            let starts = group.runs.iter().map(|Run::Segment(run)| run.meta.min_ts);
            (group.partition.0, starts.collect())
        })
        .collect();
    // The second and the third only touch, in the order of their commits.
    assert_eq!(shape, [(0, vec![1]), (0, vec![2]), (0, vec![2, 5]), (DAY, vec![DAY])]);
}

#[test]
fn a_table_without_designated_timestamp_keeps_the_order_of_its_commits() {
    let (disk, database) = new_database();
    let untimed = columns(&[("n", tidegate_model::ColumnType::Int64)]);
    let untimed = Schema::new(&untimed, None, PartitionUnit::None).unwrap();
    let txn = database.begin_import(ImportTarget::New { name: "t", schema: untimed }).unwrap();
    let segments = crate::fixture::write(&txn, &[(0, "", 3), (0, "", 1)]).unwrap();
    txn.commit(segments).unwrap();
    import(&database, "t", &[(0, "", 2)]).unwrap();
    for database in [database, open(&disk.after_power_loss())] {
        let snapshot = database.snapshot("t").unwrap();
        let rows: Vec<u64> = snapshot
            .groups
            .iter()
            .map(|group| {
                assert_eq!(group.runs.len(), 1);
                let Run::Segment(run) = &group.runs[0];
                run.meta.rows.0
            })
            .collect();
        assert_eq!(rows, [2, 1]);
        assert_eq!(snapshot.min_max_ts(), None);
    }
}

#[test]
fn rows_are_deleted_for_later_snapshots_only() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let import = Step::ImportNew("t", vec![(1, "a", 1), (2, "a", 3), (DAY, "b", 2)]);
    import.run(&database).unwrap();
    import.apply(&mut tables);
    let before = database.snapshot("t").unwrap();
    Step::Delete("t", 1).run(&database).unwrap();
    Step::Delete("t", 1).apply(&mut tables);
    assert_eq!(before.rows(), RowCount(3), "deletion_vector-1");
    assert_eq!(read(&database), tables);
    check_reopened(&disk.after_power_loss(), &tables, "after power loss");
    // The row that was found in the old snapshot has changed.
    let deleted =
        [SegmentDeletes { segment: before.segments().next().unwrap().meta.id, rows: vec![0] }];
    let error = change(&database, &before, &deleted, &[]).unwrap_err();
    assert_eq!(error.to_string(), "segment 0 of table `t` was changed meanwhile");
    // The deletion of deleted rows needs no commit.
    let now = database.snapshot("t").unwrap();
    assert_eq!(change(&database, &now, &deleted, &[]).unwrap(), now.seq_txn);
    drop((before, now));
    assert_eq!(files(&disk, ".mask").len(), 1);
    database.truncate_table("t").unwrap();
    assert!(files(&disk, ".mask").is_empty());
}

#[test]
fn a_replaced_deletion_vector_is_not_needed_by_its_readers() {
    let (disk, database) = new_database();
    let rows = vec![(1, "a", 1), (2, "b", 2), (3, "c", 3)];
    Step::ImportNew("t", rows).run(&database).unwrap();
    Step::Delete("t", 1).run(&database).unwrap();
    let first = database.snapshot("t").unwrap();
    Step::Delete("t", 2).run(&database).unwrap();
    assert_eq!(files(&disk, ".mask").len(), 1, "directory-3");
    assert_eq!(first.rows(), RowCount(2), "deletion_vector-1");
    assert_eq!(database.snapshot("t").unwrap().rows(), RowCount(1));
}

#[test]
fn symbol_files_of_a_dropped_column_are_removed_whether_read_or_not() {
    for is_read in [true, false] {
        let (disk, database) = with_rows();
        drop(database);
        let database = open(&disk);
        let before = is_read.then(|| database.snapshot("t").unwrap());
        assert_eq!(files(&disk, ".sym").len(), 1);
        database.drop_columns("t", &["host"]).unwrap();
        assert!(files(&disk, ".sym").is_empty());
        if let Some(before) = before {
            assert_eq!(read_table(&before).rows[0][1].as_deref(), Some("a"));
        }
        assert_eq!(database.snapshot("t").unwrap().symbols.iter().count(), 0);
    }
}

#[test]
fn columns_are_added_and_dropped_while_readers_run() {
    let (_, database) = with_rows();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..25 {
                database.drop_columns("t", &["host"]).unwrap();
                let host = columns(&[("host", tidegate_model::ColumnType::Symbol)]);
                database.add_columns("t", &host).unwrap();
                import(&database, "t", &[(1, "x", 1)]).unwrap();
            }
        });
        while !writer.is_finished() {
            read_table(&database.snapshot("t").unwrap());
        }
    });
}

#[test]
fn a_partition_none_table_is_one_partition() {
    let (_, database) = new_database();
    let columns: Vec<_> = schema().columns().iter().map(|c| (c.name.clone(), c.ty)).collect();
    let whole = Schema::new(&columns, Some("ts"), PartitionUnit::None).unwrap();
    let target = ImportTarget::New { name: "t", schema: whole };
    import_into(&database, target, &[(-DAY, "a", 1), (7 * DAY, "b", 2)]).unwrap();
    let snapshot = database.snapshot("t").unwrap();
    assert_eq!(snapshot.groups.len(), 1);
    assert_eq!(snapshot.groups[0].partition.0, 0);
}
