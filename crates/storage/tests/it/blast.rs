//! Isolation of tables: faults in the files of one table affect no other table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::ColumnType;
use tidegate_platform::{Disk, OpenMode, SimCall, SimDisk, SimErrno};
use tidegate_storage::{
    Database, Error, LogOptions, MaintenanceOptions, OpenOptions, verify_offline,
};

use crate::fixture::{DAY, DIR, Row, append, chain, files, new_database, open, options};
use crate::model::{Step, Tables, check, read, read_table};

/// All calls that change or open something.
const CHANGES: [SimCall; 6] = [
    SimCall::Open,
    SimCall::Create,
    SimCall::MakeDir,
    SimCall::Rename,
    SimCall::Write,
    SimCall::Resize,
];

fn directory(table: u64) -> PathBuf {
    Path::new(DIR).join("data").join(table.to_string())
}

/// Little memory, and a log that soon exceeds its bound.
fn tight() -> OpenOptions {
    let maintenance = MaintenanceOptions {
        memtable_bytes_max: 64 << 10,
        log_bytes: 1 << 30,
        ..options().maintenance
    };
    let log = LogOptions { checkpoint_bytes: 64 << 10, bytes_max: 1 << 20, ..options().log };
    OpenOptions { maintenance, log, ..options() }
}

fn open_tight(disk: &SimDisk) -> Arc<Database> {
    Database::open(Arc::new(disk.clone()), Path::new(DIR), &tight()).unwrap()
}

fn rows(first: i64, count: i64) -> Vec<Row> {
    (first..first + count).map(|n| (n, if n % 2 == 0 { "x" } else { "y" }, n)).collect()
}

fn step(table: &'static str, first: i64, count: i64) -> Step {
    Step::Append(vec![(table, rows(first, count), None)])
}

fn done(database: &Arc<Database>, tables: &mut Tables, step: &Step) {
    step.run(database).unwrap_or_else(|error| panic!("{step:?}: {}", chain(&error)));
    step.apply(tables);
}

// Rows of one table could not be flushed, because its symbol file was damaged. So no thread could
// free memory, and every write to every other table failed with the name of that file; and when the
// log had reached its bound, it could not be purged, and all writes failed for good.
#[test]
fn a_table_that_cannot_be_flushed_fails_no_write_to_another_one() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    for table in ["a", "b"] {
        done(&database, &mut tables, &step(table, 0, 10));
    }
    drop(database);
    let database = open(&disk);
    done(&database, &mut tables, &step("a", 10, 500));
    drop(database.snapshot("a"));
    let disk = disk.after_power_loss();
    let symbols = files(&disk, "data/1/symbols/1.sym").remove(0);
    disk.corrupt(&symbols, 50, 1);
    let database = open_tight(&disk);
    let log_before = files(&disk, ".wal");
    for n in 0..240 {
        done(&database, &mut tables, &step("b", 10 + n * 400, 400));
        assert!(database.log_bytes() < 1 << 20, "{} bytes of log", database.log_bytes());
    }
    assert!(files(&disk, ".wal").iter().all(|log| !log_before.contains(log)), "it was purged");
    done(&database, &mut tables, &Step::Create("c"));
    let error = append(&database, "a", &[(9, "x", 9)]).unwrap_err();
    assert!(chain(&error).contains(symbols.to_str().unwrap()), "{}", chain(&error));
    assert!(read_table(&database.snapshot("b").unwrap()) == tables["b"]);
    drop(database);
    // After a crash and after a stop it is the same table, and it is intact when its file is.
    for disk in [disk.after_power_loss(), disk] {
        let database = open_tight(&disk);
        done(&database, &mut tables.clone(), &step("b", 100_000, 10));
        assert!(append(&database, "a", &[(9, "x", 9)]).is_err());
        drop(database);
        disk.corrupt(&symbols, 50, 1);
        let database = open_tight(&disk);
        assert_eq!(read_table(&database.snapshot("a").unwrap()), tables["a"]);
        append(&database, "a", &[(9, "x", 9)]).unwrap();
        database.close().unwrap();
        assert!(files(&disk, ".kept").is_empty(), "nothing is kept any more");
        assert_eq!(database.snapshot("a").unwrap().rows().0, 511);
    }
}

#[test]
fn a_directory_that_fails_costs_its_own_table_only() {
    for errno in SimErrno::ALL {
        let (disk, database) = new_database();
        let mut tables = Tables::new();
        for table in ["a", "b"] {
            done(&database, &mut tables, &step(table, 0, 10));
        }
        drop(database);
        let database = open_tight(&disk);
        done(&database, &mut tables, &step("a", 10, 300));
        // Its segments are open then.
        assert_eq!(read(&database), tables);
        disk.fail_calls_in(&directory(1), &CHANGES, errno);
        for n in 0..240 {
            done(&database, &mut tables, &step("b", 10 + n * 400, 400));
        }
        assert!(database.log_bytes() < 1 << 20, "{errno:?}: {}", database.log_bytes());
        let error = append(&database, "a", &[(9, "x", 9)]).unwrap_err();
        assert!(chain(&error).contains("data/1"), "{errno:?}: {}", chain(&error));
        // The rows are available, in memory or in a file without a name.
        assert_eq!(read(&database), tables, "{errno:?}");
        let crashed = disk.after_power_loss();
        assert_eq!(read(&open_tight(&crashed)), tables, "{errno:?}: after a crash");
        disk.clear_faults();
        done(&database, &mut tables, &step("a", 400, 10));
        database.close().unwrap();
        check(&disk, &database, &tables, &format!("{errno:?}"));
        drop(database);
        assert_eq!(read(&open(&disk)), tables, "{errno:?}: opened again");
    }
}

#[test]
fn a_manifest_that_cannot_be_written_keeps_no_log() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    for table in ["a", "b"] {
        done(&database, &mut tables, &step(table, 0, 10));
    }
    database.checkpoint().unwrap();
    done(&database, &mut tables, &step("a", 10, 10));
    done(&database, &mut tables, &Step::AddColumn("a", "more", ColumnType::Int64));
    disk.fail_calls_in(&directory(1).join("manifest.tmp"), &CHANGES, SimErrno::Io);
    let error = database.checkpoint().unwrap_err();
    assert!(chain(&error).contains("data/1/manifest"), "{}", chain(&error));
    assert_eq!(files(&disk, ".kept").len(), 1);
    assert_eq!(read(&open(&disk.after_power_loss())), tables, "after a crash");
    done(&database, &mut tables, &step("b", 10, 10));
    assert!(append(&database, "a", &[(1, "x", 1)]).is_err());
    done(&database, &mut tables, &Step::RenameColumn("a", "more", "less"));
    assert!(database.checkpoint().is_err());
    assert_eq!(read(&open(&disk.after_power_loss())), tables, "after a crash");
    disk.clear_faults();
    done(&database, &mut tables, &step("a", 30, 10));
    database.checkpoint().unwrap();
    drop(database);
    assert!(files(&disk, ".kept").is_empty());
    assert_eq!(read(&open(&disk)), tables);
}

/// Six tables, closed properly, with rows of the first two that are only in the log.
fn six() -> (SimDisk, Tables) {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    for (n, table) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        done(&database, &mut tables, &step(table, 0, 5 + i64::try_from(n).unwrap()));
    }
    drop(database);
    let database = open(&disk);
    for table in ["a", "b"] {
        done(&database, &mut tables, &step(table, 50, 7));
    }
    (disk.after_power_loss(), tables)
}

// One flipped bit in the manifest of one table, or a missing manifest, made opening refuse the
// whole database, and `--repair` could not help.
#[test]
fn a_bad_manifest_suspends_its_table_and_no_other() {
    let damages: [fn(&SimDisk, &Path); 4] = [
        |disk, path| disk.corrupt(path, 40, 1),
        |disk, path| disk.remove(path).unwrap(),
        |disk, path| {
            let other = disk.read(&directory(2).join("manifest")).unwrap();
            disk.open(path, OpenMode::CreateOrTruncate).unwrap().write_all_at(&other, 0).unwrap();
        },
        |disk, path| disk.truncate(path, 0),
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        let (disk, mut tables) = six();
        let path = directory(1).join("manifest");
        let good = disk.read(&path).unwrap();
        damage(&disk, &path);
        let looked: Arc<dyn Disk> = Arc::new(disk.clone());
        let found = verify_offline(&looked, Path::new(DIR), &|_| {}).unwrap().problems;
        assert!(found.iter().any(|it| chain(it).contains("data/1/manifest")), "{found:?}");
        let of_a = tables.remove("a").unwrap();
        for round in 0..3 {
            let context = format!("damage {n}, round {round}");
            let database = open(&disk);
            let names: Vec<_> = database.tables().into_iter().map(|it| it.name).collect();
            assert_eq!(names, ["a", "b", "c", "d", "e", "f"], "{context}");
            let suspended = database.suspended();
            assert_eq!((suspended.len(), suspended[0].0.as_str()), (1, "a"), "{context}");
            assert!(database.describe("a").unwrap().damage.is_some(), "{context}");
            refused(&database, &path, &context);
            for table in ["b", "f"] {
                done(&database, &mut tables, &step(table, 100 + 10 * round, 5));
            }
            for (name, expected) in &tables {
                let found = read_table(&database.snapshot(name).unwrap());
                assert_eq!(&found, expected, "{context}: {name}");
            }
            let problems = database.verify(&|_| {}).unwrap().problems;
            assert_eq!(problems.len(), 1, "{context}: {problems:?}");
            database.checkpoint().unwrap();
            assert!(files(&disk, ".wal").len() <= 2, "{context}: the log is purged");
        }
        // The manifest is restored from a copy: nothing was lost.
        let file = disk.open(&path, OpenMode::CreateOrTruncate).unwrap();
        file.write_all_at(&good, 0).unwrap();
        tables.insert("a".to_owned(), of_a);
        let database = open(&disk);
        assert_eq!(read(&database), tables, "damage {n}");
        done(&database, &mut tables, &step("a", 200, 5));
        drop(database);
        let database = open(&disk);
        check(&disk, &database, &tables, &format!("damage {n}"));
        assert!(files(&disk, ".kept").is_empty());
    }
}

#[track_caller]
fn refused(database: &Arc<Database>, path: &Path, context: &str) {
    let errors = [
        append(database, "a", &[(1, "x", 1)]).unwrap_err(),
        database.snapshot("a").map(drop).unwrap_err(),
        database.truncate_table("a").unwrap_err(),
        database.rename_table("a", "z").unwrap_err(),
        database.drop_columns("a", &["value"]).unwrap_err(),
        database.drop_partitions("a", &std::collections::BTreeSet::new()).map(drop).unwrap_err(),
        crate::fixture::import(database, "a", &[(1, "x", 1)]).map(drop).unwrap_err(),
        database.create_table("a", crate::fixture::schema()).map(drop).unwrap_err(),
    ];
    assert!(database.schema_of("a").is_none(), "{context}");
    for error in errors {
        assert!(matches!(error, Error::Suspended { .. }), "{context}: {error:?}");
        let chain = chain(&error);
        assert!(chain.contains(path.to_str().unwrap()), "{context}: {chain}");
    }
}

#[test]
fn a_suspended_table_can_be_dropped() {
    let (disk, mut tables) = six();
    disk.corrupt(&directory(1).join("manifest"), 40, 1);
    let database = open(&disk);
    database.drop_tables(&["a"]).unwrap();
    tables.remove("a");
    assert_eq!(read(&database), tables);
    assert_eq!(read(&open(&disk.after_power_loss())), tables, "after a crash");
    drop(database);
    let database = open(&disk);
    check(&disk, &database, &tables, "opened again");
}

// Garbage that could not be removed made the whole database read-only, and the message said that
// the log could not be written.
#[test]
fn garbage_that_cannot_be_removed_stops_no_table() {
    let (disk, mut tables) = six();
    let garbage = [
        directory(1).join("1970-01-01").join("77.seg"),
        directory(9).join("1970-01-01").join("0.seg"),
        Path::new(DIR).join("wal").join("left.tmp"),
    ];
    for path in &garbage {
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.open(path, OpenMode::CreateOrTruncate).unwrap();
    }
    disk.fail_calls_in(&garbage[0], &[SimCall::Remove], SimErrno::NoAccess);
    disk.fail_calls_in(&directory(9), &[SimCall::Remove], SimErrno::Io);
    disk.fail_calls_in(&garbage[2], &[SimCall::Remove], SimErrno::Io);
    disk.fail_calls_in(&directory(3), &[SimCall::List], SimErrno::NoAccess);
    disk.fail_calls_in(&directory(4).join("symbols"), &[SimCall::List], SimErrno::Io);
    let database = open(&disk);
    let warnings: Vec<String> = database.take_warnings().iter().map(chain).collect();
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    for path in ["77.seg", "data/9", "left.tmp", "data/3", "data/4/symbols"] {
        assert!(warnings.iter().any(|it| it.contains(path)), "{path}: {warnings:?}");
    }
    assert!(database.take_warnings().is_empty());
    for table in ["a", "b", "c", "d", "new"] {
        done(&database, &mut tables, &step(table, 500, 5));
        done(&database, &mut tables, &Step::Import(table, vec![(DAY, "x", 1)]));
    }
    assert_eq!(read(&database), tables);
    disk.clear_faults();
    drop(database);
    let database = open(&disk);
    check(&disk, &database, &tables, "opened again");
}
