//! `tidegate-bench`: the benchmark suites as a program of their own, which links no database.
//!
//! Data and reports go to standard output or into files, messages to standard error. The exit code
//! is 0 on success, 1 if a run failed, and 2 for flags that do not exist or do not fit.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use tidegate_bench::tsbs::{TsbsCommand, run};

const EXAMPLES: &str = "\
Examples:
  tidegate-bench tsbs generate --use-case iot --seed 123 --format questdb --file iot.ilp
  tidegate-bench tsbs load tidegate --file iot.ilp --workers 4
  tidegate-bench tsbs sink --listen 127.0.0.1:9009";

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarks that use databases only over their protocols
#[derive(Debug, Parser)]
#[command(name = "tidegate-bench", version, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, Subcommand)]
enum Suite {
    /// Time Series Benchmark Suite: generate its data, load it into databases, or discard it
    #[command(subcommand)]
    Tsbs(TsbsCommand),
}

fn main() -> ExitCode {
    // A file that exceeds the file size limit is an error of the write, as a full disk is.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let Suite::Tsbs(command) = Arguments::parse().suite;
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = printable(&error.sentence());
            // The exit code tells the outcome even if standard error is closed.
            let _ = writeln!(io::stderr(), "tidegate-bench: {}: {text}", command.name());
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

/// Returns `text` with control characters escaped: it may contain answers of a server.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_finds_no_fault_with_the_definitions() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn incomplete_command_lines_are_refused() {
        for line in ["", "nonsense", "tsbs", "tsbs generate", "tsbs load"] {
            let words = std::iter::once("tidegate-bench").chain(line.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
    }
}
