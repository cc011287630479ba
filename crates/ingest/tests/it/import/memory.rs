//! The budget of an import: what is counted stays within it, whatever the rows look like.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use tidegate_ingest::{Progress, import};
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_platform::SimDisk;

use super::hook::{Call, HookDisk};
use super::random::Random;
use crate::world::{World, assert_same_rows, schema_of, sort_rows};

/// What an import took.
struct Peak {
    /// The most that was counted at any read or write.
    memory: u64,
    spilled: u64,
    rows: Vec<Vec<Value>>,
}

/// Imports with one worker.
fn peak_of(schema: &Schema, text: &[u8], memory_max: u64) -> Peak {
    let progress = Arc::new(Progress::new());
    let peak = Arc::new(AtomicU64::new(0));
    let (watched, highest) = (Arc::clone(&progress), Arc::clone(&peak));
    let disk = HookDisk::new(SimDisk::new(1), move |call| {
        if matches!(call, Call::Read(..) | Call::Write) {
            highest.fetch_max(watched.sample().memory_bytes, SeqCst);
        }
    });
    let world = World::on(Arc::new(disk), Path::new("/"));
    let path = world.put("a.csv", text);
    let mut options = world.options(schema, &[path]);
    options.workers = NonZeroUsize::MIN;
    options.memory_max = ByteCount(memory_max);
    let summary = import(&world.database, &options, &progress, &AtomicBool::new(false)).unwrap();
    let memory = peak.load(SeqCst);
    Peak { memory, spilled: summary.spilled_bytes, rows: world.rows() }
}

/// Long texts that do not repeat: rows are few, and each is large.
#[test]
fn long_texts_are_spilled_before_they_outgrow_the_budget() {
    const MEMORY: u64 = 32 << 20;
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("text", ColumnType::Varchar)];
    for (designated, unit) in [(Some("ts"), PartitionUnit::Day), (None, PartitionUnit::None)] {
        let schema = schema_of(&columns, designated, unit);
        let mut random = Random::new(1);
        let (mut text, mut rows) = (Vec::new(), Vec::new());
        for row in 0..800 {
            let second = random.below(60);
            text.extend_from_slice(format!("2021-03-01T00:00:{second:02},").as_bytes());
            let start = text.len();
            text.extend_from_slice(format!("{row}-").as_bytes());
            while text.len() < start + 60_000 {
                // Letters, so that they are text.
                let letters = random.next() & 0x0F0F_0F0F_0F0F_0F0F | 0x6060_6060_6060_6060;
                text.extend_from_slice(&letters.to_le_bytes());
            }
            let ts = 1_614_556_800_000_000 + i128::from(second) * 1_000_000;
            rows.push(vec![Value::Integer(ts), Value::Bytes(text[start..].to_vec())]);
            text.push(b'\n');
        }
        assert!(4 * MEMORY < 3 * text.len() as u64);
        sort_rows(&mut rows, &schema);
        let Peak { memory, spilled, rows: found } = peak_of(&schema, &text, MEMORY);
        assert!(memory <= MEMORY, "{memory} bytes were counted of {MEMORY}");
        assert!(spilled > 8 << 20, "{spilled}");
        assert_same_rows(&found, &rows, "spilled");
    }
}

/// Symbols that do not repeat are in memory until the end.
#[test]
fn what_interners_hold_is_counted() {
    let columns = [("ts", ColumnType::Timestamp(TimeUnit::Micros)), ("id", ColumnType::Symbol)];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let mut text = Vec::new();
    for row in 0..60_000 {
        let line =
            format!("2021-03-01T00:00:{:02},a symbol that stands only here: {row}\n", row % 60);
        text.extend_from_slice(line.as_bytes());
    }
    let Peak { memory, rows, .. } = peak_of(&schema, &text, 256 << 20);
    assert!(memory > 4 << 20, "{memory} bytes, of which 2.5 MB are the texts of symbols");
    assert_eq!(rows.len(), 60_000);
}
