//! Import of flat Parquet files: row groups are decoded in parallel and go through the same
//! buckets, segment building and commit as text.
//!
//! - parquet_file-1. Rows have the order of files, row groups and rows: the rows of a row group are
//!   marked with its number among all, and with the number of their batch in it.
//! - A value that its column cannot hold is a parse error, like a bad cell of text (`cast`).
//! - Any bytes of a file give rows or an error that names the file, and the row group and the
//!   column where there is one; and they take no more memory than a small multiple of the file.
//!
//! The `parquet` library decodes; strings that a file keeps in dictionaries become symbols without
//! a lookup of each. Not here: nested types.

mod open;
mod loaded;
mod union;
mod group;
mod pages;
mod thrift;
mod source;
mod times;
mod columns;
mod cast;

pub use group::is_decoding_guarded;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use arrow::array::ArrayRef;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use tidegate_model::Schema;
use tidegate_platform::{DiskFile, Reservation};
use tidegate_storage::segment::intern::Interner;

use crate::bucket::{BUCKETS_MAX, BucketPlan, Buckets, PlanOptions};
use crate::context::{BucketSetup, ImportContext, Parsed, PhaseClock, Remarks};
use crate::convert::{Converter, ParseError};
use crate::error::{Error, Result, first_error};
use crate::excerpt::shown;
use crate::layout::RowLayout;
use crate::parquet_flaw::Flaw;
use crate::parse_errors::{ParseErrorHandler, RowOrigin};
use crate::parsed_batch::ParsedBatch;
use crate::progress::{Phase, Progress};
use crate::reject::RejectPlace;
use crate::scatter::{Scatterer, SpillPolicy};
use crate::shares::{LARGE_RECORD_BYTES, Shares};
use crate::tally::Tallies;

use columns::PreparedBatch;
use group::{GroupBatch, ParquetFile, guarded};
use open::Opened;
use times::{TimeFormats, is_month_first};

/// The state that all workers share.
struct ParquetJob<'a> {
    files: &'a [ParquetFile],
    /// File and row group of every task, in order (parquet_file-1).
    tasks: &'a [(usize, usize)],
    next: AtomicUsize,
    layout: &'a RowLayout,
    times: &'a TimeFormats,
    buckets: &'a Arc<Buckets>,
    spill_policy: SpillPolicy<'a>,
    shares: Shares,
    gate: DecodeGate,
    error_handler: ParseErrorHandler<'a>,
    progress: &'a Progress,
    cancel: &'a AtomicBool,
    stop: AtomicBool,
}

/// The error of files that have no rows.
fn no_rows(context: &ImportContext<'_>, tasks: &[(usize, usize)]) -> Error {
    let path = context.source_name();
    if tasks.is_empty() { Error::NoRowGroups { path } } else { Error::NoRecords { path } }
}

/// Reads all row groups into buckets.
pub(crate) fn read(
    context: &ImportContext<'_>,
    opened: &[Arc<dyn DiskFile>],
    phases: &mut PhaseClock<'_>,
) -> Result<Parsed> {
    let Opened { target, files, mut notes } = open::open(context, opened)?;
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
    let tallies = Tallies::new(&paths);
    let layout = context.layout(&target.schema);
    let tasks: Vec<(usize, usize)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, open)| {
            (0..open.metadata.num_row_groups()).map(move |group| (file, group))
        })
        .collect();
    let mut times = TimeFormats::sample(&files, &target.schema, context.options)?;
    notes.append(&mut times.notes);
    let plan = plan(&files, &layout, &target.schema);
    let txn = context.begin(&target)?;
    let (buckets, spill) = context.buckets(&txn, BucketSetup { plan, layout: layout.clone() })?;
    context.progress.set_bytes_total(files.iter().map(|file| file.source.bytes()).sum());
    phases.end(Phase::Setup);
    context.progress.enter(Phase::Read);
    let job = ParquetJob {
        files: &files,
        tasks: &tasks,
        next: AtomicUsize::new(0),
        layout: &layout,
        times: &times,
        buckets: &buckets,
        spill_policy: context.spill_policy(&spill),
        shares: context.shares,
        gate: DecodeGate::new(context.shares.decoded_max()),
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
    let outcomes = std::thread::scope(|scope| {
        let job = &job;
        let threads: Vec<_> = (0..context.options.workers.get())
            .map(|number| {
                let number = u32::try_from(number).expect("few workers");
                scope.spawn(move || {
                    let outcome = Worker::new(job, number).run();
                    job.stop.fetch_or(outcome.is_err(), Relaxed);
                    outcome
                })
            })
            .collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let outcome = first_error(outcomes);
    if !matches!(outcome, Err(Error::Cancelled)) {
        // A change of a file explains any other error in it.
        files.iter().try_for_each(|file| file.source.check_unchanged())?;
    }
    let (interners, reserved) = outcome?.into_iter().unzip();
    let cells_nulled = job.error_handler.cells_nulled.load(Relaxed);
    phases.end(Phase::Read);
    if context.progress.sample().rows_read == 0 {
        return Err(no_rows(context, &tasks));
    }
    let remarks = Remarks { created_table: !target.exists, header: None, notes };
    Ok(Parsed { txn, buckets, spill, interners, reserved, cells_nulled, tallies, remarks })
}

/// The bounds of the buckets, from the statistics of the row groups: their rows are assumed to be
/// spread evenly between their minimum and maximum timestamps.
fn plan(files: &[ParquetFile], layout: &RowLayout, schema: &Schema) -> BucketPlan {
    let Some(column) = layout.timestamp else { return BucketPlan::single() };
    let (mut sample, mut rows) = (Vec::new(), 0);
    for group in files.iter().flat_map(|file| group_times(file, column)) {
        rows += group.rows;
        for step in 0..SAMPLES_PER_GROUP {
            let span = group.max.abs_diff(group.min);
            let offset = u128::from(span) * u128::from(step) / u128::from(SAMPLES_PER_GROUP - 1);
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            sample.push(group.min.saturating_add(offset));
        }
    }
    let (partition_by, unit) = (schema.partition_by(), schema.time_unit());
    let (bucket_rows_max, count_max) = (u64::MAX, BUCKETS_MAX);
    let options = PlanOptions { partition_by, unit, rows, bucket_rows_max, count_max };
    BucketPlan::from_sample(sample, options)
}

const SAMPLES_PER_GROUP: u64 = 512;

/// The range of timestamps of a row group.
struct GroupTimes {
    min: i64,
    max: i64,
    rows: u64,
}

/// The bounds of the timestamps of each row group that has them in its metadata. They are hints:
/// damaged ones, and texts, are ignored.
fn group_times(file: &ParquetFile, column: usize) -> Vec<GroupTimes> {
    let Some(own) = &file.columns[column] else { return Vec::new() };
    let field = &file.fields[own.field];
    let groups = file.metadata.row_groups();
    let bounds = guarded(|| {
        let schema = file.metadata.file_metadata().schema_descr();
        let fields = arrow::datatypes::Schema::new(file.fields.clone());
        let bounds = StatisticsConverter::try_new(field.name(), &fields, schema)
            .and_then(|from| Ok((from.row_group_mins(groups)?, from.row_group_maxes(groups)?)));
        let instants = |array: &ArrayRef| own.cast.instants(array);
        Ok(bounds.map_or_else(
            |_| (Vec::new(), Vec::new()),
            |(min, max)| (instants(&min), instants(&max)),
        ))
    });
    let (min, max) = bounds.unwrap_or_default();
    let bounds = min.into_iter().zip(max).zip(groups);
    bounds
        .filter_map(|((min, max), group)| {
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            Some(GroupTimes { min: min?, max: max?, rows })
        })
        .collect()
}

/// The order of a batch among all: the rows of a row group may be split where one batch ends.
fn order_of(task: usize, batch: u64) -> u64 {
    2 * ((task as u64) << BATCH_BITS | batch.min((1 << BATCH_BITS) - 1))
}

/// The number of bits for the batch number within a row group.
const BATCH_BITS: u32 = 20;

/// A gate at which row groups wait until there is memory for their pages, or no other is decoded.
struct DecodeGate {
    bytes_max: u64,
    bytes: Mutex<u64>,
    changed: Condvar,
}

/// The turn of a row group that is decoded.
struct Turn<'a> {
    gate: &'a DecodeGate,
    bytes: u64,
}

impl DecodeGate {
    fn new(bytes_max: u64) -> DecodeGate {
        DecodeGate { bytes_max, bytes: Mutex::new(0), changed: Condvar::new() }
    }

    fn enter(&self, bytes: u64) -> Turn<'_> {
        let used = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut u64| 0 < *used && self.bytes_max < *used + bytes;
        let used = self.changed.wait_while(used, is_full);
        *used.unwrap_or_else(PoisonError::into_inner) += bytes;
        Turn { gate: self, bytes }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.gate.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.gate.changed.notify_all();
    }
}

/// A worker that decodes row groups.
struct Worker<'a> {
    job: &'a ParquetJob<'a>,
    converter: Converter,
    scatterer: Scatterer,
    parsed: ParsedBatch,
    interners: Reservation,
}

impl<'a> Worker<'a> {
    fn new(job: &'a ParquetJob<'a>, number: u32) -> Worker<'a> {
        let none = vec![None; job.layout.columns.len()];
        Worker {
            job,
            converter: Converter::new(job.layout, &none, &job.times.formats),
            scatterer: Scatterer::new(Arc::clone(job.buckets), number),
            parsed: ParsedBatch::new(job.layout),
            interners: job.buckets.budget.reserve_unchecked(0),
        }
    }

    fn run(mut self) -> Result<(Vec<Interner>, Reservation)> {
        let job = self.job;
        loop {
            let task = job.next.fetch_add(1, Relaxed);
            let Some(&(file, group)) = job.tasks.get(task) else { break };
            self.row_group(task, file, group)?;
        }
        self.scatterer.finish();
        Ok((self.converter.into_interners(), self.interners))
    }

    fn row_group(&mut self, task: usize, file: usize, group: usize) -> Result<()> {
        let job = self.job;
        let open = &job.files[file];
        let before = (0..group).map(|group| u64::try_from(open.rows_of(group)).unwrap_or(0));
        let mut first_row = before.fold(1, u64::saturating_add);
        let rows = u64::try_from(open.rows_of(group)).unwrap_or(0);
        job.error_handler.tallies.of(file).seen.fetch_add(rows, Relaxed); // tally-1
        let all: Vec<usize> = (0..open.columns.len()).collect();
        let flawed = |flaw| flawed(open, group, flaw);
        let bytes = open.memory_of(group, &all).bytes;
        let (max, memory) = (job.shares.spill_from(), job.shares.memory());
        if bytes > max {
            let (path, group) = (open.path.clone(), group + 1);
            return Err(Error::ParquetOverMemory { path, group, bytes, memory });
        }
        let _turn = job.gate.enter(bytes);
        let _reservation = job.buckets.budget.reserve_unchecked(bytes);
        self.account_and_spill()?;
        let mut reader = open.group(group, &all).map_err(flawed)?;
        let mut batches = 0;
        while let Some(batch) = reader.next().map_err(flawed)? {
            if job.cancel.load(Relaxed) || job.stop.load(Relaxed) {
                return Err(Error::Cancelled);
            }
            let rows = batch.rows;
            self.batch(batch, order_of(task, batches), file, first_row)?;
            batches += 1;
            first_row = first_row.saturating_add(rows as u64);
            job.progress.add_rows_read(rows as u64);
            self.account_and_spill()?;
        }
        Ok(())
    }

    fn batch(&mut self, batch: GroupBatch, order: u64, file: usize, first: u64) -> Result<()> {
        let job = self.job;
        let text_max = job.shares.buffer_text_max();
        let casts = job.files[file].columns.iter();
        let columns = batch.arrays.into_iter().zip(casts);
        let columns = columns.map(|(array, own)| Some((array?, &own.as_ref()?.cast))).collect();
        let prepared = PreparedBatch { rows: batch.rows, columns };
        let mut text_bytes = 0;
        for rows in prepared.stretches(text_max) {
            let bytes = prepared.text_bytes(&rows);
            if rows.len() == 1 {
                self.check_size(bytes, file, first + rows.start as u64)?;
            }
            self.parsed.clear();
            self.parsed.order = order;
            prepared.fill(rows.clone(), &mut self.converter, &mut self.parsed);
            let origin = prepared.origin(file, first + rows.start as u64, rows.start);
            self.check_ambiguous(file, &origin)?;
            job.error_handler.resolve(&mut self.converter.errors, &origin, &mut self.parsed)?;
            job.error_handler.tallies.of(file).add_batch(&self.parsed);
            self.scatterer.scatter(&self.parsed, &[]);
            text_bytes += bytes;
            if text_bytes > text_max {
                text_bytes = 0;
                self.account_and_spill()?;
            }
        }
        Ok(())
    }

    /// Checks that the texts of a row fit the memory.
    fn check_size(&self, bytes: usize, file: usize, row: u64) -> Result<()> {
        let max = self.job.shares.record_max();
        if bytes <= max.max(LARGE_RECORD_BYTES) {
            return Ok(());
        }
        let path = self.job.files[file].path.clone();
        let (place, memory) = (RejectPlace::Row(row), self.job.shares.memory());
        Err(Error::RecordOverMemory { path, place, max: max as u64, memory, is_open: false })
    }

    /// Fails at a date that is valid only month first, if all before it could be either: they may
    /// all have been misread.
    fn check_ambiguous(&self, file: usize, origin: &dyn RowOrigin) -> Result<()> {
        let job = self.job;
        let is_ambiguous = |error: &&ParseError| job.times.ambiguous[error.column as usize];
        for error in self.converter.errors.iter().filter(is_ambiguous) {
            let text = origin.text(error);
            if is_month_first(&text) {
                return Err(Error::AmbiguousTimes {
                    path: job.files[file].path.clone(),
                    place: origin.place(error.row).place,
                    column: job.layout.columns[error.column as usize].column.name.clone(),
                    text: shown(&text),
                });
            }
        }
        Ok(())
    }

    fn account_and_spill(&mut self) -> Result<()> {
        let interned = self.converter.memory_bytes();
        self.scatterer.account_and_spill(&self.job.spill_policy, &mut self.interners, interned)
    }
}

/// The error of a row group: that of the disk, or the flaw with its column.
#[cold]
fn flawed(file: &ParquetFile, group: usize, flaw: Flaw) -> Error {
    if let Some(error) = file.source.take_error() {
        return Error::Input(error);
    }
    let (column, flaw) = match file.flawed_column(group) {
        Some((column, flaw)) => (Some(column), flaw),
        None => (None, flaw),
    };
    Error::ParquetRows { path: file.path.clone(), group: group + 1, column, flaw }
}
