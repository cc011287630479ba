//! Maps and unions, which only expressions give, as text: `{key: value, ..}` and `{name=value}`.
//!
//! The parts have the texts of their own types (value_text-1); a NULL among them is empty.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{ArrowNativeType, Field, UnionFields};
use arrow::error::ArrowError;

use super::{Column, ValueFormatter, formatter};

/// Formats maps.
pub(super) fn maps(array: &dyn Array) -> Result<ValueFormatter<'_>, ArrowError> {
    let maps = array.as_map();
    let (key, value) = maps.entries_fields();
    let keys = Column::new(key, maps.keys())?;
    let values = Column::new(value, maps.values())?;
    Ok(Box::new(move |row, text| {
        let ends = &maps.value_offsets()[row..row + 2];
        text.push('{');
        for (number, entry) in (ends[0].as_usize()..ends[1].as_usize()).enumerate() {
            if 0 < number {
                text.push_str(", ");
            }
            push(&keys, entry, text);
            text.push_str(": ");
            push(&values, entry, text);
        }
        text.push('}');
    }))
}

/// Formats unions, of which each value has one of these fields.
pub(super) fn unions<'a>(
    fields: &'a UnionFields,
    array: &'a dyn Array,
) -> Result<ValueFormatter<'a>, ArrowError> {
    let values = array.as_union();
    let mut parts = Vec::with_capacity(fields.len());
    for (id, field) in fields.iter() {
        parts.push((id, field.name().as_str(), Column::new(field, values.child(id))?));
    }
    Ok(Box::new(move |row, text| {
        let id = values.type_id(row);
        let part = parts.iter().find(|(known, ..)| *known == id);
        let (_, name, column) = part.expect("Arrow checks the ids of a union");
        text.push('{');
        text.push_str(name);
        text.push('=');
        push(column, values.value_offset(row), text);
        text.push('}');
    }))
}

/// Formats a dictionary, by the texts of its values.
pub(super) fn dictionaries<'a>(
    field: &Field,
    array: &'a dyn Array,
) -> Result<ValueFormatter<'a>, ArrowError> {
    let dictionary = array.as_any_dictionary();
    let values = formatter(field, dictionary.values())?;
    let keys = match dictionary.values().is_empty() {
        true => Vec::new(),
        false => dictionary.normalized_keys(),
    };
    Ok(Box::new(move |row, text| values(keys[row], text)))
}

fn push(column: &Column<'_>, row: usize, text: &mut String) {
    if !column.is_null(row) {
        column.push(row, text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, DictionaryArray, Int32Array, MapArray, StructArray, UnionArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Int32Type;

    use super::super::extremes;
    use super::*;

    fn texts(array: &dyn Array) -> Vec<String> {
        let field = Field::new("c", array.data_type().clone(), true);
        let column = Column::new(&field, array).unwrap();
        let text = |row| {
            let mut text = String::new();
            push(&column, row, &mut text);
            text
        };
        (0..array.len()).map(text).collect()
    }

    fn map_of(values: &ArrayRef) -> MapArray {
        let count = i32::try_from(values.len()).unwrap();
        let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(0..count));
        let fields = vec![
            Field::new("key", keys.data_type().clone(), false),
            Field::new("value", values.data_type().clone(), true),
        ];
        let entries = StructArray::new(fields.into(), vec![keys, Arc::clone(values)], None);
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let offsets = OffsetBuffer::from_lengths(vec![1; values.len()]);
        MapArray::new(field, offsets, entries, None, false)
    }

    fn union_of(values: &ArrayRef) -> UnionArray {
        let field = Arc::new(Field::new("part", values.data_type().clone(), true));
        let fields = [(0, field)].into_iter().collect::<UnionFields>();
        let ids = vec![0_i8; values.len()].into();
        UnionArray::try_new(fields, ids, None, vec![Arc::clone(values)]).unwrap()
    }

    // The text was Arrow's, which for times beyond its calendar is that of an error, and has other
    // forms of times and intervals.
    #[test]
    fn parts_have_the_texts_of_their_types() {
        for values in extremes::columns() {
            let parts = texts(&values);
            let expected = parts.iter().enumerate().map(|(at, part)| format!("{{{at}: {part}}}"));
            assert_eq!(texts(&map_of(&values)), expected.collect::<Vec<_>>(), "value_text-1");
            let expected = parts.iter().map(|part| format!("{{part={part}}}"));
            assert_eq!(texts(&union_of(&values)), expected.collect::<Vec<_>>(), "value_text-1");
            let keys = Int32Array::from_iter_values(0..i32::try_from(values.len()).unwrap());
            let dictionary = DictionaryArray::<Int32Type>::new(keys, values);
            assert_eq!(texts(&dictionary), parts, "value_text-1");
        }
    }

    #[test]
    fn a_map_has_all_entries_of_its_row_and_null_is_empty() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None, Some(9)]));
        let (field, _, entries, ..) = map_of(&values).into_parts();
        let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
        let map = MapArray::new(field, offsets, entries, None, false);
        assert_eq!(texts(&map), ["{0: 7, 1: }", "{}", "{2: 9}"]);
    }
}
