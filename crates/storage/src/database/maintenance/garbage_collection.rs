//! Garbage collection: finds unreferenced files of failed commits, dropped tables, and spills.
//!
//! - garbage_collection-1. Only file names in our format are found. Other files in our directories
//!   stay.
//! - garbage_collection-2. A file that cannot be removed stops no work: its id is not reused, a
//!   file that is written under another name first replaces it, and bytes after a watermark belong
//!   to no commit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidegate_model::{SegmentId, TableId};
use tidegate_platform::{DirEntry, Disk, OpenMode};

use crate::checksummed_file::TEMPORARY;
use crate::database::table::Tables;
use crate::error::{Error, Result};
use crate::files::{Paths, TablePaths, is_ours, last_number};
use crate::manifest::Manifest;
use crate::symbols;

/// The files to be removed.
#[derive(Debug, Default, Clone)]
pub(crate) struct Garbage {
    pub(crate) files: BTreeSet<PathBuf>,
    pub(crate) directories: BTreeSet<PathBuf>,
    /// Symbol files that are longer than their watermarks, with the length that remains.
    pub(crate) truncations: BTreeMap<PathBuf, u64>,
}

/// Removes the content of the scratch directory, before any code can have started to use it.
pub(crate) fn empty_scratch(disk: &dyn Disk, paths: &Paths) -> Result<()> {
    let mut collector = Collector { disk, garbage: Garbage::default() };
    for entry in collector.list(&paths.scratch())? {
        let path = paths.scratch().join(&entry.name);
        if entry.is_dir {
            collector.garbage.directories.insert(path);
        } else {
            collector.garbage.files.insert(path);
        }
    }
    match collector.garbage.remove(disk).into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// Finds files that no table names, and symbol files that are longer than their watermarks.
/// Directories that cannot be listed are left out and returned as errors. A suspended table is
/// skipped.
pub(crate) fn find_garbage(
    disk: &dyn Disk,
    paths: &Paths,
    tables: &Tables,
) -> (Garbage, Vec<Error>) {
    let mut collector = Collector { disk, garbage: Garbage::default() };
    let mut failed = Vec::new();
    failed.extend(collector.collect_shared(paths, tables).err());
    for table in tables.by_id.values().filter(|table| table.damage().is_none()) {
        failed.extend(collector.collect_table(table.directory.paths(), &table.manifest).err());
    }
    (collector.garbage, failed)
}

impl Garbage {
    /// All except these.
    pub(crate) fn without(mut self, others: &Garbage) -> Garbage {
        self.files.retain(|path| !others.files.contains(path));
        let is_kept = |dir: &Path| others.files.iter().any(|path| path.starts_with(dir));
        self.directories.retain(|path| !others.directories.contains(path) && !is_kept(path));
        self
    }

    /// Removes them; files that do not exist are ignored. Returns the files that could not be
    /// removed, which are harmless unless a new file gets the same name (garbage_collection-2).
    pub(crate) fn remove(&self, disk: &dyn Disk) -> Vec<(PathBuf, Error)> {
        let mut left = Vec::new();
        let mut note = |path: &Path, purpose, done: tidegate_platform::Result<()>| {
            let error = done.map_err(Error::disk(purpose)).err();
            left.extend(error.map(|error| (path.to_path_buf(), error)));
        };
        for path in &self.files {
            note(path, "remove a file that no table names", disk.remove(path));
        }
        for path in &self.directories {
            note(path, "remove the directory of no table", disk.remove_dir_all(path));
        }
        for (path, &bytes) in &self.truncations {
            let cut = disk.open(path, OpenMode::ReadWrite).and_then(|file| file.set_len(bytes));
            note(path, "cut a symbol file where its table ends it", cut);
        }
        left
    }
}

/// The table that a path is in, and the id of the segment or deletion vector.
pub(crate) fn number_of(paths: &Paths, path: &Path) -> (Option<TableId>, Option<SegmentId>) {
    let inside = path.strip_prefix(paths.tables()).ok();
    let mut parts = inside.into_iter().flatten().filter_map(|part| part.to_str());
    let table = parts.next().and_then(|part| part.parse().ok()).map(TableId);
    (table, parts.next_back().and_then(last_number))
}

struct Collector<'a> {
    disk: &'a dyn Disk,
    garbage: Garbage,
}

impl Collector<'_> {
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        match self.disk.list(dir) {
            Ok(entries) => Ok(entries),
            // A table without files has no directory.
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(Error::disk("look for unreferenced files")(error)),
        }
    }

    fn collect_shared(&mut self, paths: &Paths, tables: &Tables) -> Result<()> {
        for entry in self.list(&paths.log())? {
            self.find_temporary(&paths.log(), &entry);
        }
        for entry in self.list(&paths.tables())? {
            self.find_temporary(&paths.tables(), &entry);
            let is_gone = |id: u64| !tables.by_id.contains_key(&TableId(id));
            match entry.name.parse::<u64>() {
                Ok(id) if entry.is_dir && is_gone(id) && id.to_string() == entry.name => {
                    self.garbage.directories.insert(paths.tables().join(&entry.name));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn find_temporary(&mut self, dir: &Path, entry: &DirEntry) {
        if !entry.is_dir && entry.name.ends_with(TEMPORARY) {
            self.garbage.files.insert(dir.join(&entry.name));
        }
    }

    fn collect_table(&mut self, paths: &TablePaths, manifest: &Manifest) -> Result<()> {
        let entries = self.list(paths.root())?;
        if entries.is_empty() {
            return Ok(());
        }
        let schema = &manifest.schema;
        let mut named = BTreeSet::new();
        for entry in manifest.segments.iter() {
            named.insert(paths.segment(schema, &entry.meta));
            named.extend(
                entry
                    .deletion_vector
                    .map(|vector| paths.deletion_vector(schema, &entry.meta, &vector)),
            );
        }
        for entry in entries {
            self.find_temporary(paths.root(), &entry);
            let unit = schema.time_unit();
            if entry.is_dir && schema.partition_by().parse_name(&entry.name, unit).is_some() {
                self.collect_partition(paths.root().join(&entry.name), &named)?;
            }
        }
        self.collect_symbols(&paths.symbols(), manifest)
    }

    fn collect_partition(&mut self, dir: PathBuf, named: &BTreeSet<PathBuf>) -> Result<()> {
        let mut files: Vec<PathBuf> = Vec::new();
        let entries = self.list(&dir)?;
        let count = entries.len();
        for entry in entries.into_iter().filter(|entry| is_ours(&entry.name)) {
            let path = dir.join(&entry.name);
            if !named.contains(&path) {
                files.push(path);
            }
        }
        if files.len() == count {
            self.garbage.directories.insert(dir);
        }
        self.garbage.files.extend(files);
        Ok(())
    }

    fn collect_symbols(&mut self, dir: &Path, manifest: &Manifest) -> Result<()> {
        for entry in self.list(dir)? {
            self.find_temporary(dir, &entry);
            let Some(column) = symbols::parse_file_name(&entry.name) else { continue };
            let path = dir.join(&entry.name);
            match manifest.symbols.get(&column) {
                None => drop(self.garbage.files.insert(path)),
                // symbols-4. A file that is shorter is reported by its reader.
                Some(watermark) if watermark.bytes < entry.bytes => {
                    self.garbage.truncations.insert(path, watermark.bytes);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
