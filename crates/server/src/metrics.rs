//! Metrics of the server, in Prometheus' text format (docs/server.md has a list).
//!
//! - Updating a metric costs one atomic addition; only those with a label of many values take a
//!   lock, and their values are constants of the program, so their number is bounded.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The upper bounds of the buckets of a histogram of times, in nanoseconds.
const BOUNDS: [u64; 14] = [
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
    60_000_000_000,
];

/// The kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Tcp,
    Pg,
    /// The listener for health and metrics alone.
    Admin,
}

impl Transport {
    const ALL: [Transport; 4] = [Transport::Http, Transport::Tcp, Transport::Pg, Transport::Admin];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Tcp => "tcp",
            Transport::Pg => "pg",
            Transport::Admin => "admin",
        }
    }
}

/// A number that only rises.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn add(&self, count: i64) -> i64 {
        self.0.fetch_add(count, Relaxed) + count
    }

    pub(crate) fn sub(&self, count: i64) {
        self.0.fetch_sub(count, Relaxed);
    }

    pub(crate) fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// A histogram of times.
#[derive(Debug, Default)]
pub(crate) struct Times {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Times {
    pub(crate) fn record(&self, nanos: u64) {
        let bucket = BOUNDS.partition_point(|&bound| bound < nanos);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    fn write(&self, name: &str, labels: &str, text: &mut String) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut total = 0;
        for (position, bucket) in self.buckets.iter().enumerate() {
            total += bucket.load(Relaxed);
            let bound = BOUNDS.get(position).map_or("+Inf".to_owned(), |&nanos| seconds(nanos));
            line(text, &format!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}"));
        }
        let sum = seconds(self.nanos.load(Relaxed));
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        line(text, &format!("{name}_sum{labels} {sum}"));
        line(text, &format!("{name}_count{labels} {total}"));
    }
}

/// The metrics of the line protocol, for each transport.
#[derive(Debug, Default)]
pub(crate) struct LineMetrics {
    pub(crate) connections: Gauge,
    pub(crate) connections_rejected: Counter,
    pub(crate) bytes: Counter,
    pub(crate) lines: Counter,
    pub(crate) rows: Counter,
    pub(crate) commits: Counter,
    pub(crate) commit_errors: Counter,
    pub(crate) commit_times: Times,
    /// The nanoseconds in which nothing was read because memory or the disk was busy.
    pub(crate) paused_nanos: Counter,
}

/// All metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    http: LineMetrics,
    tcp: LineMetrics,
    pg: LineMetrics,
    admin: LineMetrics,
    rejects: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    pub(crate) queries_running: Gauge,
    queries: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    query_times: Times,
    pub(crate) maintenance_errors: Counter,
    pub(crate) auth_failures: Counter,
    pub(crate) foreign_protocols: Counter,
}

/// A metric that is computed when it is read.
pub(crate) struct ComputedMetric {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) value: f64,
}

impl Metrics {
    pub(crate) fn of(&self, transport: Transport) -> &LineMetrics {
        match transport {
            Transport::Http => &self.http,
            Transport::Tcp => &self.tcp,
            Transport::Pg => &self.pg,
            Transport::Admin => &self.admin,
        }
    }

    /// Counts rejected lines of this reason.
    pub(crate) fn rejected(&self, transport: Transport, reason: &'static str, count: u64) {
        let mut rejects = self.rejects.lock().unwrap_or_else(PoisonError::into_inner);
        *rejects.entry((transport.name(), reason)).or_default() += count;
    }

    /// Counts a statement that has ended with this SQLSTATE.
    pub(crate) fn query_done(&self, protocol: &'static str, code: &'static str, nanos: u64) {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        *queries.entry((protocol, code)).or_default() += 1;
        drop(queries);
        self.query_times.record(nanos);
    }

    /// Formats all metrics, and those computed at this moment.
    pub(crate) fn text(&self, now: &[ComputedMetric]) -> String {
        let mut text = String::new();
        head(&mut text, "tidegate_build_info", "gauge", "What is running.");
        line(
            &mut text,
            concat!("tidegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        );
        self.write_lines(&mut text);
        head(&mut text, "tidegate_ilp_rejects_total", "counter", "Lines that were rejected.");
        let rejects = self.rejects.lock().unwrap_or_else(PoisonError::into_inner);
        for ((transport, reason), count) in rejects.iter() {
            let labels = format!("{{protocol=\"{transport}\",reason=\"{reason}\"}}");
            line(&mut text, &format!("tidegate_ilp_rejects_total{labels} {count}"));
        }
        drop(rejects);
        self.write_queries(&mut text);
        for (name, help, counter) in [
            ("maintenance_errors_total", "Failed maintenance work.", &self.maintenance_errors),
            ("auth_failures_total", "Logins that failed.", &self.auth_failures),
            (
                "ilp_foreign_protocols_total",
                "Connections for lines that spoke HTTP, TLS or another protocol.",
                &self.foreign_protocols,
            ),
        ] {
            let name = format!("tidegate_{name}");
            head(&mut text, &name, "counter", help);
            line(&mut text, &format!("{name} {}", counter.0.load(Relaxed)));
        }
        for ComputedMetric { name, help, value } in now {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            head(&mut text, name, kind, help);
            line(&mut text, &format!("{name} {value}"));
        }
        text
    }

    fn write_lines(&self, text: &mut String) {
        type Value = fn(&LineMetrics) -> u64;
        let counters: [(&str, &str, Value); 6] = [
            ("connections_rejected_total", "Connections that were refused at the limit.", |line| {
                line.connections_rejected.0.load(Relaxed)
            }),
            ("ilp_bytes_total", "Bytes of line protocol.", |line| line.bytes.0.load(Relaxed)),
            ("ilp_lines_total", "Lines that were read.", |line| line.lines.0.load(Relaxed)),
            ("rows_written_total", "Rows that were committed.", |line| line.rows.0.load(Relaxed)),
            ("commits_total", "Commits.", |line| line.commits.0.load(Relaxed)),
            ("commit_errors_total", "Commits that failed.", |line| {
                line.commit_errors.0.load(Relaxed)
            }),
        ];
        for (name, help, value) in counters {
            let name = format!("tidegate_{name}");
            head(text, &name, "counter", help);
            for transport in Transport::ALL {
                let value = value(self.of(transport));
                line(text, &format!("{name}{{protocol=\"{}\"}} {value}", transport.name()));
            }
        }
        let name = "tidegate_ilp_paused_seconds_total";
        head(text, name, "counter", "Time of waiting for memory or disk.");
        for transport in Transport::ALL {
            let value = seconds(self.of(transport).paused_nanos.0.load(Relaxed));
            line(text, &format!("{name}{{protocol=\"{}\"}} {value}", transport.name()));
        }
        let name = "tidegate_connections";
        head(text, name, "gauge", "Connections that are open.");
        for transport in Transport::ALL {
            let value = self.of(transport).connections.value();
            line(text, &format!("{name}{{protocol=\"{}\"}} {value}", transport.name()));
        }
        let name = "tidegate_commit_seconds";
        head(text, name, "histogram", "From the last byte of rows to their commit.");
        for transport in Transport::ALL {
            let labels = format!("protocol=\"{}\"", transport.name());
            self.of(transport).commit_times.write(name, &labels, text);
        }
    }

    fn write_queries(&self, text: &mut String) {
        head(text, "tidegate_queries_total", "counter", "Statements, by SQLSTATE.");
        let queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        for ((protocol, code), count) in queries.iter() {
            let labels = format!("{{protocol=\"{protocol}\",code=\"{code}\"}}");
            line(text, &format!("tidegate_queries_total{labels} {count}"));
        }
        drop(queries);
        head(text, "tidegate_queries_running", "gauge", "Statements that are being answered.");
        line(text, &format!("tidegate_queries_running {}", self.queries_running.value()));
        let name = "tidegate_query_seconds";
        head(text, name, "histogram", "From a statement to the end of its answer.");
        self.query_times.write(name, "", text);
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, &format!("# HELP {name} {help}"));
    line(text, &format!("# TYPE {name} {kind}"));
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a String takes everything");
}

fn seconds(nanos: u64) -> String {
    format!("{}", nanos as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_all_buckets_above_them() {
        let times = Times::default();
        for nanos in [500_000, 500_001, 70_000_000_000] {
            times.record(nanos);
        }
        let mut text = String::new();
        times.write("t", "", &mut text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "t_bucket{le=\"0.0005\"} 1");
        assert_eq!(lines[1], "t_bucket{le=\"0.001\"} 2");
        assert_eq!(lines[14], "t_bucket{le=\"+Inf\"} 3");
        assert_eq!(lines[15], "t_sum 70.001000001");
        assert_eq!(lines[16], "t_count 3");
    }

    #[test]
    fn every_line_is_a_sample_or_says_what_comes() {
        let metrics = Metrics::default();
        metrics.of(Transport::Tcp).rows.add(3);
        metrics.rejected(Transport::Tcp, "value", 1);
        metrics.query_done("http", "42601", 1);
        let now = [ComputedMetric { name: "tidegate_memory_bytes", help: "Memory.", value: 7.0 }];
        let text = metrics.text(&now);
        for expected in [
            "tidegate_rows_written_total{protocol=\"tcp\"} 3",
            "tidegate_ilp_rejects_total{protocol=\"tcp\",reason=\"value\"} 1",
            "tidegate_queries_total{protocol=\"http\",code=\"42601\"} 1",
            "tidegate_memory_bytes 7",
            "# TYPE tidegate_memory_bytes gauge",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
        }
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("tidegate_"), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
