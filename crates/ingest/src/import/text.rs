//! The reading half of a text import: sniffs, plans buckets, runs the workers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tidegate_model::Schema;
use tidegate_platform::Reservation;
use tidegate_storage::segment::intern::Interner;

use super::files::{self, Reading, sniff_options};
use super::setup::{QuoteEnd, SampledFile};
use crate::bucket::{BUCKETS_MAX, BucketPlan, PlanOptions};
use crate::context::{BucketSetup, ImportContext, Parsed, PhaseClock, Remarks};
use crate::error::{Error, Result, first_error};
use crate::index::Structure;
use crate::input::{InputBytes, InputFile, chunk_queue};
use crate::layout::RowLayout;
use crate::options::{EmptyFields, FileFormat, ImportOptions};
use crate::parse_errors::{Lines, ParseErrorHandler, TextPlace, place_of_quote};
use crate::progress::Phase;
use crate::read::{self, ReadJob, TextFile};
use crate::sniff::open_quote;
use crate::split::{PartialRecords, SplitChain};
use crate::tally::{Joined, Tallies};
use crate::timestamp::{TimestampFormat, TimestampParser};

pub(super) fn read(
    context: &ImportContext<'_>,
    mut inputs: Vec<SampledFile>,
    phases: &mut PhaseClock<'_>,
) -> Result<Parsed> {
    let Reading { target, mut files, formats, guesses, ambiguous, null_text, header, notes } =
        files::prepare(context, &inputs).map_err(|error| explained(context, &inputs, error))?;
    let layout = context.layout(&target.schema);
    let plan = plan(&inputs, &files, &layout, &formats, &target.schema);
    let txn = context.begin(&target)?;
    let (buckets, spill) = context.buckets(&txn, BucketSetup { plan, layout: layout.clone() })?;
    context.progress.set_bytes_total(total_bytes(&inputs));
    phases.end(Phase::Setup);
    context.progress.enter(Phase::Read);
    let workers = context.options.workers.get();
    let (reader, queue) = chunk_queue(workers, context.shares.window_log_max());
    let queue = Arc::new(queue);
    step_back(&mut inputs, &mut files);
    let paths: Vec<PathBuf> = inputs.iter().map(|file| file.input.path.clone()).collect();
    let tallies = Tallies::new(&paths);
    let inputs: Vec<InputFile> = inputs.into_iter().map(|file| file.input).collect();
    let inputs = Arc::new(inputs);
    let job = ReadJob {
        files: &files,
        layout: &layout,
        formats: &formats,
        guesses: &guesses,
        ambiguous: &ambiguous,
        null_text: null_text.as_deref(),
        empty_fields: context.options.dialect.empty_fields,
        missing_fields: context.options.dialect.missing_fields,
        extra_fields: context.options.dialect.extra_fields,
        queue: &queue,
        chain: SplitChain::new(),
        partial_records: PartialRecords::new(context.shares.record_max()),
        shares: context.shares,
        buckets: &buckets,
        spill_policy: context.spill_policy(&spill),
        error_handler: ParseErrorHandler {
            on_error: context.options.on_error,
            layout: &layout,
            unit: target.schema.time_unit(),
            paths: &paths,
            rejects: context.rejects,
            progress: context.progress,
            cells_nulled: AtomicU64::new(0),
            tallies: &tallies,
        },
        progress: context.progress,
        cancel: context.cancel,
        stop: AtomicBool::new(false),
    };
    // A pipe may be silent for ever, so after an error the import does not wait for the thread that
    // reads it.
    let (reading_queue, progress, io) =
        (Arc::clone(&queue), Arc::clone(context.progress), context.io);
    let reading_inputs = Arc::clone(&inputs);
    let reader =
        std::thread::spawn(move || reader.run(&reading_inputs, &reading_queue, io, &progress));
    let outcome = work(&job, workers);
    if !matches!(outcome, Ok(_) | Err(Error::Cancelled)) {
        // A change of an input explains any other error in it.
        inputs.iter().try_for_each(InputFile::check_unchanged)?;
    }
    let (interners, reserved) = outcome?.into_iter().unzip();
    reader.join().map_err(|_| Error::WorkerPanicked)?;
    assert!(job.partial_records.is_empty(), "ingest_read-1: every record was whole in the end");
    let cells_nulled = job.error_handler.cells_nulled.load(Relaxed);
    check_guesses(context, &files, &tallies)?;
    let notes = [notes, notes_of_rows(context, &files, &layout, &tallies)?].concat();
    phases.end(Phase::Read);
    if context.progress.sample().rows_read == 0 {
        return Err(Error::NoRecords { path: context.source_name() });
    }
    let remarks = Remarks { created_table: !target.exists, header, notes };
    Ok(Parsed { txn, buckets, spill, interners, reserved, cells_nulled, tallies, remarks })
}

/// Runs the workers; returns their interners, and the parts of the budget that these hold.
fn work(job: &ReadJob<'_>, workers: usize) -> Result<Vec<(Vec<Interner>, Reservation)>> {
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|number| {
                let number = u32::try_from(number).expect("few workers");
                scope.spawn(move || read::run(job, number))
            })
            .collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    first_error(outcomes)
}

fn total_bytes(inputs: &[SampledFile]) -> u64 {
    let bytes = inputs.iter().map(|file| match &file.input.bytes {
        InputBytes::File { stamp, .. } => Some(stamp.bytes),
        InputBytes::Stream { .. } => None,
    });
    bytes.sum::<Option<u64>>().unwrap_or(0)
}

/// The percentage of a file's records, and their number, from which on a guess that they contradict
/// was wrong: many files have some bad records.
const CONTRADICTED_PERCENT: u64 = 10;
const CONTRADICTED_MIN: u64 = 100;

/// Fails the import if the delimiter was guessed, and many records do not have the fields that it
/// gives: as rejects, they would be lost because of a wrong guess.
fn check_guesses(context: &ImportContext<'_>, files: &[TextFile], tallies: &Tallies) -> Result<()> {
    if context.options.dialect.delimiter.is_some() {
        return Ok(());
    }
    for (at, file) in files.iter().enumerate() {
        let tally = tallies.of(at);
        let rejected = tally.misshapen.load(Relaxed);
        let records = tally.rows.load(Relaxed) + tally.rejected.load(Relaxed);
        let are_others = rejected < records || CONTRADICTED_MIN <= rejected;
        if contradicts(rejected, records) && are_others {
            let Structure { delimiter, quote, .. } = file.structure;
            let first = context.rejects.finish()?.first.map(Box::new);
            return Err(Error::GuessContradicted {
                path: tallies.path(at).to_owned(),
                rejected,
                records,
                fields: file.fields,
                delimiter,
                quote,
                first,
            });
        }
    }
    Ok(())
}

/// Steps back over blank lines that were skipped before it was known that they are rows.
fn step_back(inputs: &mut [SampledFile], files: &mut [TextFile]) {
    for (input, file) in inputs.iter_mut().zip(files) {
        if file.blank_is_record && !file.has_header {
            input.input.skip_bytes -= input.blank_bytes;
            file.skip_lines = file.skip_lines.saturating_sub(input.blank_lines);
        }
    }
}

/// The notes on the rows that were found.
fn notes_of_rows(
    context: &ImportContext<'_>,
    files: &[TextFile],
    layout: &RowLayout,
    tallies: &Tallies,
) -> Result<Vec<String>> {
    let joined = joined_notes(files, layout, tallies)?;
    let blank = blank_notes(context.options, files, tallies);
    let of_files = [joined, blank, ragged_notes(files, tallies)].concat();
    Ok([files::capped(of_files, "files"), rejected_note(tallies)].concat())
}

/// The notes on values of several lines that look like records: they may be records that a quote
/// which is text has joined. If they are much of a file, the import fails as for any guess that is
/// contradicted.
fn joined_notes(files: &[TextFile], layout: &RowLayout, tallies: &Tallies) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let tally = tallies.of(at);
        let Some(Joined { place, field, lines }) = tally.first_joined() else { continue };
        let joined = tally.joined.load(Relaxed);
        let records = tally.rows.load(Relaxed) + tally.rejected.load(Relaxed);
        let column = file.sources.iter().position(|source| *source == Some(field));
        let column = column.map_or_else(
            || format!("f{field}"),
            |column| layout.columns[column].column.name.clone(),
        );
        let path = tallies.path(at).to_owned();
        // In a small file a value may be a list of records.
        if is_much(joined, joined + records) {
            return Err(Error::QuotesContradicted { path, joined, records, place, column, lines });
        }
        let more = match joined + 1 - lines {
            0 => String::new(),
            more => format!(", and others {more} more"),
        };
        notes.push(format!(
            "{}, {place}, column `{column}`: a quoted value has {lines} lines that look like \
             records{more}: --quote none makes text of the quotes",
            path.display()
        ));
    }
    Ok(notes)
}

/// The note on lines that are in no row, if those are more than the rejected records.
fn rejected_note(tallies: &Tallies) -> Vec<String> {
    let (rejected, lines) = (tallies.rejected(), tallies.rejected_lines());
    let lines = (lines > 0).then_some(rejected + lines);
    let note = |lines| format!("the rejected records have {lines} lines: the list says which");
    lines.map(note).into_iter().collect()
}

/// The note on blank lines of a file of one column, which are rows unless something shows
/// otherwise; none if the options say what an empty field is.
fn blank_notes(options: &ImportOptions, files: &[TextFile], tallies: &Tallies) -> Vec<String> {
    let is_unclear =
        options.format != FileFormat::PgText && options.dialect.empty_fields == EmptyFields::Null;
    let note = |at: usize| {
        let blank = tallies.of(at).blank_rows.load(Relaxed);
        let path = tallies.path(at).display();
        (is_unclear && blank > 0).then(|| {
            format!("{path} has one column, and its blank lines are rows of NULL: {blank}")
        })
    };
    (0..files.len()).filter_map(note).collect()
}

/// The notes on values that lines have beyond the columns, and on columns without a value.
fn ragged_notes(files: &[TextFile], tallies: &Tallies) -> Vec<String> {
    let mut notes = Vec::new();
    for at in 0..files.len() {
        let (path, tally) = (tallies.path(at).display(), tallies.of(at));
        notes.extend(tally.long.count_and_first().map(|(count, line)| {
            format!(
                "{path}: values beyond the last column were left out, rows: {count}, the first \
                 in line {line}"
            )
        }));
        notes.extend(tally.short.count_and_first().map(|(count, line)| {
            format!(
                "{path}: columns are NULL for want of values, rows: {count}, the first in line \
                 {line}"
            )
        }));
    }
    notes
}

/// Returns true if so many of the records of a file contradict a guess that it was wrong.
fn contradicts(bad: u64, records: u64) -> bool {
    // In a small file more than half of the records must contradict it.
    is_much(bad, records) || 1 < bad && records < 2 * bad
}

fn is_much(bad: u64, records: u64) -> bool {
    CONTRADICTED_MIN <= bad && records * CONTRADICTED_PERCENT < bad * 100
}

/// Returns the unclosed quote as the error if it can have hidden a header, and with it the columns.
fn explained(context: &ImportContext<'_>, inputs: &[SampledFile], error: Error) -> Error {
    let is_of_columns = matches!(
        error,
        Error::Sniff { .. }
            | Error::NoSuchColumn { .. }
            | Error::Schema(_)
            | Error::OtherColumns { .. }
            | Error::NotTimestamps { .. }
            | Error::NoRecords { .. }
            | Error::LongFirstRecord { .. }
    );
    let found = inputs.iter().filter(|_| is_of_columns).find_map(|file| {
        let options = sniff_options(context.options, file, None);
        let head = &file.sample.head;
        let (structure, record) = open_quote(head, &options)?;
        let InputFile { path, skip_bytes, skip_lines, .. } = &file.input;
        let start = TextPlace { file: 0, line: 1 + skip_lines, offset: *skip_bytes };
        let TextPlace { line, offset, .. } = place_of_quote(&start, head, &structure);
        let path = path.clone();
        match file.end_of_quote(structure.quote?, offset)? {
            QuoteEnd::Never => Some(Error::UnclosedQuote { path, line, offset }),
            QuoteEnd::Unknown => {
                let bytes = head.len() as u64;
                Some(Error::OpenQuote { path, line, offset, bytes })
            }
            QuoteEnd::TooLate => {
                let record = Lines::new(head, structure.line_end, start).at(record);
                let (quote_line, line) = (line, record.line);
                Some(Error::RecordTooLong { path, line, quote_line, offset })
            }
        }
    });
    found.unwrap_or(error)
}

/// The bounds of buckets, from the timestamps of all samples.
fn plan(
    inputs: &[SampledFile],
    files: &[TextFile],
    layout: &RowLayout,
    formats: &[Option<TimestampFormat>],
    schema: &Schema,
) -> BucketPlan {
    let unit = schema.time_unit();
    let Some(column) = layout.timestamp else { return BucketPlan::single() };
    let format = formats[column].as_ref().unwrap_or(&TimestampFormat::Detect);
    let parser = TimestampParser::new(format, unit);
    let (mut timestamps, mut rows) = (Vec::new(), 0);
    for (input, file) in inputs.iter().zip(files) {
        let designated = file.sources[column].map(|field| (field, parser.clone()));
        let sampled = input.sample.records(&file.structure, file.fields, designated);
        let record_bytes = (sampled.bytes as f64 / sampled.records.max(1) as f64).max(1.0);
        let bytes = match &input.input.bytes {
            InputBytes::File { stamp, .. } => stamp.bytes as f64,
            InputBytes::Stream { .. } => sampled.bytes as f64,
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a guess")]
        let guess = (bytes / record_bytes) as u64;
        rows += guess;
        timestamps.extend(sampled.timestamps);
    }
    let partition_by = schema.partition_by();
    let (bucket_rows_max, count_max) = (u64::MAX, BUCKETS_MAX);
    let options = PlanOptions { partition_by, unit, rows, bucket_rows_max, count_max };
    BucketPlan::from_sample(timestamps, options)
}
