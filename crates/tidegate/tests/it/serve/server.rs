//! A server that runs in a world, and a client on the level of bytes.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::world::World;

/// Time limit of waits: longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct Server {
    child: Child,
    pub(super) http: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) ilp: SocketAddr,
    pub(super) pg: SocketAddr,
    lines: Mutex<Receiver<String>>,
}

/// An HTTP answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Server {
    pub(super) fn start(world: &World) -> Server {
        Server::start_with(world, &[])
    }

    /// Starts a server with keys of the configuration, such as `ilp.tcp.commit_rows=1`.
    pub(super) fn start_with(world: &World, keys: &[&str]) -> Server {
        let mut arguments = vec!["serve", "--http", "127.0.0.1:0", "--ilp", "127.0.0.1:0"];
        for key in keys {
            arguments.extend(["--set", key]);
        }
        Server::spawn(&mut world.command(&arguments))
    }

    pub(super) fn spawn(command: &mut Command) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            // The loop ends with the server; it reads on even if the receiver is gone.
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let nowhere: SocketAddr = "0.0.0.0:0".parse().expect("an address");
        let lines = Mutex::new(lines);
        let (http, admin, ilp, pg) = (nowhere, nowhere, nowhere, nowhere);
        let mut server = Server { child, http, admin, ilp, pg, lines };
        let lines = server.lines_until("ready");
        server.http = address(&lines, "HTTP listens on ").unwrap_or(nowhere);
        server.admin = address(&lines, "metrics listens on ").unwrap_or(nowhere);
        server.ilp = address(&lines, "line protocol listens on ").unwrap_or(nowhere);
        server.pg = address(&lines, "PostgreSQL's protocol listens on ").unwrap_or(nowhere);
        server
    }

    /// Starts a server whose log is read only until it is ready: its pipe is then full. The
    /// returned reader keeps the pipe open.
    pub(super) fn spawn_unread(command: &mut Command) -> (Server, BufReader<PipeReader>) {
        let (reader, writer) = pipe().expect("a pipe");
        let mut own = writer.try_clone().expect("a pipe");
        let child = command.stderr(writer).spawn().expect("the program starts");
        let mut log = BufReader::new(reader);
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains("ready")) {
            let mut line = String::new();
            assert!(0 < log.read_line(&mut line).expect("text"), "it is not ready: {lines:#?}");
            lines.push(line.trim_end().to_owned());
        }
        // The writes end when the other end is closed.
        thread::spawn(move || while own.write_all(&[b'.'; 4096]).is_ok() {});
        let nowhere: SocketAddr = "0.0.0.0:0".parse().expect("an address");
        let http = address(&lines, "HTTP listens on ").unwrap_or(nowhere);
        let ilp = address(&lines, "line protocol listens on ").unwrap_or(nowhere);
        let pg = address(&lines, "PostgreSQL's protocol listens on ").unwrap_or(nowhere);
        let (_, none) = channel();
        let server = Server { child, http, admin: nowhere, ilp, pg, lines: Mutex::new(none) };
        (server, log)
    }

    /// Returns the next line of the log that has these words.
    pub(super) fn wait_for(&self, words: &str) -> String {
        self.lines_until(words).pop().expect("that line")
    }

    /// Returns the next lines of the log, up to the one that has these words.
    pub(super) fn lines_until(&self, words: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let next = self.lines.lock().expect("nobody panics").recv_timeout(TIMEOUT);
            match next {
                Ok(line) => seen.push(line),
                Err(error) => panic!("no line with `{words}`: {error}; the log so far: {seen:#?}"),
            }
            if seen.last().is_some_and(|line| line.contains(words)) {
                return seen;
            }
        }
    }

    /// Returns the lines of the log that were not yet taken.
    pub(super) fn log(&self) -> String {
        let lines = self.lines.lock().expect("nobody panics");
        lines.try_iter().collect::<Vec<_>>().join("\n")
    }

    pub(super) fn connect(&self) -> TcpStream {
        connect(self.http)
    }

    pub(super) fn connect_ilp(&self) -> TcpStream {
        connect(self.ilp)
    }

    /// Sends lines over TCP and ends the connection.
    pub(super) fn send_lines(&self, lines: impl AsRef<[u8]>) {
        let mut stream = self.connect_ilp();
        stream.write_all(lines.as_ref()).expect("the server reads");
        stream.shutdown(Shutdown::Write).expect("the connection can be ended");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the server ends the connection");
        assert!(rest.is_empty(), "the server says nothing: {rest:?}");
    }

    pub(super) fn get(&self, target: &str) -> Answer {
        self.request(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n"), b"")
    }

    pub(super) fn post(&self, target: &str, fields: &str, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {}\r\n",
            body.len()
        );
        self.request(&head, body)
    }

    /// Sends one request and returns the answer.
    pub(super) fn request(&self, head: &str, body: &[u8]) -> Answer {
        Answer::parse(&self.bytes(head, body)).0
    }

    /// Sends one request and returns the raw bytes of the answer.
    pub(super) fn bytes(&self, head: &str, body: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        let head = format!("{head}Connection: close\r\n\r\n");
        let mut all = head.into_bytes();
        all.extend_from_slice(body);
        // A server that refuses a request may not read all of it.
        let sent = stream.write_all(&all);
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        assert!(!bytes.is_empty(), "no answer: {sent:?} {read:?}");
        bytes
    }

    /// Returns the answer of `/exec` to a statement.
    pub(super) fn exec(&self, sql: &str) -> Answer {
        self.post("/exec", "Content-Type: text/plain\r\n", sql)
    }

    /// Returns the rows of `/exec` for a statement, as JSON.
    #[track_caller]
    pub(super) fn rows(&self, sql: &str) -> String {
        let answer = self.post("/exec?nm=true", "Content-Type: text/plain\r\n", sql);
        assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
        let (_, rest) = answer.body.split_once("{\"dataset\":").expect("rows");
        rest.rsplit_once(",\"count\":").expect("a count").0.to_owned()
    }

    /// Returns the row count of a table; `None` if it is not there.
    pub(super) fn count(&self, table: &str) -> Option<u64> {
        let answer = self.exec(&format!("SELECT count(*) FROM \"{table}\""));
        if answer.body.contains("\"42P01\"") {
            return None;
        }
        let count = answer.body.split_once("\"dataset\":[[").and_then(|it| it.1.split_once(']'));
        Some(count.unwrap_or_else(|| panic!("{}", answer.body)).0.parse().expect("a number"))
    }

    /// Waits until a table has this many rows.
    #[track_caller]
    pub(super) fn wait_for_rows(&self, table: &str, rows: u64) {
        crate::world::wait_until("the rows", || self.count(table) == Some(rows));
    }

    /// Returns a value of `/metrics`.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    }

    pub(super) fn signal(&self, signal: &str) {
        crate::world::signal(&self.child, signal);
    }

    pub(super) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("the server ends")
    }

    /// Ends the server by SIGTERM, and waits for its end.
    pub(super) fn stop(mut self) {
        self.signal("-TERM");
        let status = self.wait();
        let lines = self.lines.lock().expect("nobody panics");
        assert_eq!(status.code(), Some(0), "{:?}", lines.try_iter().collect::<Vec<_>>());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the address behind these words in one of the lines.
fn address(lines: &[String], words: &str) -> Option<SocketAddr> {
    let found = lines.iter().find_map(|line| line.split_once(words))?;
    Some(found.1.parse().expect("an address"))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

impl Answer {
    /// Parses the answer at the start of the bytes; returns it with the rest.
    pub(super) fn parse(bytes: &[u8]) -> (Answer, &[u8]) {
        let (status, head, body, rest) = Answer::parts(bytes);
        (Answer { status, head, body: String::from_utf8(body).expect("text") }, rest)
    }

    /// Parses an answer that may not be text.
    pub(super) fn parts(bytes: &[u8]) -> (u16, String, Vec<u8>, &[u8]) {
        let end = find(bytes, b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let mut rest = &bytes[end + 4..];
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        let body = if head.contains("Transfer-Encoding: chunked") {
            let mut body = Vec::new();
            loop {
                let end = find(rest, b"\r\n").expect("a size");
                let size = str::from_utf8(&rest[..end]).expect("a size");
                let size = usize::from_str_radix(size, 16).expect("a size");
                body.extend_from_slice(&rest[end + 2..end + 2 + size]);
                assert_eq!(&rest[end + 2 + size..end + 4 + size], b"\r\n");
                rest = &rest[end + 4 + size..];
                if size == 0 {
                    break body;
                }
            }
        } else {
            let line = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length = line.map_or(0, |it| it.parse::<usize>().expect("a length"));
            let body = rest[..length].to_vec();
            rest = &rest[length..];
            body
        };
        (status, head, body, rest)
    }

    /// Returns a field of the head.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Encodes a text as a value in a URL.
pub(super) fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        if byte.is_ascii_alphanumeric() {
            all.push(char::from(byte));
        } else {
            write!(all, "%{byte:02x}").expect("a String takes everything");
        }
        all
    })
}
