//! Simulation of the trucks of `iot`: readings and diagnostics, sent through a simulated network
//! that loses rows, delays them, changes their order, and leaves out tags and fields.
//!
//! - trucks-1. Behaviour of the original is kept even where it looks like an error. The settings of
//!   a batch name rows by number, but a lost row shifts the numbers of the rows after it. A row
//!   that was held back can be held back again. The simulation may be asked for points past its
//!   end.

use std::collections::VecDeque;

use super::super::random::{Normal, Source};
use super::entities::{Entities, Truck};
use super::{Clock, NONE, Row, Stretch, clamped, initial_scale};
use crate::tsbs::options::Options;

/// Rows of a batch.
const BATCH: usize = 10;
const READINGS: usize = 7;
const DIAGNOSTICS: usize = 3;
const TAGS: u32 = 8;

pub(super) struct TruckSimulator {
    source: Source,
    base: Base,
    /// The rows to hand out.
    current: Vec<Entry>,
    late_batches: VecDeque<Vec<Entry>>,
    late_rows: VecDeque<Entry>,
}

/// The trucks, before the faults of the network.
struct Base {
    normal: Normal,
    clock: Clock,
    trucks: Vec<State>,
    /// The load of all trucks: the original shares the object that draws it among them.
    load: f64,
    truck: u64,
    measurement: u8,
}

struct State {
    readings: [f64; READINGS],
    fuel: f64,
    status: f64,
}

#[derive(Clone, Copy)]
struct Entry {
    row: Row,
    states: [f64; READINGS],
}

impl Entry {
    const NONE: Entry = Entry {
        row: Row { ts: 0, entity: 0, slots: 0, measurement: 0, nil_field: NONE, nil_tag: NONE },
        states: [0.0; READINGS],
    };
}

/// The faults of the rows of a batch.
#[derive(Default)]
struct Settings {
    reinserted: [bool; BATCH],
    lost: [bool; BATCH],
    delayed: [bool; BATCH],
    nil_field: [Option<u8>; BATCH],
    nil_tag: [Option<u8>; BATCH],
}

enum Delivery {
    Missing,
    /// A late batch comes instead of this one.
    Insert,
    Delay(Settings),
    Deliver(Settings),
}

impl TruckSimulator {
    pub(super) fn new(options: &Options) -> (TruckSimulator, Entities) {
        let mut source = Source::new(options.seed);
        let mut states = Vec::new();
        let mut trucks = Vec::new();
        for _ in 0..options.scale {
            let [latitude, longitude, elevation, heading] =
                [90.0, 180.0, 500.0, 360.0].map(|range| source.float() * range);
            let readings = [latitude, longitude, elevation, 0.0, heading, 0.0, 25.0];
            states.push(State { readings, fuel: 1.0, status: 0.0 });
            trucks.push(Truck::draw(&mut source));
        }
        let base = Base {
            normal: Normal::new(),
            clock: Clock::new(options, initial_scale(options), 2),
            trucks: states,
            load: 0.0,
            truck: 0,
            measurement: 0,
        };
        let simulator = TruckSimulator {
            source,
            base,
            current: Vec::new(),
            late_batches: VecDeque::new(),
            late_rows: VecDeque::new(),
        };
        (simulator, Entities::Trucks(trucks))
    }

    pub(super) fn fill(&mut self, stretch: &mut Stretch) {
        while !stretch.is_full() && self.refill() {
            for entry in &self.current {
                if self.base.clock.takes_turn() {
                    // The lengths are constants for the compiler, so that copies need no call.
                    match entry.row.measurement {
                        0 => stretch.push(entry.row, &entry.states),
                        _ => stretch.push(entry.row, &entry.states[..DIAGNOSTICS]),
                    }
                }
            }
        }
    }

    /// Fetches the next rows to hand out. Returns false at the end.
    fn refill(&mut self) -> bool {
        self.current.clear();
        loop {
            if self.base.clock.is_done() {
                if let Some(batch) = self.late_batches.pop_front() {
                    self.current.extend(batch);
                    return true;
                }
                let count = self.late_rows.len().min(BATCH);
                self.current.extend(self.late_rows.drain(..count));
                return !self.current.is_empty();
            }
            match self.draw_delivery() {
                Delivery::Missing => {
                    let mut missing = Entry::NONE;
                    for _ in 0..BATCH {
                        if !self.base.next(&mut self.source, &mut missing) {
                            break;
                        }
                    }
                }
                Delivery::Insert => {
                    let batch = self.late_batches.pop_front().expect("it was asked for");
                    self.current.extend(batch);
                    return true;
                }
                Delivery::Delay(settings) => {
                    self.gather(&settings);
                    if !self.current.is_empty() {
                        self.late_batches.push_back(self.current.drain(..).collect());
                    }
                }
                Delivery::Deliver(settings) => {
                    self.gather(&settings);
                    if !self.current.is_empty() {
                        return true;
                    }
                }
            }
        }
    }

    /// Draws all random decisions about a batch, before its first row.
    fn draw_delivery(&mut self) -> Delivery {
        let source = &mut self.source;
        if source.float() < 0.01 {
            return Delivery::Missing;
        }
        let delay = source.float() < 0.05;
        let insert = !self.late_batches.is_empty() && source.float() < 0.5;
        let mut late = self.late_rows.len();
        let mut settings = Settings::default();
        for i in 0..BATCH {
            if 0 < late && source.float() < 0.5 {
                settings.reinserted[i] = true;
                late -= 1;
            }
            if source.float() < 0.1 {
                settings.lost[i] = true;
                continue;
            }
            if source.float() < 0.1 {
                let field = source.intn(u32::try_from(READINGS).expect("few"));
                settings.nil_field[i] = u8::try_from(field).ok();
            }
            if source.float() < 0.01 {
                settings.nil_tag[i] = u8::try_from(source.intn(TAGS)).ok();
            }
            settings.delayed[i] = source.float() < 0.3;
        }
        // A late batch that comes now replaces this one and discards its settings.
        match (insert, delay) {
            (true, _) => Delivery::Insert,
            (false, true) => Delivery::Delay(settings),
            (false, false) => Delivery::Deliver(settings),
        }
    }

    /// Appends the rows of a batch to `current` (trucks-1).
    fn gather(&mut self, settings: &Settings) {
        let is_set = |flags: &[bool; BATCH], k: usize| flags.get(k).is_some_and(|&flag| flag);
        let mut shift = 0;
        for i in 0..BATCH {
            if self.base.clock.is_done() {
                return;
            }
            // Points are created in place: moving them costs more than drawing them.
            self.current.push(Entry::NONE);
            let entry = self.current.last_mut().expect("just pushed");
            loop {
                let k = i + shift;
                if is_set(&settings.reinserted, k) {
                    *entry = self.late_rows.pop_front().expect("counted when it was drawn");
                } else if !self.base.next(&mut self.source, entry) {
                    self.current.pop();
                    return;
                }
                if is_set(&settings.lost, k) {
                    shift += 1;
                } else if is_set(&settings.delayed, k) {
                    self.late_rows.push_back(*entry);
                    shift += 1;
                } else {
                    break;
                }
            }
            if let Some(field) = settings.nil_field[i] {
                let fields = u8::try_from(entry.row.slots).expect("at most seven");
                entry.row.nil_field = field % fields;
            }
            entry.row.nil_tag = settings.nil_tag[i].unwrap_or(NONE);
        }
    }
}

impl Base {
    /// Replaces `entry` by the next point, unless its truck does not exist yet.
    #[inline]
    fn next(&mut self, source: &mut Source, entry: &mut Entry) -> bool {
        if self.truck == self.clock.scale {
            self.truck = 0;
            self.measurement += 1;
        }
        if self.measurement == 2 {
            self.measurement = 0;
            self.tick(source);
        }
        let truck = self.truck;
        self.truck += 1;
        self.clock.made += 1;
        if self.clock.active <= truck {
            return false;
        }
        let entity = u32::try_from(truck).expect("32 bits, options-1");
        let state = &self.trucks[entity as usize];
        let slots = if self.measurement == 0 { READINGS } else { DIAGNOSTICS };
        entry.row = Row {
            ts: self.clock.ts,
            entity,
            slots: u32::try_from(slots).expect("at most seven"),
            measurement: self.measurement,
            nil_field: NONE,
            nil_tag: NONE,
        };
        match self.measurement {
            0 => entry.states = state.readings,
            _ => {
                entry.states[..DIAGNOSTICS].copy_from_slice(&[state.fuel, self.load, state.status])
            }
        }
        true
    }

    fn tick(&mut self, source: &mut Source) {
        /// Step and bounds of the readings.
        const WALKS: [(f64, f64, f64); READINGS] = [
            (0.005, -90.0, 90.0),
            (0.005, -180.0, 180.0),
            (10.0, 0.0, 5_000.0),
            (10.0, 0.0, 100.0),
            (5.0, 0.0, 360.0),
            (5.0, 0.0, 100.0),
            (5.0, 0.0, 50.0),
        ];
        self.clock.tick();
        for truck in &mut self.trucks {
            for (state, (step, min, max)) in truck.readings.iter_mut().zip(WALKS) {
                *state = clamped(*state + between(source, -step, step), min, max);
            }
            let fuel = clamped(truck.fuel + between(source, -0.001, 0.0), 0.0, 1.0);
            truck.fuel = if fuel == 0.0 { 1.0 } else { fuel };
            if 0.95 <= between(source, 0.0, 1.0) {
                self.load = between(source, 0.0, 5_000.0);
            }
            let step = self.normal.draw(source) * 1.0 + 0.0;
            truck.status = clamped(truck.status + step, 0.0, 5.0);
        }
    }
}

#[inline]
fn between(source: &mut Source, low: f64, high: f64) -> f64 {
    source.float() * (high - low) + low
}
