//! Planning of `INSERT`, `UPDATE` and `DELETE` as queries: their answers are the rows to be
//! written, and the ids of the rows to be removed.
//!
//! - RW1. Every token of the statement keeps its place, although the query has another order.
//! - RW2. Columns of the answer have the types of the table's: values are converted as by CAST.
//!   Constants of VALUES and SET are cast one by one, before DataFusion looks for a common type of
//!   all rows. But a value stored in a DATE has no time of day (`whole_day`).
//! - RW3. The table that is changed stands in the query under a name of its own, with one more
//!   column; the statement's subqueries see it without that.
//! - RW4. The columns of the table, its rows and all other tables are as of one moment: the
//!   statement means one table, even if it is dropped or replaced meanwhile.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as PlanResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr as SqlExpr, Query, SetExpr, Spanned, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Whitespace};
use tidegate_model::{Column, ColumnType, TimeRange};
use tidegate_storage::segment::{arrow_field, arrow_type};
use tidegate_storage::{Database, Snapshot};

use super::defaults::filled;
use super::describe::{ParameterTypes, describe, stored_types};
use super::named_columns::{check_sets, insert_columns};
use super::parameters::Parameter;
use super::purpose::{Fill, Purpose, TargetRows};
use super::query_text::{QueryText, parse_query, parse_tokens, quote_digits, tokenize};
use super::{
    PendingQuery, Snapshots, TARGET, error_positions, logical_plan, physical_plan, plan_on,
};
use crate::error::{Error, Result};
use crate::parse::{Delete, Insert, RowChange, Target, Update};
use crate::position::{Position, position_at};
use crate::scan::order::in_table_order;
use crate::scan::{ROW_ID, ScanOrder, ScanTable};
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
    /// Plans an INSERT. The answer has the columns that it names, or those of the table (RW4).
    pub(crate) async fn insert(&self, insert: &Insert) -> Result<PlannedRows> {
        let text = insert.query_text(self.sql);
        let target = Some(&insert.table);
        let purpose = Purpose { target, rows: TargetRows::None, ..Purpose::default() };
        let query = parse_query(&text, self.parameters)?;
        let query = PendingQuery::new(self.state, &text, query);
        let snapshots = query.snapshots(self.state, self.database, &purpose)?;
        let columns = insert_columns(self.sql, insert, &snapshots[TARGET].schema)?;
        let planning = Planning { sql: &text, ..*self };
        let target = Arc::clone(&snapshots[TARGET]);
        planning.values(query, snapshots, (columns, Some(target.as_ref()))).await
    }

    /// Plans a query whose answer is stored in these columns, of a table that does not exist yet.
    pub(crate) async fn fill(&self, columns: Vec<Column>) -> Result<PlannedRows> {
        let query =
            PendingQuery::new(self.state, self.sql, parse_query(self.sql, self.parameters)?);
        let snapshots = query.snapshots(self.state, self.database, &Purpose::default())?;
        self.values(query, snapshots, (columns, None)).await
    }

    async fn values(
        &self,
        mut query: PendingQuery<'_>,
        snapshots: Snapshots,
        (mut columns, target): (Vec<Column>, Option<&Snapshot>),
    ) -> Result<PlannedRows> {
        let is_cast = cast_values(query.query_mut(), self.sql, (&columns, target))?;
        let fills = target.map_or_else(Vec::new, |target| Fill::of_missing(target, &columns));
        let columns_cast: &[Column] = if is_cast { &[] } else { &columns };
        let purpose =
            Purpose { columns: columns_cast, rows: TargetRows::None, fills: &fills, target: None };
        let planned = self.plan(query, snapshots, &purpose, ScanOrder::Forward).await;
        let planned = planned.map_err(|error| match error {
            Error::BadText { text, ty, reason, .. } => {
                let position = find_value(self.sql, &columns, (&text, ty));
                let error = Error::BadText { position, text, ty, reason };
                error_positions::locate(self.sql, error)
            }
            error => error_positions::locate(self.sql, error),
        })?;
        columns.extend(fills.into_iter().map(|fill| fill.column));
        Ok(PlannedRows { columns, ..planned })
    }

    /// Plans an UPDATE. The answer has all columns of the table with their new values, and the
    /// row's id.
    pub(crate) async fn update(&self, update: &Update) -> Result<PlannedRows> {
        let target = Some(&update.target.table);
        let purpose = Purpose { target, rows: self.rows, ..Purpose::default() };
        let plan = async {
            // The tables that it reads do not depend on the columns (RW4).
            let query =
                PendingQuery::new(self.state, self.sql, self.update_query(update, &[], None)?);
            let snapshots = query.snapshots(self.state, self.database, &purpose)?;
            let schema = Arc::clone(&snapshots[TARGET].schema);
            check_sets(self.sql, update, &schema)?;
            let columns = schema.columns();
            let query = self.update_query(update, columns, Some(snapshots[TARGET].as_ref()))?;
            let query = PendingQuery::new(self.state, self.sql, query);
            let purpose = Purpose { columns, ..purpose };
            let planned = self.plan(query, snapshots, &purpose, ScanOrder::Forward).await?;
            Ok(PlannedRows { columns: columns.to_vec(), ..planned })
        };
        plan.await.map_err(|error| error_positions::locate(self.sql, error))
    }

    /// Returns the query for the rows of an UPDATE of a table with these columns; without columns,
    /// one that reads the same tables.
    fn update_query(
        &self,
        update: &Update,
        columns: &[Column],
        target: Option<&Snapshot>,
    ) -> Result<QueryText> {
        let tokens = tokenize(self.sql)?;
        let mut query = QueryTokens::new(&tokens);
        query.word("SELECT");
        if columns.is_empty() {
            for set in &update.sets {
                query.bracketed(self.sql, &set.value);
                query.push(Token::Comma);
            }
        }
        for column in columns {
            let is_it = |name: &str| name.eq_ignore_ascii_case(&column.name);
            match update.sets.iter().find(|set| is_it(&set.column.text)) {
                Some(set) => {
                    match is_default_text(&self.sql[set.value.clone()]) {
                        true => query.default_of(target, column)?,
                        false => query.bracketed(self.sql, &set.value),
                    }
                    // Without AS it would have the name of the column whose value it is.
                    query.word("AS");
                    query.name(&column.name);
                }
                None => query.column(update.target.name(), &column.name),
            }
            query.push(Token::Comma);
        }
        query.column(update.target.name(), ROW_ID);
        query.from(&update.target);
        if let Some(tables) = &update.tables {
            query.push(Token::Comma);
            query.part(self.sql, tables);
        }
        query.condition(self.sql, update.condition.as_ref());
        parse_tokens(self.sql, query.made, self.parameters)
    }

    /// Plans a DELETE. The answer has the ids of rows, in any order; for RETURNING behind all
    /// columns of the table.
    pub(crate) async fn delete(&self, delete: &Delete) -> Result<PlannedRows> {
        let query = self.delete_query(delete, &[])?;
        let target = Some(&delete.target.table);
        let purpose = Purpose { target, rows: self.rows, ..Purpose::default() };
        let plan = async {
            let query = PendingQuery::new(self.state, self.sql, query);
            let snapshots = query.snapshots(self.state, self.database, &purpose)?;
            if delete.returning.is_none() {
                return self.plan(query, snapshots, &purpose, ScanOrder::Any).await;
            }
            let schema = Arc::clone(&snapshots[TARGET].schema);
            let columns = schema.columns();
            let query = self.delete_query(delete, columns)?;
            let query = PendingQuery::new(self.state, self.sql, query);
            let purpose = Purpose { columns, ..purpose };
            self.plan(query, snapshots, &purpose, ScanOrder::Forward).await
        };
        plan.await.map_err(|error| error_positions::locate(self.sql, error))
    }

    fn delete_query(&self, delete: &Delete, columns: &[Column]) -> Result<QueryText> {
        let tokens = tokenize(self.sql)?;
        let mut query = QueryTokens::new(&tokens);
        query.word("SELECT");
        for column in columns {
            query.column(delete.target.name(), &column.name);
            query.push(Token::Comma);
        }
        query.column(delete.target.name(), ROW_ID);
        query.from(&delete.target);
        query.condition(self.sql, delete.condition.as_ref());
        parse_tokens(self.sql, query.made, self.parameters)
    }

    /// Returns the types of the parameters of a statement; `columns` are those that an INSERT
    /// gives.
    pub(crate) fn describe(
        &self,
        change: &RowChange,
        columns: &[Column],
    ) -> Result<ParameterTypes> {
        let (query, target) = match change {
            RowChange::Insert(_) => (parse_query(self.sql, self.parameters)?, None),
            RowChange::Update(update) => {
                (self.update_query(update, columns, None)?, Some(&update.target))
            }
            RowChange::Delete(delete) | RowChange::DropPartitions(delete) => {
                (self.delete_query(delete, &[])?, Some(&delete.target))
            }
        };
        let mut stored = stored_types(&query.statement, columns);
        if target.is_none() && matches!(*query.statement.body, SetExpr::Values(_)) {
            return Ok(stored);
        }
        let target = target.map(|it| &it.table);
        let purpose = Purpose { target, rows: self.rows, ..Purpose::default() };
        let described = describe((self.state, self.database), self.sql, query, &purpose);
        let (_, types) = described.map_err(|error| error_positions::locate(self.sql, error))?;
        for (name, ty) in types {
            stored.entry(name).or_insert(ty);
        }
        Ok(stored)
    }

    /// Returns the time ranges that a condition selects; it may have no other terms.
    pub(crate) fn time_ranges(&self, delete: &Delete) -> Result<Vec<TimeRange>> {
        let ranges = || {
            let query = self.delete_query(delete, &[])?;
            let target = Some(&delete.target.table);
            let purpose = Purpose { target, rows: self.rows, ..Purpose::default() };
            let at = (self.state, self.database);
            let (plan, mut snapshots) = logical_plan(at, self.sql, query, &purpose)?;
            let snapshot = snapshots.remove(TARGET).expect("the table is read");
            let condition = delete.condition.as_ref();
            let position = condition.map(|it| Position::at(self.sql, it.start));
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
        Ok(PlannedRows { plan, snapshot, columns: Vec::new(), notices })
    }
}

/// The tokens of a statement in the order of a query (RW1).
pub(super) struct QueryTokens<'a> {
    tokens: &'a [TokenWithSpan],
    pub(super) made: Vec<TokenWithSpan>,
    /// The place of tokens that the statement does not have.
    start: Location,
}

impl<'a> QueryTokens<'a> {
    pub(super) fn new(tokens: &'a [TokenWithSpan]) -> QueryTokens<'a> {
        let start = tokens.first().map_or(Location { line: 1, column: 1 }, |it| it.span.start);
        QueryTokens { tokens, made: Vec::new(), start }
    }

    fn push(&mut self, token: Token) {
        self.made.push(TokenWithSpan::new(token, Span::new(self.start, self.start)));
        // Words must not touch.
        let blank = Token::Whitespace(Whitespace::Space);
        self.made.push(TokenWithSpan::new(blank, Span::new(self.start, self.start)));
    }

    pub(super) fn word(&mut self, keyword: &str) {
        self.push(Token::make_keyword(keyword));
    }

    pub(super) fn name(&mut self, name: &str) {
        self.push(Token::make_word(name, Some('"')));
    }

    fn column(&mut self, table: &str, column: &str) {
        self.name(table);
        self.made.pop();
        self.push(Token::Period);
        self.made.pop();
        self.name(column);
    }

    pub(super) fn part(&mut self, sql: &str, bytes: &Range<usize>) {
        let place = |offset| {
            let Position { line, column, .. } = Position::at(sql, offset);
            Location { line: line as u64, column: column as u64 }
        };
        let (start, end) = (place(bytes.start), place(bytes.end));
        let is_inside = |token: &&TokenWithSpan| (start..end).contains(&token.span.start);
        self.made.extend(self.tokens.iter().filter(is_inside).cloned());
    }

    fn bracketed(&mut self, sql: &str, bytes: &Range<usize>) {
        self.push(Token::LParen);
        self.part(sql, bytes);
        self.push(Token::RParen);
    }

    /// Adds the default of a column, or NULL.
    fn default_of(&mut self, target: Option<&Snapshot>, column: &Column) -> Result<()> {
        let fill = target.and_then(|target| Fill::of(target, column));
        let Some(fill) = fill else {
            self.word("NULL");
            return Ok(());
        };
        self.push(Token::LParen);
        for token in tokenize(&fill.written()?.to_string())? {
            self.push(token.token);
        }
        self.push(Token::RParen);
        Ok(())
    }

    fn from(&mut self, target: &Target) {
        self.word("FROM");
        self.name(TARGET);
        self.word("AS");
        self.name(target.name());
    }

    fn condition(&mut self, sql: &str, condition: Option<&Range<usize>>) {
        if let Some(condition) = condition {
            self.word("WHERE");
            self.bracketed(sql, condition);
        }
    }
}

/// Casts the values of VALUES (RW2); returns false for any other query.
fn cast_values(
    query: &mut Query,
    sql: &str,
    (columns, target): (&[Column], Option<&Snapshot>),
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
                let fill = target.and_then(|target| Fill::of(target, column));
                let null = || Ok(SqlExpr::Value(Value::Null.into()));
                expr = fill.map_or_else(null, |fill| fill.written())?;
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

/// Returns true for the word DEFAULT: the default of the column, or NULL.
fn is_default(value: &SqlExpr) -> bool {
    matches!(value, SqlExpr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

fn is_default_text(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case("default")
}

/// Returns a type as casts name it.
fn sql_type(ty: ColumnType) -> SqlType {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(&ty.sql());
    let parsed = parser.and_then(|mut parser| parser.parse_data_type());
    parsed.expect("every type has a name that casts know")
}

/// Returns the place of the first value of VALUES that is this text, and is stored as a value of
/// this type.
fn find_value(sql: &str, columns: &[Column], (text, ty): (&str, ColumnType)) -> Option<Position> {
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

/// Returns the plan with its first columns in the types of the columns that store them (RW2).
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

    #[test]
    fn tokens_keep_their_places() {
        let sql = "UPDATE t SET a = b + 1 WHERE c";
        let tokens = tokenize(sql).unwrap();
        let mut query = QueryTokens::new(&tokens);
        query.bracketed(sql, &(17..23));
        let columns = query.made.iter().map(|token| (token.token.to_string(), token.span.start));
        let words = columns.filter(|(text, _)| text == "b" || text == "1");
        let words = words.map(|(text, start)| (text, start.column)).collect::<Vec<_>>();
        assert_eq!(words, [("b".to_owned(), 18), ("1".to_owned(), 22)], "RW1");
    }
}
