//! Views in a query: each is planned where its name stands, once.

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
use tidegate_model::schema::same_name;
use tidegate_model::{Column, ColumnId, View, ViewRead, limits};
use tidegate_storage::Snapshot;
use tidegate_storage::segment::arrow_field;

use crate::error::{Error, Result, ViewProblem};
use crate::names::{COLUMN_KEY, NAME_KEY};
use crate::oid::table_oid;
use crate::plan::query_text::parse_query;
use crate::plan::tables::Tables;
use crate::plan::{PendingQuery, Snapshots, error_positions, planned_tree};
use crate::scan::ScanTable;
use crate::types::literal::type_of;

/// The views that one query can name, and the tables that they read.
pub(crate) struct ViewScope<'a> {
    state: &'a SessionState,
    /// The snapshots of the whole query.
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
    pub(crate) fn of_statement(state: &'a SessionState, snapshots: &'a Snapshots) -> Self {
        let is_view = |(_, snapshot): &(&String, &Arc<Snapshot>)| snapshot.schema.view().is_some();
        let named = snapshots.iter().filter(is_view);
        let named = named.map(|(name, snapshot)| (name.clone(), (Arc::clone(snapshot), None)));
        let named = named.collect();
        let read = Arc::new(AtomicUsize::new(0));
        ViewScope { state, snapshots, named, within: Vec::new(), read }
    }

    /// Returns the source of a view in the plan; `None` if no view has this name.
    pub(crate) fn source(&self, name: &str) -> PlanResult<Option<Arc<dyn TableSource>>> {
        let Some((snapshot, read)) = self.named.get(name) else { return Ok(None) };
        let plan = self.planned(snapshot).map_err(|error| match error {
            // The error of the innermost view is the most precise.
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
    pub(crate) fn columns(&self, name: &str) -> Option<Vec<String>> {
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
        let located =
            |error: DataFusionError| error_positions::locate(&view.query, Error::from(error));
        let plan = self.planned_query(snapshot, view, query).map_err(located)?;
        with_columns_of(self.snapshots, snapshot, view, plan)
    }

    /// Checks that views are nested within the limits, and that none reads itself.
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
            match resolve_read(self.snapshots, read) {
                Some(snapshot) if snapshot.schema.view().is_some() => {
                    named.insert(read.name.clone(), (Arc::clone(snapshot), Some(read)));
                }
                Some(snapshot) => {
                    sources.insert(read.name.clone(), table_as_read(snapshot, read)?);
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

/// Returns the table or view that a view reads under a name, if it exists.
pub(crate) fn resolve_read<'s>(
    snapshots: &'s Snapshots,
    read: &ViewRead,
) -> Option<&'s Arc<Snapshot>> {
    let by_id = snapshots.values().find(|snapshot| snapshot.table == read.table);
    let same = |name: &str| same_name(name, &read.name);
    by_id.or_else(|| snapshots.values().find(|snapshot| same(&snapshot.name)))
}

/// Returns the column that a view knows as this one.
fn column_of<'s>(
    snapshot: &'s Snapshot,
    read: &ViewRead,
    id: ColumnId,
    name: &str,
) -> Option<&'s Column> {
    match snapshot.table == read.table {
        true => snapshot.schema.column(id),
        false => snapshot.schema.find(name),
    }
}

/// Returns the columns that a view knows and that still exist, each with the name that it knows;
/// `None` if they are all columns, under those names.
fn known_columns<'s>(
    snapshot: &'s Snapshot,
    read: &'s ViewRead,
) -> Option<Vec<(&'s Column, &'s String)>> {
    let columns = read.columns.iter();
    let known =
        columns.filter_map(|(id, name)| Some((column_of(snapshot, read, *id, name)?, name)));
    let known = known.collect::<Vec<_>>();
    let all = snapshot.schema.columns();
    let is_same = |(at, (column, name)): (usize, &(&Column, &String))| {
        all[at].id == column.id && column.name == **name
    };
    let are_all = known.len() == all.len() && known.iter().enumerate().all(is_same);
    (!are_all).then_some(known)
}

/// Returns a table with the columns that a view knows.
fn table_as_read(snapshot: &Arc<Snapshot>, read: &ViewRead) -> PlanResult<Arc<dyn TableSource>> {
    let source = provider_as_source(Arc::new(ScanTable::new(Arc::clone(snapshot))));
    let Some(known) = known_columns(snapshot, read) else { return Ok(source) };
    let scan = LogicalPlanBuilder::scan(read.name.as_str(), source, None)?;
    under_known_names(scan, read, &known).map(planned_source)
}

/// Renames columns of a table or view to the names that a view knows.
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

/// Returns the plan of a view's query with the columns of the view.
fn with_columns_of(
    snapshots: &Snapshots,
    snapshot: &Snapshot,
    view: &View,
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
        let snapshot = resolve_read(snapshots, read)?;
        let is_gone =
            |(id, name): &&(ColumnId, String)| column_of(snapshot, read, *id, name).is_none();
        let (_, name) = read.columns.iter().find(is_gone)?;
        let column = format!("{}.{name}", snapshot.name);
        Some(Error::NoSuchColumn { position: None, column, similar: None })
    })
}
