//! The inferred type of a column with regard to the notation of its numbers, and notes on values
//! that the writer of the file may have meant otherwise.
//!
//! - remarks-1. `1.000` is a thousand in files with decimal commas, and one in others: if a sample
//!   has decimal commas, a column in which every point may separate thousands stays text (decision
//!   0007).

use std::cmp::Reverse;

use tidegate_model::ColumnType;

use super::evidence::{Evidence, Inferred};
use super::notation::NULL_TEXTS;
use crate::excerpt::shown;

/// The properties of all columns together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// True if a column has decimal commas.
    pub(crate) has_commas: bool,
    /// True if a semicolon separates fields, as is usual with decimal commas.
    pub(crate) has_semicolons: bool,
    /// True if the type was inferred and not given.
    pub(crate) is_guess: bool,
}

/// The inferred type of a column, or text if its values could be misread (remarks-1).
pub(crate) fn inferred(evidence: &Evidence, has_commas: bool) -> Inferred {
    let inferred = evidence.infer();
    let is_ambiguous = has_commas && evidence.notation().may_be_thousands();
    match inferred.ty {
        ColumnType::Float64 if is_ambiguous => Inferred { ty: ColumnType::Varchar, format: None },
        _ => inferred,
    }
}

/// The note on texts that may mean NULL. `\N` nearly always does; other texts are named only if the
/// column would not be text without them.
fn nulls(name: &str, evidence: &Evidence) -> Option<String> {
    let counts = &evidence.notation().nulls;
    let at = (0..counts.len()).max_by_key(|&at| (counts[at], Reverse(at)))?;
    let (text, count) = (NULL_TEXTS[at], counts[at]);
    let is_all = at == 0 || evidence.is_text_because_of(count);
    (0 < count && is_all).then(|| {
        format!(
            "column `{name}` has the text `{text}`, sampled values: {count}; where that is NULL, \
             say --null '{text}'"
        )
    })
}

/// The notes on a column of whose values the writer may have meant something else.
pub(crate) fn remarks(
    name: &str,
    column: &Inferred,
    evidence: &Evidence,
    surroundings: Surroundings,
) -> Vec<String> {
    let notation = evidence.notation();
    let mut remarks = Vec::new();
    remarks.extend(thousands(name, column.ty, evidence, surroundings));
    let is_text = matches!(column.ty, ColumnType::Varchar | ColumnType::Symbol);
    if is_text {
        remarks.extend(nulls(name, evidence));
    }
    let without = evidence.times() - notation.offsets.min(evidence.times());
    let is_found = column.format.as_ref().is_some_and(|format| format.may_have_offset());
    if is_found && 0 < without && 0 < notation.offsets {
        let of = evidence.times();
        remarks.push(format!(
            "column `{name}` has times with an offset and times without, which are taken for UTC: \
             {without} of {of} sampled ones"
        ));
    }
    remarks
}

fn thousands(
    name: &str,
    ty: ColumnType,
    evidence: &Evidence,
    surroundings: Surroundings,
) -> Option<String> {
    let notation = evidence.notation();
    let Surroundings { has_commas, has_semicolons, is_guess } = surroundings;
    let example = notation.grouped_example.as_deref().filter(|_| notation.may_be_thousands())?;
    let example = shown(example);
    let is_number =
        matches!(ty, ColumnType::Float32 | ColumnType::Float64 | ColumnType::Decimal { .. });
    match (is_number, has_commas) {
        (false, true) if is_guess && evidence.infer().ty == ColumnType::Float64 => Some(format!(
            "column `{name}` is VARCHAR, as `{example}` may be a thousand: other columns have \
             decimal commas; --schema gives it another type"
        )),
        (true, true) => Some(format!(
            "column `{name}`: the point of `{example}` is read as a decimal point, though \
             other columns have decimal commas"
        )),
        (true, false) if has_semicolons => Some(format!(
            "column `{name}`: the point of `{example}` is read as a decimal point; if it \
             separates thousands, a --schema with VARCHAR keeps the text"
        )),
        _ => None,
    }
}
