//! Kernels with AVX2: 32 bytes of codes at a time.
//!
//! AVX2 has no unsigned comparison: `a <= b` is `min(a, b) == a`; for eight bytes, where there is
//! no minimum either, it is a signed comparison of numbers with their highest bit inverted.

#![expect(unsafe_code, reason = "vector instructions that the caller has detected")]

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_castsi256_pd,
    _mm256_castsi256_ps, _mm256_cmpeq_epi8, _mm256_cmpeq_epi16, _mm256_cmpeq_epi32,
    _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_min_epu8, _mm256_min_epu16, _mm256_min_epu32,
    _mm256_movemask_epi8, _mm256_movemask_pd, _mm256_movemask_ps, _mm256_or_si256,
    _mm256_packs_epi16, _mm256_permute4x64_epi64, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi16, _mm256_sub_epi8, _mm256_sub_epi16, _mm256_sub_epi32, _mm256_sub_epi64,
    _mm256_xor_si256,
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

#[inline]
#[target_feature(enable = "avx2")]
fn load(lane: &[u8; 32]) -> __m256i {
    // SAFETY: the lane has 32 bytes; unaligned loads are fine.
    unsafe { _mm256_loadu_si256(lane.as_ptr().cast()) }
}

/// Sets all bits of the lanes in which `a <= b`.
macro_rules! at_most {
    ($name:ident, $min:ident, $equal:ident) => {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn $name(a: __m256i, b: __m256i) -> __m256i {
            $equal($min(a, b), a)
        }
    };
}

at_most!(at_most_u8, _mm256_min_epu8, _mm256_cmpeq_epi8);
at_most!(at_most_u16, _mm256_min_epu16, _mm256_cmpeq_epi16);
at_most!(at_most_u32, _mm256_min_epu32, _mm256_cmpeq_epi32);

/// Sets all bits of the lanes in which `a > b`.
#[inline]
#[target_feature(enable = "avx2")]
fn above_u64(a: __m256i, b: __m256i) -> __m256i {
    let highest = _mm256_set1_epi64x(i64::MIN);
    _mm256_cmpgt_epi64(_mm256_xor_si256(a, highest), _mm256_xor_si256(b, highest))
}

#[inline]
#[target_feature(enable = "avx2")]
fn at_most_u64(a: __m256i, b: __m256i) -> __m256i {
    _mm256_xor_si256(above_u64(a, b), _mm256_set1_epi64x(-1))
}

/// Sets all bits of the lanes whose codes are in one of the ranges.
macro_rules! lanes_of {
    ($name:ident, $signed:ty, $set:ident, $sub:ident, $at_most:ident) => {
        #[inline]
        #[target_feature(enable = "avx2")]
        #[expect(clippy::allow_attributes, reason = "the casts differ from width to width")]
        #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "cut before")]
        fn $name<const R: usize>(codes: __m256i, ranges: &[CodeRange; R]) -> __m256i {
            let mut lanes = _mm256_setzero_si256();
            for range in ranges {
                let first = $set(range.first as $signed);
                let span = $set((range.last - range.first) as $signed);
                lanes = _mm256_or_si256(lanes, $at_most($sub(codes, first), span));
            }
            lanes
        }
    };
}

lanes_of!(lanes_u8, i8, _mm256_set1_epi8, _mm256_sub_epi8, at_most_u8);
lanes_of!(lanes_u16, i16, _mm256_set1_epi16, _mm256_sub_epi16, at_most_u16);
lanes_of!(lanes_u32, i32, _mm256_set1_epi32, _mm256_sub_epi32, at_most_u32);
lanes_of!(lanes_u64, i64, _mm256_set1_epi64x, _mm256_sub_epi64, at_most_u64);

/// The bits of a movemask, which are the low bits of an `i32`.
#[inline]
fn bits(mask: i32) -> u64 {
    u64::from(mask.cast_unsigned())
}

#[target_feature(enable = "avx2")]
fn ranges_u8<const R: usize>(bytes: &[u8], ranges: [CodeRange; R], out: &mut [u64]) {
    for (word, codes) in out.iter_mut().zip(bytes.as_chunks::<64>().0) {
        let mut matching = 0;
        for (part, lane) in codes.as_chunks::<32>().0.iter().enumerate() {
            let lanes = lanes_u8(load(lane), &ranges);
            matching |= bits(_mm256_movemask_epi8(lanes)) << (part * 32);
        }
        *word = matching;
    }
}

#[target_feature(enable = "avx2")]
fn ranges_u16<const R: usize>(bytes: &[u8], ranges: [CodeRange; R], out: &mut [u64]) {
    for (word, codes) in out.iter_mut().zip(bytes.as_chunks::<128>().0) {
        let mut matching = 0;
        for (part, pair) in codes.as_chunks::<64>().0.iter().enumerate() {
            let [low, high] = [0, 1].map(|half| &pair.as_chunks::<32>().0[half]);
            let (low, high) = (lanes_u16(load(low), &ranges), lanes_u16(load(high), &ranges));
            // The pack instruction works on halves of 16 bytes: the middle two quarters are
            // exchanged.
            let lanes = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
            matching |= bits(_mm256_movemask_epi8(lanes)) << (part * 32);
        }
        *word = matching;
    }
}

#[target_feature(enable = "avx2")]
fn ranges_u32<const R: usize>(bytes: &[u8], ranges: [CodeRange; R], out: &mut [u64]) {
    for (word, codes) in out.iter_mut().zip(bytes.as_chunks::<256>().0) {
        let mut matching = 0;
        for (part, lane) in codes.as_chunks::<32>().0.iter().enumerate() {
            let lanes = _mm256_castsi256_ps(lanes_u32(load(lane), &ranges));
            matching |= bits(_mm256_movemask_ps(lanes)) << (part * 8);
        }
        *word = matching;
    }
}

#[target_feature(enable = "avx2")]
fn ranges_u64<const R: usize>(bytes: &[u8], ranges: [CodeRange; R], out: &mut [u64]) {
    for (word, codes) in out.iter_mut().zip(bytes.as_chunks::<512>().0) {
        let mut matching = 0;
        for (part, lane) in codes.as_chunks::<32>().0.iter().enumerate() {
            let lanes = _mm256_castsi256_pd(lanes_u64(load(lane), &ranges));
            matching |= bits(_mm256_movemask_pd(lanes)) << (part * 4);
        }
        *word = matching;
    }
}

pub(super) fn bytes(codes: &[u8], bits: &[u64; 4], out: &mut [u64]) {
    // SAFETY: kernel-2, this level exists only where these instructions were detected.
    unsafe { bytes_detected(codes, bits, out) }
}

#[target_feature(enable = "avx2")]
fn bytes_detected(codes: &[u8], set: &[u64; 4], out: &mut [u64]) {
    let [below, above, of_high] = byte_tables(set).map(|table| {
        // SAFETY: a table has 16 bytes.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) }
    });
    // A shuffle gives 0 where the highest bit of its index is set: each table serves one half.
    let index_bits = _mm256_set1_epi8(0x8F_u8.cast_signed());
    let highest = _mm256_set1_epi8(0x80_u8.cast_signed());
    let high_bits = _mm256_set1_epi8(0x07);
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        let mut matching = 0;
        for (part, lane) in codes.as_chunks::<32>().0.iter().enumerate() {
            let lane = load(lane);
            let index = _mm256_and_si256(lane, index_bits);
            let row = _mm256_or_si256(
                _mm256_shuffle_epi8(below, index),
                _mm256_shuffle_epi8(above, _mm256_xor_si256(index, highest)),
            );
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(lane), high_bits);
            let bit = _mm256_shuffle_epi8(of_high, high);
            let lanes = _mm256_cmpeq_epi8(_mm256_and_si256(row, bit), bit);
            matching |= bits(_mm256_movemask_epi8(lanes)) << (part * 32);
        }
        *word = matching;
    }
}
