//! Simulation and formatting on several threads, with the same bytes as on one.
//!
//! A stretch is a batch of rows from the simulator.
//!
//! - pipeline-1. Stretches are numbered while the simulator is locked, and written in that order:
//!   the output does not depend on the number of threads.
//! - pipeline-2. At most `AHEAD` stretches for each thread wait for their turn: memory does not
//!   grow with the number of rows.
//!
//! The simulation has no thread of its own. A thread that needs rows locks the simulator, takes a
//! stretch, unlocks and formats it: no thread waits for work as long as drawing rows is faster
//! than writing them, and a single thread needs no queue.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::format::{Cursor, Formatter, Scratch};
use super::options::{Format, Options};
use super::simulate::{Simulator, Stretch};
use crate::error::{Error, Result};

/// Most stretches, for each thread, that are ready before their turn (pipeline-2).
const AHEAD: usize = 4;

/// Totals of the generated data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// Rows written.
    pub rows: u64,
    /// Fields of these rows as the format has them, without those left out.
    pub metrics: u64,
    /// Bytes written, with the header.
    pub bytes: u64,
}

/// The rows of a simulation, handed out stretch by stretch.
pub(crate) struct Rows {
    state: Mutex<(Simulator, u64)>,
    pub(crate) formatter: Formatter,
}

impl Rows {
    pub(crate) fn new(options: &Options, format: Format) -> Result<Rows> {
        let (simulator, schema, entities) = Simulator::new(options)?;
        let formatter = Formatter::new(format, schema, entities);
        Ok(Rows { state: Mutex::new((simulator, 0)), formatter })
    }

    /// Returns the next stretch, and its number (pipeline-1); `None` when there are no more rows.
    pub(crate) fn next(&self, stretch: &mut Stretch) -> Option<u64> {
        let mut state = lock(&self.state);
        let (simulator, number) = &mut *state;
        simulator.next(stretch);
        if stretch.rows.is_empty() {
            return None;
        }
        *number += 1;
        Some(*number - 1)
    }
}

/// A stretch, formatted.
#[derive(Default)]
struct Text {
    cursor: Cursor,
    rows: u64,
    metrics: u64,
}

/// The stretches that are ready, and the state of the writing.
struct Turns {
    /// The number of the first stretch in `ready`.
    next: u64,
    ready: VecDeque<Option<Text>>,
    /// True while a thread is writing; it also writes what gets ready meanwhile.
    is_writing: bool,
    spare: Vec<Cursor>,
    written: Generated,
    outcome: Result<()>,
}

/// Generates everything and hands the bytes to `write`: the header, if the format has one, and then
/// complete rows in their order, some 2,048 at a time.
///
/// # Errors
///
/// Contradictory options, and every error of `write`, after which it is not called again.
pub fn generate(
    options: &Options,
    format: Format,
    threads: NonZeroUsize,
    write: impl FnMut(&[u8]) -> Result<()> + Send,
) -> Result<Generated> {
    let rows = Rows::new(options, format)?;
    let mut write = write;
    let header = rows.formatter.header();
    write(&header)?;
    let turns = Mutex::new(Turns {
        next: 0,
        ready: VecDeque::new(),
        is_writing: false,
        spare: Vec::new(),
        written: Generated { bytes: header.len() as u64, ..Generated::default() },
        outcome: Ok(()),
    });
    let shared = Shared {
        rows: &rows,
        turns: &turns,
        turn_over: &Condvar::new(),
        write: &Mutex::new(write),
        ahead: threads.get() as u64 * AHEAD as u64,
    };
    let panicked = thread::scope(|scope| {
        let spawned: Vec<_> = (1..threads.get()).map(|_| scope.spawn(|| shared.work())).collect();
        shared.work();
        spawned.into_iter().any(|thread| thread.join().is_err())
    });
    if panicked {
        return Err(Error::Panicked);
    }
    let turns = turns.into_inner().unwrap_or_else(PoisonError::into_inner);
    turns.outcome.map(|()| turns.written)
}

struct Shared<'a, W> {
    rows: &'a Rows,
    turns: &'a Mutex<Turns>,
    turn_over: &'a Condvar,
    write: &'a Mutex<W>,
    ahead: u64,
}

impl<W: FnMut(&[u8]) -> Result<()>> Shared<'_, W> {
    fn work(&self) {
        let mut stretch = Stretch::default();
        let mut scratch = Scratch::default();
        while let Some(number) = self.rows.next(&mut stretch) {
            let mut cursor = lock(self.turns).spare.pop().unwrap_or_default();
            cursor.clear();
            let formatter = &self.rows.formatter;
            let metrics = formatter.write(&stretch, &mut scratch, &mut cursor);
            let text = Text { cursor, rows: stretch.rows.len() as u64, metrics };
            if !self.hand_in(number, text) {
                return;
            }
        }
    }

    /// Queues a text until its turn, and writes what is due unless another thread is writing.
    /// Returns false after an error.
    fn hand_in(&self, number: u64, text: Text) -> bool {
        let mut turns = lock(self.turns);
        while turns.outcome.is_ok() && turns.next + self.ahead <= number {
            turns = self.turn_over.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        if turns.outcome.is_err() {
            return false;
        }
        let place = usize::try_from(number - turns.next).expect("at most `ahead`, pipeline-2");
        if turns.ready.len() <= place {
            turns.ready.resize_with(place + 1, || None);
        }
        turns.ready[place] = Some(text);
        if turns.is_writing {
            return true;
        }
        turns.is_writing = true;
        while let Some(Some(_)) = turns.ready.front() {
            let text = turns.ready.pop_front().flatten().expect("it is ready");
            turns.next += 1;
            drop(turns);
            let outcome = (*lock(self.write))(text.cursor.written());
            turns = lock(self.turns);
            if outcome.is_ok() {
                turns.written.rows += text.rows;
                turns.written.metrics += text.metrics;
                turns.written.bytes += text.cursor.written().len() as u64;
                turns.spare.push(text.cursor);
            } else {
                turns.outcome = outcome;
                turns.ready.clear();
            }
            self.turn_over.notify_all();
        }
        turns.is_writing = false;
        turns.outcome.is_ok()
    }
}

pub(crate) fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is reported when it is joined.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
