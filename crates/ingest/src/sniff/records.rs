//! Records of a sample, cell by cell: RFC 4180, with the rules of docs/import.md, Dialect.
//!
//! A plain state machine: it reads only samples, and most of the dialects that it tries are wrong.
//! Not here: the reading of a whole file (`index`).

use std::borrow::Cow;

use tidegate_model::limits;

use super::LineEnd;

/// The bytes that separate cells and records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// The byte between cells; `None`: a record is one cell.
    pub(super) delimiter: Option<u8>,
    /// The byte that quotes; `None`: nothing quotes.
    pub(super) quote: Option<u8>,
    pub(super) line_end: LineEnd,
    /// True if a blank line is a record of one empty cell; otherwise it is no record.
    pub(super) blank_is_record: bool,
}

/// A cell without its quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cell<'a> {
    pub(super) text: Cow<'a, [u8]>,
    pub(super) is_quoted: bool,
}

/// A record: every line that is not blank begins one, and blank lines do if they count as records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record<'a> {
    /// The first of its cells, at most one more than a table can have.
    pub(super) cells: Vec<Cell<'a>>,
    /// The number of its cells.
    pub(super) count: usize,
    /// The start of the record in the sample.
    pub(super) start: usize,
    /// True if it ends with a line end rather than with the sample.
    pub(super) is_whole: bool,
    /// True if every quote that opens is closed, directly before a delimiter or the end.
    pub(super) is_sound: bool,
    /// True if a cell that is not quoted contains a quote.
    pub(super) has_stray_quote: bool,
}

/// A reader of records from the start of a sample.
#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    shape: Shape,
    /// The number of cells of the previous record: the next one probably has as many.
    count: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8], shape: Shape) -> Records<'a> {
        Records { bytes, at: 0, shape, count: 0 }
    }

    /// The number of bytes that were read.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Skips the rest of a record if the sample begins inside it, outside of quotes.
    pub(super) fn skip_rest_of_record(&mut self) {
        loop {
            self.skip_to_end_of_cell();
            let line_end_len = self.line_end_len();
            if line_end_len != 0 || self.at == self.bytes.len() {
                self.at += line_end_len;
                return;
            }
            self.at += 1; // the delimiter
            self.cell();
        }
    }

    /// The number of bytes of a line end at this position; 0 if there is none.
    fn line_end_len(&self) -> usize {
        match (self.shape.line_end, &self.bytes[self.at..]) {
            (LineEnd::LfOrCrlf, [b'\r', b'\n', ..]) => 2,
            (LineEnd::LfOrCrlf, [b'\n', ..]) | (LineEnd::Cr, [b'\r', ..]) => 1,
            // The end of the input counts as a line end.
            (LineEnd::LfOrCrlf, [b'\r']) => 1,
            _ => 0,
        }
    }

    fn is_at_end_of_cell(&self) -> bool {
        let next = self.bytes.get(self.at);
        next.is_none_or(|byte| Some(*byte) == self.shape.delimiter) || self.line_end_len() != 0
    }

    fn skip_to_end_of_cell(&mut self) {
        let delimiter = self.shape.delimiter.unwrap_or(b'\n');
        let may_end = |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r');
        while let Some(len) = self.bytes[self.at..].iter().position(may_end) {
            self.at += len;
            if self.is_at_end_of_cell() {
                return;
            }
            self.at += 1;
        }
        self.at = self.bytes.len();
    }

    /// Reads a cell; the second value is true if the cell is sound.
    fn cell(&mut self) -> (Cell<'a>, bool) {
        let start = self.at;
        let first = self.bytes.get(start).copied();
        let Some(quote) = first.filter(|_| first == self.shape.quote) else {
            self.skip_to_end_of_cell();
            let text = Cow::Borrowed(&self.bytes[start..self.at]);
            return (Cell { text, is_quoted: false }, true);
        };
        self.at += 1;
        let (text, is_closed) = self.quoted_text(quote);
        let is_sound = is_closed && self.is_at_end_of_cell();
        self.skip_to_end_of_cell();
        (Cell { text, is_quoted: true }, is_sound)
    }

    /// Reads from behind the opening quote to behind the closing one, if there is one.
    fn quoted_text(&mut self, quote: u8) -> (Cow<'a, [u8]>, bool) {
        let mut text = Cow::Borrowed(&[][..]);
        loop {
            let rest = &self.bytes[self.at..];
            let len = memchr::memchr(quote, rest);
            let (part, is_closed) = (&rest[..len.unwrap_or(rest.len())], len.is_some());
            self.at += part.len() + usize::from(is_closed);
            if text.is_empty() {
                text = Cow::Borrowed(part);
            } else {
                text.to_mut().extend_from_slice(part);
            }
            if !is_closed || self.bytes.get(self.at) != Some(&quote) {
                return (text, is_closed);
            }
            text.to_mut().push(quote);
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        while !self.shape.blank_is_record && self.line_end_len() != 0 {
            self.at += self.line_end_len();
        }
        if self.at == self.bytes.len() {
            return None;
        }
        let mut record = Record {
            cells: Vec::with_capacity(self.count.min(limits::TABLE_COLUMNS)),
            count: 0,
            start: self.at,
            is_whole: false,
            is_sound: true,
            has_stray_quote: false,
        };
        loop {
            let (cell, is_sound) = self.cell();
            record.count += 1;
            record.is_sound &= is_sound;
            let has_quote = self.shape.quote.is_some_and(|quote| cell.text.contains(&quote));
            record.has_stray_quote |= !cell.is_quoted && has_quote;
            if record.count <= limits::TABLE_COLUMNS + 1 {
                record.cells.push(cell);
            }
            let line_end_len = self.line_end_len();
            if line_end_len != 0 || self.at == self.bytes.len() {
                record.is_whole = line_end_len != 0;
                self.at += line_end_len;
                self.count = record.count;
                return Some(record);
            }
            self.at += 1; // the delimiter
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, line_end: LineEnd, expected: &[&str]) {
        let shape =
            Shape { delimiter: Some(b','), quote: Some(b'"'), line_end, blank_is_record: false };
        let shown = |record: Record<'_>| {
            let cells = record.cells.iter().map(|cell| {
                let text = String::from_utf8_lossy(&cell.text).replace('\n', r"\n");
                if cell.is_quoted { format!("<{text}>") } else { text }
            });
            let cells = cells.collect::<Vec<_>>().join("|");
            let unsound = if record.is_sound { "" } else { " unsound" };
            let cut = if record.is_whole { "" } else { " cut" };
            format!("{cells}{unsound}{cut}")
        };
        let actual: Vec<String> = Records::new(bytes.as_bytes(), shape).map(shown).collect();
        assert_eq!(actual, expected, "{bytes:?}");
    }

    #[test]
    fn cells_are_bare_or_quoted() {
        check("a,b\n", LineEnd::LfOrCrlf, &["a|b"]);
        check("a,b", LineEnd::LfOrCrlf, &["a|b cut"]);
        check("\"a,\"\"\n\"\"\",\"\",\r\nc\r\n", LineEnd::LfOrCrlf, &[r#"<a,"\n">|<>|"#, "c"]);
        check("a\"b\",c\"\n", LineEnd::LfOrCrlf, &[r#"a"b"|c""#]);
        check("\"\"\"\"\n", LineEnd::LfOrCrlf, &[r#"<">"#]);
    }

    #[test]
    fn blank_lines_are_no_records() {
        check("\n\r\na\n\n\nb\n", LineEnd::LfOrCrlf, &["a", "b"]);
        check("\ra\r\rb\r", LineEnd::Cr, &["a", "b"]);
        check("\r\n\r\n", LineEnd::LfOrCrlf, &[]);
        check("", LineEnd::LfOrCrlf, &[]);
    }

    #[test]
    fn text_after_a_closing_quote_is_unsound_and_opens_nothing() {
        check("\"a\"b,c\nd\n", LineEnd::LfOrCrlf, &["<a>|c unsound", "d"]);
        check("\"a\"b\"c,\nd\n", LineEnd::LfOrCrlf, &["<a>| unsound", "d"]);
        check("\"a\" ,c\n", LineEnd::LfOrCrlf, &["<a>|c unsound"]);
        check("a,\"b\nc", LineEnd::LfOrCrlf, &[r"a|<b\nc> unsound cut"]);
        check("\"a\"\rb\n", LineEnd::LfOrCrlf, &["<a> unsound"]);
    }
}
