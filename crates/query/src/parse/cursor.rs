//! A cursor over the tokens of a statement, with the functions that the whole grammar shares.

use std::rc::Rc;

use tidegate_model::limits;

use super::token::{Token, TokenKind, tokenize};
use crate::error::{Error, Result, SyntaxError};
use crate::names::{SYSTEM_SCHEMA, TEMPORARY_SCHEMA};
use crate::position::Position;

/// A name and its place in the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) offset: usize,
    /// True if `public` stands before it: then it is no temporary table.
    pub(crate) is_public: bool,
}

impl Name {
    /// Returns a name without a schema.
    pub(crate) fn new(text: String, offset: usize) -> Name {
        Name { text, offset, is_public: false }
    }

    /// Returns true if the schema of temporary tables stands before it.
    pub(crate) fn is_temporary(&self) -> bool {
        let schema = self.text.get(..TEMPORARY_SCHEMA.len());
        schema == Some(TEMPORARY_SCHEMA) && self.text[TEMPORARY_SCHEMA.len()..].starts_with('.')
    }
}

/// The tokens of one statement and the position in them. A clone looks ahead and shares the tokens.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    sql: &'a str,
    tokens: Rc<[Token<'a>]>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Makes a cursor over the tokens of one statement. A `;` at its end is no token of it.
    pub(crate) fn new(sql: &'a str) -> Result<Cursor<'a>> {
        let mut tokens = tokenize(sql)?;
        if tokens.last().is_some_and(|token| token.is_sign(';')) {
            tokens.pop();
        }
        Ok(Cursor { sql, tokens: Rc::from(tokens), at: 0 })
    }

    pub(crate) fn sql(&self) -> &'a str {
        self.sql
    }

    pub(crate) fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    /// Returns the token after `ahead` others.
    pub(crate) fn peek_at(&self, ahead: usize) -> Option<&Token<'a>> {
        self.tokens.get(self.at + ahead)
    }

    pub(crate) fn skip(&mut self) {
        self.at += 1;
    }

    /// Returns the byte behind the last token that was read.
    pub(crate) fn last_end(&self) -> usize {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(0, |token| token.offset + token.text.len())
    }

    /// Returns the number of tokens that `ahead`, a clone of this cursor, has read more.
    pub(crate) fn distance(&self, ahead: &Cursor<'_>) -> usize {
        ahead.at - self.at
    }

    /// Skips all remaining tokens.
    pub(crate) fn skip_all(&mut self) {
        self.at = self.tokens.len();
    }

    /// Returns the byte of the next token, or of the end.
    pub(crate) fn offset(&self) -> usize {
        self.peek().map_or(self.sql.len(), |token| token.offset)
    }

    pub(crate) fn position(&self) -> Position {
        Position::at(self.sql, self.offset())
    }

    /// Returns true if all tokens are read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Reads these keywords if they all come next.
    pub(crate) fn take_words(&mut self, words: &[&str]) -> bool {
        let all = words
            .iter()
            .enumerate()
            .all(|(ahead, word)| self.peek_at(ahead).is_some_and(|token| token.is_word(word)));
        if all {
            self.at += words.len();
        }
        all
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        self.take_words(&[word])
    }

    pub(crate) fn take_sign(&mut self, sign: char) -> bool {
        let is_next = self.peek().is_some_and(|token| token.is_sign(sign));
        self.at += usize::from(is_next);
        is_next
    }

    pub(crate) fn expect_words(&mut self, words: &[&str]) -> Result<()> {
        if self.take_words(words) { Ok(()) } else { Err(self.unexpected(&words.join(" "))) }
    }

    pub(crate) fn expect_sign(&mut self, sign: char) -> Result<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    pub(crate) fn expect_end(&self) -> Result<()> {
        if self.is_at_end() { Ok(()) } else { Err(self.unexpected("the end of the statement")) }
    }

    /// Reads a name: a word, or anything in quotes. Single quotes are accepted too, because scripts
    /// for other databases use them.
    pub(crate) fn expect_name(&mut self, what: &str) -> Result<Name> {
        let Some(token) = self.peek().filter(|token| {
            matches!(token.kind, TokenKind::Word | TokenKind::QuotedName | TokenKind::Text)
        }) else {
            return Err(self.unexpected(what));
        };
        let name = Name::new(token.unquoted(), token.offset);
        if name.text.is_empty() || name.text.len() > limits::NAME_BYTES {
            let found = name.text.len().to_string();
            let what =
                SyntaxError::OutOfBounds { what: "the bytes of a name", bounds: "1 to 127", found };
            return Err(Error::syntax(self.sql, name.offset, what));
        }
        self.at += 1;
        Ok(name)
    }

    /// Reads a table's name, perhaps with a schema before it; the schema of the system is a part of
    /// the name. A database may stand before the schema: there is one, and any name of it is
    /// accepted.
    pub(crate) fn expect_table(&mut self) -> Result<Name> {
        let mut name = self.expect_name("the name of a table")?;
        let is_database = self.peek().is_some_and(|token| token.is_sign('.'))
            && self.peek_at(1).is_some_and(|token| {
                let schema = token.unquoted();
                ["public", SYSTEM_SCHEMA].iter().any(|it| schema.eq_ignore_ascii_case(it))
            })
            && self.peek_at(2).is_some_and(|token| token.is_sign('.'));
        if is_database {
            self.skip();
            name = self.expect_name("the name of a schema")?;
        }
        if name.text.eq_ignore_ascii_case("public") && self.take_sign('.') {
            let table = self.expect_name("the name of a table")?;
            return Ok(Name { is_public: true, ..table });
        }
        if name.text.eq_ignore_ascii_case(SYSTEM_SCHEMA) && self.take_sign('.') {
            let table = self.expect_name("the name of a table")?;
            return Ok(Name { text: format!("{SYSTEM_SCHEMA}.{}", table.text), ..name });
        }
        if name.text.eq_ignore_ascii_case(TEMPORARY_SCHEMA) && self.take_sign('.') {
            let table = self.expect_name("the name of a table")?;
            return Ok(Name { text: format!("{TEMPORARY_SCHEMA}.{}", table.text), ..name });
        }
        if self.peek().is_some_and(|token| token.is_sign('.')) {
            return Err(self.not_supported("a schema other than `public`"));
        }
        Ok(name)
    }

    /// Reads a number without point or sign.
    pub(crate) fn expect_integer(&mut self, what: &str) -> Result<u64> {
        let value = self
            .peek()
            .filter(|token| token.kind == TokenKind::Number)
            .and_then(|token| token.text.replace('_', "").parse().ok());
        let Some(value) = value else { return Err(self.unexpected(what)) };
        self.at += 1;
        Ok(value)
    }

    /// Reads what `read` reads, once or more often, with commas between.
    pub(crate) fn expect_list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = vec![read(self)?];
        while self.take_sign(',') {
            all.push(read(self)?);
        }
        Ok(all)
    }

    pub(crate) fn unexpected(&self, expected: &str) -> Error {
        let found = self.peek().map(|token| token.text.to_owned());
        let what = SyntaxError::Unexpected { expected: expected.to_owned(), found };
        Error::syntax(self.sql, self.offset(), what)
    }

    pub(crate) fn not_supported(&self, feature: &'static str) -> Error {
        Error::NotSupported { position: Some(self.position()), feature }
    }
}
