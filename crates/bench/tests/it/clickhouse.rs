//! Loads into the engine of ClickHouse, if one is installed: every row is counted back.
//!
//! The present engine comes as chdb, a module of Python, which runs in a process: a small server
//! provides HTTP for it. The interpreter is `$CHDB_PYTHON`, or `python3`. A `clickhouse-server` is
//! used as it is; Debian's, of 2018, supports no nanoseconds, but TSBS's columns.

use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};

use tempfile::{TempDir, tempdir};

use crate::command::{SMALL, generated, load};
use crate::servers::{answers, free_port};

/// Filter for the rows of the first truck; the id of its tags depends on the workers.
const TRUCK: &str = "tags_id IN (SELECT id FROM benchmark.tags WHERE name = 'truck_0')";

struct ClickHouse {
    url: String,
    server: Child,
    _dir: TempDir,
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl ClickHouse {
    fn new(mut command: Command, port: u16, dir: TempDir) -> Option<ClickHouse> {
        let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let url = format!("http://127.0.0.1:{port}");
        let mut clickhouse = ClickHouse { url, server, _dir: dir };
        answers("ClickHouse", port, &mut clickhouse.server);
        Some(clickhouse)
    }

    fn chdb() -> Option<ClickHouse> {
        let python = env::var_os("CHDB_PYTHON").unwrap_or_else(|| "python3".into());
        let found =
            Command::new(&python).args(["-c", "import chdb"]).stderr(Stdio::null()).status();
        if !found.ok()?.success() {
            return None;
        }
        let (dir, port) = (tempdir().unwrap(), free_port());
        let mut command = Command::new(python);
        command.args(["-c", include_str!("chdb_server.py"), &port.to_string()]).arg(dir.path());
        ClickHouse::new(command, port, dir)
    }

    fn installed() -> Option<ClickHouse> {
        let (dir, port, native) = (tempdir().unwrap(), free_port(), free_port());
        let place = dir.path().display();
        let config = format!(
            "<yandex><logger><level>none</level></logger><http_port>{port}</http_port>\
             <tcp_port>{native}</tcp_port><listen_host>127.0.0.1</listen_host>\
             <path>{place}/data/</path><tmp_path>{place}/tmp/</tmp_path>\
             <mark_cache_size>67108864</mark_cache_size><users_config>users.xml</users_config>\
             <default_profile>default</default_profile>\
             <default_database>default</default_database></yandex>"
        );
        let users = "<yandex><profiles><default/></profiles><users><default><password></password>\
                     <networks><ip>::/0</ip></networks><profile>default</profile>\
                     <quota>default</quota></default></users><quotas><default/></quotas></yandex>";
        for (name, text) in [("config.xml", config.as_str()), ("users.xml", users)] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        for name in ["data", "tmp"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut command = Command::new("clickhouse-server");
        command.arg(format!("--config-file={place}/config.xml")).current_dir(dir.path());
        ClickHouse::new(command, port, dir)
    }

    fn ask(&self, statement: &str) -> String {
        let mut answer = ureq::post(&self.url).send(statement).unwrap();
        answer.body_mut().read_to_string().unwrap().trim().to_owned()
    }
}

#[test]
fn every_row_is_counted_back_by_the_current_engine() {
    let Some(clickhouse) = ClickHouse::chdb() else {
        return eprintln!("skipped: chdb is not installed");
    };
    let url = format!("--url {}", clickhouse.url);
    for layout in ["tags", "wide"] {
        check(&url, &format!("--layout {layout}"));
        let truck = match layout {
            "tags" => TRUCK,
            _ => "name = 'truck_0'",
        };
        let first = clickhouse.ask(&format!(
            "SELECT toUnixTimestamp64Nano(created_at), longitude FROM benchmark.readings \
             WHERE {truck} ORDER BY created_at LIMIT 1"
        ));
        assert_eq!(first, "1451606400000000000\t4.72037", "{layout}");
    }
    check_tags_keep_their_ids(&clickhouse, "");
}

#[test]
fn every_row_is_counted_back_in_the_columns_of_tsbs() {
    let Some(clickhouse) = ClickHouse::installed() else {
        return eprintln!("skipped: clickhouse-server is not installed");
    };
    let url = format!("--url {}", clickhouse.url);
    check(&url, "--faithful");
    let first = clickhouse.ask(&format!(
        "SELECT created_date, toUInt32(created_at), time, longitude FROM benchmark.readings \
         WHERE {TRUCK} ORDER BY created_at LIMIT 1"
    ));
    assert_eq!(first, "2016-01-01\t1451606400\t2016-01-01 00:00:00 +0000\t4.72037");
    check_tags_keep_their_ids(&clickhouse, "--faithful");
}

#[track_caller]
fn check(url: &str, layout: &str) {
    let dir = tempdir().unwrap();
    for (use_case, rows) in
        [("cpu-only", 3_600), ("devops", 32_400), ("devops-generic", 1_900), ("iot", 6_513)]
    {
        let flags = format!("--use-case {use_case} --max-metric-count 20 {SMALL}");
        let (path, _) = generated(&dir, &format!("{flags} --format clickhouse"));
        let source = format!("--file {path} --workers 2 --batch-size 5000");
        let (outcome, results) = load(&dir, &format!("clickhouse {url} {layout} {source}"));
        assert_eq!(outcome, Ok(()), "{use_case} {layout}");
        assert_eq!(results["acknowledgedRows"], rows, "{use_case} {layout}");
        assert_eq!(results["readableRows"], rows, "{use_case} {layout}");
    }
}

/// Checks that a second load into the same tables finds the tags that are there.
fn check_tags_keep_their_ids(clickhouse: &ClickHouse, layout: &str) {
    let dir = tempdir().unwrap();
    let line = format!("clickhouse --url {} {layout} --use-case iot", clickhouse.url);
    for (seed, flags) in [(SMALL, ""), (SMALL, "--do-create-db false")] {
        let (outcome, results) = load(&dir, &format!("{line} --generate {seed} {flags}"));
        assert_eq!(outcome, Ok(()), "{flags}");
        assert_eq!(results["readableRows"], 6_513, "{flags}");
    }
    let tags = clickhouse.ask("SELECT count(), uniq(id), max(id) FROM benchmark.tags");
    assert_eq!(tags, "53\t53\t53");
}
