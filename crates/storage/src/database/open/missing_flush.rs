//! Flushes whose records are missing behind the damage of a log: their segments are found again, so
//! that later records, which count the rows as flushed, lose none of them.
//!
//! - missing_flush-1. A file is taken for rows of the memtable only if no intact record names it,
//!   and it has as many rows as a run of their commits, with the same first and last timestamp; or,
//!   if the missing commit has deleted some of them, fewer rows within these times.
//! - missing_flush-2. Rows that a later record takes from the memtable, and that no segment has,
//!   are in such a file, or their commits are listed as lost.
//!
//! Used by `repair_replay`. Bytes: docs/format.md, Log.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{PartitionKey, SegmentId, SeqTxn, TableId};

use crate::change::{TableChange, TableOp};
use crate::manifest::Manifest;
use crate::segment::SegmentMeta;
use crate::wal::RecordAfterDamage;

/// The changes of segments in the intact records behind the damage.
#[derive(Debug, Default)]
pub(crate) struct LaterRecords(BTreeMap<TableId, LaterOps>);

/// The same for one table.
#[derive(Debug, Default)]
struct LaterOps {
    rewrites: Vec<LaterRewrite>,
    /// Segments that these records add.
    added: BTreeSet<SegmentId>,
    /// Segments that they remove.
    removed: BTreeSet<SegmentId>,
    /// Segments of which they delete rows.
    changed: BTreeSet<SegmentId>,
    /// Commits that delete all rows.
    truncated: Vec<SeqTxn>,
}

/// A flush or a compaction.
#[derive(Debug)]
struct LaterRewrite {
    seq_txn: SeqTxn,
    flushed_seq: SeqTxn,
    segments: Vec<SegmentMeta>,
}

/// The result of missing flushes of one table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MissingFlush {
    /// The last commit whose rows are not in the memtable any more.
    pub(crate) flushed_seq: SeqTxn,
    /// Their segments.
    pub(crate) segments: Vec<SegmentMeta>,
    /// The commits with rows that a later record takes from the memtable, and that need the
    /// segments.
    pub(crate) taken: BTreeSet<SeqTxn>,
    /// Those of them with rows that are in no file.
    pub(crate) lost: BTreeSet<SeqTxn>,
}

/// The files of a partition that no commit so far has named.
type Unnamed<'a> = dyn FnMut(PartitionKey) -> Vec<SegmentMeta> + 'a;

impl LaterRecords {
    /// Adds a record.
    pub(crate) fn add(&mut self, after: &RecordAfterDamage<'_>) {
        if let RecordAfterDamage::Intact(record) = after {
            record.ops.iter().for_each(|op| self.add_op(op));
        }
    }

    fn add_op(&mut self, op: &TableOp) {
        let later = self.0.entry(op.table).or_default();
        let seq_txn = op.seq_txn;
        match &op.change {
            TableChange::Replace { out, flushed_seq, segments, .. } => {
                later.removed.extend(out);
                later.added.extend(segments.iter().map(|meta| meta.id));
                let (flushed_seq, segments) = (*flushed_seq, segments.clone());
                later.rewrites.push(LaterRewrite { seq_txn, flushed_seq, segments });
            }
            TableChange::AddSegments { segments, .. } => {
                later.added.extend(segments.iter().map(|meta| meta.id));
            }
            TableChange::DeletionVector { segment, .. } => {
                later.changed.insert(*segment);
            }
            TableChange::Truncate => later.truncated.push(seq_txn),
            TableChange::Create { .. }
            | TableChange::Drop
            | TableChange::Rename { .. }
            | TableChange::Alter { .. }
            | TableChange::Append { .. }
            | TableChange::GivenUp => {}
        }
    }

    /// The flushes that are among the missing commits before `next`; `None` if later commits count
    /// no rows as flushed that the memtable still has. `rows` are those of the memtable, in the
    /// order of their commits.
    pub(crate) fn missing_flush(
        &self,
        manifest: &Manifest,
        rows: &[SegmentMeta],
        next: SeqTxn,
        unnamed: &mut Unnamed<'_>,
    ) -> Option<MissingFlush> {
        let later = self.0.get(&manifest.table)?;
        let is_taking =
            |it: &&LaterRewrite| next <= it.seq_txn && manifest.flushed_seq < it.flushed_seq;
        let rewrite = later.rewrites.iter().find(is_taking);
        let end = rewrite.map_or(SeqTxn(u64::MAX), |rewrite| rewrite.seq_txn);
        if later.truncated.iter().any(|seq_txn| (next..=end).contains(seq_txn)) {
            // The rows were deleted before they would be missed.
            return None;
        }
        match rewrite {
            Some(rewrite) => later.flushed_before(rewrite, manifest, rows, unnamed),
            None => later.flushed_and_changed(manifest, rows, unnamed),
        }
    }
}

impl LaterOps {
    /// The rows that a later commit takes from the memtable without having them in its segments: a
    /// missing one has written them before.
    fn flushed_before(
        &self,
        rewrite: &LaterRewrite,
        manifest: &Manifest,
        rows: &[SegmentMeta],
        unnamed: &mut Unnamed<'_>,
    ) -> Option<MissingFlush> {
        let has = |segment: &SegmentMeta, row: &SegmentMeta| {
            let is_between = segment.seq_first <= row.seq_first && row.seq_last <= segment.seq_last;
            segment.partition == row.partition && is_between
        };
        let is_left = |row: &&SegmentMeta| {
            let is_taken = row.seq_last <= rewrite.flushed_seq;
            is_taken && !rewrite.segments.iter().any(|segment| has(segment, row))
        };
        let left: Vec<SegmentMeta> = rows.iter().filter(is_left).copied().collect();
        let flushed_seq = left.iter().map(|row| row.seq_last).max()?;
        let newest = rewrite.segments.iter().map(|segment| segment.id).max();
        let unknown = self.unknown(manifest);
        let is_removed = self.removed.iter().any(|id| unknown.contains(id));
        let (mut segments, mut lost) = (Vec::new(), BTreeSet::new());
        for (partition, rows) in by_partition(&left) {
            let mut files = self.files(&rows, &unknown, &unnamed(partition));
            let mut rest = take_whole(&rows, &mut files, &mut segments);
            let is_earlier =
                |id: SegmentId| unknown.contains(&id) || newest.is_some_and(|it| id < it);
            let part = rest.first().and_then(|_| part_of(rest, &files, &is_earlier));
            if let Some(file) = part {
                segments.push(with_commits(file, rest));
                rest = &[];
            }
            // An intact commit may have removed the segment, and its file.
            if !files.is_empty() || !is_removed {
                lost.extend(rest.iter().map(|row| row.seq_last));
            }
        }
        let taken = left.iter().map(|row| row.seq_last).collect();
        Some(MissingFlush { flushed_seq, segments, taken, lost })
    }

    /// The rows of which a later commit deletes some as those of a segment, although no intact one
    /// takes them from the memtable.
    fn flushed_and_changed(
        &self,
        manifest: &Manifest,
        rows: &[SegmentMeta],
        unnamed: &mut Unnamed<'_>,
    ) -> Option<MissingFlush> {
        let unknown = self.unknown(manifest);
        if unknown.is_empty() {
            return None;
        }
        let mut last = None;
        for (partition, rows) in by_partition(rows) {
            let mut files = self.files(&rows, &unknown, &unnamed(partition));
            files.retain(|file| unknown.contains(&file.id));
            let rest = take_whole(&rows, &mut files, &mut Vec::new());
            let taken = &rows[..rows.len() - rest.len()];
            last = last.max(taken.last().map(|row| row.seq_last));
        }
        let flushed_seq = last?;
        let is_flushed = |row: &&SegmentMeta| row.seq_last <= flushed_seq;
        let flushed: Vec<SegmentMeta> = rows.iter().filter(is_flushed).copied().collect();
        let mut segments = Vec::new();
        for (partition, rows) in by_partition(&flushed) {
            let mut files = self.files(&rows, &unknown, &unnamed(partition));
            if !take_whole(&rows, &mut files, &mut segments).is_empty() {
                // They stay in the memtable, as a whole.
                return None;
            }
        }
        let (taken, lost) = (BTreeSet::new(), BTreeSet::new());
        Some(MissingFlush { flushed_seq, segments, taken, lost })
    }

    /// Segments that later commits change or remove, and that only missing ones can have added.
    fn unknown(&self, manifest: &Manifest) -> BTreeSet<SegmentId> {
        let is_unknown =
            |id: &&SegmentId| manifest.segment(**id).is_none() && !self.added.contains(*id);
        self.removed.union(&self.changed).filter(is_unknown).copied().collect()
    }

    /// The files that may have these rows: ids of segments are assigned when they are written.
    /// Those that later commits change or remove come first, for they were segments.
    fn files(
        &self,
        rows: &[SegmentMeta],
        unknown: &BTreeSet<SegmentId>,
        unnamed: &[SegmentMeta],
    ) -> Vec<SegmentMeta> {
        let newest = rows.iter().map(|row| row.id).max();
        let may_be = |file: &&SegmentMeta| Some(file.id) > newest && !self.added.contains(&file.id);
        let mut files: Vec<SegmentMeta> = unnamed.iter().filter(may_be).copied().collect();
        files.sort_by_key(|file| (!unknown.contains(&file.id), file.id));
        files
    }
}

fn by_partition(rows: &[SegmentMeta]) -> BTreeMap<PartitionKey, Vec<SegmentMeta>> {
    let mut partitions: BTreeMap<PartitionKey, Vec<SegmentMeta>> = BTreeMap::new();
    for row in rows {
        partitions.entry(row.partition).or_default().push(*row);
    }
    partitions
}

/// Moves files that have all rows of a run of commits to `segments` (missing_flush-1), and returns
/// the rows behind these.
fn take_whole<'r>(
    rows: &'r [SegmentMeta],
    files: &mut Vec<SegmentMeta>,
    segments: &mut Vec<SegmentMeta>,
) -> &'r [SegmentMeta] {
    let mut rest = rows;
    loop {
        let whole = |file: &SegmentMeta| {
            let mut count = 0;
            let end = rest.iter().position(|row| {
                count += row.rows.0;
                file.rows.0 <= count
            })?;
            let (these, behind) = rest.split_at(end + 1);
            let is_whole = count == file.rows.0 && times(these) == (file.min_ts, file.max_ts);
            let is_split = behind.first().is_some_and(|row| row.seq_first == these[end].seq_first);
            (is_whole && !is_split).then_some(end + 1)
        };
        let found = files.iter().enumerate().find_map(|(at, file)| Some((at, whole(file)?)));
        let Some((at, count)) = found else { return take_all(rest, files, segments) };
        let (these, behind) = rest.split_at(count);
        segments.push(with_commits(&files.remove(at), these));
        rest = behind;
    }
}

/// As `take_whole`, for rows that a flush has split into several files: all of them.
fn take_all<'r>(
    rows: &'r [SegmentMeta],
    files: &mut Vec<SegmentMeta>,
    segments: &mut Vec<SegmentMeta>,
) -> &'r [SegmentMeta] {
    let count = |metas: &[SegmentMeta]| metas.iter().map(|meta| meta.rows.0).sum::<u64>();
    if rows.is_empty() || files.is_empty() || count(rows) != count(files) {
        return rows;
    }
    if times(rows) != times(files) {
        return rows;
    }
    segments.extend(files.drain(..).map(|file| with_commits(&file, rows)));
    &[]
}

/// The file with the most of these rows, less those that the missing commit has deleted.
fn part_of<'f>(
    rows: &[SegmentMeta],
    files: &'f [SegmentMeta],
    is_earlier: &dyn Fn(SegmentId) -> bool,
) -> Option<&'f SegmentMeta> {
    let (first, last) = times(rows);
    let count: u64 = rows.iter().map(|row| row.rows.0).sum();
    let is_part = |file: &&SegmentMeta| {
        let is_within = first <= file.min_ts && file.max_ts <= last;
        is_within && file.rows.0 < count && is_earlier(file.id)
    };
    files.iter().filter(is_part).max_by_key(|file| file.rows)
}

/// The first and the last timestamp of rows, of which there is at least one.
fn times(rows: &[SegmentMeta]) -> (i64, i64) {
    let first = rows.iter().map(|row| row.min_ts).min();
    let last = rows.iter().map(|row| row.max_ts).max();
    (first.expect("there is one"), last.expect("there is one"))
}

/// A segment of the rows of these commits.
fn with_commits(file: &SegmentMeta, rows: &[SegmentMeta]) -> SegmentMeta {
    let first = rows.iter().map(|row| row.seq_first).min();
    let last = rows.iter().map(|row| row.seq_last).max();
    let (seq_first, seq_last) = (first.expect("there is one"), last.expect("there is one"));
    SegmentMeta { seq_first, seq_last, ..*file }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_model::{ByteCount, ColumnType, PartitionUnit, RowCount, Schema, TimeUnit};

    use super::*;
    use crate::deletion_vector::DeletionVectorMeta;
    use crate::wal::Record;

    const TABLE: TableId = TableId(1);

    /// A segment of so many rows, with timestamps that begin with its first commit.
    fn meta(id: u64, commits: (u64, u64), rows: u64) -> SegmentMeta {
        let (min_ts, max_ts) = (commits.0.cast_signed(), commits.1.cast_signed());
        SegmentMeta {
            id: SegmentId(id),
            partition: PartitionKey(0),
            rows: RowCount(rows),
            bytes: ByteCount(100),
            min_ts,
            max_ts,
            seq_first: SeqTxn(commits.0),
            seq_last: SeqTxn(commits.1),
            footer_crc: 0,
        }
    }

    fn flush(seq_txn: u64, flushed_seq: u64, segments: Vec<SegmentMeta>) -> TableOp {
        rewrite(seq_txn, flushed_seq, segments, &[])
    }

    fn rewrite(seq_txn: u64, flushed: u64, segments: Vec<SegmentMeta>, out: &[u64]) -> TableOp {
        let out = out.iter().map(|id| SegmentId(*id)).collect();
        let (flushed_seq, symbols) = (SeqTxn(flushed), Vec::new());
        let change = TableChange::Replace { out, flushed_seq, segments, symbols };
        TableOp { table: TABLE, seq_txn: SeqTxn(seq_txn), change }
    }

    fn delete(seq_txn: u64, segment: u64) -> TableOp {
        let (id, seq_txn, live) = (SegmentId(99), SeqTxn(seq_txn), RowCount(1));
        let deletion_vector = DeletionVectorMeta { id, seq_txn, live, crc: 0 };
        let segment = SegmentId(segment);
        let change = TableChange::DeletionVector { segment, deletion_vector };
        TableOp { table: TABLE, seq_txn, change }
    }

    fn truncate(seq_txn: u64) -> TableOp {
        TableOp { table: TABLE, seq_txn: SeqTxn(seq_txn), change: TableChange::Truncate }
    }

    /// The segments found, with their commits, and the lost commits, for a memtable with a row of
    /// each of the commits 2 to 6, of which commit 7 is missing.
    fn found(later: Vec<TableOp>, files: &[SegmentMeta]) -> Option<(Vec<[u64; 3]>, Vec<u64>)> {
        let columns = [("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros))];
        let schema = Schema::new(&columns, Some("ts"), PartitionUnit::None).unwrap();
        let manifest = Manifest::new(TABLE, SeqTxn(7), Arc::new(schema));
        let rows: Vec<SegmentMeta> = (2..7).map(|seq| meta(seq - 2, (seq, seq), 1)).collect();
        let mut records = LaterRecords::default();
        records.add(&RecordAfterDamage::Intact(&Record { ops: later }));
        let mut unnamed = |_| files.to_vec();
        let found = records.missing_flush(&manifest, &rows, SeqTxn(8), &mut unnamed)?;
        let segments = found.segments.iter().map(|it| [it.id.0, it.seq_first.0, it.seq_last.0]);
        Some((segments.collect(), found.lost.iter().map(|it| it.0).collect()))
    }

    fn check(later: Vec<TableOp>, files: &[SegmentMeta], expected: Option<(&[[u64; 3]], &[u64])>) {
        let expected = expected.map(|(segments, lost)| (segments.to_vec(), lost.to_vec()));
        let context = format!("missing_flush-1: {later:?}, {files:?}");
        assert_eq!(found(later, files), expected, "{context}");
    }

    // A later flush counted all rows before it as flushed. If the record of the flush before was
    // damaged, a repair lost the rows of that, with their intact file, and did not say so.
    #[test]
    fn a_missing_flush_is_found_by_its_file() {
        let next = || vec![flush(14, 13, vec![meta(13, (9, 13), 5)])];
        let whole = meta(5, (2, 6), 5);
        check(next(), &[whole], Some((&[[5, 2, 6]], &[])));
        // Files that intact commits add, and the one of the next flush.
        check(next(), &[whole, meta(13, (9, 13), 5)], Some((&[[5, 2, 6]], &[])));
        // Two missing flushes, and one that was split.
        let two = [meta(5, (2, 4), 3), meta(9, (5, 6), 2)];
        check(next(), &two, Some((&[[5, 2, 4], [9, 5, 6]], &[])));
        let split = [meta(5, (2, 5), 1), meta(6, (3, 6), 4)];
        check(next(), &split, Some((&[[5, 2, 6], [6, 2, 6]], &[])));
        // Without the row that the missing commit has replaced.
        check(next(), &[meta(5, (2, 6), 4)], Some((&[[5, 2, 6]], &[])));
        // missing_flush-2.
        check(next(), &[], Some((&[], &[2, 3, 4, 5, 6])));
        check(next(), &[meta(5, (2, 9), 5)], Some((&[], &[2, 3, 4, 5, 6])));
        // The file that a later commit changes.
        let alike = [meta(5, (2, 6), 5), meta(6, (2, 6), 5)];
        let later = vec![delete(8, 6), flush(14, 13, vec![meta(13, (9, 13), 5)])];
        check(later, &alike, Some((&[[6, 2, 6]], &[])));
        // A file that is older than the rows.
        check(next(), &[meta(3, (2, 6), 5)], Some((&[], &[2, 3, 4, 5, 6])));
    }

    #[test]
    fn rows_that_need_no_missing_flush_stay_as_they_are() {
        let file = [meta(5, (2, 6), 5)];
        check(vec![], &file, None);
        check(vec![flush(14, 13, vec![meta(13, (2, 13), 10)])], &file, None);
        check(vec![truncate(9), flush(14, 13, vec![meta(13, (10, 13), 4)])], &file, None);
        // An intact commit has deleted the segment.
        check(vec![rewrite(8, 6, vec![], &[5])], &[], Some((&[], &[])));
    }

    // An update whose segment was that of a missing flush added its new row and kept the old one.
    #[test]
    fn a_missing_flush_is_found_by_rows_that_are_deleted_later() {
        let file = [meta(5, (2, 6), 5)];
        check(vec![delete(8, 5)], &file, Some((&[[5, 2, 6]], &[])));
        check(vec![delete(8, 5)], &[meta(5, (2, 4), 3)], Some((&[[5, 2, 4]], &[])));
        check(vec![delete(8, 5)], &[meta(5, (2, 5), 5)], None);
        check(vec![delete(8, 6)], &file, None);
    }
}
