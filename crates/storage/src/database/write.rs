//! Writes of rows: appends, imports, UPDATE and DELETE, transactions, and DEDUP, which replaces
//! rows with equal keys.

pub(crate) mod import;
pub(crate) mod dedup;
pub(crate) mod replace;
pub(crate) mod update;
pub(crate) mod append;
pub(crate) mod transaction;
pub(crate) mod private_rows;
