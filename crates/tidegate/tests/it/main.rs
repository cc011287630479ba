//! The program as its users see it: arguments in, rows, messages and exit codes out.
//!
//! What can be tested below the command line is tested there; here is the wiring, and what only a
//! whole process shows: signals, locks, pipes, a full disk.

#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests are about files on a real disk"
)]
#![forbid(unsafe_code)]

mod world;
mod reasons;
mod usage;
mod user;
mod round_trip;
mod import;
mod bad_input;
mod sql;
mod aggregates;
mod inspect;
mod safety;
mod damage;
mod bench;
mod serve;
mod demo;
