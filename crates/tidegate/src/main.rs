//! `tidegate`: the command line over the embedded database.
//!
//! What was typed is in `args`, what surrounds us in `environment`; each command is a module that
//! turns both into options of the crates below and says what came of it. Results go to standard
//! output, everything else to standard error. Nothing here uses `println!`: it panics when whoever
//! reads has gone.
//!
//! Not here: parsing, storing and planning, which are `ingest`, `storage` and `query`.

#![forbid(unsafe_code)]

mod args;
mod environment;
mod session;
mod import;
mod progress;
mod sql;
mod prompt;
mod inspect;
mod verify;
mod config;
mod serve;
mod user;
mod bench;
mod demo;
mod output;
mod text;
mod error;

use std::io::Write;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;
use std::sync::Arc;
use std::{io, thread};

use clap::Parser;
use tidegate_platform::{install_sigbus_handler, raise_descriptor_limit};

use crate::args::{Arguments, BenchCommand, Command};
use crate::environment::Environment;
use crate::error::{Exit, Result, sentence};
use crate::session::Session;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    install_sigbus_handler();
    // Imports open a file for each segment, a server one for each connection; where the limit stays
    // low, they say so when they reach it.
    let _ = raise_descriptor_limit();
    // A file that may not grow is an error of the write, as a full disk is, and no reason to die.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    panic::set_hook(Box::new(report_defect));
    let mut arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // If nobody can read it, the code still tells.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
        }
    };
    let environment = Environment::read();
    arguments.url_or(environment.url.clone());
    let db = arguments.db_or(environment.db.clone());
    let command = arguments.command;
    let name = command.name();
    let session = Session::new(db, environment);
    match panic::catch_unwind(AssertUnwindSafe(|| run(&command, &session))) {
        Ok(Ok(exit)) => exit.code(),
        Ok(Err(error)) => {
            tell(&format!("tidegate: {name}: {}", sentence(&error)));
            error.exit().code()
        }
        // The hook has said what is to be said.
        Err(_) => Exit::Internal.code(),
    }
}

fn run(command: &Command, session: &Session) -> Result<Exit> {
    match command {
        Command::Import(arguments) => import::run(arguments, session),
        Command::Sql(arguments) => sql::run(arguments, session),
        Command::Tables(arguments) => inspect::tables(arguments, session),
        Command::Describe(arguments) => inspect::describe(arguments, session),
        Command::Verify => verify::run(session),
        Command::Serve(arguments) => serve::run(arguments, session),
        Command::User(command) => user::run(command, session),
        Command::Config(command) => config::run(command, session),
        Command::Bench(BenchCommand::Roofline(arguments)) => bench::roofline(arguments, session),
        Command::Tsbs(command) => Ok(tidegate_bench::tsbs::run(command).map(|()| Exit::Done)?),
        Command::Demo(arguments) => demo::run(arguments, session),
    }
}

/// A line on standard error. Whoever closed it does not want to know.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn report_defect(panic: &PanicHookInfo<'_>) {
    if tidegate_ingest::is_decoding_guarded() {
        // A damaged file, which the import names in its error.
        return;
    }
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let cause = panic.payload_as_str().unwrap_or("of unknown cause");
    let current = thread::current();
    let thread = current.name().unwrap_or("unnamed");
    tell(&format!("tidegate: internal error{place}, thread {thread}: {cause}"));
}
