//! Merge of several runs by timestamp: yields stretches of rows, and plans page frames from a few
//! stretches of each run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{Column, Encoded, limits};

use super::Rewrite;
use crate::deletion_vector::DeletionVector;
use crate::error::{Result, SegmentDamage};
use crate::segment::Reader;
use crate::segment::decode::{self, RowSelection};

/// Contiguous rows of one run in the merged order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) run: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Piece {
    pub(super) fn rows(&self) -> u32 {
        self.end - self.start
    }

    /// The first rows, and the rest.
    pub(super) fn split(self, rows: u32) -> (Piece, Piece) {
        let middle = self.start + rows;
        (Piece { end: middle, ..self }, Piece { start: middle, ..self })
    }
}

/// The end of the first half of the rows, between two pieces; one may be split for it.
pub(super) fn half(pieces: &mut Vec<Piece>) -> usize {
    let mut left = pieces.iter().map(Piece::rows).sum::<u32>().div_ceil(2);
    let mut at = 0;
    while pieces[at].rows() <= left {
        left -= pieces[at].rows();
        at += 1;
        if left == 0 {
            return at;
        }
    }
    let (first, rest) = pieces[at].split(left);
    pieces[at] = first;
    pieces.insert(at + 1, rest);
    at + 1
}

/// All rows of all runs, in order (storage_rewrite-1).
pub(super) struct Merge<'a> {
    cursors: Vec<Cursor<'a>>,
    /// The next row of each run that has one: of equal timestamps, that of the first run comes
    /// first. For a run that was not read yet, a lower bound of its timestamps; the least head
    /// always belongs to a run that was read.
    heads: BinaryHeap<Reverse<(i64, u32)>>,
}

/// A cursor that reads a run from front to back.
struct Cursor<'a> {
    reader: &'a Reader,
    deletion_vector: Option<&'a DeletionVector>,
    designated: Option<&'a Column>,
    /// The next live row; past the last one if there is none.
    row: u64,
    /// The page frame whose timestamps are loaded; `None` before the run is read.
    frame: Option<u64>,
    timestamps: Vec<i64>,
}

const FRAME_ROWS: u64 = limits::FRAME_ROWS.0;
const ZONE_ROWS: u64 = limits::ZONE_ROWS.0;

impl<'a> Merge<'a> {
    pub(super) fn new(rewrite: &'a Rewrite<'a>, readers: &'a [Arc<Reader>]) -> Result<Merge<'a>> {
        let designated = rewrite.schema.designated_column().map(|(column, _)| column);
        let cursor = |(run, reader): (&'a Arc<crate::SegmentRun>, &'a Arc<Reader>)| Cursor {
            reader,
            deletion_vector: run.deletion_vector.as_deref(),
            designated,
            row: 0,
            frame: None,
            timestamps: Vec::new(),
        };
        let cursors = rewrite.runs.iter().zip(readers).map(cursor).collect();
        let heads = (0..).zip(readers).map(|(run, reader)| Reverse((reader.footer().min_ts, run)));
        let mut merge = Merge { cursors, heads: heads.collect() };
        merge.settle()?;
        Ok(merge)
    }

    /// Reads runs until the least head is the next row.
    fn settle(&mut self) -> Result<()> {
        while let Some(&Reverse((_, run))) = self.heads.peek() {
            let cursor = &mut self.cursors[run as usize];
            if cursor.frame.is_some() {
                break;
            }
            self.heads.pop();
            cursor.go_to(0)?;
            self.add_head(run);
        }
        Ok(())
    }

    /// The timestamp of the next row; 0 without a designated one.
    pub(super) fn peek(&self) -> Option<i64> {
        self.heads.peek().map(|Reverse((ts, _))| *ts)
    }

    /// The next rows, all of one run: at most `rows_max`, before `end_ts`.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn take(&mut self, rows_max: u32, end_ts: i64) -> Result<Piece> {
        let Reverse((first, run)) = self.heads.pop().expect("`peek` has seen one");
        let cursor = &mut self.cursors[run as usize];
        let start = cursor.row;
        let at = usize::try_from(start % FRAME_ROWS).expect("65,536");
        let room = (cursor.live_end() - start).min(rows_max.into());
        let room = usize::try_from(room).expect("65,536");
        let stretch = &cursor.timestamps[at..at + room];
        // The next row of another run, which ends the stretch of this run.
        let other = self.heads.peek().map(|Reverse(head)| *head);
        let comes_first =
            |&ts: &i64| ts < end_ts && other.is_none_or(|(other, by)| (ts, run) < (other, by));
        debug_assert!(comes_first(&first), "storage_rewrite-1");
        let count = prefix(stretch, comes_first).max(1) as u64;
        cursor.go_to(start + count)?;
        self.add_head(run);
        self.settle()?;
        let narrow = |row: u64| u32::try_from(row).expect("limits::SEGMENT_ROWS");
        Ok(Piece { run, start: narrow(start), end: narrow(start + count) })
    }

    /// The timestamp of a row.
    pub(super) fn timestamp(&self, run: u32, row: u32) -> Result<i64> {
        let Cursor { reader, designated, .. } = &self.cursors[run as usize];
        let Some(column) = designated else { return Ok(0) };
        let (frame, row) = (u64::from(row) / FRAME_ROWS, u64::from(row) % FRAME_ROWS);
        let slice = reader.slice(frame, column)?;
        let ts = decode::integer_at(&slice, usize::try_from(row).expect("65,536"));
        ts.ok_or_else(|| reader.frame_damage(column, frame, SegmentDamage::TimestampMissing))
    }

    fn add_head(&mut self, run: u32) {
        let cursor = &self.cursors[run as usize];
        if cursor.row < cursor.reader.footer().rows.0 {
            let at = usize::try_from(cursor.row % FRAME_ROWS).expect("65,536");
            self.heads.push(Reverse((cursor.timestamps[at], run)));
        }
    }
}

/// Number of leading values that pass; all that pass precede all that do not.
fn prefix(values: &[i64], passes: impl Fn(&i64) -> bool) -> usize {
    if values.last().is_some_and(&passes) {
        return values.len();
    }
    // Usually a few: search near the beginning first.
    let mut step = 1;
    while step < values.len() && passes(&values[step]) {
        step *= 2;
    }
    let low = step / 2;
    low + values[low..step.min(values.len())].partition_point(passes)
}

impl Cursor<'_> {
    /// Moves to the first live row from `row` on.
    fn go_to(&mut self, row: u64) -> Result<()> {
        let rows = self.reader.footer().rows.0;
        self.row = self
            .deletion_vector
            .map_or(row, |deletion_vector| next_live(deletion_vector, row, rows));
        let frame = self.row / FRAME_ROWS;
        if self.row >= rows {
            self.timestamps = Vec::new();
        } else if self.frame != Some(frame) {
            self.read(frame)?;
        }
        Ok(())
    }

    /// The end of the contiguous live rows from the next one on, at most the end of its page frame.
    fn live_end(&self) -> u64 {
        let rows = self.reader.footer().rows.0;
        let end = rows.min((self.row / FRAME_ROWS + 1) * FRAME_ROWS);
        self.deletion_vector
            .map_or(end, |deletion_vector| first_deleted(deletion_vector, self.row, end))
    }

    fn read(&mut self, frame: u64) -> Result<()> {
        let count = self.reader.frame_rows(frame);
        self.frame = Some(frame);
        let Some(column) = self.designated else {
            self.timestamps.clear();
            self.timestamps.resize(count, 0);
            return Ok(());
        };
        let slice = self.reader.slice(frame, column)?;
        let damaged = |damage| self.reader.frame_damage(column, frame, damage);
        if slice.validity.is_some() || matches!(slice.encoded, Encoded::Null) {
            return Err(damaged(SegmentDamage::TimestampMissing));
        }
        let before = self.timestamps.last().copied();
        let before = before.unwrap_or(self.reader.footer().min_ts);
        self.timestamps =
            decode::integers(&slice, &RowSelection::Range(0..count)).map_err(damaged)?;
        if self.timestamps[0] < before || !self.timestamps.is_sorted() {
            return Err(damaged(SegmentDamage::Order { row: frame * FRAME_ROWS }));
        }
        let last = self.timestamps[count - 1];
        if self.timestamps[0] < TIMESTAMP_MIN || TIMESTAMP_MAX < last {
            return Err(damaged(SegmentDamage::TimestampRange)); // model_time-1
        }
        Ok(())
    }
}

/// The first live row from `row` on, or `rows`.
fn next_live(deletion_vector: &DeletionVector, mut row: u64, rows: u64) -> u64 {
    while row < rows {
        let Some(bits) = deletion_vector.zone(row / ZONE_ROWS) else { return row };
        let at = usize::try_from(row % ZONE_ROWS).expect("4,096");
        let first = bits[at / 64] & u64::MAX << (at % 64);
        let words = std::iter::once(first).chain(bits[at / 64 + 1..].iter().copied());
        let found = words.enumerate().find(|&(_, word)| word != 0);
        let zone = row - at as u64;
        match found {
            Some((word, bits)) => {
                let bit = (at / 64 + word) as u64 * 64 + u64::from(bits.trailing_zeros());
                return (zone + bit).min(rows);
            }
            None => row = zone + ZONE_ROWS,
        }
    }
    rows
}

/// The first deleted row from `row` on, or `end`.
fn first_deleted(deletion_vector: &DeletionVector, mut row: u64, end: u64) -> u64 {
    while row < end {
        let at = usize::try_from(row % ZONE_ROWS).expect("4,096");
        let zone = row - at as u64;
        let Some(bits) = deletion_vector.zone(row / ZONE_ROWS) else {
            row = zone + ZONE_ROWS;
            continue;
        };
        let first = !bits[at / 64] & u64::MAX << (at % 64);
        let words = std::iter::once(first).chain(bits[at / 64 + 1..].iter().map(|word| !word));
        match words.enumerate().find(|&(_, word)| word != 0) {
            Some((word, deleted)) => {
                let bit = (at / 64 + word) as u64 * 64 + u64::from(deleted.trailing_zeros());
                return (zone + bit).min(end);
            }
            None => row = zone + ZONE_ROWS,
        }
    }
    end
}

/// The composition of a page frame: its rows are in `spans`, one after another.
#[derive(Debug)]
pub(super) struct FramePlan {
    pub(super) rows: usize,
    pub(super) spans: Vec<Span>,
    /// Number of rows of the spans; some may be deleted.
    pub(super) span_rows: usize,
    /// For each row its place in the spans; `None` if the spans have the rows in order.
    pub(super) order: Option<Vec<u32>>,
}

impl FramePlan {
    /// A plan of contiguous rows.
    pub(super) fn of(span: Span) -> FramePlan {
        let rows = (span.end - span.start) as usize;
        FramePlan { rows, spans: vec![span], span_rows: rows, order: None }
    }

    /// A flag for each place of the spans that is set if the plan has its row; `None` if all have.
    pub(super) fn wanted(&self) -> Option<Vec<bool>> {
        let order = self.order.as_ref().filter(|_| self.span_rows > self.rows)?;
        let mut wanted = vec![false; self.span_rows];
        for &place in order {
            wanted[place as usize] = true;
        }
        Some(wanted)
    }
}

/// Contiguous rows of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) run: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Makes plans of page frames.
#[derive(Debug)]
pub(super) struct Planner {
    /// For each run its last span in the plan, `NONE` if there is none.
    open: Vec<u32>,
    /// For each piece its span.
    span_of: Vec<u32>,
    starts: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// Deleted rows that are read with those around them, at most: a span costs about as much as
/// decoding this many values.
const GAP_ROWS: u32 = 16;

impl Planner {
    pub(super) fn new(runs: usize) -> Planner {
        Planner { open: vec![NONE; runs], span_of: Vec::new(), starts: Vec::new() }
    }

    /// The plan of a page frame that consists of these rows.
    pub(super) fn plan(&mut self, pieces: &[Piece]) -> FramePlan {
        let narrow = |value: usize| u32::try_from(value).expect("a page frame's rows");
        let mut spans: Vec<Span> = Vec::new();
        self.span_of.clear();
        for piece in pieces {
            let open = &mut self.open[piece.run as usize];
            let last = spans.get_mut(*open as usize);
            match last.filter(|span| piece.start - span.end <= GAP_ROWS) {
                Some(span) => span.end = piece.end,
                None => {
                    *open = narrow(spans.len());
                    spans.push(Span { run: piece.run, start: piece.start, end: piece.end });
                }
            }
            self.span_of.push(*open);
        }
        self.starts.clear();
        let mut span_rows = 0;
        for span in &spans {
            self.open[span.run as usize] = NONE;
            self.starts.push(span_rows);
            span_rows += span.end - span.start;
        }
        let place = |(piece, &span): (&Piece, &u32)| {
            self.starts[span as usize] + piece.start - spans[span as usize].start
        };
        let mut rows = 0;
        let mut is_in_order = true;
        for (piece, span) in pieces.iter().zip(&self.span_of) {
            is_in_order &= place((piece, span)) == rows;
            rows += piece.rows();
        }
        let order = (!is_in_order).then(|| {
            let mut order = Vec::with_capacity(rows as usize);
            for (piece, span) in pieces.iter().zip(&self.span_of) {
                let first = place((piece, span));
                order.extend(first..first + piece.rows());
            }
            order
        });
        FramePlan { rows: rows as usize, spans, span_rows: span_rows as usize, order }
    }
}
