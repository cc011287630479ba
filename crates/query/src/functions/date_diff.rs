//! `date_diff(unit, a, b)` of DuckDB: the number of boundaries of a unit between two times.
//!
//! - The number is negative where b is before a. `datediff` of QuestDB differs: it counts whole
//!   units, and is never negative.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidegate_model::time::CivilDate;

use crate::error::ClauseProblem;
use crate::types::call_values::call_values;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Returns the function `date_diff`.
pub(crate) fn date_diff() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(DateDiff { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateDiff {
    signature: Signature,
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    /// A number of microseconds, whose multiples are shifted by an offset.
    Micros(i64, i64),
    Months(i64),
    /// A number of years, in a calendar without a year 0.
    Years(i64),
}

fn parse_unit(name: &str) -> Result<Unit> {
    let lower = name.to_ascii_lowercase();
    Ok(match lower.strip_suffix('s').filter(|it| 2 < it.len()).unwrap_or(&lower) {
        "us" | "microsecond" | "u" => Unit::Micros(1, 0),
        "ms" | "millisecond" | "millis" => Unit::Micros(MICROS_PER_SECOND / 1_000, 0),
        "s" | "sec" | "second" => Unit::Micros(MICROS_PER_SECOND, 0),
        "min" | "minute" => Unit::Micros(60 * MICROS_PER_SECOND, 0),
        "h" | "hour" => Unit::Micros(3_600 * MICROS_PER_SECOND, 0),
        "d" | "day" => Unit::Micros(MICROS_PER_DAY, 0),
        // Weeks begin on a Monday, and 1970 on a Thursday.
        "w" | "week" => Unit::Micros(7 * MICROS_PER_DAY, 3 * MICROS_PER_DAY),
        "mon" | "month" => Unit::Months(1),
        "quarter" => Unit::Months(3),
        "y" | "yr" | "year" => Unit::Months(12),
        "decade" => Unit::Months(120),
        "century" | "centurie" => Unit::Years(100),
        "millennium" => Unit::Years(1_000),
        _ => {
            let (function, value) = ("date_diff".to_owned(), format!("the unit '{name}'"));
            let what = "units are words from microsecond to millennium";
            return Err(ClauseProblem::ArgumentValue { function, value, what }.into());
        }
    })
}

/// Returns the number of the unit that contains a time, counted from a fixed one.
fn unit_index(unit: Unit, time: i64) -> i64 {
    match unit {
        Unit::Micros(width, offset) => {
            let number = (i128::from(time) + i128::from(offset)).div_euclid(width.into());
            i64::try_from(number).unwrap_or(i64::MAX)
        }
        Unit::Months(months) => {
            let date = CivilDate::from_days(time.div_euclid(MICROS_PER_DAY));
            (date.year * 12 + i64::from(date.month) - 1).div_euclid(months)
        }
        Unit::Years(years) => {
            (CivilDate::from_days(time.div_euclid(MICROS_PER_DAY)).year - 1).div_euclid(years)
        }
    }
}

impl ScalarUDFImpl for DateDiff {
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
        call_values(&args.args, args.number_rows, |arrays, rows| {
            let [units, from, to] = arrays else {
                return plan_err!("date_diff takes a unit and two times");
            };
            let units = units.as_string_view();
            let [from, to] = [cast(from, &DataType::Int64)?, cast(to, &DataType::Int64)?];
            let (from, to) = (from.as_primitive::<Int64Type>(), to.as_primitive::<Int64Type>());
            let mut last = None::<(&str, Unit)>;
            let mut between = |row: usize| -> Result<Option<i64>> {
                if units.is_null(row) || from.is_null(row) || to.is_null(row) {
                    return Ok(None);
                }
                let name = units.value(row);
                let unit = match last {
                    Some((text, unit)) if text == name => unit,
                    _ => last.insert((name, parse_unit(name)?)).1,
                };
                Ok(Some(
                    unit_index(unit, to.value(row))
                        .saturating_sub(unit_index(unit, from.value(row))),
                ))
            };
            Ok(Arc::new((0..rows).map(&mut between).collect::<Result<Int64Array>>()?))
        })
    }
}
