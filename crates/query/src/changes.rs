//! The uncommitted changes of a session, which others do not see: rows and tables of its open
//! transaction, and its temporary tables.
//!
//! - They are in memory only. COMMIT makes all of them durable and visible with one WAL record, or
//!   none of them; temporary tables end with their session.
//! - changes-1. Their rows take at most `HELD_BYTES_MAX`, those of temporary tables `TEMP_BYTES`,
//!   together with all that is kept because of them, and are counted in the memory of queries as
//!   long as a savepoint or a statement refers to them.
//! - A clone keeps its state: a savepoint is a clone, and a statement works on one, so that the
//!   statement is applied as a whole or not at all. A clone costs nothing until one of the two is
//!   changed.
//! - Rows are for the table that had the name when they were inserted: if it is dropped, COMMIT
//!   fails, and a new table of the same name gets none of them.
//!
//! Not here: a table as statements of its session see it (`changes::overlay`), and the batches
//! (`changes::batch`).

mod account;
pub(crate) mod batch_builder;
pub(crate) mod batch;
pub(crate) mod deleted_rows;
mod overlay;
mod commit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use tidegate_model::{Column, ColumnId, Schema, SchemaVersion, SegmentId, TableId, limits};
use tidegate_storage::{
    Database, DeletionVector, Error as StorageError, NewColumns, PendingDdl, SchemaEdit,
    SegmentDeletes, SegmentPin, Snapshot, TableDdl,
};

use crate::error::{Error, Result};
use crate::parse::Name;
use account::Charge;
use batch::HeldBatch;
use overlay::OverlayCache;

use crate::names::TEMPORARY_SCHEMA;
use crate::parse::create::OnCommit;
pub(crate) use account::RowAccount;

/// The first number of temporary tables: far from those of a database, and still an OID.
const FIRST_TABLE: u64 = 3 << 30;
/// The number of table numbers before they repeat.
const TABLE_NUMBERS: u64 = 1 << 29;

/// Approximate bytes of a session's table without its columns, and below of a column besides its
/// name.
const TABLE_BYTES: usize = 2 << 10;
const COLUMN_BYTES: usize = 256;

/// The changes of one session; clones share their unchanged parts.
#[derive(Debug, Clone)]
pub(crate) struct Changes {
    /// The changes by table number; temporary tables are among them.
    tables: Arc<BTreeMap<TableId, Arc<TableChanges>>>,
    /// DDL that COMMIT executes.
    ddl: PendingDdl,
    /// The memory of that DDL.
    ddl_charges: Vec<Arc<Charge>>,
    /// Temporary tables, by their folded names.
    temporary: Arc<BTreeMap<String, Arc<TemporaryTable>>>,
    rows: Arc<RowAccount>,
    temporary_rows: Arc<RowAccount>,
    /// The number of the transaction: the changes of another one never replace these.
    epoch: u64,
}

/// A temporary table, or a view, which has no rows.
#[derive(Debug)]
pub(crate) struct TemporaryTable {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
    on_commit: OnCommit,
    /// A snapshot without rows.
    empty: Arc<Snapshot>,
    /// The memory of its name and its columns.
    _charge: Charge,
}

/// The changes of one table.
#[derive(Debug, Clone)]
struct TableChanges {
    id: TableId,
    name: String,
    account: Arc<RowAccount>,
    /// In the order of statements.
    batches: Vec<Arc<HeldBatch>>,
    /// The columns without which the rows would not be valid.
    needed: BTreeSet<ColumnId>,
    /// Deletion vectors of the committed segments that lose rows.
    deleted: BTreeMap<SegmentId, Arc<DeletionVector>>,
    deleted_charge: Option<Arc<Charge>>,
    /// The schema version when rows were first deleted.
    found_in: Option<SchemaVersion>,
    /// Keeps segments with deleted rows where they are.
    pin: Option<Arc<SegmentPin>>,
    /// A number that every change replaces.
    stamp: u64,
    cache: Arc<Mutex<OverlayCache>>,
}

/// Numbers that are given once: of temporary tables, of batches and of changes.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// A table that rows are added to.
#[derive(Debug, Clone)]
pub(crate) struct TableRef {
    pub(crate) id: TableId,
    pub(crate) name: String,
}

impl TableRef {
    pub(crate) fn of(snapshot: &Snapshot) -> TableRef {
        TableRef { id: snapshot.table, name: snapshot.name.clone() }
    }
}

impl TableChanges {
    fn new(table: &TableRef, account: &Arc<RowAccount>) -> TableChanges {
        TableChanges {
            id: table.id,
            name: table.name.clone(),
            account: Arc::clone(account),
            batches: Vec::new(),
            needed: BTreeSet::new(),
            deleted: BTreeMap::new(),
            deleted_charge: None,
            found_in: None,
            pin: None,
            stamp: next_number(),
            cache: Arc::default(),
        }
    }

    /// Adds a batch after the existing ones.
    fn push(&mut self, batch: &Arc<HeldBatch>) -> Result<()> {
        self.stamp = next_number();
        let mut next = Arc::clone(batch);
        while let Some(last) = self.batches.last().filter(|last| last.takes(&next)) {
            next = Arc::new(last.joined(&next, &self.account)?);
            self.batches.pop();
        }
        self.batches.push(next);
        Ok(())
    }

    /// Gives rows the columns that the table has now: new columns are NULL.
    fn alter(&mut self, old: &Schema, new: &Arc<Schema>) -> Result<()> {
        let altered = |batch: &Arc<HeldBatch>| match batch.schema.version() == old.version() {
            true => batch.altered(new, &self.account).map(Arc::new),
            // COMMIT reports that another session has altered the table.
            false => Ok(Arc::clone(batch)),
        };
        self.batches = self.batches.iter().map(altered).collect::<Result<_>>()?;
        if self.found_in == Some(old.version()) {
            self.found_in = Some(new.version());
        }
        self.stamp = next_number();
        self.cache = Arc::default();
        Ok(())
    }

    /// Deletes rows of `seen`, a snapshot from `overlay`, or of the table without changes.
    fn remove(
        &mut self,
        seen: &Arc<Snapshot>,
        rows: impl Iterator<Item = SegmentDeletes>,
        pin: Option<&Arc<SegmentPin>>,
    ) -> Result<()> {
        let (own, of_table) = self.split(seen, rows);
        self.stamp = next_number();
        if !own.is_empty() {
            let batches = std::mem::take(&mut self.batches);
            for batch in batches {
                self.batches.extend(batch.without(&own, &self.account)?);
            }
        }
        if of_table.is_empty() {
            return Ok(());
        }
        let runs = seen.segments().map(|run| (run.meta.id, run.meta.rows));
        let sizes: BTreeMap<_, _> = runs.chain(self.committed_sizes(seen)).collect();
        for (segment, rows) in of_table {
            let size = *sizes.get(&segment).expect("rows are of the snapshot");
            let left = DeletionVector::new(size, &rows);
            let left = self.deleted.get(&segment).map_or_else(|| left.clone(), |it| it.and(&left));
            self.deleted.insert(segment, Arc::new(left));
        }
        let bytes = self.deleted.values().map(|mask| mask.bytes()).sum();
        self.deleted_charge = Some(Arc::new(self.account.charge(bytes)?));
        self.found_in.get_or_insert(seen.schema.version());
        self.pin = pin.map(Arc::clone).or(self.pin.take());
        Ok(())
    }
}

/// Approximate bytes of a session's table, without its rows.
fn table_bytes(name: &str, schema: &Schema) -> usize {
    let names = schema.columns().iter().map(|column| column.name.len() + COLUMN_BYTES);
    let query = schema.view().map_or(0, |view| view.query.len());
    TABLE_BYTES + name.len() + query + names.sum::<usize>()
}

/// Approximate bytes of a DDL change until COMMIT.
fn ddl_bytes(ddl: &TableDdl) -> usize {
    match ddl {
        TableDdl::CreateTable { name, schema } | TableDdl::CreateView { name, schema, .. } => {
            table_bytes(name, schema)
        }
        TableDdl::Alter { edit: SchemaEdit::Add(NewColumns { columns, .. }), .. } => {
            TABLE_BYTES + columns.iter().map(|(name, _)| name.len() + COLUMN_BYTES).sum::<usize>()
        }
        TableDdl::Alter { edit: SchemaEdit::Comment { text: Some(text), .. }, .. } => {
            TABLE_BYTES + text.len()
        }
        TableDdl::Drop { names, .. } => TABLE_BYTES + names.len() * COLUMN_BYTES,
        TableDdl::Rename { .. } | TableDdl::Alter { .. } => TABLE_BYTES,
    }
}

impl TemporaryTable {
    fn new(
        name: &str,
        schema: Schema,
        on_commit: OnCommit,
        account: &Arc<RowAccount>,
    ) -> Result<TemporaryTable> {
        let _charge = account.charge(table_bytes(name, &schema))?;
        let (id, schema) = (TableId(FIRST_TABLE + next_number() % TABLE_NUMBERS), Arc::new(schema));
        let empty = Arc::new(Snapshot::of_no_rows(id, name, &schema));
        Ok(TemporaryTable { id, name: name.to_owned(), schema, on_commit, empty, _charge })
    }

    pub(crate) fn is_view(&self) -> bool {
        self.schema.view().is_some()
    }

    /// The same table under another name, or with other columns.
    fn changed(
        &self,
        name: &str,
        schema: Schema,
        account: &Arc<RowAccount>,
    ) -> Result<TemporaryTable> {
        let _charge = account.charge(table_bytes(name, &schema))?;
        let (id, schema, on_commit) = (self.id, Arc::new(schema), self.on_commit);
        let empty = Arc::new(Snapshot::of_no_rows(id, name, &schema));
        Ok(TemporaryTable { id, name: name.to_owned(), schema, on_commit, empty, _charge })
    }
}

fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// The rest of a name after the schema of temporary tables.
fn of_temporary(name: &str) -> Option<&str> {
    name.strip_prefix(TEMPORARY_SCHEMA)?.strip_prefix('.')
}

impl Changes {
    pub(crate) fn new() -> Changes {
        Changes {
            tables: Arc::default(),
            ddl: PendingDdl::default(),
            ddl_charges: Vec::new(),
            temporary: Arc::default(),
            rows: Arc::new(RowAccount::of_transaction()),
            temporary_rows: Arc::new(RowAccount::of_temporary_tables()),
            epoch: next_number(),
        }
    }

    /// The same changes at the beginning of another transaction.
    pub(crate) fn begun(&self) -> Changes {
        Changes { epoch: next_number(), ..self.clone() }
    }

    /// The number of the transaction that it is of.
    pub(crate) fn transaction(&self) -> u64 {
        self.epoch
    }

    /// Returns true if both are of one transaction.
    pub(crate) fn is_of_same(&self, other: &Changes) -> bool {
        self.epoch == other.epoch
    }

    /// True if the session sees what others see.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.ddl.is_empty() && self.temporary.is_empty()
    }

    /// The accounts of its rows.
    pub(crate) fn accounts(&self) -> [&Arc<RowAccount>; 2] {
        [&self.rows, &self.temporary_rows]
    }

    /// DDL that COMMIT executes.
    pub(crate) fn ddl(&self) -> &PendingDdl {
        &self.ddl
    }

    /// The temporary table that has a name.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<TemporaryTable>> {
        self.temporary.get(&fold(of_temporary(name).unwrap_or(name)))
    }

    /// All temporary tables.
    pub(crate) fn temporary_tables(&self) -> impl Iterator<Item = &Arc<TemporaryTable>> {
        self.temporary.values()
    }

    /// Adds DDL that COMMIT executes. Pending rows of a table get its new columns.
    pub(crate) fn define(&mut self, database: &Database, ddl: TableDdl) -> Result<()> {
        let charge = self.rows.charge(ddl_bytes(&ddl))?;
        let before = database.visible(&self.ddl);
        let mut pending = self.ddl.clone();
        let about = pending.push(database, ddl)?;
        let now = database.visible(&pending);
        for id in about {
            let tables = Arc::make_mut(&mut self.tables);
            let Some(changes) = tables.get_mut(&id) else { continue };
            match (before.schema_of_id(id), now.schema_of_id(id)) {
                (_, None) => drop(tables.remove(&id)),
                (Some(old), Some(new)) if old.version() != new.version() => {
                    Arc::make_mut(changes).alter(&old, &new)?;
                }
                _ => {}
            }
        }
        self.ddl = pending;
        self.ddl_charges.push(Arc::new(charge));
        Ok(())
    }

    /// The temporary table that a name in a statement refers to.
    pub(crate) fn named(&self, name: &Name) -> Option<&Arc<TemporaryTable>> {
        self.find(&name.text).filter(|_| !name.is_public)
    }

    /// The temporary table of this number.
    pub(crate) fn of_id(&self, id: TableId) -> Option<&Arc<TemporaryTable>> {
        self.temporary.values().find(|table| table.id == id)
    }

    /// Makes a temporary table.
    pub(crate) fn create_temporary(
        &mut self,
        name: &str,
        schema: Schema,
        on_commit: OnCommit,
    ) -> Result<TableRef> {
        let name = of_temporary(name).unwrap_or(name);
        tidegate_storage::catalog::check_name(name)?;
        if self.temporary.contains_key(&fold(name)) {
            return Err(StorageError::TableExists { table: name.to_owned() }.into());
        }
        if limits::TEMP_TABLES <= self.temporary.len() {
            return Err(Error::TooManyTemporaryTables);
        }
        let account = &self.temporary_rows;
        let table = Arc::new(TemporaryTable::new(name, schema, on_commit, account)?);
        let made = TableRef { id: table.id, name: name.to_owned() };
        Arc::make_mut(&mut self.temporary).insert(fold(name), table);
        Ok(made)
    }

    /// Changes the columns of a temporary table, and what else its schema says. Its rows get the
    /// columns that it has then.
    pub(crate) fn alter_temporary(
        &mut self,
        table: &TemporaryTable,
        edit: &SchemaEdit,
    ) -> Result<()> {
        let schema = edit.apply(&table.schema).map_err(StorageError::Schema)?;
        let altered = Arc::new(table.changed(&table.name, schema, &self.temporary_rows)?);
        let tables = Arc::make_mut(&mut self.tables);
        if let Some(changes) = tables.get_mut(&table.id)
            && altered.schema.version() != table.schema.version()
        {
            Arc::make_mut(changes).alter(&table.schema, &altered.schema)?;
        }
        Arc::make_mut(&mut self.temporary).insert(fold(&table.name), altered);
        Ok(())
    }

    /// Gives a temporary table or view another name.
    pub(crate) fn rename_temporary(&mut self, table: &TemporaryTable, to: &str) -> Result<()> {
        tidegate_storage::catalog::check_name(to)?;
        let is_same = fold(to) == fold(&table.name);
        if !is_same && self.temporary.contains_key(&fold(to)) {
            return Err(StorageError::TableExists { table: to.to_owned() }.into());
        }
        let schema = table.schema.as_ref().clone();
        let renamed = Arc::new(table.changed(to, schema, &self.temporary_rows)?);
        if let Some(changes) = Arc::make_mut(&mut self.tables).get_mut(&table.id) {
            let changes = Arc::make_mut(changes);
            changes.name = to.to_owned();
            changes.stamp = next_number();
            changes.cache = Arc::default();
        }
        let temporary = Arc::make_mut(&mut self.temporary);
        temporary.remove(&fold(&table.name));
        temporary.insert(fold(to), renamed);
        Ok(())
    }

    /// Drops a temporary table or view.
    pub(crate) fn drop_table(&mut self, table: &TemporaryTable) {
        Arc::make_mut(&mut self.tables).remove(&table.id);
        Arc::make_mut(&mut self.temporary).remove(&fold(&table.name));
    }

    /// Drops all temporary tables.
    pub(crate) fn drop_temporary(&mut self) {
        let dropped = std::mem::take(&mut self.temporary);
        Arc::make_mut(&mut self.tables)
            .retain(|id, _| dropped.values().all(|table| table.id != *id));
    }

    /// An empty collection of new rows for a table, which need all of its columns.
    pub(crate) fn gather(&self, table: &TableRef, schema: &Arc<Schema>) -> NewRows {
        let (account, batches) = (Arc::clone(self.account_of(table)), Vec::new());
        let needed = schema.columns().iter().map(|column| column.id).collect();
        NewRows { account, table: table.clone(), schema: Arc::clone(schema), needed, batches }
    }

    /// Adds rows after the existing ones.
    pub(crate) fn add(&mut self, rows: &NewRows) -> Result<()> {
        match rows.batches.is_empty() {
            true => Ok(()),
            false => {
                let table = self.table_mut(&rows.table);
                table.needed.extend(&rows.needed);
                rows.batches.iter().try_for_each(|batch| table.push(batch))
            }
        }
    }

    /// Deletes rows of a table as this session has seen it. The table is pinned, unless only this
    /// session has it.
    pub(crate) fn remove(
        &mut self,
        seen: &Arc<Snapshot>,
        rows: impl Iterator<Item = SegmentDeletes>,
        pin: Option<&Arc<SegmentPin>>,
    ) -> Result<()> {
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        self.table_mut(&TableRef::of(seen)).remove(seen, rows, pin)
    }

    fn account_of(&self, table: &TableRef) -> &Arc<RowAccount> {
        match self.temporary.values().any(|it| it.id == table.id) {
            true => &self.temporary_rows,
            false => &self.rows,
        }
    }

    fn table_mut(&mut self, table: &TableRef) -> &mut TableChanges {
        let account = Arc::clone(self.account_of(table));
        let new = || Arc::new(TableChanges::new(table, &account));
        let tables = Arc::make_mut(&mut self.tables);
        Arc::make_mut(tables.entry(table.id).or_insert_with(new))
    }
}

/// Rows of a statement on their way into a table.
#[derive(Debug)]
pub(crate) struct NewRows {
    account: Arc<RowAccount>,
    table: TableRef,
    schema: Arc<Schema>,
    needed: BTreeSet<ColumnId>,
    batches: Vec<Arc<HeldBatch>>,
}

impl NewRows {
    /// Makes the rows need these columns only: others may be dropped before the commit.
    pub(crate) fn need(&mut self, columns: &[Column]) {
        self.needed = columns.iter().map(|column| column.id).collect();
    }

    /// Adds rows with all columns of the table.
    pub(crate) fn push(&mut self, rows: RecordBatch) -> Result<()> {
        // A value that cannot be stored fails the statement, and not COMMIT.
        batch::builder(&self.schema).push(&rows)?;
        let batch = HeldBatch::new(&self.account, &self.schema, rows, next_number())?;
        self.batches.push(Arc::new(batch));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::Int64Type;
    use tidegate_model::{ColumnType, PartitionUnit};

    use super::*;

    fn table() -> (Changes, TableRef, Arc<Schema>) {
        let column = |name: &str, ty| (name.to_owned(), ty);
        let columns = [column("n", ColumnType::Int64), column("text", ColumnType::Varchar)];
        let schema = Schema::new(&columns, None, PartitionUnit::None).unwrap();
        let table = TableRef { id: TableId(7), name: "t".to_owned() };
        (Changes::new(), table, Arc::new(schema))
    }

    fn rows(numbers: Vec<i64>, text: Option<&str>) -> RecordBatch {
        let texts = StringViewArray::from(vec![text; numbers.len()]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        RecordBatch::try_from_iter([("n", numbers), ("text", Arc::new(texts) as ArrayRef)]).unwrap()
    }

    fn add(
        changes: &mut Changes,
        table: &TableRef,
        schema: &Arc<Schema>,
        rows: RecordBatch,
    ) -> Result<()> {
        let mut new = changes.gather(table, schema);
        new.push(rows)?;
        changes.add(&new)
    }

    fn batches<'a>(changes: &'a Changes, table: &TableRef) -> &'a [Arc<HeldBatch>] {
        changes.tables.get(&table.id).map_or(&[], |it| &it.batches)
    }

    fn numbers(changes: &Changes, table: &TableRef) -> Vec<i64> {
        let of_batch = |batch: &Arc<HeldBatch>| {
            batch.rows.column(0).as_primitive::<Int64Type>().values().to_vec()
        };
        batches(changes, table).iter().flat_map(of_batch).collect()
    }

    // Only the content of strings was counted. A NULL of a VARCHAR counted as nothing but took
    // several hundred bytes, so that one transaction could use up the memory, a row at a time.
    #[test]
    fn held_rows_are_counted_and_single_rows_are_joined() {
        let (mut changes, table, schema) = table();
        for number in 0..1_000 {
            add(&mut changes, &table, &schema, rows(vec![number], None)).unwrap();
        }
        let held = batches(&changes, &table);
        let memory = held.iter().map(|batch| batch.rows.get_array_memory_size()).sum::<usize>();
        assert!(memory <= changes.rows.used(), "changes-1");
        assert!(held.len() <= 10, "batch-2: {}", held.len());
        assert_eq!(numbers(&changes, &table), (0..1_000).collect::<Vec<_>>());
        let account = Arc::clone(&changes.rows);
        drop(changes);
        assert_eq!(account.used(), 0, "changes-1");
    }

    #[test]
    fn a_few_rows_of_many_keep_none_of_the_others() {
        let (mut changes, table, schema) = table();
        let many = rows((0..100_000).collect(), Some("a text that is no part of its view"));
        add(&mut changes, &table, &schema, many.slice(70_000, 2)).unwrap();
        let held = &batches(&changes, &table)[0];
        assert!(held.rows.get_array_memory_size() < 10_000, "batch-1");
        assert_eq!(numbers(&changes, &table), [70_000, 70_001]);
        let first = many.slice(0, 60_000);
        let mut refused =
            (0..20).filter_map(|_| add(&mut changes, &table, &schema, first.clone()).err());
        assert!(matches!(refused.next(), Some(Error::TransactionTooLarge)), "changes-1");
    }

    #[test]
    fn a_clone_is_unchanged_and_its_rows_count_until_it_is_dropped() {
        let (mut changes, table, schema) = table();
        add(&mut changes, &table, &schema, rows(vec![1], Some("x"))).unwrap();
        let before = changes.rows.used();
        let saved = changes.clone();
        add(&mut changes, &table, &schema, rows(vec![2], Some("x"))).unwrap();
        assert_eq!((numbers(&saved, &table), numbers(&changes, &table)), (vec![1], vec![1, 2]));
        assert!(before < changes.rows.used(), "both have their rows");
        let empty = Arc::new(Snapshot::of_no_rows(table.id, &table.name, &schema));
        let seen = changes.overlay_on(&empty).unwrap();
        assert_eq!((seen.rows().0, saved.overlay_on(&empty).unwrap().rows().0), (2, 1));
        drop(seen);
        drop(changes);
        assert_eq!(saved.rows.used(), before, "changes-1");
    }

    #[test]
    fn temporary_tables_come_first_and_are_bounded() {
        let (mut changes, _, schema) = table();
        let schema = Schema::clone(&schema);
        changes.create_temporary("pg_temp.T", schema.clone(), OnCommit::Drop).unwrap();
        assert!(changes.find("T").is_some() && changes.find("pg_temp.t").is_some());
        let committed = changes.clone().into_temporary();
        assert!(committed.is_empty(), "ON COMMIT DROP");
        let public = Name { is_public: true, ..Name::new("t".to_owned(), 0) };
        assert!(changes.named(&public).is_none());
        let temporary = changes.find("t").map(Arc::clone).unwrap();
        changes.drop_table(&temporary);
        assert!(changes.find("pg_temp.t").is_none());
        for number in 0..limits::TEMP_TABLES {
            let name = format!("x{number}");
            changes.create_temporary(&name, schema.clone(), OnCommit::PreserveRows).unwrap();
        }
        let refused = changes.create_temporary("y", schema, OnCommit::PreserveRows);
        assert!(matches!(refused, Err(Error::TooManyTemporaryTables)));
    }

    // A table of 2,000 columns took a megabyte that was not counted, and a session had a hundred.
    #[test]
    fn tables_of_a_session_are_counted_with_their_columns() {
        let (mut changes, _, schema) = table();
        let schema = Schema::clone(&schema);
        let least = TABLE_BYTES + schema.columns().len() * COLUMN_BYTES;
        let before = changes.temporary_rows.used();
        changes.create_temporary("x", schema.clone(), OnCommit::PreserveRows).unwrap();
        assert!(before + least <= changes.temporary_rows.used(), "changes-1");
        let made = changes.find("x").map(Arc::clone).unwrap();
        changes.drop_table(&made);
        drop(made);
        assert_eq!(changes.temporary_rows.used(), before, "changes-1");
    }
}
