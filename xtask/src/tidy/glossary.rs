//! The rule for names: the field's words, not those of this project's first days (STYLE 2 and A).
//!
//! - A name is split at underscores and capitals, and each of its words is looked up. So `Flush`
//!   and `flush_memtable` pass, `TailBudget` and `seal_run` do not.
//! - Code is read without comments and literals. A name in snake case counts where it is defined
//!   and has few words: the name of a test is a sentence, and its words are English. Constants are
//!   not looked at: the tail of a file or of a distribution is the field's word, too.
//! - Comments are read too, for the words that English hardly needs.
//!
//! Not here: the glossary itself, which is in STYLE.md.

use crate::tidy::Finding;

/// Private words, each with the field's word.
const PRIVATE_WORDS: [(&str, &str); 24] = [
    ("tail", "memtable"),
    ("seal", "flush"),
    ("sealed", "flushed"),
    ("upkeep", "maintenance"),
    ("sweep", "garbage collection"),
    ("caution", "fsync guard"),
    ("cautious", "fsync guard"),
    ("envelope", "checksummed file"),
    ("wish", "commit request"),
    ("fate", "commit outcome"),
    ("gone", "deletes"),
    ("slab", "column buffer"),
    ("strip", "parsed batch"),
    ("deed", "privilege"),
    ("spread", "connection threads"),
    ("dice", "random generator"),
    ("fused", "aggregate pushdown"),
    ("apart", "spawned"),
    ("here", "inline"),
    ("survey", "offline check"),
    ("surveyed", "offline check"),
    ("salvage", "repair replay"),
    ("said", "parsed"),
    ("asked", "requested"),
];

/// Those of them that comments do not use either.
const IN_COMMENTS: [&str; 7] = ["seal", "sealed", "upkeep", "caution", "deed", "slab", "fate"];

/// Names in which such a word has another meaning, which is the field's too.
const FOREIGN: [&str; 1] = ["draw_tail"];

/// Most words of a name in snake case that is looked at: a longer one is a sentence.
const NAME_WORDS_MAX: usize = 3;

/// The file that lists the words.
const HERE: &str = "xtask/src/tidy/glossary.rs";

/// Returns the findings in a Rust file, whose text without comments and literals is `masked`.
pub(crate) fn findings(path: &str, text: &str, masked: &str) -> Vec<Finding> {
    if path == HERE {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, (text, code)) in (1..).zip(text.lines().zip(masked.lines())) {
        for name in names(code) {
            let Some((word, standard)) = private_word(name) else { continue };
            let what = format!("`{name}` has the private word `{word}`: say {standard} (STYLE 2)");
            findings.push(Finding::new(path, line, what));
        }
        findings.extend(comment_word(text).map(|(word, standard)| {
            let what = format!("the private word `{word}` in a comment: say {standard} (STYLE 2)");
            Finding::new(path, line, what)
        }));
    }
    findings
}

/// Returns the names of a line of code that count: types, variants and traits wherever they stand,
/// and names in snake case where they are defined.
fn names(code: &str) -> Vec<&str> {
    const DEFINES: [&str; 3] = ["fn", "mod", "macro_rules"];
    let words: Vec<&str> =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    let before = std::iter::once("").chain(words.iter().copied());
    let counts = |(before, word): &(&str, &str)| {
        let is_constant = !word.contains(|c: char| c.is_ascii_lowercase());
        (word.starts_with(|c: char| c.is_ascii_uppercase()) && !is_constant)
            || (DEFINES.contains(before) && word.split('_').count() <= NAME_WORDS_MAX)
    };
    before.zip(words.iter().copied()).filter(counts).map(|(_, word)| word).collect()
}

fn private_word(name: &str) -> Option<(&'static str, &'static str)> {
    if FOREIGN.contains(&name) {
        return None;
    }
    parts(name).iter().find_map(|part| listed(part))
}

fn listed(word: &str) -> Option<(&'static str, &'static str)> {
    PRIVATE_WORDS.into_iter().find(|(private, _)| *private == word)
}

/// Returns the words of a name in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut was_lower = false;
    for c in name.chars() {
        let starts = parts.is_empty() || c == '_' || (c.is_ascii_uppercase() && was_lower);
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        if starts {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().expect("pushed above").push(c.to_ascii_lowercase());
        }
    }
    parts
}

fn comment_word(line: &str) -> Option<(&'static str, &'static str)> {
    let comment = line.trim_start().strip_prefix("//")?;
    let mut words = comment.split(|c: char| !c.is_alphanumeric()).map(str::to_ascii_lowercase);
    words.find(|word| IN_COMMENTS.contains(&word.as_str())).and_then(|word| listed(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::masked::mask;

    #[test]
    fn types_and_short_names_have_the_words_of_the_field() {
        check("struct Tail;", "1: `Tail` has the private word `tail`: say memtable (STYLE 2)");
        check("fn f(x: TailBudget) {}", "`TailBudget` has the private word `tail`");
        check("const TAIL_BYTES: u8 = 1;", "");
        check("fn seal_run() {}", "`seal_run` has the private word `seal`: say flush");
        check("mod upkeep;", "`upkeep` has the private word `upkeep`: say maintenance");
        check("let outcome = Fate::InDoubt;", "`Fate` has the private word `fate`");
        check("struct Detail;", "");
        check("let tail = 1;", "");
        check("text.strip_prefix(b)", "");
        check("fn a_row_that_is_gone_stays_so() {}", "");
        check("let a = \"struct Tail\";", "");
    }

    #[test]
    fn comments_have_the_words_of_the_field() {
        let what = "1: the private word `upkeep` in a comment: say maintenance (STYLE 2)";
        check("// The upkeep of a table.", what);
        check("// The rows that are gone.", "");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = findings("a", text, &mask(text)).into_iter().map(|it| it.to_string());
        let found = found.collect::<Vec<_>>().join("\n");
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
    }
}
