//! Translation of values into the codes of one page frame: narrow integers, decimal floats, plain
//! floats.
//!
//! - codes-1. A code is in the ranges that `of_keys` returns if and only if the key of its decoded
//!   value is in the set.

use std::sync::Arc;

use tidegate_model::types::Physical;
use tidegate_model::{Codes, ColumnType, Encoded};

use super::Kernel;
use crate::code_set::{CodeSet, RangeBuilder, code_width};
use crate::column::{Column, constant, decimal_value, narrow_value};
use crate::error::Result;
use crate::ir::integer_range;
use crate::kernel::{CodeRange, FloatTest};
use crate::ranges::Ranges;
use crate::scalar::{NAN_KEY, Scalar, float_key, float_of_key, round, wrap};

/// The maximum number of codes that are evaluated one by one.
const VALUES_MAX: u64 = 256;

/// The maximum number of times that codes of a frame may wrap around the range of their type. In
/// frames that this program writes codes never wrap: only the highest codes of a width could, and
/// those do not occur.
const LAPS_MAX: i128 = 3;

/// The kernel of a set of codes. `known` has the rows whose result does not depend on their code.
pub(super) fn kernel<'a>(
    codes: Codes<'a>,
    set: Arc<CodeSet>,
    rows: usize,
    known: Vec<(usize, bool)>,
) -> Kernel<'a> {
    let greatest = greatest_code(&codes, rows);
    let all = known.iter().all(|(_, matches)| *matches);
    let none = known.iter().all(|(_, matches)| !*matches);
    match set.ranges.as_slice() {
        [] if none => Kernel::Fixed(false),
        [range] if all && range.first == 0 && range.last >= greatest => Kernel::Fixed(true),
        _ => Kernel::Codes { codes, test: set, known },
    }
}

/// The highest code that a row can have.
fn greatest_code(codes: &Codes<'_>, rows: usize) -> u64 {
    match codes {
        Codes::Same(code) => u64::from(*code),
        Codes::Sequence => (rows as u64).saturating_sub(1),
        Codes::Bits(_) => 1,
        Codes::U8(_) => u8::MAX.into(),
        Codes::U16(_) => u16::MAX.into(),
        Codes::U32(_) => u32::MAX.into(),
        Codes::U64(_) => u64::MAX,
    }
}

/// The kernel of a set of keys on a narrow or decimal column (codes-1); `None` if codes wrap too
/// often.
pub(super) fn of_keys<'a>(column: &Column<'a>, yes: &Ranges<i128>) -> Option<Kernel<'a>> {
    let slice = column.slice;
    match &slice.encoded {
        Encoded::Narrow { base, step, codes } => {
            let narrow = Narrow { ty: slice.ty, base: *base, step: *step };
            let ranges = narrow.ranges(greatest_code(codes, slice.rows), yes)?;
            let set = Arc::new(CodeSet::new(code_width(codes), ranges));
            Some(kernel(*codes, set, slice.rows, Vec::new()))
        }
        Encoded::Decimal { base, scale, codes, .. } => {
            let greatest = greatest_code(codes, slice.rows);
            base.checked_add_unsigned(greatest.checked_add(1)?)?;
            let value = |code| round(decimal_value(*base, *scale, code), slice.ty);
            let ranges = decimal_ranges(greatest, yes, &value);
            let known = known_rows(column, &|value| {
                Ok(value.order_key().is_some_and(|key| yes.contains(&key)))
            });
            let set = Arc::new(CodeSet::new(code_width(codes), ranges));
            Some(kernel(*codes, set, slice.rows, known.ok()?))
        }
        _ => None,
    }
}

/// The ranges of codes of a decimal column, whose values ascend with the codes, that are in the
/// set.
fn decimal_ranges(
    greatest: u64,
    yes: &Ranges<i128>,
    value: &impl Fn(u64) -> f64,
) -> Vec<CodeRange> {
    // The first code whose key is at least `key`; one more than the highest code if there is none.
    let first_at = |key: i128| {
        let (mut low, mut high) = (0, greatest + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if float_key(value(middle)) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    };
    let mut ranges = RangeBuilder::default();
    for (start, end) in yes.iter() {
        let (from, to) = (first_at(*start), end.map_or(greatest + 1, first_at));
        if from < to {
            ranges.push(from, to - 1);
        }
    }
    ranges.0
}

/// The exceptions of a decimal column, each with true if it matches.
fn known_rows(
    column: &Column<'_>,
    matches: &dyn Fn(&Scalar<'static>) -> Result<bool>,
) -> Result<Vec<(usize, bool)>> {
    let Encoded::Decimal { exception_rows, exception_values, .. } = &column.slice.encoded else {
        return Ok(Vec::new());
    };
    let mut known = Vec::with_capacity(exception_rows.len());
    for (row, bits) in exception_rows.iter().zip(*exception_values) {
        let row = u32::from_le_bytes(*row) as usize;
        let value = round(f64::from_le_bytes(*bits), column.slice.ty);
        if row < column.slice.rows && column.slice.is_valid(row) {
            known.push((row, matches(&Scalar::Float(value))?));
        }
    }
    Ok(known)
}

/// The rule by which codes of integers become values.
struct Narrow {
    ty: ColumnType,
    base: i128,
    step: u64,
}

impl Narrow {
    /// The codes up to `greatest` whose values are in the set.
    fn ranges(&self, greatest: u64, yes: &Ranges<i128>) -> Option<Vec<CodeRange>> {
        let mut ranges = RangeBuilder::default();
        if self.step == 0 {
            if yes.contains(&wrap(self.base, self.ty)) {
                ranges.push(0, greatest);
            }
            return Some(ranges.0);
        }
        let span = i128::from(self.step).checked_mul(greatest.into())?;
        if self.ty.physical() == Physical::Wide {
            let top = self.base.checked_add(span)?;
            self.lap(self.base, self.base, top, yes, &mut ranges);
            return Some(ranges.0);
        }
        let (min, max) = integer_range(self.ty)?;
        let base = wrap(self.base, self.ty);
        let modulus = max - min + 1;
        let laps = (base - min).checked_add(span)? / modulus;
        if laps > LAPS_MAX {
            return None;
        }
        for lap in 0..=laps {
            // Before wrapping, this lap's values run from `base` of code 0 through `min..=max`.
            let base = base - lap * modulus;
            self.lap(base, min.max(base), max.min(base + span), yes, &mut ranges);
        }
        Some(ranges.0)
    }

    /// Adds the codes whose values, `base + step * code`, are from `least` to `greatest` and in the
    /// set.
    fn lap(
        &self,
        base: i128,
        least: i128,
        greatest: i128,
        yes: &Ranges<i128>,
        ranges: &mut RangeBuilder,
    ) {
        let step = i128::from(self.step);
        for (start, end) in yes.iter() {
            let first = (*start).max(least);
            let last = end.map_or(greatest, |end| greatest.min(end.saturating_sub(1)));
            if first > last {
                continue;
            }
            // Both distances lie within `step * greatest code`, so the codes fit.
            let (up, down) = (first - base, last - base);
            let (from, to) = (up / step + i128::from(up % step != 0), down / step);
            if from <= to {
                let code = |code: i128| u64::try_from(code).expect("a code of the frame");
                ranges.push(code(from), code(to));
            }
        }
    }
}

/// The kernel of a condition that is evaluated for every value that a row can have; `None` if these
/// are too many, or if it fails for one of them, which may occur in no row.
pub(super) fn of_values<'a>(
    column: &Column<'a>,
    matches: &dyn Fn(&Scalar<'static>) -> Result<bool>,
) -> Option<Kernel<'a>> {
    let (ty, rows) = (column.slice.ty, column.slice.rows);
    let value: Box<dyn Fn(u64) -> Scalar<'static>> = match column.slice.encoded {
        Encoded::Narrow { base, step, .. } => {
            Box::new(move |code| Scalar::Integer(narrow_value(ty, base, step, code)))
        }
        Encoded::Decimal { base, scale, .. } => {
            Box::new(move |code| Scalar::Float(round(decimal_value(base, scale, code), ty)))
        }
        Encoded::Constant(value) => {
            return matches(&constant(ty, value)).ok().map(Kernel::Fixed);
        }
        Encoded::Bits(bits) => {
            let on = [matches(&Scalar::Bit(false)).ok()?, matches(&Scalar::Bit(true)).ok()?];
            let is_fixed = on[0] == on[1];
            return Some(if is_fixed { Kernel::Fixed(on[0]) } else { Kernel::Bits { bits, on } });
        }
        Encoded::Null => return Some(Kernel::Fixed(false)),
        _ => return None,
    };
    let (Encoded::Narrow { codes, .. } | Encoded::Decimal { codes, .. }) = &column.slice.encoded
    else {
        return None;
    };
    let known = known_rows(column, matches).ok()?;
    let greatest = greatest_code(codes, rows);
    let first = if let Codes::Same(code) = codes { u64::from(*code) } else { 0 };
    if greatest - first >= VALUES_MAX {
        return None;
    }
    let mut ranges = RangeBuilder::default();
    for code in first..=greatest {
        if matches(&value(code)).ok()? {
            ranges.push(code, code);
        }
    }
    let set = Arc::new(CodeSet::new(code_width(codes), ranges.0));
    Some(kernel(*codes, set, rows, known))
}

/// The set of floats of a set of keys.
pub(super) fn float_test(yes: &Ranges<i128>) -> FloatTest {
    let (least, greatest) = (float_key(f64::NEG_INFINITY), float_key(f64::INFINITY));
    let mut ranges = Vec::new();
    for (start, end) in yes.iter() {
        let first = (*start).max(least);
        let mut last = end.map_or(greatest, |end| greatest.min(end.saturating_sub(1)));
        // No float has the key -1; as a float it would become -0, which equals 0.
        last -= i128::from(last == -1);
        if first <= last {
            ranges.push((float_of_key(first), float_of_key(last)));
        }
    }
    FloatTest { ranges, nan: yes.contains(&NAN_KEY) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::CompareOp;
    use crate::kernel::CodeTest;

    const OPS: [CompareOp; 6] =
        [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

    /// Checks codes-1 for all codes of one byte, around every boundary.
    #[track_caller]
    fn check_narrow(ty: ColumnType, base: i128, step: u64) {
        let values: Vec<i128> = (0..=255).map(|code| narrow_value(ty, base, step, code)).collect();
        let keys = values.iter().flat_map(|value| [value - 1, *value, value + 1]);
        for key in keys.chain([i128::MIN, i128::MAX, 0]) {
            for op in OPS {
                let yes = Ranges::comparing(op, &key);
                let ranges = Narrow { ty, base, step }.ranges(255, &yes).expect("few laps");
                let test = CodeTest::Sorted(ranges);
                for (code, value) in values.iter().enumerate() {
                    let expected = op.holds(value.cmp(&key));
                    assert_eq!(test.matches(code as u64), expected, "{value} {op} {key}");
                }
            }
        }
    }

    #[test]
    fn constants_become_codes_between_steps_and_beyond_ends() {
        check_narrow(ColumnType::Int64, -40, 1);
        check_narrow(ColumnType::Int64, i64::MIN.into(), 7);
        check_narrow(ColumnType::UInt64, i128::from(u64::MAX) - 255 * 3, 3);
        check_narrow(ColumnType::Decimal { precision: 38, scale: 0 }, -1_i128 << 100, 1);
    }

    #[test]
    fn codes_that_wrap_in_their_type_are_followed() {
        check_narrow(ColumnType::Int8, 100, 1);
        check_narrow(ColumnType::UInt8, 7, 3);
        check_narrow(ColumnType::Int64, i64::MAX.into(), 1 << 40);
        check_narrow(ColumnType::Int32, 0, 0);
        let yes = Ranges::comparing(CompareOp::Eq, &0);
        let narrow = Narrow { ty: ColumnType::Int8, base: 0, step: 64 };
        assert_eq!(narrow.ranges(255, &yes), None, "sixty laps");
        let wide = Narrow { step: u64::MAX, ..narrow };
        assert_eq!(wide.ranges(u64::MAX, &yes), None);
    }

    #[test]
    fn decimal_boundaries_are_those_of_the_division() {
        for (ty, base, scale) in [
            (ColumnType::Float64, -3, 1),
            (ColumnType::Float64, 1 << 52, 15),
            (ColumnType::Float32, 16_777_200, 0),
            (ColumnType::Float32, -100, 2),
        ] {
            let value = |code| round(decimal_value(base, scale, code), ty);
            for key in (0..=255).map(|code| float_key(value(code))).chain([0, -2, NAN_KEY]) {
                for (op, key) in OPS.into_iter().flat_map(|op| [(op, key - 1), (op, key)]) {
                    let yes = Ranges::comparing(op, &key);
                    let test = CodeTest::Sorted(decimal_ranges(255, &yes, &value));
                    for code in 0..=255 {
                        let expected = op.holds(float_key(value(code)).cmp(&key));
                        assert_eq!(test.matches(code), expected, "{} {op} {key}", value(code));
                    }
                }
            }
        }
    }
}
