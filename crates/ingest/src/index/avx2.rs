//! The structural index with AVX2: comparisons 32 bytes at a time, positions one by one.
//!
//! All functions have the same target features: a closure is inlined only into a function that has
//! at least the features of the closure.

#![expect(unsafe_code, reason = "vector instructions that the caller has detected")]

use std::arch::x86_64::{
    __m256i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi8,
    _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8,
};

use super::{
    Carry, FieldIndex, IndexOutcome, Masks, SLACK, Start, StructuralCounts, Structure,
    push_row_ends,
};

pub(super) fn count(text: &[u8], structure: &Structure) -> StructuralCounts {
    // SAFETY: `Kernel::Avx2` exists only where these instructions were detected.
    unsafe { count_detected(text, structure) }
}

pub(super) fn index(
    text: &[u8],
    start: Start,
    structure: &Structure,
    index: &mut FieldIndex,
) -> IndexOutcome {
    // SAFETY: `Kernel::Avx2` exists only where these instructions were detected.
    unsafe { index_detected(text, start, structure, index) }
}

#[target_feature(enable = "avx2,pclmulqdq,popcnt,bmi1,bmi2")]
fn count_detected(text: &[u8], structure: &Structure) -> StructuralCounts {
    let finder = Finder::new(structure);
    let mut counts = StructuralCounts::default();
    for_each_64(text, |bytes, mask| {
        let masks = finder.masks(bytes);
        counts.quotes += u64::from((masks.quotes & mask).count_ones());
        counts.line_ends += u64::from((masks.line_ends & mask).count_ones());
    });
    counts
}

#[target_feature(enable = "avx2,pclmulqdq,popcnt,bmi1,bmi2")]
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
        let found_masks = finder.masks(bytes);
        let masks = Masks {
            delimiters: found_masks.delimiters & mask,
            line_ends: found_masks.line_ends & mask,
            quotes: found_masks.quotes & mask,
        };
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

/// Calls `step` for every 64 bytes; the mask has a bit for each byte of the text: the last ones are
/// padded with zeros.
#[inline]
#[target_feature(enable = "avx2,pclmulqdq,popcnt,bmi1,bmi2")]
fn for_each_64(text: &[u8], mut step: impl FnMut(&[u8; 64], u64)) {
    let (whole, rest) = text.as_chunks::<64>();
    for bytes in whole {
        step(bytes, u64::MAX);
    }
    if !rest.is_empty() {
        let mut bytes = [0_u8; 64];
        bytes[..rest.len()].copy_from_slice(rest);
        step(&bytes, (1 << rest.len()) - 1);
    }
}

/// The bytes that are searched, in every lane.
struct Finder {
    delimiter: __m256i,
    line_end: __m256i,
    quote: __m256i,
    /// All ones if there is a quote byte.
    quotes: u64,
}

impl Finder {
    #[target_feature(enable = "avx2,pclmulqdq,popcnt,bmi1,bmi2")]
    fn new(structure: &Structure) -> Finder {
        Finder {
            delimiter: _mm256_set1_epi8(structure.delimiter.cast_signed()),
            line_end: _mm256_set1_epi8(structure.line_end.cast_signed()),
            quote: _mm256_set1_epi8(structure.quote.unwrap_or(0).cast_signed()),
            quotes: if structure.quote.is_some() { u64::MAX } else { 0 },
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,pclmulqdq,popcnt,bmi1,bmi2")]
    fn masks(&self, bytes: &[u8; 64]) -> Masks {
        // SAFETY: 32 bytes are readable at the start and in the middle of 64.
        let (low, high) = unsafe {
            (
                _mm256_loadu_si256(bytes.as_ptr().cast()),
                _mm256_loadu_si256(bytes.as_ptr().add(32).cast()),
            )
        };
        let equal = |wanted: __m256i| {
            let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted)).cast_unsigned();
            let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted)).cast_unsigned();
            u64::from(low) | u64::from(high) << 32
        };
        Masks {
            delimiters: equal(self.delimiter),
            line_ends: equal(self.line_end),
            quotes: equal(self.quote) & self.quotes,
        }
    }
}

/// The parity of all bits up to and including bit i, in bit i.
#[inline]
#[target_feature(enable = "pclmulqdq")]
pub(super) fn prefix_parity(bits: u64) -> u64 {
    let bits = _mm_set_epi64x(0, bits.cast_signed());
    let product = _mm_clmulepi64_si128::<0>(bits, _mm_set1_epi8(-1));
    _mm_cvtsi128_si64(product).cast_unsigned()
}

/// Writes `base` plus the number of every set bit, eight at a time.
///
/// # Safety
/// `slots` must have room for 64 positions.
#[inline]
#[target_feature(enable = "avx2,pclmulqdq,popcnt,bmi1,bmi2")]
unsafe fn write_positions(base: u32, mut bits: u64, slots: *mut u32) {
    let count = bits.count_ones() as usize;
    let mut written = 0;
    while written < count {
        for slot in written..written + 8 {
            // SAFETY: slots up to the next multiple of eight are written, 64 at most.
            unsafe { slots.add(slot).write(base + bits.trailing_zeros()) };
            bits &= bits.wrapping_sub(1);
        }
        written += 8;
    }
}
