//! Planning: from the text of a query to a physical plan.
//!
//! - All tables of a query are read as of one moment.
//! - Only queries are planned: DataFusion's own statements (COPY, CREATE VIEW, SET, ...) are never
//!   executed.
//!
//! The steps: text to tree (`query_text`), merged columns to expressions (`using_joins`), aliases
//! that hide columns from ORDER BY to hidden names (`sort_names`), columns of outer rows to
//! qualified ones (`query_text::outer_names`), tree to logical plan (DataFusion, with `tables`,
//! `type_names` and `coerce`), order of sorted subqueries (`sorted_inputs`), time order (`order`),
//! physical plan (DataFusion, with the scan).

pub(crate) mod query_text;
mod parameters;
mod describe;
mod open_parameters;
mod fine_times;
mod numbered;
mod barriers;
mod bitwise;
mod per_row;
mod membership;
mod list_calls;
mod alternatives;
mod window_keys;
mod known_aggregates;
pub(crate) mod coerce;
mod type_names;
mod subscripts;
mod nested_literals;
mod subqueries;
mod multisets;
mod set_keys;
mod sorted_inputs;
mod aggregate_orders;
mod declared;
mod recursive;
mod empty_subqueries;
mod safe_filter_pushdown;
mod expansion;
mod hidden_parts;
mod merged_lists;
mod safe_simplification;
mod null_keys;
mod float_joins;
mod calculated_keys;
mod distinct_counts;
mod empty_unions;
mod frames;
mod final_forms;
mod time_texts;
mod masked_keys;
mod large_limits;
mod tables;
mod table_reads;
mod views;
mod using_joins;
mod column_counts;
mod sort_names;
mod order;
mod error_positions;
mod cache;
mod purpose;
mod named_columns;
mod change_query;
mod rows;
mod defaults;
mod returning;
mod stoppable;
mod wide_rows;
mod wrapped_rule;
mod own_rules;
pub(crate) mod series;
pub(crate) mod first_last;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement};
use tidegate_model::schema::same_name;
use tidegate_storage::{
    Database, Error as StorageError, Snapshot, TableRead, VisibleTables, thread_heap_bytes,
};

use crate::cancel::CancelState;
use crate::changes::Changes;
use crate::context::StatementContext;
use crate::error::{Error, Result};
use crate::names::{NAME_KEY, name_of_hidden, table_name, without_name};
use crate::parse::Name;
use crate::plan::tables::view_scope::ViewScope;
use crate::scan::order::in_table_order;
use crate::scan::{ScanOrder, ScanTable};
use crate::session::Session;
use crate::sql::clauses::Clauses;
use crate::sql::select_rewrite::rewrite_blocks;
use crate::timeseries::{ClauseRelations, TimeSeriesPlanner, designated};
use crate::types::float_order;
use crate::types::type_size::check_types;
use crate::{functions, pg_catalog};
use cache::NewPlan;
use column_counts::check_columns;
use order::counted_in_table_order;
use purpose::{Purpose, TargetRows as Rows};
use query_text::{OutputNames, QueryText, RowLocks, parse_query, qualify_outer_names};
use rows::stored;
use set_keys::Keys;
use sort_names::hide_aliases;
use table_reads::{check_may_lock, reads_of};
use tables::{Tables, public_name};
use using_joins::write_out_joins;
use views::blamed;

pub(crate) use cache::{CachedPlan, CachedQuery, PlanCache, PlanKey};
pub(crate) use coerce::OperatorPlanner;
pub(crate) use defaults::check_default;
pub use describe::parameter_count;
pub(crate) use describe::{
    LENGTH_TYPE, ParameterTypes, describe_query, described_with, untyped_parameters,
};
pub(crate) use error_positions::locate_running;
pub(crate) use named_columns::insert_columns;
pub(crate) use nested_literals::NestedLiteralPlanner;
pub use parameters::Parameter;
pub(crate) use purpose::TargetRows;
pub(crate) use returning::{Returning, describe_returning};
pub(crate) use rows::{PlannedRows, Planning};
pub(crate) use stoppable::{analyzer_rules, optimizer_rules, physical_rules};
pub(crate) use subscripts::PartPlanner;
pub(crate) use views::{NewView, ViewPlan, plan_view};
pub(crate) use wide_rows::with_few_wide_rows;

/// The name of the table that a statement changes, in the query for its rows. No other table can
/// have it, and a query that names it does not find it.
const TARGET: &str = "tidegate.target";

/// A query with its physical plan.
#[derive(Debug)]
pub(crate) struct PlannedQuery {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Notices to the user, a sentence each.
    pub(crate) notices: Vec<String>,
    /// The schema of the answer: the columns of the plan under the names that users see.
    pub(crate) schema: SchemaRef,
    /// The index of the designated timestamp among them.
    pub(crate) designated: Option<usize>,
    /// The tables whose rows it reads for later changes.
    pub(crate) reads: Vec<TableRead>,
    /// The plan that the plan cache keeps; `None` if it keeps none.
    pub(crate) cached: Option<Arc<CachedPlan>>,
    /// The bytes that the plan cache has allocated to keep the plan; negative if it has freed more,
    /// of earlier plans.
    pub(crate) cache_bytes: isize,
}

impl PlannedQuery {
    /// Plans a cached query by its template; `None` if it has none that fits.
    pub(crate) fn of_template(
        cached: &CachedQuery,
        stop: &Arc<CancelState>,
    ) -> Result<Option<PlannedQuery>> {
        let plan = cached.physical(stop)?;
        Ok(plan.map(|plan| PlannedQuery::of_cached(&cached.plan, plan)))
    }

    fn of_cached(cached: &Arc<CachedPlan>, plan: Arc<dyn ExecutionPlan>) -> PlannedQuery {
        let schema = match cached.schema() {
            Some(schema) => Arc::clone(schema),
            None => output_schema(&plan.schema(), &cached.names),
        };
        let (notices, designated) = (cached.notices.clone(), cached.designated);
        let (reads, cached) = (Vec::new(), Some(Arc::clone(cached)));
        PlannedQuery { plan, notices, schema, designated, reads, cached, cache_bytes: 0 }
    }
}

/// Plans a query with values for its parameters. Every error has its place in `sql`, as far as that
/// is known.
pub(crate) async fn plan_query(
    state: &SessionState,
    database: &Database,
    sql: &str,
    parameters: &[Parameter],
) -> Result<PlannedQuery> {
    let session = StatementContext::of(state).session.clone();
    let query = parse_query(sql, parameters)?;
    check_may_lock(&session, &query.locks)?;
    // Plans are shared for tables that all sessions see, and tell no session what it has read.
    let is_shared = session.own_changes().is_none() && query.locks.statement.is_none();
    let cache = state.config().get_extension::<PlanCache>().filter(|_| is_shared);
    let key = PlanKey { sql, parameters };
    match plan_parsed(state, cache.as_deref(), database, key, query).await {
        Ok(planned) => Ok(planned),
        Err(error) => {
            let error = blamed(state, database, sql, parameters, error);
            Err(error_positions::locate(sql, parameters::locate(sql, parameters, error)))
        }
    }
}

/// Plans a query whose plan is cached; `None` if it has a template that no longer fits.
pub(crate) async fn plan_cached(
    state: &SessionState,
    cached: CachedQuery,
    stop: &Arc<CancelState>,
) -> Result<Option<PlannedQuery>> {
    if cached.has_template() {
        return PlannedQuery::of_template(&cached, stop);
    }
    let plan = physical_plan(state, &cached.logical()?).await?;
    Ok(Some(PlannedQuery::of_cached(&cached.plan, plan)))
}

async fn plan_parsed(
    state: &SessionState,
    cache: Option<&PlanCache>,
    database: &Database,
    key: PlanKey<'_>,
    mut query: QueryText,
) -> Result<PlannedQuery> {
    let (names, notices) = (query.names.clone(), query.notices.clone());
    let (replaceable, locks) = (query.replaceable.take(), query.locks.clone());
    let in_one = pg_catalog::names_catalog(query.statement.as_mut()).then(|| in_one_part(state));
    let state = in_one.as_ref().unwrap_or(state);
    let purpose = Purpose::default();
    let (written, snapshots) = logical_plan(state, database, key.sql, query, &purpose)?;
    let names = output_names(&names, written.schema());
    let designated = designated(&written);
    let designated = designated.and_then(|it| written.schema().maybe_index_of_column(&it));
    let (ordered, _) = in_table_order(written.clone(), ScanOrder::Forward)?;
    let optimized = state.optimize(&ordered)?;
    let physical = physical_plan(state, &optimized).await?;
    let schema = output_schema(&physical.schema(), &names);
    let new = NewPlan {
        written: &written,
        optimized,
        physical: &physical,
        schema: &schema,
        names,
        notices: notices.clone(),
        designated,
        snapshots: &snapshots,
        replaceable,
    };
    let before = thread_heap_bytes();
    let cached = match cache {
        Some(cache) => cache.keep(key, new)?,
        None => None,
    };
    let cache_bytes = match cached {
        Some(_) => thread_heap_bytes().wrapping_sub(before),
        None => 0,
    };
    let reads = reads_of(&locks, &snapshots);
    Ok(PlannedQuery { plan: physical, notices, schema, designated, reads, cached, cache_bytes })
}

/// Returns the state for queries on the catalog: their rows are few, and come in the order of the
/// main relation, as clients without an ORDER BY expect them.
fn in_one_part(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    state.config_mut().options_mut().execution.target_partitions = 1;
    state
}

async fn physical_plan(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let planner =
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(TimeSeriesPlanner)]);
    let plan = frames::with_ordered_bounds(plan.clone())?;
    Ok(planner.create_physical_plan(&plan, state).await?)
}

/// The tables that a query reads, by name.
pub(crate) type Snapshots = HashMap<String, Arc<Snapshot>>;

/// A query whose tables are still to be looked up.
pub(crate) struct PendingQuery<'a> {
    sql: &'a str,
    statement: Statement,
    clauses: Clauses,
    aggregates: HashSet<String>,
    locks: RowLocks,
    notices: Vec<String>,
}

impl<'a> PendingQuery<'a> {
    fn new(state: &SessionState, sql: &'a str, query: QueryText) -> PendingQuery<'a> {
        let QueryText { statement: tree, clauses, locks, notices, .. } = query;
        let aggregates = state.aggregate_functions().keys().chain(functions::AGGREGATES.keys());
        let aggregates = aggregates.cloned().collect();
        let statement = Statement::Statement(Box::new(SqlStatement::Query(tree)));
        PendingQuery { sql, statement, clauses, aggregates, locks, notices }
    }

    fn query_mut(&mut self) -> &mut Query {
        tree_of(&mut self.statement)
    }

    /// The tables that it names, and the one that is changed, as of one moment.
    fn snapshots(
        &self,
        state: &SessionState,
        database: &Database,
        purpose: &Purpose<'_>,
    ) -> Result<Snapshots> {
        let (references, _) = resolve_table_references(&self.statement, true)?;
        snapshots(&StatementContext::of(state).session, database, &references, purpose)
    }
}

/// Returns the tree of a statement that was made of a query.
fn tree_of(statement: &mut Statement) -> &mut Query {
    let Statement::Statement(statement) = statement else { unreachable!("it was made of a query") };
    let SqlStatement::Query(query) = statement.as_mut() else {
        unreachable!("it was made of a query")
    };
    query
}

/// Returns the plan of a query over these tables, as DataFusion makes it of the tree. The planners
/// of our clauses are added to the tables.
pub(crate) fn planned_tree(mut tables: Tables<'_>, query: PendingQuery<'_>) -> Result<LogicalPlan> {
    let PendingQuery { sql, mut statement, mut clauses, aggregates, .. } = query;
    let tree = tree_of(&mut statement);
    check_columns(sql, &tables, tree)?;
    write_out_joins(sql, &tables, tree, &mut clauses)?;
    hide_aliases(&tables, &clauses, tree);
    qualify_outer_names(tree);
    let rewritten = rewrite_blocks(sql, tree, clauses, &|name| aggregates.contains(name));
    tables.relations.push(Arc::new(ClauseRelations::new(tables.state, rewritten, aggregates)));
    let plan = SqlToRel::new(&tables).statement_to_plan(statement)?;
    check_types(&plan)?;
    Ok(plan)
}

fn logical_plan(
    state: &SessionState,
    database: &Database,
    sql: &str,
    query: QueryText,
    purpose: &Purpose<'_>,
) -> Result<(LogicalPlan, Snapshots)> {
    let query = PendingQuery::new(state, sql, query);
    let snapshots = query.snapshots(state, database, purpose)?;
    Ok((plan_on(&snapshots, state, query, purpose)?, snapshots))
}

fn plan_on(
    snapshots: &Snapshots,
    state: &SessionState,
    query: PendingQuery<'_>,
    purpose: &Purpose<'_>,
) -> Result<LogicalPlan> {
    let source = |(name, snapshot): (&String, &Arc<Snapshot>)| {
        let table = ScanTable::new(Arc::clone(snapshot));
        let has_ids = name == TARGET && purpose.rows != Rows::Returned;
        let table = if has_ids { table.with_row_ids() } else { table };
        (name.clone(), provider_as_source(Arc::new(table)))
    };
    let is_read = |(name, snapshot): &(&String, &Arc<Snapshot>)| {
        let is_target = name.as_str() == TARGET && purpose.rows == Rows::None;
        !is_target && snapshot.schema.view().is_none()
    };
    let sources = snapshots.iter().filter(is_read).map(source).collect();
    plan_with(sources, snapshots, state, query, purpose)
}

/// As `plan_on`, with these tables.
fn plan_with(
    sources: HashMap<String, Arc<dyn TableSource>>,
    snapshots: &Snapshots,
    state: &SessionState,
    query: PendingQuery<'_>,
    purpose: &Purpose<'_>,
) -> Result<LogicalPlan> {
    let views = ViewScope::of_statement(state, snapshots);
    let plan = planned_tree(Tables { state, sources, relations: Vec::new(), views }, query)?;
    let refused = match &plan {
        LogicalPlan::Ddl(_) => Some("this statement"),
        LogicalPlan::Dml(_) => Some("changing rows"),
        LogicalPlan::Copy(_) => Some("COPY"),
        LogicalPlan::Statement(_) => Some("this statement"),
        _ => None,
    };
    if let Some(feature) = refused {
        return Err(Error::NotSupported { position: None, feature });
    }
    let plan = stored(plan, purpose)?;
    let plan = set_keys::with_set_keys(plan, Keys::Calculated)?;
    let plan = sorted_inputs::with_orders_of_inputs(plan)?;
    let plan = aggregate_orders::with_own_orders(plan)?;
    let plan = first_last::resolve_first_last(coerce::convert_literals(plan)?)?;
    let plan = fine_times::with_floored_casts(plan)?;
    let plan = recursive::with_alike_terms(plan)?;
    let plan = empty_subqueries::with_nullable_subqueries(plan)?;
    let plan = multisets::with_counted_rows(plan)?;
    let plan = subqueries::with_joined_subqueries(plan)?;
    let plan = set_keys::with_set_keys(plan, Keys::OfFloats)?;
    let plan = float_order::with_float_keys(plan)?;
    let plan = calculated_keys::with_calculated_keys(plan)?;
    Ok(counted_in_table_order(plan)?)
}

/// Returns the tables that a query names, those that views among them read, and the one that is
/// changed, as of one moment and as the session sees them. A name that is no table may be a
/// function.
fn snapshots(
    session: &Session,
    database: &Database,
    references: &[TableReference],
    purpose: &Purpose<'_>,
) -> Result<Snapshots> {
    let (changes, visible) = (session.own_changes(), session.visible(database));
    let mut by_name = HashMap::new();
    let mut existing = Vec::new();
    for (reference, name) in references.iter().filter_map(|it| Some((it, table_name(it)?))) {
        let mut key = name.clone();
        if let Some(changes) = &changes
            && let Some(table) = changes.find(&name)
        {
            // A name that is qualified with `public` is no temporary table.
            if reference.schema() == Some("public") {
                key = public_name(&name).into();
            } else {
                by_name.insert(key.into_owned(), changes.rows_of(table)?);
                continue;
            }
        }
        match visible.snapshot(&name) {
            Ok(_) => existing.push((key, name)),
            Err(StorageError::NoSuchTable { .. }) => {}
            Err(error) => return Err(Error::Storage(error)),
        }
    }
    let mut target = purpose.target;
    if let Some(own) = temporary_target(changes.as_ref(), target)? {
        by_name.insert(TARGET.to_owned(), own);
        target = None;
    }
    if let Some(changes) = &changes {
        for name in read_by_temporary_views(changes, &visible, &mut by_name)? {
            let key = public_name(&name.to_lowercase());
            if existing.iter().all(|(_, known)| !same_name(known, &name)) {
                existing.push((key.into(), name.into()));
            }
        }
    }
    let target = target.map(|name| name.text.as_str());
    let names = existing.iter().map(|(_, name)| name.as_ref()).chain(target).collect::<Vec<&str>>();
    let snapshots = visible.snapshots_and_read(&names)?;
    let existing = existing.into_iter().map(|(key, _)| key.into_owned());
    let mut names = existing.chain(target.map(|_| TARGET.to_owned()));
    for mut snapshot in snapshots {
        // The named tables come first, then those that views read: no table of the session hides
        // these.
        let name = names.next().unwrap_or_else(|| public_name(&snapshot.name.to_lowercase()));
        if name == TARGET && snapshot.schema.view().is_some() {
            return Err(StorageError::IsView { view: snapshot.name.clone() }.into());
        }
        if purpose.rows == Rows::Flushed && name == TARGET {
            if snapshot.splits_a_change() {
                // The statement flushes the table again (snapshot-5).
                let (table, segment) = (snapshot.name.clone(), 0);
                return Err(StorageError::SegmentChanged { table, segment }.into());
            }
            snapshot = Arc::new(snapshot.without_memtable());
        }
        let seen = match &changes {
            Some(changes) => changes.overlay_on(&snapshot)?,
            None => snapshot,
        };
        by_name.insert(name, seen);
    }
    Ok(by_name)
}

/// Returns the table that is changed, if it is temporary.
fn temporary_target(
    changes: Option<&Changes>,
    target: Option<&Name>,
) -> Result<Option<Arc<Snapshot>>> {
    let (Some(changes), Some(name)) = (changes, target) else { return Ok(None) };
    match changes.named(name) {
        Some(view) if view.is_view() => {
            Err(StorageError::IsView { view: view.name.clone() }.into())
        }
        Some(table) => changes.rows_of(table).map(Some),
        None => Ok(None),
    }
}

/// Adds the temporary tables that temporary views among them read, at any depth, and returns the
/// names of the other tables that they read.
fn read_by_temporary_views(
    changes: &Changes,
    visible: &VisibleTables<'_>,
    snapshots: &mut Snapshots,
) -> Result<Vec<String>> {
    let mut reading = snapshots.values().map(Arc::clone).collect::<Vec<_>>();
    let mut others = Vec::new();
    while let Some(view) = reading.pop() {
        let reads = view.schema.view().map_or(&[][..], |view| &view.reads);
        for read in reads {
            let of_all = || visible.table_name(read.table);
            let own = changes.of_id(read.table);
            let own = own.or_else(|| changes.find(&read.name).filter(|_| of_all().is_none()));
            let Some(own) = own else {
                let by_name = || visible.table_id(&read.name).map(|_| read.name.clone());
                others.extend(of_all().or_else(by_name));
                continue;
            };
            if snapshots.values().all(|known| known.table != own.id) {
                let snapshot = changes.rows_of(own)?;
                reading.push(Arc::clone(&snapshot));
                // A name that no table of the statement has.
                snapshots.insert(format!("{TARGET}.{}", own.id.0), snapshot);
            }
        }
    }
    Ok(others)
}

/// Returns the names of the columns of the answer of a plan with this schema.
fn output_names(names: &OutputNames, schema: &DFSchema) -> Vec<String> {
    let name_of = |field: &Arc<Field>| {
        let stored = field.metadata().get(NAME_KEY).cloned();
        let name = name_of_hidden(field.name()).unwrap_or(field.name());
        let is_same = |stored: &String| {
            let number = name.strip_prefix(&stored.to_lowercase());
            number.is_some_and(|number| number.is_empty() || is_repetition(number))
        };
        (name.to_owned(), stored.filter(is_same))
    };
    names.resolve(&schema.fields().iter().map(name_of).collect::<Vec<_>>())
}

/// Returns true for the suffix of a repeated name: `_2`.
fn is_repetition(text: &str) -> bool {
    text.strip_prefix('_').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the schema of a plan's answer, with these names of its columns.
fn output_schema(schema: &SchemaRef, names: &[String]) -> SchemaRef {
    let field_of = |(field, name): (&Arc<Field>, &String)| {
        let metadata = without_name(field.metadata());
        field.as_ref().clone().with_name(name).with_metadata(metadata)
    };
    Arc::new(Schema::new(schema.fields().iter().zip(names).map(field_of).collect::<Vec<_>>()))
}
