//! The text of a simple query, split into its statements.
//!
//! It is split as a whole before any statement is executed, on a blocking thread if it is large
//! (connection-5).

use bytes::Bytes;
use tidegate_query::split_statements;

use crate::pg::command::is_held_back;
use crate::pg::error_response::ErrorResponse;

/// The statements of a text.
pub(super) struct Script {
    pub(super) text: String,
    /// The first byte of each, and the byte after it.
    statements: Vec<(usize, usize)>,
    /// True if all are one transaction.
    pub(super) holds: bool,
}

impl Script {
    /// Returns the most bytes that splitting a text takes: there are at most as many statements as
    /// semicolons, and one.
    pub(super) fn bytes(text: &Bytes) -> usize {
        let ends = memchr::memchr_iter(b';', text).count();
        text.len() + (ends + 1) * size_of::<(usize, &str, usize, usize)>()
    }

    pub(super) fn read(text: &Bytes) -> Result<Script, ErrorResponse> {
        let text = String::from_utf8(text.to_vec()).map_err(|_| ErrorResponse::not_text())?;
        let found = split_statements(&text);
        let holds = 1 < found.len() && found.iter().all(|(_, sql)| is_held_back(sql));
        let statements = found.iter().map(|(offset, sql)| (*offset, offset + sql.len())).collect();
        Ok(Script { text, statements, holds })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Returns each statement with the offset of its first byte.
    pub(super) fn statements(&self) -> impl Iterator<Item = (usize, &str)> {
        self.statements.iter().map(|&(start, end)| (start, &self.text[start..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Script {
        Script::read(&Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn statements_are_read_with_their_places() {
        let script = read(" SELECT ';' ; /* ; */ INSERT INTO t VALUES (1);;");
        let expected = [(1, "SELECT ';'"), (22, "INSERT INTO t VALUES (1)")];
        assert_eq!(script.statements().collect::<Vec<_>>(), expected);
        assert!(script.holds && !read("SELECT 1; DROP TABLE t").holds);
        assert!(read(" -- nothing").is_empty() && !read("SELECT 1").holds);
        assert!(Script::read(&Bytes::from_static(b"SELECT '\xff'")).is_err());
        assert!(Script::bytes(&Bytes::from_static(b";;;")) > 3 * size_of::<(usize, &str)>());
    }
}
