//! Names that only the engine makes: schemas, keys of metadata, and prefixes that no query can
//! write.

use std::borrow::Cow;
use std::collections::HashMap;

use datafusion::common::TableReference;
use tidegate_model::is_system_table;

/// The metadata key for the PostgreSQL type of a column.
pub(crate) const PG_TYPE_KEY: &str = "tidegate.pg";

/// The keywords of PostgreSQL that cannot name everything, by the code of their category: reserved
/// ones, reserved ones that may name functions and types, and others that may not.
pub(crate) const KEYWORDS: [(&str, &str); 3] = [
    (
        "R",
        "\
         all analyse analyze and any array as asc asymmetric both case cast check collate \
         column constraint create current_catalog current_date current_role current_time \
         current_timestamp current_user default deferrable desc distinct do else end except \
         false fetch for foreign from grant group having in initially intersect into lateral \
         leading limit localtime localtimestamp not null offset on only or order placing \
         primary references returning select session_user some symmetric table then to trailing \
         true union unique user using variadic when where window with",
    ),
    (
        "T",
        "\
         authorization binary collation concurrently cross current_schema freeze full ilike \
         inner is isnull join left like natural notnull outer overlaps right similar \
         tablesample verbose",
    ),
    (
        "C",
        "\
         between bigint bit boolean char character coalesce dec decimal exists extract float \
         greatest grouping inout int integer interval least national nchar none normalize \
         nullif numeric out overlay position precision real row setof smallint substring time \
         timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists \
         xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable",
    ),
];

/// Those of them that name a column of an answer only behind AS.
pub(crate) const KEYWORDS_BEHIND_AS: &str = "\
    array as char character create except fetch for from grant group having intersect into \
    isnull limit notnull offset on order overlaps precision returning to union where window \
    with";

/// Returns a name as SQL writes it: in double quotes if it needs them.
pub(crate) fn quote_ident(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let needs_none = name.chars().all(is_plain)
        && name.chars().next().is_some_and(|first| !first.is_ascii_digit())
        && !KEYWORDS.iter().any(|(_, words)| words.split(' ').any(|word| word == name));
    if needs_none { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The suffix of the name of a parameter that is a list.
pub(crate) const LIST_MARK: &str = "[]";

/// The schema name of temporary tables.
pub(crate) const TEMPORARY_SCHEMA: &str = "pg_temp";

/// The schema of tables that the system itself keeps, such as `sys.ilp_rejects`.
pub(crate) const SYSTEM_SCHEMA: &str = "sys";

/// Returns the name of a table of ours; `None` for a table in another schema. Tables that the
/// system itself keeps have their schema in their name.
pub(crate) fn table_name(reference: &TableReference) -> Option<Cow<'_, str>> {
    match reference {
        TableReference::Bare { table } => Some(Cow::Borrowed(table)),
        // There is one database, and any name of it is accepted.
        TableReference::Partial { schema, table } | TableReference::Full { schema, table, .. } => {
            match schema.as_ref() {
                // A quoted text is a name. Tables of the system are in no other schema.
                "public" => (!is_system_table(table)).then_some(Cow::Borrowed(table.as_ref())),
                SYSTEM_SCHEMA => Some(Cow::Owned(format!("{SYSTEM_SCHEMA}.{table}"))),
                TEMPORARY_SCHEMA => Some(Cow::Owned(format!("{TEMPORARY_SCHEMA}.{table}"))),
                _ => None,
            }
        }
    }
}

/// The metadata key of the name that a column is stored under.
pub(crate) const NAME_KEY: &str = "tidegate.name";

/// The metadata key of the id of a column's table, and the column's own there from 1: `16385.2`.
pub(crate) const COLUMN_KEY: &str = "tidegate.column";

/// Returns the metadata of a field for the client: without the keys that only planning needs.
pub(crate) fn without_name(metadata: &HashMap<String, String>) -> HashMap<String, String> {
    let mut metadata = metadata.clone();
    metadata.remove(NAME_KEY);
    metadata
}

/// The prefix of internal names. No query can write one (query_text-4).
pub(crate) const INTERNAL_PREFIX: char = '\u{1}';

/// The schema, in trees, of the tables of outer rows that have none (outer_names-1).
pub(crate) const OUTER_SCHEMA: &str = "\u{1}outer";

/// Returns the name in plans of the column at a place of a subquery whose name another column there
/// has, too: no statement finds it.
pub(crate) fn hidden_name(at: usize, name: &str) -> String {
    format!("{INTERNAL_PREFIX}hidden {at} {name}")
}

/// Returns the name of a column that is hidden in plans (`hidden_name`).
pub(crate) fn name_of_hidden(column: &str) -> Option<&str> {
    let rest = column.strip_prefix(INTERNAL_PREFIX)?.strip_prefix("hidden ")?;
    rest.split_once(' ').map(|(_, name)| name)
}
