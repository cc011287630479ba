//! Division of window nodes whose functions have got different sort keys.
//!
//! - window_keys-1. All functions of a window node have the same sort key. Conversions may give
//!   some of them another one, such as a time in place of a date.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::utils::generate_sort_key;
use datafusion::logical_expr::{Expr, LogicalPlan, Window};

/// Functions with the same sort key.
struct Group {
    key: Vec<(Sort, bool)>,
    functions: Vec<Expr>,
}

/// Returns a window node for each sort key (window_keys-1).
pub(super) fn by_sort_keys(window: Window) -> Result<LogicalPlan> {
    let mut groups: Vec<Group> = Vec::new();
    for function in window.window_expr {
        let key = match function.clone().unalias() {
            Expr::WindowFunction(call) => {
                generate_sort_key(&call.params.partition_by, &call.params.order_by)?
            }
            _ => Vec::new(),
        };
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.functions.push(function),
            None => groups.push(Group { key, functions: vec![function] }),
        }
    }
    groups.into_iter().try_fold(Arc::unwrap_or_clone(window.input), |input, group| {
        Ok(LogicalPlan::Window(Window::try_new(group.functions, Arc::new(input))?))
    })
}
