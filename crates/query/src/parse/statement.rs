//! The parsed form of a statement, and the parser that recognizes its kind.

pub(crate) mod alter;
pub(crate) mod copy;
pub(crate) mod session;
pub(crate) mod views;

use super::create::{
    CreateAs, TableDefinition, create_as, create_table, skip_brackets, take_temporary,
};
use super::cursor::Cursor;
pub(crate) use super::cursor::Name;
use super::rows::{self, RowChange};
use super::token::blanked;
use crate::error::{Error, Result, SyntaxError};
use crate::parse::create::OnCommit;
use alter::TableChange;
use copy::Copy;
use session::{Set, Show};
use views::{Comment, CreateView, Readers, take_readers};

/// A statement of ours, or a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    CreateTable(TableDefinition),
    /// A table with the rows of a query.
    CreateTableAs(CreateAs),
    /// An empty table with the columns of another.
    CreateTableLike {
        name: Name,
        if_not_exists: bool,
        temporary: Option<OnCommit>,
        like: Name,
    },
    CreateView(CreateView),
    DropTables {
        names: Vec<Name>,
        if_exists: bool,
        readers: Readers,
    },
    DropViews {
        names: Vec<Name>,
        if_exists: bool,
        readers: Readers,
    },
    Comment(Comment),
    /// Indexes do not exist: it does nothing.
    DropIndex,
    /// A statement without effect, because its result is the case already.
    Nothing {
        tag: &'static str,
        notices: Vec<String>,
    },
    /// VACUUM or ANALYZE: background maintenance does their work.
    Maintain {
        what: &'static str,
        tables: Vec<Name>,
    },
    TruncateTable {
        table: Name,
        /// True if identities begin at 1 again.
        restarts_numbers: bool,
    },
    RenameTable {
        table: Name,
        to: String,
        /// True if a missing table is no error.
        if_exists: bool,
    },
    AlterTable {
        table: Name,
        /// True if a missing table is no error.
        if_exists: bool,
        change: TableChange,
        notices: Vec<String>,
    },
    ChangeRows(RowChange),
    Show(Show),
    Set {
        set: Set,
        notices: Vec<String>,
    },
    /// Cancels another statement.
    Cancel {
        id: u64,
        offset: usize,
    },
    Explain(Explain),
    Copy(Box<Copy>),
    Query,
}

impl Statement {
    /// Returns its name if it has an effect besides reading, but changes no table.
    pub(crate) fn side_effect(&self) -> Option<&'static str> {
        match self {
            Statement::Cancel { .. } => Some("CANCEL QUERY"),
            Statement::Copy(_) => Some("COPY"),
            _ => None,
        }
    }
}

/// The statement to be explained, with the options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Explain {
    /// True if it is run, to count rows and time.
    pub(crate) analyze: bool,
    pub(crate) verbose: bool,
    /// The byte that the statement starts at.
    pub(crate) offset: usize,
    /// The statement, with places in the whole text; `None` if it is a query.
    pub(crate) change: Option<RowChange>,
}

/// A change of a table without effect.
const NOTHING: TableChange = TableChange::Nothing { column: None };

/// Statements that are not supported yet; their first word would otherwise begin a query.
const NOT_YET: [(&str, &str); 11] = [
    ("BEGIN", "BEGIN"),
    ("START", "START TRANSACTION"),
    ("COMMIT", "COMMIT"),
    ("ROLLBACK", "ROLLBACK"),
    ("PREPARE", "PREPARE"),
    ("EXECUTE", "EXECUTE"),
    ("DEALLOCATE", "DEALLOCATE"),
    ("DECLARE", "DECLARE"),
    ("MERGE", "MERGE"),
    ("GRANT", "GRANT"),
    ("REVOKE", "REVOKE"),
];

/// Reads one statement. A query is only recognized, not parsed.
pub(crate) fn parse_statement(sql: &str) -> Result<Statement> {
    let mut cursor = Cursor::new(sql)?;
    let Some(first) = cursor.peek() else {
        return Err(Error::syntax(sql, 0, SyntaxError::Empty));
    };
    let word = first.text.to_ascii_uppercase();
    if let Some((_, feature)) = NOT_YET.iter().find(|(name, _)| *name == word) {
        return Err(cursor.not_supported(feature));
    }
    match word.as_str() {
        "CREATE" => create(&mut cursor),
        "DROP" if cursor.peek_at(1).is_some_and(|token| token.is_word("INDEX")) => {
            drop_index(&mut cursor)
        }
        "DROP" => drop_tables(&mut cursor),
        "COMMENT" => views::comment(&mut cursor),
        "TRUNCATE" => truncate(&mut cursor),
        "VACUUM" | "ANALYZE" | "ANALYSE" => maintain(&mut cursor),
        "RENAME" => rename(&mut cursor),
        "ALTER" => alter::alter(&mut cursor),
        "REINDEX" => reindex(&mut cursor),
        "INSERT" | "UPDATE" | "DELETE" | "WITH" => {
            let change = rows::change(&mut cursor)?;
            Ok(change.map_or(Statement::Query, Statement::ChangeRows))
        }
        "SHOW" => session::show(&mut cursor),
        "SET" => session::set(&mut cursor),
        "RESET" => session::reset(&mut cursor),
        "CANCEL" => session::cancel(&mut cursor),
        "EXPLAIN" => explain(&mut cursor),
        "COPY" => copy::copy(&mut cursor),
        _ => Ok(Statement::Query),
    }
}

fn create(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    if let Some(statement) = views::create_view(cursor)? {
        return Ok(statement);
    }
    for (word, feature) in [
        ("OR", "CREATE OR REPLACE"),
        ("MATERIALIZED", "CREATE MATERIALIZED VIEW"),
        ("EXTERNAL", "CREATE EXTERNAL TABLE"),
        ("FUNCTION", "CREATE FUNCTION"),
        ("DATABASE", "CREATE DATABASE"),
    ] {
        if cursor.peek().is_some_and(|token| token.is_word(word)) {
            return Err(cursor.not_supported(feature));
        }
    }
    if cursor.peek().is_some_and(|token| token.is_word("SCHEMA")) {
        return create_schema(cursor);
    }
    if cursor.take_word("INDEX") || cursor.take_words(&["UNIQUE", "INDEX"]) {
        return create_index(cursor);
    }
    if let Some(statement) = create_like(cursor)? {
        return Ok(statement);
    }
    if let Some(create) = create_as(cursor)? {
        return Ok(Statement::CreateTableAs(create));
    }
    create_table(cursor).map(Statement::CreateTable)
}

/// Reads `SCHEMA IF NOT EXISTS public [AUTHORIZATION user]`: no effect, it is the only schema.
fn create_schema(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let refused = cursor.not_supported("CREATE SCHEMA of another schema than `public`");
    cursor.skip();
    let if_not_exists = cursor.take_words(&["IF", "NOT", "EXISTS"]);
    let mut name = cursor.expect_name("the name of a schema")?;
    // The database may stand before it.
    if cursor.take_sign('.') {
        name = cursor.expect_name("the name of a schema")?;
    }
    if !if_not_exists || !name.text.eq_ignore_ascii_case("public") {
        return Err(refused);
    }
    if cursor.take_word("AUTHORIZATION") {
        cursor.expect_name("a user")?;
    }
    cursor.expect_end()?;
    let notices = vec!["schema \"public\" already exists, skipping".to_owned()];
    Ok(Statement::Nothing { tag: "CREATE SCHEMA", notices })
}

/// Reads `TABLE name (LIKE other)`; returns `None`, and reads nothing, if it is something else.
fn create_like(cursor: &Cursor<'_>) -> Result<Option<Statement>> {
    let mut ahead = cursor.clone();
    let is_temporary = take_temporary(&mut ahead);
    if !ahead.take_word("TABLE") {
        return Ok(None);
    }
    let if_not_exists = ahead.take_words(&["IF", "NOT", "EXISTS"]);
    let Ok(name) = ahead.expect_table() else { return Ok(None) };
    if !(ahead.take_sign('(') && ahead.take_word("LIKE")) {
        return Ok(None);
    }
    let like = ahead.expect_table()?;
    ahead.expect_sign(')')?;
    ahead.expect_end()?;
    let temporary = (is_temporary || name.is_temporary()).then(OnCommit::default);
    Ok(Some(Statement::CreateTableLike { name, if_not_exists, temporary, like }))
}

/// Reads `[CONCURRENTLY] [IF NOT EXISTS] [name] ON [ONLY] table [USING method] (columns) ..`.
fn create_index(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.take_word("CONCURRENTLY");
    cursor.take_words(&["IF", "NOT", "EXISTS"]);
    if !cursor.peek().is_some_and(|token| token.is_word("ON")) {
        cursor.expect_table()?;
    }
    cursor.expect_words(&["ON"])?;
    cursor.take_word("ONLY");
    let table = cursor.expect_table()?;
    if cursor.take_word("USING") {
        cursor.expect_name("a method")?;
    }
    if !cursor.peek().is_some_and(|token| token.is_sign('(')) {
        return Err(cursor.unexpected("`(`"));
    }
    // Skips INCLUDE, WITH, WHERE and all other options of an index.
    cursor.skip_all();
    let notices = vec!["CREATE INDEX has no effect, every column has min/max zones".to_owned()];
    Ok(Statement::AlterTable { table, if_exists: false, change: NOTHING, notices })
}

/// Reads `INDEX [CONCURRENTLY] [IF EXISTS] names [CASCADE | RESTRICT]`.
fn drop_index(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    cursor.expect_words(&["INDEX"])?;
    cursor.take_word("CONCURRENTLY");
    cursor.take_words(&["IF", "EXISTS"]);
    cursor.expect_list(Cursor::expect_table)?;
    let _ = cursor.take_word("CASCADE") || cursor.take_word("RESTRICT");
    cursor.expect_end()?;
    Ok(Statement::DropIndex)
}

fn drop_tables(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    if cursor.peek().is_some_and(|token| token.is_word("VIEW")) {
        return views::drop_views(cursor);
    }
    if !cursor.take_word("TABLE") {
        return Err(cursor.unexpected("TABLE or VIEW"));
    }
    let if_exists = cursor.take_words(&["IF", "EXISTS"]);
    let names = cursor.expect_list(Cursor::expect_table)?;
    let readers = take_readers(cursor);
    cursor.expect_end()?;
    Ok(Statement::DropTables { names, if_exists, readers })
}

fn truncate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    cursor.take_word("TABLE");
    cursor.take_word("ONLY");
    let table = cursor.expect_table()?;
    if cursor.peek().is_some_and(|token| token.is_sign(',')) {
        return Err(cursor.not_supported("TRUNCATE TABLE of several tables"));
    }
    let restarts_numbers = cursor.take_words(&["RESTART", "IDENTITY"]);
    cursor.take_words(&["CONTINUE", "IDENTITY"]);
    let _ = cursor.take_word("CASCADE") || cursor.take_word("RESTRICT");
    cursor.expect_end()?;
    Ok(Statement::TruncateTable { table, restarts_numbers })
}

/// Reads `VACUUM [(options)] [FULL] [FREEZE] [VERBOSE] [ANALYZE] [tables]`, and ANALYZE alone.
fn maintain(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let is_vacuum = cursor.take_word("VACUUM");
    if !is_vacuum {
        cursor.skip();
    }
    let what = if is_vacuum { "VACUUM" } else { "ANALYZE" };
    if cursor.peek().is_some_and(|token| token.is_sign('(')) {
        skip_brackets(cursor)?;
    }
    for word in ["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"] {
        cursor.take_word(word);
    }
    let mut tables = Vec::new();
    if !cursor.is_at_end() {
        // QuestDB's VACUUM TABLE.
        cursor.take_word("TABLE");
        tables = cursor.expect_list(|cursor| {
            let table = cursor.expect_table()?;
            if cursor.peek().is_some_and(|token| token.is_sign('(')) {
                skip_brackets(cursor)?;
            }
            Ok(table)
        })?;
    }
    cursor.expect_end()?;
    Ok(Statement::Maintain { what, tables })
}

fn rename(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    cursor.expect_words(&["TABLE"])?;
    let table = cursor.expect_table()?;
    cursor.expect_words(&["TO"])?;
    let to = cursor.expect_table()?.text;
    cursor.expect_end()?;
    Ok(Statement::RenameTable { table, to, if_exists: false })
}

fn reindex(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    cursor.expect_words(&["TABLE"])?;
    let table = cursor.expect_table()?;
    cursor.skip_all();
    let notices = vec!["REINDEX has no effect, every column has min/max zones".to_owned()];
    Ok(Statement::AlterTable { table, if_exists: false, change: NOTHING, notices })
}

fn explain(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    let (analyze, verbose) = match explain_options(cursor)? {
        Some(options) => options,
        None => (cursor.take_word("ANALYZE"), cursor.take_word("VERBOSE")),
    };
    if cursor.peek().is_some_and(|token| token.is_word("FORMAT")) {
        return Err(cursor.not_supported("EXPLAIN FORMAT"));
    }
    let offset = cursor.offset();
    let feature = "EXPLAIN of anything but SELECT, INSERT, UPDATE and DELETE";
    if cursor.peek().is_some_and(|token| token.is_word("EXPLAIN")) {
        // A nested EXPLAIN would read the text behind it once more for each level.
        return Err(cursor.not_supported(feature));
    }
    let explained = |change| Explain { analyze, verbose, offset, change };
    // Blanks in place of EXPLAIN keep the places those of the whole text.
    match parse_statement(&blanked(cursor.sql(), offset)) {
        Ok(Statement::Query) => Ok(Statement::Explain(explained(None))),
        Ok(Statement::ChangeRows(RowChange::DropPartitions(_))) => {
            Err(cursor.not_supported(feature))
        }
        Ok(Statement::ChangeRows(change)) => Ok(Statement::Explain(explained(Some(change)))),
        Err(Error::Syntax { what: SyntaxError::Empty, .. }) => Err(cursor.unexpected("a query")),
        Err(error) => Err(error),
        Ok(_) => Err(cursor.not_supported(feature)),
    }
}

/// Reads `(ANALYZE, VERBOSE off, COSTS ..)` of an EXPLAIN: returns ANALYZE and VERBOSE. `None` if
/// there are no options, but perhaps a query in brackets.
fn explain_options(cursor: &mut Cursor<'_>) -> Result<Option<(bool, bool)>> {
    const WORDS: [&str; 10] = [
        "ANALYZE", "VERBOSE", "COSTS", "BUFFERS", "TIMING", "SUMMARY", "WAL", "SETTINGS", "MEMORY",
        "FORMAT",
    ];
    let is_option =
        cursor.peek_at(1).is_some_and(|token| WORDS.iter().any(|word| token.is_word(word)));
    if !is_option || !cursor.take_sign('(') {
        return Ok(None);
    }
    let (mut analyze, mut verbose) = (false, false);
    loop {
        let Some(word) = WORDS.iter().find(|word| cursor.take_word(word)) else {
            return Err(cursor.unexpected("an option of EXPLAIN"));
        };
        if *word == "FORMAT" && !cursor.take_word("TEXT") {
            return Err(cursor.not_supported("EXPLAIN FORMAT"));
        }
        let is_off = ["OFF", "FALSE"].iter().any(|off| cursor.take_word(off));
        if !is_off {
            let _ = cursor.take_word("ON") || cursor.take_word("TRUE");
        }
        match *word {
            "ANALYZE" => analyze = !is_off,
            "VERBOSE" => verbose = !is_off,
            _ => {}
        }
        if !cursor.take_sign(',') {
            break;
        }
    }
    cursor.expect_sign(')')?;
    Ok(Some((analyze, verbose)))
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
    fn statements_about_tables_are_ours() {
        let (names, readers) = (vec![name("a", 21), name("B b", 24)], Readers::Stay);
        check(
            "DROP TABLE IF EXISTS a, \"B b\";",
            Statement::DropTables { names, if_exists: true, readers },
        );
        let (table, restarts_numbers) = (name("t", 15), false);
        check("truncate table t", Statement::TruncateTable { table, restarts_numbers });
        let to = "b".to_owned();
        check(
            "RENAME TABLE a TO b",
            Statement::RenameTable { table: name("a", 13), to: to.clone(), if_exists: false },
        );
        check(
            "ALTER TABLE a RENAME TO b",
            Statement::RenameTable { table: name("a", 12), to, if_exists: false },
        );
        check("show tables", Statement::Show(Show::Tables));
    }

    #[test]
    fn everything_else_is_a_query() {
        for sql in ["SELECT 1", "(SELECT 1)", "WITH a AS (SELECT 1) TABLE a", "hits WHERE x = 1"] {
            check(sql, Statement::Query);
        }
        let explained = Explain { analyze: true, verbose: false, offset: 16, change: None };
        check("EXPLAIN ANALYZE SELECT 1", Statement::Explain(explained));
    }

    #[test]
    fn errors_stand_at_their_token() {
        check_error(" -- nothing", "line 1, column 1: there is no statement");
        check_error("DROP TABLE", "line 1, column 11: expected the name of a table, found the end");
        check_error("DROP ROLE r", "line 1, column 6: expected TABLE or VIEW, found `ROLE`");
        check_error(
            "DROP TABLE a b",
            "line 1, column 14: expected the end of the statement, found `b`",
        );
        check_error(
            "DROP TABLE other.t",
            "line 1, column 17: a schema other than `public` is not supported yet",
        );
        check_error(
            &"EXPLAIN ".repeat(20_000),
            "line 1, column 9: EXPLAIN of anything but SELECT, INSERT, UPDATE and DELETE is not \
             supported yet",
        );
        check_error(
            "EXPLAIN DROP TABLE t",
            "line 1, column 9: EXPLAIN of anything but SELECT, INSERT, UPDATE and DELETE is not \
             supported yet",
        );
        check_error(
            "EXPLAIN DELETE FROM",
            "line 1, column 20: expected the name of a table, found the end",
        );
    }
}
