//! Which statement a text is.

use super::copy::{self, Copy};
use super::create::{
    CreateAs, TableDefinition, create_as, create_table, expect_column, skip_brackets,
    take_temporary,
};
use super::cursor::Cursor;
pub(crate) use super::cursor::Name;
use super::rows::{self, RowChange};
use super::session::{self, Set, Show};
use super::settings::{TtlClause, expect_keys};
use super::token::blanked;
use super::types::TypeName;
use super::views::{self, Comment, CreateView, Readers, take_readers};
use crate::changes::OnCommit;
use crate::error::{Error, Result, SyntaxError};
use tidegate_model::ColumnType;

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
    /// There are none: it does nothing.
    DropIndex,
    /// A statement that asks for what is so.
    Nothing {
        tag: &'static str,
        notices: Vec<String>,
    },
    /// VACUUM or ANALYZE: the maintenance does what they are for.
    Maintain {
        what: &'static str,
        tables: Vec<Name>,
    },
    TruncateTable {
        table: Name,
    },
    RenameTable {
        table: Name,
        to: String,
    },
    AlterTable {
        table: Name,
        change: TableChange,
        notices: Vec<String>,
    },
    ChangeRows(RowChange),
    Show(Show),
    Set {
        set: Set,
        notices: Vec<String>,
    },
    /// Ends another statement.
    Cancel {
        id: u64,
        offset: usize,
    },
    Explain(Explain),
    Copy(Box<Copy>),
    Query,
}

impl Statement {
    /// What it does besides reading, although it changes no table.
    pub(crate) fn deed(&self) -> Option<&'static str> {
        match self {
            Statement::Cancel { .. } => Some("CANCEL QUERY"),
            Statement::Copy(_) => Some("COPY"),
            _ => None,
        }
    }
}

/// What is to be explained, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Explain {
    /// Whether it is run, to count rows and time.
    pub(crate) analyze: bool,
    pub(crate) verbose: bool,
    /// The byte that the statement starts at.
    pub(crate) offset: usize,
    /// The statement, with places in the whole text; `None` if it is a query.
    pub(crate) change: Option<RowChange>,
}

/// What an `ALTER TABLE` changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableChange {
    AddColumns {
        columns: Vec<(String, ColumnType)>,
        /// The most characters of some, by name.
        lengths: Vec<(String, u32)>,
        if_not_exists: bool,
    },
    DropColumns {
        names: Vec<Name>,
    },
    RenameColumn {
        column: Name,
        to: String,
    },
    /// Keys of DEDUP; none: it is disabled.
    DedupKeys {
        keys: Vec<Name>,
    },
    Ttl(TtlClause),
    DropPartitions {
        names: Vec<Name>,
    },
    /// None. What is asked for has no effect, but the column must be there.
    Nothing {
        column: Option<Name>,
    },
}

/// Statements that will come, and whose first word would otherwise be taken for a query's.
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

/// Reads one statement. A query is only recognised, not read.
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
        "ALTER" => alter(&mut cursor),
        "REINDEX" => reindex(&mut cursor),
        "INSERT" => rows::insert(&mut cursor).map(Statement::ChangeRows),
        "UPDATE" => rows::update(&mut cursor).map(Statement::ChangeRows),
        "DELETE" => rows::delete(&mut cursor).map(Statement::ChangeRows),
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

/// `SCHEMA IF NOT EXISTS public [AUTHORIZATION user]`: it is there, and it is the only one.
fn create_schema(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let refused = cursor.not_supported("CREATE SCHEMA of another schema than `public`");
    cursor.skip();
    let if_not_exists = cursor.take_words(&["IF", "NOT", "EXISTS"]);
    let mut name = cursor.expect_name("the name of a schema")?;
    // The database may be before it.
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

/// `TABLE name (LIKE other)`; `None` if it is something else, of which nothing is read.
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
    let is_said = name.text.starts_with("pg_temp.");
    let temporary = (is_temporary || is_said).then(OnCommit::default);
    Ok(Some(Statement::CreateTableLike { name, if_not_exists, temporary, like }))
}

/// `[CONCURRENTLY] [IF NOT EXISTS] [name] ON table [USING method] (columns)`
fn create_index(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.take_word("CONCURRENTLY");
    cursor.take_words(&["IF", "NOT", "EXISTS"]);
    if !cursor.peek().is_some_and(|token| token.is_word("ON")) {
        cursor.expect_table()?;
    }
    cursor.expect_words(&["ON"])?;
    let table = cursor.expect_table()?;
    if cursor.take_word("USING") {
        cursor.expect_name("a method")?;
    }
    if !cursor.peek().is_some_and(|token| token.is_sign('(')) {
        return Err(cursor.unexpected("`(`"));
    }
    skip_brackets(cursor)?;
    cursor.expect_end()?;
    let notices = vec!["CREATE INDEX has no effect, every column has min/max zones".to_owned()];
    Ok(Statement::AlterTable { table, change: TableChange::Nothing { column: None }, notices })
}

/// `INDEX [CONCURRENTLY] [IF EXISTS] names [CASCADE | RESTRICT]`
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
    cursor.take_words(&["RESTART", "IDENTITY"]);
    cursor.take_words(&["CONTINUE", "IDENTITY"]);
    let _ = cursor.take_word("CASCADE") || cursor.take_word("RESTRICT");
    cursor.expect_end()?;
    Ok(Statement::TruncateTable { table })
}

/// `VACUUM [(options)] [FULL] [FREEZE] [VERBOSE] [ANALYZE] [tables]`, and ANALYZE alone.
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
    Ok(Statement::RenameTable { table, to })
}

fn alter(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    if cursor.peek().is_some_and(|token| token.is_word("VIEW")) {
        return views::alter_view(cursor);
    }
    cursor.expect_words(&["TABLE"])?;
    let table = cursor.expect_table()?;
    let mut notices = Vec::new();
    let change = if cursor.take_word("ADD") {
        cursor.take_word("COLUMN");
        let if_not_exists = cursor.take_words(&["IF", "NOT", "EXISTS"]);
        let named = cursor.expect_list(|cursor| expect_column(cursor, &mut notices))?;
        let length = |(name, ty): &(String, TypeName)| Some((name.clone(), ty.length?));
        let lengths = named.iter().filter_map(length).collect();
        let columns = named.into_iter().map(|(name, named)| (name, named.ty)).collect();
        TableChange::AddColumns { columns, lengths, if_not_exists }
    } else if cursor.take_words(&["DROP", "COLUMN"]) {
        let names = cursor.expect_list(|cursor| cursor.expect_name("the name of a column"))?;
        TableChange::DropColumns { names }
    } else if cursor.take_words(&["RENAME", "COLUMN"]) {
        let column = cursor.expect_name("the name of a column")?;
        cursor.expect_words(&["TO"])?;
        let to = cursor.expect_name("the new name of the column")?.text;
        TableChange::RenameColumn { column, to }
    } else if cursor.take_words(&["RENAME", "TO"]) {
        let to = cursor.expect_table()?.text;
        cursor.expect_end()?;
        return Ok(Statement::RenameTable { table, to });
    } else if cursor.take_words(&["DEDUP", "DISABLE"]) {
        TableChange::DedupKeys { keys: Vec::new() }
    } else if cursor.take_words(&["DEDUP", "ENABLE"]) {
        let keys = expect_keys(cursor)?;
        if cursor.peek().is_some_and(|token| token.is_word("APPLY")) {
            return Err(cursor.not_supported("APPLY"));
        }
        TableChange::DedupKeys { keys }
    } else if cursor.take_words(&["SET", "TTL"]) {
        TableChange::Ttl(TtlClause::expect(cursor)?)
    } else if cursor.take_words(&["DROP", "PARTITION"])
        || cursor.take_words(&["FORCE", "DROP", "PARTITION"])
    {
        if let Some(change) = rows::drop_partitions(cursor, &table)? {
            return Ok(Statement::ChangeRows(change));
        }
        cursor.expect_words(&["LIST"])?;
        let names = cursor.expect_list(|cursor| cursor.expect_name("the name of a partition"))?;
        TableChange::DropPartitions { names }
    } else if let Some(column) = without_effect(cursor, &mut notices)? {
        TableChange::Nothing { column }
    } else {
        return Err(alter_not_yet(cursor));
    };
    cursor.expect_end()?;
    Ok(Statement::AlterTable { table, change, notices })
}

/// Reads what other databases need and this one does not; `None` if it is something else.
fn without_effect(
    cursor: &mut Cursor<'_>,
    notices: &mut Vec<String>,
) -> Result<Option<Option<Name>>> {
    let mut tell = |notice: &str| notices.push(notice.to_owned());
    if cursor.take_words(&["SET", "PARAM"]) {
        cursor.skip_all();
        tell("SET PARAM has no effect: every commit is written at once");
    } else if cursor.take_words(&["SET", "TYPE"]) {
        cursor.take_word("BYPASS");
        cursor.expect_words(&["WAL"])?;
        tell("SET TYPE has no effect: every commit is in the log");
    } else if cursor.take_words(&["SUSPEND", "WAL"]) || cursor.take_words(&["RESUME", "WAL"]) {
        cursor.skip_all();
        tell("SUSPEND WAL and RESUME WAL have no effect: commits are applied when they are made");
    } else if cursor.take_words(&["SQUASH", "PARTITIONS"]) {
        tell("SQUASH PARTITIONS has no effect: partitions are not split");
    } else {
        return column_without_effect(cursor, notices);
    }
    Ok(Some(None))
}

/// The same of `ALTER COLUMN`.
fn column_without_effect(
    cursor: &mut Cursor<'_>,
    notices: &mut Vec<String>,
) -> Result<Option<Option<Name>>> {
    let mut ahead = cursor.clone();
    if !ahead.take_words(&["ALTER", "COLUMN"]) {
        return Ok(None);
    }
    let column = ahead.expect_name("the name of a column")?;
    let notice = if ahead.take_words(&["ADD", "INDEX"]) {
        if ahead.take_word("CAPACITY") {
            ahead.expect_integer("a capacity")?;
        }
        "INDEX has no effect, every column has min/max zones"
    } else if ahead.take_words(&["DROP", "INDEX"]) {
        "INDEX has no effect, every column has min/max zones"
    } else if ahead.take_word("CACHE") || ahead.take_word("NOCACHE") {
        "CACHE and NOCACHE have no effect"
    } else {
        return Ok(None);
    };
    notices.push(format!("column `{}`: {notice}", column.text));
    *cursor = ahead;
    Ok(Some(Some(column)))
}

fn reindex(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    cursor.expect_words(&["TABLE"])?;
    let table = cursor.expect_table()?;
    cursor.skip_all();
    let notices = vec!["REINDEX has no effect, every column has min/max zones".to_owned()];
    Ok(Statement::AlterTable { table, change: TableChange::Nothing { column: None }, notices })
}

fn alter_not_yet(cursor: &mut Cursor<'_>) -> Error {
    for (words, feature) in [
        (["ALTER", "COLUMN"].as_slice(), "ALTER COLUMN"),
        (&["SET"], "ALTER TABLE SET"),
        (&["DETACH"], "DETACH PARTITION"),
        (&["ATTACH"], "ATTACH PARTITION"),
        (&["CONVERT"], "CONVERT PARTITION"),
    ] {
        let error = cursor.not_supported(feature);
        if cursor.take_words(words) {
            return error;
        }
    }
    cursor.unexpected("ADD COLUMN, DROP COLUMN, RENAME COLUMN or RENAME TO")
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
        // Each would read the text behind it again.
        return Err(cursor.not_supported(feature));
    }
    let explained = |change| Explain { analyze, verbose, offset, change };
    // So that places are those in the whole text.
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

/// `(ANALYZE, VERBOSE off, COSTS ..)` of an EXPLAIN: whether it analyzes, and is verbose. `None` if
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
        Name { text: text.to_owned(), offset }
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
        check("truncate table t", Statement::TruncateTable { table: name("t", 15) });
        let to = "b".to_owned();
        check(
            "RENAME TABLE a TO b",
            Statement::RenameTable { table: name("a", 13), to: to.clone() },
        );
        check("ALTER TABLE a RENAME TO b", Statement::RenameTable { table: name("a", 12), to });
        let change = TableChange::DropColumns { names: vec![name("x", 26), name("y", 29)] };
        let notices = Vec::new();
        check(
            "ALTER TABLE t DROP COLUMN x, y",
            Statement::AlterTable { table: name("t", 12), change, notices },
        );
        check("show tables", Statement::Show(Show::Tables));
    }

    #[test]
    fn columns_are_added_with_and_without_the_word() {
        for sql in [
            "ALTER TABLE t ADD COLUMN s SYMBOL, d DOUBLE PRECISION",
            "ALTER TABLE t ADD s SYMBOL, d DOUBLE",
        ] {
            let Ok(Statement::AlterTable { change, .. }) = parse_statement(sql) else {
                panic!("{sql}");
            };
            let columns =
                vec![("s".to_owned(), ColumnType::Symbol), ("d".to_owned(), ColumnType::Float64)];
            assert_eq!(
                change,
                TableChange::AddColumns { columns, lengths: Vec::new(), if_not_exists: false }
            );
        }
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
            "ALTER TABLE t ALTER COLUMN a TYPE INT",
            "line 1, column 15: ALTER COLUMN is not supported yet",
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
