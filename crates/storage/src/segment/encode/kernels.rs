//! Kernels of `encode`: bounds, steps, codes and scaled floats over slices.

use tidegate_model::layout::{Encoding, FrameFooter, Region};

use super::Validity;

/// Integers of up to eight bytes.
pub(in crate::segment) trait Integer: Copy + Ord + Default {
    /// The value sign- or zero-extended: differences of words are differences of values.
    fn word(self) -> u64;
    /// The value.
    fn wide(self) -> i128;
}

macro_rules! integer {
    ($($ty:ty => $extended:ty),*) => {
        $(impl Integer for $ty {
            #[inline]
            fn word(self) -> u64 {
                let extended = <$extended>::from(self);
                u64::from_le_bytes(extended.to_le_bytes())
            }

            #[inline]
            fn wide(self) -> i128 {
                i128::from(self)
            }
        })*
    };
}

integer!(i8 => i64, i16 => i64, i32 => i64, i64 => i64);
integer!(u8 => u64, u16 => u64, u32 => u64, u64 => u64);

/// FLOAT and DOUBLE.
pub(in crate::segment) trait Float: Copy {
    /// The filler of a row without a value.
    const ZERO: Self;
    /// Widened; exact.
    fn to_f64(self) -> f64;
    /// Rounded.
    fn from_f64(value: f64) -> Self;
    /// The value; a NaN is replaced by the one that is stored (segment_encode-3).
    fn canonical(self) -> Self;
    /// Appends its bytes.
    fn append(self, out: &mut Vec<u8>);
}

impl Float for f64 {
    const ZERO: f64 = 0.0;

    #[inline]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline]
    fn from_f64(value: f64) -> f64 {
        value
    }

    #[inline]
    fn canonical(self) -> f64 {
        if self.is_nan() { f64::NAN } else { self }
    }

    #[inline]
    fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl Float for f32 {
    const ZERO: f32 = 0.0;

    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    fn from_f64(value: f64) -> f32 {
        #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
        let rounded = value as f32;
        rounded
    }

    #[inline]
    fn canonical(self) -> f32 {
        if self.is_nan() { f32::NAN } else { self }
    }

    #[inline]
    fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

/// Returns true if `row` has a value.
#[inline]
pub(in crate::segment) fn is_valid(validity: Validity<'_>, row: usize) -> bool {
    validity.is_none_or(|words| words[row / 64] >> (row % 64) & 1 == 1)
}

/// A mask of the bits of `rows` rows in their last word.
fn remainder_mask(rows: usize) -> u64 {
    match rows % 64 {
        0 => u64::MAX,
        bits => (1 << bits) - 1,
    }
}

/// Number of NULLs among the first `rows` rows.
pub(in crate::segment) fn null_count(words: &[u64], rows: usize) -> usize {
    if rows == 0 {
        return 0;
    }
    let last = rows.div_ceil(64) - 1;
    let whole: u32 = words[..last].iter().map(|word| word.count_zeros()).sum();
    let rest = (!words[last] & remainder_mask(rows)).count_ones();
    (whole + rest) as usize
}

/// Returns true if any of the first `rows` rows is NULL.
pub(in crate::segment) fn has_null(words: &[u64], rows: usize) -> bool {
    null_count(words, rows) > 0
}

/// Least and greatest value, `None` if no row has one.
pub(in crate::segment) fn bounds<T: Copy + Ord>(
    values: &[T],
    validity: Validity<'_>,
) -> Option<(T, T)> {
    let Some(words) = validity else {
        let first = *values.first()?;
        let range = |(min, max): (T, T), &value: &T| (min.min(value), max.max(value));
        return Some(values.iter().fold((first, first), range));
    };
    let mut present = values
        .iter()
        .enumerate()
        .filter(|&(row, _)| words[row / 64] >> (row % 64) & 1 == 1)
        .map(|(_, &value)| value);
    let first = present.next()?;
    Some(present.fold((first, first), |(min, max), value| (min.min(value), max.max(value))))
}

/// Overwrites the values under NULLs.
pub(in crate::segment) fn fill_nulls<T: Copy>(values: &mut [T], validity: Validity<'_>, filler: T) {
    let Some(words) = validity else { return };
    for (rows, &word) in values.chunks_mut(64).zip(words) {
        if word != u64::MAX {
            for (bit, value) in rows.iter_mut().enumerate() {
                if word >> bit & 1 == 0 {
                    *value = filler;
                }
            }
        }
    }
}

/// The bytes that codes up to `code` need.
pub(in crate::segment) fn code_width(code: u64) -> u8 {
    match code {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

/// The difference of neighbours, if it is the same for all: then no code is stored.
pub(in crate::segment) fn regular_step<T: Integer>(values: &[T]) -> Option<u64> {
    let step = values.get(1)?.word().wrapping_sub(values[0].word());
    let ascends = values[0] < values[1];
    let is_regular =
        |pair: &[T]| pair[1] > pair[0] && pair[1].word().wrapping_sub(pair[0].word()) == step;
    (ascends && values.windows(2).all(is_regular)).then_some(step)
}

/// The greatest common divisor of all differences to `min`; 1 if that of a sample is 1.
pub(in crate::segment) fn common_step<T: Integer>(values: &[T], min: T) -> u64 {
    if size_of::<T>() < 4 {
        return 1;
    }
    let stride = (values.len() / 61).max(1);
    let sampled = values
        .iter()
        .step_by(stride)
        .fold(0, |step, &value| gcd(step, value.word().wrapping_sub(min.word())));
    if sampled <= 1 {
        return 1;
    }
    let mut step = sampled;
    for &value in values {
        let code = value.word().wrapping_sub(min.word());
        if !code.is_multiple_of(step) {
            step = gcd(step, code);
            if step == 1 {
                break;
            }
        }
    }
    step
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The step and the width of codes.
#[derive(Debug, Clone, Copy)]
pub(in crate::segment) struct Step {
    /// The difference between the values of codes 1 and 0.
    pub(in crate::segment) step: u64,
    /// Bytes of a code: 1, 2, 4 or 8.
    pub(in crate::segment) width: u8,
}

/// Appends `(value - min) / step` for every value.
pub(in crate::segment) fn append_codes<T: Integer>(
    values: &[T],
    min: T,
    step: Step,
    out: &mut Vec<u8>,
) {
    let base = min.word();
    match (step.step, step.width) {
        (1, 1) => append(values, out, |v| low::<1>(v.word().wrapping_sub(base))),
        (1, 2) => append(values, out, |v| low::<2>(v.word().wrapping_sub(base))),
        (1, 4) => append(values, out, |v| low::<4>(v.word().wrapping_sub(base))),
        (1, _) => append(values, out, |v| low::<8>(v.word().wrapping_sub(base))),
        (by, 1) => append(values, out, |v| low::<1>(v.word().wrapping_sub(base) / by)),
        (by, 2) => append(values, out, |v| low::<2>(v.word().wrapping_sub(base) / by)),
        (by, 4) => append(values, out, |v| low::<4>(v.word().wrapping_sub(base) / by)),
        (by, _) => append(values, out, |v| low::<8>(v.word().wrapping_sub(base) / by)),
    }
}

/// Appends a bit for every value: set if the value is `one`.
pub(in crate::segment) fn append_bits<T: Integer>(values: &[T], one: T, out: &mut Vec<u8>) {
    out.extend(values.chunks(8).map(|eight| {
        eight.iter().rev().fold(0_u8, |bits, &value| bits << 1 | u8::from(value == one))
    }));
}

/// The low bytes of a word.
#[inline]
fn low<const N: usize>(word: u64) -> [u8; N] {
    let bytes = word.to_le_bytes();
    std::array::from_fn(|i| bytes[i])
}

#[inline]
fn append<T: Copy, const N: usize>(values: &[T], out: &mut Vec<u8>, code: impl Fn(T) -> [u8; N]) {
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    let (slots, _) = out[start..].as_chunks_mut::<N>();
    for (slot, &value) in slots.iter_mut().zip(values) {
        *slot = code(value);
    }
}

/// Appends `code(row)` for `rows` rows in `width` bytes.
pub(in crate::segment) fn append_codes_by(codes: &[u32], width: u8, out: &mut Vec<u8>) {
    match width {
        1 => append(codes, out, |code| low::<1>(code.into())),
        2 => append(codes, out, |code| low::<2>(code.into())),
        _ => append(codes, out, |code| low::<4>(code.into())),
    }
}

/// 10^0 to 10^15.
pub(in crate::segment) const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Integers below this are exact in a float and survive the addition of `ROUNDER`.
const SCALED_MAX: f64 = (1_u64 << 51) as f64;
/// A constant that, added to a whole float below 2^51, leaves the integer in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The power of ten that makes most of a sample whole; `None` if there is none.
pub(in crate::segment) fn sampled_scale<T: Float>(values: &[T]) -> Option<u8> {
    let stride = (values.len() / 61).max(1);
    let (mut scale, mut sampled, mut misses) = (0, 0_u32, 0_u32);
    for &value in values.iter().step_by(stride) {
        sampled += 1;
        match (scale..16).find(|&scale| is_scaled(value, POWERS[scale])) {
            Some(needed) => scale = needed,
            None if (0..scale).any(|scale| is_scaled(value, POWERS[scale])) => {}
            None => misses += 1,
        }
    }
    (misses * 8 <= sampled).then(|| u8::try_from(scale).expect("below 16"))
}

#[inline]
fn is_scaled<T: Float>(value: T, power: f64) -> bool {
    let n = (value.to_f64() * power).round_ties_even();
    let back = T::from_f64(n / power);
    is_exact(n, back.to_f64(), value.to_f64())
}

/// Returns true if `n` is a whole number from which `value` is restored bit by bit. An integer has
/// no -0.
#[inline]
fn is_exact(n: f64, back: f64, value: f64) -> bool {
    let is_negative_zero = n.to_bits() == (-0.0_f64).to_bits();
    n.abs() < SCALED_MAX && back.to_bits() == value.to_bits() && !is_negative_zero
}

/// Scales every value; those that are not exact are listed with their row.
pub(in crate::segment) fn scale_exactly<T: Float>(
    values: &[T],
    scale: u8,
    scaled: &mut Vec<i64>,
    exceptions: &mut Vec<(u32, f64)>,
) {
    let power = POWERS[usize::from(scale)];
    exceptions.clear();
    let misses = match scale {
        // Whole numbers need no division, which is most of the work.
        0 => scale_each(values, scaled, |value| value, |n| T::from_f64(n)),
        _ => scale_each(values, scaled, |value| value * power, |n| T::from_f64(n / power)),
    };
    if misses > 0 {
        for (row, &value) in values.iter().enumerate() {
            if !is_scaled(value, power) {
                exceptions.push((u32::try_from(row).expect("frame-1"), value.to_f64()));
            }
        }
    }
}

/// Scales every value, and counts those that are not exact.
#[inline]
fn scale_each<T: Float>(
    values: &[T],
    scaled: &mut Vec<i64>,
    scale: impl Fn(f64) -> f64,
    unscale: impl Fn(f64) -> T,
) -> u64 {
    let mut misses = 0;
    scaled.clear();
    scaled.extend(values.iter().map(|&value| {
        let n = scale(value.to_f64()).round_ties_even();
        let exact = is_exact(n, unscale(n).to_f64(), value.to_f64());
        misses += u64::from(!exact);
        (n + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits()).cast_signed()
    }));
    misses
}

/// A frame without bytes.
pub(in crate::segment) fn frame_footer(encoding: Encoding) -> FrameFooter {
    FrameFooter {
        encoding,
        width: 0,
        scale: 0,
        has_validity: false,
        exceptions: 0,
        base: 0,
        step: 0,
        region: Region::default(),
    }
}

/// The region from `start` to the end of `bytes`.
pub(in crate::segment) fn region_since(bytes: &[u8], start: usize) -> Region {
    let region = &bytes[start..];
    if region.is_empty() {
        return Region::default();
    }
    Region { offset: start as u64, bytes: region.len() as u64, crc: crc32c::crc32c(region) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_the_common_divisor_even_where_the_sample_misses_it() {
        let mut values: Vec<i64> = (0..10_000).map(|i| i * 6_000_000 - 1).collect();
        assert_eq!(common_step(&values, -1), 6_000_000);
        values[77] += 2_000_000;
        assert_eq!(common_step(&values, -1), 2_000_000);
        values[78] += 1;
        assert_eq!(common_step(&values, -1), 1);
    }

    #[test]
    fn scaled_values_are_exact_or_exceptions() {
        let values = [1.5, -0.25, 1e300, f64::NAN, -0.0, 0.1 + 0.2, 123_456.75];
        let (mut scaled, mut exceptions) = (Vec::new(), Vec::new());
        scale_exactly(&values, 2, &mut scaled, &mut exceptions);
        assert_eq!((scaled[0], scaled[1], scaled[6]), (150, -25, 12_345_675));
        let rows: Vec<u32> = exceptions.iter().map(|&(row, _)| row).collect();
        assert_eq!(rows, [2, 3, 4, 5]);
    }

    #[test]
    fn null_counts_ignore_bits_behind_the_last_row() {
        assert_eq!(null_count(&[u64::MAX, 0], 64), 0);
        assert_eq!(null_count(&[u64::MAX, 0], 65), 1);
        assert_eq!(null_count(&[0], 3), 3);
    }
}
