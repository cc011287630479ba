//! The configuration as `SHOW PARAMETERS` lists it: the value of each key and its source.
//!
//! - entries-1. Every key of `KEYS` is here once, and accepts the text that it is shown as.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_ingest::line::Precision;
use tidegate_model::{PartitionUnit, Ttl};
use tidegate_query::ConfigEntry;
use tidegate_storage::Durability;

use super::{Config, KEYS, Key, OnBadLine};

/// The source of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File,
    /// A variable of the environment.
    Environment,
    /// The command line.
    Arguments,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Environment => "env",
            Source::Arguments => "command line",
        }
    }
}

impl Config {
    /// Returns all keys with their values, as `SHOW PARAMETERS` lists them.
    #[must_use]
    pub fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &Key| ConfigEntry {
            property_path: key.name.to_owned(),
            env_var_name: Some(key.variable()),
            value: self.value(key.name).expect("entries-1"),
            value_source: self.sources.get(key.name).map_or("default", |source| source.name()),
            is_sensitive: key.is_secret(),
            is_reloadable: key.name == "log.level",
        };
        KEYS.iter().map(entry).collect()
    }

    /// Returns the value of a key.
    fn value(&self, key: &str) -> Option<String> {
        let (http, ilp, tcp) = (&self.http, &self.ilp, &self.tcp);
        Some(match key {
            "memory.limit" => size(self.memory_limit.0),
            "memory.ingest_limit" => size(self.ingest_limit.0),
            "memory.connection_limit" => size(self.connection_limit.0),
            "ingest.wait_timeout" => span(self.ingest_wait),
            "durability" => match self.durability {
                Durability::Sync => "sync".to_owned(),
                Durability::Async => "async".to_owned(),
            },
            "wal.flush_interval" => span(self.flush_interval),
            "storage.purge_after" => span(self.purge_after),
            "storage.min_free" => size(self.min_free),
            "server.read_only" => self.read_only.to_string(),
            "log.level" => self.log_levels.to_string(),
            "server.stop_timeout" => span(self.stop_timeout),
            "http.listen" => listener(http.listen),
            "http.admin_listen" => listener(http.admin_listen),
            "http.max_connections" => http.max_connections.to_string(),
            "http.max_header_bytes" => bytes(http.max_header_bytes),
            "http.max_sql_bytes" => bytes(http.max_sql_bytes),
            "http.idle_timeout" => span(http.idle_timeout),
            "http.head_timeout" => span(http.head_timeout),
            "http.body_idle_timeout" => span(http.body_idle_timeout),
            "http.exec_max_rows" => http.exec_max_rows.to_string(),
            "http.max_upload_bytes" => size(http.max_upload_bytes),
            "http.imp_always_200" => http.imp_always_200.to_string(),
            "copy.root" => folder(self.copy.root.as_deref()),
            "copy.export_root" => folder(self.copy.export_root.as_deref()),
            "copy.threads" => self.copy.threads.map_or(0, NonZeroUsize::get).to_string(),
            "copy.memory_limit" => size(self.copy.memory_limit.0),
            "copy.max_concurrent" => self.copy.max_concurrent.to_string(),
            "copy.queue_limit" => self.copy.queue_limit.to_string(),
            "copy.idle_timeout" => span(self.copy.idle_timeout),
            "copy.log_retention" => retention(self.copy.log_retention),
            "copy.reject_rows_per_job" => self.copy.reject_rows_per_job.to_string(),
            "copy.reject_raw_bytes" => bytes(self.copy.reject_raw_bytes),
            "ilp.create_tables" => ilp.create_tables.to_string(),
            "ilp.create_columns" => ilp.create_columns.to_string(),
            "ilp.partition_by" => ilp.partition_by.sql().to_owned(),
            "ilp.timestamp_name" => ilp.timestamp_name.clone(),
            "ilp.max_line_bytes" => bytes(ilp.max_line_bytes),
            "ilp.max_columns" => ilp.max_columns.to_string(),
            "ilp.integer_type" => ilp.integer_type.sql(),
            "ilp.reject_retention" => retention(ilp.reject_retention),
            "ilp.idempotency_window" => span(ilp.idempotency_window),
            "ilp.reject_rate" => ilp.reject_rate.to_string(),
            "ilp.http.enabled" => http.ilp_enabled.to_string(),
            "ilp.http.max_body" => bytes(http.max_ilp_body),
            "ilp.tcp.listen" => listener(tcp.listen),
            "ilp.tcp.max_connections" => tcp.max_connections.to_string(),
            "ilp.tcp.precision" => precision(tcp.precision).to_owned(),
            "ilp.tcp.commit_rows" => tcp.commit_rows.to_string(),
            "ilp.tcp.commit_interval" => span(tcp.commit_interval),
            "ilp.tcp.commit_retry" => span(tcp.commit_retry),
            "ilp.tcp.on_error" => match tcp.on_error {
                OnBadLine::Continue => "continue".to_owned(),
                OnBadLine::Disconnect => "disconnect".to_owned(),
            },
            "ilp.tcp.idle_timeout" => span(tcp.idle_timeout),
            "ilp.tcp.allow_anonymous" => tcp.allow_anonymous.to_string(),
            "ilp.tcp.auth_file" => match &tcp.auth_file {
                Some(path) => path.display().to_string(),
                None => "none".to_owned(),
            },
            "ilp.tcp.auth_timeout" => span(tcp.auth_timeout),
            _ => return self.query_value(key).or_else(|| self.security_value(key)),
        })
    }

    /// Returns the value of a key that limits statements.
    fn query_value(&self, key: &str) -> Option<String> {
        let query = &self.query;
        Some(match key {
            "query.timeout" => span(query.timeout),
            "query.max_timeout" => span(query.timeout_max),
            "query.max_concurrent" => query.max_concurrent.to_string(),
            "query.queue_timeout" => span(query.queue_timeout),
            "query.memory_limit" => size(self.statement_memory().0),
            "spill.max_bytes" => size(query.spill_max.0),
            "sql.max_fill_rows" => query.fill_rows_max.to_string(),
            _ => return None,
        })
    }

    /// Returns the value of a key of PostgreSQL's protocol, authentication or TLS.
    fn security_value(&self, key: &str) -> Option<String> {
        let (pg, auth, tls) = (&self.pg, &self.auth, &self.tls);
        let file = |path: &Option<PathBuf>| match path {
            Some(path) => path.display().to_string(),
            None => "none".to_owned(),
        };
        Some(match key {
            "http.auth" => self.http.auth.name().to_owned(),
            "http.get_readonly" => self.http.get_readonly.to_string(),
            "http.cors_origins" => self.http.cors_origins.join(","),
            "http.hosts" => self.http.hosts.join(","),
            "pg.listen" => listener(pg.listen),
            "pg.max_connections" => pg.max_connections.to_string(),
            "pg.auth_methods" => {
                let names = pg.auth_methods.iter().map(|method| method.name());
                names.collect::<Vec<_>>().join(",")
            }
            "pg.startup_timeout" => span(pg.startup_timeout),
            "pg.send_buffer" => bytes(pg.send_buffer),
            "pg.max_message" => bytes(pg.max_message),
            "pg.max_prepared_per_connection" => pg.max_prepared.to_string(),
            "pg.idle_in_transaction_timeout" => span(pg.idle_in_transaction_timeout),
            "pg.idle_timeout" => span(pg.idle_timeout),
            "pg.copy_idle_timeout" => span(pg.copy_idle_timeout),
            "pg.send_timeout" => span(pg.send_timeout),
            "auth.admin_user" => auth.admin_user.clone(),
            "auth.admin_password" => auth.admin_password.0.clone(),
            "auth.readonly_user" => auth.readonly_user.clone(),
            "auth.readonly_password" => auth.readonly_password.0.clone(),
            "auth.readonly_enabled" => auth.readonly_enabled.to_string(),
            "auth.allow_default_password" => auth.allow_default_password.to_string(),
            "tls.mode" => tls.mode.name().to_owned(),
            "tls.cert" => file(&tls.cert),
            "tls.key" => file(&tls.key),
            "tls.client_ca" => file(&tls.client_ca),
            _ => return None,
        })
    }
}

fn retention(ttl: Option<Ttl>) -> String {
    match ttl {
        Some(Ttl { count, unit: PartitionUnit::Day }) => format!("{count}d"),
        Some(Ttl { count, .. }) => format!("{count}h"),
        None => "0".to_owned(),
    }
}

fn folder(path: Option<&Path>) -> String {
    path.map_or("none".to_owned(), |path| path.display().to_string())
}

fn listener(address: Option<SocketAddr>) -> String {
    address.map_or("none".to_owned(), |address| address.to_string())
}

fn bytes(count: usize) -> String {
    size(count as u64)
}

/// Formats a size in the largest unit of which it is a whole number.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, worth)| bytes != 0 && bytes.is_multiple_of(*worth));
    unit.map_or(bytes.to_string(), |(name, worth)| format!("{}{name}", bytes / worth))
}

/// Formats a time in the largest unit of which it is a whole number.
fn span(time: Duration) -> String {
    const UNITS: [(&str, u128); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    let millis = time.as_millis();
    let unit = UNITS.iter().find(|(_, worth)| millis != 0 && millis.is_multiple_of(*worth));
    unit.map_or("0".to_owned(), |(name, worth)| format!("{}{name}", millis / worth))
}

fn precision(precision: Precision) -> &'static str {
    match precision {
        Precision::Nanos => "ns",
        Precision::Micros => "us",
        Precision::Millis => "ms",
        Precision::Seconds => "s",
        Precision::Minutes => "m",
        Precision::Hours => "h",
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::ByteCount;

    use super::*;

    #[test]
    fn every_key_takes_what_it_is_shown_as() {
        let mut config = Config::standard(ByteCount(12_345_678_901));
        for key in KEYS {
            let value = config.value(key.name).expect(key.name);
            config.set_from(key.name, &value, Source::Environment).expect(key.name);
            assert_eq!(config.value(key.name).as_ref(), Some(&value), "entries-1: {}", key.name);
        }
    }

    #[test]
    fn who_has_said_so_is_shown() {
        let mut config = Config::standard(ByteCount(10 << 30));
        config.set("ilp.tcp.commit_interval", "1500ms").unwrap();
        config.set_from("http.max_header_bytes", "8192", Source::Environment).unwrap();
        let entries = config.entries();
        let value_and_source = |name: &str| {
            let entry = entries.iter().find(|entry| entry.property_path == name).unwrap();
            (entry.value.as_str(), entry.value_source)
        };
        assert_eq!(value_and_source("ilp.tcp.commit_interval"), ("1500ms", "command line"));
        assert_eq!(value_and_source("http.max_header_bytes"), ("8KiB", "env"));
        assert_eq!(value_and_source("http.idle_timeout"), ("5m", "default"));
        assert_eq!(value_and_source("ilp.tcp.idle_timeout"), ("0", "default"));
        assert_eq!(value_and_source("http.admin_listen"), ("none", "default"));
    }
}
