//! Runs a command, in this process or as the program.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use clap::Parser;
use serde_json::Value;
use tempfile::TempDir;
use tidegate_bench::tsbs::{TsbsCommand, run};

/// An hour of ten hosts.
pub(crate) const SMALL: &str = "--seed 123 --scale 10 --timestamp-end 2016-01-01T01:00:00Z";

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: TsbsCommand,
}

/// Runs a command, and returns the sentence of its error, if there is one.
pub(crate) fn tsbs(line: &str) -> Result<(), String> {
    let words = std::iter::once("tsbs").chain(line.split_whitespace());
    let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    run(&line.command).map_err(|error| error.sentence())
}

/// Generates a file of rows, and returns its path and its content.
pub(crate) fn generated(dir: &TempDir, flags: &str) -> (String, Vec<u8>) {
    let path = dir.path().join("data");
    let path = path.to_str().unwrap().to_owned();
    tsbs(&format!("generate {flags} --file {path}")).unwrap();
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// Runs a load, and returns its outcome and its results file, which it writes also if it fails.
pub(crate) fn load(dir: &TempDir, line: &str) -> (Result<(), String>, Value) {
    let path = dir.path().join("results.json");
    let _ = fs::remove_file(&path);
    let outcome =
        tsbs(&format!("load {line} --reporting-period 0 --results-file {}", path.display()));
    (outcome, results(&path))
}

fn results(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str::<Value>(&text).unwrap_or_default()["tidegate"].clone()
}

/// The outcome of a process.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command of the suite as the program, for its output and its exit code.
pub(crate) fn process(line: &str, input: &[u8]) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate-bench"))
        .arg("tsbs")
        .args(line.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // A process that does not read its input has ended before.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
