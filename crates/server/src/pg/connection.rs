//! A connection after its login: answers message after message, in their order.
//!
//! - connection-1. Every message is answered in order, even if several arrive at once. After an
//!   error in the extended protocol, all are skipped up to the next Sync, as in PostgreSQL.
//! - connection-2. The output is sent when the client has to be waited for, and when it is larger
//!   than `pg.send_buffer`: so a client that reads slowly slows only its own statement down, which
//!   has no admission permit meanwhile.
//! - connection-3. The state of a connection is bounded: prepared statements and portals in their
//!   number (`pg.max_prepared_per_connection`) and their bytes (those with a name, `pg.max_message`
//!   together), names, settings and rows of a transaction (`query`). Messages, statements, values
//!   and rows that wait to be sent are counted in the memory budget of connections (`budget`).
//! - connection-4. When the client has gone, its work ends, and an open transaction is rolled back.
//! - connection-5. Large messages (`LARGE_BYTES`) and rows are read and written on blocking
//!   threads, and delay no other connection of this thread.
//! - connection-6. A statement that is cancelled while the client is waited for releases its rows
//!   at once; the client learns of it when it asks for more.
//!
//! Not here: the statements about the connection itself (`session`), single rows (`portal`).

mod end_line;
mod copy;
mod script;
mod extended;
mod execute;
mod session;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_query::{CancelHandle, Session};
use tokio::time::{sleep, timeout};

use super::error_response::{ErrorResponse, Severity};
use super::login::Client;
use super::message_reader::{Message, take_message};
use super::message_writer::Status;
use super::wire::Wire;
use crate::admission::Claimant;
use crate::backends::{Backend, CancelableScript, EndedBy};
use crate::budget::{Account, Reservation};
use crate::server_state::{ServerState, Services, stopping};
use extended::{Hold, Portal, Prepared};
use script::Script;

/// The parameters whose changes are reported to clients, by the names of their settings.
const REPORTED: [&str; 9] = [
    "server_version",
    "server_encoding",
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "application_name",
];
/// The parameters that are reported once, because they do not change.
const TOLD_ONCE: [&str; 2] = ["is_superuser", "tidegate_version"];

/// The bytes of a statement, or of values, that are read in less than a millisecond (connection-5).
const LARGE_BYTES: usize = 64 << 10;
/// The interval at which a connection with open portals checks whether they were cancelled
/// (connection-6).
const CANCEL_TICK: Duration = Duration::from_millis(250);
/// A time that never passes in practice.
const FOR_EVER: Duration = Duration::from_hours(24 * 365);

/// The state of a connection after its login.
pub(super) struct Connection {
    pub(super) server: Arc<ServerState>,
    pub(super) services: Arc<Services>,
    pub(super) wire: Wire,
    pub(super) backend: Backend,
    pub(super) session: Session,
    status: Status,
    /// True if statements of one message or pipeline form an implicit transaction.
    is_implicit: bool,
    /// True after an error until the next Sync (connection-1).
    is_skipping: bool,
    prepared: HashMap<String, Arc<Prepared>>,
    portals: HashMap<String, Portal>,
    /// The parameters as last reported to the client.
    told: Vec<(&'static str, String)>,
    /// True while a COPY FROM STDIN waits for rows.
    is_copying: bool,
    /// The memory account of the connection (connection-3).
    account: Arc<Account>,
    /// The memory of an incomplete message.
    input_reservation: Option<Reservation>,
    /// The memory of the output.
    output_reservation: Option<Reservation>,
}

/// The reason why a connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client has gone, or ends the connection.
    Disconnected,
    /// The server ends it, and the client is told why.
    Notified,
}

/// The reason why the work on a message stops.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The statement has failed.
    Error(Box<ErrorResponse>),
    Disconnected,
}

impl From<ErrorResponse> for Stopped {
    fn from(error: ErrorResponse) -> Stopped {
        Stopped::Error(Box::new(error))
    }
}

impl From<std::io::Error> for Stopped {
    fn from(_: std::io::Error) -> Stopped {
        Stopped::Disconnected
    }
}

/// Returns a time limit, of which zero is none.
fn or_for_ever(limit: Duration) -> Duration {
    if limit.is_zero() { FOR_EVER } else { limit }
}

/// Waits until one of these statements is cancelled, whose portals wait for their client
/// (connection-6).
async fn any_canceled(working: Vec<CancelHandle>) {
    if working.is_empty() {
        return std::future::pending().await;
    }
    while !working.iter().any(CancelHandle::is_canceled) {
        sleep(CANCEL_TICK).await;
    }
}

/// Makes the last error of a connection that the server ends.
fn ended(by: EndedBy) -> ErrorResponse {
    match by {
        EndedBy::Command => {
            ErrorResponse::fatal("57P01", "terminating connection due to administrator command")
        }
        EndedBy::UserChanged => ErrorResponse::user_changed(),
    }
}

impl Connection {
    pub(super) fn new(
        server: &Arc<ServerState>,
        services: Arc<Services>,
        mut wire: Wire,
        client: Client,
        backend: Backend,
    ) -> Connection {
        client.session.connect_to(&client.database, backend.process);
        client.session.keep_lasting();
        let account = server.budget.account(Claimant::of(&client.session));
        wire.send_timeout = or_for_ever(server.config.pg.send_timeout);
        Connection {
            server: Arc::clone(server),
            services,
            wire,
            backend,
            session: client.session,
            status: Status::Idle,
            is_implicit: false,
            is_skipping: false,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            told: Vec::new(),
            is_copying: false,
            account,
            input_reservation: None,
            output_reservation: None,
        }
    }

    /// Answers messages until the connection ends; the last output is left in the wire.
    pub(super) async fn serve(mut self) -> (Wire, End) {
        for name in TOLD_ONCE {
            let value = self.session.setting(name).unwrap_or_default();
            self.wire.writer.parameter_status(name, &value);
        }
        self.tell_settings();
        self.wire.writer.backend_key(self.backend.process, self.backend.secret);
        self.wire.writer.ready(self.status);
        let end = loop {
            let message = match self.next().await {
                // Earlier answers are still sent.
                Ok(Message::Terminate) => break End::Notified,
                Ok(message) => message,
                Err(end) => break end,
            };
            match self.answer(message).await {
                Ok(()) => {}
                Err(Stopped::Disconnected) => break End::Disconnected,
                Err(Stopped::Error(error)) => {
                    self.fail(&error);
                    if error.severity == Severity::Fatal {
                        break End::Notified;
                    }
                    self.is_skipping = true;
                }
            }
        };
        // An open transaction is rolled back (connection-4).
        self.session.roll_back();
        (self.wire, end)
    }

    /// Returns the next message. The output is sent before the wait for it (connection-2).
    async fn next(&mut self) -> Result<Message, End> {
        let max = self.server.config.pg.max_message;
        loop {
            if let Some(by) = self.backend.ended_by() {
                return Err(self.end_with(&ended(by)));
            }
            match take_message(&mut self.wire.input, max) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(breach) => return Err(self.end_with(&ErrorResponse::breach(&breach))),
            }
            if let Err(over) = self.count_input() {
                let error = ErrorResponse { severity: Severity::Fatal, ..over };
                return Err(self.end_with(&error));
            }
            let idle = self.idle_timeout();
            let mut phase = self.server.phase.clone();
            tokio::select! {
                biased;
                sent = self.wire.flush() => sent.map_err(|_| End::Disconnected)?,
                by = self.backend.ended() => return Err(self.end_with(&ended(by))),
            }
            self.output_reservation = None;
            let working = self.portals.values().filter_map(Portal::working).collect();
            tokio::select! {
                biased;
                read = timeout(idle, self.wire.fill_next(&self.server.is_spinning)) => match read {
                    Ok(Ok(1..)) => {}
                    Ok(Ok(0) | Err(_)) => return Err(End::Disconnected),
                    Err(_) => return Err(self.end_with(&self.too_slow())),
                },
                by = self.backend.ended() => return Err(self.end_with(&ended(by))),
                () = any_canceled(working) => {
                    self.portals.values_mut().for_each(Portal::end_canceled);
                }
                () = stopping(&mut phase) => {
                    let stopping = ErrorResponse::fatal("57P01", "the server is stopping");
                    return Err(self.end_with(&stopping));
                }
            }
        }
    }

    /// Ends the connection with an error.
    fn end_with(&mut self, error: &ErrorResponse) -> End {
        self.wire.writer.error_response(error);
        End::Notified
    }

    /// Counts the incomplete message: its buffer grows by doubling (connection-3).
    fn count_input(&mut self) -> Result<(), ErrorResponse> {
        let bytes = 2 * self.wire.input.len();
        match &mut self.input_reservation {
            Some(reservation) => reservation.try_resize(bytes)?,
            None if bytes == 0 => {}
            None => self.input_reservation = Some(self.account.reserve(bytes)?),
        }
        Ok(())
    }

    /// Returns the longest allowed silence of the client now.
    fn idle_timeout(&self) -> Duration {
        let pg = &self.server.config.pg;
        let limit = match self.status {
            Status::Idle => pg.idle_timeout,
            Status::InTransaction | Status::Failed => pg.idle_in_transaction_timeout,
        };
        match self.is_copying {
            false => or_for_ever(limit),
            true => or_for_ever(limit).min(or_for_ever(pg.copy_idle_timeout)),
        }
    }

    fn too_slow(&self) -> ErrorResponse {
        match self.status {
            _ if self.is_copying => {
                let message = "COPY FROM STDIN: the client was silent for too long \
                               [pg.copy_idle_timeout]; nothing is imported";
                ErrorResponse::fatal("57P05", message)
            }
            Status::Idle => ErrorResponse::fatal("57P05", "the connection was silent for too long"),
            _ => ErrorResponse::fatal("25P03", "the transaction was silent for too long"),
        }
    }

    async fn answer(&mut self, message: Message) -> Result<(), Stopped> {
        match message {
            Message::Sync => {
                self.is_skipping = false;
                match self.end_implicit().await {
                    Err(Stopped::Error(error)) if error.severity != Severity::Fatal => {
                        self.fail(&error);
                    }
                    done => done?,
                }
                self.ready();
                Ok(())
            }
            Message::Terminate => Err(Stopped::Disconnected),
            _ if self.is_skipping => Ok(()),
            Message::Query(text) => self.query(text).await,
            Message::FunctionCall => {
                self.fail(&ErrorResponse::not_supported("a function call by message"));
                self.ready();
                Ok(())
            }
            Message::Parse { name, sql, types } => Box::pin(self.parse(&name, sql, types)).await,
            Message::Bind(bind) => Box::pin(self.bind(bind)).await,
            Message::Describe(object) => Box::pin(self.describe(object)).await,
            Message::Execute { portal, rows_max } => {
                Box::pin(self.execute(&portal, rows_max)).await
            }
            Message::Close(object) => self.close(&object),
            Message::Flush => Ok(self.wire.flush().await?),
            // Rows that a COPY no longer takes, and answers to no question, are ignored.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            Message::Password(_) => {
                Err(ErrorResponse::fatal("08P01", "no password was requested").into())
            }
        }
    }

    /// The simple protocol: executes all statements of a text, up to the first that fails.
    async fn query(&mut self, text: Bytes) -> Result<(), Stopped> {
        // The unnamed portal ends with the next statement.
        self.portals.remove("");
        match Box::pin(self.statements(text)).await {
            Ok(()) => {}
            Err(Stopped::Error(error)) if error.severity != Severity::Fatal => self.fail(&error),
            Err(stopped) => return Err(stopped),
        }
        self.ready();
        Ok(())
    }

    async fn statements(&mut self, text: Bytes) -> Result<(), Stopped> {
        let _reservation =
            self.account.reserve(Script::bytes(&text)).map_err(ErrorResponse::from)?;
        let script = self.read(text.len(), move || Script::read(&text)).await??;
        if script.is_empty() {
            self.wire.writer.empty(b'I');
            return Ok(());
        }
        let cancelable = self.backend.begin_script();
        // The characters before a statement are counted from those before the previous one.
        let (mut at, mut before) = (0, 0);
        for (offset, sql) in script.statements() {
            self.check_wanted(&cancelable)?;
            if script.holds && self.status == Status::Idle {
                self.begin_implicit();
            }
            before += script.text[at..offset].chars().count();
            at = offset;
            self.statement(Arc::from(sql), before).await?;
        }
        self.check_wanted(&cancelable)?;
        self.end_implicit().await
    }

    /// Returns an error if the next statement of a message may not begin: the login has ended, or
    /// the message was cancelled (backends-4, backends-5).
    fn check_wanted(&self, script: &CancelableScript) -> Result<(), ErrorResponse> {
        if let Some(by) = self.backend.ended_by() {
            return Err(ended(by));
        }
        if script.is_canceled() { Err(ErrorResponse::canceled()) } else { Ok(()) }
    }

    /// Reads input of this many bytes, on this thread if they are few (connection-5).
    async fn read<T: Send + 'static>(
        &mut self,
        bytes: usize,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        if bytes <= LARGE_BYTES {
            return Ok(read());
        }
        let server = Arc::clone(&self.server);
        let _reader = tokio::select! {
            biased;
            reader = server.readers.acquire() => reader,
            () = self.wire.closed() => return Err(Stopped::Disconnected),
        };
        self.spawned(read).await
    }

    /// Reports an error, which ends the implicit transaction or fails the open one.
    pub(super) fn fail(&mut self, error: &ErrorResponse) {
        self.wire.writer.error_response(error);
        self.is_implicit = false;
        if self.status == Status::Idle {
            self.session.roll_back();
        } else {
            // ROLLBACK TO a savepoint is still possible.
            self.status = Status::Failed;
            self.end_portals();
        }
    }

    /// Ends all portals with their transaction, except those that were held at its COMMIT.
    pub(super) fn end_portals(&mut self) {
        self.portals.retain(|_, portal| portal.hold == Hold::Committed);
    }

    /// Tells the client that the next statement may follow.
    fn ready(&mut self) {
        if self.status == Status::Idle {
            self.end_portals();
        }
        self.wire.writer.ready(self.status);
    }

    /// Sends warnings about a statement.
    pub(super) fn notices(&mut self, notices: &[String]) {
        for notice in notices {
            self.wire.writer.error_response(&ErrorResponse::warning(notice));
        }
    }

    /// Reports the settings that have changed.
    pub(super) fn tell_settings(&mut self) {
        for (at, name) in REPORTED.into_iter().enumerate() {
            let value = self.session.setting(name).unwrap_or_default();
            if self.told.get(at).is_some_and(|(_, told)| *told == value) {
                continue;
            }
            self.wire.writer.parameter_status(name, &value);
            match self.told.get_mut(at) {
                Some(told) => told.1 = value,
                None => self.told.push((name, value)),
            }
        }
    }
}
