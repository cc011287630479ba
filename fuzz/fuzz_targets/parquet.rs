//! An import of a Parquet file of any bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(init: tidegate_fuzz::let_libraries_panic(), |bytes: &[u8]| {
    tidegate_fuzz::parquet(bytes);
});
