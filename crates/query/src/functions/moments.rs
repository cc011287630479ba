//! Aggregates of DuckDB over numbers: `product`, `skewness`, `kurtosis` and `kurtosis_pop`.
//!
//! - NULL is ignored. Of no values `product` is NULL; skewness needs three values, kurtosis four,
//!   and both need values that differ: otherwise they are NULL.
//! - moments-1. Moments are kept around the mean, and those of two parts are joined: a mean that is
//!   far from zero costs no digits.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Product,
    Skewness,
    Kurtosis,
    /// Without the correction for a sample.
    KurtosisPop,
}

const FUNCTIONS: [(&str, Kind); 4] = [
    ("product", Kind::Product),
    ("skewness", Kind::Skewness),
    ("kurtosis", Kind::Kurtosis),
    ("kurtosis_pop", Kind::KurtosisPop),
];

/// Returns the functions.
pub(crate) fn moments() -> Vec<AggregateUDF> {
    let function = |(name, kind)| {
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        AggregateUDF::new_from_impl(Moment { name, kind, signature })
    };
    FUNCTIONS.map(function).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moment {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Moment {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str| {
            Arc::new(Field::new(format!("{}[{part}]", args.name), DataType::Float64, true))
        };
        Ok(["count", "mean", "second", "third", "fourth", "product"].map(field).into())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Group { kind: self.kind, moments: Moments::default(), product: 1.0 }))
    }
}

/// The number of values, their mean, and the sums of the powers of their distances from it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Moments {
    count: f64,
    mean: f64,
    second: f64,
    third: f64,
    fourth: f64,
}

impl Moments {
    /// Joins the moments of two parts (moments-1), by the formulas of Pebay.
    fn joined(self, other: Moments) -> Moments {
        if self.count == 0.0 || other.count == 0.0 {
            return if self.count == 0.0 { other } else { self };
        }
        let (a, b) = (self, other);
        let count = a.count + b.count;
        let delta = b.mean - a.mean;
        let part = delta / count;
        let square = delta * part * a.count * b.count;
        let third = square * part * (a.count - b.count)
            + 3.0 * part * (a.count * b.second - b.count * a.second);
        let fourth =
            square * part * part * (a.count * a.count - a.count * b.count + b.count * b.count)
                + 6.0 * part * part * (a.count * a.count * b.second + b.count * b.count * a.second)
                + 4.0 * part * (a.count * b.third - b.count * a.third);
        Moments {
            count,
            mean: a.mean + b.count * part,
            second: a.second + b.second + square,
            third: a.third + b.third + third,
            fourth: a.fourth + b.fourth + fourth,
        }
    }

    fn of(value: f64) -> Moments {
        Moments { count: 1.0, mean: value, ..Moments::default() }
    }

    /// Returns the statistic.
    fn value(self, kind: Kind) -> Option<f64> {
        let (n, variance) = (self.count, self.second / self.count);
        let value = match kind {
            Kind::Skewness if 3.0 <= n => {
                let skewness = self.third / n / variance.powf(1.5);
                (n * (n - 1.0)).sqrt() / (n - 2.0) * skewness
            }
            Kind::KurtosisPop if 2.0 <= n => self.fourth / n / (variance * variance) - 3.0,
            Kind::Kurtosis if 4.0 <= n => {
                let of_all = self.fourth / n / (variance * variance) - 3.0;
                (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * of_all + 6.0)
            }
            _ => return None,
        };
        (variance != 0.0).then_some(value)
    }
}

#[derive(Debug)]
struct Group {
    kind: Kind,
    moments: Moments,
    product: f64,
}

impl Accumulator for Group {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.moments = self.moments.joined(Moments::of(value));
            self.product *= value;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let part = |at: usize, row: usize| states[at].as_primitive::<Float64Type>().value(row);
        for row in 0..states[0].len() {
            self.moments = self.moments.joined(Moments {
                count: part(0, row),
                mean: part(1, row),
                second: part(2, row),
                third: part(3, row),
                fourth: part(4, row),
            });
            self.product *= part(5, row);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Moments { count, mean, second, third, fourth } = self.moments;
        let all = [count, mean, second, third, fourth, self.product];
        Ok(all.map(|value| ScalarValue::Float64(Some(value))).into())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = match self.kind {
            Kind::Product => (self.moments.count != 0.0).then_some(self.product),
            kind => self.moments.value(kind),
        };
        Ok(ScalarValue::Float64(value))
    }

    fn size(&self) -> usize {
        size_of::<Group>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let values = [1e9 + 1.0, 1e9 + 4.0, 1e9 - 7.0, 1e9, 1e9 + 2.5];
        let of = |values: &[f64]| {
            values.iter().fold(Moments::default(), |all, it| all.joined(Moments::of(*it)))
        };
        let (whole, parts) = (of(&values), of(&values[..2]).joined(of(&values[2..])));
        for kind in [Kind::Skewness, Kind::Kurtosis, Kind::KurtosisPop] {
            let (whole, parts) = (whole.value(kind).unwrap(), parts.value(kind).unwrap());
            assert!((whole - parts).abs() < 1e-6, "moments-1: {whole} {parts}");
        }
    }
}
