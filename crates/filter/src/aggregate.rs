//! Aggregates over page frames: count, sum, min, max, first and last by slot, without arrays.
//!
//! ```text
//! ColumnSlice --ZoneValues--> values of one zone --Accumulator--> one state a slot
//! ```
//!
//! A slot is a group; the caller numbers the groups densely. A zone is the number of rows whose
//! values stay in the nearest cache. `merge` joins the states of several workers.
//!
//! - A1. Sums of integers wrap. Sums of floats are taken in lanes, so their last digits depend on
//!   how the rows were divided into batches.
//! - A2. NULL is not counted, except by `First` and `Last` without `ignores_nulls`.
//! - A3. `First` and `Last` go by positions, which are unique and ascend with the rows of the
//!   table: the result does not depend on which worker saw which rows.
//!
//! Not here: the selection of rows (`evaluate`), the group that a slot stands for (`query`).

mod values;

pub use values::{ZoneRows, ZoneValues, float_of_key, key_of_float};

/// Lanes in which sums of floats are taken.
const LANES: usize = 8;

/// The aggregate function of the values of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// The number of values.
    Count,
    /// The sum of integers.
    SumIntegers,
    /// The sum of floats.
    SumFloats,
    /// The minimum of integers.
    Min,
    /// The maximum of integers.
    Max,
    /// The value of the first row.
    First {
        /// True if rows without a value are skipped.
        ignores_nulls: bool,
    },
    /// The value of the last row.
    Last {
        /// True if rows without a value are skipped.
        ignores_nulls: bool,
    },
}

/// The slots of the rows of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Slots<'s> {
    /// All rows belong to one slot.
    One(usize),
    /// One slot for each row.
    Each(&'s [u32]),
}

/// The values of a column for the rows of a batch. The value at a NULL row has no meaning, and is
/// overwritten.
#[derive(Debug)]
pub enum Values<'v> {
    /// Nothing was read, for `Fold::Count`.
    Unread,
    /// Integers, or values that are ordered like integers.
    Integers(&'v mut [i64]),
    /// Floats, for `Fold::SumFloats`.
    Floats(&'v mut [f64]),
}

/// Rows of one zone.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'b> {
    /// Their slots.
    pub slots: Slots<'b>,
    /// Their places in the page frame.
    pub rows: ZoneRows<'b>,
    /// The number that is added to a place to get a position (A3).
    pub position: u64,
}

/// The states of one aggregate function, one for each slot.
#[derive(Debug, Clone)]
pub struct Accumulator {
    fold: Fold,
    slots: usize,
    /// Sums, minima or maxima, or the values of first or last rows.
    integers: Vec<i64>,
    floats: Vec<f64>,
    /// The number of NULL rows of each slot; for `First` and `Last`, 1 if the row is NULL. Empty
    /// until the first NULL row.
    nulls: Vec<u64>,
    /// One more than the position of the value; 0 if there is none yet.
    positions: Vec<u64>,
}

impl Accumulator {
    /// The states before the first row.
    #[must_use]
    pub fn new(fold: Fold, slots: usize) -> Accumulator {
        let start = match fold {
            Fold::Count | Fold::SumFloats => None,
            Fold::SumIntegers | Fold::First { .. } | Fold::Last { .. } => Some(0),
            Fold::Min => Some(i64::MAX),
            Fold::Max => Some(i64::MIN),
        };
        let is_by_position = matches!(fold, Fold::First { .. } | Fold::Last { .. });
        Accumulator {
            fold,
            slots,
            integers: start.map(|start| vec![start; slots]).unwrap_or_default(),
            floats: if fold == Fold::SumFloats { vec![0.0; slots] } else { Vec::new() },
            nulls: Vec::new(),
            positions: if is_by_position { vec![0; slots] } else { Vec::new() },
        }
    }

    /// The maximum number of bytes that a slot takes.
    #[must_use]
    pub fn slot_bytes(fold: Fold) -> usize {
        match fold {
            Fold::Count => 8,
            Fold::SumIntegers | Fold::SumFloats | Fold::Min | Fold::Max => 16,
            Fold::First { .. } | Fold::Last { .. } => 24,
        }
    }

    /// Adds the rows of a batch; `nulls` has the rows of the batch that are NULL, ascending.
    ///
    /// # Panics
    /// If a slot does not exist, or the values belong to other rows or to another fold.
    pub fn add(&mut self, batch: &Batch<'_>, values: Values<'_>, nulls: &[u32]) {
        if matches!(self.fold, Fold::First { .. } | Fold::Last { .. }) {
            let Values::Integers(values) = values else { panic!("first and last want integers") };
            return self.add_by_position(batch, values, nulls);
        }
        self.count_nulls(batch.slots, nulls);
        match (self.fold, values) {
            (Fold::Count, _) => {}
            (Fold::SumIntegers, Values::Integers(values)) => {
                set(values, nulls, 0);
                fold_into(&mut self.integers, batch.slots, values, i64::wrapping_add, sum_integers);
            }
            (Fold::SumFloats, Values::Floats(values)) => {
                set(values, nulls, 0.0);
                fold_into(&mut self.floats, batch.slots, values, |a, b| a + b, sum_floats);
            }
            (Fold::Min, Values::Integers(values)) => {
                set(values, nulls, i64::MAX);
                fold_into(&mut self.integers, batch.slots, values, i64::min, least);
            }
            (Fold::Max, Values::Integers(values)) => {
                set(values, nulls, i64::MIN);
                fold_into(&mut self.integers, batch.slots, values, i64::max, greatest);
            }
            (fold, values) => panic!("{fold:?} of {values:?}"),
        }
    }

    /// Adds the bounds of some rows, for `Min` and `Max`.
    ///
    /// # Panics
    /// If the slot does not exist.
    pub fn add_bound(&mut self, slot: usize, bound: i64) {
        let state = &mut self.integers[slot];
        *state = if self.fold == Fold::Min { bound.min(*state) } else { bound.max(*state) };
    }

    fn count_nulls(&mut self, slots: Slots<'_>, nulls: &[u32]) {
        if nulls.is_empty() {
            return;
        }
        self.nulls.resize(self.slots, 0);
        match slots {
            Slots::One(slot) => self.nulls[slot] += nulls.len() as u64,
            Slots::Each(slots) => {
                for &row in nulls {
                    self.nulls[slots[row as usize] as usize] += 1;
                }
            }
        }
    }

    fn add_by_position(&mut self, batch: &Batch<'_>, values: &[i64], nulls: &[u32]) {
        let (Fold::First { ignores_nulls } | Fold::Last { ignores_nulls }) = self.fold else {
            panic!("{:?} does not go by position", self.fold);
        };
        let mut nulls = nulls.iter().copied().peekable();
        for (row, &value) in values.iter().enumerate() {
            let is_null = nulls.next_if(|&null| null as usize == row).is_some();
            if is_null && ignores_nulls {
                continue;
            }
            let slot = match batch.slots {
                Slots::One(slot) => slot,
                Slots::Each(slots) => slots[row] as usize,
            };
            let position = batch.position + batch.rows.place(row) as u64 + 1;
            self.set_if_nearer(slot, position, (!is_null).then_some(value));
        }
    }

    /// Sets the value of a slot if this row is before, or for `Last` behind, the row of its present
    /// value.
    fn set_if_nearer(&mut self, slot: usize, position: u64, value: Option<i64>) {
        let (known, is_last) = (self.positions[slot], matches!(self.fold, Fold::Last { .. }));
        if known != 0 && (position > known) != is_last {
            return;
        }
        self.positions[slot] = position;
        self.integers[slot] = value.unwrap_or(0);
        if value.is_none() {
            self.nulls.resize(self.slots, 0);
        }
        if let Some(null) = self.nulls.get_mut(slot) {
            *null = u64::from(value.is_none());
        }
    }

    /// Adds the states of another worker, which are those of other rows.
    ///
    /// # Panics
    /// If they belong to another fold, or have more slots.
    pub fn merge(&mut self, other: &Accumulator) {
        assert_eq!(self.fold, other.fold);
        if let Fold::First { .. } | Fold::Last { .. } = self.fold {
            for slot in 0..other.slots {
                let position = other.positions[slot];
                if position != 0 {
                    let is_null = other.nulls.get(slot).is_some_and(|&null| null != 0);
                    let value = (!is_null).then(|| other.integers[slot]);
                    self.set_if_nearer(slot, position, value);
                }
            }
            return;
        }
        if !other.nulls.is_empty() {
            self.nulls.resize(self.slots, 0);
        }
        join(&mut self.nulls, &other.nulls, |a, b| a + b);
        join(&mut self.floats, &other.floats, |a, b| a + b);
        match self.fold {
            Fold::Min => join(&mut self.integers, &other.integers, i64::min),
            Fold::Max => join(&mut self.integers, &other.integers, i64::max),
            _ => join(&mut self.integers, &other.integers, i64::wrapping_add),
        }
    }

    /// The number of rows, of the `rows` of a slot, that have a value.
    #[must_use]
    pub fn count(&self, slot: usize, rows: u64) -> u64 {
        rows - self.nulls.get(slot).copied().unwrap_or(0)
    }

    /// The integer result of a slot; `None` if no row had a value.
    #[must_use]
    pub fn integer(&self, slot: usize, rows: u64) -> Option<i64> {
        let has_value = match self.positions.get(slot) {
            Some(&position) => position != 0 && self.nulls.get(slot).is_none_or(|&null| null == 0),
            None => self.count(slot, rows) > 0,
        };
        has_value.then(|| self.integers[slot])
    }

    /// The float result of a slot; `None` if no row had a value.
    #[must_use]
    pub fn float(&self, slot: usize, rows: u64) -> Option<f64> {
        (self.count(slot, rows) > 0).then(|| self.floats[slot])
    }

    /// True if a slot has a row that counts, for `First` and `Last`.
    #[must_use]
    pub fn is_set(&self, slot: usize) -> bool {
        self.positions[slot] != 0
    }
}

/// Adds one to the count of a slot for each of its rows.
pub fn count_rows(counts: &mut [u64], slots: Slots<'_>, rows: usize) {
    match slots {
        Slots::One(slot) => counts[slot] += rows as u64,
        Slots::Each(slots) => slots.iter().for_each(|&slot| counts[slot as usize] += 1),
    }
}

fn set<T: Copy>(values: &mut [T], rows: &[u32], value: T) {
    rows.iter().for_each(|&row| values[row as usize] = value);
}

#[inline]
fn fold_into<T: Copy>(
    states: &mut [T],
    slots: Slots<'_>,
    values: &[T],
    fold: impl Fn(T, T) -> T,
    fold_all: impl Fn(&[T]) -> T,
) {
    match slots {
        Slots::One(slot) => states[slot] = fold(states[slot], fold_all(values)),
        Slots::Each(slots) => {
            assert_eq!(slots.len(), values.len(), "a slot a row");
            for (&slot, &value) in slots.iter().zip(values) {
                let state = &mut states[slot as usize];
                *state = fold(*state, value);
            }
        }
    }
}

fn join<T: Copy>(states: &mut [T], others: &[T], fold: impl Fn(T, T) -> T) {
    states.iter_mut().zip(others).for_each(|(state, &other)| *state = fold(*state, other));
}

fn sum_integers(values: &[i64]) -> i64 {
    values.iter().fold(0, |sum, &value| sum.wrapping_add(value))
}

fn sum_floats(values: &[f64]) -> f64 {
    let (lanes, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for lane in lanes {
        for (sum, value) in sums.iter_mut().zip(lane) {
            *sum += value;
        }
    }
    sums.iter().chain(rest).sum()
}

fn least(values: &[i64]) -> i64 {
    values.iter().fold(i64::MAX, |least, &value| least.min(value))
}

fn greatest(values: &[i64]) -> i64 {
    values.iter().fold(i64::MIN, |greatest, &value| greatest.max(value))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 5;
    const FOLDS: [Fold; 7] = [
        Fold::Count,
        Fold::SumIntegers,
        Fold::Min,
        Fold::Max,
        Fold::First { ignores_nulls: false },
        Fold::First { ignores_nulls: true },
        Fold::Last { ignores_nulls: true },
    ];

    /// The result that SQL demands for the values of one slot, in the order of their rows.
    fn expected(fold: Fold, values: &[Option<i64>]) -> Option<i64> {
        let mut there = values.iter().copied().flatten();
        match fold {
            Fold::Count | Fold::SumFloats => None,
            Fold::SumIntegers => there.reduce(i64::wrapping_add),
            Fold::Min => there.min(),
            Fold::Max => there.max(),
            Fold::First { ignores_nulls: true } => there.next(),
            Fold::First { ignores_nulls: false } => values.first().copied().flatten(),
            Fold::Last { ignores_nulls: true } => there.last(),
            Fold::Last { ignores_nulls: false } => values.last().copied().flatten(),
        }
    }

    type Rows = Vec<(u32, Option<i64>)>;

    fn rows() -> impl Strategy<Value = Rows> {
        vec((0..SLOTS, option::weighted(0.8, any::<i64>())), 0..40)
    }

    fn batch_into(accumulators: &mut [Accumulator], rows: &Rows, position: u64, is_one: bool) {
        let slots: Vec<u32> = rows.iter().map(|(slot, _)| *slot).collect();
        let nulls: Vec<u32> =
            (0..).zip(rows).filter(|(_, (_, value))| value.is_none()).map(|(at, _)| at).collect();
        let slots = if is_one { Slots::One(0) } else { Slots::Each(&slots) };
        let rows_at = ZoneRows::Run { start: 0, end: rows.len() };
        let batch = Batch { slots, rows: rows_at, position };
        for accumulator in accumulators {
            let mut values: Vec<i64> = rows.iter().map(|(_, value)| value.unwrap_or(-77)).collect();
            accumulator.add(&batch, Values::Integers(&mut values), &nulls);
        }
    }

    proptest! {
        #[test]
        fn folds_mean_what_sql_says(
            batches in vec(rows(), 0..6),
            turn in any::<bool>(),
            is_one in any::<bool>(),
        ) {
            // Two workers share the batches, and later batches may be added first.
            let worker = || FOLDS.map(|fold| Accumulator::new(fold, SLOTS as usize));
            let mut workers = [worker(), worker()];
            let mut order: Vec<usize> = (0..batches.len()).collect();
            if turn {
                order.reverse();
            }
            for (turn, &at) in order.iter().enumerate() {
                let position = (at as u64) << 16;
                batch_into(&mut workers[turn % 2], &batches[at], position, is_one);
            }
            let [mut joined, other] = workers;
            for (mine, other) in joined.iter_mut().zip(&other) {
                mine.merge(other);
            }
            for slot in 0..SLOTS as usize {
                let of_slot = |of: u32| if is_one { slot == 0 } else { of as usize == slot };
                let values: Vec<Option<i64>> = batches
                    .iter()
                    .flatten()
                    .filter(|(of, _)| of_slot(*of))
                    .map(|(_, value)| *value)
                    .collect();
                let rows = values.len() as u64;
                let there = values.iter().flatten().count() as u64;
                prop_assert_eq!(joined[0].count(slot, rows), there);
                for (fold, accumulator) in FOLDS.iter().zip(&joined).skip(1) {
                    let given = accumulator.integer(slot, rows);
                    prop_assert_eq!(given, expected(*fold, &values), "{:?} of {:?}", fold, values);
                }
            }
        }

        #[test]
        fn floats_are_summed_without_those_that_are_null(
            values in vec(option::weighted(0.9, -1_000_i32..1_000), 0..100),
        ) {
            let mut floats: Vec<f64> =
                values.iter().map(|value| value.map_or(f64::NAN, f64::from)).collect();
            let nulls: Vec<u32> =
                (0..).zip(&values).filter(|(_, value)| value.is_none()).map(|(at, _)| at).collect();
            let mut sum = Accumulator::new(Fold::SumFloats, 1);
            let rows = ZoneRows::Run { start: 0, end: values.len() };
            let batch = Batch { slots: Slots::One(0), rows, position: 0 };
            sum.add(&batch, Values::Floats(&mut floats), &nulls);
            let there: Vec<i32> = values.iter().copied().flatten().collect();
            let expected = (!there.is_empty()).then(|| f64::from(there.iter().sum::<i32>()));
            prop_assert_eq!(sum.float(0, values.len() as u64), expected);
        }
    }
}
