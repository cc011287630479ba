//! Intervals relative to now: `ts IN '$today'`, `ts IN '$now - 1h..$now'`, as in QuestDB.
//!
//! - They become conditions with `now()`, `today()`, `yesterday()` and `tomorrow()`, so that a plan
//!   is not kept longer than they hold.
//! - A day stands for all of its time, `$now` is an instant; the end of a range is inclusive.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};

use crate::sql::call::call_of;

/// Returns the condition of `time IN text`, if the text is relative to now.
pub(super) fn relative_interval(time: &Expr, text: &str) -> Option<Expr> {
    let text = text.trim();
    if !text.starts_with('$') {
        return None;
    }
    let (range, length) = match text.split_once(';') {
        Some((range, length)) => (range.trim(), Some(length.trim())),
        None => (text, None),
    };
    let (first, last) = match range.split_once("..") {
        Some((first, last)) => (point(first)?, Some(point(last)?)),
        None => (point(range)?, None),
    };
    let compared = |op, bound: Expr| Expr::BinaryOp {
        left: Box::new(time.clone()),
        op,
        right: Box::new(bound),
    };
    let end = last.as_ref().unwrap_or(&first);
    let high = match (length, end.is_day) {
        (Some(length), _) => {
            let moved = shifts(length)?.into_iter();
            let end = moved.fold(end.start.clone(), |time, (count, unit)| add(time, count, unit));
            compared(BinaryOperator::Lt, end)
        }
        (None, true) => compared(BinaryOperator::Lt, add(end.start.clone(), 1, 'd')),
        (None, false) => compared(BinaryOperator::LtEq, end.start.clone()),
    };
    let low = compared(BinaryOperator::GtEq, first.start);
    let (left, right) = (Box::new(low), Box::new(high));
    Some(Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::And, right })))
}

/// A day, or an instant.
struct Point {
    start: Expr,
    is_day: bool,
}

/// Parses `$today - 7d`.
fn point(text: &str) -> Option<Point> {
    let text = text.trim().strip_prefix('$')?;
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (name, rest) = text.split_at(letters);
    let name = name.to_ascii_lowercase();
    let function = ["now", "today", "yesterday", "tomorrow"].into_iter().find(|it| *it == name)?;
    let start = call_of(function, []);
    let rest = rest.trim();
    let moved = if rest.is_empty() { Vec::new() } else { shifts(rest)? };
    if !rest.is_empty() && !rest.starts_with(['+', '-']) {
        return None;
    }
    // A day that is moved by hours becomes an instant.
    let is_day = function != "now" && moved.iter().all(|(_, unit)| "ywMd".contains(*unit));
    let start = moved.into_iter().fold(start, |time, (count, unit)| add(time, count, unit));
    Some(Point { start, is_day })
}

/// Parses `- 1d`, `+ 6h30m`: the amounts to move a time by; a sign holds up to the next one.
fn shifts(text: &str) -> Option<Vec<(i64, char)>> {
    let (mut rest, mut sign) = (text.trim(), 1);
    let mut moved = Vec::new();
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(['+', '-']) {
            sign = if rest.starts_with('-') { -1 } else { 1 };
            rest = behind.trim_start();
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count = rest[..digits].parse::<i64>().ok()?;
        rest = rest[digits..].trim_start();
        let unit = rest.chars().next().filter(|unit| "yMwdhmsTun".contains(*unit))?;
        rest = rest[1..].trim_start();
        moved.push((count * sign, unit));
        if 16 < moved.len() {
            return None;
        }
    }
    (!moved.is_empty()).then_some(moved)
}

fn add(time: Expr, count: i64, unit: char) -> Expr {
    let unit = Expr::Value(Value::SingleQuotedString(unit.to_string()).into());
    let count = Expr::Value(Value::Number(count.to_string(), false).into());
    call_of("dateadd", [unit, count, time])
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Ident;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let time = Expr::Identifier(Ident::new("ts"));
        let shown = relative_interval(&time, text).map(|expr| expr.to_string().replace('"', ""));
        assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{text}");
    }

    #[test]
    fn intervals_count_from_now() {
        check("$today", "(ts >= today() AND ts < dateadd('d', 1, today()))");
        check("$now - 1h..$now", "(ts >= dateadd('h', -1, now()) AND ts <= now())");
        check(
            "$today - 7d .. $yesterday",
            "(ts >= dateadd('d', -7, today()) AND ts < dateadd('d', 1, yesterday()))",
        );
        check(
            "$NOW-1h30m",
            "(ts >= dateadd('m', -30, dateadd('h', -1, now())) AND ts <= \
             dateadd('m', -30, dateadd('h', -1, now())))",
        );
        check("$today;6h", "(ts >= today() AND ts < dateadd('h', 6, today()))");
        for text in ["2025", "$week", "$now 1h", "$now - 1x", "$now -", "$now..", "$today;"] {
            check(text, "none");
        }
    }
}
