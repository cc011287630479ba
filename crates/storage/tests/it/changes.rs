//! Rows of a statement: any number of batches, and rows that go, with one commit.

use tidegate_storage::{Error, ImportTarget, MaskedRows};

use crate::fixture::{DAY, Row, batch, files, new_database, schema};
use crate::model::{Step, Tables, change, check, check_reopened};

/// Does a change to a table of some rows, and compares.
#[track_caller]
fn check_change(value: i64, batches: Vec<Vec<Row>>) {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    let steps = [
        Step::Create("t"),
        Step::Import("t", vec![(5, "a", 1), (5, "b", 2), (DAY, "a", 3)]),
        Step::Append(vec![("t", vec![(4, "c", 4), (5, "c", 5)], None)]),
        Step::Change("t", value, batches),
        Step::Append(vec![("t", vec![(5, "d", 6)], None)]),
    ];
    for step in steps {
        step.run(&database).unwrap();
        step.apply(&mut tables);
        check(&disk, &database, &tables, &format!("{step:?}"));
    }
    check_reopened(&disk.after_power_loss(), &tables, "after power loss");
}

#[test]
fn rows_go_and_others_come_with_one_commit() {
    check_change(2, vec![vec![(5, "x", 20)]]);
    check_change(4, vec![vec![(5, "x", 20), (3, "y", 21)], vec![(5, "x", 22), (DAY, "x", 23)]]);
    check_change(99, vec![vec![(1, "x", 20)]]);
    check_change(1, vec![]);
    check_change(99, vec![vec![]]);
}

#[test]
fn equal_timestamps_of_a_change_stand_in_the_order_of_its_batches() {
    // By their bounds alone, segments of one commit would be ordered otherwise.
    let batches = vec![
        vec![(8, "x", 1), (10, "x", 2)],
        vec![(2, "y", 3), (10, "y", 4), (DAY + 1, "y", 5)],
        vec![(10, "z", 6), (10, "a", 7), (DAY, "z", 8)],
    ];
    check_change(99, batches);
    let in_order = vec![vec![(5, "x", 1)], vec![(5, "y", 2), (6, "y", 3)], vec![(6, "z", 4)]];
    check_change(99, in_order);
}

#[test]
fn a_change_that_is_given_up_leaves_no_file() {
    let (disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let mut txn = database.begin_change(ImportTarget::Existing("t")).unwrap();
    txn.add(&batch(&[(7, "a", 1)], None)).unwrap();
    txn.add(&batch(&[(3, "b", 2)], None)).unwrap();
    assert_eq!(files(&disk, ".seg").len(), 2);
    drop(txn);
    assert_eq!(files(&disk, ".seg").len(), 0, "T2");
}

#[test]
fn rows_that_others_have_changed_are_not_taken_out() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    for step in [Step::Create("t"), Step::Import("t", vec![(1, "a", 1), (2, "a", 2)])] {
        step.run(&database).unwrap();
        step.apply(&mut tables);
    }
    let before = database.snapshot("t").unwrap();
    let step = Step::Delete("t", 1);
    step.run(&database).unwrap();
    step.apply(&mut tables);
    let segment = before.segments().next().unwrap().meta.id;
    let gone = [MaskedRows { segment, rows: vec![1] }];
    let outcome = change(&database, &before, &gone, &[batch(&[(9, "new", 9)], None)]);
    assert!(matches!(outcome, Err(Error::SegmentChanged { .. })), "{outcome:?}");
    check(&disk, &database, &tables, "nothing has changed");
    assert_eq!(files(&disk, ".seg").len(), 1, "T2");
    assert_eq!(files(&disk, ".mask").len(), 1, "T2");
}
