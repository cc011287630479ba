//! The idempotency cache: answers to requests with an `Idempotency-Key`, so that a repeat gets the
//! same answer.
//!
//! - idempotency_cache-1. An answer is kept for `ilp.idempotency_window`, unless more than
//!   `BYTES_MAX` of them are kept: then the oldest are dropped. Applying a request once does not
//!   depend on this cache: its tables store its key (`storage`), also across a restart of the
//!   server.
//! - idempotency_cache-2. A key stands for one request: its text, precision and user (`Content`). A
//!   different request with the same key is refused while the first one runs and for the window
//!   after it, also across a restart; later, as long as one of its tables stores the key.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use tidegate_storage::BatchId;
use tokio::time::Instant;

use super::commit::{NamedBatch, batch_name, older_batch_id};

/// The most bytes of kept answers and keys.
const BYTES_MAX: usize = 16 << 20;
/// The bytes of an entry besides its text and key.
const ENTRY_BYTES: usize = 160;
/// The most batches that are read from tables at the start: some ten megabytes.
const RESTORED_MAX: usize = 256 << 10;

/// The cache of answers, by key.
#[derive(Debug)]
pub(crate) struct IdempotencyCache {
    window: Duration,
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    by_name: HashMap<String, Entry>,
    /// The keys in the order of their answers.
    order: VecDeque<(Instant, String)>,
    bytes: usize,
    /// The running requests, with the number of equal ones.
    working: HashMap<String, (Content, usize)>,
    /// The batches of an earlier process, until a window has passed since the start.
    restored: HashMap<[u8; 8], Content>,
    restored_until: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    content: Content,
    answer: Answer,
}

/// The answer to a successful request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 204.
    All,
    /// The body of a 200, which lists the skipped lines.
    Partial(String),
}

/// The hash of a request without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content([u8; 8]);

/// The hash of a content that arrives in pieces.
pub(crate) struct Fingerprint(Context);

/// The error of a key that stands for another request (idempotency_cache-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyReused;

impl Answer {
    fn bytes(&self) -> usize {
        match self {
            Answer::All => 0,
            Answer::Partial(body) => body.len(),
        }
    }
}

impl Fingerprint {
    /// Begins the hash of a request of this user, with this precision.
    pub(crate) fn new(user: Option<&str>, precision: &str) -> Fingerprint {
        let mut context = Context::new(&SHA256);
        for part in [user.unwrap_or_default(), precision] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        Fingerprint(context)
    }

    pub(crate) fn update(&mut self, text: &[u8]) {
        self.0.update(text);
    }

    pub(crate) fn finish(self) -> Content {
        let digest = self.0.finish();
        Content(digest.as_ref()[..8].try_into().expect("eight of 32 bytes"))
    }
}

impl Content {
    /// Returns the batch of a request with this key.
    pub(crate) fn batch(self, name: &str) -> NamedBatch {
        NamedBatch { id: BatchId::new(batch_name(name), self.0), older: older_batch_id(name) }
    }
}

/// A running request; its key is reserved until this is dropped.
#[derive(Debug)]
pub(crate) struct Working<'a> {
    cache: &'a IdempotencyCache,
    name: String,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        let Some((_, count)) = state.working.get_mut(&self.name) else { return };
        *count -= 1;
        if *count == 0 {
            state.working.remove(&self.name);
        }
    }
}

impl IdempotencyCache {
    pub(crate) fn new(window: Duration) -> IdempotencyCache {
        IdempotencyCache { window, state: Mutex::default() }
    }

    /// The most batches of tables that `restore` needs.
    pub(crate) const RESTORED_MAX: usize = RESTORED_MAX;

    /// Stores the batches that tables know from an earlier process (idempotency_cache-2).
    pub(crate) fn restore(&self, batches: &[BatchId], now: Instant) {
        let mut state = self.lock();
        let restored = batches.iter().map(|batch| (batch.name(), Content(batch.content())));
        state.restored = restored.collect();
        state.restored_until = now.checked_add(self.window);
    }

    /// Returns the answer to this request, if it has succeeded.
    pub(crate) fn find(
        &self,
        name: &str,
        content: Content,
        now: Instant,
    ) -> Result<Option<Answer>, KeyReused> {
        let mut state = self.lock();
        state.forget(now, self.window);
        match state.by_name.get(name) {
            Some(entry) if entry.content != content => Err(KeyReused),
            Some(entry) => Ok(Some(entry.answer.clone())),
            None => Ok(None),
        }
    }

    /// Returns true if a request with this key was answered: then it need not be parsed.
    pub(crate) fn is_known(&self, name: &str, now: Instant) -> bool {
        let mut state = self.lock();
        state.forget(now, self.window);
        state.by_name.contains_key(name)
    }

    /// Begins a request whose text is known, before it is committed.
    pub(crate) fn begin(
        &self,
        name: &str,
        content: Content,
        now: Instant,
    ) -> Result<Working<'_>, KeyReused> {
        let mut state = self.lock();
        state.forget(now, self.window);
        let answered = state.by_name.get(name).map(|entry| entry.content);
        // Batches of an earlier version have only the key.
        let older = Content(older_batch_id(name).content());
        let restored = state.restored.get(&batch_name(name)).copied();
        let restored = restored.filter(|restored| *restored != older);
        let working = state.working.get(name).map(|(content, _)| *content);
        if [answered, restored, working].into_iter().flatten().any(|known| known != content) {
            return Err(KeyReused);
        }
        state.working.entry(name.to_owned()).or_insert((content, 0)).1 += 1;
        Ok(Working { cache: self, name: name.to_owned() })
    }

    /// Keeps an answer; the first one, if there are several.
    pub(crate) fn keep(&self, name: &str, content: Content, answer: Answer, now: Instant) {
        let mut state = self.lock();
        state.forget(now, self.window);
        if state.by_name.contains_key(name) {
            return;
        }
        state.bytes += ENTRY_BYTES + name.len() + answer.bytes();
        state.by_name.insert(name.to_owned(), Entry { content, answer });
        state.order.push_back((now, name.to_owned()));
        while BYTES_MAX < state.bytes {
            state.forget_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn forget(&mut self, now: Instant, window: Duration) {
        while self.order.front().is_some_and(|(since, _)| window <= now - *since) {
            self.forget_one();
        }
        if self.restored_until.is_some_and(|until| until <= now) {
            (self.restored, self.restored_until) = (HashMap::new(), None);
        }
    }

    fn forget_one(&mut self) {
        let Some((_, name)) = self.order.pop_front() else { return };
        let entry = self.by_name.remove(&name).expect("every name has an answer");
        self.bytes -= ENTRY_BYTES + name.len() + entry.answer.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Content = Content([1; 8]);
    const TWO: Content = Content([2; 8]);

    #[test]
    fn an_answer_is_kept_for_its_time() {
        let (cache, start) = (IdempotencyCache::new(Duration::from_secs(10)), Instant::now());
        let partial = Answer::Partial("x".to_owned());
        cache.keep("a", ONE, partial.clone(), start);
        cache.keep("a", ONE, Answer::All, start);
        cache.keep("b", ONE, Answer::All, start + Duration::from_secs(5));
        let find =
            |name, seconds| cache.find(name, ONE, start + Duration::from_secs(seconds)).unwrap();
        assert_eq!(
            (find("a", 9), find("b", 9)),
            (Some(partial), Some(Answer::All)),
            "idempotency_cache-1"
        );
        assert_eq!(
            (find("a", 10), find("b", 10)),
            (None, Some(Answer::All)),
            "idempotency_cache-1"
        );
        assert_eq!(find("b", 15), None, "idempotency_cache-1");
        assert_eq!(cache.lock().bytes, 0);
    }

    #[test]
    fn all_answers_have_a_bound() {
        let (cache, now) = (IdempotencyCache::new(Duration::from_secs(10)), Instant::now());
        for number in 0..40 {
            let partial = Answer::Partial("x".repeat(1 << 20));
            cache.keep(&number.to_string(), ONE, partial, now);
        }
        assert!(cache.lock().bytes <= BYTES_MAX, "idempotency_cache-1");
        assert!(!cache.is_known("0", now) && cache.is_known("39", now), "idempotency_cache-1");
    }

    #[test]
    fn a_name_stands_for_one_request() {
        let (cache, now) = (IdempotencyCache::new(Duration::from_secs(10)), Instant::now());
        let first = cache.begin("a", ONE, now).unwrap();
        let again = cache.begin("a", ONE, now).unwrap();
        assert_eq!(cache.begin("a", TWO, now).unwrap_err(), KeyReused, "idempotency_cache-2");
        drop(first);
        assert!(cache.begin("a", TWO, now).is_err(), "idempotency_cache-2");
        drop(again);
        drop(cache.begin("a", TWO, now).expect("nothing came of the others"));
        assert!(cache.lock().working.is_empty());
        cache.keep("a", ONE, Answer::All, now);
        assert_eq!(cache.find("a", TWO, now), Err(KeyReused), "idempotency_cache-2");
        assert!(cache.begin("a", TWO, now).is_err(), "idempotency_cache-2");
        assert!(
            cache.begin("a", TWO, now + Duration::from_secs(10)).is_ok(),
            "idempotency_cache-1"
        );
    }

    #[test]
    fn names_of_an_earlier_process_are_known_for_a_window() {
        let (cache, now) = (IdempotencyCache::new(Duration::from_secs(10)), Instant::now());
        cache.restore(&[ONE.batch("a").id, ONE.batch("older").older], now);
        assert!(cache.begin("older", TWO, now).is_ok(), "an earlier version");
        assert!(cache.begin("a", ONE, now).is_ok() && cache.begin("b", TWO, now).is_ok());
        assert!(cache.begin("a", TWO, now).is_err(), "idempotency_cache-2");
        assert!(
            cache.begin("a", TWO, now + Duration::from_secs(10)).is_ok(),
            "idempotency_cache-2"
        );
    }

    #[test]
    fn a_fingerprint_depends_on_the_whole_request() {
        let content = |user: Option<&str>, precision: &str, pieces: &[&str]| {
            let mut fingerprint = Fingerprint::new(user, precision);
            pieces.iter().for_each(|piece| fingerprint.update(piece.as_bytes()));
            fingerprint.finish()
        };
        let whole = content(Some("ann"), "ns", &["t v=1"]);
        assert_eq!(whole, content(Some("ann"), "ns", &["t", " ", "v=1"]));
        for other in [
            content(Some("bob"), "ns", &["t v=1"]),
            content(Some("ann"), "ms", &["t v=1"]),
            content(Some("ann"), "ns", &["t v=2"]),
            content(Some("annn"), "s", &["t v=1"]),
        ] {
            assert_ne!(whole, other, "idempotency_cache-2");
        }
    }
}
