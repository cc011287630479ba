//! Parameter binding: values for the places `$1`, `$2`, ... of a statement.
//!
//! - parameters-1. A value stands in the statement like a constant at its place: a text is never
//!   read as SQL, and has the meaning of any text at its place.
//! - parameters-2. No position moves: an error about a value has the position of its place.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::error::{Error, Result, SyntaxError};
use crate::parse::tokenize;
use crate::position::{Position, position_at};

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Parameter {
    /// NULL; in LIMIT, no bound.
    Null,
    /// True or false.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A double, NaN and infinities too.
    Double(f64),
    /// A text, or a value written as text at its place: a timestamp, a UUID.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A value of this type of SQL at any place, by its text; `None` is NULL.
    Typed(Cow<'static, str>, Option<String>),
    /// Values in their order, with the type of the list in SQL where the values do not give it.
    List(Option<Cow<'static, str>>, Vec<Parameter>),
    /// An unknown value, to describe a statement without executing it.
    Open,
}

/// For the keys of the plan cache: different values have different texts.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Null => f.write_str("null"),
            Parameter::Boolean(value) => write!(f, "{value}"),
            Parameter::Integer(value) => write!(f, "{value}"),
            Parameter::Double(value) => write!(f, "double {:016x}", value.to_bits()),
            Parameter::Text(value) => write!(f, "{value:?}"),
            Parameter::Bytes(value) => write!(f, "bytes {}", hex(value)),
            Parameter::Typed(ty, value) => write!(f, "{ty} {value:?}"),
            Parameter::List(ty, values) => {
                write!(f, "list {ty:?} [")?;
                values.iter().try_for_each(|value| write!(f, "{value}, "))?;
                f.write_str("]")
            }
            Parameter::Open => f.write_str("open"),
        }
    }
}

impl Parameter {
    /// Returns a name for the kind of values that are written alike.
    pub(super) fn kind(&self) -> &str {
        match self {
            Parameter::Null => "null",
            Parameter::Boolean(_) => "boolean",
            Parameter::Integer(_) => "integer",
            Parameter::Double(_) => "double",
            Parameter::Text(_) => "text",
            Parameter::Bytes(_) => "bytes",
            Parameter::Typed(ty, _) => ty,
            Parameter::List(..) => "list",
            Parameter::Open => "open",
        }
    }
}

/// The places of values, and the index of the parameter of each.
pub(super) type Places = HashMap<Location, usize>;

/// Puts the values in their places, and returns these: a value that is NULL differs from the
/// literal NULL, for which `=` has another meaning.
pub(super) fn put_parameters(
    sql: &str,
    tokens: &mut Vec<TokenWithSpan>,
    parameters: &[Parameter],
) -> Result<Places> {
    let mut places = Places::new();
    let mut put = Vec::with_capacity(tokens.len());
    for token in tokens.drain(..) {
        let Token::Placeholder(name) = &token.token else {
            put.push(token);
            continue;
        };
        let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let at = number.and_then(|number| number.checked_sub(1));
        let Some((at, value)) = at.and_then(|at| Some((at, parameters.get(at)?))) else {
            let what = SyntaxError::NoParameter { name: name.clone(), known: parameters.len() };
            return Err(Error::Syntax { position: position_at(sql, token.span.start), what });
        };
        places.insert(token.span.start, at);
        if *value == Parameter::Open {
            put.push(token);
            continue;
        }
        let tokens = match value {
            Parameter::List(_, values) if is_after_in(&put) => elements(values),
            value => constant(value),
        };
        put.extend(tokens.into_iter().map(|it| TokenWithSpan::new(it, token.span)));
    }
    *tokens = put;
    Ok(places)
}

/// Adds its place to an error, if it is about a value (parameters-2).
pub(super) fn locate(sql: &str, parameters: &[Parameter], error: Error) -> Error {
    let Error::BadText { position: None, text, ty, reason } = error else { return error };
    let is_it = |parameter: &Parameter| match parameter {
        Parameter::Text(value) => *value == text,
        other => other.to_string() == text,
    };
    let number = parameters.iter().position(is_it).map(|at| (at + 1).to_string());
    let tokens = tokenize(sql).unwrap_or_default();
    let place = tokens.windows(2).find(|pair| {
        pair[0].is_sign('$') && number.as_ref().is_some_and(|number| pair[1].text == number)
    });
    let position = place.map(|pair| Position::at(sql, pair[0].offset));
    Error::BadText { position, text, ty, reason }
}

/// Returns a constant as tokens (parameters-1).
fn constant(value: &Parameter) -> Vec<Token> {
    let number = |is_negative: bool, digits: String| {
        let number = Token::Number(digits, false);
        match is_negative {
            false => vec![number],
            true => vec![Token::LParen, Token::Minus, number, Token::RParen],
        }
    };
    match value {
        Parameter::Null => vec![Token::make_keyword("NULL")],
        Parameter::Boolean(true) => vec![Token::make_keyword("TRUE")],
        Parameter::Boolean(false) => vec![Token::make_keyword("FALSE")],
        Parameter::Integer(value) => number(*value < 0, value.unsigned_abs().to_string()),
        Parameter::Double(value) if value.is_finite() => {
            number(value.is_sign_negative(), format!("{:e}", value.abs()))
        }
        Parameter::Double(value) => cast(Token::SingleQuotedString(value.to_string()), "DOUBLE"),
        Parameter::Text(text) => vec![Token::SingleQuotedString(text.clone())],
        Parameter::Bytes(value) => vec![Token::HexStringLiteral(hex(value))],
        Parameter::Typed(ty, Some(text)) => cast(Token::SingleQuotedString(text.clone()), ty),
        Parameter::Typed(ty, None) => cast(Token::make_keyword("NULL"), ty),
        Parameter::List(ty, values) => list(ty.as_deref(), values),
        Parameter::Open => unreachable!("it stays what it is"),
    }
}

/// Returns true if IN stands before: the list of `x IN $1` is that of `x IN (..)`.
fn is_after_in(tokens: &[TokenWithSpan]) -> bool {
    let is_blank = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let last = tokens.iter().rev().find(|token| !is_blank(token)).map(|token| &token.token);
    matches!(last, Some(Token::Word(word)) if word.keyword == Keyword::IN)
}

/// Writes `(a, b)`; without elements a list of NULL, which equals no value.
fn elements(values: &[Parameter]) -> Vec<Token> {
    let mut tokens = vec![Token::LParen];
    push_list(values, &mut tokens);
    if values.is_empty() {
        tokens.push(Token::make_keyword("NULL"));
    }
    tokens.push(Token::RParen);
    tokens
}

/// Writes `ARRAY[..]`; without elements, `CAST(ARRAY[] AS type[])`.
fn list(ty: Option<&str>, values: &[Parameter]) -> Vec<Token> {
    let mut tokens = vec![Token::make_keyword("ARRAY"), Token::LBracket];
    push_list(values, &mut tokens);
    tokens.push(Token::RBracket);
    if let (Some(ty), true) = (ty, values.is_empty()) {
        tokens.splice(0..0, [Token::make_keyword("CAST"), Token::LParen]);
        tokens.extend([Token::make_keyword("AS"), Token::make_keyword(ty)]);
        tokens.extend([Token::LBracket, Token::RBracket, Token::RParen]);
    }
    tokens
}

fn push_list(values: &[Parameter], tokens: &mut Vec<Token>) {
    for (at, value) in values.iter().enumerate() {
        if 0 < at {
            tokens.push(Token::Comma);
        }
        tokens.extend(constant(value));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes `CAST(value AS type)`; the type is a name, or a name with numbers in brackets.
fn cast(value: Token, ty: &str) -> Vec<Token> {
    let (name, numbers) = ty.split_once('(').unwrap_or((ty, ""));
    let mut tokens = vec![
        Token::make_keyword("CAST"),
        Token::LParen,
        value,
        Token::make_keyword("AS"),
        Token::make_keyword(name),
    ];
    if !numbers.is_empty() {
        tokens.push(Token::LParen);
        for (at, number) in numbers.trim_end_matches(')').split(',').enumerate() {
            if 0 < at {
                tokens.push(Token::Comma);
            }
            tokens.push(Token::Number(number.to_owned(), false));
        }
        tokens.push(Token::RParen);
    }
    tokens.push(Token::RParen);
    tokens
}
