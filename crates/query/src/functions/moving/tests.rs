//! Tests that compare moving frames with DataFusion's functions over the rows of each frame alone.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};

use super::moving;

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(bound)).expect("it is below")
    }

    fn place(&mut self, bound: u32) -> usize {
        usize::try_from(self.below(bound)).expect("it is small")
    }

    /// Returns a value, which is NaN, infinite or very large now and then.
    fn value(&mut self) -> Option<f64> {
        Some(match self.below(40) {
            0 => return None,
            1 => f64::NAN,
            2 => f64::INFINITY,
            3 => f64::NEG_INFINITY,
            4 => 1e300,
            5 => -1e17,
            6..20 => 5.3,
            n => f64::from(n) * 0.1 - 2.5,
        })
    }
}

fn accumulator(function: &AggregateUDF, args: usize, sliding: bool) -> Box<dyn Accumulator> {
    let field = |name| Field::new(name, DataType::Float64, true);
    let schema =
        Schema::new(["a", "b"][..args].iter().map(|name| field(*name)).collect::<Vec<_>>());
    let fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    let args = AccumulatorArgs {
        return_field: Arc::new(field("value")),
        schema: &schema,
        ignore_nulls: false,
        order_bys: &[],
        is_reversed: false,
        name: "value",
        is_distinct: false,
        exprs: &[],
        expr_fields: &fields,
    };
    match sliding {
        true => function.create_sliding_accumulator(args).unwrap(),
        false => function.accumulator(args).unwrap(),
    }
}

fn array(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

/// Compares a value of a moving frame with that of its rows alone, except for rounding.
#[track_caller]
fn check(name: &str, frame: &[Vec<Option<f64>>], moved: &ScalarValue, alone: &ScalarValue) {
    let (ScalarValue::Float64(moved), ScalarValue::Float64(alone)) = (moved, alone) else {
        panic!("moving-1: {name} gives doubles");
    };
    let largest = frame.iter().flatten().flatten().fold(1.0_f64, |size, x| size.max(x.abs()));
    // DataFusion returns 0 for any one value; PostgreSQL returns NaN.
    let is_one = frame.len() == 1 && frame[0].iter().flatten().count() == 1;
    let is_spoiled = frame.iter().flatten().flatten().any(|x| !x.is_finite());
    let is_same = match (moved, alone) {
        (None, None) => true,
        (Some(moved), Some(_)) if is_one && is_spoiled && name.ends_with("_pop") => moved.is_nan(),
        (Some(moved), Some(alone)) => {
            let is_square = name.starts_with("var") || name.starts_with("cov");
            let is_square = is_square || name.starts_with("regr_s");
            let size = if is_square { largest * largest } else { largest };
            moved == alone
                || moved.is_nan() && alone.is_nan()
                || (moved - alone).abs() <= size * 1e-9
                // The sum of squares exceeds every double.
                || !alone.is_finite() && !moved.is_finite()
        }
        _ => false,
    };
    assert!(is_same, "moving-1: {name} of {frame:?} is {moved:?}, alone {alone:?}");
}

#[test]
fn a_moving_frame_is_as_its_rows_alone() {
    let functions = all_default_aggregate_functions();
    let of_one = ["sum", "avg", "var", "var_pop", "stddev", "stddev_pop"];
    let of_two = ["covar_samp", "covar_pop", "corr", "regr_avgx", "regr_sxx", "regr_sxy"];
    let all = of_one.iter().map(|name| (*name, 1)).chain(of_two.iter().map(|name| (*name, 2)));
    for (name, args) in all {
        let named = |it: &&Arc<AggregateUDF>| it.name() == name;
        let inner = functions.iter().find(named).unwrap_or_else(|| panic!("there is no {name}"));
        let function = moving(inner).expect("it moves");
        for seed in 0..20 {
            let mut random = Random(seed);
            let rows = 120;
            let values = (0..args).map(|_| (0..rows).map(|_| random.value()).collect::<Vec<_>>());
            let values = values.collect::<Vec<_>>();
            let mut frame = accumulator(&function, args, true);
            let (mut start, mut end) = (0, 0);
            while end < rows {
                let last = (end + 1 + random.place(3)).min(rows);
                let first = (start + random.place(4)).min(last);
                let slice = |from: usize, to: usize| {
                    values.iter().map(|column| array(&column[from..to])).collect::<Vec<_>>()
                };
                frame.update_batch(&slice(end, last)).unwrap();
                frame.retract_batch(&slice(start, first)).unwrap();
                (start, end) = (first, last);
                let mut alone = accumulator(inner, args, false);
                alone.update_batch(&slice(start, end)).unwrap();
                let rows = values.iter().map(|it| it[start..end].to_vec()).collect::<Vec<_>>();
                let (moved, alone) = (frame.evaluate().unwrap(), alone.evaluate().unwrap());
                check(name, &rows, &moved, &alone);
            }
        }
    }
}

#[test]
fn frames_of_the_same_values_have_the_same_sum() {
    let functions = all_default_aggregate_functions();
    let sum = functions.iter().find(|it| it.name() == "sum").unwrap();
    let mut frame = accumulator(&moving(sum).unwrap(), 1, true);
    let row = [array(&[Some(0.1)])];
    (0..10).for_each(|_| frame.update_batch(&row).unwrap());
    for _ in 0..50 {
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(Some(1.0)));
        frame.update_batch(&row).unwrap();
        frame.retract_batch(&row).unwrap();
    }
    assert!(frame.retract_batch(&[array(&[Some(0.1); 11])]).is_err(), "moving-2");
}
