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

use std::ops::ControlFlow;
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
    VisitMut, VisitorMut,
};

use crate::names::{COLUMN_KEY, NAME_KEY};
use crate::sql::call::call_of;

/// The prefixes of the functions' names, for CAST and TRY_CAST.
const PREFIXES: [&str; 2] = ["cast to ", "try cast to "];

/// See cast_names-2.
const VALUE: &str = "value of a subquery";

/// Names the casts of a SELECT that groups its rows (cast_names-1).
pub(crate) fn name_casts_of_groups(select: &mut Select) {
    let mut namer = Namer { everywhere: true, queries: 0 };
    visit_items(select, &mut namer);
    // The visitor never breaks off, here and below.
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        let _: ControlFlow<()> = keys.visit(&mut namer);
    }
    let _: ControlFlow<()> = select.having.visit(&mut namer);
    let _: ControlFlow<()> = select.qualify.visit(&mut namer);
}

/// Names the casts in the ORDER BY of a query that groups its rows.
pub(crate) fn name_casts_of_order(query: &mut Query) {
    let mut namer = Namer { everywhere: true, queries: 0 };
    let Some(order) = &mut query.order_by else { return };
    if let OrderByKind::Expressions(keys) = &mut order.kind {
        let _: ControlFlow<()> = keys.visit(&mut namer);
    }
}

/// Names the casts in the calls of window functions of a SELECT (cast_names-1).
pub(crate) fn name_casts_of_windows(select: &mut Select) {
    visit_items(select, &mut Namer { everywhere: false, queries: 0 });
}

/// Puts the subqueries in rows of VALUES in calls (cast_names-2).
pub(crate) fn name_subqueries_of_rows(values: &mut Values) {
    struct Rows {
        queries: usize,
    }

    impl VisitorMut for Rows {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
            if self.queries == 0 && matches!(expr, SqlExpr::Subquery(_)) {
                let null = SqlExpr::Value(Value::Null.into());
                let subquery = std::mem::replace(expr, null);
                *expr = call_of(VALUE, [subquery]);
            }
            ControlFlow::Continue(())
        }
    }

    // The visitor never breaks off.
    let _: ControlFlow<()> = values.visit(&mut Rows { queries: 0 });
}

fn visit_items(select: &mut Select, namer: &mut Namer) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _: ControlFlow<()> = expr.visit(namer);
        }
    }
}

struct Namer {
    /// False for casts in calls of window functions only.
    everywhere: bool,
    /// The number of open subqueries: their casts are not named.
    queries: usize,
}

impl VisitorMut for Namer {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            SqlExpr::Cast { kind, data_type, .. } if self.everywhere => {
                let is_try = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
                let prefix = PREFIXES[usize::from(is_try)];
                let name = format!("{prefix}{}", data_type.to_string().to_lowercase());
                let null = SqlExpr::Value(Value::Null.into());
                let cast = std::mem::replace(expr, null);
                *expr = call_of(&name, [cast]);
            }
            SqlExpr::Function(call) if call.over.is_some() && !self.everywhere => {
                let mut namer = Namer { everywhere: true, queries: 0 };
                let _: ControlFlow<()> = call.args.visit(&mut namer);
                let _: ControlFlow<()> = call.over.visit(&mut namer);
                let _: ControlFlow<()> = call.filter.visit(&mut namer);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
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
