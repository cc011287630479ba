//! The SQL dialect of queries: sqlparser's generic one, with operators and literals of PostgreSQL.
//!
//! - `^` is the power operator and binds more tightly than `*`, and a sign binds more tightly than
//!   `^`: `-2 ^ 2` is 4. `#` is bitwise exclusive or.
//! - sql_dialect-3. All operators but those of arithmetic and comparisons bind equally tightly,
//!   less than `+` and more than BETWEEN, as in PostgreSQL: `|`, `&`, `#`, `<<`, `>>`, `||`, `~`,
//!   `@>` and the like. `255 >> 4 & 3` is 3, and `'n' || a + b` joins a text and a sum.
//! - `trim(LEADING FROM x)` trims blanks, with BOTH and TRAILING alike.
//! - `1_000` is one number, whose underscores `query_text` removes.
//! - `BETWEEN SYMMETRIC` takes its bounds in either order.
//! - sql_dialect-1. A text is parsed in a number of steps that is proportional to its length, and
//!   parsing stops when the statement is cancelled: where the parser finds an error within NOT,
//!   CAST and some others, it tries to read each of them as a name, and so takes twice as long for
//!   each bracket around it.
//! - `|/ x` and `||/ x` are calls of `sqrt` and `cbrt`.
//! - `x ISNULL` and `x NOTNULL` are IS NULL and IS NOT NULL.
//! - sql_dialect-2. `IS DISTINCT FROM` binds as tightly as `IS NULL`: `a IS DISTINCT FROM b AND c`
//!   is `(a IS DISTINCT FROM b) AND c`.
//! - `x IN 'text'`, for a text or a parameter that may be one, is the operator `tidegate.in`, to
//!   which `plan::coerce` gives a meaning; `x IN today()` is `x IN '$today'`, the whole day as in
//!   QuestDB; `x IN interval(low, high)` is BETWEEN.
//! - FOR begins `FOR UPDATE`, also directly behind a SELECT list: as a name of a column it stands
//!   behind AS.
//! - GROUPING SETS within GROUPING SETS is a call of `GROUPING_SETS`.
//! - `2 MINUTE PRECEDING` is `INTERVAL '2 MINUTE' PRECEDING`.
//!
//! Everything else in queries is that of [`GenericDialect`], which the parser takes this dialect
//! for.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Interval, UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_COLUMN_ALIAS};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::account::check_canceled;
use crate::error::{Error, SyntaxError};
use crate::limits::NESTING_MAX;
use crate::position::Position;
use crate::sql::call::call_of;

/// The operator in whose place `x IN 'text'` stands, and which no other text can have.
pub(crate) const IN_OPERATOR: [&str; 2] = ["tidegate", "in"];
/// The function in whose place GROUPING SETS within GROUPING SETS stands.
pub(crate) const GROUPING_SETS: &str = "grouping sets";

/// The dialect of queries.
#[derive(Debug)]
pub(crate) struct QueryDialect {
    /// Expressions that the parser has begun (sql_dialect-1).
    steps: Cell<usize>,
    steps_max: usize,
}

/// The maximal average number of expressions begun at a token: texts without an error have fewer
/// than three.
const STEPS_PER_TOKEN: usize = 64;
/// The minimum of the limit, for short texts.
const STEPS_MIN: usize = 1 << 14;
/// Steps between two checks for cancellation.
const ASK_STEPS: usize = 256;

/// The binding strength of `^`: above that of `*`, below that of `::`.
const POWER: u8 = 45;
/// The binding strength of operators without one of their own (sql_dialect-3).
const OTHER: u8 = 25;

/// Enables these features.
macro_rules! with_features {
    ($($feature:ident),+ $(,)?) => {
        $(
            fn $feature(&self) -> bool {
                true
            }
        )+
    };
}

type Parsed = Result<Expr, ParserError>;

impl Dialect for QueryDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        GenericDialect.is_delimited_identifier_start(letter)
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        GenericDialect.is_identifier_start(letter)
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        GenericDialect.is_identifier_part(letter)
    }

    fn is_column_alias(&self, word: &Keyword, _: &mut Parser<'_>) -> bool {
        *word != Keyword::FOR && !RESERVED_FOR_COLUMN_ALIAS.contains(word)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Caret => Some(Ok(POWER)),
            token if is_other_operator(token) => Some(Ok(OTHER)),
            token if is_isnull(token) => Some(Ok(self.prec_value(Precedence::Is))),
            _ => None,
        }
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Parsed> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        let is_over = steps.is_multiple_of(ASK_STEPS) && check_canceled().is_err();
        if is_over || self.steps_max < steps {
            // After any other error the parser would try another way.
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        if matches!(parser.peek_token_ref().token, Token::Number(..)) {
            return frame_length(parser).map(Ok);
        }
        if is_blank_trim(parser) {
            return Some(blank_trim(parser));
        }
        if are_inner_grouping_sets(parser) {
            return Some(inner_grouping_sets(parser));
        }
        if parser.consume_token(&Token::Tilde) {
            let operand = parser.parse_subexpr(OTHER);
            let op = UnaryOperator::BitwiseNot;
            return Some(operand.map(|it| Expr::UnaryOp { op, expr: Box::new(it) }));
        }
        if let Some(root) = root_function(&parser.peek_token_ref().token) {
            parser.advance_token();
            return Some(parser.parse_subexpr(OTHER).map(|operand| call_of(root, [operand])));
        }
        if !parser.consume_token(&Token::Minus) {
            return None;
        }
        let operand = parser.parse_subexpr(POWER);
        Some(operand.map(|it| Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(it) }))
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, precedence: u8) -> Option<Parsed> {
        let op = match &parser.peek_token_ref().token {
            Token::Caret => BinaryOperator::PGExp,
            Token::Sharp => BinaryOperator::PGBitwiseXor,
            token if is_isnull(token) => {
                parser.advance_token();
                return Some(Ok(Expr::IsNull(Box::new(left.clone()))));
            }
            Token::Word(word) => {
                return match word.keyword {
                    Keyword::IS => self.parse_distinct(parser, left),
                    Keyword::NOT | Keyword::IN | Keyword::BETWEEN => {
                        self.parse_membership(parser, left)
                    }
                    _ => None,
                };
            }
            _ => return None,
        };
        parser.advance_token();
        let right = parser.parse_subexpr(precedence);
        let left = Box::new(left.clone());
        Some(right.map(|it| Expr::BinaryOp { left, op, right: Box::new(it) }))
    }

    with_features!(
        supports_numeric_literal_underscores,
        supports_order_by_all,
        allow_extract_custom,
        allow_extract_single_quotes,
        support_map_literal_syntax,
        supports_array_join_syntax,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_comment_optimizer_hint,
        supports_connect_by,
        supports_cte_without_as,
        supports_data_type_signed_suffix,
        supports_dictionary_syntax,
        supports_empty_projections,
        supports_extract_comma_syntax,
        supports_filter_during_aggregation,
        supports_from_first_select,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_interpolate,
        supports_interval_options,
        supports_left_associative_joins_without_parens,
        supports_limit_by,
        supports_limit_comma,
        supports_match_against,
        supports_match_recognize,
        supports_multiline_comment_hints,
        supports_named_fn_args_with_assignment_operator,
        supports_nested_comments,
        supports_notnull_operator,
        supports_parens_around_table_factor,
        supports_partition_by_after_order_by,
        supports_pipe_operator,
        supports_prewhere,
        supports_projection_trailing_commas,
        supports_quote_delimited_string,
        supports_select_format,
        supports_select_item_multi_column_alias,
        supports_select_wildcard_except,
        supports_select_wildcard_exclude,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_select_wildcard_replace,
        supports_settings,
        supports_string_escape_constant,
        supports_string_literal_concatenation_with_newline,
        supports_struct_literal,
        supports_try_convert,
        supports_unicode_string_literal,
        supports_update_order_by,
        supports_values_as_table_factor,
        supports_window_clause_named_window_reference,
        supports_window_function_null_treatment_arg,
        supports_with_fill,
        supports_xml_expressions,
    );
}

impl Default for QueryDialect {
    /// Returns the dialect for a short text.
    fn default() -> QueryDialect {
        QueryDialect::new(0)
    }
}

impl QueryDialect {
    /// Returns the dialect for a text of so many tokens.
    pub(crate) fn new(tokens: usize) -> QueryDialect {
        let steps_max = tokens.saturating_mul(STEPS_PER_TOKEN).max(STEPS_MIN);
        QueryDialect { steps: Cell::new(0), steps_max }
    }

    /// Converts an error of the parser.
    pub(crate) fn error(&self, sql: &str, error: ParserError) -> Error {
        if let Err(error) = check_canceled() {
            return error.into();
        }
        if self.steps.get() <= self.steps_max {
            return parser_error(sql, error);
        }
        Error::syntax(sql, 0, SyntaxError::TooManySteps { steps: self.steps_max })
    }

    /// Parses `IS [NOT] DISTINCT FROM` (sql_dialect-2).
    fn parse_distinct(&self, parser: &mut Parser<'_>, left: &Expr) -> Option<Parsed> {
        let is_distinct = parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]);
        let is_same = !is_distinct
            && parser.parse_keywords(&[
                Keyword::IS,
                Keyword::NOT,
                Keyword::DISTINCT,
                Keyword::FROM,
            ]);
        if !is_distinct && !is_same {
            return None;
        }
        let left = Box::new(left.clone());
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is)).map(Box::new);
        Some(right.map(|right| match is_same {
            true => Expr::IsNotDistinctFrom(left, right),
            false => Expr::IsDistinctFrom(left, right),
        }))
    }

    /// Parses `x [NOT] BETWEEN SYMMETRIC a AND b`, and what stands behind `x [NOT] IN`.
    fn parse_membership(&self, parser: &mut Parser<'_>, value: &Expr) -> Option<Parsed> {
        let negated = word(parser, 0).0 == Keyword::NOT;
        let start = usize::from(negated);
        let behind = word(parser, start + 1);
        let is_call = |at| parser.peek_nth_token_ref(at).token == Token::LParen;
        match (word(parser, start).0, behind.0, behind.1.as_str()) {
            (Keyword::BETWEEN, _, "symmetric") => {
                skip(parser, start + 2);
                Some(self.symmetric_bounds(parser, value, negated))
            }
            (Keyword::IN, Keyword::INTERVAL, _) if is_call(start + 2) => {
                skip(parser, start + 2);
                Some(interval_bounds(parser, value, negated))
            }
            (Keyword::IN, _, "today" | "yesterday" | "tomorrow")
                if is_call(start + 2)
                    && parser.peek_nth_token_ref(start + 3).token == Token::RParen =>
            {
                let text = Value::SingleQuotedString(format!("${}", behind.1));
                let text = text.with_span(parser.peek_nth_token_ref(start + 1).span);
                skip(parser, start + 4);
                Some(Ok(in_interval(value, text, negated)))
            }
            (Keyword::IN, ..) => {
                let token = parser.peek_nth_token_ref(start + 1);
                let text = match &token.token {
                    Token::SingleQuotedString(text) => Value::SingleQuotedString(text.clone()),
                    // A parameter with an unknown value may be a text or a list.
                    Token::Placeholder(name) => Value::Placeholder(name.clone()),
                    _ => return None,
                };
                let text = text.with_span(token.span);
                skip(parser, start + 2);
                Some(Ok(in_interval(value, text, negated)))
            }
            _ => None,
        }
    }

    fn symmetric_bounds(&self, parser: &mut Parser<'_>, value: &Expr, negated: bool) -> Parsed {
        let precedence = self.prec_value(Precedence::Between);
        let a = parser.parse_subexpr(precedence)?;
        parser.expect_keyword(Keyword::AND)?;
        let b = parser.parse_subexpr(precedence)?;
        let between = |low: &Expr, high: &Expr| Expr::Between {
            expr: Box::new(value.clone()),
            negated,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        };
        let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
        let (left, right) = (Box::new(between(&a, &b)), Box::new(between(&b, &a)));
        Ok(Expr::Nested(Box::new(Expr::BinaryOp { left, op, right })))
    }
}

/// Returns true for an operator that is neither of arithmetic nor a comparison (sql_dialect-3).
fn is_other_operator(token: &Token) -> bool {
    matches!(
        token,
        Token::Pipe
            | Token::Ampersand
            | Token::Sharp
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::StringConcat
            | Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk
            | Token::CaretAt
            | Token::Overlap
            | Token::Arrow
            | Token::LongArrow
            | Token::HashArrow
            | Token::HashLongArrow
            | Token::AtArrow
            | Token::ArrowAt
            | Token::HashMinus
            | Token::AtQuestion
            | Token::AtAt
            | Token::Question
            | Token::QuestionAnd
            | Token::QuestionPipe
            | Token::CustomBinaryOperator(_)
    )
}

/// Returns the function that a prefix operator calls.
fn root_function(token: &Token) -> Option<&'static str> {
    match token {
        Token::PGSquareRoot => Some("sqrt"),
        Token::PGCubeRoot => Some("cbrt"),
        _ => None,
    }
}

/// Returns true for ISNULL, which is no keyword of the parser.
fn is_isnull(token: &Token) -> bool {
    let Token::Word(word) = token else { return false };
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull")
}

/// Returns true at `TRIM(BOTH FROM`, which the parser takes for an error.
fn is_blank_trim(parser: &Parser<'_>) -> bool {
    let is_way = |way| matches!(way, Keyword::BOTH | Keyword::LEADING | Keyword::TRAILING);
    word(parser, 0).0 == Keyword::TRIM
        && parser.peek_nth_token_ref(1).token == Token::LParen
        && is_way(word(parser, 2).0)
        && word(parser, 3).0 == Keyword::FROM
}

/// Parses `TRIM(BOTH FROM x)`.
fn blank_trim(parser: &mut Parser<'_>) -> Parsed {
    skip(parser, 2);
    let trim_where = Some(parser.parse_trim_where()?);
    parser.expect_keyword(Keyword::FROM)?;
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Trim { expr, trim_where, trim_what: None, trim_characters: None })
}

fn are_inner_grouping_sets(parser: &Parser<'_>) -> bool {
    word(parser, 0).0 == Keyword::GROUPING
        && word(parser, 1).0 == Keyword::SETS
        && parser.peek_nth_token_ref(2).token == Token::LParen
}

/// Parses GROUPING SETS within GROUPING SETS, as a call.
fn inner_grouping_sets(parser: &mut Parser<'_>) -> Parsed {
    skip(parser, 2);
    parser.expect_token(&Token::LParen)?;
    let sets = parser.parse_comma_separated(|parser| {
        match parser.consume_tokens(&[Token::LParen, Token::RParen]) {
            true => Ok(Expr::Tuple(Vec::new())),
            false => parser.parse_expr(),
        }
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(call_of(GROUPING_SETS, sets))
}

/// Returns the keyword and the word, in lower case, at a token ahead.
fn word(parser: &Parser<'_>, at: usize) -> (Keyword, String) {
    match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) if word.quote_style.is_none() => {
            (word.keyword, word.value.to_lowercase())
        }
        _ => (Keyword::NoKeyword, String::new()),
    }
}

fn skip(parser: &mut Parser<'_>, tokens: usize) {
    (0..tokens).for_each(|_| parser.advance_token());
}

/// Returns `x [NOT] IN 'text'`.
fn in_interval(value: &Expr, text: ValueWithSpan, negated: bool) -> Expr {
    let op = BinaryOperator::PGCustomBinaryOperator(IN_OPERATOR.map(str::to_owned).to_vec());
    let (left, right) = (Box::new(value.clone()), Box::new(Expr::Value(text)));
    let is_in = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
    match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(is_in) },
        false => is_in,
    }
}

/// Parses the `(low, high)` of `x [NOT] IN interval(low, high)`.
fn interval_bounds(parser: &mut Parser<'_>, value: &Expr, negated: bool) -> Parsed {
    parser.expect_token(&Token::LParen)?;
    let low = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::Comma)?;
    let high = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::RParen)?;
    let expr = Box::new(value.clone());
    Ok(Expr::Nested(Box::new(Expr::Between { expr, negated, low, high })))
}

/// Parses the length of `RANGE BETWEEN 2 MINUTE PRECEDING ..`.
fn frame_length(parser: &mut Parser<'_>) -> Option<Expr> {
    let Token::Number(digits, _) = &parser.peek_token_ref().token else { return None };
    let Token::Word(unit) = &parser.peek_nth_token_ref(1).token else { return None };
    if !matches!(word(parser, 2).0, Keyword::PRECEDING | Keyword::FOLLOWING) {
        return None;
    }
    let text = Value::SingleQuotedString(format!("{digits} {}", unit.value));
    let text = text.with_span(parser.peek_token_ref().span);
    skip(parser, 2);
    Some(Expr::Interval(Interval {
        value: Box::new(Expr::Value(text)),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }))
}

/// Converts an error of sqlparser, which has the place only inside of its message.
pub(crate) fn parser_error(sql: &str, error: ParserError) -> Error {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return Error::syntax(sql, 0, SyntaxError::TooDeep { most: NESTING_MAX });
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let (message, location) = match message.rsplit_once(" at Line: ") {
        Some((message, place)) => (message, parse_place(place)),
        None => (message.as_str(), None),
    };
    let position = match location {
        Some((line, column)) => Position::of_line(sql, line, column),
        None => Position::at(sql, sql.trim_end().len()),
    };
    let unexpected = message
        .strip_prefix("Expected: ")
        .and_then(|rest| rest.split_once(", found: "))
        .map(|(expected, found)| SyntaxError::Unexpected {
            expected: expected.to_owned(),
            found: (found != "EOF").then(|| found.to_owned()),
        });
    let what = unexpected.unwrap_or_else(|| SyntaxError::Query { message: message.to_owned() });
    Error::Syntax { position, what }
}

/// Parses `3, Column: 14`.
fn parse_place(text: &str) -> Option<(usize, usize)> {
    let (line, column) = text.split_once(", Column: ")?;
    Some((line.trim().parse().ok()?, column.trim().parse().ok()?))
}

#[cfg(test)]
mod tests;
