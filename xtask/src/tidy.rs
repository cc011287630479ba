//! The rules of STYLE.md that neither the compiler nor a lint checks, as a list of findings.
//!
//! - Every rule is a pure function over the text of a file or the packages of the workspace;
//!   only `tree` and `packages` read anything.
//! - A finding has a place, `path:line: what is wrong`, and its text names the rule.
//!
//! The files are those that git tracks or would add, so that a new file is checked before its
//! commit and ignored files do not count.
//!
//! Not here: dead links in doc comments, which rustdoc finds (step docs), and the bans of
//! clippy.toml.

mod crates;
mod layers;
mod invariants;
mod rust;
mod language;
mod glossary;
mod links;
mod imports;
mod masked;
mod packages;
pub(crate) mod tree;

use std::fmt;
use std::path::Path;

use crate::error::Result;
use crate::tidy::packages::Package;
use crate::tidy::tree::Tree;

/// The guide whose section 6 `crates` reads.
const STYLE: &str = "STYLE.md";

/// Largest size of a file: every clone of the repository has it for ever.
const FILE_BYTES_MAX: u64 = 1_000_000;

/// A broken rule and its place. Findings sort by file, then by line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    /// The number of the line, counted from 1, as editors do.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Returns the findings in the workspace at `root`. Fails only if it cannot be read, or git or
/// cargo cannot be called.
pub(crate) fn findings(root: &Path) -> Result<Vec<Finding>> {
    Ok(check(&tree::read(root)?, &packages::read(root)?))
}

fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let mut findings = crates::findings(tree, packages);
    findings.extend(layers::findings(tree));
    findings.extend(invariants::findings(tree));
    findings.extend(rust::stale_exceptions(tree));
    for (path, file) in tree.files() {
        findings.extend(size(path, file.bytes));
        let Some(text) = &file.text else { continue };
        if path.ends_with(".rs") {
            findings.extend(rust::findings(path, text));
            findings.extend(language::rust_findings(path, text));
        } else if path.ends_with(".md") {
            findings.extend(links::findings(path, text, tree));
            findings.extend(language::markdown_findings(path, text));
        }
    }
    findings.sort();
    findings
}

fn size(path: &str, bytes: u64) -> Option<Finding> {
    (FILE_BYTES_MAX < bytes).then(|| {
        let what = format!("{bytes} bytes: above {FILE_BYTES_MAX}, a file does not belong in git");
        Finding::new(path, 1, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check itself: `cargo test` runs tidy by this test.
    #[test]
    fn the_workspace_is_tidy() {
        let findings = findings(crate::root()).unwrap();
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
    }

    #[test]
    fn findings_of_all_rules_come_in_the_order_of_the_files() {
        let tree = Tree::of(&[
            ("b.rs", "fn main() {}\n"),
            ("a.md", "[gone](gone.md)\n"),
            ("STYLE.md", "| level | crate |\n|---|---|\n"),
        ]);
        let mut findings = check(&tree, &[]);
        // This tree lacks the crates that lists of exceptions name.
        findings.retain(|finding| tree.contains(&finding.path));
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(
            lines,
            [
                "a.md:1: the link to `gone.md` leads nowhere",
                "b.rs:1: does not open with `//!` and what the file is (STYLE 2)",
            ]
        );
    }

    #[test]
    fn a_file_above_a_megabyte_is_too_large() {
        assert_eq!(size("a.bin", FILE_BYTES_MAX), None);
        assert_eq!(
            size("a.bin", FILE_BYTES_MAX + 1).unwrap().to_string(),
            "a.bin:1: 1000001 bytes: above 1000000, a file does not belong in git"
        );
    }
}
