//! `INSERT`, `UPDATE` and `DELETE`: their parts, and where those stand.
//!
//! Queries and expressions in them are not read here: `plan::rows` gives them to sqlparser where
//! they stand, so that errors keep their places.

use std::ops::Range;

use super::create::commit_mode;
use super::cursor::{Cursor, Name};
use crate::error::Result;

/// A statement that changes rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowChange {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    /// `ALTER TABLE table DROP PARTITION WHERE condition`.
    DropPartitions(Delete),
}

/// `INSERT INTO table [(columns)] query`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Insert {
    pub(crate) table: Name,
    /// `None`: all of the table, in its order.
    pub(crate) columns: Option<Vec<Name>>,
    /// The byte that the query begins at.
    pub(crate) query: usize,
    pub(crate) notices: Vec<String>,
}

/// `DELETE FROM table [alias] [WHERE condition]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delete {
    pub(crate) target: Target,
    pub(crate) condition: Option<Range<usize>>,
}

/// `UPDATE table [alias] SET .. [FROM tables] [WHERE condition]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) target: Target,
    pub(crate) sets: Vec<Assignment>,
    /// What stands behind FROM.
    pub(crate) tables: Option<Range<usize>>,
    pub(crate) condition: Option<Range<usize>>,
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
    let query = cursor.offset();
    if cursor.is_at_end() {
        return Err(cursor.unexpected("VALUES or a query"));
    }
    refuse(cursor, &["DEFAULT", "VALUES"], "DEFAULT VALUES")?;
    while !cursor.is_at_end() {
        refuse(cursor, &["RETURNING"], "RETURNING")?;
        refuse(cursor, &["ON", "CONFLICT"], "ON CONFLICT")?;
        skip_one(cursor);
    }
    Ok(RowChange::Insert(Insert { table, columns, query, notices }))
}

pub(super) fn delete(cursor: &mut Cursor<'_>) -> Result<RowChange> {
    cursor.skip();
    cursor.expect_words(&["FROM"])?;
    let target = Target::expect(cursor, &["WHERE", "USING", "RETURNING"])?;
    refuse(cursor, &["USING"], "DELETE with USING")?;
    let condition = condition(cursor)?;
    Ok(RowChange::Delete(Delete { target, condition }))
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
    Ok(RowChange::Update(Update { target, sets, tables, condition }))
}

/// What follows `DROP PARTITION`; `None` if it is no WHERE.
pub(super) fn drop_partitions(cursor: &mut Cursor<'_>, table: &Name) -> Result<Option<RowChange>> {
    if !cursor.peek().is_some_and(|token| token.is_word("WHERE")) {
        return Ok(None);
    }
    let condition = condition(cursor)?;
    let target = Target { table: table.clone(), alias: None };
    Ok(Some(RowChange::DropPartitions(Delete { target, condition })))
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

/// `[WHERE condition]`, and the end of the statement.
fn condition(cursor: &mut Cursor<'_>) -> Result<Option<Range<usize>>> {
    let mut condition = None;
    if cursor.take_word("WHERE") {
        condition = Some(extent(cursor, "a condition", &[])?);
    }
    refuse(cursor, &["RETURNING"], "RETURNING")?;
    cursor.expect_end()?;
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
                format!("insert {} ({columns}) [{}]", table.text, &sql[*query..])
            }
            RowChange::Delete(Delete { target, condition })
            | RowChange::DropPartitions(Delete { target, condition }) => {
                format!("delete {}{}", target.name(), part("where", condition))
            }
            RowChange::Update(Update { target, sets, tables, condition }) => {
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
                "INSERT INTO t VALUES (1) RETURNING a",
                "error: line 1, column 26: RETURNING is not supported yet",
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
