//! The part of the server that reads requests and needs nothing else of it, under its own names.

#[path = "http_wire.rs"]
pub(crate) mod wire;
#[path = "../../crates/server/src/http/multipart.rs"]
pub(crate) mod multipart;
#[path = "../../crates/server/src/http/unpack.rs"]
pub(crate) mod unpack;
