//! IN: values, lists and columns of subqueries are converted to a common type.
//!
//! - IN compares with a list as `=` does: -0 equals 0, intervals of one length are equal, and a
//!   time does not equal a constant with more digits.
//!
//! Not here: `ts IN 'text'` and lists behind ANY (`plan::coerce`, `pg_catalog::lists`).

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::{InList, InSubquery};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, Operator, cast, lit, not};
use tidegate_model::{ColumnType, TimeUnit};
use tidegate_storage::segment::arrow_type;

use crate::error::ClauseProblem;
use crate::plan::fine_times::compare_lengths_or_times;
use crate::plan::per_row::per_row;
use crate::types::coercion::{as_type_of, dates_to_times};
use crate::types::expression_type::type_in;
use crate::types::literal::{integer_of, type_of};
use crate::types::{decimals, float_order, intervals, uuid_ipv4};

type PlanResult<T> = std::result::Result<T, DataFusionError>;

/// Returns an error if no operator compares values of these types.
pub(super) fn check_comparable(
    left: &Expr,
    operator: &str,
    right: &Expr,
    schema: &DFSchema,
) -> PlanResult<()> {
    if compare_lengths_or_times(left, Operator::Eq, right, schema).is_some() {
        return Ok(());
    }
    let (Ok(left), Ok(right)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(());
    };
    if comparison_coercion(&left, &right).is_some() {
        return Ok(());
    }
    let types = Box::new([left.to_string(), right.to_string()]);
    Err(ClauseProblem::Operands { operator: operator.to_owned(), types }.into())
}

pub(super) fn in_values(list: InList, schema: &DFSchema) -> PlanResult<Expr> {
    let InList { mut expr, mut list, negated } = list;
    uuid_ipv4::type_parameters(std::iter::once(expr.as_mut()).chain(&mut list), schema);
    let convert_one = |value| {
        let value = as_type_of(value, &expr, schema)?;
        intervals::text_as_length(value, &expr, schema)
    };
    let mut list = list.into_iter().map(convert_one).collect::<PlanResult<Vec<_>>>()?;
    dates_to_times(std::iter::once(expr.as_mut()).chain(&mut list), schema);
    for value in &list {
        check_comparable(&expr, "IN", value, schema)?;
    }
    let finer = |value: &Expr| compare_lengths_or_times(&expr, Operator::Eq, value, schema);
    if list.iter().any(|value| finer(value).is_some()) {
        let equal = |value: Expr| finer(&value).unwrap_or_else(|| expr.as_ref().clone().eq(value));
        let any = disjunction(list.into_iter().map(equal)).expect("there is a finer one");
        return Ok(if negated { not(any) } else { any });
    }
    let list = match type_in(&expr, schema) {
        Some(ColumnType::Decimal { precision, scale }) if list.iter().all(is_constant) => {
            in_decimals(list, precision, scale)
        }
        _ => {
            let compared = decimals::unify([vec![*expr], list].concat(), schema);
            let mut compared = in_one_scale(compared, schema);
            let is_of_floats = compared.iter().any(|it| float_order::is_float(it, schema));
            let list = compared.split_off(1);
            let first = compared.pop().expect("it is the first one");
            let (first, list) = match is_of_floats {
                true => in_floats(first, list, schema),
                false => (first, list),
            };
            expr = Box::new(first);
            list
        }
    };
    let list = list.into_iter().map(per_row).collect();
    Ok(Expr::InList(InList { expr, list, negated }))
}

/// Returns decimals of several scales in one that has the digits of all.
fn in_one_scale(values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let type_of = |value: &Expr| value.get_type(schema).ok();
    let is_decimal = |ty: &DataType| matches!(ty, DataType::Decimal128(..));
    let types = values.iter().filter_map(type_of).filter(is_decimal);
    let common = types.reduce(|all, ty| comparison_coercion(&all, &ty).unwrap_or(all));
    let Some(common) = common.filter(is_decimal) else { return values };
    let cast_one = |value: Expr| match type_of(&value) {
        Some(ty) if is_decimal(&ty) && ty != common => cast(value, common.clone()),
        _ => value,
    };
    values.into_iter().map(cast_one).collect()
}

/// Returns a value and a list of which one is a float: DataFusion compares them bit by bit, but -0
/// equals 0. Constants stay unchanged, so that the scan recognizes them.
fn in_floats(value: Expr, list: Vec<Expr>, schema: &DFSchema) -> (Expr, Vec<Expr>) {
    if list.iter().all(is_constant) {
        return (float_order::operand(value, schema), with_both_zeros(list));
    }
    let key = |value| float_order::key(value, schema);
    (key(value), list.into_iter().map(key).collect())
}

/// Converts `x IN (SELECT y ..)` with a DECIMAL and a DOUBLE to two DOUBLEs, and with a DATE and a
/// TIMESTAMP to two TIMESTAMPs.
pub(super) fn in_subquery(inside: InSubquery, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    let InSubquery { mut expr, mut subquery, negated } = inside;
    let field = subquery.subquery.schema().field(0);
    let (left, right) = (type_in(&expr, schema), type_of(field));
    if let (Some(left), Some(right)) = (left, right)
        && left != right
        && [left, right].iter().any(|ty| matches!(ty, ColumnType::Uuid | ColumnType::Ipv4))
    {
        let types = Box::new([left.sql(), right.sql()]);
        return Err(ClauseProblem::Operands { operator: "IN".to_owned(), types }.into());
    }
    let is_float = |ty| matches!(ty, Some(ColumnType::Float32 | ColumnType::Float64));
    let is_decimal = |ty| matches!(ty, Some(ColumnType::Decimal { .. }));
    let is_time = |ty| matches!(ty, Some(ColumnType::Timestamp(_)));
    let is_date = |ty: Option<ColumnType>| ty == Some(ColumnType::Date);
    let timestamp = arrow_type(ColumnType::Timestamp(TimeUnit::Micros));
    let (value_type, column_type) = if is_decimal(left) && is_float(right) {
        (Some(DataType::Float64), None)
    } else if is_decimal(right) && is_float(left) {
        (None, Some(DataType::Float64))
    } else if is_date(left) && is_time(right) {
        (Some(timestamp), None)
    } else if is_date(right) && is_time(left) {
        (None, Some(timestamp))
    } else {
        (None, None)
    };
    let is_changed = value_type.is_some() || column_type.is_some();
    if let Some(ty) = value_type {
        *expr = cast(*expr, ty);
    }
    if let Some(ty) = column_type {
        let column = Expr::Column(subquery.subquery.schema().columns()[0].clone());
        let converted = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery.subquery))
            .project([cast(column, ty)])?;
        subquery.subquery = Arc::new(converted.build()?);
    }
    let inside = Expr::InSubquery(InSubquery { expr, subquery, negated });
    Ok(if is_changed { Transformed::yes(inside) } else { Transformed::no(inside) })
}

/// Removes constants that no decimal equals from an IN list of decimals, unless it has no others.
fn in_decimals(list: Vec<Expr>, precision: u8, scale: u8) -> Vec<Expr> {
    let is_number = |value: &Expr| match value {
        Expr::Literal(value, _) => value.data_type().is_numeric() && !is_decimal_literal(value),
        _ => false,
    };
    let kept = |value: &Expr| match is_number(value) {
        true => decimals::equal(value, precision, scale),
        false => Some(value.clone()),
    };
    let kept = list.iter().filter_map(kept).collect::<Vec<_>>();
    if kept.is_empty() { list } else { kept }
}

fn is_constant(value: &Expr) -> bool {
    matches!(value, Expr::Literal(..))
}

fn is_decimal_literal(value: &ScalarValue) -> bool {
    matches!(value, ScalarValue::Decimal128(..))
}

/// Returns a list of constants with both zeros in place of any zero.
fn with_both_zeros(mut list: Vec<Expr>) -> Vec<Expr> {
    let is_zero = |value: &Expr| match value {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value == 0.0,
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value == 0.0,
        Expr::Literal(ScalarValue::Decimal128(Some(value), ..), _) => *value == 0,
        Expr::Literal(value, _) => integer_of(value) == Some(0),
        _ => false,
    };
    if list.iter().any(is_zero) {
        list.retain(|value| !is_zero(value));
        list.extend([lit(0.0), lit(-0.0)]);
    }
    list
}
