//! The rules for the language of comments and prose: STYLE, Language A to D.
//!
//! Comments of `.rs` files are read line by line. In `.md` files, code does not count, fenced or
//! between backticks. Not checked: string literals, which reviewers read.

use crate::tidy::Finding;
use crate::tidy::links::{prose, without_code};

/// STYLE B: words with which a doc comment must not begin.
const QUESTION_WORDS: [&str; 10] =
    ["What", "Who", "Whose", "Whom", "Which", "How", "Whether", "When", "Where", "Why"];

/// STYLE B: pronouns for persons. Machines and values are *it*, and people are named by their role.
const PERSONS: [&str; 9] =
    ["whoever", "whomever", "somebody", "nobody", "anybody", "everybody", "he", "his", "him"];

/// Files that quote these words: this one, and the guide that forbids them.
const QUOTING: [&str; 2] = ["xtask/src/tidy/language.rs", "STYLE.md"];

/// The findings in the comments of a Rust file.
pub(crate) fn rust_findings(path: &str, text: &str) -> Vec<Finding> {
    if QUOTING.contains(&path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let Some(comment) = text.trim_start().strip_prefix("//") else { continue };
        if let Some(word) = doc_text(comment).and_then(question_word) {
            let what = format!("a doc comment begins with `{word}` (STYLE B)");
            findings.push(Finding::new(path, line, what));
        }
        findings.extend(person(path, line, comment));
    }
    findings
}

/// The findings in the prose of a Markdown file.
pub(crate) fn markdown_findings(path: &str, text: &str) -> Vec<Finding> {
    if QUOTING.contains(&path) {
        return Vec::new();
    }
    let lines = prose(text).into_iter();
    lines.filter_map(|(line, text)| person(path, line, &without_code(text))).collect()
}

/// Returns the text of a line of a doc comment, of which `comment` is the part after `//`; `None`
/// for a plain comment.
fn doc_text(comment: &str) -> Option<&str> {
    let text = comment.strip_prefix(['/', '!'])?.trim_start();
    Some(text.strip_prefix("- ").unwrap_or(text))
}

fn question_word(text: &str) -> Option<&'static str> {
    let first = text.split(|c: char| !c.is_alphanumeric()).next()?;
    QUESTION_WORDS.into_iter().find(|word| *word == first)
}

fn person(path: &str, line: usize, text: &str) -> Option<Finding> {
    let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let found = PERSONS.into_iter().find(|person| words().any(|w| w.eq_ignore_ascii_case(person)));
    let what = |word| format!("`{word}`: name the user, the client or the thing (STYLE B)");
    found.map(|word| Finding::new(path, line, what(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_comment_begins_with_no_question_word() {
        let what = "1: a doc comment begins with `What` (STYLE B)";
        check(rust_findings, "/// What a table has.", what);
        check(rust_findings, "//! What a table has.", what);
        check(rust_findings, "    /// - What it has.", what);
        check(rust_findings, "/// Whatever a table has.", "");
        check(rust_findings, "/// The rows of a table,\n/// which ascend.", "");
        check(rust_findings, "// What a plain comment asks.", "");
        check(rust_findings, "let a = \"/// What\";", "");
    }

    #[test]
    fn comments_and_prose_name_no_persons() {
        let what = "1: `somebody`: name the user, the client or the thing (STYLE B)";
        check(rust_findings, "// Somebody waits.", what);
        check(rust_findings, "let he = 1;", "");
        check(rust_findings, "// The heap of this.", "");
        check(markdown_findings, "There somebody waits.", what);
        check(markdown_findings, "There `somebody` waits.\n```\nhis\n```", "");
    }

    #[track_caller]
    fn check(findings: fn(&str, &str) -> Vec<Finding>, text: &str, expected: &str) {
        let found = findings("a", text).into_iter().map(|finding| finding.to_string());
        let found = found.map(|line| line.trim_start_matches("a:").to_owned());
        assert_eq!(found.collect::<Vec<_>>().join("\n"), expected, "{text}");
    }
}
