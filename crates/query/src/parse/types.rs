//! The names of column types in SQL, with their aliases and parameters.

use tidegate_model::{ColumnType, TimeUnit};

use super::cursor::Cursor;
use super::token::TokenKind;
use crate::error::{Error, Result, SyntaxError};

/// A type as it was written, with a notice about a part that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeName {
    pub(crate) ty: ColumnType,
    /// The maximal length of a VARCHAR, in characters.
    pub(crate) length: Option<u32>,
    /// True if the column has numbers of its own: SERIAL.
    pub(crate) is_serial: bool,
    pub(crate) notice: Option<String>,
}

/// Types that are one word without parameters.
const PLAIN: [(&str, ColumnType); 37] = [
    ("BOOLEAN", ColumnType::Boolean),
    ("BOOL", ColumnType::Boolean),
    ("TINYINT", ColumnType::Int8),
    ("BYTE", ColumnType::Int8),
    ("INT1", ColumnType::Int8),
    ("SMALLINT", ColumnType::Int16),
    ("SHORT", ColumnType::Int16),
    ("INT2", ColumnType::Int16),
    ("INT", ColumnType::Int32),
    ("INTEGER", ColumnType::Int32),
    ("INT4", ColumnType::Int32),
    ("BIGINT", ColumnType::Int64),
    ("LONG", ColumnType::Int64),
    ("INT8", ColumnType::Int64),
    ("UTINYINT", ColumnType::UInt8),
    ("USMALLINT", ColumnType::UInt16),
    ("UINT", ColumnType::UInt32),
    ("UBIGINT", ColumnType::UInt64),
    ("FLOAT", ColumnType::Float32),
    ("REAL", ColumnType::Float32),
    ("FLOAT4", ColumnType::Float32),
    ("DOUBLE", ColumnType::Float64),
    ("FLOAT8", ColumnType::Float64),
    ("TIMESTAMP_NS", ColumnType::Timestamp(TimeUnit::Nanos)),
    ("DATE", ColumnType::Date),
    ("SYMBOL", ColumnType::Symbol),
    ("VARCHAR", ColumnType::Varchar),
    ("STRING", ColumnType::Varchar),
    ("TEXT", ColumnType::Varchar),
    ("CHAR", ColumnType::Varchar),
    ("CHARACTER", ColumnType::Varchar),
    ("BPCHAR", ColumnType::Varchar),
    ("BINARY", ColumnType::Binary),
    ("BYTEA", ColumnType::Binary),
    ("BLOB", ColumnType::Binary),
    ("UUID", ColumnType::Uuid),
    ("IPV4", ColumnType::Ipv4),
];

/// Returns the type of a name that stands alone: `DOUBLE PRECISION`, `DECIMAL(10,2)`. `None` if it
/// is no type of ours.
#[must_use]
pub fn column_type(text: &str) -> Option<ColumnType> {
    let mut cursor = Cursor::new(text).ok()?;
    let name = expect_type(&mut cursor).ok()?;
    cursor.is_at_end().then_some(name.ty)
}

/// Reads a type with its parameters, without the options of a column.
pub(crate) fn expect_type(cursor: &mut Cursor<'_>) -> Result<TypeName> {
    let Some(token) = cursor.peek().filter(|token| token.kind == TokenKind::Word).copied() else {
        return Err(cursor.unexpected("a type"));
    };
    let word = token.text.to_ascii_uppercase();
    let named = PLAIN.iter().find(|&&(name, _)| name == word).map(|&(_, ty)| ty);
    let offset = cursor.offset();
    cursor.skip();
    let (mut notice, mut length, mut is_serial) = (None, None, false);
    let plain = match (word.as_str(), named) {
        ("TIMESTAMP" | "TIMESTAMPTZ", _) => {
            let ty = timestamp(cursor)?;
            let has_zone = cursor.take_words(&["WITH", "TIME", "ZONE"]) || word == "TIMESTAMPTZ";
            if has_zone {
                notice = Some(format!("a time WITH TIME ZONE is kept as {}, in UTC", ty.sql()));
            } else {
                cursor.take_words(&["WITHOUT", "TIME", "ZONE"]);
            }
            ty
        }
        ("SMALLSERIAL" | "SERIAL2" | "SERIAL" | "SERIAL4" | "BIGSERIAL" | "SERIAL8", _) => {
            is_serial = true;
            serial(&word)
        }
        ("DECIMAL" | "NUMERIC", _) => {
            if !cursor.peek().is_some_and(|token| token.is_sign('(')) {
                notice = Some(format!("{word} without a precision is kept as DECIMAL(18, 3)"));
            }
            decimal(cursor)?
        }
        ("FLOAT", _) => float(cursor)?,
        (_, Some(ty)) => ty,
        (_, None) => {
            let what = SyntaxError::NoSuchType { name: token.text.to_owned() };
            return Err(Error::syntax(cursor.sql(), offset, what));
        }
    };
    let is_character = matches!(word.as_str(), "CHAR" | "CHARACTER");
    let is_checked = word == "VARCHAR" || is_character && cursor.take_word("VARYING");
    let ty = match plain {
        ColumnType::Float64 if word == "DOUBLE" => {
            cursor.take_word("PRECISION");
            plain
        }
        ColumnType::Int8 | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
            if cursor.take_word("UNSIGNED") =>
        {
            unsigned(plain)
        }
        ColumnType::Varchar if cursor.take_sign('(') => {
            let offset = cursor.offset();
            let characters = cursor.expect_integer("the length of a text")?;
            cursor.expect_sign(')')?;
            let small = u32::try_from(characters).ok().filter(|&characters| characters > 0);
            let Some(small) = small else {
                let bounds = "1 to 4294967295";
                let what = "the length of a text";
                return Err(out_of_bounds(cursor, offset, what, bounds, characters));
            };
            if is_checked {
                length = Some(small);
            } else {
                let told = format!("{word}({small}) is kept as VARCHAR, without length check");
                notice = Some(told);
            }
            plain
        }
        _ => plain,
    };
    Ok(TypeName { ty, length, is_serial, notice })
}

fn serial(word: &str) -> ColumnType {
    match word {
        "SMALLSERIAL" | "SERIAL2" => ColumnType::Int16,
        "SERIAL" | "SERIAL4" => ColumnType::Int32,
        _ => ColumnType::Int64,
    }
}

fn unsigned(ty: ColumnType) -> ColumnType {
    match ty {
        ColumnType::Int8 => ColumnType::UInt8,
        ColumnType::Int16 => ColumnType::UInt16,
        ColumnType::Int32 => ColumnType::UInt32,
        ColumnType::Int64 => ColumnType::UInt64,
        other => other,
    }
}

/// Reads the text behind `TIMESTAMP`: nothing, or the number of digits of the second.
fn timestamp(cursor: &mut Cursor<'_>) -> Result<ColumnType> {
    // In `ts TIMESTAMP, ...) TIMESTAMP(ts)` the bracket after a type can only hold digits.
    if !cursor.take_sign('(') {
        return Ok(ColumnType::Timestamp(TimeUnit::Micros));
    }
    let offset = cursor.offset();
    let digits = cursor.expect_integer("6 or 9")?;
    cursor.expect_sign(')')?;
    match digits {
        6 => Ok(ColumnType::Timestamp(TimeUnit::Micros)),
        9 => Ok(ColumnType::Timestamp(TimeUnit::Nanos)),
        _ => Err(out_of_bounds(cursor, offset, "the precision of TIMESTAMP", "6 or 9", digits)),
    }
}

/// Reads the text behind `FLOAT`: nothing, or the number of bits of the significand.
fn float(cursor: &mut Cursor<'_>) -> Result<ColumnType> {
    if !cursor.take_sign('(') {
        return Ok(ColumnType::Float32);
    }
    let offset = cursor.offset();
    let bits = cursor.expect_integer("a precision of 1 to 53")?;
    cursor.expect_sign(')')?;
    match bits {
        1..=24 => Ok(ColumnType::Float32),
        25..=53 => Ok(ColumnType::Float64),
        _ => Err(out_of_bounds(cursor, offset, "the precision of FLOAT", "1 to 53", bits)),
    }
}

/// Reads the text behind `DECIMAL`: nothing, or precision and scale.
fn decimal(cursor: &mut Cursor<'_>) -> Result<ColumnType> {
    if !cursor.take_sign('(') {
        return Ok(ColumnType::Decimal { precision: 18, scale: 3 });
    }
    let offset = cursor.offset();
    let precision = cursor.expect_integer("a precision of 1 to 38")?;
    let scale_offset = if cursor.take_sign(',') { cursor.offset() } else { offset };
    let scale = if scale_offset == offset { 0 } else { cursor.expect_integer("a scale")? };
    cursor.expect_sign(')')?;
    let small = |value: u64, max: u8| u8::try_from(value).ok().filter(|&value| value <= max);
    let Some(precision) = small(precision, 38).filter(|&precision| precision > 0) else {
        let what = "the precision of DECIMAL";
        return Err(out_of_bounds(cursor, offset, what, "1 to 38", precision));
    };
    match small(scale, precision) {
        Some(scale) => Ok(ColumnType::Decimal { precision, scale }),
        None => {
            let what = "the scale of DECIMAL";
            Err(out_of_bounds(cursor, scale_offset, what, "at most its precision", scale))
        }
    }
}

fn out_of_bounds(
    cursor: &Cursor<'_>,
    offset: usize,
    what: &'static str,
    bounds: &'static str,
    found: u64,
) -> Error {
    let problem = SyntaxError::OutOfBounds { what, bounds, found: found.to_string() };
    Error::syntax(cursor.sql(), offset, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_under_its_own_name() {
        for ty in ColumnType::ALL {
            assert_eq!(column_type(&ty.sql()), Some(ty), "{}", ty.sql());
            assert_eq!(column_type(&ty.sql().to_lowercase()), Some(ty), "{}", ty.sql());
        }
    }

    #[test]
    fn aliases_and_parameters_are_understood() {
        for (text, expected) in [
            ("DOUBLE PRECISION", Some(ColumnType::Float64)),
            ("tinyint unsigned", Some(ColumnType::UInt8)),
            ("INTEGER UNSIGNED", Some(ColumnType::UInt32)),
            ("varchar(255)", Some(ColumnType::Varchar)),
            ("TIMESTAMP(9)", Some(ColumnType::Timestamp(TimeUnit::Nanos))),
            ("NUMERIC(5)", Some(ColumnType::Decimal { precision: 5, scale: 0 })),
            ("decimal(38, 38)", Some(ColumnType::Decimal { precision: 38, scale: 38 })),
            ("timestamp without time zone", Some(ColumnType::Timestamp(TimeUnit::Micros))),
            ("TIMESTAMP(9) WITH TIME ZONE", Some(ColumnType::Timestamp(TimeUnit::Nanos))),
            ("TIMESTAMPTZ", Some(ColumnType::Timestamp(TimeUnit::Micros))),
            ("FLOAT(24)", Some(ColumnType::Float32)),
            ("FLOAT(25)", Some(ColumnType::Float64)),
            ("FLOAT(53)", Some(ColumnType::Float64)),
            ("character varying(7)", Some(ColumnType::Varchar)),
            ("CHARACTER(7)", Some(ColumnType::Varchar)),
            ("FLOAT(54)", None),
            ("FLOAT(0)", None),
            ("FLOAT8 PRECISION", None),
            ("VARCHAR VARYING", None),
            ("TIMESTAMP WITH TIME", None),
            ("TIMESTAMP(3)", None),
            ("DECIMAL(39)", None),
            ("DECIMAL(4,5)", None),
            ("TEXT UNSIGNED", None),
            ("GEOHASH(4c)", None),
            ("", None),
        ] {
            assert_eq!(column_type(text), expected, "{text}");
        }
    }
}
