//! Group commit: who arrives while a sync is in flight shares the next one.
//!
//! - Q1. One thread at a time leads: it plans the wishes of all who wait, writes them as one group,
//!   and makes them visible once they are durable.
//! - Q2. What is visible is durable, in the order of the log.
//! - Q3. Every wish gets an answer, also if the leader panics.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_model::{SeqTxn, limits};

use super::Database;
use super::plan::{Changes, Overlay, Wish};
use crate::error::{Error, Result};
use crate::wal::{self, Fate, Record};

/// Why a wish was not fulfilled, and what a replay may find of it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: Error,
    pub(crate) fate: Fate,
}

/// Those who want to commit.
#[derive(Debug, Default)]
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    /// Something was answered, or nobody leads.
    turn: Condvar,
}

/// Bounded by the threads that wait in it.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Arc<Ticket>>,
    is_led: bool,
}

#[derive(Debug)]
struct Ticket {
    wish: Wish,
    answer: Mutex<Option<Result<SeqTxn, Refusal>>>,
}

/// The lead, and those it answers for (Q3).
struct Lead<'a> {
    committer: &'a Committer,
    group: Vec<Arc<Ticket>>,
}

/// A wish of the group that is on its way to the log.
struct Planned {
    ticket: Arc<Ticket>,
    record: Vec<u8>,
    seq_txn: SeqTxn,
}

impl Ticket {
    fn answer(&self, answer: Result<SeqTxn, Refusal>) {
        *lock(&self.answer) = Some(answer);
    }

    fn take(&self) -> Option<Result<SeqTxn, Refusal>> {
        lock(&self.answer).take()
    }
}

impl Committer {
    /// Commits a wish and returns its number in the table it is about: the first, if several.
    pub(super) fn commit(&self, database: &Database, wish: Wish) -> Result<SeqTxn, Refusal> {
        let ticket = Arc::new(Ticket { wish, answer: Mutex::new(None) });
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(Arc::clone(&ticket));
        loop {
            if let Some(answer) = ticket.take() {
                return answer;
            }
            if queue.is_led {
                queue = self.turn.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.is_led = true;
            let mut lead = Lead { committer: self, group: queue.waiting.drain(..).collect() };
            drop(queue);
            lead.commit(database);
            drop(lead);
            queue = lock(&self.queue);
        }
    }
}

impl Lead<'_> {
    fn commit(&mut self, database: &Database) {
        let mut log = match database.log.lock() {
            Ok(log) => log,
            // Whoever panicked while writing may have left a group half written.
            Err(_) => return,
        };
        let (mut planned, changes) = self.plan(database);
        if planned.is_empty() {
            return;
        }
        let records = planned.iter_mut().map(|planned| std::mem::take(&mut planned.record));
        let records: Vec<Vec<u8>> = records.collect();
        match log.append(&records) {
            Ok(()) => {
                database.publish(log.end(), changes);
                for planned in &planned {
                    planned.ticket.answer(Ok(planned.seq_txn));
                }
            }
            Err((cause, fate)) => {
                for planned in &planned {
                    let source = Arc::clone(&cause);
                    let error = match fate {
                        Fate::Lost => Error::NotCommitted { source },
                        Fate::InDoubt => Error::InDoubt { source },
                    };
                    planned.ticket.answer(Err(Refusal { error, fate }));
                }
            }
        }
    }

    /// Plans all wishes that fit one group, answers those that are refused, and puts the others
    /// back in front of the queue.
    fn plan(&mut self, database: &Database) -> (Vec<Planned>, Changes) {
        let tables = database.tables.read().unwrap_or_else(PoisonError::into_inner);
        let mut overlay = Overlay::new(&tables.tables);
        let (mut planned, mut bytes) = (Vec::new(), 0);
        let mut left = self.group.len();
        for (at, ticket) in self.group.iter().enumerate() {
            match plan_one(&overlay, &ticket.wish) {
                Err(error) => ticket.answer(Err(Refusal { error, fate: Fate::Lost })),
                Ok((record, encoded)) => {
                    if bytes + encoded.len() > wal::RECORDS_BYTES_MAX {
                        left = at;
                        break;
                    }
                    bytes += encoded.len();
                    overlay.apply(&ticket.wish, &record.ops);
                    let (ticket, seq_txn) = (Arc::clone(ticket), record.ops[0].seq_txn);
                    planned.push(Planned { ticket, record: encoded, seq_txn });
                }
            }
        }
        let later = self.group.split_off(left);
        let mut queue = lock(&self.committer.queue);
        for ticket in later.into_iter().rev() {
            queue.waiting.push_front(ticket);
        }
        (planned, overlay.into_changes())
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.committer.queue);
        for ticket in &self.group {
            let (error, fate) = (Error::CommitterPanicked, Fate::InDoubt);
            lock(&ticket.answer).get_or_insert(Err(Refusal { error, fate }));
        }
        queue.is_led = false;
        self.committer.turn.notify_all();
    }
}

impl Database {
    /// Makes a durable group visible (Q2), and lets go of what it replaces.
    fn publish(&self, lsn: tidegate_model::Lsn, changes: Changes) {
        let mut replaced = Vec::new();
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.lsn = lsn;
        for (id, table) in changes.tables {
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
        for (table, obsolete) in &changes.obsolete {
            table.discard(obsolete);
        }
        for table in &changes.dropped {
            table.discard_all();
        }
        // Files are removed here, without the lock, if nobody else has them.
        drop(replaced);
    }
}

/// The record that fulfils a wish, and its bytes.
fn plan_one(overlay: &Overlay<'_>, wish: &Wish) -> Result<(Record, Vec<u8>)> {
    let record = Record { ops: overlay.plan(wish)? };
    assert!(!record.ops.is_empty(), "nobody wishes for nothing");
    let bytes = wal::record_bytes_max(&record);
    if bytes > limits::WAL_RECORD_BYTES {
        return Err(Error::CommitTooLarge { bytes });
    }
    let encoded = wal::encode_record(&record);
    assert!(encoded.len() <= bytes, "a record is not longer than it may be");
    Ok((record, encoded))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Only whole values are put behind these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
