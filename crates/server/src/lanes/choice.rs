//! The choice of a lane for a statement: a pure function.
//!
//! - choice-1. Statements of different users share no lane: polls without end of one user stop no
//!   statement of another, nor one of an administrator.
//! - choice-2. One user gets at most `Shares::each` lanes.
//! - choice-3. When `Shares::all` lanes are there, a user still gets new ones up to its part of
//!   them, `all` divided by the users that have lanes, and at least one: users that hold their
//!   lanes for long leave others their parts.
//! - choice-4. Beyond that, statements of a user share its lanes: that with the fewest statements
//!   that work, and among equals that with the fewest that wait for their clients.
//!
//! Not here: lanes and their threads (`lanes`).

use std::collections::HashSet;

use crate::admission::{Claimant, Shares};

/// The use of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneUse<'a> {
    pub(super) id: u64,
    /// The user for which it is there; `None` if it is idle, or started for later statements.
    pub(super) claimant: Option<&'a Claimant>,
    /// The statements that use it and do not wait for their clients.
    pub(super) working: usize,
    /// The statements that use it and wait for their clients. A lane without statements is being
    /// started, is idle, or has remaining tasks of a statement: it is counted, and not shared.
    pub(super) waiting: usize,
}

/// The lane of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// An idle lane, or a new one if there is none.
    New,
    /// The lane with this id, which it shares.
    Shared(u64),
}

/// Chooses a lane for a statement of this user. `ready` of the lanes are idle.
pub(super) fn choose(
    lanes: &[LaneUse<'_>],
    ready: usize,
    claimant: &Claimant,
    shares: Shares,
) -> Choice {
    let own = || lanes.iter().filter(move |lane| lane.claimant == Some(claimant));
    let in_use = own().filter(|lane| 0 < lane.working + lane.waiting);
    let Some(shared) = in_use.min_by_key(|lane| (lane.working, lane.waiting, lane.id)) else {
        return Choice::New;
    };
    let own = own().count();
    let is_room = 0 < ready || lanes.len() < shares.all || own < part(lanes, claimant, shares.all);
    if own < shares.each && is_room { Choice::New } else { Choice::Shared(shared.id) }
}

/// Returns the part of all lanes of a user, given the users that have some (choice-3).
fn part(lanes: &[LaneUse<'_>], claimant: &Claimant, all: usize) -> usize {
    let mut users = lanes.iter().filter_map(|lane| lane.claimant).collect::<HashSet<_>>();
    users.insert(claimant);
    all / users.len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn user(name: &str) -> Claimant {
        Claimant { user: Some(Arc::from(name)), is_admin: name == "admin" }
    }

    /// Checks the choice for a statement of a user, given the lanes of `all` of at most `each`:
    /// names with their numbers of statements that work and that wait, such as `bob 1 0`, and `-`
    /// for an idle one. Ids count from 1.
    fn check(all: usize, lanes: &[&str], name: &str, expected: Choice) {
        let owners = lanes.iter().map(|lane| lane.split(' ').next().unwrap()).map(user);
        let owners = owners.collect::<Vec<_>>();
        let uses = lanes.iter().zip(&owners).zip(1..).map(|((lane, owner), id)| {
            let mut counts = lane.split(' ').skip(1).map(|count| count.parse::<usize>().unwrap());
            let claimant = Some(owner).filter(|_| *lane != "-");
            let (working, waiting) = (counts.next().unwrap_or(0), counts.next().unwrap_or(0));
            LaneUse { id, claimant, working, waiting }
        });
        let ready = lanes.iter().filter(|lane| **lane == "-").count();
        let chosen = choose(&uses.collect::<Vec<_>>(), ready, &user(name), Shares::of(all));
        assert_eq!(chosen, expected, "{name} beside {lanes:?}");
    }

    #[test]
    fn users_share_no_lanes_with_others() {
        let (new, shared) = (Choice::New, Choice::Shared);
        check(4, &[], "bob", new);
        check(4, &["bob 1 0", "-"], "bob", new);
        // choice-2: three of four.
        let full = ["bob 1 1", "bob 0 2", "bob 0 1"];
        check(4, &full, "bob", shared(3));
        check(4, &full, "ann", new);
        check(4, &full, "admin", new);
        // choice-1: all lanes are there, and those of others are not shared.
        let full = ["bob 0 1", "bob 0 1", "bob 0 1", "ann 1 0"];
        for name in ["eve", "admin"] {
            check(4, &full, name, new);
        }
    }

    #[test]
    fn a_user_gets_its_part_of_the_lanes() {
        let (new, shared) = (Choice::New, Choice::Shared);
        let bob = ["bob 0 1", "bob 0 1", "bob 0 1"];
        let with = |others: &[&'static str]| [bob.as_slice(), others].concat();
        // choice-3
        check(4, &with(&["ann 1 0"]), "ann", new);
        check(4, &with(&["ann 1 0", "ann 1 0"]), "ann", shared(4));
        check(4, &with(&["ann 1 0", "eve 1 0"]), "ann", shared(4));
        // Idle lanes are for all.
        check(4, &["bob 1 0", "bob 1 0", "ann 1 0", "-"], "ann", new);
    }

    #[test]
    fn statements_that_wait_count_for_nothing() {
        let shared = Choice::Shared;
        // choice-4
        check(2, &["bob 1 0", "bob 0 9"], "bob", shared(2));
        check(2, &["bob 0 2", "bob 0 1"], "bob", shared(2));
        check(2, &["bob 1 0", "bob 1 0"], "bob", shared(1));
        // Remaining tasks of an ended statement are not joined.
        check(2, &["bob 0 0", "bob 1 0"], "bob", shared(2));
        check(2, &["bob 0 0", "bob 0 0"], "bob", Choice::New);
    }
}
