//! Random workloads in which the files of one table fail: only that table may have anything to do
//! with it.
//!
//! Set `TIDEGATE_SIMULATE=first..end` to run other seeds than those of every test run.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tidegate_platform::{Class, SimCall, SimDisk, SimErrno};
use tidegate_storage::{Database, Durability, OpenOptions};

use crate::fixture::{DIR, chain};
use crate::model::{Step, Tables, read};
use crate::simulate::{Generator, Random, options, seeds};

fn open(disk: &SimDisk, options: &OpenOptions) -> Arc<Database> {
    let opened = Database::open(Arc::new(disk.clone()), Path::new(DIR), options);
    opened.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

fn run_all(range: std::ops::Range<u64>, run: fn(u64)) {
    for seed in seeds(range) {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "TIDEGATE_SIMULATE={seed}..{} shows it again", seed + 1);
    }
}

/// The tables that a step is about.
fn tables_of(step: &Step, all: &Tables) -> BTreeSet<String> {
    let one = |name: &str| BTreeSet::from([name.to_owned()]);
    match step {
        Step::Append(tables) | Step::Batch(_, tables) => {
            tables.iter().map(|(table, ..)| (*table).to_owned()).collect()
        }
        Step::Drop(names) => names.iter().map(|name| (*name).to_owned()).collect(),
        Step::Create(table)
        | Step::ImportNew(table, _)
        | Step::Import(table, _)
        | Step::Abort(table, _)
        | Step::Truncate(table)
        | Step::AddColumn(table, ..)
        | Step::DropColumn(table, _)
        | Step::RenameColumn(table, ..)
        | Step::Delete(table, _)
        | Step::Change(table, ..)
        | Step::Update(table, _)
        | Step::DropPartition(table, _)
        | Step::Keys(table, _)
        | Step::Seal(table)
        | Step::Rename(table, _)
        | Step::Merge(table) => one(table),
        Step::Maintain | Step::Checkpoint | Step::Flush | Step::Reopen => {
            all.keys().cloned().collect()
        }
    }
}

fn one_table_fails(seed: u64) {
    let mut random = Random(seed);
    let (disk, mut made) = (SimDisk::new(seed), Generator::new(seed ^ 0xbeef));
    let mut options = options(&mut random);
    let mut database = open(&disk, &options);
    let mut tables = Tables::new();
    for round in 0..3 {
        let names: Vec<String> = tables.keys().cloned().collect();
        let mut failing = None;
        if !names.is_empty() {
            let name = names[usize::try_from(random.below(names.len() as u64)).unwrap()].clone();
            let id = database.table_id(&name).unwrap();
            let dir = Path::new(DIR).join("data").join(id.to_string());
            let calls = [
                vec![SimCall::Open, SimCall::Create, SimCall::MakeDir, SimCall::Rename],
                vec![SimCall::Create, SimCall::Write],
                vec![SimCall::Rename],
                vec![SimCall::Remove, SimCall::Resize, SimCall::List],
            ];
            let at = usize::try_from(random.below(4)).unwrap();
            disk.fail_calls_in(&dir, &calls[at], random.pick(&SimErrno::ALL));
            failing = Some(id);
        }
        for _ in 0..25 {
            let step = made.step(&tables);
            if matches!(step, Step::Reopen) {
                continue;
            }
            let name = failing.and_then(|id| database.table_name(id));
            let is_about = name.is_some_and(|name| tables_of(&step, &tables).contains(&name));
            let context = format!("seed {seed}, round {round}, {step:?}");
            match step.run(&database) {
                Ok(()) => step.apply(&mut tables),
                Err(error) => {
                    assert!(is_about, "{context}: {}", chain(&error));
                    assert_eq!(error.class(), Class::Environment, "{context}: {error:?}");
                }
            }
        }
        let is_crash = random.below(2) == 0;
        let crashed = is_crash.then(|| {
            database.flush().unwrap();
            disk.after_power_loss_by(seed)
        });
        let context = format!("seed {seed}, round {round}, crash: {is_crash}");
        if let Some(crashed) = crashed {
            options.log.durability = random.pick(&[Durability::Sync, Durability::Async]);
            let found = read(&open(&crashed, &options));
            assert_eq!(found, tables, "{context}: after the crash");
        }
        disk.clear_faults();
        assert_eq!(read(&database), tables, "{context}");
        drop(database);
        database = open(&disk, &options);
        assert_eq!(read(&database), tables, "{context}: opened again");
        let problems = database.verify(&|_| {}).unwrap().problems;
        assert!(problems.is_empty(), "{context}: {problems:?}");
    }
}

#[test]
fn files_of_one_table_that_fail_fail_no_other_one() {
    run_all(0..150, one_table_fails);
}
