//! A PostgreSQL of the test's own, like that of the loader's tests.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::{TempDir, tempdir};
use tokio_postgres::NoTls;

use super::block_on;

pub(super) struct Cluster {
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
    pub(super) fn start() -> Result<Cluster, &'static str> {
        let bin = binaries().ok_or("PostgreSQL is not installed")?;
        let (user, group) = user().ok_or("there is no user for PostgreSQL to run as")?;
        let dir = tempdir().expect("a folder");
        chown(dir.path(), Some(user), Some(group)).expect("it is ours");
        let as_user = |name: &str| {
            let mut command = Command::new(bin.join(name));
            command.uid(user).gid(group).current_dir(dir.path());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let db = dir.path().join("db");
        let mut initdb = as_user("initdb");
        initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale", "C.UTF-8", "-D"]);
        assert!(initdb.arg(&db).status().expect("it starts").success(), "initdb");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        drop(listener);
        let server = as_user("postgres")
            .arg("-D")
            .arg(&db)
            .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-c", "fsync=off"])
            .args(["-c", "timezone=UTC", "-k"])
            .arg(dir.path())
            .spawn()
            .expect("it starts");
        let cluster = Cluster { port, server, _dir: dir };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() || !cluster.answers() {
            assert!(Instant::now() < deadline, "PostgreSQL starts");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(cluster)
    }

    pub(super) fn config(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }

    fn answers(&self) -> bool {
        block_on(async { tokio_postgres::connect(&self.config(), NoTls).await.is_ok() })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SIGQUIT ends the server at once.
        let _ = Command::new("kill").args(["-QUIT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
    }
}
