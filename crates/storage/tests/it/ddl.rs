//! DDL: statements about tables and columns.

use std::path::Path;
use std::sync::Arc;

use tidegate_model::{ColumnType, SchemaError, TableId};
use tidegate_platform::{Class, SimDisk};
use tidegate_storage::{Database, Error, OpenOptions, Result};

use crate::fixture::{DIR, columns, import, new_database, open, options, schema};
use crate::model::{Step, Tables, check_reopened, read};

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T>, expected: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.class(), Class::Caller);
}

#[test]
fn names_are_found_in_any_case_and_kept_as_written() {
    let (disk, database) = new_database();
    let id = database.create_table("Stra\u{df}e", schema()).unwrap();
    assert_eq!(database.snapshot("STRA\u{df}E").unwrap().table, id);
    refused(database.create_table("stra\u{df}e", schema()), "table `stra\u{df}e` exists already");
    database.rename_table("stra\u{df}e", "STRA\u{df}E").unwrap();
    drop(database);
    let database = open(&disk);
    let names: Vec<String> = database.tables().into_iter().map(|table| table.name).collect();
    assert_eq!(names, ["STRA\u{df}E"]);
}

#[test]
fn a_refused_schema_change_names_the_reason_and_changes_nothing() {
    let (_, database) = new_database();
    database.create_table("a", schema()).unwrap();
    database.create_table("b", schema()).unwrap();
    let before = (read(&database), database.schema_epoch());
    refused(database.drop_tables(&["a", "c"]), "table `c` does not exist");
    refused(database.rename_table("a", "B"), "table `B` exists already");
    refused(database.rename_table("c", "d"), "table `c` does not exist");
    refused(database.truncate_table("c"), "table `c` does not exist");
    refused(database.drop_columns("a", &["value", "no"]), "column `no` does not exist");
    let twice = columns(&[("x", ColumnType::Date), ("X", ColumnType::Date)]);
    let expected = "column `X` is there twice (names are compared without case)";
    refused(database.add_columns("a", &twice), expected);
    let expected = "column `ts` is the designated timestamp and cannot be dropped";
    refused(database.drop_columns("a", &["TS"]), expected);
    let expected = "column `HOST` is there twice (names are compared without case)";
    refused(database.rename_column("a", "value", "HOST"), expected);
    let error = database.create_table("", schema()).unwrap_err();
    assert!(matches!(error, Error::Schema(SchemaError::BadName { .. })), "{error:?}");
    assert!(database.rename_table("a", &"x".repeat(128)).is_err());
    assert_eq!((read(&database), database.schema_epoch()), before);
}

#[test]
fn the_epoch_rises_with_every_change_of_schema_and_not_with_rows() {
    let (_, database) = new_database();
    let mut last = database.schema_epoch();
    let mut rises = |what: &str| {
        let epoch = database.schema_epoch();
        assert!(last < epoch, "{what}");
        last = epoch;
    };
    for step in [
        Step::Create("a"),
        Step::AddColumn("a", "x", ColumnType::Int64),
        Step::RenameColumn("a", "x", "y"),
        Step::DropColumn("a", "y"),
        Step::Rename("a", "b"),
        Step::ImportNew("c", vec![(1, "x", 1)]),
        Step::Drop(vec!["b"]),
    ] {
        step.run(&database).unwrap();
        rises(&format!("{step:?}"));
    }
    import(&database, "c", &[(2, "y", 2)]).unwrap();
    assert_eq!(database.schema_epoch(), last);
}

#[test]
fn an_idle_statement_is_one_sync() {
    let disk = SimDisk::new(1);
    let options = OpenOptions::new(options().clock);
    let database = Database::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
    let mut tables = Tables::new();
    // The first commit of a process starts a log file.
    Step::Create("a").run(&database).unwrap();
    Step::Create("a").apply(&mut tables);
    for step in [
        Step::AddColumn("a", "x", ColumnType::Int64),
        Step::RenameColumn("a", "x", "y"),
        Step::Rename("a", "b"),
        Step::DropColumn("b", "y"),
        Step::Truncate("b"),
        Step::Create("c"),
        Step::Drop(vec!["b", "c"]),
    ] {
        let (syncs, files) = (disk.syncs(), disk.files());
        step.run(&database).unwrap();
        step.apply(&mut tables);
        assert_eq!(disk.syncs() - syncs, 1, "wal_log-1: {step:?}");
        assert_eq!(disk.files(), files, "no file is made or longer: {step:?}");
    }
    drop(database);
    check_reopened(&disk, &tables, "closed");
}

#[test]
fn ids_are_never_used_again() {
    let (disk, database) = new_database();
    let first = database.create_table("a", schema()).unwrap();
    database.drop_tables(&["a"]).unwrap();
    drop(database);
    let database = open(&disk);
    let second = database.create_table("a", schema()).unwrap();
    assert!(first < second, "ids-1");
    database.drop_tables(&["a"]).unwrap();
    // The table is not in the catalog on disk, only in the log.
    let disk = disk.after_power_loss();
    drop(database);
    let database = open(&disk);
    assert_eq!(database.create_table("a", schema()).unwrap(), TableId(second.0 + 1), "ids-1");
}

#[test]
fn a_dropped_column_comes_back_without_its_rows() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    for step in [
        Step::ImportNew("t", vec![(1, "a", 1)]),
        Step::DropColumn("t", "value"),
        Step::DropColumn("t", "host"),
        Step::AddColumn("t", "value", ColumnType::Varchar),
        Step::AddColumn("t", "host", ColumnType::Symbol),
        Step::Import("t", vec![(2, "b", 2)]),
    ] {
        step.run(&database).unwrap();
        step.apply(&mut tables);
        assert_eq!(read(&database), tables, "{step:?}");
    }
    assert_eq!(tables["t"].rows[0][1..], [None, None]);
    drop(database);
    check_reopened(&disk, &tables, "closed");
}
