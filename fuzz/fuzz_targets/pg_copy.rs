//! The bytes of a binary COPY, cut anywhere.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::pg_copy(bytes));
