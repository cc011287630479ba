//! Failing calls of the disk: the statement fails, and nothing else.

use std::path::Path;
use std::sync::Arc;

use tidegate_model::{ByteCount, ColumnType};
use tidegate_platform::{Class, SimCall, SimDisk, SimErrno};
use tidegate_storage::{Database, Error, LogOptions, OpenOptions};

use crate::crash::workload;
use crate::fixture::{
    DAY, DIR, append, chain, import, new_database, open, options, schema, try_open,
};
use crate::model::{Step, Tables, check, check_reopened, read};

/// Runs all steps that are possible after failed ones; returns the tables, and the number of
/// failures.
fn run_through(disk: &SimDisk, steps: &[Step], context: &str) -> (Arc<Database>, Tables, usize) {
    let mut failed = 0;
    let open_again = |failed: &mut usize| {
        try_open(disk).unwrap_or_else(|error| {
            assert_ne!(error.class(), Class::Corruption, "{context}: {error:?}");
            *failed += 1;
            open(disk)
        })
    };
    let mut database = open_again(&mut failed);
    let mut tables = Tables::new();
    for step in steps {
        if matches!(step, Step::Reopen) {
            drop(database);
            database = open_again(&mut failed);
        } else {
            match step.run(&database) {
                Ok(()) => step.apply(&mut tables),
                // The table of this step may be the one whose creation failed.
                Err(error) if failed > 0 && error.class() == Class::Caller => {}
                Err(error) => {
                    assert_eq!(error.class(), Class::Environment, "{context}: {error:?}");
                    failed += 1;
                }
            }
        }
        assert_eq!(read(&database), tables, "{context}: after {step:?}");
    }
    (database, tables, failed)
}

/// A workload of one process: only the process in which a sync of a directory has failed knows of
/// it.
fn steps() -> Vec<Step> {
    vec![
        Step::Create("cpu"),
        Step::ImportNew("hits", vec![(7, "x", 10), (7, "y", 11), (DAY, "z", 12)]),
        Step::Checkpoint,
        Step::ImportNew("more", vec![(7, "x", 10)]),
        Step::Create("last"),
        Step::Import("cpu", vec![(3, "x", 10)]),
        Step::ImportNew("others", vec![(3, "x", 10)]),
        Step::Checkpoint,
    ]
}

fn check_after_fault(disk: &SimDisk, steps: &[Step], context: &str) -> usize {
    let (database, tables, failed) = run_through(disk, steps, context);
    drop(database);
    check_reopened(&disk.after_power_loss(), &tables, context);
    check_reopened(disk, &tables, context);
    failed
}

#[test]
fn a_failed_sync_fails_one_statement() {
    let total = {
        let disk = SimDisk::new(0);
        run_through(&disk, &steps(), "no fault");
        disk.syncs()
    };
    let mut failures = 0;
    for nth in 1..=total {
        for seed in 0..3 {
            let disk = SimDisk::new(seed * 1_000 + nth);
            disk.fail_sync_at(nth);
            failures +=
                check_after_fault(&disk, &steps(), &format!("sync {nth} fails, seed {seed}"));
        }
    }
    assert!(failures > 30, "{failures} statements failed");
}

#[test]
fn a_failed_write_fails_one_statement() {
    let mut last_failure = 0;
    for nth in 1..160 {
        let disk = SimDisk::new(nth);
        disk.fail_write_at(nth);
        if check_after_fault(&disk, &steps(), &format!("write {nth} fails")) > 0 {
            last_failure = nth;
        }
    }
    assert!((25..150).contains(&last_failure), "every write was tried: {last_failure}");
}

#[test]
fn the_long_workload_survives_failed_syncs_and_writes() {
    for nth in 1..190 {
        for is_sync in [true, false] {
            let disk = SimDisk::new(nth);
            if is_sync {
                disk.fail_sync_at(nth)
            } else {
                disk.fail_write_at(nth)
            }
            let mut steps = workload();
            if is_sync {
                steps.retain(|step| !matches!(step, Step::Reopen));
            }
            let outcome = crate::crash::run_until_crash(&disk, &steps);
            let context = format!("call {nth}, sync: {is_sync}");
            check_reopened(&disk.after_power_loss(), &outcome.acknowledged, &context);
            check_reopened(&disk, &outcome.acknowledged, &context);
        }
    }
}

#[test]
fn a_failed_sync_while_recovering_costs_a_statement_at_most() {
    let steps = &workload()[..11];
    for crash_at in (5..90).step_by(7) {
        for nth in 1..12 {
            let disk = SimDisk::new(crash_at * 100 + nth);
            disk.crash_at_sync(crash_at);
            let outcome = crate::crash::run_until_crash(&disk, steps);
            let disk = disk.after_power_loss();
            disk.fail_sync_at(nth);
            let context = format!("crash at sync {crash_at}, then sync {nth} fails");
            let Ok(database) = try_open(&disk) else {
                // The database was not even created.
                assert!(outcome.acknowledged.is_empty(), "{context}");
                continue;
            };
            let mut tables = read(&database);
            let is_expected = [Some(&outcome.acknowledged), outcome.in_flight.as_ref()];
            assert!(is_expected.contains(&Some(&tables)), "{context}");
            let step = Step::ImportNew("afterwards", vec![(1, "a", 1)]);
            match step.run(&database) {
                Ok(()) => step.apply(&mut tables),
                Err(error) => assert_eq!(error.class(), Class::Environment, "{context}"),
            }
            assert_eq!(read(&database), tables, "{context}");
            drop(database);
            check_reopened(&disk.after_power_loss(), &tables, &context);
            check_reopened(&disk, &tables, &context);
        }
    }
}

#[test]
fn a_full_disk_fails_statements_until_there_is_room() {
    let needed: u64 = {
        let disk = SimDisk::new(0);
        drop(run_through(&disk, &steps(), "no limit"));
        disk.files().iter().map(|(_, bytes)| bytes).sum()
    };
    let mut failures = 0;
    for capacity in (0..=needed + 20_000).step_by(1_500) {
        let context = format!("{capacity} bytes of {needed}");
        let disk = SimDisk::new(capacity);
        disk.set_capacity(capacity);
        if try_open(&disk).is_err() {
            disk.set_capacity(u64::MAX);
            check_reopened(&disk, &Tables::new(), &context);
            continue;
        }
        let (database, mut tables, failed) = run_through(&disk, &steps(), &context);
        failures += failed;
        disk.set_capacity(u64::MAX);
        let step = Step::ImportNew("afterwards", vec![(5, "a", 1)]);
        step.run(&database).unwrap_or_else(|error| panic!("{context}: {error:?}"));
        step.apply(&mut tables);
        assert_eq!(read(&database), tables, "{context}");
        drop(database);
        check_reopened(&disk.after_power_loss(), &tables, &context);
        check_reopened(&disk, &tables, &context);
    }
    assert!(failures > 20, "{failures} statements failed");
}

#[test]
fn a_full_disk_can_be_opened_read_and_freed() {
    let (disk, database) = new_database();
    import_new(&database, "t");
    import_new(&database, "u");
    disk.crash_at_sync(1);
    drop(database);
    let disk = disk.after_power_loss();
    let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
    disk.set_capacity(used);
    let database = open(&disk);
    assert_eq!(read(&database).len(), 2);
    let error = database.create_table("v", schema()).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
    assert!(chain(&error).contains("read-only"), "{}", chain(&error));
    disk.set_capacity(u64::MAX);
    database.drop_tables(&["t"]).unwrap();
    let mut expected = Tables::new();
    Step::ImportNew("u", vec![(5, "a", 1), (DAY, "b", 2)]).apply(&mut expected);
    check(&disk, &database, &expected, "after there was room again");
}

fn import_new(database: &Arc<Database>, name: &'static str) {
    Step::ImportNew(name, vec![(5, "a", 1), (DAY, "b", 2)]).run(database).unwrap();
}

/// A database whose log cannot be written to: the sync of a record has failed, and so has the file
/// that was to replace it.
fn broken_log(seed: u64) -> (SimDisk, Arc<Database>, Tables) {
    let disk = SimDisk::new(seed);
    let database = open(&disk);
    let mut tables = Tables::new();
    let step = Step::ImportNew("t", vec![(5, "a", 1)]);
    step.run(&database).unwrap();
    step.apply(&mut tables);
    let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
    disk.set_capacity(used);
    disk.fail_sync_at(1);
    let error = database.create_table("doubtful", schema()).unwrap_err();
    assert!(matches!(error, Error::InDoubt { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Environment);
    assert_eq!(read(&database), tables, "what is in doubt is not visible");
    (disk, database, tables)
}

#[test]
fn without_a_log_the_database_is_read_only_until_there_is_room() {
    let (disk, database, mut tables) = broken_log(1);
    let error = database.truncate_table("t").unwrap_err();
    assert!(chain(&error).contains("read-only until its log can be written"), "{}", chain(&error));
    assert_eq!(read(&database), tables);
    disk.set_capacity(u64::MAX);
    // The new file begins before the record in doubt, which is lost permanently.
    import(&database, "t", &[(6, "b", 2)]).unwrap();
    Step::Import("t", vec![(6, "b", 2)]).apply(&mut tables);
    database.create_table("doubtful", schema()).unwrap();
    Step::Create("doubtful").apply(&mut tables);
    assert_eq!(read(&database), tables);
    drop(database);
    check_reopened(&disk.after_power_loss(), &tables, "after power loss");
    check_reopened(&disk, &tables, "without power loss");
}

#[test]
fn a_commit_in_doubt_is_decided_by_the_next_open() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let (disk, database, tables) = broken_log(seed);
        disk.crash_at_sync(0);
        drop(database);
        let disk = disk.after_power_loss();
        let database = open(&disk);
        let mut with = tables.clone();
        Step::Create("doubtful").apply(&mut with);
        let found = read(&database);
        outcomes.insert(found == with);
        let expected = if found == with { with } else { tables };
        check(&disk, &database, &expected, &format!("seed {seed}"));
    }
    assert_eq!(outcomes.len(), 2, "both were seen");
}

#[test]
fn files_are_removed_only_when_no_power_failure_can_bring_them_back() {
    // A statement is in doubt, and the process is killed; the next one reads its record from the
    // page cache, and then power fails.
    let mut outcomes = std::collections::BTreeSet::new();
    for step in [Step::Truncate("t"), Step::Drop(vec!["t"]), Step::DropColumn("t", "host")] {
        for seed in 0..60 {
            let (crash_at, disk) = (1 + seed % 7, SimDisk::new(seed));
            let database = open(&disk);
            let mut before = Tables::new();
            let first = Step::ImportNew("t", vec![(5, "a", 1), (DAY, "b", 2)]);
            first.run(&database).unwrap();
            first.apply(&mut before);
            let mut after = before.clone();
            step.apply(&mut after);
            disk.set_capacity(disk.files().iter().map(|(_, bytes)| bytes).sum());
            disk.fail_sync_at(1);
            let error = step.run(&database).unwrap_err();
            assert!(matches!(error, Error::InDoubt { .. }), "{error:?}");
            drop(database);
            disk.set_capacity(u64::MAX);
            disk.crash_at_sync(crash_at);
            drop(try_open(&disk));
            let disk = disk.after_power_loss();
            let database = open(&disk);
            let found = read(&database);
            outcomes.insert((crash_at, found == after));
            let expected = if found == after { after } else { before };
            check(&disk, &database, &expected, &format!("recovery-3: {step:?}, sync {crash_at}"));
        }
    }
    assert!(outcomes.contains(&(1, true)) && outcomes.contains(&(1, false)), "{outcomes:?}");
}

#[test]
fn files_of_an_import_in_doubt_stay_until_the_next_open_decides() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let database = open(&disk);
        let (mut tables, first) = (Tables::new(), Step::Create("first"));
        first.run(&database).unwrap();
        first.apply(&mut tables);
        let txn = database
            .begin_import(tidegate_storage::ImportTarget::New { name: "t", schema: schema() })
            .unwrap();
        let rows = vec![(5, "a", 1), (DAY, "b", 2)];
        let segments = crate::fixture::write(&txn, &rows).unwrap();
        // Two segments, symbols with their directory, two directories, table, tables; then the
        // record.
        disk.fail_sync_at(9);
        let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
        // Space for the symbols, but not for a log file.
        disk.set_capacity(used + 200);
        let error = txn.commit(segments).unwrap_err();
        assert!(matches!(error, Error::InDoubt { .. }), "{error:?}");
        disk.crash_at_sync(0);
        drop(database);
        let disk = disk.after_power_loss();
        let database = open(&disk);
        let mut with = tables.clone();
        Step::ImportNew("t", rows).apply(&mut with);
        let expected = if read(&database).len() == 1 { tables } else { with };
        check(&disk, &database, &expected, &format!("seed {seed}"));
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_costs_nothing() {
    // Manifest, its directory, the directory of tables, catalog, the directory of tables again.
    for (nth, is_directory) in [(1, false), (2, true), (3, true), (4, false), (5, true)] {
        let (disk, database) = new_database();
        let mut tables = Tables::new();
        let step = Step::Create("t");
        step.run(&database).unwrap();
        step.apply(&mut tables);
        disk.fail_sync_at(nth);
        assert!(database.checkpoint().is_err(), "sync {nth}");
        assert_eq!(read(&database), tables);
        check_reopened(&disk.after_power_loss(), &tables, &format!("sync {nth}"));
        assert_eq!(database.checkpoint().is_err(), is_directory, "fsync_guard-1: sync {nth}");
        // Commits need no checkpoint.
        let step = Step::AddColumn("t", "x", ColumnType::Int64);
        step.run(&database).unwrap();
        step.apply(&mut tables);
        drop(database);
        check_reopened(&disk.after_power_loss(), &tables, &format!("sync {nth}"));
    }
}

#[test]
fn a_directory_whose_sync_has_failed_takes_no_more_segments() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    for step in [Step::ImportNew("t", vec![(5, "a", 1)]), Step::Import("t", vec![(DAY, "a", 2)])] {
        step.run(&database).unwrap();
        step.apply(&mut tables);
    }
    // The segment, then its directory.
    disk.fail_sync_at(2);
    assert!(import(&database, "t", &[(6, "a", 3)]).is_err());
    assert!(import(&database, "t", &[(6, "a", 3)]).is_err(), "fsync_guard-1");
    let step = Step::Import("t", vec![(DAY + 1, "a", 4)]);
    step.run(&database).expect("another partition is another directory");
    step.apply(&mut tables);
    assert_eq!(read(&database), tables);
    drop(database);
    check_reopened(&disk.after_power_loss(), &tables, "after power loss");
}

/// A process that commits starts a file of the log with free space in it. On a disk that is nearly
/// full it did not fit, and so nothing could be dropped.
#[test]
fn a_table_can_be_dropped_where_only_its_record_fits() {
    let (disk, database) = new_database();
    import_new(&database, "t");
    drop(database);
    let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
    disk.set_capacity(used + 24_000);
    let database = open(&disk);
    database.drop_tables(&["t"]).unwrap();
    check(&disk, &database, &Tables::new(), "after the drop");
}

/// A database on a small disk, with rows of two tables in the log until there is no space.
fn filled(ballast: u64) -> (SimDisk, Arc<Database>, Tables) {
    let disk = SimDisk::new(7);
    // Until the disk is full, only the log is written, to one file.
    let log = LogOptions { checkpoint_bytes: 1 << 30, bytes_max: 1 << 31, ..options().log };
    let options = OpenOptions { log, ballast_bytes: ByteCount(ballast), ..options() };
    let database = Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
    let mut tables = Tables::new();
    for table in ["a", "b"] {
        Step::Create(table).run(&database).unwrap();
        Step::Create(table).apply(&mut tables);
    }
    disk.set_capacity(2 << 20);
    for n in 0.. {
        let rows = (0..200).map(|row| (n * 200 + row, "x", n)).collect();
        let step = Step::Append(vec![(["a", "b"][usize::try_from(n % 2).unwrap()], rows, None)]);
        if let Err(error) = step.run(&database) {
            assert!(error.is_no_space(), "{}", chain(&error));
            break;
        }
        step.apply(&mut tables);
    }
    (disk, database, tables)
}

// After the log had filled the disk, nothing could be dropped, rows could not be flushed, and so
// the log could not be purged: space had to be freed outside of the database.
#[test]
fn a_disk_that_the_log_has_filled_is_freed_by_maintenance() {
    let (disk, database, tables) = filled(512 << 10);
    assert!(database.is_short_of_space());
    let error = append(&database, "a", &[(1, "x", 1)]).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    assert!(chain(&error).contains("drop tables or partitions"), "{}", chain(&error));
    assert_eq!(read(&database), tables);
    database.maintain().unwrap();
    assert!(!database.is_short_of_space());
    append(&database, "a", &[(1, "x", 1)]).unwrap();
    drop(database);
    assert_eq!(read(&open(&disk))["a"].rows.len(), tables["a"].rows.len() + 1);
}

/// The ballast was smaller than a flush: it was created again after each failed one, and the server
/// called itself ready with a disk on which nothing could be flushed or dropped.
#[test]
fn a_disk_stays_full_until_rows_can_be_flushed() {
    let (disk, database, tables) = filled(1 << 10);
    let data = Path::new(DIR).join("data");
    disk.fail_calls_in(&data, &[SimCall::Write], SimErrno::NoSpace);
    assert!(database.is_short_of_space());
    assert!(database.maintain().is_err());
    assert!(database.is_short_of_space(), "ballast-2");
    assert_eq!(read(&database), tables);
    disk.clear_faults();
    Step::Drop(vec!["b"]).run(&database).unwrap();
}

#[test]
fn a_disk_that_the_log_has_filled_takes_statements_that_drop() {
    for is_opened_again in [false, true] {
        let (mut disk, mut database, mut tables) = filled(64 << 10);
        // Other programs use the space that is freed.
        let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
        disk.set_capacity(used + (64 << 10));
        if is_opened_again {
            let options = OpenOptions { ballast_bytes: ByteCount(64 << 10), ..options() };
            disk = disk.after_power_loss();
            database = Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
        }
        for step in [Step::Drop(vec!["b"]), Step::Truncate("a")] {
            step.run(&database).unwrap_or_else(|error| panic!("{step:?}: {}", chain(&error)));
            step.apply(&mut tables);
        }
        database.maintain().unwrap();
        assert!(!database.is_short_of_space());
        let step = Step::Append(vec![("a", vec![(1, "x", 1)], None)]);
        step.run(&database).unwrap();
        step.apply(&mut tables);
        drop(database);
        assert_eq!(read(&open(&disk)), tables);
    }
}
