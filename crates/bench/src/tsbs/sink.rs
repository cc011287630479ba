//! A server that takes line protocol and keeps nothing: the throughput of a client against it is
//! the limit of the client itself.
//!
//! - sink-1. Bytes are counted after they were taken from the socket, and a connection is counted
//!   as closed after its last byte: at the end of a connection the counts are final.
//!
//! Unless rows are counted, the bytes are not read, so on Linux the kernel drops them in place
//! (`Discard`): with two connections on two cores that took 0.21 ns of processor time a byte for
//! sender and sink together, against 0.31 with a copy into a buffer that stays in the cache.

mod discard;
mod http;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use memchr::memchr_iter;

use self::discard::Discard;
use super::args::SinkArguments;
use super::output::{say, tell};
use crate::error::{Error, Result};

/// Bytes read from a socket at once; few enough to stay in the cache.
const READ_BYTES: usize = 256 * 1024;

/// Counts of everything that has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Bytes of line protocol.
    pub bytes: u64,
    /// Newlines among them, if they are counted.
    pub rows: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that have ended.
    pub closed: u64,
    /// Requests answered over HTTP.
    pub requests: u64,
}

/// A sink that runs until it is dropped.
pub struct Sink {
    tcp: SocketAddr,
    http: Option<SocketAddr>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    count_rows: bool,
    bytes: AtomicU64,
    rows: AtomicU64,
    opened: AtomicU64,
    closed: AtomicU64,
    requests: AtomicU64,
    is_over: AtomicBool,
}

impl Sink {
    /// Listens on `tcp` for bare line protocol and on `http` for requests: `HOST:PORT`, or a port
    /// of 127.0.0.1. Port 0 is any free one.
    ///
    /// # Errors
    ///
    /// An address that is malformed or taken, and a thread that cannot be started.
    pub fn start(tcp: &str, http: Option<&str>, count_rows: bool) -> Result<Sink> {
        let shared = Arc::new(Shared { count_rows, ..Shared::default() });
        let mut threads = Vec::new();
        let (listener, tcp) = bind(tcp)?;
        threads.push(accept(listener, &shared, drain)?);
        let http = http.map(bind).transpose()?;
        let http = match http {
            None => None,
            Some((listener, address)) => {
                threads.push(accept(listener, &shared, http::serve)?);
                Some(address)
            }
        };
        Ok(Sink { tcp, http, shared, threads })
    }

    /// Returns the address for bare line protocol.
    #[must_use]
    pub fn tcp(&self) -> SocketAddr {
        self.tcp
    }

    /// Returns the address for requests.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> SinkCounts {
        // The counts of a connection are complete before it is counted as closed (sink-1).
        let closed = self.shared.closed.load(std::sync::atomic::Ordering::Acquire);
        SinkCounts {
            bytes: self.shared.bytes.load(Relaxed),
            rows: self.shared.rows.load(Relaxed),
            opened: self.shared.opened.load(Relaxed),
            closed,
            requests: self.shared.requests.load(Relaxed),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        // A connection wakes each thread that waits for one.
        for address in [Some(self.tcp), self.http].into_iter().flatten() {
            let _ = TcpStream::connect(address);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn bind(address: &str) -> Result<(TcpListener, SocketAddr)> {
    let whole = match address.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => address.to_owned(),
    };
    let bound = whole.to_socket_addrs().and_then(|mut addresses| {
        let address = addresses.next().ok_or(ErrorKind::AddrNotAvailable)?;
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    bound.map_err(|source| Error::Listen { address: address.to_owned(), source })
}

fn accept(
    listener: TcpListener,
    shared: &Arc<Shared>,
    serve: fn(TcpStream, &Shared) -> io::Result<()>,
) -> Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let accept = move || {
        for stream in listener.incoming() {
            if shared.is_over.load(Relaxed) {
                return;
            }
            let Ok(stream) = stream else { continue };
            shared.opened.fetch_add(1, Relaxed);
            let shared = Arc::clone(&shared);
            let serve = move || {
                // A client that goes away is not an error of the sink.
                let _ = serve(stream, &shared);
                shared.closed.fetch_add(1, std::sync::atomic::Ordering::Release);
            };
            // Without a thread the connection is closed, and the client sees that.
            let _ = thread::Builder::new().name("sink connection".to_owned()).spawn(serve);
        }
    };
    let spawned = thread::Builder::new().name("sink".to_owned()).spawn(accept);
    spawned.map_err(|source| Error::Thread { source })
}

/// Takes everything until the client closes.
fn drain(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    if !shared.count_rows {
        return Discard::new().discard_all(&stream, |bytes| shared.count_bytes(bytes));
    }
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let count = match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        shared.take(&bytes[..count]);
    }
}

impl Shared {
    fn count_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn take(&self, bytes: &[u8]) {
        self.count_bytes(bytes.len() as u64);
        if self.count_rows {
            self.rows.fetch_add(memchr_iter(b'\n', bytes).count() as u64, Relaxed);
        }
    }
}

/// Runs the command `tidegate-bench tsbs sink`.
pub(crate) fn run_sink(arguments: &SinkArguments) -> Result<()> {
    let period = arguments.reporting_period;
    let http = arguments.http.as_deref();
    let sink = Sink::start(&arguments.listen, http, arguments.count_rows)?;
    let http = sink.http().map_or_else(String::new, |address| format!(", for HTTP on {address}"));
    tell(&format!("listening on {}{http}", sink.tcp()));
    say("time,bytes/s,bytes,rows/s,rows,connections")?;
    let start = Instant::now();
    let mut last = (start, SinkCounts::default());
    loop {
        thread::sleep(Duration::from_millis(20));
        let counts = sink.counts();
        let is_over = 0 < arguments.connections && arguments.connections <= counts.closed;
        if is_over || !period.is_zero() && period <= last.0.elapsed() {
            let now = Instant::now();
            let seconds = now.duration_since(last.0).as_secs_f64();
            say(&format!(
                "{:.1},{:.0},{},{:.0},{},{}",
                now.duration_since(start).as_secs_f64(),
                (counts.bytes - last.1.bytes) as f64 / seconds,
                counts.bytes,
                (counts.rows - last.1.rows) as f64 / seconds,
                counts.rows,
                counts.opened,
            ))?;
            last = (now, counts);
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Writes a status and nothing else.
fn write_status(mut stream: &TcpStream, status: &str) -> io::Result<()> {
    stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for(sink: &Sink, closed: u64) -> SinkCounts {
        let deadline = Instant::now() + Duration::from_secs(30);
        while sink.counts().closed < closed {
            assert!(Instant::now() < deadline, "the connection is over by now");
            thread::yield_now();
        }
        sink.counts()
    }

    #[test]
    fn every_byte_of_every_connection_is_counted() {
        for count_rows in [false, true] {
            let sink = Sink::start("127.0.0.1:0", None, count_rows).unwrap();
            let line = b"cpu,hostname=host_0 usage_user=58i 1451606400000000000\n";
            let text = line.repeat(50_000);
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| TcpStream::connect(sink.tcp()).unwrap().write_all(&text));
                }
            });
            let counts = wait_for(&sink, 3);
            assert_eq!(counts.bytes, 3 * text.len() as u64, "sink-1");
            assert_eq!(counts.rows, if count_rows { 150_000 } else { 0 });
        }
    }

    #[test]
    fn bodies_of_requests_are_counted_and_their_heads_are_not() {
        let sink = Sink::start("127.0.0.1:0", Some("127.0.0.1:0"), true).unwrap();
        let url = format!("http://{}/write", sink.http().unwrap());
        let body = b"cpu usage_user=58i 1\n".repeat(100_000);
        for _ in 0..3 {
            let response = ureq::post(&url).send(&body[..]).unwrap();
            assert_eq!(response.status(), 204);
        }
        assert_eq!(sink.counts().rows, 300_000);
        assert_eq!(sink.counts().bytes, 3 * body.len() as u64);
        assert_eq!(sink.counts().requests, 3);
    }

    #[test]
    fn bodies_in_pieces_are_understood() {
        let sink = Sink::start("127.0.0.1:0", Some("127.0.0.1:0"), true).unwrap();
        let mut stream = TcpStream::connect(sink.http().unwrap()).unwrap();
        let head = "POST /write HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream
            .write_all(format!("{head}4\r\na\nb\n\r\n2;x=y\r\nc\n\r\n0\r\n\r\n").as_bytes())
            .unwrap();
        stream.write_all(b"GET /ping HTTP/1.1\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer.matches("204 No Content").count(), 2, "{answer}");
        assert_eq!((sink.counts().rows, sink.counts().bytes), (3, 6));
    }

    #[test]
    fn an_address_that_is_taken_is_an_error() {
        let sink = Sink::start("127.0.0.1:0", None, false).unwrap();
        let error = Sink::start(&sink.tcp().to_string(), None, false).err().unwrap();
        assert!(error.sentence().starts_with("listen on 127.0.0.1:"), "{}", error.sentence());
    }
}
