//! Replay of the committed corpus through the body of the fuzz target for requests (STYLE 39).
//! Fuzzing itself: `fuzz/README.md`.

use std::path::Path;

use tidegate_platform::{Disk, RealDisk};

use super::fuzz_targets::http::check;

#[test]
fn requests_are_read_the_same_wherever_they_are_cut() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/http");
    let entries = RealDisk.list(&dir).unwrap();
    assert!(!entries.is_empty(), "{}", dir.display());
    for entry in entries {
        let path = dir.join(&entry.name);
        let bytes = RealDisk.read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| check(&bytes));
        assert!(outcome.is_ok(), "{}", path.display());
    }
    // Empty and short inputs are not in the corpus.
    for length in 0..40_u8 {
        check(&vec![0; length.into()]);
        check(&(0..length).map(|byte| byte.wrapping_mul(37)).collect::<Vec<u8>>());
    }
}
