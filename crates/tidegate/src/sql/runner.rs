//! Execution of the statements of `tidegate sql`, embedded or at a server, and the output of their
//! results.
//!
//! - runner-1. The output does not depend on the executor: an engine in this process (`embedded`)
//!   and a server (`remote`) return the same pieces of an answer (`running`).
//! - Ctrl-C takes effect within `TICK`, whatever the executor does: the thread that writes, which
//!   has a timer of its own, stops waiting and drops the statement, which ends it (running-2).

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use tidegate_model::ByteCount;
use tidegate_platform::Clock;
use tidegate_query::EngineOptions;
use tidegate_storage::Database;
use tokio::runtime::Runtime;

use super::embedded::Embedded;
use super::program::Program;
use super::remote::Remote;
use super::running::{Piece, Running};
use crate::error::{Error, Result};
use crate::output::{Form, Target, WriteError};

/// The interval at which the thread that writes checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(10);

/// The execution of statements, and the thread that writes their results.
pub(crate) struct Runner {
    executor: Executor,
    /// The runtime of the thread that writes. Timers of the engine's runtime would fire late while
    /// all its threads compute.
    front: Runtime,
    clock: Arc<dyn Clock>,
}

/// The executor of statements (runner-1).
enum Executor {
    Embedded(Embedded),
    Remote(Remote),
}

/// The outcome of a statement.
pub(crate) struct Outcome {
    /// The command tag; `None` if the answer was rows.
    pub(crate) tag: Option<String>,
    pub(crate) rows: u64,
    /// The time from the start of the statement until its last row was written.
    pub(crate) nanos: u64,
    pub(crate) notices: Vec<String>,
}

impl Runner {
    /// Creates a runner with an engine on its own threads.
    pub(crate) fn embedded(
        database: Arc<Database>,
        options: &EngineOptions,
        program: Program,
        clock: Arc<dyn Clock>,
        copy_memory: ByteCount,
    ) -> Result<Runner> {
        let embedded = Embedded::new(database, options, program, copy_memory)?;
        Runner::new(Executor::Embedded(embedded), clock)
    }

    /// Creates a runner with a connection to a server.
    pub(crate) fn remote(remote: Remote, clock: Arc<dyn Clock>) -> Result<Runner> {
        Runner::new(Executor::Remote(remote), clock)
    }

    fn new(executor: Executor, clock: Arc<dyn Clock>) -> Result<Runner> {
        let front = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let front = front.map_err(|source| Error::Threads { source })?;
        Ok(Runner { executor, front, clock })
    }

    /// Returns the database, if it is open in this process.
    pub(crate) fn database(&self) -> Option<&Arc<Database>> {
        match &self.executor {
            Executor::Embedded(embedded) => Some(embedded.database()),
            Executor::Remote(_) => None,
        }
    }

    /// Returns the server, if statements are executed there.
    pub(crate) fn server(&self) -> Option<&Remote> {
        match &self.executor {
            Executor::Embedded(_) => None,
            Executor::Remote(remote) => Some(remote),
        }
    }

    /// Runs one statement and writes its rows. `results` counts the results already in `target`.
    pub(crate) fn run(
        &self,
        sql: &str,
        form: Form,
        target: &mut Target,
        interrupted: &AtomicBool,
        results: &mut u64,
    ) -> Result<Outcome> {
        let start = self.clock.monotonic_nanos();
        let mut answer = self.start(sql);
        let mut outcome = Outcome { tag: None, rows: 0, nanos: 0, notices: Vec::new() };
        match self.next(&mut answer, interrupted)? {
            Piece::Fields { fields, notices } => {
                outcome.notices = notices;
                *results += 1;
                if *results > 1 && form.format.holds_one_result() {
                    return Err(Error::SecondResult { format: form.format.name() });
                }
                outcome.rows = self.write(&mut answer, fields, form, target, interrupted)?;
            }
            Piece::Done { tag, notices } => (outcome.tag, outcome.notices) = (tag, notices),
            Piece::Rows(_) => unreachable!("the fields come first"),
            Piece::Failed(error) => return Err(error),
        }
        outcome.nanos = self.clock.monotonic_nanos() - start;
        Ok(outcome)
    }

    fn write(
        &self,
        answer: &mut Running,
        fields: SchemaRef,
        form: Form,
        target: &mut Target,
        interrupted: &AtomicBool,
    ) -> Result<u64> {
        let mut rows = 0;
        let place = target.place().to_owned();
        let write_error = |source| Error::Output { place: place.clone(), source };
        let mut writer = form.writer(target, fields).map_err(write_error)?;
        loop {
            match self.next(answer, interrupted)? {
                Piece::Rows(batch) => {
                    writer.write(&batch).map_err(write_error)?;
                    rows += batch.num_rows() as u64;
                }
                Piece::Done { .. } => break,
                Piece::Fields { .. } => unreachable!("the fields come once"),
                Piece::Failed(error) => return Err(error),
            }
        }
        writer.finish().map_err(write_error)?;
        target.flush().map_err(|error| write_error(WriteError::Io(error)))?;
        Ok(rows)
    }

    /// Runs one statement, discards its rows, and returns the nanoseconds and the number of rows.
    pub(crate) fn measure(&self, sql: &str, interrupted: &AtomicBool) -> Result<(u64, u64)> {
        let mut work = match &self.executor {
            Executor::Embedded(embedded) => embedded.measure(sql, Arc::clone(&self.clock)),
            Executor::Remote(_) => return self.measure_pieces(sql, interrupted),
        };
        self.front.block_on(async {
            loop {
                tokio::select! {
                    result = &mut work => return result.map_err(|_| Error::Panicked)?,
                    () = tokio::time::sleep(TICK) => {
                        if interrupted.load(Relaxed) {
                            work.abort();
                            return Err(Error::Interrupted { consequence: "" });
                        }
                    }
                }
            }
        })
    }

    fn measure_pieces(&self, sql: &str, interrupted: &AtomicBool) -> Result<(u64, u64)> {
        let start = self.clock.monotonic_nanos();
        let mut answer = self.start(sql);
        let mut rows = 0;
        loop {
            match self.next(&mut answer, interrupted)? {
                Piece::Fields { .. } => {}
                Piece::Rows(batch) => rows += batch.num_rows() as u64,
                Piece::Done { .. } => return Ok((self.clock.monotonic_nanos() - start, rows)),
                Piece::Failed(error) => return Err(error),
            }
        }
    }

    fn start(&self, sql: &str) -> Running {
        match &self.executor {
            Executor::Embedded(embedded) => embedded.start(sql),
            Executor::Remote(remote) => remote.start(sql),
        }
    }

    fn next(&self, answer: &mut Running, interrupted: &AtomicBool) -> Result<Piece> {
        self.front.block_on(async {
            while !interrupted.load(Relaxed) {
                tokio::select! {
                    piece = answer.next() => return piece.ok_or(Error::Panicked),
                    () = tokio::time::sleep(TICK) => {}
                }
            }
            Err(Error::Interrupted { consequence: "" })
        })
    }
}
