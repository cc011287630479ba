//! Targets that are absent or misbehave, and malformed files: one clear error each, and true counts
//! of the rows that went in.

use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tempfile::{TempDir, tempdir};

use crate::command::{SMALL, generated, load, process, tsbs};
use crate::servers::{answering, closing, free_port, keeping, serve, silent};

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
    let requested = format!("request http://127.0.0.1:{port}/");
    check(&format!("questdb --protocol ilp-http --generate {SMALL} {http}"), &requested);
    check(&format!("influx --generate {SMALL} {http}"), &requested);
    check(&format!("clickhouse --generate {SMALL} {http}"), &requested);
    check(&format!("cratedb --generate {SMALL} {http}"), &requested);
    check(
        &format!("timescaledb --generate {SMALL} --host 127.0.0.1 --port {port}"),
        &format!("connect to PostgreSQL at 127.0.0.1:{port}: error connecting to server: "),
    );
    check("sink --ilp-bind-to nowhere", "connect to nowhere: ");
}

/// Every database that is reached over HTTP, and its first request.
const BY_HTTP: [(&str, &str); 4] = [
    ("questdb --protocol ilp-http", "/exec"),
    ("influx", "/query"),
    ("clickhouse", "/"),
    ("cratedb", "/_sql"),
];

/// More rows than the kernel buffers between two sides that do not read.
const MANY: &str = "--seed 1 --scale 1000 --timestamp-end 2016-01-01T01:00:00Z";

#[test]
fn a_target_that_closes_early_is_caught() {
    let address = closing();
    for rows in [SMALL, MANY] {
        check(
            &format!("sink --generate {rows} --ilp-bind-to {address}"),
            &format!("{address} closed the connection before everything was sent"),
        );
    }
    let requested =
        format!("send batch 1 of worker 1, 3600 rows: request http://{address}/write: ");
    check(
        &format!("sink --protocol ilp-http --generate {SMALL} --url http://{address}"),
        &requested,
    );
    for (target, path) in BY_HTTP {
        let line = format!("{target} --generate {SMALL} --url http://{address}");
        check(&line, &format!("request http://{address}{path}: "));
    }
    let place = format!("--host 127.0.0.1 --port {}", address.port());
    check(
        &format!("timescaledb --generate {SMALL} {place}"),
        &format!("connect to PostgreSQL at {address}: "),
    );
}

#[test]
fn a_target_that_does_nothing_is_not_waited_for_for_ever() {
    let address = silent();
    let rows = format!("{MANY} --timeout 200ms");
    check(
        &format!("sink --generate {rows} --ilp-bind-to {address}"),
        &format!("{address} accepted no byte for 200ms"),
    );
    check(
        &format!("sink --protocol ilp-http --generate {rows} --url http://{address}"),
        &format!("send batch 1 of worker 1, 10000 rows: request http://{address}/write: timeout"),
    );
    for (target, path) in BY_HTTP {
        let line = format!("{target} --generate {rows} --url http://{address}");
        check(&line, &format!("request http://{address}{path}: timeout"));
    }
    let place = format!("--host 127.0.0.1 --port {}", address.port());
    check(
        &format!("timescaledb --generate {rows} {place}"),
        &format!("connect to PostgreSQL: {address} gave no answer for 200ms"),
    );
}

#[test]
fn a_target_that_is_slow_gets_all_rows() {
    let dir = tempdir().unwrap();
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    // Reading all rows takes longer than the timeout, but no single wait does.
    let address = serve(move |mut stream| {
        let mut bytes = vec![0; 256 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            count.fetch_add(read as u64, Relaxed);
            thread::sleep(Duration::from_millis(30));
        }
    });
    let rows = "--seed 1 --scale 100 --timestamp-end 2016-01-01T01:00:00Z --timeout 1s";
    let (outcome, results) = load(&dir, &format!("sink --generate {rows} --ilp-bind-to {address}"));
    assert_eq!(outcome, Ok(()));
    assert_eq!(results["sentRows"], 36_000);
    assert_eq!(results["sentBytes"], taken.load(Relaxed));

    let address = answering(move |_, _| {
        thread::sleep(Duration::from_millis(100));
        (204, String::new())
    });
    let line = format!("sink --protocol ilp-http --url http://{address} --batch-size 3000");
    let (outcome, results) = load(&dir, &format!("{line} --generate {rows}"));
    assert_eq!(outcome, Ok(()));
    assert_eq!(results["acknowledgedRows"], 36_000);
    assert!(1.0 < results["sentSeconds"].as_f64().unwrap(), "12 times 100 ms");
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
    check_counts(&results, 2_000, 2_000, 0);
}

/// Checks the counts of a failed load: rows sent, acknowledged, and seen by a query.
#[track_caller]
fn check_counts(results: &serde_json::Value, sent: u64, acked: u64, readable: u64) {
    assert_eq!(results["sentRows"], sent);
    assert_eq!(results["acknowledgedRows"], acked);
    assert_eq!(results["readableRows"], readable);
}

#[test]
fn errors_of_clickhouse_end_the_load_with_what_it_took() {
    let rows = Arc::new(AtomicU64::new(0));
    let address = answering(move |line, body| {
        let body = std::str::from_utf8(body).unwrap();
        let inserts = line.contains("INSERT") && line.contains("%60cpu%60");
        if inserts && rows.fetch_add(body.lines().count() as u64, Relaxed) == 2_000 {
            rows.fetch_sub(1_000, Relaxed);
            return (500, "Code: 243. DB::Exception: Cannot reserve 1.00 MiB".to_owned());
        }
        let count = match body.starts_with("SELECT count() FROM `benchmark`.`cpu`") {
            true => rows.load(Relaxed),
            false => u64::from(body.contains("system.tables")),
        };
        (200, if body.contains("`cpu`") { count } else { 0 }.to_string())
    });
    let results = check(
        &format!("clickhouse --batch-size 1000 --generate {SMALL} --url http://{address}"),
        &format!(
            "send batch 3 of worker 1, 1000 rows: \
             http://{address}/ answers 500: Code: 243. DB::Exception: Cannot reserve 1.00 MiB"
        ),
    );
    check_counts(&results, 2_000, 2_000, 0);
}

#[test]
fn rows_that_cratedb_does_not_take_are_no_rows() {
    let address = answering(move |_, body| {
        let request: serde_json::Value = serde_json::from_slice(body).unwrap();
        let Some(rows) = request["bulk_args"].as_array() else {
            return (200, r#"{"rows":[[0]]}"#.to_owned());
        };
        // The last row of each statement is not taken.
        let mut results = vec![r#"{"rowcount":1}"#; rows.len() - 1];
        results.push(r#"{"rowcount":-2,"error_message":"disk is full"}"#);
        (200, format!(r#"{{"results":[{}]}}"#, results.join(",")))
    });
    let results = check(
        &format!("cratedb --batch-size 1000 --generate {SMALL} --url http://{address}"),
        &format!(
            "send batch 1 of worker 1, 1000 rows: http://{address} answers 200: \
             {{\"error_message\":\"disk is full\",\"rowcount\":-2}}"
        ),
    );
    // The accepted rows of a failed batch count as sent.
    check_counts(&results, 999, 999, 0);
}

#[test]
fn patience_with_a_server_has_an_end() {
    let address = answering(|line, _| match line.starts_with("POST /write") {
        true => (503, "later".to_owned()),
        false => (200, r#"{"results":[{}]}"#.to_owned()),
    });
    let results = check(
        &format!(
            "influx --generate {SMALL} --url http://{address} --backoff 100ms --timeout 500ms"
        ),
        &format!("send batch 1 of worker 1, 3600 rows: http://{address}/write answers 503: later"),
    );
    check_counts(&results, 0, 0, 0);
    // The delays are 100 ms, and 200 if there is time for them; another 400 would be too long.
    let waited = results["waitedSeconds"].as_f64().unwrap();
    assert!((0.1..0.31).contains(&waited), "{waited}");
}

#[test]
fn answers_that_are_none_are_errors() {
    let address = answering(|_, _| (200, "<html>It works!</html>".to_owned()));
    for (target, expected) in [
        (
            "questdb --protocol ilp-http",
            "an answer has a value that is not a valid count: `<html>It works",
        ),
        ("influx", "an answer has a value that is not a valid count: `<html>It works"),
        ("influx --token t", "an answer has a value that is not a valid count: `<html>It works"),
        (
            "clickhouse --do-create-db false",
            "table tags has a value that is not a valid id of 32 bits",
        ),
        ("cratedb", "an answer has a value that is not a valid JSON: `<html>It works"),
    ] {
        check(&format!("{target} --generate {SMALL} --url http://{address}"), expected);
    }
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
        &format!(
            "http://{address} has 3240 of 3600 rows, 360 are missing, and none came for 200ms"
        ),
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
    check(&format!("sink --file {path}"), &format!("{path} is not a file"));
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
        &format!("{path} has a line that is not a row: `"),
    );
    // A sink takes the rows unchanged; a failure to count fields does not hide the counts of rows
    // sent.
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
        ("clickhouse --protocol ilp-tcp", "clickhouse does not support ilp-tcp, only its own"),
        ("influx --protocol ilp-tcp", "influx does not support ilp-tcp, only ilp-http"),
        ("influx --url ftp://x", "--url ftp://x is not http://HOST:PORT"),
        ("sink --insert-intervals x", "`x` is not a list of seconds such as 1,2-4"),
        ("sink --timeout x", "error: invalid value 'x' for '--timeout <TIME>': `x` is not a dur"),
        ("sink --config /nowhere", "error: read /nowhere: No such file"),
        ("influx --url http://x --port 8086", "error: the argument '--url <URL>' cannot be used"),
        ("sink --generate --scale 0", "--scale 0 makes no rows"),
        ("sink --generate --shift soon", "`soon` is not a duration"),
        ("sink --generate --split contiguous", "--split contiguous needs --file, and no --limit"),
        ("sink --shift now", "--shift now needs --file or --generate"),
        ("clickhouse --faithful --layout wide", "--layout wide is not a layout of TSBS"),
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
        &format!("with --shift the time of a row of {shown} does not have 19 digits: `cpu x=1 12`"),
    );
    assert_eq!(results["sentRows"], 0);
    check(
        &format!("sink {place} --shift now"),
        &format!("{shown} has no row whose time --shift could move to now"),
    );
    // Timestamps have 19 digits until 2262.
    check(
        &format!("sink --generate {SMALL} --ilp-bind-to {} --shift 2160000h", sink.tcp()),
        "with --shift the time of a row of generated rows does not have 19 digits: `cpu,hostname",
    );
}

#[test]
fn the_exit_code_follows_the_class_of_the_error() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("{SMALL} --format questdb"));
    let cut = &bytes[..bytes.len() - 7];
    let sink = tidegate_bench::tsbs::Sink::start("127.0.0.1:0", None, false).unwrap();
    let sink = format!("load sink --ilp-bind-to {}", sink.tcp());
    let absent = format!("load sink --ilp-bind-to 127.0.0.1:{}", free_port());
    for (line, input, code, expected) in [
        (format!("{sink} --file {path}"), &b""[..], 0, ""),
        (sink.clone(), &bytes, 0, ""),
        (sink.clone(), cut, 1, "standard input ends in the middle of the row that begins at byte"),
        (sink.clone(), b"nonsense\n", 1, "standard input is not line protocol"),
        (absent, &bytes, 1, "connect to 127.0.0.1:"),
        ("generate --format questdb --file /dev/full".to_owned(), b"", 1, "seed "),
        (format!("{sink} --generate --scale 0"), b"", 2, "--scale 0 makes no rows"),
        (format!("{sink} --generate --log-interval 0"), b"", 2, "--log-interval 0 is not valid"),
        (format!("{sink} --generate --timestamp-end 2015-01-01T00:00:00Z"), b"", 2, "--timestamp-"),
        (format!("{sink} --generate --use-case x"), b"", 2, "error: invalid value 'x'"),
        ("generate --format xml".to_owned(), b"", 2, "error: invalid value 'xml'"),
        ("generate".to_owned(), b"", 2, "error: the following required arguments were not"),
    ] {
        let ended = process(&line, input);
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.err);
        let err = ended.err.strip_prefix("tidegate-bench: tsbs load: ").unwrap_or(&ended.err);
        assert!(err.starts_with(expected), "{line}: {}", ended.err);
        assert_eq!(ended.err.is_empty(), code == 0, "{line}: {}", ended.err);
    }
    // The rows before the cut went in, and are reported.
    let ended = process(&format!("{sink} --do-load false"), cut);
    assert!(ended.out.contains("\nloaded 3599 rows in "), "{}", ended.out);
    let ended = process(&format!("{sink} --do-load false --limit 3599"), cut);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("\nloaded 3599 rows in "), "{}", ended.out);
}

#[test]
fn a_seed_of_zero_is_told_and_makes_the_same_rows_again() {
    let dir = tempdir().unwrap();
    let simulation = "--scale 3 --timestamp-end 2016-01-01T00:10:00Z";
    let told = |err: &str| {
        let seed = err.strip_prefix("seed ").and_then(|rest| rest.strip_suffix('\n'));
        seed.and_then(|seed| seed.parse::<i64>().ok()).expect(err)
    };
    let path = dir.path().join("zero");
    let flags = format!("generate {simulation} --format questdb");
    let ended = process(&format!("{flags} --seed 0 --file {}", path.display()), b"");
    let again = format!("{simulation} --format questdb --seed {}", told(&ended.err));
    assert!(fs::read(&path).unwrap() == generated(&dir, &again).1);
    assert!(process(&format!("{flags} --seed 1"), b"").err.is_empty(), "a seed given is not told");

    let (address, arrived) = keeping();
    let results = dir.path().join("results.json");
    let line = format!("load sink --generate {simulation} --ilp-bind-to {address}");
    let ended = process(&format!("{line} --results-file {}", results.display()), b"");
    let seed = told(&ended.err);
    let again = generated(&dir, &format!("{simulation} --format questdb --seed {seed}")).1;
    assert!(arrived.recv().unwrap() == again);
    let text = fs::read_to_string(&results).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["tidegate"]["seed"], seed);
}
