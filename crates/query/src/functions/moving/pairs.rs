//! Variances, covariances and regressions of moving frames.

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

use super::frame::{Frame, Total};

/// The statistic of the pairs of a frame; for a variance both sides of a pair are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Statistic {
    Variance,
    VariancePopulation,
    Deviation,
    DeviationPopulation,
    Covariance,
    CovariancePopulation,
    Correlation,
    Slope,
    Intercept,
    R2,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
}

impl Statistic {
    /// Returns the statistic of DataFusion's function of this name.
    pub(super) fn of(name: &str) -> Option<Statistic> {
        Some(match name {
            "var" | "var_samp" => Statistic::Variance,
            "var_pop" => Statistic::VariancePopulation,
            "stddev" | "stddev_samp" => Statistic::Deviation,
            "stddev_pop" => Statistic::DeviationPopulation,
            "covar" | "covar_samp" => Statistic::Covariance,
            "covar_pop" => Statistic::CovariancePopulation,
            "corr" => Statistic::Correlation,
            "regr_slope" => Statistic::Slope,
            "regr_intercept" => Statistic::Intercept,
            "regr_r2" => Statistic::R2,
            "regr_avgx" => Statistic::AverageX,
            "regr_avgy" => Statistic::AverageY,
            "regr_sxx" => Statistic::SquaresX,
            "regr_syy" => Statistic::SquaresY,
            "regr_sxy" => Statistic::Products,
            _ => return None,
        })
    }

    /// Returns its value, as DataFusion's functions define it for frames that do not move.
    fn value(self, of: &Pairs) -> Option<f64> {
        let Pairs { count, mean, squares, products } = *of;
        if count == 0 {
            return None;
        }
        let [all, others] = [count as f64, (count - 1) as f64];
        let several = |value: f64| (count > 1).then_some(value);
        // The regression of the first value of a pair on the second one.
        let [y, x] = [0, 1];
        let is_line = count > 1 && squares[x] != 0.0;
        let slope = products / squares[x];
        match self {
            Statistic::Variance => several(squares[0] / others),
            Statistic::VariancePopulation => Some(squares[0] / all),
            Statistic::Deviation => several((squares[0] / others).sqrt()),
            Statistic::DeviationPopulation => Some((squares[0] / all).sqrt()),
            Statistic::Covariance => several(products / others),
            Statistic::CovariancePopulation => Some(products / all),
            Statistic::Correlation if mean[0].is_nan() && mean[1].is_nan() => Some(f64::NAN),
            Statistic::Correlation => {
                let deviations = squares[0].sqrt() * squares[1].sqrt();
                let is_known = mean.iter().all(|mean| !mean.is_nan());
                (count > 1 && is_known && squares[0] != 0.0 && squares[1] != 0.0)
                    .then_some(products / deviations)
            }
            Statistic::Slope => is_line.then_some(slope),
            Statistic::Intercept => is_line.then_some(mean[y] - slope * mean[x]),
            Statistic::R2 => (is_line && squares[y] != 0.0)
                .then_some(products * products / (squares[x] * squares[y])),
            Statistic::AverageX => Some(mean[x]),
            Statistic::AverageY => Some(mean[y]),
            Statistic::SquaresX => Some(squares[x]),
            Statistic::SquaresY => Some(squares[y]),
            Statistic::Products => Some(products),
        }
    }
}

/// Pairs of doubles: their means, and the sums of squares and products of the differences from
/// these.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    count: u64,
    mean: [f64; 2],
    /// The sums of squared differences from the mean.
    squares: [f64; 2],
    products: f64,
}

impl Total for Pairs {
    type Value = [f64; 2];

    fn of(value: [f64; 2]) -> Pairs {
        // The difference from an infinity or a NaN is no number.
        let zero = value.map(|value| if value.is_finite() { 0.0 } else { f64::NAN });
        Pairs { count: 1, mean: value, squares: zero, products: zero[0] * zero[1] }
    }

    /// Joins two parts by Chan's formulas.
    fn joined(self, after: Pairs) -> Pairs {
        if self.count == 0 {
            return after;
        }
        if after.count == 0 {
            return self;
        }
        let count = self.count + after.count;
        let [all, before, behind] = [count, self.count, after.count].map(|count| count as f64);
        let apart = [0, 1].map(|side| after.mean[side] - self.mean[side]);
        let share = before * (behind / all);
        let mean = [0, 1].map(|side| self.mean[side] + apart[side] * (behind / all));
        let squares = [0, 1].map(|side| {
            self.squares[side] + after.squares[side] + apart[side] * apart[side] * share
        });
        let products = self.products + after.products + apart[0] * apart[1] * share;
        Pairs { count, mean, squares, products }
    }
}

/// The accumulator of a statistic over a moving frame.
#[derive(Debug)]
pub(crate) struct MovingPairs {
    frame: Frame<Pairs>,
    statistic: Statistic,
}

impl MovingPairs {
    pub(super) fn new(statistic: Statistic) -> MovingPairs {
        MovingPairs { frame: Frame::new(), statistic }
    }
}

/// Returns the pairs of which neither side is NULL.
fn pairs(values: &[ArrayRef]) -> impl Iterator<Item = [f64; 2]> {
    let first = values[0].as_primitive::<Float64Type>();
    let second = values.last().unwrap_or(&values[0]).as_primitive::<Float64Type>();
    first.iter().zip(second).filter_map(|(first, second)| Some([first?, second?]))
}

impl Accumulator for MovingPairs {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        pairs(values).for_each(|pair| self.frame.push(pair));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if pairs(values).all(|_| self.frame.pop()) {
            return Ok(());
        }
        internal_err!("moving-2: a row leaves a frame that it has not come into")
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.statistic.value(&self.frame.total())))
    }

    fn size(&self) -> usize {
        size_of::<MovingPairs>() + self.frame.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a moving frame is not merged")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a moving frame is not merged")
    }
}
