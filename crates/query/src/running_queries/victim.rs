//! The choice of the statement that is cancelled when the process has too much memory: a pure
//! function.
//!
//! - victim-1. The user whose statements have most memory together loses the largest of them: many
//!   small statements of one user do not end a large one of another.
//! - victim-2. Statements that were stopped count to their user, whose other statements are those
//!   that go next.
//! - victim-3. Administrators come last, unless all other users have little.
//! - victim-4. A user whose statements have next to nothing loses none: the memory is elsewhere.
//!
//! Not here: the time of a cancel, and whether stopped statements are waited for (`watchdog` of the
//! server).

use std::collections::HashMap;

/// The divisor of the limit below which the memory of a user is little (victim-3): without it, the
/// process would be over its limit, too.
const LITTLE: u64 = 16;
/// The divisor of the limit below which it is next to nothing (victim-4).
const NEXT_TO_NOTHING: u64 = 64;

/// The memory of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) is_admin: bool,
    pub(super) bytes: u64,
    /// False if the statement was stopped.
    pub(super) is_going_on: bool,
}

impl Share<'_> {
    /// The bytes that become free by themselves.
    pub(super) fn ending_bytes(self) -> u64 {
        if self.is_going_on { 0 } else { self.bytes }
    }
}

/// The statements that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    All,
    /// Those of users whose stopped statements have more than a little memory.
    UsersWithStopped,
}

/// The memory of the statements of one user.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    all: u64,
    /// The part of those that were stopped.
    ending: u64,
}

/// Returns the position of the statement to cancel, of a process with this limit; `None` if none
/// that goes on, and may be chosen, has memory.
pub(super) fn victim(shares: &[Share<'_>], limit: u64, among: Among) -> Option<usize> {
    let mut users = HashMap::<Option<&str>, Sums>::new();
    for share in shares {
        let sums = users.entry(share.user).or_default();
        sums.all = sums.all.saturating_add(share.bytes);
        sums.ending = sums.ending.saturating_add(share.ending_bytes());
    }
    let mut chosen: Option<(bool, u64, u64, usize)> = None;
    for (position, share) in shares.iter().enumerate() {
        let sums = users[&share.user];
        let may_be_chosen = match among {
            Among::All => limit / NEXT_TO_NOTHING <= sums.all,
            Among::UsersWithStopped => limit / LITTLE <= sums.ending,
        };
        if share.is_going_on && 0 < share.bytes && may_be_chosen {
            let is_first = !share.is_admin && limit / LITTLE <= sums.all;
            chosen = chosen.max(Some((is_first, sums.all, share.bytes, position)));
        }
    }
    chosen.map(|(.., position)| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: &str, bytes: u64) -> Share<'_> {
        Share { user: Some(user), is_admin: user == "root", bytes, is_going_on: true }
    }

    fn stopped(user: &str, bytes: u64) -> Share<'_> {
        Share { is_going_on: false, ..of(user, bytes) }
    }

    #[track_caller]
    fn check(shares: &[Share<'_>], expected: Option<usize>) {
        assert_eq!(victim(shares, 1_600, Among::All), expected, "{shares:?}");
    }

    #[test]
    fn the_user_with_most_memory_loses_its_largest_statement() {
        check(&[], None);
        check(&[of("ann", 0), stopped("ann", 900)], None);
        // victim-1.
        check(&[of("ann", 300), of("bob", 200), of("bob", 250), of("eve", 400)], Some(2));
        let nameless = Share { user: None, is_admin: true, bytes: 9, is_going_on: true };
        check(&[Share { bytes: 25, ..nameless }], Some(0));
        // victim-4.
        check(&[Share { bytes: 24, ..nameless }, of("ann", 24)], None);
    }

    // One connection repeated a statement whose memory was in no account, and that its timeout
    // ended long before its threads: all statements of another user were cancelled, one after the
    // other, and none of that connection.
    #[test]
    fn stopped_statements_count_to_their_user() {
        check(&[of("ann", 60), of("bob", 1), stopped("bob", 2_000)], Some(1));
        check(&[of("ann", 60), stopped("bob", 2_000)], Some(0));
        check(&[stopped("bob", 2_000)], None);
        let shares = [of("ann", 900), of("bob", 1), stopped("bob", 700), stopped("ann", 99)];
        assert_eq!(victim(&shares, 1_600, Among::UsersWithStopped), Some(1), "victim-2");
        check(&shares, Some(0));
    }

    #[test]
    fn administrators_come_last_unless_the_others_have_little() {
        check(&[of("root", 900), of("ann", 100)], Some(1)); // victim-3
        check(&[of("root", 900), of("ann", 99)], Some(0));
    }
}
