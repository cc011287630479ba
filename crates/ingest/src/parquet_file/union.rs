//! The columns of a new table from all Parquet files of an import, united by name.
//!
//! - union-1. A column has the narrowest type that holds the values of all files exactly; if there
//!   is none, the import fails and names two files. The metadata has the types, so nothing is
//!   sampled.
//! - A file in which a column has only NULL does not affect its type.

use arrow::datatypes::{DataType, Field};
use parquet::basic::Type as PhysicalType;
use tidegate_model::schema::same_name;
use tidegate_model::{ColumnType, TimeUnit};

use crate::error::{Error, Result};
use crate::options::ImportOptions;
use crate::sniff;
use crate::target_schema::given_unit;

use super::columns::{column_type, plain_type};
use super::loaded::Loaded;

/// A column, and the file that gave it its type.
struct United<'a> {
    name: String,
    ty: ColumnType,
    file: &'a Loaded,
    is_null: bool,
}

/// The columns of a table that the import creates: those of the first file, then those that only
/// later files have.
pub(super) fn inferred_columns(
    files: &[Loaded],
    options: &ImportOptions,
) -> Result<Vec<(String, ColumnType)>> {
    let mut united: Vec<United<'_>> = Vec::new();
    for file in files {
        for (at, field) in file.fields().filter(|(_, field)| !is_skipped(file, field, options)) {
            let ty = inferred(file, at, field, options)?;
            let is_null = *plain_type(field.data_type()) == DataType::Null;
            let name = field.name();
            let Some(known) = united.iter_mut().find(|known| same_name(&known.name, name)) else {
                united.push(United { name: name.clone(), ty, file, is_null });
                continue;
            };
            match (known.is_null, is_null) {
                (_, true) => {}
                (true, false) => *known = United { name: known.name.clone(), ty, file, is_null },
                (false, false) => {
                    let both = both(known.ty, ty).ok_or_else(|| Error::ParquetTypesDiffer {
                        path: file.path.clone(),
                        column: name.clone(),
                        ty,
                        first: known.file.path.clone(),
                        first_ty: known.ty,
                    })?;
                    if both != known.ty {
                        (known.ty, known.file) = (both, file);
                    }
                }
            }
        }
    }
    Ok(united.into_iter().map(|column| (column.name, column.ty)).collect())
}

fn is_skipped(file: &Loaded, field: &Field, options: &ImportOptions) -> bool {
    let names = || file.fields().map(|(_, field)| field.name().as_str());
    sniff::is_skipped(field.name(), &options.skip_columns, names)
}

/// The type of column for the values of a field.
fn inferred(
    file: &Loaded,
    at: usize,
    field: &Field,
    options: &ImportOptions,
) -> Result<ColumnType> {
    let is_time = |name: &String| same_name(name, field.name());
    let own = field.data_type();
    let is_text = plain_type(own).is_string();
    if is_text && options.timestamp.as_ref().is_some_and(is_time) {
        return Ok(ColumnType::Timestamp(given_unit(options)));
    }
    let physical = file.physical(at);
    let ty = match physical {
        // The range of INT96 is that of all calendars, and its nanoseconds are mostly zero, unless
        // the writer's own types have nanoseconds.
        Some(PhysicalType::INT96) if !file.has_arrow_schema() => {
            Some(ColumnType::Timestamp(TimeUnit::Micros))
        }
        Some(_) => column_type(own),
        None => None,
    };
    ty.ok_or_else(|| Error::ParquetType {
        path: file.path.clone(),
        column: field.name().clone(),
        ty: own.to_string(),
    })
}

/// The narrowest type that holds all values of two types exactly (union-1).
fn both(a: ColumnType, b: ColumnType) -> Option<ColumnType> {
    if a == b {
        return Some(a);
    }
    one_way(a, b).or_else(|| one_way(b, a))
}

/// Does the work of `both` for the types in one order.
fn one_way(a: ColumnType, b: ColumnType) -> Option<ColumnType> {
    use ColumnType as C;
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return Some(both_integers(a, b));
    }
    Some(match (a, b) {
        (C::Float32, C::Float64) => C::Float64,
        // A double holds 53 bits, a float 24.
        (C::Float32 | C::Float64, own) if integer(own).is_some_and(|own| own.bits <= 32) => {
            C::Float64
        }
        (C::Decimal { precision, scale }, C::Decimal { precision: other, scale: finer }) => {
            decimal((precision - scale).max(other - finer), scale.max(finer))?
        }
        (C::Decimal { precision, scale }, own) => {
            decimal((precision - scale).max(integer(own)?.digits()), scale)?
        }
        (C::Timestamp(_), C::Timestamp(_)) => C::Timestamp(TimeUnit::Nanos),
        (C::Timestamp(unit), C::Date) => C::Timestamp(unit),
        (C::Varchar, C::Symbol) => C::Varchar,
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Integer {
    bits: u8,
    is_signed: bool,
}

impl Integer {
    /// The maximum number of digits of a value.
    fn digits(self) -> u8 {
        match (self.bits, self.is_signed) {
            (8, _) => 3,
            (16, _) => 5,
            (32, _) => 10,
            (_, true) => 19,
            (_, false) => 20,
        }
    }
}

fn integer(ty: ColumnType) -> Option<Integer> {
    let (bits, is_signed) = match ty {
        ColumnType::Int8 => (8, true),
        ColumnType::Int16 => (16, true),
        ColumnType::Int32 => (32, true),
        ColumnType::Int64 => (64, true),
        ColumnType::UInt8 => (8, false),
        ColumnType::UInt16 => (16, false),
        ColumnType::UInt32 => (32, false),
        ColumnType::UInt64 => (64, false),
        _ => return None,
    };
    Some(Integer { bits, is_signed })
}

fn both_integers(a: Integer, b: Integer) -> ColumnType {
    let is_signed = a.is_signed || b.is_signed;
    // An unsigned number needs one more bit, for the sign.
    let bits = |own: Integer| u16::from(own.bits) * if is_signed && !own.is_signed { 2 } else { 1 };
    match (bits(a).max(bits(b)), is_signed) {
        (..=8, true) => ColumnType::Int8,
        (..=16, true) => ColumnType::Int16,
        (..=32, true) => ColumnType::Int32,
        (..=64, true) => ColumnType::Int64,
        (..=8, false) => ColumnType::UInt8,
        (..=16, false) => ColumnType::UInt16,
        (..=32, false) => ColumnType::UInt32,
        (..=64, false) => ColumnType::UInt64,
        _ => ColumnType::Decimal { precision: 20, scale: 0 },
    }
}

fn decimal(whole: u8, scale: u8) -> Option<ColumnType> {
    let precision = whole.checked_add(scale).filter(|&precision| precision <= 38)?;
    Some(ColumnType::Decimal { precision, scale })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_types_have_the_narrowest_that_holds_both() {
        use ColumnType as C;
        let decimal = |precision, scale| C::Decimal { precision, scale };
        let (micros, nanos) = (C::Timestamp(TimeUnit::Micros), C::Timestamp(TimeUnit::Nanos));
        for (a, b, expected) in [
            (C::Int32, C::Int64, Some(C::Int64)),
            (C::UInt8, C::Int8, Some(C::Int16)),
            (C::UInt32, C::Int8, Some(C::Int64)),
            (C::UInt64, C::Int64, Some(decimal(20, 0))),
            (C::UInt8, C::UInt32, Some(C::UInt32)),
            (C::Float32, C::Float64, Some(C::Float64)),
            (C::Float32, C::Int32, Some(C::Float64)),
            (C::Float64, C::Int64, None),
            (decimal(5, 1), decimal(5, 2), Some(decimal(6, 2))),
            (decimal(5, 1), C::Int64, Some(decimal(20, 1))),
            (decimal(38, 0), decimal(38, 2), None),
            (micros, nanos, Some(nanos)),
            (C::Date, micros, Some(micros)),
            (C::Symbol, C::Varchar, Some(C::Varchar)),
            (C::Varchar, C::Int64, None),
            (C::Boolean, C::Boolean, Some(C::Boolean)),
            (C::Uuid, C::Binary, None),
        ] {
            assert_eq!(both(a, b), expected, "union-1: {a:?} {b:?}");
            assert_eq!(both(b, a), expected, "union-1: {b:?} {a:?}");
        }
    }
}
