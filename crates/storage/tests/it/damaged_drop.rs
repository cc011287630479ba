//! Repairs of a log whose damaged record drops a table or a column, or frees a name.

use std::path::{Path, PathBuf};

use tidegate_platform::{Disk, OpenMode, SimDisk};
use tidegate_storage::LogRepair;

use crate::damaged_log::{damage_group_of, repair, verify};
use crate::fixture::{DIR, new_database, open, try_open};
use crate::model::{Step, Tables, read};

fn append(table: &'static str, value: i64) -> Step {
    Step::Append(vec![(table, vec![(value, "h", value)], None)])
}

/// Repairs a damaged log, and asserts that verification announces the same commits as lost.
#[track_caller]
fn repaired(disk: &SimDisk, context: &str) -> LogRepair {
    assert!(try_open(disk).is_err(), "{context}");
    let would_be_lost = verify(disk).lost;
    let repaired = repair(disk).unwrap().expect("the log is damaged");
    assert_eq!(repaired.lost, would_be_lost, "{context}");
    repaired
}

/// Asserts that a repaired database equals the model, also when it is opened again.
#[track_caller]
fn check(disk: &SimDisk, expected: &Tables, context: &str) {
    for _ in 0..2 {
        let database = open(disk);
        assert_eq!(&read(&database), expected, "{context}");
        assert!(database.verify(&|_| {}).unwrap().problems.is_empty(), "{context}");
        database.checkpoint().unwrap();
    }
}

fn after(steps: &[Step]) -> Tables {
    let mut tables = Tables::new();
    steps.iter().for_each(|step| step.apply(&mut tables));
    tables
}

// A table whose DROP was damaged came back without its files: queries of it failed, and a later
// table of its name got another one. If files were left of a directory that was removed in part, so
// was the table, suspended.
#[test]
fn a_table_whose_drop_is_damaged_is_dropped_if_its_files_are_gone() {
    // Without a checkpoint the log has the whole table, so that any file may be one of its rows.
    check_drop(false, None);
    check_drop(false, Some(Left::Directory));
    check_drop(true, None);
    check_drop(true, Some(Left::Directory));
    check_drop(true, Some(Left::File));
}

/// The rest of the directory of a dropped table after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Directory,
    File,
}

fn check_drop(has_checkpoint: bool, left: Option<Left>) {
    let context = format!("checkpoint: {has_checkpoint}, left: {left:?}");
    let (disk, database) = new_database();
    let before = [append("a", 1), Step::Keys("a", true), Step::Flush("a"), append("b", 2)];
    before.iter().for_each(|step| step.run(&database).unwrap());
    if has_checkpoint {
        database.checkpoint().unwrap();
    }
    let behind = [Step::Drop(vec!["a"]), append("a", 3)];
    behind.iter().for_each(|step| step.run(&database).unwrap());
    let disk = damage_group_of(&database, &disk, 4);
    let root = Path::new(DIR).join("data/1");
    disk.remove_dir_all(&root).unwrap();
    if left.is_some() {
        disk.create_dir_all(&root.join("symbols")).unwrap();
    }
    if left == Some(Left::File) {
        let path = root.join("symbols/1.sym");
        let file = disk.open(&path, OpenMode::CreateOrTruncate).unwrap();
        file.write_all_at(&[1], 0).unwrap();
    }
    let LogRepair { lost, dropped, saved_files, .. } = repaired(&disk, &context);
    assert_eq!(dropped, ["a"], "repair_replay-4: {context}");
    let lost: Vec<_> = lost.iter().map(|it| (it.table.0, it.first.0, it.last.0)).collect();
    assert_eq!(lost, [(1, 4, 4)], "{context}");
    let is_saved = |path: &PathBuf| disk.exists(&path.join("symbols/1.sym")).unwrap();
    assert_eq!(saved_files.iter().any(is_saved), left == Some(Left::File), "{context}");
    check(&disk, &after(&[&before[..], &behind].concat()), &context);
}

// The manifest of a table was gone, and the damaged record was about the table but dropped nothing:
// the files of the table have to stay where they are.
#[test]
fn a_table_without_manifest_stays_if_the_damaged_record_does_not_drop_it() {
    let (disk, database) = new_database();
    let steps = [append("a", 1), Step::Flush("a"), append("a", 2)];
    steps[..2].iter().for_each(|step| step.run(&database).unwrap());
    database.checkpoint().unwrap();
    steps[2].run(&database).unwrap();
    let disk = damage_group_of(&database, &disk, 2);
    disk.remove(&Path::new(DIR).join("data/1/manifest")).unwrap();
    let repaired = repaired(&disk, "no manifest");
    assert!(repaired.dropped.is_empty(), "repair_replay-4");
    assert_eq!(open(&disk).suspended()[0].0, "a");
}

// A table was created and dropped in one transaction. A repair left out the drop, and gave a later
// table of its name another name, which was listed as lost.
#[test]
fn a_name_that_is_freed_in_the_record_that_takes_it_is_free() {
    let rows = |table| vec![(table, vec![(5, "h", 5)])];
    let cases = [
        vec![Step::Transaction(vec![Step::Create("b"), Step::Drop(vec!["b"])], rows("a"))],
        vec![Step::Transaction(vec![Step::Create("b"), Step::Rename("b", "c")], rows("c"))],
        vec![Step::Transaction(
            vec![Step::Create("b"), Step::Drop(vec!["b"]), Step::Create("b")],
            rows("b"),
        )],
        vec![Step::Transaction(
            vec![Step::Rename("a", "c"), Step::Create("a"), Step::Rename("a", "D")],
            rows("D"),
        )],
    ];
    for (n, case) in cases.iter().enumerate() {
        let (disk, database) = new_database();
        let steps =
            [&[append("a", 1), append("D", 2), Step::Drop(vec!["D"]), append("a", 3)], &case[..]];
        let steps = [&steps.concat()[..], &[append("b", 4)]].concat();
        steps.iter().for_each(|step| step.run(&database).unwrap());
        let disk = damage_group_of(&database, &disk, 3);
        let lost = repaired(&disk, &format!("case {n}")).lost;
        let lost: Vec<_> = lost.iter().map(|it| (it.table.0, it.first.0, it.last.0)).collect();
        assert_eq!(lost, [(1, 2, 2)], "case {n}");
        let kept: Vec<Step> = [&steps[..3], &steps[4..]].concat();
        check(&disk, &after(&kept), &format!("case {n}"));
    }
}

// The symbols of a column were gone, because the damaged record had dropped it, and it was still a
// key: a repair left the table unreadable.
#[test]
fn a_column_without_symbols_is_dropped_although_it_is_a_key() {
    let (disk, database) = new_database();
    let drop_key = vec![Step::Keys("a", false), Step::DropColumn("a", "host")];
    let steps = [
        append("a", 1),
        Step::Keys("a", true),
        Step::Flush("a"),
        Step::Transaction(drop_key, vec![]),
        append("b", 2),
    ];
    steps.iter().for_each(|step| step.run(&database).unwrap());
    let disk = damage_group_of(&database, &disk, 3);
    disk.remove(&Path::new(DIR).join("data/1/symbols/1.sym")).unwrap();
    repaired(&disk, "a key");
    check(&disk, &after(&steps), "repair_replay-3");
}
