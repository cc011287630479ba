//! The worker of a text import: indexes input chunks, splits them into records, converts
//! these and scatters the rows.
//!
//! - ingest_read-1. Every record is converted exactly once: by the worker of its chunk, or, if it
//!   lies in several chunks, by the worker that has its last missing part.
//! - ingest_read-2. Rows of a chunk have the order `2 * chunk`, a record that begins in it and ends
//!   later has `2 * chunk + 1`: source ranges give rows the order of the input.
//!
//! Not here: the source of chunks (`input`), the handling of bad records (`parse_errors`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate_model::limits;
use tidegate_platform::Reservation;
use tidegate_storage::segment::intern::Interner;

use crate::bucket::Buckets;
use crate::convert::{Converter, RowPlace, RowsOfText};
use crate::error::{Error, Result};
use crate::index::{Before, FieldIndex, IndexOutcome, Kernel, QuoteState, Start, Structure};
use crate::input::{ChunkQueue, InputChunk};
use crate::layout::RowLayout;
use crate::multiline::LineShape;
use crate::options::{EmptyFields, ExtraFields, MissingFields};
use crate::parse_errors::{Lines, ParseErrorHandler, TextOrigin, TextPlace};
use crate::parsed_batch::{PARSED_BATCH_ROWS, ParsedBatch};
use crate::progress::Progress;
use crate::reject::{Reason, RejectPlace};
use crate::scatter::{Scatterer, SpillPolicy};
use crate::shares::{LARGE_RECORD_BYTES, Shares};
use crate::split::{
    ChunkCounts, ChunkStart, Origin, PartialRecord, PartialRecords, SplitChain, WholeRecord,
};
use crate::tally::Joined;
use crate::timestamp::TimestampFormat;

/// The state that all workers of a text import share.
#[derive(Debug)]
pub(crate) struct ReadJob<'a> {
    pub(crate) files: &'a [TextFile],
    pub(crate) layout: &'a RowLayout,
    pub(crate) formats: &'a [Option<TimestampFormat>],
    /// For each column of the table, true if its type is a guess.
    pub(crate) guesses: &'a [bool],
    /// For each column of the table, true if its dates can be read in two ways.
    pub(crate) ambiguous: &'a [bool],
    pub(crate) null_text: Option<&'a [u8]>,
    pub(crate) empty_fields: EmptyFields,
    pub(crate) missing_fields: MissingFields,
    pub(crate) extra_fields: ExtraFields,
    pub(crate) queue: &'a ChunkQueue,
    pub(crate) chain: SplitChain,
    pub(crate) partial_records: PartialRecords,
    pub(crate) shares: Shares,
    pub(crate) buckets: &'a Arc<Buckets>,
    pub(crate) spill_policy: SpillPolicy<'a>,
    pub(crate) error_handler: ParseErrorHandler<'a>,
    pub(crate) progress: &'a Progress,
    pub(crate) cancel: &'a AtomicBool,
    /// Set when a worker has failed.
    pub(crate) stop: AtomicBool,
}

/// The mapping of the records of one input to the table.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    /// For each column of the table, the field of a record.
    pub(crate) sources: Vec<Option<usize>>,
    /// The number of fields of a record.
    pub(crate) fields: usize,
    pub(crate) has_header: bool,
    /// The lines before its first chunk.
    pub(crate) skip_lines: u64,
    /// True if a blank line is a record whose only field is empty; otherwise it is no record.
    pub(crate) blank_is_record: bool,
    pub(crate) structure: Structure,
    /// The shape to which lines within quotes are compared; `None` if the quotes are not a guess.
    pub(crate) line_shape: Option<LineShape>,
}

/// The counts of a stretch.
#[derive(Default)]
struct StretchCounts {
    records: u64,
    blank: u64,
    blank_rows: u64,
    /// The number of records with too many fields, and the start of the first.
    long: u64,
    first_long: Option<usize>,
    /// The number of records with too few fields, and the start of the first.
    short: u64,
    first_short: Option<usize>,
}

impl StretchCounts {
    #[inline]
    fn add(&mut self, actual: usize, fields: usize, record: &std::ops::Range<usize>) {
        self.records += 1;
        self.blank_rows += u64::from(actual == 1 && record.is_empty());
        if actual > fields {
            self.long += 1;
            self.first_long.get_or_insert(record.start);
        } else if actual < fields {
            self.short += 1;
            self.first_short.get_or_insert(record.start);
        }
    }
}

/// The state of one worker.
struct Worker<'a> {
    job: &'a ReadJob<'a>,
    kernel: Kernel,
    converter: Converter,
    scatterer: Scatterer,
    parsed: ParsedBatch,
    index: FieldIndex,
    rows: Vec<RowPlace>,
    /// The input for which `converter` is set up.
    file: usize,
    /// The number of line ends of the chunk, wherever they stand.
    line_ends: u64,
    interners: Reservation,
}

/// Runs one worker until there are no more chunks; returns its interners, and the part of the
/// budget that they hold.
pub(crate) fn run(job: &ReadJob<'_>, number: u32) -> Result<(Vec<Interner>, Reservation)> {
    let mut stop = StopOthers { job, is_wanted: true };
    let outcome = Worker::new(job, number).run();
    stop.is_wanted = outcome.is_err();
    outcome
}

/// A guard that stops the other workers when one fails or panics: they would wait for it for ever.
struct StopOthers<'a> {
    job: &'a ReadJob<'a>,
    is_wanted: bool,
}

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        if self.is_wanted {
            self.job.stop.store(true, Relaxed);
            self.job.chain.cancel();
        }
    }
}

/// The records of an indexed stretch of text.
struct Stretch<'a> {
    text: &'a [u8],
    lines: Lines<'a>,
    order: u64,
    /// The first of `FieldIndex::row_ends` that is to be converted.
    first_row: usize,
    is_checked: bool,
    /// True if there are line ends within quotes.
    has_lines: bool,
}

impl<'a> Worker<'a> {
    fn new(job: &'a ReadJob<'a>, number: u32) -> Worker<'a> {
        Worker {
            job,
            kernel: Kernel::detect(),
            converter: Converter::new(job.layout, &job.files[0].sources, job.formats)
                .with_guesses(job.guesses)
                .with_empty_fields(job.empty_fields),
            scatterer: Scatterer::new(Arc::clone(job.buckets), number),
            parsed: ParsedBatch::new(job.layout),
            index: FieldIndex::default(),
            rows: Vec::with_capacity(PARSED_BATCH_ROWS),
            file: 0,
            line_ends: 0,
            interners: job.buckets.budget.reserve_unchecked(0),
        }
    }

    fn run(mut self) -> Result<(Vec<Interner>, Reservation)> {
        let job = self.job;
        let is_cancelled = || job.cancel.load(Relaxed) || job.stop.load(Relaxed);
        while let Some(chunk) = job.queue.next(is_cancelled)? {
            if is_cancelled() {
                return Err(Error::Cancelled);
            }
            self.read_chunk(&chunk)?;
            job.queue.recycle(chunk);
            self.account_and_spill()?;
        }
        self.scatterer.finish();
        Ok((self.converter.into_interners(), self.interners))
    }

    fn read_chunk(&mut self, chunk: &InputChunk) -> Result<()> {
        if self.file != chunk.file {
            self.file = chunk.file;
            self.converter.set_sources(&self.job.files[chunk.file].sources);
        }
        let (start, outcome) = self.index_chunk(chunk)?;
        let text = chunk.bytes();
        self.count_seen(chunk);
        let Some(&first) = self.index.row_ends.first() else {
            return self.add_partial(chunk, start, 0..text.len(), outcome).map(drop);
        };
        let last = *self.index.row_ends.last().expect("there is a first");
        let first_end = self.index.field_ends[first as usize] as usize + 1;
        let last_end = self.index.field_ends[last as usize] as usize + 1;
        let has_header = self.job.files[chunk.file].has_header;
        let first_row = if chunk.is_first { usize::from(has_header) } else { 1 };
        if chunk.is_first && has_header {
            self.job.error_handler.tallies.of(chunk.file).headers.fetch_add(1, Relaxed);
        }
        if !chunk.is_first {
            // The record comes before the rows of this chunk, whose source ranges are higher
            // (ingest_read-2).
            let outside = IndexOutcome { end: OUTSIDE, ..outcome };
            if self.add_partial(chunk, start, 0..first_end, outside)? {
                // The joined record has overwritten the index.
                self.kernel_index(text, start.start, outcome);
            }
        }
        let place = TextPlace { file: chunk.file, line: start.line, offset: chunk.offset };
        let is_checked = is_clean_text(&text[if chunk.is_first { 0 } else { first_end }..last_end]);
        let order = chunk.number * 2;
        let lines = Lines::new(text, self.structure().line_end, place);
        // Each record ends one line: further line ends are within quotes.
        let has_lines = (self.index.row_ends.len() as u64) < self.line_ends;
        self.stretch(&Stretch { text, lines, order, first_row, is_checked, has_lines })?;
        if last_end < text.len() || !chunk.is_last {
            self.add_partial(chunk, start, last_end..text.len(), outcome)?;
        }
        Ok(())
    }

    /// Counts the records that end in an indexed chunk (tally-1); the end of a file ends one as
    /// well.
    fn count_seen(&self, chunk: &InputChunk) {
        let index = &self.index;
        let last = index.row_ends.last().map(|&row| index.field_ends[row as usize] as usize + 1);
        let has_rest = chunk.is_last && last.unwrap_or(0) < chunk.bytes().len();
        let seen = index.row_ends.len() as u64 + u64::from(has_rest);
        self.job.error_handler.tallies.of(chunk.file).seen.fetch_add(seen, Relaxed);
    }

    /// Indexes a chunk from its true start (split-2).
    fn index_chunk(&mut self, chunk: &InputChunk) -> Result<(ChunkStart, IndexOutcome)> {
        let (job, text) = (self.job, chunk.bytes());
        let structure = &job.files[chunk.file].structure;
        let last = text.last().map_or(Before::FieldStart, |&byte| Before::of(byte, structure));
        let structural = self.kernel.count(text, structure);
        self.line_ends = structural.line_ends;
        let counts = ChunkCounts { structural, last, is_last: chunk.is_last };
        let mut start = job.chain.count(chunk.number, counts)?;
        start.line += job.files[chunk.file].skip_lines;
        let mut outcome = self.kernel.index(text, start.start, structure, &mut self.index);
        let truth = job.chain.true_start(chunk.number)?;
        if truth != start.start {
            start.start = truth;
            outcome = self.kernel.index(text, truth, structure, &mut self.index);
        }
        if !outcome.is_regular {
            outcome = Kernel::Scalar.index(text, truth, structure, &mut self.index);
        }
        job.chain.resolve(chunk.number, outcome.end, chunk.is_last);
        Ok((start, outcome))
    }

    /// The structure of the present input.
    fn structure(&self) -> &'a Structure {
        &self.job.files[self.file].structure
    }

    fn kernel_index(&mut self, text: &[u8], start: Start, outcome: IndexOutcome) {
        let kernel = if outcome.is_regular { self.kernel } else { Kernel::Scalar };
        kernel.index(text, start, self.structure(), &mut self.index);
    }

    /// Adds a part of a record to the partial records, and converts the record if it is complete
    /// now. Returns true if it was complete.
    fn add_partial(
        &mut self,
        chunk: &InputChunk,
        start: ChunkStart,
        range: std::ops::Range<usize>,
        outcome: IndexOutcome,
    ) -> Result<bool> {
        let text = chunk.bytes();
        let is_head = range.start == 0;
        let ends_record = !self.index.row_ends.is_empty() && is_head;
        let lines = match is_head {
            true => 0,
            // The lines behind the start of the range are few, so those are counted.
            false => {
                let behind = memchr::memchr_iter(self.structure().line_end, &text[range.start..]);
                self.line_ends - behind.count() as u64
            }
        };
        let origin = Origin {
            chunk: chunk.number,
            line: start.line + lines,
            offset: chunk.offset + range.start as u64,
            is_first: chunk.is_first && is_head,
        };
        let is_open = !ends_record && outcome.end.state == QuoteState::Inside;
        let whole = self.job.partial_records.add(PartialRecord {
            from: (is_head && !chunk.is_first).then(|| chunk.number - 1),
            to: (!ends_record && !chunk.is_last).then_some(chunk.number),
            length: range.len(),
            open_at: if is_open { range.len() } else { 0 },
            bytes: text[range].to_vec(),
            origin,
            is_open,
            is_cut: false,
        });
        match whole {
            Some(record) => self.record(record, chunk.file).map(|()| true),
            None => Ok(false),
        }
    }

    /// Converts a record that lay in several chunks, or had no line end at the end of its file.
    fn record(&mut self, mut whole: WholeRecord<'_>, file: usize) -> Result<()> {
        let job = self.job;
        let record = &mut whole.record;
        let (is_open, is_too_long) = (record.is_open, record.is_open_too_long());
        let is_over = job.partial_records.is_over(record);
        let (mut bytes, origin, is_cut) =
            (std::mem::take(&mut record.bytes), record.origin, record.is_cut);
        let structure = &job.files[file].structure;
        let place = TextPlace { file, line: origin.line, offset: origin.offset };
        if is_over {
            return Err(self.record_over_memory(&place, is_open));
        }
        if is_too_long {
            return Err(job.error_handler.record_too_long(&place, &bytes, structure));
        }
        if is_open {
            return Err(job.error_handler.unclosed_quote(&place, &bytes, structure));
        }
        if is_cut || without_line_end(&bytes, structure).len() > limits::CSV_ROW_BYTES {
            job.progress.add_rows_read(1);
            let (line_end, reason) = (structure.line_end, Reason::RecordTooLong);
            return job.error_handler.reject_record(&place, &bytes, line_end, reason);
        }
        if bytes.last() != Some(&structure.line_end) {
            bytes.push(structure.line_end);
        }
        if origin.is_first && job.files[file].has_header {
            job.error_handler.tallies.of(file).headers.fetch_add(1, Relaxed);
            return Ok(());
        }
        let is_large = bytes.len() >= LARGE_RECORD_BYTES;
        let reservation = if is_large { Some(self.make_room(&bytes, &place)?) } else { None };
        let outcome = Kernel::Scalar.index(&bytes, OUTSIDE, structure, &mut self.index);
        assert!(outcome.end.state == QuoteState::Outside, "ingest_read-1: a record is whole");
        let is_checked = is_clean_text(&bytes);
        let (text, order) = (bytes.as_slice(), origin.chunk * 2 + 1);
        let lines = Lines::new(text, structure.line_end, place);
        let stretch = Stretch { text, lines, order, first_row: 0, is_checked, has_lines: true };
        self.stretch(&stretch)?;
        if reservation.is_some() {
            // The row is in its column buffer now. Packing and spilling make two further copies of
            // it.
            drop(bytes);
            self.index = FieldIndex::default();
            self.parsed.clear();
            self.account_and_spill()?;
            drop(reservation);
        }
        Ok(())
    }

    /// Reserves memory for a large record, its index, and its fields without doubled quotes; spills
    /// rows if there is too little.
    fn make_room(&mut self, bytes: &[u8], place: &TextPlace) -> Result<Reservation> {
        let job = self.job;
        let delimiters = memchr::memchr_iter(self.structure().delimiter, bytes).count();
        let index_bytes = delimiters * size_of::<u32>();
        if index_bytes > job.shares.record_max() {
            return Err(self.record_over_memory(place, false));
        }
        let reservation =
            job.buckets.budget.reserve_unchecked((2 * bytes.len() + index_bytes) as u64);
        self.account_and_spill()?;
        Ok(reservation)
    }

    #[cold]
    fn record_over_memory(&self, place: &TextPlace, is_open: bool) -> Error {
        let path = self.job.error_handler.paths[place.file].clone();
        let (max, memory) = (self.job.shares.record_max() as u64, self.job.shares.memory());
        let place = RejectPlace::Line { line: place.line, byte: place.offset };
        Error::RecordOverMemory { path, place, max, memory, is_open }
    }

    /// Counts the bytes by which this worker's memory has grown, and spills the excess.
    fn account_and_spill(&mut self) -> Result<()> {
        let interned = self.converter.memory_bytes();
        self.scatterer.account_and_spill(&self.job.spill_policy, &mut self.interners, interned)
    }

    /// Converts the records of an indexed stretch, a parsed batch at a time.
    fn stretch(&mut self, stretch: &Stretch<'_>) -> Result<()> {
        let job = self.job;
        let fields = job.files[self.file].fields;
        let mut first = match stretch.first_row {
            0 => 0,
            row => self.index.row_ends[row - 1] + 1,
        };
        let mut start = match first {
            0 => 0,
            first => self.index.field_ends[first as usize - 1] + 1,
        };
        let line_end = self.structure().line_end;
        let is_cr = line_end == b'\r';
        let blank_is_record = job.files[self.file].blank_is_record;
        let mut counts = StretchCounts::default();
        for row in stretch.first_row..self.index.row_ends.len() {
            let last = self.index.row_ends[row];
            let end = self.index.field_ends[last as usize];
            let mut record_end = end as usize;
            if record_end > start as usize && stretch.text[record_end - 1] == b'\r' {
                record_end -= 1;
                self.index.field_ends[last as usize] = end - 1;
            }
            let actual = (last - first) as usize + 1;
            let record = start as usize..record_end;
            if actual == 1 && record.is_empty() && !blank_is_record {
                counts.blank += 1;
            } else {
                counts.add(actual, fields, &record);
                if is_cr && memchr::memchr(b'\n', &stretch.text[record.clone()]).is_some() {
                    self.check_line_ends(stretch, start, first..last + 1)?;
                }
                if stretch.has_lines {
                    self.check_joined(stretch, record.clone(), first..last + 1);
                }
                match self.row_place(actual, fields, RowPlace { start, first }) {
                    Ok(place) => self.rows.push(place),
                    Err(reason) => {
                        let place = stretch.lines.at(record.start);
                        let text = &stretch.text[record];
                        job.error_handler.reject_record(&place, text, line_end, reason)?;
                    }
                }
            }
            (start, first) = (end + 1, last + 1);
            if self.rows.len() == PARSED_BATCH_ROWS {
                self.convert_rows(stretch)?;
            }
        }
        self.count(stretch, &counts);
        self.convert_rows(stretch)
    }

    fn count(&self, stretch: &Stretch<'_>, counts: &StretchCounts) {
        let job = self.job;
        job.progress.add_rows_read(counts.records);
        let tally = job.error_handler.tallies.of(self.file);
        tally.blank.fetch_add(counts.blank, Relaxed);
        tally.blank_rows.fetch_add(counts.blank_rows, Relaxed);
        let line = |start: usize| stretch.lines.at(start).line;
        if let Some(start) = counts.first_long.filter(|_| job.extra_fields == ExtraFields::Ignore) {
            tally.long.add(counts.long, line(start));
        }
        let are_null = job.missing_fields == MissingFields::Null;
        if let Some(start) = counts.first_short.filter(|_| are_null) {
            tally.short.add(counts.short, line(start));
        }
    }

    /// Counts a record of several lines that look like records.
    fn check_joined(
        &self,
        stretch: &Stretch<'_>,
        record: std::ops::Range<usize>,
        mut fields: std::ops::Range<u32>,
    ) {
        let file = &self.job.files[self.file];
        let Some(shape) = &file.line_shape else { return };
        let text = &stretch.text[record.clone()];
        let Some(at) = memchr::memchr(file.structure.line_end, text) else { return };
        let Some(lines) = shape.joined(text) else { return };
        let ends = &self.index.field_ends;
        let field = fields.position(|field| record.start + at < ends[field as usize] as usize);
        let TextPlace { line, offset, .. } = stretch.lines.at(record.start);
        let place = RejectPlace::Line { line, byte: offset };
        let joined = Joined { place, field: field.unwrap_or(0), lines };
        self.job.error_handler.tallies.of(self.file).add_joined(joined);
    }

    /// Checks a file whose lines end with CR: an LF outside of quotes ends a line as well, and the
    /// record is several records.
    fn check_line_ends(
        &self,
        stretch: &Stretch<'_>,
        start: u32,
        fields: std::ops::Range<u32>,
    ) -> Result<()> {
        let quote = self.structure().quote;
        let mut start = start as usize;
        for field in fields {
            let end = self.index.field_ends[field as usize] as usize;
            let text = stretch.text.get(start..end).unwrap_or_default();
            let is_quoted = quote.is_some() && text.first().copied() == quote;
            if let (false, Some(at)) = (is_quoted, memchr::memchr(b'\n', text)) {
                let TextPlace { file, line, offset } = stretch.lines.at(start + at);
                let path = self.job.error_handler.paths[file].clone();
                let place = RejectPlace::Line { line, byte: offset };
                return Err(Error::MixedLineEnds { path, place });
            }
            start = end + 1;
        }
        Ok(())
    }

    /// The place of a record with `actual` fields; one with too few is filled up, if the options
    /// allow it.
    fn row_place(
        &mut self,
        actual: usize,
        fields: usize,
        place: RowPlace,
    ) -> std::result::Result<RowPlace, Reason> {
        if actual == fields {
            return Ok(place);
        }
        if actual > fields {
            return match self.job.extra_fields {
                ExtraFields::Reject => Err(Reason::TooManyFields),
                ExtraFields::Ignore => Ok(place),
            };
        }
        if self.job.missing_fields == MissingFields::Reject {
            return Err(Reason::TooFewFields);
        }
        let ends = &mut self.index.field_ends;
        let first = u32::try_from(ends.len()).expect("fewer fields than bytes");
        ends.extend_from_within(place.first as usize..place.first as usize + actual);
        // A field from `end + 1` to `end` is none, and so NULL, whatever an empty field is.
        let end = *ends.last().expect("a record has a field");
        ends.resize(ends.len() + fields - actual, end);
        Ok(RowPlace { first, ..place })
    }

    fn convert_rows(&mut self, stretch: &Stretch<'_>) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let job = self.job;
        self.parsed.clear();
        self.parsed.order = stretch.order;
        let rows = RowsOfText {
            text: stretch.text,
            field_ends: &self.index.field_ends,
            rows: &self.rows,
            quote: self.structure().quote,
            null_text: job.null_text,
            is_checked: stretch.is_checked,
        };
        self.converter.convert(&rows, &mut self.parsed);
        let sources = &job.files[self.file].sources;
        let ambiguous = job.ambiguous;
        let (lines, structure) = (&stretch.lines, &job.files[self.file].structure);
        let has_lines = stretch.has_lines;
        let origin = TextOrigin { rows: &rows, sources, lines, structure, has_lines, ambiguous };
        job.error_handler.resolve(&mut self.converter.errors, &origin, &mut self.parsed)?;
        job.error_handler.tallies.of(self.file).add_batch(&self.parsed);
        self.scatterer.scatter(&self.parsed, stretch.text);
        self.rows.clear();
        Ok(())
    }
}

const OUTSIDE: Start = Start { state: QuoteState::Outside, after: Before::FieldStart };

fn without_line_end<'a>(record: &'a [u8], structure: &Structure) -> &'a [u8] {
    let record = record.strip_suffix(&[structure.line_end]).unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

/// Returns true if all of it is UTF-8 without NUL: then none of its fields needs a check.
fn is_clean_text(text: &[u8]) -> bool {
    simdutf8::basic::from_utf8(text).is_ok() && memchr::memchr(0, text).is_none()
}
