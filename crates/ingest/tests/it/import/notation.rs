//! Values with different meanings in different files: points between thousands, times without an
//! offset, `\N`; and the notes on them.

use tidegate_ingest::sniff::Header;
use tidegate_ingest::{EmptyFields, ImportOptions, MissingFields};
use tidegate_model::ColumnType;

use super::guesses::{check, import, shown};

#[track_caller]
fn check_notes(files: &[&str], change: impl Fn(&mut ImportOptions), wanted: &[&str]) {
    let bytes: Vec<&[u8]> = files.iter().map(|file| file.as_bytes()).collect();
    let (_, outcome) = import(&bytes, change);
    let notes = outcome.unwrap_or_else(|error| panic!("{files:?}: {error}")).notes;
    for part in wanted {
        assert!(notes.iter().any(|note| note.contains(part)), "{files:?}: {part}: {notes:?}");
    }
    if wanted.is_empty() {
        assert!(notes.is_empty(), "{files:?}: {notes:?}");
    }
}

// The value `1.000` became 1 without a note, in a file whose other columns had decimal commas.
#[test]
fn a_point_that_may_part_thousands_is_no_decimal_point_beside_decimal_commas() {
    let rest = "thousand: other columns have decimal commas";
    let file = "id;price;count\n1;1.234,50;1.000\n2;5,00;999\n";
    let summary =
        check(&[file], "id:BIGINT price:VARCHAR count:VARCHAR; 1 1.234,50 1.000; 2 5,00 999");
    assert!(summary.notes.iter().any(|note| note.contains(rest)), "{:?}", summary.notes);
    // The commas may be in another file.
    let files = ["a;b\n1;1.000\n", "a;b\n2,5;3.000\n"];
    check(&files, "a:VARCHAR b:VARCHAR; 1 1.000; 2,5 3.000");
    // A point that cannot separate thousands shows that points are decimal ones.
    check(&["a;b\n1,5;1.000\n2,5;1.5\n"], "a:VARCHAR b:DOUBLE; 1,5 1.0; 2,5 1.5");
    // A comma may separate thousands as well.
    check(&["a\tb\n1,234\t1.250\n2,500\t1.125\n"], "a:VARCHAR b:DOUBLE; 1,234 1.25; 2,500 1.125");
    check_notes(
        &["a;b\nx;1.000\n"],
        |_| {},
        &["column `b`: the point of `1.000` is read as a decimal"],
    );
    check_notes(&["a;b\nx;0.125\ny;1.000\n"], |_| {}, &[]);
    check_notes(&["a,b\nx,1.000\n"], |_| {}, &[]);
}

#[test]
fn a_type_that_is_given_is_kept_with_a_note() {
    let given = |options: &mut ImportOptions| {
        let columns = [("a", ColumnType::Varchar), ("b", ColumnType::Float64)];
        let columns = columns.map(|(name, ty)| (name.to_owned(), ty)).to_vec();
        options.columns = tidegate_ingest::ColumnSource::Given(columns);
    };
    let note = "though other columns have decimal commas";
    check_notes(&["a;b\n1,5;1.000\n2,5;2.500\n"], given, &[note]);
}

#[test]
fn texts_and_times_of_two_meanings_are_noted() {
    let file = "id\tv\n1\t\\N\n2\t5\n3\tx\n";
    check_notes(&[file], |_| {}, &["column `v` has the text `\\N`, sampled values: 1"]);
    let is_said = |options: &mut ImportOptions| {
        options.dialect.null_text = Some("\\N".to_owned());
    };
    check_notes(&["id\tv\n1\t\\N\n2\t5\n"], is_said, &[]);
    let mixed = "t,v\n2024-01-01T10:00:00,1\n2024-01-01T10:00:00+02:00,2\n";
    check_notes(&[mixed], |_| {}, &["without, which are taken for UTC: 1 of 2 sampled ones"]);
    check_notes(&["t,v\n2024-01-01T10:00:00Z,1\n2024-01-02T10:00:00+01,2\n"], |_| {}, &[]);
    check_notes(&["t,v\n2024-01-01T10:00:00,1\n2024-01-02T10:00:00.5,2\n"], |_| {}, &[]);
}

// COPY with an explicit NULL made NULL of empty texts, which PostgreSQL writes as empty fields. A
// field that its record lacks is NULL even so.
#[test]
fn an_empty_field_may_be_the_empty_text() {
    let quoted = |options: &mut ImportOptions| {
        options.dialect.null_text = Some("na".to_owned());
        options.dialect.empty_fields = EmptyFields::Quoted;
        options.dialect.missing_fields = MissingFields::Null;
        options.dialect.header = Header::Present;
        options.dialect.delimiter = Some(b',');
    };
    let file: &[u8] = b"a,b,n\n,x,1\nna,y,\n\"na\",\"\",na\nz\n,,2\nu,v,3\n";
    let (world, outcome) = import(&[file], quoted);
    let rows = " x 1; NULL y NULL; na  NULL; z NULL NULL;   2; u v 3";
    let expected = format!("a:VARCHAR b:VARCHAR n:BIGINT; {rows}");
    assert_eq!(shown(&world, &outcome.unwrap()), expected);
    // Blank lines are rows, as other programs write them, and no note is needed.
    let (world, outcome) = import(&[b"v\nx\n\nna\n\"\"\n"], quoted);
    let summary = outcome.unwrap();
    assert_eq!(shown(&world, &summary), "v:VARCHAR; x; ; NULL; ");
    assert!(!summary.notes.iter().any(|note| note.contains("blank lines")), "{:?}", summary.notes);
}

// Notes on the first file were missing, and for each of many files all of many columns were noted.
#[test]
fn columns_that_a_file_lacks_are_told_of_every_file_and_not_all_of_them() {
    check_notes(&["a,b\n1,2\n", "a,b,c\n1,2,3\n"], |_| {}, &["/a.csv: there is no column `c`, "]);
    let names: Vec<String> = (0..30).map(|at| format!("n{at}")).collect();
    let many = format!("a,{}\n1,{}\n", names.join(","), vec!["2"; 30].join(","));
    let wanted = ["`n8`, `n9` and 20 more, which is NULL"];
    check_notes(&[&many, "a\n1\n2\n"], |_| {}, &wanted);
    let dates = format!("{}\n{}\n", names.join(","), vec!["01/02/2024"; 30].join(","));
    check_notes(&[&dates], |_| {}, &["10 more notes on columns"]);
}

// The option `--skip-columns I` left `i` out as well.
#[test]
fn of_names_that_differ_in_case_the_one_that_is_meant_is_left_out() {
    for (skipped, expected) in [("I", "i:BIGINT b:BIGINT; 1 3"), ("i", "I:BIGINT b:BIGINT; 2 3")] {
        let skip = |options: &mut ImportOptions| options.skip_columns = vec![skipped.to_owned()];
        let (world, outcome) = import(&[b"i,I,b\n1,2,3\n"], skip);
        assert_eq!(shown(&world, &outcome.unwrap()), expected, "{skipped}");
    }
    let skip = |options: &mut ImportOptions| options.skip_columns = vec!["B".to_owned()];
    let (world, outcome) = import(&[b"i,b\n1,3\n"], skip);
    assert_eq!(shown(&world, &outcome.unwrap()), "i:BIGINT; 1");
}
