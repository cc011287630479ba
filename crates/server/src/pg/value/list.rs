//! Arrays of a client as parameters.
//!
//! - VL1. Room is made for elements that can be there, whatever their count says.
//! - VL2. An element is what it would be as a parameter of its own.

use std::borrow::Cow;

use bytes::Buf;
use tidegate_query::{Parameter, parse_list};

use super::super::encode::Format;
use super::super::fault::Fault;
use super::super::types::{self, PgType};
use super::Known;

/// The value of a parameter that is an array of such elements. `number` counts from 1.
pub(super) fn parameter(
    value: &[u8],
    (element, known): (PgType, Known),
    format: Format,
    number: usize,
) -> Result<Parameter, Fault> {
    let one = |value: Option<&[u8]>| super::parameter(value, (element.oid, known), format, number);
    let values = match format {
        Format::Text => {
            let text = super::text(value)?.and_then(parse_list);
            let code = "22P02";
            let texts = text.ok_or_else(|| bad(code, number))?;
            texts.iter().map(|it| one(it.as_ref().map(String::as_bytes))).collect()
        }
        Format::Binary => {
            let values = elements(value, element).ok_or_else(|| bad("22P03", number))?;
            values.into_iter().map(one).collect::<Result<Vec<_>, _>>()
        }
    };
    Ok(Parameter::List(sql_type_of(element), values?))
}

fn bad(code: &'static str, number: usize) -> Fault {
    Fault::new(code, format!("parameter {number} is no array of one dimension"))
}

/// The type of elements in our SQL.
pub(super) fn sql_type_of(element: PgType) -> Option<Cow<'static, str>> {
    let is = |ty: PgType| ty == element;
    if is(types::NUMERIC) {
        // With as many digits on either side as a DECIMAL has at most.
        return Some(Cow::Borrowed("DOUBLE"));
    }
    super::sql_type(element.oid, "0").or_else(|| {
        Some(Cow::Borrowed(match element {
            _ if is(types::BOOL) => "BOOLEAN",
            _ if is(types::INT2) => "SMALLINT",
            _ if is(types::INT4) => "INT",
            _ if is(types::INT8) || is(types::OID) => "BIGINT",
            _ if is(types::FLOAT4) => "FLOAT",
            _ if is(types::FLOAT8) => "DOUBLE",
            _ => "VARCHAR",
        }))
    })
}

/// The elements of an array in its binary form: its dimensions, whether it has NULLs, the type, and
/// of each dimension the length and the first number.
fn elements(mut value: &[u8], element: PgType) -> Option<Vec<Option<&[u8]>>> {
    let dimensions = value.try_get_i32().ok()?;
    let _has_nulls = value.try_get_i32().ok()?;
    let oid = value.try_get_u32().ok()?;
    if oid != element.oid || !(0..=1).contains(&dimensions) {
        return None;
    }
    if dimensions == 0 {
        return value.is_empty().then(Vec::new);
    }
    let count = usize::try_from(value.try_get_i32().ok()?).ok()?;
    let _first = value.try_get_i32().ok()?;
    // VL1.
    let mut values = Vec::with_capacity(count.min(value.len() / 4));
    for _ in 0..count {
        let length = value.try_get_i32().ok()?;
        values.push(match usize::try_from(length) {
            Ok(length) => {
                let (own, rest) = value.split_at_checked(length)?;
                value = rest;
                Some(own)
            }
            Err(_) if length == -1 => None,
            Err(_) => return None,
        });
    }
    value.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], format: Format) -> Result<Parameter, &'static str> {
        let known = (types::INT4, Known::Inferred);
        parameter(bytes, known, format, 1).map_err(|fault| fault.code)
    }

    #[test]
    fn arrays_are_lists_of_parameters() {
        let expected =
            |values: &[Parameter]| Ok(Parameter::List(Some("INT".into()), values.into()));
        let both = [Parameter::Integer(7), Parameter::Null];
        let bytes = b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\
                      \0\0\0\x04\0\0\0\x07\xff\xff\xff\xff";
        assert_eq!(read(bytes, Format::Binary), expected(&both));
        assert_eq!(read(b"{7,NULL}", Format::Text), expected(&both));
        assert_eq!(read(b"\0\0\0\0\0\0\0\0\0\0\0\x17", Format::Binary), expected(&[]));
        assert_eq!(read(b"{}", Format::Text), expected(&[]));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length], Format::Binary), Err("22P03"), "{length}");
        }
        let many = b"\0\0\0\x01\0\0\0\0\0\0\0\x17\x7f\xff\xff\xff\0\0\0\x01";
        assert_eq!(read(many, Format::Binary), Err("22P03"), "VL1");
        assert_eq!(read(b"{x}", Format::Text), Err("22P02"), "VL2");
        assert_eq!(read(b"{{1},{2}}", Format::Text), Err("22P02"));
    }
}
