//! The parser of `ALTER TABLE`.
//!
//! Clauses that other databases need and this one does not are accepted with a notice: constraints,
//! NOT NULL, owners, triggers. A statement may have several changes if only one of them has an
//! effect: each statement is one commit.

use tidegate_model::ColumnType;

use super::views;
use crate::error::{Error, Result};
use crate::parse::create::{
    DefaultClause, NewColumn, default_value, expect_column, identity, table_constraint,
};
use crate::parse::cursor::{Cursor, Name};
use crate::parse::rows;
use crate::parse::settings::{TtlClause, expect_keys};
use crate::parse::statement::Statement;
use crate::parse::types::{TypeName, expect_type};

/// A change of a table by `ALTER TABLE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableChange {
    AddColumns(AddColumns),
    DropColumns {
        names: Vec<Name>,
        if_exists: bool,
    },
    RenameColumn {
        column: Name,
        to: String,
    },
    /// A new type of a column.
    Retype {
        column: Name,
        ty: ColumnType,
        /// The maximal length of a VARCHAR, in characters.
        length: Option<u32>,
    },
    /// The value that a column is filled with; `None` for NULL.
    Default {
        column: Name,
        default: Option<DefaultClause>,
    },
    /// Sets the keys of DEDUP; an empty list disables it.
    DedupKeys {
        keys: Vec<Name>,
    },
    Ttl(TtlClause),
    DropPartitions {
        names: Vec<Name>,
    },
    /// A clause without effect; the column that it names must exist.
    Nothing {
        column: Option<Name>,
    },
}

/// Columns to be added to a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AddColumns {
    pub(crate) columns: Vec<(String, ColumnType)>,
    /// The maximal lengths in characters of some of them, by name.
    pub(crate) lengths: Vec<(String, u32)>,
    /// The defaults of some of them, by name.
    pub(crate) defaults: Vec<(String, DefaultClause)>,
    pub(crate) if_not_exists: bool,
}

/// Parses a whole ALTER statement, of a table or a view.
pub(crate) fn alter(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    if cursor.peek().is_some_and(|token| token.is_word("VIEW")) {
        return views::alter_view(cursor);
    }
    cursor.expect_words(&["TABLE"])?;
    let if_exists = cursor.take_words(&["IF", "EXISTS"]);
    cursor.take_word("ONLY");
    let table = cursor.expect_table()?;
    if cursor.take_words(&["RENAME", "TO"]) {
        let to = cursor.expect_table()?.text;
        cursor.expect_end()?;
        return Ok(Statement::RenameTable { table, to, if_exists });
    }
    if let Some(change) = partitions_of_condition(cursor, &table) {
        return Ok(Statement::ChangeRows(change));
    }
    let mut notices = Vec::new();
    let mut changed: Option<TableChange> = None;
    loop {
        let again = cursor.not_supported("several changes in one ALTER TABLE");
        let next = action(cursor, &mut notices)?;
        changed = Some(match (changed, next) {
            (None, next) => next,
            (Some(known), TableChange::Nothing { .. }) => known,
            (Some(TableChange::Nothing { .. }), next) => next,
            (Some(TableChange::AddColumns(known)), TableChange::AddColumns(next))
                if known.if_not_exists == next.if_not_exists =>
            {
                TableChange::AddColumns(known.with(next))
            }
            (
                Some(TableChange::DropColumns { names, if_exists }),
                TableChange::DropColumns { names: next, if_exists: also },
            ) if if_exists == also => {
                TableChange::DropColumns { names: [names, next].concat(), if_exists }
            }
            _ => return Err(again),
        });
        if !cursor.take_sign(',') {
            break;
        }
    }
    cursor.expect_end()?;
    let change = changed.expect("there is one");
    Ok(Statement::AlterTable { table, if_exists, change, notices })
}

impl AddColumns {
    fn with(mut self, next: AddColumns) -> AddColumns {
        self.columns.extend(next.columns);
        self.lengths.extend(next.lengths);
        self.defaults.extend(next.defaults);
        self
    }
}

/// Returns the change for `DROP PARTITION WHERE condition`, or `None`; reads nothing.
fn partitions_of_condition(cursor: &Cursor<'_>, table: &Name) -> Option<rows::RowChange> {
    let mut ahead = cursor.clone();
    ahead.take_word("FORCE");
    let is_drop = ahead.take_words(&["DROP", "PARTITION"]);
    rows::drop_partitions(&ahead, table).filter(|_| is_drop)
}

fn action(cursor: &mut Cursor<'_>, notices: &mut Vec<String>) -> Result<TableChange> {
    if let Some(change) = action_of_questdb(cursor)? {
        return Ok(change);
    }
    if let Some(column) = without_effect(cursor, notices)? {
        return Ok(TableChange::Nothing { column });
    }
    if cursor.take_word("ADD") {
        return add(cursor, notices);
    }
    if cursor.take_words(&["DROP", "COLUMN"]) || is_dropped_column(cursor) {
        return drop_columns(cursor);
    }
    if cursor.take_words(&["RENAME", "COLUMN"]) || cursor.take_word("RENAME") {
        let column = cursor.expect_name("the name of a column")?;
        cursor.expect_words(&["TO"])?;
        let to = cursor.expect_name("the new name of the column")?.text;
        return Ok(TableChange::RenameColumn { column, to });
    }
    if cursor.take_word("ALTER") {
        cursor.take_word("COLUMN");
        return alter_column(cursor, notices);
    }
    Err(not_yet(cursor))
}

fn action_of_questdb(cursor: &mut Cursor<'_>) -> Result<Option<TableChange>> {
    Ok(Some(if cursor.take_words(&["DEDUP", "DISABLE"]) {
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
        cursor.expect_words(&["LIST"])?;
        let names = cursor.expect_list(|cursor| cursor.expect_name("the name of a partition"))?;
        TableChange::DropPartitions { names }
    } else {
        return Ok(None);
    }))
}

/// Parses the text behind ADD.
fn add(cursor: &mut Cursor<'_>, notices: &mut Vec<String>) -> Result<TableChange> {
    if let Some(notice) = table_constraint(cursor)? {
        notices.push(notice);
        return Ok(TableChange::Nothing { column: None });
    }
    cursor.take_word("COLUMN");
    let if_not_exists = cursor.take_words(&["IF", "NOT", "EXISTS"]);
    let mut added = AddColumns { if_not_exists, ..AddColumns::default() };
    loop {
        let NewColumn { name, ty, length, default } = expect_column(cursor, notices)?;
        added.lengths.extend(length.map(|length| (name.clone(), length)));
        added.defaults.extend(default.map(|default| (name.clone(), default)));
        added.columns.push((name, ty));
        // `ADD a INT, b INT`, or another change behind the comma.
        if begins_change(cursor, 3) || !cursor.take_sign(',') {
            return Ok(TableChange::AddColumns(added));
        }
    }
}

/// Returns true if another change stands behind the comma, and not a column. A column may be called
/// `set`: then its definition ends after `end` tokens.
fn begins_change(cursor: &Cursor<'_>, end: usize) -> bool {
    const CHANGES: [&str; 8] =
        ["ADD", "DROP", "ALTER", "RENAME", "SET", "OWNER", "ENABLE", "DISABLE"];
    let is_change =
        cursor.peek_at(1).is_some_and(|token| CHANGES.iter().any(|word| token.is_word(word)));
    is_change && cursor.peek_at(end).is_some_and(|token| !token.is_sign(','))
}

/// Returns true for `DROP name`, without the word COLUMN.
fn is_dropped_column(cursor: &mut Cursor<'_>) -> bool {
    let is_other = cursor
        .peek_at(1)
        .is_some_and(|token| ["CONSTRAINT", "PARTITION"].iter().any(|word| token.is_word(word)));
    !is_other && cursor.take_word("DROP")
}

fn drop_columns(cursor: &mut Cursor<'_>) -> Result<TableChange> {
    let if_exists = cursor.take_words(&["IF", "EXISTS"]);
    let mut names = Vec::new();
    loop {
        names.push(cursor.expect_name("the name of a column")?);
        let _ = cursor.take_word("CASCADE") || cursor.take_word("RESTRICT");
        // `DROP COLUMN a, b`, or another change behind the comma.
        if begins_change(cursor, 2) || !cursor.take_sign(',') {
            return Ok(TableChange::DropColumns { names, if_exists });
        }
    }
}

/// Parses the text behind `ALTER COLUMN`.
fn alter_column(cursor: &mut Cursor<'_>, notices: &mut Vec<String>) -> Result<TableChange> {
    let column = cursor.expect_name("the name of a column")?;
    let refused = cursor.not_supported("this ALTER COLUMN");
    let nothing = |column| Ok(TableChange::Nothing { column: Some(column) });
    if cursor.take_words(&["SET", "DATA", "TYPE"]) || cursor.take_word("TYPE") {
        return retype(cursor, column, notices);
    }
    if cursor.take_words(&["SET", "DEFAULT"]) {
        let default = default_value(cursor)?;
        return Ok(TableChange::Default { column, default });
    }
    if cursor.take_words(&["DROP", "DEFAULT"]) || cursor.take_words(&["DROP", "IDENTITY"]) {
        cursor.take_words(&["IF", "EXISTS"]);
        return Ok(TableChange::Default { column, default: None });
    }
    if cursor.take_words(&["ADD", "GENERATED"]) {
        let default = Some(identity(cursor, refused, notices)?);
        return Ok(TableChange::Default { column, default });
    }
    if cursor.take_words(&["SET", "NOT", "NULL"]) {
        notices.push(format!("column `{}`: NOT NULL has no effect, it takes NULL", column.text));
        return nothing(column);
    }
    if cursor.take_words(&["DROP", "NOT", "NULL"]) {
        return nothing(column);
    }
    if cursor.take_words(&["SET", "STATISTICS"])
        || cursor.take_words(&["SET", "STORAGE"])
        || cursor.take_words(&["SET", "COMPRESSION"])
    {
        cursor.skip();
        return nothing(column);
    }
    Err(refused)
}

/// Parses `TYPE type [COLLATE name] [USING column[::type]]`.
fn retype(cursor: &mut Cursor<'_>, column: Name, notices: &mut Vec<String>) -> Result<TableChange> {
    let TypeName { ty, length, notice, .. } = expect_type(cursor)?;
    notices.extend(notice.map(|notice| format!("column `{}`: {notice}", column.text)));
    let computed = cursor.not_supported("USING of anything but the column itself");
    if cursor.take_word("USING") {
        let is_it = cursor
            .expect_name("the name of the column")
            .is_ok_and(|name| name.text.eq_ignore_ascii_case(&column.text));
        let is_cast = cursor.take_sign(':') && cursor.take_sign(':');
        let is_alone = cursor.is_at_end() || cursor.peek().is_some_and(|it| it.is_sign(','));
        if !is_it || !(is_cast || is_alone) {
            return Err(computed);
        }
        if is_cast {
            expect_type(cursor)?;
        }
    }
    Ok(TableChange::Retype { column, ty, length })
}

/// Parses clauses that other databases need and this one does not; `None` for any other.
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
    } else if cursor.take_words(&["DROP", "CONSTRAINT"]) {
        cursor.take_words(&["IF", "EXISTS"]);
        cursor.expect_name("the name of a constraint")?;
        let _ = cursor.take_word("CASCADE") || cursor.take_word("RESTRICT");
        tell("DROP CONSTRAINT has no effect: there are none");
    } else if cursor.take_words(&["VALIDATE", "CONSTRAINT"]) {
        cursor.expect_name("the name of a constraint")?;
        tell("VALIDATE CONSTRAINT has no effect: there are none");
    } else if cursor.take_words(&["OWNER", "TO"]) {
        cursor.expect_name("a user")?;
        tell("OWNER TO has no effect: tables have no owner");
    } else if cursor.take_words(&["ENABLE", "TRIGGER"])
        || cursor.take_words(&["DISABLE", "TRIGGER"])
    {
        cursor.expect_name("the name of a trigger")?;
        tell("ENABLE TRIGGER and DISABLE TRIGGER have no effect: there are none");
    } else {
        return column_without_effect(cursor, notices);
    }
    Ok(Some(None))
}

/// Parses such clauses behind `ALTER COLUMN`.
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

fn not_yet(cursor: &mut Cursor<'_>) -> Error {
    for (words, feature) in [
        (["SET"].as_slice(), "ALTER TABLE SET"),
        (&["DETACH"], "DETACH PARTITION"),
        (&["ATTACH"], "ATTACH PARTITION"),
        (&["CONVERT"], "CONVERT PARTITION"),
    ] {
        let error = cursor.not_supported(feature);
        if cursor.take_words(words) {
            return error;
        }
    }
    cursor.unexpected("ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN or RENAME TO")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_statement;

    fn name(text: &str, offset: usize) -> Name {
        Name::new(text.to_owned(), offset)
    }

    #[track_caller]
    fn change(sql: &str) -> TableChange {
        match parse_statement(sql) {
            Ok(Statement::AlterTable { change, .. }) => change,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[track_caller]
    fn check_error(sql: &str, expected: &str) {
        assert_eq!(parse_statement(sql).expect_err("no statement").to_string(), expected, "{sql}");
    }

    #[test]
    fn columns_are_added_with_and_without_the_word() {
        for sql in [
            "ALTER TABLE t ADD COLUMN s SYMBOL, d DOUBLE PRECISION",
            "ALTER TABLE t ADD s SYMBOL, d DOUBLE",
            "ALTER TABLE IF EXISTS ONLY t ADD COLUMN s SYMBOL, ADD COLUMN d DOUBLE",
        ] {
            let columns =
                vec![("s".to_owned(), ColumnType::Symbol), ("d".to_owned(), ColumnType::Float64)];
            let added = AddColumns { columns, ..AddColumns::default() };
            assert_eq!(change(sql), TableChange::AddColumns(added), "{sql}");
        }
        let names = vec![name("x", 26), name("y", 29)];
        let dropped = TableChange::DropColumns { names, if_exists: false };
        assert_eq!(change("ALTER TABLE t DROP COLUMN x, y"), dropped);
        let names = vec![name("x", 36), name("y", 69)];
        let dropped = TableChange::DropColumns { names, if_exists: true };
        let sql = "ALTER TABLE t DROP COLUMN IF EXISTS x CASCADE, DROP COLUMN IF EXISTS y";
        assert_eq!(change(sql), dropped);
    }

    #[test]
    fn columns_change_as_migrations_write_it() {
        let (column, ty) = (name("a", 27), ColumnType::Varchar);
        let retyped = TableChange::Retype { column, ty, length: Some(150) };
        for sql in [
            "ALTER TABLE t ALTER COLUMN a TYPE varchar(150)",
            "ALTER TABLE t ALTER COLUMN a SET DATA TYPE varchar(150) USING a::varchar(150)",
            "ALTER TABLE t ALTER COLUMN a TYPE varchar(150), ALTER COLUMN a SET NOT NULL",
        ] {
            assert_eq!(change(sql), retyped, "{sql}");
        }
        let default = Some(DefaultClause::Expression(41..42));
        let set = TableChange::Default { column: name("a", 27), default };
        let sql = "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5, ALTER COLUMN a SET NOT NULL";
        assert_eq!(change(sql), set);
        let dropped = TableChange::Default { column: name("a", 27), default: None };
        assert_eq!(change("ALTER TABLE t ALTER COLUMN a DROP DEFAULT"), dropped);
        let default = Some(DefaultClause::NextNumber);
        let set = TableChange::Default { column: name("a", 20), default };
        assert_eq!(change("ALTER TABLE t ALTER a ADD GENERATED BY DEFAULT AS IDENTITY"), set);
        for sql in [
            "ALTER TABLE t ADD CONSTRAINT c UNIQUE (a, b)",
            "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES u (id) DEFERRABLE \
             INITIALLY DEFERRED",
            "ALTER TABLE t ADD CHECK (a > 0) NOT VALID",
            "ALTER TABLE t DROP CONSTRAINT IF EXISTS c CASCADE",
            "ALTER TABLE t OWNER TO postgres",
            "ALTER TABLE t DISABLE TRIGGER ALL",
        ] {
            assert_eq!(change(sql), TableChange::Nothing { column: None }, "{sql}");
        }
    }

    #[test]
    fn refused_clauses_are_named_in_the_error() {
        check_error(
            "ALTER TABLE t ALTER COLUMN a TYPE INT USING b::int",
            "line 1, column 39: USING of anything but the column itself is not supported yet",
        );
        check_error(
            "ALTER TABLE t ADD COLUMN a INT, DROP COLUMN b",
            "line 1, column 33: several changes in one ALTER TABLE is not supported yet",
        );
        check_error(
            "ALTER TABLE t DETACH PARTITION LIST '2025'",
            "line 1, column 15: DETACH PARTITION is not supported yet",
        );
    }
}
