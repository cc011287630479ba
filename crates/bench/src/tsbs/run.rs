//! The commands of `tidegate-bench tsbs`: arguments in, bytes and reports out.

use std::num::NonZeroUsize;
use std::path::Path;

use clap::Subcommand;

use super::args::{GenerateArguments, Layout, SinkArguments, simulated};
use super::config::Configured;
use super::load::{LoadArguments, run_load};
use super::options::Format;
use super::output::{create, standard_output, write_counted};
use super::pipeline::{cores, generate};
use super::sink::run_sink;
use super::{Options, columnar};
use crate::error::{Error, Result};

/// The commands of the suite.
#[derive(Debug, Subcommand)]
pub enum TsbsCommand {
    /// Generate data
    Generate(Configured<GenerateArguments>),
    /// Load data into a database, and count the rows that arrive
    Load(Box<Configured<LoadArguments>>),
    /// Accept data and discard it, to measure the maximum speed of a client
    Sink(Configured<SinkArguments>),
}

impl TsbsCommand {
    /// Returns the name of the command.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            TsbsCommand::Generate(_) => "tsbs generate",
            TsbsCommand::Load(_) => "tsbs load",
            TsbsCommand::Sink(_) => "tsbs sink",
        }
    }
}

/// Runs a command of the suite: data and reports go to standard output or into the files that the
/// arguments name, a seed taken from the clock to standard error.
///
/// # Errors
///
/// The error of the flags ([`Error::is_usage`]) or of the run. A load that failed has printed its
/// counts.
pub fn run(command: &TsbsCommand) -> Result<()> {
    match command {
        TsbsCommand::Generate(arguments) => run_generate(&arguments.0),
        TsbsCommand::Load(arguments) => run_load(&arguments.0),
        TsbsCommand::Sink(arguments) => run_sink(&arguments.0),
    }
}

fn run_generate(arguments: &GenerateArguments) -> Result<()> {
    let options = simulated(&arguments.simulation)?;
    let threads = arguments.threads.unwrap_or_else(cores);
    let name = match arguments.format.layout() {
        Layout::Text(format) => {
            return generate_text(&options, format, threads, arguments.file.as_deref());
        }
        Layout::Csv => "csv",
        Layout::Parquet => "parquet",
    };
    let Some(dir) = &arguments.file else { return Err(Error::NeedsDirectory { format: name }) };
    match name {
        "csv" => columnar::write_csv(&options, dir),
        _ => columnar::write_parquet(&options, dir),
    }?;
    Ok(())
}

fn generate_text(
    options: &Options,
    format: Format,
    threads: NonZeroUsize,
    path: Option<&Path>,
) -> Result<()> {
    let (mut file, place) = match path {
        Some(path) => (create(path)?, path.display().to_string()),
        None => (standard_output()?, "standard output".to_owned()),
    };
    let mut bytes = 0;
    generate(options, format, threads, |text| {
        let written = write_counted(&mut file, text, &mut bytes);
        written.map_err(|source| Error::Output { place: place.clone(), bytes, source })
    })?;
    Ok(())
}
