//! Names that only the engine makes: schemas, keys of metadata, and prefixes that no query can
//! write.

use std::borrow::Cow;
use std::collections::HashMap;

use datafusion::common::TableReference;
use tidegate_model::is_system_table;

/// The metadata key for the PostgreSQL type of a column.
pub(crate) const PG_TYPE_KEY: &str = "tidegate.pg";

/// The keywords of PostgreSQL that `quote_ident` quotes there: all that cannot name everything.
const KEYWORDS: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary \
    bit boolean both case cast char character check coalesce collate collation column \
    concurrently constraint create cross current_catalog current_date current_role \
    current_schema current_time current_timestamp current_user dec decimal default deferrable \
    desc distinct do else end except exists extract false fetch float for foreign freeze from \
    full grant greatest group grouping having ilike in initially inner inout int integer \
    intersect interval into is isnull join lateral leading least left like limit localtime \
    localtimestamp national natural nchar none normalize not notnull null nullif numeric \
    offset on only or order out outer overlaps overlay placing position precision primary real \
    references returning right row select session_user setof similar smallint some substring \
    symmetric table tablesample then time timestamp to trailing treat trim true union unique \
    user using values varchar variadic verbose when where window with xmlattributes xmlconcat \
    xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// Returns a name as SQL writes it: in double quotes if it needs them.
pub(crate) fn quote_ident(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let needs_none = name.chars().all(is_plain)
        && name.chars().next().is_some_and(|first| !first.is_ascii_digit())
        && !KEYWORDS.split(' ').any(|word| word == name);
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
