//! The structural index: all kernels, whole and cut in two.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::index(bytes));
