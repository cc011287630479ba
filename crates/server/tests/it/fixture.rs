//! Servers in memory on simulated disks, and their connections as blocking streams.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_model::ByteCount;
use tidegate_platform::{RealDisk, SimClock, SimDisk};
use tidegate_query::{EngineOptions, Role, Timeout};
use tidegate_server::config::Config;
use tidegate_server::{InMemoryHost, InMemoryServer, Log, UserFile, UserFileError};
use tidegate_storage::{Access, Database, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::unconstrained;

/// Threads of the engine.
const THREADS: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");
/// The memory of the machine that the servers believe to run on.
const MEMORY: ByteCount = ByteCount(8 << 30);
/// The start of the clock: 2025-03-01T00:00:00 in microseconds.
const NOW: i64 = 1_740_787_200_000_000;
/// The longest wait: longer than anything here takes on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// The time that the log has to take its last lines.
const LOG_WAIT: Duration = Duration::from_secs(10);

/// A simulated disk with a database, and a file of users.
pub(crate) struct World {
    disk: SimDisk,
    dir: TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        World { disk: SimDisk::new(1), dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn users(&self) -> PathBuf {
        self.dir.path().join("users.toml")
    }

    /// Changes the file of users, as `tidegate user` does.
    #[track_caller]
    pub(crate) fn change_users<T>(
        &self,
        change: impl FnOnce(&mut UserFile) -> Result<T, UserFileError>,
    ) -> T {
        UserFile::change(&RealDisk, &self.users(), change).expect("the users can be changed")
    }

    #[track_caller]
    pub(crate) fn add_user(&self, name: &str, role: Role, password: &str) {
        self.change_users(|file| file.add_user(name, role, password));
    }
}

/// The text of a log.
#[derive(Clone, Default)]
struct LogText(Arc<Mutex<Vec<u8>>>);

impl Write for LogText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A running server, which ends with its test.
pub(crate) struct Server {
    /// `None` only while it ends.
    inner: Option<InMemoryServer>,
    log: Arc<Log>,
    text: LogText,
}

impl Server {
    pub(crate) fn start(world: &World) -> Server {
        Server::start_with(world, &[])
    }

    /// Starts a server with keys of the configuration, such as `pg.max_message=1MiB`.
    #[track_caller]
    pub(crate) fn start_with(world: &World, keys: &[&str]) -> Server {
        let mut config = Config::standard(MEMORY);
        // The disks are simulated, and COPY of files opens real ones.
        (config.min_free, config.copy.root, config.copy.export_root) = (0, None, None);
        for key in keys {
            let (key, value) = key.split_once('=').expect("a key and its value");
            config.set(key, value).expect("the key takes the value");
        }
        let (clock, text) = (Arc::new(SimClock::new(NOW)), LogText::default());
        let log = Arc::new(Log::new(Arc::clone(&clock) as _, Box::new(text.clone())));
        let spill_dir = PathBuf::from("/db/scratch/query");
        let engine = EngineOptions {
            statement_memory_max: config.statement_memory(),
            timeout: Timeout::After(config.query.timeout),
            timeout_max: Timeout::After(config.query.timeout_max),
            ..EngineOptions::standard(THREADS, config.query_memory(), spill_dir)
        };
        let mut options = OpenOptions::new(Arc::clone(&clock) as _);
        if config.read_only {
            options.access = Access::ReadOnly;
        }
        let database = Database::open(Arc::new(world.disk.clone()), Path::new("/db"), &options);
        let database = database.expect("the database opens");
        let warnings = tidegate_server::check(&config).expect("the server may start");
        let (host_log, users) = (Arc::clone(&log), world.users());
        let host = InMemoryHost { clock, log: host_log, engine, users, warnings, database };
        let inner = InMemoryServer::start(config, host).expect("the server starts");
        Server { inner: Some(inner), log, text }
    }

    fn inner(&self) -> &InMemoryServer {
        self.inner.as_ref().expect("it runs")
    }

    /// Opens a connection of HTTP.
    pub(crate) fn connect(&self) -> Connection {
        Connection(self.inner().connect_http(peer("127.0.0.1:50000")))
    }

    /// Opens a connection of HTTP from an address.
    pub(crate) fn connect_from(&self, address: &str) -> Connection {
        Connection(self.inner().connect_http(peer(address)))
    }

    /// Opens a connection of the listener for health and metrics.
    pub(crate) fn connect_admin(&self) -> Connection {
        Connection(self.inner().connect_admin(peer("127.0.0.1:50001")))
    }

    /// Opens a connection of PostgreSQL's protocol.
    pub(crate) fn connect_pg(&self) -> Connection {
        Connection(self.stream_pg())
    }

    /// Opens a connection of PostgreSQL's protocol from an address.
    pub(crate) fn connect_pg_from(&self, address: &str) -> Connection {
        Connection(self.inner().connect_pg(peer(address)))
    }

    /// Opens a connection of PostgreSQL's protocol for a client that does not block.
    pub(crate) fn stream_pg(&self) -> DuplexStream {
        self.inner().connect_pg(peer("127.0.0.1:50002"))
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        self.log.flush(LOG_WAIT);
        let text = self.text.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits until the log has these words.
    #[track_caller]
    pub(crate) fn wait_for(&self, words: &str) {
        wait_until(words, || self.log().contains(words));
    }

    /// Tells the server to stop: it completes the work in progress.
    pub(crate) fn drain(&self) {
        self.inner().drain();
    }

    /// Ends the server; its database can be opened again.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        let inner = self.inner.take().expect("it runs");
        inner.stop().expect("the database closes");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The test has failed, or does not look at the end.
        let _ = self.inner.take().map(InMemoryServer::stop);
    }
}

fn peer(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

/// The client's side of a connection, whose calls block.
pub(crate) struct Connection(DuplexStream);

impl Connection {
    /// Ends the client's half.
    pub(crate) fn end(&mut self) {
        wait(self.0.shutdown()).expect("it does not wait").expect("a half can be ended");
    }

    /// Sends bytes, and returns all bytes of the server up to the end of the connection.
    pub(crate) fn answer(self, bytes: &[u8]) -> Vec<u8> {
        let (mut reading, mut writing) = tokio::io::split(self.0);
        let mut answer = Vec::new();
        // The server may close the connection before all is sent.
        let both = wait(async {
            futures::join!(writing.write_all(bytes), reading.read_to_end(&mut answer))
        });
        assert!(both.is_some(), "the server is silent for too long");
        answer
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait(self.0.read(buffer)).unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        wait(self.0.write(bytes)).unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Wakes the thread that waits for a future.
struct Unpark {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, SeqCst);
        self.thread.unpark();
    }
}

/// Waits for the bytes of a connection, also within the runtime of another client; `None` if
/// nothing happens for too long.
fn wait<T>(work: impl Future<Output = T>) -> Option<T> {
    // Within the runtime of another client, its budget of operations would run out.
    let mut work = pin!(unconstrained(work));
    let unpark = Arc::new(Unpark { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(done);
        }
        // The first time, parking may end for a wake of before.
        let mut parked = (0..2).map(|_| {
            thread::park_timeout(WAIT_MAX);
            unpark.is_woken.swap(false, SeqCst)
        });
        if !parked.any(|is_woken| is_woken) {
            return None;
        }
    }
}

/// Waits for a condition without sleeping.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    // Each look takes microseconds or more: together they take longer than anything here.
    for _ in 0..2_000_000 {
        if is_so() {
            return;
        }
        thread::yield_now();
    }
    panic!("waited too long for {what}");
}
