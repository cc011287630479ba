//! The engine from outside: statements on databases on simulated disks.
//!
//! Answers are compared with lines of data, or with slow and simple implementations of the same.
//! Not here: SQL that `crates/tidegate/tests/slt` covers, and protocols (`server`).

#![cfg(test)]

use std::alloc::System;

use tidegate_platform::CountingAllocator;

mod fixture;
mod statements;
mod ddl;
mod rows;
mod row_changes;
mod transactions;
mod overtaken;
mod faults;
mod copy;
mod catalog;
mod views;
mod running;
mod plan_cache;
mod merge;
mod pushdown;
mod long_texts;
mod timeseries;
mod random_queries;

/// Counts for groups of threads, as that of the program does.
#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);
