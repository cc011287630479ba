//! A segment file with valid checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::segment(bytes));
