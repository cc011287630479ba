//! Conditions on codes: one bit a row, 64 rows a word.
//!
//! - kernel-1. Every word of the output is written: bit `i` of word `w` is row `64 * w + i`, and
//!   bits behind the last row are 0. There are as many words as the rows take.
//! - All levels give the same bits as `plain`.
//! - kernel-2. A level above `plain` exists only where its instructions were detected.
//!
//! No kernel branches on a value: its time depends on the number of rows, not on which of them
//! match. Not here: the translation of a condition into codes (`lower`).

mod plain;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::ops::Range;

use tidegate_model::Codes;

/// The number of ranges with which a vector kernel compares in one pass.
pub const RANGES_MAX: usize = 4;

/// The maximum number of bits of a bitmap of codes: larger sets are searched by binary search.
pub(crate) const BITMAP_BITS_MAX: u64 = 1 << 27;

/// The instructions that kernels may use (kernel-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimdLevel(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl SimdLevel {
    /// The level that every machine supports.
    pub const PLAIN: SimdLevel = SimdLevel(Instructions::Plain);

    /// Detects the fastest level of this machine.
    #[must_use]
    pub fn detect() -> SimdLevel {
        *SimdLevel::available().last().expect("plain is always there")
    }

    /// All levels of this machine, the fastest last.
    #[must_use]
    pub fn available() -> Vec<SimdLevel> {
        let mut levels = vec![SimdLevel::PLAIN];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                levels.push(SimdLevel(Instructions::Avx2));
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vpopcntdq")
            {
                levels.push(SimdLevel(Instructions::Avx512));
            }
        }
        levels
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "avx512",
        }
    }
}

/// A range of codes, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRange {
    /// The lowest code.
    pub first: u64,
    /// The highest code; at least `first`.
    pub last: u64,
}

/// The set of codes that match.
#[derive(Debug, Clone, PartialEq)]
pub enum CodeTest {
    /// At most `RANGES_MAX` ranges.
    Ranges(Vec<CodeRange>),
    /// Codes of one byte: one bit for each code.
    Bytes([u64; 4]),
    /// One bit for each code; codes behind the last word do not match.
    Bitmap(Vec<u64>),
    /// Ranges, ascending, for binary search.
    Sorted(Vec<CodeRange>),
}

impl CodeTest {
    /// The fastest test for codes of `width` bytes in these ascending ranges.
    #[must_use]
    pub fn new(width: usize, ranges: Vec<CodeRange>) -> CodeTest {
        if ranges.len() <= RANGES_MAX {
            return CodeTest::Ranges(ranges);
        }
        let last = ranges.last().map_or(0, |range| range.last);
        if width == 1 {
            let mut bits = [0; 4];
            set_ranges(&mut bits, &ranges);
            return CodeTest::Bytes(bits);
        }
        // A bitmap is used where it is about as large as the list of ranges would be.
        let is_small = last < BITMAP_BITS_MAX && last / 1_024 <= ranges.len() as u64 * 8 + 512;
        if width == 2 || is_small {
            let words = usize::try_from(last / 64 + 1).expect("below BITMAP_BITS_MAX");
            let mut bits = vec![0; if width == 2 { 1_024 } else { words }];
            set_ranges(&mut bits, &ranges);
            return CodeTest::Bitmap(bits);
        }
        CodeTest::Sorted(ranges)
    }

    /// Returns true if a code matches.
    #[must_use]
    pub fn matches(&self, code: u64) -> bool {
        match self {
            CodeTest::Ranges(ranges) | CodeTest::Sorted(ranges) => {
                plain::is_in_sorted(ranges, code)
            }
            CodeTest::Bytes(bits) => plain::is_in_bitmap(bits, code),
            CodeTest::Bitmap(bits) => plain::is_in_bitmap(bits, code),
        }
    }
}

/// Sets the bits of the ranges, as far as they lie within `bits`.
fn set_ranges(bits: &mut [u64], ranges: &[CodeRange]) {
    let end = bits.len() as u64 * 64;
    for range in ranges.iter().filter(|range| range.first < end) {
        let last = range.last.min(end - 1);
        set_bits(bits, as_index(range.first)..as_index(last) + 1);
    }
}

fn as_index(code: u64) -> usize {
    usize::try_from(code).expect("a bit of memory has an address")
}

/// Sets a range of bits, which lie within `words`.
pub(crate) fn set_bits(words: &mut [u64], bits: Range<usize>) {
    if bits.is_empty() {
        return;
    }
    let (first, last) = (bits.start / 64, (bits.end - 1) / 64);
    let (head, tail) = (u64::MAX << (bits.start % 64), u64::MAX >> (63 - (bits.end - 1) % 64));
    if first == last {
        words[first] |= head & tail;
        return;
    }
    words[first] |= head;
    words[first + 1..last].fill(u64::MAX);
    words[last] |= tail;
}

/// Writes a bit for each row of `rows`, set if its code matches (kernel-1); `rows` begins at a
/// multiple of 64.
///
/// # Panics
/// If there are fewer codes, or if the number of words does not fit the rows.
pub fn select(
    level: SimdLevel,
    codes: &Codes<'_>,
    rows: Range<usize>,
    test: &CodeTest,
    out: &mut [u64],
) {
    assert!(rows.start.is_multiple_of(64) && out.len() == rows.len().div_ceil(64), "kernel-1");
    match codes {
        Codes::Same(code) => fill(out, rows.len(), test.matches(u64::from(*code))),
        Codes::Sequence => select_sequence(rows, test, out),
        Codes::Bits(bits) => {
            let (zero, one) = (test.matches(0), test.matches(1));
            select_bits(bits, rows, [zero, one], out);
        }
        Codes::U8(codes) => select_width::<1>(level, codes[rows].as_chunks().0, test, out),
        Codes::U16(codes) => select_width::<2>(level, &codes[rows], test, out),
        Codes::U32(codes) => select_width::<4>(level, &codes[rows], test, out),
        Codes::U64(codes) => select_width::<8>(level, &codes[rows], test, out),
    }
}

/// Sets the bits of all rows, or of none (kernel-1).
pub(crate) fn fill(out: &mut [u64], rows: usize, matches: bool) {
    out.fill(0);
    if matches {
        set_bits(out, 0..rows);
    }
}

fn select_sequence(rows: Range<usize>, test: &CodeTest, out: &mut [u64]) {
    out.fill(0);
    let ranges = match test {
        CodeTest::Ranges(ranges) | CodeTest::Sorted(ranges) => ranges,
        CodeTest::Bytes(_) | CodeTest::Bitmap(_) => {
            for row in rows.clone().filter(|&row| test.matches(row as u64)) {
                out[(row - rows.start) / 64] |= 1 << (row % 64);
            }
            return;
        }
    };
    let (start, end) = (rows.start as u64, rows.end as u64);
    for range in ranges {
        let (from, to) = (range.first.max(start), range.last.saturating_add(1).min(end));
        if from < to {
            set_bits(out, as_index(from - start)..as_index(to - start));
        }
    }
}

/// Selects rows of a bitmap: `on` says for a clear and for a set bit if it matches; `rows` begins
/// at a multiple of 64.
pub(crate) fn select_bits(bits: &[u8], rows: Range<usize>, on: [bool; 2], out: &mut [u64]) {
    match on {
        [false, false] => return fill(out, rows.len(), false),
        [true, true] => return fill(out, rows.len(), true),
        _ => load_words(bits, rows.start, out),
    }
    if on[0] {
        out.iter_mut().for_each(|word| *word = !*word);
    }
    mask_remainder(out, rows.len());
}

/// Copies the words of a bitmap from bit `first` on, as many as `out` has; zeros behind its end.
pub(crate) fn load_words(bits: &[u8], first: usize, out: &mut [u64]) {
    let bytes = &bits[(first / 8).min(bits.len())..];
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words.len().min(out.len());
    for (word, bytes) in out.iter_mut().zip(words) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    for (index, word) in out[whole..].iter_mut().enumerate() {
        *word = if index == 0 { u64::from_le_bytes(last) } else { 0 };
    }
}

/// Clears the bits behind the last row (kernel-1).
pub(crate) fn mask_remainder(words: &mut [u64], rows: usize) {
    if let Some(last) = words.last_mut().filter(|_| !rows.is_multiple_of(64)) {
        *last &= (1 << (rows % 64)) - 1;
    }
}

/// ANDs `matching` into `words`, and returns the number of bits that are set then.
pub(crate) fn and(level: SimdLevel, words: &mut [u64], matching: &[u64]) -> usize {
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => avx512::and(words, matching),
        _ => plain::and(words, matching),
    }
}

/// Selects codes of `N` bytes. The rows behind the last whole word are done by the plain kernel.
fn select_width<const N: usize>(
    level: SimdLevel,
    codes: &[[u8; N]],
    test: &CodeTest,
    out: &mut [u64],
) {
    let whole = codes.len() / 64;
    let (head, rest) = codes.split_at(whole * 64);
    let (words, last) = out.split_at_mut(whole);
    match test {
        CodeTest::Ranges(ranges) => {
            let ranges = within::<N>(ranges);
            match ranges.as_slice() {
                [] => words.fill(0),
                [a] => select_ranges(level, head, [*a], words),
                [a, b] => select_ranges(level, head, [*a, *b], words),
                [a, b, c] => select_ranges(level, head, [*a, *b, *c], words),
                [a, b, c, d, ..] => select_ranges(level, head, [*a, *b, *c, *d], words),
            }
        }
        CodeTest::Bytes(bits) if N == 1 => select_bytes(level, head.as_flattened(), bits, words),
        CodeTest::Bytes(bits) => plain::bitmap(head, bits, words),
        CodeTest::Bitmap(bits) => plain::bitmap(head, bits, words),
        CodeTest::Sorted(ranges) => plain::sorted(head, ranges, words),
    }
    if let Some(last) = last.first_mut() {
        *last = plain::word_of(rest, |code| test.matches(code));
    }
}

/// The ranges limited to codes of `N` bytes; ranges above that match no code.
fn within<const N: usize>(ranges: &[CodeRange]) -> Vec<CodeRange> {
    assert!(ranges.len() <= RANGES_MAX, "CodeTest::Ranges");
    let greatest = u64::MAX >> (64 - 8 * N);
    ranges
        .iter()
        .filter(|range| range.first <= greatest)
        .map(|range| CodeRange { last: range.last.min(greatest), ..*range })
        .collect()
}

fn select_ranges<const N: usize, const R: usize>(
    level: SimdLevel,
    codes: &[[u8; N]],
    ranges: [CodeRange; R],
    out: &mut [u64],
) {
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => avx512::ranges(codes, ranges, out),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => avx2::ranges(codes, ranges, out),
        Instructions::Plain => plain::ranges(codes, ranges, out),
    }
}

fn select_bytes(level: SimdLevel, codes: &[u8], bits: &[u64; 4], out: &mut [u64]) {
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => avx512::bytes(codes, bits, out),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => avx2::bytes(codes, bits, out),
        Instructions::Plain => plain::bytes(codes, bits, out),
    }
}

/// The set of floats that match: ranges, and optionally NaN. -0 equals 0.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatTest {
    /// The minimum and the maximum of each range, neither of them NaN.
    pub ranges: Vec<(f64, f64)>,
    /// True if NaN matches.
    pub nan: bool,
}

/// Writes a bit for each value, set if it matches (kernel-1).
///
/// # Panics
/// If the number of words does not fit the values.
pub fn select_doubles(values: &[[u8; 8]], test: &FloatTest, out: &mut [u64]) {
    assert_eq!(out.len(), values.len().div_ceil(64), "kernel-1");
    plain::floats(values, test, f64::from_le_bytes, out);
}

/// Does the work of `select_doubles` for values of four bytes.
///
/// # Panics
/// If the number of words does not fit the values.
pub fn select_floats(values: &[[u8; 4]], test: &FloatTest, out: &mut [u64]) {
    assert_eq!(out.len(), values.len().div_ceil(64), "kernel-1");
    plain::floats(values, test, |bytes| f64::from(f32::from_le_bytes(bytes)), out);
}

/// The lookup tables of a set of bytes: the rows of the set by the low half of the byte, for high
/// halves below 8 and from 8 on; and the bit of a high half within its row.
#[cfg(target_arch = "x86_64")]
fn byte_tables(bits: &[u64; 4]) -> [[u8; 16]; 3] {
    let is_set = |byte: usize| bits[byte / 64] >> (byte % 64) & 1 == 1;
    let row = |low: usize, high: Range<usize>| {
        high.rev().fold(0_u8, |row, high| row << 1 | u8::from(is_set(high << 4 | low)))
    };
    [
        std::array::from_fn(|low| row(low, 0..8)),
        std::array::from_fn(|low| row(low, 8..16)),
        std::array::from_fn(|high| 1 << (high % 8)),
    ]
}
