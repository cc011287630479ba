//! Plain integers of a parsed batch's column: eight rows at a time with AVX-512, else row by row.
//!
//! - A field is plain if it has one to eight digits, perhaps behind a minus; with AVX-512 a
//!   minus and eight digits are not plain, nor is a field in the first eight bytes of the text.
//!   Fields that are not plain are left to the parser of the type, which supports all forms.
//! - Both ways read the same number wherever both call a field plain.
//!
//! Not here: quotes, NULL and parse errors, which the caller handles.

#![expect(unsafe_code, reason = "vector instructions that were detected, and their gathers")]

use super::RowsOfText;
use crate::index::Kernel;
use crate::parse;
use crate::parsed_batch::PARSED_BATCH_ROWS;

/// The minimum and the maximum of a type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) min: i64,
    pub(super) max: i64,
    pub(super) zeros: Zeros,
}

/// The treatment of a number with zeros before its first digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zeros {
    Plain,
    /// `007` and `-0` are left to the parser.
    NotPlain,
}

/// The integers of one parsed batch's rows.
#[derive(Debug)]
pub(super) struct PlainIntegers {
    /// The values; undefined for rows that are not plain.
    pub(super) values: [i64; PARSED_BATCH_ROWS],
    /// A bit for each row, eight rows a byte.
    pub(super) is_plain: [u8; PARSED_BATCH_ROWS / 8],
}

impl PlainIntegers {
    pub(super) const NONE: PlainIntegers =
        PlainIntegers { values: [0; PARSED_BATCH_ROWS], is_plain: [0; PARSED_BATCH_ROWS / 8] };

    /// Reads the column that is field `source` of each row.
    pub(super) fn read(
        &mut self,
        kernel: Kernel,
        rows: &RowsOfText<'_>,
        source: usize,
        bounds: Bounds,
    ) {
        assert!(rows.rows.len() <= PARSED_BATCH_ROWS, "rows of one parsed batch");
        match kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => {
                // SAFETY: `Kernel::Avx512` exists only where these instructions were detected.
                unsafe { avx512::read(self, rows, source, bounds) }
            }
            _ => self.read_each(rows, source, bounds),
        }
    }

    fn read_each(&mut self, rows: &RowsOfText<'_>, source: usize, bounds: Bounds) {
        self.is_plain.fill(0);
        for (row, &place) in rows.rows.iter().enumerate() {
            let (start, end) = rows.bounds(place, source);
            let value = plain_digits(rows.text, start, end);
            if let Some(value) = value.filter(|value| (bounds.min..=bounds.max).contains(value)) {
                self.values[row] = value;
                self.is_plain[row / 8] |= 1 << (row % 8);
            }
        }
        if bounds.zeros == Zeros::NotPlain {
            for (row, &place) in rows.rows.iter().enumerate() {
                let (start, end) = rows.bounds(place, source);
                let is_padded = is_padded(rows.text, start, end);
                self.is_plain[row / 8] &= !(u8::from(is_padded) << (row % 8));
            }
        }
    }
}

/// Returns true if a field has a leading zero that its number does not show.
#[inline]
fn is_padded(text: &[u8], start: usize, end: usize) -> bool {
    // A field that its record lacks begins behind its end.
    let field = text.get(start..end).unwrap_or_default();
    matches!(field, [b'-', b'0', ..] | [b'0', _, ..])
}

/// The number of a field of up to eight digits and perhaps a minus.
#[inline]
fn plain_digits(text: &[u8], start: usize, end: usize) -> Option<i64> {
    let is_negative = text.get(start) == Some(&b'-');
    let digits = end.wrapping_sub(start).wrapping_sub(usize::from(is_negative));
    // No digits, a record's first field at the very start of the text, or too many digits.
    if digits.wrapping_sub(1) >= 8 {
        return None;
    }
    let word = text.get(..end)?.last_chunk::<8>()?;
    let digits = (parse::word_at(word, 0) ^ parse::ZEROS) & (u64::MAX << (64 - 8 * digits));
    if !parse::all_digits(digits) {
        return None;
    }
    let magnitude = parse::number(digits).cast_signed();
    Some(if is_negative { -magnitude } else { magnitude })
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm256_setzero_si256, _mm512_add_epi8, _mm512_add_epi64, _mm512_and_si512,
        _mm512_cvtepu32_epi64, _mm512_madd_epi16, _mm512_maddubs_epi16,
        _mm512_mask_cmpeq_epi64_mask, _mm512_mask_cmpge_epi64_mask, _mm512_mask_cmpgt_epu64_mask,
        _mm512_mask_cmple_epi64_mask, _mm512_mask_cmple_epu64_mask, _mm512_mask_cmplt_epu64_mask,
        _mm512_mask_i64gather_epi32, _mm512_mask_i64gather_epi64, _mm512_mask_sub_epi64,
        _mm512_mask_testn_epi64_mask, _mm512_maskz_loadu_epi64, _mm512_mul_epu32, _mm512_or_si512,
        _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_epi64,
        _mm512_setzero_si512, _mm512_slli_epi64, _mm512_sllv_epi64, _mm512_srli_epi64,
        _mm512_srlv_epi64, _mm512_storeu_si512, _mm512_sub_epi64, _mm512_xor_si512,
    };

    use super::super::{RowPlace, RowsOfText};
    use super::{Bounds, PlainIntegers, Zeros};

    /// # Safety
    /// The instructions must be available.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn read(
        into: &mut PlainIntegers,
        rows: &RowsOfText<'_>,
        source: usize,
        bounds: Bounds,
    ) {
        let (mins, maxs) = (_mm512_set1_epi64(bounds.min), _mm512_set1_epi64(bounds.max));
        for (eight, places) in rows.rows.chunks(8).enumerate() {
            let live = u8::MAX >> (8 - places.len());
            let (text_ends, lengths, live) = fields(rows, places, live, source);
            let (values, plain) = numbers(rows.text, text_ends, lengths, live, bounds.zeros);
            let plain = _mm512_mask_cmpge_epi64_mask(plain, values, mins);
            let plain = _mm512_mask_cmple_epi64_mask(plain, values, maxs);
            let slots: &mut [i64] = &mut into.values[eight * 8..][..8];
            // SAFETY: the array has room for eight values.
            unsafe { _mm512_storeu_si512(slots.as_mut_ptr().cast(), values) };
            into.is_plain[eight] = plain;
        }
    }

    /// The ends and the lengths of the fields of these rows, and a mask of those fields that exist,
    /// have one to eight bytes, and have eight bytes of text before their end.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn fields(
        rows: &RowsOfText<'_>,
        places: &[RowPlace],
        live: u8,
        source: usize,
    ) -> (__m512i, __m512i, u8) {
        let low = _mm512_set1_epi64(0xFFFF_FFFF);
        let count = |length: usize| _mm512_set1_epi64(length.cast_signed() as i64);
        // SAFETY: a place is two numbers of four bytes, and only existing places are read.
        let pairs = unsafe { _mm512_maskz_loadu_epi64(live, places.as_ptr().cast()) };
        let index = _mm512_add_epi64(_mm512_srli_epi64::<32>(pairs), count(source));
        let live = _mm512_mask_cmplt_epu64_mask(live, index, count(rows.field_ends.len()));
        let zero = _mm512_setzero_si512();
        let (starts, ends) = if source == 0 {
            let base = rows.field_ends.as_ptr().cast();
            // SAFETY: live lanes are within the ends.
            let ends = unsafe {
                _mm512_mask_i64gather_epi32::<4>(_mm256_setzero_si256(), live, index, base)
            };
            (_mm512_and_si512(pairs, low), _mm512_cvtepu32_epi64(ends))
        } else {
            let before = _mm512_sub_epi64(index, _mm512_set1_epi64(1));
            let base = rows.field_ends.as_ptr().cast();
            // SAFETY: live lanes are within the ends, and so are those before them, since `source`
            // is not 0: two ends of four bytes are one of eight.
            let both = unsafe { _mm512_mask_i64gather_epi64::<4>(zero, live, before, base) };
            let starts = _mm512_add_epi64(_mm512_and_si512(both, low), _mm512_set1_epi64(1));
            (starts, _mm512_srli_epi64::<32>(both))
        };
        let lengths = _mm512_sub_epi64(ends, starts);
        let live = _mm512_mask_cmple_epu64_mask(live, lengths, count(8));
        let live = _mm512_mask_cmpgt_epu64_mask(live, lengths, zero);
        let live = _mm512_mask_cmpge_epi64_mask(live, ends, count(8));
        (ends, lengths, _mm512_mask_cmple_epu64_mask(live, ends, count(rows.text.len())))
    }

    /// The numbers in fields of one to eight bytes, and a mask of the fields that are numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn numbers(
        text: &[u8],
        ends: __m512i,
        lengths: __m512i,
        live: u8,
        zeros: Zeros,
    ) -> (__m512i, u8) {
        let zero = _mm512_setzero_si512();
        let bits = _mm512_set1_epi64(64);
        let starts = _mm512_sub_epi64(ends, _mm512_set1_epi64(8));
        // SAFETY: live lanes end within the text, and at least eight bytes behind its start.
        let words =
            unsafe { _mm512_mask_i64gather_epi64::<1>(zero, live, starts, text.as_ptr().cast()) };
        let unused = _mm512_sub_epi64(bits, _mm512_slli_epi64::<3>(lengths));
        let first = _mm512_and_si512(_mm512_srlv_epi64(words, unused), _mm512_set1_epi64(0xFF));
        let minus = _mm512_set1_epi64(i64::from(b'-'));
        let is_negative = _mm512_mask_cmpeq_epi64_mask(live, first, minus);
        let one = _mm512_set1_epi64(1);
        let count = _mm512_mask_sub_epi64(lengths, is_negative, lengths, one);
        let live = _mm512_mask_cmpgt_epu64_mask(live, count, zero);
        let unused = _mm512_sub_epi64(bits, _mm512_slli_epi64::<3>(count));
        let kept = _mm512_sllv_epi64(_mm512_set1_epi8(-1), unused);
        let digits = _mm512_and_si512(_mm512_xor_si512(words, _mm512_set1_epi8(0x30)), kept);
        let live = match zeros {
            Zeros::Plain => live,
            Zeros::NotPlain => {
                // The first digit is in the lowest of the bytes that are kept.
                let first =
                    _mm512_and_si512(_mm512_srlv_epi64(digits, unused), _mm512_set1_epi64(0xFF));
                let is_zero = _mm512_mask_cmpeq_epi64_mask(live, first, zero);
                // `0` alone is a plain number.
                let is_long = _mm512_mask_cmpgt_epu64_mask(is_zero, lengths, one);
                live & !is_long
            }
        };
        // As `parse::all_digits`, without carries.
        let above_nine = _mm512_add_epi8(digits, _mm512_set1_epi8(0x76));
        let strange = _mm512_or_si512(above_nine, digits);
        let live = _mm512_mask_testn_epi64_mask(live, strange, _mm512_set1_epi8(i8::MIN));
        // The digits are joined to pairs, the pairs to fours, and the fours to one number; the
        // first digit is in the lowest byte.
        let pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x01_0A));
        let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_0064));
        let thousands = _mm512_mul_epu32(fours, _mm512_set1_epi64(10_000));
        let values = _mm512_add_epi64(thousands, _mm512_srli_epi64::<32>(fours));
        (_mm512_mask_sub_epi64(values, is_negative, zero, values), live)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RowPlace;
    use super::*;

    /// Rows of three fields each, from any cells.
    fn indexed(cells: &[String]) -> (Vec<u8>, Vec<u32>, Vec<RowPlace>) {
        let (mut text, mut ends, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let narrow = |length: usize| u32::try_from(length).unwrap();
        for row in cells.chunks(3) {
            rows.push(RowPlace { start: narrow(text.len()), first: narrow(ends.len()) });
            for cell in row {
                text.extend_from_slice(cell.as_bytes());
                ends.push(narrow(text.len()));
                text.push(b',');
            }
        }
        text.pop();
        (text, ends, rows)
    }

    fn cell(random: &mut u64) -> String {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (kind, number) = (*random >> 60, *random >> 20 & 0xFFF_FFFF);
        let digits = number % 10_u64.pow((*random >> 50) as u32 % 10);
        match kind {
            0 => String::new(),
            1 => "-".to_owned(),
            2 => format!("-{digits}"),
            3 => format!("{digits:08}"),
            4 => format!("1{number:09}"),
            5 => format!("{digits}x"),
            6 => format!("\"{digits}\""),
            7 => char::from(number.to_le_bytes()[0] & 0x7F).to_string().replace(',', "\u{E9}"),
            8 => format!("-{number:08}"),
            9 => format!(" {digits}"),
            _ => digits.to_string(),
        }
    }

    #[test]
    fn every_kernel_reads_the_same_numbers() {
        let mut random = 1;
        let bounds = [(i64::MIN, i64::MAX), (-128, 127), (0, 65_535), (-32_768, 32_767)];
        let (mut plain, mut others) = (0, 0);
        for round in 0..2_000 {
            let count = 3 * (1 + round % PARSED_BATCH_ROWS);
            let cells: Vec<String> = (0..count).map(|_| cell(&mut random)).collect();
            let (text, field_ends, places) = indexed(&cells);
            let (min, max) = bounds[round % bounds.len()];
            let rows = RowsOfText {
                text: &text,
                field_ends: &field_ends,
                rows: &places,
                quote: Some(b'"'),
                null_text: None,
                is_checked: false,
            };
            for (source, zeros) in (0..3).flat_map(|at| [(at, Zeros::Plain), (at, Zeros::NotPlain)])
            {
                let mut expected = PlainIntegers::NONE;
                expected.read(Kernel::Scalar, &rows, source, Bounds { min, max, zeros });
                let mut integers = PlainIntegers::NONE;
                integers.read(Kernel::detect(), &rows, source, Bounds { min, max, zeros });
                for row in 0..places.len() {
                    let is_plain = |of: &PlainIntegers| of.is_plain[row / 8] >> (row % 8) & 1 == 1;
                    let (start, end) = rows.bounds(places[row], source);
                    let cell = &cells[3 * row + source];
                    let may_differ = end < 8 || end - start > 8;
                    if may_differ && !is_plain(&integers) {
                        continue;
                    }
                    assert_eq!(is_plain(&integers), is_plain(&expected), "{cell:?}");
                    let wanted = cell.parse::<i64>().ok().filter(|n| (min..=max).contains(n));
                    if is_plain(&integers) {
                        assert_eq!(integers.values[row], expected.values[row], "{cell:?}");
                        assert_eq!(Some(integers.values[row]), wanted, "{cell:?}");
                        plain += 1;
                    } else {
                        others += 1;
                    }
                }
            }
        }
        assert!(plain > 50_000 && others > 50_000, "{plain} {others}");
    }

    #[test]
    fn records_without_the_field_and_text_that_ends_early_are_not_plain() {
        let text = b"12345678,12345678,1";
        let (ends, places) = ([8, 17, 19], [RowPlace { start: 0, first: 0 }]);
        for (field_ends, length) in [(&ends[..], 19), (&ends[..], 18), (&ends[..2], 17)] {
            let rows = RowsOfText {
                text: &text[..length],
                field_ends,
                rows: &places,
                quote: None,
                null_text: None,
                is_checked: false,
            };
            let bounds = Bounds { min: i64::MIN, max: i64::MAX, zeros: Zeros::Plain };
            let mut integers = PlainIntegers::NONE;
            if field_ends.len() == 3 {
                integers.read(Kernel::detect(), &rows, 2, bounds);
                assert_eq!(integers.is_plain[0], u8::from(length == 19));
            }
            integers.read(Kernel::detect(), &rows, 0, bounds);
            assert_eq!((integers.is_plain[0], integers.values[0]), (1, 12_345_678));
        }
    }
}
