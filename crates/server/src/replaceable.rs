//! Connections that newer ones replace: those of PostgreSQL's protocol before their login, and
//! those of the listener for health and metrics.
//!
//! - replaceable-1. If there is no place for one more socket, the oldest one of the network that
//!   has most of them is dropped: a client that opens many, as fast as it can, only drops its own
//!   ones, and locks no client of another network out. A login and an answer take milliseconds, and
//!   clients of the same network are dropped only after a whole round of its places.
//!
//! A network is an IPv4 address, or the 64 bits of an IPv6 address that one site has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The list of all of one kind.
#[derive(Debug, Default)]
pub(crate) struct ReplaceableSockets(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// The number of sockets so far.
    number: u64,
    /// The sockets of each network that has some, by their numbers: the oldest first.
    waiting: HashMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
}

/// A connection that can be replaced; dropping this removes it from the list.
#[derive(Debug)]
pub(crate) struct ReplaceableSocket {
    queue: Arc<Mutex<Queue>>,
    network: IpAddr,
    number: u64,
    dropped: Arc<Notify>,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the network of a client (replaceable-1).
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

impl Queue {
    /// Removes a socket, if it is there.
    fn remove(&mut self, network: IpAddr, number: u64) -> Option<Arc<Notify>> {
        let sockets = self.waiting.get_mut(&network)?;
        let removed = sockets.remove(&number);
        if sockets.is_empty() {
            self.waiting.remove(&network);
        }
        removed
    }

    /// Returns the network and the number of the socket that is dropped next (replaceable-1).
    fn next(&self) -> Option<(IpAddr, u64)> {
        let oldest = self.waiting.iter().filter_map(|(network, sockets)| {
            let (number, _) = sockets.first_key_value()?;
            Some((sockets.len(), Reverse(*number), *network))
        });
        oldest.max().map(|(_, Reverse(number), network)| (network, number))
    }
}

impl ReplaceableSockets {
    pub(crate) fn enter(&self, client: IpAddr) -> ReplaceableSocket {
        let (network, dropped) = (network(client), Arc::<Notify>::default());
        let mut queue = lock(&self.0);
        queue.number += 1;
        let number = queue.number;
        queue.waiting.entry(network).or_default().insert(number, Arc::clone(&dropped));
        ReplaceableSocket { queue: Arc::clone(&self.0), network, number, dropped }
    }

    /// Drops the oldest one of the network that has most; false if there is none (replaceable-1).
    pub(crate) fn drop_oldest(&self) -> bool {
        let mut queue = lock(&self.0);
        let Some((network, number)) = queue.next() else { return false };
        let dropped = queue.remove(network, number);
        dropped.is_some_and(|dropped| {
            dropped.notify_one();
            true
        })
    }
}

impl ReplaceableSocket {
    /// Waits until it is dropped by `drop_oldest`.
    pub(crate) async fn dropped(&self) {
        self.dropped.notified().await;
    }
}

impl Drop for ReplaceableSocket {
    fn drop(&mut self) {
        lock(&self.queue).remove(self.network, self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const HOST: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    #[test]
    fn the_oldest_is_dropped_first() {
        let sockets = ReplaceableSockets::default();
        assert!(!sockets.drop_oldest(), "the list is empty");
        let [first, second, third] = [(); 3].map(|()| sockets.enter(HOST));
        drop(first);
        assert!(sockets.drop_oldest());
        assert!(second.dropped().now_or_never().is_some(), "replaceable-1");
        assert!(third.dropped().now_or_never().is_none(), "replaceable-1");
        assert!(sockets.drop_oldest() && !sockets.drop_oldest());
        drop((second, third));
        assert!(!sockets.drop_oldest());
        assert!(lock(&sockets.0).waiting.is_empty());
    }

    // One machine opened 15,000 connections a second at the listener for health and metrics: all
    // 64 places were new after four milliseconds, and every eighth health check of others failed.
    #[test]
    fn a_network_with_many_connections_drops_its_own() {
        let sockets = ReplaceableSockets::default();
        let client = |text: &str| text.parse::<IpAddr>().unwrap();
        let check = sockets.enter(client("192.0.2.1"));
        let same = sockets.enter(client("::ffff:192.0.2.1"));
        // Addresses of one site are one network.
        let flood = (0..64).map(|at| sockets.enter(client(&format!("2001:db8::{at:x}"))));
        let flood = flood.collect::<Vec<_>>();
        for _ in 0..62 {
            assert!(sockets.drop_oldest());
        }
        assert!(flood[61].dropped().now_or_never().is_some(), "replaceable-1");
        assert!(check.dropped().now_or_never().is_none(), "replaceable-1");
        // With as many as another network, the oldest goes.
        assert!(sockets.drop_oldest());
        assert!(check.dropped().now_or_never().is_some(), "replaceable-1");
        assert!(same.dropped().now_or_never().is_none() && sockets.drop_oldest());
        assert!(flood[62].dropped().now_or_never().is_some(), "replaceable-1");
    }
}
