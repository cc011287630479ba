//! Errors of building and evaluating filters.

#![expect(missing_docs, reason = "the message of a variant is its documentation")]

use thiserror::Error;
use tidegate_model::{ColumnType, Value};

/// The result of a function of this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an expression cannot become a filter, or the evaluation of a filter fails.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    #[error("the filter refers to column {column}, but there are {columns} columns")]
    NoSuchColumn { column: usize, columns: usize },
    #[error("type {} is given where {} is expected", given.sql(), wanted.sql())]
    Mismatch { wanted: ColumnType, given: ColumnType },
    #[error("{value:?} is not a value of type {}", ty.sql())]
    NotOfType { value: Value, ty: ColumnType },
    #[error("{operation} is not defined for {}", ty.sql())]
    Unsupported { operation: &'static str, ty: ColumnType },
    #[error("{} cannot be cast to {}", from.sql(), to.sql())]
    NoCast { from: ColumnType, to: ColumnType },
    #[error("{operation} has no operands")]
    NoOperands { operation: &'static str },
    #[error("the filter is nested deeper than {max} levels")]
    TooDeep { max: usize },
    #[error("division by zero")]
    DivideByZero,
    #[error("{left} / {right} is out of range of {}", ty.sql())]
    Overflow { left: i128, right: i128, ty: ColumnType },
    #[error("{value:?} is out of range of {}", to.sql())]
    CastRange { value: Value, to: ColumnType },
    #[error("cancelled")]
    Cancelled,
    #[error("the page frame has {given} columns, but the filter expects {wanted}")]
    FrameColumns { wanted: usize, given: usize },
    #[error("filter column {column} has an encoding that type {} cannot have", ty.sql())]
    FrameShape { column: usize, ty: ColumnType },
    #[error("filter column {column}: code {code} is outside of a dictionary of {count} values")]
    Code { column: usize, code: u64, count: usize },
    #[error("filter column {column}: symbol {symbol} is not in the dictionary of the table")]
    Symbol { column: usize, symbol: u32 },
    #[error("filter column {column}: its string table is damaged")]
    StringTable { column: usize },
}

/// The class of an error: what has to be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The request, by the caller.
    Caller,
    /// Stored bytes: they are not those that were written.
    Corruption,
}

impl Error {
    /// The class of this error.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::NoSuchColumn { .. }
            | Error::Mismatch { .. }
            | Error::NotOfType { .. }
            | Error::Unsupported { .. }
            | Error::NoCast { .. }
            | Error::NoOperands { .. }
            | Error::TooDeep { .. }
            | Error::DivideByZero
            | Error::Overflow { .. }
            | Error::CastRange { .. }
            | Error::Cancelled
            | Error::FrameColumns { .. } => Class::Caller,
            Error::FrameShape { .. }
            | Error::Code { .. }
            | Error::Symbol { .. }
            | Error::StringTable { .. } => Class::Corruption,
        }
    }
}
