//! Runs a command as it would be typed.

use std::fs;
use std::path::Path;

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
