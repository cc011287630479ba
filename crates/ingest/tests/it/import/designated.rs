//! The designated timestamp: its detection, the instants that it can hold, and the treatment of
//! values that are not instants.

use std::path::Path;
use std::sync::Arc;

use tidegate_ingest::sniff::Header;
use tidegate_ingest::{ColumnSource, Error, ImportOptions, ImportSummary, OnError};
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit, Value};
use tidegate_platform::SimDisk;

use crate::world::{World, schema_of};

fn world() -> World {
    World::on(Arc::new(SimDisk::new(1)), Path::new("/"))
}

fn schema(unit: TimeUnit, partition_by: PartitionUnit) -> Schema {
    let columns = [("ts", ColumnType::Timestamp(unit)), ("n", ColumnType::Int64)];
    schema_of(&columns, Some("ts"), partition_by)
}

/// Imports a text into a new table of inferred columns, of which `ts` is the designated timestamp.
fn import_new(
    world: &World,
    text: &str,
    change: impl FnOnce(&mut ImportOptions),
) -> Result<ImportSummary, Error> {
    let path = world.put("a.csv", text.as_bytes());
    let mut options = world.options(&schema(TimeUnit::Micros, PartitionUnit::Day), &[path]);
    options.columns = ColumnSource::Infer;
    options.dialect.header = Header::Auto;
    change(&mut options);
    let outcome = world.import(&options);
    world.check_sound(text);
    outcome
}

/// The text of the list of rejects.
fn rejects(world: &World) -> String {
    let bytes = world.disk.read(&world.rejects()).unwrap_or_default();
    String::from_utf8(bytes).unwrap()
}

fn rows_with_one_bad(bad_at: usize) -> String {
    let row = |row: usize| match row == bad_at {
        true => "garbage,7\n".to_owned(),
        false => format!("2021-03-01T00:{:02}:{:02},{row}\n", row / 60, row % 60),
    };
    format!("ts,n\n{}", (0..100).map(row).collect::<String>())
}

/// One bad value in a hundred rows made the column VARCHAR, and the import an error.
#[test]
fn a_bad_value_does_not_decide_what_the_timestamp_of_a_new_table_is() {
    for on_error in [OnError::SkipRow, OnError::Null] {
        let world = world();
        let change = |options: &mut ImportOptions| options.on_error = on_error;
        let summary = import_new(&world, &rows_with_one_bad(40), change).unwrap();
        assert_eq!((summary.rows_read, summary.rows_rejected), (100, 1), "{on_error:?}");
        assert_eq!(summary.cells_nulled, 0, "parse_errors-1");
        let types: Vec<ColumnType> = summary.schema.columns().iter().map(|c| c.ty).collect();
        assert_eq!(types, [ColumnType::Timestamp(TimeUnit::Micros), ColumnType::Int64]);
        assert_eq!(world.rows().len(), 99);
        let expected = "{\"file\":\"/a.csv\",\"line\":42,\"byte\":915,\"column\":\"ts\",\
                        \"text\":\"garbage\",\"reason\":\"not a timestamp\"}\n";
        assert_eq!(rejects(&world), expected);
    }
    let world = world();
    let abort = |options: &mut ImportOptions| options.on_error = OnError::Abort;
    let error = import_new(&world, &rows_with_one_bad(40), abort).unwrap_err();
    let expected = "/a.csv, line 42 (byte 915), column `ts`: not a timestamp: `garbage`";
    assert_eq!(error.to_string(), expected);
    assert!(world.database.tables().is_empty());
}

#[test]
fn a_column_of_other_things_is_no_timestamp() {
    let check = |text: &str, expected: &str| {
        let world = world();
        let error = import_new(&world, text, |_| {}).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
        assert!(world.database.tables().is_empty());
    };
    let says = |example: &str| {
        format!(
            "/a.csv: column `ts` is to be the designated timestamp, but most of its values are not \
             timestamps{example}: say with --timestamp-format how they are written"
        )
    };
    check("ts,n\n2021-03-01,1\n,1\nabc,2\n", &says(", such as `abc` in line 4"));
    check("ts,n\n\"a\n\"\"b\",1\nx,2\n", &says(", such as `a\\n\"b` in line 2"));
    check("\n\nn,ts\n\"1\n\",2021-03-01\n1,1.5\n2,2.5\n", &says(", such as `1.5` in line 6"));
    check(
        "ts,n\n1600000000,1\ngarbage,1\n1600000001,1\n",
        "column `ts` is BIGINT, which is a time only with a unit: say with --timestamp-format \
         whether it is epoch_s, epoch_ms, epoch_us or epoch_ns",
    );
    // A column with only NULL is not a column of text.
    check(
        "ts,n\n,1\n\"\",2\n",
        "all 2 records were rejected, most of them because: the designated timestamp is NULL; \
         the first: /a.csv, line 2, column `ts`: the designated timestamp is NULL; all are listed \
         in /rejects.ndjson",
    );
}

/// The bad row made every column VARCHAR, and a header above columns of text only was a row.
#[test]
fn a_first_line_with_all_names_that_are_given_is_a_header() {
    let check = |text: &str, symbols: &[&str], rows: usize| {
        let world = world();
        let symbols = symbols.iter().map(|&name| name.to_owned()).collect();
        let summary = import_new(&world, text, |options| options.symbols = symbols);
        let summary = summary.unwrap_or_else(|error| panic!("{text}: {error}"));
        let names: Vec<&str> = summary.schema.columns().iter().map(|c| &*c.name).collect();
        assert_eq!(names, text.lines().next().unwrap().split(',').collect::<Vec<_>>());
        assert_eq!(world.rows().len(), rows, "{text}");
    };
    let rows = "2021-03-01,a\n2021-03-02,b\nwhen,c\n";
    check(&format!("TS,s\n{rows}"), &[], 2);
    check(&format!("ts,s\n{rows}"), &["S"], 2);
    check("ts\n2021-03-01\nx\n2021-03-01\n", &[], 2);
    // Names may look like values.
    check("ts,2020\n2021-03-01,1\n2021-03-01,1\n", &[], 2);
    let world = world();
    let error = import_new(&world, &format!("ts,s\n{rows}"), |options| {
        options.symbols = vec!["other".to_owned()];
    });
    assert!(matches!(error, Err(Error::Sniff { .. } | Error::NoSuchColumn { .. })), "{error:?}");
}

/// A row is still a row if a symbol in it equals the name of its column.
#[test]
fn a_row_with_a_symbol_called_like_its_column_is_no_header() {
    let world = world();
    let columns = [("day", ColumnType::Timestamp(TimeUnit::Micros)), ("s", ColumnType::Symbol)];
    let path = world.put("a.csv", b"2021-03-01,s\n2021-03-02,t\n");
    let mut options = world.options(&schema_of(&columns, None, PartitionUnit::None), &[path]);
    options.dialect.header = Header::Auto;
    options.symbols = vec!["s".to_owned()];
    world.import(&options).unwrap();
    assert_eq!(world.rows().len(), 2);
}

/// The error was one of types: the column without values was VARCHAR.
#[test]
fn a_header_alone_has_no_records() {
    for text in ["ts,n\n", "ts", "n,ts"] {
        let world = world();
        let error = import_new(&world, text, |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "/a.csv: no records", "{text}");
        assert!(world.database.tables().is_empty());
    }
}

/// Every column became VARCHAR: the types came from the first of several files, which has none.
#[test]
fn a_header_alone_says_nothing_of_types() {
    let world = world();
    let header = world.put("a.csv", b"n,ts\n");
    let row = world.put("b.csv", b"n,ts\n7,2021-03-02\n");
    let rows = world.put("c.csv", b"ts,n\n2021-03-01,1\n2021-03-03,2\n");
    let mut options =
        world.options(&schema(TimeUnit::Micros, PartitionUnit::Day), &[header, row, rows]);
    options.columns = ColumnSource::Infer;
    options.dialect.header = Header::Auto;
    let summary = world.import(&options).unwrap();
    assert_eq!((summary.rows_imported, summary.rows_rejected), (3, 0));
    let columns = summary.schema.columns().iter().map(|c| (&*c.name, c.ty));
    let ts = ("ts", ColumnType::Timestamp(TimeUnit::Micros));
    let mut columns = columns.collect::<Vec<_>>();
    columns.sort_by_key(|column| column.0);
    assert_eq!(columns, [("n", ColumnType::Int64), ts]);
}

/// Nanoseconds cover all years but the two that have no whole partition in 64 bits. The list did
/// not show the value, and 1678, 1679, 2260 and 2261 were refused as well.
#[test]
fn nanoseconds_reach_over_the_years_1678_to_2261() {
    for (partition_by, _) in PartitionUnit::ALL {
        let world = world();
        let text = "1678-01-01T00:00:00,1\n1677-12-31T23:59:59.999999999,2\n\
                    2261-12-31T23:59:59.999999999,3\n\"2262-01-01\",4\n";
        let path = world.put("a.csv", text.as_bytes());
        let schema = schema(TimeUnit::Nanos, partition_by);
        let summary = world.import(&world.options(&schema, &[path])).unwrap();
        assert_eq!(summary.rows_imported, 2);
        let rows = world.rows();
        let day = 86_400_000_000_000_i128;
        assert_eq!(rows[0], [Value::Integer(-106_650 * day), Value::Integer(1)]);
        assert_eq!(rows[1], [Value::Integer(106_651 * day - 1), Value::Integer(3)]);
        let reject = |line: u64, byte: u64, text: &str| {
            format!(
                "{{\"file\":\"/a.csv\",\"line\":{line},\"byte\":{byte},\"column\":\"ts\",\
                 \"text\":\"{text}\",\"reason\":\"the designated timestamp is not between \
                 1678-01-01T00:00:00.000000000Z and 2261-12-31T23:59:59.999999999Z\"}}\n"
            )
        };
        let early = reject(2, 22, "1677-12-31T23:59:59.999999999");
        let late = reject(4, 86, "\\\"2262-01-01\\\"");
        assert_eq!(rejects(&world), early + &late, "{partition_by:?}");
        world.check_sound("bounds of nanoseconds");
    }
}

/// Found by fuzzing: with doubled quotes every value was "not a number", whatever its column.
#[test]
fn doubled_quotes_are_read_before_a_value_is_judged() {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("b", ColumnType::Boolean),
        ("u", ColumnType::Uuid),
        ("n", ColumnType::Int64),
    ];
    let check = |text: &str, reason: &str| {
        let world = world();
        let path = world.put("a.csv", text.as_bytes());
        let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
        let error = world.import(&world.options(&schema, &[path])).unwrap_err();
        assert!(matches!(error, Error::AllRejected { .. }), "{error}");
        assert!(rejects(&world).ends_with(&format!("\"reason\":\"{reason}\"}}\n")), "{text}");
    };
    check("\"2021\"\"\",,,\n", "not a timestamp");
    check("2021-03-01,\"\"\"true\"\"\",,\n", "not a boolean");
    check("2021-03-01,,\"\"\"\",\n", "not a UUID");
    check("2021-03-01,,,\"1\"\"\"\n", "not a number");
    // A pattern may have a quote.
    let world = world();
    let path = world.put("a.csv", b"\"at \"\"2021-03-01\"\"\",,,\n");
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Day);
    let mut options = world.options(&schema, &[path]);
    let format = tidegate_ingest::timestamp::TimestampFormat::parse("at \"%Y-%m-%d\"");
    options.timestamp_format = Some(format.unwrap());
    assert_eq!(world.import(&options).unwrap().rows_imported, 1);
    assert_eq!(world.rows()[0][0], Value::Integer(1_614_556_800_000_000));
}
