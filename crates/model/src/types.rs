//! The types a column can have, their SQL names and their shape in memory.

use crate::time::TimeUnit;

/// The type of a column. Every type is nullable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// BOOLEAN: true or false.
    Boolean,
    /// TINYINT.
    Int8,
    /// SMALLINT.
    Int16,
    /// INT.
    Int32,
    /// BIGINT.
    Int64,
    /// UTINYINT.
    UInt8,
    /// USMALLINT.
    UInt16,
    /// UINT.
    UInt32,
    /// UBIGINT.
    UInt64,
    /// FLOAT.
    Float32,
    /// DOUBLE.
    Float64,
    /// DECIMAL(p, s): `n / 10^scale` with at most `precision` digits, 1 to 38.
    Decimal {
        /// Number of digits.
        precision: u8,
        /// Number of digits after the point; at most `precision`.
        scale: u8,
    },
    /// TIMESTAMP and TIMESTAMP_NS.
    Timestamp(TimeUnit),
    /// A day, as days since 1970-01-01.
    Date,
    /// A string that is kept once, in the table's dictionary.
    Symbol,
    /// UTF-8 text.
    Varchar,
    /// Bytes.
    Binary,
    /// Sixteen bytes, in the order of their text.
    Uuid,
    /// An IPv4 address as a number, first octet most significant.
    Ipv4,
}

/// The representation of a type's values in memory and on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Physical {
    /// A bit.
    Bit,
    /// A signed integer of this many bytes.
    Signed(u8),
    /// An unsigned integer of this many bytes.
    Unsigned(u8),
    /// A signed integer of sixteen bytes.
    Wide,
    /// A float of four bytes.
    Float32,
    /// A float of eight bytes.
    Float64,
    /// A string of bytes of any length.
    Bytes,
    /// Sixteen bytes that sort bytewise.
    Fixed16,
}

impl ColumnType {
    /// Every type, with DECIMAL in its default shape. Conformance tests iterate over this list.
    pub const ALL: [ColumnType; 20] = [
        ColumnType::Boolean,
        ColumnType::Int8,
        ColumnType::Int16,
        ColumnType::Int32,
        ColumnType::Int64,
        ColumnType::UInt8,
        ColumnType::UInt16,
        ColumnType::UInt32,
        ColumnType::UInt64,
        ColumnType::Float32,
        ColumnType::Float64,
        ColumnType::Decimal { precision: 18, scale: 3 },
        ColumnType::Timestamp(TimeUnit::Micros),
        ColumnType::Timestamp(TimeUnit::Nanos),
        ColumnType::Date,
        ColumnType::Symbol,
        ColumnType::Varchar,
        ColumnType::Binary,
        ColumnType::Uuid,
        ColumnType::Ipv4,
    ];

    /// The representation of the values.
    #[must_use]
    pub fn physical(self) -> Physical {
        match self {
            ColumnType::Boolean => Physical::Bit,
            ColumnType::Int8 => Physical::Signed(1),
            ColumnType::Int16 => Physical::Signed(2),
            ColumnType::Int32 | ColumnType::Date => Physical::Signed(4),
            ColumnType::Int64 | ColumnType::Timestamp(_) => Physical::Signed(8),
            ColumnType::UInt8 => Physical::Unsigned(1),
            ColumnType::UInt16 => Physical::Unsigned(2),
            ColumnType::UInt32 | ColumnType::Ipv4 => Physical::Unsigned(4),
            ColumnType::UInt64 => Physical::Unsigned(8),
            ColumnType::Float32 => Physical::Float32,
            ColumnType::Float64 => Physical::Float64,
            ColumnType::Decimal { .. } => Physical::Wide,
            ColumnType::Symbol | ColumnType::Varchar | ColumnType::Binary => Physical::Bytes,
            ColumnType::Uuid => Physical::Fixed16,
        }
    }

    /// The SQL name, with the shape of a DECIMAL.
    #[must_use]
    pub fn sql(self) -> String {
        let name = match self {
            ColumnType::Boolean => "BOOLEAN",
            ColumnType::Int8 => "TINYINT",
            ColumnType::Int16 => "SMALLINT",
            ColumnType::Int32 => "INT",
            ColumnType::Int64 => "BIGINT",
            ColumnType::UInt8 => "UTINYINT",
            ColumnType::UInt16 => "USMALLINT",
            ColumnType::UInt32 => "UINT",
            ColumnType::UInt64 => "UBIGINT",
            ColumnType::Float32 => "FLOAT",
            ColumnType::Float64 => "DOUBLE",
            ColumnType::Decimal { precision, scale } => {
                return format!("DECIMAL({precision},{scale})");
            }
            ColumnType::Timestamp(TimeUnit::Micros) => "TIMESTAMP",
            ColumnType::Timestamp(TimeUnit::Nanos) => "TIMESTAMP_NS",
            ColumnType::Date => "DATE",
            ColumnType::Symbol => "SYMBOL",
            ColumnType::Varchar => "VARCHAR",
            ColumnType::Binary => "BINARY",
            ColumnType::Uuid => "UUID",
            ColumnType::Ipv4 => "IPV4",
        };
        name.to_owned()
    }

    /// Returns true for the integer types, signed or unsigned.
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(
            self,
            ColumnType::Int8
                | ColumnType::Int16
                | ColumnType::Int32
                | ColumnType::Int64
                | ColumnType::UInt8
                | ColumnType::UInt16
                | ColumnType::UInt32
                | ColumnType::UInt64
        )
    }

    /// The unit, if the type can be the designated timestamp.
    #[must_use]
    pub fn time_unit(self) -> Option<TimeUnit> {
        match self {
            ColumnType::Timestamp(unit) => Some(unit),
            _ => None,
        }
    }

    /// The tag and the two parameters that represent the type on disk: docs/format.md, Types.
    #[must_use]
    pub fn to_tag(self) -> [u8; 3] {
        match self {
            ColumnType::Boolean => [1, 0, 0],
            ColumnType::Int8 => [2, 0, 0],
            ColumnType::Int16 => [3, 0, 0],
            ColumnType::Int32 => [4, 0, 0],
            ColumnType::Int64 => [5, 0, 0],
            ColumnType::UInt8 => [6, 0, 0],
            ColumnType::UInt16 => [7, 0, 0],
            ColumnType::UInt32 => [8, 0, 0],
            ColumnType::UInt64 => [9, 0, 0],
            ColumnType::Float32 => [10, 0, 0],
            ColumnType::Float64 => [11, 0, 0],
            ColumnType::Decimal { precision, scale } => [12, precision, scale],
            ColumnType::Timestamp(TimeUnit::Micros) => [13, 0, 0],
            ColumnType::Timestamp(TimeUnit::Nanos) => [14, 0, 0],
            ColumnType::Date => [15, 0, 0],
            ColumnType::Symbol => [16, 0, 0],
            ColumnType::Varchar => [17, 0, 0],
            ColumnType::Binary => [18, 0, 0],
            ColumnType::Uuid => [19, 0, 0],
            ColumnType::Ipv4 => [20, 0, 0],
        }
    }

    /// The type of a tag; `None` for bytes that `to_tag` never returns.
    #[must_use]
    pub fn from_tag(tag: [u8; 3]) -> Option<ColumnType> {
        if let [12, precision, scale] = tag {
            let valid = (1..=38).contains(&precision) && scale <= precision;
            return valid.then_some(ColumnType::Decimal { precision, scale });
        }
        Self::ALL.into_iter().find(|ty| ty.to_tag() == tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_lead_back_to_their_types_and_foreign_tags_to_none() {
        for ty in ColumnType::ALL {
            assert_eq!(ColumnType::from_tag(ty.to_tag()), Some(ty));
        }
        for tag in [[0, 0, 0], [12, 0, 0], [12, 39, 0], [12, 4, 5], [5, 1, 0], [21, 0, 0]] {
            assert_eq!(ColumnType::from_tag(tag), None, "{tag:?}");
        }
    }
}
