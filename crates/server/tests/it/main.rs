//! The server from outside: PostgreSQL's protocol and HTTP over connections in memory, on
//! databases on simulated disks.
//!
//! Conversations and requests are lines of data: the sent ones, and the expected answers. Not here:
//! processes, signals, real sockets, TLS and other programs (`crates/tidegate/tests/it/serve`), and
//! the results of statements (`crates/tidegate/tests/slt`).

#![cfg(test)]

mod fixture;
mod http;
mod pg;
mod users;
