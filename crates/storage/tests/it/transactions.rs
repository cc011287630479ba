//! Commits of several tables at once, and what the one who makes them sees before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate_model::TableId;
use tidegate_storage::{
    CreatedTable, Database, Error, MaskedRows, PrivateNumbers, PrivateRows, RemovedRows, RowMask,
    Run, SegmentRun, Snapshot, SymbolTables, TableAppend, TransactionCommit, encode_private,
};

use crate::fixture::{DAY, Row, append, append_of, batch, import, new_database, open, schema};
use crate::model::read_table;

/// Rows without those that make their table or its columns.
fn rows_for(database: &Database, table: &str, rows: &[Row]) -> TableAppend {
    let id = Some(database.table_id(table).unwrap());
    TableAppend { id, create: None, add_columns: false, ..append_of(table, rows, None) }
}

/// The first rows of each segment.
fn firsts(snapshot: &Snapshot) -> RemovedRows {
    let of_run = |run: &Arc<SegmentRun>| MaskedRows { segment: run.meta.id, rows: vec![0] };
    let rows = snapshot.segments().map(of_run).collect();
    RemovedRows { table: snapshot.table, version: snapshot.schema.version(), rows }
}

/// Runs of rows that are not committed, one of each batch.
fn private(snapshot: &Snapshot, batches: &[&[Row]]) -> (Vec<Arc<SegmentRun>>, SymbolTables) {
    let (mut symbols, segments) = (snapshot.symbols.clone(), AtomicU64::new(0));
    let of_batch = |(at, rows): (usize, &&[Row])| {
        let numbers = PrivateNumbers { commit: at as u64, segments: &segments };
        let table = (snapshot.table, &*snapshot.schema);
        encode_private(table, &batch(rows, None), &mut symbols, numbers).unwrap()
    };
    let runs = batches.iter().enumerate().flat_map(of_batch).collect::<Vec<_>>();
    (runs, symbols)
}

#[test]
fn rows_come_and_go_in_several_tables_with_one_commit() {
    let (disk, database) = new_database();
    for table in ["a", "b"] {
        database.create_table(table, schema()).unwrap();
        import(&database, table, &[(1, "x", 1), (2, "y", 2), (DAY, "x", 3)]).unwrap();
    }
    let before = ["a", "b"].map(|table| database.snapshot(table).unwrap());
    let created = CreatedTable {
        name: "c".into(),
        schema: schema().into(),
        rows: batch(&[(9, "z", 9)], None),
    };
    let commit = TransactionCommit {
        appends: vec![rows_for(&database, "a", &[(5, "new", 5)]), rows_for(&database, "b", &[])],
        removed: before.iter().map(|it| firsts(it)).collect(),
        created: vec![created.clone(), CreatedTable { name: "d".into(), ..created }],
    };
    // A tail, which removing rows of segments leaves as it is.
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
fn a_row_that_is_gone_goes_for_nobody_else() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    import(&database, "t", &[(1, "x", 1), (2, "y", 2)]).unwrap();
    let removed = vec![firsts(&database.snapshot("t").unwrap())];
    let first = TransactionCommit {
        appends: vec![rows_for(&database, "t", &[(5, "new", 5)])],
        removed,
        created: Vec::new(),
    };
    database.commit_transaction(&first).unwrap();
    let refused = database.commit_transaction(&first).unwrap_err();
    assert!(matches!(refused, Error::RowsChanged { .. }), "TX3: {refused}");
    // Other columns are other rows.
    let mut other = TransactionCommit {
        removed: vec![firsts(&database.snapshot("t").unwrap())],
        ..first.clone()
    };
    other.removed[0].rows[0].rows = vec![1];
    other.removed[0].rows.truncate(1);
    database.rename_column("t", "value", "number").unwrap();
    let refused = database.commit_transaction(&other).unwrap_err();
    assert!(matches!(refused, Error::RowsChanged { .. }), "TX3: {refused}");
    database.rename_column("t", "number", "value").unwrap();
    // Nothing of what was refused is there.
    assert_eq!(database.snapshot("t").unwrap().rows().0, 2);
    let name = CreatedTable { name: "T".into(), schema: schema().into(), rows: batch(&[], None) };
    let taken = TransactionCommit { created: vec![name], ..TransactionCommit::default() };
    let refused = database.commit_transaction(&taken).unwrap_err();
    assert!(matches!(refused, Error::TableExists { .. }), "{refused}");
}

#[test]
fn segments_of_a_pinned_table_stay_until_it_is_let_go() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    for at in 0..8 {
        append(&database, "t", &[(at, "x", at)]).unwrap();
        database.seal_table("t").unwrap();
    }
    let ids = || -> Vec<_> {
        database.snapshot("t").unwrap().segments().map(|run| run.meta.id).collect()
    };
    let before = ids();
    let id = database.table_id("t").unwrap();
    let (first, second) = (database.pin_segments(id).unwrap(), database.pin_segments(id).unwrap());
    database.merge_table("t").unwrap();
    drop(first);
    database.merge_table("t").unwrap();
    assert_eq!(ids(), before, "TX2");
    drop(second);
    database.merge_table("t").unwrap();
    assert!(ids().len() < before.len());
    assert!(database.pin_segments(TableId(99)).is_none());
}

#[test]
fn a_session_sees_what_its_commit_makes() {
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
        let gone = BTreeMap::from([(run.meta.id, Arc::new(RowMask::new(run.meta.rows, &[1])))]);
        let (runs, symbols) = private(&committed, &batches);
        let rows = PrivateRows { runs: &runs, symbols: &symbols, gone: &gone };
        let seen = committed.with_private(rows).unwrap();
        assert_eq!(seen.doubled.is_empty(), keys.is_empty(), "PV3");
        let removed = RemovedRows {
            table: committed.table,
            version: committed.schema.version(),
            rows: vec![MaskedRows { segment: run.meta.id, rows: vec![1] }],
        };
        let commit = TransactionCommit {
            appends: vec![rows_for(&database, "t", &batches.concat())],
            removed: vec![removed],
            created: Vec::new(),
        };
        database.commit_transaction(&commit).unwrap();
        let now = database.snapshot("t").unwrap();
        assert_eq!(read_table(&seen.snapshot), read_table(&now), "keys {keys:?}");
        // Others have other symbols, and none of those.
        assert!(committed.symbols.iter().all(|(_, table)| table.find(b"new").is_none()), "PV2");
        let is_private = |Run::Segment(run): &Run| tidegate_storage::is_private(run.meta.id);
        let groups = &seen.snapshot.groups;
        assert!(groups.iter().flat_map(|group| &group.runs).any(is_private));
        assert!(!now.groups.iter().flat_map(|group| &group.runs).any(is_private));
    }
}
