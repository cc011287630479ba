//! Execution of an engine's statement, from its start to the requested number of rows.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use tidegate_query::{CancelHandle, Error as QueryError, Parameter, is_cancel, is_copy};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::{Connection, Stopped};
use crate::admission::Claimant;
use crate::budget::Reservation;
use crate::execution_slot::{ExecutionSlot, SlotError, ended_before_begin, overdue};
use crate::pg::encode::{Format, Guard, Room};
use crate::pg::error_response::ErrorResponse;
use crate::pg::portal::{ActiveStatement, Event, HeavyPart, Rows, Running, Share, Work};
use crate::pg::types::{Column, DIMENSIONS_MAX, columns, too_deep};
use crate::server_state::CountedQuery;

/// The interval at which a statement that waits for admission checks whether it was cancelled.
const TICK: Duration = Duration::from_millis(20);
/// The time for which a client may read nothing before the permit is released (connection-2).
const SLOW: Duration = Duration::from_millis(50);
/// The bytes of rows that are written before other events are checked.
const PART_BYTES: usize = 64 << 10;
/// The bytes of rows that are written at once on a blocking thread.
const HEAVY_PART_BYTES: usize = 256 << 10;

/// A statement to execute.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) sql: Arc<str>,
    pub(super) parameters: Arc<[Parameter]>,
    /// The characters that the client has sent before the statement.
    pub(super) before: usize,
    /// True if its text or its values take long to read (connection-5).
    pub(super) is_large: bool,
    /// True for the query of a cursor (portal-6).
    pub(super) is_cursor: bool,
}

/// The result of the start of a statement.
pub(super) enum Started {
    Rows(Box<Rows>),
    /// The statement has no rows, and is done.
    Done(String),
}

/// The use of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Sent,
    /// They are skipped: MOVE.
    Skipped,
}

/// The first answer of the engine to a statement.
enum Begun {
    Rows {
        running: Running,
        schema: SchemaRef,
        cancel_handle: CancelHandle,
        slot: Option<ExecutionSlot>,
    },
    Done(String),
}

/// The progress of taking rows.
pub(super) struct Progress {
    pub(super) rows: u64,
    /// True if there are no more rows.
    pub(super) is_over: bool,
}

/// A task that is aborted when this is dropped (connection-4).
pub(super) struct Ending(pub(super) AbortHandle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Starts a statement, and waits until it has rows or is done.
    pub(super) async fn start(&mut self, order: &Order) -> Result<Started, Stopped> {
        if let Some(rows) = self.start_known(order).await? {
            return Ok(Started::Rows(Box::new(rows)));
        }
        let work = self.work(order);
        let _cancelable = self.backend.begin(&work.cancel_handle);
        let counted = CountedQuery::begin(&self.server, "pg");
        let done = self.start_spawned(order, work).await;
        match done {
            Ok(Begun::Rows { running, schema, cancel_handle, slot }) => {
                let active = ActiveStatement { slot, counted };
                let rows = Rows::new(running, schema, cancel_handle, active);
                Ok(Started::Rows(Box::new(rows)))
            }
            Ok(Begun::Done(tag)) => {
                counted.end("00000");
                Ok(Started::Done(tag))
            }
            Err(stopped) => {
                counted.end(code_of(&stopped));
                Err(stopped)
            }
        }
    }

    fn work(&self, order: &Order) -> Work {
        Work {
            sql: Arc::clone(&order.sql),
            parameters: Arc::clone(&order.parameters),
            session: self.session.clone(),
            cancel_handle: CancelHandle::default(),
            is_cursor: order.is_cursor,
        }
    }

    /// Starts a query that is known to be quick; `None` if it is not, or no permit is free
    /// (portal-3).
    pub(super) async fn start_known(&mut self, order: &Order) -> Result<Option<Rows>, Stopped> {
        let services = Arc::clone(&self.services);
        // Its text and its values would be read on this thread (connection-5). The plan of a cursor
        // is counted by the threads of a lane (portal-6).
        if order.is_large || order.is_cursor {
            return Ok(None);
        }
        let claimant = Claimant::of(&self.session);
        let Some(slot) = ExecutionSlot::try_new(&services, &claimant) else { return Ok(None) };
        let work = self.work(order);
        let (engine, options) = (&services.engine, work.options());
        let cached = engine.execute_cached(&work.sql, &work.parameters, &options, slot.threads());
        let Some(cached) = cached else { return Ok(None) };
        let counted = CountedQuery::begin(&self.server, "pg");
        match cached {
            Ok(answer) => {
                check_depth(&answer.schema)?;
                self.notices(&answer.notices);
                let active = ActiveStatement { slot: Some(slot), counted };
                let running = Running::Inline(answer.stream);
                Ok(Some(Rows::new(running, answer.schema, work.cancel_handle, active)))
            }
            Err(error) => {
                let error = ErrorResponse::of_query(&error, &order.sql, order.before);
                counted.end(error.code);
                Err(error.into())
            }
        }
    }

    async fn start_spawned(&mut self, order: &Order, work: Work) -> Result<Begun, Stopped> {
        let cancel_handle = work.cancel_handle.clone();
        let services = Arc::clone(&self.services);
        // A cancel must work while all permits are in use.
        let (slot, threads) = match is_cancel(&order.sql) {
            true => (None, Handle::current()),
            false => {
                let slot = self.admit(&cancel_handle).await?;
                let threads = match is_copy(&order.sql) {
                    true => services.job_threads.clone(),
                    false => slot.threads().clone(),
                };
                (Some(slot), threads)
            }
        };
        let limit = services.engine.time_limit(&work.options());
        let mut running = Running::start(&services, work, &threads);
        let failed = |reason| -> Result<Begun, Stopped> {
            let error = QueryError::Canceled { reason };
            Err(ErrorResponse::of_query(&error, &order.sql, order.before).into())
        };
        let event = tokio::select! {
            biased;
            event = running.next() => event,
            () = self.wire.closed() => return Err(Stopped::Disconnected),
            reason = ended_before_begin(&cancel_handle, limit) => return failed(reason),
            // Nothing changes by the query of a cursor, so its end need not be waited for.
            reason = overdue(&cancel_handle), if order.is_cursor => return failed(reason),
        };
        match event {
            Some(Event::Rows { schema, notices }) => {
                check_depth(&schema)?;
                self.notices(&notices);
                Ok(Begun::Rows { running, schema, cancel_handle, slot })
            }
            Some(Event::Done { tag, notices }) => {
                self.notices(&notices);
                Ok(Begun::Done(tag))
            }
            Some(Event::Failed(error)) => {
                Err(ErrorResponse::of_query(&error, &order.sql, order.before).into())
            }
            Some(Event::Batch(_) | Event::End) | None => Err(panicked().into()),
        }
    }

    /// Waits for admission of a statement.
    pub(super) async fn admit(
        &mut self,
        cancel_handle: &CancelHandle,
    ) -> Result<ExecutionSlot, Stopped> {
        let services = Arc::clone(&self.services);
        let claimant = Claimant::of(&self.session);
        if let Some(slot) = ExecutionSlot::try_new(&services, &claimant) {
            return Ok(slot);
        }
        tokio::select! {
            biased;
            slot = ExecutionSlot::new(&services, &claimant) => {
                Ok(slot.map_err(|error| slot_error(&error))?)
            }
            error = canceled(cancel_handle) => Err(error.into()),
            () = self.wire.closed() => Err(Stopped::Disconnected),
        }
    }

    /// Waits for the permit that a statement has released.
    async fn resume(
        &mut self,
        slot: Option<&mut ExecutionSlot>,
        cancel_handle: &CancelHandle,
    ) -> Result<(), Stopped> {
        let Some(slot) = slot else { return Ok(()) };
        tokio::select! {
            biased;
            resumed = slot.resume() => {
                Ok(resumed.map_err(|timed_out| slot_error(&SlotError::Admission(timed_out)))?)
            }
            error = canceled(cancel_handle) => Err(error.into()),
            () = self.wire.closed() => Err(Stopped::Disconnected),
        }
    }

    /// Takes rows of a statement: at most this many, or all (`u64::MAX`).
    pub(super) async fn take_rows(
        &mut self,
        order: &Order,
        rows: &mut Rows,
        formats: &[Format],
        max: u64,
        taken: Taken,
    ) -> Result<Progress, Stopped> {
        let cancel_handle = rows.cancel_handle.clone();
        let _cancelable = self.backend.begin(&cancel_handle);
        rows.active.counted.note("57014");
        self.resume(rows.active.slot.as_mut(), &cancel_handle).await?;
        let taken = self.take_with(order, rows, formats, max, taken).await;
        match &taken {
            Ok(Progress { is_over: false, .. }) => rows.wait(),
            // The remaining tasks of a finished statement keep its permit until they have ended,
            // too.
            Ok(Progress { is_over: true, .. }) => rows.active.counted.note("00000"),
            Err(stopped) => rows.active.counted.note(code_of(stopped)),
        }
        taken
    }

    async fn take_with(
        &mut self,
        order: &Order,
        rows: &mut Rows,
        formats: &[Format],
        max: u64,
        taken: Taken,
    ) -> Result<Progress, Stopped> {
        let mut done = 0;
        loop {
            while rows.has_pending() && done < max {
                let left = max - done;
                done += match taken {
                    Taken::Skipped => rows.skip(left),
                    Taken::Sent => self.write(rows, formats, left).await?,
                };
                if self.server.config.pg.send_buffer <= self.wire.writer.len() {
                    self.send(rows.active.slot.as_mut(), &rows.cancel_handle).await?;
                }
            }
            if done == max {
                return Ok(Progress { rows: done, is_over: false });
            }
            let event = tokio::select! {
                biased;
                event = rows.running.next() => event,
                () = self.wire.closed() => return Err(Stopped::Disconnected),
                reason = overdue(&rows.cancel_handle) => {
                    let error = QueryError::Canceled { reason };
                    return Err(ErrorResponse::of_query(&error, &order.sql, order.before).into());
                }
            };
            match event {
                Some(Event::Batch(batch)) => rows.add(batch),
                Some(Event::End) => return Ok(Progress { rows: done, is_over: true }),
                Some(Event::Failed(error)) => {
                    return Err(ErrorResponse::of_query(&error, &order.sql, order.before).into());
                }
                Some(Event::Rows { .. } | Event::Done { .. }) | None => {
                    return Err(panicked().into());
                }
            }
        }
    }

    /// Writes pending rows, as many as other tasks can wait for, and returns their number.
    async fn write(
        &mut self,
        rows: &mut Rows,
        formats: &[Format],
        rows_max: u64,
    ) -> Result<u64, Stopped> {
        let mut guard = Guard::new(self.output_reservation()?, &rows.cancel_handle);
        let style = self.session.setting("IntervalStyle");
        let of_style = |format| match format {
            Format::Text => Format::of_style(style.as_deref()),
            binary => binary,
        };
        let all_text = vec![Format::Text; rows.schema.fields().len()];
        let formats = if formats.is_empty() { all_text.as_slice() } else { formats };
        let formats = &*formats.iter().copied().map(of_style).collect::<Vec<_>>();
        let Some(heavy) = rows.take_heavy() else {
            let share = Share { rows_max, bytes_max: self.wire.writer.len() + PART_BYTES };
            let mut room = Room::new(&mut self.wire.writer.bytes, &mut guard);
            let written = rows.write(formats, share, &mut room);
            self.output_reservation = Some(guard.into_reservation());
            return Ok(written?);
        };
        let share = Share { rows_max, bytes_max: HEAVY_PART_BYTES };
        let formats = formats.to_vec();
        let part = self.spawned(move || heavy.write(&formats, share, guard)).await;
        if let Err(Stopped::Disconnected) = part {
            rows.cancel_handle.cancel();
        }
        let HeavyPart { rest, bytes, written, guard } = part?;
        self.output_reservation = Some(guard.into_reservation());
        let written = written.map_err(ErrorResponse::from)?;
        rows.give_back(rest);
        // It is the same buffer if the output was empty.
        self.wire.writer.bytes.unsplit(bytes);
        Ok(written)
    }

    /// Returns the count of the bytes that wait to be sent.
    fn output_reservation(&mut self) -> Result<Reservation, ErrorResponse> {
        match self.output_reservation.take() {
            Some(reservation) => Ok(reservation),
            None => Ok(self.account.reserve(0)?),
        }
    }

    /// Runs work on a blocking thread, so that it delays no other connection.
    pub(super) async fn spawned<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let work = self.services.query_threads.spawn_blocking(work);
        tokio::select! {
            biased;
            done = work => done.map_err(|_| panicked().into()),
            () = self.wire.closed() => Err(Stopped::Disconnected),
        }
    }

    /// Sends the output. If that takes long, the permit is released meanwhile (connection-2); it
    /// ends when the statement is cancelled, and when the client takes nothing for
    /// `pg.send_timeout`.
    pub(super) async fn send(
        &mut self,
        mut slot: Option<&mut ExecutionSlot>,
        cancel_handle: &CancelHandle,
    ) -> Result<(), Stopped> {
        if let Ok(sent) = timeout(SLOW, self.wire.flush()).await {
            self.output_reservation = None;
            return Ok(sent?);
        }
        if let Some(slot) = &mut slot {
            slot.pause();
        }
        tokio::select! {
            biased;
            sent = self.wire.flush() => sent?,
            error = canceled(cancel_handle) => return Err(error.into()),
        }
        self.output_reservation = None;
        self.resume(slot, cancel_handle).await
    }
}

fn slot_error(error: &SlotError) -> ErrorResponse {
    ErrorResponse::new(error.code(), error.to_string())
}

/// Waits until the statement is cancelled, and returns the error.
pub(super) async fn canceled(cancel_handle: &CancelHandle) -> ErrorResponse {
    while !cancel_handle.is_canceled() {
        sleep(TICK).await;
    }
    let error = QueryError::Canceled { reason: cancel_handle.reason() };
    ErrorResponse::of_query(&error, "", 0)
}

/// Returns the columns of an answer, and for each whether it is sent in binary.
pub(super) fn described(schema: &SchemaRef, formats: &[Format]) -> (Vec<Column>, Vec<bool>) {
    let columns = columns(schema);
    let is_binary = |at: usize| formats.get(at) == Some(&Format::Binary);
    let formats = (0..columns.len()).map(is_binary).collect();
    (columns, formats)
}

/// Refuses columns that cannot be represented in the protocol.
pub(super) fn check_depth(schema: &SchemaRef) -> Result<(), ErrorResponse> {
    match too_deep(schema) {
        None => Ok(()),
        Some(column) => {
            let message = format!(
                "column \"{column}\" has lists within lists, more than the {DIMENSIONS_MAX} levels \
                 that an array has dimensions"
            );
            Err(ErrorResponse::new("54000", message))
        }
    }
}

/// Returns the SQLSTATE with which work has ended.
pub(super) fn code_of(stopped: &Stopped) -> &'static str {
    match stopped {
        Stopped::Error(error) => error.code,
        Stopped::Disconnected => "57014",
    }
}

pub(super) fn panicked() -> ErrorResponse {
    ErrorResponse::new("XX000", "internal error: the statement has panicked")
}
