//! Aggregates over windows that collect all values of their frame.
//!
//! - Each row of a window has a list or a text of its own, as long as its frame: over a whole
//!   partition they grow with the square of its rows. So the frame has at most `FRAME_VALUES` rows,
//!   and the batches of the operators below are smaller by as much (`slices`).

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use tidegate_model::limits::FRAME_VALUES;

use crate::error::ClauseProblem;
use crate::types::literal::integer_of;

/// The aggregates that collect all values.
pub(super) const COLLECTING: [&str; 2] = ["array_agg", "string_agg"];

/// Returns true if an expression of a window, by its name, collects all values.
pub(crate) fn collects_values(name: &str) -> bool {
    COLLECTING.iter().any(|collecting| name.starts_with(collecting))
}

/// Window functions that need a value, which DataFusion accepts without one.
pub(crate) const OF_VALUE: [&str; 3] = ["first_value", "last_value", "nth_value"];

/// Refuses an aggregate that keeps too many values for each row, and a function without its
/// value.
pub(crate) fn check_window(window: &WindowFunction) -> Result<()> {
    let function = window.fun.name();
    if OF_VALUE.contains(&function) && window.params.args.is_empty() {
        // The message is that of DataFusion for other functions.
        return plan_err!("Function '{function}' failed to match any signature without arguments");
    }
    let rows = frame_rows(&window.params.window_frame);
    if !COLLECTING.contains(&function) || rows.is_some_and(|rows| rows <= FRAME_VALUES) {
        return Ok(());
    }
    Err(ClauseProblem::FrameTooLarge { function: function.to_owned(), rows: FRAME_VALUES }.into())
}

/// Returns the number of rows of a frame, if it is known.
fn frame_rows(frame: &WindowFrame) -> Option<u64> {
    if frame.units != WindowFrameUnits::Rows {
        return None;
    }
    // The offset from the current row, which is 0.
    let place = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(rows) => integer_of(rows).map(|rows| -rows),
        WindowFrameBound::Following(rows) => integer_of(rows),
    };
    let (first, last) = (place(&frame.start_bound)?, place(&frame.end_bound)?);
    u64::try_from(last - first + 1).ok().or(Some(0))
}
