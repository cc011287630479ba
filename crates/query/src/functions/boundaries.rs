//! `date_diff(unit, a, b)` of DuckDB: the boundaries of a unit between two times.
//!
//! - It is negative where b is before a. QuestDB's `datediff` differs: it counts whole units, and
//!   is never negative.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidegate_model::time::CivilDate;

use crate::error::{ClauseProblem, Error};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// The function.
pub(crate) fn boundaries() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(Boundaries { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Boundaries {
    signature: Signature,
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    /// A multiple of so many microseconds, the first of them at an offset.
    Micros(i64, i64),
    Months(i64),
    /// A number of years, in a calendar without a year 0.
    Years(i64),
}

fn unit(name: &str) -> Result<Unit> {
    let lower = name.to_ascii_lowercase();
    Ok(match lower.strip_suffix('s').filter(|it| 2 < it.len()).unwrap_or(&lower) {
        "us" | "microsecond" | "u" => Unit::Micros(1, 0),
        "ms" | "millisecond" | "millis" => Unit::Micros(SECOND / 1_000, 0),
        "s" | "sec" | "second" => Unit::Micros(SECOND, 0),
        "min" | "minute" => Unit::Micros(60 * SECOND, 0),
        "h" | "hour" => Unit::Micros(3_600 * SECOND, 0),
        "d" | "day" => Unit::Micros(DAY, 0),
        // Weeks begin on a Monday, and 1970 on a Thursday.
        "w" | "week" => Unit::Micros(7 * DAY, 3 * DAY),
        "mon" | "month" => Unit::Months(1),
        "quarter" => Unit::Months(3),
        "y" | "yr" | "year" => Unit::Months(12),
        "decade" => Unit::Months(120),
        "century" | "centurie" => Unit::Years(100),
        "millennium" => Unit::Years(1_000),
        _ => {
            let (function, value) = ("date_diff".to_owned(), format!("the unit '{name}'"));
            let what = "units are microsecond to millennium; those of one letter are datediff's";
            let what = ClauseProblem::ArgumentValue { function, value, what };
            return Err(Error::Clause { position: None, what }.into());
        }
    })
}

/// Returns the number of the unit that a time is in.
fn number(unit: Unit, time: i64) -> i64 {
    match unit {
        Unit::Micros(width, offset) => {
            let number = (i128::from(time) + i128::from(offset)).div_euclid(width.into());
            i64::try_from(number).unwrap_or(i64::MAX)
        }
        Unit::Months(months) => {
            let date = CivilDate::from_days(time.div_euclid(DAY));
            (date.year * 12 + i64::from(date.month) - 1).div_euclid(months)
        }
        Unit::Years(years) => {
            (CivilDate::from_days(time.div_euclid(DAY)).year - 1).div_euclid(years)
        }
    }
}

impl ScalarUDFImpl for Boundaries {
    fn name(&self) -> &'static str {
        "date_diff"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        let is_time = |ty: &DataType| {
            matches!(ty, DataType::Timestamp(..) | DataType::Date32 | DataType::Null)
                || ty.is_string()
        };
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        match args {
            [unit, from, to] if unit.is_string() && is_time(from) && is_time(to) => {
                Ok(vec![DataType::Utf8View, time.clone(), time])
            }
            _ => plan_err!("date_diff takes a unit and two times"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let [units, from, to] = arrays.as_slice() else {
            return plan_err!("date_diff takes a unit and two times");
        };
        let units = units.as_string_view();
        let [from, to] = [cast(from, &DataType::Int64)?, cast(to, &DataType::Int64)?];
        let (from, to) = (from.as_primitive::<Int64Type>(), to.as_primitive::<Int64Type>());
        let mut known = None::<(&str, Unit)>;
        let mut between = |row: usize| -> Result<Option<i64>> {
            if units.is_null(row) || from.is_null(row) || to.is_null(row) {
                return Ok(None);
            }
            let name = units.value(row);
            let unit = match known {
                Some((text, unit)) if text == name => unit,
                _ => known.insert((name, unit(name)?)).1,
            };
            Ok(Some(number(unit, to.value(row)).saturating_sub(number(unit, from.value(row)))))
        };
        let counts: ArrayRef =
            Arc::new((0..rows).map(&mut between).collect::<Result<Int64Array>>()?);
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&counts, 0)?)),
            false => Ok(ColumnarValue::Array(counts)),
        }
    }
}
