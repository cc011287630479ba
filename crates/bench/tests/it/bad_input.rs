//! Targets that are not there or misbehave, and files that are not what they should be: one clear
//! error each, and true counts of what went in.

use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tempfile::{TempDir, tempdir};

use crate::command::{SMALL, generated, load, tsbs};
use crate::servers::{answering, free_port, serve};

#[track_caller]
fn check(line: &str, expected: &str) -> serde_json::Value {
    let dir = tempdir().unwrap();
    let (outcome, results) = load(&dir, line);
    let error = outcome.expect_err(expected);
    assert!(error.starts_with(expected), "{error}");
    results
}

#[test]
fn an_absent_target_is_named() {
    let port = free_port();
    let results = check(
        &format!("sink --generate {SMALL} --ilp-bind-to 127.0.0.1:{port}"),
        &format!("connect to 127.0.0.1:{port}: Connection refused"),
    );
    assert_eq!(results["sentRows"], 0);
    let http = format!("--url http://127.0.0.1:{port}");
    let asked = format!("ask http://127.0.0.1:{port}/");
    check(&format!("questdb --protocol ilp-http --generate {SMALL} {http}"), &asked);
    check(&format!("influx --generate {SMALL} {http}"), &asked);
    check(&format!("clickhouse --generate {SMALL} {http}"), &asked);
    check(&format!("cratedb --generate {SMALL} {http}"), &asked);
    check(
        &format!("timescaledb --generate {SMALL} --host 127.0.0.1 --port {port}"),
        "connect to PostgreSQL: error connecting to server: ",
    );
    check("sink --ilp-bind-to nowhere", "connect to nowhere: ");
}

#[test]
fn a_target_that_closes_early_is_caught() {
    let address = serve(|mut stream| {
        let _ = stream.read(&mut [0; 1_000]);
    });
    for rows in [SMALL, "--seed 1 --scale 1000 --timestamp-end 2016-01-01T01:00:00Z"] {
        check(
            &format!("sink --generate {rows} --ilp-bind-to {address}"),
            &format!("{address} closed the connection before everything was sent"),
        );
    }
    let asked = format!("send batch 1 of worker 1, 3600 rows: ask http://{address}/write: ");
    check(&format!("sink --protocol ilp-http --generate {SMALL} --url http://{address}"), &asked);
}

#[test]
fn a_target_that_does_nothing_is_not_waited_for_for_ever() {
    let address = serve(|stream| {
        thread::sleep(Duration::from_secs(600));
        drop(stream);
    });
    let rows = "--seed 1 --scale 1000 --timestamp-end 2016-01-01T01:00:00Z --timeout 1s";
    check(
        &format!("sink --generate {rows} --ilp-bind-to {address}"),
        &format!("{address} took no byte for 1s"),
    );
    check(
        &format!("sink --protocol ilp-http --generate {rows} --url http://{address}"),
        &format!("send batch 1 of worker 1, 10000 rows: ask http://{address}/write: timeout"),
    );
}

#[test]
fn errors_of_a_server_are_shown_in_its_words() {
    let count = Arc::new(AtomicU64::new(0));
    let address = answering(move |line, _| match line.starts_with("POST") {
        true if count.fetch_add(1, Relaxed) < 2 => (204, String::new()),
        true => (400, "column usage_user is of type SYMBOL".to_owned()),
        false => (200, r#"{"dataset":[[0]]}"#.to_owned()),
    });
    let url = format!("--url http://{address}");
    let results = check(
        &format!("questdb --protocol ilp-http --batch-size 1000 --generate {SMALL} {url}"),
        &format!(
            "send batch 3 of worker 1, 1000 rows: \
             http://{address}/write answers 400: column usage_user is of type SYMBOL"
        ),
    );
    assert_eq!(
        (&results["sentRows"], &results["acknowledgedRows"]),
        (&2_000.into(), &2_000.into())
    );
}

#[test]
fn rows_that_are_lost_are_missed() {
    let rows = Arc::new(AtomicU64::new(0));
    let address = answering(move |line, body| {
        if line.starts_with("POST") {
            // Every tenth row is acknowledged and forgotten.
            let count = body.iter().filter(|&&byte| byte == b'\n').count() as u64;
            rows.fetch_add(count - count / 10, Relaxed);
            return (204, String::new());
        }
        let count = if line.contains("%22cpu%22") { rows.load(Relaxed) } else { 0 };
        (200, format!(r#"{{"dataset":[[{count}]]}}"#))
    });
    let results = check(
        &format!(
            "questdb --protocol ilp-http --generate {SMALL} --url http://{address} --wait 200ms"
        ),
        &format!("http://{address} has 3240 of 3600 rows, 360 are missing, and none came for 200ms"),
    );
    assert_eq!(results["acknowledgedRows"], 3_600);
    assert_eq!(results["readableRows"], 3_240);
}

#[test]
fn files_that_are_none_of_ours_are_refused_before_anything_is_sent() {
    let dir = tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (line, two, tabs) = (sample("questdb"), sample("timescaledb"), sample("cratedb"));
    let port = free_port();
    for (target, name, bytes, expected) in [
        ("sink", "two", &two[..], "is not line protocol (--format questdb) at byte 0"),
        ("sink", "csv", b"a,b,c\n1,2,3\n", "is not line protocol (--format questdb) at byte 0"),
        ("sink", "zeros", &[0; 10_000], "ends in the middle of the row that begins at byte 0"),
        (
            "clickhouse",
            "line",
            &line,
            "is not two lines a row behind a header (--format timescaledb) at byte 0",
        ),
        (
            "cratedb",
            "two-again",
            &two,
            "is not tabs and JSON behind a header (--format cratedb) at byte",
        ),
        (
            "timescaledb",
            "tabs",
            &tabs,
            "is not two lines a row behind a header (--format timescaledb) at byte",
        ),
        (
            "sink",
            "cut",
            &line[..line.len() - 7],
            "ends in the middle of the row that begins at byte",
        ),
        (
            "clickhouse",
            "cut-two",
            &two[..two.len() - 7],
            "ends in the middle of the row that begins at byte",
        ),
        (
            "cratedb",
            "cut-tabs",
            &tabs[..tabs.len() - 7],
            "ends in the middle of the row that begins at byte",
        ),
    ] {
        let path = file(name, bytes);
        let place = format!("--ilp-bind-to 127.0.0.1:{port} --url http://127.0.0.1:{port}");
        let place = if target == "timescaledb" { String::new() } else { place };
        check(&format!("{target} {place} --file {path}"), &format!("{path} {expected}"));
    }
    check("sink --file /nowhere/at/all", "read /nowhere/at/all: No such file");
    let path = dir.path().display();
    check(&format!("sink --file {path}"), &format!("{path} is no file"));
}

fn sample(format: &str) -> Vec<u8> {
    let dir: TempDir = tempdir().unwrap();
    generated(&dir, &format!("{SMALL} --format {format}")).1
}

#[test]
fn a_bad_row_in_the_middle_ends_the_load_where_rows_are_looked_into() {
    let dir = tempdir().unwrap();
    let (path, mut bytes) = generated(&dir, &format!("{SMALL} --format questdb"));
    let middle = bytes.len() / 2;
    bytes.splice(middle..middle, *b"\nnonsense\n");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&bytes).unwrap();
    check(
        &format!("sink --file {path} --do-load false"),
        &format!("{path} has a line that is no row: `"),
    );
    // Into a sink it goes as it is; that fields cannot be counted does not hide what was sent.
    let sink = tidegate_bench::tsbs::Sink::start("127.0.0.1:0", None, false).unwrap();
    let results = check(
        &format!("sink --file {path} --ilp-bind-to {}", sink.tcp()),
        &format!("{path} is not line protocol (--format questdb) at byte "),
    );
    assert_eq!(results["sentBytes"], bytes.len());
}

#[test]
fn a_results_file_that_cannot_be_written_is_an_error_and_hides_none() {
    let sink = tidegate_bench::tsbs::Sink::start("127.0.0.1:0", None, false).unwrap();
    let line = |address: &str| {
        format!("load sink --generate {SMALL} --ilp-bind-to {address} --results-file /dev/full")
    };
    let error = tsbs(&line(&sink.tcp().to_string())).unwrap_err();
    assert!(error.starts_with("write /dev/full: No space left"), "{error}");
    let error = tsbs(&line(&format!("127.0.0.1:{}", free_port()))).unwrap_err();
    assert!(error.starts_with("connect to 127.0.0.1:"), "{error}");
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    for (line, expected) in [
        ("clickhouse --protocol ilp-tcp", "ilp-tcp is not for clickhouse, which takes its own"),
        ("influx --protocol ilp-tcp", "ilp-tcp is not for influx, which takes ilp-http"),
        ("influx --url ftp://x", "--url ftp://x is not http://HOST:PORT"),
        ("sink --insert-intervals x", "`x` is not a list of seconds such as 1,2-4"),
        ("sink --timeout x", "error: invalid value 'x' for '--timeout <TIME>': `x` is not a dur"),
        ("sink --config /nowhere", "error: read /nowhere: No such file"),
        ("influx --url http://x --port 8086", "error: the argument '--url <URL>' cannot be used"),
        ("sink --generate --scale 0", "--scale 0 makes no rows"),
        ("sink --generate --shift soon", "`soon` is not a duration"),
        ("sink --generate --split contiguous", "--split contiguous needs --file without --limit"),
        ("sink --shift now", "--shift now needs --file or --generate"),
        ("clickhouse --faithful --layout wide", "--layout wide is not of TSBS"),
        ("timescaledb --field-index-count -2", "error: invalid value '-2'"),
        ("sink --hash-workers --exact-batches", "error: the argument"),
        ("oracle", "error: invalid value 'oracle'"),
        ("sink --workers 0", "error: invalid value '0'"),
        ("sink --batch-size 0", "error: invalid value '0'"),
    ] {
        check(line, expected);
    }
}

#[test]
fn rows_whose_times_cannot_be_moved_end_the_load() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("short.ilp");
    fs::write(&path, "cpu x=1 12\n").unwrap();
    let sink = tidegate_bench::tsbs::Sink::start("127.0.0.1:0", None, false).unwrap();
    let place = format!("--file {} --ilp-bind-to {}", path.display(), sink.tcp());
    let shown = path.display();
    let results = check(
        &format!("sink {place} --shift 1h"),
        &format!("--shift does not leave 19 digits to the time of a row of {shown}: `cpu x=1 12`"),
    );
    assert_eq!(results["sentRows"], 0);
    check(
        &format!("sink {place} --shift now"),
        &format!("{shown} has no row whose time --shift could move to now"),
    );
    // Timestamps have 19 digits until 2262.
    check(
        &format!("sink --generate {SMALL} --ilp-bind-to {} --shift 2160000h", sink.tcp()),
        "--shift does not leave 19 digits to the time of a row of generated rows: `cpu,hostname",
    );
}
