//! A snapshot: what a query reads of a table. It never changes, and keeps its files alive.
//!
//! - R1. Rows are ordered by timestamp, then by commit, then by position in the commit.
//! - R2. Groups ascend: reading group after group, and within a group merging runs by timestamp
//!   and, where that is equal, by their order in the group, gives R1.
//! - R3. Two runs are in one group if and only if a chain of runs connects them in which each
//!   overlaps the next. The last timestamp of a group may be the first of the next one, if all
//!   rows that have it stand in the right order so.
//! - R4. A file that no manifest names any more is removed when the last snapshot of it ends.
//!
//! Useful for: planning a scan. Not here: reading rows (`segment::Reader`).

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tidegate_model::{PartitionKey, RowCount, Schema, SegmentId, SeqTxn, TableId};

use crate::database::TableFile;
use crate::envelope;
use crate::error::{Corruption, Error, Result};
use crate::manifest::MaskMark;
use crate::mask::{self, RowMask};
use crate::segment::{Reader, SegmentMeta};
use crate::symbols::SymbolTables;

/// A table as of a commit.
#[derive(Debug)]
pub struct Snapshot {
    /// Which table.
    pub table: TableId,
    /// Its name then.
    pub name: String,
    /// Its columns then.
    pub schema: Arc<Schema>,
    /// The last commit that is in it.
    pub seq_txn: SeqTxn,
    /// Ascending in time (R2); for a table without designated timestamp, one a segment in the
    /// order of commits.
    pub groups: Vec<ScanGroup>,
    /// Of its symbol columns, each of which has one.
    pub symbols: SymbolTables,
}

/// Runs that overlap in time; mostly one.
#[derive(Debug, Clone)]
pub struct ScanGroup {
    /// Where they are.
    pub partition: PartitionKey,
    /// In the order in which equal timestamps stand (R2).
    pub runs: Vec<Run>,
}

/// Rows in time order.
#[derive(Debug, Clone)]
pub enum Run {
    /// A segment.
    Segment(Arc<SegmentRun>),
}

/// A segment as a snapshot sees it.
#[derive(Debug)]
pub struct SegmentRun {
    /// The segment.
    pub meta: SegmentMeta,
    /// Which of its rows are gone.
    pub mask: Option<Arc<RowMask>>,
    mask_mark: Option<MaskMark>,
    file: Arc<SegmentFile>,
}

/// The file of a segment of a table, shared by all snapshots that have it.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    file: TableFile,
    meta: SegmentMeta,
    reader: OnceLock<Reader>,
}

/// The file of a row mask, shared by all snapshots that have it.
#[derive(Debug)]
pub(crate) struct MaskFile {
    file: TableFile,
    segment: SegmentId,
    mark: MaskMark,
    mask: OnceLock<Arc<RowMask>>,
}

impl Snapshot {
    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> RowCount {
        RowCount(self.segments().map(|run| run.rows().0).sum())
    }

    /// Bounds of the designated timestamp, by what segments say; `None` without rows or without
    /// such a column. Rows that are masked may have been the outermost.
    #[must_use]
    pub fn min_max_ts(&self) -> Option<(i64, i64)> {
        self.schema.designated()?;
        let mut bounds = self.segments().map(|run| (run.meta.min_ts, run.meta.max_ts));
        let first = bounds.next()?;
        Some(bounds.fold(first, |(min, max), (low, high)| (min.min(low), max.max(high))))
    }

    /// All segments in the order of groups.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<SegmentRun>> {
        self.groups.iter().flat_map(|group| &group.runs).map(|Run::Segment(run)| run)
    }
}

impl SegmentRun {
    /// A segment without the rows that its mask says are gone.
    pub(crate) fn open(
        file: &Arc<SegmentFile>,
        mask: Option<&Arc<MaskFile>>,
    ) -> Result<SegmentRun> {
        let mask_mark = mask.map(|mask| *mask.mark());
        let mask = mask.map(|mask| mask.mask()).transpose()?;
        Ok(SegmentRun { meta: file.meta, mask, mask_mark, file: Arc::clone(file) })
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.file.path()
    }

    pub(crate) fn mask_mark(&self) -> Option<MaskMark> {
        self.mask_mark
    }

    /// How many of its rows are there.
    #[must_use]
    pub fn rows(&self) -> RowCount {
        self.mask.as_ref().map_or(self.meta.rows, |mask| mask.live())
    }

    /// The file, opened and mapped on first use.
    ///
    /// # Errors
    /// If it is missing, has another length, or is not the segment that was committed.
    pub fn reader(&self) -> Result<&Reader> {
        self.file.reader()
    }
}

impl SegmentFile {
    pub(crate) fn new(file: TableFile, meta: SegmentMeta) -> SegmentFile {
        SegmentFile { file, meta, reader: OnceLock::new() }
    }

    pub(crate) fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    pub(crate) fn file(&self) -> &TableFile {
        &self.file
    }

    fn reader(&self) -> Result<&Reader> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let (folder, path) = (self.file.folder(), self.file.path());
        // The reader compares lengths; only that there is no file at all it cannot know.
        if !folder.disk().exists(path).map_err(Error::disk("open segment"))? {
            return Err(Error::missing(path));
        }
        let reader = Reader::open(folder.disk().as_ref(), path, folder.table(), &self.meta)?;
        Ok(self.reader.get_or_init(|| reader))
    }
}

impl MaskFile {
    pub(crate) fn new(file: TableFile, segment: SegmentId, mark: MaskMark) -> MaskFile {
        MaskFile { file, segment, mark, mask: OnceLock::new() }
    }

    pub(crate) fn mark(&self) -> &MaskMark {
        &self.mark
    }

    pub(crate) fn file(&self) -> &TableFile {
        &self.file
    }

    /// The rows that are left, read when first asked for.
    pub(crate) fn mask(&self) -> Result<Arc<RowMask>> {
        if let Some(mask) = self.mask.get() {
            return Ok(Arc::clone(mask));
        }
        let mask = Arc::new(self.read()?);
        Ok(Arc::clone(self.mask.get_or_init(|| mask)))
    }

    /// The rows that are left, as the file says now.
    pub(crate) fn read(&self) -> Result<RowMask> {
        let (folder, path) = (self.file.folder(), self.file.path());
        let bytes = envelope::read(folder.disk().as_ref(), path, "read row mask")?;
        let bytes = bytes.ok_or_else(|| Error::missing(path))?;
        let mask = mask::decode(&bytes, folder.table(), self.segment);
        let mask = mask.map_err(Error::decode(path))?;
        let actual = crc32c::crc32c(&bytes);
        if actual != self.mark.crc || mask.live() != self.mark.live {
            let what = Corruption::Checksum { expected: self.mark.crc, actual };
            return Err(Error::Corrupt { path: path.to_path_buf(), offset: 0, what });
        }
        Ok(mask)
    }
}

/// What rows are ordered by where their timestamps are equal (R1): segments of one commit and
/// partition are numbered in the order of their rows.
fn tie_order(meta: &SegmentMeta) -> (SeqTxn, SeqTxn, i64, i64, SegmentId) {
    (meta.seq_first, meta.seq_last, meta.min_ts, meta.max_ts, meta.id)
}

/// Which segments make which scan group, by their positions in `metas`.
///
/// `is_ordered` says whether the table has a designated timestamp; without one nothing overlaps.
#[must_use]
pub fn scan_groups(metas: &[SegmentMeta], is_ordered: bool) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..metas.len()).collect();
    if !is_ordered {
        order.sort_by_key(|&at| tie_order(&metas[at]));
        return order.into_iter().map(|at| vec![at]).collect();
    }
    // A timestamp with the tie order behind it: compared so, no two segments share an instant, and
    // those that only touch do not overlap if they stand in the right order (R3).
    let first = |at: usize| (metas[at].min_ts, tie_order(&metas[at]));
    let last = |at: usize| (metas[at].max_ts, tie_order(&metas[at]));
    order.sort_by_key(|&at| first(at));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut reached = None;
    for at in order {
        match groups.last_mut() {
            Some(group) if reached > Some(first(at)) => group.push(at),
            _ => groups.push(vec![at]),
        }
        reached = reached.max(Some(last(at)));
    }
    for group in &mut groups {
        group.sort_by_key(|&at| tie_order(&metas[at]));
    }
    groups
}

#[cfg(test)]
mod tests;
