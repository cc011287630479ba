//! Slices: batches are cut into smaller ones before operators whose expressions make large values.
//!
//! - An operator whose expressions make texts or lists gets batches of at most `SLICE_BYTES`, and
//!   of so few rows that its large constants have no more once each row has its own.
//! - slices-1. A projection whose values would be more than `SLICE_BYTES` makes them for a part of
//!   the rows at a time; the values of one row have the limit of the account (account-2).
//! - Filters, and what divides rows among streams, gather no more than a few wide rows (filter-1,
//!   repartition-1). Not here: the joins, sorts and aggregates that do so (`plan::wide_rows`).
//!
//! Users see nothing of it: the pieces have the name of cancel checks (cancel_check-1), and the
//! projections that of their own.

mod filter;
mod repartition;

pub(crate) use repartition::{few_rows, few_rows_of, has_wide_columns};

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{CastExpr, Literal, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};
use tidegate_model::limits::{FRAME_VALUES, SLICE_BYTES, VALUES_BYTES};

use crate::account::{forget_values, with_values_bytes_max};
use crate::error::{ClauseProblem, Error, innermost};
use crate::functions::bounded::collecting::collects_values;
use crate::functions::bounded::makes_values;
use crate::operators::unary::{Unary, unary};
use crate::value_bytes::{bytes_of_rows, constant_bytes};
use filter::parted;
use repartition::narrow;

/// The beginning is the name of cancel checks, which are not shown.
const NAME: &str = "CancelCheckExec (slices)";

/// Constants that have less together are no reason to cut a batch.
const CONSTANT_BYTES: u64 = 4 << 10;
/// The bytes of a list as text, as a multiple of its own.
const SHOWN: u64 = 16;

/// The values that the expressions of an operator make.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    /// Texts or lists.
    makes_values: bool,
    /// Texts of numbers or lists.
    shows: bool,
    /// For each row all values of a frame.
    collects_values: bool,
    /// The bytes of all constants.
    constants: u64,
}

impl Made {
    fn by(plan: &dyn ExecutionPlan) -> Result<Made> {
        let windows = match plan.downcast_ref::<WindowAggExec>() {
            Some(window) => window.window_expr(),
            None => plan
                .downcast_ref::<BoundedWindowAggExec>()
                .map_or_else(Default::default, BoundedWindowAggExec::window_expr),
        };
        let mut made = Made {
            makes_values: plan.is::<UnnestExec>(),
            collects_values: windows.iter().any(|window| collects_values(window.name())),
            ..Made::default()
        };
        plan.apply_expressions(&mut |root| {
            root.apply(|expr| {
                made.add(expr.as_ref());
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(made)
    }

    fn add(&mut self, expr: &dyn PhysicalExpr) {
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            self.makes_values |= makes_values(call.fun());
        } else if let Some(literal) = expr.downcast_ref::<Literal>() {
            self.constants = self.constants.saturating_add(constant_bytes(literal.value()));
        } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            self.shows |= cast.cast_type().is_string();
        } else if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            self.shows |= cast.cast_type().is_string();
        }
    }

    /// Returns the limits of its slices; `None` if batches are not cut for it.
    fn cut(self) -> Option<Cut> {
        let Made { makes_values, shows, collects_values, constants } = self;
        if !makes_values && !shows && !collects_values && constants < CONSTANT_BYTES {
            return None;
        }
        let rows_max = usize::try_from(SLICE_BYTES / constants.max(1)).unwrap_or(usize::MAX);
        let bytes_max = match (collects_values, shows) {
            (true, _) => SLICE_BYTES / FRAME_VALUES,
            (false, true) => SLICE_BYTES / SHOWN,
            (false, false) => SLICE_BYTES,
        };
        Some(Cut { rows_max: rows_max.max(1), bytes_max })
    }
}

/// The maximal size of a slice.
#[derive(Clone, Copy, Debug)]
struct Cut {
    rows_max: usize,
    bytes_max: u64,
}

impl Cut {
    /// Returns the number of rows of a slice of a batch.
    fn rows_of(self, batch: &RecordBatch) -> usize {
        let rows = batch.num_rows();
        let pieces =
            usize::try_from(bytes_of_rows(batch).div_ceil(self.bytes_max)).unwrap_or(usize::MAX);
        // A piece of rows that are larger than others has somewhat more.
        (rows / pieces.max(1)).min(self.rows_max).max(1)
    }
}

/// The operator, which gets small batches if its expressions make values (slices-1).
pub(crate) fn sliced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.children().is_empty() {
        return Ok(plan);
    }
    let Some(cut) = Made::by(plan.as_ref())?.cut() else { return narrow(parted(plan)?) };
    let piece = |input: &Arc<dyn ExecutionPlan>| unary(Arc::clone(input), SliceExec { cut });
    let children = plan.children().into_iter().map(piece).collect();
    let plan = replace_children_if_necessary(plan, children)?;
    if plan.is::<ProjectionExec>() {
        let metrics = ExecutionPlanMetricsSet::new();
        return Ok(Arc::new(SlicedProjection { inner: plan, metrics }));
    }
    narrow(parted(plan)?)
}

/// Cuts batches.
#[derive(Debug)]
struct SliceExec {
    cut: Cut,
}

impl Unary for SliceExec {
    const NAME: &'static str = NAME;

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = input.execute(partition, context)?;
        Ok(Box::pin(Slices { input, cut: self.cut, rest: None }))
    }
}

/// A batch whose rows are taken a few at a time.
struct Rest {
    batch: RecordBatch,
    start: usize,
    rows: usize,
}

impl Rest {
    fn next(&mut self) -> Option<RecordBatch> {
        let rows = self.rows.min(self.batch.num_rows() - self.start);
        let piece = (0 < rows).then(|| self.batch.slice(self.start, rows));
        self.start += rows;
        piece
    }
}

struct Slices {
    input: SendableRecordBatchStream,
    cut: Cut,
    rest: Option<Rest>,
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(piece) = self.rest.as_mut().and_then(Rest::next) {
            return Poll::Ready(Some(Ok(piece)));
        }
        self.rest = None;
        let batch = match ready!(self.input.poll_next_unpin(context)) {
            Some(Ok(batch)) => batch,
            other => return Poll::Ready(other),
        };
        let rows = self.cut.rows_of(&batch);
        if batch.num_rows() <= rows {
            return Poll::Ready(Some(Ok(batch)));
        }
        let mut rest = Rest { batch, start: 0, rows };
        let first = rest.next();
        self.rest = Some(rest);
        Poll::Ready(first.map(Ok))
    }
}

impl RecordBatchStream for Slices {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// A projection that makes its values for a part of a batch at a time if they are large (slices-1).
#[derive(Debug)]
struct SlicedProjection {
    inner: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl DisplayAs for SlicedProjection {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for SlicedProjection {
    delegate! { inner:
        fn name(&self) -> &str;
        fn properties(&self) -> &Arc<PlanProperties>;
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>>;
        fn maintains_input_order(&self) -> Vec<bool>;
        fn apply_expressions(
            &self,
            apply: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
        ) -> Result<TreeNodeRecursion>;
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.inner.as_ref())
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = replace_children_if_necessary(Arc::clone(&self.inner), children)?;
        Ok(Arc::new(SlicedProjection { inner, metrics: ExecutionPlanMetricsSet::new() }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(projection) = self.inner.downcast_ref::<ProjectionExec>() else {
            return internal_err!("it was made of a projection");
        };
        Ok(Box::pin(Projected {
            exprs: projection.expr().to_vec(),
            schema: projection.schema(),
            input: projection.input().execute(partition, context)?,
            rest: None,
            rows: usize::MAX,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }
}

/// The rows of a [`SlicedProjection`].
struct Projected {
    exprs: Vec<ProjectionExpr>,
    schema: SchemaRef,
    input: SendableRecordBatchStream,
    /// The rest of a batch.
    rest: Option<RecordBatch>,
    /// The number of rows that are tried at a time.
    rows: usize,
    metrics: BaselineMetrics,
}

impl Projected {
    /// Returns the values of the next rows of a batch, and keeps the rest of it.
    fn project(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        loop {
            let rows = self.rows.min(batch.num_rows());
            let limit = if rows <= 1 { VALUES_BYTES } else { SLICE_BYTES };
            let piece = batch.slice(0, rows);
            let made = with_values_bytes_max(limit, || self.values(&piece));
            forget_values();
            match made {
                Err(error) if 1 < rows && is_too_large(&error) => self.rows = rows / 2,
                Err(error) => return Err(error),
                Ok(made) => {
                    if rows == self.rows {
                        self.rows = rows.saturating_mul(2);
                    }
                    let left = batch.num_rows() - rows;
                    self.rest = (0 < left).then(|| batch.slice(rows, left));
                    return Ok(made);
                }
            }
        }
    }

    fn values(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let column = |projected: &ProjectionExpr| {
            let value = projected.expr.evaluate(batch)?;
            if let ColumnarValue::Scalar(constant) = &value {
                let bytes = constant_bytes(constant).saturating_mul(rows as u64);
                if 1 < rows && SLICE_BYTES < bytes {
                    return Err(too_large());
                }
            }
            value.into_array(rows)
        };
        let columns = self.exprs.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

/// A constant that is too large for so many rows.
fn too_large() -> DataFusionError {
    let function = "constant".to_owned();
    ClauseProblem::ValuesTooLarge { function, mebibytes: SLICE_BYTES >> 20 }.into()
}

fn is_too_large(error: &DataFusionError) -> bool {
    let DataFusionError::External(foreign) = innermost(error) else { return false };
    let ours = foreign.downcast_ref::<Error>();
    matches!(ours, Some(Error::Clause { what: ClauseProblem::ValuesTooLarge { .. }, .. }))
}

impl Stream for Projected {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        let batch = match self.rest.take() {
            Some(batch) => Ok(batch),
            None => match ready!(self.input.poll_next_unpin(context)) {
                Some(batch) => batch,
                None => return Poll::Ready(None),
            },
        };
        let projected = batch.and_then(|batch| self.project(batch));
        self.metrics.record_poll(Poll::Ready(Some(projected)))
    }
}

impl RecordBatchStream for Projected {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringViewArray;
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::execution::SessionStateBuilder;
    use datafusion::logical_expr::{Expr, col, lit};
    use datafusion::physical_plan::collect;
    use futures::executor::block_on;

    use super::*;
    use crate::cancel::{CancelState, Timeout};
    use crate::control::{PlanText, with_cancel_checks};
    use crate::functions::bounded::bounded;
    use crate::value_bytes::bytes_of;

    const ROWS: usize = 150;
    const LARGE: i64 = 1 << 20;

    /// Rows of a few bytes, with an expression.
    fn projection(expr: impl Fn(&dyn Fn(&str, Vec<Expr>) -> Expr) -> Expr) -> ProjectionExec {
        let state = SessionStateBuilder::new().with_default_features().build();
        let texts: StringViewArray = (0..ROWS).map(|_| Some("x")).collect();
        let batch = RecordBatch::try_from_iter([("text", Arc::new(texts) as _)]).unwrap();
        let call = |name: &str, args: Vec<Expr>| {
            let function = state.scalar_functions().get(name).expect(name);
            bounded(function).expect(name).call(args)
        };
        let schema = DFSchema::try_from(batch.schema()).unwrap();
        let expr = state.create_physical_expr(expr(&call), &schema).unwrap();
        let input = MemorySourceConfig::try_new_exec(&[vec![batch.clone()]], batch.schema(), None);
        let named = ProjectionExpr { expr, alias: "made".to_owned() };
        ProjectionExec::try_new([named], input.unwrap()).unwrap()
    }

    fn run(plan: ProjectionExec) -> Result<Vec<RecordBatch>> {
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let plan = with_cancel_checks(Arc::new(plan), &stop).unwrap();
        block_on(collect(plan, Arc::new(TaskContext::default())))
    }

    #[track_caller]
    fn check_pieces(batches: &[RecordBatch]) {
        let rows = batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>();
        assert_eq!(rows.iter().sum::<usize>(), ROWS);
        for batch in batches {
            let bytes = bytes_of(batch.column(0).as_ref());
            assert!(bytes <= SLICE_BYTES + (SLICE_BYTES >> 4), "{rows:?}");
        }
        assert!(2 < batches.len(), "{rows:?}");
    }

    #[test]
    fn a_projection_makes_large_values_for_a_few_rows_at_a_time() {
        let made = run(projection(|call| call("repeat", vec![col("text"), lit(LARGE)]))).unwrap();
        check_pieces(&made);
        let small = run(projection(|call| call("repeat", vec![col("text"), lit(2_i64)]))).unwrap();
        assert_eq!(small.len(), 1, "slices-1: what is small is not cut");
        let error = run(projection(|call| call("repeat", vec![col("text"), lit(LARGE << 10)])));
        let error = error.expect_err("account-2: one row is too large").to_string();
        assert!(error.contains("more than 512 MiB"), "slices-1: {error}");
    }

    #[test]
    fn a_large_constant_is_not_made_for_all_rows_at_once() {
        let large = ScalarValue::Utf8(Some("x".repeat(1 << 20)));
        check_pieces(&run(projection(|_| lit(large.clone()))).unwrap());
    }

    #[test]
    fn users_see_no_pieces() {
        let plan = projection(|call| call("upper", vec![col("text")]));
        let stop = Arc::new(CancelState::new(Timeout::Never));
        let plan = with_cancel_checks(Arc::new(plan), &stop).unwrap();
        let format = DisplayFormatType::Default;
        let text = PlanText { plan: plan.as_ref(), format, has_metrics: false }.to_string();
        assert!(text.starts_with("ProjectionExec") && !text.contains("CancelCheck"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
