//! Aggregates over page frames: count, sum, min, max, first, last and the number of distinct values
//! by group, without arrays.
//!
//! ```text
//! ColumnSlice --ZoneValues--> values of one zone --Accumulator--> one state per group
//! ```
//!
//! The caller numbers the groups from 0 without gaps. Rows are added a zone at a time: the values
//! of a zone fit the L1 cache. `merge` combines the states of several workers.
//!
//! - Sums of integers wrap, but those for means (`SumExact`) do not. Floats are summed in lanes, so
//!   the last digits depend on how the rows were divided into batches.
//! - aggregate-2. Exact sums are accumulated in 64 bits until a group might overflow, by a bound of
//!   all magnitudes added so far; then the sums of all groups are carried to 128 bits.
//! - NULL is not counted, except by `First` and `Last` without `ignores_nulls`.
//! - aggregate-1. `First` and `Last` compare the positions of rows, which are unique and ascend
//!   with the rows of the table: the result does not depend on which worker saw which rows.
//!
//! Not here: the selection of rows (`evaluate`), the key of a group (`query`).

mod distinct;
mod narrow;
mod values;

pub use distinct::ValueIds;
pub use narrow::NarrowValues;
pub use values::{ZoneRows, ZoneValues, float_of_key, key_of_float};

/// The number of lanes in which floats are summed.
const LANES: usize = 8;
/// The maximal sum of magnitudes of a batch that is added in 64 bits: 1/128 of `BOUND_MAX`, so
/// that 128 such batches need at most one carry.
const BATCH_BOUND_MAX: u64 = 1 << 56;
/// The maximal sum of magnitudes that fits 64 bits with a sign (aggregate-2).
const BOUND_MAX: u64 = i64::MAX.cast_unsigned();

/// The aggregate function of the values of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateKind {
    /// The number of values.
    Count,
    /// The sum of integers, in 64 bits.
    SumIntegers,
    /// The sum of integers, in 128 bits.
    SumExact,
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
    /// The number of distinct values, each of which has an id (`ValueIds`).
    Distinct {
        /// The words of the bitmap of a group.
        words: usize,
    },
}

impl AggregateKind {
    /// Returns true if the result depends on the positions of rows (aggregate-1).
    #[must_use]
    pub fn depends_on_position(self) -> bool {
        matches!(self, AggregateKind::First { .. } | AggregateKind::Last { .. })
    }

    /// The integer state of a group without rows; `None` if this function has no integer state.
    fn start(self) -> Option<i64> {
        match self {
            AggregateKind::Count | AggregateKind::SumFloats | AggregateKind::Distinct { .. } => {
                None
            }
            AggregateKind::SumIntegers
            | AggregateKind::SumExact
            | AggregateKind::First { .. }
            | AggregateKind::Last { .. } => Some(0),
            AggregateKind::Min => Some(i64::MAX),
            AggregateKind::Max => Some(i64::MIN),
        }
    }
}

/// The groups of the rows of a batch.
#[derive(Debug, Clone, Copy)]
pub enum GroupIndices<'s> {
    /// All rows belong to one group.
    Same(usize),
    /// One group for each row.
    Each(&'s [u32]),
}

/// The values of a column for the rows of a batch. The value at a NULL row has no meaning, and is
/// overwritten.
#[derive(Debug)]
pub enum Values<'v> {
    /// Nothing was read, for `AggregateKind::Count`.
    Unread,
    /// Integers, or values that are ordered like integers.
    Integers(&'v mut [i64]),
    /// Floats, for `AggregateKind::SumFloats`.
    Floats(&'v mut [f64]),
}

/// Rows of one zone.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'b> {
    /// Their groups.
    pub groups: GroupIndices<'b>,
    /// Their indices in the page frame.
    pub rows: ZoneRows<'b>,
    /// The position of row 0 of the page frame (aggregate-1).
    pub position: u64,
}

/// The states of one aggregate function, one for each group.
#[derive(Debug, Clone)]
pub struct Accumulator {
    kind: AggregateKind,
    groups: usize,
    /// Sums, minima or maxima, or the values of first or last rows.
    integers: Vec<i64>,
    floats: Vec<f64>,
    /// The parts of exact sums that were carried. Empty until the first carry.
    carried: Vec<i128>,
    /// A bound of the magnitudes of `integers`, for exact sums (aggregate-2).
    magnitude_bound: u64,
    /// The number of NULL rows of each group; for `First` and `Last`, 1 if the row is NULL. Empty
    /// until the first NULL row.
    nulls: Vec<u64>,
    /// One more than the position of the value; 0 if there is none yet.
    positions: Vec<u64>,
    /// The bitmaps of distinct values (`distinct`).
    bits: Vec<u64>,
}

impl Accumulator {
    /// The states before the first row.
    #[must_use]
    pub fn new(kind: AggregateKind, groups: usize) -> Accumulator {
        let start = kind.start();
        let words = if let AggregateKind::Distinct { words } = kind { words } else { 0 };
        Accumulator {
            kind,
            groups,
            integers: start.map(|start| vec![start; groups]).unwrap_or_default(),
            floats: if kind == AggregateKind::SumFloats { vec![0.0; groups] } else { Vec::new() },
            carried: Vec::new(),
            magnitude_bound: 0,
            nulls: Vec::new(),
            positions: if kind.depends_on_position() { vec![0; groups] } else { Vec::new() },
            bits: vec![0; groups * words],
        }
    }

    /// Adds groups without rows, until there are `groups` of them.
    pub fn grow(&mut self, groups: usize) {
        if groups <= self.groups {
            return;
        }
        self.groups = groups;
        if let Some(start) = self.kind.start() {
            self.integers.resize(groups, start);
        }
        if self.kind == AggregateKind::SumFloats {
            self.floats.resize(groups, 0.0);
        }
        if self.kind.depends_on_position() {
            self.positions.resize(groups, 0);
        }
        self.bits.resize(groups * self.words(), 0);
    }

    /// The bytes that the states take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let words = self.integers.capacity()
            + self.floats.capacity()
            + self.nulls.capacity()
            + self.positions.capacity()
            + self.bits.capacity();
        words * size_of::<u64>() + self.carried.capacity() * size_of::<i128>()
    }

    /// The maximum number of bytes that a group takes, without its carried sum.
    #[must_use]
    pub fn group_bytes(kind: AggregateKind) -> usize {
        match kind {
            AggregateKind::Count => 8,
            AggregateKind::SumIntegers
            | AggregateKind::SumExact
            | AggregateKind::SumFloats
            | AggregateKind::Min
            | AggregateKind::Max => 16,
            AggregateKind::First { .. } | AggregateKind::Last { .. } => 24,
            AggregateKind::Distinct { words } => words * size_of::<u64>(),
        }
    }

    /// The number of bytes of a group's carried sum.
    #[must_use]
    pub fn carried_bytes(kind: AggregateKind) -> usize {
        if kind == AggregateKind::SumExact { size_of::<i128>() } else { 0 }
    }

    /// Adds the rows of a batch; `nulls` are the indices in the batch of the NULL rows, ascending.
    ///
    /// # Panics
    /// If a group does not exist, or the values belong to other rows or to another aggregate.
    pub fn add(&mut self, batch: &Batch<'_>, values: Values<'_>, nulls: &[u32]) {
        if self.kind.depends_on_position() {
            let Values::Integers(values) = values else { panic!("first and last need integers") };
            return self.add_by_position(batch, values, nulls);
        }
        self.count_nulls(batch.groups, nulls);
        match (self.kind, values) {
            (AggregateKind::Count, _) => {}
            (AggregateKind::SumIntegers, Values::Integers(values)) => {
                overwrite(values, nulls, 0);
                fold_into(
                    &mut self.integers,
                    batch.groups,
                    values,
                    i64::wrapping_add,
                    sum_integers,
                );
            }
            (AggregateKind::SumExact, Values::Integers(values)) => {
                overwrite(values, nulls, 0);
                self.add_exact(batch.groups, values);
            }
            (AggregateKind::SumFloats, Values::Floats(values)) => {
                overwrite(values, nulls, 0.0);
                fold_into(&mut self.floats, batch.groups, values, |a, b| a + b, sum_floats);
            }
            (AggregateKind::Min, Values::Integers(values)) => {
                overwrite(values, nulls, i64::MAX);
                fold_into(&mut self.integers, batch.groups, values, i64::min, least);
            }
            (AggregateKind::Max, Values::Integers(values)) => {
                overwrite(values, nulls, i64::MIN);
                fold_into(&mut self.integers, batch.groups, values, i64::max, greatest);
            }
            (kind, values) => panic!("{kind:?} of {values:?}"),
        }
    }

    fn add_exact(&mut self, groups: GroupIndices<'_>, values: &[i64]) {
        if self.make_room(magnitude_max(values), values.len()) {
            let states = &mut self.integers;
            fold_into(states, groups, values, i64::wrapping_add, sum_integers);
            return;
        }
        let carried = self.carried_sums();
        match groups {
            GroupIndices::Same(group) => {
                carried[group] += values.iter().copied().map(i128::from).sum::<i128>();
            }
            GroupIndices::Each(groups) => {
                assert_eq!(groups.len(), values.len(), "one group per row");
                for (&group, &value) in groups.iter().zip(values) {
                    carried[group as usize] += i128::from(value);
                }
            }
        }
    }

    /// Returns true if this number of values of at most this magnitude can be added in 64 bits;
    /// carries the sums before if that is necessary (aggregate-2).
    fn make_room(&mut self, magnitude: u64, values: usize) -> bool {
        let bound = magnitude.checked_mul(values as u64);
        let Some(bound) = bound.filter(|&bound| bound <= BATCH_BOUND_MAX) else { return false };
        if self.magnitude_bound > BOUND_MAX - bound {
            self.carry();
        }
        self.magnitude_bound += bound;
        true
    }

    /// Moves the sums of all groups to 128 bits.
    fn carry(&mut self) {
        self.carried.resize(self.groups, 0);
        for (carried, sum) in self.carried.iter_mut().zip(&mut self.integers) {
            *carried += i128::from(std::mem::take(sum));
        }
        self.magnitude_bound = 0;
    }

    fn carried_sums(&mut self) -> &mut [i128] {
        self.carried.resize(self.groups, 0);
        &mut self.carried
    }

    /// Adds the exact sums of another worker.
    fn merge_exact(&mut self, other: &Accumulator) {
        if self.magnitude_bound > BOUND_MAX - other.magnitude_bound {
            self.carry();
        }
        self.magnitude_bound += other.magnitude_bound;
        combine(&mut self.integers, &other.integers, i64::wrapping_add);
        if !other.carried.is_empty() {
            combine(self.carried_sums(), &other.carried, |a, b| a + b);
        }
    }

    /// Adds rows of which only the minimum is known, for `Min`, or the maximum, for `Max`.
    ///
    /// # Panics
    /// If the group does not exist.
    pub fn add_bound(&mut self, group: usize, bound: i64) {
        let state = &mut self.integers[group];
        *state =
            if self.kind == AggregateKind::Min { bound.min(*state) } else { bound.max(*state) };
    }

    fn count_nulls(&mut self, groups: GroupIndices<'_>, nulls: &[u32]) {
        if nulls.is_empty() {
            return;
        }
        self.nulls.resize(self.groups, 0);
        match groups {
            GroupIndices::Same(group) => self.nulls[group] += nulls.len() as u64,
            GroupIndices::Each(groups) => {
                for &row in nulls {
                    self.nulls[groups[row as usize] as usize] += 1;
                }
            }
        }
    }

    fn add_by_position(&mut self, batch: &Batch<'_>, values: &[i64], nulls: &[u32]) {
        let (AggregateKind::First { ignores_nulls } | AggregateKind::Last { ignores_nulls }) =
            self.kind
        else {
            panic!("{:?} does not depend on positions", self.kind);
        };
        let mut nulls = nulls.iter().copied().peekable();
        for (row, &value) in values.iter().enumerate() {
            let is_null = nulls.next_if(|&null| null as usize == row).is_some();
            if is_null && ignores_nulls {
                continue;
            }
            let group = match batch.groups {
                GroupIndices::Same(group) => group,
                GroupIndices::Each(groups) => groups[row] as usize,
            };
            let position = batch.position + batch.rows.place(row) as u64 + 1;
            self.replace_by_position(group, position, (!is_null).then_some(value));
        }
    }

    /// Replaces the value of a group if this row is before the row of the present value, or for
    /// `Last` after it.
    fn replace_by_position(&mut self, group: usize, position: u64, value: Option<i64>) {
        let (known, is_last) =
            (self.positions[group], matches!(self.kind, AggregateKind::Last { .. }));
        if known != 0 && (position > known) != is_last {
            return;
        }
        self.positions[group] = position;
        self.integers[group] = value.unwrap_or(0);
        if value.is_none() {
            self.nulls.resize(self.groups, 0);
        }
        if let Some(null) = self.nulls.get_mut(group) {
            *null = u64::from(value.is_none());
        }
    }

    /// Adds the states of another worker, which has seen other rows.
    ///
    /// # Panics
    /// If they belong to another aggregate, or have more groups.
    pub fn merge(&mut self, other: &Accumulator) {
        assert_eq!(self.kind, other.kind);
        if let AggregateKind::First { .. } | AggregateKind::Last { .. } = self.kind {
            (0..other.groups).for_each(|group| self.merge_by_position(group, other, group));
            return;
        }
        if !other.nulls.is_empty() {
            self.nulls.resize(self.groups, 0);
        }
        combine(&mut self.nulls, &other.nulls, |a, b| a + b);
        combine(&mut self.floats, &other.floats, |a, b| a + b);
        combine(&mut self.bits, &other.bits, |a, b| a | b);
        match self.kind {
            AggregateKind::Min => combine(&mut self.integers, &other.integers, i64::min),
            AggregateKind::Max => combine(&mut self.integers, &other.integers, i64::max),
            AggregateKind::SumExact => self.merge_exact(other),
            _ => combine(&mut self.integers, &other.integers, i64::wrapping_add),
        }
    }

    /// Adds the value of the first or last row of a group of another worker.
    fn merge_by_position(&mut self, group: usize, other: &Accumulator, from: usize) {
        let position = other.positions[from];
        if position != 0 {
            let is_null = other.nulls.get(from).is_some_and(|&null| null != 0);
            let value = (!is_null).then(|| other.integers[from]);
            self.replace_by_position(group, position, value);
        }
    }

    /// Adds states of another worker, which has seen other rows: the state at `from` to the first
    /// of `groups`, and the states after it to the other ones.
    ///
    /// # Panics
    /// If they belong to another aggregate, or one of the groups does not exist.
    pub fn merge_groups(&mut self, groups: &[u32], other: &Accumulator, from: usize) {
        assert_eq!(self.kind, other.kind);
        assert!(from + groups.len() <= other.groups, "the groups exist");
        if self.kind.depends_on_position() {
            for (&group, from) in groups.iter().zip(from..) {
                self.merge_by_position(group as usize, other, from);
            }
            return;
        }
        if !other.nulls.is_empty() {
            self.nulls.resize(self.groups, 0);
        }
        let (start, integers) = (from.min(other.nulls.len()), &mut self.integers);
        merge_into(&mut self.nulls, groups, &other.nulls[start..], |a, b| a + b);
        match self.kind {
            AggregateKind::SumFloats => {
                merge_into(&mut self.floats, groups, &other.floats[from..], |a, b| a + b);
            }
            AggregateKind::Min => merge_into(integers, groups, &other.integers[from..], i64::min),
            AggregateKind::Max => merge_into(integers, groups, &other.integers[from..], i64::max),
            AggregateKind::SumIntegers => {
                merge_into(integers, groups, &other.integers[from..], i64::wrapping_add);
            }
            AggregateKind::SumExact => self.merge_exact_groups(groups, other, from),
            AggregateKind::Distinct { .. } => self.merge_ids(groups, other, from),
            AggregateKind::Count | AggregateKind::First { .. } | AggregateKind::Last { .. } => {}
        }
    }

    /// Adds exact sums of another worker. The sums that are added may be a part of all that its
    /// `magnitude_bound` covers; the bound holds for each part.
    fn merge_exact_groups(&mut self, groups: &[u32], other: &Accumulator, from: usize) {
        if self.magnitude_bound <= BOUND_MAX - other.magnitude_bound {
            self.magnitude_bound += other.magnitude_bound;
            let sums = &other.integers[from..];
            merge_into(&mut self.integers, groups, sums, i64::wrapping_add);
        } else {
            let carried = self.carried_sums();
            for (&group, &sum) in groups.iter().zip(&other.integers[from..]) {
                carried[group as usize] += i128::from(sum);
            }
        }
        if !other.carried.is_empty() {
            let start = from.min(other.carried.len());
            merge_into(self.carried_sums(), groups, &other.carried[start..], |a, b| a + b);
        }
    }

    /// Returns the states of these groups, in the order of `groups`.
    ///
    /// # Panics
    /// If a group does not exist.
    #[must_use]
    pub fn gathered(&self, groups: &[u32]) -> Accumulator {
        let nulls = groups.iter().map(|&group| self.nulls.get(group as usize).copied());
        let nulls = match self.nulls.is_empty() {
            true => Vec::new(),
            false => nulls.map(Option::unwrap_or_default).collect(),
        };
        let carried = groups.iter().map(|&group| self.carried.get(group as usize).copied());
        let carried = match self.carried.is_empty() {
            true => Vec::new(),
            false => carried.map(Option::unwrap_or_default).collect(),
        };
        Accumulator {
            kind: self.kind,
            groups: groups.len(),
            integers: gathered(&self.integers, groups),
            floats: gathered(&self.floats, groups),
            carried,
            magnitude_bound: self.magnitude_bound,
            nulls,
            positions: gathered(&self.positions, groups),
            bits: self.gathered_bits(groups),
        }
    }

    /// Removes all groups, and keeps the memory.
    pub fn clear(&mut self) {
        self.groups = 0;
        self.integers.clear();
        self.floats.clear();
        self.carried.clear();
        self.magnitude_bound = 0;
        self.nulls.clear();
        self.positions.clear();
        self.bits.clear();
    }

    /// The number of rows, of the `rows` of a group, that have a value.
    #[must_use]
    pub fn count(&self, group: usize, rows: u64) -> u64 {
        rows - self.nulls.get(group).copied().unwrap_or(0)
    }

    /// The integer result of a group; `None` if no row had a value.
    #[must_use]
    pub fn integer(&self, group: usize, rows: u64) -> Option<i64> {
        let has_value = match self.positions.get(group) {
            Some(&position) => position != 0 && self.nulls.get(group).is_none_or(|&null| null == 0),
            None => self.count(group, rows) > 0,
        };
        has_value.then(|| self.integers[group])
    }

    /// The exact sum of a group; `None` if no row had a value.
    #[must_use]
    pub fn exact_sum(&self, group: usize, rows: u64) -> Option<i128> {
        let carried = self.carried.get(group).copied().unwrap_or(0);
        (self.count(group, rows) > 0).then(|| carried + i128::from(self.integers[group]))
    }

    /// The float result of a group; `None` if no row had a value.
    #[must_use]
    pub fn float(&self, group: usize, rows: u64) -> Option<f64> {
        (self.count(group, rows) > 0).then(|| self.floats[group])
    }
}

/// Adds one to the count of a group for each of its rows.
pub fn count_rows(counts: &mut [u64], groups: GroupIndices<'_>, rows: usize) {
    match groups {
        GroupIndices::Same(group) => counts[group] += rows as u64,
        GroupIndices::Each(groups) => groups.iter().for_each(|&group| counts[group as usize] += 1),
    }
}

fn overwrite<T: Copy>(values: &mut [T], rows: &[u32], value: T) {
    rows.iter().for_each(|&row| values[row as usize] = value);
}

#[inline]
fn fold_into<T: Copy>(
    states: &mut [T],
    groups: GroupIndices<'_>,
    values: &[T],
    fold: impl Fn(T, T) -> T,
    fold_all: impl Fn(&[T]) -> T,
) {
    match groups {
        GroupIndices::Same(group) => states[group] = fold(states[group], fold_all(values)),
        GroupIndices::Each(groups) => {
            assert_eq!(groups.len(), values.len(), "one group per row");
            for (&group, &value) in groups.iter().zip(values) {
                let state = &mut states[group as usize];
                *state = fold(*state, value);
            }
        }
    }
}

#[inline]
fn merge_into<T: Copy>(states: &mut [T], groups: &[u32], others: &[T], fold: impl Fn(T, T) -> T) {
    for (&group, &other) in groups.iter().zip(others) {
        let state = &mut states[group as usize];
        *state = fold(*state, other);
    }
}

/// Returns the states of these groups, unless there are no such states.
fn gathered<T: Copy>(states: &[T], groups: &[u32]) -> Vec<T> {
    match states.is_empty() {
        true => Vec::new(),
        false => groups.iter().map(|&group| states[group as usize]).collect(),
    }
}

fn combine<T: Copy>(states: &mut [T], others: &[T], fold: impl Fn(T, T) -> T) {
    states.iter_mut().zip(others).for_each(|(state, &other)| *state = fold(*state, other));
}

fn sum_integers(values: &[i64]) -> i64 {
    values.iter().fold(0, |sum, &value| sum.wrapping_add(value))
}

/// Returns a number that is at least as large as the magnitude of each value, and at most about
/// twice as large as the largest.
fn magnitude_max(values: &[i64]) -> u64 {
    // Clears the bits that only repeat the sign.
    let bits = values.iter().fold(0, |bits, &value| bits | (value ^ (value >> 63)));
    bits.cast_unsigned() + 1
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

    const GROUPS: u32 = 5;
    const KINDS: [AggregateKind; 7] = [
        AggregateKind::Count,
        AggregateKind::SumIntegers,
        AggregateKind::Min,
        AggregateKind::Max,
        AggregateKind::First { ignores_nulls: false },
        AggregateKind::First { ignores_nulls: true },
        AggregateKind::Last { ignores_nulls: true },
    ];

    /// The result in SQL for the values of one group, in the order of their rows.
    fn expected(kind: AggregateKind, values: &[Option<i64>]) -> Option<i64> {
        let mut there = values.iter().copied().flatten();
        match kind {
            AggregateKind::Count
            | AggregateKind::SumFloats
            | AggregateKind::SumExact
            | AggregateKind::Distinct { .. } => None,
            AggregateKind::SumIntegers => there.reduce(i64::wrapping_add),
            AggregateKind::Min => there.min(),
            AggregateKind::Max => there.max(),
            AggregateKind::First { ignores_nulls: true } => there.next(),
            AggregateKind::First { ignores_nulls: false } => values.first().copied().flatten(),
            AggregateKind::Last { ignores_nulls: true } => there.last(),
            AggregateKind::Last { ignores_nulls: false } => values.last().copied().flatten(),
        }
    }

    type Rows = Vec<(u32, Option<i64>)>;

    fn rows() -> impl Strategy<Value = Rows> {
        vec((0..GROUPS, option::weighted(0.8, any::<i64>())), 0..40)
    }

    fn batch_into(accumulators: &mut [Accumulator], rows: &Rows, position: u64, is_one: bool) {
        let groups: Vec<u32> = rows.iter().map(|(group, _)| *group).collect();
        let nulls: Vec<u32> =
            (0..).zip(rows).filter(|(_, (_, value))| value.is_none()).map(|(at, _)| at).collect();
        let groups = if is_one { GroupIndices::Same(0) } else { GroupIndices::Each(&groups) };
        let rows_at = ZoneRows::Run { start: 0, end: rows.len() };
        let batch = Batch { groups, rows: rows_at, position };
        for accumulator in accumulators {
            let mut values: Vec<i64> = rows.iter().map(|(_, value)| value.unwrap_or(-77)).collect();
            accumulator.add(&batch, Values::Integers(&mut values), &nulls);
        }
    }

    #[test]
    fn exact_sums_do_not_overflow() {
        const BATCHES: usize = 600;
        for (value, is_one) in [1, -7, 1 << 50, -(1 << 50), i64::MAX, i64::MIN]
            .into_iter()
            .flat_map(|value| [(value, false), (value, true)])
        {
            let rows: Rows =
                (0..40).map(|row| (row % GROUPS, (row % 9 > 0).then_some(value))).collect();
            let worker = || [Accumulator::new(AggregateKind::SumExact, GROUPS as usize)];
            let mut workers = [worker(), worker()];
            for turn in 0..BATCHES {
                batch_into(&mut workers[turn % 2], &rows, 0, is_one);
            }
            let [[mut joined], [other]] = workers;
            let all: Vec<u32> = (0..GROUPS).collect();
            let mut grown = Accumulator::new(AggregateKind::SumExact, 0);
            grown.grow(GROUPS as usize);
            for part in [&joined, &other] {
                grown.merge_groups(&all[..2], part, 0);
                grown.merge_groups(&all[2..], part, 2);
            }
            let gathered = grown.gathered(&all);
            joined.merge(&other);
            for group in 0..GROUPS {
                let of_group = |of: u32| if is_one { group == 0 } else { of == group };
                let values: Vec<Option<i64>> =
                    rows.iter().filter(|row| of_group(row.0)).map(|row| row.1).collect();
                let there = values.iter().flatten().count();
                let expected = i128::from(value) * (there * BATCHES) as i128;
                let expected = (there > 0).then_some(expected);
                for sums in [&joined, &grown, &gathered] {
                    let given = sums.exact_sum(group as usize, (values.len() * BATCHES) as u64);
                    assert_eq!(given, expected, "aggregate-2: {value}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn aggregates_have_the_results_of_sql(
            batches in vec(rows(), 0..6),
            turn in any::<bool>(),
            is_one in any::<bool>(),
            is_growing in any::<bool>(),
        ) {
            // Two workers share the batches, and later batches may be added first.
            let worker = || KINDS.map(|kind| {
                let all = GROUPS as usize;
                let mut states = Accumulator::new(kind, if is_growing { 2 } else { all });
                if is_growing {
                    // States from before `clear` must not show afterwards.
                    batch_into(std::slice::from_mut(&mut states), &vec![(1, None)], 7, false);
                    states.clear();
                }
                states.grow(all);
                states
            });
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
                if is_growing {
                    let order = (0..GROUPS).rev().collect::<Vec<_>>();
                    let gathered = other.gathered(&order);
                    mine.merge_groups(&order[1..], &gathered, 1);
                    mine.merge_groups(&order[..1], &gathered, 0);
                } else {
                    mine.merge(other);
                }
            }
            for group in 0..GROUPS as usize {
                let of_group = |of: u32| if is_one { group == 0 } else { of as usize == group };
                let values: Vec<Option<i64>> = batches
                    .iter()
                    .flatten()
                    .filter(|(of, _)| of_group(*of))
                    .map(|(_, value)| *value)
                    .collect();
                let rows = values.len() as u64;
                let there = values.iter().flatten().count() as u64;
                prop_assert_eq!(joined[0].count(group, rows), there);
                for (kind, accumulator) in KINDS.iter().zip(&joined).skip(1) {
                    let given = accumulator.integer(group, rows);
                    prop_assert_eq!(given, expected(*kind, &values), "{:?} of {:?}", kind, values);
                }
            }
        }

        #[test]
        fn null_floats_are_not_summed(
            values in vec(option::weighted(0.9, -1_000_i32..1_000), 0..100),
        ) {
            let mut floats: Vec<f64> =
                values.iter().map(|value| value.map_or(f64::NAN, f64::from)).collect();
            let nulls: Vec<u32> =
                (0..).zip(&values).filter(|(_, value)| value.is_none()).map(|(at, _)| at).collect();
            let mut sum = Accumulator::new(AggregateKind::SumFloats, 1);
            let rows = ZoneRows::Run { start: 0, end: values.len() };
            let batch = Batch { groups: GroupIndices::Same(0), rows, position: 0 };
            sum.add(&batch, Values::Floats(&mut floats), &nulls);
            let there: Vec<i32> = values.iter().copied().flatten().collect();
            let expected = (!there.is_empty()).then(|| f64::from(there.iter().sum::<i32>()));
            prop_assert_eq!(sum.float(0, values.len() as u64), expected);
            let mut merged = Accumulator::new(AggregateKind::SumFloats, 2);
            merged.merge_groups(&[1], &sum.gathered(&[0]), 0);
            prop_assert_eq!(merged.float(1, values.len() as u64), expected);
        }
    }
}
