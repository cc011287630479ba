//! Snapshots: the state of a table that a query reads. A snapshot never changes, and keeps its
//! files.
//!
//! - snapshot-1. Rows are ordered by timestamp, then by commit, then by position in the commit.
//! - snapshot-2. Groups ascend: reading group after group, and merging the runs of a group by
//!   timestamp and, where that is equal, by their order in the group, gives snapshot-1.
//! - snapshot-3. Two runs are in one group if and only if a chain of runs connects them in which
//!   each overlaps the next. The last timestamp of a group may be the first of the next one, if all
//!   rows with this timestamp are then in the order of snapshot-1.
//! - snapshot-4. A file that is no longer in a manifest is removed when the last snapshot with it
//!   is dropped.
//! - snapshot-5. A statement that changes rows sees no half of a commit: neither the removal of a
//!   row without the new one, nor the new one beside the old.
//!
//! Not here: reading rows (`segment::Reader`).

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tidegate_model::{PartitionKey, RowCount, Schema, SegmentId, SeqTxn, TableId};

use crate::checksummed_file;
use crate::deletion_vector::{self, DeletionVector, DeletionVectorMeta};
use crate::error::{Corruption, Error, Result};
use crate::files::TableFile;
use crate::mem_segment::MemSegment;
use crate::segment::{self, MemSegmentBytes, Reader, ReaderSlot, SegmentMeta};
use crate::symbols::SymbolTables;

/// A table as of a commit.
#[derive(Debug)]
pub struct Snapshot {
    /// The table.
    pub table: TableId,
    /// The name at that time.
    pub name: String,
    /// The columns at that time.
    pub schema: Arc<Schema>,
    /// The last commit that is included.
    pub seq_txn: SeqTxn,
    /// The last one of these, since the database was opened, that changed or removed rows that were
    /// there before it: no append, flush or compaction.
    pub rows_changed_at: SeqTxn,
    /// The groups, ascending in time (snapshot-2); for a table without designated timestamp, one
    /// for each segment in the order of commits.
    pub groups: Vec<ScanGroup>,
    /// The dictionaries of its symbol columns, each of which has one.
    pub symbols: SymbolTables,
    /// See [`derived`](Snapshot::derived).
    pub derived: Derived,
}

/// A value that readers have derived from a snapshot.
#[derive(Debug, Default)]
pub struct Derived(OnceLock<Arc<dyn Any + Send + Sync>>);

/// An overlap group: runs that overlap in time; mostly one.
#[derive(Debug, Clone)]
pub struct ScanGroup {
    /// The partition of the runs.
    pub partition: PartitionKey,
    /// The runs, in the order in which rows with equal timestamps follow each other (snapshot-2).
    pub runs: Vec<Run>,
}

/// A sorted run: rows in time order.
#[derive(Debug, Clone)]
pub enum Run {
    /// A segment.
    Segment(Arc<SegmentRun>),
}

/// A segment in a snapshot: a file, or an in-memory segment.
#[derive(Debug)]
pub struct SegmentRun {
    /// The segment.
    pub meta: SegmentMeta,
    /// The deletion vector of the segment.
    pub deletion_vector: Option<Arc<DeletionVector>>,
    deletion_vector_meta: Option<DeletionVectorMeta>,
    file: Arc<SegmentFile>,
}

/// The bytes of a segment, shared by all snapshots that contain it.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    meta: SegmentMeta,
    source: Source,
    /// The reader; that of a file may be closed (`segment::open`).
    reader: Arc<ReaderSlot>,
    /// Set once the file was found.
    is_there: OnceLock<()>,
    /// Set once its header and footer were those that were committed.
    is_sound: OnceLock<()>,
}

/// The place of the bytes of a segment.
#[derive(Debug)]
enum Source {
    File(TableFile),
    MemSegment(MemSegmentSource),
}

/// An in-memory segment: the input of its reader, which is created on first use, so that a run that
/// no query reads takes little more memory than its bytes.
#[derive(Debug)]
struct MemSegmentSource {
    table: TableId,
    /// The name of the in-memory segment in messages.
    path: PathBuf,
    bytes: MemSegmentBytes,
}

/// The file of a deletion vector, shared by all snapshots that contain it.
#[derive(Debug)]
pub(crate) struct DeletionVectorFile {
    file: TableFile,
    segment: SegmentId,
    meta: DeletionVectorMeta,
    deletion_vector: OnceLock<Arc<DeletionVector>>,
}

impl Snapshot {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> RowCount {
        RowCount(self.segments().map(|run| run.rows().0).sum())
    }

    /// Bounds of the designated timestamp, from the descriptions of segments; `None` without rows
    /// or without such a column. Deleted rows may have been the outermost.
    #[must_use]
    pub fn min_max_ts(&self) -> Option<(i64, i64)> {
        self.schema.designated()?;
        let mut bounds = self.segments().map(|run| (run.meta.min_ts, run.meta.max_ts));
        let first = bounds.next()?;
        Some(bounds.fold(first, |(min, max), (low, high)| (min.min(low), max.max(high))))
    }

    /// Returns true if a commit that changed or removed rows may have left new ones in the
    /// memtable: without these, a changed row is missing (snapshot-5).
    #[must_use]
    pub fn splits_a_change(&self) -> bool {
        let in_memory = self.segments().filter(|run| run.is_in_memory());
        let first = in_memory.map(|run| run.meta.seq_first).min();
        // The new rows of a commit may have the number after that of the removed ones.
        first.is_some_and(|first| first <= self.rows_changed_at.next())
    }

    /// The same without the rows of the memtable: the commits up to the last flush.
    #[must_use]
    pub fn without_memtable(&self) -> Snapshot {
        let in_files = |group: &ScanGroup| {
            let runs = group.runs.iter().filter(|Run::Segment(run)| !run.is_in_memory());
            let runs: Vec<Run> = runs.cloned().collect();
            (!runs.is_empty()).then_some(ScanGroup { partition: group.partition, runs })
        };
        Snapshot {
            table: self.table,
            name: self.name.clone(),
            schema: Arc::clone(&self.schema),
            seq_txn: self.seq_txn,
            rows_changed_at: self.rows_changed_at,
            groups: self.groups.iter().filter_map(in_files).collect(),
            symbols: self.symbols.clone(),
            derived: Derived::default(),
        }
    }

    /// A value that is derived from the snapshot once for all its readers, and dropped with it.
    /// Only the first type is kept: a value of another type is made each time.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn derived<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        if let Some(known) = self.derived.0.get()
            && let Ok(known) = Arc::downcast(Arc::clone(known))
        {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        // Another reader may have stored the same value first.
        let _ = self.derived.0.set(Arc::clone(&made) as _);
        Ok(made)
    }

    /// All segments in the order of groups.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<SegmentRun>> {
        self.groups.iter().flat_map(|group| &group.runs).map(|Run::Segment(run)| run)
    }
}

impl SegmentRun {
    /// A segment without the rows that its deletion vector deletes.
    pub(crate) fn open(
        file: &Arc<SegmentFile>,
        deletion_vector: Option<&Arc<DeletionVectorFile>>,
    ) -> Result<SegmentRun> {
        let deletion_vector_meta = deletion_vector.map(|deletion_vector| *deletion_vector.meta());
        let deletion_vector =
            deletion_vector.map(|deletion_vector| deletion_vector.deletion_vector()).transpose()?;
        Ok(SegmentRun {
            meta: file.meta,
            deletion_vector,
            deletion_vector_meta,
            file: Arc::clone(file),
        })
    }

    /// An in-memory segment of the memtable, whose commits are set already.
    pub(crate) fn of_memtable(
        meta: SegmentMeta,
        file: &Arc<SegmentFile>,
        deletion_vector: Option<Arc<DeletionVector>>,
    ) -> SegmentRun {
        SegmentRun { meta, deletion_vector, deletion_vector_meta: None, file: Arc::clone(file) }
    }

    /// An in-memory segment of `table` as a run, for callers without a database.
    ///
    /// # Errors
    /// If its bytes do not match its description.
    pub fn of_mem_segment(table: TableId, mem_segment: &MemSegment) -> Result<SegmentRun> {
        let file = Arc::new(SegmentFile::replayed(table, mem_segment)?);
        Ok(SegmentRun::of_memtable(mem_segment.meta, &file, None))
    }

    /// The same run with only the rows that are live in this deletion vector.
    pub(crate) fn with_deletion_vector(&self, left: &DeletionVector) -> Arc<SegmentRun> {
        let deletion_vector = self
            .deletion_vector
            .as_ref()
            .map_or_else(|| left.clone(), |deletion_vector| deletion_vector.and(left));
        let (deletion_vector_meta, file) = (self.deletion_vector_meta, Arc::clone(&self.file));
        Arc::new(SegmentRun {
            meta: self.meta,
            deletion_vector: Some(Arc::new(deletion_vector)),
            deletion_vector_meta,
            file,
        })
    }

    /// The path of the file; for an in-memory segment, its name in messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns true for an in-memory segment: rows that are in the log and not yet in a file.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(self.file.source, Source::MemSegment(_))
    }

    pub(crate) fn deletion_vector_meta(&self) -> Option<DeletionVectorMeta> {
        self.deletion_vector_meta
    }

    /// Number of rows that are not deleted.
    #[must_use]
    pub fn rows(&self) -> RowCount {
        self.deletion_vector
            .as_ref()
            .map_or(self.meta.rows, |deletion_vector| deletion_vector.live())
    }

    /// Returns the reader of the segment; opens and maps the file if it is not open.
    ///
    /// # Errors
    /// If it is missing, has another length, or is not the segment that was committed.
    pub fn reader(&self) -> Result<Arc<Reader>> {
        self.file.reader()
    }
}

impl SegmentFile {
    pub(crate) fn new(file: TableFile, meta: SegmentMeta) -> SegmentFile {
        SegmentFile::of(Source::File(file), meta)
    }

    /// A segment that this process has written.
    pub(crate) fn written(file: TableFile, meta: SegmentMeta) -> SegmentFile {
        let segment = SegmentFile::new(file, meta);
        segment.is_sound.get_or_init(|| ());
        segment
    }

    fn of(source: Source, meta: SegmentMeta) -> SegmentFile {
        let (is_there, is_sound) = (OnceLock::new(), OnceLock::new());
        SegmentFile { meta, source, reader: Arc::default(), is_there, is_sound }
    }

    /// An in-memory segment of `table` that this process has encoded.
    pub(crate) fn in_memory(table: TableId, mem_segment: &MemSegment) -> SegmentFile {
        SegmentFile::of_mem_segment(
            table,
            mem_segment.meta,
            MemSegmentBytes::Heap(Arc::clone(&mem_segment.bytes)),
        )
    }

    /// An in-memory segment of `table` whose bytes are `bytes`.
    pub(crate) fn of_mem_segment(
        table: TableId,
        meta: SegmentMeta,
        bytes: MemSegmentBytes,
    ) -> SegmentFile {
        let path = segment::mem_segment_path(table, &meta);
        SegmentFile::of(Source::MemSegment(MemSegmentSource { table, path, bytes }), meta)
    }

    /// An in-memory segment of `table` that was read from a log.
    ///
    /// # Errors
    /// If its bytes do not match its description.
    pub(crate) fn replayed(table: TableId, mem_segment: &MemSegment) -> Result<SegmentFile> {
        let file = SegmentFile::in_memory(table, mem_segment);
        file.open()?;
        Ok(file)
    }

    /// The bytes of an in-memory segment.
    pub(crate) fn mem_segment(&self) -> Option<&MemSegmentBytes> {
        match &self.source {
            Source::File(_) => None,
            Source::MemSegment(mem_segment) => Some(&mem_segment.bytes),
        }
    }

    pub(crate) fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    /// Marks the file as removable: it is in no manifest any more (directory-3).
    pub(crate) fn discard(&self) {
        if let Source::File(file) = &self.source {
            file.discard();
        }
    }

    fn path(&self) -> &Path {
        match &self.source {
            Source::File(file) => file.path(),
            Source::MemSegment(mem_segment) => &mem_segment.path,
        }
    }

    /// Checks that the file exists with the committed length; a file that was found once is not
    /// checked again.
    pub(crate) fn check_there(&self) -> Result<()> {
        let Source::File(file) = &self.source else { return Ok(()) };
        if self.is_there.get().is_some() {
            return Ok(());
        }
        let length = file.directory().disk().length(file.path());
        let length = length.map_err(Error::disk("look for segment"))?;
        let length = length.ok_or_else(|| Error::missing(file.path()))?;
        segment::check_length(file.path(), length, &self.meta)?;
        self.is_there.get_or_init(|| ());
        Ok(())
    }

    /// Returns true if `check_ends` has nothing left to check.
    pub(crate) fn was_checked(&self) -> bool {
        self.is_there.get().is_some() && self.is_sound.get().is_some()
    }

    /// Checks header and footer of the file, with the errors of a query; once they were sound, only
    /// that it is there. The reader is closed again: a writer needs none, and those that stay open
    /// are for queries (open-1).
    pub(crate) fn check_ends(&self) -> Result<()> {
        match self.is_sound.get() {
            Some(()) => self.check_there(),
            None => self.open().map(drop),
        }
    }

    fn reader(&self) -> Result<Arc<Reader>> {
        match &self.source {
            Source::File(file) => file.directory().readers().reader(&self.reader, || self.open()),
            Source::MemSegment(_) => match self.reader.get() {
                Some(reader) => Ok(reader),
                None => Ok(self.reader.keep(self.open()?).0),
            },
        }
    }

    fn open(&self) -> Result<Reader> {
        let file = match &self.source {
            Source::File(file) => file,
            Source::MemSegment(MemSegmentSource { table, bytes, .. }) => {
                return Reader::of_mem_segment(bytes.clone(), *table, &self.meta);
            }
        };
        let opened = self.open_file(file);
        match &opened {
            Ok(_) => {
                self.is_there.get_or_init(|| ());
                self.is_sound.get_or_init(|| ());
            }
            Err(_) => file.directory().note_unreadable(),
        }
        opened
    }

    fn open_file(&self, file: &TableFile) -> Result<Reader> {
        let (directory, path) = (file.directory(), file.path());
        // The reader compares lengths, but does not distinguish a missing file.
        if !directory.disk().exists(path).map_err(Error::disk("open segment"))? {
            return Err(Error::missing(path));
        }
        Reader::open(directory.disk().as_ref(), path, directory.table(), &self.meta)
    }
}

impl DeletionVectorFile {
    pub(crate) fn new(
        file: TableFile,
        segment: SegmentId,
        meta: DeletionVectorMeta,
    ) -> DeletionVectorFile {
        DeletionVectorFile { file, segment, meta, deletion_vector: OnceLock::new() }
    }

    pub(crate) fn meta(&self) -> &DeletionVectorMeta {
        &self.meta
    }

    pub(crate) fn file(&self) -> &TableFile {
        &self.file
    }

    pub(crate) fn was_read(&self) -> bool {
        self.deletion_vector.get().is_some()
    }

    /// The live rows, read on first use.
    pub(crate) fn deletion_vector(&self) -> Result<Arc<DeletionVector>> {
        if let Some(deletion_vector) = self.deletion_vector.get() {
            return Ok(Arc::clone(deletion_vector));
        }
        let deletion_vector = Arc::new(self.read()?);
        Ok(Arc::clone(self.deletion_vector.get_or_init(|| deletion_vector)))
    }

    /// The live rows, read from the file now.
    pub(crate) fn read(&self) -> Result<DeletionVector> {
        let (directory, path) = (self.file.directory(), self.file.path());
        let bytes =
            checksummed_file::read(directory.disk().as_ref(), path, "read deletion vector")?;
        let bytes = bytes.ok_or_else(|| Error::missing(path))?;
        let deletion_vector = deletion_vector::decode(&bytes, directory.table(), self.segment);
        let deletion_vector = deletion_vector.map_err(Error::decode(path))?;
        let actual = crc32c::crc32c(&bytes);
        if actual != self.meta.crc || deletion_vector.live() != self.meta.live {
            let what = Corruption::Checksum { expected: self.meta.crc, actual };
            return Err(Error::Corrupt { path: path.to_path_buf(), offset: 0, what });
        }
        Ok(deletion_vector)
    }
}

/// The order of rows with equal timestamps (snapshot-1): segments of one commit and partition are
/// numbered in the order of their rows.
fn tie_order(meta: &SegmentMeta) -> (SeqTxn, SeqTxn, i64, i64, SegmentId) {
    (meta.seq_first, meta.seq_last, meta.min_ts, meta.max_ts, meta.id)
}

/// Computes the overlap groups of segments, as positions in `metas`.
///
/// `is_ordered` is true if the table has a designated timestamp; without one nothing overlaps.
#[must_use]
pub fn scan_groups(metas: &[SegmentMeta], is_ordered: bool) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..metas.len()).collect();
    if !is_ordered {
        order.sort_by_key(|&at| tie_order(&metas[at]));
        return order.into_iter().map(|at| vec![at]).collect();
    }
    // A timestamp followed by the tie order: compared so, no two segments share an instant, and
    // segments that only touch do not overlap if they are in the right order (snapshot-3).
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

/// The overlap groups of a table's segments, sorted once, to which memtables are added on each
/// commit.
#[derive(Debug)]
pub(crate) struct GroupedSegments {
    groups: Vec<ScanGroup>,
    /// The bounds of each group: both ascend (snapshot-2).
    bounds: Vec<(i64, i64)>,
    is_ordered: bool,
}

impl GroupedSegments {
    pub(crate) fn new(runs: Vec<SegmentRun>, is_ordered: bool) -> GroupedSegments {
        let groups = grouped(runs.into_iter().map(Arc::new).collect(), is_ordered);
        let bounds = groups.iter().map(ScanGroup::bounds).collect();
        GroupedSegments { groups, bounds, is_ordered }
    }

    /// All groups, with a memtable. Only groups that overlap the memtable are sorted anew.
    pub(crate) fn with_memtable(&self, memtable: Vec<SegmentRun>) -> Vec<ScanGroup> {
        let low = memtable.iter().map(|run| run.meta.min_ts).min();
        let high = memtable.iter().map(|run| run.meta.max_ts).max();
        let (Some(low), Some(high)) = (low, high) else { return self.groups.clone() };
        // Without order, all runs have the instant 0.
        let start = self.bounds.partition_point(|&(_, max)| max < low);
        let end = self.bounds.partition_point(|&(min, _)| min <= high).max(start);
        let met = self.groups[start..end].iter().flat_map(|group| &group.runs);
        let met = met.map(|Run::Segment(run)| Arc::clone(run));
        let runs = met.chain(memtable.into_iter().map(Arc::new)).collect();
        let mut groups = self.groups[..start].to_vec();
        groups.extend(grouped(runs, self.is_ordered));
        groups.extend_from_slice(&self.groups[end..]);
        groups
    }
}

impl ScanGroup {
    fn bounds(&self) -> (i64, i64) {
        let metas = self.runs.iter().map(|Run::Segment(run)| &run.meta);
        let bounds = metas.map(|meta| (meta.min_ts, meta.max_ts));
        bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).expect("a group has a run")
    }
}

pub(crate) fn grouped(runs: Vec<Arc<SegmentRun>>, is_ordered: bool) -> Vec<ScanGroup> {
    let metas: Vec<SegmentMeta> = runs.iter().map(|run| run.meta).collect();
    let groups = scan_groups(&metas, is_ordered).into_iter().map(|group| {
        let partition = metas[group[0]].partition;
        let runs = group.into_iter().map(|at| Run::Segment(Arc::clone(&runs[at]))).collect();
        ScanGroup { partition, runs }
    });
    groups.collect()
}

#[cfg(test)]
mod tests;
