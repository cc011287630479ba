//! Streams of batches from the tasks of a scan.
//!
//! - Any order: each stream takes the next task from a queue that all streams of a scan share.
//! - stream-1. Table order: one stream, which works on the first task itself, because that may be
//!   enough. Behind it tasks are decoded ahead on other threads, at most `window` of them, each
//!   with at most `batches_ahead` batches; their batches come out in the order of the tasks. Those
//!   that wait are charged to the statement; without memory for it, one batch of each task waits.
//! - No poll decodes more than `STEPS_PER_POLL` batches that came out empty, and dropping a stream
//!   ends its tasks at their next step.
//! - All streams of a scan together return at most as many rows as the limit.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::RecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{FutureExt, Stream};
use tokio::sync::mpsc;

use super::read::{ReadPlan, Step, TaskReader};
use super::task::{BATCH_ROWS, ROW_ID_BYTES, ScanTask, TASK_BYTES_MAX, value_bytes};
use crate::memory::READ_AHEAD;
use crate::value_bytes::memory_of_rows;

/// The most empty batches of a poll.
const STEPS_PER_POLL: usize = 8;

/// Rows of the first batch of an ordered scan: a query for the latest row of a key may need no
/// more.
const EAGER_ROWS: usize = 1;
/// The factor by which each next batch is larger, up to all rows.
const EAGER_GROWTH: usize = 8;

/// The maximal number of batches of one task that wait for the stream: those of a page frame, so
/// that a task ends without waiting.
const BATCHES_PER_TASK: usize = 8;

/// Returns the number of batches of a task that may wait for the stream (stream-1): fewer if rows
/// are wide.
fn batches_ahead(plan: &ReadPlan) -> usize {
    let columns = plan.snapshot.schema.columns();
    let bytes_of = |&at: &usize| columns.get(at).map_or(ROW_ID_BYTES, |it| value_bytes(it.ty));
    let row_bytes = plan.output.iter().map(bytes_of).sum::<usize>();
    (TASK_BYTES_MAX / (row_bytes.max(1) * BATCH_ROWS)).clamp(1, BATCHES_PER_TASK)
}

/// The tasks of a scan, with the progress of its streams.
#[derive(Debug)]
pub(crate) struct TaskQueue {
    plan: Arc<ReadPlan>,
    tasks: Arc<[ScanTask]>,
    next: AtomicUsize,
    /// The number of rows that are still wanted.
    wanted: AtomicUsize,
}

impl TaskQueue {
    pub(crate) fn new(
        plan: &Arc<ReadPlan>,
        tasks: &Arc<[ScanTask]>,
        limit: Option<usize>,
    ) -> TaskQueue {
        TaskQueue {
            plan: Arc::clone(plan),
            tasks: Arc::clone(tasks),
            next: AtomicUsize::new(0),
            wanted: AtomicUsize::new(limit.unwrap_or(usize::MAX)),
        }
    }

    fn take(&self) -> Option<TaskReader> {
        if self.is_satisfied() {
            return None;
        }
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.tasks.get(at).map(|task| TaskReader::new(&self.plan, task.clone()))
    }

    /// Returns the number of rows that are still wanted.
    fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed)
    }

    fn is_satisfied(&self) -> bool {
        self.wanted() == 0
    }

    /// Reads some rows of a task, about as many as `most`: ready with them, with an error, or if no
    /// more are wanted of all tasks. A task without further rows is removed.
    fn step(
        &self,
        place: &mut Option<TaskReader>,
        most: usize,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let Some(reader) = place else { return Poll::Pending };
        match reader.step(self.wanted().min(most)) {
            Ok(Step::Batch(batch)) => Poll::Ready(self.claim(batch).map(Ok)),
            Ok(Step::Nothing) if self.is_satisfied() => Poll::Ready(None),
            Ok(Step::Nothing) => Poll::Pending,
            Ok(Step::End) => {
                *place = None;
                Poll::Pending
            }
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    /// Returns as many rows of the batch as are still wanted; `None` if there are none.
    fn claim(&self, batch: RecordBatch) -> Option<RecordBatch> {
        let rows = batch.num_rows();
        let less = |wanted: usize| Some(wanted.saturating_sub(rows));
        let updated = self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let wanted = updated.unwrap_or_else(|wanted| wanted);
        match wanted {
            0 => None,
            _ if wanted < rows => Some(batch.slice(0, wanted)),
            _ => Some(batch),
        }
    }
}

/// The stream of tasks in any order.
pub(crate) struct QueueStream {
    queue: Arc<TaskQueue>,
    reader: Option<TaskReader>,
    metrics: BaselineMetrics,
}

impl QueueStream {
    pub(crate) fn new(queue: Arc<TaskQueue>, metrics: BaselineMetrics) -> QueueStream {
        QueueStream { queue, reader: None, metrics }
    }

    fn next_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        for _ in 0..STEPS_PER_POLL {
            if self.reader.is_none() {
                self.reader = self.queue.take();
            }
            if self.reader.is_none() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(batch) = self.queue.step(&mut self.reader, usize::MAX) {
                return Poll::Ready(batch);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Stream for QueueStream {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let timer = elapsed.timer();
        let poll = self.next_batch(context);
        drop(timer);
        self.metrics.record_poll(poll)
    }
}

impl RecordBatchStream for QueueStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.queue.plan.schema)
    }
}

/// A task that is decoded ahead.
struct Ahead {
    batches: mpsc::Receiver<Waiting>,
    task: SpawnedTask<Result<()>>,
}

/// A batch that waits for the stream, and its charge (stream-1).
struct Waiting {
    rows: RecordBatch,
    _charge: Option<MemoryReservation>,
}

/// The stream of stream-1.
pub(crate) struct OrderedStream {
    queue: Arc<TaskQueue>,
    first: Option<TaskReader>,
    /// The approximate number of rows of its next batch.
    eager: usize,
    ahead: VecDeque<Ahead>,
    /// The number of tasks that may be ahead now.
    window: usize,
    window_max: usize,
    memory: Arc<dyn MemoryPool>,
    metrics: BaselineMetrics,
}

impl OrderedStream {
    pub(crate) fn new(
        queue: Arc<TaskQueue>,
        window_max: usize,
        memory: &Arc<dyn MemoryPool>,
        metrics: BaselineMetrics,
    ) -> OrderedStream {
        assert!(window_max > 0, "stream-1");
        let (first, window) = (queue.take(), window_max.min(2));
        // A limit is the better estimate of the wanted rows.
        let eager = if queue.wanted() < usize::MAX { usize::MAX } else { EAGER_ROWS };
        let ahead = VecDeque::new();
        let memory = Arc::clone(memory);
        OrderedStream { queue, first, eager, ahead, window, window_max, memory, metrics }
    }

    fn next_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        for _ in 0..STEPS_PER_POLL {
            if self.first.is_none() {
                return self.next_ahead(context);
            }
            if let Poll::Ready(batch) = self.queue.step(&mut self.first, self.eager) {
                self.eager = self.eager.saturating_mul(EAGER_GROWTH);
                if batch.is_none() || self.queue.is_satisfied() {
                    self.first = None;
                }
                return Poll::Ready(batch);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn next_ahead(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            while self.ahead.len() < self.window {
                let Some(reader) = self.queue.take() else { break };
                let charge = MemoryConsumer::new(READ_AHEAD).register(&self.memory);
                self.ahead.push_back(decode_ahead(reader, &self.queue, charge, &self.metrics));
            }
            let Some(front) = self.ahead.front_mut() else { return Poll::Ready(None) };
            if let Some(Waiting { rows, .. }) = ready!(front.batches.poll_recv(context)) {
                let claimed = self.queue.claim(rows);
                if self.queue.is_satisfied() {
                    // No reader is left for the batches that were decoded ahead.
                    self.ahead.clear();
                }
                return Poll::Ready(claimed.map(Ok));
            }
            let ended = ready!(front.task.poll_unpin(context));
            self.ahead.pop_front();
            self.window = (self.window * 2).min(self.window_max);
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Poll::Ready(Some(Err(error))),
                Err(join) => {
                    let error = DataFusionError::ExecutionJoin(Box::new(join));
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

/// Decodes a task on another thread, batch by batch; ends when the receiver is dropped.
fn decode_ahead(
    mut reader: TaskReader,
    queue: &Arc<TaskQueue>,
    charge: MemoryReservation,
    metrics: &BaselineMetrics,
) -> Ahead {
    let (sender, batches) = mpsc::channel(batches_ahead(&queue.plan));
    let elapsed = metrics.elapsed_compute().clone();
    let queue = Arc::clone(queue);
    let task = SpawnedTask::spawn(async move {
        loop {
            let timer = elapsed.timer();
            let step = reader.step(queue.wanted())?;
            drop(timer);
            match step {
                Step::Batch(rows) => {
                    let own = charge.new_empty();
                    let charged = own.try_grow(memory_of_rows(&rows));
                    let _charge = charged.is_ok().then_some(own);
                    let places = if _charge.is_some() { 1 } else { sender.max_capacity() };
                    let Ok(mut places) = sender.reserve_many(places).await else { return Ok(()) };
                    if let Some(place) = places.next() {
                        place.send(Waiting { rows, _charge });
                    }
                }
                Step::Nothing => tokio::task::yield_now().await,
                Step::End => return Ok(()),
            }
        }
    });
    Ahead { batches, task }
}

impl Stream for OrderedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let timer = self.first.is_some().then(|| elapsed.timer());
        let poll = self.next_batch(context);
        drop(timer);
        self.metrics.record_poll(poll)
    }
}

impl RecordBatchStream for OrderedStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.queue.plan.schema)
    }
}
