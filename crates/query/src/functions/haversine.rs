//! `haversine_dist_deg(lat, lon, ts)`: the length in kilometres of a path over the earth.
//!
//! - The path goes from point to point by ascending timestamp, for any order of the rows: so all
//!   points of a group are held. A point with a NULL in it is ignored.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

/// The mean radius of the earth.
const RADIUS_KM: f64 = 6_371.088;

/// Returns the function.
pub(crate) fn haversine() -> AggregateUDF {
    AggregateUDF::new_from_impl(Haversine { signature: Signature::any(3, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Haversine {
    signature: Signature,
}

impl AggregateUDFImpl for Haversine {
    fn name(&self) -> &'static str {
        "haversine_dist_deg"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let [lat, lon, ts] = args else { return plan_err!("{} takes three values", self.name()) };
        let is_number = |ty: &DataType| ty.is_numeric() || ty.is_null();
        if !is_number(lat) || !is_number(lon) || !matches!(ts, DataType::Timestamp(..)) {
            return plan_err!("{} takes a latitude, a longitude and a timestamp", self.name());
        }
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, ty: DataType| {
            let list = DataType::new_list(ty, true);
            Arc::new(Field::new(format!("{}[{part}]", args.name), list, true))
        };
        Ok(vec![
            field("lat", DataType::Float64),
            field("lon", DataType::Float64),
            field("ts", DataType::Int64),
        ])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Track::default()))
    }
}

#[derive(Debug, Clone, Copy)]
struct Point {
    lat: f64,
    lon: f64,
    ts: i64,
}

impl Point {
    fn distance(self, to: Point) -> f64 {
        let (lat, lon) = ((to.lat - self.lat).to_radians(), (to.lon - self.lon).to_radians());
        let across = self.lat.to_radians().cos() * to.lat.to_radians().cos();
        let half = (lat / 2.0).sin().powi(2) + (lon / 2.0).sin().powi(2) * across;
        2.0 * RADIUS_KM * half.clamp(0.0, 1.0).sqrt().asin()
    }
}

#[derive(Debug, Default)]
struct Track(Vec<Point>);

impl Accumulator for Track {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (lat, lon) =
            (cast(&values[0], &DataType::Float64)?, cast(&values[1], &DataType::Float64)?);
        let ts = cast(&values[2], &DataType::Int64)?;
        let coordinates =
            lat.as_primitive::<Float64Type>().iter().zip(lon.as_primitive::<Float64Type>());
        for ((lat, lon), ts) in coordinates.zip(ts.as_primitive::<Int64Type>()) {
            if let (Some(lat), Some(lon), Some(ts)) = (lat, lon, ts) {
                self.0.push(Point { lat, lon, ts });
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lat, lon, ts] = [0, 1, 2].map(|at: usize| states[at].as_list::<i32>());
        for row in 0..lat.len() {
            if lat.is_valid(row) {
                self.update_batch(&[lat.value(row), lon.value(row), ts.value(row)])?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = |ty: DataType, of: &dyn Fn(&Point) -> ScalarValue| {
            let values = self.0.iter().map(of).collect::<Vec<_>>();
            ScalarValue::List(ScalarValue::new_list_nullable(&values, &ty))
        };
        Ok(vec![
            list(DataType::Float64, &|point| point.lat.into()),
            list(DataType::Float64, &|point| point.lon.into()),
            list(DataType::Int64, &|point| point.ts.into()),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.sort_by_key(|point| point.ts);
        let steps = self.0.windows(2).map(|pair| pair[0].distance(pair[1]));
        // `sum` would return -0 for no steps.
        let length = steps.fold(0.0, |length, step| length + step);
        Ok(ScalarValue::Float64((!self.0.is_empty()).then_some(length)))
    }

    fn size(&self) -> usize {
        size_of::<Track>() + self.0.capacity() * size_of::<Point>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_equator_is_a_quarter_of_its_length() {
        let point = |lat, lon| Point { lat, lon, ts: 0 };
        let quarter = RADIUS_KM * std::f64::consts::FRAC_PI_2;
        assert!((point(0.0, 0.0).distance(point(0.0, 90.0)) - quarter).abs() < 1e-9);
        assert!((point(0.0, 45.0).distance(point(90.0, -120.0)) - quarter).abs() < 1e-9);
        assert!(point(50.0, 8.0).distance(point(50.0, 8.0)).abs() < 1e-9);
    }
}
