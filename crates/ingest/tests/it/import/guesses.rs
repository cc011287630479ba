//! Detection of files: the dialect and the header of each, the types of all of them together, and
//! the handling of later values that contradict a guess.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_ingest::sniff::Header;
use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_ingest::{
    ColumnSource, Error, ImportOptions, ImportSummary, MissingFields, OnError, Source,
};
use tidegate_model::{ColumnType, PartitionUnit, Value};
use tidegate_platform::SimDisk;

use super::random::Random;
use crate::world::{TABLE, World, schema_of};

fn world() -> World {
    World::on(Arc::new(SimDisk::new(1)), Path::new("/"))
}

/// The options of an import without a given dialect or type.
pub(super) fn guessed(world: &World, paths: &[PathBuf]) -> ImportOptions {
    let schema = schema_of(&[("unused", ColumnType::Int64)], None, PartitionUnit::None);
    let mut options = world.options(&schema, paths);
    options.columns = ColumnSource::Infer;
    options.partition_by = None;
    options.dialect.delimiter = None;
    options.dialect.header = Header::Auto;
    options.dialect.missing_fields = MissingFields::Reject;
    options
}

pub(super) fn put_all(world: &World, files: &[&[u8]]) -> Vec<PathBuf> {
    let name = |at: usize| format!("{}.csv", char::from(b'a' + u8::try_from(at).expect("few")));
    files.iter().enumerate().map(|(at, bytes)| world.put(&name(at), bytes)).collect()
}

pub(super) fn import(
    files: &[&[u8]],
    change: impl Fn(&mut ImportOptions),
) -> (World, Result<ImportSummary, Error>) {
    let world = world();
    let mut options = guessed(&world, &put_all(&world, files));
    change(&mut options);
    let outcome = world.import(&options);
    world.check_sound("guesses");
    (world, outcome)
}

/// The columns as `name:TYPE ...`, and the rows, with blanks between cells.
pub(super) fn shown(world: &World, summary: &ImportSummary) -> String {
    let columns = summary.schema.columns().iter();
    let columns: Vec<String> = columns.map(|it| format!("{}:{}", it.name, it.ty.sql())).collect();
    let rows = world.rows().into_iter().map(|row| {
        let cells = row.iter().map(|value| match value {
            Value::Null => "NULL".to_owned(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Integer(integer) => integer.to_string(),
            Value::Float(float) => format!("{float:?}"),
            Value::Bit(bit) => bit.to_string(),
            other => format!("{other:?}"),
        });
        cells.collect::<Vec<_>>().join(" ")
    });
    let mut lines = vec![columns.join(" ")];
    lines.extend(rows);
    lines.join("; ")
}

#[track_caller]
pub(super) fn check(files: &[&str], expected: &str) -> ImportSummary {
    let bytes: Vec<&[u8]> = files.iter().map(|file| file.as_bytes()).collect();
    let (world, outcome) = import(&bytes, |_| {});
    let summary = outcome.unwrap_or_else(|error| panic!("{files:?}: {error}"));
    assert_eq!(shown(&world, &summary), expected, "{files:?}");
    summary
}

#[track_caller]
pub(super) fn check_error(files: &[&str], expected: &str) {
    let bytes: Vec<&[u8]> = files.iter().map(|file| file.as_bytes()).collect();
    let (world, outcome) = import(&bytes, |_| {});
    let error = outcome.expect_err("it fails").to_string();
    assert!(error.contains(expected), "{files:?}: {error}");
    assert!(world.database.snapshot(TABLE).is_err(), "{files:?}: nothing was imported");
}

/// The line end of the first file was used for all: a file with other ones was a single record, and
/// dropped as its header. The exit code was 0, without a note, and all rows were lost.
#[test]
fn each_file_has_its_own_line_ends() {
    let [lf, crlf, cr] = ["a,b\n1,2\n3,4\n", "a,b\r\n5,6\r\n7,8\r\n", "a,b\r9,10\r11,12\r"];
    let rows = |file: &str| match file.contains('9') {
        true => "9 10; 11 12",
        false if file.contains('5') => "5 6; 7 8",
        false => "1 2; 3 4",
    };
    for (first, second) in [(lf, cr), (cr, lf), (cr, crlf), (crlf, cr), (lf, crlf)] {
        let expected = format!("a:BIGINT b:BIGINT; {}; {}", rows(first), rows(second));
        let summary = check(&[first, second], &expected);
        assert_eq!((summary.rows_imported, summary.headers), (4, 2));
    }
    check(&["t,n\r\"x\ny\",1\rz,2\r"], "t:VARCHAR n:BIGINT; x\ny 1; z 2");
    check(&["t,u\rx,1\ry,2\r", "t,u\r\nz,3\r\nw,4\r\n"], "t:VARCHAR u:BIGINT; x 1; y 2; z 3; w 4");
}

#[test]
fn line_ends_that_change_within_a_file_fail_the_import() {
    let mut text = "a,b\r".to_owned();
    for row in 0..300_000 {
        text.push_str(&format!("{row},x\r"));
    }
    text.push_str("1,x\n2,y\n");
    check_error(&[&text], "lines end with CR before it, and with LF here");
    // An editor has added the last LF. All lines were one row of the table.
    for end in ["\n", "\r\n"] {
        let text = format!("a,b\r1,x\r2,y{end}");
        check_error(&[&text], "lines end with CR before it, and with LF here");
    }
}

/// The first record of a file without a header was dropped as a header, because a typed column was
/// empty in it, although the names were known and the record had none of them.
#[test]
fn a_row_is_no_header() {
    check(
        &["name,city,age\nann,rome,30\n", "bob,berlin,\ncid,paris,50\n"],
        "name:VARCHAR city:VARCHAR age:BIGINT; ann rome 30; bob berlin NULL; cid paris 50",
    );
    check(
        &["ann,rome\nbea,oslo\n", "bob,berlin\n"],
        "f0:VARCHAR f1:VARCHAR; ann rome; bea oslo; bob berlin",
    );
    check(&["ann,rome\n", "bob,berlin\n"], "f0:VARCHAR f1:VARCHAR; ann rome; bob berlin");
    check(
        &["bob,berlin,\ncid,paris,50\n"],
        "f0:VARCHAR f1:VARCHAR f2:BIGINT; bob berlin NULL; cid paris 50",
    );
    check(&["NA\n1\n2\n"], "f0:VARCHAR; NA; 1; 2");
    // Data frames write their index without a name.
    check(&[",name\n0,bob\n1,eve\n"], "f0:BIGINT name:VARCHAR; 0 bob; 1 eve");
}

#[test]
fn a_row_of_a_table_that_exists_is_no_header() {
    let world = world();
    let paths = put_all(&world, &[b"name,city,age\nann,rome,30\n", b"bob,berlin,\ncid,paris,50\n"]);
    world.import(&guessed(&world, &paths[..1])).unwrap();
    let summary = world.import(&guessed(&world, &paths[1..])).unwrap();
    assert_eq!((summary.rows_imported, summary.headers, summary.has_header), (2, 0, false));
    // Names that the table does not have may be values: the record is a row, which is rejected.
    let other = world.put("x.csv", b"wer,wo,wann\ndan,bonn,40\n");
    let summary = world.import(&guessed(&world, &[other])).unwrap();
    assert_eq!((summary.rows_imported, summary.rows_rejected), (1, 1));
    assert!(
        summary.notes[0].contains("(`wer`, `wo`, `wann`) is read as a row"),
        "{:?}",
        summary.notes
    );
    let reordered = world.put("y.csv", b"AGE,name\n7,eve\n");
    assert_eq!(world.import(&guessed(&world, &[reordered])).unwrap().rows_imported, 1);
    assert_eq!(world.rows().len(), 5);
}

#[test]
fn text_alone_needs_evidence_for_a_header() {
    let summary = check(
        &["name,city\nAnn,Rome\nBob,Oslo\n"],
        "name:VARCHAR city:VARCHAR; Ann Rome; Bob Oslo",
    );
    assert!(summary.notes[0].contains("--no-header makes it a row"), "{:?}", summary.notes);
    let summary = check(&["a,b\nx,y\n"], "f0:VARCHAR f1:VARCHAR; a b; x y");
    assert!(summary.notes[0].contains("--header makes it one"), "{:?}", summary.notes);
    let summary = check(&["a,b\nx,y\n", "a,b\nz,w\n"], "a:VARCHAR b:VARCHAR; x y; z w");
    assert!(summary.notes[0].contains("every file begins with it"), "{:?}", summary.notes);
}

#[test]
fn columns_are_united_by_name_and_their_types_widened() {
    check(&["a,b\n1,2\n", "a,b\n1.5,x\n"], "a:DOUBLE b:VARCHAR; 1.0 2; 1.5 x");
    check(&["a,b\n1,2\n", "b,a\n4,3\n"], "a:BIGINT b:BIGINT; 1 2; 3 4");
    let summary =
        check(&["a,b\n1,2\n", "b,c,a\n4,5,3\n"], "a:BIGINT b:BIGINT c:BIGINT; 1 2 NULL; 3 4 5");
    assert!(
        !summary.notes.iter().any(|note| note.contains("no column `a`")),
        "{:?}",
        summary.notes
    );
    let summary =
        check(&["a,b,c\n1,2,3\n", "a,c\n4,5\n"], "a:BIGINT b:BIGINT c:BIGINT; 1 2 3; 4 NULL 5");
    assert!(summary.notes.iter().any(|note| note.contains("no column `b`")), "{:?}", summary.notes);
    check(&["1,2\n", "3,x\n"], "f0:BIGINT f1:VARCHAR; 1 2; 3 x");
    check_error(&["1,2\n3,4\n", "5\n6\n"], "has other columns than");
    check_error(&["a,b\n1,2\n", "x,y\n3,4\n"], "none of which is a name in the header");
}

#[test]
fn each_file_has_its_own_delimiter() {
    let summary =
        check(&["a,b\n1,2\n3,4\n", "a;b\n5;6\n7;8\n"], "a:BIGINT b:BIGINT; 1 2; 3 4; 5 6; 7 8");
    assert!(
        summary.notes.iter().any(|note| note.contains("the delimiter is `;`")),
        "{:?}",
        summary.notes
    );
}

/// Of a file in the order of dates 320,000 rows were rejected, and 220,000 got another month.
#[test]
fn a_date_that_contradicts_an_ambiguous_guess_fails_the_import() {
    let (mut text, padding) = ("ts,v\n".to_owned(), "x".repeat(50));
    for row in 0..49_000 {
        text.push_str(&format!("01/{:02}/2024,{padding}\n", 1 + row / 3_500));
    }
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    for designated in [None, Some("ts")] {
        let (world, outcome) = import(&[&gz], |options| {
            options.timestamp = designated.map(str::to_owned);
        });
        match outcome {
            Err(Error::AmbiguousDates { column, text, .. }) => {
                assert_eq!((column.as_str(), text.as_str()), ("ts", "01/13/2024"));
            }
            other => panic!("{other:?}"),
        }
        assert!(world.database.snapshot(TABLE).is_err());
    }
    // A plain file is sampled throughout, and the samples of all files decide together.
    let (world, outcome) = import(&[text.as_bytes()], |_| {});
    assert_eq!(outcome.unwrap().rows_rejected, 0);
    drop(world);
    check(&["d\n01/02/2024\n", "d\n01/13/2024\n"], "d:DATE; 19724; 19735");
}

#[test]
fn quotes_that_enclose_nothing_are_text() {
    let mut text = String::new();
    for row in 0..200 {
        text.push_str(&format!("{row}\t\"open{row}\tsay \"x\" {row}\t5\" pipe\n"));
    }
    let (world, outcome) = import(&[text.as_bytes()], |_| {});
    let summary = outcome.unwrap();
    assert_eq!((summary.rows_imported, summary.rows_rejected), (200, 0));
    assert_eq!(world.rows()[7][1], Value::Bytes(b"\"open7".to_vec()));
    assert!(
        summary.notes.iter().any(|note| note.contains("`\"` is read as text")),
        "{:?}",
        summary.notes
    );
    // A few wrong quotes are not enough.
    let summary =
        check(&["a,b\n\"1\",\"x\"\n\"2\",\"y\"z\n\"3\",\"w\"\n"], "a:BIGINT b:VARCHAR; 1 x; 3 w");
    assert_eq!(summary.rows_rejected, 1);
}

#[test]
fn a_delimiter_that_most_records_contradict_fails_the_import() {
    // The sample has one column; the records behind it have several.
    let mut text = "t\n".to_owned();
    for row in 0..1_100 {
        text.push_str(&format!("word{row}\n"));
    }
    for row in 0..900 {
        text.push_str(&format!("word{row},\"{row}\"x,3\n"));
    }
    let (_, outcome) = import(&[text.as_bytes()], |options| options.on_error = OnError::Null);
    let is_fine = outcome
        .as_ref()
        .is_ok_and(|summary| summary.rows_imported == 2_000 || summary.rows_imported == 2_001);
    assert!(is_fine, "one column of text has no delimiter: {outcome:?}");
    let mut text = "a,b\n".to_owned();
    for row in 0..1_100 {
        text.push_str(&format!("{row},2\n"));
    }
    text.push_str(&"1;2;3\n".repeat(200));
    check_error(&[&text], "200 of 1300 records do not have the 2 fields of the sample");
    let all = format!("text\none,two;three\tfour|five:six\n{}", "word\n".repeat(9));
    let (_, outcome) = import(&[all.as_bytes()], |options| {
        options.dialect.header = Header::Present;
    });
    assert_eq!(outcome.unwrap().rows_imported, 10);
}

#[test]
fn nothing_is_lost_by_guessing() {
    check(&["v\n1234567890123456789\n1.5\n"], "v:VARCHAR; 1234567890123456789; 1.5");
    check(&["v\n1234567890123456789\nNaN\n"], "v:VARCHAR; 1234567890123456789; NaN");
    check(&["v,w\n12345678901234567.89,1\n"], "v:VARCHAR w:BIGINT; 12345678901234567.89 1");
    check(&["v,w\n+4915112345678,1\n"], "v:VARCHAR w:BIGINT; +4915112345678 1");
    check(&["v,w\nNO,1\nNO,2\n"], "v:VARCHAR w:BIGINT; NO 1; NO 2");
    check(&["v,w\nF,1\nF,2\n"], "v:VARCHAR w:BIGINT; F 1; F 2");
    check(&["v,w\nInf,1\nNan,2\n"], "v:VARCHAR w:BIGINT; Inf 1; Nan 2");
    check(&["v,w\nTRUE,1.50\nfalse,2\n"], "v:BOOLEAN w:DOUBLE; true 1.5; false 2.0");
    check(&["v,w\n02134,1\n"], "v:VARCHAR w:BIGINT; 02134 1");
}

/// A value behind the sample that the guessed type would change is rejected, never changed.
#[test]
fn a_later_value_is_held_to_the_guess() {
    let mut text = "i,d,b,t\n".to_owned();
    for row in 0..120_000 {
        text.push_str(&format!("{},{}.5,true,2024-01-01T00:00:00.000001\n", row + 1, row + 1));
    }
    let sampled = text.len();
    assert!(sampled > 3 << 20, "more than the head: {sampled}");
    let bad = [
        "007,1.5,true,2024-01-01T00:00:00",
        "+7,1.5,true,2024-01-01T00:00:00",
        "-0,1.5,true,2024-01-01T00:00:00",
        "7,9007199254740993,true,2024-01-01T00:00:00",
        "7,12345678901234567.89,true,2024-01-01T00:00:00",
        "7,01.5,true,2024-01-01T00:00:00",
        "7,1.5,t,2024-01-01T00:00:00",
        "7,1.5,true,2024-01-01T00:00:00.0000001",
    ];
    text.push_str(&bad.join("\n"));
    text.push_str("\n0,9007199254740992,FALSE,2024-01-01T00:00:00.1000000\n");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let (world, outcome) = import(&[&gz.finish().unwrap()], |_| {});
    let summary = outcome.unwrap();
    let types: Vec<String> = summary.schema.columns().iter().map(|it| it.ty.sql()).collect();
    assert_eq!(types, ["BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP"]);
    assert_eq!(summary.rows_rejected, bad.len() as u64, "{:?}", summary.reject_reasons);
    let last = world.rows().pop().unwrap();
    assert_eq!(last[1], Value::Float(9_007_199_254_740_992.0));
}

/// Checks evidence-1: for any cells of a sample, the stored values can be written as the same
/// texts.
#[test]
fn every_sampled_cell_can_be_written_again_from_its_value() {
    let mut random = Random::new(11);
    for round in 0..300 {
        let kinds = 1 + random.index(2);
        let kinds: Vec<usize> = (0..kinds).map(|_| random.index(12)).collect();
        let cells: Vec<String> = (0..1 + random.index(6))
            .map(|_| {
                let kind = kinds[random.index(kinds.len())];
                cell(&mut random, kind)
            })
            .collect();
        let text: String = cells.iter().map(|cell| format!("x,{cell}\n")).collect();
        let (world, outcome) = import(&[text.as_bytes()], |options| {
            options.dialect.header = Header::Absent;
            options.dialect.delimiter = Some(b',');
        });
        let summary = outcome.unwrap_or_else(|error| panic!("round {round}: {cells:?}: {error}"));
        assert_eq!(summary.rows_rejected, 0, "round {round}: {cells:?}");
        for (cell, row) in cells.iter().zip(world.rows()) {
            assert!(says(&row[1], cell), "round {round}: {cell:?} is {:?}", row[1]);
        }
    }
}

fn cell(random: &mut Random, kind: usize) -> String {
    let number = random.next() >> random.below(64);
    match kind {
        0 => number.to_string(),
        1 => format!("-{number}"),
        2 => format!("+{number}"),
        3 => format!("0{number}"),
        4 => format!("{}.{}", number, random.next() >> random.below(64)),
        5 => format!("{}.{:03}", number % 1_000, random.below(1_000)),
        6 => format!("{}e{}", number % 1_000, random.below(40)),
        7 => random.one_of(&["NaN", "inf", "-Infinity", "Inf", "nan"]).to_owned(),
        8 => random.one_of(&["true", "FALSE", "t", "no", "NO", "F", "1", "0"]).to_owned(),
        9 => f64::from_bits(random.next()).to_string(),
        10 => random.one_of(&["-0", "00", "1.", ".5", "-.5", "1e-320", "0.0", "5e-324"]).to_owned(),
        _ => f64::from_bits(random.next()).abs().log2().to_string(),
    }
}

/// Returns true if a value equals a cell, by the rules of docs/import.md.
fn says(value: &Value, cell: &str) -> bool {
    match value {
        Value::Bytes(bytes) => bytes == cell.as_bytes(),
        Value::Integer(integer) => integer.to_string() == cell,
        Value::Bit(bit) => bit.to_string() == cell.to_ascii_lowercase(),
        Value::Float(float) if !float.is_finite() => {
            let word = cell.trim_start_matches('-').to_ascii_lowercase();
            float.is_nan() && word == "nan" || float.is_infinite() && word.starts_with("inf")
        }
        Value::Float(float) => same_digits(*float, cell),
        _ => false,
    }
}

/// Returns true if the digits of a cell are those of a float: all before the point, in any case 15.
fn same_digits(float: f64, cell: &str) -> bool {
    if cell.starts_with('+') || cell.starts_with('-') != float.is_sign_negative() {
        return false;
    }
    let significant = |text: &str| {
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        digits.trim_start_matches('0').to_owned()
    };
    let written = significant(cell);
    let count = written.len().clamp(1, 15);
    let stored = significant(&format!("{:.*e}", count - 1, float.abs()));
    let rounded = significant(&format!("{:.*e}", count - 1, cell.parse::<f64>().unwrap().abs()));
    let whole = cell.trim_start_matches('-').split('.').next().unwrap_or_default();
    let is_whole_kept = cell.contains(['e', 'E'])
        || whole.trim_start_matches('0').len() <= 15
        || format!("{:.0}", float.abs()) == whole;
    stored == rounded && is_whole_kept && (15 < written.len() || stored == written || float == 0.0)
}

#[test]
fn a_column_that_few_values_make_text_is_noted() {
    let mut text = "fare\n".to_owned();
    for row in 0..200 {
        text.push_str(&if row % 50 == 7 { "$7.20\n".to_owned() } else { format!("{row}.25\n") });
    }
    let (_, outcome) = import(&[text.as_bytes()], |_| {});
    let notes = outcome.unwrap().notes;
    let expected = "column `fare` is VARCHAR because of 4 of 200 sampled values, such as `$7.20`";
    assert!(notes.iter().any(|note| note.starts_with(expected)), "{notes:?}");
}

/// Milliseconds that were read as seconds went to the year 55969 without a note.
#[test]
fn counts_that_lead_far_away_are_noted() {
    for (text, is_noted) in [("1704067200000", true), ("1704067200", false), ("17040", true)] {
        let (_, outcome) = import(&[format!("ts,v\n{text},1\n").as_bytes()], |options| {
            options.timestamp = Some("ts".to_owned());
            options.timestamp_format =
                tidegate_ingest::timestamp::TimestampFormat::parse("epoch_s").ok();
        });
        let notes = outcome.unwrap().notes;
        let found = notes.iter().any(|note| note.contains("may not be what they count"));
        assert_eq!(found, is_noted, "{text}: {notes:?}");
    }
}

#[test]
fn json_is_refused_as_delimited_text() {
    check_error(&["{\"ts\": 1, \"v\": 2}\n{\"ts\": 2, \"v\": 3}\n"], "is JSON, not delimited text");
    check_error(&["[{\"ts\": 1}]\n"], "is JSON");
    check_error(&["[1,2]\n[3,4]\n"], "is JSON");
    check_error(&["[1, null]\r\n[3, -4.5e2]\r\n"], "is JSON");
    check(
        &["[2024-01-01],x\n[2024-01-02],y\n"],
        "f0:VARCHAR f1:VARCHAR; [2024-01-01] x; [2024-01-02] y",
    );
    check_error(&["<?xml version=\"1.0\"?><a/>\n"], "is XML");
    let (_, outcome) = import(&[b"SQLite format 3\0abc"], |_| {});
    assert!(matches!(outcome, Err(Error::ForeignFormat { .. })), "{outcome:?}");
    let (_, outcome) = import(&[b"{\"a\": 1}\n{\"a\": 2}\n"], |options| {
        options.format = tidegate_ingest::FileFormat::Csv;
    });
    assert_eq!(outcome.unwrap().rows_imported, 2);
}

#[test]
fn utf_16_is_read() {
    let text = "name,n\r\nM\u{fc}ller,1\r\n\u{1f600},2\r\n";
    for is_big in [false, true] {
        let units = std::iter::once(0xFEFF_u16).chain(text.encode_utf16());
        let bytes: Vec<u8> = units
            .flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&bytes).unwrap();
        for file in [bytes, gz.finish().unwrap()] {
            let (world, outcome) = import(&[&file], |_| {});
            let summary = outcome.unwrap();
            let expected = "name:VARCHAR n:BIGINT; M\u{fc}ller 1; \u{1f600} 2";
            assert_eq!(shown(&world, &summary), expected);
        }
    }
}

#[test]
fn columns_are_left_out_by_name() {
    let skip = |names: &'static [&'static str]| {
        move |options: &mut ImportOptions| {
            options.skip_columns = names.iter().map(|&name| name.to_owned()).collect();
        }
    };
    let (world, outcome) = import(&[b"a,b,b\n1,2,3\n"], skip(&["B"]));
    assert_eq!(shown(&world, &outcome.unwrap()), "a:BIGINT; 1");
    let (world, outcome) = import(&[b"1,2,3\n", b"4,5,6\n"], skip(&["f1"]));
    assert_eq!(shown(&world, &outcome.unwrap()), "f0:BIGINT f2:BIGINT; 1 3; 4 6");
    let (_, outcome) = import(&[b"a,b\n1,2\n"], skip(&["c"]));
    assert!(matches!(outcome, Err(Error::NoSuchColumn { .. })), "{outcome:?}");
    // The table may lack the column.
    let world = self::world();
    let paths = put_all(&world, &[b"a,b\n1,2\n", b"b,x,a\n4,5,3\n"]);
    world.import(&guessed(&world, &paths[..1])).unwrap();
    let mut options = guessed(&world, &paths[1..]);
    skip(&["x"])(&mut options);
    assert_eq!(world.import(&options).unwrap().rows_imported, 1);
    assert_eq!(world.rows()[1], [Value::Integer(3), Value::Integer(4)]);
}

/// The error was that there are no records.
#[test]
fn a_quote_that_stays_open_in_a_compressed_file_is_named() {
    let mut text = "a\tb\n\"open\t1\n".to_owned();
    text.push_str(&"x\ty\n".repeat(600_000));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let (_, outcome) = import(&[&gz.finish().unwrap()], |options| {
        options.dialect.quote = tidegate_ingest::Quote::Byte(b'"');
        options.dialect.header = Header::Present;
    });
    let error = outcome.unwrap_err();
    let is_named =
        matches!(error, Error::OpenQuote { line: 2, .. } | Error::UnclosedQuote { line: 2, .. });
    assert!(is_named, "{error:?}");
}

/// A random file with its own delimiter, line ends, header and, with a header, order of columns.
fn random_file(
    random: &mut Random,
    ids: std::ops::Range<u64>,
    has_header: bool,
    order: &mut [usize; 3],
) -> Vec<u8> {
    let delimiter = random.one_of(&[",", ",", ";", "\t", "|"]);
    let line_end = random.one_of(&["\n", "\r\n", "\r"]);
    // Files without a header have the order of the file before.
    if has_header && ids.start > 0 {
        random.shuffle(order);
    }
    let join = |cells: [&str; 3]| {
        order.iter().map(|&at| cells[at]).collect::<Vec<_>>().join(delimiter) + line_end
    };
    let mut text = String::new();
    if has_header {
        text.push_str(&join(["id", "text", "share"]));
    }
    for id in ids {
        let inner =
            random.one_of(&["word", "two words", "a, b; c", "\"\"q\"\"", "line\nline", "x\ty|z"]);
        let is_bare = inner.contains(' ') && !inner.contains(',') || inner == "word";
        let cell =
            if is_bare && random.percent(50) { inner.to_owned() } else { format!("\"{inner}\"") };
        text.push_str(&join([&id.to_string(), &cell, &format!("{}.25", random.below(100))]));
        if random.percent(3) {
            text.push_str(line_end);
        }
    }
    if random.percent(40) {
        while text.ends_with(['\r', '\n']) {
            text.pop();
        }
    }
    text.into_bytes()
}

/// Conservation of records, with all properties of the files guessed: all records of all files are
/// imported, however they are written, compressed and read.
#[test]
fn no_record_of_any_file_is_lost() {
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let count = 1 + random.index(4);
        let headers = random.below(3);
        let (mut files, mut next, mut wanted_headers) = (Vec::new(), 0, 0);
        let mut order = [0, 1, 2];
        for at in 0..count {
            let rows = 2 + random.below(30);
            let has_header = headers == 0 || headers == 1 && (at == 0 || random.percent(50));
            wanted_headers += u64::from(has_header);
            let file = random_file(&mut random, next..next + rows, has_header, &mut order);
            next += rows;
            files.push(match random.below(3) {
                0 => {
                    let mut gz =
                        flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                    gz.write_all(&file).unwrap();
                    gz.finish().unwrap()
                }
                1 => zstd::encode_all(&file[..], 1).unwrap(),
                _ => file,
            });
        }
        let slices: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let workers = 1 + random.index(3);
        let is_stream = count == 1 && random.percent(50);
        let (world, outcome) = import(&slices, |options| {
            options.workers = std::num::NonZeroUsize::new(workers).unwrap();
            if is_stream {
                let bytes = Box::new(std::io::Cursor::new(files[0].clone()));
                let stream = tidegate_ingest::ByteStream::new("stream".into(), bytes);
                options.source = Source::Stream(stream);
            }
        });
        let summary = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let counts = (summary.rows_read, summary.rows_imported, summary.rows_rejected);
        assert_eq!(counts, (next, next, 0), "seed {seed}: {:?}", summary.reject_reasons);
        assert_eq!(summary.headers, wanted_headers, "seed {seed}");
        let columns = summary.schema.columns();
        let id = columns.iter().position(|it| it.name == "id").unwrap_or(0);
        let mut ids: Vec<String> = (world.rows().iter())
            .map(|row| match &row[id] {
                Value::Integer(id) => id.to_string(),
                other => panic!("seed {seed}: {other:?}"),
            })
            .collect();
        ids.sort_by_key(|id| id.parse::<u64>().unwrap());
        let wanted: Vec<String> = (0..next).map(|id| id.to_string()).collect();
        assert_eq!(ids, wanted, "seed {seed}");
    }
}

#[test]
fn a_source_is_a_list_of_files() {
    let world = world();
    let options = guessed(&world, &put_all(&world, &[b"", b"a,b\n1,2\n", b"a,b\n"]));
    assert!(matches!(options.source, Source::Files(_)));
    let summary = world.import(&options).unwrap();
    assert_eq!((summary.rows_imported, summary.headers), (1, 2));
}

// The majority decided: the dates of the other files were rejected, and those that are dates in
// both orders got another month.
#[test]
fn dates_of_both_orders_fail_the_import() {
    let days = (13..28).map(|day| format!("{day}/02/2024\n")).collect::<String>();
    let (a, b) = (format!("ts\n{days}"), "ts\n02/13/2024\n02/14/2024\n01/02/2024\n".to_owned());
    let one = format!("{a}02/13/2024\n");
    for (files, other) in [(vec![a.as_bytes(), b.as_bytes()], "b.csv"), (vec![one.as_bytes()], "")]
    {
        let (world, outcome) = import(&files, |it| it.timestamp = Some("ts".to_owned()));
        let error = outcome.expect_err("refused").to_string();
        assert!(error.contains("`13/02/2024`") && error.contains("`02/13/2024`"), "{error}");
        assert!(error.contains("column `ts`") && error.contains(other), "{error}");
        assert!(world.database.snapshot(TABLE).is_err(), "nothing is imported");
        let formats = [("day", TimestampFormat::DayFirst), ("month", TimestampFormat::MonthFirst)];
        for (name, format) in formats {
            let (_, outcome) = import(&files, |options| {
                options.timestamp = Some("ts".to_owned());
                options.timestamp_format = Some(format.clone());
            });
            assert!(outcome.is_ok(), "{name} first, as it is said: {outcome:?}");
        }
    }
    // A column that is not the designated timestamp becomes text, which loses nothing.
    let (_, outcome) = import(&[one.as_bytes()], |_| {});
    assert_eq!(outcome.unwrap().schema.columns()[0].ty, tidegate_model::ColumnType::Varchar);
}

#[test]
fn an_ambiguous_column_is_read_as_the_others_of_its_file() {
    let text = "ts,d\n01/02/2024,02/13/2024\n03/02/2024,02/14/2024\n";
    let (world, outcome) = import(&[text.as_bytes()], |_| {});
    let summary = outcome.unwrap();
    assert!(summary.notes.iter().any(|note| note.contains("`ts` could be day first")));
    let days = |month: i64, day: i64| {
        Value::Integer(i128::from(19_722 + [0, 0, 31, 60][usize::try_from(month).unwrap()] + day))
    };
    assert_eq!(world.rows(), [vec![days(1, 2), days(2, 13)], vec![days(3, 2), days(2, 14)]]);
}
