//! Portable kernels: loops without intrinsics that the compiler can vectorize.

use super::{CodeRange, FloatTest};

/// Returns a little-endian code of `N` bytes as a number.
#[inline]
fn code<const N: usize>(bytes: [u8; N]) -> u64 {
    let mut word = [0; 8];
    word[..N].copy_from_slice(&bytes);
    u64::from_le_bytes(word)
}

/// Packs 64 bytes that are 0 or 1 into the bits of a word.
#[inline]
fn pack(flags: &[u8; 64]) -> u64 {
    // The product moves the lowest bit of byte `i` to bit `56 + i`, where no other bit arrives.
    let (lanes, _) = flags.as_chunks::<8>();
    lanes.iter().rev().fold(0, |word, lane| {
        word << 8 | u64::from_le_bytes(*lane).wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// Does the work of `super::and`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled for each level's instructions")]
pub(super) fn and(words: &mut [u64], matching: &[u64]) -> usize {
    let mut count = 0;
    for (word, matching) in words.iter_mut().zip(matching) {
        *word &= matching;
        count += u64::from(word.count_ones());
    }
    usize::try_from(count).expect("as many as there are rows")
}

/// The word of up to 64 codes: bit `i` is set if code `i` matches.
#[inline]
pub(super) fn word_of<const N: usize>(codes: &[[u8; N]], matches: impl Fn(u64) -> bool) -> u64 {
    codes.iter().rev().fold(0, |word, bytes| word << 1 | u64::from(matches(code(*bytes))))
}

pub(super) fn is_in_bitmap(bits: &[u64], code: u64) -> bool {
    let word = usize::try_from(code / 64).ok().and_then(|word| bits.get(word));
    word.is_some_and(|word| word >> (code % 64) & 1 == 1)
}

pub(super) fn is_in_sorted(ranges: &[CodeRange], code: u64) -> bool {
    let at = ranges.partition_point(|range| range.last < code);
    ranges.get(at).is_some_and(|range| range.first <= code)
}

macro_rules! ranges_of {
    ($name:ident, $ty:ty, $bytes:literal) => {
        #[inline]
        fn $name<const R: usize>(codes: &[[u8; $bytes]], ranges: [CodeRange; R], out: &mut [u64]) {
            let cut = |code: u64| <$ty>::try_from(code).expect("`within` has cut it");
            let firsts = ranges.map(|range| cut(range.first));
            let spans = ranges.map(|range| cut(range.last - range.first));
            for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
                let mut flags = [0_u8; 64];
                for (flag, bytes) in flags.iter_mut().zip(codes) {
                    let code = <$ty>::from_le_bytes(*bytes);
                    for range in 0..R {
                        *flag |= u8::from(code.wrapping_sub(firsts[range]) <= spans[range]);
                    }
                }
                *word = pack(&flags);
            }
        }
    };
}

ranges_of!(ranges_u8, u8, 1);
ranges_of!(ranges_u16, u16, 2);
ranges_of!(ranges_u32, u32, 4);
ranges_of!(ranges_u64, u64, 8);

pub(super) fn ranges<const N: usize, const R: usize>(
    codes: &[[u8; N]],
    ranges: [CodeRange; R],
    out: &mut [u64],
) {
    let bytes = codes.as_flattened();
    match N {
        1 => ranges_u8(bytes.as_chunks().0, ranges, out),
        2 => ranges_u16(bytes.as_chunks().0, ranges, out),
        4 => ranges_u32(bytes.as_chunks().0, ranges, out),
        _ => ranges_u64(bytes.as_chunks().0, ranges, out),
    }
}

pub(super) fn bytes(codes: &[u8], bits: &[u64; 4], out: &mut [u64]) {
    let table: [u8; 256] =
        std::array::from_fn(|code| u8::from(bits[code / 64] >> (code % 64) & 1 == 1));
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        *word = pack(&codes.map(|code| table[usize::from(code)]));
    }
}

pub(super) fn bitmap<const N: usize>(codes: &[[u8; N]], bits: &[u64], out: &mut [u64]) {
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        *word = word_of(codes, |code| is_in_bitmap(bits, code));
    }
}

pub(super) fn sorted<const N: usize>(codes: &[[u8; N]], ranges: &[CodeRange], out: &mut [u64]) {
    for (word, codes) in out.iter_mut().zip(codes.as_chunks::<64>().0) {
        *word = word_of(codes, |code| is_in_sorted(ranges, code));
    }
}

pub(super) fn floats<const N: usize>(
    values: &[[u8; N]],
    test: &FloatTest,
    value: impl Fn([u8; N]) -> f64,
    out: &mut [u64],
) {
    let (whole, rest) = values.as_chunks::<64>();
    for (word, values) in out.iter_mut().zip(whole) {
        let mut flags = [0_u8; 64];
        for &(least, greatest) in &test.ranges {
            for (flag, bytes) in flags.iter_mut().zip(values) {
                let value = value(*bytes);
                *flag |= u8::from(least <= value) & u8::from(value <= greatest);
            }
        }
        if test.nan {
            for (flag, bytes) in flags.iter_mut().zip(values) {
                *flag |= u8::from(value(*bytes).is_nan());
            }
        }
        *word = pack(&flags);
    }
    if let Some(last) = out.get_mut(whole.len()) {
        *last = rest.iter().rev().fold(0, |word, bytes| {
            let value = value(*bytes);
            let within = |&(least, greatest): &(f64, f64)| least <= value && value <= greatest;
            let matches = test.ranges.iter().any(within) || (test.nan && value.is_nan());
            word << 1 | u64::from(matches)
        });
    }
}
