//! Benchmark suites that reach a database only over its protocols, as any client does.
//!
//! - `tsbs`: the Time Series Benchmark Suite, reimplemented: generator, loader and sink.
//!
//! No code here depends on another crate of Tidegate: a benchmark treats Tidegate as it treats
//! every other database.

#![forbid(unsafe_code)]

pub mod tsbs;
mod time;
mod error;

pub use self::error::{Error, Result};
