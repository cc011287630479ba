//! Planning of aggregate pushdown: the aggregates that can be pushed down, and their fused form.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column as ColumnExpr, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use tidegate_filter::LengthUnit;
use tidegate_filter::aggregate::{Accumulator, AggregateKind};
use tidegate_model::types::Physical;
use tidegate_model::{Column, ColumnType};

use super::calculated::{Calculated, CalculatedBuilder};
use super::hash_key::HashKeys;
use super::key::Key;
use super::plain::PlainAggregate;
use crate::scan::ScanSource;
use crate::scan::task::{ScanOrder, ScanTask};

/// The maximal bytes of the states of one worker: they must fit in a cache, and be made quickly.
pub(super) const SLOT_BYTES_MAX: usize = 16 << 20;
/// The number of rows that cost as much as a slot that is made in vain.
const ROWS_PER_SLOT: usize = 4;
/// The number of slots without a cost.
const SLOTS_FREE: usize = 4_096;
/// The values that a worker reads in about the time in which another thread is woken and has
/// answered, some tens of microseconds.
const VALUES_PER_WORKER: usize = 128 << 10;
/// The words of bitmaps of distinct values without a cost.
const WORDS_FREE: usize = 4_096;
/// The maximal number of words of the bitmap of a group that is found by hash.
const HASH_WORDS_MAX: usize = 16;
/// The maximal number of nodes of a key or an argument whose columns are replaced. Those that can
/// be pushed down have few; others would double with each projection that uses a column twice.
const REPLACED_NODES: usize = 256;

/// The keys and aggregates of an aggregate over the columns of a scan, whatever the scan reads.
#[derive(Debug)]
pub(super) struct AggregateSpec {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    calls: Vec<AggregateCall>,
    pub(super) schema: SchemaRef,
    /// Its keys and aggregates as text, for EXPLAIN.
    pub(super) text: String,
    /// DataFusion's form of it.
    pub(super) plain: PlainAggregate,
}

/// The way in which the groups of rows are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// They are slots of dense arrays.
    Slots,
    /// They are found by hash.
    Hash,
}

/// An aggregate function, its argument and its FILTER.
#[derive(Debug)]
struct AggregateCall {
    function: Arc<AggregateFunctionExpr>,
    arg: Arc<dyn PhysicalExpr>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

impl AggregateSpec {
    /// Returns the keys and aggregates of a final aggregate of a partial one with this input;
    /// `None` if it has others than those over one value.
    fn of(
        last: &AggregateExec,
        partial: &AggregateExec,
        input: &Input<'_>,
    ) -> Result<Option<AggregateSpec>> {
        let is_plain = |it: &AggregateExec| {
            it.limit_options().is_none() && !it.group_expr().has_grouping_set()
        };
        if !is_plain(last) || !is_plain(partial) {
            return Ok(None);
        }
        let mut keys = Vec::new();
        for (key, _) in partial.group_expr().expr() {
            let Some(key) = input.over_scan(key)? else { return Ok(None) };
            keys.push(key);
        }
        let mut calls = Vec::new();
        for (function, filter) in partial.aggr_expr().iter().zip(partial.filter_expr()) {
            let args = function.expressions();
            let [arg] = args.as_slice() else { return Ok(None) };
            let Some(arg) = input.over_scan(arg)? else { return Ok(None) };
            let filter = match filter {
                None => None,
                Some(filter) => match input.over_scan(filter)? {
                    Some(filter) => Some(filter),
                    None => return Ok(None),
                },
            };
            calls.push(AggregateCall { function: Arc::clone(function), arg, filter });
        }
        let by = partial.group_expr().expr().iter().map(|(_, name)| name.as_str());
        let names = calls.iter().map(|call| call.function.name());
        let text = format!(
            "gby=[{}], aggr=[{}]",
            by.collect::<Vec<_>>().join(", "),
            names.collect::<Vec<_>>().join(", ")
        );
        let schema = last.schema();
        let plain = PlainAggregate::of(last, partial, &input.projections);
        Ok(Some(AggregateSpec { keys, calls, schema, text, plain }))
    }
}

/// A pushed aggregate over a scan.
#[derive(Debug)]
pub(super) struct PushedAggregate {
    pub(super) spec: Arc<AggregateSpec>,
    /// The scan.
    pub(super) source: ScanSource,
    /// The columns of the table that keys and aggregates read.
    pub(super) columns: Vec<Column>,
    pub(super) way: Way,
    /// The keys whose ids are the digits of a slot.
    pub(super) keys: Vec<Key>,
    /// The keys, if groups are found by hash; `None` in a plan template as well.
    hash_keys: Option<HashKeys>,
    /// The values that are counted once each, by their ids as keys.
    pub(super) distinct: Vec<Key>,
    /// The arguments and FILTERs that are expressions.
    pub(super) calculated: Calculated,
    /// The reads of columns, one for each column and way of reading.
    pub(super) reads: Vec<Read>,
    /// The aggregates in the output, behind the keys.
    pub(super) outputs: Vec<Output>,
    /// The folds of all `reads` together.
    pub(super) folds: Vec<AggregateKind>,
    /// The number of slots; 0 if groups are found by hash, and in a plan template, which is never
    /// executed.
    pub(super) slots: usize,
}

/// A column or an expression read in one way, and the folds over it.
#[derive(Debug)]
pub(super) struct Read {
    /// The index in `PushedAggregate::columns`.
    pub(super) column: usize,
    pub(super) how: How,
    /// The expression in `PushedAggregate::calculated` that must be true of a row.
    pub(super) filter: Option<usize>,
    /// Indices in `PushedAggregate::folds`.
    pub(super) folds: Vec<usize>,
}

/// The way in which values are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// All rows have a value.
    Rows,
    /// Only NULL or not.
    Nulls,
    /// Integers of the same order: floats by keys, UBIGINT with its highest bit flipped.
    Ordered,
    /// Integers.
    Integers,
    /// Floats.
    Floats,
    /// The lengths of texts.
    Lengths(LengthUnit),
    /// The ids of this key of `PushedAggregate::distinct`.
    Ids(usize),
    /// The values of this expression in `PushedAggregate::calculated`.
    Calculated(usize),
}

/// One aggregate in the output.
#[derive(Debug)]
pub(super) enum Output {
    /// The number of rows.
    Rows,
    /// The number of values.
    Count(usize),
    /// The number of distinct values.
    Distinct(usize),
    /// A sum.
    Sum(usize),
    /// The sum of floats by their number.
    Mean(usize),
    /// The exact sum of integers by their number.
    ExactMean {
        fold: usize,
        /// True if the values were read with their highest bit flipped, 2^63 less than they are.
        is_flipped: bool,
    },
    /// The least or the greatest value of this type of column.
    Bound(usize, ColumnType),
    /// The first or the last one.
    Positioned(usize, ColumnType),
}

impl PushedAggregate {
    /// Returns the pushed-down form of an aggregate in two steps; `None` if it has none.
    pub(super) fn of(last: &AggregateExec) -> Result<Option<PushedAggregate>> {
        let partial = last.input().downcast_ref::<AggregateExec>();
        let Some(partial) = partial.filter(|plan| *plan.mode() == AggregateMode::Partial) else {
            return Ok(None);
        };
        let Some(input) = Input::of(partial.input()) else { return Ok(None) };
        let Some(spec) = AggregateSpec::of(last, partial, &input)? else { return Ok(None) };
        let spec = Arc::new(spec);
        match PushedAggregate::over(&spec, input.source.clone(), Way::Slots)? {
            Some(pushed) => Ok(Some(pushed)),
            None => PushedAggregate::over(&spec, input.source.clone(), Way::Hash),
        }
    }

    /// Returns the pushed-down form of an aggregate over a scan; `None` if it has none of this way.
    pub(super) fn over(
        spec: &Arc<AggregateSpec>,
        source: ScanSource,
        way: Way,
    ) -> Result<Option<PushedAggregate>> {
        let is_plain = source.bounds.limit.is_none()
            && source.read.conjuncts.is_empty()
            && source.read.dynamic.is_none();
        let fits = match way {
            // Reading of groups without aggregates ends at a limit, which slots do not count.
            Way::Slots => !spec.calls.is_empty(),
            // Groups leave in no order.
            Way::Hash => !spec.keys.is_empty() && source.read.order == ScanOrder::Any,
        };
        if !is_plain || !fits {
            return Ok(None);
        }
        let mut builder = Builder::new(&source);
        let (mut keys, mut hash_keys) = (Vec::new(), None);
        match way {
            Way::Slots => {
                for expr in &spec.keys {
                    let Some(key) = Key::of(expr, &source, &mut |at| builder.column(at))? else {
                        return Ok(None);
                    };
                    keys.push(key);
                }
            }
            Way::Hash => {
                hash_keys = HashKeys::of(&spec.keys, &source, &mut |at| builder.column(at))?;
                if hash_keys.is_none() {
                    return Ok(None);
                }
            }
        }
        let Some(outputs) = builder.outputs(spec, way)? else { return Ok(None) };
        let Builder { columns, reads, folds, distinct, calculated, .. } = builder;
        let distinct = distinct.into_iter().map(|it| it.key).collect();
        let calculated = calculated.finish(&source)?;
        let slots = match way {
            Way::Hash => Some(0),
            Way::Slots => keys
                .iter()
                .try_fold(1_usize, |slots, key| slots.checked_mul(key.domain))
                .filter(|&slots| is_worth(slots, &folds, &source)),
        };
        let Some(slots) = slots else { return Ok(None) };
        let spec = Arc::clone(spec);
        Ok(Some(PushedAggregate {
            spec,
            source,
            columns,
            way,
            keys,
            hash_keys,
            distinct,
            calculated,
            reads,
            outputs,
            folds,
            slots,
        }))
    }

    /// Returns the form of an aggregate in a plan template, over a scan of a table without rows.
    pub(super) fn in_template(
        spec: &Arc<AggregateSpec>,
        source: ScanSource,
        way: Way,
    ) -> PushedAggregate {
        PushedAggregate {
            spec: Arc::clone(spec),
            source,
            columns: Vec::new(),
            way,
            keys: Vec::new(),
            hash_keys: None,
            distinct: Vec::new(),
            calculated: Calculated::none(),
            reads: Vec::new(),
            outputs: Vec::new(),
            folds: Vec::new(),
            slots: 0,
        }
    }

    /// Returns true if it is in a plan template.
    pub(super) fn is_in_template(&self) -> bool {
        self.slots == 0 && self.hash_keys.is_none()
    }

    /// Returns the keys of groups that are found by hash.
    pub(super) fn hash_keys(&self) -> &HashKeys {
        self.hash_keys.as_ref().expect("aggregate_pushdown-2: a template is not executed")
    }

    /// Returns the number of workers that share all tasks.
    pub(super) fn workers(&self) -> usize {
        self.workers_for(self.source.selected.counts.rows, self.source.tasks.len())
    }

    /// Returns the number of workers that share so many tasks of so many rows.
    pub(super) fn workers_for(&self, rows: u64, tasks: usize) -> usize {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let keys = self.hash_keys.as_ref().map_or(self.keys.len(), HashKeys::count);
        let values = rows.saturating_mul(keys + self.reads.len() + 1);
        let useful = values.div_ceil(VALUES_PER_WORKER);
        self.source.bounds.threads.min(tasks).min(useful).max(1)
    }

    /// Returns true if slices of time can be read one after the other (`time_slices`): a bucket has
    /// a width, and no aggregate depends on the order of tasks.
    pub(super) fn fits_slices(&self) -> bool {
        let is_positioned = |output: &Output| matches!(output, Output::Positioned(..));
        let has_grid = self.keys.iter().any(|key| key.bucket_width(0).is_some());
        has_grid && !self.outputs.iter().any(is_positioned)
    }

    /// Returns the maximal bytes of the states of a worker, if groups are slots.
    pub(super) fn state_bytes(&self) -> usize {
        let carried = self.folds.iter().map(|&fold| Accumulator::carried_bytes(fold));
        self.slots * (self.slot_bytes() + carried.sum::<usize>())
    }

    /// Returns the bytes of the states of a group, without sums that were carried.
    pub(super) fn slot_bytes(&self) -> usize {
        slot_bytes(&self.folds)
    }
}

fn slot_bytes(folds: &[AggregateKind]) -> usize {
    folds.iter().fold(8, |bytes, fold| bytes + Accumulator::group_bytes(*fold))
}

/// Returns true if the slots are few enough (aggregate_pushdown-1), and they and their bitmaps pay
/// off for this number of rows.
fn is_worth(slots: usize, folds: &[AggregateKind], source: &ScanSource) -> bool {
    let rows = usize::try_from(source.selected.counts.rows).unwrap_or(usize::MAX);
    let bytes = slots.checked_mul(slot_bytes(folds));
    let words = folds.iter().map(|fold| match fold {
        AggregateKind::Distinct { words } => *words,
        _ => 0,
    });
    bytes.is_some_and(|bytes| bytes <= SLOT_BYTES_MAX)
        && slots <= SLOTS_FREE.max(rows / ROWS_PER_SLOT)
        && slots * words.sum::<usize>() <= WORDS_FREE.max(rows)
}

/// The input of an aggregate: a scan, or what projections make of its columns.
///
/// A projection computes expressions that rows are grouped by, such as the buckets of SAMPLE BY.
/// Here they become the keys themselves.
struct Input<'a> {
    source: &'a ScanSource,
    /// The projections, from the aggregate down.
    projections: Vec<&'a ProjectionExprs>,
}

impl Input<'_> {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Input<'_>> {
        let (mut plan, mut projections) = (plan, Vec::new());
        while let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            projections.push(projection.projection_expr());
            plan = projection.input();
        }
        let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
        Some(Input { source: source.downcast_ref::<ScanSource>()?, projections })
    }

    /// Returns an expression of the aggregate over the columns of the scan; `None` if it is large.
    fn over_scan(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let mut expr = Arc::clone(expr);
        for projection in &self.projections {
            if !is_small(&expr)? {
                return Ok(None);
            }
            expr = projection.unproject_expr(&expr)?;
        }
        Ok(Some(expr))
    }
}

fn is_small(expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let mut nodes = 0;
    expr.apply(|_| {
        nodes += 1;
        let is_small = nodes <= REPLACED_NODES;
        Ok(if is_small { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(nodes <= REPLACED_NODES)
}

/// A builder of the plan's reads and folds.
struct Builder<'a> {
    source: &'a ScanSource,
    columns: Vec<Column>,
    reads: Vec<Read>,
    folds: Vec<AggregateKind>,
    distinct: Vec<Distinct>,
    calculated: CalculatedBuilder,
    /// The FILTER of the aggregate that is planned.
    filter: Option<usize>,
}

/// An argument whose values are counted once each, and the fold of those that pass a FILTER.
struct Distinct {
    arg: Arc<dyn PhysicalExpr>,
    filter: Option<usize>,
    key: Key,
    fold: usize,
}

impl Builder<'_> {
    fn new(source: &ScanSource) -> Builder<'_> {
        Builder {
            source,
            columns: Vec::new(),
            reads: Vec::new(),
            folds: Vec::new(),
            distinct: Vec::new(),
            calculated: CalculatedBuilder::default(),
            filter: None,
        }
    }

    /// Returns the outputs of all aggregates; `None` if one of them has none.
    fn outputs(&mut self, spec: &AggregateSpec, way: Way) -> Result<Option<Vec<Output>>> {
        let mut outputs = Vec::new();
        for AggregateCall { function, arg, filter } in &spec.calls {
            self.filter = match filter {
                None => None,
                Some(filter) => match self.calculated.add(filter, self.source) {
                    Some(filter) => Some(filter),
                    None => return Ok(None),
                },
            };
            let output = match function.is_distinct() {
                true => self.distinct(function, arg, way)?,
                false => self.output(function, arg),
            };
            let Some(output) = output else { return Ok(None) };
            outputs.push(output);
        }
        for at in self.calculated.columns.clone() {
            self.column(at);
        }
        Ok(Some(outputs))
    }

    /// Returns the place of a column of the scan among those that are read.
    fn column(&mut self, at: usize) -> usize {
        let column = &self.source.read.snapshot.schema.columns()[self.source.read.output[at]];
        let known = self.columns.iter().position(|known| known.id == column.id);
        known.unwrap_or_else(|| {
            self.columns.push(column.clone());
            self.columns.len() - 1
        })
    }

    fn fold(&mut self, column: usize, how: How, fold: AggregateKind) -> usize {
        let number = self.folds.len();
        self.folds.push(fold);
        let filter = self.filter;
        let is_same =
            |read: &&mut Read| read.column == column && read.how == how && read.filter == filter;
        match self.reads.iter_mut().find(is_same) {
            Some(read) => read.folds.push(number),
            None => self.reads.push(Read { column, how, filter, folds: vec![number] }),
        }
        number
    }

    /// Returns the number of distinct values of `arg`, which is over the scan's columns; `None` for
    /// other aggregates, and if a bitmap of its values is too large.
    fn distinct(
        &mut self,
        aggregate: &AggregateFunctionExpr,
        arg: &Arc<dyn PhysicalExpr>,
        way: Way,
    ) -> Result<Option<Output>> {
        let is_count = aggregate.fun().name() == "count"
            && *aggregate.field().data_type() == DataType::Int64
            && !aggregate.is_reversed()
            && aggregate.order_bys().is_empty();
        if !is_count {
            return Ok(None);
        }
        let (source, filter) = (self.source, self.filter);
        let is_same = |known: &&Distinct| known.arg.eq(arg) && known.filter == filter;
        if let Some(known) = self.distinct.iter().find(is_same) {
            return Ok(Some(Output::Distinct(known.fold)));
        }
        let Some(key) = Key::of(arg, source, &mut |at| self.column(at))? else {
            return Ok(None);
        };
        let words = key.domain.div_ceil(64);
        let words_max = match way {
            Way::Slots => SLOT_BYTES_MAX / size_of::<u64>(),
            Way::Hash => HASH_WORDS_MAX,
        };
        if words_max < words {
            return Ok(None);
        }
        let how = How::Ids(self.distinct.len());
        let fold = self.fold(key.column, how, AggregateKind::Distinct { words });
        self.distinct.push(Distinct { arg: Arc::clone(arg), filter, key, fold });
        Ok(Some(Output::Distinct(fold)))
    }

    /// Returns the output of an aggregate of `arg`, which is over the scan's columns.
    fn output(
        &mut self,
        aggregate: &AggregateFunctionExpr,
        arg: &Arc<dyn PhysicalExpr>,
    ) -> Option<Output> {
        if aggregate.is_reversed() || !aggregate.order_bys().is_empty() {
            return None;
        }
        let name = aggregate.fun().name();
        if let ("count", Some(literal)) = (name, arg.downcast_ref::<Literal>()) {
            let is_counted = !literal.value().is_null();
            return is_counted.then(|| match self.filter {
                None => Output::Rows,
                Some(_) => Output::Count(self.fold(0, How::Rows, AggregateKind::Count)),
            });
        }
        match self.output_of_column(aggregate, arg) {
            Some(output) => Some(output),
            None => self.output_of_calculated(aggregate, arg),
        }
    }

    /// Returns the output of an aggregate of a column, or of the lengths of its texts.
    fn output_of_column(
        &mut self,
        aggregate: &AggregateFunctionExpr,
        arg: &Arc<dyn PhysicalExpr>,
    ) -> Option<Output> {
        let name = aggregate.fun().name();
        let (arg, cast) = uncast(arg);
        let result = aggregate.field().data_type().clone();
        if let Some((at, unit)) = length_of(arg) {
            return self.output_of_lengths(at, unit, name, cast.as_ref(), &result);
        }
        let at = arg.downcast_ref::<ColumnExpr>()?.index();
        let column = self.column(at);
        let ty = self.columns[column].ty;
        let physical = ty.physical();
        match name {
            "count" => Some(Output::Count(self.fold(column, How::Nulls, AggregateKind::Count))),
            "sum" => {
                let (how, fold) = summed(physical, cast.as_ref(), &result)?;
                Some(Output::Sum(self.fold(column, how, fold)))
            }
            "avg" if is_exact(physical, cast.as_ref()) => {
                let is_flipped = physical == Physical::Unsigned(8);
                let how = if is_flipped { How::Ordered } else { How::Integers };
                let fold = self.fold(column, how, AggregateKind::SumExact);
                Some(Output::ExactMean { fold, is_flipped })
            }
            "avg" if result == DataType::Float64 => {
                let (how, fold) = summed(physical, cast.as_ref(), &DataType::Float64)?;
                Some(Output::Mean(self.fold(column, how, fold)))
            }
            "min" | "max" if cast.is_none() && is_ordered(ty) => {
                let fold = if name == "min" { AggregateKind::Min } else { AggregateKind::Max };
                Some(Output::Bound(self.fold(column, How::Ordered, fold), ty))
            }
            "first_value" | "last_value" if cast.is_none() && is_ordered(ty) => {
                // Positions are those of tasks.
                let is_merged = |task: &ScanTask| matches!(task, ScanTask::Merge(_));
                if self.source.tasks.iter().any(is_merged) {
                    return None;
                }
                let ignores_nulls = aggregate.ignore_nulls();
                // Rows that a FILTER rejects are like NULL.
                if self.filter.is_some() && !ignores_nulls {
                    return None;
                }
                let fold = if name == "first_value" {
                    AggregateKind::First { ignores_nulls }
                } else {
                    AggregateKind::Last { ignores_nulls }
                };
                Some(Output::Positioned(self.fold(column, How::Ordered, fold), ty))
            }
            _ => None,
        }
    }

    /// Returns the output of an aggregate of an expression; `None` if it is not evaluated in the
    /// scan.
    fn output_of_calculated(
        &mut self,
        aggregate: &AggregateFunctionExpr,
        arg: &Arc<dyn PhysicalExpr>,
    ) -> Option<Output> {
        let ty = arg.data_type(&self.source.read.schema).ok()?;
        let is_float = ty == DataType::Float64;
        // Those of 64 bits without a sign are no integers of the same order.
        let is_integer = ty.is_integer() && ty != DataType::UInt64;
        let (name, result) = (aggregate.fun().name(), aggregate.field().data_type().clone());
        let kind = match name {
            "count" if is_float || is_integer || ty == DataType::Boolean => AggregateKind::Count,
            "sum" if ty == DataType::Int64 && result == ty => AggregateKind::SumIntegers,
            "avg" if is_integer && result == DataType::Float64 => AggregateKind::SumExact,
            "sum" | "avg" if is_float && result == ty => AggregateKind::SumFloats,
            "min" if (is_float || is_integer) && result == ty => AggregateKind::Min,
            "max" if (is_float || is_integer) && result == ty => AggregateKind::Max,
            _ => return None,
        };
        let expr = self.calculated.add(arg, self.source)?;
        let fold = self.fold(0, How::Calculated(expr), kind);
        Some(match name {
            "count" => Output::Count(fold),
            "sum" => Output::Sum(fold),
            "avg" if is_float => Output::Mean(fold),
            "avg" => Output::ExactMean { fold, is_flipped: false },
            _ if is_float => Output::Bound(fold, ColumnType::Float64),
            _ => Output::Bound(fold, ColumnType::Int64),
        })
    }

    /// Returns the output of an aggregate of the lengths of a column's texts.
    fn output_of_lengths(
        &mut self,
        at: usize,
        unit: LengthUnit,
        name: &str,
        cast: Option<&DataType>,
        result: &DataType,
    ) -> Option<Output> {
        let column = self.column(at);
        if self.columns[column].ty != ColumnType::Varchar {
            return None;
        }
        let how = How::Lengths(unit);
        // A length is an INT.
        let sum = || summed(Physical::Signed(4), cast, result).map(|(_, fold)| fold);
        match name {
            "count" => Some(Output::Count(self.fold(column, How::Nulls, AggregateKind::Count))),
            "sum" => Some(Output::Sum(self.fold(column, how, sum()?))),
            "avg" if is_exact(Physical::Signed(4), cast) => {
                let fold = self.fold(column, how, AggregateKind::SumExact);
                Some(Output::ExactMean { fold, is_flipped: false })
            }
            "avg" if *result == DataType::Float64 => {
                Some(Output::Mean(self.fold(column, how, sum()?)))
            }
            "min" | "max" if cast.is_none() && *result == DataType::Int32 => {
                let fold = if name == "min" { AggregateKind::Min } else { AggregateKind::Max };
                Some(Output::Bound(self.fold(column, how, fold), ColumnType::Int32))
            }
            _ => None,
        }
    }
}

/// Returns an expression without a cast, and the type it is cast to.
fn uncast(expr: &Arc<dyn PhysicalExpr>) -> (&Arc<dyn PhysicalExpr>, Option<DataType>) {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => (cast.expr(), Some(cast.cast_type().clone())),
        None => (expr, None),
    }
}

/// Returns the column and the unit of the length of a column's texts.
fn length_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, LengthUnit)> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let unit = match call.fun().name() {
        "character_length" => LengthUnit::Characters,
        "octet_length" => LengthUnit::Bytes,
        _ => return None,
    };
    let [text] = call.args() else { return None };
    Some((text.downcast_ref::<ColumnExpr>()?.index(), unit))
}

/// Returns true if values are integers, and a cast leaves them as they are.
fn is_exact(physical: Physical, cast: Option<&DataType>) -> bool {
    let is_integer = matches!(physical, Physical::Signed(_) | Physical::Unsigned(_));
    match (physical, cast) {
        (_, None) => is_integer,
        (Physical::Signed(_) | Physical::Unsigned(1 | 2 | 4), Some(DataType::Int64))
        | (Physical::Unsigned(_), Some(DataType::UInt64)) => true,
        _ => false,
    }
}

/// Returns the way to sum numbers to this type, if no value changes by it.
fn summed(
    physical: Physical,
    cast: Option<&DataType>,
    to: &DataType,
) -> Option<(How, AggregateKind)> {
    let is_float = matches!(physical, Physical::Float32 | Physical::Float64);
    let is_integer = matches!(physical, Physical::Signed(_) | Physical::Unsigned(_));
    let fits = match cast {
        None => true,
        Some(DataType::Float64) => is_float || is_integer,
        Some(_) => is_exact(physical, cast),
    };
    match to {
        DataType::Float64 if fits && (is_float || cast.is_some()) => {
            Some((How::Floats, AggregateKind::SumFloats))
        }
        DataType::Int64 | DataType::UInt64 if fits && is_integer => {
            Some((How::Integers, AggregateKind::SumIntegers))
        }
        _ => None,
    }
}

/// Returns true if values can be read in the order of integers, and converted back.
fn is_ordered(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64
        | ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Timestamp(_)
        | ColumnType::Date => true,
        ColumnType::Boolean
        | ColumnType::Decimal { .. }
        | ColumnType::Symbol
        | ColumnType::Varchar
        | ColumnType::Binary
        | ColumnType::Uuid
        | ColumnType::Ipv4 => false,
    }
}
