//! The line protocol: parses lines and commits their rows, over HTTP (`http::write`) and TCP
//! (`tcp`).
//!
//! - ilp-1. Rows that were received and are not committed have a memory budget. A connection that
//!   would exceed it stops reading, so its client waits too. No line that was read is dropped for
//!   it.
//! - ilp-2. Input that cannot be committed yet (an incomplete line, or a body over HTTP without its
//!   end) is dropped after some time if others wait for memory: a slow client stops no other.
//! - One commit is atomic, over all its tables (`Database::append`).
//!
//! Not here: reading lines (`ingest::line`), storing rows (`storage`).

mod idempotency_cache;
mod auth;
mod commit;
mod connections;
mod rejects;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_ingest::line::{LineHost, LineOptions, LineParser, OnBadLine, Precision};
use tidegate_model::{ByteCount, Schema, limits};
use tidegate_platform::Clock;
use tidegate_storage::Database;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::IlpConfig;

pub use auth::KeyFileError;
pub(crate) use auth::Keys;
pub(crate) use commit::{CommitError, CommitOptions, Committed, NamedBatch, commit, is_race};
pub(crate) use connections::{Connected, Connections};
pub(crate) use idempotency_cache::{Answer, Content, Fingerprint, IdempotencyCache, KeyReused};
pub(crate) use rejects::{RejectLimit, RejectRow, Rejects, write as write_rejects};

/// The unit of the budget.
pub(crate) const UNIT_BYTES: usize = 1 << 10;
/// The most idle parsers that are kept, with the tables and tags that they have cached.
const PARSERS_KEPT: usize = 64;

/// The state that all receivers of lines share.
pub(crate) struct Ingest {
    pub(crate) options: IlpConfig,
    pub(crate) rejects: Rejects,
    pub(crate) idempotency_cache: IdempotencyCache,
    /// The connections of TCP; HTTP has requests, which are not listed.
    pub(crate) connections: Arc<Connections>,
    budget: Arc<Semaphore>,
    budget_units: usize,
    wait: Duration,
    /// The number of tasks that wait for memory.
    waiting: AtomicUsize,
    parsers: Mutex<Vec<LineParser>>,
}

/// A reserved part of the budget.
pub(crate) type Reserved = OwnedSemaphorePermit;

impl Ingest {
    pub(crate) fn new(
        options: IlpConfig,
        rejects: Rejects,
        limit: ByteCount,
        wait: Duration,
    ) -> Ingest {
        let units = usize::try_from(limit.0).unwrap_or(usize::MAX) / UNIT_BYTES;
        let budget_units = units.clamp(1, Semaphore::MAX_PERMITS);
        let budget = Arc::new(Semaphore::new(budget_units));
        let (idempotency_cache, connections) =
            (IdempotencyCache::new(options.idempotency_window), Arc::default());
        let (waiting, parsers) = (AtomicUsize::new(0), Mutex::default());
        Ingest {
            options,
            rejects,
            idempotency_cache,
            connections,
            budget,
            budget_units,
            wait,
            waiting,
            parsers,
        }
    }

    /// Returns the bytes that are reserved.
    pub(crate) fn memory_used(&self) -> u64 {
        ((self.budget_units - self.budget.available_permits()) * UNIT_BYTES) as u64
    }

    /// Reserves memory if it is available.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Reserved> {
        Arc::clone(&self.budget).try_acquire_many_owned(self.units(bytes)).ok()
    }

    /// Waits for memory (ilp-1), with a time limit: `None` if it has passed.
    pub(crate) async fn reserve(&self, bytes: usize) -> Option<Reserved> {
        if let Some(reserved) = self.try_reserve(bytes) {
            return Some(reserved);
        }
        let _waiting = Waiting::begin(&self.waiting);
        let all = Arc::clone(&self.budget).acquire_many_owned(self.units(bytes));
        timeout(self.wait, all).await.ok()?.ok()
    }

    /// Returns true if a task waits for memory.
    pub(crate) fn is_short(&self) -> bool {
        0 < self.waiting.load(Relaxed)
    }

    /// Returns the units of a size; at most the whole budget.
    fn units(&self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT_BYTES).clamp(1, self.budget_units);
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// Returns the bytes that a reservation lacks of `bytes`, or of all there is.
    pub(crate) fn missing(&self, reserved: Option<&Reserved>, bytes: usize) -> usize {
        let held = reserved.map_or(0, OwnedSemaphorePermit::num_permits);
        (self.units(bytes) as usize).saturating_sub(held) * UNIT_BYTES
    }

    /// Keeps as much reserved as `bytes` need, and releases the rest.
    pub(crate) fn shrink(&self, reserved: &mut Reserved, bytes: usize) {
        let surplus = reserved.num_permits().saturating_sub(self.units(bytes) as usize);
        drop(reserved.split(surplus));
    }

    /// Returns the options for parsing lines.
    pub(crate) fn line_options(&self, precision: Precision, on_bad_line: OnBadLine) -> LineOptions {
        let config = &self.options;
        LineOptions {
            precision,
            integer_type: config.integer_type,
            timestamp_name: config.timestamp_name.clone(),
            max_line_bytes: config.max_line_bytes,
            max_columns: config.max_columns,
            create_tables: config.create_tables,
            create_columns: config.create_columns,
            padding_bytes_max: (self.budget_units * UNIT_BYTES)
                .clamp(limits::LINE_PADDING_BYTES_LEAST, limits::LINE_PADDING_BYTES),
            ..LineOptions::new(on_bad_line)
        }
    }

    /// Returns a parser that stops at bad lines, perhaps with cached tables and tags.
    pub(crate) fn parser(&self, precision: Precision) -> LineParser {
        let pooled = self.parsers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match pooled {
            Some(mut parser) => {
                parser.restart();
                parser.set_precision(precision);
                parser
            }
            None => LineParser::new(self.line_options(precision, OnBadLine::Stop)),
        }
    }

    /// Takes back such a parser for later use.
    pub(crate) fn keep_parser(&self, mut parser: LineParser) {
        parser.restart();
        let mut parsers = self.parsers.lock().unwrap_or_else(PoisonError::into_inner);
        if parsers.len() < PARSERS_KEPT {
            parsers.push(parser);
        }
    }
}

/// A task that waits for memory.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn begin(count: &AtomicUsize) -> Waiting<'_> {
        count.fetch_add(1, Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The database and the clock for a parser.
pub(crate) struct Host<'a> {
    database: &'a Database,
    clock: &'a dyn Clock,
    /// The latest time so far: the clock may be set back, but times within a batch must not fall.
    latest: i64,
}

impl<'a> Host<'a> {
    pub(crate) fn new(database: &'a Database, clock: &'a dyn Clock) -> Host<'a> {
        Host { database, clock, latest: i64::MIN }
    }
}

impl LineHost for Host<'_> {
    fn schema_of(&mut self, table: &str) -> Option<Arc<Schema>> {
        self.database.schema_of(table)
    }

    fn now_nanos(&mut self) -> i64 {
        self.latest = self.latest.max(self.clock.now_micros().saturating_mul(1_000));
        self.latest
    }
}
