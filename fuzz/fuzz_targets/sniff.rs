//! What a text file is, from samples.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::sniff(bytes));
