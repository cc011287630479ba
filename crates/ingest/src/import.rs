//! An import from beginning to end: sample the input, read it once, build segments, commit.
//!
//! - All rows become visible in one commit, or none do: after an earlier failure the table is
//!   unchanged, and the transaction removes its files. The table also stays unchanged if the rows
//!   go to a receiver (`RowsTo::Receiver`).
//! - Rows do not depend on the number of workers, the memory, the kind of I/O: the order of
//!   equal timestamps is that of files and of records in them.
//! - Every record of the input is in the table, in the list of rejects, or a header; otherwise
//!   nothing is committed (tally-1).
//!
//! Not here: parsing (`read`, `convert`), buckets, building segments.

mod setup;
mod files;
mod text;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tidegate_model::time::IsoTimestamp;
use tidegate_model::{ByteCount, Schema, Timestamp, is_system_table, limits};
use tidegate_platform::{IoChoice, MemoryBudget, Reservation, SystemClock, detect_io};
use tidegate_storage::segment::intern::Interner;
use tidegate_storage::{Database, ImportTxn, WrittenSegment};

use crate::bucket::{Buckets, SpillFile};
use crate::context::{ImportContext, Parsed, PhaseClock, Remarks};
use crate::error::{Error, Result};
use crate::options::{ImportOptions, RowsTo, Source};
use crate::parquet_file;
use crate::progress::{Phase, Progress};
use crate::reject::{Reason, RejectLog};
use crate::segment_build::{self, BuildJob, TextHistory};
use crate::shares::Shares;
use crate::source;
use crate::split_buckets::{SplitBucketsJob, split_oversized};
use crate::timestamp::TimestampFormat;

/// The result of an import.
#[derive(Debug, Clone)]
pub struct ImportSummary {
    /// Records read.
    pub rows_read: u64,
    /// Rows committed.
    pub rows_imported: u64,
    /// Records left out.
    pub rows_rejected: u64,
    /// Headers, which are not rows.
    pub headers: u64,
    /// Bad cells that became NULL.
    pub cells_nulled: u64,
    /// Bytes of the input, as it is stored.
    pub bytes_read: u64,
    /// The number of segments written.
    pub segments: u64,
    /// The number of their partitions.
    pub partitions: u64,
    /// Bytes of those segments.
    pub bytes_written: u64,
    /// Bytes that were written to scratch files and read back, counted as they are read.
    pub spilled_bytes: u64,
    /// The kind of I/O that was used.
    pub io: IoChoice,
    /// The list of rejects, if there are any.
    pub rejects: Option<PathBuf>,
    /// The reasons of rejects, most frequent first: column, reason, count.
    pub reject_reasons: Vec<(Option<String>, Reason, u64)>,
    /// True if this import created the table.
    pub created_table: bool,
    /// True if the first record of the first text is a header.
    pub has_header: bool,
    /// The names in the header of the first text; none if it has no header.
    pub header_names: Vec<String>,
    /// The table's schema.
    pub schema: Arc<Schema>,
    /// Notes for the user on decisions that were made.
    pub notes: Vec<String>,
    /// The nanoseconds of each phase.
    pub phases: Vec<(Phase, u64)>,
}

/// Imports files into a table; creates it if it does not exist. Setting `cancel` ends the import
/// before its commit, and the table stays unchanged.
///
/// # Errors
/// After any error the table is unchanged.
pub fn import(
    database: &Arc<Database>,
    options: &ImportOptions,
    progress: &Arc<Progress>,
    cancel: &AtomicBool,
) -> Result<ImportSummary> {
    progress.enter(Phase::Setup);
    if is_system_table(&options.table) {
        return Err(Error::SystemTable { table: options.table.clone() });
    }
    let (options, fewer_workers) = &affordable(options)?;
    let mut phases = PhaseClock::new(&SystemClock);
    let io = detect_io(options.io).map_err(Error::disk("set up I/O"))?;
    let inputs = setup::open_inputs(&**database.disk(), options)?;
    let disk = Arc::clone(database.disk());
    let rejects = RejectLog::new(disk, &options.rejects, options.errors_max);
    rejects.check_folder()?;
    let shares = Shares::new(options.memory_max, options.workers);
    let context =
        ImportContext { database, options, progress, cancel, io, rejects: &rejects, shares };
    let parsed = match inputs {
        setup::Inputs::Text(inputs) => text::read(&context, inputs, &mut phases)?,
        setup::Inputs::Parquet(files) => parquet_file::read(&context, &files, &mut phases)?,
    };
    let mut summary = context.finish(parsed, phases)?;
    summary.notes.extend(fewer_workers.clone());
    summary.notes.extend(folders_left_out(&context.paths(), &summary.schema));
    if let Err(error) = rejects.remove_stale() {
        // The rows are committed: the import must not fail any more.
        summary
            .notes
            .push(format!("{} is of an earlier import: {error}", options.rejects.name().display()));
    }
    Ok(summary)
}

/// The note on directory names that hold the value of a column, as other programs write partitions.
fn folders_left_out(paths: &[PathBuf], schema: &Schema) -> Option<String> {
    let is_there =
        |name: &str| schema.columns().iter().any(|column| column.name.eq_ignore_ascii_case(name));
    let mut names = source::folder_names(paths);
    names.retain(|name| !is_there(name));
    let first = *names.first()?;
    let all = names.join("`, `");
    Some(format!(
        "folders are called `{first}=...`, but names of folders are no columns: `{all}` left out"
    ))
}

/// The options with as many workers as the memory allows, and a note if those are fewer.
fn affordable(options: &ImportOptions) -> Result<(ImportOptions, Option<String>)> {
    let mut options = options.clone();
    // `Detect` means the same as no format.
    options.timestamp_format.take_if(|format| *format == TimestampFormat::Detect);
    let memory = options.memory_max;
    let wanted = options.workers;
    let most = usize::try_from(memory.0 / MEMORY_MIN_PER_WORKER.0).unwrap_or(usize::MAX);
    let Some(most) = NonZeroUsize::new(most) else {
        return Err(Error::MemoryTooSmall { given: memory, min: MEMORY_MIN_PER_WORKER });
    };
    options.workers = wanted.min(most);
    let note = (most < wanted).then(|| {
        format!(
            "{most} of {wanted} threads have worked: each needs {MEMORY_MIN_PER_WORKER}, \
             and --memory is {memory}",
        )
    });
    Ok((options, note))
}

impl ImportContext<'_> {
    /// Builds segments of the buckets and commits.
    fn finish(&self, parsed: Parsed, mut phases: PhaseClock<'_>) -> Result<ImportSummary> {
        let Parsed { txn, buckets, spill, interners, reserved, cells_nulled, tallies, remarks } =
            parsed;
        tallies.check()?;
        let Remarks { created_table, header, notes } = remarks;
        let sample = self.progress.sample();
        let (rows_read, rows_rejected) = (sample.rows_read, sample.rows_rejected);
        let rejected = self.rejects.finish()?;
        if rows_read > 0 && rows_rejected == rows_read {
            let &(_, reason, _) = rejected.reasons.first().expect("something was rejected");
            let first = Box::new(rejected.first.expect("something was rejected"));
            let (count, list) = (rows_rejected, self.options.rejects.name());
            return Err(Error::AllRejected { count, reason, first, list });
        }
        self.progress.enter(Phase::Build);
        spill.flush()?;
        let schema = Arc::clone(txn.schema());
        let texts = InternedTexts {
            interners: &interners,
            bytes: reserved.iter().map(Reservation::bytes).sum(),
        };
        let written = self.build_segments(&txn, &buckets, &spill, &texts)?;
        drop(reserved);
        phases.end(Phase::Build);
        self.check_cancelled()?;
        self.progress.enter(Phase::Commit);
        let mut partitions: Vec<_> = written.iter().map(|w| w.meta.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let segments = written.len() as u64;
        let bytes_written = written.iter().map(|w| w.meta.bytes.0).sum();
        let rows_written = written.iter().map(|w| w.meta.rows.0).sum::<u64>();
        let mut notes = notes;
        notes.extend(self.implausible(&written, &schema));
        if rows_written != tallies.rows() || rows_written != rows_read - rows_rejected {
            return Err(Error::RowsLost { rows: tallies.rows(), written: rows_written });
        }
        self.end(txn, written)?;
        phases.end(Phase::Commit);
        self.progress.enter(Phase::Done);
        Ok(ImportSummary {
            rows_read,
            rows_imported: rows_written,
            rows_rejected,
            headers: tallies.headers(),
            cells_nulled,
            bytes_read: sample.bytes_read,
            segments,
            partitions: partitions.len() as u64,
            bytes_written,
            spilled_bytes: self.progress.sample().spilled_bytes,
            io: self.io,
            rejects: rejected.path,
            reject_reasons: rejected.reasons,
            created_table,
            has_header: header.is_some(),
            header_names: header.unwrap_or_default(),
            schema,
            notes,
            phases: phases.into_phases(),
        })
    }

    /// The note on integers that become times far away from today.
    fn implausible(&self, written: &[WrittenSegment], schema: &Schema) -> Option<String> {
        let format = self.options.timestamp_format.as_ref();
        let epoch = format.filter(|format| matches!(format, TimestampFormat::Epoch(_)))?;
        schema.designated()?;
        let unit = schema.time_unit();
        let least = written.iter().map(|segment| segment.meta.min_ts).min()?;
        let most = written.iter().map(|segment| segment.meta.max_ts).max()?;
        let years = PLAUSIBLE_YEARS.map(|year| year * (unit.per_day() * 365 + unit.per_day() / 4));
        let is_plausible = years[0] <= most && most < years[1];
        let shown = |instant| IsoTimestamp(Timestamp(instant), unit);
        (!is_plausible).then(|| {
            let (least, most) = (shown(least), shown(most));
            format!(
                "timestamps reach from {least} to {most}: \
                 --timestamp-format {epoch} may not be what they count"
            )
        })
    }

    fn end(&self, txn: ImportTxn, written: Vec<WrittenSegment>) -> Result<()> {
        match &self.options.rows_to {
            RowsTo::Table => txn.commit(written).map(|_| ())?,
            RowsTo::Receiver(receiver) => txn.read_back(&written, |columns| {
                self.check_cancelled()?;
                receiver.take(txn.schema(), columns).map_err(|source| Error::Refused { source })
            })?,
        }
        Ok(())
    }

    fn build_segments(
        &self,
        txn: &ImportTxn,
        buckets: &Buckets,
        spill: &SpillFile,
        texts: &InternedTexts<'_>,
    ) -> Result<Vec<WrittenSegment>> {
        let columns = buckets.layout.columns.len();
        let histories: Vec<_> = (0..columns).map(|_| TextHistory::default()).collect();
        let open_max = self.shares.open_max(texts.bytes);
        let split = split_oversized(&SplitBucketsJob {
            buckets,
            spill,
            spill_from: buckets.spill_from(self.shares.spill_from()),
            rows_max: match buckets.layout.timestamp {
                Some(_) => SPLIT_ROWS,
                None => u64::MAX,
            },
            bytes_max: open_max / 4,
            large: Mutex::new(()),
            large_from: self.shares.buffer_text_max(),
            partition_by: txn.schema().partition_by(),
            unit: txn.schema().time_unit(),
            progress: self.progress,
            cancel: self.cancel,
        })?;
        let sizes = split.iter().map(|bucket| bucket.cost(&buckets.layout)).collect();
        let queue: Vec<_> = split.into_iter().map(Mutex::new).collect();
        let job = BuildJob {
            txn,
            buckets,
            queue: &queue,
            sizes,
            spill,
            interners: texts.interners,
            histories: &histories,
            partition_by: txn.schema().partition_by(),
            unit: txn.schema().time_unit(),
            segment_rows_max: limits::SEGMENT_ROWS.as_len(),
            segment_bytes_max: open_max / 3,
            open: Arc::new(MemoryBudget::new(open_max)),
            read_back_max: self.shares.read_back_max(texts.bytes) + texts.bytes,
            shares: self.shares,
            io: self.io,
            is_large: self.is_large(),
            progress: self.progress,
            cancel: self.cancel,
        };
        segment_build::build_segments(&job, self.options.workers.get())
    }

    /// The paths of the files that have one.
    fn paths(&self) -> Vec<PathBuf> {
        match &self.options.source {
            Source::Files(paths) => paths.clone(),
            Source::Opened(files) => files.iter().map(|file| file.path().to_path_buf()).collect(),
            Source::Stdin | Source::Stream(_) => Vec::new(),
        }
    }
}

/// The minimum memory of a worker: chunks in flight, parsed batches, and column buffers of at least
/// 64 rows.
const MEMORY_MIN_PER_WORKER: ByteCount = ByteCount(32 << 20);
/// The maximum number of rows that a bucket may have before it is split: a column of it should stay
/// in cache while segments are built of it. Rows in the order of the input are gathered front to
/// back, and may be more.
const SPLIT_ROWS: u64 = 1 << 20;

/// The range of years after 1970 in which the latest timestamp is expected where integers count
/// time since then: seconds that are read as milliseconds are all in January 1970, and milliseconds
/// that are read as seconds some ten thousand years ahead.
const PLAUSIBLE_YEARS: [i64; 2] = [2, 230];

/// The interners of the workers and their size.
struct InternedTexts<'a> {
    interners: &'a [Vec<Interner>],
    bytes: u64,
}
