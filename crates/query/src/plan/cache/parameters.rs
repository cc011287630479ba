//! Parameter predicates: conditions `column op $n`, whose values can be replaced in a cached plan.
//!
//! - Each parameter stands once, in a condition `column = $n` (or `<`, `<=`, `>`, `>=`, either way
//!   round) of those that WHERE joins by AND, in a query of one table.
//! - No other condition is about such a column, except one that bounds it on the other side: so
//!   planning never removes one of them as redundant because of their values.
//! - A plan is used for other values only if its scan has the condition with exactly the value that
//!   [`value_like`] returns; other values must give one of the same type, or the query is planned
//!   for them.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, Query, SetExpr, TableFactor, UnaryOperator, Visit, Visitor,
};
use tidegate_model::{ColumnType, TimeUnit};

use crate::plan::parameters::{Parameter, Places};
use crate::types::literal::value_of_text;

/// Integers up to this are each exact as a double.
const WHOLE_DOUBLES: i64 = 1 << 53;
/// The digits of `2025-03-01T00:00:00`: a shorter text may mean an interval.
const INSTANT_DIGITS: usize = 19;

/// A condition `column op $n`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParameterPredicate {
    column: String,
    op: Operator,
    /// The index, counted from 0.
    parameter: usize,
}

/// A condition of WHERE.
struct Condition {
    /// All columns in it.
    columns: Vec<String>,
    /// The operator, if it compares one of them with something else.
    op: Option<Operator>,
    parameter: Option<usize>,
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
    let is_one_table = matches!(table.relation, TableFactor::Table { args: None, .. });
    if places.is_empty() || !is_one_table || !table.joins.is_empty() || query.with.is_some() {
        return None;
    }
    let mut conditions = Vec::new();
    split(select.selection.as_ref()?, places, parameters, &mut conditions)?;
    let mut all = Vec::new();
    for condition in &conditions {
        let Some(parameter) = condition.parameter else { continue };
        let (op, column) = (condition.op?, condition.columns.first()?);
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
        all.push(ParameterPredicate { column: column.clone(), op, parameter });
    }
    (all.len() == places.len()).then_some(all)
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
    let Seen { columns, parameters } = Seen::in_expr(expr, places);
    let comparison = comparison(expr);
    let (op, parameter) = match (comparison, parameters.as_slice()) {
        (Some((op, other)), []) if columns.len() == 1 && is_value(other) => (Some(op), None),
        (_, []) => (None, None),
        (Some((op, other)), [parameter]) if columns.len() == 1 => {
            let is_alone = values.get(*parameter).is_some_and(|value| is_written(other, value));
            is_alone.then_some((Some(op), Some(*parameter)))?
        }
        _ => return None,
    };
    conditions.push(Condition { columns, op, parameter });
    Some(())
}

/// Returns the operator and the other side of `column op other`, in either order.
fn comparison(expr: &SqlExpr) -> Option<(Operator, &SqlExpr)> {
    let SqlExpr::BinaryOp { left, op, right } = expr else { return None };
    let op = match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    };
    let is_column =
        |expr: &SqlExpr| matches!(expr, SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_));
    match (is_column(left), is_column(right)) {
        (true, false) => Some((op, right)),
        (false, true) => Some((op.swap()?, left)),
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
        let _ = expr.visit(&mut seeing);
        seeing.0
    }
}

impl ParameterPredicate {
    /// Returns the index of its condition in a scan; `None` if there is none, or
    /// several.
    fn find(&self, filters: &[Expr], parameters: &[Parameter]) -> Option<usize> {
        let is_it = |filter: &Expr| {
            let Some((column, op, value)) = predicate_value(filter) else { return false };
            let like = parameters.get(self.parameter).and_then(|it| value_like(value, it));
            column == self.column && op == self.op && like.as_ref() == Some(value)
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
    parameter: usize,
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
            Some(Slot { filter, parameter: it.parameter })
        };
        predicates.iter().map(slot).collect::<Option<_>>().map(Slots)
    }

    /// Returns the constants at these places.
    pub(super) fn values<'a>(&self, filters: &'a [Expr]) -> Vec<&'a ScalarValue> {
        let value = |slot: &Slot| predicate_value(&filters[slot.filter]).map(|(_, _, value)| value);
        self.0.iter().filter_map(value).collect()
    }

    /// Returns the conditions with other values; `None` if they do not fit.
    pub(super) fn with_values(
        &self,
        filters: &[Expr],
        parameters: &[Parameter],
    ) -> Option<Arc<[Expr]>> {
        let mut filters = filters.to_vec();
        for Slot { filter, parameter } in &self.0 {
            filters[*filter] = with_value(&filters[*filter], parameters.get(*parameter)?)?;
        }
        Some(filters.into())
    }
}

/// Returns the parts of `column op value` in a scan's condition.
fn predicate_value(filter: &Expr) -> Option<(&str, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) => Some((&column.name, *op, value)),
        (Expr::Literal(value, _), Expr::Column(column)) => Some((&column.name, op.swap()?, value)),
        _ => None,
    }
}

/// Returns the condition with the value of a parameter in place of its own; `None` if that is of
/// another type.
fn with_value(filter: &Expr, parameter: &Parameter) -> Option<Expr> {
    let (_, _, old) = predicate_value(filter)?;
    let value = value_like(old, parameter)?;
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    let put = |side: &Expr| match side {
        Expr::Literal(_, metadata) => Box::new(Expr::Literal(value.clone(), metadata.clone())),
        other => Box::new(other.clone()),
    };
    Some(Expr::BinaryExpr(BinaryExpr { left: put(left), op: *op, right: put(right) }))
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
