//! Writes of rows: appends, imports, changes by a statement, transactions, and the rows that new
//! ones replace.

pub(crate) mod import;
pub(crate) mod dedup;
pub(crate) mod replace;
pub(crate) mod update;
pub(crate) mod append;
pub(crate) mod transaction;
pub(crate) mod private_rows;
