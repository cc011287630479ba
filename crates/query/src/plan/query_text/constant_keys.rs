//! Parameters as keys of ORDER BY and GROUP BY.
//!
//! - constant_keys-1. The value of a parameter is a constant there, as in PostgreSQL, and never the
//!   position of a column: `ORDER BY $1` orders nothing, and `GROUP BY $1` makes one group.
//!   DataFusion takes an integer for a position, and values stand in the tree as constants.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, GroupByExpr, OrderByKind, Query, Select, Value,
};

use crate::plan::parameters::Places;

/// Removes numbers that are parameters from the ORDER BY of a query (constant_keys-1).
pub(super) fn drop_parameters_of_order(query: &mut Query, parameters: &Places) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    keys.retain(|key| !is_number(&key.expr, parameters));
    if keys.is_empty() {
        query.order_by = None;
    }
}

/// Casts integers that are parameters in the GROUP BY of a SELECT, which makes them constants
/// (constant_keys-1).
pub(super) fn cast_parameters_of_groups(select: &mut Select, parameters: &Places) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    for key in keys {
        cast_number(key, parameters);
    }
}

fn cast_number(key: &mut Expr, parameters: &Places) {
    if let Expr::Nested(inner) = key {
        cast_number(inner, parameters);
    } else if is_number(key, parameters) {
        let number = std::mem::replace(key, Expr::Value(Value::Null.into()));
        *key = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(number),
            data_type: DataType::BigInt(None),
            array: false,
            format: None,
        };
    }
}

/// Returns true for a number without a sign that is the value of a parameter.
fn is_number(key: &Expr, parameters: &Places) -> bool {
    let Expr::Value(value) = key else { return false };
    matches!(value.value, Value::Number(..)) && parameters.contains_key(&value.span.start)
}

#[cfg(test)]
mod tests {
    use crate::plan::parameters::Parameter;
    use crate::plan::query_text::parse_query;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let parsed = parse_query(sql, &[Parameter::Integer(1), Parameter::Integer(9)]).unwrap();
        assert_eq!(parsed.statement.to_string(), expected, "constant_keys-1: {sql}");
    }

    /// `ORDER BY $1` sorted by the first column if the value was 1, and failed if it was 9.
    #[test]
    fn a_parameter_is_no_position_of_a_column() {
        check("SELECT a FROM t ORDER BY $1, b DESC", "SELECT a FROM t ORDER BY b DESC");
        check("SELECT a FROM t ORDER BY $2 DESC LIMIT $1", "SELECT a FROM t LIMIT 1");
        check("SELECT a FROM t ORDER BY a + $1, 1", "SELECT a FROM t ORDER BY a + 1, 1");
        check(
            "SELECT min(a) FROM t GROUP BY $2",
            "SELECT min(a) FROM t GROUP BY CAST(9 AS BIGINT)",
        );
        check(
            "SELECT b, $1 FROM t GROUP BY ($1), 1",
            "SELECT b, 1 FROM t GROUP BY (CAST(1 AS BIGINT)), 1",
        );
    }
}
