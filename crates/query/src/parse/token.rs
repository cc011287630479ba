//! The tokens of a statement, each with its place. Our own statements are parsed from them, and
//! texts are split into statements by them.
//!
//! - token-1. No text is longer than `SQL_BYTES`, and no name or number than `SQL_WORD_BYTES`:
//!   longer ones are refused before anything of them is kept.
//! - Tokens ascend and do not overlap; only blanks and comments lie between two of them.
//!
//! Not here: the grammar (`parse::statement`). Queries are parsed by sqlparser from the text
//! itself.

use datafusion::sql::sqlparser::tokenizer::{Token as SqlToken, Tokenizer};
use tidegate_model::limits;

use crate::error::{Error, Result, SyntaxError};
use crate::sql::dialect::QueryDialect;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword or a name.
    Word,
    /// A name in double quotes or backticks.
    QuotedName,
    /// A text in single quotes, perhaps with escapes behind an `E`, or between dollar signs.
    Text,
    /// Digits, perhaps with a point and an exponent.
    Number,
    /// One character that is none of these.
    Sign,
}

/// A token and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The kind.
    pub kind: TokenKind,
    /// The text in the statement, quotes included.
    pub text: &'a str,
    /// Bytes before it.
    pub offset: usize,
}

impl Token<'_> {
    /// Returns the offset of the byte behind it.
    #[must_use]
    pub fn end(&self) -> usize {
        self.offset + self.text.len()
    }

    /// Returns true if it is this keyword, in any case.
    #[must_use]
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Returns true if it is this character.
    #[must_use]
    pub fn is_sign(&self, sign: char) -> bool {
        self.kind == TokenKind::Sign && self.text.starts_with(sign)
    }

    /// Returns its text without quotes, doubled ones halved.
    #[must_use]
    pub fn unquoted(&self) -> String {
        let mut characters = self.text.chars();
        match (self.kind, characters.next()) {
            (TokenKind::Text, Some('$')) => {
                let tag = self.text[1..].find('$').map_or(0, |at| at + 2);
                self.text[tag..self.text.len() - tag].to_owned()
            }
            (TokenKind::Text, Some('E' | 'e')) => unescaped(self.text),
            (TokenKind::Text | TokenKind::QuotedName, Some(quote)) => {
                let inner = &self.text[1..self.text.len() - 1];
                inner.replace(&format!("{quote}{quote}"), &quote.to_string())
            }
            _ => self.text.to_owned(),
        }
    }
}

/// Returns the statement with blanks in place of its first bytes, so that places stay the same.
pub(crate) fn blanked(sql: &str, bytes: usize) -> String {
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    let mut text = sql[..bytes].chars().map(blank).collect::<String>();
    text.push_str(&sql[bytes..]);
    text
}

/// Returns all tokens of a text.
///
/// # Errors
/// If a quote or a comment is never closed, or the text or a word of it is too long (token-1).
pub fn tokenize(sql: &str) -> Result<Vec<Token<'_>>> {
    check_length(sql)?;
    let mut tokens = Vec::new();
    let mut offset = 0;
    while let Some(token) = next_token(sql, offset)? {
        offset = token.end();
        tokens.push(token);
    }
    Ok(tokens)
}

/// Returns the number of tokens of a text, without keeping them, and what `more` returns for those
/// that stand for more than one.
///
/// # Errors
/// As [`tokenize`].
pub(crate) fn count_tokens(sql: &str, more: impl Fn(&Token<'_>) -> usize) -> Result<usize> {
    check_length(sql)?;
    let (mut count, mut offset) = (0, 0);
    while let Some(token) = next_token(sql, offset)? {
        offset = token.end();
        count += 1 + more(&token);
    }
    Ok(count)
}

fn check_length(sql: &str) -> Result<()> {
    if sql.len() <= limits::SQL_BYTES {
        return Ok(());
    }
    let (what, bounds) = ("the bytes of a statement", "at most 16,777,216");
    Err(Error::syntax(
        sql,
        0,
        SyntaxError::OutOfBounds { what, bounds, found: sql.len().to_string() },
    ))
}

/// Returns the first token of a text, without reading the others; `None` if there is none that
/// ends.
#[must_use]
pub fn first_token(sql: &str) -> Option<Token<'_>> {
    next_token(sql, 0).ok().flatten()
}

/// Returns the statements of a text, each with the byte it starts at, split at `;` outside of
/// quotes and comments. Statements without any token are left out. A text that ends inside of a
/// quote or a comment ends with its last statement: the error of parsing that one has the place of
/// the open quote.
#[must_use]
pub fn split_statements(sql: &str) -> Vec<(usize, &str)> {
    let mut statements = Vec::new();
    let mut start = None;
    let mut offset = 0;
    loop {
        match next_token(sql, offset) {
            Ok(Some(token)) => {
                offset = token.offset + token.text.len();
                if !token.is_sign(';') {
                    start.get_or_insert(token.offset);
                } else if let Some(start) = start.take() {
                    statements.push((start, sql[start..token.offset].trim_end()));
                }
            }
            Ok(None) => break,
            Err(_) => {
                start.get_or_insert(offset);
                break;
            }
        }
    }
    if let Some(start) = start {
        let rest = &sql[start..];
        let start = start + (rest.len() - rest.trim_start().len());
        statements.push((start, sql[start..].trim_end()));
    }
    statements
}

/// Returns the first token at or after a byte of a text, which is not inside of a token.
///
/// # Errors
/// If it is never closed, or too long (token-1).
pub fn next_token(sql: &str, from: usize) -> Result<Option<Token<'_>>> {
    let Some(offset) = skip_blank(sql, from)? else { return Ok(None) };
    let rest = &sql[offset..];
    let first = rest.chars().next().expect("skip_blank stops at a character");
    let (kind, bytes) = match first {
        '\'' => (TokenKind::Text, quoted(sql, offset, '\'')?),
        'E' | 'e' if rest[1..].starts_with('\'') => (TokenKind::Text, escaped(sql, offset)?),
        '"' | '`' => (TokenKind::QuotedName, quoted(sql, offset, first)?),
        '$' => match dollar_tag(rest) {
            Some(tag) => (TokenKind::Text, dollar_quoted(sql, offset, tag)?),
            None => (TokenKind::Sign, 1),
        },
        _ if first.is_ascii_digit() => (TokenKind::Number, number(rest)),
        _ if is_word_start(first) => {
            let end = rest.find(|c: char| !is_word_start(c) && !c.is_ascii_digit() && c != '$');
            (TokenKind::Word, end.unwrap_or(rest.len()))
        }
        _ => (TokenKind::Sign, first.len_utf8()),
    };
    let is_long = limits::SQL_WORD_BYTES < bytes && kind != TokenKind::Text;
    if is_long {
        let (what, bounds) = ("the bytes of a name or number", "at most 1,024");
        let found = bytes.to_string();
        return Err(Error::syntax(sql, offset, SyntaxError::OutOfBounds { what, bounds, found }));
    }
    Ok(Some(Token { kind, text: &rest[..bytes], offset }))
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// Returns the first byte at or after `from` that is neither blank nor in a comment; `None` at the
/// end.
fn skip_blank(sql: &str, from: usize) -> Result<Option<usize>> {
    let mut offset = from;
    loop {
        let rest = &sql[offset..];
        let trimmed = rest.trim_start();
        offset += rest.len() - trimmed.len();
        if trimmed.is_empty() {
            return Ok(None);
        }
        if trimmed.starts_with("--") {
            offset += trimmed.find('\n').unwrap_or(trimmed.len());
        } else if trimmed.starts_with("/*") {
            offset += comment(sql, offset)?;
        } else {
            return Ok(Some(offset));
        }
    }
}

/// Returns the length of a `/* comment */`, which may contain others.
fn comment(sql: &str, offset: usize) -> Result<usize> {
    let bytes = &sql.as_bytes()[offset..];
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return Ok(at);
                }
            }
            _ => at += 1,
        }
    }
    Err(Error::syntax(sql, offset, SyntaxError::OpenComment))
}

/// Returns the length of a quoted text; a doubled quote stands for itself.
fn quoted(sql: &str, offset: usize, quote: char) -> Result<usize> {
    let bytes = &sql.as_bytes()[offset..];
    let is_quote = |at: usize| bytes.get(at).is_some_and(|&byte| char::from(byte) == quote);
    let mut at = 1;
    while at < bytes.len() {
        match (is_quote(at), is_quote(at + 1)) {
            (true, true) => at += 2,
            (true, false) => return Ok(at + 1),
            (false, _) => at += 1,
        }
    }
    Err(Error::syntax(sql, offset, SyntaxError::OpenQuote { quote }))
}

/// Returns the length of a text like `E'it\'s'`, in which a backslash escapes.
fn escaped(sql: &str, offset: usize) -> Result<usize> {
    let bytes = &sql.as_bytes()[offset..];
    let mut at = 2;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'\\', ..] | [b'\'', b'\'', ..] => at += 2,
            [b'\'', ..] => return Ok(at + 1),
            _ => at += 1,
        }
    }
    Err(Error::syntax(sql, offset, SyntaxError::OpenQuote { quote: '\'' }))
}

/// Returns the text that `E'..'` stands for, as queries read it; as it is written if it is none.
fn unescaped(written: &str) -> String {
    let dialect = QueryDialect::default();
    match Tokenizer::new(&dialect, written).tokenize().as_deref() {
        Ok([SqlToken::EscapedStringLiteral(text)]) => text.clone(),
        _ => written.to_owned(),
    }
}

/// Returns the `$tag$` at the start of `rest`; the tag may be empty, but is no number: `$1` is a
/// parameter.
fn dollar_tag(rest: &str) -> Option<&str> {
    let end = rest[1..].find('$')? + 1;
    let tag = &rest[1..end];
    let is_name = tag.chars().all(|c| is_word_start(c) || c.is_ascii_digit())
        && !tag.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| &rest[..=end])
}

fn dollar_quoted(sql: &str, offset: usize, tag: &str) -> Result<usize> {
    let body = &sql[offset + tag.len()..];
    match body.find(tag) {
        Some(end) => Ok(tag.len() + end + tag.len()),
        None => Err(Error::syntax(sql, offset, SyntaxError::OpenQuote { quote: '$' })),
    }
}

/// Returns the length of a number: `12`, `1.5`, `1e-9`.
fn number(rest: &str) -> usize {
    let digits = |from: usize| {
        let tail = &rest[from..];
        tail.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(tail.len())
    };
    let mut end = digits(0);
    if rest[end..].starts_with('.') {
        end += 1 + digits(end + 1);
    }
    let exponent = &rest[end..];
    if exponent.starts_with(['e', 'E']) {
        let sign = usize::from(exponent[1..].starts_with(['+', '-']));
        let count = digits(end + 1 + sign);
        if count > 0 {
            end += 1 + sign + count;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let shown = match tokenize(sql) {
            Ok(tokens) => tokens.iter().map(|token| token.text).collect::<Vec<_>>().join(" | "),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{sql}");
    }

    #[test]
    fn blanks_keep_lines_and_columns() {
        assert_eq!(blanked("EXPLAIN\n ANALYZE SELECT 1", 17), "       \n         SELECT 1");
        assert_eq!(blanked("SELECT 1", 0), "SELECT 1");
    }

    #[test]
    fn words_numbers_texts_and_signs_are_told_apart() {
        check("SELECT a1,b FROM t;", "SELECT | a1 | , | b | FROM | t | ;");
        check("1 1.5 1e-9 .5 1.e", "1 | 1.5 | 1e-9 | . | 5 | 1. | e");
        check("'it''s' \"a\"\"b\" `c`", "'it''s' | \"a\"\"b\" | `c`");
        check("a--x\n/* y /* z */ */ b", "a | b");
        check("$$ it's; $$ $t$ $$ $t$ $1", "$$ it's; $$ | $t$ $$ $t$ | $ | 1");
        check("gr\u{f6}\u{df}e>=1::int", "gr\u{f6}\u{df}e | > | = | 1 | : | : | int");
        check("  ", "");
        check(r"E'it\'s' e'\\' E'a''b' f'x'", r"E'it\'s' | e'\\' | E'a''b' | f | 'x'");
    }

    #[test]
    fn an_unclosed_quote_or_comment_is_reported_at_its_start() {
        check("SELECT\n 'abc", "error: line 2, column 2: this ' is never closed");
        check(r"x E'\'", "error: line 1, column 3: this ' is never closed");
        check("a \"b", "error: line 1, column 3: this \" is never closed");
        check("x /* /* */", "error: line 1, column 3: this comment is never closed");
        check("$a$ $b$", "error: line 1, column 1: this $ is never closed");
    }

    #[test]
    fn no_text_and_no_word_is_longer_than_it_may_be() {
        let count_tokens = |sql: &str| count_tokens(sql, |_| 0);
        let long = "(".repeat(limits::SQL_BYTES + 1);
        let refused = "line 1, column 1: the bytes of a statement must be at most 16,777,216, not \
                       16777217";
        assert_eq!(tokenize(&long).unwrap_err().to_string(), refused, "token-1");
        assert_eq!(count_tokens(&long).unwrap_err().to_string(), refused, "token-1");
        assert_eq!(count_tokens(" ((a, 'b')); ").unwrap(), 8);
        for (open, inner, close) in [("", "a", ""), ("", "1", ""), ("\"", "a", "\"")] {
            let word = |bytes: usize| format!("x {open}{}{close}", inner.repeat(bytes));
            let most = limits::SQL_WORD_BYTES - open.len() - close.len();
            assert_eq!(count_tokens(&word(most)).unwrap(), 2, "token-1");
            let error = count_tokens(&word(most + 1)).unwrap_err().to_string();
            let refused = "line 1, column 3: the bytes of a name or number must be at most 1,024, \
                           not 1025";
            assert_eq!(error, refused, "token-1");
        }
        let text = format!("'{}'", "a".repeat(1 << 20));
        assert_eq!(count_tokens(&text).unwrap(), 1, "texts are values");
    }

    #[test]
    fn unquoted_texts_have_their_doubled_quotes_halved() {
        let of = |sql: &str| tokenize(sql).unwrap()[0].unquoted();
        assert_eq!(of("'it''s'"), "it's");
        assert_eq!(of("\"a\"\"b'c\""), "a\"b'c");
        assert_eq!(of("$x$ 'y' $x$"), " 'y' ");
        assert_eq!(of("Word"), "Word");
        assert_eq!(of(r"E'it\'s ''a\\\tb\x41'"), "it's 'a\\\tbA");
    }

    #[test]
    fn statements_are_split_outside_of_quotes_and_comments() {
        let sql = "SELECT ';' ; -- a;b\n /* c; */ DROP TABLE t;; \n;x \"";
        let expected = vec![(0, "SELECT ';'"), (30, "DROP TABLE t"), (47, "x \"")];
        assert_eq!(split_statements(sql), expected);
        assert_eq!(split_statements(" ; -- nothing\n"), vec![]);
        let sql = r"SELECT E'\';'; b";
        assert_eq!(split_statements(sql), vec![(0, r"SELECT E'\';'"), (15, "b")]);
        assert_eq!(split_statements("a; 'open"), vec![(0, "a"), (3, "'open")]);
    }
}
