//! What can be wrong with a text: of a statement, of a clause, of a value.

use std::fmt;

use thiserror::Error as ThisError;
use tidegate_model::{ColumnType, limits};

use super::Error;

/// What is wrong with a view.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum ViewProblem {
    /// Its query cannot be planned. Places are those in its text.
    #[error("{0}")]
    Query(Box<Error>),
    /// It is among the views that it reads.
    #[error("it reads itself")]
    ReadsItself,
    /// It reads a view that reads a view, and so on.
    #[error("views read views more than {} deep", limits::VIEW_NESTING)]
    TooDeep,
    /// With the views that it reads, or is beside, it reads too many tables.
    #[error("views of a statement read more than {} tables in all", limits::VIEW_TABLES)]
    TooManyTables,
    /// Its query has more or fewer columns than it had.
    #[error("its query has other columns than it had: make it anew with CREATE OR REPLACE VIEW")]
    OtherColumns,
    /// A column of its query has values of another type than it had.
    #[error(
        "column `{column}` was {}, and is {is}: make it anew with CREATE OR REPLACE VIEW",
        .was.sql()
    )]
    OtherType {
        /// Its name.
        column: String,
        /// What it was.
        was: ColumnType,
        /// Arrow's name of what it is.
        is: String,
    },
    /// It has a parameter.
    #[error("a view has no parameters")]
    Parameter,
    /// Views read it, and it is to go without them.
    #[error("it reads `{table}`: add CASCADE to drop it too")]
    Needed {
        /// What was to be dropped.
        table: String,
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
    /// An option comes twice.
    #[error("the option {option} comes twice")]
    OptionTwice {
        /// Its name.
        option: &'static str,
    },
    /// What stands in each other, or is joined by operators, is too much.
    #[error("a query is nested more than {most} deep here")]
    TooDeep {
        /// How deep it may be.
        most: usize,
    },
    /// It has an error somewhere, which the parser does not find.
    #[error(
        "a query cannot be parsed in {steps} steps: look for an error inside of its innermost \
         brackets"
    )]
    Unclear {
        /// The steps that it has for a query of this length.
        steps: usize,
    },
    /// It reads too many tables and queries.
    #[error(
        "a query has at most {most} tables and queries, those of WITH as often as it reads them"
    )]
    TooManyParts {
        /// How many it may have.
        most: usize,
    },
    /// It joins too many tables.
    #[error("a statement has at most {most} joins")]
    TooManyJoins {
        /// How many it may have.
        most: usize,
    },
    /// A SELECT has too many items.
    #[error("a SELECT lists, groups by and sorts by at most {most} expressions each")]
    TooManyItems {
        /// How many it may have.
        most: usize,
    },
    /// A GROUP BY has too many sets.
    #[error("a GROUP BY has at most {sets} sets, with {items} expressions together")]
    TooManySets {
        /// The number of sets that it may have.
        sets: usize,
        /// The number of expressions that all of them may have.
        items: usize,
    },
    /// A window is named that is not defined.
    #[error("window `{name}` does not exist")]
    NoSuchWindow {
        /// Its name.
        name: String,
    },
    /// Two windows have one name.
    #[error("window `{name}` is defined twice")]
    WindowTwice {
        /// Their name.
        name: String,
    },
    /// A window that is made of another one has a clause that only one of them may have.
    #[error("the {clause} of window `{name}` cannot be overridden")]
    WindowOverridden {
        /// The name of the other one.
        name: String,
        /// The clause.
        clause: &'static str,
    },
    /// A type that nobody knows.
    #[error("type `{name}` does not exist")]
    NoSuchType {
        /// As it is written.
        name: String,
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
    /// LIMIT and OFFSET are the same for all rows.
    #[error("LIMIT and OFFSET take no columns")]
    LimitColumn,
    /// A frame of RANGE over times has a length without a unit.
    #[error("RANGE over times takes intervals: write INTERVAL '{length} days', say")]
    FrameWithoutUnit {
        /// The length as it is written.
        length: String,
    },
    /// A function would make more than memory is for.
    #[error("`{function}` would make more than {mebibytes} MiB of values at a time")]
    ValuesTooLarge {
        /// The function.
        function: String,
        /// How much it may make.
        mebibytes: u64,
    },
    /// An aggregate that keeps all values is asked for those of more rows than fit, for each row.
    #[error(
        "`{function}` OVER takes a frame ROWS BETWEEN .. PRECEDING AND .. FOLLOWING of at most \
         {rows} rows"
    )]
    FrameTooLarge {
        /// Which aggregate.
        function: String,
        /// How many rows the frame may have.
        rows: u64,
    },
    /// Two texts are too long to be compared character by character.
    #[error(
        "`{function}` compares texts whose lengths multiplied are at most {steps}: cut them, with \
         left() say"
    )]
    TextsTooLong {
        /// The function.
        function: String,
        /// The greatest product.
        steps: u64,
    },
    /// A regular expression is too long for its text.
    #[error(
        "`{function}` matches texts whose length multiplied by that of the pattern, with counted \
         repetitions written out, is at most {steps}: cut the text, or shorten the pattern"
    )]
    MatchTooLong {
        /// The function.
        function: String,
        /// The greatest product.
        steps: u64,
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
    #[error("FILL would make {rows} rows, more than {most} are not made")]
    FillRows {
        /// How many; as far as they were counted.
        rows: u64,
        /// How many it may make.
        most: u64,
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
    /// A pattern of times that has percent signs.
    #[error(
        "'{pattern}' is no pattern of PostgreSQL: write %Y-%m-%d %H:%M:%S as \
         YYYY-MM-DD HH24:MI:SS"
    )]
    PercentPattern {
        /// As it is written.
        pattern: String,
    },
    /// A pattern of times that PostgreSQL reads otherwise than QuestDB.
    #[error(
        "'{pattern}' has minutes for QuestDB where PostgreSQL has months: write yyyy-MM-dd \
         HH:mm:ss for the one, YYYY-MM-DD HH24:MI:SS for the other"
    )]
    UnclearPattern {
        /// As it is written.
        pattern: String,
    },
    /// A pattern of PostgreSQL in a function of QuestDB.
    #[error("'{pattern}' is a pattern of PostgreSQL: write to_char(..), or yyyy-MM-dd HH:mm:ss")]
    PostgresPattern {
        /// As it is written.
        pattern: String,
    },
    /// A text is no time by its pattern.
    #[error("'{text}' is no time by the pattern '{pattern}'{reason}")]
    TimeByPattern {
        /// The text.
        text: String,
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: PatternProblem,
    },
    /// A regular expression cannot be read.
    #[error("regex parse error: {reason}")]
    RegexpPattern {
        /// As its reader says it.
        reason: String,
    },
    /// An argument of a function for which it has no answer.
    #[error("{function} does not take {value}: {what}")]
    ArgumentValue {
        /// Its name.
        function: String,
        /// As it is written.
        value: String,
        /// What it takes.
        what: &'static str,
    },
    /// A call of `width_bucket` has no answer.
    #[error("width_bucket: {what}")]
    WidthBucket {
        /// The problem.
        what: &'static str,
    },
    /// A call of `format` has no answer.
    #[error("format: {what}")]
    FormatText {
        /// The problem.
        what: &'static str,
    },
    /// A text is no INTERVAL.
    #[error("'{text}' is not a valid INTERVAL: expected one like '1 day 02:30:00' or 'P1DT2H30M'")]
    IntervalText {
        /// The text.
        text: String,
    },
}

/// Reasons that a text is no time by a pattern of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternProblem {
    /// It is not written as the field wants it.
    Form {
        /// The field.
        field: &'static str,
    },
    /// Two fields say different things.
    Conflict {
        /// The second one.
        field: &'static str,
    },
    /// No calendar or clock has it.
    NotInCalendar,
    /// A field that is written only.
    NotRead {
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for PatternProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternProblem::Form { field } => write!(f, ": {field} finds no value"),
            PatternProblem::Conflict { field } => {
                write!(f, ": {field} says otherwise than a field before it")
            }
            PatternProblem::NotInCalendar => f.write_str(": no calendar or clock has it"),
            PatternProblem::NotRead { field } => write!(f, ": {field} is written, and not read"),
        }
    }
}

/// What is wrong with SET, or with the name of a setting.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum SettingProblem {
    /// There is none of this name.
    #[error("there is no setting `{name}`")]
    Unknown {
        /// As it is written.
        name: String,
    },
    /// It is as it is.
    #[error("{name} cannot be changed")]
    Fixed {
        /// Its name.
        name: String,
    },
    /// It is a key of the configuration.
    #[error("{name} is a key of the configuration, and cannot be set by a statement")]
    OfConfiguration {
        /// Its name.
        name: String,
    },
    /// It does not take the value.
    #[error("{name} cannot be '{value}': it takes {expected}")]
    Value {
        /// Its name.
        name: String,
        /// As it is given.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// A time zone other than UTC.
    #[error(
        "TimeZone cannot be '{zone}': times are read and shown in UTC, write ts AT TIME ZONE \
         '{zone}' or to_timezone(ts, '{zone}')"
    )]
    NotUtc {
        /// As it is given.
        zone: String,
    },
    /// It is longer than what is kept.
    #[error("{name} is longer than {} bytes, with its value", limits::SETTING_BYTES)]
    TooLong {
        /// Its name.
        name: String,
    },
    /// There are as many as are kept.
    #[error("{} settings are set already, more are not kept", limits::SESSION_SETTINGS)]
    TooMany,
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

struct Found<'a>(&'a Option<String>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(f, "`{text}`"),
            None => f.write_str("the end"),
        }
    }
}
