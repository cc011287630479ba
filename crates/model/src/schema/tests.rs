//! Schemas that are made, changed and read.

use super::*;

fn sample() -> Schema {
    let columns = [("Ts", ColumnType::ALL[12]), ("a", ColumnType::Int32)];
    let columns = columns.map(|(name, ty)| (name.to_owned(), ty));
    Schema::new(&columns, Some("ts"), PartitionUnit::Day).expect("a valid schema")
}

#[test]
fn tables_of_the_system_are_known_by_their_names() {
    for (name, is) in [
        ("sys.ilp_rejects", true),
        ("SYS.x", true),
        ("sys.", true),
        ("sys", false),
        ("system.cpu", false),
        ("public.sys.x", false),
    ] {
        assert_eq!(is_system_table(name), is, "model_schema-9: {name}");
    }
}

#[test]
fn a_dropped_name_comes_back_under_a_new_id() {
    let schema = sample();
    let old = schema.find("A").expect("a").id;
    let schema = schema.without_column("A").expect("dropped");
    let schema = schema.with_column("a", ColumnType::Varchar).expect("added again");
    assert_ne!(schema.find("a").expect("a").id, old, "ids-1");
    assert_eq!(schema.version(), SchemaVersion(3));
}

#[test]
fn lengths_are_of_text_and_go_with_their_column() {
    let schema = sample().with_column("v", ColumnType::Varchar).expect("added");
    let lengths = |name: &str, max| [(name.to_owned(), max)];
    for (name, max) in [("a", 3), ("v", 0)] {
        let refused = schema.clone().with_lengths(&lengths(name, max));
        assert_eq!(refused, Err(SchemaError::BadLength), "model_schema-5");
    }
    let schema = schema.with_lengths(&lengths("V", 3)).expect("a length");
    assert_eq!(schema.clone().with_lengths(&lengths("v", 4)), Err(SchemaError::BadLength));
    let column = schema.find("v").expect("there");
    assert_eq!(schema.sql_type(column), "VARCHAR(3)");
    let length = schema.length(column.id).expect("it has one");
    for (text, is_long) in [("", false), ("abc", false), ("\u{E9}\u{E9}\u{E9}", false)] {
        assert_eq!(length.is_exceeded_by(text.as_bytes()), is_long, "{text}");
    }
    assert!(length.is_exceeded_by("\u{E9}abc".as_bytes()));
    let dropped = schema.without_column("v").expect("dropped");
    assert_eq!(dropped.lengths(), []);
}

#[test]
fn defaults_are_of_columns_and_go_with_them() {
    let text = |text: &str| ColumnDefault::Expression(text.to_owned());
    let schema = sample().with_defaults(&[("A".to_owned(), ColumnDefault::NextNumber)]);
    let schema = schema.expect("an identity").with_default("ts", Some(text("now()")));
    let schema = schema.expect("an expression");
    let id = schema.find("a").expect("a").id;
    assert_eq!(schema.default_of(id), Some(&ColumnDefault::NextNumber));
    let other = schema.clone().with_default("a", Some(text("7"))).expect("another");
    assert_eq!(other.default_of(id), Some(&text("7")));
    let refused = schema.clone().with_default("ts", Some(ColumnDefault::NextNumber));
    assert!(matches!(refused, Err(SchemaError::NotOfNumbers { .. })), "model_schema-8");
    let refused = schema.clone().with_default("a", Some(text("")));
    assert_eq!(refused, Err(SchemaError::DefaultText { bytes: 0 }), "model_schema-8");
    let refused = schema.clone().with_defaults(&[("a".to_owned(), text("1"))]);
    assert_eq!(refused, Err(SchemaError::BadDefault), "model_schema-8");
    assert_eq!(schema.without_column("a").expect("dropped").defaults().len(), 1);
    let view = sample_view(&[("a", ColumnType::Int32)], "SELECT 1").expect("a view");
    assert_eq!(
        view.with_default("a", Some(text("1"))),
        Err(SchemaError::ViewOfRows),
        "model_schema-7"
    );
}

#[test]
fn a_length_may_be_another_one() {
    let schema = sample().with_column("v", ColumnType::Varchar).expect("added");
    let schema = schema.with_length("v", Some(3)).expect("a length");
    let wider = schema.with_length("V", Some(9)).expect("another");
    assert_eq!(wider.sql_type(wider.find("v").expect("there")), "VARCHAR(9)");
    assert_eq!(wider.with_length("v", None).expect("none").lengths(), []);
}

fn sample_view(columns: &[(&str, ColumnType)], query: &str) -> Result<Schema, SchemaError> {
    let columns = columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty));
    let view = View { query: query.to_owned(), reads: Vec::new() };
    Schema::of_view(&columns.collect::<Vec<_>>(), None, view)
}

#[test]
fn comments_stand_on_columns_and_go_with_them() {
    let schema = sample().with_comment(None, Some("all")).expect("on the table");
    let schema = schema.with_comment(Some("A"), Some("one")).expect("on a column");
    let id = schema.find("a").expect("a").id;
    let renamed = schema.clone().with_renamed_column("a", "b").expect("renamed");
    assert_eq!(renamed.comments().of_column(id), Some("one"));
    let gone = schema.clone().with_comment(Some("a"), Some("")).expect("removed");
    assert_eq!(gone.comments().of_column(id), None, "model_schema-6: an empty text is none");
    let dropped = schema.clone().without_column("a").expect("dropped");
    assert_eq!(dropped.comments().columns, []);
    assert_eq!(dropped.comments().table.as_deref(), Some("all"));
    assert!(schema.clone().with_comment(Some("x"), Some("y")).is_err());
    let long = "y".repeat(limits::COMMENT_BYTES + 1);
    let refused = schema.with_comment(None, Some(&long));
    assert_eq!(refused, Err(SchemaError::CommentText { bytes: long.len() }));
}

#[test]
fn a_view_keeps_the_ids_of_columns_that_keep_their_names() {
    let int = ColumnType::Int32;
    let view = sample_view(&[("a", int), ("b", int)], "SELECT 1").expect("a view");
    let view = view.with_comment(Some("b"), Some("two")).expect("a comment");
    let new = sample_view(&[("c", int), ("B", int)], "SELECT 2").expect("another");
    let replaced = view.clone().replaced_by(&new).expect("replaced");
    let names = replaced.columns().iter().map(|column| (column.id.0, column.name.as_str()));
    assert_eq!(names.collect::<Vec<_>>(), [(2, "c"), (1, "B")], "ids-1");
    assert_eq!(replaced.comments().columns, view.comments().columns);
    assert_eq!(replaced.view().expect("a view").query, "SELECT 2");
    assert!(view.version() < replaced.version());
}

#[test]
fn a_view_has_nothing_that_only_rows_have() {
    let int = ColumnType::Int32;
    let bytes = limits::VIEW_BYTES + 1;
    let refused = sample_view(&[("a", int)], &" ".repeat(bytes));
    assert_eq!(refused, Err(SchemaError::ViewText { bytes }), "model_schema-7");
    let view = sample_view(&[("a", ColumnType::Varchar)], "SELECT ''").expect("a view");
    let refused = view.with_lengths(&[("a".to_owned(), 3)]);
    assert_eq!(refused, Err(SchemaError::ViewOfRows), "model_schema-7");
}

#[test]
fn an_invalid_schema_is_refused_with_the_reason() {
    let schema = sample();
    let text = |result: Result<Schema, SchemaError>| result.expect_err("refused").to_string();
    assert_eq!(
        text(schema.clone().with_column("TS", ColumnType::Date)),
        "column `TS` is there twice (names are compared without case)"
    );
    assert_eq!(
        text(schema.clone().without_column("ts")),
        "column `Ts` is the designated timestamp and cannot be dropped"
    );
    assert_eq!(text(schema.clone().with_renamed_column("x", "y")), "column `x` does not exist");
    let columns = [("a".to_owned(), ColumnType::Int32)];
    assert_eq!(
        text(Schema::new(&columns, None, PartitionUnit::Day)),
        "PARTITION BY DAY needs a designated timestamp"
    );
    assert_eq!(
        text(Schema::new(&columns, Some("a"), PartitionUnit::None)),
        "column `a` is INT, but a designated timestamp is TIMESTAMP or TIMESTAMP_NS"
    );
}

#[test]
fn keys_have_the_timestamp_and_stay() {
    let schema = sample().with_dedup(&["A", "ts"]).expect("keys");
    assert_eq!(schema.dedup().len(), 2);
    let dropped = schema.clone().without_column("a");
    assert_eq!(dropped, Err(SchemaError::KeyDropped { name: "a".to_owned() }));
    assert!(schema.clone().with_dedup(&[]).expect("disabled").dedup().is_empty());
    for wrong in [&["a"][..], &["ts", "TS"]] {
        assert_eq!(schema.clone().with_dedup(wrong), Err(SchemaError::BadKeys));
    }
    assert!(schema.with_dedup(&["ts", "x"]).is_err());
}

#[test]
fn rows_are_kept_for_a_time_where_there_are_partitions() {
    let ttl = |count, unit| Some(Ttl { count, unit });
    let kept = sample().with_ttl(ttl(3, PartitionUnit::Week)).expect("a time");
    assert_eq!(kept.ttl(), ttl(3, PartitionUnit::Week));
    for wrong in [ttl(0, PartitionUnit::Day), ttl(1, PartitionUnit::None)] {
        assert_eq!(sample().with_ttl(wrong), Err(SchemaError::BadTtl));
    }
}

#[test]
fn a_column_may_change_the_case_of_its_own_name() {
    let schema = sample().with_renamed_column("a", "A").expect("renamed");
    assert_eq!(schema.find("a").expect("still found").name, "A");
}
