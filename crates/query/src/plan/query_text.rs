//! Parsing of a query into a tree that DataFusion can plan.
//!
//! - query_text-1. Every name in the tree is in lower case; no two names differ only in case, so
//!   nothing is lost.
//! - query_text-2. `ts IN 'text'` is in the tree as the operator `tidegate.in`; `plan::coerce`
//!   gives it a meaning.
//! - query_text-3. `x = NULL` and `x != NULL` are in the tree as `IS [NOT] NULL`, with a notice.
//! - query_text-4. No name that a statement writes begins with `INTERNAL_PREFIX`.
//! - Clauses taken out of the text (`sql::clauses`) and tokens added to it do not move a position.
//!
//! The tree in the written case is used only for the names of the output columns (`names`). Columns
//! inside the statement get theirs in the tree (`inner_names`).

mod tokens;
mod forms;
mod relative;
mod item_names;
mod names;
mod inner_names;
mod size;
mod lambdas;
mod windows;
mod lag_defaults;
mod column_lists;
mod equal_lists;
mod grouping_sets;
mod distinct_on;
mod having;
mod constant_keys;
mod outer_values;
mod with_names;
mod bare_names;
mod outer_names;
mod row_locks;

use std::ops::ControlFlow;

use datafusion::logical_expr::Operator;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LimitClause, NullTreatment, ObjectName, ObjectNamePart, Query, Select, SelectFlavor,
    SelectItem, SetExpr, Spanned, TableFactor, TableWithJoins, Value, VisitorMut,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};
use tidegate_model::limits;

use super::cache::{Lifted, ReplaceableValues, parameter_predicates};
use super::parameters::{Parameter, Places, put_parameters};
use crate::error::{ClauseProblem, Error, Result, SyntaxError};
use crate::limits::NESTING_MAX;
use crate::names::INTERNAL_PREFIX;
use crate::pg_catalog::rewrite;
use crate::position::{Position, position_at};
use crate::sql::cast_names::name_subqueries_of_rows;
use crate::sql::clauses::{Clauses, lift_clauses, wrap_timestamps};
use crate::sql::dialect::{IN_OPERATOR, QueryDialect};
use crate::sql::row_values::compare_row_values;
use crate::sql::visit::visit_mut;
use bare_names::qualify_wildcards;
use column_lists::call_list_of_columns;
use constant_keys::{cast_parameters_of_groups, drop_parameters_of_order};
use distinct_on::{number_distinct_keys, write_out_keys};
use forms::{rewrite_form, rewrite_select};
use grouping_sets::{open_brackets, write_out_inner_sets, write_out_positions, write_out_sets};
use having::make_one_group;
use inner_names::name_inner_columns;
use lag_defaults::write_out_default;
use lambdas::check_lambdas;
use names::{name_items_beside_wildcards, number_repeated_items};
use outer_values::write_out_rows;
use relative::relative_interval;
use row_locks::write_out_row_locks;
use tokens::{
    bracket_set_items, check_numbers, read_other_words, select_everything, select_everything_inside,
};
use windows::write_out_windows;
use with_names::number_hidden_names;

#[cfg(test)]
pub(crate) use forms::REWRITTEN_CALLS;
pub(crate) use forms::quote_digits;
pub(crate) use names::OutputNames;
pub(crate) use outer_names::qualify_outer_names;
pub(crate) use row_locks::RowLocks;

/// The names of the operators for `IS [NOT] DISTINCT FROM`, whose sides are converted as those of
/// other comparisons.
const DISTINCT_OPERATOR: [&str; 2] = ["tidegate", "distinct"];
const SAME_OPERATOR: [&str; 2] = ["tidegate", "same"];

/// Returns the meaning of an operator of ours: IS DISTINCT FROM, or IS NOT DISTINCT FROM.
pub(crate) fn distinct_operator(op: &BinaryOperator) -> Option<Operator> {
    let BinaryOperator::PGCustomBinaryOperator(path) = op else { return None };
    match path {
        path if *path == DISTINCT_OPERATOR => Some(Operator::IsDistinctFrom),
        path if *path == SAME_OPERATOR => Some(Operator::IsNotDistinctFrom),
        _ => None,
    }
}

/// Returns true for the operator of query_text-2.
pub(crate) fn is_in_operator(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::PGCustomBinaryOperator(path) if path == &IN_OPERATOR)
}

/// A parsed query, with the parts that DataFusion has no notion of.
#[derive(Debug)]
pub(crate) struct QueryText {
    /// The tree (query_text-1).
    pub(crate) statement: Box<Query>,
    /// The clauses that sqlparser does not know.
    pub(crate) clauses: Clauses,
    pub(crate) names: OutputNames,
    /// The tables whose rows are read for later changes.
    pub(crate) locks: RowLocks,
    /// Notices to the user, a sentence each.
    pub(crate) notices: Vec<String>,
    /// The values that a plan for it can have others in place of.
    pub(crate) replaceable: Option<ReplaceableValues>,
    /// The columns of SET, as written.
    pub(crate) sets: Vec<Ident>,
}

/// The result of parsing a text: a query, or a statement that is planned as one.
pub(super) struct Tree {
    pub(super) query: Box<Query>,
    /// The columns of SET.
    pub(super) sets: Vec<Ident>,
}

/// Reads a text up to its end.
type Read<'a> = &'a dyn Fn(&mut Parser<'_>) -> std::result::Result<Tree, ParserError>;

/// Parses a query with values for its parameters.
pub(crate) fn parse_query(sql: &str, parameters: &[Parameter]) -> Result<QueryText> {
    let read = |parser: &mut Parser<'_>| {
        let query = parser.parse_query()?;
        expect_end(parser, "the end of the query")?;
        Ok(Tree { query, sets: Vec::new() })
    };
    parse_tokens(sql, tokenize(sql)?, parameters, &read)
}

/// Parses tokens of a statement.
pub(super) fn parse_tokens(
    sql: &str,
    mut tokens: Vec<TokenWithSpan>,
    parameters: &[Parameter],
    read: Read<'_>,
) -> Result<QueryText> {
    let places = put_parameters(sql, &mut tokens, parameters)?;
    read_other_words(&mut tokens);
    write_out_row_locks(&mut tokens);
    wrap_timestamps(&mut tokens);
    bracket_set_items(&mut tokens);
    select_everything(&mut tokens);
    select_everything_inside(&mut tokens);
    let clauses = lift_clauses(sql, &mut tokens)?;
    check_numbers(sql, &tokens)?;
    let Tree { query: written, sets } = parse(sql, tokens.clone(), read)?;
    for token in &mut tokens {
        if let Token::Word(word) = &mut token.token {
            word.value = word.value.to_lowercase();
        }
    }
    let mut query = parse(sql, tokens, read)?.query;
    check_size(sql, &query)?;
    check_lambdas(sql, &query)?;
    let replaceable = replaceable(sql, &query, &places, parameters);
    name_inner_columns(sql, &mut query).map_err(|error| *error)?;
    number_hidden_names(&mut query);
    rewrite(&mut query);
    let (locks, notices) = (RowLocks::default(), Vec::new());
    let mut lifter = Lifter { sql, parameters: places, written_rows: 0, locks, notices };
    if let ControlFlow::Break(error) = visit_mut(&mut query, &mut lifter) {
        return Err(*error);
    }
    let names = OutputNames::of(*written);
    let Lifter { locks, notices, .. } = lifter;
    Ok(QueryText { statement: query, clauses, names, locks, notices, replaceable, sets })
}

/// Returns the values of parameters or literals that a plan can have others in place of.
fn replaceable(
    sql: &str,
    query: &Query,
    places: &Places,
    parameters: &[Parameter],
) -> Option<ReplaceableValues> {
    if !parameters.is_empty() {
        let predicates = parameter_predicates(query, places, parameters)?;
        return Some(ReplaceableValues { predicates, lifted: None });
    }
    let lifted = Lifted::of(sql)?;
    let predicates = parameter_predicates(query, &lifted.places(sql), lifted.values())?;
    Some(ReplaceableValues { predicates, lifted: Some(lifted) })
}

/// Checks that a query is not too large to be planned.
pub(super) fn check_size(sql: &str, query: &Query) -> Result<()> {
    if size::PARTS_MAX < size::parts(query) {
        let what = SyntaxError::TooManyParts { most: size::PARTS_MAX };
        return Err(Error::syntax(sql, 0, what));
    }
    let items = size::Items::of(query);
    if limits::JOINS < items.joins {
        let what = SyntaxError::TooManyJoins { most: limits::JOINS };
        return Err(Error::syntax(sql, 0, what));
    }
    if limits::SELECT_ITEMS < items.most {
        let what = SyntaxError::TooManyItems { most: limits::SELECT_ITEMS };
        return Err(Error::syntax(sql, 0, what));
    }
    if limits::GROUPING_SETS < items.sets || limits::GROUPING_SET_ITEMS < items.set_items {
        let (sets, items) = (limits::GROUPING_SETS, limits::GROUPING_SET_ITEMS);
        return Err(Error::syntax(sql, 0, SyntaxError::TooManySets { sets, items }));
    }
    Ok(())
}

/// Returns the tokens of a statement from a byte on.
pub(super) fn tokens_from(sql: &str, start: usize) -> Result<Vec<TokenWithSpan>> {
    let Position { line, column, .. } = Position::at(sql, start);
    let start = Location { line: line as u64, column: column as u64 };
    let mut tokens = tokenize(sql)?;
    tokens.retain(|token| start <= token.span.start);
    Ok(tokens)
}

fn tokenize(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let mut tokens = Tokenizer::new(&QueryDialect::default(), sql)
        .tokenize_with_location()
        .map_err(|error| {
            let position = position_at(sql, error.location);
            Error::Syntax { position, what: SyntaxError::Query { message: error.message } }
        })?;
    for token in &mut tokens {
        if let Token::Number(digits, _) = &mut token.token {
            digits.retain(|digit| digit != '_');
        }
    }
    let is_nothing = |token: &TokenWithSpan| {
        matches!(token.token, Token::Whitespace(_) | Token::SemiColon | Token::EOF)
    };
    while tokens.last().is_some_and(is_nothing) {
        tokens.pop();
    }
    size::check_tokens(sql, &tokens)?;
    check_names(sql, &tokens)?;
    Ok(tokens)
}

/// Checks query_text-4. A text in single quotes is a name if it is called.
fn check_names(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    let is_space = |it: &&TokenWithSpan| matches!(it.token, Token::Whitespace(_));
    for (at, token) in tokens.iter().enumerate() {
        let is_internal = match &token.token {
            Token::Word(word) => word.value.starts_with(INTERNAL_PREFIX),
            Token::SingleQuotedString(text) if text.starts_with(INTERNAL_PREFIX) => {
                let next = tokens[at + 1..].iter().find(|it| !is_space(it));
                next.is_some_and(|next| next.token == Token::LParen)
            }
            _ => false,
        };
        if is_internal {
            let position = position_at(sql, token.span.start);
            return Err(Error::Syntax { position, what: SyntaxError::InternalName });
        }
    }
    Ok(())
}

fn parse(sql: &str, tokens: Vec<TokenWithSpan>, read: Read<'_>) -> Result<Tree> {
    let dialect = QueryDialect::new(tokens.len());
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    let mut tree = read(&mut parser).map_err(|error| dialect.error(sql, error))?;
    compare_row_values(&mut tree.query);
    Ok(tree)
}

/// Returns an error if there is another token.
pub(super) fn expect_end(
    parser: &Parser<'_>,
    expected: &str,
) -> std::result::Result<(), ParserError> {
    match parser.peek_token_ref() {
        TokenWithSpan { token: Token::EOF, .. } => Ok(()),
        rest => parser.expected_ref(expected, rest),
    }
}

/// Rewrites a tree in place: query_text-1 for names in single quotes, query_text-2, and FETCH
/// without WITH TIES as LIMIT.
struct Lifter<'a> {
    sql: &'a str,
    /// The places of values of parameters.
    parameters: Places,
    /// The rows of VALUES that are SELECTs now.
    written_rows: usize,
    locks: RowLocks,
    notices: Vec<String>,
}

impl Lifter<'_> {
    /// Applies query_text-3.
    fn ask_for_null(&mut self, expr: &mut Expr) {
        let Expr::BinaryOp { left, op, right } = expr else { return };
        let (is_equal, sign) = match op {
            BinaryOperator::Eq => (true, "="),
            BinaryOperator::NotEq => (false, "!="),
            _ => return,
        };
        let asked = match (self.is_null(left), self.is_null(right)) {
            (_, true) => left,
            (true, false) => right,
            (false, false) => return,
        };
        let null = Box::new(Expr::Value(Value::Null.into()));
        let start = asked.span().start;
        let asked = std::mem::replace(asked, null);
        *expr = if is_equal { Expr::IsNull(asked) } else { Expr::IsNotNull(asked) };
        let meant = if is_equal { "IS NULL" } else { "IS NOT NULL" };
        let place = match start.line {
            0 => String::new(),
            _ => format!("{}: ", position_at(self.sql, start)),
        };
        self.notices.push(format!("{place}`{sign} NULL` is read as {meant}"));
    }

    /// Returns true for the literal NULL.
    fn is_null(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Value(value) => {
                value.value == Value::Null && !self.parameters.contains_key(&value.span.start)
            }
            Expr::Nested(inner) => self.is_null(inner),
            _ => false,
        }
    }

    /// Checks a FETCH of a query, which is sorted for WITH TIES. `is_sorted` is true if it has an
    /// ORDER BY, of constants too.
    fn check_fetch(&self, query: &Query, is_sorted: bool) -> ControlFlow<Box<Error>> {
        let Some(fetch) = &query.fetch else { return ControlFlow::Continue(()) };
        let span = fetch.quantity.as_ref().map_or_else(Span::empty, Spanned::span);
        if fetch.percent {
            return self.not_supported(span, "FETCH with PERCENT");
        }
        if !fetch.with_ties || query.order_by.is_some() {
            return ControlFlow::Continue(());
        }
        if is_sorted {
            return self.not_supported(span, "FETCH .. WITH TIES by a constant");
        }
        let position = match span.start.line {
            0 => Position::at(self.sql, self.sql.trim_end().len()),
            _ => position_at(self.sql, span.start),
        };
        let message = "WITH TIES cannot be specified without ORDER BY clause".to_owned();
        let what = SyntaxError::Query { message };
        ControlFlow::Break(Box::new(Error::Syntax { position, what }))
    }

    fn not_supported(&self, span: Span, feature: &'static str) -> ControlFlow<Box<Error>> {
        let known = span.start.line > 0;
        let position = known.then(|| position_at(self.sql, span.start));
        ControlFlow::Break(Box::new(Error::NotSupported { position, feature }))
    }
}

impl VisitorMut for Lifter<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let Err(error) = self.locks.take(self.sql, query) {
            return ControlFlow::Break(error);
        }
        if let Err(error) = write_out_rows(self.sql, query, &mut self.written_rows) {
            return ControlFlow::Break(error);
        }
        if let SetExpr::Values(values) = query.body.as_mut() {
            name_subqueries_of_rows(values);
        }
        let is_sorted = query.order_by.is_some();
        drop_parameters_of_order(query, &self.parameters);
        self.check_fetch(query, is_sorted)?;
        if let Err(error) = write_out_windows(self.sql, query) {
            return ControlFlow::Break(error);
        }
        if let Err(error) = write_out_keys(self.sql, query) {
            return ControlFlow::Break(error);
        }
        number_distinct_keys(query);
        if let Some(column) = limit_column(query) {
            let position = Some(position_at(self.sql, column.span.start));
            let error = Error::Clause { position, what: ClauseProblem::LimitColumn };
            return ControlFlow::Break(Box::new(error));
        }
        // `sql::select_rewrite` takes FETCH .. WITH TIES.
        if let Some(fetch) = query.fetch.take_if(|fetch| !fetch.with_ties) {
            let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
            let limit = Some(fetch.quantity.unwrap_or_else(one));
            query.limit_clause = Some(match query.limit_clause.take() {
                Some(LimitClause::LimitOffset { offset, limit_by, .. }) => {
                    LimitClause::LimitOffset { limit, offset, limit_by }
                }
                _ => LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() },
            });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if select.into.is_some() {
            return self.not_supported(select.select_token.0.span, "SELECT INTO");
        }
        for table in select.from.iter().flat_map(relations) {
            if let TableFactor::Table { sample: Some(_), name, .. } = table {
                return self.not_supported(name.span(), "TABLESAMPLE");
            }
        }
        if let Err(feature) = rewrite_select(select) {
            return self.not_supported(select.select_token.0.span, feature);
        }
        for table in select.from.iter().flat_map(relations) {
            if let TableFactor::Table { with_ordinality: true, name, .. }
            | TableFactor::Function { with_ordinality: true, name, .. } = table
            {
                let feature = "WITH ORDINALITY of other functions than unnest and generate_series";
                return self.not_supported(name.span(), feature);
            }
        }
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            // `FROM t` without SELECT selects all columns, in subqueries too.
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        open_brackets(select);
        write_out_inner_sets(select);
        if let Err(error) = write_out_positions(self.sql, select, &self.parameters) {
            return ControlFlow::Break(error);
        }
        cast_parameters_of_groups(select, &self.parameters);
        make_one_group(select);
        qualify_wildcards(select);
        let is_one = matches!(select.from.as_slice(), [one] if one.joins.is_empty());
        name_items_beside_wildcards(&mut select.projection, is_one);
        number_repeated_items(&mut select.projection);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Self::Break> {
        for part in &mut relation.0 {
            if let ObjectNamePart::Identifier(ident) = part {
                // Words and names in double quotes are in lower case already.
                if ident.quote_style == Some('\'') {
                    *ident = Ident::with_quote('"', ident.value.to_lowercase());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Some((feature, span)) = refused_form(expr) {
            return self.not_supported(span, feature);
        }
        self.ask_for_null(expr);
        if let Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) = expr {
            *expr = distinct_operation(expr);
        }
        if let Expr::Function(call) = expr {
            name_window_function(call);
        }
        write_out_default(expr);
        rewrite_form(expr);
        call_list_of_columns(expr);
        write_out_sets(expr);
        if let Expr::BinaryOp { left, op, right } = expr
            && is_in_operator(op)
            && let Some(relative) = text_relative(left, right)
        {
            *expr = relative;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the relations of an item of FROM.
fn relations(from: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
}

/// Returns the feature of an expression that is refused by its name, and its place.
fn refused_form(expr: &Expr) -> Option<(&'static str, Span)> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Overlaps, .. } => {
            Some(("OVERLAPS without a pair on each side", left.span()))
        }
        _ => None,
    }
}

/// Returns the condition of `time IN text`, if the text is relative to now.
fn text_relative(time: &Expr, text: &Expr) -> Option<Expr> {
    let Expr::Value(value) = text else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    relative_interval(time, text)
}

/// Returns a column in LIMIT or OFFSET, if there is one.
fn limit_column(query: &Query) -> Option<&Ident> {
    let bounds = match query.limit_clause.as_ref()? {
        LimitClause::LimitOffset { limit, offset, .. } => {
            [limit.as_ref(), offset.as_ref().map(|offset| &offset.value)]
        }
        LimitClause::OffsetCommaLimit { offset, limit } => [Some(offset), Some(limit)],
    };
    bounds.into_iter().flatten().find_map(|bound| match bound {
        Expr::Identifier(column) => Some(column),
        Expr::CompoundIdentifier(path) => path.first(),
        _ => None,
    })
}

/// Returns `IS [NOT] DISTINCT FROM` as an operator of ours.
fn distinct_operation(expr: &mut Expr) -> Expr {
    let null = || Box::new(Expr::Value(Value::Null.into()));
    let (left, right, path) = match expr {
        Expr::IsDistinctFrom(left, right) => (left, right, DISTINCT_OPERATOR),
        Expr::IsNotDistinctFrom(left, right) => (left, right, SAME_OPERATOR),
        _ => unreachable!("it is asked for these only"),
    };
    let [left, right] = [left, right].map(|side| std::mem::replace(side, null()));
    let op = BinaryOperator::PGCustomBinaryOperator(path.map(str::to_owned).to_vec());
    Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }))
}

/// Renames `first(x) OVER ..` and similar calls to window functions of DataFusion.
fn name_window_function(call: &mut Function) {
    let [ObjectNamePart::Identifier(name)] = call.name.0.as_mut_slice() else { return };
    if call.over.is_none() {
        return;
    }
    let (named, skips_null) = match name.value.as_str() {
        "first" => ("first_value", false),
        "last" => ("last_value", false),
        "first_not_null" => ("first_value", true),
        "last_not_null" => ("last_value", true),
        _ => return,
    };
    name.value = named.to_owned();
    if skips_null {
        call.null_treatment = Some(NullTreatment::IgnoreNulls);
    }
}

/// Returns the positional arguments of a call.
fn arguments(call: &Function) -> impl Iterator<Item = &Expr> {
    let list = match &call.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let shown = match parse_query(sql, &[]) {
            Ok(query) => query.statement.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{sql}");
    }

    #[test]
    fn names_are_lowered_and_texts_are_not() {
        check(
            "SELECT WatchID, \"Ab C\" AS Xy FROM Hits AS H WHERE Title = 'Abc';",
            "SELECT watchid, \"ab c\" AS xy FROM hits AS h WHERE title = 'Abc'",
        );
        check("SELECT * FROM 'Hits'", "SELECT * FROM \"hits\"");
    }

    // The function that takes numbers of an identity was found by its name in any statement, for
    // every role: a reader could use the numbers up.
    #[test]
    fn internal_names_cannot_be_written() {
        let refused = "names that begin with the character U+0001 are reserved for the database";
        for name in ["\"\u{1}next number\"", "\"\u{1}NEXT Number\"", "`\u{1}a`", "t.\"\u{1}a\""] {
            let at = if name.starts_with('t') { 10 } else { 8 };
            let expected = format!("error: line 1, column {at}: {refused}");
            check(&format!("SELECT {name}(1, 0) FROM t"), &expected);
        }
        for call in ["'\u{1}next number'(1, 0)", "'\u{1}next number' /* */ (1, 0)"] {
            let expected = format!("error: line 1, column 12: {refused}");
            check(&format!("SELECT {{fn {call}}}"), &expected);
        }
        let inside = "SELECT ts, sum(v) FROM t SAMPLE BY 1h FILL(\"\u{1}next number\"(1, 0))";
        check(inside, &format!("error: line 1, column 44: {refused}"));
        check("SELECT '\u{1}text', ('\u{1}')", "SELECT '\u{1}text', ('\u{1}')");
        let internal = format!("SELECT 1 AS \"{INTERNAL_PREFIX}key 0\"");
        assert!(parse_query(&internal, &[]).is_err(), "query_text-4");
    }

    #[test]
    fn digits_may_be_grouped() {
        check("SELECT 1_000 + 1_0.5", "SELECT 1000 + 10.5");
        check("SELECT 10.5m", "error: line 1, column 8: expected a number, found `10.5m`");
    }

    #[test]
    fn short_forms_select_everything() {
        check("hits WHERE a = 1", "SELECT * FROM hits WHERE a = 1");
        check("Hits", "SELECT * FROM hits");
        check("FROM public.Hits", "SELECT * FROM public.hits");
        check("Tables()", "SELECT * FROM tables()");
        check("table_columns('T') WHERE a", "SELECT * FROM table_columns('T') WHERE a");
        check("FROM t SELECT a", "FROM t SELECT a");
        check("(SELECT 1 AS a) WHERE a = 1", "SELECT * FROM (SELECT 1 AS a) WHERE a = 1");
        check("(SELECT 1) UNION (SELECT 2)", "(SELECT 1) UNION (SELECT 2)");
    }

    #[test]
    fn parameters_stand_as_constants() {
        let sql = "SELECT $1, $2 FROM t WHERE a = $3 AND ts IN $1 LIMIT $4";
        let text = Parameter::Text("it's; DROP".to_owned());
        let parameters = [text, Parameter::Double(-0.5), Parameter::Null, Parameter::Integer(-3)];
        assert_eq!(
            parse_query(sql, &parameters).unwrap().statement.to_string(),
            "SELECT 'it''s; DROP', (-5e-1) FROM t WHERE a = NULL \
             AND (ts OPERATOR(tidegate.in) 'it''s; DROP') LIMIT (-3)",
            "parameters-1"
        );
        assert_eq!(
            parse_query("SELECT\n $1 + $2", &parameters[..1]).unwrap_err().to_string(),
            "line 2, column 7: there is no value for $2: 1 given",
            "parameters-2"
        );
        check("SELECT $0", "error: line 1, column 8: there is no value for $0: 0 given");
    }

    #[test]
    fn an_interval_becomes_an_operator() {
        check(
            "SELECT 1 FROM t WHERE ts NOT IN '2013' AND x IN ('a')",
            "SELECT 1 FROM t WHERE NOT (ts OPERATOR(tidegate.in) '2013') AND x IN ('a')",
        );
    }

    #[test]
    fn bounds_of_an_interval_are_inside() {
        check(
            "t WHERE ts IN interval('2025', dateadd('d', 1, ts))",
            "SELECT * FROM t WHERE (ts BETWEEN '2025' AND dateadd('d', 1, ts))",
        );
        check(
            "t WHERE ts NOT IN Interval('2025', '2026') AND ts > now() - INTERVAL '1' DAY",
            "SELECT * FROM t WHERE (ts NOT BETWEEN '2025' AND '2026') \
             AND ts > now() - INTERVAL '0 months 1 days 0 nanoseconds'",
        );
    }

    #[test]
    fn equal_to_null_asks_for_null() {
        let sql = "SELECT a = NULL FROM t WHERE NULL <> b AND (c) = (NULL)";
        check(sql, "SELECT a IS NULL FROM t WHERE b IS NOT NULL AND (c) IS NULL");
        let notices = parse_query(sql, &[]).unwrap().notices;
        assert_eq!(notices[0], "line 1, column 8: `= NULL` is read as IS NULL", "query_text-3");
        assert_eq!(
            notices[1], "line 1, column 38: `!= NULL` is read as IS NOT NULL",
            "query_text-3"
        );
        assert_eq!(notices.len(), 3);
    }

    #[test]
    fn clauses_of_ours_leave_the_text() {
        check("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3");
        let ties = "SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES";
        check(ties, ties);
        check(
            "SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES",
            "error: line 1, column 29: WITH TIES cannot be specified without ORDER BY clause",
        );
        check("SELECT a FROM t LIMIT 5,", "SELECT a FROM t LIMIT 5, 0");
        check("SELECT a FROM t LIMIT ,5", "SELECT a FROM t LIMIT 0, 5");
        check("t LIMIT -5", "SELECT * FROM t LIMIT -5");
        check(
            "SELECT 1 FROM t AS lt JOIN latest ON latest.a = lt.a",
            "SELECT 1 FROM t AS lt JOIN latest ON latest.a = lt.a",
        );
        check(
            "SELECT ts, avg(a) FROM t SAMPLE BY 1h FILL(PREV) LIMIT 2",
            "SELECT ts, avg(a) FROM t LIMIT 2",
        );
        check("t WHERE a = 1 LATEST ON ts PARTITION BY k, j", "SELECT * FROM t WHERE a = 1");
        check(
            "(t) TIMESTAMP(ts) WHERE a = 1",
            "error: line 1, column 2: expected SELECT, VALUES, or a subquery in the query body, \
             found `t`",
        );
    }

    #[test]
    fn clauses_that_are_not_whole_are_refused_at_their_place() {
        check(
            "SELECT a FROM t SAMPLE BY h",
            "error: line 1, column 27: expected a number above zero and a unit, like 15m, \
             found `h`",
        );
        check(
            "SELECT a FROM t SAMPLE BY 1q",
            "error: line 1, column 28: expected one of the units n U T s m h d w M y, found `q`",
        );
        check("t LATEST ON ts", "error: line 1, column 15: expected PARTITION, found the end");
        check(
            "SELECT 1 FROM a SPLICE JOIN b",
            "error: line 1, column 17: SPLICE JOIN is not supported yet",
        );
        check(
            "SELECT a FROM t SAMPLE BY 1h SAMPLE BY 1h",
            "error: line 1, column 30: expected this clause once, behind a SELECT .. FROM, \
             found `SAMPLE`",
        );
    }

    #[test]
    fn errors_stand_at_their_token() {
        check("SELECT FROM", "error: line 1, column 12: expected identifier, found the end");
        check(
            "SELECT 1 FROM t\nWHERE )",
            "error: line 2, column 7: expected an expression, found `)`",
        );
        check("SELECT 1 2", "error: line 1, column 10: expected the end of the query, found `2`");
        check(
            "SELECT a INTO b FROM t",
            "error: line 1, column 1: SELECT INTO is not supported yet",
        );
    }
}
