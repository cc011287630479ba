//! Type coercion: texts and integers next to columns become values of the column's type, before
//! DataFusion sees them.
//!
//! - After this, no text literal is compared with a column that is not text.
//!
//! Binary operators are converted while SQL is planned ([`OperatorPlanner`]), because their types
//! must match already then; BETWEEN, IN lists, CASE and casts afterwards ([`convert_literals`]).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit as ArrowUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, Between, BinaryExpr, Case, Cast, Placeholder,
    ScalarFunction, TryCast, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, Union, cast, lit, not};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tidegate_model::{ColumnType, TimeRange};
use tidegate_storage::segment::arrow_type;

use super::known_aggregates::{known_aggregate, known_window_function};
use super::membership::{check_comparable, in_subquery, in_values};
use super::open_parameters::with_operand_types;
use super::query_text::{distinct_operator, is_in_operator};
use super::window_keys::by_sort_keys;
use super::{alternatives, bitwise, list_calls, numbered};
use crate::account::check_canceled;
use crate::error::{Error, TextProblem};
use crate::functions::date_bin::with_values;
use crate::functions::{check_window, power, untyped, with_known_type};
use crate::names::LIST_MARK;
use crate::plan::fine_times::compare_lengths_or_times;
use crate::sql::cast_names;
use crate::types::aggregate_cast_names::{plain_cast, with_named_casts, with_named_sort_casts};
use crate::types::casts::{
    OnBadText, cast_value, integer_range, short_text, special_cast, text_length,
};
use crate::types::coercion::{
    as_type_of, bad_text, count_type, dates_to_times, is_time, literal, text_of, texts_to_bytes,
};
use crate::types::decimal_constants::are_mixed;
use crate::types::expression_type::{type_beside, type_in};
use crate::types::literal::{integer_of, time_value, type_of, value_of_text};
use crate::types::time_text::{TimeScale, parse_interval};
use crate::types::tree_changes::{ChangeParts, ChangePlan};
use crate::types::wide_numbers::{decimal_operator, widened_floats, with_decimal_operator};
use crate::types::{decimals, expression_type, float_order, intervals, list_texts, uuid_ipv4};

pub(crate) type PlanResult<T> = std::result::Result<T, DataFusionError>;

/// Plans operators with their meaning in our dialect.
#[derive(Debug)]
pub(crate) struct OperatorPlanner;

impl ExprPlanner for OperatorPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        check_canceled()?;
        let RawBinaryExpr { op, mut left, mut right } = expr;
        if is_in_operator(&op) {
            return in_text(left, right, schema).map(PlannerResult::Planned);
        }
        if let Some(op) = distinct_operator(&op) {
            uuid_ipv4::type_parameters([&mut left, &mut right], schema);
            dates_to_times([&mut left, &mut right], schema);
            let (left, right) = intervals::as_durations(left, right, schema);
            let left = as_type_of(left, &right, schema)?;
            let right = as_type_of(right, &left, schema)?;
            let (left, right) = uuid_ipv4::operands(left, &BinaryOperator::Eq, right, schema)?;
            if let Some(compared) = compare_lengths_or_times(&left, op, &right, schema) {
                return Ok(PlannerResult::Planned(compared));
            }
            let (left, right) = operands(left, right, schema);
            let compared = BinaryExpr::new(Box::new(left), op, Box::new(right));
            return Ok(PlannerResult::Planned(Expr::BinaryExpr(compared)));
        }
        if uuid_ipv4::is_comparison(&op) {
            return comparison(RawBinaryExpr { op, left, right }, schema);
        }
        let (left, right) = with_operand_types(left, &op, right, schema)?;
        if matches!(op, BinaryOperator::And | BinaryOperator::Or) {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        if let Some(list) = list_calls::joined_with_null(&left, &op, &right, schema) {
            return Ok(PlannerResult::Planned(list));
        }
        let (left, right) = uuid_ipv4::operands(left, &op, right, schema)?;
        if op == BinaryOperator::PGExp {
            return Ok(PlannerResult::Planned(power(left, right)));
        }
        if let Some(planned) = intervals::arithmetic(&left, &op, &right, schema)? {
            return Ok(PlannerResult::Planned(planned));
        }
        arithmetic(RawBinaryExpr { op, left, right }, schema)
    }

    fn plan_aggregate(
        &self,
        call: RawAggregateExpr,
    ) -> PlanResult<PlannerResult<RawAggregateExpr>> {
        let RawAggregateExpr { args, filter, order_by, .. } = call;
        Ok(numbered::aggregate(RawAggregateExpr {
            args: args.into_iter().map(with_named_casts).collect::<PlanResult<_>>()?,
            filter: filter.map(|it| with_named_casts(*it).map(Box::new)).transpose()?,
            order_by: order_by.into_iter().map(with_named_sort_casts).collect::<PlanResult<_>>()?,
            ..call
        }))
    }

    fn plan_window(&self, call: RawWindowExpr) -> PlanResult<PlannerResult<RawWindowExpr>> {
        Ok(numbered::window(call))
    }
}

fn comparison(expr: RawBinaryExpr, schema: &DFSchema) -> PlanResult<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, mut left, mut right } = expr;
    uuid_ipv4::type_parameters([&mut left, &mut right], schema);
    dates_to_times([&mut left, &mut right], schema);
    let (left, right) = intervals::as_durations(left, right, schema);
    let left = as_type_of(left, &right, schema)?;
    let left = intervals::text_as_length(left, &right, schema)?;
    let right = as_type_of(right, &left, schema)?;
    let right = intervals::text_as_length(right, &left, schema)?;
    let (left, right) = uuid_ipv4::operands(left, &op, right, schema)?;
    let (left, right) = widened_floats(&left, &right, schema).unwrap_or((left, right));
    Ok(match compare(&left, compare_op(&op), &right, schema) {
        Some(compared) => PlannerResult::Planned(compared),
        None => PlannerResult::Original(RawBinaryExpr { op, left, right }),
    })
}

/// Returns a comparison that a rule makes, as if the query contained it.
pub(super) fn compared_in(
    mut left: Expr,
    op: Operator,
    mut right: Expr,
    schema: &DFSchema,
) -> PlanResult<Expr> {
    if !compares(op) {
        return Ok(binary(left, op, right));
    }
    dates_to_times([&mut left, &mut right], schema);
    let (left, right) = intervals::as_durations(left, right, schema);
    let left = as_type_of(left, &right, schema)?;
    let right = as_type_of(right, &left, schema)?;
    let (left, right) = uuid_ipv4::operands(left, &BinaryOperator::Eq, right, schema)?;
    let (left, right) = widened_floats(&left, &right, schema).unwrap_or((left, right));
    if let Some(compared) = compare(&left, op, &right, schema) {
        return Ok(compared);
    }
    let [left, right] = [left, right].map(|side| float_order::operand(side, schema));
    Ok(binary(left, op, right))
}

/// An operator with its operands.
pub(super) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// Converts an operator that is no comparison.
fn arithmetic(expr: RawBinaryExpr, schema: &DFSchema) -> PlanResult<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, mut left, right } = expr;
    match op {
        BinaryOperator::Plus | BinaryOperator::Minus => {
            // `ts - '2025-01-01'`
            let mut right = match type_beside(&left, schema) {
                Some(time) if is_time(time) && text_of(&right).is_some() => {
                    as_type_of(right, &left, schema)?
                }
                _ => right,
            };
            dates_to_times([&mut left, &mut right], schema);
            let moved = match (type_in(&left, schema), type_in(&right, schema)) {
                (Some(time), Some(number)) if is_time(time) && number.is_integer() => {
                    Some(move_time(left.clone(), &op, right.clone(), time))
                }
                (Some(number), Some(time))
                    if is_time(time) && number.is_integer() && op == BinaryOperator::Plus =>
                {
                    Some(move_time(right.clone(), &op, left.clone(), time))
                }
                _ => None,
            };
            Ok(match moved {
                Some(expr) => PlannerResult::Planned(expr),
                None => {
                    let (left, right) = operands(left, right, schema);
                    PlannerResult::Original(RawBinaryExpr { op, left, right })
                }
            })
        }
        BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => {
            let (left, right) = operands(left, right, schema);
            Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
        }
        _ => Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
    }
}

/// Two sides of an arithmetic operator, of which none is a decimal and the other a double.
fn operands(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let (left, right) = widened_floats(&left, &right, schema).unwrap_or((left, right));
    let types = final_types(&left, &right, schema);
    decimals::operands(&left, types.0, &right, types.1).unwrap_or((left, right))
}

/// Returns the types of two operands. If one is a decimal and the other seems to be a float, they
/// are those that the operands have in the end: a CASE among the arguments of a function may become
/// a decimal. The operands stay as they are, because GROUP BY may have the same ones.
fn final_types(
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> (Option<ColumnType>, Option<ColumnType>) {
    let types = (type_in(left, schema), type_in(right, schema));
    if !are_mixed([types.0, types.1].into_iter()) {
        return types;
    }
    let of = |side: &Expr| type_in(&converted(side.clone(), schema).ok()?, schema);
    (of(left), of(right))
}

fn compare_op(op: &BinaryOperator) -> Operator {
    match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        _ => Operator::GtEq,
    }
}

/// Returns a comparison that DataFusion defines differently: of decimals with other numbers, of
/// intervals, and of times with finer constants.
fn compare(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let types = final_types(left, right, schema);
    let compared = decimals::compare(left, types.0, op, right, types.1);
    compared.or_else(|| compare_lengths_or_times(left, op, right, schema))
}

/// Converts the literals of BETWEEN, IN lists, CASE and casts in a whole plan.
pub(crate) fn convert_literals(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    let converted = plan.change_nodes(&mut |node| {
        check_canceled()?;
        if let LogicalPlan::Union(union) = node {
            uuid_ipv4::check_inputs(&union)?;
            let union = intervals::unify_inputs(union)?;
            let Union { inputs, .. } = decimals::unify_inputs(union)?.data;
            let union = Union::try_new_with_loose_types(inputs)?;
            return Ok(Transformed::yes(LogicalPlan::Union(union)));
        }
        let node = match node {
            LogicalPlan::Join(join) if decimals::is_set_operation(&join) => {
                return Ok(Transformed::yes(LogicalPlan::Join(decimals::unify_sides(join)?)));
            }
            node => node,
        };
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node.change_exprs(&mut |expr| {
            let saved = names.save(&expr);
            let expr = expr.change_parts(&mut |expr| convert(expr, &schema))?;
            Ok(if expr.transformed { expr.update_data(|expr| saved.restore(expr)) } else { expr })
        })?;
        // Nothing may have changed here, but the schema below may have.
        Ok(Transformed::yes(match node.data {
            LogicalPlan::Window(window) => by_sort_keys(window)?,
            node => node.recompute_schema()?,
        }))
    })?;
    Ok(converted.data)
}

/// Converts the literals of one expression.
pub(crate) fn converted(expr: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    Ok(expr.change_parts(&mut |expr| convert(expr, schema))?.data)
}

fn convert(expr: Expr, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    let converted = match interval_of_text(&expr, schema) {
        Some(interval) => Transformed::yes(interval),
        None => convert_one(expr, schema)?,
    };
    let is_converted = converted.transformed;
    let mut checked = uuid_ipv4::checked(converted.data, schema)?;
    checked.transformed |= is_converted;
    Ok(checked)
}

fn convert_one(expr: Expr, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    match expr {
        Expr::ScalarFunction(call) => call_values(call, schema),
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(op)
                && [&left, &right].iter().any(|it| float_order::is_made(it, schema)) =>
        {
            let operand = |side: Box<Expr>| Box::new(float_order::operand(*side, schema));
            let compared = BinaryExpr { left: operand(left), op, right: operand(right) };
            Ok(Transformed::yes(Expr::BinaryExpr(compared)))
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::BitwiseXor, .. }) | Expr::Negative(_) => {
            bitwise::written(expr, schema)
        }
        Expr::BinaryExpr(expr) => Ok(operator(expr, schema)),
        Expr::Between(between) => between_values(between, schema).map(Transformed::yes),
        Expr::InList(list) => in_values(list, schema).map(Transformed::yes),
        Expr::InSubquery(inside) => in_subquery(inside, schema),
        Expr::Case(case) => case_values(case, schema).map(Transformed::yes),
        Expr::Cast(cast) => cast_values(cast, schema),
        Expr::AggregateFunction(mut call) if call.func.name() == "approx_distinct" => {
            let countable = |arg| countable(arg, schema);
            call.params.args = call.params.args.into_iter().map(countable).collect();
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            if untyped(&func).is_some() {
                let key = |arg: Expr| match intervals::is_interval(&arg, schema) {
                    true => intervals::length_key(arg),
                    false => arg,
                };
                params.args = params.args.into_iter().map(key).collect();
            }
            let is_filtered = null_where_filtered(&mut params);
            let known = known_aggregate(&func, &params.args, params.distinct, schema);
            let is_changed = is_filtered || known.is_some();
            let func = known.unwrap_or(func);
            let call = Expr::AggregateFunction(AggregateFunction { func, params });
            Ok(if is_changed { Transformed::yes(call) } else { Transformed::no(call) })
        }
        Expr::WindowFunction(window) => window_values(window, schema),
        Expr::TryCast(cast) => try_cast_values(cast, schema),
        expr => Ok(Transformed::no(expr)),
    }
}

/// Converts a cast that Arrow defines differently, or to a type that depends on its value.
fn cast_values(Cast { expr, field }: Cast, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    if numbered::is_count(&expr, field.data_type()) {
        return Ok(Transformed::no(Expr::Cast(Cast { expr, field })));
    }
    let again = |expr, field| Expr::Cast(Cast { expr, field });
    let (expr, field) = match converted_cast(expr, field, OnBadText::Fail, again, schema)? {
        ConvertedCast::Value(value) => return Ok(Transformed::yes(value)),
        ConvertedCast::Plain(expr, field) => (expr, field),
    };
    Ok(match count_of(*expr, &field, schema) {
        Ok(count) => Transformed::yes(Expr::Cast(Cast { expr: Box::new(count), field })),
        Err(expr) => {
            let (field, expr) = (as_nullable_as(field, &expr, schema), Box::new(expr));
            Transformed::yes(Expr::Cast(Cast { expr, field }))
        }
    })
}

fn try_cast_values(
    TryCast { expr, field }: TryCast,
    schema: &DFSchema,
) -> PlanResult<Transformed<Expr>> {
    let again = |expr, field| Expr::TryCast(TryCast { expr, field });
    Ok(match converted_cast(expr, field, OnBadText::Null, again, schema)? {
        ConvertedCast::Value(value) => Transformed::yes(value),
        ConvertedCast::Plain(expr, field) => {
            Transformed::no(Expr::TryCast(TryCast { expr, field }))
        }
    })
}

/// A cast after its conversion.
enum ConvertedCast {
    /// The expression in its place.
    Value(Expr),
    /// A cast that Arrow defines as we do, of this expression to this field.
    Plain(Box<Expr>, FieldRef),
}

/// Converts a cast to a type with a length or without digits, and one of `cast_to`. `again` makes a
/// cast of the same kind.
fn converted_cast(
    expr: Box<Expr>,
    field: FieldRef,
    on_bad_text: OnBadText,
    again: impl Fn(Box<Expr>, FieldRef) -> Expr,
    schema: &DFSchema,
) -> PlanResult<ConvertedCast> {
    if decimals::has_any_digits(&field) {
        return Ok(ConvertedCast::Value(match decimals::with_any_digits(&expr, schema) {
            Some(ty) => {
                let field = Arc::new(Field::new("", arrow_type(ty), true));
                convert_one(again(expr, field), schema)?.data
            }
            None => *expr,
        }));
    }
    if let Some((length, field)) = text_length(&field) {
        let text = convert(again(expr, field), schema)?.data;
        return Ok(ConvertedCast::Value(short_text(text, length, on_bad_text)?));
    }
    Ok(match cast_to(&expr, &field, on_bad_text, schema)? {
        Some(value) => ConvertedCast::Value(value),
        None => ConvertedCast::Plain(expr, field),
    })
}

/// Converts an operator on decimals or floats whose types were not known before.
fn operator(expr: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    // The types of long chains of AND take long to find.
    let is_arithmetic = matches!(
        expr.op,
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
    );
    if !is_arithmetic && !compares(expr.op) {
        return Transformed::no(Expr::BinaryExpr(expr));
    }
    let is_concerned = |side: &Expr| {
        matches!(type_in(side, schema), Some(ColumnType::Decimal { .. } | ColumnType::Float32))
    };
    if !is_concerned(&expr.left) && !is_concerned(&expr.right) {
        return Transformed::no(Expr::BinaryExpr(expr));
    }
    if let Some(decimal) = decimal_operator(&expr, schema) {
        return Transformed::yes(decimal);
    }
    if let Some((left, right)) = widened_floats(&expr.left, &expr.right, schema) {
        return Transformed::yes(binary(left, expr.op, right));
    }
    with_decimal_operator(decimals::with_late_types(expr, schema), schema)
}

/// Makes the arguments and keys of an aggregate NULL in rows that its FILTER leaves out, where
/// computing them may fail; returns true if there are any. DataFusion computes them for all rows.
fn null_where_filtered(params: &mut AggregateFunctionParams) -> bool {
    let Some(filter) = params.filter.as_deref() else { return false };
    let may_fail = |part: &Expr| {
        Ok(match part {
            Expr::BinaryExpr(binary) => matches!(binary.op, Operator::Divide | Operator::Modulo),
            Expr::Cast(cast) => !cast.field.data_type().is_floating(),
            Expr::ScalarFunction(_) => true,
            _ => false,
        })
    };
    let is_filtered = |arg: &Expr| {
        let Expr::Case(case) = arg else { return false };
        case.when_then_expr.first().is_some_and(|(when, _)| when.as_ref() == filter)
    };
    let mut has_changed = false;
    let keys = params.order_by.iter_mut().map(|key| &mut key.expr);
    for arg in params.args.iter_mut().chain(keys) {
        if !is_filtered(arg) && arg.exists(may_fail).unwrap_or(false) {
            let value = std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None));
            let when_then = vec![(Box::new(filter.clone()), Box::new(value))];
            *arg = Expr::Case(Case::new(None, when_then, None));
            has_changed = true;
        }
    }
    has_changed
}

/// Replaces a window function by one that knows its argument's type, whose frames move without
/// drift, or that counts NULL values right.
fn window_values(
    mut window: Box<WindowFunction>,
    schema: &DFSchema,
) -> PlanResult<Transformed<Expr>> {
    check_window(&window)?;
    intervals::check_frame(&window.params, schema)?;
    let is_framed = intervals::with_frame_lengths(&mut window.params, schema)?;
    let changed = known_window_function(&window, schema);
    let is_changed = is_framed || changed.is_some();
    if let Some(func) = changed {
        window.fun = func;
    }
    let window = Expr::WindowFunction(window);
    Ok(if is_changed { Transformed::yes(window) } else { Transformed::no(window) })
}

/// Returns the field of a cast, which is nullable only if its argument is: DataFusion's physical
/// casts to a field with metadata rely on the field for that, its logical ones do not.
fn as_nullable_as(field: FieldRef, expr: &Expr, schema: &DFSchema) -> FieldRef {
    match expr.nullable(schema) {
        Ok(is_nullable) if is_nullable != field.is_nullable() && !field.metadata().is_empty() => {
            Arc::new(field.as_ref().clone().with_nullable(is_nullable))
        }
        _ => field,
    }
}

/// Converts a call that is a cast, or a call with arguments of a common type.
fn call_values(call: ScalarFunction, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    let call = match plain_cast(call) {
        Ok(cast) => return Ok(Transformed::yes(convert_one(cast, schema)?.data)),
        Err(call) => call,
    };
    let call = match cast_names::unnamed(call) {
        Ok(cast) => return Ok(Transformed::yes(cast)),
        Err(call) => call,
    };
    list_calls::check_numbers(&call, schema)?;
    match call.func.name() {
        "round" => Ok(match with_known_type(call, schema)? {
            Ok(rounded) => Transformed::yes(rounded),
            Err(call) => Transformed::no(Expr::ScalarFunction(call)),
        }),
        "date_bin" => {
            let ScalarFunction { func, args } = call;
            let args = with_values(args, schema)?;
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        name if expression_type::gives_one(name) => {
            alternatives::converted(call, schema).map(Transformed::yes)
        }
        "make_array" => {
            let ScalarFunction { func, args } = call;
            let mut args = intervals::unify(args, schema);
            dates_to_times(&mut args, schema);
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        "array_to_string" => list_calls::with_texts(call, schema),
        _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
    }
}

/// Converts the constants of a CASE to the type of its operand, and its results to a common type.
fn case_values(case: Case, schema: &DFSchema) -> PlanResult<Expr> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (mut whens, mut results): (Vec<_>, Vec<_>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let count = results.len();
    results.extend(else_expr.map(|it| *it));
    let results = texts_to_bytes(results, schema)?;
    let mut results = decimals::of_one_type(intervals::unify(results, schema), schema);
    let else_expr = results.split_off(count).pop().map(Box::new);
    let (expr, whens) = match expr {
        Some(mut expr) => {
            uuid_ipv4::type_parameters(std::iter::once(expr.as_mut()).chain(&mut whens), schema);
            let as_it = |when| as_type_of(when, &expr, schema);
            let mut whens = whens.into_iter().map(as_it).collect::<PlanResult<Vec<_>>>()?;
            dates_to_times(std::iter::once(expr.as_mut()).chain(&mut whens), schema);
            let finer = |when: &Expr| compare_lengths_or_times(&expr, Operator::Eq, when, schema);
            if whens.iter().any(|when| finer(when).is_some()) {
                let asked = |when: Expr| {
                    let compared = compare(&expr, Operator::Eq, &when, schema);
                    compared.unwrap_or_else(|| expr.as_ref().clone().eq(when))
                };
                let arms = whens.into_iter().map(asked).zip(results);
                let arms = arms.map(|(when, then)| (Box::new(when), Box::new(then)));
                let when_then_expr = arms.collect();
                return Ok(Expr::Case(Case { expr: None, when_then_expr, else_expr }));
            }
            let compared = [vec![*expr], whens].concat();
            let compared = decimals::unify(compared, schema).into_iter();
            // DataFusion's CASE with an operand does not take -0 for 0.
            let mut compared = compared.map(|value| float_order::key(value, schema));
            (compared.next().map(Box::new), compared.collect())
        }
        None => (None, whens),
    };
    let arms = whens.into_iter().zip(results).map(|(when, then)| (Box::new(when), Box::new(then)));
    Ok(Expr::Case(Case { expr, when_then_expr: arms.collect(), else_expr }))
}

/// Returns true for an operator that compares values.
pub(super) fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn between_values(between: Between, schema: &DFSchema) -> PlanResult<Expr> {
    let Between { mut expr, negated, mut low, mut high } = between;
    uuid_ipv4::type_parameters([expr.as_mut(), low.as_mut(), high.as_mut()], schema);
    let as_it = |bound: Expr| {
        let bound = intervals::text_as_length(as_type_of(bound, &expr, schema)?, &expr, schema)?;
        check_comparable(&expr, "BETWEEN", &bound, schema)?;
        PlanResult::Ok(Box::new(bound))
    };
    let (mut low, mut high) = (as_it(*low)?, as_it(*high)?);
    dates_to_times([expr.as_mut(), low.as_mut(), high.as_mut()], schema);
    let bound = |op, bound: &Expr| compare(&expr, op, bound, schema);
    let (from, to) = (bound(Operator::GtEq, &low), bound(Operator::LtEq, &high));
    if from.is_none() && to.is_none() {
        let [expr, low, high] =
            [expr, low, high].map(|it| Box::new(float_order::operand(*it, schema)));
        return Ok(Expr::Between(Between { expr, negated, low, high }));
    }
    let from = from.unwrap_or_else(|| expr.as_ref().clone().gt_eq(*low));
    let inside = from.and(to.unwrap_or_else(|| expr.lt_eq(*high)));
    Ok(if negated { not(inside) } else { inside })
}

/// Returns a cast of a text to an interval.
fn interval_of_text(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (text, field, on_bad_text) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, OnBadText::Fail),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, OnBadText::Null),
        _ => return None,
    };
    let is_text =
        |ty: DataType| matches!(ty, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
    let is_interval = matches!(field.data_type(), DataType::Interval(_));
    (is_interval && text.get_type(schema).is_ok_and(is_text))
        .then(|| intervals::cast_text(text, on_bad_text))
}

/// Converts a value to one whose distinct values DataFusion can estimate, with the same number of
/// them.
fn countable(value: Expr, schema: &DFSchema) -> Expr {
    match type_in(&value, schema) {
        // -0 equals 0.
        Some(ColumnType::Float32 | ColumnType::Float64) => {
            cast(cast(value, DataType::Float64) + lit(0.0), DataType::Utf8)
        }
        Some(ColumnType::Uuid) => cast(value, DataType::Binary),
        _ => value,
    }
}

/// Returns the integer that is cast to TIMESTAMP_NS. DataFusion takes it for seconds, and casts it
/// to those first; there is no other way to write a cast to seconds.
fn count_of(expr: Expr, to: &Field, schema: &DFSchema) -> std::result::Result<Expr, Expr> {
    match expr {
        Expr::Cast(Cast { expr: inner, field })
            if *to.data_type() == DataType::Timestamp(ArrowUnit::Nanosecond, None)
                && *field.data_type() == DataType::Timestamp(ArrowUnit::Second, None)
                && type_in(&inner, schema).is_some_and(ColumnType::is_integer) =>
        {
            Ok(cast(*inner, DataType::Int64))
        }
        expr => Err(expr),
    }
}

/// Returns a cast that Arrow defines differently: of a text literal to a time, and between text and
/// UUID or IPV4.
fn cast_to(
    expr: &Expr,
    field: &Field,
    on_bad_text: OnBadText,
    schema: &DFSchema,
) -> PlanResult<Option<Expr>> {
    if matches!(field.data_type(), DataType::Interval(_)) && intervals::is_length(expr, schema) {
        return Ok(Some(intervals::as_interval(expr.clone(), schema)));
    }
    uuid_ipv4::check_no_list(field)?;
    let Some(to) = type_of(field) else { return Ok(None) };
    if matches!(to, ColumnType::Varchar | ColumnType::Symbol) && intervals::is_length(expr, schema)
    {
        let text = intervals::text(expr.clone());
        let is_view = *field.data_type() == DataType::Utf8View;
        return Ok(Some(if is_view { text } else { cast(text, field.data_type().clone()) }));
    }
    if to == ColumnType::Varchar
        && let Ok(texts) = list_texts::with_texts(expr.clone(), &expr.get_type(schema)?)
    {
        return Ok(Some(cast(texts, field.data_type().clone())));
    }
    let is_special = |ty| matches!(ty, ColumnType::Uuid | ColumnType::Ipv4);
    if let Some(text) = text_of(expr)
        && let Some(value) = cast_text(text, to)
    {
        return Ok(Some(match (value, on_bad_text) {
            (Ok(value), _) => literal(value, field),
            (Err(_), OnBadText::Null) => literal(ScalarValue::try_from(field.data_type())?, field),
            (Err(reason), OnBadText::Fail) => return Err(bad_text(text, to)(reason).into()),
        }));
    }
    if let Some(decimal) = decimals::of_constant(expr, to) {
        return Ok(Some(decimal));
    }
    let Some(from) = type_in(expr, schema).filter(|from| *from != to) else { return Ok(None) };
    match special_cast(expr, from, to, on_bad_text) {
        // Casts a literal now, so that an error has its place.
        Some(converted) => Ok(Some(match expr {
            Expr::Literal(value, _) => cast_value(value, from, to, on_bad_text)?,
            _ => converted,
        })),
        None if is_special(from) || is_special(to) => {
            let feature = "CAST between UUID or IPV4 and anything but text";
            Err(Error::NotSupported { position: None, feature }.into())
        }
        None => Ok(None),
    }
}

/// Returns the value that a text literal is cast to; `None` for types that Arrow parses.
fn cast_text(text: &str, to: ColumnType) -> Option<Result<ScalarValue, TextProblem>> {
    let value = match to {
        ColumnType::Boolean => return None,
        _ => value_of_text(text, to)?,
    };
    let Some((min, max)) = integer_range(to) else { return Some(value) };
    Some(value.and_then(|value| {
        let is_inside = |integer: &i128| (min..=max).contains(integer);
        integer_of(&value).filter(is_inside).ok_or(TextProblem::OutOfRange)?;
        value.cast_to(&arrow_type(to)).map_err(|_| TextProblem::OutOfRange)
    }))
}

/// Moves a time by an integer expression, which counts its unit.
fn move_time(time: Expr, op: &BinaryOperator, by: Expr, ty: ColumnType) -> Expr {
    let op = if *op == BinaryOperator::Plus { Operator::Plus } else { Operator::Minus };
    let count = arrow_type(count_type(ty));
    let (time, by) = (cast(time, count.clone()), cast(by, count));
    cast(Expr::BinaryExpr(BinaryExpr::new(Box::new(time), op, Box::new(by))), arrow_type(ty))
}

/// Returns `left IN 'text'`: an interval if the left side is a time, and else equality.
fn in_text(left: Expr, right: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    let ty = type_in(&left, schema);
    let scale = ty.and_then(TimeScale::of);
    if let (Some(text), Some(ty), Some(scale)) = (text_of(&right), ty, scale) {
        let ranges = parse_interval(text, scale).map_err(bad_text(text, ty))?;
        return Ok(in_ranges(&left, &ranges, ty));
    }
    if let Expr::Placeholder(Placeholder { id, .. }) = right {
        return Ok(in_open(left, id, scale.is_some()));
    }
    let right = as_type_of(right, &left, schema)?;
    Ok(left.eq(right))
}

/// Returns `left IN $1` with an unknown value: an interval as a text if `left` is a time, or else a
/// list.
fn in_open(left: Expr, id: String, is_time: bool) -> Expr {
    if is_time {
        let field = Arc::new(Field::new("", DataType::Utf8View, true));
        let interval = Expr::Placeholder(Placeholder { id, field: Some(field) });
        return left.is_not_null().and(interval.is_not_null());
    }
    let id = format!("{id}{LIST_MARK}");
    left.eq(Expr::Placeholder(Placeholder { id, field: None }))
}

/// Returns a condition that is true for a time in one of these ranges, which ascend.
fn in_ranges(time: &Expr, ranges: &[TimeRange], ty: ColumnType) -> Expr {
    let bound = |value| lit(time_value(value, ty));
    match ranges {
        // False, and NULL for NULL.
        [] => time.clone().not_eq(time.clone()),
        [range] => time.clone().gt_eq(bound(range.start)).and(time.clone().lt(bound(range.end))),
        // Halved, so that the expression stays shallow.
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            in_ranges(time, low, ty).or(in_ranges(time, high, ty))
        }
    }
}
