//! Random texts through every path of the pipeline: order of rows, input chunks, threads, kind of
//! I/O, disk, spill (STYLE 40).

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use tidegate_model::{ByteCount, ColumnType, PartitionUnit, TimeUnit, limits};
use tidegate_platform::{IoChoice, IoMode, RealDisk, SimDisk, detect_io};

use super::random::Random;
use super::text::{RandomText, TextSpec};
use crate::plain::{self, PlainOptions};
use crate::world::{Expected, World, assert_same_rows, check_import, schema_of};

/// A path through the pipeline.
#[derive(Debug, Clone, Copy)]
struct Route {
    workers: usize,
    memory_mib: u64,
    io: IoMode,
    disk: DiskKind,
}

#[derive(Debug, Clone, Copy)]
enum DiskKind {
    Sim,
    Real,
}

impl Route {
    fn random(random: &mut Random) -> Route {
        let workers = 1 + random.index(4);
        let memory_mib = random.one_of(&[32 * workers as u64, 1_024]);
        Route { workers, memory_mib, io: IoMode::Sync, disk: DiskKind::Sim }
    }

    /// Every number of workers with every kind of I/O that this machine has, on both disks.
    fn all() -> Vec<Route> {
        let mut routes = Vec::new();
        for workers in 1..=4 {
            let memory_mib = if workers % 2 == 0 { 32 * workers as u64 } else { 1_024 };
            routes.push(Route { workers, memory_mib, io: IoMode::Sync, disk: DiskKind::Sim });
            routes.push(Route { workers, memory_mib, io: IoMode::Sync, disk: DiskKind::Real });
            if detect_io(IoMode::Auto).unwrap() == IoChoice::Uring {
                routes.push(Route { workers, memory_mib, io: IoMode::Uring, disk: DiskKind::Real });
            }
        }
        routes
    }

    fn check(&self, text: &RandomText, expected: &Expected, context: &str) {
        let context = format!("{context}, {self:?}");
        let folder = tempfile::tempdir().unwrap();
        let world = match self.disk {
            DiskKind::Sim => World::on(Arc::new(SimDisk::new(1)), Path::new("/")),
            DiskKind::Real => World::on(Arc::new(RealDisk), folder.path()),
        };
        let mut options = text.put(&world);
        options.workers = NonZeroUsize::new(self.workers).unwrap();
        options.memory_max = ByteCount(self.memory_mib << 20);
        options.io = self.io;
        let outcome = world.import(&options);
        check_import(&world, &outcome, expected, &context);
        world.check_sound(&context);
    }
}

fn check_seeds(seeds: std::ops::Range<u64>, spec: &TextSpec, routes: usize) {
    for seed in seeds {
        let context = format!("seed {seed} of {spec:?}");
        let mut random = Random::new(seed);
        let text = RandomText::new(&mut random, spec);
        let expected = text.expected();
        for _ in 0..routes {
            Route::random(&mut random).check(&text, &expected, &context);
        }
    }
}

#[test]
fn small_texts_become_the_rows_of_the_plain_reader() {
    for (files, bad_percent) in [(1, 0), (1, 40), (3, 15)] {
        let spec = TextSpec { rows: 25, files, bad_percent, long_bytes: 0 };
        check_seeds(0..25, &spec, 1);
    }
    let spec = TextSpec { rows: 1, files: 1, bad_percent: 0, long_bytes: 0 };
    check_seeds(0..15, &spec, 1);
}

#[test]
fn texts_of_several_chunks_become_the_rows_of_the_plain_reader() {
    let spec = TextSpec { rows: 9_000, files: 1, bad_percent: 2, long_bytes: 0 };
    check_seeds(100..104, &spec, 2);
    let spec = TextSpec { rows: 1_500, files: 4, bad_percent: 5, long_bytes: 0 };
    check_seeds(110..113, &spec, 1);
}

#[test]
fn records_longer_than_a_chunk_are_put_together() {
    for long_bytes in [300 << 10, 1 << 20] {
        let spec = TextSpec { rows: 60, files: 2, bad_percent: 5, long_bytes };
        check_seeds(200..204, &spec, 1);
    }
}

#[test]
fn every_route_leads_to_the_same_table() {
    let spec = TextSpec { rows: 5_000, files: 2, bad_percent: 3, long_bytes: 70_000 };
    let mut random = Random::new(300);
    let text = RandomText::new(&mut random, &spec);
    let expected = text.expected();
    assert!(text.bytes() > 300_000, "{} bytes are several chunks", text.bytes());
    for route in Route::all() {
        route.check(&text, &expected, "seed 300");
    }
}

/// Rows that are ten times as large in memory as in the file, and so are spilled.
#[test]
fn spilled_rows_are_read_back_unchanged() {
    let mut columns = vec![("ts", ColumnType::Timestamp(TimeUnit::Micros))];
    let names: Vec<String> = (0..24).map(|at| format!("d{at}")).collect();
    let decimal = ColumnType::Decimal { precision: 20, scale: 2 };
    columns.extend(names.iter().map(|name| (name.as_str(), decimal)));
    columns.push(("s", ColumnType::Varchar));
    for (seed, partition_by) in [(1, PartitionUnit::Day), (2, PartitionUnit::None)] {
        let mut random = Random::new(seed);
        let schema = schema_of(&columns, Some("ts"), partition_by);
        let mut text = Vec::new();
        for row in 0..90_000 {
            let seconds = random.below(20 * 86_400);
            let (day, rest) = (1 + seconds / 86_400, seconds % 86_400);
            let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
            let ts = format!("2020-01-{day:02} {hour:02}:{minute:02}:{second:02}");
            text.extend_from_slice(ts.as_bytes());
            for at in 0..24 {
                let cell = if (row + at) % 12 == 0 { format!(",{}", row % 97) } else { ",".into() };
                text.extend_from_slice(cell.as_bytes());
            }
            text.extend_from_slice(format!(",row {row}\n").as_bytes());
        }
        let mut expected = Expected::default();
        expected.add(Path::new("wide.csv"), plain::read(&text, &PlainOptions::of(&schema)));
        let expected = expected.sorted(&schema);
        let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
        let path = world.put("wide.csv", &text);
        let mut options = world.options(&schema, &[path]);
        options.workers = NonZeroUsize::MIN;
        options.memory_max = ByteCount(32 << 20);
        let summary = world.import(&options).unwrap();
        assert!(summary.spilled_bytes > 8 << 20, "seed {seed}: {}", summary.spilled_bytes);
        assert_same_rows(&world.rows(), &expected.rows, &format!("seed {seed}"));
        world.check_sound(&format!("seed {seed}"));
    }
}

#[test]
#[ignore = "slow: some minutes, for before a release"]
fn many_texts_become_the_rows_of_the_plain_reader() {
    for (rows, files, bad_percent, long_bytes) in [
        (1, 1, 0, 0),
        (5, 2, 30, 0),
        (50, 1, 10, 0),
        (300, 3, 20, 0),
        (300, 1, 5, 300 << 10),
        (4_000, 2, 5, 1 << 20),
    ] {
        let spec = TextSpec { rows, files, bad_percent, long_bytes };
        let seeds = if rows < 1_000 { 400 } else { 40 };
        check_seeds(1_000..1_000 + seeds, &spec, 2);
    }
    let spec = TextSpec { rows: 60_000, files: 2, bad_percent: 1, long_bytes: 0 };
    for seed in 0..6 {
        let mut random = Random::new(9_000 + seed);
        let text = RandomText::new(&mut random, &spec);
        let expected = text.expected();
        // Segments of several page frames.
        const { assert!(limits::FRAME_ROWS.0 < 120_000) };
        for route in Route::all() {
            route.check(&text, &expected, &format!("seed {seed}"));
        }
    }
}
