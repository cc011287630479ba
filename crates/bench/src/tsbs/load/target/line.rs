//! Line protocol as a load target: over TCP, which has no acknowledgement, and over HTTP, to
//! QuestDB, Tidegate and InfluxDB.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use socket2::SockRef;

use super::http::{Http, percent_encoded};
use super::influx::Dialect;
use super::{Connection, Target, bad_answer};
use crate::error::{Error, Result};
use crate::tsbs::load::args::LoadArguments;
use crate::tsbs::load::rows::{Header, RowLayout};

/// The longest delay before a batch is repeated; all delays of a batch together are below the
/// timeout.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The size of the send buffer to a server on the same machine. With a small one, the pages of the
/// kernel stay in the cache between their uses, which saves a fifth of the processor time of
/// sending. Across a network it would limit the throughput.
const LOOPBACK_SEND_BYTES: usize = 128 * 1024;

pub(super) struct LineTcp {
    address: String,
    timeout: Duration,
    /// The client for counting rows; `None` if the target answers no queries.
    http: Option<Http>,
}

impl LineTcp {
    pub(super) fn new(arguments: &LoadArguments, http: Option<Http>) -> LineTcp {
        LineTcp { address: arguments.place.line_address(), timeout: arguments.timeout, http }
    }
}

impl Target for LineTcp {
    fn place(&self) -> String {
        self.address.clone()
    }

    fn layout(&self) -> RowLayout {
        RowLayout::Line
    }

    fn acknowledges(&self) -> bool {
        false
    }

    fn streams(&self) -> bool {
        true
    }

    fn keeps_rows(&self) -> bool {
        self.http.is_some()
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let stream = connect(&self.address, self.timeout);
        let stream =
            stream.map_err(|source| Error::Connect { address: self.address.clone(), source })?;
        let (address, timeout) = (self.address.clone(), self.timeout);
        Ok(Box::new(TcpConnection { stream, address, timeout }))
    }

    fn count(&self, table: &str) -> Result<Option<u64>> {
        self.http.as_ref().map(|http| count_by_exec(http, table)).transpose()
    }
}

fn connect(address: &str, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = ErrorKind::AddrNotAvailable.into();
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                if address.ip().is_loopback() {
                    SockRef::from(&stream).set_send_buffer_size(LOOPBACK_SEND_BYTES)?;
                }
                stream.set_write_timeout(Some(timeout))?;
                stream.set_read_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

struct TcpConnection {
    stream: TcpStream,
    address: String,
    timeout: Duration,
}

impl TcpConnection {
    fn failed(&self, source: std::io::Error) -> Error {
        let address = self.address.clone();
        match source.kind() {
            ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::WriteZero => Error::ClosedEarly { address },
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Error::Stuck { address, timeout: self.timeout }
            }
            _ => Error::Send { address, source },
        }
    }
}

impl Connection for TcpConnection {
    fn send(&mut self, rows: &[u8], _row_count: u64, _acked: &AtomicU64) -> Result<()> {
        self.stream.write_all(rows).map_err(|error| self.failed(error))
    }

    /// Ends the connection, and waits until the server closes its side: it does that when it has
    /// read all rows. Until then rows may be lost.
    fn finish(mut self: Box<Self>) -> Result<()> {
        let mut finish = || {
            self.stream.shutdown(Shutdown::Write)?;
            while self.stream.read(&mut [0; 512])? != 0 {}
            Ok(())
        };
        finish().map_err(|error: std::io::Error| match error.kind() {
            ErrorKind::NotConnected => Error::ClosedEarly { address: self.address.clone() },
            _ => self.failed(error),
        })
    }
}

pub(super) struct LineHttp {
    http: Http,
    write_path: String,
    api: Api,
    backoff: Duration,
    /// Nanoseconds that connections waited because the server asked for a delay.
    waited: Arc<AtomicU64>,
    gzip: bool,
}

/// The interface of a server for everything but writing.
enum Api {
    /// SQL over `/exec`.
    Exec,
    /// InfluxDB: the query language for counts, and the flags for its database.
    Influx { dialect: Dialect, create: bool, abort_on_exist: bool },
    /// No interface for queries.
    WriteOnly,
}

impl LineHttp {
    /// Creates a target for QuestDB or Tidegate, or for a sink, which answers no queries
    /// (`can_query` is false).
    pub(super) fn questdb(http: Http, can_query: bool) -> LineHttp {
        let api = if can_query { Api::Exec } else { Api::WriteOnly };
        LineHttp {
            http,
            write_path: "/write?precision=n".to_owned(),
            api,
            backoff: Duration::from_millis(100),
            waited: Arc::default(),
            gzip: false,
        }
    }

    pub(super) fn influx(mut http: Http, arguments: &LoadArguments) -> LineHttp {
        let place = &arguments.place;
        let db = arguments.db_name.clone();
        let (bucket, org) = (percent_encoded(&db), percent_encoded(&place.org));
        let (write_path, dialect) = match &place.token {
            Some(token) => {
                http.add_header("Authorization", format!("Token {token}"));
                let path = format!("/api/v2/write?org={org}&bucket={bucket}&precision=ns");
                (path, Dialect::Flux { org: place.org.clone(), bucket: db })
            }
            None => {
                http = http.authorized(place);
                let consistency = percent_encoded(&arguments.consistency);
                let path = format!("/write?consistency={consistency}&db={bucket}&precision=ns");
                (path, Dialect::InfluxQl { db })
            }
        };
        let (create, abort_on_exist) = (arguments.do_create_db, arguments.do_abort_on_exist);
        LineHttp {
            http,
            write_path,
            api: Api::Influx { dialect, create, abort_on_exist },
            backoff: arguments.backoff,
            waited: Arc::default(),
            gzip: arguments.gzip,
        }
    }

    /// Sends an InfluxQL statement.
    fn query(&self, statement: &str) -> Result<String> {
        self.http.post(&format!("/query?q={}", percent_encoded(statement)), b"")
    }

    fn check_is_absent(&self, db: &str) -> Result<()> {
        match self.query("SHOW DATABASES")?.contains(&format!("[\"{db}\"]")) {
            true => Err(Error::Exists { name: db.to_owned() }),
            false => Ok(()),
        }
    }

    fn recreate(&self, db: &str) -> Result<()> {
        let name = format!("\"{}\"", db.replace('"', "\\\""));
        self.query(&format!("DROP DATABASE {name}"))?;
        self.query(&format!("CREATE DATABASE {name}"))?;
        Ok(())
    }
}

impl Target for LineHttp {
    fn place(&self) -> String {
        self.http.base().to_owned()
    }

    fn layout(&self) -> RowLayout {
        RowLayout::Line
    }

    fn acknowledges(&self) -> bool {
        true
    }

    fn streams(&self) -> bool {
        false
    }

    fn keeps_rows(&self) -> bool {
        !matches!(self.api, Api::WriteOnly)
    }

    fn prepare(&self, _header: Option<&Header>) -> Result<()> {
        match &self.api {
            Api::Influx { dialect: Dialect::InfluxQl { db }, create, abort_on_exist } => {
                if *abort_on_exist {
                    self.check_is_absent(db)?;
                }
                if *create {
                    self.recreate(db)?;
                }
                Ok(())
            }
            // In InfluxDB 2 the user creates the bucket before the load.
            Api::Influx { .. } | Api::Exec | Api::WriteOnly => Ok(()),
        }
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let mut http = self.http.fresh();
        if self.gzip {
            http.add_header("Content-Encoding", "gzip".to_owned());
        }
        Ok(Box::new(HttpConnection {
            http,
            path: self.write_path.clone(),
            backoff: self.backoff,
            waited: Arc::clone(&self.waited),
            gzip: self.gzip.then(Vec::new),
        }))
    }

    fn count(&self, table: &str) -> Result<Option<u64>> {
        match &self.api {
            Api::Exec => count_by_exec(&self.http, table).map(Some),
            Api::Influx { dialect, .. } => dialect.count(&self.http, table).map(Some),
            Api::WriteOnly => Ok(None),
        }
    }

    fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Relaxed))
    }
}

struct HttpConnection {
    http: Http,
    path: String,
    backoff: Duration,
    waited: Arc<AtomicU64>,
    /// Buffer for compressed rows, if they are compressed.
    gzip: Option<Vec<u8>>,
}

/// Compresses rows into a buffer, replacing its content.
fn compress<'a>(rows: &[u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    buffer.clear();
    // The fastest level is used, because a client that compresses well would be the bottleneck.
    let mut encoder = GzEncoder::new(&mut *buffer, Compression::fast());
    encoder.write_all(rows).and_then(|()| encoder.finish()).expect("a write to memory succeeds");
    buffer
}

impl Connection for HttpConnection {
    fn send(&mut self, rows: &[u8], row_count: u64, acked: &AtomicU64) -> Result<()> {
        let body = self.gzip.as_mut().map_or(rows, |buffer| compress(rows, buffer));
        let start = Instant::now();
        let mut backoff = self.backoff;
        loop {
            let answer = self.http.post_any(&self.path, body)?;
            // Both statuses mean that the server took no row of the batch (load_target-2).
            if matches!(answer.0, 429 | 503) && start.elapsed() + backoff < self.http.timeout() {
                thread::sleep(backoff);
                let nanos = u64::try_from(backoff.as_nanos()).unwrap_or(u64::MAX);
                self.waited.fetch_add(nanos, Relaxed);
                backoff = (backoff * 2).min(BACKOFF_MAX);
                continue;
            }
            self.http.expect_good(&self.path, answer.0, answer.1)?;
            acked.fetch_add(row_count, Relaxed);
            return Ok(());
        }
    }
}

/// Counts the rows of a table over `/exec`; 0 if it does not exist.
fn count_by_exec(http: &Http, table: &str) -> Result<u64> {
    let query = percent_encoded(&format!("SELECT count(*) FROM \"{table}\""));
    let path = format!("/exec?query={query}");
    let answer = http.get_any(&path)?;
    if answer.0 == 400 && answer.1.contains("does not exist") {
        return Ok(0);
    }
    let text = http.expect_good(&path, answer.0, answer.1)?;
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    value["dataset"][0][0].as_u64().ok_or_else(|| bad_answer("count", text))
}
