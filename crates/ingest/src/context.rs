//! The context of an import: what its steps share, and what the readers of text and of Parquet hand
//! on to the building of segments.
//!
//! Not here: the order of the steps (`import`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate_model::Schema;
use tidegate_platform::{Clock, Disk, IoChoice, MemoryBudget, Reservation, available_memory_bytes};
use tidegate_storage::segment::intern::Interner;
use tidegate_storage::{Database, ImportTarget, ImportTxn};

use crate::bucket::{BUCKETS_MAX, BucketOptions, BucketPlan, Buckets, SpillFile, SpillOptions};
use crate::error::{Error, Result};
use crate::layout::RowLayout;
use crate::options::{Existing, ImportOptions, Source};
use crate::progress::{Phase, Progress};
use crate::reject::RejectLog;
use crate::scatter::SpillPolicy;
use crate::shares::Shares;
use crate::tally::Tallies;
use crate::target_schema::TargetSchema;

/// The assumed bytes of text of a row, beside its fixed bytes; only for the size of column buffers.
const TEXT_GUESS_BYTES: u64 = 128;
const BUFFER_ROWS_MAX: usize = 2_048;

/// The context that all steps of an import share.
pub(crate) struct ImportContext<'a> {
    pub(crate) database: &'a Arc<Database>,
    pub(crate) options: &'a ImportOptions,
    pub(crate) progress: &'a Arc<Progress>,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) io: IoChoice,
    pub(crate) rejects: &'a RejectLog,
    pub(crate) shares: Shares,
}

/// All rows of an import, parsed and in buckets.
pub(crate) struct Parsed {
    pub(crate) txn: ImportTxn,
    pub(crate) buckets: Arc<Buckets>,
    pub(crate) spill: SpillFile,
    pub(crate) interners: Vec<Vec<Interner>>,
    /// The part of the budget that interners hold, until rows are in segments.
    pub(crate) reserved: Vec<Reservation>,
    pub(crate) cells_nulled: u64,
    pub(crate) tallies: Tallies,
    pub(crate) remarks: Remarks,
}

/// Remarks on an import besides its numbers.
pub(crate) struct Remarks {
    pub(crate) created_table: bool,
    /// The names in the header of the first text, if it has one.
    pub(crate) header: Option<Vec<String>>,
    pub(crate) notes: Vec<String>,
}

/// A clock that measures phases.
pub(crate) struct PhaseClock<'a> {
    clock: &'a dyn Clock,
    last: u64,
    phases: Vec<(Phase, u64)>,
}

impl<'a> PhaseClock<'a> {
    /// Begins the first phase.
    pub(crate) fn new(clock: &'a dyn Clock) -> PhaseClock<'a> {
        PhaseClock { clock, last: clock.monotonic_nanos(), phases: Vec::new() }
    }

    /// Ends the present phase.
    pub(crate) fn end(&mut self, phase: Phase) {
        let now = self.clock.monotonic_nanos();
        self.phases.push((phase, now - self.last));
        self.last = now;
    }

    /// The phases that have ended, with their nanoseconds.
    pub(crate) fn into_phases(self) -> Vec<(Phase, u64)> {
        self.phases
    }
}

/// The plan of a table's buckets, and the layout of its rows.
pub(crate) struct BucketSetup {
    pub(crate) plan: BucketPlan,
    pub(crate) layout: RowLayout,
}

impl ImportContext<'_> {
    /// The layout of the rows of a table in memory.
    pub(crate) fn layout(&self, schema: &Schema) -> RowLayout {
        let layout = RowLayout::new(schema);
        let interned_max = self.shares.interned_max(layout.text_columns());
        RowLayout { interned_max, ..layout }
    }

    /// The memory limits of the workers.
    pub(crate) fn spill_policy<'b>(&'b self, spill: &'b SpillFile) -> SpillPolicy<'b> {
        SpillPolicy { spill, spill_from: self.shares.spill_from(), progress: self.progress }
    }

    /// Begins the transaction: on the existing table, or on a new one of this schema.
    pub(crate) fn begin(&self, target: &TargetSchema) -> Result<ImportTxn> {
        let (name, schema) = (&self.options.table, &target.schema);
        // No table of the database has this name, and none is created: nothing is committed.
        let elsewhere = format!("pg_temp.{name}");
        let target = match (target.table, &self.options.existing) {
            (_, Existing::Elsewhere(schema)) => {
                ImportTarget::New { name: &elsewhere, schema: Schema::clone(schema) }
            }
            (Some(table), _) => ImportTarget::Known { name, table, columns: schema.columns() },
            (None, Existing::Replace) => ImportTarget::Replacing { name, schema: schema.clone() },
            (None, _) => ImportTarget::New { name, schema: schema.clone() },
        };
        Ok(self.database.begin_import(target)?)
    }

    /// Buckets, their budget and their spill file.
    pub(crate) fn buckets(
        &self,
        txn: &ImportTxn,
        setup: BucketSetup,
    ) -> Result<(Arc<Buckets>, SpillFile)> {
        let BucketSetup { plan, layout } = setup;
        let workers = self.options.workers.get();
        let open_buffers = self.shares.open_buffers();
        // Each worker fills a column buffer of each bucket at the same time. There are fewer
        // buckets if rows are wide, or if there are texts, whose pages are larger than most
        // columns.
        let least = layout.buffer_bytes_min() as u64;
        let count_max = (open_buffers / workers as u64 / least).max(1);
        let count_max = usize::try_from(count_max).unwrap_or(usize::MAX).min(BUCKETS_MAX);
        let plan = plan.thinned(count_max);
        let buffers = (workers * plan.count()) as u64;
        let buffer_bytes = open_buffers / buffers;
        let rows = buffer_bytes / (layout.row_bytes as u64 + TEXT_GUESS_BYTES);
        let rows = usize::try_from(rows).unwrap_or(usize::MAX).clamp(64, BUFFER_ROWS_MAX);
        let buffer_rows = 1 << rows.ilog2();
        let budget = Arc::new(MemoryBudget::new(self.shares.memory().0));
        let disk: &dyn Disk = &**self.database.disk();
        let spill = SpillOptions {
            io: self.io,
            is_large: self.is_large(),
            in_flight_max: self.shares.in_flight_max(),
        };
        let spill = SpillFile::create(disk, txn.scratch_dir(), &spill)?;
        let options = BucketOptions {
            buffer_rows,
            buffer_text_max: self.shares.buffer_text_max(),
            reused_bytes_max: self.shares.reused_bytes_max(),
            count_max,
            compressors_max: self.shares.compressors_max(),
        };
        Ok((Arc::new(Buckets::new(plan, layout, &options, budget)), spill))
    }

    pub(crate) fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Returns true if the input is larger than the memory free for the page cache; then the output
    /// bypasses the page cache, too.
    pub(crate) fn is_large(&self) -> bool {
        let bytes = self.progress.sample().bytes_total;
        bytes.is_some_and(|bytes| bytes > available_memory_bytes())
    }

    /// The name of the input in messages.
    pub(crate) fn source_name(&self) -> PathBuf {
        match &self.options.source {
            Source::Files(paths) => paths.first().cloned().unwrap_or_default(),
            Source::Opened(files) => {
                files.first().map_or_else(PathBuf::new, |file| file.path().to_path_buf())
            }
            Source::Stdin => PathBuf::from("standard input"),
            Source::Stream(stream) => stream.name().to_path_buf(),
        }
    }
}
