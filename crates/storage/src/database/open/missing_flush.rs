//! Finds the segments of flushes whose records are missing because of damage to the log. Later
//! records count the rows of these flushes as flushed, so without the segments the rows would be
//! lost.
//!
//! - missing_flush-1. A file is accepted as a segment of such a flush only if no intact record
//!   names it, and it has the same rows, value by value, as the memtable has of consecutive
//!   commits; or, if the missing commit has deleted some of them, only such rows.
//! - missing_flush-2. Rows that a later record takes from the memtable, and that no segment has,
//!   are in such a file, or their commits are listed as lost.
//!
//! Used by `repair_replay`. Bytes: docs/format.md, Log. Not here: reading and comparing files
//! (`same_rows`).

use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;

use tidegate_model::{
    Column, ColumnId, ColumnType, PartitionKey, Schema, SegmentId, SeqTxn, TableId,
};

use super::same_rows::RowMatch;
use crate::change::{TableChange, TableOp};
use crate::manifest::Manifest;
use crate::segment::SegmentMeta;
use crate::wal::RecordAfterDamage;

/// The changes of segments in the intact records after the damage, and the tables that damaged
/// records drop.
#[derive(Debug, Default)]
pub(crate) struct LaterRecords {
    tables: BTreeMap<TableId, LaterOps>,
    /// The tables that damaged records seem to drop.
    dropped: BTreeSet<TableId>,
}

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
    /// The columns after commits that change them.
    schemas: Vec<Arc<Schema>>,
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

/// The files that no commit so far has named.
pub(crate) struct UnnamedFiles<'a> {
    /// Those of a partition.
    pub(crate) of: &'a mut dyn FnMut(PartitionKey) -> Vec<SegmentMeta>,
    /// Compares the rows of files, in their order in time, with those of the memtable.
    pub(crate) compare: &'a mut dyn FnMut(&[SegmentMeta], &[SegmentMeta]) -> RowMatch,
}

impl LaterRecords {
    /// Adds a record.
    pub(crate) fn add(&mut self, after: &RecordAfterDamage<'_>) {
        match after {
            RecordAfterDamage::Intact(record) => record.ops.iter().for_each(|op| self.add_op(op)),
            RecordAfterDamage::Damaged(changes) => {
                let drops = changes.iter().filter(|change| change.is_drop);
                self.dropped.extend(drops.map(|change| change.table));
            }
        }
    }

    /// Returns true if one of the intact records is about this table.
    pub(crate) fn has(&self, table: TableId) -> bool {
        self.tables.contains_key(&table)
    }

    /// Returns true if one of the damaged records seems to drop this table.
    pub(crate) fn may_have_dropped(&self, table: TableId) -> bool {
        self.dropped.contains(&table)
    }

    fn add_op(&mut self, op: &TableOp) {
        // A table that is dropped has no later commit.
        self.dropped.remove(&op.table);
        let later = self.tables.entry(op.table).or_default();
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
            TableChange::Alter { schema } => later.schemas.push(Arc::clone(schema)),
            TableChange::Create { .. }
            | TableChange::Drop
            | TableChange::Rename { .. }
            | TableChange::Append { .. }
            | TableChange::GivenUp => {}
        }
    }

    /// Returns true if one of these records drops this column of the table, with its symbol file.
    pub(crate) fn drops_column(&self, table: TableId, column: ColumnId) -> bool {
        let lacks = |schema: &Arc<Schema>| schema.column(column).is_none();
        self.tables.get(&table).is_some_and(|later| later.schemas.iter().any(lacks))
    }

    /// The columns of symbols that these records have, and that were added after this schema.
    pub(crate) fn more_symbols(&self, table: TableId, schema: &Schema) -> Vec<Column> {
        let schemas = self.tables.get(&table).into_iter().flat_map(|later| &later.schemas);
        let columns = schemas.flat_map(|later| later.columns());
        // A column with a lower id was dropped.
        let is_new = |column: &&Column| schema.next_column() <= column.id;
        let symbols = columns.filter(|column| column.ty == ColumnType::Symbol);
        symbols.filter(is_new).cloned().collect()
    }

    /// The flushes that are among the missing commits before `next`; `None` if later commits count
    /// no rows as flushed that the memtable still has. `rows` are those of the memtable, in the
    /// order of their commits.
    pub(crate) fn missing_flush(
        &self,
        manifest: &Manifest,
        rows: &[SegmentMeta],
        next: SeqTxn,
        unnamed: &mut UnnamedFiles<'_>,
    ) -> Option<MissingFlush> {
        let later = self.tables.get(&manifest.table)?;
        let is_taking =
            |it: &&LaterRewrite| next <= it.seq_txn && manifest.flushed_seq < it.flushed_seq;
        let rewrite = later.rewrites.iter().find(is_taking);
        let end = rewrite.map_or(SeqTxn(u64::MAX), |rewrite| rewrite.seq_txn);
        if later.truncated.iter().any(|seq_txn| (next..=end).contains(seq_txn)) {
            // The rows were deleted before they would be missed.
            return None;
        }
        let unknown = later.unknown(manifest);
        let left = match rewrite {
            Some(rewrite) => rewrite.left(rows),
            None => later.changed(rows, &unknown, unnamed),
        };
        let newest = rewrite.and_then(|it| it.segments.iter().map(|segment| segment.id).max());
        let mut found = later.find(&left, &unknown, newest, unnamed)?;
        let mut last = found.flushed_seq;
        // A flush takes all rows up to some commit, which may be behind those that changes show.
        while rewrite.is_none()
            && !found.lost.is_empty()
            && let Some(longer) = later.longer(rows, last, &unknown, unnamed)
        {
            last = longer;
            let left: Vec<_> = rows.iter().filter(|row| row.seq_last <= last).copied().collect();
            let other = later.find(&left, &unknown, newest, unnamed)?;
            if other.lost.len() < found.lost.len() {
                found = other;
            }
        }
        Some(found)
    }
}

impl LaterRewrite {
    /// The rows that it takes from the memtable without having them in its segments: a missing
    /// commit has written them before.
    fn left(&self, rows: &[SegmentMeta]) -> Vec<SegmentMeta> {
        let has = |segment: &SegmentMeta, row: &SegmentMeta| {
            let is_between = segment.seq_first <= row.seq_first && row.seq_last <= segment.seq_last;
            segment.partition == row.partition && is_between
        };
        let is_left = |row: &&SegmentMeta| {
            let is_taken = row.seq_last <= self.flushed_seq;
            is_taken && !self.segments.iter().any(|segment| has(segment, row))
        };
        rows.iter().filter(is_left).copied().collect()
    }
}

impl LaterOps {
    /// The files with these rows, which a missing commit has taken from the memtable. `newest` is
    /// the last segment of the flush behind it.
    fn find(
        &self,
        left: &[SegmentMeta],
        unknown: &BTreeSet<SegmentId>,
        newest: Option<SegmentId>,
        unnamed: &mut UnnamedFiles<'_>,
    ) -> Option<MissingFlush> {
        let flushed_seq = left.iter().map(|row| row.seq_last).max()?;
        let is_removed = self.removed.iter().any(|id| unknown.contains(id));
        let (mut segments, mut lost) = (Vec::new(), BTreeSet::new());
        for (partition, rows) in by_partition(left) {
            let mut files = self.files(&rows, unknown, &(unnamed.of)(partition));
            let mut rest = take_whole(&rows, &mut files, &mut segments, unnamed);
            let is_earlier =
                |id: SegmentId| unknown.contains(&id) || newest.is_some_and(|it| id < it);
            files.retain(|file| is_earlier(file.id));
            if let Some(file) = part_of(&rest, &files, unnamed) {
                segments.push(with_commits(&file, &rest));
                rest.clear();
            }
            // An intact commit may have removed the segment, and its file.
            if !files.is_empty() || !is_removed {
                lost.extend(rest.iter().map(|row| row.seq_last));
            }
        }
        let taken = left.iter().map(|row| row.seq_last).collect();
        Some(MissingFlush { flushed_seq, segments, taken, lost })
    }

    /// The rows up to the last one in a file that an intact commit knows as a segment, although no
    /// intact one takes them from the memtable: a missing one has written them all.
    fn changed(
        &self,
        rows: &[SegmentMeta],
        unknown: &BTreeSet<SegmentId>,
        unnamed: &mut UnnamedFiles<'_>,
    ) -> Vec<SegmentMeta> {
        let mut segments = Vec::new();
        for (partition, rows) in by_partition(rows) {
            let mut files = self.files(&rows, unknown, &(unnamed.of)(partition));
            files.retain(|file| unknown.contains(&file.id));
            take_whole(&rows, &mut files, &mut segments, unnamed);
        }
        let last = segments.iter().map(|segment| segment.seq_last).max();
        rows.iter().filter(|row| Some(row.seq_last) <= last).copied().collect()
    }

    /// The last commit of a file with rows up to this commit and behind it.
    fn longer(
        &self,
        rows: &[SegmentMeta],
        last: SeqTxn,
        unknown: &BTreeSet<SegmentId>,
        unnamed: &mut UnnamedFiles<'_>,
    ) -> Option<SeqTxn> {
        for (partition, rows) in by_partition(rows) {
            let files = self.files(&rows, unknown, &(unnamed.of)(partition));
            for start in 0..rows.partition_point(|row| row.seq_last <= last) {
                let mut runs = files.iter().filter_map(|file| {
                    let run = run_like(&rows[start..], file)?;
                    Some((file, run)).filter(|(_, run)| last < run[run.len() - 1].seq_last)
                });
                let found = runs.find(|(file, run)| {
                    (unnamed.compare)(slice::from_ref(*file), run) == RowMatch::Same
                });
                if let Some((_, run)) = found {
                    return run.last().map(|row| row.seq_last);
                }
            }
        }
        None
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
/// the rows that are in none.
fn take_whole(
    rows: &[SegmentMeta],
    files: &mut Vec<SegmentMeta>,
    segments: &mut Vec<SegmentMeta>,
    unnamed: &mut UnnamedFiles<'_>,
) -> Vec<SegmentMeta> {
    let (mut rest, mut at) = (Vec::new(), 0);
    while at < rows.len() {
        let mut whole = |file: &SegmentMeta| {
            let run = run_like(&rows[at..], file)?;
            let is_same = (unnamed.compare)(slice::from_ref(file), run) == RowMatch::Same;
            is_same.then_some(run)
        };
        let mut places = files.iter().enumerate();
        match places.find_map(|(place, file)| Some((place, whole(file)?))) {
            Some((place, run)) => {
                segments.push(with_commits(&files.remove(place), run));
                at += run.len();
            }
            None => {
                rest.push(rows[at]);
                at += 1;
            }
        }
    }
    if take_all(&rest, files, segments, unnamed) { Vec::new() } else { rest }
}

/// The first of these rows, of whole commits, that are as many as those of a file, within the same
/// time.
fn run_like<'r>(rows: &'r [SegmentMeta], file: &SegmentMeta) -> Option<&'r [SegmentMeta]> {
    let mut count = 0;
    let last = rows.iter().position(|row| {
        count += row.rows.0;
        file.rows.0 <= count
    })?;
    let (run, behind) = rows.split_at(last + 1);
    let is_like = count == file.rows.0 && times(run) == (file.min_ts, file.max_ts);
    let is_split = behind.first().is_some_and(|row| row.seq_first == run[last].seq_first);
    (is_like && !is_split).then_some(run)
}

/// As `take_whole`, for rows that a flush has split into several files: all of them. Returns false
/// if they are in no such files.
fn take_all(
    rows: &[SegmentMeta],
    files: &mut Vec<SegmentMeta>,
    segments: &mut Vec<SegmentMeta>,
    unnamed: &mut UnnamedFiles<'_>,
) -> bool {
    let count = |metas: &[SegmentMeta]| metas.iter().map(|meta| meta.rows.0).sum::<u64>();
    if rows.is_empty() || files.is_empty() || count(rows) != count(files) {
        return false;
    }
    files.sort_by_key(|file| (file.min_ts, file.id));
    let is_same = (unnamed.compare)(files, rows) == RowMatch::Same;
    if is_same {
        segments.extend(files.drain(..).map(|file| with_commits(&file, rows)));
    }
    is_same
}

/// The file with the most of these rows, less those that the missing commit has deleted.
fn part_of(
    rows: &[SegmentMeta],
    files: &[SegmentMeta],
    unnamed: &mut UnnamedFiles<'_>,
) -> Option<SegmentMeta> {
    let count: u64 = rows.iter().map(|row| row.rows.0).sum();
    let mut files: Vec<&SegmentMeta> = files.iter().filter(|file| file.rows.0 < count).collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.rows));
    let mut is_part =
        |file: &&&SegmentMeta| (unnamed.compare)(slice::from_ref(**file), rows) == RowMatch::Part;
    files.iter().find(|file| is_part(file)).copied().copied()
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
    use tidegate_model::{ByteCount, PartitionUnit, RowCount, TimeUnit};

    use super::*;
    use crate::deletion_vector::DeletionVectorMeta;
    use crate::wal::Record;

    const TABLE: TableId = TableId(1);
    /// The checksum of a file whose rows are not those of the memtable.
    const OTHER_ROWS: u32 = 1;

    /// A segment of this many rows, with timestamps that begin at the number of its first commit.
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
        let rows: Vec<SegmentMeta> = (2..7).map(|seq| meta(seq - 2, (seq, seq), 1)).collect();
        found_for(&rows, later, files)
    }

    /// The same for a memtable with these rows.
    fn found_for(
        rows: &[SegmentMeta],
        later: Vec<TableOp>,
        files: &[SegmentMeta],
    ) -> Option<(Vec<[u64; 3]>, Vec<u64>)> {
        let columns = [("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros))];
        let schema = Schema::new(&columns, Some("ts"), PartitionUnit::None).unwrap();
        let manifest = Manifest::new(TABLE, SeqTxn(7), Arc::new(schema));
        let mut records = LaterRecords::default();
        records.add(&RecordAfterDamage::Intact(&Record { ops: later }));
        let mut of = |partition: PartitionKey| {
            files.iter().filter(|file| file.partition == partition).copied().collect()
        };
        // Here the values of rows are their numbers and times.
        let mut compare = |files: &[SegmentMeta], rows: &[SegmentMeta]| {
            if files.iter().any(|file| file.footer_crc == OTHER_ROWS) {
                return RowMatch::Other;
            }
            let count = |metas: &[SegmentMeta]| metas.iter().map(|it| it.rows.0).sum::<u64>();
            let ((first, last), (start, end)) = (times(files), times(rows));
            match count(files) == count(rows) {
                true if (first, last) == (start, end) => RowMatch::Same,
                false if start <= first && last <= end => RowMatch::Part,
                _ => RowMatch::Other,
            }
        };
        let mut unnamed = UnnamedFiles { of: &mut of, compare: &mut compare };
        let found = records.missing_flush(&manifest, rows, SeqTxn(8), &mut unnamed)?;
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
        let split = [meta(5, (2, 5), 1), meta(6, (2, 6), 4)];
        check(next(), &split, Some((&[[5, 2, 6], [6, 2, 6]], &[])));
        // Without the row that the missing commit has replaced.
        check(next(), &[meta(5, (2, 6), 4)], Some((&[[5, 2, 6]], &[])));
        // A file of the last commits only.
        let behind = [meta(5, (4, 6), 3)];
        check(next(), &behind, Some((&[[5, 4, 6]], &[2, 3])));
        // missing_flush-1: a file with other rows.
        let other = SegmentMeta { footer_crc: OTHER_ROWS, ..whole };
        check(next(), &[other], Some((&[], &[2, 3, 4, 5, 6])));
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

    // The segment that a later commit changed had rows of some of the flushed commits only. The
    // rows of another partition were given up, although their file was there.
    #[test]
    fn a_missing_flush_ends_where_its_last_file_ends() {
        let there = |meta| SegmentMeta { partition: PartitionKey(1), ..meta };
        let row = |id: u64| meta(id, (id, id), 1);
        let rows = [row(1), there(row(2)), row(3), there(row(4))];
        let files = [meta(5, (1, 3), 2), there(meta(6, (2, 4), 2))];
        let all = found_for(&rows, vec![delete(8, 5)], &files);
        assert_eq!(all, Some((vec![[5, 1, 3], [6, 2, 4]], vec![])), "missing_flush-2");
        let one = found_for(&rows, vec![delete(8, 5)], &files[..1]);
        assert_eq!(one, Some((vec![[5, 1, 3]], vec![2])), "missing_flush-2");
    }
}
