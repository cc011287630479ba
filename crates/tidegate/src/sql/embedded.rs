//! Execution in this process: an engine with its threads, its session and its database.

use std::sync::Arc;

use futures::StreamExt;
use tidegate_model::ByteCount;
use tidegate_platform::Clock;
use tidegate_query::{
    Answer, Engine, EngineOptions, Origin, STACK_BYTES, Session, StatementOptions,
};
use tidegate_server::copy::{Copier, CopyConfig, CopyHost};
use tidegate_storage::Database;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinHandle;

use super::program::Program;
use super::running::{Piece, QUEUE, Running};
use crate::error::{Error, Result};

/// The engine and its threads.
pub(super) struct Embedded {
    /// `Some` until the drop.
    runtime: Option<Runtime>,
    engine: Arc<Engine>,
    /// The session of all statements, so that `SET` holds for those that follow.
    session: Session,
    database: Arc<Database>,
}

impl Embedded {
    pub(super) fn new(
        database: Arc<Database>,
        options: &EngineOptions,
        program: Program,
        copy_memory: ByteCount,
    ) -> Result<Embedded> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(options.threads.get()).thread_name("query");
        builder.thread_stack_size(STACK_BYTES).enable_time();
        let runtime = crate::build_runtime(&mut builder);
        let runtime = runtime.map_err(|source| Error::Threads { source })?;
        let engine = Engine::new(Arc::clone(&database), options)?;
        let mut engine = engine.with_server_info(Arc::new(program));
        let jobs = CopyConfig::standard(copy_memory);
        let copier = Copier::new(&database, jobs, options.threads, CopyHost::Command);
        // A directory that cannot be opened fails a COPY that needs it, and nothing else.
        if let Ok(copier) = copier {
            engine = engine.with_bulk(Arc::new(copier));
        }
        let engine = Arc::new(engine);
        let session = Session::new(Origin::EMBEDDED);
        session.keep_lasting();
        Ok(Embedded { runtime: Some(runtime), engine, session, database })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("taken only by drop")
    }

    pub(super) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    fn options(&self) -> StatementOptions {
        StatementOptions { timeout: None, session: self.session.clone(), cancel_handle: None }
    }

    pub(super) fn start(&self, sql: &str) -> Running {
        let (sender, pieces) = channel(QUEUE);
        let (engine, sql) = (Arc::clone(&self.engine), sql.to_owned());
        let options = self.options();
        let work = self.runtime().spawn(async move {
            if let Err(error) = execute(&engine, &sql, &options, &sender).await {
                // The receiver is gone if the statement was cancelled.
                let _ = sender.send(Piece::Failed(Error::Query(error))).await;
            }
        });
        Running::new(pieces, work)
    }

    /// Takes all rows on the threads of the engine, and returns the nanoseconds and the row count.
    pub(super) fn measure(
        &self,
        sql: &str,
        clock: Arc<dyn Clock>,
    ) -> JoinHandle<Result<(u64, u64)>> {
        let (engine, sql, options) = (Arc::clone(&self.engine), sql.to_owned(), self.options());
        self.runtime().spawn(async move {
            let start = clock.monotonic_nanos();
            let mut rows = 0;
            let answer = engine.execute_with(&sql, &options).await?;
            if let Answer::Rows { mut stream, .. } = answer {
                while let Some(batch) = stream.next().await {
                    rows += batch.map_err(tidegate_query::Error::from)?.num_rows() as u64;
                }
            }
            Ok((clock.monotonic_nanos() - start, rows))
        })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The shutdown does not wait for an operator that does not check for cancellation
        // (running-2).
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends the answer piece by piece, until all is sent or the receiver is gone.
async fn execute(
    engine: &Engine,
    sql: &str,
    options: &StatementOptions,
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
    // The receiver is gone if the statement was cancelled.
    let _ = sender.send(Piece::Done { tag, notices }).await;
    Ok(())
}
