//! The names of a file's columns, and their mapping to columns of a table (docs/import.md, Header
//! and names).

use std::collections::HashSet;

use tidegate_model::schema::same_name;
use tidegate_model::{ColumnType, Schema};

use super::evidence::Evidence;
use super::records::{Cell, Record};
use super::{ColumnMap, FirstLine, Header, SniffError, SniffOptions, is_null};
use crate::excerpt::shown;
use crate::parse::{parse_i64, trimmed};

/// The decision on whether the first record is a header, with its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderDecision {
    /// By an option.
    Told(bool),
    /// A header, since it has known names.
    ByNames,
    /// A header, since it has a possible name and no value where the column below has a type.
    ByTypes,
    /// A header, since its texts are written differently from all below.
    ByShape,
    /// A header, since the same names begin every file.
    ByRepetition,
    /// A row.
    Row,
    /// A row, for lack of evidence, although it could be names.
    PerhapsNames,
    /// A row, since it has numbers or times, although those may be names, as years are.
    PerhapsNumbers,
    /// Apparently a header with names that differ from those of the file before.
    OtherNames,
    /// Apparently a header, although the file before has none.
    LateNames,
}

impl HeaderDecision {
    /// Returns true if the first record is no row.
    pub(crate) fn is_header(self) -> bool {
        match self {
            HeaderDecision::Told(is_header) => is_header,
            HeaderDecision::ByNames
            | HeaderDecision::ByTypes
            | HeaderDecision::ByShape
            | HeaderDecision::ByRepetition
            | HeaderDecision::OtherNames => true,
            HeaderDecision::Row
            | HeaderDecision::PerhapsNames
            | HeaderDecision::PerhapsNumbers
            | HeaderDecision::LateNames => false,
        }
    }
}

/// The number of cells below that must be written differently from the first record.
const UNLIKE_MIN: u64 = 3;

/// Decides on the first record. It is a header only if there is evidence for it,
/// since its row would be lost if it is none: where names are known, it must have some of them;
/// otherwise it must have names above typed values, or texts that are written differently from all
/// below.
pub(super) fn header(
    first: &Record<'_>,
    below: &[Evidence],
    options: &SniffOptions<'_>,
) -> HeaderDecision {
    match options.header {
        Header::Present | Header::Match => return HeaderDecision::Told(true),
        Header::Absent => return HeaderDecision::Told(false),
        Header::Auto => {}
    }
    let texts = || first.cells.iter().map(|cell| trimmed(&cell.text));
    let is_there = |name: &str| {
        texts().any(|text| str::from_utf8(text).is_ok_and(|text| same_name(text, name)))
    };
    let has_value = texts().zip(below).any(|(text, column)| column.is_value(text));
    // In a row the text of a symbol may equal the name of its column, that of a timestamp cannot.
    let is_named = options.designated.is_some_and(is_there)
        || options.designated.is_none() && !options.symbols.is_empty() && !has_value;
    if is_named && options.symbols.iter().all(|name| is_there(name)) {
        return HeaderDecision::ByNames;
    }
    let look_like_names = !has_value && are_names(first, options);
    let own = options.like.filter(|like| like.has_header).map(|like| like.names);
    // If the file has names, all of the hints are among them.
    if !options.hints.is_empty() && options.hints.iter().all(|(name, _)| is_there(name)) {
        return HeaderDecision::ByNames;
    }
    if options.expected.is_some() || options.like.is_some() {
        let is_known = |text: &[u8]| {
            str::from_utf8(text).is_ok_and(|text| {
                options.expected.is_some_and(|schema| schema.find(text).is_some())
                    || own.is_some_and(|names| names.iter().any(|name| same_name(name, text)))
            })
        };
        let known = texts().filter(|text| is_known(text)).count();
        if first.count < 2 * known || look_like_names && 0 < known {
            return HeaderDecision::ByNames;
        }
        let has_other_names =
            options.expected.is_none() && look_like_names && is_above_types(first, below, options);
        return match (has_other_names, look_like_names) {
            (true, _) if own.is_some() => HeaderDecision::OtherNames,
            (true, _) if options.like.is_some() => HeaderDecision::LateNames,
            (_, true) if options.like.is_none() => HeaderDecision::PerhapsNames,
            _ => HeaderDecision::Row,
        };
    }
    if has_value {
        let mut cells = texts().zip(below);
        let is_word = |text: &[u8]| looks_like_a_name(text) && !is_missing(text);
        let has_word = cells
            .any(|(text, column)| is_word(text) && !column.is_value(text) && column.is_typed());
        let has_names = has_word || has_numbers_for_names(first, below) || has_labels(first, below);
        return match has_names {
            true => HeaderDecision::PerhapsNumbers,
            false => HeaderDecision::Row,
        };
    }
    let has_rows = below.iter().any(|column| !column.is_empty());
    let is_alone = !has_rows && 1 < first.count && options.first_line == FirstLine::Unknown;
    let are_plain_names = || first.cells.iter().all(|cell| is_plain_name(cell, options));
    if is_above_types(first, below, options) || is_alone && are_plain_names() {
        return HeaderDecision::ByTypes;
    }
    if !look_like_names {
        return match may_be_names(first, below, options) {
            true => HeaderDecision::PerhapsNames,
            false if has_labels(first, below) => HeaderDecision::PerhapsNumbers,
            false => HeaderDecision::Row,
        };
    }
    if options.first_line == FirstLine::Repeats {
        return HeaderDecision::ByRepetition;
    }
    let unlike: u64 = texts().zip(below).map(|(text, column)| column.unlike(text)).sum();
    if UNLIKE_MIN <= unlike { HeaderDecision::ByShape } else { HeaderDecision::PerhapsNames }
}

/// Returns true if a possible name stands above values of another type than text.
fn is_above_types(first: &Record<'_>, below: &[Evidence], options: &SniffOptions<'_>) -> bool {
    let is_name = |cell: &Cell<'_>, column: &Evidence| {
        let is_boolean =
            || is_boolean_word(trimmed(&cell.text)) && column.infer().ty == ColumnType::Boolean;
        may_be_a_name(cell, options) && column.is_typed() && !is_boolean()
    };
    let mut cells = first.cells.iter().zip(below);
    cells.any(|(cell, column)| is_name(cell, column)) || is_above_numbers_of_rows(first, below)
}

/// Returns true for a record that is a row for lack of evidence, although its texts could be names
/// in another form than is usual, such as `Temp (C)`: those below are written differently, or it
/// is empty above typed values.
fn may_be_names(first: &Record<'_>, below: &[Evidence], options: &SniffOptions<'_>) -> bool {
    let cells = || first.cells.iter().zip(below).filter(|(cell, _)| !cell.text.is_empty());
    let mut seen = HashSet::new();
    let mut is_first = |cell: &Cell<'_>| seen.insert(trimmed(&cell.text).to_ascii_lowercase());
    if !cells().all(|(cell, _)| may_be_a_name(cell, options) && is_first(cell)) {
        return false;
    }
    let is_unlike = |(cell, column): (&Cell<'_>, &Evidence)| 0 < column.unlike(trimmed(&cell.text));
    let mut others = first.cells.iter().zip(below).filter(|(cell, _)| cell.text.is_empty());
    let is_empty_above_types = others.any(|(_, column)| column.is_typed());
    let are_plain = cells().all(|(cell, _)| is_plain_name(cell, options));
    cells().any(is_unlike) || is_empty_above_types && are_plain && cells().next().is_some()
}

/// The years that are plausible names of columns, as in a table with a column for each year.
const YEARS: std::ops::RangeInclusive<i64> = 1900..=2100;

/// Returns true if all cells are words, or the first one an empty corner, except at least two
/// numbers, which are years or ascend by one, and the numbers below are not such.
fn has_numbers_for_names(first: &Record<'_>, below: &[Evidence]) -> bool {
    let are_years = |numbers: &[i64]| numbers.iter().all(|number| YEARS.contains(number));
    let are_counted = |numbers: &[i64]| {
        let ascend = numbers.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        ascend && (matches!(numbers.first(), Some(0 | 1)) || 3 <= numbers.len())
    };
    let texts = || first.cells.iter().map(|cell| trimmed(&cell.text));
    let numbers: Vec<i64> = texts().filter_map(|text| parse_i64(text).ok()).collect();
    let are_words = |text: &[u8]| looks_like_a_name(text) && !is_missing(text);
    let has_words = numbers.len() < first.cells.len();
    let is_corner = |at: usize| at == 0 && has_empty_corner(first, below);
    let under = || texts().zip(below).filter(|(text, _)| parse_i64(text).is_ok());
    // Decimal numbers, texts, and values of any other type.
    let has_others =
        under().any(|(_, column)| column.first_integer().is_none() && !column.is_empty());
    let under: Vec<i64> = under().filter_map(|(_, column)| column.first_integer()).collect();
    let is_unlike = |are: &dyn Fn(&[i64]) -> bool| has_others || !are(&under);
    has_words
        && (texts().enumerate())
            .all(|(at, text)| parse_i64(text).is_ok() || are_words(text) || is_corner(at))
        && 2 <= numbers.len()
        && (are_years(&numbers) && is_unlike(&are_years)
            || are_counted(&numbers) && is_unlike(&are_counted))
}

/// Returns true if the first cell is empty, as the corner of a table with a name for each row is.
fn has_empty_corner(first: &Record<'_>, below: &[Evidence]) -> bool {
    let is_empty = first.cells.first().is_some_and(|cell| trimmed(&cell.text).is_empty());
    is_empty && below.first().is_some_and(|column| !column.is_empty())
}

/// Returns true if all cells behind the first one have digits, differ from each other, and are of
/// other kinds than the cells below: dates, months or hours above numbers, numbers above texts. The
/// first one is an empty corner, or a word beside several such cells.
fn has_labels(first: &Record<'_>, below: &[Evidence]) -> bool {
    let Some((corner, labels)) = first.cells.split_first() else { return false };
    let corner = trimmed(&corner.text);
    let is_word = looks_like_a_name(corner) && !is_missing(corner);
    let is_label = |(cell, column): (&Cell<'_>, &Evidence)| {
        let text = trimmed(&cell.text);
        text.iter().any(u8::is_ascii_digit) && column.is_of_another_kind(text)
    };
    let mut seen = HashSet::new();
    !labels.is_empty()
        && (has_empty_corner(first, below) || is_word && 2 <= labels.len())
        && labels.iter().all(|cell| seen.insert(trimmed(&cell.text)))
        && labels.len() < below.len()
        && labels.iter().zip(&below[1..]).all(is_label)
}

/// Returns true for the index that data frames write: a column of integers without a name before
/// all others.
fn is_above_numbers_of_rows(first: &Record<'_>, below: &[Evidence]) -> bool {
    let is_index = below.first().is_some_and(Evidence::counts_rows);
    let names = first.cells.get(1..).unwrap_or_default();
    let is_nameless = first.cells.first().is_some_and(|cell| cell.text.is_empty());
    is_index
        && is_nameless
        && !names.is_empty()
        && names.iter().all(|cell| looks_like_a_name(trimmed(&cell.text)))
}

/// Returns true for texts that stand for a missing value, or one that is no number, rather than for
/// a name; also in brackets.
fn is_missing(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 17] = [
        b"na",
        b"n/a",
        b"n.a.",
        b"nan",
        b"nat",
        b"null",
        b"none",
        b"nil",
        b"missing",
        b"unknown",
        b"undefined",
        b"tbd",
        b"inf",
        b"infinity",
        b"\\n",
        b"?",
        b"-",
    ];
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
    let start = text.iter().position(is_inner).unwrap_or(0);
    let end = text.iter().rposition(is_inner).map_or(text.len(), |last| last + 1);
    let inner = &text[start..end];
    // Spreadsheets write `#DIV/0!` and `#NAME?`, and C on Windows `-nan(ind)`.
    let is_error = text.starts_with(b"#") && matches!(text.last(), Some(b'!' | b'?'));
    let is_nan = inner.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case(b"nan("));
    let is_word =
        |word: &&[u8]| text.eq_ignore_ascii_case(word) || inner.eq_ignore_ascii_case(word);
    is_error || is_nan || WORDS.iter().any(is_word)
}

/// Returns true for words by which other programs write a boolean.
fn is_boolean_word(text: &[u8]) -> bool {
    let words: [&[u8]; 8] = [b"t", b"f", b"y", b"n", b"yes", b"no", b"on", b"off"];
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Returns true if a cell has a typical name of a column, and no value.
fn is_plain_name(cell: &Cell<'_>, options: &SniffOptions<'_>) -> bool {
    let text = trimmed(&cell.text);
    looks_like_a_name(text) && !is_missing(text) && !is_null(cell, options)
}

/// Returns true if a cell could be the name of a column: it begins with a letter, punctuation
/// aside, and is no word for a value. Values of many forms begin with a digit: `1,000`, `$5`,
/// `12:30`, `0x1F`.
fn may_be_a_name(cell: &Cell<'_>, options: &SniffOptions<'_>) -> bool {
    let text = trimmed(&cell.text);
    let first = || String::from_utf8_lossy(text).chars().find(|c| c.is_alphanumeric());
    let is_word = looks_like_a_name(text) || first().is_some_and(char::is_alphabetic);
    is_word && !is_missing(text) && !is_null(cell, options)
}

/// Returns true if all cells could be names of columns and differ from each other.
pub(super) fn are_names(first: &Record<'_>, options: &SniffOptions<'_>) -> bool {
    let texts = || first.cells.iter().map(|cell| trimmed(&cell.text));
    let mut seen = HashSet::new();
    first.cells.iter().all(|cell| is_plain_name(cell, options))
        && texts().all(|text| seen.insert(text.to_ascii_lowercase()))
}

/// The note on the decision, where it needs one.
pub(super) fn header_note(
    decision: HeaderDecision,
    first: &Record<'_>,
    options: &SniffOptions<'_>,
) -> Option<String> {
    const SHOWN: usize = 5;
    let is_odd = |cell: &Cell<'_>| !cell.text.is_empty() && !may_be_a_name(cell, options);
    let shown: Vec<String> =
        (first.cells.iter().take(SHOWN)).map(|cell| format!("`{}`", shown(&cell.text))).collect();
    let more = if first.cells.len() > SHOWN { ", ..." } else { "" };
    let record = format!("the first record ({}{more})", shown.join(", "));
    Some(match decision {
        HeaderDecision::ByTypes if first.cells.iter().any(is_odd) => format!(
            "{record} is read as the header, as it has a name above values of another type than \
             text: --no-header makes it a row"
        ),
        HeaderDecision::ByShape => format!(
            "{record} is read as the header, as its texts are written otherwise than all below: \
             --no-header makes it a row"
        ),
        HeaderDecision::ByRepetition => format!(
            "{record} is read as the header, as every file begins with it: \
             --no-header makes it a row"
        ),
        HeaderDecision::PerhapsNames => {
            format!(
                "{record} is read as a row, as nothing shows that it is a header: \
             --header makes it one"
            )
        }
        HeaderDecision::PerhapsNumbers => {
            format!(
                "{record} is read as a row, as it has numbers or times: --header makes it the \
                 header"
            )
        }
        _ => return None,
    })
}

/// Returns true for a word that is a typical name of a column.
fn looks_like_a_name(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    // In another encoding, it is refused as a name.
    let is_start = |letter: char| letter.is_alphabetic() || "_\u{fffd}".contains(letter);
    let goes_on = |letter: char| !letter.is_ascii() || letter.is_ascii_alphanumeric();
    let is_part = |letter: char| goes_on(letter) || "_ -.".contains(letter);
    text.starts_with(is_start) && text.len() <= 64 && text.chars().all(is_part)
}

/// The names in a header; an empty one becomes `f` and its position.
pub(super) fn header_names(header: &Record<'_>) -> Result<Vec<String>, SniffError> {
    if header.cells.len() < header.count {
        return Err(SniffError::TooWide { count: header.count });
    }
    let name = |(position, cell): (usize, &Cell<'_>)| {
        let text = trimmed(&cell.text);
        let name = str::from_utf8(text).map_err(|_| SniffError::NameNotUtf8 { position })?;
        Ok(if name.is_empty() { default_name(position) } else { name.to_owned() })
    };
    header.cells.iter().enumerate().map(name).collect()
}

/// The name of a column without a name.
pub(super) fn default_name(position: usize) -> String {
    format!("f{position}")
}

/// Checks that no name of a new table occurs twice.
pub(super) fn check_distinct(names: &[String]) -> Result<(), SniffError> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.to_lowercase())) {
        Some(name) => Err(SniffError::DuplicateName { name: name.clone() }),
        None => Ok(()),
    }
}

/// Maps names to columns of the table.
pub(super) fn map(
    names: &[String],
    has_header: bool,
    schema: &Schema,
    options: &SniffOptions<'_>,
) -> Result<ColumnMap, SniffError> {
    if options.skip.iter().any(|skipped| names.iter().any(|name| same_name(name, skipped))) {
        return map_imported(names, has_header, schema, options);
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

/// Returns the names of the columns that are not left out.
pub(super) fn imported_columns(names: &[String], options: &SniffOptions<'_>) -> Vec<String> {
    names.iter().filter(|name| is_imported(name, names, options)).cloned().collect()
}

pub(super) fn is_imported(name: &str, names: &[String], options: &SniffOptions<'_>) -> bool {
    !is_skipped(name, options.skip, || names.iter().map(String::as_str))
}

/// Returns true if a column of a file is to be left out: of names that differ only in case, the one
/// with the same case.
pub(crate) fn is_skipped<'a, I: Iterator<Item = &'a str>>(
    name: &str,
    skip: &[String],
    names: impl Fn() -> I,
) -> bool {
    let is_meant =
        |skipped: &String| name == skipped || !names().any(|other| other == skipped.as_str());
    skip.iter().any(|skipped| same_name(name, skipped) && is_meant(skipped))
}

/// Does the work of `map` with columns that are left out: the others are mapped as if those did not
/// exist.
fn map_imported(
    names: &[String],
    has_header: bool,
    schema: &Schema,
    options: &SniffOptions<'_>,
) -> Result<ColumnMap, SniffError> {
    let imported = imported_columns(names, options);
    let all = SniffOptions { skip: &[], ..*options };
    let ColumnMap { targets, notes } = map(&imported, has_header, schema, &all)?;
    let mut targets = targets.into_iter();
    let of = |name: &String| match is_imported(name, names, options) {
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
        let actual = names.get(position).map_or("", String::as_str);
        let expected = columns.get(position).map_or("", |column| column.name.as_str());
        if !same_name(actual, expected) {
            let (actual, expected) = (actual.to_owned(), expected.to_owned());
            return Err(SniffError::HeaderDiffers { position, actual, expected });
        }
    }
    Ok(())
}
