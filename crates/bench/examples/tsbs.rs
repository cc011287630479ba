//! `tidegate tsbs` without the database: it builds in a minute, for a machine that only sends rows.

use std::process::ExitCode;

use clap::Parser;
use tidegate_bench::tsbs::{TsbsCommand, run};

#[derive(Parser)]
#[command(name = "tsbs")]
struct Arguments {
    #[command(subcommand)]
    command: TsbsCommand,
}

#[expect(clippy::print_stderr, reason = "this is where the program speaks")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {}", arguments.command.name(), error.sentence());
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}
