//! The buffer that rows are written into, and the limits of a row in time and memory.
//!
//! - room-1. A row has at most `limits::ROW_BYTES`, and from `COUNTED_BYTES` on written bytes are
//!   counted in the memory budget of connections (`budget`).
//! - room-2. While a long value is written, cancellation and memory are checked every
//!   `CHECK_ELEMENTS` elements: the work between two checks takes less than a millisecond.

use std::ops::{Deref, DerefMut};

use bytes::BytesMut;
use tidegate_model::{ByteCount, limits};
use tidegate_query::CancelHandle;

use crate::budget::{OverBudget, Reservation};
use crate::pg::error_response::ErrorResponse;

/// The bytes of a buffer that every connection may have, as `pg.send_buffer` has by default.
const COUNTED_BYTES: usize = 256 << 10;
/// The bytes that are counted at once.
const COUNT_STEP_BYTES: usize = 64 << 10;
/// The elements of a list between two checks (room-2).
const CHECK_ELEMENTS: usize = 1_024;

/// The reason why a row is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pg) enum RowStopped {
    TooLarge,
    Memory(OverBudget),
    Canceled,
    /// A list of lists of different lengths has no binary format.
    Ragged,
    /// A time is beyond the binary format (pg_encode-4).
    TimeRange,
}

/// The limits of rows: memory, and the cancellation of their statement.
#[derive(Debug)]
pub(in crate::pg) struct Guard {
    reservation: Reservation,
    cancel_handle: CancelHandle,
}

/// A buffer with the limits of the row that is written into it. It dereferences to the buffer.
pub(in crate::pg) struct Room<'b> {
    bytes: &'b mut BytesMut,
    guard: &'b mut Guard,
    row_start: usize,
    stopped: Option<RowStopped>,
}

impl Guard {
    /// Makes the limits of a buffer whose bytes are counted by `reservation`.
    pub(in crate::pg) fn new(reservation: Reservation, cancel_handle: &CancelHandle) -> Guard {
        Guard { reservation, cancel_handle: cancel_handle.clone() }
    }

    /// Returns the count of the bytes that were written.
    pub(in crate::pg) fn into_reservation(self) -> Reservation {
        self.reservation
    }
}

/// Counts the bytes of a buffer that waits to be sent (room-1).
fn count(reservation: &mut Reservation, bytes: usize) -> Result<(), OverBudget> {
    let counted = if bytes <= COUNTED_BYTES { 0 } else { bytes };
    reservation.try_resize(counted.next_multiple_of(COUNT_STEP_BYTES))
}

impl<'b> Room<'b> {
    pub(in crate::pg) fn new(bytes: &'b mut BytesMut, guard: &'b mut Guard) -> Room<'b> {
        let row_start = bytes.len();
        Room { bytes, guard, row_start, stopped: None }
    }

    pub(super) fn begin_row(&mut self) {
        self.row_start = self.bytes.len();
    }

    /// Returns true if the row is so long that it is checked before its end.
    pub(super) fn is_long(&self) -> bool {
        COUNT_STEP_BYTES < self.bytes.len() - self.row_start
    }

    /// Returns true if the row is stopped, at this element of a list (room-2).
    pub(super) fn check_element(&mut self, element: usize) -> bool {
        if element.is_multiple_of(CHECK_ELEMENTS) { self.check() } else { self.stopped.is_some() }
    }

    /// Checks the limits, and returns true if the row is stopped.
    pub(super) fn check(&mut self) -> bool {
        if self.stopped.is_none() {
            if self.guard.cancel_handle.is_canceled() {
                self.stopped = Some(RowStopped::Canceled);
            } else if limits::ROW_BYTES < self.bytes.len() - self.row_start {
                self.stopped = Some(RowStopped::TooLarge);
            } else if let Err(over) = count(&mut self.guard.reservation, self.bytes.len()) {
                self.stopped = Some(RowStopped::Memory(over));
            }
        }
        self.stopped.is_some()
    }

    pub(super) fn stop(&mut self, why: RowStopped) {
        self.stopped.get_or_insert(why);
    }

    /// Ends a value, with an error if it is stopped.
    pub(in crate::pg) fn end(mut self) -> Result<(), RowStopped> {
        self.check();
        self.stopped.map_or(Ok(()), Err)
    }

    /// Takes the reason why the row is stopped, if it is.
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

impl From<RowStopped> for ErrorResponse {
    fn from(stopped: RowStopped) -> ErrorResponse {
        match stopped {
            RowStopped::TooLarge => {
                let max = ByteCount(limits::ROW_BYTES as u64);
                ErrorResponse::new(
                    "54000",
                    format!("a row of the answer exceeds the limit of {max}"),
                )
            }
            RowStopped::Memory(over) => over.into(),
            RowStopped::Canceled => ErrorResponse::canceled(),
            RowStopped::Ragged => {
                let message = "a list of lists of different lengths, or with NULL for a list, has \
                               no binary form in PostgreSQL: ask for it as text";
                ErrorResponse::new("2202E", message)
            }
            RowStopped::TimeRange => {
                let message = "a time of the answer is out of the range of PostgreSQL's binary \
                               form: ask for it as text";
                ErrorResponse::new("22008", message)
            }
        }
    }
}
