//! SQL as text and syntax tree: clauses that sqlparser does not know, and rewriting of trees before
//! they are planned.
//!
//! No module here knows a table. Not here: our own statements (`parse`).

pub(crate) mod dialect;
pub(crate) mod clauses;
pub(crate) mod visit;
pub(crate) mod own_exprs;
pub(crate) mod blocks;
pub(crate) mod sample_order;
mod order_places;
mod hidden_keys;
pub(crate) mod select_rewrite;
pub(crate) mod cast_names;
pub(crate) mod rewritten;
pub(crate) mod row_values;
pub(crate) mod call;
