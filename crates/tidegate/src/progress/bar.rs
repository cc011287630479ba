//! The progress bar: one line, of which the least important parts are left out if the terminal is
//! narrow.

use std::iter::repeat_n;

use tidegate_ingest::Phase;

use super::rate::fraction;
use super::{Moment, phase_name};
use crate::text::{bytes, count, duration};

const BAR_WIDTH_MIN: usize = 10;
const BAR_WIDTH_MAX: usize = 40;

/// A part of the line. Parts with the highest rank are left out first.
struct Part {
    rank: u8,
    text: String,
}

/// Returns the line, narrower than `columns` (progress-1): a cursor in the last column would wrap
/// on some terminals. Parts are left out, the least important ones first, until it fits.
pub(super) fn line(moment: &Moment, columns: usize) -> String {
    let room = columns.saturating_sub(1);
    let mut line = phase_name(moment.sample.phase);
    let fraction = fraction(&moment.sample);
    let bar_min = if fraction.is_some() { BAR_WIDTH_MIN + "  [] 100%".len() } else { 0 };
    let mut parts = parts(moment);
    let spare = loop {
        let wanted = line.len() + bar_min + parts.iter().map(|p| p.text.len() + 2).sum::<usize>();
        let least = (0..parts.len()).max_by_key(|&position| parts[position].rank);
        match (room.checked_sub(wanted), least) {
            (None, Some(least)) => parts.remove(least),
            (spare, _) => break spare.unwrap_or(0),
        };
    };
    if let Some(fraction) = fraction {
        push_bar(fraction, (BAR_WIDTH_MIN + spare).min(BAR_WIDTH_MAX), &mut line);
    }
    for part in parts {
        line.push_str("  ");
        line.push_str(&part.text);
    }
    line.truncate(room);
    line
}

/// Returns the parts in the order of the line.
fn parts(moment: &Moment) -> Vec<Part> {
    let sample = &moment.sample;
    let amount = match sample.bytes_total {
        _ if sample.phase == Phase::Build => format!("{} rows", count(sample.rows_written)),
        Some(total) => format!("{} / {}", bytes(sample.bytes_read), bytes(total)),
        None => bytes(sample.bytes_read),
    };
    let is_moving = matches!(sample.phase, Phase::Read | Phase::Build);
    let rows_rate = format!("{} rows/s", count(moment.rows_per_second));
    let bytes_rate = format!("{}/s", bytes(moment.bytes_per_second));
    let eta = moment.eta_seconds.map(|seconds| format!("ETA {}", duration(seconds)));
    let memory = format!("mem {}", bytes(sample.memory_bytes));
    let spilled = format!("spilled {}", bytes(sample.spilled_bytes));
    let rejected = format!("{} rejected", count(sample.rows_rejected));
    let parts = [
        (3, is_moving.then_some(amount)),
        (1, is_moving.then_some(rows_rate)),
        (2, (sample.phase == Phase::Read).then_some(bytes_rate)),
        (0, eta),
        (5, Some(memory)),
        (6, (sample.spilled_bytes > 0).then_some(spilled)),
        (4, (sample.rows_rejected > 0).then_some(rejected)),
    ];
    parts.into_iter().filter_map(|(rank, text)| Some(Part { rank, text: text? })).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "at most the width, and at most 100")]
fn push_bar(fraction: f64, width: usize, line: &mut String) {
    let full = ((fraction * width as f64) as usize).min(width);
    let percent = (fraction * 100.0) as u64;
    line.push_str("  [");
    line.extend(repeat_n('=', full));
    if full < width {
        line.push('>');
        line.extend(repeat_n(' ', width - full - 1));
    }
    line.push_str(&format!("] {percent:>3}%"));
}

#[cfg(test)]
mod tests {
    use tidegate_ingest::ProgressSample;

    use super::*;

    fn moment() -> Moment {
        let sample = ProgressSample {
            phase: Phase::Read,
            bytes_read: 672_000_000,
            bytes_total: Some(1_490_000_000),
            rows_read: 900_000,
            rows_written: 0,
            rows_rejected: 3,
            memory_bytes: 812_000_000,
            spilled_bytes: 0,
        };
        Moment {
            sample,
            elapsed_ms: 1_500,
            rows_per_second: 620_000,
            bytes_per_second: 465_000_000,
            eta_seconds: Some(75),
        }
    }

    #[test]
    fn a_wide_terminal_shows_everything() {
        let bar = format!("[{}>{}]", "=".repeat(18), " ".repeat(21));
        let expected = format!(
            "read  {bar}  45%  672.0 MB / 1.5 GB  620.0 k rows/s  465.0 MB/s  ETA 1:15  \
             mem 812.0 MB  3 rejected"
        );
        assert_eq!(line(&moment(), 160), expected);
    }

    #[test]
    fn no_line_is_as_wide_as_its_terminal() {
        for columns in 0..200 {
            let piped = ProgressSample { bytes_total: None, ..moment().sample };
            for sample in [moment().sample, piped] {
                let line = line(&Moment { sample, ..moment() }, columns);
                assert!(line.len() < columns.max(1), "progress-1: {columns}: {line}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_keeps_what_matters_most() {
        assert_eq!(line(&moment(), 40), "read  [=======>        ]  45%  ETA 1:15");
        assert_eq!(line(&moment(), 12), "read  [====");
    }

    #[test]
    fn a_pipe_has_no_bar() {
        let sample = ProgressSample { bytes_total: None, ..moment().sample };
        let moment = Moment { sample, eta_seconds: None, ..moment() };
        let expected = "read  672.0 MB  620.0 k rows/s  465.0 MB/s  mem 812.0 MB  3 rejected";
        assert_eq!(line(&moment, 80), expected);
    }
}
