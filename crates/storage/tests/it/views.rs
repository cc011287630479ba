//! Views and comments: names shared with tables, and actions that only tables support.

use tidegate_model::{ColumnType, PartitionUnit, Schema, TableId, ViewRead, limits};
use tidegate_platform::Class;
use tidegate_storage::{AppendOptions, Database, Error, ImportTarget, PendingDdl, Result};

use crate::fixture::{append_of, columns, import, new_database, open, schema, view};
use crate::model::{check, read};

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T>, expected: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.class(), Class::Caller);
}

#[test]
fn tables_and_views_share_their_names() {
    let (_, database) = new_database();
    database.create_table("t", schema()).unwrap();
    database.create_view("v", view("SELECT 1")).unwrap();
    let before = read(&database);
    refused(database.create_table("V", schema()), "view `V` exists already");
    refused(database.create_view("T", view("SELECT 1")), "table `T` exists already");
    refused(database.create_view("v", view("SELECT 1")), "view `v` exists already");
    refused(database.replace_view("t", view("SELECT 1")), "table `t` exists already");
    refused(database.rename_table("t", "v"), "view `v` exists already");
    refused(database.rename_table("v", "t"), "table `t` exists already");
    let new = ImportTarget::New { name: "v", schema: schema() };
    refused(database.begin_import(new), "view `v` exists already");
    assert_eq!(read(&database), before);
}

#[test]
fn a_view_takes_no_rows_and_no_change_of_columns() {
    let (_, database) = new_database();
    database.create_view("v", view("SELECT 1")).unwrap();
    let before = read(&database);
    let expected = "`v` is a view, not a table";
    refused(database.begin_import(ImportTarget::Existing("v")), expected);
    let replacing = ImportTarget::Replacing { name: "v", schema: schema() };
    refused(database.begin_import(replacing), expected);
    let appends = [append_of("v", &[(1, "a", 1)], None)];
    refused(database.append(&appends, &AppendOptions::default()), expected);
    let snapshot = database.snapshot("v").unwrap();
    refused(database.begin_change_of(&snapshot, &[]), expected);
    refused(database.truncate_table("v"), expected);
    refused(database.add_columns("v", &columns(&[("x", ColumnType::Date)])), expected);
    refused(database.drop_columns("v", &["value"]), expected);
    refused(database.rename_column("v", "value", "x"), expected);
    refused(database.set_dedup_keys("v", &["ts"]), expected);
    refused(database.set_ttl("v", None), expected);
    refused(database.drop_partitions("v", &[].into()), expected);
    assert_eq!(read(&database), before);
}

#[test]
fn tables_and_views_are_dropped_as_what_they_are() {
    let (disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    database.create_view("v", view("SELECT 1")).unwrap();
    refused(database.drop_tables(&["t", "v"]), "`v` is a view, not a table");
    refused(database.drop_views(&["v", "t"]), "`t` is a table, not a view");
    refused(database.drop_views(&["w"]), "table `w` does not exist");
    assert_eq!(database.tables().len(), 2);
    database.drop_relations(&["v", "t"]).unwrap();
    check(&disk, &database, &Default::default(), "all are gone");
}

#[test]
fn a_view_that_is_replaced_is_the_same_one() {
    let (disk, database) = new_database();
    database.replace_view("v", view("SELECT 1")).unwrap();
    let id = database.table_id("v");
    database.set_comment("v", Some("VALUE"), Some("of a column")).unwrap();
    database.set_comment("v", None, Some("of the view")).unwrap();
    let view_of = |columns: &[(&str, ColumnType)], query: &str| {
        let known = view(query);
        let definition = known.view().unwrap().as_ref().clone();
        let names = columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty));
        Schema::of_view(&names.collect::<Vec<_>>(), None, definition).unwrap()
    };
    let new = view_of(&[("other", ColumnType::Date), ("value", ColumnType::Int64)], "SELECT 2");
    database.replace_view("V", new).unwrap();
    drop(database);
    let database = open(&disk);
    let snapshot = database.snapshot("v").unwrap();
    assert_eq!((Some(snapshot.table), snapshot.name.as_str()), (id, "v"));
    assert_eq!(snapshot.schema.view().unwrap().query, "SELECT 2");
    assert_eq!(snapshot.schema.partition_by(), PartitionUnit::None);
    let columns = snapshot.schema.columns();
    let comments = columns.iter().map(|it| snapshot.schema.comments().of_column(it.id));
    assert_eq!(comments.collect::<Vec<_>>(), [None, Some("of a column")]);
    assert_eq!(snapshot.schema.comments().table.as_deref(), Some("of the view"));
    database.checkpoint().unwrap();
    drop(database);
    assert_eq!(open(&disk).snapshot("v").unwrap().schema, snapshot.schema, "of its manifest");
}

#[test]
fn snapshots_of_a_view_are_those_of_what_it_reads_too() {
    let (_, database) = new_database();
    let reading = |reads: &[(&str, TableId)]| {
        let view = view("SELECT 1");
        let mut definition = view.view().unwrap().as_ref().clone();
        let read = |(name, table): &(&str, TableId)| {
            let name = (*name).to_owned();
            ViewRead { name, table: *table, columns: Vec::new() }
        };
        definition.reads = reads.iter().map(read).collect();
        let columns = view.columns().iter().map(|it| (it.name.clone(), it.ty)).collect::<Vec<_>>();
        Schema::of_view(&columns, None, definition).unwrap()
    };
    let names = |database: &Database| {
        let found =
            database.visible(&PendingDdl::default()).snapshots_and_read(&["top", "a"]).unwrap();
        found.iter().map(|snapshot| snapshot.name.clone()).collect::<Vec<_>>()
    };
    let a = database.create_table("a", schema()).unwrap();
    let b = database.create_table("b", schema()).unwrap();
    database.create_view("inner", reading(&[("a", a), ("b", b)])).unwrap();
    let inner = database.table_id("inner").unwrap();
    database.create_view("top", reading(&[("inner", inner), ("b", b)])).unwrap();
    assert_eq!(names(&database), ["top", "a", "inner", "b"]);
    database.rename_table("b", "c").unwrap();
    assert_eq!(names(&database), ["top", "a", "inner", "c"], "model_view-1: by its id");
    database.drop_tables(&["c"]).unwrap();
    assert_eq!(names(&database), ["top", "a", "inner"]);
    database.create_table("B", schema()).unwrap();
    assert_eq!(names(&database), ["top", "a", "inner", "B"], "model_view-1: by its name");
}

#[test]
fn rows_of_a_table_with_comments_go_on() {
    let (disk, database) = new_database();
    database.create_table("t", schema()).unwrap();
    database.set_comment("t", Some("host"), Some("where it was")).unwrap();
    import(&database, "t", &[(1, "a", 1)]).unwrap();
    database.append(&[append_of("t", &[(2, "b", 2)], None)], &AppendOptions::default()).unwrap();
    let expected = read(&database);
    database.sync().unwrap();
    drop(database);
    check(&disk, &open(&disk), &expected, "with comments");
}

#[test]
fn views_have_a_number_that_they_do_not_exceed() {
    let (_, database) = new_database();
    let name = |at: usize| format!("v{at}");
    for at in 0..limits::VIEWS {
        database.create_view(&name(at), view("SELECT 1")).unwrap();
    }
    let error = database.create_view("more", view("SELECT 1")).unwrap_err();
    assert!(matches!(error, Error::TooManyViews), "{error}");
    database.replace_view(&name(3), view("SELECT 2")).unwrap();
    database.drop_views(&[&name(7)]).unwrap();
    database.create_view("more", view("SELECT 1")).unwrap();
    assert!(database.table_id("more").is_some());
}
