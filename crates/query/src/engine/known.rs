//! Cached small queries that repeat, as those of dashboards and applications do.
//!
//! - KN1. A query that is known and quick is answered on the caller's own thread, with its cached
//!   plan: so it waits for no other thread. In all else (list, timeout, cancel, memory) it works
//!   like any statement.
//! - KN2. A query that took long the last time is not quick, and other threads work on it
//!   (`control` P4). A query that calls functions whose time depends on the values of rows is never
//!   quick (`plan::cache` PC5): a batch of it is one step, which would block the other tasks of the
//!   thread.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Begun, Engine, renamed};
use crate::control::{StatementOptions, Took, guarded, panicked, run_here};
use crate::error::{Error, Result};
use crate::plan::{KnownQuery, Parameter, PlannedQuery, known_query};

/// The answer of a known query.
pub struct KnownAnswer {
    /// The names and types of the columns.
    pub schema: SchemaRef,
    /// The position of the designated timestamp among them.
    pub designated: Option<usize>,
    /// The rows; the thread that polls them computes them. Dropping the stream stops the query.
    pub stream: SendableRecordBatchStream,
    /// Notices for the user, a sentence each.
    pub notices: Vec<String>,
}

impl Engine {
    /// The answer of a query, with these values of its parameters, that was executed before and
    /// took little time (KN1). `None` if it must be executed by
    /// [`execute_bound`](Self::execute_bound). If it takes longer this time, it continues on
    /// `threads`.
    ///
    /// # Errors
    /// As `execute_bound`.
    pub fn known(
        &self,
        (sql, parameters, options): (&Arc<str>, &[Parameter], &StatementOptions),
        threads: &Handle,
    ) -> Option<Result<KnownAnswer>> {
        // Cached plans are for tables that all sessions see.
        if options.session.seen().is_some() {
            return None;
        }
        let known = known_query((&self.plans, &self.system.database), (sql, parameters))?;
        let run = AssertUnwindSafe(|| self.run_known(sql, known, (options, threads)));
        Some(catch_unwind(run).unwrap_or_else(|_| Err(Error::from(panicked()))))
    }

    fn run_known(
        &self,
        sql: &Arc<str>,
        known: KnownQuery,
        (options, threads): (&StatementOptions, &Handle),
    ) -> Result<KnownAnswer> {
        let begun = self.begin(sql, options);
        let start = Instant::now();
        let planned = known.planned(&begun.stop)?;
        let context = self.known_context(&begun);
        let Begun { stop, listing, .. } = begun;
        let plan = guarded(Arc::clone(&planned.plan), &stop)?;
        listing.runs(&plan);
        let took = self.took(&planned, start.elapsed()).expect("its plan is kept");
        let stream = run_here(plan, context, (&stop, threads), took)?;
        let stream = listing.until_the_end_of(stream);
        let (schema, designated) = (Arc::clone(&planned.schema), planned.designated);
        let notices = planned.notices.clone();
        let stream = renamed(stream, &schema, Arc::clone(sql));
        Ok(KnownAnswer { schema, designated, stream, notices })
    }

    /// Returns a callback that records the time of a query, if its plan is cached; `before` is
    /// added to that time.
    pub(super) fn took(&self, planned: &PlannedQuery, before: Duration) -> Option<Took> {
        let (plans, kept) = (Arc::clone(&self.plans), planned.kept.clone()?);
        Some(Box::new(move |worked| plans.took(&kept, before + worked)))
    }

    /// As `statement_state`, for cached plans: they need no functions by name.
    fn known_context(&self, begun: &Begun) -> Arc<TaskContext> {
        let mut config = self.state.config().clone();
        config.set_extension(Arc::clone(&begun.stop));
        config.set_extension(Arc::clone(&begun.caller));
        let memory_pool = Arc::clone(&begun.listing.running().memory) as _;
        let runtime = RuntimeEnv { memory_pool, ..self.system.runtime.as_ref().clone() };
        Arc::new(TaskContext::new(
            None,
            String::new(),
            config,
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            Arc::new(runtime),
        ))
    }
}
