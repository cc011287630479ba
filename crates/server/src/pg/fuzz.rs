//! Replay of the committed corpora through the bodies of the fuzz targets for messages and for
//! binary COPY (STYLE 39). Fuzzing itself: `fuzz/README.md`.

use std::path::Path;

use tidegate_platform::{Disk, RealDisk};

use super::{fuzz_copy_target, fuzz_target};

/// Runs a target over its corpus, cut in many ways, and over inputs that are in no corpus.
fn replay(corpus: &str, check: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed").join(corpus);
    let entries = RealDisk.list(&dir).unwrap();
    assert!(!entries.is_empty(), "{}", dir.display());
    for entry in entries {
        let path = dir.join(&entry.name);
        let bytes = RealDisk.read(&path).unwrap();
        for cut in 0..40 {
            let bytes = [&bytes[..1], &[cut], &bytes[2..]].concat();
            let outcome = std::panic::catch_unwind(|| check(&bytes));
            assert!(outcome.is_ok(), "{}, cut {cut}", path.display());
        }
    }
    // Empty and short inputs are in no corpus.
    for length in 0..40_u8 {
        check(&vec![0; length.into()]);
        check(&(0..length).map(|byte| byte.wrapping_mul(37)).collect::<Vec<u8>>());
    }
}

#[test]
fn messages_are_read_the_same_wherever_they_are_cut() {
    replay("pg", fuzz_target::check);
}

#[test]
fn copied_rows_are_read_the_same_wherever_they_are_cut() {
    replay("pg_copy", fuzz_copy_target::check);
}
