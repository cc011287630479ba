//! The ranges of the designated timestamp that a condition selects.
//!
//! - Every row that passes the condition lies in the ranges.
//! - If the bound is exact, every row in the ranges passes: the condition is not evaluated again.
//! - Ranges ascend and do not touch.
//!
//! A comparison gives the spans of time of an expression; these are converted inwards, through
//! `timestamp_floor`, `date_trunc`, `dateadd` and casts, to the spans of the column.
//!
//! Not here: pruning by the ranges (`scan::prune`).

use datafusion::arrow::datatypes::{DataType, TimeUnit as ArrowUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, BinaryExpr, Cast, InList, ScalarFunction};
use datafusion::logical_expr::{Expr, Operator};
use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{PartitionUnit, TimeRange, TimeUnit, Timestamp};

use crate::functions::date_trunc::TruncUnit;
use crate::functions::time;
use crate::functions::time::{TimeStep, dateadd_step, floor_grid};
use crate::types::bucket::Grid;
use crate::types::time_text::merged;

/// Times further from 1970, in nanoseconds, are later or earlier than every instant.
const FAR: i128 = 1 << 96;
/// A bound of the days by which adding months moves times in short months.
const MONTH_SLACK: i128 = 7 * 86_400_000_000_000;

/// Ranges, and true if they imply the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeBound {
    pub(crate) ranges: Vec<TimeRange>,
    pub(crate) is_exact: bool,
}

/// The designated timestamp as filters name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeColumn<'a> {
    /// The name in lower case.
    pub(crate) name: &'a str,
    pub(crate) unit: TimeUnit,
}

/// Times `start <= t < end` of an expression, in nanoseconds since 1970.
type Span = (i128, i128);

/// Spans, and true if the condition holds exactly in them.
struct Spans {
    spans: Vec<Span>,
    is_exact: bool,
}

/// The periods to whose start times are truncated.
#[derive(Debug, Clone, Copy)]
enum Periods {
    /// Periods of so many seconds.
    Seconds(i64),
    /// A period of the calendar.
    Calendar(PartitionUnit),
    /// The buckets of a grid.
    Grid(Grid),
}

/// Returns the time ranges of all conditions, and the conditions that must still be evaluated.
pub(crate) fn split_filters<'a>(
    column: TimeColumn<'_>,
    filters: &'a [Expr],
) -> (Vec<TimeRange>, Vec<&'a Expr>) {
    let mut ranges = vec![TimeRange::all(column.unit)];
    let mut rest = Vec::new();
    for filter in filters {
        let bound = column.bound(filter);
        ranges = intersected(&ranges, &bound.ranges);
        if !bound.is_exact {
            rest.push(filter);
        }
    }
    (ranges, rest)
}

impl TimeColumn<'_> {
    fn everything(self) -> TimeBound {
        TimeBound { ranges: vec![TimeRange::all(self.unit)], is_exact: false }
    }

    fn exactly(self, ranges: Vec<TimeRange>) -> TimeBound {
        TimeBound { ranges, is_exact: true }
    }

    /// Returns the bound of one condition. An unknown condition bounds nothing.
    fn bound(self, condition: &Expr) -> TimeBound {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                let (left, right) = (self.bound(left), self.bound(right));
                let ranges = intersected(&left.ranges, &right.ranges);
                TimeBound { ranges, is_exact: left.is_exact && right.is_exact }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                let (left, right) = (self.bound(left), self.bound(right));
                let is_exact = left.is_exact && right.is_exact;
                TimeBound { ranges: merged([left.ranges, right.ranges].concat()), is_exact }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let compared = self.comparison(left, *op, right);
                let swapped = || op.swap().and_then(|op| self.comparison(right, op, left));
                compared.or_else(swapped).unwrap_or_else(|| self.everything())
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let low = self.comparison(expr, Operator::GtEq, low);
                let high = self.comparison(expr, Operator::LtEq, high);
                match (low, high) {
                    (Some(low), Some(high)) => {
                        let ranges = intersected(&low.ranges, &high.ranges);
                        let is_exact = low.is_exact && high.is_exact;
                        self.negated_if(*negated, TimeBound { ranges, is_exact })
                    }
                    _ => self.everything(),
                }
            }
            Expr::InList(InList { expr, list, negated }) => {
                let points = list.iter().map(|value| self.comparison(expr, Operator::Eq, value));
                match points.collect::<Option<Vec<_>>>() {
                    Some(points) => {
                        let is_exact = points.iter().all(|point| point.is_exact);
                        let ranges = points.into_iter().flat_map(|point| point.ranges);
                        let ranges = merged(ranges.collect());
                        self.negated_if(*negated, TimeBound { ranges, is_exact })
                    }
                    None => self.everything(),
                }
            }
            Expr::Not(inner) => self.negated_if(true, self.bound(inner)),
            Expr::IsNotNull(inner) if self.is_time(inner) => {
                self.exactly(vec![TimeRange::all(self.unit)])
            }
            Expr::IsNull(inner) if self.is_time(inner) => self.exactly(Vec::new()),
            Expr::Literal(ScalarValue::Boolean(Some(true)), _) => {
                self.exactly(vec![TimeRange::all(self.unit)])
            }
            Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => {
                self.exactly(Vec::new())
            }
            _ => self.everything(),
        }
    }

    /// Negates a bound if `negated`. The column is never NULL, so that NOT is a complement.
    fn negated_if(self, negated: bool, bound: TimeBound) -> TimeBound {
        if !negated {
            return bound;
        }
        // The ranges may contain rows that fail, and these pass the negation.
        if !bound.is_exact {
            return self.everything();
        }
        let mut ranges = Vec::new();
        let mut start = i64::MIN;
        for range in &bound.ranges {
            ranges.push(TimeRange { unit: self.unit, start, end: range.start });
            start = range.end;
        }
        ranges.push(TimeRange { unit: self.unit, start, end: i64::MAX });
        TimeBound { ranges: merged(ranges), is_exact: bound.is_exact }
    }

    /// Returns the bound of `time op literal`; `None` if it is something else, or the literal no
    /// instant.
    fn comparison(self, time: &Expr, op: Operator, literal: &Expr) -> Option<TimeBound> {
        let Expr::Literal(value, _) = literal else { return None };
        let at = nanos_of(value)?;
        let spans = match op {
            Operator::Lt => vec![(-FAR, at)],
            Operator::LtEq => vec![(-FAR, at + 1)],
            Operator::Gt => vec![(at + 1, FAR)],
            Operator::GtEq => vec![(at, FAR)],
            Operator::Eq => vec![(at, at + 1)],
            Operator::NotEq => vec![(-FAR, at), (at + 1, FAR)],
            _ => return None,
        };
        let Spans { spans, is_exact } = self.inward(time, Spans { spans, is_exact: true })?;
        let worth = self.worth();
        let unit = |nanos: i128| match nanos {
            nanos if nanos <= -FAR => i64::MIN,
            nanos if FAR <= nanos => i64::MAX,
            nanos => clamped(ceil(nanos, worth) / worth),
        };
        let range = |&(start, end): &Span| TimeRange {
            unit: self.unit,
            start: unit(start),
            end: unit(end),
        };
        Some(TimeBound { ranges: merged(spans.iter().map(range).collect()), is_exact })
    }

    /// Returns true if an expression is the column, or a known function of it; it is never NULL.
    fn is_time(self, expr: &Expr) -> bool {
        self.inward(expr, Spans { spans: Vec::new(), is_exact: true }).is_some()
    }

    /// Returns the nanoseconds of a unit of the column.
    fn worth(self) -> i128 {
        1_000_000_000 / i128::from(self.unit.per_second())
    }

    /// Returns the spans of the column for which an expression lies in these; `None` if the
    /// expression is no known function of the column alone.
    fn inward(self, expr: &Expr, spans: Spans) -> Option<Spans> {
        match expr {
            Expr::Column(column) => (column.name == self.name).then_some(spans),
            Expr::Alias(alias) => self.inward(&alias.expr, spans),
            Expr::Cast(Cast { expr, field }) => match field.data_type() {
                DataType::Timestamp(ArrowUnit::Nanosecond, zone) if is_utc(zone.as_deref()) => {
                    self.inward(expr, spans)
                }
                DataType::Timestamp(ArrowUnit::Microsecond, zone)
                    if is_utc(zone.as_deref()) && self.unit == TimeUnit::Micros =>
                {
                    self.inward(expr, spans)
                }
                DataType::Date32 => {
                    self.of_periods(expr, Periods::Calendar(PartitionUnit::Day), spans)
                }
                _ => None,
            },
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let Expr::Literal(by, _) = &**right else { return None };
                let nanos = interval_nanos(by)?;
                let nanos = match op {
                    Operator::Plus => nanos,
                    Operator::Minus => -nanos,
                    _ => return None,
                };
                // A part finer than the column's unit is of another type, or is cut off.
                let is_whole = nanos % self.worth() == 0;
                self.inward(left, moved(spans, -nanos, -nanos, true)).filter(|_| is_whole)
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
                "date_trunc" => {
                    let [Expr::Literal(period, _), time] = args.as_slice() else { return None };
                    let periods = truncation(period.try_as_str()??)?;
                    self.of_periods(time, periods, spans)
                }
                "timestamp_floor" => {
                    let grid = floor_grid(func, args, self.unit)?;
                    self.of_periods(args.get(1)?, Periods::Grid(grid), spans)
                }
                "dateadd" => match dateadd_step(func, args)? {
                    // The casts inside decide if a part finer than the column's unit is cut off.
                    TimeStep::Nanos(nanos) if nanos % self.worth() != 0 => None,
                    TimeStep::Nanos(nanos) => {
                        self.inward(args.get(2)?, moved(spans, -nanos, -nanos, true))
                    }
                    TimeStep::Months(months) => {
                        let earlier = |at: i128| self.months_later(at, -months);
                        let shift = |&(start, end): &Span| Some((earlier(start)?, earlier(end)?));
                        let spans = spans.spans.iter().map(shift).collect::<Option<Vec<_>>>()?;
                        let spans = Spans { spans, is_exact: false };
                        self.inward(args.get(2)?, moved(spans, -MONTH_SLACK, MONTH_SLACK, false))
                    }
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the spans of a time whose period starts in these.
    fn of_periods(self, time: &Expr, periods: Periods, spans: Spans) -> Option<Spans> {
        let Spans { spans, is_exact } = spans;
        let mut starts = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            starts.push((self.first_start(periods, start)?, self.first_start(periods, end)?));
        }
        self.inward(time, Spans { spans: starts, is_exact })
    }

    /// Returns the first start of a period at this time or later.
    fn first_start(self, periods: Periods, nanos: i128) -> Option<i128> {
        if nanos <= -FAR || FAR <= nanos {
            return Some(nanos);
        }
        let worth = self.worth();
        let bounds = i128::from(TIMESTAMP_MIN)..=i128::from(TIMESTAMP_MAX);
        let at = ceil(nanos, worth) / worth;
        let instant = i64::try_from(at).ok().filter(|_| bounds.contains(&at))?;
        let (start, next) = match periods {
            Periods::Seconds(seconds) => {
                let width = seconds * self.unit.per_second();
                let start = instant - instant.rem_euclid(width);
                (start, start.checked_add(width)?)
            }
            Periods::Calendar(unit) => {
                let key = unit.floor(Timestamp(instant), self.unit);
                (key.0, unit.next(key, self.unit).0)
            }
            Periods::Grid(grid) => {
                let index = grid.index(instant);
                (grid.start(index), grid.start(index + 1))
            }
        };
        Some(i128::from(if start == instant { start } else { next }) * worth)
    }

    /// Returns a time so many months later.
    fn months_later(self, nanos: i128, months: i64) -> Option<i128> {
        if nanos <= -FAR || FAR <= nanos {
            return Some(nanos);
        }
        let instant = i64::try_from(nanos.div_euclid(self.worth())).ok()?;
        let later = time::months_later(instant, months, self.unit)?;
        Some(i128::from(later) * self.worth())
    }
}

/// Returns the spans with their starts and ends moved.
fn moved(spans: Spans, start_by: i128, end_by: i128, is_exact: bool) -> Spans {
    let far = |at: i128, by: i128| if at.abs() >= FAR { at } else { at + by };
    let shift = |(start, end): Span| (far(start, start_by), far(end, end_by));
    let is_exact = is_exact && spans.is_exact;
    Spans { spans: spans.spans.into_iter().map(shift).collect(), is_exact }
}

/// Returns the next multiple at or after a value.
fn ceil(value: i128, of: i128) -> i128 {
    value + (-value).rem_euclid(of)
}

/// Returns the periods of `date_trunc`.
fn truncation(period: &str) -> Option<Periods> {
    Some(match TruncUnit::parse(period)? {
        TruncUnit::Second => Periods::Seconds(1),
        TruncUnit::Minute => Periods::Seconds(60),
        TruncUnit::Hour => Periods::Seconds(3_600),
        TruncUnit::Day => Periods::Calendar(PartitionUnit::Day),
        TruncUnit::Week => Periods::Calendar(PartitionUnit::Week),
        TruncUnit::Month => Periods::Calendar(PartitionUnit::Month),
        TruncUnit::Year => Periods::Calendar(PartitionUnit::Year),
        _ => return None,
    })
}

fn is_utc(zone: Option<&str>) -> bool {
    zone.is_none_or(|zone| matches!(zone, "UTC" | "Z" | "+00:00" | "+00"))
}

/// Returns a literal in nanoseconds since 1970.
fn nanos_of(value: &ScalarValue) -> Option<i128> {
    let (count, worth, zone) = match value {
        ScalarValue::TimestampNanosecond(Some(count), zone) => (*count, 1, zone.as_deref()),
        ScalarValue::TimestampMicrosecond(Some(count), zone) => (*count, 1_000, zone.as_deref()),
        ScalarValue::TimestampMillisecond(Some(count), zone) => {
            (*count, 1_000_000, zone.as_deref())
        }
        ScalarValue::TimestampSecond(Some(count), zone) => (*count, 1_000_000_000, zone.as_deref()),
        ScalarValue::Date32(Some(days)) => (i64::from(*days), 86_400_000_000_000, None),
        _ => return None,
    };
    is_utc(zone).then(|| i128::from(count) * worth)
}

/// Returns the length of an INTERVAL without months.
fn interval_nanos(value: &ScalarValue) -> Option<i128> {
    const PER_DAY: i128 = 86_400_000_000_000;
    match value {
        ScalarValue::IntervalMonthDayNano(Some(by)) if by.months == 0 => {
            Some(i128::from(by.days) * PER_DAY + i128::from(by.nanoseconds))
        }
        ScalarValue::IntervalDayTime(Some(by)) => {
            Some(i128::from(by.days) * PER_DAY + i128::from(by.milliseconds) * 1_000_000)
        }
        _ => None,
    }
}

fn clamped(value: i128) -> i64 {
    let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
    i64::try_from(value.clamp(least, most)).expect("clamped")
}

/// Returns the instants in both; the ranges of each ascend.
fn intersected(left: &[TimeRange], right: &[TimeRange]) -> Vec<TimeRange> {
    let mut all = Vec::new();
    let (mut at_left, mut at_right) = (0, 0);
    while let (Some(a), Some(b)) = (left.get(at_left), right.get(at_right)) {
        let both = a.intersect(*b);
        if !both.is_empty() {
            all.push(both);
        }
        if a.end < b.end { at_left += 1 } else { at_right += 1 }
    }
    all
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{cast, col, lit, not};

    use super::*;

    const COLUMN: TimeColumn<'static> = TimeColumn { name: "ts", unit: TimeUnit::Micros };

    fn at(micros: i64) -> Expr {
        lit(ScalarValue::TimestampMicrosecond(Some(micros), None))
    }

    #[track_caller]
    fn check(condition: Expr, expected: &str) {
        let (ranges, rest) = split_filters(COLUMN, std::slice::from_ref(&condition));
        let end = |t: i64| match t {
            i64::MIN => "-".to_owned(),
            i64::MAX => "+".to_owned(),
            t => t.to_string(),
        };
        let shown = ranges.iter().map(|r| format!("{}..{}", end(r.start), end(r.end)));
        let mut shown = shown.collect::<Vec<_>>().join(" ");
        if !rest.is_empty() {
            shown += " and more";
        }
        assert_eq!(shown, expected, "{condition}");
    }

    #[test]
    fn comparisons_become_ranges() {
        check(col("ts").gt_eq(at(5)), "5..+");
        check(col("ts").gt(at(5)), "6..+");
        check(col("ts").lt(at(5)), "-..5");
        check(col("ts").lt_eq(at(5)), "-..6");
        check(col("ts").eq(at(5)), "5..6");
        check(col("ts").not_eq(at(5)), "-..5 6..+");
        check(at(5).gt(col("ts")), "-..5");
        check(col("ts").between(at(5), at(9)), "5..10");
        check(col("ts").not_between(at(5), at(9)), "-..5 10..+");
        check(col("ts").in_list(vec![at(9), at(5), at(6)], false), "5..7 9..10");
        check(col("ts").is_null(), "");
        check(lit(false), "");
    }

    #[test]
    fn conditions_are_combined() {
        let inside = |a, b| col("ts").gt_eq(at(a)).and(col("ts").lt(at(b)));
        check(inside(1, 5).or(inside(8, 9)), "1..5 8..9");
        check(inside(1, 5).or(inside(4, 9)), "1..9");
        check(not(inside(1, 5).or(inside(8, 9))), "-..1 5..8 9..+");
        check(inside(5, 1), "");
        check(inside(1, 5).and(col("x").eq(lit(1))), "1..5 and more");
        check(inside(1, 5).or(col("x").eq(lit(1))), "-..+ and more");
        check(not(inside(1, 5).and(col("x").eq(lit(1)))), "-..+ and more");
        let one_side = col("x").eq(lit(1)).and(inside(1, 5));
        check(one_side.or(inside(7, 9)), "1..5 7..9 and more");
    }

    #[test]
    fn literals_of_other_units_are_rounded_the_right_way() {
        let nanos = |n| lit(ScalarValue::TimestampNanosecond(Some(n), Some("+00:00".into())));
        let finer =
            || cast(col("ts"), DataType::Timestamp(ArrowUnit::Nanosecond, Some("+00:00".into())));
        check(finer().gt_eq(nanos(5_001)), "6..+");
        check(finer().gt(nanos(5_001)), "6..+");
        check(finer().gt(nanos(5_000)), "6..+");
        check(finer().lt(nanos(5_001)), "-..6");
        check(finer().eq(nanos(5_001)), "");
        check(col("ts").lt(lit(ScalarValue::Date32(Some(1)))), "-..86400000000");
        let coarser = cast(col("ts"), DataType::Timestamp(ArrowUnit::Second, None));
        check(coarser.eq(lit(ScalarValue::TimestampSecond(Some(1), None))), "-..+ and more");
        let berlin = ScalarValue::TimestampNanosecond(Some(1), Some("Europe/Berlin".into()));
        check(col("ts").eq(lit(berlin)), "-..+ and more");
    }

    #[test]
    fn functions_around_the_column_are_taken_off() {
        const HOUR: i64 = 3_600_000_000;
        const DAY: i64 = 24 * HOUR;
        let call = |name: &str, mut args: Vec<Expr>, time: Expr, at: usize| {
            args.insert(at, time);
            let function = crate::functions::scalar_function(name).expect("it is there");
            Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
        };
        let floor = |stride: &str, time| call("timestamp_floor", vec![lit(stride)], time, 1);
        let add = |unit: &str, n: i64, time| call("dateadd", vec![lit(unit), lit(n)], time, 2);
        check(floor("1h", col("ts")).eq(at(HOUR)), &format!("{HOUR}..{}", 2 * HOUR));
        check(floor("1h", col("ts")).eq(at(HOUR + 1)), "");
        check(floor("2h", col("ts")).lt(at(-1)), "-..0");
        check(floor("2h", col("ts")).gt(at(-1)), "0..+");
        check(floor("1M", col("ts")).gt(at(0)), &format!("{}..+", 31 * DAY));
        check(add("h", 1, col("ts")).gt_eq(at(0)), &format!("{}..+", -HOUR));
        check(
            add("d", -2, col("ts")).between(at(0), at(1)),
            &format!("{}..{}", 2 * DAY, 2 * DAY + 2),
        );
        check(add("n", 1, col("ts")).gt_eq(at(0)), "-..+ and more");
        let both = floor("1h", add("m", 30, col("ts"))).eq(at(HOUR));
        check(both, &format!("{}..{}", HOUR / 2, HOUR / 2 + HOUR));
        // Several days of a long month become one of a short month: the condition is evaluated
        // again.
        let later = add("M", 1, col("ts")).gt_eq(at(59 * DAY));
        check(later, &format!("{}..+ and more", 24 * DAY));
        check(not(add("M", 1, col("ts")).gt_eq(at(59 * DAY))), "-..+ and more");
        let day = lit(ScalarValue::new_interval_mdn(0, 1, 0));
        check((col("ts") + day.clone()).lt(at(DAY)), "-..0");
        check((col("ts") - day).lt(at(0)), &format!("-..{DAY}"));
        let month = lit(ScalarValue::new_interval_mdn(1, 0, 0));
        check((col("ts") + month).lt(at(0)), "-..+ and more");
        check(add("h", 1, col("other")).gt_eq(at(0)), "-..+ and more");
    }

    #[test]
    fn periods_become_ranges() {
        const DAY: i64 = 86_400_000_000;
        let day = || cast(col("ts"), DataType::Date32);
        let date_trunc = |unit: &str, time: Expr| {
            let function = crate::functions::scalar_function("date_trunc").expect("it is there");
            Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![lit(unit), time]))
        };
        let date = |days| lit(ScalarValue::Date32(Some(days)));
        check(day().eq(date(2)), &format!("{}..{}", 2 * DAY, 3 * DAY));
        check(day().gt(date(2)), &format!("{}..+", 3 * DAY));
        check(day().lt_eq(date(2)), &format!("-..{}", 3 * DAY));
        check(day().eq(date(-2)), &format!("{}..{}", -2 * DAY, -DAY));
        let hour = || date_trunc("hour", col("ts"));
        const HOUR: i64 = 3_600_000_000;
        check(hour().eq(at(HOUR)), &format!("{HOUR}..{}", 2 * HOUR));
        check(hour().eq(at(HOUR + 1)), "");
        check(hour().gt_eq(at(HOUR + 1)), &format!("{}..+", 2 * HOUR));
        check(hour().lt(at(HOUR + 1)), &format!("-..{}", 2 * HOUR));
        check(hour().lt(at(HOUR)), &format!("-..{HOUR}"));
        check(hour().lt(at(0)), "-..0");
        check(hour().eq(at(-HOUR)), &format!("{}..0", -HOUR));
        let february = date_trunc("Months", col("ts")).eq(at(31 * DAY));
        check(february, &format!("{}..{}", 31 * DAY, 59 * DAY));
        check(
            date_trunc("week", col("ts")).eq(at(-3 * DAY)),
            &format!("{}..{}", -3 * DAY, 4 * DAY),
        );
        check(date_trunc("hour", day()).eq(at(HOUR)), "");
    }
}
