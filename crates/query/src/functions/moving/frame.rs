//! A queue of rows with the total of its values, and the sum of doubles as such a total.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

/// A total of values that can be joined with that of the rows behind them.
pub(crate) trait Total: Copy + Default {
    /// A value of a row.
    type Value: Copy;

    /// Returns the total of one value.
    fn of(value: Self::Value) -> Self;

    /// Returns the total of two totals, of which this one is of the rows before.
    fn joined(self, after: Self) -> Self;
}

/// The rows of a frame, in two parts. For each of the oldest rows, the front has the total of
/// it and the ones behind it in the front, the first row last; the back has the values of the other
/// rows, and their total.
#[derive(Debug)]
pub(crate) struct Frame<T: Total> {
    front: Vec<T>,
    values: Vec<T::Value>,
    back: T,
}

impl<T: Total> Frame<T> {
    pub(super) fn new() -> Frame<T> {
        Frame { front: Vec::new(), values: Vec::new(), back: T::default() }
    }

    pub(super) fn push(&mut self, value: T::Value) {
        self.values.push(value);
        self.back = self.back.joined(T::of(value));
    }

    /// Removes the first row; returns false if there is none.
    pub(super) fn pop(&mut self) -> bool {
        if self.front.is_empty() {
            let mut total = T::default();
            for value in self.values.drain(..).rev() {
                total = T::of(value).joined(total);
                self.front.push(total);
            }
            self.back = T::default();
        }
        self.front.pop().is_some()
    }

    pub(super) fn total(&self) -> T {
        match self.front.last() {
            Some(front) => front.joined(self.back),
            None => self.back,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.front.capacity() * size_of::<T>() + self.values.capacity() * size_of::<T::Value>()
    }
}

/// A sum of doubles.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    sum: f64,
    /// The part of the sum that rounding has lost.
    lost: f64,
    count: u64,
}

impl Total for Sum {
    type Value = f64;

    fn of(value: f64) -> Sum {
        Sum { sum: value, lost: 0.0, count: 1 }
    }

    fn joined(self, after: Sum) -> Sum {
        let sum = self.sum + after.sum;
        // Knuth's two-sum: the rounding error of each operand.
        let second = sum - self.sum;
        let lost = (self.sum - (sum - second)) + (after.sum - second);
        Sum { sum, lost: self.lost + after.lost + lost, count: self.count + after.count }
    }
}

impl Sum {
    fn value(self) -> f64 {
        // The rounding error of infinities is NaN.
        if self.sum.is_finite() && self.lost.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// The function of a moving frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameFunction {
    Total,
    Average,
}

/// `sum` or `avg` of a moving frame.
#[derive(Debug)]
pub(crate) struct MovingSum {
    frame: Frame<Sum>,
    function: FrameFunction,
}

impl MovingSum {
    pub(super) fn total() -> MovingSum {
        MovingSum { frame: Frame::new(), function: FrameFunction::Total }
    }

    pub(super) fn average() -> MovingSum {
        MovingSum { frame: Frame::new(), function: FrameFunction::Average }
    }
}

impl Accumulator for MovingSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.frame.push(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let count = values[0].len() - values[0].null_count();
        if (0..count).all(|_| self.frame.pop()) {
            return Ok(());
        }
        internal_err!("moving-2: a row leaves a frame that it has not come into")
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = self.frame.total();
        let value = match self.function {
            FrameFunction::Total => total.value(),
            FrameFunction::Average => total.value() / total.count as f64,
        };
        Ok(ScalarValue::Float64((total.count > 0).then_some(value)))
    }

    fn size(&self) -> usize {
        size_of::<MovingSum>() + self.frame.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a moving frame is not merged")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a moving frame is not merged")
    }
}
