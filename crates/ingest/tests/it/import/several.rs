//! Several files of one import: the columns of a file whose header is in another file.

use std::path::Path;
use std::sync::Arc;

use tidegate_ingest::sniff::Header;
use tidegate_ingest::{ColumnSource, Error, ImportOptions, ImportSummary};
use tidegate_model::{ColumnType, PartitionUnit};
use tidegate_platform::SimDisk;

use super::guesses::{guessed, put_all, shown};
use crate::world::{World, schema_of};

const COLUMNS: [(&str, ColumnType); 3] =
    [("lat", ColumnType::Float64), ("lon", ColumnType::Float64), ("name", ColumnType::Varchar)];

/// Imports into a table that has the first columns of a schema.
fn into_schema(
    files: &[&str],
    columns: usize,
    change: impl Fn(&mut ImportOptions),
) -> (World, Result<ImportSummary, Error>) {
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let bytes: Vec<&[u8]> = files.iter().map(|file| file.as_bytes()).collect();
    let schema = schema_of(&COLUMNS[..columns], None, PartitionUnit::None);
    let mut options = guessed(&world, &put_all(&world, &bytes));
    let columns = schema.columns().iter().map(|c| (c.name.clone(), c.ty)).collect();
    options.columns = ColumnSource::Given(columns);
    change(&mut options);
    let outcome = world.import(&options);
    (world, outcome)
}

#[track_caller]
fn check(files: &[&str], columns: usize, expected: &str) {
    let (world, outcome) = into_schema(files, columns, |_| {});
    let summary = outcome.unwrap_or_else(|error| panic!("{files:?}: {error}"));
    let found = shown(&world, &summary);
    let rows = found.split_once("; ").map(|(_, rows)| rows);
    assert_eq!(rows, Some(expected), "{files:?}");
}

#[track_caller]
fn check_error(files: &[&str], columns: usize, change: impl Fn(&mut ImportOptions), wanted: &str) {
    let (_, outcome) = into_schema(files, columns, change);
    let error = outcome.expect_err("it fails").to_string();
    assert!(error.contains(wanted), "{files:?}: {error}");
}

// The parts of a file that was split had their columns in the order of the table, although the
// header of the first part had another order: latitudes and longitudes were exchanged without a
// note.
#[test]
fn a_file_without_a_header_has_the_columns_of_the_header_before_it() {
    check(
        &["lon,lat\n1.5,50\n2.5,51\n", "3.5,52\n4.5,53\n"],
        2,
        "50.0 1.5; 51.0 2.5; 52.0 3.5; 53.0 4.5",
    );
    // The header is in a separate file.
    check(&["lon,lat\n", "3.5,52\n4.5,53\n"], 2, "52.0 3.5; 53.0 4.5");
    check(
        &["lat,lon\n50,1.5\n51,2\n", "lon,lat\n1.5,50\n2,51\n", "2.5,51\n3,53\n"],
        2,
        "50.0 1.5; 51.0 2.0; 50.0 1.5; 51.0 2.0; 51.0 2.5; 53.0 3.0",
    );
    check(&["name,lon\nx,1.5\ny,2.5\n", "z,2.5\n"], 3, "NULL 1.5 x; NULL 2.5 y; NULL 2.5 z");
    // The same holds for a table that the import creates.
    let files: [&[u8]; 3] = [b"a,b\n1,x\n", b"b,a\ny,2\n", b"z,3\n"];
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let summary = world.import(&guessed(&world, &put_all(&world, &files))).unwrap();
    assert_eq!(shown(&world, &summary), "a:BIGINT b:VARCHAR; 1 x; 2 y; 3 z");
}

#[test]
fn a_file_that_cannot_have_the_columns_of_the_header_fails_the_import() {
    let wanted = "/b.csv has no header and 1 columns, and the header of /a.csv has 2";
    check_error(&["lon,lat\n1.5,50\n2.5,51\n", "3.5\n4.5\n"], 2, |_| {}, wanted);
    let wanted = "/a.csv has no header, and that of /b.csv after it has the columns in another";
    check_error(&["3.5,52\n4.5,53\n", "lon,lat\n1.5,50\n2.5,51\n"], 2, |_| {}, wanted);
    check(&["52,3.5\n", "lat,lon\n50,1.5\n51,2.5\n"], 2, "52.0 3.5; 50.0 1.5; 51.0 2.5");
}

// With --header the first row of a part was lost as its header.
#[test]
fn a_header_of_other_names_than_those_before_fails_the_import() {
    let is_told = |options: &mut ImportOptions| options.dialect.header = Header::Present;
    let wanted = "/b.csv begins with `3.5`, `52`, none of which is a name in the header of /a.csv";
    let files = ["lon,lat\n1.5,50\n2.5,51\n", "3.5,52\n4.5,53\n"];
    check_error(&files, 2, is_told, wanted);
    let (_, outcome) = into_schema(&["a,b\n50,1.5\n", "a,b\n51,2.5\n"], 2, is_told);
    let summary = outcome.unwrap();
    assert_eq!((summary.rows_imported, summary.headers), (2, 2));
    assert!(summary.notes[0].contains("none of the table's names"), "{:?}", summary.notes);
}

/// Hive and other programs write a column that all rows of a file share as the name of a directory:
/// it was left out without a note.
#[test]
fn folders_that_say_a_column_are_noted() {
    for (column, noted) in [("n", true), ("YEAR", false)] {
        let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
        let text = format!("{column},s\n1,a\n2,b\n");
        let paths = ["year=2024/a.csv", "year=2025/a.csv"];
        let paths = paths.map(|path| world.put(path, text.as_bytes()));
        let summary = world.import(&guessed(&world, &paths)).unwrap();
        let note = "folders are called `year=...`, but names of folders are no columns: `year` \
                    left out";
        assert_eq!(summary.notes.iter().any(|own| own == note), noted, "{:?}", summary.notes);
    }
}

/// Texts such as `null` made a column of numbers text, without a note on the reason.
#[test]
fn texts_that_other_programs_write_for_null_are_noted() {
    let note = |column: &str, text: &str, count: u64| {
        format!(
            "column `{column}` has the text `{text}`, sampled values: {count}; where that is NULL, \
             say --null '{text}'"
        )
    };
    for (file, expected) in [
        ("k,n,s\n1,1,a\n2,null,b\n3,null,null\n4,3,c\n", vec![note("n", "null", 2)]),
        ("k,t,s\n1,2024-01-01,a\n2,NA,b\n3,2024-01-02,NA\n", vec![note("t", "NA", 1)]),
        ("k,n,s\n1,1,a\n2,NA,b\n3,x,c\n", vec![]),
        ("k,s\n1,NA\n2,NA\n", vec![]),
    ] {
        let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
        let path = world.put("a.csv", file.as_bytes());
        let summary = world.import(&guessed(&world, &[path])).unwrap();
        let found = summary.notes.iter().filter(|note| note.contains("--null"));
        assert_eq!(found.cloned().collect::<Vec<_>>(), expected, "{file}");
    }
}
