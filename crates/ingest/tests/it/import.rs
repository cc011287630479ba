//! Imports from files to rows: whatever the path through the pipeline, the table is the same as
//! that of a plain reader with one thread.

pub(crate) mod random;
pub(crate) mod hook;
mod cells;
mod text;
mod guesses;
mod headers;
mod several;
mod quotes;
mod equality;
mod chunks;
mod sources;
mod tables;
mod bad_input;
mod designated;
mod memory;
mod notation;
mod cancel;
