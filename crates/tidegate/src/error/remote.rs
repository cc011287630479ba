//! Errors of a server or of the connection to it.
//!
//! - error_remote-1. The server's error for a statement has the same form as an error of the
//!   embedded engine: the place in the script, then the message.

use thiserror::Error;
use tidegate_query::Position;
use tokio_postgres::error::{DbError, ErrorPosition};

/// The error of a connection if the server wants a password and there is none.
const PASSWORD_MISSING: &str = "password missing";
/// The SQLSTATE of corruption.
const CORRUPTION: &str = "XX001";

/// The reason why a server has not answered.
#[derive(Debug, Error)]
pub(crate) enum RemoteError {
    #[error(
        "the address of a server is postgres://USER:PASSWORD@HOST:PORT, with @, :, / and % of a \
         name or password as %XX; ?sslmode= is disable, prefer, require or, with \
         sslrootcert=FILE, verify-full"
    )]
    Address,
    #[error("--threads and --memory are settings of the server, and cannot be set with --url")]
    Resources,
    #[error("connect to {place}")]
    Connect { place: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("connect to {place}: {message}")]
    Refused { place: String, message: String },
    #[error(
        "the server at {place} asks for a password: give it in PGPASSWORD, in the address, or at a \
         terminal"
    )]
    NoPassword { place: String },
    #[error("read certificates for TLS")]
    Certificates { source: tidegate_platform::Error },
    #[error("{path} has no certificate authority for TLS")]
    NoAuthority { path: String },
    #[error("{}{message}", .position.map_or_else(String::new, |at| format!("{at}: ")))]
    Statement { position: Option<Position>, message: String, is_damage: bool },
    #[error("COPY FROM STDIN and TO STDOUT are not supported here; use psql, or `tidegate import`")]
    LocalCopy,
    #[error("the connection to the server has ended")]
    Closed,
    #[error("the server sent a message that is not understood")]
    Protocol { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the server sent an invalid value for column `{column}`")]
    Malformed { column: String },
}

pub(crate) fn is_password_missing(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.to_string() == PASSWORD_MISSING)
}

/// Returns the error of a failed connect or login.
pub(crate) fn of_connection(error: tokio_postgres::Error, place: &str) -> RemoteError {
    let place = place.to_owned();
    if let Some(db_error) = error.as_db_error() {
        return RemoteError::Refused { place, message: db_error.message().to_owned() };
    }
    let message = error.to_string();
    let source = error.into_source().unwrap_or_else(|| message.into());
    RemoteError::Connect { place, source }
}

/// Returns the error of a statement that begins at byte `before` of its text.
pub(crate) fn of_statement(error: &tokio_postgres::Error, sql: &str, before: usize) -> RemoteError {
    if let Some(db_error) = error.as_db_error() {
        return RemoteError::Statement {
            position: position(db_error, sql, before),
            message: db_error.message().to_owned(),
            is_damage: db_error.code().code() == CORRUPTION,
        };
    }
    if error.is_closed() {
        return RemoteError::Closed;
    }
    RemoteError::Protocol { source: error.to_string().into() }
}

/// Returns a notice of a statement with its line and column counted in the script (error_remote-1);
/// `before` is the text of the script before the statement.
pub(crate) fn relocated(notice: &str, before: &str) -> String {
    let found = notice.strip_prefix("line ").and_then(|rest| {
        let (line, rest) = rest.split_once(", column ")?;
        let (column, rest) = rest.split_once(": ")?;
        Some((
            usize::from(line.parse::<u16>().ok()?),
            usize::from(column.parse::<u16>().ok()?),
            rest,
        ))
    });
    let Some((line, column, rest)) = found else { return notice.to_owned() };
    let start = Position::at(before, before.len());
    let column = if line == 1 { (start.column + column).saturating_sub(1) } else { column };
    format!("line {}, column {column}: {rest}", (start.line + line).saturating_sub(1))
}

/// Returns the place of an error in the script (error_remote-1): the server counts characters of
/// the statement, from 1.
fn position(db_error: &DbError, sql: &str, before: usize) -> Option<Position> {
    let Some(ErrorPosition::Original(character)) = db_error.position() else { return None };
    let character = usize::try_from(*character).ok()?.checked_sub(1)?;
    let text = &sql[before..];
    let offset = text.char_indices().nth(character).map_or(text.len(), |(at, _)| at);
    Some(Position::at(sql, before + offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_name_the_place_in_the_script() {
        for (notice, before, expected) in [
            ("line 1, column 8: x", "\n\n  ", "line 3, column 10: x"),
            ("line 2, column 8: x", "\n  ", "line 3, column 8: x"),
            ("line x, column 8: y", "\n", "line x, column 8: y"),
            ("nothing", "\n", "nothing"),
        ] {
            assert_eq!(relocated(notice, before), expected, "error_remote-1: {notice}");
        }
    }
}
