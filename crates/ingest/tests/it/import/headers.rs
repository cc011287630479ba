//! The first record of a file: a header, a row, or something before both.

use std::path::Path;
use std::sync::Arc;

use tidegate_ingest::{ColumnSource, ExtraFields, Header, ImportOptions, MissingFields};
use tidegate_model::{ColumnType, PartitionUnit};
use tidegate_platform::SimDisk;

use super::guesses::{check, check_error, import, shown};
use crate::world::{World, schema_of};

// The schema of an upload gives the names, but header detection ignored them: the header was a row.
#[test]
fn names_that_the_caller_knows_make_a_header() {
    let hints = [("ip", ColumnType::Ipv4), ("c", ColumnType::Varchar)];
    let hinted = |options: &mut ImportOptions| {
        let hints = hints.map(|(name, ty)| (name.to_owned(), ty)).to_vec();
        options.columns = ColumnSource::Hinted(hints);
    };
    let (world, outcome) = import(&[b"ip,c\n1.2.3.4,x\n"], hinted);
    assert_eq!(shown(&world, &outcome.unwrap()), "ip:IPV4 c:VARCHAR; 16909060 x");
    let (world, outcome) = import(&[b"1.2.3.4,c\n1.2.3.5,x\n"], hinted);
    assert_eq!(shown(&world, &outcome.unwrap()), "ip:IPV4 c:VARCHAR; 16909060 c; 16909061 x");
}

// Polars, DuckDB and Arrow write NULL as nothing, so a row of one column is a blank line: it was
// skipped, before anything was counted.
#[test]
fn a_blank_line_of_one_column_is_a_row_of_null() {
    let summary = check(&["v\n1\n\n2\n\n"], "v:BIGINT; 1; NULL; 2; NULL");
    let note = "/a.csv has one column, and its blank lines are rows of NULL: 2";
    assert_eq!(summary.notes, [note]);
    check(&["\r\n1\r\n\r\n2"], "f0:BIGINT; NULL; 1; NULL; 2");
    check(&["v\n1\n\n", "v\n\n2\n"], "v:BIGINT; 1; NULL; NULL; 2");
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let one = schema_of(&[("v", ColumnType::Int64)], None, PartitionUnit::None);
    let path = world.put("a.csv", b"\n\n");
    assert_eq!(world.import(&world.options(&one, &[path])).unwrap().rows_imported, 2);
    // Blank lines before a header are skipped.
    check(&["\n\nv\n1\n"], "v:BIGINT; 1");
    check(&["a,b\n1,2\n\n3,4\n\n"], "a:BIGINT b:BIGINT; 1 2; 3 4");
}

// The name of the first column began with the second mark, which no editor shows.
#[test]
fn a_file_may_begin_with_several_byte_order_marks() {
    check(&["\u{feff}\u{feff}a,b\n1,2\n"], "a:BIGINT b:BIGINT; 1 2");
    check(&["\u{feff}\u{feff}\u{feff}1,2\n"], "f0:BIGINT f1:BIGINT; 1 2");
}

// Years above the values of each year are numbers: the header became a row of sums without a note.
#[test]
fn a_row_that_may_be_a_header_of_numbers_is_noted() {
    for (file, is_noted) in [
        ("name,2023,2024\nann,1,2\nbob,3,4\n", true),
        ("country,2020,2021\nDE,1.5,2.5\nFR,3.5,4.5\n", true),
        ("id,1\n5,6\n7,8\n", true),
        ("probe,1,2,3\nx,0.5,0.25,1\ny,7,9,8\n", true),
        ("probe,1,2,3\nx,7,9,8\ny,7,9,8\n", true),
        ("ann,2023,2024\nbob,2022,2025\n", false),
        ("ann,30,5\nbob,31,6\n", false),
        ("ann,30,31\nbob,35,20\n", false),
        // Pivoted tables: the corner is empty or has a name, the other columns have labels.
        (",2019,2020\nDE,1.5,2.5\nFR,1.6,2.6\n", true),
        (",2019,2020\nDE,a,b\nFR,c,d\n", true),
        (",2019-01,2019-02\nDE,1.5,2.5\nFR,1.6,2.6\n", true),
        (",00:00,01:00\n2024-01-01,1,2\n2024-01-02,3,4\n", true),
        ("station,2024-01-01,2024-01-02\nA,1.5,2.5\nB,1.6,2.6\n", true),
        (",0,1\n0,a,b\n1,c,d\n", true),
        (",2019,2020\n,2021,2022\nx,2018,2019\n", false),
        (",5,6\nx,1,2\ny,3,4\n", false),
        (",1,2\nx,1,2\ny,2,1\n", false),
        (",2024-01-01,5\nx,2024-01-02,6\n", false),
        (",,7\na,1,8\nb,2,9\n", false),
        (",5,x\na,y,z\n", false),
        (",5\na,7 km\nb,8\n", false),
    ] {
        let (_, outcome) = import(&[file.as_bytes()], |_| {});
        let notes = outcome.unwrap().notes;
        let found = notes.iter().any(|note| note.contains("is read as a row, as it has numbers"));
        assert_eq!(found, is_noted, "{file}: {notes:?}");
    }
    let (_, outcome) = import(&[b"1,x\n2,y\n", b"id,name\nc,z\n"], |_| {});
    let notes = outcome.unwrap().notes;
    assert!(notes[0].contains("/b.csv: the first record looks like names"), "{notes:?}");
    let (_, outcome) = import(&[b"ann,pending\nbob,2024-01-01\n"], |_| {});
    assert_eq!(outcome.unwrap().header_names, ["ann", "pending"]);
}

// A header of a further file was a row if the first file with rows had none, also if a file with
// only a header came before that: values of a header in another order got into the wrong columns.
#[test]
fn a_header_behind_rows_without_names_is_no_row() {
    let (header, rows, other) = ("price,id\n", "1.5,1\n2.5,2\n", "id,price\n3,9.5\n4,8.5\n");
    let types = "price:DOUBLE id:BIGINT";
    check(&[header, rows, other], &format!("{types}; 1.5 1; 2.5 2; 9.5 3; 8.5 4"));
    let summary = check(&[header, rows], &format!("{types}; 1.5 1; 2.5 2"));
    assert_eq!(summary.header_names, ["price", "id"]);
    check(&["", header, header, rows], &format!("{types}; 1.5 1; 2.5 2"));
    let late = "looks like names, and /a.csv has no header";
    check_error(&[rows, other], late);
    check_error(&[rows, "price,id\n3,4\n"], late);
    check_error(&[rows, header], late);
    // Nothing shows that these are names.
    check(&["x,y\n", "a,b\nc,d\n"], "f0:VARCHAR f1:VARCHAR; x y; a b; c d");
    let (world, outcome) = import(&[rows.as_bytes(), header.as_bytes()], |options| {
        options.dialect.header = Header::Absent;
    });
    let expected = "f0:VARCHAR f1:VARCHAR; 1.5 1; 2.5 2; price id";
    assert_eq!(shown(&world, &outcome.unwrap()), expected);
}

// Spreadsheets name the delimiter in a first line: it was a row, and made all columns text.
#[test]
fn a_first_line_may_say_the_delimiter() {
    let summary = check(&["sep=;\nid;name\n1;x\n2;y\n"], "id:BIGINT name:VARCHAR; 1 x; 2 y");
    assert_eq!(summary.notes, ["the first line says that the delimiter is `;`"]);
    check(&["\u{FEFF}SEP=,\r\n\r\na,b\r\n1,5;5\r\n"], "a:BIGINT b:VARCHAR; 1 5;5");
    check(&["sep=\t\n1\t2\n", "3,4\n"], "f0:BIGINT f1:BIGINT; 1 2; 3 4");
    check(&["sep=ab,c\nd,e\n"], "f0:VARCHAR f1:VARCHAR; sep=ab c; d e");
}

#[test]
fn lines_before_the_header_that_make_all_columns_text_are_noted() {
    let (_, outcome) = import(&[b",a,b\n,mean,std\nx,1.5,2\ny,2.5,3\n"], |_| {});
    let notes = outcome.unwrap().notes;
    let wanted = "all columns are text because of the first 2 records";
    assert!(notes.iter().any(|note| note.contains(wanted)), "{notes:?}");
    let (_, outcome) = import(&[b"ann,rome\nbob,oslo\ncid,bern\n"], |_| {});
    let notes = outcome.unwrap().notes;
    assert!(!notes.iter().any(|note| note.contains("all columns are text")), "{notes:?}");
    let (_, outcome) = import(&[b"a,b\r\r\n1,2\r\r\n"], |_| {});
    let notes = outcome.unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("lines end with CR, CR and LF")), "{notes:?}");
}

// An upload accepts lines with too many fields by default: their last values were dropped without a
// count.
#[test]
fn values_that_are_left_out_are_counted() {
    let (_, outcome) = import(&[b"id,v\n1,2\n3,4,extra\n5\n6,7,8,9\n"], |options| {
        options.dialect.extra_fields = ExtraFields::Ignore;
        options.dialect.missing_fields = MissingFields::Null;
    });
    let notes = outcome.unwrap().notes;
    let wanted = [
        "/a.csv: values beyond the last column were left out, rows: 2, the first in line 3",
        "/a.csv: columns are NULL for want of values, rows: 1, the first in line 4",
    ];
    assert_eq!(notes, wanted);
}

#[test]
fn what_is_rejected_says_nothing_of_types() {
    let summary = check(&["id,v\n1,2\n3,4\n(2 rows)\n"], "id:BIGINT v:BIGINT; 1 2; 3 4");
    assert_eq!(summary.rows_rejected, 1);
    let summary = check(&["id,v\n1,2\n3,4\n\x1A"], "id:BIGINT v:BIGINT; 1 2; 3 4");
    assert_eq!(summary.rows_rejected, 1);
}

#[test]
fn a_first_record_without_an_end_is_named() {
    let text = format!("\"{}\",b\n1,2", "x".repeat(3 << 20));
    check_error(&[&text], "the first record has no end within the first 2097152 bytes");
}
