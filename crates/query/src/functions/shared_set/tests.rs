//! Tests that compare the counts of groups with a set of pairs.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray, StringViewArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalUnit, Schema, TimeUnit,
};
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::shared_count;

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).expect("it is below")
    }
}

/// A value, as a small number; `None` is NULL.
type Value = Option<i64>;

fn text(value: i64) -> String {
    match value % 2 {
        0 => format!("{value}"),
        _ => format!("a text that is too long for a view: {value}"),
    }
}

fn doubles(values: &[Value]) -> Float64Array {
    let double = |value: i64| match value {
        0 => f64::NAN,
        1 => 0.0,
        2 => f64::NEG_INFINITY,
        value => f64::from(i32::try_from(value).unwrap()) * 0.3,
    };
    values.iter().map(|value| value.map(double)).collect()
}

fn texts(values: &[Value]) -> StringArray {
    values.iter().map(|value| value.map(text)).collect()
}

fn types() -> Vec<DataType> {
    vec![
        DataType::Utf8,
        DataType::Utf8View,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::BinaryView,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(20, 3),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Date64,
        DataType::FixedSizeBinary(16),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::new_list(DataType::Int64, true),
    ]
}

/// Returns a column of a type: different numbers are different values.
fn column(ty: &DataType, values: &[Value]) -> ArrayRef {
    match ty {
        DataType::Utf8View => {
            Arc::new(values.iter().map(|value| value.map(text)).collect::<StringViewArray>())
        }
        DataType::BinaryView => {
            Arc::new(values.iter().map(|value| value.map(text)).collect::<BinaryViewArray>())
        }
        DataType::Utf8 | DataType::Dictionary(..) => cast(&texts(values), ty).unwrap(),
        DataType::Float32 | DataType::Float64 => cast(&doubles(values), ty).unwrap(),
        DataType::Decimal128(precision, scale) => {
            let decimals = values.iter().map(|value| value.map(i128::from));
            let decimals = decimals.collect::<Decimal128Array>();
            Arc::new(decimals.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::FixedSizeBinary(width) => {
            let bytes = values.iter().map(|value| value.map(|it| i128::from(it).to_be_bytes()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, *width).unwrap())
        }
        DataType::Interval(_) => {
            let interval = |it: i64| IntervalMonthDayNano::new(1, 2, it);
            let intervals = values.iter().map(|value| value.map(interval));
            Arc::new(intervals.collect::<IntervalMonthDayNanoArray>())
        }
        DataType::List(_) => {
            let lists = values.iter().map(|value| value.map(|it| vec![Some(it), None]));
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
        }
        ty => cast(&Int64Array::from(values.to_vec()), ty).unwrap(),
    }
}

/// The call `count(DISTINCT value)`.
struct Call {
    schema: Schema,
    fields: Vec<FieldRef>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
}

impl Call {
    fn of(ty: &DataType) -> Call {
        let schema = Schema::new(vec![Field::new("value", ty.clone(), true)]);
        let fields = schema.fields().iter().cloned().collect();
        Call { schema, fields, exprs: vec![Arc::new(Column::new("value", 0))] }
    }

    fn args(&self) -> AccumulatorArgs<'_> {
        AccumulatorArgs {
            return_field: Arc::new(Field::new("count", DataType::Int64, false)),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: "count",
            is_distinct: true,
            exprs: &self.exprs,
            expr_fields: &self.fields,
        }
    }

    fn accumulator(&self, function: &AggregateUDF) -> Box<dyn GroupsAccumulator> {
        assert!(function.groups_accumulator_supported(self.args()), "shared_set-1");
        function.create_groups_accumulator(self.args()).unwrap()
    }
}

/// Rows for an accumulator, and what they add to the model.
struct Rows {
    values: ArrayRef,
    groups: Vec<usize>,
    filter: Option<BooleanArray>,
    pairs: Vec<(usize, i64)>,
}

fn rows(ty: &DataType, random: &mut Random, total: usize) -> Rows {
    let count = random.below(40);
    let value = |random: &mut Random| match random.below(12) {
        0 => None,
        _ => Some(i64::try_from(random.below(9)).unwrap()),
    };
    let values = (0..count).map(|_| value(random)).collect::<Vec<_>>();
    let groups = (0..count).map(|_| random.below(total)).collect::<Vec<_>>();
    let flags = (0..count).map(|_| [None, Some(false), Some(true), Some(true)][random.below(4)]);
    let flags = flags.collect::<Vec<_>>();
    let filter = (random.below(2) == 0).then(|| BooleanArray::from(flags));
    let is_kept = |row: usize| filter.as_ref().is_none_or(|it| it.is_valid(row) && it.value(row));
    let pair = |row: usize| values[row].filter(|_| is_kept(row)).map(|it| (groups[row], it));
    let pairs = (0..count).filter_map(pair).collect();
    Rows { values: column(ty, &values), groups, filter, pairs }
}

fn counts(model: &BTreeSet<(usize, i64)>, groups: usize) -> Vec<i64> {
    let count = |group| model.iter().filter(|pair| pair.0 == group).count();
    (0..groups).map(|group| i64::try_from(count(group)).unwrap()).collect()
}

fn integers(counts: &ArrayRef) -> Vec<i64> {
    counts.as_primitive::<Int64Type>().values().to_vec()
}

fn check_counts(ty: &DataType, seed: u64) {
    let function = shared_count(&count_udaf()).expect("it is count");
    let call = Call::of(ty);
    let mut random = Random(seed);
    let mut accumulator = call.accumulator(&function);
    let (mut model, mut total) = (BTreeSet::new(), 1);
    for _ in 0..20 {
        total += random.below(5);
        let Rows { values, groups, filter, pairs } = rows(ty, &mut random, total);
        accumulator.update_batch(&[values], &groups, filter.as_ref(), total).unwrap();
        model.extend(pairs);
        // Some of the groups leave, maybe in two parts.
        for _ in 0..random.below(3) {
            let first = random.below(total);
            let left = accumulator.evaluate(EmitTo::First(first)).unwrap();
            assert_eq!(integers(&left), counts(&model, first), "{ty}, seed {seed}");
            let stays = model.iter().filter(|pair| first <= pair.0);
            model = stays.map(|pair| (pair.0 - first, pair.1)).collect();
            total -= first;
        }
    }
    let left = accumulator.evaluate(EmitTo::All).unwrap();
    assert_eq!(integers(&left), counts(&model, total), "{ty}, seed {seed}");
}

#[test]
fn counts_are_those_of_sets() {
    for ty in types() {
        (0..10).for_each(|seed| check_counts(&ty, seed));
    }
}

fn check_states(ty: &DataType, seed: u64) {
    let function = shared_count(&count_udaf()).expect("it is count");
    let call = Call::of(ty);
    let mut random = Random(seed);
    let total = 1 + random.below(9);
    let mut model = BTreeSet::new();
    let mut last = call.accumulator(&function);
    // DataFusion's accumulators of single groups.
    let theirs = count_udaf();
    let mut alone =
        (0..total).map(|_| theirs.accumulator(call.args()).unwrap()).collect::<Vec<_>>();
    let fields = StateFieldsArgs {
        name: "count",
        input_fields: &call.fields,
        return_field: Arc::new(Field::new("count", DataType::Int64, false)),
        ordering_fields: &[],
        is_distinct: true,
    };
    let state_type = function.state_fields(fields).unwrap()[0].data_type().clone();
    let mut merge = |states: &[ArrayRef], groups: &[usize]| {
        assert_eq!(*states[0].data_type(), state_type, "shared_set-2");
        assert_eq!((states[0].len(), states[0].null_count()), (groups.len(), 0), "shared_set-2");
        last.merge_batch(states, groups, total).unwrap();
        for (row, group) in groups.iter().enumerate() {
            alone[*group].merge_batch(&[states[0].slice(row, 1)]).unwrap();
        }
    };
    for _ in 0..3 {
        let mut partial = call.accumulator(&function);
        for _ in 0..3 {
            let Rows { values, groups, filter, pairs } = rows(ty, &mut random, total);
            model.extend(pairs);
            if random.below(4) == 0 {
                let states = partial.convert_to_state(&[values], filter.as_ref()).unwrap();
                merge(&states, &groups);
            } else {
                partial.update_batch(&[values], &groups, filter.as_ref(), total).unwrap();
            }
        }
        // A partial accumulator without rows knows of no groups.
        partial.update_batch(&[column(ty, &[])], &[], None, total).unwrap();
        let first = random.below(total);
        let states = partial.state(EmitTo::First(first)).unwrap();
        merge(&states, &(0..first).collect::<Vec<_>>());
        let states = partial.state(EmitTo::All).unwrap();
        merge(&states, &(first..total).collect::<Vec<_>>());
    }
    let expected = counts(&model, total);
    let count = last.evaluate(EmitTo::All).unwrap();
    assert_eq!(integers(&count), expected, "{ty}, seed {seed}");
    let alone = alone.iter_mut().map(|it| it.evaluate().unwrap()).collect::<Vec<_>>();
    let expected = expected.into_iter().map(|it| ScalarValue::Int64(Some(it))).collect::<Vec<_>>();
    assert_eq!(alone, expected, "shared_set-2: {ty}, seed {seed}");
}

#[test]
fn states_are_those_of_datafusion() {
    for ty in types() {
        (0..10).for_each(|seed| check_states(&ty, seed));
    }
}

// A count of distinct texts in 20,000 groups took 35 to 50 KB for each group, of which only a small
// part was counted: a server with a limit of 512 MiB grew to 1.5 GB.
#[test]
fn many_groups_take_the_memory_of_their_values() {
    let function = shared_count(&count_udaf()).expect("it is count");
    for ty in types() {
        let call = Call::of(&ty);
        let mut accumulator = call.accumulator(&function);
        let all = (0..20_000_usize).collect::<Vec<_>>();
        for groups in all.chunks(8_192) {
            let value = |group: &usize| i64::try_from(group % 1_000).ok();
            let values = column(&ty, &groups.iter().map(value).collect::<Vec<_>>());
            let total = groups.last().unwrap() + 1;
            accumulator.update_batch(&[values], groups, None, total).unwrap();
        }
        let bytes = accumulator.size();
        let (least, most) = (20_000 * size_of::<u64>(), 16 << 20);
        assert!((least..most).contains(&bytes), "shared_set-1: {bytes}");
        assert_eq!(integers(&accumulator.evaluate(EmitTo::All).unwrap()), vec![1; 20_000]);
        assert!(accumulator.size() < 1 << 20, "shared_set-1: the memory is free");
    }
}
