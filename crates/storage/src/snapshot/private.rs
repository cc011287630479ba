//! Rows that one session sees and others do not: those of its open transaction, and of its
//! temporary tables.
//!
//! - PV1. They are runs of a snapshot like others, behind all commits: whatever reads a snapshot
//!   reads them.
//! - PV2. Symbols that only they have stand behind those of the snapshot they were encoded for, and
//!   are in no dictionary of a table. With another snapshot, whose table has more symbols, they are
//!   encoded anew.
//! - PV3. Of a table with keys of DEDUP, they replace what their commit would replace.
//!
//! Not here: their commit (`database::transaction`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_model::{ColumnType, Schema, SegmentId, SeqTxn, TableId};

use super::{Derived, SegmentFile, SegmentRun, Snapshot, grouped};
use crate::batch::RowBatch;
use crate::database::{MaskedRows, Superseded, superseded};
use crate::error::{Error, Result};
use crate::image::{self, Image};
use crate::mask::RowMask;
use crate::symbols::SymbolTables;

/// The number of the first private segment: tables count theirs from 0, one by one.
const FIRST_SEGMENT: u64 = 1 << 40;
/// The number of the first private commit.
const FIRST_COMMIT: u64 = 1 << 62;

/// What a session has changed in a table.
#[derive(Debug, Clone, Copy)]
pub struct PrivateRows<'a> {
    /// Its rows, in the order of its statements.
    pub runs: &'a [Arc<SegmentRun>],
    /// Their symbols, and those of the snapshot.
    pub symbols: &'a SymbolTables,
    /// What it has removed of segments that are files.
    pub gone: &'a BTreeMap<SegmentId, Arc<RowMask>>,
}

/// A snapshot as one session sees it.
#[derive(Debug)]
pub struct PrivateSnapshot {
    /// All rows that it sees.
    pub snapshot: Snapshot,
    /// Of its own runs, by their positions, the rows that later ones replace (PV3).
    pub doubled: BTreeMap<usize, Vec<u64>>,
    /// Of the table's segments, the rows that its own replace (PV3).
    pub replaced: Vec<MaskedRows>,
}

impl Snapshot {
    /// A table without rows that no database has.
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
            groups: Vec::new(),
            symbols,
            derived: Derived::default(),
        }
    }

    /// The table with the changes of a session.
    ///
    /// # Errors
    /// [`Error::RowsChanged`] if a segment that has lost rows is not there any more, and those of
    /// reading keys.
    pub fn with_private(&self, private: PrivateRows<'_>) -> Result<PrivateSnapshot> {
        let PrivateRows { runs, symbols, gone } = private;
        let mut known: Vec<Arc<SegmentRun>> = self.segments().map(Arc::clone).collect();
        let mut found = 0;
        for run in &mut known {
            if let Some(left) = gone.get(&run.meta.id) {
                found += 1;
                *run = run.masked(left);
            }
        }
        if found < gone.len() {
            return Err(Error::RowsChanged { table: self.name.clone() });
        }
        let mut own = runs.to_vec();
        let (doubled, replaced) = match self.schema.dedup().is_empty() || own.is_empty() {
            true => (BTreeMap::new(), Vec::new()),
            false => {
                let known = known.iter().collect::<Vec<_>>();
                let Superseded { doubled, gone } =
                    superseded(&own, &known, (&self.schema, symbols))?;
                (doubled, gone)
            }
        };
        for (&at, rows) in &doubled {
            own[at] = own[at].masked(&RowMask::new(own[at].meta.rows, rows));
        }
        for MaskedRows { segment, rows } in &replaced {
            let run = known.iter_mut().find(|run| run.meta.id == *segment);
            let run = run.expect("it is one of these");
            *run = run.masked(&RowMask::new(run.meta.rows, rows));
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
            groups,
            symbols: all,
            derived: Derived::default(),
        };
        Ok(PrivateSnapshot { snapshot, doubled, replaced })
    }
}

impl SegmentRun {
    /// The same run without what is not in this mask.
    fn masked(&self, left: &RowMask) -> Arc<SegmentRun> {
        let mask = self.mask.as_ref().map_or_else(|| left.clone(), |mask| mask.and(left));
        let (mask_mark, file) = (self.mask_mark, Arc::clone(&self.file));
        Arc::new(SegmentRun { meta: self.meta, mask: Some(Arc::new(mask)), mask_mark, file })
    }
}

/// The numbers of private runs.
#[derive(Debug, Clone, Copy)]
pub struct PrivateNumbers<'a> {
    /// Of their statement: rows of one with a higher number stand behind them (R1).
    pub commit: u64,
    /// How many runs there are already.
    pub segments: &'a AtomicU64,
}

/// Whether a segment is one that a session has.
#[must_use]
pub fn is_private(segment: SegmentId) -> bool {
    FIRST_SEGMENT <= segment.0
}

/// Encodes rows that one session sees: runs in the order of their rows, as of a commit behind all
/// others. `symbols` gets what is new.
///
/// # Errors
/// If a designated timestamp is missing or out of range, a symbol is too long or no text, or there
/// are too many rows for a record of the log.
///
/// # Panics
/// If a column is none of the table's, or not of its type.
pub fn encode_private(
    (table, schema): (TableId, &Schema),
    rows: &RowBatch,
    symbols: &mut SymbolTables,
    numbers: PrivateNumbers<'_>,
) -> Result<Vec<Arc<SegmentRun>>> {
    let commit = SeqTxn(FIRST_COMMIT + numbers.commit);
    let mut intern = |column, texts: &[&[u8]]| symbols.intern(column, texts);
    let mut new_id = || SegmentId(FIRST_SEGMENT + numbers.segments.fetch_add(1, Relaxed));
    let images = image::encode_rows((table, schema), rows, &mut intern, &mut new_id)?;
    let run = |Image { mut meta, bytes }: Image| {
        (meta.seq_first, meta.seq_last) = (commit, commit);
        let file = SegmentFile::in_memory(table, &Image { meta, bytes });
        Arc::new(SegmentRun::of_tail(meta, &Arc::new(file), None))
    };
    Ok(images.into_iter().map(run).collect())
}
