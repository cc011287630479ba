//! Benchmarks of generating rows, of sending them, and of both at once; and the limit of loopback.

use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use clap::Parser;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tempfile::tempdir;
use tidegate_bench::tsbs::{Format, Options, Sink, TsbsCommand, UseCase, generate, run};

const SIMULATION: &str = "--use-case iot --seed 123 --scale 100";

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: TsbsCommand,
}

fn tsbs(line: &str) {
    let words = std::iter::once("tsbs").chain(line.split_whitespace());
    run(&Line::try_parse_from(words).expect("a command").command).expect("it runs");
}

/// Generates rows that go nowhere, on one thread and on two.
fn generating(c: &mut Criterion) {
    let mut group = c.benchmark_group("generate");
    for use_case in [UseCase::CpuOnly, UseCase::Iot, UseCase::Devops] {
        let options = Options { scale: 100, ..Options::small(use_case) };
        for threads in [1, 2] {
            let threads = NonZeroUsize::new(threads).expect("not zero");
            let work = || {
                let write = |text: &[u8]| {
                    black_box(text);
                    Ok(())
                };
                generate(&options, Format::Line, threads, write).expect("nothing can fail").rows
            };
            group.throughput(Throughput::Elements(work()));
            group.bench_function(BenchmarkId::new(use_case.name(), threads), |b| b.iter(work));
        }
    }
    group.finish();
}

/// Loads into the sink: from a file, from rows generated on the fly, and by sending the same bytes
/// again and again, which is the most that two connections over loopback can carry.
fn loading(c: &mut Criterion) {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("iot.ilp");
    let simulation = format!("{SIMULATION} --timestamp-end 2016-01-01T06:00:00Z");
    tsbs(&format!("generate {simulation} --format questdb --file {}", path.display()));
    let bytes = fs::metadata(&path).expect("it was made").len();
    let sink = Sink::start("127.0.0.1:0", None, false).expect("a sink");
    let place = format!("--ilp-bind-to {} --workers 2 --reporting-period 0", sink.tcp());
    let mut group = c.benchmark_group("load");
    group.throughput(Throughput::Bytes(bytes)).sample_size(10);
    group.bench_function("file", |b| {
        b.iter(|| tsbs(&format!("load sink {place} --file {}", path.display())));
    });
    group.bench_function("generated", |b| {
        b.iter(|| tsbs(&format!("load sink {place} --generate {simulation}")));
    });
    let text = vec![b'x'; 512 * 1024];
    let send = || {
        let mut stream = TcpStream::connect(sink.tcp()).expect("it listens");
        for _ in 0..bytes / 2 / text.len() as u64 {
            stream.write_all(&text).expect("it takes all");
        }
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(stream.read(&mut [0]).expect("it answers nothing"), 0);
    };
    group.bench_function("the same bytes", |b| {
        b.iter(|| thread::scope(|scope| [scope.spawn(send), scope.spawn(send)].map(drop)));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500));
    targets = generating, loading
}
criterion_main!(benches);
