//! The parts of the server that read PostgreSQL's messages and need nothing else of it.

#[path = "../../crates/server/src/pg/frame.rs"]
pub(crate) mod frame;

#[path = "../../crates/server/src/pg/copy_frame.rs"]
pub(crate) mod copy_frame;
