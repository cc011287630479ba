//! Zone maps: a decision on the rows of a zone by its bounds (docs/format.md, Zones).
//!
//! - zones-1. The decision is `NoRows` only if no row matches, `AllRows` only if all do. Where
//!   bounds are wider than the values (strings, UUIDs, large DECIMALs), the values are taken to
//!   reach the bounds.

use std::sync::Arc;

use tidegate_model::ColumnType;
use tidegate_model::layout::Zone;
use tidegate_model::types::Physical;

use crate::code_set::CodeSet;
use crate::ranges::{Key, Ranges, behind_prefix};
use crate::scalar::{NAN_KEY, fixed16_key, float_key};

/// The decision on the rows of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneMatch {
    /// None of them matches.
    NoRows,
    /// All of them match.
    AllRows,
    /// The rows have to be tested.
    Unknown,
}

/// The set of values that match, in the form that zones can test.
#[derive(Debug, Clone)]
pub(crate) enum ZoneTest<'a> {
    /// No test: all zones have to be read.
    Blind,
    /// A test by keys of values.
    Keys(ColumnType, &'a Ranges<i128>),
    /// A test by texts; zones store prefixes of them.
    Texts(&'a Ranges<Vec<u8>>),
    /// A test by codes of a dictionary.
    Codes(Arc<CodeSet>),
}

impl ZoneTest<'_> {
    /// The decision on `zone`; `on_null` is true if NULL rows match (zones-1).
    pub(crate) fn zone_match(&self, zone: &Zone, on_null: bool) -> ZoneMatch {
        let (overlaps, covers) = if zone.has_value { self.values(zone) } else { (false, true) };
        let nan_matches = matches!(self, ZoneTest::Keys(_, yes) if yes.contains(&NAN_KEY));
        let some = overlaps || (zone.has_nan && nan_matches) || (zone.has_null && on_null);
        let all = covers && (!zone.has_nan || nan_matches) && (!zone.has_null || on_null);
        match (some, all) {
            _ if matches!(self, ZoneTest::Blind) => ZoneMatch::Unknown,
            (false, _) => ZoneMatch::NoRows,
            (true, true) => ZoneMatch::AllRows,
            (true, false) => ZoneMatch::Unknown,
        }
    }

    /// Two truths: some value can match, and all values do.
    fn values(&self, zone: &Zone) -> (bool, bool) {
        match self {
            ZoneTest::Blind => (true, false),
            ZoneTest::Keys(ty, yes) => {
                let (least, greatest) = key_bounds(*ty, zone);
                both(yes, &least, Some(&greatest))
            }
            ZoneTest::Texts(yes) => {
                let (least, greatest) = text_bounds(zone);
                both(yes, &least, greatest.as_ref())
            }
            ZoneTest::Codes(set) => {
                let ranges = &set.ranges;
                let (least, greatest) = (zone.min & 0xFFFF_FFFF, zone.min >> 32);
                let first = ranges.partition_point(|range| range.last < least);
                let Some(range) = ranges.get(first).filter(|range| range.first <= greatest) else {
                    return (false, false);
                };
                let overlaps = set.signature & zone.max != 0;
                (overlaps, range.first <= least && greatest <= range.last)
            }
        }
    }
}

fn both<K: Key>(yes: &Ranges<K>, least: &K, greatest: Option<&K>) -> (bool, bool) {
    (yes.overlaps(least, greatest), yes.covers(least, greatest))
}

/// The minimum and the maximum of the keys that a value of the zone can have.
fn key_bounds(ty: ColumnType, zone: &Zone) -> (i128, i128) {
    match ty.physical() {
        Physical::Signed(_) => (zone.min.cast_signed().into(), zone.max.cast_signed().into()),
        Physical::Wide => {
            let (min, max) = (zone.min.cast_signed(), zone.max.cast_signed());
            let least = if min == i64::MIN { i128::MIN } else { min.into() };
            let greatest = if max == i64::MAX { i128::MAX } else { max.into() };
            (least, greatest)
        }
        Physical::Float32 | Physical::Float64 => {
            (float_key(f64::from_bits(zone.min)), float_key(f64::from_bits(zone.max)))
        }
        Physical::Fixed16 => {
            let bound = |prefix: u64, rest: u64| u128::from(prefix) << 64 | u128::from(rest);
            let key = |bound: u128| fixed16_key(bound.to_be_bytes());
            (key(bound(zone.min, 0)), key(bound(zone.max, u64::MAX)))
        }
        Physical::Bit | Physical::Unsigned(_) | Physical::Bytes => {
            (zone.min.into(), zone.max.into())
        }
    }
}

/// The lower bound of the zone's texts, and an upper bound that none of them reaches; `None` if
/// there is no such bound.
fn text_bounds(zone: &Zone) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut least = zone.min.to_be_bytes().to_vec();
    // Zeros at the end may be padding.
    let kept = least.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    least.truncate(kept);
    (least, behind_prefix(&zone.max.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::CompareOp;

    const ZONE: Zone = Zone { has_null: false, has_value: true, has_nan: false, min: 5, max: 9 };

    #[track_caller]
    fn check(op: CompareOp, key: i128, zone: Zone, expected: ZoneMatch) {
        let yes = Ranges::comparing(op, &key);
        let test = ZoneTest::Keys(ColumnType::Int64, &yes);
        assert_eq!(test.zone_match(&zone, false), expected, "{op} {key}");
    }

    #[test]
    fn bounds_decide_where_they_can() {
        check(CompareOp::Ge, 5, ZONE, ZoneMatch::AllRows);
        check(CompareOp::Ge, 6, ZONE, ZoneMatch::Unknown);
        check(CompareOp::Gt, 9, ZONE, ZoneMatch::NoRows);
        check(CompareOp::Ne, 4, ZONE, ZoneMatch::AllRows);
        check(CompareOp::Eq, 10, ZONE, ZoneMatch::NoRows);
        let with_null = Zone { has_null: true, ..ZONE };
        check(CompareOp::Ge, 5, with_null, ZoneMatch::Unknown);
        check(CompareOp::Gt, 9, with_null, ZoneMatch::NoRows);
        check(CompareOp::Gt, 9, Zone { has_nan: true, ..ZONE }, ZoneMatch::Unknown);
    }

    #[test]
    fn padding_of_short_texts_is_no_bound() {
        let word = |text: &[u8; 8]| u64::from_be_bytes(*text);
        let zone = Zone { min: word(b"ab\0\0\0\0\0\0"), max: word(b"abcdefgh"), ..ZONE };
        let check = |op, text: &[u8], expected| {
            let yes = Ranges::comparing(op, &text.to_vec());
            assert_eq!(ZoneTest::Texts(&yes).zone_match(&zone, false), expected, "{op} {text:?}");
        };
        check(CompareOp::Eq, b"ab", ZoneMatch::Unknown);
        check(CompareOp::Lt, b"ab", ZoneMatch::NoRows);
        check(CompareOp::Ge, b"ab", ZoneMatch::AllRows);
        check(CompareOp::Eq, b"abcdefghi", ZoneMatch::Unknown);
        check(CompareOp::Ge, b"abcdefgi", ZoneMatch::Unknown);
        check(CompareOp::Gt, b"abcdefgi", ZoneMatch::NoRows);
    }
}
