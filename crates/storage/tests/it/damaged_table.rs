//! Tables with damaged segments, deletion vectors or symbols: other tables work, and they accept no
//! rows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_platform::{Class, Disk, OpenMode, SimCall, SimDisk};
use tidegate_storage::{
    AppendOptions, Database, Error, ImportTarget, SegmentRun, TransactionCommit,
};

use crate::fixture::{DAY, append, append_of, chain, files, import, new_database, open, schema};
use crate::model::{Step, read};

/// Two tables with symbols and deletion vectors.
fn closed() -> SimDisk {
    let (disk, database) = new_database();
    for step in [
        Step::ImportNew("bad", vec![(1, "x", 1), (2, "y", 2), (DAY, "y", 3)]),
        Step::ImportNew("good", vec![(5, "z", 3), (6, "z", 4)]),
        Step::Delete("bad", 1),
        Step::Delete("good", 4),
    ] {
        step.run(&database).unwrap();
    }
    drop(database);
    disk
}

fn first_of(disk: &SimDisk, end: &str) -> PathBuf {
    files(disk, end).into_iter().find(|path| path.starts_with("/srv/db/data/1")).unwrap()
}

// Rows for a table that no query could read were acknowledged, because an append needs neither its
// deletion vectors nor, without new symbols, its dictionaries.
#[test]
fn a_table_that_cannot_be_read_takes_no_rows() {
    for end in [".mask", ".sym"] {
        let disk = closed();
        let path = first_of(&disk, end);
        disk.corrupt(&path, 40, 1);
        let database = open(&disk);
        let refused = [
            append(&database, "bad", &[(9, "x", 9)]).unwrap_err(),
            import(&database, "bad", &[(9, "x", 9)]).unwrap_err(),
            database.begin_import(ImportTarget::Existing("bad")).map(drop).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.class(), Class::Corruption);
            assert_eq!(
                error.to_string(),
                "rows of table `bad` cannot be added or changed until all of its files can be \
                 read (`tidegate verify` lists the damage; queries that need no damaged file work)"
            );
            let Error::Unreadable { source, .. } = &error else { panic!("{error:?}") };
            assert!(source.to_string().contains(path.to_str().unwrap()), "{source}");
        }
        append(&database, "good", &[(9, "x", 9)]).unwrap();
        // The damaged byte is restored.
        disk.corrupt(&path, 40, 1);
        append(&database, "bad", &[(9, "x", 9)]).unwrap();
        assert_eq!(read(&database)["bad"].rows.len(), 3);
    }
}

// One damaged file of one table made every query of the catalog fail.
#[test]
fn a_damaged_table_is_described_with_its_damage() {
    for end in [".mask", ".sym"] {
        let disk = closed();
        let path = first_of(&disk, end);
        disk.corrupt(&path, 40, 1);
        let database = open(&disk);
        let bad = database.describe("BAD").unwrap();
        assert_eq!((bad.snapshot.name.as_str(), bad.snapshot.segments().count()), ("bad", 2));
        assert_eq!(bad.snapshot.schema.columns().len(), 3);
        let damage = bad.damage.expect("it is damaged");
        assert!(damage.to_string().contains(path.to_str().unwrap()), "{damage}");
        assert!(database.describe("good").unwrap().damage.is_none());
        assert!(matches!(database.describe("none"), Err(Error::NoSuchTable { .. })));
        database.drop_tables(&["bad"]).unwrap();
    }
}

// Rows that a transaction held back were committed by the name of their table: a new table of the
// same name, created in between, got them.
#[test]
fn rows_for_a_table_that_was_made_anew_are_refused() {
    let (_disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let id = database.table_id("T").unwrap();
    let mut rows = append_of("t", &[(1, "a", 1)], None);
    rows.id = Some(id);
    database.append(std::slice::from_ref(&rows), &AppendOptions::default()).unwrap();
    database.rename_table("t", "u").unwrap();
    database.append(std::slice::from_ref(&rows), &AppendOptions::default()).unwrap();
    assert_eq!(read(&database)["u"].rows.len(), 2, "a table is the same under another name");
    database.drop_tables(&["u"]).unwrap();
    database.create_table("t", schema()).unwrap();
    let error = database.append(&[rows], &AppendOptions::default()).unwrap_err();
    assert!(matches!(error, Error::TableDropped { .. }), "{error:?}");
    assert!(read(&database)["t"].rows.is_empty());
}

// The list of tables showed no damage of a table whose segment was missing, and rows for it were
// acknowledged.
#[test]
fn a_table_whose_segment_is_missing_is_listed_with_its_damage_and_takes_no_rows() {
    let disk = closed();
    let path = first_of(&disk, ".seg");
    let bytes = disk.read(&path).unwrap();
    disk.remove(&path).unwrap();
    let database = open(&disk);
    let damage = database.describe("bad").unwrap().damage.expect("a segment is missing");
    assert!(chain(&damage).contains(path.to_str().unwrap()), "{}", chain(&damage));
    let error = append(&database, "bad", &[(9, "x", 9)]).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
    assert!(database.describe("good").unwrap().damage.is_none());
    append(&database, "good", &[(9, "x", 9)]).unwrap();
    let file = disk.open(&path, OpenMode::CreateNew).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    append(&database, "bad", &[(9, "x", 9)]).unwrap();
    assert!(database.describe("bad").unwrap().damage.is_none());
}

/// A truncated segment was detected only by the first query of it, and rows for its table were
/// acknowledged meanwhile.
#[test]
fn a_table_whose_segment_is_cut_is_listed_with_its_damage_and_takes_no_rows() {
    let disk = closed();
    let path = first_of(&disk, ".seg");
    let bytes = disk.read(&path).unwrap();
    disk.truncate(&path, bytes.len() as u64 - 1);
    let database = open(&disk);
    let damage = database.describe("bad").unwrap().damage.expect("a segment is cut");
    assert!(chain(&damage).contains(path.to_str().unwrap()), "{}", chain(&damage));
    let error = append(&database, "bad", &[(9, "x", 9)]).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
    append(&database, "good", &[(9, "x", 9)]).unwrap();
    let file = disk.open(&path, OpenMode::CreateOrTruncate).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    append(&database, "bad", &[(9, "x", 9)]).unwrap();
}

/// The first segment of a table, whose file is damaged; its other segments are intact.
fn damaged_run(database: &Database, path: &Path) -> Arc<SegmentRun> {
    let snapshot = database.snapshot("bad").unwrap();
    let (damaged, others): (Vec<_>, Vec<_>) =
        snapshot.segments().map(Arc::clone).partition(|run| run.path() == path);
    assert!(!others.is_empty() && others.iter().all(|run| run.reader().is_ok()));
    Arc::clone(&damaged[0])
}

/// A segment with a damaged header or footer was detected only by the first query of it, and rows
/// for its table were acknowledged meanwhile. Only lengths of segments were checked.
#[test]
fn a_table_whose_segment_has_a_damaged_end_takes_no_rows_until_it_is_restored() {
    // Magic and version of the header; footer; its length, and the magic, of the trailer.
    let places: [fn(u64) -> u64; 5] =
        [|_| 0, |_| 8, |bytes| bytes - 25, |bytes| bytes - 24, |bytes| bytes - 1];
    for place in places {
        let disk = closed();
        let path = first_of(&disk, ".seg");
        let offset = place(disk.read(&path).unwrap().len() as u64);
        disk.corrupt(&path, offset, 1);
        let database = open(&disk);
        let appends = vec![append_of("bad", &[(9, "x", 9)], None)];
        let commit = TransactionCommit { appends, ..TransactionCommit::default() };
        let snapshot = database.snapshot("bad").unwrap();
        let refused = [
            append(&database, "bad", &[(9, "x", 9)]).unwrap_err(),
            import(&database, "bad", &[(9, "x", 9)]).map(drop).unwrap_err(),
            database.begin_change_of(&snapshot, &[]).map(drop).unwrap_err(),
            database.commit_transaction(&commit).unwrap_err(),
            database.describe("bad").unwrap().damage.expect("it was found"),
        ];
        let of_query = damaged_run(&database, &path).reader().unwrap_err().to_string();
        assert!(of_query.contains(path.to_str().unwrap()), "{of_query}");
        for error in refused {
            let Error::Unreadable { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(source.to_string(), of_query, "at {offset}");
        }
        append(&database, "good", &[(9, "x", 9)]).unwrap();
        assert_eq!(database.snapshot("good").unwrap().rows().0, 2);
        // The damaged byte is restored.
        disk.corrupt(&path, offset, 1);
        append(&database, "bad", &[(9, "x", 9)]).unwrap();
        assert!(database.describe("bad").unwrap().damage.is_none());
        assert_eq!(read(&database)["bad"].rows.len(), 3);
    }
}

#[test]
fn a_table_takes_rows_again_without_its_damaged_partition() {
    let disk = closed();
    let path = first_of(&disk, ".seg");
    disk.corrupt(&path, 0, 1);
    let database = open(&disk);
    append(&database, "bad", &[(9, "x", 9)]).unwrap_err();
    let partition = damaged_run(&database, &path).meta.partition;
    assert_eq!(database.drop_partitions("bad", &BTreeSet::from([partition])).unwrap(), 1);
    append(&database, "bad", &[(9, "x", 9)]).unwrap();
    assert!(database.describe("bad").unwrap().damage.is_none());
    assert_eq!(read(&database)["bad"].rows.len(), 2);
}

#[test]
fn the_files_of_a_table_are_read_before_its_first_rows_and_not_again() {
    let disk = closed();
    let database = open(&disk);
    let opens = || disk.calls(SimCall::Open);
    let before = opens();
    append(&database, "bad", &[(9, "x", 9)]).unwrap();
    assert!(opens() > before, "segments, deletion vectors and symbols");
    let before = opens();
    append(&database, "bad", &[(10, "x", 9)]).unwrap();
    assert_eq!(opens(), before);
}
