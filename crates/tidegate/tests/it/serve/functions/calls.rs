//! Calls of functions with edge values, generated from lines of text.
//!
//! `=name v | v` defines a list of values. `function: call` is run with all values of each `$name`
//! in it; if there are more than `CALLS_MAX` combinations, with that many, spread evenly.

use std::collections::HashMap;

/// Most calls of a line.
const CALLS_MAX: usize = 30;

/// A statement with edge values.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The line that the call comes from.
    pub(super) template: String,
    pub(super) sql: String,
}

/// A part of a call: text, or a list of values.
enum Part<'a> {
    Text(&'a str),
    Values(&'a [&'a str]),
}

pub(super) fn calls(text: &str) -> Vec<Call> {
    let mut values = HashMap::new();
    let mut calls = Vec::new();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    for line in lines {
        let (name, rest) = line.split_once(' ').expect("a name and what it is");
        match name.strip_prefix('=').filter(|name| name.chars().all(char::is_alphanumeric)) {
            Some(name) => {
                values.insert(name, rest.split(" | ").collect::<Vec<_>>());
            }
            None => calls.extend(of_line(line, &values)),
        }
    }
    calls
}

fn of_line(line: &str, values: &HashMap<&str, Vec<&str>>) -> Vec<Call> {
    let (_, call) = line.split_once(": ").expect("a function and a call");
    let parts = parts(call, values);
    let counts = parts.iter().map(|part| match part {
        Part::Text(_) => 1,
        Part::Values(values) => values.len(),
    });
    let all: usize = counts.product();
    let numbers = (0..all.min(CALLS_MAX)).map(|number| match all <= CALLS_MAX {
        true => number,
        // The second term makes the last values differ from one call to the next.
        false => number * all / CALLS_MAX + (number * 7) % (all / CALLS_MAX),
    });
    let call = |number| {
        let sql = with_values(&parts, number);
        let sql = if sql.starts_with("SELECT ") { sql } else { format!("SELECT {sql}") };
        Call { template: line.to_owned(), sql }
    };
    numbers.map(call).collect()
}

fn parts<'a>(call: &'a str, values: &'a HashMap<&str, Vec<&str>>) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    for (at, text) in call.split('$').enumerate() {
        let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        match values.get(name) {
            Some(values) if at != 0 => parts.extend([Part::Values(values), Part::Text(rest)]),
            _ if at != 0 => parts.extend([Part::Text("$"), Part::Text(text)]),
            _ => parts.push(Part::Text(text)),
        }
    }
    parts
}

/// Returns the call for a combination of values: the last values change first.
fn with_values(parts: &[Part<'_>], mut number: usize) -> String {
    let mut texts = Vec::new();
    for part in parts.iter().rev() {
        texts.push(match part {
            Part::Text(text) => *text,
            Part::Values(values) => {
                let value = values[number % values.len()];
                number /= values.len();
                value
            }
        });
    }
    texts.reverse();
    texts.concat()
}
