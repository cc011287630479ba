//! The import from files to rows: whatever the path through the pipeline, the table is the one
//! that a plain reader with one thread would make.

pub(crate) mod random;
pub(crate) mod hook;
mod cells;
mod text;
mod guesses;
mod headers;
mod several;
mod quotes;
mod equality;
mod pieces;
mod sources;
mod tables;
mod bad_input;
mod designated;
mod memory;
mod notation;
mod cancel;
