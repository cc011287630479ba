//! Damaged and truncated logs are distinguished from interrupted writes, and can be repaired.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::ColumnType;
use tidegate_platform::{Class, Disk, OpenMode, SimDisk};
use tidegate_storage::{
    Corruption, Database, Durability, Error, LogOptions, LogRepair, OpenOptions, clear_unused_log,
    repair_log, verify_offline,
};

use crate::fixture::{
    DAY, DIR, append, chain, files, import, new_database, open, options, schema, try_open,
};
use crate::model::{Step, Tables, check_reopened, read};

const PAGE: u64 = 4_096;

/// A database whose log has a group for each step, on a disk as the process leaves it when killed.
fn logged(steps: &[Step]) -> SimDisk {
    let (disk, database) = new_database();
    steps.iter().for_each(|step| step.run(&database).unwrap());
    disk.after_power_loss()
}

fn steps() -> Vec<Step> {
    vec![
        Step::ImportNew("a", vec![(1, "x", 1), (DAY, "y", 2)]),
        Step::Create("b"),
        Step::Import("b", vec![(2, "z", 3)]),
    ]
}

/// The tables after each number of steps.
fn states(steps: &[Step]) -> Vec<Tables> {
    let mut states = vec![Tables::new()];
    for step in steps {
        let mut next = states.last().unwrap().clone();
        step.apply(&mut next);
        states.push(next);
    }
    states
}

fn everything(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk.files().into_iter();
    files.map(|(path, _)| (path.clone(), disk.read(&path).unwrap())).collect()
}

pub(crate) fn repair(disk: &SimDisk) -> Result<Option<LogRepair>, Error> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    repair_log(&disk, Path::new(DIR))
}

pub(crate) fn verify(disk: &SimDisk) -> tidegate_storage::VerifyReport {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    verify_offline(&disk, Path::new(DIR), &|_| {}).unwrap()
}

/// Checks that opening refuses the database with this path, and changes nothing.
#[track_caller]
fn refused(disk: &SimDisk, expected: &Path, context: &str) -> Error {
    let before = everything(disk);
    let error = match try_open(disk) {
        Ok(database) => panic!("{context}: opened with {:?}", read(&database)),
        Err(error) => error,
    };
    assert!(everything(disk) == before, "{context}: something was written");
    match &error {
        Error::Corrupt { path, .. } => assert_eq!(path, expected, "{context}: {error}"),
        other => panic!("{context}: {other:?}"),
    }
    assert_eq!(error.class(), Class::Corruption);
    error
}

// One flipped bit in the last group of the log, or a truncation in it, lost the last acknowledged
// commits, and verification found no problem. Such a group was treated as an interrupted write. Its
// sectors distinguish it: after an interrupted write each sector has its old or its new content.
#[test]
fn every_damaged_byte_of_the_last_group_is_refused() {
    let disk = logged(&steps());
    let log = files(&disk, ".wal").remove(0);
    let bytes = disk.read(&log).unwrap();
    let group = 3 * PAGE;
    let at = usize::try_from(group).unwrap();
    let used = u64::from_le_bytes(bytes[at + 32..][..8].try_into().unwrap());
    assert!((100..PAGE).contains(&used));
    for at in 0..used {
        disk.corrupt(&log, group + at, 0x10);
        let context = format!("byte {at}");
        let error = refused(&disk, &log, &context);
        let Error::Corrupt { offset, what: Corruption::DamagedGroup { .. }, .. } = &error else {
            panic!("{context}: {error:?}");
        };
        assert_eq!(*offset, group, "{context}");
        assert!(error.to_string().contains("tidegate verify --repair"), "{error}");
        assert_eq!(verify(&disk).problems.len(), 1, "{context}");
        disk.corrupt(&log, group + at, 0x10);
    }
    check_reopened(&disk, states(&steps()).last().unwrap(), "undamaged");
}

#[test]
fn a_group_that_lacks_sectors_ends_the_log_and_is_told_of() {
    let rows: Vec<_> = (0..400).map(|n| (n, "host", n * 7_919 % 1_000_003)).collect();
    let disk = logged(&[&steps()[..], &[Step::Append(vec![("b", rows, None)])]].concat());
    let log = files(&disk, ".wal").remove(0);
    let group = 4 * PAGE;
    let bytes = disk.read(&log).unwrap();
    let at = usize::try_from(group).unwrap();
    let used = u64::from_le_bytes(bytes[at + 32..][..8].try_into().unwrap());
    assert!(used > 3 * 512, "{used}");
    for lost in 1..8_u64 {
        let disk = disk.after_power_loss();
        let file = disk.open(&log, OpenMode::ReadWrite).unwrap();
        for sector in (0..3).filter(|sector| lost & (1 << sector) != 0) {
            file.write_all_at(&[0; 512], group + sector * 512).unwrap();
        }
        let report = verify(&disk);
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let torn = report.torn.expect("it cannot be told what it was");
        assert_eq!((&torn.path, torn.offset), (&log, group));
        assert!(torn.to_string().contains("ends at byte 16384"), "{torn}");
        let database = open(&disk);
        assert_eq!(database.torn_group(), Some(&torn));
        assert_eq!(&read(&database), states(&steps()).last().unwrap());
    }
    assert_eq!(open(&disk).torn_group(), None);
}

// A truncated log file silently lost the commits after the cut: space is filled and synced ahead of
// use, so a file that ends early was truncated, but its earlier length was not recorded.
#[test]
fn a_log_truncated_at_any_byte_is_refused() {
    let steps: Vec<Step> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(Step::Create).into();
    for count in [1, 2, 4, 6, 9] {
        let disk = logged(&steps[..count]);
        let logs = files(&disk, ".wal");
        let log = logs.last().unwrap();
        let length = disk.read(log).unwrap().len() as u64;
        for cut in (0..length).step_by(512) {
            let disk = disk.after_power_loss();
            disk.truncate(log, cut);
            let context = format!("{count} groups, cut to {cut} of {length}");
            if cut < (1 + count as u64) * PAGE {
                refused(&disk, log, &context);
                continue;
            }
            // Nothing is lost with space that was not used yet. Its loss is detected if it was
            // announced.
            match try_open(&disk) {
                Ok(database) => assert_eq!(read(&database).len(), count, "{context}"),
                Err(Error::Corrupt { what: Corruption::CutLog { .. }, .. }) => {}
                Err(error) => panic!("{context}: {}", chain(&error)),
            }
        }
        assert_eq!(read(&open(&disk)).len(), count);
    }
}

// If a table was dropped since the checkpoint, opening a truncated log failed with the name of that
// table's manifest, whose directory was gone.
#[test]
fn a_truncated_log_is_reported_and_not_its_consequences() {
    let (disk, database) = new_database();
    steps().iter().for_each(|step| step.run(&database).unwrap());
    database.checkpoint().unwrap();
    Step::Create("c").run(&database).unwrap();
    Step::Drop(vec!["a"]).run(&database).unwrap();
    drop(database.snapshot("b"));
    let disk = disk.after_power_loss();
    assert!(!files(&disk, "data/1/manifest").iter().any(|path| disk.exists(path).unwrap()));
    let log = files(&disk, ".wal").pop().unwrap();
    let length = disk.read(&log).unwrap().len() as u64;
    disk.truncate(&log, length / 2 / PAGE * PAGE);
    refused(&disk, &log, "cut");
    let repair = repair(&disk).unwrap().expect("it was damaged");
    assert_eq!(repair.dropped, ["a"]);
    let mut expected = states(&steps()).pop().unwrap();
    expected.remove("a");
    let found = read(&open(&disk));
    assert!(found == expected || found.len() == expected.len() + 1, "{found:?}");
}

#[test]
fn a_repaired_log_has_what_was_not_damaged_and_takes_more() {
    let steps = steps();
    let whole = logged(&steps);
    let log = files(&whole, ".wal").remove(0);
    for (bad, damage) in (0..3).flat_map(|bad| [(bad, "bit"), (bad, "cut")]) {
        let context = format!("{damage} in group {bad}");
        let disk = whole.after_power_loss();
        let offset = (1 + bad as u64) * PAGE;
        match damage {
            "bit" => disk.corrupt(&log, offset + 70, 1),
            _ => disk.truncate(&log, offset + 70),
        }
        let found = verify(&disk);
        assert!(!found.problems.is_empty(), "{context}");
        let repaired = repair(&disk).unwrap().unwrap_or_else(|| panic!("{context}"));
        assert!(matches!(repaired.damage, Error::Corrupt { .. }), "{context}");
        assert_eq!(found.lost, repaired.lost, "{context}");
        let lost: Vec<_> =
            repaired.lost.iter().map(|lost| (lost.table.0, lost.first.0, lost.last.0)).collect();
        let mut expected = states(&steps)[bad].clone();
        match (damage, bad) {
            ("cut", _) => assert_eq!(lost, [], "{context}: nothing of it can be read"),
            (_, 0) => {
                assert_eq!(lost, [(1, 1, 1)], "{context}");
                // The other table was not damaged.
                expected = states(&steps)[3].clone();
                expected.remove("a");
            }
            (_, 1) => assert_eq!(lost, [(2, 1, 2)], "{context}: no table, no rows"),
            (..) => assert_eq!(lost, [(2, 2, 2)], "{context}"),
        }
        assert!(repair(&disk).unwrap().is_none(), "{context}: once is enough");
        let database = open(&disk);
        assert_eq!(read(&database), expected, "{context}");
        let more = Step::ImportNew("more", vec![(5, "m", 9)]);
        more.run(&database).unwrap();
        more.apply(&mut expected);
        let crashed = disk.after_power_loss();
        let context = format!("{context}, more");
        let found = read(&open(&crashed));
        assert_eq!(found, expected, "{context}");
        drop(database);
        let found = read(&open(&disk));
        assert_eq!(found, expected, "{context}, closed");
    }
}

#[test]
fn a_repair_keeps_what_it_gives_up() {
    let (disk, database) = new_database();
    for n in 0..12 {
        database.create_table(&format!("t{n}"), schema()).unwrap();
    }
    import(&database, "t4", &[(1, "a", 1)]).unwrap();
    let disk = disk.after_power_loss();
    let logs = files(&disk, ".wal");
    assert!(logs.len() >= 2, "the log was rotated");
    let segment = files(&disk, ".seg").remove(0);
    let lost: Vec<_> = [&logs[1..], std::slice::from_ref(&segment)].concat();
    let bytes: Vec<_> = lost.iter().map(|path| disk.read(path).unwrap()).collect();
    disk.truncate(&logs[0], 4 * PAGE);
    let repair = repair(&disk).unwrap().unwrap();
    let is_kept = |path: &Path| repair.saved_files.iter().any(|kept| path.starts_with(kept));
    let kept = everything(&disk).into_iter().filter(|(path, _)| is_kept(path));
    let kept: Vec<_> = kept.map(|(_, bytes)| bytes).collect();
    for (path, bytes) in lost.iter().zip(&bytes) {
        assert!(
            kept.contains(bytes),
            "open_repair-1: {}: {:?}",
            path.display(),
            repair.saved_files
        );
    }
    let database = open(&disk);
    let names: Vec<String> = database.tables().into_iter().map(|table| table.name).collect();
    assert_eq!(names[0], "t0");
    assert!(names.contains(&"t11".to_owned()), "what was not cut is taken over: {names:?}");
    assert!(!names.contains(&"t4".to_owned()), "{names:?}");
    drop(database);
    assert!(repair.saved_files.iter().all(|path| disk.exists(path).unwrap()), "open_repair-1");
}

#[test]
fn a_repair_that_loses_power_can_be_done_again() {
    let whole = logged(&steps());
    let log = files(&whole, ".wal").remove(0);
    for crash_at in 1..12 {
        for seed in 0..8 {
            let context = format!("crash at sync {crash_at}, seed {seed}");
            let disk = whole.after_power_loss();
            disk.corrupt(&log, 2 * PAGE + 70, 1);
            disk.crash_at_sync(crash_at);
            drop(repair(&disk));
            let disk = disk.after_power_loss_by(seed);
            if try_open(&disk).is_err() {
                repair(&disk).unwrap().unwrap_or_else(|| panic!("open_repair-2: {context}"));
            }
            assert_eq!(read(&open(&disk)), states(&steps())[1], "open_repair-2: {context}");
        }
    }
}

#[test]
fn damage_of_the_log_loses_nothing_that_a_checkpoint_has() {
    let (disk, database) = new_database();
    append(&database, "t", &[(1, "a", 1)]).unwrap();
    Step::Create("u").run(&database).unwrap();
    // The rows stay in the log: replay begins before the checkpoint.
    database.checkpoint().unwrap();
    let disk = disk.after_power_loss();
    let log = files(&disk, ".wal").pop().unwrap();
    disk.corrupt(&log, PAGE + 200, 1);
    refused(&disk, &log, "the rows are damaged");
    let lost = repair(&disk).unwrap().unwrap().lost;
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].name.as_deref(), lost[0].first.0, lost[0].last.0), (Some("t"), 1, 1));
    let database = open(&disk);
    let names: Vec<String> = database.tables().into_iter().map(|table| table.name).collect();
    assert_eq!(names, ["t", "u"]);
    append(&database, "t", &[(2, "b", 2)]).unwrap();
    drop(database);
    assert_eq!(read(&open(&disk))["t"].rows.len(), 1);
}

/// Pseudo-random numbers, the same for the same seed.
fn random(seed: u64, bound: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) % bound
}

#[test]
fn no_damage_of_the_log_loses_commits_in_silence() {
    let (disk, database) = new_database();
    for n in 0..7 {
        append(&database, "t", &[(n, "host", n), (n, "other", n)]).unwrap();
        if n == 3 {
            database.create_table("u", schema()).unwrap();
        }
    }
    let whole = disk.after_power_loss();
    let (expected, logs) = (read(&open(&whole.after_power_loss())), files(&whole, ".wal"));
    let (mut refused, mut intact) = (0, 0);
    for seed in 0..400 {
        let disk = whole.after_power_loss();
        let log = &logs[usize::try_from(random(seed, logs.len() as u64)).unwrap()];
        let length = disk.read(log).unwrap().len() as u64;
        let at = random(seed * 7 + 1, length);
        let what = match seed % 3 {
            0 => {
                disk.corrupt(log, at, 1 << random(seed, 8));
                "bit"
            }
            1 => {
                disk.truncate(log, at);
                "cut"
            }
            _ => {
                let bytes: Vec<u8> =
                    (0..512).map(|n| random(seed ^ (n << 20), 255).to_le_bytes()[0] | 1).collect();
                let file = disk.open(log, OpenMode::ReadWrite).unwrap();
                file.write_all_at(&bytes, at / 512 * 512).unwrap();
                "sector"
            }
        };
        let context = format!("seed {seed}: {what} at {at} of {length}");
        match try_open(&disk) {
            Ok(database) => {
                assert_eq!(read(&database), expected, "{context}");
                intact += 1;
            }
            Err(error) => {
                assert_eq!(error.class(), Class::Corruption, "{context}: {error:?}");
                if !matches!(error, Error::Corrupt { what: Corruption::Length { .. }, .. }) {
                    repair(&disk).unwrap_or_else(|e| panic!("{context}: {}", chain(&e)));
                    drop(try_open(&disk).unwrap_or_else(|e| panic!("{context}: {}", chain(&e))));
                }
                refused += 1;
            }
        }
    }
    assert!(refused > 100 && intact > 20, "{refused} {intact}");
}

#[test]
fn asynchronous_commits_that_were_cut_off_are_no_damage() {
    let log = LogOptions { durability: Durability::Async, ..options().log };
    let options = OpenOptions { log, ..options() };
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let database = Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
        for n in 0..9 {
            append(&database, "t", &[(n, "a", n)]).unwrap();
            if n == 3 {
                database.sync().unwrap();
            }
        }
        let disk = disk.after_power_loss();
        let database = try_open(&disk).unwrap_or_else(|e| panic!("seed {seed}: {}", chain(&e)));
        let rows = read(&database)["t"].rows.len();
        assert!((4..=9).contains(&rows), "seed {seed}: {rows}");
    }
}

/// Verification replayed the log, wrote it into checkpoints and removed files before it read them.
#[test]
fn verification_writes_nothing() {
    let rows = vec![(3, "q", 4)];
    let disk = logged(
        &[&steps()[..], &[Step::Delete("a", 1), Step::Append(vec![("b", rows, None)])]].concat(),
    );
    let garbage = Path::new(DIR).join("wal/00000000000000004096.wal.tmp");
    disk.open(&garbage, OpenMode::CreateNew).unwrap();
    disk.remove(&Path::new(DIR).join("lock")).unwrap();
    let (before, syncs) = (everything(&disk), disk.syncs());
    let report = verify(&disk);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!((report.tables, report.rows.0), (2, 3), "rows of the log count");
    for path in [files(&disk, ".mask"), files(&disk, ".sym")].concat() {
        disk.corrupt(&path, 30, 1);
        let report = verify(&disk);
        let named = |error: &Error| matches!(error, Error::Corrupt { path: p, .. } if *p == path);
        assert!(report.problems.iter().any(named), "{}: {:?}", path.display(), report.problems);
        disk.corrupt(&path, 30, 1);
    }
    assert!(everything(&disk) == before && disk.syncs() == syncs);
}

/// The disk as a crash leaves it, with one damaged record in a group of the last log file.
pub(crate) fn damage_group_of(_open: &Database, disk: &SimDisk, number: usize) -> SimDisk {
    let disk = disk.after_power_loss();
    let log = files(&disk, ".wal").pop().unwrap();
    disk.corrupt(&log, (1 + number as u64) * PAGE + 70, 1);
    disk
}

// A repair ended the log at the damage for all tables. Files that a later commit had replaced were
// removed by then, so tables without any damage became completely unreadable.
#[test]
fn a_repair_loses_only_commits_of_the_damaged_group() {
    let rows: Vec<_> = (0..50).map(|n| (n, "x", n)).collect();
    let changes = [
        vec![Step::Update("a", 1), Step::Delete("a", 2), Step::Delete("a", 3)],
        vec![Step::Append(vec![("a", rows.clone(), None)]), Step::Flush("a"), Step::Compact("a")],
        vec![Step::Truncate("a"), Step::Append(vec![("a", vec![(5, "new", 5)], None)])],
        vec![Step::Rename("a", "z"), Step::DropColumn("z", "value")],
        vec![Step::Drop(vec!["a"]), Step::Create("a")],
        // A name that is freed behind another change of the table that takes it.
        vec![
            Step::Create("c"),
            Step::Transaction(
                vec![
                    Step::AddColumn("a", "e0", ColumnType::Int64),
                    Step::Drop(vec!["c"]),
                    Step::Rename("a", "c"),
                ],
                vec![("c", vec![(7, "x", 7)])],
            ),
        ],
    ];
    for (n, changes) in changes.iter().enumerate() {
        let (disk, database) = new_database();
        let before = [
            Step::Append(vec![("a", rows.clone(), None)]),
            Step::Flush("a"),
            Step::Import("a", vec![(60, "y", 60)]),
        ];
        let mut tables = Tables::new();
        for step in &before {
            step.run(&database).unwrap();
            step.apply(&mut tables);
        }
        drop(database);
        let database = open(&disk);
        // The damaged record, in a group of its own.
        Step::Append(vec![("b", vec![(1, "q", 1)], None)]).run(&database).unwrap();
        for step in changes {
            step.run(&database).unwrap();
            step.apply(&mut tables);
        }
        let disk = damage_group_of(&database, &disk, 0);
        assert!(try_open(&disk).is_err(), "{n}");
        let lost = repair(&disk).unwrap().unwrap().lost;
        assert!(lost.iter().all(|lost| lost.table.0 == 2), "{n}: {lost:?}");
        let database = open(&disk);
        assert_eq!(read(&database), tables, "{n}");
        assert!(database.verify(&|_| {}).unwrap().problems.is_empty(), "{n}");
    }
}

// A repair skipped a file whose header was damaged, with all of its intact groups, and reported no
// commit that it had given up.
#[test]
fn a_repair_reads_the_groups_behind_a_damaged_file_header() {
    for (byte, is_reopened) in
        [0, 8, 12, 20, 28, 40, 56, 64].into_iter().flat_map(|byte| [(byte, true), (byte, false)])
    {
        let (disk, mut database) = new_database();
        for n in 0..3 {
            append(&database, "t", &[(n, "host", n)]).unwrap();
        }
        if is_reopened {
            drop(database);
            database = open(&disk);
        }
        for n in 3..7 {
            append(&database, "t", &[(n, "other", n)]).unwrap();
        }
        let expected = read(&database);
        let disk = disk.after_power_loss();
        let logs = files(&disk, ".wal");
        let damaged = logs.last().unwrap();
        disk.corrupt(damaged, byte, 1);
        refused(&disk, damaged, &format!("byte {byte}"));
        assert!(verify(&disk).lost.is_empty(), "byte {byte}");
        let repair = repair(&disk).unwrap().unwrap();
        assert!(repair.lost.is_empty(), "byte {byte}: {:?}", repair.lost);
        assert_eq!(read(&open(&disk)), expected, "byte {byte} of {}", damaged.display());
    }
}

// The texts of a record follow those of the records before it. A repair gave up all later commits
// with new symbols, although only the texts of the damaged one were missing.
#[test]
fn a_repair_keeps_later_commits_with_new_symbols() {
    let row = |ts, host| Step::Append(vec![("a", vec![(ts, host, ts)], None)]);
    // Steps after the damaged one, which brings `h3`, and the number of rows that they lose.
    let cases: [(Vec<Step>, usize); 6] = [
        (vec![row(4, "h4"), row(5, "h5"), row(6, "h1")], 0),
        // A row with the lost symbol, and one with a symbol of that row's commit.
        (
            vec![
                Step::Append(vec![("a", vec![(4, "h3", 4), (5, "h5", 5)], None)]),
                row(6, "h6"),
                row(7, "h5"),
            ],
            2,
        ),
        (vec![row(4, "h4"), Step::Flush("a"), row(5, "h5")], 0),
        (vec![row(4, "h4"), Step::Import("a", vec![(60, "h6", 60)]), row(5, "h5")], 0),
        (vec![row(4, "h4"), Step::Truncate("a"), row(5, "h5"), row(6, "h3")], 0),
        (vec![row(4, "lost symbol 3"), row(5, "lost symbol 5"), row(6, "h6")], 0),
    ];
    for (n, (after, lost_rows)) in cases.iter().enumerate() {
        let (disk, database) = new_database();
        let mut tables = Tables::new();
        let hosts = ["h0", "h1", "h2"];
        for (ts, host) in (0..).zip(hosts) {
            let step = row(ts, host);
            step.run(&database).unwrap();
            step.apply(&mut tables);
        }
        drop(database);
        let database = open(&disk);
        row(3, "h3").run(&database).unwrap();
        // A flush writes the row into a segment too, so that it is not lost.
        if after.iter().any(|step| matches!(step, Step::Flush(_))) {
            row(3, "h3").apply(&mut tables);
        }
        for step in after {
            step.run(&database).unwrap();
            step.apply(&mut tables);
        }
        let disk = damage_group_of(&database, &disk, 0);
        assert!(try_open(&disk).is_err(), "{n}");
        let lost = repair(&disk).unwrap().unwrap().lost;
        let database = open(&disk);
        let found = read(&database);
        if *lost_rows == 0 {
            assert_eq!(found, tables, "{n}: {lost:?}");
        }
        assert_eq!(found["a"].rows.len() + lost_rows, tables["a"].rows.len(), "{n}: {lost:?}");
        assert!(database.verify(&|_| {}).unwrap().problems.is_empty(), "{n}");
        append(&database, "a", &[(90, "h3", 90), (91, "other", 91)]).unwrap();
        let found = read(&database);
        drop(database);
        let database = open(&disk);
        assert_eq!(read(&database), found, "{n}");
        Step::Flush("a").run(&database).unwrap();
        drop(database);
        let database = open(&disk);
        assert_eq!(read(&database), found, "{n}");
        assert!(database.verify(&|_| {}).unwrap().problems.is_empty(), "{n}");
    }
}

#[test]
fn a_table_with_a_gap_keeps_what_is_consistent() {
    let rows: Vec<_> = (0..50).map(|n| (n, "x", n)).collect();
    // The damaged step, the later steps, and the number of rows afterwards.
    let cases: [(Step, Vec<Step>, usize); 6] = [
        // The segment of all rows is replaced by one whose record is damaged: the file exists.
        (Step::Compact("a"), vec![], 54),
        (Step::Compact("a"), vec![Step::Import("a", vec![(70, "y", 70)])], 55),
        // A deletion vector replaces another one, which was removed.
        (Step::Delete("a", 7), vec![], 53),
        (Step::Append(vec![("a", vec![(80, "x", 80)], None)]), vec![Step::Flush("a")], 55),
        (
            Step::Append(vec![("a", vec![(80, "fresh", 80)], None)]),
            vec![Step::Append(vec![("a", vec![(81, "fresh", 81)], None)])],
            54,
        ),
        (
            Step::Append(vec![("a", vec![(80, "fresh", 80)], None)]),
            vec![Step::Append(vec![("a", vec![(81, "x", 81)], None)])],
            55,
        ),
    ];
    for (n, (damaged, after, count)) in cases.iter().enumerate() {
        let (disk, database) = new_database();
        Step::Append(vec![("a", rows.clone(), None)]).run(&database).unwrap();
        Step::Flush("a").run(&database).unwrap();
        for ts in 60..65 {
            Step::Import("a", vec![(ts, "y", ts)]).run(&database).unwrap();
        }
        Step::Delete("a", 3).run(&database).unwrap();
        drop(database);
        let database = open(&disk);
        Step::Create("c").run(&database).unwrap();
        damaged.run(&database).unwrap();
        after.iter().for_each(|step| step.run(&database).unwrap());
        let disk = damage_group_of(&database, &disk, 1);
        let context = format!("{n}: {damaged:?}, {after:?}");
        let lost = repair(&disk).unwrap().unwrap_or_else(|| panic!("{context}")).lost;
        assert!(
            lost.iter().all(|lost| lost.table.0 == 1) && !lost.is_empty(),
            "{context}: {lost:?}"
        );
        let database = open(&disk);
        let found = read(&database);
        assert_eq!(found["a"].rows.len(), *count, "{context}");
        assert!(found.contains_key("c"));
        let problems = database.verify(&|_| {}).unwrap().problems;
        assert!(problems.is_empty(), "{context}: {problems:?}");
        append(&database, "a", &[(90, "fresh", 90), (91, "other", 91)]).unwrap();
        drop(database);
        assert_eq!(read(&open(&disk))["a"].rows.len(), count + 2, "{context}");
    }
}

// No file named the newest file of the log: without that file the database was opened silently,
// with fewer rows, and verification found no problem.
#[test]
fn a_missing_newest_log_file_is_detected() {
    let grown = |disk: &SimDisk, options: &OpenOptions| {
        let database = Database::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
        for n in 0..40 {
            append(&database, "b", &[(n, "x", n)]).unwrap();
        }
        disk.after_power_loss()
    };
    let log = LogOptions { file_bytes: 64 << 10, ..options().log };
    let short = OpenOptions { log, ..options() };
    for (name, options) in [("a process each", options()), ("a file that is full", short)] {
        let (mut disk, database) = new_database();
        steps().iter().for_each(|step| step.run(&database).unwrap());
        drop(database);
        for _ in 0..2 {
            disk = grown(&disk, &options);
        }
        let (logs, rows) = (files(&disk, ".wal"), read(&open(&disk.after_power_loss())));
        assert!(logs.len() > 1, "{name}: {logs:?}");
        let newest = logs.last().unwrap();
        disk.remove(newest).unwrap();
        refused(&disk, newest, name);
        let found = verify(&disk);
        assert!(found.problems.iter().any(|it| chain(it).contains(".wal")), "{found:?}");
        let repair = repair(&disk).unwrap().expect("a file is missing");
        assert!(chain(&repair.damage).contains(newest.to_str().unwrap()), "{name}");
        let database = open(&disk);
        let left = read(&database);
        assert_eq!(left["a"], rows["a"], "{name}");
        assert!(left["b"].rows.len() < rows["b"].rows.len(), "{name}");
        assert!(database.verify(&|_| {}).unwrap().problems.is_empty(), "{name}");
        append(&database, "b", &[(99, "y", 99)]).unwrap();
        let disk = disk.after_power_loss();
        assert_eq!(read(&open(&disk))["b"].rows.len(), left["b"].rows.len() + 1, "{name}");
    }
}

#[test]
fn a_log_opens_without_its_head_and_with_a_damaged_one() {
    let (disk, tables) = (logged(&steps()), states(&steps()).pop().unwrap());
    let head = Path::new(DIR).join("wal").join("head");
    let damages: [fn(&SimDisk, &Path); 3] = [
        |disk, head| disk.remove(head).unwrap(),
        |disk, head| disk.corrupt(head, 25, 1),
        |disk, head| disk.truncate(head, 5),
    ];
    for (n, damage) in damages.iter().enumerate() {
        let disk = disk.after_power_loss();
        damage(&disk, &head);
        assert_eq!(verify(&disk).problems.len(), usize::from(n > 0), "{n}");
        let database = open(&disk);
        assert_eq!(read(&database), tables, "{n}");
        append(&database, "b", &[(9, "x", 9)]).unwrap();
        assert!(verify(&disk.after_power_loss()).problems.is_empty(), "{n}: it is written anew");
    }
}

// Verification reported a byte between two groups as damage, and a repair had nothing to repair:
// a script that repairs until nothing is reported never ended.
#[test]
fn unused_bytes_that_are_damaged_are_set_to_zero_by_a_repair() {
    let (whole, tables) = (logged(&steps()), states(&steps()).pop().unwrap());
    let log = files(&whole, ".wal").remove(0);
    let intact = whole.read(&log).unwrap();
    // Behind the header of the file, behind groups, and behind the last one.
    for places in
        [vec![4_000], vec![2 * PAGE - 1], vec![4 * PAGE - 9, 4 * PAGE - 1], vec![4 * PAGE + 5]]
    {
        let disk = whole.after_power_loss();
        places.iter().for_each(|&at| disk.corrupt(&log, at, 1));
        assert_eq!(verify(&disk).problems.len(), 1, "{places:?}");
        assert!(repair(&disk).unwrap().is_none(), "{places:?}: it can be opened");
        let opened: Arc<dyn Disk> = Arc::new(disk.clone());
        let cleared = clear_unused_log(&opened, Path::new(DIR)).unwrap();
        assert_eq!(cleared.len(), 1, "{places:?}");
        assert!(chain(&cleared[0]).contains("must be zero"), "{cleared:?}");
        assert!(verify(&disk).problems.is_empty(), "{places:?}");
        assert!(disk.read(&log).unwrap() == intact, "open_repair-1: {places:?}");
        assert!(clear_unused_log(&opened, Path::new(DIR)).unwrap().is_empty(), "{places:?}");
        check_reopened(&disk, &tables, &format!("{places:?}"));
    }
    // A damaged log is left as it is.
    let disk = whole.after_power_loss();
    [2 * PAGE + 70, 2 * PAGE - 1].iter().for_each(|&at| disk.corrupt(&log, at, 1));
    let opened: Arc<dyn Disk> = Arc::new(disk.clone());
    assert!(clear_unused_log(&opened, Path::new(DIR)).unwrap().is_empty());
    repair(&disk).unwrap().expect("it is damaged");
    assert_eq!(clear_unused_log(&opened, Path::new(DIR)).unwrap().len(), 1);
    assert!(verify(&disk).problems.is_empty());
}
