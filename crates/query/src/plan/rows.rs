//! Planning of `INSERT`, `UPDATE` and `DELETE` as queries: their answers are the rows to be
//! written, and the ids of the rows to be removed.
//!
//! - Columns of the answer have the types of the table's: values are converted as by CAST.
//!   Constants of VALUES are cast one by one, before DataFusion looks for a common type of all
//!   rows. But a value stored in a DATE has no time of day (`whole_day`).
//! - The table that is changed has in the query one more column, the ids of its rows; the
//!   statement's subqueries see it without that.
//! - The columns of the table, its rows and all other tables are as of one moment: the statement
//!   means one table, even if it is dropped or replaced meanwhile.
//!
//! Not here: the queries of UPDATE, DELETE and RETURNING as trees (`change_query`).

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as PlanResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr as SqlExpr, Ident, Query, SetExpr, Spanned, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use tidegate_model::{Column, ColumnType, TimeRange};
use tidegate_storage::segment::{arrow_field, arrow_type};
use tidegate_storage::{Database, Snapshot, TableRead};

use super::change_query::{default_of, query_of_change, select_columns};
use super::defaults::filled;
use super::describe::{ParameterTypes, add, cast_types, describe, select_calculated, stored_types};
use super::named_columns::{check_sets, insert_columns};
use super::parameters::Parameter;
use super::purpose::{Fill, Purpose, TargetRows};
use super::query_text::{QueryText, check_size, parse_query, quote_digits};
use super::table_reads::reads_of;
use super::{
    PendingQuery, Snapshots, TARGET, error_positions, logical_plan, physical_plan, plan_on,
};
use crate::error::{Condition, Error, Result};
use crate::parse::{Insert, Modification, Name, RowChange};
use crate::position::{Position, position_at};
use crate::scan::order::in_table_order;
use crate::scan::{ScanOrder, ScanTable};
use crate::sql::blocks::is_default;
use crate::sql::call::call_of;
use crate::types::date_assignment::{WHOLE_DAY, as_whole_day};
use crate::types::literal::type_of;

/// A planned statement.
#[derive(Debug)]
pub(crate) struct PlannedRows {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// The table that is changed, if it exists already: removed rows were found in it, and written
    /// rows have its columns.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// The columns that rows are written for.
    pub(crate) columns: Vec<Column>,
    /// The columns of SET.
    pub(crate) sets: Vec<Name>,
    /// The tables whose rows it reads for later changes, besides those that it changes.
    pub(crate) reads: Vec<TableRead>,
    /// Notices to the user, a sentence each.
    pub(crate) notices: Vec<String>,
}

/// The context in which a statement is planned.
pub(crate) struct Planning<'a> {
    pub(crate) state: &'a SessionState,
    pub(crate) database: &'a Database,
    pub(crate) sql: &'a str,
    pub(crate) parameters: &'a [Parameter],
    pub(crate) rows: TargetRows,
}

impl Planning<'_> {
    /// Plans an INSERT. The answer has the columns that it names, or those of the table.
    pub(crate) async fn insert(&self, insert: &Insert) -> Result<PlannedRows> {
        let text = insert.query_text(self.sql);
        let target = Some(&insert.table);
        let purpose = Purpose { target, rows: TargetRows::None, ..Purpose::default() };
        let query = parse_query(&text, self.parameters)?;
        let query = PendingQuery::new(self.state, &text, query);
        let snapshots = query.snapshots(self.state, self.database, &purpose)?;
        let columns = insert_columns(self.sql, insert, &snapshots[TARGET].schema)?;
        Planning { sql: &text, ..*self }.values(query, snapshots, columns).await
    }

    /// Plans a query whose answer is stored in these columns, of a table that does not exist yet.
    pub(crate) async fn fill(&self, columns: Vec<Column>) -> Result<PlannedRows> {
        let query =
            PendingQuery::new(self.state, self.sql, parse_query(self.sql, self.parameters)?);
        let snapshots = query.snapshots(self.state, self.database, &Purpose::default())?;
        self.values(query, snapshots, columns).await
    }

    async fn values(
        &self,
        mut query: PendingQuery<'_>,
        snapshots: Snapshots,
        mut columns: Vec<Column>,
    ) -> Result<PlannedRows> {
        // A table that does not exist yet is not among them.
        let target = snapshots.get(TARGET).map(Arc::clone);
        let is_cast = cast_values(query.query_mut(), self.sql, &columns, target.as_deref())?;
        let fills = target.map_or_else(Vec::new, |target| Fill::of_missing(&target, &columns));
        let columns_cast: &[Column] = if is_cast { &[] } else { &columns };
        let purpose =
            Purpose { columns: columns_cast, rows: TargetRows::None, fills: &fills, target: None };
        let planned = self.plan(query, snapshots, &purpose, ScanOrder::Forward).await;
        let planned = planned.map_err(|error| match error {
            Error::BadText { text, ty, reason, .. } => {
                let position = find_value(self.sql, &columns, &text, ty);
                let error = Error::BadText { position, text, ty, reason };
                error_positions::locate(self.sql, error)
            }
            error => error_positions::locate(self.sql, error),
        })?;
        columns.extend(fills.into_iter().map(|fill| fill.column));
        Ok(PlannedRows { columns, ..planned })
    }

    /// Plans an UPDATE or DELETE. The answer has the ids of the rows; for UPDATE and RETURNING
    /// behind all columns of the table, with their new values.
    pub(crate) async fn modify(&self, change: &Modification) -> Result<PlannedRows> {
        let plan = async {
            let query = query_of_change(self.sql, change, self.parameters)?;
            let sets = self.sets_of(&query);
            let mut query = PendingQuery::new(self.state, self.sql, query);
            let purpose = self.purpose_of(change);
            let snapshots = query.snapshots(self.state, self.database, &purpose)?;
            if sets.is_empty() && change.returning.is_none() {
                return self.plan(query, snapshots, &purpose, ScanOrder::Any).await;
            }
            let table = Arc::clone(&snapshots[TARGET]);
            let columns = table.schema.columns();
            check_sets(self.sql, &sets, &table.schema)?;
            select_columns(query.query_mut(), &change.target, &sets, columns, Some(&table))?;
            check_size(self.sql, query.query_mut())?;
            let purpose = Purpose { columns, ..purpose };
            let planned = self.plan(query, snapshots, &purpose, ScanOrder::Forward).await?;
            Ok(PlannedRows { columns: columns.to_vec(), sets, ..planned })
        };
        plan.await.map_err(|error| error_positions::locate(self.sql, error))
    }

    fn purpose_of<'c>(&self, change: &'c Modification) -> Purpose<'c> {
        let target = Some(&change.target.table);
        Purpose { target, rows: self.rows, ..Purpose::default() }
    }

    /// Returns the columns of SET in the statement.
    fn sets_of(&self, query: &QueryText) -> Vec<Name> {
        let sets = query.sets.iter();
        let offset = |set: &Ident| position_at(self.sql, set.span.start).offset;
        sets.map(|set| Name::new(set.value.clone(), offset(set))).collect()
    }

    /// Returns the types of the parameters of a statement; `columns` are those that an INSERT
    /// gives.
    pub(crate) fn describe(
        &self,
        change: &RowChange,
        columns: &[Column],
    ) -> Result<ParameterTypes> {
        let (mut query, purpose) = match change {
            RowChange::Insert(_) => {
                let purpose = Purpose { rows: self.rows, ..Purpose::default() };
                (parse_query(self.sql, self.parameters)?, purpose)
            }
            RowChange::Update(change)
            | RowChange::Delete(change)
            | RowChange::DropPartitions(change) => {
                let mut query = query_of_change(self.sql, change, self.parameters)?;
                let sets = self.sets_of(&query);
                if !sets.is_empty() {
                    let tree = &mut query.statement;
                    select_columns(tree, &change.target, &sets, columns, None)?;
                }
                (query, self.purpose_of(change))
            }
        };
        let mut types = stored_types(&query.statement, columns);
        let is_values = matches!(*query.statement.body, SetExpr::Values(_));
        if is_values && !select_calculated(&mut query.statement) {
            return Ok(types);
        }
        let casts = cast_types(&query.statement);
        match describe(self.state, self.database, self.sql, query, &purpose) {
            Ok((_, more)) => add(&mut types, more),
            // A value that cannot be planned without its parameters may be with them.
            Err(error) if is_values && error.condition() != Condition::AmbiguousFunction => {
                add(&mut types, casts);
            }
            Err(error) => return Err(error_positions::locate(self.sql, error)),
        }
        Ok(types)
    }

    /// Returns the time ranges that the condition of DROP PARTITION selects; it may have no other
    /// terms.
    pub(crate) fn time_ranges(&self, change: &Modification) -> Result<Vec<TimeRange>> {
        let ranges = || {
            let query = query_of_change(self.sql, change, self.parameters)?;
            let condition = self.sql[change.clauses + "WHERE".len()..].trim_start();
            let position = Some(Position::at(self.sql, self.sql.len() - condition.len()));
            let purpose = self.purpose_of(change);
            let (plan, mut snapshots) =
                logical_plan(self.state, self.database, self.sql, query, &purpose)?;
            let snapshot = snapshots.remove(TARGET).expect("the table is read");
            let ranges = scanned_ranges(&self.state.optimize(&plan)?, &snapshot);
            ranges.ok_or(Error::NotOfPartitions { position })
        };
        ranges().map_err(|error| error_positions::locate(self.sql, error))
    }

    async fn plan(
        &self,
        query: PendingQuery<'_>,
        mut snapshots: Snapshots,
        purpose: &Purpose<'_>,
        order: ScanOrder,
    ) -> Result<PlannedRows> {
        let (notices, state) = (query.notices.clone(), self.state);
        let reads = reads_of(&query.locks, &snapshots);
        let mut plan = plan_on(&snapshots, state, query, purpose)?;
        if purpose.target.is_some() && has_groups(&plan) {
            let feature = "an aggregate outside of a subquery in UPDATE or DELETE";
            return Err(Error::NotSupported { position: None, feature });
        }
        if order != ScanOrder::Any {
            (plan, _) = in_table_order(plan, order)?;
        }
        plan = filled(plan, purpose.fills, state)?;
        let plan = physical_plan(state, &state.optimize(&plan)?).await?;
        let snapshot = snapshots.remove(TARGET);
        Ok(PlannedRows { plan, snapshot, columns: Vec::new(), sets: Vec::new(), reads, notices })
    }
}

/// Casts the values of VALUES; returns false for any other query.
fn cast_values(
    query: &mut Query,
    sql: &str,
    columns: &[Column],
    target: Option<&Snapshot>,
) -> Result<bool> {
    let SetExpr::Values(values) = query.body.as_mut() else { return Ok(false) };
    let types = columns.iter().map(|column| sql_type(column.ty)).collect::<Vec<_>>();
    for row in &mut values.rows {
        if row.content.len() != columns.len() {
            let position = position_at(sql, row.opening_token.0.span.start);
            let (columns, values) = (columns.len(), row.content.len());
            return Err(Error::ValueCount { position: Some(position), columns, values });
        }
        for (value, (ty, column)) in row.content.iter_mut().zip(types.iter().zip(columns)) {
            let mut expr = std::mem::replace(value, SqlExpr::Value(Value::Null.into()));
            if is_default(&expr) {
                expr = default_of(column, target)?;
            }
            if *ty == SqlType::Date && !matches!(expr, SqlExpr::Value(_)) {
                expr = call_of(WHOLE_DAY, [expr]);
            }
            if matches!(column.ty, ColumnType::Decimal { .. }) {
                quote_digits(&mut expr);
            }
            *value = SqlExpr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(expr),
                data_type: ty.clone(),
                array: false,
                format: None,
            };
        }
    }
    Ok(true)
}

/// Returns a type as casts name it.
fn sql_type(ty: ColumnType) -> SqlType {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(&ty.sql());
    let parsed = parser.and_then(|mut parser| parser.parse_data_type());
    parsed.expect("every type has a name that casts know")
}

/// Returns the place of the first value of VALUES that is this text, and is stored as a value of
/// this type.
fn find_value(sql: &str, columns: &[Column], text: &str, ty: ColumnType) -> Option<Position> {
    let query = parse_query(sql, &[]).ok()?.statement;
    let SetExpr::Values(values) = *query.body else { return None };
    let is_it = |expr: &SqlExpr| match expr {
        SqlExpr::Value(value) => match &value.value {
            Value::Number(number, _) => *number == text.trim_start_matches('-'),
            Value::SingleQuotedString(written) => written == text,
            _ => false,
        },
        SqlExpr::UnaryOp { expr, .. } => expr.to_string() == text.trim_start_matches('-'),
        _ => false,
    };
    let of_row = |row: &Vec<SqlExpr>| {
        let mut pairs = row.iter().zip(columns);
        let found = pairs.find(|(expr, column)| column.ty == ty && is_it(expr))?;
        Some(position_at(sql, found.0.span().start))
    };
    values.rows.iter().find_map(|row| of_row(&row.content))
}

/// Returns the plan with its first columns in the types of the columns that store them.
pub(super) fn stored(plan: LogicalPlan, purpose: &Purpose<'_>) -> PlanResult<LogicalPlan> {
    let Purpose { target, columns, .. } = *purpose;
    if columns.is_empty() {
        return Ok(plan);
    }
    let values = plan.schema().fields().len();
    if values != columns.len() + usize::from(target.is_some()) {
        return Err(Error::ValueCount { position: None, columns: columns.len(), values }.into());
    }
    let (exprs, input) = match plan {
        LogicalPlan::Projection(Projection { expr, input, .. }) => (expr, input),
        plan => {
            let columns = plan.schema().columns();
            (columns.into_iter().map(Expr::Column).collect(), Arc::new(plan))
        }
    };
    let mut cast = Vec::with_capacity(exprs.len());
    for (at, expr) in exprs.into_iter().enumerate() {
        let Some(column) = columns.get(at) else {
            cast.push(expr);
            continue;
        };
        let expr = expr.unalias();
        let (_, field) = expr.to_field(input.schema())?;
        let is_there =
            type_of(&field) == Some(column.ty) && *field.data_type() == arrow_type(column.ty);
        let expr = if is_there {
            expr
        } else {
            let is_time = matches!(field.data_type(), DataType::Timestamp(..));
            let puts_day = column.ty == ColumnType::Date && is_time;
            let expr = if puts_day { as_whole_day(expr) } else { expr };
            let field = Arc::new(arrow_field(column));
            Expr::Cast(Cast { expr: Box::new(expr), field })
        };
        cast.push(expr.alias(format!("{at}")));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(cast, input)?))
}

/// Returns the time ranges of the only scan of a plan, if it has no other conditions on its rows.
fn scanned_ranges(plan: &LogicalPlan, snapshot: &Arc<Snapshot>) -> Option<Vec<TimeRange>> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let table = ScanTable::new(Arc::clone(snapshot));
            table.time_ranges(&scan.filters)
        }
        // No row passes.
        LogicalPlan::EmptyRelation(_) => Some(Vec::new()),
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            scanned_ranges(plan.inputs().first()?, snapshot)
        }
        _ => None,
    }
}

/// Returns true if rows of the outermost block are no longer those of the table.
pub(super) fn has_groups(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().any(has_groups)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_name_that_casts_know() {
        for ty in ColumnType::ALL {
            let name = sql_type(ty).to_string();
            assert_eq!(crate::parse::column_type(&name), Some(ty), "{name}");
        }
    }
}
