//! A worker: takes rows, cuts them into batches if the target or the pace asks for them, sends them
//! over its connection, and counts.
//!
//! - worker-1. A batch has exactly the requested number of rows, except the last of each worker;
//!   with `--exact-batches`, except the last one of all.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::args::LoadArguments;
use super::rows::{RowLayout, Tally};
use super::source::{Appended, Reader, Source, foreign};
use super::target::Connection;
use super::{Load, first_line};
use crate::error::{Error, Result};
use crate::tsbs::format::Cursor;
use crate::tsbs::pipeline::{cores, lock};
use crate::tsbs::random::Source as Random;

/// The pace of batches: the times at which they may start.
pub(super) struct Pace {
    /// Start of the first batch: the preparation before it does not count.
    start: OnceLock<Instant>,
    max_rps: u64,
    started: AtomicU64,
    /// Shortest and longest interval between batches, for each worker; the last entry is for all
    /// further workers.
    intervals: Vec<(u64, u64)>,
    seed: i64,
}

impl Pace {
    pub(super) fn new(arguments: &LoadArguments) -> Result<Pace> {
        Ok(Pace {
            start: OnceLock::new(),
            max_rps: arguments.max_rps,
            started: AtomicU64::new(0),
            intervals: parse_intervals(&arguments.insert_intervals)?,
            seed: arguments.simulation.seed,
        })
    }

    fn is_set(&self) -> bool {
        0 < self.max_rps || !self.intervals.is_empty()
    }

    /// Waits until the next batch of all workers may start.
    fn wait(&self) {
        if 0 < self.max_rps {
            let number = self.started.fetch_add(1, Relaxed);
            let due = Duration::from_secs_f64(number as f64 / self.max_rps as f64);
            let start = self.start.get_or_init(Instant::now);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }

    fn interval(&self, worker: usize, random: &mut Random) -> Duration {
        let of_worker = self.intervals.get(worker).or(self.intervals.last());
        let (min, max) = of_worker.copied().unwrap_or_default();
        let span = u32::try_from(max - min).unwrap_or(u32::MAX >> 1);
        let jitter = if span == 0 { 0 } else { random.intn(span) };
        Duration::from_secs(min + u64::from(jitter))
    }
}

/// Parses a list such as `1,2-4`.
fn parse_intervals(text: &str) -> Result<Vec<(u64, u64)>> {
    let parse = |part: &str| {
        let (min, max) = part.split_once('-').unwrap_or((part, part));
        let (min, max) = (min.trim().parse().ok()?, max.trim().parse().ok()?);
        (min <= max && max < 1 << 30).then_some((min, max))
    };
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let intervals: Option<Vec<_>> = text.split(',').map(parse).collect();
    intervals.ok_or_else(|| Error::BadIntervals { text: text.to_owned() })
}

pub(super) struct Worker<'a> {
    load: &'a Load<'a>,
    number: usize,
    /// Queue of the rows routed to this worker, if they are routed.
    queue: Option<Receiver<Vec<u8>>>,
    layout: RowLayout,
    /// Rows per batch; `None` sends rows as they come.
    batch: Option<u64>,
    /// Number of batches sent.
    batches: u64,
    last_batch: Option<Instant>,
    random: Random,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        load: &'a Load<'a>,
        number: usize,
        queue: Option<Receiver<Vec<u8>>>,
    ) -> Worker<'a> {
        let cuts = !load.target.streams() || load.pace.is_set();
        Worker {
            load,
            number,
            queue,
            layout: load.target.layout(),
            batch: cuts.then_some(load.arguments.batch_size),
            batches: 0,
            last_batch: None,
            random: Random::new(load.pace.seed.wrapping_add(i64::try_from(number).unwrap_or(0))),
        }
    }

    pub(super) fn work(mut self) -> Result<()> {
        let mut connection = match self.load.arguments.do_load {
            true => Some(self.load.target.connect()?),
            false => None,
        };
        let mut reader = Reader::of_worker(self.number);
        let mut buffer = Cursor::default();
        while !self.load.is_over.load(Relaxed) {
            let before = buffer.written().len();
            let start = Instant::now();
            let appended = self.append(&mut reader, &mut buffer)?;
            self.load.counts.source_nanos.fetch_add(nanos_since(start), Relaxed);
            let tally = match appended {
                Appended::End => {
                    if self.load.arguments.exact_batches && self.batch.is_some() {
                        self.load.leave_rest(&mut buffer);
                        self.send_batches(connection.as_deref_mut(), &mut buffer)?;
                    }
                    let rest = self.layout.rows(buffer.written());
                    if 0 < rest {
                        self.send(connection.as_deref_mut(), &mut buffer, usize::MAX, rest)?;
                    }
                    break;
                }
                Appended::Counted(tally) => tally,
                Appended::Rows => self.count(&buffer.written()[before..])?,
            };
            let rows = tally.rows;
            self.load.counts.taken_rows.fetch_add(rows, Relaxed);
            self.load.counts.metrics.fetch_add(tally.metrics, Relaxed);
            lock(&self.load.counts.tables).add(&tally);
            match self.batch {
                None => self.send(connection.as_deref_mut(), &mut buffer, usize::MAX, rows)?,
                Some(_) => self.send_batches(connection.as_deref_mut(), &mut buffer)?,
            }
        }
        connection.map_or(Ok(()), |connection| connection.finish())
    }

    /// Sends all complete batches.
    fn send_batches(
        &mut self,
        mut connection: Option<&mut (dyn Connection + 'static)>,
        buffer: &mut Cursor,
    ) -> Result<()> {
        let batch = self.batch.expect("rows are cut");
        while let Some(end) = self.layout.cut(buffer.written(), batch) {
            self.send(connection.as_deref_mut(), buffer, end, batch)?;
        }
        Ok(())
    }

    fn append(&self, reader: &mut Reader, buffer: &mut Cursor) -> Result<Appended> {
        let Some(queue) = &self.queue else { return self.load.append(reader, buffer) };
        let Ok(rows) = queue.recv() else { return Ok(Appended::End) };
        buffer.make_room(rows.len());
        buffer.put(&rows);
        Ok(Appended::Rows)
    }

    fn count(&self, rows: &[u8]) -> Result<Tally> {
        if !self.load.looks_into_rows() {
            return Ok(Tally { rows: self.layout.rows(rows), ..Tally::default() });
        }
        let tally = self.layout.tally(rows);
        tally.map_err(|no_row| Error::ForeignRow {
            // The offset within this buffer would not help the user; the row itself does.
            place: self.load.source.place(),
            row: first_line(&rows[no_row.offset..]),
        })
    }

    /// Sends the bytes up to `end`, at their time.
    fn send(
        &mut self,
        connection: Option<&mut (dyn Connection + 'static)>,
        buffer: &mut Cursor,
        end: usize,
        rows: u64,
    ) -> Result<()> {
        if self.load.pace.is_set() {
            self.load.pace.wait();
            if let Some(last) = self.last_batch {
                let interval = self.load.pace.interval(self.number, &mut self.random);
                thread::sleep(interval.saturating_sub(last.elapsed()));
            }
            self.last_batch = Some(Instant::now());
        }
        let end = end.min(buffer.written().len());
        let counts = &self.load.counts;
        if let Some(connection) = connection {
            self.batches += 1;
            let sent = connection.send(&buffer.written()[..end], rows, &counts.acked_rows);
            sent.map_err(|error| match self.batch {
                None => error,
                Some(_) => Error::Batch {
                    batch: self.batches,
                    worker: self.number + 1,
                    rows,
                    source: Box::new(error),
                },
            })?;
        }
        counts.sent_rows.fetch_add(rows, Relaxed);
        counts.sent_bytes.fetch_add(end as u64, Relaxed);
        buffer.discard(end);
        Ok(())
    }
}

fn nanos_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Counts the fields of all rows of a source.
pub(super) fn count_metrics(source: &Source, layout: RowLayout) -> Result<u64> {
    let metrics = AtomicU64::new(0);
    let count = || {
        let (mut reader, mut buffer) = (Reader::default(), Cursor::default());
        while !matches!(source.append(&mut reader, &mut buffer)?, Appended::End) {
            let tally = layout.tally(buffer.written());
            let tally = tally.map_err(|row| foreign(&source.place(), row.offset as u64, layout))?;
            metrics.fetch_add(tally.metrics, Relaxed);
            buffer.clear();
        }
        Ok(())
    };
    let outcomes = thread::scope(|scope| {
        let threads = (0..cores().get()).map(|_| scope.spawn(count));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    for outcome in outcomes {
        outcome.map_err(|_| Error::Panicked)??;
    }
    Ok(metrics.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_or_ranges_of_them() {
        assert_eq!(parse_intervals("").unwrap(), []);
        assert_eq!(parse_intervals("1,2-4").unwrap(), [(1, 1), (2, 4)]);
        for text in ["a", "1,", "4-2", "-1", "1-2-3", "1.5"] {
            assert!(parse_intervals(text).is_err(), "{text}");
        }
    }
}
