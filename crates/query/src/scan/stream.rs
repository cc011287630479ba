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
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{FutureExt, Stream};
use tokio::sync::mpsc;

use super::read::text_memory::TextMemory;
use super::read::{ReadPlan, ReadRows, Step, TaskReader};
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
        memory: &TextMemory,
    ) -> Poll<Option<Result<ReadRows>>> {
        let Some(reader) = place else { return Poll::Pending };
        match reader.step(self.wanted().min(most), memory) {
            Ok(Step::Batch(read)) => Poll::Ready(self.claim(read).map(Ok)),
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
    fn claim(&self, mut read: ReadRows) -> Option<ReadRows> {
        let rows = read.batch.num_rows();
        let less = |wanted: usize| Some(wanted.saturating_sub(rows));
        let updated = self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let wanted = updated.unwrap_or_else(|wanted| wanted);
        if wanted < rows {
            read.batch = read.batch.slice(0, wanted);
        }
        (0 < wanted).then_some(read)
    }
}

/// The charges for the texts of the batch that was handed on last, which are held until the next
/// one is asked for (text_memory-2).
#[derive(Debug, Default)]
struct HandedOn(Vec<Arc<MemoryReservation>>);

impl HandedOn {
    fn hand_on(&mut self, read: Option<Result<ReadRows>>) -> Option<Result<RecordBatch>> {
        let hand_on = |read: ReadRows| {
            self.0 = read.charges;
            read.batch
        };
        read.map(|read| read.map(hand_on))
    }
}

/// The stream of tasks in any order.
pub(crate) struct QueueStream {
    queue: Arc<TaskQueue>,
    reader: Option<TaskReader>,
    memory: TextMemory,
    handed_on: HandedOn,
    metrics: BaselineMetrics,
}

impl QueueStream {
    pub(crate) fn new(
        queue: Arc<TaskQueue>,
        memory: TextMemory,
        metrics: BaselineMetrics,
    ) -> QueueStream {
        QueueStream { queue, reader: None, memory, handed_on: HandedOn::default(), metrics }
    }

    fn next_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        self.handed_on = HandedOn::default();
        for _ in 0..STEPS_PER_POLL {
            if self.reader.is_none() {
                self.reader = self.queue.take();
            }
            if self.reader.is_none() {
                return Poll::Ready(None);
            }
            let step = self.queue.step(&mut self.reader, usize::MAX, &self.memory);
            if let Poll::Ready(read) = step {
                return Poll::Ready(self.handed_on.hand_on(read));
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
    /// Each batch has its charge (stream-1).
    batches: mpsc::Receiver<ReadRows>,
    task: SpawnedTask<Result<()>>,
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
    memory: TextMemory,
    handed_on: HandedOn,
    metrics: BaselineMetrics,
}

impl OrderedStream {
    pub(crate) fn new(
        queue: Arc<TaskQueue>,
        window_max: usize,
        memory: TextMemory,
        metrics: BaselineMetrics,
    ) -> OrderedStream {
        assert!(window_max > 0, "stream-1");
        let (first, window) = (queue.take(), window_max.min(2));
        // A limit is the better estimate of the wanted rows.
        let eager = if queue.wanted() < usize::MAX { usize::MAX } else { EAGER_ROWS };
        let (ahead, handed_on) = (VecDeque::new(), HandedOn::default());
        OrderedStream { queue, first, eager, ahead, window, window_max, memory, handed_on, metrics }
    }

    fn next_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        self.handed_on = HandedOn::default();
        for _ in 0..STEPS_PER_POLL {
            if self.first.is_none() {
                return self.next_ahead(context);
            }
            let step = self.queue.step(&mut self.first, self.eager, &self.memory);
            if let Poll::Ready(read) = step {
                self.eager = self.eager.saturating_mul(EAGER_GROWTH);
                if read.is_none() || self.queue.is_satisfied() {
                    self.first = None;
                }
                return Poll::Ready(self.handed_on.hand_on(read));
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn next_ahead(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            while self.ahead.len() < self.window {
                let Some(reader) = self.queue.take() else { break };
                let memory = self.memory.clone();
                self.ahead.push_back(decode_ahead(reader, &self.queue, memory, &self.metrics));
            }
            let Some(front) = self.ahead.front_mut() else { return Poll::Ready(None) };
            if let Some(read) = ready!(front.batches.poll_recv(context)) {
                let claimed = self.queue.claim(read);
                if self.queue.is_satisfied() {
                    // No reader is left for the batches that were decoded ahead.
                    self.ahead.clear();
                }
                return Poll::Ready(self.handed_on.hand_on(claimed.map(Ok)));
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
    memory: TextMemory,
    metrics: &BaselineMetrics,
) -> Ahead {
    let charge = MemoryConsumer::new(READ_AHEAD).register(memory.pool());
    let (sender, batches) = mpsc::channel(batches_ahead(&queue.plan));
    let elapsed = metrics.elapsed_compute().clone();
    let queue = Arc::clone(queue);
    let task = SpawnedTask::spawn(async move {
        loop {
            let timer = elapsed.timer();
            let step = reader.step(queue.wanted(), &memory)?;
            drop(timer);
            match step {
                Step::Batch(mut read) => {
                    let own = charge.new_empty();
                    let is_charged = own.try_grow(memory_of_rows(&read.batch)).is_ok();
                    if is_charged {
                        read.charges = vec![Arc::new(own)];
                    }
                    let places = if is_charged { 1 } else { sender.max_capacity() };
                    let Ok(mut places) = sender.reserve_many(places).await else { return Ok(()) };
                    if let Some(place) = places.next() {
                        place.send(read);
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
