//! A group of WAL records with valid checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::wal_group(bytes));
