//! Filters over page frames: WHERE as a small expression language, evaluated on encoded values.
//!
//! ```text
//! Expr --Filter::new--> Filter --lower(page frame)--> FrameFilter --evaluate--> Selection
//!        once a query            once a page frame       zone by zone            a bit a row
//! ```
//!
//! `Filter::new` checks types and divides the condition into conjuncts. `Filter::lower` translates
//! each of them into the codes of one page frame, in microseconds. `evaluate` tests the bounds of
//! zones first, and runs kernels on the zones that these do not decide. Conditions that no kernel
//! supports are compiled (`JitCache`), and those that cannot be compiled are interpreted; the
//! interpreter is the oracle of all tests.
//!
//! `aggregate` aggregates the rows that are left, on encoded values too, and `grouping` finds their
//! groups if these are too many for arrays by code.
//!
//! Lifetimes of the objects that a caller keeps: a `JitCache` for the process, a `Filter` for the
//! query, an `AdaptiveOrder` and a `Selection` for each worker, a `LowerCache` for each segment of
//! the query.
//!
//! The crate answers which rows of a page frame match. Not here: pruning of segments and
//! partitions, and building an `Expr` from SQL (`query`); decoding (`storage`). No I/O, no clock,
//! no threads.

#![warn(missing_docs)]

pub mod error;
pub mod ir;
mod filter;
mod lower;
mod code_set;
mod zones;
mod evaluate;
mod selection;
mod statistics;
pub mod kernel;
pub mod roofline;
pub mod aggregate;
pub mod grouping;
mod jit;
mod interpret;
mod ranges;
mod column;
mod text;
mod pattern;
mod code_automaton;
mod scalar;

pub use error::{Class, Error, Result};
pub use evaluate::Request;
pub use filter::Filter;
pub use ir::{ArithmeticOp, CompareOp, Expr, Literal};
pub use jit::JitCache;
pub use kernel::SimdLevel;
pub use lower::{Context, FrameFilter, LowerCache};
pub use pattern::Pattern;
pub use selection::{SELECTION_WORDS, Selection};
pub use statistics::{AdaptiveOrder, ConjunctStatistics, Method};
pub use text::{LengthUnit, NoSymbols, SymbolText};

/// The types that threads share or send to each other.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Filter>();
    is_shared::<FrameFilter<'_>>();
    is_shared::<Context<'_>>();
    is_shared::<LowerCache>();
    is_shared::<JitCache>();
    is_shared::<AdaptiveOrder>();
};
