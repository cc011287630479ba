//! HAVING without GROUP BY and without an aggregate.
//!
//! - The rows are one group then, as in PostgreSQL: `SELECT 1 FROM t HAVING true` has one row.
//!   DataFusion makes a group of them only for an aggregate.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, GroupByExpr, Select};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::dialect::QueryDialect;
use crate::sql::visit::visit_expressions;

/// Adds a condition that holds for any group to a HAVING of constants.
pub(super) fn make_one_group(select: &mut Select) {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(groups, modifiers) => !groups.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    if is_grouped || !select.having.as_ref().is_some_and(is_constant) {
        return;
    }
    let dialect = QueryDialect::default();
    let parsed = Parser::new(&dialect).try_with_sql("count(*) >= 0");
    let Ok(always) = parsed.and_then(|mut parser| parser.parse_expr()) else { return };
    select.having = select.having.take().map(|condition| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(condition))),
        op: BinaryOperator::And,
        right: Box::new(Expr::Nested(Box::new(always))),
    });
}

/// Returns true for a condition without columns and calls.
fn is_constant(condition: &Expr) -> bool {
    let found = visit_expressions(condition, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_continue()
}
