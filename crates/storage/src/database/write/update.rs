//! Changes of rows by a statement: any number of new and deleted rows, in one commit.
//!
//! - update-1. New rows are written as segments before the record, which also deletes the old rows:
//!   a reader sees both changes, or neither.
//! - update-2. Rows with equal timestamps are in the order in which they were added: segments that
//!   overlap in time are rewritten before they are committed.
//! - Memory holds one batch at a time, as rows and as an in-memory segment, and a deletion
//!   vector of one segment; for a table with keys of DEDUP, those of all segments that lose rows.
//! - update-3. Rows made for the columns of a snapshot are written even if columns that the
//!   statement does not need have changed: a dropped one is left out, an added one is NULL, a
//!   renamed one has its new name. So the table looks as if the statement had run before the change
//!   of its columns. If an added one has a default, the commit is refused instead.
//!
//! The underlying transaction is an import (write_import-1 to write_import-3). Not here: appends of
//! a few rows at a time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Column, PartitionKey, Schema, SeqTxn};

use super::import::{ImportTarget, ImportTxn};
use crate::batch::{BatchColumn, RowBatch};
use crate::database::Database;
use crate::database::commit::request::DdlBefore;
use crate::database::deletes::vectors::SnapshotDeletes;
use crate::error::{Error, Result};
use crate::mem_segment::{self, MemSegment};
use crate::segment::{SegmentMeta, WrittenSegment};
use crate::snapshot::{SegmentRun, Snapshot};

/// A transaction that writes rows into a table and deletes others.
#[derive(Debug)]
pub struct ChangeTxn {
    import: ImportTxn,
    /// The columns for which rows are made (update-3).
    made_for: Arc<Schema>,
    written: Vec<WrittenSegment>,
    /// The last timestamp of all batches so far.
    reached: Option<i64>,
    /// True if some batch began before it (update-2).
    overlaps: bool,
}

impl ChangeTxn {
    /// Starts a change of the rows of a table, or of a new table with rows.
    pub(crate) fn begin(database: &Arc<Database>, target: ImportTarget<'_>) -> Result<ChangeTxn> {
        let import = ImportTxn::begin(database, target)?;
        let made_for = Arc::clone(import.schema());
        Ok(ChangeTxn { import, made_for, written: Vec::new(), reached: None, overlaps: false })
    }

    /// Starts a change of the rows of a table that is based on a snapshot of it (update-3).
    pub(crate) fn begin_of(
        database: &Arc<Database>,
        snapshot: &Snapshot,
        needed: &[Column],
        before: Option<DdlBefore>,
    ) -> Result<ChangeTxn> {
        let import = ImportTxn::begin_as_of(database, snapshot, needed.to_vec(), before)?;
        let made_for = Arc::clone(&snapshot.schema);
        Ok(ChangeTxn { import, made_for, written: Vec::new(), reached: None, overlaps: false })
    }

    /// The columns for which rows are written.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.made_for
    }

    /// Adds rows after those added before.
    ///
    /// # Errors
    /// If the designated timestamp is missing or out of range, a symbol is too long, or the
    /// segments cannot be written.
    ///
    /// # Panics
    /// If a column is not one of [`schema`](Self::schema), or not of its type.
    pub fn add(&mut self, rows: &RowBatch) -> Result<()> {
        let mem_segments = self.encode(rows)?;
        let Some((first, last)) = mem_segments.first().zip(mem_segments.last()) else {
            return Ok(());
        };
        let (min_ts, max_ts) = (first.meta.min_ts, last.meta.max_ts);
        // A segment may begin with the last timestamp of its predecessor, whose rows come first.
        self.overlaps |= self.reached.is_some_and(|reached| min_ts < reached);
        self.reached = self.reached.max(Some(max_ts));
        for MemSegment { meta, bytes } in mem_segments {
            let file = self.import.make_segment(meta.id, meta.partition)?;
            file.write_all_at(&bytes, 0).map_err(Error::disk("write segment"))?;
            self.written.push(WrittenSegment { meta, file: Some(file) });
            self.import.database().segment_sync().settle_many(&mut self.written)?;
        }
        Ok(())
    }

    /// Adds the rows to the table and deletes others (update-1), and returns the number of the
    /// commit. Rows replace those with the same keys of DEDUP, and later ones of the same change
    /// replace earlier ones.
    ///
    /// # Errors
    /// As of [`ImportTxn::commit`], and [`Error::SegmentChanged`] if rows to delete have been
    /// rewritten or deleted since the snapshot, or [`Error::SchemaChanged`] if the keys have
    /// changed: then nothing has changed.
    ///
    /// # Panics
    /// If a segment of `deletes` is not one of its snapshot, occurs twice, or does not have such a
    /// row; or if the snapshot is of another table.
    pub fn commit(mut self, deletes: Option<SnapshotDeletes<'_>>) -> Result<SeqTxn> {
        if self.overlaps {
            self.rewrite()?;
        }
        let ChangeTxn { import, written, .. } = self;
        match deletes {
            Some(deletes) => import.commit_with(&written, deletes),
            None => import.commit(written),
        }
    }

    fn encode(&self, rows: &RowBatch) -> Result<Vec<MemSegment>> {
        let import = &self.import;
        let mut intern = |column, texts: &[&[u8]]| import.intern(column, texts);
        let mut new_id = || import.new_segment_id();
        let rows = self.fitting(rows);
        mem_segment::encode_rows(import.table(), import.schema(), &rows, &mut intern, &mut new_id)
    }

    /// The rows with the current columns of the table (update-3).
    fn fitting<'r>(&self, rows: &'r RowBatch) -> Cow<'r, RowBatch> {
        let (then, now) = (&self.made_for, self.import.schema());
        if then.version() == now.version() {
            return Cow::Borrowed(rows);
        }
        let columns = rows.columns().iter().filter_map(|column| {
            let id = then.find(&column.name).expect("rows are made for these columns").id;
            let name = now.column(id)?.name.clone();
            Some(BatchColumn { name, ..column.clone() })
        });
        Cow::Owned(RowBatch::new(rows.rows(), columns.collect()))
    }

    /// Merges the rows of all segments into one order (update-2), partition by partition.
    fn rewrite(&mut self) -> Result<()> {
        let mut partitions: BTreeMap<PartitionKey, Vec<SegmentMeta>> = BTreeMap::new();
        for WrittenSegment { meta, .. } in &self.written {
            partitions.entry(meta.partition).or_default().push(*meta);
        }
        let mut written = Vec::new();
        for metas in partitions.into_values() {
            let run = |meta| SegmentRun::open(&self.import.file_of(meta), None).map(Arc::new);
            let runs = metas.into_iter().map(run).collect::<Result<Vec<_>>>()?;
            written.extend(self.import.rewrite(&runs)?);
            self.import.database().segment_sync().settle_many(&mut written)?;
        }
        self.written = written;
        Ok(())
    }
}
