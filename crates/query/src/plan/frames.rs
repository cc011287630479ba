//! Frames of windows whose bounds DataFusion would compare wrongly.
//!
//! - The start of a frame is not behind its end. DataFusion refuses such a frame, or counts its
//!   rows as negative; in PostgreSQL it has no rows, except that a row whose key of RANGE is NULL
//!   has all of these, and so has a row whose key stays as it is at both bounds: an infinity, NaN,
//!   or a float that is large.
//! - DataFusion compares two lengths of time by their months, then their days, then their time:
//!   their hours become days, so that 36 hours are more than a day. If the months decide which of
//!   two lengths is longer, the frame is refused.
//! - A negative length is refused, as in PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Operator, SortExpr, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowFunctionDefinition, binary_expr, cast,
};

use crate::error::{ClauseProblem, Error};
use crate::functions::bounded::collecting::OF_VALUE;
use crate::types::tree_changes::{ChangeParts, ChangePlan};

const NANOS_PER_DAY: i128 = 86_400_000_000_000;
/// The days of a month where a length has a sign.
const MONTH_DAYS: i128 = 30;
const MONTH_DAYS_MIN: i128 = 28;
const MONTH_DAYS_MAX: i128 = 31;
/// More rows than there are before any row.
const ALL_ROWS: u64 = 1 << 62;

/// Rewrites the frames of an optimized plan, whose bounds have got their types. No rule may follow:
/// windows can be equal then, and DataFusion would move what is common to two of them.
pub(super) fn with_ordered_bounds(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_nodes(&mut with_ordered_frames).data()
}

fn with_ordered_frames(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = &plan else { return Ok(Transformed::no(plan)) };
    let schema = Arc::clone(window.input.schema());
    let names = NamePreserver::new(&plan);
    plan.change_exprs(&mut |expr| {
        let saved = names.save(&expr);
        let changed = expr.change_parts(&mut |expr| with_ordered_frame(expr, &schema))?;
        let is_changed = changed.transformed;
        Ok(if is_changed { changed.update_data(|expr| saved.restore(expr)) } else { changed })
    })
}

fn with_ordered_frame(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    match change_of(&call.params.window_frame)? {
        Change::None => return Ok(Transformed::no(Expr::WindowFunction(call))),
        Change::Bounds { start, end } => {
            call.params.window_frame.start_bound = start;
            call.params.window_frame.end_bound = end;
        }
        Change::Empty => match keeps_rows(&call.params, schema)? {
            Some(condition) => leave_rows(&mut call, condition)?,
            None => {
                let before = WindowFrameBound::Preceding(ScalarValue::UInt64(Some(ALL_ROWS)));
                let frame = WindowFrame::new_bounds(WindowFrameUnits::Rows, before.clone(), before);
                call.params.window_frame = frame;
            }
        },
    }
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}

/// The change of a frame.
enum Change {
    None,
    /// Other bounds of the same meaning.
    Bounds {
        start: WindowFrameBound,
        end: WindowFrameBound,
    },
    /// The frame has no rows.
    Empty,
}

fn change_of(frame: &WindowFrame) -> Result<Change> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let (start, end) = (&frame.start_bound, &frame.end_bound);
    match (start, end) {
        // DataFusion refuses these, as PostgreSQL does.
        (CurrentRow | Following(_), Preceding(_)) | (Following(_), CurrentRow) => Ok(Change::None),
        _ => match (Distance::of(start)?, Distance::of(end)?) {
            (Some(from), Some(to)) => match from.is_before(to) {
                Some(false) => Ok(Change::Empty),
                // DataFusion compares two bounds on one side, and begins with their months.
                Some(true) if from.months <= to.months || !is_one_side(start, end) => {
                    Ok(changed_bounds(start, end))
                }
                _ => {
                    let feature = "RANGE between a length in months and one in days that is \
                                   about as long";
                    Err(Error::NotSupported { position: None, feature }.into())
                }
            },
            _ => {
                let is_empty = match (start, end) {
                    (Preceding(from), Preceding(to)) => !from.is_null() && from < to,
                    (Following(from), Following(to)) => !to.is_null() && to < from,
                    _ => false,
                };
                Ok(if is_empty { Change::Empty } else { Change::None })
            }
        },
    }
}

fn is_one_side(start: &WindowFrameBound, end: &WindowFrameBound) -> bool {
    use WindowFrameBound::{Following, Preceding};
    matches!((start, end), (Preceding(_), Preceding(_)) | (Following(_), Following(_)))
}

/// Returns the bounds with days in place of hours.
fn changed_bounds(start: &WindowFrameBound, end: &WindowFrameBound) -> Change {
    let (new_start, new_end) = (in_days(start), in_days(end));
    if new_start == *start && new_end == *end {
        return Change::None;
    }
    Change::Bounds { start: new_start, end: new_end }
}

fn in_days(bound: &WindowFrameBound) -> WindowFrameBound {
    let changed = |length: &ScalarValue| match length {
        ScalarValue::IntervalMonthDayNano(Some(length)) => {
            let nanos = nanos_of(length);
            let days = i32::try_from(nanos.div_euclid(NANOS_PER_DAY));
            let rest = i64::try_from(nanos.rem_euclid(NANOS_PER_DAY));
            let length = match (days, rest) {
                (Ok(days), Ok(rest)) => IntervalMonthDayNano::new(length.months, days, rest),
                // So many days are beyond all times, and so is the length as it is.
                _ => *length,
            };
            ScalarValue::IntervalMonthDayNano(Some(length))
        }
        length => length.clone(),
    };
    match bound {
        WindowFrameBound::Preceding(length) => WindowFrameBound::Preceding(changed(length)),
        WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
        WindowFrameBound::Following(length) => WindowFrameBound::Following(changed(length)),
    }
}

/// The distance in time of a bound from the current row: behind it if it is positive.
#[derive(Debug, Clone, Copy)]
struct Distance {
    months: i128,
    nanos: i128,
}

impl Distance {
    /// Returns the distance of a bound; `None` if it is none in time.
    fn of(bound: &WindowFrameBound) -> Result<Option<Distance>> {
        let (sign, length) = match bound {
            WindowFrameBound::CurrentRow => return Ok(Some(Distance { months: 0, nanos: 0 })),
            WindowFrameBound::Preceding(length) => (-1, length),
            WindowFrameBound::Following(length) => (1, length),
        };
        let ScalarValue::IntervalMonthDayNano(Some(length)) = length else { return Ok(None) };
        let (months, nanos) = (i128::from(length.months), nanos_of(length));
        if months * MONTH_DAYS * NANOS_PER_DAY + nanos < 0 {
            return Err(ClauseProblem::FrameSize.into());
        }
        Ok(Some(Distance { months: sign * months, nanos: sign * nanos }))
    }

    /// Returns true if it is at another one or before that, and false if it is behind that; `None`
    /// if some rows differ from others.
    fn is_before(self, other: Distance) -> Option<bool> {
        let (months, nanos) = (other.months - self.months, other.nanos - self.nanos);
        let of_days = |days: i128| months * days * NANOS_PER_DAY + nanos;
        let signs = [MONTH_DAYS_MIN, MONTH_DAYS_MAX].map(|days| 0 <= of_days(days));
        (signs[0] == signs[1]).then_some(signs[0])
    }
}

fn nanos_of(length: &IntervalMonthDayNano) -> i128 {
    i128::from(length.days) * NANOS_PER_DAY + i128::from(length.nanoseconds)
}

/// Returns the condition on which an empty frame of RANGE has the rows with the same key, if some
/// rows can meet it.
fn keeps_rows(params: &WindowFunctionParams, schema: &DFSchema) -> Result<Option<Expr>> {
    let frame = &params.window_frame;
    let Some(key) = params.order_by.first().filter(|_| frame.units == WindowFrameUnits::Range)
    else {
        return Ok(None);
    };
    let is_null = key.expr.nullable(schema)?.then(|| key.expr.clone().is_null());
    let is_unmoved = match key.expr.get_type(schema)?.is_floating() {
        true => is_unmoved(key, frame)?,
        false => None,
    };
    Ok([is_null, is_unmoved].into_iter().flatten().reduce(Expr::or))
}

/// Returns the condition that a float is the same at both bounds, calculated in doubles as in
/// PostgreSQL.
fn is_unmoved(key: &SortExpr, frame: &WindowFrame) -> Result<Option<Expr>> {
    let number = cast(key.expr.clone(), DataType::Float64);
    let mut conditions = Vec::new();
    for bound in [&frame.start_bound, &frame.end_bound] {
        let (length, is_before) = match bound {
            WindowFrameBound::Preceding(length) => (length, true),
            WindowFrameBound::CurrentRow => continue,
            WindowFrameBound::Following(length) => (length, false),
        };
        let op = if is_before == key.asc { Operator::Minus } else { Operator::Plus };
        let length = Expr::Literal(length.cast_to(&DataType::Float64)?, None);
        let moved = binary_expr(number.clone(), op, length);
        conditions.push(binary_expr(moved, Operator::Eq, number.clone()));
    }
    Ok(conditions.into_iter().reduce(Expr::and))
}

/// Makes the frame one of the rows with the same key, which an aggregate takes on the condition.
fn leave_rows(call: &mut WindowFunction, condition: Expr) -> Result<()> {
    let current = WindowFrameBound::CurrentRow;
    call.params.window_frame =
        WindowFrame::new_bounds(WindowFrameUnits::Range, current.clone(), current);
    match &call.fun {
        WindowFunctionDefinition::AggregateUDF(_) => {
            let filter = match call.params.filter.take() {
                Some(filter) => filter.and(condition),
                None => condition,
            };
            call.params.filter = Some(Box::new(filter));
            Ok(())
        }
        WindowFunctionDefinition::WindowUDF(function) if OF_VALUE.contains(&function.name()) => {
            let feature = "a value of a RANGE frame that ends before it starts, over a column that \
                           can be NULL or infinite,";
            Err(Error::NotSupported { position: None, feature }.into())
        }
        // The others do not read the frame.
        WindowFunctionDefinition::WindowUDF(_) => Ok(()),
    }
}
