//! Window operators: the rows that they hold and the values that they make are charged to the
//! statement, and bounded.
//!
//! DataFusion reserves nothing for windows: not the rows that it gathers, which are all of the
//! input where a frame has no end, and not the values that it makes of them. A value of a frame is
//! a copy for each row, of texts that are views, too: `first_value` of a list of 100 MB over 8,192
//! rows was 800 GB.
//!
//! - Rows are charged from when a window gets them until it has given them out, and twice: it
//!   gathers them, and copies what it has gathered.
//! - Values of texts and lists are charged as they are made (`charge_value`) until they are given
//!   out, and twice while they are made: one by one, and as an array. Those of one step have at
//!   most `VALUES_BYTES`, if one of them has more than `NARROW_BYTES`.
//! - A window that works on rows as they come gets as few at a time as make `SLICE_BYTES`, if each
//!   has the widest value there was.
//!
//! The functions that charge their values, and those that check that the statement may continue,
//! are those that `functions::bounded::windows` wraps.
//! Not here: the number of values of a frame of `array_agg` (`plan::check_window`).

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use futures::{Stream, StreamExt};
use tidegate_model::limits::{COUNTED_VALUE_BYTES, SLICE_BYTES, VALUES_BYTES};

use super::copied::{NARROW_BYTES, too_large, widest_bytes};
use crate::cancel::CancelState;
use crate::error::Error;
use crate::operators::unary::{Unary, unary};
use crate::value_bytes::{bytes_of, bytes_of_rows, constant_bytes};

/// The beginning is the name of cancel checks, which are not shown.
const NAME: &str = "CancelCheckExec (windows)";

/// The name of the memory of windows in messages.
const CONSUMER: &str = "WindowRows";

/// The number of times that rows are charged.
const COPIES: usize = 2;

thread_local! {
    /// The memory of the window that this thread works on: its functions are shared by all streams
    /// of its plan.
    static WORKING: RefCell<Option<Arc<Held>>> = const { RefCell::new(None) };
}

/// The operator, which is charged for what it holds if it is a window, and whose functions check
/// that the statement may continue.
pub(crate) fn with_charged_windows(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Arc<CancelState>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (calls, input, is_streamed) = if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.input(), false)
    } else if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        (window.window_expr(), window.input(), true)
    } else {
        return Ok(plan);
    };
    let wide = |call: &Arc<dyn WindowExpr>| {
        let is_wide = call.field().is_ok_and(|field| is_wide(field.data_type()));
        if is_wide { call.expressions() } else { Vec::new() }
    };
    let fed = FedExec {
        streams: Arc::default(),
        wide: calls.iter().flat_map(wide).collect(),
        is_streamed,
    };
    let (streams, columns) = (Arc::clone(&fed.streams), input.schema().fields().len());
    let fed = unary(Arc::clone(input), fed);
    let inner = replace_children_if_necessary(plan, vec![fed])?;
    Ok(unary(inner, WindowsExec { streams, columns, stop: Arc::clone(stop) }))
}

/// True for types whose values are copied for each row: texts that are views, too.
pub(crate) fn is_wide(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => is_wide(values),
        of => of.is_string() || of.is_binary() || of.is_nested(),
    }
}

/// The bytes of the widest value of an array.
fn widest(values: &dyn Array) -> u64 {
    let longest = |lengths: &mut dyn Iterator<Item = u32>| lengths.max().unwrap_or(0).into();
    match values.data_type() {
        DataType::Utf8View => longest(&mut values.as_string_view().lengths()),
        DataType::BinaryView => longest(&mut values.as_binary_view().lengths()),
        DataType::Dictionary(..) => {
            values.as_any_dictionary_opt().map_or(0, |values| widest(values.values().as_ref()))
        }
        _ => widest_bytes(values),
    }
}

/// The memory of a window's streams, by their partitions.
#[derive(Debug, Default)]
struct Streams(Mutex<HashMap<usize, Arc<Held>>>);

impl Streams {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Arc<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of one stream of a window.
#[derive(Debug)]
struct Held {
    holding: Mutex<Holding>,
    /// The stop flag of its statement.
    stop: Arc<CancelState>,
}

#[derive(Debug)]
struct Holding {
    reservation: MemoryReservation,
    /// The rows and the bytes of batches that were not given out yet.
    batches: VecDeque<(usize, usize)>,
    /// Of all of them.
    rows: usize,
    rows_bytes: usize,
    /// The bytes of values that were made and not given out yet.
    values_bytes: u64,
    /// The bytes of the widest argument.
    widest: u64,
    step: Step,
}

/// The values that one poll of a window makes.
#[derive(Debug, Default)]
struct Step {
    bytes: u64,
    charged: u64,
    widest: u64,
}

impl Held {
    fn new(reservation: MemoryReservation, stop: &Arc<CancelState>) -> Arc<Held> {
        let holding = Mutex::new(Holding {
            reservation,
            batches: VecDeque::new(),
            rows: 0,
            rows_bytes: 0,
            values_bytes: 0,
            widest: 0,
            step: Step::default(),
        });
        Arc::new(Held { holding, stop: Arc::clone(stop) })
    }

    fn lock(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holding {
    /// Charges all that is held.
    fn charge(&mut self) -> Result<()> {
        let values = self.values_bytes.saturating_add(self.step.bytes.saturating_mul(2));
        let values = usize::try_from(values).unwrap_or(usize::MAX);
        self.reservation.try_resize(self.rows_bytes.saturating_mul(COPIES).saturating_add(values))
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let bytes = usize::try_from(bytes_of_rows(batch)).unwrap_or(usize::MAX);
        // Arrays may share what they are made of, and may be parts of larger ones.
        let bytes = bytes.min(batch.get_array_memory_size());
        self.batches.push_back((batch.num_rows(), bytes));
        self.rows += batch.num_rows();
        self.rows_bytes = self.rows_bytes.saturating_add(bytes);
        self.charge()
    }

    fn make(&mut self, function: &str, value: u64, rows: u64) -> Result<()> {
        let step = &mut self.step;
        step.bytes = step.bytes.saturating_add(value.saturating_mul(rows));
        step.widest = step.widest.max(value);
        if VALUES_BYTES < step.bytes && NARROW_BYTES < step.widest {
            return too_large(function);
        }
        if COUNTED_VALUE_BYTES <= step.bytes - step.charged {
            step.charged = step.bytes;
            return self.charge();
        }
        Ok(())
    }

    /// A poll of the window is over.
    fn end_step(&mut self) {
        let step = std::mem::take(&mut self.step);
        self.values_bytes = self.values_bytes.saturating_add(step.bytes);
    }

    /// Rows were given out, with so many bytes of values.
    fn give_out(&mut self, Given { rows, values_bytes }: Given) -> Result<()> {
        let mut left = rows;
        self.rows = self.rows.saturating_sub(rows);
        while let Some((rows, bytes)) = self.batches.front_mut().filter(|_| 0 < left) {
            if left < *rows {
                let part = *bytes / *rows * left;
                (*rows, *bytes) = (*rows - left, *bytes - part);
                self.rows_bytes -= part;
                break;
            }
            left -= *rows;
            self.rows_bytes -= *bytes;
            self.batches.pop_front();
        }
        self.values_bytes = self.values_bytes.saturating_sub(values_bytes);
        self.charge()
    }
}

/// The rows that a window has returned last, and its reader may still have.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    rows: usize,
    values_bytes: u64,
}

/// Charges a value that a function of a window is about to give to so many rows.
///
/// # Errors
/// If that is more than is left of the statement's memory, or than values may have together.
pub(crate) fn charge_value(function: &str, value: u64, rows: u64) -> Result<()> {
    WORKING.with_borrow(|held| match held {
        Some(held) => held.lock().make(function, value, rows),
        None => Ok(()),
    })
}

/// Checks that the statement of the window that this thread works on may continue.
///
/// # Errors
/// If it has been stopped.
pub(crate) fn check_may_continue() -> Result<()> {
    WORKING.with_borrow(|held| match held.as_ref().and_then(|held| held.stop.reason()) {
        Some(reason) => Err(Error::from(reason).into()),
        None => Ok(()),
    })
}

/// The number of rows of the window that this thread works on: one partition has at most as many.
pub(crate) fn rows_of_window() -> u64 {
    WORKING.with_borrow(|held| held.as_ref().map_or(0, |held| held.lock().rows as u64))
}

/// A window whose rows are charged.
#[derive(Debug)]
struct WindowsExec {
    streams: Arc<Streams>,
    stop: Arc<CancelState>,
    /// The number of columns of the input: the values of the window come after them.
    columns: usize,
}

/// Its input.
#[derive(Debug)]
struct FedExec {
    streams: Arc<Streams>,
    /// The arguments of calls whose values may be wide.
    wide: Vec<Arc<dyn PhysicalExpr>>,
    /// True if rows are processed as they come.
    is_streamed: bool,
}

impl Unary for WindowsExec {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let reservation = MemoryConsumer::new(CONSUMER).register(context.memory_pool());
        let held = Held::new(reservation, &self.stop);
        self.streams.lock().insert(partition, Arc::clone(&held));
        let inner = input.execute(partition, context)?;
        let (columns, given) = (self.columns, Given::default());
        Ok(Box::pin(Windows { inner, held, columns, given }))
    }
}

impl Unary for FedExec {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = input.execute(partition, context)?;
        let Some(held) = self.streams.lock().get(&partition).cloned() else {
            return internal_err!("the window of {NAME} is executed first");
        };
        let (wide, is_streamed) = (self.wide.clone(), self.is_streamed);
        Ok(Box::pin(Fed { input, held, wide, is_streamed, rest: None }))
    }
}

/// The rows of a [`WindowsExec`].
struct Windows {
    inner: SendableRecordBatchStream,
    held: Arc<Held>,
    columns: usize,
    given: Given,
}

/// Puts back what a thread worked on before.
struct Outer(Option<Arc<Held>>);

impl Drop for Outer {
    fn drop(&mut self) {
        WORKING.set(self.0.take());
    }
}

impl Stream for Windows {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let given = std::mem::take(&mut self.given);
        if 0 < given.rows {
            // It is less than before, or was made in the same step.
            self.held.lock().give_out(given)?;
        }
        let outer = Outer(WORKING.replace(Some(Arc::clone(&self.held))));
        let polled = self.inner.poll_next_unpin(context);
        drop(outer);
        let mut holding = self.held.lock();
        holding.end_step();
        match &polled {
            Poll::Ready(Some(Ok(batch))) => {
                drop(holding);
                let values = batch.columns().iter().skip(self.columns);
                let values = values.filter(|values| is_wide(values.data_type()));
                let bytes = values.map(|values| bytes_of(values.as_ref()));
                let values_bytes = bytes.fold(0, u64::saturating_add);
                self.given = Given { rows: batch.num_rows(), values_bytes };
            }
            Poll::Ready(_) => {
                holding.reservation.free();
            }
            Poll::Pending => {}
        }
        polled
    }
}

impl RecordBatchStream for Windows {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}

/// The rows of a [`FedExec`].
struct Fed {
    input: SendableRecordBatchStream,
    held: Arc<Held>,
    wide: Vec<Arc<dyn PhysicalExpr>>,
    is_streamed: bool,
    /// The rest of a batch.
    rest: Option<RecordBatch>,
}

impl Fed {
    /// Measures the widest values of the arguments of calls.
    fn measure(&self, batch: &RecordBatch) -> Result<()> {
        for argument in &self.wide {
            let bytes = match argument.evaluate(batch)? {
                ColumnarValue::Array(values) => widest(values.as_ref()),
                ColumnarValue::Scalar(value) => constant_bytes(&value),
            };
            let mut holding = self.held.lock();
            holding.widest = holding.widest.max(bytes);
        }
        Ok(())
    }

    /// The first rows of a batch that are worked on at a time.
    fn feed(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let mut holding = self.held.lock();
        let most = match self.is_streamed {
            true => SLICE_BYTES / holding.widest.max(1),
            false => u64::MAX,
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        let rows = batch.num_rows().min(most);
        let left = batch.num_rows() - rows;
        self.rest = (0 < left).then(|| batch.slice(rows, left));
        let part = if 0 < left { batch.slice(0, rows) } else { batch };
        holding.add(&part)?;
        Ok(part)
    }
}

impl Stream for Fed {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(rest) = self.rest.take() {
            return Poll::Ready(Some(self.feed(rest)));
        }
        // Below are others that this thread works on.
        let outer = Outer(WORKING.take());
        let polled = self.input.poll_next_unpin(context);
        drop(outer);
        Poll::Ready(ready!(polled).map(|batch| {
            let batch = batch?;
            self.measure(&batch)?;
            self.feed(batch)
        }))
    }
}

impl RecordBatchStream for Fed {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
