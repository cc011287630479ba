//! Timestamp formats, and texts parsed by them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::timestamp(bytes));
