//! The buffer that rows are written into, and what ends a row that takes too long or too much.
//!
//! - RO1. A row has at most `limits::ROW_BYTES`, and what is written is counted to what connections
//!   hold (`budget`) from `COUNTED_BYTES` on.
//! - RO2. A long value looks every `LOOK` elements if it is still wanted and has room: the work
//!   between two looks takes less than a millisecond.

use std::ops::{Deref, DerefMut};

use bytes::BytesMut;
use tidegate_model::{ByteCount, limits};
use tidegate_query::Canceler;

use crate::budget::{Held, OverBudget};
use crate::pg::fault::Fault;

/// Bytes of a buffer that every connection may have, as `pg.send_buffer` has by default.
const COUNTED_BYTES: usize = 256 << 10;
/// Bytes that are counted at once.
const COUNT_STEP_BYTES: usize = 64 << 10;
/// Elements of a list between two looks (RO2).
const LOOK: usize = 1_024;

/// The reason for which a row is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pg) enum RowStopped {
    TooLarge,
    Memory(OverBudget),
    Canceled,
    /// A list of lists of different lengths has no binary form.
    Ragged,
}

/// The limits of rows: memory, and the statement that they belong to.
#[derive(Debug)]
pub(in crate::pg) struct Guard {
    held: Held,
    canceler: Canceler,
}

/// See the module. It is the buffer that it is for.
pub(in crate::pg) struct Room<'b> {
    bytes: &'b mut BytesMut,
    guard: &'b mut Guard,
    row_start: usize,
    stopped: Option<RowStopped>,
}

impl Guard {
    /// For a buffer whose bytes are counted by this.
    pub(in crate::pg) fn new(held: Held, canceler: &Canceler) -> Guard {
        Guard { held, canceler: canceler.clone() }
    }

    /// The count of the bytes that were written.
    pub(in crate::pg) fn into_held(self) -> Held {
        self.held
    }
}

/// Counts the bytes of a buffer that waits to be sent (RO1).
fn count(held: &mut Held, bytes: usize) -> Result<(), OverBudget> {
    let counted = if bytes <= COUNTED_BYTES { 0 } else { bytes };
    held.try_resize(counted.next_multiple_of(COUNT_STEP_BYTES))
}

impl<'b> Room<'b> {
    pub(in crate::pg) fn new(bytes: &'b mut BytesMut, guard: &'b mut Guard) -> Room<'b> {
        let row_start = bytes.len();
        Room { bytes, guard, row_start, stopped: None }
    }

    pub(super) fn begin_row(&mut self) {
        self.row_start = self.bytes.len();
    }

    /// Tells whether the row is so long that it is looked at before its end.
    pub(super) fn is_long(&self) -> bool {
        COUNT_STEP_BYTES < self.bytes.len() - self.row_start
    }

    /// Tells whether the row is given up, at this element of a list (RO2).
    pub(super) fn looks(&mut self, element: usize) -> bool {
        if element.is_multiple_of(LOOK) { self.check() } else { self.stopped.is_some() }
    }

    /// Tells whether the row is given up.
    pub(super) fn check(&mut self) -> bool {
        if self.stopped.is_none() {
            if self.guard.canceler.is_canceled() {
                self.stopped = Some(RowStopped::Canceled);
            } else if limits::ROW_BYTES < self.bytes.len() - self.row_start {
                self.stopped = Some(RowStopped::TooLarge);
            } else if let Err(over) = count(&mut self.guard.held, self.bytes.len()) {
                self.stopped = Some(RowStopped::Memory(over));
            }
        }
        self.stopped.is_some()
    }

    pub(super) fn stop(&mut self, why: RowStopped) {
        self.stopped.get_or_insert(why);
    }

    /// Ends a value, with an error if it is given up.
    pub(in crate::pg) fn end(mut self) -> Result<(), RowStopped> {
        self.check();
        self.stopped.map_or(Ok(()), Err)
    }

    /// The reason for which the row is given up, if it is.
    pub(super) fn take_stopped(&mut self) -> Option<RowStopped> {
        self.stopped.take()
    }
}

impl Deref for Room<'_> {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        self.bytes
    }
}

impl DerefMut for Room<'_> {
    fn deref_mut(&mut self) -> &mut BytesMut {
        self.bytes
    }
}

impl From<RowStopped> for Fault {
    fn from(stopped: RowStopped) -> Fault {
        match stopped {
            RowStopped::TooLarge => {
                let max = ByteCount(limits::ROW_BYTES as u64);
                Fault::new("54000", format!("a row of the answer has more than {max}, the most"))
            }
            RowStopped::Memory(over) => over.into(),
            RowStopped::Canceled => Fault::canceled(),
            RowStopped::Ragged => {
                let message = "a list of lists of different lengths, or with NULL for a list, has \
                               no binary form in PostgreSQL: ask for it as text";
                Fault::new("2202E", message)
            }
        }
    }
}
