//! Simulation of the hosts of `cpu-only`, `cpu-single` and `devops`: all hosts have the same
//! measurements, up to nine.
//!
//! The rows of an instant are those of all hosts for the first measurement, then those for the
//! second, and so on. With one measurement, the states of a host advance right before its row is
//! written. With more, the states of all hosts must advance before the first row of an instant. So
//! that no thread waits for that, the states of the next instant are computed in a second vector, a
//! few hosts with each stretch.

use super::super::random::{Normal, Source};
use super::super::schema::Schema;
use super::entities::{Entities, Extras, Host, Server};
use super::{Clock, NONE, Row, Stretch, clamped, initial_scale};
use crate::tsbs::options::{Options, UseCase};

const GIB: f64 = 1_073_741_824.0;

pub(super) struct HostSimulator {
    source: Source,
    normal: Normal,
    clock: Clock,
    plan: Vec<Motion>,
    /// For each measurement, the range of its states among the states of a host.
    slots: Vec<(usize, usize)>,
    /// The number of states of a host.
    width: usize,
    /// The states of this instant, host by host.
    now: Vec<f64>,
    /// The states of the next instant; empty with one measurement.
    next: Vec<f64>,
    /// The number of hosts whose states in `next` are computed.
    advanced: u64,
    measurement: usize,
    host: u64,
}

/// The rule by which some states of a host advance.
enum Motion {
    /// States that advance independently.
    Walks { from: usize, walks: Vec<Walk> },
    /// Used, cached and buffered bytes. They stay below the total, the state before them.
    Memory { from: usize },
    /// Seconds since the first instant.
    Uptime { at: usize },
}

/// A random walk: each step adds a normally distributed number, or its magnitude, and the state
/// stays within bounds.
#[derive(Clone, Copy)]
struct Walk {
    mean: f64,
    deviation: f64,
    min: f64,
    max: f64,
    /// True if the state only grows.
    grows: bool,
}

impl Walk {
    fn within(mean: f64, min: f64, max: f64) -> Walk {
        Walk { mean, deviation: 1.0, min, max, grows: false }
    }

    fn growing(mean: f64) -> Walk {
        Walk { grows: true, ..Walk::free(mean) }
    }

    fn free(mean: f64) -> Walk {
        Walk::within(mean, f64::NEG_INFINITY, f64::INFINITY)
    }

    #[inline]
    fn step(&self, state: &mut f64, normal: &Normal, source: &mut Source) {
        let step = normal.draw(source) * self.deviation + self.mean;
        let step = if self.grows { step.abs() } else { step };
        *state = clamped(*state + step, self.min, self.max);
    }
}

impl HostSimulator {
    pub(super) fn new(options: &Options, schema: &Schema) -> (HostSimulator, Entities) {
        let mut source = Source::new(options.seed);
        let mut slots = Vec::new();
        let mut width = 0;
        for measurement in &schema.measurements {
            slots.push((width, width + measurement.slots()));
            width += measurement.slots();
        }
        let scale = usize::try_from(options.scale).expect("32 bits, options-1");
        let mut now = Vec::with_capacity(scale * width);
        let mut hosts = Vec::with_capacity(scale);
        let mut extras = Vec::new();
        for _ in 0..scale {
            for _ in 0..slots[0].1 {
                now.push(source.float() * 100.0);
            }
            if options.use_case == UseCase::Devops {
                extras.push(draw_devops(&mut source, &mut now));
            }
            hosts.push(Host::draw(&mut source));
        }
        assert_eq!(now.len(), scale * width, "tsbs_schema-1");
        let measurements = schema.measurements.len();
        let plan = match options.use_case {
            UseCase::Devops => devops_plan(&slots),
            _ => vec![Motion::Walks { from: 0, walks: vec![cpu_walk(); width] }],
        };
        let simulator = HostSimulator {
            source,
            normal: Normal::new(),
            clock: Clock::new(options, initial_scale(options), measurements as u64),
            plan,
            slots,
            width,
            next: if measurements == 1 { Vec::new() } else { now.clone() },
            now,
            advanced: 0,
            measurement: 0,
            host: 0,
        };
        (simulator, Entities::Hosts { hosts, extras })
    }

    pub(super) fn fill(&mut self, stretch: &mut Stretch) {
        while !stretch.is_full() && !self.clock.is_done() {
            if self.host == self.clock.scale {
                self.host = 0;
                self.measurement += 1;
            }
            if self.measurement == self.slots.len() {
                self.begin_instant();
            }
            let room = (super::STRETCH_ROWS - stretch.rows.len()) as u64;
            let left = self.clock.made_max - self.clock.made;
            let hosts = room.min(left).min(self.clock.scale - self.host);
            self.advance_hosts(hosts);
            self.push_rows(hosts, stretch);
            self.clock.made += hosts;
            self.host += hosts;
        }
    }

    fn begin_instant(&mut self) {
        self.measurement = 0;
        self.clock.tick();
        if !self.next.is_empty() {
            assert_eq!(self.advanced, self.clock.scale, "simulate-1");
            std::mem::swap(&mut self.now, &mut self.next);
        }
        self.advanced = 0;
    }

    /// Advances the states of the hosts whose turn it is before the rows of the next `hosts` hosts
    /// are written.
    fn advance_hosts(&mut self, hosts: u64) {
        if self.next.is_empty() {
            // The first instant has the start values.
            if self.clock.epoch != 0 {
                for host in self.host..self.host + hosts {
                    self.advance_host(host);
                }
            }
            return;
        }
        let scale = u128::from(self.clock.scale);
        let passed = scale * self.measurement as u128 + u128::from(self.host + hosts);
        let target = passed.div_ceil(self.slots.len() as u128);
        while u128::from(self.advanced) < target {
            self.advance_host(self.advanced);
            self.advanced += 1;
        }
    }

    fn advance_host(&mut self, host: u64) {
        let from = usize::try_from(host).expect("32 bits, options-1") * self.width;
        let range = from..from + self.width;
        let mut ts = self.clock.ts;
        let states = if self.next.is_empty() {
            &mut self.now[range]
        } else {
            ts = ts.wrapping_add(self.clock.interval);
            let next = &mut self.next[range.clone()];
            next.copy_from_slice(&self.now[range]);
            next
        };
        for motion in &self.plan {
            match motion {
                Motion::Walks { from, walks } => {
                    for (state, walk) in states[*from..].iter_mut().zip(walks) {
                        walk.step(state, &self.normal, &mut self.source);
                    }
                }
                Motion::Memory { from } => {
                    let total = states[from - 1];
                    let walk = Walk { deviation: total / 64.0, ..Walk::within(0.0, 0.0, total) };
                    for state in &mut states[*from..from + 3] {
                        walk.step(state, &self.normal, &mut self.source);
                    }
                }
                Motion::Uptime { at } => {
                    states[*at] = (ts.wrapping_sub(self.clock.start) / 1_000_000_000) as f64;
                }
            }
        }
    }

    fn push_rows(&mut self, hosts: u64, stretch: &mut Stretch) {
        let (first, last) = self.slots[self.measurement];
        let row = Row {
            ts: self.clock.ts,
            entity: 0,
            slots: u32::try_from(last - first).expect("few"),
            measurement: u8::try_from(self.measurement).expect("at most nine"),
            nil_field: NONE,
            nil_tag: NONE,
        };
        for host in self.host..(self.host + hosts).min(self.clock.active) {
            if self.clock.takes_turn() {
                let from = usize::try_from(host).expect("32 bits, options-1") * self.width;
                let entity = u32::try_from(host).expect("32 bits, options-1");
                stretch.push(Row { entity, ..row }, &self.now[from + first..from + last]);
            }
        }
    }
}

/// Draws the tags of the measurements after cpu when a host is created, and pushes their start
/// values.
fn draw_devops(source: &mut Source, states: &mut Vec<f64>) -> Extras {
    let mut extras = Extras { serial: [0; 3].map(|_| source.intn(1_000)), ..Extras::default() };
    states.extend([0.0; 7]);
    extras.path = source.intn(10);
    extras.fstype = source.intn(3);
    states.push(512.0 * GIB);
    states.push(f64::from(source.int63n(240)));
    states.extend([0.0; 5]);
    let total = [8.0, 12.0, 16.0][source.intn(3) as usize] * GIB;
    states.push(total);
    states.extend([0; 3].map(|_| source.float() * total));
    extras.interface = source.intn(4);
    states.extend([0.0; 8]);
    extras.nginx = Server::draw(source);
    states.extend([0.0; 7]);
    states.extend([0.0; 16]);
    extras.redis = Server::draw(source);
    let from = states.len();
    states.extend([0.0; 31]);
    states[from + 10..from + 14].fill(8.0 * GIB);
    extras
}

fn cpu_walk() -> Walk {
    Walk::within(0.0, 0.0, 100.0)
}

fn devops_plan(slots: &[(usize, usize)]) -> Vec<Motion> {
    let walks = |measurement: usize, skipped: usize, walks: Vec<Walk>| {
        let (first, last) = slots[measurement];
        assert_eq!(first + skipped + walks.len(), last, "tsbs_schema-1");
        Motion::Walks { from: first + skipped, walks }
    };
    let few = Walk::within(5.0, 0.0, 100.0);
    let more = Walk::within(5.0, 0.0, 1_000.0);
    let diskio = [50.0, 50.0, 100.0, 100.0, 5.0, 5.0, 5.0].map(Walk::growing);
    let net = [50.0, 50.0, 50.0, 50.0, 5.0, 5.0, 5.0, 5.0].map(Walk::growing);
    let counter = Walk::growing(5.0);
    let mut postgresl = vec![more; 16];
    postgresl[12] = Walk::within(1_024.0, 0.0, GIB);
    vec![
        walks(0, 0, vec![cpu_walk(); 10]),
        walks(1, 0, diskio.to_vec()),
        walks(2, 0, vec![Walk::within(50.0, 0.0, 1_024.0 * GIB)]),
        walks(3, 1, vec![counter; 5]),
        Motion::Memory { from: slots[4].0 + 1 },
        walks(5, 0, net.to_vec()),
        walks(6, 0, vec![counter, few, counter, few, counter, few, few]),
        walks(7, 0, postgresl),
        Motion::Uptime { at: slots[8].0 },
        walks(8, 1, redis_walks()),
    ]
}

/// Returns the walks of all fields but the first, which is not a walk.
fn redis_walks() -> Vec<Walk> {
    let mut walks = vec![Walk::growing(5.0)];
    walks.extend([Walk::growing(50.0); 4]);
    walks.extend([Walk::free(1.0); 3]);
    walks.push(Walk::within(50.0, 0.0, 10_000.0));
    walks.extend([Walk::within(50.0, 0.0, 16.0 * GIB); 4]);
    walks.push(Walk::within(50.0, 0.0, 10_000.0));
    walks.extend([Walk::within(5.0, 0.0, 1_000.0); 16]);
    // The field is mem_fragmentation_ratio.
    walks[25] = Walk::within(5.0, 0.0, 100.0);
    walks
}
