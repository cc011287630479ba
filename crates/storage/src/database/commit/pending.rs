//! Uncommitted changes of tables in a transaction, and the tables as the transaction sees them.
//!
//! - pending-1. A transaction sees the current tables with its own changes on top: they are planned
//!   anew each time, in their order, and nothing is written.
//! - pending-2. A change applies to the tables that it applied to when it was made. If another
//!   session has dropped or replaced one of them, taken a name, or added or dropped one of the
//!   columns of the change, the transaction fails, and says so.
//! - pending-3. A table that a transaction creates has its id from the beginning; an id is not
//!   reused if the transaction is rolled back.
//!
//! Not here: the commit of the changes (`transaction`).

use std::sync::Arc;

use tidegate_model::{ColumnId, Schema, TableId, limits};

use super::ddl::{NewColumns, SchemaEdit, TableDdl};
use super::plan::{PendingTables, tables_of};
use super::request::{CommitRequest, DdlStep, FilledTable, PendingDdl};
use crate::database::table::state::TableState;
use crate::database::{Database, TableDescription, TableEntry};
use crate::error::{Error, Result};
use crate::snapshot::Snapshot;

/// Attempts to read tables that other commits keep changing.
const ATTEMPTS: usize = 32;

impl PendingDdl {
    /// Adds a change, and returns its tables.
    ///
    /// # Errors
    /// As [`Database::define`]; [`Error::TooManyChanges`]; and if one of the changes so far no
    /// longer fits the tables (pending-2). Then nothing is added.
    pub fn push(&mut self, database: &Database, ddl: TableDdl) -> Result<Vec<TableId>> {
        database.begin_writing()?;
        if limits::TRANSACTION_DDL <= self.0.len() {
            return Err(Error::TooManyChanges);
        }
        let Some(request) = database.ddl_request(ddl) else { return Ok(Vec::new()) };
        let published = database.published();
        let mut base = PendingTables::new(&published.tables, published.lsn);
        base.plan_ddl(self)?;
        let tables = tables_of(&base.step(&request)?);
        let of_others = tables.first().and_then(|id| published.tables.by_id.get(id));
        let added = added_columns(&request);
        let filled = of_others
            .filter(|_| added.is_some_and(|added| !added.defaults.is_empty()))
            .map(|table| FilledTable { table: table.id(), seq_txn: table.manifest.seq_txn });
        let first_added = of_others
            .filter(|_| added.is_some())
            .map(|table| (table.id(), table.manifest.schema.next_column()));
        self.0.push(Arc::new(DdlStep { request, tables: tables.clone(), filled, first_added }));
        Ok(tables)
    }

    /// As [`VisibleTables::provisional_from`].
    fn provisional_from(&self, table: TableId) -> Option<ColumnId> {
        let mut added = self.0.iter().filter_map(|step| step.first_added);
        added.find(|(id, _)| *id == table).map(|(_, first)| first)
    }
}

/// The columns that a change adds to a table.
fn added_columns(request: &CommitRequest) -> Option<&NewColumns> {
    match request {
        CommitRequest::Alter { edit: SchemaEdit::Add(added), .. } => Some(added),
        _ => None,
    }
}

/// The tables of a database as a transaction sees them (pending-1).
#[derive(Debug)]
pub struct VisibleTables<'a> {
    database: &'a Database,
    pending: PendingDdl,
}

impl<'a> VisibleTables<'a> {
    /// The tables of a database with changes that are not committed.
    pub(crate) fn new(database: &'a Database, pending: PendingDdl) -> VisibleTables<'a> {
        VisibleTables { database, pending }
    }

    /// The database, whose tables do not include the changes.
    #[must_use]
    pub fn database(&self) -> &'a Database {
        self.database
    }

    /// The least id of a column of a table that may have another one after the commit: those of the
    /// columns that the changes add, if other sessions are first to add some. `None` if no change
    /// adds columns to a table of others.
    #[must_use]
    pub fn provisional_from(&self, table: TableId) -> Option<ColumnId> {
        self.pending.provisional_from(table)
    }

    /// Checks that the changes still fit the tables (pending-2).
    ///
    /// # Errors
    /// If they do not.
    pub fn check(&self) -> Result<()> {
        self.with(|_| Ok(()))
    }

    /// The tables, sorted by name. If the changes no longer fit (pending-2), none are visible
    /// through this and the other functions without errors; reading one returns the error.
    #[must_use]
    pub fn tables(&self) -> Vec<TableEntry> {
        let entry =
            |table: &Arc<TableState>| TableEntry { id: table.id(), name: table.name.clone() };
        self.look(|tables| Some(tables.all().into_iter().map(entry).collect())).unwrap_or_default()
    }

    /// The id of a table by its name, without regard to case.
    #[must_use]
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        self.look(|tables| Some(tables.by_name(name)?.id()))
    }

    /// The name of a table, in the case it was created with; `None` if there is no table with this
    /// id.
    #[must_use]
    pub fn table_name(&self, id: TableId) -> Option<String> {
        self.look(|tables| Some(tables.by_id(id)?.name.clone()))
    }

    /// The columns of a table; `None` if there is no such table, or it is suspended: then an
    /// attempt to create one fails with the reason.
    #[must_use]
    pub fn schema_of(&self, name: &str) -> Option<Arc<Schema>> {
        self.look(|tables| schema_of(tables.by_name(name)?))
    }

    /// The columns of a table by its id.
    #[must_use]
    pub fn schema_of_id(&self, id: TableId) -> Option<Arc<Schema>> {
        self.look(|tables| schema_of(tables.by_id(id)?))
    }

    /// A snapshot of a table by its name, without regard to case.
    ///
    /// # Errors
    /// If there is no such table, its symbols or deletion vectors cannot be read, or changes of
    /// tables no longer fit (pending-2).
    pub fn snapshot(&self, table: &str) -> Result<Arc<Snapshot>> {
        let mut snapshots = self.snapshots(&[table])?;
        Ok(snapshots.pop().expect("one table, one snapshot"))
    }

    /// Snapshots of several tables, all as of one moment.
    ///
    /// # Errors
    /// As `snapshot`.
    pub fn snapshots(&self, names: &[&str]) -> Result<Vec<Arc<Snapshot>>> {
        self.with_tables(names, &|found| found.iter().map(|table| table.snapshot()).collect())
    }

    /// As `snapshots`, followed by the tables that views among them read, at any depth, as of the
    /// same moment and each once. Missing tables are left out (`model::view` model_view-1).
    ///
    /// # Errors
    /// As `snapshot`.
    pub fn snapshots_and_read(&self, names: &[&str]) -> Result<Vec<Arc<Snapshot>>> {
        let find_all = |tables: &PendingTables<'_>| {
            let mut found = find_each(tables, names)?;
            let mut at = 0;
            while let Some(state) = found.get(at).map(Arc::clone) {
                let reads = state.manifest.schema.view().map_or(&[][..], |view| &view.reads);
                for read in reads {
                    let table = tables.by_id(read.table).or_else(|| tables.by_name(&read.name));
                    let is_known = |table: &&Arc<TableState>| {
                        found.iter().any(|known| known.id() == table.id())
                    };
                    if let Some(table) = table.filter(|table| !is_known(table)) {
                        found.push(Arc::clone(table));
                    }
                }
                at += 1;
            }
            Ok(found)
        };
        self.read(&find_all, &|found| found.iter().map(|table| table.snapshot()).collect())
    }

    /// The description of a table for the system catalog: a damaged table is described as far as
    /// possible, so that other tables stay visible.
    ///
    /// # Errors
    /// If there is no such table, or changes of tables no longer fit (pending-2).
    pub fn describe(&self, table: &str) -> Result<TableDescription> {
        let readable = || {
            let snapshot = self.snapshot(table)?;
            self.existing(table)?.check_listed(self.database.options.sync_threads)?;
            Ok(snapshot)
        };
        match readable() {
            Ok(snapshot) => Ok(TableDescription { snapshot, damage: None }),
            Err(error @ (Error::NoSuchTable { .. } | Error::TablesChanged { .. })) => Err(error),
            Err(error) => {
                let snapshot = Arc::new(self.existing(table)?.described());
                Ok(TableDescription { snapshot, damage: Some(error) })
            }
        }
    }

    /// A table by its name, which must exist.
    pub(crate) fn existing(&self, name: &str) -> Result<Arc<TableState>> {
        self.with(|tables| tables.existing(name).map(Arc::clone))
    }

    /// A table by its id.
    pub(crate) fn state(&self, id: TableId) -> Result<Option<Arc<TableState>>> {
        self.with(|tables| Ok(tables.by_id(id).map(Arc::clone)))
    }

    /// A table by its name.
    pub(crate) fn state_of(&self, name: &str) -> Result<Option<Arc<TableState>>> {
        self.with(|tables| Ok(tables.by_name(name).map(Arc::clone)))
    }

    /// Runs a function on the current tables.
    fn with<T>(&self, look: impl FnOnce(&PendingTables<'_>) -> Result<T>) -> Result<T> {
        let published = self.database.published();
        let mut tables = PendingTables::new(&published.tables, published.lsn);
        tables.plan_ddl(&self.pending)?;
        look(&tables)
    }

    fn look<T>(&self, look: impl FnOnce(&PendingTables<'_>) -> Option<T>) -> Option<T> {
        self.with(|tables| Ok(look(tables))).ok().flatten()
    }

    /// Runs an action on tables as of one moment. If it fails and one of them has changed
    /// meanwhile, it is repeated: its files may have been those of an older version.
    pub(crate) fn with_tables<T>(
        &self,
        names: &[&str],
        action: &dyn Fn(&[Arc<TableState>]) -> Result<T>,
    ) -> Result<T> {
        self.read(&|tables| find_each(tables, names), action)
    }

    /// The same for tables that are found by a function.
    fn read<T>(
        &self,
        find: &dyn Fn(&PendingTables<'_>) -> Result<Vec<Arc<TableState>>>,
        action: &dyn Fn(&[Arc<TableState>]) -> Result<T>,
    ) -> Result<T> {
        let mut found = self.with(find)?;
        for _ in 0..ATTEMPTS {
            let outcome = action(&found);
            if outcome.is_ok() {
                return outcome;
            }
            let now = self.with(find)?;
            // Tables with changes of the transaction are made anew each time, so their numbers are
            // compared.
            let is_same = |(now, found): (&Arc<TableState>, &Arc<TableState>)| {
                let number = |table: &TableState| (table.id(), table.manifest.seq_txn);
                Arc::ptr_eq(now, found) || !self.pending.is_empty() && number(now) == number(found)
            };
            if now.len() == found.len() && now.iter().zip(&found).all(is_same) {
                return outcome;
            }
            found = now;
        }
        action(&found)
    }
}

fn schema_of(table: &Arc<TableState>) -> Option<Arc<Schema>> {
    table.damage().is_none().then(|| Arc::clone(&table.manifest.schema))
}

fn find_each(tables: &PendingTables<'_>, names: &[&str]) -> Result<Vec<Arc<TableState>>> {
    names.iter().map(|name| tables.existing(name).map(Arc::clone)).collect()
}
