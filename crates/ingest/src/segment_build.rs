//! Segment building: buckets become segments, sorted in cache, gathered column by column, encoded
//! and written.
//!
//! - segment_build-1. Rows of a segment ascend by timestamp; equal ones keep the order of the input
//!   (ingest_layout-3, ingest_read-2).
//! - A segment ends where its partition ends, and before it exceeds the memory.
//! - segment_build-2. Buckets are sorted in the order of time and wait until all before them are
//!   divided into segments; columns of a segment are encoded in any order, by all workers at once.
//! - Few files are open: a segment has its file from its first column on, and is synced and
//!   closed when many are written and each worker has flushed its writes to them.
//! - segment_build-3. A bucket that is opened, and a column that is encoded, fit their share of the
//!   memory, by their own bytes, or nothing else is opened or encoded.
//!
//! Not here: commit (`import`).

mod kernels;
mod sort;
mod gather;
mod text;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidegate_model::{PartitionKey, PartitionUnit, RowCount, TimeUnit, Timestamp};
use tidegate_platform::{IoChoice, MemoryBudget, Reservation, WriteQueue};
use tidegate_storage::segment::intern::Interner;
use tidegate_storage::segment::{RegionSink, Writer, WriterSpec};
use tidegate_storage::{ImportTxn, WrittenSegment};

use crate::bucket::{Bucket, Buckets, SpillFile, StoredBuffer, spill_buffers};
use crate::error::{Error, Result, first_error};
use crate::progress::Progress;
use crate::shares::Shares;

pub(crate) use sort::SortedBucket;
pub(crate) use text::TextHistory;

/// The state that all workers share while they build segments.
pub(crate) struct BuildJob<'a> {
    pub(crate) txn: &'a ImportTxn,
    pub(crate) buckets: &'a Buckets,
    /// The buckets in the order of time.
    pub(crate) queue: &'a [Mutex<Bucket>],
    /// The memory that building segments of each bucket takes.
    pub(crate) sizes: Vec<u64>,
    pub(crate) spill: &'a SpillFile,
    /// For each worker that parsed, its interners in the order of the text columns.
    pub(crate) interners: &'a [Vec<Interner>],
    /// The history of each column.
    pub(crate) histories: &'a [TextHistory],
    pub(crate) partition_by: PartitionUnit,
    pub(crate) unit: TimeUnit,
    pub(crate) segment_rows_max: usize,
    /// The memory of rows at which a segment ends, unless one row takes more by itself.
    pub(crate) segment_bytes_max: u64,
    /// The budget of open segments and sorted buckets (segment_build-3).
    pub(crate) open: Arc<MemoryBudget>,
    /// The memory above which waiting buckets are spilled before another is read back.
    pub(crate) read_back_max: u64,
    pub(crate) shares: Shares,
    pub(crate) io: IoChoice,
    /// True if the input is larger than the memory free for the page cache.
    pub(crate) is_large: bool,
    pub(crate) progress: &'a Progress,
    pub(crate) cancel: &'a AtomicBool,
}

/// The number of written and open segments at which they are synced and closed. More of them sync
/// no faster, and a process may have few files.
const OPEN_SEGMENTS_MAX: usize = 64;

/// The part of a segment below which all rows of a bucket are assumed to have equal size.
const EVEN_PARTS: u64 = 32;

/// Rows of a sorted bucket that go to one segment.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) bucket: Arc<SortedBucket>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A segment that is being encoded.
struct SegmentJob {
    spec: WriterSpec,
    /// The writer, created for the first column: a bucket may have rows of more partitions than a
    /// process may have open files.
    writer: Mutex<Option<Writer>>,
    parts: Vec<Part>,
    rows: usize,
    /// The memory of its rows.
    bytes: u64,
    next_column: AtomicUsize,
    columns_left: AtomicUsize,
}

/// The state of segment building.
struct Schedule {
    next_sort: usize,
    /// Sorted buckets that wait for those before them.
    sorted: VecDeque<Option<SortedBucket>>,
    /// The bucket that is divided next.
    next_cut: usize,
    /// The parts of the pending segment, all of one partition.
    pending: Vec<Part>,
    pending_rows: usize,
    pending_bytes: u64,
    open: VecDeque<Arc<SegmentJob>>,
    /// The memory of columns that are being encoded (segment_build-3).
    encoded_bytes: u64,
    unfinished: usize,
    written: Written,
    failed: bool,
}

/// The written segments, by their progress towards the disk.
#[derive(Default)]
struct Written {
    /// Segments that are synced and closed.
    settled: Vec<WrittenSegment>,
    /// Segments that are synced next, after each worker has flushed its writes.
    flushing: Vec<WrittenSegment>,
    /// Segments for the round after that.
    open: Vec<WrittenSegment>,
    /// The number of rounds begun: `flushing` is filled once a round.
    round: u64,
    /// The number of workers that have still to flush for this round.
    flushes_left: usize,
}

impl Written {
    /// Adds a segment, and begins a round if enough of them are open.
    fn push(&mut self, segment: WrittenSegment, workers: usize) {
        self.open.push(segment);
        self.begin_round(workers);
    }

    /// Ends a round, whose segments are synced now.
    fn end_round(&mut self, mut settled: Vec<WrittenSegment>, workers: usize) {
        self.flushing.clear();
        self.settled.append(&mut settled);
        self.begin_round(workers);
    }

    fn begin_round(&mut self, workers: usize) {
        if self.flushing.is_empty() && self.open.len() >= OPEN_SEGMENTS_MAX {
            std::mem::swap(&mut self.flushing, &mut self.open);
            self.round += 1;
            self.flushes_left = workers;
        }
    }

    /// Returns true if no more segments may be opened before the round has ended.
    fn is_full(&self) -> bool {
        self.open.len() >= OPEN_SEGMENTS_MAX
    }
}

struct SegmentBuilder<'a, 'b> {
    job: &'a BuildJob<'b>,
    workers: usize,
    schedule: Mutex<Schedule>,
    changed: Condvar,
}

/// The next task of a worker.
enum Task {
    /// Flush its own writes, for the round of this number.
    Flush(u64),
    /// Sort a bucket, which takes this memory.
    Sort(usize, Reservation),
    /// Encode a column, which takes this memory.
    Encode(Arc<SegmentJob>, usize, u64),
    Done,
}

/// Builds segments of all buckets with `workers` threads.
pub(crate) fn build_segments(job: &BuildJob<'_>, workers: usize) -> Result<Vec<WrittenSegment>> {
    let builder = SegmentBuilder {
        job,
        workers,
        schedule: Mutex::new(Schedule {
            next_sort: 0,
            sorted: VecDeque::new(),
            next_cut: 0,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            open: VecDeque::new(),
            encoded_bytes: 0,
            unfinished: 0,
            written: Written::default(),
            failed: false,
        }),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(|| builder.work())).collect();
        let outcomes: Vec<_> =
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        first_error(outcomes)
    })?;
    let schedule = builder.schedule.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(
        schedule.unfinished == 0 && schedule.pending.is_empty(),
        "segment_build-2: every row is in a segment"
    );
    let Written { mut settled, flushing, open, .. } = schedule.written;
    assert!(flushing.is_empty(), "the last worker to flush settles them");
    settled.extend(open);
    Ok(settled)
}

/// A guard that stops the other workers when one fails or panics: they would wait for it for ever.
struct StopOthers<'a, 'b, 'c> {
    builder: &'a SegmentBuilder<'b, 'c>,
    is_wanted: bool,
}

impl Drop for StopOthers<'_, '_, '_> {
    fn drop(&mut self) {
        if self.is_wanted {
            self.builder.lock().failed = true;
            self.builder.changed.notify_all();
        }
    }
}

impl SegmentBuilder<'_, '_> {
    fn work(&self) -> Result<()> {
        let mut stop = StopOthers { builder: self, is_wanted: true };
        let outcome = self.run();
        stop.is_wanted = outcome.is_err();
        outcome
    }

    fn run(&self) -> Result<()> {
        let depth = 4;
        let queue = if self.job.is_large {
            WriteQueue::around_cache(self.job.io, depth)
        } else {
            WriteQueue::new(self.job.io, depth)
        };
        let queue = queue.map_err(Error::disk("write segments"))?;
        let mut queue = queue.with_bytes_max(self.job.shares.in_flight_max());
        let mut encoder = gather::Encoder::new(self.job);
        let mut flushed = 0;
        loop {
            match self.next_task(flushed)? {
                Task::Flush(round) => {
                    queue.flush().map_err(Error::disk("write segments"))?;
                    flushed = round;
                    self.settle()?;
                }
                Task::Sort(bucket, reservation) => {
                    let sorted = self.open_bucket(bucket, reservation)?;
                    self.add_sorted(bucket, sorted)?;
                }
                Task::Encode(segment, column, bytes) => {
                    self.encode(&segment, column, &mut encoder, &mut queue)?;
                    // The last column frees the rows.
                    drop(segment);
                    self.lock().encoded_bytes -= bytes;
                    self.changed.notify_all();
                }
                Task::Done => break,
            }
        }
        queue.flush().map_err(Error::disk("write segments"))
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bucket(&self, number: usize) -> MutexGuard<'_, Bucket> {
        self.job.queue[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs and closes the segments of this round, if all other workers have flushed.
    fn settle(&self) -> Result<()> {
        let mut schedule = self.lock();
        schedule.written.flushes_left -= 1;
        if schedule.written.flushes_left > 0 {
            return Ok(());
        }
        let mut segments = schedule.written.flushing.clone();
        drop(schedule);
        self.job.txn.settle(&mut segments)?;
        self.lock().written.end_round(segments, self.workers);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for a task: a column of an open segment first, a bucket if there is none. `flushed` is
    /// the last round for which the worker has flushed.
    fn next_task(&self, flushed: u64) -> Result<Task> {
        let mut schedule = self.lock();
        loop {
            if schedule.failed || self.job.cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            if flushed < schedule.written.round {
                return Ok(Task::Flush(schedule.written.round));
            }
            if let Some(task) = schedule.encode_task(self.job) {
                return Ok(task);
            }
            let count = self.job.queue.len();
            if schedule.next_sort < count {
                let bucket = schedule.next_sort;
                let is_idle = schedule.unfinished == 0 && schedule.next_cut == bucket;
                let bytes = self.job.sizes[bucket];
                let used = self.job.open.used_bytes() + schedule.encoded_bytes;
                let has_room = used + bytes <= self.job.open.max_bytes();
                if is_idle && !has_room && !schedule.pending.is_empty() {
                    // The rows of the pending segment take the room of the bucket.
                    self.open_segment(&mut schedule)?;
                    continue;
                }
                // If nothing else is in progress, the bucket must be opened, however large it is.
                if is_idle || has_room {
                    schedule.next_sort += 1;
                    schedule.sorted.push_back(None);
                    let reservation = self.job.open.reserve_unchecked(bytes);
                    return Ok(Task::Sort(bucket, reservation));
                }
            } else if schedule.is_done(count) {
                return Ok(Task::Done);
            }
            schedule = self.changed.wait(schedule).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes a bucket's column buffers, from memory or the spill file, and sorts its rows.
    fn open_bucket(&self, bucket: usize, reservation: Reservation) -> Result<SortedBucket> {
        let BuildJob { buckets, spill, progress, .. } = self.job;
        let mut buffers = Vec::new();
        let stored = std::mem::take(&mut self.bucket(bucket).buffers);
        let spilled = stored.iter().filter(|buffer| matches!(buffer, StoredBuffer::Spilled(_)));
        self.make_room(spilled.map(StoredBuffer::bytes).sum(), bucket)?;
        for stored in stored {
            buffers.push(match stored {
                StoredBuffer::InMemory(stored) => (stored.buffer, stored.reservation),
                StoredBuffer::Spilled(spilled) => {
                    let reservation = buckets.budget.reserve_unchecked(spilled.bytes);
                    progress.set_memory(buckets.budget.used_bytes());
                    (spill.read(spilled, &buckets.layout, progress)?, reservation)
                }
            });
        }
        progress.set_memory(buckets.budget.used_bytes());
        Ok(SortedBucket::new(buffers, &buckets.layout, reservation))
    }

    /// Spills waiting buckets, the last of them first, until there is room to read `bytes` back.
    fn make_room(&self, bytes: u64, opened: usize) -> Result<()> {
        let BuildJob { buckets, spill, read_back_max, .. } = self.job;
        if bytes == 0 {
            return Ok(());
        }
        for number in (opened + 1..self.job.queue.len()).rev() {
            if buckets.budget.used_bytes() + bytes <= *read_back_max {
                break;
            }
            // A worker that opens the bucket waits on its lock until it is spilled.
            spill_buffers(&mut self.bucket(number).buffers, spill)?;
        }
        Ok(())
    }

    /// Adds a sorted bucket, and divides every one whose predecessors are done (segment_build-2).
    fn add_sorted(&self, bucket: usize, sorted: SortedBucket) -> Result<()> {
        let mut schedule = self.lock();
        let place = bucket - schedule.next_cut;
        schedule.sorted[place] = Some(sorted);
        while let Some(Some(sorted)) = schedule.sorted.front_mut().map(Option::take) {
            schedule.sorted.pop_front();
            schedule.next_cut += 1;
            self.cut(&mut schedule, sorted)?;
            if schedule.next_cut == self.job.queue.len() {
                self.open_segment(&mut schedule)?;
            }
        }
        drop(schedule);
        self.changed.notify_all();
        Ok(())
    }

    /// Appends a bucket's rows to the pending segment, which ends where its partition does.
    fn cut(&self, schedule: &mut Schedule, sorted: SortedBucket) -> Result<()> {
        let (rows, bucket) = (sorted.rows(), Arc::new(sorted));
        let mut ends = None;
        let mut start = 0;
        while start < rows {
            let partition = self.partition_of(&bucket, start);
            if schedule
                .pending_partition(|part| self.partition_of(&part.bucket, part.start))
                .is_some_and(|pending| pending != partition)
            {
                self.open_segment(schedule)?;
            }
            let next = self.job.partition_by.next(partition, self.job.unit).0;
            let end_of_partition = bucket.first_at(start, next);
            let room = self.job.segment_rows_max - schedule.pending_rows;
            let end = end_of_partition.min(start + room);
            let (end, bytes) = self.fitting(schedule, &bucket, start, end, &mut ends);
            if end == start {
                self.open_segment(schedule)?;
                continue;
            }
            let is_full = end < end_of_partition;
            schedule.pending.push(Part { bucket: Arc::clone(&bucket), start, end });
            schedule.pending_rows += end - start;
            schedule.pending_bytes += bytes;
            if is_full {
                self.open_segment(schedule)?;
            }
            start = end;
        }
        Ok(())
    }

    /// The end of the rows of a bucket that fit the pending segment, and their memory: whole page
    /// frames, if at least one fits, and at least one row if the segment is empty.
    fn fitting(
        &self,
        schedule: &Schedule,
        bucket: &SortedBucket,
        start: usize,
        end: usize,
        ends: &mut Option<Vec<u64>>,
    ) -> (usize, u64) {
        let bytes_max = self.job.segment_bytes_max;
        let room = bytes_max.saturating_sub(schedule.pending_bytes);
        let is_all = start == 0 && end == bucket.rows();
        if is_all && bucket.bytes() <= room || bucket.bytes() <= bytes_max / EVEN_PARTS {
            let share = u128::from(bucket.bytes()) * (end - start) as u128;
            let share = u64::try_from(share / bucket.rows() as u128).expect("a part of it");
            if share <= room {
                return (end, share);
            }
        }
        let ends = ends.get_or_insert_with(|| bucket.row_ends(&self.job.buckets.layout));
        let before = if start == 0 { 0 } else { ends[start - 1] };
        let mut fitting = start + ends[start..end].partition_point(|end| end - before <= room);
        if fitting < end {
            let rows = schedule.pending_rows + fitting - start;
            let whole = rows / gather::FRAME_ROWS * gather::FRAME_ROWS;
            if schedule.pending_rows < whole {
                fitting = start + whole - schedule.pending_rows;
            }
        }
        if fitting == start && schedule.pending_rows == 0 {
            fitting = start + 1;
        }
        (fitting, if fitting == start { 0 } else { ends[fitting - 1] - before })
    }

    fn partition_of(&self, bucket: &SortedBucket, row: usize) -> PartitionKey {
        self.job.partition_by.floor(Timestamp(bucket.timestamp(row)), self.job.unit)
    }

    /// Turns the pending parts into a segment that workers can encode.
    fn open_segment(&self, schedule: &mut Schedule) -> Result<()> {
        let parts = std::mem::take(&mut schedule.pending);
        let rows = std::mem::take(&mut schedule.pending_rows);
        let bytes = std::mem::take(&mut schedule.pending_bytes);
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(()) };
        let partition = self.partition_of(&first.bucket, first.start);
        let (min_ts, max_ts) =
            (first.bucket.timestamp(first.start), last.bucket.timestamp(last.end - 1));
        let spec = WriterSpec {
            table: self.job.txn.table(),
            segment: self.job.txn.new_segment_id(),
            partition,
            rows: RowCount(rows as u64),
            min_ts,
            max_ts,
        };
        let columns = self.job.buckets.layout.columns.len();
        schedule.unfinished += 1;
        schedule.open.push_back(Arc::new(SegmentJob {
            spec,
            writer: Mutex::new(None),
            parts,
            rows,
            bytes,
            next_column: AtomicUsize::new(0),
            columns_left: AtomicUsize::new(columns),
        }));
        Ok(())
    }

    fn encode(
        &self,
        segment: &SegmentJob,
        column: usize,
        encoder: &mut gather::Encoder<'_>,
        sink: &mut dyn RegionSink,
    ) -> Result<()> {
        let encoded = encoder.column(&segment.parts, segment.rows, column)?;
        {
            let mut writer = segment.writer.lock().unwrap_or_else(PoisonError::into_inner);
            if writer.is_none() {
                let WriterSpec { segment: id, partition, .. } = segment.spec;
                let file = self.job.txn.make_segment(id, partition)?;
                *writer = Some(Writer::new(segment.spec, file));
            }
            let writer = writer.as_ref().expect("it was made");
            encoder.recycle(writer.add(encoded, sink)?);
        }
        if segment.columns_left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(());
        }
        let writer = segment.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let written = writer.expect("only the last column's worker takes it").finish(sink)?;
        let bytes = written.meta.bytes.0;
        // Only a hint that the disk may begin; the commit waits for the result.
        let _ = written.file.as_ref().map(|file| file.start_writeback(0, bytes));
        self.job.progress.add_rows_written(segment.rows as u64);
        let mut schedule = self.lock();
        schedule.written.push(written, self.workers);
        schedule.unfinished -= 1;
        drop(schedule);
        self.changed.notify_all();
        Ok(())
    }
}

impl SegmentJob {
    /// The memory that encoding a column takes: its texts, and their encoded form.
    fn column_bytes(&self, job: &BuildJob<'_>, column: usize) -> u64 {
        let layout = &job.buckets.layout.columns[column];
        let fixed = (self.rows * layout.width) as u64;
        let Some(text) = layout.text else { return fixed };
        let buffers = self.parts.iter().flat_map(|part| part.bucket.buffers());
        let texts: u64 = buffers.map(|buffer| buffer.texts[text].bytes.len() as u64).sum();
        fixed + 2 * texts.min(self.bytes)
    }
}

impl Schedule {
    /// Returns true if segments of all buckets are built and no round is in progress.
    fn is_done(&self, buckets: usize) -> bool {
        let is_settled = self.written.flushing.is_empty();
        self.next_cut == buckets && self.unfinished == 0 && is_settled
    }

    fn encode_task(&mut self, job: &BuildJob<'_>) -> Option<Task> {
        let columns = job.buckets.layout.columns.len();
        while let Some(segment) = self.open.front() {
            let is_begun = segment.next_column.load(Ordering::Acquire) > 0;
            if !is_begun && self.written.is_full() {
                return None;
            }
            let column = segment.next_column.load(Ordering::Acquire);
            if column < columns {
                let bytes = segment.column_bytes(job, column);
                let is_free = self.encoded_bytes == 0;
                if !is_free && self.encoded_bytes + bytes > job.shares.encoded_max() {
                    return None; // segment_build-3
                }
                self.encoded_bytes += bytes;
                segment.next_column.store(column + 1, Ordering::Release);
                return Some(Task::Encode(Arc::clone(segment), column, bytes));
            }
            self.open.pop_front();
        }
        None
    }

    fn pending_partition(&self, of: impl Fn(&Part) -> PartitionKey) -> Option<PartitionKey> {
        self.pending.first().map(of)
    }
}
