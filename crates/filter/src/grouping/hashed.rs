//! Keys of any kind, looked up by hashes that the caller knows.

use super::BLOCK;
use super::slots::{Slots, hit};

/// A hash table from keys to groups, numbered from 0 on.
#[derive(Debug)]
pub struct HashedTable<K> {
    slots: Slots,
    keys: Vec<K>,
}

impl<K> HashedTable<K> {
    /// An empty table with room for so many groups.
    #[must_use]
    pub fn with_capacity(groups: usize) -> HashedTable<K> {
        let mut slots = Slots::default();
        slots.reserve(groups);
        HashedTable { slots, keys: Vec::with_capacity(groups) }
    }

    /// The keys of the groups.
    #[must_use]
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The keys of the groups, without the table.
    #[must_use]
    pub fn into_keys(self) -> Vec<K> {
        self.keys
    }

    /// Writes the group of each hash; keys that are new get the next groups. `key_at` returns the
    /// key of a place, and `is_same` compares two with the same hash, mostly the same ones.
    ///
    /// # Panics
    /// If there is not a place for each group, or there are 2^32 groups.
    pub fn groups(
        &mut self,
        hashes: &[u64],
        groups: &mut [u32],
        key_at: impl Fn(usize) -> K,
        is_same: impl Fn(&K, &K) -> bool,
    ) {
        assert_eq!(hashes.len(), groups.len(), "a group for each key");
        let HashedTable { slots, keys } = self;
        let mut firsts = [0; BLOCK];
        for (block, (hashes, groups)) in
            hashes.chunks(BLOCK).zip(groups.chunks_mut(BLOCK)).enumerate()
        {
            slots.reserve(hashes.len());
            firsts.iter_mut().zip(hashes).for_each(|(first, &hash)| *first = slots.first(hash));
            for (at, (group, &hash)) in groups.iter_mut().zip(hashes).enumerate() {
                let key = key_at(block * BLOCK + at);
                let is_it = |group: u32| is_same(&keys[group as usize], &key);
                *group = match hit(firsts[at], hash) {
                    Some(group) if is_it(group) => group,
                    _ => match slots.find(hash, is_it) {
                        Ok(group) => group,
                        Err(vacancy) => {
                            let group = u32::try_from(keys.len()).expect("below 2^32 groups");
                            keys.push(key);
                            slots.insert(&vacancy, group);
                            group
                        }
                    },
                };
            }
        }
    }
}
