//! Finds what nobody names: files of commits that never were, of tables that are gone, of spill.
//!
//! - Z1. Only names that we give are found. What else somebody keeps in our folders stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidegate_model::TableId;
use tidegate_platform::{DirEntry, Disk, OpenMode};

use super::folder::{Paths, TablePaths, is_ours};
use super::plan::Tables;
use crate::envelope::TEMPORARY;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::symbols;

/// What is to be removed.
#[derive(Debug, Default, Clone)]
pub(super) struct Leftovers {
    pub(super) files: BTreeSet<PathBuf>,
    pub(super) folders: BTreeSet<PathBuf>,
    /// Symbol files that are longer than they should be, and their marks.
    pub(super) tails: BTreeMap<PathBuf, u64>,
}

/// Removes what is in the scratch folder, while nobody can have begun to use it.
pub(super) fn empty_scratch(disk: &dyn Disk, paths: &Paths) -> Result<()> {
    let mut sweep = Sweep { disk, litter: Leftovers::default() };
    for entry in sweep.list(&paths.scratch())? {
        let path = paths.scratch().join(&entry.name);
        if entry.is_dir {
            sweep.litter.folders.insert(path);
        } else {
            sweep.litter.files.insert(path);
        }
    }
    sweep.litter.remove(disk)
}

/// Finds files that no table names, and symbol files that are longer than their marks.
pub(super) fn find_litter(disk: &dyn Disk, paths: &Paths, tables: &Tables) -> Result<Leftovers> {
    let mut sweep = Sweep { disk, litter: Leftovers::default() };
    for entry in sweep.list(&paths.log())? {
        sweep.find_temporary(&paths.log(), &entry);
    }
    for entry in sweep.list(&paths.tables())? {
        sweep.find_temporary(&paths.tables(), &entry);
        let is_gone = |id: u64| !tables.by_id.contains_key(&TableId(id));
        match entry.name.parse::<u64>() {
            Ok(id) if entry.is_dir && is_gone(id) && id.to_string() == entry.name => {
                sweep.litter.folders.insert(paths.tables().join(&entry.name));
            }
            _ => {}
        }
    }
    for table in tables.by_id.values() {
        sweep.sweep_table(table.folder.paths(), &table.manifest)?;
    }
    Ok(sweep.litter)
}

impl Leftovers {
    /// All but these.
    pub(super) fn without(mut self, others: &Leftovers) -> Leftovers {
        self.files.retain(|path| !others.files.contains(path));
        let is_kept = |dir: &Path| others.files.iter().any(|path| path.starts_with(dir));
        self.folders.retain(|path| !others.folders.contains(path) && !is_kept(path));
        self
    }

    /// Removes them. Fine if they are already gone.
    pub(super) fn remove(&self, disk: &dyn Disk) -> Result<()> {
        let failed = Error::disk("remove what nobody names");
        self.files.iter().try_for_each(|path| disk.remove(path)).map_err(&failed)?;
        self.folders.iter().try_for_each(|path| disk.remove_dir_all(path)).map_err(&failed)?;
        for (path, &bytes) in &self.tails {
            let cut = disk.open(path, OpenMode::ReadWrite).and_then(|file| file.set_len(bytes));
            cut.map_err(&failed)?;
        }
        Ok(())
    }
}

struct Sweep<'a> {
    disk: &'a dyn Disk,
    litter: Leftovers,
}

impl Sweep<'_> {
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        match self.disk.list(dir) {
            Ok(entries) => Ok(entries),
            // A table without files has no folder.
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(Error::disk("look for files that nobody names")(error)),
        }
    }

    fn find_temporary(&mut self, dir: &Path, entry: &DirEntry) {
        if !entry.is_dir && entry.name.ends_with(TEMPORARY) {
            self.litter.files.insert(dir.join(&entry.name));
        }
    }

    fn sweep_table(&mut self, paths: &TablePaths, manifest: &Manifest) -> Result<()> {
        let entries = self.list(paths.root())?;
        if entries.is_empty() {
            return Ok(());
        }
        let schema = &manifest.schema;
        let mut named = BTreeSet::new();
        for entry in manifest.segments.iter() {
            named.insert(paths.segment(schema, &entry.meta));
            named.extend(entry.mask.map(|mark| paths.mask(schema, &entry.meta, &mark)));
        }
        for entry in entries {
            self.find_temporary(paths.root(), &entry);
            let unit = schema.time_unit();
            if entry.is_dir && schema.partition_by().parse_name(&entry.name, unit).is_some() {
                self.sweep_partition(paths.root().join(&entry.name), &named)?;
            }
        }
        self.sweep_symbols(&paths.symbols(), manifest)
    }

    fn sweep_partition(&mut self, dir: PathBuf, named: &BTreeSet<PathBuf>) -> Result<()> {
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
            self.litter.folders.insert(dir);
        }
        self.litter.files.extend(files);
        Ok(())
    }

    fn sweep_symbols(&mut self, dir: &Path, manifest: &Manifest) -> Result<()> {
        for entry in self.list(dir)? {
            self.find_temporary(dir, &entry);
            let Some(column) = symbols::parse_file_name(&entry.name) else { continue };
            let path = dir.join(&entry.name);
            match manifest.symbols.get(&column) {
                None => drop(self.litter.files.insert(path)),
                // Y4. A file that is shorter is for its reader to complain about.
                Some(mark) if mark.bytes < entry.bytes => {
                    self.litter.tails.insert(path, mark.bytes);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
