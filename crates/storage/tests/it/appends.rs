//! Appends of a few rows at a time.

use std::path::Path;
use std::sync::Arc;

use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Ttl};
use tidegate_platform::{SimClock, SimDisk};
use tidegate_storage::{
    AppendOptions, Appended, BatchColumn, BatchId, BatchValues, Database, Error,
    MaintenanceOptions, NewTableOptions, OpenOptions, RowBatch, TableAppend,
};

use crate::fixture::{
    DAY, DIR, Row, append, append_of, batch, import, new_database, open, options, schema,
};
use crate::model::{Step, Tables, check, check_reopened, read};

fn open_with(disk: &SimDisk, change: impl FnOnce(&mut MaintenanceOptions)) -> Arc<Database> {
    let mut options = options();
    change(&mut options.maintenance);
    Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap()
}

#[test]
fn rows_are_visible_when_they_are_acknowledged_and_after_a_crash() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let steps = [
        vec![(5, "a", 1), (3, "b", 2), (DAY + 1, "a", 3)],
        vec![(3, "c", 4)],
        vec![(DAY, "a", 5), (3, "a", 6)],
    ];
    for rows in steps {
        let step = Step::Append(vec![("t", rows, None)]);
        step.run(&database).unwrap();
        step.apply(&mut tables);
        check(&disk, &database, &tables, "live");
        disk_after_loss(&disk, &tables);
    }
    database.checkpoint().unwrap();
    disk_after_loss(&disk, &tables);
    let step = Step::Append(vec![("t", vec![(4, "d", 7)], Some("more"))]);
    step.run(&database).unwrap();
    step.apply(&mut tables);
    disk_after_loss(&disk, &tables);
    drop(database);
    check_reopened(&disk, &tables, "after a clean end");
}

fn disk_after_loss(disk: &SimDisk, tables: &Tables) {
    check_reopened(&disk.after_power_loss(), tables, "after power loss");
}

#[test]
fn rows_with_equal_timestamps_are_in_commit_order_for_all_kinds_of_commits() {
    let disk = SimDisk::new(1);
    let database = open_with(&disk, |maintenance| maintenance.compaction_runs = 2);
    let mut tables = Tables::new();
    let same = |value: i64| vec![(7, "x", value), (7, "y", value + 100)];
    let steps = [
        Step::Append(vec![("t", same(1), None)]),
        Step::Import("t", same(2)),
        Step::Append(vec![("t", same(3), None)]),
        Step::Append(vec![("t", same(4), None)]),
        Step::Import("t", same(5)),
        Step::Append(vec![("t", same(6), None)]),
        Step::Flush("t"),
        Step::Append(vec![("t", same(7), None)]),
        Step::Compact("t"),
        Step::Flush("t"),
        Step::Compact("t"),
    ];
    for step in steps {
        step.run(&database).unwrap();
        step.apply(&mut tables);
        check(&disk, &database, &tables, &format!("{step:?}"));
    }
    let report = database.maintenance_report();
    assert!(report.compactions > 0);
    let table = database.snapshot("t").unwrap().table;
    let writes = database.table_writes(table).unwrap();
    assert_eq!(writes.log_bytes, report.log_bytes, "there is one table");
    assert_eq!(writes.flushed_bytes, report.flushed_bytes);
    assert_eq!(writes.compacted_bytes, report.compacted_bytes);
    check_reopened(&disk.after_power_loss(), &tables, "after power loss");
}

#[test]
fn single_rows_become_few_runs() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let mut runs_max = 0;
    for n in 0..700 {
        let step = Step::Append(vec![("t", vec![(n * 3 % 100, "a", n)], None)]);
        step.run(&database).unwrap();
        step.apply(&mut tables);
        if n % 10 == 0 {
            database.maintain().unwrap();
            runs_max = runs_max.max(database.snapshot("t").unwrap().segments().count());
        }
    }
    assert!(runs_max <= 32, "{runs_max} runs");
    check(&disk, &database, &tables, "coalesced");
    check_reopened(&disk.after_power_loss(), &tables, "replayed");
}

#[test]
fn writers_coalesce_runs_when_maintenance_does_not_run() {
    let (_, database) = new_database();
    for n in 0..300 {
        append(&database, "t", &[(n, "a", n)]).unwrap();
    }
    let snapshot = database.snapshot("t").unwrap();
    assert!(snapshot.segments().count() < 80, "{} runs", snapshot.segments().count());
    assert_eq!(snapshot.rows().0, 300);
}

#[test]
fn writers_of_one_new_table_all_get_their_rows_in() {
    for _ in 0..10 {
        let (disk, database) = new_database();
        std::thread::scope(|scope| {
            for thread in 0..6_i64 {
                let database = &database;
                scope.spawn(move || {
                    let extra = ["e0", "e1", "e2"][usize::try_from(thread).unwrap() % 3];
                    for n in 0..5 {
                        let rows: [Row; 2] = [(n, "a", thread * 100 + n), (DAY, "b", -1)];
                        let appends = [append_of("t", &rows, Some(extra))];
                        database.append(&appends, &AppendOptions::default()).unwrap();
                    }
                });
            }
        });
        let table = &read(&database)["t"];
        assert_eq!((table.rows.len(), table.columns.len()), (60, 6));
        check_reopened(&disk.after_power_loss(), &read(&database), "after power loss");
    }
}

#[test]
fn a_column_of_another_type_is_refused_and_nothing_happens() {
    let (_, database) = new_database();
    append(&database, "t", &[(1, "a", 1)]).unwrap();
    let wrong = BatchColumn {
        name: "VALUE".to_owned(),
        ty: ColumnType::Float64,
        values: BatchValues::F64(vec![1.5]),
        validity: None,
    };
    let mut columns = batch(&[(2, "a", 2)], None).into_columns();
    columns[2] = wrong;
    let wrong = TableAppend { rows: RowBatch::new(1, columns), ..append_of("t", &[], None) };
    let good = append_of("u", &[(1, "a", 1)], None);
    let error = database.append(&[good, wrong], &AppendOptions::default()).unwrap_err();
    assert!(matches!(error, Error::SchemaChanged { ref table } if table == "t"), "{error:?}");
    assert!(!read(&database).contains_key("u"), "append-1");
    assert_eq!(read(&database)["t"].rows.len(), 1);
}

#[test]
fn an_append_fails_if_it_may_not_create_its_table_or_column() {
    let (_, database) = new_database();
    let append = |change: &dyn Fn(&mut TableAppend)| {
        let mut append = append_of("t", &[(1, "a", 1)], Some("more"));
        change(&mut append);
        database.append(&[append], &AppendOptions::default())
    };
    let error = append(&|append| append.create = None).unwrap_err();
    assert!(matches!(error, Error::NoSuchTable { .. }), "{error:?}");
    database.create_table("t", schema()).unwrap();
    let error = append(&|append| append.add_columns = false).unwrap_err();
    assert_eq!(error.to_string(), "column `more` does not exist");
    let twice = [append_of("t", &[], None), append_of("T", &[], None)];
    let error = database.append(&twice, &AppendOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "table `T` is named twice in one append");
    let options =
        NewTableOptions { designated: "host".to_owned(), partition_by: PartitionUnit::Day };
    let error = append(&|append| {
        append.table = "new".to_owned();
        append.create = Some(options.clone());
    });
    assert!(matches!(error, Err(Error::Schema(_))), "{error:?}");
    assert_eq!(read(&database).len(), 1);
    assert_eq!(append(&|_| {}).unwrap().seq_txns[0].0, 2);
}

#[test]
fn a_batch_is_applied_once_also_after_a_restart() {
    let (disk, database) = new_database();
    let options =
        |id: u8| AppendOptions { batch_id: Some(BatchId([id; 16])), ..AppendOptions::default() };
    let append = |database: &Arc<Database>, id: u8, n: i64| {
        let appends = [append_of("t", &[(n, "a", n)], None), append_of("u", &[(n, "a", n)], None)];
        let Appended { seq_txns, is_new } = database.append(&appends, &options(id)).unwrap();
        assert_eq!(seq_txns[0], seq_txns[1]);
        (seq_txns[0].0, is_new)
    };
    assert_eq!(append(&database, 1, 1), (1, true));
    assert_eq!(append(&database, 2, 2), (2, true));
    assert_eq!(append(&database, 1, 1), (1, false));
    for disk in [disk.after_power_loss(), {
        database.close().unwrap();
        disk.after_power_loss()
    }] {
        let database = open(&disk);
        assert_eq!(append(&database, 2, 2), (2, false));
        assert_eq!(append(&database, 1, 1), (1, false));
        for table in ["t", "u"] {
            assert_eq!(read(&database)[table].rows.len(), 2);
        }
        assert!(append(&database, 3, 3).0 > 2);
    }
}

// Marks of an earlier version have sixteen bytes of the name, and none of the rows. After an
// upgrade a repeat was refused as other rows of that name.
#[test]
fn a_batch_of_an_earlier_version_is_known_by_its_name() {
    let (disk, database) = new_database();
    let append = |database: &Arc<Database>, content: u8, older_id: Option<BatchId>| {
        let batch_id = Some(BatchId::new([1; 8], [content; 8]));
        let options = AppendOptions { batch_id, older_id };
        database.append(&[append_of("t", &[(1, "a", 1)], None)], &options)
    };
    let older = BatchId::new([1; 8], [9; 8]);
    assert!(append(&database, 9, None).unwrap().is_new);
    for _ in 0..2 {
        assert!(!append(&open_again(&disk), 2, Some(older)).unwrap().is_new);
    }
    let database = open_again(&disk);
    assert!(append(&database, 2, None).is_err(), "without it, it is another request");
    assert_eq!(read(&database)["t"].rows.len(), 1);
}

fn open_again(disk: &SimDisk) -> Arc<Database> {
    open(&disk.after_power_loss())
}

// Only the name was compared: other rows with a name that a table remembered were acknowledged, and
// not written.
#[test]
fn a_name_of_a_batch_stands_for_the_same_rows_also_after_a_restart() {
    let (disk, database) = new_database();
    let options = |name: u8, content: u8| AppendOptions {
        batch_id: Some(BatchId::new([name; 8], [content; 8])),
        ..AppendOptions::default()
    };
    let append = |database: &Arc<Database>, (name, content): (u8, u8), tables: &[&str]| {
        let appends = tables.iter().map(|table| append_of(table, &[(1, "a", 1)], None));
        database.append(&appends.collect::<Vec<_>>(), &options(name, content))
    };
    assert!(append(&database, (1, 1), &["t"]).unwrap().is_new);
    assert!(!append(&database, (1, 1), &["t"]).unwrap().is_new);
    database.close().unwrap();
    let database = open(&disk.after_power_loss());
    assert!(!append(&database, (1, 1), &["t"]).unwrap().is_new);
    // Also if only one of several tables remembers it.
    for tables in [&["t"][..], &["u", "t"]] {
        let refused = append(&database, (1, 2), tables).unwrap_err();
        assert!(matches!(&refused, Error::BatchReused { table } if table == "t"), "{refused:?}");
    }
    assert!(append(&database, (2, 1), &["t"]).unwrap().is_new);
    let known = database.batches(10);
    assert_eq!(known, [BatchId::new([2; 8], [1; 8]), BatchId::new([1; 8], [1; 8])]);
    assert_eq!(database.batches(1).len(), 1);
    assert_eq!(read(&database)["t"].rows.len(), 2);
}

#[test]
fn memory_of_memtables_is_bounded_and_no_writer_is_refused() {
    let disk = SimDisk::new(3);
    let database = open_with(&disk, |maintenance| maintenance.memtable_bytes_max = 20 << 10);
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let database = &database;
            scope.spawn(move || {
                for n in 0..60 {
                    let rows: Vec<Row> = (0..50).map(|at| (n * 50 + at, "a", thread)).collect();
                    append(database, ["t", "u"][usize::try_from(thread).unwrap() % 2], &rows)
                        .unwrap();
                    // Each writer may exceed the bound by one commit.
                    assert!(database.memtable_bytes() < 40 << 10, "{}", database.memtable_bytes());
                }
            });
        }
    });
    let rows = |table: &str| database.snapshot(table).unwrap().rows().0;
    assert_eq!((rows("t"), rows("u")), (6_000, 6_000));
    assert!(database.maintenance_report().flushes > 2);
    database.close().unwrap();
    assert_eq!(database.memtable_bytes(), 0);
}

#[test]
fn a_truncated_table_forgets_its_memtable() {
    let (disk, database) = new_database();
    append(&database, "t", &[(1, "a", 1)]).unwrap();
    database.checkpoint().unwrap();
    database.truncate_table("t").unwrap();
    append(&database, "t", &[(2, "b", 2)]).unwrap();
    let check = |database: &Database| {
        let table = &read(database)["t"];
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.rows[0][2], Some("2".to_owned()));
    };
    check(&database);
    check(&open(&disk.after_power_loss()));
    database.checkpoint().unwrap();
    check(&open(&disk.after_power_loss()));
}

#[test]
fn symbols_of_records_and_of_files_are_one_dictionary() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let step = |database: &Arc<Database>, tables: &mut Tables, step: Step| {
        step.run(database).unwrap();
        step.apply(tables);
    };
    step(&database, &mut tables, Step::Append(vec![("t", vec![(1, "log", 1)], None)]));
    step(&database, &mut tables, Step::Import("t", vec![(2, "file", 2), (3, "log", 3)]));
    step(
        &database,
        &mut tables,
        Step::Append(vec![("t", vec![(4, "both", 4), (5, "file", 5)], None)]),
    );
    check_reopened(&disk.after_power_loss(), &tables, "before a checkpoint");
    database.checkpoint().unwrap();
    step(&database, &mut tables, Step::Append(vec![("t", vec![(6, "last", 6)], None)]));
    check_reopened(&disk.after_power_loss(), &tables, "after a checkpoint");
    let error = import(&database, "none", &[]).unwrap_err();
    assert!(matches!(error, Error::NoSuchTable { .. }));
}

#[test]
fn rows_with_the_same_keys_replace_each_other() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let steps = [
        Step::Append(vec![("t", vec![(5, "a", 1), (5, "a", 2), (6, "b", 3)], None)]),
        Step::Keys("t", true),
        Step::Append(vec![("t", vec![(5, "a", 4), (5, "b", 5), (5, "b", 6)], None)]),
        Step::Append(vec![("t", vec![(DAY, "a", 7), (5, "b", 8)], Some("more"))]),
        Step::Flush("t"),
        Step::Append(vec![("t", vec![(6, "b", 9), (DAY, "a", 10)], None)]),
        Step::Append(vec![("t", vec![(DAY, "a", 11), (6, "c", 12)], None)]),
        Step::Compact("t"),
        Step::Append(vec![("t", vec![(7, "a", 13), (7, "b", 14)], None)]),
        // Rows of segments and of the memtable, of other rows of the import, and of two partitions.
        Step::Import("t", vec![(6, "c", 15), (7, "b", 16), (5, "x", 17), (5, "x", 18)]),
        Step::Import("t", vec![(DAY, "a", 19), (6, "c", 20), (8, "y", 21), (8, "y", 22)]),
        Step::Import("t", vec![(2 * DAY, "z", 23)]),
        Step::Append(vec![("t", vec![(6, "c", 24), (2 * DAY, "z", 25)], None)]),
        Step::Keys("t", false),
        Step::Append(vec![("t", vec![(6, "c", 26)], None)]),
        Step::Import("t", vec![(6, "c", 27)]),
    ];
    for step in steps {
        step.run(&database).unwrap();
        step.apply(&mut tables);
        check(&disk, &database, &tables, &format!("{step:?}"));
        check_reopened(&disk.after_power_loss(), &tables, &format!("{step:?}, then power loss"));
    }
    assert_eq!(tables["t"].rows.len(), 12);
}

#[test]
fn old_partitions_go_when_rows_are_kept_for_a_time() {
    let disk = SimDisk::new(1);
    let clock = Arc::new(SimClock::new(100 * DAY));
    let options = OpenOptions { clock, ..options() };
    let database = Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
    let row = |day: i64| (day * DAY + 5, "a", day);
    let rows: Vec<Row> = [90, 96, 97, 98, 2_000].into_iter().map(row).collect();
    append(&database, "t", &rows).unwrap();
    let days = |database: &Database| {
        let rows = &read(database)["t"].rows;
        rows.iter().map(|row| row[2].clone().unwrap()).collect::<Vec<_>>().join(" ")
    };
    let ttl = |count, unit| Some(Ttl { count, unit });
    database.set_ttl("t", ttl(50, PartitionUnit::Week)).unwrap();
    database.maintain().unwrap();
    assert_eq!(days(&database), "90 96 97 98 2000", "a row from the future drops nothing");
    database.set_ttl("t", ttl(3, PartitionUnit::Day)).unwrap();
    assert_eq!(database.maintain().unwrap().expired_partitions, 2);
    assert_eq!(days(&database), "97 98 2000");
    assert_eq!(days(&open(&disk.after_power_loss())), "97 98 2000");
    database.set_ttl("t", None).unwrap();
    append(&database, "t", &[row(1)]).unwrap();
    assert_eq!(database.maintain().unwrap().expired_partitions, 0);
}

/// The memory of dictionaries was in no budget: symbols filled it until the process was killed.
#[test]
fn new_symbols_beyond_their_memory_fail_their_commit_alone() {
    let disk = SimDisk::new(1);
    let open = |symbols: u64| {
        let options = OpenOptions { symbol_bytes_max: ByteCount(symbols), ..options() };
        Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap()
    };
    let (database, mut tables) = (open(u64::MAX), Tables::new());
    let run = |database: &Arc<Database>, tables: &mut Tables, step: Step| {
        step.run(database).unwrap();
        step.apply(tables);
    };
    run(&database, &mut tables, Step::Append(vec![("t", vec![(1, "a", 1)], None)]));
    run(&database, &mut tables, Step::Checkpoint);
    run(&database, &mut tables, Step::Append(vec![("t", vec![(2, "b", 2)], None)]));
    assert!(database.symbol_memory().used_bytes() > 0);
    drop(database);
    // What is there is read, and known symbols are accepted.
    let database = open(0);
    assert_eq!(read(&database), tables);
    run(&database, &mut tables, Step::Append(vec![("t", vec![(3, "a", 3), (4, "b", 4)], None)]));
    run(&database, &mut tables, Step::Import("t", vec![(5, "b", 5)]));
    let both = [append_of("t", &[(6, "a", 6)], None), append_of("u", &[(6, "a", 6)], None)];
    for error in [
        append(&database, "t", &[(6, "a", 6), (7, "c", 7)]).unwrap_err(),
        import(&database, "t", &[(6, "a", 6), (7, "c", 7)]).unwrap_err(),
        database.append(&both, &AppendOptions::default()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::SymbolMemory { .. }), "dictionary-3: {error:?}");
        let message = error.to_string();
        assert!(message.starts_with("column `host` takes no new symbols"), "{message}");
        check(&disk, &database, &tables, "after a refusal");
    }
    run(&database, &mut tables, Step::Append(vec![("t", vec![(8, "b", 8)], None)]));
    drop(database);
    check_reopened(&disk.after_power_loss(), &tables, "after power loss");
    // With memory, the same commit succeeds.
    let database = open(u64::MAX);
    run(&database, &mut tables, Step::Append(vec![("t", vec![(7, "c", 7)], None)]));
    check(&disk, &database, &tables, "with memory");
}

// A flush kept the files of all its partitions open until it had written the last one: rows in more
// partitions than a process may have open files could never be flushed.
#[test]
fn a_flush_keeps_few_files_open() {
    let (disk, database) = new_database();
    let rows: Vec<Row> = (0..400).map(|n| (n * DAY, "x", n)).collect();
    let (mut tables, step) = (Tables::new(), Step::Append(vec![("a", rows, None)]));
    step.run(&database).unwrap();
    step.apply(&mut tables);
    database.flush_table("a").unwrap();
    assert!(disk.open_files_max() < 100, "{} files were open", disk.open_files_max());
    check(&disk, &database, &tables, "flushed");
}
