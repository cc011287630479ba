//! The configuration and its defaults: one struct, and one table of the keys that set and show it.
//!
//! - server_config-1. Every key is in `KEYS` once, and is set by its name or by a variable of the
//!   environment (`http.max_header_bytes` is `TIDEGATE_HTTP_MAX_HEADER_BYTES`). No two keys share a
//!   variable.
//! - server_config-2. An unknown key or value is an error that names it, and is never ignored.
//! - server_config-3. Every key accepts the text that it is shown as, and docs/server.md lists it
//!   with its default.
//!
//! Not here: reading the file, the environment and the command line (`tidegate`).

mod value;
mod security;
mod entries;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tidegate_ingest::line::Precision;
use tidegate_model::{ByteCount, ColumnType, PartitionUnit, Ttl, limits};
use tidegate_query::{FILL_ROWS_MAX, SPILL_MAX};
use tidegate_storage::Durability;

use security::{AUTH, AUTH_METHODS, HOSTS, ORIGINS, SECRET, TLS_MODE};
use value::{
    BODY, BYTES, BYTES_OR_0, COLUMNS, COMMIT_ROWS, DIRECTORY, DURABILITY, FILE, IMPORT_MEMORY,
    INTEGER_TYPE, INTERVAL, JOBS, LISTENER, LOG_LEVELS, MESSAGE, NAME, ON_BAD_LINE, PARTITION,
    PRECISION, RATE, REJECTED_TEXT, REJECTS, RETENTION, SIZE, SPAN, SWITCH, THREADS, WAITING_JOBS,
    address, number,
};

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
/// The divisor of `memory.limit` that gives the memory from which on dictionaries of SYMBOL columns
/// take no new values. Queries lose what dictionaries have, so they keep more than half.
const SYMBOL_PART: u64 = 4;
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
    /// Returns the value as `set` takes it.
    show: fn(&Config) -> String,
}

/// The reason why a configuration is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No such key.
    #[error("configuration key `{key}` does not exist")]
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

/// Makes a key of the field with its value, in a format of `value` or `security`.
macro_rules! key {
    ($name:expr, $($field:ident).+, $format:expr) => {
        Key {
            name: $name,
            set: |config, text| {
                config.$($field).+ = ($format.parse)(text)?;
                Ok(())
            },
            show: |config| ($format.show)(&config.$($field).+),
        }
    };
}

/// All keys (server_config-1).
pub const KEYS: &[Key] = &[
    Key {
        name: "memory.limit",
        set: |config, text| (SIZE.parse)(text).map(|limit| config.limit_memory(limit)),
        show: |config| (SIZE.show)(&config.memory_limit),
    },
    key!(INGEST_LIMIT, ingest_limit, SIZE),
    key!(CONNECTION_LIMIT, connection_limit, SIZE),
    key!("ingest.wait_timeout", ingest_wait, SPAN),
    key!("query.timeout", query.timeout, SPAN),
    key!("query.max_timeout", query.timeout_max, INTERVAL),
    key!("query.max_concurrent", query.max_concurrent, number()),
    key!("query.queue_timeout", query.queue_timeout, SPAN),
    Key {
        name: "query.memory_limit",
        set: |config, text| {
            config.query.memory_limit = Some((SIZE.parse)(text)?);
            Ok(())
        },
        show: |config| (SIZE.show)(&config.statement_memory()),
    },
    key!("spill.max_bytes", query.spill_max, SIZE),
    key!("sql.max_fill_rows", query.fill_rows_max, number()),
    key!("durability", durability, DURABILITY),
    key!("wal.flush_interval", flush_interval, INTERVAL),
    key!("storage.purge_after", purge_after, SPAN),
    key!("storage.min_free", min_free, BYTES_OR_0),
    key!("server.read_only", read_only, SWITCH),
    key!("log.level", log_levels, LOG_LEVELS),
    key!("server.stop_timeout", stop_timeout, SPAN),
    key!("http.listen", http.listen, LISTENER),
    key!("http.admin_listen", http.admin_listen, LISTENER),
    key!("http.max_connections", http.max_connections, number()),
    key!("http.max_header_bytes", http.max_header_bytes, BYTES),
    key!("http.max_sql_bytes", http.max_sql_bytes, BYTES),
    key!("http.idle_timeout", http.idle_timeout, SPAN),
    key!("http.head_timeout", http.head_timeout, SPAN),
    key!("http.body_idle_timeout", http.body_idle_timeout, SPAN),
    key!("http.exec_max_rows", http.exec_max_rows, number()),
    key!("http.auth", http.auth, AUTH),
    key!("http.get_readonly", http.get_readonly, SWITCH),
    key!("http.hosts", http.hosts, HOSTS),
    key!("http.cors_origins", http.cors_origins, ORIGINS),
    key!("http.max_upload_bytes", http.max_upload_bytes, BYTES_OR_0),
    key!("http.imp_always_200", http.imp_always_200, SWITCH),
    key!("copy.root", copy.root, DIRECTORY),
    key!("copy.export_root", copy.export_root, DIRECTORY),
    key!("copy.threads", copy.threads, THREADS),
    key!("copy.memory_limit", copy.memory_limit, IMPORT_MEMORY),
    key!("copy.max_concurrent", copy.max_concurrent, JOBS),
    key!("copy.queue_limit", copy.queue_limit, WAITING_JOBS),
    key!("copy.idle_timeout", copy.idle_timeout, SPAN),
    key!("copy.log_retention", copy.log_retention, RETENTION),
    key!("copy.reject_rows_per_job", copy.reject_rows_per_job, REJECTS),
    key!("copy.reject_raw_bytes", copy.reject_raw_bytes, REJECTED_TEXT),
    key!("ilp.create_tables", ilp.create_tables, SWITCH),
    key!("ilp.create_columns", ilp.create_columns, SWITCH),
    key!("ilp.partition_by", ilp.partition_by, PARTITION),
    key!("ilp.timestamp_name", ilp.timestamp_name, NAME),
    key!("ilp.max_line_bytes", ilp.max_line_bytes, BYTES),
    key!("ilp.max_columns", ilp.max_columns, COLUMNS),
    key!("ilp.integer_type", ilp.integer_type, INTEGER_TYPE),
    key!("ilp.reject_retention", ilp.reject_retention, RETENTION),
    key!("ilp.reject_rate", ilp.reject_rate, RATE),
    key!("ilp.idempotency_window", ilp.idempotency_window, SPAN),
    key!("ilp.http.enabled", http.ilp_enabled, SWITCH),
    key!("ilp.http.max_body", http.max_ilp_body, BODY),
    key!("ilp.tcp.listen", tcp.listen, LISTENER),
    key!("ilp.tcp.max_connections", tcp.max_connections, number()),
    key!("ilp.tcp.precision", tcp.precision, PRECISION),
    key!("ilp.tcp.commit_rows", tcp.commit_rows, COMMIT_ROWS),
    key!("ilp.tcp.commit_interval", tcp.commit_interval, SPAN),
    key!("ilp.tcp.commit_retry", tcp.commit_retry, SPAN),
    key!("ilp.tcp.on_error", tcp.on_error, ON_BAD_LINE),
    key!("ilp.tcp.idle_timeout", tcp.idle_timeout, SPAN),
    key!("ilp.tcp.allow_anonymous", tcp.allow_anonymous, SWITCH),
    key!("ilp.tcp.auth_file", tcp.auth_file, FILE),
    key!("ilp.tcp.auth_timeout", tcp.auth_timeout, INTERVAL),
    key!("pg.listen", pg.listen, LISTENER),
    key!("pg.max_connections", pg.max_connections, number()),
    key!("pg.auth_methods", pg.auth_methods, AUTH_METHODS),
    key!("pg.startup_timeout", pg.startup_timeout, INTERVAL),
    key!("pg.send_buffer", pg.send_buffer, BYTES),
    key!("pg.max_message", pg.max_message, MESSAGE),
    key!("pg.max_prepared_per_connection", pg.max_prepared, number()),
    key!("pg.idle_in_transaction_timeout", pg.idle_in_transaction_timeout, SPAN),
    key!("pg.idle_timeout", pg.idle_timeout, SPAN),
    key!("pg.copy_idle_timeout", pg.copy_idle_timeout, SPAN),
    key!("pg.send_timeout", pg.send_timeout, SPAN),
    key!("auth.admin_user", auth.admin_user, NAME),
    key!("auth.admin_password", auth.admin_password, SECRET),
    key!("auth.readonly_user", auth.readonly_user, NAME),
    key!("auth.readonly_password", auth.readonly_password, SECRET),
    key!("auth.readonly_enabled", auth.readonly_enabled, SWITCH),
    key!("auth.allow_default_password", auth.allow_default_password, SWITCH),
    key!("tls.mode", tls.mode, TLS_MODE),
    key!("tls.cert", tls.cert, FILE),
    key!("tls.key", tls.key, FILE),
    key!("tls.client_ca", tls.client_ca, FILE),
];

impl Key {
    /// Returns true if its value must not be shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.name.ends_with("_password") && !self.name.contains("allow")
    }

    /// Returns the environment variable that sets it (server_config-1).
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

    /// Returns the memory of the dictionaries of SYMBOL columns, beyond which commits with new
    /// values fail.
    #[must_use]
    pub fn symbol_memory(&self) -> ByteCount {
        ByteCount(self.memory_limit.0 / SYMBOL_PART)
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
    /// If there is no such key, or it does not accept the value (server_config-2).
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

/// Returns the share of `memory.limit` for rows that wait for their commit.
fn ingest_part(limit: ByteCount) -> ByteCount {
    ByteCount(limit.0 / 100 * INGEST_PERCENT)
}

/// Returns the share of `memory.limit` for connections.
fn connection_part(limit: ByteCount) -> ByteCount {
    ByteCount(limit.0 / 100 * CONNECTION_PERCENT)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn standard() -> Config {
        Config::standard(ByteCount(10 << 30))
    }

    #[test]
    fn no_two_keys_share_a_variable() {
        let variables: HashSet<String> = KEYS.iter().map(Key::variable).collect();
        assert_eq!(variables.len(), KEYS.len(), "server_config-1");
        assert!(variables.contains("TIDEGATE_ILP_TCP_COMMIT_ROWS"));
    }

    #[test]
    fn every_key_takes_the_text_that_it_is_shown_as() {
        let mut config = Config::standard(ByteCount(12_345_678_901));
        for key in KEYS {
            let value = (key.show)(&config);
            config.set_from(key.name, &value, Source::Environment).expect(key.name);
            assert_eq!((key.show)(&config), value, "server_config-3: {}", key.name);
        }
    }

    #[test]
    fn the_manual_lists_all_keys_with_their_defaults() {
        let manual = include_str!("../../../docs/server.md");
        let cells = manual
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
        let pairs = cells.flat_map(|cells| {
            let of = |at: usize| Some((*cells.get(at)?, *cells.get(at + 1)?));
            [of(0), of(3)].into_iter().flatten().collect::<Vec<_>>()
        });
        let keys = pairs.flat_map(|(keys, value)| {
            let names = keys.split(", ").filter_map(|key| key.strip_prefix('`')?.strip_suffix('`'));
            names.map(|name| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
        });
        let listed: HashMap<String, String> = keys.collect();
        let config = standard();
        for key in KEYS {
            let text =
                listed.get(key.name).unwrap_or_else(|| panic!("server_config-3: {}", key.name));
            let shown = (key.show)(&config);
            // A default that depends on the machine is described in words.
            let default = match text.strip_prefix('`') {
                Some(quoted) => quoted.split('`').next(),
                None => text.split([';', ':', ',', ' ']).next(),
            };
            let is_computed = key.name.contains("memory");
            let is_same = default.is_some_and(|default| {
                let mut read = standard();
                let default = if default == "none" && shown.is_empty() { "" } else { default };
                (key.set)(&mut read, default).is_ok() && (key.show)(&read) == shown
            });
            assert!(is_computed || is_same, "server_config-3: {} is {shown}, and {text}", key.name);
        }
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
        assert_eq!(
            standard().set(key, value).unwrap_err().to_string(),
            expected,
            "server_config-2"
        );
    }

    #[test]
    fn unknown_keys_and_bad_values_are_named() {
        check_refused("htpp.listen", "x", "configuration key `htpp.listen` does not exist");
        check_refused(
            "http.listen",
            "9000",
            "the configuration key `http.listen` cannot be `9000`: expected an address and a port, \
             like 127.0.0.1:9000, or none",
        );
        check_refused(
            "ilp.http.max_body",
            "1GiB",
            "the configuration key `ilp.http.max_body` cannot be `1GiB`: at most 256 MiB: all rows \
             of a request are one record of the log",
        );
    }

    #[test]
    fn a_bad_value_is_answered_with_those_that_its_key_takes() {
        for (key, values, expected) in [
            ("pg.max_connections", &["-1", "x", "1.5", ""][..], "a whole number"),
            ("http.exec_max_rows", &["-1", "x"], "a whole number"),
            ("pg.max_message", &["1XB", "x"], "a size such as 512MiB or 2GiB"),
            ("pg.max_message", &["1", "2GiB"], "a size from 1KiB to 1GiB"),
            ("pg.idle_timeout", &["x", "-1s"], "a time such as 500ms, 5s, 2m, 1h or 3d"),
            ("query.timeout", &["x", "-1s"], "a time such as 500ms, 5s, 2m, 1h or 3d"),
            ("pg.auth_methods", &["", "x"], "a list of scram-sha-256, password and trust"),
            ("http.auth", &["x", ""], "auto, required or off"),
            ("ilp.http.enabled", &["maybe", "2"], "true or false"),
            ("auth.readonly_enabled", &["maybe", "2"], "true or false"),
        ] {
            for value in values {
                let expected = format!(
                    "the configuration key `{key}` cannot be `{value}`: expected {expected}"
                );
                check_refused(key, value, &expected);
            }
        }
    }
}
