//! Error messages for people: an error and its causes as one sentence, and foreign text in a form
//! that is safe in a terminal and a log.
//!
//! - sentence-1. A sentence says each thing once, although every level of errors adds its own part,
//!   and describes errors of the machine in words, without error numbers. For one that an
//!   administrator can remove with a command, it names that.
//! - sentence-2. It has at most `SENTENCE_BYTES`, whatever it quotes: a name or a value of
//!   megabytes is cut in its middle, so that the text after it is kept.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;
use std::io;

/// Bytes of a sentence (sentence-2), and of the part that follows a cut.
const SENTENCE_BYTES: usize = 4 << 10;
const TAIL_BYTES: usize = 1 << 10;
/// The mark in place of the part that was cut out.
const CUT: &str = " \u{2026} ";
/// The command for the limit of open files.
const FILES_COMMAND: &str = "ulimit -n";

/// The message of an error and of its causes (sentence-1, sentence-2).
pub fn sentence(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    let mut has_too_many_files = false;
    while let Some(part) = next {
        next = part.source();
        let number = part.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        has_too_many_files |= number == Some(libc::EMFILE);
        let message = plain_words(&part.to_string());
        if text.contains(&message) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&message);
    }
    if has_too_many_files && !text.contains(FILES_COMMAND) {
        text.push_str(": `");
        text.push_str(FILES_COMMAND);
        text.push_str("` raises the limit of the process");
    }
    brief(text)
}

/// The text, without its middle if it is longer than a sentence (sentence-2).
#[must_use]
pub fn brief(text: String) -> String {
    if text.len() <= SENTENCE_BYTES {
        return text;
    }
    let head = text.floor_char_boundary(SENTENCE_BYTES - TAIL_BYTES - CUT.len());
    let tail = text.ceil_char_boundary(text.len() - TAIL_BYTES);
    [&text[..head], CUT, &text[tail..]].concat()
}

/// `No such file or directory (os error 2)` without the number, and in lower case.
fn plain_words(message: &str) -> String {
    let Some((words, _)) = message.split_once(" (os error ") else { return message.to_owned() };
    let mut characters = words.chars();
    let first = characters.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// Foreign text as one line that a terminal shows literally: control characters (C0, DEL,
/// content-1), and characters that end lines, reorder their neighbours, or are invisible, are
/// escaped as Rust writes them. A backslash stays: an escape cannot be distinguished from the same
/// characters in the text.
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

/// Returns true if a character is invisible or affects the text around it.
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
        assert_eq!(sentence(&Purpose { source }), expected, "sentence-1");
    }

    #[test]
    fn too_many_open_files_are_a_limit_that_can_be_raised() {
        let source = io::Error::from_raw_os_error(libc::EMFILE);
        let source = crate::Error::io("open", Path::new("/db/1.seg"))(source);
        assert!(source.is_too_many_files());
        let expected = "read the schema: open /db/1.seg: too many open files: `ulimit -n` raises \
                        the limit of the process";
        assert_eq!(sentence(&Purpose { source }), expected, "sentence-1");
    }

    #[test]
    fn control_characters_are_escaped() {
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

    /// `table `<10 MB>` does not exist` was sent and logged as a whole.
    #[test]
    fn a_long_name_is_cut_in_its_middle() {
        for name in ["x".repeat(10 << 20), "\u{4e2d}".repeat(1 << 20)] {
            let shown = sentence(&io::Error::other(format!("table `{name}` does not exist")));
            assert!(shown.len() <= SENTENCE_BYTES, "sentence-2: {}", shown.len());
            assert!(shown.starts_with("table `") && shown.ends_with("` does not exist"), "{shown}");
            assert!(shown.contains(CUT), "{shown}");
        }
        let exact = "x".repeat(SENTENCE_BYTES);
        assert_eq!(brief(exact.clone()), exact, "sentence-2");
    }

    #[test]
    fn a_cause_that_the_message_already_names_is_not_repeated() {
        #[derive(Debug, Error)]
        #[error("open x: {source}")]
        struct Outer {
            source: io::Error,
        }
        let source = io::Error::other("disk on fire");
        assert_eq!(sentence(&Outer { source }), "open x: disk on fire", "sentence-1");
    }
}
