//! An error and what caused it, as one sentence for people; and text of others as what a terminal
//! and a log can show.
//!
//! - SN1. A sentence says each thing once, although every level of errors adds its own part, and
//!   speaks of the machine in plain words, without numbers of errors.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;

/// The message of an error and of its causes (SN1).
pub fn sentence(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(part) = next {
        next = part.source();
        let message = plain_words(&part.to_string());
        if text.contains(&message) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&message);
    }
    text
}

/// `No such file or directory (os error 2)` without the number, and in our own case.
fn plain_words(message: &str) -> String {
    let Some((words, _)) = message.split_once(" (os error ") else { return message.to_owned() };
    let mut characters = words.chars();
    let first = characters.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// A text of others as one line that a terminal shows as it is: control characters (C0, DEL, C1),
/// and those that end lines, reorder what stands beside them, or are not seen, are escaped as Rust
/// writes them. A backslash stays: what is escaped cannot be told from what was written so.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) {
            write!(shown, "{}", character.escape_default()).expect("a String takes everything");
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// True if a character does something else than being seen.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Soft hyphen, Arabic letter mark, Mongolian vowel separator.
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            // Zero-width characters, marks of direction.
            | '\u{200b}'..='\u{200f}'
            // Ends of lines and paragraphs, embeddings and overrides of direction.
            | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates of direction.
            | '\u{2060}'..='\u{206f}'
            // Byte order mark, annotations, tags.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use thiserror::Error;

    use super::*;
    use crate::{Disk, OpenMode, RealDisk};

    #[derive(Debug, Error)]
    #[error("read the schema")]
    struct Purpose {
        source: crate::Error,
    }

    #[test]
    fn a_chain_becomes_one_sentence_in_plain_words() {
        let path = Path::new("/nowhere/hits.sql");
        let source = RealDisk.open(path, OpenMode::Read).unwrap_err();
        let expected = "read the schema: open /nowhere/hits.sql: no such file or directory";
        assert_eq!(sentence(&Purpose { source }), expected, "SN1");
    }

    #[test]
    fn what_does_something_else_than_being_seen_is_escaped() {
        for (text, expected) in [
            ("plain text \u{e9}\u{4e2d}\u{1f600}", "plain text \u{e9}\u{4e2d}\u{1f600}"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\0\u{7f}\u{9b}31m", "\\u{0}\\u{7f}\\u{9b}31m"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("a\u{2028}b\u{200b}", "a\\u{2028}b\\u{200b}"),
        ] {
            assert_eq!(printable(text), expected);
            assert!(!printable(text).contains(is_hidden));
        }
    }

    #[test]
    fn what_was_said_is_not_repeated() {
        #[derive(Debug, Error)]
        #[error("open x: {source}")]
        struct Outer {
            source: io::Error,
        }
        let source = io::Error::other("disk on fire");
        assert_eq!(sentence(&Outer { source }), "open x: disk on fire", "SN1");
    }
}
