//! Segments that are not yet part of their table: writing them durably, and making them from runs.
//!
//! - write_import-3 as in `import`: before a record or a manifest names
//!   them, segments, their symbols, and the names of files and directories are on disk.
//!
//! Not here: segments of imported rows (`import`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{ColumnId, PartitionKey, Schema, SegmentId};
use tidegate_platform::{Disk, DiskFile, OpenMode};

use super::memtable::{MemtableRun, memtable_groups};
use super::parallel;
use super::state::TableState;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::files::TableDirectory;
use crate::rewrite::{self, Rewrite};
use crate::segment::{Direct, SegmentMeta, WrittenSegment};
use crate::snapshot::SegmentRun;
use crate::symbols::{Dictionary, SymbolTables, SymbolWatermark};

/// Segments that are open at a time. More of them sync no faster, and a process may have few files.
pub(crate) const OPEN_FILES_MAX: usize = 64;

/// Segments being written; their files are removed on drop, unless they are kept.
pub(crate) struct NewSegments<'a> {
    database: &'a Database,
    table: &'a TableState,
    symbols: SymbolTables,
    dictionaries: Vec<(ColumnId, Arc<Dictionary>)>,
    /// The segments written so far; at most `OPEN_FILES_MAX` are open, and those of the current
    /// call.
    written: Vec<WrittenSegment>,
    /// Paths of all files that were created, also of failed attempts.
    paths: RefCell<Vec<PathBuf>>,
    is_kept: Cell<bool>,
}

impl<'a> NewSegments<'a> {
    pub(crate) fn new(database: &'a Database, table: &'a TableState) -> Result<NewSegments<'a>> {
        let (directory, manifest) = (&table.directory, &table.manifest);
        let opened = directory.open_dictionaries(&manifest.schema, &manifest.symbols)?;
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

    /// Writes the rows of these runs, which are adjacent (maintenance-1), into new segments.
    pub(crate) fn write(&mut self, runs: &[Arc<SegmentRun>]) -> Result<()> {
        let schema = &self.table.manifest.schema;
        let rewrite = Rewrite { table: self.table.id(), schema, symbols: &self.symbols, runs };
        let mut new_segment = |partition| self.new_segment(partition);
        let written = rewrite::to_segments(&rewrite, &mut new_segment, &mut Direct)?;
        self.written.extend(written);
        self.database.segment_sync().settle_many(&mut self.written)
    }

    /// Writes the memtable of the table: for each run the rows that `left` returns.
    pub(crate) fn write_memtable(
        &mut self,
        left: &dyn Fn(&MemtableRun) -> Option<SegmentRun>,
    ) -> Result<()> {
        for group in memtable_groups(&self.table.memtable, &self.table.manifest.segments) {
            let runs: Vec<_> = group.iter().filter_map(|run| left(run)).map(Arc::new).collect();
            if !runs.is_empty() {
                self.write(&runs)?;
            }
        }
        Ok(())
    }

    fn new_segment(&self, partition: PartitionKey) -> Result<(SegmentId, Arc<dyn DiskFile>)> {
        let directory = &self.table.directory;
        let id = directory.new_segment_id();
        let path = directory.paths().new_segment(&self.table.manifest.schema, partition, id);
        self.paths.borrow_mut().push(path.clone());
        Ok((id, make_file(directory.disk(), &path)?))
    }

    /// Makes everything durable that a commit is going to name (write_import-3), and returns the
    /// watermarks of the symbol files.
    pub(crate) fn sync(&self) -> Result<Vec<(ColumnId, SymbolWatermark)>> {
        self.database.segment_sync().sync_files(&self.written)?;
        let dictionaries = self.dictionaries.iter();
        let watermarks = save_symbols(dictionaries.map(|(column, saved)| (*column, saved)))?;
        let metas = self.metas();
        if !metas.is_empty() || !watermarks.is_empty() {
            let (directory, schema) = (&self.table.directory, &self.table.manifest.schema);
            self.database.segment_sync().sync_names(directory, schema, &metas)?;
        }
        Ok(watermarks)
    }

    /// The table that they are for.
    pub(crate) fn table(&self) -> &TableState {
        self.table
    }

    /// The descriptions of the new segments, with their ranges of commits.
    pub(crate) fn metas(&self) -> Vec<SegmentMeta> {
        self.written.iter().map(|segment| segment.meta).collect()
    }

    /// The sum of their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.metas().iter().map(|meta| meta.bytes.0).sum()
    }

    /// Keeps the files: they are part of the table, or that is in doubt.
    pub(crate) fn keep(&self) {
        self.is_kept.set(true);
    }
}

impl Drop for NewSegments<'_> {
    fn drop(&mut self) {
        if !self.is_kept.get() {
            for path in self.paths.get_mut() {
                // If this fails, the next open removes it.
                let _ = self.table.directory.disk().remove(path);
            }
        }
    }
}

/// Syncs segments and names, several at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentSync<'a> {
    pub(crate) database: &'a Database,
}

impl SegmentSync<'_> {
    /// Syncs segments and closes their files if many are open: rows may be in more partitions than
    /// a process may have open files.
    pub(crate) fn settle_many(&self, segments: &mut [WrittenSegment]) -> Result<()> {
        // New segments are added at the end: the open ones follow the closed ones.
        let settled = segments.partition_point(|segment| segment.file.is_none());
        if segments.len() - settled < OPEN_FILES_MAX {
            return Ok(());
        }
        self.settle(&mut segments[settled..])
    }

    /// Syncs segments, several at a time, and closes their files.
    pub(crate) fn settle(&self, segments: &mut [WrittenSegment]) -> Result<()> {
        self.sync_files(segments)?;
        segments.iter_mut().for_each(|segment| segment.file = None);
        Ok(())
    }

    /// Syncs the segments that are open, several at a time.
    pub(crate) fn sync_files(&self, segments: &[WrittenSegment]) -> Result<()> {
        let open = segments
            .iter()
            .filter_map(|WrittenSegment { meta, file }| file.as_ref().map(|file| (meta, file)));
        let open: Vec<_> = open.collect();
        self.several_at_a_time(open.len(), &|at| {
            let (meta, file) = open[at];
            let length = file.len()?;
            assert_eq!(length, meta.bytes.0, "the length of segment {}", meta.id);
            file.sync_data()
        })
        .map_err(Error::disk("sync segment"))
    }

    /// Syncs all names that were created: segments, partitions, symbols, the table.
    pub(crate) fn sync_names(
        &self,
        directory: &TableDirectory,
        schema: &Schema,
        segments: &[SegmentMeta],
    ) -> Result<()> {
        let (disk, paths) = (&self.database.guarded, directory.paths());
        let partitions: BTreeSet<PartitionKey> =
            segments.iter().map(|meta| meta.partition).collect();
        let partitions: Vec<PartitionKey> = partitions.into_iter().collect();
        let failed = Error::disk("sync directory");
        self.several_at_a_time(partitions.len(), &|at| {
            disk.sync_dir(&paths.partition(schema, partitions[at]))
        })
        .map_err(&failed)?;
        disk.sync_dir(paths.root()).map_err(&failed)?;
        disk.sync_dir(&self.database.paths.tables()).map_err(&failed)
    }

    /// Runs an action `count` times, several at a time; it mostly waits for the disk.
    pub(crate) fn several_at_a_time<E: Send>(
        &self,
        count: usize,
        step: &(dyn Fn(usize) -> Result<(), E> + Sync),
    ) -> Result<(), E> {
        parallel::several_at_a_time(self.database.options.sync_threads, count, step)
    }
}

/// Creates the empty file of a segment, and the directory of its partition.
pub(crate) fn make_file(disk: &Arc<dyn Disk>, path: &Path) -> Result<Arc<dyn DiskFile>> {
    let dir = path.parent().expect("a segment is in the directory of its partition");
    let made = disk.create_dir_all(dir).and_then(|()| disk.open(path, OpenMode::CreateNew));
    made.map_err(Error::disk("make segment"))
}

/// Saves dictionaries, and returns their watermarks; a dictionary without symbols has no file.
pub(crate) fn save_symbols<'a>(
    dictionaries: impl Iterator<Item = (ColumnId, &'a Arc<Dictionary>)>,
) -> Result<Vec<(ColumnId, SymbolWatermark)>> {
    let mut saved = Vec::new();
    for (column, dictionary) in dictionaries {
        let watermark = dictionary.save()?;
        if watermark.count > 0 {
            saved.push((column, watermark));
        }
    }
    Ok(saved)
}
