//! TIMESTAMP compared with a constant TIMESTAMP_NS, exactly, and casts of the one to the other.
//!
//! - A TIMESTAMP_NS becomes the microsecond at or before it, on both sides of 1970. Arrow cuts its
//!   digits, which moves earlier times forward, some of them into the next day.
//! - A time of microseconds is compared with a constant of nanoseconds by the microseconds before
//!   and behind that: `ts >= ..00.000000180` is `ts >= ..00.000001`.
//!
//! DataFusion cuts the constant to microseconds first. Not here: columns of both kinds, which it
//! compares in nanoseconds.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, TimestampMicrosecondType, TimestampNanosecondType};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit, not,
};
use tidegate_model::{ColumnType, TimeUnit};
use tidegate_storage::segment::arrow_type;

use crate::types::expression_type::type_in;
use crate::types::intervals;
use crate::types::time_text::{TimeScale, parse_time};
use crate::types::tree_changes::{ChangeParts, ChangePlan};

const MICROS: ColumnType = ColumnType::Timestamp(TimeUnit::Micros);
const NANOS: ColumnType = ColumnType::Timestamp(TimeUnit::Nanos);
const PER_MICRO: i64 = 1_000;

/// Compares a TIMESTAMP and a constant TIMESTAMP_NS, in either order.
pub(super) fn compare(
    left: &Expr,
    left_type: Option<ColumnType>,
    op: Operator,
    right: &Expr,
    right_type: Option<ColumnType>,
) -> Option<Expr> {
    match (left_type?, right_type?) {
        (NANOS, MICROS) if is_far(right) => Some(with_far(left, op, right)),
        (MICROS, NANOS) if is_far(left) => Some(with_far(right, swapped(op)?, left)),
        (MICROS, NANOS) if is_constant(right) && !is_constant(left) => {
            Some(with_constant(left, op, right))
        }
        (NANOS, MICROS) if is_constant(left) && !is_constant(right) => {
            Some(with_constant(right, swapped(op)?, left))
        }
        _ => None,
    }
}

/// Makes the casts of TIMESTAMP_NS to TIMESTAMP of a whole plan find the microsecond before.
pub(super) fn with_floored_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_nodes(&mut |node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.change_exprs(&mut |expr| {
            let saved = names.save(&expr);
            let floored = expr.change_parts(&mut |expr| Ok(floored(expr, &schema)))?;
            Ok(if floored.transformed {
                floored.update_data(|expr| saved.restore(expr))
            } else {
                floored
            })
        })
    })
    .data()
}

fn floored(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let cast = match &expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => (expr, field),
        _ => return Transformed::no(expr),
    };
    let is_finer = *cast.1.data_type() == arrow_type(MICROS)
        && cast.0.get_type(schema).is_ok_and(|ty| ty == arrow_type(NANOS));
    match is_finer {
        true => Transformed::yes(micros(cast.0, Rounding::Down)),
        false => Transformed::no(expr),
    }
}

fn swapped(op: Operator) -> Option<Operator> {
    match op {
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => Some(op),
        op => op.swap(),
    }
}

/// Returns the microseconds of a constant, if no TIMESTAMP_NS has them.
fn far_micros(expr: &Expr) -> Option<i64> {
    let micros = match expr {
        Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _) => *micros,
        Expr::Cast(Cast { expr, field }) if *field.data_type() == arrow_type(MICROS) => {
            let days = days_of(expr).and_then(|days| days.checked_mul(TimeUnit::Micros.per_day()));
            days.or_else(|| time_of(expr, TimeScale::Unit(TimeUnit::Micros)))?
        }
        _ => return None,
    };
    micros.checked_mul(PER_MICRO).is_none().then_some(micros)
}

/// Returns the days of a constant DATE, which may not be evaluated yet.
fn days_of(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Date32(Some(days)), _) => Some((*days).into()),
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Date32 => {
            time_of(expr, TimeScale::Days)
        }
        _ => None,
    }
}

/// Returns the time of a text literal.
fn time_of(expr: &Expr, scale: TimeScale) -> Option<i64> {
    let Expr::Literal(text, _) = expr else { return None };
    parse_time(text.try_as_str()??, scale).ok()
}

fn is_far(expr: &Expr) -> bool {
    far_micros(expr).is_some()
}

/// Compares a time of nanoseconds with a constant that is later or earlier than all of them.
fn with_far(time: &Expr, op: Operator, far: &Expr) -> Expr {
    let is_later = far_micros(far).is_some_and(|micros| micros > 0);
    let itself = |op| {
        let (left, right) = (Box::new(time.clone()), Box::new(time.clone()));
        Expr::BinaryExpr(BinaryExpr::new(left, op, right))
    };
    match op {
        Operator::IsDistinctFrom => lit(true),
        Operator::IsNotDistinctFrom => lit(false),
        // True, or NULL for NULL.
        Operator::NotEq => itself(Operator::Eq),
        Operator::Lt | Operator::LtEq if is_later => itself(Operator::Eq),
        Operator::Gt | Operator::GtEq if !is_later => itself(Operator::Eq),
        _ => itself(Operator::NotEq),
    }
}

/// Returns true for an expression that has one value for all rows.
fn is_constant(expr: &Expr) -> bool {
    let is_open = |expr: &Expr| {
        let opens = matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Placeholder(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        );
        Ok(opens || expr.is_volatile_node())
    };
    !expr.exists(is_open).unwrap_or(true)
}

fn with_constant(time: &Expr, op: Operator, constant: &Expr) -> Expr {
    let (floor, ceil) = (micros(constant, Rounding::Down), micros(constant, Rounding::Up));
    let by = |op, bound: Expr| {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(time.clone()), op, Box::new(bound)))
    };
    if floor == ceil {
        return by(op, floor);
    }
    let equal = || by(Operator::GtEq, ceil.clone()).and(by(Operator::LtEq, floor.clone()));
    let same = || {
        let both_null = time.clone().is_null().and(constant.clone().is_null());
        Expr::IsTrue(Box::new(equal())).or(both_null)
    };
    match op {
        Operator::Gt => by(Operator::Gt, floor),
        Operator::GtEq => by(Operator::GtEq, ceil),
        Operator::Lt => by(Operator::Lt, ceil),
        Operator::LtEq => by(Operator::LtEq, floor),
        Operator::NotEq => not(equal()),
        Operator::IsNotDistinctFrom => same(),
        Operator::IsDistinctFrom => not(same()),
        _ => equal(),
    }
}

/// Returns the microsecond at or before a time of nanoseconds, or at or behind it.
fn micros(nanos: &Expr, rounding: Rounding) -> Expr {
    if let Expr::Literal(ScalarValue::TimestampNanosecond(value, None), _) = nanos {
        let value = value.map(|value| rounding.micros(value));
        return lit(ScalarValue::TimestampMicrosecond(value, None));
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(ToMicros { rounding, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![nanos.clone()]))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rounding {
    Down,
    Up,
}

impl Rounding {
    fn micros(self, nanos: i64) -> i64 {
        let floor = nanos.div_euclid(PER_MICRO);
        match self {
            Rounding::Up if nanos.rem_euclid(PER_MICRO) != 0 => floor + 1,
            _ => floor,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToMicros {
    rounding: Rounding,
    signature: Signature,
}

impl ScalarUDFImpl for ToMicros {
    fn name(&self) -> &'static str {
        match self.rounding {
            Rounding::Down => "microsecond before",
            Rounding::Up => "microsecond behind",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(arrow_type(MICROS))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        // A later rule may have given the argument the unit of a column: `date_bin` of constants.
        if values.data_type() == &arrow_type(MICROS) {
            return Ok(ColumnarValue::Array(values));
        }
        let values = values.as_primitive::<TimestampNanosecondType>();
        let micros =
            values.unary::<_, TimestampMicrosecondType>(|nanos| self.rounding.micros(nanos));
        Ok(ColumnarValue::Array(Arc::new(micros)))
    }
}

/// Does the same for lengths and times only, as IS DISTINCT FROM needs it: NULL is a value there.
pub(crate) fn compare_lengths_or_times(
    left: &Expr,
    op: Operator,
    right: &Expr,
    schema: &DFSchema,
) -> Option<Expr> {
    let types = (type_in(left, schema), type_in(right, schema));
    let compared = compare(left, types.0, op, right, types.1);
    compared.or_else(|| intervals::compare(left, op, right, schema))
}
