//! The engine: executes SQL statements on a database.
//!
//! - A statement sees the tables as they are when it is planned, all as of one moment.
//! - Dropping an answer's stream stops its statement, and so do its timeout and a cancel
//!   (control-1).
//! - Every statement is listed from its beginning to its end (`running_queries`).
//!
//! The methods are `async` and belong on a runtime whose threads may compute: planning, decoding
//! and DataFusion's operators run there. A poll of an operator can last seconds (control-4), so
//! statements that must not wait for each other belong on runtimes of their own. Statements that
//! change tables block on the disk on a thread of their own.

pub(crate) mod admit;
mod changing;
mod cached;
mod defaults;
mod truncate;
mod parse_memory;
mod overload;

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result as PlanResult};
use datafusion::config::ConfigNonZeroUsize;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{
    SendableRecordBatchStream, SessionState, SessionStateBuilder, SessionStateDefaults, TaskContext,
};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use datafusion::prelude::SessionConfig;
use futures::{StreamExt, stream};
use tidegate_storage::{Database, Error as StorageError, thread_heap_bytes};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::account::Account;
use crate::answer::{Answer, Done};
use crate::bulk::{BulkIo, NoBulk};
use crate::cancel::{CancelState, Timeout};
use crate::context::{EngineContext, StatementContext, parameter};
use crate::control::{
    PlanText, Reader, finish_in_time, plan_spawned, run, run_on_demand, with_cancel_checks,
};
use crate::ddl;
use crate::dml::{Changed, RowChanges};
use crate::error::{Error, Result, SettingProblem};
use crate::functions::table_functions;
use crate::memory::{
    QueryMemory, Shape, StatementMemory, UncommittedMemory, UserMemories, merge_bytes, share,
};
use crate::options::EngineOptions;
use crate::parse::statement::session::Set;
use crate::parse::{Explain, Name, RowChange, Statement, blanked, parse_statement};
use crate::plan::{
    CachedQuery, LENGTH_TYPE, NestedLiteralPlanner, OperatorPlanner, Parameter, ParameterTypes,
    PartPlanner, PlanCache, PlannedQuery, analyzer_rules, describe_query, described_with,
    locate_running, optimizer_rules, parameter_count, physical_rules, plan_cached, plan_query,
    untyped_parameters, with_few_wide_rows,
};
use crate::position::Position;
use crate::running_queries::{Listing, RunningQueries};
use crate::server_info::{NoServerInfo, ServerInfo};
use crate::session::{Committing, Session, StatementOptions, reset, set};
use crate::spill::{self, SpillFiles};
use crate::system_tables::{canceled, show};
use changing::changing;
use parse_memory::reserve_parse_memory;

pub use cached::CachedAnswer;

/// Bytes of a thread's share of memory for each row of a batch: an operator that spills holds
/// several batches at a time, of rows that may be wide.
const SHARE_PER_ROW: usize = 16 << 10;
/// The least rows of a batch: with fewer, most time would go into the overhead of a batch.
const BATCH_ROWS_MIN: usize = 256;

/// The parameters and result columns of a statement.
#[derive(Debug, Clone)]
pub struct Described {
    /// The columns of its answer; `None` if it has none.
    pub columns: Option<SchemaRef>,
    /// The position of the designated timestamp among them, if that is known.
    pub designated: Option<usize>,
    /// The parameter types, as far as they follow from the statement.
    pub parameters: Vec<Option<FieldRef>>,
    /// The indexes of parameters that are not even texts: a client has to declare their type.
    pub untyped: Vec<usize>,
}

impl Described {
    fn of_columns(columns: SchemaRef) -> Described {
        let (parameters, untyped) = (Vec::new(), Vec::new());
        Described { columns: Some(columns), designated: None, parameters, untyped }
    }
}

/// The moment at which a query begins to compute its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    AtOnce,
    /// As the first of them is asked for.
    OnDemand,
}

/// A query with values for its parameters.
struct Bound {
    sql: Arc<str>,
    parameters: Vec<Parameter>,
    /// Its cached plan, if there is one.
    cached: Option<CachedQuery>,
    start: Start,
}

/// A query that was planned.
struct Planned {
    query: PlannedQuery,
    context: Arc<TaskContext>,
    /// The bytes that this has allocated and not freed, or a little more; 0 if its threads are not
    /// counted.
    bytes: isize,
}

/// A statement that has begun.
struct Begun {
    stop: Arc<CancelState>,
    caller: Arc<StatementContext>,
    listing: Listing,
}

impl Begun {
    fn account(&self) -> Arc<Account> {
        let memory: Arc<dyn MemoryPool> = Arc::clone(&self.listing.running().memory) as _;
        Account::new(&self.stop, &memory)
    }
}

/// Executes SQL on a database.
#[derive(Debug)]
pub struct Engine {
    state: SessionState,
    plans: Arc<PlanCache>,
    system: Arc<EngineContext>,
}

impl Engine {
    /// Creates an engine on a database.
    ///
    /// # Errors
    /// If the directory for spilling cannot be created.
    pub fn new(database: Arc<Database>, options: &EngineOptions) -> Result<Engine> {
        let made = database.disk().create_dir_all(&options.spill_dir);
        match made {
            // A disk that is full or read-only must not prevent the start, since reading needs no
            // room and deleting frees it: only statements that spill will fail.
            Err(error) if error.is_no_space() || error.is_read_only() => {}
            made => {
                let purpose = "make the spill folder";
                made.map_err(|source| StorageError::Disk { purpose, source })?;
            }
        }
        let memory = QueryMemory::of_all(database.symbol_memory(), options);
        let spill = SpillFiles::new(database.disk(), options.spill_dir.clone(), options.spill_max);
        let spill = Arc::new(spill);
        let memory: Arc<dyn MemoryPool> = Arc::new(memory);
        let runtime = spill.runtime(&memory)?;
        let plans = Arc::new(PlanCache::new(options.quick_max, options.memory_max));
        let config = session_config(options).with_extension(Arc::clone(&plans));
        let state = session_state(config, runtime);
        let system = EngineContext {
            running_queries: Arc::new(RunningQueries::new(&database)),
            database,
            server_info: Arc::new(NoServerInfo),
            bulk: Arc::new(NoBulk),
            runtime: Arc::clone(state.runtime_env()),
            spill,
            timeout: options.timeout,
            timeout_max: options.timeout_max,
            statement_memory: Shape::of_one(options),
            user_memory: Arc::new(UserMemories::of_statements(options)),
            uncommitted: Arc::new(UncommittedMemory::new(
                &state.runtime_env().memory_pool,
                options,
            )),
            locks: Arc::default(),
            numbers: Arc::default(),
            fill_rows_max: options.fill_rows_max,
        };
        Ok(Engine { state, plans, system: Arc::new(system) })
    }

    /// Sets the program that statements can ask for its state.
    #[must_use]
    pub fn with_server_info(mut self, server_info: Arc<dyn ServerInfo>) -> Engine {
        self.system = Arc::new(EngineContext { server_info, ..self.system.as_ref().clone() });
        self
    }

    /// Sets the reader and writer of files for COPY.
    #[must_use]
    pub fn with_bulk(mut self, bulk: Arc<dyn BulkIo>) -> Engine {
        self.system = Arc::new(EngineContext { bulk, ..self.system.as_ref().clone() });
        self
    }

    /// Cancels all statements, because the program ends.
    pub fn end_statements(&self) {
        self.system.running_queries.end_all();
    }

    pub(crate) fn system(&self) -> &EngineContext {
        &self.system
    }

    /// The database that it runs on.
    #[must_use]
    pub fn database(&self) -> &Arc<Database> {
        &self.system.database
    }

    /// Executes one statement. The rows of a query are computed after this returns.
    ///
    /// # Errors
    /// If the text is no statement, names an object that does not exist, or could not be executed;
    /// then nothing has changed. Errors in computing the rows come from the stream, where
    /// [`Error::from`] takes them.
    pub async fn execute(&self, sql: &str) -> Result<Answer> {
        self.execute_with(sql, &StatementOptions::default()).await
    }

    /// As [`execute`](Self::execute), with options. The runtime must have timers if there is a
    /// timeout. The timeout counts for queries, and for other statements while they search for
    /// rows: DDL runs to its end.
    ///
    /// # Errors
    /// As `execute`, and [`Error::Canceled`] when the time is over, or the statement was cancelled.
    pub async fn execute_with(&self, sql: &str, options: &StatementOptions) -> Result<Answer> {
        self.execute_bound(sql, &[], options).await
    }

    /// As [`execute_with`](Self::execute_with), for a query with values for `$1`, `$2`, ...
    ///
    /// # Errors
    /// As `execute_with`, and if a parameter has no value.
    pub async fn execute_bound(
        &self,
        sql: &str,
        parameters: &[Parameter],
        options: &StatementOptions,
    ) -> Result<Answer> {
        self.execute_from(Start::AtOnce, sql, parameters, options).await
    }

    /// As [`execute_bound`](Self::execute_bound), for a cursor: the rows are those of this moment,
    /// and computed when the first of them is asked for.
    ///
    /// # Errors
    /// As `execute_bound`.
    pub async fn open_cursor(
        &self,
        sql: &str,
        parameters: &[Parameter],
        options: &StatementOptions,
    ) -> Result<Answer> {
        self.execute_from(Start::OnDemand, sql, parameters, options).await
    }

    async fn execute_from(
        &self,
        start: Start,
        sql: &str,
        parameters: &[Parameter],
        options: &StatementOptions,
    ) -> Result<Answer> {
        let sql: Arc<str> = Arc::from(sql);
        let mut cached = self.lookup(&sql, parameters, &options.session);
        // The plan of a cursor may be kept for long: it is made where its bytes are counted.
        if start == Start::AtOnce
            && let Some(quick) = cached.take_if(|cached| cached.is_quick())
            && let Some(answer) = self.execute_quick(&sql, &quick, options, &Handle::current())?
        {
            return Ok(answer.into());
        }
        let _parse_memory = reserve_parse_memory(&sql, parameters, &self.system)?;
        let statement = parse_statement(&sql)?;
        let session = &options.session;
        let privilege = self.admit(session, &statement, &sql)?;
        let changed = match session.only_reads() {
            true => statement.side_effect().or_else(|| changing(&statement)),
            false => changing(&statement).filter(|_| session.is_read_only()),
        };
        if let Some(statement) = changed {
            return Err(Error::ReadOnly { statement });
        }
        ddl::check_lasting(session, &sql, &statement)?;
        ddl::check_in_transaction(session, &sql, &statement)?;
        let begun = self.begin(&sql, options);
        // A statement that was cancelled before it began does not begin, also if it is one that
        // runs to its end.
        if let Some(reason) = begun.stop.reason().filter(|_| begun.stop.is_canceled()) {
            return Err(reason.into());
        }
        let parameters = parameters.to_vec();
        let bound = Bound { sql: Arc::clone(&sql), parameters, cached, start };
        let answer = self.answer(statement, bound, begun, options).await;
        self.audit(session, privilege, &sql, answer.as_ref().err());
        answer
    }

    async fn answer(
        &self,
        statement: Statement,
        bound: Bound,
        begun: Begun,
        options: &StatementOptions,
    ) -> Result<Answer> {
        if matches!(statement, Statement::Query) {
            return self.query(bound, begun).await;
        }
        let Bound { sql, parameters, .. } = bound;
        let session = &begun.caller.session.clone();
        if matches!(statement, Statement::CreateTable(_) | Statement::AlterTable { .. }) {
            Box::pin(self.check_defaults(&statement, &sql, &begun)).await?;
        }
        match statement {
            Statement::Explain(Explain { change: Some(ref change), ref offset, .. }) => {
                let (sql, change) = (blanked(&sql, *offset), change.clone());
                let Statement::Explain(how) = statement else { unreachable!("it is one") };
                self.explain_change(&sql, change, &how, parameters, begun).await
            }
            Statement::Explain(how) => {
                let bound = self.bound(&blanked(&sql, how.offset), parameters, session);
                self.explain(bound, how, &begun).await
            }
            Statement::Show(what) => {
                let batch = show(&begun.caller, &sql, &what)?;
                Ok(rows_of(batch))
            }
            Statement::Set { set, notices } => {
                self.set(&sql, session, set)?;
                Ok(Done::with_notices("SET", notices).answer())
            }
            Statement::Cancel { id, offset } => {
                if !self.system.running_queries.cancel(id, session) {
                    let position = Position::at(&sql, offset);
                    return Err(Error::NoSuchStatement { position, id });
                }
                Ok(rows_of(canceled(id)?))
            }
            Statement::Copy(copy) => {
                let copied = self.copy(&sql, *copy, &begun.stop, options);
                Ok(rows_of(Box::pin(copied).await?))
            }
            Statement::CreateTableAs(create) => {
                let changes = RowChanges { parameters, ..self.changes(&begun) };
                Ok(changes.create(&sql, create).await?.answer())
            }
            Statement::CreateView(create) => {
                let made = ddl::create_view(self.changes(&begun), &sql, create);
                Ok(Box::pin(made).await?.answer())
            }
            Statement::ChangeRows(change) => {
                let changes = RowChanges { parameters, ..self.changes(&begun) };
                Ok(changed(changes.execute(&sql, change).await?, begun, sql))
            }
            Statement::TruncateTable { table, restarts_numbers } => {
                self.truncate(&sql, table, restarts_numbers, &begun).await
            }
            change => Box::pin(self.change_tables(sql, change, &begun)).await,
        }
    }

    /// Returns the parameters and columns of a statement, without executing it. Unknown values are
    /// [`Parameter::Open`], or left out.
    ///
    /// # Errors
    /// If the text is no statement, or names an object that does not exist.
    pub async fn describe(
        &self,
        sql: &str,
        parameters: &[Parameter],
        options: &StatementOptions,
    ) -> Result<Described> {
        let _parse_memory = reserve_parse_memory(sql, parameters, &self.system)?;
        let statement = parse_statement(sql)?;
        let count = parameter_count(sql)?;
        let sql: Arc<str> = Arc::from(sql);
        let begun = self.begin(&sql, options);
        let of_batch = |batch: RecordBatch| Described::of_columns(batch.schema());
        match statement {
            Statement::Query if count == 0 => {
                let bound = self.bound(&sql, Vec::new(), &options.session);
                let Planned { query: planned, .. } = self.plan(bound, &begun).await?;
                let designated = planned.designated;
                Ok(Described { designated, ..Described::of_columns(planned.schema) })
            }
            Statement::Query => self.describe_query(sql, parameters, &begun).await,
            Statement::Explain(how) => {
                let described = match how.change {
                    Some(change) => self.describe_change(&sql, change, parameters, &begun).await?,
                    None => {
                        let sql = Arc::from(blanked(&sql, how.offset));
                        self.describe_query(sql, parameters, &begun).await?
                    }
                };
                let columns = Some(explained_batch("")?.schema());
                Ok(Described { columns, designated: None, ..described })
            }
            Statement::Show(what) => Ok(of_batch(show(&begun.caller, &sql, &what)?)),
            Statement::Cancel { id, .. } => Ok(of_batch(canceled(id)?)),
            Statement::ChangeRows(change) => {
                self.describe_change(&sql, change, parameters, &begun).await
            }
            other => {
                let columns = match &other {
                    Statement::Copy(copy) => self.copy_columns(copy)?,
                    _ => None,
                };
                let (parameters, untyped) = (vec![None; count], Vec::new());
                Ok(Described { columns, designated: None, parameters, untyped })
            }
        }
    }

    async fn describe_query(
        &self,
        sql: Arc<str>,
        parameters: &[Parameter],
        begun: &Begun,
    ) -> Result<Described> {
        let values = described_with(&sql, parameters)?;
        let known = values.clone();
        let (state, _) = self.statement_state(begun);
        let (database, text) = (Arc::clone(&self.system.database), Arc::clone(&sql));
        let task = plan_spawned(begun.account(), async move {
            describe_query(&state, &database, &text, &values)
        });
        let (columns, types) = finish_in_time(task, &begun.stop).await?;
        let (columns, parameters) = (Some(columns), parameter_types(&known, &types));
        let untyped = untyped_parameters(&sql, &types)?;
        Ok(Described { columns, designated: None, parameters, untyped })
    }

    async fn describe_change(
        &self,
        sql: &str,
        change: RowChange,
        parameters: &[Parameter],
        begun: &Begun,
    ) -> Result<Described> {
        let values = described_with(sql, parameters)?;
        let changes = RowChanges { parameters: values.clone(), ..self.changes(begun) };
        let (columns, types) = changes.described(sql, change).await?;
        let parameters = parameter_types(&values, &types);
        let untyped = untyped_parameters(sql, &types)?;
        Ok(Described { columns, designated: None, parameters, untyped })
    }

    /// True if only the session sees the changes of a table.
    fn is_held(session: &Session, table: &Name) -> bool {
        session.is_in_transaction()
            || session.own_changes().is_some_and(|seen| seen.named(table).is_some())
    }

    /// Commits the open transaction of a session: makes all its changes durable and visible, or
    /// none. No transaction is open afterwards.
    ///
    /// # Errors
    /// As [`execute`](Self::execute); nothing has changed then.
    pub async fn commit(&self, session: &Session) -> Result<()> {
        let Some(Committing { changes, reads }) = session.end_transaction() else {
            return Ok(());
        };
        let database = Arc::clone(&self.system.database);
        let temporary = changes.clone();
        let task = SpawnedTask::spawn_blocking(move || changes.commit(&database, reads));
        let done = task.join_unwind().await;
        done.map_err(|error| Error::from(DataFusionError::ExecutionJoin(Box::new(error))))??;
        session.keep_temporary(temporary);
        Ok(())
    }

    /// Returns the time limit of a statement with these options.
    #[must_use]
    pub fn time_limit(&self, options: &StatementOptions) -> Timeout {
        let timeout = options.timeout.or(options.session.timeout());
        timeout.unwrap_or(self.system.timeout).min(self.system.timeout_max)
    }

    /// Starts the time of a statement, and lists it.
    fn begin(&self, sql: &Arc<str>, options: &StatementOptions) -> Begun {
        let StatementOptions { session, cancel_handle, .. } = options;
        let stop = Arc::new(CancelState::new(self.time_limit(options)));
        if let Some(cancel_handle) = cancel_handle {
            cancel_handle.of(&stop);
        }
        let user = session.origin().user.as_deref();
        let user_memory = user.map(|user| self.system.user_memory.of(user));
        let uncommitted = || {
            let named = user.zip(user_memory.as_ref().map(Arc::clone));
            self.system.uncommitted.of(named)
        };
        session.accounts().into_iter().for_each(|account| account.set_pool(uncommitted));
        let memory = Arc::new(StatementMemory::new(
            &self.system.runtime.memory_pool,
            user_memory.as_ref().map(Arc::clone),
            self.system.statement_memory,
        ));
        let listing = self.system.running_queries.begin(sql, session, memory, &stop);
        let caller =
            StatementContext { system: Arc::clone(&self.system), session: session.clone() };
        Begun { stop, caller: Arc::new(caller), listing }
    }

    /// The DataFusion session and task context of one statement: `now()` is constant, scans have
    /// its stop flag, and its memory is counted.
    fn statement_state(&self, begun: &Begun) -> (SessionState, Arc<TaskContext>) {
        let mut state = self.state.clone();
        state.mark_start_execution();
        let config = state.config_mut();
        config.set_extension(Arc::clone(&begun.stop));
        config.set_extension(Arc::clone(&begun.caller));
        let memory_pool = Arc::clone(&begun.listing.running().memory) as _;
        let runtime = RuntimeEnv { memory_pool, ..self.system.runtime.as_ref().clone() };
        let context = TaskContext::from(&state).with_runtime(Arc::new(runtime));
        (state, Arc::new(context))
    }

    async fn query(&self, bound: Bound, begun: Begun) -> Result<Answer> {
        let (sql, start) = (Arc::clone(&bound.sql), bound.start);
        let Planned { query: mut planned, context, bytes } = self.plan(bound, &begun).await?;
        begun.caller.session.note_reads(std::mem::take(&mut planned.reads));
        let Begun { stop, listing, .. } = begun;
        let before = thread_heap_bytes();
        let narrowed = with_few_wide_rows(Arc::clone(&planned.plan))?;
        planned.plan = with_cancel_checks(narrowed, &stop)?;
        let checks = thread_heap_bytes().wrapping_sub(before);
        listing.charge_plan(usize::try_from(bytes.wrapping_add(checks)).unwrap_or(0))?;
        let plan = Arc::clone(&planned.plan);
        listing.runs(&plan);
        let on_complete = self.time_recorder(&planned, Duration::ZERO);
        let stream = match start {
            Start::AtOnce => run(plan, context, &stop, Reader::Client, on_complete)?,
            Start::OnDemand => run_on_demand(plan, context, &stop, on_complete),
        };
        let stream = renamed(listing.until_the_end_of(stream), &planned.schema, sql);
        let PlannedQuery { schema, notices, designated, .. } = planned;
        Ok(Answer::Rows { schema, designated, stream, notices })
    }

    fn bound(&self, sql: &str, parameters: Vec<Parameter>, session: &Session) -> Bound {
        let cached = self.lookup(sql, &parameters, session);
        Bound { sql: Arc::from(sql), parameters, cached, start: Start::AtOnce }
    }

    async fn plan(&self, bound: Bound, begun: &Begun) -> Result<Planned> {
        let before = thread_heap_bytes();
        let (state, context) = self.statement_state(begun);
        let of_state = thread_heap_bytes().wrapping_sub(before);
        let (database, stop) = (Arc::clone(&self.system.database), Arc::clone(&begun.stop));
        let task = plan_spawned(begun.account(), async move {
            let symbol_memory = Arc::clone(database.symbol_memory());
            let (before, symbols) = (thread_heap_bytes(), symbol_memory.used_bytes());
            let Bound { sql, parameters, cached, .. } = bound;
            let of_cached = match cached {
                Some(cached) => plan_cached(&state, cached, &stop).await?,
                None => None,
            };
            let query = match of_cached {
                Some(query) => query,
                None => plan_query(&state, &database, &sql, &parameters).await?,
            };
            // It is not kept, and was allocated on another thread.
            drop(state);
            // Dictionaries that it has opened belong to their tables (memory-8).
            let symbols = symbol_memory.used_bytes().saturating_sub(symbols);
            let symbols = isize::try_from(symbols).unwrap_or(isize::MAX);
            Ok((thread_heap_bytes().wrapping_sub(before).saturating_sub(symbols), query))
        });
        let (of_plan, query) = finish_in_time(task, &begun.stop).await?;
        let bytes = of_state.wrapping_add(of_plan).wrapping_sub(query.cache_bytes);
        Ok(Planned { query, context, bytes })
    }

    fn changes<'a>(&self, begun: &'a Begun) -> RowChanges<'a> {
        let (state, context) = self.statement_state(begun);
        RowChanges {
            database: Arc::clone(&self.system.database),
            state,
            context,
            stop: Arc::clone(&begun.stop),
            session: begun.caller.session.clone(),
            parameters: Vec::new(),
            listing: &begun.listing,
            before: None,
        }
    }

    fn set(&self, sql: &str, session: &Session, what: Set) -> Result<()> {
        match what {
            Set::Setting { name, value } => {
                let is_key = parameter(&self.system, &name.text).is_some();
                let done = match is_key {
                    true => Err(SettingProblem::OfConfiguration { name: name.text }),
                    false => set(session, &name.text, value.as_deref()),
                };
                done.map_err(|what| Error::Setting {
                    position: Position::at(sql, name.offset),
                    what,
                })
            }
            Set::Reset => {
                reset(session);
                Ok(())
            }
            Set::Nothing => Ok(()),
        }
    }

    async fn explain(&self, bound: Bound, how: Explain, begun: &Begun) -> Result<Answer> {
        let Planned { query, context, .. } = self.plan(bound, begun).await?;
        let PlannedQuery { plan, reads, .. } = query;
        let text = if how.analyze {
            begun.caller.session.note_reads(reads);
            let plan = with_cancel_checks(with_few_wide_rows(plan)?, &begun.stop)?;
            begun.listing.runs(&plan);
            let mut stream = run(Arc::clone(&plan), context, &begun.stop, Reader::Writer, None)?;
            while let Some(batch) = stream.next().await {
                batch?;
            }
            plan_text(plan.as_ref(), &how)
        } else {
            plan_text(plan.as_ref(), &how)
        };
        explained(&text)
    }

    /// Puts a line for the change first, and below it the plan for its rows.
    async fn explain_change(
        &self,
        sql: &str,
        change: RowChange,
        how: &Explain,
        parameters: Vec<Parameter>,
        begun: Begun,
    ) -> Result<Answer> {
        let changes = RowChanges { parameters, ..self.changes(&begun) };
        let (mut text, plan);
        if how.analyze {
            let start = Instant::now();
            let Changed { done, sets, .. } = changes.execute(sql, change.clone()).await?;
            let (rows, elapsed) = (done.rows.unwrap_or(0), start.elapsed());
            text = changes.describe(&change, &sets);
            text.push_str(&format!(", metrics=[rows={rows}, elapsed={elapsed:.2?}]"));
            plan = begun.listing.running().plan().expect("it has found its rows");
        } else {
            let planned = changes.plan(sql, &change).await?;
            text = changes.describe(&change, &planned.sets);
            plan = planned.plan;
        }
        let plan = plan_text(plan.as_ref(), how);
        for line in plan.lines() {
            text.push_str("\n  ");
            text.push_str(line);
        }
        explained(&text)
    }
}

/// The types in the order of the parameters.
fn parameter_types(values: &[Parameter], types: &ParameterTypes) -> Vec<Option<FieldRef>> {
    let field = |ty| Some(Arc::new(Field::new("", ty, true)));
    let of = |(at, value): (usize, &Parameter)| match value {
        Parameter::Integer(_) => field(DataType::Int64),
        Parameter::Text(_) => field(DataType::Utf8View),
        Parameter::Typed(ty, Some(_)) if ty == LENGTH_TYPE => {
            field(DataType::Interval(IntervalUnit::MonthDayNano))
        }
        _ => types.get(&format!("${}", at + 1)).cloned(),
    };
    values.iter().enumerate().map(of).collect()
}

/// The answer of a statement that changes rows: its RETURNING rows, or its command tag.
fn changed(changed: Changed, begun: Begun, sql: Arc<str>) -> Answer {
    let Changed { done, returned, .. } = changed;
    let Some((schema, batches)) = returned else { return done.answer() };
    let planned = Arc::clone(&schema);
    let batches = stream::iter(batches.map(Ok));
    let stream = Box::pin(RecordBatchStreamAdapter::new(planned, batches));
    let stream = renamed(begun.listing.until_the_end_of(stream), &schema, sql);
    Answer::Rows { schema, designated: None, stream, notices: done.notices }
}

/// The answer of EXPLAIN, one row per line.
fn explained(text: &str) -> Result<Answer> {
    Ok(rows_of(explained_batch(text)?))
}

fn explained_batch(text: &str) -> Result<RecordBatch> {
    let lines = Arc::new(text.lines().map(Some).collect::<StringViewArray>());
    let batch = RecordBatch::try_from_iter([("QUERY PLAN", lines as _)]);
    Ok(batch.map_err(DataFusionError::from)?)
}

fn plan_text(plan: &dyn ExecutionPlan, how: &Explain) -> String {
    let format = match how.verbose {
        true => DisplayFormatType::Verbose,
        false => DisplayFormatType::Default,
    };
    PlanText { plan, format, has_metrics: how.analyze }.to_string()
}

pub(crate) fn session_config(engine: &EngineOptions) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(engine.threads.get())
        .with_collect_statistics(false)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false);
    let options = config.options_mut();
    // Scans share their work out themselves, and an ordered one has a single partition on purpose.
    options.optimizer.enable_round_robin_repartition = false;
    // It takes bounds from those of several aggregates that are known, and leaves out rows that the
    // others need (docs/upstream/bounds-of-aggregates.md).
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // It takes an alias for the group key of its name, and keeps only the groups of a LIMIT below
    // windows that need all of them (docs/upstream/limits-of-groups.md).
    options.optimizer.enable_topk_aggregation = false;
    // Fields of structs are read by no scan: no column is one. The rule makes a copy of the struct
    // for each field that is used, at each of some subqueries within each other.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // LIMIT, LATEST ON and joins in time use the order of subqueries.
    options.sql_parser.enable_subquery_sort_elimination = false;
    // The logical and the physical plan differ in the nullability of `b IS TRUE`, and, for a union
    // whose empty input was removed, in the name of a column.
    options.execution.skip_physical_aggregate_schema_check = true;
    // Positions in errors need the spans.
    options.sql_parser.collect_spans = true;
    options.execution.max_spill_file_size_bytes =
        ConfigNonZeroUsize::try_new(spill::FILE_BYTES_MAX).expect("spill-2");
    // Each thread's sort reserves this to merge what it has spilled; together the reserves must
    // leave most of the memory to the rows.
    options.execution.sort_spill_reservation_bytes = merge_bytes(engine);
    let batch_rows = (share(engine) / SHARE_PER_ROW).clamp(BATCH_ROWS_MIN, config.batch_size());
    config.with_batch_size(batch_rows)
}

/// The functions and rules of plans: ours and DataFusion's, but not its formats of files, which
/// `BulkIo` reads, nor its functions that take a lambda, which `query_text::lambdas` refuses.
fn session_state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionState {
    let mut planners: Vec<Arc<dyn ExprPlanner>> =
        vec![Arc::new(OperatorPlanner), Arc::new(PartPlanner), Arc::new(NestedLiteralPlanner)];
    planners.extend(SessionStateDefaults::default_expr_planners());
    let mut of_tables = table_functions();
    of_tables.extend(SessionStateDefaults::default_table_functions());
    SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_expr_planners(planners)
        .with_table_function_list(of_tables)
        .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
        .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_analyzer_rules(analyzer_rules())
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(physical_rules())
        .build()
}

/// An answer of rows that are already there.
fn rows_of(batch: RecordBatch) -> Answer {
    let schema = batch.schema();
    let batches = stream::once(async move { PlanResult::Ok(batch) });
    let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches));
    Answer::Rows { schema, designated: None, stream, notices: Vec::new() }
}

/// The rows of a plan under the names that users see; errors get their position in `sql`.
fn renamed(
    stream: SendableRecordBatchStream,
    schema: &SchemaRef,
    sql: Arc<str>,
) -> SendableRecordBatchStream {
    let named = Arc::clone(schema);
    let batches = stream.map(move |batch| {
        let batch = batch.map_err(|error| locate_running(&sql, error))?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&named), columns, &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches))
}
