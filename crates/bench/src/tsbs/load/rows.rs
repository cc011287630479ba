//! Boundaries of rows in the text formats, and the facts in a row.
//!
//! - load_rows-1. A row belongs to the range of the file in which it begins: adjacent ranges share
//!   no row and leave none out, because both ask `first_row` for the border between them.
//!
//! Newlines are found with SIMD. Rows are parsed only if a target needs more than their number.

use std::collections::BTreeMap;

use memchr::{memchr, memchr_iter, memrchr};

/// Layout of rows in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowLayout {
    /// Line protocol.
    Line,
    /// A line of tags, then a line of values.
    TwoLines,
    /// Cells between tabs.
    Tabs,
}

/// The header at the top of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Base tags, each with a flag that is true for text.
    pub(crate) tags: Vec<(String, bool)>,
    /// Measurements with their fields.
    pub(crate) measurements: Vec<(String, Vec<String>)>,
    /// Length of the header in bytes.
    pub(crate) bytes: usize,
}

/// Counts over some rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) rows: u64,
    /// Fields that have a value.
    pub(crate) metrics: u64,
    /// Rows of each measurement; empty if the rows were not parsed.
    pub(crate) tables: BTreeMap<String, u64>,
}

/// A malformed row, by its offset in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRow {
    pub(crate) offset: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.rows += other.rows;
        self.metrics += other.metrics;
        for (name, rows) in &other.tables {
            self.count(name, *rows);
        }
    }

    pub(crate) fn count(&mut self, name: &str, rows: u64) {
        match self.tables.get_mut(name) {
            Some(count) => *count += rows,
            None => drop(self.tables.insert(name.to_owned(), rows)),
        }
    }
}

impl RowLayout {
    fn lines(self) -> usize {
        if self == RowLayout::TwoLines { 2 } else { 1 }
    }

    /// Returns the beginning of the first row at or after `from`, in text that begins at a row, or
    /// in any place if `from` is not 0; `None` if the text ends before that is clear (load_rows-1).
    pub(crate) fn first_row(self, text: &[u8], from: usize) -> Option<usize> {
        let mut at = match from.checked_sub(1) {
            None => 0,
            Some(before) => from + memchr(b'\n', &text[before..])?,
        };
        if self == RowLayout::TwoLines {
            let tags = b"tags,";
            let rest = &text[at..];
            if rest.len() < tags.len() && tags.starts_with(rest) {
                return None;
            }
            // Values never begin like tags, unless a measurement is called `tags`.
            if !rest.starts_with(tags) {
                at += memchr(b'\n', rest)? + 1;
            }
        }
        Some(at)
    }

    /// Returns the end of the last complete row in a text that begins with a row.
    pub(crate) fn complete(self, text: &[u8]) -> usize {
        let Some(last) = memrchr(b'\n', text) else { return 0 };
        if self != RowLayout::TwoLines {
            return last + 1;
        }
        let line = memrchr(b'\n', &text[..last]).map_or(0, |before| before + 1);
        if text[line..].starts_with(b"tags,") { line } else { last + 1 }
    }

    /// Counts the rows of a text of complete rows.
    pub(crate) fn rows(self, text: &[u8]) -> u64 {
        (memchr_iter(b'\n', text).count() / self.lines()) as u64
    }

    /// Returns the end of the first `rows` rows, if there are as many.
    pub(crate) fn cut(self, text: &[u8], rows: u64) -> Option<usize> {
        let lines = usize::try_from(rows).unwrap_or(usize::MAX).checked_mul(self.lines())?;
        memchr_iter(b'\n', text).nth(lines.checked_sub(1)?).map(|newline| newline + 1)
    }

    /// Parses all rows of a text of complete rows, and counts rows and fields.
    pub(crate) fn tally(self, text: &[u8]) -> Result<Tally, NoRow> {
        let mut tally = Tally::default();
        let mut last: (&[u8], u64) = (b"", 0);
        let mut at = 0;
        while at < text.len() {
            let row = self.row(&text[at..]).ok_or(NoRow { offset: at })?;
            tally.rows += 1;
            tally.metrics += row.metrics;
            if row.name == last.0 {
                last.1 += 1;
            } else {
                tally.count_run(last.0, last.1);
                last = (row.name, 1);
            }
            at += row.bytes;
        }
        tally.count_run(last.0, last.1);
        Ok(tally)
    }

    /// Parses the row that a text begins with.
    fn row(self, text: &[u8]) -> Option<RowView<'_>> {
        match self {
            RowLayout::Line => line_row(text),
            RowLayout::TwoLines => {
                let tags = memchr(b'\n', text).filter(|_| text.starts_with(b"tags,"))? + 1;
                let row = plain_row(&text[tags..], b',', 1)?;
                Some(RowView { bytes: tags + row.bytes, ..row })
            }
            RowLayout::Tabs => plain_row(text, b'\t', 2),
        }
    }
}

impl Tally {
    fn count_run(&mut self, name: &[u8], rows: u64) {
        if 0 < rows {
            self.count(&String::from_utf8_lossy(name), rows);
        }
    }
}

struct RowView<'a> {
    name: &'a [u8],
    metrics: u64,
    bytes: usize,
}

/// Parses `name,tags fields timestamp`.
fn line_row(text: &[u8]) -> Option<RowView<'_>> {
    let fields = memchr(b' ', text)? + 1;
    let end = fields + memchr(b'\n', &text[fields..])?;
    let line = &text[..end];
    let name = line[..memchr(b',', &line[..fields - 1]).unwrap_or(fields - 1)].trim_ascii_start();
    let time = memrchr(b' ', line).filter(|&time| fields < time)?;
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let digits = line[time + 1..].strip_prefix(b"-").unwrap_or(&line[time + 1..]);
    if name.is_empty() || name.starts_with(b"tags,") || !is_number(digits) {
        return None;
    }
    let metrics = memchr_iter(b'=', &line[fields..time]).count() as u64;
    (0 < metrics).then_some(RowView { name, metrics, bytes: end + 1 })
}

/// Parses a name, `skipped` cells up to the timestamp, and fields, some of them empty.
fn plain_row(text: &[u8], separator: u8, skipped: usize) -> Option<RowView<'_>> {
    let end = memchr(b'\n', text)?;
    let line = &text[..end];
    let mut cells = line.split(|&byte| byte == separator);
    let name = cells.next().filter(|name| !name.is_empty())?;
    let time = cells.nth(skipped - 1)?;
    if time.is_empty() || !time.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-') {
        return None;
    }
    let metrics = cells.filter(|cell| !cell.is_empty()).count() as u64;
    Some(RowView { name, metrics, bytes: end + 1 })
}

/// Parses the header of the layouts that have one: lines up to an empty one. `None` if there is
/// none.
pub(crate) fn parse_header(text: &[u8]) -> Option<Header> {
    let bytes = memchr::memmem::find(text, b"\n\n")? + 2;
    let lines = std::str::from_utf8(&text[..bytes - 2]).ok()?;
    let mut lines = lines.lines();
    let tags = lines.next()?.strip_prefix("tags,")?.split(',').map(|tag| {
        let (name, kind) = tag.split_once(' ')?;
        Some((name.to_owned(), kind == "string"))
    });
    let measurements = lines.map(|line| {
        let (name, fields) = line.split_once(',')?;
        Some((name.to_owned(), fields.split(',').map(str::to_owned).collect()))
    });
    Some(Header {
        tags: tags.collect::<Option<_>>()?,
        measurements: measurements.collect::<Option<_>>()?,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &[u8] = b"cpu,hostname=a x=1i,y=2i 10\ncpu,hostname=b x=1i 20\nmem z=0.5 20\n";
    const TWO: &[u8] = b"tags,hostname=a\ncpu,10,1,2\ntags,hostname=b\nmem,20,,\n";
    const TABS: &[u8] = b"cpu\t{\"hostname\":\"a\"}\t10\t1\t2\nmem\t{}\t20\t\t4\n";

    #[test]
    fn rows_are_counted_with_their_fields_and_tables() {
        for (layout, text, expected) in [
            (RowLayout::Line, LINES, (3, 4, vec![("cpu", 2), ("mem", 1)])),
            (RowLayout::TwoLines, TWO, (2, 2, vec![("cpu", 1), ("mem", 1)])),
            (RowLayout::Tabs, TABS, (2, 3, vec![("cpu", 1), ("mem", 1)])),
        ] {
            let tally = layout.tally(text).unwrap();
            let tables: Vec<_> = tally.tables.iter().map(|(k, v)| (k.as_str(), *v)).collect();
            assert_eq!((tally.rows, tally.metrics, tables), expected);
            assert_eq!(layout.rows(text), tally.rows);
            assert_eq!(layout.complete(text), text.len());
            assert_eq!(layout.cut(text, tally.rows), Some(text.len()));
            assert_eq!(layout.cut(text, tally.rows + 1), None);
        }
    }

    #[test]
    fn neighbours_agree_about_the_border() {
        for (layout, text) in
            [(RowLayout::Line, LINES), (RowLayout::TwoLines, TWO), (RowLayout::Tabs, TABS)]
        {
            let mut begins = vec![];
            for from in 0..text.len() {
                // The window is that of a reader of ranges: the byte before, and the rest.
                let window = from.saturating_sub(1);
                let Some(at) = layout.first_row(&text[window..], from - window) else { continue };
                let at = window + at;
                assert!(from <= at, "load_rows-1");
                assert!(layout.tally(&text[at..]).is_ok(), "{layout:?} from {from}");
                begins.push(at);
            }
            begins.dedup();
            let expected = usize::try_from(layout.rows(text)).unwrap();
            // The end of the text counts as a beginning.
            assert_eq!(begins.iter().filter(|&&at| at < text.len()).count(), expected);
        }
    }

    #[test]
    fn an_incomplete_row_is_left() {
        assert_eq!(RowLayout::Line.complete(b"a b=1 1\nb"), 8);
        assert_eq!(RowLayout::TwoLines.complete(b"tags,a=b\nc,1,2\ntags,a=b\nc,1"), 15);
        assert_eq!(RowLayout::TwoLines.complete(b"tags,a=b\n"), 0);
        assert_eq!(RowLayout::Line.complete(b"b"), 0);
    }

    #[test]
    fn lines_that_are_no_rows_are_detected() {
        for (layout, text, offset) in [
            (RowLayout::Line, "cpu x=1 1\nnonsense\n", 10),
            (RowLayout::Line, "tags,hostname=a\ncpu,10,1,2\n", 0),
            (RowLayout::Line, "cpu,a=b x=1\n", 0),
            (RowLayout::Line, "a,b,c\n1,2,3\n", 0),
            (RowLayout::TwoLines, "cpu x=1 1\n", 0),
            (RowLayout::Tabs, "cpu x=1 1\n", 0),
        ] {
            assert_eq!(layout.tally(text.as_bytes()), Err(NoRow { offset }), "{text}");
        }
    }

    #[test]
    fn a_header_names_tags_and_measurements() {
        let header = parse_header(b"tags,name string,load float32\nb,x,y\na,z\n\ntags,").unwrap();
        assert_eq!(header.tags, [("name".to_owned(), true), ("load".to_owned(), false)]);
        assert_eq!(header.measurements[1], ("a".to_owned(), vec!["z".to_owned()]));
        assert_eq!(header.bytes, 41);
        for text in ["", "cpu x=1 1\n\n", "tags,name string\nb\n\n", "tags,name\n\n"] {
            assert_eq!(parse_header(text.as_bytes()), None, "{text}");
        }
    }
}
