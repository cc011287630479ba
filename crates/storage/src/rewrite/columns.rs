//! Rewriting of fixed-width columns: values of several runs, a page frame at a time, in order.

use std::ops::Range;
use std::sync::Arc;

use tidegate_model::types::Physical;
use tidegate_model::{Column, ColumnSlice, Encoded, limits};

use super::merge::FramePlan;
use crate::error::{Result, SegmentDamage};
use crate::segment::Reader;
use crate::segment::decode::{self, RowSelection};
use crate::segment::encode::{ColumnEncoder, FrameValues};

/// A column of all runs.
pub(super) struct Source<'a> {
    pub(super) column: &'a Column,
    pub(super) readers: &'a [Arc<Reader>],
    /// For each run, the page frame that was read last.
    slices: Vec<Option<(u64, ColumnSlice<'a>)>>,
}

/// Rows of one page frame of one run.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub(super) run: usize,
    pub(super) rows: Range<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(readers: &'a [Arc<Reader>], column: &'a Column) -> Source<'a> {
        Source { column, readers, slices: readers.iter().map(|_| None).collect() }
    }

    /// A page frame of a run.
    pub(super) fn slice(&mut self, run: usize, frame: u64) -> Result<ColumnSlice<'a>> {
        if let Some((at_hand, slice)) = &self.slices[run]
            && *at_hand == frame
        {
            return Ok(slice.clone());
        }
        let slice = self.readers[run].slice(frame, self.column)?;
        self.slices[run] = Some((frame, slice.clone()));
        Ok(slice)
    }

    /// Calls `step` with the page frames that a plan's spans are in, in their order.
    pub(super) fn each(
        &mut self,
        plan: &FramePlan,
        mut step: impl FnMut(&Stretch, &ColumnSlice<'a>) -> Result<(), SegmentDamage>,
    ) -> Result<()> {
        for span in &plan.spans {
            let (run, mut start) = (span.run as usize, u64::from(span.start));
            while start < span.end.into() {
                let frame = start / limits::FRAME_ROWS.0;
                let first = frame * limits::FRAME_ROWS.0;
                let end = u64::from(span.end).min(first + limits::FRAME_ROWS.0);
                let at = |row: u64| usize::try_from(row - first).expect("65,536");
                let stretch = Stretch { run, rows: at(start)..at(end) };
                let slice = self.slice(run, frame)?;
                step(&stretch, &slice)
                    .map_err(|damage| self.readers[run].frame_damage(self.column, frame, damage))?;
                start = end;
            }
        }
        Ok(())
    }
}

/// Moves the values of a plan's spans into the order of its rows.
pub(super) fn in_order<T: Copy>(plan: &FramePlan, of_spans: &mut Vec<T>, into: &mut Vec<T>) {
    match &plan.order {
        None => std::mem::swap(of_spans, into),
        Some(order) => {
            into.clear();
            into.extend(order.iter().map(|&place| of_spans[place as usize]));
        }
    }
}

/// Collects which rows of a plan have a value, as a bitmap.
#[derive(Default)]
pub(super) struct ValidRows {
    of_spans: Vec<bool>,
    in_order: Vec<bool>,
    words: Vec<u64>,
}

impl ValidRows {
    /// The bitmap; `None` if all rows have a value.
    pub(super) fn of(
        &mut self,
        source: &mut Source<'_>,
        plan: &FramePlan,
    ) -> Result<Option<&[u64]>> {
        let mut has_null = false;
        self.of_spans.clear();
        source.each(plan, |stretch, slice| {
            let before = self.of_spans.len();
            let is_null = matches!(slice.encoded, Encoded::Null);
            if is_null || slice.validity.is_some() {
                has_null = true;
                let is_valid = |row| !is_null && slice.is_valid(row);
                self.of_spans.extend(stretch.rows.clone().map(is_valid));
            } else {
                self.of_spans.resize(before + stretch.rows.len(), true);
            }
            Ok(())
        })?;
        if !has_null {
            return Ok(None);
        }
        in_order(plan, &mut self.of_spans, &mut self.in_order);
        self.words.clear();
        self.words.extend(self.in_order.chunks(64).map(|rows| {
            rows.iter().rev().fold(0_u64, |bits, &is_valid| bits << 1 | u64::from(is_valid))
        }));
        Ok(Some(&self.words))
    }
}

type Decode<T> = fn(&ColumnSlice<'_>, &RowSelection<'_>) -> Result<Vec<T>, SegmentDamage>;

/// Encodes page frames of a column of a fixed width.
fn push_frames<T: Copy + Default>(
    source: &mut Source<'_>,
    plans: &[FramePlan],
    decode: Decode<T>,
    encoder: &mut ColumnEncoder,
    frame_values: impl Fn(&mut [T]) -> FrameValues<'_>,
) -> Result<()> {
    let (mut of_spans, mut values, mut valid) = (Vec::new(), Vec::new(), ValidRows::default());
    for plan in plans {
        of_spans.clear();
        source.each(plan, |stretch, slice| {
            let rows = RowSelection::Range(stretch.rows.clone());
            match slice.encoded {
                Encoded::Null => of_spans.resize(of_spans.len() + rows.count(), T::default()),
                // Usually there is only one stretch, and its values need not be copied.
                _ if of_spans.is_empty() => of_spans = decode(slice, &rows)?,
                _ => of_spans.extend(decode(slice, &rows)?),
            }
            Ok(())
        })?;
        assert_eq!(of_spans.len(), plan.span_rows, "frame-1");
        in_order(plan, &mut of_spans, &mut values);
        let validity = valid.of(source, plan)?;
        encoder.push(&mut frame_values(&mut values), validity);
    }
    Ok(())
}

macro_rules! push_frames {
    ($source:ident, $plans:ident, $encoder:ident, $decode:expr, $as:ident) => {
        push_frames($source, $plans, $decode, $encoder, |values| FrameValues::$as(values))
    };
}

/// Encodes a column of a segment.
///
/// # Panics
/// If it is a string column.
pub(super) fn encode(
    source: &mut Source<'_>,
    plans: &[FramePlan],
    encoder: &mut ColumnEncoder,
) -> Result<()> {
    match source.column.ty.physical() {
        Physical::Bit => push_frames!(source, plans, encoder, decode::bits, Bits),
        Physical::Signed(1) => push_frames!(source, plans, encoder, decode::integers, I8),
        Physical::Signed(2) => push_frames!(source, plans, encoder, decode::integers, I16),
        Physical::Signed(4) => push_frames!(source, plans, encoder, decode::integers, I32),
        Physical::Signed(_) => push_frames!(source, plans, encoder, decode::integers, I64),
        Physical::Unsigned(1) => push_frames!(source, plans, encoder, decode::integers, U8),
        Physical::Unsigned(2) => push_frames!(source, plans, encoder, decode::integers, U16),
        Physical::Unsigned(4) => push_frames!(source, plans, encoder, decode::integers, U32),
        Physical::Unsigned(_) => push_frames!(source, plans, encoder, decode::integers, U64),
        Physical::Wide => push_frames!(source, plans, encoder, decode::wide, I128),
        Physical::Float32 => push_frames!(source, plans, encoder, decode::floats, F32),
        Physical::Float64 => push_frames!(source, plans, encoder, decode::floats, F64),
        Physical::Fixed16 => push_frames!(source, plans, encoder, decode::fixed16, Fixed16),
        Physical::Bytes => unreachable!("texts go elsewhere"),
    }
}
