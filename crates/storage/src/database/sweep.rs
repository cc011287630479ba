//! Removes what nobody names: files of commits that never were, of tables that are gone, of spill.
//!
//! - Z1. Only names that we give are removed. What else somebody keeps in our folders stays.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidegate_platform::{DirEntry, Disk, OpenMode};

use super::folder::{Paths, TablePaths, is_ours};
use super::plan::Tables;
use crate::envelope::TEMPORARY;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Obsolete};
use crate::symbols;

/// Files and folders that are to be removed, but not yet.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub(super) files: BTreeSet<PathBuf>,
    pub(super) folders: BTreeSet<PathBuf>,
}

/// Removes files that no table names, except those in `keep`, empties the scratch folder, and cuts
/// symbol files to their marks.
pub(super) fn sweep(
    disk: &dyn Disk,
    paths: &Paths,
    tables: &Tables,
    keep: &Leftovers,
) -> Result<()> {
    let sweep = Sweep { disk, keep };
    let failed = Error::disk("empty scratch folder");
    disk.remove_dir_all(&paths.scratch()).map_err(&failed)?;
    disk.create_dir_all(&paths.scratch()).map_err(&failed)?;
    for entry in sweep.list(&paths.log())? {
        sweep.remove_if_temporary(&paths.log(), &entry)?;
    }
    for entry in sweep.list(&paths.tables())? {
        sweep.remove_if_temporary(&paths.tables(), &entry)?;
        let is_known = |id: u64| tables.by_id.contains_key(&tidegate_model::TableId(id));
        match entry.name.parse::<u64>() {
            Ok(id) if entry.is_dir && !is_known(id) && id.to_string() == entry.name => {
                sweep.remove_dir(&paths.tables().join(&entry.name))?;
            }
            _ => {}
        }
    }
    for table in tables.by_id.values() {
        sweep.sweep_table(table.folder.paths(), &table.manifest)?;
    }
    Ok(())
}

impl Leftovers {
    /// Removes them. Fine if they are already gone.
    pub(super) fn remove(&self, disk: &dyn Disk) -> Result<()> {
        let failed = Error::disk("remove what was dropped");
        self.files.iter().try_for_each(|path| disk.remove(path)).map_err(&failed)?;
        self.folders.iter().try_for_each(|path| disk.remove_dir_all(path)).map_err(&failed)
    }
}

struct Sweep<'a> {
    disk: &'a dyn Disk,
    keep: &'a Leftovers,
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

    fn remove(&self, path: &Path) -> Result<()> {
        if self.keep.files.contains(path) {
            return Ok(());
        }
        self.disk.remove(path).map_err(Error::disk("remove what nobody names"))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        if self.keep.folders.contains(path) {
            return Ok(());
        }
        self.disk.remove_dir_all(path).map_err(Error::disk("remove what nobody names"))
    }

    fn remove_if_temporary(&self, dir: &Path, entry: &DirEntry) -> Result<()> {
        if entry.is_dir || !entry.name.ends_with(TEMPORARY) {
            return Ok(());
        }
        self.remove(&dir.join(&entry.name))
    }

    fn sweep_table(&self, paths: &TablePaths, manifest: &Manifest) -> Result<()> {
        let entries = self.list(paths.root())?;
        if entries.is_empty() {
            return Ok(());
        }
        let schema = &manifest.schema;
        let mut named = BTreeSet::new();
        for entry in &manifest.segments {
            named.insert(paths.segment(schema, &entry.meta));
            let mask = entry.mask.map(|mark| Obsolete::Mask(entry.meta, mark));
            named.extend(mask.map(|mask| paths.obsolete(schema, &mask)));
        }
        for entry in entries {
            self.remove_if_temporary(paths.root(), &entry)?;
            let unit = schema.time_unit();
            if entry.is_dir && schema.partition_by().parse_name(&entry.name, unit).is_some() {
                self.sweep_partition(&paths.root().join(&entry.name), &named)?;
            }
        }
        self.sweep_symbols(&paths.symbols(), manifest)
    }

    fn sweep_partition(&self, dir: &Path, named: &BTreeSet<PathBuf>) -> Result<()> {
        let mut is_needed = false;
        for entry in self.list(dir)? {
            let path = dir.join(&entry.name);
            if named.contains(&path) || self.keep.files.contains(&path) || !is_ours(&entry.name) {
                is_needed = true;
            } else {
                self.remove(&path)?;
            }
        }
        if is_needed { Ok(()) } else { self.remove_dir(dir) }
    }

    fn sweep_symbols(&self, dir: &Path, manifest: &Manifest) -> Result<()> {
        for entry in self.list(dir)? {
            self.remove_if_temporary(dir, &entry)?;
            let Some(column) = symbols::parse_file_name(&entry.name) else { continue };
            let path = dir.join(&entry.name);
            match manifest.symbols.get(&column) {
                None => self.remove(&path)?,
                // Y4. A file that is shorter is for its reader to complain about.
                Some(mark) if mark.bytes < entry.bytes => {
                    let cut = self.disk.open(&path, OpenMode::ReadWrite);
                    cut.and_then(|file| file.set_len(mark.bytes))
                        .map_err(Error::disk("cut symbol file"))?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
