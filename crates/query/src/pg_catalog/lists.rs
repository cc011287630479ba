//! Rewrites arrays in SQL as PostgreSQL's clients write them into lists that DataFusion knows.
//!
//! - `x = ANY(list)` with a literal list becomes `x IN (..)`, and so benefits from the same
//!   optimizations: time indexes, comparisons by symbol codes. With an empty list it is false.
//! - A cast of a literal list becomes a cast of each element: so times, decimals and UUIDs are
//!   parsed as anywhere else.
//! - A parameter that is the list of `x = ANY($1)` is described as a list of the type of `x`: its
//!   name is `$1[]` until its type is known (`plan::describe`).
//! - If a list that is computed when the query runs has no matching element but a NULL, the result
//!   of the comparison is NULL.
//! - lists-1. `ARRAY(SELECT ..)` has the rows of the query in their order, and is an empty list if
//!   there are none. `x = ANY(ARRAY(SELECT ..))` is `x IN (SELECT ..)`: no list is made.
//!
//! Lists have one dimension.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, CastKind, Expr, Function, FunctionArguments, Query, Value,
};

use crate::names::LIST_MARK;
use crate::pg_catalog::tree::{call, catalog_type, custom_name, null, parts};
use crate::sql::row_values::rows_of;
use crate::types::list_types::element_type;

/// The keyword between a value and a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    Any,
    All,
}

/// A comparison of a value with each element of a list, or each row of a query.
struct Comparison<'a> {
    joined: Joined,
    left: &'a mut Expr,
    op: &'a BinaryOperator,
    right: &'a mut Expr,
}

impl Comparison<'_> {
    fn of(expr: &mut Expr) -> Option<Comparison<'_>> {
        let (joined, left, op, right) = match expr {
            Expr::AnyOp { left, compare_op, right, .. } => (Joined::Any, left, compare_op, right),
            Expr::AllOp { left, compare_op, right } => (Joined::All, left, compare_op, right),
            _ => return None,
        };
        Some(Comparison { joined, left, op, right })
    }

    /// Returns true for `= ANY` and `<> ALL`, which are IN and NOT IN.
    fn is_membership(&self) -> bool {
        matches!(
            (self.joined, self.op),
            (Joined::Any, BinaryOperator::Eq) | (Joined::All, BinaryOperator::NotEq)
        )
    }
}

/// Returns the query of `ARRAY(SELECT ..)`.
pub(super) fn query_of_array(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Nested(inner) => query_of_array(inner),
        Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. }) => {
            (parts(name).1 == "array").then_some(query.as_ref())
        }
        _ => None,
    }
}

/// Returns the rows of a query as a list (lists-1).
pub(super) fn list_of_rows(query: &Query) -> Option<Expr> {
    let column = "\"column 1\"";
    let rows = rows_of(&format!("array_agg({column})"), query, &[column.to_owned()])?;
    Some(call("coalesce", vec![Expr::Subquery(rows), call("make_array", Vec::new())]))
}

/// Compares with the rows of a query in place of a list of them (lists-1), before the parts of the
/// comparison are rewritten. Queries on the catalog take subqueries as values for single rows, and
/// have `has_no_row` for others.
pub(super) fn compare_with_rows(expr: &mut Expr, is_catalog: bool, has_no_row: fn(&Query) -> bool) {
    let Some(comparison) = Comparison::of(expr) else { return };
    let is_membership = comparison.is_membership();
    let Comparison { joined, left, right, .. } = comparison;
    let rows = match &*right {
        Expr::Subquery(query) if is_catalog && is_membership => Some(query.as_ref()),
        list if is_membership || !is_catalog => query_of_array(list),
        _ => None,
    };
    let Some(rows) = rows.cloned().map(Box::new) else { return };
    if !is_membership {
        *right = Expr::Subquery(rows);
        return;
    }
    let negated = joined == Joined::All;
    *expr = match is_catalog && has_no_row(&rows) {
        true => Expr::Value(Value::Boolean(negated).into()),
        false => {
            let left = Box::new(std::mem::replace(left, null()));
            Expr::InSubquery { expr: left, subquery: rows, negated }
        }
    };
}

/// Rewrites `x = ANY(list)`, `x <> ALL(list)` and similar comparisons.
pub(super) fn rewrite_comparison(expr: &mut Expr) {
    let Some(Comparison { joined, left, op, right }) = Comparison::of(expr) else { return };
    if matches!(inside(right), Expr::Subquery(_)) {
        return;
    }
    let (left, op) = (std::mem::replace(left, null()), op.clone());
    let right = std::mem::replace(right, null());
    *expr = match list_of(&right) {
        Some(list) if list.is_empty() => Expr::Value(Value::Boolean(joined == Joined::All).into()),
        Some(list) => with_elements(left, joined, op, list),
        None => match element_of(&right) {
            Some(element) => {
                let (left, right) = (Box::new(left), Box::new(element));
                Expr::BinaryOp { left, op, right }
            }
            None => with_list(left, joined, op, right),
        },
    };
}

fn with_elements(left: Expr, joined: Joined, op: BinaryOperator, list: Vec<Expr>) -> Expr {
    let is_in = matches!(
        (joined, &op),
        (Joined::Any, BinaryOperator::Eq) | (Joined::All, BinaryOperator::NotEq)
    );
    if is_in {
        return Expr::InList { expr: Box::new(left), list, negated: joined == Joined::All };
    }
    let join = match joined {
        Joined::Any => BinaryOperator::Or,
        Joined::All => BinaryOperator::And,
    };
    let compared = list.into_iter().map(|element| Expr::BinaryOp {
        left: Box::new(left.clone()),
        op: op.clone(),
        right: Box::new(element),
    });
    let all = compared.reduce(|all, next| Expr::BinaryOp {
        left: Box::new(all),
        op: join.clone(),
        right: Box::new(next),
    });
    Expr::Nested(Box::new(all.expect("there is an element")))
}

/// The comparison with a list that is computed when the query runs.
fn with_list(left: Expr, joined: Joined, op: BinaryOperator, list: Expr) -> Expr {
    match (joined, &op) {
        (Joined::Any, BinaryOperator::Eq) => {
            open_with_null(call("array_has", vec![list.clone(), left]), list)
        }
        (Joined::All, BinaryOperator::NotEq) => {
            let has = open_with_null(call("array_has", vec![list.clone(), left]), list);
            Expr::Nested(Box::new(Expr::UnaryOp {
                op: datafusion::sql::sqlparser::ast::UnaryOperator::Not,
                expr: Box::new(has),
            }))
        }
        // DataFusion reports operators that it does not support.
        (Joined::Any, _) => {
            let right = Box::new(list.clone());
            let any = Expr::AnyOp { left: Box::new(left), compare_op: op, right, is_some: false };
            open_with_null(any, list)
        }
        (Joined::All, _) => {
            Expr::AllOp { left: Box::new(left), compare_op: op, right: Box::new(list) }
        }
    }
}

/// Makes `any` NULL if it is false and the list contains a NULL.
fn open_with_null(any: Expr, list: Expr) -> Expr {
    let when = |condition, result| CaseWhen { condition, result };
    let has_null = Expr::IsNotNull(Box::new(call("array_position", vec![list, null()])));
    let truth = Expr::Value(Value::Boolean(true).into());
    let case = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![when(any.clone(), truth), when(has_null, null())],
        else_result: Some(Box::new(any)),
    };
    Expr::Nested(Box::new(case))
}

/// An element in place of a list that is a parameter without a known value.
fn element_of(list: &Expr) -> Option<Expr> {
    match list {
        Expr::Nested(inner) => element_of(inner),
        Expr::Cast { kind, expr, data_type, array, format } => Some(Expr::Cast {
            kind: kind.clone(),
            expr: Box::new(element_of(expr)?),
            data_type: element_type(data_type)?.clone(),
            array: *array,
            format: format.clone(),
        }),
        Expr::Value(value) => {
            let Value::Placeholder(name) = &value.value else { return None };
            let mut value = value.clone();
            value.value = Value::Placeholder(format!("{name}{LIST_MARK}"));
            Some(Expr::Value(value))
        }
        _ => None,
    }
}

/// Rewrites a cast to a list type.
pub(super) fn rewrite_cast(expr: &mut Expr) {
    let Expr::Cast { kind, expr: inner, data_type, .. } = expr else { return };
    let Some(element) = element_type(data_type) else { return };
    let Some(list) = list_of(inner).filter(|list| !list.is_empty()) else {
        // DataFusion does not parse a list from a text.
        if matches!(inside(inner), Expr::Value(value) if list_text(&value.value).is_some()) {
            **inner = array_of(Vec::new());
        }
        return;
    };
    let element = custom_name(element)
        .and_then(|name| catalog_type(&name))
        .unwrap_or_else(|| element.clone());
    let kind = kind.clone();
    let cast = |value: Expr| Expr::Cast {
        kind: kind.clone(),
        expr: Box::new(value),
        data_type: element.clone(),
        array: false,
        format: None,
    };
    *expr = array_of(list.into_iter().map(cast).collect());
}

fn array_of(elem: Vec<Expr>) -> Expr {
    Expr::Array(Array { elem, named: true })
}

fn inside(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => inside(inner),
        Expr::Cast {
            expr: inner, data_type, kind: CastKind::Cast | CastKind::DoubleColon, ..
        } if element_type(data_type).is_some() => inside(inner),
        other => other,
    }
}

/// The elements of `ARRAY[..]`, or of a text `'{a,b}'`; casts around them are ignored, because the
/// elements are cast themselves.
pub(super) fn list_of(expr: &Expr) -> Option<Vec<Expr>> {
    match inside(expr) {
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Value(value) => {
            let element = |text: Option<String>| match text {
                Some(text) => Expr::Value(Value::SingleQuotedString(text).into()),
                None => null(),
            };
            Some(list_text(&value.value)?.into_iter().map(element).collect())
        }
        _ => None,
    }
}

fn list_text(value: &Value) -> Option<Vec<Option<String>>> {
    match value {
        Value::SingleQuotedString(text) => parse_list(text),
        _ => None,
    }
}

/// The elements of an array as PostgreSQL writes it: `{a,"b,c",NULL}`. `None` if the text is not an
/// array of one dimension.
#[must_use]
pub fn parse_list(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (mut elements, mut rest) = (Vec::new(), inside.trim());
    if rest.is_empty() {
        return Some(elements);
    }
    loop {
        let (element, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_element(quoted)?,
            None => plain_element(rest)?,
        };
        elements.push(element);
        let behind = behind.trim_start();
        if behind.is_empty() {
            return Some(elements);
        }
        rest = behind.strip_prefix(',')?.trim_start();
    }
}

type Element<'t> = (Option<String>, &'t str);

fn quoted_element(text: &str) -> Option<Element<'_>> {
    let mut element = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((Some(element), &text[at + 1..])),
            '\\' => element.push(chars.next()?.1),
            _ => element.push(char),
        }
    }
    None
}

fn plain_element(text: &str) -> Option<Element<'_>> {
    let (mut element, mut is_escaped) = (String::new(), false);
    let mut chars = text.char_indices();
    let end = loop {
        match chars.next() {
            Some((at, ',')) => break at,
            None => break text.len(),
            Some((_, '\\')) => {
                is_escaped = true;
                element.push(chars.next()?.1);
            }
            Some((_, '{' | '}' | '"')) => return None,
            Some((_, char)) => element.push(char),
        }
    };
    element.truncate(element.trim_end().len());
    if element.is_empty() {
        return None;
    }
    let is_null = !is_escaped && element.eq_ignore_ascii_case("null");
    Some(((!is_null).then_some(element), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&[Option<&str>]>) {
        let expected =
            expected.map(|it| it.iter().map(|it| it.map(str::to_owned)).collect::<Vec<_>>());
        assert_eq!(parse_list(text), expected, "{text}");
    }

    #[test]
    fn arrays_are_read_as_postgresql_writes_them() {
        check("{}", Some(&[]));
        check(" { 1 , 2 } ", Some(&[Some("1"), Some("2")]));
        check("{NULL,null,\"NULL\"}", Some(&[None, None, Some("NULL")]));
        check(
            r#"{"a,b","c\"d\\e","",f g}"#,
            Some(&[Some("a,b"), Some("c\"d\\e"), Some(""), Some("f g")]),
        );
        for bad in ["", "1", "{", "{1", "{1,}", "{,1}", "{{1},{2}}", "{\"a}", "{\"a\"b}", "{a\\}"] {
            check(bad, None);
        }
    }
}
