//! Arguments of `tidegate-bench tsbs`, with the names of TSBS's own flags.
//!
//! Not here: the meaning of several flags together (`options`, `load`).

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};

use super::options::{Format, Options, UseCase, parse_duration, parse_time};
use super::output::tell;
use crate::error::{Error, Result};
use crate::time::Nanos;

const GENERATE_EXAMPLES: &str = "\
Examples:
  tidegate-bench tsbs generate --scale 4000 --seed 123 --format questdb --file cpu.ilp
  tidegate-bench tsbs generate --use-case iot --format timescaledb | gzip > iot.gz
  tidegate-bench tsbs generate --use-case devops --format parquet --file devops";

/// Arguments of `generate`: the format and destination of the data.
#[derive(Args, Debug)]
#[command(after_help = GENERATE_EXAMPLES)]
pub struct GenerateArguments {
    /// Format of the rows; required
    #[arg(long, value_enum, required = false, required_unless_present = "config")]
    pub(crate) format: FormatArgument,
    /// The file, or the directory of csv and parquet [default: standard output]
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Accepted because TSBS has it
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    pub(crate) debug: u64,
    /// Accepted because TSBS has it
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) profile_file: Option<PathBuf>,
    /// Flags from a file: JSON, or lines such as scale: 10; the command line takes precedence
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    #[command(flatten)]
    pub(crate) simulation: SimulationArguments,
}

/// Arguments of `sink`: its addresses, and what it counts.
#[derive(Args, Debug)]
pub struct SinkArguments {
    /// Address for line protocol over TCP; a port alone means 127.0.0.1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9009")]
    pub(crate) listen: String,
    /// Address for line protocol over HTTP; a port alone means 127.0.0.1
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// Count rows, not only bytes
    #[arg(long)]
    pub(crate) count_rows: bool,
    /// Time between two lines of the report; 0 means none
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) reporting_period: Duration,
    /// Number of connections after which the sink ends; 0 means that it does not end
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) connections: u64,
    /// Flags from a file: JSON, or lines such as count-rows: true; the command line
    /// takes precedence
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
}

/// Arguments of the simulation.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Simulation")]
pub struct SimulationArguments {
    /// Use case that is simulated: hosts or trucks
    #[arg(long, value_enum, default_value_t = UseCaseArgument::CpuOnly)]
    pub(crate) use_case: UseCaseArgument,
    /// Seed of all random numbers; 0 takes one from the clock
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) seed: i64,
    /// Number of hosts or trucks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) scale: u64,
    /// Number of hosts or trucks at the start; 0 means all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) initial_scale: u64,
    /// Time of the first rows: RFC 3339, now, or now minus a duration: now-24h
    #[arg(long, value_name = "TIME", default_value = "2016-01-01T00:00:00Z")]
    pub(crate) timestamp_start: String,
    /// End of the simulated time, exclusive
    #[arg(long, value_name = "TIME", default_value = "2016-01-02T00:00:00Z")]
    pub(crate) timestamp_end: String,
    /// Time between two rows of a host, such as 10s or 1m30s
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) log_interval: String,
    /// Maximum number of points to simulate; 0 means no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_data_points: u64,
    /// Number of groups of rows, N: every N-th row is written
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) interleaved_generation_groups: u64,
    /// Number of the group that is written, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) interleaved_generation_group_id: u64,
    /// Maximum number of metrics of a host, for devops-generic
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_metric_count: u64,
}

/// Names of the use cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UseCaseArgument {
    CpuOnly,
    CpuSingle,
    Devops,
    Iot,
    DevopsGeneric,
}

/// Names of the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArgument {
    /// Line protocol
    Tidegate,
    /// Line protocol
    Questdb,
    /// Line protocol
    Influx,
    /// Line protocol
    Victoriametrics,
    /// A line of tags and a line of values, after a header
    Timescaledb,
    /// As timescaledb
    Clickhouse,
    /// As timescaledb, without the header
    Timestream,
    /// Tabs and JSON, after a header
    Cratedb,
    /// A file for each measurement
    Csv,
    /// A file for each measurement
    Parquet,
}

/// Destination of the rows of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Text(Format),
    Csv,
    Parquet,
}

impl FormatArgument {
    pub(crate) fn layout(self) -> Layout {
        match self {
            FormatArgument::Tidegate
            | FormatArgument::Questdb
            | FormatArgument::Influx
            | FormatArgument::Victoriametrics => Layout::Text(Format::Line),
            FormatArgument::Timescaledb | FormatArgument::Clickhouse => {
                Layout::Text(Format::TwoLines)
            }
            FormatArgument::Timestream => Layout::Text(Format::TwoLinesBare),
            FormatArgument::Cratedb => Layout::Text(Format::Crate),
            FormatArgument::Csv => Layout::Csv,
            FormatArgument::Parquet => Layout::Parquet,
        }
    }
}

/// Parses a duration as Go writes it.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    parse_duration(text).map(Duration::from_nanos)
}

impl SimulationArguments {
    /// Returns the options of the simulation. The seed 0 is replaced by one from the clock.
    pub(crate) fn options(&self) -> Result<Options> {
        let interval = parse_duration(&self.log_interval)?;
        let interval = NonZeroU64::new(interval).ok_or(Error::IntervalZero)?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Nanos(i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX));
        let options = Options {
            use_case: match self.use_case {
                UseCaseArgument::CpuOnly => UseCase::CpuOnly,
                UseCaseArgument::CpuSingle => UseCase::CpuSingle,
                UseCaseArgument::Devops => UseCase::Devops,
                UseCaseArgument::Iot => UseCase::Iot,
                UseCaseArgument::DevopsGeneric => UseCase::DevopsGeneric,
            },
            seed: if self.seed == 0 { now.0 } else { self.seed },
            scale: self.scale,
            initial_scale: self.initial_scale,
            start: parse_time(&self.timestamp_start, now, interval)?,
            end: parse_time(&self.timestamp_end, now, interval)?,
            interval,
            max_points: self.max_data_points,
            groups: self.interleaved_generation_groups,
            group: self.interleaved_generation_group_id,
            max_metrics: self.max_metric_count,
        };
        options.check()?;
        Ok(options)
    }
}

/// Returns the options of a simulation. A seed taken from the clock is printed, so that the data
/// can be generated again.
pub(crate) fn simulated(arguments: &SimulationArguments) -> Result<Options> {
    let options = arguments.options()?;
    if arguments.seed == 0 {
        tell(&format!("seed {}", options.seed));
    }
    Ok(options)
}
