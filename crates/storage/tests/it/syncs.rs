//! Commits that are acknowledged before they are on disk, and their syncs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tidegate_platform::SimDisk;
use tidegate_storage::{Database, Durability, Error, LogOptions, OpenOptions};

use crate::fixture::{DAY, DIR, append, chain, files, options, try_open};
use crate::model::{Step, Tables, check, check_reopened, read};

fn open_with(disk: &SimDisk, change: impl FnOnce(&mut LogOptions)) -> Arc<Database> {
    let mut options: OpenOptions = options();
    options.log.durability = Durability::Async;
    change(&mut options.log);
    Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap()
}

fn open(disk: &SimDisk) -> Arc<Database> {
    open_with(disk, |_| {})
}

/// Runs a step that succeeds, and applies it to the model.
fn run(database: &Arc<Database>, tables: &mut Tables, step: Step) {
    step.run(database).unwrap();
    step.apply(tables);
    assert_eq!(&read(database), tables, "what was acknowledged is visible");
}

fn rows(n: i64) -> Step {
    Step::Append(vec![("t", vec![(n, "a", n), (n + DAY, "b", n)], None)])
}

#[test]
fn only_the_end_of_the_order_of_commits_is_lost_with_the_power() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let database = open(&disk);
        let (mut tables, mut states) = (Tables::new(), Vec::new());
        for n in 0..12 {
            run(&database, &mut tables, rows(n));
            if n == 5 {
                database.sync().unwrap();
                states.clear();
            }
            states.push(tables.clone());
        }
        disk.crash_at_sync(0);
        drop(database);
        let disk = disk.after_power_loss();
        let found = read(&try_open(&disk).unwrap());
        let at = states.iter().position(|state| *state == found);
        outcomes.insert(at.unwrap_or_else(|| panic!("wal-6: seed {seed}: {found:?}")));
        check_reopened(&disk, &found, &format!("seed {seed}"));
    }
    assert!(outcomes.contains(&0) && 2 < outcomes.len(), "{outcomes:?}");
}

#[test]
fn rows_are_logged_again_from_memory_after_a_failed_sync() {
    for seed in 0..20 {
        let (disk, mut tables) = (SimDisk::new(seed), Tables::new());
        let database = open(&disk);
        for n in 0..4 {
            run(&database, &mut tables, rows(n));
        }
        disk.fail_sync_at(1);
        assert!(database.unsynced_bytes() > 0);
        database.sync().expect("another file takes over");
        assert_eq!(database.unsynced_bytes(), 0);
        check_reopened(&disk.after_power_loss(), &tables, &format!("wal-6: seed {seed}"));
        run(&database, &mut tables, rows(9));
        drop(database);
        check_reopened(&disk.after_power_loss(), &tables, &format!("seed {seed}"));
    }
}

#[test]
fn a_failed_log_acknowledges_nothing_more_and_loses_nothing() {
    for seed in 0..20 {
        let (disk, mut tables) = (SimDisk::new(seed), Tables::new());
        let database = open(&disk);
        for n in 0..4 {
            run(&database, &mut tables, rows(n));
        }
        disk.set_capacity(disk.files().iter().map(|(_, bytes)| bytes).sum());
        disk.fail_sync_at(1);
        let error = database.sync().unwrap_err();
        assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
        assert!(database.is_log_broken());
        let error = append(&database, "t", &[(7, "a", 7)]).unwrap_err();
        assert!(chain(&error).contains("read-only until its log can be written"), "{error:?}");
        assert_eq!(read(&database), tables);
        disk.set_capacity(u64::MAX);
        database.maintain().expect("there is room for a log file");
        assert!(!database.is_log_broken());
        check_reopened(&disk.after_power_loss(), &tables, &format!("wal-6: seed {seed}"));
        run(&database, &mut tables, rows(9));
        database.sync().unwrap();
        check_reopened(&disk.after_power_loss(), &tables, &format!("seed {seed}"));
    }
}

#[test]
fn files_stay_until_the_commit_that_replaced_them_is_durable() {
    let (disk, mut tables) = (SimDisk::new(1), Tables::new());
    let database = open(&disk);
    run(&database, &mut tables, rows(1));
    run(&database, &mut tables, Step::Flush("t"));
    database.checkpoint().unwrap();
    let before = (files(&disk, ".seg"), tables.clone());
    assert_eq!(before.0.len(), 2);
    run(&database, &mut tables, Step::Truncate("t"));
    assert_eq!(files(&disk, ".seg"), before.0, "sync-2");
    for seed in 0..20 {
        let disk = disk.after_power_loss_by(seed);
        let found = read(&try_open(&disk).unwrap());
        let expected = if found == tables { &tables } else { &before.1 };
        check_reopened(&disk, expected, &format!("sync-2: seed {seed}"));
    }
    database.sync().unwrap();
    assert!(files(&disk, ".seg").is_empty(), "sync-2");
    check(&disk, &database, &tables, "after the sync");
}

#[test]
fn unsynced_bytes_and_log_files_have_a_bound() {
    const BOUND: u64 = 40 << 10;
    let (disk, mut tables) = (SimDisk::new(1), Tables::new());
    let database = open_with(&disk, |log| {
        log.unsynced_bytes_max = BOUND;
        log.file_bytes = BOUND;
    });
    let mut most = 0;
    for n in 0..60 {
        run(&database, &mut tables, rows(n));
        most = most.max(database.unsynced_bytes());
    }
    assert!((BOUND..2 * BOUND).contains(&most), "{most}");
    assert!(files(&disk, ".wal").len() > 2, "{:?}", files(&disk, ".wal"));
    database.sync().unwrap();
    check_reopened(&disk.after_power_loss(), &tables, "after the sync");
}
