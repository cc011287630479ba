//! The order in which statements get their permits: a pure state machine.
//!
//! - queue-1. At most `Shares::all` permits are in use, and `ADMIN_PERMITS` more by administrators:
//!   an administrator can look and cancel, however many other statements run.
//! - queue-2. One user has at most `Shares::each` of them.
//! - queue-3. Of the waiting users that may have a permit, the one with the fewest gets the next;
//!   among equals the one whose statement has waited longest. A user's own statements are served in
//!   their order.
//! - queue-4. After `next` has returned `None`, no statement waits that could have a permit.
//! - queue-5. Users without permits and without waiting statements are removed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::claimant::Claimant;

/// The permits that only administrators get (queue-1): one statement is enough to look and to
/// cancel.
pub(crate) const ADMIN_PERMITS: usize = 1;
/// One permit of this many is kept from a user that has all others (queue-2), for another user.
const SPARE_PART: usize = 8;
/// With fewer permits, one user may have all: a reserve would be a large part of them.
const SPARE_FROM: usize = 4;

/// The numbers of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// The permits of all users together.
    pub(crate) all: usize,
    /// The permits of one user.
    pub(crate) each: usize,
}

impl Shares {
    /// Returns the shares of this many permits.
    pub(crate) fn of(all: usize) -> Shares {
        let spare = if all < SPARE_FROM { 0 } else { all.div_ceil(SPARE_PART) };
        Shares { all, each: all - spare }
    }
}

/// A waiting statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(u64);

/// The state machine.
#[derive(Debug)]
pub(crate) struct Queue {
    shares: Shares,
    running: usize,
    next: u64,
    users: HashMap<Option<Arc<str>>, User>,
}

#[derive(Debug, Default)]
struct User {
    running: usize,
    /// The statements in the order in which they came, and whether the user was an administrator.
    waiting: VecDeque<(Ticket, bool)>,
}

impl Queue {
    pub(crate) fn new(shares: Shares) -> Queue {
        assert!(0 < shares.each && shares.each <= shares.all, "queue-2: {shares:?}");
        Queue { shares, running: 0, next: 0, users: HashMap::new() }
    }

    /// Takes a permit if there is one for this user.
    pub(crate) fn try_begin(&mut self, claimant: &Claimant) -> bool {
        let own = self.users.get(&claimant.user).map_or(0, |user| user.running);
        if !self.may_begin(own, claimant.is_admin) {
            return false;
        }
        self.begin(&claimant.user);
        true
    }

    /// Adds a waiting statement.
    pub(crate) fn wait(&mut self, claimant: &Claimant) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let user = self.users.entry(claimant.user.clone()).or_default();
        user.waiting.push_back((ticket, claimant.is_admin));
        ticket
    }

    /// Removes a waiting statement.
    pub(crate) fn give_up(&mut self, claimant: &Claimant, ticket: Ticket) {
        let Some(user) = self.users.get_mut(&claimant.user) else { return };
        user.waiting.retain(|(waiting, _)| *waiting != ticket);
        self.forget(&claimant.user);
    }

    /// Releases a permit of this user. The caller repeats `next` to grant permits.
    pub(crate) fn end(&mut self, claimant: &Claimant) {
        let user = self.users.get_mut(&claimant.user).filter(|user| 0 < user.running);
        user.expect("who ends has begun, queue-5").running -= 1;
        self.running -= 1;
        self.forget(&claimant.user);
    }

    /// Takes a permit for the statement that gets the next one (queue-3), if any may (queue-4).
    pub(crate) fn next(&mut self) -> Option<(Ticket, Claimant)> {
        let waiting = self.users.iter().filter_map(|(name, user)| {
            let (ticket, is_admin) = *user.waiting.front()?;
            let order = (user.running, ticket);
            self.may_begin(user.running, is_admin).then_some((order, name, is_admin))
        });
        let ((_, ticket), user, is_admin) = waiting.min_by_key(|(order, ..)| *order)?;
        let claimant = Claimant { user: user.clone(), is_admin };
        self.begin(&claimant.user);
        let user = self.users.get_mut(&claimant.user).expect("it waits");
        user.waiting.pop_front();
        Some((ticket, claimant))
    }

    /// Returns the number of permits that a user has, and the shares of all.
    pub(crate) fn of(&self, claimant: &Claimant) -> (usize, Shares) {
        (self.users.get(&claimant.user).map_or(0, |user| user.running), self.shares)
    }

    /// Returns true if a user with this many permits may have another one (queue-1, queue-2).
    fn may_begin(&self, own: usize, is_admin: bool) -> bool {
        let all = if is_admin { self.shares.all + ADMIN_PERMITS } else { self.shares.all };
        self.running < all && own < self.shares.each
    }

    fn begin(&mut self, user: &Option<Arc<str>>) {
        self.users.entry(user.clone()).or_default().running += 1;
        self.running += 1;
    }

    fn forget(&mut self, user: &Option<Arc<str>>) {
        let is_idle = |user: &User| user.running == 0 && user.waiting.is_empty();
        if self.users.get(user).is_some_and(is_idle) {
            self.users.remove(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimant(name: &str) -> Claimant {
        let is_admin = name.starts_with("admin");
        let user = (!name.is_empty()).then(|| Arc::from(name));
        Claimant { user, is_admin }
    }

    #[test]
    fn shares_leave_a_permit_to_another_user() {
        for (all, each) in [(1, 1), (2, 2), (3, 3), (4, 3), (8, 7), (16, 14), (256, 224)] {
            assert_eq!(Shares::of(all), Shares { all, each });
        }
    }

    /// Returns the users that begin when these permits end one after the other.
    fn served(queue: &mut Queue, ended: &[&str]) -> Vec<String> {
        let mut served = Vec::new();
        for name in ended {
            queue.end(&claimant(name));
            while let Some((_, claimant)) = queue.next() {
                served.push(claimant.user.as_deref().unwrap_or("").to_owned());
            }
        }
        served
    }

    #[test]
    fn the_user_with_the_fewest_permits_is_next() {
        let mut queue = Queue::new(Shares { all: 4, each: 4 });
        for _ in 0..4 {
            assert!(queue.try_begin(&claimant("bob")));
        }
        for name in ["bob", "bob", "ann", "bob", "ann", "eve"] {
            assert!(!queue.try_begin(&claimant(name)));
            queue.wait(&claimant(name));
        }
        let served = served(&mut queue, &["bob", "bob", "bob", "bob"]);
        assert_eq!(served, ["ann", "eve", "bob", "bob"], "queue-3");
    }

    #[test]
    fn an_administrator_has_a_permit_when_all_others_are_taken() {
        let mut queue = Queue::new(Shares { all: 2, each: 2 });
        assert!(queue.try_begin(&claimant("bob")) && queue.try_begin(&claimant("ann")));
        assert!(!queue.try_begin(&claimant("eve")));
        assert!(queue.try_begin(&claimant("admin")), "queue-1");
        assert!(!queue.try_begin(&claimant("admin")), "queue-1: it is one");
        // After one of the three ends, the others wait until no more than their share runs.
        queue.wait(&claimant("eve"));
        queue.end(&claimant("bob"));
        assert_eq!(queue.next(), None, "queue-1");
        queue.end(&claimant("admin"));
        assert_eq!(queue.next().map(|(_, it)| it), Some(claimant("eve")));
    }

    #[test]
    fn one_user_never_has_all_permits() {
        let mut queue = Queue::new(Shares::of(8));
        let begun = (0..20).filter(|_| queue.try_begin(&claimant("bob"))).count();
        assert_eq!(begun, 7, "queue-2");
        assert!(queue.try_begin(&claimant("ann")), "queue-2");
    }

    /// Any sequence of user actions keeps the invariants.
    #[test]
    fn invariants_of_the_queue_hold_under_random_use() {
        for seed in 0..200_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let shares = Shares::of(usize::try_from(random(9) + 1).unwrap());
            let mut queue = Queue::new(shares);
            let names = ["bob", "ann", "", "admin", "admin2"];
            let (mut working, mut waiting) = (Vec::<Claimant>::new(), Vec::new());
            for _ in 0..300 {
                let who = claimant(names[usize::try_from(random(5)).unwrap()]);
                match random(4) {
                    0 | 1 if queue.try_begin(&who) => working.push(who),
                    0 | 1 => waiting.push((queue.wait(&who), who)),
                    2 if !working.is_empty() => {
                        let at = usize::try_from(random(working.len() as u64)).unwrap();
                        queue.end(&working.swap_remove(at));
                    }
                    3 if !waiting.is_empty() => {
                        let at = usize::try_from(random(waiting.len() as u64)).unwrap();
                        let (ticket, who) = waiting.swap_remove(at);
                        queue.give_up(&who, ticket);
                    }
                    _ => {}
                }
                while let Some((ticket, who)) = queue.next() {
                    let at = waiting.iter().position(|(it, _)| *it == ticket);
                    assert_eq!(waiting.remove(at.expect("it waits")).1, who, "seed {seed}");
                    working.push(who);
                }
                check(&queue, &working, &waiting, seed);
            }
        }
    }

    fn check(queue: &Queue, working: &[Claimant], waiting: &[(Ticket, Claimant)], seed: u64) {
        let Shares { all, each } = queue.shares;
        assert!(working.len() <= all + ADMIN_PERMITS, "queue-1, seed {seed}");
        let of = |user: &Claimant| working.iter().filter(|it| it.user == user.user).count();
        for user in working {
            assert!(of(user) <= each, "queue-2, seed {seed}");
        }
        for (_, who) in waiting {
            let most = if who.is_admin { all + ADMIN_PERMITS } else { all };
            let is_due = working.len() < most && of(who) < each;
            assert!(!is_due, "queue-4, seed {seed}: {who:?} waits");
        }
        let known = |user: &Claimant| queue.users.contains_key(&user.user);
        assert!(working.iter().all(known) && waiting.iter().all(|(_, it)| known(it)));
        let users = working.iter().chain(waiting.iter().map(|(_, it)| it));
        let users = users.map(|it| &it.user).collect::<std::collections::HashSet<_>>();
        assert_eq!(queue.users.len(), users.len(), "queue-5, seed {seed}");
    }
}
