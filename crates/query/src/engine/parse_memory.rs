//! The memory for parsing a statement: its tokens and its syntax tree.
//!
//! - parse_memory-1. The memory is reserved before the text of a long statement is tokenized,
//!   because tokens take many times the bytes of the text, and is held until the statement is
//!   planned.
//! - parse_memory-2. The values of parameters count too, once for each place that uses them: there
//!   they become constants of the statement, which take far more memory while it is planned than in
//!   their message.
//! - parse_memory-3. The elements of lists in texts, such as `'{1,2}'`, count as if they were
//!   written as expressions.

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use tidegate_model::limits::SQL_UNRESERVED_BYTES;

use crate::context::EngineContext;
use crate::error::Result;
use crate::parse::{Token, TokenKind, count_tokens};
use crate::pg_catalog::parse_list;
use crate::plan::Parameter;

/// Bytes for each token: the token, its part of the tree, and copies of both.
const TOKEN_BYTES: usize = 768;
/// Tokens for each element of a list in a text: an expression with a cast.
const ELEMENT_TOKENS: usize = 3;
/// Values of up to this many bytes are not reserved.
const UNRESERVED_VALUE_BYTES: usize = 1 << 20;
/// Bytes for each value at a place, and for each element of a list there: its token, its
/// expression, and copies of both while it is planned.
const VALUE_BYTES: usize = 2_560;
/// Copies of the text of a value while it is planned: at its first place, and at each other one,
/// where it is also a part of the names of columns.
const FIRST_COPIES: usize = 8;
const FURTHER_COPIES: usize = 32;

/// Reserves the memory; `None` for a short statement with short values.
///
/// # Errors
/// If there is too little memory left for queries, or the text cannot be tokenized.
pub(super) fn reserve_parse_memory(
    sql: &str,
    parameters: &[Parameter],
    system: &EngineContext,
) -> Result<Option<MemoryReservation>> {
    let values = bytes_at_places(sql, parameters);
    let is_long = SQL_UNRESERVED_BYTES < sql.len();
    if !is_long && values <= UNRESERVED_VALUE_BYTES {
        return Ok(None);
    }
    let text = match is_long {
        true => {
            let tokens = count_tokens(sql, tokens_of_list)?;
            tokens.saturating_mul(TOKEN_BYTES).saturating_add(sql.len())
        }
        false => 0,
    };
    let reservation = MemoryConsumer::new("StatementText").register(&system.runtime.memory_pool);
    reservation.try_grow(text.saturating_add(values))?;
    Ok(Some(reservation))
}

/// Returns the tokens that the elements of a list in a text, such as `'{1,2}'`, would take as
/// expressions, which a cast or a comparison makes of them.
fn tokens_of_list(token: &Token<'_>) -> usize {
    match token.kind == TokenKind::Text && token.text.starts_with("'{") {
        true => parse_list(&token.unquoted()).map_or(0, |list| ELEMENT_TOKENS * list.len()),
        false => 0,
    }
}

/// Returns the bytes of the values at all of their places.
fn bytes_at_places(sql: &str, parameters: &[Parameter]) -> usize {
    if parameters.is_empty() {
        return 0;
    }
    let mut places = vec![0_usize; parameters.len()];
    // A sign within a text or a comment counts too: what is reserved is then too much.
    for sign in sql.split('$').skip(1) {
        let digits = sign.bytes().take_while(u8::is_ascii_digit).count();
        let number = sign[..digits].parse::<usize>().ok();
        if let Some(count) = number.and_then(|number| places.get_mut(number.checked_sub(1)?)) {
            *count += 1;
        }
    }
    let bytes = places.into_iter().zip(parameters).map(|(places, parameter)| {
        let (values, text) = size(parameter);
        let further = places.saturating_sub(1).saturating_mul(FURTHER_COPIES);
        let copies = if places == 0 { 0 } else { further.saturating_add(FIRST_COPIES) };
        let values = values.saturating_mul(VALUE_BYTES).saturating_mul(places);
        values.saturating_add(text.saturating_mul(copies))
    });
    bytes.fold(0, usize::saturating_add)
}

/// Returns the number of values, and the bytes of their text.
fn size(parameter: &Parameter) -> (usize, usize) {
    let text = match parameter {
        Parameter::Text(text) | Parameter::Typed(_, Some(text)) => text.len(),
        Parameter::Bytes(bytes) => bytes.len().saturating_mul(2),
        Parameter::List(_, values) => {
            return values.iter().map(size).fold((1, 0), |(values, text), (more, longer)| {
                (values.saturating_add(more), text.saturating_add(longer))
            });
        }
        _ => 0,
    };
    (1, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_in_texts_count_as_expressions() {
        let count = |sql| count_tokens(sql, tokens_of_list).unwrap();
        assert_eq!(count(r#"'{1,2, "b,c"}'::text[]"#), 6 + 3 * ELEMENT_TOKENS, "parse_memory-3");
        assert_eq!(count(r#"'{"a":1,"b":2}', 'a,b', '{'"#), 5, "parse_memory-3: JSON is no list");
    }

    #[test]
    fn values_count_at_each_of_their_places() {
        let text = Parameter::Text("x".repeat(1_000));
        let list = |values: Vec<Parameter>| Parameter::List(None, values);
        let inner = list(vec![Parameter::Integer(1), Parameter::Null]);
        let nested = list(vec![inner.clone(), inner]);
        let check = |sql: &str, parameters: &[Parameter], expected: usize| {
            assert_eq!(bytes_at_places(sql, parameters), expected, "{sql}");
        };
        check("select 1", std::slice::from_ref(&text), 0);
        check("select $1", &[], 0);
        check("select $1", std::slice::from_ref(&text), VALUE_BYTES + 8_000);
        check("select $1, $1", std::slice::from_ref(&text), 2 * VALUE_BYTES + 40_000);
        check("select $2, $3, $0, $, $x", &[text, nested], 7 * VALUE_BYTES);
    }
}
