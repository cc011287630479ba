//! `RETURNING`: a query over the rows that a statement has written or removed.
//!
//! - It sees those rows and no others under the name of the table; its subqueries see tables as
//!   they were before.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableSource;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_storage::{Database, Snapshot};

use super::change_query::query_of_returning;
use super::describe::{ParameterTypes, describe};
use super::parameters::Parameter;
use super::purpose::{Purpose, TargetRows};
use super::query_text::QueryText;
use super::rows::has_groups;
use super::{
    PendingQuery, TARGET, error_positions, output_names, output_schema, physical_plan, plan_with,
};
use crate::error::{Error, Result};
use crate::parse::Target;
use crate::scan::ScanTable;

/// A RETURNING list with its statement.
pub(crate) struct Returning<'a> {
    pub(crate) state: &'a SessionState,
    pub(crate) database: &'a Database,
    pub(crate) sql: &'a str,
    pub(crate) parameters: &'a [Parameter],
    /// The byte of RETURNING.
    pub(crate) start: usize,
    pub(crate) target: &'a Target,
}

impl Returning<'_> {
    fn query(&self) -> Result<QueryText> {
        let query = query_of_returning(self.sql, self.start, self.target, self.parameters)?;
        if query.locks.statement.is_some() {
            let feature = "FOR UPDATE or FOR SHARE in RETURNING";
            return Err(Error::NotSupported { position: None, feature });
        }
        Ok(query)
    }

    /// Returns the plan for these rows, which have all columns of the table, and the columns of its
    /// answer.
    pub(crate) async fn plan(
        &self,
        snapshot: &Arc<Snapshot>,
        rows: &[RecordBatch],
    ) -> Result<(Arc<dyn ExecutionPlan>, SchemaRef)> {
        let planned = self.planned(snapshot, rows).await;
        planned.map_err(|error| error_positions::locate(self.sql, error))
    }

    async fn planned(
        &self,
        snapshot: &Arc<Snapshot>,
        rows: &[RecordBatch],
    ) -> Result<(Arc<dyn ExecutionPlan>, SchemaRef)> {
        let schema = ScanTable::new(Arc::clone(snapshot)).schema();
        let named =
            |batch: &RecordBatch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().into());
        let rows = rows.iter().map(named).collect::<std::result::Result<Vec<_>, _>>();
        let rows = rows.map_err(datafusion::common::DataFusionError::from)?;
        let rows = MemTable::try_new(schema, vec![rows])?;
        let query = self.query()?;
        let names = query.names.clone();
        let query = PendingQuery::new(self.state, self.sql, query);
        let purpose = Purpose::default();
        let tables = query.snapshots(self.state, self.database, &purpose)?;
        let source = |(name, snapshot): (&String, &Arc<Snapshot>)| {
            (name.clone(), provider_as_source(Arc::new(ScanTable::new(Arc::clone(snapshot)))))
        };
        let is_table = |(_, snapshot): &(&String, &Arc<Snapshot>)| snapshot.schema.view().is_none();
        let mut sources: HashMap<String, Arc<dyn TableSource>> =
            tables.iter().filter(is_table).map(source).collect();
        sources.insert(TARGET.to_owned(), provider_as_source(Arc::new(rows)));
        let plan = plan_with(sources, &tables, self.state, query, &purpose)?;
        if has_groups(&plan) {
            let feature = "an aggregate or a window outside of a subquery in RETURNING";
            return Err(Error::NotSupported { position: None, feature });
        }
        let names = output_names(&names, plan.schema());
        let physical = physical_plan(self.state, &self.state.optimize(&plan)?).await?;
        let schema = output_schema(&physical.schema(), &names);
        Ok((physical, schema))
    }
}

/// Returns the columns of a RETURNING list, and its parameters.
pub(crate) fn describe_returning(returning: &Returning<'_>) -> Result<(SchemaRef, ParameterTypes)> {
    let Returning { state, database, sql, target, .. } = *returning;
    let query = returning.query()?;
    let names = query.names.clone();
    let target = Some(&target.table);
    let purpose = Purpose { target, rows: TargetRows::Returned, ..Purpose::default() };
    let described = describe(state, database, sql, query, &purpose);
    let (plan, types) = described.map_err(|error| error_positions::locate(sql, error))?;
    let names = output_names(&names, plan.schema());
    Ok((output_schema(plan.schema().inner(), &names), types))
}
