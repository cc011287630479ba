//! Loads into a PostgreSQL of its own, if one is installed: every row is counted back.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::{TempDir, tempdir};
use tokio_postgres::{Client, NoTls};

use crate::command::{SMALL, generated, load};
use crate::servers::free_port;

struct Cluster {
    port: u16,
    server: Child,
    _dir: TempDir,
}

/// Returns the directory of `initdb` and `postgres`.
fn binaries() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok();
    let told = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().into());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = versions.map(|version| version.path().join("bin"));
    told.into_iter()
        .chain(installed)
        .find(|dir: &PathBuf| ["initdb", "postgres"].iter().all(|name| dir.join(name).exists()))
}

/// Returns the user to run the server as, because it refuses to run as root.
fn user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    match id(&["-u"])? {
        0 => Some((id(&["-u", "postgres"])?, id(&["-g", "postgres"])?)),
        user => Some((user, id(&["-g"])?)),
    }
}

impl Cluster {
    fn start() -> Result<Cluster, &'static str> {
        let bin = binaries().ok_or("PostgreSQL is not installed")?;
        let (user, group) = user().ok_or("there is no user for PostgreSQL to run as")?;
        let dir = tempdir().unwrap();
        chown(dir.path(), Some(user), Some(group)).unwrap();
        let as_user = |name: &str| {
            let mut command = Command::new(bin.join(name));
            command.uid(user).gid(group).current_dir(dir.path());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let db = dir.path().join("db");
        let made =
            as_user("initdb").args(["-A", "trust", "-U", "postgres", "-D"]).arg(&db).status();
        assert!(made.unwrap().success(), "initdb");
        let port = free_port();
        let server = as_user("postgres")
            .arg("-D")
            .arg(&db)
            .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-c", "fsync=off", "-k"])
            .arg(dir.path())
            .spawn()
            .unwrap();
        let cluster = Cluster { port, server, _dir: dir };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err()
            || cluster.connect("postgres").is_none()
        {
            assert!(Instant::now() < deadline, "PostgreSQL starts");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(cluster)
    }

    fn connect(&self, db: &str) -> Option<(tokio::runtime::Runtime, Client)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config = format!("host=127.0.0.1 port={} user=postgres dbname={db}", self.port);
        let connected = runtime.block_on(tokio_postgres::connect(&config, NoTls)).ok()?;
        runtime.spawn(async { drop(connected.1.await) });
        Some((runtime, connected.0))
    }

    /// Ends the server at once.
    fn stop(&self) {
        let _ = Command::new("kill").args(["-QUIT", &self.server.id().to_string()]).status();
    }

    /// Returns the number that a query gives.
    fn ask(&self, query: &str) -> i64 {
        let (runtime, client) = self.connect("benchmark").unwrap();
        runtime.block_on(client.query_one(query, &[])).unwrap().get(0)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
        let _ = self.server.wait();
    }
}

#[test]
fn every_row_is_counted_back() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let dir = tempdir().unwrap();
    let place = format!("--host 127.0.0.1 --port {} --use-hypertable false", cluster.port);
    for (use_case, rows) in
        [("cpu-only", 3_600), ("devops", 32_400), ("iot", 6_513), ("devops-generic", 1_900)]
    {
        let flags = format!("--use-case {use_case} --max-metric-count 20 {SMALL}");
        let (path, _) = generated(&dir, &format!("{flags} --format timescaledb"));
        for source in
            [format!("--file {path} --workers 2 --batch-size 1000"), format!("--generate {flags}")]
        {
            let (outcome, results) = load(&dir, &format!("timescaledb {place} {source}"));
            outcome.unwrap();
            assert_eq!(results["sentRows"], rows, "{use_case}");
            assert_eq!(results["acknowledgedRows"], rows, "{use_case}");
            assert_eq!(results["readableRows"], rows, "{use_case}");
        }
        check_values(&cluster, use_case);
    }
    let (outcome, _) =
        load(&dir, &format!("timescaledb {place} --generate {SMALL} --do-abort-on-exist"));
    assert_eq!(
        outcome,
        Err("database benchmark exists, and --do-abort-on-exist is set".to_owned())
    );
    let extension = format!("--host 127.0.0.1 --port {}", cluster.port);
    let (outcome, _) = load(&dir, &format!("timescaledb {extension} --generate {SMALL}"));
    assert!(outcome.unwrap_err().starts_with("create the tables: "));
}

#[test]
fn flags_about_tables_are_applied() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let dir = tempdir().unwrap();
    let place = format!("--host 127.0.0.1 --port {} --use-hypertable false", cluster.port);
    let indexes = "SELECT count(*) FROM pg_indexes WHERE tablename = 'readings'";
    for (flags, expected) in [
        ("", 2),
        ("--use-insert", 2),
        ("--use-jsonb-tags --field-index-count 3", 5),
        ("--in-table-partition-tag --field-index-count -1 --time-index false", 8),
        ("--use-insert --use-jsonb-tags --in-table-partition-tag --partition-index false", 1),
    ] {
        let line = format!("timescaledb {place} --use-case iot --generate {SMALL} {flags}");
        // The second load finds the tags of the first one, and adds rows.
        for (create, rows) in [("true", 3_253), ("false", 6_506)] {
            let (outcome, results) = load(&dir, &format!("{line} --do-create-db {create}"));
            assert_eq!(outcome, Ok(()), "{flags} {create}");
            assert_eq!(results["acknowledgedRows"], 6_513, "{flags} {create}");
            assert_eq!(results["readableRows"], 6_513, "{flags} {create}");
            assert_eq!(cluster.ask("SELECT count(*) FROM readings"), rows, "{flags} {create}");
            assert_eq!(cluster.ask("SELECT count(*) FROM tags"), 53, "{flags} {create}");
        }
        let (column, json) = ("name = 'truck_0'", "tagset->>'name' = 'truck_0'");
        let name = if flags.contains("jsonb") { json } else { column };
        let name = if flags.contains("in-table") { "readings.name = 'truck_0'" } else { name };
        let first = format!(
            "SELECT count(*) FROM readings JOIN tags ON tags_id = id WHERE {name} \
             AND time = '2016-01-01T00:00:00Z' AND latitude = 52.31854 AND grade = 0"
        );
        assert_eq!(cluster.ask(&first), 2, "{flags}");
        assert_eq!(cluster.ask(indexes), expected, "{flags}");
    }
}

#[test]
fn an_error_in_the_middle_leaves_true_counts() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let dir = tempdir().unwrap();
    let place = format!("--host 127.0.0.1 --port {} --use-hypertable false", cluster.port);
    let line = format!("timescaledb {place} --generate {SMALL}");
    load(&dir, &format!("{line} --max-data-points 1")).0.unwrap();
    let (runtime, client) = cluster.connect("benchmark").unwrap();
    let check = "ALTER TABLE cpu ADD CONSTRAINT early CHECK (time < '2016-01-01T00:30:00Z')";
    runtime.block_on(client.batch_execute(check)).unwrap();
    // The fourth batch has the first row that is refused.
    let again = "--do-create-db false --batch-size 500";
    for flags in ["", "--use-insert"] {
        let (outcome, results) = load(&dir, &format!("{line} {again} {flags}"));
        let error = outcome.unwrap_err();
        assert!(error.starts_with("send batch 4 of worker 1, 500 rows: "), "{error}");
        assert!(error.contains("violates check constraint \"early\""), "{error}");
        for count in ["sentRows", "acknowledgedRows", "readableRows"] {
            assert_eq!(results[count], 1_500, "{count} {flags}");
        }
    }
    assert_eq!(cluster.ask("SELECT count(*) FROM cpu"), 1 + 2 * 1_500);

    // Another session locks the table: COPY waits for it, and the loader gives up after a time.
    let hold = "BEGIN; LOCK TABLE cpu IN SHARE MODE";
    runtime.block_on(client.batch_execute(hold)).unwrap();
    let (outcome, results) = load(&dir, &format!("{line} {again} --timeout 1s"));
    let error = outcome.unwrap_err();
    let expected = format!(
        "send batch 1 of worker 1, 500 rows: write rows: 127.0.0.1:{} gave no answer for 1s",
        cluster.port
    );
    assert_eq!(error, expected);
    assert_eq!((&results["sentRows"], &results["readableRows"]), (&0.into(), &0.into()));
}

#[test]
fn a_server_that_ends_meanwhile_leaves_true_counts() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let dir = tempdir().unwrap();
    let place = format!("--host 127.0.0.1 --port {} --use-hypertable false", cluster.port);
    let line = format!("timescaledb {place} --generate {SMALL}");
    load(&dir, &format!("{line} --max-data-points 1")).0.unwrap();
    let (outcome, results) = thread::scope(|scope| {
        scope.spawn(|| {
            while cluster.ask("SELECT count(*) FROM cpu") < 300 {
                thread::sleep(Duration::from_millis(5));
            }
            cluster.stop();
        });
        let slowly = "--do-create-db false --batch-size 100 --max-rps 30";
        load(&dir, &format!("{line} {slowly}"))
    });
    let error = outcome.unwrap_err();
    assert!(error.starts_with("send batch "), "{error}");
    assert!(error.contains(", 100 rows: "), "{error}");
    let (sent, acked) = (&results["sentRows"], &results["acknowledgedRows"]);
    assert_eq!(sent, acked);
    assert!((300..3_600).contains(&sent.as_u64().unwrap()), "{sent}");
    assert!(results["readableRows"].is_null(), "nobody is there to be asked");
}

/// Checks the values of rows, not only their number, against the generator.
fn check_values(cluster: &Cluster, use_case: &str) {
    let tags = cluster.ask("SELECT count(*) FROM tags");
    match use_case {
        "cpu-only" => {
            assert_eq!(tags, 10);
            let first = "SELECT count(*) FROM cpu JOIN tags ON tags_id = id \
                         WHERE hostname = 'host_0' AND region = 'eu-central-1' \
                         AND time = '2016-01-01T00:00:00Z' AND usage_user = 58";
            assert_eq!(cluster.ask(first), 1);
        }
        "devops" => {
            let disks = "SELECT count(*) FROM disk WHERE additional_tags->>'path' LIKE '/dev/sda%'";
            assert_eq!(cluster.ask(disks), 3_600);
        }
        "iot" => {
            assert!(10 < tags, "a tag left out makes another set of tags");
            assert!(0 < cluster.ask("SELECT count(*) FROM readings WHERE latitude IS NULL"));
            let first = "SELECT count(*) FROM readings JOIN tags ON tags_id = id \
                         WHERE name = 'truck_0' AND latitude = 52.31854 AND load_capacity = 1500";
            assert_eq!(cluster.ask(first), 1);
        }
        _ => assert_eq!(cluster.ask("SELECT count(metric_0) FROM generic_metrics"), 1_900),
    }
}
