//! The parser of the heads of `INSERT`, `UPDATE` and `DELETE`: their table, and the places of what
//! follows it.
//!
//! Not here: queries, expressions and the clauses of an UPDATE or DELETE. sqlparser parses them
//! when the statement is planned and the values of its parameters are known (`plan::rows`).

use std::ops::Range;

use super::create::commit_mode;
use super::cursor::{Cursor, Name};
use super::token::blanked;
use crate::error::{Error, Result};

/// A statement that changes rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowChange {
    Insert(Insert),
    Update(Modification),
    Delete(Modification),
    /// `ALTER TABLE table DROP PARTITION WHERE condition`.
    DropPartitions(Modification),
}

/// `INSERT INTO table [(columns)] query [ON CONFLICT ..] [RETURNING list]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Insert {
    pub(crate) table: Name,
    /// The columns given values; `None` for all columns of the table, in its order.
    pub(crate) columns: Option<Vec<Name>>,
    /// The bytes of WITH and its queries before INSERT; empty without it.
    pub(crate) with: Range<usize>,
    /// The bytes of the query; empty for DEFAULT VALUES.
    pub(crate) query: Range<usize>,
    pub(crate) conflict: Option<OnConflict>,
    /// The byte of RETURNING.
    pub(crate) returning: Option<usize>,
    pub(crate) notices: Vec<String>,
}

impl Insert {
    /// Returns the statement's text with everything but WITH and the query blanked, so that they
    /// keep their places.
    pub(crate) fn query_text(&self, sql: &str) -> String {
        let Insert { with, query, .. } = self;
        if query.is_empty() {
            return "VALUES (DEFAULT)".to_owned();
        }
        let mut text = blanked(&sql[..with.end], with.start);
        text.push_str(&blanked(&sql[with.end..query.end], query.start - with.end));
        text
    }
}

/// `ON CONFLICT [(columns)] DO ..`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnConflict {
    /// The byte that the clause begins at.
    pub(crate) offset: usize,
    /// The columns that identify a row.
    pub(crate) columns: Option<Vec<Name>>,
    /// The columns of `SET column = EXCLUDED.column`; `None` for DO NOTHING.
    pub(crate) sets: Option<Vec<Name>>,
}

/// The head of an UPDATE or DELETE: `UPDATE table [alias]`, `DELETE FROM table [alias]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Modification {
    pub(crate) target: Target,
    /// The bytes of WITH and its queries before the statement; empty without it.
    pub(crate) with: Range<usize>,
    /// The byte of its clauses: of SET for an UPDATE, else of WHERE, RETURNING or the end.
    pub(crate) clauses: usize,
    /// The byte of RETURNING.
    pub(crate) returning: Option<usize>,
}

/// A table to be changed, with its alias in the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) table: Name,
    pub(crate) alias: Option<Name>,
}

impl Target {
    /// The name that qualifies its columns.
    pub(crate) fn name(&self) -> &str {
        &self.alias.as_ref().unwrap_or(&self.table).text
    }

    /// Reads the table and its alias up to one of these words.
    fn expect(cursor: &mut Cursor<'_>, ends: &[&str]) -> Result<Target> {
        let table = cursor.expect_table()?;
        let has_as = cursor.take_word("AS");
        let is_alias = cursor.peek().is_some_and(|token| !ends.iter().any(|it| token.is_word(it)));
        let alias = if has_as || is_alias { Some(cursor.expect_name("an alias")?) } else { None };
        Ok(Target { table, alias })
    }
}

/// Reads a statement that changes rows behind its first word, which may be WITH; `None` for a
/// query.
pub(super) fn change(cursor: &mut Cursor<'_>) -> Result<Option<RowChange>> {
    let start = cursor.offset();
    if cursor.take_word("WITH") {
        cursor.take_word("RECURSIVE");
        while !cursor.is_at_end()
            && !["INSERT", "UPDATE", "DELETE"].iter().any(|it| is_next(cursor, it))
        {
            skip_one(cursor);
        }
    }
    let with = start..cursor.offset();
    let Some(first) = cursor.peek() else { return Ok(None) };
    Ok(Some(match first.text.to_ascii_uppercase().as_str() {
        "INSERT" => insert(cursor, with)?,
        "UPDATE" => update(cursor, with)?,
        "DELETE" => delete(cursor, with)?,
        _ => return Ok(None),
    }))
}

fn insert(cursor: &mut Cursor<'_>, with: Range<usize>) -> Result<RowChange> {
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
    // Identity columns are GENERATED BY DEFAULT: any value may be given.
    cursor.take_words(&["OVERRIDING", "SYSTEM", "VALUE"]);
    refuse(cursor, &["OVERRIDING"], "OVERRIDING USER VALUE")?;
    let query = cursor.offset();
    if cursor.is_at_end() {
        return Err(cursor.unexpected("VALUES or a query"));
    }
    let has_defaults = columns.is_none() && cursor.take_words(&["DEFAULT", "VALUES"]);
    let is_behind = |cursor: &Cursor<'_>| {
        let is_conflict = cursor.clone().take_words(&["ON", "CONFLICT"]);
        cursor.is_at_end() || is_next(cursor, "RETURNING") || is_conflict
    };
    while !has_defaults && !is_behind(cursor) {
        skip_one(cursor);
    }
    let query = if has_defaults { query..query } else { query..cursor.offset() };
    let conflict = on_conflict(cursor)?;
    if !is_next(cursor, "RETURNING") {
        cursor.expect_end()?;
    }
    let returning = returning(cursor)?;
    Ok(RowChange::Insert(Insert { table, columns, with, query, conflict, returning, notices }))
}

/// Reads `ON CONFLICT [(columns)] DO NOTHING`, or `DO UPDATE SET column = EXCLUDED.column, ..`.
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

/// Skips to RETURNING and behind its list, and returns its byte; without it, to the end.
fn returning(cursor: &mut Cursor<'_>) -> Result<Option<usize>> {
    while !cursor.is_at_end() && !is_next(cursor, "RETURNING") {
        skip_one(cursor);
    }
    let start = cursor.offset();
    if !cursor.take_word("RETURNING") {
        return Ok(None);
    }
    if cursor.is_at_end() {
        return Err(cursor.unexpected("what is to be returned"));
    }
    cursor.skip_all();
    Ok(Some(start))
}

fn delete(cursor: &mut Cursor<'_>, with: Range<usize>) -> Result<RowChange> {
    cursor.skip();
    cursor.expect_words(&["FROM"])?;
    let target = Target::expect(cursor, &["WHERE", "USING", "RETURNING"])?;
    refuse(cursor, &["USING"], "DELETE with USING")?;
    if !is_next(cursor, "WHERE") && !is_next(cursor, "RETURNING") {
        cursor.expect_end()?;
    }
    let clauses = cursor.offset();
    let returning = returning(cursor)?;
    Ok(RowChange::Delete(Modification { target, with, clauses, returning }))
}

fn update(cursor: &mut Cursor<'_>, with: Range<usize>) -> Result<RowChange> {
    cursor.skip();
    let target = Target::expect(cursor, &["SET"])?;
    let clauses = cursor.offset();
    cursor.expect_words(&["SET"])?;
    let returning = returning(cursor)?;
    Ok(RowChange::Update(Modification { target, with, clauses, returning }))
}

/// Returns the change for `WHERE condition` behind `DROP PARTITION`; `None` without a WHERE.
pub(crate) fn drop_partitions(cursor: &Cursor<'_>, table: &Name) -> Option<RowChange> {
    let clauses = cursor.offset();
    let target = Target { table: table.clone(), alias: None };
    let modification = Modification { target, with: 0..0, clauses, returning: None };
    is_next(cursor, "WHERE").then_some(RowChange::DropPartitions(modification))
}

fn is_next(cursor: &Cursor<'_>, word: &str) -> bool {
    cursor.peek().is_some_and(|token| token.is_word(word))
}

/// Skips one token, or brackets with all tokens in them.
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

/// The table that a statement changes.
pub(crate) fn table_of(change: &RowChange) -> &Name {
    match change {
        RowChange::Insert(insert) => &insert.table,
        RowChange::Update(change)
        | RowChange::Delete(change)
        | RowChange::DropPartitions(change) => &change.target.table,
    }
}

#[cfg(test)]
mod tests {
    use super::super::statement::{Statement, parse_statement};
    use super::*;

    /// Compares a statement, shown with the texts of its parts.
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
        match change {
            RowChange::Insert(Insert { table, columns, query, .. }) => {
                let names = |names: &Vec<Name>| {
                    let names = names.iter().map(|name| name.text.as_str());
                    names.collect::<Vec<_>>().join(",")
                };
                let columns = columns.as_ref().map_or("*".to_owned(), names);
                format!("insert {} ({columns}) [{}]", table.text, &sql[query.clone()])
            }
            RowChange::Update(change)
            | RowChange::Delete(change)
            | RowChange::DropPartitions(change) => {
                let returning = change.returning.map_or("", |at| &sql[at..]);
                format!("{} [{}] [{returning}]", change.target.name(), &sql[change.clauses..])
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
        check("DELETE FROM t", "t [] []");
        check("DELETE FROM t AS u WHERE x = (SELECT 1);", "u [WHERE x = (SELECT 1);] []");
        check("DELETE FROM t RETURNING (n)", "t [RETURNING (n)] [RETURNING (n)]");
        check(
            "UPDATE t x SET a = (SELECT returning) RETURNING a",
            "x [SET a = (SELECT returning) RETURNING a] [RETURNING a]",
        );
        check("ALTER TABLE t DROP PARTITION WHERE a", "t [WHERE a] []");
        check(
            "WITH u AS (SELECT 1) INSERT INTO t SELECT * FROM u",
            "insert t (*) [SELECT * FROM u]",
        );
        check("WITH RECURSIVE u (a) AS (SELECT 1), v AS (TABLE u) DELETE FROM t", "t [] []");
        check("WITH u AS (DELETE FROM t RETURNING *) SELECT 1", "Query");
    }

    #[test]
    fn missing_and_unsupported_clauses_are_refused_with_their_place() {
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
            ("DELETE t", "error: line 1, column 8: expected FROM, found `t`"),
            (
                "DELETE FROM t u LIMIT 5",
                "error: line 1, column 17: expected the end of the statement, found `LIMIT`",
            ),
        ] {
            check(sql, expected);
        }
    }
}
