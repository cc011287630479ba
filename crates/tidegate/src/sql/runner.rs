//! Runs statements on the engine's threads and hands their batches to the thread that writes.
//!
//! - R1. At most `QUEUE` batches wait: a slow writer slows the query, and memory stays the same.
//! - R2. Ctrl-C is answered within `TICK`, whatever the engine does: the writer, whose timers are
//!   its own, stops waiting and drops the stream, which ends all operators below it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use tidegate_model::ByteCount;
use tidegate_platform::Clock;
use tidegate_query::{
    Answer, Engine, EngineOptions, Origin, STACK_BYTES, Session, StatementOptions,
};
use tidegate_server::copy::{Copier, CopyConfig, CopyHost};
use tidegate_storage::Database;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::program::Program;
use crate::error::{Error, Result};
use crate::output::{Form, Target, WriteError};

const QUEUE: usize = 2;
const TICK: Duration = Duration::from_millis(10);

/// The engine and its threads.
pub(crate) struct Runner {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    /// Of the thread that writes. Timers of the other one ring late when all its threads compute.
    front: Runtime,
    engine: Arc<Engine>,
    /// What `SET` sets holds for all statements that follow.
    session: Session,
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

/// What came of a statement.
pub(crate) struct Outcome {
    /// What was done; `None` if the answer was rows.
    pub(crate) tag: Option<String>,
    pub(crate) rows: u64,
    /// From the text to the last row written.
    pub(crate) nanos: u64,
    pub(crate) notices: Vec<String>,
}

/// What the engine's side sends.
enum Piece {
    Fields { fields: SchemaRef, notices: Vec<String> },
    Rows(RecordBatch),
    Done { tag: Option<String>, notices: Vec<String> },
    Failed(tidegate_query::Error),
}

impl Runner {
    pub(crate) fn new(
        database: Arc<Database>,
        (options, program): (&EngineOptions, Program),
        (clock, copy_memory): (Arc<dyn Clock>, ByteCount),
    ) -> Result<Runner> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.get())
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_time()
            .build()
            .map_err(|source| Error::Threads { source })?;
        let front = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let front = front.map_err(|source| Error::Threads { source })?;
        let engine = Engine::new(Arc::clone(&database), options)?;
        let mut engine = engine.with_host(Arc::new(program));
        let jobs = CopyConfig::standard(copy_memory);
        let copier = Copier::new(&database, (jobs, options.threads), CopyHost::Command);
        // A folder that cannot be opened fails the COPY that wants it, and nothing else.
        if let Ok(copier) = copier {
            engine = engine.with_bulk(Arc::new(copier));
        }
        let engine = Arc::new(engine);
        let session = Session::new(Origin::EMBEDDED);
        Ok(Runner { runtime: Some(runtime), front, engine, session, database, clock })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("taken only by drop")
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Runs one statement and writes its rows. `results` counts the results already in `target`.
    #[expect(clippy::too_many_arguments, reason = "all differ in type")]
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
        match answer.next(self, interrupted)? {
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
            Piece::Failed(error) => return Err(Error::Query(error)),
        }
        outcome.nanos = self.clock.monotonic_nanos() - start;
        Ok(outcome)
    }

    #[expect(clippy::too_many_arguments, reason = "all differ in type")]
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
            match answer.next(self, interrupted)? {
                Piece::Rows(batch) => {
                    writer.write(&batch).map_err(write_error)?;
                    rows += batch.num_rows() as u64;
                }
                Piece::Done { .. } => break,
                Piece::Fields { .. } => unreachable!("the fields come once"),
                Piece::Failed(error) => return Err(Error::Query(error)),
            }
        }
        writer.finish().map_err(write_error)?;
        target.flush().map_err(|error| write_error(WriteError::Io(error)))?;
        Ok(rows)
    }

    /// Runs one statement, takes all its rows, and returns the nanoseconds and the rows.
    pub(crate) fn measure(&self, sql: &str, interrupted: &AtomicBool) -> Result<(u64, u64)> {
        let (engine, clock) = (Arc::clone(&self.engine), Arc::clone(&self.clock));
        let (sql, options) = (sql.to_owned(), self.options());
        let mut work = self.runtime().spawn(async move {
            let start = clock.monotonic_nanos();
            let mut rows = 0;
            let answer = engine.execute_with(&sql, &options).await?;
            if let Answer::Rows { mut stream, .. } = answer {
                while let Some(batch) = stream.next().await {
                    rows += batch?.num_rows() as u64;
                }
            }
            Ok((clock.monotonic_nanos() - start, rows))
        });
        self.front.block_on(async {
            loop {
                tokio::select! {
                    result = &mut work => {
                        return result.map_err(|_| Error::Panicked)?.map_err(Error::Query);
                    }
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

    fn options(&self) -> StatementOptions {
        StatementOptions { timeout: None, session: self.session.clone(), canceler: None }
    }

    fn start(&self, sql: &str) -> Running {
        let (sender, pieces) = channel(QUEUE);
        let (engine, sql) = (Arc::clone(&self.engine), sql.to_owned());
        let options = self.options();
        let work = self.runtime().spawn(async move {
            if let Err(error) = execute(&engine, (&sql, &options), &sender).await {
                // If nobody waits for it any more, nobody needs to know.
                let _ = sender.send(Piece::Failed(error)).await;
            }
        });
        Running { pieces, work }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Without waiting for an operator that does not look whether it is still wanted (R2).
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A statement that runs; dropping it stops it (R2).
struct Running {
    pieces: Receiver<Piece>,
    work: JoinHandle<()>,
}

impl Running {
    fn next(&mut self, runner: &Runner, interrupted: &AtomicBool) -> Result<Piece> {
        runner.front.block_on(async {
            while !interrupted.load(Relaxed) {
                tokio::select! {
                    piece = self.pieces.recv() => return piece.ok_or(Error::Panicked),
                    () = tokio::time::sleep(TICK) => {}
                }
            }
            Err(Error::Interrupted { consequence: "" })
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// Sends the answer piece by piece, until all is sent or nobody takes it any more.
async fn execute(
    engine: &Engine,
    (sql, options): (&str, &StatementOptions),
    sender: &Sender<Piece>,
) -> tidegate_query::Result<()> {
    let (tag, notices) = match engine.execute_with(sql, options).await? {
        Answer::Rows { schema, mut stream, notices, .. } => {
            if sender.send(Piece::Fields { fields: schema, notices }).await.is_err() {
                return Ok(());
            }
            while let Some(batch) = stream.next().await {
                if sender.send(Piece::Rows(batch?)).await.is_err() {
                    return Ok(());
                }
            }
            (None, Vec::new())
        }
        Answer::Done { tag, notices, .. } => (Some(tag), notices),
    };
    // If nobody waits for it any more, nobody needs to know.
    let _ = sender.send(Piece::Done { tag, notices }).await;
    Ok(())
}
