//! Cached queries: those that repeat, as those of dashboards and applications do.
//!
//! - A query that is cached and quick is answered on the caller's own thread: so it waits for no
//!   other thread. In all else (list, timeout, cancel, memory) it works like any statement.
//! - A query that took long the last time is not quick, and other threads work on it (`control`).
//!   A query that calls functions whose time depends on the values of rows is never quick
//!   (plan_cache-2): a batch of it is one step, which would block the other tasks of the thread.

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
use crate::answer::Answer;
use crate::control::{OnComplete, panicked, run_inline, with_cancel_checks};
use crate::error::{Error, Result};
use crate::plan::{CachedQuery, Parameter, PlanKey, PlannedQuery, with_few_wide_rows};
use crate::session::{Session, StatementOptions};

/// The least size of a plan that is charged to its statement: smaller ones are part of a
/// connection, and their queries take some microseconds.
const CHARGED_PLAN_BYTES: usize = 64 << 10;

/// The answer of a cached query.
pub struct CachedAnswer {
    /// The names and types of the columns.
    pub schema: SchemaRef,
    /// The position of the designated timestamp among them.
    pub designated: Option<usize>,
    /// The rows; the thread that polls them computes them. Dropping the stream stops the query.
    pub stream: SendableRecordBatchStream,
    /// Notices for the user, a sentence each.
    pub notices: Vec<String>,
}

impl From<CachedAnswer> for Answer {
    fn from(answer: CachedAnswer) -> Answer {
        let CachedAnswer { schema, designated, stream, notices } = answer;
        Answer::Rows { schema, designated, stream, notices }
    }
}

impl Engine {
    /// Executes a query, with these values of its parameters, on the caller's own thread, if it was
    /// executed before and took little time; `None` if it must be executed by
    /// [`execute_bound`](Self::execute_bound). If it takes longer this time, it continues on
    /// `threads`.
    ///
    /// # Errors
    /// As `execute_bound`.
    pub fn execute_cached(
        &self,
        sql: &Arc<str>,
        parameters: &[Parameter],
        options: &StatementOptions,
        threads: &Handle,
    ) -> Option<Result<CachedAnswer>> {
        let cached = self.lookup(sql, parameters, &options.session)?;
        match cached.is_quick() {
            true => self.execute_quick(sql, &cached, options, threads).transpose(),
            false => None,
        }
    }

    /// Returns what the plan cache has of a query.
    pub(super) fn lookup(
        &self,
        sql: &str,
        parameters: &[Parameter],
        session: &Session,
    ) -> Option<CachedQuery> {
        // Cached plans are for tables that all sessions see.
        if session.own_changes().is_some() {
            return None;
        }
        self.plans.lookup(PlanKey { sql, parameters }, &self.system.database)
    }

    /// Executes a cached query that is quick; `None` if it must be planned.
    pub(super) fn execute_quick(
        &self,
        sql: &Arc<str>,
        cached: &CachedQuery,
        options: &StatementOptions,
        threads: &Handle,
    ) -> Result<Option<CachedAnswer>> {
        let run = AssertUnwindSafe(|| self.run_quick(sql, cached, options, threads));
        catch_unwind(run).unwrap_or_else(|_| Err(Error::from(panicked())))
    }

    fn run_quick(
        &self,
        sql: &Arc<str>,
        cached: &CachedQuery,
        options: &StatementOptions,
        threads: &Handle,
    ) -> Result<Option<CachedAnswer>> {
        let begun = self.begin(sql, options);
        let start = Instant::now();
        let Some(planned) = PlannedQuery::of_template(cached, &begun.stop)? else {
            return Ok(None);
        };
        let context = self.quick_context(&begun);
        let Begun { stop, listing, .. } = begun;
        let narrowed = with_few_wide_rows(Arc::clone(&planned.plan))?;
        let plan = with_cancel_checks(narrowed, &stop)?;
        if CHARGED_PLAN_BYTES <= cached.plan_bytes() {
            listing.charge_plan(cached.plan_bytes())?;
        }
        listing.runs(&plan);
        let on_complete =
            self.time_recorder(&planned, start.elapsed()).expect("its plan is cached");
        let stream = run_inline(plan, context, &stop, threads, on_complete)?;
        let stream = listing.until_the_end_of(stream);
        let PlannedQuery { schema, designated, notices, .. } = planned;
        let stream = renamed(stream, &schema, Arc::clone(sql));
        Ok(Some(CachedAnswer { schema, designated, stream, notices }))
    }

    /// Returns a callback that records the time of a query, if its plan is cached; `before` is
    /// added to that time.
    pub(super) fn time_recorder(
        &self,
        planned: &PlannedQuery,
        before: Duration,
    ) -> Option<OnComplete> {
        let (plans, plan) = (Arc::clone(&self.plans), planned.cached.clone()?);
        Some(Box::new(move |worked| plans.record_time(&plan, before + worked)))
    }

    /// As `statement_state`, for templates of plans: they need no functions by name.
    fn quick_context(&self, begun: &Begun) -> Arc<TaskContext> {
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
