//! Visits to all nodes of a syntax tree, compiled once for all visitors.
//!
//! sqlparser compiles the visits of its hundreds of types of nodes for each type of visitor. That
//! was an eighth of the binary, so each visitor here is called through one trait object.
//! Not here: visits that leave out subqueries (`own_exprs`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

/// Shows a visitor the nodes of a tree until it breaks off.
pub(crate) fn visit<V: Visitor>(node: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut keeping: Keeping<'_, V, V::Break> = Keeping { visitor, broken: None };
    let flow = Visit::visit(node, &mut Any(&mut keeping));
    flow.map_break(|()| keeping.broken.expect("kept where the visitor broke off"))
}

/// Lets a visitor change the nodes of a tree until it breaks off.
pub(crate) fn visit_mut<V: VisitorMut>(
    node: &mut impl VisitMut,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    let mut keeping: Keeping<'_, V, V::Break> = Keeping { visitor, broken: None };
    let flow = VisitMut::visit(node, &mut AnyMut(&mut keeping));
    flow.map_break(|()| keeping.broken.expect("kept where the visitor broke off"))
}

/// Calls a function with each expression of a tree, the whole before its parts, until it breaks
/// off.
pub(crate) fn visit_expressions<B>(
    node: &impl Visit,
    of_expr: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit(node, &mut Expressions(of_expr))
}

struct Expressions<F>(F);

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

/// Any visitor that reads: the only type for which visits are compiled.
struct Any<'a>(&'a mut dyn Visitor<Break = ()>);

/// Any visitor that changes nodes.
struct AnyMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// A visitor whose value of a break is kept here, so that all have the same type of it.
struct Keeping<'a, V, B> {
    visitor: &'a mut V,
    broken: Option<B>,
}

impl<V, B> Keeping<'_, V, B> {
    fn keep(&mut self, flow: ControlFlow<B>) -> ControlFlow<()> {
        flow.map_break(|value| self.broken = Some(value))
    }
}

/// Calls a macro with all methods of visitors.
macro_rules! with_methods {
    ($macro:ident) => {
        $macro! {
            pre_visit_query(Query),
            post_visit_query(Query),
            pre_visit_select(Select),
            post_visit_select(Select),
            pre_visit_relation(ObjectName),
            post_visit_relation(ObjectName),
            pre_visit_table_factor(TableFactor),
            post_visit_table_factor(TableFactor),
            pre_visit_expr(Expr),
            post_visit_expr(Expr),
            pre_visit_statement(Statement),
            post_visit_statement(Statement),
            pre_visit_value(ValueWithSpan),
            post_visit_value(ValueWithSpan),
        }
    };
}

/// Passes on all methods of a visitor.
macro_rules! pass_on {
    ($($method:ident($node:ty),)*) => {
        impl Visitor for Any<'_> {
            type Break = ();

            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }

        impl VisitorMut for AnyMut<'_> {
            type Break = ();

            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }

        impl<B, V: Visitor<Break = B>> Visitor for Keeping<'_, V, B> {
            type Break = ();

            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                let flow = Visitor::$method(&mut *self.visitor, node);
                self.keep(flow)
            })*
        }

        impl<B, V: VisitorMut<Break = B>> VisitorMut for Keeping<'_, V, B> {
            type Break = ();

            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                let flow = VisitorMut::$method(&mut *self.visitor, node);
                self.keep(flow)
            })*
        }
    };
}

with_methods!(pass_on);

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    /// Records the methods that are called.
    #[derive(Default)]
    struct Recorder(Vec<&'static str>);

    macro_rules! record {
        ($($method:ident($node:ty),)*) => {
            impl Visitor for Recorder {
                type Break = String;

                $(fn $method(&mut self, _: &$node) -> ControlFlow<String> {
                    self.0.push(stringify!($method));
                    ControlFlow::Continue(())
                })*
            }

            impl VisitorMut for Recorder {
                type Break = String;

                $(fn $method(&mut self, _: &mut $node) -> ControlFlow<String> {
                    self.0.push(stringify!($method));
                    ControlFlow::Continue(())
                })*
            }

            const METHODS: &[&str] = &[$(stringify!($method)),*];
        };
    }

    with_methods!(record);

    fn parsed() -> Vec<Statement> {
        let sql = "SELECT a + 1 FROM t WHERE b IN (SELECT c FROM u LIMIT 2)";
        Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap()
    }

    #[test]
    fn visitors_see_what_they_see_without_a_trait_object() {
        let (mut plain, mut any, mut changing) =
            (Recorder::default(), Recorder::default(), Recorder::default());
        assert!(Visit::visit(&parsed(), &mut plain).is_continue());
        assert!(visit(&parsed(), &mut any).is_continue());
        assert!(visit_mut(&mut parsed(), &mut changing).is_continue());
        assert_eq!(any.0, plain.0);
        assert_eq!(changing.0, plain.0);
        for method in METHODS {
            assert!(plain.0.contains(method), "{method}");
        }
    }

    #[test]
    fn value_of_a_break_comes_out() {
        let found = visit_expressions(&parsed(), |expr| match expr {
            Expr::Identifier(name) if name.value != "a" => ControlFlow::Break(name.value.clone()),
            _ => ControlFlow::Continue(()),
        });
        assert_eq!(found, ControlFlow::Break("b".to_owned()));
    }
}
