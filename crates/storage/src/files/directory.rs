//! The directory of a table: paths of its files, ids of new ones, its growing dictionaries.
//!
//! - directory-1. Ids of segments and deletion vectors are used once, also if an import fails.
//! - directory-2. The directory of a dropped table is removed when the last snapshot or import that
//!   uses it is dropped.
//! - directory-3. A file that is in no manifest any more is removed when the last snapshot with it
//!   is dropped.
//!
//! Not here: the set of the table's files (`manifest`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_model::{ColumnId, ColumnType, Schema, SegmentId, TableId};
use tidegate_platform::{Disk, MemoryBudget};

use super::writes::WriteCounters;
use super::{Paths, TablePaths};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::segment::OpenReaders;
use crate::symbols::{Dictionary, SymbolColumn, SymbolTables, SymbolTexts, SymbolWatermark};

/// The directory of a table.
#[derive(Debug)]
pub(crate) struct TableDirectory {
    disk: Arc<dyn Disk>,
    table: TableId,
    paths: TablePaths,
    readers: Arc<OpenReaders>,
    next_segment: AtomicU64,
    symbol_memory: Arc<MemoryBudget>,
    dictionaries: Mutex<BTreeMap<ColumnId, Arc<Dictionary>>>,
    /// Symbols that were read from the log, in order, and are not in a symbol file.
    replayed: Mutex<ReplayedSymbols>,
    is_dropped: AtomicBool,
    memtable_mutex: RewriteMutex,
    segments_mutex: RewriteMutex,
    /// Number of transactions that refer to rows by their places in segments.
    pins: AtomicUsize,
    writes: WriteCounters,
    failure: Mutex<Option<Failure>>,
    /// True after one of the segments could not be opened.
    has_unreadable: AtomicBool,
}

/// A failure to write the rows or the manifest of a table to its directory.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: Arc<Error>,
    pub(crate) step: FailedStep,
    /// The monotonic time of the failure.
    pub(crate) at_nanos: u64,
}

/// The failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedStep {
    /// The flush of its memtable.
    Flush,
    /// The write of its manifest.
    Manifest,
}

/// Symbols of records that were replayed, in order.
#[derive(Debug, Default)]
struct ReplayedSymbols {
    texts: Vec<SymbolTexts>,
    /// Keeps strings here after a dictionary has them: during the replay, the watermark with which
    /// a dictionary was opened may turn out to cover only a part of its file.
    is_kept: bool,
}

/// Consecutive strings are joined up to this size, which saves allocations.
const REPLAYED_TEXT_BYTES: usize = 1 << 20;

impl ReplayedSymbols {
    fn push(&mut self, texts: &SymbolTexts) {
        let last = self.texts.iter_mut().rev().find(|last| last.column == texts.column);
        match last.filter(|last| last.end() == texts.first) {
            Some(last) if last.texts.bytes.len() < REPLAYED_TEXT_BYTES => {
                (0..texts.texts.len()).for_each(|at| last.texts.push(texts.texts.get(at)));
            }
            _ => self.texts.push(texts.clone()),
        }
    }

    /// Drops strings that are in symbol files, or belong to dropped columns.
    fn drop_known(&mut self, manifest: &Manifest) {
        let known = |column| manifest.symbols.get(&column).map_or(0, |watermark| watermark.count);
        self.texts.retain(|texts| {
            manifest.schema.column(texts.column).is_some() && texts.end() > known(texts.column)
        });
    }
}

/// The kind of a table's runs to be rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RewriteScope {
    Memtable,
    Segments,
}

/// The choice to wait for a lock, or to give up if it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    Try,
    Wait,
}

/// A mutex whose lock can pass between threads and outlive a borrow.
#[derive(Debug, Default)]
struct RewriteMutex {
    is_locked: Mutex<bool>,
    unlocked: Condvar,
}

/// The exclusive right to rewrite runs of a table; dropping it releases the right.
#[derive(Debug)]
pub(crate) struct RewriteLock {
    directory: Arc<TableDirectory>,
    scope: RewriteScope,
}

/// A file of a table that is immutable and shared by snapshots.
#[derive(Debug)]
pub(crate) struct TableFile {
    directory: Arc<TableDirectory>,
    path: PathBuf,
    is_dropped: AtomicBool,
}

impl TableDirectory {
    /// The directory of a table whose next segment gets this id; it need not exist yet.
    pub(crate) fn new(
        disk: &Arc<dyn Disk>,
        paths: &Paths,
        table: TableId,
        next_segment: SegmentId,
    ) -> TableDirectory {
        TableDirectory {
            disk: Arc::clone(disk),
            table,
            paths: paths.table(table),
            readers: Arc::clone(&paths.readers),
            next_segment: AtomicU64::new(next_segment.0),
            symbol_memory: Arc::clone(&paths.symbol_memory),
            dictionaries: Mutex::new(BTreeMap::new()),
            replayed: Mutex::default(),
            is_dropped: AtomicBool::new(false),
            memtable_mutex: RewriteMutex::default(),
            segments_mutex: RewriteMutex::default(),
            pins: AtomicUsize::new(0),
            writes: WriteCounters::default(),
            failure: Mutex::default(),
            has_unreadable: AtomicBool::new(false),
        }
    }

    /// The open segments of the database.
    pub(crate) fn readers(&self) -> &OpenReaders {
        &self.readers
    }

    /// Returns true if one of the segments could not be opened since the database was; it may have
    /// been restored.
    pub(crate) fn has_unreadable(&self) -> bool {
        self.has_unreadable.load(Ordering::Acquire)
    }

    pub(crate) fn note_unreadable(&self) {
        self.has_unreadable.store(true, Ordering::Release);
    }

    /// The last step that has failed, and has not succeeded since.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.lock_failure().clone()
    }

    pub(crate) fn note_failure(&self, failure: Failure) {
        *self.lock_failure() = Some(failure);
    }

    /// Records the success of a step.
    pub(crate) fn note_done(&self, step: FailedStep) {
        self.lock_failure().take_if(|failure| failure.step == step);
    }

    fn lock_failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to keep symbols that are read from the log, until `end_replay`.
    pub(crate) fn begin_replay(&self) {
        self.lock_replayed().is_kept = true;
    }

    /// Adds strings of a replayed record.
    pub(crate) fn replay_symbols(&self, texts: &SymbolTexts) {
        self.lock_replayed().push(texts);
        let mut open = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dictionary) = open.get(&texts.column)
            && dictionary.replay(texts).is_err()
        {
            // The next reader to open it gets the error, and reports it.
            open.remove(&texts.column);
        }
    }

    /// Handles a replayed record that has changed symbol watermarks or columns: dictionaries are
    /// opened anew when they are needed, without the strings that the files have.
    pub(crate) fn replay_marks(&self, manifest: &Manifest) {
        self.close_dictionaries();
        self.lock_replayed().drop_known(manifest);
    }

    /// Handles a replayed record that has truncated the table: no earlier record is needed, and the
    /// next writer may have reused the ids.
    pub(crate) fn forget_replayed_symbols(&self) {
        self.close_dictionaries();
        self.lock_replayed().texts.clear();
    }

    /// Ends a replay, and returns, for each column with replayed strings, the number of its values
    /// including these. Without rows in the log nothing needs the replayed strings, and the next
    /// writer may reuse their ids.
    pub(crate) fn end_replay(
        &self,
        manifest: &Manifest,
        has_rows: bool,
    ) -> BTreeMap<ColumnId, u32> {
        if !has_rows {
            self.forget_replayed_symbols();
        }
        let open = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut replayed = self.lock_replayed();
        replayed.drop_known(manifest);
        let ends = replayed.texts.iter().map(|texts| (texts.column, texts.end())).collect();
        replayed.texts.retain(|texts| !open.contains_key(&texts.column));
        replayed.is_kept = false;
        ends
    }

    fn close_dictionaries(&self) {
        self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn lock_replayed(&self) -> MutexGuard<'_, ReplayedSymbols> {
        self.replayed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks runs for rewriting. Code that locks both kinds locks those of the memtable first.
    pub(crate) fn lock_runs(
        self: &Arc<Self>,
        scope: RewriteScope,
        wait_mode: WaitMode,
    ) -> Option<RewriteLock> {
        let RewriteMutex { is_locked, unlocked } = self.mutex(scope);
        let mut is_locked = is_locked.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_locked {
            if wait_mode == WaitMode::Try {
                return None;
            }
            is_locked = unlocked.wait(is_locked).unwrap_or_else(PoisonError::into_inner);
        }
        *is_locked = true;
        Some(RewriteLock { directory: Arc::clone(self), scope })
    }

    /// Keeps maintenance from rewriting segments, until `unpin`.
    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "it was pinned");
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Acquire) > 0
    }

    fn mutex(&self, scope: RewriteScope) -> &RewriteMutex {
        match scope {
            RewriteScope::Memtable => &self.memtable_mutex,
            RewriteScope::Segments => &self.segments_mutex,
        }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(crate) fn table(&self) -> TableId {
        self.table
    }

    pub(crate) fn paths(&self) -> &TablePaths {
        &self.paths
    }

    pub(crate) fn writes(&self) -> &WriteCounters {
        &self.writes
    }

    /// Uses no id below this one from now on.
    pub(crate) fn raise_next_segment(&self, next: SegmentId) {
        self.next_segment.fetch_max(next.0, Ordering::Relaxed);
    }

    /// An id that no segment and no deletion vector of the table has (directory-1).
    pub(crate) fn new_segment_id(&self) -> SegmentId {
        SegmentId(self.next_segment.fetch_add(1, Ordering::Relaxed))
    }

    /// The growing dictionary of a column, read from disk up to `watermark` on first use.
    pub(crate) fn dictionary(
        &self,
        column: ColumnId,
        watermark: SymbolWatermark,
    ) -> Result<Arc<Dictionary>> {
        let mut open = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dictionary) = open.get(&column) {
            return Ok(Arc::clone(dictionary));
        }
        let (disk, dir) = (&self.disk, self.paths.symbols());
        let of = SymbolColumn { table: self.table, column };
        let dictionary = Dictionary::open(disk, &dir, of, watermark, &self.symbol_memory)?;
        let mut replayed = self.lock_replayed();
        let of_column = replayed.texts.iter().filter(|texts| texts.column == column);
        of_column.into_iter().try_for_each(|texts| dictionary.replay(texts))?;
        if !replayed.is_kept {
            replayed.texts.retain(|texts| texts.column != column);
        }
        drop(replayed);
        let dictionary = Arc::new(dictionary);
        open.insert(column, Arc::clone(&dictionary));
        Ok(dictionary)
    }

    /// The growing dictionaries of all symbol columns.
    pub(crate) fn open_dictionaries(
        &self,
        schema: &Schema,
        watermarks: &BTreeMap<ColumnId, SymbolWatermark>,
    ) -> Result<BTreeMap<ColumnId, Arc<Dictionary>>> {
        let columns = schema.columns().iter();
        let columns = columns.filter(|column| column.ty == ColumnType::Symbol);
        let opened = columns.map(|column| {
            let watermark = watermarks.get(&column.id).copied().unwrap_or_default();
            Ok((column.id, self.dictionary(column.id, watermark)?))
        });
        opened.collect()
    }

    /// The dictionaries of all symbol columns, with all values interned so far.
    pub(crate) fn symbols(
        &self,
        schema: &Schema,
        watermarks: &BTreeMap<ColumnId, SymbolWatermark>,
    ) -> Result<SymbolTables> {
        let opened = self.open_dictionaries(schema, watermarks)?.into_iter();
        Ok(opened.map(|(column, dictionary)| (column, dictionary.table())).collect())
    }

    /// Removes the symbols of a dropped column. Dictionaries in memory stay.
    pub(crate) fn discard_symbols(&self, column: ColumnId) {
        let mut open = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        match open.remove(&column) {
            Some(dictionary) => dictionary.drop_file(),
            // If this fails, the next open removes it.
            None => drop(self.disk.remove(&self.paths.symbol_file(column))),
        }
    }

    /// Marks the directory of a dropped table for removal (directory-2).
    pub(crate) fn drop_directory(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }
}

impl TableFile {
    pub(crate) fn new(directory: &Arc<TableDirectory>, path: PathBuf) -> TableFile {
        TableFile { directory: Arc::clone(directory), path, is_dropped: AtomicBool::new(false) }
    }

    pub(crate) fn directory(&self) -> &TableDirectory {
        &self.directory
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the file for removal: it is in no manifest any more (directory-3).
    pub(crate) fn discard(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }
}

impl Drop for RewriteLock {
    fn drop(&mut self) {
        let RewriteMutex { is_locked, unlocked } = self.directory.mutex(self.scope);
        *is_locked.lock().unwrap_or_else(PoisonError::into_inner) = false;
        unlocked.notify_all();
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.is_dropped.load(Ordering::Acquire) {
            // If this fails, the next open removes it.
            let _ = self.directory.disk.remove(&self.path);
        }
    }
}

impl Drop for TableDirectory {
    fn drop(&mut self) {
        if self.is_dropped.load(Ordering::Acquire) {
            // If this fails, the next open removes it.
            let _ = self.disk.remove_dir_all(&self.paths.root);
        }
    }
}
