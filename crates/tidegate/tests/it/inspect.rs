//! Tests of `tables`, `describe` and `verify` on an undamaged database.

use crate::world::World;

fn world() -> World {
    let world = World::new();
    let sql = "CREATE TABLE Hits (ts TIMESTAMP, city SYMBOL, n INT, x DOUBLE) \
               TIMESTAMP(ts) PARTITION BY DAY; CREATE TABLE empty (a INT)";
    world.run(&["sql", sql]).succeeds();
    world.file("x.csv", "ts,city,n\n2025-01-01,Ulm,1\n2025-01-01,,2\n2025-01-03T10:00,Bonn,3\n");
    world.run(&["import", "x.csv", "--table", "hits", "--progress", "none"]).succeeds();
    world
}

#[test]
fn tables_are_listed_with_their_size_and_span() {
    let world = world();
    let csv = world.run(&["tables", "--format", "csv"]).succeeds();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "table,rows,partitions,segments,bytes,first,last");
    assert_eq!(lines[1], "empty,0,0,0,0,,");
    assert!(lines[2].starts_with("Hits,3,2,2,"), "{csv}");
    assert!(
        lines[2].ends_with(",2025-01-01T00:00:00.000000Z,2025-01-03T10:00:00.000000Z"),
        "{csv}"
    );
    let table = world.run(&["tables"]).succeeds();
    assert!(table.starts_with(" table |"), "{table}");
}

#[test]
fn a_table_is_described_by_what_its_segments_hold() {
    let world = world();
    let csv = world.run(&["describe", "HITS", "--format", "csv"]).succeeds();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.splitn(6, ',').collect()).collect();
    assert_eq!(lines[0], ["column", "type", "role", "nulls", "bytes", "encodings"]);
    assert_eq!(lines[1][..4], ["ts", "TIMESTAMP", "designated timestamp", "0"]);
    assert_eq!(lines[2][..4], ["city", "SYMBOL", "", "1"]);
    assert_eq!(lines[4][..4], ["x", "DOUBLE", "", "3"]);
    assert_eq!(lines[4][5], "null", "{csv}");
    assert!(lines.iter().skip(1).all(|line| line[4].parse::<u64>().is_ok()), "{csv}");
    let text = world.run(&["describe", "hits"]).succeeds();
    assert!(text.starts_with("table         Hits\nrows          3\npartition by  DAY\n"), "{text}");
    // The role of a plain column was shown as NULL.
    assert!(!text.contains("NULL"), "{text}");
    world.run(&["describe", "nothing"]).fails(1, &["table `nothing` does not exist"]);
}

#[test]
fn a_sound_database_is_verified() {
    let world = world();
    let text = world.run(&["verify"]).succeeds();
    assert!(text.contains("2 tables") && text.contains("2 segments"), "{text}");
    assert!(text.contains("3 rows") && text.contains("no problems"), "{text}");
}
