//! Sources of bytes: compressed files, several files, and files of unexpected formats.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tidegate_ingest::sniff::Header;
use tidegate_ingest::{Error, FileFormat, ImportOptions, RejectList, Source};
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_platform::{Class, Disk, OpenMode, RealDisk, SimCall, SimDisk, SimErrno, sentence};

use super::hook::{Call, HookDisk};
use crate::plain::{self, PlainHeader, PlainOptions};
use crate::world::{Expected, TABLE, World, assert_same_rows, check_import, schema_of};

fn world() -> World {
    World::on(Arc::new(SimDisk::new(1)), Path::new("/"))
}

fn schema() -> Schema {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("text", ColumnType::Varchar),
        ("n", ColumnType::Int32),
    ];
    schema_of(&columns, Some("ts"), PartitionUnit::Day)
}

/// About 50 bytes a row, some with quoted newlines, some bad.
fn text_of(rows: std::ops::Range<usize>) -> Vec<u8> {
    let mut text = Vec::new();
    for row in rows {
        let (day, second) = (1 + row % 9, row * 7 % 60);
        let n = if row % 501 == 500 { "bad".to_owned() } else { row.to_string() };
        let line =
            format!("2021-03-0{day} 10:00:{second:02},\"line {row}\n\"\"and\"\" more\",{n}\n");
        text.extend_from_slice(line.as_bytes());
    }
    text
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

// COPY's text has no blank lines: `\N` in a table of one column is a row, even the first one, and
// wherever the text is split into input chunks.
#[test]
fn null_alone_in_a_record_of_copy_text_is_a_row() {
    let schema = schema_of(&[("n", ColumnType::Int64)], None, PartitionUnit::None);
    let few = "\\N\n7\n\\N\n\\N\n8\n\\N".to_owned();
    let many = "\\N\n".repeat(3 << 20);
    for (text, rows, nulls) in [(few, 6, 4), (many, 3 << 20, 3 << 20)] {
        let world = world();
        let path = world.put("rows", text.as_bytes());
        let mut options = world.options(&schema, &[path]);
        (options.format, options.dialect.delimiter) = (FileFormat::PgText, None);
        let summary = world.import(&options).unwrap();
        assert_eq!((summary.rows_imported, summary.rows_rejected), (rows, 0));
        let found = world.rows().iter().filter(|row| row[0] == Value::Null).count();
        assert_eq!(found, nulls);
    }
}

#[test]
fn compressed_files_hold_the_same_rows() {
    let (schema, text) = (schema(), text_of(0..12_000));
    let cut = text.len() / 3;
    let (first, second) = text.split_at(cut);
    let mut expected = Expected::default();
    expected.add(Path::new("a"), plain::read(&text, &PlainOptions::of(&schema)));
    let expected = expected.sorted(&schema);
    for (kind, bytes) in [
        ("plain", text.clone()),
        ("gz", gz(&text)),
        ("gz of several members", [gz(first), gz(&[]), gz(second)].concat()),
        ("gz with a block filled up", [gz(&text), vec![0; 10_000]].concat()),
        ("zst", zst(&text)),
        ("zst of several frames", [zst(first), zst(second)].concat()),
    ] {
        let world = world();
        let path = world.put("a", &bytes);
        let outcome = world.import(&world.options(&schema, &[path]));
        check_import(&world, &outcome, &expected, kind);
        assert_eq!(outcome.unwrap().bytes_read, bytes.len() as u64, "{kind}");
        world.check_sound(kind);
    }
}

/// A table of a few rows, into which the next import must fail.
fn check_refused(
    world: &World,
    change: impl FnOnce(&mut ImportOptions),
    check: impl FnOnce(&Error),
) {
    let (schema, text) = (schema(), text_of(0..50));
    let first = world.put("first.csv", &text);
    world.import(&world.options(&schema, &[first])).unwrap();
    let (before, files) = (world.rows(), stored_files(world));
    let mut options = world.options(&schema, &[]);
    change(&mut options);
    let error = world.import(&options).expect_err("it is refused");
    check(&error);
    assert_same_rows(&world.rows(), &before, "the table is as it was");
    assert_eq!(stored_files(world), files, "no file is left: {error}");
    world.check_sound("refused");
}

/// The segments and the files in the scratch directory.
fn stored_files(world: &World) -> Vec<PathBuf> {
    fn walk(world: &World, dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in world.disk.list(dir).unwrap_or_default() {
            let path = dir.join(&entry.name);
            if entry.is_dir { walk(world, &path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(world, &world.root.join("db/data"), &mut found);
    walk(world, &world.root.join("db/scratch"), &mut found);
    found.retain(|path| !path.ends_with("catalog") && !path.ends_with("manifest"));
    found
}

#[test]
fn a_compressed_file_that_ends_early_is_an_error() {
    // The text is longer than the sample.
    let text = text_of(0..50_000);
    for (kind, bytes) in [("gzip", gz(&text)), ("zstd", zst(&text))] {
        for cut in [20, bytes.len() / 2, bytes.len() - 1] {
            let world = world();
            let path = world.put("cut", &bytes[..cut]);
            check_refused(
                &world,
                |options| options.source = Source::Files(vec![path]),
                |error| match error {
                    Error::Compression { path, kind: found, .. } => {
                        assert_eq!((path.as_path(), *found), (Path::new("/cut"), kind));
                        assert_eq!(error.class(), Class::Caller);
                    }
                    error => panic!("{kind} cut at {cut}: {error:?}"),
                },
            );
        }
        if kind == "gzip" {
            let world = world();
            let path = world.put("followed", &[&bytes[..], b"trailing"].concat());
            check_refused(
                &world,
                |options| options.source = Source::Files(vec![path]),
                |error| {
                    let source = std::error::Error::source(error).map(ToString::to_string);
                    let expected = "behind its end are bytes that are no gzip";
                    assert_eq!(source.as_deref(), Some(expected), "{error}");
                },
            );
        }
        if kind == "zstd" {
            // Without a checksum, which is optional there, some damage cannot be detected.
            continue;
        }
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0xA5);
        let world = world();
        let path = world.put("damaged", &damaged);
        check_refused(
            &world,
            |options| options.source = Source::Files(vec![path]),
            |error| assert!(matches!(error, Error::Compression { .. }), "{kind}: {error:?}"),
        );
    }
}

#[test]
fn files_are_read_in_order_each_by_its_own_header() {
    let schema = schema();
    let texts = [
        "n,ts,text\n1,2021-03-01,a\n2,2021-03-02,b",
        "TS,TEXT,N\n2021-03-01,c,3\n2021-03-01,d,bad\n",
        "",
        "text,n,ts\n",
        "\u{FEFF}text,n,ts\r\ne,5,2021-03-01\r\n",
    ];
    let targets: [&[usize]; 5] = [&[2, 0, 1], &[0, 1, 2], &[0, 1, 2], &[1, 2, 0], &[1, 2, 0]];
    let world = world();
    let mut expected = Expected::default();
    let mut paths = Vec::new();
    for (number, (text, targets)) in texts.iter().zip(targets).enumerate() {
        let path = world.put(&format!("{number}.csv"), text.as_bytes());
        let plain = PlainOptions {
            targets: targets.iter().copied().map(Some).collect(),
            header: PlainHeader::Present,
            ..PlainOptions::of(&schema)
        };
        expected.add(&path, plain::read(text.as_bytes(), &plain));
        paths.push(path);
    }
    let mut options = world.options(&schema, &paths);
    options.dialect.header = Header::Present;
    let outcome = world.import(&options);
    check_import(&world, &outcome, &expected.sorted(&schema), "five files");
}

/// The first file decides the format of all files, but an empty one shows nothing.
#[test]
fn an_empty_file_before_others_does_no_harm() {
    let schema = schema();
    for empty in [&b""[..], b"\n\n", b"\xEF\xBB\xBF"] {
        let world = world();
        let text = b"ts,text,n\n2021-03-01,a,1\n";
        let paths = [world.put("0.csv", empty), world.put("1.csv", text)];
        let mut options = world.options(&schema, &paths);
        options.dialect.header = Header::Present;
        let plain = PlainOptions { header: PlainHeader::Present, ..PlainOptions::of(&schema) };
        let mut expected = Expected::default();
        expected.add(&paths[1], plain::read(text, &plain));
        check_import(&world, &world.import(&options), &expected, &empty.escape_ascii().to_string());
    }
}

#[test]
fn blank_lines_before_a_header_do_no_harm() {
    let schema = schema();
    for blank in ["\n", "\r\n\n", "\n\n\n"] {
        let world = world();
        let text = format!("{blank}ts,text,n\n2021-03-01,a,1\n");
        let path = world.put("a.csv", text.as_bytes());
        let mut options = world.options(&schema, std::slice::from_ref(&path));
        options.dialect.header = Header::Present;
        let plain = PlainOptions { header: PlainHeader::Present, ..PlainOptions::of(&schema) };
        let mut expected = Expected::default();
        expected.add(&path, plain::read(text.as_bytes(), &plain));
        assert_eq!(expected.records, 1);
        check_import(&world, &world.import(&options), &expected, blank);
    }
}

#[test]
fn lines_of_later_files_are_counted_from_their_beginning() {
    let schema = schema();
    let world = world();
    let text = "# first\n# second\n2021-03-01,a,1\n2021-03-01,b,bad\n";
    let paths = [world.put("0.csv", text.as_bytes()), world.put("1.csv", text.as_bytes())];
    let mut options = world.options(&schema, &paths);
    options.dialect.skip_lines = 2;
    let plain = PlainOptions { skip_lines: 2, ..PlainOptions::of(&schema) };
    let mut expected = Expected::default();
    for path in &paths {
        expected.add(path, plain::read(text.as_bytes(), &plain));
    }
    assert!(expected.rejects.iter().all(|reject| reject.1 == 4));
    check_import(&world, &world.import(&options), &expected.sorted(&schema), "skipped lines");
}

#[test]
fn a_file_without_names_and_with_other_columns_is_refused() {
    let world = world();
    let paths =
        vec![world.put("0.csv", b"2021-03-01,a,1\n"), world.put("1.csv", b"2021-03-01,a\n")];
    check_refused(
        &world,
        |options| {
            options.source = Source::Files(paths);
            options.dialect.header = Header::Absent;
        },
        |error| match error {
            Error::OtherColumns { path, names, .. } => {
                assert_eq!(
                    (path.as_path(), names.as_slice()),
                    (Path::new("/1.csv"), &["n".to_owned()][..])
                );
            }
            error => panic!("{error:?}"),
        },
    );
}

#[test]
fn files_without_records_are_refused() {
    for text in [&b""[..], b"\n\r\n", b"\xEF\xBB\xBF\n"] {
        let world = world();
        let path = world.put("none.csv", text);
        check_refused(
            &world,
            |options| options.source = Source::Files(vec![path]),
            |error| assert_eq!(error.to_string(), "/none.csv: no records"),
        );
    }
    let world = world();
    let path = world.put("none.csv", b"ts,text,n\n\n");
    check_refused(
        &world,
        |options| {
            options.source = Source::Files(vec![path]);
            options.dialect.header = Header::Present;
        },
        |error| assert_eq!(error.to_string(), "/none.csv: no records"),
    );
}

/// An import of a file which `change` modifies while it is read.
#[track_caller]
fn check_changed(change: fn(&SimDisk, &Path), before: u64, shown: &str) {
    const PLACE: u64 = 2 << 20;
    let disk = SimDisk::new(1);
    let (victim, reads) = (disk.clone(), AtomicU64::new(0));
    let hooked = HookDisk::new(disk, move |call| {
        // The first read at this place is that of the sample.
        if let Call::Read(path, PLACE) = call
            && path == Path::new("/changes.csv")
            && reads.fetch_add(1, SeqCst) == 1
        {
            change(&victim, path);
        }
    });
    let world = World::on(Arc::new(hooked), Path::new("/"));
    let text = text_of(0..140_000);
    assert_eq!(text.len() as u64, before);
    let path = world.put("changes.csv", &text);
    check_refused(
        &world,
        |options| options.source = Source::Files(vec![path]),
        |error| {
            assert_eq!(error.to_string(), format!("/changes.csv was changed {shown}"));
            assert_eq!(error.class(), Class::Environment);
        },
    );
}

const TEXT_BYTES: u64 = 7_337_162;

#[test]
fn a_file_that_shrinks_meanwhile_is_an_error() {
    let shown = "while it was read: it had 7337162 bytes, and has 3145728 now";
    check_changed(|disk, path| disk.truncate(path, 3 << 20), TEXT_BYTES, shown);
}

/// Only a file that became shorter was detected, so one that another program wrote to was imported
/// half old and half new. Size and time of change are compared now.
#[test]
fn a_file_that_grows_or_is_written_to_meanwhile_is_an_error() {
    fn append(disk: &SimDisk, path: &Path) {
        let file = disk.open(path, OpenMode::ReadWrite).unwrap();
        file.write_all_at(b"2021-03-01,new,1\n", TEXT_BYTES).unwrap();
    }
    fn rewrite(disk: &SimDisk, path: &Path) {
        let file = disk.open(path, OpenMode::ReadWrite).unwrap();
        file.write_all_at(b"2", 0).unwrap();
    }
    let shown = "while it was read: it had 7337162 bytes, and has 7337179 now";
    check_changed(append, TEXT_BYTES, shown);
    let shown = "while it was read: it has the same size, but was written to";
    check_changed(rewrite, TEXT_BYTES, shown);
}

/// The path of a named pipe, such as shells create for `<(zcat x)`, was refused: it cannot seek.
#[test]
fn a_named_pipe_is_read_like_standard_input() {
    let (schema, text) = (schema(), text_of(0..60_000));
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Expected::default();
    expected.add(Path::new("pipe"), plain::read(&text, &PlainOptions::of(&schema)));
    let expected = expected.sorted(&schema);
    for (name, bytes) in [("plain", text.clone()), ("gz", gz(&text))] {
        let world = World::on(Arc::new(RealDisk), &dir.path().join(name));
        let path = world.root.join("pipe");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mut writer = Command::new("sh");
        writer.arg("-c").arg("cat > \"$0\"").arg(&path).stdin(Stdio::piped());
        let mut writer = writer.spawn().unwrap();
        let mut stdin = writer.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
        let outcome = world.import(&world.options(&schema, &[path]));
        check_import(&world, &outcome, &expected, name);
        feeder.join().unwrap();
        assert!(writer.wait().unwrap().success());
    }
}

#[test]
fn a_damaged_stream_is_said_to_break_where_it_does() {
    let text = text_of(0..50_000);
    let bytes = gz(&text);
    let world = world();
    let path = world.put("cut", &bytes[..bytes.len() / 4]);
    check_refused(
        &world,
        |options| options.source = Source::Files(vec![path]),
        |error| match error {
            Error::Compression { offset, .. } => assert!((100_000..2_000_000).contains(offset)),
            error => panic!("{error:?}"),
        },
    );
}

#[test]
fn what_is_missing_or_no_file_is_an_error() {
    for name in ["/missing.csv", "/db"] {
        let world = world();
        let mut options = world.options(&schema(), &[PathBuf::from(name)]);
        options.rejects = RejectList::File(PathBuf::from("/other.ndjson"));
        let error = world.import(&options).unwrap_err();
        let Error::Input(source) = &error else { panic!("{error:?}") };
        assert!(source.to_string().contains(name), "{source}");
        assert!(world.database.snapshot(TABLE).is_err());
    }
}

// The error named neither the limit nor an action.
#[test]
fn an_import_of_more_files_than_may_be_open_says_what_to_do() {
    let disk = SimDisk::new(1);
    let world = World::on(Arc::new(disk.clone()), Path::new("/"));
    let paths = ["a.csv", "b.csv"].map(|name| world.put(name, b"2021-03-01,a,1\n"));
    disk.fail_calls_in(&paths[1], &[SimCall::Open], SimErrno::TooManyFiles);
    let error = world.import(&world.options(&schema(), &paths)).unwrap_err();
    assert_eq!(error.class(), Class::Environment);
    assert!(matches!(error, Error::TooManyFiles { opened: 1, .. }), "{error:?}");
    let text = sentence(&error);
    assert!(text.contains("import fewer files at a time"), "{text}");
    assert!(text.contains("/b.csv") && text.ends_with("too many open files"), "{text}");
    assert!(world.database.snapshot(TABLE).is_err());
}
