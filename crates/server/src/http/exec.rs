//! `/exec`: one statement, and its answer as JSON.
//!
//! - exec-1. A statement runs on the threads of its place, and so does the writing of its rows; at
//!   most `QUEUE` parts of an answer wait, and a large one is the only one and delays the rest, so
//!   that its batch stays charged to the statement: a slow client slows its statement down and
//!   costs no memory that is counted nowhere. Its admission permit goes to another statement
//!   meanwhile (streaming_slot-1). A cancel runs on the thread of its connection and needs no
//!   permit: it must work when others have all of them. It also ends a statement whose client reads
//!   nothing.
//! - exec-2. The statement ends when the client has gone, or the connection is closed.
//! - Nothing is sent before the first part of an answer is full or the whole answer is ready, so
//!   that most errors have a status of their own.
//!
//! Not here: the statements themselves (`query`).

mod body;
mod request;
mod rows;
mod running;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::StreamExt;
use tidegate_platform::{Clock, brief, sentence};
use tidegate_query::{
    Answer, CancelHandle, CancelReason, Engine, Error as QueryError, Origin, Privilege, Session,
    StatementOptions, Timeout,
};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, sleep_until};

use super::compression::{Coding, Compressor};
use super::guard;
use super::response::{After, JSON, Response};
use super::streaming_slot::{StreamingSlot, room};
use super::wire::Probe;
use super::{Flow, RequestContext};
use crate::execution_slot::{GRACE, overdue};
use crate::json::push_string;
use crate::log::LogKind;
use crate::server_state::{CountedQuery, Services};
use crate::sqlstate;
pub(super) use body::read_params;
use request::ExecRequest;
pub(super) use request::{PARAMETERS, STATEMENT_TIMEOUT, TIMEOUT, timeout as timeout_of};
use rows::{RowText, arrays, push_columns};
pub(super) use running::{Place, Running, Unbegun};

/// The most parts of an answer that wait for the client (exec-1).
const QUEUE: usize = 2;
/// The bytes of a part.
pub(super) const PART_BYTES: usize = 64 << 10;
/// The bytes of a part that is sent alone (exec-1): one row can be as long as a statement's memory.
const LARGE_PART_BYTES: usize = 256 << 10;
/// The maximal number of rows that are written before the size of a part is checked.
const GROUP_ROWS: usize = 256;
/// The SQLSTATE of success.
pub(super) const DONE: &str = "00000";
/// The SQLSTATE of a change in a session that may only read.
const READ_ONLY: &str = "25006";

/// The reason why a statement was not done, as reported to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: u16,
    pub(super) code: &'static str,
    message: String,
    /// The characters of the statement before the error.
    position: Option<usize>,
    sql: String,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        let (status, message) = (sqlstate::status(code), brief(message.into()));
        Refusal { status, code, message, position: None, sql: String::new() }
    }

    /// Adds the statement, without the middle of a long one.
    pub(super) fn of(mut self, sql: &str) -> Refusal {
        self.sql = brief(sql.to_owned());
        self
    }

    fn at(mut self, position: usize) -> Refusal {
        self.position = Some(position);
        self
    }

    /// Replaces the error of a read-only session if the method is the reason: POST may change data
    /// (guard-6).
    pub(super) fn by_get(self, only_reads: bool) -> Refusal {
        if !only_reads || self.code != READ_ONLY {
            return self;
        }
        let message = format!("{}: GET and HEAD only read, use POST", self.message);
        Refusal { status: 405, message, ..self }
    }

    pub(super) fn with_status(mut self, status: u16) -> Refusal {
        self.status = status;
        self
    }

    pub(super) fn of_error(error: &QueryError, sql: &str) -> Refusal {
        let mut message = sentence(error);
        let mut refusal = Refusal::new(sqlstate::of_query(error), "").of(sql);
        if let Some(position) = error.position() {
            if let Some(rest) = message.strip_prefix(&format!("{position}: ")) {
                message = rest.to_owned();
            }
            let before = sql.get(..position.offset.min(sql.len())).unwrap_or(sql);
            refusal.position = Some(before.chars().count());
        }
        refusal.message = message;
        refusal
    }

    /// Makes the answer.
    pub(super) fn response(&self, request_id: &str) -> Response {
        let mut text = String::from("{\"query\":");
        push_string(&self.sql, &mut text);
        text.push_str(",\"error\":");
        push_string(&self.message, &mut text);
        if let Some(position) = self.position {
            text.push_str(&format!(",\"position\":{position}"));
        }
        text.push_str(&format!(",\"code\":\"{}\",\"requestId\":\"{request_id}\"}}", self.code));
        let response = Response::new(self.status, JSON, text);
        match self.status {
            503 => response.with("Retry-After", "1"),
            405 => response.with("Allow", "POST"),
            _ => response,
        }
    }

    /// Makes the end of an answer whose beginning was sent.
    fn end_of_answer(&self, count: u64) -> Vec<u8> {
        let mut text = format!("],\"count\":{count},\"error\":");
        push_string(&self.message, &mut text);
        let position = self.position.unwrap_or(0);
        text.push_str(&format!(",\"errorPos\":{position},\"code\":\"{}\"}}", self.code));
        text.into_bytes()
    }
}

/// A part of an answer, passed from the engine to the connection.
pub(super) enum Piece {
    /// A query has begun, or its rows are still being computed.
    Running,
    Whole(Response, &'static str),
    Rows(Vec<u8>),
    End,
    /// An error ended an answer whose beginning was sent.
    Broken(Vec<u8>, &'static str),
    /// The same, for formats that cannot report it: the answer is cut off.
    Cut(&'static str),
}

/// Answers a request to `/exec`.
pub(super) async fn exec(context: &mut RequestContext<'_>) -> Flow {
    let counted = CountedQuery::begin(context.server, "http");
    let (flow, code) = match prepare(context).await {
        Ok((request, services)) => run(context, request, &services).await,
        Err(stopped) => stopped.answer(context).await,
    };
    counted.end(code);
    flow
}

pub(super) enum Stopped {
    Refused(Refusal),
    /// The client has gone.
    Disconnected,
}

impl Stopped {
    /// Tells the client, if it is still connected, and returns the SQLSTATE of the request.
    pub(super) async fn answer(self, context: &mut RequestContext<'_>) -> (Flow, &'static str) {
        match self {
            Stopped::Refused(refusal) => {
                let id = context.request_id.clone();
                (context.respond(refusal.response(&id)).await, refusal.code)
            }
            Stopped::Disconnected => (Flow::Disconnected, "57014"),
        }
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Refused(refusal)
    }
}

/// Reads the request, and returns it with the services that answer it.
async fn prepare(
    context: &mut RequestContext<'_>,
) -> Result<(ExecRequest, Arc<Services>), Stopped> {
    let params = read_params(context, PARAMETERS).await?;
    let config = &context.server.config;
    let (rows_max, timeout_max) = (config.http.exec_max_rows, config.query.timeout_max);
    let request = ExecRequest::new(context.head, &params, rows_max, timeout_max)?;
    let services = services_for(context, &request.sql)?;
    Ok((request, services))
}

/// Returns the services that execute a statement, unless it is too long or they are not ready.
pub(super) fn services_for(
    context: &RequestContext<'_>,
    sql: &str,
) -> Result<Arc<Services>, Refusal> {
    if context.server.config.http.max_sql_bytes < sql.len() {
        return Err(too_large(context));
    }
    let services = context.server.services();
    services.map_err(|unready| Refusal::new(unready.code(), unready.to_string()).of(sql))
}

fn too_large(context: &RequestContext<'_>) -> Refusal {
    let max = context.server.config.http.max_sql_bytes;
    Refusal::new("54000", format!("the statement has more than {max} bytes")).with_status(413)
}

/// Runs the statement and sends its result.
async fn run(
    context: &mut RequestContext<'_>,
    request: ExecRequest,
    services: &Arc<Services>,
) -> (Flow, &'static str) {
    let sql = request.sql.clone();
    let timeout = request.timeout.unwrap_or(services.timeout);
    let running = Running::start(context, request, services);
    let head = Coding::of(context.head).describe(Response::new(200, JSON, ""));
    deliver(context, running, head, timeout, &sql).await
}

/// Sends the result of a statement; an answer in parts begins with `head`.
pub(super) async fn deliver(
    context: &mut RequestContext<'_>,
    mut running: Running,
    head: Response,
    timeout: Timeout,
    sql: &str,
) -> (Flow, &'static str) {
    let id = context.request_id.clone();
    let limit = match timeout {
        Timeout::Never => None,
        Timeout::After(limit) => Some(limit),
    };
    let mut deadline = None;
    let (mut is_running, mut is_started) = (false, false);
    loop {
        let probe = if is_started { Probe::Absent } else { Probe::of(context.head) };
        let piece = tokio::select! {
            biased;
            piece = running.pieces.recv() => piece,
            () = context.wire.closed(probe) => return (Flow::Disconnected, "57014"),
            reason = overdue(&running.cancel_handle), if is_running && !is_started => {
                let refusal = Refusal::of_error(&QueryError::Canceled { reason }, sql);
                return (context.respond(refusal.response(&id)).await, refusal.code);
            }
            () = until(deadline) => {
                let limit = limit.unwrap_or_default();
                let reason = CancelReason::Timeout { worked: limit + GRACE, limit };
                let refusal = Refusal::of_error(&QueryError::Canceled { reason }, sql);
                return (context.respond(refusal.response(&id)).await, "57014");
            }
        };
        match piece {
            Some(Piece::Running) if is_started => {}
            Some(Piece::Running) => {
                is_running = true;
                let now = Instant::now();
                deadline = limit.and_then(|limit| now.checked_add(limit + GRACE));
            }
            Some(Piece::Whole(response, code)) => {
                return (context.respond(response).await, code);
            }
            Some(Piece::Rows(bytes)) => {
                deadline = None;
                if !is_started && context.start_chunks(&head).await.is_err() {
                    return (Flow::Disconnected, "57014");
                }
                is_started = true;
                if context.is_head() {
                    // The statement ends here (exec-2).
                    return (context.end_chunks(After::KeepAlive).await, DONE);
                }
                if context.chunk(bytes).await.is_err() {
                    return (Flow::Disconnected, "57014");
                }
            }
            Some(Piece::End) => return (context.end_chunks(After::KeepAlive).await, DONE),
            Some(Piece::Broken(bytes, code)) => {
                if context.chunk(bytes).await.is_err() {
                    return (Flow::Disconnected, code);
                }
                return (context.end_chunks(After::Close).await, code);
            }
            Some(Piece::Cut(code)) => return (context.cut(), code),
            None if is_started => return (context.cut(), "XX000"),
            None if context.server.phase.borrow().is_stopping() => {
                let refusal = Refusal::new("57P01", "the server is stopping");
                return (context.respond(refusal.of(sql).response(&id)).await, "57P01");
            }
            None => {
                let refusal = Refusal::new("XX000", "internal error: the statement has panicked");
                return (context.respond(refusal.of(sql).response(&id)).await, "XX000");
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Running {
    fn start(
        context: &RequestContext<'_>,
        request: ExecRequest,
        services: &Arc<Services>,
    ) -> Running {
        let clock = Arc::clone(&context.server.clock);
        let (id, services) = (context.request_id.clone(), Arc::clone(services));
        let (session, compressor) = (session(context), Coding::of(context.head).compressor());
        let only_reads = guard::only_reads(context) && !context.server.config.read_only;
        let cancel_handle = CancelHandle::default();
        let place = Place::of(&request.sql);
        let (engine, own) = (Arc::clone(&services), session.clone());
        let unbegun = Unbegun::new(&request.sql, &id, request.timeout, &session, &services);
        let ending = cancel_handle.clone();
        Running::admitted(place, ending, engine, own, unbegun, move |sender, slot| async move {
            let (text, sent_any, sent) = (String::new(), false, 0);
            let (slot, refusal) = match slot {
                Ok(slot) => (slot, None),
                Err(refusal) => (None, Some(refusal.of(&request.sql))),
            };
            let mut answer = Answering {
                sender,
                clock,
                session,
                cancel_handle,
                slot,
                text,
                compressor,
                sent_any,
                sent,
            };
            let done = match refusal {
                Some(refusal) => Err(refusal),
                None => answer.run(&request, &services).await,
            };
            let last = match done {
                Ok(last) => last,
                Err(refusal) => Some(answer.failed(&refusal.by_get(only_reads), &id)),
            };
            send_last(last, &answer.sender, &mut answer.slot).await;
        })
    }
}

/// Sends the end of an answer. While the client is slow, other statements have the permit (exec-1).
pub(super) async fn send_last(
    last: Option<Piece>,
    sender: &Sender<Piece>,
    slot: &mut Option<StreamingSlot>,
) {
    // If the client has gone, there is no receiver.
    let Some(Err(TrySendError::Full(last))) = last.map(|last| sender.try_send(last)) else {
        return;
    };
    slot.iter_mut().for_each(StreamingSlot::pause);
    let _ = sender.send(last).await;
}

/// Makes the session of a request: each has one of its own, since HTTP has no sessions.
pub(super) fn session(context: &RequestContext<'_>) -> Session {
    let guard::Sender { user, role } = context.sender.clone();
    let peer = Some(context.peer.to_string());
    let session = Session::new(Origin { protocol: "http", peer, user, role });
    if guard::only_reads(context) {
        session.keep_read_only();
    }
    session
}

impl RequestContext<'_> {
    /// Checks that the sender has this privilege; the error is the text for the client.
    pub(super) fn allow(&self, privilege: Privilege) -> Result<(), String> {
        session(self).allow(privilege).map_err(|error| {
            let (peer, user) = (self.peer, self.sender.user.as_deref());
            let kind = LogKind::of_user("audit", "denied", user);
            let user = user.map_or_else(String::new, |user| format!("`{user}`: "));
            self.server.log.warn_limited(kind, format_args!("http: {peer}: {user}{error}"));
            error.to_string()
        })
    }
}

/// Appends the description of all columns, as it begins an answer.
pub(super) fn columns_of(schema: &SchemaRef, text: &mut String) {
    push_columns(schema, &(0..schema.fields().len()).collect::<Vec<_>>(), text);
}

/// The engine's side of an answer.
struct Answering {
    sender: Sender<Piece>,
    clock: Arc<dyn Clock>,
    session: Session,
    cancel_handle: CancelHandle,
    /// `None` for a cancel, which needs no permit.
    slot: Option<StreamingSlot>,
    /// The text that is not sent yet.
    text: String,
    compressor: Compressor,
    sent_any: bool,
    /// The number of rows that were written.
    sent: u64,
}

/// The reason why a part of an answer was not sent.
pub(super) enum Unsent {
    /// The receiver has gone.
    Abandoned,
    /// The statement was cancelled while its client read nothing.
    Canceled(CancelReason),
}

impl Unsent {
    fn end(self, sql: &str) -> Result<Option<Piece>, Refusal> {
        match self {
            Unsent::Abandoned => Ok(None),
            Unsent::Canceled(reason) => {
                Err(Refusal::of_error(&QueryError::Canceled { reason }, sql))
            }
        }
    }
}

pub(super) fn canceled(cancel_handle: &CancelHandle) -> QueryError {
    QueryError::Canceled { reason: cancel_handle.reason() }
}

impl Answering {
    /// Runs the statement, and returns the last part to be sent, if any.
    async fn run(
        &mut self,
        request: &ExecRequest,
        services: &Services,
    ) -> Result<Option<Piece>, Refusal> {
        let sql = request.sql.as_str();
        if sql.trim().is_empty() {
            return empty(request).map(Some);
        }
        let start = self.clock.monotonic_nanos();
        let (timeout, session) = (request.timeout, self.session.clone());
        let cancel_handle = Some(self.cancel_handle.clone());
        let options = StatementOptions { timeout, session, cancel_handle };
        let engine: &Engine = &services.engine;
        let answer = engine.execute_bound(sql, &request.parameters, &options).await;
        let answer = answer.map_err(|error| Refusal::of_error(&error, sql))?;
        let planned = self.clock.monotonic_nanos() - start;
        match answer {
            Answer::Done { tag, rows, .. } => {
                let response = Response::new(200, JSON, done_body(&tag, rows));
                Ok(Some(Piece::Whole(response, DONE)))
            }
            Answer::Rows { schema, designated, stream, .. } => {
                if self.sender.send(Piece::Running).await.is_err() {
                    return Ok(None);
                }
                self.rows(request, &schema, designated, stream, planned).await
            }
        }
    }

    async fn rows<E>(
        &mut self,
        request: &ExecRequest,
        schema: &SchemaRef,
        designated: Option<usize>,
        mut stream: impl futures::Stream<Item = Result<RecordBatch, E>> + Unpin,
        planned: u64,
    ) -> Result<Option<Piece>, Refusal>
    where
        QueryError: From<E>,
    {
        let sql = request.sql.as_str();
        let columns = requested_columns(schema, request)?;
        let start = self.clock.monotonic_nanos();
        let designated = designated.and_then(|it| columns.iter().position(|&at| at == it));
        self.begin(request, schema, designated, &columns);
        let mut seen = 0_u64;
        let end = request.window.skip.saturating_add(request.window.take);
        while request.window.counts_all || seen < end {
            let batch = match stream.next().await {
                None => break,
                Some(Ok(batch)) => batch,
                Some(Err(error)) => {
                    return Err(Refusal::of_error(&QueryError::from(error), sql));
                }
            };
            let rows = batch.num_rows() as u64;
            let from = request.window.skip.saturating_sub(seen).min(rows);
            let to = end.saturating_sub(seen).min(rows);
            seen += rows;
            let index = |rows: u64| usize::try_from(rows).expect("rows of a batch");
            let at_a_time = rows_of(&batch, PART_BYTES).min(GROUP_ROWS);
            let rows = index(from)..index(to.max(from));
            for row_group in groups(rows, at_a_time) {
                let count = row_group.len() as u64;
                let pushed = self.push(&batch, schema, &columns, row_group, request);
                pushed.map_err(|error| Refusal::new("XX000", error.to_string()).of(sql))?;
                self.sent += count;
                if PART_BYTES <= self.text.len()
                    && let Err(unsent) = self.send().await
                {
                    return unsent.end(sql);
                }
            }
        }
        let count = if request.window.counts_all { seen } else { self.sent };
        let executed = self.clock.monotonic_nanos() - start;
        let without_end = self.text.len();
        self.end(request, count, planned, executed);
        let room = match &mut self.slot {
            Some(slot) => slot.room(&self.sender, &self.cancel_handle).await,
            None => room(&self.sender, &self.cancel_handle).await,
        };
        match room {
            Some(Ok(room)) => {
                let bytes = std::mem::take(&mut self.text).into_bytes();
                room.send(Piece::Rows(self.compressor.finish(bytes)));
                Ok(Some(Piece::End))
            }
            Some(Err(_)) => Unsent::Abandoned.end(sql),
            None => {
                self.text.truncate(without_end);
                Unsent::Canceled(self.cancel_handle.reason()).end(sql)
            }
        }
    }

    fn begin(
        &mut self,
        request: &ExecRequest,
        schema: &SchemaRef,
        designated: Option<usize>,
        columns: &[usize],
    ) {
        self.text.push('{');
        if !request.form.rows_only {
            self.text.push_str("\"query\":");
            push_string(&request.sql, &mut self.text);
            self.text.push_str(",\"columns\":");
            push_columns(schema, columns, &mut self.text);
            let designated = designated.map_or("-1".to_owned(), |it| it.to_string());
            self.text.push_str(&format!(",\"timestamp\":{designated},"));
        }
        self.text.push_str("\"dataset\":[");
    }

    fn push(
        &mut self,
        batch: &RecordBatch,
        schema: &SchemaRef,
        columns: &[usize],
        rows: std::ops::Range<usize>,
        request: &ExecRequest,
    ) -> Result<(), ArrowError> {
        let slice = batch.slice(rows.start, rows.len());
        let arrays = arrays(&slice, columns)?;
        let text = RowText::new(schema, columns, &arrays, request.form)?;
        for row in 0..rows.len() {
            if 0 < self.sent || 0 < row {
                self.text.push(',');
            }
            text.push(row, &mut self.text);
        }
        Ok(())
    }

    fn end(&mut self, request: &ExecRequest, count: u64, planned: u64, executed: u64) {
        self.text.push_str(&format!("],\"count\":{count}"));
        if request.form.timings {
            self.text.push_str(&format!(
                ",\"timings\":{{\"authentication\":0,\"compiler\":{planned},\
                 \"execute\":{executed},\"count\":0}}"
            ));
        }
        if request.form.explain {
            self.text.push_str(",\"explain\":{\"jitCompiled\":false}");
        }
        self.text.push('}');
    }

    async fn send(&mut self) -> Result<(), Unsent> {
        let room = match &mut self.slot {
            Some(slot) => slot.room(&self.sender, &self.cancel_handle).await,
            None => room(&self.sender, &self.cancel_handle).await,
        };
        let room = room.ok_or_else(|| Unsent::Canceled(self.cancel_handle.reason()))?;
        let room = room.map_err(|_| Unsent::Abandoned)?;
        self.sent_any = true;
        let bytes = std::mem::take(&mut self.text).into_bytes();
        let bytes = self.compressor.push(bytes);
        let is_large = LARGE_PART_BYTES <= bytes.len();
        room.send(Piece::Rows(bytes));
        if is_large {
            return wait_until_taken(&mut self.slot, &self.sender, &self.cancel_handle).await;
        }
        Ok(())
    }

    /// Makes the end of a failed answer.
    fn failed(&mut self, refusal: &Refusal, id: &str) -> Piece {
        if !self.sent_any {
            return Piece::Whole(refusal.response(id), refusal.code);
        }
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        bytes.extend(refusal.end_of_answer(self.sent));
        Piece::Broken(self.compressor.finish(bytes), refusal.code)
    }
}

fn empty(request: &ExecRequest) -> Result<Piece, Refusal> {
    if request.version < 2 {
        return Err(Refusal::new("42601", "empty query").of(&request.sql).at(0));
    }
    let mut text = String::from("{\"notice\":\"empty query\",\"query\":");
    push_string(&request.sql, &mut text);
    text.push_str(",\"position\":0}");
    Ok(Piece::Whole(Response::new(200, JSON, text), DONE))
}

/// Returns the number of rows of a batch that have about so many bytes, at least 1.
pub(super) fn rows_of(batch: &RecordBatch, bytes: usize) -> usize {
    let all = batch.get_array_memory_size().max(1);
    (batch.num_rows().saturating_mul(bytes) / all).clamp(1, batch.num_rows().max(1))
}

/// Waits until the client has taken all parts that were sent (exec-1).
pub(super) async fn wait_until_taken(
    slot: &mut Option<StreamingSlot>,
    sender: &Sender<Piece>,
    cancel_handle: &CancelHandle,
) -> Result<(), Unsent> {
    // The connection takes the next part when it has written the one before it, and the last one
    // has room when the first one is taken.
    for _ in 0..=QUEUE {
        let room = match slot {
            Some(slot) => slot.room(sender, cancel_handle).await,
            None => room(sender, cancel_handle).await,
        };
        let room = room.ok_or_else(|| Unsent::Canceled(cancel_handle.reason()))?;
        room.map_err(|_| Unsent::Abandoned)?.send(Piece::Running);
    }
    Ok(())
}

/// Splits rows into groups, after each of which the size of the text is checked.
fn groups(
    rows: std::ops::Range<usize>,
    at_a_time: usize,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let end = rows.end;
    rows.step_by(at_a_time).map(move |start| start..(start + at_a_time).min(end))
}

/// Returns the positions of the requested columns, in the requested order.
fn requested_columns(schema: &SchemaRef, request: &ExecRequest) -> Result<Vec<usize>, Refusal> {
    let fields = schema.fields();
    let Some(names) = &request.columns else { return Ok((0..fields.len()).collect()) };
    let find = |name: &String| {
        let found = fields.iter().position(|field| field.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let message = format!("the answer has no column `{name}`");
            Refusal::new("42703", message).of(&request.sql)
        })
    };
    names.iter().map(find).collect()
}

/// Makes the body of a statement without rows: `{"dml":"OK","inserted":3}`.
fn done_body(tag: &str, rows: Option<u64>) -> String {
    let key = match tag.split_whitespace().next() {
        Some("INSERT") => "inserted",
        Some("UPDATE") => "updated",
        Some("DELETE") => "deleted",
        _ => return "{\"ddl\":\"OK\"}".to_owned(),
    };
    match rows {
        Some(rows) => format!("{{\"dml\":\"OK\",\"{key}\":{rows}}}"),
        None => "{\"dml\":\"OK\"}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_say_how_many_rows_they_touched() {
        for (tag, rows, expected) in [
            ("CREATE TABLE", None, r#"{"ddl":"OK"}"#),
            ("INSERT 3", Some(3), r#"{"dml":"OK","inserted":3}"#),
            ("UPDATE 34", Some(34), r#"{"dml":"OK","updated":34}"#),
            ("DELETE 0", Some(0), r#"{"dml":"OK","deleted":0}"#),
        ] {
            assert_eq!(done_body(tag, rows), expected);
        }
    }

    #[test]
    fn an_error_says_where_it_is_in_characters() {
        let refusal = Refusal::new("42601", "no \"such\" word").of("s\u{e9}l\n1").at(2);
        let response = refusal.response("00c1");
        assert_eq!(response.status, 400);
        let expected = "{\"query\":\"s\u{e9}l\\n1\",\"error\":\"no \\\"such\\\" word\",\
                        \"position\":2,\"code\":\"42601\",\"requestId\":\"00c1\"}";
        assert_eq!(String::from_utf8(response.body).unwrap(), expected);
    }
}
