//! Benchmark suites that speak only the wire, like any user of a database.
#![forbid(unsafe_code)]
