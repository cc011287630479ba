//! What can be configured, with its defaults: one struct, and one table of keys that fill it.
//!
//! - CF1. Every key is in `KEYS` once, and is set by its name or by a variable of the environment
//!   (`http.max_header_bytes` is `TIDEGATE_HTTP_MAX_HEADER_BYTES`). No two keys share a variable.
//! - CF2. What is not understood is an error that names it, and never ignored.
//!
//! Not here: reading the file, the environment and the command line (`tidegate`).

mod value;
mod secure;
mod shown;

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

use secure::{auth, auth_methods, hosts, message_bytes, origins, secret, tls_mode};
use value::{address, listener, number, partition, size, span, switch, text};

use crate::copy::CopyConfig;
use crate::log::LogLevels;

pub use secure::{AuthConfig, AuthMethod, PgConfig, Secret, TlsConfig, TlsMode};
pub use shown::Source;

/// The part of the machine's memory that all of it may use, in percent.
const MEMORY_PERCENT: u64 = 70;
/// The part of that which rows on their way in may use.
const INGEST_PERCENT: u64 = 20;
/// The part of it that connections may hold, in percent: a few of the largest messages on a small
/// machine.
const CONNECTION_PERCENT: u64 = 10;
/// The key of the part of rows on their way in.
const INGEST_LIMIT: &str = "memory.ingest_limit";
/// The key of the part of connections.
const CONNECTION_LIMIT: &str = "memory.connection_limit";

/// What a server does and what it may use.
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
    /// Bytes of memory of all that is done.
    pub memory_limit: ByteCount,
    /// Those of rows that were received and are not committed.
    pub ingest_limit: ByteCount,
    /// Those of messages, bodies, statements and values that connections hold.
    pub connection_limit: ByteCount,
    /// How long a writer waits for memory before it is told to come again.
    pub ingest_wait: Duration,
    /// Statements.
    pub query: QueryConfig,
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// How long a commit may be acknowledged and not on disk, with `Durability::Async`.
    pub flush_interval: Duration,
    /// How long rows that were removed or replaced may stay in files.
    pub purge_after: Duration,
    /// Whether nobody may change anything.
    pub read_only: bool,
    /// With less room on the disk of the database, and less than a twentieth of it, the server is
    /// not ready; 0 for never.
    pub min_free: u64,
    /// Which lines of the log are written.
    pub log_levels: LogLevels,
    /// How long statements may work on when the server is to stop.
    pub stop_timeout: Duration,
    /// Who has set the keys that are not as they are by default.
    sources: BTreeMap<&'static str, Source>,
}

/// `query....`, and what else bounds statements.
#[derive(Clone, Debug)]
pub struct QueryConfig {
    /// How long a statement may work.
    pub timeout: Duration,
    /// How long it may, whatever its client says.
    pub timeout_max: Duration,
    /// Statements that work at the same time; 0 for four for each thread of the engine.
    pub max_concurrent: usize,
    /// How long one waits for its turn.
    pub queue_timeout: Duration,
    /// Memory of one statement; `None` for half of that of all.
    pub memory_limit: Option<ByteCount>,
    /// Bytes on disk of what all have spilled.
    pub spill_max: ByteCount,
    /// Rows that a FILL may make.
    pub fill_rows_max: u64,
}

/// `http....`.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Where it listens; `None` for nowhere.
    pub listen: Option<SocketAddr>,
    /// Where health and metrics are besides.
    pub admin_listen: Option<SocketAddr>,
    /// Connections at a time.
    pub max_connections: usize,
    /// Bytes of a request's head.
    pub max_header_bytes: usize,
    /// Bytes of a statement.
    pub max_sql_bytes: usize,
    /// How long a connection may be silent between requests.
    pub idle_timeout: Duration,
    /// How long a head may take from its first byte to its last.
    pub head_timeout: Duration,
    /// How long a body may be silent.
    pub body_idle_timeout: Duration,
    /// Rows of an answer; 0 for all.
    pub exec_max_rows: u64,
    /// When a login is needed.
    pub auth: Auth,
    /// True if no GET changes anything; otherwise only one of a browser changes nothing.
    pub get_readonly: bool,
    /// Names of this server, besides those of this machine.
    pub hosts: Vec<String>,
    /// Pages of other places that may send requests: `https://grafana.example`.
    pub cors_origins: Vec<String>,
    /// Bytes of a body of line protocol, decompressed.
    pub max_ilp_body: usize,
    /// Whether the line protocol is taken.
    pub ilp_enabled: bool,
    /// Bytes of an upload, as it comes; 0 for any number.
    pub max_upload_bytes: u64,
    /// Whether an upload that failed is answered with 200, as scripts for QuestDB expect.
    pub imp_always_200: bool,
}

/// When a request over HTTP needs a login.
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

/// `ilp....`.
#[derive(Clone, Debug)]
pub struct IlpConfig {
    /// Whether tables that are missing are made.
    pub create_tables: bool,
    /// Whether columns that are missing are added.
    pub create_columns: bool,
    /// How such tables are partitioned.
    pub partition_by: PartitionUnit,
    /// What their designated timestamp is called.
    pub timestamp_name: String,
    /// Bytes of a line.
    pub max_line_bytes: usize,
    /// Columns of a table, as far as lines add them.
    pub max_columns: usize,
    /// What integers without a column make: BIGINT, or a smaller one.
    pub integer_type: ColumnType,
    /// How long rows of `sys.ilp_rejects` are kept; `None` for ever.
    pub reject_retention: Option<Ttl>,
    /// Rows in `sys.ilp_rejects` for each connection and second.
    pub reject_rate: u32,
    /// How long the answer to a request that has a name is remembered.
    pub idempotency_window: Duration,
}

/// `ilp.tcp....`.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Where it listens; `None` for nowhere.
    pub listen: Option<SocketAddr>,
    /// Connections at a time.
    pub max_connections: usize,
    /// What timestamps without a suffix count.
    pub precision: Precision,
    /// Rows of a connection after which they are committed.
    pub commit_rows: usize,
    /// How long a row waits at most.
    pub commit_interval: Duration,
    /// How long a commit that failed is tried again.
    pub commit_retry: Duration,
    /// What a bad line does.
    pub on_error: OnBadLine,
    /// How long a connection may be silent; zero for ever.
    pub idle_timeout: Duration,
    /// Whether it may listen for other machines, although nobody is asked who he is.
    pub allow_anonymous: bool,
    /// The file with the keys of those who may send; without it everybody may.
    pub auth_file: Option<PathBuf>,
    /// How long a client may take to say who it is.
    pub auth_timeout: Duration,
}

/// What a bad line does to a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBadLine {
    /// It is left out, and the others go in.
    Continue,
    /// The lines before it go in, and the connection ends.
    Disconnect,
}

/// A key of the configuration.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    set: fn(&mut Config, &str) -> Result<(), &'static str>,
}

/// What is wrong with a configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No such key.
    #[error("there is no configuration key `{key}`")]
    Unknown {
        /// As it was given.
        key: String,
    },
    /// A value that the key does not take.
    #[error("the configuration key `{key}` cannot be `{value}`: {reason}")]
    Value {
        /// Which key.
        key: String,
        /// As it was given.
        value: String,
        /// What it takes.
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
    /// True if its value is shown nowhere.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.name.ends_with("_password") && !self.name.contains("allow")
    }

    /// The variable of the environment that sets it (CF1).
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
    /// The configuration of the product on a machine with so much memory.
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

    /// Sets what all may use, and with it the parts that no key sets.
    fn limit_memory(&mut self, limit: ByteCount) {
        self.memory_limit = limit;
        if !self.sources.contains_key(INGEST_LIMIT) {
            self.ingest_limit = ingest_part(limit);
        }
        if !self.sources.contains_key(CONNECTION_LIMIT) {
            self.connection_limit = connection_part(limit);
        }
    }

    /// Memory of all statements together.
    #[must_use]
    pub fn query_memory(&self) -> ByteCount {
        ByteCount(self.memory_limit.0.saturating_sub(self.ingest_limit.0))
    }

    /// And of one of them.
    #[must_use]
    pub fn statement_memory(&self) -> ByteCount {
        let half = ByteCount(self.query_memory().0 / 2);
        self.query.memory_limit.unwrap_or(half).min(self.query_memory())
    }

    /// True if a password of the administrator was given.
    pub(crate) fn has_own_password(&self) -> bool {
        self.sources.contains_key("auth.admin_password")
    }

    /// Looks at what keys say together.
    ///
    /// # Errors
    /// If that makes no sense.
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

    /// Sets a key, as the command line says it.
    ///
    /// # Errors
    /// If there is no such key, or it does not take the value (CF2).
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

/// A size, or 0.
fn bytes_or_0(value: &str) -> Result<u64, &'static str> {
    if value == "0" { Ok(0) } else { size(value).map(|size| size.0) }
}

/// The part of all memory that rows on their way in may use.
fn ingest_part(limit: ByteCount) -> ByteCount {
    ByteCount(limit.0 / 100 * INGEST_PERCENT)
}

/// The part of all memory that connections may hold.
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

/// Below the database's own folder, unless it is absolute.
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

/// A body's rows make one record of the log.
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

/// How long rows are kept, as tables know it; zero for ever.
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

/// So many a second: `100`, or `100/s`.
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
