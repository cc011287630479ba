//! What can be wrong with a statement, or with running it, as facts.
//!
//! DataFusion's errors are kept as they are, with the place in the statement where one is known;
//! what is shown of them is their innermost message on one line. Not here: SQLSTATEs and HTTP
//! codes, which `server` makes of [`Error::condition`] and [`Error::class`].

use std::fmt;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use thiserror::Error as ThisError;
use tidegate_filter::{Class as FilterClass, Error as FilterError};
use tidegate_model::{ColumnType, SchemaError as BadSchema, Value, limits};
use tidegate_storage::{Class, Error as StorageError};

use crate::control::CancelReason;
use crate::parse::Position;

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
    /// It was ended before it was done.
    #[error("canceling statement due to {reason}")]
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

/// What is wrong with the text of a statement.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum SyntaxError {
    /// A quote is opened and not closed.
    #[error("this {quote} is never closed")]
    OpenQuote {
        /// Which.
        quote: char,
    },
    /// A comment is opened and not closed.
    #[error("this comment is never closed")]
    OpenComment,
    /// There is no statement in the text.
    #[error("there is no statement")]
    Empty,
    /// Something else stands where it must not.
    #[error("expected {expected}, found {}", Found(.found))]
    Unexpected {
        /// What should stand here.
        expected: String,
        /// What does; `None` for the end of the text.
        found: Option<String>,
    },
    /// A number is out of its bounds.
    #[error("{what} must be {bounds}, not {found}")]
    OutOfBounds {
        /// Of what.
        what: &'static str,
        /// What it may be.
        bounds: &'static str,
        /// What it is.
        found: String,
    },
    /// A parameter has no value.
    #[error("there is no value for {name}: {known} given")]
    NoParameter {
        /// As it is written: `$3`.
        name: String,
        /// How many values there are.
        known: usize,
    },
    /// What the parser of queries says.
    #[error("{message}")]
    Query {
        /// Its message.
        message: String,
    },
}

/// What is wrong with a clause of a time-series query, or with a function of times.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ClauseProblem {
    /// A bound of LIMIT is no constant integer.
    #[error("LIMIT takes constant integers")]
    LimitBound,
    /// `LIMIT -m, n`.
    #[error("LIMIT counts from the end first, and from the start then")]
    LimitFromEndToStart,
    /// A clause needs a designated timestamp, and the rows have none.
    #[error("{clause} needs a designated timestamp: name one with (query) TIMESTAMP(column)")]
    NoDesignated {
        /// Which clause.
        clause: &'static str,
    },
    /// A column that should be a designated timestamp is none.
    #[error("column `{column}` is no TIMESTAMP")]
    NoTimestamp {
        /// Which column.
        column: String,
    },
    /// No such time zone.
    #[error("there is no time zone '{zone}'")]
    NoTimeZone {
        /// As it is written.
        zone: String,
    },
    /// An offset is not written as such.
    #[error("'{offset}' is no offset like '+01:30'")]
    Offset {
        /// As it is written.
        offset: String,
    },
    /// A length of time that is none.
    #[error("'{stride}' is no length of time like '15m': units are n U T s m h d w M y")]
    Stride {
        /// As it is written.
        stride: String,
    },
    /// A unit that there is not.
    #[error("'{unit}' is no unit of time: units are n u U T s m h d w M y")]
    Unit {
        /// As it is written.
        unit: String,
    },
    /// FROM or TO is no instant.
    #[error("{bound} of SAMPLE BY takes a constant timestamp")]
    SampleBound {
        /// FROM or TO.
        bound: &'static str,
    },
    /// SAMPLE BY and GROUP BY.
    #[error("SAMPLE BY groups by itself: leave GROUP BY out")]
    SampleGrouped,
    /// No aggregate stands beside SAMPLE BY.
    #[error("SAMPLE BY takes columns and aggregates, and at least one aggregate")]
    SampleItems,
    /// FILL has one value for several aggregates, or the other way round.
    #[error("FILL has {values} values for {aggregates} aggregates")]
    FillCount {
        /// Values in FILL.
        values: usize,
        /// Aggregates in SELECT.
        aggregates: usize,
    },
    /// FILL(LINEAR) for something else than a number.
    #[error("FILL(LINEAR) takes numbers, and `{column}` is none")]
    FillLinear {
        /// Which column.
        column: String,
    },
    /// A value in FILL is not of the column's type.
    #[error("FILL takes constants of the aggregate's type, which is not so for `{column}`")]
    FillValue {
        /// Which column.
        column: String,
    },
    /// Keys of a join in time have types that are not compared.
    #[error("the keys of a join must be of one type, not {left} and {right}")]
    KeyTypes {
        /// Of the left side.
        left: String,
        /// Of the right side.
        right: String,
    },
    /// A fill would make too many rows.
    #[error("FILL would make {rows} rows, more than {} are not made", crate::plan::FILL_ROWS_MAX)]
    FillRows {
        /// How many; as far as they were counted.
        rows: u64,
    },
    /// An operator has no meaning for values of these types.
    #[error("there is no {} {operator} {}", .types[0], .types[1])]
    Operands {
        /// As it is written.
        operator: String,
        /// The types of its left and of its right side.
        types: Box<[String; 2]>,
    },
    /// A function has no meaning for values of this type.
    #[error("{function} does not take {ty}")]
    Argument {
        /// Its name, or an operator of one value.
        function: String,
        /// The type.
        ty: String,
    },
    /// A time is out of the range of its type.
    #[error("a time is out of the range of its type")]
    TimeRange,
}

/// Why a text is no value of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum TextProblem {
    /// It is not written as such values are.
    #[error("expected {expected}")]
    Form {
        /// How it should be written.
        expected: &'static str,
    },
    /// The calendar or the clock does not have it.
    #[error("no calendar or clock has it")]
    NotInCalendar,
    /// The type cannot hold it.
    #[error("out of range")]
    OutOfRange,
    /// The type keeps less of it.
    #[error("it has more digits than are kept")]
    TooFine,
    /// It has more characters than are wanted.
    #[error("it has more than {length} characters")]
    TooLong {
        /// How many are wanted.
        length: u64,
    },
    /// A day has no time of day.
    #[error("a day has no time of day, cast the column to TIMESTAMP")]
    HasTimeOfDay,
    /// An interval has too many windows.
    #[error("more than {} windows", crate::plan::WINDOWS_MAX)]
    TooManyWindows,
}

/// What kind of thing went wrong, for those who number errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// The text is no statement.
    SyntaxError,
    /// Understood, and not possible here.
    FeatureNotSupported,
    /// A time that is none.
    InvalidDatetime,
    /// A time where only a day can be.
    DatetimeOverflow,
    /// A text that is no value of its type.
    InvalidText,
    /// A text that is longer than its type lets it be.
    TextTooLong,
    /// A value that its type cannot hold.
    OutOfRange,
    /// No such table.
    UndefinedTable,
    /// No such partition.
    UndefinedObject,
    /// No such column.
    UndefinedColumn,
    /// No such function.
    UndefinedFunction,
    /// There is such a table already.
    DuplicateTable,
    /// There is such a column already.
    DuplicateColumn,
    /// A name could mean several things.
    AmbiguousName,
    /// The columns make no table.
    InvalidTableDefinition,
    /// The statement cannot be planned.
    InvalidStatement,
    /// A value that must be there is NULL.
    NotNull,
    /// Somebody else has changed the same rows.
    Conflict,
    /// A clause or a function is given something without meaning.
    InvalidParameter,
    /// What is named is of another kind.
    WrongObjectType,
    /// Division by zero.
    DivisionByZero,
    /// The memory of queries is used up.
    OutOfMemory,
    /// A limit of the system was passed.
    LimitExceeded,
    /// The machine failed.
    Environment,
    /// The bytes are not what was written.
    Corruption,
    /// It was ended before it was done.
    QueryCanceled,
    /// We are at fault.
    Internal,
}

impl Error {
    pub(crate) fn syntax(sql: &str, offset: usize, what: SyntaxError) -> Error {
        Error::Syntax { position: Position::at(sql, offset), what }
    }

    /// Whose fault it is.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Syntax { .. }
            | Error::NotSupported { .. }
            | Error::Refused { .. }
            | Error::BadText { .. }
            | Error::NoSuchTable { .. }
            | Error::NoSuchColumn { .. }
            | Error::AmbiguousColumn { .. }
            | Error::Clause { .. }
            | Error::NoSuchPartition { .. }
            | Error::NotOfPartitions { .. }
            | Error::ColumnTwice { .. }
            | Error::ValueCount { .. }
            | Error::TimestampMissing { .. }
            | Error::ValueTooLong { .. }
            | Error::Canceled { .. }
            | Error::Schema(_) => Class::Caller,
            Error::Storage(source) => source.class(),
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

    /// What kind of thing went wrong.
    #[must_use]
    pub fn condition(&self) -> Condition {
        match self {
            Error::Syntax { .. } => Condition::SyntaxError,
            Error::NotSupported { .. } | Error::Refused { .. } => Condition::FeatureNotSupported,
            Error::BadText { reason: TextProblem::OutOfRange, .. } => Condition::OutOfRange,
            Error::BadText { reason: TextProblem::TooManyWindows, .. } => Condition::LimitExceeded,
            Error::BadText { reason: TextProblem::TooLong { .. }, .. } => Condition::TextTooLong,
            Error::BadText { reason: TextProblem::HasTimeOfDay, .. } => Condition::DatetimeOverflow,
            Error::BadText { ty: ColumnType::Timestamp(_) | ColumnType::Date, .. } => {
                Condition::InvalidDatetime
            }
            Error::BadText { .. } => Condition::InvalidText,
            Error::NoSuchTable { .. } => Condition::UndefinedTable,
            Error::NoSuchColumn { .. } => Condition::UndefinedColumn,
            Error::AmbiguousColumn { .. } => Condition::AmbiguousName,
            Error::Clause { what, .. } => clause_condition(what),
            Error::NoSuchPartition { .. } => Condition::UndefinedObject,
            Error::NotOfPartitions { .. } => Condition::InvalidTableDefinition,
            Error::ColumnTwice { .. } => Condition::DuplicateColumn,
            Error::ValueCount { .. } => Condition::SyntaxError,
            Error::TimestampMissing { .. }
            | Error::Storage(StorageError::TimestampMissing { .. }) => Condition::NotNull,
            Error::ValueTooLong { .. } => Condition::LimitExceeded,
            Error::Schema(source) => schema_condition(source),
            Error::Canceled { .. } => Condition::QueryCanceled,
            Error::Filter(source) => match source {
                FilterError::DivideByZero => Condition::DivisionByZero,
                FilterError::Overflow { .. } | FilterError::CastRange { .. } => {
                    Condition::OutOfRange
                }
                other if other.class() == FilterClass::Corruption => Condition::Corruption,
                _ => Condition::InvalidStatement,
            },
            Error::Storage(StorageError::NoSuchTable { .. }) => Condition::UndefinedTable,
            Error::Storage(StorageError::TableExists { .. }) => Condition::DuplicateTable,
            Error::Storage(StorageError::SegmentChanged { .. }) => Condition::Conflict,
            Error::Storage(StorageError::TimestampOutOfRange { .. }) => Condition::OutOfRange,
            Error::Storage(StorageError::Schema(source)) => schema_condition(source),
            Error::Storage(source) => match source.class() {
                Class::Caller => Condition::InvalidStatement,
                Class::Environment => Condition::Environment,
                Class::Corruption => Condition::Corruption,
            },
            Error::Engine { foreign, .. } => engine_condition(innermost(foreign)),
        }
    }

    /// Where in the statement it went wrong, if that is known.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match self {
            Error::Syntax { position, .. }
            | Error::Refused { position, .. }
            | Error::NoSuchPartition { position, .. }
            | Error::ColumnTwice { position, .. } => Some(*position),
            Error::NotSupported { position, .. }
            | Error::BadText { position, .. }
            | Error::NoSuchTable { position, .. }
            | Error::NoSuchColumn { position, .. }
            | Error::AmbiguousColumn { position, .. }
            | Error::Clause { position, .. }
            | Error::ValueCount { position, .. }
            | Error::NotOfPartitions { position }
            | Error::TimestampMissing { position, .. }
            | Error::Engine { position, .. } => *position,
            Error::ValueTooLong { .. }
            | Error::Schema(_)
            | Error::Storage(_)
            | Error::Filter(_)
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

fn schema_condition(source: &BadSchema) -> Condition {
    match source {
        BadSchema::DuplicateColumn { .. } => Condition::DuplicateColumn,
        BadSchema::NoSuchColumn { .. } => Condition::UndefinedColumn,
        BadSchema::TooManyColumns { .. } => Condition::LimitExceeded,
        _ => Condition::InvalidTableDefinition,
    }
}

fn clause_condition(what: &ClauseProblem) -> Condition {
    match what {
        ClauseProblem::NoDesignated { .. } | ClauseProblem::NoTimestamp { .. } => {
            Condition::WrongObjectType
        }
        ClauseProblem::FillRows { .. } => Condition::LimitExceeded,
        ClauseProblem::Operands { .. } | ClauseProblem::Argument { .. } => {
            Condition::UndefinedFunction
        }
        ClauseProblem::TimeRange => Condition::OutOfRange,
        ClauseProblem::SampleGrouped | ClauseProblem::SampleItems => Condition::InvalidStatement,
        ClauseProblem::LimitBound
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

fn engine_condition(error: &DataFusionError) -> Condition {
    match error {
        DataFusionError::External(foreign) => {
            foreign.downcast_ref::<Error>().map_or(Condition::Environment, Error::condition)
        }
        DataFusionError::NotImplemented(_) => Condition::FeatureNotSupported,
        DataFusionError::SQL(parser, _) => match parser.as_ref() {
            ParserError::RecursionLimitExceeded => Condition::LimitExceeded,
            _ => Condition::SyntaxError,
        },
        DataFusionError::SchemaError(problem, _) => match problem.as_ref() {
            SchemaError::FieldNotFound { .. } => Condition::UndefinedColumn,
            SchemaError::AmbiguousReference { .. } => Condition::AmbiguousName,
            _ => Condition::DuplicateColumn,
        },
        DataFusionError::Plan(message)
            if message.starts_with("Invalid function") || is_about_arguments(message) =>
        {
            Condition::UndefinedFunction
        }
        DataFusionError::ArrowError(problem, _) => match problem.as_ref() {
            ArrowError::DivideByZero => Condition::DivisionByZero,
            ArrowError::CastError(text) if is_out_of_range(text) => Condition::OutOfRange,
            ArrowError::CastError(_) | ArrowError::ParseError(_) => Condition::InvalidText,
            ArrowError::ArithmeticOverflow(_) => Condition::OutOfRange,
            ArrowError::InvalidArgumentError(text) if is_out_of_range(text) => {
                Condition::OutOfRange
            }
            _ => Condition::InvalidStatement,
        },
        DataFusionError::ResourcesExhausted(_) => Condition::OutOfMemory,
        DataFusionError::IoError(_) | DataFusionError::ExecutionJoin(_) => Condition::Environment,
        DataFusionError::Internal(text) if is_about_arguments(text) => Condition::UndefinedFunction,
        DataFusionError::Internal(_) => Condition::Internal,
        _ => Condition::InvalidStatement,
    }
}

/// Whether Arrow says that a number does not fit in a type: only its message tells that from a text
/// that is no number.
fn is_out_of_range(message: &str) -> bool {
    let number = message.strip_prefix("Cannot cast string '").and_then(|it| it.split('\'').next());
    message.starts_with("Can't cast value ")
        || message.contains("Overflowing on")
        || message.contains("too large to store in a Decimal")
        || message.contains("too small to store in a Decimal")
        || number.is_some_and(|number| number.trim().parse::<i128>().is_ok())
}

/// Whether DataFusion says that no function takes such arguments, which it takes for its own fault.
pub(crate) fn is_about_arguments(message: &str) -> bool {
    message.contains("Function '") && message.contains("failed to match any signature")
}

/// What a filter says of a row, as the general path says it.
struct FilterMessage<'a>(&'a FilterError);

impl fmt::Display for FilterMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilterError::CastRange { value, to } = self.0 else { return self.0.fmt(f) };
        let reason = TextProblem::OutOfRange;
        match value {
            Value::Integer(value) => write!(f, "'{value}' is not a valid {}: {reason}", to.sql()),
            Value::Float(value) => write!(f, "'{value}' is not a valid {}: {reason}", to.sql()),
            _ => self.0.fmt(f),
        }
    }
}

/// `line 1, column 8: `, or nothing.
struct At(Option<Position>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |position| write!(f, "{position}: "))
    }
}

struct Similar<'a>(&'a Option<String>);

impl fmt::Display for Similar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |name| write!(f, ", is `{name}` meant?"))
    }
}

struct Found<'a>(&'a Option<String>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(f, "`{text}`"),
            None => f.write_str("the end"),
        }
    }
}

/// DataFusion's message without the chain of prefixes around it, on one line.
struct Innermost<'a>(&'a DataFusionError);

impl fmt::Display for Innermost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = innermost(self.0);
        let message = match error {
            DataFusionError::NotImplemented(text)
            | DataFusionError::Internal(text)
            | DataFusionError::Plan(text)
            | DataFusionError::Configuration(text)
            | DataFusionError::Execution(text)
            | DataFusionError::ResourcesExhausted(text) => text.clone(),
            DataFusionError::ArrowError(problem, _) => arrow_message(problem),
            DataFusionError::SchemaError(problem, _) => problem.to_string(),
            DataFusionError::External(foreign) => with_sources(foreign.as_ref()),
            DataFusionError::IoError(source) => source.to_string(),
            other => other.strip_backtrace(),
        };
        if is_about_arguments(&message) {
            let function = message.split('\'').nth(1).unwrap_or_default();
            return write!(f, "function `{function}` does not take arguments of these types");
        }
        if matches!(error, DataFusionError::Internal(_)) {
            f.write_str("internal error: ")?;
        }
        f.write_str(&one_line(&message))
    }
}

/// The message of an error and of those that caused it.
fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn arrow_message(problem: &ArrowError) -> String {
    match problem {
        ArrowError::DivideByZero => "division by zero".to_owned(),
        ArrowError::CastError(text)
        | ArrowError::ParseError(text)
        | ArrowError::ComputeError(text)
        | ArrowError::ArithmeticOverflow(text)
        | ArrowError::InvalidArgumentError(text)
        | ArrowError::NotYetImplemented(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The lines of a message in one, without the backtrace and the plea for a bug report that
/// DataFusion may have appended.
fn one_line(message: &str) -> String {
    let text = message.split("\n\nbacktrace:").next().unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let kept = lines.take_while(|line| !line.starts_with("This issue was likely caused by a bug"));
    let joined = kept.collect::<Vec<_>>().join(" ");
    joined.trim_end_matches('.').to_owned()
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

    #[test]
    fn datafusion_messages_lose_their_prefixes_and_lines() {
        let plan = DataFusionError::Plan("Invalid function 'foo'.\nDid you mean 'floor'?".into());
        let error = Error::from(plan.context("type_coercion"));
        assert_eq!(error.to_string(), "Invalid function 'foo'. Did you mean 'floor'?");
        assert_eq!(error.condition(), Condition::UndefinedFunction);
        let zero = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        assert_eq!(Error::from(zero).to_string(), "division by zero");
    }
}
