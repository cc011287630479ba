//! Upper bounds of the bytes of a function's values, computed from its arguments.
//!
//! - growth-1. A bound is never less than the bytes of the values that the function makes, measured
//!   as in `call`. Where a simple bound would be far too large, matches in the texts are counted
//!   instead, without making a value.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::Result;
use regex::Regex;
use tidegate_model::limits::SLICE_BYTES;

use super::super::regexp::regex_of;
use super::call::{Argument, Call};
use crate::account::check_canceled;
use crate::error::ClauseProblem;

/// The bytes of a number in a list, and of any value beside its text.
const VALUE_BYTES: u64 = 16;
/// The bytes of the longest character.
const CHAR_BYTES: u64 = 4;
/// The bytes of a number as text, for each of its own bytes: a float of eight bytes has up to 330
/// digits.
const NUMBER_TEXT_FACTOR: u64 = 22;
/// The bytes of a nested value as text, without names of fields, for each of its own bytes.
const NESTED_TEXT_FACTOR: u64 = 6;
/// Matches between two checks for cancellation.
const MATCHES_AT_A_TIME: usize = 1_024;
/// In longer texts, cancellation is checked at each match: one match may read the whole text.
const LONG_BYTES: usize = 4_096;

/// Returns the sum of `of_row` over all rows.
fn sum(rows: usize, of_row: impl FnMut(usize) -> u64) -> u64 {
    (0..rows).map(of_row).fold(0, u64::saturating_add)
}

/// Returns a number of repetitions: none for NULL and for negative numbers.
fn times(count: Option<i64>) -> u64 {
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

/// Bounds `repeat(value, count)` of texts and of elements of a list.
pub(crate) fn repeated(call: &Call<'_>) -> Result<u64> {
    let (Some(values), Some(counts)) = (call.arg(0), call.arg(1)) else { return Ok(0) };
    let (sizes, counts) = (values.sizes(), counts.integers()?);
    let each = |row: usize| {
        let copies = times(counts[row]);
        copies.saturating_mul(sizes[row].saturating_add(element_bytes(values)))
    };
    Ok(sum(call.rows, each))
}

/// Returns the bytes of an element beside its text: none inside a text.
fn element_bytes(values: Argument<'_>) -> u64 {
    if values.value.data_type().is_string() { 0 } else { VALUE_BYTES }
}

/// Bounds `array_repeat(value, count)`.
pub(crate) fn repeated_in_list(call: &Call<'_>) -> Result<u64> {
    let (Some(values), Some(counts)) = (call.arg(0), call.arg(1)) else { return Ok(0) };
    let (sizes, counts) = (values.sizes(), counts.integers()?);
    Ok(sum(call.rows, |row| {
        times(counts[row]).saturating_mul(sizes[row].saturating_add(VALUE_BYTES))
    }))
}

/// Bounds `format(text, values ..)`: each percent sign is one value, and a width is at most 10,000.
pub(crate) fn formatted(call: &Call<'_>) -> Result<u64> {
    const WIDTH_MAX: u64 = 10_000;
    let Some(formats) = call.arg(0) else { return Ok(0) };
    let formats = formats.texts()?;
    let mut largest = vec![0_u64; call.rows];
    for value in call.args.iter().skip(1) {
        for (row, size) in value.sizes().into_iter().enumerate() {
            largest[row] = largest[row].max(size.saturating_add(VALUE_BYTES));
        }
    }
    Ok(sum(call.rows, |row| {
        let format = formats.of_row(row).unwrap_or_default();
        let signs = format.bytes().filter(|byte| *byte == b'%').count() as u64;
        let width = if format.bytes().any(|byte| byte.is_ascii_digit()) { WIDTH_MAX } else { 0 };
        let each = largest[row].saturating_mul(NUMBER_TEXT_FACTOR).saturating_add(width);
        signs.saturating_mul(each).saturating_add(format.len() as u64)
    }))
}

/// Bounds `lpad(text, characters, fill)`.
pub(crate) fn padded(call: &Call<'_>) -> Result<u64> {
    let (Some(texts), Some(counts)) = (call.arg(0), call.arg(1)) else { return Ok(0) };
    let (texts, counts) = (texts.texts()?, counts.integers()?);
    let fills = call.arg(2).map(Argument::texts).transpose()?;
    let char_bytes = |text: Option<&str>| match text {
        Some(text) if !text.is_ascii() => CHAR_BYTES,
        _ => 1,
    };
    Ok(sum(call.rows, |row| {
        let fill = fills.as_ref().and_then(|it| it.of_row(row));
        let widest = char_bytes(texts.of_row(row)).max(char_bytes(fill));
        times(counts[row]).saturating_mul(widest)
    }))
}

/// Bounds `array_resize(list, count, value)`.
pub(crate) fn resized(call: &Call<'_>) -> Result<u64> {
    let Some(counts) = call.arg(1) else { return Ok(0) };
    let counts = counts.integers()?;
    if let Some(count) = counts.iter().flatten().find(|count| **count < 0) {
        let (function, value) = ("array_resize".to_owned(), count.to_string());
        let what = "a size is not negative";
        return Err(ClauseProblem::ArgumentValue { function, value, what }.into());
    }
    let sizes = call.arg(2).map_or_else(|| vec![0; call.rows], Argument::sizes);
    let grown = sum(call.rows, |row| {
        times(counts[row]).saturating_mul(sizes[row].saturating_add(VALUE_BYTES))
    });
    Ok(grown.saturating_add(call.bytes()))
}

/// Bounds `replace(text, old, new)`.
pub(crate) fn replaced(call: &Call<'_>) -> Result<u64> {
    let [Some(texts), Some(olds), Some(news)] = [0, 1, 2].map(|at| call.arg(at)) else {
        return Ok(0);
    };
    let (texts, olds, news) = (texts.texts()?, olds.texts()?, news.texts()?);
    let row_share = SLICE_BYTES / call.rows.max(1) as u64;
    Ok(sum(call.rows, |row| {
        let text = texts.of_row(row).unwrap_or_default();
        let old = olds.of_row(row).unwrap_or_default();
        let new = news.of_row(row).unwrap_or_default().len() as u64;
        // An empty text is found between all characters.
        let most = (text.len() / old.len().max(1) + 1) as u64;
        let is_small = most.saturating_mul(new) <= row_share;
        let times =
            if is_small || old.is_empty() { most } else { text.matches(old).count() as u64 };
        times.saturating_mul(new).saturating_add(text.len() as u64)
    }))
}

/// Bounds `regexp_replace(text, pattern, new, flags)`.
pub(crate) fn replaced_by_pattern(call: &Call<'_>) -> Result<u64> {
    let [Some(texts), Some(patterns), Some(news)] = [0, 1, 2].map(|at| call.arg(at)) else {
        return Ok(0);
    };
    let (texts, patterns, news) = (texts.texts()?, patterns.texts()?, news.texts()?);
    // The fourth argument is flags, or a start: with a start, all matches may be replaced.
    let is_text = |arg: &Argument<'_>| arg.value.data_type().is_string();
    let has_start = call.arg(3).is_some_and(|arg| !is_text(&arg));
    let flags = call.arg(if has_start { 5 } else { 3 }).map(Argument::texts).transpose()?;
    let row_share = SLICE_BYTES / call.rows.max(1) as u64;
    let mut known: Option<((&str, &str), Regex)> = None;
    let mut all = 0_u64;
    for row in 0..call.rows {
        let (Some(text), Some(pattern), Some(new)) =
            (texts.of_row(row), patterns.of_row(row), news.of_row(row))
        else {
            continue;
        };
        let flags = flags.as_ref().and_then(|it| it.of_row(row)).unwrap_or_default();
        // A group is a part of its match, and matches do not overlap: the text of all groups of one
        // reference is no longer than the text.
        let references = new.bytes().filter(|byte| matches!(byte, b'$' | b'\\')).count() as u64;
        let kept = (text.len() as u64).saturating_mul(references.saturating_add(1));
        let new = new.len() as u64;
        let is_all = has_start || flags.contains('g');
        let mut count = if is_all { text.len() as u64 + 1 } else { 1 };
        if row_share < count.saturating_mul(new) && 1 < count {
            let key = (pattern, flags);
            if known.as_ref().is_none_or(|(known, _)| *known != key) {
                // The function itself reports an invalid pattern.
                let Some(regex) = regex_of(pattern, flags) else { continue };
                known = Some((key, regex));
            }
            let regex = &known.as_ref().expect("set above").1;
            count = count_matches(regex, text)?;
        }
        all = all.saturating_add(kept).saturating_add(count.saturating_mul(new));
    }
    Ok(all)
}

/// Counts the matches of a pattern, checking for cancellation.
fn count_matches(regex: &Regex, text: &str) -> Result<u64> {
    let mut count = 0_usize;
    for _ in regex.find_iter(text) {
        count += 1;
        if LONG_BYTES < text.len() || count.is_multiple_of(MATCHES_AT_A_TIME) {
            check_canceled()?;
        }
    }
    Ok(count as u64)
}

/// Bounds `regexp_match(text, pattern)`: the groups, which may lie inside each other.
pub(crate) fn matched_groups(call: &Call<'_>) -> Result<u64> {
    let (Some(texts), Some(patterns)) = (call.arg(0), call.arg(1)) else { return Ok(0) };
    let (sizes, patterns) = (texts.sizes(), patterns.texts()?);
    Ok(sum(call.rows, |row| {
        let pattern = patterns.of_row(row).unwrap_or_default();
        let groups = pattern.bytes().filter(|byte| *byte == b'(').count() as u64 + 1;
        groups.saturating_mul(sizes[row].saturating_add(VALUE_BYTES))
    }))
}

/// Bounds `regexp_matches(text, pattern, flags)`: the groups of each match, which do not overlap;
/// there is at most one empty match at each byte.
pub(crate) fn all_matched_groups(call: &Call<'_>) -> Result<u64> {
    let (Some(texts), Some(patterns)) = (call.arg(0), call.arg(1)) else { return Ok(0) };
    let (sizes, patterns) = (texts.sizes(), patterns.texts()?);
    let flags = call.arg(2).map(Argument::texts).transpose()?;
    Ok(sum(call.rows, |row| {
        let pattern = patterns.of_row(row).unwrap_or_default();
        let groups = pattern.bytes().filter(|byte| *byte == b'(').count() as u64 + 1;
        let flags = flags.as_ref().and_then(|it| it.of_row(row)).unwrap_or_default();
        let count = if flags.contains('g') { sizes[row].saturating_add(1) } else { 1 };
        let values = count.saturating_mul(groups.saturating_add(1)).saturating_mul(VALUE_BYTES);
        groups.saturating_mul(sizes[row]).saturating_add(values)
    }))
}

/// Bounds `rnd_str(text, ...)`, `rnd_str(least, most, null rate)`, and the same with a count before
/// it.
pub(crate) fn random_texts(call: &Call<'_>) -> Result<u64> {
    let is_text = |arg: &Argument<'_>| arg.value.data_type().is_string();
    let longest = match call.arg(0) {
        None => return Ok(0),
        Some(first) if is_text(&first) => call.bytes(),
        Some(_) => {
            let most = call.arg(call.args.len().saturating_sub(2));
            let most = most.map(Argument::integers).transpose()?;
            most.and_then(|it| it.first().copied()).map_or(0, times)
        }
    };
    Ok(longest.saturating_mul(call.rows as u64))
}

/// Bounds `concat_ws(separator, ...)`.
pub(crate) fn joined(call: &Call<'_>) -> Result<u64> {
    let Some(separators) = call.arg(0) else { return Ok(0) };
    let between = separators.bytes().saturating_mul(call.args.len() as u64);
    Ok(between.saturating_add(call.bytes()))
}

/// Bounds `array_to_string(list, separator, null)`.
pub(crate) fn joined_elements(call: &Call<'_>) -> Result<u64> {
    let Some(lists) = call.arg(0) else { return Ok(0) };
    let lists = lists.sizes();
    let nothing = || vec![0; call.rows];
    let separators = call.arg(1).map_or_else(nothing, Argument::sizes);
    let nulls = call.arg(2).map_or_else(nothing, Argument::sizes);
    Ok(sum(call.rows, |row| {
        // Nested lists are flattened, too.
        let elements = lists[row] / VALUE_BYTES + 1;
        let between = elements.saturating_mul(separators[row].saturating_add(nulls[row]));
        between.saturating_add(lists[row].saturating_mul(NUMBER_TEXT_FACTOR))
    }))
}

/// Bounds a cast of a list, a map or a struct to another type, which may be text.
pub(crate) fn written(call: &Call<'_>) -> Result<u64> {
    let Some(values) = call.arg(0) else { return Ok(0) };
    let names = name_bytes(&values.value.data_type());
    Ok(values.bytes().saturating_mul(NESTED_TEXT_FACTOR + names / VALUE_BYTES))
}

/// Returns the bytes of the names in the text of a struct.
fn name_bytes(ty: &DataType) -> u64 {
    match ty {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::Map(element, _) => name_bytes(element.data_type()),
        DataType::Struct(fields) => {
            let bytes = fields
                .iter()
                .map(|it| it.name().len() as u64 + VALUE_BYTES + name_bytes(it.data_type()));
            bytes.fold(0, u64::saturating_add)
        }
        _ => 0,
    }
}

/// Bounds `arrays_zip(list, ...)`: all are made as long as the longest.
pub(crate) fn zipped(call: &Call<'_>) -> Result<u64> {
    let counts = call.args.iter().map(|arg| arg.counts()).collect::<Vec<_>>();
    let width = VALUE_BYTES.saturating_mul(counts.len() as u64 + 1);
    let grown = sum(call.rows, |row| {
        let longest = counts.iter().filter_map(|it| it.get(row).copied()).max().unwrap_or(0);
        longest.saturating_mul(width)
    });
    Ok(grown.saturating_add(call.bytes()))
}

/// Bounds `array_replace_all(list, old, new)`: each element may become the new one.
pub(crate) fn replaced_elements(call: &Call<'_>) -> Result<u64> {
    let (Some(lists), Some(news)) = (call.arg(0), call.arg(2)) else { return Ok(0) };
    let (counts, sizes) = (lists.counts(), news.sizes());
    let grown = sum(call.rows, |row| {
        let count = counts.get(row).copied().unwrap_or(0);
        count.saturating_mul(sizes[row].saturating_add(VALUE_BYTES))
    });
    Ok(grown.saturating_add(call.bytes()))
}

/// Bounds `generate_series(start, end, step)` and `range`, of numbers or times.
pub(crate) fn steps(call: &Call<'_>) -> Result<u64> {
    let Some(first) = call.arg(0) else { return Ok(0) };
    let Some(end) = call.arg(1) else {
        // `range(end)`.
        let ends = first.integers()?;
        return Ok(sum(call.rows, |row| times(ends[row]).saturating_mul(VALUE_BYTES)));
    };
    const NANOS_PER_DAY: i64 = 86_400_000_000_000;
    // Nanoseconds cannot count times far from 1970.
    let is_fine = |arg: &Argument<'_>| {
        matches!(arg.value.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _))
    };
    let (ty, worth): (_, i64) = if !first.value.data_type().is_temporal() {
        (DataType::Int64, 1)
    } else if is_fine(&first) && is_fine(&end) {
        (DataType::Timestamp(TimeUnit::Nanosecond, None), 1)
    } else {
        (DataType::Timestamp(TimeUnit::Microsecond, None), 1_000)
    };
    let (starts, ends) = (first.integers_of(&ty)?, end.integers_of(&ty)?);
    let widths = match call.arg(2) {
        None => vec![Some(1); call.rows],
        Some(step) if matches!(step.value.data_type(), DataType::Interval(_)) => {
            let steps = step.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano))?;
            let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
            let nanos = |row| {
                let at = step.value_idx(row);
                let by = steps.is_valid(at).then(|| steps.value(at))?;
                let days = i64::from(by.months) * 28 + i64::from(by.days);
                let of_day = by.nanoseconds / worth * worth;
                Some(days.saturating_mul(NANOS_PER_DAY).saturating_add(of_day))
            };
            (0..call.rows).map(nanos).collect()
        }
        Some(step) => step.integers()?,
    };
    let count = |row: usize| -> Option<u64> {
        let distance = (i128::from(ends[row]?) - i128::from(starts[row]?)) * i128::from(worth);
        let width = i128::from(widths[row]?);
        // A step away from the end makes no values.
        let count = distance.checked_div(width).filter(|_| (distance < 0) == (width < 0))?;
        Some(u64::try_from(count).unwrap_or(u64::MAX).saturating_add(1))
    };
    Ok(sum(call.rows, |row| count(row).unwrap_or(0).saturating_mul(VALUE_BYTES)))
}
