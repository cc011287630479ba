//! Loads into an InfluxDB 1 of its own, if one is installed: every row is counted back.

use std::fs;
use std::process::{Child, Command, Stdio};

use tempfile::{TempDir, tempdir};

use crate::command::{SMALL, generated, load};
use crate::servers::{answers, free_port};

struct Influx {
    port: u16,
    server: Child,
    _dir: TempDir,
}

impl Influx {
    fn start() -> Result<Influx, &'static str> {
        let dir = tempdir().unwrap();
        let (port, rpc) = (free_port(), free_port());
        let place = dir.path().display();
        let config = dir.path().join("influxdb.conf");
        let text = format!(
            "reporting-disabled = true\n\
             bind-address = \"127.0.0.1:{rpc}\"\n\
             [meta]\ndir = \"{place}/meta\"\n\
             [data]\ndir = \"{place}/data\"\nwal-dir = \"{place}/wal\"\n\
             [http]\nbind-address = \"127.0.0.1:{port}\"\nlog-enabled = false\n\
             [monitor]\nstore-enabled = false\n"
        );
        fs::write(&config, text).unwrap();
        let server = Command::new("influxd")
            .arg("-config")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| "InfluxDB is not installed")?;
        let mut influx = Influx { port, server, _dir: dir };
        answers("InfluxDB", port, &mut influx.server);
        Ok(influx)
    }
}

impl Drop for Influx {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn every_row_is_counted_back() {
    let influx = match Influx::start() {
        Ok(influx) => influx,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let dir = tempdir().unwrap();
    let url = format!("--url http://127.0.0.1:{}", influx.port);
    // Rows of iot lack fields: a count of one of them would miss rows.
    for (use_case, rows) in [
        ("cpu-only", 3_600),
        ("cpu-single", 3_600),
        ("devops", 32_400),
        ("devops-generic", 1_900),
        ("iot", 6_513),
    ] {
        let flags = format!("--use-case {use_case} --max-metric-count 20 {SMALL}");
        let (path, _) = generated(&dir, &format!("{flags} --format influx"));
        for source in [
            format!("--file {path} --workers 2 --batch-size 1000"),
            format!("--generate {flags} --gzip false"),
        ] {
            let (outcome, results) = load(&dir, &format!("influx {url} {source}"));
            assert_eq!(outcome, Ok(()), "{use_case}");
            assert_eq!(results["sentRows"], rows, "{use_case}");
            assert_eq!(results["acknowledgedRows"], rows, "{use_case}");
            assert_eq!(results["readableRows"], rows, "{use_case}");
        }
    }
    let line = format!("influx {url} --generate {SMALL} --do-abort-on-exist");
    let exists = "database benchmark exists, and --do-abort-on-exist is set".to_owned();
    assert_eq!(load(&dir, &line).0, Err(exists));
}
