//! LIKE on compressed strings: an automaton whose input are the codes of a string table.
//!
//! - code_automaton-1. It gives the result of [`Pattern::matches`] for the text that the decoder
//!   makes of the codes (filter_text-1).
//! - It has as many states as the pattern has bytes, twice: once between codes, and once behind an
//!   escape code, whose next byte stands for itself. Patterns with more than `STATES_MAX` bytes,
//!   with `_`, or of ILIKE have none.
//! - Each code costs one table lookup that waits for the one before it; several strings are matched
//!   at the same time, so that the lookups of one fill the waiting time of the others.

use crate::pattern::{ByteAutomaton, Pattern};
use crate::text::{Decoder, Texts};

/// The states of a table whose rows are found by the high byte of an index.
const STATES_MAX: usize = 256;
/// The code before a byte that stands for itself.
const ESCAPE: usize = 255;
/// Strings that are matched at the same time.
const LANES: usize = 4;

/// An automaton over the codes of one string table.
pub(crate) struct CodeAutomaton {
    /// For each state and code the next state; states are multiplied by 256.
    next: Vec<u16>,
    start: u16,
    /// For each state, true if a string that ends there matches.
    accepts: Vec<bool>,
}

/// A string that is being matched.
#[derive(Clone, Copy)]
struct Lane<'a> {
    /// The place of the string for the caller.
    place: usize,
    /// The codes that are left.
    codes: &'a [u8],
    state: u16,
}

impl CodeAutomaton {
    /// Compiles a pattern for texts as they are stored; `None` if they are not compressed, or the
    /// pattern has no automaton of so few states.
    pub(crate) fn of(pattern: &Pattern, texts: &Texts<'_>) -> Option<CodeAutomaton> {
        CodeAutomaton::new(&pattern.automaton()?, texts.decoder()?)
    }

    fn new(bytes: &ByteAutomaton, decoder: &Decoder) -> Option<CodeAutomaton> {
        let states = bytes.next.len();
        if states * 2 > STATES_MAX {
            return None;
        }
        let multiplied = |state: usize| u16::try_from(state * 256).expect("STATES_MAX");
        let mut next = vec![0; states * 2 * 256];
        for (state, of_bytes) in bytes.next.iter().enumerate() {
            let row = &mut next[state * 256..][..256];
            for (code, next) in row[..ESCAPE].iter_mut().enumerate() {
                let end = decoder
                    .symbol(code)
                    .fold(state, |state, byte| usize::from(bytes.next[state][usize::from(byte)]));
                *next = multiplied(end);
            }
            row[ESCAPE] = multiplied(states + state);
            let escaped = &mut next[(states + state) * 256..][..256];
            for (next, &state) in escaped.iter_mut().zip(of_bytes) {
                *next = multiplied(usize::from(state));
            }
        }
        // filter_text-1: a string that ends behind an escape code is the empty text.
        let of_empty = bytes.accepts[bytes.start];
        let mut accepts = bytes.accepts.clone();
        accepts.resize(states * 2, of_empty);
        Some(CodeAutomaton { next, start: multiplied(bytes.start), accepts })
    }

    /// Matches strings of codes, each with a place, and gives the places and the results to `on`,
    /// in any order.
    pub(crate) fn match_all<'a>(
        &self,
        mut strings: impl Iterator<Item = (usize, &'a [u8])>,
        mut on: impl FnMut(usize, bool),
    ) {
        let lane = |(place, codes)| Lane { place, codes, state: self.start };
        let mut lanes = [Lane { place: 0, codes: &[], state: self.start }; LANES];
        let mut filled = 0;
        while let Some(next) = lanes.get_mut(filled)
            && let Some(string) = strings.next()
        {
            *next = lane(string);
            filled += 1;
        }
        'all: while filled == LANES {
            let steps = lanes.iter().map(|lane| lane.codes.len()).min().unwrap_or(0);
            self.advance(&mut lanes, steps);
            for at in 0..LANES {
                if lanes[at].codes.is_empty() {
                    on(lanes[at].place, self.accepts(lanes[at].state));
                    let Some(string) = strings.next() else {
                        // The other lanes are matched to their ends below.
                        lanes.swap(at, LANES - 1);
                        filled -= 1;
                        break 'all;
                    };
                    lanes[at] = lane(string);
                }
            }
        }
        for lane in &lanes[..filled] {
            let end = lane.codes.iter().fold(lane.state, |state, &code| self.step(state, code));
            on(lane.place, self.accepts(end));
        }
    }

    /// Reads so many codes of each string.
    #[inline]
    fn advance(&self, lanes: &mut [Lane<'_>; LANES], steps: usize) {
        let read = lanes.map(|lane| &lane.codes[..steps]);
        let mut states = lanes.map(|lane| lane.state);
        for at in 0..steps {
            for (state, codes) in states.iter_mut().zip(read) {
                *state = self.step(*state, codes[at]);
            }
        }
        for (lane, state) in lanes.iter_mut().zip(states) {
            lane.state = state;
            lane.codes = &lane.codes[steps..];
        }
    }

    #[inline]
    fn step(&self, state: u16, code: u8) -> u16 {
        self.next[usize::from(state | u16::from(code))]
    }

    fn accepts(&self, state: u16) -> bool {
        self.accepts[usize::from(state >> 8)]
    }
}

#[cfg(test)]
mod tests;
