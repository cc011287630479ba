//! Filters over page frames: WHERE as a small language, worked on values as they are stored.
//!
//! ```text
//! Expr --Filter::new--> Filter --lower(page frame)--> FrameFilter --evaluate--> Selection
//!        once a query            once a page frame       zone by zone            a bit a row
//! ```
//!
//! `Filter::new` checks types and takes the condition apart into conjuncts. `Filter::lower`
//! translates each of them into the codes of one page frame, in microseconds. `evaluate` looks at
//! the bounds of zones first, and runs kernels where these do not decide. What no kernel covers is
//! compiled (`JitCache`), and what cannot be compiled either, the interpreter does; it is the
//! oracle of all tests.
//!
//! `aggregate` folds the rows that are left, again as they are stored.
//!
//! Lifetimes of what a caller keeps: a `JitCache` for the process, a `Filter` for the query, an
//! `Adapt` and a `Selection` for each worker, a `LowerCache` for each segment of the query.
//!
//! Useful for: rows of a page frame that match. Not here: pruning of segments and partitions, and
//! building an `Expr` from SQL (`query`); decoding (`storage`). No I/O, no clock, no threads.

#![warn(missing_docs)]

pub mod error;
pub mod ir;
mod filter;
mod lower;
mod zones;
mod evaluate;
mod selection;
mod statistics;
pub mod kernel;
pub mod roofline;
pub mod aggregate;
mod jit;
mod interpret;
mod ranges;
mod column;
mod text;
mod pattern;
mod scalar;

pub use error::{Class, Error, Result};
pub use evaluate::{FrameFilter, Request};
pub use filter::Filter;
pub use ir::{ArithmeticOp, CompareOp, Expr, Literal};
pub use jit::JitCache;
pub use kernel::Level;
pub use lower::{Context, LowerCache};
pub use pattern::Pattern;
pub use selection::{SELECTION_WORDS, Selection};
pub use statistics::{Adapt, ConjunctStatistics, Method};
pub use text::{NoSymbols, SymbolText};

/// What threads share, and what they hand to each other.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Filter>();
    is_shared::<FrameFilter<'_>>();
    is_shared::<Context<'_>>();
    is_shared::<LowerCache>();
    is_shared::<JitCache>();
    is_shared::<Adapt>();
};
