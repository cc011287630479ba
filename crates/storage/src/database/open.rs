//! Opening a database, and its verification and repair without opening it.

pub(crate) mod fsync_guard;
pub(crate) mod replay_memory;
pub(crate) mod recovery;
pub(crate) mod symbol_gaps;
pub(crate) mod same_rows;
pub(crate) mod offline;
pub(crate) mod missing_flush;
pub(crate) mod repair_replay;
pub(crate) mod repair;
pub(crate) mod verify;
