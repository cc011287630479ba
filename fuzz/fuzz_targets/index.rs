//! The structural index by all kernels, of a whole text and of one split in two.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::index(bytes));
