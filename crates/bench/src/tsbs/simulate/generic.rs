//! Hosts of `devops-generic`: each has its own number of metrics, and some live only for a while.

use super::super::random::{Normal, Source, zipf_array};
use super::entities::{Entities, Host};
use super::{Clock, NONE, Row, Stretch, clamped};
use crate::tsbs::options::Options;

pub(super) struct GenericSimulator {
    source: Source,
    normal: Normal,
    clock: Clock,
    hosts: Vec<Life>,
    /// The metrics of all hosts.
    states: Vec<f64>,
    host: usize,
}

struct Life {
    /// End of its metrics; they begin at the end of those of the host before it.
    end: usize,
    /// Number of epochs in which it has rows; 0 is no limit.
    epochs: u64,
    /// Its first epoch, after that has begun.
    born: Option<u64>,
}

impl GenericSimulator {
    /// Creates the simulator; also returns the largest number of metrics of a host.
    pub(super) fn new(options: &Options) -> (GenericSimulator, usize, Entities) {
        let scale = usize::try_from(options.scale).expect("32 bits, options-1");
        let mut counts = zipf_array(scale - 1, options.max_metrics);
        counts.push(options.max_metrics);
        let mut ends = vec![0; scale - scale / 2];
        let mut mortal = zipf_array(scale / 2, options.epochs());
        mortal.sort_unstable_by(|a, b| b.cmp(a));
        ends.extend(mortal);

        let mut source = Source::new(options.seed);
        let mut states = Vec::new();
        let mut hosts = Vec::with_capacity(scale);
        let mut lives = Vec::with_capacity(scale);
        for (&count, epochs) in counts.iter().zip(ends) {
            states.extend((0..count).map(|_| source.float() * 1_000.0));
            hosts.push(Host::draw(&mut source));
            lives.push(Life { end: states.len(), epochs, born: None });
        }
        let initial = match options.initial_scale {
            0 => None,
            initial => Some(initial.min(options.scale)).filter(|&initial| initial < options.scale),
        };
        let initial = initial.unwrap_or((options.scale / 2).max(1));
        let metrics = counts.iter().copied().max().expect("a host");
        let simulator = GenericSimulator {
            source,
            normal: Normal::new(),
            clock: Clock::new(options, initial, 1),
            hosts: lives,
            states,
            host: 0,
        };
        let metrics = usize::try_from(metrics).expect("32 bits, options-1");
        (simulator, metrics, Entities::Hosts { hosts, extras: Vec::new() })
    }

    pub(super) fn fill(&mut self, stretch: &mut Stretch) {
        while !stretch.is_full() && !self.clock.is_done() {
            if self.host == self.hosts.len() {
                self.host = 0;
                self.clock.tick();
            }
            let first = self.host.checked_sub(1).map_or(0, |before| self.hosts[before].end);
            let life = &mut self.hosts[self.host];
            let states = &mut self.states[first..life.end];
            // Nothing else draws in between, so a host may move right before its row.
            if self.clock.epoch != 0 {
                for state in &mut *states {
                    let step = self.normal.draw(&mut self.source) * 1.0 + 0.0;
                    *state = clamped(*state + step, 0.0, 1_000.0);
                }
            }
            if (self.host as u64) < self.clock.active {
                let born = *life.born.get_or_insert(self.clock.epoch);
                let lives = life.epochs == 0 || self.clock.epoch < born.saturating_add(life.epochs);
                if lives && self.clock.takes_turn() {
                    let row = Row {
                        ts: self.clock.ts,
                        entity: u32::try_from(self.host).expect("32 bits, options-1"),
                        slots: u32::try_from(states.len()).expect("32 bits, options-1"),
                        measurement: 0,
                        nil_field: NONE,
                        nil_tag: NONE,
                    };
                    stretch.push(row, states);
                }
            }
            self.clock.made += 1;
            self.host += 1;
        }
    }
}
