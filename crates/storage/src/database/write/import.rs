//! Imports: segments and symbols are written beside the table, and become part of it with one
//! record.
//!
//! - write_import-1. Rows of an import are visible to no reader before its commit, and to all
//!   readers afterwards.
//! - write_import-2. An import that does not commit leaves no file, unless its record is in doubt:
//!   then the next open decides.
//! - write_import-3. Before the record is written, everything it names is on disk: segments,
//!   symbols, and the names of files and directories.
//!
//! Two imports into one table may run at a time; their order is that of their commits. Not here:
//! the rows that are replaced in a table with keys of DEDUP (`replace`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::ArrayRef;
use tidegate_model::{
    Column, ColumnId, PartitionKey, Schema, SegmentId, SeqTxn, SymbolId, TableId,
};
use tidegate_platform::DiskFile;

use crate::catalog::check_name;
use crate::database::Database;
use crate::database::commit::request::{
    CommitError, CommitRequest, DdlBefore, Deletes, Import, NewTable, RowColumns, SnapshotId,
    Target,
};
use crate::database::deletes::vectors::{DeletionVectorFiles, SnapshotDeletes};
use crate::database::table::new_segments;
use crate::database::table::state::TableState;
use crate::error::{Error, Result};
use crate::files::{TableDirectory, TableFile};
use crate::manifest::check_segment;
use crate::rewrite::{self, Rewrite};
use crate::segment::{Direct, RowSelection, SegmentMeta, WrittenSegment};
use crate::snapshot::{SegmentFile, SegmentRun, Snapshot};
use crate::symbols::{Dictionary, SymbolTables, SymbolWatermark};
use crate::wal::CommitOutcome;

/// The table to which rows are imported.
#[derive(Debug)]
pub enum ImportTarget<'a> {
    /// A table, by its name in any case.
    Existing(&'a str),
    /// A table that the caller has looked at: rows are made for the columns of that time, which are
    /// needed until the commit. Others may be added and dropped meanwhile.
    Known {
        /// The name.
        name: &'a str,
        /// The table that had the name.
        table: TableId,
        /// Its columns.
        columns: &'a [Column],
    },
    /// A table that the commit creates.
    New {
        /// The name.
        name: &'a str,
        /// The columns.
        schema: Schema,
    },
    /// As `New`; the same commit drops the table that has the name at that time, if there is one.
    Replacing {
        /// The name.
        name: &'a str,
        /// The columns.
        schema: Schema,
    },
}

/// An import in progress. Threads share it.
#[derive(Debug)]
pub struct ImportTxn {
    database: Arc<Database>,
    directory: Arc<TableDirectory>,
    schema: Arc<Schema>,
    source: Source,
    /// True if a new table replaces another one.
    replaces: bool,
    /// Changes of tables that its commit makes first.
    before: Option<DdlBefore>,
    /// The dictionaries of all symbol columns.
    dictionaries: BTreeMap<ColumnId, Arc<Dictionary>>,
    scratch: PathBuf,
    made: Mutex<Made>,
}

/// The table of the import, new or existing.
#[derive(Debug)]
enum Source {
    New(NewTable),
    Existing {
        table: Arc<TableState>,
        /// The commit that the import is based on: later rows are not known.
        as_of: SeqTxn,
        columns: RowColumns,
    },
}

/// The table of an import, and its growing dictionaries.
struct OpenedTable {
    table: Arc<TableState>,
    dictionaries: BTreeMap<ColumnId, Arc<Dictionary>>,
}

/// The files that it has created so far.
#[derive(Debug, Default)]
struct Made {
    /// Segments that are not yet part of a table.
    files: BTreeMap<SegmentId, PathBuf>,
    interned: BTreeSet<ColumnId>,
    /// True if it was committed, or that is in doubt.
    is_kept: bool,
}

impl ImportTxn {
    /// Starts an import.
    pub(crate) fn begin(database: &Arc<Database>, target: ImportTarget<'_>) -> Result<ImportTxn> {
        database.begin_writing()?;
        database.maintenance().check_space()?;
        let replaces = matches!(target, ImportTarget::Replacing { .. });
        match target {
            ImportTarget::Existing(name) => {
                let opened = open_named(database, name)?;
                let manifest = &opened.table.manifest;
                let (as_of, known) = (manifest.seq_txn, manifest.schema.columns().to_vec());
                let columns = RowColumns { needed: known.clone(), known };
                ImportTxn::begin_in(database, opened, as_of, columns)
            }
            ImportTarget::Known { name, table, columns } => {
                let opened = open_named(database, name)?;
                if opened.table.id() != table {
                    return Err(Error::TableDropped { table: name.to_owned() });
                }
                let as_of = opened.table.manifest.seq_txn;
                let columns = RowColumns { needed: columns.to_vec(), known: columns.to_vec() };
                ImportTxn::begin_in(database, opened, as_of, columns)
            }
            ImportTarget::New { name, schema } | ImportTarget::Replacing { name, schema } => {
                check_name(name)?;
                let known = database.published().tables.find(name).map(Arc::clone);
                match known {
                    Some(known) if !replaces => {
                        known.check_known()?;
                        return Err(known.exists(name));
                    }
                    // A suspended table is replaced.
                    Some(known) if known.is_view() => known.check_takes_rows()?,
                    _ => {}
                }
                let new = database.new_table(name, schema);
                let dictionaries =
                    new.directory.open_dictionaries(&new.schema, &BTreeMap::new())?;
                let mut import = ImportTxn::begin_with(database, Source::New(new), dictionaries)?;
                import.replaces = replaces;
                Ok(import)
            }
        }
    }

    /// Starts to write rows for a table that are based on a snapshot of it, after changes of tables
    /// if there are any. Columns that are not in `needed` may be dropped meanwhile.
    pub(crate) fn begin_as_of(
        database: &Arc<Database>,
        snapshot: &Snapshot,
        needed: Vec<Column>,
        before: Option<DdlBefore>,
    ) -> Result<ImportTxn> {
        database.begin_writing()?;
        let find = || {
            let name = || snapshot.name.clone();
            let found = match &before {
                None => database.table_state(snapshot.table),
                Some(before) => database.visible(&before.ddl).state(snapshot.table)?,
            };
            found.ok_or_else(|| Error::TableDropped { table: name() })
        };
        let number = |table: &TableState| table.manifest.seq_txn;
        let mut table = find()?;
        table.check_takes_rows()?;
        loop {
            let readable = table.check_readable(database.options.sync_threads);
            let opened = readable.and_then(|()| open(&table));
            let now = find()?;
            // Symbols of a dropped column may be gone from the disk.
            if opened.is_ok()
                || Arc::ptr_eq(&now, &table)
                || before.is_some() && number(&now) == number(&table)
            {
                let columns = RowColumns { needed, known: snapshot.schema.columns().to_vec() };
                let mut import = ImportTxn::begin_in(database, opened?, snapshot.seq_txn, columns)?;
                import.before = before;
                return Ok(import);
            }
            table = now;
        }
    }

    fn begin_in(
        database: &Arc<Database>,
        opened: OpenedTable,
        as_of: SeqTxn,
        columns: RowColumns,
    ) -> Result<ImportTxn> {
        let OpenedTable { table, dictionaries } = opened;
        columns.check(&table.name, &table.manifest.schema)?;
        ImportTxn::begin_with(database, Source::Existing { table, as_of, columns }, dictionaries)
    }

    fn begin_with(
        database: &Arc<Database>,
        source: Source,
        dictionaries: BTreeMap<ColumnId, Arc<Dictionary>>,
    ) -> Result<ImportTxn> {
        let (directory, schema) = match &source {
            Source::New(new) => (&new.directory, &new.schema),
            Source::Existing { table, .. } => (&table.directory, &table.manifest.schema),
        };
        let (directory, schema) = (Arc::clone(directory), Arc::clone(schema));
        let number = database.next_import.fetch_add(1, Ordering::Relaxed);
        let scratch = database.paths.scratch().join(format!("import-{number}"));
        // An earlier process may have left one.
        let emptied = database.guarded.remove_dir_all(&scratch);
        emptied
            .and_then(|()| database.guarded.create_dir_all(&scratch))
            .map_err(Error::disk("make scratch directory"))?;
        let (database, made) = (Arc::clone(database), Mutex::new(Made::default()));
        let (replaces, before) = (false, None);
        Ok(ImportTxn {
            database,
            directory,
            schema,
            source,
            replaces,
            before,
            dictionaries,
            scratch,
            made,
        })
    }

    /// The id of the table, even if the commit is to create it.
    #[must_use]
    pub fn table(&self) -> TableId {
        self.directory.table()
    }

    /// The columns as they were when the import began.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// A directory for spill files, which is removed when the import ends.
    #[must_use]
    pub fn scratch_dir(&self) -> &Path {
        &self.scratch
    }

    /// An id for a segment, and its new empty file, as `new_segment_id` and `make_segment`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn new_segment(&self, partition: PartitionKey) -> Result<(SegmentId, Arc<dyn DiskFile>)> {
        let id = self.new_segment_id();
        Ok((id, self.make_segment(id, partition)?))
    }

    /// The id of a segment whose file is still to be created. Ids of one partition must be
    /// requested in the order of their rows, because they determine the order of equal timestamps.
    #[must_use]
    pub fn new_segment_id(&self) -> SegmentId {
        self.directory.new_segment_id()
    }

    /// The new empty file of a segment.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn make_segment(
        &self,
        id: SegmentId,
        partition: PartitionKey,
    ) -> Result<Arc<dyn DiskFile>> {
        let path = self.directory.paths().new_segment(&self.schema, partition, id);
        self.made().files.insert(id, path.clone());
        new_segments::make_file(&self.database.guarded, &path)
    }

    /// Makes segments durable and closes their files. A commit does so for files that are still
    /// open; with rows of many partitions these could be more than a process may have.
    ///
    /// # Errors
    /// If one cannot be synced.
    pub fn settle(&self, segments: &mut [WrittenSegment]) -> Result<()> {
        self.database.segment_sync().settle(segments)
    }

    /// The ids of strings in the dictionary of a symbol column; new strings get new ids.
    ///
    /// # Errors
    /// If a string is too long or not UTF-8, the dictionary is full, or dictionaries have too much
    /// memory.
    ///
    /// # Panics
    /// If it is not a symbol column of `schema`.
    pub fn intern(&self, column: ColumnId, values: &[&[u8]]) -> Result<Vec<SymbolId>> {
        let interned = self.dictionaries[&column].intern(values);
        let ids = interned.map_err(|error| error.of_column(&self.schema, column))?;
        self.made().interned.insert(column);
        Ok(ids)
    }

    /// The dictionaries of all symbol columns with all values interned so far.
    #[must_use]
    pub fn symbols(&self) -> SymbolTables {
        let tables = self.dictionaries.iter();
        tables.map(|(&column, dictionary)| (column, dictionary.table())).collect()
    }

    /// Makes the segments part of the table, all of them or none, and returns the number of the
    /// commit. Created files that are not among them are removed. In a table with keys of DEDUP the
    /// rows replace others.
    ///
    /// # Errors
    /// If something cannot be made durable, or the table was dropped or truncated or lost a column
    /// meanwhile, or one of its name was created: then nothing has changed. With
    /// [`Error::InDoubt`], the next open decides.
    ///
    /// # Panics
    /// If a segment is not one that `new_segment` made, or cannot be one of the table.
    pub fn commit(self, segments: Vec<WrittenSegment>) -> Result<SeqTxn> {
        self.commit_by_keys(&segments)
    }

    /// The rows of segments that are not committed, as arrays of all columns, at most a page frame
    /// at a time: segment after segment, in the order of their rows.
    ///
    /// # Errors
    /// If a segment cannot be read, and the errors of `take`.
    ///
    /// # Panics
    /// If a segment is not one that `new_segment` made.
    pub fn read_back<E: From<Error>>(
        &self,
        segments: &[WrittenSegment],
        mut take: impl FnMut(Vec<ArrayRef>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut metas, symbols) = (self.check(segments), self.symbols());
        metas.sort_by_key(|meta| meta.id);
        for meta in metas {
            let run = SegmentRun::of_memtable(meta, &self.file_of(meta), None);
            let reader = run.reader()?;
            for frame in 0..reader.frame_count() {
                let rows = RowSelection::Range(0..reader.frame_rows(frame));
                take(reader.arrays(frame, &rows, self.schema.columns(), &symbols)?)?;
            }
        }
        Ok(())
    }

    /// Makes the segments part of the table and deletes rows from it, without checking keys;
    /// segments only while the table has no keys.
    pub(crate) fn commit_with_deletes(
        &self,
        segments: &[WrittenSegment],
        deletes: SnapshotDeletes<'_>,
    ) -> Result<SeqTxn> {
        let table = self.existing().expect("a new table has no rows to delete");
        let mut files = DeletionVectorFiles::new(self.database.guarded.as_ref());
        let deletes = files.write_all(table, deletes)?;
        let has_rows = !segments.is_empty()
            || !deletes.deletion_vectors.is_empty()
            || deletes.replace.is_some();
        if !has_rows && self.before.is_none() {
            return Ok(table.manifest.seq_txn);
        }
        let keys = (!segments.is_empty()).then(Vec::new);
        let outcome = self.commit_segments(segments, deletes, keys);
        if may_be_committed(&outcome) {
            files.keep();
        }
        outcome.map_err(|CommitError { error, .. }| error)
    }

    /// Makes segments durable, and then part of the table, together with the deletion.
    pub(crate) fn commit_segments(
        &self,
        segments: &[WrittenSegment],
        deletes: Deletes,
        keys: Option<Vec<ColumnId>>,
    ) -> Result<SeqTxn, CommitError> {
        let metas = self.check(segments);
        let symbols = self
            .sync(segments)
            .map_err(|error| CommitError { error, outcome: CommitOutcome::NotCommitted })?;
        let target = match &self.source {
            Source::New(new) => Target::New(new.clone()),
            Source::Existing { table, as_of, columns } => {
                let (name, seq_txn) = (table.name.clone(), *as_of);
                let id = SnapshotId { table: table.id(), name, seq_txn };
                Target::Existing { id, columns: columns.clone() }
            }
        };
        let committed: BTreeSet<SegmentId> = metas.iter().map(|meta| meta.id).collect();
        let before = self.before.clone().map(|before| Box::new((before, self.schema.version())));
        let (replaces, segments) = (self.replaces, metas);
        let import = Import { target, replaces, segments, symbols, deletes, keys, before };
        let outcome = self.database.commit(CommitRequest::Import(import));
        if may_be_committed(&outcome) {
            self.keep_files(&committed);
        }
        outcome
    }

    /// Makes everything durable that the commit is going to name (write_import-3), and returns the
    /// watermarks of the symbol files.
    fn sync(&self, segments: &[WrittenSegment]) -> Result<Vec<(ColumnId, SymbolWatermark)>> {
        if segments.is_empty() {
            return Ok(Vec::new());
        }
        self.database.segment_sync().sync_files(segments)?;
        let interned = self.made().interned.clone();
        let interned = interned.iter().map(|column| (*column, &self.dictionaries[column]));
        let symbols = new_segments::save_symbols(interned)?;
        let metas: Vec<SegmentMeta> = segments.iter().map(|segment| segment.meta).collect();
        self.database.segment_sync().sync_names(&self.directory, &self.schema, &metas)?;
        Ok(symbols)
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The table, if it existed when the import began.
    pub(crate) fn existing(&self) -> Option<&Arc<TableState>> {
        match &self.source {
            Source::New(_) => None,
            Source::Existing { table, .. } => Some(table),
        }
    }

    /// A segment that is written and not yet part of a table.
    pub(crate) fn file_of(&self, meta: SegmentMeta) -> Arc<SegmentFile> {
        let path = self.directory.paths().segment(&self.schema, &meta);
        Arc::new(SegmentFile::new(TableFile::new(&self.directory, path), meta))
    }

    /// Merges the rows of such segments into new ones, in one order; the files that they replace
    /// are removed with the transaction.
    pub(crate) fn rewrite(&self, runs: &[Arc<SegmentRun>]) -> Result<Vec<WrittenSegment>> {
        let (table, schema, symbols) = (self.table(), self.schema.as_ref(), &self.symbols());
        let rewrite = Rewrite { table, schema, symbols, runs };
        rewrite::to_segments(&rewrite, &mut |key| self.new_segment(key), &mut Direct)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        // Every change of it is one insertion.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asserts that the writer of the segments has kept the invariants of the manifest.
    fn check(&self, segments: &[WrittenSegment]) -> Vec<SegmentMeta> {
        let made = self.made();
        let mut ids = BTreeSet::new();
        for WrittenSegment { meta, .. } in segments {
            assert!(made.files.contains_key(&meta.id), "segment {} is of this import", meta.id);
            assert!(ids.insert(meta.id), "segment {} is there once", meta.id);
            assert_eq!(check_segment(&self.schema, meta), Ok(()), "manifest-2");
        }
        segments.iter().map(|segment| segment.meta).collect()
    }

    /// Keeps the files of these segments: the import no longer removes them.
    fn keep_files(&self, committed: &BTreeSet<SegmentId>) {
        let mut made = self.made();
        made.files.retain(|id, _| !committed.contains(id));
        made.is_kept = true;
    }
}

fn open_named(database: &Database, name: &str) -> Result<OpenedTable> {
    database.committed().with_tables(&[name], &|found| {
        found[0].check_takes_rows()?;
        found[0].check_readable(database.options.sync_threads)?;
        open(&found[0])
    })
}

fn open(table: &Arc<TableState>) -> Result<OpenedTable> {
    let TableState { directory, manifest, .. } = table.as_ref();
    let dictionaries = directory.open_dictionaries(&manifest.schema, &manifest.symbols)?;
    Ok(OpenedTable { table: Arc::clone(table), dictionaries })
}

/// Returns true if a replay may find the commit.
pub(crate) fn may_be_committed(outcome: &Result<SeqTxn, CommitError>) -> bool {
    outcome
        .as_ref()
        .map_or_else(|commit_error| commit_error.outcome == CommitOutcome::InDoubt, |_| true)
}

impl Drop for ImportTxn {
    fn drop(&mut self) {
        // Best effort: files that cannot be removed now are removed by the next open.
        let disk = &self.database.guarded;
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        for path in made.files.values() {
            let _ = disk.remove(path);
        }
        if let (Source::New(new), false) = (&self.source, made.is_kept) {
            new.directory.drop_directory();
        }
        let _ = disk.remove_dir_all(&self.scratch);
    }
}
