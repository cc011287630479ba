//! A committed list of differences from another database: reasons, and below each the lines it
//! explains.
//!
//! The list only shrinks: a difference that is not listed is an error, and so is a listed line that
//! does not differ any more.

use std::collections::BTreeMap;

/// The reason of lines that were not yet examined.
const NEW: &str = "NEW";

/// Lines, each with its reason.
#[derive(Debug, Default)]
pub(crate) struct Reasons(BTreeMap<String, String>);

impl Reasons {
    /// Returns a list of lines without reasons.
    pub(crate) fn without_reasons(lines: impl IntoIterator<Item = String>) -> Reasons {
        Reasons(lines.into_iter().map(|line| (line, String::new())).collect())
    }

    pub(crate) fn parse(text: &str) -> Reasons {
        let mut reason = String::new();
        let mut all = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.strip_prefix("# ") {
                Some(told) => told.clone_into(&mut reason),
                None => drop(all.insert(line.to_owned(), reason.clone())),
            }
        }
        Reasons(all)
    }

    /// Returns the errors of the list.
    pub(crate) fn compare(&self, actual: &Reasons) -> Vec<String> {
        let unlisted = actual.0.keys().filter(|line| !self.0.contains_key(*line));
        let gone = self.0.keys().filter(|line| !actual.0.contains_key(*line));
        let unreasoned = self.0.iter().filter(|(_, reason)| reason.is_empty() || *reason == NEW);
        let unlisted = unlisted.map(|line| format!("differs, and is not listed: {line}"));
        let gone = gone.map(|line| format!("is listed, and does not differ: {line}"));
        let unreasoned = unreasoned.map(|(line, _)| format!("has no reason: {line}"));
        unlisted.chain(gone).chain(unreasoned).collect()
    }

    /// Returns the text of the list, with the reasons of an older list.
    pub(crate) fn with_reasons_of(&self, older: &Reasons) -> String {
        let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
        for line in self.0.keys() {
            let reason = older.0.get(line).map_or(NEW, String::as_str);
            reasons.entry(reason).or_default().push(line);
        }
        let mut text = String::new();
        for (reason, lines) in reasons {
            text.push_str(&format!("# {reason}\n{}\n\n", lines.join("\n")));
        }
        text
    }
}
