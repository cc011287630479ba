//! Keys of sorts and windows: they are calculated by a projection below the operator.
//!
//! - After [`with_calculated_keys`], no key of a sort, of a window or of an ordered aggregate is an
//!   operator over the result of a function or of a CASE, such as `-length(x)`, nor a function of
//!   an expression, such as `exp(x * 2)`; a column holds the value instead.
//!
//! To find the order of an expression, DataFusion calculates the range of its values. It takes the
//! range of most functions and operators for one of type NULL, for which an operator or a function
//! fails, and then a sort by the expression itself does not count as a sort by it. As a column, the
//! key is also calculated once, not a second time where sorted partitions are merged.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, SortExpr};

use crate::names::INTERNAL_PREFIX;
use crate::types::float_order::inside_logical_sort_key;
use crate::types::tree_changes::ChangePlan;

/// Moves such keys of a whole plan to columns.
pub(super) fn with_calculated_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_nodes(&mut |node| match &node {
        LogicalPlan::Sort(_) | LogicalPlan::Window(_) | LogicalPlan::Aggregate(_) => moved(node),
        _ => Ok(Transformed::no(node)),
    })
    .data()
}

fn moved(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = node.schema().columns();
    let mut keys = Keys::default();
    let node = match node {
        LogicalPlan::Sort(mut sort) => {
            sort.expr = keys.columns_of_sort(sort.expr);
            LogicalPlan::Sort(sort)
        }
        node => with_columns_in_calls(node, &mut keys)?,
    };
    if keys.moved.is_empty() {
        return Ok(Transformed::no(node));
    }
    let is_aggregate = matches!(node, LogicalPlan::Aggregate(_));
    let input = node.inputs()[0].clone();
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let made = keys.moved.into_iter().enumerate().map(|(at, key)| key.alias(name(at)));
    let columns = columns.chain(made).collect::<Vec<_>>();
    let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    let node = node.with_new_exprs(node.expressions(), vec![input])?;
    if is_aggregate {
        return Ok(Transformed::yes(node));
    }
    let columns = schema.into_iter().map(Expr::Column).collect::<Vec<_>>();
    Ok(Transformed::yes(LogicalPlanBuilder::from(node).project(columns)?.build()?))
}

/// Replaces the keys in calls of aggregates and window functions, which keep their names.
fn with_columns_in_calls(node: LogicalPlan, keys: &mut Keys) -> Result<LogicalPlan> {
    let names = NamePreserver::new(&node);
    let changed = node.change_exprs(&mut |expr| {
        let (saved, count) = (names.save(&expr), keys.uses);
        let expr = expr.transform_down(|expr| Ok(keys.columns_of_call(expr)))?.data;
        let is_changed = count < keys.uses;
        Ok(if is_changed { Transformed::yes(saved.restore(expr)) } else { Transformed::no(expr) })
    })?;
    Ok(changed.data)
}

/// The keys that are moved.
#[derive(Debug, Default)]
struct Keys {
    /// Each of them once.
    moved: Vec<Expr>,
    /// The number of places that they were moved from.
    uses: usize,
}

impl Keys {
    fn columns_of_call(&mut self, expr: Expr) -> Transformed<Expr> {
        match expr {
            Expr::AggregateFunction(mut call) => {
                call.params.order_by = self.columns_of_sort(call.params.order_by);
                Transformed::no(Expr::AggregateFunction(call))
            }
            Expr::WindowFunction(mut window) => {
                let groups = window.params.partition_by.into_iter();
                window.params.partition_by = groups.map(|group| self.column(group)).collect();
                window.params.order_by = self.columns_of_sort(window.params.order_by);
                Transformed::no(Expr::WindowFunction(window))
            }
            expr => Transformed::no(expr),
        }
    }

    fn columns_of_sort(&mut self, keys: Vec<SortExpr>) -> Vec<SortExpr> {
        keys.into_iter().map(|key| SortExpr { expr: self.column(key.expr), ..key }).collect()
    }

    /// Returns the column for a key, if it needs one.
    fn column(&mut self, key: Expr) -> Expr {
        if !is_of_unknown_range(&key) {
            return key;
        }
        self.uses += 1;
        let key = key.unalias();
        let known = self.moved.iter().position(|moved| *moved == key);
        let at = known.unwrap_or_else(|| {
            self.moved.push(key);
            self.moved.len() - 1
        });
        Expr::Column(Column::new_unqualified(name(at)))
    }
}

/// Returns the name of a column that no query can write.
fn name(at: usize) -> String {
    format!("{INTERNAL_PREFIX}calculated {at}")
}

/// Returns true for a key with an operator over anything but columns, constants and operators, or
/// with a function over anything but columns and constants.
fn is_of_unknown_range(key: &Expr) -> bool {
    let key = match key {
        Expr::ScalarFunction(call) => inside_logical_sort_key(call).unwrap_or(key),
        _ => key,
    };
    let mut is_found = false;
    let walked = key.apply(|part| {
        if let Expr::ScalarFunction(call) = part {
            is_found = call.args.iter().any(|arg| !is_of_known_range(arg));
            return Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Jump });
        }
        let is_operator = matches!(
            part,
            Expr::BinaryExpr(_) | Expr::Negative(_) | Expr::Not(_) | Expr::Between(_)
        );
        if !is_operator {
            return Ok(TreeNodeRecursion::Continue);
        }
        is_found = part.exists(|inside| Ok(!is_plain(inside)))?;
        // The outermost operator was asked about all that is inside of it.
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Jump })
    });
    walked.is_ok() && is_found
}

fn is_of_known_range(arg: &Expr) -> bool {
    matches!(arg, Expr::Column(_) | Expr::Literal(..))
}

fn is_plain(expr: &Expr) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    match expr {
        // Other operators, such as `||`, become functions.
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            let compares = matches!(op, Lt | LtEq | Gt | GtEq | Eq | NotEq);
            compares || op.is_numerical_operators() || op.is_logic_operator()
        }
        Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Alias(_)
        | Expr::Cast(_)
        | Expr::Negative(_)
        | Expr::Not(_)
        | Expr::Between(_) => true,
        _ => false,
    }
}
