//! The SQL dialect of queries: sqlparser's generic one, with operators and literals of PostgreSQL.
//!
//! - DI1. `^` is the power operator and binds more tightly than `*`, and a sign binds more tightly
//!   than `^`: `-2 ^ 2` is 4. `#` is bitwise exclusive or.
//! - DI2. `1_000` is one number, whose underscores `query_text` removes.
//! - DI3. `BETWEEN SYMMETRIC` takes its bounds in either order.
//!
//! - DI4. A text is parsed in a number of steps that is proportional to its length, and parsing
//!   stops when the statement is cancelled: where the parser finds an error within NOT, CAST and
//!   some others, it tries to read each of them as a name, and so takes twice as long for each
//!   bracket around it.
//!
//! Everything else is that of [`GenericDialect`], which the parser takes this dialect for. Not
//! here: `IS DISTINCT FROM`, which the parser binds too loosely (`plan::precedence`).

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::account::check_canceled;
use crate::error::{Error, SyntaxError};
use crate::limits::NESTING_MAX;
use crate::position::Position;

/// The dialect of queries.
#[derive(Debug)]
pub(crate) struct QueryDialect {
    /// Expressions that the parser has begun (DI4).
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

/// The binding strength of `^` (DI1): above that of `*`, below that of `::`.
const POWER: u8 = 45;

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

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::Caret => Some(Ok(POWER)),
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
        if !parser.consume_token(&Token::Minus) {
            return None;
        }
        let operand = parser.parse_subexpr(POWER);
        Some(operand.map(|it| Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(it) }))
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, precedence: u8) -> Option<Parsed> {
        let op = match parser.peek_token_ref().token {
            Token::Caret => BinaryOperator::PGExp,
            Token::Sharp => BinaryOperator::PGBitwiseXor,
            _ => return self.parse_symmetric(parser, left),
        };
        parser.advance_token();
        let right = parser.parse_subexpr(precedence);
        let left = Box::new(left.clone());
        Some(right.map(|it| Expr::BinaryOp { left, op, right: Box::new(it) }))
    }

    with_features!(
        // DI2.
        supports_numeric_literal_underscores,
        supports_order_by_all,
        allow_extract_custom,
        allow_extract_single_quotes,
        support_map_literal_syntax,
        supports_array_join_syntax,
        supports_array_typedef_with_brackets,
        supports_asc_desc_in_column_definition,
        supports_bitwise_shift_operators,
        supports_comma_separated_set_assignments,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_comment_optimizer_hint,
        supports_connect_by,
        supports_constraint_keyword_without_name,
        supports_create_index_with_clause,
        supports_create_view_comment_syntax,
        supports_cte_without_as,
        supports_data_type_signed_suffix,
        supports_detach,
        supports_dictionary_syntax,
        supports_empty_projections,
        supports_explain_with_utility_options,
        supports_extract_comma_syntax,
        supports_filter_during_aggregation,
        supports_from_first_select,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_install,
        supports_interpolate,
        supports_interval_options,
        supports_key_column_option,
        supports_left_associative_joins_without_parens,
        supports_limit_by,
        supports_limit_comma,
        supports_load_extension,
        supports_match_against,
        supports_match_recognize,
        supports_multiline_comment_hints,
        supports_named_fn_args_with_assignment_operator,
        supports_nested_comments,
        supports_optimize_table,
        supports_parens_around_table_factor,
        supports_parenthesized_set_variables,
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
        supports_set_names,
        supports_settings,
        supports_start_transaction_modifier,
        supports_string_escape_constant,
        supports_struct_literal,
        supports_try_convert,
        supports_unicode_string_literal,
        supports_update_order_by,
        supports_user_host_grantee,
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
        Error::syntax(sql, 0, SyntaxError::Unclear { steps: self.steps_max })
    }

    /// Parses `x [NOT] BETWEEN SYMMETRIC a AND b` (DI3).
    fn parse_symmetric(&self, parser: &mut Parser<'_>, value: &Expr) -> Option<Parsed> {
        let word = |parser: &Parser<'_>, at: usize| match &parser.peek_nth_token_ref(at).token {
            Token::Word(word) if word.quote_style.is_none() => {
                (word.keyword, word.value.to_ascii_uppercase())
            }
            _ => (Keyword::NoKeyword, String::new()),
        };
        let negated = word(parser, 0).0 == Keyword::NOT;
        let start = usize::from(negated);
        let is_symmetric =
            word(parser, start).0 == Keyword::BETWEEN && word(parser, start + 1).1 == "SYMMETRIC";
        if !is_symmetric {
            return None;
        }
        (0..start + 2).for_each(|_| parser.advance_token());
        Some(self.symmetric_bounds(parser, value, negated))
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
mod tests {
    use super::*;
    use crate::plan::query_text::parse_query;

    #[track_caller]
    fn check(text: &str, meant: &str) {
        let bracketed = |text: &str| {
            fn shown(expr: &Expr) -> String {
                match expr {
                    Expr::BinaryOp { left, op, right } => {
                        format!("({} {op} {})", shown(left), shown(right))
                    }
                    Expr::UnaryOp { op, expr } => format!("({op}{})", shown(expr)),
                    Expr::Nested(inner) => shown(inner),
                    other => other.to_string(),
                }
            }
            let dialect = QueryDialect::default();
            let parsed = Parser::new(&dialect).try_with_sql(text);
            shown(&parsed.and_then(|mut parser| parser.parse_expr()).unwrap())
        };
        assert_eq!(bracketed(text), meant, "{text}");
    }

    #[test]
    fn operators_bind_as_in_postgresql() {
        check("a * b ^ c", "(a * (b ^ c))");
        check("a ^ b * c", "((a ^ b) * c)");
        check("a ^ b ^ c", "((a ^ b) ^ c)");
        check("-a ^ b", "((-a) ^ b)");
        check("a ^ -b", "(a ^ (-b))");
        check("a ^ -b + c", "((a ^ (-b)) + c)");
        check("a = b ^ c", "(a = (b ^ c))");
        check("-a * b", "((-a) * b)");
        check("-a::INT", "(-a::INT)");
        check("a # b + c", "(a # (b + c))");
        check("a # b = c", "((a # b) = c)");
        check("a ^ b::INT", "(a ^ b::INT)");
        check("a - -b ^ c", "(a - ((-b) ^ c))");
    }

    #[test]
    fn bounds_stand_in_either_order() {
        check(
            "a BETWEEN SYMMETRIC 2 AND 1 AND c",
            "((a BETWEEN 2 AND 1 OR a BETWEEN 1 AND 2) AND c)",
        );
        check(
            "a NOT BETWEEN symmetric b AND 1",
            "(a NOT BETWEEN b AND 1 AND a NOT BETWEEN 1 AND b)",
        );
    }

    /// The parser would have taken years for a statement of a hundred bytes.
    #[test]
    fn an_error_within_many_brackets_is_found_soon() {
        for open in ["NOT (", "CAST(", "SUBSTRING(", "POSITION(", "CEIL(", "OVERLAY("] {
            let error = parse_query(&format!("SELECT {}1 + +)", open.repeat(60)), &[]);
            let error = error.expect_err(open).to_string();
            assert!(error.contains("cannot be parsed in"), "DI4: {error}");
        }
        let error = parse_query("SELECT NOT (NOT (1 + +))", &[]).expect_err("an error").to_string();
        assert!(error.contains("column 23"), "{error}");
        let right = format!("SELECT {}1 = 1{}", "NOT (".repeat(90), ")".repeat(90));
        parse_query(&right, &[]).expect("DI4: it has no error");
    }
}
