//! Detection of other protocols from the first bytes of a connection for lines.
//!
//! - prelude-1. If a connection begins with a request line of HTTP, with TLS or with another binary
//!   protocol, none of its bytes are parsed as lines: any web page can make a browser send such
//!   bytes, followed by lines of its own.
//! - prelude-2. Bytes are held back until the protocol is known: the whole first line if it begins
//!   with a method of HTTP, otherwise a few bytes at most.
//!
//! Not here: parsing lines (`ingest::line`), and keys of clients (`ilp::auth`).

/// The most bytes of a first line that begins like a request: browsers send addresses of up to 2
/// MB, and real lines that begin so are short.
const LINE_BYTES: usize = 64 << 10;
/// The methods that a browser or a client sends, each with the blank after it.
const METHODS: [&[u8]; 10] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"PATCH ",
    b"DELETE ",
    b"OPTIONS ",
    b"TRACE ",
    b"CONNECT ",
    b"PRI ",
];
/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// A protocol that is not the line protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    Http,
    Tls,
    Binary,
}

impl Foreign {
    pub(super) fn name(self) -> &'static str {
        match self {
            Foreign::Http => "HTTP",
            Foreign::Tls => "TLS",
            Foreign::Binary => "a binary protocol",
        }
    }
}

/// The bytes of a connection that were not passed to the parser yet.
#[derive(Debug, Default)]
pub(super) struct Prelude {
    held: Vec<u8>,
    is_over: bool,
}

impl Prelude {
    /// Returns true if the protocol is known, so that no bytes are held back.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the bytes of memory that are held back.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Takes bytes, and returns those that are lines (prelude-2).
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Foreign> {
        self.held.extend_from_slice(bytes);
        match judge(&self.held)? {
            false => Ok(Vec::new()),
            true => Ok(self.rest()),
        }
    }

    /// Returns the bytes that are still held back at the end of the connection.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        self.is_over = true;
        std::mem::take(&mut self.held)
    }
}

/// Returns true if the bytes at the start of a connection are lines; false if more bytes are
/// needed.
fn judge(bytes: &[u8]) -> Result<bool, Foreign> {
    match bytes.first() {
        None => return Ok(false),
        Some(&TLS_HANDSHAKE) => return Err(Foreign::Tls),
        Some(byte) if byte.is_ascii_control() && !byte.is_ascii_whitespace() => {
            return Err(Foreign::Binary);
        }
        Some(_) => {}
    }
    if METHODS.iter().any(|method| method.len() > bytes.len() && method.starts_with(bytes)) {
        return Ok(false);
    }
    if !METHODS.iter().any(|method| bytes.starts_with(method)) {
        return Ok(true);
    }
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
        return if bytes.len() < LINE_BYTES { Ok(false) } else { Err(Foreign::Http) };
    };
    let line = bytes[..end].trim_ascii_end();
    let is_request = line.windows(6).any(|part| part == b" HTTP/");
    if is_request { Err(Foreign::Http) } else { Ok(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the bytes that are taken as lines, with pieces of every size.
    #[track_caller]
    fn check(bytes: &[u8], expected: Result<&[u8], Foreign>) {
        for size in 1..=bytes.len() {
            let mut prelude = Prelude::default();
            let taken = bytes.chunks(size).try_fold(Vec::new(), |mut lines, piece| {
                match prelude.is_over() {
                    true => lines.extend_from_slice(piece),
                    false => lines.extend(prelude.take(piece)?),
                }
                Ok(lines)
            });
            let taken = taken.map(|lines| [lines, prelude.rest()].concat());
            assert_eq!(taken.as_deref(), expected.as_ref().copied(), "{size}");
        }
    }

    #[test]
    fn a_request_of_http_is_none_of_lines() {
        let lines = "\r\nevil,a=b v=1 1\nevil v=2 2\n";
        for request in [
            "POST / HTTP/1.1\r\nHost: 127.0.0.1:9009\r\n",
            "GET /?a=1 HTTP/1.0\r\n",
            "OPTIONS * HTTP/1.1\r\n",
            "PUT /x HTTP/1.1\n",
            "PRI * HTTP/2.0\r\n",
            "CONNECT x:1 HTTP/1.1\r\n",
        ] {
            check(format!("{request}{lines}").as_bytes(), Err(Foreign::Http));
        }
        let long = format!("POST /{} HTTP/1.1\r\n{lines}", "a".repeat(LINE_BYTES));
        let mut prelude = Prelude::default();
        let taken = long.as_bytes().chunks(1_000).try_for_each(|it| prelude.take(it).map(drop));
        assert_eq!(taken, Err(Foreign::Http), "prelude-1");
        check(b"\x16\x03\x01\x02\x00evil v=1 1\n", Err(Foreign::Tls));
        check(b"\x00\x03\x00\x08!\x12\xa4Bx\nevil v=1 1\n", Err(Foreign::Binary));
    }

    #[test]
    fn lines_are_recognised_although_their_table_is_named_like_a_method() {
        for lines in [
            "cpu v=1 1\n",
            "GET v=1 1\nPOST /=2 2\n",
            "POST,a=b v=1 1\n",
            "GETS v=1\n",
            "P",
            "\n\r\n#c\n v=1",
            "\u{e9} v=1\n",
            "PUT v=\"x\ny\" 1\n",
        ] {
            check(lines.as_bytes(), Ok(lines.as_bytes()));
        }
    }
}
