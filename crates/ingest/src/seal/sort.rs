//! A bucket's rows in order.

use tidegate_platform::Reservation;

use crate::layout::{ColumnLayout, RowLayout};
use crate::packed::PackedSlab;

/// The slabs of a bucket, and its rows in the order of time.
#[derive(Debug)]
pub(crate) struct SortedBucket {
    slabs: Vec<(PackedSlab, Option<Reservation>)>,
    /// Slab and row of every row, packed: `slab << row_bits | row`.
    order: Vec<u32>,
    row_bits: u32,
    /// The timestamps in order; empty in a table without a designated one.
    timestamps: Vec<i64>,
}

impl SortedBucket {
    pub(crate) fn new(
        mut slabs: Vec<(PackedSlab, Option<Reservation>)>,
        layout: &RowLayout,
    ) -> SortedBucket {
        slabs.retain(|(slab, _)| slab.rows > 0);
        let capacity = slabs.iter().map(|(slab, _)| slab.rows).max().unwrap_or(1);
        let row_bits = capacity.next_power_of_two().trailing_zeros();
        let order = input_order(&slabs, row_bits);
        let Some(column) = layout.timestamp else {
            return SortedBucket { slabs, order, row_bits, timestamps: Vec::new() };
        };
        let mut bucket =
            SortedBucket { slabs, order: Vec::new(), row_bits, timestamps: Vec::new() };
        let mut values = Vec::new();
        bucket.unpack(column, &layout.columns[column], &mut values);
        let values = values.as_chunks::<8>().0;
        let instant = |&place: &u32| i64::from_le_bytes(values[place as usize]);
        let instants = order.iter().map(instant).collect();
        (bucket.order, bucket.timestamps) = sort(order, instants);
        bucket
    }

    /// The values of a column as they were parsed, each at its place in `order`. The places between
    /// the last row of a slab and the next one hold nothing.
    pub(crate) fn unpack(&self, index: usize, column: &ColumnLayout, out: &mut Vec<u8>) {
        out.clear();
        for (number, (slab, _)) in self.slabs.iter().enumerate() {
            out.resize((number << self.row_bits) * column.width, 0);
            slab.unpack(index, column, out);
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.order.len()
    }

    /// The timestamp of a row; 0 in a table without a designated one.
    pub(crate) fn timestamp(&self, row: usize) -> i64 {
        self.timestamps.get(row).copied().unwrap_or(0)
    }

    /// The first row from `start` on whose timestamp is at least `ts`.
    pub(crate) fn first_at(&self, start: usize, ts: i64) -> usize {
        if self.timestamps.is_empty() {
            return self.rows();
        }
        start + self.timestamps[start..].partition_point(|&own| own < ts)
    }

    pub(crate) fn slabs(&self) -> impl Iterator<Item = &PackedSlab> {
        self.slabs.iter().map(|(slab, _)| slab)
    }

    /// How many rows a slab has.
    pub(crate) fn slab_rows(&self, slab: usize) -> usize {
        self.slabs[slab].0.rows
    }

    /// Slab and row of some rows, packed with `row_bits`.
    pub(crate) fn order(&self, start: usize, end: usize) -> &[u32] {
        &self.order[start..end]
    }

    pub(crate) fn row_bits(&self) -> u32 {
        self.row_bits
    }
}

/// All rows as they stand in the input: by the marks of their slabs (Y3).
fn input_order(slabs: &[(PackedSlab, Option<Reservation>)], row_bits: u32) -> Vec<u32> {
    let mut runs = Vec::new();
    for (index, (slab, _)) in slabs.iter().enumerate() {
        assert!(index < 1 << (32 - row_bits), "slabs and rows fit 32 bits together");
        for (position, mark) in slab.marks.iter().enumerate() {
            let end = slab.marks.get(position + 1).map_or(slab.rows, |next| next.start as usize);
            runs.push(((mark.order, slab.sequence), index, mark.start as usize, end));
        }
    }
    // Stable: rows of one piece in one slab stand as they were put there.
    runs.sort_by_key(|&(order, ..)| order);
    let mut places = Vec::with_capacity(slabs.iter().map(|(slab, _)| slab.rows).sum());
    for (_, slab, start, end) in runs {
        let narrow = |value: usize| u32::try_from(value).expect("asserted above");
        let first = narrow(slab) << row_bits;
        places.extend((start..end).map(|row| first | narrow(row)));
    }
    places
}

/// Sorts by timestamp; equal ones keep their order (A1).
fn sort(order: Vec<u32>, timestamps: Vec<i64>) -> (Vec<u32>, Vec<i64>) {
    if timestamps.is_sorted() {
        return (order, timestamps);
    }
    let min = *timestamps.iter().min().expect("an unsorted list has an element");
    let max = *timestamps.iter().max().expect("an unsorted list has an element");
    let step = time_step(&timestamps, min);
    let index_bits = usize::BITS - order.len().leading_zeros();
    let span = max.abs_diff(min) / step;
    let key_bits = u64::BITS - span.leading_zeros();
    if key_bits + index_bits > u64::BITS {
        let mut rows: Vec<(i64, u32)> = timestamps.into_iter().zip(order).collect();
        rows.sort_by_key(|&(ts, _)| ts);
        return rows.into_iter().map(|(ts, place)| (place, ts)).unzip();
    }
    let keys = timestamps
        .iter()
        .enumerate()
        .map(|(index, &ts)| (ts.abs_diff(min) / step) << index_bits | index as u64)
        .collect();
    let keys = radix_sort(keys, index_bits, key_bits);
    let mask = (1_u64 << index_bits) - 1;
    #[expect(clippy::cast_possible_truncation, reason = "an index of `order`")]
    let index_of = |key: u64| (key & mask) as usize;
    let sorted = keys.iter().map(|&key| order[index_of(key)]).collect();
    let step = step.cast_signed();
    let instant = |key: u64| min.wrapping_add((key >> index_bits).cast_signed().wrapping_mul(step));
    (sorted, keys.into_iter().map(instant).collect())
}

/// The coarsest power of a thousand units that all timestamps keep.
fn time_step(timestamps: &[i64], min: i64) -> u64 {
    fn keeps<const STEP: u64>(timestamps: &[i64], min: i64) -> bool {
        timestamps.iter().all(|&ts| ts.abs_diff(min).is_multiple_of(STEP))
    }
    if keeps::<1_000_000_000>(timestamps, min) {
        1_000_000_000
    } else if keeps::<1_000_000>(timestamps, min) {
        1_000_000
    } else if keeps::<1_000>(timestamps, min) {
        1_000
    } else {
        1
    }
}

const DIGIT_BITS: u32 = 11;

/// Sorts by `bits` bits from `low` on, eleven at a time, the lowest first: stable, so that what
/// stands below `low` keeps its order.
fn radix_sort(mut keys: Vec<u64>, low: u32, bits: u32) -> Vec<u64> {
    let mut other = vec![0; keys.len()];
    let digits = bits.div_ceil(DIGIT_BITS).max(1);
    // Digits of equal width: 17 bits are two of 9, not 11 and 6.
    let width = bits.div_ceil(digits).max(1);
    let mask = (1_u64 << width) - 1;
    for digit in 0..digits {
        let shift = low + digit * width;
        #[expect(clippy::cast_possible_truncation, reason = "at most eleven bits")]
        let digit_of = |key: u64| (key >> shift & mask) as usize;
        let mut starts = [0_usize; 1 << DIGIT_BITS];
        for &key in &keys {
            starts[digit_of(key)] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        for &key in &keys {
            let start = &mut starts[digit_of(key)];
            other[*start] = key;
            *start += 1;
        }
        std::mem::swap(&mut keys, &mut other);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_time_and_equal_ones_keep_their_order() {
        let mut seed = 11_u64;
        for (count, span, unit) in [
            (1_usize, 1, 1),
            (2, 1, 1),
            (5_000, 7, 1_000_000),
            (5_000, 86_400, 1_000_000),
            (70_000, 1 << 37, 1),
            (3_000, u64::MAX, 1),
        ] {
            let timestamps: Vec<i64> = (0..count)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((seed >> 3) % span).wrapping_mul(unit).cast_signed()
                })
                .collect();
            let order: Vec<u32> = (0..count).map(|row| u32::try_from(row).expect("few")).collect();
            let mut expected = order.clone();
            expected.sort_by_key(|&row| timestamps[row as usize]);
            let (sorted, times) = sort(order, timestamps.clone());
            assert_eq!(sorted, expected, "A1");
            let expected: Vec<i64> = expected.iter().map(|&r| timestamps[r as usize]).collect();
            assert_eq!(times, expected);
        }
    }
}
