//! Description of a statement without executing it: the types of its parameters and of the columns
//! of its answer.
//!
//! - The columns are those that the statement returns when it is executed with values of these
//!   types, as long as no table changes in between.
//! - The type of a parameter is inferred from the comparison, the calculation, the cast or the
//!   column that takes it. Without any of these there is no type, and the value is a text.
//! - describe-1. A number above `limits::STATEMENT_PARAMETERS` is no parameter's: no memory is
//!   allocated for it, and no client can give it a value.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Query, SelectItem, SetExpr, Value, Visit, Visitor,
};
use tidegate_model::{Column, limits};
use tidegate_storage::Database;
use tidegate_storage::segment::arrow_field;

use super::purpose::Purpose;
use super::query_text::{QueryText, parse_query};
use super::type_names::list_field;
use super::views::blamed;
use super::{Parameter, error_positions, logical_plan, output_names, output_schema};
use crate::error::Result;
use crate::names::LIST_MARK;
use crate::parse::{Token, tokenize};

/// Types of parameters, by their names: `$1`.
pub(crate) type ParameterTypes = HashMap<String, FieldRef>;

/// Returns the highest number of a parameter in a statement.
pub(crate) fn parameter_count(sql: &str) -> Result<usize> {
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
        let Some(before) = at.checked_sub(1).map(|at| tokens[at]) else { continue };
        if ["LIMIT", "OFFSET", "FETCH"].iter().any(|word| before.is_word(word)) {
            values[number - 1] = Parameter::Integer(0);
        }
    }
    Ok(values)
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
    let Inferred { schema, types, is_calculated } = infer(values).or_else(|_| {
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
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| expr.apply(|expr| Ok(learn(expr, &mut types))))
    })?;
    let options = state.config_options();
    // Types of operators are those after coercion.
    let analyzed = state.analyzer().execute_and_check(plan.clone(), options, |_, _| {});
    let Ok(analyzed) = analyzed else { return Ok((plan, types)) };
    // The branches of a CASE, and arguments of functions, get their types there.
    let mut coerced = ParameterTypes::new();
    analyzed.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| expr.apply(|expr| Ok(learn(expr, &mut coerced))))
    })?;
    for (name, field) in coerced {
        types.entry(name).or_insert(field);
    }
    Ok((analyzed, types))
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
fn cast_types(query: &Query) -> ParameterTypes {
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
    let _ = query.visit(&mut casts);
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
}
