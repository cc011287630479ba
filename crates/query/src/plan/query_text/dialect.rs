//! The dialect of the parser, which ends what would never end.
//!
//! - DI1. A text is parsed in a number of steps that grows with its length, and only as long as its
//!   statement is to go on: where the parser finds an error within NOT, CAST and some others, it
//!   tries to read each of them as a name, and so takes twice as long for each bracket around it.
//!
//! All else is the dialect that sqlparser calls generic.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::parser_error;
use crate::account::check_stop;
use crate::error::{Error, SyntaxError};

/// Expressions that begin at a token, on average: texts without an error have fewer than three.
const STEPS_PER_TOKEN: usize = 64;
/// The same for short texts, in all.
const STEPS_MIN: usize = 1 << 14;
/// Steps between two looks at whether the statement is to go on.
const ASK_STEPS: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct PacedDialect {
    steps: Cell<usize>,
    steps_max: usize,
}

impl PacedDialect {
    /// For a text of so many tokens.
    pub(crate) fn new(tokens: usize) -> PacedDialect {
        let steps_max = tokens.saturating_mul(STEPS_PER_TOKEN).max(STEPS_MIN);
        PacedDialect { steps: Cell::new(0), steps_max }
    }

    /// What is said of an error of the parser.
    pub(crate) fn error(&self, sql: &str, error: ParserError) -> Error {
        if let Err(error) = check_stop() {
            return error.into();
        }
        if self.steps.get() <= self.steps_max {
            return parser_error(sql, error);
        }
        Error::syntax(sql, 0, SyntaxError::Unclear { steps: self.steps_max })
    }
}

/// Methods that say what the generic dialect says.
macro_rules! as_generic {
    ($($name:ident)*) => {
        $(fn $name(&self) -> bool {
            GenericDialect.$name()
        })*
    };
}

/// The same of a character.
macro_rules! as_generic_of {
    ($($name:ident)*) => {
        $(fn $name(&self, c: char) -> bool {
            GenericDialect.$name(c)
        })*
    };
}

impl Dialect for PacedDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn parse_prefix(&self, _: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        let is_over = steps.is_multiple_of(ASK_STEPS) && check_stop().is_err();
        // No other error is one behind which the parser tries nothing else.
        (is_over || self.steps_max < steps).then_some(Err(ParserError::RecursionLimitExceeded))
    }

    as_generic_of! {
        is_delimited_identifier_start
        is_identifier_start
        is_identifier_part
    }

    as_generic! {
        supports_unicode_string_literal
        supports_partition_by_after_order_by
        supports_array_join_syntax
        supports_group_by_expr
        supports_group_by_with_modifier
        supports_left_associative_joins_without_parens
        supports_connect_by
        supports_match_recognize
        supports_pipe_operator
        supports_start_transaction_modifier
        supports_window_function_null_treatment_arg
        supports_dictionary_syntax
        supports_window_clause_named_window_reference
        supports_parenthesized_set_variables
        supports_select_wildcard_except
        support_map_literal_syntax
        allow_extract_custom
        allow_extract_single_quotes
        supports_extract_comma_syntax
        supports_create_view_comment_syntax
        supports_parens_around_table_factor
        supports_values_as_table_factor
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_limit_comma
        supports_update_order_by
        supports_from_first_select
        supports_projection_trailing_commas
        supports_asc_desc_in_column_definition
        supports_try_convert
        supports_bitwise_shift_operators
        supports_comment_on
        supports_load_extension
        supports_named_fn_args_with_assignment_operator
        supports_struct_literal
        supports_empty_projections
        supports_nested_comments
        supports_multiline_comment_hints
        supports_user_host_grantee
        supports_string_escape_constant
        supports_array_typedef_with_brackets
        supports_match_against
        supports_set_names
        supports_comma_separated_set_assignments
        supports_filter_during_aggregation
        supports_select_wildcard_exclude
        supports_data_type_signed_suffix
        supports_interval_options
        supports_quote_delimited_string
        supports_select_wildcard_replace
        supports_select_wildcard_ilike
        supports_select_wildcard_rename
        supports_optimize_table
        supports_install
        supports_detach
        supports_prewhere
        supports_with_fill
        supports_limit_by
        supports_interpolate
        supports_settings
        supports_select_format
        supports_comment_optimizer_hint
        supports_constraint_keyword_without_name
        supports_key_column_option
        supports_comma_separated_trim
        supports_cte_without_as
        supports_select_item_multi_column_alias
        supports_xml_expressions
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_query;

    /// A statement of a hundred bytes was parsed for years.
    #[test]
    fn an_error_within_many_brackets_is_found_soon() {
        for open in ["NOT (", "CAST(", "SUBSTRING(", "POSITION(", "CEIL(", "OVERLAY("] {
            let error = parse_query(&format!("SELECT {}1 + +)", open.repeat(60)), &[]);
            let error = error.expect_err(open).to_string();
            assert!(error.contains("cannot be parsed in"), "DI1: {error}");
        }
        let error = parse_query("SELECT NOT (NOT (1 + +))", &[]).expect_err("an error").to_string();
        assert!(error.contains("column 23"), "{error}");
        let right = format!("SELECT {}1 = 1{}", "NOT (".repeat(90), ")".repeat(90));
        parse_query(&right, &[]).expect("DI1: it has no error");
    }
}
