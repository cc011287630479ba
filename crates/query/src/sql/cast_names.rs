//! Names for casts: DataFusion leaves them out of the names of columns, so that `GROUP BY ts,
//! ts::DATE` would have one name twice.
//!
//! - cast_names-1. In the grouping keys and the columns of a query with groups, and in calls of
//!   window functions, a cast stands in a call of a function with the name of its type, until a
//!   plan is made (`plan::coerce`).
//! - cast_names-2. A subquery in a row of VALUES stands in a call of `VALUE`, which hides the
//!   properties of the column it reads: DataFusion requires them to be the same in all rows.
//!
//! Not here: casts in calls of aggregates (`types::aggregate_cast_names`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr as SqlExpr, GroupByExpr, OrderByKind, Query, Select, SelectItem, Value, Values,
};

use crate::names::{COLUMN_KEY, NAME_KEY};
use crate::sql::call::call_of;
use crate::sql::own_exprs::change_own_exprs;

/// The prefixes of the functions' names, for CAST and TRY_CAST.
const PREFIXES: [&str; 2] = ["cast to ", "try cast to "];

/// See cast_names-2.
const VALUE: &str = "value of a subquery";

/// Names the casts of a SELECT that groups its rows (cast_names-1).
pub(crate) fn name_casts_of_groups(select: &mut Select) {
    change_items(select, name_cast);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        change_own_exprs(keys, name_cast);
    }
    change_own_exprs(&mut select.having, name_cast);
    change_own_exprs(&mut select.qualify, name_cast);
}

/// Names the casts in the ORDER BY of a query that groups its rows.
pub(crate) fn name_casts_of_order(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    if let OrderByKind::Expressions(keys) = &mut order.kind {
        change_own_exprs(keys, name_cast);
    }
}

/// Names the casts in the calls of window functions of a SELECT (cast_names-1).
pub(crate) fn name_casts_of_windows(select: &mut Select) {
    change_items(select, |expr| {
        if let SqlExpr::Function(call) = expr
            && call.over.is_some()
        {
            change_own_exprs(&mut call.args, name_cast);
            change_own_exprs(&mut call.over, name_cast);
            change_own_exprs(&mut call.filter, name_cast);
        }
    });
}

/// Puts the subqueries in rows of VALUES in calls (cast_names-2).
pub(crate) fn name_subqueries_of_rows(values: &mut Values) {
    change_own_exprs(values, |expr| {
        if matches!(expr, SqlExpr::Subquery(_)) {
            name_expr(expr, VALUE);
        }
    });
}

fn change_items(select: &mut Select, change: fn(&mut SqlExpr)) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            change_own_exprs(expr, change);
        }
    }
}

fn name_cast(expr: &mut SqlExpr) {
    if let SqlExpr::Cast { kind, data_type, .. } = expr {
        let is_try = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
        let prefix = PREFIXES[usize::from(is_try)];
        let name = format!("{prefix}{}", data_type.to_string().to_lowercase());
        name_expr(expr, &name);
    }
}

/// Puts an expression in a call of the function with this name.
fn name_expr(expr: &mut SqlExpr, name: &str) {
    let null = SqlExpr::Value(Value::Null.into());
    let named = std::mem::replace(expr, null);
    *expr = call_of(name, [named]);
}

/// Returns the function with this name of a cast.
pub(crate) fn cast_name(name: &str) -> Option<Arc<ScalarUDF>> {
    let signature = Signature::any(1, Volatility::Immutable);
    let is_one = name == VALUE || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_one
        .then(|| Arc::new(ScalarUDF::new_from_impl(CastName { name: name.to_owned(), signature })))
}

/// Returns the cast that stands in such a call, or the call again.
pub(crate) fn unnamed(mut call: ScalarFunction) -> std::result::Result<Expr, ScalarFunction> {
    match call.func.inner().is::<CastName>() {
        true => Ok(call.args.remove(0)),
        false => Err(call),
    }
}

/// A function that returns its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CastName {
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for CastName {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let mut field = args.arg_fields[0].as_ref().clone().with_name(&self.name);
        if self.name == VALUE {
            field.metadata_mut().retain(|key, _| ![NAME_KEY, COLUMN_KEY].contains(&key.as_str()));
        }
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("the name of a cast was left in a plan")
    }
}
