//! The readers of PostgreSQL messages of the server, which need no other part of it.

#[path = "../../crates/server/src/pg/message_reader.rs"]
pub(crate) mod message_reader;

#[path = "../../crates/server/src/pg/copy_fields.rs"]
pub(crate) mod copy_fields;
