//! A Parquet file of any bytes, imported.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tidegate_fuzz::let_libraries_panic(), |bytes: &[u8]| {
    tidegate_fuzz::parquet(bytes);
});
