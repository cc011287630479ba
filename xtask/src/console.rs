//! Builds the console: npm in its directory, as the lock file says.
//!
//! The next build of the server embeds the result (`crates/server/build.rs`). Not here: the tests
//! of the console (`crates/tidegate/tests/it/serve/console.rs`).

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::steps::start_error;

/// Arguments of the calls of npm.
const STEPS: [&[&str]; 2] = [&["ci"], &["run", "build"]];

/// Installs the dependencies of the console, and builds it.
pub(crate) fn build(root: &Path) -> Result<()> {
    let mut probe = Command::new("npm");
    let probe = probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        let install = "apt-get install nodejs npm";
        return Err(Error::ToolMissing { tool: "npm", install });
    }
    STEPS.iter().try_for_each(|args| run(root, args)) // xtask-2
}

fn run(root: &Path, args: &[&str]) -> Result<()> {
    let command = format!("npm {}", args.join(" "));
    println!("xtask: console: {command}");
    let mut npm = Command::new("npm");
    let status = npm.args(args).current_dir(root.join("console")).status();
    let status = status.map_err(start_error(&command))?;
    if status.success() { Ok(()) } else { Err(Error::Failed { command, status }) }
}
