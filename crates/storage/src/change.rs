//! A change of a table: what a record of the log contains, and what a manifest applies.
//!
//! Bytes: docs/format.md, Record. Not here: encoding changes (`wal::record`), applying them
//! (`manifest`).

use std::sync::Arc;

use tidegate_model::{ColumnId, Schema, SegmentId, SeqTxn, TableId};

use crate::deletion_vector::DeletionVectorMeta;
use crate::mem_segment::MemSegment;
use crate::segment::SegmentMeta;
use crate::symbols::{SymbolTexts, SymbolWatermark};

/// A change of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOp {
    /// The table.
    pub table: TableId,
    /// The number of this commit in the table (wal-1).
    pub seq_txn: SeqTxn,
    /// The change.
    pub change: TableChange,
}

/// A change of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableChange {
    /// The table is created.
    Create {
        /// The name.
        name: String,
        /// The columns.
        schema: Arc<Schema>,
    },
    /// The table is dropped.
    Drop,
    /// The table is renamed.
    Rename {
        /// The new name.
        name: String,
    },
    /// All rows are deleted.
    Truncate,
    /// The columns are changed.
    Alter {
        /// The new schema.
        schema: Arc<Schema>,
    },
    /// The table gets more rows, in files that are on disk already.
    AddSegments {
        /// The new segments.
        segments: Vec<SegmentMeta>,
        /// The watermarks of the symbols that they use.
        symbols: Vec<(ColumnId, SymbolWatermark)>,
    },
    /// Rows of a segment are deleted.
    DeletionVector {
        /// The segment.
        segment: SegmentId,
        /// All its deleted rows, with those that had been deleted before.
        deletion_vector: DeletionVectorMeta,
    },
    /// The table gets more rows, which the record contains.
    Append {
        /// The identity of the rows, if they are to be applied once.
        batch: Option<BatchId>,
        /// Segments as they would be on disk.
        mem_segments: Vec<MemSegment>,
        /// Strings of symbols that are in no earlier record and in no symbol file.
        symbols: Vec<SymbolTexts>,
    },
    /// The table has the same rows in other segments, which are on disk already.
    Replace {
        /// Segments that are removed.
        out: Vec<SegmentId>,
        /// The rows of all appends up to this commit are now in segments.
        flushed_seq: SeqTxn,
        /// Segments that are added.
        segments: Vec<SegmentMeta>,
        /// The watermarks of the symbols that they use.
        symbols: Vec<(ColumnId, SymbolWatermark)>,
    },
    /// A repair has given up the commits up to this one, as far as the table does not have them.
    GivenUp,
}

/// The identity of rows that are applied once even if they are sent again: eight bytes for the name
/// that their writer gives them, and eight for their content. A name is used for the same rows only
/// (`Error::BatchReused`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchId(pub [u8; 16]);

impl BatchId {
    /// The identity of a batch from its name and its content.
    #[must_use]
    pub fn new(name: [u8; 8], content: [u8; 8]) -> BatchId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&name);
        id[8..].copy_from_slice(&content);
        BatchId(id)
    }

    /// The part for the name.
    #[must_use]
    pub fn name(self) -> [u8; 8] {
        self.0[..8].try_into().expect("eight of sixteen bytes")
    }

    /// The part for the rows.
    #[must_use]
    pub fn content(self) -> [u8; 8] {
        self.0[8..].try_into().expect("eight of sixteen bytes")
    }
}
