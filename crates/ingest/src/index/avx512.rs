//! The structural index with AVX-512: comparisons 64 bytes at a time, positions by compression.
//!
//! All functions have the same target features: a closure is inlined only into a function that has
//! at least the features of the closure.

#![expect(unsafe_code, reason = "vector instructions that the caller has detected")]

use std::arch::x86_64::{
    __m128i, __m512i, _mm512_add_epi32, _mm512_castsi512_si128, _mm512_cmpeq_epi8_mask,
    _mm512_cvtepu8_epi32, _mm512_extracti32x4_epi32, _mm512_loadu_si512,
    _mm512_maskz_compress_epi8, _mm512_maskz_loadu_epi8, _mm512_set1_epi8, _mm512_set1_epi32,
    _mm512_storeu_si512,
};

use super::avx2::prefix_parity;
use super::{
    Carry, FieldIndex, IndexOutcome, Masks, SLACK, Start, StructuralCounts, Structure,
    push_row_ends,
};

pub(super) fn count(text: &[u8], structure: &Structure) -> StructuralCounts {
    // SAFETY: `Kernel::Avx512` exists only where these instructions were detected.
    unsafe { count_detected(text, structure) }
}

pub(super) fn index(
    text: &[u8],
    start: Start,
    structure: &Structure,
    index: &mut FieldIndex,
) -> IndexOutcome {
    // SAFETY: `Kernel::Avx512` exists only where these instructions were detected.
    unsafe { index_detected(text, start, structure, index) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
fn count_detected(text: &[u8], structure: &Structure) -> StructuralCounts {
    let finder = Finder::new(structure);
    let mut counts = StructuralCounts::default();
    for_each_64(text, |bytes, mask| {
        let masks = finder.masks(bytes, mask);
        counts.quotes += u64::from(masks.quotes.count_ones());
        counts.line_ends += u64::from(masks.line_ends.count_ones());
    });
    counts
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
fn index_detected(
    text: &[u8],
    start: Start,
    structure: &Structure,
    index: &mut FieldIndex,
) -> IndexOutcome {
    let finder = Finder::new(structure);
    let mut carry = Carry::new(start);
    let mut position = 0_u32;
    let FieldIndex { field_ends, row_ends } = index;
    field_ends.reserve(text.len() + SLACK); // index-3
    let slots = field_ends.as_mut_ptr();
    let mut count = 0;
    for_each_64(text, |bytes, mask| {
        let masks = finder.masks(bytes, mask);
        let (ends, line_ends) = carry.step(masks, prefix_parity(masks.quotes));
        push_row_ends(count, ends, line_ends, row_ends);
        // SAFETY: fewer than `text.len()` positions were written before these (index-3).
        unsafe { write_positions(position, ends, slots.add(count)) };
        count += ends.count_ones() as usize;
        position += 64;
    });
    // SAFETY: this many positions were written, and at least as many reserved.
    unsafe { field_ends.set_len(count) };
    carry.outcome(text, start, structure)
}

/// Calls `step` for every 64 bytes, the last ones padded with zeros, with a mask of the bytes of
/// the text.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
fn for_each_64(text: &[u8], mut step: impl FnMut(__m512i, u64)) {
    let (whole, rest) = text.as_chunks::<64>();
    for bytes in whole {
        // SAFETY: 64 bytes are readable.
        step(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }, u64::MAX);
    }
    if !rest.is_empty() {
        let mask = (1 << rest.len()) - 1;
        // SAFETY: masked lanes are not read.
        step(unsafe { _mm512_maskz_loadu_epi8(mask, rest.as_ptr().cast()) }, mask);
    }
}

/// The bytes that are searched, in every lane.
struct Finder {
    delimiter: __m512i,
    line_end: __m512i,
    quote: __m512i,
    /// All ones if there is a quote byte.
    quotes: u64,
}

impl Finder {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
    fn new(structure: &Structure) -> Finder {
        Finder {
            delimiter: _mm512_set1_epi8(structure.delimiter.cast_signed()),
            line_end: _mm512_set1_epi8(structure.line_end.cast_signed()),
            quote: _mm512_set1_epi8(structure.quote.unwrap_or(0).cast_signed()),
            quotes: if structure.quote.is_some() { u64::MAX } else { 0 },
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
    fn masks(&self, bytes: __m512i, text: u64) -> Masks {
        Masks {
            delimiters: _mm512_cmpeq_epi8_mask(bytes, self.delimiter) & text,
            line_ends: _mm512_cmpeq_epi8_mask(bytes, self.line_end) & text,
            quotes: _mm512_cmpeq_epi8_mask(bytes, self.quote) & text & self.quotes,
        }
    }
}

/// The numbers 0 to 63.
const LANES: [u8; 64] = {
    let mut lanes = [0; 64];
    let mut lane = 0;
    while lane < 64 {
        #[expect(clippy::cast_possible_truncation, reason = "below 64")]
        let number = lane as u8;
        lanes[lane] = number;
        lane += 1;
    }
    lanes
};

/// Writes `base` plus the number of every set bit: the numbers of set lanes are compressed to the
/// front, then widened sixteen at a time.
///
/// # Safety
/// `slots` must have room for 64 positions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
unsafe fn write_positions(base: u32, bits: u64, slots: *mut u32) {
    // SAFETY: LANES has 64 bytes; sixteen positions at a time are written, 64 at most.
    unsafe {
        let lanes = _mm512_loadu_si512(LANES.as_ptr().cast());
        let numbers = _mm512_maskz_compress_epi8(bits, lanes);
        let base = _mm512_set1_epi32(base.cast_signed());
        let widened = |sixteen: __m128i| _mm512_add_epi32(_mm512_cvtepu8_epi32(sixteen), base);
        // Text rarely has more than sixteen fields in 64 bytes: the first store needs no branch.
        _mm512_storeu_si512(slots.cast(), widened(_mm512_castsi512_si128(numbers)));
        if bits.count_ones() > 16 {
            let second = _mm512_extracti32x4_epi32::<1>(numbers);
            let third = _mm512_extracti32x4_epi32::<2>(numbers);
            let fourth = _mm512_extracti32x4_epi32::<3>(numbers);
            _mm512_storeu_si512(slots.add(16).cast(), widened(second));
            _mm512_storeu_si512(slots.add(32).cast(), widened(third));
            _mm512_storeu_si512(slots.add(48).cast(), widened(fourth));
        }
    }
}
