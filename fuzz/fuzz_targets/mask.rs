//! The deletion vector of a segment.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::mask(bytes));
