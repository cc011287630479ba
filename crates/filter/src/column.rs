//! One column of a page frame, read value by value, after a check of its shape.
//!
//! - filter_column-1. A `Column` has a bit or a code or a value for each of its rows, in a shape
//!   that its type can have. Anything that a damaged frame lacks is reported as an error when the
//!   `Column` is created.
//! - filter_column-2. `cell` returns the value that decoding the column gives.
//!
//! Not here: work on whole columns (`kernel`).

use tidegate_model::types::Physical;
use tidegate_model::{Codes, ColumnSlice, ColumnType, Encoded};

use crate::error::{Error, Result};
use crate::scalar::{Scalar, round, wrap};
use crate::text::{Entries, SymbolText, Texts};

/// Powers of ten by which decimal-encoded floats are divided.
pub(crate) const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// A column whose shape was checked (filter_column-1).
pub(crate) struct Column<'a> {
    /// Its position in the filter.
    pub(crate) position: usize,
    /// The values.
    pub(crate) slice: &'a ColumnSlice<'a>,
    reader: Reader<'a>,
}

/// The state that reading single values needs.
enum Reader<'a> {
    Values,
    Texts(Texts<'a>),
    Entries(Entries<'a>),
}

impl<'a> Column<'a> {
    pub(crate) fn new(
        position: usize,
        slice: &'a ColumnSlice<'a>,
        symbols: &'a dyn SymbolText,
    ) -> Result<Column<'a>> {
        if !has_shape(slice) {
            return Err(Error::FrameShape { column: position, ty: slice.ty });
        }
        let reader = match &slice.encoded {
            Encoded::Strings(strings) => Reader::Texts(Texts::new(*strings, position)?),
            Encoded::Dictionary { dictionary, .. } => {
                Reader::Entries(Entries::new(position, *dictionary, symbols)?)
            }
            _ => Reader::Values,
        };
        Ok(Column { position, slice, reader })
    }

    /// The dictionary, if the column has one.
    pub(crate) fn entries(&self) -> Option<&Entries<'a>> {
        match &self.reader {
            Reader::Entries(entries) => Some(entries),
            _ => None,
        }
    }

    /// The strings, if the column stores them one after the other.
    pub(crate) fn texts(&self) -> Option<&Texts<'a>> {
        match &self.reader {
            Reader::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// True if a row may be NULL.
    pub(crate) fn has_nulls(&self) -> bool {
        self.slice.validity.is_some() || matches!(self.slice.encoded, Encoded::Null)
    }

    /// The value of a row (filter_column-2).
    pub(crate) fn cell(&self, row: usize) -> Result<Scalar<'static>> {
        if !self.slice.is_valid(row) {
            return Ok(Scalar::Null);
        }
        match (&self.slice.encoded, &self.reader) {
            (Encoded::Dictionary { codes, .. }, Reader::Entries(entries)) => {
                entries.owned(codes.at(row)).map(Scalar::Bytes)
            }
            (Encoded::Strings(_), Reader::Texts(texts)) => {
                let mut scratch = Vec::new();
                Ok(Scalar::Bytes(texts.at(row, &mut scratch).to_vec().into()))
            }
            (encoded, _) => Ok(fixed_cell(self.slice.ty, encoded, row)),
        }
    }
}

/// The value of a row that is not NULL, of a type with values of a fixed width.
fn fixed_cell(ty: ColumnType, encoded: &Encoded<'_>, row: usize) -> Scalar<'static> {
    match encoded {
        Encoded::Constant(value) => constant(ty, *value),
        Encoded::Bits(bits) => Scalar::Bit(bits[row / 8] >> (row % 8) & 1 == 1),
        Encoded::Narrow { base, step, codes } => {
            Scalar::Integer(narrow_value(ty, *base, *step, codes.at(row)))
        }
        Encoded::Decimal { base, scale, codes, exception_rows, exception_values } => {
            let wanted = u32::try_from(row).expect("frame-1: a frame has 65,536 rows at most");
            let value = exception_rows
                .binary_search_by_key(&wanted, |row| u32::from_le_bytes(*row))
                .ok()
                .and_then(|at| exception_values.get(at))
                .map_or_else(
                    || decimal_value(*base, *scale, codes.at(row)),
                    |bits| f64::from_le_bytes(*bits),
                );
            Scalar::Float(round(value, ty))
        }
        Encoded::Fixed { width, bytes } => fixed_value(ty, &bytes[row * width..][..*width]),
        Encoded::Null | Encoded::Dictionary { .. } | Encoded::Strings(_) => Scalar::Null,
    }
}

/// The value of a constant column.
pub(crate) fn constant(ty: ColumnType, value: i128) -> Scalar<'static> {
    match ty.physical() {
        Physical::Bit => Scalar::Bit(value != 0),
        Physical::Float32 | Physical::Float64 => {
            #[expect(clippy::cast_possible_truncation, reason = "a float lives in the low word")]
            let bits = value as u64;
            Scalar::Float(round(f64::from_bits(bits), ty))
        }
        Physical::Fixed16 => Scalar::Fixed16(value.to_le_bytes()),
        _ => Scalar::Integer(wrap(value, ty)),
    }
}

/// The value of a narrow code; the sum wraps in the width of the type.
pub(crate) fn narrow_value(ty: ColumnType, base: i128, step: u64, code: u64) -> i128 {
    wrap(base.wrapping_add(i128::from(step).wrapping_mul(code.into())), ty)
}

/// The value of a decimal code, before it is rounded to a FLOAT.
pub(crate) fn decimal_value(base: i64, scale: u8, code: u64) -> f64 {
    base.wrapping_add(code.cast_signed()) as f64 / POWERS[usize::from(scale)]
}

/// The value of these bytes, of which there are as many as the type has (filter_column-1).
pub(crate) fn fixed_value(ty: ColumnType, bytes: &[u8]) -> Scalar<'static> {
    match (ty.physical(), bytes.first_chunk::<4>(), bytes.first_chunk::<8>()) {
        (Physical::Float32, Some(bytes), _) => Scalar::Float(f32::from_le_bytes(*bytes).into()),
        (Physical::Float64, _, Some(bytes)) => Scalar::Float(f64::from_le_bytes(*bytes)),
        (physical, ..) => match bytes.first_chunk::<16>() {
            Some(bytes) if physical == Physical::Wide => {
                Scalar::Integer(i128::from_le_bytes(*bytes))
            }
            Some(bytes) => Scalar::Fixed16(*bytes),
            None => Scalar::Null,
        },
    }
}

/// True if the column has a valid shape (filter_column-1).
fn has_shape(slice: &ColumnSlice<'_>) -> bool {
    let (rows, physical) = (slice.rows, slice.ty.physical());
    let is_integer = matches!(physical, Physical::Signed(_) | Physical::Unsigned(_));
    let is_float = matches!(physical, Physical::Float32 | Physical::Float64);
    let is_text = physical == Physical::Bytes;
    let fits = match &slice.encoded {
        Encoded::Null => true,
        Encoded::Constant(_) => !is_text,
        Encoded::Bits(bits) => physical == Physical::Bit && bits.len() * 8 >= rows,
        Encoded::Narrow { codes, .. } => {
            (is_integer || physical == Physical::Wide) && has_codes(codes, rows)
        }
        Encoded::Decimal { codes, scale, .. } => {
            is_float && has_codes(codes, rows) && usize::from(*scale) < POWERS.len()
        }
        Encoded::Fixed { width, bytes } => {
            let wanted = match physical {
                Physical::Float32 => 4,
                Physical::Float64 => 8,
                Physical::Wide | Physical::Fixed16 => 16,
                _ => 0,
            };
            wanted > 0 && *width == wanted && bytes.len() >= rows * wanted
        }
        Encoded::Dictionary { codes, .. } => is_text && has_codes(codes, rows),
        Encoded::Strings(strings) => is_text && strings.count() >= rows,
    };
    fits && slice.validity.is_none_or(|bits| bits.len() * 8 >= rows)
}

fn has_codes(codes: &Codes<'_>, rows: usize) -> bool {
    match codes {
        Codes::Same(_) | Codes::Sequence => true,
        Codes::Bits(bits) => bits.len() * 8 >= rows,
        Codes::U8(codes) => codes.len() >= rows,
        Codes::U16(codes) => codes.len() >= rows,
        Codes::U32(codes) => codes.len() >= rows,
        Codes::U64(codes) => codes.len() >= rows,
    }
}
