//! Benchmark suites that speak only the wire, like any user of a database.
//!
//! - `tsbs`: the Time Series Benchmark Suite, its data and its loader, rebuilt.
//!
//! Nothing here knows a crate of ours: what a benchmark measures it meets as a stranger.

#![forbid(unsafe_code)]

pub mod tsbs;
mod error;

pub use self::error::{Error, Result};
