//! Bounds of zones and of whole columns: docs/format.md, Zones.

use tidegate_model::ColumnType;
use tidegate_model::layout::{ZONE_BYTES, Zone};
use tidegate_model::types::Physical;

use super::kernels::{Float, Integer, bounds, has_null, is_valid};
use super::{Validity, ZONE_ROWS};

/// The validity words of a zone's rows, if one of them is NULL.
fn zone_validity(validity: Validity<'_>, index: usize, rows: usize) -> Validity<'_> {
    let words = &validity?[index * (ZONE_ROWS / 64)..];
    has_null(words, rows).then_some(words)
}

fn zone_of(range: Option<(u64, u64)>, has_null: bool) -> Zone {
    let (min, max) = range.unwrap_or_default();
    Zone { has_null, has_value: range.is_some(), has_nan: false, min, max }
}

/// The bounds of zone `index` of a page frame, whose rows are `values`.
pub(in crate::segment) fn integer_zone<T: Integer>(
    values: &[T],
    validity: Validity<'_>,
    index: usize,
) -> Zone {
    let (range, has_null) = integer_range(values, validity, index);
    range_zone(range, has_null)
}

/// Least and greatest value of a zone, and whether one is NULL.
pub(in crate::segment) fn integer_range<T: Integer>(
    values: &[T],
    validity: Validity<'_>,
    index: usize,
) -> (Option<(T, T)>, bool) {
    let words = zone_validity(validity, index, values.len());
    (bounds(values, words), words.is_some())
}

/// The zone of a result of `integer_range`.
pub(in crate::segment) fn range_zone<T: Integer>(range: Option<(T, T)>, has_null: bool) -> Zone {
    zone_of(range.map(|(min, max)| (min.word(), max.word())), has_null)
}

/// As `integer_zone`; bounds outside of i64 mean "no bound".
pub(in crate::segment) fn wide_zone(values: &[i128], validity: Validity<'_>, index: usize) -> Zone {
    let words = zone_validity(validity, index, values.len());
    let clamped = |value: i128| {
        let value = value.clamp(i64::MIN.into(), i64::MAX.into());
        i64::try_from(value).expect("clamped").cast_unsigned()
    };
    let range = bounds(values, words).map(|(min, max)| (clamped(min), clamped(max)));
    zone_of(range, words.is_some())
}

/// Bounds as bits of a DOUBLE; NaN is only flagged.
pub(in crate::segment) fn float_zone<T: Float>(
    values: &[T],
    validity: Validity<'_>,
    index: usize,
) -> Zone {
    let words = zone_validity(validity, index, values.len());
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut has_nan, mut has_value) = (false, false);
    for (row, value) in values.iter().enumerate() {
        if words.is_none() || is_valid(words, row) {
            let value = value.to_f64();
            has_nan |= value.is_nan();
            has_value |= !value.is_nan();
            // Comparisons with NaN are false.
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
        }
    }
    let range = has_value.then(|| (min.to_bits(), max.to_bits()));
    Zone { has_nan, ..zone_of(range, words.is_some()) }
}

/// Bounds as the first eight bytes, highest first.
pub(in crate::segment) fn fixed16_zone(
    values: &[[u8; 16]],
    validity: Validity<'_>,
    index: usize,
) -> Zone {
    let words = zone_validity(validity, index, values.len());
    let range = bounds(values, words).map(|(min, max)| (prefix(&min), prefix(&max)));
    zone_of(range, words.is_some())
}

/// Least and greatest code in one word, and the set of codes modulo 64 in the other.
pub(in crate::segment) fn code_zone(codes: &[u32], validity: Validity<'_>, index: usize) -> Zone {
    let first = index * ZONE_ROWS;
    let (mut min, mut max, mut signature) = (u32::MAX, 0, 0_u64);
    let mut zone = Zone::EMPTY;
    if validity.is_none() {
        for &code in codes {
            (min, max) = (min.min(code), max.max(code));
            signature |= 1 << (code % 64);
        }
        zone.has_value = !codes.is_empty();
    }
    let rows = if validity.is_none() { &[] } else { codes };
    for (row, &code) in rows.iter().enumerate() {
        if is_valid(validity, first + row) {
            (min, max) = (min.min(code), max.max(code));
            signature |= 1 << (code % 64);
            zone.has_value = true;
        } else {
            zone.has_null = true;
        }
    }
    if zone.has_value {
        (zone.min, zone.max) = (u64::from(min) | u64::from(max) << 32, signature);
    }
    zone
}

/// Bounds as the first eight bytes of the strings, highest first, which `prefix` computes.
pub(in crate::segment) fn string_zone(
    texts: &[&[u8]],
    validity: Validity<'_>,
    index: usize,
    prefix: impl Fn(&[u8]) -> u64,
) -> Zone {
    let first = index * ZONE_ROWS;
    let (mut min, mut max) = (u64::MAX, 0);
    let mut zone = Zone::EMPTY;
    for (row, text) in texts.iter().enumerate() {
        if is_valid(validity, first + row) {
            let prefix = prefix(text);
            (min, max) = (min.min(prefix), max.max(prefix));
            zone.has_value = true;
        } else {
            zone.has_null = true;
        }
    }
    if zone.has_value { Zone { min, max, ..zone } } else { zone }
}

/// The first eight bytes as a number with the same order; short strings are padded with zeros.
#[inline]
pub(in crate::segment) fn prefix(text: &[u8]) -> u64 {
    match text.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut padded = [0; 8];
            padded[..text.len()].copy_from_slice(text);
            u64::from_be_bytes(padded)
        }
    }
}

/// The bounds of all zones together.
pub(in crate::segment) fn whole_bounds(ty: ColumnType, zones: &[u8]) -> Zone {
    let (zones, _) = zones.as_chunks::<ZONE_BYTES>();
    let mut whole = Zone::EMPTY;
    for zone in zones.iter().map(Zone::decode) {
        whole.has_null |= zone.has_null;
        whole.has_nan |= zone.has_nan;
        if zone.has_value {
            (whole.min, whole.max) = match whole.has_value {
                false => (zone.min, zone.max),
                true => (
                    lesser(ty, whole.min, zone.min),
                    if lesser(ty, whole.max, zone.max) == whole.max { zone.max } else { whole.max },
                ),
            };
            whole.has_value = true;
        }
    }
    whole
}

/// The lesser of two bounds of a column that is not a dictionary.
fn lesser(ty: ColumnType, a: u64, b: u64) -> u64 {
    match ty.physical() {
        Physical::Signed(_) | Physical::Wide => {
            a.cast_signed().min(b.cast_signed()).cast_unsigned()
        }
        Physical::Float32 | Physical::Float64 => {
            if f64::from_bits(a) <= f64::from_bits(b) {
                a
            } else {
                b
            }
        }
        Physical::Bit | Physical::Unsigned(_) | Physical::Bytes | Physical::Fixed16 => a.min(b),
    }
}
