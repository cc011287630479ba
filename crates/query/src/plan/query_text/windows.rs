//! Named windows: `OVER w`, `OVER (w ORDER BY x)` and `WINDOW w AS (base ..)` become windows that
//! are written out.
//!
//! - As in PostgreSQL, a window based on another one inherits its PARTITION BY, and may not have
//!   one itself, and its ORDER BY, and may have one only if the other has none; the other one has
//!   no frame, unless it is named without brackets.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitorMut,
    WindowSpec, WindowType,
};

use crate::error::{Error, SyntaxError};
use crate::position::position_at;
use crate::sql::visit::visit_mut;

/// Windows by their names.
type Windows = HashMap<String, WindowSpec>;

/// Writes out the windows that a SELECT names, and those in the ORDER BY of its query.
pub(super) fn write_out_windows(sql: &str, query: &mut Query) -> Result<(), Box<Error>> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let mut windows = Windows::new();
    for NamedWindowDefinition(name, window) in std::mem::take(&mut select.named_window) {
        let spec = match window {
            NamedWindowExpr::NamedWindow(base) => find(sql, &windows, &base)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => written_out(sql, &windows, spec)?,
        };
        if windows.insert(name.value.clone(), spec).is_some() {
            return Err(problem(sql, &name, |name| SyntaxError::WindowTwice { name }));
        }
    }
    let mut writer = Writer { sql, windows: &windows, queries: 0 };
    let broken = write_in_select(select, &mut writer);
    let broken = match (broken, &mut query.order_by) {
        (ControlFlow::Continue(()), Some(order)) => visit_mut(order, &mut writer),
        (broken, _) => broken,
    };
    match broken {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn write_in_select(select: &mut Select, writer: &mut Writer<'_>) -> ControlFlow<Box<Error>> {
    for item in &mut select.projection {
        visit_mut(item, writer)?;
    }
    match &mut select.qualify {
        Some(condition) => visit_mut(condition, writer),
        None => ControlFlow::Continue(()),
    }
}

/// Writes out the windows of calls that stand in no query of their own.
struct Writer<'a> {
    sql: &'a str,
    windows: &'a Windows,
    /// The number of open queries.
    queries: usize,
}

impl VisitorMut for Writer<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        let spec = match call.over.take() {
            None => return ControlFlow::Continue(()),
            Some(WindowType::NamedWindow(name)) => find(self.sql, self.windows, &name).cloned(),
            Some(WindowType::WindowSpec(spec)) => written_out(self.sql, self.windows, spec),
        };
        match spec {
            Ok(spec) => {
                call.over = Some(WindowType::WindowSpec(spec));
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Returns a window with the parts that it inherits of another one.
fn written_out(sql: &str, windows: &Windows, spec: WindowSpec) -> Result<WindowSpec, Box<Error>> {
    let WindowSpec { window_name, partition_by, order_by, window_frame } = spec;
    let Some(name) = window_name else {
        return Ok(WindowSpec { window_name: None, partition_by, order_by, window_frame });
    };
    let base = find(sql, windows, &name)?;
    let again =
        |clause| Err(problem(sql, &name, |name| SyntaxError::WindowOverridden { name, clause }));
    if !partition_by.is_empty() {
        return again("PARTITION BY");
    }
    if !order_by.is_empty() && !base.order_by.is_empty() {
        return again("ORDER BY");
    }
    if base.window_frame.is_some() {
        return again("frame");
    }
    let order_by = if order_by.is_empty() { base.order_by.clone() } else { order_by };
    let partition_by = base.partition_by.clone();
    Ok(WindowSpec { window_name: None, partition_by, order_by, window_frame })
}

fn find<'w>(sql: &str, windows: &'w Windows, name: &Ident) -> Result<&'w WindowSpec, Box<Error>> {
    let found = windows.get(&name.value);
    found.ok_or_else(|| problem(sql, name, |name| SyntaxError::NoSuchWindow { name }))
}

fn problem(sql: &str, name: &Ident, what: impl FnOnce(String) -> SyntaxError) -> Box<Error> {
    let position = position_at(sql, name.span.start);
    Box::new(Error::Syntax { position, what: what(name.value.clone()) })
}
