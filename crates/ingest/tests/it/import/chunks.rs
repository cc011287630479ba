//! The bounds of input chunks: every byte of every kind of record is at a bound once.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use tidegate_ingest::sniff::LineEnd;
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit};
use tidegate_platform::SimDisk;

use crate::plain::{self, PlainOptions};
use crate::world::{Expected, World, assert_same_rows, check_import, schema_of};

/// The size of the input chunks of the pipeline.
const CHUNK_BYTES: usize = 256 << 10;

fn schema() -> Schema {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("text", ColumnType::Varchar),
        ("n", ColumnType::Int32),
    ];
    schema_of(&columns, Some("ts"), PartitionUnit::Day)
}

/// Appends rows up to `end`, the last of them as long as needed.
fn fill(text: &mut Vec<u8>, end: usize) {
    let row = format!("2020-01-03T00:00:00,{},5\n", "some filling text ".repeat(100));
    while text.len() + 2 * row.len() <= end {
        text.extend_from_slice(row.as_bytes());
    }
    let missing = end - text.len();
    text.extend_from_slice(b"2020-01-02T00:00:00,");
    text.resize(text.len() + missing - 23, b'x');
    text.extend_from_slice(b",7\n");
    assert_eq!(text.len(), end);
}

/// Puts `records` across the end of every chunk, one byte further each time.
fn check_cuts(records: &[u8]) {
    const CUTS: usize = 8;
    let schema = schema();
    let shifts: Vec<usize> = (0..=records.len()).collect();
    for shifts in shifts.chunks(CUTS) {
        let mut text = Vec::new();
        for (cut, shift) in shifts.iter().enumerate() {
            fill(&mut text, (cut + 1) * CHUNK_BYTES - shift);
            text.extend_from_slice(records);
        }
        let context = format!("{} cut at {shifts:?}", records.escape_ascii());
        check(&text, &schema, &context);
    }
}

fn check(text: &[u8], schema: &Schema, context: &str) {
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let path = world.put("a.csv", text);
    let mut expected = Expected::default();
    expected.add(&path, plain::read(text, &PlainOptions::of(schema)));
    let mut options = world.options(schema, &[path]);
    options.workers = NonZeroUsize::new(3).unwrap();
    let outcome = world.import(&options);
    check_import(&world, &outcome, &expected.sorted(schema), context);
}

#[test]
fn quoted_newlines_and_doubled_quotes_stand_across_a_cut() {
    check_cuts(b"2020-01-01T00:00:00,\"a\"\"b\n\n,\r\n\"\"\",2\r\n\n2020-01-04,\"\",3\n");
}

#[test]
fn quotes_inside_of_fields_stand_across_a_cut() {
    check_cuts(b"2020-01-01,6\" pipe,2\n2020-01-01,\"8\"\" pipe\n\",3\r\n2020-01-02,x\"y\",4\n");
}

#[test]
fn bad_records_and_characters_of_several_bytes_stand_across_a_cut() {
    let records = "2020-01-01,\"a\"b,1\n2020-01-02,\u{e9}\u{20ac}\u{1F600},x\nno,\n1,2,3,4\r\n";
    check_cuts(records.as_bytes());
    check_cuts(b"2020-01-01,\xC3(,1\n2020-01-02,\xFF,2\n");
}

#[test]
fn all_line_ends_give_the_same_rows() {
    let records = ["2020-01-01,\"a,b\",1", "2020-01-02,,2", "", "2020-01-03,c,"];
    let schema = schema();
    let mut tables = Vec::new();
    for (mark, line_end, last) in [
        ("", "\n", "\n"),
        ("\u{FEFF}", "\n", ""),
        ("", "\r\n", "\r\n"),
        ("", "\r\n", ""),
        ("", "\r\n", "\r"),
        ("\n\n", "\n", "\n\n\r\n"),
        ("", "\r", "\r"),
        ("\u{FEFF}\r", "\r", ""),
    ] {
        let text = format!("{mark}{}{last}", records.join(line_end));
        let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
        let path = world.put("a.csv", text.as_bytes());
        let options = world.options(&schema, std::slice::from_ref(&path));
        let outcome = world.import(&options);
        let is_cr = line_end == "\r";
        let line_end = if is_cr { LineEnd::Cr } else { LineEnd::LfOrCrlf };
        let plain = PlainOptions { line_end, ..PlainOptions::of(&schema) };
        let mut expected = Expected::default();
        expected.add(&path, plain::read(text.as_bytes(), &plain));
        check_import(&world, &outcome, &expected.sorted(&schema), &format!("{text:?}"));
        tables.push(world.rows());
    }
    for table in &tables {
        assert_same_rows(table, &tables[0], "all line ends");
        assert_eq!(table.len(), 3);
    }
}

#[test]
fn a_cr_dialect_is_cut_into_chunks_too() {
    let mut text = Vec::new();
    fill(&mut text, CHUNK_BYTES - 30);
    text.extend_from_slice(b"2020-01-01,\"a\r\"\"b\",1\n2020-01-01,c,2\n\n2020-01-02,d,3\n");
    fill(&mut text, 2 * CHUNK_BYTES - 1);
    text.extend_from_slice(b"2020-01-02,e,4\n2020-01-02,\"f\r");
    text.extend_from_slice(b"\",5\n");
    text.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
    let schema = schema();
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let path = world.put("a.csv", &text);
    let plain = PlainOptions { line_end: LineEnd::Cr, ..PlainOptions::of(&schema) };
    let mut expected = Expected::default();
    expected.add(&path, plain::read(&text, &plain));
    let outcome = world.import(&world.options(&schema, &[path]));
    check_import(&world, &outcome, &expected.sorted(&schema), "CR");
}

#[test]
fn a_file_that_ends_with_a_chunk_is_whole() {
    let schema = schema();
    for missing in 0..3 {
        for tail in ["", "2020-01-01,x,1", "2020-01-01,\"x\"", "2020-01-01,\"\n\",2\r"] {
            let mut text = Vec::new();
            fill(&mut text, CHUNK_BYTES - missing - tail.len());
            text.extend_from_slice(tail.as_bytes());
            check(&text, &schema, &format!("{missing} bytes missing, {tail:?}"));
            text.truncate(CHUNK_BYTES - missing - tail.len() - 1);
            check(&text, &schema, &format!("{missing} bytes missing, no last line end"));
        }
    }
}
