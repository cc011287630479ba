//! Paths and patterns on a real disk, whose directories and links they depend on.

use std::path::{Path, PathBuf};

use tidegate_ingest::source::expand_paths;
use tidegate_platform::{Disk, OpenMode, RealDisk};

/// A directory with these files.
fn folder(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = RealDisk;
    for file in files {
        let path = folder.path().join(file);
        disk.create_dir_all(path.parent().expect("a folder")).expect("made");
        disk.open(&path, OpenMode::CreateNew).expect("made");
    }
    folder
}

/// The paths without the directory, or the error with `DIR` in its place.
fn expanded(folder: &Path, patterns: &[&str]) -> String {
    let text = folder.to_str().expect("UTF-8");
    let patterns: Vec<String> =
        patterns.iter().map(|pattern| format!("{text}/{pattern}")).collect();
    match expand_paths(&patterns) {
        Ok(expanded) => {
            let names = |paths: &[PathBuf]| {
                let names = paths.iter().map(|path| path.strip_prefix(folder).expect("inside"));
                names.map(|name| name.display().to_string()).collect::<Vec<_>>().join(" ")
            };
            let again = names(&expanded.repeated);
            let again = if again.is_empty() { again } else { format!(" again: {again}") };
            let hidden = names(&expanded.left_out);
            let hidden = if hidden.is_empty() { hidden } else { format!(" without: {hidden}") };
            names(&expanded.paths) + &again + &hidden
        }
        Err(error) => error.to_string().replace(text, "DIR"),
    }
}

#[test]
fn patterns_match_files_in_byte_order() {
    let folder = folder(&["a-b.csv", "a/b.csv", "a.csv", "B.csv", "a/c/d.csv", "x.txt", "a1.csv"]);
    let check = |patterns: &[&str], expected: &str| {
        assert_eq!(expanded(folder.path(), patterns), expected, "{patterns:?}");
    };
    check(&["*.csv"], "B.csv a-b.csv a.csv a1.csv");
    check(&["**/*.csv"], "B.csv a-b.csv a.csv a/b.csv a/c/d.csv a1.csv");
    check(&["a?.csv"], "a1.csv");
    check(&["[Bx].*"], "B.csv x.txt");
    check(&["x.txt", "*.csv"], "x.txt B.csv a-b.csv a.csv a1.csv");
    check(&["*"], "B.csv a-b.csv a.csv a1.csv x.txt");
    check(&[], "");
}

/// A file that was named twice was imported once, without a note.
#[test]
fn a_file_is_named_once_or_matched_with_a_notice() {
    let folder = folder(&["a.csv", "b.csv"]);
    let check = |patterns: &[&str], expected: &str| {
        assert_eq!(expanded(folder.path(), patterns), expected, "{patterns:?}");
    };
    let twice = "DIR/a.csv is named twice: its rows would be imported once";
    check(&["a.csv", "b.csv", "a.csv"], twice);
    check(&["a.csv", "./a.csv"], &twice.replace("a.csv", "./a.csv"));
    check(&["a.csv", "*.csv"], "a.csv b.csv again: a.csv");
    check(&["*.csv", "a*", "b*"], "a.csv b.csv again: a.csv b.csv");
    check(&["*.csv", "b.csv"], "a.csv b.csv again: b.csv");
}

// The files `_metadata` and `_common_metadata` that Dask and Spark write beside Parquet files have
// no rows, and failed the import of a directory.
#[test]
fn names_of_other_programs_are_matched_only_if_they_are_meant() {
    let files = ["_metadata", ".a.crc", "a.csv", "_b.csv", "_tmp/c.csv", "d/_e/f.csv", "g/_h.csv"];
    let folder = folder(&files);
    let check = |patterns: &[&str], expected: &str| {
        assert_eq!(expanded(folder.path(), patterns), expected, "{patterns:?}");
    };
    check(&["*"], "a.csv without: .a.crc _b.csv _metadata");
    check(&["**/*.csv"], "a.csv without: _b.csv _tmp/c.csv d/_e/f.csv g/_h.csv");
    check(&["*", "_metadata"], "a.csv _metadata without: .a.crc _b.csv");
    check(&["_*.csv"], "_b.csv");
    check(&["_tmp/*"], "_tmp/c.csv");
    check(&["d/_*/*.csv"], "d/_e/f.csv");
    let only = "`DIR/g/*` matches only names that begin with `_` or `.`, such as DIR/g/_h.csv: \
                name them";
    check(&["g/*"], only);
}

#[test]
fn a_path_that_exists_is_no_pattern() {
    let folder = folder(&["a[1].csv", "a1.csv"]);
    assert_eq!(expanded(folder.path(), &["a[1].csv"]), "a[1].csv");
}

#[test]
fn patterns_without_files_and_directories_are_errors() {
    let folder = folder(&["a/b.csv"]);
    let check = |pattern: &str, expected: &str| {
        assert_eq!(expanded(folder.path(), &[pattern]), expected);
    };
    check("x.csv", "no file matches `DIR/x.csv`");
    check("*.csv", "no file matches `DIR/*.csv`");
    check("*", "no file matches `DIR/*`");
    check("a", "DIR/a is a directory: name its files, as in `DIR/a/*`");
    check("a/[", "`DIR/a/[` is not a pattern");
}

// A link to a directory above itself gave the rows of a file 41 times.
#[test]
fn a_file_that_links_lead_to_as_well_is_read_once() {
    let folder = folder(&["d/b.csv", "2024-11.csv"]);
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, folder.path().join(name)).expect("linked");
    };
    link("../d", "d/loop");
    link("2024-11.csv", "latest.csv");
    let all = expanded(folder.path(), &["**/*.csv"]);
    let (first, again) = all.split_once(" again: ").expect("the links are told");
    assert_eq!(first, "2024-11.csv d/b.csv");
    assert!(again.contains("latest.csv") && again.contains("d/loop/b.csv"), "{again}");
    let both = expanded(folder.path(), &["2024-11.csv", "latest.csv"]);
    assert_eq!(both, "DIR/latest.csv is named twice: its rows would be imported once");
}
