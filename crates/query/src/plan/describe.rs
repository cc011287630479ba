//! Description of a statement without executing it: the types of its parameters and of the columns
//! of its answer.
//!
//! - The columns are those that the statement returns when it is executed with values of these
//!   types, as long as no table changes in between.
//! - The type of a parameter is inferred from the comparison, the calculation, the function, the
//!   cast or the column that takes it. Without any of these there is no type, and the value is a
//!   text. A parameter that the statement does not contain, or only asks for NULL, is not even that
//!   (`untyped_parameters`), as in PostgreSQL.
//! - describe-1. A number above `limits::STATEMENT_PARAMETERS` is no parameter's: no memory is
//!   allocated for it, and no client can give it a value.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, Query, SelectItem, SetExpr, Value, Visitor,
};
use tidegate_model::{Column, limits};
use tidegate_storage::Database;
use tidegate_storage::segment::arrow_field;

use super::purpose::Purpose;
use super::query_text::{QueryText, parse_query};
use super::type_names::list_field;
use super::views::blamed;
use super::{Parameter, error_positions, logical_plan, output_names, output_schema};
use crate::error::{Condition, Result};
use crate::functions::signatures::open_parameters;
use crate::names::LIST_MARK;
use crate::parse::{Token, tokenize};
use crate::sql::blocks::select_everything;
use crate::sql::visit::{visit, visit_expressions};

/// The type of the value that stands for a length of time.
pub(crate) const LENGTH_TYPE: &str = "INTERVAL";

/// Types of parameters, by their names: `$1`.
pub(crate) type ParameterTypes = HashMap<String, FieldRef>;

/// Returns the highest number of a parameter in a statement.
///
/// # Errors
/// A quote that is never closed.
pub fn parameter_count(sql: &str) -> Result<usize> {
    let tokens = tokenize(sql)?;
    let numbers = tokens.windows(2).filter_map(parameter_number);
    Ok(numbers.max().unwrap_or(0))
}

/// Returns the number of `$n`, if these two tokens are one (describe-1).
fn parameter_number(pair: &[Token<'_>]) -> Option<usize> {
    let is_one = pair[0].is_sign('$') && pair[0].offset + 1 == pair[1].offset;
    let number = is_one.then(|| pair[1].text.parse().ok()).flatten();
    number.filter(|number| *number <= limits::STATEMENT_PARAMETERS)
}

/// Returns values to describe a statement with: those that are not given are open, unless they
/// stand at a place for constants only.
pub(crate) fn described_with(sql: &str, given: &[Parameter]) -> Result<Vec<Parameter>> {
    let tokens = tokenize(sql)?;
    let mut values = given.to_vec();
    for (at, pair) in tokens.windows(2).enumerate() {
        let Some(number) = parameter_number(pair).filter(|number| 0 < *number) else { continue };
        if values.len() < number {
            values.resize(number, Parameter::Open);
        }
        if values[number - 1] != Parameter::Open {
            continue;
        }
        if is_limit(&tokens[..at]) {
            values[number - 1] = Parameter::Integer(0);
        } else if let Some(value) = frame_bound(&tokens, at) {
            values[number - 1] = value;
        }
    }
    Ok(values)
}

/// Returns true for the tokens before a bound of LIMIT, OFFSET or FETCH.
fn is_limit(before: &[Token<'_>]) -> bool {
    match before {
        [.., fetch, first] if first.is_word("FIRST") || first.is_word("NEXT") => {
            fetch.is_word("FETCH")
        }
        [.., last] => ["LIMIT", "OFFSET", "FETCH"].iter().any(|word| last.is_word(word)),
        [] => false,
    }
}

/// Returns a value for a bound of a window frame, `ROWS $1 PRECEDING`, if the parameter at this
/// token is one. Frames of RANGE are taken for those over times.
fn frame_bound(tokens: &[Token<'_>], at: usize) -> Option<Parameter> {
    let after = tokens.get(at + 2)?;
    if !after.is_word("PRECEDING") && !after.is_word("FOLLOWING") {
        return None;
    }
    let is_unit =
        |token: &&Token<'_>| ["ROWS", "GROUPS", "RANGE"].iter().any(|it| token.is_word(it));
    let unit = tokens[..at].iter().rev().find(is_unit)?;
    Some(match unit.is_word("RANGE") {
        true => Parameter::Typed(LENGTH_TYPE.into(), Some("1 day".to_owned())),
        false => Parameter::Integer(1),
    })
}

/// Returns the indexes of the parameters that nothing gives a type: the statement does not contain
/// them, or only asks whether they are NULL.
pub(crate) fn untyped_parameters(sql: &str, types: &ParameterTypes) -> Result<Vec<usize>> {
    let tokens = tokenize(sql)?;
    let mut is_used = vec![false; parameter_count(sql)?];
    for (at, pair) in tokens.windows(2).enumerate() {
        let Some(number) = parameter_number(pair).filter(|number| 0 < *number) else { continue };
        let is = |after: usize, word: &str| {
            tokens.get(at + 2 + after).is_some_and(|token| token.is_word(word))
        };
        let is_asked = is(0, "IS") && (is(1, "NULL") || is(1, "NOT") && is(2, "NULL"));
        is_used[number - 1] |= !is_asked;
    }
    let is_untyped = |at: &usize| !is_used[*at] && !types.contains_key(&format!("${}", at + 1));
    Ok((0..is_used.len()).filter(is_untyped).collect())
}

/// Returns the columns of a query's answer, and the types of its parameters.
pub(crate) fn describe_query(
    state: &SessionState,
    database: &Database,
    sql: &str,
    values: &[Parameter],
) -> Result<(SchemaRef, ParameterTypes)> {
    let infer = |values: &[Parameter]| -> Result<Inferred> {
        let query = parse_query(sql, values)?;
        let names = query.names.clone();
        let described = describe(state, database, sql, query, &Purpose::default());
        let (plan, types) = described.map_err(|error| {
            error_positions::locate(sql, blamed(state, database, sql, values, error))
        })?;
        let names = output_names(&names, plan.schema());
        let schema = output_schema(plan.schema().inner(), &names);
        Ok(Inferred { schema, types, is_calculated: calculates_with_parameters(&plan)? })
    };
    let Inferred { schema, types, is_calculated } = infer(values).or_else(|error| {
        if error.condition() == Condition::AmbiguousFunction {
            return Err(error);
        }
        // A clause needs the value: NULL is one.
        let is_open = |value: &Parameter| *value == Parameter::Open;
        let known =
            |value: &Parameter| if is_open(value) { Parameter::Null } else { value.clone() };
        infer(&values.iter().map(known).collect::<Vec<_>>())
    })?;
    if !is_calculated {
        return Ok((schema, types));
    }
    // A value is a constant of its own type: INT + $1 is a BIGINT for it.
    let example = |(index, value): (usize, &Parameter)| {
        let field = types.get(&format!("${}", index + 1));
        let example = field.filter(|_| *value == Parameter::Open).and_then(number_like);
        example.unwrap_or_else(|| value.clone())
    };
    let examples = values.iter().enumerate().map(example).collect::<Vec<_>>();
    match examples == values {
        true => Ok((schema, types)),
        false => Ok((infer(&examples).map_or(schema, |inferred| inferred.schema), types)),
    }
}

/// The description of a query with some values of its parameters.
struct Inferred {
    schema: SchemaRef,
    types: ParameterTypes,
    /// True if a parameter is used for more than conditions.
    is_calculated: bool,
}

/// Returns true if a parameter stands elsewhere than in conditions on rows.
fn calculates_with_parameters(plan: &LogicalPlan) -> Result<bool> {
    let mut is_found = false;
    plan.apply_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Filter(_)) {
            node.apply_expressions(|expr| {
                is_found |= expr.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_found)
}

/// Returns a number as the values of a parameter of this type become; `None` for other types.
fn number_like(field: &FieldRef) -> Option<Parameter> {
    match field.data_type() {
        ty if ty.is_integer() => Some(Parameter::Integer(0)),
        ty if ty.is_floating() => Some(Parameter::Double(0.5)),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            let ty = format!("DECIMAL({precision},{scale})");
            Some(Parameter::Typed(ty.into(), Some("0".to_owned())))
        }
        _ => None,
    }
}

/// Returns the plan of a query with open parameters, and the types of these.
pub(super) fn describe(
    state: &SessionState,
    database: &Database,
    sql: &str,
    query: QueryText,
    purpose: &Purpose<'_>,
) -> Result<(LogicalPlan, ParameterTypes)> {
    let mut types = cast_types(&query.statement);
    let (plan, _) = logical_plan(state, database, sql, query, purpose)?;
    add(&mut types, learned(&plan)?);
    add(&mut types, signature_types(&plan)?);
    let options = state.config_options();
    // Types of operators are those after coercion.
    let analyzed = state.analyzer().execute_and_check(plan.clone(), options, |_, _| {});
    let Ok(analyzed) = analyzed else { return Ok((plan, types)) };
    // The branches of a CASE, and arguments of other functions, get their types there.
    add(&mut types, learned(&analyzed)?);
    Ok((analyzed, types))
}

/// Adds the types of parameters that have none yet.
pub(super) fn add(types: &mut ParameterTypes, more: ParameterTypes) {
    for (name, field) in more {
        types.entry(name).or_insert(field);
    }
}

/// Returns the types that parameters have in a plan.
fn learned(plan: &LogicalPlan) -> Result<ParameterTypes> {
    let mut types = ParameterTypes::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| expr.apply(|expr| Ok(learn(expr, &mut types))))
    })?;
    Ok(types)
}

/// Returns the types that the signatures of functions give to their arguments.
fn signature_types(plan: &LogicalPlan) -> Result<ParameterTypes> {
    let mut types = ParameterTypes::new();
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                for (name, field) in argument_types(part, &schema) {
                    let (name, field) = named(&name, &field);
                    types.entry(name).or_insert(field);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}

/// Returns the types of the parameters among the arguments of a call.
fn argument_types(expr: &Expr, schema: &DFSchema) -> Vec<(String, FieldRef)> {
    match expr {
        Expr::ScalarFunction(call) => {
            let names = std::iter::once(call.func.name());
            let names = names.chain(call.func.aliases().iter().map(String::as_str));
            let mut found = names.map(|name| open_parameters(name, &call.args, schema));
            found.find(|types| !types.is_empty()).unwrap_or_default()
        }
        Expr::WindowFunction(window) => {
            open_parameters(window.fun.name(), &window.params.args, schema)
        }
        _ => Vec::new(),
    }
}

fn learn(expr: &Expr, types: &mut ParameterTypes) -> TreeNodeRecursion {
    match expr {
        Expr::Placeholder(Placeholder { id, field: Some(field) }) => {
            let (name, field) = named(id, field);
            types.entry(name).or_insert(field);
        }
        Expr::Cast(cast) => {
            if let Expr::Placeholder(Placeholder { id, .. }) = cast.expr.as_ref() {
                let (name, field) = named(id, &cast.field);
                types.insert(name, field);
            }
        }
        _ => {}
    }
    TreeNodeRecursion::Continue
}

/// Returns a parameter and its type: a parameter found as the element of a list is a list.
fn named(name: &str, field: &FieldRef) -> (String, FieldRef) {
    match name.strip_suffix(LIST_MARK) {
        Some(list) => (list.to_owned(), list_field(field)),
        None => (name.to_owned(), Arc::clone(field)),
    }
}

/// Returns the types of the columns that store the values of an INSERT.
pub(crate) fn stored_types(query: &Query, columns: &[Column]) -> ParameterTypes {
    let mut types = ParameterTypes::new();
    let mut store = |expr: &SqlExpr, column: &Column| {
        if let Some(name) = placeholder(expr) {
            types.entry(name).or_insert_with(|| Arc::new(arrow_field(column)));
        }
    };
    match query.body.as_ref() {
        SetExpr::Values(values) => {
            for row in &values.rows {
                row.content.iter().zip(columns).for_each(|(expr, column)| store(expr, column));
            }
        }
        SetExpr::Select(select) => {
            for (item, column) in select.projection.iter().zip(columns) {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                {
                    store(expr, column);
                }
            }
        }
        _ => {}
    }
    types
}

/// Lets the VALUES of an INSERT be a SELECT of those values that are calculated with parameters;
/// returns false if there are none. Other values need no plan, and may be DEFAULT.
pub(crate) fn select_calculated(query: &mut Query) -> bool {
    let SetExpr::Values(values) = query.body.as_mut() else { return true };
    let values = std::mem::take(&mut values.rows).into_iter().flat_map(|row| row.content);
    let values = values.filter(|value| placeholder(value).is_none() && has_placeholder(value));
    let item = |(at, expr): (usize, SqlExpr)| SelectItem::ExprWithAlias {
        expr,
        alias: Ident::new(format!("v{at}")),
    };
    let items = values.enumerate().map(item).take(limits::SELECT_ITEMS).collect::<Vec<_>>();
    if items.is_empty() {
        return false;
    }
    let mut select = select_everything(Vec::new(), None);
    select.projection = items;
    *query.body = SetExpr::Select(Box::new(select));
    true
}

/// Returns true for an expression with a parameter in it.
fn has_placeholder(expr: &SqlExpr) -> bool {
    visit_expressions(expr, |part| match placeholder(part) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Returns the name of the parameter that an expression is, without brackets.
fn placeholder(expr: &SqlExpr) -> Option<String> {
    match expr {
        SqlExpr::Nested(inner) => placeholder(inner),
        SqlExpr::Value(value) => match &value.value {
            Value::Placeholder(name) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the types that parameters are cast to, including those of casts that planning removes.
pub(super) fn cast_types(query: &Query) -> ParameterTypes {
    struct Casts(ParameterTypes);
    impl Visitor for Casts {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<()> {
            if let SqlExpr::Cast { expr, data_type, .. } = expr
                && let Some(name) = placeholder(expr)
                && let Some(field) = super::type_names::field_of(data_type)
            {
                let (name, field) = named(&name, &field);
                self.0.insert(name, field);
            }
            ControlFlow::Continue(())
        }
    }
    let mut casts = Casts(ParameterTypes::new());
    let _ = visit(query, &mut casts);
    casts.0
}

#[cfg(test)]
mod tests {
    use super::*;

    // A vector was made as long as the highest number in the text. A description of
    // `SELECT $1000000000000` asked for terabytes, and an allocation that fails ends the process:
    // one statement ended the server.
    #[test]
    fn a_number_makes_no_more_room_than_there_can_be_values() {
        let sizes = |sql: &str| {
            let values = described_with(sql, &[Parameter::Null]).unwrap();
            (parameter_count(sql).unwrap(), values.len())
        };
        assert_eq!(sizes("SELECT $1000000000000"), (0, 1), "describe-1");
        assert_eq!(sizes("SELECT $2, $65536"), (2, 2), "describe-1");
        assert_eq!(sizes("SELECT $65535"), (65_535, 65_535));
        assert_eq!(sizes("SELECT $99999999999999999999999"), (0, 1));
    }

    #[test]
    fn parameters_that_have_no_use_have_no_type() {
        for (sql, expected) in [
            ("SELECT $1, $3", &[1][..]),
            ("SELECT $1 IS NULL, $2 IS NOT NULL", &[0, 1]),
            ("SELECT $1 IS NULL OR a = $1", &[]),
            ("SELECT $1 IS TRUE, '$2'", &[]),
        ] {
            let found = untyped_parameters(sql, &ParameterTypes::new()).unwrap();
            assert_eq!(found, expected, "{sql}");
        }
    }

    #[test]
    fn bounds_of_frames_have_values() {
        let length = || Parameter::Typed(LENGTH_TYPE.into(), Some("1 day".to_owned()));
        for (frame, expected) in [
            ("ROWS $1 PRECEDING", Parameter::Integer(1)),
            ("GROUPS BETWEEN CURRENT ROW AND $1 FOLLOWING", Parameter::Integer(1)),
            ("RANGE BETWEEN $1 PRECEDING AND CURRENT ROW", length()),
            ("PARTITION BY $1", Parameter::Open),
        ] {
            let values = described_with(&format!("SELECT sum(a) OVER ({frame}) FROM t"), &[]);
            assert_eq!(values.unwrap(), [expected], "{frame}");
        }
    }
}
