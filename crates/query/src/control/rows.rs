//! The stream of rows of a running plan; a wait for it ends with a timeout or a cancel (control-2).
//!
//! - The plan runs on a task of its own; at most `BATCHES_WAITING` batches wait for the reader.
//! - Dropping the rows, their end and their error all end the task.
//! - control_rows-1. A cancel stops the work even while its rows wait for a reader, which gets the
//!   error after them.
//! - A query known to be quick has no task at first: the reader's thread works on it with each
//!   poll, until something has to be waited for. It works until an operator would yield (control-4)
//!   at the latest; the rest is then done on a task, as for any other query.
//! - control_rows-2. A batch of `CHARGED_BATCH_BYTES` or more is charged to the statement until the
//!   reader asks for the next one.
//! - control_rows-3. A plan that runs on demand does nothing before its reader asks for rows; its
//!   tables are those of the moment at which it was planned. A cursor that is never read costs a
//!   plan, which is charged to it (running_queries-5), and a cancel drops the plan at once.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result as PlanResult};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::turn::begin_turn;
use crate::account::Account;
use crate::cancel::{CancelReason, CancelState};
use crate::error::{Error, Result};
use crate::value_bytes::memory_of_rows;

/// One that is being written while the next one is made.
const BATCHES_WAITING: usize = 1;

/// The least size of a batch that is charged (control_rows-2): smaller ones are part of a
/// connection.
const CHARGED_BATCH_BYTES: usize = 64 << 10;

/// Read-ahead is for batches that are smaller (control_rows-2): it would hold a third one for a
/// client that reads nothing.
const LARGE_BATCH_BYTES: usize = 8 << 20;

/// The name of the memory of batches in messages (control_rows-2).
const CONSUMER: &str = "ResultRows";

/// The reader of a plan's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The client of the statement: time in which it takes no rows is not counted (control-3).
    Client,
    /// The statement itself.
    Writer,
}

/// Abandons a statement unless it is told that its work is done.
struct Wanted<'a>(Option<&'a CancelState>);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        if let Some(stop) = self.0 {
            stop.abandon();
        }
    }
}

/// Waits for a task, but no longer than the statement may work (control-2). A task for which
/// nothing waits any more has no statement.
pub(crate) async fn finish_in_time<T: 'static>(
    task: SpawnedTask<Result<T>>,
    stop: &CancelState,
) -> Result<T> {
    let mut wanted = Wanted(Some(stop));
    let joined = tokio::select! {
        biased;
        joined = task.join_unwind() => joined,
        reason = stop.ended() => return Err(reason.into()),
    };
    wanted.0 = None;
    joined.map_err(|error| Error::from(DataFusionError::ExecutionJoin(Box::new(error))))?
}

/// Plans on a thread of its own, so that nothing need wait for it: not the statement, whose time
/// may be over, and not those that work on the runtime's threads. It ends by itself soon after the
/// statement has (`plan::stoppable`), and until then the runtime has a task of it, as it has of all
/// that is left of a statement.
pub(crate) fn plan_spawned<T: Send + 'static>(
    account: Arc<Account>,
    planning: impl Future<Output = Result<T>> + Send + 'static,
) -> SpawnedTask<Result<T>> {
    let runtime = Handle::current();
    let (left, is_over) = oneshot::channel::<()>();
    runtime.spawn(is_over);
    SpawnedTask::spawn_blocking(move || {
        let _left = left;
        let _entered = account.enter_planning();
        runtime.block_on(planning)
    })
}

/// Runs a plan that has cancel checks of `stop`, and says how long it has worked when its rows have
/// ended.
pub(crate) fn run(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    stop: &Arc<CancelState>,
    reader: Reader,
    took: Option<OnComplete>,
) -> Result<SendableRecordBatchStream> {
    let schema = plan.schema();
    let memory = Arc::clone(context.memory_pool());
    let stream = Timed::new(execute_stream(plan, context)?, memory, took);
    let work = Work::Spawned(Running::start(stream, stop, reader));
    Ok(Box::pin(Rows { schema, stop: Arc::clone(stop), work, held: None }))
}

/// The same for a plan that is known to be quick, and its client. `threads` are those on which
/// it works if it is not.
pub(crate) fn run_inline(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    stop: &Arc<CancelState>,
    threads: &Handle,
    took: OnComplete,
) -> Result<SendableRecordBatchStream> {
    let schema = plan.schema();
    let entered = threads.enter();
    let memory = Arc::clone(context.memory_pool());
    let stream = Timed::new(execute_stream(plan, context)?, memory, Some(took));
    drop(entered);
    // Until its reader comes (control-3).
    stop.begin_wait();
    let work = Work::Inline { stream, threads: threads.clone() };
    Ok(Box::pin(Rows { schema, stop: Arc::clone(stop), work, held: None }))
}

/// The same as `run` for a client that may ask for rows much later, or never (control_rows-3).
pub(crate) fn run_on_demand(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    stop: &Arc<CancelState>,
    took: Option<OnComplete>,
) -> SendableRecordBatchStream {
    let schema = plan.schema();
    // Until its reader comes (control-3).
    stop.begin_wait();
    let work = Work::Spawned(Running::on_demand(Planned { plan, context, took }, stop));
    Box::pin(Rows { schema, stop: Arc::clone(stop), work, held: None })
}

/// The error for work that has panicked on the caller's thread; the message of the panic itself is
/// on standard error.
pub(crate) fn panicked() -> DataFusionError {
    DataFusionError::Internal("the statement has panicked".to_owned())
}

/// Is told how long a plan has worked.
pub(crate) type OnComplete = Box<dyn FnOnce(Duration) + Send>;

/// A batch, and what is charged for it (control_rows-2).
struct Batch {
    rows: RecordBatch,
    charged: Option<MemoryReservation>,
}

/// A plan's rows, and how long it works on them.
struct Timed {
    stream: SendableRecordBatchStream,
    memory: Arc<dyn MemoryPool>,
    worked: Duration,
    took: Option<OnComplete>,
}

impl Timed {
    fn new(
        stream: SendableRecordBatchStream,
        memory: Arc<dyn MemoryPool>,
        took: Option<OnComplete>,
    ) -> Timed {
        Timed { stream, memory, worked: Duration::ZERO, took }
    }

    /// Charges the statement for a batch that is not small (control_rows-2).
    fn charged(&self, rows: RecordBatch) -> PlanResult<Batch> {
        let bytes = memory_of_rows(&rows);
        if bytes < CHARGED_BATCH_BYTES {
            return Ok(Batch { rows, charged: None });
        }
        let reservation = MemoryConsumer::new(CONSUMER).register(&self.memory);
        reservation.try_grow(bytes)?;
        Ok(Batch { rows, charged: Some(reservation) })
    }
}

impl Stream for Timed {
    type Item = PlanResult<Batch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<PlanResult<Batch>>> {
        let start = Instant::now();
        let polled = self.stream.poll_next_unpin(context);
        self.worked += start.elapsed();
        if let Poll::Ready(None) = polled
            && let Some(took) = self.took.take()
        {
            took(self.worked);
        }
        polled.map(|batch| batch.map(|rows| self.charged(rows?)))
    }
}

/// A plan whose reader has not come (control_rows-3).
struct Planned {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    took: Option<OnComplete>,
}

impl Planned {
    fn start(self) -> PlanResult<Timed> {
        let Planned { plan, context, took } = self;
        let memory = Arc::clone(context.memory_pool());
        Ok(Timed::new(execute_stream(plan, context)?, memory, took))
    }
}

/// Keeps a plan until its reader asks for rows, and sends them; a cancel drops the plan
/// (control_rows-3).
async fn wait_for_reader(
    planned: Planned,
    asked: oneshot::Receiver<()>,
    sender: mpsc::Sender<PlanResult<Batch>>,
    stop: Arc<CancelState>,
) {
    let is_asked = tokio::select! {
        biased;
        () = stop.canceled() => false,
        asked = asked => asked.is_ok(),
    };
    if !is_asked {
        return end(planned, &sender, &stop).await;
    }
    match planned.start() {
        Ok(stream) => hand_over(stream, sender, stop, Reader::Client).await,
        Err(error) => drop(sender.send(Err(error)).await),
    }
}

/// Sends the batches of a stream, until the receiver is dropped.
async fn hand_over(
    mut stream: Timed,
    sender: mpsc::Sender<PlanResult<Batch>>,
    stop: Arc<CancelState>,
    reader: Reader,
) {
    while let Some(batch) = stream.next().await {
        let Some(place) = place(&sender, &stop, reader).await else {
            drop(batch);
            return end(stream, &sender, &stop).await;
        };
        let charged = batch.as_ref().ok().and_then(|batch| batch.charged.as_ref());
        let is_large = charged.is_some_and(|charged| LARGE_BATCH_BYTES <= charged.size());
        match place {
            Ok(place) => place.send(batch),
            Err(_) => return,
        }
        // control_rows-2: the next one is made when this one is taken.
        if is_large {
            match self::place(&sender, &stop, reader).await {
                Some(Ok(_)) => {}
                Some(Err(_)) => return,
                None => return end(stream, &sender, &stop).await,
            }
        }
    }
    // The last rows wait for the client, and no work is left (control-3).
    if reader == Reader::Client {
        stop.begin_wait();
    }
}

type Place<'s> = mpsc::Permit<'s, PlanResult<Batch>>;

/// Waits for a place for a batch; `None` if the statement is cancelled meanwhile.
async fn place<'s>(
    sender: &'s mpsc::Sender<PlanResult<Batch>>,
    stop: &CancelState,
    reader: Reader,
) -> Option<std::result::Result<Place<'s>, mpsc::error::SendError<()>>> {
    if let Ok(place) = sender.try_reserve() {
        return Some(Ok(place));
    }
    // Without a place for it, the reader is slower than we are (control-3).
    if reader == Reader::Client {
        stop.begin_wait();
    }
    let place = tokio::select! {
        biased;
        place = sender.reserve() => Some(place),
        () = stop.canceled() => None,
    };
    if reader == Reader::Client {
        stop.end_wait();
    }
    place
}

/// Ends the work now (control_rows-1); its reader learns of it when it comes.
async fn end<T>(work: T, sender: &mpsc::Sender<PlanResult<Batch>>, stop: &CancelState) {
    drop(work);
    let reason = stop.reason().unwrap_or(CancelReason::Requested);
    let _ = sender.send(Err(Error::from(reason).into())).await;
}

/// The state of a task that runs a plan, until its last row.
struct Running {
    batches: mpsc::Receiver<PlanResult<Batch>>,
    /// Dropping it ends it.
    task: SpawnedTask<()>,
    /// Rings when the statement is not to go on.
    alarm: Alarm,
    /// Tells a task that works on demand that its reader has come; `None` once it has
    /// (control_rows-3).
    request: Option<oneshot::Sender<()>>,
}

type Alarm = Pin<Box<dyn Future<Output = CancelReason> + Send>>;

impl Running {
    /// The rest of a stream on a task of its own.
    fn start(stream: Timed, stop: &Arc<CancelState>, reader: Reader) -> Running {
        let (sender, batches) = mpsc::channel(BATCHES_WAITING);
        let task = SpawnedTask::spawn(hand_over(stream, sender, Arc::clone(stop), reader));
        Running::of(task, batches, stop)
    }

    /// The same for a plan that waits for its reader (control_rows-3).
    fn on_demand(planned: Planned, stop: &Arc<CancelState>) -> Running {
        let (sender, batches) = mpsc::channel(BATCHES_WAITING);
        let (request, asked) = oneshot::channel();
        let work = wait_for_reader(planned, asked, sender, Arc::clone(stop));
        let running = Running::of(SpawnedTask::spawn(work), batches, stop);
        Running { request: Some(request), ..running }
    }

    fn of(
        task: SpawnedTask<()>,
        batches: mpsc::Receiver<PlanResult<Batch>>,
        stop: &Arc<CancelState>,
    ) -> Running {
        let ended = Arc::clone(stop);
        let alarm: Alarm = Box::pin(async move { ended.ended().await });
        Running { batches, task, alarm, request: None }
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<PlanResult<Batch>>> {
        let running = self;
        match running.batches.poll_recv(context) {
            Poll::Ready(Some(batch)) => Poll::Ready(Some(batch)),
            // All is sent, unless the task has panicked.
            Poll::Ready(None) => match ready!(running.task.poll_unpin(context)) {
                Ok(()) => Poll::Ready(None),
                Err(join) => Poll::Ready(Some(Err(DataFusionError::ExecutionJoin(Box::new(join))))),
            },
            Poll::Pending => {
                let reason = ready!(running.alarm.as_mut().poll(context));
                Poll::Ready(Some(Err(Error::from(reason).into())))
            }
        }
    }
}

/// The thread or task that works on rows.
enum Work {
    /// The reader's thread.
    Inline { stream: Timed, threads: Handle },
    /// A task of its own.
    Spawned(Running),
    /// None: the rows have ended.
    Over,
}

/// The rows of a plan that runs.
struct Rows {
    schema: SchemaRef,
    stop: Arc<CancelState>,
    work: Work,
    /// The charge of the batch that the reader has (control_rows-2).
    held: Option<MemoryReservation>,
}

impl Rows {
    /// Begins work that was put off (control_rows-3).
    fn request(&mut self) {
        if let Work::Spawned(running) = &mut self.work
            && let Some(request) = running.request.take()
        {
            self.stop.end_wait();
            // A task that has ended was cancelled, and has said so.
            let _ = request.send(());
        }
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<PlanResult<Batch>>> {
        self.request();
        let Work::Inline { stream, threads } = &mut self.work else {
            return match &mut self.work {
                Work::Spawned(running) => running.poll_batch(context),
                Work::Inline { .. } | Work::Over => Poll::Ready(None),
            };
        };
        let threads = threads.clone();
        let _entered = threads.enter();
        self.stop.end_wait();
        begin_turn();
        // The caller also serves others: a panic ends this statement only.
        let polled = catch_unwind(AssertUnwindSafe(|| stream.poll_next_unpin(context)));
        let polled = polled.unwrap_or_else(|_| Poll::Ready(Some(Err(panicked()))));
        if polled.is_ready() {
            // Until the reader comes again (control-3).
            self.stop.begin_wait();
            return polled;
        }
        if let Work::Inline { stream, .. } = mem::replace(&mut self.work, Work::Over) {
            self.work = Work::Spawned(Running::start(stream, &self.stop, Reader::Client));
        }
        self.poll_batch(context)
    }
}

impl Stream for Rows {
    type Item = PlanResult<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<PlanResult<RecordBatch>>> {
        self.held = None;
        let batch = ready!(self.poll_batch(context));
        if !matches!(batch, Some(Ok(_))) {
            self.stop.abandon();
            self.work = Work::Over;
        }
        Poll::Ready(batch.map(|batch| {
            let Batch { rows, charged } = batch?;
            self.held = charged;
            Ok(rows)
        }))
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.stop.abandon();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    use datafusion::arrow::array::Int64Array;
    use datafusion::common::internal_err;
    use datafusion::common::tree_node::TreeNodeRecursion;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
    use datafusion::physical_plan::expressions::Literal;
    use datafusion::physical_plan::filter::FilterExec;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::physical_plan::{DisplayAs, DisplayFormatType, PlanProperties};
    use datafusion::scalar::ScalarValue;

    use super::*;
    use crate::cancel::{CancelReason, Timeout};
    use crate::control::with_cancel_checks;

    const PARTITIONS: usize = 2;

    /// Batches without end, which never yields; it counts what it has given.
    #[derive(Debug)]
    struct Endless {
        batch: RecordBatch,
        given: Arc<AtomicU64>,
        properties: Arc<PlanProperties>,
    }

    impl Endless {
        fn new(given: &Arc<AtomicU64>) -> Endless {
            let rows = Arc::new(Int64Array::from_iter_values(0..1_000));
            let batch = RecordBatch::try_from_iter([("n", rows as _)]).unwrap();
            let properties = PlanProperties::new(
                EquivalenceProperties::new(batch.schema()),
                Partitioning::UnknownPartitioning(PARTITIONS),
                EmissionType::Incremental,
                Boundedness::Bounded,
            );
            Endless { batch, given: Arc::clone(given), properties: Arc::new(properties) }
        }
    }

    impl DisplayAs for Endless {
        fn fmt_as(
            &self,
            _: DisplayFormatType,
            f: &mut std::fmt::Formatter<'_>,
        ) -> std::fmt::Result {
            f.write_str("Endless")
        }
    }

    impl ExecutionPlan for Endless {
        fn name(&self) -> &'static str {
            "Endless"
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            Vec::new()
        }

        fn with_new_children(
            self: Arc<Self>,
            _: Vec<Arc<dyn ExecutionPlan>>,
        ) -> PlanResult<Arc<dyn ExecutionPlan>> {
            internal_err!("it has none")
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> PlanResult<TreeNodeRecursion>,
        ) -> PlanResult<TreeNodeRecursion> {
            Ok(TreeNodeRecursion::Continue)
        }

        fn execute(&self, _: usize, _: Arc<TaskContext>) -> PlanResult<SendableRecordBatchStream> {
            let (batch, given) = (self.batch.clone(), Arc::clone(&self.given));
            let batches = futures::stream::repeat_with(move || {
                given.fetch_add(1, Relaxed);
                Ok(batch.clone())
            });
            Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
        }
    }

    /// A filter that looks for a row that never comes, without ever going back to its caller.
    fn start(given: &Arc<AtomicU64>, stop: &Arc<CancelState>) -> SendableRecordBatchStream {
        let nothing = Arc::new(Literal::new(ScalarValue::Boolean(Some(false))));
        let filter = FilterExec::try_new(nothing, Arc::new(Endless::new(given))).unwrap();
        let plan = Arc::new(CoalescePartitionsExec::new(Arc::new(filter)));
        let plan = with_cancel_checks(plan, stop).unwrap();
        run(plan, Arc::default(), stop, Reader::Client, None).unwrap()
    }

    /// Batches given from now until all work has ended.
    async fn given_until_the_end(given: &Arc<AtomicU64>) -> u64 {
        let before = given.load(Relaxed);
        let mut yields = 0;
        while Arc::strong_count(given) > 1 {
            yields += 1;
            assert!(yields < 100_000_000, "it still works");
            tokio::task::yield_now().await;
        }
        given.load(Relaxed) - before
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_timeout_ends_operators_that_never_yield() {
        let given = Arc::new(AtomicU64::new(0));
        let after = Duration::from_millis(20);
        let mut rows = start(&given, &Arc::new(CancelState::new(Timeout::After(after))));
        let error = rows.next().await.expect("an error comes").expect_err("no rows come");
        let Error::Canceled { reason } = Error::from(error) else { panic!("another error") };
        assert!(matches!(reason, CancelReason::Timeout { limit, .. } if limit == after));
        let more = given_until_the_end(&given).await;
        assert!(more <= PARTITIONS as u64, "control-1: {more} batches after the end");
        assert!(given.load(Relaxed) > 0 && rows.next().await.is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn dropped_rows_end_operators_that_never_yield() {
        let given = Arc::new(AtomicU64::new(0));
        let rows = start(&given, &Arc::new(CancelState::new(Timeout::Never)));
        while given.load(Relaxed) < 100 {
            tokio::task::yield_now().await;
        }
        drop(rows);
        let more = given_until_the_end(&given).await;
        assert!(more <= PARTITIONS as u64, "control-1: {more} batches after the end");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_cancel_ends_operators_that_never_yield() {
        let given = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let mut rows = start(&given, &stop);
        let canceling = Arc::clone(&stop);
        let waited = Arc::clone(&given);
        let cancel = std::thread::spawn(move || {
            while waited.load(Relaxed) < 100 {
                std::thread::yield_now();
            }
            canceling.cancel();
        });
        let error = rows.next().await.expect("an error comes").expect_err("no rows come");
        let Error::Canceled { reason } = Error::from(error) else { panic!("another error") };
        assert_eq!(reason, CancelReason::Requested);
        cancel.join().unwrap();
        let more = given_until_the_end(&given).await;
        assert!(more <= PARTITIONS as u64, "control-1: {more} batches after the end");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_cancel_ends_the_wait_for_a_plan_without_timers() {
        let stop = CancelState::new(Timeout::Never);
        let endless = SpawnedTask::spawn(std::future::pending::<Result<()>>());
        let waits = finish_in_time(endless, &stop);
        let (ended, ()) = tokio::join!(waits, async { stop.cancel() });
        let error = ended.expect_err("somebody wants it to end");
        assert_eq!(error.to_string(), "query cancelled by user", "control-2");
    }

    /// One thread, so that a yield gives every other task its turn: nothing here depends on time.
    #[tokio::test(flavor = "current_thread")]
    async fn a_slow_reader_is_no_slow_statement() {
        let given = Arc::new(AtomicU64::new(0));
        let plan = Arc::new(CoalescePartitionsExec::new(Arc::new(Endless::new(&given))));
        let stop = Arc::new(CancelState::new(Timeout::After(Duration::from_secs(30))));
        let plan = with_cancel_checks(plan, &stop).unwrap();
        let mut rows = run(plan, Arc::default(), &stop, Reader::Client, None).unwrap();
        for _ in 0..3 {
            assert!(rows.next().await.unwrap().is_ok());
            yield_often().await;
            assert_ne!(stop.wait_start.load(Relaxed), 0, "the plan waits for its reader");
            let (worked, before) = (stop.worked(), given.load(Relaxed));
            yield_often().await;
            assert_eq!((stop.worked(), given.load(Relaxed)), (worked, before), "control-3");
        }
    }

    /// Twenty clients that read nothing of large rows had 250 MB each, which were not charged: the
    /// process was killed.
    #[tokio::test(flavor = "current_thread")]
    async fn large_batches_are_charged_until_the_reader_has_taken_them() {
        for (rows, batches) in [(1 << 20, 2), (1 << 17, 3), (1 << 14, 3), (1 << 12, 0)] {
            let given = Arc::new(AtomicU64::new(0));
            let values = Arc::new(Int64Array::from_iter_values(0..rows));
            let batch = RecordBatch::try_from_iter([("n", values as _)]).unwrap();
            let bytes = batch.get_array_memory_size();
            let plan = Arc::new(Endless { batch, ..Endless::new(&given) });
            let plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(plan));
            let context = Arc::new(TaskContext::default());
            let memory = Arc::clone(context.memory_pool());
            let stop = Arc::new(CancelState::new(Timeout::Never));
            let mut rows = run(plan, context, &stop, Reader::Client, None).unwrap();
            for _ in 0..2 {
                assert!(rows.next().await.unwrap().is_ok());
                yield_often().await;
                let charged = memory.reserved().div_ceil(bytes);
                assert_eq!(charged, batches, "control_rows-2");
            }
            drop(rows);
            yield_often().await;
            assert_eq!(memory.reserved(), 0, "control_rows-2");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_batch_that_finds_no_memory_is_an_error() {
        let given = Arc::new(AtomicU64::new(0));
        let values = Arc::new(Int64Array::from_iter_values(0..1 << 20));
        let batch = RecordBatch::try_from_iter([("n", values as _)]).unwrap();
        let plan = Arc::new(Endless { batch, ..Endless::new(&given) });
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(12 << 20));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
        let context = Arc::new(TaskContext::default().with_runtime(runtime));
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let mut rows =
            run(Arc::new(CoalescePartitionsExec::new(plan)), context, &stop, Reader::Client, None)
                .unwrap();
        assert!(rows.next().await.unwrap().is_ok());
        yield_often().await;
        let error = rows.next().await.unwrap().expect_err("the reader has the first one");
        assert!(error.to_string().contains(CONSUMER), "{error}");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_plan_on_demand_waits_for_its_reader() {
        let given = Arc::new(AtomicU64::new(0));
        let plan = Arc::new(CoalescePartitionsExec::new(Arc::new(Endless::new(&given))));
        let stop = Arc::new(CancelState::new(Timeout::After(Duration::from_secs(30))));
        let plan = with_cancel_checks(plan, &stop).unwrap();
        let mut rows = run_on_demand(plan, Arc::default(), &stop, None);
        yield_often().await;
        assert_eq!(given.load(Relaxed), 0, "control_rows-3");
        assert!(stop.waiting().is_some(), "control-3");
        assert!(rows.next().await.unwrap().is_ok());
        stop.cancel();
        drop(rows);
        yield_often().await;
        assert_eq!(Arc::strong_count(&given), 1, "control-1");
    }

    // A cancelled cursor kept its plan until its client asked for rows, or was found to be idle.
    #[tokio::test(flavor = "current_thread")]
    async fn a_cancel_drops_a_plan_whose_reader_never_comes() {
        let given = Arc::new(AtomicU64::new(0));
        let plan = Arc::new(CoalescePartitionsExec::new(Arc::new(Endless::new(&given))));
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let plan = with_cancel_checks(plan, &stop).unwrap();
        let mut rows = run_on_demand(plan, Arc::default(), &stop, None);
        yield_often().await;
        assert!(1 < Arc::strong_count(&given), "the plan waits");
        stop.cancel();
        yield_often().await;
        assert_eq!(Arc::strong_count(&given), 1, "control_rows-3");
        let error = Error::from(rows.next().await.unwrap().expect_err("it was cancelled"));
        assert_eq!(error.to_string(), "query cancelled by user");
        assert!(rows.next().await.is_none());
    }

    async fn yield_often() {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_cancel_ends_work_whose_rows_wait() {
        let given = Arc::new(AtomicU64::new(0));
        let plan = Arc::new(CoalescePartitionsExec::new(Arc::new(Endless::new(&given))));
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let plan = with_cancel_checks(plan, &stop).unwrap();
        let mut rows = run(plan, Arc::default(), &stop, Reader::Client, None).unwrap();
        yield_often().await;
        assert!(stop.waiting().is_some() && Arc::strong_count(&given) > 1);
        stop.cancel();
        yield_often().await;
        assert_eq!(Arc::strong_count(&given), 1, "control_rows-1");
        assert!(rows.next().await.unwrap().is_ok());
        let error = Error::from(rows.next().await.unwrap().expect_err("it was cancelled"));
        assert_eq!(error.to_string(), "query cancelled by user");
        assert!(rows.next().await.is_none());
    }

    /// One thread that works on rows without end, and yet does something else (control-4).
    #[tokio::test(flavor = "current_thread")]
    async fn endless_work_gives_way_to_others() {
        let given = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let mut rows = start(&given, &stop);
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        assert!(given.load(Relaxed) > 0);
        stop.cancel();
        let error = Error::from(rows.next().await.unwrap().expect_err("it was cancelled"));
        assert_eq!(error.to_string(), "query cancelled by user");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn planning_ends_at_the_timeout() {
        let stop = CancelState::new(Timeout::After(Duration::from_millis(5)));
        let endless = SpawnedTask::spawn(std::future::pending::<Result<()>>());
        let error = finish_in_time(endless, &stop).await.expect_err("its time is over");
        assert_eq!(error.condition(), crate::Condition::QueryCanceled, "control-2");
        let stop = CancelState::new(Timeout::After(Duration::from_hours(1)));
        assert_eq!(finish_in_time(SpawnedTask::spawn(async { Ok(7) }), &stop).await.unwrap(), 7);
    }
}
