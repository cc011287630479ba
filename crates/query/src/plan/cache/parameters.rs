//! Parameter predicates: conditions of a column and parameters, whose values can be replaced in a
//! cached plan. Lifted literals are parameters as well (`lifted`).
//!
//! - Each parameter stands once, in a condition `column = $n` (or `<`, `<=`, `>`, `>=`, either way
//!   round), `column IN ($n, ...)` or `column BETWEEN $n AND $m` of those that WHERE joins by AND,
//!   in a query of one table.
//! - No other condition is about such a column, except one that bounds it on the other side: so
//!   planning never removes one of them as redundant because of their values. HAVING, QUALIFY and
//!   the bounds of SAMPLE BY are conditions as well, which planning may move to the scan: a query
//!   with more filters than WHERE has no plan for other values (`has_one_filter`).
//! - A plan is used for other values only if its scan has the condition with exactly the value that
//!   [`value_like`] returns; other values must give one of the same type, or the query is planned
//!   for them.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, plan_err};
use datafusion::logical_expr::expr::{BinaryExpr, Cast, InList};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Operator};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, Query, SetExpr, TableFactor, UnaryOperator, Visitor,
};
use tidegate_model::{ColumnType, TimeUnit};

use crate::plan::parameters::{Parameter, Places};
use crate::sql::visit::visit;
use crate::types::literal::value_of_text;

/// Integers up to this are each exact as a double.
const WHOLE_DOUBLES: i64 = 1 << 53;
/// The digits of `2025-03-01T00:00:00`: a shorter text may mean an interval.
const INSTANT_DIGITS: usize = 19;

/// A condition of a column and parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParameterPredicate {
    column: String,
    /// The operator of a comparison with one parameter; `None` if the column is one of several.
    op: Option<Operator>,
    /// Their indices, counted from 0.
    parameters: Vec<usize>,
}

/// A condition of WHERE.
#[derive(Default)]
struct Condition {
    /// All columns in it.
    columns: Vec<String>,
    /// The operator, if it compares one of them with something else.
    op: Option<Operator>,
    parameters: Vec<usize>,
}

/// Returns the predicates of the parameters of a query; `None` if a parameter has another use, or
/// another condition is about its column.
pub(crate) fn parameter_predicates(
    query: &Query,
    places: &Places,
    parameters: &[Parameter],
) -> Option<Vec<ParameterPredicate>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [table] = select.from.as_slice() else { return None };
    // Names in a list of columns may be those of other columns of the table.
    let is_one_table = match &table.relation {
        TableFactor::Table { args: None, alias, .. } => {
            alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
        }
        _ => false,
    };
    if places.is_empty() || !is_one_table || !table.joins.is_empty() || query.with.is_some() {
        return None;
    }
    let mut conditions = Vec::new();
    split(select.selection.as_ref()?, places, parameters, &mut conditions)?;
    let (mut all, mut count) = (Vec::new(), 0);
    for condition in &conditions {
        if condition.parameters.is_empty() {
            continue;
        }
        let column = condition.columns.first()?;
        let others = conditions.iter().filter(|other| other.columns.contains(column));
        let is_bounded_once = match others.collect::<Vec<_>>().as_slice() {
            [_] => true,
            [one, other] => match (one.op, other.op) {
                (Some(one), Some(other)) => {
                    is_lower(one) && is_upper(other) || is_upper(one) && is_lower(other)
                }
                _ => false,
            },
            _ => false,
        };
        if !is_bounded_once {
            return None;
        }
        count += condition.parameters.len();
        let (column, op, parameters) = (column.clone(), condition.op, condition.parameters.clone());
        all.push(ParameterPredicate { column, op, parameters });
    }
    (count == places.len()).then_some(all)
}

/// Returns true if a plan, before it is optimized, has the filter of WHERE and no other whose
/// conditions may move to the scan.
pub(super) fn has_one_filter(plan: &LogicalPlan) -> Result<bool> {
    let mut filters = 0;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Filter(filter) = node {
            filters += usize::from(!is_of_aggregates(filter));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(filters == 1)
}

/// Returns true if each condition is about the result of an aggregate: it stays above it.
fn is_of_aggregates(filter: &Filter) -> bool {
    let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else { return false };
    let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let is_result = |column: &&Column| {
        let index = aggregate.schema.maybe_index_of_column(column);
        index.is_some_and(|index| keys <= index)
    };
    let conditions = split_conjunction(&filter.predicate);
    conditions.into_iter().all(|condition| condition.column_refs().iter().any(is_result))
}

fn is_lower(op: Operator) -> bool {
    matches!(op, Operator::Gt | Operator::GtEq)
}

fn is_upper(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq)
}

/// Splits a condition at its ANDs; `None` if a parameter stands elsewhere than in a comparison with
/// a column.
fn split(
    expr: &SqlExpr,
    places: &Places,
    values: &[Parameter],
    conditions: &mut Vec<Condition>,
) -> Option<()> {
    match expr {
        SqlExpr::Nested(inner) => return split(inner, places, values, conditions),
        SqlExpr::BinaryOp { left, op: BinaryOperator::And, right } => {
            split(left, places, values, conditions)?;
            return split(right, places, values, conditions);
        }
        _ => {}
    }
    if let SqlExpr::Between { expr, negated: false, low, high } = expr
        && is_column(expr)
    {
        for (op, bound) in [(Operator::GtEq, low), (Operator::LtEq, high)] {
            conditions.push(compared(expr, op, bound, places, values)?);
        }
        return Some(());
    }
    if let SqlExpr::InList { expr, list, negated: false } = expr
        && is_column(expr)
    {
        conditions.push(listed(expr, list, places, values)?);
        return Some(());
    }
    let condition = match comparison(expr) {
        Some(Comparison { column, op, other }) => compared(column, op, other, places, values)?,
        None => {
            let Seen { columns, parameters } = Seen::in_expr(expr, places);
            if !parameters.is_empty() {
                return None;
            }
            Condition { columns, ..Condition::default() }
        }
    };
    conditions.push(condition);
    Some(())
}

/// Returns the condition `column op other`; `None` if a parameter is only a part of the other side.
fn compared(
    column: &SqlExpr,
    op: Operator,
    other: &SqlExpr,
    places: &Places,
    values: &[Parameter],
) -> Option<Condition> {
    let Seen { mut columns, .. } = Seen::in_expr(column, places);
    let seen = Seen::in_expr(other, places);
    match seen.parameters.as_slice() {
        [] => {
            let op = Some(op).filter(|_| seen.columns.is_empty() && is_value(other));
            columns.extend(seen.columns);
            Some(Condition { columns, op, parameters: Vec::new() })
        }
        &[parameter] if seen.columns.is_empty() => {
            let is_alone = values.get(parameter).is_some_and(|value| is_written(other, value));
            let condition = Condition { columns, op: Some(op), parameters: vec![parameter] };
            is_alone.then_some(condition)
        }
        _ => None,
    }
}

/// Returns the condition `column IN (list)`; `None` if only some of the list are parameters.
fn listed(
    column: &SqlExpr,
    list: &[SqlExpr],
    places: &Places,
    values: &[Parameter],
) -> Option<Condition> {
    let Seen { columns, .. } = Seen::in_expr(column, places);
    let mut condition = Condition { columns, ..Condition::default() };
    let mut has_others = false;
    for item in list {
        let Seen { columns, parameters } = Seen::in_expr(item, places);
        match parameters.as_slice() {
            &[parameter] if values.get(parameter).is_some_and(|it| is_written(item, it)) => {
                condition.parameters.push(parameter);
            }
            [] => {
                has_others = true;
                condition.columns.extend(columns);
            }
            _ => return None,
        }
    }
    (condition.parameters.is_empty() || !has_others).then_some(condition)
}

/// A comparison `column op other`.
struct Comparison<'a> {
    column: &'a SqlExpr,
    op: Operator,
    other: &'a SqlExpr,
}

fn is_column(expr: &SqlExpr) -> bool {
    matches!(expr, SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_))
}

/// Returns a comparison of a column with something else, in either order.
fn comparison(expr: &SqlExpr) -> Option<Comparison<'_>> {
    let SqlExpr::BinaryOp { left, op, right } = expr else { return None };
    let op = match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    };
    match (is_column(left), is_column(right)) {
        (true, false) => Some(Comparison { column: left, op, other: right }),
        (false, true) => Some(Comparison { column: right, op: op.swap()?, other: left }),
        _ => None,
    }
}

/// Returns true if an expression is exactly the value of a parameter as `parameters` writes it: a
/// sign or a cast of the statement's own would be lost with the next value.
fn is_written(expr: &SqlExpr, value: &Parameter) -> bool {
    let is_plain = |expr: &SqlExpr| matches!(expr, SqlExpr::Value(_));
    match (expr, value) {
        (SqlExpr::Nested(inner), _) => is_written(inner, value),
        (SqlExpr::UnaryOp { op: UnaryOperator::Minus, expr }, Parameter::Integer(number)) => {
            *number < 0 && is_plain(expr)
        }
        (SqlExpr::UnaryOp { op: UnaryOperator::Minus, expr }, Parameter::Double(number)) => {
            number.is_sign_negative() && is_plain(expr)
        }
        (SqlExpr::Cast { expr, .. }, Parameter::Typed(..)) => is_plain(expr),
        (SqlExpr::Value(_), Parameter::Typed(..)) => false,
        (expr, _) => is_plain(expr),
    }
}

/// Returns true for a literal.
fn is_value(expr: &SqlExpr) -> bool {
    match expr {
        SqlExpr::Value(_) => true,
        SqlExpr::Nested(inner) => is_value(inner),
        SqlExpr::UnaryOp { expr, .. } | SqlExpr::Cast { expr, .. } => is_value(expr),
        _ => false,
    }
}

/// The columns and parameters in an expression.
struct Seen {
    /// The columns, each once.
    columns: Vec<String>,
    parameters: Vec<usize>,
}

impl Seen {
    fn in_expr(expr: &SqlExpr, places: &Places) -> Seen {
        struct Seeing<'a>(Seen, &'a Places);
        impl Visitor for Seeing<'_> {
            type Break = ();

            fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<()> {
                let Seeing(seen, places) = self;
                let name = match expr {
                    SqlExpr::Identifier(name) => Some(name),
                    SqlExpr::CompoundIdentifier(path) => path.last(),
                    _ => None,
                };
                if let Some(name) = name
                    && !seen.columns.contains(&name.value)
                {
                    seen.columns.push(name.value.clone());
                }
                if let SqlExpr::Value(value) = expr {
                    seen.parameters.extend(places.get(&value.span.start));
                }
                ControlFlow::Continue(())
            }
        }
        let seen = Seen { columns: Vec::new(), parameters: Vec::new() };
        let mut seeing = Seeing(seen, places);
        let _ = visit(expr, &mut seeing);
        seeing.0
    }
}

impl ParameterPredicate {
    /// Returns the index of its condition in a scan; `None` if there is none, or
    /// several.
    fn find(&self, filters: &[Expr], parameters: &[Parameter]) -> Option<usize> {
        let has_values = |values: &[&ScalarValue]| {
            values.len() == self.parameters.len()
                && values.iter().zip(&self.parameters).all(|(value, parameter)| {
                    let like = parameters.get(*parameter).and_then(|it| value_like(value, it));
                    like.as_ref() == Some(*value)
                })
        };
        let is_it = |filter: &Expr| match self.op {
            Some(op) => predicate_value(filter).is_some_and(|it| {
                it.column == self.column && it.op == op && has_values(&[it.value])
            }),
            None => {
                let mut values = Vec::new();
                membership_values(filter, &self.column, &mut values) && has_values(&values)
            }
        };
        let mut found = filters.iter().enumerate().filter(|(_, filter)| is_it(filter));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Some(at),
            _ => None,
        }
    }
}

/// The places of the values of parameters in the conditions of a scan.
#[derive(Debug)]
pub(super) struct Slots(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    filter: usize,
    /// In the order of the constants of the condition.
    parameters: Vec<usize>,
}

impl Slots {
    /// Finds them in these conditions with these values; `None` if one is not found.
    pub(super) fn find(
        predicates: &[ParameterPredicate],
        filters: &[Expr],
        parameters: &[Parameter],
    ) -> Option<Slots> {
        let slot = |it: &ParameterPredicate| {
            let filter = it.find(filters, parameters)?;
            Some(Slot { filter, parameters: it.parameters.clone() })
        };
        predicates.iter().map(slot).collect::<Option<_>>().map(Slots)
    }

    /// Returns the constants at these places.
    pub(super) fn values(&self, filters: &[Expr]) -> Vec<ScalarValue> {
        let mut values = Vec::new();
        for slot in &self.0 {
            let _ = filters[slot.filter].apply(|part| {
                if let Expr::Literal(value, _) = part {
                    values.push(value.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            });
        }
        values
    }

    /// Returns the conditions with other values; `None` if they do not fit.
    pub(super) fn with_values(
        &self,
        filters: &[Expr],
        parameters: &[Parameter],
    ) -> Option<Arc<[Expr]>> {
        let mut filters = filters.to_vec();
        for slot in &self.0 {
            let filter = std::mem::take(&mut filters[slot.filter]);
            filters[slot.filter] = with_parameters(filter, &slot.parameters, parameters)?;
        }
        Some(filters.into())
    }
}

/// A scan's condition `column op value`.
struct PredicateValue<'a> {
    column: &'a str,
    op: Operator,
    value: &'a ScalarValue,
}

fn predicate_value(filter: &Expr) -> Option<PredicateValue<'_>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    if let (Some(column), Expr::Literal(value, _)) = (compared_column(left), right.as_ref()) {
        return Some(PredicateValue { column, op: *op, value });
    }
    match (left.as_ref(), compared_column(right)) {
        (Expr::Literal(value, _), Some(column)) => {
            Some(PredicateValue { column, op: op.swap()?, value })
        }
        _ => None,
    }
}

/// Returns the name of a column that is compared as it is, or as a double: what an integer column
/// is compared with is never made an integer, whatever its value.
fn compared_column(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => {
            match expr.as_ref() {
                Expr::Column(column) => Some(&column.name),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Adds the values of a condition `column IN (..)`, or of the equalities that planning makes of a
/// short list; returns false for any other condition.
fn membership_values<'a>(
    filter: &'a Expr,
    column: &str,
    values: &mut Vec<&'a ScalarValue>,
) -> bool {
    match filter {
        Expr::InList(InList { expr, list, negated: false }) => {
            let is_it = matches!(expr.as_ref(), Expr::Column(it) if it.name == column);
            is_it
                && list.iter().all(|item| match item {
                    Expr::Literal(value, _) => {
                        values.push(value);
                        true
                    }
                    _ => false,
                })
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            membership_values(left, column, values) && membership_values(right, column, values)
        }
        _ => match predicate_value(filter) {
            Some(it) if it.op == Operator::Eq && it.column == column => {
                values.push(it.value);
                true
            }
            _ => false,
        },
    }
}

/// Returns a condition with the values of these parameters in place of its constants, in their
/// order; `None` if one is of another type.
fn with_parameters(filter: Expr, places: &[usize], parameters: &[Parameter]) -> Option<Expr> {
    let mut places = places.iter();
    let put = filter.transform_down(|part| {
        let Expr::Literal(old, metadata) = part else { return Ok(Transformed::no(part)) };
        let parameter = places.next().and_then(|place| parameters.get(*place));
        match parameter.and_then(|parameter| value_like(&old, parameter)) {
            Some(value) => Ok(Transformed::yes(Expr::Literal(value, metadata))),
            None => plan_err!("a value does not fit"),
        }
    });
    put.ok().map(|put| put.data)
}

/// Returns the value of a parameter in the type of a constant that planning has made of another
/// value; `None` if it has none there, or planning might have made something else of it.
fn value_like(old: &ScalarValue, parameter: &Parameter) -> Option<ScalarValue> {
    use ScalarValue as S;
    Some(match (old, parameter) {
        (S::Int8(_), Parameter::Integer(x)) => S::Int8(Some(i8::try_from(*x).ok()?)),
        (S::Int16(_), Parameter::Integer(x)) => S::Int16(Some(i16::try_from(*x).ok()?)),
        (S::Int32(_), Parameter::Integer(x)) => S::Int32(Some(i32::try_from(*x).ok()?)),
        (S::Int64(_), Parameter::Integer(x)) => S::Int64(Some(*x)),
        (S::UInt8(_), Parameter::Integer(x)) => S::UInt8(Some(u8::try_from(*x).ok()?)),
        (S::UInt16(_), Parameter::Integer(x)) => S::UInt16(Some(u16::try_from(*x).ok()?)),
        (S::UInt32(_), Parameter::Integer(x)) => S::UInt32(Some(u32::try_from(*x).ok()?)),
        (S::UInt64(_), Parameter::Integer(x)) => S::UInt64(Some(u64::try_from(*x).ok()?)),
        (S::Float64(_), Parameter::Integer(x)) if x.abs() <= WHOLE_DOUBLES => {
            S::Float64(Some(*x as f64))
        }
        (S::Float64(_), Parameter::Double(x)) if x.is_finite() && x.to_bits() != SIGNED_ZERO => {
            S::Float64(Some(*x))
        }
        (S::Utf8(_), Parameter::Text(text)) => S::Utf8(Some(text.clone())),
        (S::Utf8View(_), Parameter::Text(text)) => S::Utf8View(Some(text.clone())),
        (_, Parameter::Text(text)) => of_text(old, text)?,
        (_, Parameter::Typed(ty, Some(text))) if ty == "UUID" => of_text(old, text)?,
        // A TIMESTAMP becomes one of microseconds first, for a column of any type.
        (_, Parameter::Typed(ty, Some(text))) if ty == "TIMESTAMP" => {
            let micros = ColumnType::Timestamp(TimeUnit::Micros);
            value_of_text(text, micros)?.ok()?;
            of_text(old, text)?
        }
        _ => return None,
    })
}

const SIGNED_ZERO: u64 = 1 << 63;

/// Parses a text as an instant or a UUID.
fn of_text(old: &ScalarValue, text: &str) -> Option<ScalarValue> {
    let ty = match old {
        ScalarValue::TimestampMicrosecond(_, None) => ColumnType::Timestamp(TimeUnit::Micros),
        ScalarValue::TimestampNanosecond(_, None) => ColumnType::Timestamp(TimeUnit::Nanos),
        ScalarValue::FixedSizeBinary(16, _) => ColumnType::Uuid,
        _ => return None,
    };
    let is_whole = text.len() >= INSTANT_DIGITS && text.is_ascii();
    let value = value_of_text(text, ty).filter(|_| is_whole)?.ok()?;
    (value.data_type() == old.data_type() && !value.is_null()).then_some(value)
}
