//! Casts that Arrow lacks or defines differently: between text and UUID, IPV4 or BINARY, of
//! times to text, and to narrower numbers.
//!
//! - types_casts-1. A number that the other type cannot hold is an error, or NULL for TRY_CAST.
//!   Fractions are rounded to the nearest integer, halves to the even one.
//! - They stand in a plan as functions with names that no query can write, so that no rule of
//!   DataFusion takes `CAST(x AS INT) = 2` for `x = 2`.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, Decimal128Array,
    FixedSizeBinaryBuilder, Float32Array, PrimitiveArray, StringViewArray, StringViewBuilder,
    UInt32Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use tidegate_model::time::{CivilDate, IsoTimestamp};
use tidegate_model::{Column, ColumnId, ColumnType, TimeUnit, Timestamp};
use tidegate_storage::segment::{arrow_field, arrow_type};

use super::decimal_constants::{is_decimal, is_float};
use super::literal::{bytes_of_text, value_of_text};
use crate::error::{Error, TextProblem};

/// The result of a cast of a text that is no value of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OnBadText {
    /// An error: CAST.
    Fail,
    /// NULL: TRY_CAST.
    Null,
}

/// Returns the cast as a function call, if it is one of this file.
pub(crate) fn special_cast(
    expr: &Expr,
    from: ColumnType,
    to: ColumnType,
    on_bad_text: OnBadText,
) -> Option<Expr> {
    let is_special = |ty| matches!(ty, ColumnType::Uuid | ColumnType::Ipv4 | ColumnType::Binary);
    let is_text = |ty| matches!(ty, ColumnType::Varchar | ColumnType::Symbol);
    let is_time = |ty| matches!(ty, ColumnType::Timestamp(_) | ColumnType::Date);
    let is_ours = (is_special(from) || is_time(from)) && is_text(to)
        || is_text(from) && is_special(to)
        || is_float(from) && is_decimal(to);
    if !is_ours && !is_narrowing(from, to) {
        return None;
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let function = SpecialCast { from, to, on_bad_text, signature };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr.clone()])))
}

/// Returns the cast of a constant, if it is one of this file.
pub(crate) fn cast_value(
    value: &ScalarValue,
    from: ColumnType,
    to: ColumnType,
    on_bad_text: OnBadText,
) -> Result<Expr> {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = SpecialCast { from, to, on_bad_text, signature };
    let array = function.values(&value.to_array()?)?;
    let metadata = FieldMetadata::new_from_field(&function.field());
    let metadata = (!metadata.is_empty()).then_some(metadata);
    Ok(Expr::Literal(ScalarValue::try_from_array(&array, 0)?, metadata))
}

/// The key of the length of `VARCHAR(n)` in the metadata of the field that a cast is to.
pub(crate) const LENGTH_KEY: &str = "tidegate.length";

/// Returns the length of `VARCHAR(n)`, and the field without it.
pub(crate) fn text_length(field: &Field) -> Option<(u64, FieldRef)> {
    let length = field.metadata().get(LENGTH_KEY)?.parse().ok()?;
    let mut metadata = field.metadata().clone();
    metadata.remove(LENGTH_KEY);
    Some((length, Arc::new(field.clone().with_metadata(metadata))))
}

/// Returns a text that may have so many characters; more are an error, not cut off.
pub(crate) fn short_text(text: Expr, length: u64, on_bad_text: OnBadText) -> Result<Expr> {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = ShortText { length, on_bad_text, signature };
    let constant = match &text {
        // A text literal has another Arrow type than our texts.
        Expr::Cast(cast) => cast.expr.as_literal().filter(|it| it.try_as_str().is_some()),
        text => text.as_literal(),
    };
    if let Some(value) = constant {
        let checked = function.checked(&value.to_array()?)?;
        return Ok(Expr::Literal(ScalarValue::try_from_array(&checked, 0)?, None));
    }
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![text])))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ShortText {
    length: u64,
    on_bad_text: OnBadText,
    signature: Signature,
}

impl ScalarUDFImpl for ShortText {
    fn name(&self) -> &'static str {
        "cast as varchar(n)"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(self.checked(&values)?))
    }
}

impl ShortText {
    fn checked(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let values = texts(values)?;
        let fits = |text: &str| {
            let bytes = text.len() as u64;
            bytes <= self.length || text.chars().count() as u64 <= self.length
        };
        let check = |text: Option<&str>| match text {
            Some(text) if !fits(text) && self.on_bad_text == OnBadText::Fail => {
                let reason = TextProblem::TooLong { length: self.length };
                let (text, ty) = (text.to_owned(), ColumnType::Varchar);
                Err(Error::BadText { position: None, text, ty, reason })
            }
            text => Ok(text.filter(|text| fits(text)).map(str::to_owned)),
        };
        let checked = values.as_string_view().iter().map(check);
        Ok(Arc::new(checked.collect::<std::result::Result<StringViewArray, Error>>()?))
    }
}

/// Returns true if values of one type of number may be lost in the other, and Arrow does not treat
/// that as this file does.
fn is_narrowing(from: ColumnType, to: ColumnType) -> bool {
    match (integer_range(from), integer_range(to)) {
        (Some((least, greatest)), Some((min, max))) => least < min || max < greatest,
        (None, Some(_)) => is_float(from) || is_decimal(from),
        _ => from == ColumnType::Float64 && to == ColumnType::Float32,
    }
}

/// The least and the greatest value of a type of integers.
pub(crate) fn integer_range(ty: ColumnType) -> Option<(i128, i128)> {
    Some(match ty {
        ColumnType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        ColumnType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        ColumnType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        ColumnType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        ColumnType::UInt8 => (0, u8::MAX.into()),
        ColumnType::UInt16 => (0, u16::MAX.into()),
        ColumnType::UInt32 => (0, u32::MAX.into()),
        ColumnType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Returns the type that a function casts to, and true for TRY_CAST, if it is a cast of integers or
/// floats to integers: the `filter` crate has those too.
pub(crate) fn cast_to_integer(function: &ScalarUDF) -> Option<(ColumnType, bool)> {
    let SpecialCast { from, to, on_bad_text, .. } = function.inner().downcast_ref()?;
    let is_known = !matches!(from, ColumnType::Decimal { .. }) && is_narrowing(*from, *to);
    let is_integer = integer_range(*to).is_some();
    (is_known && is_integer).then_some((*to, *on_bad_text == OnBadText::Null))
}

/// Less than half of the smallest decimal.
const NO_DIGITS: f64 = 1e-39;

#[derive(Debug, PartialEq, Eq, Hash)]
struct SpecialCast {
    from: ColumnType,
    to: ColumnType,
    on_bad_text: OnBadText,
    signature: Signature,
}

impl ScalarUDFImpl for SpecialCast {
    fn name(&self) -> &'static str {
        match (self.from, self.to) {
            (ColumnType::Uuid, _) => "cast uuid as varchar",
            (ColumnType::Ipv4, _) => "cast ipv4 as varchar",
            (ColumnType::Binary, _) => "cast binary as varchar",
            (ColumnType::Timestamp(_), _) => "cast timestamp as varchar",
            (ColumnType::Date, _) => "cast date as varchar",
            (_, ColumnType::Uuid) => "cast varchar as uuid",
            (_, ColumnType::Ipv4) => "cast varchar as ipv4",
            (_, ColumnType::Binary) => "cast varchar as binary",
            (_, ColumnType::Int8) => "cast as tinyint",
            (_, ColumnType::Int16) => "cast as smallint",
            (_, ColumnType::Int32) => "cast as int",
            (_, ColumnType::Int64) => "cast as bigint",
            (_, ColumnType::UInt8) => "cast as utinyint",
            (_, ColumnType::UInt16) => "cast as usmallint",
            (_, ColumnType::UInt32) => "cast as uint",
            (_, ColumnType::UInt64) => "cast as ubigint",
            (_, ColumnType::Decimal { .. }) => "cast as decimal",
            _ => "cast as float",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field().data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(self.field()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(self.values(&values)?))
    }
}

impl SpecialCast {
    fn values(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match (self.from, self.to) {
            (ColumnType::Uuid, _) => uuid_texts(values),
            (ColumnType::Ipv4, _) => ipv4_texts(values),
            (ColumnType::Binary, _) => binary_texts(values)?,
            (ColumnType::Timestamp(unit), _) => time_texts(values, unit)?,
            (ColumnType::Date, _) => date_texts(values)?,
            (_, ColumnType::Uuid) => self.uuids(texts(values)?.as_string_view())?,
            (_, ColumnType::Ipv4) => self.addresses(texts(values)?.as_string_view())?,
            (_, ColumnType::Binary) => self.bytes(texts(values)?.as_string_view())?,
            (_, ColumnType::Int8) => self.integers::<Int8Type>(values)?,
            (_, ColumnType::Int16) => self.integers::<Int16Type>(values)?,
            (_, ColumnType::Int32) => self.integers::<Int32Type>(values)?,
            (_, ColumnType::Int64) => self.integers::<Int64Type>(values)?,
            (_, ColumnType::UInt8) => self.integers::<UInt8Type>(values)?,
            (_, ColumnType::UInt16) => self.integers::<UInt16Type>(values)?,
            (_, ColumnType::UInt32) => self.integers::<UInt32Type>(values)?,
            (_, ColumnType::UInt64) => self.integers::<UInt64Type>(values)?,
            (_, ColumnType::Decimal { .. }) => self.decimals(values)?,
            _ => self.floats(values)?,
        })
    }

    fn field(&self) -> Field {
        arrow_field(&Column { id: ColumnId(0), name: self.name().to_owned(), ty: self.to })
    }

    /// Returns the value of a text; `None` is NULL.
    fn parsed(&self, text: &str) -> Result<Option<ScalarValue>> {
        let value = value_of_text(text, self.to).expect("UUID and IPV4 are parsed");
        match (value, self.on_bad_text) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(_), OnBadText::Null) => Ok(None),
            (Err(reason), OnBadText::Fail) => {
                let text = text.to_owned();
                Err(Error::BadText { position: None, text, ty: self.to, reason }.into())
            }
        }
    }

    fn uuids(&self, texts: &StringViewArray) -> Result<ArrayRef> {
        let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
        for text in texts {
            match text.map(|text| self.parsed(text)).transpose()?.flatten() {
                Some(ScalarValue::FixedSizeBinary(_, Some(bytes))) => {
                    builder.append_value(bytes)?
                }
                _ => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    fn addresses(&self, texts: &StringViewArray) -> Result<ArrayRef> {
        let mut addresses = Vec::with_capacity(texts.len());
        for text in texts {
            addresses.push(match text.map(|text| self.parsed(text)).transpose()?.flatten() {
                Some(ScalarValue::UInt32(address)) => address,
                _ => None,
            });
        }
        Ok(Arc::new(UInt32Array::from(addresses)))
    }
}

/// The casts of texts to bytes.
impl SpecialCast {
    fn bytes(&self, texts: &StringViewArray) -> Result<ArrayRef> {
        let bytes = |text: Option<&str>| match text.map(bytes_of_text).transpose() {
            Err(reason) if self.on_bad_text == OnBadText::Fail => {
                let text = text.unwrap_or_default().to_owned();
                Err(Error::BadText { position: None, text, ty: self.to, reason })
            }
            bytes => Ok(bytes.unwrap_or_default()),
        };
        let bytes = texts.iter().map(bytes);
        Ok(Arc::new(bytes.collect::<std::result::Result<BinaryViewArray, Error>>()?))
    }
}

/// The casts of numbers to integers (types_casts-1).
impl SpecialCast {
    fn integers<T>(&self, values: &ArrayRef) -> Result<ArrayRef>
    where
        T: ArrowPrimitiveType,
        T::Native: TryFrom<i128>,
    {
        let fitted = match values.data_type() {
            DataType::Float32 | DataType::Float64 => {
                let values = cast(values, &DataType::Float64)?;
                let values = values.as_primitive::<Float64Type>().iter();
                self.fitted::<T, Shown>(values.map(|value| value.map(Shown)), |value| {
                    integer_of_float(value.0)
                })?
            }
            DataType::Decimal128(_, scale) => {
                let scale = u32::from(scale.unsigned_abs());
                let shown = |value: &i128| rounded(*value, scale);
                self.fitted::<T, i128>(values.as_primitive::<Decimal128Type>().iter(), shown)?
            }
            DataType::UInt64 => {
                let values = values.as_primitive::<UInt64Type>().iter();
                self.fitted::<T, u64>(values, |value| Some((*value).into()))?
            }
            _ => {
                let values = cast(values, &DataType::Int64)?;
                let values = values.as_primitive::<Int64Type>().iter();
                self.fitted::<T, i64>(values, |value| Some((*value).into()))?
            }
        };
        Ok(Arc::new(fitted))
    }

    fn fitted<T, V: std::fmt::Display>(
        &self,
        values: impl Iterator<Item = Option<V>>,
        integer: impl Fn(&V) -> Option<i128>,
    ) -> Result<PrimitiveArray<T>>
    where
        T: ArrowPrimitiveType,
        T::Native: TryFrom<i128>,
    {
        let fit = |value: Option<V>| {
            let Some(value) = value else { return Ok(None) };
            match integer(&value).and_then(|integer| T::Native::try_from(integer).ok()) {
                None if self.on_bad_text == OnBadText::Fail => Err(self.out_of_range(&value)),
                fitted => Ok(fitted),
            }
        };
        Ok(values.map(fit).collect::<std::result::Result<_, Error>>()?)
    }

    fn out_of_range(&self, value: &impl std::fmt::Display) -> Error {
        let reason = TextProblem::OutOfRange;
        Error::BadText { position: None, text: value.to_string(), ty: self.to, reason }
    }

    /// Casts floats to decimals by the fewest digits that identify them, as constants are cast.
    fn decimals(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let decimal = |text: String| match value_of_text(&text, self.to) {
            Some(Ok(ScalarValue::Decimal128(value, ..))) => Ok(value),
            _ if self.on_bad_text == OnBadText::Null => Ok(None),
            _ => Err(self.out_of_range(&text)),
        };
        // A number that is next to nothing has hundreds of digits.
        let of = |value: f64, shown: &dyn std::fmt::Display| match value.abs() < NO_DIGITS {
            true => decimal("0".to_owned()),
            false => decimal(shown.to_string()),
        };
        let decimals = if let Some(values) = values.as_primitive_opt::<Float32Type>() {
            let decimals =
                values.iter().map(|value| value.map_or(Ok(None), |it| of(it.into(), &it)));
            decimals.collect::<std::result::Result<Decimal128Array, Error>>()?
        } else {
            let values = cast(values, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>().iter();
            let decimals = values.map(|value| value.map_or(Ok(None), |it| of(it, &it)));
            decimals.collect::<std::result::Result<Decimal128Array, Error>>()?
        };
        Ok(Arc::new(decimals.with_data_type(arrow_type(self.to))))
    }

    /// Casts doubles to floats: those that are too large are out of range, not infinite.
    fn floats(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let values = cast(values, &DataType::Float64)?;
        let narrow = |value: Option<f64>| {
            let Some(value) = value else { return Ok(None) };
            #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
            let narrow = value as f32;
            match value.is_finite() && narrow.is_infinite() {
                false => Ok(Some(narrow)),
                true if self.on_bad_text == OnBadText::Null => Ok(None),
                true => Err(self.out_of_range(&Shown(value))),
            }
        };
        let floats = values.as_primitive::<Float64Type>().iter().map(narrow);
        Ok(Arc::new(floats.collect::<std::result::Result<Float32Array, Error>>()?))
    }
}

/// A float in the fewest digits that identify it: `1e300`.
struct Shown(f64);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_finite() && self.0.abs() >= 1e16 {
            return write!(f, "{:e}", self.0);
        }
        write!(f, "{}", self.0)
    }
}

/// Returns the nearest integer; `None` if there is none, or it is far out of every range.
fn integer_of_float(value: f64) -> Option<i128> {
    let whole = value.round_ties_even();
    let is_near = whole.is_finite() && whole.abs() < 4e19;
    #[expect(clippy::cast_possible_truncation, reason = "below 4e19 in magnitude")]
    is_near.then_some(whole as i128)
}

/// Rounds a decimal with so many digits behind the point to the nearest integer.
fn rounded(value: i128, scale: u32) -> Option<i128> {
    let worth = 10_i128.checked_pow(scale)?;
    let (whole, rest) = (value.div_euclid(worth), value.rem_euclid(worth));
    // Twice the rest might overflow.
    let is_up = match rest.cmp(&(worth - rest)) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => whole % 2 != 0,
        std::cmp::Ordering::Greater => true,
    };
    Some(whole + i128::from(is_up))
}

fn texts(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(values, &DataType::Utf8View)?)
}

fn uuid_texts(values: &ArrayRef) -> ArrayRef {
    let values = values.as_fixed_size_binary();
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for row in 0..values.len() {
        if values.is_null(row) {
            builder.append_null();
            continue;
        }
        text.clear();
        for (at, byte) in values.value(row).iter().enumerate() {
            let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(text, "{hyphen}{byte:02x}");
        }
        builder.append_value(&text);
    }
    Arc::new(builder.finish())
}

/// Formats bytes as `\x` and hexadecimal digits.
pub(crate) fn binary_texts(values: &ArrayRef) -> Result<ArrayRef> {
    let values = cast(values, &DataType::BinaryView)?;
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for bytes in values.as_binary_view() {
        let Some(bytes) = bytes else {
            builder.append_null();
            continue;
        };
        text.clear();
        text.push_str("\\x");
        for byte in bytes {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        builder.append_value(&text);
    }
    Ok(Arc::new(builder.finish()))
}

/// Formats times with all digits of their fractions: `2025-03-01T00:00:00.000000Z`.
fn time_texts(values: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef> {
    let values = cast(values, &DataType::Int64)?;
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for instant in values.as_primitive::<Int64Type>() {
        let Some(instant) = instant else {
            builder.append_null();
            continue;
        };
        text.clear();
        let _ = write!(text, "{}", IsoTimestamp(Timestamp(instant), unit));
        builder.append_value(&text);
    }
    Ok(Arc::new(builder.finish()))
}

/// Formats dates as they are shown, also those beyond Arrow's calendar: `2025-03-01`.
pub(crate) fn date_texts(values: &ArrayRef) -> Result<ArrayRef> {
    let values = cast(values, &DataType::Int32)?;
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for days in values.as_primitive::<Int32Type>() {
        let Some(days) = days else {
            builder.append_null();
            continue;
        };
        text.clear();
        let CivilDate { year, month, day } = CivilDate::from_days(days.into());
        let _ = write!(text, "{year:04}-{month:02}-{day:02}");
        builder.append_value(&text);
    }
    Ok(Arc::new(builder.finish()))
}

fn ipv4_texts(values: &ArrayRef) -> ArrayRef {
    let texts = values.as_primitive::<UInt32Type>().iter();
    let texts = texts.map(|bits| bits.map(|bits| Ipv4Addr::from_bits(bits).to_string()));
    Arc::new(texts.collect::<StringViewArray>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_half_to_even() {
        for (value, scale, expected) in [
            (25, 1, 2),
            (35, 1, 4),
            (-25, 1, -2),
            (-35, 1, -4),
            (-26, 1, -3),
            (24, 1, 2),
            (7, 0, 7),
            (i128::MAX, 38, 2),
        ] {
            assert_eq!(rounded(value, scale), Some(expected), "types_casts-1: {value} {scale}");
        }
    }

    #[test]
    fn only_casts_that_may_lose_are_ours() {
        let (long, int) = (ColumnType::Int64, ColumnType::Int32);
        assert!(is_narrowing(long, int) && !is_narrowing(int, long));
        assert!(is_narrowing(ColumnType::Int8, ColumnType::UInt64));
        assert!(
            is_narrowing(ColumnType::Float32, long) && !is_narrowing(long, ColumnType::Float32)
        );
        assert!(!is_narrowing(ColumnType::Boolean, int) && !is_narrowing(ColumnType::Varchar, int));
    }
}
