//! Executes statements that change rows: `INSERT`, `UPDATE`, `DELETE`, `CREATE TABLE AS`.
//!
//! - Each is one commit, of the rows that it inserts and of those that it deletes: durable and
//!   visible when it returns, or nothing has changed.
//! - UPDATE and DELETE see a snapshot, as of a flush of the table's memtable; rows inserted in the
//!   meantime stay as they are. If rows were changed or moved in the meantime, they begin again, up
//!   to `ATTEMPTS` times.
//! - Memory: the rows of one segment at a time (`batch::BATCH_BYTES_MAX`), and a bit for each row
//!   of every segment that loses some.
//! - The timeout can stop a statement until its last row is found; then the statement is completed.
//! - A statement is planned and executed for the columns of one snapshot. Columns may be added and
//!   dropped in the meantime: the result is as if the statement had been executed before; an INSERT
//!   without a column list begins again, and so does every statement if a column with a default was
//!   added, which its rows would lack.
//! - Within a transaction, and in temporary tables, rows are inserted and deleted in the session's
//!   own changes (`changes`), which COMMIT makes one commit.
//!
//! Not here: parsing the statements (`parse`), and planning them as queries (`plan::rows`). Rows
//! are written on a thread that may block on the disk.

mod create;
mod conflict;
mod returning;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use tidegate_model::{Column, PartitionKey, Schema};
use tidegate_storage::{
    Database, DdlBefore, Error as StorageError, OtherRows, SegmentPin, Snapshot,
};

use crate::account::Account;
use crate::answer::Done;
use crate::cancel::CancelState;
use crate::changes::TemporaryTable;
use crate::control::{Reader, finish_in_time, plan_spawned, run, with_cancel_checks};
use crate::error::{Error, Result};
use crate::parse::rows::table_of;
use crate::parse::{Insert, Modification, Name, RowChange};
use crate::plan::{Parameter, ParameterTypes, PlannedRows, Planning, TargetRows, insert_columns};
use crate::position::Position;
use crate::running_queries::Listing;
use crate::session::Session;
use crate::table_schema::check_not_system;
use crate::transaction_buffer::TransactionBuffer;
use conflict::check_conflict;
use returning::{ReturnedRows, Wanted};
use write::{Work, Writer};

/// The number of attempts while others change the same rows again and again.
const ATTEMPTS: usize = 8;

/// The same for an UPDATE of all rows, as long as others add rows.
const ATTEMPTS_OF_ALL: usize = 3;

/// The context of a statement that changes rows.
pub(crate) struct RowChanges<'a> {
    pub(crate) database: Arc<Database>,
    pub(crate) state: SessionState,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) stop: Arc<CancelState>,
    /// The session: within a transaction, its changes stay uncommitted.
    pub(crate) session: Session,
    /// Values for `$1`, `$2`, ...
    pub(crate) parameters: Vec<Parameter>,
    /// The entry in the list of running statements.
    pub(crate) listing: &'a Listing,
    /// Changes of tables, which the session sees and an UPDATE makes with its commit.
    pub(crate) before: Option<DdlBefore>,
}

/// A statement whose rows are being computed.
struct Running {
    stream: SendableRecordBatchStream,
    /// The table that is changed, and below the columns of the computed rows.
    snapshot: Option<Arc<Snapshot>>,
    columns: Vec<Column>,
    /// The columns of SET.
    sets: Vec<Name>,
    notices: Vec<String>,
}

/// The result of a statement.
pub(crate) struct Changed {
    pub(crate) done: Done,
    /// The columns of SET.
    pub(crate) sets: Vec<Name>,
    /// The rows of RETURNING, with their columns.
    pub(crate) returned: Option<(SchemaRef, ReturnedRows)>,
}

/// A statement to be planned.
enum Statement {
    Insert(Insert),
    /// Inserts into a new table of these columns.
    Fill(Vec<Column>),
    Modify(Modification),
}

impl RowChanges<'_> {
    /// Executes a statement. `sql` is its text.
    pub(crate) async fn execute(&self, sql: &str, change: RowChange) -> Result<Changed> {
        check_allowed(sql, &change)?;
        if let RowChange::DropPartitions(delete) = change {
            let done = self.drop_partitions(sql, delete).await?;
            return Ok(Changed { done, sets: Vec::new(), returned: None });
        }
        let refuses = |before: &DdlBefore| before.other_rows == OtherRows::AreRefused;
        let attempts = match self.before.as_ref().is_some_and(refuses) {
            true => ATTEMPTS_OF_ALL,
            false => ATTEMPTS,
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let done = match &change {
                RowChange::Insert(insert) => self.insert(sql, insert).await,
                RowChange::Update(update) => self.update(sql, update).await,
                RowChange::Delete(delete) => self.delete(sql, delete).await,
                RowChange::DropPartitions(_) => unreachable!("done above"),
            };
            match done {
                Err(Error::Storage(error))
                    if attempt < attempts && can_be_retried(&error, &change) => {}
                done => return done,
            }
            self.stop.begin_again();
        }
    }

    /// The parameter types of a statement, which is not executed.
    async fn parameters_of(&self, sql: &str, change: RowChange) -> Result<ParameterTypes> {
        let schema = self.schema(sql, table_of(&change))?;
        let (sql, columns) = match &change {
            RowChange::Insert(insert) => {
                (insert.query_text(sql), insert_columns(sql, insert, &schema)?)
            }
            _ => (sql.to_owned(), schema.columns().to_vec()),
        };
        let (state, database) = (self.state.clone(), Arc::clone(&self.database));
        let parameters = self.parameters.clone();
        let task = plan_spawned(self.account(), async move {
            let (sql, rows) = (sql.as_str(), TargetRows::All);
            let (database, parameters) = (&database, parameters.as_slice());
            let planning = Planning { state: &state, database, sql, parameters, rows };
            planning.describe(&change, &columns)
        });
        finish_in_time(task, &self.stop).await
    }

    /// The plan for the rows of a statement, which is not executed.
    pub(crate) async fn plan(&self, sql: &str, change: &RowChange) -> Result<PlannedRows> {
        check_allowed(sql, change)?;
        self.schema(sql, table_of(change))?;
        let query = match change {
            RowChange::Insert(insert) => Statement::Insert(insert.clone()),
            RowChange::Update(change) | RowChange::Delete(change) => {
                Statement::Modify(change.clone())
            }
            RowChange::DropPartitions(_) => unreachable!("it has no rows to be found"),
        };
        self.planned(sql, query, TargetRows::All).await
    }

    /// The line of EXPLAIN for the change, which sets these columns.
    pub(crate) fn describe(&self, change: &RowChange, sets: &[Name]) -> String {
        let table = &table_of(change).text;
        let (operator, names) = match change {
            RowChange::Insert(insert) => ("InsertExec", insert.columns.as_deref()),
            RowChange::Update(_) => ("UpdateExec", Some(sets)),
            RowChange::Delete(_) | RowChange::DropPartitions(_) => ("DeleteExec", None),
        };
        let names = names.map_or_else(String::new, |names| {
            let names = names.iter().map(|name| name.text.as_str()).collect::<Vec<_>>();
            format!(", columns=[{}]", names.join(", "))
        });
        format!("{operator}: table={table}{names}")
    }

    async fn insert(&self, sql: &str, insert: &Insert) -> Result<Changed> {
        check_conflict(sql, insert, &*self.schema(sql, &insert.table)?)?;
        let running = self.start(sql, Statement::Insert(insert.clone())).await?;
        let Running { stream, snapshot, columns, notices, .. } = running;
        let snapshot = snapshot.expect("the columns of the table are known");
        let needed = insert_columns(sql, insert, &snapshot.schema)?;
        let work = if self.is_held(&insert.table) {
            let buffer = TransactionBuffer::new(&self.session, &snapshot, &columns, None);
            Work::Hold(buffer.needing(&needed))
        } else {
            Work::Insert(Writer::new(&self.database, &snapshot, &columns, needed))
        };
        let wanted = insert.returning.map(|start| {
            let (target, snapshot) = (Wanted::target_of(&insert.table), Arc::clone(&snapshot));
            Wanted { sql, start, target, snapshot, columns: columns.clone() }
        });
        let (rows, returned) = self.write_returning(stream, work, wanted).await?;
        let notices = [insert.notices.clone(), notices].concat();
        let done = Done::of_rows("INSERT 0", rows, notices);
        Ok(Changed { done, sets: Vec::new(), returned })
    }

    async fn update(&self, sql: &str, update: &Modification) -> Result<Changed> {
        let table = &update.target.table;
        self.schema(sql, table)?;
        let pin = self.flush(table).await?;
        let running = self.start(sql, Statement::Modify(update.clone())).await?;
        let Running { stream, snapshot, columns, sets, notices } = running;
        let snapshot = snapshot.expect("the table that is changed is read");
        let wanted = update.returning.map(|start| {
            let (target, snapshot) = (update.target.clone(), Arc::clone(&snapshot));
            Wanted { sql, start, target, snapshot, columns: columns.clone() }
        });
        let set = sets.iter().filter_map(|set| snapshot.schema.find(&set.text));
        let needed = set.cloned().collect();
        let (held_pin, pin) = if self.before.is_some() { (pin, None) } else { (None, pin) };
        let work = if self.is_held(table) && self.before.is_none() {
            Work::HoldUpdate(TransactionBuffer::new(&self.session, &snapshot, &columns, pin))
        } else {
            let writer = Writer::new(&self.database, &snapshot, &columns, needed);
            Work::Update(writer.after(self.before.clone()), snapshot)
        };
        let (rows, returned) = self.write_returning(stream, work, wanted).await?;
        drop(held_pin);
        Ok(Changed { done: Done::of_rows("UPDATE", rows, notices), sets, returned })
    }

    async fn delete(&self, sql: &str, delete: &Modification) -> Result<Changed> {
        let table = &delete.target.table;
        self.schema(sql, table)?;
        let pin = self.flush(table).await?;
        let running = self.start(sql, Statement::Modify(delete.clone())).await?;
        let snapshot = running.snapshot.expect("the table that is changed is read");
        let wanted = delete.returning.map(|start| {
            let (target, snapshot) = (delete.target.clone(), Arc::clone(&snapshot));
            let columns = snapshot.schema.columns().to_vec();
            Wanted { sql, start, target, snapshot, columns }
        });
        let work = match self.is_held(table) {
            true => Work::HoldDelete(TransactionBuffer::new(&self.session, &snapshot, &[], pin)),
            false => Work::Delete(Arc::clone(&self.database), snapshot),
        };
        let (rows, returned) = self.write_returning(running.stream, work, wanted).await?;
        let done = Done::of_rows("DELETE", rows, running.notices);
        Ok(Changed { done, sets: Vec::new(), returned })
    }

    /// Drops the partitions that lie entirely within the times of a condition.
    async fn drop_partitions(&self, sql: &str, delete: Modification) -> Result<Done> {
        let name = delete.target.table.clone();
        let schema = self.schema(sql, &name)?;
        let state = self.state.clone();
        let (database, text) = (Arc::clone(&self.database), sql.to_owned());
        let parameters = self.parameters.clone();
        let task = plan_spawned(self.account(), async move {
            let planning = Planning {
                state: &state,
                database: &database,
                sql: &text,
                parameters: &parameters,
                rows: TargetRows::Flushed,
            };
            planning.time_ranges(&delete)
        });
        let ranges = finish_in_time(task, &self.stop).await?;
        let snapshot = self.database.snapshot(&name.text)?;
        let (by, unit) = (schema.partition_by(), schema.time_unit());
        let is_inside = |key: &PartitionKey| {
            let end = by.next(*key, unit).0;
            ranges.iter().any(|range| range.start <= key.0 && end <= range.end)
        };
        let keys = snapshot.groups.iter().map(|group| group.partition);
        let keys = keys.filter(is_inside).collect::<BTreeSet<_>>();
        let database = Arc::clone(&self.database);
        let task = SpawnedTask::spawn_blocking(move || database.drop_partitions(&name.text, &keys));
        let dropped = task.join_unwind().await;
        let failed = |error| DataFusionError::ExecutionJoin(Box::new(error));
        dropped.map_err(failed)??;
        Ok(Done::new("ALTER TABLE"))
    }

    /// True if only the session sees the changes of a table: within a transaction, and where the
    /// table is temporary.
    fn is_held(&self, table: &Name) -> bool {
        self.session.is_in_transaction() || self.temporary_table(table).is_some()
    }

    fn temporary_table(&self, table: &Name) -> Option<Arc<TemporaryTable>> {
        self.session.own_changes()?.named(table).map(Arc::clone)
    }

    /// Flushes the memtable of a table into segments, of which deletion vectors can delete rows.
    /// Within a transaction, returns a pin that keeps the segments in place until its end.
    async fn flush(&self, table: &Name) -> Result<Option<Arc<SegmentPin>>> {
        if self.temporary_table(table).is_some() {
            return Ok(None);
        }
        let is_held = self.session.is_in_transaction();
        let (database, table) = (Arc::clone(&self.database), table.text.clone());
        let id = self.session.visible(&database).table_id(&table).filter(|_| is_held);
        let task = SpawnedTask::spawn_blocking(move || {
            let pin = id.and_then(|id| database.pin_segments(id));
            // The transaction may have renamed or created the table.
            let table = id.map_or(Some(table), |id| database.table_name(id));
            table.map_or(Ok(()), |table| database.flush_table(&table)).map(|()| pin.map(Arc::new))
        });
        let flushed = task.join_unwind().await;
        let failed = |error| DataFusionError::ExecutionJoin(Box::new(error));
        Ok(flushed.map_err(failed)??)
    }

    /// The current columns of a table.
    fn schema(&self, sql: &str, table: &Name) -> Result<Arc<Schema>> {
        if let Some(table) = self.temporary_table(table) {
            return Ok(Arc::clone(&table.schema));
        }
        match self.session.visible(&self.database).snapshot(&table.text) {
            Ok(snapshot) => Ok(Arc::clone(&snapshot.schema)),
            Err(StorageError::NoSuchTable { .. }) => {
                let position = Some(Position::at(sql, table.offset));
                Err(Error::NoSuchTable { position, table: table.text.clone() })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn account(&self) -> Arc<Account> {
        Account::new(&self.stop, self.context.memory_pool())
    }

    /// Plans the query of a statement and starts it.
    async fn start(&self, sql: &str, statement: Statement) -> Result<Running> {
        let planned = self.planned(sql, statement, TargetRows::Flushed).await?;
        self.run(planned)
    }

    fn run(&self, planned: PlannedRows) -> Result<Running> {
        let PlannedRows { plan, snapshot, columns, sets, reads, notices } = planned;
        self.session.note_reads(reads);
        let plan = with_cancel_checks(plan, &self.stop)?;
        self.listing.runs(&plan);
        let stream = run(plan, Arc::clone(&self.context), &self.stop, Reader::Writer, None)?;
        Ok(Running { stream, snapshot, columns, sets, notices })
    }

    async fn planned(
        &self,
        sql: &str,
        statement: Statement,
        rows: TargetRows,
    ) -> Result<PlannedRows> {
        let (state, database) = (self.state.clone(), Arc::clone(&self.database));
        let (sql, parameters) = (sql.to_owned(), self.parameters.clone());
        let task = plan_spawned(self.account(), async move {
            let (sql, parameters) = (sql.as_str(), parameters.as_slice());
            let planning = Planning { state: &state, database: &database, sql, parameters, rows };
            match statement {
                Statement::Insert(insert) => planning.insert(&insert).await,
                Statement::Fill(columns) => planning.fill(columns).await,
                Statement::Modify(change) => planning.modify(&change).await,
            }
        });
        finish_in_time(task, &self.stop).await
    }
}

/// True if a statement failed because of concurrent changes, and may succeed when it begins again.
fn can_be_retried(error: &StorageError, change: &RowChange) -> bool {
    match error {
        StorageError::SegmentChanged { .. }
        | StorageError::TableTruncated { .. }
        | StorageError::SchemaChanged { .. }
        | StorageError::ColumnAdded { .. } => true,
        StorageError::ColumnDropped { .. } => {
            matches!(change, RowChange::Insert(Insert { columns: None, .. }))
        }
        _ => false,
    }
}

/// Refuses changes of the system's tables, except for DELETE.
fn check_allowed(sql: &str, change: &RowChange) -> Result<()> {
    match change {
        RowChange::Delete(_) => Ok(()),
        RowChange::Insert(_) | RowChange::Update(_) | RowChange::DropPartitions(_) => {
            let table = table_of(change);
            check_not_system(sql, &table.text, Some(table.offset))
        }
    }
}
