//! Deletion of rows in segments: deletion vectors (row masks) are written beside their segments,
//! and take effect with one record.
//!
//! - MA1. A segment without live rows is removed as a whole, with the record that deletes its last
//!   row, and gets no mask. So a partition exists as long as it has a row.
//! - T2, T3 as in `import`.
//!
//! Not here: rows of memtables (`gone`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{SegmentId, SeqTxn};
use tidegate_platform::{Disk, OpenMode};

use super::plan::{Gone, NewMask, Replace};
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
    /// Positions in the segment; in any order, also twice, also of rows that are deleted already.
    pub rows: Vec<u64>,
}

/// Rows to delete, found in a snapshot, segment by segment.
pub struct Removal<'a> {
    /// The snapshot in which they were found.
    pub snapshot: &'a Snapshot,
    /// Each segment of the snapshot at most once.
    pub rows: &'a mut dyn Iterator<Item = MaskedRows>,
}

impl fmt::Debug for Removal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Removal").field("table", &self.snapshot.name).finish_non_exhaustive()
    }
}

impl Removal<'_> {
    /// The deletion vector of each segment, if no segment has changed since its rows were found.
    pub(super) fn into_masks(self, now: &Snapshot) -> Result<BTreeMap<SegmentId, RowMask>> {
        let Removal { snapshot, rows } = self;
        assert_eq!(snapshot.table, now.table, "rows of this table");
        let (found, now) = (runs_of(snapshot), runs_of(now));
        let mut masks = BTreeMap::new();
        for MaskedRows { segment, rows } in rows {
            let run = found.get(&segment).expect("the segment is one of the snapshot");
            let is_same = |now: &&Arc<SegmentRun>| now.mask_mark() == run.mask_mark();
            if !now.get(&segment).is_some_and(is_same) {
                let (table, segment) = (snapshot.name.clone(), segment.0);
                return Err(Error::SegmentChanged { table, segment });
            }
            let mask = RowMask::new(run.meta.rows, &rows);
            assert!(masks.insert(segment, mask).is_none(), "a segment comes once");
        }
        Ok(masks)
    }
}

/// The segments of a snapshot by their ids.
pub(super) fn runs_of(snapshot: &Snapshot) -> BTreeMap<SegmentId, &Arc<SegmentRun>> {
    snapshot.segments().map(|run| (run.meta.id, run)).collect()
}

/// The effect of a deletion on a segment.
pub(super) enum Loss {
    /// All the rows were deleted already.
    Nothing,
    Rows(NewMask),
    /// No row is left (MA1); with the mask that the segment had.
    All(SegmentId, Option<MaskMark>),
}

/// Segments without live rows, with the masks that they had.
type Emptied = Vec<(SegmentId, Option<MaskMark>)>;

/// The effects of a deletion on several segments.
#[derive(Default)]
pub(super) struct Losses {
    masks: Vec<NewMask>,
    emptied: Emptied,
}

impl Losses {
    pub(super) fn add(&mut self, loss: Loss) {
        match loss {
            Loss::Nothing => {}
            Loss::Rows(mask) => self.masks.push(mask),
            Loss::All(segment, mask) => self.emptied.push((segment, mask)),
        }
    }

    /// The part of a commit that deletes them. `replace` makes its `replace` part of the emptied
    /// segments.
    pub(super) fn into_gone(
        self,
        table: &TableState,
        replace: Option<&dyn Fn(Emptied) -> Replace>,
    ) -> Gone {
        let Losses { masks, emptied } = self;
        let replace = match replace {
            Some(replace) => Some(replace(emptied)),
            None => (!emptied.is_empty()).then(|| Replace::without(table, emptied)),
        };
        Gone { masks, replace }
    }
}

/// Masks that are not yet part of a table; their files are removed on drop.
pub(super) struct MaskFiles<'a> {
    disk: &'a dyn Disk,
    written: Vec<PathBuf>,
}

impl<'a> MaskFiles<'a> {
    pub(super) fn new(disk: &'a dyn Disk) -> MaskFiles<'a> {
        MaskFiles { disk, written: Vec::new() }
    }

    /// Keeps the files: they are part of the table, or that is in doubt.
    pub(super) fn keep(&mut self) {
        self.written.clear();
    }

    /// Writes a mask for each segment that loses rows and keeps some (MA1), and makes the masks and
    /// their names durable (T3).
    pub(super) fn write_all(&mut self, table: &TableState, removal: Removal<'_>) -> Result<Gone> {
        let Removal { snapshot, rows } = removal;
        assert_eq!(snapshot.table, table.id(), "rows of this table");
        let runs = runs_of(snapshot);
        let (mut losses, mut seen) = (Losses::default(), BTreeSet::new());
        for MaskedRows { segment, rows } in rows {
            assert!(seen.insert(segment), "a segment comes once");
            let run = runs.get(&segment).expect("the segment is one of the snapshot");
            losses.add(self.write(table, run, &RowMask::new(run.meta.rows, &rows))?);
        }
        self.sync_folders()?;
        Ok(losses.into_gone(table, None))
    }

    /// Writes the mask of a segment that loses rows, if it keeps some.
    pub(super) fn write(
        &mut self,
        table: &TableState,
        run: &SegmentRun,
        left: &RowMask,
    ) -> Result<Loss> {
        let none = RowMask::new(run.meta.rows, &[]);
        let known = run.mask.as_deref().unwrap_or(&none);
        let mask = known.and(left);
        if mask == *known {
            return Ok(Loss::Nothing);
        }
        let segment = run.meta.id;
        if mask.live().0 == 0 {
            return Ok(Loss::All(segment, run.mask_mark()));
        }
        let id = table.folder.new_segment_id();
        let bytes = mask.encode(table.id(), segment);
        let mark =
            MaskMark { id, seq_txn: SeqTxn(0), live: mask.live(), crc: crc32c::crc32c(&bytes) };
        let path = table.folder.paths().mask(&table.manifest.schema, &run.meta, &mark);
        self.written.push(path.clone());
        write_synced(self.disk, &path, &bytes).map_err(Error::disk("write row mask"))?;
        assert!(mask.live() < run.meta.rows, "a mask has lost a row");
        Ok(Loss::Rows(NewMask { segment, mark, replaces: run.mask_mark() }))
    }

    /// Makes the names of the written files durable (T3).
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
            // If this fails, the next open removes it.
            let _ = self.disk.remove(path);
        }
    }
}

fn write_synced(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> tidegate_platform::Result<()> {
    let file = disk.open(path, OpenMode::CreateNew)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}
