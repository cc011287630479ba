//! The names of a file's columns, and which columns of a table they are (COPY C-29 to C-31).

use std::collections::HashSet;

use tidegate_model::Schema;
use tidegate_model::schema::same_name;

use super::evidence::Evidence;
use super::records::Record;
use super::{ColumnMap, Header, SniffError, SniffOptions};
use crate::parse::trimmed;

/// C-31: the first record is a header if none of its cells is a value while some column below has
/// a type, or nothing is below and all of its cells look like names, or if most of its cells are
/// names of the table. It is also one if it has all names that the user gives, whatever is below.
pub(super) fn is_header(
    first: &Record<'_>,
    below: &[Evidence],
    options: &SniffOptions<'_>,
) -> bool {
    match options.header {
        Header::Present | Header::Match => return true,
        Header::Absent => return false,
        Header::Auto => {}
    }
    let texts = || first.cells.iter().map(|cell| trimmed(&cell.text));
    if let Some(schema) = options.expected {
        let is_name =
            |text: &[u8]| str::from_utf8(text).is_ok_and(|name| schema.find(name).is_some());
        let known = texts().filter(|text| is_name(text)).count();
        if first.count < 2 * known {
            return true;
        }
    }
    let has_value = texts().zip(below).any(|(text, column)| column.is_value(text));
    let mut named =
        options.designated.into_iter().chain(options.symbols.iter().map(String::as_str));
    let is_there = |name: &str| {
        texts().any(|text| str::from_utf8(text).is_ok_and(|text| same_name(text, name)))
    };
    // A row may have a symbol that is called like its column, but no timestamp is.
    if (options.designated.is_some() || !options.symbols.is_empty() && !has_value)
        && named.all(is_there)
    {
        return true;
    }
    let is_typed = |column: &Evidence| column.infer().ty != tidegate_model::ColumnType::Varchar;
    let has_rows = below.iter().any(|column| !column.is_empty());
    let is_alone = !has_rows && first.count > 1 && texts().all(looks_like_a_name);
    !has_value && (is_alone || below.iter().any(is_typed))
}

/// A word, as people call columns.
fn looks_like_a_name(text: &[u8]) -> bool {
    let is_start = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_' || *byte >= 0x80;
    let goes_on = |byte: &u8| is_start(byte) || byte.is_ascii_digit() || b" -.".contains(byte);
    text.first().is_some_and(is_start) && text.len() <= 64 && text.iter().all(goes_on)
}

/// The names in a header; an empty one is `f` and its position.
pub(super) fn header_names(header: &Record<'_>) -> Result<Vec<String>, SniffError> {
    let name = |(position, cell): (usize, &super::records::Cell<'_>)| {
        let text = trimmed(&cell.text);
        let name = str::from_utf8(text).map_err(|_| SniffError::NameNotUtf8 { position })?;
        Ok(if name.is_empty() { default_name(position) } else { name.to_owned() })
    };
    header.cells.iter().enumerate().map(name).collect()
}

/// The name of a column that has none.
pub(super) fn default_name(position: usize) -> String {
    format!("f{position}")
}

/// A table to be made of these names cannot have one twice.
pub(super) fn check_distinct(names: &[String]) -> Result<(), SniffError> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.to_lowercase())) {
        Some(name) => Err(SniffError::DuplicateName { name: name.clone() }),
        None => Ok(()),
    }
}

/// C-29, C-30.
pub(super) fn map(
    names: &[String],
    has_header: bool,
    schema: &Schema,
    options: &SniffOptions<'_>,
) -> Result<ColumnMap, SniffError> {
    if options.skip.iter().any(|skipped| names.iter().any(|name| same_name(name, skipped))) {
        return map_kept(names, has_header, schema, options);
    }
    let by_name = |names: &[String]| names.iter().map(|name| position(schema, name)).collect();
    if let Some(columns) = options.columns {
        let targets: Vec<Option<usize>> = by_name(columns);
        check_known(columns, &targets)?;
        check_distinct(columns)?;
        check_count(names.len(), columns.len())?;
        return Ok(ColumnMap { targets: targets[..names.len()].to_vec(), notes: vec![] });
    }
    let in_order = || {
        check_count(names.len(), schema.columns().len())?;
        Ok((0..names.len()).map(Some).collect())
    };
    if !has_header {
        return Ok(ColumnMap { targets: in_order()?, notes: vec![] });
    }
    if options.header == Header::Match {
        check_match(names, schema)?;
    }
    let targets: Vec<Option<usize>> = by_name(names);
    if targets.iter().all(Option::is_none) {
        let note = "the header has none of the table's names: fields are taken in order";
        return Ok(ColumnMap { targets: in_order()?, notes: vec![note.to_owned()] });
    }
    check_known(names, &targets)?;
    check_distinct(names)?;
    Ok(ColumnMap { targets, notes: vec![] })
}

/// The columns that are not left out.
pub(super) fn kept(names: &[String], options: &SniffOptions<'_>) -> Vec<String> {
    names.iter().filter(|name| is_kept(name, options)).cloned().collect()
}

fn is_kept(name: &str, options: &SniffOptions<'_>) -> bool {
    !options.skip.iter().any(|skipped| same_name(name, skipped))
}

/// As `map`, with columns that go nowhere: the others are mapped as if those were not there.
fn map_kept(
    names: &[String],
    has_header: bool,
    schema: &Schema,
    options: &SniffOptions<'_>,
) -> Result<ColumnMap, SniffError> {
    let kept = kept(names, options);
    let all = SniffOptions { skip: &[], ..*options };
    let ColumnMap { targets, notes } = map(&kept, has_header, schema, &all)?;
    let mut targets = targets.into_iter();
    let of = |name: &String| match is_kept(name, options) {
        true => targets.next().flatten(),
        false => None,
    };
    Ok(ColumnMap { targets: names.iter().map(of).collect(), notes })
}

fn position(schema: &Schema, name: &str) -> Option<usize> {
    schema.columns().iter().position(|column| same_name(&column.name, name))
}

fn check_known(names: &[String], targets: &[Option<usize>]) -> Result<(), SniffError> {
    let unknown = names.iter().zip(targets).filter(|(_, target)| target.is_none());
    let names: Vec<String> = unknown.map(|(name, _)| name.clone()).collect();
    if names.is_empty() { Ok(()) } else { Err(SniffError::UnknownColumns { names }) }
}

fn check_count(file: usize, table: usize) -> Result<(), SniffError> {
    if table < file { Err(SniffError::TooManyColumns { file, table }) } else { Ok(()) }
}

fn check_match(names: &[String], schema: &Schema) -> Result<(), SniffError> {
    let columns = schema.columns();
    let count = names.len().max(columns.len());
    for position in 0..count {
        let found = names.get(position).map_or("", String::as_str);
        let expected = columns.get(position).map_or("", |column| column.name.as_str());
        if !same_name(found, expected) {
            let (found, expected) = (found.to_owned(), expected.to_owned());
            return Err(SniffError::HeaderDiffers { position, found, expected });
        }
    }
    Ok(())
}
