//! The memory budget of connections, shared by all protocols.
//!
//! - budget-1. Bytes are counted before they are held, as far as their number is known, and
//!   released when their [`Reservation`] is dropped.
//! - budget-2. All connections together hold at most `memory.connection_limit` beyond the free
//!   bytes of each.
//! - budget-3. The first `limits::CONNECTION_FREE_BYTES` of a connection are not counted: small
//!   statements and requests are served, however much other connections hold.
//! - budget-4. The connections of one user hold at most three quarters of what those of other users
//!   leave: however many users take all that they may have, the next one finds some. Clients
//!   without a name are one user.
//! - budget-5. An eighth is left to administrators: the others share the rest.
//!
//! An [`Account`] belongs to one connection, or one request; every buffer, statement and value that
//! it keeps has a [`Reservation`] of it. Not here: memory of running statements (`query`), and of
//! rows that wait for their commit (`ilp::Ingest`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tidegate_model::{ByteCount, limits};

use crate::claimant::Claimant;

/// The divisor of the part of the free bytes that a user leaves to others (budget-4). On a server
/// of 1 GiB, one user can still send a message of 64 MiB, the default of `pg.max_message`.
const OTHERS_PART: u64 = 4;
/// The divisor of the part that only administrators get (budget-5).
const ADMIN_PART: u64 = 8;

/// The bytes that all connections may hold (budget-2).
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: u64,
    /// The bytes of each user that has some.
    users: HashMap<Option<Arc<str>>, u64>,
}

/// The bytes that one connection holds.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    owner: Claimant,
    held: Mutex<u64>,
}

/// Bytes that are counted until this is dropped (budget-1).
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    bytes: u64,
}

/// The budget has no room for what a connection asks for: SQLSTATE 53200, HTTP 503.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no memory for {wanted} more of this connection: all connections hold {used} of \
     memory.connection_limit ({limit}), and those of {} hold {own} of the {share} that one user \
     may have now; send less at a time, deallocate prepared statements, or try again",
    shown_user(.user.as_deref())
)]
pub(crate) struct OverBudget {
    wanted: ByteCount,
    used: ByteCount,
    limit: ByteCount,
    user: Option<Arc<str>>,
    own: ByteCount,
    /// The most that the user may have beside what others have now (budget-4).
    share: ByteCount,
}

/// Returns the words for a user in messages.
fn shown_user(user: Option<&str>) -> String {
    match user {
        Some(user) => format!("user `{user}`"),
        None => "clients without a name".to_owned(),
    }
}

impl Budget {
    pub(crate) fn new(limit: ByteCount) -> Arc<Budget> {
        Arc::new(Budget { limit: limit.0, used: Mutex::default() })
    }

    /// Opens the account of a new connection or request of this user.
    pub(crate) fn account(self: &Arc<Self>, owner: Claimant) -> Arc<Account> {
        Arc::new(Account { budget: Arc::clone(self), owner, held: Mutex::new(0) })
    }

    /// Returns the bytes that connections hold beyond the free bytes of each.
    pub(crate) fn used(&self) -> u64 {
        self.locked().all
    }

    /// Returns true if the user has more than half of its share: its slow input is then refused.
    pub(crate) fn is_scarce_for(&self, owner: &Claimant) -> bool {
        let used = self.locked();
        let own = used.of(owner);
        share(self.limit, used.all - own, owner.is_admin) / 2 < own
    }

    fn take(&self, owner: &Claimant, bytes: u64) -> Result<(), OverBudget> {
        let mut used = self.locked();
        let own = used.of(owner);
        let share = share(self.limit, used.all - own, owner.is_admin);
        let Some(next) = own.checked_add(bytes).filter(|next| *next <= share) else {
            return Err(OverBudget {
                wanted: ByteCount(bytes),
                used: ByteCount(used.all),
                limit: ByteCount(self.limit),
                user: owner.user.clone(),
                own: ByteCount(own),
                share: ByteCount(share),
            });
        };
        used.all += bytes;
        assert!(used.all <= self.limit, "budget-2");
        used.users.insert(owner.user.clone(), next);
        Ok(())
    }

    fn give_back(&self, owner: &Claimant, bytes: u64) {
        let mut used = self.locked();
        let own = used.of(owner);
        assert!(bytes <= own, "budget-1");
        used.all -= bytes;
        if bytes == own {
            used.users.remove(&owner.user);
        } else {
            used.users.insert(owner.user.clone(), own - bytes);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    /// Returns the bytes of a user.
    fn of(&self, owner: &Claimant) -> u64 {
        let own = self.users.get(&owner.user).copied().unwrap_or(0);
        assert!(own <= self.all, "budget-1");
        own
    }
}

/// Returns the most bytes that the connections of one user may hold beside those of other users
/// (budget-4, budget-5).
fn share(limit: u64, others: u64, is_admin: bool) -> u64 {
    let all = if is_admin { limit } else { limit - limit / ADMIN_PART };
    let left = all.saturating_sub(others);
    left - left / OTHERS_PART
}

impl Account {
    /// Counts bytes that the connection is about to hold.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, OverBudget> {
        let mut reservation = Reservation { account: Arc::clone(self), bytes: 0 };
        reservation.try_resize(bytes)?;
        Ok(reservation)
    }

    /// Replaces `from` counted bytes by `to`.
    fn change(&self, from: u64, to: u64) -> Result<(), OverBudget> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*held - from).saturating_add(to);
        // budget-3.
        let counted = |bytes: u64| bytes.saturating_sub(limits::CONNECTION_FREE_BYTES as u64);
        let (before, after) = (counted(*held), counted(next));
        if before < after {
            self.budget.take(&self.owner, after - before)?;
        } else if after < before {
            self.budget.give_back(&self.owner, before - after);
        }
        *held = next;
        Ok(())
    }
}

impl Reservation {
    /// Changes the counted size, for a buffer that grows or shrinks. If there is no room, the old
    /// size stays counted.
    pub(crate) fn try_resize(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let bytes = bytes as u64;
        if bytes != self.bytes {
            self.account.change(self.bytes, bytes)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let given = self.account.change(self.bytes, 0);
        assert!(given.is_ok(), "budget-1: there is always room for less");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const FREE: usize = limits::CONNECTION_FREE_BYTES;

    /// Returns a reservation of nothing, of a connection that can have about this many bytes.
    pub(crate) fn reservation(bytes: u64) -> Reservation {
        let budget = Budget::new(ByteCount(bytes / 3 * 4));
        budget.account(claimant(None, true)).reserve(0).unwrap()
    }

    fn claimant(user: Option<&str>, is_admin: bool) -> Claimant {
        Claimant { user: user.map(Arc::from), is_admin }
    }

    fn of(user: &str) -> Claimant {
        claimant(Some(user), false)
    }

    #[test]
    fn dropped_reservations_are_given_back() {
        let budget = Budget::new(ByteCount(1_200));
        let account = budget.account(claimant(None, true));
        let small = account.reserve(FREE).unwrap();
        assert_eq!(budget.used(), 0, "budget-3");
        let mut large = account.reserve(800).unwrap();
        assert_eq!(budget.used(), 800);
        let refused = large.try_resize(901).unwrap_err();
        assert_eq!((refused.wanted, refused.used), (ByteCount(101), ByteCount(800)), "budget-4");
        assert_eq!(budget.used(), 800, "budget-1");
        drop(small);
        assert_eq!(budget.used(), 0, "budget-3");
        large.try_resize(FREE + 900).unwrap();
        assert_eq!(budget.used(), 900);
        drop(large);
        assert_eq!((budget.used(), *account.held.lock().unwrap()), (0, 0), "budget-1");
        assert!(budget.locked().users.is_empty(), "budget-1");
    }

    #[test]
    fn small_requests_are_served_when_others_hold_everything() {
        let budget = Budget::new(ByteCount(1_000));
        let (greedy, modest) = (budget.account(of("ann")), budget.account(of("ann")));
        let _all = greedy.reserve(FREE + 657).unwrap();
        assert!(modest.reserve(FREE).is_ok(), "budget-3");
        let message = modest.reserve(FREE + 1).unwrap_err().to_string();
        let expected = "all connections hold 657 B of memory.connection_limit (1000 B), and those \
                        of user `ann` hold 657 B of the 657 B that one user may have now";
        assert!(message.contains(expected), "{message}");
        assert!(greedy.reserve(usize::MAX).is_err(), "budget-2: nothing overflows");
    }

    // A reader kept prepared statements of 102 MiB, all of the budget, on two idle connections.
    // From then on every larger statement, COPY and upload of all other users was refused, and the
    // connections of administrators were closed.
    #[test]
    fn each_further_user_finds_memory_and_administrators_find_most() {
        let budget = Budget::new(ByteCount(64_000));
        let mut held = Vec::new();
        for (user, expected) in [("ann", 42_000), ("bob", 10_500), ("eve", 2_625), ("joe", 657)] {
            // One connection or many: the account of the user is the same.
            let (one, other) = (budget.account(of(user)), budget.account(of(user)));
            held.push(one.reserve(FREE + expected - 1).unwrap());
            assert!(other.reserve(FREE + 2).is_err(), "budget-4: {user}");
            held.push(other.reserve(FREE + 1).unwrap());
        }
        let admin = budget.account(claimant(Some("root"), true));
        held.push(admin.reserve(FREE + 6_000).expect("budget-5: three quarters of the eighth"));
        assert!(budget.used() <= 64_000, "budget-2");
        assert!(budget.is_scarce_for(&of("ann")) && !budget.is_scarce_for(&of("new")));
        drop(held);
        assert_eq!(budget.used(), 0, "budget-1");
        budget.account(of("bob")).reserve(FREE + 42_000).expect("budget-4: others have left it");
    }
}
