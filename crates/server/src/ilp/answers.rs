//! What was answered to requests that have a name, so that a repeat hears the same.
//!
//! - AN1. An answer is kept for `ilp.idempotency_window`, unless more than `BYTES_MAX` of them are:
//!   then the oldest go. That a request is applied once is not up to this: its tables remember its
//!   name (`storage`), also when the server was started anew.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Bytes of answers and names that are kept.
const BYTES_MAX: usize = 16 << 20;
/// What an answer takes besides its text and name.
const ENTRY_BYTES: usize = 128;

/// See the module.
#[derive(Debug)]
pub(crate) struct Answers {
    window: Duration,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_name: HashMap<String, Answer>,
    /// Names in the order of their answers.
    order: VecDeque<(Instant, String)>,
    bytes: usize,
}

/// What was said to a request that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 204.
    All,
    /// The body of a 200: which lines were left out.
    Partial(String),
}

impl Answer {
    fn bytes(&self) -> usize {
        match self {
            Answer::All => 0,
            Answer::Partial(body) => body.len(),
        }
    }
}

impl Answers {
    pub(crate) fn new(window: Duration) -> Answers {
        Answers { window, kept: Mutex::default() }
    }

    /// What was answered to a request of this name.
    pub(crate) fn find(&self, name: &str, now: Instant) -> Option<Answer> {
        let mut kept = self.lock();
        kept.forget(now, self.window);
        kept.by_name.get(name).cloned()
    }

    /// Keeps an answer; the first one, if there are several.
    pub(crate) fn keep(&self, name: &str, answer: Answer, now: Instant) {
        let mut kept = self.lock();
        kept.forget(now, self.window);
        if kept.by_name.contains_key(name) {
            return;
        }
        kept.bytes += ENTRY_BYTES + name.len() + answer.bytes();
        kept.by_name.insert(name.to_owned(), answer);
        kept.order.push_back((now, name.to_owned()));
        while BYTES_MAX < kept.bytes {
            kept.forget_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget(&mut self, now: Instant, window: Duration) {
        while self.order.front().is_some_and(|(since, _)| window <= now - *since) {
            self.forget_one();
        }
    }

    fn forget_one(&mut self) {
        let Some((_, name)) = self.order.pop_front() else { return };
        let answer = self.by_name.remove(&name).expect("every name has an answer");
        self.bytes -= ENTRY_BYTES + name.len() + answer.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_for_its_time() {
        let (answers, start) = (Answers::new(Duration::from_secs(10)), Instant::now());
        let partial = Answer::Partial("x".to_owned());
        answers.keep("a", partial.clone(), start);
        answers.keep("a", Answer::All, start);
        answers.keep("b", Answer::All, start + Duration::from_secs(5));
        let find = |name, seconds| answers.find(name, start + Duration::from_secs(seconds));
        assert_eq!((find("a", 9), find("b", 9)), (Some(partial), Some(Answer::All)), "AN1");
        assert_eq!((find("a", 10), find("b", 10)), (None, Some(Answer::All)), "AN1");
        assert_eq!(find("b", 15), None, "AN1");
        assert_eq!(answers.lock().bytes, 0);
    }

    #[test]
    fn all_answers_have_a_bound() {
        let (answers, now) = (Answers::new(Duration::from_secs(10)), Instant::now());
        for number in 0..40 {
            answers.keep(&number.to_string(), Answer::Partial("x".repeat(1 << 20)), now);
        }
        assert!(answers.lock().bytes <= BYTES_MAX, "AN1");
        assert!(answers.find("0", now).is_none() && answers.find("39", now).is_some(), "AN1");
    }
}
