//! Bounds of the text of a type: `arrow_cast(x, 'List(Int64)')`.
//!
//! - type_text-1. The text has at most `TEXT_BYTES` bytes and `BRACKETS` brackets within each other
//!   before Arrow sees it: Arrow parses, compares and drops types by recursion, and writes the name
//!   of each level into that of the one above it.
//! - type_text-2. No part of the type has a fixed width of more than `SYMBOL_BYTES`: Arrow makes
//!   one such value for a dictionary of NULL, or for each NULL of a list.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use tidegate_model::limits::{SYMBOL_BYTES, VALUES_BYTES};

use crate::error::ClauseProblem;
use crate::value_bytes::width;

/// The functions whose second argument is the text of a type.
pub(super) const CASTS: [&str; 2] = ["arrow_cast", "arrow_try_cast"];
/// Enough for a struct of some hundred fields.
const TEXT_BYTES: usize = 4 << 10;
/// Columns have three levels: a list of lists of a type with a parameter.
const BRACKETS: usize = 16;

/// Checks the text of a type among the constant arguments of a call (type_text-1).
pub(super) fn check_type_text<'a>(
    function: &str,
    mut constants: impl Iterator<Item = Option<&'a ScalarValue>>,
) -> Result<()> {
    if !CASTS.contains(&function) {
        return Ok(());
    }
    let text = constants.nth(1).flatten().and_then(|text| text.try_as_str().flatten());
    let Some(text) = text else { return Ok(()) };
    let function = function.to_owned();
    let what = if TEXT_BYTES < text.len() || BRACKETS < brackets(text) {
        ClauseProblem::TypeText { function, bytes: TEXT_BYTES, brackets: BRACKETS }
    } else if text.parse().is_ok_and(|ty| widest(&ty) > SYMBOL_BYTES as u64) {
        ClauseProblem::ValuesTooLarge { function, mebibytes: VALUES_BYTES >> 20 }
    } else {
        return Ok(());
    };
    Err(what.into())
}

/// Returns the width of the widest part of a type.
fn widest(ty: &DataType) -> u64 {
    let parts = match ty {
        DataType::List(element)
        | DataType::ListView(element)
        | DataType::LargeList(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _)
        | DataType::Map(element, _) => widest(element.data_type()),
        DataType::Dictionary(_, value) => widest(value),
        DataType::RunEndEncoded(_, values) => widest(values.data_type()),
        DataType::Struct(fields) => {
            fields.iter().map(|field| widest(field.data_type())).max().unwrap_or(0)
        }
        DataType::Union(fields, _) => {
            fields.iter().map(|(_, field)| widest(field.data_type())).max().unwrap_or(0)
        }
        _ => 0,
    };
    parts.max(width(ty))
}

/// Returns the maximal number of brackets within each other. Names in quotes are skipped as Arrow
/// reads them: after a backslash, the next quote does not end a name.
fn brackets(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let (mut quote, mut is_escaped) = (None, false);
    for byte in text.bytes() {
        match (quote, byte) {
            (Some(_), b'\\') => is_escaped = true,
            (Some(end), _) if byte == end && is_escaped => is_escaped = false,
            (Some(end), _) if byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(') => open += 1,
            (None, b')') => open = open.saturating_sub(1),
            (None, _) => {}
        }
        most = most.max(open);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let constants = [None, Some(ScalarValue::from(text))];
        let shown = match check_type_text("arrow_cast", constants.iter().map(Option::as_ref)) {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.strip_backtrace(),
        };
        assert!(shown.contains(expected), "type_text-1, type_text-2: {shown}");
    }

    // Types of 100,000 levels ended the process by a stack overflow, and those of 3,000 took
    // gigabytes: the limits of a statement's brackets do not see the text within its quotes.
    #[test]
    fn texts_of_types_are_bounded() {
        check("Int64", "ok");
        check(&nested("List(", BRACKETS), "ok");
        check(&"List(Int64)".repeat(20), "ok");
        let refused = "takes a type of at most 4096 bytes with brackets 16 deep";
        for open in ["List(", "Struct(\"a\": ", "Dictionary(Int8, ", "FixedSizeList(1, "] {
            check(&nested(open, BRACKETS + 1), refused);
        }
        check(&nested("RunEndEncoded(\"r\": Int32, \"v\": ", 100_000), refused);
        check(&" ".repeat(TEXT_BYTES + 1), refused);
        // Arrow made the NULL of such a dictionary, or each one of the list, in full.
        let wide = "would make more than 512 MiB of values at a time";
        for inner in ["FixedSizeBinary(70000)", "FixedSizeList(1000000000, Int64)"] {
            check(inner, wide);
            for open in ["List(", "LargeList(", "Dictionary(Int8, ", "Struct(\"a\": "] {
                check(&format!("{open}{inner})"), wide);
            }
        }
        check("FixedSizeBinary(16)", "ok");
        // Brackets in names are none.
        check(&nested("Struct(\"(\": ", BRACKETS), "ok");
        check(&nested("Struct(\")\": ", BRACKETS + 1), refused);
        check(&nested(r#"Struct("\a\")": "#, BRACKETS + 1), refused);
    }

    fn nested(open: &str, depth: usize) -> String {
        format!("{}Int32{}", open.repeat(depth), ")".repeat(depth))
    }
}
