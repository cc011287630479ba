//! The plan of the bounds of buckets: made from a sample of timestamps, before the first row is
//! scattered.
//!
//! Partitions with enough rows are divided into their own buckets, small neighbours share one. A
//! sample is not exact: a bucket may become larger than planned, and is then sorted all the same,
//! only with less of it in cache.

use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{PartitionUnit, TimeUnit, Timestamp};

/// The maximum number of buckets: each worker fills a column buffer of each at the same time.
pub(crate) const BUCKETS_MAX: usize = 1_024;
/// The rows that a bucket should hold: few enough that a column of it stays in L2 while it is
/// gathered.
const BUCKET_ROWS: u64 = 128 << 10;
/// The rows of a partition below which it shares a bucket with its neighbours.
const SHARED_ROWS: u64 = 24 << 10;

/// The first timestamp of every bucket but the first.
#[derive(Debug, Clone)]
pub(crate) struct BucketPlan {
    bounds: Vec<i64>,
}

/// The input of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanOptions {
    pub(crate) partition_by: PartitionUnit,
    pub(crate) unit: TimeUnit,
    /// The approximate number of rows.
    pub(crate) rows: u64,
    /// The maximum number of rows that a bucket should have, if the number of buckets allows it.
    pub(crate) bucket_rows_max: u64,
    /// The maximum number of buckets.
    pub(crate) count_max: usize,
}

impl BucketPlan {
    /// The plan with one bucket.
    pub(crate) fn single() -> BucketPlan {
        BucketPlan { bounds: Vec::new() }
    }

    /// Makes a plan from `sample`, timestamps of the input in any order. Those that no row can have
    /// (model_time-1) are ignored.
    pub(crate) fn from_sample(mut sample: Vec<i64>, options: PlanOptions) -> BucketPlan {
        sample.retain(|ts| (TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(ts));
        if sample.is_empty() {
            return BucketPlan::single();
        }
        sample.sort_unstable();
        let rows_per_sample = (options.rows as f64 / sample.len() as f64).max(1.0);
        // Buckets become larger if `BUCKETS_MAX` of them are too few.
        let count_max = options.count_max.min(BUCKETS_MAX);
        let least = options.rows.div_ceil((count_max as u64 * 3 / 4).max(1));
        let bucket_rows = BUCKET_ROWS.min(options.bucket_rows_max).max(least);
        let samples = |rows: u64| ((rows as f64 / rows_per_sample).ceil()).max(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1")]
        let (per_bucket, shared) =
            (samples(bucket_rows) as usize, samples(SHARED_ROWS.min(bucket_rows)) as usize);
        let mut bounds = Vec::new();
        let mut open = 0; // samples since the last bound
        for partition in sample.chunk_by(|&a, &b| {
            let floor = |ts| options.partition_by.floor(Timestamp(ts), options.unit);
            floor(a) == floor(b)
        }) {
            let start = options.partition_by.floor(Timestamp(partition[0]), options.unit).0;
            if open + partition.len() > shared && open > 0 {
                bounds.push(start);
                open = 0;
            }
            let parts = partition.len().div_ceil(per_bucket);
            for part in 1..parts {
                bounds.push(partition[partition.len() * part / parts]);
                open = 0;
            }
            open += partition.len() / parts;
        }
        bounds.dedup();
        bounds.retain(|&bound| bound > sample[0]);
        bounds.truncate(BUCKETS_MAX - 1);
        BucketPlan { bounds }.thinned(count_max)
    }

    /// Makes a plan from instants or input chunks, in any order, each with the bytes of its rows: a
    /// bucket has at most `bytes_max`, unless one entry alone has more, or `count_max` buckets are
    /// reached.
    pub(crate) fn by_bytes(
        mut sample: Vec<(i64, u64)>,
        bytes_max: u64,
        count_max: usize,
    ) -> BucketPlan {
        sample.sort_unstable();
        let all: u64 = sample.iter().map(|(_, bytes)| bytes).sum();
        let bytes_max = bytes_max.max(all.div_ceil((count_max as u64 * 3 / 4).max(1)));
        let (mut bounds, mut open) = (Vec::new(), 0);
        for same in sample.chunk_by(|a, b| a.0 == b.0) {
            let bytes: u64 = same.iter().map(|(_, bytes)| bytes).sum();
            if open > 0 && open + bytes > bytes_max {
                bounds.push(same[0].0);
                open = 0;
            }
            open += bytes;
        }
        BucketPlan { bounds }.thinned(count_max)
    }

    /// The plan with two buckets: rows before `bound`, and the others.
    pub(crate) fn cut_at(bound: i64) -> BucketPlan {
        BucketPlan { bounds: vec![bound] }
    }

    /// Joins neighbours until there are at most this many buckets.
    pub(crate) fn thinned(self, count_max: usize) -> BucketPlan {
        if self.count() <= count_max {
            return self;
        }
        let step = self.count().div_ceil(count_max.max(1));
        // The first new bucket consists of `step` old ones, like all others except the last.
        let bounds = self.bounds.into_iter().skip(step - 1).step_by(step);
        BucketPlan { bounds: bounds.collect() }
    }

    /// The number of buckets.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The bucket of a timestamp (ingest_bucket-1).
    #[inline]
    pub(crate) fn bucket(&self, ts: i64) -> usize {
        self.bounds.partition_point(|&bound| bound <= ts)
    }

    /// The range of a bucket: timestamps `range.0 <= ts < range.1`. The first and the last bucket
    /// are unbounded.
    pub(crate) fn range(&self, bucket: usize) -> (i64, i64) {
        let start = if bucket == 0 { i64::MIN } else { self.bounds[bucket - 1] };
        (start, self.bounds.get(bucket).copied().unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn plan(days: i64, per_day: i64, rows: u64) -> BucketPlan {
        let sample = (0..days * per_day).map(|i| i * DAY / per_day).collect();
        let (partition_by, unit) = (PartitionUnit::Day, TimeUnit::Micros);
        let count_max = BUCKETS_MAX;
        let bucket_rows_max = u64::MAX;
        let options = PlanOptions { partition_by, unit, rows, bucket_rows_max, count_max };
        BucketPlan::from_sample(sample, options)
    }

    #[test]
    fn a_day_of_a_usual_size_is_a_bucket() {
        let plan = plan(31, 100, 31 * 65_000);
        assert_eq!(plan.count(), 31);
        assert_eq!(plan.bucket(-1), 0);
        assert_eq!(plan.bucket(5 * DAY - 1), 4);
        assert_eq!(plan.bucket(5 * DAY), 5);
        assert_eq!(plan.bucket(i64::MAX), 30);
    }

    #[test]
    fn small_partitions_share_and_large_ones_are_cut() {
        assert!(plan(1_000, 10, 10_000).count() <= 2);
        let cut = plan(2, 1_000, 2_000_000);
        assert!((16..=20).contains(&cut.count()), "{}", cut.count());
        assert!(plan(50, 1_000, 4_000_000_000).count() <= BUCKETS_MAX);
        assert_eq!(plan(0, 0, 5).count(), 1);
    }

    #[test]
    fn a_few_large_rows_have_buckets_of_their_own() {
        let small = (0..100).map(|ts| (ts, 10));
        let sample: Vec<_> = small.chain([(50, 5_000), (51, 5_000), (99, 700)]).collect();
        let plan = BucketPlan::by_bytes(sample.clone(), 1_000, BUCKETS_MAX);
        assert_eq!(plan.bounds, [50, 51, 52, 99]);
        assert_eq!(BucketPlan::by_bytes(sample, 1_000, 4).bounds, [50, 51, 52]);
        assert_eq!(BucketPlan::by_bytes(vec![(7, 10), (7, 1 << 40)], 5, 9).count(), 1);
        for count in 1..9 {
            let thinned = plan.clone().thinned(count);
            assert!(thinned.count() <= count, "{count}: {thinned:?}");
        }
    }

    #[test]
    fn ranges_meet_and_agree_with_bucket() {
        let plan = plan(9, 1_000, 3_000_000);
        for bucket in 0..plan.count() {
            let (start, end) = plan.range(bucket);
            assert!(start < end);
            assert_eq!(plan.bucket(start), bucket);
            assert_eq!(plan.bucket(end - 1), bucket);
        }
    }
}
