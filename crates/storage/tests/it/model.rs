//! The obvious database: tables as lists of rows, and how to read a real one like that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use tidegate_model::ColumnType;
use tidegate_platform::SimDisk;
use tidegate_storage::segment::PickedRows;
use tidegate_storage::{Database, ImportTarget, MaskedRows, Result, Run, SegmentRun, Snapshot};

use crate::fixture::{self, DIR, Row, columns, schema, try_open};

/// All tables by name.
pub(crate) type Tables = BTreeMap<String, Table>;

/// A table: its columns with their types, and its rows in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<(String, ColumnType)>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
}

/// Something that somebody does to a database.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create(&'static str),
    ImportNew(&'static str, Vec<Row>),
    Import(&'static str, Vec<Row>),
    /// An import that is given up.
    Abort(&'static str, Vec<Row>),
    Drop(Vec<&'static str>),
    Rename(&'static str, &'static str),
    Truncate(&'static str),
    AddColumn(&'static str, &'static str, ColumnType),
    DropColumn(&'static str, &'static str),
    RenameColumn(&'static str, &'static str, &'static str),
    /// Removes the rows with this value.
    Delete(&'static str, i64),
    Checkpoint,
    Reopen,
}

impl Step {
    /// Does it to a database; `Reopen` is for the caller.
    pub(crate) fn run(&self, database: &Arc<Database>) -> Result<()> {
        match self {
            Step::Create(table) => database.create_table(table, schema()).map(drop),
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
            Step::Checkpoint => database.checkpoint(),
            Step::Reopen => Ok(()),
        }
    }

    /// Does it to the model.
    pub(crate) fn apply(&self, tables: &mut Tables) {
        let new = || Table {
            columns: schema().columns().iter().map(|c| (c.name.clone(), c.ty)).collect(),
            rows: Vec::new(),
        };
        match self {
            Step::Create(table) => drop(tables.insert((*table).to_owned(), new())),
            Step::ImportNew(name, rows) => {
                let mut table = new();
                table.append(rows);
                tables.insert((*name).to_owned(), table);
            }
            Step::Import(table, rows) => tables.get_mut(*table).unwrap().append(rows),
            Step::Drop(names) => tables.retain(|name, _| !names.contains(&name.as_str())),
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
            Step::DropColumn(table, name) => {
                let table = tables.get_mut(*table).unwrap();
                let at = table.position(name);
                table.columns.remove(at);
                table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
            Step::RenameColumn(table, from, to) => {
                let table = tables.get_mut(*table).unwrap();
                let at = table.position(from);
                (*to).clone_into(&mut table.columns[at].0);
            }
            Step::Delete(table, value) => {
                let table = tables.get_mut(*table).unwrap();
                let (at, value) = (table.position("value"), Some(value.to_string()));
                table.rows.retain(|row| row[at] != value);
            }
            Step::Abort(..) | Step::Checkpoint | Step::Reopen => {}
        }
    }
}

impl Table {
    fn position(&self, name: &str) -> usize {
        self.columns.iter().position(|(known, _)| known == name).unwrap()
    }

    /// Rows of a later commit stand behind those with the same timestamp.
    fn append(&mut self, rows: &[Row]) {
        for (ts, host, value) in rows {
            let cell = |(_, ty): &(String, ColumnType)| match ty {
                ColumnType::Timestamp(_) => Some(ts.to_string()),
                ColumnType::Symbol => Some((*host).to_owned()),
                ColumnType::Int64 => Some(value.to_string()),
                _ => None,
            };
            self.rows.push(self.columns.iter().map(cell).collect());
        }
        self.rows.sort_by_key(|row| timestamp(row));
    }
}

fn timestamp(row: &[Option<String>]) -> i64 {
    row[0].as_ref().unwrap().parse().unwrap()
}

fn delete(database: &Database, table: &str, value: i64) -> Result<()> {
    let snapshot = database.snapshot(table)?;
    let at = snapshot.schema.columns().iter().position(|c| c.name == "value").unwrap();
    let mut gone = Vec::new();
    for run in snapshot.segments() {
        let rows = rows_of_segment(&snapshot, run)?.into_iter().enumerate();
        let rows = rows.filter(|(_, row)| row[at] == Some(value.to_string()));
        let rows: Vec<u64> = rows.map(|(row, _)| row as u64).collect();
        if !rows.is_empty() {
            gone.push(MaskedRows { segment: run.meta.id, rows });
        }
    }
    database.mask_rows(&snapshot, &gone).map(drop)
}

/// What a database holds.
pub(crate) fn read(database: &Database) -> Tables {
    let tables = database.tables();
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let snapshots = database.snapshots(&names).unwrap();
    snapshots.iter().map(|snapshot| (snapshot.name.clone(), read_table(snapshot))).collect()
}

pub(crate) fn read_table(snapshot: &Snapshot) -> Table {
    let columns = snapshot.schema.columns().iter().map(|c| (c.name.clone(), c.ty)).collect();
    let mut table = Table { columns, rows: Vec::new() };
    for group in &snapshot.groups {
        let mut rows = Vec::new();
        for Run::Segment(run) in &group.runs {
            let all = rows_of_segment(snapshot, run).unwrap().into_iter().enumerate();
            let is_live = |row| run.mask.as_ref().is_none_or(|mask| mask.is_live(row as u64));
            rows.extend(all.filter(|&(row, _)| is_live(row)).map(|(_, row)| row));
        }
        // R2 of `snapshot`: a stable sort keeps the order of the runs.
        rows.sort_by_key(|row| timestamp(row));
        table.rows.extend(rows);
    }
    assert!(table.rows.is_sorted_by_key(|row| timestamp(row)), "R1");
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
            reader.arrays(frame, &PickedRows::Range(0..count), columns, &snapshot.symbols)?;
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

/// Asserts that a database holds what the model holds, is undamaged, and nothing else is on disk.
#[track_caller]
pub(crate) fn check(disk: &SimDisk, database: &Database, expected: &Tables, context: &str) {
    assert_eq!(&read(database), expected, "{context}");
    let report = database.verify(&|_| {}).unwrap();
    assert!(report.problems.is_empty(), "{context}: {:?}", report.problems);
    assert_no_litter(disk, database, context);
}

/// Opens a database and asserts that it holds what the model holds.
#[track_caller]
pub(crate) fn check_reopened(disk: &SimDisk, expected: &Tables, context: &str) {
    let database = try_open(disk).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    check(disk, &database, expected, context);
}

/// Every file is named by somebody. What was dropped since the open may still be there.
#[track_caller]
pub(crate) fn assert_no_litter(disk: &SimDisk, database: &Database, context: &str) {
    let mut named = BTreeSet::new();
    let mut tables = BTreeSet::new();
    for table in database.tables() {
        let snapshot = database.snapshot(&table.name).unwrap();
        tables.insert(table.id.to_string());
        named.extend(snapshot.segments().map(|run| run.path().to_path_buf()));
    }
    let mut found = BTreeSet::new();
    for (path, _) in disk.files() {
        let parts: Vec<&str> =
            path.strip_prefix(DIR).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
        let is_fine = match parts[..] {
            ["lock"] | ["data", "catalog"] => true,
            ["wal", name] => name.ends_with(".wal"),
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
    let litter: Vec<&PathBuf> = found.symmetric_difference(&named).collect();
    assert!(litter.is_empty(), "{context}: {litter:?}");
}
