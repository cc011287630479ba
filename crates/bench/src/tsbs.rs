//! The Time Series Benchmark Suite (TSBS): a generator whose output is identical to that of the
//! original, a loader, and a sink.
//!
//! The parts in the order of a run: `run` has the commands, `args` and `config` read their flags,
//! `options` holds those of the generator, `schema` has the tags and fields of the use cases,
//! `simulate` draws rows with the numbers of `random`, `format` writes rows as text, `pipeline`
//! does both on several threads, `columnar` writes CSV and Parquet, `load` sends rows to databases,
//! `sink` is a server that stores nothing, and `output` opens files and standard output.

mod run;
mod args;
mod config;
mod options;
mod schema;
mod random;
mod simulate;
mod format;
mod pipeline;
mod columnar;
mod sink;
mod load;
mod output;
#[cfg(test)]
mod sha256;
#[cfg(test)]
mod golden;

pub use self::args::{GenerateArguments, SimulationArguments, SinkArguments};
pub use self::columnar::{write_csv, write_parquet};
pub use self::config::Configured;
pub use self::load::LoadArguments;
pub use self::options::{Format, Options, UseCase, parse_duration, parse_time};
pub use self::pipeline::{Generated, generate};
pub use self::run::{TsbsCommand, run};
pub use self::sink::{Sink, SinkCounts};
pub use crate::time::Nanos;
