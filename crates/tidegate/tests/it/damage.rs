//! Corrupted databases: a clear error that names the file, and no further damage.

use std::fs;
use std::path::Path;

use crate::world::World;

fn world() -> World {
    let world = World::new();
    world.run(&["sql", "CREATE TABLE t (ts TIMESTAMP, n INT, s SYMBOL) TIMESTAMP(ts)"]).succeeds();
    let rows: String = (0..5_000)
        .map(|n| format!("2025-01-01T00:{:02}:{:02},{n},s{}\n", n / 60 % 60, n % 60, n % 9))
        .collect();
    world.file("x.csv", format!("ts,n,s\n{rows}"));
    world.run(&["import", "x.csv", "--table", "t", "--progress", "none"]).succeeds();
    world
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file of the database");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("a file of the database");
}

#[test]
fn a_flipped_bit_in_a_segment_is_found_by_queries_and_verify() {
    let world = world();
    let segment = &world.stored_as(".seg")[0];
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    let bytes = fs::metadata(segment).expect("a file of the database").len();
    flip(segment, usize::try_from(bytes / 2).expect("a small file"));
    let run = world.run(&["sql", "SELECT sum(n), max(ts), max(s) FROM t"]);
    run.fails(5, &["tidegate: sql: ", &name, "corrupt at byte", "checksum"]);
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains(&name), "{}", run.stdout);
    run.fails(5, &["1 problem found"]);
}

/// The columns of a table without its symbols were not verified, and the symbols were reported
/// twice.
#[test]
fn damaged_symbols_are_one_problem() {
    let world = world();
    let symbols = &world.stored_as(".sym")[0];
    flip(symbols, 40);
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains("1 segment"), "{}", run.stdout);
    run.fails(5, &["1 problem found"]);
}

#[test]
fn a_segment_of_a_version_that_never_was_is_damaged_and_a_later_one_is_newer() {
    for (version, code, part) in [(0, 5, "version is 0"), (2, 4, "has format version 2")] {
        let world = world();
        let path = &world.stored_as(".seg")[0];
        let mut bytes = fs::read(path).expect("a file of the database");
        let again = bytes.len() - 12;
        (bytes[8], bytes[again]) = (version, version);
        fs::write(path, bytes).expect("a file of the database");
        world.run(&["sql", "SELECT sum(n) FROM t"]).fails(code, &[part]);
        let run = world.run(&["verify"]);
        assert!(run.stdout.contains(part), "{}", run.stdout);
        assert_eq!(run.code, Some(code));
    }
}

#[test]
fn a_missing_or_cut_segment_is_named() {
    let world = world();
    let segment = &world.stored_as(".seg")[0];
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    let bytes = fs::read(segment).expect("a file of the database");
    fs::write(segment, &bytes[..bytes.len() / 2]).expect("cut");
    world.run(&["sql", "SELECT sum(n) FROM t"]).fails(5, &[&name]);
    assert_eq!(world.run(&["verify"]).code, Some(5));
    fs::remove_file(segment).expect("removed");
    world.run(&["sql", "SELECT sum(n) FROM t"]).fails(5, &[&name, "missing"]);
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains("missing"), "{}", run.stdout);
    assert_eq!(run.code, Some(5));
}

#[test]
fn the_copy_of_a_damaged_catalog_takes_its_place() {
    let world = world();
    flip(&world.path("db/data/catalog"), 30);
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains("catalog"), "{}", run.stdout);
    assert_eq!(run.code, Some(5));
    let run = world.run(&["sql", "SELECT count(*) FROM t"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn a_damaged_catalog_without_a_copy_stops_everything_and_changes_nothing() {
    let world = world();
    flip(&world.path("db/data/catalog"), 30);
    flip(&world.path("db/data/catalog.copy"), 30);
    let stored = world.stored();
    world.run(&["tables"]).fails(5, &["catalog", "corrupt"]);
    assert_eq!(world.stored(), stored);
}

#[test]
fn a_newer_format_is_refused_without_a_write() {
    let world = world();
    let path = world.path("db/data/catalog");
    let mut bytes = fs::read(&path).expect("the catalog");
    // The version follows the magic, and a CRC32C ends the file: docs/format.md, Checksummed files.
    bytes[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let end = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).expect("the catalog");
    let stored = world.stored();
    for line in [&["tables"][..], &["sql", "SELECT 1"]] {
        world.run(line).fails(4, &["catalog", "version 99"]);
    }
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains("catalog has format version 99"), "{}", run.stdout);
    assert_eq!(run.code, Some(4));
    assert_eq!(world.stored(), stored);
}

#[test]
fn a_folder_of_something_else_is_no_database() {
    let world = World::new();
    fs::create_dir_all(world.path("db/data")).expect("a folder");
    fs::write(world.path("db/data/letter.txt"), "hello").expect("a file");
    let run = world.run(&["sql", "SELECT 1"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(fs::read_to_string(world.path("db/data/letter.txt")).expect("still there"), "hello");
}

// A damaged file of symbols or deletion vectors hid every table from `\dt` and from all clients
// that first ask for the tables.
#[test]
fn a_damaged_table_is_listed_beside_the_others() {
    let world = world();
    world.run(&["sql", "CREATE TABLE other (ts TIMESTAMP, n INT) TIMESTAMP(ts)"]).succeeds();
    world.run(&["sql", "DELETE FROM t WHERE n = 7"]).succeeds();
    for end in [".sym", ".mask"] {
        let path = &world.stored_as(end)[0];
        flip(path, 40);
        world.run(&["sql", "SELECT count(*) FROM t WHERE s = 's1'"]).fails(5, &["corrupt"]);
        for listing in [
            "SELECT table_name, table_suspended FROM tables()",
            "SELECT table_name FROM information_schema.tables",
            "SELECT relname FROM pg_class",
            "SELECT table_name, column_name FROM information_schema.columns",
            "SELECT tableName, rowCount FROM table_storage()",
            "SHOW TABLES",
        ] {
            let text = world.run(&["sql", listing]).succeeds();
            assert!(text.contains("other"), "{end}: {listing}: {text}");
            let has_t =
                |line: &str| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == "t");
            assert!(text.lines().any(has_t), "{end}: {listing}: {text}");
        }
        let query = "SELECT errorTag, errorMessage FROM wal_tables() WHERE suspended";
        let text = world.run(&["sql", query]).succeeds();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(text.contains("DAMAGED") && text.contains(&name), "{text}");
        world.run(&["sql", "INSERT INTO t VALUES ('2025-01-02', 1, 's')"]).fails(5, &["t"]);
        flip(path, 40);
    }
    world.run(&["sql", "DROP TABLE t"]).succeeds();
}

/// A log that was cut opened with fewer rows, and verification found no problem.
#[test]
fn a_cut_log_is_refused_and_can_be_repaired() {
    let world = World::new();
    world.run(&["sql", "CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)"]).succeeds();
    let (log, bytes) = world.logged().pop().expect("a log");
    fs::write(log, &bytes[..5_000]).expect("cut");
    world.run(&["tables"]).fails(5, &["was cut", "5000 bytes", "tidegate verify --repair"]);
    let files = (world.stored(), world.logged());
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains("was cut"), "{}", run.stdout);
    run.fails(5, &["1 problem found"]);
    assert!((world.stored(), world.logged()) == files, "nothing is written");
    let text = world.run(&["verify", "--repair"]).succeeds();
    assert!(
        text.contains("the log was ended at the damage") && text.contains("no problems"),
        "{text}"
    );
    assert!(world.run(&["verify"]).succeeds().contains("no problems"));
    world.run(&["sql", "CREATE TABLE u (ts TIMESTAMP, n INT) TIMESTAMP(ts)"]).succeeds();
    assert!(world.run(&["tables"]).succeeds().contains('u'));
}

#[test]
fn damage_of_unused_bytes_of_the_log_is_removed_by_a_repair() {
    let world = World::new();
    world.run(&["sql", "CREATE TABLE t (ts TIMESTAMP, n INT) TIMESTAMP(ts)"]).succeeds();
    let (log, bytes) = world.logged().pop().expect("a log");
    flip(&log, 2 * 4_096 - 1);
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains("a repair gives up: no known commit"), "{}", run.stdout);
    assert!(run.stdout.contains("a byte that must be zero is not"), "{}", run.stdout);
    run.fails(5, &["1 problem found"]);
    let text = world.run(&["verify", "--repair"]).succeeds();
    let cleared = text.contains("unused bytes of the log were set to zero: 1 place");
    assert!(cleared && text.contains("no problems"), "{text}");
    assert!(fs::read(&log).expect("a log") == bytes);
    assert!(world.run(&["verify", "--repair"]).succeeds().contains("nothing was repaired"));
}

/// Verification ended at the first file without which the database cannot be opened.
#[test]
fn verify_goes_on_where_the_database_cannot_be_opened() {
    let world = world();
    flip(&world.path("db/data/catalog"), 30);
    let segment = &world.stored_as(".seg")[0];
    flip(segment, 40);
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains("catalog is corrupt"), "{}", run.stdout);
    assert!(run.stdout.contains(".seg is corrupt"), "{}", run.stdout);
    run.fails(5, &["2 problems found"]);
}

#[test]
fn a_missing_log_is_reported_as_damage() {
    let world = world();
    fs::remove_dir_all(world.path("db/wal")).expect("a folder");
    world.run(&["tables"]).fails(5, &["wal is missing"]);
    let run = world.run(&["verify"]);
    assert!(run.stdout.contains("wal is missing"), "{}", run.stdout);
    run.fails(5, &["1 problem found"]);
}
