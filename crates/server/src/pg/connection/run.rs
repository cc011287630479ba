//! A statement of the engine, from its start to as many of its rows as are asked for.

use std::time::Duration;

use arrow::datatypes::SchemaRef;
use tidegate_query::{Canceler, Parameter, is_cancel};
use tokio::sync::SemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{Connection, Stopped};
use crate::pg::encode::Format;
use crate::pg::fault::Fault;
use crate::pg::portal::{Event, Rows, Running, Work};
use crate::pg::types::{Column, columns};
use crate::shared::{CountedQuery, Services};

/// How often who waits for a turn asks whether it is still wanted.
const TICK: Duration = Duration::from_millis(20);
/// How long a client may take to read before others have its turn (CO2).
const SLOW: Duration = Duration::from_millis(50);
/// Bytes of rows that are written before it is looked for what else is to be done.
const PART_BYTES: usize = 64 << 10;

/// How a statement is to be done.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) sql: std::sync::Arc<str>,
    pub(super) parameters: Vec<Parameter>,
    /// Characters of what the client has sent before the statement.
    pub(super) before: usize,
}

/// What has come of the start of a statement.
pub(super) enum Started {
    Rows(Box<Rows>),
    /// Something was changed.
    Done(String),
}

/// What happens with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Sent,
    /// They are passed over: MOVE.
    Skipped,
}

/// How far rows were taken.
pub(super) struct Progress {
    pub(super) rows: u64,
    /// Whether there are no more.
    pub(super) is_over: bool,
}

/// Ends work with whoever waits for it (CO4).
pub(super) struct Ending(pub(super) AbortHandle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The right to work, which others wait for.
struct Turn<'a> {
    services: &'a Services,
    permit: Option<SemaphorePermit<'a>>,
}

impl<'a> Turn<'a> {
    /// None is needed to end another statement.
    fn none(services: &'a Services) -> Turn<'a> {
        Turn { services, permit: None }
    }

    async fn take(&mut self, canceler: &Canceler) -> Result<(), Fault> {
        let (mut waited, most) = (Duration::ZERO, self.services.turn_wait);
        while waited < most {
            if canceler.is_canceled() {
                return Err(Fault::canceled());
            }
            if let Ok(permit) = timeout(TICK, self.services.turns.acquire()).await {
                self.permit = permit.ok();
                return Ok(());
            }
            waited += TICK;
        }
        Err(Fault::new("53400", self.services.no_turn()))
    }
}

impl Connection {
    /// Starts a statement, and waits until it has rows or is done.
    pub(super) async fn start(&mut self, order: &Order) -> Result<Started, Stopped> {
        let services = std::sync::Arc::clone(&self.services);
        let counted = CountedQuery::begin(&self.shared, "pg");
        let started = self.start_with(&services, order).await;
        counted.end(code_of(&started));
        started
    }

    async fn start_with(
        &mut self,
        services: &std::sync::Arc<Services>,
        order: &Order,
    ) -> Result<Started, Stopped> {
        let canceler = Canceler::default();
        let _cancelable = self.backend.begin(&canceler);
        let mut turn = Turn::none(services);
        if !is_cancel(&order.sql) {
            turn.take(&canceler).await?;
        }
        let work = Work {
            sql: std::sync::Arc::clone(&order.sql),
            parameters: order.parameters.clone(),
            session: self.session.clone(),
            canceler: canceler.clone(),
        };
        let mut running = Running::start(services, work);
        let event = tokio::select! {
            biased;
            event = running.events.recv() => event,
            () = self.wire.closed() => return Err(Stopped::Gone),
        };
        match event {
            Some(Event::Rows { schema, notices }) => {
                self.notices(&notices);
                Ok(Started::Rows(Box::new(Rows::new(running, schema, canceler))))
            }
            Some(Event::Done { tag, notices }) => {
                self.notices(&notices);
                Ok(Started::Done(tag))
            }
            Some(Event::Failed(error)) => {
                Err(Fault::of_query(&error, &order.sql, order.before).into())
            }
            Some(Event::Batch(_) | Event::End) | None => Err(panicked().into()),
        }
    }

    /// Takes rows of a statement: at most so many, or all (`u64::MAX`).
    pub(super) async fn take_rows(
        &mut self,
        order: &Order,
        rows: &mut Rows,
        (formats, max, taken): (&[Format], u64, Taken),
    ) -> Result<Progress, Stopped> {
        let services = std::sync::Arc::clone(&self.services);
        let canceler = rows.canceler.clone();
        let _cancelable = self.backend.begin(&canceler);
        let mut turn = Turn::none(&services);
        turn.take(&canceler).await?;
        let mut done = 0;
        loop {
            while rows.has_pending() && done < max {
                let left = max - done;
                done += match taken {
                    Taken::Skipped => rows.skip(left),
                    Taken::Sent => {
                        let end = self.wire.out.len() + PART_BYTES;
                        let written = rows.write(&mut self.wire.out.bytes, formats, (left, end));
                        written.map_err(|error| Fault::new("XX000", error.to_string()))?
                    }
                };
                if self.shared.config.pg.send_buffer <= self.wire.out.len() {
                    self.send(&mut turn, &canceler).await?;
                }
            }
            if done == max {
                return Ok(Progress { rows: done, is_over: false });
            }
            let event = tokio::select! {
                biased;
                event = rows.running.events.recv() => event,
                () = self.wire.closed() => return Err(Stopped::Gone),
            };
            match event {
                Some(Event::Batch(batch)) => {
                    rows.add(&batch).map_err(|error| Fault::new("XX000", error.to_string()))?;
                }
                Some(Event::End) => return Ok(Progress { rows: done, is_over: true }),
                Some(Event::Failed(error)) => {
                    return Err(Fault::of_query(&error, &order.sql, order.before).into());
                }
                Some(Event::Rows { .. } | Event::Done { .. }) | None => {
                    return Err(panicked().into());
                }
            }
        }
    }

    /// Sends what waits; if that takes long, others have the turn meanwhile (CO2).
    async fn send(&mut self, turn: &mut Turn<'_>, canceler: &Canceler) -> Result<(), Stopped> {
        if let Ok(sent) = timeout(SLOW, self.wire.flush()).await {
            return Ok(sent?);
        }
        turn.permit = None;
        self.wire.flush().await?;
        Ok(turn.take(canceler).await?)
    }
}

/// The columns of an answer, and in which format each is sent.
pub(super) fn described(schema: &SchemaRef, formats: &[Format]) -> (Vec<Column>, Vec<bool>) {
    let columns = columns(schema);
    let is_binary = |at: usize| formats.get(at) == Some(&Format::Binary);
    let formats = (0..columns.len()).map(is_binary).collect();
    (columns, formats)
}

/// The SQLSTATE with which work has ended.
pub(super) fn code_of<T>(done: &Result<T, Stopped>) -> &'static str {
    match done {
        Ok(_) => "00000",
        Err(Stopped::Fault(fault)) => fault.code,
        Err(Stopped::Gone) => "57014",
    }
}

pub(super) fn panicked() -> Fault {
    Fault::new("XX000", "internal error: the statement has panicked")
}
