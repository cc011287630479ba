//! The relations of PostgreSQL's catalog and of the information schema, with their columns.
//!
//! - Columns are those of PostgreSQL 16, in its order, with its names and types.
//! - Every relation of PostgreSQL exists, so that no query on the catalog fails for a missing one;
//!   relations for features that Tidegate does not have are empty.
//!
//! `relations.txt` has one per line: `schema.name oid: columns`, without an OID for a view. A
//! column is written as `name type`. The default of a type with `?` is NULL; that of others is
//! false, 0 or an empty text.

use std::sync::LazyLock;

/// A relation: its schema, its name, its columns.
pub(super) struct Relation {
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    /// The OID of one of PostgreSQL's own tables in `pg_class`; 0 for a view, which has none of its
    /// own.
    oid: u32,
    pub(super) columns: &'static str,
}

static RELATIONS: LazyLock<Vec<Relation>> =
    LazyLock::new(|| include_str!("relations.txt").lines().map(relation).collect());

fn relation(line: &'static str) -> Relation {
    let (head, columns) = line.split_once(": ").expect("a name, and columns behind it");
    let (schema, name) = head.split_once('.').expect("a schema, and a name behind it");
    let (name, oid) = name.split_once(' ').unwrap_or((name, "0"));
    Relation { schema, name, oid: oid.parse().expect("an OID behind the name"), columns }
}

/// The OID of a relation of `pg_catalog`; 0 for a view, which has none of its own.
pub(super) fn number(name: &str) -> u32 {
    find(None, name).map_or(0, |relation| relation.oid)
}

/// The relation of `pg_catalog` that has an OID.
pub(super) fn numbered(oid: u32) -> Option<&'static str> {
    all().find(|relation| relation.oid == oid && oid != 0).map(|relation| relation.name)
}

/// All relations.
pub(super) fn all() -> impl Iterator<Item = &'static Relation> {
    RELATIONS.iter()
}

/// A relation of this name; without a schema, one of `pg_catalog`.
pub(super) fn find(schema: Option<&str>, name: &str) -> Option<&'static Relation> {
    let schema = schema.unwrap_or("pg_catalog");
    all().find(|relation| relation.schema == schema && relation.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_one_relation() {
        let names = all().map(|relation| (relation.schema, relation.name));
        assert_eq!(names.collect::<HashSet<_>>().len(), all().count());
        let tables = all().filter(|relation| relation.oid != 0);
        for Relation { name, oid, .. } in tables {
            assert_eq!((number(name), numbered(*oid)), (*oid, Some(*name)));
        }
        assert_eq!((number("pg_class"), numbered(1_259)), (1_259, Some("pg_class")));
        assert_eq!((number("pg_views"), numbered(0)), (0, None));
    }
}
