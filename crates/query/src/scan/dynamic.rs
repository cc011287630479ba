//! Dynamic filters: conditions that the operators above a scan find while they run, such as the
//! current bound of a TopK, or the keys of the other side of a join.
//!
//! - They only skip rows that the operator that found them would drop itself. So a part that cannot
//!   be translated skips nothing, and is no error.
//! - They are checked before each page frame, and before each batch of long texts, and translated
//!   anew only if they have changed.
//!
//! A TopK reads wide columns only of rows that beat its bound: the others are not decoded.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column as ColumnExpr, DynamicFilterPhysicalExpr, InListExpr,
    IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};
use tidegate_filter::Expr as Condition;
use tidegate_storage::Snapshot;

use super::condition::{Translator, column_type, compare_op, literal};
use super::row_filter::RowFilter;
use crate::types::float_order::inside_sort_key;

/// The dynamic filters of one scan.
#[derive(Debug)]
pub(crate) struct DynamicFilters {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The table's fields as DataFusion sees them; columns are found by their names in them.
    fields: SchemaRef,
    known: Mutex<Known>,
}

/// The conditions as of the last check.
#[derive(Debug, Default)]
struct Known {
    generations: Vec<u64>,
    filter: Option<Arc<RowFilter>>,
}

/// Returns true if an expression changes while a query runs.
pub(crate) fn is_dynamic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
        || expr.children().into_iter().any(is_dynamic)
}

impl DynamicFilters {
    pub(super) fn new(exprs: Vec<Arc<dyn PhysicalExpr>>, fields: SchemaRef) -> DynamicFilters {
        DynamicFilters { exprs, fields, known: Mutex::default() }
    }

    pub(super) fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.exprs
    }

    /// Returns the current conditions; `None` if they skip nothing.
    pub(super) fn current(&self, snapshot: &Snapshot) -> Result<Option<Arc<RowFilter>>> {
        let generations: Vec<u64> = self.exprs.iter().map(snapshot_generation).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.generations != generations {
            known.filter = self.translated(snapshot)?;
            known.generations = generations;
        }
        Ok(known.filter.clone())
    }

    fn translated(&self, snapshot: &Snapshot) -> Result<Option<Arc<RowFilter>>> {
        let mut translator = Translator::new(&snapshot.schema, Arc::clone(&self.fields));
        let mut conditions = Vec::new();
        for expr in &self.exprs {
            let now = snapshot_physical_expr(Arc::clone(expr))?;
            add_parts(&now, &mut translator, &mut conditions);
        }
        if conditions.is_empty() {
            return Ok(None);
        }
        RowFilter::new(snapshot, &translator.columns, conditions).map(Arc::new).map(Some)
    }
}

/// Adds the parts of nested ANDs that can be translated.
fn add_parts(
    expr: &Arc<dyn PhysicalExpr>,
    translator: &mut Translator<'_>,
    conditions: &mut Vec<Condition>,
) {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>()
        && *binary.op() == Operator::And
    {
        add_parts(binary.left(), translator, conditions);
        add_parts(binary.right(), translator, conditions);
        return;
    }
    let is_literal = expr.downcast_ref::<Literal>().is_some();
    let condition = translator.checked(|translator| translate(expr, translator));
    conditions.extend(condition.filter(|_| !is_literal));
}

fn translate(expr: &Arc<dyn PhysicalExpr>, translator: &mut Translator<'_>) -> Option<Condition> {
    if let Some(inner) = inside_sort_key(expr) {
        return translate(inner, translator);
    }
    let mut boxed = |expr| translate(expr, translator).map(Box::new);
    if let Some(column) = expr.downcast_ref::<ColumnExpr>() {
        return translator.column(column.name());
    }
    if let Some(value) = expr.downcast_ref::<Literal>() {
        return literal(value.value());
    }
    if let Some(inner) = expr.downcast_ref::<NotExpr>() {
        return Some(Condition::Not(boxed(inner.arg())?));
    }
    if let Some(inner) = expr.downcast_ref::<IsNullExpr>() {
        return Some(Condition::IsNull(boxed(inner.arg())?));
    }
    if let Some(inner) = expr.downcast_ref::<IsNotNullExpr>() {
        return Some(Condition::IsNotNull(boxed(inner.arg())?));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let (to, expr) = (column_type(cast.cast_type())?, boxed(cast.expr())?);
        return Some(Condition::Cast { expr, to, is_try: false });
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let (expr, negated) = (boxed(list.expr())?, list.negated());
        let list = list.list().iter().map(|item| translate(item, translator));
        let list = list.collect::<Option<Vec<_>>>().filter(|list| !list.is_empty())?;
        return Some(Condition::InList { expr, list, negated });
    }
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (boxed(binary.left())?, boxed(binary.right())?);
    Some(match binary.op() {
        Operator::And => Condition::And(vec![*left, *right]),
        Operator::Or => Condition::Or(vec![*left, *right]),
        op => Condition::compare(compare_op(*op)?, *left, *right),
    })
}
