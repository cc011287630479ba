//! The scan: rows of a snapshot as an operator of DataFusion.
//!
//! - Filters are exact: DataFusion does not evaluate them again, and limits are pushed down to the
//!   scan.
//! - A scan in table order has one partition and declares its ordering; any other has as many as
//!   there are threads and promises no order.
//! - Planning reads only metadata, segments that a time range ends in, and, where an aggregate
//!   groups by integers or texts, the footers of the others (`aggregate_pushdown::key`).
//! - The streams of a scan share its work, for any number of them: operators above that were
//!   planned for some number of them can have the same number again.
//!
//! Conditions of a filter on the designated timestamp become row ranges; the others are evaluated
//! where rows are decoded. Not here: the choice of scans that must be in order (`plan::order`).

mod time_filter;
mod prune;
pub(crate) mod selected;
mod task;
mod condition;
mod dynamic;
mod row_filter;
mod read;
pub(crate) mod order;
mod stream;
mod aggregate_pushdown;

pub(crate) use aggregate_pushdown::AggregatePushdown;
pub(crate) use dynamic::is_dynamic;
pub(crate) use read::text_memory::compacted;
pub(crate) use read::{place_of, reversed};
pub(crate) use task::ScanOrder;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use tidegate_model::time::IsoTimestamp;
use tidegate_model::{ColumnType, TimeRange, Timestamp};
use tidegate_storage::Snapshot;
use tidegate_storage::segment::arrow_field;

use crate::account::check_canceled;
use crate::cancel::CancelState;
use crate::error::Error;
use crate::names::{COLUMN_KEY, NAME_KEY};
use crate::oid::table_oid;
use crate::scan::selected::{Counts, Selected};
use crate::types::literal::time_value;
use aggregate_pushdown::PushedAggregateExec;
use condition::Translator;
use dynamic::DynamicFilters;
use read::text_memory::TextMemory;
use read::{Conjunct, ReadPlan};
use row_filter::RowFilter;
use stream::{OrderedStream, QueueStream, TaskQueue};
use task::{BATCH_ROWS, ROW_ID_BYTES, ScanTask, TaskShape, value_bytes};
use time_filter::{TimeColumn, split_filters};

/// Of so many rows, one is estimated to pass a condition whose selectivity is not known: joins are
/// planned by it.
const FILTERED_SHARE: usize = 5;

/// Bytes from which a segment tells the width of its rows; smaller ones do no harm.
const WEIGHED_BYTES: u64 = 1 << 20;

/// The most bytes that a stored byte of a text becomes.
const EXPANSION: u64 = 8;

/// The name of the column with the ids of rows. Queries see tables without it.
pub(crate) use tidegate_model::schema::ROW_ID;

/// A table as of one moment, as DataFusion sees it: names in lower case.
#[derive(Debug, Clone)]
pub(crate) struct ScanTable {
    snapshot: Arc<Snapshot>,
    schema: SchemaRef,
    order: ScanOrder,
}

impl ScanTable {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> ScanTable {
        let designated = snapshot.schema.designated();
        let oid = table_oid(snapshot.table);
        let field_of = |(at, column): (usize, &tidegate_model::Column)| {
            let field = arrow_field(column);
            let mut metadata = field.metadata().clone();
            metadata.insert(NAME_KEY.to_owned(), column.name.clone());
            metadata.insert(COLUMN_KEY.to_owned(), format!("{oid}.{}", at + 1));
            let is_nullable = designated != Some(column.id);
            Field::new(column.name.to_lowercase(), field.data_type().clone(), is_nullable)
                .with_metadata(metadata)
        };
        let fields = snapshot.schema.columns().iter().enumerate().map(field_of).collect::<Vec<_>>();
        ScanTable { snapshot, schema: Arc::new(Schema::new(fields)), order: ScanOrder::Any }
    }

    /// Returns the same table with one more column, the ids of rows (`read::row_id`).
    pub(crate) fn with_row_ids(self) -> ScanTable {
        let row_id = Arc::new(Field::new(ROW_ID, DataType::UInt64, false));
        let fields = self.schema.fields().iter().cloned().chain([row_id]).collect::<Vec<_>>();
        ScanTable { schema: Arc::new(Schema::new(fields)), ..self }
    }

    /// Returns the snapshot that it reads.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Returns the same table as of another moment, at which it has the same columns.
    pub(crate) fn as_of(&self, snapshot: Arc<Snapshot>) -> ScanTable {
        ScanTable { snapshot, ..self.clone() }
    }

    /// Returns the same table read in this order.
    pub(crate) fn with_order(&self, order: ScanOrder) -> ScanTable {
        ScanTable { order, ..self.clone() }
    }

    /// Returns true if it is read in an order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.order != ScanOrder::Any
    }

    /// Returns the name of the designated timestamp, in lower case.
    pub(crate) fn designated_name(&self) -> Option<String> {
        let (column, _) = self.snapshot.schema.designated_column()?;
        Some(column.name.to_lowercase())
    }

    /// Splits filters into ranges of the designated timestamp and the other conditions.
    fn split<'a>(&self, filters: &'a [Expr]) -> (Option<Vec<TimeRange>>, Vec<&'a Expr>) {
        let Some((column, unit)) = self.snapshot.schema.designated_column() else {
            return (None, filters.iter().collect());
        };
        let name = column.name.to_lowercase();
        let (ranges, rest) = split_filters(TimeColumn { name: &name, unit }, filters);
        let is_all = ranges == [TimeRange::all(unit)];
        ((!is_all).then_some(ranges), rest)
    }

    /// Returns the time ranges of conditions, if they have no other terms. Filters name columns as
    /// the table does.
    pub(crate) fn time_ranges(&self, filters: &[Expr]) -> Option<Vec<TimeRange>> {
        let (_, unit) = self.snapshot.schema.designated_column()?;
        match self.split(filters) {
            (ranges, rest) if rest.is_empty() => {
                Some(ranges.unwrap_or_else(|| vec![TimeRange::all(unit)]))
            }
            _ => None,
        }
    }

    /// Splits conditions into those that are evaluated on encoded columns, and the others.
    fn filter<'a>(&self, filters: &[&'a Expr]) -> Result<(Option<Arc<RowFilter>>, Vec<&'a Expr>)> {
        let mut translator = Translator::new(&self.snapshot.schema, Arc::clone(&self.schema));
        let (mut conditions, mut rest) = (Vec::new(), Vec::new());
        for &filter in filters {
            match translator.condition(filter) {
                Some(condition) => conditions.push(condition),
                None => rest.push(filter),
            }
        }
        if conditions.is_empty() {
            return Ok((None, rest));
        }
        let filter = RowFilter::new(&self.snapshot, &translator.columns, conditions)?;
        Ok((Some(Arc::new(filter)), rest))
    }

    fn passing<'a>(&self, filters: &'a [Expr]) -> Result<Passing<'a>> {
        let (ranges, rest) = self.split(filters);
        let (filter, rest) = self.filter(&rest)?;
        let selected = prune::select(&self.snapshot, ranges.as_deref()).map_err(Error::Storage)?;
        Ok(Passing { selected, ranges, filter, rest })
    }

    fn conjunct(&self, session: &dyn Session, filter: &Expr) -> Result<Conjunct> {
        let table = DFSchema::try_from(Arc::clone(&self.schema))?;
        let expr = session.create_physical_expr(filter.clone(), &table)?;
        let mut columns = collect_columns(&expr).iter().map(ColumnExpr::index).collect::<Vec<_>>();
        columns.sort_unstable();
        let schema = Arc::new(self.schema.project(&columns)?);
        let expr = reassign_expr_columns(expr, &schema)?;
        Ok(Conjunct { expr, schema, columns })
    }
}

#[async_trait]
impl TableProvider for ScanTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            let is_subquery = |expr: &Expr| {
                matches!(
                    expr,
                    Expr::ScalarSubquery(_)
                        | Expr::InSubquery(_)
                        | Expr::Exists(_)
                        | Expr::SetComparison(_)
                        | Expr::OuterReferenceColumn(..)
                )
            };
            let has_subquery = filter.exists(|expr| Ok(is_subquery(expr)))?;
            Ok(if has_subquery {
                TableProviderFilterPushDown::Unsupported
            } else {
                TableProviderFilterPushDown::Exact
            })
        };
        filters.iter().map(support).collect()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_canceled()?;
        let Passing { selected, ranges, filter, rest } = self.passing(filters)?;
        let conjuncts = rest.into_iter().map(|filter| self.conjunct(session, filter));
        let output = match projection {
            Some(positions) => positions.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let read = ReadPlan {
            snapshot: Arc::clone(&self.snapshot),
            filter,
            dynamic: None,
            conjuncts: conjuncts.collect::<Result<_>>()?,
            schema: Arc::new(self.schema.project(&output)?),
            output,
            order: self.order,
            batch_rows: session.config().batch_size().clamp(1, BATCH_ROWS),
            stop: session.config().get_extension::<CancelState>(),
        };
        let threads = session.config().target_partitions();
        let filters = filters.into();
        let bounds = ScanBounds { schema: self.schema(), filters, ranges, limit, threads };
        let source = ScanSource::new(read, selected, bounds);
        Ok(DataSourceExec::from_data_source(source))
    }
}

/// The rows that pass filters, as far as planning can tell.
struct Passing<'a> {
    selected: Arc<Selected>,
    ranges: Option<Vec<TimeRange>>,
    filter: Option<Arc<RowFilter>>,
    /// Conditions that only DataFusion can evaluate.
    rest: Vec<&'a Expr>,
}

/// The parameters of a scan, besides its columns.
#[derive(Debug, Clone)]
struct ScanBounds {
    /// The schema of the table.
    schema: SchemaRef,
    /// The filters as they were given.
    filters: Arc<[Expr]>,
    /// The ranges that pruned, for EXPLAIN.
    ranges: Option<Vec<TimeRange>>,
    limit: Option<usize>,
    threads: usize,
}

/// A planned scan: the rows to read, their order and their distribution.
#[derive(Debug, Clone)]
pub(crate) struct ScanSource {
    read: Arc<ReadPlan>,
    selected: Arc<Selected>,
    tasks: Arc<[ScanTask]>,
    partitions: usize,
    bounds: ScanBounds,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanSource {
    fn new(read: ReadPlan, selected: Arc<Selected>, bounds: ScanBounds) -> ScanSource {
        let columns = read.snapshot.schema.columns();
        let filtered = read.conjuncts.iter().flat_map(|conjunct| &conjunct.columns);
        let bytes_of = |&at: &usize| columns.get(at).map_or(ROW_ID_BYTES, |it| value_bytes(it.ty));
        // Rows without columns are the same in any order.
        let order = if read.output.is_empty() { ScanOrder::Any } else { read.order };
        let row_bytes = match order {
            // These are not decoded ahead, or most rows do not pass, and the others wait in few
            // batches.
            ScanOrder::Any => 0,
            _ if read.filter.is_some() => 0,
            _ => read.output.iter().chain(filtered).map(bytes_of).sum(),
        };
        let tasks = selected.tasks(TaskShape::new(order, row_bytes));
        let partitions = match read.order {
            ScanOrder::Any => bounds.threads.min(tasks.len()).max(1),
            ScanOrder::Forward | ScanOrder::Backward => 1,
        };
        let metrics = ExecutionPlanMetricsSet::new();
        ScanSource { read: Arc::new(read), selected, tasks, partitions, bounds, metrics }
    }

    /// Returns bounds of the designated timestamp in the rows that are read.
    fn selected_times(&self) -> (i64, i64) {
        let ranges = self.bounds.ranges.as_deref().unwrap_or_default();
        let start = ranges.first().map_or(i64::MIN, |range| range.start);
        let end = ranges.last().map_or(i64::MAX, |range| range.end.saturating_sub(1));
        let runs = self.selected.groups.iter().flat_map(|group| &group.runs);
        let times = runs.map(|run| {
            let meta = &run.segment.meta;
            (meta.min_ts.max(start), meta.max_ts.min(end))
        });
        let hull = times.reduce(|(min, max), (low, high)| (min.min(low), max.max(high)));
        hull.unwrap_or_default()
    }

    /// Returns an estimate of the bytes of the texts of a row: what a row takes in the segment with
    /// the widest ones, uncompressed; 0 if no texts come out.
    pub(crate) fn text_bytes_of_row(&self) -> u64 {
        let columns = self.read.snapshot.schema.columns();
        let is_text = |ty: ColumnType| matches!(ty, ColumnType::Varchar | ColumnType::Binary);
        let mut output = self.read.output.iter().filter_map(|&at| columns.get(at));
        if !output.any(|column| is_text(column.ty)) {
            return 0;
        }
        let others = columns.iter().filter(|column| !is_text(column.ty));
        let others = others.map(|column| value_bytes(column.ty) as u64).sum::<u64>();
        let runs = self.selected.groups.iter().flat_map(|group| &group.runs);
        let metas = runs.map(|run| &run.segment.meta).filter(|meta| WEIGHED_BYTES <= meta.bytes.0);
        let stored = metas.map(|meta| meta.bytes.0 / meta.rows.0.max(1)).max().unwrap_or(0);
        stored.saturating_sub(others).saturating_mul(EXPANSION)
    }

    /// Returns the snapshot that is read.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.read.snapshot
    }

    /// Returns the same scan for another statement, of the table as of another moment, at which it
    /// has the same columns; `None` if the conditions would be evaluated in another way.
    pub(crate) fn again(
        &self,
        snapshot: &Arc<Snapshot>,
        filters: &Arc<[Expr]>,
        stop: Option<&Arc<CancelState>>,
    ) -> Result<Option<ScanSource>> {
        let table = ScanTable {
            snapshot: Arc::clone(snapshot),
            schema: Arc::clone(&self.bounds.schema),
            order: self.read.order,
        };
        let Passing { selected, ranges, filter, rest } = table.passing(filters)?;
        if rest.len() != self.read.conjuncts.len() {
            return Ok(None);
        }
        let (snapshot, stop) = (table.snapshot, stop.cloned());
        let read = ReadPlan { snapshot, filter, stop, ..self.read.copy() };
        let filters = Arc::clone(filters);
        let bounds = ScanBounds { filters, ranges, ..self.bounds.clone() };
        Ok(Some(ScanSource::new(read, selected, bounds)))
    }

    /// Returns the conditions as they were given.
    pub(crate) fn filters(&self) -> &Arc<[Expr]> {
        &self.bounds.filters
    }

    /// Returns true if it does not change while it runs, so that another statement can have the
    /// same.
    pub(crate) fn is_lasting(&self) -> bool {
        self.read.dynamic.is_none()
    }

    /// Returns the same scan in this order. `None` if it has a limit, which would return other
    /// rows.
    pub(crate) fn with_order(&self, order: ScanOrder) -> Option<ScanSource> {
        if self.bounds.limit.is_some() {
            return None;
        }
        let read = ReadPlan { order, ..self.read.copy() };
        Some(ScanSource::new(read, Arc::clone(&self.selected), self.bounds.clone()))
    }

    /// Returns the same scan of these of its columns.
    fn with_columns(&self, positions: &[usize]) -> Result<ScanSource> {
        let read = ReadPlan {
            output: positions.iter().map(|&at| self.read.output[at]).collect(),
            schema: Arc::new(self.read.schema.project(positions)?),
            ..self.read.copy()
        };
        Ok(ScanSource::new(read, Arc::clone(&self.selected), self.bounds.clone()))
    }

    /// Returns the number of rows that come out; it is exact if the second value is true.
    fn rows(&self) -> (usize, bool) {
        let Counts { rows, has_masked, .. } = self.selected.counts;
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let is_filtered = self.read.filter.is_some() || !self.read.conjuncts.is_empty();
        let rows = if is_filtered { rows.div_ceil(FILTERED_SHARE) } else { rows };
        let is_exact = !has_masked && !is_filtered;
        (rows.min(self.bounds.limit.unwrap_or(usize::MAX)), is_exact)
    }

    /// Describes it for EXPLAIN.
    fn describe(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            return write!(f, "table={}", self.read.snapshot.name);
        }
        let snapshot = &self.read.snapshot;
        let counts = self.selected.counts;
        let columns = snapshot.schema.columns();
        let name = |&at: &usize| columns.get(at).map_or(ROW_ID, |column| column.name.as_str());
        let names = self.read.output.iter().map(name);
        write!(
            f,
            "table={}, partitions={} of {}, segments={} of {}, columns=[{}]",
            snapshot.name,
            counts.partitions,
            counts.partitions_total,
            counts.segments,
            counts.segments_total,
            names.collect::<Vec<_>>().join(", "),
        )?;
        if let Some(ranges) = &self.bounds.ranges {
            write!(f, ", time=[{}]", ranges.iter().map(shown).collect::<Vec<_>>().join(", "))?;
        }
        let described = self.read.filter.iter().flat_map(|filter| filter.describe());
        let decoded = self.read.conjuncts.iter();
        let decoded = decoded.map(|conjunct| format!("{} [decoded]", conjunct.expr));
        let filters = described.chain(decoded).collect::<Vec<_>>();
        if !filters.is_empty() {
            write!(f, ", filter=[{}]", filters.join(", "))?;
        }
        if let Some(dynamic) = &self.read.dynamic {
            let exprs = dynamic.exprs().iter().map(ToString::to_string).collect::<Vec<_>>();
            write!(f, ", dynamic=[{}]", exprs.join(", "))?;
        }
        match self.read.order {
            ScanOrder::Any => {}
            ScanOrder::Forward => f.write_str(", order=forward")?,
            ScanOrder::Backward => f.write_str(", order=backward")?,
        }
        self.bounds.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
    }

    /// Returns the bounds of the designated timestamp, if all rows are read and the metadata have
    /// them.
    fn timestamp_bounds(&self) -> Option<(usize, ScalarValue, ScalarValue)> {
        let snapshot = &self.read.snapshot;
        let (column, _) = snapshot.schema.designated_column()?;
        let is_whole = self.rows().1 && self.bounds.ranges.is_none() && self.bounds.limit.is_none();
        let (min, max) = snapshot.min_max_ts().filter(|_| is_whole)?;
        let columns = snapshot.schema.columns();
        let at_output = |&at: &usize| columns.get(at).is_some_and(|it| it.id == column.id);
        let position = self.read.output.iter().position(at_output)?;
        Some((position, time_value(min, column.ty), time_value(max, column.ty)))
    }
}

impl ReadPlan {
    pub(crate) fn copy(&self) -> ReadPlan {
        ReadPlan {
            snapshot: Arc::clone(&self.snapshot),
            filter: self.filter.clone(),
            dynamic: self.dynamic.clone(),
            conjuncts: self.conjuncts.clone(),
            output: self.output.clone(),
            schema: Arc::clone(&self.schema),
            order: self.order,
            batch_rows: self.batch_rows,
            stop: self.stop.clone(),
        }
    }
}

impl DataSource for ScanSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn create_sibling_state(&self, _: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(TaskQueue::new(&self.read, &self.tasks, self.bounds.limit)))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let shared = args.sibling_state.and_then(|state| state.downcast::<TaskQueue>().ok());
        let queue = match shared {
            // A queue serves one run of an ordered scan, which has no siblings to share it with.
            Some(queue) if self.read.order == ScanOrder::Any => queue,
            _ => Arc::new(TaskQueue::new(&self.read, &self.tasks, self.bounds.limit)),
        };
        let metrics = BaselineMetrics::new(&self.metrics, args.partition);
        let memory = TextMemory::new(&args.context);
        Ok(match self.read.order {
            ScanOrder::Any => Box::pin(cooperative(QueueStream::new(queue, memory, metrics))),
            ScanOrder::Forward | ScanOrder::Backward => {
                let window = self.bounds.threads * 2;
                Box::pin(cooperative(OrderedStream::new(queue, window, memory, metrics)))
            }
        })
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(format, f)
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let schema = Arc::clone(&self.read.schema);
        let is_descending = match self.read.order {
            ScanOrder::Any => return EquivalenceProperties::new(schema),
            ScanOrder::Forward => false,
            ScanOrder::Backward => true,
        };
        let table = &self.read.snapshot.schema;
        let designated = table.designated();
        let at_output =
            |&at: &usize| table.columns().get(at).is_some_and(|it| Some(it.id) == designated);
        let Some(position) = self.read.output.iter().position(at_output) else {
            return EquivalenceProperties::new(schema);
        };
        let column = ColumnExpr::new(schema.field(position).name(), position);
        // The column is never NULL, so that the place of NULLs does not matter.
        let options = SortOptions { descending: is_descending, nulls_first: is_descending };
        let ordering = PhysicalSortExpr { expr: Arc::new(column), options };
        EquivalenceProperties::new_with_orderings(schema, [[ordering]])
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.read.schema);
        let (rows, is_exact) = self.rows();
        if partition.is_some() && self.partitions > 1 {
            statistics.num_rows = Precision::Inexact(rows / self.partitions);
            return Ok(Arc::new(statistics));
        }
        statistics.num_rows =
            if is_exact { Precision::Exact(rows) } else { Precision::Inexact(rows) };
        if let Some((position, min, max)) = self.timestamp_bounds() {
            let column = &mut statistics.column_statistics[position];
            column.min_value = Precision::Exact(min);
            column.max_value = Precision::Exact(max);
            column.null_count = Precision::Exact(0);
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        if limit.is_some() && self.read.dynamic.is_some() {
            return None;
        }
        let bounds = ScanBounds { limit, ..self.bounds.clone() };
        Some(Arc::new(ScanSource { bounds, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.bounds.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        with_zones(&self.metrics, self.read.filter.as_deref())
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        // The operator that pushes them filters its rows by itself, too.
        let answer = vec![PushedDown::No; filters.len()];
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answer);
        let known = self.read.dynamic.iter().flat_map(|dynamic| dynamic.exprs()).cloned();
        let given = filters.into_iter().filter(is_dynamic);
        let exprs: Vec<_> = known.chain(given).collect();
        // Skipped rows would be missing from the first ones of a limit.
        if exprs.is_empty() || self.bounds.limit.is_some() {
            return Ok(propagation);
        }
        let fields = ScanTable::new(Arc::clone(&self.read.snapshot)).schema;
        let dynamic = Some(Arc::new(DynamicFilters::new(exprs, fields)));
        let read = Arc::new(ReadPlan { dynamic, ..self.read.copy() });
        Ok(propagation.with_updated_node(Arc::new(ScanSource { read, ..self.clone() })))
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let mut positions = Vec::new();
        for projected in projection.iter() {
            match projected.expr.downcast_ref::<ColumnExpr>() {
                Some(column) if column.name() == projected.alias => positions.push(column.index()),
                _ => return Ok(None),
            }
        }
        Ok(Some(Arc::new(self.with_columns(&positions)?)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let conjuncts = self.read.conjuncts.iter().map(|conjunct| &conjunct.expr);
        let dynamic = self.read.dynamic.iter().flat_map(|dynamic| dynamic.exprs());
        for expr in conjuncts.chain(dynamic) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Returns the scan that an operator is, alone or with an aggregate.
pub(crate) fn scan_of(node: &dyn ExecutionPlan) -> Option<&ScanSource> {
    if let Some(pushed) = node.downcast_ref::<PushedAggregateExec>() {
        return Some(pushed.source());
    }
    node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<ScanSource>()
}

/// Returns the same operator over another scan of the same columns. `None` if that one needs
/// another plan: one with more partitions, or without a pushed aggregate.
pub(crate) fn with_scan(
    node: &dyn ExecutionPlan,
    scan: ScanSource,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(pushed) = node.downcast_ref::<PushedAggregateExec>() {
        return Ok(pushed.over(scan)?.map(|pushed| Arc::new(pushed) as _));
    }
    let partitions = node.properties().partitioning.partition_count();
    let fits = scan.partitions <= partitions;
    Ok(fits.then(|| DataSourceExec::from_data_source(ScanSource { partitions, ..scan }) as _))
}

/// Returns the same operator for a plan template, over a scan without rows.
pub(crate) fn with_empty_scan(
    node: &dyn ExecutionPlan,
    scan: ScanSource,
) -> Arc<dyn ExecutionPlan> {
    if let Some(pushed) = node.downcast_ref::<PushedAggregateExec>() {
        return Arc::new(pushed.in_template(scan));
    }
    let partitions = node.properties().partitioning.partition_count();
    DataSourceExec::from_data_source(ScanSource { partitions, ..scan })
}

/// Returns the metrics of a scan with the counts of its conditions on zones, for EXPLAIN ANALYZE.
fn with_zones(
    metrics: &ExecutionPlanMetricsSet,
    filter: Option<&RowFilter>,
) -> ExecutionPlanMetricsSet {
    let Some(filter) = filter else { return metrics.clone() };
    let all = ExecutionPlanMetricsSet::new();
    metrics.clone_inner().iter().for_each(|metric| all.register(Arc::clone(metric)));
    let zones = filter.statistics();
    for (name, count) in [
        ("zones_skipped", zones.zones_skipped),
        ("zones_whole", zones.zones_whole),
        ("zones_kernel", zones.zones_kernel),
        ("zones_compiled", zones.zones_compiled),
        ("zones_interpreted", zones.zones_interpreted),
    ] {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        MetricBuilder::new(&all).global_counter(name).add(count);
    }
    all
}

/// Formats a time range for EXPLAIN.
fn shown(range: &TimeRange) -> String {
    let end = |instant: i64| match instant {
        i64::MIN | i64::MAX => String::new(),
        _ => IsoTimestamp(Timestamp(instant), range.unit).to_string(),
    };
    format!("{}..{}", end(range.start), end(range.end))
}
