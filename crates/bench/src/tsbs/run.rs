//! The commands of `tidegate tsbs`: arguments in, bytes and reports out.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use super::args::{GenerateArguments, Layout, SimulationArguments, TsbsCommand};
use super::load::run_load;
use super::options::Format;
use super::pipeline::generate;
use super::sink::run_sink;
use super::{Options, columnar};
use crate::error::{Error, Result};

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
            return generate_text(&options, (format, threads), arguments.file.as_deref());
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

/// Returns the options of a simulation. A seed taken from the clock is printed, so that the data
/// can be generated again.
pub(crate) fn simulated(arguments: &SimulationArguments) -> Result<Options> {
    let options = arguments.options()?;
    if arguments.seed == 0 {
        tell(&format!("seed {}", options.seed));
    }
    Ok(options)
}

fn generate_text(
    options: &Options,
    (format, threads): (Format, NonZeroUsize),
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

/// Writes everything, and counts the written bytes in `bytes`, also if it fails.
fn write_counted(out: &mut impl Write, text: &[u8], bytes: &mut u64) -> io::Result<()> {
    let mut rest = text;
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                *bytes += count as u64;
                rest = &rest[count..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Creates a file at a path, in place of one that is there.
pub(crate) fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|source| Error::Make { path: path.to_owned(), source })
}

/// Opens standard output without the buffer of the library.
fn standard_output() -> Result<File> {
    let cloned = io::stdout().as_fd().try_clone_to_owned();
    let place = || "standard output".to_owned();
    cloned.map(File::from).map_err(|source| Error::Output { place: place(), bytes: 0, source })
}

pub(crate) fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Writes a line to standard output.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.map_err(|source| Error::Output {
        place: "standard output".to_owned(),
        bytes: 0,
        source,
    })
}

/// Writes a line to standard error, and ignores errors: its reader may have closed it.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_the_disk_was_full_is_counted() {
        let (mut disk, mut bytes) = ([0; 25], 100);
        let mut rest = &mut disk[..];
        write_counted(&mut rest, b"ten bytes.", &mut bytes).unwrap();
        write_counted(&mut rest, b"ten bytes.", &mut bytes).unwrap();
        let error = write_counted(&mut rest, b"ten bytes.", &mut bytes).unwrap_err();
        assert_eq!((error.kind(), bytes), (ErrorKind::WriteZero, 125));
    }
}
