//! An error and what caused it, as one sentence for people.
//!
//! - SN1. A sentence says each thing once, although every level of errors adds its own part, and
//!   speaks of the machine in plain words, without numbers of errors.

use std::error::Error;

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
