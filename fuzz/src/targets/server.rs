//! As `all.rs`, for what the server reads: these targets need parts of `crates/server`.

pub(super) mod input;
pub(super) mod http;
