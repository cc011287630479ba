//! Lists as PostgreSQL's arrays: lists of lists are arrays of more dimensions.
//!
//! - encode_list-1. The text of a list of lists is `{{1,2},{3,4}}`, whose sublists are never
//!   quoted: it takes time and memory in proportion to its elements, at any depth.
//! - encode_list-2. PostgreSQL's arrays are rectangular. A list whose sublists differ in length, or
//!   are NULL, has the same text format with its own sublists, and no binary format. A list without
//!   any element is `{}`.
//! - encode_list-3. There are at most `types::DIMENSIONS_MAX` levels: `types` refuses others before
//!   a row is written.
//! - encode_list-4. The binary form names the type of the elements that the type of the column has.

use std::ops::Range;

use arrow::array::{Array, AsArray, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, UInt32Type};
use arrow::error::ArrowError;
use bytes::BufMut;

use super::{Format, Put, Room, RowStopped, Writer, with};
use crate::pg::types::{OID, PgType, element_type};

/// The least bytes of an element of a list, with the signs around it.
const ELEMENT_BYTES: usize = 8;

/// The first element of each list of a level, and the end of the last list.
enum Offsets<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

/// All lists of one level.
struct Level<'a> {
    offsets: Offsets<'a>,
    nulls: Option<&'a NullBuffer>,
}

/// The lists of a column: the outermost first, and the elements of the innermost.
struct Lists<'a> {
    levels: Vec<Level<'a>>,
    values: Writer<'a>,
    element: PgType,
}

/// The error of a list with sublists of different lengths (encode_list-2).
struct Ragged;

pub(super) fn lists<'a>(
    field: &'a Field,
    array: &'a dyn Array,
    format: Format,
) -> Result<Put<'a>, ArrowError> {
    let (mut levels, mut field, mut array) = (Vec::new(), field, array);
    loop {
        let (offsets, values) = match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                (Offsets::Small(lists.value_offsets()), lists.values())
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                (Offsets::Large(lists.value_offsets()), lists.values())
            }
            _ => break,
        };
        let (DataType::List(of) | DataType::LargeList(of)) = field.data_type() else { break };
        levels.push(Level { offsets, nulls: array.nulls() });
        (field, array) = (of.as_ref(), values.as_ref());
    }
    let (element, _) = element_type(field);
    let values = match (array.data_type(), format) {
        // Only its name tells that a field has OIDs, of four bytes.
        (DataType::UInt32, Format::Binary) if element == OID => {
            let put = with::<UInt32Type>(array, |value, bytes| bytes.put_u32(value));
            Writer { nulls: array.logical_nulls(), put }
        }
        _ => Writer::new(field, array, format)?,
    };
    let lists = Lists { levels, values, element };
    Ok(match format {
        Format::Text | Format::TextIso => Box::new(move |row, room| lists.put_text(row, room)),
        Format::Binary => Box::new(move |row, room| lists.put_binary(row, room)),
    })
}

impl Level<'_> {
    fn range(&self, list: usize) -> Range<usize> {
        fn between<O: OffsetSizeTrait>(offsets: &[O], list: usize) -> Range<usize> {
            offsets[list].as_usize()..offsets[list + 1].as_usize()
        }
        match self.offsets {
            Offsets::Small(offsets) => between(offsets, list),
            Offsets::Large(offsets) => between(offsets, list),
        }
    }

    fn is_null(&self, list: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(list))
    }
}

impl Lists<'_> {
    /// Returns the length in each dimension, and the elements of the innermost lists
    /// (encode_list-2).
    fn shape(&self, row: usize, room: &mut Room<'_>) -> Result<(Vec<usize>, Range<usize>), Ragged> {
        let mut range = self.levels[0].range(row);
        let mut lengths = vec![range.len()];
        for level in &self.levels[1..] {
            if range.is_empty() {
                return Ok((vec![0], range));
            }
            let length = level.range(range.start).len();
            for (number, list) in range.clone().enumerate() {
                if level.is_null(list)
                    || level.range(list).len() != length
                    || room.check_element(number)
                {
                    return Err(Ragged);
                }
            }
            lengths.push(length);
            range = level.range(range.start).start..level.range(range.end - 1).end;
        }
        Ok((lengths, range))
    }

    fn put_text(&self, row: usize, room: &mut Room<'_>) {
        if let Ok((_, elements)) = self.shape(row, room)
            && elements.is_empty()
        {
            return room.put_slice(b"{}");
        }
        self.put_braces(0, row, room);
    }

    /// Writes `{1,NULL,"a b"}`, or nested lists. Each level calls the next one, of which there are
    /// few (encode_list-3).
    fn put_braces(&self, at: usize, list: usize, room: &mut Room<'_>) {
        room.put_u8(b'{');
        let sublists = self.levels.get(at + 1);
        for (number, row) in self.levels[at].range(list).enumerate() {
            if room.check_element(number) {
                return;
            }
            if 0 < number {
                room.put_u8(b',');
            }
            match sublists {
                Some(level) if level.is_null(row) => room.put_slice(b"NULL"),
                Some(_) => self.put_braces(at + 1, row, room),
                None => self.put_element(row, room),
            }
        }
        room.put_u8(b'}');
    }

    fn put_element(&self, row: usize, room: &mut Room<'_>) {
        if self.values.is_null(row) {
            return room.put_slice(b"NULL");
        }
        let start = room.len();
        self.values.push(row, room);
        if !needs_quotes(&room[start..]) {
            return;
        }
        let value = room[start..].to_vec();
        room.truncate(start);
        room.reserve(value.len() + 2);
        room.put_u8(b'"');
        for byte in value {
            if matches!(byte, b'"' | b'\\') {
                room.put_u8(b'\\');
            }
            room.put_u8(byte);
        }
        room.put_u8(b'"');
    }

    /// Writes the number of dimensions, a flag for NULLs, the type of elements, the length and the
    /// first index of each dimension, and the elements.
    fn put_binary(&self, row: usize, room: &mut Room<'_>) {
        let Ok((lengths, elements)) = self.shape(row, room) else {
            return room.stop(RowStopped::Ragged);
        };
        let dimensions = if elements.is_empty() { &[][..] } else { &lengths };
        let has_null = elements.clone().any(|row| self.values.is_null(row));
        room.put_u32(u32::try_from(dimensions.len()).expect("encode_list-3"));
        room.put_i32(has_null.into());
        room.put_u32(self.element.oid);
        for length in dimensions {
            room.put_u32(u32::try_from(*length).unwrap_or(u32::MAX));
            room.put_i32(1);
        }
        for (number, row) in elements.enumerate() {
            if room.check_element(number) {
                return;
            }
            self.values.push_sized(row, room);
        }
    }
}

/// Returns a lower estimate of the bytes of an array's values: those of texts and bytes, and some
/// for each element of a list.
pub(in crate::pg) fn weight(array: &dyn Array) -> usize {
    fn between<O: OffsetSizeTrait>(offsets: &[O]) -> Range<usize> {
        let end = |offset: Option<&O>| offset.map_or(0, |offset| offset.as_usize());
        end(offsets.first())..end(offsets.last())
    }
    // The length of a text is in the lower half of its view.
    let views =
        |views: &[u128]| views.iter().map(|view| (view & 0xffff_ffff) as usize).sum::<usize>();
    let elements = |values: &dyn Array, range: Range<usize>| {
        ELEMENT_BYTES * range.len() + weight(values.slice(range.start, range.len()).as_ref())
    };
    match array.data_type() {
        DataType::Utf8 => between(array.as_string::<i32>().value_offsets()).len(),
        DataType::LargeUtf8 => between(array.as_string::<i64>().value_offsets()).len(),
        DataType::Binary => between(array.as_binary::<i32>().value_offsets()).len(),
        DataType::LargeBinary => between(array.as_binary::<i64>().value_offsets()).len(),
        DataType::Utf8View => views(array.as_string_view().views()),
        DataType::BinaryView => views(array.as_binary_view().views()),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            elements(lists.values().as_ref(), between(lists.value_offsets()))
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            elements(lists.values().as_ref(), between(lists.value_offsets()))
        }
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            weight(values.as_ref()) / values.len().max(1) * array.len()
        }
        ty if ty.is_nested() => array.get_array_memory_size(),
        _ => 0,
    }
}

fn needs_quotes(value: &[u8]) -> bool {
    let is_special =
        |byte: &u8| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace();
    value.is_empty() || value.eq_ignore_ascii_case(b"null") || value.iter().any(is_special)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Int32Array, ListArray, RecordBatch, StringArray, StringViewArray, UInt32Array,
    };
    use arrow::buffer::OffsetBuffer;
    use bytes::BytesMut;
    use tidegate_query::CancelHandle;

    use super::super::{Guard, RowWriter, arrays};
    use super::*;
    use crate::budget::tests::reservation;
    use crate::pg::types::{TEXT, type_of};

    /// Makes lists of these lengths; `None` is NULL.
    fn of(values: ArrayRef, lengths: &[Option<usize>]) -> ArrayRef {
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|it| it.unwrap_or(0)));
        let nulls = lengths.iter().map(Option::is_some).collect::<NullBuffer>();
        Arc::new(ListArray::new(field, offsets, values, Some(nulls)))
    }

    fn numbers(count: i32) -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(1..=count))
    }

    /// Returns the message with the first row of a column, written with this much memory.
    fn message(
        array: &ArrayRef,
        format: Format,
        memory: u64,
        cancel_handle: &CancelHandle,
    ) -> Result<Vec<u8>, RowStopped> {
        let batch = RecordBatch::try_from_iter([("c", Arc::clone(array))]).unwrap();
        let arrays = arrays(&batch).unwrap();
        let schema = batch.schema();
        let writer = RowWriter::new(&schema, &arrays, &[format]).unwrap();
        let mut guard = Guard::new(reservation(memory), cancel_handle);
        let mut bytes = BytesMut::new();
        let done = writer.push(0, &mut Room::new(&mut bytes, &mut guard));
        assert!(done.is_ok() || bytes.is_empty(), "pg_encode-3: nothing of it is left");
        done.map(|()| bytes.to_vec())
    }

    fn value(array: &ArrayRef, format: Format) -> Result<Vec<u8>, RowStopped> {
        let message = message(array, format, 1 << 30, &CancelHandle::default());
        // The tag, two lengths and a count stand before it.
        message.map(|bytes| bytes[11..].to_vec())
    }

    #[track_caller]
    fn check(array: &ArrayRef, expected: &str) {
        let text = value(array, Format::Text).unwrap();
        assert_eq!(String::from_utf8_lossy(&text), expected, "encode_list-1");
    }

    fn words(numbers: &[i32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    // Lists within lists were quoted like texts, each level doubling the backslashes of the one
    // below: a statement of 250 bytes had a text of terabytes, and blocked a thread of connections
    // for ever. And `{{1,2},{3,4}}` was `{"{1,2}","{3,4}"}`.
    #[test]
    fn lists_of_lists_are_arrays_of_more_dimensions() {
        let square = of(of(numbers(4), &[Some(2), Some(2)]), &[Some(2)]);
        check(&square, "{{1,2},{3,4}}");
        let elements = [4, 1, 4, 2, 4, 3, 4, 4];
        let expected = [words(&[2, 0, 23, 2, 1, 2, 1]), words(&elements)].concat();
        assert_eq!(value(&square, Format::Binary), Ok(expected));
        let deep = (0..4).fold(of(numbers(1), &[Some(1)]), |array, _| of(array, &[Some(1)]));
        check(&deep, "{{{{{1}}}}}");
        let expected = words(&[5, 0, 23, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1]);
        assert_eq!(value(&deep, Format::Binary), Ok(expected));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a\"\\"), None, Some("{}")]));
        check(&of(of(texts, &[Some(3)]), &[Some(1)]), r#"{{"a\"\\",NULL,"{}"}}"#);
    }

    #[test]
    fn ragged_lists_are_texts_without_a_binary_form() {
        for (lengths, expected) in [
            (&[Some(1), Some(2)][..], "{{1},{2,3}}"),
            (&[Some(3), Some(0)], "{{1,2,3},{}}"),
            (&[Some(3), None], "{{1,2,3},NULL}"),
            (&[None], "{NULL}"),
        ] {
            let array = of(of(numbers(3), lengths), &[Some(lengths.len())]);
            check(&array, expected);
            assert_eq!(
                value(&array, Format::Binary),
                Err(RowStopped::Ragged),
                "encode_list-2: {expected}"
            );
        }
        for lengths in [&[][..], &[Some(0), Some(0)]] {
            let array = of(of(numbers(0), lengths), &[Some(lengths.len())]);
            check(&array, "{}");
            assert_eq!(value(&array, Format::Binary), Ok(words(&[0, 0, 23])), "encode_list-2");
        }
    }

    // Lists of texts were described as text[], and their elements as varchar; those of OIDs had
    // elements of eight bytes.
    #[test]
    fn elements_have_the_type_of_the_array() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let oids: ArrayRef = Arc::new(UInt32Array::from(vec![7]));
        let named = |name: &str, values: &ArrayRef| -> ArrayRef {
            let field = Arc::new(Field::new(name, values.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([1]);
            Arc::new(ListArray::new(field, offsets, Arc::clone(values), None))
        };
        for (array, element, expected) in [
            (named("item", &texts), TEXT, [&words(&[1, 0, 25, 1, 1, 1])[..], b"a"].concat()),
            (named("oid", &oids), OID, words(&[1, 0, 26, 1, 1, 4, 7])),
        ] {
            let field = Field::new("c", array.data_type().clone(), true);
            assert_eq!(type_of(&field).0.oid, element.array, "encode_list-4");
            assert_eq!(value(&array, Format::Binary), Ok(expected), "encode_list-4");
        }
    }

    #[test]
    fn a_row_is_given_up_when_it_is_cancelled_or_has_no_room() {
        let array = of(numbers(200_000), &[Some(200_000)]);
        let cancel_handle = CancelHandle::default();
        for format in [Format::Text, Format::Binary] {
            assert!(message(&array, format, 8 << 20, &cancel_handle).is_ok());
            let stopped = message(&array, format, 300_000, &cancel_handle);
            assert!(matches!(stopped, Err(RowStopped::Memory(_))), "room-1");
        }
        cancel_handle.cancel();
        let stopped = message(&array, Format::Text, 8 << 20, &cancel_handle);
        assert_eq!(stopped, Err(RowStopped::Canceled), "room-2");
    }

    #[test]
    fn texts_and_elements_have_weight() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["abc", "", "defgh"]));
        assert_eq!((weight(&numbers(9)), weight(&texts), weight(&texts.slice(1, 2))), (0, 8, 5));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec!["abc", "a text that is longer"]));
        assert_eq!((weight(&views), weight(&views.slice(1, 1))), (24, 21));
        let lists = of(of(numbers(4), &[Some(3), Some(1)]), &[Some(1), Some(1)]);
        assert_eq!(weight(&lists), 2 * ELEMENT_BYTES + 4 * ELEMENT_BYTES);
        assert_eq!(weight(&lists.slice(1, 1)), ELEMENT_BYTES + ELEMENT_BYTES);
    }

    #[test]
    fn elements_are_quoted_where_they_must() {
        for (text, expected) in
            [("a", false), ("", true), ("NULL", true), ("a b", true), ("{", true)]
        {
            assert_eq!(needs_quotes(text.as_bytes()), expected, "{text}");
        }
    }
}
