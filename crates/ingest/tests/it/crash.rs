//! An import on a disk that loses power, fails or is full: the table is unchanged, or has all of
//! the import; acknowledged imports are there, and no file is left that no table names.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tidegate_ingest::Error;
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_platform::{Class, Disk, IoMode, SimDisk};
use tidegate_storage::Database;

use crate::import::hook::{Call, HookDisk};
use crate::plain::{self, PlainOptions};
use crate::world::{self, TABLE, World, assert_same_rows, put, read_table, schema_of, sort_rows};

const ROOT: &str = "/";

fn schema() -> Schema {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("host", ColumnType::Symbol),
        ("text", ColumnType::Varchar),
        ("n", ColumnType::Int64),
    ];
    schema_of(&columns, Some("ts"), PartitionUnit::Day)
}

/// The rows of three days, out of order, and one bad row.
fn text(import: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for row in 0..30 {
        let (day, second) = (1 + row * 7 % 3, row * 11 % 60);
        let line =
            format!("2021-03-0{day} 00:00:{second:02},h{import}-{},text {row},{row}\n", row % 4);
        text.extend_from_slice(line.as_bytes());
    }
    text.extend_from_slice(b"2021-03-01,x,a bad row,y\n");
    text
}

const IMPORTS: usize = 2;

/// The contents of the table after each number of imports; `None` before the first.
type States = Vec<Option<Vec<Vec<Value>>>>;

fn states() -> States {
    let (schema, mut rows) = (schema(), Vec::new());
    let mut states = vec![None];
    for import in 0..IMPORTS {
        rows.extend(plain::read(&text(import), &PlainOptions::of(&schema)).rows);
        sort_rows(&mut rows, &schema);
        states.push(Some(rows.clone()));
    }
    states
}

/// The progress of a run.
struct Outcome {
    /// The number of imports that were acknowledged.
    acknowledged: usize,
    /// The reason why the next one was not.
    error: Option<Error>,
}

/// Opens the database and imports until something fails.
fn run(disk: &Arc<dyn Disk>) -> Outcome {
    let Ok(database) = world::open(disk, Path::new(ROOT)) else {
        return Outcome { acknowledged: 0, error: None };
    };
    let world = World { disk: Arc::clone(disk), root: PathBuf::from(ROOT), database };
    for import in 0..IMPORTS {
        let mut options = world.options(&schema(), &[input(import)]);
        // With one worker the same calls come in the same order.
        options.workers = NonZeroUsize::MIN;
        // Writes are in flight, and are finished in any order: a sync must not come before them.
        options.io = IoMode::Simulated { seed: 5 };
        match world.import(&options) {
            Ok(summary) => assert_eq!((summary.rows_imported, summary.rows_rejected), (30, 1)),
            Err(error) => return Outcome { acknowledged: import, error: Some(error) },
        }
    }
    Outcome { acknowledged: IMPORTS, error: None }
}

fn input(import: usize) -> PathBuf {
    PathBuf::from(format!("/{import}.csv"))
}

fn new_disk(seed: u64) -> (SimDisk, Arc<dyn Disk>) {
    let disk = SimDisk::new(seed);
    for import in 0..IMPORTS {
        put(&disk, &input(import), &text(import));
    }
    (disk.clone(), Arc::new(disk))
}

/// The number of imports that the present table contains.
fn state_of(database: &Database, states: &States, context: &str) -> usize {
    let found = database.snapshot(TABLE).ok().map(|snapshot| read_table(&snapshot));
    let rows = |state: &Option<Vec<Vec<Value>>>| state.as_ref().map(Vec::len);
    let state = states.iter().position(|state| rows(state) == rows(&found));
    let state = state.unwrap_or_else(|| panic!("{context}: {:?} rows", rows(&found)));
    if let (Some(found), Some(wanted)) = (&found, &states[state]) {
        assert_same_rows(found, wanted, context);
    }
    state
}

/// Opens the remains of a database: it contains one of these numbers of imports and nothing else,
/// is sound, and accepts another import.
fn check(disk: &SimDisk, allowed: std::ops::RangeInclusive<usize>, states: &States, context: &str) {
    let world = World::on(Arc::new(disk.clone()), Path::new(ROOT));
    let state = state_of(&world.database, states, context);
    assert!(allowed.contains(&state), "{context}: state {state}, not {allowed:?}");
    world.check_sound(context);
    check_litter(disk, &world.database, context);
    let path = world.put("again.csv", b"2021-03-02,again,,1\n");
    let summary = world.import(&world.options(&schema(), &[path])).unwrap();
    assert_eq!((summary.rows_imported, summary.created_table), (1, state == 0), "{context}");
    let before = states[state].as_ref().map_or(0, Vec::len);
    assert_eq!(world.rows().len(), before + 1, "{context}");
}

/// Checks that a table names every file of the database.
#[track_caller]
fn check_litter(disk: &SimDisk, database: &Database, context: &str) {
    let (mut tables, mut named) = (BTreeSet::new(), BTreeSet::new());
    for table in database.tables() {
        tables.insert(table.id.to_string());
        let snapshot = database.snapshot(&table.name).unwrap();
        named.extend(snapshot.segments().map(|run| run.path().to_path_buf()));
    }
    let mut found = BTreeSet::new();
    for (path, _) in disk.files() {
        let Ok(inside) = path.strip_prefix("/db") else { continue };
        let parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
        let is_fine = match parts[..] {
            ["lock"] | ["data", "catalog" | "catalog.copy"] => true,
            ["wal", name] => name == "head" || name.ends_with(".wal"),
            // The catalog may still name the directory.
            ["kept", name] => name.ends_with(".kept"),
            ["data", table, "manifest"] => tables.contains(table),
            ["data", table, "symbols", name] => tables.contains(table) && name.ends_with(".sym"),
            ["data", _, _, name] if name.ends_with(".seg") => found.insert(path.clone()),
            _ => false,
        };
        assert!(is_fine, "{context}: {} is named by nobody", path.display());
    }
    let litter: Vec<&PathBuf> = found.symmetric_difference(&named).collect();
    assert!(litter.is_empty(), "{context}: {litter:?}");
}

/// The number of syncs of a run without faults, and of the bytes that it leaves.
fn whole_run() -> (u64, u64) {
    let (disk, shared) = new_disk(0);
    let before = disk.syncs();
    assert_eq!(run(&shared).acknowledged, IMPORTS);
    (disk.syncs() - before, disk.files().iter().map(|(_, bytes)| bytes).sum())
}

#[test]
fn a_crash_at_any_sync_leaves_whole_imports() {
    let (states, (syncs, _)) = (states(), whole_run());
    assert!(syncs > 20, "{syncs} syncs: segments, folders, symbols, records");
    let mut failures = 0;
    for nth in 1..=syncs {
        let (disk, shared) = new_disk(nth);
        disk.crash_at_sync(nth);
        let outcome = run(&shared);
        failures += usize::from(outcome.error.is_some());
        for survivor in 0..4 {
            let context = format!("crash at sync {nth}, survivor {survivor}");
            let left = disk.after_power_loss_by(survivor);
            // The import that was in progress may be there, if it is complete.
            let most = (outcome.acknowledged + 1).min(IMPORTS);
            check(&left, outcome.acknowledged..=most, &states, &context);
        }
    }
    assert!(failures > 18, "{failures} imports were cut short; the other syncs are checkpoints");
}

/// Power is lost between two calls, with any part of the unsynced bytes on disk.
#[test]
fn a_crash_at_any_write_leaves_whole_imports() {
    let states = states();
    let (sim, _) = new_disk(5);
    let survivors = Arc::new(Mutex::new(Vec::new()));
    let (inner, kept) = (sim.clone(), Arc::clone(&survivors));
    let hooked = HookDisk::new(sim, move |call| {
        if let Call::Write | Call::Sync = call {
            let mut kept = kept.lock().unwrap();
            let seed = kept.len() as u64;
            kept.push(inner.after_power_loss_by(seed));
        }
    });
    let shared: Arc<dyn Disk> = Arc::new(hooked);
    assert_eq!(run(&shared).acknowledged, IMPORTS);
    let survivors = survivors.lock().unwrap();
    assert!(survivors.len() > 40, "{} writes and syncs", survivors.len());
    let mut reached = 0;
    for (call, survivor) in survivors.iter().enumerate() {
        // Of the imports that an earlier crash has left, at most the last, unacknowledged one may
        // be missing.
        let context = format!("before call {call}");
        let opened = World::on(Arc::new(survivor.clone()), Path::new(ROOT));
        let state = state_of(&opened.database, &states, &context);
        assert!(state + 1 >= reached, "{context}: {state} after {reached}");
        reached = reached.max(state);
        opened.check_sound(&context);
        check_litter(survivor, &opened.database, &context);
    }
    assert_eq!(reached, IMPORTS, "the log has more writes than the last import");
}

/// The numbers of imports that may be there after this error.
fn after_failure(outcome: &Outcome) -> std::ops::RangeInclusive<usize> {
    let is_in_doubt =
        matches!(outcome.error, Some(Error::Storage(tidegate_storage::Error::InDoubt { .. })));
    outcome.acknowledged..=outcome.acknowledged + usize::from(is_in_doubt)
}

#[track_caller]
fn check_failure(outcome: &Outcome, context: &str) {
    if let Some(error) = &outcome.error {
        assert_eq!(error.class(), Class::Environment, "{context}: {error:?}");
    }
}

#[test]
fn a_failed_sync_fails_one_import_and_nothing_else() {
    let (states, (syncs, _)) = (states(), whole_run());
    let mut failures = 0;
    for nth in 1..=syncs {
        let (disk, shared) = new_disk(nth);
        disk.fail_sync_at(nth);
        let outcome = run(&shared);
        let context = format!("sync {nth} fails: {:?}", outcome.error);
        check_failure(&outcome, &context);
        failures += usize::from(outcome.error.is_some());
        for left in [disk.after_power_loss_by(nth), disk] {
            check(&left, after_failure(&outcome), &states, &context);
        }
    }
    assert!(failures > 12, "{failures} imports failed");
}

#[test]
fn a_failed_write_fails_one_import_and_nothing_else() {
    let states = states();
    let mut last_failure = 0;
    for nth in 1..=100 {
        let (disk, shared) = new_disk(nth);
        disk.fail_write_at(nth);
        let outcome = run(&shared);
        let context = format!("write {nth} fails: {:?}", outcome.error);
        check_failure(&outcome, &context);
        if outcome.error.is_some() {
            last_failure = nth;
        }
        disk.fail_write_at(0);
        for left in [disk.after_power_loss_by(nth), disk] {
            check(&left, after_failure(&outcome), &states, &context);
        }
    }
    assert!((20..100).contains(&last_failure), "every write was tried: {last_failure}");
}

#[test]
fn a_full_disk_fails_imports_until_there_is_room() {
    let (states, (_, needed)) = (states(), whole_run());
    let mut failures = 0;
    for capacity in (0..=needed + 8_000).step_by(2_048) {
        let (disk, shared) = new_disk(capacity);
        disk.set_capacity(capacity);
        let outcome = run(&shared);
        let context = format!("{capacity} bytes of {needed}: {:?}", outcome.error);
        check_failure(&outcome, &context);
        failures += usize::from(outcome.error.is_some());
        disk.set_capacity(u64::MAX);
        for left in [disk.after_power_loss_by(capacity), disk] {
            check(&left, after_failure(&outcome), &states, &context);
        }
    }
    assert!(failures > 10, "{failures} imports failed");
}

/// Rows in no order, each of a different day.
fn rows_of_days(days: u64) -> String {
    let day = |n: u64| (n * 37) % days;
    let row = |n: u64| {
        let (year, month, day) = (2000 + day(n) / 336, day(n) / 28 % 12 + 1, day(n) % 28 + 1);
        format!("{year}-{month:02}-{day:02},h{},,{n}\n", n % 7)
    };
    (0..days).map(row).collect()
}

/// An import kept the files of all its segments open until its commit: rows of more partitions than
/// a process may have open files could not be imported. Files that are closed earlier must be
/// synced, with the writes of all workers.
#[test]
fn an_import_keeps_few_files_open_and_loses_no_row() {
    for workers in 1..=3 {
        let (disk, shared) = new_disk(workers);
        let world = World::on(Arc::clone(&shared), Path::new(ROOT));
        let path = world.put("days.csv", rows_of_days(400).as_bytes());
        let mut options = world.options(&schema(), &[path]);
        options.workers = NonZeroUsize::new(usize::try_from(workers).unwrap()).unwrap();
        options.io = IoMode::Simulated { seed: workers };
        let summary = world.import(&options).unwrap();
        assert_eq!((summary.rows_imported, summary.partitions), (400, 400));
        let open = disk.open_files_max();
        assert!(open < 200, "{open} files were open");
        let rows = world.rows();
        for survivor in 0..4 {
            let context = format!("{workers} workers, survivor {survivor}");
            let left: Arc<dyn Disk> = Arc::new(disk.after_power_loss_by(survivor));
            let left = World::on(left, Path::new(ROOT));
            assert_same_rows(&left.rows(), &rows, &context);
            left.check_sound(&context);
        }
    }
}
