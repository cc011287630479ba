//! Expressions that check, at each evaluation, that the statement may continue.
//!
//! - Such an expression checks before each evaluation, and fails once the statement has been
//!   stopped. So an operator that evaluates it often ends within one of its steps.
//! - cancel_check_expr-1. Once a step has lasted for a turn (`turn`), a long evaluation blocks none
//!   of the workers of the runtime: another thread takes over the tasks that wait for this one.
//!
//! Users do not see these expressions: they are added after planning, and display as the inner one.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

use super::turn::turn_is_over;
use crate::cancel::CancelState;
use crate::error::Error;

/// Returns true if the runtime can move the tasks of this thread to another one.
fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// An expression that fails once the statement has been stopped.
#[derive(Debug)]
pub(super) struct CancelCheckExpr {
    inner: Arc<dyn PhysicalExpr>,
    stop: Arc<CancelState>,
    time: EvaluationTime,
}

/// The duration of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EvaluationTime {
    /// It may be long (cancel_check_expr-1).
    Long,
    Short,
}

impl CancelCheckExpr {
    /// Wraps a condition whose evaluation may take long.
    pub(super) fn long(inner: &Arc<dyn PhysicalExpr>, stop: &Arc<CancelState>) -> CancelCheckExpr {
        CancelCheckExpr {
            inner: Arc::clone(inner),
            stop: Arc::clone(stop),
            time: EvaluationTime::Long,
        }
    }

    /// Wraps an expression that is evaluated often.
    pub(super) fn short(inner: &Arc<dyn PhysicalExpr>, stop: &Arc<CancelState>) -> CancelCheckExpr {
        CancelCheckExpr {
            inner: Arc::clone(inner),
            stop: Arc::clone(stop),
            time: EvaluationTime::Short,
        }
    }
}

impl fmt::Display for CancelCheckExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for CancelCheckExpr {
    fn eq(&self, other: &CancelCheckExpr) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for CancelCheckExpr {}

impl Hash for CancelCheckExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for CancelCheckExpr {
    delegate! { inner:
        fn return_field(&self, schema: &Schema) -> Result<FieldRef>;
        fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.stop.reason() {
            Some(reason) => Err(Error::from(reason).into()),
            None if self.time == EvaluationTime::Long && turn_is_over() && has_other_threads() => {
                task::block_in_place(|| self.inner.evaluate(batch))
            }
            None => self.inner.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(inner) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("a cancel check has one expression");
        };
        Ok(Arc::new(CancelCheckExpr { inner, stop: Arc::clone(&self.stop), time: self.time }))
    }
}
