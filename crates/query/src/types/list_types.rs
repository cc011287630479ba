//! The element types of list types in SQL: `INT[]`, `ARRAY<INT>`.

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType};

/// The element type of a list type.
pub(crate) fn element_type(ty: &DataType) -> Option<&DataType> {
    match ty {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _))
        | DataType::Array(ArrayElemTypeDef::AngleBracket(element)) => Some(element),
        _ => None,
    }
}
