//! The environment of the process, read once at the start: variables, terminals, machine.
//!
//! All other modules of the command line take it as an argument, and read no variables themselves.

#![expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]

use std::env::{self, temp_dir, var_os};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use tidegate_model::ByteCount;
use tidegate_platform::{cores, machine_memory_bytes};

/// The width that is assumed for a terminal that does not report its own.
const COLUMNS_DEFAULT: usize = 80;

/// The environment that the process was started in.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// All variables that are text.
    pub(crate) variables: Vec<(String, String)>,
    /// `TIDEGATE_DB`: the database if `--db` is not given.
    pub(crate) db: Option<PathBuf>,
    /// `TIDEGATE_URL`: the server that `sql` asks if neither `--url` nor `--db` is given.
    pub(crate) url: Option<String>,
    /// `PGPASSWORD`, as for clients of PostgreSQL.
    pub(crate) server_password: Option<String>,
    /// Directory for the state of this user's programs (`XDG_STATE_HOME`, `~/.local/state`).
    pub(crate) state_dir: Option<PathBuf>,
    /// Directory for temporary files (`TMPDIR`).
    pub(crate) temp_dir: PathBuf,
    pub(crate) stdin_is_terminal: bool,
    pub(crate) stdout_is_terminal: bool,
    /// True if standard error is a terminal, so that a line can be redrawn.
    pub(crate) stderr_is_terminal: bool,
    pub(crate) cores: NonZeroUsize,
    pub(crate) memory: ByteCount,
}

impl Environment {
    pub(crate) fn read() -> Environment {
        let path = |name| var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let state_home = path("XDG_STATE_HOME").filter(|dir| dir.is_absolute());
        let is_dumb = var_os("TERM").is_none_or(|term| term == "dumb");
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment {
            variables: env::vars_os().filter_map(text).collect(),
            db: path("TIDEGATE_DB"),
            url: variable("TIDEGATE_URL"),
            server_password: variable("PGPASSWORD"),
            state_dir: state_home.or_else(|| Some(env::home_dir()?.join(".local/state"))),
            temp_dir: temp_dir(),
            stdin_is_terminal: io::stdin().is_terminal(),
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal() && !is_dumb,
            cores: cores(),
            memory: ByteCount(machine_memory_bytes()),
        }
    }
}

/// Returns the present width of the terminal on standard output.
pub(crate) fn stdout_columns() -> usize {
    columns(rustix::termios::tcgetwinsize(io::stdout()))
}

/// Returns the present width of the terminal on standard error.
pub(crate) fn stderr_columns() -> usize {
    columns(rustix::termios::tcgetwinsize(io::stderr()))
}

fn columns(size: rustix::io::Result<rustix::termios::Winsize>) -> usize {
    match size {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => COLUMNS_DEFAULT,
    }
}
