//! Views: their queries as parts of the plans of the queries that name them.
//!
//! - VW1. A view is planned like its query in brackets: conditions, limits and clauses of time are
//!   pushed through it to the scans.
//! - VW2. Tables that views read, at any depth, are read as of the same moment as all others (Z1).
//! - VW3. The names in a view mean the tables that they meant when it was created, with the names
//!   that their columns had: renamed ones are found, and added ones are not seen (`model::view` V1,
//!   V2). Names that the statement itself defines, in WITH, have no meaning there.
//! - VW4. A view's columns have the names and types that they had. A value of another type is cast.
//! - VW5. An error in a view names the view.
//! - VW6. Views are nested to a bounded depth, read a bounded number of tables, and none reads
//!   itself.
//!
//! Not here: storing views (`storage`), and their statements (`parse`, `ddl`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column as PlanColumn, DataFusionError, Result as PlanResult};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource, TableType};
use datafusion::sql::resolve::resolve_table_references;
use tidegate_model::{
    Column, ColumnId, ColumnType, Schema, SeqTxn, TableId, View, ViewRead, limits,
    schema::same_name,
};
use tidegate_storage::segment::arrow_field;
use tidegate_storage::{Database, Derived, Snapshot};

use super::literal::type_of;
use super::query_text::parse_query;
use super::rows::Purpose;
use super::tables::{Tables, public_name, table_name};
use super::{
    Parameter, PendingQuery, Snapshots, locate, output_names, output_schema, plan_on, planned_tree,
};
use crate::catalog::table_oid;
use crate::error::{Error, Result, ViewProblem};
use crate::parse::{Name, Position};
use crate::scan::{COLUMN_KEY, NAME_KEY, ScanTable};
use crate::system::Caller;
use crate::timeseries::designated;

/// The views that one query can name, and the tables that they read.
pub(super) struct ViewScope<'a> {
    state: &'a SessionState,
    /// The snapshots of the whole query (VW2).
    snapshots: &'a Snapshots,
    /// Views by their names here, within a view with the columns that it knows.
    named: HashMap<String, (Arc<Snapshot>, Option<&'a ViewRead>)>,
    /// The views that this query is part of, the outermost first.
    within: Vec<Arc<Snapshot>>,
    /// The number of tables that all views of the query read, each as often as it is read.
    read: Arc<AtomicUsize>,
}

/// A plan under the name of a view, or of a table whose columns a view knows by other names.
struct PlannedSource {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl TableSource for PlannedSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}

fn planned_source(plan: LogicalPlan) -> Arc<dyn TableSource> {
    let schema = Arc::clone(plan.schema().inner());
    Arc::new(PlannedSource { plan, schema })
}

impl<'a> ViewScope<'a> {
    /// Returns the views among the tables that a statement names.
    pub(super) fn of_statement(state: &'a SessionState, snapshots: &'a Snapshots) -> Self {
        let is_view = |(_, snapshot): &(&String, &Arc<Snapshot>)| snapshot.schema.view().is_some();
        let named = snapshots.iter().filter(is_view);
        let named = named.map(|(name, snapshot)| (name.clone(), (Arc::clone(snapshot), None)));
        let named = named.collect();
        let read = Arc::new(AtomicUsize::new(0));
        ViewScope { state, snapshots, named, within: Vec::new(), read }
    }

    /// Returns the source of a view in the plan; `None` if no view has this name.
    pub(super) fn source(&self, name: &str) -> PlanResult<Option<Arc<dyn TableSource>>> {
        let Some((snapshot, read)) = self.named.get(name) else { return Ok(None) };
        let plan = self.planned(snapshot).map_err(|error| match error {
            // The error of the innermost view is the most precise (VW5).
            error @ Error::View { .. } => error,
            error if error.is_from_outside() => error,
            error => Error::in_view(&snapshot.name, error),
        })?;
        match read.and_then(|read| Some((read, known_columns(snapshot, read)?))) {
            None => Ok(Some(planned_source(plan))),
            Some((read, known)) => {
                let plan = LogicalPlanBuilder::from(plan).alias(read.name.as_str())?;
                Ok(Some(planned_source(under_known_names(plan, read, &known)?)))
            }
        }
    }

    /// Returns the names of a view's columns in lower case; `None` if no view has this name.
    pub(super) fn columns(&self, name: &str) -> Option<Vec<String>> {
        let (snapshot, read) = self.named.get(name)?;
        Some(match read.and_then(|read| known_columns(snapshot, read)) {
            Some(known) => known.into_iter().map(|(_, name)| name.to_lowercase()).collect(),
            None => {
                let columns = snapshot.schema.columns().iter();
                columns.map(|column| column.name.to_lowercase()).collect()
            }
        })
    }

    fn planned(&self, snapshot: &Arc<Snapshot>) -> Result<LogicalPlan> {
        let view = snapshot.schema.view().expect("views are named here");
        self.check(snapshot, view)?;
        let query = parse_query(&view.query, &[])?;
        let query = PendingQuery::new(self.state, &view.query, query);
        let located = |error: DataFusionError| locate::locate(&view.query, Error::from(error));
        let plan = self.planned_query(snapshot, view, query).map_err(located)?;
        let described = (self.snapshots, snapshot.as_ref(), view.as_ref());
        with_columns_of(described, plan)
    }

    /// Checks the limits of VW6.
    fn check(&self, snapshot: &Snapshot, view: &View) -> Result<()> {
        let problem = |what| Err(Error::View { view: snapshot.name.clone(), what });
        if self.within.iter().any(|outer| outer.table == snapshot.table) {
            return problem(ViewProblem::ReadsItself);
        }
        if limits::VIEW_NESTING <= self.within.len() {
            return problem(ViewProblem::TooDeep);
        }
        let read = self.read.fetch_add(view.reads.len(), Ordering::Relaxed);
        match read.saturating_add(view.reads.len()) {
            read if limits::VIEW_TABLES < read => problem(ViewProblem::TooManyTables),
            _ => Ok(()),
        }
    }

    fn planned_query(
        &self,
        snapshot: &Arc<Snapshot>,
        view: &View,
        query: PendingQuery<'_>,
    ) -> PlanResult<LogicalPlan> {
        let (mut sources, mut named) = (HashMap::new(), HashMap::new());
        for read in &view.reads {
            match meant(self.snapshots, read) {
                Some(found) if found.schema.view().is_some() => {
                    named.insert(read.name.clone(), (Arc::clone(found), Some(read)));
                }
                Some(found) => {
                    sources.insert(read.name.clone(), table_as_read(found, read)?);
                }
                None => {}
            }
        }
        let within = self.within.iter().chain([snapshot]).map(Arc::clone).collect();
        let (state, snapshots, read) = (self.state, self.snapshots, Arc::clone(&self.read));
        let views = ViewScope { state, snapshots, named, within, read };
        let tables = Tables { state: self.state, sources, relations: Vec::new(), views };
        Ok(planned_tree(tables, query)?)
    }
}

/// Returns the table or view that a view reads under a name, if it exists (VW3).
fn meant<'s>(snapshots: &'s Snapshots, read: &ViewRead) -> Option<&'s Arc<Snapshot>> {
    let by_id = snapshots.values().find(|snapshot| snapshot.table == read.table);
    let same = |name: &str| same_name(name, &read.name);
    by_id.or_else(|| snapshots.values().find(|snapshot| same(&snapshot.name)))
}

/// Returns the column that a view knows as this one.
fn column_of<'s>(
    (found, read): (&'s Snapshot, &ViewRead),
    (id, name): &(ColumnId, String),
) -> Option<&'s Column> {
    match found.table == read.table {
        true => found.schema.column(*id),
        false => found.schema.find(name),
    }
}

/// Returns the columns that a view knows and that still exist, each with the name that it knows;
/// `None` if they are all columns, under those names.
fn known_columns<'s>(
    found: &'s Snapshot,
    read: &'s ViewRead,
) -> Option<Vec<(&'s Column, &'s String)>> {
    let columns = read.columns.iter();
    let known = columns.filter_map(|known| Some((column_of((found, read), known)?, &known.1)));
    let known = known.collect::<Vec<_>>();
    let all = found.schema.columns();
    let is_same = |(at, (column, name)): (usize, &(&Column, &String))| {
        all[at].id == column.id && column.name == **name
    };
    let are_all = known.len() == all.len() && known.iter().enumerate().all(is_same);
    (!are_all).then_some(known)
}

/// Returns a table with the columns that a view knows (VW3).
fn table_as_read(found: &Arc<Snapshot>, read: &ViewRead) -> PlanResult<Arc<dyn TableSource>> {
    let source = provider_as_source(Arc::new(ScanTable::new(Arc::clone(found))));
    let Some(known) = known_columns(found, read) else { return Ok(source) };
    let scan = LogicalPlanBuilder::scan(read.name.as_str(), source, None)?;
    under_known_names(scan, read, &known).map(planned_source)
}

/// Renames columns of a table or view to the names that a view knows (VW3).
fn under_known_names(
    plan: LogicalPlanBuilder,
    read: &ViewRead,
    known: &[(&Column, &String)],
) -> PlanResult<LogicalPlan> {
    let expr = |(column, name): &(&Column, &String)| {
        let metadata = [(NAME_KEY.to_owned(), (*name).clone())].into();
        let now = PlanColumn::new(Some(read.name.as_str()), column.name.to_lowercase());
        let metadata = Some(FieldMetadata::new(metadata));
        Expr::Column(now).alias_with_metadata(name.to_lowercase(), metadata)
    };
    plan.project(known.iter().map(expr).collect::<Vec<_>>())?.build()
}

/// Returns the plan of a view's query with the columns of the view (VW4).
fn with_columns_of(
    (snapshots, snapshot, view): (&Snapshots, &Snapshot, &View),
    plan: LogicalPlan,
) -> Result<LogicalPlan> {
    let columns = snapshot.schema.columns();
    if plan.schema().fields().len() != columns.len() {
        return Err(missing_column(snapshots, view).unwrap_or_else(|| Error::View {
            view: snapshot.name.clone(),
            what: ViewProblem::OtherColumns,
        }));
    }
    let oid = table_oid(snapshot.table);
    let fields = plan.schema().iter().zip(columns).enumerate();
    let expr = |(at, ((qualifier, field), column)): (usize, ((_, &Arc<Field>), &Column))| {
        let expr = Expr::Column(PlanColumn::from((qualifier, field)));
        let stored = arrow_field(column);
        let mut metadata = stored.metadata().clone();
        metadata.insert(NAME_KEY.to_owned(), column.name.clone());
        metadata.insert(COLUMN_KEY.to_owned(), format!("{oid}.{}", at + 1));
        let expr = if type_of(field) == Some(column.ty) {
            expr
        } else if can_cast_types(field.data_type(), stored.data_type()) {
            Expr::Cast(Cast::new(Box::new(expr), stored.data_type().clone()))
        } else {
            let what = ViewProblem::OtherType {
                column: column.name.clone(),
                was: column.ty,
                is: field.data_type().to_string(),
            };
            return Err(Error::View { view: snapshot.name.clone(), what });
        };
        let metadata = Some(FieldMetadata::new(metadata.into_iter().collect()));
        Ok(expr.alias_with_metadata(column.name.to_lowercase(), metadata))
    };
    let exprs = fields.map(expr).collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlanBuilder::from(plan).project(exprs)?.build()?)
}

/// Returns the error for a column that a view knows and that does not exist any more.
fn missing_column(snapshots: &Snapshots, view: &View) -> Option<Error> {
    view.reads.iter().find_map(|read| {
        let found = meant(snapshots, read)?;
        let is_gone = |known: &&(_, String)| column_of((found, read), known).is_none();
        let (_, name) = read.columns.iter().find(is_gone)?;
        let column = format!("{}.{name}", found.name);
        Some(Error::NoSuchColumn { position: None, column, similar: None })
    })
}

/// Returns the error of a query: that of a view that it reads, if that one alone fails too (VW5).
pub(super) fn blamed(
    (state, database): (&SessionState, &Database),
    (sql, parameters): (&str, &[Parameter]),
    error: Error,
) -> Error {
    if matches!(error, Error::View { .. }) || error.is_from_outside() {
        return error;
    }
    let find = || -> Result<Option<Error>> {
        let query = PendingQuery::new(state, sql, parse_query(sql, parameters)?);
        let snapshots = query.snapshots(state, database, &Purpose::default())?;
        let is_view = |it: &&Arc<Snapshot>| it.schema.view().is_some();
        let failing = |view: &Arc<Snapshot>| fails((state, &snapshots), view);
        Ok(snapshots.values().filter(is_view).find_map(failing))
    };
    match find() {
        Ok(Some(found)) => found,
        _ => error,
    }
}

/// Returns the error of a view, except for those of the views that it reads.
fn fails((state, snapshots): (&SessionState, &Snapshots), view: &Arc<Snapshot>) -> Option<Error> {
    let reads = &view.schema.view()?.reads;
    let inner = reads.iter().filter_map(|read| meant(snapshots, read));
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
    (state, database): (&SessionState, &Database),
    new: &NewView<'_>,
) -> Result<ViewPlan> {
    plan_new((state, database), new).map_err(|error| locate::locate(new.text, error))
}

fn plan_new((state, database): (&SessionState, &Database), new: &NewView<'_>) -> Result<ViewPlan> {
    let query = parse_query(new.text, &[])?;
    let (names, notices) = (query.names.clone(), query.notices.clone());
    let query = PendingQuery::new(state, new.text, query);
    let snapshots = query.snapshots(state, database, &Purpose::default())?;
    if snapshots.values().any(|snapshot| Some(snapshot.table) == new.replaced) {
        let (view, what) = (new.name.to_owned(), ViewProblem::ReadsItself);
        return Err(Error::View { view, what });
    }
    let reads = reads_of(&query, &snapshots)?;
    let seen = Caller::of(state).session.seen();
    let is_temporary =
        |read: &ViewRead| seen.as_ref().is_some_and(|seen| seen.of_id(read.table).is_some());
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
    check_new(state, (new.name, &schema), &snapshots)?;
    Ok(ViewPlan { schema, notices, reads_temporary })
}

/// Plans a query of a new view, so that every created view can be read (VW6).
fn check_new(
    state: &SessionState,
    (name, schema): (&str, &Schema),
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
