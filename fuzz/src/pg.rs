//! The part of the server that reads PostgreSQL's messages and needs nothing else of it.

#[path = "../../crates/server/src/pg/frame.rs"]
pub(crate) mod frame;
