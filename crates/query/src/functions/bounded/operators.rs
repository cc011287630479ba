//! Operators with large values, which become calls of bounded functions.
//!
//! - operators-1. After the rules of the optimizer, every `||` of texts, and every cast that makes
//!   new values without a fixed width, is a call of a function with a growth (category-1).
//! - Those that are evaluated while a query is planned become functions before that: `||`, casts of
//!   lists, and matches of constants. Those that only copy, or match columns with constants, become
//!   functions behind all other rules, which know casts and LIKE.
//! - So do LIKE, ILIKE and regular expressions, except LIKE in time linear in its text
//!   (`matching::is_linear`).
//! - Behind all other rules, constants that are copied to each row of a batch become calls that
//!   charge them (`broadcast`), and window functions check that the statement may continue, and
//!   charge their values (`windows`).

use std::cell::OnceCell;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeIterator, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result, TableReference};
use datafusion::logical_expr::expr::{
    AggregateFunction, Cast, InList, ScalarFunction, TryCast, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, GroupingSet, LogicalPlan, Operator, ScalarUDF, TableScan, TableSource,
};

use super::super::matching::{is_linear, is_regex, like, regex};
use super::super::text_concat::{operands, text_concat};
use super::super::value_cast::{OnFailure, ValueCast};
use super::bounded;
use super::broadcast::{broadcast, needs_broadcast};
use super::regex::check_pattern;
use super::windows::{Width, checked};
use crate::operators::windows::is_wide;
use crate::types::tree_changes::{ChangeParts, ChangePlan};

/// The stage of planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Other rules follow.
    Rewritten,
    /// The plan is final.
    Final,
}

/// Wraps the functions of one node of a plan (bounded-3), and its operators (operators-1).
pub(crate) fn bound_functions_of(
    node: LogicalPlan,
    stage: Stage,
) -> Result<Transformed<LogicalPlan>> {
    let columns = Columns::of(&node);
    // The expressions of these nodes become arrays of all rows.
    let spreads = stage == Stage::Final
        && matches!(
            node,
            LogicalPlan::Aggregate(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::Repartition(_)
        );
    let is_of_names = matches!(node, LogicalPlan::Window(_) | LogicalPlan::Aggregate(_));
    // The names of these expressions contain their ORDER BY as it is displayed.
    let names = NamePreserver::new(&node);
    node.change_exprs(&mut |expr| {
        let saved = is_of_names.then(|| names.save(&expr));
        let mut bound = expr.change_parts(&mut |part| bound_part(part, &columns, stage))?;
        if spreads {
            bound = bound.transform_data(|expr| columns.broadcast(expr))?;
        }
        let is_named = !matches!(bound.data, Expr::GroupingSet(_));
        Ok(match saved.filter(|_| bound.transformed && is_named) {
            Some(saved) => bound.update_data(|expr| saved.restore(expr)),
            None => bound,
        })
    })
}

/// Wraps the functions of an expression over the columns of a schema, which is evaluated next.
pub(crate) fn bound_expr(expr: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    let columns = Columns { inputs: vec![Arc::clone(schema)], ..Columns::default() };
    Ok(expr.change_parts(&mut |part| bound_part(part, &columns, Stage::Rewritten))?.data)
}

/// The columns that the expressions of a node refer to. They are merged only when a cast needs
/// their types: tables may be wide.
#[derive(Default)]
struct Columns {
    inputs: Vec<DFSchemaRef>,
    /// The table of a scan.
    table: Option<(TableReference, Arc<dyn TableSource>)>,
    merged: OnceCell<DFSchema>,
}

impl Columns {
    fn of(node: &LogicalPlan) -> Columns {
        let table = match node {
            LogicalPlan::TableScan(TableScan { table_name, source, .. }) => {
                Some((table_name.clone(), Arc::clone(source)))
            }
            _ => None,
        };
        let inputs = node.inputs().into_iter().map(|input| Arc::clone(input.schema())).collect();
        Columns { inputs, table, merged: OnceCell::new() }
    }

    /// Returns the type of an expression; `None` if it is over other columns.
    fn type_of(&self, expr: &Expr) -> Option<DataType> {
        if let ([one], None) = (self.inputs.as_slice(), &self.table) {
            return expr.get_type(one.as_ref()).ok();
        }
        let merged = self.merged.get_or_init(|| {
            let mut merged = DFSchema::empty();
            if let Some((name, source)) = &self.table
                && let Ok(schema) =
                    DFSchema::try_from_qualified_schema(name.clone(), &source.schema())
            {
                merged.merge(&schema);
            }
            self.inputs.iter().for_each(|input| merged.merge(input));
            merged
        });
        expr.get_type(merged).ok()
    }

    /// Charges an expression that is one value for all rows.
    fn broadcast(&self, expr: Expr) -> Result<Transformed<Expr>> {
        if !needs_broadcast(&expr) || !self.type_of(&expr).is_some_and(|ty| is_wide(&ty)) {
            return Ok(Transformed::no(expr));
        }
        Ok(Transformed::yes(broadcast(expr)))
    }

    fn broadcast_all(&self, exprs: Vec<Expr>) -> Result<Transformed<Vec<Expr>>> {
        exprs.into_iter().map_until_stop_and_collect(|expr| self.broadcast(expr))
    }

    /// Does the same for the parts of an expression that become arrays of all its rows.
    fn broadcast_inside(&self, expr: Expr) -> Result<Transformed<Expr>> {
        let boxed = |expr: Box<Expr>| -> Result<Transformed<Box<Expr>>> {
            Ok(self.broadcast(*expr)?.update_data(Box::new))
        };
        Ok(match expr {
            Expr::Case(mut case) => {
                let mut is_new = false;
                let mut spread_in = |place: &mut Box<Expr>| -> Result<()> {
                    let broadcast = boxed(std::mem::take(place))?;
                    is_new |= broadcast.transformed;
                    *place = broadcast.data;
                    Ok(())
                };
                case.expr.iter_mut().try_for_each(&mut spread_in)?;
                case.when_then_expr.iter_mut().try_for_each(|(when, then)| {
                    spread_in(when)?;
                    spread_in(then)
                })?;
                case.else_expr.iter_mut().try_for_each(&mut spread_in)?;
                Transformed::new(Expr::Case(case), is_new, TreeNodeRecursion::Continue)
            }
            Expr::InList(InList { expr, list, negated }) => {
                boxed(expr)?.update_data(|expr| Expr::InList(InList { expr, list, negated }))
            }
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                let args = self.broadcast_all(std::mem::take(&mut params.args))?;
                args.update_data(|args| {
                    params.args = args;
                    Expr::AggregateFunction(AggregateFunction { func, params })
                })
            }
            Expr::GroupingSet(GroupingSet::Rollup(exprs)) => self
                .broadcast_all(exprs)?
                .update_data(|exprs| Expr::GroupingSet(GroupingSet::Rollup(exprs))),
            Expr::GroupingSet(GroupingSet::Cube(exprs)) => self
                .broadcast_all(exprs)?
                .update_data(|exprs| Expr::GroupingSet(GroupingSet::Cube(exprs))),
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets
                .into_iter()
                .map_until_stop_and_collect(|set| self.broadcast_all(set))?
                .update_data(|sets| Expr::GroupingSet(GroupingSet::GroupingSets(sets))),
            Expr::WindowFunction(call) => self.broadcast_window(call)?,
            other => Transformed::no(other),
        })
    }

    fn broadcast_window(&self, call: Box<WindowFunction>) -> Result<Transformed<Expr>> {
        let expr = Expr::WindowFunction(call);
        let is_wide = self.type_of(&expr).is_some_and(|ty| is_wide(&ty));
        let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let args = self.broadcast_all(std::mem::take(&mut call.params.args))?;
        call.params.args = args.data;
        let by = self.broadcast_all(std::mem::take(&mut call.params.partition_by))?;
        call.params.partition_by = by.data;
        let call = checked(*call, if is_wide { Width::Wide } else { Width::Narrow });
        let is_new = call.transformed || args.transformed || by.transformed;
        let call = Expr::WindowFunction(Box::new(call.data));
        Ok(Transformed::new(call, is_new, TreeNodeRecursion::Continue))
    }
}

fn bound_part(expr: Expr, columns: &Columns, stage: Stage) -> Result<Transformed<Expr>> {
    let kind = |expr: &Expr, to: &DataType| {
        let from = ValueCast::may_be_to(to).then(|| columns.type_of(expr))??;
        ValueCast::of(&from, to).filter(|it| *it == ValueCast::List || stage == Stage::Final)
    };
    // Other rules know matches with a constant.
    let is_early = |text: &Expr, pattern: &Expr| {
        stage == Stage::Final || pattern.any_column_refs() || !text.any_column_refs()
    };
    check_regex(&expr)?;
    match expr {
        Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat => {
            wrapped_call(text_concat(), operands(binary))
        }
        Expr::BinaryExpr(binary)
            if is_regex(binary.op) && is_early(&binary.left, &binary.right) =>
        {
            let (function, args) = regex(binary);
            wrapped_call(function, args)
        }
        Expr::Like(it)
            if is_early(&it.expr, &it.pattern) && !is_linear(&it, columns.table.is_some()) =>
        {
            match like(it) {
                Ok((function, args)) => wrapped_call(function, args),
                Err(it) => Ok(Transformed::no(Expr::Like(it))),
            }
        }
        Expr::Cast(Cast { expr, field }) => match kind(&expr, field.data_type()) {
            Some(kind) => wrapped_call(kind.function(&field, OnFailure::Fail), vec![*expr]),
            None => Ok(Transformed::no(Expr::Cast(Cast { expr, field }))),
        },
        Expr::TryCast(TryCast { expr, field }) => match kind(&expr, field.data_type()) {
            Some(kind) => wrapped_call(kind.function(&field, OnFailure::Null), vec![*expr]),
            None => Ok(Transformed::no(Expr::TryCast(TryCast { expr, field }))),
        },
        expr if stage == Stage::Final => match bound_call(expr)? {
            done @ Transformed { transformed: true, .. } => Ok(done),
            left => columns.broadcast_inside(left.data),
        },
        expr => bound_call(expr),
    }
}

/// Checks a constant pattern, which rules of the optimizer parse (regex-2).
fn check_regex(expr: &Expr) -> Result<()> {
    let Expr::BinaryExpr(binary) = expr else { return Ok(()) };
    match binary.right.as_ref() {
        Expr::Literal(pattern, _) if is_regex(binary.op) => {
            let pattern = pattern.try_as_str().flatten();
            pattern.map_or(Ok(()), check_pattern)
        }
        _ => Ok(()),
    }
}

fn wrapped_call(function: ScalarUDF, args: Vec<Expr>) -> Result<Transformed<Expr>> {
    let call = ScalarFunction { func: Arc::new(function), args };
    let wrapped = bound_call(Expr::ScalarFunction(call))?;
    Ok(Transformed::yes(wrapped.data))
}

fn bound_call(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else {
        return Ok(Transformed::no(expr));
    };
    // Functions of ours that no statement can name have small values, and are not wrapped.
    let known = bounded(&func).unwrap_or_else(|| Arc::clone(&func));
    let is_new = !Arc::ptr_eq(&known, &func);
    let call = Expr::ScalarFunction(ScalarFunction { func: known, args });
    Ok(if is_new { Transformed::yes(call) } else { Transformed::no(call) })
}
