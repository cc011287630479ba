//! As `all.rs`, for the readers of the server: these targets need parts of `crates/server`.

pub(super) mod input;
pub(super) mod http;
