//! The bodies of the fuzz targets, run over their committed corpora: findings of a fuzzer stay
//! tested, and the bodies stay in working order (STYLE 39). Fuzzing itself: `fuzz/README.md`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::layout::SEGMENT_HEADER_BYTES;
use tidegate_model::{ColumnType, PartitionUnit, RowCount, SegmentId, TableId, TimeUnit};
use tidegate_platform::{Disk, RealDisk, SimDisk};
use tidegate_storage::DeletionVector;

use crate::import::random::Random;
use crate::world::{TABLE, World, put, schema_of};

#[path = "../../../../fuzz/src/targets/all.rs"]
pub(crate) mod targets;

/// The directory of the corpora.
pub(crate) fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed")
}

/// Runs a target over its corpus.
fn replay(target: &str, check: fn(&[u8])) {
    let dir = corpus().join(target);
    let entries = RealDisk.list(&dir).unwrap();
    assert!(!entries.is_empty(), "{}", dir.display());
    for entry in entries {
        let path = dir.join(&entry.name);
        // After a panic the file is known only here.
        println_on_failure(&path);
        check(&RealDisk.read(&path).unwrap());
    }
    // Empty and short inputs are in no corpus.
    for length in 0..40_u8 {
        check(&vec![0; length.into()]);
        check(&(0..length).map(|byte| byte.wrapping_mul(37)).collect::<Vec<u8>>());
    }
}

#[expect(clippy::print_stdout, reason = "the test harness shows it if the test fails")]
fn println_on_failure(path: &Path) {
    println!("{}", path.display());
}

macro_rules! targets {
    ($($target:ident),* $(,)?) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target), targets::$target::check);
            }
        )*
    };
}

targets!(
    catalog, cell, csv, footer, index, line, manifest, mask, parquet, segment, sniff, symbols,
    timestamp, wal_group,
);

/// The files of a database, created by an import.
fn database() -> (SimDisk, World) {
    let disk = SimDisk::new(1);
    let world = World::on(Arc::new(disk.clone()), Path::new("/"));
    let names: Vec<String> = (0..ColumnType::ALL.len()).map(|at| format!("c{at}")).collect();
    let mut columns = vec![("ts", ColumnType::Timestamp(TimeUnit::Micros))];
    columns.extend(names.iter().map(String::as_str).zip(ColumnType::ALL));
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Month);
    let mut text = Vec::new();
    let mut random = Random::new(4);
    for row in 0..60 {
        text.extend_from_slice(format!("2021-03-{:02}T00:00:00", 1 + row % 28).as_bytes());
        for ty in ColumnType::ALL {
            let cell = match ty {
                _ if random.percent(20) => String::new(),
                ColumnType::Boolean => "t".to_owned(),
                ColumnType::Timestamp(_) => format!("2020-01-01T00:00:{row:02}"),
                ColumnType::Date => format!("2020-01-{:02}", 1 + row % 31),
                ColumnType::Symbol => format!("symbol {}", row % 5),
                ColumnType::Varchar => format!("https://example.org/a/path/{row}/and/more"),
                ColumnType::Binary => format!("\\x{row:04x}"),
                ColumnType::Uuid => format!("{row:032x}"),
                ColumnType::Ipv4 => format!("10.0.0.{row}"),
                ColumnType::Float32 | ColumnType::Float64 => format!("{row}.25"),
                _ => (row * row % 100).to_string(),
            };
            text.push(b',');
            text.extend_from_slice(cell.as_bytes());
        }
        text.push(b'\n');
    }
    let path = world.put("a.csv", &text);
    world.import(&world.options(&schema, &[path])).unwrap();
    (disk, world)
}

/// The value in a checksummed file: docs/format.md, Checksummed files.
fn body(file: &[u8]) -> &[u8] {
    &file[20..file.len() - 4]
}

/// Writes the corpora of stored values anew, for a change of a format.
#[test]
#[ignore = "slow: writes files of the repository, by hand after a change of a format"]
fn corpora_of_stored_values_are_written() {
    let (disk, world) = database();
    let read = |path: &str| disk.read(Path::new(path)).unwrap();
    let write = |target: &str, bytes: &[u8]| {
        put(&RealDisk, &corpus().join(target).join("stored"), bytes);
    };
    let snapshot = world.database.snapshot(TABLE).unwrap();
    let run = Arc::clone(snapshot.segments().next().unwrap());
    let footer = run.reader().unwrap().footer().encode();
    write("footer", &footer);
    let file = disk.read(run.path()).unwrap();
    let end = file.len() - 24 - footer.len();
    let length = u16::try_from(footer.len()).unwrap().to_le_bytes();
    write("segment", &[&length, footer.as_slice(), &file[SEGMENT_HEADER_BYTES..end]].concat());
    let mask = DeletionVector::new(RowCount(9_000), &[0, 1, 5_000, 8_999]);
    write("mask", body(&mask.encode(TableId(1), SegmentId(2))));
    let log = disk.files().into_iter().find(|(path, _)| path.starts_with("/db/wal")).unwrap().0;
    write("wal_group", &group_seed(&disk.read(&log).unwrap()[4_096..]));
    let symbols = disk.files().into_iter().find(|(path, _)| path.starts_with("/db/data/1/symbols"));
    let symbols = disk.read(&symbols.unwrap().0).unwrap();
    write("symbols", &[&5_u16.to_le_bytes(), &symbols[28..]].concat());
    drop((snapshot, run));
    drop(world);
    write("catalog", body(&read("/db/data/catalog")));
    write("manifest", body(&read("/db/data/1/manifest")));
}

/// The records of a group in the form of the target's input.
fn group_seed(group: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(group[at..at + 4].try_into().unwrap()) as usize;
    let (bytes, count) = (word(32), word(40));
    let mut seed = vec![u8::try_from(count).unwrap(), 0];
    let mut at = 64;
    while at < bytes {
        let length = word(at);
        seed.extend_from_slice(&u16::try_from(length).unwrap().to_le_bytes());
        seed.extend_from_slice(&group[at + 8..at + 8 + length]);
        at += 8 + length;
    }
    seed
}
