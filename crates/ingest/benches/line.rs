//! Speed of the line protocol parser on one thread. Throughput is in lines; the name of a
//! measurement contains the bytes of a line.
//!
//! The lines are like those of TSBS, <https://github.com/timescale/tsbs>: `cpu-only` has ten tags
//! and ten integers, `iot` readings have eight tags and seven floats, some of which are missing.
//! The number of digits changes from line to line; `hosts` take turns.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_ingest::line::{LineHost, LineOptions, LineParser, OnBadLine};
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit};

/// Lines of one measurement: a batch of a busy connection.
const LINES: u64 = 50_000;

/// A host whose table exists already, as after the first batch.
struct Host(Option<Arc<Schema>>);

impl LineHost for Host {
    fn schema_of(&mut self, _: &str) -> Option<Arc<Schema>> {
        self.0.clone()
    }

    fn now_nanos(&mut self) -> i64 {
        0
    }
}

/// A pseudo-random number over the whole range.
fn mixed(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 7
}

/// One of the words.
fn choose(words: &[&'static str], number: u64) -> &'static str {
    words[usize::try_from(number % words.len() as u64).expect("a few words")]
}

fn cpu_only(hosts: u64) -> Vec<u8> {
    const FIELDS: [&str; 10] = [
        "user",
        "system",
        "idle",
        "nice",
        "iowait",
        "irq",
        "softirq",
        "steal",
        "guest",
        "guest_nice",
    ];
    const REGIONS: [&str; 5] =
        ["us-east-1", "eu-central-1", "ap-southeast-2", "sa-east-1", "us-west-1"];
    let mut text = String::new();
    for line in 0..LINES {
        let (host, step) = (line % hosts, line / hosts);
        let tag = mixed(host);
        let region = choose(&REGIONS, tag);
        text += &format!(
            "cpu,hostname=host_{host},region={region},datacenter={region}{},rack={},\
             os=Ubuntu1{}.10,arch=x{},team={},service={},service_version={},\
             service_environment={} ",
            choose(&["a", "b", "c"], tag),
            tag >> 8 & 63,
            5 + (tag >> 14 & 1),
            choose(&["86", "64"], tag >> 15),
            choose(&["SF", "NYC", "LON", "CHI"], tag >> 16),
            tag >> 18 & 15,
            tag >> 22 & 1,
            choose(&["production", "staging", "test"], tag >> 23),
        );
        for (number, field) in FIELDS.into_iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            text += &format!("{comma}usage_{field}={}i", mixed(line * 10 + number as u64) % 101);
        }
        text += &format!(" {}\n", 1_451_606_400_000_000_000 + step * 10_000_000_000);
    }
    text.into_bytes()
}

/// The same lines with other hosts.
fn renamed(text: &[u8], letter: u8) -> Vec<u8> {
    let mut text = text.to_vec();
    let hosts: Vec<usize> = memchr::memmem::find_iter(&text, "=host_").collect();
    for host in hosts {
        text[host + 1] = letter;
    }
    text
}

fn iot(hosts: u64) -> Vec<u8> {
    const FIELDS: [&str; 7] =
        ["latitude", "longitude", "elevation", "velocity", "heading", "grade", "fuel_consumption"];
    let mut text = String::new();
    for line in 0..LINES {
        let (host, step) = (line % hosts, line / hosts);
        let tag = mixed(host);
        text += &format!("readings,name=truck_{host},fleet=");
        text += choose(&["East", "West", "North", "South"], tag);
        if tag & 32 == 0 {
            text += &format!(",driver=driver_{}", tag >> 6 & 63);
        }
        text += &format!(
            ",model=F-{},device_version=v{}.{},load_capacity={}00,fuel_capacity=300,\
             nominal_fuel_consumption={} ",
            150 + (tag >> 12 & 3) * 50,
            tag >> 14 & 3,
            tag >> 16 & 7,
            15 + (tag >> 19 & 31),
            12 + (tag >> 24 & 15),
        );
        let mut comma = "";
        for (number, field) in FIELDS.into_iter().enumerate() {
            let value = mixed(line * 7 + number as u64);
            if value.is_multiple_of(16) {
                continue;
            }
            let number = match number {
                0 | 1 => format!("{}.{:05}", value >> 4 & 63, value >> 10 & 65_535),
                6 => format!("{}.{}", value >> 4 & 63, value >> 10 & 7),
                _ => (value >> 4 & 127).to_string(),
            };
            text += &format!("{comma}{field}={number}");
            comma = ",";
        }
        text += &format!(" {}\n", 1_451_606_400_000_000_000 + step * 10_000_000_000);
    }
    text.into_bytes()
}

/// The table that the lines create.
fn table_of(text: &[u8]) -> Arc<Schema> {
    let mut parser = LineParser::new(LineOptions::new(OnBadLine::Stop));
    parser.feed(text, &mut Host(None)).expect("lines without parse errors");
    let rows = parser.take().remove(0).rows;
    let mut columns: Vec<(String, ColumnType)> =
        rows.columns().iter().map(|column| (column.name.clone(), column.ty)).collect();
    let last = columns.last_mut().expect("the designated timestamp");
    last.1 = ColumnType::Timestamp(TimeUnit::Micros);
    Arc::new(Schema::new(&columns, Some("timestamp"), PartitionUnit::Day).expect("columns"))
}

/// Measures the parser on one text after the other, over and over.
fn measure(criterion: &mut Criterion, name: &str, texts: &[Vec<u8>]) {
    let text = &texts[0];
    let mut group = criterion.benchmark_group("line");
    group.throughput(Throughput::Elements(LINES));
    let mut host = Host(Some(table_of(text)));
    let id = BenchmarkId::new(name, format!("{} bytes", text.len() as u64 / LINES));
    group.bench_function(id, |bencher| {
        let mut parser = LineParser::new(LineOptions::new(OnBadLine::Stop));
        let mut turns = texts.iter().cycle();
        bencher.iter(|| {
            let text = turns.next().expect("a cycle");
            for chunk in text.chunks(256 << 10) {
                parser.feed(chunk, &mut host).expect("lines without parse errors");
            }
            black_box(parser.take())
        });
    });
    group.finish();
}

/// A connection whose series repeat in the same order, and one whose series never repeat.
fn lines(criterion: &mut Criterion) {
    measure(criterion, "cpu_only_4000_hosts", &[cpu_only(4_000)]);
    // Many more series than a parser caches.
    let text = cpu_only(LINES);
    let texts: Vec<Vec<u8>> = (b'a'..b'k').map(|letter| renamed(&text, letter)).collect();
    measure(criterion, "cpu_only_all_new", &texts);
    measure(criterion, "iot_4000_trucks", &[iot(4_000)]);
}

/// A request of a thousand lines for a table that does not exist.
fn first_request(criterion: &mut Criterion) {
    let text = cpu_only(1_000);
    let end = memchr::memchr_iter(b'\n', &text).nth(999).expect("a thousand lines") + 1;
    let mut group = criterion.benchmark_group("line");
    group.throughput(Throughput::Elements(1_000));
    group.bench_function("cpu_only_first_request", |bencher| {
        bencher.iter(|| {
            let mut parser = LineParser::new(LineOptions::new(OnBadLine::Stop));
            parser.feed(&text[..end], &mut Host(None)).expect("lines without parse errors");
            black_box(parser.take())
        });
    });
    group.finish();
}

criterion_group!(benches, lines, first_request);
criterion_main!(benches);
