//! An import that is cancelled at any call of the disk.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use tidegate_ingest::{Error, Phase, Progress, import};
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema, TimeUnit};
use tidegate_platform::SimDisk;

use super::hook::HookDisk;
use crate::world::{TABLE, World, assert_same_rows, schema_of};

fn schema() -> Schema {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("host", ColumnType::Symbol),
        ("n", ColumnType::Int64),
    ];
    schema_of(&columns, Some("ts"), PartitionUnit::Day)
}

fn text(rows: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for row in 0..rows {
        let (day, minute) = (1 + row * 5 % 9, row % 60);
        let line = format!("2021-03-0{day} 10:{minute:02}:00,host {},{row}\n", row % 5);
        text.extend_from_slice(line.as_bytes());
    }
    text
}

/// Cancels at the `nth` call after the start of an import; returns the phase of that call, and
/// checks the result.
fn cancelled_at(nth: u64, workers: usize) -> Option<Phase> {
    let progress = Arc::new(Progress::new());
    let (cancel, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(u64::MAX)));
    let phase = Arc::new(std::sync::Mutex::new(None));
    let (flag, left, watched, seen) =
        (Arc::clone(&cancel), Arc::clone(&calls), Arc::clone(&progress), Arc::clone(&phase));
    let sim = SimDisk::new(nth);
    let disk = HookDisk::new(sim.clone(), move |_| {
        if left.fetch_sub(1, SeqCst) == 1 {
            flag.store(true, SeqCst);
            *seen.lock().unwrap() = Some(watched.sample().phase);
        }
    });
    let world = World::on(Arc::new(disk), Path::new("/"));
    let first = world.put("first.csv", &text(100));
    world.import(&world.options(&schema(), &[first])).unwrap();
    let (before, files) = (world.rows(), sim.files());
    // A compressed file is read in many calls.
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gz.write_all(&text(6_000)).unwrap();
    let second = world.put("second.csv", &gz.finish().unwrap());
    let mut options = world.options(&schema(), std::slice::from_ref(&second));
    options.workers = NonZeroUsize::new(workers).unwrap();
    options.memory_max = ByteCount(128 << 20);
    calls.store(nth, SeqCst);
    let outcome = import(&world.database, &options, &progress, &cancel);
    calls.store(u64::MAX, SeqCst);
    let context = format!("call {nth}, {:?}", phase.lock().unwrap());
    match outcome {
        Ok(summary) => {
            assert_eq!(summary.rows_imported, 6_000, "{context}");
            assert_eq!(world.rows().len(), 6_100, "{context}");
        }
        Err(Error::Cancelled) => {
            assert_same_rows(&world.rows(), &before, &context);
            let mut left = sim.files();
            left.retain(|(path, _)| *path != second);
            let names = |files: &[(std::path::PathBuf, u64)]| -> Vec<_> {
                files.iter().map(|(path, _)| path.clone()).collect()
            };
            assert_eq!(names(&left), names(&files), "{context}: no file is left");
        }
        Err(error) => panic!("{context}: {error:?}"),
    }
    world.check_sound(&context);
    // The next import is not affected.
    let third = world.put("third.csv", &text(10));
    world.import(&world.options(&schema(), &[third])).unwrap();
    *phase.lock().unwrap()
}

#[test]
fn a_cancelled_import_leaves_no_trace_whenever_it_is_told() {
    let mut phases = Vec::new();
    let mut nth = 1;
    while let Some(phase) = cancelled_at(nth, 1 + usize::try_from(nth % 2).unwrap()) {
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
        nth += 1 + nth / 20;
    }
    for phase in [Phase::Setup, Phase::Read, Phase::Build, Phase::Commit] {
        assert!(phases.contains(&phase), "{phase} was hit: {phases:?}");
    }
}

#[test]
fn an_import_that_is_cancelled_before_it_begins_makes_no_table() {
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let path = world.put("a.csv", &text(10));
    let (progress, cancel) = (Arc::new(Progress::new()), AtomicBool::new(true));
    let options = world.options(&schema(), &[path]);
    let outcome = import(&world.database, &options, &progress, &cancel);
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    assert!(world.database.snapshot(TABLE).is_err());
}
