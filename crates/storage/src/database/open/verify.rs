//! Verification: reads everything on disk, and reports damage.
//!
//! An open database is read in its current state. A closed one is read from its files, including
//! the log; it may be too damaged to be opened.
//!
//! - verify-1. Damage is reported and never ends the work: the remaining files are read too.
//! - Nothing is written.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tidegate_model::{ByteCount, Lsn, RowCount, TableId};
use tidegate_platform::Disk;

use super::offline::{LoggedRows, OfflineTables};
use super::recovery::{check_catalog_copy, existing_catalog, lock_existing, read_manifest};
use super::repair::{lost_commits, read_log};
use super::repair_replay::LostCommits;
use crate::catalog::Catalog;
use crate::database::Database;
use crate::database::maintenance::retained_records;
use crate::database::table::state::TableState;
use crate::error::{Corruption, Error, Result};
use crate::files::{Paths, TableDirectory};
use crate::snapshot::{ScanGroup, SegmentRun, Snapshot};
use crate::wal::{self, LogSpan, TornGroup};

/// A segment that is about to be read.
#[derive(Debug, Clone, Copy)]
pub struct VerifyStep<'a> {
    /// The table's name.
    pub table: &'a str,
    /// The file.
    pub path: &'a Path,
    /// The size.
    pub bytes: ByteCount,
    /// Number of segments read before it.
    pub done: u64,
    /// Number of segments in total.
    pub total: u64,
}

/// The extent of a verification, and the damage found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Number of tables.
    pub tables: u64,
    /// Number of segments read.
    pub segments: u64,
    /// Number of their rows that are not deleted.
    pub rows: RowCount,
    /// Bytes of segments read.
    pub bytes: ByteCount,
    /// The damage; empty if there is none.
    pub problems: Vec<Error>,
    /// The bytes after the end of the log.
    pub torn: Option<TornGroup>,
    /// Commits after the damage of a log, as far as their records can be read.
    pub lost: Vec<LostCommits>,
}

/// Verifies an open database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verifier<'a> {
    pub(crate) database: &'a Database,
}

impl Verifier<'_> {
    /// Reads every byte: log, catalog, manifests, symbols, deletion vectors, segments. `on_segment`
    /// is called before each segment. Statements may run meanwhile; their commits are not read.
    pub(crate) fn verify(&self, on_segment: &dyn Fn(&VerifyStep<'_>)) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        self.verify_checkpoints(&mut report);
        let tables: Vec<Arc<TableState>> =
            self.database.published().tables.by_id.values().map(Arc::clone).collect();
        verify_tables(&tables, on_segment, &mut report);
        Ok(report)
    }

    /// Reads the checkpoints again, which were read when the database was opened.
    fn verify_checkpoints(&self, report: &mut VerifyReport) {
        // The lock keeps files from being purged or replaced meanwhile.
        let checkpoints = self.database.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let disk = self.database.guarded.as_ref();
        let damage =
            existing_catalog(disk, &self.database.paths).map_or_else(Some, |(_, damage)| damage);
        report.problems.extend(damage);
        report.problems.extend(check_catalog_copy(disk, &self.database.paths).err());
        // The directory of a table that was dropped since the checkpoint may no longer exist.
        let known = self.database.published().tables.by_id.clone();
        let suspended = known.values().filter_map(|table| table.check_known().err());
        report.problems.extend(suspended);
        for (&table, retained) in
            checkpoints.retained.iter().filter(|(table, _)| known.contains_key(table))
        {
            let (paths, log) = (&self.database.paths, self.database.log_id);
            let read = retained_records::read(disk, paths, log, table, *retained, &mut |_| Ok(()));
            report.problems.extend(read.err());
        }
        let is_written = |table: &&TableId| {
            let known = known.get(table).is_some_and(|table| table.damage().is_none());
            known && !checkpoints.retained.contains_key(table)
        };
        for &table in checkpoints.manifests.keys().filter(is_written) {
            match read_manifest(disk, &self.database.paths, table) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    report
                        .problems
                        .push(Error::missing(&self.database.paths.table(table).manifest()));
                }
                Err(error) => report.problems.push(error),
            }
        }
        let until = Some(self.database.published().lsn);
        let from = Lsn(self.database.checkpoint_lsn.load(Ordering::Acquire));
        let span = LogSpan { log: self.database.log_id, from, until };
        report.problems.extend(wal::verify(disk, &self.database.paths.log(), span));
    }
}

/// Reads every file of a database that no process has open, and writes nothing: no record is
/// replayed into a table, and no file is created or removed. If a file is damaged, the others are
/// read all the same.
///
/// # Errors
/// If another process has it open.
pub fn verify_offline(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    on_segment: &dyn Fn(&VerifyStep<'_>),
) -> Result<VerifyReport> {
    let paths = Paths::new(dir);
    let _lock = lock_existing(disk.as_ref(), &paths)?;
    let mut report = VerifyReport::default();
    let tables = match existing_catalog(disk.as_ref(), &paths) {
        Ok((catalog, damage)) => {
            report.problems.extend(damage);
            report.problems.extend(check_catalog_copy(disk.as_ref(), &paths).err());
            verify_catalog_offline(disk, &paths, &catalog, &mut report)?
        }
        Err(error) => {
            report.problems.push(error);
            verify_directories(disk, &paths, &mut report)?
        }
    };
    verify_tables(&tables, on_segment, &mut report);
    Ok(report)
}

/// The tables of a catalog with their records in the log, which is read completely.
fn verify_catalog_offline(
    disk: &Arc<dyn Disk>,
    paths: &Paths,
    catalog: &Catalog,
    report: &mut VerifyReport,
) -> Result<Vec<TableState>> {
    let aside = wal::aside_files(disk.as_ref(), &paths.log()).unwrap_or_default();
    report.problems.extend(aside.into_iter().map(|path| Error::RepairCutOff { path }));
    report.problems.extend(wal::read_head(disk.as_ref(), &paths.log(), catalog.log).err());
    let mut offline = OfflineTables::new(disk, paths, catalog, LoggedRows::Counted);
    let mut span = LogSpan { log: catalog.log, from: catalog.lsn, until: None };
    match read_log(disk.as_ref(), paths, catalog, &mut offline) {
        Ok(end) => {
            span.until = Some(end.lsn);
            report.torn = end.torn;
        }
        Err((error, damage)) => {
            report.problems.push(error);
            if let Some(damage) = damage {
                report.lost = lost_commits(disk, paths, catalog, &damage)?;
            }
        }
    }
    let mut of_log = wal::verify(disk.as_ref(), &paths.log(), span);
    // Errors that stop a replay are found by both.
    of_log.retain(|error| report.problems.iter().all(|known| !is_same_place(known, error)));
    report.problems.extend(of_log);
    let (tables, rows, problems) = offline.finish();
    report.rows = RowCount(rows);
    report.problems.extend(problems);
    Ok(tables)
}

fn is_same_place(a: &Error, b: &Error) -> bool {
    match (a, b) {
        (
            Error::Corrupt { path: a, offset: a_at, .. },
            Error::Corrupt { path: b, offset: b_at, .. },
        ) => (a, a_at) == (b, b_at),
        _ => a.to_string() == b.to_string(),
    }
}

/// The tables whose directories have manifests, if there is no catalog.
fn verify_directories(
    disk: &Arc<dyn Disk>,
    paths: &Paths,
    report: &mut VerifyReport,
) -> Result<Vec<TableState>> {
    let mut tables = Vec::new();
    for id in table_directories(disk.as_ref(), paths)? {
        match read_manifest(disk.as_ref(), paths, id) {
            Ok(Some(manifest)) => {
                let directory =
                    Arc::new(TableDirectory::new(disk, paths, id, manifest.next_segment));
                tables.push(TableState::new(directory, format!("#{id}"), manifest));
            }
            // A table that was created since the last checkpoint has none yet.
            Ok(None) => {}
            Err(error) => report.problems.push(error),
        }
    }
    Ok(tables)
}

fn table_directories(disk: &dyn Disk, paths: &Paths) -> Result<Vec<TableId>> {
    let entries = disk.list(&paths.tables()).map_err(Error::disk("list tables"))?;
    let ids = entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| {
        let id = TableId(entry.name.parse().ok()?);
        (id.to_string() == entry.name).then_some(id)
    });
    Ok(ids.collect())
}

fn verify_tables<T: Borrow<TableState>>(
    tables: &[T],
    on_segment: &dyn Fn(&VerifyStep<'_>),
    report: &mut VerifyReport,
) {
    let total = tables.iter().map(|table| table.borrow().run_count()).sum();
    for table in tables {
        report.tables += 1;
        let (readable, problems) = table.borrow().readable();
        report.problems.extend(problems);
        verify_table(&readable, total, on_segment, report);
    }
}

fn verify_table(
    snapshot: &Snapshot,
    total: u64,
    on_segment: &dyn Fn(&VerifyStep<'_>),
    report: &mut VerifyReport,
) {
    for group in &snapshot.groups {
        report.problems.extend(interleaved(group));
    }
    for run in snapshot.segments() {
        on_segment(&VerifyStep {
            table: &snapshot.name,
            path: run.path(),
            bytes: run.meta.bytes,
            done: report.segments,
            total,
        });
        report.segments += 1;
        report.rows = RowCount(report.rows.0 + run.rows().0);
        report.bytes = ByteCount(report.bytes.0 + run.meta.bytes.0);
        if let Err(error) = verify_segment(snapshot, run) {
            report.problems.push(error);
        }
    }
}

fn verify_segment(snapshot: &Snapshot, run: &SegmentRun) -> Result<()> {
    if let Some(deletion_vector) = &run.deletion_vector
        && deletion_vector.rows() != run.meta.rows
    {
        let (expected, actual) = (run.meta.rows.0, deletion_vector.rows().0);
        let what =
            Corruption::Differs { what: "the row count of its deletion vector", expected, actual };
        return Err(Error::Corrupt { path: run.path().to_path_buf(), offset: 0, what });
    }
    run.reader()?.verify(&snapshot.schema, &snapshot.symbols)
}

/// Checks that commits of segments that overlap in time do not interleave.
fn interleaved(group: &ScanGroup) -> Vec<Error> {
    let runs: Vec<&Arc<SegmentRun>> =
        group.runs.iter().map(|crate::Run::Segment(run)| run).collect();
    let wrong = runs.windows(2).filter(|pair| {
        let (a, b) = (&pair[0].meta, &pair[1].meta);
        (a.seq_first, a.seq_last) != (b.seq_first, b.seq_last) && a.seq_last >= b.seq_first
    });
    let error = |pair: &[&Arc<SegmentRun>]| {
        let what = "the first commit of an overlapping segment";
        let value = pair[1].meta.seq_first.0;
        let what = Corruption::Impossible { what, value };
        Error::Corrupt { path: pair[1].path().to_path_buf(), offset: 0, what }
    };
    wrong.map(error).collect()
}
