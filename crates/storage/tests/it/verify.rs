//! Verification finds every damage, names the file, and goes on.

use std::cell::RefCell;
use std::path::PathBuf;

use tidegate_platform::{Class, Disk, SimDisk};
use tidegate_storage::Error;

use crate::fixture::{DAY, files, new_database, open, try_open};
use crate::model::Step;

/// A closed database with segments, symbols, a mask.
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
    let path = |error: &Error| match error {
        Error::Corrupt { path, .. } | Error::NewerFormat { path, .. } => path.clone(),
        other => panic!("{other:?}"),
    };
    report.problems.iter().map(path).collect()
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
fn every_damaged_byte_of_symbols_and_masks_is_found() {
    let disk = closed();
    for path in [files(&disk, ".sym"), files(&disk, ".mask")].concat() {
        for at in 0..disk.read(&path).unwrap().len() as u64 {
            disk.corrupt(&path, at, 0x04);
            let found = problems(&disk);
            assert!(!found.is_empty(), "V1: {} byte {at}", path.display());
            assert!(found.iter().all(|found| *found == path), "V1: {} byte {at}", path.display());
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
    assert_eq!(found, segments, "V1");
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
