//! The configuration and its defaults: one struct, and one table of keys that fill it.
//!
//! - CF1. Every key is in `KEYS` once, and is set by its name or by a variable of the environment
//!   (`http.max_header_bytes` is `TIDEGATE_HTTP_MAX_HEADER_BYTES`). No two keys share a variable.
//! - CF2. An unknown key or value is an error that names it, and is never ignored.
//!
//! Not here: reading the file, the environment and the command line (`tidegate`).

mod value;
mod security;
mod entries;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tidegate_ingest::line::Precision;
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Ttl, limits};
use tidegate_query::{FILL_ROWS_MAX, SPILL_MAX};
use tidegate_storage::Durability;

use security::{auth, auth_methods, hosts, message_bytes, origins, secret, tls_mode};
use value::{address, listener, number, partition, size, span, switch, text};

use crate::copy::CopyConfig;
use crate::log::LogLevels;

pub use entries::Source;
pub use security::{AuthConfig, AuthMethod, PgConfig, Secret, TlsConfig, TlsMode};

/// The share of the machine's memory that the whole server may use, in percent.
const MEMORY_PERCENT: u64 = 70;
/// The share of `memory.limit` that rows waiting for their commit may use, in percent.
const INGEST_PERCENT: u64 = 20;
/// The share of `memory.limit` that connections may hold, in percent: a few of the largest messages
/// on a small machine.
const CONNECTION_PERCENT: u64 = 10;
/// The key of the memory of rows that wait for their commit.
const INGEST_LIMIT: &str = "memory.ingest_limit";
/// The key of the memory of connections.
const CONNECTION_LIMIT: &str = "memory.connection_limit";

/// The settings and limits of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// HTTP.
    pub http: HttpConfig,
    /// The line protocol, over HTTP and TCP.
    pub ilp: IlpConfig,
    /// The line protocol over TCP alone.
    pub tcp: TcpConfig,
    /// COPY, and uploads.
    pub copy: CopyConfig,
    /// PostgreSQL's protocol.
    pub pg: PgConfig,
    /// Users.
    pub auth: AuthConfig,
    /// TLS.
    pub tls: TlsConfig,
    /// The bytes of memory that the whole server may use.
    pub memory_limit: ByteCount,
    /// The bytes of rows that were received and are not committed.
    pub ingest_limit: ByteCount,
    /// The bytes of messages, bodies, statements and values that connections hold.
    pub connection_limit: ByteCount,
    /// The longest wait of a writer for memory before it is told to retry.
    pub ingest_wait: Duration,
    /// Statements.
    pub query: QueryConfig,
    /// The point at which a commit is acknowledged.
    pub durability: Durability,
    /// The longest time that an acknowledged commit may not be on disk, with `Durability::Async`.
    pub flush_interval: Duration,
    /// The longest time that deleted or replaced rows may stay in files.
    pub purge_after: Duration,
    /// True if no client may change anything.
    pub read_only: bool,
    /// The server is not ready with fewer free bytes than this, and less than a twentieth of the
    /// disk of the database free; 0 switches the check off.
    pub min_free: u64,
    /// The levels of log lines that are written.
    pub log_levels: LogLevels,
    /// The time that statements may still run once the server is told to stop.
    pub stop_timeout: Duration,
    /// The source of each key that was set.
    sources: BTreeMap<&'static str, Source>,
}

/// The keys `query....`, and the other limits of statements.
#[derive(Clone, Debug)]
pub struct QueryConfig {
    /// The longest run of a statement.
    pub timeout: Duration,
    /// The longest timeout that a client may set.
    pub timeout_max: Duration,
    /// The most statements that run at the same time; 0 for four for each thread of the engine.
    pub max_concurrent: usize,
    /// The longest wait of a statement for admission.
    pub queue_timeout: Duration,
    /// The memory of one statement; `None` for half of that of all.
    pub memory_limit: Option<ByteCount>,
    /// The most bytes on disk that all statements together may spill.
    pub spill_max: ByteCount,
    /// The most rows that a FILL may make.
    pub fill_rows_max: u64,
}

/// The keys `http....`.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The address that it listens on; `None` for none.
    pub listen: Option<SocketAddr>,
    /// The address of a second listener for health and metrics; `None` for none.
    pub admin_listen: Option<SocketAddr>,
    /// The most connections at a time.
    pub max_connections: usize,
    /// The most bytes of a request's head.
    pub max_header_bytes: usize,
    /// The most bytes of a statement.
    pub max_sql_bytes: usize,
    /// The longest silence of a connection between requests.
    pub idle_timeout: Duration,
    /// The longest time from the first byte of a head to its last.
    pub head_timeout: Duration,
    /// The longest silence within a body.
    pub body_idle_timeout: Duration,
    /// The most rows of an answer; 0 for all.
    pub exec_max_rows: u64,
    /// The condition under which a login is required.
    pub auth: Auth,
    /// True if no GET changes anything; otherwise only a GET of a browser changes nothing.
    pub get_readonly: bool,
    /// Names of this server, besides those of this machine.
    pub hosts: Vec<String>,
    /// Origins of other sites whose pages may send requests: `https://grafana.example`.
    pub cors_origins: Vec<String>,
    /// The most bytes of a body of line protocol, decompressed.
    pub max_ilp_body: usize,
    /// True if the line protocol is accepted.
    pub ilp_enabled: bool,
    /// The most bytes of an upload as received; 0 for any number.
    pub max_upload_bytes: u64,
    /// True if a failed upload is answered with 200, as scripts for QuestDB expect.
    pub imp_always_200: bool,
}

/// The condition under which a request over HTTP needs a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// If other machines can reach the listener, if a password of the administrator is set, and if
    /// a proxy has forwarded the request.
    Auto,
    /// Always.
    Required,
    /// Never.
    Off,
}

/// The keys `ilp....`.
#[derive(Clone, Debug)]
pub struct IlpConfig {
    /// True if missing tables are created.
    pub create_tables: bool,
    /// True if missing columns are added.
    pub create_columns: bool,
    /// The partitioning of created tables.
    pub partition_by: PartitionUnit,
    /// The name of the designated timestamp of created tables.
    pub timestamp_name: String,
    /// The most bytes of a line.
    pub max_line_bytes: usize,
    /// The most columns of a table: lines add none beyond them.
    pub max_columns: usize,
    /// The type of columns that integers create: BIGINT, or a smaller one.
    pub integer_type: ColumnType,
    /// The retention of rows of `sys.ilp_rejects`; `None` for ever.
    pub reject_retention: Option<Ttl>,
    /// The most rows of `sys.ilp_rejects` per connection and second.
    pub reject_rate: u32,
    /// The time for which the answer to a request with an idempotency key is kept.
    pub idempotency_window: Duration,
}

/// The keys `ilp.tcp....`.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The address that it listens on; `None` for none.
    pub listen: Option<SocketAddr>,
    /// The most connections at a time.
    pub max_connections: usize,
    /// The unit of timestamps without a suffix.
    pub precision: Precision,
    /// The number of rows of a connection after which they are committed.
    pub commit_rows: usize,
    /// The longest wait of a row for its commit.
    pub commit_interval: Duration,
    /// The time for which a failed commit is retried.
    pub commit_retry: Duration,
    /// The effect of a bad line.
    pub on_error: OnBadLine,
    /// The longest silence of a connection; zero for no bound.
    pub idle_timeout: Duration,
    /// True if it may listen for other machines without authentication.
    pub allow_anonymous: bool,
    /// The file with the keys of the clients that may send; `None` if every client may.
    pub auth_file: Option<PathBuf>,
    /// The longest time that authentication may take.
    pub auth_timeout: Duration,
}

/// The effect of a bad line on a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBadLine {
    /// The line is skipped, and the others are committed.
    Continue,
    /// The lines before it are committed, and the connection is closed.
    Disconnect,
}

/// A key of the configuration.
pub struct Key {
    /// The name of the key.
    pub name: &'static str,
    set: fn(&mut Config, &str) -> Result<(), &'static str>,
}

/// The reason why a configuration is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No such key.
    #[error("there is no configuration key `{key}`")]
    Unknown {
        /// The key as given.
        key: String,
    },
    /// A value that the key does not accept.
    #[error("the configuration key `{key}` cannot be `{value}`: {reason}")]
    Value {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// The values that the key accepts.
        reason: &'static str,
    },
}

/// All keys (CF1).
pub const KEYS: &[Key] = &[
    Key { name: "memory.limit", set: |c, v| size(v).map(|limit| c.limit_memory(limit)) },
    Key { name: INGEST_LIMIT, set: |c, v| put(&mut c.ingest_limit, size(v)) },
    Key { name: CONNECTION_LIMIT, set: |c, v| put(&mut c.connection_limit, size(v)) },
    Key { name: "ingest.wait_timeout", set: |c, v| put(&mut c.ingest_wait, span(v)) },
    Key { name: "query.timeout", set: |c, v| put(&mut c.query.timeout, span(v)) },
    Key { name: "query.max_timeout", set: |c, v| put(&mut c.query.timeout_max, interval(v)) },
    Key { name: "query.max_concurrent", set: |c, v| put(&mut c.query.max_concurrent, number(v)) },
    Key { name: "query.queue_timeout", set: |c, v| put(&mut c.query.queue_timeout, span(v)) },
    Key {
        name: "query.memory_limit",
        set: |c, v| put(&mut c.query.memory_limit, size(v).map(Some)),
    },
    Key { name: "spill.max_bytes", set: |c, v| put(&mut c.query.spill_max, size(v)) },
    Key { name: "sql.max_fill_rows", set: |c, v| put(&mut c.query.fill_rows_max, number(v)) },
    Key { name: "durability", set: |c, v| put(&mut c.durability, durability(v)) },
    Key { name: "wal.flush_interval", set: |c, v| put(&mut c.flush_interval, interval(v)) },
    Key { name: "storage.purge_after", set: |c, v| put(&mut c.purge_after, span(v)) },
    Key { name: "storage.min_free", set: |c, v| put(&mut c.min_free, bytes_or_0(v)) },
    Key { name: "server.read_only", set: |c, v| put(&mut c.read_only, switch(v)) },
    Key { name: "log.level", set: |c, v| put(&mut c.log_levels, log_levels(v)) },
    Key { name: "server.stop_timeout", set: |c, v| put(&mut c.stop_timeout, span(v)) },
    Key { name: "http.listen", set: |c, v| put(&mut c.http.listen, listener(v)) },
    Key { name: "http.admin_listen", set: |c, v| put(&mut c.http.admin_listen, listener(v)) },
    Key { name: "http.max_connections", set: |c, v| put(&mut c.http.max_connections, number(v)) },
    Key { name: "http.max_header_bytes", set: |c, v| put(&mut c.http.max_header_bytes, bytes(v)) },
    Key { name: "http.max_sql_bytes", set: |c, v| put(&mut c.http.max_sql_bytes, bytes(v)) },
    Key { name: "http.idle_timeout", set: |c, v| put(&mut c.http.idle_timeout, span(v)) },
    Key { name: "http.head_timeout", set: |c, v| put(&mut c.http.head_timeout, span(v)) },
    Key { name: "http.body_idle_timeout", set: |c, v| put(&mut c.http.body_idle_timeout, span(v)) },
    Key { name: "http.exec_max_rows", set: |c, v| put(&mut c.http.exec_max_rows, number(v)) },
    Key { name: "http.auth", set: |c, v| put(&mut c.http.auth, auth(v)) },
    Key { name: "http.get_readonly", set: |c, v| put(&mut c.http.get_readonly, switch(v)) },
    Key { name: "http.hosts", set: |c, v| put(&mut c.http.hosts, hosts(v)) },
    Key { name: "http.cors_origins", set: |c, v| put(&mut c.http.cors_origins, origins(v)) },
    Key {
        name: "http.max_upload_bytes",
        set: |c, v| put(&mut c.http.max_upload_bytes, bytes_or_0(v)),
    },
    Key { name: "http.imp_always_200", set: |c, v| put(&mut c.http.imp_always_200, switch(v)) },
    Key { name: "copy.root", set: |c, v| put(&mut c.copy.root, folder(v)) },
    Key { name: "copy.export_root", set: |c, v| put(&mut c.copy.export_root, folder(v)) },
    Key { name: "copy.threads", set: |c, v| put(&mut c.copy.threads, threads(v)) },
    Key { name: "copy.memory_limit", set: |c, v| put(&mut c.copy.memory_limit, import_memory(v)) },
    Key { name: "copy.max_concurrent", set: |c, v| put(&mut c.copy.max_concurrent, jobs(v)) },
    Key { name: "copy.queue_limit", set: |c, v| put(&mut c.copy.queue_limit, waiting(v)) },
    Key { name: "copy.idle_timeout", set: |c, v| put(&mut c.copy.idle_timeout, span(v)) },
    Key { name: "copy.log_retention", set: |c, v| put(&mut c.copy.log_retention, retention(v)) },
    Key {
        name: "copy.reject_rows_per_job",
        set: |c, v| put(&mut c.copy.reject_rows_per_job, reject_rows(v)),
    },
    Key {
        name: "copy.reject_raw_bytes",
        set: |c, v| put(&mut c.copy.reject_raw_bytes, raw_bytes(v)),
    },
    Key { name: "ilp.create_tables", set: |c, v| put(&mut c.ilp.create_tables, switch(v)) },
    Key { name: "ilp.create_columns", set: |c, v| put(&mut c.ilp.create_columns, switch(v)) },
    Key { name: "ilp.partition_by", set: |c, v| put(&mut c.ilp.partition_by, partition(v)) },
    Key { name: "ilp.timestamp_name", set: |c, v| put(&mut c.ilp.timestamp_name, text(v)) },
    Key { name: "ilp.max_line_bytes", set: |c, v| put(&mut c.ilp.max_line_bytes, bytes(v)) },
    Key { name: "ilp.max_columns", set: |c, v| put(&mut c.ilp.max_columns, columns(v)) },
    Key { name: "ilp.integer_type", set: |c, v| put(&mut c.ilp.integer_type, integer_type(v)) },
    Key {
        name: "ilp.reject_retention",
        set: |c, v| put(&mut c.ilp.reject_retention, retention(v)),
    },
    Key { name: "ilp.reject_rate", set: |c, v| put(&mut c.ilp.reject_rate, rate(v)) },
    Key { name: "ilp.idempotency_window", set: |c, v| put(&mut c.ilp.idempotency_window, span(v)) },
    Key { name: "ilp.http.enabled", set: |c, v| put(&mut c.http.ilp_enabled, switch(v)) },
    Key { name: "ilp.http.max_body", set: |c, v| put(&mut c.http.max_ilp_body, body(v)) },
    Key { name: "ilp.tcp.listen", set: |c, v| put(&mut c.tcp.listen, listener(v)) },
    Key { name: "ilp.tcp.max_connections", set: |c, v| put(&mut c.tcp.max_connections, number(v)) },
    Key { name: "ilp.tcp.precision", set: |c, v| put(&mut c.tcp.precision, precision(v)) },
    Key { name: "ilp.tcp.commit_rows", set: |c, v| put(&mut c.tcp.commit_rows, rows(v)) },
    Key { name: "ilp.tcp.commit_interval", set: |c, v| put(&mut c.tcp.commit_interval, span(v)) },
    Key { name: "ilp.tcp.commit_retry", set: |c, v| put(&mut c.tcp.commit_retry, span(v)) },
    Key { name: "ilp.tcp.on_error", set: |c, v| put(&mut c.tcp.on_error, on_bad_line(v)) },
    Key { name: "ilp.tcp.idle_timeout", set: |c, v| put(&mut c.tcp.idle_timeout, span(v)) },
    Key { name: "ilp.tcp.allow_anonymous", set: |c, v| put(&mut c.tcp.allow_anonymous, switch(v)) },
    Key { name: "ilp.tcp.auth_file", set: |c, v| put(&mut c.tcp.auth_file, file(v)) },
    Key { name: "ilp.tcp.auth_timeout", set: |c, v| put(&mut c.tcp.auth_timeout, interval(v)) },
    Key { name: "pg.listen", set: |c, v| put(&mut c.pg.listen, listener(v)) },
    Key { name: "pg.max_connections", set: |c, v| put(&mut c.pg.max_connections, number(v)) },
    Key { name: "pg.auth_methods", set: |c, v| put(&mut c.pg.auth_methods, auth_methods(v)) },
    Key { name: "pg.startup_timeout", set: |c, v| put(&mut c.pg.startup_timeout, interval(v)) },
    Key { name: "pg.send_buffer", set: |c, v| put(&mut c.pg.send_buffer, bytes(v)) },
    Key { name: "pg.max_message", set: |c, v| put(&mut c.pg.max_message, message_bytes(v)) },
    Key {
        name: "pg.max_prepared_per_connection",
        set: |c, v| put(&mut c.pg.max_prepared, number(v)),
    },
    Key {
        name: "pg.idle_in_transaction_timeout",
        set: |c, v| put(&mut c.pg.idle_in_transaction_timeout, span(v)),
    },
    Key { name: "pg.idle_timeout", set: |c, v| put(&mut c.pg.idle_timeout, span(v)) },
    Key { name: "pg.copy_idle_timeout", set: |c, v| put(&mut c.pg.copy_idle_timeout, span(v)) },
    Key { name: "pg.send_timeout", set: |c, v| put(&mut c.pg.send_timeout, span(v)) },
    Key { name: "auth.admin_user", set: |c, v| put(&mut c.auth.admin_user, text(v)) },
    Key { name: "auth.admin_password", set: |c, v| put(&mut c.auth.admin_password, secret(v)) },
    Key { name: "auth.readonly_user", set: |c, v| put(&mut c.auth.readonly_user, text(v)) },
    Key {
        name: "auth.readonly_password",
        set: |c, v| put(&mut c.auth.readonly_password, secret(v)),
    },
    Key { name: "auth.readonly_enabled", set: |c, v| put(&mut c.auth.readonly_enabled, switch(v)) },
    Key {
        name: "auth.allow_default_password",
        set: |c, v| put(&mut c.auth.allow_default_password, switch(v)),
    },
    Key { name: "tls.mode", set: |c, v| put(&mut c.tls.mode, tls_mode(v)) },
    Key { name: "tls.cert", set: |c, v| put(&mut c.tls.cert, file(v)) },
    Key { name: "tls.key", set: |c, v| put(&mut c.tls.key, file(v)) },
    Key { name: "tls.client_ca", set: |c, v| put(&mut c.tls.client_ca, file(v)) },
];

impl Key {
    /// Returns true if its value must not be shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.name.ends_with("_password") && !self.name.contains("allow")
    }

    /// Returns the environment variable that sets it (CF1).
    #[must_use]
    pub fn variable(&self) -> String {
        format!("TIDEGATE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

impl QueryConfig {
    fn standard() -> QueryConfig {
        QueryConfig {
            timeout: Duration::from_mins(1),
            timeout_max: Duration::from_hours(24),
            max_concurrent: 0,
            queue_timeout: Duration::from_secs(10),
            memory_limit: None,
            spill_max: SPILL_MAX,
            fill_rows_max: FILL_ROWS_MAX,
        }
    }
}

impl Config {
    /// Returns the default configuration for a machine with this much memory.
    #[must_use]
    pub fn standard(machine_memory: ByteCount) -> Config {
        let memory_limit = ByteCount(machine_memory.0 / 100 * MEMORY_PERCENT);
        Config {
            http: HttpConfig {
                listen: Some(address([127, 0, 0, 1], 9000)),
                admin_listen: None,
                max_connections: 4_096,
                max_header_bytes: 64 << 10,
                max_sql_bytes: limits::SQL_BYTES,
                idle_timeout: Duration::from_mins(5),
                head_timeout: Duration::from_secs(10),
                body_idle_timeout: Duration::from_mins(1),
                exec_max_rows: 0,
                auth: Auth::Auto,
                get_readonly: true,
                hosts: Vec::new(),
                cors_origins: Vec::new(),
                max_ilp_body: 256 << 20,
                ilp_enabled: true,
                max_upload_bytes: 0,
                imp_always_200: false,
            },
            ilp: IlpConfig {
                create_tables: true,
                create_columns: true,
                partition_by: PartitionUnit::Day,
                timestamp_name: "timestamp".to_owned(),
                max_line_bytes: 4 << 20,
                max_columns: 2_048,
                integer_type: ColumnType::Int64,
                reject_retention: Some(Ttl { count: 3, unit: PartitionUnit::Day }),
                reject_rate: 100,
                idempotency_window: Duration::from_mins(10),
            },
            tcp: TcpConfig {
                listen: Some(address([127, 0, 0, 1], 9009)),
                max_connections: 4_096,
                precision: Precision::Nanos,
                commit_rows: 25_000,
                commit_interval: Duration::from_secs(1),
                commit_retry: Duration::from_secs(30),
                on_error: OnBadLine::Continue,
                idle_timeout: Duration::ZERO,
                allow_anonymous: false,
                auth_file: None,
                auth_timeout: Duration::from_secs(10),
            },
            copy: CopyConfig::standard(machine_memory),
            pg: PgConfig::standard(),
            auth: AuthConfig::standard(),
            tls: TlsConfig::standard(),
            memory_limit,
            ingest_limit: ingest_part(memory_limit),
            connection_limit: connection_part(memory_limit),
            ingest_wait: Duration::from_secs(30),
            query: QueryConfig::standard(),
            durability: Durability::Sync,
            flush_interval: Duration::from_millis(100),
            purge_after: Duration::from_hours(24),
            read_only: false,
            min_free: 5 << 30,
            log_levels: LogLevels::ALL,
            stop_timeout: Duration::from_secs(30),
            sources: BTreeMap::new(),
        }
    }

    /// Sets the memory of the whole server, and with it the shares that no key sets.
    fn limit_memory(&mut self, limit: ByteCount) {
        self.memory_limit = limit;
        if !self.sources.contains_key(INGEST_LIMIT) {
            self.ingest_limit = ingest_part(limit);
        }
        if !self.sources.contains_key(CONNECTION_LIMIT) {
            self.connection_limit = connection_part(limit);
        }
    }

    /// Returns the memory of all statements together.
    #[must_use]
    pub fn query_memory(&self) -> ByteCount {
        ByteCount(self.memory_limit.0.saturating_sub(self.ingest_limit.0))
    }

    /// Returns the memory of one statement.
    #[must_use]
    pub fn statement_memory(&self) -> ByteCount {
        let half = ByteCount(self.query_memory().0 / 2);
        self.query.memory_limit.unwrap_or(half).min(self.query_memory())
    }

    /// Returns true if a password of the administrator was set.
    pub(crate) fn has_own_password(&self) -> bool {
        self.sources.contains_key("auth.admin_password")
    }

    /// Checks keys that depend on each other.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.ingest_limit < self.memory_limit {
            return Ok(());
        }
        Err(ConfigError::Value {
            key: INGEST_LIMIT.to_owned(),
            value: self.ingest_limit.to_string(),
            reason: "it is a part of memory.limit, and queries need the rest",
        })
    }

    /// Sets a key as the command line gives it.
    ///
    /// # Errors
    /// If there is no such key, or it does not accept the value (CF2).
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        self.set_from(key, value, Source::Arguments)
    }

    /// Sets a key.
    ///
    /// # Errors
    /// As `set`.
    pub fn set_from(&mut self, key: &str, value: &str, source: Source) -> Result<(), ConfigError> {
        let Some(found) = KEYS.iter().find(|known| known.name == key) else {
            return Err(ConfigError::Unknown { key: key.to_owned() });
        };
        (found.set)(self, value).map_err(|reason| ConfigError::Value {
            key: key.to_owned(),
            value: if found.is_secret() { "(not shown)" } else { value }.to_owned(),
            reason,
        })?;
        self.sources.insert(found.name, source);
        Ok(())
    }
}

fn log_levels(value: &str) -> Result<LogLevels, &'static str> {
    LogLevels::parse(value).ok_or("it is info, warn or off, and for targets like warn,audit=info")
}

/// Parses a size, or 0.
fn bytes_or_0(value: &str) -> Result<u64, &'static str> {
    if value == "0" { Ok(0) } else { size(value).map(|size| size.0) }
}

/// Returns the share of `memory.limit` for rows that wait for their commit.
fn ingest_part(limit: ByteCount) -> ByteCount {
    ByteCount(limit.0 / 100 * INGEST_PERCENT)
}

/// Returns the share of `memory.limit` for connections.
fn connection_part(limit: ByteCount) -> ByteCount {
    ByteCount(limit.0 / 100 * CONNECTION_PERCENT)
}

fn put<T>(place: &mut T, value: Result<T, &'static str>) -> Result<(), &'static str> {
    *place = value?;
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "as all that read a value")]
fn file(value: &str) -> Result<Option<PathBuf>, &'static str> {
    Ok((value != "none").then(|| PathBuf::from(value)))
}

/// Parses a directory, which is relative to that of the database unless it is absolute.
#[expect(clippy::unnecessary_wraps, reason = "as all that read a value")]
fn folder(value: &str) -> Result<Option<PathBuf>, &'static str> {
    Ok((!matches!(value, "" | "none")).then(|| PathBuf::from(value)))
}

fn threads(value: &str) -> Result<Option<NonZeroUsize>, &'static str> {
    let count: usize = number(value)?;
    (count <= 1_024).then_some(NonZeroUsize::new(count)).ok_or("it is at most 1024; 0 for all")
}

fn import_memory(value: &str) -> Result<ByteCount, &'static str> {
    let size = size(value)?;
    (32 << 20 <= size.0).then_some(size).ok_or("an import needs 32 MiB at least")
}

fn jobs(value: &str) -> Result<NonZeroUsize, &'static str> {
    let count = number(value).ok().filter(|count| (1..=64).contains(count));
    count.and_then(NonZeroUsize::new).ok_or("it is a number from 1 to 64")
}

fn waiting(value: &str) -> Result<usize, &'static str> {
    number(value).ok().filter(|&count| count <= 10_000).ok_or("it is a number up to 10000")
}

fn reject_rows(value: &str) -> Result<usize, &'static str> {
    let count = number(value).ok().filter(|&count| count <= 1_000_000);
    count.ok_or("it is a number up to 1000000")
}

fn raw_bytes(value: &str) -> Result<usize, &'static str> {
    let count = bytes(value)?;
    (count <= 1 << 20).then_some(count).ok_or("at most 1 MiB")
}

fn bytes(value: &str) -> Result<usize, &'static str> {
    let size = size(value)?;
    usize::try_from(size.0).map_err(|_| "it is more than this machine can address")
}

/// Parses the most bytes of a body, whose rows make one record of the log.
fn body(value: &str) -> Result<usize, &'static str> {
    let size = bytes(value)?;
    let fits = size <= limits::WAL_RECORD_BYTES;
    fits.then_some(size).ok_or("at most 256 MiB: all rows of a request are one record of the log")
}

fn columns(value: &str) -> Result<usize, &'static str> {
    let count = number(value)?;
    (count <= limits::TABLE_COLUMNS).then_some(count).ok_or("a table has at most 4096 columns")
}

fn rows(value: &str) -> Result<usize, &'static str> {
    let count = number(value)?;
    (1..=4_194_304).contains(&count).then_some(count).ok_or("it is a number from 1 to 4194304")
}

fn durability(value: &str) -> Result<Durability, &'static str> {
    match value {
        "sync" => Ok(Durability::Sync),
        "async" => Ok(Durability::Async),
        _ => Err("it is sync or async"),
    }
}

fn interval(value: &str) -> Result<Duration, &'static str> {
    let interval = span(value)?;
    (!interval.is_zero()).then_some(interval).ok_or("it is a time such as 100ms, and not 0")
}

fn integer_type(value: &str) -> Result<ColumnType, &'static str> {
    match value.to_ascii_uppercase().as_str() {
        "BIGINT" | "LONG" => Ok(ColumnType::Int64),
        "INT" | "INTEGER" => Ok(ColumnType::Int32),
        "SMALLINT" | "SHORT" => Ok(ColumnType::Int16),
        "TINYINT" | "BYTE" => Ok(ColumnType::Int8),
        _ => Err("it is BIGINT, INT, SMALLINT or TINYINT"),
    }
}

/// Parses a retention as tables have it; zero for ever.
fn retention(value: &str) -> Result<Option<Ttl>, &'static str> {
    const HOUR: u64 = 3_600;
    let time = span(value)?;
    if time.is_zero() {
        return Ok(None);
    }
    let seconds = time.as_secs();
    let (unit, unit_seconds) = match seconds.is_multiple_of(24 * HOUR) {
        true => (PartitionUnit::Day, 24 * HOUR),
        false => (PartitionUnit::Hour, HOUR),
    };
    let is_whole = seconds.is_multiple_of(unit_seconds) && time.subsec_nanos() == 0;
    let count = u32::try_from(seconds / unit_seconds).ok().filter(|_| is_whole);
    let ttl = count.map(|count| Ttl { count, unit });
    ttl.map(Some).ok_or("it is a time in whole hours or days, such as 12h or 3d, or 0 for ever")
}

/// Parses a rate per second: `100`, or `100/s`.
fn rate(value: &str) -> Result<u32, &'static str> {
    number(value.strip_suffix("/s").unwrap_or(value))
}

fn precision(value: &str) -> Result<Precision, &'static str> {
    Precision::parse(value).ok_or("it is one of n, ns, u, us, ms, s, m, h")
}

fn on_bad_line(value: &str) -> Result<OnBadLine, &'static str> {
    match value {
        "continue" => Ok(OnBadLine::Continue),
        "disconnect" => Ok(OnBadLine::Disconnect),
        _ => Err("it is continue or disconnect"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn standard() -> Config {
        Config::standard(ByteCount(10 << 30))
    }

    #[test]
    fn no_two_keys_share_a_variable() {
        let variables: HashSet<String> = KEYS.iter().map(Key::variable).collect();
        assert_eq!(variables.len(), KEYS.len(), "CF1");
        assert!(variables.contains("TIDEGATE_ILP_TCP_COMMIT_ROWS"));
    }

    #[test]
    fn keys_are_set_by_their_names() {
        let mut config = standard();
        for (key, value) in [
            ("http.listen", "none"),
            ("ilp.tcp.listen", "localhost:0"),
            ("ilp.partition_by", "hour"),
            ("ilp.tcp.commit_interval", "250ms"),
            ("ilp.reject_retention", "36h"),
            ("ilp.reject_rate", "7/s"),
            ("ilp.integer_type", "int"),
            ("durability", "async"),
            ("storage.purge_after", "7d"),
            ("http.max_header_bytes", "8KiB"),
            ("ilp.create_columns", "false"),
        ] {
            config.set(key, value).unwrap();
        }
        assert_eq!(config.http.listen, None);
        assert_eq!(config.tcp.listen, Some(address([127, 0, 0, 1], 0)));
        assert_eq!(config.ilp.partition_by, PartitionUnit::Hour);
        assert_eq!(config.tcp.commit_interval, Duration::from_millis(250));
        assert_eq!(config.http.max_header_bytes, 8_192);
        assert!(!config.ilp.create_columns);
        assert_eq!(config.ilp.reject_retention, Some(Ttl { count: 36, unit: PartitionUnit::Hour }));
        assert_eq!((config.ilp.reject_rate, config.ilp.integer_type), (7, ColumnType::Int32));
        assert_eq!(config.durability, Durability::Async);
        assert_eq!(config.purge_after, Duration::from_hours(7 * 24));
    }

    #[track_caller]
    fn check_refused(key: &str, value: &str, expected: &str) {
        assert_eq!(standard().set(key, value).unwrap_err().to_string(), expected, "CF2");
    }

    #[test]
    fn what_is_not_understood_is_named() {
        check_refused("htpp.listen", "x", "there is no configuration key `htpp.listen`");
        check_refused(
            "http.listen",
            "9000",
            "the configuration key `http.listen` cannot be `9000`: it is an address and a port, \
             like 127.0.0.1:9000, or none",
        );
        check_refused(
            "ilp.http.max_body",
            "1GiB",
            "the configuration key `ilp.http.max_body` cannot be `1GiB`: at most 256 MiB: all rows \
             of a request are one record of the log",
        );
    }
}
