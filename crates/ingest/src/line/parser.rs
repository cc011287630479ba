//! The parser of lines: converts lines to rows of their tables.
//!
//! - parser-1. The result of a text does not depend on how it was split on arrival.
//! - parser-2. A line that is refused leaves no trace in any row, column or table.
//! - parser-3. At most one line is kept, of `max_line_bytes` and the bytes that came with its last
//!   byte.
//! - parser-4. Between batches, caches have at most `limits::LINE_CACHE_BYTES`.
//! - parser-5. Rows of a batch take at most `LineOptions::padding_bytes_max` beyond four times
//!   their text and the bytes of `CHECK_ROWS` rows: a column that one row names has a NULL in all
//!   others.
//!
//! A line is read once, from left to right: name and tags as one (`series_cache`), each key by a
//! guess (`key_cache`), each value directly into its column. Not here: the parts of a line
//! (`parts`), and the ends of bad lines (`line_end`).

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use memchr::{memchr, memchr_iter};
use tidegate_model::{TimeUnit, is_system_table, limits};

use super::key_cache::NO_KEY;
use super::line_end::LineEndFinder;
use super::parse_error::{NameError, ParseError, RAW_BYTES, Reason, shown};
use super::parts::{
    Row, Step, Stop, fields, instant_of, out_of_range, part_end, spaces, tag_cell, time,
};
use super::rows::TableRows;
use super::scan;
use super::series_cache::SeriesCache;
use super::table::{Table, checked_name};
use super::{LineHost, LineOptions, OnBadLine, Precision};

/// The number of rows between two checks of their memory (parser-5).
const CHECK_ROWS: usize = 4_096;
/// The maximum number of bytes that the values of a line take for each of its bytes, if all lines
/// name the same columns: one digit with its key, comma and equals sign becomes eight bytes.
const VALUE_BYTES_PER_BYTE: usize = 4;

/// A parser of the line protocol.
#[derive(Debug)]
pub struct LineParser {
    options: LineOptions,
    tables: Vec<Table>,
    /// Tables by name.
    index: HashTable<u32>,
    hasher: FixedState,
    series_cache: SeriesCache,
    /// The memory that tables keep between batches.
    table_bytes: usize,
    /// Tables that occur in this batch.
    active: Vec<u32>,
    rows: usize,
    /// The bytes of the lines of these rows.
    text_bytes: usize,
    /// True if no row can be added to the batch (parser-5).
    is_full: bool,
    /// The number of the next line, and of the first one of the batch, counted from 1.
    line: u64,
    first_line: u64,
    /// The last time of the clock in this batch.
    now: i64,
    /// The beginning of a line whose end has not come (parser-3).
    tail: Vec<u8>,
    end_finder: LineEndFinder,
    /// True if everything up to the next newline belongs to a line that was too long.
    is_skipping: bool,
    errors: Vec<ParseError>,
    rejected: u64,
    /// The number of parse errors for each `Reason::kind`, of which there are few.
    kinds: Vec<(&'static str, u64)>,
    row: Row,
}

impl LineParser {
    /// Creates a parser.
    #[must_use]
    pub fn new(options: LineOptions) -> LineParser {
        LineParser {
            options,
            tables: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::default(),
            series_cache: SeriesCache::default(),
            table_bytes: 0,
            active: Vec::new(),
            rows: 0,
            text_bytes: 0,
            is_full: false,
            line: 1,
            first_line: 1,
            now: i64::MIN,
            tail: Vec::new(),
            end_finder: LineEndFinder::new(),
            is_skipping: false,
            errors: Vec::new(),
            rejected: 0,
            kinds: Vec::new(),
            row: Row::default(),
        }
    }

    /// The options of the parser.
    #[must_use]
    pub fn options(&self) -> &LineOptions {
        &self.options
    }

    /// Parses the next bytes. An incomplete line waits for the rest.
    ///
    /// # Errors
    /// The first bad line, if lines are not skipped. The lines before it have become rows; after
    /// the error only `take` and `restart` may be called.
    pub fn feed(&mut self, bytes: &[u8], host: &mut dyn LineHost) -> Result<(), Box<ParseError>> {
        let mut bytes = self.skip(bytes);
        while !self.tail.is_empty() && !bytes.is_empty() {
            let end = self.end_finder.advance(bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.tail.extend_from_slice(line);
            bytes = rest;
            if end.is_some() || self.options.max_line_bytes < self.tail.len() {
                self.read_remainder(host)?;
                bytes = self.skip(bytes);
            }
        }
        let end = self.read(bytes, host)?;
        if end < bytes.len() {
            self.keep(&bytes[end..]);
        }
        Ok(())
    }

    /// Ends the text: its last line needs no newline.
    ///
    /// # Errors
    /// As `feed`.
    pub fn finish(&mut self, host: &mut dyn LineHost) -> Result<(), Box<ParseError>> {
        self.end(LastLine::Whole, host)
    }

    /// Ends a text that may be incomplete: a last line without a newline is bad, since `v=1` may be
    /// the beginning of `v=12`.
    ///
    /// # Errors
    /// As `feed`.
    pub fn cut(&mut self, host: &mut dyn LineHost) -> Result<(), Box<ParseError>> {
        self.end(LastLine::Cut, host)
    }

    fn end(&mut self, last: LastLine, host: &mut dyn LineHost) -> Result<(), Box<ParseError>> {
        let mut is_ended = false;
        while !self.tail.is_empty() {
            let open = self.end_finder.open_string();
            if open.is_none() && (is_blank(&self.tail) || self.tail[0] == b'#') {
                self.tail.clear();
                break;
            }
            if !is_ended && open.is_none() && last == LastLine::Whole {
                self.tail.push(b'\n');
                is_ended = true;
                self.read_remainder(host)?;
                continue;
            }
            // The line has no end: a string is open, or a backslash stands before the end, or it
            // was cut.
            let reason = match open {
                Some(at) => Reason::OpenString { column: self.column_before(at) },
                None if last == LastLine::Cut => Reason::Cut,
                None => Reason::OpenEscape,
            };
            let tail = std::mem::take(&mut self.tail);
            self.reject(&tail[..tail.len() - usize::from(is_ended)], reason)?;
            let next = open.and_then(|at| Some(at + memchr(b'\n', &tail[at..])? + 1));
            let end = next.unwrap_or(tail.len());
            self.line += newlines(&tail[..end]);
            // The bytes behind it are lines of their own now.
            self.keep(&tail[end..]);
            if next.is_some() {
                self.read_remainder(host)?;
            }
        }
        self.is_skipping = false;
        Ok(())
    }

    /// Takes all rows since the last call, by table, in the order in which the tables came.
    pub fn take(&mut self) -> Vec<TableRows> {
        let first_line = self.first_line;
        let mut rows: Vec<TableRows> = Vec::new();
        for table in self.active.drain(..) {
            let table = &mut self.tables[table as usize];
            self.table_bytes -= table.kept_bytes;
            rows.extend(table.take(first_line));
            self.table_bytes += table.kept_bytes;
        }
        // The order may differ if a bad line was the first of a table.
        rows.sort_by_key(|rows| rows.lines[0]);
        self.first_line = self.line;
        self.now = i64::MIN;
        (self.rows, self.text_bytes, self.is_full) = (0, 0, false);
        // parser-4
        let cache_bytes = self.table_bytes + self.series_cache.memory_bytes();
        if limits::LINE_CACHE_BYTES < cache_bytes || limits::LINE_TABLES < self.tables.len() {
            self.forget();
        }
        rows
    }

    /// Removes rows, parse errors and the kept line, and counts lines from 1 again, for another
    /// text. Caches stay.
    pub fn restart(&mut self) {
        self.take();
        self.line = 1;
        self.first_line = 1;
        self.tail.clear();
        self.end_finder = LineEndFinder::new();
        self.is_skipping = false;
        self.errors.clear();
        self.rejected = 0;
        self.kinds.clear();
    }

    /// Sets the precision of the following lines.
    pub fn set_precision(&mut self, precision: Precision) {
        self.options.precision = precision;
    }

    /// The number of rows that were not taken yet.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The approximate memory of these rows, and of the line that is kept.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        let bytes = |&table: &u32| self.tables[table as usize].value_bytes();
        self.active.iter().map(bytes).sum::<usize>() + self.tail.len()
    }

    /// The number of bytes that are kept of an incomplete line.
    #[must_use]
    pub fn line_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Takes the bad lines since the last call: the first `limits::LINE_FAULTS`, and their number.
    pub fn take_errors(&mut self) -> (Vec<ParseError>, u64) {
        (std::mem::take(&mut self.errors), std::mem::take(&mut self.rejected))
    }

    /// Takes the number of bad lines since the last call, for each [`Reason::kind`].
    pub fn take_kinds(&mut self) -> Vec<(&'static str, u64)> {
        std::mem::take(&mut self.kinds)
    }

    /// Removes all caches. Only valid between batches.
    fn forget(&mut self) {
        assert!(self.active.is_empty() && self.rows == 0, "tables have no rows");
        self.tables.clear();
        self.table_bytes = 0;
        self.index.clear();
        self.series_cache.clear();
    }

    /// The bytes behind a line that was too long.
    fn skip<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if !self.is_skipping {
            return bytes;
        }
        let Some(end) = memchr(b'\n', bytes) else { return &[] };
        self.is_skipping = false;
        self.line += 1;
        &bytes[end + 1..]
    }

    /// Checks the memory of the batch (parser-5).
    #[cold]
    fn check_memory(&mut self) {
        let bytes = |&table: &u32| self.tables[table as usize].value_bytes();
        let bytes = self.active.iter().map(bytes).sum::<usize>();
        let padding = bytes.saturating_sub(VALUE_BYTES_PER_BYTE * self.text_bytes);
        self.is_full = self.options.padding_bytes_max < padding;
    }

    /// Keeps the beginning of a line.
    fn keep(&mut self, bytes: &[u8]) {
        self.tail.clear();
        self.tail.extend_from_slice(bytes);
        self.end_finder = LineEndFinder::new();
        self.end_finder.advance(bytes);
    }

    fn read_remainder(&mut self, host: &mut dyn LineHost) -> Result<(), Box<ParseError>> {
        let tail = std::mem::take(&mut self.tail);
        let end = self.read(&tail, host)?;
        if end == 0 {
            self.tail = tail;
        } else {
            self.keep(&tail[end..]);
            // The memory is reused.
            if self.tail.is_empty() && self.tail.capacity() < tail.capacity() {
                self.tail = tail;
                self.tail.clear();
            }
        }
        Ok(())
    }

    /// Parses complete lines. Returns the start of the first incomplete one.
    fn read(&mut self, text: &[u8], host: &mut dyn LineHost) -> Result<usize, Box<ParseError>> {
        let mut at = 0;
        while at < text.len() {
            let result = match text[at] {
                b'\n' => {
                    let count = text[at..].iter().take_while(|&&byte| byte == b'\n').count();
                    self.line += count as u64;
                    at += count;
                    continue;
                }
                b'#' => self.comment(text, at),
                b' ' | b'\t' | b'\r' if is_blank(&text[at..]) => {
                    memchr(b'\n', &text[at..]).map(|end| at + end + 1).ok_or(Stop::Incomplete)
                }
                _ => self.line(text, at, host),
            };
            match result {
                Ok(end) if end - at - 1 <= self.options.max_line_bytes => {
                    self.line += match std::mem::take(&mut self.row.has_newlines) {
                        true => newlines(&text[at..end]),
                        false => 1,
                    };
                    self.row.table = None;
                    at = end;
                    continue;
                }
                _ => {}
            }
            match self.after_bad_line(text, at, result)? {
                Some(end) => at = end,
                None => return Ok(at),
            }
            if self.is_skipping {
                return Ok(text.len());
            }
        }
        Ok(at)
    }

    /// The position behind a bad line; `None` if the line is incomplete and may still become valid.
    #[cold]
    fn after_bad_line(
        &mut self,
        text: &[u8],
        start: usize,
        result: Step<usize>,
    ) -> Result<Option<usize>, Box<ParseError>> {
        self.roll_back();
        self.row.has_newlines = false;
        let max = self.options.max_line_bytes;
        let rest = &text[start..];
        let mut end_finder = LineEndFinder::new();
        // A line of exactly `max` bytes has its newline behind them.
        let window = &rest[..rest.len().min(max + 1)];
        let end = end_finder.advance(window);
        match (end, result) {
            (Some(end), Err(Stop::ParseError(reason))) => {
                self.reject(&rest[..end - 1], *reason)?;
                self.line += newlines(&rest[..end]);
                Ok(Some(start + end))
            }
            (Some(_), _) => unreachable!("line_end-2"),
            (None, _) if window.len() <= max => Ok(None),
            (None, _) => {
                self.reject(window, Reason::LineTooLong { max })?;
                let from = end_finder.open_string().unwrap_or(max);
                let end = memchr(b'\n', &rest[from..]).map(|end| from + end + 1);
                self.is_skipping = end.is_none();
                let end = end.unwrap_or(rest.len());
                self.line += newlines(&rest[..end]);
                Ok(Some(start + end))
            }
        }
    }

    /// Removes the present row (parser-2).
    fn roll_back(&mut self) {
        if let Some(number) = self.row.table.take() {
            let table = &mut self.tables[number as usize];
            // A line that was too long has begun a row before its end was searched.
            table.roll_back();
        }
        self.drop_new_table();
    }

    fn drop_new_table(&mut self) {
        if !std::mem::take(&mut self.row.is_new_table) {
            return;
        }
        let table = self.tables.pop().expect("the new table is the last");
        let number = u32::try_from(self.tables.len()).expect("fewer than lines");
        let hash = self.hasher.hash_one(table.name.as_bytes());
        if let Ok(found) = self.index.find_entry(hash, |&other| other == number) {
            found.remove();
        }
        self.active.retain(|&other| other != number);
    }

    fn reject(&mut self, line: &[u8], reason: Reason) -> Result<(), Box<ParseError>> {
        let is_kept = self.errors.len() < limits::LINE_FAULTS;
        self.rejected += 1;
        match self.kinds.iter_mut().find(|(kind, _)| *kind == reason.kind()) {
            Some((_, count)) => *count += 1,
            None => self.kinds.push((reason.kind(), 1)),
        }
        if !is_kept && self.options.on_bad_line == OnBadLine::Skip {
            return Ok(());
        }
        let raw = line[..line.len().min(RAW_BYTES)].to_vec();
        let error = ParseError { line: self.line, table: table_of(line), raw, reason };
        match self.options.on_bad_line {
            OnBadLine::Stop => Err(Box::new(error)),
            OnBadLine::Skip => {
                self.errors.push(error);
                Ok(())
            }
        }
    }

    /// The key before a position of the kept line.
    fn column_before(&self, at: usize) -> String {
        let before = self.tail[..at].strip_suffix(b"=\"").unwrap_or(&self.tail[..at]);
        let start = before.iter().rposition(|&byte| byte == b' ' || byte == b',');
        shown(&before[start.map_or(0, |start| start + 1)..])
    }

    fn comment(&mut self, text: &[u8], start: usize) -> Step<usize> {
        let end = memchr(b'\n', &text[start..]).ok_or(Stop::Incomplete)?;
        Ok(start + end + 1)
    }
}

/// The treatment of a last line without a newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastLine {
    Whole,
    Cut,
}

/// Parsing of one line.
impl LineParser {
    /// Parses the line that begins at `start`. Returns the start of the next line.
    fn line(&mut self, text: &[u8], start: usize, host: &mut dyn LineHost) -> Step<usize> {
        if self.is_full {
            return Err(Reason::TooManyNulls { max: self.options.padding_bytes_max }.into());
        }
        let (head_end, is_known) = self.head(text, start, host)?;
        let number = self.row.table.expect("head");
        let table = &mut self.tables[number as usize];
        let mut at = spaces(text, head_end);
        self.row.has_fields = false;
        if let Some(&byte) = text.get(at)
            && byte != b'\n'
        {
            at = fields(table, text, at, &self.options, &mut self.row)?;
        }
        if !self.row.has_fields && !self.row.has_tags {
            return Err(Reason::NoColumns { table: shown(table.name.as_bytes()) }.into());
        }
        let (count, end) = time(text, at)?;
        let instant = match (table.time_field(), count) {
            (Some(instant), _) => instant,
            (None, Some(count)) => instant_of(&count, table.unit, self.options.precision)?,
            (None, None) => {
                self.now = self.now.max(host.now_nanos());
                match table.unit {
                    TimeUnit::Nanos => self.now,
                    TimeUnit::Micros => self.now.div_euclid(1_000),
                }
            }
        };
        if self.options.max_line_bytes < end - start {
            return Ok(end + 1);
        }
        let line = u32::try_from(self.line - self.first_line).unwrap_or(u32::MAX);
        table.end_row(instant, line).map_err(|_| out_of_range(&text[at..end], instant))?;
        self.rows += 1;
        self.text_bytes += end - start;
        if self.rows.is_multiple_of(CHECK_ROWS) {
            self.check_memory();
        }
        self.row.is_new_table = false;
        if !is_known {
            self.series_cache.insert(&text[start..head_end], number, &self.row.cells);
        }
        Ok(end + 1)
    }

    /// Parses name and tags. Returns their end, and true if they are a cached series.
    #[inline]
    fn head(&mut self, text: &[u8], start: usize, host: &mut dyn LineHost) -> Step<(usize, bool)> {
        if let Some((series, end)) = self.series_cache.guess(text, start)
            && self.begin_cached(series, host)?
        {
            return Ok((end, true));
        }
        self.other_head(text, start, host)
    }

    /// Begins a row of a cached series. Returns false if its table has changed.
    #[inline]
    fn begin_cached(&mut self, series: u32, host: &mut dyn LineHost) -> Step<bool> {
        let number = self.series_cache.table(series);
        if !self.tables[number as usize].is_active && !self.activate(number, host)? {
            return Ok(false);
        }
        let table = &mut self.tables[number as usize];
        self.row.table = Some(number);
        table.begin_row();
        let cells = self.series_cache.cells(series);
        self.row.has_tags = !cells.is_empty();
        self.row.has_newlines = self.series_cache.has_newlines(series);
        table.push_tags(cells);
        Ok(true)
    }

    /// Adds a table to the batch. Returns false if its cached state was invalid.
    #[cold]
    fn activate(&mut self, number: u32, host: &mut dyn LineHost) -> Step<bool> {
        let table = &mut self.tables[number as usize];
        let schema = host.schema_of(&table.name);
        let is_same = table.begin(schema, &self.options)?;
        if !is_same {
            self.series_cache.clear(); // series_cache-1
        }
        self.active.push(number);
        Ok(is_same)
    }

    #[inline(never)]
    fn other_head(
        &mut self,
        text: &[u8],
        start: usize,
        host: &mut dyn LineHost,
    ) -> Step<(usize, bool)> {
        let (end, is_escaped) = scan::head_end(text, start).ok_or(Stop::Incomplete)?;
        self.row.has_newlines = is_escaped;
        let has_return = text[end] == b'\n' && scan::ends_in_return(&text[start..end]);
        let end = end - usize::from(has_return);
        let head = &text[start..end];
        if let Some(series) = self.series_cache.find(head)
            && self.begin_cached(series, host)?
        {
            return Ok((end, true));
        }
        if simdutf8::basic::from_utf8(head).is_err() {
            return Err(Reason::NotUtf8.into());
        }
        if memchr(0, head).is_some() {
            return Err(Reason::Nul.into());
        }
        let name_end = part_end(head, 0, is_escaped);
        let number = self.table(&head[..name_end], host)?;
        let table = &mut self.tables[number as usize];
        self.row.table = Some(number);
        table.begin_row();
        self.row.cells.clear();
        let mut at = name_end;
        let mut previous = NO_KEY;
        while at < head.len() {
            let tag_end = part_end(head, at + 1, is_escaped);
            let tag = &head[at + 1..tag_end];
            let (key, cell) =
                tag_cell(table, tag, previous, &self.options, &mut self.row.unescaped)?;
            self.row.cells.push(cell);
            previous = key;
            at = tag_end;
        }
        self.row.has_tags = !self.row.cells.is_empty();
        table.push_tags(&self.row.cells);
        Ok((end, false))
    }

    /// The table with this name, added to the batch.
    fn table(&mut self, raw: &[u8], host: &mut dyn LineHost) -> Step<u32> {
        if raw.is_empty() {
            return Err(Reason::NoTable.into());
        }
        let mut name = std::mem::take(&mut self.row.unescaped);
        name.clear();
        scan::unescape_name(raw, &mut name);
        let number = self.table_named(&name);
        self.row.unescaped = name;
        let number = number?;
        if !self.tables[number as usize].is_active {
            self.activate(number, host)?;
        }
        Ok(number)
    }

    fn table_named(&mut self, name: &[u8]) -> Step<u32> {
        let hash = self.hasher.hash_one(name);
        let is_it = |&table: &u32| self.tables[table as usize].name.as_bytes() == name;
        if let Some(&table) = self.index.find(hash, is_it) {
            return Ok(table);
        }
        let checked = match checked_name(name) {
            Ok(name) if is_system_table(name) => Err(NameError::System),
            checked => checked,
        };
        let checked = checked.map_err(|why| Reason::TableName { name: shown(name), why })?;
        let number = u32::try_from(self.tables.len()).expect("fewer than lines");
        self.tables.push(Table::new(checked));
        let (tables, hasher) = (&self.tables, &self.hasher);
        self.index.insert_unique(hash, number, |&table| {
            hasher.hash_one(tables[table as usize].name.as_bytes())
        });
        self.row.is_new_table = true;
        Ok(number)
    }
}

/// Returns true if there are only blanks before the newline.
fn is_blank(line: &[u8]) -> bool {
    let end = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
    end.is_none_or(|end| line[end] == b'\n')
}

fn newlines(text: &[u8]) -> u64 {
    memchr_iter(b'\n', text).count() as u64
}

/// The name of a bad line's table, as far as it can be read.
fn table_of(line: &[u8]) -> Option<String> {
    let end = line.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let mut name = Vec::new();
    scan::unescape_name(&line[..end], &mut name);
    checked_name(&name).ok().map(str::to_owned)
}
