//! Functions whose work is not linear in their arguments.
//!
//! - work-1. Between two checks for cancellation, a function does at most `PAIR_STEPS` of work, or
//!   work that is linear in the values of one row.
//! - work-2. A row with more than `PLAIN_STEPS` of work is processed alone: in linear time, or with
//!   checks for cancellation, or it is refused.

use std::collections::HashSet;
use std::iter;
use std::ops::Range;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use tidegate_model::limits::{PAIR_STEPS, PLAIN_STEPS, REGEX_SLICE_STEPS, SLICE_BYTES};

use super::call::{Argument, Call};
use super::regex::regex_steps;
use crate::account::check_canceled;
use crate::error::ClauseProblem;
use crate::functions::matching::match_long;
use crate::types::call_values::{are_constant, constant_or_array};

/// The growth of the work of a function.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Linear,
    /// Proportional to the product of the lengths of two values; a row with more than `PAIR_STEPS`
    /// is refused.
    Pairs,
    /// As `Pairs`, but a row with many steps has another algorithm (work-2).
    RowByRow {
        steps: fn(&Call<'_>) -> Vec<u64>,
        one_row: OneRow,
    },
    /// That of regular expressions: a pattern is compiled for each row with another pattern.
    Patterns,
}

/// The algorithm of a function for one row with many steps.
pub(super) type OneRow = fn(&ScalarUDF, ScalarFunctionArgs) -> Result<ColumnarValue>;

/// Rows that are processed together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(super) rows: Range<usize>,
    /// True for one row, with more than `PLAIN_STEPS` (work-2).
    pub(super) is_row_by_row: bool,
}

/// Returns the rows of a call to be processed at a time (work-1), few enough for copies of its
/// constants.
pub(crate) fn slices(name: &str, call: &Call<'_>) -> Result<Vec<Slice>> {
    let broadcast = call.broadcast_bytes();
    let rows_max = match broadcast {
        0..=SLICE_BYTES => call.rows,
        broadcast => {
            let rows = (SLICE_BYTES / (broadcast / call.rows.max(1) as u64).max(1)).max(1);
            usize::try_from(rows).unwrap_or(usize::MAX)
        }
    };
    let work = work_of(name);
    let steps = match work {
        Work::Linear => Vec::new(),
        Work::Pairs => byte_pairs(call),
        Work::RowByRow { steps, .. } => steps(call),
        Work::Patterns => regex_steps(name, call)?,
    };
    if steps.is_empty() && call.rows <= rows_max {
        let rows = 0..call.rows;
        return Ok(iter::once(Slice { rows, is_row_by_row: false }).collect());
    }
    let steps_max = match work {
        Work::Patterns => REGEX_SLICE_STEPS,
        _ => PAIR_STEPS,
    };
    if matches!(work, Work::Pairs) && steps.iter().any(|steps| steps_max < *steps) {
        let what = ClauseProblem::TextsTooLong { function: name.to_owned(), steps: steps_max };
        return Err(what.into());
    }
    let mut slices = Vec::new();
    let (mut start, mut done) = (0, 0_u64);
    for row in 0..call.rows {
        let steps = steps.get(row).copied().unwrap_or(0);
        let is_row_by_row = matches!(work, Work::RowByRow { .. }) && PLAIN_STEPS < steps;
        let is_full = steps_max < done.saturating_add(steps) || rows_max <= row - start;
        if start < row && (is_full || is_row_by_row) {
            slices.push(Slice { rows: start..row, is_row_by_row: false });
            (start, done) = (row, 0);
        }
        if is_row_by_row {
            slices.push(Slice { rows: row..row + 1, is_row_by_row });
            start = row + 1;
            continue;
        }
        done = done.saturating_add(steps);
    }
    if start < call.rows {
        slices.push(Slice { rows: start..call.rows, is_row_by_row: false });
    }
    Ok(slices)
}

/// Returns the product of two lengths in each row; an empty list if they are few together.
fn pairs<'a>(call: &Call<'a>, lengths: impl Fn(Argument<'a>) -> Vec<u64>) -> Vec<u64> {
    let (Some(left), Some(right)) = (call.arg(0), call.arg(1)) else { return Vec::new() };
    let (left, right) = (lengths(left), lengths(right));
    let longest = |lengths: &[u64]| lengths.iter().copied().max().unwrap_or(0) + 1;
    let most = longest(&left).saturating_mul(longest(&right));
    if most <= PLAIN_STEPS && most.saturating_mul(call.rows as u64) <= PAIR_STEPS {
        return Vec::new();
    }
    let steps = |(left, right): (u64, u64)| (left + 1).saturating_mul(right + 1);
    left.into_iter().zip(right).map(steps).collect()
}

/// Returns the products of the lengths of texts.
pub(super) fn byte_pairs(call: &Call<'_>) -> Vec<u64> {
    pairs(call, Argument::sizes)
}

/// Returns the products of the lengths of lists.
pub(super) fn element_pairs(call: &Call<'_>) -> Vec<u64> {
    pairs(call, Argument::counts)
}

/// Returns the products for a search in texts; a search for a constant is linear.
pub(super) fn search_pairs(call: &Call<'_>) -> Vec<u64> {
    let is_column = |number: usize| {
        call.arg(number).is_some_and(|arg| matches!(arg.value, ColumnarValue::Array(_)))
    };
    if is_column(0) && !is_column(1) { Vec::new() } else { byte_pairs(call) }
}

/// Evaluates `strpos(text, wanted)` with `wanted` as a constant: DataFusion searches for constants
/// in linear time.
pub(super) fn find_constant(
    function: &ScalarUDF,
    mut args: ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let [text, wanted] = args.args.as_mut_slice() else {
        return internal_err!("{} has two arguments", function.name());
    };
    let is_constant = matches!(text, ColumnarValue::Scalar(_));
    if let ColumnarValue::Array(values) = wanted {
        *wanted = ColumnarValue::Scalar(ScalarValue::try_from_array(values, 0)?);
    }
    *text = ColumnarValue::Array(text.to_array(1)?);
    constant_or_array(function.invoke_with_args(args)?.into_array(1)?, is_constant)
}

/// Evaluates `array_has_any(list, others)` and `array_has_all`, by a set of the elements of `list`.
pub(super) fn has_elements(
    function: &ScalarUDF,
    args: ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let is_constant = are_constant(&args.args);
    let [list, others] = args.args.as_slice() else {
        return internal_err!("{} has two arguments", function.name());
    };
    let (list, others) = (elements(&list.to_array(1)?), elements(&others.to_array(1)?));
    let (Some(list), Some(others)) = (list, others) else {
        return function.invoke_with_args(args);
    };
    let converter = RowConverter::new(vec![SortField::new(list.data_type().clone())])?;
    let others = cast(&others, list.data_type())?;
    let (list, others) =
        (converter.convert_columns(&[list])?, converter.convert_columns(&[others])?);
    check_canceled()?;
    let known = list.iter().collect::<HashSet<_>>();
    check_canceled()?;
    let mut others = others.iter();
    let has = match function.name() {
        "array_has_all" => others.all(|element| known.contains(&element)),
        _ => others.any(|element| known.contains(&element)),
    };
    constant_or_array(ScalarValue::Boolean(Some(has)).to_array()?, is_constant)
}

/// Returns the elements of the first list of an array; `None` if it is NULL.
fn elements(lists: &dyn Array) -> Option<ArrayRef> {
    if lists.is_null(0) {
        return None;
    }
    match lists.data_type() {
        DataType::List(_) => Some(lists.as_list::<i32>().value(0)),
        DataType::LargeList(_) => Some(lists.as_list::<i64>().value(0)),
        DataType::FixedSizeList(..) => Some(lists.as_fixed_size_list().value(0)),
        _ => None,
    }
}

/// Evaluates `btrim(text, characters)`, `ltrim` and `rtrim`, by a set of the characters.
pub(super) fn trim_characters(
    function: &ScalarUDF,
    args: ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let is_constant = are_constant(&args.args);
    let ty = args.return_type().clone();
    let values = args.args.iter().map(|arg| ScalarValue::try_from_array(&arg.to_array(1)?, 0));
    let values = values.collect::<Result<Vec<_>>>()?;
    let [Some(Some(text)), Some(Some(characters))] = [0, 1].map(|at| values.get(at)?.try_as_str())
    else {
        return function.invoke_with_args(args);
    };
    let characters = characters.chars().collect::<HashSet<_>>();
    check_canceled()?;
    let is_one = |c: char| characters.contains(&c);
    let trimmed = match function.name() {
        "ltrim" => text.trim_start_matches(is_one),
        "rtrim" => text.trim_end_matches(is_one),
        _ => text.trim_matches(is_one),
    };
    constant_or_array(ScalarValue::from(trimmed).cast_to(&ty)?.to_array()?, is_constant)
}

const WORK: [(&str, Work); 18] = [
    ("LIKE", Work::RowByRow { steps: byte_pairs, one_row: match_long }),
    ("ILIKE", Work::RowByRow { steps: byte_pairs, one_row: match_long }),
    ("~", Work::Patterns),
    ("array_has_all", Work::RowByRow { steps: element_pairs, one_row: has_elements }),
    ("array_has_any", Work::RowByRow { steps: element_pairs, one_row: has_elements }),
    ("btrim", Work::RowByRow { steps: byte_pairs, one_row: trim_characters }),
    ("levenshtein", Work::Pairs),
    ("ltrim", Work::RowByRow { steps: byte_pairs, one_row: trim_characters }),
    ("regexp_count", Work::Patterns),
    ("regexp_instr", Work::Patterns),
    ("regexp_like", Work::Patterns),
    ("regexp_match", Work::Patterns),
    ("regexp_matches", Work::Patterns),
    ("regexp_replace", Work::Patterns),
    ("regexp_split_to_array", Work::Patterns),
    ("regexp_substr", Work::Patterns),
    ("rtrim", Work::RowByRow { steps: byte_pairs, one_row: trim_characters }),
    ("strpos", Work::RowByRow { steps: search_pairs, one_row: find_constant }),
];

pub(crate) fn work_of(name: &str) -> Work {
    WORK.iter().find(|(known, _)| *known == name).map_or(Work::Linear, |(_, work)| *work)
}
