//! Repair of a damaged log: it ends at the damage, and the intact records after that are added
//! again, so that the database can be opened.
//!
//! - open_repair-1. Only a log that opening refuses is changed, and no bytes of it are removed: the
//!   parts that are given up stay in log files that end in `.lost`, and in the directory `lost`. In
//!   others, only bytes that no record has and that must be zero are set to zero.
//! - open_repair-2. A crash at any moment leaves a log that opening refuses as before, or a
//!   repaired one.
//!
//! Bytes: docs/format.md, Log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::Lsn;
use tidegate_platform::{Disk, OpenMode};

use super::missing_flush::LaterRecords;
use super::offline::{LoggedRows, OfflineTables};
use super::recovery::{existing_catalog, lock_existing};
use super::repair_replay::{DroppedTable, Mending, RepairReplay};
use crate::catalog::Catalog;
use crate::checksummed_file::TEMPORARY;
use crate::database::maintenance::garbage_collection;
use crate::database::open::repair_replay::LostCommits;
use crate::database::table::Tables;
use crate::error::{Corruption, Error, Result};
use crate::files::Paths;
use crate::wal::{self, GivenUp, LogSpan, NewFile, Progress};

/// The result of a repair.
#[derive(Debug)]
pub struct LogRepair {
    /// The reason why opening refused the log.
    pub damage: Error,
    /// The commits that were given up, as far as their records could be read.
    pub lost: Vec<LostCommits>,
    /// Tables without manifests or files, because a missing commit dropped them.
    pub dropped: Vec<String>,
    /// The files and directories with the bytes that were given up (open_repair-1).
    pub saved_files: Vec<PathBuf>,
}

/// The place of the damage in a log.
pub(crate) struct LogDamage {
    pub(crate) error: Error,
    /// The end of the readable part.
    lsn: Lsn,
    path: PathBuf,
}

/// Reads the log into the tables, and returns its end or its damage.
pub(crate) fn read_log(
    disk: &dyn Disk,
    paths: &Paths,
    catalog: &Catalog,
    offline: &mut OfflineTables<'_>,
) -> Result<wal::LogEnd, (Error, Option<Box<LogDamage>>)> {
    let (dir, from) = (paths.log(), catalog.lsn);
    let span = LogSpan { log: catalog.log, from, until: None };
    let mut progress = Progress { lsn: from, path: dir.clone(), is_damaged: false };
    let read =
        wal::replay_with(disk, &dir, span, &mut |record| offline.apply(&record), &mut progress);
    let (lsn, path) = (progress.lsn, progress.path);
    match read {
        Ok(end) if catalog.as_of <= end.lsn => Ok(end),
        Ok(end) => {
            let what = Corruption::Differs {
                what: "the end of the log",
                expected: catalog.as_of.0,
                actual: end.lsn.0,
            };
            let corrupt = |path| Error::Corrupt { path, offset: 0, what: what.clone() };
            let error = corrupt(path.clone());
            Err((corrupt(path.clone()), Some(Box::new(LogDamage { error, lsn, path }))))
        }
        Err(error @ Error::Corrupt { .. }) if progress.is_damaged => {
            let Error::Corrupt { path: named, offset, what } = &error else { unreachable!() };
            let copy = Error::Corrupt { path: named.clone(), offset: *offset, what: what.clone() };
            Err((copy, Some(Box::new(LogDamage { error, lsn, path }))))
        }
        Err(error) => Err((error, None)),
    }
}

/// The commits that a repair would give up.
pub(crate) fn lost_commits(
    disk: &Arc<dyn Disk>,
    paths: &Paths,
    catalog: &Catalog,
    damage: &LogDamage,
) -> Result<Vec<LostCommits>> {
    let mut offline = OfflineTables::new(disk, paths, catalog, LoggedRows::Kept);
    drop(read_log(disk.as_ref(), paths, catalog, &mut offline));
    let later = later_records(disk.as_ref(), paths, catalog, damage)?;
    let mut replay = RepairReplay::new(&mut offline, disk, paths, catalog.as_of, &later);
    replay.drop_again(&|table| !later.has(table));
    wal::read_after_damage(
        disk.as_ref(),
        &paths.log(),
        catalog.log,
        damage.lsn,
        &mut |lsn, after| {
            replay.take(lsn, &after);
            Ok(())
        },
    )?;
    replay.drop_again(&|_| true);
    replay.mend(Mending::Nothing)?;
    Ok(replay.lost())
}

/// The changes of segments in the intact records after the damage.
fn later_records(
    disk: &dyn Disk,
    paths: &Paths,
    catalog: &Catalog,
    damage: &LogDamage,
) -> Result<LaterRecords> {
    let mut later = LaterRecords::default();
    wal::read_after_damage(disk, &paths.log(), catalog.log, damage.lsn, &mut |_, after| {
        later.add(&after);
        Ok(())
    })?;
    Ok(later)
}

/// Ends a damaged log at its damage. Without damage nothing is done, and `None` is returned.
///
/// # Errors
/// If another process has the database open, or the damage is not in the log.
pub fn repair_log(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Option<LogRepair>> {
    let paths = Paths::new(dir);
    let _lock = lock_existing(disk.as_ref(), &paths)?;
    let (catalog, _) = existing_catalog(disk.as_ref(), &paths)?;
    let log = paths.log();
    wal::end_cut_off_repair(disk.as_ref(), &log)?;
    let mut offline = OfflineTables::new(disk, &paths, &catalog, LoggedRows::Counted);
    let damage = match read_log(disk.as_ref(), &paths, &catalog, &mut offline) {
        Ok(_) => return Ok(None),
        Err((_, Some(damage))) => damage,
        Err((error, None)) => return Err(error),
    };
    // Once more, with the rows for the search of their files.
    let mut offline = OfflineTables::new(disk, &paths, &catalog, LoggedRows::Kept);
    drop(read_log(disk.as_ref(), &paths, &catalog, &mut offline));
    let given_up = GivenUp {
        log: catalog.log,
        bad: damage.lsn,
        damaged: &damage.path,
        first: damage.lsn.max(catalog.as_of),
    };
    let later = later_records(disk.as_ref(), &paths, &catalog, &damage)?;
    let mut file = NewFile::begin(disk.as_ref(), &log, &given_up)?;
    let mut replay = RepairReplay::new(&mut offline, disk, &paths, catalog.as_of, &later);
    let mut dropped = Vec::new();
    let mut push_dropped = |file: &mut NewFile<'_>, again: Vec<DroppedTable>| {
        again.into_iter().try_for_each(|DroppedTable { name, record }| {
            dropped.push(name);
            file.push(record)
        })
    };
    push_dropped(&mut file, replay.drop_again(&|table| !later.has(table)))?;
    wal::read_after_damage(disk.as_ref(), &log, catalog.log, damage.lsn, &mut |lsn, after| {
        replay.take(lsn, &after).into_iter().try_for_each(|record| file.push(record))
    })?;
    push_dropped(&mut file, replay.drop_again(&|_| true))?;
    replay.mend(Mending::Files)?.into_iter().try_for_each(|record| file.push(record))?;
    let lost = replay.lost();
    file.finish(disk.as_ref(), &log)?;
    let mut saved_files = save_unnamed(disk, &paths, offline, damage.lsn)?;
    saved_files.extend(file.publish(disk.as_ref(), &log)?);
    Ok(Some(LogRepair { damage: damage.error, lost, dropped, saved_files }))
}

/// Sets bytes of a log to zero that no record has and that must be zero, and returns the damage
/// that is removed so. A damaged log is left as it is.
///
/// # Errors
/// If another process has the database open, or a file cannot be read or written.
pub fn clear_unused_log(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Vec<Error>> {
    let paths = Paths::new(dir);
    let _lock = lock_existing(disk.as_ref(), &paths)?;
    let (catalog, _) = existing_catalog(disk.as_ref(), &paths)?;
    let mut offline = OfflineTables::new(disk, &paths, &catalog, LoggedRows::Counted);
    match read_log(disk.as_ref(), &paths, &catalog, &mut offline) {
        Ok(end) => {
            let span = LogSpan { log: catalog.log, from: catalog.lsn, until: Some(end.lsn) };
            wal::clear_unused(disk.as_ref(), &paths.log(), span)
        }
        Err(_) => Ok(Vec::new()),
    }
}

/// Moves files away that only commits after the damage name: opening would remove them.
fn save_unnamed(
    disk: &Arc<dyn Disk>,
    paths: &Paths,
    offline: OfflineTables<'_>,
    lsn: Lsn,
) -> Result<Vec<PathBuf>> {
    // Without its manifest the files of a table cannot be judged: they stay.
    let (tables, _, _) = offline.finish();
    let by_id = tables.into_iter().map(|table| (table.id(), Arc::new(table))).collect();
    let tables = Tables { by_id, by_name: BTreeMap::new() };
    let (garbage, unlisted) = garbage_collection::find_garbage(disk.as_ref(), paths, &tables);
    if let Some(error) = unlisted.into_iter().next() {
        return Err(error);
    }
    let failed = Error::disk("keep files that are given up");
    let home = paths.root().join("lost").join(lsn.0.to_string());
    let mut saved = Vec::new();
    let place = |path: &Path| {
        let inside = path.strip_prefix(paths.root()).expect("it is a file of the database");
        home.join(inside)
    };
    let of_directories =
        |path: &&PathBuf| !garbage.directories.iter().any(|directory| path.starts_with(directory));
    let is_whole = |path: &&PathBuf| !path.to_string_lossy().ends_with(TEMPORARY);
    let files = garbage.files.iter().filter(is_whole).filter(of_directories);
    for path in files.chain(&garbage.directories) {
        let to = place(path);
        let parent = to.parent().expect("it is in a directory");
        disk.create_dir_all(parent).map_err(&failed)?;
        disk.rename(path, &to).map_err(&failed)?;
        saved.push(to);
    }
    // Symbols that only those files use are cut off by the next open.
    for path in garbage.truncations.keys() {
        let to = place(path);
        let parent = to.parent().expect("it is in a directory");
        disk.create_dir_all(parent).map_err(&failed)?;
        let bytes = disk.read(path).map_err(&failed)?;
        let file = disk.open(&to, OpenMode::CreateOrTruncate).map_err(&failed)?;
        file.write_all_at(&bytes, 0).and_then(|()| file.sync_data()).map_err(&failed)?;
        saved.push(to);
    }
    Ok(saved)
}
