//! `tidegate`: the command line over the embedded database.
//!
//! Arguments are in `args`, the environment of the process in `environment`; each command is a
//! module that translates both into options of the other crates, and reports the outcome. Results
//! go to standard output, everything else to standard error. No code here uses `println!`, because
//! it panics when the reader has closed the pipe.
//!
//! Not here: parsing, storing and planning, which are `ingest`, `storage` and `query`.

#![forbid(unsafe_code)]

mod args;
mod environment;
mod session;
mod import;
mod progress;
mod sql;
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
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{io, thread};

use clap::Parser;
use tidegate_platform::{
    CountingAllocator, install_sigbus_handler, printable, raise_descriptor_limit,
};
use tokio::runtime::Runtime;

use crate::args::{Arguments, BenchCommand, Command};
use crate::environment::Environment;
use crate::error::{Error, Exit, Result, sentence};
use crate::session::Session;

/// The beginning of the panic message of a runtime that cannot start a thread; the reason follows.
const NO_THREAD: &str = "OS can't spawn worker thread: ";
/// Time limit for writing the last message of the process.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[global_allocator]
static ALLOCATOR: CountingAllocator<mimalloc::MiMalloc> = CountingAllocator(mimalloc::MiMalloc);

fn main() -> ExitCode {
    install_sigbus_handler();
    // Imports open a file for each segment, a server one for each connection; if the limit stays
    // low, they report an error when they reach it.
    let _ = raise_descriptor_limit();
    // A file that exceeds the file size limit is an error of the write, as a full disk is, and does
    // not kill the process.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    panic::set_hook(Box::new(report_defect));
    let mut arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // If nothing can be printed, the exit code still says what happened.
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
            tell_last(format!("tidegate: {name}: {}", shown(&error)));
            error.exit().code()
        }
        // The panic hook has printed the message.
        Err(cause) => exit_of_panic(cause.downcast_ref::<String>().map(String::as_str)).code(),
    }
}

fn run(command: &Command, session: &Session) -> Result<Exit> {
    match command {
        Command::Import(arguments) => import::run(arguments, session),
        Command::Sql(arguments) => sql::run(arguments, session),
        Command::Tables(arguments) => inspect::tables(arguments, session),
        Command::Describe(arguments) => inspect::describe(arguments, session),
        Command::Verify(arguments) => verify::run(arguments, session),
        Command::Serve(arguments) => serve::run(arguments, session),
        Command::User(command) => user::run(command, session),
        Command::Config(command) => config::run(command, session),
        Command::Bench(BenchCommand::Roofline(arguments)) => bench::roofline(arguments, session),
        Command::Demo(arguments) => demo::run(arguments, session),
    }
}

/// Formats an error for a terminal. Only the list of errors in a configuration has several lines.
fn shown(error: &Error) -> String {
    let text = sentence(error);
    if matches!(error, Error::Configuration(_)) { text } else { printable(&text).into_owned() }
}

/// Writes one or more lines to standard error with control characters escaped. A closed standard
/// error is ignored.
pub(crate) fn tell(text: &str) {
    let lines = text.lines().map(|line| printable(line).into_owned()).collect::<Vec<_>>();
    let _ = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
}

/// Writes the last message of the process, without waiting for a reader that takes nothing.
fn tell_last(text: String) {
    let (sender, told) = channel();
    let spawned = thread::Builder::new().spawn(move || {
        tell(&text);
        let _ = sender.send(());
    });
    if spawned.is_ok() {
        let _ = told.recv_timeout(LAST_WORDS);
    }
}

fn report_defect(panic: &PanicHookInfo<'_>) {
    if tidegate_ingest::is_decoding_guarded() {
        // The import reports the damaged file in its own error.
        return;
    }
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let cause = panic.payload_as_str().unwrap_or("of unknown cause");
    let current = thread::current();
    let thread = current.name().unwrap_or("unnamed");
    let text = match cause.strip_prefix(NO_THREAD) {
        Some(reason) => format!(
            "tidegate: cannot start a thread: {reason}: raise the limit of threads (ulimit -u, \
             pids.max of the control group) or of address space (ulimit -v), or give fewer \
             --threads"
        ),
        None => format!("tidegate: internal error{place}, thread {thread}: {cause}"),
    };
    // A failure to start threads may be the cause of the panic.
    match thread::Builder::new().spawn(|| {}) {
        Ok(_) => tell_last(text),
        Err(_) => tell(&text),
    }
}

/// Returns the exit code for a panic with this text: a lack of threads is no defect.
fn exit_of_panic(text: Option<&str>) -> Exit {
    match text.is_some_and(|text| text.starts_with(NO_THREAD)) {
        true => Exit::Failed,
        false => Exit::Internal,
    }
}

/// Builds a runtime. If it panics because it cannot start threads, the process ends.
pub(crate) fn build_runtime(builder: &mut tokio::runtime::Builder) -> io::Result<Runtime> {
    end_with_a_panic();
    let runtime = builder.build();
    panic::set_hook(Box::new(report_defect));
    runtime
}

/// Makes a panic of the main thread end the process at once: unwinding would wait for threads that
/// never end if a runtime could not start all of its threads.
pub(crate) fn end_with_a_panic() {
    let main = thread::current().id();
    panic::set_hook(Box::new(move |panic| {
        report_defect(panic);
        if thread::current().id() == main {
            process::exit(i32::from(exit_of_panic(panic.payload_as_str()) as u8));
        }
    }));
}
