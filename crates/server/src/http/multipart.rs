//! Parser of bodies with several parts (`multipart/form-data`), each by itself or as one text.
//!
//! - multipart-1. The result for a body does not depend on the pieces in which it arrives.
//! - multipart-2. In the joined text, each part begins on a new line.
//! - At most `FIELDS_BYTES` of a part's fields are kept, and of its content no more bytes than a
//!   boundary has.
//! - multipart-3. Bytes that are held back are not searched again when more arrive: small pieces
//!   cost no more than large ones.
//!
//! Not here: the meaning of a part's fields, except its name.

use std::mem;

/// The most bytes of a boundary, by RFC 2046.
const BOUNDARY_BYTES: usize = 70;
/// The most bytes of the fields of a part.
const FIELDS_BYTES: usize = 4 << 10;

/// The reason why a body is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadParts(pub(crate) &'static str);

/// A receiver of the parts of a body.
pub(crate) trait PartSink {
    /// Begins a part that has these fields.
    fn begin(&mut self, fields: &[u8]) -> Result<(), BadParts>;

    /// Takes the next bytes of the part.
    fn text(&mut self, bytes: &[u8]);
}

/// A sink that joins all parts into one text (multipart-2).
struct Joined<'a> {
    text: &'a mut Vec<u8>,
    is_open: &'a mut bool,
    is_new: &'a mut bool,
}

impl PartSink for Joined<'_> {
    fn begin(&mut self, _: &[u8]) -> Result<(), BadParts> {
        *self.is_new = true;
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) {
        if mem::take(self.is_new) && mem::take(self.is_open) {
            self.text.push(b'\n');
        }
        self.text.extend_from_slice(bytes);
        *self.is_open = bytes.last().is_some_and(|&byte| byte != b'\n');
    }
}

/// A parser of such a body.
#[derive(Debug)]
pub(crate) struct Multipart {
    /// The separator of parts: a line end, two dashes and the boundary.
    delimiter: Vec<u8>,
    state: State,
    /// The bytes that cannot be interpreted without those that follow.
    held: Vec<u8>,
    /// The number of bytes at the front of `held` that were searched without a find (multipart-3).
    searched: usize,
    /// `is_open` is true if the text ends within a line (multipart-2), `is_new` if that line
    /// belongs to an earlier part.
    is_open: bool,
    is_new: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first part; its bytes are ignored.
    Before,
    /// After a boundary.
    Boundary,
    /// From the line end after a boundary on.
    Fields,
    /// From the empty line after the fields on. Its line end may be that of a boundary: then the
    /// part is empty.
    Start,
    Text,
    /// After the last part; its bytes are ignored.
    After,
}

impl Multipart {
    /// Makes a parser for bodies with this `Content-Type`.
    pub(crate) fn new(content_type: &str) -> Result<Multipart, BadParts> {
        let boundary = boundary(content_type).ok_or(BadParts("its type names no boundary"))?;
        if !(1..=BOUNDARY_BYTES).contains(&boundary.len()) {
            return Err(BadParts("its boundary has not 1 to 70 bytes"));
        }
        let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
        // The first boundary may stand at the beginning, without a line end before it.
        let held = b"\r\n".to_vec();
        Ok(Multipart {
            delimiter,
            state: State::Before,
            held,
            searched: 0,
            is_open: false,
            is_new: false,
        })
    }

    /// Takes the next bytes, and appends the content of the parts to `text`.
    pub(crate) fn push(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> Result<(), BadParts> {
        let (mut is_open, mut is_new) = (self.is_open, self.is_new);
        let mut joined = Joined { text, is_open: &mut is_open, is_new: &mut is_new };
        let pushed = self.push_to(bytes, &mut joined);
        (self.is_open, self.is_new) = (is_open, is_new);
        pushed
    }

    /// Takes the next bytes, and passes the content of the parts to `sink`.
    pub(crate) fn push_to(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn PartSink,
    ) -> Result<(), BadParts> {
        let mut held = mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            match self.step(&held[at..], sink) {
                Ok(Some(count)) => at += count,
                Ok(None) => break,
                Err(bad) => {
                    // The bytes that were held back are lost.
                    self.searched = 0;
                    return Err(bad);
                }
            }
        }
        held.drain(..at);
        self.held = held;
        Ok(())
    }

    /// Checks that the body has ended.
    pub(crate) fn finish(&self) -> Result<(), BadParts> {
        if self.state == State::After { Ok(()) } else { Err(BadParts("it has no last boundary")) }
    }

    /// Takes bytes from the front; `None` if more bytes are needed.
    fn step(&mut self, bytes: &[u8], sink: &mut dyn PartSink) -> Result<Option<usize>, BadParts> {
        match self.state {
            State::Before | State::Text => Ok(self.up_to_boundary(bytes, sink)),
            State::Boundary => self.behind_boundary(bytes),
            State::Fields => self.fields(bytes, sink),
            State::Start => {
                if self.delimiter.starts_with(bytes) && bytes.len() < self.delimiter.len() {
                    return Ok(None);
                }
                if bytes.starts_with(&self.delimiter) {
                    return Ok(self.up_to_boundary(bytes, sink));
                }
                self.state = State::Text;
                Ok(Some(2))
            }
            State::After => Ok(Some(bytes.len()).filter(|&count| 0 < count)),
        }
    }

    fn fields(&mut self, bytes: &[u8], sink: &mut dyn PartSink) -> Result<Option<usize>, BadParts> {
        let empty_line = b"\r\n\r\n";
        let from = self.searched.saturating_sub(empty_line.len() - 1);
        match find(&bytes[from..], empty_line).map(|at| from + at) {
            Some(end) if end <= FIELDS_BYTES => {
                sink.begin(&bytes[..end])?;
                (self.state, self.searched) = (State::Start, 0);
                Ok(Some(end + 2))
            }
            None if bytes.len() < FIELDS_BYTES + empty_line.len() => {
                self.searched = bytes.len();
                Ok(None)
            }
            _ => Err(BadParts("the fields of a part are too long")),
        }
    }

    fn up_to_boundary(&mut self, bytes: &[u8], sink: &mut dyn PartSink) -> Option<usize> {
        let mut from = 0;
        let (end, taken) = loop {
            let Some(at) = memchr::memchr(b'\r', &bytes[from..]) else {
                break (bytes.len(), bytes.len());
            };
            let rest = &bytes[from + at..];
            if rest.starts_with(&self.delimiter) {
                break (from + at, from + at + self.delimiter.len());
            }
            if self.delimiter.starts_with(rest) {
                break (from + at, from + at);
            }
            from += at + 1;
        };
        if self.state == State::Text && 0 < end {
            sink.text(&bytes[..end]);
        }
        if end < taken {
            self.state = State::Boundary;
        }
        (0 < taken).then_some(taken)
    }

    fn behind_boundary(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadParts> {
        let unseen = bytes[self.searched..].iter();
        let blanks = self.searched + unseen.take_while(|it| matches!(it, b' ' | b'\t')).count();
        let refused = Err(BadParts("a boundary is followed by something else"));
        if FIELDS_BYTES < blanks {
            return refused;
        }
        match bytes.get(blanks..blanks + 2) {
            None => {
                self.searched = blanks;
                Ok(None)
            }
            Some(b"--") if blanks == 0 => {
                self.state = State::After;
                Ok(Some(2))
            }
            Some(b"\r\n") => {
                (self.state, self.searched) = (State::Fields, 0);
                Ok(Some(blanks))
            }
            Some(_) => refused,
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Returns the boundary of `multipart/form-data; boundary="a b"`.
fn boundary(content_type: &str) -> Option<String> {
    parameter(content_type, "boundary")
}

/// Returns a parameter of the field `Content-Disposition` of a part; `None` if it has none.
pub(crate) fn disposition(fields: &[u8], name: &str) -> Option<String> {
    let fields = String::from_utf8_lossy(fields);
    let mut lines = fields.lines().filter_map(|line| line.split_once(':'));
    let is_it = |(field, _): &(&str, &str)| field.eq_ignore_ascii_case("content-disposition");
    parameter(lines.find(is_it)?.1, name)
}

/// Returns the parameter of a field with this name.
fn parameter(field: &str, wanted: &str) -> Option<String> {
    let (_, mut rest) = field.split_once(';')?;
    loop {
        let (name, behind) = rest.split_once('=')?;
        let (value, behind) = parameter_value(behind)?;
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = behind.trim_start().strip_prefix(';')?;
    }
}

/// Returns a word, or a text in quotes; and the rest after it.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return Some((text[..end].trim().to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the result for a body, cut at every place (multipart-1).
    #[track_caller]
    fn check(body: &str, expected: Result<&str, &'static str>) {
        for cut in 0..=body.len() {
            let (first, second) = body.as_bytes().split_at(cut);
            let mut parts = Multipart::new("multipart/form-data; boundary=x").unwrap();
            let mut text = Vec::new();
            let outcome = parts
                .push(first, &mut text)
                .and_then(|()| parts.push(second, &mut text))
                .and_then(|()| parts.finish());
            let found = outcome.map(|()| String::from_utf8(text).unwrap());
            let found = found.as_deref().map_err(|&BadParts(why)| why);
            assert_eq!(found, expected, "multipart-1: {body:?} cut at {cut}");
        }
    }

    #[test]
    fn parts_are_joined() {
        check("--x\r\nA: b\r\nC: d\r\n\r\none\r\n--x--\r\n", Ok("one"));
        check("--x\r\n\r\none\n\r\n--x\r\nA: b\r\n\r\ntwo\r\n--x--", Ok("one\ntwo"));
        check("--x\r\n\r\none\r\n--x \t\r\n\r\ntwo\r\n--x--", Ok("one\ntwo"));
        check("about\r\n--x\r\n\r\n\r\n--y\r\n-\r\n--x--rest", Ok("\r\n--y\r\n-"));
        check("--x\r\nA: b\r\n\r\n--x\r\n\r\n\r\n--x--", Ok(""));
        check("--x--", Ok(""));
    }

    #[test]
    fn a_body_that_is_not_multipart_is_refused() {
        let not_ended = Err("it has no last boundary");
        check("", not_ended);
        check("t v=1i 1\n", not_ended);
        check("--x\r\n\r\none", not_ended);
        check("--x\r\n\r\none\r\n--x", not_ended);
        check("--xy\r\n\r\none\r\n--x--", Err("a boundary is followed by something else"));
        let fields = format!("--x\r\nA: {}\r\n\r\n", "b".repeat(FIELDS_BYTES));
        check(&fields, Err("the fields of a part are too long"));
    }

    #[test]
    fn parts_have_names() {
        let fields = b"A: b\r\ncontent-disposition: form-data; name=\"data\"; filename=\"a.csv\"";
        assert_eq!(disposition(fields, "name").as_deref(), Some("data"));
        assert_eq!(disposition(fields, "filename").as_deref(), Some("a.csv"));
        assert_eq!(disposition(b"\r\nA: b", "name"), None);
    }

    #[test]
    fn the_boundary_is_a_parameter() {
        for (text, expected) in [
            ("multipart/form-data; boundary=a-b", Some("a-b")),
            ("multipart/form-data;charset=utf-8 ; Boundary=\"a; \\\"b\" ; x=y", Some("a; \"b")),
            ("multipart/form-data; a=\";boundary=c\"; boundary=d", Some("d")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary", None),
            ("multipart/form-data; boundary=\"a", None),
        ] {
            assert_eq!(boundary(text).as_deref(), expected, "{text}");
        }
        for text in ["multipart/form-data; boundary=", &format!("x;boundary={}", "b".repeat(71))] {
            assert!(Multipart::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn held_bytes_are_searched_once() {
        let mut parts = Multipart::new("multipart/form-data; boundary=x").unwrap();
        let mut text = Vec::new();
        parts.push(b"--x", &mut text).unwrap();
        for (piece, searched) in
            [(" ", 1), ("\t ", 3), ("\r", 3), ("\n", 2), ("A: b", 6), ("\r\n", 8), ("\r\n", 0)]
        {
            parts.push(piece.as_bytes(), &mut text).unwrap();
            assert_eq!(parts.searched, searched, "multipart-3: behind {piece:?}");
        }
    }
}
