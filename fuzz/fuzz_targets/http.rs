//! HTTP requests, split at any byte.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::http_request(bytes));
