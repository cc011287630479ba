//! One cell of text as a value of every type.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::cell(bytes));
