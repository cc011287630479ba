//! A hash table that numbers groups: from the packed key of a row to the number of its group.

use super::BLOCK;
use super::hash::hash_of_key;
use super::slots::{Slots, hit};

/// A hash table from packed keys to groups, numbered from 0 on.
#[derive(Debug)]
pub struct KeyTable {
    seed: u64,
    slots: Slots,
    keys: Vec<u128>,
}

impl KeyTable {
    /// An empty table whose hashes have this seed.
    #[must_use]
    pub fn new(seed: u64) -> KeyTable {
        KeyTable { seed, slots: Slots::default(), keys: Vec::new() }
    }

    /// The keys of the groups.
    #[must_use]
    pub fn keys(&self) -> &[u128] {
        &self.keys
    }

    /// The keys of the groups, without the table.
    #[must_use]
    pub fn into_keys(self) -> Vec<u128> {
        self.keys
    }

    /// Reserves memory for this many more groups.
    pub fn reserve(&mut self, more: usize) {
        self.slots.reserve(more);
        self.keys.reserve(more);
    }

    /// Removes all groups, and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.keys.clear();
    }

    /// The bytes of memory of the table.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.bytes() + self.keys.capacity() * size_of::<u128>()
    }

    /// Writes the group of each key; keys that are new get the next groups.
    ///
    /// # Panics
    /// If the output has another length than the keys, or there would be 2^32 groups.
    pub fn groups(&mut self, keys: &[u128], groups: &mut [u32]) {
        assert_eq!(keys.len(), groups.len(), "a group for each key");
        for (keys, groups) in keys.chunks(BLOCK).zip(groups.chunks_mut(BLOCK)) {
            self.groups_of_block(keys, groups);
        }
    }

    /// Makes a new group for each key without searching for the key, and writes the groups. A key
    /// may then have several groups, until `clear`.
    ///
    /// # Panics
    /// As `groups`.
    pub fn append(&mut self, keys: &[u128], groups: &mut [u32]) {
        assert_eq!(keys.len(), groups.len(), "a group for each key");
        let first = u32::try_from(self.keys.len()).expect("below 2^32 groups");
        self.keys.extend_from_slice(keys);
        groups.iter_mut().zip(first..).for_each(|(group, number)| *group = number);
    }

    fn groups_of_block(&mut self, keys: &[u128], groups: &mut [u32]) {
        let KeyTable { seed, slots, keys: known } = self;
        slots.reserve(keys.len());
        let (mut hashes, mut firsts) = ([0; BLOCK], [0; BLOCK]);
        for ((hash, first), key) in hashes.iter_mut().zip(&mut firsts).zip(keys) {
            *hash = hash_of_key(*seed, *key);
            *first = slots.first(*hash);
        }
        let found = hashes.iter().zip(&firsts);
        for ((group, &key), (&hash, &first)) in groups.iter_mut().zip(keys).zip(found) {
            *group = match hit(first, hash) {
                Some(group) if known[group as usize] == key => group,
                _ => match slots.find(hash, |group| known[group as usize] == key) {
                    Ok(group) => group,
                    Err(vacancy) => {
                        let group = u32::try_from(known.len()).expect("below 2^32 groups");
                        known.push(key);
                        slots.insert(&vacancy, group);
                        group
                    }
                },
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_key_has_one_group(zones in vec(vec(0_u128..2_000, 0..700), 0..6), shift in 0..100) {
            let mut table = KeyTable::new(3);
            for round in 0..2 {
                let mut known = HashMap::new();
                for zone in &zones {
                    let keys = zone.iter().map(|key| key << shift).collect::<Vec<_>>();
                    let mut groups = vec![u32::MAX; keys.len()];
                    table.groups(&keys, &mut groups);
                    for (&key, &group) in keys.iter().zip(&groups) {
                        let next = known.len();
                        let expected = *known.entry(key).or_insert(next);
                        prop_assert_eq!(group as usize, expected, "grouping-1: round {}", round);
                        prop_assert_eq!(table.keys()[expected], key, "grouping-1");
                    }
                }
                prop_assert_eq!(table.keys().len(), known.len());
                table.clear();
            }
        }
    }

    #[test]
    fn appended_keys_have_groups_of_their_own() {
        let (mut table, mut groups) = (KeyTable::new(3), [0; 3]);
        table.append(&[5, 5, 6], &mut groups);
        assert_eq!((groups, table.keys()), ([0, 1, 2], &[5, 5, 6][..]));
        table.clear();
        table.groups(&[5, 5, 6], &mut groups);
        assert_eq!((groups, table.keys()), ([0, 0, 1], &[5, 6][..]));
    }
}
