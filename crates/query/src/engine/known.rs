//! Small queries that come again and again, as those of dashboards and applications do.
//!
//! - KN1. A query that is known and quick is answered by whoever asks, on his own thread, without a
//!   plan that others have to make: so no thread is waited for. What else it does (list, timeout,
//!   cancel, memory) is as in any statement.
//! - KN2. What took long the last time is not quick, and others work on it (`control` P4). What
//!   calls functions whose time depends on the values of rows is never quick (`plan::cache` PC5): a
//!   batch of it is one step, which others of the thread would wait for.

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

/// The answer of a query that was known.
pub struct KnownAnswer {
    /// What its columns are called, and their types.
    pub schema: SchemaRef,
    /// Which of them is the designated timestamp.
    pub designated: Option<usize>,
    /// The rows; whoever polls them works on them. Dropping it ends the work.
    pub stream: SendableRecordBatchStream,
    /// What the user should know, a sentence each.
    pub notices: Vec<String>,
}

impl Engine {
    /// The answer of a query, with these values of its parameters, that has been done before and
    /// took little time (KN1). `None` if it is to be done as any other, by
    /// [`execute_bound`](Self::execute_bound). On `threads` it works if it takes longer now.
    ///
    /// # Errors
    /// As there.
    pub fn known(
        &self,
        (sql, parameters, options): (&Arc<str>, &[Parameter], &StatementOptions),
        threads: &Handle,
    ) -> Option<Result<KnownAnswer>> {
        // A plan is for tables that all see.
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

    /// Remembers how long a query has worked, if its plan is kept; so long it took before.
    pub(super) fn took(&self, planned: &PlannedQuery, before: Duration) -> Option<Took> {
        let (plans, kept) = (Arc::clone(&self.plans), planned.kept.clone()?);
        Some(Box::new(move |worked| plans.took(&kept, before + worked)))
    }

    /// As `statement_state`, for plans that are there already: they need no functions by name.
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
