//! Inputs that stop an import: it leaves nothing behind.

use std::path::Path;
use std::sync::Arc;

use tidegate_ingest::reject::{Reason, RejectError};
use tidegate_ingest::sniff::{Header, SniffError};
use tidegate_ingest::{ColumnSource, Error, ImportOptions, OnError, RejectList};
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit, limits};
use tidegate_platform::{Class, SimDisk};

use crate::plain::{self, PlainOptions};
use crate::world::{Expected, TABLE, World, check_import, read_rejects, schema_of};

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

/// Imports a text, which must be refused without a trace.
fn refused(world: &World, text: &[u8], change: impl FnOnce(&mut ImportOptions)) -> Error {
    let path = world.put("a.csv", text);
    let mut options = world.options(&schema(), &[path]);
    change(&mut options);
    let tables = world.database.tables();
    let error = world.import(&options).expect_err("it is refused");
    assert_eq!(world.database.tables(), tables, "{error}");
    world.check_sound(&error.to_string());
    error
}

/// The error and its causes, in one line.
fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        source = cause.source();
    }
    line
}

#[test]
fn a_quote_that_is_never_closed_is_named_with_its_line() {
    let rows = "2021-03-01,\"two\nlines\",1\n".repeat(30_000);
    let bare_rows = "2021-03-01,a line,1\n".repeat(30_000);
    for (text, line) in [
        ("2021-03-01,\"abc,1\n2021-03-02,d,2\n".to_owned(), 1),
        ("2021-03-01,a,1\n\n2021-03-01,\"x\"\"\n,2\n".to_owned(), 3),
        (format!("{rows}2021-03-01,x,\"\n{bare_rows}"), 60_001),
        // The quote opens in the last line of a record that begins before.
        (format!("{rows}2021-03-01,\"a\nb\",\"c\nd\n\n"), 60_002),
    ] {
        let world = world();
        let expected = plain::read(text.as_bytes(), &PlainOptions::of(&schema()));
        let error = refused(&world, text.as_bytes(), |_| {});
        match &error {
            Error::UnclosedQuote { line: found, offset, path } => {
                assert_eq!((path.as_path(), *found), (Path::new("/a.csv"), line));
                assert_eq!(expected.open_quote, Some(line));
                let opened = usize::try_from(*offset).unwrap();
                assert_eq!(text.as_bytes()[opened], b'"', "{offset}");
                assert_eq!(text[..opened].matches('\n').count() as u64 + 1, line);
            }
            error => panic!("{error:?}"),
        }
        assert_eq!(error.class(), Class::Caller);
    }
}

#[test]
fn the_first_bad_value_aborts_where_it_must() {
    let world = world();
    let text = b"2021-03-01,a,1\n2021-03-01,b,x1\n";
    let error = refused(&world, text, |options| options.on_error = OnError::Abort);
    assert_eq!(chain(&error), "/a.csv, line 2 (byte 15), column `n`: not a number: `x1`");
    let rejects = read_rejects(&*world.disk, &world.rejects());
    assert_eq!(rejects.len(), 1, "{rejects:?}");
    let text = b"2021-03-01,a,1\n2021-03-01,b,1,2\n2021-03-01,c,1\n";
    let error = refused(&world, text, |options| options.on_error = OnError::Abort);
    let expected = "/a.csv, line 2 (byte 15): too many fields: `2021-03-01,b,1,2`";
    assert_eq!(chain(&error), expected);
    let text = b"2021-03-01,a,1\n,b,1\n";
    let error = refused(&world, text, |options| options.on_error = OnError::Abort);
    let expected = "/a.csv, line 2 (byte 15), column `ts`: the designated timestamp is NULL";
    assert_eq!(chain(&error), expected);
    // The message shows one line, and only the beginning of a long one.
    let text = format!("2021-03-01,a,\"\n\u{e9}{}\"\n", "x".repeat(1_000));
    let error = refused(&world, text.as_bytes(), |options| options.on_error = OnError::Abort);
    let shown = format!("\"\\n\u{e9}{}\u{2026}", "x".repeat(197));
    let expected = format!("/a.csv, line 1 (byte 0), column `n`: not a number: `{shown}`");
    assert_eq!(chain(&error), expected);
}

#[test]
fn more_rejects_than_allowed_stop_the_import() {
    let text = "2021-03-01,a,1\n2021-03-01,b,x\n".repeat(10);
    for (max, is_refused) in [(0, true), (9, true), (10, false)] {
        let world = world();
        let path = world.put("a.csv", text.as_bytes());
        let mut options = world.options(&schema(), &[path]);
        options.errors_max = Some(max);
        match world.import(&options) {
            Ok(summary) => assert_eq!((is_refused, summary.rows_rejected), (false, 10)),
            Err(Error::Reject(RejectError::TooMany { max: found, path, last })) => {
                assert_eq!((is_refused, found), (true, max));
                assert_eq!(path, world.rejects());
                let line = 2 * (max + 1);
                assert_eq!(
                    last.to_string(),
                    format!("/a.csv, line {line}, column `n`: not a number")
                );
                assert!(world.database.snapshot(TABLE).is_err());
            }
            Err(error) => panic!("{max}: {error:?}"),
        }
    }
}

#[test]
fn when_all_records_are_bad_the_most_frequent_reason_is_told() {
    let text = b"2021-03-01,a,x\n2021-03-01,b,y\n,c,1\n";
    match refused(&world(), text, |_| {}) {
        Error::AllRejected { count: 3, reason: Reason::Cell(reason), first, .. } => {
            assert_eq!(reason.to_string(), "not a number");
            assert_eq!(first.to_string(), "/a.csv, line 1, column `n`: not a number");
        }
        error => panic!("{error:?}"),
    }
}

/// Imports a record of so many bytes between other records.
fn check_long_record(bytes: usize, is_rejected: bool) {
    let schema = schema();
    let start = b"2021-03-01,a,1\n\n2021-03-02,";
    let record_start = start.len() - b"2021-03-02,".len();
    let mut text = start.to_vec();
    text.resize(record_start + bytes - 2, b'x');
    text.extend_from_slice(b",2\n2021-03-03,b,x\n2021-03-04,c,3");
    let world = world();
    let path = world.put("a.csv", &text);
    let mut expected = Expected::default();
    expected.add(&path, plain::read(&text, &PlainOptions::of(&schema)));
    assert_eq!(expected.rejects.len(), 1 + usize::from(is_rejected));
    let outcome = world.import(&world.options(&schema, &[path]));
    check_import(&world, &outcome, &expected.sorted(&schema), &format!("{bytes} bytes"));
}

/// A record may have 64 MiB (docs/import.md, Limits); this one has one byte more.
#[test]
fn a_record_of_more_than_64_mib_is_rejected_with_its_line() {
    check_long_record(limits::CSV_ROW_BYTES + 1, true);
}

#[test]
fn a_record_of_64_mib_is_a_row() {
    check_long_record(limits::CSV_ROW_BYTES, false);
}

/// The error was "never closed", although the quote is closed, a MiB too late.
#[test]
fn a_quote_that_is_open_for_64_mib_is_an_error() {
    let mut text = b"2021-03-01,a,1\n2021-03-02,\"".to_vec();
    text.resize(limits::CSV_ROW_BYTES + (1 << 20), b'x');
    text.extend_from_slice(b"\",2\n2021-03-01,a,1\n");
    match refused(&world(), &text, |_| {}) {
        error @ Error::RecordTooLong { .. } => assert_eq!(
            error.to_string(),
            "/a.csv: the record at line 2 is longer than 64 MiB: \
             the quote that opens in line 2 at byte 26 is not closed by then"
        ),
        error => panic!("{error:?}"),
    }
}

/// The error was about missing columns: the quote had hidden the header.
#[test]
fn a_quote_that_hides_the_header_is_named() {
    for (text, line, byte) in [
        ("\"ts,text,n\n2021-03-01,a,1\n2021-03-01,b,2\n", 1, 0),
        ("\n\nts,\"text,n\n2021-03-01,a,1\n2021-03-01,b,2\n", 3, 5),
        ("ts;text;\"n\n2021-03-01;a;1\n", 1, 8),
    ] {
        let error = refused(&world(), text.as_bytes(), |options| {
            options.columns = ColumnSource::Infer;
            options.dialect.header = Header::Auto;
            options.dialect.delimiter = None;
        });
        let expected =
            format!("/a.csv: line {line}: the quote that opens at byte {byte} is never closed");
        assert_eq!(error.to_string(), expected);
    }
    // The sample ends before the quote is closed.
    let rows = "2021-03-01,a,1\n".repeat(200_000);
    let shown = |text: String| {
        let error = refused(&world(), text.as_bytes(), |options| {
            options.columns = ColumnSource::Infer;
            options.dialect.header = Header::Present;
        });
        error.to_string()
    };
    let never = "/a.csv: line 2: the quote that opens at byte 10 is never closed";
    assert_eq!(shown(format!("ts,text,n\n\"2021-03-01,a,1\n{rows}")), never);
    let too_long = "/a.csv: the record at line 1 is longer than 64 MiB: \
                    the quote that opens in line 1 at byte 0 is not closed by then";
    assert_eq!(shown(format!("\"ts,text,n\n{}", rows.repeat(23))), too_long);
}

#[test]
fn integers_are_times_only_with_a_declared_unit() {
    let error = refused(&world(), b"ts,n\n1600000000,1\n1600000001,2\n", |options| {
        options.columns = ColumnSource::Infer;
        options.dialect.header = Header::Present;
    });
    let expected = "column `ts` is BIGINT, which is a time only with a unit: say with \
                    --timestamp-format whether it is epoch_s, epoch_ms, epoch_us or epoch_ns";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn binary_files_are_refused() {
    let error = refused(&world(), b"2021-03-01,a,1\n\0\x01\x02", |_| {});
    assert!(matches!(error, Error::Binary { offset: 15, .. }), "{error:?}");
}

/// A NUL is a bad cell. In the sample it refused the whole file, behind the sample only its row.
#[test]
fn nul_in_a_cell_is_no_text() {
    check_nul(100_000);
    check_nul(1);
}

#[track_caller]
fn check_nul(rows_before: usize) {
    let mut text = "2021-03-01,some text,1\n".repeat(rows_before).into_bytes();
    text.extend_from_slice(b"2021-03-02,a\0b,2\n2021-03-03,c,3\n");
    let (world, schema) = (world(), schema());
    let path = world.put("a.csv", &text);
    let mut expected = Expected::default();
    expected.add(&path, plain::read(&text, &PlainOptions::of(&schema)));
    assert_eq!(expected.rejects[0].4, "NUL in text");
    let outcome = world.import(&world.options(&schema, &[path]));
    check_import(&world, &outcome, &expected.sorted(&schema), "NUL");
}

#[test]
fn headers_that_do_not_fit_the_table_are_refused() {
    let world = world();
    let with_header = |options: &mut ImportOptions| options.dialect.header = Header::Present;
    let error = refused(&world, b"ts,text,zz\n2021-03-01,a,1\n", with_header);
    match &error {
        Error::Sniff { source: SniffError::UnknownColumns { names }, .. } => {
            assert_eq!(names, &["zz"]);
        }
        error => panic!("{error:?}"),
    }
    let error = refused(&world, b"ts,text,TEXT\n2021-03-01,a,1\n", with_header);
    let is_duplicate =
        matches!(&error, Error::Sniff { source: SniffError::DuplicateName { .. }, .. });
    assert!(is_duplicate, "{error:?}");
    let error = refused(&world, b"2021-03-01,a,1,2\n2021-03-01,a,1,2\n", |_| {});
    let is_too_many =
        matches!(&error, Error::Sniff { source: SniffError::TooManyColumns { .. }, .. });
    assert!(is_too_many, "{error:?}");
}

#[test]
fn a_table_that_is_otherwise_is_left_alone() {
    let world = world();
    let path = world.put("first.csv", b"2021-03-01,a,1\n");
    world.import(&world.options(&schema(), &[path])).unwrap();
    let text = b"2021-03-01,a,1\n";
    let check = |change: &dyn Fn(&mut ImportOptions), shown: &str| {
        assert_eq!(refused(&world, text, change).to_string(), shown);
        assert_eq!(world.rows().len(), 1);
    };
    check(
        &|options| options.timestamp = Some("n".to_owned()),
        "table `t` has designated timestamp ts, not `n`",
    );
    check(
        &|options| options.partition_by = Some(PartitionUnit::Hour),
        "table `t` is partitioned by DAY, not by HOUR",
    );
    check(
        &|options| options.symbols = vec!["text".to_owned()],
        "column `text` is VARCHAR, which cannot be a SYMBOL",
    );
    check(
        &|options| options.symbols = vec!["who".to_owned()],
        "there is no column `who` in table `t`",
    );
    check(
        &|options| {
            let other = vec![("ts".to_owned(), ColumnType::Date)];
            options.columns = ColumnSource::Given(other);
        },
        "table `t` exists with other columns: see `ts`",
    );
}

#[test]
fn too_little_memory_for_the_workers_is_said() {
    let error = refused(&world(), b"2021-03-01,a,1\n", |options| {
        options.memory_max = tidegate_model::ByteCount(1 << 20);
    });
    assert_eq!(error.to_string(), "--memory 1.0 MiB is less than the 32.0 MiB that a thread needs");
}

/// Many threads and little memory gave an error, although fewer threads can do the work.
#[test]
fn as_many_workers_as_memory_allows_do_the_work() {
    let world = world();
    let path = world.put("a.csv", b"2021-03-01,a,1\n");
    let mut options = world.options(&schema(), &[path]);
    options.workers = std::num::NonZeroUsize::new(64).unwrap();
    options.memory_max = tidegate_model::ByteCount(100 << 20);
    let summary = world.import(&options).unwrap();
    let expected = "3 of 64 threads have worked: each needs 32.0 MiB, and --memory is 100.0 MiB";
    assert_eq!(summary.notes, [expected]);
}

/// The list of an earlier import was left beside the summary of one without rejects.
#[test]
fn a_clean_import_removes_the_rejects_of_an_earlier_one() {
    let world = world();
    let bad = world.put("bad.csv", b"2021-03-01,a,x\n2021-03-01,a,1\n");
    let good = world.put("good.csv", b"2021-03-01,a,1\n");
    world.import(&world.options(&schema(), &[bad])).unwrap();
    assert_eq!(read_rejects(&*world.disk, &world.rejects()).len(), 1);
    let summary = world.import(&world.options(&schema(), &[good])).unwrap();
    assert!(summary.rejects.is_none() && summary.notes.is_empty());
    assert!(!world.disk.exists(&world.rejects()).unwrap(), "reject-1");
}

/// Lines to skip were counted wrongly if there were more than the first sample has.
#[test]
fn lines_to_skip_stand_in_the_first_look() {
    let text = b"2021-03-01,a,1\n".repeat(200_000);
    let error = refused(&world(), &text, |options| options.dialect.skip_lines = 150_000);
    assert!(matches!(error, Error::SkipTooFar { wanted: 150_000, .. }), "{error:?}");
}

#[test]
fn a_list_of_rejects_that_cannot_be_is_refused_at_once() {
    let error = refused(&world(), b"2021-03-01,a,1\n", |options| {
        options.rejects = RejectList::File("/nowhere/list.ndjson".into());
    });
    assert!(error.to_string().contains("its directory does not exist"), "{error}");
}
