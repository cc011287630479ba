//! The types of casts in queries: the same names as in CREATE TABLE.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType, ExactNumberInfo, TimezoneInfo};
use tidegate_model::{Column, ColumnId};
use tidegate_storage::segment::arrow_field;

use crate::error::Error;
use crate::names::PG_TYPE_KEY;
use crate::parse::column_type;
use crate::types::casts::LENGTH_KEY;
use crate::types::decimals::{ANY_DIGITS, ANY_DIGITS_KEY};
use crate::types::list_types::element_type;

/// Plans our types; DataFusion knows the others (intervals, lists, ...).
#[derive(Debug)]
pub(crate) struct ColumnTypePlanner;

impl TypePlanner for ColumnTypePlanner {
    fn plan_type_field(&self, sql_type: &DataType) -> Result<Option<FieldRef>> {
        let of_column = |ty| {
            let column = Column { id: ColumnId(0), name: String::new(), ty };
            Arc::new(arrow_field(&column))
        };
        match sql_type {
            DataType::Timestamp(Some(digits), _) if !matches!(digits, 6 | 9) => {
                let feature = "TIMESTAMP with other than 6 or 9 digits";
                Err(Error::NotSupported { position: None, feature }.into())
            }
            DataType::Decimal(ExactNumberInfo::None)
            | DataType::Numeric(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None) => {
                let key = HashMap::from([(ANY_DIGITS_KEY.to_owned(), String::new())]);
                Ok(Some(Arc::new(of_column(ANY_DIGITS).as_ref().clone().with_metadata(key))))
            }
            _ => {
                let name = sql_type.to_string();
                if name == "oid" {
                    let named = HashMap::from([(PG_TYPE_KEY.to_owned(), name)]);
                    let field = Field::new("", ArrowType::UInt32, true).with_metadata(named);
                    return Ok(Some(Arc::new(field)));
                }
                let Some(ty) = column_type(&name) else { return Ok(None) };
                let field: FieldRef = of_column(ty);
                let Some(length) = varchar_length(&name) else { return Ok(Some(field)) };
                let length = HashMap::from([(LENGTH_KEY.to_owned(), length.to_owned())]);
                Ok(Some(Arc::new(field.as_ref().clone().with_metadata(length))))
            }
        }
    }
}

/// Returns the length in `VARCHAR(20)`, under any of its names. CHAR has none to be checked.
fn varchar_length(name: &str) -> Option<&str> {
    let (name, length) = name.strip_suffix(')')?.split_once('(')?;
    let checked = ["VARCHAR", "CHARACTER VARYING", "CHAR VARYING"];
    checked.iter().any(|it| name.trim().eq_ignore_ascii_case(it)).then(|| length.trim())
}

/// Returns the field of the type that a cast of a parameter names, if columns can have it. A
/// parameter may be a time with a zone: clients then send instants.
pub(super) fn field_of(ty: &DataType) -> Option<FieldRef> {
    if let Some(element) = element_type(ty) {
        return field_of(element).map(|element| list_field(&element));
    }
    let field = ColumnTypePlanner.plan_type_field(ty).ok().flatten()?;
    Some(match ty {
        DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            let named = HashMap::from([(PG_TYPE_KEY.to_owned(), "timestamptz".to_owned())]);
            Arc::new(field.as_ref().clone().with_metadata(named))
        }
        _ => field,
    })
}

/// Returns the field of lists of an element.
pub(super) fn list_field(element: &FieldRef) -> FieldRef {
    let element = Arc::new(element.as_ref().clone().with_name("item"));
    Arc::new(Field::new("", ArrowType::List(element), true))
}
