//! The state that all connections share: configuration, clock, log, metrics, and the database once
//! it is open.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use tidegate_platform::{Clock, disk_bytes, rss_anon_bytes};
use tidegate_query::{Engine, Timeout};
use tidegate_storage::Database;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::admission::AdmissionControl;
use crate::auth::Users;
use crate::backends::Backends;
use crate::budget::Budget;
use crate::config::Config;
use crate::copy::Copier;
use crate::ilp::{Ingest, Keys};
use crate::lanes::Lanes;
use crate::log::Log;
use crate::metrics::{ComputedMetric, Metrics};
use crate::replaceable::ReplaceableSockets;
use crate::tls::Tls;

/// The progress of a server toward its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Nothing new is accepted; running work is completed.
    Draining,
    /// Running work is dropped.
    Ending,
}

impl Phase {
    pub(crate) fn is_stopping(self) -> bool {
        self != Phase::Running
    }
}

/// The divisor of a disk's size that gives the free space below which it counts as full, unless
/// `storage.min_free` is less.
const DISK_PART: u64 = 20;

/// The threads that read large messages; more would take the cores from those that answer.
const READERS_MAX: usize = 2;

/// Waits until the server is told to stop.
pub(crate) async fn stopping(phase: &mut watch::Receiver<Phase>) {
    // Without a sender the server is stopping, too.
    let _ = phase.wait_for(|phase| phase.is_stopping()).await;
}

/// A token of work that the end of the server waits for.
#[derive(Clone, Debug)]
pub(crate) struct Tracker(#[expect(dead_code, reason = "it is held, not used")] mpsc::Sender<()>);

impl Tracker {
    pub(crate) fn new() -> (Tracker, mpsc::Receiver<()>) {
        let (sender, all_gone) = mpsc::channel(1);
        (Tracker(sender), all_gone)
    }
}

/// The state of a server that all its connections use.
pub(crate) struct ServerState {
    pub(crate) config: Config,
    /// The keys of clients that may send lines over TCP; `None` if every client may.
    pub(crate) keys: Option<Keys>,
    pub(crate) users: Users,
    /// TLS, if it is configured.
    pub(crate) tls: Option<Tls>,
    /// The connections of PostgreSQL's protocol after their login.
    pub(crate) backends: Arc<Backends>,
    /// The connections before their login.
    pub(crate) pending_logins: ReplaceableSockets,
    /// The connections of the listener for health and metrics.
    pub(crate) admin_sockets: ReplaceableSockets,
    /// True while a connection polls its socket for the next message (pg_wire-4).
    pub(crate) is_spinning: AtomicBool,
    /// The memory that connections hold.
    pub(crate) budget: Arc<Budget>,
    /// The limit of large messages that are read at the same time: each takes a core for up to a
    /// second.
    pub(crate) readers: Semaphore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<Log>,
    pub(crate) metrics: Metrics,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) ids: Ids,
    /// The warnings found at the start.
    pub(crate) warnings: Vec<String>,
    services: OnceLock<Arc<Services>>,
}

/// The parts of the state that are made before the listeners.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) warnings: Vec<String>,
    pub(crate) users: Users,
    pub(crate) keys: Option<Keys>,
    pub(crate) tls: Option<Tls>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<Log>,
    pub(crate) phase: watch::Receiver<Phase>,
}

/// The parts of a server that need the open database.
pub(crate) struct Services {
    pub(crate) database: Arc<Database>,
    pub(crate) engine: Arc<Engine>,
    /// The runner of COPY and uploads.
    pub(crate) copier: Arc<Copier>,
    /// The threads for short work: descriptions and commits, which plan and wait for others.
    pub(crate) query_threads: Handle,
    /// The threads of COPY statements, whose jobs run on after their statements.
    pub(crate) job_threads: Handle,
    /// The admission permits of statements.
    pub(crate) admission: Arc<AdmissionControl>,
    /// The threads of admitted statements.
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) timeout: Timeout,
    pub(crate) ingest: Ingest,
    /// A directory on the disk of the database.
    pub(crate) folder: PathBuf,
}

/// The count of a statement that is being answered: if it is dropped because its client has gone,
/// the statement counts as cancelled.
pub(crate) struct CountedQuery {
    server: Arc<ServerState>,
    protocol: &'static str,
    start: u64,
    code: &'static str,
}

impl CountedQuery {
    pub(crate) fn begin(server: &Arc<ServerState>, protocol: &'static str) -> CountedQuery {
        server.metrics.queries_running.add(1);
        let start = server.clock.monotonic_nanos();
        CountedQuery { server: Arc::clone(server), protocol, start, code: "57014" }
    }

    /// Counts the statement as ended with this SQLSTATE.
    pub(crate) fn end(mut self, code: &'static str) {
        self.code = code;
    }

    /// Sets the SQLSTATE for the case that it is dropped now.
    pub(crate) fn note(&mut self, code: &'static str) {
        self.code = code;
    }
}

impl fmt::Debug for CountedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedQuery").field("code", &self.code).finish_non_exhaustive()
    }
}

impl Drop for CountedQuery {
    fn drop(&mut self) {
        let metrics = &self.server.metrics;
        metrics.queries_running.sub(1);
        let nanos = self.server.clock.monotonic_nanos() - self.start;
        metrics.query_done(self.protocol, self.code, nanos);
    }
}

/// The reason why the server does not answer statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    Recovering,
    Stopping,
}

impl Unready {
    /// Returns the SQLSTATE.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Unready::Recovering => "57P03",
            Unready::Stopping => "57P01",
        }
    }
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unready::Recovering => "the database is being opened",
            Unready::Stopping => "the server is stopping",
        })
    }
}

impl Services {
    /// Returns true if the disk of the database has little free space: less than a twentieth of its
    /// size and less than `min_free`, each divided by `parts`.
    pub(crate) fn has_full_disk(&self, min_free: u64, parts: u64) -> bool {
        let is_full = |(free, all): (u64, u64)| free < (all / DISK_PART).min(min_free) / parts;
        disk_bytes(&self.folder).is_ok_and(is_full)
    }
}

impl ServerState {
    /// Makes the state of a server whose database is not open yet.
    pub(crate) fn new(setup: Setup) -> ServerState {
        let Setup { config, warnings, users, keys, tls, clock, log, phase } = setup;
        let ids = Ids::new(clock.as_ref());
        let metrics = Metrics::default();
        let (backends, services) = (Arc::default(), OnceLock::new());
        let budget = Budget::new(config.connection_limit);
        ServerState {
            config,
            keys,
            users,
            tls,
            backends,
            pending_logins: ReplaceableSockets::default(),
            admin_sockets: ReplaceableSockets::default(),
            is_spinning: AtomicBool::new(false),
            budget,
            readers: Semaphore::new(READERS_MAX),
            clock,
            log,
            metrics,
            phase,
            ids,
            warnings,
            services,
        }
    }

    /// Makes the services available.
    pub(crate) fn begin(&self, services: Arc<Services>) {
        let was_begun = self.services.set(services).is_err();
        assert!(!was_begun, "a server opens one database");
    }

    pub(crate) fn services(&self) -> Result<Arc<Services>, Unready> {
        if self.phase.borrow().is_stopping() {
            return Err(Unready::Stopping);
        }
        self.services.get().cloned().ok_or(Unready::Recovering)
    }

    /// Returns a word for each reason.
    pub(crate) fn reasons_not_ready(&self) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        match self.services() {
            Ok(services) => {
                let database = &services.database;
                if database.is_log_broken() {
                    reasons.push("disk_read_only");
                }
                if database.is_short_of_space() || services.has_full_disk(self.config.min_free, 1) {
                    reasons.push("disk_full");
                }
            }
            Err(Unready::Recovering) => reasons.push("recovering"),
            Err(Unready::Stopping) => reasons.push("stopping"),
        }
        if self.config.memory_limit.0 < rss_anon_bytes() {
            reasons.push("memory");
        }
        reasons
    }

    pub(crate) fn metrics_text(&self) -> String {
        let mut computed = vec![
            ComputedMetric {
                name: "tidegate_memory_bytes",
                help: "Anonymous memory of the process.",
                value: rss_anon_bytes() as f64,
            },
            ComputedMetric {
                name: "tidegate_memory_limit_bytes",
                help: "What it may be.",
                value: self.config.memory_limit.0 as f64,
            },
            ComputedMetric {
                name: "tidegate_connection_memory_bytes",
                help: "Messages, bodies, statements and values that connections hold.",
                value: self.budget.used() as f64,
            },
        ];
        computed.push(ComputedMetric {
            name: "tidegate_log_lines_dropped_total",
            help: "Lines of the log that nothing took in time.",
            value: self.log.dropped() as f64,
        });
        if let Some(services) = self.services.get() {
            computed.extend(storage_metrics(&services.database));
            computed.extend(disk_bytes(&services.folder).ok().map(|(free, _)| ComputedMetric {
                name: "tidegate_disk_free_bytes",
                help: "What may still be written to the disk of the database.",
                value: free as f64,
            }));
            computed.push(ComputedMetric {
                name: "tidegate_ingest_memory_bytes",
                help: "Bytes that were received and are not committed.",
                value: services.ingest.memory_used() as f64,
            });
        }
        self.metrics.text(&computed)
    }
}

fn storage_metrics(database: &Database) -> Vec<ComputedMetric> {
    let report = database.maintenance_report();
    // A table that was dropped meanwhile, or cannot be read, is not counted.
    let snapshots = database.tables().into_iter().map(|table| database.snapshot(&table.name));
    let snapshots = snapshots.filter_map(Result::ok).collect::<Vec<_>>();
    let runs = snapshots.iter().flat_map(|snapshot| snapshot.segments());
    let segments = runs.filter(|run| !run.is_in_memory());
    let partitions = snapshots.iter().map(|snapshot| {
        snapshot.segments().map(|run| run.meta.partition).collect::<BTreeSet<_>>().len()
    });
    let written = report.log_bytes + report.flushed_bytes + report.compacted_bytes;
    let value = |name, help, value: u64| ComputedMetric { name, help, value: value as f64 };
    vec![
        value(
            "tidegate_memtable_bytes",
            "Memory of committed rows that are not in segments yet.",
            database.memtable_bytes(),
        ),
        value(
            "tidegate_symbol_bytes",
            "Memory of the dictionaries of SYMBOL columns, without pages of their files.",
            database.symbol_memory().used_bytes(),
        ),
        value(
            "tidegate_wal_bytes",
            "Bytes of the log that a start would read.",
            database.log_bytes(),
        ),
        value("tidegate_wal_written_bytes_total", "Bytes written to the log.", report.log_bytes),
        value(
            "tidegate_wal_unflushed_bytes",
            "Bytes of the log that were acknowledged and are not known to be on disk.",
            database.unsynced_bytes(),
        ),
        value(
            "tidegate_flushed_bytes_total",
            "Bytes of the segments that flushes wrote.",
            report.flushed_bytes,
        ),
        value(
            "tidegate_compacted_bytes_total",
            "Bytes of the segments that compactions wrote.",
            report.compacted_bytes,
        ),
        ComputedMetric {
            name: "tidegate_write_amplification",
            help: "Bytes written to log and segments, for each byte of the log, since the start.",
            value: written as f64 / report.log_bytes.max(1) as f64,
        },
        value("tidegate_tables", "Tables.", snapshots.len() as u64),
        value("tidegate_partitions", "Partitions.", partitions.sum::<usize>() as u64),
        value("tidegate_segments", "Segments.", segments.count() as u64),
        value(
            "tidegate_ttl_partitions_dropped_total",
            "Partitions whose time was over.",
            report.expired_partitions,
        ),
    ]
}

/// A generator of ids of requests and errors, different from those of other starts of the server.
#[derive(Debug)]
pub(crate) struct Ids {
    start: u64,
    next: AtomicU64,
}

impl Ids {
    fn new(clock: &dyn Clock) -> Ids {
        // The lower 48 bits of the microseconds since 1970, which repeat after nine years.
        let start = clock.now_micros().cast_unsigned() & 0xffff_ffff_ffff;
        Ids { start, next: AtomicU64::new(0) }
    }

    /// Returns an id of 16 hex digits.
    pub(crate) fn request(&self) -> String {
        let number = self.next.fetch_add(1, Relaxed);
        // The factor is odd, so that every number has another product, and neighbours differ in
        // many digits.
        let mixed = (self.start << 16 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{mixed:016x}")
    }

    /// Returns `<12 hex of this start>-<number>`.
    pub(crate) fn error(&self) -> String {
        format!("{:012x}-{}", self.start, self.next.fetch_add(1, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tidegate_platform::SimClock;

    use super::*;

    #[test]
    fn no_id_comes_twice() {
        let ids = Ids::new(&SimClock::new(1_763_792_405_000_000));
        let requests: HashSet<String> = (0..1_000).map(|_| ids.request()).collect();
        assert_eq!(requests.len(), 1_000);
        assert!(requests.iter().all(|id| id.len() == 16));
        assert_eq!(ids.error(), "4428ebc1ef40-1000");
    }
}
