//! The queries that `UPDATE`, `DELETE` and `RETURNING` are planned as: trees of sqlparser, made of
//! their clauses.
//!
//! - change_query-1. Everything that the statement has keeps its place in the text.
//! - The table that is changed stands in a query as `TARGET`, under its name or alias in the
//!   statement; subqueries do not see it by that.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, TableWithJoins, Value, With,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use tidegate_model::Column;
use tidegate_storage::Snapshot;

use super::TARGET;
use super::parameters::Parameter;
use super::purpose::Fill;
use super::query_text::{QueryText, Tree, expect_end, parse_tokens, tokens_from};
use crate::error::Result;
use crate::parse::{Modification, Name, Target};
use crate::scan::ROW_ID;
use crate::sql::blocks::{is_default, query_of, select_everything};
use crate::sql::dialect::QueryDialect;

const STATEMENT_END: &str = "the end of the statement";

type Parsed<T> = std::result::Result<T, ParserError>;

/// Parses the clauses of an UPDATE or DELETE as `SELECT value, .., row id FROM target, table, ..
/// WHERE condition`, with the values of SET.
pub(super) fn query_of_change(
    sql: &str,
    change: &Modification,
    parameters: &[Parameter],
) -> Result<QueryText> {
    let read = |parser: &mut Parser<'_>| clauses(parser, change);
    let mut tokens = match change.with.is_empty() {
        true => Vec::new(),
        false => tokens_from(&sql[..change.with.end], change.with.start)?,
    };
    tokens.extend(tokens_from(sql, change.clauses)?);
    parse_tokens(sql, tokens, parameters, &read)
}

/// Parses `RETURNING list` from a byte on as `SELECT list FROM target`.
pub(super) fn query_of_returning(
    sql: &str,
    start: usize,
    target: &Target,
    parameters: &[Parameter],
) -> Result<QueryText> {
    let read = |parser: &mut Parser<'_>| {
        parser.expect_keyword(Keyword::RETURNING)?;
        let items = parser.parse_projection()?;
        expect_end(parser, STATEMENT_END)?;
        Ok(Tree { query: select(items, vec![relation(target)], None), sets: Vec::new() })
    };
    parse_tokens(sql, tokens_from(sql, start)?, parameters, &read)
}

/// Parses `[WITH ..] [SET column = value, .. [FROM table, ..]] [WHERE condition] [RETURNING list]`.
fn clauses(parser: &mut Parser<'_>, change: &Modification) -> Parsed<Tree> {
    let with = parser.parse_keyword(Keyword::WITH).then(|| with(parser)).transpose()?;
    let (mut sets, mut from) = (Vec::new(), vec![relation(&change.target)]);
    if parser.parse_keyword(Keyword::SET) {
        sets = parser.parse_comma_separated(assignments)?.into_iter().flatten().collect();
        if parser.parse_keyword(Keyword::FROM) {
            expect_part(parser, "a table")?;
            from.extend(parser.parse_comma_separated(Parser::parse_table_and_joins)?);
        }
    }
    let mut condition = None;
    if parser.parse_keyword(Keyword::WHERE) {
        expect_part(parser, "a condition")?;
        condition = Some(parser.parse_expr()?);
    }
    if change.returning.is_some() && parser.parse_keyword(Keyword::RETURNING) {
        // It is a query of its own.
        parser.parse_projection()?;
    }
    expect_end(parser, STATEMENT_END)?;
    let (sets, mut items): (_, Vec<_>) = sets.into_iter().unzip();
    items.push(SelectItem::UnnamedExpr(column_of(&change.target, ROW_ID)));
    let mut query = select(items, from, condition);
    query.with = with;
    Ok(Tree { query, sets })
}

/// Parses the queries of WITH.
fn with(parser: &mut Parser<'_>) -> Parsed<With> {
    Ok(With {
        with_token: AttachedToken::empty(),
        recursive: parser.parse_keyword(Keyword::RECURSIVE),
        cte_tables: parser.parse_comma_separated(Parser::parse_cte)?,
    })
}

/// Parses `column = value`, or `(column, ..) = (value, ..)`.
fn assignments(parser: &mut Parser<'_>) -> Parsed<Vec<(Ident, SelectItem)>> {
    if parser.peek_token_ref().token != Token::LParen {
        return Ok(vec![assignment(parser)?]);
    }
    let columns = parser.parse_parenthesized_column_list(IsOptional::Mandatory, false)?;
    parser.expect_token(&Token::Eq)?;
    let _ = parser.parse_keyword(Keyword::ROW);
    let at = parser.peek_token_ref().clone();
    parser.expect_token(&Token::LParen)?;
    if parser.peek_keyword(Keyword::SELECT) || parser.peek_keyword(Keyword::WITH) {
        return parser.expected("values: a query gives one column only", at);
    }
    let values = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    if values.len() != columns.len() {
        return parser.expected("as many values as columns", at);
    }
    Ok(columns.into_iter().zip(values.into_iter().map(SelectItem::UnnamedExpr)).collect())
}

/// Parses `column = value`; a table may stand before the column.
fn assignment(parser: &mut Parser<'_>) -> Parsed<(Ident, SelectItem)> {
    let mut span = parser.peek_token_ref().span;
    let mut column = parser.parse_identifier()?;
    if parser.consume_token(&Token::Period) {
        span = parser.peek_token_ref().span;
        column = parser.parse_identifier()?;
    }
    parser.expect_token(&Token::Eq)?;
    expect_part(parser, "a value")?;
    Ok((Ident { span, ..column }, SelectItem::UnnamedExpr(parser.parse_expr()?)))
}

/// Returns an error if the next token ends the part of a statement that it should begin.
fn expect_part(parser: &Parser<'_>, expected: &str) -> Parsed<()> {
    let next = parser.peek_token_ref();
    let is_end = match &next.token {
        Token::EOF | Token::Comma => true,
        Token::Word(word) => {
            let ends = [Keyword::FROM, Keyword::WHERE, Keyword::RETURNING];
            word.quote_style.is_none() && ends.contains(&word.keyword)
        }
        _ => false,
    };
    if is_end { parser.expected_ref(expected, next) } else { Ok(()) }
}

fn select(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    condition: Option<Expr>,
) -> Box<Query> {
    let mut select = select_everything(from, condition);
    select.projection = items;
    Box::new(query_of(select))
}

/// Returns the table that is changed.
fn relation(target: &Target) -> TableWithJoins {
    let name = |name: &str| Token::make_word(&name.to_lowercase(), Some('"'));
    let tokens = vec![name(TARGET), Token::make_keyword("AS"), name(target.name())];
    let dialect = QueryDialect::default();
    let table = Parser::new(&dialect).with_tokens(tokens).parse_table_and_joins();
    table.expect("a name and an alias are a table")
}

/// Returns a column of the table that is changed.
fn column_of(target: &Target, column: &str) -> Expr {
    let path = [target.name(), column];
    Expr::CompoundIdentifier(path.map(|it| Ident::with_quote('"', it.to_lowercase())).into())
}

/// Lets the query of a change select these columns of the table before the row id: those of SET
/// with their values, the others as they are. `table` has the defaults.
pub(super) fn select_columns(
    query: &mut Query,
    target: &Target,
    sets: &[Name],
    columns: &[Column],
    table: Option<&Snapshot>,
) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        unreachable!("the query of a change is a SELECT")
    };
    let mut items = std::mem::take(&mut select.projection);
    let row_id = items.pop();
    let names = sets.iter().map(|set| set.text.to_lowercase());
    let mut values: HashMap<String, SelectItem> = names.zip(items).collect();
    for column in columns {
        let name = column.name.to_lowercase();
        select.projection.push(match values.remove(&name) {
            Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
                let expr = if is_default(&expr) { default_of(column, table)? } else { expr };
                // Without AS it would have the name of the column whose value it is.
                SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
            }
            _ => SelectItem::UnnamedExpr(column_of(target, &name)),
        });
    }
    select.projection.extend(row_id);
    Ok(())
}

/// Returns the default of a column, or NULL.
pub(super) fn default_of(column: &Column, table: Option<&Snapshot>) -> Result<Expr> {
    let null = || Ok(Expr::Value(Value::Null.into()));
    let fill = table.and_then(|table| Fill::of(table, column));
    fill.map_or_else(null, |fill| fill.written())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Spanned;

    use super::*;
    use crate::parse::{RowChange, Statement, parse_statement};

    fn parsed(sql: &str) -> Result<QueryText> {
        let Statement::ChangeRows(change) = parse_statement(sql)? else { unreachable!() };
        match change {
            RowChange::Insert(_) => unreachable!(),
            RowChange::Update(change)
            | RowChange::Delete(change)
            | RowChange::DropPartitions(change) => query_of_change(sql, &change, &[]),
        }
    }

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let shown = match parsed(sql) {
            Ok(query) => query.statement.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{sql}");
    }

    #[test]
    fn a_change_is_a_query_for_its_rows() {
        check("DELETE FROM t", r#"SELECT "t"."tidegate.row" FROM "tidegate.target" AS "t""#);
        check(
            "DELETE FROM T AS U WHERE x = (SELECT 1) RETURNING n;",
            r#"SELECT "u"."tidegate.row" FROM "tidegate.target" AS "u" WHERE x = (SELECT 1)"#,
        );
        check(
            "UPDATE t SET a = 1, t.b = f(x, y) FROM u, v WHERE t.k = u.k",
            "SELECT 1, f(x, y), \"t\".\"tidegate.row\" FROM \"tidegate.target\" AS \"t\", u, v \
             WHERE t.k = u.k",
        );
        check(
            "UPDATE t x SET a = b IS DISTINCT FROM c, d = extract(year FROM ts)",
            "SELECT (b OPERATOR(tidegate.distinct) c), EXTRACT(YEAR FROM ts), \
             \"x\".\"tidegate.row\" FROM \"tidegate.target\" AS \"x\"",
        );
        check(
            "ALTER TABLE t DROP PARTITION WHERE ts < '2025'",
            r#"SELECT "t"."tidegate.row" FROM "tidegate.target" AS "t" WHERE ts < '2025'"#,
        );
    }

    #[test]
    fn everything_keeps_its_place() {
        let query = parsed("UPDATE t SET\n A = b + 1, 'B' = 2 WHERE c").unwrap();
        let SetExpr::Select(select) = query.statement.body.as_ref() else { unreachable!() };
        let columns = query.sets.iter().map(|set| (set.value.as_str(), set.span.start));
        let columns = columns.map(|(name, at)| (name, at.line, at.column)).collect::<Vec<_>>();
        assert_eq!(columns, [("A", 2, 2), ("B", 2, 13)], "change_query-1");
        let value = select.projection[0].span();
        assert_eq!((value.start.column, value.end.column), (6, 11), "change_query-1");
        let condition = select.selection.as_ref().unwrap().span();
        assert_eq!((condition.start.line, condition.start.column), (2, 27), "change_query-1");
    }

    #[test]
    fn all_columns_of_the_table_are_selected() {
        let columns = ["ts", "N", "s"].map(|name| Column {
            id: tidegate_model::ColumnId(0),
            name: name.to_owned(),
            ty: tidegate_model::ColumnType::Int32,
        });
        let mut query = parsed("UPDATE t SET s = n, n = DEFAULT").unwrap();
        let target = Target { table: Name::new("t".to_owned(), 7), alias: None };
        let sets = ["s", "n"].map(|name| Name::new(name.to_owned(), 0));
        select_columns(&mut query.statement, &target, &sets, &columns, None).unwrap();
        let expected = "SELECT \"t\".\"ts\", NULL AS \"n\", n AS \"s\", \"t\".\"tidegate.row\" \
            FROM \"tidegate.target\" AS \"t\"";
        assert_eq!(query.statement.to_string(), expected);
    }

    #[test]
    fn missing_and_unsupported_clauses_are_refused_with_their_place() {
        for (sql, expected) in [
            (
                "DELETE FROM t RETURNING a FROM u",
                "error: line 1, column 27: expected the end of the statement, found `FROM`",
            ),
            (
                "DELETE FROM t WHERE a = 1 LIMIT 5",
                "error: line 1, column 27: expected the end of the statement, found `LIMIT`",
            ),
            (
                "DELETE FROM t WHERE",
                "error: line 1, column 20: expected a condition, found the end",
            ),
            (
                "UPDATE t SET a = WHERE b",
                "error: line 1, column 18: expected a value, found `WHERE`",
            ),
            (
                "UPDATE t SET a = 1 FROM WHERE b",
                "error: line 1, column 25: expected a table, found `WHERE`",
            ),
            (
                "UPDATE t SET a = 1, (b, c) = (2, 3, 4)",
                "error: line 1, column 30: expected as many values as columns, found `(`",
            ),
            (
                "ALTER TABLE t DROP PARTITION WHERE a RETURNING b",
                "error: line 1, column 38: expected the end of the statement, found `RETURNING`",
            ),
        ] {
            check(sql, expected);
        }
    }
}
