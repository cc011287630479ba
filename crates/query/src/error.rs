//! What can be wrong with a statement, or with running it, as facts.
//!
//! DataFusion's errors are kept as they are, with the place in the statement where one is known;
//! what is shown of them is their innermost message on one line (`message`). Not here: SQLSTATEs
//! and HTTP codes, which `server` makes of [`Error::condition`] and [`Error::class`].

mod problem;
mod condition;
mod message;

use datafusion::common::DataFusionError;
use thiserror::Error as ThisError;
use tidegate_filter::{Class as FilterClass, Error as FilterError};
use tidegate_model::{ColumnType, SchemaError as BadSchema, limits};
use tidegate_storage::{Class, Error as StorageError};

use crate::bulk::BulkError;
use crate::control::CancelReason;
use crate::parse::Position;
use message::{At, FilterMessage, Innermost, Similar};

pub use condition::Condition;
pub(crate) use condition::{is_about_arguments, is_no_space};
pub use problem::{
    ClauseProblem, PatternProblem, SettingProblem, SyntaxError, TextProblem, ViewProblem,
};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a statement was not done, or not to its end.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The text is no statement.
    #[error("{position}: {what}")]
    Syntax {
        /// Where.
        position: Position,
        /// What is wrong there.
        what: SyntaxError,
    },
    /// The rows around its subqueries are planned too often.
    #[error(
        "a plan has at most {most} steps, and subqueries within subqueries that read the rows \
         around them double it: write some of them as joins"
    )]
    LargeSubqueries {
        /// The most steps.
        most: usize,
    },
    /// The statement is understood, but cannot be done yet.
    #[error("{}{feature} is not supported yet", At(*.position))]
    NotSupported {
        /// Where it is asked for.
        position: Option<Position>,
        /// What is asked for.
        feature: &'static str,
    },
    /// The statement is understood and will never be done.
    #[error("{position}: {feature} is not supported: {instead}")]
    Refused {
        /// Where it is asked for.
        position: Position,
        /// What is asked for.
        feature: &'static str,
        /// What to do in its place.
        instead: &'static str,
    },
    /// A text that stands for a value of a type is none.
    #[error("{}'{text}' is not a valid {}: {reason}", At(*.position), .ty.sql())]
    BadText {
        /// Where the text stands.
        position: Option<Position>,
        /// The text.
        text: String,
        /// What it should be.
        ty: ColumnType,
        /// Why it is not.
        reason: TextProblem,
    },
    /// A statement names a table that is not there.
    #[error("{}table `{table}` does not exist", At(*.position))]
    NoSuchTable {
        /// Where it is named.
        position: Option<Position>,
        /// As it is written.
        table: String,
    },
    /// A statement would change a table that the system itself keeps.
    #[error("{}permission denied: table `{table}` is one of the system's", At(*.position))]
    SystemTable {
        /// Where it is named.
        position: Option<Position>,
        /// As it is written.
        table: String,
    },
    /// A view cannot be read as it is.
    #[error("view `{view}`: {what}")]
    View {
        /// Its name.
        view: String,
        /// What is wrong with it.
        what: ViewProblem,
    },
    /// A column of a query that is to be a table's has values that no column can have.
    #[error("{position}: column `{column}` has type {ty}, which no column can have: cast it")]
    NoColumnType {
        /// Where the query begins.
        position: Position,
        /// What it is called.
        column: String,
        /// Arrow's name of it.
        ty: String,
    },
    /// Somebody has no right to do this.
    #[error("permission denied: a {role} may not do {deed}")]
    Denied {
        /// What he is.
        role: &'static str,
        /// What he wanted to do.
        deed: &'static str,
    },
    /// A session that wants to change nothing has a statement change something.
    #[error("cannot execute {statement} in a read-only transaction")]
    ReadOnly {
        /// What it would do.
        statement: &'static str,
    },
    /// A statement that can be no part of a transaction.
    #[error("{}cannot do {statement} within a transaction: {instead}", At(*.position))]
    InTransaction {
        /// Where the table is named.
        position: Option<Position>,
        /// What it would do.
        statement: &'static str,
        /// What to do in its place.
        instead: &'static str,
    },
    /// ON CONFLICT names columns by which rows of the table are not the same.
    #[error(
        "{position}: table `{table}` has no such keys, by which rows would be in conflict: make it \
         with DEDUP UPSERT KEYS(..)"
    )]
    NoKeys {
        /// Where it is asked for.
        position: Position,
        /// The table.
        table: String,
    },
    /// A transaction has more rows than are held back.
    #[error(
        "a transaction holds back at most {} MiB of rows: do it in several, or without BEGIN",
        crate::changes::HELD_BYTES_MAX >> 20
    )]
    TransactionTooLarge,
    /// The temporary tables of a session have too many rows.
    #[error(
        "the temporary tables of a session take at most {} MiB: drop some, or make a table",
        limits::TEMP_BYTES >> 20
    )]
    TemporaryTooLarge,
    /// A session has too many temporary tables.
    #[error("a session has at most {} temporary tables: drop some", limits::TEMP_TABLES)]
    TooManyTemporaryTables,
    /// A column that is filled with numbers has had the last one.
    #[error("the identity of table `{table}` has no numbers left")]
    NoNumbersLeft {
        /// The table.
        table: String,
    },
    /// No identity is called so.
    #[error("sequence `{name}` does not exist: there are those of identities, `table_column_seq`")]
    NoSuchSequence {
        /// Of the sequence.
        name: String,
    },
    /// The session was given no number of an identity by now.
    #[error(
        "{} is not known yet in this session: INSERT a row, or call nextval()",
        name.as_ref().map_or("lastval".to_owned(), |name| format!("currval of sequence `{name}`"))
    )]
    NoNumberYet {
        /// The name of the sequence; `None` for the latest number of any.
        name: Option<String>,
    },
    /// A temporary table would end with its statement.
    #[error(
        "{position}: a temporary table needs a session that lasts, as connections of PostgreSQL \
         have it: a request of HTTP ends with its statement"
    )]
    NoLastingSession {
        /// Where it is named.
        position: Position,
    },
    /// A setting is not there, or not what it should be.
    #[error("{position}: {what}")]
    Setting {
        /// Where it is named.
        position: Position,
        /// What is wrong with it.
        what: SettingProblem,
    },
    /// A statement is to be ended that is not working.
    #[error("{position}: there is no statement {id} that could be cancelled")]
    NoSuchStatement {
        /// Where it is named.
        position: Position,
        /// Its id.
        id: u64,
    },
    /// A statement names a column that is not there.
    #[error("{}column `{column}` does not exist{}", At(*.position), Similar(.similar))]
    NoSuchColumn {
        /// Where it is named.
        position: Option<Position>,
        /// As it is written.
        column: String,
        /// A column that may have been meant.
        similar: Option<String>,
    },
    /// A statement names a column that several tables have.
    #[error("{}column `{column}` could be that of several tables", At(*.position))]
    AmbiguousColumn {
        /// Where it is named.
        position: Option<Position>,
        /// As it is written.
        column: String,
    },
    /// A clause says something that has no meaning.
    #[error("{}{what}", At(*.position))]
    Clause {
        /// Where it stands.
        position: Option<Position>,
        /// What is wrong with it.
        what: ClauseProblem,
    },
    /// A statement names a partition that is not there.
    #[error("{position}: partition `{partition}` does not exist")]
    NoSuchPartition {
        /// Where it is named.
        position: Position,
        /// As it is written.
        partition: String,
    },
    /// A condition on whole partitions asks of more than their times.
    #[error("{}DROP PARTITION WHERE takes conditions on the designated timestamp only",
        At(*.position))]
    NotOfPartitions {
        /// Where the condition stands.
        position: Option<Position>,
    },
    /// A statement gives a column two values.
    #[error("{position}: column `{column}` comes twice")]
    ColumnTwice {
        /// The second time.
        position: Position,
        /// As it is written.
        column: String,
    },
    /// A row to be inserted has not as many values as there are columns.
    #[error("{}{values} values for {columns} columns", At(*.position))]
    ValueCount {
        /// Where the row is.
        position: Option<Position>,
        /// How many columns there are.
        columns: usize,
        /// How many values.
        values: usize,
    },
    /// A row has no designated timestamp.
    #[error("{}column `{column}` is the designated timestamp, and cannot be NULL", At(*.position))]
    TimestampMissing {
        /// Where the columns are named that it is not among.
        position: Option<Position>,
        /// Its name.
        column: String,
    },
    /// A text is too long to be stored.
    #[error(
        "a value for column `{column}` has {bytes} bytes, more than {} are not stored",
        limits::VALUE_BYTES
    )]
    ValueTooLong {
        /// Where it was to be stored.
        column: String,
        /// How long it is.
        bytes: usize,
    },
    /// The columns of a CREATE TABLE make no table.
    #[error(transparent)]
    Schema(#[from] BadSchema),
    /// The storage could not do it.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A condition has no answer for some row.
    #[error("{}", FilterMessage(.0))]
    Filter(FilterError),
    /// An option of COPY is not what it should be.
    #[error("{position}: {option} takes {expected}")]
    CopyOption {
        /// Where its value stands.
        position: Position,
        /// Its name.
        option: &'static str,
        /// What it takes.
        expected: String,
    },
    /// Others could not do what COPY wants.
    #[error("{}{source}", At(*.position))]
    Bulk {
        /// Where it is asked for, if that is known.
        position: Option<Position>,
        /// Why. Its message is this error's own.
        source: Box<BulkError>,
    },
    /// It was ended before it was done.
    #[error("{reason}")]
    Canceled {
        /// Why.
        reason: CancelReason,
    },
    /// DataFusion could not plan or run it.
    #[error("{}{}", At(*.position), Innermost(.foreign))]
    Engine {
        /// Where in the statement, if known.
        position: Option<Position>,
        /// What it said. Not a `source`: its message is this error's own.
        foreign: Box<DataFusionError>,
    },
}

impl Error {
    pub(crate) fn syntax(sql: &str, offset: usize, what: SyntaxError) -> Error {
        Error::Syntax { position: Position::at(sql, offset), what }
    }

    /// What went wrong in the query of a view.
    pub(crate) fn in_view(view: &str, error: Error) -> Error {
        Error::View { view: view.to_owned(), what: ViewProblem::Query(Box::new(error)) }
    }

    /// Whether neither a text nor what it names is the reason.
    pub(crate) fn is_from_outside(&self) -> bool {
        matches!(self, Error::Canceled { .. }) || self.class() != Class::Caller
    }

    /// Whose fault it is.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Syntax { .. }
            | Error::LargeSubqueries { .. }
            | Error::NotSupported { .. }
            | Error::Refused { .. }
            | Error::BadText { .. }
            | Error::NoSuchTable { .. }
            | Error::SystemTable { .. }
            | Error::NoColumnType { .. }
            | Error::Denied { .. }
            | Error::ReadOnly { .. }
            | Error::InTransaction { .. }
            | Error::NoKeys { .. }
            | Error::TransactionTooLarge
            | Error::TemporaryTooLarge
            | Error::TooManyTemporaryTables
            | Error::NoNumbersLeft { .. }
            | Error::NoSuchSequence { .. }
            | Error::NoNumberYet { .. }
            | Error::NoLastingSession { .. }
            | Error::Setting { .. }
            | Error::NoSuchStatement { .. }
            | Error::CopyOption { .. }
            | Error::NoSuchColumn { .. }
            | Error::AmbiguousColumn { .. }
            | Error::Clause { .. }
            | Error::NoSuchPartition { .. }
            | Error::NotOfPartitions { .. }
            | Error::ColumnTwice { .. }
            | Error::ValueCount { .. }
            | Error::TimestampMissing { .. }
            | Error::ValueTooLong { .. }
            | Error::View { .. }
            | Error::Canceled { .. }
            | Error::Schema(_) => Class::Caller,
            Error::Storage(source) => source.class(),
            Error::Bulk { source, .. } => source.class,
            Error::Filter(source) => match source.class() {
                FilterClass::Caller => Class::Caller,
                FilterClass::Corruption => Class::Corruption,
            },
            Error::Engine { foreign, .. } => match innermost(foreign) {
                DataFusionError::External(foreign) => match foreign.downcast_ref::<Error>() {
                    Some(ours) => ours.class(),
                    None => Class::Environment,
                },
                DataFusionError::IoError(_)
                | DataFusionError::ResourcesExhausted(_)
                | DataFusionError::ExecutionJoin(_) => Class::Environment,
                DataFusionError::Internal(text) if !is_about_arguments(text) => Class::Environment,
                _ => Class::Caller,
            },
        }
    }

    /// Where in the statement it went wrong, if that is known.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match self {
            Error::Syntax { position, .. }
            | Error::Refused { position, .. }
            | Error::Setting { position, .. }
            | Error::NoSuchStatement { position, .. }
            | Error::CopyOption { position, .. }
            | Error::NoColumnType { position, .. }
            | Error::NoSuchPartition { position, .. }
            | Error::ColumnTwice { position, .. } => Some(*position),
            Error::NotSupported { position, .. }
            | Error::BadText { position, .. }
            | Error::NoSuchTable { position, .. }
            | Error::SystemTable { position, .. }
            | Error::NoSuchColumn { position, .. }
            | Error::AmbiguousColumn { position, .. }
            | Error::Clause { position, .. }
            | Error::ValueCount { position, .. }
            | Error::NotOfPartitions { position }
            | Error::TimestampMissing { position, .. }
            | Error::Bulk { position, .. }
            | Error::Engine { position, .. } => *position,
            Error::ValueTooLong { .. }
            | Error::View { .. }
            | Error::Denied { .. }
            | Error::ReadOnly { .. }
            | Error::InTransaction { .. }
            | Error::NoKeys { .. }
            | Error::TransactionTooLarge
            | Error::TemporaryTooLarge
            | Error::TooManyTemporaryTables
            | Error::NoNumbersLeft { .. }
            | Error::NoSuchSequence { .. }
            | Error::NoNumberYet { .. }
            | Error::NoLastingSession { .. }
            | Error::Schema(_)
            | Error::Storage(_)
            | Error::Filter(_)
            | Error::LargeSubqueries { .. }
            | Error::Canceled { .. } => None,
        }
    }
}

impl From<DataFusionError> for Error {
    /// Our own errors come back as they went in, as far as nobody else holds them too.
    fn from(source: DataFusionError) -> Error {
        match source {
            DataFusionError::External(inner) => match inner.downcast::<Error>() {
                Ok(ours) => *ours,
                Err(inner) => Error::Engine {
                    position: None,
                    foreign: Box::new(DataFusionError::External(inner)),
                },
            },
            DataFusionError::Context(_, inner) => Error::from(*inner),
            DataFusionError::Diagnostic(diagnostic, inner) => {
                // The position is filled in by whoever knows the text.
                match Error::from(*inner) {
                    Error::Engine { position: None, foreign } => Error::Engine {
                        position: None,
                        foreign: Box::new(DataFusionError::Diagnostic(diagnostic, foreign)),
                    },
                    other => other,
                }
            }
            foreign => Error::Engine { position: None, foreign: Box::new(foreign) },
        }
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> DataFusionError {
        match error {
            Error::Engine { position: None, foreign } => *foreign,
            error => DataFusionError::External(Box::new(error)),
        }
    }
}

/// The error below all contexts.
pub(crate) fn innermost(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            innermost(inner)
        }
        DataFusionError::Shared(inner) => innermost(inner),
        DataFusionError::Collection(all) => all.first().map_or(error, innermost),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_errors_survive_the_way_through_datafusion() {
        let error = Error::NotSupported { position: None, feature: "INSERT" };
        let there = DataFusionError::from(error).context("rule").context("more");
        let back = Error::from(there);
        assert_eq!(back.to_string(), "INSERT is not supported yet");
        assert_eq!(back.class(), Class::Caller);
    }

    #[test]
    fn an_error_shared_by_several_consumers_keeps_its_class() {
        let source = StorageError::NoSuchTable { table: "t".to_owned() };
        let shared = std::sync::Arc::new(DataFusionError::from(Error::Storage(source)));
        let error = Error::from(DataFusionError::Shared(shared));
        assert_eq!(error.class(), Class::Caller);
        assert_eq!(error.condition(), Condition::UndefinedTable);
        assert_eq!(error.to_string(), "table `t` does not exist");
    }
}
