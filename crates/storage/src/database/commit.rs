//! Group commit: who arrives while a sync is in flight shares the next one.
//!
//! - Q1. One thread at a time leads: it plans the wishes of all who wait, writes them as one group,
//!   and makes them visible once they are durable.
//! - Q2. What is visible is durable, in the order of the log.
//! - Q3. Every wish gets an answer, also if the leader panics.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_model::{Lsn, SeqTxn, TableId, limits};

use super::Database;
use super::budget::TailBytes;
use super::plan::{Changes, Overlay, Plan, Wish};
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
    answer: Mutex<Option<Answer>>,
}

/// What came of a wish.
#[derive(Debug, Clone, Default)]
pub(crate) struct Committed {
    /// The commits of the tables that it was about.
    pub(crate) seq_txns: Vec<(TableId, SeqTxn)>,
    /// Whether they are its own, or those of an earlier one that was the same.
    pub(crate) is_new: bool,
}

type Answer = Result<Committed, Refusal>;

/// The lead, and those it answers for (Q3).
struct Lead<'a> {
    committer: &'a Committer,
    group: Vec<Arc<Ticket>>,
}

/// A wish of the group that is on its way to the log.
struct Planned {
    ticket: Arc<Ticket>,
    /// `None` if there is nothing for the log.
    record: Option<Vec<u8>>,
    committed: Committed,
}

impl Ticket {
    fn answer(&self, answer: Answer) {
        *lock(&self.answer) = Some(answer);
    }

    fn take(&self) -> Option<Answer> {
        lock(&self.answer).take()
    }
}

impl Committer {
    /// Commits a wish and returns its numbers in the tables that it is about.
    pub(super) fn commit(&self, database: &Database, wish: Wish) -> Answer {
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
        let (mut planned, changes) = self.plan(database, log.end());
        if planned.is_empty() {
            return;
        }
        let records: Vec<Vec<u8>> =
            planned.iter_mut().filter_map(|planned| planned.record.take()).collect();
        let written = if records.is_empty() { Ok(()) } else { log.append(&records) };
        match written {
            Ok(()) => {
                database.upkeep.add_log_bytes(records.iter().map(|bytes| bytes.len() as u64).sum());
                database.publish(log.end(), changes);
                for planned in &mut planned {
                    let committed = std::mem::take(&mut planned.committed);
                    planned.ticket.answer(Ok(committed));
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
    fn plan(&mut self, database: &Database, lsn: Lsn) -> (Vec<Planned>, Changes) {
        let tables = database.tables.read().unwrap_or_else(PoisonError::into_inner);
        let mut overlay = Overlay::new(&tables.tables, lsn);
        let (mut planned, mut bytes) = (Vec::new(), 0);
        let mut left = self.group.len();
        for (at, ticket) in self.group.iter().enumerate() {
            match plan_one(&overlay, &ticket.wish) {
                Err(error) => ticket.answer(Err(Refusal { error, fate: Fate::Lost })),
                Ok((Plan { ops, committed }, record)) => {
                    let record_bytes = record.as_ref().map_or(0, Vec::len);
                    if bytes + record_bytes > wal::RECORDS_BYTES_MAX {
                        left = at;
                        break;
                    }
                    bytes += record_bytes;
                    overlay.apply(&ticket.wish, &ops);
                    planned.push(Planned { ticket: Arc::clone(ticket), record, committed });
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
    fn publish(&self, lsn: Lsn, changes: Changes) {
        let mut replaced = Vec::new();
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.lsn = lsn;
        let mut tail_bytes = TailBytes::default();
        for (id, table) in changes.tables {
            tail_bytes.count(tables.tables.by_id.get(&id), table.as_ref());
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
        self.tails.change(&tail_bytes);
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

/// What fulfils a wish, and the bytes of its record, if it needs one.
fn plan_one(overlay: &Overlay<'_>, wish: &Wish) -> Result<(Plan, Option<Vec<u8>>)> {
    let Plan { ops, committed } = overlay.plan(wish)?;
    if ops.is_empty() {
        return Ok((Plan { ops, committed }, None));
    }
    let record = Record { ops };
    let bytes = wal::record_bytes_max(&record);
    if bytes > limits::WAL_RECORD_BYTES {
        return Err(Error::CommitTooLarge { bytes });
    }
    let encoded = wal::encode_record(&record);
    assert!(encoded.len() <= bytes, "a record is not longer than it may be");
    Ok((Plan { ops: record.ops, committed }, Some(encoded)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Only whole values are put behind these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
