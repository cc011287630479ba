//! Errors of tasks.
//!
//! They have no classes (STYLE 28): their reader sits at a terminal, with no protocol in between.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("no task `{given}`: `cargo xtask help` lists them")]
    UnknownTask { given: String },

    #[error("`{argument}` is no argument of `{task}`: see `cargo xtask help`")]
    UnexpectedArgument { task: &'static str, argument: String },

    #[error("start `{command}`")]
    Start { command: String, source: io::Error },

    #[error("`{command}` failed ({status})")]
    Failed { command: String, status: ExitStatus },

    #[error("{tool} is missing: `{install}` installs it")]
    ToolMissing { tool: &'static str, install: &'static str },

    #[error("read {path}")]
    Read { path: PathBuf, source: io::Error },

    #[error("read the answer of `cargo metadata`")]
    Metadata { source: serde_json::Error },

    #[error("the answer of `cargo metadata` has no `{field}` where one was expected")]
    MetadataWithout { field: &'static str },

    #[error("{findings} findings")]
    Untidy { findings: usize },
}
