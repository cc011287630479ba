//! A client of HTTP on the level of bytes.

use std::fmt::Write as _;
use std::io::{Read, Write};

use crate::fixture::{Connection, Server, wait_until};

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Server {
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.request(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n"), b"")
    }

    pub(crate) fn post(&self, target: &str, fields: &str, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {}\r\n",
            body.len()
        );
        self.request(&head, body)
    }

    /// Sends one request and returns the answer.
    pub(crate) fn request(&self, head: &str, body: &[u8]) -> Answer {
        Answer::parse(&self.bytes(head, body)).0
    }

    /// Sends one request and returns the raw bytes of the answer.
    pub(crate) fn bytes(&self, head: &str, body: &[u8]) -> Vec<u8> {
        closing(self.connect(), head, body)
    }

    /// Returns the status of the first answer to some bytes.
    #[track_caller]
    pub(crate) fn status(&self, request: &[u8]) -> u16 {
        let mut stream = self.connect();
        // A server that refuses a request may not read all of it.
        let sent = stream.write_all(request);
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        while find(&bytes, b"\r\n\r\n").is_none() {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            }
        }
        let head = String::from_utf8_lossy(&bytes);
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        status.unwrap_or_else(|| panic!("no answer: {sent:?} {head}"))
    }

    /// Returns the answer of `/exec` to a statement.
    pub(crate) fn exec(&self, sql: &str) -> Answer {
        self.post("/exec", "Content-Type: text/plain\r\n", sql)
    }

    /// Returns the rows of `/exec` for a statement, as JSON.
    #[track_caller]
    pub(crate) fn rows(&self, sql: &str) -> String {
        let answer = self.post("/exec?nm=true", "Content-Type: text/plain\r\n", sql);
        assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
        let (_, rest) = answer.body.split_once("{\"dataset\":").expect("rows");
        rest.rsplit_once(",\"count\":").expect("a count").0.to_owned()
    }

    /// Returns the row count of a table; `None` if it is not there.
    #[track_caller]
    pub(crate) fn count(&self, table: &str) -> Option<u64> {
        let answer = self.exec(&format!("SELECT count(*) FROM \"{table}\""));
        if answer.body.contains("\"42P01\"") {
            return None;
        }
        let count = answer.body.split_once("\"dataset\":[[").and_then(|it| it.1.split_once(']'));
        Some(count.unwrap_or_else(|| panic!("{}", answer.body)).0.parse().expect("a number"))
    }

    /// Waits until a table has this many rows.
    #[track_caller]
    pub(crate) fn wait_for_rows(&self, table: &str, rows: u64) {
        wait_until("the rows", || self.count(table) == Some(rows));
    }

    /// Returns a value of `/metrics`.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    }
}

/// Sends one request as the last one of its connection, and returns the raw bytes of the answer.
pub(crate) fn closing(stream: Connection, head: &str, body: &[u8]) -> Vec<u8> {
    let all = [head.as_bytes(), b"Connection: close\r\n\r\n", body].concat();
    let bytes = stream.answer(&all);
    assert!(!bytes.is_empty(), "no answer to {head}");
    bytes
}

impl Answer {
    /// Parses the answer at the start of the bytes; returns it with the rest.
    pub(crate) fn parse(bytes: &[u8]) -> (Answer, &[u8]) {
        let (status, head, body, rest) = Answer::parts(bytes);
        (Answer { status, head, body: String::from_utf8(body).expect("text") }, rest)
    }

    /// Parses an answer that may not be text.
    pub(crate) fn parts(bytes: &[u8]) -> (u16, String, Vec<u8>, &[u8]) {
        let end = find(bytes, b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let mut rest = &bytes[end + 4..];
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        if !head.contains("Transfer-Encoding: chunked") {
            let line = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length = line.map_or(0, |it| it.parse::<usize>().expect("a length"));
            return (status, head, rest[..length].to_vec(), &rest[length..]);
        }
        let mut body = Vec::new();
        loop {
            let end = find(rest, b"\r\n").expect("a size");
            let size = str::from_utf8(&rest[..end]).expect("a size");
            let size = usize::from_str_radix(size, 16).expect("a size");
            body.extend_from_slice(&rest[end + 2..end + 2 + size]);
            assert_eq!(&rest[end + 2 + size..end + 4 + size], b"\r\n");
            rest = &rest[end + 4 + size..];
            if size == 0 {
                return (status, head, body, rest);
            }
        }
    }

    /// Returns a field of the head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Encodes a text as a value in a URL.
pub(crate) fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        if byte.is_ascii_alphanumeric() {
            all.push(char::from(byte));
        } else {
            write!(all, "%{byte:02x}").expect("a String takes everything");
        }
        all
    })
}

/// Returns the `Authorization` field for a name and a password.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", base64(format!("{user}:{password}").as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        let digit = |at: usize| {
            let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            char::from(if at <= group.len() { digit } else { b'=' })
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

pub(crate) fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes.as_ref()).expect("a Vec takes everything");
    encoder.finish().expect("a Vec takes everything")
}
