//! The program from its command line, against servers: our sink, some that misbehave, and the real
//! PostgreSQL, QuestDB, InfluxDB and ClickHouse where they are installed.
#![cfg(test)]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

mod command;
mod servers;
mod usage;
mod generate;
mod load;
mod bad_input;
mod postgres;
mod questdb;
mod influx;
mod clickhouse;
