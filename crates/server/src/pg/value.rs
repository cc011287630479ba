//! Values of a client as parameters of a statement.
//!
//! - value-1. A parameter with a declared type is a value of that type everywhere; one whose type
//!   was inferred from its place is read like a literal at that place, with the same meaning. But
//!   an INTERVAL always keeps its type: a text beside a time may mean a time.
//! - value-2. Digits of a NUMERIC are kept exactly: it never becomes a double.
//! - value-3. The memory of values is counted as they are made (`Counted`).
//! - value-4. A number is in the range of the type that its statement was described with.

mod list;

use std::borrow::Cow;
use std::num::IntErrorKind;
use std::str::FromStr;

use tidegate_ingest::parse::parse_binary;
use tidegate_model::time::CivilDate;
use tidegate_query::Parameter;

use super::encode::{Format, decimal_text};
use super::error_response::ErrorResponse;
use super::types::{self, PgType};
use crate::budget::{OverBudget, Reservation};
use crate::value_text::hex;

/// The microseconds from 1970 to 2000.
const MICROS_TO_2000: i64 = 10_957 * 86_400_000_000;
const DAYS_TO_2000: i64 = 10_957;
const MICROS_PER_DAY: i64 = 86_400_000_000;
/// The most digits of a number that is a DOUBLE in a statement.
const DOUBLE_DIGITS: usize = 15;
/// The most digits of a DECIMAL.
const DECIMAL_DIGITS: usize = 38;

/// The bytes that are counted in advance.
const COUNT_AHEAD_BYTES: usize = 16 << 10;

/// The origin of a parameter's type (value-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeSource {
    Declared,
    Inferred,
}

/// A counter of the memory of values, as they are made (value-3).
pub(super) struct Counted {
    reservation: Reservation,
    bytes: usize,
    /// The bytes taken of the budget: more than `bytes`, to take some seldom.
    taken: usize,
}

impl Counted {
    pub(super) fn new(reservation: Reservation) -> Counted {
        Counted { reservation, bytes: 0, taken: 0 }
    }

    fn add(&mut self, value: &Parameter) -> Result<(), OverBudget> {
        self.bytes += bytes_of(std::slice::from_ref(value));
        if self.taken < self.bytes {
            self.taken = self.bytes + COUNT_AHEAD_BYTES;
            self.reservation.try_resize(self.taken)?;
        }
        Ok(())
    }

    /// Returns the count of the values, after all are made.
    pub(super) fn into_reservation(mut self) -> Result<Reservation, OverBudget> {
        self.reservation.try_resize(self.bytes)?;
        Ok(self.reservation)
    }
}

/// Returns the value of a parameter. `number` counts from 1.
pub(super) fn parameter(
    value: Option<&[u8]>,
    number: usize,
    oid: u32,
    source: TypeSource,
    format: Format,
    counted: &mut Counted,
) -> Result<Parameter, ErrorResponse> {
    let read = match (value, types::element_of(oid)) {
        (Some(value), Some(element)) => {
            return list::parameter(value, number, element, source, format, counted);
        }
        (Some(value), None) => scalar(value, oid, source, format, number)?,
        (None, _) => missing(oid, source),
    };
    counted.add(&read)?;
    Ok(read)
}

/// Returns a value that is no list.
fn scalar(
    value: &[u8],
    oid: u32,
    source: TypeSource,
    format: Format,
    number: usize,
) -> Result<Parameter, ErrorResponse> {
    let read = match format {
        Format::Text | Format::TextIso => text(value)?.map(str::to_owned),
        Format::Binary => binary(oid, value)?,
    };
    let Some(read) = read else {
        let what = if format == Format::Binary { "binary data" } else { "text" };
        let code = if format == Format::Binary { "22P03" } else { "22P02" };
        return Err(ErrorResponse::new(code, format!("incorrect {what} in parameter {number}")));
    };
    if oid == types::BYTEA.oid {
        return bytea(&read).map(Parameter::Bytes).ok_or_else(|| {
            ErrorResponse::new("22P02", format!("parameter {number} is not a bytea"))
        });
    }
    if is_time(oid) && matches!(read.trim(), "infinity" | "-infinity") {
        return Err(ErrorResponse::new("22008", "infinite timestamps are not supported"));
    }
    made(oid, source, read).map_err(|misread| match misread {
        Misread::Malformed => {
            ErrorResponse::new("22P02", format!("parameter {number} is not a value of its type"))
        }
        Misread::OutOfRange => out_of_range(number),
    })
}

fn out_of_range(number: usize) -> ErrorResponse {
    ErrorResponse::new("22003", format!("parameter {number} is out of the range of its type"))
}

/// Returns the value of a constant of EXECUTE. One with a declared type becomes a value of that
/// type as on assignment: numbers and truth values are texts too, and a number becomes an integer
/// by rounding. `number` counts from 1.
pub(super) fn constant(
    value: &Parameter,
    number: usize,
    oid: u32,
    counted: &mut Counted,
) -> Result<Parameter, ErrorResponse> {
    let is_text = is_text(oid);
    let is_number = is_integer(oid) || is_float(oid) || oid == types::NUMERIC.oid;
    let text = match value {
        _ if oid == 0 => {
            counted.add(value)?;
            return Ok(value.clone());
        }
        Parameter::Null => None,
        Parameter::Text(text) => Some(text.clone()),
        Parameter::Boolean(is) if is_text || oid == types::BOOL.oid => Some(is.to_string()),
        Parameter::Integer(value) if is_text || is_number => Some(value.to_string()),
        Parameter::Typed(_, Some(digits)) if is_integer(oid) => Some(rounded(digits)),
        Parameter::Typed(_, Some(digits)) if is_text || is_number => Some(digits.clone()),
        // No other constant is infinite.
        Parameter::Double(value) if is_number && value.is_infinite() => {
            return Err(out_of_range(number));
        }
        Parameter::Double(value) if is_integer(oid) => Some(format!("{:.0}", value.round())),
        Parameter::Double(value) if is_text || is_number => Some(value.to_string()),
        _ => {
            let message = format!("the constant for parameter {number} is not of its type");
            return Err(ErrorResponse::new("42804", message));
        }
    };
    let text = text.as_ref().map(String::as_bytes);
    parameter(text, number, oid, TypeSource::Declared, Format::Text, counted)
}

/// The reason why a text is no value of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misread {
    Malformed,
    /// A number that the type does not have.
    OutOfRange,
}

/// Returns a value of a binary COPY as COPY's text has it.
pub(super) fn copied_text(ty: PgType, value: &[u8]) -> Result<String, ErrorResponse> {
    let read = binary(ty.oid, value)?;
    let read = read.ok_or_else(|| ErrorResponse::new("22P03", "incorrect binary data format"))?;
    match is_time(ty.oid) && read == "infinity" {
        true => Err(ErrorResponse::new("22008", "infinite timestamps are not supported")),
        false => Ok(read),
    }
}

/// Returns a value to describe a statement with, for a parameter of this type.
pub(super) fn example(oid: u32) -> Parameter {
    if let Some(element) = types::element_of(oid) {
        return Parameter::List(list::sql_type_of(element), Vec::new());
    }
    match sql_type(oid, "0") {
        Some(ty) => Parameter::Typed(ty, None),
        None if is_integer(oid) => Parameter::Integer(0),
        None if is_float(oid) => Parameter::Double(0.5),
        None if oid == types::BOOL.oid => Parameter::Boolean(true),
        None => Parameter::Open,
    }
}

/// Returns NULL for a parameter that is no list. In a calculation it has the type of the numbers,
/// or the lengths of time, that other values become.
fn missing(oid: u32, source: TypeSource) -> Parameter {
    match source {
        TypeSource::Inferred if is_integer(oid) => Parameter::Typed("BIGINT".into(), None),
        TypeSource::Inferred if is_float(oid) => Parameter::Typed("DOUBLE".into(), None),
        TypeSource::Inferred if oid == types::NUMERIC.oid => null(oid, TypeSource::Declared),
        _ => null(oid, source),
    }
}

fn null(oid: u32, source: TypeSource) -> Parameter {
    match sql_type(oid, "0").filter(|_| keeps_type(oid, source)) {
        Some(ty) => Parameter::Typed(ty, None),
        None => Parameter::Null,
    }
}

/// Returns true for a value whose type does not depend on its place (value-1).
fn keeps_type(oid: u32, source: TypeSource) -> bool {
    source == TypeSource::Declared || oid == types::INTERVAL.oid
}

fn is_integer(oid: u32) -> bool {
    [types::INT2, types::INT4, types::INT8, types::OID].iter().any(|ty| ty.oid == oid)
}

fn is_float(oid: u32) -> bool {
    [types::FLOAT4, types::FLOAT8].iter().any(|ty| ty.oid == oid)
}

fn is_text(oid: u32) -> bool {
    let texts = [types::TEXT, types::VARCHAR, types::BPCHAR, types::NAME, types::UNKNOWN];
    texts.iter().any(|ty| ty.oid == oid)
}

fn is_time(oid: u32) -> bool {
    [types::DATE, types::TIMESTAMP, types::TIMESTAMPTZ].iter().any(|ty| ty.oid == oid)
}

/// Returns the SQL type for values whose text does not show it.
fn sql_type(oid: u32, text: &str) -> Option<Cow<'static, str>> {
    Some(Cow::Borrowed(match oid {
        it if it == types::TIMESTAMP.oid || it == types::TIMESTAMPTZ.oid => "TIMESTAMP",
        it if it == types::DATE.oid => "DATE",
        it if it == types::TIME.oid => "TIME",
        it if it == types::INTERVAL.oid => "INTERVAL",
        it if it == types::UUID.oid => "UUID",
        it if it == types::BYTEA.oid => "BINARY",
        it if it == types::NUMERIC.oid => return decimal_type(text).map(Cow::Owned),
        _ => return None,
    }))
}

fn made(oid: u32, source: TypeSource, text: String) -> Result<Parameter, Misread> {
    let trimmed = text.trim();
    if oid == types::BOOL.oid {
        return boolean(trimmed).map(Parameter::Boolean).ok_or(Misread::Malformed);
    }
    if is_integer(oid) {
        return integer(oid, trimmed).map(Parameter::Integer);
    }
    if oid == types::FLOAT4.oid {
        // The number that a FLOAT column has: 0.1 in single precision is another one in double.
        return float::<f32>(trimmed).map(Parameter::Double);
    }
    if is_float(oid) {
        return float::<f64>(trimmed).map(Parameter::Double);
    }
    if oid == types::NUMERIC.oid {
        // Also where the type is inferred: as a text, the value would be rounded to the scale of
        // the column that it is compared with.
        return match decimal_type(trimmed) {
            Some(ty) => Ok(Parameter::Typed(ty.into(), Some(text))),
            // NaN, infinities, exponents, and numbers with more digits than a DECIMAL has.
            None => float::<f64>(trimmed).map(Parameter::Double),
        };
    }
    Ok(match sql_type(oid, trimmed).filter(|_| keeps_type(oid, source)) {
        Some(ty) => Parameter::Typed(ty, Some(text)),
        None => Parameter::Text(text),
    })
}

/// Parses an integer of its type (value-4).
fn integer(oid: u32, text: &str) -> Result<i64, Misread> {
    let value = text.parse::<i64>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Misread::OutOfRange,
        _ => Misread::Malformed,
    })?;
    let is_in_range = match oid {
        _ if oid == types::INT2.oid => i16::try_from(value).is_ok(),
        _ if oid == types::INT4.oid => i32::try_from(value).is_ok(),
        _ if oid == types::OID.oid => u32::try_from(value).is_ok(),
        _ => true,
    };
    if is_in_range { Ok(value) } else { Err(Misread::OutOfRange) }
}

/// Parses a float, whose type has a number near it (value-4): neither infinity for a number that
/// is too large, nor 0 for one that is too small.
fn float<T: FromStr + Into<f64>>(text: &str) -> Result<f64, Misread> {
    let value: f64 = text.parse::<T>().map_err(|_| Misread::Malformed)?.into();
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let is_number = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let is_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let is_lost = value.is_infinite() || value == 0.0 && !is_zero;
    if is_number && is_lost { Err(Misread::OutOfRange) } else { Ok(value) }
}

/// Parses `\x00ff`, or plain bytes with `\\` and `\377` for those that cannot be written.
fn bytea(text: &str) -> Option<Vec<u8>> {
    if text.starts_with("\\x") {
        let mut bytes = Vec::new();
        return parse_binary(text.as_bytes(), &mut bytes).is_ok().then_some(bytes);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let value = match (byte, after) {
            (b'\\', [b'\\', ..]) => {
                rest = &after[1..];
                byte
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                rest = &after[3..];
                (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
            }
            (b'\\', _) => return None,
            _ => byte,
        };
        bytes.push(value);
    }
    Some(bytes)
}

/// Parses a truth value: a word, or a part of its beginning that no other word has.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "tr" | "tru" | "true" | "on" | "y" | "ye" | "yes" | "1" => Some(true),
        "f" | "fa" | "fal" | "fals" | "false" | "of" | "off" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Returns the number of a constant of EXECUTE as a statement has it: one with more digits than a
/// double is a DECIMAL with all of them; `None` if it is no number.
pub(super) fn number(text: String) -> Option<Parameter> {
    if let Ok(value) = text.parse() {
        return Some(Parameter::Integer(value));
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    match decimal_type(&text).filter(|_| DOUBLE_DIGITS < digits) {
        Some(ty) => Some(Parameter::Typed(ty.into(), Some(text))),
        None => text.parse().ok().map(Parameter::Double),
    }
}

/// Returns a decimal as the digits of the nearest integer, away from zero between two.
fn rounded(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", whole),
    };
    let up = u128::from(fraction.bytes().next().is_some_and(|first| b'5' <= first));
    // At most 38 digits (value-2).
    let digits = digits.parse::<u128>().map_or(up, |digits| digits + up);
    format!("{sign}{digits}")
}

/// Returns the DECIMAL type with exactly the digits of a number (value-2).
fn decimal_type(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = is_digits(whole) && is_digits(fraction) && 0 < whole.len() + fraction.len();
    let count = (whole.trim_start_matches('0').len() + fraction.len()).max(1);
    let fits = is_number && count <= DECIMAL_DIGITS;
    fits.then(|| format!("DECIMAL({count},{})", fraction.len()))
}

fn text(value: &[u8]) -> Result<Option<&str>, ErrorResponse> {
    let text = std::str::from_utf8(value).ok().filter(|text| !text.contains('\0'));
    text.map(Some).ok_or_else(ErrorResponse::not_text)
}

/// Returns the text of a binary value; `None` if it is malformed.
fn binary(oid: u32, value: &[u8]) -> Result<Option<String>, ErrorResponse> {
    let is = |ty: PgType| ty.oid == oid;
    if is_text(oid) || oid == 0 || is(types::JSON) || is(types::CHAR) {
        return Ok(text(value)?.map(str::to_owned));
    }
    Ok(match oid {
        _ if is(types::BOOL) => fixed::<1>(value).map(|[it]| (it != 0).to_string()),
        _ if is(types::INT2) => fixed(value).map(|it| i16::from_be_bytes(it).to_string()),
        _ if is(types::INT4) => fixed(value).map(|it| i32::from_be_bytes(it).to_string()),
        _ if is(types::INT8) => fixed(value).map(|it| i64::from_be_bytes(it).to_string()),
        _ if is(types::OID) => fixed(value).map(|it| u32::from_be_bytes(it).to_string()),
        _ if is(types::FLOAT4) => fixed(value).map(|it| f32::from_be_bytes(it).to_string()),
        _ if is(types::FLOAT8) => fixed(value).map(|it| f64::from_be_bytes(it).to_string()),
        _ if is(types::NUMERIC) => decimal_text(value),
        _ if is(types::UUID) => (value.len() == 16).then(|| hex(value)),
        _ if is(types::BYTEA) => Some(format!("\\x{}", hex(value))),
        _ if is(types::INET) => inet(value),
        _ if is(types::DATE) => match fixed(value).map(i32::from_be_bytes) {
            Some(i32::MIN | i32::MAX) => Some("infinity".to_owned()),
            Some(days) => Some(date(known_day(i64::from(days) + DAYS_TO_2000)?)),
            None => None,
        },
        _ if is(types::INTERVAL) => interval(value),
        _ if is(types::TIME) => match fixed(value).map(i64::from_be_bytes) {
            Some(micros @ 0..MICROS_PER_DAY) => Some(time_of_day(micros.unsigned_abs())),
            Some(_) => {
                let message = "a time of day is out of the range of its type";
                return Err(ErrorResponse::new("22008", message));
            }
            None => None,
        },
        _ if is(types::TIMESTAMP) || is(types::TIMESTAMPTZ) => {
            match fixed(value).map(i64::from_be_bytes) {
                Some(i64::MIN | i64::MAX) => Some("infinity".to_owned()),
                Some(micros) => {
                    let micros = micros.checked_add(MICROS_TO_2000).ok_or_else(|| {
                        ErrorResponse::new("22008", "a timestamp is out of the range of its type")
                    })?;
                    known_day(micros.div_euclid(MICROS_PER_DAY))?;
                    Some(instant(micros))
                }
                None => None,
            }
        }
        _ => {
            let message = format!("parameters of the type {oid} have no binary form here");
            return Err(ErrorResponse::new("0A000", message));
        }
    })
}

fn fixed<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.try_into().ok()
}

/// Returns an address of IPv4; others have no type here.
fn inet(value: &[u8]) -> Option<String> {
    match value {
        [2, 32, 0, 4, a, b, c, d] => Some(format!("{a}.{b}.{c}.{d}")),
        _ => None,
    }
}

/// Refuses a day before the year 1, which texts of dates do not have.
fn known_day(days: i64) -> Result<i64, ErrorResponse> {
    match CivilDate::from_days(days).year < 1 {
        true => Err(ErrorResponse::new("22008", "dates before the year 1 are not supported")),
        false => Ok(days),
    }
}

fn date(days: i64) -> String {
    let CivilDate { year, month, day } = CivilDate::from_days(days);
    format!("{year:04}-{month:02}-{day:02}")
}

fn instant(micros: i64) -> String {
    let date = date(micros.div_euclid(MICROS_PER_DAY));
    format!("{date}T{}Z", time_of_day(micros.rem_euclid(MICROS_PER_DAY).unsigned_abs()))
}

/// Returns microseconds, days and months, each with its sign, as a text of an INTERVAL.
fn interval(value: &[u8]) -> Option<String> {
    let (micros, rest) = value.split_first_chunk::<8>()?;
    let (days, months) = rest.split_first_chunk::<4>()?;
    let (micros, days) = (i64::from_be_bytes(*micros), i32::from_be_bytes(*days));
    let months = i32::from_be_bytes(fixed(months)?);
    let sign = if micros < 0 { "-" } else { "" };
    Some(format!("{months} mons {days} days {sign}{}", time_of_day(micros.unsigned_abs())))
}

fn time_of_day(micros: u64) -> String {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{fraction:06}")
}

/// Returns the bytes of values in memory (value-3). Nested lists are as deep as arrays have
/// dimensions.
pub(super) fn bytes_of(values: &[Parameter]) -> usize {
    // The bytes of a type name that was made for the value.
    let owned = |ty: &Cow<'static, str>| match ty {
        Cow::Borrowed(_) => 0,
        Cow::Owned(text) => text.capacity(),
    };
    let inside = |value: &Parameter| match value {
        Parameter::Text(text) => text.capacity(),
        Parameter::Bytes(bytes) => bytes.capacity(),
        Parameter::Typed(ty, text) => owned(ty) + text.as_ref().map_or(0, String::capacity),
        Parameter::List(ty, values) => {
            let unused = values.capacity() - values.len();
            ty.as_ref().map_or(0, owned) + bytes_of(values) + unused * size_of::<Parameter>()
        }
        _ => 0,
    };
    size_of_val(values) + values.iter().map(inside).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::tests::reservation;

    fn counted(memory: u64) -> Counted {
        Counted::new(reservation(memory))
    }

    fn read(
        value: &[u8],
        oid: u32,
        source: TypeSource,
        format: Format,
    ) -> Result<Parameter, ErrorResponse> {
        parameter(Some(value), 1, oid, source, format, &mut counted(1 << 30))
    }

    #[track_caller]
    fn check(ty: PgType, value: &[u8], expected: Parameter) {
        assert_eq!(read(value, ty.oid, TypeSource::Inferred, Format::Binary), Ok(expected));
    }

    // Arrays were not counted: those of three portals took all memory of the machine.
    // They went through a double, and other digits were stored.
    #[test]
    fn constants_of_execute_keep_their_digits() {
        let of = |text: &str, oid| {
            let account = crate::budget::tests::reservation(1 << 20);
            let value = number(text.to_owned()).expect("a number");
            constant(&value, 1, oid, &mut Counted::new(account)).map_err(|error| error.code)
        };
        let decimal =
            |ty: &'static str, text: &str| Ok(Parameter::Typed(ty.into(), Some(text.to_owned())));
        let large = "99999999999999999999";
        assert_eq!(of(large, types::NUMERIC.oid), decimal("DECIMAL(20,0)", large));
        assert_eq!(of(large, 0), decimal("DECIMAL(20,0)", large));
        assert_eq!(of(large, types::TEXT.oid), Ok(Parameter::Text(large.to_owned())));
        assert_eq!(of(large, types::INT8.oid), Err("22003"));
        let fine = "12345678901234567.89";
        assert_eq!(of(fine, types::NUMERIC.oid), decimal("DECIMAL(19,2)", fine));
        assert_eq!(of(fine, types::INT8.oid), Ok(Parameter::Integer(12_345_678_901_234_568)));
        assert_eq!(
            of("-9007199254740993.5", types::INT8.oid),
            Ok(Parameter::Integer(-9_007_199_254_740_994))
        );
        assert_eq!(of("1.5", types::INT4.oid), Ok(Parameter::Integer(2)));
        assert_eq!(of("1e400", types::FLOAT8.oid), Err("22003"));
    }

    #[test]
    fn values_are_counted_with_what_they_take() {
        let number = size_of::<Parameter>();
        assert_eq!(
            bytes_of(&[Parameter::Integer(1), Parameter::Text("abc".to_owned())]),
            2 * number + 3
        );
        let list = |count: i64| {
            let values = (0..count).map(Parameter::Integer).collect::<Vec<_>>();
            Parameter::List(None, values)
        };
        assert_eq!(bytes_of(&[list(10)]), 11 * number, "value-3");
        let nested = Parameter::List(None, vec![list(10), list(20)]);
        assert_eq!(bytes_of(&[nested]), 33 * number, "value-3");
        let text = format!("{{{}1}}", "1,".repeat(99_999));
        let read = |memory: u64| {
            let mut counted = counted(memory);
            let (oid, source) = (types::INT4.array, TypeSource::Declared);
            let value = Some(text.as_bytes());
            let read = parameter(value, 1, oid, source, Format::Text, &mut counted);
            read.map(|value| (bytes_of(&[value]), counted.bytes))
        };
        let (bytes, counted) = read(1 << 30).unwrap();
        assert!(bytes <= counted && counted < bytes + 4_096, "value-3: {bytes} {counted}");
        assert_eq!(read(1 << 20).unwrap_err().code, "53200", "value-3");
    }

    #[test]
    fn binary_values_are_read() {
        check(types::BOOL, &[1], Parameter::Boolean(true));
        check(types::INT2, &[0xff, 0xff], Parameter::Integer(-1));
        check(types::INT8, &i64::MIN.to_be_bytes(), Parameter::Integer(i64::MIN));
        check(types::FLOAT8, &0.1_f64.to_be_bytes(), Parameter::Double(0.1));
        check(types::FLOAT4, &0.1_f32.to_be_bytes(), Parameter::Double(0.1_f32.into()));
        check(types::BYTEA, &[0, 255], Parameter::Bytes(vec![0, 255]));
        assert_eq!(bytea("a\\\\b\\377"), Some(b"a\\b\xff".to_vec()));
        for text in ["\\x0", "\\9", "\\x+f", "\\+77", "\\400"] {
            assert_eq!(bytea(text), None, "{text}");
        }
        check(types::DATE, &(-1_i32).to_be_bytes(), Parameter::Text("1999-12-31".to_owned()));
        let first = Parameter::Text("0001-01-01".to_owned());
        check(types::DATE, &(-730_119_i32).to_be_bytes(), first);
        let far = Parameter::Text("10000-01-01".to_owned());
        check(types::DATE, &2_921_940_i32.to_be_bytes(), far);
        let text = Parameter::Text("1999-12-31T23:59:59.999999Z".to_owned());
        check(types::TIMESTAMP, &(-1_i64).to_be_bytes(), text);
        check(types::INET, &[2, 32, 0, 4, 10, 0, 0, 1], Parameter::Text("10.0.0.1".to_owned()));
    }

    // psycopg sends each timedelta and time so.
    #[test]
    fn binary_intervals_and_times_of_day_are_read() {
        let interval = |micros: i64, days: i32, months: i32| {
            let (micros, days) = (micros.to_be_bytes(), days.to_be_bytes());
            [&micros[..], &days[..], &months.to_be_bytes()[..]].concat()
        };
        for (value, text) in [
            (interval(11_045_000_006, 2, 1), "1 mons 2 days 03:04:05.000006"),
            (interval(-1, 0, -13), "-13 mons 0 days -00:00:00.000001"),
            (interval(86_399_999_999, -1, 0), "0 mons -1 days 23:59:59.999999"),
            (interval(i64::MIN, i32::MIN, 0), "0 mons -2147483648 days -2562047788:00:54.775808"),
        ] {
            let typed = Parameter::Typed("INTERVAL".into(), Some(text.to_owned()));
            check(types::INTERVAL, &value, typed);
        }
        let of_day = 86_399_999_999_i64;
        let text = "23:59:59.999999".to_owned();
        check(types::TIME, &of_day.to_be_bytes(), Parameter::Text(text.clone()));
        let declared = |oid, value: &[u8]| read(value, oid, TypeSource::Declared, Format::Binary);
        assert_eq!(
            declared(types::TIME.oid, &of_day.to_be_bytes()),
            Ok(Parameter::Typed("TIME".into(), Some(text))),
            "value-1"
        );
        let text = Some("0 mons 0 days 01:00:00.000000".to_owned());
        assert_eq!(
            declared(types::INTERVAL.oid, &interval(3_600_000_000, 0, 0)),
            Ok(Parameter::Typed("INTERVAL".into(), text)),
            "value-1"
        );
        let code = |oid, value: &[u8]| declared(oid, value).unwrap_err().code;
        assert_eq!(code(types::INTERVAL.oid, &[0; 15]), "22P03");
        assert_eq!(code(types::TIME.oid, &[0; 4]), "22P03");
        assert_eq!(code(types::TIME.oid, &(of_day + 1).to_be_bytes()), "22008");
        assert_eq!(code(types::TIME.oid, &(-1_i64).to_be_bytes()), "22008");
    }

    // `a + NULL` has a type only if NULL has one.
    #[test]
    fn null_has_the_type_of_other_values_of_its_parameter() {
        for (ty, expected) in [
            (types::INT4, Parameter::Typed("BIGINT".into(), None)),
            (types::FLOAT8, Parameter::Typed("DOUBLE".into(), None)),
            (types::NUMERIC, Parameter::Typed("DECIMAL(1,0)".into(), None)),
            (types::INTERVAL, Parameter::Typed("INTERVAL".into(), None)),
            (types::TIMESTAMP, Parameter::Null),
            (types::TEXT, Parameter::Null),
        ] {
            assert_eq!(missing(ty.oid, TypeSource::Inferred), expected, "value-1");
        }
    }

    #[test]
    fn declared_parameters_keep_their_type() {
        let declared =
            |oid, text: &str| read(text.as_bytes(), oid, TypeSource::Declared, Format::Text);
        let day = Some("2025-03-01".to_owned());
        assert_eq!(
            declared(types::DATE.oid, "2025-03-01"),
            Ok(Parameter::Typed("DATE".into(), day))
        );
        let number = Some("12.50".to_owned());
        let expected = Parameter::Typed("DECIMAL(4,2)".into(), number);
        assert_eq!(declared(types::NUMERIC.oid, "12.50"), Ok(expected.clone()), "value-2");
        let inferred = read(b"12.50", types::NUMERIC.oid, TypeSource::Inferred, Format::Text);
        assert_eq!(inferred, Ok(expected), "it is not rounded to the scale of a column");
        assert_eq!(declared(types::NUMERIC.oid, "1e3"), Ok(Parameter::Double(1_000.0)));
        assert_eq!(declared(types::TEXT.oid, "1"), Ok(Parameter::Text("1".to_owned())));
    }

    // A parameter of the type int4 took 2147483648, and one of float4 1e39, which became infinity.
    #[test]
    fn numbers_beyond_their_type_are_refused() {
        let read_as = |ty: PgType, text: &str, source| {
            read(text.as_bytes(), ty.oid, source, Format::Text).map_err(|error| error.code)
        };
        for source in [TypeSource::Declared, TypeSource::Inferred] {
            for (ty, last, beyond) in [
                (types::INT2, "-32768", "-32769"),
                (types::INT4, "2147483647", "2147483648"),
                (types::INT8, "-9223372036854775808", "-9223372036854775809"),
                (types::INT8, "9223372036854775807", "99999999999999999999"),
                (types::OID, "4294967295", "4294967296"),
                (types::OID, "0", "-1"),
            ] {
                let expected = Parameter::Integer(last.parse().unwrap());
                assert_eq!(read_as(ty, last, source), Ok(expected), "value-4");
                assert_eq!(read_as(ty, beyond, source), Err("22003"), "value-4: {beyond}");
            }
            for (ty, beyond) in [
                (types::FLOAT4, "1e39"),
                (types::FLOAT4, "-1e-60"),
                (types::FLOAT8, "1e400"),
                (types::FLOAT8, "-1e400"),
                (types::FLOAT8, "0.1e-400"),
                (types::NUMERIC, "1e400"),
            ] {
                assert_eq!(read_as(ty, beyond, source), Err("22003"), "value-4: {beyond}");
            }
            for (text, expected) in
                [("-Infinity", f64::NEG_INFINITY), ("inf", f64::INFINITY), ("0e-999", 0.0)]
            {
                let expected = Ok(Parameter::Double(expected));
                assert_eq!(read_as(types::FLOAT8, text, source), expected, "{text}");
            }
            let list = PgType { oid: types::INT4.array, size: -1, array: 0 };
            assert_eq!(read_as(list, "{1,2147483648}", source), Err("22003"), "value-4");
        }
        assert_eq!(boolean("Tru"), Some(true));
        assert_eq!(boolean("of"), Some(false));
    }

    #[test]
    fn malformed_values_are_refused() {
        let code = |oid, value: &[u8], format| {
            read(value, oid, TypeSource::Declared, format).unwrap_err().code
        };
        assert_eq!(code(types::INT4.oid, &[1, 2], Format::Binary), "22P03");
        assert_eq!(code(types::INT4.oid, b"x", Format::Text), "22P02");
        assert_eq!(code(types::BOOL.oid, b"perhaps", Format::Text), "22P02");
        assert_eq!(code(types::BOOL.oid, b"o", Format::Text), "22P02");
        assert_eq!(code(types::TEXT.oid, b"a\xff", Format::Text), "22021");
        assert_eq!(code(types::TEXT.oid, b"a\0b", Format::Binary), "22021");
        assert_eq!(code(types::TIMESTAMP.oid, b"infinity", Format::Text), "22008");
        assert_eq!(code(types::TIMESTAMP.oid, &i64::MAX.to_be_bytes(), Format::Binary), "22008");
        let near = (i64::MAX - 1).to_be_bytes();
        assert_eq!(code(types::TIMESTAMP.oid, &near, Format::Binary), "22008");
        let before = (-730_120_i32).to_be_bytes();
        assert_eq!(code(types::DATE.oid, &before, Format::Binary), "22008");
        let before = (-63_082_281_600_000_001_i64).to_be_bytes();
        assert_eq!(code(types::TIMESTAMP.oid, &before, Format::Binary), "22008");
        assert_eq!(code(600, &[0; 16], Format::Binary), "0A000");
    }
}
