//! The memory for parsing a statement: its tokens and its syntax tree.
//!
//! - RD1. It is reserved before the text of a long statement is tokenized, because tokens take many
//!   times the bytes of the text, and is held until the statement is planned.

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use tidegate_model::limits::SQL_UNRESERVED_BYTES;

use crate::error::Result;
use crate::parse::count_tokens;
use crate::system::System;

/// Bytes for each token: the token, its part of the tree, and copies of both.
const TOKEN_BYTES: usize = 768;

/// Reserves the memory; `None` for a short statement.
///
/// # Errors
/// If there is too little memory left for queries, or the text cannot be tokenized.
pub(super) fn reserve_reading(sql: &str, system: &System) -> Result<Option<MemoryReservation>> {
    if sql.len() <= SQL_UNRESERVED_BYTES {
        return Ok(None);
    }
    let bytes = count_tokens(sql)?.saturating_mul(TOKEN_BYTES).saturating_add(sql.len());
    let reservation = MemoryConsumer::new("StatementText").register(&system.runtime.memory_pool);
    reservation.try_grow(bytes)?;
    Ok(Some(reservation))
}
