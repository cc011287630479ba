//! Timeout and cancellation of running statements.
//!
//! - control-1. Between any two operators of a running plan there is a cancel check
//!   (`cancel_check`), which checks before each batch that the statement may continue. So after a
//!   timeout, or the drop of its stream, every operator ends with its current batch: nothing more
//!   is read.
//! - control-2. A wait for rows, or for a plan, ends with the timeout or a cancel (`rows`). A
//!   client on a thread outside the statement sees the end at once, whatever the statement's
//!   threads do (`CancelHandle::ended`).
//! - control-3. Time in which rows wait for the client is not counted: a client that reads
//!   slowly causes no timeout. The time in which an INSERT writes its rows is counted.
//! - control-4. However long a statement works, other tasks on its threads run after milliseconds
//!   and one step of an operator (`cancel_check`). A step can last seconds: a server gives each
//!   statement threads of its own, so that only tasks of the same statement wait for it.
//!
//! One step of an operator is not interrupted, with these exceptions:
//!
//! - Conditions on stored rows check before each zone, or each pass of a kernel over a page frame
//!   (`scan::row_filter`). A scan's step is at most 8 page frames without a match (`scan::stream`),
//!   that of a pushed aggregate one page frame; one that finds groups by hash checks before each
//!   zone, or each piece of one with long texts. Other texts are decoded some megabytes at a time,
//!   with a check before each (`scan::read`).
//! - Conditions of joins check before each evaluation (`join_filter`): a batch of one side would be
//!   compared with all rows of the other in one step.
//! - Sorts check before each run of the rows that they have gathered (`sort_keys`), a megabyte at
//!   most.
//! - Windows check before the values of a few rows each, if a value is made from the rows of a
//!   frame (bounded_windows-1).
//!
//! Steps that stay long: a hash table that grows or is spilled, concatenating the build side of a
//! hash join or the rows of a window, a rank or a shift over a partition, and planning. They end by
//! themselves, and no client waits for them (control-2).
//!
//! The clock is that of the runtime's timers. Not here: statements that change tables, which are
//! applied as a whole or not at all.

mod turn;
mod cancel_check;
mod plan_text;
mod cancel_check_expr;
mod join_filter;
mod collected_values;
mod sort_keys;
mod rows;

pub(crate) use cancel_check::with_cancel_checks;
pub(crate) use plan_text::PlanText;
pub(crate) use rows::{
    OnComplete, Reader, finish_in_time, panicked, plan_spawned, run, run_inline, run_on_demand,
};
pub(crate) use turn::yield_after_turn;
