//! Rates and the remaining time of a run, from samples of its counters.

use tidegate_ingest::{Phase, ProgressSample};

/// The time constant of the moving averages: a longer one reacts more slowly, and a shorter one
/// makes the displayed numbers jump.
const WINDOW_MS: f64 = 3_000.0;
/// The time in a phase after which the remaining time is first estimated.
const ETA_AFTER_MS: u64 = 500;

/// Moving averages over the samples of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    at_ms: u64,
    rows: u64,
    bytes: u64,
    phase: Option<Phase>,
    phase_start_ms: u64,
    rows_per_ms: f64,
    bytes_per_ms: f64,
}

impl Rates {
    /// Adds a sample; time must not go back.
    pub(super) fn add(&mut self, at_ms: u64, sample: &ProgressSample) {
        let rows = rows_done(sample);
        if self.phase != Some(sample.phase) {
            // The rate of one phase does not apply to the next.
            self.phase = Some(sample.phase);
            self.phase_start_ms = self.at_ms;
            self.rows = if sample.phase == Phase::Build { 0 } else { self.rows };
        }
        let span_ms = at_ms.saturating_sub(self.at_ms) as f64;
        if span_ms > 0.0 {
            // The weight of the old average shrinks with the time passed, and is 0 at first.
            let keep = if self.at_ms == 0 { 0.0 } else { (-span_ms / WINDOW_MS).exp() };
            let mix = |old: f64, done: u64, before: u64| {
                old * keep + done.saturating_sub(before) as f64 / span_ms * (1.0 - keep)
            };
            self.rows_per_ms = mix(self.rows_per_ms, rows, self.rows);
            self.bytes_per_ms = mix(self.bytes_per_ms, sample.bytes_read, self.bytes);
        }
        (self.at_ms, self.rows, self.bytes) = (at_ms, rows, sample.bytes_read);
    }

    pub(super) fn rows_per_second(&self) -> u64 {
        rounded(self.rows_per_ms * 1_000.0)
    }

    pub(super) fn bytes_per_second(&self) -> u64 {
        rounded(self.bytes_per_ms * 1_000.0)
    }

    /// Returns the estimated seconds to the end of the present phase; `None` if there is no
    /// estimate.
    pub(super) fn eta_seconds(&self, sample: &ProgressSample) -> Option<u64> {
        if self.at_ms < self.phase_start_ms + ETA_AFTER_MS {
            return None;
        }
        let (left, per_ms) = match sample.phase {
            Phase::Read => {
                (sample.bytes_total?.saturating_sub(sample.bytes_read), self.bytes_per_ms)
            }
            Phase::Build => {
                (rows_total(sample).saturating_sub(sample.rows_written), self.rows_per_ms)
            }
            _ => return None,
        };
        (per_ms > 0.0).then(|| rounded((left as f64 / per_ms / 1_000.0).ceil()))
    }
}

/// Returns the finished part of the present phase, from 0 to 1; `None` if it is unknown.
pub(super) fn fraction(sample: &ProgressSample) -> Option<f64> {
    let (done, total) = match sample.phase {
        Phase::Read => (sample.bytes_read, sample.bytes_total?),
        Phase::Build => (sample.rows_written, rows_total(sample)),
        Phase::Commit | Phase::Done => (1, 1),
        _ => return None,
    };
    (total > 0).then(|| (done as f64 / total as f64).min(1.0))
}

fn rows_done(sample: &ProgressSample) -> u64 {
    if sample.phase == Phase::Build { sample.rows_written } else { sample.rows_read }
}

fn rows_total(sample: &ProgressSample) -> u64 {
    sample.rows_read.saturating_sub(sample.rows_rejected)
}

#[expect(clippy::cast_possible_truncation, reason = "the cast of a float saturates")]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(phase: Phase, bytes_read: u64, rows_read: u64) -> ProgressSample {
        ProgressSample {
            phase,
            bytes_read,
            bytes_total: Some(10_000_000),
            rows_read,
            rows_written: 0,
            rows_rejected: 0,
            memory_bytes: 0,
            spilled_bytes: 0,
        }
    }

    #[test]
    fn a_steady_rate_is_measured_exactly() {
        let mut rates = Rates::default();
        for step in 1..=10 {
            rates.add(step * 200, &sample(Phase::Read, step * 200_000, step * 2_000));
        }
        assert_eq!((rates.rows_per_second(), rates.bytes_per_second()), (10_000, 1_000_000));
        assert_eq!(rates.eta_seconds(&sample(Phase::Read, 2_000_000, 20_000)), Some(8));
    }

    #[test]
    fn a_stalled_source_slows_the_rate_down() {
        let mut rates = Rates::default();
        for second in 1..30 {
            rates.add(second * 1_000, &sample(Phase::Read, 1_000_000, 1));
        }
        assert!(rates.bytes_per_second() < 1_000, "{rates:?}");
    }

    #[test]
    fn there_is_no_estimate_without_a_total_or_at_the_start_of_a_phase() {
        let mut rates = Rates::default();
        rates.add(1_000, &sample(Phase::Read, 1_000, 1));
        let piped = ProgressSample { bytes_total: None, ..sample(Phase::Read, 1_000, 1) };
        assert_eq!((rates.eta_seconds(&piped), fraction(&piped)), (None, None));
        rates.add(1_200, &sample(Phase::Build, 1_000, 1));
        assert_eq!(rates.eta_seconds(&sample(Phase::Build, 1_000, 1)), None);
        assert_eq!(fraction(&sample(Phase::Build, 1_000, 0)), None, "no rows, no fraction");
    }
}
