//! The program as its users see it: arguments in, rows, messages and exit codes out.
//!
//! A property that can be tested below the command line is tested there; these tests cover the
//! wiring, and behaviour of the whole process: signals, locks, pipes, a full disk.

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
