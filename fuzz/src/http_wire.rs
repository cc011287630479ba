//! Heads and bodies of requests, without sockets.

#[path = "../../crates/server/src/http/wire/body.rs"]
mod body;
#[path = "../../crates/server/src/http/wire/head.rs"]
mod head;

pub(crate) use body::{BadBody, Body};
pub(crate) use head::{Framing, Head, HeadReader};
