//! The options of an engine: threads, memory, time limits, spill files.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_model::ByteCount;

use crate::cancel::Timeout;
use crate::limits::{FILL_ROWS_MAX, QUICK_MAX, SPILL_MAX};

/// The resources and limits of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The number of threads that work on a query.
    pub threads: NonZeroUsize,
    /// The memory of all queries together, beyond which they spill, or fail if they cannot.
    pub memory_max: ByteCount,
    /// The part of it that one statement may have: beyond it the statement spills, or fails
    /// (memory-7).
    pub statement_memory_max: ByteCount,
    /// The directory for spill files; created if it is missing.
    pub spill_dir: PathBuf,
    /// The time limit of a statement, unless its own options set one.
    pub timeout: Timeout,
    /// The upper bound of every time limit.
    pub timeout_max: Timeout,
    /// The disk space of all spill files, beyond which queries fail.
    pub spill_max: ByteCount,
    /// The limit of rows that a FILL may make.
    pub fill_rows_max: u64,
    /// The time up to which a query counts as quick and is answered on the caller's thread
    /// (`Engine::execute_cached`).
    pub quick_max: Duration,
}

impl EngineOptions {
    /// The default options of an engine with so many threads, so much memory, and this directory
    /// for spill files.
    #[must_use]
    pub fn standard(
        threads: NonZeroUsize,
        memory_max: ByteCount,
        spill_dir: PathBuf,
    ) -> EngineOptions {
        EngineOptions {
            threads,
            memory_max,
            statement_memory_max: memory_max,
            spill_dir,
            timeout: Timeout::STANDARD,
            timeout_max: Timeout::Never,
            spill_max: SPILL_MAX,
            fill_rows_max: FILL_ROWS_MAX,
            quick_max: QUICK_MAX,
        }
    }
}
