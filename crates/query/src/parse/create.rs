//! The parser of `CREATE TABLE`.
//!
//! Clauses of QuestDB that change nothing here (`WAL`, `CAPACITY`, `INDEX`, ...) are accepted with
//! a notice, and so are constraints, which tools write into every table: they would refuse rows,
//! and change none. Any other clause that is not supported is an error at its place.

use std::ops::Range;

use tidegate_model::{ColumnDefault, ColumnType, PartitionUnit};

use super::cursor::{Cursor, Name};
use super::settings::{TtlClause, expect_keys};
use super::token::TokenKind;
use super::types::{TypeName, expect_type};
use crate::error::{Error, Result};

/// A `CREATE TABLE` with a list of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableDefinition {
    /// Of the table.
    pub name: String,
    /// True if an existing table of this name is no error.
    pub if_not_exists: bool,
    /// Names as written, and types.
    pub columns: Vec<(String, ColumnType)>,
    /// The maximal lengths in characters of some VARCHAR columns, by name.
    pub lengths: Vec<(String, u32)>,
    /// The column named by `TIMESTAMP(..)`.
    pub timestamp: Option<String>,
    /// The partition unit; `NONE` by default.
    pub partition_by: PartitionUnit,
    /// `None` for a table that all sessions see; else the effect of COMMIT on a temporary one.
    pub(crate) temporary: Option<OnCommit>,
    /// The defaults of columns, by name.
    pub(crate) defaults: Vec<(String, DefaultClause)>,
    pub(crate) ttl: Option<TtlClause>,
    /// The keys of DEDUP.
    pub(crate) keys: Vec<Name>,
    /// Notices about clauses without effect, a sentence each.
    pub notices: Vec<String>,
}

/// The default of a column, for an INSERT without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DefaultClause {
    /// GENERATED AS IDENTITY, or SERIAL.
    NextNumber,
    /// An expression, by its bytes.
    Expression(Range<usize>),
}

impl DefaultClause {
    /// The same for a schema.
    pub(crate) fn stored(&self, sql: &str) -> ColumnDefault {
        match self {
            DefaultClause::NextNumber => ColumnDefault::NextNumber,
            DefaultClause::Expression(bytes) => {
                ColumnDefault::Expression(sql[bytes.clone()].trim().to_owned())
            }
        }
    }
}

/// A column with its type and options.
pub(crate) struct NewColumn {
    pub(super) name: String,
    pub(super) ty: ColumnType,
    pub(super) length: Option<u32>,
    pub(super) default: Option<DefaultClause>,
}

/// The options of a column that have been read so far.
struct ParsedOptions<'a> {
    column: &'a str,
    notices: &'a mut Vec<String>,
    default: Option<DefaultClause>,
}

/// `CREATE TABLE .. AS (query)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreateAs {
    /// The table's name and its place.
    pub(crate) name: Name,
    /// The definition without columns, which are those of the query.
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
            defaults: Vec::new(),
            ttl: None,
            keys: Vec::new(),
            notices,
        }
    }

    /// Returns true if it has DEDUP or TTL.
    #[must_use]
    pub fn has_settings(&self) -> bool {
        self.ttl.is_some() || !self.keys.is_empty()
    }
}

/// Reads one `CREATE TABLE` statement.
///
/// # Errors
/// If it is none, or has clauses that are not supported. `Schema::new` checks the columns.
pub fn parse_create_table(sql: &str) -> Result<TableDefinition> {
    let mut cursor = Cursor::new(sql)?;
    cursor.expect_words(&["CREATE"])?;
    create_table(&mut cursor)
}

/// Parses the text behind `CREATE`.
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

/// Parses the text behind `CREATE`, if the rows are those of a query; returns `None`, and reads
/// nothing, if it is something else.
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
    table.temporary = (is_temporary || name.is_temporary()).then(OnCommit::default);
    Ok((name, table))
}

/// `[LOCAL | GLOBAL] TEMPORARY`
pub(crate) fn take_temporary(cursor: &mut Cursor<'_>) -> bool {
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
    let action = if cursor.take_words(&["PRESERVE", "ROWS"]) {
        OnCommit::PreserveRows
    } else if cursor.take_words(&["DELETE", "ROWS"]) {
        OnCommit::DeleteRows
    } else if cursor.take_word("DROP") {
        OnCommit::Drop
    } else {
        return Err(cursor.unexpected("PRESERVE ROWS, DELETE ROWS or DROP"));
    };
    match table.temporary.as_mut() {
        Some(on_commit) => *on_commit = action,
        None => return Err(refused),
    }
    Ok(())
}

/// Returns true if a query comes next, in brackets or behind AS.
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
pub(crate) fn skip_brackets(cursor: &mut Cursor<'_>) -> Result<()> {
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
    let mut parsed = ParsedOptions { column: &column.text, notices, default: None };
    while column_option(cursor, &mut parsed)? {}
    cursor.expect_sign(')')?;
    Ok((column, type_name))
}

/// Reads `ATOMIC` or `BATCH n [o3MaxLag d]`, which are about the commits of a query's rows.
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
    if let Some(notice) = table_constraint(cursor)? {
        table.notices.push(notice);
        return Ok(());
    }
    let NewColumn { name, ty, length, default } = expect_column(cursor, &mut table.notices)?;
    table.lengths.extend(length.map(|length| (name.clone(), length)));
    table.defaults.extend(default.map(|default| (name.clone(), default)));
    table.columns.push((name, ty));
    Ok(())
}

/// Constraints with their notices: they would refuse rows, and none does here.
const CONSTRAINTS: [(&[&str], &str); 4] = [
    (&["PRIMARY", "KEY"], PRIMARY_KEY_NOTICE),
    (&["UNIQUE"], UNIQUE_NOTICE),
    (&["CHECK"], "CHECK has no effect: values are not checked"),
    (
        &["FOREIGN", "KEY"],
        "FOREIGN KEY has no effect: rows that it names are neither looked for nor removed",
    ),
];

const PRIMARY_KEY_NOTICE: &str =
    "PRIMARY KEY has no effect: DEDUP UPSERT KEYS(..) replaces rows with the same keys";

const UNIQUE_NOTICE: &str =
    "UNIQUE has no effect: DEDUP UPSERT KEYS(..) replaces rows with the same keys";

/// Reads `[CONSTRAINT name] PRIMARY KEY (columns)` or another constraint, and returns its notice;
/// returns `None`, and reads nothing, if it is something else.
pub(crate) fn table_constraint(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    let mut ahead = cursor.clone();
    // A column may be called `constraint`, or `primary`.
    if ahead.take_word("CONSTRAINT") && ahead.expect_name("the name of a constraint").is_err() {
        return Ok(None);
    }
    let known = CONSTRAINTS.iter().find(|(words, _)| ahead.take_words(words));
    let Some((words, notice)) = known else { return Ok(None) };
    if words == &["UNIQUE"] {
        let _ = ahead.take_words(&["NULLS", "NOT", "DISTINCT"])
            || ahead.take_words(&["NULLS", "DISTINCT"]);
    }
    // A column may be called `unique` or `check`, too.
    if !ahead.peek().is_some_and(|token| token.is_sign('(')) {
        return Ok(None);
    }
    skip_brackets(&mut ahead)?;
    if words == &["FOREIGN", "KEY"] {
        references(&mut ahead)?;
    }
    constraint_options(&mut ahead)?;
    *cursor = ahead;
    Ok(Some((*notice).to_owned()))
}

/// `REFERENCES table [(columns)] [MATCH ..] [ON DELETE ..] [ON UPDATE ..]`
fn references(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.expect_words(&["REFERENCES"])?;
    cursor.expect_table()?;
    if cursor.peek().is_some_and(|token| token.is_sign('(')) {
        skip_brackets(cursor)?;
    }
    if cursor.take_word("MATCH") {
        cursor.expect_name("FULL, PARTIAL or SIMPLE")?;
    }
    while cursor.take_words(&["ON", "DELETE"]) || cursor.take_words(&["ON", "UPDATE"]) {
        let known: [&[&str]; 5] =
            [&["CASCADE"], &["RESTRICT"], &["NO", "ACTION"], &["SET", "NULL"], &["SET", "DEFAULT"]];
        if !known.iter().any(|words| cursor.take_words(words)) {
            return Err(cursor.unexpected("CASCADE, RESTRICT, NO ACTION, SET NULL or SET DEFAULT"));
        }
        if cursor.peek().is_some_and(|token| token.is_sign('(')) {
            skip_brackets(cursor)?;
        }
    }
    Ok(())
}

/// Reads the options that any constraint may have.
fn constraint_options(cursor: &mut Cursor<'_>) -> Result<()> {
    let known: [&[&str]; 6] = [
        &["NOT", "DEFERRABLE"],
        &["DEFERRABLE"],
        &["INITIALLY", "DEFERRED"],
        &["INITIALLY", "IMMEDIATE"],
        &["NO", "INHERIT"],
        &["NOT", "VALID"],
    ];
    while known.iter().any(|words| cursor.take_words(words)) {}
    Ok(())
}

/// A column with its type and options.
pub(crate) fn expect_column(
    cursor: &mut Cursor<'_>,
    notices: &mut Vec<String>,
) -> Result<NewColumn> {
    if cursor.clone().take_word("EXCLUDE")
        && cursor.peek_at(1).is_some_and(|token| token.is_word("USING") || token.is_sign('('))
    {
        return Err(cursor.not_supported("EXCLUDE"));
    }
    let name = cursor.expect_name("the name of a column")?.text;
    let TypeName { ty, length, is_serial, notice } = expect_type(cursor)?;
    notices.extend(notice.map(|notice| format!("column `{name}`: {notice}")));
    let default = is_serial.then_some(DefaultClause::NextNumber);
    let mut parsed = ParsedOptions { column: &name, notices, default };
    while column_option(cursor, &mut parsed)? {}
    let default = parsed.default;
    Ok(NewColumn { name, ty, length, default })
}

/// Reads one option of a column; false if there is none.
fn column_option(cursor: &mut Cursor<'_>, parsed: &mut ParsedOptions<'_>) -> Result<bool> {
    let name = parsed.column;
    if cursor.take_word("NULL") || collation(cursor)? {
        return Ok(true);
    }
    if cursor.take_words(&["NOT", "NULL"]) {
        parsed.notices.push(format!("column `{name}`: NOT NULL has no effect, it takes NULL"));
        return Ok(true);
    }
    if let Some(default) = default_option(cursor, parsed)? {
        parsed.default = default;
        return Ok(true);
    }
    if let Some(notice) = column_constraint(cursor)? {
        parsed.notices.push(format!("column `{name}`: {notice}"));
        return Ok(true);
    }
    if cursor.take_word("CAPACITY") {
        cursor.expect_integer("a capacity")?;
        let notice = "CAPACITY has no effect, dictionaries size themselves";
        parsed.notices.push(format!("column `{name}`: {notice}"));
    } else if cursor.take_word("CACHE") || cursor.take_word("NOCACHE") {
        parsed.notices.push(format!("column `{name}`: CACHE and NOCACHE have no effect"));
    } else if cursor.take_word("INDEX") {
        if cursor.take_word("CAPACITY") {
            cursor.expect_integer("a capacity")?;
        }
        parsed.notices.push(index_notice(name));
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// `COLLATE name`, of the one order of texts that there is.
fn collation(cursor: &mut Cursor<'_>) -> Result<bool> {
    let refused = cursor.not_supported("COLLATE of another collation than \"C\"");
    if !cursor.take_word("COLLATE") {
        return Ok(false);
    }
    let mut name = cursor.expect_name("the name of a collation")?;
    if cursor.take_sign('.') {
        name = cursor.expect_name("the name of a collation")?;
    }
    let known = ["C", "POSIX", "default", "ucs_basic", "C.UTF-8"];
    if known.iter().any(|it| name.text.eq_ignore_ascii_case(it)) { Ok(true) } else { Err(refused) }
}

/// Reads `[CONSTRAINT name] UNIQUE` or another constraint behind a column, and returns its notice.
fn column_constraint(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    let mut ahead = cursor.clone();
    if ahead.take_word("CONSTRAINT") {
        ahead.expect_name("the name of a constraint")?;
        if ahead.take_words(&["NOT", "NULL"]) {
            *cursor = ahead;
            return Ok(Some("NOT NULL has no effect, it takes NULL".to_owned()));
        }
    }
    let is_reference = ahead.peek().is_some_and(|token| token.is_word("REFERENCES"));
    let known = CONSTRAINTS.iter().find(|(words, _)| match words {
        &["FOREIGN", "KEY"] => is_reference,
        words => ahead.take_words(words),
    });
    let Some((words, notice)) = known else { return Ok(None) };
    match *words {
        ["CHECK"] => skip_brackets(&mut ahead)?,
        ["FOREIGN", "KEY"] => references(&mut ahead)?,
        _ => {}
    }
    constraint_options(&mut ahead)?;
    *cursor = ahead;
    Ok(Some((*notice).to_owned()))
}

/// `DEFAULT expression`, or `GENERATED .. AS IDENTITY`; `None` if it is something else. The default
/// itself is `None` if it is NULL.
fn default_option(
    cursor: &mut Cursor<'_>,
    parsed: &mut ParsedOptions<'_>,
) -> Result<Option<Option<DefaultClause>>> {
    if cursor.take_word("DEFAULT") {
        return default_value(cursor).map(Some);
    }
    let generated = cursor.not_supported("a column that is computed from others");
    if !cursor.take_word("GENERATED") {
        return Ok(None);
    }
    identity(cursor, generated, parsed.notices).map(|default| Some(Some(default)))
}

/// Reads the text behind DEFAULT; `None` for NULL.
pub(crate) fn default_value(cursor: &mut Cursor<'_>) -> Result<Option<DefaultClause>> {
    let range = default_expression(cursor)?;
    let is_null = cursor.sql()[range.clone()].trim().eq_ignore_ascii_case("null");
    Ok((!is_null).then_some(DefaultClause::Expression(range)))
}

/// `{ALWAYS | BY DEFAULT} AS IDENTITY [(options)]`, behind GENERATED.
pub(crate) fn identity(
    cursor: &mut Cursor<'_>,
    computed: Error,
    notices: &mut Vec<String>,
) -> Result<DefaultClause> {
    if cursor.take_word("ALWAYS") {
        if !cursor.clone().take_words(&["AS", "IDENTITY"]) {
            return Err(computed);
        }
        let notice = "GENERATED ALWAYS is GENERATED BY DEFAULT: an INSERT may give values";
        notices.push(notice.to_owned());
    } else {
        cursor.expect_words(&["BY", "DEFAULT"])?;
    }
    cursor.expect_words(&["AS", "IDENTITY"])?;
    if cursor.take_sign('(') {
        while !cursor.take_sign(')') {
            identity_option(cursor)?;
        }
    }
    Ok(DefaultClause::NextNumber)
}

/// An option of an identity: numbers begin at 1 and rise by 1.
fn identity_option(cursor: &mut Cursor<'_>) -> Result<()> {
    let other = cursor.not_supported("numbers of an identity that do not begin at 1 and rise by 1");
    let is_said = |cursor: &mut Cursor<'_>, word, with| {
        cursor.take_word(word) && {
            cursor.take_word(with);
            true
        }
    };
    let mut one = None;
    let is_number = is_said(cursor, "START", "WITH")
        || is_said(cursor, "INCREMENT", "BY")
        || cursor.take_word("MINVALUE");
    if is_number {
        one = Some(cursor.expect_integer("1")?);
    } else if cursor.take_word("MAXVALUE") || cursor.take_word("CACHE") {
        cursor.expect_integer("a number")?;
    } else if !(cursor.take_words(&["NO", "MINVALUE"])
        || cursor.take_words(&["NO", "MAXVALUE"])
        || cursor.take_words(&["NO", "CYCLE"]))
    {
        return Err(other);
    }
    if one.is_none_or(|one| one == 1) { Ok(()) } else { Err(other) }
}

/// The bytes of an expression behind DEFAULT: up to the next option of the column, or the next
/// column.
fn default_expression(cursor: &mut Cursor<'_>) -> Result<Range<usize>> {
    const ENDS: [&str; 10] = [
        "NOT",
        "NULL",
        "PRIMARY",
        "UNIQUE",
        "CHECK",
        "REFERENCES",
        "CONSTRAINT",
        "COLLATE",
        "GENERATED",
        "DEFAULT",
    ];
    let start = cursor.offset();
    let mut end = start;
    while let Some(token) = cursor.peek() {
        let is_end = token.is_sign(',') || token.is_sign(')');
        if is_end || ENDS.iter().any(|word| token.is_word(word)) && start < end {
            break;
        }
        end = token.offset + token.text.len();
        if token.is_sign('(') {
            skip_brackets(cursor)?;
            end = cursor.last_end();
        } else {
            cursor.skip();
        }
    }
    if start == end { Err(cursor.unexpected("an expression")) } else { Ok(start..end) }
}

fn index_notice(column: &str) -> String {
    format!("column `{column}`: INDEX has no effect, every column has min/max zones")
}

/// Reads the options behind the columns, in any order.
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

/// Returns the error for a word that begins no table option.
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

pub(crate) fn expect_partition_unit(cursor: &mut Cursor<'_>) -> Result<PartitionUnit> {
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

/// The end of a temporary table's life: the argument of ON COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnCommit {
    #[default]
    PreserveRows,
    DeleteRows,
    Drop,
}

#[cfg(test)]
mod tests;
