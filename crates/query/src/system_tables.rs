//! `SHOW`, and the functions beside it for queries: `tables()`, `query_activity()` and similar
//! ones.
//!
//! Columns have the names and types of QuestDB's, because its tools read them; those without a
//! meaning here are false or NULL. Not here: changes (`ddl`), settings (`session`).

mod tables;
mod create;
mod engine;
mod bulk;

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use datafusion::execution::SessionState;
use tidegate_storage::{Error as StorageError, Snapshot, VisibleTables};

use crate::context::{StatementContext, named, parameter};
use crate::error::{Error, Result, SettingProblem};
use crate::parse::Name;
use crate::parse::statement::session::Show;
use crate::position::Position;
use crate::running_queries::State;
use crate::session::{Session, all_settings, shown};
use create::create_statement;

pub(crate) use bulk::{copied, copy_canceled, copy_queued};

/// Returns the answer to a SHOW. `sql` is the statement, for places in errors.
pub(crate) fn show(caller: &StatementContext, sql: &str, what: &Show) -> Result<RecordBatch> {
    let visible = &caller.session.visible(&caller.system.database);
    match what {
        Show::Tables => {
            let names = visible.tables().into_iter().map(|table| table.name);
            batch(vec![("table_name", texts(names.map(Some)))])
        }
        Show::Columns { table } => {
            tables::columns(snapshot(visible, &caller.session, sql, table)?.as_ref())
        }
        Show::Partitions { table } => {
            tables::partitions(snapshot(visible, &caller.session, sql, table)?.as_ref())
        }
        Show::CreateTable { table } => {
            let snapshot = snapshot(visible, &caller.session, sql, table)?;
            let ddl = create_statement(&snapshot.name, &snapshot.schema);
            batch(vec![("ddl", texts([Some(ddl)]))])
        }
        Show::CreateView { view } => {
            let snapshot = snapshot(visible, &caller.session, sql, view)?;
            if snapshot.schema.view().is_none() {
                return Err(StorageError::NotAView { table: snapshot.name.clone() }.into());
            }
            let ddl = create_statement(&snapshot.name, &snapshot.schema);
            batch(vec![("ddl", texts([Some(ddl)]))])
        }
        Show::Parameters => engine::parameters(caller),
        Show::Settings => {
            let all = all_settings(&caller.session, caller.system.timeout);
            batch(vec![
                ("name", texts(all.iter().map(|it| Some(it.name.clone())))),
                ("setting", texts(all.iter().map(|it| Some(it.value.clone())))),
                ("description", texts(all.iter().map(|it| Some(it.about.to_owned())))),
            ])
        }
        Show::Setting { name } => setting(caller, sql, name),
    }
}

/// Returns the answer to CANCEL QUERY.
pub(crate) fn canceled(id: u64) -> Result<RecordBatch> {
    let status = State::Canceled.name().to_owned();
    batch(vec![("query_id", counts([id])), ("status", texts([Some(status)]))])
}

/// Returns one row and column: a setting, or a key of the configuration.
fn setting(caller: &StatementContext, sql: &str, name: &Name) -> Result<RecordBatch> {
    let value = shown(&caller.session, caller.system.timeout, &name.text);
    let (name, value) = match value {
        Some(shown) => (shown.name, shown.value),
        None => parameter(&caller.system, &name.text).ok_or_else(|| {
            let what = SettingProblem::Unknown { name: name.text.clone() };
            Error::Setting { position: Position::at(sql, name.offset), what }
        })?,
    };
    batch(vec![(name.as_str(), texts([Some(value)]))])
}

/// Functions that stand where tables do: their calls, and their descriptions.
#[cfg(test)]
pub(crate) const TABLE_FUNCTIONS: [(&str, &str); 13] = [
    ("tables()", "Tables with their settings and sizes."),
    ("table_columns('t')", "The columns of a table."),
    ("table_partitions('t')", "The partitions of a table."),
    ("table_storage()", "Tables with their space on disk."),
    ("wal_tables()", "Tables with their last commits."),
    ("functions()", "All functions."),
    ("memory_metrics()", "Memory by consumer: queries, memtables, symbols, spilled rows, ingest."),
    ("query_activity()", "Running statements."),
    ("ilp_connections()", "Connections of the line protocol."),
    ("copy_progress()", "Jobs of COPY that are running or waiting."),
    ("import_files()", "Files that COPY can import."),
    ("long_sequence(n)", "A column x of the numbers 1 to n."),
    ("generate_series(first, last[, step])", "Numbers or times at equal distances."),
];

/// Returns the rows of a function; `None` if it is none of ours. The argument is a table.
pub(crate) fn table_function(
    state: &SessionState,
    name: &str,
    argument: Option<&str>,
) -> Result<Option<RecordBatch>> {
    let caller = StatementContext::of(state);
    let visible = &caller.session.visible(&caller.system.database);
    let rows = match (name, argument) {
        ("tables", None) => tables::tables(visible),
        ("table_storage", None) => tables::table_storage(visible),
        ("wal_tables", None) => tables::wal_tables(visible),
        ("table_columns", Some(table)) => tables::columns(named(visible, table)?.as_ref()),
        ("table_partitions", Some(table)) => tables::partitions(named(visible, table)?.as_ref()),
        ("functions", None) => engine::functions(state),
        ("memory_metrics", None) => engine::memory_metrics(&caller),
        ("query_activity", None) => engine::query_activity(&caller),
        ("ilp_connections", None) => engine::ilp_connections(&caller),
        ("copy_progress", None) => bulk::copy_progress(&caller),
        ("import_files", None) => bulk::import_files(&caller),
        _ => return Ok(None),
    };
    rows.map(Some)
}

pub(crate) fn snapshot(
    visible: &VisibleTables<'_>,
    session: &Session,
    sql: &str,
    table: &Name,
) -> Result<Arc<Snapshot>> {
    if let Some(seen) = session.own_changes()
        && let Some(private) = seen.named(table)
    {
        return seen.rows_of(private);
    }
    visible.snapshot(&table.text).map_err(|error| match error {
        StorageError::NoSuchTable { table: name } => {
            Error::NoSuchTable { position: Some(Position::at(sql, table.offset)), table: name }
        }
        error => Error::Storage(error),
    })
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns);
    Ok(batch.map_err(datafusion::common::DataFusionError::from)?)
}

fn texts(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringViewArray>())
}

fn flags(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<BooleanArray>())
}

fn counts(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    let signed = values.into_iter().map(|value| i64::try_from(value).unwrap_or(i64::MAX));
    Arc::new(signed.map(Some).collect::<Int64Array>())
}

fn times(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<TimestampMicrosecondArray>())
}
