//! Converts the text format of PostgreSQL's COPY (`FORMAT text`) to CSV: a line is a record, with
//! backslash escapes in place of quotes.
//!
//! - pg_text-1. Every field that is not NULL is written in quotes, so that its text stays the same,
//!   whatever it contains; NULL is written as nothing.
//! - pg_text-2. The output does not depend on how the bytes were split on arrival.
//! - pg_text-3. A record whose only field is NULL is written as a blank line, which counts as a
//!   record here.
//!
//! The pipeline reads only CSV, so places of bad records are those of the CSV: a line end that is
//! written as an escape counts as a line. A line `\.` ends the text, as it does in PostgreSQL.

use std::io::{self, Read};

/// The default delimiter.
pub(crate) const DELIMITER: u8 = b'\t';
/// The default text of NULL.
pub(crate) const NULL: &str = "\\N";

/// The number of bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// A reader that gives the CSV of such a text. The delimiter stays the same byte.
pub(crate) struct PgTextReader<R> {
    text: R,
    delimiter: u8,
    null: Vec<u8>,
    /// Bytes that were read and not yet converted.
    input: Vec<u8>,
    /// The present field, with its escapes.
    field: Vec<u8>,
    /// True if the last byte of the field is a backslash, which escapes the next byte.
    is_escaped: bool,
    output: Vec<u8>,
    /// The number of bytes of `output` that were taken.
    taken: usize,
    /// True if the present line has at least one byte.
    in_line: bool,
    is_done: bool,
}

impl<R: Read> PgTextReader<R> {
    pub(crate) fn new(text: R, delimiter: u8, null: &[u8]) -> PgTextReader<R> {
        PgTextReader {
            text,
            delimiter,
            null: null.to_vec(),
            input: vec![0; READ_BYTES],
            field: Vec::new(),
            is_escaped: false,
            output: Vec::new(),
            taken: 0,
            in_line: false,
            is_done: false,
        }
    }

    /// Reads until there is output, or until the text ends.
    fn fill(&mut self) -> io::Result<()> {
        self.output.clear();
        self.taken = 0;
        while self.output.is_empty() && !self.is_done {
            let mut input = std::mem::take(&mut self.input);
            let read = self.text.read(&mut input);
            if let Ok(count) = read {
                input[..count].iter().for_each(|&byte| self.push(byte));
                if count == 0 {
                    self.end();
                }
            }
            self.input = input;
            read?;
        }
        Ok(())
    }

    fn push(&mut self, byte: u8) {
        if self.is_done {
            return;
        }
        if self.is_escaped {
            self.is_escaped = false;
            self.field.push(byte);
            return;
        }
        match byte {
            b'\n' => self.end_line(),
            _ if byte == self.delimiter => {
                self.end_field();
                self.output.push(byte);
                self.in_line = true;
            }
            _ => {
                self.is_escaped = byte == b'\\';
                self.field.push(byte);
            }
        }
    }

    fn end_line(&mut self) {
        if self.field.last() == Some(&b'\r') {
            self.field.pop();
        }
        if !self.in_line && self.field == b"\\." {
            self.field.clear();
            self.is_done = true;
            return;
        }
        self.end_field();
        self.output.push(b'\n');
        self.in_line = false;
    }

    fn end(&mut self) {
        if self.in_line || !self.field.is_empty() {
            self.end_line();
        }
        self.is_done = true;
    }

    /// Writes the field (pg_text-1).
    fn end_field(&mut self) {
        if self.field != self.null {
            self.output.push(b'"');
            push_unescaped(&self.field, &mut self.output);
            self.output.push(b'"');
        }
        self.field.clear();
    }
}

impl<R: Read> Read for PgTextReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.output.len() {
            self.fill()?;
        }
        let rest = &self.output[self.taken..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

/// Appends a field without its escapes, its quotes doubled.
fn push_unescaped(field: &[u8], out: &mut Vec<u8>) {
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        rest = behind;
        let byte = match (*first, rest) {
            (b'\\', [b'x', behind @ ..]) if behind.first().is_some_and(u8::is_ascii_hexdigit) => {
                number(behind, 16, 2, &mut rest)
            }
            (b'\\', [b'0'..=b'7', ..]) => number(rest, 8, 3, &mut rest),
            (b'\\', [escaped, behind @ ..]) => {
                rest = behind;
                match escaped {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    other => *other,
                }
            }
            (byte, _) => byte,
        };
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
}

/// The byte that an escape of up to this many digits of this base stands for; `rest` is the text
/// behind them.
fn number<'a>(text: &'a [u8], base: u32, digits: usize, rest: &mut &'a [u8]) -> u8 {
    let mut value = 0_u32;
    let mut count = 0;
    while count < digits
        && let Some(digit) = text.get(count).and_then(|&byte| char::from(byte).to_digit(base))
    {
        value = value * base + digit;
        count += 1;
    }
    *rest = &text[count..];
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives this many bytes at a time.
    struct Cut<'a>(&'a [u8], usize);

    impl Read for Cut<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        for step in [1, 3, 1_000] {
            let mut csv = String::new();
            let mut reader = PgTextReader::new(Cut(text.as_bytes(), step), b'\t', NULL.as_bytes());
            reader.read_to_string(&mut csv).unwrap();
            assert_eq!(csv, expected, "pg_text-2: {step}");
        }
    }

    #[test]
    fn fields_are_quoted_and_null_is_nothing() {
        check("1\t\\N\t\n", "\"1\"\t\t\"\"\n");
        check("a\"b\tc", "\"a\"\"b\"\t\"c\"\n");
        check("a\r\n", "\"a\"\n");
        check("", "");
    }

    #[test]
    fn backslashes_stand_for_what_cannot_stand_there() {
        check("a\\tb\\nc\\\\d\\\te\n", "\"a\tb\nc\\d\te\"\n");
        check("\\x41\\x4\\101\\q\\\\N\n", "\"A\x04Aq\\N\"\n");
        check("a\\\nb\n", "\"a\nb\"\n");
    }

    #[test]
    fn a_line_can_end_the_text() {
        check("a\n\\.\nb\n", "\"a\"\n");
        check("\\.\tb\n", "\".\"\t\"b\"\n");
    }
}
