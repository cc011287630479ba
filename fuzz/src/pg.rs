//! The readers of PostgreSQL messages of the server, which need no other part of it.

#[path = "../../crates/server/src/pg/frame.rs"]
pub(crate) mod frame;

#[path = "../../crates/server/src/pg/copy_frame.rs"]
pub(crate) mod copy_frame;
