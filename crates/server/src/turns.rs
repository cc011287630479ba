//! Admission control: the permits of statements to run, shared fairly among users.
//!
//! - turns-1. At most `Shares::all` statements have a permit; administrators have one more among
//!   them.
//! - turns-2. A waiting statement gets its permit as soon as `queue` grants it, and is removed when
//!   its wait is dropped.
//! - turns-3. Dropping a permit passes it to the next waiting statement.
//!
//! Not here: the order in which waiting statements are served (`queue`, which is pure), and the
//! threads on which a statement runs (`lanes`).

mod queue;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_query::Session;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::auth::Role;
pub(crate) use queue::{Claimant, Shares};
use queue::{Queue, Ticket};

/// All permits, and the statements that wait for one.
#[derive(Debug)]
pub(crate) struct Turns {
    waiting: Mutex<Waiting>,
    /// The longest wait.
    patience: Duration,
}

#[derive(Debug)]
struct Waiting {
    queue: Queue,
    senders: HashMap<Ticket, oneshot::Sender<Turn>>,
}

/// The permit of a statement to run; dropping it passes it on (turns-3).
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    claimant: Claimant,
}

/// The error of a statement that has waited too long for its permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoTurn {
    waited: Duration,
    claimant: Claimant,
    /// The permits of the same user at the end of the wait.
    running: usize,
    shares: Shares,
}

impl fmt::Display for NoTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoTurn { waited, claimant, running, shares } = self;
        write!(
            f,
            "too many statements are working: this one had no turn in {} s; ",
            waited.as_secs_f64()
        )?;
        match &claimant.user {
            Some(user) => write!(f, "user `{user}` has {running}")?,
            None => write!(f, "clients without a name have {running}")?,
        }
        let Shares { all, each } = shares;
        write!(f, " working, of {each} for one user and {all} for all (query.max_concurrent)")
    }
}

impl Claimant {
    /// Returns the user of a session.
    pub(crate) fn of(session: &Session) -> Claimant {
        let origin = session.origin();
        let user = origin.user.as_deref().map(Arc::from);
        Claimant { user, is_admin: origin.role == Role::Admin }
    }
}

impl Turns {
    pub(crate) fn new(shares: Shares, patience: Duration) -> Turns {
        let waiting = Waiting { queue: Queue::new(shares), senders: HashMap::new() };
        Turns { waiting: Mutex::new(waiting), patience }
    }

    /// Returns a permit, if one is free now.
    pub(crate) fn try_begin(self: &Arc<Self>, claimant: &Claimant) -> Option<Turn> {
        let is_free = self.waiting().queue.try_begin(claimant);
        is_free.then(|| Turn { turns: Arc::clone(self), claimant: claimant.clone() })
    }

    /// Waits for a permit, no longer than `query.queue_timeout`.
    pub(crate) async fn begin(self: &Arc<Self>, claimant: &Claimant) -> Result<Turn, NoTurn> {
        match timeout(self.patience, self.wait(claimant)).await {
            Ok(turn) => Ok(turn),
            Err(_) => {
                let (running, shares) = self.waiting().queue.of(claimant);
                Err(NoTurn { waited: self.patience, claimant: claimant.clone(), running, shares })
            }
        }
    }

    /// Waits for a permit, without a time limit.
    pub(crate) async fn wait(self: &Arc<Self>, claimant: &Claimant) -> Turn {
        let (receiver, _place) = {
            let mut waiting = self.waiting();
            if waiting.queue.try_begin(claimant) {
                return Turn { turns: Arc::clone(self), claimant: claimant.clone() };
            }
            let ticket = waiting.queue.wait(claimant);
            let (sender, receiver) = oneshot::channel();
            waiting.senders.insert(ticket, sender);
            (receiver, Place { turns: Arc::clone(self), claimant: claimant.clone(), ticket })
        };
        receiver.await.expect("a sender that is dropped has sent, turns-2")
    }

    /// Ends the use of a permit: the next statements begin (turns-3).
    fn end(self: &Arc<Self>, claimant: &Claimant) {
        let mut given = Vec::new();
        {
            let mut waiting = self.waiting();
            waiting.queue.end(claimant);
            while let Some((ticket, claimant)) = waiting.queue.next() {
                let sender = waiting.senders.remove(&ticket).expect("each ticket has one, turns-2");
                given.push((sender, Turn { turns: Arc::clone(self), claimant }));
            }
        }
        for (sender, turn) in given {
            // If the wait was dropped meanwhile, the permit comes back, and goes to the next one.
            drop(sender.send(turn));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.end(&self.claimant);
    }
}

/// The place of a statement in the queue; dropping it removes the statement (turns-2).
struct Place {
    turns: Arc<Turns>,
    claimant: Claimant,
    ticket: Ticket,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.turns.waiting();
        if waiting.senders.remove(&self.ticket).is_some() {
            waiting.queue.give_up(&self.claimant, self.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn turns(all: usize, each: usize) -> Arc<Turns> {
        Arc::new(Turns::new(Shares { all, each }, Duration::from_millis(1)))
    }

    fn user(name: &str) -> Claimant {
        Claimant { user: Some(Arc::from(name)), is_admin: false }
    }

    #[tokio::test]
    async fn a_turn_that_ends_goes_to_a_statement_that_waits() {
        let turns = turns(1, 1);
        let (one, other) = (user("one"), user("other"));
        let first = turns.try_begin(&one).unwrap();
        assert!(turns.try_begin(&other).is_none(), "turns-1");
        let mut gone = Box::pin(turns.wait(&one));
        let mut second = Box::pin(turns.wait(&other));
        assert!((&mut gone).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        drop(gone);
        drop(first);
        let second = second.now_or_never().expect("turns-3: the dropped wait is forgotten");
        drop(second);
        assert!(turns.try_begin(&one).is_some(), "turns-3");
    }

    // A permit granted to a wait that was dropped before it looked would be lost for ever.
    #[tokio::test]
    async fn a_turn_given_to_a_dropped_wait_is_not_lost() {
        let turns = turns(1, 1);
        let one = user("one");
        let first = turns.try_begin(&one).unwrap();
        let mut wait = Box::pin(turns.wait(&one));
        assert!((&mut wait).now_or_never().is_none());
        drop(first);
        assert!(turns.try_begin(&one).is_none(), "it is the waiting one's");
        drop(wait);
        assert!(turns.try_begin(&one).is_some(), "turns-3");
    }

    #[tokio::test]
    async fn a_wait_in_vain_names_the_share_of_the_user() {
        let turns = turns(8, 2);
        let _working = [(); 2].map(|()| turns.try_begin(&user("bob")).unwrap());
        let error = turns.begin(&user("bob")).await.unwrap_err().to_string();
        let expected = "too many statements are working: this one had no turn in 0.001 s; user \
                        `bob` has 2 working, of 2 for one user and 8 for all \
                        (query.max_concurrent)";
        assert_eq!(error, expected);
        assert!(turns.begin(&user("ann")).await.is_ok());
        let nameless = Claimant { user: None, is_admin: true };
        let _working = [(); 2].map(|()| turns.try_begin(&nameless).unwrap());
        let error = turns.begin(&nameless).await.unwrap_err().to_string();
        assert!(error.contains("clients without a name have 2 working, of 2"), "{error}");
    }
}
