//! Quotients of decimals, rounded half away from zero as those of PostgreSQL, where those of Arrow
//! are cut; and quotients of integers as doubles.

use datafusion::arrow::array::{ArrayRef, ArrowNativeTypeOp, AsArray, PrimitiveArray};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{ArrowNativeType, DecimalType};
use datafusion::arrow::error::ArrowError;

/// Returns a quotient of integers, rounded half away from zero; an error if the divisor is 0, or
/// if the quotient is too large.
pub(crate) fn rounded_quotient<T: ArrowNativeTypeOp>(
    dividend: T,
    divisor: T,
) -> Result<T, ArrowError> {
    let whole = dividend.div_checked(divisor)?;
    let magnitude = |value: T| if value.is_lt(T::ZERO) { value.neg_wrapping() } else { value };
    let rest = magnitude(dividend.sub_wrapping(whole.mul_wrapping(divisor)));
    // Twice the rest may be too large for the type.
    if rest.is_lt(magnitude(divisor).sub_wrapping(rest)) {
        return Ok(whole);
    }
    match dividend.is_lt(T::ZERO) == divisor.is_lt(T::ZERO) {
        true => whole.add_checked(T::ONE),
        false => whole.sub_checked(T::ONE),
    }
}

/// Returns the double that is nearest to the quotient of a sum and a count that is not 0.
pub(crate) fn double_quotient(sum: i128, count: u64) -> f64 {
    /// The integers that are all doubles too.
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    let magnitude = sum.unsigned_abs();
    if sum == 0 || (magnitude <= u128::from(EXACT) && count <= EXACT) {
        return sum as f64 / count as f64;
    }
    // The quotient has 63 bits or more, the last of which stands for all that follow.
    let shift = magnitude.leading_zeros();
    let (dividend, divisor) = (magnitude << shift, u128::from(count));
    let digits = (dividend / divisor) | u128::from(!dividend.is_multiple_of(divisor));
    let quotient = digits as f64 / 2_f64.powi(shift.cast_signed());
    if sum < 0 { -quotient } else { quotient }
}

/// Returns the digits of the quotients of two columns of decimals, which have this scale.
pub(crate) fn quotients<T: DecimalType>(
    dividends: &ArrayRef,
    divisors: &ArrayRef,
    scale: i8,
) -> Result<PrimitiveArray<T>, ArrowError> {
    let (dividends, divisors) = (dividends.as_primitive::<T>(), divisors.as_primitive::<T>());
    let more = i16::from(scale) - i16::from(dividends.scale()) + i16::from(divisors.scale());
    let more = u32::try_from(more).map_err(|_| {
        ArrowError::ArithmeticOverflow("a quotient has fewer digits than its dividend".to_owned())
    })?;
    let worth = T::Native::usize_as(10).pow_checked(more)?;
    try_binary(dividends, divisors, |dividend, divisor| {
        rounded_quotient(dividend.mul_checked(worth)?, divisor)
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::i256;

    use super::*;

    #[track_caller]
    fn check(dividend: i128, divisor: i128, expected: i128) {
        assert_eq!(rounded_quotient(dividend, divisor).unwrap(), expected);
        let wide = rounded_quotient(i256::from_i128(dividend), i256::from_i128(divisor));
        assert_eq!(wide.unwrap(), i256::from_i128(expected));
    }

    #[test]
    fn doubles_are_the_nearest_quotients() {
        for (sum, count, expected) in [
            (11, 8, 1.375),
            (-1, 3, -1.0 / 3.0),
            (0, 7, 0.0),
            ((1 << 53) + 1, 1, 9_007_199_254_740_992.0),
            ((1 << 53) + 3, 1, 9_007_199_254_740_996.0),
            (3 * ((1 << 53) + 1) + 1, 3, 9_007_199_254_740_994.0),
            // A sum that is rounded before it is divided has ..344 as its quotient.
            ((1 << 55) + 68, 3, 12_009_599_006_321_346.0),
            (i128::from(i64::MIN) * 3, 3, -2_f64.powi(63)),
            (i128::from(u64::MAX) << 62, u64::MAX, 2_f64.powi(62)),
            (1 << 60, 1 << 62, 0.25),
        ] {
            assert_eq!(double_quotient(sum, count).to_bits(), f64::to_bits(expected), "{sum}");
        }
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        for (dividend, divisor, expected) in [
            (7, 2, 4),
            (20, 3, 7),
            (19, 3, 6),
            (1, 3, 0),
            (5, 10, 1),
            (4, 10, 0),
            (0, 9, 0),
            (8, 4, 2),
        ] {
            check(dividend, divisor, expected);
            check(-dividend, divisor, -expected);
            check(dividend, -divisor, -expected);
            check(-dividend, -divisor, expected);
        }
        check(i128::MAX - 1, i128::MAX, 1);
        check(i128::MAX / 2, i128::MAX, 0);
        assert!(matches!(rounded_quotient(1_i128, 0), Err(ArrowError::DivideByZero)));
    }
}
