//! The size of nested types: the fields within them, and their depth.
//!
//! - type_size-1. The type of a call has at most `TYPE_FIELDS` fields in all its levels, and at
//!   most `TYPE_DEPTH` levels. A struct that holds a column twice has twice its fields, so that a
//!   subquery within the next could double them without an end; and types are compared, printed
//!   and freed by recursion. A long name counts as several fields: each copy of a type has it.
//! - type_size-2. The columns of a step of a plan have at most `TYPES_FIELDS` fields within their
//!   types together.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::LogicalPlan;

use crate::error::ClauseProblem;

/// The maximal number of fields within a type, as many as a row has in PostgreSQL.
const TYPE_FIELDS: usize = 1_664;
/// The maximal number of levels of a type: as many as calls within calls, of which planning takes
/// a quarter of a second.
const TYPE_DEPTH: usize = 100;
/// The bytes of a name that count as one more field.
const NAME_BYTES: usize = 64;
/// The maximal number of fields within the types of all columns of a step: each becomes an array,
/// of a few hundred bytes, where constants are calculated.
const TYPES_FIELDS: usize = 1 << 16;

/// Checks the type of the values of a function (type_size-1).
pub(crate) fn check_type(function: &str, ty: &DataType) -> Result<()> {
    let mut left = TYPE_FIELDS;
    if fits(ty, TYPE_DEPTH, &mut left) {
        return Ok(());
    }
    let function = function.to_owned();
    Err(ClauseProblem::TypeTooLarge { function, fields: TYPE_FIELDS, levels: TYPE_DEPTH }.into())
}

/// Checks the types of the columns of all steps of a plan (type_size-2).
pub(crate) fn check_types(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        check_columns(node.schema())?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check_columns(schema: &DFSchema) -> Result<()> {
    let mut left = TYPES_FIELDS;
    // Aggregates, which are not checked by type_size-1, add a level each.
    let mut nested = schema.fields().iter().filter(|field| field.data_type().is_nested());
    if nested.all(|field| fits(field.data_type(), usize::MAX, &mut left)) {
        return Ok(());
    }
    Err(ClauseProblem::TypesTooLarge { fields: TYPES_FIELDS }.into())
}

/// Takes the fields within a type from those that are left; false if there are too few, or if the
/// type has more levels.
fn fits(ty: &DataType, levels: usize, left: &mut usize) -> bool {
    let mut named = |name: &str, ty: &DataType| {
        let weight = 1 + name.len() / NAME_BYTES;
        match (levels.checked_sub(1), left.checked_sub(weight)) {
            (Some(levels), Some(fewer)) => {
                *left = fewer;
                fits(ty, levels, left)
            }
            _ => false,
        }
    };
    match ty {
        DataType::List(field)
        | DataType::ListView(field)
        | DataType::LargeList(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => named("", field.data_type()),
        DataType::Struct(fields) => {
            fields.iter().all(|field| named(field.name(), field.data_type()))
        }
        DataType::Union(fields, _) => {
            fields.iter().all(|(_, field)| named(field.name(), field.data_type()))
        }
        DataType::Dictionary(keys, values) => named("", keys) && named("", values),
        DataType::RunEndEncoded(ends, values) => {
            named("", ends.data_type()) && named("", values.data_type())
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{Field, Fields};

    use super::*;

    fn twice(ty: &DataType) -> DataType {
        let field = |name| Field::new(name, ty.clone(), true);
        DataType::Struct(Fields::from(vec![field("x"), field("y")]))
    }

    fn list_of(ty: &DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", ty.clone(), true)))
    }

    fn repeated(times: usize, make: fn(&DataType) -> DataType) -> DataType {
        (0..times).fold(DataType::Int64, |ty, _| make(&ty))
    }

    // A statement of 1 KB took gigabytes while it was planned: each of twenty subqueries made a
    // struct of the struct below it, twice. The count ends at the limit, also for forty.
    #[test]
    fn types_that_double_are_refused_early() {
        check_type("struct", &repeated(9, twice)).unwrap();
        for times in [10, 40] {
            let error = check_type("struct", &repeated(times, twice)).unwrap_err();
            let message = error.to_string();
            assert!(message.contains("more than 1664 fields"), "type_size-1: {message}");
        }
    }

    // A name of 4 MB was copied with each of 1,664 fields.
    #[test]
    fn long_names_count_as_fields() {
        let named = |bytes: usize| {
            let field = Field::new("x".repeat(bytes), DataType::Int64, true);
            check_type("struct", &DataType::Struct(Fields::from(vec![field])))
        };
        named(100_000).unwrap();
        let error = named(110_000).unwrap_err();
        assert!(error.to_string().contains("more than 1664 fields"), "type_size-1: {error}");
    }

    #[test]
    fn deep_types_are_refused() {
        check_type("make_array", &repeated(100, list_of)).unwrap();
        let error = check_type("make_array", &repeated(101, list_of)).unwrap_err();
        assert!(error.to_string().contains("100 levels"), "type_size-1: {error}");
    }

    #[test]
    fn the_fields_of_all_columns_are_counted() {
        let columns = |count: usize| {
            let field = |at| Field::new(format!("c{at}"), repeated(9, twice), true);
            let fields = (0..count).map(field).collect::<Vec<_>>();
            DFSchema::from_unqualified_fields(Fields::from(fields), HashMap::new()).unwrap()
        };
        // A type of nine levels has 2 + 4 + .. + 512 = 1,022 fields.
        check_columns(&columns(64)).unwrap();
        let error = check_columns(&columns(65)).unwrap_err();
        assert!(error.to_string().contains("65536 fields"), "type_size-2: {error}");
    }
}
