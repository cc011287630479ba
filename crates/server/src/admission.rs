//! Admission control: the permits of statements to run, shared fairly among users.
//!
//! - admission-1. At most `Shares::all` statements have a permit; administrators have one more
//!   among them.
//! - admission-2. A waiting statement gets its permit as soon as `queue` grants it, and is removed
//!   when its wait is dropped.
//! - admission-3. Dropping a permit passes it to the next waiting statement.
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
pub(crate) use crate::claimant::Claimant;
pub(crate) use queue::Shares;
use queue::{Queue, Ticket};

/// All permits, and the statements that wait for one.
#[derive(Debug)]
pub(crate) struct AdmissionControl {
    waiting: Mutex<Waiting>,
    /// The longest wait.
    queue_timeout: Duration,
}

#[derive(Debug)]
struct Waiting {
    queue: Queue,
    senders: HashMap<Ticket, oneshot::Sender<Permit>>,
}

/// The permit of a statement to run; dropping it passes it on (admission-3).
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<AdmissionControl>,
    claimant: Claimant,
}

/// The error of a statement that has waited too long for its permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdmissionTimeout {
    waited: Duration,
    claimant: Claimant,
    /// The permits of the same user at the end of the wait.
    running: usize,
    shares: Shares,
}

impl fmt::Display for AdmissionTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdmissionTimeout { waited, claimant, running, shares } = self;
        write!(
            f,
            "too many statements are working: this one was not admitted within {} s; ",
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

impl AdmissionControl {
    pub(crate) fn new(shares: Shares, queue_timeout: Duration) -> AdmissionControl {
        let waiting = Waiting { queue: Queue::new(shares), senders: HashMap::new() };
        AdmissionControl { waiting: Mutex::new(waiting), queue_timeout }
    }

    /// Returns a permit, if one is free now.
    pub(crate) fn try_begin(self: &Arc<Self>, claimant: &Claimant) -> Option<Permit> {
        let is_free = self.waiting().queue.try_begin(claimant);
        is_free.then(|| Permit { admission: Arc::clone(self), claimant: claimant.clone() })
    }

    /// Waits for a permit, no longer than `query.queue_timeout`.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        claimant: &Claimant,
    ) -> Result<Permit, AdmissionTimeout> {
        match timeout(self.queue_timeout, self.wait(claimant)).await {
            Ok(permit) => Ok(permit),
            Err(_) => {
                let (running, shares) = self.waiting().queue.of(claimant);
                Err(AdmissionTimeout {
                    waited: self.queue_timeout,
                    claimant: claimant.clone(),
                    running,
                    shares,
                })
            }
        }
    }

    /// Waits for a permit, without a time limit.
    pub(crate) async fn wait(self: &Arc<Self>, claimant: &Claimant) -> Permit {
        let (receiver, _place) = {
            let mut waiting = self.waiting();
            if waiting.queue.try_begin(claimant) {
                return Permit { admission: Arc::clone(self), claimant: claimant.clone() };
            }
            let ticket = waiting.queue.wait(claimant);
            let (sender, receiver) = oneshot::channel();
            waiting.senders.insert(ticket, sender);
            (receiver, Place { admission: Arc::clone(self), claimant: claimant.clone(), ticket })
        };
        receiver.await.expect("a sender that is dropped has sent, admission-2")
    }

    /// Ends the use of a permit: the next statements begin (admission-3).
    fn end(self: &Arc<Self>, claimant: &Claimant) {
        let mut given = Vec::new();
        {
            let mut waiting = self.waiting();
            waiting.queue.end(claimant);
            while let Some((ticket, claimant)) = waiting.queue.next() {
                let sender =
                    waiting.senders.remove(&ticket).expect("each ticket has one, admission-2");
                given.push((sender, Permit { admission: Arc::clone(self), claimant }));
            }
        }
        for (sender, permit) in given {
            // If the wait was dropped meanwhile, the permit comes back, and goes to the next one.
            drop(sender.send(permit));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.end(&self.claimant);
    }
}

/// The place of a statement in the queue; dropping it removes the statement (admission-2).
struct Place {
    admission: Arc<AdmissionControl>,
    claimant: Claimant,
    ticket: Ticket,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.admission.waiting();
        if waiting.senders.remove(&self.ticket).is_some() {
            waiting.queue.give_up(&self.claimant, self.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn admission(all: usize, each: usize) -> Arc<AdmissionControl> {
        Arc::new(AdmissionControl::new(Shares { all, each }, Duration::from_millis(1)))
    }

    fn user(name: &str) -> Claimant {
        Claimant { user: Some(Arc::from(name)), is_admin: false }
    }

    #[tokio::test]
    async fn a_permit_that_ends_goes_to_a_statement_that_waits() {
        let admission = admission(1, 1);
        let (one, other) = (user("one"), user("other"));
        let first = admission.try_begin(&one).unwrap();
        assert!(admission.try_begin(&other).is_none(), "admission-1");
        let mut gone = Box::pin(admission.wait(&one));
        let mut second = Box::pin(admission.wait(&other));
        assert!((&mut gone).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        drop(gone);
        drop(first);
        let second = second.now_or_never().expect("admission-3: the dropped wait is forgotten");
        drop(second);
        assert!(admission.try_begin(&one).is_some(), "admission-3");
    }

    // A permit granted to a wait that was dropped before it looked would be lost for ever.
    #[tokio::test]
    async fn a_permit_given_to_a_dropped_wait_is_not_lost() {
        let admission = admission(1, 1);
        let one = user("one");
        let first = admission.try_begin(&one).unwrap();
        let mut wait = Box::pin(admission.wait(&one));
        assert!((&mut wait).now_or_never().is_none());
        drop(first);
        assert!(admission.try_begin(&one).is_none(), "it is the waiting one's");
        drop(wait);
        assert!(admission.try_begin(&one).is_some(), "admission-3");
    }

    #[tokio::test]
    async fn a_wait_in_vain_names_the_share_of_the_user() {
        let admission = admission(8, 2);
        let _working = [(); 2].map(|()| admission.try_begin(&user("bob")).unwrap());
        let error = admission.begin(&user("bob")).await.unwrap_err().to_string();
        let expected = "too many statements are working: this one was not admitted within 0.001 s; \
                        user `bob` has 2 working, of 2 for one user and 8 for all \
                        (query.max_concurrent)";
        assert_eq!(error, expected);
        assert!(admission.begin(&user("ann")).await.is_ok());
        let nameless = Claimant { user: None, is_admin: true };
        let _working = [(); 2].map(|()| admission.try_begin(&nameless).unwrap());
        let error = admission.begin(&nameless).await.unwrap_err().to_string();
        assert!(error.contains("clients without a name have 2 working, of 2"), "{error}");
    }
}
