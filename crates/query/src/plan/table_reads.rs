//! Reads for later changes: `FOR UPDATE` and `FOR SHARE` of a query.
//!
//! - A session that may change no rows may not read them for that either.
//! - A view stands for all tables that it reads, at any depth.
//!
//! Not here: the clauses (`query_text::row_locks`), the reads of a transaction (`session`), and
//! their check at COMMIT (`storage`, transaction-5).

use std::sync::Arc;

use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::ObjectName;
use tidegate_storage::{Snapshot, TableRead};

use super::Snapshots;
use super::query_text::RowLocks;
use super::tables::public_name;
use super::tables::view_scope::resolve_read;
use crate::authorization::Privilege;
use crate::error::{Error, Result};
use crate::names::table_name;
use crate::session::Session;

/// Checks that a session may read rows for later changes.
pub(super) fn check_may_lock(session: &Session, locks: &RowLocks) -> Result<()> {
    let Some(statement) = locks.statement else { return Ok(()) };
    session.allow(Privilege::Write(statement))?;
    if session.is_read_only() {
        return Err(Error::ReadOnly { statement });
    }
    Ok(())
}

/// Returns the reads for later changes of a query on these tables.
pub(super) fn reads_of(locks: &RowLocks, snapshots: &Snapshots) -> Vec<TableRead> {
    let named = locks.tables.iter().filter_map(|name| find(snapshots, name));
    let mut found: Vec<&Arc<Snapshot>> = named.collect();
    let mut at = 0;
    while let Some(snapshot) = found.get(at).copied() {
        let reads = snapshot.schema.view().map_or(&[][..], |view| &view.reads);
        for inner in reads.iter().filter_map(|read| resolve_read(snapshots, read)) {
            if found.iter().all(|known| known.table != inner.table) {
                found.push(inner);
            }
        }
        at += 1;
    }
    let tables = found.into_iter().filter(|snapshot| snapshot.schema.view().is_none());
    tables.map(|snapshot| TableRead::of(snapshot)).collect()
}

/// Returns the table of a name; `None` if it is none of ours.
fn find<'s>(snapshots: &'s Snapshots, name: &ObjectName) -> Option<&'s Arc<Snapshot>> {
    let reference = object_name_to_table_reference(name.clone(), true).ok()?;
    let public = (reference.schema() == Some("public")).then(|| public_name(reference.table()));
    let public = public.and_then(|name| snapshots.get(&name));
    public.or_else(|| snapshots.get(table_name(&reference)?.as_ref()))
}
