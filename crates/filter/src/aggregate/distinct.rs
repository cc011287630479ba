//! Numbers of distinct values: a bitmap of the ids of values for each group.
//!
//! - distinct-1. The id of a value is below 64 for each word of a bitmap; 0 is NULL, which is not
//!   counted.
//!
//! Not here: the ids of values (`query`).

use super::{Accumulator, AggregateKind, GroupIndices};

/// The ids of the values of some rows.
#[derive(Debug, Clone, Copy)]
pub enum ValueIds<'i> {
    /// All rows have the same value.
    Same(u32),
    /// One id for each row.
    Each(&'i [u32]),
}

impl Accumulator {
    /// Adds the values of rows, for `AggregateKind::Distinct`.
    ///
    /// # Panics
    /// If a group does not exist, an id is too large (distinct-1), or there is not one for each
    /// row.
    pub fn add_ids(&mut self, groups: GroupIndices<'_>, ids: ValueIds<'_>) {
        let words = self.words();
        match (groups, ids) {
            (GroupIndices::Same(group), ValueIds::Same(id)) => {
                set(&mut self.bits[group * words..][..words], id);
            }
            (GroupIndices::Same(group), ValueIds::Each(ids)) => {
                let bits = &mut self.bits[group * words..][..words];
                ids.iter().for_each(|&id| set(bits, id));
            }
            (GroupIndices::Each(groups), ValueIds::Same(id)) => {
                for &group in groups {
                    set(&mut self.bits[group as usize * words..][..words], id);
                }
            }
            (GroupIndices::Each(groups), ValueIds::Each(ids)) => {
                assert_eq!(groups.len(), ids.len(), "a group a row");
                for (&group, &id) in groups.iter().zip(ids) {
                    set(&mut self.bits[group as usize * words..][..words], id);
                }
            }
        }
    }

    /// The number of distinct values of a group, without NULL.
    #[must_use]
    pub fn distinct_count(&self, group: usize) -> u64 {
        let words = self.words();
        let bits = &self.bits[group * words..][..words];
        let all = bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        all - bits.first().map_or(0, |word| word & 1)
    }

    /// The words of the bitmap of a group.
    pub(super) fn words(&self) -> usize {
        match self.kind {
            AggregateKind::Distinct { words } => words,
            _ => 0,
        }
    }

    /// Adds the values of another worker: those of the group at `from`, and of those behind it, to
    /// one group each.
    pub(super) fn merge_ids(&mut self, groups: &[u32], other: &Accumulator, from: usize) {
        let words = self.words();
        for (&group, from) in groups.iter().zip(from..) {
            let bits = &mut self.bits[group as usize * words..][..words];
            for (bits, other) in bits.iter_mut().zip(&other.bits[from * words..]) {
                *bits |= other;
            }
        }
    }

    /// Returns the bitmaps of these groups.
    pub(super) fn gathered_bits(&self, groups: &[u32]) -> Vec<u64> {
        let words = self.words();
        let mut all = Vec::with_capacity(groups.len() * words);
        if words == 0 {
            return all;
        }
        for &group in groups {
            all.extend_from_slice(&self.bits[group as usize * words..][..words]);
        }
        all
    }
}

#[inline]
fn set(bits: &mut [u64], id: u32) {
    bits[id as usize / 64] |= 1 << (id % 64);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const GROUPS: usize = 5;

    proptest! {
        #[test]
        fn distinct_counts_are_those_of_sets(
            batches in vec(vec((0..5_u32, 0..130_u32), 1..50), 0..6),
            one_group in any::<bool>(),
            one_id in any::<bool>(),
        ) {
            let kind = AggregateKind::Distinct { words: 3 };
            let mut workers = [Accumulator::new(kind, 0), Accumulator::new(kind, GROUPS)];
            workers[0].grow(2);
            workers[0].grow(GROUPS);
            let mut sets = vec![BTreeSet::new(); GROUPS];
            for (at, rows) in batches.iter().enumerate() {
                let groups = rows.iter().map(|&(group, _)| group).collect::<Vec<_>>();
                let ids = rows.iter().map(|&(_, id)| id).collect::<Vec<_>>();
                let of_groups = match one_group {
                    true => GroupIndices::Same(groups[0] as usize),
                    false => GroupIndices::Each(&groups),
                };
                let of_ids =
                    if one_id { ValueIds::Same(ids[0]) } else { ValueIds::Each(&ids) };
                workers[at % 2].add_ids(of_groups, of_ids);
                for (group, id) in groups.iter().zip(&ids) {
                    let group = if one_group { groups[0] } else { *group };
                    let id = if one_id { ids[0] } else { *id };
                    // distinct-1: 0 is NULL.
                    sets[group as usize].extend((id != 0).then_some(id));
                }
            }
            let [mut joined, other] = workers;
            let all = [0, 1, 2, 3, 4];
            let mut grown = Accumulator::new(kind, GROUPS);
            for part in [&joined, &other] {
                grown.merge_groups(&all[..2], part, 0);
                grown.merge_groups(&all[2..], part, 2);
            }
            joined.merge(&other);
            let reversed = grown.gathered(&[4, 3, 2, 1, 0]);
            for (group, set) in sets.iter().enumerate() {
                let expected = set.len() as u64;
                prop_assert_eq!(joined.distinct_count(group), expected, "distinct-1");
                prop_assert_eq!(grown.distinct_count(group), expected);
                prop_assert_eq!(reversed.distinct_count(GROUPS - 1 - group), expected);
            }
            grown.clear();
            grown.grow(1);
            prop_assert_eq!(grown.distinct_count(0), 0);
        }
    }
}
