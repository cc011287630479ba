//! The request reader of the server, which needs no other part of it, under its own module names.

#[path = "http_wire.rs"]
pub(crate) mod wire;
#[path = "../../crates/server/src/http/multipart.rs"]
pub(crate) mod multipart;
#[path = "../../crates/server/src/http/decompression.rs"]
pub(crate) mod decompression;
