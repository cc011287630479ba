//! Imports: alone, together, and against other statements.

use std::collections::BTreeSet;

use tidegate_model::{ColumnId, ColumnType, PartitionKey, SeqTxn, SymbolId};
use tidegate_platform::{Class, Disk};
use tidegate_storage::{Error, ImportTarget, ImportTxn};

use crate::fixture::{
    DAY, DIR, Row, columns, files, import, import_into, new_database, open, schema, write,
};
use crate::model::{Step, Tables, assert_no_garbage, check_reopened, read};

const ROWS: [Row; 3] = [(5, "a", 1), (DAY, "b", 2), (3, "c", 3)];

fn new(name: &str) -> ImportTarget<'_> {
    ImportTarget::New { name, schema: schema() }
}

fn commit(txn: ImportTxn, rows: &[Row]) -> tidegate_storage::Result<SeqTxn> {
    let segments = write(&txn, rows).unwrap();
    txn.commit(segments)
}

#[test]
fn rows_appear_at_the_commit_and_not_before() {
    let (disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let txn = database.begin_import(ImportTarget::Existing("T")).unwrap();
    let segments = write(&txn, &ROWS).unwrap();
    assert_eq!(database.snapshot("t").unwrap().rows().0, 0, "write_import-1");
    assert_eq!(txn.commit(segments).unwrap(), SeqTxn(2));
    assert_eq!(database.snapshot("t").unwrap().rows().0, 3, "write_import-1");
    assert_eq!(database.snapshot("t").unwrap().min_max_ts(), Some((3, DAY)));
    drop(database);
    let mut tables = Tables::new();
    Step::ImportNew("t", ROWS.to_vec()).apply(&mut tables);
    check_reopened(&disk, &tables, "closed");
}

#[test]
fn an_import_that_is_given_up_leaves_nothing() {
    let (disk, database) = new_database();
    import_into(&database, new("t"), &ROWS).unwrap();
    let before = disk.files();
    for target in [ImportTarget::Existing("t"), new("u")] {
        let txn = database.begin_import(target).unwrap();
        write(&txn, &ROWS).unwrap();
        assert!(disk.files() != before);
        drop(txn);
        assert_eq!(disk.files(), before, "write_import-2");
    }
    // A segment that was started and is not part of the commit is removed too.
    let txn = database.begin_import(ImportTarget::Existing("t")).unwrap();
    txn.new_segment(PartitionKey(9 * DAY)).unwrap();
    commit(txn, &ROWS).unwrap();
    assert_no_garbage(&disk, &database, "write_import-2");
}

#[test]
fn a_new_table_takes_the_place_of_another_with_one_commit() {
    let (disk, database) = new_database();
    import_into(&database, new("t"), &ROWS).unwrap();
    let replacing = |rows: &[Row]| {
        let target = ImportTarget::Replacing { name: "T", schema: schema() };
        let txn = database.begin_import(target).unwrap();
        (write(&txn, rows).unwrap(), txn)
    };
    // An aborted import has changed nothing.
    let before = disk.files();
    drop(replacing(&ROWS[..1]));
    assert_eq!(disk.files(), before, "write_import-2");
    let (old, (segments, txn)) = (database.snapshot("t").unwrap(), replacing(&ROWS[..1]));
    assert_eq!(database.snapshot("t").unwrap().rows().0, 3, "write_import-1");
    assert_eq!(txn.commit(segments).unwrap(), SeqTxn(2));
    assert_eq!(database.snapshot("t").unwrap().rows().0, 1, "write_import-1");
    assert_eq!(database.snapshot("t").unwrap().name, "T");
    assert_eq!(old.rows().0, 3, "snapshot-4");
    drop(old);
    assert_no_garbage(&disk, &database, "write_import-2");
    drop(database);
    let mut tables = Tables::new();
    Step::ImportNew("T", ROWS[..1].to_vec()).apply(&mut tables);
    check_reopened(&disk, &tables, "replaced");
}

#[test]
fn scratch_directories_differ_and_go() {
    let (disk, database) = new_database();
    let [a, b] = [new("a"), new("b")].map(|target| database.begin_import(target).unwrap());
    let directories = [a.scratch_dir().to_path_buf(), b.scratch_dir().to_path_buf()];
    assert_ne!(directories[0], directories[1]);
    for dir in &directories {
        assert!(dir.starts_with(DIR));
        let spill = disk.open(&dir.join("spill"), tidegate_platform::OpenMode::CreateNew);
        spill.unwrap().write_all_at(b"rows", 0).unwrap();
    }
    commit(a, &ROWS).unwrap();
    drop(b);
    for dir in &directories {
        assert!(!disk.exists(dir).unwrap());
    }
}

#[test]
fn an_import_without_rows_makes_its_table_and_is_otherwise_nothing() {
    let (_, database) = new_database();
    let txn = database.begin_import(new("t")).unwrap();
    assert_eq!(txn.commit(Vec::new()).unwrap(), SeqTxn(1));
    let txn = database.begin_import(ImportTarget::Existing("t")).unwrap();
    assert_eq!(txn.commit(Vec::new()).unwrap(), SeqTxn(1));
    assert_eq!(database.snapshot("t").unwrap().seq_txn, SeqTxn(1));
}

#[test]
fn two_imports_into_one_table_share_its_symbols() {
    let (disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let host = schema().find("host").unwrap().id;
    let begin = || database.begin_import(ImportTarget::Existing("t")).unwrap();
    let (a, b, given_up) = (begin(), begin(), begin());
    assert_eq!(a.intern(host, &[b"x", b"y"]).unwrap(), [SymbolId(0), SymbolId(1)]);
    assert_eq!(b.intern(host, &[b"y", b"z"]).unwrap(), [SymbolId(1), SymbolId(2)], "symbols-1");
    given_up.intern(host, &[b"nobody has this"]).unwrap();
    assert_eq!(a.intern(host, &[b"w"]).unwrap(), [SymbolId(4)]);
    assert_eq!(a.symbols().get(host).unwrap().text(SymbolId(4)), b"w");
    drop(given_up);
    // The import that began last commits first, with rows of both in one partition.
    assert_eq!(commit(b, &[(1, "y", 1), (2, "z", 2)]).unwrap(), SeqTxn(2));
    assert_eq!(commit(a, &[(1, "x", 3), (2, "w", 4)]).unwrap(), SeqTxn(3));
    let mut tables = Tables::new();
    for rows in [vec![(1, "y", 1), (2, "z", 2)], vec![(1, "x", 3), (2, "w", 4)]] {
        let step =
            if tables.is_empty() { Step::ImportNew("t", rows) } else { Step::Import("t", rows) };
        step.apply(&mut tables);
    }
    assert_eq!(read(&database), tables, "snapshot-1");
    let disk_now = disk.after_power_loss();
    drop(database);
    check_reopened(&disk_now, &tables, "after power loss");
    let database = open(&disk_now);
    let txn = database.begin_import(ImportTarget::Existing("t")).unwrap();
    assert_eq!(txn.intern(host, &[b"w", b"v"]).unwrap(), [SymbolId(4), SymbolId(5)], "symbols-1");
}

#[test]
fn a_refused_commit_names_the_reason_and_changes_nothing() {
    let cases: [(&str, &[Step], &str); 6] = [
        ("t", &[Step::Drop(vec!["t"])], "table `t` was dropped meanwhile"),
        ("t", &[Step::Drop(vec!["t"]), Step::Create("t")], "table `t` was dropped meanwhile"),
        ("t", &[Step::Truncate("t")], "table `t` was truncated meanwhile"),
        (
            "t",
            &[Step::DropColumn("t", "value")],
            "column `value` of table `t` was dropped meanwhile",
        ),
        (
            "t",
            &[Step::DropColumn("t", "host"), Step::AddColumn("t", "host", ColumnType::Symbol)],
            "column `host` of table `t` was dropped meanwhile",
        ),
        ("u", &[Step::Create("U")], "table `u` exists already"),
    ];
    for (name, meanwhile, expected) in cases {
        let (disk, database) = new_database();
        let mut tables = Tables::new();
        let first = Step::ImportNew("t", vec![(7, "old", 7)]);
        first.run(&database).unwrap();
        first.apply(&mut tables);
        let target = if name == "t" { ImportTarget::Existing("t") } else { new(name) };
        let txn = database.begin_import(target).unwrap();
        let segments = write(&txn, &ROWS).unwrap();
        for step in meanwhile {
            step.run(&database).unwrap();
            step.apply(&mut tables);
        }
        let error = txn.commit(segments).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.class(), Class::Caller);
        assert_eq!(read(&database), tables, "{expected}");
        assert_no_garbage(&disk, &database, expected);
        drop(database);
        check_reopened(&disk, &tables, expected);
    }
}

// A symbol column that was dropped between the look at the columns and the begin of the import had
// no dictionary: the import panicked at its first symbol.
#[test]
fn an_import_of_columns_that_have_changed_meanwhile_is_refused_at_once() {
    let cases: [(&[Step], &str); 4] = [
        (&[Step::DropColumn("t", "host")], "column `host` of table `t` was dropped meanwhile"),
        (
            &[Step::DropColumn("t", "host"), Step::AddColumn("t", "host", ColumnType::Symbol)],
            "column `host` of table `t` was dropped meanwhile",
        ),
        (&[Step::Drop(vec!["t"]), Step::Create("t")], "table `t` was dropped meanwhile"),
        (&[Step::Drop(vec!["t"])], "table `t` does not exist"),
    ];
    for (meanwhile, expected) in cases {
        let (_, database) = new_database();
        Step::Create("t").run(&database).unwrap();
        let known = database.snapshot("t").unwrap();
        for step in meanwhile {
            step.run(&database).unwrap();
        }
        let (table, columns) = (known.table, known.schema.columns());
        let target = ImportTarget::Known { name: "t", table, columns };
        let error = database.begin_import(target).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.class(), Class::Caller);
    }
}

#[test]
fn columns_that_an_import_does_not_know_may_come_and_go() {
    let (_, database) = new_database();
    Step::Create("t").run(&database).unwrap();
    let known = database.snapshot("t").unwrap();
    for step in [
        Step::AddColumn("t", "tag", ColumnType::Symbol),
        Step::DropColumn("t", "tag"),
        Step::AddColumn("t", "more", ColumnType::Varchar),
    ] {
        step.run(&database).unwrap();
    }
    let (table, columns) = (known.table, known.schema.columns());
    let target = ImportTarget::Known { name: "t", table, columns };
    let txn = database.begin_import(target).unwrap();
    let host = known.schema.find("host").unwrap().id;
    assert_eq!(txn.intern(host, &[b"x"]).unwrap(), [SymbolId(0)]);
    let segments = write(&txn, &ROWS).unwrap();
    Step::DropColumn("t", "more").run(&database).unwrap();
    txn.commit(segments).unwrap();
    assert_eq!(database.snapshot("t").unwrap().rows().0, 3);
}

#[test]
fn an_import_goes_on_while_its_table_is_renamed_and_extended() {
    let (disk, database) = new_database();
    let mut tables = Tables::new();
    Step::Create("t").run(&database).unwrap();
    Step::Create("t").apply(&mut tables);
    let txn = database.begin_import(ImportTarget::Existing("t")).unwrap();
    let segments = write(&txn, &ROWS).unwrap();
    for step in [
        Step::Rename("t", "u"),
        Step::AddColumn("u", "more", ColumnType::Varchar),
        Step::RenameColumn("u", "host", "HOST"),
        Step::Import("u", vec![(4, "d", 4)]),
    ] {
        step.run(&database).unwrap();
        step.apply(&mut tables);
    }
    txn.commit(segments).unwrap();
    Step::Import("u", ROWS.to_vec()).apply(&mut tables);
    assert_eq!(read(&database), tables);
    drop(database);
    check_reopened(&disk, &tables, "closed");
}

#[test]
fn a_name_that_is_taken_or_not_one_is_refused_at_once() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let refused = |target| database.begin_import(target).unwrap_err();
    assert!(matches!(refused(new("T")), Error::TableExists { .. }));
    assert!(matches!(refused(new("")), Error::Schema(_)));
    assert!(matches!(refused(ImportTarget::Existing("u")), Error::NoSuchTable { .. }));
}

#[test]
fn threads_write_segments_of_one_import() {
    let (disk, database) = new_database();
    let txn = database.begin_import(new("t")).unwrap();
    let segments = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let txn = &txn;
                let rows: Vec<Row> = (0..20).map(|n| (n * DAY + thread, "s", thread)).collect();
                scope.spawn(move || write(txn, &rows).unwrap())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let ids: BTreeSet<_> = segments.iter().map(|segment| segment.meta.id).collect();
    assert_eq!(ids.len(), 80, "directory-1");
    txn.commit(segments).unwrap();
    assert_eq!(database.snapshot("t").unwrap().rows().0, 80);
    drop(database);
    let database = open(&disk.after_power_loss());
    assert_eq!(database.snapshot("t").unwrap().rows().0, 80, "write_import-3");
}

#[test]
fn a_symbol_that_is_none_is_an_error_of_the_import_alone() {
    let (_, database) = new_database();
    let txn = database.begin_import(new("t")).unwrap();
    let host = txn.schema().find("host").unwrap().id;
    let error = txn.intern(host, &[b"\xff"]).unwrap_err();
    assert_eq!(error.class(), Class::Caller);
    commit(txn, &ROWS).unwrap();
}

#[test]
#[should_panic(expected = "segment 7 is of this import")]
fn committing_a_segment_of_another_import_panics() {
    let (_, database) = new_database();
    let txn = database.begin_import(new("t")).unwrap();
    let mut segments = write(&txn, &ROWS).unwrap();
    segments[0].meta.id = tidegate_model::SegmentId(7);
    let _ = txn.commit(segments);
}

#[test]
#[should_panic(expected = "manifest-2")]
fn committing_a_segment_outside_of_its_partition_panics() {
    let (_, database) = new_database();
    let txn = database.begin_import(new("t")).unwrap();
    let mut segments = write(&txn, &ROWS).unwrap();
    segments[0].meta.max_ts = DAY;
    let _ = txn.commit(segments);
}

#[test]
fn added_symbol_columns_have_dictionaries_of_their_own() {
    let (disk, database) = new_database();
    import_into(&database, new("t"), &ROWS).unwrap();
    database.add_columns("t", &columns(&[("tag", ColumnType::Symbol)])).unwrap();
    import(&database, "t", &[(9, "q", 9)]).unwrap();
    assert_eq!(files(&disk, ".sym").len(), 2);
    let snapshot = database.snapshot("t").unwrap();
    let texts = |column| {
        let table = snapshot.symbols.get(ColumnId(column)).unwrap();
        table.texts().map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    assert_eq!(texts(1), [b"c", b"a", b"b", b"q"]);
    assert_eq!(texts(3), [b"q"]);
    assert!(snapshot.symbols.get(ColumnId(2)).is_none());
}
