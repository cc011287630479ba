//! Commits of several tables at once, and the view of a transaction before its commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use tidegate_model::{ColumnDefault, ColumnType, TableId, limits};
use tidegate_storage::{
    AppendOptions, Database, DeletionVector, Error, ImportTarget, MadeFor, NewColumns, PendingDdl,
    PrivateNumbers, PrivateRows, Relations, RowBatch, Run, SchemaEdit, SegmentDeletes, SegmentRun,
    Snapshot, SymbolTables, TableAppend, TableDdl, TableDeletes, TableEntry, TableRead,
    TransactionCommit, VisibleTables, encode_private,
};

use crate::fixture::{DAY, Row, append, append_of, batch, import, new_database, open, schema};
use crate::model::read_table;

/// An append of rows that creates neither the table nor columns.
fn rows_for(database: &Database, table: &str, rows: &[Row]) -> TableAppend {
    let id = Some(database.table_id(table).unwrap());
    TableAppend { id, create: None, add_columns: false, ..append_of(table, rows, None) }
}

/// The first rows of each segment.
fn firsts(snapshot: &Snapshot) -> TableDeletes {
    let of_run = |run: &Arc<SegmentRun>| SegmentDeletes { segment: run.meta.id, rows: vec![0] };
    let rows = snapshot.segments().map(of_run).collect();
    TableDeletes { table: snapshot.table, version: snapshot.schema.version(), rows }
}

/// Uncommitted runs, one for each batch.
fn private(snapshot: &Snapshot, batches: &[&[Row]]) -> (Vec<Arc<SegmentRun>>, SymbolTables) {
    let (mut symbols, segments) = (snapshot.symbols.clone(), AtomicU64::new(0));
    let of_batch = |(at, rows): (usize, &&[Row])| {
        let numbers = PrivateNumbers { commit: at as u64, segments: &segments };
        let (table, schema) = (snapshot.table, &snapshot.schema);
        encode_private(table, schema, &batch(rows, None), &mut symbols, numbers).unwrap()
    };
    let runs = batches.iter().enumerate().flat_map(of_batch).collect::<Vec<_>>();
    (runs, symbols)
}

#[test]
fn one_commit_adds_and_deletes_rows_in_several_tables() {
    let (disk, database) = new_database();
    for table in ["a", "b"] {
        database.create_table(table, schema()).unwrap();
        import(&database, table, &[(1, "x", 1), (2, "y", 2), (DAY, "x", 3)]).unwrap();
    }
    let before = ["a", "b"].map(|table| database.snapshot(table).unwrap());
    let mut ddl = PendingDdl::default();
    for name in ["c", "d"] {
        ddl.push(&database, create(name)).unwrap();
    }
    let new = ["c", "d"].map(|table| rows_in(&database, &ddl, table, &[(9, "z", 9)]));
    let known = [rows_for(&database, "a", &[(5, "new", 5)]), rows_for(&database, "b", &[])];
    let commit = TransactionCommit {
        ddl,
        appends: known.into_iter().chain(new).collect(),
        removed: before.iter().map(|it| firsts(it)).collect(),
        reads: Vec::new(),
    };
    // A memtable, which a deletion of rows in segments does not change.
    append(&database, "b", &[(7, "tail", 7)]).unwrap();
    database.commit_transaction(&commit).unwrap();
    let check = |database: &Database| {
        let values = |table: &str| {
            let rows = read_table(&database.snapshot(table).unwrap()).rows;
            rows.into_iter().map(|row| row[2].clone().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            ["a", "b", "c", "d"].map(values),
            [
                vec!["2".to_owned(), "5".to_owned()],
                vec!["2".to_owned(), "7".to_owned()],
                vec!["9".to_owned()],
                vec!["9".to_owned()],
            ]
        );
    };
    check(&database);
    drop(database);
    check(&open(&disk.after_power_loss()));
    check(&open(&disk));
}

#[test]
fn deleting_a_deleted_row_is_refused() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    import(&database, "t", &[(1, "x", 1), (2, "y", 2)]).unwrap();
    let removed = vec![firsts(&database.snapshot("t").unwrap())];
    let first = TransactionCommit {
        appends: vec![rows_for(&database, "t", &[(5, "new", 5)])],
        removed,
        ..TransactionCommit::default()
    };
    database.commit_transaction(&first).unwrap();
    let refused = database.commit_transaction(&first).unwrap_err();
    assert!(matches!(refused, Error::RowsChanged { .. }), "transaction-3: {refused}");
    // With other columns the rows are not valid.
    let mut other = TransactionCommit {
        removed: vec![firsts(&database.snapshot("t").unwrap())],
        ..first.clone()
    };
    other.removed[0].rows[0].rows = vec![1];
    other.removed[0].rows.truncate(1);
    database.rename_column("t", "value", "number").unwrap();
    let refused = database.commit_transaction(&other).unwrap_err();
    assert!(matches!(refused, Error::RowsChanged { .. }), "transaction-3: {refused}");
    database.rename_column("t", "number", "value").unwrap();
    // No change of a refused transaction is visible.
    assert_eq!(database.snapshot("t").unwrap().rows().0, 2);
    let refused = PendingDdl::default().push(&database, create("T")).unwrap_err();
    assert!(matches!(refused, Error::TableExists { .. }), "{refused}");
}

/// Commits a transaction that has read one table and adds a row to another, after a change.
#[track_caller]
fn check_read(name: &str, is_refused: bool, change: fn(&Arc<Database>)) {
    let (_, database) = new_database();
    for table in ["read", "written"] {
        database.create_table(table, schema()).unwrap();
    }
    import(&database, "read", &[(1, "x", 1), (2, "y", 2), (DAY, "x", 3)]).unwrap();
    append(&database, "read", &[(3, "tail", 4)]).unwrap();
    let commit = TransactionCommit {
        appends: vec![rows_for(&database, "written", &[(1, "x", 1)])],
        reads: vec![TableRead::of(&database.snapshot("read").unwrap())],
        ..TransactionCommit::default()
    };
    change(&database);
    match database.commit_transaction(&commit) {
        Err(Error::ReadRowsChanged { table }) if is_refused => {
            assert_eq!(table, "read", "transaction-5: {name}");
        }
        outcome => assert!(outcome.is_ok() && !is_refused, "transaction-5: {name}"),
    }
    let written = database.snapshot("written").unwrap().rows().0;
    assert_eq!(written, u64::from(!is_refused), "transaction-1: {name}");
}

/// Deletes the first row of each segment.
fn delete_firsts(database: &Arc<Database>, table: &str) {
    database.flush_table(table).unwrap();
    let removed = vec![firsts(&database.snapshot(table).unwrap())];
    let appends = vec![rows_for(database, table, &[])];
    let commit = TransactionCommit { appends, removed, ..TransactionCommit::default() };
    database.commit_transaction(&commit).unwrap();
}

// A transaction that reads a row, calculates, and writes the row lost the change of another one in
// between: its UPDATE replaced the row of that one.
#[test]
fn rows_that_a_transaction_has_read_are_at_its_commit_as_they_were() {
    check_read("nothing", false, |_| {});
    check_read("an append", false, |database| {
        append(database, "read", &[(5, "z", 5)]).unwrap();
    });
    check_read("an import", false, |database| {
        import(database, "read", &[(5, "z", 5)]).unwrap();
    });
    check_read("another table", false, |database| {
        append(database, "other", &[(1, "x", 1)]).unwrap();
    });
    check_read("a flush", false, |database| database.flush_table("read").unwrap());
    check_read("a compaction", false, |database| {
        database.flush_table("read").unwrap();
        database.compact_table("read").unwrap();
    });
    check_read("other columns", false, |database| {
        database.rename_column("read", "value", "number").unwrap();
    });
    check_read("deleted rows", true, |database| delete_firsts(database, "read"));
    check_read("a truncation", true, |database| database.truncate_table("read").unwrap());
    check_read("a dropped table", true, |database| database.drop_tables(&["read"]).unwrap());
    check_read("a dropped partition", true, |database| {
        let last = database.snapshot("read").unwrap().groups.last().unwrap().partition;
        database.drop_partitions("read", &[last].into()).unwrap();
    });
    check_read("a deletion before other commits", true, |database| {
        database.rename_table("read", "moved").unwrap();
        delete_firsts(database, "moved");
        append(database, "moved", &[(5, "z", 5)]).unwrap();
        database.flush_table("moved").unwrap();
    });
}

/// Adds a column with a default to table `t`.
fn with_default() -> TableDdl {
    let added = NewColumns {
        columns: vec![("c".to_owned(), ColumnType::Int64)],
        defaults: vec![("c".to_owned(), ColumnDefault::Expression("7".to_owned()))],
        ..NewColumns::default()
    };
    TableDdl::Alter { table: "t".to_owned(), edit: SchemaEdit::Add(added) }
}

// A row that was made before a column with a default was added, and committed behind it, had NULL
// there for good.
#[test]
fn rows_without_the_default_of_a_new_column_are_refused() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    import(&database, "t", &[(1, "x", 1)]).unwrap();
    let before = database.snapshot("t").unwrap();
    let mut change = database.begin_change_of(&before, &[]).unwrap();
    let columns = before.schema.columns();
    let known = ImportTarget::Known { name: "t", table: before.table, columns };
    let mut imported = database.begin_change(known).unwrap();
    for txn in [&mut change, &mut imported] {
        txn.add(&batch(&[(2, "y", 2)], None)).unwrap();
    }
    let schema = Arc::clone(&before.schema);
    let made_for = Some(MadeFor { schema, needed: BTreeSet::new() });
    let rows = TableAppend { made_for, ..rows_for(&database, "t", &[(3, "z", 3)]) };
    database.define(with_default()).unwrap();
    let late = ImportTarget::Known { name: "t", table: before.table, columns };
    let commit = TransactionCommit { appends: vec![rows.clone()], ..TransactionCommit::default() };
    for refused in [
        change.commit(None).map(drop),
        imported.commit(None).map(drop),
        database.begin_import(late).map(drop),
        database.append(&[rows], &AppendOptions::default()).map(drop),
        database.commit_transaction(&commit),
    ] {
        match refused {
            Err(Error::ColumnAdded { column, .. }) => assert_eq!(column, "c", "transaction-6"),
            outcome => panic!("transaction-6: {outcome:?}"),
        }
    }
    // Lines are made for no columns.
    append(&database, "t", &[(4, "z", 4)]).unwrap();
    assert_eq!(database.snapshot("t").unwrap().rows().0, 2);
}

// The value of a default that the statement did not name counted as needed, and a renamed column as
// dropped, so that an INSERT failed which had nothing to do with the column.
#[test]
fn rows_keep_the_columns_that_they_were_made_for() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let before = database.snapshot("t").unwrap();
    let id = |name: &str| before.schema.find(name).unwrap().id;
    let rows = |needed: &[&str]| {
        let needed = needed.iter().map(|name| id(name)).collect();
        let made_for = Some(MadeFor { schema: Arc::clone(&before.schema), needed });
        TableAppend { made_for, ..rows_for(&database, "t", &[(1, "x", 5)]) }
    };
    database.drop_columns("t", &["host"]).unwrap();
    database.rename_column("t", "value", "number").unwrap();
    database.add_columns("t", &[("value".to_owned(), ColumnType::Varchar)]).unwrap();
    let commit = |rows| TransactionCommit { appends: vec![rows], ..TransactionCommit::default() };
    database.append(&[rows(&["ts", "value"])], &AppendOptions::default()).unwrap();
    database.commit_transaction(&commit(rows(&["ts"]))).unwrap();
    for refused in [
        database.append(&[rows(&["ts", "host"])], &AppendOptions::default()).map(drop),
        database.commit_transaction(&commit(rows(&["host"]))),
    ] {
        match refused {
            Err(Error::ColumnDropped { column, .. }) => assert_eq!(column, "host", "append-4"),
            outcome => panic!("append-4: {outcome:?}"),
        }
    }
    // A transaction adds a column, which gets another id because another session is first.
    let new = |name: &str| {
        let columns = vec![(name.to_owned(), ColumnType::Int64)];
        let edit = SchemaEdit::Add(NewColumns { columns, ..NewColumns::default() });
        TableDdl::Alter { table: "t".to_owned(), edit }
    };
    let mut ddl = PendingDdl::default();
    ddl.push(&database, new("mine")).unwrap();
    let schema = database.visible(&ddl).schema_of("t").unwrap();
    database.define(new("theirs")).unwrap();
    let mut columns = batch(&[(2, "x", 6)], None).into_columns();
    columns.remove(1);
    columns[1].name = "mine".to_owned();
    let needed = schema.find("mine").map(|column| column.id).into_iter().collect();
    let rows = RowBatch::new(1, columns);
    let made_for = Some(MadeFor { schema, needed });
    let append = TableAppend { made_for, rows, ..rows_for(&database, "t", &[]) };
    let commit = TransactionCommit { ddl, appends: vec![append], ..TransactionCommit::default() };
    database.commit_transaction(&commit).unwrap();
    let table = read_table(&database.snapshot("t").unwrap());
    let names = table.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["ts", "number", "value", "theirs", "mine"]);
    let text = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "-".to_owned());
    let rows = table.rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join(" "));
    assert_eq!(rows.collect::<Vec<_>>(), ["1 5 - - -", "1 5 - - -", "2 - - - 6"], "append-4");
}

/// Commits a new column with a default after others have done something.
#[track_caller]
fn check_filled(case: &str, is_refused: bool, meanwhile: impl Fn(&Arc<Database>)) {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    import(&database, "t", &[(1, "x", 1), (DAY, "y", 2)]).unwrap();
    append(&database, "t", &[(2, "z", 3)]).unwrap();
    let mut ddl = PendingDdl::default();
    ddl.push(&database, with_default()).unwrap();
    meanwhile(&database);
    let commit = TransactionCommit { ddl, ..TransactionCommit::default() };
    match database.commit_transaction(&commit) {
        Ok(()) => assert!(!is_refused, "transaction-6: {case}"),
        Err(Error::RowsAdded { table }) => assert!(is_refused && table == "t", "{case}"),
        Err(error) => panic!("{case}: {error}"),
    }
}

#[test]
fn rows_that_were_added_after_a_column_with_a_default_refuse_its_commit() {
    check_filled("no change", false, |_| {});
    check_filled("the same rows elsewhere", false, |database| {
        database.flush_table("t").unwrap();
        database.compact_table("t").unwrap();
    });
    check_filled("fewer rows", false, |database| delete_firsts(database, "t"));
    check_filled("rows in the memtable", true, |database| {
        append(database, "t", &[(3, "n", 4)]).unwrap();
    });
    check_filled("rows in a segment", true, |database| {
        append(database, "t", &[(3, "n", 4)]).unwrap();
        database.flush_table("t").unwrap();
        database.compact_table("t").unwrap();
    });
    check_filled("an import", true, |database| {
        import(database, "t", &[(3, "n", 4)]).unwrap();
    });
}

#[test]
fn changes_of_tables_that_others_have_changed_are_refused() {
    let (_, database) = new_database();
    for table in ["t", "u"] {
        database.create_table(table, schema()).unwrap();
    }
    let mut ddl = PendingDdl::default();
    ddl.push(&database, create("new")).unwrap();
    let commit = TransactionCommit { ddl, ..TransactionCommit::default() };
    database.create_table("NEW", schema()).unwrap();
    let refused = database.commit_transaction(&commit).unwrap_err();
    assert!(matches!(refused, Error::NameTaken { .. }), "pending-2: {refused}");
    let alter = |edit| TableDdl::Alter { table: "u".to_owned(), edit };
    let columns = vec![("c".to_owned(), ColumnType::Int64)];
    let added = SchemaEdit::Add(NewColumns { columns: columns.clone(), ..NewColumns::default() });
    for edit in [added, SchemaEdit::Drop(vec!["c".to_owned()])] {
        let mut ddl = PendingDdl::default();
        ddl.push(&database, alter(edit)).unwrap();
        let commit = TransactionCommit { ddl, ..TransactionCommit::default() };
        match database.snapshot("u").unwrap().schema.find("c") {
            None => database.add_columns("u", &columns).unwrap(),
            Some(_) => database.rename_column("u", "c", "d").unwrap(),
        }
        let refused = database.commit_transaction(&commit).unwrap_err();
        let is_it = matches!(&refused, Error::ColumnsChanged { table, column }
            if table == "u" && column == "c");
        assert!(is_it, "pending-2: {refused}");
    }
    let mut ddl = PendingDdl::default();
    ddl.push(&database, rename("t", "v")).unwrap();
    database.drop_tables(&["t"]).unwrap();
    let refused = database.visible(&ddl).snapshot("v").unwrap_err();
    assert!(matches!(refused, Error::TablesChanged { .. }), "pending-2: {refused}");
    database.rename_table("u", "t").unwrap();
    let refused = database.visible(&ddl).snapshot("t").unwrap_err();
    assert!(matches!(refused, Error::TablesChanged { .. }), "pending-2: {refused}");
    let refused = ddl.push(&database, create("w")).unwrap_err();
    assert!(matches!(refused, Error::TablesChanged { .. }), "pending-2: {refused}");
    let commit = TransactionCommit { ddl, ..TransactionCommit::default() };
    let refused = database.commit_transaction(&commit).unwrap_err();
    assert!(matches!(refused, Error::TablesChanged { .. }), "pending-2: {refused}");
    assert_eq!(names(&database), ["NEW", "t"]);
}

#[test]
fn a_transaction_makes_a_bounded_number_of_changes() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    let mut ddl = PendingDdl::default();
    for at in 0..limits::TRANSACTION_DDL {
        let (from, to) = if at % 2 == 0 { ("t", "u") } else { ("u", "t") };
        ddl.push(&database, rename(from, to)).unwrap();
    }
    let refused = ddl.push(&database, rename("t", "u")).unwrap_err();
    assert!(matches!(refused, Error::TooManyChanges), "{refused}");
    let commit = TransactionCommit { ddl, ..TransactionCommit::default() };
    database.commit_transaction(&commit).unwrap();
}

fn create(name: &str) -> TableDdl {
    TableDdl::CreateTable { name: name.to_owned(), schema: schema() }
}

fn rename(from: &str, to: &str) -> TableDdl {
    TableDdl::Rename { from: from.to_owned(), to: to.to_owned() }
}

fn names(database: &Database) -> Vec<String> {
    database.tables().into_iter().map(|table| table.name).collect()
}

/// An append for a table as a transaction sees it.
fn rows_in(database: &Database, ddl: &PendingDdl, table: &str, rows: &[Row]) -> TableAppend {
    let id = Some(database.visible(ddl).table_id(table).unwrap());
    TableAppend { id, create: None, add_columns: false, ..append_of(table, rows, None) }
}

/// Names, columns and rows of all tables.
fn shown(visible: &VisibleTables<'_>) -> Vec<(String, Vec<String>, usize)> {
    let of_table = |table: TableEntry| {
        let snapshot = visible.snapshot(&table.name).unwrap();
        assert_eq!(visible.table_id(&table.name), Some(snapshot.table), "pending-3");
        let columns = snapshot.schema.columns().iter();
        let columns = columns.map(|column| format!("{} {:?}", column.name, column.ty)).collect();
        (table.name, columns, read_table(&snapshot).rows.len())
    };
    visible.tables().into_iter().map(of_table).collect()
}

fn any_ddl() -> impl Strategy<Value = TableDdl> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned);
    let column = || prop::sample::select(vec!["x", "y", "z"]).prop_map(str::to_owned);
    let edit = prop_oneof![
        column().prop_map(|name| {
            let columns = vec![(name, ColumnType::Symbol)];
            SchemaEdit::Add(NewColumns { columns, ..NewColumns::default() })
        }),
        column().prop_map(|name| SchemaEdit::Drop(vec![name])),
        (column(), column()).prop_map(|(from, to)| SchemaEdit::Rename { from, to }),
        Just(SchemaEdit::Dedup(vec!["ts".to_owned(), "host".to_owned()])),
        Just(SchemaEdit::Dedup(Vec::new())),
    ];
    prop_oneof![
        name().prop_map(|name| create(&name)),
        name().prop_map(|name| TableDdl::Drop { names: vec![name], kind: Relations::Tables }),
        (name(), name()).prop_map(|(from, to)| TableDdl::Rename { from, to }),
        (name(), edit).prop_map(|(table, edit)| TableDdl::Alter { table, edit }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    // Changes and rows of one transaction, compared with the same changes one by one.
    #[test]
    fn a_transaction_is_what_its_changes_are_one_by_one(
        changes in prop::collection::vec(any_ddl(), 0..12),
    ) {
        let (disk, database) = new_database();
        let (_, plain) = new_database();
        for database in [&database, &plain] {
            for table in ["a", "b"] {
                database.create_table(table, schema()).unwrap();
                import(database, table, &[(1, "x", 1), (DAY, "y", 2)]).unwrap();
                append(database, table, &[(1, "x", 3)]).unwrap();
            }
        }
        let before = shown(&database.visible(&PendingDdl::default()));
        let mut ddl = PendingDdl::default();
        for change in changes {
            let done = plain.define(change.clone()).map_err(|error| error.to_string());
            let planned = ddl.push(&database, change).map_err(|error| error.to_string());
            prop_assert_eq!(planned.map(drop), done);
        }
        let now = shown(&plain.visible(&PendingDdl::default()));
        prop_assert_eq!(&shown(&database.visible(&ddl)), &now, "pending-1");
        prop_assert_eq!(shown(&database.visible(&PendingDdl::default())), before, "transaction-1");
        let rows = [(1, "x", 4), (2, "new", 5)];
        let tables = now.iter().map(|(name, ..)| name.as_str());
        let appends = tables.map(|table| rows_in(&database, &ddl, table, &rows)).collect();
        let commit = TransactionCommit { ddl, appends, ..TransactionCommit::default() };
        database.commit_transaction(&commit).unwrap();
        for (name, ..) in &now {
            let rows = rows_for(&plain, name, &rows);
            plain.append(&[rows], &AppendOptions::default()).unwrap();
        }
        let now = shown(&plain.visible(&PendingDdl::default()));
        prop_assert_eq!(&shown(&database.visible(&PendingDdl::default())), &now, "transaction-4");
        drop(database);
        let reopened = open(&disk.after_power_loss());
        prop_assert_eq!(&shown(&reopened.visible(&PendingDdl::default())), &now, "transaction-1");
    }
}

#[test]
fn segments_of_a_pinned_table_stay_until_it_is_let_go() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    for at in 0..8 {
        append(&database, "t", &[(at, "x", at)]).unwrap();
        database.flush_table("t").unwrap();
    }
    let ids = || -> Vec<_> {
        database.snapshot("t").unwrap().segments().map(|run| run.meta.id).collect()
    };
    let before = ids();
    let id = database.table_id("t").unwrap();
    let (first, second) = (database.pin_segments(id).unwrap(), database.pin_segments(id).unwrap());
    database.compact_table("t").unwrap();
    drop(first);
    database.compact_table("t").unwrap();
    assert_eq!(ids(), before, "transaction-2");
    drop(second);
    database.compact_table("t").unwrap();
    assert!(ids().len() < before.len());
    assert!(database.pin_segments(TableId(99)).is_none());
}

#[test]
fn a_session_sees_its_uncommitted_rows_as_its_commit_writes_them() {
    for keys in [&[][..], &["ts", "host"]] {
        let (_, database) = new_database();
        database.create_table("t", schema().with_dedup(keys).unwrap()).unwrap();
        import(&database, "t", &[(1, "a", 1), (1, "b", 2), (5, "a", 3), (DAY, "c", 4)]).unwrap();
        append(&database, "t", &[(1, "c", 5), (5, "b", 6)]).unwrap();
        let batches: [&[Row]; 3] = [
            &[(5, "a", 10), (1, "a", 11), (5, "a", 12)],
            &[(DAY + 1, "d", 13), (1, "new", 14)],
            &[(1, "a", 15), (1, "new", 16), (DAY, "c", 17)],
        ];
        let committed = database.snapshot("t").unwrap();
        let run = committed.segments().find(|run| !run.is_in_memory()).unwrap();
        let deleted =
            BTreeMap::from([(run.meta.id, Arc::new(DeletionVector::new(run.meta.rows, &[1])))]);
        let (runs, symbols) = private(&committed, &batches);
        let rows = PrivateRows { runs: &runs, symbols: &symbols, deleted: &deleted };
        let seen = committed.with_private(rows).unwrap();
        assert_eq!(seen.doubled.is_empty(), keys.is_empty(), "private_rows-2");
        let removed = TableDeletes {
            table: committed.table,
            version: committed.schema.version(),
            rows: vec![SegmentDeletes { segment: run.meta.id, rows: vec![1] }],
        };
        let commit = TransactionCommit {
            appends: vec![rows_for(&database, "t", &batches.concat())],
            removed: vec![removed],
            ..TransactionCommit::default()
        };
        database.commit_transaction(&commit).unwrap();
        let now = database.snapshot("t").unwrap();
        assert_eq!(read_table(&seen.snapshot), read_table(&now), "keys {keys:?}");
        // The committed table has other symbols, and none of the transaction.
        assert!(
            committed.symbols.iter().all(|(_, table)| table.find(b"new").is_none()),
            "private_rows-1"
        );
        let is_private = |Run::Segment(run): &Run| tidegate_storage::is_private(run.meta.id);
        let groups = &seen.snapshot.groups;
        assert!(groups.iter().flat_map(|group| &group.runs).any(is_private));
        assert!(!now.groups.iter().flat_map(|group| &group.runs).any(is_private));
    }
}

#[test]
fn a_snapshot_tells_a_change_that_is_partly_in_memory() {
    let (_disk, database) = new_database();
    database.create_table("a", schema()).unwrap();
    import(&database, "a", &[(1, "x", 1), (2, "y", 2)]).unwrap();
    let splits = || database.snapshot("a").unwrap().splits_a_change();
    append(&database, "a", &[(3, "x", 3)]).unwrap();
    assert!(!splits(), "snapshot-5: nothing was changed");
    database.flush_table("a").unwrap();
    let before = database.snapshot("a").unwrap();
    let commit = TransactionCommit {
        ddl: PendingDdl::default(),
        appends: vec![rows_for(&database, "a", &[(1, "x", 4)])],
        removed: vec![firsts(&before)],
        reads: Vec::new(),
    };
    database.commit_transaction(&commit).unwrap();
    assert!(splits(), "snapshot-5: the new row is in memory");
    append(&database, "a", &[(4, "x", 5)]).unwrap();
    assert!(splits(), "snapshot-5");
    database.flush_table("a").unwrap();
    assert!(!splits(), "snapshot-5");
    append(&database, "a", &[(5, "x", 6)]).unwrap();
    assert!(!splits(), "snapshot-5: the change is in files");
}
