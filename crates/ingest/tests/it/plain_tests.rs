//! Tests of the plain reader by tables of text: an error in it would remain unnoticed elsewhere.

use tidegate_ingest::EmptyFields;
use tidegate_ingest::sniff::LineEnd;
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit, Value};

use crate::plain::{BadCell, Missing, Plain, PlainHeader, PlainOptions, read};

fn schema(columns: &[(&str, ColumnType)], designated: Option<&str>) -> Schema {
    let columns: Vec<(String, ColumnType)> =
        columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect();
    Schema::new(&columns, designated, PartitionUnit::None).expect("a schema")
}

fn two() -> Schema {
    schema(&[("a", ColumnType::Varchar), ("b", ColumnType::Int64)], None)
}

/// The result as text: `row; row ! line:byte column reason`.
fn shown(plain: &Plain) -> String {
    let value = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Bytes(bytes) => format!("<{}>", String::from_utf8_lossy(bytes)),
        Value::Integer(integer) => integer.to_string(),
        other => format!("{other:?}"),
    };
    let rows = plain.rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join(","));
    let mut shown = rows.collect::<Vec<_>>().join("; ");
    for reject in &plain.rejects {
        let column = reject.column.as_deref().unwrap_or("-");
        shown += &format!(" ! {}:{} {column} {}", reject.line, reject.byte, reject.reason);
    }
    if let Some(line) = plain.open_quote {
        shown += &format!(" ! open quote in line {line}");
    }
    shown
}

#[track_caller]
fn check(text: &str, expected: &str) {
    check_with(text, &PlainOptions::of(&two()), expected);
}

#[track_caller]
fn check_with(text: &str, options: &PlainOptions<'_>, expected: &str) {
    assert_eq!(shown(&read(text.as_bytes(), options)), expected, "{text:?}");
}

#[test]
fn fields_are_null_empty_or_text() {
    check("x,1\n", "<x>,1");
    check("x,1", "<x>,1");
    check(",\n", "NULL,NULL");
    check("\"\",\"\"\n", "<>,NULL");
    check("\"a\"\"b\",\"2\"\n", "<a\"b>,2");
    check("\"a\nb,\",2\n", "<a\nb,>,2");
    check("a\"b\"c,2\n", "<a\"b\"c>,2");
    check("\" x \",2\n", "< x >,2");
    check("x\n", "<x>,NULL");
    check("", "");
}

#[test]
fn line_ends_and_blank_lines() {
    check("x,1\r\ny,2\r\n", "<x>,1; <y>,2");
    check("x,1\ny,2\r\n\n\r\nz,3", "<x>,1; <y>,2; <z>,3");
    check("\"x\",1\r\n\"y\",\"2\"\r\n", "<x>,1; <y>,2");
    check("a\rb,1\r", "<a\rb>,1");
    check("\u{FEFF}x,1\n", "<x>,1");
    let two = two();
    let cr = PlainOptions { line_end: LineEnd::Cr, ..PlainOptions::of(&two) };
    check_with("x,1\r\ry,\"2\"\r", &cr, "<x>,1; <y>,2");
}

#[test]
fn bad_records_are_rejected_whole() {
    check("x,1,2\ny,2\n", "<y>,2 ! 1:0 - too many fields");
    check("\"x\"y,1\ny,2\n", "<y>,2 ! 1:0 a text between a closing quote and the delimiter");
    check("\"x\" \"y,1\ny,2\n", "<y>,2 ! 1:0 a text between a closing quote and the delimiter");
    check("x,1\n\"y,\n2\n", "<x>,1 ! open quote in line 2");
    check("\"x\n\",\"1\n", " ! open quote in line 2");
    let two = two();
    let strict = PlainOptions { missing_fields: Missing::AreBad, ..PlainOptions::of(&two) };
    check_with("x\ny,2\n", &strict, "<y>,2 ! 1:0 - too few fields");
    let short = PlainOptions { record_bytes_max: 4, ..PlainOptions::of(&two) };
    check_with("xx,1\nxx,12\ny,2\n", &short, "<xx>,1; <y>,2 ! 2:5 - record too long");
    check_with("y,2\n\"xxxxx\"\n", &short, "<y>,2 ! open quote in line 2");
}

#[test]
fn rejects_know_their_line_and_byte() {
    check("x,1\n\n\"\n\n\",zz\r\ny,w\n", "<x>,1 ! 3:5 b not a number ! 6:14 b not a number");
    check("\u{FEFF}x,w\n", " ! 1:3 b not a number");
    let two = two();
    let header = PlainOptions { header: PlainHeader::Present, ..PlainOptions::of(&two) };
    check_with("\"a\n\",b\nx,w\n", &header, " ! 3:7 b not a number");
    let skip = PlainOptions { skip_lines: 2, ..PlainOptions::of(&two) };
    check_with("\"\n#\nx,w\n", &skip, " ! 3:4 b not a number");
}

#[test]
fn null_text_is_null_unless_it_is_quoted() {
    let two = two();
    let options = PlainOptions { null_text: Some(b"NA"), ..PlainOptions::of(&two) };
    check_with("NA,NA\n\"NA\",\n", &options, "NULL,NULL; <NA>,NULL");
    let quoted = PlainOptions { empty_fields: EmptyFields::Quoted, ..options };
    check_with(",\nNA,NA\n\"\",1\n2\n\n", &quoted, "<>,NULL; NULL,NULL; <>,1; <2>,NULL");
    let bare = PlainOptions { quote: None, ..PlainOptions::of(&two) };
    check_with("\"x,1\n", &bare, "<\"x>,1");
}

#[test]
fn rows_are_in_the_order_of_time_and_then_of_the_file() {
    let schema = schema(
        &[("n", ColumnType::Int64), ("ts", ColumnType::Timestamp(TimeUnit::Micros))],
        Some("ts"),
    );
    let text =
        "1,1970-01-01T00:00:00.000002\n2,1970-01-01\n3,1970-01-01T00:00:00.000002\n4,\n5,x\n";
    let rejects = " ! 4:71 ts the designated timestamp is NULL ! 5:74 ts not a timestamp";
    let options = PlainOptions::of(&schema);
    check_with(text, &options, &format!("2,0; 1,2; 3,2{rejects}"));
    let options = PlainOptions { bad_cell: BadCell::IsNull, ..options };
    check_with(text, &options, &format!("2,0; 1,2; 3,2{rejects}"));
    check_with("x,1970-01-01\n", &options, "NULL,0 ! 1:0 n not a number");
    check_with("x,y\n", &options, " ! 1:0 ts not a timestamp");
}

#[test]
fn columns_go_where_they_are_sent() {
    let two = two();
    let options = PlainOptions { targets: vec![Some(1), Some(0)], ..PlainOptions::of(&two) };
    check_with("1,x\ny,x\n", &options, "<x>,1 ! 2:4 b not a number");
    let options = PlainOptions { targets: vec![Some(1)], ..options };
    check_with("1\n2,x\n", &options, "NULL,1 ! 2:2 - too many fields");
}
