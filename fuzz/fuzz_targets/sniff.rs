//! Detection of the dialect and the columns of a text file, from samples.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::sniff(bytes));
