//! From the text of a query to a plan that can run.
//!
//! - Z1. All tables of a query are read as of one moment.
//! - Z2. What is planned is a query and nothing else: DataFusion's own statements (COPY, CREATE
//!   VIEW, SET, ...) never get as far as to be done.
//!
//! The steps: text to tree (`query_text`), tree to logical plan (DataFusion, with `tables`,
//! `type_names` and `coerce`), time order (`order`), physical plan (DataFusion, with the scan).

mod query_text;
mod time_text;
mod literal;
mod casts;
mod coerce;
mod type_names;
mod functions;
mod tables;
mod order;
mod last;
mod locate;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, TableSource};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::resolve::resolve_table_references;
use tidegate_storage::{Database, Error as StorageError};

use crate::error::{Error, Result};
use crate::scan::{NAME_KEY, ScanOrder, ScanTable, without_name};
use last::{Direction, LastExec};
use query_text::{OutputNames, QueryText, parse_query};
use tables::{Tables, table_name};

pub(crate) use coerce::OperatorPlanner;
pub(crate) use functions::table_functions;
pub(crate) use literal::time_value;
pub(crate) use order::OrderedScans;
pub(crate) use time_text::merged;

/// Windows of an interval: with more, the condition itself would be the work.
pub(crate) const WINDOWS_MAX: usize = 10_000;

/// A query that can run.
#[derive(Debug)]
pub(crate) struct PlannedQuery {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Of the answer: the columns of the plan under the names that users see.
    pub(crate) schema: SchemaRef,
}

/// Plans a query. Every error has its place in `sql`, as far as that is known.
pub(crate) async fn plan_query(
    state: &SessionState,
    database: &Database,
    sql: &str,
) -> Result<PlannedQuery> {
    let query = parse_query(sql)?;
    match plan_parsed(state, database, query).await {
        Ok(planned) => Ok(planned),
        Err(error) => Err(locate::locate(sql, error)),
    }
}

async fn plan_parsed(
    state: &SessionState,
    database: &Database,
    query: QueryText,
) -> Result<PlannedQuery> {
    let QueryText { statement, names, last } = query;
    let plan = logical_plan(state, database, Statement::Statement(Box::new(statement)))?;
    let planned = planned_names(plan.schema());
    let (plan, direction) = match last {
        None => (order::in_table_order(plan, ScanOrder::Forward)?.0, Direction::Forward),
        Some(rows) => last_rows(plan, rows)?,
    };
    let plan = state.create_physical_plan(&plan).await?;
    let plan: Arc<dyn ExecutionPlan> = match last {
        None => plan,
        Some(rows) => Arc::new(LastExec::new(plan, rows, direction)),
    };
    let schema = output_schema(&plan.schema(), &names, &planned);
    Ok(PlannedQuery { plan, schema })
}

/// The plan of `LIMIT -rows`, without the step that picks the last ones.
fn last_rows(plan: LogicalPlan, rows: usize) -> Result<(LogicalPlan, Direction)> {
    let (backward, is_plain) = order::in_table_order(plan.clone(), ScanOrder::Backward)?;
    if !is_plain {
        let forward = order::in_table_order(plan, ScanOrder::Forward)?.0;
        return Ok((forward, Direction::Forward));
    }
    let limited = LogicalPlanBuilder::from(backward).limit(0, Some(rows))?.build()?;
    Ok((limited, Direction::Backward))
}

fn logical_plan(
    state: &SessionState,
    database: &Database,
    statement: Statement,
) -> Result<LogicalPlan> {
    let (references, _) = resolve_table_references(&statement, true)?;
    let sources = sources(database, &references)?;
    let tables = Tables { state, sources };
    let plan = SqlToRel::new(&tables).statement_to_plan(statement)?;
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
    Ok(coerce::convert_literals(plan)?)
}

/// The tables that a query names, as of one moment (Z1). What is no table may be a function.
fn sources(
    database: &Database,
    references: &[TableReference],
) -> Result<HashMap<String, Arc<dyn TableSource>>> {
    let mut existing = Vec::new();
    for name in references.iter().filter_map(table_name) {
        match database.snapshot(name) {
            Ok(_) => existing.push(name),
            Err(StorageError::NoSuchTable { .. }) => {}
            Err(error) => return Err(Error::Storage(error)),
        }
    }
    let snapshots = database.snapshots(&existing)?;
    let source = |(name, snapshot): (&&str, _)| {
        let source = provider_as_source(Arc::new(ScanTable::new(snapshot)));
        ((*name).to_owned(), source)
    };
    Ok(existing.iter().zip(snapshots).map(source).collect())
}

/// The names of a plan's columns, each with the name it is stored under.
fn planned_names(schema: &DFSchema) -> Vec<(String, Option<String>)> {
    let name_of = |field: &Arc<Field>| {
        let stored = field.metadata().get(NAME_KEY).cloned();
        let is_same = |stored: &String| {
            let number = field.name().strip_prefix(&stored.to_lowercase());
            number.is_some_and(|number| number.is_empty() || is_repetition(number))
        };
        (field.name().clone(), stored.filter(is_same))
    };
    schema.fields().iter().map(name_of).collect()
}

/// Whether this is what a repeated name has behind it: `_2`.
fn is_repetition(text: &str) -> bool {
    text.strip_prefix('_').is_some_and(|number| number.parse::<u32>().is_ok())
}

fn output_schema(
    schema: &SchemaRef,
    names: &OutputNames,
    planned: &[(String, Option<String>)],
) -> SchemaRef {
    let names = names.resolve(planned);
    let field_of = |(field, name): (&Arc<Field>, String)| {
        let metadata = without_name(field.metadata());
        field.as_ref().clone().with_name(name).with_metadata(metadata)
    };
    Arc::new(Schema::new(schema.fields().iter().zip(names).map(field_of).collect::<Vec<_>>()))
}
