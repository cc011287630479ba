//! Group commit, and the bounds of the log.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use tidegate_platform::SimDisk;
use tidegate_storage::{Database, LogOptions, OpenOptions};

use crate::fixture::{DIR, chain, files, import, new_database, open, options, schema};
use crate::model::{Step, Tables, check_reopened, read};

fn open_with(disk: &SimDisk, log: LogOptions) -> Arc<Database> {
    let options = OpenOptions { log, ..options() };
    Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap()
}

#[test]
fn commits_of_threads_are_numbered_without_gaps() {
    let (disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let database = &database;
                scope.spawn(move || {
                    let rows = |n: i64| [(thread * 1_000 + n, "a", n)];
                    (0..10).map(|n| import(database, "t", &rows(n)).unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (2..82).collect::<Vec<u64>>(), "wal-1");
    for numbers in numbers.chunks(10) {
        assert!(numbers.is_sorted(), "a thread's commits follow each other");
    }
    drop(database);
    let database = open(&disk.after_power_loss());
    assert_eq!(database.snapshot("t").unwrap().rows().0, 80);
}

#[test]
fn one_of_several_creates_of_a_table_in_a_group_succeeds() {
    for _ in 0..20 {
        let (_, database) = new_database();
        let created = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|_| scope.spawn(|| database.create_table("t", schema()).is_ok()))
                .collect();
            threads.into_iter().filter(|_| true).map(|t| t.join().unwrap()).filter(|ok| *ok).count()
        });
        assert_eq!(created, 1, "commit_plan-1");
        assert_eq!(database.tables().len(), 1);
    }
}

#[test]
fn the_log_is_bounded_by_checkpoints_that_commits_make() {
    let disk = SimDisk::new(1);
    let log = LogOptions {
        step_bytes: 8 << 10,
        file_bytes: 24 << 10,
        checkpoint_bytes: 48 << 10,
        bytes_max: 1 << 20,
        ..LogOptions::STANDARD
    };
    let database = open_with(&disk, log);
    database.create_table("t", schema()).unwrap();
    for n in 0..200 {
        database.rename_column("t", "value", "other").unwrap();
        database.rename_column("t", "other", "value").unwrap();
        let bytes: u64 = disk
            .files()
            .iter()
            .filter(|(path, _)| path.extension().is_some_and(|end| end == "wal"))
            .map(|(_, bytes)| bytes)
            .sum();
        assert!(bytes < 150 << 10, "{bytes} bytes of log after {n} commits");
    }
    let mut tables = Tables::new();
    Step::Create("t").apply(&mut tables);
    check_reopened(&disk.after_power_loss(), &tables, "log bounded");
}

#[test]
fn at_the_bound_commits_fail_with_the_error_of_the_checkpoint() {
    let disk = SimDisk::new(1);
    let log = LogOptions {
        step_bytes: 128 << 10,
        file_bytes: 1 << 20,
        checkpoint_bytes: 12 << 10,
        bytes_max: 40 << 10,
        ..LogOptions::STANDARD
    };
    let database = open_with(&disk, log);
    database.create_table("t", schema()).unwrap();
    let tables = read(&database);
    // The log has space, which was filled ahead, but there is none for a checkpoint.
    disk.set_capacity(disk.files().iter().map(|(_, bytes)| bytes).sum());
    let mut commits = 0;
    let error = loop {
        match database.rename_table("t", "t") {
            Ok(()) => commits += 1,
            Err(error) => break error,
        }
        assert!(commits < 20, "commits go on without checkpoints");
    };
    assert_eq!(commits, 10);
    assert!(chain(&error).starts_with("keep records of a table: write "), "{}", chain(&error));
    assert!(chain(&error).contains("No space left"), "{}", chain(&error));
    assert_eq!(read(&database), tables);
    disk.set_capacity(u64::MAX);
    database.rename_table("t", "u").unwrap();
    drop(database);
    assert_eq!(open(&disk).tables().len(), 1);
}

#[test]
fn files_of_the_log_are_purged_when_checkpoints_have_their_records() {
    let (disk, database) = new_database();
    for n in 0..60 {
        database.create_table(&format!("t{n}"), schema()).unwrap();
    }
    assert!(files(&disk, ".wal").len() > 4);
    database.checkpoint().unwrap();
    assert_eq!(files(&disk, ".wal").len(), 1);
    assert_eq!(open_after_loss(&disk).tables().len(), 60);
    // A second checkpoint has nothing to do.
    let syncs = disk.syncs();
    database.checkpoint().unwrap();
    assert_eq!(disk.syncs(), syncs);
}

fn open_after_loss(disk: &SimDisk) -> Arc<Database> {
    open(&disk.after_power_loss())
}

#[test]
fn checkpoints_run_beside_commits() {
    let (disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread: i64| {
                let database = &database;
                scope.spawn(move || {
                    for n in 0..20 {
                        import(database, "t", &[(thread * 100 + n, "a", n)]).unwrap();
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            database.checkpoint().unwrap();
            // At any moment, all acknowledged rows are visible.
            let rows = database.snapshot("t").unwrap().rows();
            let survived = open_after_loss(&disk).snapshot("t").unwrap().rows();
            assert!(rows <= survived, "{rows} {survived}");
        }
    });
    assert_eq!(database.snapshot("t").unwrap().rows().0, 60);
}

#[test]
fn many_segments_are_synced_several_at_a_time() {
    let disk = SimDisk::new(1);
    let sync_threads = NonZeroUsize::new(4).unwrap();
    let options = OpenOptions { sync_threads, ..options() };
    let database = Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
    database.create_table("t", schema()).unwrap();
    let rows: Vec<_> = (0..40).map(|n| (n * crate::fixture::DAY, "a", n)).collect();
    let syncs = disk.syncs();
    import(&database, "t", &rows).unwrap();
    // Segments, their directories, symbols and their directory, table, tables, record.
    assert_eq!(disk.syncs() - syncs, 40 + 40 + 2 + 2 + 1);
    // One of them fails: nothing is committed, whichever thread synced it.
    disk.fail_sync_at(17);
    assert!(import(&database, "t", &rows).is_err());
    assert_eq!(database.snapshot("t").unwrap().rows().0, 40);
    drop(database);
    assert_eq!(open_after_loss(&disk).snapshot("t").unwrap().rows().0, 40);
}
