//! Distinction of equal lists of one `unnest` in FROM.
//!
//! - equal_lists-1. The second list of `unnest(a, a)` is `CASE WHEN 1 = 1 THEN a END`, and columns
//!   without a name are `unnest`, `unnest_2`, ... DataFusion calls the columns after their lists,
//!   without the casts of these, and requires the names to differ.
//! - Lists that differ stay as they are.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, TableAlias, TableAliasColumnDef, TableFactor, Value,
    VisitorMut,
};

use crate::sql::visit::visit_mut;

/// Rewrites lists that would give their columns the same name (equal_lists-1).
pub(super) fn tell_equal_lists_apart(table: &mut TableFactor) {
    let TableFactor::UNNEST {
        alias, array_exprs, with_ordinality: false, with_offset: false, ..
    } = table
    else {
        return;
    };
    if array_exprs.len() < 2 {
        return;
    }
    let mut names = HashSet::with_capacity(array_exprs.len());
    let mut has_equal = false;
    for (at, list) in array_exprs.iter_mut().enumerate() {
        if !names.insert(without_casts(list)) {
            *list = always(at, std::mem::replace(list, null()));
            has_equal = true;
        }
    }
    if has_equal {
        name_columns(alias, array_exprs.len());
    }
}

/// Names the columns that the alias does not name.
fn name_columns(alias: &mut Option<TableAlias>, count: usize) {
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::with_quote('"', "unnest"),
        columns: Vec::new(),
        at: None,
    });
    for at in alias.columns.len()..count {
        let name = if at == 0 { "unnest".to_owned() } else { format!("unnest_{}", at + 1) };
        alias.columns.push(TableAliasColumnDef::from_name(name));
    }
}

/// Returns `CASE WHEN at = at THEN list END`.
fn always(at: usize, list: Expr) -> Expr {
    let number = || Box::new(Expr::Value(Value::Number(at.to_string(), false).into()));
    let condition = Expr::BinaryOp { left: number(), op: BinaryOperator::Eq, right: number() };
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: list }],
        else_result: None,
    }
}

/// Returns the text of a list without casts and brackets.
fn without_casts(list: &Expr) -> String {
    struct Remover;

    impl VisitorMut for Remover {
        type Break = std::convert::Infallible;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
            if let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
                *expr = std::mem::replace(inner.as_mut(), null());
            }
            ControlFlow::Continue(())
        }
    }

    let mut plain = list.clone();
    let ControlFlow::Continue(()) = visit_mut(&mut plain, &mut Remover);
    plain.to_string()
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[track_caller]
    fn check(from: &str, expected: &str) {
        let text = format!("SELECT * FROM {from}");
        let mut parsed = Parser::parse_sql(&PostgreSqlDialect {}, &text).unwrap();
        let Statement::Query(query) = &mut parsed[0] else { panic!("a query") };
        let mut table = query.body.as_select().unwrap().from[0].relation.clone();
        tell_equal_lists_apart(&mut table);
        assert_eq!(table.to_string(), expected, "equal_lists-1");
    }

    #[test]
    fn an_equal_list_gets_another_name() {
        check(
            "unnest(a, b, a)",
            "UNNEST(a, b, CASE WHEN 2 = 2 THEN a END) AS \"unnest\" (unnest, unnest_2, unnest_3)",
        );
        check(
            "unnest(l::INT[], (l)::TEXT[]) AS x(a)",
            "UNNEST(l::INT[], CASE WHEN 1 = 1 THEN (l)::TEXT[] END) AS x (a, unnest_2)",
        );
    }

    #[test]
    fn other_lists_stay_as_they_are() {
        check("unnest(a, b)", "UNNEST(a, b)");
        check("unnest(a) AS x", "UNNEST(a) AS x");
    }
}
