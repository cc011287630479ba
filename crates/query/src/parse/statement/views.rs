//! The parser of `CREATE VIEW`, `DROP VIEW`, `ALTER VIEW`, and `COMMENT ON`.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::parse::create::take_temporary;
use crate::parse::cursor::{Cursor, Name};
use crate::parse::statement::{Statement, parse_statement};
use crate::parse::token::{Token, TokenKind, blanked};

/// A view to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreateView {
    pub(crate) name: Name,
    /// True if it ends with its session.
    pub(crate) is_temporary: bool,
    pub(crate) if_exists: IfExists,
    /// The names of its first columns; the others keep their names in the query.
    pub(crate) columns: Vec<Name>,
    /// The query, as bytes of the statement.
    pub(crate) query: Range<usize>,
}

/// The reaction of `CREATE VIEW` to a view of this name that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfExists {
    IsRefused,
    IsReplaced,
    Stays,
}

/// The effect of dropping an object on the views that read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// They stay, and can be read again once the object is created again.
    Stay,
    /// CASCADE.
    AreDropped,
    /// RESTRICT: an object that a view reads is not dropped.
    Forbid,
}

/// A comment and its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) on: Commented,
    pub(crate) table: Name,
    /// `None` for none.
    pub(crate) text: Option<String>,
}

/// The kind of a comment's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Commented {
    Table,
    View,
    Column(Name),
}

/// Reads `[OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] name [(columns)] AS query`; returns `None`,
/// and reads nothing, if it is something else.
pub(crate) fn create_view(cursor: &mut Cursor<'_>) -> Result<Option<Statement>> {
    let mut ahead = cursor.clone();
    let replaces = ahead.take_words(&["OR", "REPLACE"]);
    let is_said = take_temporary(&mut ahead);
    for (words, feature) in [
        (["RECURSIVE", "VIEW"], "CREATE RECURSIVE VIEW"),
        (["MATERIALIZED", "VIEW"], "CREATE MATERIALIZED VIEW"),
    ] {
        if ahead.clone().take_words(&words) {
            return Err(ahead.not_supported(feature));
        }
    }
    if !ahead.take_word("VIEW") {
        return Ok(None);
    }
    let stays = !replaces && ahead.take_words(&["IF", "NOT", "EXISTS"]);
    let if_exists = match (replaces, stays) {
        (true, _) => IfExists::IsReplaced,
        (false, true) => IfExists::Stays,
        (false, false) => IfExists::IsRefused,
    };
    let name = ahead.expect_table()?;
    let is_temporary = is_said || name.is_temporary();
    let mut columns = Vec::new();
    if ahead.take_sign('(') {
        columns = ahead.expect_list(|cursor| cursor.expect_name("the name of a column"))?;
        ahead.expect_sign(')')?;
    }
    if ahead.peek().is_some_and(|token| token.is_word("WITH")) {
        return Err(ahead.not_supported("an option of a view"));
    }
    ahead.expect_words(&["AS"])?;
    let query = query_to_the_end(&mut ahead)?;
    *cursor = ahead;
    let view = CreateView { name, is_temporary, if_exists, columns, query };
    Ok(Some(Statement::CreateView(view)))
}

/// Returns the bytes of a query up to the end of the statement.
fn query_to_the_end(cursor: &mut Cursor<'_>) -> Result<Range<usize>> {
    let at_query = cursor.clone();
    // A nested statement would read the text behind it once more for each level.
    let is_statement = |token: &Token<'_>| token.is_word("CREATE") || token.is_word("EXPLAIN");
    if cursor.peek().is_none_or(is_statement) {
        return Err(cursor.unexpected("a query"));
    }
    let (start, mut end) = (cursor.offset(), cursor.offset());
    while let Some(token) = cursor.peek() {
        let words = ["CHECK", "LOCAL", "CASCADED"];
        let is_option =
            cursor.peek_at(1).is_some_and(|next| words.iter().any(|word| next.is_word(word)));
        if token.is_word("WITH") && is_option {
            return Err(cursor.not_supported("WITH CHECK OPTION"));
        }
        end = token.offset + token.text.len();
        cursor.skip();
    }
    match parse_statement(&blanked(&cursor.sql()[..end], start))? {
        Statement::Query => Ok(start..end),
        _ => Err(at_query.unexpected("a query")),
    }
}

/// Reads `VIEW [IF EXISTS] names [CASCADE | RESTRICT]`.
pub(crate) fn drop_views(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words(&["VIEW"])?;
    let if_exists = cursor.take_words(&["IF", "EXISTS"]);
    let names = cursor.expect_list(Cursor::expect_table)?;
    let readers = take_readers(cursor);
    cursor.expect_end()?;
    Ok(Statement::DropViews { names, if_exists, readers })
}

/// Reads `[CASCADE | RESTRICT]`.
pub(crate) fn take_readers(cursor: &mut Cursor<'_>) -> Readers {
    if cursor.take_word("CASCADE") {
        Readers::AreDropped
    } else if cursor.take_word("RESTRICT") {
        Readers::Forbid
    } else {
        Readers::Stay
    }
}

/// Reads `VIEW [IF EXISTS] name RENAME TO name`.
pub(crate) fn alter_view(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words(&["VIEW"])?;
    let if_exists = cursor.take_words(&["IF", "EXISTS"]);
    let table = cursor.expect_table()?;
    if !cursor.take_words(&["RENAME", "TO"]) {
        return Err(cursor.unexpected("RENAME TO"));
    }
    let to = cursor.expect_table()?.text;
    cursor.expect_end()?;
    Ok(Statement::RenameTable { table, to, if_exists })
}

/// Reads `COMMENT ON TABLE | VIEW | COLUMN name IS 'text' | NULL`.
pub(crate) fn comment(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words(&["COMMENT", "ON"])?;
    let (on, table) = if cursor.take_word("TABLE") {
        (Commented::Table, cursor.expect_table()?)
    } else if cursor.take_word("VIEW") {
        (Commented::View, cursor.expect_table()?)
    } else if cursor.take_word("COLUMN") {
        let (table, column) = expect_column(cursor)?;
        (Commented::Column(column), table)
    } else {
        return Err(not_commented(cursor));
    };
    cursor.expect_words(&["IS"])?;
    let text = match cursor.take_word("NULL") {
        true => None,
        false => Some(expect_text(cursor)?),
    };
    cursor.expect_end()?;
    Ok(Statement::Comment(Comment { on, table, text }))
}

fn not_commented(cursor: &Cursor<'_>) -> Error {
    let kinds = ["DATABASE", "SCHEMA", "INDEX", "FUNCTION", "ROLE", "TYPE", "EXTENSION"];
    match cursor.peek().is_some_and(|token| kinds.iter().any(|kind| token.is_word(kind))) {
        true => cursor.not_supported("COMMENT ON anything but TABLE, VIEW and COLUMN"),
        false => cursor.unexpected("TABLE, VIEW or COLUMN"),
    }
}

/// Reads `table.column`, perhaps with a schema and a database before it.
fn expect_column(cursor: &mut Cursor<'_>) -> Result<(Name, Name)> {
    let mut parts = vec![cursor.expect_name("the name of a table")?];
    while cursor.take_sign('.') {
        parts.push(cursor.expect_name("a name")?);
    }
    let Some(column) = parts.pop().filter(|_| !parts.is_empty()) else {
        return Err(cursor.unexpected("`.` and the name of a column"));
    };
    // The parts before the column are read as any table.
    let quoted = parts.iter().map(|part| format!("\"{}\"", part.text.replace('"', "\"\"")));
    let written = quoted.collect::<Vec<_>>().join(".");
    let table = Cursor::new(&written)?.expect_table().map_err(|_| Error::NotSupported {
        position: None,
        feature: "a schema other than `public`",
    })?;
    Ok((Name { offset: parts[0].offset, ..table }, column))
}

fn expect_text(cursor: &mut Cursor<'_>) -> Result<String> {
    let text = cursor.peek().filter(|token| token.kind == TokenKind::Text);
    let Some(text) = text.map(Token::unquoted) else {
        return Err(cursor.unexpected("a text in quotes, or NULL"));
    };
    cursor.skip();
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str, offset: usize) -> Name {
        Name::new(text.to_owned(), offset)
    }

    #[track_caller]
    fn check(sql: &str, expected: Statement) {
        assert_eq!(parse_statement(sql).expect("a statement"), expected, "{sql}");
    }

    #[track_caller]
    fn check_error(sql: &str, expected: &str) {
        assert_eq!(parse_statement(sql).expect_err("no statement").to_string(), expected, "{sql}");
    }

    #[test]
    fn views_are_made_of_the_text_of_their_query() {
        let view = |name, if_exists, columns: &[Name], query| {
            let columns = columns.to_vec();
            let is_temporary = false;
            Statement::CreateView(CreateView { name, is_temporary, if_exists, columns, query })
        };
        let sql = "CREATE VIEW v AS SELECT 1 ; -- one";
        check(sql, view(name("v", 12), IfExists::IsRefused, &[], 17..25));
        let sql = "create or replace view public.v (a, \"B\") as (select 1, 2)";
        let columns = [name("a", 33), name("B", 36)];
        let public = Name { is_public: true, ..name("v", 30) };
        check(sql, view(public, IfExists::IsReplaced, &columns, 44..57));
        let sql = "CREATE VIEW IF NOT EXISTS v AS VALUES (1)";
        check(sql, view(name("v", 26), IfExists::Stays, &[], 31..41));
    }

    #[test]
    fn views_of_a_session_say_so() {
        for (sql, is_temporary) in [
            ("CREATE TEMP VIEW v AS SELECT 1", true),
            ("CREATE OR REPLACE LOCAL TEMPORARY VIEW v AS SELECT 1", true),
            ("CREATE VIEW pg_temp.v AS SELECT 1", true),
            ("CREATE VIEW public.v AS SELECT 1", false),
        ] {
            let Ok(Statement::CreateView(view)) = parse_statement(sql) else { panic!("{sql}") };
            assert_eq!(view.is_temporary, is_temporary, "{sql}");
        }
    }

    #[test]
    fn unsupported_clauses_of_views_are_refused_with_their_place() {
        check_error(
            "CREATE VIEW v AS DROP TABLE t",
            "line 1, column 18: expected a query, found `DROP`",
        );
        check_error(
            &"CREATE VIEW v AS ".repeat(20_000),
            "line 1, column 18: expected a query, found `CREATE`",
        );
        check_error(
            "CREATE VIEW v AS SELECT 1 WITH CASCADED CHECK OPTION",
            "line 1, column 27: WITH CHECK OPTION is not supported yet",
        );
    }

    #[test]
    fn views_are_dropped_and_renamed() {
        let names = vec![name("a", 20), name("b", 23)];
        let readers = Readers::AreDropped;
        let sql = "DROP VIEW IF EXISTS a, b CASCADE";
        check(sql, Statement::DropViews { names, if_exists: true, readers });
        let to = "b".to_owned();
        check(
            "ALTER VIEW a RENAME TO b",
            Statement::RenameTable { table: name("a", 11), to, if_exists: false },
        );
    }

    #[test]
    fn comments_stand_on_tables_views_and_columns() {
        let comment = |on, table, text: Option<&str>| {
            Statement::Comment(Comment { on, table, text: text.map(str::to_owned) })
        };
        let sql = "COMMENT ON TABLE public.t IS 'it''s'";
        let public = |text, offset| Name { is_public: true, ..name(text, offset) };
        check(sql, comment(Commented::Table, public("t", 24), Some("it's")));
        check("COMMENT ON VIEW v IS NULL", comment(Commented::View, name("v", 16), None));
        let sql = "COMMENT ON COLUMN \"T\".\"x y\" IS ''";
        let column = Commented::Column(name("x y", 22));
        check(sql, comment(column, name("T", 18), Some("")));
        let sql = "COMMENT ON COLUMN qdb.public.t.x IS 'a'";
        check(sql, comment(Commented::Column(name("x", 31)), public("t", 18), Some("a")));
        check_error(
            "COMMENT ON COLUMN x IS 'a'",
            "line 1, column 21: expected `.` and the name of a column, found `IS`",
        );
        check_error(
            "COMMENT ON SCHEMA public IS 'a'",
            "line 1, column 12: COMMENT ON anything but TABLE, VIEW and COLUMN is not supported \
             yet",
        );
    }
}
