//! The simulation behind the rows: one sequence of random numbers, walked once, in order.
//!
//! - simulate-1. Random numbers are drawn in the order of the original: for hosts or trucks when
//!   they are created, then instant by instant. The code that writes rows draws none.
//! - simulate-2. Rows come out in their final order, a `Stretch` at a time, and a stretch holds all
//!   that is needed to write them: any thread can format it while the next one is simulated.
//!
//! Memory grows with the number of hosts alone.

mod entities;
mod hosts;
mod generic;
mod trucks;

use self::generic::GenericSimulator;
use self::hosts::HostSimulator;
use self::trucks::TruckSimulator;
use super::options::{Options, UseCase};
use super::schema::Schema;
use crate::error::Result;
use crate::time::Nanos;

pub(crate) use self::entities::Entities;

/// Most rows of a stretch.
const STRETCH_ROWS: usize = 2_048;
/// The value for no tag or no field in a `Row`.
pub(crate) const NONE: u8 = u8::MAX;

/// A row without its states, which follow those of the row before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) ts: i64,
    /// The number of its host or truck.
    pub(crate) entity: u32,
    /// Number of its states.
    pub(crate) slots: u32,
    pub(crate) measurement: u8,
    /// The field that is left out, or `NONE`.
    pub(crate) nil_field: u8,
    /// The tag that is left out, or `NONE`.
    pub(crate) nil_tag: u8,
}

/// Rows that follow each other (simulate-2).
#[derive(Default)]
pub(crate) struct Stretch {
    pub(crate) rows: Vec<Row>,
    pub(crate) states: Vec<f64>,
}

impl Stretch {
    fn clear(&mut self) {
        self.rows.clear();
        self.states.clear();
    }

    fn is_full(&self) -> bool {
        // States count too, because a row of `devops-generic` can have any number of them.
        STRETCH_ROWS <= self.rows.len() || STRETCH_ROWS * 32 <= self.states.len()
    }

    /// Keeps at most the first `rows` rows.
    pub(crate) fn truncate(&mut self, rows: u64) {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let dropped: usize = self.rows.iter().skip(rows).map(|row| row.slots as usize).sum();
        self.states.truncate(self.states.len() - dropped);
        self.rows.truncate(rows);
    }

    fn push(&mut self, row: Row, states: &[f64]) {
        self.rows.push(row);
        self.states.extend_from_slice(states);
    }

    /// Returns each row with its states.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Row, &[f64])> {
        let mut rest = self.states.as_slice();
        self.rows.iter().map(move |row| {
            let (states, after) = rest.split_at(row.slots as usize);
            rest = after;
            (row, states)
        })
    }
}

/// One of the five simulations.
pub(crate) struct Simulator {
    inner: Inner,
}

enum Inner {
    Hosts(HostSimulator),
    Generic(GenericSimulator),
    Trucks(TruckSimulator),
}

impl Simulator {
    /// Creates the hosts or trucks.
    pub(crate) fn new(options: &Options) -> Result<(Simulator, Schema, Entities)> {
        options.check()?;
        let (inner, schema, entities) = match options.use_case {
            UseCase::CpuOnly | UseCase::CpuSingle | UseCase::Devops => {
                let schema = Schema::new(options.use_case, 0);
                let (hosts, entities) = HostSimulator::new(options, &schema);
                (Inner::Hosts(hosts), schema, entities)
            }
            UseCase::DevopsGeneric => {
                let (hosts, metrics, entities) = GenericSimulator::new(options);
                (Inner::Generic(hosts), Schema::new(options.use_case, metrics), entities)
            }
            UseCase::Iot => {
                let (trucks, entities) = TruckSimulator::new(options);
                (Inner::Trucks(trucks), Schema::new(options.use_case, 0), entities)
            }
        };
        Ok((Simulator { inner }, schema, entities))
    }

    /// Replaces the content of `stretch` by the next rows; it is empty at the end.
    pub(crate) fn next(&mut self, stretch: &mut Stretch) {
        stretch.clear();
        match &mut self.inner {
            Inner::Hosts(hosts) => hosts.fill(stretch),
            Inner::Generic(hosts) => hosts.fill(stretch),
            Inner::Trucks(trucks) => trucks.fill(stretch),
        }
    }
}

/// The counters of every simulation.
struct Clock {
    ts: i64,
    start: i64,
    interval: i64,
    epoch: u64,
    epochs: u64,
    scale: u64,
    initial: u64,
    /// Number of hosts that have rows now.
    active: u64,
    /// Points so far, including those of inactive hosts.
    made: u64,
    made_max: u64,
    /// Selection of the rows that are written: those whose number modulo `groups` is `group`.
    groups: u64,
    group: u64,
    turn: u64,
}

impl Clock {
    fn new(options: &Options, initial: u64, measurements: u64) -> Clock {
        let epochs = options.epochs();
        let all = epochs.saturating_mul(options.scale).saturating_mul(measurements);
        let limit = if options.max_points == 0 { u64::MAX } else { options.max_points };
        let Nanos(start) = options.start;
        Clock {
            ts: start,
            start,
            interval: i64::try_from(options.interval.get()).unwrap_or(i64::MAX),
            epoch: 0,
            epochs,
            scale: options.scale,
            initial,
            active: initial,
            made: 0,
            made_max: all.min(limit),
            groups: options.groups,
            group: options.group,
            turn: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.made_max <= self.made
    }

    /// Advances to the next instant, and sets the number of its hosts.
    fn tick(&mut self) {
        self.ts = self.ts.wrapping_add(self.interval);
        self.epoch += 1;
        // With one epoch the ramp would divide by zero.
        if 1 < self.epochs {
            let share = (self.scale - self.initial) as f64 * self.epoch as f64;
            self.active = self.initial + whole(share / (self.epochs - 1) as f64);
        }
    }

    /// Returns true if the next row is written.
    #[inline]
    fn takes_turn(&mut self) -> bool {
        let takes = self.turn == self.group;
        self.turn += 1;
        if self.turn == self.groups {
            self.turn = 0;
        }
        takes
    }
}

#[expect(clippy::cast_possible_truncation, reason = "below the scale")]
#[expect(clippy::cast_sign_loss, reason = "not negative")]
fn whole(x: f64) -> u64 {
    x as u64
}

/// Returns the initial number of hosts, from the flags.
fn initial_scale(options: &Options) -> u64 {
    match options.initial_scale {
        0 => options.scale,
        initial => initial.min(options.scale),
    }
}

/// Limits a state to the bounds, in the order of the original.
#[inline]
fn clamped(state: f64, min: f64, max: f64) -> f64 {
    let below = if max < state { max } else { state };
    if below < min { min } else { below }
}
