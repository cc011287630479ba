//! Loads into servers that behave: the rows that arrive are those that were read or generated.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tempfile::tempdir;
use tidegate_bench::tsbs::Sink;

use crate::command::{SMALL, generated, load, tsbs};
use crate::servers::{answering, keeping};

fn sorted(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<_> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_target_receives_the_rows_of_the_file() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("--use-case devops {SMALL} --format questdb"));
    for flags in
        ["", "--workers 3", "--batch-size 7 --max-rps 1000000", "--workers 2 --hash-workers"]
    {
        let (address, connections) = keeping();
        let line = format!("sink --file {path} --ilp-bind-to {address} {flags}");
        let (outcome, results) = load(&dir, &line);
        outcome.unwrap();
        let workers =
            if flags.contains("workers 3") { 3 } else { 1 + flags.matches("workers 2").count() };
        let arrived: Vec<Vec<u8>> = connections.iter().take(workers).collect();
        let all = arrived.concat();
        assert!(sorted(&all) == sorted(&bytes), "{flags}");
        assert!(1 < workers || all == bytes, "{flags}: in order");
        assert_eq!(results["sentRows"], 32_400, "{flags}");
        assert_eq!(results["sentBytes"], bytes.len());
        assert!(results["acknowledgedRows"].is_null());
    }
}

#[test]
fn generated_rows_are_those_of_the_file() {
    let dir = tempdir().unwrap();
    let simulation = format!("--use-case iot {SMALL}");
    let (_, bytes) = generated(&dir, &format!("{simulation} --format questdb"));
    for workers in [1, 3] {
        let (address, connections) = keeping();
        let line =
            format!("sink --generate {simulation} --ilp-bind-to {address} --workers {workers}");
        load(&dir, &line).0.unwrap();
        let all = connections.iter().take(workers).collect::<Vec<_>>().concat();
        assert!(sorted(&all) == sorted(&bytes));
        assert!(1 < workers || all == bytes, "in order");
    }
}

#[test]
fn rows_of_a_host_stay_together_and_in_order() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("{SMALL} --format questdb"));
    let (address, connections) = keeping();
    let line = format!("sink --file {path} --ilp-bind-to {address} --workers 3 --hash-workers");
    load(&dir, &line).0.unwrap();
    let mut seen = BTreeSet::new();
    let rows_of = |text: &[u8]| {
        let mut rows: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let host = line.split(|&byte| byte == b',').nth(1).unwrap().to_vec();
            rows.entry(host).or_default().push(line.to_vec());
        }
        rows
    };
    let expected = rows_of(&bytes);
    for arrived in connections.iter().take(3) {
        for (host, rows) in rows_of(&arrived) {
            assert_eq!(rows, expected[&host]);
            assert!(seen.insert(host), "a host comes over one connection");
        }
    }
    assert_eq!(seen.len(), 10);
}

#[test]
fn a_limit_takes_the_first_rows() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("{SMALL} --format questdb"));
    for source in [format!("--file {path}"), format!("--generate {SMALL}")] {
        let (address, connections) = keeping();
        let line = format!("sink {source} --limit 2500 --ilp-bind-to {address}");
        assert_eq!(load(&dir, &line).1["sentRows"], 2_500);
        let arrived = connections.recv().unwrap();
        let rows: Vec<_> = bytes.split_inclusive(|&byte| byte == b'\n').take(2_500).collect();
        assert!(arrived == rows.concat(), "{source}");
    }
}

#[test]
fn requests_have_batches_of_the_size_asked_for() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("{SMALL} --format questdb"));
    let sink = Sink::start("127.0.0.1:0", Some("127.0.0.1:0"), true).unwrap();
    let url = format!("http://{}", sink.http().unwrap());
    let line = format!("sink --protocol ilp-http --url {url} --file {path} --batch-size 1000");
    let (outcome, results) = load(&dir, &line);
    outcome.unwrap();
    let counts = sink.counts();
    assert_eq!((counts.requests, counts.rows, counts.bytes), (4, 3_600, bytes.len() as u64));
    assert_eq!(results["acknowledgedRows"], 3_600);
}

#[test]
fn fields_are_counted_whether_or_not_rows_are_looked_into() {
    let dir = tempdir().unwrap();
    let (path, _) = generated(&dir, &format!("--use-case devops {SMALL} --format questdb"));
    let sink = Sink::start("127.0.0.1:0", None, false).unwrap();
    let place = format!("--file {path} --ilp-bind-to {}", sink.tcp());
    for flags in ["", "--do-load false", "--hash-workers --workers 2"] {
        let results = dir.path().join("all.json");
        let line = format!("load sink {place} {flags} --results-file {}", results.display());
        tsbs(&line).unwrap();
        let text = fs::read_to_string(&results).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rate = |name: &str| json["Totals"][name].as_f64().unwrap();
        // A host has 101 fields in 9 rows.
        let fields = rate("metricRate") / rate("rowRate");
        assert!((fields - 101.0 / 9.0).abs() < 1e-6, "{flags}: {fields}");
        assert!(text.starts_with("{\n \"DurationMillis\""), "one space: {text}");
    }
}

#[test]
fn two_files_are_loaded_behind_each_other() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("{SMALL} --format questdb"));
    let (address, connections) = keeping();
    load(&dir, &format!("sink --file {path} {path} --ilp-bind-to {address}")).0.unwrap();
    assert!(connections.recv().unwrap() == [bytes.as_slice(), &bytes].concat());
}

#[test]
fn patience_is_had_with_a_server_that_asks_for_it() {
    let dir = tempdir().unwrap();
    let requests = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&requests);
    let address = answering(move |line, _| {
        if line.starts_with("POST /write") && count.fetch_add(1, Relaxed) < 2 {
            return (503, "later".to_owned());
        }
        let is_cpu = line.starts_with("GET") && line.contains("%22usage_user%22");
        let rows = if is_cpu && 2 < count.load(Relaxed) { 3_600 } else { 0 };
        (200, format!(r#"{{"results":[{{"series":[{{"values":[[0,{rows}]]}}]}}]}}"#))
    });
    let line = format!("influx --generate {SMALL} --url http://{address} --backoff 1ms");
    let (outcome, results) = load(&dir, &line);
    outcome.unwrap();
    assert_eq!(results["acknowledgedRows"], 3_600);
    assert_eq!(requests.load(Relaxed), 3, "one batch, and twice refused");
    assert_eq!(results["waitedSeconds"], 0.003, "one millisecond, then two");
}

#[test]
fn clickhouse_gets_tables_tags_and_rows() {
    let dir = tempdir().unwrap();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&requests);
    let address = answering(move |line, body| {
        let body = String::from_utf8(body.to_vec()).unwrap();
        let mut kept = kept.lock().unwrap();
        let rows = |kept: &[(String, String)]| {
            let inserts = kept.iter().filter(|(line, _)| line.contains("%60readings%60"));
            inserts.map(|(_, body)| body.lines().count()).sum::<usize>()
        };
        let answer = if body.contains("count() FROM system") {
            "1".to_owned()
        } else if body.contains("`.`readings`") && body.starts_with("SELECT") {
            rows(&kept).to_string()
        } else {
            "0".to_owned()
        };
        kept.push((line.to_owned(), body));
        (200, answer)
    });
    let simulation = "--use-case iot --seed 123 --scale 1 --max-data-points 1";
    for layout in ["tags", "wide"] {
        requests.lock().unwrap().clear();
        let line =
            format!("clickhouse --generate {simulation} --url http://{address} --layout {layout}");
        let (outcome, results) = load(&dir, &line);
        outcome.unwrap();
        assert_eq!(
            (&results["acknowledgedRows"], &results["readableRows"]),
            (&1.into(), &1.into())
        );
        let requests = requests.lock().unwrap();
        let bodies: Vec<_> = requests.iter().map(|(_, body)| body.as_str()).collect();
        let row = bodies.iter().find(|body| body.starts_with("1451606400")).unwrap();
        let tags = "truck_0\tSouth\tTrish\tH-2\tv2.3\t1500\t150\t12";
        let values = "52.31854\t4.72037\t124\t0\t221\t0\t25\t\n";
        let key = if layout == "tags" { "1" } else { tags };
        assert_eq!(*row, format!("1451606400.000000000\t{key}\t{values}"));
        assert_eq!(bodies.contains(&format!("1\t{tags}\n").as_str()), layout == "tags");
    }
}

#[test]
fn cratedb_gets_many_rows_a_statement() {
    let dir = tempdir().unwrap();
    let rows = Arc::new(AtomicU64::new(0));
    let taken = Arc::clone(&rows);
    let address = answering(move |_, body| {
        let request: serde_json::Value = serde_json::from_slice(body).unwrap();
        let statement = request["stmt"].as_str().unwrap();
        if statement.starts_with("INSERT") && statement.contains("\"cpu\"") {
            let bulk = request["bulk_args"].as_array().unwrap();
            assert_eq!(bulk[0].as_array().unwrap().len(), 12);
            assert!(bulk.iter().all(|row| row[0]["hostname"].is_string() && row[1].is_i64()));
            taken.fetch_add(bulk.len() as u64, Relaxed);
            let results = vec![serde_json::json!({"rowcount": 1}); bulk.len()];
            return (200, serde_json::json!({"results": results}).to_string());
        }
        let counts = statement.contains("FROM \"benchmark\".\"cpu\"");
        let count =
            if counts { taken.load(Relaxed) } else { u64::from(statement.contains("_schema")) };
        (200, serde_json::json!({"rows": [[count]]}).to_string())
    });
    let line = format!("cratedb --generate {SMALL} --url http://{address}");
    let (outcome, results) = load(&dir, &line);
    outcome.unwrap();
    assert_eq!(results["readableRows"], 3_600);
    assert_eq!(rows.load(Relaxed), 3_600);
}

#[test]
fn a_shift_moves_the_times_and_nothing_else() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("--use-case iot {SMALL} --format questdb"));
    let text = String::from_utf8(bytes).unwrap();
    // The shift of a day turns 1451606400 into 1451692800.
    let later: String = text
        .lines()
        .map(|line| {
            let (row, time) = line.rsplit_once(' ').unwrap();
            format!("{row} {}\n", time.parse::<i64>().unwrap() + 86_400_000_000_000)
        })
        .collect();
    for source in [
        format!("--file {path}"),
        format!("--use-case iot --generate {SMALL}"),
        format!("--file {path} --workers 2 --hash-workers"),
    ] {
        let (address, connections) = keeping();
        let line = format!("sink {source} --ilp-bind-to {address} --shift 24h");
        load(&dir, &line).0.unwrap();
        let workers = if source.contains("workers 2") { 2 } else { 1 };
        let arrived = connections.iter().take(workers).collect::<Vec<_>>().concat();
        assert!(sorted(&arrived) == sorted(later.as_bytes()), "{source}");
    }
}

#[test]
fn a_shift_to_now_moves_the_last_row_to_now() {
    let dir = tempdir().unwrap();
    let (path, _) = generated(&dir, &format!("{SMALL} --format questdb"));
    let nanos = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().as_nanos()
    };
    for source in [format!("--file {path}"), format!("--generate {SMALL}")] {
        let (address, connections) = keeping();
        let before = nanos();
        load(&dir, &format!("sink {source} --ilp-bind-to {address} --shift now")).0.unwrap();
        let arrived = String::from_utf8(connections.recv().unwrap()).unwrap();
        let times: Vec<u128> =
            arrived.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
        let (first, last) = (times[0], times[times.len() - 1]);
        assert!((before..=nanos()).contains(&last), "{source}");
        assert_eq!(last - first, 3_590_000_000_000, "{source}");
    }
}

#[test]
fn parts_of_a_file_go_to_a_worker_each() {
    let dir = tempdir().unwrap();
    let flags = "--seed 1 --scale 100 --timestamp-end 2016-01-01T03:00:00Z --format questdb";
    let (path, bytes) = generated(&dir, flags);
    let (address, connections) = keeping();
    let line = format!("sink --ilp-bind-to {address} --file {path} --split contiguous");
    load(&dir, &format!("{line} --workers 3")).0.unwrap();
    let mut parts: Vec<Vec<u8>> = connections.iter().take(3).collect();
    assert!(parts.iter().all(|part| !part.is_empty()), "every worker has something to do");
    parts.sort_unstable_by_key(|part| {
        memchr::memmem::find(&bytes, &part[..part.len().min(1_000)]).unwrap()
    });
    assert!(parts.concat() == bytes, "each part is in the order of the file");
}

#[test]
fn only_one_batch_of_all_is_smaller_if_batches_are_to_be_exact() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("{SMALL} --use-case devops --format questdb"));
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&sizes);
    let address = answering(move |line, body| {
        if line.starts_with("POST") {
            kept.lock().unwrap().push(body.to_vec());
        }
        (204, String::new())
    });
    let line = format!("sink --protocol ilp-http --url http://{address} --file {path}");
    let (outcome, results) =
        load(&dir, &format!("{line} --workers 4 --batch-size 7000 --exact-batches"));
    outcome.unwrap();
    assert_eq!(results["acknowledgedRows"], 32_400);
    let bodies = sizes.lock().unwrap();
    assert!(sorted(&bodies.concat()) == sorted(&bytes));
    let rows = |body: &Vec<u8>| body.iter().filter(|&&byte| byte == b'\n').count();
    let mut rows: Vec<_> = bodies.iter().map(rows).collect();
    rows.sort_unstable();
    assert_eq!(rows, [4_400, 7_000, 7_000, 7_000, 7_000], "worker-1");
}

#[test]
fn requests_to_influx_are_compressed() {
    let dir = tempdir().unwrap();
    let (path, bytes) = generated(&dir, &format!("{SMALL} --format influx"));
    for (flags, is_compressed) in [("", true), ("--gzip false", false), ("--gzip true", true)] {
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bodies);
        let rows = Arc::new(AtomicU64::new(0));
        let address = answering(move |line, body| {
            if line.starts_with("POST /write") {
                let mut text = body.to_vec();
                if is_compressed {
                    text.clear();
                    flate2::read::GzDecoder::new(body).read_to_end(&mut text).unwrap();
                }
                rows.fetch_add(text.split(|&byte| byte == b'\n').count() as u64 - 1, Relaxed);
                kept.lock().unwrap().push((text, body.len()));
                return (204, String::new());
            }
            let is_cpu = line.contains("%22usage_user%22");
            let count = if is_cpu { rows.load(Relaxed) } else { 0 };
            (200, format!(r#"{{"results":[{{"series":[{{"values":[[0,{count}]]}}]}}]}}"#))
        });
        let line = format!("influx --file {path} --url http://{address} {flags}");
        let (outcome, results) = load(&dir, &line);
        assert_eq!(outcome, Ok(()), "{flags}");
        assert_eq!(results["readableRows"], 3_600, "{flags}");
        let bodies = bodies.lock().unwrap();
        let (texts, sizes): (Vec<_>, Vec<_>) = bodies.iter().cloned().unzip();
        assert!(texts.concat() == bytes, "{flags}");
        assert_eq!(sizes.iter().sum::<usize>() < bytes.len() / 2, is_compressed, "{flags}");
    }
}

#[test]
fn influx_2_is_asked_in_flux() {
    let dir = tempdir().unwrap();
    let rows = Arc::new(AtomicU64::new(0));
    let address = answering(move |line, body| {
        if line.starts_with("POST /api/v2/write?org=o&bucket=benchmark") {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(body).read_to_end(&mut text).unwrap();
            rows.fetch_add(text.split(|&byte| byte == b'\n').count() as u64 - 1, Relaxed);
            return (204, String::new());
        }
        assert!(line.starts_with("POST /api/v2/query?org=o "), "{line}");
        let query = std::str::from_utf8(body).unwrap();
        assert!(query.starts_with("from(bucket: \"benchmark\") |> range("), "{query}");
        match query.contains("r._measurement == \"cpu\"") {
            true => {
                let count = rows.load(Relaxed);
                (200, format!(",result,table,_value\r\n,_result,0,{count}\r\n\r\n"))
            }
            false => (200, "\r\n".to_owned()),
        }
    });
    let line = format!("influx --generate {SMALL} --url http://{address} --token t --org o");
    let (outcome, results) = load(&dir, &line);
    assert_eq!(outcome, Ok(()));
    assert_eq!(results["readableRows"], 3_600);
}
