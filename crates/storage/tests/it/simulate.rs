//! Random workloads on disks that fail at random moments. Acknowledged rows are there afterwards,
//! each once; a commit in progress is there as a whole, or not at all. If commits are acknowledged
//! before they are on disk, a power loss may lose the last ones, from some commit on, but none that
//! was synced. Rows of a named batch that are sent again after an unknown outcome are there once.
//! After failures of calls other than syncs, the database continues once they no longer fail.
//!
//! Set `TIDEGATE_SIMULATE=first..end` to run other seeds than those of every test run.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tidegate_model::ColumnType;
use tidegate_platform::{Class, Disk, SimCall, SimClock, SimDisk, SimErrno};
use tidegate_storage::{
    Database, Durability, Error, LogOptions, MaintenanceOptions, OpenOptions, verify_offline,
};

use crate::fixture::{DAY, DIR, Row};
use crate::model::{Step, Tables, check, read};

const TABLES: [&str; 4] = ["a", "b", "c", "D"];
const HOSTS: [&str; 8] =
    ["", "x", "y", "z", "host_1", "host_2", "\u{e4}\u{20ac}", "long long long"];
const EXTRAS: [&str; 3] = ["e0", "e1", "e2"];

/// Pseudo-random numbers, the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn choose<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Generates valid steps.
pub(crate) struct Generator {
    random: Random,
    /// Every row has a unique value.
    next_value: i64,
    now: i64,
    next_batch: u64,
    may_reopen: bool,
}

impl Generator {
    /// Steps for an empty database.
    pub(crate) fn new(seed: u64) -> Generator {
        let (next_value, now, next_batch, may_reopen) = (0, 20_000 * DAY, 0, true);
        Generator { random: Random(seed), next_value, now, next_batch, may_reopen }
    }

    fn rows(&mut self) -> Vec<Row> {
        let count = if self.random.one_in(6) { 60 } else { 5 };
        let count = 1 + self.random.below(count);
        (0..count)
            .map(|_| {
                self.next_value += 1;
                self.now += i64::try_from(self.random.below(3)).unwrap() * 1_000;
                if self.random.one_in(50) {
                    self.now += DAY / 2;
                }
                let late = match self.random.below(10) {
                    0 => i64::try_from(self.random.below(60_000)).unwrap(),
                    1 if self.random.one_in(4) => DAY,
                    _ => 0,
                };
                (self.now - late, self.random.choose(&HOSTS), self.next_value)
            })
            .collect()
    }

    fn append(&mut self) -> Step {
        let first = self.random.below(4);
        let count = if self.random.one_in(3) { 2 } else { 1 };
        let tables = (0..count).map(|n| {
            let table = TABLES[usize::try_from((first + n) % 4).unwrap()];
            let extra = self.random.one_in(6).then(|| self.random.choose(&EXTRAS));
            (table, self.rows(), extra)
        });
        let tables = tables.collect();
        self.next_batch += 1;
        if self.random.one_in(2) {
            Step::Batch(self.next_batch, tables)
        } else {
            Step::Append(tables)
        }
    }

    fn transaction(&mut self, tables: &Tables) -> Step {
        let mut after = tables.clone();
        let mut changes = Vec::new();
        let known = |tables: &Tables| -> Vec<&'static str> {
            TABLES.iter().copied().filter(|table| tables.contains_key(*table)).collect()
        };
        for _ in 0..self.random.below(4) {
            let unknown = TABLES.iter().copied().find(|table| !after.contains_key(*table));
            let known = known(&after);
            let table = if known.is_empty() { None } else { Some(self.random.choose(&known)) };
            let change = match (self.random.below(5), table, unknown) {
                (0, _, Some(new)) => Step::Create(new),
                (1, Some(table), _) => Step::Drop(vec![table]),
                (2, Some(table), Some(to)) => Step::Rename(table, to),
                (3, Some(table), _) => {
                    let has = |name: &str| after[table].columns.iter().any(|it| it.0 == name);
                    match EXTRAS.iter().copied().find(|name| has(name)) {
                        Some(name) => Step::DropColumn(table, name),
                        None => {
                            let name = self.random.choose(&EXTRAS);
                            Step::AddColumn(table, name, ColumnType::Int64)
                        }
                    }
                }
                (4, Some(table), _) if after[table].columns.iter().any(|it| it.0 == "host") => {
                    Step::Keys(table, !after[table].has_keys)
                }
                _ => continue,
            };
            change.apply(&mut after);
            changes.push(change);
        }
        let takes_rows = |table: &&str| {
            let columns = &after[*table].columns;
            ["host", "value"].iter().all(|name| columns.iter().any(|it| it.0 == *name))
        };
        let takes = known(&after).into_iter().filter(takes_rows).take(2).collect::<Vec<_>>();
        Step::Transaction(changes, takes.into_iter().map(|table| (table, self.rows())).collect())
    }

    /// A step that does not fail on these tables, unless the disk fails.
    pub(crate) fn step(&mut self, tables: &Tables) -> Step {
        let known = TABLES.iter().copied().filter(|table| tables.contains_key(*table));
        let known: Vec<&'static str> = known.collect();
        if known.is_empty() {
            return self.append();
        }
        let table = self.random.choose(&known);
        let unknown = TABLES.iter().copied().find(|table| !tables.contains_key(*table));
        let columns = &tables[table].columns;
        let has = |name: &str| columns.iter().any(|(known, _)| known == name);
        match self.random.below(44) {
            0..15 => self.append(),
            15..18 if has("host") && has("value") => Step::Import(table, self.rows()),
            18..22 => Step::Flush(table),
            22..25 => Step::Compact(table),
            25..28 => Step::Maintain,
            28 => Step::Checkpoint,
            29 => Step::Sync,
            30 if self.may_reopen => Step::Reopen,
            31 | 32 if has("value") => {
                let back = i64::try_from(self.random.below(20)).unwrap();
                Step::Delete(table, self.next_value - back)
            }
            33 => match EXTRAS.iter().copied().find(|name| has(name)) {
                Some(name) => Step::DropColumn(table, name),
                None => Step::AddColumn(table, self.random.choose(&EXTRAS), ColumnType::Int64),
            },
            34 if self.random.one_in(3) => Step::Truncate(table),
            35 if self.random.one_in(3) => Step::Drop(vec![table]),
            36 if self.random.one_in(2) => match unknown {
                Some(to) => Step::Rename(table, to),
                None => self.append(),
            },
            37 => match unknown {
                Some(new) => Step::ImportNew(new, self.rows()),
                None => self.append(),
            },
            38 if has("host") && !tables[table].has_keys => Step::DropColumn(table, "host"),
            39 if has("value") => {
                let back = i64::try_from(self.random.below(20)).unwrap();
                Step::Update(table, self.next_value - back)
            }
            40 => {
                let back = i64::try_from(self.random.below(3)).unwrap();
                Step::DropPartition(table, self.now / DAY - back)
            }
            41 if has("host") => Step::Keys(table, !tables[table].has_keys),
            42 | 43 => self.transaction(tables),
            _ => self.append(),
        }
    }
}

/// Bounds that are reached within a few steps.
pub(crate) fn options(random: &mut Random) -> OpenOptions {
    let log = LogOptions {
        durability: random.choose(&[Durability::Sync, Durability::Async]),
        unsynced_bytes_max: random.choose(&[24 << 10, 1 << 30]),
        step_bytes: 8 << 10,
        file_bytes: 40 << 10,
        checkpoint_bytes: random.choose(&[16 << 10, 64 << 10, 1 << 30]),
        bytes_max: random.choose(&[256 << 10, 1 << 31]),
    };
    let maintenance = MaintenanceOptions {
        memtable_bytes_max: random.choose(&[20 << 10, 1 << 20]),
        flush_rows: random.choose(&[20, 200]),
        flush_bytes: 1 << 20,
        flush_after_nanos: u64::MAX,
        log_bytes: random.choose(&[50 << 10, 1 << 30]),
        memtable_runs_max: random.choose(&[3, 9]),
        compaction_runs: random.choose(&[2, 4]),
        compaction_rows_max: random.choose(&[100, 1 << 20]),
        delete_compaction_after_nanos: random.choose(&[0, u64::MAX]),
    };
    let sync_threads = NonZeroUsize::new(1).unwrap();
    let clock = Arc::new(SimClock::new(77));
    let open_segments_max = random.choose(&[1, 3, 1 << 14]);
    OpenOptions { log, maintenance, sync_threads, open_segments_max, ..OpenOptions::new(clock) }
}

fn open(disk: &SimDisk, options: &OpenOptions) -> Result<Arc<Database>, Error> {
    Database::open(Arc::new(disk.clone()), Path::new(DIR), options)
}

/// Plans a random fault for one life of a database.
fn plan_fault(disk: &SimDisk, random: &mut Random) -> &'static str {
    match random.below(12) {
        0..4 => {
            disk.crash_at_sync(1 + random.below(120));
            "crash"
        }
        4 => {
            disk.fail_sync_at(1 + random.below(120));
            "failed sync"
        }
        5 => {
            disk.fail_write_at(1 + random.below(200));
            "failed write"
        }
        6 => {
            let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
            disk.set_capacity(used + random.below(120_000));
            "full disk"
        }
        7..11 => {
            let (errno, lasts) = (random.choose(&SimErrno::ALL), random.one_in(2));
            let (call, nth) = (random.choose(&SimCall::HARMLESS), 1 + random.below(80));
            disk.fail_call_at(call, nth, errno, lasts);
            FAILED_CALL
        }
        _ => "no fault",
    }
}

const FAILED_CALL: &str = "failed call";

/// Simulates one seed: several lives of a database, each of which ends with a crash, a fault, or
/// properly.
fn simulate(seed: u64) {
    let mut random = Random(seed);
    let mut disk = SimDisk::new(seed);
    let mut made = Generator::new(seed ^ 0xdead);
    let mut tables = Tables::new();
    for life in 0..4 {
        let options = options(&mut random);
        let fault = plan_fault(&disk, &mut random);
        made.may_reopen = fault != "failed sync";
        let context = format!("seed {seed}, life {life}, {fault}, {:?}", options.log.durability);
        let mut states = States { now: tables, in_flight: None, unsynced: Vec::new() };
        live(&disk, &options, &mut states, &mut made, &context);
        let is_power_lost = matches!(fault, "crash" | "failed sync") || random.one_in(2);
        // Half of the lives end with a power loss. Only the process in which a sync has failed
        // knows of it: the lost bytes are detected now, before another process relies on them.
        disk.clear_faults();
        if is_power_lost {
            disk = disk.after_power_loss_by(random.next());
        }
        // The database is opened with as much memory as it was written with, or with very little.
        let bytes_max = random.choose(&[options.maintenance.memtable_bytes_max, 2 << 10]);
        let reopened = OpenOptions {
            maintenance: MaintenanceOptions {
                memtable_bytes_max: bytes_max,
                ..options.maintenance
            },
            ..options.clone()
        };
        if is_power_lost && random.one_in(3) {
            // Power fails again during that recovery.
            disk.crash_at_sync(1 + random.below(6));
            drop(open(&disk, &reopened));
            disk = disk.after_power_loss_by(random.next());
        }
        check_offline(&disk, &context);
        let database = open(&disk, &reopened).unwrap_or_else(|e| panic!("{context}: {e:?}"));
        let may_be_lost = options.log.durability == Durability::Async && is_power_lost;
        let lost = states.unsynced.drain(..).filter(|_| may_be_lost);
        let mut found = read(&database);
        if let Some((step @ Step::Batch(..), after)) = &states.in_flight
            && (found == states.now || found == *after)
        {
            step.run(&database).unwrap_or_else(|e| panic!("{context}: {step:?} again: {e:?}"));
            found = read(&database);
            assert_eq!(&found, after, "{context}: {step:?} again");
        }
        let in_flight = states.in_flight.map(|(_, after)| after);
        let possible = [Some(states.now), in_flight].into_iter().flatten().chain(lost);
        let possible: Vec<Tables> = possible.collect();
        let is_possible = possible.contains(&found);
        tables = if is_possible { found } else { possible.into_iter().next().expect("now") };
        check(&disk, &database, &tables, &context);
    }
}

/// Verifies a database as a crash has left it: one that can be opened has no damage.
fn check_offline(disk: &SimDisk, context: &str) {
    if !disk.exists(&Path::new(DIR).join("data/catalog")).unwrap() {
        return;
    }
    let looked: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = verify_offline(&looked, Path::new(DIR), &|_| {});
    let report = report.unwrap_or_else(|e| panic!("{context}: offline check: {e:?}"));
    assert!(report.problems.is_empty(), "{context}: offline check: {:?}", report.problems);
}

/// The states that a database may have.
struct States {
    now: Tables,
    /// The step in progress, and the tables if it succeeds.
    in_flight: Option<(Step, Tables)>,
    /// Earlier states in the order of commits, each from before a commit that was not synced.
    unsynced: Vec<Tables>,
}

/// Opens a database; if failing calls prevent that, or suspend a table, opens it again without
/// faults.
fn open_in_spite(
    disk: &SimDisk,
    options: &OpenOptions,
    may_fail: &mut bool,
    context: &str,
) -> Option<Arc<Database>> {
    let may_fail_here = *may_fail && context.contains(FAILED_CALL);
    match open(disk, options) {
        Ok(database) if may_fail_here && !database.suspended().is_empty() => {}
        Ok(database) => return Some(database),
        Err(error) => {
            assert_eq!(error.class(), Class::Environment, "{context}: {error:?}");
            if !may_fail_here {
                return None;
            }
        }
    }
    disk.clear_faults();
    *may_fail = false;
    Some(open(disk, options).unwrap_or_else(|error| panic!("{context}: {error:?}")))
}

/// Runs steps until one fails or there are enough.
fn live(
    disk: &SimDisk,
    options: &OpenOptions,
    states: &mut States,
    made: &mut Generator,
    context: &str,
) {
    let mut may_fail = true;
    let Some(mut database) = open_in_spite(disk, options, &mut may_fail, context) else { return };
    for _ in 0..8 + made.random.below(40) {
        let step = made.step(&states.now);
        let mut after = states.now.clone();
        step.apply(&mut after);
        let done = if matches!(step, Step::Reopen) {
            drop(database);
            match open_in_spite(disk, options, &mut may_fail, context) {
                Some(opened) => database = opened,
                None => return,
            }
            Ok(())
        } else {
            step.run(&database)
        };
        let has_power = !context.contains("crash");
        match done {
            Ok(()) if matches!(step, Step::Sync | Step::Checkpoint) => states.unsynced.clear(),
            Ok(()) if states.now == after => {}
            Ok(()) => states.unsynced.push(std::mem::replace(&mut states.now, after)),
            Err(error) => {
                assert_eq!(error.class(), Class::Environment, "{context}: {step:?}: {error:?}");
                assert!(may_fail, "{context}: {step:?} failed without reason: {error:?}");
                let is_failed_call = context.contains(FAILED_CALL);
                if is_failed_call {
                    disk.clear_faults();
                    may_fail = false;
                }
                if has_power {
                    assert_eq!(read(&database), states.now, "{context}: {step:?} failed");
                }
                let is_in_doubt = !has_power || matches!(error, Error::InDoubt { .. });
                if is_failed_call && !is_in_doubt {
                    continue;
                }
                states.in_flight = is_in_doubt.then_some((step, after));
                return;
            }
        }
        // While calls fail, reading may fail too.
        let can_read = has_power && !(may_fail && context.contains(FAILED_CALL));
        if made.random.one_in(8) && can_read {
            assert_eq!(read(&database), states.now, "{context}: after {step:?}");
        }
    }
}

/// The seeds of this run.
#[expect(clippy::disallowed_methods, reason = "a test has no config")]
pub(crate) fn seeds(standard: Range<u64>) -> Range<u64> {
    let Ok(range) = std::env::var("TIDEGATE_SIMULATE") else { return standard };
    let (first, end) = range.split_once("..").expect("TIDEGATE_SIMULATE=first..end");
    first.parse().expect("a number")..end.parse().expect("a number")
}

#[test]
fn random_workloads_survive_every_disk_fault() {
    for seed in seeds(0..1_500) {
        let outcome = std::panic::catch_unwind(|| simulate(seed));
        assert!(outcome.is_ok(), "TIDEGATE_SIMULATE={seed}..{} shows it again", seed + 1);
    }
}
