//! The steps of the check and of `slt`: cargo calls, one after another, each with its time.
//!
//! Dependencies are compiled twice, as metadata for clippy and docs and in full for the tests
//! (xtask-1). Cargo compiles a crate anew for every set of features and flags that it meets, so
//! every step takes the features of the whole workspace, those of the dev-dependencies included:
//!
//! - always `--workspace`, never `-p`; `--test slt` picks the target, not the features;
//! - no profile, features, target or `RUSTFLAGS` of its own;
//! - `cargo doc` names the examples too, for without them it leaves the dev-dependencies out of
//!   the features, and serde, with all that uses it, is checked once more.
//!
//! The target folder is the caller's: `CARGO_TARGET_DIR` reaches the children untouched.

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::task::{Expectations, Slt};

/// One call of cargo.
pub(crate) struct Step<'a> {
    name: &'static str,
    args: Vec<&'a str>,
    env: Vec<(&'static str, &'static str)>,
}

/// Returns the steps of the check, the one that fails fastest first.
pub(crate) fn check() -> [Step<'static>; 4] {
    let fmt = Step { name: "fmt", args: vec!["fmt", "--all", "--check"], env: vec![] };
    let clippy = Step {
        name: "clippy",
        // RUSTFLAGS would not do: there `-D warnings` would reach the fingerprints of the
        // dependencies.
        args: vec!["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        env: vec![],
    };
    let test = Step { name: "test", args: vec!["test", "--workspace"], env: vec![] };
    let docs = Step {
        name: "docs",
        args: vec![
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
            "--lib",
            "--bins",
            "--examples",
        ],
        // A dead link is a warning of rustdoc. These flags reach no rustc.
        env: vec![("RUSTDOCFLAGS", "-Dwarnings")],
    };
    [fmt, clippy, test, docs]
}

/// Returns the step that runs the SQL tests.
pub(crate) fn slt(slt: &Slt) -> Step<'_> {
    let mut args = vec!["test", "--workspace", "--test", "slt"];
    if let Some(name) = &slt.name {
        args.extend(["--", name]);
    }
    let env = match slt.expectations {
        Expectations::Compare => vec![],
        Expectations::Rewrite => vec![("TIDEGATE_SLT_COMPLETE", "1")],
    };
    Step { name: "slt", args, env }
}

/// Runs `steps` in `root`, each with its time; the first one that fails is the last one.
pub(crate) fn run_all(root: &Path, steps: &[Step]) -> Result<()> {
    let start = Instant::now();
    steps.iter().try_for_each(|step| run(root, step))?; // xtask-2
    if 1 < steps.len() {
        println!("xtask: all {} steps passed in {}", steps.len(), seconds(start));
    }
    Ok(())
}

/// Runs cargo-deny, or says how to get it.
pub(crate) fn deny(root: &Path) -> Result<()> {
    let mut probe = cargo(root, &["deny", "--version"]);
    let probe = probe.stdout(Stdio::null()).stderr(Stdio::null());
    if !probe.status().map_err(start_error("cargo deny --version"))?.success() {
        let install = "cargo install --locked cargo-deny";
        return Err(Error::ToolMissing { tool: "cargo-deny", install });
    }
    run(root, &Step { name: "deny", args: vec!["deny", "check"], env: vec![] })
}

/// Returns a call of `cargo` with these arguments, in `root`, with the environment of the caller of
/// `cargo xtask`.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    // Cargo sets the variable to the cargo that runs xtask, so that all steps use the same
    // toolchain.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(args);
    // The variables are those that `cargo run` sets for xtask. Some build scripts watch them and
    // would run again, with all that depends on them, whenever xtask and a bare cargo take turns.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_a_package) {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn start_error(command: impl Display) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Start { command: command.to_string(), source }
}

fn run(root: &Path, step: &Step) -> Result<()> {
    let line = command_line(step);
    println!("xtask: {}: {line}", step.name);
    let start = Instant::now();
    let outcome = run_command(line, cargo(root, &step.args).envs(step.env.iter().copied()));
    let word = if outcome.is_ok() { "passed" } else { "failed" };
    println!("xtask: {}: {word} in {}", step.name, seconds(start));
    outcome
}

fn run_command(line: String, command: &mut Command) -> Result<()> {
    let status = command.status().map_err(start_error(&line))?;
    if status.success() { Ok(()) } else { Err(Error::Failed { command: line, status }) }
}

/// Formats the step as a command line.
fn command_line(step: &Step) -> String {
    let mut line = String::new();
    for (name, value) in &step.env {
        line.push_str(&format!("{name}={value} "));
    }
    line.push_str("cargo ");
    line.push_str(&step.args.join(" "));
    line
}

fn describes_a_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
        .iter()
        .any(|prefix| variable.starts_with(prefix))
}

fn seconds(start: Instant) -> String {
    format!("{:.1} s", start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_is_four_commands() {
        let lines: Vec<String> = check().iter().map(command_line).collect();
        assert_eq!(
            lines,
            [
                "cargo fmt --all --check",
                "cargo clippy --workspace --all-targets -- -D warnings",
                "cargo test --workspace",
                "RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps \
                 --document-private-items --lib --bins --examples",
            ]
        );
    }

    #[test]
    fn no_step_compiles_the_dependencies_a_third_time() {
        let slt_of_one = Slt { expectations: Expectations::Rewrite, name: Some("cpu".to_owned()) };
        for step in check().iter().chain([&slt(&slt_of_one)]).filter(|step| step.name != "fmt") {
            let ours = step.args.split(|&arg| arg == "--").next().unwrap();
            assert!(ours.contains(&"--workspace"), "xtask-1: {}", step.name);
            let others = ["-p", "--release", "--profile", "--features", "--all-features"];
            assert!(!others.iter().any(|other| ours.contains(other)), "xtask-1: {}", step.name);
            let flags = ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET"];
            assert!(
                !step.env.iter().any(|(name, _)| flags.contains(name)),
                "xtask-1: {}",
                step.name
            );
        }
    }

    #[test]
    fn slt_passes_its_name_on_and_rewrites_only_when_asked() {
        let line = |expectations, name: Option<&str>| {
            command_line(&slt(&Slt { expectations, name: name.map(str::to_owned) }))
        };
        assert_eq!(line(Expectations::Compare, None), "cargo test --workspace --test slt");
        assert_eq!(
            line(Expectations::Rewrite, Some("pruning")),
            "TIDEGATE_SLT_COMPLETE=1 cargo test --workspace --test slt -- pruning"
        );
    }

    #[test]
    fn the_children_keep_the_target_folder_and_lose_our_package() {
        assert!(describes_a_package("CARGO_PKG_VERSION"));
        assert!(describes_a_package("CARGO_MANIFEST_DIR"));
        assert!(!describes_a_package("CARGO_TARGET_DIR"));
        assert!(!describes_a_package("CARGO_HOME"));
        assert!(!describes_a_package("CARGO_TERM_COLOR"));
    }

    #[test]
    fn a_command_that_fails_fails_its_step() {
        let run = |program| run_command("line".to_owned(), &mut Command::new(program));
        assert!(run("true").is_ok());
        assert!(matches!(run("false"), Err(Error::Failed { .. })), "xtask-2");
        assert!(matches!(run("./no-such-program"), Err(Error::Start { .. })), "xtask-2");
    }
}
