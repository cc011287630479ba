//! Repairs of a log whose damaged record is that of a flush or a compaction.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidegate_model::ColumnType;
use tidegate_platform::{Disk, OpenMode, SimDisk};
use tidegate_storage::Database;

use crate::damaged_log::{damage_group_of, repair, verify};
use crate::fixture::{DAY, DIR, chain, files, new_database, open, options, try_open};
use crate::model::{Step, Tables, read};

// A flush counts all rows before it as flushed. If the record of the flush before was damaged, a
// repair dropped the rows of that flush, whose file was intact, and listed none of their commits.
// An update of such a row was kept in part: its new row was there, and its old one too.
#[test]
fn a_repair_keeps_rows_whose_flush_is_damaged() {
    let row =
        |ts, host| Step::Append(vec![("a", vec![(ts, host, ts), (ts + DAY, host, -ts)], None)]);
    let cases = [
        vec![],
        vec![row(4, "h4"), Step::Flush("a")],
        vec![Step::Update("a", 2)],
        vec![Step::Update("a", 2), row(4, "h4"), Step::Flush("a"), row(5, "h1")],
        vec![Step::Delete("a", 1), Step::Delete("a", -3), row(4, "h4"), Step::Flush("a")],
        vec![Step::Import("a", vec![(60, "h6", 60)]), Step::Compact("a"), row(4, "h4")],
        vec![row(4, "h4"), Step::Flush("a"), Step::Compact("a")],
        vec![Step::DropPartition("a", 0), row(4, "h4"), Step::Flush("a")],
        vec![Step::Truncate("a"), row(4, "h4"), Step::Flush("a")],
        vec![Step::Truncate("a"), row(4, "h3"), row(5, "h1")],
        vec![Step::Keys("a", true), row(2, "h2"), row(3, "h3")],
    ];
    for (n, after) in cases.iter().enumerate() {
        let (disk, database) = new_database();
        let mut tables = Tables::new();
        let mut done = |database: &Arc<Database>, step: &Step| {
            step.run(database).unwrap_or_else(|e| panic!("{n}: {step:?}: {}", chain(&e)));
            step.apply(&mut tables);
        };
        done(&database, &row(0, "h0"));
        drop(database);
        let database = open(&disk);
        for (ts, host) in [(1, "h1"), (2, "h2"), (3, "h3")] {
            done(&database, &row(ts, host));
        }
        done(&database, &Step::Flush("a"));
        after.iter().for_each(|step| done(&database, step));
        let disk = damage_group_of(&database, &disk, 3);
        assert!(try_open(&disk).is_err(), "{n}");
        let would_be_lost = verify(&disk).lost;
        let lost = repair(&disk).unwrap().unwrap().lost;
        assert_eq!(lost, would_be_lost, "{n}");
        for _ in 0..2 {
            let database = open(&disk);
            assert_eq!(read(&database), tables, "{n}: {lost:?}");
            assert!(database.verify(&|_| {}).unwrap().problems.is_empty(), "{n}");
            Step::Flush("a").run(&database).unwrap();
            database.checkpoint().unwrap();
        }
    }
}

// A later compaction had taken the segment of a compaction whose record was damaged. A repair used
// the file of the missing one too, or kept the segments from before both: their rows were there
// twice.
#[test]
fn a_repair_keeps_rows_of_a_damaged_compaction_once() {
    for is_restored in [false, true] {
        let disk = SimDisk::new(1);
        let mut options = options();
        options.maintenance.compaction_runs = 2;
        let opened = Database::open(Arc::new(disk.clone()), Path::new(DIR), &options);
        let database = opened.unwrap();
        let (mut tables, mut segments) = (Tables::new(), BTreeMap::new());
        for (part, rows) in [(0, 1), (1, 1), (2, 2)] {
            let rows = (part..part + rows).map(|n| (n, "h", n)).collect();
            let append = Step::Append(vec![("a", rows, None)]);
            let mut steps = vec![append, Step::Flush("a")];
            steps.extend((part > 0).then_some(Step::Compact("a")));
            for step in steps {
                step.run(&database).unwrap();
                step.apply(&mut tables);
                let found = files(&disk, ".seg").into_iter();
                segments.extend(found.map(|path| (path.clone(), disk.read(&path).unwrap())));
            }
        }
        assert_eq!(segments.len(), 5, "three flushes and two compactions");
        // An append and a flush, the same again, and the first compaction.
        let disk = damage_group_of(&database, &disk, 4);
        // A crash may restore the files that are not used any more.
        for (path, bytes) in segments.iter().filter(|_| is_restored) {
            let file = disk.open(path, OpenMode::CreateOrTruncate).unwrap();
            file.write_all_at(bytes, 0).unwrap();
        }
        repair(&disk).unwrap().unwrap();
        for _ in 0..2 {
            let database = open(&disk);
            assert_eq!(read(&database), tables, "{is_restored}");
            assert!(database.verify(&|_| {}).unwrap().problems.is_empty(), "{is_restored}");
        }
    }
}

// The record that added a column of symbols was damaged, and a later one changed the columns again.
// A repair kept rows between them that had symbols without a text: the table could not be read.
#[test]
fn a_repair_gives_up_symbols_of_a_column_whose_record_is_damaged() {
    let (disk, database) = new_database();
    let append = |ts| Step::Append(vec![("a", vec![(ts, "h", ts)], None)]);
    let add = |name, ty| Step::AddColumn("a", name, ty);
    let steps = [append(0), Step::DropColumn("a", "host"), add("host", ColumnType::Symbol)];
    let later = [append(1), append(2), add("more", ColumnType::Int64)];
    steps.iter().chain(&later).for_each(|step| step.run(&database).unwrap());
    let disk = damage_group_of(&database, &disk, 2);
    let lost = repair(&disk).unwrap().unwrap().lost;
    let lost: Vec<_> = lost.iter().map(|lost| (lost.first.0, lost.last.0)).collect();
    assert_eq!(lost, [(3, 5)], "symbol_gaps-2");
    let database = open(&disk);
    assert_eq!(read(&database)["a"].rows.len(), 1);
    assert!(database.verify(&|_| {}).unwrap().problems.is_empty());
}

#[test]
fn a_repair_takes_no_file_with_other_rows() {
    let [disk, other] = [1, 100].map(|more| {
        let (disk, database) = new_database();
        let append = |ts| Step::Append(vec![("a", vec![(ts, "h", ts + more)], None)]);
        let steps = [append(0), append(1), Step::Flush("a"), append(2), Step::Flush("a")];
        steps.iter().for_each(|step| step.run(&database).unwrap());
        damage_group_of(&database, &disk, 2)
    });
    let of_flush = files(&disk, ".seg").remove(0);
    let file = disk.open(&of_flush, OpenMode::CreateOrTruncate).unwrap();
    file.write_all_at(&other.read(&of_flush).unwrap(), 0).unwrap();
    let lost = repair(&disk).unwrap().unwrap().lost;
    let lost: Vec<_> = lost.iter().map(|lost| (lost.first.0, lost.last.0)).collect();
    assert_eq!(lost, [(1, 3)], "missing_flush-1");
    let found = read(&open(&disk));
    let values: Vec<_> = found["a"].rows.iter().map(|row| row[2].clone()).collect();
    assert_eq!(values, [Some("3".to_owned())], "missing_flush-2");
}
