//! The condition of an error: its kind, from which callers derive error codes.
//!
//! Not here: the codes (`server`).

use std::io::ErrorKind;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use tidegate_filter::{Class as FilterClass, Error as FilterError};
use tidegate_model::{ColumnType, SchemaError as BadSchema};
use tidegate_storage::{Class, Error as StorageError};

use super::pattern::pattern_problem;
use super::{
    ClauseProblem, Error, SettingProblem, SyntaxError, TextProblem, ViewProblem, innermost,
};
use crate::cancel::CancelReason;

/// The kind of an error, from which callers derive error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// The text is not a statement.
    SyntaxError,
    /// The statement is understood, but not supported.
    FeatureNotSupported,
    /// A text is not a valid time.
    InvalidDatetime,
    /// A time is not in the calendar, or out of the range of its type, or has a time of day where
    /// only a date fits.
    DatetimeOverflow,
    /// A text is not a valid value of its type.
    InvalidText,
    /// A text is longer than its type permits.
    TextTooLong,
    /// A value is out of the range of its type.
    OutOfRange,
    /// A table does not exist.
    UndefinedTable,
    /// A partition, setting, type or statement does not exist.
    UndefinedObject,
    /// The table is one of the system's, or a privilege is missing.
    NotAllowed,
    /// The session or transaction is read-only.
    ReadOnly,
    /// The statement cannot be part of a transaction.
    ActiveTransaction,
    /// The setting cannot be changed.
    CannotChange,
    /// A statement that has to come before did not come.
    NotReady,
    /// No such column.
    UndefinedColumn,
    /// A function does not exist.
    UndefinedFunction,
    /// Several operators are meant by the types of a parameter's neighbours.
    AmbiguousFunction,
    /// The table exists already.
    DuplicateTable,
    /// The column exists already.
    DuplicateColumn,
    /// A name is ambiguous.
    AmbiguousName,
    /// The columns do not form a valid table.
    InvalidTableDefinition,
    /// A table cannot be ordered, partitioned or retained as specified.
    InvalidObjectDefinition,
    /// A column is neither grouped by nor aggregated, or an aggregate is not allowed there.
    Grouping,
    /// A scalar subquery has more than one row.
    Cardinality,
    /// A pattern is not a regular expression.
    InvalidPattern,
    /// The escape character of a pattern is invalid.
    InvalidEscape,
    /// The length of a window frame is invalid.
    InvalidFrameSize,
    /// An expression of ORDER BY, GROUP BY or LIMIT is not a column of the answer.
    InvalidColumnReference,
    /// Two tables of a query have the same name.
    DuplicateAlias,
    /// The statement cannot be planned.
    InvalidStatement,
    /// A value that must not be NULL is NULL.
    NotNull,
    /// Another session has changed the same rows.
    Conflict,
    /// A clause or a function has an invalid argument.
    InvalidParameter,
    /// The named object is of another kind.
    WrongObjectType,
    /// Another object depends on it.
    DependentObjects,
    /// A parameter is not allowed there.
    UndefinedParameter,
    /// Division by zero.
    DivisionByZero,
    /// The memory of queries is exhausted.
    OutOfMemory,
    /// The disk is full.
    DiskFull,
    /// A limit of the system is exceeded.
    LimitExceeded,
    /// A query has more columns than the limit.
    TooManyColumns,
    /// The environment failed: the disk, or the machine.
    Environment,
    /// The bytes differ from what was written.
    Corruption,
    /// The statement was cancelled.
    QueryCanceled,
    /// The server is stopping.
    Stopping,
    /// A bug in Tidegate.
    Internal,
}

impl SyntaxError {
    fn condition(&self) -> Condition {
        match self {
            SyntaxError::TooDeep { .. }
            | SyntaxError::TooManyParts { .. }
            | SyntaxError::TooManyJoins { .. }
            | SyntaxError::TooManyItems { .. }
            | SyntaxError::TooManySets { .. } => Condition::LimitExceeded,
            SyntaxError::TooManyColumns { .. } => Condition::TooManyColumns,
            SyntaxError::NoSuchType { .. } | SyntaxError::NoSuchWindow { .. } => {
                Condition::UndefinedObject
            }
            _ => Condition::SyntaxError,
        }
    }
}

impl Error {
    /// The kind of the error.
    #[must_use]
    pub fn condition(&self) -> Condition {
        match self {
            Error::Syntax { what, .. } => what.condition(),
            Error::LargeSubqueries { .. } => Condition::LimitExceeded,
            Error::NotSupported { .. } | Error::Refused { .. } => Condition::FeatureNotSupported,
            Error::BadText {
                reason: TextProblem::OutOfRange,
                ty: ColumnType::Timestamp(_) | ColumnType::Date,
                ..
            }
            | Error::BadText {
                reason: TextProblem::NotInCalendar | TextProblem::HasTimeOfDay,
                ..
            } => Condition::DatetimeOverflow,
            Error::BadText { reason: TextProblem::OutOfRange, .. } => Condition::OutOfRange,
            Error::BadText { reason: TextProblem::TooManyWindows, .. } => Condition::LimitExceeded,
            Error::BadText { reason: TextProblem::TooLong { .. }, .. } => Condition::TextTooLong,
            Error::BadText { ty: ColumnType::Timestamp(_) | ColumnType::Date, .. } => {
                Condition::InvalidDatetime
            }
            Error::BadText { .. } => Condition::InvalidText,
            Error::NoSuchTable { .. } => Condition::UndefinedTable,
            Error::SystemTable { .. } | Error::Denied { .. } => Condition::NotAllowed,
            Error::ReadOnly { .. } => Condition::ReadOnly,
            Error::InTransaction { .. } => Condition::ActiveTransaction,
            Error::NoKeys { .. } => Condition::InvalidColumnReference,
            Error::NoLastingSession { .. } => Condition::FeatureNotSupported,
            Error::NoColumnType { .. } => Condition::InvalidTableDefinition,
            Error::NoSuchStatement { .. } => Condition::UndefinedObject,
            Error::Setting { what, .. } => setting_condition(what),
            Error::CopyOption { .. } => Condition::InvalidParameter,
            // The error of `BulkIo` has a code of its own, which is used instead.
            Error::Bulk { .. } => Condition::InvalidStatement,
            Error::NoSuchColumn { .. } => Condition::UndefinedColumn,
            Error::AmbiguousColumn { .. } => Condition::AmbiguousName,
            Error::Clause { what, .. } => clause_condition(what),
            Error::NoSuchPartition { .. } => Condition::UndefinedObject,
            Error::NotOfPartitions { .. } => Condition::InvalidObjectDefinition,
            Error::ColumnTwice { .. } => Condition::DuplicateColumn,
            Error::ValueCount { .. } => Condition::SyntaxError,
            Error::TimestampMissing { .. } => Condition::NotNull,
            Error::ValueTooLong { .. }
            | Error::TransactionTooLarge
            | Error::TemporaryTooLarge
            | Error::NoNumbersLeft { .. }
            | Error::TooManyTemporaryTables => Condition::LimitExceeded,
            Error::Schema(source) => schema_condition(source),
            Error::Canceled { reason } => match reason {
                CancelReason::Memory { .. } => Condition::OutOfMemory,
                CancelReason::Disk => Condition::DiskFull,
                CancelReason::Stopping => Condition::Stopping,
                _ => Condition::QueryCanceled,
            },
            Error::Filter(source) => filter_condition(source),
            Error::NoSuchSequence { .. } => Condition::UndefinedTable,
            Error::NoNumberYet { .. } => Condition::NotReady,
            Error::View { what, .. } => view_condition(what),
            Error::Storage(source) => storage_condition(source),
            Error::Engine { foreign, .. } => engine_condition(innermost(foreign)),
        }
    }
}

fn filter_condition(source: &FilterError) -> Condition {
    match source {
        FilterError::DivideByZero => Condition::DivisionByZero,
        FilterError::Overflow { .. } | FilterError::CastRange { .. } => Condition::OutOfRange,
        other if other.class() == FilterClass::Corruption => Condition::Corruption,
        _ => Condition::InvalidStatement,
    }
}

fn storage_condition(source: &StorageError) -> Condition {
    match source {
        StorageError::NoSuchTable { .. } => Condition::UndefinedTable,
        StorageError::TableExists { .. } | StorageError::ViewExists { .. } => {
            Condition::DuplicateTable
        }
        StorageError::IsView { .. } | StorageError::NotAView { .. } => Condition::WrongObjectType,
        StorageError::TooManyTables | StorageError::TooManyViews | StorageError::TooManyChanges => {
            Condition::LimitExceeded
        }
        StorageError::SegmentChanged { .. }
        | StorageError::RowsChanged { .. }
        | StorageError::ReadRowsChanged { .. }
        | StorageError::RowsAdded { .. }
        | StorageError::NameTaken { .. }
        | StorageError::ColumnsChanged { .. }
        | StorageError::TablesChanged { .. }
        | StorageError::SchemaChanged { .. }
        | StorageError::TableTruncated { .. }
        | StorageError::ColumnDropped { .. }
        | StorageError::ColumnAdded { .. } => Condition::Conflict,
        StorageError::SymbolMemory { .. } => Condition::OutOfMemory,
        StorageError::TimestampMissing { .. } => Condition::NotNull,
        StorageError::TimestampOutOfRange { .. } => Condition::OutOfRange,
        StorageError::Schema(source) => schema_condition(source),
        source => match source.class() {
            Class::Caller => Condition::InvalidStatement,
            Class::Environment => Condition::Environment,
            Class::Corruption => Condition::Corruption,
        },
    }
}

fn view_condition(what: &ViewProblem) -> Condition {
    match what {
        ViewProblem::Query(error) => error.condition(),
        ViewProblem::ReadsItself => Condition::InvalidObjectDefinition,
        ViewProblem::TooDeep | ViewProblem::TooManyTables => Condition::LimitExceeded,
        ViewProblem::OtherColumns | ViewProblem::OtherType { .. } => {
            Condition::InvalidTableDefinition
        }
        ViewProblem::Parameter => Condition::UndefinedParameter,
        ViewProblem::ReadsDropped { .. } => Condition::DependentObjects,
    }
}

fn setting_condition(what: &SettingProblem) -> Condition {
    match what {
        SettingProblem::Unknown { .. } => Condition::UndefinedObject,
        SettingProblem::Fixed { .. } | SettingProblem::OfConfiguration { .. } => {
            Condition::CannotChange
        }
        SettingProblem::Value { .. } | SettingProblem::NotUtc { .. } => Condition::InvalidParameter,
        SettingProblem::TooLong { .. } | SettingProblem::TooMany | SettingProblem::TooManyBytes => {
            Condition::LimitExceeded
        }
    }
}

fn schema_condition(source: &BadSchema) -> Condition {
    match source {
        BadSchema::DuplicateColumn { .. } => Condition::DuplicateColumn,
        BadSchema::NoSuchColumn { .. } => Condition::UndefinedColumn,
        BadSchema::TooManyColumns { .. }
        | BadSchema::ViewText { .. }
        | BadSchema::ViewColumns { .. }
        | BadSchema::CommentText { .. }
        | BadSchema::CommentTexts { .. } => Condition::LimitExceeded,
        BadSchema::PartitionWithoutTimestamp { .. }
        | BadSchema::NotATimestamp { .. }
        | BadSchema::BadKeys
        | BadSchema::BadTtl => Condition::InvalidObjectDefinition,
        _ => Condition::InvalidTableDefinition,
    }
}

fn clause_condition(what: &ClauseProblem) -> Condition {
    match what {
        ClauseProblem::NoDesignated { .. } | ClauseProblem::NotTimestamp { .. } => {
            Condition::WrongObjectType
        }
        ClauseProblem::FillRows { .. }
        | ClauseProblem::ValuesTooLarge { .. }
        | ClauseProblem::TypeTooLarge { .. }
        | ClauseProblem::TypesTooLarge { .. }
        | ClauseProblem::ExpressionTooLarge { .. }
        | ClauseProblem::TypeText { .. }
        | ClauseProblem::FrameTooLarge { .. }
        | ClauseProblem::TextsTooLong { .. }
        | ClauseProblem::MatchTooLong { .. }
        | ClauseProblem::PatternTooLarge { .. }
        | ClauseProblem::PatternTooLong { .. } => Condition::LimitExceeded,
        ClauseProblem::Operands { .. } | ClauseProblem::Argument { .. } => {
            Condition::UndefinedFunction
        }
        ClauseProblem::AmbiguousOperator { .. } => Condition::AmbiguousFunction,
        ClauseProblem::LimitColumn => Condition::InvalidColumnReference,
        ClauseProblem::RowLockRelation { .. } => Condition::UndefinedTable,
        ClauseProblem::TimeRange => Condition::OutOfRange,
        ClauseProblem::IntervalText { .. } | ClauseProblem::TimeByPattern { .. } => {
            Condition::InvalidDatetime
        }
        ClauseProblem::PercentPattern { .. }
        | ClauseProblem::AmbiguousPattern { .. }
        | ClauseProblem::FrameWithoutUnit { .. }
        | ClauseProblem::RowLock { .. }
        | ClauseProblem::PostgresPattern { .. } => Condition::FeatureNotSupported,
        ClauseProblem::RegexpPattern { .. } => Condition::InvalidPattern,
        ClauseProblem::FrameSize => Condition::InvalidFrameSize,
        ClauseProblem::WidthBucket { .. }
        | ClauseProblem::ArgumentValue { .. }
        | ClauseProblem::PatternField { .. }
        | ClauseProblem::FormatText { .. } => Condition::InvalidParameter,
        ClauseProblem::SampleGrouped | ClauseProblem::SampleItems => Condition::InvalidStatement,
        ClauseProblem::LimitBound
        | ClauseProblem::NegativeLimit
        | ClauseProblem::LimitFromEndToStart
        | ClauseProblem::NoTimeZone { .. }
        | ClauseProblem::Offset { .. }
        | ClauseProblem::Stride { .. }
        | ClauseProblem::Unit { .. }
        | ClauseProblem::SampleBound { .. }
        | ClauseProblem::FillCount { .. }
        | ClauseProblem::FillLinear { .. }
        | ClauseProblem::FillValue { .. }
        | ClauseProblem::KeyTypes { .. } => Condition::InvalidParameter,
    }
}

/// True if the disk, or the quota on it, is full.
fn is_no_space(error: &DataFusionError) -> bool {
    let DataFusionError::IoError(error) = error else { return false };
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn engine_condition(error: &DataFusionError) -> Condition {
    if let Some(problem) = pattern_problem(error) {
        return clause_condition(&problem);
    }
    match error {
        DataFusionError::External(foreign) => {
            let ours = foreign.downcast_ref::<Error>().map(Error::condition);
            ours.unwrap_or_else(|| foreign_condition(&foreign.to_string()))
        }
        DataFusionError::NotImplemented(message)
            if message.starts_with("Unsupported SQL type ") =>
        {
            Condition::UndefinedObject
        }
        DataFusionError::NotImplemented(_) => Condition::FeatureNotSupported,
        DataFusionError::SQL(parser, _) => match parser.as_ref() {
            ParserError::RecursionLimitExceeded => Condition::LimitExceeded,
            _ => Condition::SyntaxError,
        },
        DataFusionError::SchemaError(problem, _) => match problem.as_ref() {
            SchemaError::FieldNotFound { .. } => Condition::UndefinedColumn,
            SchemaError::AmbiguousReference { .. } => Condition::AmbiguousName,
            SchemaError::DuplicateQualifiedField { .. } => Condition::DuplicateAlias,
            _ => Condition::DuplicateColumn,
        },
        DataFusionError::Plan(message)
            if message.starts_with("Invalid function") || is_about_arguments(message) =>
        {
            Condition::UndefinedFunction
        }
        DataFusionError::Plan(message) => planning_condition(message),
        DataFusionError::Execution(message) if message.starts_with("Scalar subquery returned") => {
            Condition::Cardinality
        }
        DataFusionError::Execution(message) if is_time_out_of_range(message) => {
            Condition::DatetimeOverflow
        }
        DataFusionError::ArrowError(problem, _) => match problem.as_ref() {
            ArrowError::DivideByZero => Condition::DivisionByZero,
            ArrowError::ComputeError(text) if text.contains("Regular expression") => {
                Condition::InvalidPattern
            }
            ArrowError::ComputeError(text) if is_time_out_of_range(text) => {
                Condition::DatetimeOverflow
            }
            ArrowError::ExternalError(foreign) => foreign_condition(&foreign.to_string()),
            ArrowError::CastError(text) if is_out_of_range(text) => Condition::OutOfRange,
            ArrowError::CastError(text) if text.contains("' to value of Time64") => {
                time_of_day_condition(text)
            }
            ArrowError::CastError(_) | ArrowError::ParseError(_) => Condition::InvalidText,
            ArrowError::ArithmeticOverflow(_) => Condition::OutOfRange,
            ArrowError::InvalidArgumentError(text) if is_out_of_range(text) => {
                Condition::OutOfRange
            }
            _ => Condition::InvalidStatement,
        },
        DataFusionError::ResourcesExhausted(_) => Condition::OutOfMemory,
        error if is_no_space(error) => Condition::DiskFull,
        DataFusionError::ExecutionJoin(join) if join.is_panic() => Condition::Internal,
        DataFusionError::IoError(_) | DataFusionError::ExecutionJoin(_) => Condition::Environment,
        DataFusionError::Internal(text) if is_about_arguments(text) => Condition::UndefinedFunction,
        DataFusionError::Internal(_) => Condition::Internal,
        _ => Condition::InvalidStatement,
    }
}

/// The condition of a planning error, which only its message tells.
fn planning_condition(message: &str) -> Condition {
    let begins = |texts: &[&str]| texts.iter().any(|text| message.starts_with(text));
    let grouping = [
        "Column in SELECT must be in GROUP BY",
        "Column in HAVING must be in GROUP BY",
        "Column in ORDER BY must be in GROUP BY",
        "Column in QUALIFY must be in GROUP BY",
        "HAVING clause references",
        "Aggregate function calls cannot be nested",
        "Aggregate functions are not allowed in the WHERE clause",
    ];
    if begins(&grouping) {
        Condition::Grouping
    } else if begins(&["Order by column out of bounds", "Cannot find column with position"]) {
        Condition::InvalidColumnReference
    } else if begins(&["WITH query name"]) {
        Condition::DuplicateAlias
    } else if begins(&["Invalid escape character in LIKE"]) {
        Condition::InvalidEscape
    } else if begins(&["UNION queries have different number", "UNION query has different number"]) {
        Condition::SyntaxError
    } else {
        Condition::InvalidStatement
    }
}

/// The condition of an unknown error of a library.
fn foreign_condition(message: &str) -> Condition {
    match message.starts_with("regex parse error") {
        true => Condition::InvalidPattern,
        false => Condition::Environment,
    }
}

/// True if Arrow reports that a number does not fit its type. Only the message tells this from a
/// text that is not a number.
fn is_out_of_range(message: &str) -> bool {
    let number = message.strip_prefix("Cannot cast string '").and_then(|it| it.split('\'').next());
    message.starts_with("Can't cast value ")
        || message.contains("Overflowing on")
        || message.contains("too large to store in a Decimal")
        || message.contains("too small to store in a Decimal")
        || number.is_some_and(|number| number.trim().parse::<i128>().is_ok())
}

/// True if DataFusion or Arrow reports that a time does not fit its type.
fn is_time_out_of_range(message: &str) -> bool {
    message == "Timestamp out of range"
        || message.ends_with(": converted value exceeds the representable i64 range")
}

/// The condition of a text that Arrow does not take for a time of day: it has the form of one, with
/// an hour, a minute or a second that there is not, or another form.
fn time_of_day_condition(message: &str) -> Condition {
    let text = message.strip_prefix("Cannot cast string '").and_then(|it| it.split('\'').next());
    let is_number = |part: &str| part.trim().parse::<f64>().is_ok();
    let has_form = |text: &str| text.contains(':') && text.split(':').all(is_number);
    match text.is_some_and(has_form) {
        true => Condition::DatetimeOverflow,
        false => Condition::InvalidDatetime,
    }
}

/// True if DataFusion reports that no function takes such arguments, which it classifies as
/// internal.
pub(crate) fn is_about_arguments(message: &str) -> bool {
    let types = ["could not cast array of type ", "Min/Max accumulator not implemented for type "];
    message.contains("Function '") && message.contains("failed to match any signature")
        || message.starts_with("Failed to coerce arguments to satisfy a call to '")
        || message.contains("user-defined coercion failed with")
        || message.starts_with("Failed to coerce types ")
        || types.iter().any(|text| message.starts_with(text))
}
