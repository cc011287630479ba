//! Verification: it finds all damage, names the file, and continues.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_platform::{Class, Disk, SimDisk};
use tidegate_storage::{Error, verify_offline};

use crate::fixture::{DAY, DIR, files, new_database, open, try_open};
use crate::model::Step;

/// A closed database with segments, symbols, a deletion vector.
fn closed() -> SimDisk {
    let (disk, database) = new_database();
    for step in [
        Step::ImportNew("a", vec![(1, "x", 1), (2, "y", 2), (DAY, "y", 2)]),
        Step::ImportNew("b", vec![(5, "z", 3)]),
        Step::Delete("a", 1),
    ] {
        step.run(&database).unwrap();
    }
    drop(database);
    disk
}

fn problems(disk: &SimDisk) -> Vec<PathBuf> {
    let report = open(disk).verify(&|_| {}).unwrap();
    report.problems.iter().map(path_of).collect()
}

#[test]
fn an_undamaged_database_has_no_problems() {
    let disk = closed();
    let database = open(&disk);
    let steps = RefCell::new(Vec::new());
    let report = database
        .verify(&|step| steps.borrow_mut().push((step.table.to_owned(), step.done, step.total)))
        .unwrap();
    assert!(report.problems.is_empty());
    assert_eq!((report.tables, report.segments, report.rows.0), (2, 3, 3));
    assert!(report.bytes.0 > 0);
    let expected = [("a", 0, 3), ("a", 1, 3), ("b", 2, 3)];
    let expected = expected.map(|(table, done, total)| (table.to_owned(), done, total));
    assert_eq!(steps.into_inner(), expected);
}

#[test]
fn every_damaged_byte_of_symbols_and_deletion_vectors_is_found() {
    let disk = closed();
    for path in [files(&disk, ".sym"), files(&disk, ".mask")].concat() {
        for at in 0..disk.read(&path).unwrap().len() as u64 {
            disk.corrupt(&path, at, 0x04);
            let found = problems(&disk);
            assert!(!found.is_empty(), "verify-1: {} byte {at}", path.display());
            assert!(
                found.iter().all(|found| *found == path),
                "verify-1: {} byte {at}",
                path.display()
            );
            disk.corrupt(&path, at, 0x04);
        }
    }
    assert!(problems(&disk).is_empty());
}

#[test]
fn damage_of_one_segment_leaves_everything_else_readable() {
    let disk = closed();
    let segments = files(&disk, ".seg");
    assert_eq!(segments.len(), 3);
    let bytes = disk.read(&segments[0]).unwrap();
    disk.corrupt(&segments[0], bytes.len() as u64 - 40, 0xff);
    disk.truncate(&segments[1], 10);
    disk.remove(&segments[2]).unwrap();
    let mut found = problems(&disk);
    found.sort();
    assert_eq!(found, segments, "verify-1");
    let database = open(&disk);
    let snapshot = database.snapshot("b").unwrap();
    let error = snapshot.segments().next().unwrap().reader().map(drop).unwrap_err();
    assert_eq!(error.class(), Class::Corruption);
    assert_eq!(database.tables().len(), 2);
}

#[test]
fn damage_of_one_tables_symbols_leaves_other_tables_alone() {
    let disk = closed();
    disk.truncate(&files(&disk, ".sym")[0], 30);
    let database = open(&disk);
    assert_eq!(database.snapshot("a").unwrap_err().class(), Class::Corruption);
    database.snapshot("b").unwrap();
    let report = database.verify(&|_| {}).unwrap();
    assert!(!report.problems.is_empty());
    assert_eq!(report.tables, 2);
}

#[test]
fn damage_of_log_and_checkpoints_is_found_while_open() {
    let disk = closed();
    let database = open(&disk);
    Step::Create("c").run(&database).unwrap();
    Step::Create("d").run(&database).unwrap();
    let log = files(&disk, ".wal").pop().unwrap();
    let bytes = disk.read(&log).unwrap();
    let group = bytes.windows(8).rposition(|window| window == b"TIDEGRP\0").unwrap();
    for (path, at) in [
        (log, group as u64 + 50),
        (files(&disk, "catalog").remove(0), 30),
        (files(&disk, "manifest").remove(1), 30),
    ] {
        disk.corrupt(&path, at, 1);
        let report = database.verify(&|_| {}).unwrap();
        let is_named =
            |error: &Error| matches!(error, Error::Corrupt { path: p, .. } if *p == path);
        assert!(report.problems.iter().all(is_named), "{:?}", report.problems);
        assert_eq!(report.problems.len(), 1, "{}", path.display());
        disk.corrupt(&path, at, 1);
    }
    drop(database);
    try_open(&disk).unwrap();
}

/// Padding and header bytes of segments were not read, so a flipped bit in them was not found,
/// although every byte was to be verified. Now regions and zeros cover the whole file.
#[test]
fn every_damaged_byte_of_a_segment_is_found() {
    let disk = closed();
    for path in files(&disk, ".seg") {
        for at in 0..disk.read(&path).unwrap().len() as u64 {
            disk.corrupt(&path, at, 0x20);
            assert_eq!(problems(&disk), std::slice::from_ref(&path), "byte {at}");
            disk.corrupt(&path, at, 0x20);
        }
    }
    assert!(problems(&disk).is_empty());
}

/// Groups before the checkpoint were not read again, nor the padding and the bytes after them.
#[test]
fn every_damaged_byte_of_the_log_is_found_before_and_behind_the_checkpoint() {
    let disk = closed();
    let database = open(&disk);
    for table in ["c", "d", "e"] {
        Step::Create(table).run(&database).unwrap();
    }
    drop(database);
    assert!(problems(&disk).is_empty());
    let logs = files(&disk, ".wal");
    let has_groups = |path: &PathBuf| {
        let bytes = disk.read(path).unwrap();
        bytes.windows(8).any(|window| window == b"TIDEGRP\0")
    };
    assert!(logs.iter().any(has_groups), "there is something to damage");
    for path in logs {
        for at in (0..disk.read(&path).unwrap().len() as u64).step_by(3) {
            disk.corrupt(&path, at, 0x01);
            let found = match try_open(&disk) {
                Ok(database) => database.verify(&|_| {}).unwrap().problems,
                Err(error) => vec![error],
            };
            let is_named =
                |error: &Error| matches!(error, Error::Corrupt { path: p, .. } if *p == path);
            assert!(found.len() == 1 && is_named(&found[0]), "byte {at}: {found:?}");
            disk.corrupt(&path, at, 0x01);
        }
    }
    assert!(problems(&disk).is_empty());
}

/// The remains of a group after the end of the log, left by a crash, are not damage.
#[test]
fn remains_of_a_group_that_failed_are_no_damage() {
    let disk = closed();
    let database = open(&disk);
    Step::Create("c").run(&database).unwrap();
    drop(database);
    let path = files(&disk, ".wal").pop().unwrap();
    let bytes = disk.read(&path).unwrap();
    let group = bytes.windows(8).rposition(|window| window == b"TIDEGRP\0").unwrap();
    let file = disk.open(&path, tidegate_platform::OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[7; 512], group as u64 + 4_096 + 512).unwrap();
    assert!(problems(&disk).is_empty());
}

/// A damaged symbol file was listed twice, and segments of its table were not read at all.
#[test]
fn damaged_symbols_are_listed_once_and_segments_are_read_all_the_same() {
    let disk = closed();
    let (symbols, segment) = (files(&disk, ".sym").remove(0), files(&disk, ".seg").remove(0));
    disk.corrupt(&symbols, 40, 1);
    assert_eq!(problems(&disk), std::slice::from_ref(&symbols));
    let report = open(&disk).verify(&|_| {}).unwrap();
    assert_eq!((report.tables, report.segments), (2, 3));
    disk.corrupt(&segment, 20, 1);
    assert_eq!(problems(&disk), [symbols, segment]);
}

#[test]
fn a_version_that_never_was_is_damage_and_a_later_one_is_not() {
    let disk = closed();
    let path = files(&disk, ".seg").remove(0);
    let bytes = disk.read(&path).unwrap();
    let file = disk.open(&path, tidegate_platform::OpenMode::ReadWrite).unwrap();
    let again = bytes.len() as u64 - 12;
    let shown = || open(&disk).verify(&|_| {}).unwrap().problems.remove(0).to_string();
    for (first, second, expected) in [
        (0, 0, "is corrupt at byte 8: the format version is 0"),
        (2, 1, "is corrupt at byte 8: the format version is 2"),
        (1, 2, "the trailer is damaged"),
        (2, 2, "has format version 2, and this program knows versions up to 1"),
    ] {
        file.write_all_at(&[first], 8).unwrap();
        file.write_all_at(&[second], again).unwrap();
        assert!(shown().ends_with(expected), "{first} {second}: {}", shown());
    }
}

/// Only the damage that kept a database from being opened was reported: the first damaged file hid
/// the others.
#[test]
fn each_file_of_a_database_that_cannot_be_opened_is_read() {
    let disk = closed();
    let named = |suffix: &str| files(&disk, suffix).remove(0);
    let (catalog, manifest, segment) = (named("catalog"), named("manifest"), named(".seg"));
    let other = files(&disk, ".seg").pop().unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let problems = || verify_offline(&shared, Path::new(DIR), &|_| {}).unwrap().problems;
    assert!(problems().is_empty());
    let copy = named("catalog.copy");
    for damaged in [
        vec![&catalog, &other],
        vec![&copy, &other],
        vec![&manifest, &other],
        vec![&segment, &other],
    ] {
        damaged.iter().for_each(|path| disk.corrupt(path, 30, 1));
        let found: Vec<PathBuf> = problems().iter().map(path_of).collect();
        let expected: Vec<PathBuf> = damaged.iter().map(|path| (*path).clone()).collect();
        assert_eq!(found, expected);
        damaged.iter().for_each(|path| disk.corrupt(path, 30, 1));
    }
    let database = open(&disk);
    let error = verify_offline(&shared, Path::new(DIR), &|_| {}).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");
    drop(database);
}

fn path_of(error: &Error) -> PathBuf {
    match error {
        Error::Corrupt { path, .. } | Error::NewerFormat { path, .. } => path.clone(),
        other => panic!("{other:?}"),
    }
}
