//! The pg_catalog emulation: relations of `pg_catalog` and `information_schema`, their functions,
//! and rewrites of SQL that only queries on them use, as far as PostgreSQL's clients need them.
//!
//! - Rows show the state at the moment of the query: tables, columns, settings, connections. A
//!   relation for a feature that Tidegate does not have is empty.
//! - A name without a schema is that of a catalog relation, even if a table has it, as in
//!   PostgreSQL: one who may create tables cannot change what clients read of the catalog. Such a
//!   table is `public.pg_class`.
//! - Plans of queries on the catalog are not cached: they would be out of date.
//!
//! Tables are in the schema `public`, and the system's own in `sys`. Not here: the bytes on the
//! wire (`server::pg`).

mod relations;
mod types;
mod rows;
pub(crate) mod objects;
mod functions;
pub(crate) mod tree;
mod lists;
mod rewrite;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, RecordBatchOptions, StringViewArray, UInt32Array, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::{DataFusionError, TableReference};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::TableSource;

use crate::context::StatementContext;
use crate::error::Result;
use crate::names::PG_TYPE_KEY;
use relations::Relation;
use rows::{Cell, Row};

pub(crate) use functions::{catalog_function, catalog_functions};
pub use lists::parse_list;
pub(crate) use rewrite::{names_catalog, rewrite};

/// The catalog relation that a query names, if it is one.
fn named(reference: &TableReference) -> Option<&'static Relation> {
    relations::find(reference.schema(), reference.table())
}

/// Returns true if a name without a schema is that of a catalog relation.
pub(crate) fn hides_tables(reference: &TableReference) -> bool {
    reference.schema().is_none() && named(reference).is_some()
}

/// The rows of a relation as a table; `None` if there is no such relation.
pub(crate) fn source(
    caller: &StatementContext,
    reference: &TableReference,
) -> Result<Option<Arc<dyn TableSource>>> {
    let Some(relation) = named(reference) else { return Ok(None) };
    let rows = objects::rows(caller, relation.name, relation.schema)?;
    let batch = batch(relation, &rows)?;
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
    Ok(Some(provider_as_source(Arc::new(table))))
}

/// The names of a relation's columns; `None` if there is no such relation.
pub(crate) fn columns(reference: &TableReference) -> Option<Vec<String>> {
    let columns = named(reference)?.columns.split(',');
    let name = |column: &str| column.trim().split_once(' ').map(|(name, _)| name.to_owned());
    columns.map(name).collect()
}

fn batch(relation: &Relation, rows: &[Row]) -> Result<RecordBatch> {
    let columns = relation.columns.split(',').map(|column| {
        let (name, ty) = column.trim().split_once(' ').expect("a name and a type");
        let array = column_of(name, ty, rows);
        let named = ty.trim_end_matches('?').to_owned();
        let metadata = HashMap::from([(PG_TYPE_KEY.to_owned(), named)]);
        let field = Field::new(name, array.data_type().clone(), true).with_metadata(metadata);
        (field, array)
    });
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options);
    Ok(batch.map_err(DataFusionError::from)?)
}

/// The Arrow type for values of a PostgreSQL type.
fn arrow_type(ty: &str) -> DataType {
    match ty.trim_end_matches('?') {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" | "numeric" => DataType::Float64,
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "oid" | "xid" | "regproc" => DataType::UInt32,
        "int2[]" | "int2vector" => list(DataType::Int16),
        "oid[]" | "oidvector" => list(DataType::UInt32),
        "text[]" | "char[]" | "aclitem[]" => list(DataType::Utf8View),
        _ => DataType::Utf8View,
    }
}

fn list(ty: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(ty, true)))
}

fn column_of(name: &str, ty: &str, rows: &[Row]) -> ArrayRef {
    let is_nullable = ty.ends_with('?');
    let cells = rows.iter().map(|row| row.find(name));
    let numbers = || {
        cells.clone().map(|cell| match cell {
            Some(Cell::Number(number)) => Some(*number),
            Some(Cell::Null) => None,
            _ => (!is_nullable).then_some(0),
        })
    };
    // The casts below do not lose values: these are numbers of our own.
    match arrow_type(ty) {
        // No row has a value of these types.
        ty @ (DataType::List(_) | DataType::Timestamp(..)) => new_null_array(&ty, rows.len()),
        DataType::Boolean => {
            let flag = |cell: Option<&Cell>| Some(matches!(cell, Some(Cell::Flag(true))));
            Arc::new(cells.map(flag).collect::<BooleanArray>())
        }
        DataType::Int16 => {
            let cast = |it: Option<i64>| it.and_then(|it| i16::try_from(it).ok());
            Arc::new(numbers().map(cast).collect::<Int16Array>())
        }
        DataType::Int32 => {
            let cast = |it: Option<i64>| it.and_then(|it| i32::try_from(it).ok());
            Arc::new(numbers().map(cast).collect::<Int32Array>())
        }
        DataType::Int64 => Arc::new(numbers().collect::<Int64Array>()),
        DataType::UInt32 => {
            let cast = |it: Option<i64>| it.and_then(|it| u32::try_from(it).ok());
            Arc::new(numbers().map(cast).collect::<UInt32Array>())
        }
        DataType::Float32 => {
            let cast = |it: Option<i64>| it.and_then(|it| i16::try_from(it).ok()).map(f32::from);
            Arc::new(numbers().map(cast).collect::<Float32Array>())
        }
        DataType::Float64 => {
            let cast = |it: Option<i64>| it.and_then(|it| i32::try_from(it).ok()).map(f64::from);
            Arc::new(numbers().map(cast).collect::<Float64Array>())
        }
        _ => {
            let text = |cell: Option<&Cell>| match cell {
                Some(Cell::Text(text)) => Some(text.clone()),
                Some(Cell::Null) => None,
                _ => (!is_nullable).then(String::new),
            };
            Arc::new(cells.map(text).collect::<StringViewArray>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_relation_has_columns_of_known_types() {
        for relation in relations::all() {
            let empty = batch(relation, &[]).unwrap();
            assert!(0 < empty.num_columns(), "{}", relation.name);
            let row = Row::new();
            let one = batch(relation, &[row]).unwrap();
            assert_eq!(one.num_rows(), 1, "{}", relation.name);
        }
        let found = |name: &str| named(&TableReference::parse_str(name)).is_some();
        assert!(found("pg_class") && found("pg_catalog.pg_class"));
        assert!(found("information_schema.tables"));
        assert!(found("pg_ts_config") && found("information_schema.triggers"));
        assert!(!found("tables") && !found("public.pg_class") && !found("x"));
    }
}
