//! The statement that makes an empty table like another one, or a view.

use std::fmt::Write;

use tidegate_model::{PartitionUnit, Schema};

use crate::parse::shown_ttl;

/// Words that mean something where a column's definition starts.
const RESERVED: [&str; 5] = ["LIKE", "SELECT", "WITH", "INDEX", "CONSTRAINT"];

/// The statement that makes an empty table like this one, or this view.
pub(super) fn create_statement(name: &str, schema: &Schema) -> String {
    if let Some(view) = schema.view() {
        let columns = schema.columns().iter().map(|column| quoted(&column.name));
        let columns = columns.collect::<Vec<_>>().join(", ");
        return format!("CREATE VIEW {} ({columns}) AS\n{};", quoted(name), view.query);
    }
    let mut ddl = format!("CREATE TABLE {} (\n", quoted(name));
    for (at, column) in schema.columns().iter().enumerate() {
        let separator = if at == 0 { "" } else { ",\n" };
        // Writing to a String cannot fail.
        let _ = write!(ddl, "{separator}    {} {}", quoted(&column.name), schema.sql_type(column));
    }
    ddl.push_str("\n)");
    if let Some((column, _)) = schema.designated_column() {
        let _ = write!(ddl, " TIMESTAMP({})", quoted(&column.name));
        let _ = write!(ddl, " PARTITION BY {}", schema.partition_by().sql());
    }
    if let Some(ttl) = schema.ttl() {
        let _ = write!(ddl, " TTL {}", shown_ttl(ttl));
    }
    if !schema.dedup().is_empty() {
        let keys = schema.dedup().iter().filter_map(|&id| schema.column(id));
        let keys = keys.map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ");
        let _ = write!(ddl, " DEDUP UPSERT KEYS({keys})");
    }
    assert!(
        schema.designated().is_some() || schema.partition_by() == PartitionUnit::None,
        "S3: a table is partitioned only by its designated timestamp"
    );
    ddl.push(';');
    ddl
}

/// The name as it can stand in a statement.
fn quoted(name: &str) -> String {
    let mut characters = name.chars();
    let is_word = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(name));
    if is_word { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use tidegate_model::{ColumnType, TimeUnit, Ttl};

    use super::*;
    use crate::parse::parse_create_table;

    #[test]
    fn the_statement_shown_makes_an_equal_table() {
        let columns = [
            ("Event Time", ColumnType::Timestamp(TimeUnit::Nanos)),
            ("a\"b", ColumnType::Decimal { precision: 9, scale: 2 }),
            ("Like", ColumnType::Symbol),
            ("plain_1", ColumnType::UInt8),
            ("short", ColumnType::Varchar),
        ];
        let columns = columns.map(|(name, ty)| (name.to_owned(), ty));
        let schema = Schema::new(&columns, Some("event time"), PartitionUnit::Week).unwrap();
        let lengths = [("short".to_owned(), 20)];
        let schema = schema.with_lengths(&lengths).unwrap();
        let ttl = Some(Ttl { count: 2, unit: PartitionUnit::Week });
        let schema = schema.with_dedup(&["event time", "LIKE"]).unwrap().with_ttl(ttl).unwrap();
        let ddl = create_statement("My Table", &schema);
        let read = parse_create_table(&ddl).unwrap();
        assert_eq!((read.name.as_str(), read.partition_by), ("My Table", PartitionUnit::Week));
        assert_eq!(
            (read.columns.as_slice(), read.lengths.as_slice()),
            (&columns[..], &lengths[..])
        );
        assert_eq!(read.timestamp.as_deref(), Some("Event Time"));
        assert_eq!(read.ttl.map(|clause| clause.ttl), Some(ttl));
        let keys = read.keys.iter().map(|key| key.text.as_str()).collect::<Vec<_>>();
        assert_eq!(keys, ["Event Time", "Like"]);
        assert_eq!(read.notices, Vec::<String>::new());
    }
}
