//! Segments that are made from runs, and are not yet part of their table.
//!
//! - UP4 as in `upkeep`.
//! - T3. Before a record or a manifest names them, segments, their symbols, and the names of files
//!   and folders are on disk.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_model::{ColumnId, ColumnType, PartitionKey, Schema, SegmentId};
use tidegate_platform::{DiskFile, OpenMode};

use super::super::Database;
use super::super::folder::{TableFolder, segment_name};
use super::super::table::TableState;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::rewrite::{self, Rewrite};
use crate::segment::{Direct, SegmentMeta, WrittenSegment};
use crate::snapshot::SegmentRun;
use crate::symbols::{Dictionary, SymbolMark, SymbolTables};

/// Segments on their way; their files are removed on drop, unless they are kept.
pub(in super::super) struct NewSegments<'a> {
    database: &'a Database,
    table: &'a TableState,
    symbols: SymbolTables,
    dictionaries: Vec<(ColumnId, Arc<Dictionary>)>,
    written: Vec<WrittenSegment>,
    /// Of all files that were made, also of what has failed.
    paths: RefCell<Vec<PathBuf>>,
    is_kept: Cell<bool>,
}

impl<'a> NewSegments<'a> {
    pub(in super::super) fn new(
        database: &'a Database,
        table: &'a TableState,
    ) -> Result<NewSegments<'a>> {
        let (folder, manifest) = (&table.folder, &table.manifest);
        let opened = folder.open_dictionaries(&manifest.schema, &manifest.symbols)?;
        let symbols = opened.iter().map(|(&column, dictionary)| (column, dictionary.table()));
        Ok(NewSegments {
            database,
            table,
            symbols: symbols.collect(),
            dictionaries: opened.into_iter().collect(),
            written: Vec::new(),
            paths: RefCell::default(),
            is_kept: Cell::new(false),
        })
    }

    /// Writes the rows of these runs, which are adjacent (UP1), into new segments.
    pub(in super::super) fn write(&mut self, runs: &[Arc<SegmentRun>]) -> Result<()> {
        let schema = &self.table.manifest.schema;
        let rewrite = Rewrite { table: self.table.id(), schema, symbols: &self.symbols, runs };
        let mut new_segment = |partition| self.new_segment(partition);
        let written = rewrite::to_segments(&rewrite, &mut new_segment, &mut Direct)?;
        self.written.extend(written);
        Ok(())
    }

    fn new_segment(&self, partition: PartitionKey) -> Result<(SegmentId, Arc<dyn DiskFile>)> {
        let failed = Error::disk("make segment");
        let folder = &self.table.folder;
        let id = folder.new_segment_id();
        let dir = folder.paths().partition(&self.table.manifest.schema, partition);
        let path = dir.join(segment_name(id));
        self.paths.borrow_mut().push(path.clone());
        let disk = folder.disk();
        disk.create_dir_all(&dir).map_err(&failed)?;
        let file = disk.open(&path, OpenMode::CreateNew).map_err(&failed)?;
        Ok((id, file))
    }

    /// Makes everything durable that a commit is going to name (T3), and says how far the symbol
    /// files reach.
    pub(in super::super) fn sync(&self) -> Result<Vec<(ColumnId, SymbolMark)>> {
        let failed = Error::disk("sync segment");
        self.written.iter().try_for_each(|segment| segment.file.sync_data()).map_err(&failed)?;
        let mut marks = Vec::new();
        for (column, dictionary) in &self.dictionaries {
            let mark = dictionary.save()?;
            if mark.count > 0 {
                marks.push((*column, mark));
            }
        }
        if self.written.is_empty() && marks.is_empty() {
            return Ok(marks);
        }
        let failed = Error::disk("sync folder");
        let (disk, folder) = (self.table.folder.disk(), self.table.folder.paths());
        let schema = &self.table.manifest.schema;
        let partitions: BTreeSet<PartitionKey> =
            self.written.iter().map(|segment| segment.meta.partition).collect();
        for partition in partitions {
            disk.sync_dir(&folder.partition(schema, partition)).map_err(&failed)?;
        }
        disk.sync_dir(folder.root()).map_err(&failed)?;
        disk.sync_dir(&self.database.paths.tables()).map_err(&failed)?;
        Ok(marks)
    }

    /// The new segments, with the commits that their rows are of.
    pub(in super::super) fn metas(&self) -> Vec<SegmentMeta> {
        self.written.iter().map(|segment| segment.meta).collect()
    }

    /// How many bytes they have together.
    pub(in super::super) fn bytes(&self) -> u64 {
        self.written.iter().map(|segment| segment.meta.bytes.0).sum()
    }

    /// They are part of the table, or that is in doubt.
    pub(in super::super) fn keep(&self) {
        self.is_kept.set(true);
    }
}

impl Drop for NewSegments<'_> {
    fn drop(&mut self) {
        if !self.is_kept.get() {
            for path in self.paths.get_mut() {
                // If that fails, the next open removes it.
                let _ = self.table.folder.disk().remove(path);
            }
        }
    }
}

/// The rows of adjacent runs as one image; `None` if they are too many for one, or all gone.
pub(in super::super) fn image_of(
    (folder, schema): (&TableFolder, &Schema),
    marks: &BTreeMap<ColumnId, SymbolMark>,
    runs: &[Arc<SegmentRun>],
) -> Result<Option<Image>> {
    let has_symbols = schema.columns().iter().any(|column| column.ty == ColumnType::Symbol);
    let symbols =
        if has_symbols { folder.symbols(schema, marks)? } else { SymbolTables::default() };
    let rewrite = Rewrite { table: folder.table(), schema, symbols: &symbols, runs };
    let mut images = rewrite::to_images(&rewrite, &mut || folder.new_segment_id())?;
    Ok(images.pop().filter(|_| images.is_empty()))
}
