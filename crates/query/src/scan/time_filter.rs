//! Which instants of the designated timestamp a condition lets through.
//!
//! - I1. Every row that passes the condition lies in the ranges.
//! - I2. If the bound is exact, every row in the ranges passes: the condition is not looked at
//!   again.
//! - I3. Ranges ascend and do not touch.
//!
//! Not here: reading less because of it (`scan::prune`).

use datafusion::arrow::datatypes::{DataType, TimeUnit as ArrowUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, BinaryExpr, Cast, InList, ScalarFunction};
use datafusion::logical_expr::{Expr, Operator};
use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{PartitionUnit, TimeRange, TimeUnit, Timestamp};

use crate::plan::merged;

/// Ranges and whether they say all that the condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeBound {
    pub(crate) ranges: Vec<TimeRange>,
    pub(crate) is_exact: bool,
}

/// The designated timestamp as filters name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeColumn<'a> {
    /// In lower case.
    pub(crate) name: &'a str,
    pub(crate) unit: TimeUnit,
}

/// What a condition compares: the column, or the start of the period that it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Granule {
    Instant,
    /// So many seconds.
    Seconds(i64),
    /// A period of the calendar.
    Calendar(PartitionUnit),
}

/// The instants that pass all conditions, and the conditions that still have to be looked at.
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

    /// The bound of one condition. Where nothing is known, everything passes.
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
                match compared.or_else(swapped) {
                    Some(ranges) => self.exactly(ranges),
                    None => self.everything(),
                }
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let low = self.comparison(expr, Operator::GtEq, low);
                let high = self.comparison(expr, Operator::LtEq, high);
                match (low, high) {
                    (Some(low), Some(high)) => {
                        self.negated_if(*negated, self.exactly(intersected(&low, &high)))
                    }
                    _ => self.everything(),
                }
            }
            Expr::InList(InList { expr, list, negated }) => {
                let points = list.iter().map(|value| self.comparison(expr, Operator::Eq, value));
                match points.collect::<Option<Vec<_>>>() {
                    Some(points) => {
                        self.negated_if(*negated, self.exactly(merged(points.concat())))
                    }
                    None => self.everything(),
                }
            }
            Expr::Not(inner) => match self.bound(inner) {
                inner if inner.is_exact => self.negated_if(true, inner),
                _ => self.everything(),
            },
            Expr::IsNotNull(inner) if self.granule(inner).is_some() => {
                self.exactly(vec![TimeRange::all(self.unit)])
            }
            Expr::IsNull(inner) if self.granule(inner).is_some() => self.exactly(Vec::new()),
            Expr::Literal(ScalarValue::Boolean(Some(true)), _) => {
                self.exactly(vec![TimeRange::all(self.unit)])
            }
            Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => {
                self.exactly(Vec::new())
            }
            _ => self.everything(),
        }
    }

    /// The other instants. The column is never NULL, so that NOT is a complement.
    fn negated_if(self, negated: bool, bound: TimeBound) -> TimeBound {
        if !negated {
            return bound;
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

    /// `column op literal`; `None` if it is something else, or the literal no instant.
    fn comparison(self, column: &Expr, op: Operator, literal: &Expr) -> Option<Vec<TimeRange>> {
        let granule = self.granule(column)?;
        let Expr::Literal(value, _) = literal else { return None };
        let nanos = nanos_of(value)?;
        let worth = 1_000_000_000 / i128::from(self.unit.per_second());
        let floor = nanos.div_euclid(worth);
        let (start, next) = self.period(granule, floor)?;
        // The first start of a period at or after the literal, and the first after it.
        let is_start = start == floor && nanos.rem_euclid(worth) == 0;
        let (at, after) = (if is_start { start } else { next }, next);
        let range = |start: i128, end: i128| TimeRange {
            unit: self.unit,
            start: clamped(start),
            end: clamped(end),
        };
        let all = TimeRange::all(self.unit);
        let (least, most) = (i128::from(all.start), i128::from(all.end));
        let ranges = match op {
            Operator::Lt => vec![range(least, at)],
            Operator::LtEq => vec![range(least, after)],
            Operator::Gt => vec![range(after, most)],
            Operator::GtEq => vec![range(at, most)],
            Operator::Eq => vec![range(at, after)],
            Operator::NotEq => vec![range(least, at), range(after, most)],
            _ => return None,
        };
        Some(merged(ranges))
    }

    /// The first instant of the period that an instant lies in, and that of the next period.
    fn period(self, granule: Granule, instant: i128) -> Option<(i128, i128)> {
        let (start, next) = match granule {
            Granule::Instant => return Some((instant, instant + 1)),
            Granule::Seconds(seconds) => {
                let width = i128::from(seconds) * i128::from(self.unit.per_second());
                let start = instant - instant.rem_euclid(width);
                (start, start + width)
            }
            Granule::Calendar(unit) => {
                let bounds = i128::from(TIMESTAMP_MIN)..=i128::from(TIMESTAMP_MAX);
                let instant = i64::try_from(instant).ok().filter(|_| bounds.contains(&instant))?;
                let key = unit.floor(Timestamp(instant), self.unit);
                (i128::from(key.0), i128::from(unit.next(key, self.unit).0))
            }
        };
        // Before 1970 DataFusion's date_trunc goes up for some units, so that the condition itself
        // has to be looked at there.
        (start > 0).then_some((start, next))
    }

    /// What an expression says of the column: itself, perhaps cast to a unit that loses nothing, or
    /// the start of its period.
    fn granule(self, expr: &Expr) -> Option<Granule> {
        match expr {
            Expr::Column(column) => (column.name == self.name).then_some(Granule::Instant),
            Expr::Alias(alias) => self.granule(&alias.expr),
            Expr::Cast(Cast { expr, field }) => {
                let keeps_all = match field.data_type() {
                    DataType::Timestamp(ArrowUnit::Nanosecond, zone) => is_utc(zone.as_deref()),
                    DataType::Timestamp(ArrowUnit::Microsecond, zone) => {
                        is_utc(zone.as_deref()) && self.unit == TimeUnit::Micros
                    }
                    DataType::Date32 => {
                        let inner = self.granule(expr)?;
                        let day = Granule::Calendar(PartitionUnit::Day);
                        return (inner == Granule::Instant).then_some(day);
                    }
                    _ => false,
                };
                self.granule(expr).filter(|_| keeps_all)
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "date_trunc" => {
                let [Expr::Literal(period, _), time] = args.as_slice() else { return None };
                let granule = truncation(period.try_as_str()??)?;
                self.granule(time).filter(|inner| *inner == Granule::Instant).map(|_| granule)
            }
            _ => None,
        }
    }
}

/// What `date_trunc` cuts times down to.
fn truncation(period: &str) -> Option<Granule> {
    Some(match period.to_ascii_lowercase().as_str() {
        "second" => Granule::Seconds(1),
        "minute" => Granule::Seconds(60),
        "hour" => Granule::Seconds(3_600),
        "day" => Granule::Calendar(PartitionUnit::Day),
        "week" => Granule::Calendar(PartitionUnit::Week),
        "month" => Granule::Calendar(PartitionUnit::Month),
        "year" => Granule::Calendar(PartitionUnit::Year),
        _ => return None,
    })
}

fn is_utc(zone: Option<&str>) -> bool {
    zone.is_none_or(|zone| matches!(zone, "UTC" | "Z" | "+00:00" | "+00"))
}

/// A literal in nanoseconds since 1970.
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

fn clamped(value: i128) -> i64 {
    let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
    i64::try_from(value.clamp(least, most)).expect("clamped")
}

/// The instants in both; the ranges of each ascend.
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
    use datafusion::functions::datetime::expr_fn::date_trunc;
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
    fn periods_become_ranges() {
        const DAY: i64 = 86_400_000_000;
        let day = || cast(col("ts"), DataType::Date32);
        let date = |days| lit(ScalarValue::Date32(Some(days)));
        check(day().eq(date(2)), &format!("{}..{}", 2 * DAY, 3 * DAY));
        check(day().gt(date(2)), &format!("{}..+", 3 * DAY));
        check(day().lt_eq(date(2)), &format!("-..{}", 3 * DAY));
        check(day().eq(date(-2)), "-..+ and more");
        let hour = || date_trunc(lit("hour"), col("ts"));
        const HOUR: i64 = 3_600_000_000;
        check(hour().eq(at(HOUR)), &format!("{HOUR}..{}", 2 * HOUR));
        check(hour().eq(at(HOUR + 1)), "");
        check(hour().gt_eq(at(HOUR + 1)), &format!("{}..+", 2 * HOUR));
        check(hour().lt(at(HOUR + 1)), &format!("-..{}", 2 * HOUR));
        check(hour().lt(at(HOUR)), &format!("-..{HOUR}"));
        check(hour().lt(at(0)), "-..+ and more");
        let january = date_trunc(lit("Month"), col("ts")).eq(at(31 * DAY));
        check(january, &format!("{}..{}", 31 * DAY, 59 * DAY));
        check(date_trunc(lit("hour"), day()).eq(at(HOUR)), "-..+ and more");
    }
}
