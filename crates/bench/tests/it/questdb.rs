//! Loads into a QuestDB of its own, if Java and its jar are there: every row is counted back.
//!
//! The jar is `$QUESTDB_JAR`, or `~/.cache/tidegate-peers/questdb.jar`.

use std::env;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::{TempDir, tempdir};

use crate::command::{SMALL, generated, load};
use crate::servers::{answers, free_port};

struct QuestDb {
    http: u16,
    ilp: u16,
    server: Child,
    _dir: TempDir,
}

impl QuestDb {
    fn start() -> Result<QuestDb, &'static str> {
        let home = || env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let jar = env::var_os("QUESTDB_JAR").map(PathBuf::from);
        let jar = jar.unwrap_or_else(|| home().join(".cache/tidegate-peers/questdb.jar"));
        if !jar.exists() {
            return Err("the jar of QuestDB is not there");
        }
        let dir = tempdir().unwrap();
        let (http, ilp, pg) = (free_port(), free_port(), free_port());
        let server = Command::new("java")
            .args(["-Xmx2g", "-p"])
            .arg(&jar)
            .args(["-m", "io.questdb/io.questdb.ServerMain", "-d"])
            .arg(dir.path())
            .env("QDB_HTTP_BIND_TO", format!("127.0.0.1:{http}"))
            .env("QDB_LINE_TCP_NET_BIND_TO", format!("127.0.0.1:{ilp}"))
            .env("QDB_PG_NET_BIND_TO", format!("127.0.0.1:{pg}"))
            .env("QDB_HTTP_MIN_ENABLED", "false")
            .env("QDB_TELEMETRY_ENABLED", "false")
            .env("QDB_SHARED_WORKER_COUNT", "2")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| "Java is not installed")?;
        let mut questdb = QuestDb { http, ilp, server, _dir: dir };
        for port in [http, ilp] {
            answers("QuestDB", port, &mut questdb.server);
        }
        Ok(questdb)
    }
}

impl Drop for QuestDb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn every_row_is_counted_back() {
    let questdb = match QuestDb::start() {
        Ok(questdb) => questdb,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let dir = tempdir().unwrap();
    let place =
        format!("--url http://127.0.0.1:{} --ilp-bind-to 127.0.0.1:{}", questdb.http, questdb.ilp);
    for (use_case, rows) in [("cpu-only", 3_600), ("devops", 32_400), ("iot", 6_513)] {
        let flags = format!("--use-case {use_case} {SMALL}");
        let (path, _) = generated(&dir, &format!("{flags} --format questdb"));
        // Rows of an earlier load are not counted again.
        for (protocol, source) in [
            ("ilp-tcp", format!("--file {path} --workers 2")),
            ("ilp-tcp", format!("--generate {flags}")),
            ("ilp-http", format!("--file {path} --workers 2 --batch-size 1000")),
        ] {
            let (outcome, results) =
                load(&dir, &format!("questdb --protocol {protocol} {place} {source}"));
            assert_eq!(outcome, Ok(()), "{use_case} {protocol}");
            assert_eq!(results["sentRows"], rows, "{use_case} {protocol}");
            assert_eq!(results["readableRows"], rows, "{use_case} {protocol}");
            let acked = if protocol == "ilp-http" { rows.into() } else { serde_json::Value::Null };
            assert_eq!(results["acknowledgedRows"], acked, "{use_case} {protocol}");
        }
    }
    let line = format!("questdb {place} --generate {SMALL} --do-abort-on-exist");
    let (outcome, _) = load(&dir, &line);
    let expected = "has 21600 rows in table cpu, and --do-abort-on-exist is set";
    let error = outcome.unwrap_err();
    assert!(error.ends_with(expected), "{error}");
}
