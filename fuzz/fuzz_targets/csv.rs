//! A text imported by the whole pipeline; the result is compared with the plain reader.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::csv(bytes));
