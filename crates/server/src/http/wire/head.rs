//! The head of a request: its first line and its fields.
//!
//! - wire_head-1. A head that arrives in small pieces costs time in proportion to its length: it is
//!   parsed when its end has arrived, and before that only when it has doubled.
//! - wire_head-2. A target in absolute form names the host; the field `Host` does not count then
//!   (RFC 9112, section 3.2.2).

use std::str;

use bytes::{Buf, BytesMut};
use thiserror::Error;

/// The most fields of a head. Clients send a dozen.
const FIELDS_MAX: usize = 100;

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// The target up to the question mark, as it was sent.
    pub(crate) path: String,
    /// The target after the question mark, as it was sent.
    pub(crate) query: String,
    /// The fields, with names in lower case.
    fields: Vec<(String, Vec<u8>)>,
    pub(crate) framing: Framing,
    /// True for HTTP/1.0, which has no chunks: an answer without a length ends with the connection.
    pub(crate) is_old: bool,
    /// True if another request may follow.
    pub(crate) keeps_alive: bool,
}

/// The end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// No body: the request has neither a length nor chunks.
    Absent,
    /// After this number of bytes.
    Length(u64),
    /// After a chunk without bytes.
    Chunked,
}

/// The reason why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum HeadError {
    #[error("the head of the request is too large")]
    TooLarge,
    #[error("the head of the request is malformed: {0}")]
    Malformed(&'static str),
    #[error("the head of the request took too long")]
    Slow,
}

/// A parser of heads that arrive in pieces.
#[derive(Debug, Default)]
pub(crate) struct HeadReader {
    /// The bytes of the buffer that were parsed, and are no complete head.
    parsed: usize,
    /// The bytes of the buffer that were searched for the end of a head.
    scanned: usize,
}

impl HeadReader {
    /// Takes the head from the buffer, if it is complete (wire_head-1).
    pub(crate) fn take(
        &mut self,
        buffer: &mut BytesMut,
        max: usize,
    ) -> Result<Option<Head>, HeadError> {
        // Empty lines before a request are skipped (RFC 9112, section 2.2).
        while buffer.starts_with(b"\r\n") || buffer.starts_with(b"\n") {
            buffer.advance(if buffer[0] == b'\n' { 1 } else { 2 });
            *self = HeadReader::default();
        }
        let has_end = has_end(&buffer[self.scanned.saturating_sub(LINE_END_BYTES)..]);
        self.scanned = buffer.len();
        if !has_end && buffer.len() < max.min(2 * self.parsed) {
            return Ok(None);
        }
        let head = Head::parse(buffer, max)?;
        match head {
            Some(_) => *self = HeadReader::default(),
            None => self.parsed = buffer.len(),
        }
        Ok(head)
    }
}

/// The bytes of the end of a head, less one.
const LINE_END_BYTES: usize = 2;

/// Returns true if there is an empty line.
fn has_end(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|two| two == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

impl Head {
    /// Takes the head from the buffer, if it is complete.
    fn parse(buffer: &mut BytesMut, max: usize) -> Result<Option<Head>, HeadError> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        let (head, bytes) = match request.parse(buffer) {
            Ok(httparse::Status::Complete(bytes)) if bytes <= max => (Head::of(&request)?, bytes),
            Ok(httparse::Status::Partial) if buffer.len() < max => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
            Err(_) => return Err(HeadError::Malformed("it is no request of HTTP/1.1")),
        };
        buffer.advance(bytes);
        Ok(Some(head))
    }

    fn of(request: &httparse::Request<'_, '_>) -> Result<Head, HeadError> {
        let (host, target) = host_and_target(request.path.unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = if path.is_empty() { "/" } else { path };
        let field =
            |field: &httparse::Header<'_>| (field.name.to_ascii_lowercase(), field.value.to_vec());
        let mut fields: Vec<_> = request.headers.iter().map(field).collect();
        let is_old = request.version == Some(0);
        check_host(&fields, is_old)?;
        if let Some(host) = host {
            fields.retain(|(name, _)| name != "host"); // wire_head-2
            fields.push(("host".to_owned(), host.as_bytes().to_vec()));
        }
        check_host_name(&fields, is_old)?;
        let connection = all_of(&fields, "connection");
        let keeps_alive = !is_old && !connection.split(',').any(|word| word.trim() == "close");
        Ok(Head {
            method: request.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            framing: framing(&fields, is_old)?,
            fields,
            is_old,
            keeps_alive,
        })
    }

    /// Parses the head of a test.
    #[cfg(test)]
    pub(crate) fn of_text(buffer: &mut BytesMut) -> Head {
        HeadReader::default().take(buffer, usize::MAX).expect("a head").expect("all of it")
    }

    /// Returns true if its method changes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// Returns the names of all fields, in lower case.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Returns a field's value; that of the last if there are several. `None` if it is not UTF-8.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().rev().find(|(known, _)| known == name)?;
        str::from_utf8(&found.1).ok().map(str::trim)
    }

    /// Returns true if the client waits for permission to send its body.
    pub(crate) fn expects_continue(&self) -> bool {
        // HTTP/1.0 has no such answers.
        !self.is_old
            && self.field("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }

    /// Returns the type of the body, without its parameters, in lower case.
    pub(crate) fn content_type(&self) -> String {
        let value = self.field("content-type").unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

/// Checks the field `Host`, which HTTP/1.1 requires exactly once (http_wire-3).
fn check_host(fields: &[(String, Vec<u8>)], is_old: bool) -> Result<(), HeadError> {
    match fields.iter().filter(|(name, _)| name == "host").count() {
        0 if !is_old => Err(HeadError::Malformed("it names no host")),
        0 | 1 => Ok(()),
        _ => Err(HeadError::Malformed("it names two hosts")),
    }
}

/// Checks that the host is a name: `http` knows no empty one (RFC 9110, section 4.2.1), and it
/// would count as a name of the local network (guard-5).
fn check_host_name(fields: &[(String, Vec<u8>)], is_old: bool) -> Result<(), HeadError> {
    let Some((_, value)) = fields.iter().find(|(name, _)| name == "host") else { return Ok(()) };
    let Ok(host) = str::from_utf8(value) else {
        return Err(HeadError::Malformed("its host is not a name"));
    };
    let host = host.trim();
    // HTTP/1.0 needs no host.
    if !is_old && (host.is_empty() || host.starts_with(':')) {
        return Err(HeadError::Malformed("it names no host"));
    }
    Ok(())
}

/// Returns the host that a target in absolute form names, and its path with the query
/// (wire_head-2).
fn host_and_target(target: &str) -> (Option<&str>, &str) {
    let Some((scheme, rest)) = target.split_once("://") else { return (None, target) };
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return (None, target);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    (Some(&rest[..end]), &rest[end..])
}

/// Returns the end of the body (http_wire-3).
fn framing(fields: &[(String, Vec<u8>)], is_old: bool) -> Result<Framing, HeadError> {
    let is_encoded = fields.iter().any(|(name, _)| name == "transfer-encoding");
    let encoding = all_of(fields, "transfer-encoding");
    let mut lengths = fields.iter().filter(|(name, _)| name == "content-length");
    let length = match (lengths.next(), lengths.next()) {
        (None, _) => None,
        (Some((_, value)), None) => Some(length(value)?),
        (Some(_), Some(_)) => return Err(HeadError::Malformed("it has two lengths")),
    };
    match (encoding.as_str(), length) {
        _ if !is_encoded => Ok(length.map_or(Framing::Absent, Framing::Length)),
        _ if is_old => Err(HeadError::Malformed("HTTP/1.0 has no transfer encodings")),
        ("chunked", None) => Ok(Framing::Chunked),
        ("chunked", Some(_)) => Err(HeadError::Malformed("it has a length and chunks")),
        _ => Err(HeadError::Malformed("its transfer encoding is not chunked")),
    }
}

fn length(value: &[u8]) -> Result<u64, HeadError> {
    let text = str::from_utf8(value).unwrap_or_default();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { text.parse().ok() } else { None };
    number.ok_or(HeadError::Malformed("its length is no number"))
}

/// Returns all values of a field, in lower case, joined by commas.
fn all_of(fields: &[(String, Vec<u8>)], name: &str) -> String {
    let values = fields.iter().filter(|(known, _)| known == name);
    let texts = values.map(|(_, value)| String::from_utf8_lossy(value).to_ascii_lowercase());
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 512;

    fn take(text: &str) -> Result<Option<Head>, HeadError> {
        HeadReader::default().take(&mut BytesMut::from(text), MAX)
    }

    fn taken(text: &str) -> Head {
        take(text).unwrap().expect("the whole head is there")
    }

    #[test]
    fn a_head_is_taken_and_the_rest_stays() {
        let mut buffer = BytesMut::from(
            "POST /write?db=x HTTP/1.0\r\nConnection: keep-alive\r\n\
             Content-Length: 3\r\n\r\nabcGET",
        );
        let head = HeadReader::default().take(&mut buffer, MAX).unwrap().unwrap();
        assert_eq!(
            (head.method.as_str(), head.path.as_str(), head.query.as_str()),
            ("POST", "/write", "db=x")
        );
        assert_eq!(head.framing, Framing::Length(3));
        assert!(head.is_old);
        assert_eq!(&buffer[..], b"abcGET", "http_wire-1");
    }

    #[test]
    fn a_part_of_a_head_waits_for_the_rest() {
        let whole = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(take(&whole[..end]), Ok(None), "{end}");
        }
        assert!(take(whole).unwrap().is_some());
    }

    #[test]
    fn a_connection_ends_when_the_client_says_so() {
        for (text, expected) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: x\r\nConnection: TE, Close\r\n\r\n", false),
            ("GET / HTTP/1.0\r\n\r\n", false),
            // Some answers end with the connection, and the client may request such a one next.
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", false),
        ] {
            assert_eq!(taken(text).keeps_alive, expected, "{text}");
        }
    }

    #[test]
    fn heads_that_could_be_read_in_two_ways_are_refused() {
        let chunks = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n";
        let both = format!("{chunks}Content-Length: 3\r\n\r\n");
        assert_eq!(
            take(&both),
            Err(HeadError::Malformed("it has a length and chunks")),
            "http_wire-3"
        );
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        let refused = HeadError::Malformed("HTTP/1.0 has no transfer encodings");
        assert_eq!(take(old), Err(refused), "http_wire-3");
        let two = "POST / HTTP/1.0\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(take(two), Err(HeadError::Malformed("it has two lengths")), "http_wire-3");
        // An empty encoding beside a length is no encoding for some readers, and one for others.
        for encoding in ["gzip, chunked", "", "identity", "chunked, chunked", "xchunked"] {
            let length = if encoding.is_empty() { "Content-Length: 3\r\n" } else { "" };
            let text = format!(
                "POST / HTTP/1.1\r\nHost: x\r\n{length}Transfer-Encoding: {encoding}\r\n\r\n"
            );
            let refused = HeadError::Malformed("its transfer encoding is not chunked");
            assert_eq!(take(&text), Err(refused), "http_wire-3: {encoding}");
        }
        for length in ["+3", "-1", "3,3", "0x3", "99999999999999999999"] {
            let text = format!("POST / HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
            let refused = HeadError::Malformed("its length is no number");
            assert_eq!(take(&text), Err(refused), "{length}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:  \r\n\r\n",
            "GET / HTTP/1.1\r\nHost: :9000\r\n\r\n",
            "GET http:///exec HTTP/1.1\r\nHost: x\r\n\r\n",
        ] {
            let refused = Err(HeadError::Malformed("it names no host"));
            assert_eq!(take(text), refused, "http_wire-3: {text}");
        }
        let mut bytes = BytesMut::from(&b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n"[..]);
        let refused = Err(HeadError::Malformed("its host is not a name"));
        assert_eq!(HeadReader::default().take(&mut bytes, MAX), refused);
        for version in ["1.0", "1.1"] {
            let two = format!("GET / HTTP/{version}\r\nHost: x\r\nhost: x\r\n\r\n");
            assert_eq!(take(&two), Err(HeadError::Malformed("it names two hosts")), "http_wire-3");
        }
        taken("GET / HTTP/1.0\r\n\r\n");
        taken("GET / HTTP/1.0\r\nHost:\r\n\r\n");
        // The target names the host.
        taken("GET http://a.example/ HTTP/1.1\r\nHost:\r\n\r\n");
    }

    #[test]
    fn the_absolute_form_names_the_host() {
        for (target, host, path, query) in [
            ("http://a.example/exec?query=1", "a.example", "/exec", "query=1"),
            ("HTTP://a.example:90/exec", "a.example:90", "/exec", ""),
            ("https://[::1]:9000", "[::1]:9000", "/", ""),
            ("http://a.example?x=1", "a.example", "/", "x=1"),
            ("/exec?url=http://b.example/", "x", "/exec", "url=http://b.example/"),
        ] {
            let head = taken(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
            assert_eq!(head.field("host"), Some(host), "wire_head-2: {target}");
            assert_eq!((head.path.as_str(), head.query.as_str()), (path, query), "wire_head-2");
        }
    }

    #[test]
    fn a_request_of_the_old_protocol_is_not_told_to_go_on() {
        let expects = |version: &str| {
            let text = format!("POST / HTTP/{version}\r\nHost: x\r\nExpect: 100-continue\r\n\r\n");
            taken(&text).expects_continue()
        };
        assert_eq!((expects("1.0"), expects("1.1")), (false, true));
    }

    // The whole head was parsed again for each byte: 58 KB of fields and then single bytes cost 35
    // us a byte.
    #[test]
    fn a_head_that_comes_byte_by_byte_is_parsed_a_few_times() {
        let fields = format!("A: {}\r\n", "b".repeat(700)).repeat(80);
        let whole = format!("\r\n\nGET / HTTP/1.1\r\nHost: x\r\n{fields}\r\nrest");
        let (mut reader, mut buffer, mut parsed) = (HeadReader::default(), BytesMut::new(), 0);
        let mut head = None;
        for byte in whole.bytes() {
            buffer.extend_from_slice(&[byte]);
            let before = reader.parsed;
            head = head.or(reader.take(&mut buffer, 64 << 10).unwrap());
            parsed += usize::from(reader.parsed != before);
        }
        assert!(head.is_some() && parsed <= 24, "wire_head-1: {parsed}");
        assert_eq!(&buffer[..], b"rest", "http_wire-1");
        // Bytes that cannot become a head are refused before a line end arrives.
        let refused = HeadReader::default().take(&mut BytesMut::from(&b"\x16\x03\x01"[..]), MAX);
        assert!(refused.is_err());
    }

    #[test]
    fn a_head_beyond_its_limit_is_refused() {
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(MAX));
        assert_eq!(take(&long), Err(HeadError::TooLarge));
        let fields = "A: b\r\n".repeat(FIELDS_MAX + 1);
        let many = format!("GET / HTTP/1.0\r\n{fields}\r\n");
        let many = &mut BytesMut::from(&*many);
        assert_eq!(HeadReader::default().take(many, 64 << 10), Err(HeadError::TooLarge));
    }

    #[test]
    fn a_head_that_is_not_http_is_refused() {
        let refused = Err(HeadError::Malformed("it is no request of HTTP/1.1"));
        for text in ["\u{16}\u{3}\u{1}hello\r\n\r\n", "GET /\r\n\r\n", "cpu,host=a v=1i\n\n"] {
            assert_eq!(take(text), refused, "{text}");
        }
    }
}
