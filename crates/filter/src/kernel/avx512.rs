//! Kernels with AVX-512: 64 bytes of codes at a time; comparisons give bit masks directly.
//!
//! A code is in a range if its unsigned distance from the first code of the range is at most that
//! of the last code.

#![expect(unsafe_code, reason = "vector instructions that the caller has detected")]

use std::arch::x86_64::{
    _mm_loadu_si128, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_cmple_epu8_mask,
    _mm512_cmple_epu16_mask, _mm512_cmple_epu32_mask, _mm512_cmple_epu64_mask, _mm512_loadu_si512,
    _mm512_or_si512, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_sub_epi8,
    _mm512_sub_epi16, _mm512_sub_epi32, _mm512_sub_epi64, _mm512_test_epi8_mask, _mm512_xor_si512,
};

use super::{CodeRange, byte_tables};

pub(super) fn ranges<const N: usize, const R: usize>(
    codes: &[[u8; N]],
    ranges: [CodeRange; R],
    out: &mut [u64],
) {
    let bytes = codes.as_flattened();
    // SAFETY: kernel-2, this level exists only where these instructions were detected.
    unsafe {
        match N {
            1 => ranges_u8(bytes, ranges, out),
            2 => ranges_u16(bytes, ranges, out),
            4 => ranges_u32(bytes, ranges, out),
            _ => ranges_u64(bytes, ranges, out),
        }
    }
}

macro_rules! ranges_of {
    ($name:ident, $signed:ty, $width:literal, $set:ident, $sub:ident, $compare:ident) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        #[expect(clippy::allow_attributes, reason = "the casts differ from width to width")]
        #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "cut before")]
        fn $name<const R: usize>(bytes: &[u8], ranges: [CodeRange; R], out: &mut [u64]) {
            let (mut firsts, mut spans) =
                ([_mm512_setzero_si512(); R], [_mm512_setzero_si512(); R]);
            for (range, (first, span)) in ranges.iter().zip(firsts.iter_mut().zip(&mut spans)) {
                *first = $set(range.first as $signed);
                *span = $set((range.last - range.first) as $signed);
            }
            for (word, codes) in out.iter_mut().zip(bytes.as_chunks::<{ 64 * $width }>().0) {
                let mut bits = 0;
                for (part, lane) in codes.as_chunks::<64>().0.iter().enumerate() {
                    // SAFETY: the lane has 64 bytes; unaligned loads are fine.
                    let lane = unsafe { _mm512_loadu_si512(lane.as_ptr().cast()) };
                    let mut mask = 0;
                    for range in 0..R {
                        mask |= $compare($sub(lane, firsts[range]), spans[range]);
                    }
                    bits |= u64::from(mask) << (part * (64 / $width));
                }
                *word = bits;
            }
        }
    };
}

ranges_of!(ranges_u8, i8, 1, _mm512_set1_epi8, _mm512_sub_epi8, _mm512_cmple_epu8_mask);
ranges_of!(ranges_u16, i16, 2, _mm512_set1_epi16, _mm512_sub_epi16, _mm512_cmple_epu16_mask);
ranges_of!(ranges_u32, i32, 4, _mm512_set1_epi32, _mm512_sub_epi32, _mm512_cmple_epu32_mask);
ranges_of!(ranges_u64, i64, 8, _mm512_set1_epi64, _mm512_sub_epi64, _mm512_cmple_epu64_mask);

pub(super) fn bytes(codes: &[u8], bits: &[u64; 4], out: &mut [u64]) {
    // SAFETY: kernel-2, this level exists only where these instructions were detected.
    unsafe { bytes_detected(codes, bits, out) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn bytes_detected(codes: &[u8], bits: &[u64; 4], out: &mut [u64]) {
    let [below, above, of_high] = byte_tables(bits).map(|table| {
        // SAFETY: a table has 16 bytes.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())) }
    });
    // A shuffle gives 0 where the highest bit of its index is set: each table serves one half.
    let index_bits = _mm512_set1_epi8(0x8F_u8.cast_signed());
    let highest = _mm512_set1_epi8(0x80_u8.cast_signed());
    let high_bits = _mm512_set1_epi8(0x07);
    for (word, lane) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        // SAFETY: the lane has 64 bytes; unaligned loads are fine.
        let lane = unsafe { _mm512_loadu_si512(lane.as_ptr().cast()) };
        let index = _mm512_and_si512(lane, index_bits);
        let row = _mm512_or_si512(
            _mm512_shuffle_epi8(below, index),
            _mm512_shuffle_epi8(above, _mm512_xor_si512(index, highest)),
        );
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(lane), high_bits);
        *word = _mm512_test_epi8_mask(row, _mm512_shuffle_epi8(of_high, high));
    }
}

pub(super) fn and(words: &mut [u64], matching: &[u64]) -> usize {
    // SAFETY: kernel-2, this level exists only where these instructions were detected.
    unsafe { and_detected(words, matching) }
}

/// Runs the plain loop, which the compiler vectorizes here because the instruction that counts bits
/// in vectors is enabled.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq")]
fn and_detected(words: &mut [u64], matching: &[u64]) -> usize {
    super::plain::and(words, matching)
}
