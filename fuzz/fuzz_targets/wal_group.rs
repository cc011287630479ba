//! A group of the log behind its checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::wal_group(bytes));
