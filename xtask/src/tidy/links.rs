//! Links in prose: every relative one leads to a file, a directory or a heading that exists.
//!
//! - A link is read as on the project's page: relative to its file, inside the repository, and
//!   with exact upper and lower case, also on a file system that ignores case.
//!
//! Code does not count, fenced or between backticks. Not here: links that leave the repository
//! (they need the network) and links in doc comments (rustdoc finds those).

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Finding;
use crate::tidy::tree::Tree;

/// Returns the dead links of the file `text` at `path`.
pub(crate) fn findings(path: &str, text: &str, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, prose) in prose(text) {
        for target in targets(&without_code(prose)) {
            let finding = fault(path, &target, tree).map(|what| Finding::new(path, line, what));
            findings.extend(finding);
        }
    }
    findings
}

/// Returns the fault of a link to `target` in the file `from`, if it has one.
fn fault(from: &str, target: &str, tree: &Tree) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(from, file) else {
        return Some(format!("the link to `{target}` leaves the repository"));
    };
    if !tree.contains(&path) {
        return Some(format!("the link to `{target}` leads nowhere"));
    }
    let has_headings = !heading.is_empty() && path.ends_with(".md");
    let text = tree.text(&path).filter(|_| has_headings)?;
    (!anchors(text).contains(heading))
        .then(|| format!("the link to `{target}` leads to no heading of {path}"))
}

/// Returns the path that `file` means in the file `from`; none if it is outside the repository.
fn resolve(from: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if file.starts_with('/') {
        return None;
    }
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns the lines outside of fenced code, counted from 1.
pub(crate) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut fence: Option<&str> = None;
    for (line, text) in (1..).zip(text.lines()) {
        let marks = fence_marks(text);
        match fence {
            None if marks.len() >= 3 => fence = Some(marks),
            None => lines.push((line, text)),
            // A fence is closed by the same marks, at least as many, with nothing behind them.
            Some(open) if marks.starts_with(open) && text.trim() == marks => fence = None,
            Some(_) => {}
        }
    }
    lines
}

/// Returns the backticks or tildes that a line begins with.
fn fence_marks(line: &str) -> &str {
    let line = line.trim_start();
    let mark = if line.starts_with('~') { '~' } else { '`' };
    &line[..line.len() - line.trim_start_matches(mark).len()]
}

/// Returns `line` without the text between equal numbers of backticks.
pub(crate) fn without_code(line: &str) -> String {
    let mut prose = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        prose.push_str(before);
        let body = from.trim_start_matches('`');
        let marks = &from[..from.len() - body.len()];
        rest = match find_marks(body, marks.len()) {
            Some(end) => &body[end + marks.len()..],
            None => {
                prose.push_str(marks);
                body
            }
        };
    }
    prose.push_str(rest);
    prose
}

/// Returns the offset of exactly `count` backticks in a row.
fn find_marks(text: &str, count: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = text[at..].find('`') {
        let start = at + next;
        let run = text[start..].bytes().take_while(|&byte| byte == b'`').count();
        if run == count {
            return Some(start);
        }
        at = start + run;
    }
    None
}

/// Returns the targets of the links in a line: `[text](target)`, `![text](target)`,
/// `[name]: target`, and `href` or `src` of HTML.
fn targets(line: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (at, _) in line.match_indices("](") {
        targets.push(target(&line[at + 2..], ')'));
    }
    for opening in ["href=\"", "src=\""] {
        for (at, _) in line.match_indices(opening) {
            targets.push(target(&line[at + opening.len()..], '"'));
        }
    }
    let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    if let Some((_, rest)) = definition.filter(|(name, _)| !name.contains([']', '^'])) {
        targets.push(target(rest.trim_start(), '\n'));
    }
    targets
}

/// Returns the target that `rest` begins with, up to `close` or a title. It may have brackets in
/// pairs, or stand in angle brackets.
fn target(rest: &str, close: char) -> String {
    if let Some(angled) = rest.strip_prefix('<') {
        return angled.split('>').next().unwrap_or_default().to_owned();
    }
    let mut depth = 0_usize;
    let ends = |c: char| {
        let inner = depth > 0;
        match c {
            '(' => depth += 1,
            ')' if inner => depth -= 1,
            _ => {}
        }
        c.is_whitespace() || (c == close && !(inner && c == ')'))
    };
    rest.split(ends).next().unwrap_or_default().to_owned()
}

/// Returns the names that a link can have behind `#`: every heading, as code hosts spell it, and
/// every HTML id.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut repeats: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in prose(text) {
        for opening in ["id=\"", "name=\""] {
            for (at, _) in line.match_indices(opening) {
                anchors.insert(target(&line[at + opening.len()..], '"'));
            }
        }
        let Some(heading) = heading(line) else { continue };
        let anchor = anchor(heading);
        let count = repeats.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// Returns the text of a line such as `## Text`.
fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    ((1..=6).contains(&level) && rest.starts_with(' ')).then(|| rest.trim().trim_end_matches(" #"))
}

/// Returns the anchor of a heading: `4. Lints and tools` becomes `4-lints-and-tools`. Letters,
/// digits, `-` and `_` stay, spaces become `-`.
fn anchor(heading: &str) -> String {
    let mut anchor = String::new();
    for c in heading_text(heading).chars().flat_map(char::to_lowercase) {
        match c {
            ' ' => anchor.push('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => anchor.push(c),
            _ => {}
        }
    }
    anchor
}

/// Returns a heading without the targets of its links, which are not part of its anchor.
fn heading_text(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_a_folder_or_a_heading() {
        check("[a](format.md) and [b](../README.md)", "");
        check("![a](format.md \"title\") and [b](<format.md>)", "");
        check("[a](../docs) and [b](../docs/) and [c](..)", "");
        check("[a](#wal-segments) and [b](format.md#wal-segments)", "");
        check("[a](../README.md#1-first)", "");
        check("[a]: format.md \"title\"", "");
        check("<a href=\"format.md\"><img src=\"../README.md\"></a>", "");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_a_finding() {
        for target in ["gone.md", "Format.md", "format.md/more", "../docs.md", "format.md.md"] {
            let expected = format!("the link to `{target}` leads nowhere");
            check(&format!("[a]({target})"), &expected);
            check(&format!("[a]({target} \"title\")"), &expected);
            check(&format!("[a](<{target}>)"), &expected);
            check(&format!("[a]: {target}"), &expected);
            check(&format!("<a href=\"{target}\">"), &expected);
        }
    }

    #[test]
    fn a_heading_that_is_not_there_is_a_finding() {
        check("[a](#gone)", "the link to `#gone` leads to no heading of docs/format.md");
        let expected = "the link to `../README.md#First` leads to no heading of README.md";
        check("[a](../README.md#First)", expected);
    }

    #[test]
    fn a_link_stays_in_the_repository() {
        check("[a](../../x.md)", "the link to `../../x.md` leaves the repository");
        check("[a](/README.md)", "the link to `/README.md` leaves the repository");
    }

    #[test]
    fn what_is_outside_or_code_is_not_followed() {
        check("[a](https://example.org/gone.md#gone) [b](mailto:a@example.org)", "");
        check("`[a](gone.md)` and ``[b](`gone.md)``", "");
        check("[^1]: a footnote", "");
        check("```text\n[a](gone.md)\n```", "");
        check("~~~\n```\n[a](gone.md)\n~~~", "");
    }

    #[test]
    fn prose_goes_on_behind_code() {
        let gone = "the link to `gone.md` leads nowhere";
        check("`code` [a](gone.md)", gone);
        check("a ` alone [a](gone.md)", gone);
        check("```\ncode\n```\n[a](gone.md)", gone);
        check("[`code`](gone.md)", gone);
    }

    #[test]
    fn brackets_in_a_target_come_in_pairs() {
        check("([a](format.md)) and ([b](gone(1).md))", "the link to `gone(1).md` leads nowhere");
    }

    #[test]
    fn an_anchor_is_spelled_as_code_hosts_do() {
        for (heading, expected) in [
            ("4. Lints and tools", "4-lints-and-tools"),
            ("`seq_txn`, the number", "seq_txn-the-number"),
            ("Reads & writes", "reads--writes"),
            ("See [the format](format.md) first", "see-the-format-first"),
        ] {
            assert_eq!(anchor(heading), expected, "{heading}");
        }
    }

    #[test]
    fn a_repeated_heading_is_counted() {
        let anchors = anchors("# A\n## A\n```\n# B\n```\n#C\n<a id=\"d\"></a>\n# E #\n");
        assert_eq!(anchors.into_iter().collect::<Vec<_>>(), ["a", "a-1", "d", "e"]);
    }

    /// Checks the links of `text`, which stands in docs/format.md below a heading.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let text = format!("# WAL segments\n{text}\n");
        let tree = Tree::of(&[("README.md", "# 1. First\n"), ("docs/format.md", &text)]);
        let findings = findings("docs/format.md", &text, &tree);
        let lines: Vec<&str> = findings.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(lines.join("\n"), expected, "{text}");
    }
}
