//! The rules for a single `.rs` file: its first line, its length, its columns, ASCII, `unsafe`, and
//! the parameters of its functions.
//!
//! Not here: rules that rustfmt or a lint checks.

use crate::tidy::Finding;
use crate::tidy::glossary;
use crate::tidy::masked::{header, line_with_word, mask};
use crate::tidy::tree::Tree;

/// Most columns of a line (STYLE 7).
const COLUMNS_MAX: usize = 100;

/// Most lines of a file (STYLE 7), without the tests at its end.
const FILE_LINES_MAX: usize = 800;

/// Files above `FILE_LINES_MAX`, with their length. An entry only ever goes down: a new one is a
/// file that should have been split.
const LONG_FILES: &[(&str, usize)] = &[];

/// Crates that may contain `unsafe` (STYLE 34).
const UNSAFE_CRATES: [&str; 4] = ["platform", "filter", "storage", "ingest"];

/// Returns the findings in the file `text` at `path`.
pub(crate) fn findings(path: &str, text: &str) -> Vec<Finding> {
    let masked = mask(text);
    let mut findings = Vec::new();
    findings.extend(opening(path, text, &masked));
    findings.extend(length(path, lines_without_tests(text), LONG_FILES));
    findings.extend(unsafe_place(path, &masked));
    findings.extend(tuple_parameters(path, &masked));
    findings.extend(glossary::findings(path, text, &masked));
    for (line, text) in (1..).zip(text.lines()) {
        findings.extend(line_finding(text).map(|what| Finding::new(path, line, what)));
    }
    findings
}

/// Returns findings for entries of `LONG_FILES` without a file.
pub(crate) fn stale_exceptions(tree: &Tree) -> Vec<Finding> {
    let gone = LONG_FILES.iter().filter(|(path, _)| tree.text(path).is_none());
    gone.map(|(path, _)| Finding::new(path, 1, "is in LONG_FILES of tidy, and gone")).collect()
}

/// Returns the crate of a file, by its path.
pub(crate) fn crate_of(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, _, ..] => Some(name),
        ["xtask", _, ..] => Some("xtask"),
        _ => None,
    }
}

/// Checks the first line of a file: STYLE 2, and 49 for the file that opens an integration test.
fn opening(path: &str, text: &str, masked: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_test_root = path.ends_with("/tests/it/main.rs");
    let first = text.lines().find(|line| !(is_test_root && *line == "#![cfg(test)]"));
    let says =
        first.and_then(|line| line.strip_prefix("//!")).is_some_and(|is| !is.trim().is_empty());
    if !says {
        let what = "does not open with `//!` and what the file is (STYLE 2)";
        findings.push(Finding::new(path, 1, what));
    }
    if is_test_root && !header(masked).contains("#![cfg(test)]") {
        findings.push(Finding::new(path, 1, "does not open with `#![cfg(test)]` (STYLE 49)"));
    }
    findings
}

fn line_finding(line: &str) -> Option<String> {
    let columns = line.chars().count();
    let mut characters = (1..).zip(line.chars());
    if let Some((column, c)) = characters.find(|(_, c)| !c.is_ascii()) {
        Some(format!("column {column} is U+{:04X}: Rust files are ASCII", u32::from(c)))
    } else if COLUMNS_MAX < columns {
        Some(format!("{columns} columns: {COLUMNS_MAX} are allowed (STYLE 7)"))
    } else {
        None
    }
}

/// Checks the number of lines against the limit, or against the entry of the file among the
/// exceptions.
fn length(path: &str, lines: usize, exceptions: &[(&str, usize)]) -> Option<Finding> {
    let listed = exceptions.iter().find(|(listed, _)| *listed == path).map(|(_, lines)| *lines);
    let what = match listed {
        None if FILE_LINES_MAX < lines => {
            format!("{lines} lines without its tests: {FILE_LINES_MAX} are allowed (STYLE 7)")
        }
        Some(_) if lines <= FILE_LINES_MAX => {
            format!("{lines} lines are within the limit: take it out of LONG_FILES of tidy")
        }
        Some(listed) if listed < lines => {
            format!("{lines} lines without its tests: LONG_FILES of tidy allows {listed}")
        }
        Some(listed) if lines < listed => {
            format!("{lines} lines and not {listed}: lower its entry in LONG_FILES of tidy")
        }
        _ => return None,
    };
    Some(Finding::new(path, 1, what))
}

/// Returns the number of lines before `#[cfg(test)] mod tests { ... }`, if the file ends with that.
fn lines_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    tests_start(&lines).unwrap_or(lines.len())
}

/// Returns the line where the tests begin. rustfmt puts the braces of a top-level module into the
/// first column, and nothing else there.
fn tests_start(lines: &[&str]) -> Option<usize> {
    let start = lines.iter().rposition(|line| *line == "#[cfg(test)]")?;
    let open = start + lines[start..].iter().position(|line| *line == "mod tests {")?;
    let mut between = lines[start..open].iter();
    let attributes = between.all(|line| line.starts_with(['#', ' ', ')']));
    let close = open + lines[open..].iter().position(|line| *line == "}")?;
    let last = lines.iter().rposition(|line| !line.is_empty())?;
    (attributes && close == last).then_some(start)
}

/// Checks that a file with `unsafe` may have it (STYLE 34).
fn unsafe_place(path: &str, masked: &str) -> Option<Finding> {
    let line = line_with_word(masked, "unsafe")?;
    if !crate_of(path).is_some_and(|name| UNSAFE_CRATES.contains(&name)) {
        let crates = UNSAFE_CRATES.join(", ");
        return Some(Finding::new(path, line, format!("unsafe outside of {crates} (STYLE 34)")));
    }
    let expected = header(masked).contains("#![expect(unsafe_code,");
    (!expected).then(|| {
        let what = "unsafe without `#![expect(unsafe_code, reason = ...)]` on top (STYLE 34)";
        Finding::new(path, line, what)
    })
}

/// Checks that no parameter is a tuple that the signature takes apart (STYLE 19).
fn tuple_parameters(path: &str, masked: &str) -> Vec<Finding> {
    let what = "a tuple that the signature takes apart: name its parts or make a struct (STYLE 19)";
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let functions = masked.match_indices("fn ").map(|(at, _)| at);
    let functions = functions.filter(|&at| !masked[..at].ends_with(is_name));
    let starts = functions.flat_map(|at| parameter_starts(masked.as_bytes(), at + 3));
    let tuples = starts.filter(|&start| is_tuple(&masked[start..]));
    let line = |start: usize| {
        let blank = masked[start..].len() - masked[start..].trim_start().len();
        masked[..start + blank].matches('\n').count() + 1
    };
    tuples.map(|start| Finding::new(path, line(start), what)).collect()
}

/// Returns the starts of the parameters of the function whose name is at `name`.
fn parameter_starts(masked: &[u8], name: usize) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut depth = 0_usize;
    for at in name..masked.len() {
        match masked[at] {
            b'(' if depth == 0 => {
                starts.push(at + 1);
                depth = 1;
            }
            b',' if depth == 1 && !starts.is_empty() => starts.push(at + 1),
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if matches!(masked[at - 1], b'-' | b'=') => {}
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 && !starts.is_empty() {
            break;
        }
    }
    starts
}

/// Returns true if a parameter is a tuple pattern with its type.
fn is_tuple(parameter: &str) -> bool {
    let mut pattern = parameter.trim_start();
    for prefix in ["&", "mut "] {
        pattern = pattern.strip_prefix(prefix).unwrap_or(pattern);
    }
    let mut depth = 0_usize;
    let end = pattern.find(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    let behind = pattern.starts_with('(').then_some(end).flatten().map(|end| &pattern[end + 1..]);
    behind.is_some_and(|behind| behind.trim_start().starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_takes_no_tuple_apart() {
        let bad = "a tuple that the signature takes apart: name its parts or make a struct";
        let bad = |line: usize| format!("{line}: {bad} (STYLE 19)");
        check("a.rs", "//! A.\nfn a((b, c): (u8, u8)) {}\n", &bad(2));
        check("a.rs", "//! A.\nfn a(b: u8, &(c, d): &(u8, u8)) {}\n", &bad(2));
        check("a.rs", "//! A.\nfn a<F: Fn(u8) -> u8>(\n    b: F,\n    (c, d): C,\n) {}\n", &bad(4));
        check("a.rs", "//! A.\nfn a(b: Map<u8, u8>, mut (c, d): C) {}\n", &bad(2));
        for fine in [
            "fn a(b: (u8, u8)) -> (u8, u8) {}",
            "fn a(B(c): B, f: impl Fn((u8, u8)), d: &(u8, u8)) {}",
            "fn a() { b.map(|(c, d): (u8, u8)| c) }",
            "fn a((b, c) in pairs()) {}",
            "// fn a((b, c): (u8, u8)) {}",
        ] {
            check("a.rs", &format!("//! A.\n{fine}\n"), "");
        }
    }

    #[test]
    fn a_file_opens_with_what_it_is() {
        check("a.rs", "//! A.\n", "");
        let bad = "1: does not open with `//!` and what the file is (STYLE 2)";
        check("a.rs", "", bad);
        check("a.rs", "\n//! A.\n", bad);
        check("a.rs", "//!\n//! A.\n", bad);
        check("a.rs", "// A.\n", bad);
        check("a.rs", "#![no_main]\n//! A.\n", bad);
    }

    #[test]
    fn an_integration_test_opens_with_cfg_test() {
        let main = "crates/storage/tests/it/main.rs";
        check(main, "//! A.\n#![cfg(test)]\nmod crash;\n", "");
        check(main, "#![cfg(test)]\n//! A.\nmod crash;\n", "");
        check(main, "//! A.\nmod crash;\n", "1: does not open with `#![cfg(test)]` (STYLE 49)");
        check("crates/storage/tests/it/crash.rs", "//! A.\n", "");
    }

    #[test]
    fn a_line_is_ascii_and_at_most_100_columns() {
        check("a.rs", &format!("//! {}\n", "x".repeat(96)), "");
        let bad = "1: 101 columns: 100 are allowed (STYLE 7)";
        check("a.rs", &format!("//! {}\n", "x".repeat(97)), bad);
        let bad = "2: column 9 is U+2026: Rust files are ASCII";
        check("a.rs", "//! A.\nlet a = \u{2026};\n", bad);
    }

    #[test]
    fn tests_at_the_end_do_not_count() {
        let tests = "#[cfg(test)]\nmod tests {\n    fn a() {}\n}\n";
        check_lines(&format!("//! A.\n\n{tests}"), 2);
        let silenced = tests.replace("mod", "#[expect(\n    dead_code,\n)]\nmod");
        check_lines(&format!("//! A.\n\n{silenced}"), 2);
    }

    #[test]
    fn tests_count_where_code_follows_or_the_module_is_another() {
        check_lines("//! A.\n#[cfg(test)]\nmod tests {\n}\nfn b() {}\n", 5);
        check_lines("//! A.\n#[cfg(test)]\nfn a() {}\nmod tests {\n}\n", 5);
        check_lines("//! A.\n#[cfg(test)]\nmod tests;\n", 3);
        check_lines("//! A.\nmod tests {\n}\n", 3);
        check_lines("", 0);
    }

    #[test]
    fn a_file_has_at_most_800_lines() {
        check_length(800, &[], None);
        check_length(801, &[], Some("801 lines without its tests: 800 are allowed (STYLE 7)"));
    }

    #[test]
    fn an_exception_only_shrinks() {
        let listed = [("a.rs", 900)];
        check_length(900, &listed, None);
        let grown = "901 lines without its tests: LONG_FILES of tidy allows 900";
        check_length(901, &listed, Some(grown));
        let shrunk = "899 lines and not 900: lower its entry in LONG_FILES of tidy";
        check_length(899, &listed, Some(shrunk));
        let split = "800 lines are within the limit: take it out of LONG_FILES of tidy";
        check_length(800, &listed, Some(split));
    }

    #[test]
    fn unsafe_needs_its_header() {
        let code = "//! A.\n#![expect(unsafe_code, reason = \"a\")]\nunsafe fn a() {}\n";
        check("crates/storage/src/kernel.rs", code, "");
        let wrapped = code.replace("unsafe_code, ", "\n    unsafe_code,\n    ");
        check("crates/storage/src/kernel.rs", &wrapped, "");
        let bad = "unsafe without `#![expect(unsafe_code, reason = ...)]` on top (STYLE 34)";
        check("crates/storage/src/wal.rs", "//! A.\nunsafe fn a() {}\n", &format!("2: {bad}"));
        let on_a_function = "//! A.\n#[expect(unsafe_code, reason = \"a\")]\nunsafe fn a() {}\n";
        check("crates/storage/src/wal.rs", on_a_function, &format!("3: {bad}"));
        let named = "//! A.\n#![forbid(unsafe_code)]\n// unsafe\nlet a = \"unsafe\";\n";
        check("crates/model/src/lib.rs", named, "");
    }

    #[test]
    fn unsafe_stays_in_its_four_crates() {
        let code = "//! A.\n#![expect(unsafe_code, reason = \"a\")]\nunsafe fn a() {}\n";
        let bad = "3: unsafe outside of platform, filter, storage, ingest (STYLE 34)";
        check("crates/query/src/scan.rs", code, bad);
        check("fuzz/fuzz_targets/csv.rs", code, bad);
        check("xtask/src/main.rs", code, bad);
        check("crates/platform/src/map.rs", code, "");
    }

    #[track_caller]
    fn check(path: &str, text: &str, expected: &str) {
        let actual = findings(path, text);
        let lines: Vec<String> = actual.iter().map(|f| format!("{}: {}", f.line, f.what)).collect();
        assert_eq!(lines.join("\n"), expected, "{path}\n{text}");
    }

    #[track_caller]
    fn check_lines(text: &str, expected: usize) {
        assert_eq!(lines_without_tests(text), expected, "{text}");
    }

    #[track_caller]
    fn check_length(lines: usize, exceptions: &[(&str, usize)], expected: Option<&str>) {
        let actual = length("a.rs", lines, exceptions).map(|finding| finding.what);
        assert_eq!(actual.as_deref(), expected, "{lines}");
    }
}
