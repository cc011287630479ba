//! `CREATE TABLE`.
//!
//! Clauses of QuestDB that change nothing here (`WAL`, `CAPACITY`, `INDEX`, ...) are accepted with
//! a notice, and so are NOT NULL and PRIMARY KEY, which tools write into every table; what else
//! would change something and is not there yet is an error at its place.

use std::ops::Range;

use tidegate_model::{ColumnType, PartitionUnit};

use super::cursor::{Cursor, Name};
use super::settings::{TtlClause, expect_keys};
use super::token::TokenKind;
use super::types::{TypeName, expect_type};
use crate::changes::OnCommit;
use crate::error::{Error, Result};

/// What a `CREATE TABLE` with a list of columns says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableDefinition {
    /// Of the table.
    pub name: String,
    /// Whether it is fine if there is a table of this name.
    pub if_not_exists: bool,
    /// Names as written, and types.
    pub columns: Vec<(String, ColumnType)>,
    /// The most characters of some VARCHAR columns, by name.
    pub lengths: Vec<(String, u32)>,
    /// The column named by `TIMESTAMP(..)`.
    pub timestamp: Option<String>,
    /// `NONE` if nothing else is said.
    pub partition_by: PartitionUnit,
    /// Whether only its session has it, and what becomes of it at COMMIT.
    pub(crate) temporary: Option<OnCommit>,
    pub(crate) ttl: Option<TtlClause>,
    /// Of DEDUP.
    pub(crate) keys: Vec<Name>,
    /// What was accepted without effect, a sentence each.
    pub notices: Vec<String>,
}

/// `CREATE TABLE .. AS (query)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreateAs {
    /// Where it is named.
    pub(crate) name: Name,
    /// All that is said besides the columns, of which it has none.
    pub(crate) table: TableDefinition,
    /// The bytes of the query.
    pub(crate) query: Range<usize>,
    /// Columns of the query that get another type.
    pub(crate) casts: Vec<(Name, ColumnType)>,
}

impl TableDefinition {
    fn new(name: String, if_not_exists: bool, notices: Vec<String>) -> TableDefinition {
        TableDefinition {
            name,
            if_not_exists,
            columns: Vec::new(),
            lengths: Vec::new(),
            timestamp: None,
            partition_by: PartitionUnit::None,
            temporary: None,
            ttl: None,
            keys: Vec::new(),
            notices,
        }
    }

    /// Whether it says what the table does with rows by itself: DEDUP or TTL.
    #[must_use]
    pub fn has_settings(&self) -> bool {
        self.ttl.is_some() || !self.keys.is_empty()
    }
}

/// Reads one `CREATE TABLE` statement.
///
/// # Errors
/// If it is none, or asks for what is not there yet. Whether the columns make a table is for
/// `Schema::new` to say.
pub fn parse_create_table(sql: &str) -> Result<TableDefinition> {
    let mut cursor = Cursor::new(sql)?;
    cursor.expect_words(&["CREATE"])?;
    create_table(&mut cursor)
}

/// What follows `CREATE`.
pub(super) fn create_table(cursor: &mut Cursor<'_>) -> Result<TableDefinition> {
    let (_, mut table) = table_name(cursor)?;
    if begins_query(cursor) {
        return Err(cursor.not_supported("CREATE TABLE AS where a list of columns is needed"));
    }
    cursor.expect_sign('(')?;
    if cursor.peek().is_some_and(|token| token.is_word("LIKE")) {
        return Err(cursor.not_supported("CREATE TABLE (LIKE ..)"));
    }
    cursor.expect_list(|cursor| definition(cursor, &mut table))?;
    cursor.expect_sign(')')?;
    table_options(cursor, &mut table)?;
    cursor.expect_end()?;
    Ok(table)
}

/// What follows `CREATE`, if the rows are those of a query; `None` if it is something else, of
/// which nothing is read.
pub(super) fn create_as(cursor: &Cursor<'_>) -> Result<Option<CreateAs>> {
    let mut ahead = cursor.clone();
    let Ok((name, mut table)) = table_name(&mut ahead) else { return Ok(None) };
    on_commit(&mut ahead, &mut table)?;
    if !begins_query(&ahead) {
        return Ok(None);
    }
    ahead.take_word("AS");
    let start = ahead.offset();
    let has_brackets = ahead.peek().is_some_and(|token| token.is_sign('('));
    if !has_brackets {
        ahead.skip_all();
        let query = start..ahead.offset();
        return Ok(Some(CreateAs { name, table, query, casts: Vec::new() }));
    }
    skip_brackets(&mut ahead)?;
    let query = start..ahead.offset();
    let mut casts = Vec::new();
    while ahead.take_sign(',') {
        let next = ahead.peek().map(|token| token.text.to_ascii_uppercase());
        match next.as_deref() {
            Some("CAST") => {
                let (column, TypeName { ty, length, .. }) = cast(&mut ahead, &mut table.notices)?;
                table.lengths.extend(length.map(|length| (column.text.clone(), length)));
                casts.push((column, ty));
            }
            Some("INDEX") if ahead.peek_at(1).is_some_and(|token| token.is_sign('(')) => {
                definition(&mut ahead, &mut table)?;
            }
            _ => return Err(ahead.unexpected("CAST(..) or INDEX(..)")),
        }
    }
    table_options(&mut ahead, &mut table)?;
    ahead.expect_end()?;
    Ok(Some(CreateAs { name, table, query, casts }))
}

/// From the words before TABLE up to the name.
fn table_name(cursor: &mut Cursor<'_>) -> Result<(Name, TableDefinition)> {
    let mut notices = Vec::new();
    commit_mode(cursor, &mut notices)?;
    if cursor.take_word("UNLOGGED") {
        notices.push("UNLOGGED has no effect: every commit is in the log".to_owned());
    }
    let is_temporary = take_temporary(cursor);
    cursor.expect_words(&["TABLE"])?;
    let if_not_exists = cursor.take_words(&["IF", "NOT", "EXISTS"]);
    let name = cursor.expect_table()?;
    let mut table = TableDefinition::new(name.text.clone(), if_not_exists, notices);
    let is_said = name.text.starts_with("pg_temp.");
    table.temporary = (is_temporary || is_said).then(OnCommit::default);
    Ok((name, table))
}

/// `[LOCAL | GLOBAL] TEMPORARY`
pub(super) fn take_temporary(cursor: &mut Cursor<'_>) -> bool {
    let words = [&["LOCAL", "TEMP"], &["LOCAL", "TEMPORARY"], &["GLOBAL", "TEMP"]];
    words.iter().any(|words| cursor.take_words(*words))
        || cursor.take_words(&["GLOBAL", "TEMPORARY"])
        || cursor.take_word("TEMP")
        || cursor.take_word("TEMPORARY")
}

/// `ON COMMIT PRESERVE ROWS`, `DELETE ROWS` or `DROP`, if it comes next.
fn on_commit(cursor: &mut Cursor<'_>, table: &mut TableDefinition) -> Result<()> {
    let refused = Error::Refused {
        position: cursor.position(),
        feature: "ON COMMIT of a table that is not temporary",
        instead: "it is for CREATE TEMPORARY TABLE",
    };
    if !cursor.take_words(&["ON", "COMMIT"]) {
        return Ok(());
    }
    let said = if cursor.take_words(&["PRESERVE", "ROWS"]) {
        OnCommit::PreserveRows
    } else if cursor.take_words(&["DELETE", "ROWS"]) {
        OnCommit::DeleteRows
    } else if cursor.take_word("DROP") {
        OnCommit::Drop
    } else {
        return Err(cursor.unexpected("PRESERVE ROWS, DELETE ROWS or DROP"));
    };
    match table.temporary.as_mut() {
        Some(on_commit) => *on_commit = said,
        None => return Err(refused),
    }
    Ok(())
}

/// Whether a query comes next, in brackets or behind AS.
fn begins_query(cursor: &Cursor<'_>) -> bool {
    let is_query = |ahead| {
        cursor.peek_at(ahead).is_some_and(|token| token.is_word("SELECT") || token.is_word("WITH"))
    };
    let is_at = |word| cursor.peek().is_some_and(|token| token.is_word(word));
    let has_bracket = cursor.peek().is_some_and(|token| token.is_sign('('));
    // A column may be called `select`, and so has a type behind it.
    is_at("AS") || has_bracket && is_query(1)
}

/// Steps over a bracket and all behind it up to the one that closes it.
pub(super) fn skip_brackets(cursor: &mut Cursor<'_>) -> Result<()> {
    let mut depth = 0_usize;
    loop {
        match cursor.peek() {
            Some(token) if token.is_sign('(') => depth += 1,
            Some(token) if token.is_sign(')') => depth -= 1,
            Some(_) => {}
            None => return Err(cursor.unexpected("`)`")),
        }
        cursor.skip();
        if depth == 0 {
            return Ok(());
        }
    }
}

/// `CAST(column AS type)`, perhaps with options of the type.
fn cast(cursor: &mut Cursor<'_>, notices: &mut Vec<String>) -> Result<(Name, TypeName)> {
    cursor.skip();
    cursor.expect_sign('(')?;
    let column = cursor.expect_name("the name of a column")?;
    cursor.expect_words(&["AS"])?;
    let type_name = expect_type(cursor)?;
    let notice = type_name.notice.iter();
    notices.extend(notice.map(|notice| format!("column `{}`: {notice}", column.text)));
    while column_option(cursor, &column.text, notices)? {}
    cursor.expect_sign(')')?;
    Ok((column, type_name))
}

/// `ATOMIC` or `BATCH n [o3MaxLag d]`, which are about where rows come from a query.
pub(super) fn commit_mode(cursor: &mut Cursor<'_>, notices: &mut Vec<String>) -> Result<()> {
    if cursor.take_word("ATOMIC") {
        notices.push("ATOMIC has no effect: every statement is".to_owned());
    } else if cursor.take_word("BATCH") {
        cursor.expect_integer("the size of a batch")?;
        if cursor.take_word("O3MAXLAG") {
            duration(cursor)?;
        }
        notices.push("BATCH has no effect: every statement is one commit".to_owned());
    }
    Ok(())
}

/// One column, or an `INDEX(..)` of QuestDB.
fn definition(cursor: &mut Cursor<'_>, table: &mut TableDefinition) -> Result<()> {
    let is_index = cursor.peek().is_some_and(|token| token.is_word("INDEX"))
        && cursor.peek_at(1).is_some_and(|token| token.is_sign('('));
    if is_index {
        cursor.skip();
        cursor.expect_sign('(')?;
        let column = cursor.expect_name("the name of a column")?;
        if cursor.take_word("CAPACITY") {
            cursor.expect_integer("a capacity")?;
        }
        cursor.expect_sign(')')?;
        table.notices.push(index_notice(&column.text));
        return Ok(());
    }
    if primary_key(cursor, &mut table.notices)? {
        return Ok(());
    }
    let (name, TypeName { ty, length, .. }) = expect_column(cursor, &mut table.notices)?;
    table.lengths.extend(length.map(|length| (name.clone(), length)));
    table.columns.push((name, ty));
    Ok(())
}

/// `[CONSTRAINT name] PRIMARY KEY (columns)`, or UNIQUE; false if it is something else, of which
/// nothing is read.
fn primary_key(cursor: &mut Cursor<'_>, notices: &mut Vec<String>) -> Result<bool> {
    let mut ahead = cursor.clone();
    // A column may be called `constraint`, or `primary`.
    if ahead.take_word("CONSTRAINT") && ahead.expect_name("the name of a constraint").is_err() {
        return Ok(false);
    }
    let is_primary = ahead.take_words(&["PRIMARY", "KEY"]);
    if !is_primary && !ahead.take_word("UNIQUE") {
        return Ok(false);
    }
    // A column may be called `unique`, too.
    if !is_primary && !ahead.peek().is_some_and(|token| token.is_sign('(')) {
        return Ok(false);
    }
    ahead.expect_sign('(')?;
    ahead.expect_list(|cursor| cursor.expect_name("the name of a column"))?;
    ahead.expect_sign(')')?;
    let notice = if is_primary { PRIMARY_KEY_NOTICE } else { UNIQUE_NOTICE };
    notices.push(notice.to_owned());
    *cursor = ahead;
    Ok(true)
}

const PRIMARY_KEY_NOTICE: &str =
    "PRIMARY KEY has no effect: DEDUP UPSERT KEYS(..) replaces rows with the same keys";

const UNIQUE_NOTICE: &str =
    "UNIQUE has no effect: DEDUP UPSERT KEYS(..) replaces rows with the same keys";

/// A column with its type and options.
pub(super) fn expect_column(
    cursor: &mut Cursor<'_>,
    notices: &mut Vec<String>,
) -> Result<(String, TypeName)> {
    for constraint in ["PRIMARY", "FOREIGN", "UNIQUE", "CHECK", "CONSTRAINT"] {
        let is_key = cursor.peek().is_some_and(|token| token.is_word(constraint))
            && cursor.peek_at(1).is_some_and(|token| token.is_word("KEY") || token.is_sign('('));
        if is_key || constraint == "CONSTRAINT" && cursor.take_word("CONSTRAINT") {
            return Err(cursor.not_supported("a constraint"));
        }
    }
    let name = cursor.expect_name("the name of a column")?.text;
    let type_name = expect_type(cursor)?;
    let notice = type_name.notice.iter();
    notices.extend(notice.map(|notice| format!("column `{name}`: {notice}")));
    while column_option(cursor, &name, notices)? {}
    Ok((name, type_name))
}

/// Reads one option of a column; false if there is none.
fn column_option(cursor: &mut Cursor<'_>, name: &str, notices: &mut Vec<String>) -> Result<bool> {
    let is_next =
        |cursor: &Cursor<'_>, word| cursor.peek().is_some_and(|token| token.is_word(word));
    if cursor.take_word("NULL") {
        return Ok(true);
    }
    if cursor.take_words(&["DEFAULT", "NULL"]) {
        return Ok(true);
    }
    if cursor.take_words(&["NOT", "NULL"]) {
        notices.push(format!("column `{name}`: NOT NULL has no effect, it takes NULL"));
        return Ok(true);
    }
    if cursor.take_words(&["PRIMARY", "KEY"]) {
        notices.push(format!("column `{name}`: {PRIMARY_KEY_NOTICE}"));
        return Ok(true);
    }
    if cursor.take_word("UNIQUE") {
        notices.push(format!("column `{name}`: {UNIQUE_NOTICE}"));
        return Ok(true);
    }
    if is_next(cursor, "DEFAULT") {
        return Err(cursor.not_supported("DEFAULT"));
    }
    if is_next(cursor, "PRIMARY") || is_next(cursor, "REFERENCES") {
        return Err(cursor.not_supported("a constraint"));
    }
    if cursor.take_word("CAPACITY") {
        cursor.expect_integer("a capacity")?;
        notices
            .push(format!("column `{name}`: CAPACITY has no effect, dictionaries size themselves"));
    } else if cursor.take_word("CACHE") || cursor.take_word("NOCACHE") {
        notices.push(format!("column `{name}`: CACHE and NOCACHE have no effect"));
    } else if cursor.take_word("INDEX") {
        if cursor.take_word("CAPACITY") {
            cursor.expect_integer("a capacity")?;
        }
        notices.push(index_notice(name));
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn index_notice(column: &str) -> String {
    format!("column `{column}`: INDEX has no effect, every column has min/max zones")
}

/// What follows the columns, in any order.
fn table_options(cursor: &mut Cursor<'_>, definition: &mut TableDefinition) -> Result<()> {
    let mut timestamp_offset = None;
    while !cursor.is_at_end() {
        let offset = cursor.offset();
        if cursor.peek().is_some_and(|token| token.is_word("ON"))
            && cursor.peek_at(1).is_some_and(|token| token.is_word("COMMIT"))
        {
            on_commit(cursor, definition)?;
        } else if timestamp_offset.is_none() && cursor.take_word("TIMESTAMP") {
            timestamp_offset = Some(offset);
            cursor.expect_sign('(')?;
            let column = cursor.expect_name("the name of a column")?;
            cursor.expect_sign(')')?;
            definition.timestamp = Some(column.text);
        } else if cursor.take_words(&["PARTITION", "BY"]) {
            definition.partition_by = expect_partition_unit(cursor)?;
            if cursor.take_word("TTL") {
                definition.ttl = Some(TtlClause::expect(cursor)?);
            }
        } else if definition.keys.is_empty() && cursor.take_word("DEDUP") {
            definition.keys = expect_keys(cursor)?;
        } else if cursor.take_words(&["BYPASS", "WAL"]) || cursor.take_word("WAL") {
            let notice = "WAL and BYPASS WAL have no effect: every commit is in the log";
            definition.notices.push(notice.to_owned());
        } else if cursor.take_words(&["WITHOUT", "OIDS"]) {
            // There are none.
        } else if cursor.take_word("WITH") {
            if cursor.peek().is_some_and(|token| token.is_sign('(')) {
                skip_brackets(cursor)?;
                let notice = "WITH (..) has no effect: storage parameters are those of PostgreSQL";
                definition.notices.push(notice.to_owned());
                continue;
            }
            let options = cursor.expect_list(with_option)?;
            definition.notices.extend(options);
        } else {
            return Err(refused(cursor));
        }
    }
    Ok(())
}

/// What to say of a word that no table option starts with.
fn refused(cursor: &Cursor<'_>) -> Error {
    let word = cursor.peek().map(|token| token.text.to_ascii_uppercase()).unwrap_or_default();
    let position = cursor.position();
    match word.as_str() {
        "IN" => {
            let instead = "a table is kept in its database's directory";
            Error::Refused { position, feature: "IN VOLUME", instead }
        }
        "OWNED" => {
            Error::Refused { position, feature: "OWNED BY", instead: "tables have no owner" }
        }
        "STORAGE" => {
            let instead = "partitions are never moved elsewhere";
            Error::Refused { position, feature: "STORAGE POLICY", instead }
        }
        _ => cursor.unexpected("TIMESTAMP(..), PARTITION BY or the end of the statement"),
    }
}

pub(super) fn expect_partition_unit(cursor: &mut Cursor<'_>) -> Result<PartitionUnit> {
    let unit = cursor.peek().and_then(|token| PartitionUnit::parse(token.text));
    let Some(unit) = unit else {
        return Err(cursor.unexpected("NONE, HOUR, DAY, WEEK, MONTH or YEAR"));
    };
    cursor.skip();
    Ok(unit)
}

/// `maxUncommittedRows = n` or `o3MaxLag = d`.
fn with_option(cursor: &mut Cursor<'_>) -> Result<String> {
    let known = ["MAXUNCOMMITTEDROWS", "O3MAXLAG"];
    if !known.iter().any(|name| cursor.peek().is_some_and(|token| token.is_word(name))) {
        return Err(cursor.unexpected("maxUncommittedRows or o3MaxLag"));
    }
    let name = cursor.expect_name("an option")?.text;
    cursor.expect_sign('=')?;
    duration(cursor)?;
    Ok(format!("{name} has no effect"))
}

/// A number, perhaps with a unit behind it.
fn duration(cursor: &mut Cursor<'_>) -> Result<()> {
    let before = cursor.offset();
    let digits = cursor.peek().map_or(0, |token| token.text.len());
    cursor.expect_integer("a number")?;
    let unit_is_next = cursor
        .peek()
        .is_some_and(|token| token.kind == TokenKind::Word && token.offset == before + digits);
    if unit_is_next {
        cursor.skip();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let shown = match parse_create_table(sql) {
            Ok(table) => {
                let columns = table.columns.iter().map(|(name, ty)| format!("{name} {}", ty.sql()));
                let columns = columns.collect::<Vec<_>>().join(", ");
                let mut shown = format!("{}({columns})", table.name);
                if table.if_not_exists {
                    shown += " if not exists";
                }
                if let Some(timestamp) = table.timestamp {
                    shown += &format!(" by {timestamp}");
                }
                shown += &format!(" {}", table.partition_by.sql());
                for notice in table.notices {
                    shown += &format!("; {notice}");
                }
                shown
            }
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{sql}");
    }

    #[test]
    fn columns_timestamp_and_partitions_are_read() {
        check(
            "CREATE TABLE Hits (WatchID BIGINT, \"Event Time\" timestamp, p DECIMAL(10, 2) NULL) \
             TIMESTAMP(\"Event Time\") PARTITION BY day;",
            "Hits(WatchID BIGINT, Event Time TIMESTAMP, p DECIMAL(10,2)) by Event Time DAY",
        );
        check("create table if not exists public.t (a int)", "t(a INT) if not exists NONE");
        check(
            "CREATE TABLE 't' (index INT, timestamp TIMESTAMP)",
            "t(index INT, timestamp TIMESTAMP) NONE",
        );
    }

    #[test]
    fn clauses_without_effect_give_notices() {
        check(
            "CREATE ATOMIC TABLE t (s SYMBOL CAPACITY 256 NOCACHE INDEX CAPACITY 8, ts TIMESTAMP, \
             INDEX(s)) TIMESTAMP(ts) PARTITION BY HOUR BYPASS WAL WITH o3MaxLag = 5s",
            "t(s SYMBOL, ts TIMESTAMP) by ts HOUR; ATOMIC has no effect: every statement is; \
             column `s`: CAPACITY has no effect, dictionaries size themselves; \
             column `s`: CACHE and NOCACHE have no effect; \
             column `s`: INDEX has no effect, every column has min/max zones; \
             column `s`: INDEX has no effect, every column has min/max zones; \
             WAL and BYPASS WAL have no effect: every commit is in the log; o3MaxLag has no effect",
        );
        check(
            "CREATE TABLE t (a CHAR(255), b VARCHAR(9))",
            "t(a VARCHAR, b VARCHAR) NONE; column `a`: CHAR(255) is kept as VARCHAR, without \
             length check",
        );
    }

    // Tools for any database write these into every table that they make.
    #[test]
    fn what_tools_say_of_columns_has_no_effect() {
        check(
            "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY, b FLOAT(53) DEFAULT NULL NULL, \
             c TIMESTAMP WITH TIME ZONE, CONSTRAINT k PRIMARY KEY (a, b))",
            "t(a BIGINT, b DOUBLE, c TIMESTAMP) NONE; \
             column `a`: NOT NULL has no effect, it takes NULL; \
             column `a`: PRIMARY KEY has no effect: DEDUP UPSERT KEYS(..) replaces rows with the \
             same keys; column `c`: a time WITH TIME ZONE is kept as TIMESTAMP, in UTC; \
             PRIMARY KEY has no effect: DEDUP UPSERT KEYS(..) replaces rows with the same keys",
        );
        check("CREATE TABLE t (primary INT, key INT)", "t(primary INT, key INT) NONE");
    }

    #[test]
    fn errors_stand_at_their_token() {
        check(
            "CREATE TABLE t (a INT,)",
            "error: line 1, column 23: expected the name of a column, found `)`",
        );
        check("CREATE TABLE t (a FOO)", "error: line 1, column 19: type `FOO` does not exist");
        check("CREATE TABLE t\n(a INT", "error: line 2, column 7: expected `)`, found the end");
        check(
            "CREATE TABLE t (a INT) PARTITION BY FORTNIGHT",
            "error: line 1, column 37: expected NONE, HOUR, DAY, WEEK, MONTH or YEAR, \
             found `FORTNIGHT`",
        );
        check(
            "CREATE TABLE t (a DECIMAL(39))",
            "error: line 1, column 27: the precision of DECIMAL must be 1 to 38, not 39",
        );
        check("DROP TABLE t", "error: line 1, column 1: expected CREATE, found `DROP`");
    }

    #[test]
    fn what_is_not_there_yet_says_so() {
        check(
            "CREATE TABLE t AS (SELECT 1)",
            "error: line 1, column 16: CREATE TABLE AS where a list of columns is needed is not \
             supported yet",
        );
        check(
            "CREATE TABLE t (a INT DEFAULT 1)",
            "error: line 1, column 23: DEFAULT is not supported yet",
        );
        check(
            "CREATE TABLE t (a INT, CHECK (a))",
            "error: line 1, column 24: a constraint is not supported yet",
        );
        check(
            "CREATE TABLE t (ts TIMESTAMP) TIMESTAMP(ts) PARTITION BY DAY TTL DAYS",
            "error: line 1, column 66: expected a number of hours, days, weeks, months or years, \
             found `DAYS`",
        );
        check(
            "CREATE TABLE t (a INT) IN VOLUME 'x'",
            "error: line 1, column 24: IN VOLUME is not supported: a table is kept in its \
             database's directory",
        );
    }
}
