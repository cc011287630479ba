//! Arguments of `tidegate-bench tsbs load`, with the names of TSBS's own flags.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::super::args::{SimulationArguments, duration};

const LOAD_EXAMPLES: &str = "\
Examples:
  tidegate-bench tsbs load tidegate --file cpu.ilp --workers 4
  tidegate-bench tsbs load questdb --protocol ilp-http --generate --use-case iot --scale 100
  tidegate-bench tsbs load timescaledb --file cpu.tsdb --host localhost --use-hypertable false
  zcat cpu.gz | tidegate-bench tsbs load influx --url http://localhost:8086

Rows are counted in three ways: sent (handed to the network), acknowledged (confirmed by the target,
if it confirms rows) and readable (counted by a query until all rows are there). The exit code is 1
if some rows do not become readable.";

/// Heading of flags that apply to single targets.
const OTHERS: &str = "ClickHouse, CrateDB and InfluxDB";

/// Arguments of `load`: the source, the target, and the manner of the load.
#[derive(Args, Debug)]
#[command(after_help = LOAD_EXAMPLES)]
pub struct LoadArguments {
    /// Target database, or the sink
    #[arg(value_enum)]
    pub(crate) target: TargetArgument,
    /// Files in the format of the target [default: standard input]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(crate) file: Vec<PathBuf>,
    /// Generate the rows while they are sent, by the flags of the simulation
    #[arg(long, conflicts_with = "file")]
    pub(crate) generate: bool,
    /// Number of connections
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) workers: NonZeroUsize,
    /// Rows in each request, COPY or paced write
    #[arg(long, value_name = "ROWS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch_size: u64,
    /// Maximum number of rows; 0 means all
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    pub(crate) limit: u64,
    /// Time between two lines of the report; 0 means none
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) reporting_period: Duration,
    /// File for the results, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) results_file: Option<PathBuf>,
    /// Database or bucket to load into
    #[arg(long, value_name = "NAME", default_value = "benchmark")]
    pub(crate) db_name: String,
    /// False reads and counts the rows, and sends none
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) do_load: bool,
    /// Drop and create the database, where the target has databases
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) do_create_db: bool,
    /// Fail if the database exists, or has rows
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) do_abort_on_exist: bool,
    /// Send all rows of a host over the same connection
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) hash_workers: bool,
    /// Seconds between the batches of each worker, such as 1,2-4
    #[arg(long, value_name = "LIST", default_value = "")]
    pub(crate) insert_intervals: String,
    /// Maximum number of batches per second of all workers; 0 means no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_rps: u64,
    /// Move all timestamps by a duration such as 24h or -90m; with now, the last row is at the
    /// current time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) shift: Option<String>,
    /// Distribution of files among workers: each takes the next part in turn, or has one range
    #[arg(long, value_enum, default_value_t = SplitArgument::Turns,
          conflicts_with = "hash_workers")]
    pub(crate) split: SplitArgument,
    /// Only one batch of the whole load can be smaller than the others, not one of each worker
    #[arg(long, conflicts_with = "hash_workers")]
    pub(crate) exact_batches: bool,
    /// Report and tables as in TSBS: the summary has sent rows, ClickHouse has TSBS's columns
    #[arg(long)]
    pub(crate) faithful: bool,
    /// Longest time without progress of the target
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Longest time without a change of the count of readable rows
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) wait: Duration,
    /// Flags from a file: JSON, or lines such as workers: 4; the command line takes precedence
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    #[command(flatten)]
    pub(crate) postgres: PostgresArguments,
    /// Tables of ClickHouse: tags in a table of their own, as in TSBS, or in each table
    #[arg(long, help_heading = OTHERS, value_enum, default_value_t = LayoutArgument::Tags)]
    pub(crate) layout: LayoutArgument,
    /// Shards of a table of CrateDB
    #[arg(long, help_heading = OTHERS, value_name = "N", default_value_t = 5)]
    pub(crate) shards: u32,
    /// Replicas of a table of CrateDB
    #[arg(long, help_heading = OTHERS, value_name = "N", default_value_t = 0)]
    pub(crate) replicas: u32,
    /// Compress requests to InfluxDB
    #[arg(long, help_heading = OTHERS, value_name = "BOOL", default_value_t = true,
          action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) gzip: bool,
    /// Consistency of writes to a cluster of InfluxDB 1: any, one, quorum or all
    #[arg(long, help_heading = OTHERS, value_name = "WORD", default_value = "all")]
    pub(crate) consistency: String,
    /// Time between two attempts when InfluxDB asks for a delay
    #[arg(long, help_heading = OTHERS, value_name = "TIME", default_value = "1s",
          value_parser = duration)]
    pub(crate) backoff: Duration,
    #[command(flatten)]
    pub(crate) simulation: SimulationArguments,
}

/// Location and login of the target.
#[derive(Args, Debug)]
#[command(next_help_heading = "Target")]
pub(crate) struct PlaceArguments {
    /// Protocol of the rows [default: ilp-tcp]
    #[arg(long, value_enum)]
    pub(crate) protocol: Option<ProtocolArgument>,
    /// Address of HTTP [default: http://HOST:PORT]
    #[arg(long, value_name = "URL", alias = "urls", conflicts_with = "port")]
    pub(crate) url: Option<String>,
    /// Address of line protocol over TCP [default: HOST:9009]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ilp_bind_to: Option<String>,
    /// Host name or address of the target
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", alias = "hosts")]
    pub(crate) host: String,
    /// Port of PostgreSQL, or of HTTP [default: by target]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Name of the user [default: by target]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Password
    #[arg(long, value_name = "WORD", alias = "password")]
    pub(crate) pass: Option<String>,
    /// Token of InfluxDB 2; with it, the write API of version 2 is used
    #[arg(long, value_name = "TOKEN", alias = "auth-token")]
    pub(crate) token: Option<String>,
    /// Organisation of InfluxDB 2
    #[arg(long, value_name = "NAME", default_value = "", alias = "organization")]
    pub(crate) org: String,
}

/// Arguments for the tables of PostgreSQL and TimescaleDB.
#[derive(Args, Debug)]
#[command(next_help_heading = "PostgreSQL and TimescaleDB")]
pub(crate) struct PostgresArguments {
    /// Create hypertables; false for PostgreSQL without TimescaleDB
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) use_hypertable: bool,
    /// Time range of a chunk of a hypertable
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = duration)]
    pub(crate) chunk_time: Duration,
    /// Create an index on the time
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) time_index: bool,
    /// Create an index on tags and time
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) partition_index: bool,
    /// Number of fields of each table that get an index; -1 means all
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(-1..))]
    pub(crate) field_index_count: i64,
    /// Store tags as one JSON object instead of one column each
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) use_jsonb_tags: bool,
    /// Store the first tag in each table too
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) in_table_partition_tag: bool,
    /// Use INSERT instead of COPY
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub(crate) use_insert: bool,
}

/// Names of the databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetArgument {
    Tidegate,
    Questdb,
    /// Version 1, or with --token version 2
    Influx,
    /// Also plain PostgreSQL, with --use-hypertable false
    #[value(alias = "postgres", alias = "postgresql")]
    Timescaledb,
    Clickhouse,
    Cratedb,
    /// `tidegate-bench tsbs sink`, or any server that reads and answers nothing
    Sink,
}

/// Transport of line protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolArgument {
    /// Over TCP: nothing is acknowledged
    IlpTcp,
    /// Over HTTP
    IlpHttp,
}

/// Distribution of files among workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitArgument {
    /// Each worker takes what comes next: rows arrive much as they stand in the file
    Turns,
    /// Each worker reads a part from its beginning: rows arrive from many times at once
    Contiguous,
}

/// Place of the tags in ClickHouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArgument {
    Tags,
    Wide,
}

impl PlaceArguments {
    /// Returns the address of line protocol over TCP.
    pub(crate) fn line_address(&self) -> String {
        self.ilp_bind_to.clone().unwrap_or_else(|| self.address(9_009))
    }

    /// Returns the URL of HTTP, with the usual `port` unless it is given.
    pub(crate) fn url(&self, port: u16) -> String {
        let address = || format!("http://{}", self.address(self.port.unwrap_or(port)));
        self.url.clone().unwrap_or_else(address)
    }

    fn address(&self, port: u16) -> String {
        // An IPv6 address has colons of its own.
        match self.host.contains(':') && !self.host.starts_with('[') {
            true => format!("[{}]:{port}", self.host),
            false => format!("{}:{port}", self.host),
        }
    }
}

impl TargetArgument {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TargetArgument::Tidegate => "tidegate",
            TargetArgument::Questdb => "questdb",
            TargetArgument::Influx => "influx",
            TargetArgument::Timescaledb => "timescaledb",
            TargetArgument::Clickhouse => "clickhouse",
            TargetArgument::Cratedb => "cratedb",
            TargetArgument::Sink => "sink",
        }
    }
}
