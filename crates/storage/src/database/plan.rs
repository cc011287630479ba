//! What a commit does, decided without I/O: from a wish and the tables as they are to the changes
//! that the record will carry.
//!
//! - P1. A wish is planned on top of all that were planned before it in the same group, and of
//!   nothing that is not durable or in that group.
//! - P2. A wish that is refused changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{
    ColumnId, ColumnType, Schema, SchemaError, SegmentId, SeqTxn, TableId, limits,
};

use super::folder::TableFolder;
use super::table::TableState;
use crate::catalog::{check_name, fold_name};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, MaskMark, Obsolete};
use crate::segment::SegmentMeta;
use crate::symbols::SymbolMark;
use crate::wal::{TableChange, TableOp};

/// What somebody wants to commit.
#[derive(Debug)]
pub(crate) enum Wish {
    CreateTable(NewTable),
    Import(Import),
    DropTables { names: Vec<String> },
    RenameTable { from: String, to: String },
    Truncate { table: String },
    Alter { table: String, edit: SchemaEdit },
    Mask { snapshot: SnapshotId, masks: Vec<NewMask> },
}

/// A table that does not exist yet.
#[derive(Debug, Clone)]
pub(crate) struct NewTable {
    pub(crate) folder: Arc<TableFolder>,
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
}

/// Segments that are on disk already.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) target: Target,
    pub(crate) segments: Vec<SegmentMeta>,
    pub(crate) symbols: Vec<(ColumnId, SymbolMark)>,
}

/// Where they go.
#[derive(Debug)]
pub(crate) enum Target {
    New(NewTable),
    /// The table as it was when the import began.
    Existing {
        id: SnapshotId,
        schema: Arc<Schema>,
    },
}

/// Which version of which table somebody has read.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotId {
    pub(crate) table: TableId,
    pub(crate) name: String,
    pub(crate) seq_txn: SeqTxn,
}

/// A mask that is on disk already.
#[derive(Debug)]
pub(crate) struct NewMask {
    pub(crate) segment: SegmentId,
    /// Its `seq_txn` is set by the commit.
    pub(crate) mark: MaskMark,
    /// The mask that it was made from.
    pub(crate) replaces: Option<MaskMark>,
}

/// A change of a table's columns.
#[derive(Debug)]
pub(crate) enum SchemaEdit {
    Add(Vec<(String, ColumnType)>),
    Drop(Vec<String>),
    Rename { from: String, to: String },
}

/// All tables as of a position in the log.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) by_id: BTreeMap<TableId, Arc<TableState>>,
    /// By folded name.
    pub(crate) by_name: BTreeMap<String, TableId>,
}

/// What the wishes of a group come to, on top of the tables as they are.
#[derive(Debug)]
pub(crate) struct Overlay<'a> {
    base: &'a Tables,
    changes: Changes,
}

/// What becomes of the tables when a group is durable.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// `None` for a table that was dropped.
    pub(crate) tables: BTreeMap<TableId, Option<Arc<TableState>>>,
    /// `None` for a name that is free now.
    pub(crate) names: BTreeMap<String, Option<TableId>>,
    /// Files that are needed no more, with the last version of the table that had them.
    pub(crate) obsolete: Vec<(Arc<TableState>, Obsolete)>,
    pub(crate) dropped: Vec<Arc<TableState>>,
    /// How many of the wishes were about more than rows.
    pub(crate) ddl_count: u64,
}

impl Tables {
    /// The table with this name, in any case.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<TableState>> {
        self.by_id.get(self.by_name.get(&fold_name(name))?)
    }
}

impl SchemaEdit {
    fn apply(&self, schema: &Schema) -> Result<Schema, SchemaError> {
        let schema = schema.clone();
        match self {
            SchemaEdit::Add(columns) => {
                columns.iter().try_fold(schema, |schema, (name, ty)| schema.with_column(name, *ty))
            }
            SchemaEdit::Drop(names) => {
                names.iter().try_fold(schema, |schema, name| schema.without_column(name))
            }
            SchemaEdit::Rename { from, to } => schema.with_renamed_column(from, to),
        }
    }
}

impl<'a> Overlay<'a> {
    pub(crate) fn new(base: &'a Tables) -> Overlay<'a> {
        Overlay { base, changes: Changes::default() }
    }

    pub(crate) fn into_changes(self) -> Changes {
        self.changes
    }

    fn by_id(&self, id: TableId) -> Option<&Arc<TableState>> {
        match self.changes.tables.get(&id) {
            Some(changed) => changed.as_ref(),
            None => self.base.by_id.get(&id),
        }
    }

    fn by_name(&self, name: &str) -> Option<&Arc<TableState>> {
        let name = fold_name(name);
        let id = match self.changes.names.get(&name) {
            Some(changed) => *changed,
            None => self.base.by_name.get(&name).copied(),
        };
        self.by_id(id?)
    }

    fn existing(&self, name: &str) -> Result<&Arc<TableState>> {
        self.by_name(name).ok_or_else(|| Error::NoSuchTable { table: name.to_owned() })
    }

    /// The changes that fulfil a wish (P2).
    pub(crate) fn plan(&self, wish: &Wish) -> Result<Vec<TableOp>> {
        match wish {
            Wish::CreateTable(new) => Ok(vec![self.plan_create(new)?]),
            Wish::Import(import) => self.plan_import(import),
            Wish::DropTables { names } => {
                let tables = names.iter().map(|name| self.existing(name));
                let mut ops: Vec<TableOp> = Vec::new();
                for table in tables {
                    let op = next_op(table?, TableChange::Drop);
                    if !ops.contains(&op) {
                        ops.push(op);
                    }
                }
                Ok(ops)
            }
            Wish::RenameTable { from, to } => {
                let table = self.existing(from)?;
                check_name(to)?;
                if self.by_name(to).is_some_and(|other| other.id() != table.id()) {
                    return Err(Error::TableExists { table: to.clone() });
                }
                Ok(vec![next_op(table, TableChange::Rename { name: to.clone() })])
            }
            Wish::Truncate { table } => {
                Ok(vec![next_op(self.existing(table)?, TableChange::Truncate)])
            }
            Wish::Alter { table, edit } => {
                let table = self.existing(table)?;
                let schema = Arc::new(edit.apply(&table.manifest.schema)?);
                Ok(vec![next_op(table, TableChange::Alter { schema })])
            }
            Wish::Mask { snapshot, masks } => self.plan_mask(snapshot, masks),
        }
    }

    fn plan_create(&self, new: &NewTable) -> Result<TableOp> {
        check_name(&new.name)?;
        if self.by_name(&new.name).is_some() {
            return Err(Error::TableExists { table: new.name.clone() });
        }
        // Tables dropped in this group still count, which nobody will notice.
        let created = self.changes.tables.keys().filter(|id| !self.base.by_id.contains_key(id));
        if self.base.by_id.len() + created.count() >= limits::TABLES {
            return Err(Error::TooManyTables);
        }
        let change =
            TableChange::Create { name: new.name.clone(), schema: Arc::clone(&new.schema) };
        Ok(TableOp { table: new.folder.table(), seq_txn: SeqTxn(1), change })
    }

    fn plan_import(&self, import: &Import) -> Result<Vec<TableOp>> {
        let (mut ops, table, seq_txn, name) = match &import.target {
            Target::New(new) => {
                let create = self.plan_create(new)?;
                let (table, seq_txn) = (create.table, create.seq_txn);
                (vec![create], table, seq_txn, &new.name)
            }
            Target::Existing { id, schema } => {
                let table = self.unchanged(id, schema)?;
                (Vec::new(), table.id(), table.manifest.seq_txn.next(), &id.name)
            }
        };
        let known = self.by_id(table).map_or(&[][..], |table| &table.manifest.segments);
        let partitions = known.iter().map(|entry| &entry.meta).chain(&import.segments);
        check_partitions(name, partitions)?;
        let commit =
            |meta: &SegmentMeta| SegmentMeta { seq_first: seq_txn, seq_last: seq_txn, ..*meta };
        let segments: Vec<SegmentMeta> = import.segments.iter().map(commit).collect();
        if !segments.is_empty() {
            let symbols = import.symbols.clone();
            let change = TableChange::AddSegments { segments, symbols };
            ops.push(TableOp { table, seq_txn, change });
        }
        Ok(ops)
    }

    /// The table that an import began with, if its rows still fit.
    fn unchanged(&self, id: &SnapshotId, schema: &Schema) -> Result<&Arc<TableState>> {
        let table = self.by_id(id.table);
        let table = table.ok_or_else(|| Error::TableDropped { table: id.name.clone() })?;
        if table.truncated_at > id.seq_txn {
            return Err(Error::TableTruncated { table: id.name.clone() });
        }
        let mut columns = schema.columns().iter();
        match columns.find(|column| table.manifest.schema.column(column.id).is_none()) {
            None => Ok(table),
            Some(column) => {
                let (table, column) = (id.name.clone(), column.name.clone());
                Err(Error::ColumnDropped { table, column })
            }
        }
    }

    fn plan_mask(&self, id: &SnapshotId, masks: &[NewMask]) -> Result<Vec<TableOp>> {
        let table = self.by_id(id.table);
        let table = table.ok_or_else(|| Error::TableDropped { table: id.name.clone() })?;
        masks
            .iter()
            .map(|new| {
                let known = table.manifest.segment(new.segment).map(|entry| entry.mask);
                if known != Some(new.replaces) {
                    let (table, segment) = (id.name.clone(), new.segment.0);
                    return Err(Error::SegmentChanged { table, segment });
                }
                let mask = MaskMark { seq_txn: table.manifest.seq_txn.next(), ..new.mark };
                Ok(next_op(table, TableChange::Mask { segment: new.segment, mask }))
            })
            .collect()
    }

    /// Applies what was planned, of which `wish` is the origin.
    pub(crate) fn apply(&mut self, wish: &Wish, ops: &[TableOp]) {
        for op in ops {
            self.apply_op(wish, op);
        }
        if !matches!(wish, Wish::Import(Import { target: Target::Existing { .. }, .. }))
            && !matches!(wish, Wish::Mask { .. })
        {
            self.changes.ddl_count += 1;
        }
    }

    fn apply_op(&mut self, wish: &Wish, op: &TableOp) {
        if let TableChange::Create { name, schema } = &op.change {
            let (Wish::CreateTable(new) | Wish::Import(Import { target: Target::New(new), .. })) =
                wish
            else {
                unreachable!("only these wishes create a table")
            };
            let manifest = Manifest::new(op.table, op.seq_txn, Arc::clone(schema));
            let table = TableState::new(Arc::clone(&new.folder), name.clone(), manifest);
            self.changes.names.insert(fold_name(name), Some(op.table));
            self.changes.tables.insert(op.table, Some(Arc::new(table)));
            return;
        }
        let table = Arc::clone(self.by_id(op.table).expect("P1: planned on these tables"));
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
                let changed = table.changed(op.seq_txn, change).expect("P1: planned for it");
                self.changes.tables.insert(op.table, Some(Arc::new(changed)));
            }
        }
    }
}

fn next_op(table: &TableState, change: TableChange) -> TableOp {
    TableOp { table: table.id(), seq_txn: table.manifest.seq_txn.next(), change }
}

fn check_partitions<'a>(
    table: &str,
    segments: impl Iterator<Item = &'a SegmentMeta> + Clone,
) -> Result<()> {
    // Counting costs time, and few tables have as many segments.
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
