//! The reading half of a text import: sniff, plan buckets, run the workers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tidegate_model::schema::same_name;
use tidegate_model::{ColumnType, Schema};

use super::setup::{self, QuoteEnd, SampledFile, TargetSchema};
use super::{BucketSetup, ImportContext, Parsed, PhaseClock, Remarks, first_error};
use crate::bucket::{BucketPlan, PlanOptions};
use crate::distribute::Room;
use crate::error::{Error, Result};
use crate::faults::{FaultContext, Lines, TextPlace, place_of_quote, shown};
use crate::index::Structure;
use crate::input::{InputBytes, InputFile, piece_queue};
use crate::layout::RowLayout;
use crate::options::{ColumnSource, ImportOptions};
use crate::progress::Phase;
use crate::read::{self, ReadJob, TextFile};
use crate::sniff::{
    Dialect, LineEnd, SniffError, SniffOptions, Sniffed, map_columns, open_quote, sniff,
};
use crate::split::{Joints, SplitChain};
use crate::tally::Tallies;
use crate::timestamp::{TimestampFormat, TimestampParser};

/// How all files are to be read.
struct Reading {
    structure: Structure,
    target: TargetSchema,
    files: Vec<TextFile>,
    /// For each column of the table.
    formats: Vec<Option<TimestampFormat>>,
    null_text: Option<Vec<u8>>,
    has_header: bool,
    notes: Vec<String>,
}

pub(super) fn read(
    context: &ImportContext<'_>,
    inputs: Vec<SampledFile>,
    phases: &mut PhaseClock<'_>,
) -> Result<Parsed> {
    let Reading { structure, target, files, formats, null_text, has_header, notes } =
        prepare(context, &inputs).map_err(|error| explained(context, &inputs, error))?;
    let layout = RowLayout::new(&target.schema);
    let plan = plan(&inputs, &structure, &files, &layout, &formats, &target.schema);
    let txn = context.begin(target.exists, &target.schema)?;
    let (buckets, spill) = context.buckets(&txn, BucketSetup { plan, layout: layout.clone() })?;
    context.progress.set_bytes_total(total_bytes(&inputs));
    phases.end(Phase::Setup);
    context.progress.enter(Phase::Read);
    let workers = context.options.workers.get();
    let (reader, queue) = piece_queue(workers);
    let queue = Arc::new(queue);
    let paths: Vec<PathBuf> = inputs.iter().map(|file| file.input.path.clone()).collect();
    let tallies = Tallies::new(&paths);
    let inputs: Vec<InputFile> = inputs.into_iter().map(|file| file.input).collect();
    let inputs = Arc::new(inputs);
    let job = ReadJob {
        files: &files,
        layout: &layout,
        formats: &formats,
        structure,
        null_text: null_text.as_deref(),
        missing_fields: context.options.dialect.missing_fields,
        extra_fields: context.options.dialect.extra_fields,
        queue: &queue,
        chain: SplitChain::new(),
        joints: Joints::default(),
        buckets: &buckets,
        room: Room { spill: &spill, spill_from: context.spill_from(), progress: context.progress },
        faults: FaultContext {
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
    // A pipe may be silent for ever, so nobody waits for the thread that reads it.
    let (reading_queue, progress, io) =
        (Arc::clone(&queue), Arc::clone(context.progress), context.io);
    let reading_inputs = Arc::clone(&inputs);
    let reader =
        std::thread::spawn(move || reader.run(&reading_inputs, &reading_queue, io, &progress));
    let outcomes = std::thread::scope(|scope| {
        let job = &job;
        let threads: Vec<_> = (0..workers)
            .map(|number| {
                let number = u32::try_from(number).expect("few workers");
                scope.spawn(move || read::run(job, number))
            })
            .collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let outcome = first_error(outcomes);
    if !matches!(outcome, Ok(_) | Err(Error::Cancelled)) {
        // That an input was changed is the reason of whatever else is wrong with it.
        inputs.iter().try_for_each(InputFile::check_unchanged)?;
    }
    let (interners, held) = outcome?.into_iter().unzip();
    reader.join().map_err(|_| Error::WorkerPanicked)?;
    assert!(job.joints.is_empty(), "T1 of `read`: every record was whole in the end");
    let cells_nulled = job.faults.cells_nulled.load(Relaxed);
    phases.end(Phase::Read);
    if context.progress.sample().rows_read == 0 {
        return Err(Error::NoRecords { path: context.source_name() });
    }
    let remarks = Remarks { created_table: !target.exists, has_header, notes };
    Ok(Parsed { txn, buckets, spill, interners, held, cells_nulled, tallies, remarks })
}

fn total_bytes(inputs: &[SampledFile]) -> u64 {
    let bytes = inputs.iter().map(|file| match &file.input.bytes {
        InputBytes::File { stamp, .. } => Some(stamp.bytes),
        InputBytes::Stream { .. } => None,
    });
    bytes.sum::<Option<u64>>().unwrap_or(0)
}

/// A quote that is never closed can hide a header, and all columns with it: then that is the error.
fn explained(context: &ImportContext<'_>, inputs: &[SampledFile], error: Error) -> Error {
    let is_of_columns = matches!(
        error,
        Error::Sniff { .. }
            | Error::NoSuchColumn { .. }
            | Error::Schema(_)
            | Error::OtherColumns { .. }
            | Error::NotTimestamps { .. }
            | Error::NoRecords { .. }
    );
    let found = inputs.iter().filter(|_| is_of_columns).find_map(|file| {
        let options = sniff_options(context, file, None, None);
        let head = &file.sample.head;
        let (structure, record) = open_quote(head, &options)?;
        let InputFile { path, skip_bytes, skip_lines, .. } = &file.input;
        let start = TextPlace { file: 0, line: 1 + skip_lines, offset: *skip_bytes };
        let TextPlace { line, offset, .. } = place_of_quote(&start, head, &structure);
        let path = path.clone();
        match file.end_of_quote(structure.quote?, offset)? {
            QuoteEnd::Never => Some(Error::UnclosedQuote { path, line, offset }),
            QuoteEnd::TooLate => {
                let record = Lines::new(head, structure.line_end, start).at(record);
                let (quote_line, line) = (line, record.line);
                Some(Error::RecordTooLong { path, line, quote_line, offset })
            }
        }
    });
    found.unwrap_or(error)
}

/// Sniffs the first file for the table, and the others for their order of columns.
fn prepare(context: &ImportContext<'_>, inputs: &[SampledFile]) -> Result<Reading> {
    let options = context.options;
    let existing = setup::existing_schema(context.database, options)?;
    // A file without rows has nothing to say of the others.
    let first_at = (inputs.iter().position(|file| !file.has_one_line()))
        .or_else(|| inputs.iter().position(|file| !file.is_empty()))
        .unwrap_or(0);
    let first = &inputs[first_at];
    let path = &first.input.path;
    let given = match (&existing, &options.columns) {
        (None, ColumnSource::Given(columns)) => {
            Some(setup::new_schema(columns.clone(), options, path)?)
        }
        _ => None,
    };
    let sniffed = sniff_file(context, first, existing.as_ref().or(given.as_ref()), None)?;
    if sniffed.names.is_empty() {
        return Err(Error::NoRecords { path: path.clone() });
    }
    let exists = existing.is_some();
    let (schema, sniffed) = match existing.or(given) {
        Some(schema) => (schema, sniffed),
        None => {
            let schema = setup::new_schema(inferred_columns(&sniffed, options)?, options, path)?;
            let sniffed = match &options.columns {
                // What the hints say of a column decides how it is written.
                ColumnSource::Hinted(_) => sniff_file(context, first, Some(&schema), None)?,
                _ => sniffed,
            };
            (schema, sniffed)
        }
    };
    let first_file = text_file(context, first, &sniffed, &schema)?;
    let formats = formats(context, &schema, &first_file, &sniffed);
    let mut files = Vec::with_capacity(inputs.len());
    for (at, other) in inputs.iter().enumerate() {
        if at == first_at {
            files.push(first_file.clone());
            continue;
        }
        let own = sniff_file(context, other, Some(&schema), Some(&sniffed))?;
        if own.names.is_empty() {
            // An empty file among others has no records and does no harm.
            files.push(first_file.clone());
            continue;
        }
        let file = text_file(context, other, &own, &schema)?;
        same_columns(&file, &first_file, other, first, &schema)?;
        files.push(file);
    }
    let structure = Structure {
        delimiter: sniffed.dialect.delimiter,
        quote: sniffed.dialect.quote,
        line_end: if sniffed.dialect.line_end == LineEnd::Cr { b'\r' } else { b'\n' },
    };
    let Sniffed { dialect: Dialect { null_text, has_header, .. }, notes, .. } = sniffed;
    let target = TargetSchema { schema, exists };
    Ok(Reading { structure, target, files, formats, null_text, has_header, notes })
}

/// The columns of a table that the import makes: as found, but for names and types that are given.
fn inferred_columns(
    sniffed: &Sniffed,
    options: &ImportOptions,
) -> Result<Vec<(String, ColumnType)>> {
    let names = sniffed.names.iter().cloned();
    let mut columns: Vec<_> = names.zip(sniffed.types.iter().copied()).collect();
    if let Some(fields) = &options.fields {
        columns.iter_mut().zip(fields).for_each(|(column, name)| column.0.clone_from(name));
    }
    let is_kept = |(name, _): &(String, ColumnType)| {
        !options.skip_columns.iter().any(|skipped| same_name(skipped, name))
    };
    columns.retain(is_kept);
    let ColumnSource::Hinted(hints) = &options.columns else { return Ok(columns) };
    for (position, (name, ty)) in hints.iter().enumerate() {
        let named = columns.iter().position(|(own, _)| same_name(own, name));
        let at = match sniffed.dialect.has_header {
            true => named,
            false => Some(position).filter(|&at| at < columns.len()),
        };
        let at = at.ok_or_else(|| Error::NoSuchColumn {
            name: name.clone(),
            place: "the file".to_owned(),
        })?;
        columns[at] = (if named.is_some() { columns[at].0.clone() } else { name.clone() }, *ty);
    }
    Ok(columns)
}

/// How the timestamps of each column of the table are written.
fn formats(
    context: &ImportContext<'_>,
    schema: &Schema,
    file: &TextFile,
    sniffed: &Sniffed,
) -> Vec<Option<TimestampFormat>> {
    let columns = schema.columns().iter().zip(&file.sources);
    columns
        .map(|(column, source)| {
            let is_designated = Some(column.id) == schema.designated();
            let of_column = context.options.column_formats.iter();
            let mut of_column = of_column.filter(|(name, _)| same_name(name, &column.name));
            let given = of_column
                .next()
                .map(|(_, format)| format.clone())
                .or_else(|| context.options.timestamp_format.clone().filter(|_| is_designated));
            let given = given.filter(|_| source.is_some());
            given.or_else(|| source.and_then(|field| sniffed.formats[field].clone()))
        })
        .collect()
}

fn sniff_options<'a>(
    context: &'a ImportContext<'_>,
    file: &SampledFile,
    expected: Option<&'a Schema>,
    first: Option<&Sniffed>,
) -> SniffOptions<'a> {
    let options = context.options;
    let dialect = &options.dialect;
    SniffOptions {
        // All files of an import are written alike.
        delimiter: first.map(|first| first.dialect.delimiter).or(dialect.delimiter),
        quote: dialect.quote,
        header: dialect.header,
        timestamp_format: options.timestamp_format.as_ref(),
        null_text: dialect.null_text.as_deref(),
        expected,
        // What is a name where nobody has a table is the table's own.
        columns: options.fields.as_deref().filter(|_| expected.is_some()),
        designated: options.timestamp.as_deref(),
        symbols: &options.symbols,
        skip: &options.skip_columns,
        head_is_whole: file.sample.is_whole,
    }
}

fn sniff_file(
    context: &ImportContext<'_>,
    file: &SampledFile,
    expected: Option<&Schema>,
    first: Option<&Sniffed>,
) -> Result<Sniffed> {
    let options = sniff_options(context, file, expected, first);
    sniff(&file.sample.head, &file.sample.window_slices(), &options).map_err(|source| {
        let path = file.input.path.clone();
        match source {
            SniffError::NotTimestamps { name: column, example } => {
                let example = example.map(|(text, record)| (line_of(file, record), shown(&text)));
                Error::NotTimestamps { path, column, example }
            }
            source => Error::Sniff { path, source },
        }
    })
}

/// The line of a byte of the sample's head.
fn line_of(file: &SampledFile, position: usize) -> u64 {
    let head = &file.sample.head;
    let windows = file.sample.windows.iter();
    let has_lf = windows.chain([head]).any(|sample| memchr::memchr(b'\n', sample).is_some());
    let line_end = if has_lf { b'\n' } else { b'\r' };
    let start =
        TextPlace { file: 0, line: 1 + file.input.skip_lines, offset: file.input.skip_bytes };
    Lines::new(head, line_end, start).at(position).line
}

/// Which field of a record each column of the table is.
fn text_file(
    context: &ImportContext<'_>,
    file: &SampledFile,
    sniffed: &Sniffed,
    schema: &Schema,
) -> Result<TextFile> {
    let options = sniff_options(context, file, Some(schema), None);
    let map = map_columns(sniffed, schema, &options)
        .map_err(|source| Error::Sniff { path: file.input.path.clone(), source })?;
    let mut sources = vec![None; schema.columns().len()];
    for (field, target) in map.targets.iter().enumerate() {
        if let Some(column) = *target {
            sources[column] = Some(field);
        }
    }
    if !sniffed.names.is_empty() {
        setup::require_designated(schema, &sources, &file.input.path)?;
    }
    Ok(TextFile {
        sources,
        fields: map.targets.len(),
        has_header: sniffed.dialect.has_header,
        skip_lines: file.input.skip_lines,
    })
}

/// All files must have the same columns of the table, in whatever order.
fn same_columns(
    file: &TextFile,
    first: &TextFile,
    sampled: &SampledFile,
    first_sampled: &SampledFile,
    schema: &Schema,
) -> Result<()> {
    let differing: Vec<String> = schema
        .columns()
        .iter()
        .zip(file.sources.iter().zip(&first.sources))
        .filter(|(_, (own, first))| own.is_some() != first.is_some())
        .map(|(column, _)| column.name.clone())
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    let (path, first) = (sampled.input.path.clone(), first_sampled.input.path.clone());
    Err(Error::OtherColumns { path, first, names: differing })
}

/// Where buckets begin, from the timestamps of all samples.
#[expect(clippy::too_many_arguments, reason = "all differ in type")]
fn plan(
    inputs: &[SampledFile],
    structure: &Structure,
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
        let found = input.sample.records(structure, file.fields, designated);
        let record_bytes = (found.bytes as f64 / found.records.max(1) as f64).max(1.0);
        let bytes = match &input.input.bytes {
            InputBytes::File { stamp, .. } => stamp.bytes as f64,
            InputBytes::Stream { .. } => found.bytes as f64,
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a guess")]
        let guess = (bytes / record_bytes) as u64;
        rows += guess;
        timestamps.extend(found.timestamps);
    }
    let partition_by = schema.partition_by();
    let options = PlanOptions { partition_by, unit, rows, bucket_rows_max: u64::MAX };
    BucketPlan::from_sample(timestamps, options)
}
