//! Tests of the generated data: golden hashes and first rows from the original program of TSBS, and
//! equal bytes for any number of threads.

use std::num::{NonZeroU64, NonZeroUsize};

use clap::Parser;
use proptest::prelude::{Strategy, any, proptest};

use super::args::{GenerateArguments, Layout};
use super::format::{Cursor, Scratch};
use super::options::{Format, Options, UseCase};
use super::pipeline::{Generated, Rows, generate};
use super::sha256::{Sha256, hex_sha256};
use super::simulate::Stretch;
use crate::time::Nanos;

const GOLDEN: &str = include_str!("../../tests/golden/tsbs.tsv");

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    generate: GenerateArguments,
}

fn parse(arguments: &str) -> GenerateArguments {
    Line::try_parse_from(std::iter::once("generate").chain(arguments.split(' '))).unwrap().generate
}

fn generated_bytes(options: &Options, format: Format, threads: usize) -> (Vec<u8>, Generated) {
    let mut bytes = Vec::new();
    let threads = NonZeroUsize::new(threads).unwrap();
    let generated = generate(options, format, threads, |text| {
        bytes.extend_from_slice(text);
        Ok(())
    });
    (bytes, generated.unwrap())
}

#[test]
fn bytes_have_the_golden_hashes() {
    for line in GOLDEN.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [arguments, lines, size, expected] = columns[..] else {
            panic!("four columns: {line}")
        };
        let arguments = parse(arguments);
        let Layout::Text(format) = arguments.format.layout() else { panic!("text: {line}") };
        let options = arguments.simulation.options().unwrap();
        for threads in [1, 2, 3] {
            let mut digest = Sha256::new();
            let mut newlines = 0;
            let generated =
                generate(&options, format, NonZeroUsize::new(threads).unwrap(), |text| {
                    digest.add(text);
                    newlines += text.iter().filter(|&&byte| byte == b'\n').count();
                    Ok(())
                })
                .unwrap();
            assert_eq!(generated.bytes.to_string(), size, "{line}");
            assert_eq!(newlines.to_string(), lines, "{line}");
            assert_eq!(digest.hex(), expected, "{threads} threads: {line}");
        }
    }
}

#[test]
fn formats_that_share_a_layout_have_the_same_bytes() {
    let options = Options::small(UseCase::Iot);
    let (headed, _) = generated_bytes(&options, Format::TwoLines, 1);
    let (bare, _) = generated_bytes(&options, Format::TwoLinesBare, 1);
    assert!(headed.ends_with(&bare) && bare.starts_with(b"tags,name=truck_0,"));
    let header = &headed[..headed.len() - bare.len()];
    let expected = "tags,name string,fleet string,driver string,model string,\
        device_version string,load_capacity float32,fuel_capacity float32,\
        nominal_fuel_consumption float32\n\
        diagnostics,fuel_state,current_load,status\n\
        readings,latitude,longitude,elevation,velocity,heading,grade,fuel_consumption\n\n";
    assert_eq!(String::from_utf8_lossy(header), expected);
    for (one, other) in [("questdb", "influx"), ("tidegate", "victoriametrics")] {
        let layout = |name: &str| parse(&format!("--format {name}")).format.layout();
        assert_eq!((layout(one), layout(other)), (Layout::Text(Format::Line), layout("questdb")));
    }
}

#[test]
fn first_rows_are_those_of_the_original() {
    for (use_case, row, expected) in [
        (
            UseCase::CpuOnly,
            0,
            "cpu,hostname=host_0,region=eu-central-1,datacenter=eu-central-1a,rack=6,\
             os=Ubuntu15.10,arch=x86,team=SF,service=19,service_version=1,\
             service_environment=test usage_user=58i,usage_system=2i,usage_idle=24i,\
             usage_nice=61i,usage_iowait=22i,usage_irq=63i,usage_softirq=6i,usage_steal=44i,\
             usage_guest=80i,usage_guest_nice=38i 1451606400000000000",
        ),
        (
            UseCase::Devops,
            40,
            "mem,hostname=host_0,region=eu-west-1,datacenter=eu-west-1c,rack=87,\
             os=Ubuntu16.04LTS,arch=x64,team=NYC,service=18,service_version=1,\
             service_environment=production total=8589934592i,available=7249247244i,\
             used=1340687348i,free=7249247244i,cached=7367310289i,buffered=7268934073i,\
             used_percent=15.607654908671975,available_percent=84.39234509132802,\
             buffered_percent=84.62152994470671 1451606400000000000",
        ),
        (
            UseCase::Iot,
            0,
            "readings,name=truck_0,fleet=South,driver=Trish,model=H-2,device_version=v2.3 \
             load_capacity=1500,fuel_capacity=150,nominal_fuel_consumption=12,\
             latitude=52.31854,longitude=4.72037,elevation=124,velocity=0,heading=221,grade=0,\
             fuel_consumption=25 1451606400000000000",
        ),
    ] {
        let (bytes, generated) = generated_bytes(&Options::small(use_case), Format::Line, 2);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.lines().nth(row), Some(expected));
        assert_eq!(text.lines().count() as u64, generated.rows);
        let fields = |line: &str| line.split_once(' ').unwrap().1.split(',').count() as u64;
        assert_eq!(text.lines().map(fields).sum::<u64>(), generated.metrics);
    }
}

#[test]
fn an_empty_time_range_generates_only_a_header() {
    for use_case in [UseCase::CpuOnly, UseCase::Devops, UseCase::DevopsGeneric, UseCase::Iot] {
        let mut options = Options::small(use_case);
        options.end = options.start;
        let (bytes, generated) = generated_bytes(&options, Format::TwoLines, 2);
        assert_eq!(generated.rows, 0);
        assert!(bytes.starts_with(b"tags,") && bytes.ends_with(b"\n\n"), "{use_case:?}");
    }
}

#[test]
fn another_start_changes_only_the_timestamps() {
    let options = Options::small(UseCase::Iot);
    let mut later = options.clone();
    later.start.0 += 1_000_000_000_000_000_000;
    later.end.0 += 1_000_000_000_000_000_000;
    let (early, _) = generated_bytes(&options, Format::Line, 1);
    let (late, _) = generated_bytes(&later, Format::Line, 1);
    let moved = String::from_utf8(early).unwrap().replace(" 1451", " 2451");
    assert_eq!(hex_sha256(moved.as_bytes()), hex_sha256(&late));
}

/// Any combination of flags that generates at most some ten thousand rows.
fn any_options() -> impl Strategy<Value = Options> {
    let use_cases = proptest::sample::select(vec![
        UseCase::CpuOnly,
        UseCase::CpuSingle,
        UseCase::Devops,
        UseCase::DevopsGeneric,
        UseCase::Iot,
    ]);
    let sizes = (1..400_u64, 0..500_u64, 0..30_u64, 0..9_000_u64, 1..300_u64);
    // Start times before 1970 are included, and intervals from a nanosecond to a day.
    let times = (-1_000_000_000_000_000_000..2_000_000_000_000_000_000_i64, 0..13_u32, 1..87_i64);
    (use_cases, any::<i64>(), sizes, times, (1..5_u64, any::<bool>())).prop_map(
        |(use_case, seed, (scale, initial, epochs, points, metrics), times, (groups, limited))| {
            let (start, digits, factor) = times;
            let interval = 10_i64.pow(digits) * factor;
            let epochs = epochs.min(1 + 3_000 / scale);
            // The last half of an interval generates no row.
            let length = i64::try_from(epochs).unwrap() * interval + interval / 2;
            let options = Options::small(use_case);
            Options {
                start: Nanos(start),
                end: Nanos(start + length),
                interval: NonZeroU64::new(interval.unsigned_abs()).unwrap(),
                seed,
                scale,
                initial_scale: initial,
                max_points: if limited { points } else { 0 },
                groups,
                group: seed.unsigned_abs() % groups,
                max_metrics: metrics,
                ..options
            }
        },
    )
}

proptest! {
    /// Compares the pipeline, on any number of threads, with a loop over the simulator
    /// (pipeline-1).
    #[test]
    fn threads_do_not_change_a_byte(options in any_options(), threads in 2..5_usize) {
        for format in [Format::Line, Format::TwoLines, Format::Crate] {
            let rows = Rows::new(&options, format).unwrap();
            let mut plain = rows.formatter.header();
            let (mut stretch, mut scratch) = (Stretch::default(), Scratch::default());
            let mut count = 0;
            while rows.next(&mut stretch).is_some() {
                let mut cursor = Cursor::default();
                rows.formatter.write(&stretch, &mut scratch, &mut cursor);
                plain.extend_from_slice(cursor.written());
                count += stretch.rows.len() as u64;
            }
            let (parallel, generated) = generated_bytes(&options, format, threads);
            assert_eq!(generated.rows, count);
            assert!(plain == parallel, "{options:?} {format:?}");
        }
    }
}
