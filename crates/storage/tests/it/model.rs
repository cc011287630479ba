//! A simple model of a database: tables as lists of rows, and reading a real database into it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use tidegate_model::{ColumnType, PartitionKey, SeqTxn};
use tidegate_platform::SimDisk;
use tidegate_storage::segment::RowSelection;
use tidegate_storage::{
    AppendOptions, BatchId, Database, ImportTarget, NewColumns, PendingDdl, Relations, Result,
    RowBatch, Run, SchemaEdit, SegmentDeletes, SegmentRun, Snapshot, SnapshotDeletes, TableAppend,
    TableDdl, TransactionCommit,
};

use crate::fixture::{self, DAY, DIR, Row, columns, schema, try_open};

/// All tables by name.
pub(crate) type Tables = BTreeMap<String, Table>;

/// A table: its columns with their types, and its rows in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<(String, ColumnType)>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
    /// True if new rows replace those with the same timestamp and host.
    pub(crate) has_keys: bool,
    /// The query of a view.
    pub(crate) view: Option<String>,
    /// The comment on the table, and those on columns by name.
    pub(crate) comments: BTreeMap<Option<String>, String>,
}

/// An action on a database.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create(&'static str),
    /// Creates a view with this query, or replaces the query of a view.
    View(&'static str, &'static str),
    DropViews(Vec<&'static str>),
    /// Sets the comment on a table or a column; an empty one removes it.
    Comment(&'static str, Option<&'static str>, &'static str),
    ImportNew(&'static str, Vec<Row>),
    Import(&'static str, Vec<Row>),
    /// An import that is aborted.
    Abort(&'static str, Vec<Row>),
    Drop(Vec<&'static str>),
    Rename(&'static str, &'static str),
    Truncate(&'static str),
    AddColumn(&'static str, &'static str, ColumnType),
    DropColumn(&'static str, &'static str),
    RenameColumn(&'static str, &'static str, &'static str),
    /// Removes the rows with this value.
    Delete(&'static str, i64),
    /// Removes the rows with this value and adds others, batch after batch, with one commit.
    Change(&'static str, i64, Vec<Vec<Row>>),
    /// Appends rows to several tables, with one more column if one is named; creates tables and
    /// columns.
    Append(Vec<(&'static str, Vec<Row>, Option<&'static str>)>),
    /// The same as a named batch, which is applied once even if it is sent again.
    Batch(u64, Vec<(&'static str, Vec<Row>, Option<&'static str>)>),
    /// Changes of tables, and rows of the resulting tables, in one commit.
    Transaction(Vec<Step>, Vec<(&'static str, Vec<Row>)>),
    /// Adds a million to a value.
    Update(&'static str, i64),
    /// Drops the partition of a day.
    DropPartition(&'static str, i64),
    /// Sets timestamp and host as keys of DEDUP, or removes the keys.
    Keys(&'static str, bool),
    Flush(&'static str),
    Compact(&'static str),
    Maintain,
    Checkpoint,
    Sync,
    Reopen,
}

impl Step {
    /// Runs the step on a database; `Reopen` is for the caller.
    pub(crate) fn run(&self, database: &Arc<Database>) -> Result<()> {
        match self {
            Step::Create(table) => database.create_table(table, schema()).map(drop),
            Step::View(name, query) => database.replace_view(name, fixture::view(query)),
            Step::DropViews(views) => database.drop_views(views),
            Step::Comment(table, column, text) => database.set_comment(table, *column, Some(text)),
            Step::ImportNew(name, rows) => {
                let target = ImportTarget::New { name, schema: schema() };
                fixture::import_into(database, target, rows).map(drop)
            }
            Step::Import(table, rows) => fixture::import(database, table, rows).map(drop),
            Step::Abort(table, rows) => {
                let txn = database.begin_import(ImportTarget::Existing(table))?;
                fixture::write(&txn, rows).map(drop)
            }
            Step::Drop(tables) => database.drop_tables(tables),
            Step::Rename(from, to) => database.rename_table(from, to),
            Step::Truncate(table) => database.truncate_table(table),
            Step::AddColumn(table, name, ty) => {
                database.add_columns(table, &columns(&[(name, *ty)]))
            }
            Step::DropColumn(table, name) => database.drop_columns(table, &[name]),
            Step::RenameColumn(table, from, to) => database.rename_column(table, from, to),
            Step::Delete(table, value) => delete(database, table, *value),
            Step::Change(table, value, batches) => {
                let (snapshot, deleted) = find(database, table, *value)?;
                let batches: Vec<_> =
                    batches.iter().map(|rows| fixture::batch(rows, None)).collect();
                change(database, &snapshot, &deleted, &batches).map(drop)
            }
            Step::Append(tables) | Step::Batch(_, tables) => {
                let appends = tables
                    .iter()
                    .map(|(table, rows, extra)| fixture::append_of(table, rows, *extra));
                let appends: Vec<_> = appends.collect();
                let batch_id = match self {
                    Step::Batch(id, _) => {
                        Some(BatchId([id.to_le_bytes(); 2].concat().try_into().unwrap()))
                    }
                    _ => None,
                };
                database.append(&appends, &AppendOptions { batch_id, older_id: None }).map(drop)
            }
            Step::Transaction(changes, appends) => transaction(database, changes, appends),
            Step::Update(table, value) => update(database, table, *value),
            Step::DropPartition(table, day) => {
                let partitions = [PartitionKey(day * DAY)].into_iter().collect();
                database.drop_partitions(table, &partitions).map(drop)
            }
            Step::Keys(table, true) => database.set_dedup_keys(table, &["ts", "host"]),
            Step::Keys(table, false) => database.set_dedup_keys(table, &[]),
            Step::Flush(table) => database.flush_table(table),
            Step::Compact(table) => database.compact_table(table),
            Step::Maintain => database.maintain().map(drop),
            Step::Checkpoint => database.checkpoint(),
            Step::Sync => database.sync(),
            Step::Reopen => Ok(()),
        }
    }

    /// The DDL of a step in a transaction.
    fn ddl(&self) -> TableDdl {
        let alter = |table: &&str, edit| TableDdl::Alter { table: (*table).to_owned(), edit };
        match self {
            Step::Create(name) => {
                TableDdl::CreateTable { name: (*name).to_owned(), schema: schema() }
            }
            Step::Drop(names) => {
                let names = names.iter().map(|&name| name.to_owned()).collect();
                TableDdl::Drop { names, kind: Relations::Tables }
            }
            Step::Rename(from, to) => {
                TableDdl::Rename { from: (*from).to_owned(), to: (*to).to_owned() }
            }
            Step::AddColumn(table, name, ty) => {
                let columns = columns(&[(name, *ty)]);
                alter(table, SchemaEdit::Add(NewColumns { columns, ..NewColumns::default() }))
            }
            Step::DropColumn(table, name) => {
                alter(table, SchemaEdit::Drop(vec![(*name).to_owned()]))
            }
            Step::Keys(table, has_keys) => {
                let keys = if *has_keys { &["ts", "host"][..] } else { &[] };
                let keys = keys.iter().map(|&key| key.to_owned()).collect();
                alter(table, SchemaEdit::Dedup(keys))
            }
            step => panic!("{step:?} is no part of a transaction"),
        }
    }

    /// Applies the step to the model.
    pub(crate) fn apply(&self, tables: &mut Tables) {
        let new = || Table {
            columns: schema().columns().iter().map(|c| (c.name.clone(), c.ty)).collect(),
            ..Table::default()
        };
        match self {
            Step::Create(table) => drop(tables.insert((*table).to_owned(), new())),
            Step::ImportNew(name, rows) => {
                let mut table = new();
                table.append(rows);
                tables.insert((*name).to_owned(), table);
            }
            Step::View(name, query) => {
                let view = tables.entry((*name).to_owned()).or_insert_with(new);
                view.view = Some((*query).to_owned());
            }
            Step::Comment(table, column, text) => {
                tables.get_mut(*table).unwrap().comment(*column, text);
            }
            Step::Import(table, rows) => tables.get_mut(*table).unwrap().append(rows),
            Step::Drop(names) | Step::DropViews(names) => {
                tables.retain(|name, _| !names.contains(&name.as_str()))
            }
            Step::Rename(from, to) => {
                let table = tables.remove(*from).unwrap();
                tables.insert((*to).to_owned(), table);
            }
            Step::Truncate(table) => tables.get_mut(*table).unwrap().rows.clear(),
            Step::AddColumn(table, name, ty) => {
                let table = tables.get_mut(*table).unwrap();
                table.columns.push(((*name).to_owned(), *ty));
                table.rows.iter_mut().for_each(|row| row.push(None));
            }
            Step::DropColumn(table, name) => tables.get_mut(*table).unwrap().drop_column(name),
            Step::RenameColumn(table, from, to) => {
                tables.get_mut(*table).unwrap().rename_column(from, to);
            }
            Step::Delete(table, value) => {
                let table = tables.get_mut(*table).unwrap();
                let (at, value) = (table.position("value"), Some(value.to_string()));
                table.rows.retain(|row| row[at] != value);
            }
            Step::Change(name, value, batches) => {
                Step::Delete(name, *value).apply(tables);
                let table = tables.get_mut(*name).unwrap();
                batches.iter().for_each(|rows| table.append_with(rows, None));
            }
            Step::Append(appends) | Step::Batch(_, appends) => {
                for (name, rows, extra) in appends {
                    let table = tables.entry((*name).to_owned()).or_default();
                    table.add_missing(*extra);
                    table.append_with(rows, *extra);
                }
            }
            Step::Transaction(changes, appends) => commit(tables, changes, appends),
            Step::Update(table, value) => tables.get_mut(*table).unwrap().update(*value),
            Step::DropPartition(table, day) => {
                let table = tables.get_mut(*table).unwrap();
                table.rows.retain(|row| timestamp(row).div_euclid(DAY) != *day);
            }
            Step::Keys(table, has_keys) => tables.get_mut(*table).unwrap().has_keys = *has_keys,
            Step::Abort(..)
            | Step::Flush(_)
            | Step::Compact(_)
            | Step::Maintain
            | Step::Checkpoint
            | Step::Sync
            | Step::Reopen => {}
        }
    }
}

impl Table {
    fn drop_column(&mut self, name: &str) {
        let at = self.position(name);
        self.columns.remove(at);
        self.comments.remove(&Some(name.to_owned()));
        self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }

    fn rename_column(&mut self, from: &str, to: &str) {
        let at = self.position(from);
        to.clone_into(&mut self.columns[at].0);
        if let Some(comment) = self.comments.remove(&Some(from.to_owned())) {
            self.comments.insert(Some(to.to_owned()), comment);
        }
    }

    fn comment(&mut self, column: Option<&str>, text: &str) {
        let column = column.map(str::to_owned);
        match text.is_empty() {
            true => drop(self.comments.remove(&column)),
            false => drop(self.comments.insert(column, text.to_owned())),
        }
    }

    fn position(&self, name: &str) -> usize {
        self.columns.iter().position(|(known, _)| known == name).unwrap()
    }

    fn update(&mut self, value: i64) {
        let (at, wanted) = (self.position("value"), Some(value.to_string()));
        if let Some(found) = self.rows.iter().position(|row| row[at] == wanted) {
            let old = self.rows.remove(found);
            if self.has_keys {
                let host = self.position("host");
                self.rows.retain(|row| row[0] != old[0] || row[host].is_some());
            }
            let mut row = vec![None; self.columns.len()];
            row[0].clone_from(&old[0]);
            row[at] = Some((value + 1_000_000).to_string());
            self.rows.push(row);
            self.rows.sort_by_key(|row| timestamp(row));
        }
    }

    /// Appends rows; those of a later commit follow those with the same timestamp.
    fn append(&mut self, rows: &[Row]) {
        for (ts, host, value) in rows {
            let cell = |(_, ty): &(String, ColumnType)| match ty {
                ColumnType::Timestamp(_) => Some(ts.to_string()),
                ColumnType::Symbol => Some((*host).to_owned()),
                ColumnType::Int64 => Some(value.to_string()),
                _ => None,
            };
            let row = self.columns.iter().map(cell).collect();
            self.replace_keys(*ts, host);
            self.rows.push(row);
        }
        self.rows.sort_by_key(|row| timestamp(row));
    }

    fn replace_keys(&mut self, ts: i64, host: &str) {
        if self.has_keys {
            let at = self.position("host");
            let keys = (Some(ts.to_string()), Some(host.to_owned()));
            self.rows.retain(|row| (&row[0], &row[at]) != (&keys.0, &keys.1));
        }
    }

    /// Adds the column of a batch that the table lacks.
    fn add_missing(&mut self, extra: Option<&str>) {
        let of_batch = schema();
        let of_batch = of_batch.columns().iter().map(|c| (c.name.as_str(), c.ty));
        for (name, ty) in of_batch.chain(extra.map(|name| (name, ColumnType::Int64))) {
            if !self.columns.iter().any(|(known, _)| known == name) {
                self.columns.push((name.to_owned(), ty));
                self.rows.iter_mut().for_each(|row| row.push(None));
            }
        }
    }

    fn append_with(&mut self, rows: &[Row], extra: Option<&str>) {
        for (ts, host, value) in rows {
            let cell = |(name, _): &(String, ColumnType)| match name.as_str() {
                "ts" => Some(ts.to_string()),
                "host" => Some((*host).to_owned()),
                "value" => Some(value.to_string()),
                name => (extra == Some(name)).then(|| (value * 10).to_string()),
            };
            let row = self.columns.iter().map(cell).collect();
            self.replace_keys(*ts, host);
            self.rows.push(row);
        }
        self.rows.sort_by_key(|row| timestamp(row));
    }
}

fn timestamp(row: &[Option<String>]) -> i64 {
    // The timestamp column is the first, and cannot be dropped.
    row[0].as_ref().unwrap().parse().unwrap()
}

fn transaction(
    database: &Arc<Database>,
    changes: &[Step],
    appends: &[(&'static str, Vec<Row>)],
) -> Result<()> {
    let mut ddl = PendingDdl::default();
    for change in changes {
        ddl.push(database, change.ddl())?;
    }
    let visible = database.visible(&ddl);
    let append = |(table, rows): &(&'static str, Vec<Row>)| {
        let id = Some(visible.table_id(table).unwrap());
        TableAppend { id, create: None, ..fixture::append_of(table, rows, None) }
    };
    let appends = appends.iter().map(append);
    let appends = appends.map(|append| TableAppend { add_columns: false, ..append }).collect();
    database.commit_transaction(&TransactionCommit { ddl, appends, ..TransactionCommit::default() })
}

fn commit(tables: &mut Tables, changes: &[Step], appends: &[(&'static str, Vec<Row>)]) {
    changes.iter().for_each(|change| change.apply(tables));
    for (name, rows) in appends {
        tables.get_mut(*name).unwrap().append_with(rows, None);
    }
}

/// Finds the rows with this value.
fn find(
    database: &Database,
    table: &str,
    value: i64,
) -> Result<(Arc<Snapshot>, Vec<SegmentDeletes>)> {
    // Rows of a memtable have no deletion vector.
    database.flush_table(table)?;
    let snapshot = database.snapshot(table)?;
    let deleted = rows_with(&snapshot, value)?;
    Ok((snapshot, deleted))
}

/// Deletes rows that were found in a snapshot and adds others, in one commit.
pub(crate) fn change(
    database: &Arc<Database>,
    snapshot: &Snapshot,
    deleted: &[SegmentDeletes],
    batches: &[RowBatch],
) -> Result<SeqTxn> {
    let mut txn = database.begin_change(ImportTarget::Existing(&snapshot.name))?;
    batches.iter().try_for_each(|rows| txn.add(rows))?;
    txn.commit(Some(SnapshotDeletes { snapshot, rows: &mut deleted.iter().cloned() }))
}

fn delete(database: &Arc<Database>, table: &str, value: i64) -> Result<()> {
    let (snapshot, deleted) = find(database, table, value)?;
    change(database, &snapshot, &deleted, &[]).map(drop)
}

fn update(database: &Arc<Database>, table: &str, value: i64) -> Result<()> {
    let (snapshot, deleted) = find(database, table, value)?;
    let Some(found) = deleted.first() else { return Ok(()) };
    let run = snapshot.segments().find(|run| run.meta.id == found.segment).unwrap();
    let old = rows_of_segment(&snapshot, run)?.swap_remove(usize::try_from(found.rows[0]).unwrap());
    let rows = fixture::batch(&[(timestamp(&old), "", value + 1_000_000)], None).into_columns();
    let without_host = rows.into_iter().filter(|column| column.name != "host").collect();
    change(database, &snapshot, &deleted, &[RowBatch::new(1, without_host)]).map(drop)
}

fn rows_with(snapshot: &Snapshot, value: i64) -> Result<Vec<SegmentDeletes>> {
    let at = snapshot.schema.columns().iter().position(|c| c.name == "value").unwrap();
    let mut deleted = Vec::new();
    for run in snapshot.segments() {
        let rows = rows_of_segment(snapshot, run)?.into_iter().enumerate();
        let is_live = |row| {
            run.deletion_vector
                .as_ref()
                .is_none_or(|deletion_vector| deletion_vector.is_live(row as u64))
        };
        let rows =
            rows.filter(|(row, cells)| cells[at] == Some(value.to_string()) && is_live(*row));
        let rows: Vec<u64> = rows.map(|(row, _)| row as u64).collect();
        if !rows.is_empty() {
            deleted.push(SegmentDeletes { segment: run.meta.id, rows });
        }
    }
    Ok(deleted)
}

/// The content of a database as the model.
pub(crate) fn read(database: &Database) -> Tables {
    let tables = database.tables();
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let snapshots = database.snapshots(&names).unwrap();
    snapshots.iter().map(|snapshot| (snapshot.name.clone(), read_table(snapshot))).collect()
}

pub(crate) fn read_table(snapshot: &Snapshot) -> Table {
    let columns = snapshot.schema.columns().iter().map(|c| (c.name.clone(), c.ty)).collect();
    let has_keys = !snapshot.schema.dedup().is_empty();
    let view = snapshot.schema.view().map(|view| view.query.clone());
    let schema_comments = snapshot.schema.comments();
    let of_table = schema_comments.table.iter().map(|text| (None, text.clone()));
    let of_columns = schema_comments
        .columns
        .iter()
        .map(|(id, text)| (Some(snapshot.schema.column(*id).unwrap().name.clone()), text.clone()));
    let comments = of_table.chain(of_columns).collect();
    let mut table = Table { columns, rows: Vec::new(), has_keys, view, comments };
    for group in &snapshot.groups {
        let mut rows = Vec::new();
        for Run::Segment(run) in &group.runs {
            assert!(run.rows().0 > 0, "vectors-1: segment {} has no rows", run.meta.id);
            let all = rows_of_segment(snapshot, run).unwrap().into_iter().enumerate();
            let is_live = |row| {
                run.deletion_vector
                    .as_ref()
                    .is_none_or(|deletion_vector| deletion_vector.is_live(row as u64))
            };
            rows.extend(all.filter(|&(row, _)| is_live(row)).map(|(_, row)| row));
        }
        // snapshot-2 of `snapshot`: a stable sort keeps the order of the runs.
        rows.sort_by_key(|row| timestamp(row));
        table.rows.extend(rows);
    }
    assert!(table.rows.is_sorted_by_key(|row| timestamp(row)), "snapshot-1");
    assert_eq!(table.rows.len() as u64, snapshot.rows().0);
    table
}

fn rows_of_segment(snapshot: &Snapshot, run: &SegmentRun) -> Result<Vec<Vec<Option<String>>>> {
    let reader = run.reader()?;
    let mut rows = Vec::new();
    for frame in 0..reader.frame_count() {
        let count = reader.frame_rows(frame);
        let columns = snapshot.schema.columns();
        let arrays =
            reader.arrays(frame, &RowSelection::Range(0..count), columns, &snapshot.symbols)?;
        rows.extend((0..count).map(|row| arrays.iter().map(|array| cell(array, row)).collect()));
    }
    Ok(rows)
}

fn cell(array: &ArrayRef, row: usize) -> Option<String> {
    if array.is_null(row) {
        return None;
    }
    if let Some(values) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        return Some(values.value(row).to_string());
    }
    if let Some(values) = array.as_primitive_opt::<Int64Type>() {
        return Some(values.value(row).to_string());
    }
    Some(array.as_string_view().value(row).to_owned())
}

/// Asserts that a database equals the model, is undamaged, and has no other files on disk.
#[track_caller]
pub(crate) fn check(disk: &SimDisk, database: &Database, expected: &Tables, context: &str) {
    assert_eq!(&read(database), expected, "{context}");
    let report = database.verify(&|_| {}).unwrap();
    assert!(report.problems.is_empty(), "{context}: {:?}", report.problems);
    assert_no_garbage(disk, database, context);
}

/// Opens a database and asserts that it equals the model.
#[track_caller]
pub(crate) fn check_reopened(disk: &SimDisk, expected: &Tables, context: &str) {
    let database = try_open(disk).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    check(disk, &database, expected, context);
}

/// Asserts that every file is in use. Files dropped since the open may still exist.
#[track_caller]
pub(crate) fn assert_no_garbage(disk: &SimDisk, database: &Database, context: &str) {
    let mut named = BTreeSet::new();
    let mut tables = BTreeSet::new();
    for table in database.tables() {
        let snapshot = database.snapshot(&table.name).unwrap();
        tables.insert(table.id.to_string());
        let stored = snapshot.segments().filter(|run| !run.is_in_memory());
        named.extend(stored.map(|run| run.path().to_path_buf()));
    }
    let mut found = BTreeSet::new();
    for (path, _) in disk.files() {
        let parts: Vec<&str> =
            path.strip_prefix(DIR).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
        let is_fine = match parts[..] {
            ["lock"] | ["data", "catalog" | "catalog.copy"] => true,
            ["wal", name] => name == "head" || name.ends_with(".wal"),
            // The catalog may still name the file.
            ["kept", name] => name.ends_with(".kept"),
            ["data", table, "manifest"] => tables.contains(table),
            ["data", table, "symbols", name] => tables.contains(table) && name.ends_with(".sym"),
            ["data", table, _, name] if name.ends_with(".mask") => tables.contains(table),
            ["data", _, _, name] if name.ends_with(".seg") => {
                found.insert(path.clone());
                true
            }
            _ => false,
        };
        assert!(is_fine, "{context}: {} is named by nobody", path.display());
    }
    let garbage: Vec<&PathBuf> = found.symmetric_difference(&named).collect();
    assert!(garbage.is_empty(), "{context}: {garbage:?}");
}
