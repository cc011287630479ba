//! Planning of commits without I/O: from a commit request and the current tables to the changes in
//! the record.
//!
//! - commit_plan-1. A commit request is planned on top of all that were planned before it in the
//!   same group, and is based only on commits that are durable or in that group.
//! - commit_plan-2. A refused commit request changes nothing.
//! - commit_plan-3. All changes of a table by one record have one number (wal-1), also those of a
//!   transaction that are planned on top of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::{
    ColumnId, Lsn, Schema, SchemaError, SchemaVersion, SegmentId, SeqTxn, TableId, limits,
};

use super::ddl::{Relations, SchemaEdit};
use super::request::{
    Append, AppendTarget, AppendTo, Coalesce, CommitRequest, Committed, DdlStep, Deletes, Exchange,
    FilledTable, Import, NewDeletionVector, NewTable, OtherRows, PendingDdl, PlannedCommit,
    Replace, Replacement, RowColumns, SnapshotId, TableRead, Target, new_table,
};
use crate::catalog::{check_name, fold_name};
use crate::change::{BatchId, TableChange, TableOp};
use crate::database::table::Tables;
use crate::database::table::memtable::{Memtable, MemtableRun, Origin};
use crate::database::table::state::{NewRows, TableState};
use crate::deletion_vector::DeletionVectorMeta;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Obsolete};
use crate::mem_segment::MemSegment;
use crate::segment::SegmentMeta;
use crate::symbols::{SymbolTable, SymbolTexts};

/// The effects of the commit requests of a group, on top of the current tables.
#[derive(Debug)]
pub(crate) struct PendingTables<'a> {
    base: &'a Tables,
    /// The position in the log for the planned group.
    lsn: Lsn,
    changes: Changes,
    /// The number of the commit that is planned step by step, in each of its tables
    /// (commit_plan-3).
    numbers: BTreeMap<TableId, SeqTxn>,
}

/// The changes of the tables when a group is durable.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    /// `None` for a table that was dropped.
    pub(crate) tables: BTreeMap<TableId, Option<Arc<TableState>>>,
    /// `None` for a name that has become free.
    pub(crate) names: BTreeMap<String, Option<TableId>>,
    /// Obsolete files, with the last version of the table that had them.
    pub(crate) obsolete: Vec<(Arc<TableState>, Obsolete)>,
    pub(crate) dropped: Vec<Arc<TableState>>,
    /// Number of the commit requests that changed more than rows.
    pub(crate) ddl_count: u64,
}

impl<'a> PendingTables<'a> {
    pub(crate) fn new(base: &'a Tables, lsn: Lsn) -> PendingTables<'a> {
        PendingTables { base, lsn, changes: Changes::default(), numbers: BTreeMap::new() }
    }

    /// A copy, for changes that may be discarded.
    fn forked(&self) -> PendingTables<'a> {
        let PendingTables { base, lsn, changes, .. } = self;
        PendingTables { base, lsn: *lsn, changes: changes.clone(), numbers: BTreeMap::new() }
    }

    pub(crate) fn into_changes(self) -> Changes {
        self.changes
    }

    pub(crate) fn by_id(&self, id: TableId) -> Option<&Arc<TableState>> {
        match self.changes.tables.get(&id) {
            Some(changed) => changed.as_ref(),
            None => self.base.by_id.get(&id),
        }
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<TableState>> {
        let name = fold_name(name);
        let id = match self.changes.names.get(&name) {
            Some(changed) => *changed,
            None => self.base.by_name.get(&name).copied(),
        };
        self.by_id(id?)
    }

    /// All tables, sorted by their folded names.
    pub(crate) fn all(&self) -> Vec<&Arc<TableState>> {
        let mut ids = self.base.by_name.clone();
        for (name, id) in &self.changes.names {
            match id {
                Some(id) => ids.insert(name.clone(), *id),
                None => ids.remove(name),
            };
        }
        ids.values().map(|id| self.by_id(*id).expect("a name is that of a table")).collect()
    }

    pub(crate) fn existing(&self, name: &str) -> Result<&Arc<TableState>> {
        self.by_name(name).ok_or_else(|| Error::NoSuchTable { table: name.to_owned() })
    }

    /// As `existing`, for actions that a suspended table does not support.
    fn known(&self, name: &str) -> Result<&Arc<TableState>> {
        let table = self.existing(name)?;
        table.check_known()?;
        Ok(table)
    }

    /// As `known`, for actions on tables with rows.
    fn with_rows(&self, name: &str) -> Result<&Arc<TableState>> {
        let table = self.existing(name)?;
        table.check_takes_rows()?;
        Ok(table)
    }

    /// Plans a commit request (commit_plan-2).
    pub(crate) fn plan(&self, request: &CommitRequest) -> Result<PlannedCommit> {
        if let CommitRequest::Append(Append { batch: Some(batch), older, tables, .. }) = request
            && let Some(seq_txns) = self.applied(*batch, *older, tables)?
        {
            let committed = Committed { seq_txns, is_new: false };
            return Ok(PlannedCommit { ops: Vec::new(), committed });
        }
        let ops = self.plan_ops(request)?;
        let mut committed = Committed { seq_txns: Vec::new(), is_new: true };
        for op in &ops {
            if committed.seq_txns.last() != Some(&(op.table, op.seq_txn)) {
                committed.seq_txns.push((op.table, op.seq_txn));
            }
        }
        Ok(PlannedCommit { ops, committed })
    }

    /// Plans a step of a transaction and applies it, so that the next one is planned on top of it
    /// (commit_plan-3).
    pub(crate) fn step(&mut self, request: &CommitRequest) -> Result<Vec<TableOp>> {
        let ops = self.plan_ops(request)?;
        self.apply(request, &ops);
        self.numbers.extend(ops.iter().map(|op| (op.table, op.seq_txn)));
        Ok(ops)
    }

    /// Plans the changes of a transaction, each on top of those before it (`pending` pending-2).
    pub(crate) fn plan_ddl(&mut self, ddl: &PendingDdl) -> Result<Vec<TableOp>> {
        let mut ops = Vec::new();
        for DdlStep { request, tables, .. } in ddl.0.iter().map(Arc::as_ref) {
            let planned = self.step(request).map_err(|error| unfitting(error, request))?;
            if tables_of(&planned) != *tables {
                return Err(Error::TablesChanged { table: relation_of(request) });
            }
            ops.extend(planned);
        }
        Ok(ops)
    }

    /// The number of the next change of a table (commit_plan-3).
    fn next_number(&self, table: &TableState) -> SeqTxn {
        let known = self.numbers.get(&table.id()).copied();
        known.unwrap_or_else(|| table.manifest.seq_txn.next())
    }

    fn next_op(&self, table: &TableState, change: TableChange) -> TableOp {
        TableOp { table: table.id(), seq_txn: self.next_number(table), change }
    }

    fn plan_ops(&self, request: &CommitRequest) -> Result<Vec<TableOp>> {
        match request {
            CommitRequest::CreateTable(new) => Ok(vec![self.plan_create(new)?]),
            CommitRequest::Import(import) => match import.before.as_deref() {
                None => self.plan_import(import),
                Some((before, version)) => {
                    let mut forked = self.forked();
                    let mut ops = forked.plan_ddl(&before.ddl)?;
                    forked.check_as_read(import, before.other_rows, *version)?;
                    ops.extend(forked.plan_import(import)?);
                    Ok(ops)
                }
            },
            CommitRequest::CreateView { new, replace } => Ok(vec![self.plan_view(new, *replace)?]),
            CommitRequest::DropTables { names, kind } => self.plan_drop(names, *kind),
            CommitRequest::RenameTable { from, to } => {
                let table = self.known(from)?;
                check_name(to)?;
                if let Some(other) = self.by_name(to).filter(|other| other.id() != table.id()) {
                    return Err(other.exists(to));
                }
                Ok(vec![self.next_op(table, TableChange::Rename { name: to.clone() })])
            }
            CommitRequest::Truncate { table } => {
                Ok(vec![self.next_op(self.with_rows(table)?, TableChange::Truncate)])
            }
            CommitRequest::Alter { table, edit } => {
                let table = match edit {
                    SchemaEdit::Comment { .. } => self.known(table)?,
                    _ => self.with_rows(table)?,
                };
                let schema = Arc::new(edit.apply(&table.manifest.schema)?);
                Ok(vec![self.next_op(table, TableChange::Alter { schema })])
            }
            CommitRequest::Append(append) if append.ddl.is_empty() => {
                self.check_reads(append)?;
                self.plan_appends(append)
            }
            CommitRequest::Append(append) => {
                self.check_reads(append)?;
                let mut forked = self.forked();
                let mut ops = forked.plan_ddl(&append.ddl)?;
                self.check_filled(&append.ddl, &forked)?;
                ops.extend(forked.plan_appends(append)?);
                Ok(ops)
            }
            CommitRequest::Replace(replace) => Ok(vec![self.plan_replace(replace)?]),
            CommitRequest::Coalesce(Coalesce { name, out, .. }) => {
                match self.other_memtable(request) {
                    Some(_) => Ok(Vec::new()),
                    None => Err(changed(name, out)),
                }
            }
            CommitRequest::Exchange(Exchange { name, .. }) => match self.other_memtable(request) {
                Some(_) => Ok(Vec::new()),
                None => Err(changed(name, &[])),
            },
        }
    }

    fn plan_drop(&self, names: &[String], kind: Relations) -> Result<Vec<TableOp>> {
        let mut ops: Vec<TableOp> = Vec::new();
        for name in names {
            let table = self.existing(name)?;
            // A suspended table can be dropped as either.
            match (kind, table.is_view()) {
                (Relations::Tables, true) => return Err(Error::IsView { view: name.clone() }),
                (Relations::Views, false) if table.damage().is_none() => {
                    return Err(Error::NotAView { table: name.clone() });
                }
                _ => {}
            }
            let op = self.next_op(table, TableChange::Drop);
            if !ops.contains(&op) {
                ops.push(op);
            }
        }
        Ok(ops)
    }

    fn plan_view(&self, new: &NewTable, replace: Replacement) -> Result<TableOp> {
        match self.by_name(&new.name) {
            Some(known) if known.is_view() && replace == Replacement::Replaces => {
                let schema = Schema::clone(&known.manifest.schema).replaced_by(&new.schema)?;
                return Ok(self.next_op(known, TableChange::Alter { schema: Arc::new(schema) }));
            }
            Some(known) => {
                known.check_known()?;
                return Err(known.exists(&new.name));
            }
            None => {}
        }
        let is_view = |table: &&Arc<TableState>| table.is_view();
        let added = self.changes.tables.values().flatten().filter(is_view).count();
        if limits::VIEWS <= self.base.by_id.values().filter(is_view).count() + added {
            return Err(Error::TooManyViews);
        }
        self.plan_new(new)
    }

    /// The memtable of a table after its rows have moved to other runs.
    fn other_memtable(&self, request: &CommitRequest) -> Option<(TableId, Memtable)> {
        let (id, memtable) = match request {
            CommitRequest::Coalesce(Coalesce { table, out, run, .. }) => {
                (*table, self.by_id(*table)?.memtable.replaced(out, run)?)
            }
            CommitRequest::Exchange(Exchange { table, pairs, .. }) => {
                (*table, self.by_id(*table)?.memtable.exchanged(pairs)?)
            }
            _ => return None,
        };
        Some((id, memtable))
    }

    /// The commits of a batch, if one of its tables has it already; an error if a table has other
    /// rows under its name.
    fn applied(
        &self,
        batch: BatchId,
        older: Option<BatchId>,
        tables: &[AppendTo],
    ) -> Result<Option<Vec<(TableId, SeqTxn)>>> {
        let mut known = Vec::new();
        for to in tables {
            let AppendTarget::Existing { id, name, .. } = &to.target else {
                continue;
            };
            let applied = self.by_id(*id).and_then(|it| it.manifest.batch_of_name(batch.name()));
            match applied {
                Some(applied) if applied.id != batch && Some(applied.id) != older => {
                    return Err(Error::BatchReused { table: name.clone() });
                }
                Some(applied) => known.push((*id, applied.seq_txn)),
                None => {}
            }
        }
        if known.is_empty() {
            return Ok(None);
        }
        let seq_txn = |id: TableId| {
            let found = known.iter().find(|(known, _)| *known == id);
            (id, found.map_or(SeqTxn(0), |(_, seq_txn)| *seq_txn))
        };
        let ids = tables.iter().map(|to| match &to.target {
            AppendTarget::New(new) => new.directory.table(),
            AppendTarget::Existing { id, .. } => *id,
        });
        Ok(Some(ids.map(seq_txn).collect()))
    }

    fn plan_appends(&self, append: &Append) -> Result<Vec<TableOp>> {
        let ops = append.tables.iter().map(|to| self.plan_append(append.batch, to));
        Ok(ops.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn plan_append(&self, batch: Option<BatchId>, to: &AppendTo) -> Result<Vec<TableOp>> {
        let (mut ops, table, seq_txn) = match &to.target {
            AppendTarget::New(new) => {
                let create = self.plan_create(new)?;
                let (table, seq_txn) = (create.table, create.seq_txn);
                (vec![create], table, seq_txn)
            }
            AppendTarget::Existing { id, name, version, altered } => {
                let table = self.by_id(*id);
                let table = table.ok_or_else(|| Error::TableDropped { table: name.clone() })?;
                table.check_takes_rows()?;
                if table.manifest.schema.version() != *version {
                    return Err(Error::SchemaChanged { table: name.clone() });
                }
                let alter = altered.iter().map(|schema| {
                    self.next_op(table, TableChange::Alter { schema: Arc::clone(schema) })
                });
                (alter.collect(), *id, self.next_number(table))
            }
        };
        ops.extend(self.plan_deletes(table, &to.deletes)?);
        let known = self.by_id(table);
        let is_logged = |column: &ColumnId| {
            known.and_then(|table| table.logged.get(column).copied()).unwrap_or_default()
        };
        let symbols = to.symbols.iter().filter_map(|(column, dictionary)| {
            let (first, end) = (is_logged(column), symbol_count(dictionary));
            let texts = || dictionary.texts_between(first, end);
            (first < end).then(|| SymbolTexts { column: *column, first, texts: texts() })
        });
        let commit = |MemSegment { meta, bytes }: &MemSegment| {
            let meta = SegmentMeta { seq_first: seq_txn, seq_last: seq_txn, ..*meta };
            MemSegment { meta, bytes: Arc::clone(bytes) }
        };
        if to.mem_segments.is_empty() {
            return Ok(ops);
        }
        let (symbols, mem_segments) =
            (symbols.collect(), to.mem_segments.iter().map(commit).collect());
        let change = TableChange::Append { batch, mem_segments, symbols };
        ops.push(TableOp { table, seq_txn, change });
        Ok(ops)
    }

    /// Checks that no commit before this one has changed rows that its transaction has read
    /// (transaction-5); those of the same group are among them (commit_plan-1).
    fn check_reads(&self, append: &Append) -> Result<()> {
        let is_changed = |read: &&TableRead| match self.by_id(read.table) {
            Some(table) => read.rows_changed_at < table.rows_changed_at,
            None => append.ddl.new_table(read.table).is_none(),
        };
        match append.reads.iter().find(is_changed) {
            Some(read) => Err(Error::ReadRowsChanged { table: read.name.clone() }),
            None => Ok(()),
        }
    }

    /// Checks that no commit before this one has added rows to a table that gets columns with
    /// defaults (transaction-6). `after` has the tables with the changes of the transaction.
    fn check_filled(&self, ddl: &PendingDdl, after: &PendingTables<'_>) -> Result<()> {
        for FilledTable { table, seq_txn } in ddl.0.iter().filter_map(|step| step.filled) {
            let Some(known) = self.by_id(table).filter(|_| after.by_id(table).is_some()) else {
                continue;
            };
            let segments = known.manifest.segments.iter().map(|entry| &entry.meta);
            let runs = known.memtable.runs().iter().map(|run| &run.meta);
            if segments.chain(runs).any(|meta| seq_txn < meta.seq_last) {
                return Err(Error::RowsAdded { table: known.name.clone() });
            }
        }
        Ok(())
    }

    fn plan_deletes(&self, id: TableId, deletes: &Deletes) -> Result<Vec<TableOp>> {
        let Some(table) = self.by_id(id) else { return Ok(Vec::new()) };
        let mut ops = self.plan_deletion_vectors(table, &deletes.deletion_vectors)?;
        if let Some(replace) = &deletes.replace {
            ops.push(self.plan_replace(replace)?);
        }
        Ok(ops)
    }

    fn plan_deletion_vectors(
        &self,
        table: &TableState,
        deletion_vectors: &[NewDeletionVector],
    ) -> Result<Vec<TableOp>> {
        let deletion_vector = |new: &NewDeletionVector| {
            let known = table.manifest.segment(new.segment).map(|entry| entry.deletion_vector);
            if known != Some(new.replaces) {
                let (table, segment) = (table.name.clone(), new.segment.0);
                return Err(Error::SegmentChanged { table, segment });
            }
            let deletion_vector =
                DeletionVectorMeta { seq_txn: self.next_number(table), ..new.meta };
            Ok(self.next_op(
                table,
                TableChange::DeletionVector { segment: new.segment, deletion_vector },
            ))
        };
        deletion_vectors.iter().map(deletion_vector).collect()
    }

    fn plan_replace(&self, replace: &Replace) -> Result<TableOp> {
        let Replace { name, out, memtable, segments, symbols, .. } = replace;
        let table = self.by_id(replace.table);
        let table = table.ok_or_else(|| Error::TableDropped { table: name.clone() })?;
        for (id, deletion_vector) in out {
            if table.manifest.segment(*id).map(|entry| entry.deletion_vector)
                != Some(*deletion_vector)
            {
                return Err(Error::SegmentChanged { table: name.clone(), segment: id.0 });
            }
        }
        if !table.memtable.begins_with(memtable) {
            return Err(changed(name, memtable));
        }
        let last = memtable.iter().map(|run| run.meta.seq_last).max();
        let flushed_seq = table.manifest.flushed_seq.max(last.unwrap_or(SeqTxn(0)));
        let left = &table.memtable.runs()[memtable.len()..];
        assert!(
            left.iter().all(|run| run.meta.seq_first > flushed_seq),
            "whole commits are flushed"
        );
        let schema = &table.manifest.schema;
        // A column may have been dropped while the segments were written.
        let symbols = symbols.iter().filter(|(column, _)| schema.column(*column).is_some());
        let change = TableChange::Replace {
            out: out.iter().map(|(id, _)| *id).collect(),
            flushed_seq,
            segments: segments.clone(),
            symbols: symbols.copied().collect(),
        };
        Ok(self.next_op(table, change))
    }

    fn plan_create(&self, new: &NewTable) -> Result<TableOp> {
        if let Some(known) = self.by_name(&new.name) {
            known.check_known()?;
            return Err(known.exists(&new.name));
        }
        self.plan_new(new)
    }

    /// As `plan_create`, even if the name is taken.
    fn plan_new(&self, new: &NewTable) -> Result<TableOp> {
        check_name(&new.name)?;
        // Tables dropped in this group still count, which is a negligible difference.
        let created = self.changes.tables.keys().filter(|id| !self.base.by_id.contains_key(id));
        if self.base.by_id.len() + created.count() >= limits::TABLES {
            return Err(Error::TooManyTables);
        }
        let change =
            TableChange::Create { name: new.name.clone(), schema: Arc::clone(&new.schema) };
        Ok(TableOp { table: new.directory.table(), seq_txn: SeqTxn(1), change })
    }

    fn plan_import(&self, import: &Import) -> Result<Vec<TableOp>> {
        let (mut ops, table, seq_txn, name) = match &import.target {
            Target::New(new) => {
                let replaced = self.by_name(&new.name).filter(|_| import.replaces);
                if let Some(view) = replaced.filter(|table| table.is_view()) {
                    view.check_takes_rows()?;
                }
                let dropped = replaced.map(|table| self.next_op(table, TableChange::Drop));
                let create = match dropped {
                    Some(_) => self.plan_new(new)?,
                    None => self.plan_create(new)?,
                };
                let (table, seq_txn) = (create.table, create.seq_txn);
                (dropped.into_iter().chain([create]).collect(), table, seq_txn, &new.name)
            }
            Target::Existing { id, columns } => {
                let table = self.unchanged(id, columns)?;
                let heeded = import.keys.as_deref();
                if heeded.is_some_and(|keys| keys != table.manifest.schema.dedup()) {
                    return Err(Error::SchemaChanged { table: id.name.clone() });
                }
                let deletes = self.plan_deletes(table.id(), &import.deletes)?;
                (deletes, table.id(), self.next_number(table), &id.name)
            }
        };
        let known = self.by_id(table).map_or(&[][..], |table| table.manifest.segments.as_slice());
        let partitions = known.iter().map(|entry| &entry.meta).chain(&import.segments);
        check_partitions(name, partitions)?;
        let commit =
            |meta: &SegmentMeta| SegmentMeta { seq_first: seq_txn, seq_last: seq_txn, ..*meta };
        let segments: Vec<SegmentMeta> = import.segments.iter().map(commit).collect();
        if !segments.is_empty() {
            let schema = self.by_id(table).map(|table| &table.manifest.schema);
            // A column may have been dropped since, which is fine if it was not needed.
            let is_known = |column| schema.is_none_or(|schema| schema.column(column).is_some());
            let symbols = import.symbols.iter().filter(|(column, _)| is_known(*column));
            let symbols = symbols.copied().collect();
            let change = TableChange::AddSegments { segments, symbols };
            ops.push(TableOp { table, seq_txn, change });
        }
        Ok(ops)
    }

    /// Checks that an import has the columns that its table has after changes, and replaces all of
    /// its rows.
    fn check_as_read(
        &self,
        import: &Import,
        other_rows: OtherRows,
        version: SchemaVersion,
    ) -> Result<()> {
        let Target::Existing { id, .. } = &import.target else { return Ok(()) };
        let Some(table) = self.by_id(id.table) else { return Ok(()) };
        if table.manifest.schema.version() != version {
            return Err(Error::SchemaChanged { table: id.name.clone() });
        }
        let out = import.deletes.replace.iter().flat_map(|replace| &replace.out);
        let out: BTreeSet<SegmentId> = out.map(|(id, _)| *id).collect();
        let mut left = table.manifest.segments.iter().filter(|it| !out.contains(&it.meta.id));
        match left.next().map(|entry| entry.meta.id) {
            Some(segment) if other_rows == OtherRows::AreRefused => {
                Err(Error::SegmentChanged { table: id.name.clone(), segment: segment.0 })
            }
            None if other_rows == OtherRows::AreRefused && !table.memtable.runs().is_empty() => {
                Err(changed(&id.name, table.memtable.runs()))
            }
            _ => Ok(()),
        }
    }

    /// The table that an import is based on, if its rows still fit.
    fn unchanged(&self, id: &SnapshotId, columns: &RowColumns) -> Result<&Arc<TableState>> {
        let table = self.by_id(id.table);
        let table = table.ok_or_else(|| Error::TableDropped { table: id.name.clone() })?;
        if table.truncated_at > id.seq_txn {
            return Err(Error::TableTruncated { table: id.name.clone() });
        }
        columns.check(&id.name, &table.manifest.schema)?;
        Ok(table)
    }

    /// Applies the planned changes of `request`.
    pub(crate) fn apply(&mut self, request: &CommitRequest, ops: &[TableOp]) {
        for op in ops {
            self.apply_op(request, op);
            let is_of_rows = matches!(
                op.change,
                TableChange::AddSegments { .. }
                    | TableChange::DeletionVector { .. }
                    | TableChange::Append { .. }
                    | TableChange::Replace { .. }
            );
            self.changes.ddl_count += u64::from(!is_of_rows);
        }
        if let Some((table, memtable)) = self.other_memtable(request) {
            let known = self.by_id(table).expect("commit_plan-1: planned on these tables");
            let changed = Arc::new(known.with_memtable(memtable));
            self.changes.tables.insert(table, Some(changed));
        }
    }

    fn apply_op(&mut self, request: &CommitRequest, op: &TableOp) {
        if let TableChange::Create { name, schema } = &op.change {
            let new = new_table(request, op.table).expect("commit_plan-1: planned for this table");
            let manifest = Manifest::new(op.table, op.seq_txn, Arc::clone(schema));
            let table = TableState::new(Arc::clone(&new.directory), name.clone(), manifest);
            self.changes.names.insert(fold_name(name), Some(op.table));
            self.changes.tables.insert(op.table, Some(Arc::new(table)));
            return;
        }
        let table =
            Arc::clone(self.by_id(op.table).expect("commit_plan-1: planned on these tables"));
        for obsolete in table.manifest.obsoleted_by(&op.change) {
            self.changes.obsolete.push((Arc::clone(&table), obsolete));
        }
        match &op.change {
            TableChange::Drop => {
                self.changes.names.insert(fold_name(&table.name), None);
                self.changes.tables.insert(op.table, None);
                self.changes.dropped.push(table);
            }
            change => {
                if let TableChange::Rename { name } = change {
                    self.changes.names.insert(fold_name(&table.name), None);
                    self.changes.names.insert(fold_name(name), Some(op.table));
                }
                let rows = matches!(change, TableChange::Append { .. })
                    .then(|| new_rows(request, op.table, self.lsn));
                let mut changed =
                    table.changed(op.seq_txn, change, rows).expect("commit_plan-1: planned for it");
                if changes_rows(request, change) {
                    changed.rows_changed_at = op.seq_txn;
                }
                self.changes.tables.insert(op.table, Some(Arc::new(changed)));
            }
        }
    }
}

/// Returns true if a change of a request changes or removes rows that were there before it.
fn changes_rows(request: &CommitRequest, change: &TableChange) -> bool {
    match change {
        TableChange::DeletionVector { .. } | TableChange::Truncate => true,
        // Writers of rows replace segments only to delete rows of them.
        TableChange::Replace { .. } => {
            !matches!(request, CommitRequest::Replace(Replace { keeps_rows: true, .. }))
        }
        _ => false,
    }
}

/// The rows that a commit request adds to a table.
fn new_rows(request: &CommitRequest, id: TableId, lsn: Lsn) -> NewRows<'_> {
    let CommitRequest::Append(append) = request else { unreachable!("only this request appends") };
    let to = append.tables.iter().find(|to| to.table() == id);
    let files = &to.expect("commit_plan-1: planned for this table").files;
    NewRows { files, origin: Origin { lsn, since_nanos: append.since_nanos } }
}

fn symbol_count(dictionary: &SymbolTable) -> u32 {
    u32::try_from(dictionary.len()).expect("limits::SYMBOLS")
}

/// The error for runs of a memtable that no longer exist.
fn changed(table: &str, runs: &[Arc<MemtableRun>]) -> Error {
    let segment = runs.first().map_or(0, |run| run.meta.id.0);
    Error::SegmentChanged { table: table.to_owned(), segment }
}

fn check_partitions<'a>(
    table: &str,
    segments: impl Iterator<Item = &'a SegmentMeta> + Clone,
) -> Result<()> {
    // Counting partitions takes time, and few tables have as many segments.
    if segments.clone().count() <= limits::PARTITIONS {
        return Ok(());
    }
    let mut partitions: Vec<_> = segments.map(|meta| meta.partition).collect();
    partitions.sort_unstable();
    partitions.dedup();
    let count = partitions.len();
    if count > limits::PARTITIONS {
        return Err(Error::TooManyPartitions { table: table.to_owned(), count });
    }
    Ok(())
}

/// The tables of changes, in order.
pub(crate) fn tables_of(ops: &[TableOp]) -> Vec<TableId> {
    ops.iter().map(|op| op.table).collect()
}

/// The name of the relation that a change affects.
/// The error of a change that fitted the tables when it was made, and fits no longer (`pending`
/// pending-2): its names were free, and its tables and columns there.
fn unfitting(error: Error, request: &CommitRequest) -> Error {
    match error {
        Error::TableExists { table: name } | Error::ViewExists { view: name } => {
            Error::NameTaken { name }
        }
        Error::NoSuchTable { table }
        | Error::IsView { view: table }
        | Error::NotAView { table } => Error::TablesChanged { table },
        Error::Schema(
            SchemaError::DuplicateColumn { name: column }
            | SchemaError::NoSuchColumn { name: column },
        ) => Error::ColumnsChanged { table: relation_of(request), column },
        error => error,
    }
}

fn relation_of(request: &CommitRequest) -> String {
    match request {
        CommitRequest::RenameTable { from: name, .. }
        | CommitRequest::Alter { table: name, .. } => name.clone(),
        CommitRequest::DropTables { names, .. } => names.join("`, `"),
        CommitRequest::CreateTable(new) | CommitRequest::CreateView { new, .. } => new.name.clone(),
        _ => String::new(),
    }
}
