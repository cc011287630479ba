//! Sorting of rows by time.
//!
//! - time_order-1. Rows ascend by timestamp; equal ones keep their order.
//!
//! Used for rows that arrive in any order, before they are encoded. Not here: merging of sorted
//! runs (`rewrite`).

/// Sorts rows, whose timestamps are `timestamps`, together with these (time_order-1).
///
/// # Panics
/// If there is not one timestamp for every row.
#[must_use]
pub fn sort(order: Vec<u32>, timestamps: Vec<i64>) -> (Vec<u32>, Vec<i64>) {
    assert_eq!(order.len(), timestamps.len(), "a timestamp for every row");
    if timestamps.is_sorted() {
        return (order, timestamps);
    }
    let min = *timestamps.iter().min().expect("an unsorted list has an element");
    let max = *timestamps.iter().max().expect("an unsorted list has an element");
    let step = time_step(&timestamps, min);
    let index_bits = usize::BITS - order.len().leading_zeros();
    let span = max.abs_diff(min) / step;
    let key_bits = u64::BITS - span.leading_zeros();
    if key_bits + index_bits > u64::BITS || order.len() < RADIX_FROM_ROWS {
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

/// The coarsest power of a thousand units of which all distances from `min` are multiples.
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

/// Row count below which comparing rows is faster than clearing the counters of a digit.
const RADIX_FROM_ROWS: usize = 512;

/// Sorts by `bits` bits from `low` on, eleven at a time, the lowest first. The sort is stable, so
/// that the bits below `low` keep their order.
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
            assert_eq!(sorted, expected, "time_order-1");
            let expected: Vec<i64> = expected.iter().map(|&r| timestamps[r as usize]).collect();
            assert_eq!(times, expected);
        }
    }
}
