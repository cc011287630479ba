//! The messages of errors: on one line, without details for developers.

use std::fmt;

use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use tidegate_filter::Error as FilterError;
use tidegate_model::Value;

use super::pattern::pattern_problem;
use super::{TextProblem, innermost, is_about_arguments};
use crate::position::Position;

/// The beginning of DataFusion's message about `a.b` where `a` is a column.
const NO_FIELDS: &str = "Cannot access field at argument";

/// The beginning of DataFusion's message about an aggregate that takes no rows back.
const NO_SLIDING: &str = "Aggregate can not be used as a sliding accumulator";

/// The message of a filter's error, the same as that of the plan without the filter.
pub(super) struct FilterMessage<'a>(pub(super) &'a FilterError);

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

/// The prefix `line 1, column 8: `, or nothing.
pub(super) struct At(pub(super) Option<Position>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |position| write!(f, "{position}: "))
    }
}

pub(super) struct Similar<'a>(pub(super) &'a Option<String>);

impl fmt::Display for Similar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |name| write!(f, ", is `{name}` meant?"))
    }
}

/// DataFusion's message without the chain of prefixes around it, on one line.
pub(super) struct Innermost<'a>(pub(super) &'a DataFusionError);

impl fmt::Display for Innermost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = innermost(self.0);
        if let Some(problem) = pattern_problem(error) {
            return problem.fmt(f);
        }
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
            return write_arguments(&message, f);
        }
        if message.starts_with(NO_FIELDS) {
            return f.write_str(
                "a column of this type has no fields; where `a` of `a.b` is also a table, the \
                 table `a` has no column `b`",
            );
        }
        if message.starts_with(NO_SLIDING) {
            let call = message.split_once(": ").map_or("", |(_, call)| call);
            let function = call.split('(').next().unwrap_or_default();
            return write!(
                f,
                "`{function}` has no moving frames; its frame can begin at UNBOUNDED PRECEDING"
            );
        }
        if let DataFusionError::ExecutionJoin(join) = error
            && join.is_panic()
        {
            // The message of the panic itself is on standard error.
            return f.write_str("internal error: the statement has panicked");
        }
        if matches!(error, DataFusionError::Internal(_)) {
            f.write_str("internal error: ")?;
        }
        f.write_str(&one_line(&message))
    }
}

/// Writes the message about types that a function or an operator does not take.
fn write_arguments(message: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(rest) = message.strip_prefix("could not cast array of type ") {
        let ty = rest.split(" to arrow").next().unwrap_or_default();
        return write!(f, "a function does not take values of type {ty}");
    }
    if let Some(ty) = message.strip_prefix("Min/Max accumulator not implemented for type ") {
        return write!(f, "`min` and `max` do not take values of type {}", one_line(ty));
    }
    if let Some(types) = message.strip_prefix("Failed to coerce types ") {
        return write!(f, "there is no operator for {}", one_line(types));
    }
    let function = message.split('\'').nth(1).unwrap_or_default();
    write!(f, "function `{function}` does not take arguments of these types")?;
    match argument_types(message) {
        Some(types) => write!(f, ": {types}"),
        None => Ok(()),
    }
}

/// The argument types of a call that no signature takes, by their names in SQL.
fn argument_types(message: &str) -> Option<String> {
    let (_, call) = message.split_once("argument types '")?;
    let (call, _) = call.split_once('\'')?;
    let types = call.split_once('(')?.1.strip_suffix(')')?;
    let mut named = String::new();
    let mut rest = types;
    while let Some(start) = rest.find(|sign: char| sign.is_ascii_alphanumeric()) {
        named.push_str(&rest[..start]);
        let end = rest[start..].find(|sign: char| !sign.is_ascii_alphanumeric());
        let end = end.map_or(rest.len(), |end| start + end);
        let word = &rest[start..end];
        rest = &rest[end..];
        named.push_str(type_in_sql(word));
        // The unit and the zone of a timestamp, and the fields of an interval, are left out.
        if matches!(word, "Timestamp" | "Interval" | "Duration" | "Time64")
            && let Some(end) = rest.find(')').filter(|_| rest.starts_with('('))
        {
            rest = &rest[end + 1..];
        }
    }
    named.push_str(rest);
    (!named.is_empty()).then_some(named)
}

fn type_in_sql(arrow: &str) -> &str {
    match arrow {
        "Utf8" | "Utf8View" | "LargeUtf8" => "VARCHAR",
        "Boolean" => "BOOLEAN",
        "Int8" => "TINYINT",
        "Int16" => "SMALLINT",
        "Int32" => "INT",
        "Int64" => "BIGINT",
        "UInt8" => "UTINYINT",
        "UInt16" => "USMALLINT",
        "UInt32" => "UINT",
        "UInt64" => "UBIGINT",
        "Float32" => "FLOAT",
        "Float64" => "DOUBLE",
        "Decimal128" | "Decimal256" => "DECIMAL",
        "Date32" => "DATE",
        "Timestamp" => "TIMESTAMP",
        "Interval" | "Duration" => "INTERVAL",
        "Binary" | "BinaryView" | "LargeBinary" => "BINARY",
        "Null" => "NULL",
        other => other,
    }
}

/// The message of an error and of its causes.
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

/// The lines of a message joined into one, without the backtrace and the request for a bug report
/// that DataFusion may have appended.
fn one_line(message: &str) -> String {
    let text = message.split("\n\nbacktrace:").next().unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let kept = lines.take_while(|line| !line.starts_with("This issue was likely caused by a bug"));
    let joined = kept.collect::<Vec<_>>().join(" ");
    joined.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use crate::error::{Condition, Error};

    use super::*;

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
