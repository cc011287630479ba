//! Group commit: commits that arrive during a sync share the next one.
//!
//! - commit_group-1. One thread at a time leads: it plans the commit requests of all waiting
//!   threads, writes them as one group, and makes them visible once they are as durable as
//!   requested (wal-2).
//! - commit_group-2. Visible commits are in the log, in its order.
//! - commit_group-3. Every commit request gets an answer, even if the leader panics.

mod sync;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use tidegate_model::{Lsn, TableId, limits};

use super::plan::{Changes, PendingTables};
use super::request::{CommitError, CommitRequest, Committed, PlannedCommit, Replace};
use crate::change::TableChange;
use crate::database::Database;
use crate::database::table::Tables;
use crate::database::table::budget::{MemtableBudget, MemtableBytes};
use crate::database::table::new_segments::NewSegments;
use crate::database::table::state::TableState;
use crate::error::{Error, Result};
use crate::wal::{self, CommitOutcome, Log, Record};
use sync::{Outdated, Syncs};

/// The queue of commit requests and their leader.
#[derive(Debug)]
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    /// Notified after answers, and when there is no leader.
    turn: Condvar,
    /// Locked by the leader of a group commit. Code that locks the checkpoints too locks them
    /// first.
    pub(crate) log: Mutex<Log>,
    published: RwLock<Published>,
    /// The position up to which everything is on disk.
    pub(super) durable_lsn: AtomicU64,
    /// True after a failed commit: no other can be made before the log is repaired.
    pub(super) is_log_broken: AtomicBool,
    /// The state of syncs of the log.
    pub(super) syncs: Syncs,
    memtable_budget: Arc<MemtableBudget>,
    /// Bytes of records that were written to the log.
    log_bytes: AtomicU64,
}

/// The state that is visible to all readers.
#[derive(Debug)]
pub(crate) struct Published {
    /// The position after the last commit.
    pub(crate) lsn: Lsn,
    pub(crate) tables: Tables,
    pub(crate) schema_epoch: u64,
}

/// Bounded by the number of waiting threads.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Arc<PendingCommit>>,
    is_led: bool,
}

#[derive(Debug)]
struct PendingCommit {
    request: CommitRequest,
    answer: Mutex<Option<Answer>>,
}

type Answer = Result<Committed, CommitError>;

/// Returns true if there may be space for a write that has failed with this error.
pub(crate) type MayHaveSpace<'a> = dyn Fn(&Error) -> bool + 'a;

/// The leader of a group, and the requests that it must answer (commit_group-3).
struct GroupLeader<'a> {
    committer: &'a Committer,
    group: Vec<Arc<PendingCommit>>,
}

/// A group on its way to the log.
struct PlannedGroup {
    /// The requests of the group, and their answers on success.
    commits: Vec<(Arc<PendingCommit>, Committed)>,
    /// The records of those requests that need one.
    records: Vec<Record>,
    changes: Changes,
}

impl PendingCommit {
    fn answer(&self, answer: Answer) {
        *lock(&self.answer) = Some(answer);
    }

    fn take(&self) -> Option<Answer> {
        lock(&self.answer).take()
    }
}

impl Committer {
    /// A committer to a log, with the tables as of its end.
    pub(crate) fn new(
        log: Log,
        tables: Tables,
        memtable_budget: &Arc<MemtableBudget>,
    ) -> Committer {
        Committer {
            queue: Mutex::default(),
            turn: Condvar::new(),
            durable_lsn: AtomicU64::new(log.durable().0),
            is_log_broken: AtomicBool::new(false),
            syncs: Syncs::default(),
            published: RwLock::new(Published { lsn: log.end(), tables, schema_epoch: 0 }),
            log: Mutex::new(log),
            memtable_budget: Arc::clone(memtable_budget),
            log_bytes: AtomicU64::new(0),
        }
    }

    /// The current state of all tables.
    pub(crate) fn published(&self) -> RwLockReadGuard<'_, Published> {
        // One thread at a time changes it, in a function that does not panic half-way.
        self.published.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current state of a table.
    pub(crate) fn table_state(&self, id: TableId) -> Option<Arc<TableState>> {
        self.published().tables.by_id.get(&id).map(Arc::clone)
    }

    /// Bytes of records that were written to the log since the database was opened.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// Commits a request and returns its numbers in its tables. `may_have_space` is asked after a
    /// write without space, and returns true if there may be some now.
    pub(crate) fn commit(
        &self,
        request: CommitRequest,
        may_have_space: &MayHaveSpace<'_>,
    ) -> Answer {
        let pending = Arc::new(PendingCommit { request, answer: Mutex::new(None) });
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(Arc::clone(&pending));
        loop {
            if let Some(answer) = pending.take() {
                return answer;
            }
            if queue.is_led {
                queue = self.turn.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.is_led = true;
            let mut leader =
                GroupLeader { committer: self, group: queue.waiting.drain(..).collect() };
            drop(queue);
            leader.commit(may_have_space);
            drop(leader);
            queue = lock(&self.queue);
        }
    }

    /// Makes a group visible (commit_group-2), and drops the versions that it replaces.
    fn publish(&self, lsn: Lsn, changes: Changes) {
        let mut replaced = Vec::new();
        let mut tables = self.published.write().unwrap_or_else(PoisonError::into_inner);
        tables.lsn = lsn;
        let mut memtable_bytes = MemtableBytes::default();
        for (id, table) in changes.tables {
            memtable_bytes.count(tables.tables.by_id.get(&id), table.as_ref());
            replaced.extend(match table {
                Some(table) => tables.tables.by_id.insert(id, table),
                None => tables.tables.by_id.remove(&id),
            });
        }
        for (name, id) in changes.names {
            match id {
                Some(id) => tables.tables.by_name.insert(name, id),
                None => tables.tables.by_name.remove(&name),
            };
        }
        tables.schema_epoch += changes.ddl_count;
        drop(tables);
        self.memtable_budget.change(&memtable_bytes);
        self.discard_when_durable(lsn, Outdated::new(changes.obsolete, changes.dropped));
        // Files are removed here, without the lock, if no snapshot has them.
        drop(replaced);
    }

    /// Adds the bytes in the log to the counts of these tables.
    fn count_log_bytes(&self, shares: &[(TableId, u64)]) {
        self.log_bytes.fetch_add(shares.iter().map(|(_, bytes)| bytes).sum(), Ordering::Relaxed);
        for &(table, bytes) in shares {
            // A table that was dropped meanwhile is skipped.
            if let Some(table) = self.table_state(table) {
                table.directory.writes().add_log(bytes);
            }
        }
    }
}

impl GroupLeader<'_> {
    fn commit(&mut self, may_have_space: &MayHaveSpace<'_>) {
        let committer = self.committer;
        let mut log = match committer.log.lock() {
            Ok(log) => log,
            // A thread that panicked while writing may have left an incomplete group.
            Err(_) => return,
        };
        let PlannedGroup { commits, records, changes } = self.plan(log.end());
        if commits.is_empty() {
            return;
        }
        let mut written = if records.is_empty() { Ok(Vec::new()) } else { log.append(&records) };
        if let Err((error, CommitOutcome::NotCommitted)) = &written
            && may_have_space(error)
            && !records.iter().any(has_rows)
        {
            // ballast-1: the freed space is not for rows.
            written = log.append(&records);
        }
        committer.note_log(&log);
        match written {
            Ok(shares) => {
                committer.publish(log.end(), changes);
                committer.count_log_bytes(&shares);
                for (pending, committed) in commits {
                    pending.answer(Ok(committed));
                }
            }
            Err((cause, outcome)) => {
                for (pending, _) in commits {
                    let source = Arc::clone(&cause);
                    let error = match outcome {
                        CommitOutcome::NotCommitted => Error::NotCommitted { source },
                        CommitOutcome::InDoubt => Error::InDoubt { source },
                    };
                    pending.answer(Err(CommitError { error, outcome }));
                }
            }
        }
    }

    /// Plans all requests that fit one group, answers those that are refused, and returns the
    /// others to the front of the queue.
    fn plan(&mut self, lsn: Lsn) -> PlannedGroup {
        let tables = self.committer.published();
        let mut pending_tables = PendingTables::new(&tables.tables, lsn);
        let (mut commits, mut records, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut left = self.group.len();
        for (at, pending) in self.group.iter().enumerate() {
            match plan_one(&pending_tables, &pending.request) {
                Err(error) => {
                    pending.answer(Err(CommitError { error, outcome: CommitOutcome::NotCommitted }))
                }
                Ok((_, record_bytes)) if bytes + record_bytes > wal::RECORDS_BYTES_MAX => {
                    left = at;
                    break;
                }
                Ok((PlannedCommit { ops, committed }, record_bytes)) => {
                    bytes += record_bytes;
                    pending_tables.apply(&pending.request, &ops);
                    commits.push((Arc::clone(pending), committed));
                    if !ops.is_empty() {
                        records.push(Record { ops });
                    }
                }
            }
        }
        let later = self.group.split_off(left);
        let mut queue = lock(&self.committer.queue);
        for pending in later.into_iter().rev() {
            queue.waiting.push_front(pending);
        }
        PlannedGroup { commits, records, changes: pending_tables.into_changes() }
    }
}

impl Drop for GroupLeader<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.committer.queue);
        for pending in &self.group {
            let (error, outcome) = (Error::CommitterPanicked, CommitOutcome::InDoubt);
            lock(&pending.answer).get_or_insert(Err(CommitError { error, outcome }));
        }
        queue.is_led = false;
        self.committer.turn.notify_all();
    }
}

/// Replaces the input of a rewrite by the new segments, whose files are kept if a replay may find
/// the commit.
pub(crate) fn commit_rewritten(
    database: &Database,
    replace: Replace,
    written: &NewSegments<'_>,
) -> Result<()> {
    match database.commit(CommitRequest::Replace(replace)) {
        Ok(_) => {
            written.keep();
            Ok(())
        }
        Err(CommitError { error, outcome }) => {
            if outcome == CommitOutcome::InDoubt {
                written.keep();
            }
            Err(error)
        }
    }
}

/// The plan of a commit request, and the maximal bytes of its record.
fn plan_one(
    pending_tables: &PendingTables<'_>,
    request: &CommitRequest,
) -> Result<(PlannedCommit, usize)> {
    let planned = pending_tables.plan(request)?;
    let bytes = wal::record_bytes_max(&planned.ops);
    if bytes > limits::WAL_RECORD_BYTES {
        return Err(Error::CommitTooLarge { bytes });
    }
    Ok((planned, bytes))
}

/// Returns true if a record writes rows to the log.
fn has_rows(record: &Record) -> bool {
    record.ops.iter().any(|op| matches!(op.change, TableChange::Append { .. }))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Only whole values are stored behind these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
