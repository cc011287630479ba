//! Rows that are visible to one session only: those of its open transaction, and of its temporary
//! tables.
//!
//! - They are runs of a snapshot like others, after all commits: every reader of a snapshot
//!   reads them.
//! - private_rows-1. Symbols that only they have follow those of the snapshot they were encoded
//!   for, and are in no dictionary of a table. For another snapshot, whose table has more symbols,
//!   they are encoded again.
//! - private_rows-2. In a table with keys of DEDUP, they replace the rows that their commit would
//!   replace.
//!
//! Not here: their commit (`transaction`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_model::{ColumnType, Schema, SegmentId, SeqTxn, TableId};

use super::dedup::{Superseded, superseded};
use crate::batch::RowBatch;
use crate::database::deletes::vectors::SegmentDeletes;
use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Result};
use crate::mem_segment::{self, MemSegment};
use crate::snapshot::{Derived, SegmentFile, SegmentRun, Snapshot, grouped};
use crate::symbols::SymbolTables;

/// The id of the first private segment: tables count theirs from 0, one by one.
const FIRST_SEGMENT: u64 = 1 << 40;
/// The number of the first private commit.
const FIRST_COMMIT: u64 = 1 << 62;

/// The changes of a session to a table.
#[derive(Debug, Clone, Copy)]
pub struct PrivateRows<'a> {
    /// The rows, in the order of its statements.
    pub runs: &'a [Arc<SegmentRun>],
    /// The symbols of the rows and of the snapshot.
    pub symbols: &'a SymbolTables,
    /// The rows that it has left of segments in files, after its deletions.
    pub deleted: &'a BTreeMap<SegmentId, Arc<DeletionVector>>,
}

/// A snapshot as one session sees it.
#[derive(Debug)]
pub struct PrivateSnapshot {
    /// All rows that the session sees.
    pub snapshot: Snapshot,
    /// The rows of its own runs, by position of the run, that later rows replace (private_rows-2).
    pub doubled: BTreeMap<usize, Vec<u64>>,
    /// The rows of the table's segments that its own replace (private_rows-2).
    pub replaced: Vec<SegmentDeletes>,
}

impl Snapshot {
    /// An empty table that is in no database.
    #[must_use]
    pub fn of_no_rows(table: TableId, name: &str, schema: &Arc<Schema>) -> Snapshot {
        let columns = schema.columns().iter();
        let symbols = columns.filter(|column| column.ty == ColumnType::Symbol);
        let symbols = symbols.map(|column| (column.id, Arc::default())).collect();
        Snapshot {
            table,
            name: name.to_owned(),
            schema: Arc::clone(schema),
            seq_txn: SeqTxn(0),
            rows_changed_at: SeqTxn(0),
            groups: Vec::new(),
            symbols,
            derived: Derived::default(),
        }
    }

    /// The table with the changes of a session.
    ///
    /// # Errors
    /// [`Error::RowsChanged`] if a segment with deleted rows no longer exists, and the errors of
    /// reading keys.
    pub fn with_private(&self, private: PrivateRows<'_>) -> Result<PrivateSnapshot> {
        let PrivateRows { runs, symbols, deleted } = private;
        let mut known: Vec<Arc<SegmentRun>> = self.segments().map(Arc::clone).collect();
        let mut found = 0;
        for run in &mut known {
            if let Some(left) = deleted.get(&run.meta.id) {
                found += 1;
                *run = run.with_deletion_vector(left);
            }
        }
        if found < deleted.len() {
            return Err(Error::RowsChanged { table: self.name.clone() });
        }
        let mut own = runs.to_vec();
        let (doubled, replaced) = match self.schema.dedup().is_empty() || own.is_empty() {
            true => (BTreeMap::new(), Vec::new()),
            false => {
                let known = known.iter().collect::<Vec<_>>();
                let Superseded { doubled, deletes: deleted } =
                    superseded(&own, &known, &self.schema, symbols)?;
                (doubled, deleted)
            }
        };
        for (&at, rows) in &doubled {
            own[at] = own[at].with_deletion_vector(&DeletionVector::new(own[at].meta.rows, rows));
        }
        for SegmentDeletes { segment, rows } in &replaced {
            let run = known.iter_mut().find(|run| run.meta.id == *segment);
            let run = run.expect("it is one of these");
            *run = run.with_deletion_vector(&DeletionVector::new(run.meta.rows, rows));
        }
        known.append(&mut own);
        known.retain(|run| run.rows().0 > 0);
        let groups = grouped(known, self.schema.designated().is_some());
        let mut all = self.symbols.clone();
        all.0.extend(symbols.iter().map(|(id, table)| (id, Arc::clone(table))));
        all.0.retain(|id, _| self.symbols.get(*id).is_some());
        let snapshot = Snapshot {
            table: self.table,
            name: self.name.clone(),
            schema: Arc::clone(&self.schema),
            seq_txn: self.seq_txn,
            rows_changed_at: self.rows_changed_at,
            groups,
            symbols: all,
            derived: Derived::default(),
        };
        Ok(PrivateSnapshot { snapshot, doubled, replaced })
    }
}

/// The numbers of private runs.
#[derive(Debug, Clone, Copy)]
pub struct PrivateNumbers<'a> {
    /// The number of the statement: its rows follow those of statements with lower numbers
    /// (snapshot-1).
    pub commit: u64,
    /// Number of runs so far.
    pub segments: &'a AtomicU64,
}

/// Returns true if a segment is private to a session.
#[must_use]
pub fn is_private(segment: SegmentId) -> bool {
    FIRST_SEGMENT <= segment.0
}

/// Encodes rows that are visible to one session: runs in the order of their rows, as of a commit
/// after all others. New symbols are added to `symbols`.
///
/// # Errors
/// If a designated timestamp is missing or out of range, a symbol is too long or not UTF-8, or
/// there are too many rows for a record of the log.
///
/// # Panics
/// If a column is not one of the table's, or not of its type.
pub fn encode_private(
    table: TableId,
    schema: &Schema,
    rows: &RowBatch,
    symbols: &mut SymbolTables,
    numbers: PrivateNumbers<'_>,
) -> Result<Vec<Arc<SegmentRun>>> {
    let commit = SeqTxn(FIRST_COMMIT + numbers.commit);
    let mut intern = |column, texts: &[&[u8]]| symbols.intern(column, texts);
    let mut new_id = || SegmentId(FIRST_SEGMENT + numbers.segments.fetch_add(1, Relaxed));
    let mem_segments = mem_segment::encode_rows(table, schema, rows, &mut intern, &mut new_id)?;
    let run = |MemSegment { mut meta, bytes }: MemSegment| {
        (meta.seq_first, meta.seq_last) = (commit, commit);
        let file = SegmentFile::in_memory(table, &MemSegment { meta, bytes });
        Arc::new(SegmentRun::of_memtable(meta, &Arc::new(file), None))
    };
    Ok(mem_segments.into_iter().map(run).collect())
}
