//! Errors as sent to a client: SQLSTATE, message, and position in the statement.

use tidegate_platform::{brief, sentence};
use tidegate_query::Error as QueryError;

use super::message_reader::Breach;
use crate::budget::OverBudget;
use crate::sqlstate;

/// The severity of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The statement has failed.
    Error,
    /// The connection ends.
    Fatal,
    /// Nothing has failed.
    Warning,
}

/// An error, or a warning, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ErrorResponse {
    pub(super) severity: Severity,
    pub(super) code: &'static str,
    pub(super) message: String,
    /// The characters of the text before the error.
    pub(super) position: Option<usize>,
    /// The function of PostgreSQL that clients know some errors by.
    pub(super) routine: Option<&'static str>,
    /// The fields that few errors have.
    pub(super) more: Option<Box<More>>,
}

/// The additional fields of some errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct More {
    pub(super) hint: Option<String>,
    pub(super) table: Option<String>,
    pub(super) column: Option<String>,
    /// The place in the rows of a COPY.
    pub(super) place: Option<String>,
}

impl From<OverBudget> for ErrorResponse {
    fn from(over: OverBudget) -> ErrorResponse {
        ErrorResponse::new("53200", over.to_string())
    }
}

impl ErrorResponse {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> ErrorResponse {
        let (severity, message) = (Severity::Error, brief(message.into()));
        ErrorResponse { severity, code, message, position: None, routine: None, more: None }
    }

    /// Makes an error that ends the connection.
    pub(super) fn fatal(code: &'static str, message: impl Into<String>) -> ErrorResponse {
        ErrorResponse { severity: Severity::Fatal, ..ErrorResponse::new(code, message) }
    }

    pub(super) fn warning(message: impl Into<String>) -> ErrorResponse {
        ErrorResponse { severity: Severity::Warning, ..ErrorResponse::new("01000", message) }
    }

    pub(super) fn breach(breach: &Breach) -> ErrorResponse {
        ErrorResponse::fatal("08P01", breach.to_string())
    }

    pub(super) fn not_supported(what: &str) -> ErrorResponse {
        ErrorResponse::new("0A000", format!("{what} is not supported yet"))
    }

    pub(super) fn not_text() -> ErrorResponse {
        ErrorResponse::new("22021", "invalid byte sequence for encoding \"UTF8\"")
    }

    pub(super) fn canceled() -> ErrorResponse {
        ErrorResponse::new("57014", "query cancelled by user")
    }

    /// Makes the error that ends a connection whose login is no longer valid.
    pub(super) fn user_changed() -> ErrorResponse {
        let message = "terminating connection: its user has been removed, or has another password \
                       or role now";
        ErrorResponse::fatal("57P01", message)
    }

    pub(super) fn at(mut self, position: usize) -> ErrorResponse {
        self.position = Some(position);
        self
    }

    /// Makes the error that clients know, after which they prepare the statement again.
    pub(super) fn stale_plan() -> ErrorResponse {
        let routine = Some("RevalidateCachedQuery");
        ErrorResponse {
            routine,
            ..ErrorResponse::new("0A000", "cached plan must not change result type")
        }
    }

    /// Makes the error of a statement that begins `before` characters into the client's text.
    pub(super) fn of_query(error: &QueryError, sql: &str, before: usize) -> ErrorResponse {
        let mut message = sentence(error);
        let mut response = ErrorResponse::new(sqlstate::of_query(error), "");
        if let Some(position) = error.position() {
            if let Some(rest) = message.strip_prefix(&format!("{position}: ")) {
                message = rest.to_owned();
            }
            let text = sql.get(..position.offset.min(sql.len())).unwrap_or(sql);
            response.position = Some(before + text.chars().count());
        }
        response.more = more_of(error).map(Box::new);
        response.message = message;
        response
    }
}

fn more_of(error: &QueryError) -> Option<More> {
    match error {
        QueryError::NoSuchTable { table, .. } => {
            Some(More { table: Some(brief(table.clone())), ..More::default() })
        }
        QueryError::NoSuchColumn { column, similar, .. } => {
            let hint = similar.as_ref().map(|it| brief(format!("perhaps `{it}` was meant")));
            Some(More { column: Some(brief(column.clone())), hint, ..More::default() })
        }
        QueryError::AmbiguousColumn { column, .. }
        | QueryError::ColumnTwice { column, .. }
        | QueryError::TimestampMissing { column, .. } => {
            Some(More { column: Some(brief(column.clone())), ..More::default() })
        }
        _ => None,
    }
}
