//! The line protocol over TCP: receives a stream of lines, and sends nothing back.
//!
//! - Rows are committed when there are `commit_rows` of them, when the first has waited for
//!   `commit_interval`, and when the connection or the server ends; in the order in which they
//!   arrived.
//! - While a commit of a connection runs, its next rows are read; a second commit waits for the
//!   first, and then nothing is read.
//! - ilp_tcp-1. A connection without pending rows has no buffer, and after a while no parser:
//!   thousands of connections may be open.
//! - ilp_tcp-2. Parsed rows are lost only if their commit fails for `commit_retry`; then the
//!   connection ends, and the log and `sys.ilp_rejects` have their number.
//! - ilp_tcp-3. When the server stops, nothing more is read, parsed rows are committed, and the
//!   connection ends. A line without its end is dropped, whatever ends the connection.
//! - ilp_tcp-4. No line is taken from a connection that speaks another protocol (`prelude`).
//! - If keys are configured, no line is read before the client has signed with one of them
//!   (`auth`).
//!
//! Reading and parsing run on the runtime's own threads, `READ_BUDGET_BYTES` at a time; commits,
//! which compute and wait for the disk, run on its blocking threads.

mod prelude;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_ingest::line::{
    LineOptions, LineParser, OnBadLine as LineAction, ParseError, TableRows,
};
use tidegate_model::limits;
use tidegate_platform::sentence;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, spawn_blocking, yield_now};
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::OnBadLine;
use crate::ilp::{
    CommitError, CommitOptions, Committed, Connected, Host, RejectLimit, RejectRow, Reserved,
    commit,
};
use crate::log::shortened;
use crate::metrics::{LineMetrics, Transport};
use crate::server_state::{ServerState, Services, Tracker, stopping};
use prelude::{Foreign, Prelude};

/// The bytes of one read.
const READ_BYTES: usize = 512 << 10;
/// The bytes of one read if rows take much more memory than their text, because of NULLs of columns
/// that lines do not name.
const SPARSE_READ_BYTES: usize = 16 << 10;
/// The ratio of the memory of rows to that of their text from which on reads are small.
const SPARSE_BYTES_PER_BYTE: usize = 32;
/// The bytes that a connection reads before others can run.
const READ_BUDGET_BYTES: usize = 1 << 20;
/// The bytes of rows that are committed at once, whatever their number: so far below the bound of a
/// record that the rows of one read budget do not matter.
const COMMIT_BYTES: usize = limits::WAL_RECORD_BYTES / 4;
/// The time for which a connection without rows keeps its parser and the parser's cache.
const PARSER_KEPT: Duration = Duration::from_secs(60);
/// The longest time from the first byte of a line to its last, while others wait for the memory
/// that it holds.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which an incomplete line is checked against waiting tasks.
const LINE_TICK: Duration = Duration::from_secs(1);

/// The first and the longest wait of a failed commit for its retry.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(2);

thread_local! {
    /// The buffer of a thread: bytes are parsed as soon as they are read, so one is enough.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Takes the lines of a connection until it ends, or the server does.
pub(crate) async fn serve(
    server: Arc<ServerState>,
    services: Arc<Services>,
    mut stream: TcpStream,
    peer: SocketAddr,
    tracker: Tracker,
) {
    if let Some(keys) = &server.keys {
        let mut phase = server.phase.clone();
        let auth_timeout = server.config.tcp.auth_timeout;
        let name = tokio::select! {
            name = keys.ask(&mut stream, auth_timeout) => name,
            () = stopping(&mut phase) => return,
        };
        if name.is_none() {
            server.metrics.auth_failures.add(1);
            server.log.warn_limited("ilp", format_args!("{peer}: the client has no valid key"));
            return;
        }
    }
    let rate = server.config.ilp.reject_rate;
    let peer = peer.to_string();
    let connected = services.ingest.connections.begin(&peer, server.clock.now_micros());
    let mut connection = Connection {
        connected,
        peer,
        stream,
        prelude: Prelude::default(),
        parser: None,
        reserved: None,
        read_bytes: SPARSE_READ_BYTES,
        first_row: None,
        active: Instant::now(),
        line_start: None,
        working: None,
        limit: RejectLimit::new(rate, Instant::now()),
        server,
        services,
    };
    connection.run().await;
    drop(tracker);
}

struct Connection {
    server: Arc<ServerState>,
    services: Arc<Services>,
    stream: TcpStream,
    peer: String,
    connected: Connected,
    prelude: Prelude,
    /// The parser; `None` while it has nothing to keep (ilp_tcp-1).
    parser: Option<Box<LineParser>>,
    /// The memory of the pending rows and of the incomplete line.
    reserved: Option<Reserved>,
    /// The bytes of the next read.
    read_bytes: usize,
    /// The time at which the first pending row arrived.
    first_row: Option<Instant>,
    /// The time of the last received bytes.
    active: Instant,
    /// The time at which the incomplete line began.
    line_start: Option<Instant>,
    /// The running commit.
    working: Option<JoinHandle<Outcome>>,
    limit: RejectLimit,
}

/// The result of a commit.
enum Outcome {
    Committed(Committed),
    /// The rows are lost; their number is `rows`.
    Failed {
        error: CommitError,
        rows: u64,
    },
}

/// The reason why nothing more is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client, the network or the server has ended it.
    Closed,
    /// A line was bad, and `on_error` is `disconnect`.
    BadLine,
    /// Rows were lost.
    Failed,
    /// It speaks another protocol, and no line was taken.
    Foreign,
}

/// The state of a connection after reading.
enum ReadState {
    /// More bytes may be there.
    More,
    /// No bytes are there now.
    Empty,
    End(End),
}

impl Connection {
    async fn run(&mut self) {
        let end = loop {
            match self.step().await {
                Ok(()) => {}
                Err(end) => break end,
            }
        };
        if end != End::Failed && self.finish(end).await.is_err() {
            return;
        }
        if end == End::Failed {
            self.lose_rest();
        }
    }

    fn metrics(&self) -> &LineMetrics {
        self.server.metrics.of(Transport::Tcp)
    }

    /// Waits for the next event, and handles it.
    async fn step(&mut self) -> Result<(), End> {
        if self.is_due() && self.working.is_none() {
            self.start_commit();
        }
        let can_read = !self.is_due();
        let commit_at = match (self.first_row, &self.working) {
            (Some(first), None) => Some(first + self.server.config.tcp.commit_interval),
            _ => None,
        };
        let (forget_at, idle_at) = (self.forget_at(), self.idle_at());
        let line_at = self.line_at();
        let mut phase = self.server.phase.clone();
        tokio::select! {
            biased;
            outcome = finished(&mut self.working) => {
                self.working = None;
                self.settle(outcome)
            }
            // The server stops (ilp_tcp-3).
            () = stopping(&mut phase) => Err(End::Closed),
            () = until(commit_at) => {
                self.start_commit();
                Ok(())
            }
            ready = self.stream.readable(), if can_read => {
                ready.map_err(|_| End::Closed)?;
                self.read().await
            }
            () = until(forget_at) => {
                self.parser = None;
                Ok(())
            }
            () = until(idle_at) => Err(End::Closed),
            () = until(line_at) => {
                if self.services.ingest.is_short() { Err(End::Closed) } else { Ok(()) }
            }
        }
    }

    /// Returns true if the pending rows are enough for a commit.
    fn is_due(&self) -> bool {
        self.parser.as_ref().is_some_and(|parser| {
            self.server.config.tcp.commit_rows <= parser.rows()
                || (0 < parser.rows() && COMMIT_BYTES <= parser.pending_bytes())
        })
    }

    /// Returns the time at which the parser may be dropped (ilp_tcp-1).
    fn forget_at(&self) -> Option<Instant> {
        let parser = self.parser.as_ref()?;
        (parser.rows() == 0 && parser.pending_bytes() == 0).then(|| self.active + PARSER_KEPT)
    }

    fn idle_at(&self) -> Option<Instant> {
        let timeout = self.server.config.tcp.idle_timeout;
        (!timeout.is_zero()).then(|| self.active + timeout)
    }

    /// Returns the time of the next check whether the incomplete line has to be dropped (ilp-2).
    fn line_at(&self) -> Option<Instant> {
        let given_up = self.line_start? + LINE_TIMEOUT;
        Some(given_up.max(Instant::now() + LINE_TICK))
    }

    /// Reads and parses the available bytes, if there is memory for them.
    async fn read(&mut self) -> Result<(), End> {
        let ingest = &self.services.ingest;
        let reserved = match ingest.try_reserve(READ_BUDGET_BYTES) {
            Some(reserved) => reserved,
            None => {
                let start = Instant::now();
                let reserved = self.wait_for_memory().await?;
                let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.metrics().paused_nanos.add(nanos);
                match reserved {
                    Some(reserved) => reserved,
                    None => return Ok(()),
                }
            }
        };
        match &mut self.reserved {
            Some(held) => held.merge(reserved),
            None => self.reserved = Some(reserved),
        }
        self.active = Instant::now();
        let state = self.read_available();
        self.account();
        match state {
            // Other connections can read now.
            ReadState::More => yield_now().await,
            ReadState::Empty => {}
            ReadState::End(end) => return Err(end),
        }
        Ok(())
    }

    /// Commits the own rows first, and drops an incomplete line after some time (ilp-2): a
    /// connection that waits for memory must not hold memory for which others wait.
    async fn wait_for_memory(&mut self) -> Result<Option<Reserved>, End> {
        if let Some(working) = self.working.take() {
            let outcome = working.await;
            self.settle(outcome.map_err(|_| ()))?;
        }
        if self.parser.as_ref().is_some_and(|parser| 0 < parser.rows()) {
            self.start_commit();
            return Ok(None);
        }
        let mut phase = self.server.phase.clone();
        tokio::select! {
            reserved = self.services.ingest.reserve(READ_BUDGET_BYTES) => Ok(reserved),
            () = stopping(&mut phase) => Ok(None),
            () = until(self.line_start.map(|start| start + LINE_TIMEOUT)) => Err(End::Closed),
        }
    }

    /// Reads until no bytes are there, or others should run.
    fn read_available(&mut self) -> ReadState {
        let mut left = READ_BUDGET_BYTES;
        while 0 < left {
            let read: io::Result<_> = BUFFER.with_borrow_mut(|buffer| {
                let room = buffer.len().min(left).min(self.read_bytes);
                let count = self.stream.try_read(&mut buffer[..room])?;
                let before = self.pending_bytes();
                let fed = self.feed(&buffer[..count]);
                let taken = self.pending_bytes().saturating_sub(before);
                let is_sparse = count * SPARSE_BYTES_PER_BYTE < taken;
                self.read_bytes = if is_sparse { SPARSE_READ_BYTES } else { READ_BYTES };
                Ok((count, fed))
            });
            let end = match read {
                Ok((0, _)) => Some(End::Closed),
                Ok((count, parsed)) => {
                    left -= count;
                    self.metrics().bytes.add(count as u64);
                    self.connected.bytes(count as u64);
                    parsed.err()
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return ReadState::Empty,
                Err(_) => Some(End::Closed),
            };
            if let Some(end) = end {
                return ReadState::End(end);
            }
            if self.is_due() {
                return ReadState::More;
            }
        }
        ReadState::More
    }

    /// Parses the bytes that are lines (ilp_tcp-4).
    fn feed(&mut self, bytes: &[u8]) -> Result<(), End> {
        if self.prelude.is_over() {
            return self.parse(bytes);
        }
        match self.prelude.take(bytes) {
            Ok(lines) => self.parse(&lines),
            Err(foreign) => Err(self.refuse(foreign)),
        }
    }

    /// Logs that a connection speaks another protocol.
    fn refuse(&mut self, foreign: Foreign) -> End {
        let (peer, name) = (&self.peer, foreign.name());
        self.server.metrics.foreign_protocols.add(1);
        let text = format_args!(
            "{peer}: the connection speaks {name}, which this port does not: it is closed, and \
             nothing of it was taken"
        );
        self.server.log.warn_limited(("ilp", "foreign protocol"), text);
        End::Foreign
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<(), End> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut host = Host::new(&self.services.database, self.server.clock.as_ref());
        let options = || options(&self.server, &self.services);
        let parser = self.parser.get_or_insert_with(|| Box::new(LineParser::new(options())));
        let before = parser.rows();
        let fed = parser.feed(bytes, &mut host);
        let (rows, has_line) = (parser.rows(), 0 < parser.line_bytes());
        let taken = rows.saturating_sub(before) as u64;
        self.metrics().lines.add(taken);
        self.connected.taken(taken);
        if 0 < rows && self.first_row.is_none() {
            self.first_row = Some(Instant::now());
        }
        if !has_line || 0 < taken {
            self.line_start = None;
        }
        if has_line {
            self.line_start = self.line_start.or_else(|| Some(Instant::now()));
        }
        self.note_parse_errors();
        fed.map_err(|parse_error| {
            self.note_parse_error(&parse_error);
            End::BadLine
        })
    }

    /// Returns the approximate bytes of the pending rows.
    fn pending_bytes(&self) -> usize {
        self.parser.as_deref().map_or(0, LineParser::pending_bytes)
    }

    /// Adjusts the reserved memory to the bytes in use, as far as memory is available.
    fn account(&mut self) {
        let bytes = self.pending_bytes() + self.prelude.held_bytes();
        let missing = self.services.ingest.missing(self.reserved.as_ref(), bytes);
        if 0 < missing
            && let Some(more) = self.services.ingest.try_reserve(missing)
        {
            match &mut self.reserved {
                Some(reserved) => reserved.merge(more),
                None => self.reserved = Some(more),
            }
        }
        match &mut self.reserved {
            Some(_) if bytes == 0 => self.reserved = None,
            Some(reserved) => self.services.ingest.shrink(reserved, bytes),
            None => {}
        }
    }

    fn note_parse_errors(&mut self) {
        let Some(parser) = &mut self.parser else { return };
        let (parse_errors, count) = parser.take_errors();
        for (reason, count) in parser.take_kinds() {
            self.metrics().lines.add(count);
            self.server.metrics.rejected(Transport::Tcp, reason, count);
        }
        for parse_error in &parse_errors {
            self.note_parse_error(parse_error);
        }
        self.connected.rejected_more(count.saturating_sub(parse_errors.len() as u64));
    }

    /// Logs and stores a bad line.
    fn note_parse_error(&mut self, parse_error: &ParseError) {
        self.connected.rejected(parse_error.to_string());
        let peer = &self.peer;
        self.server.log.warn_limited("ilp", format_args!("{peer}: {parse_error}"));
        if self.limit.allows(Instant::now()) {
            let now = self.server.clock.now_micros();
            let row = RejectRow::of_parse_error(parse_error, Transport::Tcp, peer, now);
            self.services.ingest.rejects.keep(row);
        }
    }

    /// Starts a commit of the pending rows, if there are any.
    fn start_commit(&mut self) {
        self.first_row = None;
        let Some(parser) = &mut self.parser else { return };
        let rows = parser.take();
        if rows.is_empty() {
            return;
        }
        let reserved = self.reserved.take();
        let tail = parser.pending_bytes();
        if 0 < tail {
            self.reserved = self.services.ingest.try_reserve(tail);
        }
        let (server, services) = (Arc::clone(&self.server), Arc::clone(&self.services));
        self.working = Some(tokio::spawn(async move {
            let outcome = commit_with_retries(&server, &services, rows).await;
            drop(reserved);
            outcome
        }));
    }

    /// Handles the result of a commit.
    fn settle(&mut self, outcome: Result<Outcome, ()>) -> Result<(), End> {
        match outcome {
            Ok(Outcome::Committed(committed)) => {
                self.connected.committed(committed.rows);
                self.connected.lost(committed.rejected, None);
                for parse_error in &committed.parse_errors {
                    self.server.metrics.rejected(Transport::Tcp, parse_error.reason.kind(), 1);
                    self.note_parse_error(parse_error);
                }
                let known = committed.parse_errors.len() as u64;
                self.connected.rejected_more(committed.rejected.saturating_sub(known));
                Ok(())
            }
            Ok(Outcome::Failed { error, rows }) => {
                self.lost(rows, &sentence(&error));
                Err(End::Failed)
            }
            Err(()) => {
                self.lost(0, "internal error: a commit has panicked");
                Err(End::Failed)
            }
        }
    }

    /// Logs and counts lost rows (ilp_tcp-2).
    fn lost(&self, rows: u64, why: &str) {
        let peer = &self.peer;
        let text = format_args!("{peer}: {rows} rows are lost: {why}");
        self.server.log.warn_limited(("ilp", "lost rows"), text);
        self.connected.lost(rows, Some(format!("{rows} rows are lost: {why}")));
        self.services.ingest.rejects.keep(RejectRow {
            ts: self.server.clock.now_micros(),
            source: Transport::Tcp.name(),
            peer: peer.clone(),
            reason: shortened(&format!("{rows} rows are lost: {why}"), 1 << 10).to_owned(),
            ..RejectRow::default()
        });
    }

    /// Counts the rows that can no longer be committed in order as lost.
    fn lose_rest(&mut self) {
        let rows = self.parser.as_mut().map_or(0, |parser| parser.rows());
        if 0 < rows {
            self.lost(rows as u64, "the commit before them has failed");
        }
    }

    async fn wait_for_commit(&mut self) -> Result<(), End> {
        match self.working.take() {
            Some(working) => {
                let outcome = working.await.map_err(|_| ());
                self.settle(outcome)
            }
            None => Ok(()),
        }
    }

    /// Commits the remaining rows.
    async fn finish(&mut self, end: End) -> Result<(), End> {
        if end == End::Closed && !self.prelude.is_over() {
            // It is an incomplete line, perhaps after a complete one: both are short.
            let held = self.prelude.rest();
            self.parse(&held).or_else(|end| if end == End::BadLine { Ok(()) } else { Err(end) })?;
        }
        if end == End::Closed
            && let Some(parser) = &mut self.parser
        {
            let mut host = Host::new(&self.services.database, self.server.clock.as_ref());
            let before = parser.rows();
            let finished = parser.cut(&mut host);
            let rows = parser.rows().saturating_sub(before);
            self.metrics().lines.add(rows as u64);
            self.connected.taken(rows as u64);
            self.note_parse_errors();
            if let Err(parse_error) = finished {
                self.note_parse_error(&parse_error);
            }
        }
        self.wait_for_commit().await.inspect_err(|_| self.lose_rest())?;
        self.start_commit();
        self.wait_for_commit().await
    }
}

fn options(server: &ServerState, services: &Services) -> LineOptions {
    let action = match server.config.tcp.on_error {
        OnBadLine::Continue => LineAction::Skip,
        OnBadLine::Disconnect => LineAction::Stop,
    };
    services.ingest.line_options(server.config.tcp.precision, action)
}

/// Commits, and retries as long as that may help.
async fn commit_with_retries(
    server: &Arc<ServerState>,
    services: &Arc<Services>,
    mut rows: Vec<TableRows>,
) -> Outcome {
    let metrics = server.metrics.of(Transport::Tcp);
    let deadline = Instant::now() + server.config.tcp.commit_retry;
    let (start, mut wait) = (server.clock.monotonic_nanos(), RETRY_FIRST);
    loop {
        let count = rows.iter().map(|rows| rows.rows.rows() as u64).sum();
        let database = Arc::clone(&services.database);
        let options = CommitOptions {
            // A row that no longer fits is skipped, whatever the effect of a bad line is: there is
            // no line to stop at.
            lines: LineOptions { on_bad_line: LineAction::Skip, ..options(server, services) },
            partition_by: services.ingest.options.partition_by,
            batch: None,
        };
        let work = spawn_blocking(move || commit(&database, rows, &options));
        let Ok(outcome) = work.await else { std::panic::resume_unwind(Box::new("a commit")) };
        let error = match outcome {
            Ok(committed) => {
                metrics.commits.add(1);
                metrics.rows.add(committed.rows);
                metrics.commit_times.record(server.clock.monotonic_nanos() - start);
                return Outcome::Committed(committed);
            }
            Err(error) => error,
        };
        metrics.commit_errors.add(1);
        if deadline <= Instant::now() || !error.can_pass() {
            return Outcome::Failed { error, rows: count };
        }
        let (again, why) = (wait.as_millis(), sentence(&error));
        server.log.warn_limited("ilp", format_args!("commit failed, again in {again} ms: {why}"));
        rows = match error {
            CommitError::Storage { rows, .. } => rows,
            error @ CommitError::ParseError(_) => return Outcome::Failed { error, rows: count },
        };
        sleep(wait).await;
        wait = (wait * 2).min(RETRY_LAST);
    }
}

/// Waits for the end of the running commit; for ever if there is none.
async fn finished(working: &mut Option<JoinHandle<Outcome>>) -> Result<Outcome, ()> {
    match working {
        Some(working) => working.await.map_err(|_| ()),
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
