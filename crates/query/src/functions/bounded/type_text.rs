//! Bounds of the text of a type: `arrow_cast(x, 'List(Int64)')`.
//!
//! - type_text-1. The text has at most `TEXT_BYTES` bytes and `BRACKETS` brackets within each other
//!   before Arrow sees it: Arrow parses, compares and drops types by recursion, and writes the name
//!   of each level into that of the one above it.

use datafusion::common::{Result, ScalarValue};

use crate::error::{ClauseProblem, Error};

/// The functions whose second argument is the text of a type.
const CASTS: [&str; 2] = ["arrow_cast", "arrow_try_cast"];
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
    let is_small = |text: &str| text.len() <= TEXT_BYTES && brackets(text) <= BRACKETS;
    if text.is_none_or(is_small) {
        return Ok(());
    }
    let function = function.to_owned();
    let what = ClauseProblem::TypeText { function, bytes: TEXT_BYTES, brackets: BRACKETS };
    Err(Error::Clause { position: None, what }.into())
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
        assert!(shown.contains(expected), "type_text-1: {shown}");
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
        // Brackets in names are none.
        check(&nested("Struct(\"(\": ", BRACKETS), "ok");
        check(&nested("Struct(\")\": ", BRACKETS + 1), refused);
        check(&nested(r#"Struct("\a\")": "#, BRACKETS + 1), refused);
    }

    fn nested(open: &str, depth: usize) -> String {
        format!("{}Int32{}", open.repeat(depth), ")".repeat(depth))
    }
}
