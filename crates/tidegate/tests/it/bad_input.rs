//! Malformed files, and places that cannot be written: one clear sentence, an exit code, and an
//! unchanged table.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::world::{Run, World, wait_until};

/// Returns a world with a table of one row, which a failed import must leave unchanged.
fn world() -> World {
    let world = World::new();
    world.run(&["sql", "CREATE TABLE t (ts TIMESTAMP, n SMALLINT) TIMESTAMP(ts)"]).succeeds();
    world.file("first.csv", "ts,n\n2025-01-01,1\n");
    world.run(&["import", "first.csv", "--table", "t", "--progress", "none"]).succeeds();
    world
}

/// Imports `bytes` with `--on-error abort`, and checks the message and that nothing was changed.
#[track_caller]
fn check(bytes: impl AsRef<[u8]>, parts: &[&str]) {
    let world = world();
    world.file("x.csv", bytes);
    check_import(&world, &["x.csv"], parts);
}

#[track_caller]
fn check_import(world: &World, arguments: &[&str], parts: &[&str]) {
    let stored = world.stored();
    let line =
        [&["import"], arguments, &["--table", "t", "--on-error", "abort", "--progress", "none"]];
    world.run(&line.concat()).fails(1, parts);
    unchanged(world, &stored);
}

#[track_caller]
fn unchanged(world: &World, stored: &[(std::path::PathBuf, Vec<u8>)]) {
    assert_eq!(world.ask("SELECT n FROM t"), "1");
    let names = |files: &[(std::path::PathBuf, Vec<u8>)]| -> Vec<std::path::PathBuf> {
        let files = files.iter().map(|(path, _)| path.clone());
        files.filter(|path| path.extension().is_some_and(|end| end == "seg")).collect()
    };
    assert_eq!(names(&world.stored()), names(stored), "no litter");
}

#[test]
fn a_quote_that_is_never_closed() {
    check("ts,n\n2025-01-02,2\n2025-01-03,\"3\n", &["x.csv", "line 3", "quote", "never closed"]);
}

#[test]
fn rows_with_too_few_or_too_many_fields() {
    check("ts,n\n2025-01-02,2\n2025-01-03\n", &["x.csv", "3", "too few fields"]);
    check("ts,n\n2025-01-02,2,2\n", &["x.csv", "2", "too many fields"]);
}

#[test]
fn numbers_and_times_that_do_not_fit() {
    check("ts,n\n2025-01-02,32768\n", &["x.csv", "2", "out of range", "32768"]);
    check("ts,n\n2025-01-02,two\n", &["x.csv", "2", "not a number", "two"]);
    check("ts,n\nyesterday,2\n", &["x.csv", "2", "not a timestamp", "yesterday"]);
    check("ts,n\n2025-02-30,2\n", &["x.csv", "2", "out of range", "2025-02-30"]);
    check("ts,n\n,2\n", &["x.csv", "2", "NULL"]);
    let sentence = "x.csv, line 2 (byte 5), column `n`: out of range: `32768`";
    check("ts,n\n2025-01-02,32768\n", &[sentence]);
}

#[test]
fn files_that_are_not_there_or_are_no_files() {
    let world = world();
    check_import(&world, &["nowhere.csv"], &["nowhere.csv"]);
    check_import(&world, &["nowhere-*.csv"], &["no file matches `nowhere-*.csv`"]);
    fs::create_dir(world.path("folder")).expect("a folder");
    check_import(&world, &["folder"], &["folder is a directory"]);
}

#[test]
fn files_that_are_binary_empty_or_only_a_header() {
    check(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0", &["x.csv", "binary"]);
    check("", &["x.csv", "no records"]);
    check("ts,n\n", &["x.csv", "no records"]);
    let world = world();
    world.file("x.csv", "ts,n\n");
    let new = ["import", "x.csv", "--table", "u", "--timestamp", "ts", "--progress", "none"];
    world.run(&new).fails(1, &["x.csv: no records"]);
}

#[test]
fn compressed_files_that_are_cut_short() {
    let world = world();
    let rows: String = (0..5_000).map(|n| format!("2025-01-02,{n}\n")).collect();
    let plain = world.file("y.csv", format!("ts,n\n{rows}"));
    let status = std::process::Command::new("gzip").arg("-k").arg(&plain).status();
    assert!(status.expect("gzip").success());
    let bytes = fs::read(world.path("y.csv.gz")).expect("compressed");
    world.file("y.csv.gz", &bytes[..bytes.len() / 2]);
    check_import(&world, &["y.csv.gz"], &["y.csv.gz", "gzip"]);
    world.file("z.parquet", b"PAR1 and nothing else");
    check_import(&world, &["z.parquet"], &["z.parquet"]);
}

#[test]
fn archives_and_other_formats_are_called_by_name() {
    check(b"PK\x03\x04\x14\0\0\0\x08\0", &["x.csv is a ZIP archive", "unpack"]);
    check(b"BZh91AY&SY\x12\x34", &["x.csv is bzip2"]);
    let world = world();
    world.file("x.xz", b"\xFD7zXZ\0\0\x04\xE6\xD6");
    let import = ["import", "-", "--table", "t", "--progress", "none"];
    let bytes = fs::read(world.path("x.xz")).expect("a file");
    world.run_with(&import, &bytes).fails(1, &["standard input is xz"]);
}

#[test]
fn options_that_do_not_fit_are_wrong_use() {
    let world = world();
    world.file("x.csv", "ts,n\n2025-01-02,2\n");
    let import = ["import", "x.csv", "--table", "t", "--progress", "none"];
    let with = |options: &[&str]| world.run(&[&import, options].concat());
    with(&["--delimiter", "\""]).fails(2, &["delimiter and quote must be two"]);
    with(&["--memory", "1MB"]).fails(2, &["1.0 MiB is less than the 32.0 MiB"]);
}

#[test]
fn columns_that_do_not_exist() {
    let world = world();
    world.file("x.csv", "ts,n,extra\n2025-01-02,2,3\n");
    check_import(&world, &["x.csv"], &["extra"]);
    world.file("x.csv", "ts,n\n2025-01-02,2\n");
    check_import(&world, &["x.csv", "--timestamp", "when"], &["when"]);
    let new = ["import", "x.csv", "--table", "u", "--timestamp", "when", "--progress", "none"];
    world.run(&new).fails(1, &["`when`"]);
    let new = ["import", "x.csv", "--table", "u", "--symbols", "colour", "--progress", "none"];
    world.run(&new).fails(1, &["`colour`"]);
    assert_eq!(world.run(&["tables", "--format", "ndjson"]).succeeds().lines().count(), 1);
}

#[test]
fn every_row_rejected_is_a_failure() {
    let world = world();
    world.file("x.csv", "ts,n\n2025-01-02,a\n2025-01-02,b\n");
    let import = ["import", "x.csv", "--table", "t", "--progress", "none"];
    world.run(&import).fails(1, &["2 records were rejected", "not a number"]);
    assert_eq!(world.ask("SELECT n FROM t"), "1");
}

#[test]
fn a_file_that_shrinks_while_it_is_read() {
    let world = world();
    // The file is too large to be read at once; it is cut as soon as the import has begun.
    let rows = "2025-01-02,2\n".repeat(8_000_000);
    let path = world.file("x.csv", format!("ts,n\n{rows}"));
    let mut command = world.command(&["import", "x.csv", "--table", "t", "--progress", "none"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    wait_until("the import to begin", || world.scratch() > 0);
    fs::File::options().write(true).open(&path).and_then(|file| file.set_len(1_000)).expect("cut");
    let run = Run::of(child.wait_with_output().expect("ends"));
    run.fails(1, &["x.csv was changed while it was read", "1000 now"]);
    assert_eq!(world.ask("SELECT n FROM t"), "1");
}

#[test]
fn a_file_that_grows_while_it_is_read() {
    let world = world();
    let rows = "2025-01-02,2\n".repeat(8_000_000);
    let path = world.file("x.csv", format!("ts,n\n{rows}"));
    let mut command = world.command(&["import", "x.csv", "--table", "t", "--progress", "none"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    wait_until("the import to begin", || world.scratch() > 0);
    let file = fs::File::options().append(true).open(&path);
    file.and_then(|mut file| file.write_all(b"2025-01-02,3\n")).expect("appended");
    let run = Run::of(child.wait_with_output().expect("ends"));
    run.fails(1, &["x.csv was changed while it was read", "104000005 bytes", "104000018 now"]);
    assert_eq!(world.ask("SELECT n FROM t"), "1");
}

#[test]
fn a_quote_that_hides_the_header() {
    let world = World::new();
    world.file("x.csv", "\"ts,n\n2025-01-02,2\n");
    let line = ["import", "x.csv", "--table", "t", "--timestamp", "ts", "--progress", "none"];
    world.run(&line).fails(1, &["x.csv", "line 1", "byte 0", "never closed"]);
}

#[test]
fn options_and_paths_that_do_not_fit() {
    let world = world();
    world.file("x.csv", "ts,n\n2025-01-02,2\n");
    check_import(&world, &["x.csv", "./x.csv"], &["./x.csv is named twice"]);
    for (delimiter, part) in [("\u{a7}", "not ASCII"), (";;", "2 bytes")] {
        let line = ["import", "x.csv", "--table", "t", "--delimiter", delimiter];
        let run = world.run(&line);
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    world.file("y.csv", "ts,n\n1600000000,2\n");
    let line = ["import", "y.csv", "--table", "u", "--timestamp", "ts", "--progress", "none"];
    world.run(&line).fails(1, &["`ts` is BIGINT", "--timestamp-format", "epoch_s"]);
}

#[test]
fn places_that_cannot_be_written() {
    let world = world();
    world.file("plain", "");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(world.path("")).args(["--db", "plain/db", "sql", "SELECT 1"]);
    Run::of(command.output().expect("runs")).fails(1, &["plain/db", "not a directory"]);
    world.file("x.csv", "ts,n\n2025-01-02,a\n2025-01-02,2\n");
    let import = ["import", "x.csv", "--table", "t", "--rejects", "plain/r", "--progress", "none"];
    world.run(&import).fails(1, &["rejects", "plain/r", "not a directory"]);
    assert_eq!(world.ask("SELECT n FROM t"), "1");
}

#[test]
fn a_full_disk() {
    let world = world();
    let rows: String =
        (0..200_000_u64).map(|n| format!("2025-01-02,{}\n", n * 7_919 % 30_000)).collect();
    world.file("x.csv", format!("ts,n\n{rows}"));
    let stored = world.stored();
    // The limit is 64 blocks of 512 or 1,024 bytes for each file.
    let import = ["import", "x.csv", "--table", "t", "--progress", "none"];
    let output = world.command_after("ulimit -f 64", &import).output().expect("runs");
    Run::of(output).fails(1, &["file too large"]);
    unchanged(&world, &stored);
    world.run(&import).succeeds();
    let output = world.run(&["sql", "SELECT * FROM t", "--output", "/dev/full", "--format", "csv"]);
    output.fails(1, &["/dev/full", "no space left"]);
}

#[test]
fn a_pipe_that_breaks_off_in_a_quote() {
    let world = world();
    let mut child = world.start_import("t");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(b"ts,n\n2025-01-02,\"2").expect("taken");
    drop(pipe);
    let run = Run::of(child.wait_with_output().expect("ends"));
    run.fails(1, &["line 2", "never closed"]);
    assert_eq!(world.ask("SELECT n FROM t"), "1");
}

#[test]
fn texts_that_are_longer_than_their_column() {
    let world = World::new();
    world.file("t.sql", "CREATE TABLE t (ts TIMESTAMP, v VARCHAR(3)) TIMESTAMP(ts)");
    world.file("x.csv", "ts,v\n2025-01-01,\u{E9}\u{E9}\u{E9}\n2025-01-02,abcd\n2025-01-03,abc\n");
    let import = ["import", "x.csv", "--table", "t", "--schema", "t.sql", "--progress", "none"];
    assert_eq!(world.run(&import).code, Some(10));
    assert!(world.text("t.rejects.ndjson").contains("\"text\":\"abcd\""));
    assert_eq!(world.ask("SELECT count(*) FROM t"), "2");
    let insert = ["sql", "INSERT INTO t VALUES (1, 'abcd')"];
    world.run(&insert).fails(1, &["more than 3 characters"]);
}
