//! Appends of a few rows at a time: each call is one commit, of one or more tables.
//!
//! - append-1. When a call returns, either all of its rows are durable and visible, or none.
//! - append-2. Rows are encoded in the caller's thread without a lock; the leader of the commit
//!   only writes the record.
//! - Rows are encoded for one version of a table's columns, and committed only to that version.
//!   If the columns have changed by then, the rows are encoded again.
//! - append-3. An append to a table with keys of DEDUP locks the table's runs from before the
//!   search for the rows it replaces until its commit, so writers to one such table take turns.
//! - append-4. Rows that were made for the columns of a snapshot (`MadeFor`) are written as
//!   update-3 says: by the ids of these columns, with the names that they have now, and without the
//!   values of dropped ones. The append is refused if a dropped one is needed, or if a column with
//!   a default was added.
//!
//! Not here: converting values to the types of columns, which is the caller's task.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::{
    Column, ColumnId, PartitionUnit, Schema, SchemaError, SchemaVersion, SeqTxn, SymbolId, TableId,
};

use super::dedup;
use crate::batch::{BatchColumn, RowBatch};
use crate::catalog::fold_name;
use crate::change::BatchId;
use crate::database::Database;
use crate::database::commit::pending::VisibleTables;
use crate::database::commit::request::{
    Append, AppendTarget, AppendTo, CommitError, CommitRequest, Committed, Deletes, PendingDdl,
    TableRead,
};
use crate::database::deletes::apply::{DeleteFiles, LockedTable, write_deletes};
use crate::database::deletes::vectors::{DeletesByTable, merged_deletes};
use crate::database::table::state::TableState;
use crate::error::{Error, Result};
use crate::files::TableDirectory;
use crate::mem_segment;
use crate::snapshot::SegmentFile;
use crate::symbols::SymbolWatermark;
use crate::wal::CommitOutcome;

/// Approximate maximal bytes of a value in an in-memory segment, except strings.
pub(crate) const VALUE_BYTES: u64 = 8;
/// Maximal number of times that rows are encoded while other commits keep changing columns.
pub(crate) const ATTEMPTS: usize = 32;

/// The rows for one table.
#[derive(Debug, Clone)]
pub struct TableAppend {
    /// The table's name, in any case.
    pub table: String,
    /// The id of the table, if the rows are for this table only, whatever its name is by now.
    pub id: Option<TableId>,
    /// Creates the table if it does not exist.
    pub create: Option<NewTableOptions>,
    /// True if columns that the table lacks are added, with the types of the batch.
    pub add_columns: bool,
    /// The columns that the rows were made for, if these may have changed since (append-4).
    pub made_for: Option<MadeFor>,
    /// The rows. A column of the table that they lack is NULL; the designated timestamp must be
    /// present and not NULL. Types are exactly those of the table.
    pub rows: RowBatch,
}

/// The columns that rows were made for.
#[derive(Debug, Clone)]
pub struct MadeFor {
    /// The columns of the table at that time. The rows have a value for each that had a default.
    pub schema: Arc<Schema>,
    /// The columns without which the rows would not be valid.
    pub needed: BTreeSet<ColumnId>,
}

/// The options of a table that an append creates: it gets the columns of the batch.
#[derive(Debug, Clone)]
pub struct NewTableOptions {
    /// The column of the batch that is to be the designated timestamp.
    pub designated: String,
    /// The width of partitions.
    pub partition_by: PartitionUnit,
}

/// Options of an append.
#[derive(Debug, Clone, Default)]
pub struct AppendOptions {
    /// The identity of the rows, if they are to be applied once: a table that remembers it does not
    /// get them again. Tables remember their latest `limits::APPLIED_BATCHES` identities.
    pub batch_id: Option<BatchId>,
    /// The identity that earlier programs gave a batch of this name, whatever its rows: a table
    /// that remembers it does not get the rows either.
    pub older_id: Option<BatchId>,
}

/// The result of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The number of the commit in each table, in the order of the appends; for a table that got no
    /// rows its last commit, and for one that has the batch already the commit of that batch.
    pub seq_txns: Vec<SeqTxn>,
    /// False if the rows were already there, under the identity of their batch.
    pub is_new: bool,
}

/// A commit request that is ready.
#[derive(Default)]
pub(crate) struct Prepared<'a> {
    /// For each append the table that gets its rows, if it has some.
    pub(crate) targets: Vec<Option<TableId>>,
    pub(crate) tables: Vec<AppendTo>,
    /// The files for the rows that these replace (append-3).
    pub(crate) delete_files: Vec<DeleteFiles<'a>>,
}

/// The part of a transaction that comes before its rows.
#[derive(Debug, Default)]
pub(crate) struct CommitConditions {
    /// Changes of tables.
    pub(crate) ddl: PendingDdl,
    /// The tables whose rows must be as they were read (transaction-5).
    pub(crate) reads: Vec<TableRead>,
}

/// The columns of a batch, mapped to those of a table.
pub(crate) struct Resolved<'r> {
    pub(crate) target: AppendTarget,
    pub(crate) directory: Arc<TableDirectory>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) watermarks: BTreeMap<ColumnId, SymbolWatermark>,
    /// The rows, with columns of the schema.
    pub(crate) rows: Cow<'r, RowBatch>,
}

impl Resolved<'_> {
    /// The version of the table's columns, if there is a table.
    fn version(&self) -> Option<SchemaVersion> {
        match &self.target {
            AppendTarget::New(_) => None,
            AppendTarget::Existing { version, .. } => Some(*version),
        }
    }
}

/// Writes rows to tables: appends, and the commits of transactions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableWriter<'a> {
    pub(crate) database: &'a Arc<Database>,
}

impl TableWriter<'_> {
    /// Appends rows to tables, with one commit: when it returns, all are durable and visible, or
    /// none.
    pub(crate) fn append(
        &self,
        appends: &[TableAppend],
        options: &AppendOptions,
    ) -> Result<Appended> {
        self.database.begin_writing()?;
        self.database.maintenance().check_space()?;
        check_once(appends)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let outcome = self.try_append(appends, options);
            let error = match outcome {
                Ok(appended) => return Ok(appended),
                Err(error) => error,
            };
            // Another commit was first to change the same table, its columns, or the rows to
            // replace.
            let is_race = matches!(
                error,
                Error::SchemaChanged { .. }
                    | Error::TableExists { .. }
                    | Error::TableDropped { .. }
                    | Error::SegmentChanged { .. }
            );
            let is_race = is_race && !self.has_dropped(appends);
            let is_misfit = matches!(&error, Error::SchemaChanged { table }
                if !self.fits(appends, table));
            if !is_race || is_misfit || attempt >= ATTEMPTS {
                return Err(error);
            }
        }
    }

    /// Returns true if the rows for a table have the types of its columns.
    fn fits(&self, appends: &[TableAppend], table: &str) -> bool {
        let schema = self.database.schema_of(table);
        let append = appends.iter().find(|append| fold_name(&append.table) == fold_name(table));
        let (Some(schema), Some(append)) = (schema, append) else { return true };
        // Columns of a snapshot have other names now, and the types that they had.
        append.made_for.is_some() || misfit(&schema, &append.rows).is_none()
    }

    /// Returns true if a table was dropped that rows are for by its id.
    fn has_dropped(&self, appends: &[TableAppend]) -> bool {
        let published = self.database.published();
        let mut ids = appends.iter().filter_map(|append| append.id);
        ids.any(|id| !published.tables.by_id.contains_key(&id))
    }

    fn try_append(&self, appends: &[TableAppend], options: &AppendOptions) -> Result<Appended> {
        // Before taking locks that a flush for memory may wait for.
        let rows = appends.iter().map(|append| append.rows.rows() * append.rows.columns().len());
        self.database.maintenance().check_flushed(&self.targets(appends))?;
        self.database.maintenance().make_room(rows.sum::<usize>() as u64 * VALUE_BYTES)?;
        self.database.maintenance().check_not_failed(&self.targets(appends))?;
        let (visible, none) = (self.database.committed(), DeletesByTable::new());
        self.check_readable(&visible, appends)?;
        let locked = self.lock_tables(&visible, appends, &none)?;
        let Prepared { targets, tables, delete_files } =
            self.prepare(&visible, appends, &none, &locked)?;
        let before = CommitConditions::default();
        let committed = self.commit_prepared(options, before, tables, delete_files)?;
        drop(locked);
        let touched: Vec<TableId> = targets.iter().flatten().copied().collect();
        self.database.maintenance().coalesce_memtables(&touched);
        let seq_txn = |(append, target): (&TableAppend, &Option<TableId>)| {
            let found = committed.seq_txns.iter().find(|(id, _)| Some(*id) == *target);
            found.map_or_else(|| self.last_commit(&append.table), |&(_, seq_txn)| seq_txn)
        };
        let seq_txns = appends.iter().zip(&targets).map(seq_txn).collect();
        Ok(Appended { seq_txns, is_new: committed.is_new })
    }

    /// Encodes rows, and writes the deletion of the rows that they replace.
    pub(crate) fn prepare<'a>(
        &'a self,
        visible: &VisibleTables<'_>,
        appends: &[TableAppend],
        deletes_by_table: &DeletesByTable<'_>,
        locked: &'a BTreeMap<TableId, LockedTable>,
    ) -> Result<Prepared<'a>> {
        let mut prepared = Prepared::default();
        for append in appends {
            let resolved = self.resolve(visible, append)?;
            let id = resolved.directory.table();
            let removed = deletes_by_table.get(&id).copied();
            if append.rows.rows() == 0 && removed.is_none() {
                prepared.targets.push(None);
                continue;
            }
            let (version, schema) = (resolved.version(), Arc::clone(&resolved.schema));
            let mut to = encode(resolved)
                .map_err(|error| stale_or(error, visible, &append.table, version))?;
            let has_keys = !schema.dedup().is_empty();
            let is_made = version.is_some() && self.database.table_state(id).is_none();
            if is_made
                && has_keys
                && let Some(state) = visible.state(id)?
            {
                // A table of this transaction has no rows to replace, except those of the append.
                dedup::supersede(&mut to, &state, &schema, &*state.snapshot()?)?;
            } else if has_keys || removed.is_some() {
                let locked = locked
                    .get(&id)
                    .filter(|locked| version == Some(locked.state.manifest.schema.version()));
                let Some(LockedTable { state, .. }) = locked else {
                    // The table has just got its keys.
                    return Err(Error::SchemaChanged { table: append.table.clone() });
                };
                let snapshot = state.snapshot()?;
                let superseded = match has_keys {
                    true => dedup::supersede(&mut to, state, &schema, &snapshot)?,
                    false => Vec::new(),
                };
                let deletes = merged_deletes(superseded, removed, &snapshot)?;
                let (deletes, files) = write_deletes(self.database, state, &snapshot, deletes)?;
                to.deletes = deletes;
                prepared.delete_files.push(files);
            }
            prepared.targets.push(Some(id));
            prepared.tables.push(to);
        }
        Ok(prepared)
    }

    pub(crate) fn commit_prepared(
        &self,
        options: &AppendOptions,
        before: CommitConditions,
        tables: Vec<AppendTo>,
        mut delete_files: Vec<DeleteFiles<'_>>,
    ) -> Result<Committed> {
        let CommitConditions { ddl, reads } = before;
        if tables.is_empty() && ddl.is_empty() {
            return Ok(Committed { is_new: true, ..Committed::default() });
        }
        let since_nanos = self.database.options.clock.monotonic_nanos();
        let (batch, older) = (options.batch_id, options.older_id);
        match self.database.commit_all(CommitRequest::Append(Append {
            ddl,
            batch,
            older,
            tables,
            reads,
            since_nanos,
        })) {
            Ok(committed) => {
                // If the batch was there already, its commit has replaced the rows, and these files
                // are unreferenced.
                if committed.is_new {
                    delete_files.iter_mut().for_each(DeleteFiles::keep);
                }
                Ok(committed)
            }
            Err(CommitError { error, outcome }) => {
                if outcome == CommitOutcome::InDoubt {
                    delete_files.iter_mut().for_each(DeleteFiles::keep);
                }
                Err(error)
            }
        }
    }

    /// Checks the tables before they are locked: the first check of a table reads from all of its
    /// files.
    pub(super) fn check_readable(
        &self,
        visible: &VisibleTables<'_>,
        appends: &[TableAppend],
    ) -> Result<()> {
        for append in appends {
            if let Some(table) = find_table(visible, append)? {
                table.check_readable(self.database.options.sync_threads)?;
            }
        }
        Ok(())
    }

    /// Locks the tables with keys of DEDUP and those that lose rows, in the order of their ids, so
    /// that no two writers wait for each other.
    pub(crate) fn lock_tables(
        &self,
        visible: &VisibleTables<'_>,
        appends: &[TableAppend],
        deletes_by_table: &DeletesByTable<'_>,
    ) -> Result<BTreeMap<TableId, LockedTable>> {
        let mut to_lock: BTreeSet<TableId> = deletes_by_table.keys().copied().collect();
        for append in appends {
            let known = find_table(visible, append)?;
            let with_keys = known.filter(|table| !table.manifest.schema.dedup().is_empty());
            to_lock.extend(with_keys.map(|table| table.id()));
        }
        let mut locked = BTreeMap::new();
        for id in to_lock {
            if let (Some(mut table), Some(state)) =
                (LockedTable::lock(self.database, id), visible.state(id)?)
            {
                table.state = state;
                locked.insert(id, table);
            }
        }
        Ok(locked)
    }

    /// The tables for these rows, as far as they exist.
    pub(super) fn targets(&self, appends: &[TableAppend]) -> Vec<Arc<TableState>> {
        let published = self.database.published();
        let known = |append: &TableAppend| match append.id {
            Some(id) => published.tables.by_id.get(&id).map(Arc::clone),
            None => published.tables.find(&append.table).map(Arc::clone),
        };
        appends.iter().filter_map(known).collect()
    }

    fn last_commit(&self, table: &str) -> SeqTxn {
        let published = self.database.published();
        published.tables.find(table).map_or(SeqTxn(0), |table| table.manifest.seq_txn)
    }

    /// Maps the table and the columns of a batch, including new ones.
    fn resolve<'r>(
        &self,
        visible: &VisibleTables<'_>,
        append: &'r TableAppend,
    ) -> Result<Resolved<'r>> {
        let known = find_table(visible, append)?;
        let rows = &append.rows;
        match (known, &append.create) {
            (None, _) if append.id.is_some() => {
                Err(Error::TableDropped { table: append.table.clone() })
            }
            (Some(table), _) => {
                table.check_takes_rows()?;
                table.check_readable(self.database.options.sync_threads)?;
                resolve_in(&table, append, visible.provisional_from(table.id()))
            }
            (None, None) => Err(Error::NoSuchTable { table: append.table.clone() }),
            (None, Some(options)) => {
                let columns = rows.columns().iter().map(|column| (column.name.clone(), column.ty));
                let columns: Vec<_> = columns.collect();
                let designated = Some(options.designated.as_str());
                let schema = Schema::new(&columns, designated, options.partition_by)?;
                let new = self.database.new_table(&append.table, schema);
                Ok(Resolved {
                    directory: Arc::clone(&new.directory),
                    schema: Arc::clone(&new.schema),
                    target: AppendTarget::New(new),
                    watermarks: BTreeMap::new(),
                    rows: Cow::Borrowed(rows),
                })
            }
        }
    }
}

/// The table for the rows.
fn find_table(
    visible: &VisibleTables<'_>,
    append: &TableAppend,
) -> Result<Option<Arc<TableState>>> {
    match append.id {
        Some(id) => visible.state(id),
        None => visible.state_of(&append.table),
    }
}

/// Returns `SchemaChanged` if the table has changed: symbols of a dropped column may be gone from
/// the disk.
fn stale_or(
    error: Error,
    visible: &VisibleTables<'_>,
    table: &str,
    version: Option<SchemaVersion>,
) -> Error {
    let now = visible.schema_of(table).map(|schema| schema.version());
    if version.is_some() && now != version {
        return Error::SchemaChanged { table: table.to_owned() };
    }
    error
}

pub(crate) fn check_once(appends: &[TableAppend]) -> Result<()> {
    let mut names = BTreeSet::new();
    let twice = appends.iter().find(|append| !names.insert(fold_name(&append.table)));
    match twice {
        Some(append) => Err(Error::TableTwice { table: append.table.clone() }),
        None => Ok(()),
    }
}

/// A column of a batch whose type differs from that of the table's column.
fn misfit<'a>(schema: &Schema, rows: &'a RowBatch) -> Option<&'a BatchColumn> {
    let differs = |column: &&BatchColumn| {
        schema.find(&column.name).is_some_and(|known| known.ty != column.ty)
    };
    rows.columns().iter().find(differs)
}

fn resolve_in<'r>(
    table: &TableState,
    append: &'r TableAppend,
    provisional_from: Option<ColumnId>,
) -> Result<Resolved<'r>> {
    let known = &table.manifest.schema;
    let rows = match &append.made_for {
        Some(made_for) => fitting(table, made_for, provisional_from, &append.rows)?,
        None => Cow::Borrowed(&append.rows),
    };
    if misfit(known, &rows).is_some() {
        return Err(Error::SchemaChanged { table: table.name.clone() });
    }
    let columns = rows.columns().iter();
    let mut missing = columns.filter(|column| known.find(&column.name).is_none()).peekable();
    let altered = match missing.peek() {
        None => None,
        Some(column) if !append.add_columns => {
            return Err(SchemaError::NoSuchColumn { name: column.name.clone() }.into());
        }
        Some(_) => {
            let with =
                |schema: Schema, column: &BatchColumn| schema.with_column(&column.name, column.ty);
            let mut schema = Schema::clone(known);
            for column in missing {
                schema = with(schema, column)?;
            }
            Some(Arc::new(schema))
        }
    };
    Ok(Resolved {
        directory: Arc::clone(&table.directory),
        schema: altered.as_ref().map_or_else(|| Arc::clone(known), Arc::clone),
        target: AppendTarget::Existing {
            id: table.id(),
            name: table.name.clone(),
            version: known.version(),
            altered,
        },
        watermarks: table.manifest.symbols.clone(),
        rows,
    })
}

/// The rows with the columns that the table has now (append-4). `provisional_from` is as of
/// `VisibleTables::provisional_from`.
fn fitting<'r>(
    table: &TableState,
    made_for: &MadeFor,
    provisional_from: Option<ColumnId>,
    rows: &'r RowBatch,
) -> Result<Cow<'r, RowBatch>> {
    let (then, now) = (&made_for.schema, &table.manifest.schema);
    if provisional_from.is_none() && then.version() == now.version() {
        return Ok(Cow::Borrowed(rows));
    }
    let column_now = |column: &Column| match provisional_from {
        Some(first) if first <= column.id => now.find(&column.name),
        _ => now.column(column.id),
    };
    let table = || table.name.clone();
    let mut needed = made_for.needed.iter().filter_map(|id| then.column(*id));
    if let Some(gone) = needed.find(|column| column_now(column).is_none()) {
        return Err(Error::ColumnDropped { table: table(), column: gone.name.clone() });
    }
    let left = then.columns().iter().filter_map(column_now).map(|column| column.id);
    let left = left.collect::<BTreeSet<_>>();
    if let Some(added) = now.unknown_default(|column| left.contains(&column.id)) {
        return Err(Error::ColumnAdded { table: table(), column: added.name.clone() });
    }
    let name_now = |column: &BatchColumn| {
        let column = then.find(&column.name).expect("rows are made for these columns");
        column_now(column).map(|column| column.name.as_str())
    };
    if rows.columns().iter().all(|column| name_now(column) == Some(column.name.as_str())) {
        return Ok(Cow::Borrowed(rows));
    }
    let columns = rows.columns().iter().filter_map(|column| {
        let name = name_now(column)?.to_owned();
        Some(BatchColumn { name, ..column.clone() })
    });
    Ok(Cow::Owned(RowBatch::new(rows.rows(), columns.collect())))
}

/// Encodes rows for a table (append-2).
pub(crate) fn encode(resolved: Resolved<'_>) -> Result<AppendTo> {
    let Resolved { target, directory, schema, watermarks, rows } = resolved;
    let mut symbols = Vec::new();
    let mut intern = |column, texts: &[&[u8]]| -> Result<Vec<SymbolId>> {
        let watermark = watermarks.get(&column).copied().unwrap_or_default();
        let interned = directory.dictionary(column, watermark)?.intern_and_freeze(texts);
        let (ids, table) = interned.map_err(|error| error.of_column(&schema, column))?;
        symbols.push((column, table));
        Ok(ids)
    };
    let mut new_id = || directory.new_segment_id();
    let mem_segments =
        mem_segment::encode_rows(directory.table(), &schema, &rows, &mut intern, &mut new_id)?;
    let file = |mem_segment| Arc::new(SegmentFile::in_memory(directory.table(), mem_segment));
    let files = mem_segments.iter().map(file).collect();
    Ok(AppendTo { target, mem_segments, files, symbols, deletes: Deletes::default() })
}
