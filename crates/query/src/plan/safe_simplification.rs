//! A wrapper of DataFusion's simplifier that keeps from it what it would rewrite wrongly.
//!
//! - Lists of one operand are not merged, if an expression has several (`merged_lists`).
//! - A float is compared with 0 in place of -0, and a list of floats with a zero has both zeros:
//!   DataFusion compares constants by their bits.
//! - A boolean CASE or COALESCE with a part that may fail stays a CASE, which evaluates that part
//!   for its rows only; DataFusion makes AND and OR of it. So does one that would be large then
//!   (expression_size-2).
//! - `x % 1` and `x * 0` of decimals are calculated. DataFusion makes 0 of the first, although it
//!   is the fraction, and gives the second the digits of the zero.
//! - A minus is not the complement of bits: `x & -x` and `-(x | y)` are calculated.
//! - A cast in a comparison stays if it rounds, makes NULL of a value, or is to nanoseconds beside
//!   a constant between two microseconds; DataFusion drops it.
//! - A regular expression with a backslash is not made a LIKE, where a backslash is an escape.
//!
//! Such parts of an expression are hidden from it (`hidden_parts`), and shown again behind it.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, Cast, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::OptimizerConfig;
use datafusion::optimizer::optimizer::OptimizerRule;

use super::coerce::compares;
use super::hidden_parts::{Kind, hidden_case, hide, is_hidden, shown};
use super::merged_lists::separated_lists;
use crate::types::expression_size::{check_written_out, is_large_as_conditions};
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// The name of DataFusion's rule.
pub(super) const SIMPLIFY: &str = "simplify_expressions";

/// Calls DataFusion's rule that simplifies expressions.
pub(super) fn simplify_safely(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let is_aggregate = matches!(plan, LogicalPlan::Aggregate(_));
    check_written_out(&plan)?;
    let hidden = with_hidden_parts(plan)?;
    let simplified = hidden.transform_data(|plan| rule.rewrite(plan, config))?;
    simplified.transform_data(|plan| {
        // An aggregate may have become a projection of one.
        let is_below = is_aggregate && !matches!(plan, LogicalPlan::Aggregate(_));
        let below = match is_below {
            true => plan.map_children(with_parts)?,
            false => Transformed::no(plan),
        };
        below.transform_data(with_parts)
    })
}

/// Hides parts of the expressions of a node.
fn with_hidden_parts(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut is_found = false;
    plan.apply_expressions(|expr| {
        is_found |= may_have_parts(expr)?;
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_found {
        return Ok(Transformed::no(plan));
    }
    let schema = input_schema(&plan)?;
    let names = NamePreserver::new(&plan);
    plan.change_exprs(&mut |expr| {
        if matches!(expr, Expr::GroupingSet(_)) || !may_have_parts(&expr)? {
            return Ok(Transformed::no(expr));
        }
        let saved = names.save(&expr);
        let hidden = expr.change_parts(&mut |part| hidden_part(part, &schema))?;
        let hidden = hidden.transform_data(separated_lists)?;
        Ok(if hidden.transformed { hidden.update_data(|it| saved.restore(it)) } else { hidden })
    })
}

fn may_have_parts(expr: &Expr) -> Result<bool> {
    expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::BinaryExpr(_)
                | Expr::Between(_)
                | Expr::Case(_)
                | Expr::InList(_)
                | Expr::Negative(_)
                | Expr::ScalarFunction(_)
        ))
    })
}

/// Returns the schema of the columns in the expressions of a node, as the simplifier does.
fn input_schema(plan: &LogicalPlan) -> Result<DFSchema> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())
        }
        plan => Ok(merge_schema(&plan.inputs())),
    }
}

/// Hides a part whose own parts are hidden.
fn hidden_part(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => Ok(hidden_operator(binary, schema)),
        Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
            let mut is_changed = hide_finer(&mut expr, &[&low, &high], schema);
            for side in [&mut expr, &mut low, &mut high] {
                is_changed |= hide_compared(side, schema);
            }
            let between = Expr::Between(Between { expr, negated, low, high });
            Ok(Transformed::new_transformed(between, is_changed))
        }
        Expr::InList(mut list) => {
            let constants = list.list.iter().collect::<Vec<_>>();
            let is_finer = hide_finer(&mut list.expr, &constants, schema);
            let is_changed = hide_compared(&mut list.expr, schema) || is_finer;
            Ok(Transformed::new_transformed(Expr::InList(list), is_changed))
        }
        Expr::Negative(mut inner) => {
            let is_of_bits = is_bitwise(&inner);
            if is_of_bits {
                hide(&mut inner, Kind::Separate);
            }
            Ok(Transformed::new_transformed(Expr::Negative(inner), is_of_bits))
        }
        Expr::Case(case) if evaluates_some(&case, schema) || is_too_large(&case, schema) => {
            let is_nullable = Expr::Case(case.clone()).nullable(schema)?;
            Ok(Transformed::yes(hidden_case(case, is_nullable)))
        }
        Expr::ScalarFunction(call) => match choice(&call, schema) {
            Some(case) => {
                let is_nullable = Expr::Case(case.clone()).nullable(schema)?;
                Ok(Transformed::yes(hidden_case(case, is_nullable)))
            }
            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        expr => Ok(Transformed::no(expr)),
    }
}

fn hidden_operator(binary: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let BinaryExpr { mut left, op, mut right } = binary;
    let is_changed = match op {
        op if compares(op) => {
            let mut is_changed = hide_finer(&mut left, &[&right], schema);
            is_changed |= hide_finer(&mut right, &[&left], schema);
            is_changed |= hide_compared(&mut left, schema);
            hide_compared(&mut right, schema) || is_changed
        }
        Operator::RegexMatch
        | Operator::RegexNotMatch
        | Operator::RegexIMatch
        | Operator::RegexNotIMatch => {
            let is_escaped = has_backslash(&right);
            if is_escaped {
                hide(&mut right, Kind::Constant);
            }
            is_escaped
        }
        Operator::Multiply | Operator::Modulo => {
            let types = [left.get_type(schema), right.get_type(schema)];
            let is_decimal = |ty: &Result<DataType>| matches!(ty, Ok(DataType::Decimal128(..)));
            let is_of_decimals = types.iter().any(is_decimal);
            let mut is_changed = false;
            for side in [&mut left, &mut right] {
                let is_constant = matches!(**side, Expr::Literal(..));
                if is_of_decimals && !is_constant && !side.nullable(schema).unwrap_or(true) {
                    hide(side, Kind::MayBeNull);
                    is_changed = true;
                }
            }
            is_changed
        }
        op if is_of_bits(op) => {
            let mut is_changed = false;
            for side in [&mut left, &mut right] {
                if matches!(**side, Expr::Negative(_)) {
                    hide(side, Kind::Separate);
                    is_changed = true;
                }
            }
            is_changed
        }
        _ => false,
    };
    let binary = Expr::BinaryExpr(BinaryExpr { left, op, right });
    Transformed::new_transformed(binary, is_changed)
}

/// Hides an operand of a comparison that is a cast, if values have no digits or no value there, and
/// makes 0 of -0. Returns true if it changes it.
fn hide_compared(side: &mut Expr, schema: &DFSchema) -> bool {
    if let Expr::Literal(value, _) = side {
        return drop_sign_of_zero(value);
    }
    let is_hidden = loses_digits(side, schema);
    if is_hidden {
        hide(side, Kind::Separate);
    }
    is_hidden
}

/// Hides microseconds that are cast to nanoseconds, if one of the constants beside them has digits
/// that microseconds have not, or is still to be calculated. Returns true if it does.
fn hide_finer(side: &mut Expr, constants: &[&Expr], schema: &DFSchema) -> bool {
    let Expr::Cast(Cast { expr, field }) = side else { return false };
    let is_finer = matches!(field.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _))
        && matches!(expr.get_type(schema), Ok(DataType::Timestamp(TimeUnit::Microsecond, _)));
    let is_between = |constant: &&Expr| match constant {
        Expr::Literal(ScalarValue::TimestampNanosecond(Some(nanos), _), _) => nanos % 1_000 != 0,
        Expr::Literal(..) => false,
        constant => !constant.any_column_refs(),
    };
    let is_hidden = is_finer && constants.iter().any(is_between);
    if is_hidden {
        hide(side, Kind::Separate);
    }
    is_hidden
}

fn drop_sign_of_zero(value: &mut ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(x)) if *x == 0.0 && x.is_sign_negative() => *x = 0.0,
        ScalarValue::Float32(Some(x)) if *x == 0.0 && x.is_sign_negative() => *x = 0.0,
        _ => return false,
    }
    true
}

/// Returns true for casts after which different values are equal, or that make NULL of some.
fn loses_digits(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::TryCast(_) => true,
        Expr::Cast(Cast { expr, field }) => {
            let is_rounded = match (expr.get_type(schema), field.data_type()) {
                (Ok(DataType::Decimal128(_, from)), DataType::Decimal128(_, to)) => *to < from,
                (Ok(DataType::Decimal128(_, from)), to) => to.is_integer() && 0 < from,
                _ => false,
            };
            is_rounded || loses_digits(expr, schema)
        }
        _ => false,
    }
}

/// Returns true for a boolean CASE that evaluates a part for some rows only, where it matters.
fn evaluates_some(case: &Case, schema: &DFSchema) -> bool {
    let Case { expr: None, when_then_expr: cases, else_expr } = case else { return false };
    let Some((first, value)) = cases.first() else { return false };
    if !matches!(value.get_type(schema), Ok(DataType::Boolean)) {
        return false;
    }
    let conditions = cases.iter().skip(1).map(|(when, _)| when);
    let values = cases.iter().map(|(_, then)| then).chain(else_expr);
    let mut parts = conditions.chain(values);
    let has_columns = cases.iter().any(|(when, _)| when.any_column_refs());
    has_columns && (first.is_volatile() || parts.any(|part| may_fail(part)))
}

/// Returns true for a boolean CASE that would be too large without CASE.
fn is_too_large(case: &Case, schema: &DFSchema) -> bool {
    let Case { expr: None, when_then_expr: cases, .. } = case else { return false };
    let is_boolean =
        |(_, then): &(Box<Expr>, Box<Expr>)| matches!(then.get_type(schema), Ok(DataType::Boolean));
    is_large_as_conditions(case) && cases.first().is_some_and(is_boolean)
}

/// Returns the CASE that the simplifier makes of a call, if it is boolean and evaluates a part for
/// some rows only, where it matters.
fn choice(call: &ScalarFunction, schema: &DFSchema) -> Option<Case> {
    let (last, others) = call.args.split_last()?;
    let pair = |tested: &Expr, value: &Expr| {
        (Box::new(tested.clone().is_not_null()), Box::new(value.clone()))
    };
    let when_then_expr = match (call.name(), others) {
        ("coalesce" | "nvl" | "ifnull", [_, ..]) => others.iter().map(|it| pair(it, it)).collect(),
        ("nvl2", [tested, value]) => vec![pair(tested, value)],
        _ => return None,
    };
    let is_chosen = call.args.iter().skip(1).any(may_fail)
        && matches!(last.get_type(schema), Ok(DataType::Boolean));
    let else_expr = Some(Box::new(last.clone()));
    is_chosen.then_some(Case { expr: None, when_then_expr, else_expr })
}

/// Returns true if an expression may fail for some of its rows, or have another value the next
/// time.
fn may_fail(expr: &Expr) -> bool {
    let fails = |part: &Expr| {
        Ok(match part {
            Expr::BinaryExpr(BinaryExpr { op, .. }) => {
                !compares(*op)
                    && !matches!(
                        op,
                        Operator::And
                            | Operator::Or
                            | Operator::RegexMatch
                            | Operator::RegexNotMatch
                            | Operator::RegexIMatch
                            | Operator::RegexNotIMatch
                    )
            }
            Expr::Negative(_)
            | Expr::Cast(_)
            | Expr::TryCast(_)
            | Expr::ScalarFunction(_)
            | Expr::HigherOrderFunction(_) => true,
            _ => false,
        })
    };
    // The closure never fails.
    expr.exists(fails).unwrap_or(true)
}

fn is_of_bits(op: Operator) -> bool {
    matches!(op, Operator::BitwiseAnd | Operator::BitwiseOr | Operator::BitwiseXor)
}

fn is_bitwise(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(binary) if is_of_bits(binary.op))
}

/// Returns true for a constant text with a backslash, which may be cast.
fn has_backslash(pattern: &Expr) -> bool {
    match pattern {
        Expr::Literal(value, _) => value.try_as_str().flatten().is_some_and(|it| it.contains('\\')),
        Expr::Cast(cast) => has_backslash(&cast.expr),
        _ => false,
    }
}

/// Puts hidden parts back into the expressions of a node.
fn with_parts(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.change_exprs(&mut |expr| {
        let is_changed = |part: &Expr| {
            Ok(match part {
                Expr::InList(list) => lacks_zero(&list.list),
                part => is_hidden(part),
            })
        };
        if !expr.exists(is_changed)? {
            return Ok(Transformed::no(expr));
        }
        let saved = names.save(&expr);
        Ok(expr.change_parts(&mut with_part)?.update_data(|it| saved.restore(it)))
    })
}

fn with_part(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InList(mut list) if lacks_zero(&list.list) => {
            let other = list.list.iter().find_map(other_zero);
            list.list.extend(other);
            Ok(Transformed::yes(Expr::InList(list)))
        }
        expr if is_hidden(&expr) => shown(expr).map(Transformed::yes),
        // What the simplifier makes of lists that are not hidden.
        Expr::Not(inner) => Ok(match *inner {
            Expr::InList(InList { expr, list, negated }) => {
                Transformed::yes(Expr::InList(InList { expr, list, negated: !negated }))
            }
            inner => Transformed::no(Expr::Not(Box::new(inner))),
        }),
        expr => Ok(Transformed::no(expr)),
    }
}

/// Returns true for a list with one zero of two.
fn lacks_zero(list: &[Expr]) -> bool {
    let Some(other) = list.iter().find_map(other_zero) else { return false };
    !list.contains(&other)
}

/// Returns the zero with the other sign.
fn other_zero(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else { return None };
    let other = match value {
        ScalarValue::Float64(Some(x)) if *x == 0.0 => ScalarValue::Float64(Some(-x)),
        ScalarValue::Float32(Some(x)) if *x == 0.0 => ScalarValue::Float32(Some(-x)),
        _ => return None,
    };
    Some(Expr::Literal(other, metadata.clone()))
}
