//! Generation of rows into files.

use std::fs;

use tempfile::tempdir;

use crate::command::{SMALL, generated, process, tsbs};

#[test]
fn a_file_is_the_same_with_any_number_of_threads() {
    for use_case in ["cpu-only", "cpu-single", "devops", "devops-generic", "iot"] {
        let dir = tempdir().unwrap();
        let flags = format!("--use-case {use_case} {SMALL} --format questdb");
        let (_, one) = generated(&dir, &format!("{flags} --threads 1"));
        let (_, many) = generated(&dir, &format!("{flags} --threads 4"));
        assert!(!one.is_empty() && one == many, "{use_case}");
    }
}

#[test]
fn standard_output_gets_what_a_file_gets() {
    let dir = tempdir().unwrap();
    let flags = format!("--use-case iot {SMALL} --format questdb");
    let (_, bytes) = generated(&dir, &flags);
    let ended = process(&format!("generate {flags}"), b"");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out.as_bytes() == bytes);
}

#[test]
fn columns_go_into_a_directory() {
    let dir = tempdir().unwrap();
    for format in ["csv", "parquet"] {
        let path = dir.path().join(format);
        let flags = format!("--use-case devops {SMALL} --format {format}");
        tsbs(&format!("generate {flags} --file {}", path.display())).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 9);
        let error = tsbs(&format!("generate {flags}")).unwrap_err();
        let expected =
            format!("--format {format} makes several files; --file names the directory for them");
        assert_eq!(error, expected);
    }
}

#[test]
fn flags_that_mean_nothing_are_refused() {
    for (flags, expected) in [
        ("--scale 0", "--scale 0 makes no rows; it must be at least 1"),
        (
            "--timestamp-end 2015-01-01T00:00:00Z",
            "--timestamp-end 2015-01-01T00:00:00Z is before --timestamp-start 2016-01-01T00:00:00Z",
        ),
        ("--log-interval 0s", "--log-interval 0 is not valid: it must be above 0"),
        ("--log-interval soon", "`soon` is not a duration such as 10s, 1m30s or 500ms"),
        (
            "--timestamp-start yesterday",
            "`yesterday` is not a time such as 2016-01-01T00:00:00Z, now or now-24h",
        ),
        ("--interleaved-generation-group-id 1", "there is no interleaved group 1 of 1"),
        ("--use-case weather", "invalid value 'weather' for '--use-case"),
        ("--format xml", "invalid value 'xml' for '--format"),
    ] {
        let format = if flags.contains("--format") { "" } else { "--format questdb" };
        let error = tsbs(&format!("generate {format} {flags}")).unwrap_err();
        assert!(error.contains(expected), "{flags}: {error}");
    }
}

#[test]
fn a_full_disk_is_an_error_that_says_how_far_it_came() {
    let error = tsbs(&format!("generate {SMALL} --format questdb --file /dev/full")).unwrap_err();
    assert!(error.starts_with("write /dev/full, after 0 bytes: No space left"), "{error}");
    let dir = tempdir().unwrap();
    for format in ["csv", "parquet"] {
        std::os::unix::fs::symlink("/dev/full", dir.path().join(format!("cpu.{format}"))).unwrap();
        let place = dir.path().display();
        let error = tsbs(&format!("generate {SMALL} --format {format} --file {place}"));
        let error = error.unwrap_err();
        assert!(error.starts_with(&format!("write {place}/cpu.{format}")), "{error}");
        assert!(error.contains("No space left"), "{error}");
    }
    let error = tsbs("generate --format questdb --file /nowhere/at/all").unwrap_err();
    assert!(error.starts_with("make /nowhere/at/all: No such file"), "{error}");
}

#[test]
fn the_seed_zero_takes_another_one_each_time() {
    let dir = tempdir().unwrap();
    let flags = "--seed 0 --scale 2 --timestamp-end 2016-01-01T00:01:00Z --format questdb";
    let (_, one) = generated(&dir, flags);
    let (_, other) = generated(&dir, flags);
    assert_ne!(one, other);
}
