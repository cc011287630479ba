//! Opening a database, and its verification and repair without opening it.

pub(crate) mod fsync_guard;
pub(crate) mod replay_memory;
pub(crate) mod recovery;
pub(crate) mod survey;
pub(crate) mod salvage;
pub(crate) mod repair;
pub(crate) mod verify;
