//! The error type of the crate: problems of a statement and of its execution, as facts.
//!
//! DataFusion's errors are kept as they are, with the position in the statement where one is known;
//! their message is the innermost one, on one line (`message`). Not here: SQLSTATEs and HTTP codes,
//! which `server` derives from [`Error::condition`] and [`Error::class`].

mod problem;
mod pattern;
mod condition;
mod message;

use datafusion::common::DataFusionError;
use thiserror::Error as ThisError;
use tidegate_filter::{Class as FilterClass, Error as FilterError};
use tidegate_model::{ColumnType, SchemaError as BadSchema, limits};
use tidegate_storage::{Class, Error as StorageError};

use crate::cancel::CancelReason;
use crate::limits::HELD_BYTES_MAX;
use crate::position::Position;
use message::{At, FilterMessage, Innermost, Similar};

pub use condition::Condition;
pub(crate) use condition::is_about_arguments;
pub use problem::{
    ClauseProblem, PatternProblem, SettingProblem, SyntaxError, TextProblem, ViewProblem,
};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a statement was not executed, or not to its end.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The text is no statement.
    #[error("{position}: {what}")]
    Syntax {
        /// The position of the error.
        position: Position,
        /// The problem.
        what: SyntaxError,
    },
    /// A plan with nested correlated subqueries has too many steps.
    #[error(
        "a plan has at most {most} steps, and subqueries within subqueries that read the rows \
         around them double it: write some of them as joins"
    )]
    LargeSubqueries {
        /// The limit of steps.
        most: usize,
    },
    /// The statement is understood, but not supported yet.
    #[error("{}{feature} is not supported yet", At(*.position))]
    NotSupported {
        /// The position of the feature.
        position: Option<Position>,
        /// The feature.
        feature: &'static str,
    },
    /// The statement is understood, and will not be supported.
    #[error("{position}: {feature} is not supported: {instead}")]
    Refused {
        /// The position of the feature.
        position: Position,
        /// The feature.
        feature: &'static str,
        /// An alternative.
        instead: &'static str,
    },
    /// A text is not a valid value of its type.
    #[error("{}'{text}' is not a valid {}: {reason}", At(*.position), .ty.sql())]
    BadText {
        /// The position of the text.
        position: Option<Position>,
        /// The text.
        text: String,
        /// The type.
        ty: ColumnType,
        /// The problem.
        reason: TextProblem,
    },
    /// A statement names a table that does not exist.
    #[error("{}table `{table}` does not exist", At(*.position))]
    NoSuchTable {
        /// The position of the name.
        position: Option<Position>,
        /// The name as written.
        table: String,
    },
    /// A statement would change a table that the system itself maintains.
    #[error("{}permission denied: table `{table}` is one of the system's", At(*.position))]
    SystemTable {
        /// The position of the name.
        position: Option<Position>,
        /// The name as written.
        table: String,
    },
    /// A view cannot be read as it is.
    #[error("view `{view}`: {what}")]
    View {
        /// The name of the view.
        view: String,
        /// The problem.
        what: ViewProblem,
    },
    /// A column of a query that creates a table has a type that no column can have.
    #[error("{position}: column `{column}` has type {ty}, which no column can have: cast it")]
    NoColumnType {
        /// The start of the query.
        position: Position,
        /// The name of the column.
        column: String,
        /// Arrow's name of the type.
        ty: String,
    },
    /// The user lacks the privilege for a statement.
    #[error("permission denied: the role {role} does not permit {privilege}")]
    Denied {
        /// The role of the user.
        role: &'static str,
        /// The action that was denied.
        privilege: &'static str,
    },
    /// A read-only session executes a statement that changes something.
    #[error("cannot execute {statement} in a read-only transaction")]
    ReadOnly {
        /// The statement.
        statement: &'static str,
    },
    /// A statement cannot be part of a transaction.
    #[error("{}cannot do {statement} within a transaction: {instead}", At(*.position))]
    InTransaction {
        /// The position of the table's name.
        position: Option<Position>,
        /// The statement.
        statement: &'static str,
        /// An alternative.
        instead: &'static str,
    },
    /// ON CONFLICT names columns that are not the keys of the table.
    #[error(
        "{position}: table `{table}` has no such keys for ON CONFLICT: create it with DEDUP \
         UPSERT KEYS(..)"
    )]
    NoKeys {
        /// The position of the clause.
        position: Position,
        /// The table.
        table: String,
    },
    /// The uncommitted rows of a transaction exceed the limit.
    #[error(
        "the uncommitted rows of a transaction exceed {} MiB: commit fewer rows at a time, or omit \
         BEGIN",
        HELD_BYTES_MAX >> 20
    )]
    TransactionTooLarge,
    /// The temporary tables of a session exceed the limit of bytes.
    #[error(
        "the temporary tables of the session exceed {} MiB: drop some, or create a permanent table",
        limits::TEMP_BYTES >> 20
    )]
    TemporaryTooLarge,
    /// A session has too many temporary tables.
    #[error("a session has at most {} temporary tables: drop some", limits::TEMP_TABLES)]
    TooManyTemporaryTables,
    /// An identity column has used its last number.
    #[error("the identity of table `{table}` has no numbers left")]
    NoNumbersLeft {
        /// The table.
        table: String,
    },
    /// No identity column has a sequence of this name.
    #[error("sequence `{name}` does not exist: there are those of identities, `table_column_seq`")]
    NoSuchSequence {
        /// The name of the sequence.
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
        "{position}: a temporary table needs a PostgreSQL connection: the session of an HTTP \
         request ends with its statement"
    )]
    NoLastingSession {
        /// The position of the name.
        position: Position,
    },
    /// A setting does not exist, or does not take its value.
    #[error("{position}: {what}")]
    Setting {
        /// The position of the name.
        position: Position,
        /// The problem.
        what: SettingProblem,
    },
    /// A statement to be cancelled is not running.
    #[error("{position}: there is no statement {id} that could be cancelled")]
    NoSuchStatement {
        /// The position of the id.
        position: Position,
        /// Its id.
        id: u64,
    },
    /// A statement names a column that does not exist.
    #[error("{}column `{column}` does not exist{}", At(*.position), Similar(.similar))]
    NoSuchColumn {
        /// The position of the name.
        position: Option<Position>,
        /// The name as written.
        column: String,
        /// A column that may have been meant.
        similar: Option<String>,
    },
    /// A statement names a column that several tables have.
    #[error("{}column `{column}` could be one of several columns", At(*.position))]
    AmbiguousColumn {
        /// The position of the name.
        position: Option<Position>,
        /// The name as written.
        column: String,
    },
    /// A clause has no meaning.
    #[error("{}{what}", At(*.position))]
    Clause {
        /// The position of the clause.
        position: Option<Position>,
        /// The problem.
        what: ClauseProblem,
    },
    /// A statement names a partition that does not exist.
    #[error("{position}: partition `{partition}` does not exist")]
    NoSuchPartition {
        /// The position of the name.
        position: Position,
        /// The name as written.
        partition: String,
    },
    /// A condition on whole partitions uses more than the designated timestamp.
    #[error("{}DROP PARTITION WHERE takes conditions on the designated timestamp only",
        At(*.position))]
    NotOfPartitions {
        /// The position of the condition.
        position: Option<Position>,
    },
    /// A statement names a column twice.
    #[error("{position}: column `{column}` comes twice")]
    ColumnTwice {
        /// The position of the second one.
        position: Position,
        /// The name as written.
        column: String,
    },
    /// A row to be inserted has more or fewer values than there are columns.
    #[error("{}{values} values for {columns} columns", At(*.position))]
    ValueCount {
        /// The position of the row.
        position: Option<Position>,
        /// The number of columns.
        columns: usize,
        /// The number of values.
        values: usize,
    },
    /// A row lacks the designated timestamp.
    #[error("{}column `{column}` is the designated timestamp, and cannot be NULL", At(*.position))]
    TimestampMissing {
        /// The position of the column list that lacks it.
        position: Option<Position>,
        /// The name of the column.
        column: String,
    },
    /// A value is too long to be stored.
    #[error(
        "a value for column `{column}` has {bytes} bytes, and the limit is {} bytes",
        limits::VALUE_BYTES
    )]
    ValueTooLong {
        /// The column.
        column: String,
        /// The length in bytes.
        bytes: usize,
    },
    /// The columns of a CREATE TABLE do not form a valid schema.
    #[error(transparent)]
    Schema(#[from] BadSchema),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A condition has no result for some row.
    #[error("{}", FilterMessage(.0))]
    Filter(FilterError),
    /// An option of COPY has an invalid value.
    #[error("{position}: {option} takes {expected}")]
    CopyOption {
        /// The position of the value.
        position: Position,
        /// The name of the option.
        option: &'static str,
        /// The values that it takes.
        expected: String,
    },
    /// The implementation of `BulkIo` failed.
    #[error("{}{source}", At(*.position))]
    Bulk {
        /// The position in the statement, if that is known.
        position: Option<Position>,
        /// The cause. Its message is this error's own.
        source: Box<BulkError>,
    },
    /// The statement was stopped before it was done.
    #[error("{reason}")]
    Canceled {
        /// The reason.
        reason: CancelReason,
    },
    /// DataFusion could not plan or execute the statement.
    #[error("{}{}", At(*.position), Innermost(.foreign))]
    Engine {
        /// The position in the statement, if that is known.
        position: Option<Position>,
        /// DataFusion's error. Not a `source`: its message is this error's own.
        foreign: Box<DataFusionError>,
    },
}

impl Error {
    pub(crate) fn syntax(sql: &str, offset: usize, what: SyntaxError) -> Error {
        Error::Syntax { position: Position::at(sql, offset), what }
    }

    /// An error in the query of a view.
    pub(crate) fn in_view(view: &str, error: Error) -> Error {
        Error::View { view: view.to_owned(), what: ViewProblem::Query(Box::new(error)) }
    }

    /// True if the cause is neither the text of a statement nor an object that it names.
    pub(crate) fn is_from_outside(&self) -> bool {
        matches!(self, Error::Canceled { .. }) || self.class() != Class::Caller
    }

    /// The class of the error: caller, environment or corruption.
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

    /// The position in the statement, if that is known.
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
    /// Our own errors come back unchanged, unless they are shared with others.
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
                // The position is set later, where the text is known.
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

/// The error of a method of `BulkIo`.
#[derive(Clone, Debug, ThisError)]
#[error("{message}")]
pub struct BulkError {
    /// The SQLSTATE.
    pub code: &'static str,
    /// The message, a sentence.
    pub message: String,
    /// The byte offset in the statement of the part that failed, if that is known.
    pub offset: Option<usize>,
    /// The class of the error.
    pub class: Class,
}

impl From<ClauseProblem> for Error {
    /// The position is set later, where the text is known.
    fn from(what: ClauseProblem) -> Error {
        Error::Clause { position: None, what }
    }
}

impl From<ClauseProblem> for DataFusionError {
    fn from(what: ClauseProblem) -> DataFusionError {
        Error::from(what).into()
    }
}

impl From<CancelReason> for Error {
    fn from(reason: CancelReason) -> Error {
        Error::Canceled { reason }
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

    // They were errors of the statement (42000), which a client takes for its own mistake.
    #[test]
    fn times_that_do_not_fit_their_type_overflow() {
        use datafusion::arrow::compute::kernels::numeric::add;
        use datafusion::arrow::datatypes::{DataType, TimeUnit};
        use datafusion::common::ScalarValue;
        use datafusion::logical_expr::ColumnarValue;

        let last = ColumnarValue::Scalar(ScalarValue::Date32(Some(i32::MAX)));
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let cast = last.cast_to(&micros, None).expect_err("it is a DATE only");
        let last = ScalarValue::TimestampMicrosecond(Some(i64::MAX), None).to_scalar().unwrap();
        let month = ScalarValue::new_interval_mdn(1, 0, 0).to_scalar().unwrap();
        let sum = add(&last, &month).expect_err("it is the last one");
        for error in [cast, DataFusionError::from(sum)] {
            let error = Error::from(error);
            assert_eq!(error.condition(), Condition::DatetimeOverflow, "{error}");
        }
    }

    #[test]
    fn a_text_with_an_hour_that_there_is_not_is_one_of_a_time() {
        use datafusion::arrow::datatypes::{DataType, TimeUnit};
        use datafusion::common::ScalarValue;
        use datafusion::logical_expr::ColumnarValue;

        for (text, expected) in [
            ("25:00", Condition::DatetimeOverflow),
            ("12:60:00.5", Condition::DatetimeOverflow),
            ("noon", Condition::InvalidDatetime),
            ("a:b", Condition::InvalidDatetime),
        ] {
            let text = ColumnarValue::Scalar(ScalarValue::from(text));
            let time = text.cast_to(&DataType::Time64(TimeUnit::Nanosecond), None);
            let error = Error::from(time.expect_err("it is no time of day"));
            assert_eq!(error.condition(), expected, "{error}");
        }
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
