//! The catalog: names and ids of tables.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::catalog(bytes));
