//! The state of a table in memory: its manifest, the files it names, and its snapshot for queries.
//!
//! - A table changes only through `changed`, which applies the change to the manifest.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_model::{ColumnId, ColumnType, Schema, SegmentId, SeqTxn, TableId};

use super::memtable::{Memtable, MemtableRun, Origin};
use super::parallel;
use crate::change::TableChange;
use crate::error::{Corruption, Error, Result};
use crate::files::{TableDirectory, TableFile};
use crate::manifest::{Manifest, Obsolete, SegmentEntry};
use crate::snapshot::{
    DeletionVectorFile, Derived, GroupedSegments, SegmentFile, SegmentRun, Snapshot,
};
use crate::symbols::{self, SymbolColumn, SymbolTable, SymbolTables, SymbolWatermark};

/// A table as of a commit. It never changes; a commit creates a new one.
#[derive(Debug)]
pub(crate) struct TableState {
    pub(crate) directory: Arc<TableDirectory>,
    pub(crate) name: String,
    pub(crate) manifest: Manifest,
    /// The rows that are not yet in the manifest (manifest-5).
    pub(crate) memtable: Memtable,
    /// The number of values of each symbol column that a replay would find: in the symbol file, and
    /// then in the records of the memtable's rows. So only whole commits leave a memtable, the
    /// oldest first, and symbols are saved with them.
    pub(crate) logged: LoggedSymbols,
    /// The commit that truncated the table last, if one has since the database was opened.
    pub(crate) truncated_at: SeqTxn,
    /// The last commit since the database was opened that changed or removed rows that were there
    /// before it (transaction-5).
    pub(crate) rows_changed_at: SeqTxn,
    segments: Arc<Segments>,
    snapshot: OnceLock<Arc<Snapshot>>,
    damage: Option<Damage>,
}

/// The reason why a table is suspended. Only the id and the name of such a table are known.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    pub(crate) error: Arc<Error>,
    /// True if the log has records of it, which cannot be applied before its files are repaired.
    pub(crate) has_records: bool,
}

/// Numbers of values of symbol columns that a replay would find.
pub(crate) type LoggedSymbols = Arc<BTreeMap<ColumnId, u32>>;

/// The segments of a manifest, shared by all commits that change none of them.
#[derive(Debug)]
struct Segments {
    /// One for each segment, in the same order.
    files: Vec<SegmentFiles>,
    grouped: OnceLock<GroupedSegments>,
    /// Set once all files were found, with their lengths.
    are_there: OnceLock<()>,
    /// Set once the ends of all segments, deletion vectors and symbols were read successfully.
    is_readable: OnceLock<()>,
    /// Locked by the thread that reads them.
    checking: Mutex<()>,
}

/// The files of a segment.
#[derive(Debug, Clone)]
struct SegmentFiles {
    segment: Arc<SegmentFile>,
    deletion_vector: Option<Arc<DeletionVectorFile>>,
}

/// The in-memory segments of an append.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRows<'a> {
    pub(crate) files: &'a [Arc<SegmentFile>],
    pub(crate) origin: Origin,
}

impl TableState {
    /// A table from its manifest.
    pub(crate) fn new(
        directory: Arc<TableDirectory>,
        name: String,
        manifest: Manifest,
    ) -> TableState {
        TableState::recovered(directory, name, manifest, Memtable::default(), &BTreeMap::new())
    }

    /// A table from its manifest and the log; the log has values of symbol columns up to
    /// `replayed`.
    pub(crate) fn recovered(
        directory: Arc<TableDirectory>,
        name: String,
        manifest: Manifest,
        memtable: Memtable,
        replayed: &BTreeMap<ColumnId, u32>,
    ) -> TableState {
        assert_eq!(directory.table(), manifest.table, "a table's directory");
        let segments = Segments::new(files_of(&directory, &manifest, None));
        let watermarks =
            manifest.symbols.iter().map(|(&column, watermark)| (column, watermark.count));
        let mut logged: BTreeMap<ColumnId, u32> = watermarks.collect();
        replayed.iter().for_each(|(&column, &end)| raise(&mut logged, column, end));
        let logged = Arc::new(logged);
        TableState {
            directory,
            name,
            manifest,
            memtable,
            logged,
            truncated_at: SeqTxn(0),
            rows_changed_at: SeqTxn(0),
            segments,
            snapshot: OnceLock::new(),
            damage: None,
        }
    }

    /// A table whose files cannot be read.
    pub(crate) fn suspended(
        directory: Arc<TableDirectory>,
        name: String,
        damage: Damage,
    ) -> TableState {
        let schema = Arc::new(Schema::unknown());
        let manifest = Manifest::new(directory.table(), SeqTxn(0), schema);
        TableState { damage: Some(damage), ..TableState::new(directory, name, manifest) }
    }

    /// The reason why it is suspended, if it is.
    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Checks that it is not suspended.
    pub(crate) fn check_known(&self) -> Result<()> {
        match &self.damage {
            None => Ok(()),
            Some(Damage { error, .. }) => {
                let (table, source) = (self.name.clone(), Arc::clone(error));
                Err(Error::Suspended { table, source })
            }
        }
    }

    /// Returns true for a view, as far as is known.
    pub(crate) fn is_view(&self) -> bool {
        self.manifest.schema.view().is_some()
    }

    /// Checks that it is neither suspended nor a view, so that it can have rows.
    pub(crate) fn check_takes_rows(&self) -> Result<()> {
        self.check_known()?;
        match self.is_view() {
            true => Err(Error::IsView { view: self.name.clone() }),
            false => Ok(()),
        }
    }

    /// The error for creating another relation of its name.
    pub(crate) fn exists(&self, name: &str) -> Error {
        match self.is_view() {
            true => Error::ViewExists { view: name.to_owned() },
            false => Error::TableExists { table: name.to_owned() },
        }
    }

    pub(crate) fn id(&self) -> TableId {
        self.manifest.table
    }

    /// This table after a commit; an append is given with its rows. The caller sets
    /// `rows_changed_at`, since a change does not tell a compaction from a deletion.
    pub(crate) fn changed(
        &self,
        seq_txn: SeqTxn,
        change: &TableChange,
        rows: Option<NewRows<'_>>,
    ) -> Result<TableState, Corruption> {
        let mut manifest = self.manifest.clone();
        manifest.apply(seq_txn, change)?;
        let mut memtable = self.memtable.clone();
        change_memtable(&mut memtable, change, rows);
        let segments = if Arc::ptr_eq(&manifest.segments, &self.manifest.segments) {
            Arc::clone(&self.segments)
        } else {
            Segments::new(files_of(&self.directory, &manifest, Some(&self.segments.files)))
        };
        let name = match change {
            TableChange::Rename { name } => name.clone(),
            _ => self.name.clone(),
        };
        let truncated_at = match change {
            TableChange::Truncate => seq_txn,
            _ => self.truncated_at,
        };
        let (directory, logged) = (Arc::clone(&self.directory), self.logged_after(change));
        Ok(TableState {
            directory,
            name,
            manifest,
            memtable,
            logged,
            truncated_at,
            rows_changed_at: self.rows_changed_at,
            segments,
            snapshot: OnceLock::new(),
            damage: self.damage.clone(),
        })
    }

    /// This table with other memtable runs that hold the same rows.
    pub(crate) fn with_memtable(&self, memtable: Memtable) -> TableState {
        TableState {
            directory: Arc::clone(&self.directory),
            name: self.name.clone(),
            manifest: self.manifest.clone(),
            memtable,
            logged: Arc::clone(&self.logged),
            truncated_at: self.truncated_at,
            rows_changed_at: self.rows_changed_at,
            segments: Arc::clone(&self.segments),
            snapshot: OnceLock::new(),
            damage: self.damage.clone(),
        }
    }

    fn logged_after(&self, change: &TableChange) -> LoggedSymbols {
        let mut logged = Arc::clone(&self.logged);
        match change {
            TableChange::Append { symbols, .. } => {
                for texts in symbols {
                    raise(Arc::make_mut(&mut logged), texts.column, texts.end());
                }
            }
            TableChange::AddSegments { symbols, .. } | TableChange::Replace { symbols, .. } => {
                for (column, watermark) in symbols {
                    raise(Arc::make_mut(&mut logged), *column, watermark.count);
                }
            }
            // Replay may begin after the records that had them, so they are written again.
            TableChange::Truncate => {
                let watermarks = self.manifest.symbols.iter();
                logged = Arc::new(
                    watermarks.map(|(&column, watermark)| (column, watermark.count)).collect(),
                );
            }
            TableChange::Create { .. }
            | TableChange::Drop
            | TableChange::Rename { .. }
            | TableChange::Alter { .. }
            | TableChange::DeletionVector { .. }
            | TableChange::GivenUp => {}
        }
        logged
    }

    /// The snapshot for queries, created on first use.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(Arc::clone(snapshot));
        }
        self.check_known()?;
        let symbols = self.directory.symbols(&self.manifest.schema, &self.manifest.symbols)?;
        let snapshot = Arc::new(self.snapshot_of(self.grouped()?, symbols));
        Ok(Arc::clone(self.snapshot.get_or_init(|| snapshot)))
    }

    /// Checks that queries can read the table, before its rows are changed: header and footer of
    /// each segment, deletion vectors and symbols. This is done once, by one thread for all that
    /// wait, and again for segments that are added; a failed check is repeated by the next call,
    /// since the files may have been restored. It reads from the disk: no caller holds a lock that
    /// others need.
    pub(crate) fn check_readable(&self, threads: NonZeroUsize) -> Result<()> {
        self.check_known()?;
        let Segments { files, is_readable, checking, .. } = &*self.segments;
        if is_readable.get().is_some() {
            return Ok(());
        }
        let _checking = checking.lock().unwrap_or_else(PoisonError::into_inner);
        if is_readable.get().is_some() {
            return Ok(());
        }
        let unread: Vec<&SegmentFiles> = files.iter().filter(|files| !files.were_read()).collect();
        let check = |at: usize| -> Result<()> {
            let SegmentFiles { segment, deletion_vector } = unread[at];
            segment.check_ends()?;
            deletion_vector.iter().try_for_each(|vector| vector.deletion_vector().map(drop))
        };
        let Manifest { schema, symbols, .. } = &self.manifest;
        parallel::several_at_a_time(threads, unread.len(), &check)
            .and_then(|()| self.directory.open_dictionaries(schema, symbols).map(drop))
            .map_err(|error| self.unreadable(error))?;
        is_readable.get_or_init(|| ());
        Ok(())
    }

    /// Checks a table, whose deletion vectors and symbols were read, for the system catalog, which
    /// lists thousands: its segments exist with their lengths. If reading one of them has failed,
    /// this is `check_readable`.
    pub(crate) fn check_listed(&self, threads: NonZeroUsize) -> Result<()> {
        if self.directory.has_unreadable() {
            return self.check_readable(threads);
        }
        let Segments { files, are_there, .. } = &*self.segments;
        if are_there.get().is_none() {
            let mut segments = files.iter().map(|files| &files.segment);
            segments
                .try_for_each(|segment| segment.check_there())
                .map_err(|error| self.unreadable(error))?;
            are_there.get_or_init(|| ());
        }
        Ok(())
    }

    fn unreadable(&self, error: Error) -> Error {
        Error::Unreadable { table: self.name.clone(), source: Box::new(error) }
    }

    /// The table as its manifest describes it, without deletion vectors and symbols: for the system
    /// catalog, if these cannot be read.
    pub(crate) fn described(&self) -> Snapshot {
        let open = |files: &SegmentFiles| {
            SegmentRun::open(&files.segment, None)
                .expect("without a deletion vector nothing is read")
        };
        let runs = self.segments.files.iter().map(open).collect();
        let grouped = GroupedSegments::new(runs, self.is_ordered());
        self.snapshot_of(&grouped, SymbolTables::default())
    }

    fn grouped(&self) -> Result<&GroupedSegments> {
        if let Some(grouped) = self.segments.grouped.get() {
            return Ok(grouped);
        }
        let run =
            |files: &SegmentFiles| SegmentRun::open(&files.segment, files.deletion_vector.as_ref());
        let runs = self.segments.files.iter().map(run).collect::<Result<_>>()?;
        let grouped = GroupedSegments::new(runs, self.is_ordered());
        Ok(self.segments.grouped.get_or_init(|| grouped))
    }

    fn is_ordered(&self) -> bool {
        self.manifest.schema.designated().is_some()
    }

    fn snapshot_of(&self, grouped: &GroupedSegments, symbols: SymbolTables) -> Snapshot {
        let memtable = self.memtable.runs().iter().map(|run| run.run()).collect();
        Snapshot {
            table: self.id(),
            name: self.name.clone(),
            schema: Arc::clone(&self.manifest.schema),
            seq_txn: self.manifest.seq_txn,
            rows_changed_at: self.rows_changed_at,
            groups: grouped.with_memtable(memtable),
            symbols,
            derived: Derived::default(),
        }
    }

    /// Handles a change that is durable; this is the table before it. Its obsolete files are
    /// removed when the last snapshot is dropped, or else by the next open.
    pub(crate) fn discard(&self, obsolete: &Obsolete) {
        let files = |id| self.files_of(id).expect("it is a segment of this table");
        match obsolete {
            Obsolete::Segment(meta) => files(meta.id).segment.discard(),
            Obsolete::DeletionVector(meta, _) => {
                files(meta.id).deletion_vector.as_ref().expect("it has one").file().discard();
            }
            Obsolete::Symbols(column) => self.directory.discard_symbols(*column),
        }
    }

    /// Handles the durable drop of the table.
    pub(crate) fn discard_all(&self) {
        for SegmentFiles { segment, deletion_vector } in &self.segments.files {
            segment.discard();
            if let Some(deletion_vector) = deletion_vector {
                deletion_vector.file().discard();
            }
        }
        self.directory.drop_directory();
    }

    /// The readable parts of the table, for verification, and the errors of the others: deletion
    /// vectors and symbols are read anew, a segment whose deletion vector is damaged has all its
    /// rows, and a column whose symbols are damaged has none.
    pub(crate) fn readable(&self) -> (Snapshot, Vec<Error>) {
        let mut problems = Vec::new();
        let mut symbols = Vec::new();
        for column in self.manifest.schema.columns() {
            if column.ty == ColumnType::Symbol {
                match self.read_symbols(column.id) {
                    Ok(table) => symbols.push((column.id, Arc::new(table))),
                    Err(error) => problems.push(error),
                }
            }
        }
        let files = &self.segments.files;
        let deletion_vectors = files.iter().filter_map(|files| files.deletion_vector.as_ref());
        problems
            .extend(deletion_vectors.filter_map(|deletion_vector| deletion_vector.read().err()));
        let open = |files: &SegmentFiles| {
            SegmentRun::open(&files.segment, files.deletion_vector.as_ref())
                .or_else(|_| SegmentRun::open(&files.segment, None))
                .expect("a segment without a deletion vector is only opened when it is read")
        };
        let runs = files.iter().map(open).collect();
        let grouped = GroupedSegments::new(runs, self.is_ordered());
        (self.snapshot_of(&grouped, symbols.into_iter().collect()), problems)
    }

    /// The symbols of a column, read from its file now, followed by those in the log.
    fn read_symbols(&self, column: ColumnId) -> Result<SymbolTable> {
        let watermark = self.manifest.symbols.get(&column).copied().unwrap_or_default();
        let stored = self.read_symbol_file(column, watermark)?;
        if self.logged.get(&column).is_none_or(|&logged| logged <= watermark.count) {
            return Ok(stored);
        }
        let known = self.directory.symbols(&self.manifest.schema, &self.manifest.symbols)?;
        Ok(stored.continued(known.get(column).expect("it is a symbol column")))
    }

    fn read_symbol_file(
        &self,
        column: ColumnId,
        watermark: SymbolWatermark,
    ) -> Result<SymbolTable> {
        let (disk, path) = (self.directory.disk(), self.directory.paths().symbol_file(column));
        let of = SymbolColumn { table: self.id(), column };
        symbols::read(disk.as_ref(), &path, of, watermark, SymbolTable::default())
    }

    /// A segment without the deleted rows.
    pub(crate) fn segment_run(&self, id: SegmentId) -> Result<Arc<SegmentRun>> {
        let files = self.files_of(id).expect("it is a segment of this table");
        SegmentRun::open(&files.segment, files.deletion_vector.as_ref()).map(Arc::new)
    }

    /// Number of segments and in-memory segments.
    pub(crate) fn run_count(&self) -> u64 {
        (self.segments.files.len() + self.memtable.runs().len()) as u64
    }

    fn files_of(&self, id: SegmentId) -> Option<&SegmentFiles> {
        let files = &self.segments.files;
        let at = files.binary_search_by_key(&id, |files| files.segment.meta().id).ok()?;
        Some(&files[at])
    }
}

impl SegmentFiles {
    /// Returns true if header, footer and deletion vector were read.
    fn were_read(&self) -> bool {
        let vector = self.deletion_vector.as_ref();
        self.segment.was_checked() && vector.is_none_or(|vector| vector.was_read())
    }
}

impl Segments {
    fn new(files: Vec<SegmentFiles>) -> Arc<Segments> {
        Arc::new(Segments {
            files,
            grouped: OnceLock::new(),
            are_there: OnceLock::new(),
            is_readable: OnceLock::new(),
            checking: Mutex::default(),
        })
    }
}

/// Applies a change to a memtable; an append is given with its rows.
pub(crate) fn change_memtable(
    memtable: &mut Memtable,
    change: &TableChange,
    rows: Option<NewRows<'_>>,
) {
    match change {
        TableChange::Append { mem_segments, .. } => {
            let NewRows { files, origin } = rows.expect("an append comes with its rows");
            assert_eq!(mem_segments.len(), files.len(), "a file for each in-memory segment");
            for (mem_segment, file) in mem_segments.iter().zip(files) {
                memtable.push(MemtableRun::new(mem_segment, Arc::clone(file), origin));
            }
        }
        TableChange::Truncate => memtable.retain(|_| false),
        TableChange::Replace { flushed_seq, .. } => {
            memtable.retain(|run| run.meta.seq_last > *flushed_seq)
        }
        TableChange::Create { .. }
        | TableChange::Drop
        | TableChange::Rename { .. }
        | TableChange::Alter { .. }
        | TableChange::AddSegments { .. }
        | TableChange::DeletionVector { .. }
        | TableChange::GivenUp => {}
    }
}

fn raise(logged: &mut BTreeMap<ColumnId, u32>, column: ColumnId, count: u32) {
    let known = logged.entry(column).or_default();
    *known = count.max(*known);
}

/// The files of a manifest's segments; both ascend by id. After a commit, some of them may be in
/// `known`, and this process has written the others.
fn files_of(
    directory: &Arc<TableDirectory>,
    manifest: &Manifest,
    known: Option<&[SegmentFiles]>,
) -> Vec<SegmentFiles> {
    let is_commit = known.is_some();
    let mut known = known.unwrap_or_default().iter().peekable();
    let files = |SegmentEntry { meta, deletion_vector }: &SegmentEntry| {
        let (paths, schema) = (directory.paths(), &manifest.schema);
        while known.next_if(|files| files.segment.meta().id < meta.id).is_some() {}
        let old = known.next_if(|files| files.segment.meta().id == meta.id);
        let segment = match old {
            Some(old) => Arc::clone(&old.segment),
            None => {
                let file = TableFile::new(directory, paths.segment(schema, meta));
                Arc::new(match is_commit {
                    true => SegmentFile::written(file, *meta),
                    false => SegmentFile::new(file, *meta),
                })
            }
        };
        let old_deletion_vector = old.and_then(|old| old.deletion_vector.as_ref());
        let deletion_vector = deletion_vector.map(|vector| {
            match old_deletion_vector.filter(|old| *old.meta() == vector) {
                Some(old) => Arc::clone(old),
                None => {
                    let file =
                        TableFile::new(directory, paths.deletion_vector(schema, meta, &vector));
                    Arc::new(DeletionVectorFile::new(file, meta.id, vector))
                }
            }
        });
        SegmentFiles { segment, deletion_vector }
    };
    manifest.segments.iter().map(files).collect()
}
