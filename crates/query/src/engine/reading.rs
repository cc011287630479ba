//! The memory for parsing a statement: its tokens and its syntax tree.
//!
//! - RD1. It is reserved before the text of a long statement is tokenized, because tokens take many
//!   times the bytes of the text, and is held until the statement is planned.
//! - RD2. The elements of lists among the parameters count as well: each becomes a constant of the
//!   statement, and takes far more memory while it is planned than in its message.

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use tidegate_model::limits::SQL_UNRESERVED_BYTES;

use crate::error::Result;
use crate::parse::count_tokens;
use crate::plan::Parameter;
use crate::system::System;

/// Bytes for each token: the token, its part of the tree, and copies of both.
const TOKEN_BYTES: usize = 768;
/// Bytes for each element of a list: its token, its expression, and copies of both while it is
/// planned.
const ELEMENT_BYTES: usize = 2_560;
/// The number of elements that are not reserved for.
const UNRESERVED_ELEMENTS: usize = 64;

/// Reserves the memory; `None` for a short statement with short lists.
///
/// # Errors
/// If there is too little memory left for queries, or the text cannot be tokenized.
pub(super) fn reserve_reading(
    sql: &str,
    parameters: &[Parameter],
    system: &System,
) -> Result<Option<MemoryReservation>> {
    let elements = elements(parameters);
    if sql.len() <= SQL_UNRESERVED_BYTES && elements <= UNRESERVED_ELEMENTS {
        return Ok(None);
    }
    let text = match sql.len() <= SQL_UNRESERVED_BYTES {
        true => 0,
        false => count_tokens(sql)?.saturating_mul(TOKEN_BYTES).saturating_add(sql.len()),
    };
    let bytes = elements.saturating_mul(ELEMENT_BYTES).saturating_add(text);
    let reservation = MemoryConsumer::new("StatementText").register(&system.runtime.memory_pool);
    reservation.try_grow(bytes)?;
    Ok(Some(reservation))
}

/// Returns the number of elements of all lists, with those of the lists in them.
fn elements(parameters: &[Parameter]) -> usize {
    let of_one = |parameter: &Parameter| match parameter {
        Parameter::List(_, values) => values.len().saturating_add(elements(values)),
        _ => 0,
    };
    parameters.iter().map(of_one).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_nested_lists_are_counted() {
        let list = |values: Vec<Parameter>| Parameter::List(None, values);
        let inner = list(vec![Parameter::Integer(1), Parameter::Null]);
        assert_eq!(elements(&[Parameter::Integer(1)]), 0);
        assert_eq!(elements(&[list(vec![inner.clone(), inner]), list(Vec::new())]), 6);
    }
}
