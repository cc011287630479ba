//! The tasks of the workspace, as `cargo xtask <task>`: the full check, the rules of STYLE.md that
//! the compiler does not check, the index of modules, the SQL tests, the console, the licences.
//!
//! - xtask-1. No step compiles the dependencies a third time (STYLE 48): `steps` says how.
//! - xtask-2. A task ends at its first failure, and the exit code says so.
//!
//! Not here: installing what the steps need, which `.ci/run` does.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task talks to the person at the terminal"
)]

mod task;
mod steps;
mod console;
mod tidy;
mod modules;
mod error;

use std::error::Error as _;
use std::path::Path;
use std::process::ExitCode;

use crate::error::{Error, Result};
use crate::task::Task;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match Task::parse(&args).and_then(|task| run(&task, root())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task, root: &Path) -> Result<()> {
    match task {
        Task::Check => steps::run_all(root, &steps::check()),
        Task::Tidy => tidy(root),
        Task::Modules(name) => {
            print!("{}", modules::index(root, name.as_deref())?);
            Ok(())
        }
        Task::Slt(slt) => steps::run_all(root, &[steps::slt(slt)]),
        Task::Console => console::build(root),
        Task::Deny => steps::deny(root),
        Task::Help => {
            print!("{}", task::USAGE);
            Ok(())
        }
    }
}

fn tidy(root: &Path) -> Result<()> {
    let findings = tidy::findings(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() { Ok(()) } else { Err(Error::Untidy { findings: findings.len() }) }
}

/// Returns the directory of the workspace. It is known when compiling: a moved checkout compiles
/// anew.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Formats an error and its causes in one line.
fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        source = cause.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_cause() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = Error::Start { command: "cargo fmt".to_owned(), source };
        assert_eq!(chain(&error), "start `cargo fmt`: entity not found");
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("xtask/src/main.rs").is_file());
    }
}
