//! Group commit: commits that arrive during a sync share the next one.
//!
//! - Q1. One thread at a time leads: it plans the commit requests of all waiting threads, writes
//!   them as one group, and makes them visible once they are as durable as requested (W2).
//! - Q2. Visible commits are in the log, in its order.
//! - Q3. Every commit request gets an answer, even if the leader panics.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_model::{Lsn, SeqTxn, TableId, limits};

use super::Database;
use super::budget::MemtableBytes;
use super::plan::{Changes, CommitRequest, PendingTables, PlannedCommit};
use super::sync::Outdated;
use crate::error::{Error, Result};
use crate::wal::{self, CommitOutcome, Record, TableChange};

/// The reason why a commit failed, and whether a replay may find it.
#[derive(Debug)]
pub(crate) struct CommitError {
    pub(crate) error: Error,
    pub(crate) outcome: CommitOutcome,
}

/// The queue of commit requests and their leader.
#[derive(Debug, Default)]
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    /// Notified after answers, and when there is no leader.
    turn: Condvar,
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

/// The result of a commit request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Committed {
    /// The number of the commit in each of its tables.
    pub(crate) seq_txns: Vec<(TableId, SeqTxn)>,
    /// False if it is an earlier commit of the same batch.
    pub(crate) is_new: bool,
}

type Answer = Result<Committed, CommitError>;

/// The leader of a group, and the requests that it must answer (Q3).
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
    /// Commits a request and returns its numbers in its tables.
    pub(super) fn commit(&self, database: &Database, request: CommitRequest) -> Answer {
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
            leader.commit(database);
            drop(leader);
            queue = lock(&self.queue);
        }
    }
}

impl GroupLeader<'_> {
    fn commit(&mut self, database: &Database) {
        let mut log = match database.log.lock() {
            Ok(log) => log,
            // A thread that panicked while writing may have left an incomplete group.
            Err(_) => return,
        };
        let PlannedGroup { commits, records, changes } = self.plan(database, log.end());
        if commits.is_empty() {
            return;
        }
        let mut written = if records.is_empty() { Ok(Vec::new()) } else { log.append(&records) };
        if let Err((error, CommitOutcome::NotCommitted)) = &written
            && database.may_have_space_after(error)
            && !records.iter().any(has_rows)
        {
            // BA1: the freed space is not for rows.
            written = log.append(&records);
        }
        database.note_log(&log);
        match written {
            Ok(shares) => {
                database.maintenance.add_log_bytes(shares.iter().map(|(_, bytes)| bytes).sum());
                database.publish(log.end(), changes);
                database.count_log_bytes(&shares);
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
    fn plan(&mut self, database: &Database, lsn: Lsn) -> PlannedGroup {
        let tables = database.tables.read().unwrap_or_else(PoisonError::into_inner);
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

impl Database {
    /// Makes a group visible (Q2), and drops the versions that it replaces.
    fn publish(&self, lsn: Lsn, changes: Changes) {
        let mut replaced = Vec::new();
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
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
