//! Search for the end of a line, whatever bytes it contains.
//!
//! - line_end-1. The end depends on the bytes from the first byte of the line on and on nothing
//!   else: not on how they were split on arrival, and not on the error in the line.
//! - line_end-2. A line without parse errors ends where its parser ends.
//!
//! A newline ends a line unless a backslash stands before it (in names, keys and tags), or it is in
//! a string. A string begins with a quote behind the `=` of a field, and nowhere else; so a text in
//! a string, which may come from an untrusted source, is never parsed as lines. In a comment only
//! the newline counts.

use memchr::{memchr, memchr2, memchr3};

/// The state of the search in a line.
#[derive(Debug, Clone)]
pub(super) struct LineEndFinder {
    place: Place,
    is_escaped: bool,
    /// The number of bytes of the line so far.
    seen: usize,
    /// The position behind the quote that opened last.
    string_at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Comment,
    /// In the name or the tags.
    Head,
    /// Between the sections, in a field's key, or in the timestamp.
    Key,
    /// Behind the `=` of a field.
    ValueStart,
    Value,
    String,
}

impl LineEndFinder {
    pub(super) fn new() -> LineEndFinder {
        LineEndFinder { place: Place::Start, is_escaped: false, seen: 0, string_at: 0 }
    }

    /// The position at which to search for the next line if this one never ends: behind the quote
    /// of the open string.
    pub(super) fn open_string(&self) -> Option<usize> {
        (self.place == Place::String).then_some(self.string_at)
    }

    /// Reads the next bytes. Returns the number of those that belong to the line, its newline
    /// included, if the line ends among them.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_escaped {
                self.is_escaped = false;
                at += 1;
                continue;
            }
            at += self.skip(&bytes[at..]);
            let Some(&byte) = bytes.get(at) else { break };
            at += 1;
            if self.step(byte, at) {
                self.seen += at;
                return Some(at);
            }
        }
        self.seen += bytes.len();
        None
    }

    /// The number of bytes that do not change the state.
    fn skip(&self, bytes: &[u8]) -> usize {
        let next = match self.place {
            Place::Start | Place::ValueStart => return 0,
            Place::Comment => memchr(b'\n', bytes),
            Place::Head => memchr3(b' ', b'\n', b'\\', bytes),
            Place::Key => memchr3(b'=', b'\n', b'\\', bytes),
            Place::Value => memchr3(b',', b' ', b'\n', bytes),
            Place::String => memchr2(b'"', b'\\', bytes),
        };
        next.unwrap_or(bytes.len())
    }

    /// Takes one byte, the last of `at`. Returns true if it ends the line.
    fn step(&mut self, byte: u8, at: usize) -> bool {
        let is_end = byte == b'\n' && self.place != Place::String;
        self.place = match (self.place, byte) {
            (Place::Start, b'#') => Place::Comment,
            (Place::Start | Place::Head, b'\\') | (Place::Key, b'\\') => {
                self.is_escaped = true;
                if self.place == Place::Key { Place::Key } else { Place::Head }
            }
            (Place::Start | Place::Head, b' ') => Place::Key,
            (Place::Start, _) => Place::Head,
            (Place::Key, b'=') => Place::ValueStart,
            (Place::ValueStart, b'"') => {
                self.string_at = self.seen + at;
                Place::String
            }
            (Place::ValueStart | Place::Value, b',' | b' ') => Place::Key,
            (Place::ValueStart, _) => Place::Value,
            (Place::String, b'\\') => {
                self.is_escaped = true;
                Place::String
            }
            (Place::String, b'"') => Place::Value,
            (place, _) => place,
        };
        is_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the text before the bar as the line, whole and split at every position.
    #[track_caller]
    fn check(text: &str) {
        let expected = text.find('|');
        let text = text.replace('|', "");
        for cut in 0..=text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            let mut end_finder = LineEndFinder::new();
            let end = match end_finder.advance(first) {
                Some(end) => Some(end),
                None => end_finder.advance(second).map(|end| cut + end),
            };
            assert_eq!(end, expected, "line_end-1: {text:?} cut at {cut}");
        }
    }

    #[test]
    fn a_line_ends_at_its_newline_wherever_it_is_cut() {
        check("\n|a");
        check("a b=1\n|c");
        check("a\\\nb c=1\n|c");
        check("a b\\\nc=1\n|c");
        check("a b=1\\\n|c");
        check("a b=\"x\ny\"\n|c");
        check("a b=\"x\\\"\ny\"\n|c");
        check("a b=\"x\\\\\"\n|c");
        check("a b=x\"\n|c\"\n");
        check("a,b=\"x\n|c\"\n");
        check("#a b=\"x\n|c\"\n");
        check("a b=1,c=\"\n\n\" 5\n|");
        check("a b=\"x\n");
        check("a b");
    }

    #[test]
    fn an_open_string_says_where_it_began() {
        let mut end_finder = LineEndFinder::new();
        assert_eq!((end_finder.advance(b"a b="), end_finder.open_string()), (None, None));
        assert_eq!((end_finder.advance(b"\"x\ny"), end_finder.open_string()), (None, Some(5)));
    }
}
