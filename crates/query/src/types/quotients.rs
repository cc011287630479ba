//! Quotients of decimals, rounded half away from zero as those of PostgreSQL. Those of Arrow are
//! cut.

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
