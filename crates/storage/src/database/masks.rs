//! Rows of segments that go: masks are written beside their segments, and become true with one
//! record.
//!
//! - T2, T3 as in `import`.
//!
//! Not here: rows of tails (`gone`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{SegmentId, SeqTxn};
use tidegate_platform::{Disk, OpenMode};

use super::plan::NewMask;
use super::table::TableState;
use crate::error::{Error, Result};
use crate::manifest::MaskMark;
use crate::mask::RowMask;
use crate::snapshot::{SegmentRun, Snapshot};

/// Rows of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedRows {
    /// The segment.
    pub segment: SegmentId,
    /// Positions in it; in any order, also twice, also of rows that are gone already.
    pub rows: Vec<u64>,
}

/// Rows that go: found in a snapshot, segment by segment.
pub struct Removal<'a> {
    /// Where they were found.
    pub snapshot: &'a Snapshot,
    /// Each segment of the snapshot once at most.
    pub rows: &'a mut dyn Iterator<Item = MaskedRows>,
}

impl fmt::Debug for Removal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Removal").field("table", &self.snapshot.name).finish_non_exhaustive()
    }
}

/// Masks that are not yet part of a table; removed when it is dropped.
pub(super) struct MaskFiles<'a> {
    disk: &'a dyn Disk,
    written: Vec<PathBuf>,
}

impl<'a> MaskFiles<'a> {
    pub(super) fn new(disk: &'a dyn Disk) -> MaskFiles<'a> {
        MaskFiles { disk, written: Vec::new() }
    }

    /// They are part of the table, or that is in doubt.
    pub(super) fn keep(&mut self) {
        self.written.clear();
    }

    /// Writes a mask for each segment that loses rows; one whose rows had all gone before needs
    /// none. They and their names are on disk then (T3).
    pub(super) fn write_all(
        &mut self,
        table: &TableState,
        removal: Removal<'_>,
    ) -> Result<Vec<NewMask>> {
        let Removal { snapshot, rows } = removal;
        assert_eq!(snapshot.table, table.id(), "rows of this table");
        let runs: BTreeMap<SegmentId, &Arc<SegmentRun>> =
            snapshot.segments().map(|run| (run.meta.id, run)).collect();
        let (mut masks, mut seen) = (Vec::new(), BTreeSet::new());
        for MaskedRows { segment, rows } in rows {
            assert!(seen.insert(segment), "a segment comes once");
            let run = runs.get(&segment).expect("the segment is one of the snapshot");
            masks.extend(self.write(table, run, &rows)?);
        }
        self.sync_folders()?;
        Ok(masks)
    }

    /// Writes the mask of a segment that loses these rows; `None` if they had all gone before.
    pub(super) fn write(
        &mut self,
        table: &TableState,
        run: &SegmentRun,
        rows: &[u64],
    ) -> Result<Option<NewMask>> {
        let none = RowMask::new(run.meta.rows, &[]);
        let known = run.mask.as_deref().unwrap_or(&none);
        let mask = known.and(&RowMask::new(run.meta.rows, rows));
        if mask == *known {
            return Ok(None);
        }
        let (segment, id) = (run.meta.id, table.folder.new_segment_id());
        let bytes = mask.encode(table.id(), segment);
        let mark =
            MaskMark { id, seq_txn: SeqTxn(0), live: mask.live(), crc: crc32c::crc32c(&bytes) };
        let path = table.folder.paths().mask(&table.manifest.schema, &run.meta, &mark);
        self.written.push(path.clone());
        write_synced(self.disk, &path, &bytes).map_err(Error::disk("write row mask"))?;
        assert!(mask.live() < run.meta.rows, "a mask has lost a row");
        Ok(Some(NewMask { segment, mark, replaces: run.mask_mark() }))
    }

    /// Makes the names of what was written durable (T3).
    pub(super) fn sync_folders(&self) -> Result<()> {
        let folders: BTreeSet<&Path> =
            self.written.iter().filter_map(|path| path.parent()).collect();
        let synced = folders.into_iter().try_for_each(|dir| self.disk.sync_dir(dir));
        synced.map_err(Error::disk("write row mask"))
    }
}

impl Drop for MaskFiles<'_> {
    fn drop(&mut self) {
        for path in &self.written {
            // If that fails, the next open removes it.
            let _ = self.disk.remove(path);
        }
    }
}

fn write_synced(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> tidegate_platform::Result<()> {
    let file = disk.open(path, OpenMode::CreateNew)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}
