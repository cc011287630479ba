//! Views: their queries as parts of the plans of the queries that name them.
//!
//! - A view is planned like its query in brackets: conditions, limits and clauses of time are
//!   pushed through it to the scans.
//! - Tables that views read, at any depth, are read as of the same moment as all others.
//! - The names in a view mean the tables that they meant when it was created, with the names that
//!   their columns had: renamed ones are found, and added ones are not seen (`model::view`).
//!   Names that the statement itself defines, in WITH, have no meaning there.
//! - A view's columns have the names and types that they had. A value of another type is cast.
//! - An error in a view names the view.
//! - Views are nested to a bounded depth, read a bounded number of tables, and none reads itself.
//!
//! Not here: storing views (`storage`), and their statements (`parse`, `ddl`).

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::sql::resolve::resolve_table_references;
use tidegate_model::{ColumnType, Schema, SeqTxn, TableId, View, ViewRead};
use tidegate_storage::{Database, Derived, Snapshot};

use super::purpose::Purpose;
use super::query_text::parse_query;
use super::tables::public_name;
use super::{
    Parameter, PendingQuery, Snapshots, error_positions, output_names, output_schema, plan_on,
};
use crate::context::StatementContext;
use crate::error::{Error, Result, ViewProblem};
use crate::names::table_name;
use crate::parse::Name;
use crate::plan::tables::view_scope::resolve_read;
use crate::position::Position;
use crate::timeseries::designated;
use crate::types::literal::type_of;

/// Returns the error of a query: that of a view that it reads, if that one alone fails too.
pub(super) fn blamed(
    state: &SessionState,
    database: &Database,
    sql: &str,
    parameters: &[Parameter],
    error: Error,
) -> Error {
    if matches!(error, Error::View { .. }) || error.is_from_outside() {
        return error;
    }
    let find = || -> Result<Option<Error>> {
        let query = PendingQuery::new(state, sql, parse_query(sql, parameters)?);
        let snapshots = query.snapshots(state, database, &Purpose::default())?;
        let is_view = |it: &&Arc<Snapshot>| it.schema.view().is_some();
        let failing = |view: &Arc<Snapshot>| fails(state, &snapshots, view);
        Ok(snapshots.values().filter(is_view).find_map(failing))
    };
    match find() {
        Ok(Some(found)) => found,
        _ => error,
    }
}

/// Returns the error of a view, except for those of the views that it reads.
fn fails(state: &SessionState, snapshots: &Snapshots, view: &Arc<Snapshot>) -> Option<Error> {
    let reads = &view.schema.view()?.reads;
    let inner = reads.iter().filter_map(|read| resolve_read(snapshots, read));
    let inner = inner.filter(|it| it.schema.view().is_some() && it.table != view.table);
    if inner.into_iter().any(|inner| checked(state, snapshots, inner).is_err()) {
        return None;
    }
    match checked(state, snapshots, view) {
        Ok(()) => None,
        Err(error @ Error::View { .. }) => Some(error),
        Err(error) => Some(Error::in_view(&view.name, error)),
    }
}

fn checked(state: &SessionState, snapshots: &Snapshots, view: &Arc<Snapshot>) -> Result<()> {
    let mut snapshots = snapshots.clone();
    let name = view.name.to_lowercase();
    // The view may read a table of this name that a view of the session hides.
    if let Some(hidden) = snapshots.insert(name.clone(), Arc::clone(view)) {
        snapshots.entry(public_name(&name)).or_insert(hidden);
    }
    let text = format!("SELECT * FROM \"{}\"", name.replace('"', "\"\""));
    let query = PendingQuery::new(state, &text, parse_query(&text, &[])?);
    let plan = plan_on(&snapshots, state, query, &Purpose::default())?;
    state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    Ok(())
}

/// A planned view.
pub(crate) struct ViewPlan {
    pub(crate) schema: Schema,
    /// True if it reads tables or views that end with the session.
    pub(crate) reads_temporary: bool,
    /// Notices to the user, a sentence each.
    pub(crate) notices: Vec<String>,
}

/// A view to be created.
pub(crate) struct NewView<'a> {
    pub(crate) name: &'a str,
    /// The id of the view that it replaces.
    pub(crate) replaced: Option<TableId>,
    /// The names of its columns that differ from those of the query.
    pub(crate) columns: &'a [Name],
    /// Its query, with spaces in place of the other text of the statement.
    pub(crate) text: &'a str,
}

/// Returns the schema of a view: its columns and its query, with the present meaning of its names.
pub(crate) fn plan_view(
    state: &SessionState,
    database: &Database,
    new: &NewView<'_>,
) -> Result<ViewPlan> {
    plan_new(state, database, new).map_err(|error| error_positions::locate(new.text, error))
}

fn plan_new(state: &SessionState, database: &Database, new: &NewView<'_>) -> Result<ViewPlan> {
    let query = parse_query(new.text, &[])?;
    if query.locks.statement.is_some() {
        // The queries of the view would not know.
        let feature = "FOR UPDATE or FOR SHARE in the query of a view";
        return Err(Error::NotSupported { position: None, feature });
    }
    let (names, notices) = (query.names.clone(), query.notices.clone());
    let query = PendingQuery::new(state, new.text, query);
    let snapshots = query.snapshots(state, database, &Purpose::default())?;
    if snapshots.values().any(|snapshot| Some(snapshot.table) == new.replaced) {
        let (view, what) = (new.name.to_owned(), ViewProblem::ReadsItself);
        return Err(Error::View { view, what });
    }
    let reads = reads_of(&query, &snapshots)?;
    let own_changes = StatementContext::of(state).session.own_changes();
    let is_temporary =
        |read: &ViewRead| own_changes.as_ref().is_some_and(|own| own.of_id(read.table).is_some());
    let reads_temporary = reads.iter().any(is_temporary);
    let plan = plan_on(&snapshots, state, query, &Purpose::default())?;
    let time = designated(&plan).and_then(|it| plan.schema().maybe_index_of_column(&it));
    let names = output_names(&names, plan.schema());
    let analyzed = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    let fields = output_schema(analyzed.schema().inner(), &names);
    let columns = columns_of(new, &fields)?;
    let is_time = |(_, ty): &&(String, ColumnType)| ty.time_unit().is_some();
    let time = time.map(|at| &columns[at]).filter(is_time).map(|(name, _)| name.as_str());
    let view = View { query: new.text.trim().to_owned(), reads };
    let schema = Schema::of_view(&columns, time, view)?;
    check_new(state, new.name, &schema, &snapshots)?;
    Ok(ViewPlan { schema, notices, reads_temporary })
}

/// Plans a query of a new view, so that every created view can be read.
fn check_new(
    state: &SessionState,
    name: &str,
    schema: &Schema,
    snapshots: &Snapshots,
) -> Result<()> {
    // No table has this id.
    let (table, schema) = (TableId(u64::MAX), Arc::new(schema.clone()));
    let snapshot = Arc::new(empty_snapshot(table, name, schema));
    checked(state, snapshots, &snapshot)
}

fn empty_snapshot(table: TableId, name: &str, schema: Arc<Schema>) -> Snapshot {
    Snapshot {
        table,
        name: name.to_owned(),
        schema,
        seq_txn: SeqTxn(0),
        rows_changed_at: SeqTxn(0),
        groups: Vec::new(),
        symbols: std::iter::empty().collect(),
        derived: Derived::default(),
    }
}

/// Returns the tables that a query names.
fn reads_of(query: &PendingQuery<'_>, snapshots: &Snapshots) -> Result<Vec<ViewRead>> {
    let (references, _) = resolve_table_references(&query.statement, true)?;
    let mut reads: Vec<ViewRead> = Vec::new();
    for (reference, name) in references.iter().filter_map(|it| Some((it, table_name(it)?))) {
        let public = (reference.schema() == Some("public")).then(|| public_name(&name));
        let name = match public.filter(|public| snapshots.contains_key(public)) {
            Some(public) => Cow::Owned(public),
            None => name,
        };
        let Some(snapshot) = snapshots.get(name.as_ref()) else { continue };
        if reads.iter().any(|read| read.name == name) {
            continue;
        }
        let columns = snapshot.schema.columns().iter();
        let columns = columns.map(|column| (column.id, column.name.clone())).collect();
        reads.push(ViewRead { name: name.into_owned(), table: snapshot.table, columns });
    }
    Ok(reads)
}

/// Returns the columns of a view: those of its query, the first ones under other names if given.
fn columns_of(new: &NewView<'_>, fields: &SchemaRef) -> Result<Vec<(String, ColumnType)>> {
    let start = new.text.len() - new.text.trim_start().len();
    let position = Position::at(new.text, start);
    if fields.fields().len() < new.columns.len() {
        let (columns, values) = (new.columns.len(), fields.fields().len());
        return Err(Error::ValueCount { position: Some(position), columns, values });
    }
    let column = |(at, field): (usize, &Arc<Field>)| {
        let name = new.columns.get(at).map_or_else(|| field.name().clone(), |it| it.text.clone());
        match type_of(field) {
            Some(ty) => Ok((name, ty)),
            None => {
                let ty = field.data_type().to_string();
                Err(Error::NoColumnType { position, column: name, ty })
            }
        }
    };
    fields.fields().iter().enumerate().map(column).collect()
}
