//! The memory for reading a statement: its tokens, and the tree that is made of them.
//!
//! - RD1. It is reserved before the text of a long statement is cut into tokens, as these take many
//!   times the bytes of the text, and is held until the statement is planned.

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use tidegate_model::limits::SQL_UNRESERVED_BYTES;

use crate::error::Result;
use crate::parse::count_tokens;
use crate::system::System;

/// Bytes for each token: its own, those of the tree, and of their copies.
const TOKEN_BYTES: usize = 768;

/// `None` if a statement is not long.
///
/// # Errors
/// If there is not so much memory left for queries, or the text is none of a statement.
pub(super) fn reserve_reading(sql: &str, system: &System) -> Result<Option<MemoryReservation>> {
    if sql.len() <= SQL_UNRESERVED_BYTES {
        return Ok(None);
    }
    let bytes = count_tokens(sql)?.saturating_mul(TOKEN_BYTES).saturating_add(sql.len());
    let reservation = MemoryConsumer::new("StatementText").register(&system.runtime.memory_pool);
    reservation.try_grow(bytes)?;
    Ok(Some(reservation))
}
