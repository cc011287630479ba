//! The server from outside: PostgreSQL's protocol and HTTP over connections in memory, on
//! databases on simulated disks.
//!
//! Conversations and requests are lines of data: the sent ones, and the expected answers. Not here:
//! processes, signals, real sockets, TLS and other programs (`crates/tidegate/tests/it/serve`), and
//! the results of statements (`crates/tidegate/tests/slt`).

#![cfg(test)]

use std::alloc::System;

use tidegate_platform::CountingAllocator;

mod fixture;
mod http;
mod pg;
mod users;

/// Counts for the lanes of the servers, as that of the program does.
#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);
