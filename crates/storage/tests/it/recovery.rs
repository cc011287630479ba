//! Memory, syncs and time of opening after a crash, for logs of all kinds.

#![expect(clippy::print_stdout, reason = "slow tests print what they have measured")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_model::{ByteCount, limits};
use tidegate_platform::{Clock, Disk, OpenMode, RealDisk, SimDisk, SystemClock, rss_anon_bytes};
use tidegate_storage::{AppendOptions, Database, Durability, MaintenanceOptions, OpenOptions};

use crate::fixture::{self, DAY, DIR, Row, append, append_of, files, open, options};
use crate::model::{Step, Tables, check, check_reopened, read};

/// Memory of a memtable run besides its in-memory segment.
const RUN_BYTES: u64 = 512;

fn open_within(disk: &SimDisk, bytes_max: u64) -> Arc<Database> {
    Database::open(Arc::new(disk.clone()), Path::new(DIR), &within(bytes_max)).unwrap()
}

fn within(bytes_max: u64) -> OpenOptions {
    let mut options = options();
    options.maintenance.memtable_bytes_max = bytes_max;
    options
}

/// The disk as a crash of the machine leaves it while the database is open.
fn crashed(disk: &SimDisk, database: Arc<Database>) -> SimDisk {
    let after = disk.after_power_loss();
    // Later writes of the process are ignored.
    disk.crash_at_sync(0);
    drop(database);
    after
}

fn log_bytes(disk: &SimDisk) -> u64 {
    let is_log = |path: &Path| path.extension().is_some_and(|end| end == "wal");
    disk.files().iter().filter(|(path, _)| is_log(path)).map(|(_, bytes)| bytes).sum()
}

/// Incompressible bytes, as numbers.
fn noise(n: i64) -> i64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()).rotate_left(29)
}

#[test]
fn opening_takes_as_many_syncs_for_many_tables_as_for_one() {
    let syncs = [1, 60].map(|tables| {
        let (disk, database) = fixture::new_database();
        let mut expected = Tables::new();
        for table in NAMES.iter().take(tables) {
            let rows = vec![(1, "a", 1), (DAY, "b", 2)];
            let step = Step::Append(vec![(table, rows, None)]);
            step.run(&database).unwrap();
            step.apply(&mut expected);
        }
        let disk = crashed(&disk, database);
        let before = disk.syncs();
        let database = open(&disk);
        let syncs = disk.syncs() - before;
        assert_eq!(read(&database), expected);
        // Nothing was flushed, but everything can be.
        assert_eq!(files(&disk, ".seg").len(), 0);
        database.close().unwrap();
        assert_eq!(files(&disk, ".seg").len(), 2 * tables);
        check(&disk, &database, &expected, "flushed");
        drop(database);
        check_reopened(&disk.after_power_loss(), &expected, "closed");
        syncs
    });
    assert_eq!(syncs, [3, 3], "the file of the log that takes over, its name, and the head");
}

/// Names with static lifetime.
static NAMES: [&str; 60] = {
    const ALL: &str = "t00t01t02t03t04t05t06t07t08t09t10t11t12t13t14t15t16t17t18t19\
                       t20t21t22t23t24t25t26t27t28t29t30t31t32t33t34t35t36t37t38t39\
                       t40t41t42t43t44t45t46t47t48t49t50t51t52t53t54t55t56t57t58t59";
    let mut names = [""; 60];
    let mut at = 0;
    while at < 60 {
        names[at] = ALL.split_at(3 * at).1.split_at(3).0;
        at += 1;
    }
    names
};

/// Each commit was kept as a run of its own until the whole log was read: opening needed 1.8 GB for
/// 547,000 rows that a server had received with 418 MB.
#[test]
fn small_commits_are_coalesced_while_they_are_replayed() {
    let (disk, database) = fixture::new_database();
    let hosts = ["a", "b", "c", "d"];
    for n in 0..5_000_i64 {
        let host = hosts[usize::try_from(n % 4).unwrap()];
        append(&database, "t", &[(n % 700 * 1_000, host, noise(n))]).unwrap();
    }
    let expected = read(&database);
    let disk = crashed(&disk, database);
    let database = open(&disk);
    let report = database.recovery_report();
    assert!(report.records >= 5_000);
    assert_eq!(report.spilled_bytes, 0);
    // A row has 25 bytes; as a run of its own it takes more than a thousand.
    assert!(report.memory_bytes_max < 600 << 10, "{report:?}");
    assert!(database.memtable_bytes() <= report.memory_bytes_max);
    // Each row is rewritten a few times, not once for every other row.
    assert!(report.coalesced_runs < 3 * 5_000, "{report:?}");
    assert_eq!(read(&database), expected);
}

/// Large rows, many rows and many tables: logs that were written with much memory are opened with
/// little.
#[test]
fn a_log_is_replayed_within_the_memory_there_is_now() {
    const BOUND: u64 = 64 << 10;
    for (name, tables, rows_of_commit, commits) in
        [("one row", 3, 1, 6_000), ("many rows", 2, 400, 20), ("many tables", 60, 2, 600)]
    {
        let (disk, database) = fixture::new_database();
        let mut value = 0;
        let mut record_bytes_max = 0;
        for n in 0..commits {
            let table = NAMES[n % tables];
            let rows: Vec<Row> = (0..rows_of_commit)
                .map(|_| {
                    value += 1;
                    (value % 977 * DAY / 400, ["x", "y", "z"][n % 3], noise(value))
                })
                .collect();
            let before = database.memtable_bytes();
            append(&database, table, &rows).unwrap();
            record_bytes_max = record_bytes_max.max(database.memtable_bytes().abs_diff(before));
        }
        let expected = read(&database);
        let disk = crashed(&disk, database);
        let database = open_within(&disk, BOUND);
        let report = database.recovery_report();
        // Three partitions of each table are in the spill file, in a few runs each.
        let runs = 3 * 8 * tables as u64 * RUN_BYTES;
        let allowed = BOUND + runs + record_bytes_max;
        assert!(report.memory_bytes_max <= allowed, "{name}: {report:?}, {allowed} allowed");
        assert!(0 < report.spilled_bytes, "{name}: {report:?}");
        assert_eq!(files(&disk, "replay-0").len(), 0, "replay_memory-2");
        assert_eq!(read(&database), expected, "{name}");
        // Spilled rows are changed, flushed and compacted like others.
        database.maintain().unwrap();
        assert_eq!(database.memtable_bytes(), 0, "what is spilled is flushed first");
        check(&disk, &database, &expected, name);
        drop(database);
        check_reopened(&disk.after_power_loss(), &expected, name);
    }
}

/// A workload of every kind of change, with memtables that are many times larger than the memory
/// for their replay.
fn steps() -> Vec<Step> {
    let rows = |first: i64, count: i64| -> Vec<Row> {
        let host = |n: i64| ["h0", "h1", "h2", "h3", "h4"][usize::try_from(n % 5).unwrap()];
        (first..first + count).map(|n| (n % 13 * DAY / 5, host(n), n)).collect()
    };
    let mut steps = vec![Step::Append(vec![("t", rows(0, 40), None), ("u", rows(40, 40), None)])];
    steps.extend((80..110).map(|n| Step::Append(vec![("t", rows(n, 1), None)])));
    steps.push(Step::AddColumn("t", "e0", tidegate_model::ColumnType::Int64));
    steps.extend((110..125).map(|n| Step::Append(vec![("t", rows(n, 2), Some("e0"))])));
    steps.push(Step::Flush("t"));
    steps.push(Step::Append(vec![("t", rows(200, 50), Some("e0"))]));
    steps.push(Step::Delete("t", 210));
    steps.push(Step::Update("t", 212));
    steps.push(Step::Append(vec![("t", rows(300, 50), None), ("v", rows(350, 30), None)]));
    steps.push(Step::Truncate("v"));
    steps.push(Step::Append(vec![("v", vec![(1, "new", 400), (2, "h1", 401)], None)]));
    steps.push(Step::Append(vec![("v", rows(402, 30), None)]));
    steps.push(Step::DropColumn("u", "host"));
    steps.push(Step::Keys("t", true));
    steps.push(Step::Append(vec![("t", rows(500, 30), None)]));
    steps.push(Step::Append(vec![("t", rows(500, 30), None)]));
    steps.push(Step::Append(vec![("gone", rows(600, 40), None)]));
    steps.push(Step::Rename("u", "w"));
    steps.push(Step::Drop(vec!["gone"]));
    steps.push(Step::Append(vec![("gone", rows(700, 9), None)]));
    steps.push(Step::DropPartition("t", 1));
    steps.push(Step::Append(vec![("t", rows(800, 40), None), ("w", rows(840, 3), None)]));
    steps
}

/// A flush takes the memtable as of a moment, and its record comes after the commits that were made
/// while segments were written. Runs with rows of both could not be split when the record is
/// replayed, and the rows before it would be duplicated.
#[test]
fn commits_during_a_flush_are_not_coalesced_with_those_before_it() {
    let rows = |n: i64| vec![(n % 50, "a", n)];
    let (disk, database) = fixture::new_database();
    let mut expected = Tables::new();
    let mut step = |n: i64| {
        let step = Step::Append(vec![("t", rows(n), None)]);
        step.apply(&mut expected);
        step
    };
    for n in 0..100 {
        step(n).run(&database).unwrap();
    }
    let during: Vec<Step> = (100..200).map(&mut step).collect();
    let writer = Arc::clone(&database);
    disk.before_open(OpenMode::CreateNew, ".seg", move || {
        during.iter().for_each(|step| step.run(&writer).unwrap());
    });
    database.flush_table("t").unwrap();
    for n in 200..300 {
        step(n).run(&database).unwrap();
    }
    assert_eq!(read(&database), expected);
    assert_eq!(files(&disk, ".seg").len(), 1);
    let disk = crashed(&disk, database);
    for bytes_max in [1, 1 << 30] {
        let disk = disk.after_power_loss();
        let database = open_within(&disk, bytes_max);
        assert!(database.recovery_report().coalesced_runs > 100);
        check(&disk, &database, &expected, "recovery-5");
    }
}

#[test]
fn a_replay_that_spills_restores_the_same_rows() {
    let all = steps();
    // A crash after each step, so that each kind of record is the last one.
    for count in 1..=all.len() {
        let (disk, database) = fixture::new_database();
        let mut expected = Tables::new();
        for step in &all[..count] {
            step.run(&database).unwrap();
            step.apply(&mut expected);
        }
        assert_eq!(read(&database), expected, "{:?}", all[count - 1]);
        let disk = crashed(&disk, database);
        for bytes_max in [1, 4 << 10, 1 << 30] {
            let context = format!("{bytes_max} bytes, after {:?}", all[count - 1]);
            let disk = disk.after_power_loss();
            let database = open_within(&disk, bytes_max);
            check(&disk, &database, &expected, &context);
            let step = Step::Append(vec![("t", vec![(5, "after", 9_000)], None)]);
            step.run(&database).unwrap();
            let mut expected = expected.clone();
            step.apply(&mut expected);
            // A second replay, with the records written since.
            let disk = crashed(&disk, database);
            check_reopened(&disk, &expected, &context);
        }
    }
}

#[test]
fn a_crash_at_any_sync_of_a_recovery_that_spills_loses_nothing() {
    let (disk, database) = fixture::new_database();
    let mut expected = Tables::new();
    for step in steps() {
        step.run(&database).unwrap();
        step.apply(&mut expected);
    }
    let crashed = crashed(&disk, database);
    for crash_at in 1.. {
        let disk = crashed.after_power_loss_by(crash_at);
        disk.crash_at_sync(crash_at);
        let options = within(4 << 10);
        let opened = Database::open(Arc::new(disk.clone()), Path::new(DIR), &options);
        // The work after opening, as long as there is power.
        let done = opened.as_ref().is_ok_and(|database| database.maintain().is_ok());
        drop(opened);
        for survivor in 0..3 {
            let disk = disk.after_power_loss_by(survivor);
            // Another crash during that recovery.
            let again = disk.after_power_loss_by(survivor);
            again.crash_at_sync(1 + survivor % 2);
            drop(Database::open(Arc::new(again.clone()), Path::new(DIR), &options));
            for disk in [disk, again.after_power_loss()] {
                let database = open_within(&disk, 4 << 10);
                check(&disk, &database, &expected, &format!("crash at sync {crash_at}"));
            }
        }
        if done {
            assert!(crash_at > 20, "all tables were flushed and put into a checkpoint");
            break;
        }
    }
}

/// Opening keeps the log, so the next crash leaves it again: it must not grow each time.
#[test]
fn crashes_one_after_the_other_do_not_make_the_log_longer() {
    let (mut disk, database) = fixture::new_database();
    let rows = |n: i64| vec![(n, "a", n), (n + DAY, "b", n)];
    for n in 0..40 {
        append(&database, "t", &rows(n)).unwrap();
    }
    let expected = read(&database);
    disk = crashed(&disk, database);
    let mut lengths = Vec::new();
    for _ in 0..6 {
        let database = open(&disk);
        assert_eq!(read(&database), expected);
        disk = crashed(&disk, database);
        lengths.push((log_bytes(&disk), files(&disk, ".wal").len()));
    }
    assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "{lengths:?}");
    // With a commit between the crashes each leaves a file; at a limit, opening flushes.
    let mut files_max = 0;
    for n in 0..80 {
        let database = open(&disk);
        append(&database, "t", &rows(100 + n)).unwrap();
        disk = crashed(&disk, database);
        files_max = files_max.max(files(&disk, ".wal").len());
        assert!(log_bytes(&disk) < 1 << 20, "{} bytes of log", log_bytes(&disk));
    }
    assert!((20..=34).contains(&files_max), "{files_max} files");
    assert_eq!(open(&disk).snapshot("t").unwrap().rows().0, 2 * (40 + 80));
}

/// A sync of the last group may have failed before the process ended, while the page cache still
/// has the group: a later power loss may then lose it. So it is written once more, before a query
/// or a commit relies on it.
#[test]
fn the_last_group_of_a_log_is_durable_anew_before_it_is_read() {
    let (disk, database) = fixture::new_database();
    for n in 0..5 {
        append(&database, "t", &[(n, "a", n)]).unwrap();
    }
    let expected = read(&database);
    let disk = crashed(&disk, database);
    let old = files(&disk, ".wal");
    let database = open(&disk);
    let disk = crashed(&disk, database);
    let new: Vec<_> = files(&disk, ".wal").into_iter().filter(|path| !old.contains(path)).collect();
    assert_eq!(new.len(), 1, "recovery-4: {new:?}");
    // The group begins at the start of the new file; in the old one it is lost.
    let first: u64 = new[0].file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let of_old: u64 = old.last().unwrap().file_stem().unwrap().to_str().unwrap().parse().unwrap();
    disk.truncate(old.last().unwrap(), 4_096 + first - of_old);
    check_reopened(&disk, &expected, "the old file has lost it");
}

#[test]
fn closing_flushes_some_tables_and_leaves_many_to_the_log() {
    for (tables, is_flushed) in [(limits::CLOSE_TABLES, true), (limits::CLOSE_TABLES + 1, false)] {
        let disk = SimDisk::new(1);
        let sync_threads = NonZeroUsize::new(4).unwrap();
        let options = OpenOptions { sync_threads, ..options() };
        let open = || Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
        let database = open();
        let names: Vec<String> = (0..tables).map(|n| format!("t{n}")).collect();
        let appends: Vec<_> =
            names.iter().map(|name| append_of(name, &[(1, "a", 1)], None)).collect();
        database.append(&appends, &AppendOptions::default()).unwrap();
        let before = disk.syncs();
        drop(database);
        let syncs = disk.syncs() - before;
        assert_eq!(files(&disk, ".seg").len(), if is_flushed { tables } else { 0 });
        assert!(is_flushed || syncs <= 1, "{syncs} syncs");
        let database = open();
        assert_eq!(database.recovery_report().records, u64::from(!is_flushed));
        for name in &names {
            assert_eq!(database.snapshot(name).unwrap().rows().0, 1);
        }
    }
}

#[test]
fn memtables_get_a_part_of_the_memory() {
    let part =
        |memory: u64| MaintenanceOptions::STANDARD.within(ByteCount(memory)).memtable_bytes_max;
    assert_eq!(part(16 << 30), MaintenanceOptions::STANDARD.memtable_bytes_max);
    assert_eq!(part(1 << 30), 128 << 20);
    assert_eq!(part(0), 4 << 20);
}

/// The anonymous memory and the time of a replay, with a real disk.
struct Replay {
    /// The maximal anonymous memory of the process, beyond that at the start.
    rss_bytes: u64,
    nanos: u64,
    database: Arc<Database>,
}

/// Opens a copy of an open database, as after `kill -9`.
fn replay(from: &Path, to: &Path, options: &OpenOptions) -> Replay {
    let clock = SystemClock;
    copy(from, to);
    let before = rss_anon_bytes();
    let (start, is_open) = (clock.monotonic_nanos(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let peak = scope.spawn(|| {
            let mut peak = 0;
            while !is_open.load(Ordering::Acquire) {
                peak = peak.max(rss_anon_bytes());
                std::thread::yield_now();
            }
            peak
        });
        let database = Database::open(Arc::new(RealDisk), to, options).unwrap();
        let nanos = clock.monotonic_nanos() - start;
        is_open.store(true, Ordering::Release);
        let rss_bytes = peak.join().unwrap().saturating_sub(before);
        Replay { rss_bytes, nanos, database }
    })
}

fn copy(from: &Path, to: &Path) {
    RealDisk.create_dir_all(to).unwrap();
    for entry in RealDisk.list(from).unwrap() {
        let (from, to) = (from.join(&entry.name), to.join(&entry.name));
        if entry.is_dir {
            copy(&from, &to);
        } else {
            let file = RealDisk.open(&to, OpenMode::CreateNew).unwrap();
            file.write_all_at(&RealDisk.read(&from).unwrap(), 0).unwrap();
        }
    }
}

/// The options of the product; writes need not be durable.
fn product(memory: u64) -> OpenOptions {
    let mut options = OpenOptions::new(Arc::new(SystemClock));
    options.log.durability = Durability::Async;
    options.maintenance = options.maintenance.within(ByteCount(memory));
    options
}

#[test]
#[ignore = "slow: 547,000 commits"]
fn half_a_million_commits_are_replayed_in_the_memory_of_their_server() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("db");
    let options = product(1 << 30);
    let database = Database::open(Arc::new(RealDisk), &dir, &options).unwrap();
    let hosts = ["a", "b", "c", "d"];
    for n in 0..547_000_i64 {
        let host = hosts[usize::try_from(n % 4).unwrap()];
        append(&database, "t", &[(n * 1_000, host, noise(n))]).unwrap();
    }
    let Replay { rss_bytes, nanos, database: opened } =
        replay(&dir, &directory.path().join("copy"), &options);
    let report = opened.recovery_report();
    println!(
        "{} bytes of log, opened in {} ms with {rss_bytes} bytes: {report:?}",
        database.log_bytes(),
        nanos / 1_000_000
    );
    assert!(rss_bytes < 100 << 20, "{rss_bytes} bytes for 547,000 rows: {report:?}");
    assert_eq!(opened.snapshot("t").unwrap().rows().0, 547_000);
}

#[test]
#[ignore = "slow: 600 MB of rows"]
fn memtables_of_hundreds_of_megabytes_are_replayed_in_a_few() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("db");
    let mut options = product(64 << 30);
    options.maintenance.memtable_bytes_max = 1 << 30;
    let database = Database::open(Arc::new(RealDisk), &dir, &options).unwrap();
    let mut value = 0;
    for n in 0..600 {
        let rows = (0..60_000).map(|_| {
            value += 1;
            (noise(value).rem_euclid(10 * DAY), "a", noise(value))
        });
        append(&database, NAMES[n % 7], &rows.collect::<Vec<Row>>()).unwrap();
    }
    let memtable_bytes = database.memtable_bytes();
    assert!(memtable_bytes > 300 << 20, "{memtable_bytes}");
    let bytes_max = 16 << 20;
    let maintenance = MaintenanceOptions { memtable_bytes_max: bytes_max, ..options.maintenance };
    let Replay { rss_bytes, nanos, database: opened } =
        replay(&dir, &directory.path().join("copy"), &OpenOptions { maintenance, ..options });
    let report = opened.recovery_report();
    println!(
        "{memtable_bytes} bytes of memtables, opened in {} ms with {rss_bytes} bytes: {report:?}",
        nanos / 1_000_000
    );
    // A record, and a run that is being merged.
    assert!(report.memory_bytes_max < bytes_max + (4 << 20) + (16 << 20), "{report:?}");
    // In addition: the groups that may not be durable, with which the next file begins, and the
    // working memory of coalescing.
    assert!(rss_bytes < 200 << 20, "{rss_bytes} bytes: {report:?}");
    for name in &NAMES[..7] {
        let rows = |database: &Database| database.snapshot(name).unwrap().rows().0;
        assert_eq!(rows(&opened), rows(&database));
    }
    opened.maintain().unwrap();
    assert!(opened.memtable_bytes() < 1 << 20, "spilled rows are flushed");
}

#[test]
#[ignore = "slow: tens of thousands of syncs"]
fn thousands_of_tables_are_opened_at_once_and_closed_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("db");
    let options = product(1 << 30);
    let database = Database::open(Arc::new(RealDisk), &dir, &options).unwrap();
    let names: Vec<String> = (0..3_000).map(|n| format!("t{n}")).collect();
    for names in names.chunks(100) {
        let rows = [(1, "a", 1), (DAY, "b", 2)];
        let appends: Vec<_> = names.iter().map(|name| append_of(name, &rows, None)).collect();
        database.append(&appends, &AppendOptions::default()).unwrap();
    }
    let Replay { rss_bytes, nanos, database: opened } =
        replay(&dir, &directory.path().join("copy"), &options);
    let start = SystemClock.monotonic_nanos();
    opened.close().unwrap();
    let closed = SystemClock.monotonic_nanos() - start;
    println!(
        "3,000 tables: opened in {} ms with {rss_bytes} bytes, closed in {} ms",
        nanos / 1_000_000,
        closed / 1_000_000
    );
    assert_eq!(opened.tables().len(), 3_000);
}
