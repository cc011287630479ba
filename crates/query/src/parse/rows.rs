//! `INSERT`, `UPDATE` and `DELETE`: their parts, and where those stand.
//!
//! Queries and expressions in them are not read here: `plan::rows` gives them to sqlparser where
//! they stand, so that errors keep their places.

use std::ops::Range;

use super::create::commit_mode;
use super::cursor::{Cursor, Name};
use super::token::blanked;
use crate::error::{Error, Result};

/// A statement that changes rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowChange {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    /// `ALTER TABLE table DROP PARTITION WHERE condition`.
    DropPartitions(Delete),
}

/// `INSERT INTO table [(columns)] query [ON CONFLICT ..] [RETURNING list]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Insert {
    pub(crate) table: Name,
    /// `None`: all of the table, in its order.
    pub(crate) columns: Option<Vec<Name>>,
    /// The bytes of the query; none of DEFAULT VALUES.
    pub(crate) query: Range<usize>,
    pub(crate) conflict: Option<OnConflict>,
    pub(crate) returning: Option<Range<usize>>,
    pub(crate) notices: Vec<String>,
}

impl Insert {
    /// The statement's text with nothing but the query, which stays in its place.
    pub(crate) fn query_text(&self, sql: &str) -> String {
        if self.query.is_empty() {
            return "VALUES (DEFAULT)".to_owned();
        }
        blanked(&sql[..self.query.end], self.query.start)
    }
}

/// `ON CONFLICT [(columns)] DO ..`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnConflict {
    /// The byte that it begins at.
    pub(crate) offset: usize,
    /// By which columns rows are the same.
    pub(crate) columns: Option<Vec<Name>>,
    /// `SET column = EXCLUDED.column`; `None`: DO NOTHING.
    pub(crate) sets: Option<Vec<Name>>,
}

/// `DELETE FROM table [alias] [WHERE condition] [RETURNING list]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delete {
    pub(crate) target: Target,
    pub(crate) condition: Option<Range<usize>>,
    pub(crate) returning: Option<Range<usize>>,
}

/// `UPDATE table [alias] SET .. [FROM tables] [WHERE condition] [RETURNING list]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) target: Target,
    pub(crate) sets: Vec<Assignment>,
    /// What stands behind FROM.
    pub(crate) tables: Option<Range<usize>>,
    pub(crate) condition: Option<Range<usize>>,
    pub(crate) returning: Option<Range<usize>>,
}

/// A table whose rows change, and what the statement calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) table: Name,
    pub(crate) alias: Option<Name>,
}

/// `column = value`; the value by its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) column: Name,
    pub(crate) value: Range<usize>,
}

/// Words that end an expression or a list of tables in a query, and have no place here.
const NOT_HERE: [&str; 12] = [
    "ORDER",
    "GROUP",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "SAMPLE",
    "LATEST",
    "WINDOW",
];

impl Target {
    /// What columns of it are qualified with.
    pub(crate) fn name(&self) -> &str {
        &self.alias.as_ref().unwrap_or(&self.table).text
    }

    /// The table and its alias up to one of these words.
    fn expect(cursor: &mut Cursor<'_>, ends: &[&str]) -> Result<Target> {
        let table = cursor.expect_table()?;
        let has_as = cursor.take_word("AS");
        let is_alias = cursor.peek().is_some_and(|token| !ends.iter().any(|it| token.is_word(it)));
        let alias = if has_as || is_alias { Some(cursor.expect_name("an alias")?) } else { None };
        Ok(Target { table, alias })
    }
}

pub(super) fn insert(cursor: &mut Cursor<'_>) -> Result<RowChange> {
    cursor.skip();
    let mut notices = Vec::new();
    commit_mode(cursor, &mut notices)?;
    cursor.expect_words(&["INTO"])?;
    let table = cursor.expect_table()?;
    let begins_query = cursor.peek_at(1).is_some_and(|token| {
        ["SELECT", "WITH", "VALUES", "FROM"].iter().any(|word| token.is_word(word))
            || token.is_sign('(')
    });
    let mut columns = None;
    if !begins_query && cursor.take_sign('(') {
        let column = |cursor: &mut Cursor<'_>| cursor.expect_name("the name of a column");
        columns = Some(cursor.expect_list(column)?);
        cursor.expect_sign(')')?;
    }
    // Numbers of identities are given BY DEFAULT: any value may be.
    cursor.take_words(&["OVERRIDING", "SYSTEM", "VALUE"]);
    refuse(cursor, &["OVERRIDING"], "OVERRIDING USER VALUE")?;
    let query = cursor.offset();
    if cursor.is_at_end() {
        return Err(cursor.unexpected("VALUES or a query"));
    }
    let has_defaults = columns.is_none() && cursor.take_words(&["DEFAULT", "VALUES"]);
    let is_behind = |cursor: &Cursor<'_>| {
        let is_at = |ahead, word| cursor.peek_at(ahead).is_some_and(|token| token.is_word(word));
        cursor.is_at_end() || is_at(0, "RETURNING") || is_at(0, "ON") && is_at(1, "CONFLICT")
    };
    while !has_defaults && !is_behind(cursor) {
        skip_one(cursor);
    }
    let query = if has_defaults { query..query } else { query..cursor.offset() };
    let conflict = on_conflict(cursor)?;
    let returning = returning(cursor)?;
    cursor.expect_end()?;
    Ok(RowChange::Insert(Insert { table, columns, query, conflict, returning, notices }))
}

/// `ON CONFLICT [(columns)] DO NOTHING`, or `DO UPDATE SET column = EXCLUDED.column, ..`
fn on_conflict(cursor: &mut Cursor<'_>) -> Result<Option<OnConflict>> {
    let offset = cursor.offset();
    if !cursor.take_words(&["ON", "CONFLICT"]) {
        return Ok(None);
    }
    let mut columns = None;
    if cursor.take_sign('(') {
        let column = |cursor: &mut Cursor<'_>| cursor.expect_name("the name of a column");
        columns = Some(cursor.expect_list(column)?);
        cursor.expect_sign(')')?;
    }
    cursor.expect_words(&["DO"])?;
    if cursor.take_word("NOTHING") {
        return Ok(Some(OnConflict { offset, columns, sets: None }));
    }
    cursor.expect_words(&["UPDATE", "SET"])?;
    let set = |cursor: &mut Cursor<'_>| {
        let column = cursor.expect_name("the name of a column")?;
        cursor.expect_sign('=')?;
        let mut ahead = cursor.clone();
        let is_same = ahead.take_word("EXCLUDED")
            && ahead.take_sign('.')
            && ahead
                .expect_name("the name of a column")
                .is_ok_and(|name| name.text.eq_ignore_ascii_case(&column.text));
        let is_over = ahead.is_at_end()
            || ahead.peek().is_some_and(|it| it.is_sign(',') || it.is_word("RETURNING"));
        if !(is_same && is_over) {
            return Err(Error::Refused {
                position: cursor.position(),
                feature: "ON CONFLICT DO UPDATE with another value than EXCLUDED",
                instead: "DEDUP UPSERT KEYS(..) replaces the whole row",
            });
        }
        *cursor = ahead;
        Ok(column)
    };
    let sets = Some(cursor.expect_list(set)?);
    Ok(Some(OnConflict { offset, columns, sets }))
}

/// `[RETURNING list]`, up to the end.
fn returning(cursor: &mut Cursor<'_>) -> Result<Option<Range<usize>>> {
    if !cursor.take_word("RETURNING") {
        return Ok(None);
    }
    let start = cursor.offset();
    while !cursor.is_at_end() {
        let is_at = |word: &str| cursor.peek().is_some_and(|token| token.is_word(word));
        if NOT_HERE.iter().any(|word| is_at(word)) || is_at("FROM") || is_at("WHERE") {
            return Err(cursor.unexpected("the end of the statement"));
        }
        skip_one(cursor);
    }
    match start == cursor.offset() {
        true => Err(cursor.unexpected("what is to be returned")),
        false => Ok(Some(start..cursor.offset())),
    }
}

pub(super) fn delete(cursor: &mut Cursor<'_>) -> Result<RowChange> {
    cursor.skip();
    cursor.expect_words(&["FROM"])?;
    let target = Target::expect(cursor, &["WHERE", "USING", "RETURNING"])?;
    refuse(cursor, &["USING"], "DELETE with USING")?;
    let condition = condition(cursor)?;
    let returning = returning(cursor)?;
    cursor.expect_end()?;
    Ok(RowChange::Delete(Delete { target, condition, returning }))
}

pub(super) fn update(cursor: &mut Cursor<'_>) -> Result<RowChange> {
    cursor.skip();
    let target = Target::expect(cursor, &["SET"])?;
    cursor.expect_words(&["SET"])?;
    let sets = cursor.expect_list(assignment)?;
    let mut tables = None;
    if cursor.take_word("FROM") {
        tables = Some(extent(cursor, "a table", &["WHERE"])?);
    }
    let condition = condition(cursor)?;
    let returning = returning(cursor)?;
    cursor.expect_end()?;
    Ok(RowChange::Update(Update { target, sets, tables, condition, returning }))
}

/// What follows `DROP PARTITION`; `None` if it is no WHERE.
pub(super) fn drop_partitions(cursor: &mut Cursor<'_>, table: &Name) -> Result<Option<RowChange>> {
    if !cursor.peek().is_some_and(|token| token.is_word("WHERE")) {
        return Ok(None);
    }
    let condition = condition(cursor)?;
    cursor.expect_end()?;
    let target = Target { table: table.clone(), alias: None };
    Ok(Some(RowChange::DropPartitions(Delete { target, condition, returning: None })))
}

fn assignment(cursor: &mut Cursor<'_>) -> Result<Assignment> {
    if cursor.peek().is_some_and(|token| token.is_sign('(')) {
        return Err(cursor.not_supported("assigning to several columns at once"));
    }
    let mut column = cursor.expect_name("the name of a column")?;
    if cursor.take_sign('.') {
        column = cursor.expect_name("the name of a column")?;
    }
    cursor.expect_sign('=')?;
    let value = extent(cursor, "a value", &["FROM", "WHERE", ","])?;
    Ok(Assignment { column, value })
}

/// `[WHERE condition]`
fn condition(cursor: &mut Cursor<'_>) -> Result<Option<Range<usize>>> {
    let mut condition = None;
    if cursor.take_word("WHERE") {
        condition = Some(extent(cursor, "a condition", &[])?);
    }
    Ok(condition)
}

/// Skips what stands before one of these words or signs outside of brackets, which must be
/// something, and says where it is.
fn extent(cursor: &mut Cursor<'_>, what: &str, ends: &[&str]) -> Result<Range<usize>> {
    let start = cursor.offset();
    let mut after_distinct = false;
    while let Some(token) = cursor.peek() {
        let is_one_of = |words: &[&str]| {
            words.iter().any(|it| token.is_word(it) || it.chars().all(|sign| token.is_sign(sign)))
        };
        // `a IS DISTINCT FROM b`
        let is_operator = after_distinct && token.is_word("FROM");
        if !is_operator && (is_one_of(ends) || is_one_of(&["RETURNING"])) {
            break;
        }
        if is_one_of(&NOT_HERE) {
            return Err(cursor.unexpected("the end of the statement"));
        }
        after_distinct = token.is_word("DISTINCT");
        skip_one(cursor);
    }
    let end = cursor.offset();
    if start == end { Err(cursor.unexpected(what)) } else { Ok(start..end) }
}

/// Skips a token, or brackets with all that is in them.
fn skip_one(cursor: &mut Cursor<'_>) {
    let mut depth = 0_usize;
    loop {
        match cursor.peek() {
            Some(token) if token.is_sign('(') => depth += 1,
            Some(token) if token.is_sign(')') => depth = depth.saturating_sub(1),
            Some(_) => {}
            None => return,
        }
        cursor.skip();
        if depth == 0 {
            return;
        }
    }
}

fn refuse(cursor: &Cursor<'_>, words: &[&str], feature: &'static str) -> Result<()> {
    if cursor.clone().take_words(words) { Err(cursor.not_supported(feature)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::statement::{Statement, parse_statement};
    use super::*;

    /// Shows a statement with the texts of its parts.
    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let shown = match parse_statement(sql) {
            Ok(Statement::ChangeRows(change)) => shown(sql, &change),
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{sql}");
    }

    fn shown(sql: &str, change: &RowChange) -> String {
        let text = |range: &Range<usize>| sql[range.clone()].trim().to_owned();
        let part = |name: &str, range: &Option<Range<usize>>| {
            range.as_ref().map_or(String::new(), |range| format!(" {name} [{}]", text(range)))
        };
        match change {
            RowChange::Insert(Insert { table, columns, query, .. }) => {
                let names = |names: &Vec<Name>| {
                    let names = names.iter().map(|name| name.text.as_str());
                    names.collect::<Vec<_>>().join(",")
                };
                let columns = columns.as_ref().map_or("*".to_owned(), names);
                format!("insert {} ({columns}) [{}]", table.text, &sql[query.clone()])
            }
            RowChange::Delete(Delete { target, condition, .. })
            | RowChange::DropPartitions(Delete { target, condition, .. }) => {
                format!("delete {}{}", target.name(), part("where", condition))
            }
            RowChange::Update(Update { target, sets, tables, condition, .. }) => {
                let set = |set: &Assignment| format!(" {}=[{}]", set.column.text, text(&set.value));
                let sets = sets.iter().map(set).collect::<String>();
                let (tables, condition) = (part("from", tables), part("where", condition));
                format!("update {}{sets}{tables}{condition}", target.name())
            }
        }
    }

    #[test]
    fn parts_are_found() {
        check("INSERT INTO t VALUES (1)", "insert t (*) [VALUES (1)]");
        check("insert into t (a, \"B c\") select 1, 2", "insert t (a,B c) [select 1, 2]");
        check("INSERT INTO t (SELECT 1)", "insert t (*) [(SELECT 1)]");
        check("INSERT BATCH 100 INTO t u", "insert t (*) [u]");
        check("INSERT INTO t VALUES (1) RETURNING n, *", "insert t (*) [VALUES (1) ]");
        check("INSERT INTO t DEFAULT VALUES", "insert t (*) []");
        check("INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING", "insert t (*) [SELECT 1 ]");
        check("DELETE FROM t", "delete t");
        check("DELETE FROM t AS u WHERE x = (SELECT 1);", "delete u where [x = (SELECT 1);]");
        check(
            "UPDATE t SET a = 1, t.b = f(x, y) FROM u WHERE t.k = u.k",
            "update t a=[1] b=[f(x, y)] from [u] where [t.k = u.k]",
        );
        check(
            "UPDATE t x SET a = b IS DISTINCT FROM c, d = extract(year FROM ts)",
            "update x a=[b IS DISTINCT FROM c] d=[extract(year FROM ts)]",
        );
    }

    #[test]
    fn what_is_not_there_is_said_at_its_place() {
        for (sql, expected) in [
            (
                "INSERT INTO t",
                "error: line 1, column 14: expected VALUES or a query, found the end",
            ),
            ("INSERT t VALUES (1)", "error: line 1, column 8: expected INTO, found `t`"),
            (
                "INSERT INTO t VALUES (1) RETURNING",
                "error: line 1, column 35: expected what is to be returned, found the end",
            ),
            (
                "DELETE FROM t RETURNING a FROM u",
                "error: line 1, column 27: expected the end of the statement, found `FROM`",
            ),
            ("DELETE t", "error: line 1, column 8: expected FROM, found `t`"),
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
                "UPDATE t SET (a, b) = (1, 2)",
                "error: line 1, column 14: assigning to several columns at once is not supported \
                 yet",
            ),
        ] {
            check(sql, expected);
        }
    }
}
