//! PostgreSQL's types of columns.
//!
//! - types-1. Every Arrow type has one: a type without a counterpart is a text. A list of lists has
//!   the type of a list of their elements, as PostgreSQL's arrays have any number of dimensions.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::value_text::tidegate_type;

/// A type of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgType {
    pub(super) oid: u32,
    /// The bytes of a value; -1 if they vary.
    pub(super) size: i16,
    /// The oid of arrays of it; 0 if there are none.
    pub(super) array: u32,
}

const fn pg(oid: u32, size: i16, array: u32) -> PgType {
    PgType { oid, size, array }
}

pub(super) const BOOL: PgType = pg(16, 1, 1000);
pub(super) const BYTEA: PgType = pg(17, -1, 1001);
pub(super) const CHAR: PgType = pg(18, 1, 1002);
pub(super) const NAME: PgType = pg(19, 64, 1003);
pub(super) const INT8: PgType = pg(20, 8, 1016);
pub(super) const INT2: PgType = pg(21, 2, 1005);
pub(super) const INT4: PgType = pg(23, 4, 1007);
pub(super) const TEXT: PgType = pg(25, -1, 1009);
pub(super) const OID: PgType = pg(26, 4, 1028);
pub(super) const JSON: PgType = pg(114, -1, 199);
pub(super) const FLOAT4: PgType = pg(700, 4, 1021);
pub(super) const FLOAT8: PgType = pg(701, 8, 1022);
pub(super) const UNKNOWN: PgType = pg(705, -2, 0);
pub(super) const INET: PgType = pg(869, -1, 1041);
pub(super) const BPCHAR: PgType = pg(1042, -1, 1014);
pub(super) const VARCHAR: PgType = pg(1043, -1, 1015);
pub(super) const DATE: PgType = pg(1082, 4, 1182);
pub(super) const TIME: PgType = pg(1083, 8, 1183);
pub(super) const TIMESTAMP: PgType = pg(1114, 8, 1115);
pub(super) const TIMESTAMPTZ: PgType = pg(1184, 8, 1185);
pub(super) const INTERVAL: PgType = pg(1186, 16, 1187);
pub(super) const NUMERIC: PgType = pg(1700, -1, 1231);
pub(super) const UUID: PgType = pg(2950, 16, 2951);

/// The types whose arrays a client may send.
const ELEMENTS: [PgType; 20] = [
    BOOL,
    BYTEA,
    CHAR,
    NAME,
    INT8,
    INT2,
    INT4,
    TEXT,
    OID,
    JSON,
    FLOAT4,
    FLOAT8,
    INET,
    BPCHAR,
    VARCHAR,
    DATE,
    TIMESTAMP,
    TIMESTAMPTZ,
    NUMERIC,
    UUID,
];

/// The most levels of nested lists: the dimensions of PostgreSQL's arrays.
pub(super) const DIMENSIONS_MAX: usize = 6;

/// Returns the element type of an array type; `None` for other types.
pub(super) fn element_of(oid: u32) -> Option<PgType> {
    ELEMENTS.into_iter().find(|ty| ty.array == oid)
}

/// The key of metadata with the type of a column of PostgreSQL's catalog.
pub(super) const PG_TYPE_KEY: &str = "tidegate.pg";

/// The key of metadata with the table and the column number of a column of an answer.
const PG_COLUMN_KEY: &str = "tidegate.column";

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) ty: PgType,
    pub(super) modifier: i32,
    /// The oid of its table, and its number there; 0 if it is of none.
    pub(super) table: u32,
    pub(super) number: i16,
}

/// Returns true if a client that expects the first columns can read the others.
pub(super) fn are_same(expected: &[Column], actual: &[Column]) -> bool {
    // All text types have one format.
    let kind = |column: &Column| match column.ty {
        VARCHAR => TEXT.oid,
        ty => ty.oid,
    };
    // An expression without a name is called after its text, in which the values of parameters
    // stand, so names tell nothing.
    let is_same = |(expected, actual): (&Column, &Column)| kind(expected) == kind(actual);
    expected.len() == actual.len() && expected.iter().zip(actual).all(is_same)
}

/// Returns the type that PREPARE names.
pub(super) fn named(name: &str) -> Option<PgType> {
    Some(match name {
        "bool" | "boolean" => BOOL,
        "tinyint" | "smallint" | "int2" => INT2,
        "int" | "integer" | "int4" => INT4,
        "bigint" | "int8" | "long" => INT8,
        "real" | "float4" => FLOAT4,
        "double" | "double precision" | "float8" | "float" => FLOAT8,
        "numeric" | "decimal" => NUMERIC,
        "text" | "symbol" | "string" => TEXT,
        "varchar" | "character varying" => VARCHAR,
        "bytea" | "binary" => BYTEA,
        "uuid" => UUID,
        "date" => DATE,
        "timestamp" | "timestamp without time zone" => TIMESTAMP,
        "timestamptz" | "timestamp with time zone" => TIMESTAMPTZ,
        "unknown" => UNKNOWN,
        _ => return None,
    })
}

/// Returns the columns of an answer.
pub(super) fn columns(schema: &Schema) -> Vec<Column> {
    let column = |field: &std::sync::Arc<Field>| {
        let (ty, modifier) = type_of(field);
        let (table, number) = place_of(field).unwrap_or((0, 0));
        Column { name: field.name().clone(), ty, modifier, table, number }
    };
    schema.fields().iter().map(column).collect()
}

/// Returns the table of a plain column and its number there.
fn place_of(field: &Field) -> Option<(u32, i16)> {
    let (table, number) = field.metadata().get(PG_COLUMN_KEY)?.split_once('.')?;
    Some((table.parse().ok()?, number.parse().ok()?))
}

/// Returns the type of a column, and its modifier (types-1).
pub(super) fn type_of(field: &Field) -> (PgType, i32) {
    if let Some(named) = field.metadata().get(PG_TYPE_KEY)
        && let Some(ty) = catalog_type(named)
    {
        return (ty, -1);
    }
    let named = tidegate_type(field);
    match (named, field.data_type()) {
        (Some("ipv4"), DataType::UInt32) => (VARCHAR, -1),
        (Some("uuid"), DataType::FixedSizeBinary(16)) => (UUID, -1),
        (_, ty) => of_arrow(ty),
    }
}

/// Returns the type of the elements of a list, and its modifier.
pub(super) fn element_type(field: &Field) -> (PgType, i32) {
    match type_of(field) {
        // A text in a list is TEXT, as in other databases.
        (VARCHAR, modifier) => (TEXT, modifier),
        _ if field.name() == "oid" => (OID, -1),
        known => known,
    }
}

fn catalog_type(name: &str) -> Option<PgType> {
    Some(match name {
        "oid" => OID,
        "name" => NAME,
        "char" => CHAR,
        "text" => TEXT,
        "int2vector" => pg(22, -1, 1006),
        "oidvector" => pg(30, -1, 1013),
        "regproc" => pg(24, 4, 1008),
        "regtype" => pg(2206, 4, 2211),
        "regclass" => pg(2205, 4, 2210),
        "xid" => pg(28, 4, 1011),
        "aclitem[]" => pg(1034, -1, 0),
        "text[]" => pg(1009, -1, 0),
        "char[]" => pg(1002, -1, 0),
        "oid[]" => pg(1028, -1, 0),
        "int2[]" => pg(1005, -1, 0),
        "pg_node_tree" => pg(194, -1, 0),
        "timestamptz" => TIMESTAMPTZ,
        _ => return None,
    })
}

fn of_arrow(ty: &DataType) -> (PgType, i32) {
    let known = match ty {
        DataType::Null => TEXT,
        DataType::Boolean => BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => INT2,
        DataType::Int32 | DataType::UInt16 => INT4,
        DataType::Int64 | DataType::UInt32 => INT8,
        DataType::UInt64 => return (NUMERIC, modifier(20, 0)),
        DataType::Float16 | DataType::Float32 => FLOAT4,
        DataType::Float64 => FLOAT8,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => return (NUMERIC, modifier(*precision, *scale)),
        DataType::Timestamp(_, None) => TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => TIMESTAMPTZ,
        DataType::Date32 | DataType::Date64 => DATE,
        DataType::Time32(_) | DataType::Time64(_) => TIME,
        DataType::Interval(_) | DataType::Duration(_) => INTERVAL,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => VARCHAR,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => BYTEA,
        DataType::Dictionary(_, values) => return of_arrow(values),
        DataType::RunEndEncoded(_, values) => return type_of(values),
        DataType::List(values) | DataType::LargeList(values) => {
            let mut values = values;
            while let DataType::List(inner) | DataType::LargeList(inner) = values.data_type() {
                values = inner;
            }
            let (value, modifier) = element_type(values);
            return match value.array {
                0 => (TEXT, -1),
                array => (pg(array, -1, 0), modifier),
            };
        }
        _ => TEXT,
    };
    (known, -1)
}

/// Estimates the bytes of a description of columns.
pub(super) fn bytes_of(schema: &SchemaRef) -> usize {
    let of = |field: &std::sync::Arc<Field>| {
        let metadata = field.metadata().iter().map(|(key, value)| key.len() + value.len());
        2 * size_of::<Field>() + field.name().len() + metadata.sum::<usize>()
    };
    size_of::<Schema>() + schema.fields().iter().map(of).sum::<usize>()
}

/// Returns the first column with too many levels of lists, if there is one.
pub(super) fn too_deep(schema: &Schema) -> Option<&str> {
    let levels = |field: &Field| {
        let (mut ty, mut levels) = (field.data_type(), 0);
        while let DataType::List(inner) | DataType::LargeList(inner) = ty {
            (ty, levels) = (inner.data_type(), levels + 1);
        }
        levels
    };
    let mut fields = schema.fields().iter();
    let found = fields.find(|field| DIMENSIONS_MAX < levels(field));
    found.map(|field| field.name().as_str())
}

/// Returns PostgreSQL's modifier of a NUMERIC with these digits.
fn modifier(precision: u8, scale: i8) -> i32 {
    ((i32::from(precision) << 16) | (i32::from(scale) & 0xffff)) + 4
}

/// Returns the number of decimals of a second.
pub(super) fn digits(unit: TimeUnit) -> usize {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Returns the number of units in a second.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    (0..digits(unit)).fold(1, |product, _| product * 10)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use tidegate_storage::TYPE_KEY;

    use super::*;

    #[track_caller]
    fn check(ty: DataType, named: &str, expected: (u32, i16, i32)) {
        let metadata = HashMap::from([(TYPE_KEY.to_owned(), named.to_owned())]);
        let (ty, modifier) = type_of(&Field::new("c", ty, true).with_metadata(metadata));
        assert_eq!((ty.oid, ty.size, modifier), expected);
    }

    #[test]
    fn our_types_are_those_of_postgresql() {
        check(DataType::UInt8, "", (21, 2, -1));
        check(DataType::UInt16, "", (23, 4, -1));
        check(DataType::UInt32, "", (20, 8, -1));
        check(DataType::UInt32, "ipv4", (1043, -1, -1));
        check(DataType::UInt64, "", (1700, -1, (20 << 16) + 4));
        check(DataType::Decimal128(10, 3), "", (1700, -1, ((10 << 16) | 3) + 4));
        check(DataType::FixedSizeBinary(16), "uuid", (2950, 16, -1));
        check(DataType::FixedSizeBinary(16), "", (17, -1, -1));
        check(DataType::Utf8View, "symbol", (1043, -1, -1));
        check(DataType::Null, "", (25, -1, -1));
        let list = |ty: DataType| DataType::List(Arc::new(Field::new("item", ty, true)));
        check(list(DataType::Float64), "", (1022, -1, -1));
        check(list(list(DataType::Float64)), "", (1022, -1, -1));
        check(list(list(DataType::Utf8View)), "", (1009, -1, -1));
    }

    #[test]
    fn lists_have_as_many_levels_as_arrays_have_dimensions() {
        let deep = |levels: usize| {
            let list = |ty, _| DataType::List(Arc::new(Field::new("item", ty, true)));
            let ty = (0..levels).fold(DataType::Int32, list);
            Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("b", ty, true)])
        };
        assert_eq!(too_deep(&deep(DIMENSIONS_MAX)), None);
        assert_eq!(too_deep(&deep(DIMENSIONS_MAX + 1)), Some("b"));
        assert_eq!(too_deep(&deep(1_000)), Some("b"));
    }
}
