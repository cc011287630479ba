//! The account of a statement, bound to the threads that work for it: its stop flag, and the memory
//! of the values that its expressions produce.
//!
//! - account-1. Every poll of an operator (`control::cancel_check`) and all planning
//!   (`control::plan_spawned`) happens inside an account, so that functions find it without an
//!   argument: those that fold a constant while a query is planned as well as those that run.
//! - account-2. Large values that are alive at the same time inside one operator have together at
//!   most `VALUES_BYTES`, and are charged to the memory of the statement. A value counts as freed
//!   when nothing else holds its buffers; a constant, when a function has taken it as its argument,
//!   or the operator gets its next batch.
//! - A value is charged before it is built. Functions build most values twice: once as they grow,
//!   and once as they are kept; so twice their size is charged until they are complete.
//!
//! Not here: the sizes of values (`functions::bounded`), and the memory of operators, which
//! they reserve themselves (`memory`).

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

use datafusion::arrow::array::ArrayData;
use datafusion::arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_model::limits::{COUNTED_VALUE_BYTES, FOLDED_BYTES, VALUES_BYTES};

use crate::cancel::CancelState;
use crate::error::{ClauseProblem, Error};

/// The consumer name of the memory of values in messages.
const CONSUMER: &str = "ExpressionValues";

thread_local! {
    /// The account of the current operator, or of planning.
    static CURRENT: RefCell<Option<Frame>> = const { RefCell::new(None) };
}

/// The reason why an account is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Constants are folded. A large one stays a call, because plans are copied often.
    Planning,
    /// Rows are computed.
    Running,
}

/// The account of a statement, shared by all threads that work for it.
#[derive(Debug)]
pub(crate) struct Account {
    stop: Arc<CancelState>,
    memory: Arc<dyn MemoryPool>,
}

/// The values that are alive inside one poll of an operator.
#[derive(Debug)]
struct Frame {
    account: Arc<Account>,
    phase: Phase,
    live: Vec<Live>,
    reservation: Option<MemoryReservation>,
    /// The limit of all values together (account-2); `with_values_bytes_max` lowers it.
    bytes_max: u64,
}

/// A large value that may be alive.
#[derive(Debug)]
enum Live {
    /// A part of an array.
    Array(Buffer),
    /// A constant, with its size in bytes.
    Constant(u64),
}

/// Leaves the account when it is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    outer: Option<Frame>,
}

impl Account {
    pub(crate) fn new(stop: &Arc<CancelState>, memory: &Arc<dyn MemoryPool>) -> Arc<Account> {
        Arc::new(Account { stop: Arc::clone(stop), memory: Arc::clone(memory) })
    }

    /// Enters the account to compute a plan's rows, on this thread until the result is dropped
    /// (account-1).
    pub(crate) fn enter(self: &Arc<Account>) -> Entered {
        self.enter_for(Phase::Running)
    }

    /// Enters the account to plan, on this thread until the result is dropped (account-1).
    pub(crate) fn enter_planning(self: &Arc<Account>) -> Entered {
        self.enter_for(Phase::Planning)
    }

    fn enter_for(self: &Arc<Account>, phase: Phase) -> Entered {
        let frame = Frame {
            account: Arc::clone(self),
            phase,
            live: Vec::new(),
            reservation: None,
            bytes_max: VALUES_BYTES,
        };
        Entered { outer: CURRENT.replace(Some(frame)) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut outer = self.outer.take();
        if let Some(outer) = &mut outer {
            // The outer operator has got its next batch: the values made from the last one are in
            // its result (account-2).
            outer.clear();
        }
        CURRENT.set(outer);
    }
}

impl Frame {
    fn clear(&mut self) {
        self.live.clear();
        self.reservation = None;
    }

    /// The bytes of the values that others still hold.
    fn live_bytes(&mut self) -> u64 {
        self.live.retain(|value| match value {
            Live::Array(buffer) => 1 < buffer.strong_count(),
            Live::Constant(_) => true,
        });
        let bytes = self.live.iter().map(|value| match value {
            Live::Array(buffer) => buffer.capacity() as u64,
            Live::Constant(bytes) => *bytes,
        });
        bytes.fold(0, u64::saturating_add)
    }

    fn charge(&mut self, bytes: u64) -> Result<()> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.reservation.is_none() && bytes == 0 {
            return Ok(());
        }
        let memory = &self.account.memory;
        let reservation =
            self.reservation.get_or_insert_with(|| MemoryConsumer::new(CONSUMER).register(memory));
        reservation.try_resize(bytes)
    }
}

/// Checks that the statement of this thread has not been stopped.
///
/// # Errors
/// The reason why it was stopped.
pub(crate) fn check_canceled() -> Result<()> {
    CURRENT.with_borrow(|frame| match frame.as_ref().and_then(|it| it.account.stop.reason()) {
        Some(reason) => Err(Error::from(reason).into()),
        None => Ok(()),
    })
}

/// Refuses a function call with a result of `bytes` bytes while a query is planned, so that it
/// stays a call. `bytes` is evaluated only during planning.
///
/// # Errors
/// If the result is larger than a constant that planning may fold.
pub(crate) fn check_folded(function: &str, bytes: impl FnOnce() -> u64) -> Result<()> {
    let is_planning = CURRENT
        .with_borrow(|frame| frame.as_ref().is_some_and(|frame| frame.phase == Phase::Planning));
    if is_planning && FOLDED_BYTES < bytes() {
        return Err(too_large(function, FOLDED_BYTES));
    }
    Ok(())
}

fn too_large(function: &str, most: u64) -> DataFusionError {
    ClauseProblem::ValuesTooLarge { function: function.to_owned(), mebibytes: most >> 20 }.into()
}

/// Runs `work` with a lower limit for values.
pub(crate) fn with_values_bytes_max<T>(bytes: u64, work: impl FnOnce() -> T) -> T {
    let set = |bytes: u64| {
        CURRENT.with_borrow_mut(|frame| {
            frame.as_mut().map(|it| std::mem::replace(&mut it.bytes_max, bytes))
        })
    };
    let before = set(bytes);
    let done = work();
    if let Some(before) = before {
        set(before);
    }
    done
}

/// Forgets the values of the operator: they are in its result, or freed.
pub(crate) fn forget_values() {
    CURRENT.with_borrow_mut(|frame| {
        if let Some(frame) = frame {
            frame.clear();
        }
    });
}

/// Charges a value that a function is about to build.
///
/// # Errors
/// If it is more than values may have together (account-2), or more than is left of the statement's
/// memory.
pub(crate) fn charge(function: &str, bytes: u64) -> Result<()> {
    if bytes < COUNTED_VALUE_BYTES {
        return Ok(());
    }
    let too_large = |most: u64| Err(too_large(function, most));
    CURRENT.with_borrow_mut(|frame| {
        let Some(frame) = frame else {
            return if VALUES_BYTES < bytes { too_large(VALUES_BYTES) } else { Ok(()) };
        };
        if frame.phase == Phase::Planning {
            return too_large(FOLDED_BYTES);
        }
        let live = frame.live_bytes();
        if frame.bytes_max < live.saturating_add(bytes) {
            return too_large(frame.bytes_max);
        }
        frame.charge(live.saturating_add(bytes.saturating_mul(2)))
    })
}

/// Charges the values of expressions that an operator keeps, for as long as the reservation is
/// held.
///
/// # Errors
/// If it is more than is left of the statement's memory.
pub(crate) fn grow(
    reservation: &mut Option<MemoryReservation>,
    consumer: &str,
    bytes: usize,
) -> Result<()> {
    CURRENT.with_borrow(|frame| {
        let Some(frame) = frame else { return Ok(()) };
        let memory = &frame.account.memory;
        let own = reservation.get_or_insert_with(|| MemoryConsumer::new(consumer).register(memory));
        own.try_grow(bytes)
    })
}

/// Counts an array that a function has built, except for the buffers that it shares with its
/// arguments.
pub(crate) fn made_array(values: &ArrayData, given: &[ArrayData]) {
    CURRENT.with_borrow_mut(|frame| {
        let Some(frame) = frame else { return };
        let mut shared = Vec::new();
        given.iter().for_each(|values| add_pointers(values, &mut shared));
        add_buffers(values, &shared, &mut frame.live);
        settle(frame);
    });
}

/// Counts a constant of `bytes` bytes that a function has built from constants of the sizes
/// `taken`.
pub(crate) fn made_constant(bytes: u64, taken: impl Iterator<Item = u64>) {
    CURRENT.with_borrow_mut(|frame| {
        let Some(frame) = frame else { return };
        for size in taken.filter(|size| COUNTED_VALUE_BYTES <= *size) {
            let is_it = |value: &Live| matches!(value, Live::Constant(bytes) if *bytes == size);
            if let Some(at) = frame.live.iter().position(is_it) {
                frame.live.swap_remove(at);
            }
        }
        if COUNTED_VALUE_BYTES <= bytes {
            frame.live.push(Live::Constant(bytes));
        }
        settle(frame);
    });
}

/// Replaces the estimate that was charged by the bytes that are alive.
fn settle(frame: &mut Frame) {
    if frame.reservation.is_some() {
        let bytes = frame.live_bytes();
        // This shrinks the charge, or the estimate was too low, and then the next charge fails.
        let _ = frame.charge(bytes);
    }
}

fn add_pointers(values: &ArrayData, pointers: &mut Vec<NonNull<u8>>) {
    pointers.extend(values.buffers().iter().map(Buffer::data_ptr));
    values.child_data().iter().for_each(|child| add_pointers(child, pointers));
}

fn add_buffers(values: &ArrayData, shared: &[NonNull<u8>], live: &mut Vec<Live>) {
    for buffer in values.buffers() {
        let is_other = |value: &Live| match value {
            Live::Array(known) => known.data_ptr() != buffer.data_ptr(),
            Live::Constant(_) => true,
        };
        let is_new = !shared.contains(&buffer.data_ptr()) && live.iter().all(is_other);
        if COUNTED_VALUE_BYTES <= buffer.capacity() as u64 && is_new {
            live.push(Live::Array(buffer.clone()));
        }
    }
    for child in values.child_data() {
        add_buffers(child, shared, live);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    use super::*;
    use crate::cancel::Timeout;
    use crate::control::plan_spawned;

    /// A stopped statement keeps its admission until its threads have no task left. A thread that
    /// plans was not a task: sixteen clients that planned and disconnected in a loop had ninety
    /// threads at work.
    #[test]
    fn planning_is_a_task_until_it_has_stopped() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let account = Account::new(&Arc::new(CancelState::new(Timeout::Never)), &pool);
        let (begins, begun) = oneshot::channel();
        let (go_on, wait) = oneshot::channel::<()>();
        let entered = runtime.enter();
        let planning = plan_spawned(account, async move {
            begins.send(()).expect("the test waits for it");
            wait.await.expect("the test goes on");
            Ok(())
        });
        begun.blocking_recv().unwrap();
        drop((planning, entered));
        assert_eq!(runtime.metrics().num_alive_tasks(), 1);
        go_on.send(()).unwrap();
        while 0 < runtime.metrics().num_alive_tasks() {
            std::thread::yield_now();
        }
    }
}
