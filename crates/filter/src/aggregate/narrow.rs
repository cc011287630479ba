//! Sums, minima and maxima of integers taken from their stored codes: no value is written anywhere
//! but into the state of its group.
//!
//! - narrow-1. The states are those that `Accumulator::add` makes of the same values; a sum of
//!   floats may differ in its last digits, as it does between batches.

use tidegate_model::types::Physical;
use tidegate_model::{Codes, Encoded};

use super::values::low_word;
use super::{Accumulator, AggregateKind, GroupIndices, ZoneRows, ZoneValues};

/// Integers of contiguous rows, none of them NULL: `base + step * code`.
#[derive(Debug, Clone, Copy)]
pub struct NarrowValues<'v> {
    base: i64,
    step: u64,
    codes: NarrowCodes<'v>,
}

#[derive(Debug, Clone, Copy)]
enum NarrowCodes<'v> {
    U8(&'v [u8]),
    U16(&'v [[u8; 2]]),
    U32(&'v [[u8; 4]]),
}

impl<'a> ZoneValues<'a> {
    /// The codes of signed integers; `None` if rows may be NULL, are not contiguous, or are stored
    /// otherwise.
    #[must_use]
    pub fn narrow(&self, rows: ZoneRows<'_>) -> Option<NarrowValues<'a>> {
        let column = self.column();
        let ZoneRows::Run { start, end } = rows else { return None };
        let is_signed = matches!(column.slice.ty.physical(), Physical::Signed(_));
        if column.has_nulls() || !is_signed {
            return None;
        }
        let Encoded::Narrow { base, step, codes } = &column.slice.encoded else { return None };
        let codes = match codes {
            Codes::U8(codes) => NarrowCodes::U8(codes.get(start..end)?),
            Codes::U16(codes) => NarrowCodes::U16(codes.get(start..end)?),
            Codes::U32(codes) => NarrowCodes::U32(codes.get(start..end)?),
            Codes::Same(_) | Codes::Sequence | Codes::Bits(_) | Codes::U64(_) => return None,
        };
        Some(NarrowValues { base: low_word(*base), step: *step, codes })
    }
}

impl NarrowValues<'_> {
    #[inline]
    fn value(&self, code: u64) -> i64 {
        self.base.wrapping_add(self.step.wrapping_mul(code).cast_signed())
    }

    /// The sum of all values; one of at most 65,536 codes of four bytes fits 64 bits.
    fn sum(&self) -> i128 {
        let (count, codes) = match self.codes {
            NarrowCodes::U8(codes) => {
                (codes.len(), codes.iter().map(|code| u64::from(*code)).sum::<u64>())
            }
            NarrowCodes::U16(codes) => {
                let all = codes.iter().map(|code| u64::from(u16::from_le_bytes(*code)));
                (codes.len(), all.sum())
            }
            NarrowCodes::U32(codes) => {
                let all = codes.iter().map(|code| u64::from(u32::from_le_bytes(*code)));
                (codes.len(), all.sum())
            }
        };
        i128::from(self.base) * count as i128 + i128::from(self.step) * i128::from(codes)
    }
}

impl NarrowValues<'_> {
    fn count(&self) -> usize {
        match self.codes {
            NarrowCodes::U8(codes) => codes.len(),
            NarrowCodes::U16(codes) => codes.len(),
            NarrowCodes::U32(codes) => codes.len(),
        }
    }

    /// The maximal magnitude of a value; `u64::MAX` if it is larger.
    fn magnitude_max(&self) -> u64 {
        let code: u32 = match self.codes {
            NarrowCodes::U8(_) => u8::MAX.into(),
            NarrowCodes::U16(_) => u16::MAX.into(),
            NarrowCodes::U32(_) => u32::MAX,
        };
        let above = self.step.saturating_mul(code.into());
        self.base.unsigned_abs().saturating_add(above)
    }
}

impl Accumulator {
    /// Adds rows without NULL, for a kind that does not go by position.
    ///
    /// # Panics
    /// If the kind goes by position, a group does not exist, or there is not one for each row.
    pub fn add_narrow(&mut self, groups: GroupIndices<'_>, values: &NarrowValues<'_>) {
        match self.kind {
            AggregateKind::Count => {}
            AggregateKind::SumIntegers => {
                fold(&mut self.integers, groups, values, |state, value| state.wrapping_add(value));
            }
            AggregateKind::SumExact => self.add_narrow_exact(groups, values),
            AggregateKind::SumFloats => match groups {
                // Sums of floats would wait for each other.
                GroupIndices::Same(group) => self.floats[group] += values.sum() as f64,
                GroupIndices::Each(_) => {
                    fold(&mut self.floats, groups, values, |state, value| state + value as f64);
                }
            },
            AggregateKind::Min => fold(&mut self.integers, groups, values, i64::min),
            AggregateKind::Max => fold(&mut self.integers, groups, values, i64::max),
            AggregateKind::First { .. }
            | AggregateKind::Last { .. }
            | AggregateKind::Distinct { .. } => {
                panic!("{:?} goes by position or by id", self.kind);
            }
        }
    }

    fn add_narrow_exact(&mut self, groups: GroupIndices<'_>, values: &NarrowValues<'_>) {
        if self.make_room(values.magnitude_max(), values.count()) {
            match groups {
                GroupIndices::Same(group) => {
                    let sum = i64::try_from(values.sum()).expect("aggregate-2");
                    self.integers[group] = self.integers[group].wrapping_add(sum);
                }
                GroupIndices::Each(_) => {
                    fold(&mut self.integers, groups, values, i64::wrapping_add);
                }
            }
            return;
        }
        let carried = self.carried_sums();
        match groups {
            GroupIndices::Same(group) => carried[group] += values.sum(),
            GroupIndices::Each(_) => {
                fold(carried, groups, values, |state, value| state + i128::from(value));
            }
        }
    }
}

#[inline]
fn fold<T: Copy>(
    states: &mut [T],
    groups: GroupIndices<'_>,
    values: &NarrowValues<'_>,
    fold: impl Fn(T, i64) -> T + Copy,
) {
    match values.codes {
        NarrowCodes::U8(codes) => {
            fold_codes(states, groups, codes, |state, code| {
                fold(state, values.value((*code).into()))
            });
        }
        NarrowCodes::U16(codes) => fold_codes(states, groups, codes, |state, code| {
            fold(state, values.value(u16::from_le_bytes(*code).into()))
        }),
        NarrowCodes::U32(codes) => fold_codes(states, groups, codes, |state, code| {
            fold(state, values.value(u32::from_le_bytes(*code).into()))
        }),
    }
}

#[inline]
fn fold_codes<T: Copy, C>(
    states: &mut [T],
    groups: GroupIndices<'_>,
    codes: &[C],
    fold: impl Fn(T, &C) -> T,
) {
    match groups {
        GroupIndices::Same(group) => {
            let state = &mut states[group];
            *state = codes.iter().fold(*state, fold);
        }
        GroupIndices::Each(groups) => {
            assert_eq!(groups.len(), codes.len(), "a group a row");
            for (&group, code) in groups.iter().zip(codes) {
                let state = &mut states[group as usize];
                *state = fold(*state, code);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tidegate_model::{ColumnSlice, ColumnType};

    use super::*;
    use crate::aggregate::{Batch, Values};
    use crate::text::NoSymbols;

    const GROUPS: u32 = 7;
    const KINDS: [AggregateKind; 5] = [
        AggregateKind::SumIntegers,
        AggregateKind::SumExact,
        AggregateKind::SumFloats,
        AggregateKind::Min,
        AggregateKind::Max,
    ];

    /// Checks that all kinds have the states that values have which were read (narrow-1).
    fn check(base: i64, step: u64, codes: Codes<'_>, rows: &[u32], is_one: bool) {
        let encoded = Encoded::Narrow { base: base.into(), step, codes };
        let ty = ColumnType::Int64;
        let slice = ColumnSlice { ty, rows: rows.len(), validity: None, encoded, zones: &[] };
        let values = ZoneValues::new(0, &slice, &NoSymbols).unwrap();
        let run = ZoneRows::Run { start: rows.len() / 3, end: rows.len() };
        let rows = &rows[rows.len() / 3..];
        let groups = if is_one { GroupIndices::Same(2) } else { GroupIndices::Each(rows) };
        let narrow = values.narrow(run).expect("the codes are narrow");
        for kind in KINDS {
            let new = || Accumulator::new(kind, GROUPS as usize);
            let (mut given, mut expected) = (new(), new());
            given.add_narrow(groups, &narrow);
            let (mut integers, mut floats) = (vec![0; rows.len()], vec![0.0; rows.len()]);
            values.integers(run, &mut integers).unwrap();
            values.floats(run, &mut floats).unwrap();
            let read = match kind {
                AggregateKind::SumFloats => Values::Floats(&mut floats),
                _ => Values::Integers(&mut integers),
            };
            expected.add(&Batch { groups, rows: run, position: 0 }, read, &[]);
            if kind == AggregateKind::SumExact {
                // The same sum may be carried in one and not in the other.
                for group in 0..GROUPS as usize {
                    assert_eq!(given.exact_sum(group, 1), expected.exact_sum(group, 1), "narrow-1");
                }
                continue;
            }
            assert_eq!(given.integers, expected.integers, "narrow-1: {kind:?}");
            for (given, expected) in given.floats.iter().zip(&expected.floats) {
                let is_near = (given - expected).abs() <= expected.abs() * 1e-12;
                assert!(is_near, "narrow-1: {given} and {expected}");
            }
        }
    }

    proptest! {
        #[test]
        fn codes_are_added_like_their_values(
            rows in vec((0..GROUPS, any::<u32>()), 1..300),
            base in prop_oneof![
                -1_000_i64..1_000,
                any::<i32>().prop_map(i64::from),
                Just(-(1 << 61)),
            ],
            step in 1_u64..1_000,
            is_one in any::<bool>(),
        ) {
            let groups = rows.iter().map(|row| row.0).collect::<Vec<_>>();
            let bytes = || rows.iter().map(|row| row.1.to_le_bytes());
            let all = bytes().collect::<Vec<_>>();
            check(base, step, Codes::U32(&all), &groups, is_one);
            let twos = bytes().map(|[a, b, ..]| [a, b]).collect::<Vec<_>>();
            check(base, step, Codes::U16(&twos), &groups, is_one);
            let ones = bytes().map(|[a, ..]| a).collect::<Vec<_>>();
            check(base, step, Codes::U8(&ones), &groups, is_one);
        }
    }
}
