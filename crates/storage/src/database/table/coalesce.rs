//! Coalescing: merges several runs of a memtable into one in-memory segment.
//!
//! Not here: the choice of the runs (`maintenance::policy`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{ColumnId, ColumnType, Schema, SegmentId};

use super::memtable::{MemtableRun, Origin};
use crate::error::Result;
use crate::files::TableDirectory;
use crate::manifest::Manifest;
use crate::mem_segment::MemSegment;
use crate::rewrite::{self, Rewrite};
use crate::snapshot::{SegmentFile, SegmentRun};
use crate::symbols::{SymbolTables, SymbolWatermark};

/// Merges the rows of several runs into one; `None` if they do not fit one run, or all are deleted.
pub(crate) fn coalesce_runs(
    directory: &TableDirectory,
    manifest: &Manifest,
    out: &[Arc<MemtableRun>],
    new_id: &mut dyn FnMut() -> SegmentId,
) -> Result<Option<MemtableRun>> {
    let runs: Vec<_> = out.iter().map(|run| Arc::new(run.run())).collect();
    let mem_segment =
        merge_to_mem_segment(directory, &manifest.schema, &manifest.symbols, &runs, new_id)?;
    let Some(mem_segment) = mem_segment else { return Ok(None) };
    let origin = out.iter().map(|run| run.origin).reduce(Origin::oldest);
    let file = Arc::new(SegmentFile::in_memory(directory.table(), &mem_segment));
    Ok(Some(MemtableRun::new(&mem_segment, file, origin.expect("a group has a run"))))
}

/// Merges the rows of adjacent runs into one in-memory segment; `None` if they are too many for
/// one, or all are deleted.
pub(crate) fn merge_to_mem_segment(
    directory: &TableDirectory,
    schema: &Schema,
    watermarks: &BTreeMap<ColumnId, SymbolWatermark>,
    runs: &[Arc<SegmentRun>],
    new_id: &mut dyn FnMut() -> SegmentId,
) -> Result<Option<MemSegment>> {
    let has_symbols = schema.columns().iter().any(|column| column.ty == ColumnType::Symbol);
    let symbols =
        if has_symbols { directory.symbols(schema, watermarks)? } else { SymbolTables::default() };
    let rewrite = Rewrite { table: directory.table(), schema, symbols: &symbols, runs };
    let mut mem_segments = rewrite::to_mem_segments(&rewrite, new_id)?;
    Ok(mem_segments.pop().filter(|_| mem_segments.is_empty()))
}
