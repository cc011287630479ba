//! Tests through the public interface of the crate. `plain` reads text in the simplest way, for
//! comparison with the pipeline; `slow` does the same for single cells.

#![cfg(test)]

mod slow;
mod slow_line;
mod plain;
mod plain_tests;
mod parse;
mod timestamp;
mod line;
mod source;
mod world;
mod import;
mod crash;
mod parquet;
mod parquet_casts;
mod parquet_damage;
mod parquet_times;
mod fuzz;
