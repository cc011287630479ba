//! The parser of `SHOW`, `SET`, `RESET` and `CANCEL QUERY`.

use crate::error::Result;
use crate::parse::cursor::{Cursor, Name};
use crate::parse::statement::Statement;
use crate::parse::token::TokenKind;
use crate::types::zone::parse_offset;

/// The subject of a `SHOW`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Show {
    Tables,
    Columns {
        table: Name,
    },
    Partitions {
        table: Name,
    },
    CreateTable {
        table: Name,
    },
    CreateView {
        view: Name,
    },
    /// The configuration.
    Parameters,
    /// All settings.
    Settings,
    /// One setting, or a key of the configuration.
    Setting {
        name: Name,
    },
}

/// The effect of a `SET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Set {
    /// Sets a setting; `None` resets it.
    Setting { name: Name, value: Option<String> },
    /// Resets all settings.
    Reset,
    /// No lasting effect.
    Nothing,
}

pub(crate) fn show(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    let at = cursor.offset();
    let called = |text: &str| Show::Setting { name: Name::new(text.to_owned(), at) };
    let shown = if cursor.take_word("TABLES") {
        Show::Tables
    } else if cursor.take_words(&["COLUMNS", "FROM"]) {
        Show::Columns { table: cursor.expect_table()? }
    } else if cursor.take_words(&["PARTITIONS", "FROM"]) {
        Show::Partitions { table: cursor.expect_table()? }
    } else if cursor.take_words(&["CREATE", "TABLE"]) {
        Show::CreateTable { table: cursor.expect_table()? }
    } else if cursor.take_words(&["CREATE", "VIEW"]) {
        Show::CreateView { view: cursor.expect_table()? }
    } else if cursor.take_word("PARAMETERS") {
        Show::Parameters
    } else if cursor.take_word("ALL") {
        Show::Settings
    } else if cursor.take_words(&["TIME", "ZONE"]) {
        called("TimeZone")
    } else if cursor.take_words(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        called("transaction_isolation")
    } else if cursor.is_at_end() {
        return Err(cursor.unexpected("TABLES, COLUMNS, PARTITIONS, PARAMETERS or a setting"));
    } else {
        Show::Setting { name: setting(cursor)? }
    };
    cursor.expect_end()?;
    Ok(Statement::Show(shown))
}

pub(crate) fn set(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    let mut notices = Vec::new();
    let set = if cursor.take_words(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
        let at = cursor.offset();
        let read_only = transaction_modes(cursor, &mut notices)?;
        let name = Name::new("default_transaction_read_only".to_owned(), at);
        let value = |is| if is { "on".to_owned() } else { "off".to_owned() };
        read_only.map_or(Set::Nothing, |is| Set::Setting { name, value: Some(value(is)) })
    } else if cursor.take_word("TRANSACTION") {
        transaction_modes(cursor, &mut notices)?;
        notices.push("SET TRANSACTION has no effect outside of a transaction".to_owned());
        Set::Nothing
    } else {
        let is_local = cursor.take_word("LOCAL");
        let _ = is_local || cursor.take_word("SESSION");
        let assigned = assignment(cursor)?;
        if is_local {
            notices.push("SET LOCAL has no effect outside of a transaction".to_owned());
            Set::Nothing
        } else {
            assigned
        }
    };
    cursor.expect_end()?;
    Ok(Statement::Set { set, notices })
}

/// Reads `name = value`, `TIME ZONE value` or `NAMES value`.
fn assignment(cursor: &mut Cursor<'_>) -> Result<Set> {
    let at = cursor.offset();
    let called = |text: &str| Name::new(text.to_owned(), at);
    if cursor.take_words(&["TIME", "ZONE"]) {
        let value = if cursor.take_word("LOCAL") {
            None
        } else if cursor.take_word("INTERVAL") {
            Some(zone_offset(cursor)?)
        } else {
            values(cursor)?
        };
        return Ok(Set::Setting { name: called("TimeZone"), value });
    }
    if cursor.take_word("NAMES") {
        return Ok(Set::Setting { name: called("client_encoding"), value: values(cursor)? });
    }
    let name = setting(cursor)?;
    if !cursor.take_word("TO") {
        cursor.expect_sign('=')?;
    }
    Ok(Set::Setting { name, value: values(cursor)? })
}

/// Reads the rest of `INTERVAL '+01:00' [HOUR [TO MINUTE]]`: the offset of a zone, which is east of
/// UTC unless it has a minus, as in PostgreSQL. The result has a sign.
fn zone_offset(cursor: &mut Cursor<'_>) -> Result<String> {
    let text = cursor.peek().filter(|token| token.kind == TokenKind::Text);
    let text = text.map(|token| token.unquoted().trim().to_owned());
    let Some(offset) = text.filter(|text| parse_offset(text).is_some()) else {
        return Err(cursor.unexpected("an offset like '+01:00'"));
    };
    cursor.skip();
    if cursor.take_word("HOUR") && cursor.take_word("TO") {
        cursor.expect_words(&["MINUTE"])?;
    }
    Ok(if offset.starts_with(['+', '-']) { offset } else { format!("+{offset}") })
}

/// Reads `ISOLATION LEVEL ...`, `READ ONLY` and similar modes; returns true for READ ONLY, false
/// for READ WRITE, `None` without either.
fn transaction_modes(cursor: &mut Cursor<'_>, notices: &mut Vec<String>) -> Result<Option<bool>> {
    let mut read_only = None;
    loop {
        if cursor.take_words(&["READ", "ONLY"]) {
            read_only = Some(true);
        } else if cursor.take_words(&["READ", "WRITE"]) {
            read_only = Some(false);
        } else if cursor.take_words(&["ISOLATION", "LEVEL"]) {
            let others =
                [["REPEATABLE", "READ"].as_slice(), &["SERIALIZABLE"], &["READ", "UNCOMMITTED"]];
            if others.iter().any(|words| cursor.take_words(words)) {
                let notice = "every statement sees what was committed before it began: the level \
                              is READ COMMITTED";
                notices.push(notice.to_owned());
            } else {
                cursor.expect_words(&["READ", "COMMITTED"])?;
            }
        } else {
            let is_it = cursor.take_word("DEFERRABLE") || cursor.take_words(&["NOT", "DEFERRABLE"]);
            if !is_it {
                return Err(cursor.unexpected("ISOLATION LEVEL, READ ONLY or READ WRITE"));
            }
        }
        cursor.take_sign(',');
        if cursor.is_at_end() {
            return Ok(read_only);
        }
    }
}

pub(crate) fn reset(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    let set = if cursor.take_word("ALL") {
        Set::Reset
    } else {
        Set::Setting { name: setting(cursor)?, value: None }
    };
    cursor.expect_end()?;
    Ok(Statement::Set { set, notices: Vec::new() })
}

/// The maximal length of a CANCEL QUERY; in practice it is far shorter.
const CANCEL_BYTES_MAX: usize = 256;

/// Returns true if the first word of a statement is that of CANCEL QUERY. Such a statement runs
/// without admission: otherwise it could wait for the very statement that it cancels.
#[must_use]
pub fn is_cancel(sql: &str) -> bool {
    let word = sql.trim_start().get(..6);
    sql.len() <= CANCEL_BYTES_MAX && word.is_some_and(|word| word.eq_ignore_ascii_case("CANCEL"))
}

/// Returns true if the first word of a statement is COPY, whose job may outlast the statement.
#[must_use]
pub fn is_copy(sql: &str) -> bool {
    let word = without_leading_comments(sql).get(..4);
    word.is_some_and(|word| word.eq_ignore_ascii_case("COPY"))
}

/// Returns a statement without the comments before its first word.
fn without_leading_comments(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        let after = if let Some(line) = rest.strip_prefix("--") {
            line.find('\n').map(|end| &line[end..])
        } else if let Some(block) = rest.strip_prefix("/*") {
            after_block_comment(block)
        } else {
            return rest;
        };
        match after {
            Some(after) => rest = after.trim_start(),
            None => return "",
        }
    }
}

/// Returns the text behind a block comment, given that behind its opening; comments nest.
fn after_block_comment(text: &str) -> Option<&str> {
    let mut depth = 1;
    let mut at = 0;
    while let Some(found) = text[at..].find(['/', '*']) {
        at += found;
        let (step, change) = match text[at..].get(..2) {
            Some("/*") => (2, 1),
            Some("*/") => (2, -1),
            _ => (1, 0),
        };
        depth += change;
        at += step;
        if depth == 0 {
            return Some(&text[at..]);
        }
    }
    None
}

pub(crate) fn cancel(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    cursor.expect_words(&["QUERY"])?;
    let offset = cursor.offset();
    let id = cursor.expect_integer("the id of a statement, as query_activity() has it")?;
    cursor.expect_end()?;
    Ok(Statement::Cancel { id, offset })
}

/// Reads the name of a setting, which may contain points.
fn setting(cursor: &mut Cursor<'_>) -> Result<Name> {
    let mut name = cursor.expect_name("the name of a setting")?;
    while cursor.take_sign('.') {
        name.text.push('.');
        name.text.push_str(&cursor.expect_name("the rest of the name of a setting")?.text);
    }
    Ok(name)
}

/// Reads one value or several; `None` for DEFAULT.
fn values(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    if cursor.take_word("DEFAULT") {
        return Ok(None);
    }
    Ok(Some(cursor.expect_list(value)?.join(", ")))
}

fn value(cursor: &mut Cursor<'_>) -> Result<String> {
    let mut text = String::new();
    if cursor.take_sign('-') {
        text.push('-');
    }
    let is_value = |kind: TokenKind| kind != TokenKind::Sign;
    let Some(token) = cursor.peek().filter(|token| is_value(token.kind)) else {
        return Err(cursor.unexpected("a value"));
    };
    text.push_str(&token.unquoted());
    cursor.skip();
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_statement;

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let shown = match parse_statement(sql) {
            Ok(Statement::Set { set: Set::Setting { name, value }, notices }) => {
                assert!(notices.is_empty(), "{notices:?}");
                format!("{} = {}", name.text, value.unwrap_or("DEFAULT".to_owned()))
            }
            Ok(Statement::Set { set, notices }) => format!("{set:?} {}", notices.join("; ")),
            Ok(Statement::Show(Show::Setting { name })) => format!("show {}", name.text),
            Ok(Statement::Cancel { id, offset }) => format!("cancel {id} at {offset}"),
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{sql}");
    }

    #[test]
    fn a_cancel_is_known_by_its_first_word() {
        assert!(is_cancel(" \n cancel query 7") && is_cancel("CANCEL"));
        assert!(
            !is_cancel("SELECT cancel_query(7)") && !is_cancel("") && !is_cancel("cance\u{e9}")
        );
        assert!(!is_cancel(&format!("cancel query {}", "7".repeat(CANCEL_BYTES_MAX))));
    }

    #[test]
    fn settings_are_set() {
        check("SET statement_timeout = 50", "statement_timeout = 50");
        check("set session statement_timeout to '5s';", "statement_timeout = 5s");
        check("SET extra_float_digits TO -3", "extra_float_digits = -3");
        check("SET search_path = a, \"B\", 'c d'", "search_path = a, B, c d");
        check("SET my.own.name TO on", "my.own.name = on");
        check("SET TIME ZONE 'Europe/Berlin'", "TimeZone = Europe/Berlin");
        check("SET TIME ZONE LOCAL", "TimeZone = DEFAULT");
        // Sequelize sends the first of these on each connection; it was a syntax error.
        check("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", "TimeZone = +00:00");
        check("SET SESSION TIME ZONE INTERVAL '-05' HOUR", "TimeZone = -05");
        check("set time zone interval '1:30'", "TimeZone = +1:30");
        check("SET NAMES 'utf8'", "client_encoding = utf8");
        check("RESET statement_timeout", "statement_timeout = DEFAULT");
        check("SET jit TO DEFAULT", "jit = DEFAULT");
        check("RESET ALL", "Reset ");
    }

    #[test]
    fn transactions_are_read_committed() {
        check(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
            "default_transaction_read_only = on",
        );
        check(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "Nothing every statement sees what was committed before it began: the level is READ \
             COMMITTED",
        );
        check(
            "SET TRANSACTION READ ONLY",
            "Nothing SET TRANSACTION has no effect outside of a transaction",
        );
        check("SET LOCAL jit = off", "Nothing SET LOCAL has no effect outside of a transaction");
        check(
            "SET LOCAL TIME ZONE INTERVAL '00:00' HOUR TO MINUTE",
            "Nothing SET LOCAL has no effect outside of a transaction",
        );
    }

    #[test]
    fn settings_are_shown_by_any_name() {
        check("SHOW transaction isolation level", "show transaction_isolation");
        check("SHOW TIME ZONE", "show TimeZone");
        check("SHOW http.listen", "show http.listen");
        check("show \"DateStyle\";", "show DateStyle");
        check("SHOW PARAMETERS", "Show(Parameters)");
    }

    #[test]
    fn a_copy_is_known_by_its_first_word() {
        for sql in ["COPY t TO 'f'", "  copy\tt", "-- x\n/* a /* b */ */ Copy t", "/***/copy"] {
            assert!(is_copy(sql), "{sql}");
        }
        for sql in ["", "COP", "select 'copy'", "-- COPY t", "/* x */ -", "/* /* */ copy", "/copy"]
        {
            assert!(!is_copy(sql), "{sql}");
        }
    }

    #[test]
    fn missing_words_are_named_in_the_error() {
        check("CANCEL QUERY 17", "cancel 17 at 13");
        check(
            "CANCEL QUERY",
            "error: line 1, column 13: expected the id of a statement, as query_activity() has \
             it, found the end",
        );
        check("CANCEL 17", "error: line 1, column 8: expected QUERY, found `17`");
        check("SET a", "error: line 1, column 6: expected `=`, found the end");
        check(
            "SET TIME ZONE INTERVAL '1 day'",
            "error: line 1, column 24: expected an offset like '+01:00', found `'1 day'`",
        );
        check(
            "SET TIME ZONE INTERVAL '+01:00' HOUR TO SECOND",
            "error: line 1, column 41: expected MINUTE, found `SECOND`",
        );
        check("SET a =", "error: line 1, column 8: expected a value, found the end");
        check(
            "SHOW",
            "error: line 1, column 5: expected TABLES, COLUMNS, PARTITIONS, PARAMETERS or a \
             setting, found the end",
        );
        check(
            "SHOW tables x",
            "error: line 1, column 13: expected the end of the statement, found `x`",
        );
    }
}
