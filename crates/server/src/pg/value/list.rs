//! Arrays of a client as parameters.
//!
//! - value_list-1. Memory is reserved only for elements that fit into the message, whatever their
//!   count says; there are at most `limits::ARRAY_ELEMENTS`, and at most `types::DIMENSIONS_MAX`
//!   dimensions.
//! - value_list-2. An element is read like a parameter of its own.
//! - value_list-3. Arrays of more dimensions are lists of lists. In text format, sublists may
//!   differ in length, as lists of answers may (`encode::list`). Reading takes time in proportion
//!   to the bytes, and no more stack for more dimensions.

use std::borrow::Cow;

use bytes::Buf;
use tidegate_model::limits;
use tidegate_query::Parameter;

use super::super::encode::Format;
use super::super::error_response::ErrorResponse;
use super::super::types::{self, DIMENSIONS_MAX, PgType};
use super::{Counted, TypeSource};

/// Returns the value of a parameter that is an array of such elements. `number` counts from 1.
pub(super) fn parameter(
    value: &[u8],
    number: usize,
    element: PgType,
    source: TypeSource,
    format: Format,
    counted: &mut Counted,
) -> Result<Parameter, ErrorResponse> {
    let mut lists = Lists { element, source, number, counted, elements: 0 };
    let values = match format {
        Format::Text | Format::TextIso => {
            let text = super::text(value)?.ok_or_else(|| lists.bad("22P02"))?;
            lists.of_text(text)?
        }
        Format::Binary => lists.of_binary(value)?,
    };
    lists.list(values)
}

/// A builder of lists.
struct Lists<'a> {
    element: PgType,
    source: TypeSource,
    number: usize,
    counted: &'a mut Counted,
    /// The number of elements so far (value_list-1).
    elements: usize,
}

impl Lists<'_> {
    fn bad(&self, code: &'static str) -> ErrorResponse {
        ErrorResponse::new(code, format!("parameter {} is no array", self.number))
    }

    fn too_deep(&self) -> ErrorResponse {
        let message = format!(
            "parameter {} is an array of more than {DIMENSIONS_MAX} dimensions, the most",
            self.number
        );
        ErrorResponse::new("54000", message)
    }

    /// Reads an element (value_list-2).
    fn element(
        &mut self,
        value: Option<&[u8]>,
        format: Format,
    ) -> Result<Parameter, ErrorResponse> {
        self.elements += 1;
        if limits::ARRAY_ELEMENTS < self.elements {
            let message = format!(
                "parameter {} is an array of more than {} elements, the most: COPY has no bound",
                self.number,
                limits::ARRAY_ELEMENTS
            );
            return Err(ErrorResponse::new("54000", message));
        }
        let (oid, source) = (self.element.oid, self.source);
        if value.is_none() {
            // The list has a type without it.
            let null = super::null(oid, source);
            self.counted.add(&null)?;
            return Ok(null);
        }
        super::parameter(value, self.number, oid, source, format, self.counted)
    }

    /// Makes a list of values that are counted already.
    fn list(&mut self, mut values: Vec<Parameter>) -> Result<Parameter, ErrorResponse> {
        values.shrink_to_fit();
        let list = Parameter::List(sql_type_of(self.element), Vec::new());
        self.counted.add(&list)?;
        Ok(match list {
            Parameter::List(ty, _) => Parameter::List(ty, values),
            other => other,
        })
    }

    /// Parses `{1,NULL,"a b"}`, or nested lists (value_list-3).
    fn of_text(&mut self, text: &str) -> Result<Vec<Parameter>, ErrorResponse> {
        let bad = |lists: &Self| lists.bad("22P02");
        let mut rest = text.trim().strip_prefix('{').ok_or_else(|| bad(self))?.trim_start();
        let mut open = vec![Vec::new()];
        loop {
            // A value, the beginning of a list, or the end of an empty one follows.
            let is_empty = open.last().is_some_and(Vec::is_empty);
            let value = if let Some(behind) = rest.strip_prefix('{') {
                if open.len() == DIMENSIONS_MAX {
                    return Err(self.too_deep());
                }
                open.push(Vec::new());
                rest = behind.trim_start();
                continue;
            } else if is_empty && rest.starts_with('}') {
                None
            } else {
                let (text, behind) = scalar(rest).ok_or_else(|| bad(self))?;
                rest = behind.trim_start();
                Some(self.element(text.as_deref().map(str::as_bytes), Format::Text)?)
            };
            if let Some(value) = value {
                push(&mut open, value).ok_or_else(|| bad(self))?;
            }
            // Ends of lists follow, up to the next comma.
            while let Some(behind) = rest.strip_prefix('}') {
                rest = behind.trim_start();
                let values = open.pop().ok_or_else(|| bad(self))?;
                if open.is_empty() {
                    return if rest.is_empty() { Ok(values) } else { Err(bad(self)) };
                }
                let list = self.list(values)?;
                push(&mut open, list).ok_or_else(|| bad(self))?;
            }
            rest = rest.strip_prefix(',').ok_or_else(|| bad(self))?.trim_start();
            // A comma needs a value after it.
            if rest.starts_with('}') {
                return Err(bad(self));
            }
        }
    }

    /// Reads the number of dimensions, a flag for NULLs, the type, and for each dimension the
    /// length and the first index; then the elements.
    fn of_binary(&mut self, mut value: &[u8]) -> Result<Vec<Parameter>, ErrorResponse> {
        let bad = || self.bad("22P03");
        let header = |value: &mut &[u8]| {
            let (dimensions, _has_nulls) = (value.try_get_i32().ok()?, value.try_get_i32().ok()?);
            Some((dimensions, value.try_get_u32().ok()?))
        };
        let (dimensions, oid) = header(&mut value).ok_or_else(bad)?;
        let dimensions = usize::try_from(dimensions).map_err(|_| bad())?;
        if oid != self.element.oid {
            return Err(bad());
        }
        if DIMENSIONS_MAX < dimensions {
            return Err(self.too_deep());
        }
        let mut lengths = Vec::with_capacity(dimensions);
        for _ in 0..dimensions {
            let length = value.try_get_i32().ok().and_then(|length| usize::try_from(length).ok());
            lengths.push(length.ok_or_else(bad)?);
            value.try_get_i32().map_err(|_| bad())?;
        }
        // The count is bounded by the bytes of the message (value_list-1).
        let count = lengths.iter().try_fold(1_usize, |count, length| count.checked_mul(*length));
        let count = count.filter(|count| *count <= value.len() / 4 || lengths.is_empty());
        let count = if lengths.is_empty() { 0 } else { count.ok_or_else(bad)? };
        let mut values = Vec::with_capacity(count.min(limits::ARRAY_ELEMENTS));
        for _ in 0..count {
            let own = sized(&mut value).ok_or_else(|| self.bad("22P03"))?;
            values.push(self.element(own, Format::Binary)?);
        }
        if !value.is_empty() {
            return Err(self.bad("22P03"));
        }
        // Lists are made from the innermost to the outermost.
        for length in lengths.iter().skip(1).rev().filter(|length| 0 < **length) {
            let mut lists = Vec::with_capacity(values.len() / length);
            let mut values_left = values.into_iter();
            while !values_left.as_slice().is_empty() {
                lists.push(self.list(values_left.by_ref().take(*length).collect())?);
            }
            values = lists;
        }
        Ok(values)
    }
}

/// Reads a value after its length; -1 is NULL.
fn sized<'v>(value: &mut &'v [u8]) -> Option<Option<&'v [u8]>> {
    let length = value.try_get_i32().ok()?;
    match usize::try_from(length) {
        Ok(length) => {
            let (own, rest) = value.split_at_checked(length)?;
            *value = rest;
            Some(Some(own))
        }
        Err(_) if length == -1 => Some(None),
        Err(_) => None,
    }
}

/// Adds to the innermost open list. `None` if lists and other values stand side by side.
fn push(open: &mut [Vec<Parameter>], value: Parameter) -> Option<()> {
    let is_list = |value: &Parameter| matches!(value, Parameter::List(..));
    let is_null = |value: &Parameter| matches!(value, Parameter::Null | Parameter::Typed(_, None));
    let values = open.last_mut()?;
    let is_alike =
        |first: &Parameter| is_list(first) == is_list(&value) || is_null(first) || is_null(&value);
    if !values.first().is_none_or(is_alike) {
        return None;
    }
    values.push(value);
    Some(())
}

/// The text of an element, `None` for NULL, and the rest after it.
type Scalar<'t> = (Option<Cow<'t, str>>, &'t str);

fn scalar(text: &str) -> Option<Scalar<'_>> {
    match text.strip_prefix('"') {
        Some(quoted) => {
            let (text, behind) = quoted_text(quoted)?;
            Some((Some(text), behind))
        }
        None => plain_text(text),
    }
}

/// Reads up to the closing quote.
fn quoted_text(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = memchr::memchr2(b'"', b'\\', text.as_bytes())?;
    if text.as_bytes()[end] == b'"' {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let (mut element, mut rest) = (text[..end].to_owned(), &text[end..]);
    loop {
        let end = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
        element.push_str(&rest[..end]);
        if rest.as_bytes()[end] == b'"' {
            return Some((Cow::Owned(element), &rest[end + 1..]));
        }
        let escaped = rest[end + 1..].chars().next()?;
        element.push(escaped);
        rest = &rest[end + 1 + escaped.len_utf8()..];
    }
}

/// Reads up to a comma or the end of the list.
fn plain_text(text: &str) -> Option<Scalar<'_>> {
    let is_end = |byte: u8| matches!(byte, b',' | b'}');
    let is_special = |byte: u8| is_end(byte) || matches!(byte, b'{' | b'"' | b'\\');
    let end = text.bytes().position(is_special)?;
    if is_end(text.as_bytes()[end]) {
        let element = text[..end].trim_end();
        let is_null = element.eq_ignore_ascii_case("null");
        let value = (!is_null).then_some(Cow::Borrowed(element));
        return (!element.is_empty()).then_some((value, &text[end..]));
    }
    // A text with a backslash is never NULL.
    let (mut element, mut chars) = (String::new(), text.char_indices());
    let end = loop {
        match chars.next()? {
            (at, ',' | '}') => break at,
            (_, '\\') => element.push(chars.next()?.1),
            (_, '{' | '"') => return None,
            (_, char) => element.push(char),
        }
    };
    element.truncate(element.trim_end().len());
    Some((Some(Cow::Owned(element)), &text[end..]))
}

/// Returns the SQL type of elements.
pub(super) fn sql_type_of(element: PgType) -> Option<Cow<'static, str>> {
    let is = |ty: PgType| ty == element;
    if is(types::NUMERIC) {
        // It is the type of a list without elements: a DOUBLE has the range of every DECIMAL.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::tests::reservation;

    fn read_as(ty: PgType, bytes: &[u8], format: Format) -> Result<Parameter, &'static str> {
        let mut counted = Counted::new(reservation(1 << 30));
        let read = parameter(bytes, 1, ty, TypeSource::Inferred, format, &mut counted);
        read.map_err(|error| error.code)
    }

    fn read(bytes: &[u8], format: Format) -> Result<Parameter, &'static str> {
        read_as(types::INT4, bytes, format)
    }

    fn list(values: &[Parameter]) -> Parameter {
        Parameter::List(Some("INT".into()), values.into())
    }

    fn numbers(values: &[i64]) -> Parameter {
        list(&values.iter().copied().map(Parameter::Integer).collect::<Vec<_>>())
    }

    fn words(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn arrays_are_lists_of_parameters() {
        let both = Ok(list(&[Parameter::Integer(7), Parameter::Null]));
        let bytes = words(&[1, 1, 23, 2, 1, 4, 7, -1]);
        assert_eq!(read(&bytes, Format::Binary), both);
        assert_eq!(read(b"{7,NULL}", Format::Text), both);
        assert_eq!(read(&words(&[0, 0, 23]), Format::Binary), Ok(list(&[])));
        assert_eq!(read(b" { } ", Format::Text), Ok(list(&[])));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length], Format::Binary), Err("22P03"), "{length}");
        }
        for lie in [&[1, 0, 23, i32::MAX, 1][..], &[3, 0, 23, i32::MAX, 1, i32::MAX, 1, 9, 1]] {
            assert_eq!(read(&words(lie), Format::Binary), Err("22P03"), "value_list-1");
        }
        assert_eq!(read(b"{x}", Format::Text), Err("22P02"), "value_list-2");
    }

    #[test]
    fn arrays_of_more_dimensions_are_lists_of_lists() {
        let square = Ok(list(&[numbers(&[1, 2]), numbers(&[3, 4])]));
        assert_eq!(read(b"{{1,2},{3,4}}", Format::Text), square, "value_list-3");
        assert_eq!(read(b" { { 1 , 2 } , { 3,4} } ", Format::Text), square);
        let bytes = words(&[2, 0, 23, 2, 1, 2, 1, 4, 1, 4, 2, 4, 3, 4, 4]);
        assert_eq!(read(&bytes, Format::Binary), square, "value_list-3");
        let ragged = Ok(list(&[numbers(&[1]), numbers(&[]), Parameter::Null]));
        assert_eq!(read(b"{{1},{},NULL}", Format::Text), ragged, "value_list-3");
        assert_eq!(read(&words(&[2, 0, 23, 0, 1, 2, 1]), Format::Binary), Ok(list(&[])));
        assert!(read(b"{{{{{{1}}}}}}", Format::Text).is_ok());
        assert_eq!(read(b"{{{{{{{1}}}}}}}", Format::Text), Err("54000"), "value_list-1");
        let deep = "{".repeat(100_000);
        assert_eq!(read(deep.as_bytes(), Format::Text), Err("54000"), "value_list-1");
        let seven = [&[7, 0, 23][..], &[1, 1].repeat(7), &[4, 1]].concat();
        assert_eq!(read(&words(&seven), Format::Binary), Err("54000"), "value_list-1");
    }

    #[test]
    fn elements_are_read_as_postgresql_writes_them() {
        let texts = |bytes: &str| match read_as(types::TEXT, bytes.as_bytes(), Format::Text) {
            Ok(Parameter::List(_, values)) => {
                values.iter().map(|it| format!("{it}")).collect::<Vec<_>>().join(" ")
            }
            other => panic!("{bytes}: {other:?}"),
        };
        assert_eq!(texts("{NULL,null,\"NULL\",N\\ULL}"), r#"null null "NULL" "NULL""#);
        assert_eq!(texts(r#"{"a,b","c\"d\\e","",f g }"#), r#""a,b" "c\"d\\e" "" "f g""#);
        assert_eq!(texts("{\u{e9}\\,x}"), "\"\u{e9},x\"");
        let bad = [
            "", "1", "{", "{1", "{1,}", "{,1}", "{\"a}", "{\"a\"b}", "{a\\}", "{1}}", "{{1}",
            "{{1},2}", "{1,{2}}", "{1}{2}", "{{1}{2}}", "{{1},}", "}", "{}x",
        ];
        for text in bad {
            assert_eq!(read_as(types::TEXT, text.as_bytes(), Format::Text), Err("22P02"), "{text}");
        }
    }

    #[test]
    fn there_are_not_more_elements_than_a_statement_is_planned_with() {
        let text = format!("{{{}1}}", "1,".repeat(limits::ARRAY_ELEMENTS));
        assert_eq!(read(text.as_bytes(), Format::Text), Err("54000"), "value_list-1");
        let count = i32::try_from(limits::ARRAY_ELEMENTS + 1).unwrap();
        let bytes =
            [words(&[1, 0, 23, count, 1]), words(&[4, 1]).repeat(limits::ARRAY_ELEMENTS + 1)];
        assert_eq!(read(&bytes.concat(), Format::Binary), Err("54000"), "value_list-1");
    }
}
