//! Differences between two databases as a list: reasons, and below each its differences.
//!
//! Numbers are the same if they differ in the 15th digit at most, -0 and 0 too; the offset of a
//! zoned time, always UTC, is left out. Calls that Tidegate refuses are counted by their line.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::Call;
use crate::reasons::Reasons;

/// Rows, or an error.
pub(super) type Outcome = Result<String, String>;

/// Relative tolerance for equal numbers.
const PRECISION: f64 = 4e-15;

/// Returns the lines of the list.
pub(super) fn differences(calls: &[Call], theirs: &[Outcome], ours: &[Outcome]) -> Reasons {
    let mut found = BTreeSet::new();
    let mut refused = BTreeMap::<&str, (usize, usize, String)>::new();
    for ((call, theirs), ours) in calls.iter().zip(theirs).zip(ours) {
        let counts = refused.entry(&call.template).or_default();
        counts.1 += 1;
        let line = match (theirs, ours) {
            (Ok(theirs), Ok(ours)) if are_same(theirs, ours) => continue,
            (Err(_), Err(_)) => continue,
            (Ok(theirs), Ok(ours)) => format!("{} | {theirs} | {ours}", call.sql),
            (Err(_), Ok(ours)) => format!("{} | error | {ours}", call.sql),
            (Ok(_), Err(error)) => {
                counts.0 += 1;
                if counts.2.is_empty() {
                    error.clone_into(&mut counts.2);
                }
                continue;
            }
        };
        found.insert(line.replace('\\', "\\\\").replace('\n', "\\n"));
    }
    for (template, (count, all, error)) in refused.iter().filter(|(_, it)| it.0 != 0) {
        let line = format!("refused {count} of {all}: {template} | {error}");
        found.insert(line.replace('\n', " "));
    }
    Reasons::without_reasons(found)
}

fn are_same(theirs: &str, ours: &str) -> bool {
    let (theirs, ours) = (theirs.split('\n'), ours.split('\n'));
    theirs.clone().count() == ours.clone().count()
        && theirs.zip(ours).all(|(theirs, ours)| is_same(theirs, ours))
}

fn is_same(theirs: &str, ours: &str) -> bool {
    if theirs == ours {
        return true;
    }
    let is_zoned = theirs.contains(':') && theirs.ends_with("+00");
    let theirs = if is_zoned { theirs.trim_end_matches("+00") } else { theirs };
    if theirs == ours {
        return true;
    }
    // Every digit of an integer counts.
    let is_integer = |text: &str| text.parse::<i128>().is_ok();
    if is_integer(theirs) && is_integer(ours) {
        return theirs.parse::<i128>() == ours.parse::<i128>();
    }
    match (theirs.parse::<f64>(), ours.parse::<f64>()) {
        (Ok(theirs), Ok(ours)) => {
            let scale = theirs.abs().max(ours.abs());
            theirs == ours || (theirs - ours).abs() <= scale * PRECISION
        }
        _ => false,
    }
}
