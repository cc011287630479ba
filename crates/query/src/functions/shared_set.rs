//! `count(DISTINCT x)` of many groups: one set of pairs of a group and a value.
//!
//! - shared_set-1. The memory is that of the distinct values, whatever the number of groups is, and
//!   is counted as it grows. DataFusion's own function has an accumulator for each group: one of
//!   texts has a hash table of 32 KiB, which it does not count.
//! - shared_set-2. States are those of DataFusion's function, a list of the values of each group:
//!   its accumulator of a single group can read them.
//! - shared_set-3. Rows and lists are in such a set without GROUP BY, too: DataFusion's accumulator
//!   keeps each as a part of its batch, and counts the whole batch for each.
//! - Values are equal as in GROUP BY. NULL is no value.
//! - Groups that leave one part after the other, without new rows in between, are sorted once.
//!
//! Not here: integers, for which DataFusion's function has such a set, and plans with only one
//! DISTINCT, which the optimizer makes a group of groups.

use std::fmt;
use std::iter::repeat_n;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{and, cast, filter, is_not_null, prep_null_mask_filter, take};
use datafusion::arrow::datatypes::{
    ArrowNativeType, DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type,
};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

/// Returns our function in place of DataFusion's `count`, for calls with DISTINCT.
pub(crate) fn shared_count(inner: &Arc<AggregateUDF>) -> Option<Arc<AggregateUDF>> {
    let is_ours = inner.inner().downcast_ref::<SharedCount>().is_some();
    if is_ours || inner.name() != "count" {
        return None;
    }
    let inner = Arc::clone(inner);
    Some(Arc::new(AggregateUDF::new_from_impl(SharedCount { inner })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SharedCount {
    /// The function of DataFusion.
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for SharedCount {
    delegate! { inner:
        fn name(&self) -> &str;
        fn aliases(&self) -> &[String];
        fn signature(&self) -> &Signature;
        fn return_type(&self, args: &[DataType]) -> Result<DataType>;
        fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef>;
        fn is_nullable(&self) -> bool;
        fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>>;
        fn create_sliding_accumulator(
            &self,
            args: AccumulatorArgs<'_>,
        ) -> Result<Box<dyn Accumulator>>;
        fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
        fn order_sensitivity(&self) -> AggregateOrderSensitivity;
        fn simplify(&self) -> Option<AggregateFunctionSimplification>;
        fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue>;
        fn default_value(&self, ty: &DataType) -> Result<ScalarValue>;
    }

    /// shared_set-3.
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match set_type(&args).filter(DataType::is_nested) {
            Some(ty) => Ok(Box::new(OneGroup::new(ty)?)),
            None => self.inner.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        set_type(&args).is_some() || self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match set_type(&args) {
            Some(ty) => Ok(Box::new(SharedSet::new(ty)?)),
            None => self.inner.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(ty)
    }
}

/// Returns the type of the values of a set; `None` if the call has none.
fn set_type(args: &AccumulatorArgs<'_>) -> Option<DataType> {
    let ([_], [field]) = (args.exprs, args.expr_fields) else { return None };
    if !args.is_distinct || field.data_type().is_integer() {
        return None;
    }
    let ty = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        ty => ty,
    };
    let is_kept = match ty {
        DataType::Null | DataType::Dictionary(..) | DataType::RunEndEncoded(..) => false,
        DataType::Map(..) | DataType::Union(..) => false,
        ty => RowConverter::supports_fields(&[SortField::new(ty.clone())]),
    };
    is_kept.then(|| ty.clone())
}

/// The accumulator of the counts of groups (shared_set-1).
struct SharedSet {
    /// The type of the values.
    ty: DataType,
    /// The columns of `pairs`: the number of a group, and a value.
    schema: SchemaRef,
    pairs: Box<dyn GroupValues>,
    /// The numbers that the pairs of a batch have: memory that the next batch uses again.
    numbers: Vec<usize>,
    /// The number of groups that have not left.
    groups: usize,
    /// All pairs, if groups have left since the last rows came; `pairs` is empty then.
    leaving: Option<Sorted>,
}

/// Pairs without an order, and the number of the values of each group.
struct Pairs {
    lengths: Vec<usize>,
    groups: ArrayRef,
    values: ArrayRef,
}

/// The values of groups, group by group.
struct Sorted {
    /// The number of the values of each group.
    lengths: Vec<usize>,
    values: ArrayRef,
    /// The first group that has not left.
    group: usize,
    /// Its first value.
    value: usize,
}

impl fmt::Debug for SharedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSet").field("ty", &self.ty).finish_non_exhaustive()
    }
}

fn empty_pairs(schema: &SchemaRef) -> Result<Box<dyn GroupValues>> {
    new_group_values(Arc::clone(schema), &GroupOrdering::None)
}

fn index(group: u64) -> usize {
    usize::try_from(group).expect("groups are numbered in memory")
}

impl SharedSet {
    fn new(ty: DataType) -> Result<SharedSet> {
        let group = Field::new("group", DataType::UInt64, false);
        let schema = Arc::new(Schema::new(vec![group, Field::new("value", ty.clone(), true)]));
        let pairs = empty_pairs(&schema)?;
        Ok(SharedSet { ty, schema, pairs, numbers: Vec::new(), groups: 0, leaving: None })
    }

    /// Returns values of the set's type.
    fn plain(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match *values.data_type() == self.ty {
            true => Ok(Arc::clone(values)),
            false => Ok(cast(values, &self.ty)?),
        }
    }

    /// Adds a value for each group of `groups`, except for NULL and rows that the filter leaves
    /// out.
    fn add(
        &mut self,
        groups: UInt64Array,
        values: &ArrayRef,
        opt_filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = self.plain(values)?;
        let mut columns: [ArrayRef; 2] = [Arc::new(groups), values];
        if let Some(kept) = kept(&columns[1], opt_filter)? {
            columns = [filter(&columns[0], &kept)?, filter(&columns[1], &kept)?];
        }
        if columns[1].is_empty() {
            return Ok(());
        }
        self.stay()?;
        self.pairs.intern(&columns, &mut self.numbers)
    }

    /// Takes the pairs of groups that have not left back into the set.
    fn stay(&mut self) -> Result<()> {
        let Some(sorted) = self.leaving.take() else { return Ok(()) };
        assert!(self.pairs.is_empty(), "a pair is in one of the two places");
        let lengths = sorted.lengths[sorted.group..].iter().enumerate();
        let groups = lengths.flat_map(|(group, length)| repeat_n(group as u64, *length));
        let groups: ArrayRef = Arc::new(UInt64Array::from_iter_values(groups));
        let values = sorted.values.slice(sorted.value, groups.len());
        match values.is_empty() {
            true => Ok(()),
            false => self.pairs.intern(&[groups, values], &mut self.numbers),
        }
    }

    /// Takes all pairs out of the set.
    fn drain(&mut self) -> Result<Pairs> {
        let mut lengths = vec![0; self.groups];
        self.numbers = Vec::new();
        if self.pairs.is_empty() {
            let groups = new_empty_array(&DataType::UInt64);
            return Ok(Pairs { lengths, groups, values: new_empty_array(&self.ty) });
        }
        // A new set: the old one would keep the memory of its hash table.
        let mut pairs = std::mem::replace(&mut self.pairs, empty_pairs(&self.schema)?);
        let mut columns = pairs.emit(EmitTo::All)?;
        let (Some(values), Some(groups)) = (columns.pop(), columns.pop()) else {
            return internal_err!("a pair is a group and a value");
        };
        for &group in groups.as_primitive::<UInt64Type>().values().iter() {
            lengths[index(group)] += 1;
        }
        Ok(Pairs { lengths, groups, values })
    }

    /// Takes the first groups: the number of the values of each, and the values.
    fn take(&mut self, emit_to: EmitTo) -> Result<(Vec<usize>, ArrayRef)> {
        let mut sorted = match self.leaving.take() {
            Some(sorted) => sorted,
            None => self.drain()?.sorted()?,
        };
        let count = match emit_to {
            EmitTo::All => self.groups,
            EmitTo::First(count) => count,
        };
        // Groups without a value may have come since.
        sorted.lengths.resize(sorted.group + self.groups, 0);
        let lengths = sorted.lengths[sorted.group..][..count].to_vec();
        let length = lengths.iter().sum::<usize>();
        let values = sorted.values.slice(sorted.value, length);
        sorted.group += count;
        sorted.value += length;
        self.groups -= count;
        self.leaving = (0 < self.groups).then_some(sorted);
        Ok((lengths, values))
    }

    /// Returns states: a list for each length (shared_set-2).
    fn lists(&self, lengths: Vec<usize>, values: ArrayRef) -> Result<Vec<ArrayRef>> {
        if i32::try_from(values.len()).is_err() {
            return exec_err!("count(DISTINCT) has too many values in one batch of groups");
        }
        let element = Arc::new(Field::new_list_field(self.ty.clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(vec![Arc::new(ListArray::try_new(element, offsets, values, None)?)])
    }
}

impl Pairs {
    fn sorted(self) -> Result<Sorted> {
        let Pairs { lengths, groups, values } = self;
        let mut end = 0_usize;
        let start = |length: &usize| {
            end += length;
            end - length
        };
        let mut places = lengths.iter().map(start).collect::<Vec<_>>();
        let mut order = vec![0_u64; values.len()];
        for (row, &group) in groups.as_primitive::<UInt64Type>().values().iter().enumerate() {
            let place = &mut places[index(group)];
            order[*place] = row as u64;
            *place += 1;
        }
        let values = take(&values, &UInt64Array::from(order), None)?;
        Ok(Sorted { lengths, values, group: 0, value: 0 })
    }
}

impl Sorted {
    fn size(&self) -> usize {
        self.lengths.capacity() * size_of::<usize>() + self.values.get_array_memory_size()
    }
}

/// Returns the rows that have a value and pass the filter; `None` for all rows.
fn kept(values: &ArrayRef, opt_filter: Option<&BooleanArray>) -> Result<Option<BooleanArray>> {
    let chosen = opt_filter.map(|it| match it.null_count() {
        0 => it.clone(),
        _ => prep_null_mask_filter(it),
    });
    if values.logical_null_count() == 0 {
        return Ok(chosen);
    }
    let valid = is_not_null(values)?;
    Ok(Some(match chosen {
        Some(chosen) => and(&valid, &chosen)?,
        None => valid,
    }))
}

fn counts(lengths: &[usize]) -> ArrayRef {
    let count = |length: &usize| i64::try_from(*length).unwrap_or(i64::MAX);
    Arc::new(Int64Array::from_iter_values(lengths.iter().map(count)))
}

impl GroupsAccumulator for SharedSet {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.groups = total_num_groups;
        let groups = group_indices.iter().map(|group| *group as u64);
        self.add(UInt64Array::from_iter_values(groups), &values[0], opt_filter)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.groups = total_num_groups;
        let lists = values[0].as_list::<i32>();
        if lists.null_count() > 0 {
            return internal_err!("a state of count(DISTINCT) is a list");
        }
        let lengths = group_indices.iter().zip(lists.offsets().lengths());
        let groups = lengths.flat_map(|(group, length)| repeat_n(*group as u64, length));
        let groups = UInt64Array::from_iter_values(groups);
        let start = lists.value_offsets()[0].as_usize();
        let values = lists.values().slice(start, groups.len());
        self.add(groups, &values, None)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (lengths, values) = self.take(emit_to)?;
        self.lists(lengths, values)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = self.plain(&values[0])?;
        match kept(&values, opt_filter)? {
            Some(kept) => {
                let lengths = kept.values().iter().map(usize::from).collect();
                self.lists(lengths, filter(&values, &kept)?)
            }
            None => self.lists(vec![1; values.len()], values),
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        if emit_to == EmitTo::All && self.leaving.is_none() {
            let lengths = self.drain()?.lengths;
            self.groups = 0;
            return Ok(counts(&lengths));
        }
        Ok(counts(&self.take(emit_to)?.0))
    }

    fn size(&self) -> usize {
        size_of::<SharedSet>()
            + self.pairs.size()
            + self.numbers.capacity() * size_of::<usize>()
            + self.leaving.as_ref().map_or(0, Sorted::size)
    }
}

/// The accumulator of a count without groups (shared_set-3).
#[derive(Debug)]
struct OneGroup {
    /// Behind a lock only because accumulators are shared among threads by their type.
    set: Mutex<SharedSet>,
    /// The group of each row.
    zeros: Vec<usize>,
}

impl OneGroup {
    fn new(ty: DataType) -> Result<OneGroup> {
        Ok(OneGroup { set: Mutex::new(SharedSet::new(ty)?), zeros: Vec::new() })
    }

    /// Returns the set, and the group of each of so many rows.
    fn set(&mut self, rows: usize) -> (&mut SharedSet, &[usize]) {
        self.zeros.clear();
        self.zeros.resize(rows, 0);
        let set = self.set.get_mut().unwrap_or_else(PoisonError::into_inner);
        set.groups = 1;
        (set, &self.zeros)
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (set, groups) = self.set(values[0].len());
        set.update_batch(values, groups, None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (set, groups) = self.set(states[0].len());
        set.merge_batch(states, groups, 1)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let lists = self.set(0).0.state(EmitTo::All)?;
        lists.iter().map(|list| ScalarValue::try_from_array(list, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.set(0).0.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.size() + self.zeros.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests;
