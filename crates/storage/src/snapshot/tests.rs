//! Overlap groups compared with a slow version that checks every pair of segments.

use proptest::prelude::{ProptestConfig, Strategy, proptest};
use tidegate_model::ByteCount;

use super::*;

/// The segment of the rows of one commit, from `min_ts` to `max_ts`.
fn meta(id: u64, min_ts: i64, max_ts: i64, seq_txn: u64) -> SegmentMeta {
    SegmentMeta {
        id: SegmentId(id),
        partition: PartitionKey(0),
        rows: RowCount(2),
        bytes: ByteCount(1),
        min_ts,
        max_ts,
        seq_first: SeqTxn(seq_txn),
        seq_last: SeqTxn(seq_txn),
        footer_crc: 0,
    }
}

/// Few timestamps and commits, so that many are equal.
fn metas() -> impl Strategy<Value = Vec<SegmentMeta>> {
    let segment = (0..10_i64, 0..4_i64, 1..5_u64)
        .prop_map(|(min, length, seq)| meta(0, min, min + length, seq));
    proptest::collection::vec(segment, 0..12).prop_map(|mut metas| {
        for (id, meta) in metas.iter_mut().enumerate() {
            meta.id = SegmentId(id as u64);
        }
        metas
    })
}

/// Returns true if all rows of `a` precede all rows of `b` (snapshot-1).
fn is_before(a: &SegmentMeta, b: &SegmentMeta) -> bool {
    a.max_ts < b.min_ts || a.max_ts == b.min_ts && tie_order(a) < tie_order(b)
}

/// Joins groups of which two members overlap until there are none (snapshot-3).
fn slow_groups(metas: &[SegmentMeta]) -> Vec<Vec<usize>> {
    let overlap = |a: &usize, b: &usize| {
        !is_before(&metas[*a], &metas[*b]) && !is_before(&metas[*b], &metas[*a])
    };
    let mut groups: Vec<Vec<usize>> = (0..metas.len()).map(|at| vec![at]).collect();
    loop {
        let pairs = (0..groups.len()).flat_map(|a| (a + 1..groups.len()).map(move |b| (a, b)));
        let meets = |&(a, b): &(usize, usize)| {
            groups[a].iter().any(|a| groups[b].iter().any(|b| overlap(a, b)))
        };
        let Some((a, b)) = pairs.into_iter().find(meets) else { break };
        let joined = groups.remove(b);
        groups[a].extend(joined);
    }
    groups.sort_by(|a, b| {
        if is_before(&metas[a[0]], &metas[b[0]]) {
            std::cmp::Ordering::Less
        } else {
            std::cmp::Ordering::Greater
        }
    });
    for group in &mut groups {
        group.sort_by_key(|&at| tie_order(&metas[at]));
    }
    groups
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn groups_are_those_of_the_slow_version(metas in metas()) {
        assert_eq!(scan_groups(&metas, true), slow_groups(&metas), "snapshot-3 {metas:?}");
    }

    #[test]
    fn group_after_group_gives_all_rows_in_order(metas in metas()) {
        let row = |at: usize, ts: i64| (ts, tie_order(&metas[at]));
        let mut read = Vec::new();
        for group in scan_groups(&metas, true) {
            // A merge by timestamp and place in the group.
            let mut rows: Vec<_> = group
                .iter()
                .enumerate()
                .flat_map(|(place, &at)| {
                    [metas[at].min_ts, metas[at].max_ts].map(|ts| (ts, place, row(at, ts)))
                })
                .collect();
            rows.sort_by_key(|&(ts, place, _)| (ts, place));
            read.extend(rows.into_iter().map(|(_, _, row)| row));
        }
        assert_eq!(read.len(), metas.len() * 2);
        assert!(read.is_sorted(), "snapshot-1, snapshot-2 {metas:?}");
    }
}

#[test]
fn segments_of_one_import_that_only_touch_are_groups_of_their_own() {
    let metas = [meta(2, 5, 9, 1), meta(1, 0, 5, 1), meta(3, 9, 9, 1)];
    assert_eq!(scan_groups(&metas, true), [[1], [0], [2]]);
}

#[test]
fn a_later_commit_that_touches_from_below_is_merged() {
    let metas = [meta(1, 5, 9, 1), meta(2, 0, 5, 2)];
    assert_eq!(scan_groups(&metas, true), [[0, 1]]);
}

#[test]
fn without_a_designated_timestamp_segments_stand_in_the_order_of_commits() {
    let metas = [meta(1, 0, 0, 2), meta(3, 0, 0, 1), meta(2, 0, 0, 1)];
    assert_eq!(scan_groups(&metas, false), [[2], [1], [0]]);
}
