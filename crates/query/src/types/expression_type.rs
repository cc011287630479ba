//! The column type of an expression, and the results of which a CASE or COALESCE gives one.

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit as ArrowUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};
use tidegate_model::{ColumnType, TimeUnit};

use crate::types::decimal_constants;
use crate::types::literal::type_of;

/// Returns the type of an expression as a column type.
pub(crate) fn type_in(expr: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    let of_one = results(expr).and_then(|results| {
        let types = results.iter().map(|result| (*result, type_in(result, schema)));
        let types = types.collect::<Vec<_>>();
        let special = types.iter().filter_map(|(_, ty)| *ty);
        let special = special.into_iter().find(|ty| is_special(*ty));
        special.or_else(|| decimal_constants::type_of_one(&types)).or_else(|| common_time(&types))
    });
    of_one.or_else(|| match expr {
        // Its field has no metadata, but a name: those of all its parts are made for each of them.
        Expr::BinaryExpr(_) => type_of(&Field::new("", expr.get_type(schema).ok()?, true)),
        _ => {
            let (_, field) = expr.to_field(schema).ok()?;
            type_of(&field)
        }
    })
}

/// As `type_in`; an instant, which no column holds, has the type of a time of its unit.
pub(crate) fn type_beside(expr: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    type_in(expr, schema).or_else(|| match expr.get_type(schema).ok()? {
        DataType::Timestamp(ArrowUnit::Microsecond, Some(_)) => {
            Some(ColumnType::Timestamp(TimeUnit::Micros))
        }
        DataType::Timestamp(ArrowUnit::Nanosecond, Some(_)) => {
            Some(ColumnType::Timestamp(TimeUnit::Nanos))
        }
        _ => None,
    })
}

/// Returns the finest unit of values that are times of several: DataFusion takes that of the first
/// for the type of a CASE, until it has converted the others.
fn common_time(values: &[(&Expr, Option<ColumnType>)]) -> Option<ColumnType> {
    common_of_one(values).filter(|ty| matches!(ty, ColumnType::Date | ColumnType::Timestamp(_)))
}

/// Returns the common type of times or of integers of which an expression returns one.
pub(crate) fn common_of_one(values: &[(&Expr, Option<ColumnType>)]) -> Option<ColumnType> {
    let is_null = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.is_null());
    let known = values.iter().filter(|(value, _)| !is_null(value)).map(|(_, ty)| *ty);
    common_time_or_integer(&known.collect::<Option<Vec<_>>>()?)
}

/// Returns the finest type of times, or the widest of integers with a sign, if all are such: an
/// expression that returns one of several values has that type.
pub(crate) fn common_time_or_integer(types: &[ColumnType]) -> Option<ColumnType> {
    const TIMES: [ColumnType; 3] = [
        ColumnType::Date,
        ColumnType::Timestamp(TimeUnit::Micros),
        ColumnType::Timestamp(TimeUnit::Nanos),
    ];
    const INTEGERS: [ColumnType; 4] =
        [ColumnType::Int8, ColumnType::Int16, ColumnType::Int32, ColumnType::Int64];
    let common = |ranked: &[ColumnType]| {
        let ranks = types.iter().map(|ty| ranked.iter().position(|it| it == ty));
        let highest = ranks.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        ranked.get(highest).copied()
    };
    common(&TIMES).or_else(|| common(&INTEGERS))
}

/// Functions that return one of their arguments.
const GIVES_ONE: [&str; 6] = ["coalesce", "nullif", "nvl", "ifnull", "greatest", "least"];

/// Returns true if a function returns one of its arguments.
pub(crate) fn gives_one(function: &str) -> bool {
    GIVES_ONE.contains(&function)
}

pub(crate) fn is_special(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Uuid | ColumnType::Ipv4)
}

/// Returns the values of which an expression returns one.
pub(crate) fn results(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::ScalarFunction(call) if gives_one(call.func.name()) => {
            Some(call.args.iter().collect())
        }
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then);
            Some(results.chain(&case.else_expr).map(AsRef::as_ref).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    // The name of each part of a sum was made for each of its parts, whenever an operator asked for
    // the type of its side: planning took time with the third power of the operators, six seconds
    // for 400.
    #[test]
    fn operators_have_the_type_of_their_field() {
        let columns = vec![Field::new("d", DataType::Int32, true)];
        let schema = DFSchema::try_from(Schema::new(columns)).unwrap();
        let mut sum = col("d");
        for count in 1..=200 {
            sum = sum + lit(1_i64);
            assert_eq!(type_in(&sum, &schema), Some(ColumnType::Int64), "{count} operators");
        }
        for expr in [sum.clone(), sum.clone().gt(lit(1_i64)), sum + lit(0.5)] {
            let (_, field) = expr.to_field(&schema).unwrap();
            assert_eq!(type_in(&expr, &schema), type_of(&field));
        }
    }
}
