//! `tidegate sql`: statements from the command line, a file, a pipe or a prompt; results to
//! standard output or a file.
//!
//! - sql-1. Only results go to standard output, unless they are a table for people: then the
//!   messages of statements without rows stand between them.
//! - The first statement that fails ends a script; the statements before it keep their effect.
//! - sql-2. If the reader of standard output closes it, the command ends without an error.
//!
//! If a server has the database open, `--url` sends the statements to it, under the same rules.

mod runner;
mod running;
mod embedded;
mod remote;
mod program;
mod script;
mod timings;
mod prompt;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{ByteCount, limits};
use tidegate_platform::Clock;
use tidegate_query::{EngineOptions, Timeout};
use tidegate_storage::{Database, Error as StorageError};

use self::program::Program;
use self::remote::Remote;
pub(crate) use self::runner::{Outcome, Runner};
pub(crate) use self::script::Script;
use crate::args::{ResourceArguments, ServerUrl, SqlArguments};
use crate::environment::stdout_columns;
use crate::error::{Error, Exit, RemoteError, Result};
use crate::output::{Form, Format, Layout, STDOUT, Target};
use crate::session::Session;
use crate::tell;
use crate::text::{counted, elapsed};

/// Without `--memory`, queries take RAM divided by this before they spill.
const MEMORY_DIVISOR: u64 = 2;

pub(crate) fn run(arguments: &SqlArguments, session: &Session) -> Result<Exit> {
    let is_prompt = arguments.statement.is_none()
        && arguments.file.is_none()
        && session.environment.stdin_is_terminal;
    if is_prompt && arguments.timings {
        return Err(Error::NoStatement);
    }
    let form = form(arguments.format, arguments.output.as_deref(), session)?;
    if is_prompt {
        let runner = start(arguments, session)?;
        return prompt::run(&runner, form, arguments.output.as_deref(), session);
    }
    // The script is read before Ctrl-C is caught: during a wait for a pipe, Ctrl-C just ends the
    // process.
    let script = read_script(arguments, session)?;
    let interrupted = session.catch_interrupts();
    let runner = start(arguments, session)?;
    if arguments.timings {
        let times = timings::measure(&runner, &script, arguments.repeat, &interrupted)?;
        print(&times)?;
        return Ok(Exit::Done);
    }
    let mut target = target(arguments.output.as_deref())?;
    let mut results = 0;
    for statement in script.statements() {
        let outcome = runner.run(&statement, form, &mut target, &interrupted, &mut results);
        if target.is_closed() {
            return Ok(Exit::Done); // sql-2
        }
        match outcome {
            Ok(outcome) => report(&outcome, form, &mut target, session)?,
            Err(error) => {
                // Finished results are shown, but a file would not be complete.
                if arguments.output.is_none() {
                    let _ = target.finish();
                }
                return Err(script.place(error));
            }
        }
    }
    let place = target.place().to_owned();
    match target.finish() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Output { place, source: error.into() })
        }
        _ => Ok(Exit::Done),
    }
}

fn start(arguments: &SqlArguments, session: &Session) -> Result<Runner> {
    match &arguments.url {
        Some(url) => start_remote(url, arguments, session),
        None => start_embedded(arguments, session),
    }
}

fn start_remote(
    ServerUrl(url): &ServerUrl,
    arguments: &SqlArguments,
    session: &Session,
) -> Result<Runner> {
    let ResourceArguments { memory, threads } = arguments.resources;
    if memory.is_some() || threads.is_some() {
        return Err(RemoteError::Resources.into());
    }
    let remote = Remote::connect(url, arguments.timeout, session)?;
    Runner::remote(remote, Arc::clone(&session.clock))
}

fn start_embedded(arguments: &SqlArguments, session: &Session) -> Result<Runner> {
    let options = engine_options(&arguments.resources, arguments.timeout, session);
    let program = Program::new(&options, &arguments.resources, arguments.timeout);
    let is_new = !session.has_database()?;
    let database = session.open_within(arguments.resources.memory).map_err(advise_url)?;
    if is_new {
        // Without this note, a mistyped path would look like a database that has lost its tables.
        tell(&format!("tidegate: sql: made a new database in {}", session.db.display()));
    }
    let (clock, memory) = machine(session);
    Runner::embedded(database, &options, program, clock, memory)
}

/// Advises to use `--url`: the process that has the database open is probably a server.
fn advise_url(error: Error) -> Error {
    match error {
        Error::Storage(source @ StorageError::InUse { .. }) => Error::AskServer { source },
        error => error,
    }
}

/// Starts the engine on its own threads.
pub(crate) fn runner(
    database: Arc<Database>,
    resources: &ResourceArguments,
    session: &Session,
) -> Result<Runner> {
    let options = engine_options(resources, None, session);
    let program = Program::new(&options, resources, None);
    let (clock, memory) = machine(session);
    Runner::embedded(database, &options, program, clock, memory)
}

/// Returns the clock and the memory of the machine; an import takes a part of the memory.
fn machine(session: &Session) -> (Arc<dyn Clock>, ByteCount) {
    (Arc::clone(&session.clock), session.environment.memory)
}

fn engine_options(
    resources: &ResourceArguments,
    timeout: Option<Timeout>,
    session: &Session,
) -> EngineOptions {
    let memory = ByteCount(session.environment.memory.0 / MEMORY_DIVISOR);
    let threads = resources.threads.unwrap_or(session.environment.cores);
    let memory_max = resources.memory.unwrap_or(memory);
    let spill_dir = session.db.join("scratch").join("query");
    let standard = EngineOptions::standard(threads, memory_max, spill_dir);
    EngineOptions { timeout: timeout.unwrap_or(standard.timeout), ..standard }
}

/// Opens the destination of results: a file, or standard output.
pub(crate) fn target(output: Option<&Path>) -> Result<Target> {
    let Some(path) = output else { return Ok(Target::stdout()) };
    Target::file(path)
        .map_err(|error| Error::Output { place: path.display().to_string(), source: error.into() })
}

/// Returns the format of results; a binary format is refused on a terminal.
fn form(format: Format, output: Option<&Path>, session: &Session) -> Result<Form> {
    let to_terminal = output.is_none() && session.environment.stdout_is_terminal;
    if to_terminal && format.is_binary() {
        return Err(Error::BinaryToTerminal { format: format.name() });
    }
    let layout =
        if to_terminal { Layout::Terminal { columns: stdout_columns() } } else { Layout::Plain };
    Ok(Form { format, layout, is_file: output.is_some() })
}

/// Writes the messages about a statement besides its rows (sql-1).
fn report(outcome: &Outcome, form: Form, target: &mut Target, session: &Session) -> Result<()> {
    for notice in &outcome.notices {
        tell(&format!("tidegate: sql: {notice}"));
    }
    let line = outcome_line(outcome);
    let is_table = form.format == Format::Table && !form.is_file;
    let text = match form.layout {
        _ if is_table && outcome.tag.is_some() => format!("{line}\n"),
        Layout::Terminal { .. } if is_table => format!("{line}\n\n"),
        _ => {
            if session.environment.stderr_is_terminal {
                tell(&line);
            }
            return Ok(());
        }
    };
    // The flush puts the line before later output on standard error.
    match target.write_all(text.as_bytes()).and_then(|()| target.flush()) {
        Err(error) if !target.is_closed() => {
            Err(Error::Output { place: target.place().to_owned(), source: error.into() })
        }
        _ => Ok(()),
    }
}

/// Formats the line after a result: `(3 rows, 1.23 ms)`, or `CREATE TABLE`.
pub(crate) fn outcome_line(outcome: &Outcome) -> String {
    match &outcome.tag {
        Some(tag) => tag.clone(),
        None => format!("({}, {})", counted(outcome.rows, "row"), elapsed(outcome.nanos)),
    }
}

fn read_script(arguments: &SqlArguments, session: &Session) -> Result<Script> {
    let (text, file) = if let Some(statement) = &arguments.statement {
        (statement.clone(), None)
    } else if let Some(file) = &arguments.file {
        (read_file(file, session)?, Some(file.clone()))
    } else {
        (read_stdin()?, None)
    };
    let script = Script::new(text, file);
    if script.statements().next().is_none() { Err(Error::NoStatement) } else { Ok(script) }
}

/// Returns the text of a file with SQL.
pub(crate) fn read_file(file: &Path, session: &Session) -> Result<String> {
    if file == Path::new("-") {
        return read_stdin();
    }
    let failed = Error::disk("read the statements");
    let Some(stream) = session.disk.open_stream(file).map_err(&failed)? else {
        return as_sql(session.disk.read(file).map_err(failed)?, file.to_path_buf());
    };
    // A pipe does not report a length.
    let mut bytes = Vec::new();
    let mut stream = io::Read::take(stream, limits::SQL_BYTES as u64 + 1);
    io::Read::read_to_end(&mut stream, &mut bytes).map_err(|source| Error::Stdin { source })?;
    as_sql(bytes, file.to_path_buf())
}

fn read_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    let mut stdin = io::Read::take(io::stdin().lock(), limits::SQL_BYTES as u64 + 1);
    io::Read::read_to_end(&mut stdin, &mut bytes).map_err(|source| Error::Stdin { source })?;
    as_sql(bytes, PathBuf::from("standard input"))
}

fn as_sql(bytes: Vec<u8>, place: PathBuf) -> Result<String> {
    if bytes.len() > limits::SQL_BYTES {
        return Err(Error::ScriptTooLong { place });
    }
    String::from_utf8(bytes)
        .map_err(|error| Error::NotText { place, at: error.utf8_error().valid_up_to() })
}

/// Writes to standard output. A reader that went away is not an error (sql-2).
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Output { place: STDOUT.to_owned(), source: error.into() })
        }
        _ => Ok(()),
    }
}
