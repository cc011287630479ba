//! A script of several statements, and their places in it.

use std::path::PathBuf;

use tidegate_query::split_statements;

use crate::error::{Error, RemoteError};

/// Statements, perhaps from a file.
pub(crate) struct Script {
    text: String,
    file: Option<PathBuf>,
}

impl Script {
    pub(crate) fn new(text: String, file: Option<PathBuf>) -> Script {
        Script { text, file }
    }

    /// Returns the statements in order.
    ///
    /// Blanks replace the text before each of them, so that lines and columns in its errors are
    /// those of the script.
    pub(crate) fn statements(&self) -> impl Iterator<Item = String> {
        let statements = split_statements(&self.text);
        statements.into_iter().map(|(offset, statement)| {
            let mut text = blanks(&self.text[..offset]);
            text.push_str(statement);
            text
        })
    }

    /// Adds the name of the file, if there is one, to an error.
    pub(crate) fn place(&self, error: Error) -> Error {
        match (error, &self.file) {
            (
                error @ (Error::Query(_) | Error::Remote(RemoteError::Statement { .. })),
                Some(file),
            ) => Error::Script { file: file.clone(), source: Box::new(error) },
            (error, _) => error,
        }
    }
}

/// Returns as many lines as `before` has, and as many blanks as its last line has characters.
fn blanks(before: &str) -> String {
    let (lines, last) = before.rsplit_once('\n').unwrap_or(("", before));
    let mut text = if before.contains('\n') {
        "\n".repeat(lines.matches('\n').count() + 1)
    } else {
        String::new()
    };
    text.extend(std::iter::repeat_n(' ', last.chars().count()));
    text
}

/// Returns the first words of a statement, behind blanks and comments.
pub(super) fn words(statement: &str) -> impl Iterator<Item = &str> {
    let mut rest = statement.trim_start();
    std::iter::from_fn(move || {
        loop {
            let behind = if rest.starts_with("--") {
                rest.split_once('\n')
            } else if rest.starts_with("/*") {
                rest.split_once("*/")
            } else {
                break;
            };
            rest = behind?.1.trim_start();
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind.trim_start();
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_keep_their_place() {
        let script = Script::new("SELECT 1;\n-- x\n  SELECT ';'; SELECT 3".to_owned(), None);
        let statements: Vec<String> = script.statements().collect();
        assert_eq!(statements[0], "SELECT 1");
        assert_eq!(statements[1], "\n\n  SELECT ';'");
        assert_eq!(statements[2], format!("\n\n{}SELECT 3", " ".repeat(14)));
        assert_eq!(statements.len(), 3);
    }

    #[test]
    fn blanks_keep_the_lines_and_width_of_the_text() {
        for (text, expected) in [("", ""), ("ab", "  "), ("a\n", "\n"), ("a\n\n\u{e4}", "\n\n ")] {
            assert_eq!(blanks(text), expected, "{text:?}");
        }
    }
}
