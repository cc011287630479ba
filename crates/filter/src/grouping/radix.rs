//! Partitions of groups by their hashes.
//!
//! - radix-1. The partition of a group is the lower bits of its hash: the upper ones are where
//!   it is looked for in a table, and differ within a partition.

/// The number of partitions.
pub const PARTITIONS: usize = 256;

/// Groups in the order of their partitions.
#[derive(Debug)]
pub struct PartitionOrder {
    /// Numbers of groups.
    pub groups: Vec<u32>,
    /// The start of each partition in `groups`, and the end of the last one.
    pub starts: Vec<u32>,
}

impl PartitionOrder {
    /// The order of groups with these numbers and hashes.
    ///
    /// # Panics
    /// If there are 2^32 groups.
    #[must_use]
    pub fn of(groups: impl Iterator<Item = (u32, u64)> + Clone) -> PartitionOrder {
        let mut next = [0_u32; PARTITIONS];
        groups.clone().for_each(|(_, hash)| next[partition_of(hash)] += 1);
        let mut starts = Vec::with_capacity(PARTITIONS + 1);
        starts.push(0);
        let mut end = 0_u32;
        for next in &mut next {
            let count = std::mem::replace(next, end);
            end = end.checked_add(count).expect("below 2^32 groups");
            starts.push(end);
        }
        let mut order = vec![0; end as usize];
        for (group, hash) in groups {
            let next = &mut next[partition_of(hash)];
            order[*next as usize] = group;
            *next += 1;
        }
        PartitionOrder { groups: order, starts }
    }
}

/// Returns the partition of a hash (radix-1).
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are wanted")]
fn partition_of(hash: u64) -> usize {
    hash as usize & (PARTITIONS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_in_the_partition_of_its_hash() {
        let hash_of = |group: u32| u64::from(group).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let groups = (10..5_000).map(|group| (group, hash_of(group)));
        let PartitionOrder { groups: order, starts } = PartitionOrder::of(groups);
        let mut seen = order.clone();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(10..5_000));
        assert_eq!((starts.len(), starts[PARTITIONS] as usize), (PARTITIONS + 1, order.len()));
        for (partition, range) in starts.windows(2).enumerate() {
            for &group in &order[range[0] as usize..range[1] as usize] {
                assert_eq!(partition_of(hash_of(group)), partition, "radix-1");
            }
        }
    }
}
