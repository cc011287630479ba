//! The clauses that sqlparser does not know, taken out of the tokens of a query.
//!
//! - Every other token keeps its place in the text.
//! - A clause is stored under the place of the SELECT that it belongs to: the last one before it
//!   within the same brackets.
//!
//! ASOF and LT JOIN stay among the tokens, as joins that no query has otherwise: `GLOBAL LEFT JOIN`
//! and `GLOBAL RIGHT JOIN`; TOLERANCE becomes a condition of theirs.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Word};

use crate::error::{Error, Result, SyntaxError};
use crate::limits::NESTING_MAX;
use crate::names::INTERNAL_PREFIX;
use crate::position::{Position, position_at};
use crate::sql::dialect::QueryDialect;

/// The clauses of a query's blocks.
#[derive(Debug, Default)]
pub(crate) struct Clauses {
    /// The clauses by place.
    by_select: HashMap<Location, BlockClauses>,
}

impl Clauses {
    /// Returns the clauses of the block with its SELECT at this place.
    pub(crate) fn take(&mut self, select: Location) -> BlockClauses {
        self.by_select.remove(&select).unwrap_or_default()
    }

    /// Returns true if the block with its SELECT at this place has a clause of ours.
    pub(crate) fn has(&self, select: Location) -> bool {
        self.by_select.contains_key(&select)
    }

    /// Returns true if the block with its SELECT at this place has a SAMPLE BY.
    pub(crate) fn has_sample(&self, select: Location) -> bool {
        self.by_select.get(&select).is_some_and(|block| block.sample.is_some())
    }

    /// Takes the LATEST ON of a block, to be put back.
    pub(crate) fn take_latest(&mut self, select: Location) -> Option<LatestClause> {
        self.by_select.get_mut(&select)?.latest.take()
    }

    /// Puts back the LATEST ON of a block.
    pub(crate) fn put_latest(&mut self, select: Location, latest: LatestClause) {
        self.by_select.entry(select).or_default().latest = Some(latest);
    }
}

/// The clauses of one block.
#[derive(Debug, Default)]
pub(crate) struct BlockClauses {
    pub(crate) latest: Option<LatestClause>,
    pub(crate) sample: Option<SampleClause>,
}

/// `LATEST ON ts PARTITION BY k, ..`, or `LATEST BY k, ..` by the designated timestamp.
#[derive(Debug, Clone)]
pub(crate) struct LatestClause {
    pub(crate) position: Position,
    pub(crate) timestamp: Option<Expr>,
    pub(crate) keys: Vec<Expr>,
}

impl LatestClause {
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Returns the timestamp, if it is named, and the keys.
    pub(crate) fn columns_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.timestamp.iter_mut().chain(&mut self.keys)
    }
}

/// `SAMPLE BY n unit ..`
#[derive(Debug, Clone)]
pub(crate) struct SampleClause {
    pub(crate) position: Position,
    pub(crate) count: u64,
    pub(crate) unit: char,
    pub(crate) from: Option<Expr>,
    pub(crate) to: Option<Expr>,
    pub(crate) fill: Vec<FillClause>,
    pub(crate) align: Align,
    /// The column of ORDER BY that the block does not select (`sample_order`).
    pub(crate) ordered_by: Option<Ident>,
}

/// The FILL of one aggregate, or of all.
#[derive(Debug, Clone)]
pub(crate) enum FillClause {
    None,
    Null,
    Prev,
    Linear,
    Value(Box<Expr>),
}

/// The origin of the numbers of buckets.
#[derive(Debug, Clone)]
pub(crate) enum Align {
    Calendar { zone: Option<String>, offset: Option<String> },
    FirstObservation,
}

/// Returns the name of the function that a TOLERANCE becomes.
pub(crate) fn tolerance_name() -> String {
    format!("{INTERNAL_PREFIX}tolerance")
}

/// Returns the prefix of the alias of a derived table with `TIMESTAMP(column)` behind it.
pub(crate) fn timestamp_prefix() -> String {
    format!("{INTERNAL_PREFIX}timestamp ")
}

/// Replaces `(query) TIMESTAMP(column)` by `(SELECT * FROM (query) AS ..)` with the column in the
/// alias, so that the query can have an alias of its own.
pub(crate) fn wrap_timestamps(tokens: &mut Vec<TokenWithSpan>) {
    let mut opened = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].token {
            Token::LParen => opened.push(at),
            Token::RParen => {
                let open = opened.pop();
                if let Some((open, column, end)) =
                    open.and_then(|open| timestamp_behind(tokens, open, at))
                {
                    let span = tokens[open].span;
                    let alias = quoted(&format!("{}{}", timestamp_prefix(), column.value));
                    let alias = TokenWithSpan::new(alias, column.span);
                    let close = TokenWithSpan::new(Token::RParen, tokens[end].span);
                    tokens.splice(at + 1..=end, [alias, close]);
                    // A place without clauses.
                    let nowhere = |token| TokenWithSpan::new(token, Span::empty());
                    let before = [
                        TokenWithSpan::new(Token::LParen, span),
                        nowhere(Token::make_keyword("SELECT")),
                        nowhere(Token::Mul),
                        nowhere(Token::make_keyword("FROM")),
                    ];
                    let added = before.len();
                    tokens.splice(open..open, before);
                    at += added + 2;
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the column of `TIMESTAMP(column)` behind the query between two brackets, and the place
/// behind it.
fn timestamp_behind(
    tokens: &[TokenWithSpan],
    open: usize,
    close: usize,
) -> Option<(usize, Ident, usize)> {
    let significant = |from: usize| {
        tokens[from..].iter().position(|token| !is_blank(token)).map(|ahead| from + ahead)
    };
    let first = significant(open + 1)?;
    let is_query = ["SELECT", "WITH", "FROM", "VALUES"].iter().any(|word| is(&tokens[first], word))
        || tokens[first].token == Token::LParen;
    let word = significant(close + 1).filter(|&at| is_query && is(&tokens[at], "TIMESTAMP"))?;
    let left = significant(word + 1).filter(|&at| tokens[at].token == Token::LParen)?;
    let name = significant(left + 1)?;
    let right = significant(name + 1).filter(|&at| tokens[at].token == Token::RParen)?;
    match &tokens[name].token {
        Token::Word(word) => Some((open, word.to_ident(tokens[name].span), right)),
        _ => None,
    }
}

/// Takes the clauses out of the tokens.
pub(crate) fn lift_clauses(sql: &str, tokens: &mut Vec<TokenWithSpan>) -> Result<Clauses> {
    let mut lifter = Lifter {
        sql,
        tokens: std::mem::take(tokens),
        at: 0,
        remaining: Vec::new(),
        levels: vec![Level::default()],
        clauses: Clauses::default(),
    };
    lifter.run()?;
    *tokens = lifter.remaining;
    Ok(lifter.clauses)
}

/// The state within the same brackets.
#[derive(Debug, Default, Clone, Copy)]
struct Level {
    select: Option<Location>,
    /// The open ASOF or LT JOIN, and the presence of its ON.
    join: Option<HasOn>,
    is_limit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HasOn {
    Yes,
    No,
}

struct Lifter<'a> {
    sql: &'a str,
    tokens: Vec<TokenWithSpan>,
    at: usize,
    remaining: Vec<TokenWithSpan>,
    /// One for each open bracket, and one.
    levels: Vec<Level>,
    clauses: Clauses,
}

impl Lifter<'_> {
    fn run(&mut self) -> Result<()> {
        while self.at < self.tokens.len() {
            if is_blank(&self.tokens[self.at]) {
                self.keep();
                continue;
            }
            let is_word = matches!(self.tokens[self.at].token, Token::Word(_));
            if is_word && self.word()? {
                continue;
            }
            let is_comma = self.tokens[self.at].token == Token::Comma;
            if is_comma && std::mem::take(&mut self.level().is_limit) {
                self.limit_comma();
                continue;
            }
            match self.tokens[self.at].token {
                Token::LParen => self.levels.push(Level::default()),
                Token::RParen if self.levels.len() > 1 => {
                    self.levels.pop();
                }
                _ => {}
            }
            self.keep();
        }
        Ok(())
    }

    /// Handles the current word; returns false if it is part of no clause.
    fn word(&mut self) -> Result<bool> {
        let span = self.tokens[self.at].span;
        // A table or an alias may have the name of a clause.
        let before = self.remaining.iter().rev().find(|token| !is_blank(token));
        if before.is_some_and(|token| {
            token.token == Token::Comma || ["FROM", "JOIN", "AS"].iter().any(|word| is(token, word))
        }) && ["LATEST", "LT", "ASOF"].iter().any(|word| self.is_word(word))
        {
            return Ok(false);
        }
        if self.is_word("SELECT") {
            *self.level() = Level { select: Some(span.start), ..Level::default() };
        } else if self.is_word("ON") {
            if let Some(has_on) = &mut self.level().join {
                *has_on = HasOn::Yes;
            }
        } else if self.is_word("LIMIT") {
            self.level().is_limit = true;
            self.keep();
            if self.peek().is_some_and(|token| token.token == Token::Comma) {
                self.insert(Token::Number("0".to_owned(), false));
            }
            return Ok(true);
        } else if self.are_words(&["SAMPLE", "BY"]) {
            let clause = self.sample()?;
            self.block(span, |block| block.sample.replace(clause).is_none())?;
            return Ok(true);
        } else if self.are_words(&["LATEST", "ON"]) || self.are_words(&["LATEST", "BY"]) {
            let clause = self.latest()?;
            self.block(span, |block| block.latest.replace(clause).is_none())?;
            return Ok(true);
        } else if self.are_words(&["ASOF", "JOIN"]) || self.are_words(&["LT", "JOIN"]) {
            let side = if self.is_word("ASOF") { "LEFT" } else { "RIGHT" };
            self.insert(Token::make_keyword("GLOBAL"));
            self.insert(Token::make_keyword(side));
            self.at += 1;
            self.level().join = Some(HasOn::No);
            return Ok(true);
        } else if self.is_word("TOLERANCE") && self.level().join.is_some() {
            self.tolerance()?;
            return Ok(true);
        } else {
            for (words, feature) in [
                (["SPLICE", "JOIN"], "SPLICE JOIN"),
                (["WINDOW", "JOIN"], "WINDOW JOIN"),
                (["HORIZON", "JOIN"], "HORIZON JOIN"),
            ] {
                if self.are_words(&words) {
                    return Err(self.not_supported(feature));
                }
            }
            if self.is_word("GLOBAL") {
                return Err(self.not_supported("GLOBAL"));
            }
        }
        Ok(false)
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("closing brackets leave one")
    }

    fn keep(&mut self) {
        self.remaining.push(self.tokens[self.at].clone());
        self.at += 1;
    }

    /// Inserts another token at the place of the current one, or of the last.
    fn insert(&mut self, token: Token) {
        let span = self.tokens.get(self.at).or(self.remaining.last()).map(|token| token.span);
        self.remaining.push(TokenWithSpan::new(token, span.unwrap_or(Span::empty())));
    }

    /// Returns the next token that is no blank.
    fn peek(&self) -> Option<&TokenWithSpan> {
        self.tokens[self.at..].iter().find(|token| !is_blank(token))
    }

    fn is_word(&self, word: &str) -> bool {
        self.peek().is_some_and(|token| is(token, word))
    }

    fn are_words(&self, words: &[&str]) -> bool {
        let rest = self.tokens[self.at..].iter().filter(|token| !is_blank(token));
        let mut rest = rest.take(words.len());
        words.iter().all(|word| rest.next().is_some_and(|token| is(token, word)))
    }

    /// Skips to the next token that is no blank.
    fn skip_blank(&mut self) {
        while self.tokens.get(self.at).is_some_and(is_blank) {
            self.at += 1;
        }
    }

    fn advance(&mut self) -> Option<TokenWithSpan> {
        self.skip_blank();
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        if is_it {
            self.advance();
        }
        is_it
    }

    fn take(&mut self, token: &Token) -> bool {
        let is_it = self.peek().is_some_and(|next| next.token == *token);
        if is_it {
            self.advance();
        }
        is_it
    }

    fn expect(&mut self, token: &Token) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    fn expect_words(&mut self, words: &[&str]) -> Result<()> {
        for word in words {
            if !self.take_word(word) {
                return Err(self.unexpected(word));
            }
        }
        Ok(())
    }

    fn position(&self) -> Position {
        match self.peek() {
            Some(token) => position_at(self.sql, token.span.start),
            None => Position::at(self.sql, self.sql.trim_end().len()),
        }
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = self.peek().map(|token| token.token.to_string());
        let what = SyntaxError::Unexpected { expected: expected.to_owned(), found };
        Error::Syntax { position: self.position(), what }
    }

    fn not_supported(&self, feature: &'static str) -> Error {
        Error::NotSupported { position: Some(self.position()), feature }
    }

    /// Stores a clause of the current block; `note` returns false if it has one already.
    fn block(&mut self, span: Span, note: impl FnOnce(&mut BlockClauses) -> bool) -> Result<()> {
        let is_first = self
            .level()
            .select
            .is_some_and(|select| note(self.clauses.by_select.entry(select).or_default()));
        if is_first {
            return Ok(());
        }
        let position = position_at(self.sql, span.start);
        let found = Some(position_text(self.sql, position));
        let expected = "this clause once, behind a SELECT .. FROM".to_owned();
        Err(Error::Syntax { position, what: SyntaxError::Unexpected { expected, found } })
    }

    /// Reads `LIMIT a,` and the part behind it.
    fn limit_comma(&mut self) {
        self.keep();
        let is_end = |token: &TokenWithSpan| {
            matches!(token.token, Token::RParen | Token::SemiColon | Token::EOF)
                || ["UNION", "EXCEPT", "INTERSECT"].iter().any(|word| is(token, word))
        };
        if self.peek().is_none_or(is_end) {
            self.insert(Token::Number("0".to_owned(), false));
        }
    }

    /// Reads `1h`: a number and a unit, with a blank between them or without.
    fn span_of_time(&mut self, units: &str) -> Result<(u64, char)> {
        let expected = "a number above zero and a unit, like 15m";
        let number = match self.peek().map(|token| &token.token) {
            Some(Token::Number(digits, _)) => digits.parse::<u64>().ok(),
            _ => None,
        };
        let Some(number) = number.filter(|number| *number > 0) else {
            return Err(self.unexpected(expected));
        };
        self.advance();
        let unit = match self.peek().map(|token| &token.token) {
            Some(Token::Word(word)) => {
                let mut letters = word.value.chars();
                letters.next().filter(|unit| units.contains(*unit) && letters.next().is_none())
            }
            _ => None,
        };
        let Some(unit) = unit else {
            return Err(self.unexpected(&format!("one of the units {}", spaced(units))));
        };
        self.advance();
        Ok((number, unit))
    }

    fn tolerance(&mut self) -> Result<()> {
        let join = self.level().join.take();
        let joint = if join == Some(HasOn::Yes) { "AND" } else { "ON" };
        self.insert(Token::make_keyword(joint));
        self.insert(quoted(&tolerance_name()));
        self.advance();
        let (number, unit) = self.span_of_time("nUTsmhdw")?;
        self.insert(Token::LParen);
        self.insert(Token::Number(number.to_string(), false));
        self.insert(Token::Comma);
        self.insert(Token::SingleQuotedString(unit.to_string()));
        self.insert(Token::RParen);
        Ok(())
    }

    fn latest(&mut self) -> Result<LatestClause> {
        let position = self.position();
        self.advance();
        let timestamp = if self.take_word("BY") {
            None
        } else {
            self.expect_words(&["ON"])?;
            let timestamp = self.column()?;
            self.expect_words(&["PARTITION", "BY"])?;
            Some(timestamp)
        };
        let mut keys = vec![self.column()?];
        while self.take(&Token::Comma) {
            keys.push(self.column()?);
        }
        Ok(LatestClause { position, timestamp, keys })
    }

    /// Reads `x`, or `t.x`.
    fn column(&mut self) -> Result<Expr> {
        let mut path = Vec::new();
        loop {
            let Some(TokenWithSpan { token: Token::Word(_), .. }) = self.peek() else {
                return Err(self.unexpected("a column"));
            };
            if let Some(TokenWithSpan { token: Token::Word(word), span }) = self.advance() {
                path.push(Ident { value: word.value.to_lowercase(), ..word.to_ident(span) });
            }
            if !self.take(&Token::Period) {
                break;
            }
        }
        Ok(match path.len() {
            1 => Expr::Identifier(path.remove(0)),
            _ => Expr::CompoundIdentifier(path),
        })
    }

    fn sample(&mut self) -> Result<SampleClause> {
        let position = self.position();
        self.expect_words(&["SAMPLE", "BY"])?;
        let (count, unit) = self.span_of_time("nUTsmhdwMy")?;
        let from =
            if self.take_word("FROM") { Some(self.expr(&["TO", "FILL", "ALIGN"])?) } else { None };
        let to = if self.take_word("TO") { Some(self.expr(&["FILL", "ALIGN"])?) } else { None };
        let mut fill = Vec::new();
        if self.take_word("FILL") {
            self.expect(&Token::LParen)?;
            fill.push(self.fill()?);
            while self.take(&Token::Comma) {
                fill.push(self.fill()?);
            }
            self.expect(&Token::RParen)?;
        }
        let align = if self.take_word("ALIGN") {
            self.expect_words(&["TO"])?;
            self.align()?
        } else {
            Align::Calendar { zone: None, offset: None }
        };
        Ok(SampleClause { position, count, unit, from, to, fill, align, ordered_by: None })
    }

    fn align(&mut self) -> Result<Align> {
        if self.take_word("FIRST") {
            self.expect_words(&["OBSERVATION"])?;
            return Ok(Align::FirstObservation);
        }
        self.expect_words(&["CALENDAR"])?;
        let mut zone = None;
        if self.take_word("TIME") {
            self.expect_words(&["ZONE"])?;
            zone = Some(self.text("the name of a time zone in quotes")?);
        }
        let mut offset = None;
        if self.take_word("WITH") {
            self.expect_words(&["OFFSET"])?;
            offset = Some(self.text("an offset in quotes, like '+01:30'")?);
        }
        Ok(Align::Calendar { zone, offset })
    }

    fn fill(&mut self) -> Result<FillClause> {
        Ok(if self.take_word("NONE") {
            FillClause::None
        } else if self.take_word("NULL") {
            FillClause::Null
        } else if self.take_word("PREV") {
            if self.peek().is_some_and(|token| token.token == Token::LParen) {
                return Err(self.not_supported("PREV with a column"));
            }
            FillClause::Prev
        } else if self.take_word("LINEAR") {
            FillClause::Linear
        } else {
            FillClause::Value(Box::new(self.expr(&[])?))
        })
    }

    fn text(&mut self, expected: &str) -> Result<String> {
        match self.peek().map(|token| token.token.clone()) {
            Some(Token::SingleQuotedString(text)) => {
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Reads an expression up to one of these words, a comma, the end of the brackets, or the start
    /// of another clause.
    fn expr(&mut self, ends: &[&str]) -> Result<Expr> {
        const CLAUSES: [&str; 9] = [
            "ORDER",
            "LIMIT",
            "GROUP",
            "HAVING",
            "UNION",
            "EXCEPT",
            "INTERSECT",
            "OFFSET",
            "WHERE",
        ];
        let mut depth = 0_usize;
        let mut inner = Vec::new();
        while let Some(token) = self.tokens.get(self.at) {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen | Token::Comma if depth == 0 => break,
                Token::RParen => depth -= 1,
                _ if depth == 0 && ends.iter().chain(&CLAUSES).any(|word| is(token, word)) => break,
                _ => {}
            }
            let mut token = token.clone();
            if let Token::Word(word) = &mut token.token {
                word.value = word.value.to_lowercase();
            }
            inner.push(token);
            self.at += 1;
        }
        if inner.iter().all(is_blank) {
            return Err(self.unexpected("an expression"));
        }
        let dialect = QueryDialect::new(inner.len());
        let parser = Parser::new(&dialect).with_recursion_limit(NESTING_MAX);
        let mut parser = parser.with_tokens_with_locations(inner);
        let expr = parser.parse_expr().map_err(|error| dialect.error(self.sql, error))?;
        let rest = parser.peek_token();
        if rest.token == Token::EOF {
            return Ok(expr);
        }
        let expected = "the end of the expression".to_owned();
        let what = SyntaxError::Unexpected { expected, found: Some(rest.token.to_string()) };
        Err(Error::Syntax { position: position_at(self.sql, rest.span.start), what })
    }
}

/// Returns the word at a position.
fn position_text(sql: &str, position: Position) -> String {
    sql[position.offset..].split_whitespace().next().unwrap_or_default().to_owned()
}

fn spaced(units: &str) -> String {
    units.chars().map(String::from).collect::<Vec<_>>().join(" ")
}

fn quoted(name: &str) -> Token {
    let value = name.to_owned();
    let keyword = datafusion::sql::sqlparser::keywords::Keyword::NoKeyword;
    Token::Word(Word { value, quote_style: Some('"'), keyword })
}

fn is(token: &TokenWithSpan, word: &str) -> bool {
    match &token.token {
        Token::Word(it) => it.quote_style.is_none() && it.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}
