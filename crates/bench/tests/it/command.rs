//! Runs a command as it would be typed.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio, exit};
use std::thread;

use clap::Parser;
use serde_json::Value;
use tempfile::TempDir;
use tidegate_bench::tsbs::{TsbsCommand, run};

/// An hour of ten hosts.
pub(crate) const SMALL: &str = "--seed 123 --scale 10 --timestamp-end 2016-01-01T01:00:00Z";

/// Where the process of `process` finds what it is to run.
const LINE: &str = "TIDEGATE_TSBS_LINE";

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: TsbsCommand,
}

/// The sentence of its error, if there is one.
pub(crate) fn tsbs(line: &str) -> Result<(), String> {
    let words = std::iter::once("tsbs").chain(line.split_whitespace());
    let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    run(&line.command).map_err(|error| error.sentence())
}

/// A file of generated rows, and what is in it.
pub(crate) fn generated(dir: &TempDir, flags: &str) -> (String, Vec<u8>) {
    let path = dir.path().join("data");
    let path = path.to_str().unwrap().to_owned();
    tsbs(&format!("generate {flags} --file {path}")).unwrap();
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// What a load says in its results file, also when it fails.
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

/// What a process has come to.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The same in a process of its own, to see what it says and with which code it ends.
pub(crate) fn process(line: &str, input: &[u8]) -> Ended {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "command::a_line_runs_in_a_process_of_its_own", "--quiet"])
        .env(LINE, line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // Who reads nothing of it has ended before.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Not a test, but that process: nothing happens unless it has a line to run.
#[test]
fn a_line_runs_in_a_process_of_its_own() {
    let Ok(line) = env::var(LINE) else { return };
    let words = std::iter::once("tsbs").chain(line.split_whitespace());
    let code = match Line::try_parse_from(words) {
        Err(error) => {
            error.print().unwrap();
            error.exit_code()
        }
        Ok(line) => match run(&line.command) {
            Ok(()) => 0,
            Err(error) => {
                // Past the harness, which would keep what `eprintln` writes.
                let _ = writeln!(io::stderr(), "{}", error.sentence());
                if error.is_usage() { 2 } else { 1 }
            }
        },
    };
    exit(code);
}
