//! Details of errors in a request: of its views, syntax, clauses, settings and values.

use std::fmt;

use thiserror::Error as ThisError;
use tidegate_model::{ColumnType, limits};

use super::Error;
use crate::limits::WINDOWS_MAX;

/// The reason why a view cannot be read, created or dropped.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum ViewProblem {
    /// The query of the view cannot be planned. Positions refer to the text of the view.
    #[error("{0}")]
    Query(Box<Error>),
    /// The view reads itself, directly or through other views.
    #[error("it reads itself")]
    ReadsItself,
    /// Views read views at too many levels.
    #[error("views read views more than {} deep", limits::VIEW_NESTING)]
    TooDeep,
    /// The views of a statement read too many tables in total.
    #[error("views of a statement read more than {} tables in all", limits::VIEW_TABLES)]
    TooManyTables,
    /// Its query has other columns than at its creation.
    #[error("the columns of its query have changed: replace it with CREATE OR REPLACE VIEW")]
    OtherColumns,
    /// A column of its query has another type than at its creation.
    #[error(
        "column `{column}` was {}, and is {is}: replace it with CREATE OR REPLACE VIEW",
        .was.sql()
    )]
    OtherType {
        /// The name of the column.
        column: String,
        /// The type at the creation of the view.
        was: ColumnType,
        /// Arrow's name of the present type.
        is: String,
    },
    /// Its query has a parameter.
    #[error("a view has no parameters")]
    Parameter,
    /// Other views read it, and the statement would not drop them too.
    #[error("it reads `{table}`: add CASCADE to drop it too")]
    ReadsDropped {
        /// The object that was to be dropped.
        table: String,
    },
}

/// The problem of a statement's text.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum SyntaxError {
    /// A quote is not closed.
    #[error("this {quote} is never closed")]
    OpenQuote {
        /// The quote.
        quote: char,
    },
    /// A comment is not closed.
    #[error("this comment is never closed")]
    OpenComment,
    /// The text contains no statement.
    #[error("there is no statement")]
    Empty,
    /// Another token is expected.
    #[error("expected {expected}, found {}", FoundToken(.found))]
    Unexpected {
        /// The expected token.
        expected: String,
        /// The token found; `None` for the end of the text.
        found: Option<String>,
    },
    /// An option is given twice.
    #[error("the option {option} comes twice")]
    OptionTwice {
        /// The name of the option.
        option: &'static str,
    },
    /// Subqueries, brackets or operators are nested too deep.
    #[error("a query is nested more than {most} deep here")]
    TooDeep {
        /// The limit of levels.
        most: usize,
    },
    /// The parser does not finish, because of an error somewhere in the query.
    #[error(
        "a query cannot be parsed in {steps} steps: look for an error inside of its innermost \
         brackets"
    )]
    TooManySteps {
        /// The limit of steps for a query of this length.
        steps: usize,
    },
    /// A query reads too many tables and subqueries.
    #[error(
        "a query has at most {most} tables and queries, those of WITH as often as it reads them"
    )]
    TooManyParts {
        /// The limit.
        most: usize,
    },
    /// A statement joins too many tables.
    #[error("a statement has at most {most} joins")]
    TooManyJoins {
        /// The limit.
        most: usize,
    },
    /// A SELECT has too many items.
    #[error("a SELECT lists, groups by and sorts by at most {most} expressions each")]
    TooManyItems {
        /// The limit.
        most: usize,
    },
    /// The tables of a FROM, or the list of a SELECT, have too many columns.
    #[error("the tables of a FROM, and the list of a SELECT, have at most {most} columns")]
    TooManyColumns {
        /// The limit.
        most: usize,
    },
    /// A GROUP BY has too many sets.
    #[error("a GROUP BY has at most {sets} sets, with {items} expressions together")]
    TooManySets {
        /// The limit of sets.
        sets: usize,
        /// The limit of expressions of all sets together.
        items: usize,
    },
    /// A window is named that is not defined.
    #[error("window `{name}` does not exist")]
    NoSuchWindow {
        /// The name of the window.
        name: String,
    },
    /// Two windows have one name.
    #[error("window `{name}` is defined twice")]
    WindowTwice {
        /// The name of the windows.
        name: String,
    },
    /// A window based on another one has a clause that it must not have.
    #[error("the {clause} of window `{name}` cannot be overridden")]
    WindowOverridden {
        /// The name of the other window.
        name: String,
        /// The clause.
        clause: &'static str,
    },
    /// A type does not exist.
    #[error("type `{name}` does not exist")]
    NoSuchType {
        /// The name as written.
        name: String,
    },
    /// A number is out of its bounds.
    #[error("{what} must be {bounds}, not {found}")]
    OutOfBounds {
        /// The name of the quantity.
        what: &'static str,
        /// The bounds.
        bounds: &'static str,
        /// The number found.
        found: String,
    },
    /// A parameter has no value.
    #[error("there is no value for {name}: {known} given")]
    NoParameter {
        /// The parameter as written: `$3`.
        name: String,
        /// The number of values.
        known: usize,
    },
    /// A name begins with the prefix of internal names.
    #[error("names that begin with the character U+0001 are reserved for the database")]
    InternalName,
    /// An error of the parser of queries.
    #[error("{message}")]
    Query {
        /// The parser's message.
        message: String,
    },
}

/// The problem of a time-series clause, or of a function's argument.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ClauseProblem {
    /// A bound of LIMIT is not a constant integer.
    #[error("LIMIT takes constant integers")]
    LimitBound,
    /// A bound of FETCH .. WITH TIES is negative.
    #[error("FETCH .. WITH TIES and its OFFSET must not be negative")]
    NegativeLimit,
    /// `LIMIT -m, n`: its lower bound counts from the end, its upper one from the start.
    #[error("LIMIT with a negative lower bound takes no positive upper bound")]
    LimitFromEndToStart,
    /// A clause needs a designated timestamp, and the rows have none.
    #[error("{clause} needs a designated timestamp: name one with (query) TIMESTAMP(column)")]
    NoDesignated {
        /// The clause.
        clause: &'static str,
    },
    /// LIMIT or OFFSET refers to a column, but must be the same for all rows.
    #[error("LIMIT and OFFSET take no columns")]
    LimitColumn,
    /// FOR UPDATE refers to rows that are not those of a table.
    #[error("{clause} {problem}")]
    RowLock {
        /// The clause.
        clause: &'static str,
        /// The problem.
        problem: &'static str,
    },
    /// FOR UPDATE names a relation that the query does not read.
    #[error("relation \"{relation}\" in {clause} clause not found in FROM clause")]
    RowLockRelation {
        /// The clause.
        clause: &'static str,
        /// The name of the relation.
        relation: String,
    },
    /// A frame of RANGE over times has a length without a unit.
    #[error("RANGE over times takes intervals: for example INTERVAL '{length} days'")]
    FrameWithoutUnit {
        /// The length as it is written.
        length: String,
    },
    /// A length of a window frame is negative.
    #[error("the length of a window frame must not be negative")]
    FrameSize,
    /// A function would make more values at a time than its limit allows.
    #[error("`{function}` would make more than {mebibytes} MiB of values at a time")]
    ValuesTooLarge {
        /// The function.
        function: String,
        /// The limit in MiB.
        mebibytes: u64,
    },
    /// A function would make values of a type that is too large.
    #[error(
        "`{function}` would make a type of more than {fields} fields, or of more than {levels} \
         levels: select fewer columns, or parts of them"
    )]
    TypeTooLarge {
        /// The function.
        function: String,
        /// The limit of fields in all levels.
        fields: usize,
        /// The limit of levels.
        levels: usize,
    },
    /// The types of the columns of a SELECT are too large together.
    #[error(
        "the types of the columns of a SELECT have at most {fields} fields within them together: \
         select fewer columns, or parts of them"
    )]
    TypesTooLarge {
        /// The limit.
        fields: usize,
    },
    /// An expression is too large when its parts are repeated.
    #[error(
        "an expression has more than {nodes} parts: COALESCE, NVL and BETWEEN repeat what is \
         within them; use a subquery for the inner ones"
    )]
    ExpressionTooLarge {
        /// The limit.
        nodes: usize,
    },
    /// The text of a type is too long, or nested too deep.
    #[error("`{function}` takes a type of at most {bytes} bytes with brackets {brackets} deep")]
    TypeText {
        /// The function.
        function: String,
        /// The limit of bytes.
        bytes: usize,
        /// The limit of brackets within each other.
        brackets: usize,
    },
    /// The window frame of an aggregate that keeps all its values is too large: the values are
    /// collected for each row.
    #[error(
        "`{function}` OVER takes a frame ROWS BETWEEN .. PRECEDING AND .. FOLLOWING of at most \
         {rows} rows"
    )]
    FrameTooLarge {
        /// The aggregate.
        function: String,
        /// The limit of rows in the frame.
        rows: u64,
    },
    /// Two texts are too long to be compared character by character.
    #[error(
        "`{function}` compares texts whose lengths multiplied are at most {steps}: shorten them, \
         for example with left()"
    )]
    TextsTooLong {
        /// The function.
        function: String,
        /// The limit of the product of the lengths.
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
        /// The limit of the product of the lengths.
        steps: u64,
    },
    /// A column that should be a designated timestamp is not a TIMESTAMP.
    #[error("column `{column}` is not a TIMESTAMP")]
    NotTimestamp {
        /// The column.
        column: String,
    },
    /// A time zone does not exist.
    #[error("time zone '{zone}' does not exist")]
    NoTimeZone {
        /// The name as written.
        zone: String,
    },
    /// A text is not an offset from UTC.
    #[error("'{offset}' is not an offset like '+01:30'")]
    Offset {
        /// The text as written.
        offset: String,
    },
    /// A text is not a length of time.
    #[error("'{stride}' is not a length of time like '15m': units are n U T s m h d w M y")]
    Stride {
        /// The text as written.
        stride: String,
    },
    /// A unit of time does not exist.
    #[error("'{unit}' is not a unit of time: units are n u U T s m h d w M y")]
    Unit {
        /// The unit as written.
        unit: String,
    },
    /// FROM or TO is not a timestamp.
    #[error("{bound} of SAMPLE BY takes a constant timestamp")]
    SampleBound {
        /// FROM or TO.
        bound: &'static str,
    },
    /// A query has both SAMPLE BY and GROUP BY.
    #[error("SAMPLE BY groups by itself: leave GROUP BY out")]
    SampleGrouped,
    /// A query with SAMPLE BY has no aggregate.
    #[error("SAMPLE BY takes columns and aggregates, and at least one aggregate")]
    SampleItems,
    /// FILL has one value for several aggregates, or the reverse.
    #[error("FILL has {values} values for {aggregates} aggregates")]
    FillCount {
        /// The number of values in FILL.
        values: usize,
        /// The number of aggregates in SELECT.
        aggregates: usize,
    },
    /// FILL(LINEAR) is used for a column that is not a number.
    #[error("FILL(LINEAR) takes numbers, and `{column}` is not a number")]
    FillLinear {
        /// The column.
        column: String,
    },
    /// A value in FILL is not of the column's type.
    #[error("FILL takes constants of the aggregate's type, and that of `{column}` has another")]
    FillValue {
        /// The column.
        column: String,
    },
    /// Keys of a time join have types that cannot be compared.
    #[error("the keys of a join must be of one type, not {left} and {right}")]
    KeyTypes {
        /// The type on the left side.
        left: String,
        /// The type on the right side.
        right: String,
    },
    /// A FILL would make too many rows.
    #[error("FILL would make {rows} rows, and the limit is {most}")]
    FillRows {
        /// The number of rows, as far as they were counted.
        rows: u64,
        /// The limit of rows.
        most: u64,
    },
    /// An operator has no meaning for values of these types.
    #[error("there is no {} {operator} {}", .types[0], .types[1])]
    Operands {
        /// The operator as written.
        operator: String,
        /// The types of the left and the right side.
        types: Box<[String; 2]>,
    },
    /// The types of an operator's sides do not tell which one is meant.
    #[error(
        "operator is not unique: {} {operator} {}: cast the parameter, as in $1::INT",
        .types[0], .types[1]
    )]
    AmbiguousOperator {
        /// The operator as written.
        operator: String,
        /// The types of the left and the right side.
        types: Box<[String; 2]>,
    },
    /// A function has no meaning for values of this type.
    #[error("{function} does not take {ty}")]
    Argument {
        /// The name of the function, or a unary operator.
        function: String,
        /// The type.
        ty: String,
    },
    /// A time is out of the range of its type.
    #[error("a time is out of the range of its type")]
    TimeRange,
    /// A time pattern has percent signs.
    #[error(
        "'{pattern}' is not a pattern of PostgreSQL: write %Y-%m-%d %H:%M:%S as \
         YYYY-MM-DD HH24:MI:SS"
    )]
    PercentPattern {
        /// The pattern as written.
        pattern: String,
    },
    /// A time pattern means one thing in PostgreSQL, and another in QuestDB.
    #[error(
        "'{pattern}' has minutes for QuestDB where PostgreSQL has months: write yyyy-MM-dd \
         HH:mm:ss for the one, YYYY-MM-DD HH24:MI:SS for the other"
    )]
    AmbiguousPattern {
        /// The pattern as written.
        pattern: String,
    },
    /// A function of QuestDB has a time pattern of PostgreSQL.
    #[error("'{pattern}' is a pattern of PostgreSQL: write to_char(..), or yyyy-MM-dd HH:mm:ss")]
    PostgresPattern {
        /// The pattern as written.
        pattern: String,
    },
    /// A field of a time pattern has too many letters.
    #[error("a field of a time pattern has at most {most} letters, and one has more `{letter}`")]
    PatternField {
        /// The letter.
        letter: char,
        /// The limit of letters.
        most: usize,
    },
    /// A text does not match its time pattern.
    #[error("'{text}' does not match the time pattern '{pattern}'{reason}")]
    TimeByPattern {
        /// The text.
        text: String,
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: PatternProblem,
    },
    /// A pattern needs too much memory when it is compiled.
    #[error(
        "a pattern is compiled to at most {bytes} bytes, and this one needs more: shorten it, or \
         its counted repetitions"
    )]
    PatternTooLarge {
        /// The limit.
        bytes: usize,
    },
    /// A pattern is too long, or has too many classes.
    #[error(
        "a regular expression has at most {bytes} bytes, with classes such as \\w and [[:alpha:]] \
         counted as 256 to 1024 bytes: shorten it"
    )]
    PatternTooLong {
        /// The limit.
        bytes: usize,
    },
    /// A regular expression is invalid.
    #[error("regex parse error: {reason}")]
    RegexpPattern {
        /// The message of the regex parser.
        reason: String,
    },
    /// A function has no result for an argument.
    #[error("{function} does not take {value}: {what}")]
    ArgumentValue {
        /// The name of the function.
        function: String,
        /// The argument as written.
        value: String,
        /// The values that it takes.
        what: &'static str,
    },
    /// A call of `width_bucket` has no result.
    #[error("width_bucket: {what}")]
    WidthBucket {
        /// The problem.
        what: &'static str,
    },
    /// A call of `format` has no result.
    #[error("format: {what}")]
    FormatText {
        /// The problem.
        what: &'static str,
    },
    /// A text is not an INTERVAL.
    #[error("'{text}' is not a valid INTERVAL: expected one like '1 day 02:30:00' or 'P1DT2H30M'")]
    IntervalText {
        /// The text.
        text: String,
    },
}

/// The reason why a text does not match a time pattern of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternProblem {
    /// The text has no value for the field.
    Form {
        /// The field.
        field: &'static str,
    },
    /// Two fields contradict each other.
    Conflict {
        /// The later of the two fields.
        field: &'static str,
    },
    /// The date or time does not exist.
    NotInCalendar,
    /// The field can be formatted, but not parsed.
    FormatOnly {
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for PatternProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternProblem::Form { field } => write!(f, ": {field} finds no value"),
            PatternProblem::Conflict { field } => {
                write!(f, ": {field} contradicts an earlier field")
            }
            PatternProblem::NotInCalendar => f.write_str(": there is no such date or time"),
            PatternProblem::FormatOnly { field } => {
                write!(f, ": {field} can be formatted, but not parsed")
            }
        }
    }
}

/// The problem of SET, or of the name of a setting.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum SettingProblem {
    /// There is no setting of this name.
    #[error("there is no setting `{name}`")]
    Unknown {
        /// The name as written.
        name: String,
    },
    /// The setting cannot be changed.
    #[error("{name} cannot be changed")]
    Fixed {
        /// The name of the setting.
        name: String,
    },
    /// The name is a key of the configuration.
    #[error("{name} is a key of the configuration, and cannot be set by a statement")]
    OfConfiguration {
        /// The name of the key.
        name: String,
    },
    /// The setting does not take the value.
    #[error("{name} cannot be '{value}': it takes {expected}")]
    Value {
        /// The name of the setting.
        name: String,
        /// The value as written.
        value: String,
        /// The values that it takes.
        expected: String,
    },
    /// The time zone is not UTC.
    #[error(
        "TimeZone cannot be '{zone}': times are read and shown in UTC, write ts AT TIME ZONE \
         '{zone}' or to_timezone(ts, '{zone}')"
    )]
    NotUtc {
        /// The time zone as written.
        zone: String,
    },
    /// The name and the value of a setting are too long.
    #[error("{name} is longer than {} bytes, with its value", limits::SETTING_BYTES)]
    TooLong {
        /// The name of the setting.
        name: String,
    },
    /// The session has too many settings.
    #[error("{} settings are set, the maximum of a session", limits::SESSION_SETTINGS)]
    TooMany,
    /// The settings of the session are too long together.
    #[error(
        "the settings of the session exceed {} bytes, with their names",
        limits::SESSION_SETTING_BYTES
    )]
    TooManyBytes,
}

/// The reason why a text is not a valid value of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum TextProblem {
    /// The text does not have the form of such values.
    #[error("expected {expected}")]
    Form {
        /// The expected form.
        expected: &'static str,
    },
    /// The date or time does not exist.
    #[error("there is no such date or time")]
    NotInCalendar,
    /// The value is out of the range of the type.
    #[error("out of range")]
    OutOfRange,
    /// The text has too many characters.
    #[error("it has more than {length} characters")]
    TooLong {
        /// The limit of characters.
        length: u64,
    },
    /// A date has no time of day.
    #[error("a day has no time of day, cast the column to TIMESTAMP")]
    HasTimeOfDay,
    /// An interval has too many windows.
    #[error("more than {} windows", WINDOWS_MAX)]
    TooManyWindows,
}

struct FoundToken<'a>(&'a Option<String>);

impl fmt::Display for FoundToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(f, "`{text}`"),
            None => f.write_str("the end"),
        }
    }
}
