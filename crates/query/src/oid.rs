//! OIDs of tables, under which `pg_catalog` lists them.

use tidegate_model::TableId;

/// Objects of PostgreSQL itself have lower OIDs.
pub(crate) const FIRST_TABLE: u32 = 16_384;

/// The OID of a table.
pub(crate) fn table_oid(table: TableId) -> u32 {
    FIRST_TABLE.saturating_add(u32::try_from(table.0).unwrap_or(u32::MAX))
}
