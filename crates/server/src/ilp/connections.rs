//! The open connections that send lines, with their counters.
//!
//! - ilp_connections-1. A connection is in the list as long as it holds its entry.
//! - Counting costs an addition; only an error, and the list itself, take a lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_query::LineConnection;

/// The list of all connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Counts>>>,
}

/// A connection in the list (ilp_connections-1).
#[derive(Debug)]
pub(crate) struct Connected {
    all: Arc<Connections>,
    number: u64,
    counts: Arc<Counts>,
}

/// The counters of a connection.
#[derive(Debug)]
pub(crate) struct Counts {
    peer: String,
    since: i64,
    bytes: AtomicU64,
    committed: AtomicU64,
    /// The rows that were parsed; those that are not committed or lost are pending.
    taken: AtomicU64,
    lost: AtomicU64,
    rejected: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Connections {
    /// Adds a connection that begins at this microsecond.
    pub(crate) fn begin(self: &Arc<Self>, peer: &str, since: i64) -> Connected {
        let number = self.next.fetch_add(1, Relaxed);
        let counts = Arc::new(Counts {
            peer: peer.to_owned(),
            since,
            bytes: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            last_error: Mutex::default(),
        });
        lock(&self.open).insert(number, Arc::clone(&counts));
        Connected { all: Arc::clone(self), number, counts }
    }

    /// Returns the open connections, the oldest first.
    pub(crate) fn list(&self) -> Vec<LineConnection> {
        let open: Vec<Arc<Counts>> = lock(&self.open).values().cloned().collect();
        open.iter().map(|counts| counts.snapshot()).collect()
    }
}

impl Connected {
    pub(crate) fn bytes(&self, count: u64) {
        self.counts.bytes.fetch_add(count, Relaxed);
    }

    /// Counts rows that were parsed.
    pub(crate) fn taken(&self, rows: u64) {
        self.counts.taken.fetch_add(rows, Relaxed);
    }

    /// Counts rows that are durable.
    pub(crate) fn committed(&self, rows: u64) {
        self.counts.committed.fetch_add(rows, Relaxed);
    }

    /// Counts a line that was rejected, by the parser or by the commit.
    pub(crate) fn rejected(&self, why: String) {
        self.counts.rejected.fetch_add(1, Relaxed);
        *lock(&self.counts.last_error) = Some(why);
    }

    /// Counts more rejected lines, whose reasons are not known.
    pub(crate) fn rejected_more(&self, count: u64) {
        self.counts.rejected.fetch_add(count, Relaxed);
    }

    /// Counts rows that were parsed and will not be committed.
    pub(crate) fn lost(&self, rows: u64, why: Option<String>) {
        self.counts.lost.fetch_add(rows, Relaxed);
        if why.is_some() {
            *lock(&self.counts.last_error) = why;
        }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        lock(&self.all.open).remove(&self.number);
    }
}

impl Counts {
    fn snapshot(&self) -> LineConnection {
        let committed = self.committed.load(Relaxed);
        let ended = committed + self.lost.load(Relaxed);
        LineConnection {
            peer: self.peer.clone(),
            user: None,
            since: self.since,
            bytes: self.bytes.load(Relaxed),
            rows_committed: committed,
            rows_pending: self.taken.load(Relaxed).saturating_sub(ended),
            rows_rejected: self.rejected.load(Relaxed),
            last_error: lock(&self.last_error).clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Values behind these locks are replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_listed_as_long_as_it_is_there() {
        let all = Arc::new(Connections::default());
        let first = all.begin("1.2.3.4:5", 77);
        let second = all.begin("1.2.3.4:6", 78);
        first.bytes(100);
        first.taken(5);
        first.committed(3);
        second.rejected("bad".to_owned());
        second.taken(2);
        second.lost(2, Some("worse".to_owned()));
        let list = all.list();
        let [one, two] = list.as_slice() else { panic!("ilp_connections-1: {list:?}") };
        assert_eq!((one.peer.as_str(), one.since, one.bytes), ("1.2.3.4:5", 77, 100));
        assert_eq!((one.rows_committed, one.rows_pending), (3, 2));
        assert_eq!((two.rows_pending, two.rows_rejected), (0, 1));
        assert_eq!(two.last_error.as_deref(), Some("worse"));
        drop(first);
        assert_eq!(all.list().len(), 1, "ilp_connections-1");
        drop(second);
        assert!(all.list().is_empty(), "ilp_connections-1");
    }
}
