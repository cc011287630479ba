//! The budget of an import: what is counted stays within it, whatever the rows look like.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use tidegate_ingest::{Progress, import};
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema, TimeUnit};
use tidegate_platform::SimDisk;

use super::hook::{Call, HookDisk};
use super::random::Random;
use crate::plain::{self, PlainOptions};
use crate::world::{Expected, World, assert_same_rows, schema_of};

/// Imports with one worker, and says the most memory that was counted at any read or write, and
/// how much was spilled.
fn peak_of(schema: &Schema, text: &[u8], memory_max: u64) -> (u64, u64) {
    let progress = Arc::new(Progress::new());
    let peak = Arc::new(AtomicU64::new(0));
    let (watched, highest) = (Arc::clone(&progress), Arc::clone(&peak));
    let disk = HookDisk::new(SimDisk::new(1), move |call| {
        if matches!(call, Call::Read(..) | Call::Write(_)) {
            highest.fetch_max(watched.sample().memory_bytes, SeqCst);
        }
    });
    let world = World::on(Arc::new(disk), Path::new("/"));
    let path = world.put("a.csv", text);
    let mut options = world.options(schema, &[path]);
    options.workers = NonZeroUsize::MIN;
    options.memory_max = ByteCount(memory_max);
    let summary = import(&world.database, &options, &progress, &AtomicBool::new(false)).unwrap();
    let mut expected = Expected::default();
    expected.add(Path::new("a.csv"), plain::read(text, &PlainOptions::of(schema)));
    assert_same_rows(&world.rows(), &expected.sorted(schema).rows, "spilled");
    (peak.load(SeqCst), summary.spilled_bytes)
}

/// Long texts that do not repeat: rows are few, and each is large.
#[test]
fn long_texts_are_spilled_before_they_outgrow_the_budget() {
    const MEMORY: u64 = 32 << 20;
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("text", ColumnType::Varchar)];
    for (designated, unit) in [(Some("ts"), PartitionUnit::Day), (None, PartitionUnit::None)] {
        let schema = schema_of(&columns, designated, unit);
        let mut random = Random::new(1);
        let mut text = Vec::new();
        for row in 0..1_200 {
            let second = random.below(60);
            text.extend_from_slice(format!("2021-03-01T00:00:{second:02},{row}-").as_bytes());
            for _ in 0..3_750 {
                text.extend_from_slice(format!("{:016x}", random.next()).as_bytes());
            }
            text.push(b'\n');
        }
        assert!(2 * MEMORY < text.len() as u64);
        let (peak, spilled) = peak_of(&schema, &text, MEMORY);
        assert!(peak <= MEMORY, "{peak} bytes were counted of {MEMORY}");
        assert!(spilled > 20 << 20, "{spilled}");
    }
}

/// Symbols that do not repeat are in memory until the end.
#[test]
fn what_interners_hold_is_counted() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("id", ColumnType::Symbol)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let mut text = Vec::new();
    for row in 0..60_000 {
        let line = format!("2021-03-01T00:00:{:02},a symbol that stands only here: {row}\n", row % 60);
        text.extend_from_slice(line.as_bytes());
    }
    let (peak, _) = peak_of(&schema, &text, 256 << 20);
    assert!(peak > 4 << 20, "{peak} bytes, of which 2.5 MB are the texts of symbols");
}
