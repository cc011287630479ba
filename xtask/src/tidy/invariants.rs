//! Numbered invariants: unique in the workspace, named after their module, and cited (STYLE 6).
//!
//! - An invariant is a line `- wal-2. ...` of a module's header. Its name is that of the module,
//!   or, if several modules with invariants have that name, the name of the parent before it:
//!   `segment_verify-1`.
//! - A citation is the same number in another comment or in a string: of an assert, a SAFETY
//!   comment, a test.
//!
//! Not here: the meaning of an invariant, and whether the place that cites it keeps it.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Finding;
use crate::tidy::tree::Tree;

/// This file: its tests have examples of numbers.
const HERE: &str = "xtask/src/tidy/invariants.rs";

/// The place of a number.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    line: usize,
}

/// Returns the findings about the invariants of all crates.
pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut defined: BTreeMap<&str, Vec<Place<'_>>> = BTreeMap::new();
    let mut cited: BTreeMap<&str, Place<'_>> = BTreeMap::new();
    for (path, text) in sources(tree) {
        for (line, text) in (1..).zip(text.lines()) {
            let place = Place { path, line };
            let label = text.strip_prefix("//! - ").and_then(label);
            if let Some(code) = label.filter(|label| is_old_number(label)) {
                let what = format!("`{code}`: number it after its module, or not (STYLE 6)");
                findings.push(Finding::new(path, line, what));
            }
            if let Some(number) = label.filter(|label| name_of(label).is_some()) {
                defined.entry(number).or_default().push(place);
                continue;
            }
            if !text.starts_with("//!") {
                for number in numbers(text) {
                    cited.entry(number).or_insert(place);
                }
            }
        }
    }
    findings.extend(definitions(&defined, &cited));
    let names: BTreeSet<&str> = defined.keys().filter_map(|number| name_of(number)).collect();
    for (number, place) in cited {
        let is_of_module = name_of(number).is_some_and(|name| names.contains(name));
        if is_of_module && !defined.contains_key(number) {
            let what = format!("`{number}` is in no header (STYLE 6)");
            findings.push(Finding::new(place.path, place.line, what));
        }
    }
    findings
}

/// Checks the numbers in headers: each once, with the name of its module, and cited.
fn definitions<'a>(
    defined: &BTreeMap<&'a str, Vec<Place<'a>>>,
    cited: &BTreeMap<&str, Place<'_>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, places) in defined {
        let first = places[0];
        if let Some(second) = places.get(1) {
            let what = format!("`{number}` is in the header of {} too (STYLE 6)", first.path);
            findings.push(Finding::new(second.path, second.line, what));
        }
        let name = name_of(number).expect("it is a number");
        if !module_names(first.path).iter().any(|own| own == name) {
            let what = format!("`{number}`: number it after its module (STYLE 6)");
            findings.push(Finding::new(first.path, first.line, what));
        }
        if !cited.contains_key(number) {
            let what = format!("`{number}` is cited nowhere: drop the number (STYLE 6)");
            findings.push(Finding::new(first.path, first.line, what));
        }
    }
    findings
}

/// The sources of all crates, without the tests of this module, which have examples.
fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let files = tree.files().filter(|(path, _)| path.ends_with(".rs") && *path != HERE);
    files.filter_map(|(path, file)| Some((path, file.text.as_deref()?)))
}

/// Returns the label of an item of a list, before its first point.
fn label(item: &str) -> Option<&str> {
    let (label, _) = item.split_once(". ")?;
    (!label.contains(' ')).then_some(label)
}

/// Returns true for a number without a module: letters and digits, as in `W2`.
fn is_old_number(label: &str) -> bool {
    let digits = label.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let letters = label.len() - digits.len();
    (1..=3).contains(&letters) && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the module's name in a number such as `wal-2`; none if it is not a number.
fn name_of(number: &str) -> Option<&str> {
    let (name, digits) = number.split_once('-')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let is_count = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (is_name && is_count).then_some(name)
}

/// Returns all words of a line that look like numbers.
fn numbers(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
    words.filter(|word| name_of(word).is_some())
}

/// Returns the names that a module may give its invariants: its own, and that with its parent's.
fn module_names(path: &str) -> [String; 2] {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    parts.retain(|part| !["src", "tests", "it", "lib", "main"].contains(part));
    let own = parts.last().copied().unwrap_or_default().to_owned();
    let parent = parts.len().checked_sub(2).map_or("", |at| parts[at]);
    [own.clone(), format!("{parent}_{own}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAL: &str = "crates/x/src/wal.rs";
    const HEADER: &str = "//! The log.\n//!\n//! - wal-1. A group is whole.\n//! - A bullet.\n";

    #[test]
    fn a_number_in_a_header_is_cited_by_code() {
        let missing = "crates/x/src/wal.rs:3: `wal-1` is cited nowhere: drop the number (STYLE 6)";
        check(&[(WAL, HEADER)], missing);
        check(&[(WAL, HEADER), ("crates/x/src/a.rs", "//! As in wal-1.\n")], missing);
        check(&[(WAL, HEADER), ("crates/x/src/a.rs", "assert!(a, \"wal-1\");")], "");
        check(&[(WAL, HEADER), ("crates/y/tests/it/a.rs", "// Holds by wal-1.\n")], "");
    }

    #[test]
    fn a_cited_number_is_in_a_header() {
        let found = "crates/x/src/a.rs:1: `wal-2` is in no header (STYLE 6)";
        check(&[(WAL, HEADER), ("crates/x/src/a.rs", "// wal-1 and wal-2\n")], found);
        check(&[(WAL, HEADER), ("crates/x/src/a.rs", "// wal-1 of utf-8\n")], "");
    }

    #[test]
    fn a_number_is_unique_and_has_the_name_of_its_module() {
        let again = "crates/y/src/wal.rs:3: `wal-1` is in the header of crates/x/src/wal.rs too";
        let other = ("crates/y/src/wal.rs", HEADER);
        check(&[(WAL, &format!("{HEADER}// wal-1")), other], &format!("{again} (STYLE 6)"));
        let wrong = "crates/x/src/log.rs:3: `wal-1`: number it after its module (STYLE 6)";
        check(&[("crates/x/src/log.rs", &format!("{HEADER}// wal-1"))], wrong);
        check(&[("crates/x/src/wal/log.rs", "//! - wal_log-1. A.\n// wal_log-1")], "");
    }

    #[test]
    fn a_number_without_a_module_is_refused() {
        let found = "crates/x/src/wal.rs:1: `W1`: number it after its module, or not (STYLE 6)";
        check(&[(WAL, "//! - W1. A group is whole.\n")], found);
        check(&[(WAL, "//! - UTF-8. Text.\n")], "");
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &str) {
        let found = findings(&Tree::of(files));
        let lines = found.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n");
        assert_eq!(lines, expected, "{files:?}");
    }
}
