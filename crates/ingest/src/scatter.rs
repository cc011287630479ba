//! Scatters the rows of a parsed batch to the buffers of their buckets, a column at a time.
//!
//! - scatter-1. Rows of a parsed batch that go to one column buffer are adjacent there, in their
//!   order: a group is a list of rows and a range of the buffer.
//!
//! So a column is copied group by group: values are read from a few cached kilobytes and written
//! sequentially. Not here: the bucket of a timestamp (`bucket::plan`).

use std::sync::Arc;

use tidegate_platform::Reservation;

use crate::bucket::{BucketKey, Buckets, OpenBuffer, SpillFile};
use crate::error::Result;
use crate::layout::{ColumnBuffer, ColumnLayout, INTERNED, NULL_SLOT, TEXT_PAGES_MAX, TextPages};
use crate::packed::BufferPacker;
use crate::parsed_batch::{Cell, CellKind, PARSED_BATCH_ROWS, ParsedBatch, Place, Values};
use crate::progress::Progress;

/// The memory from which on workers spill buckets, and the file to which they spill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpillPolicy<'a> {
    pub(crate) spill: &'a SpillFile,
    /// The anonymous memory from which on buckets are spilled.
    pub(crate) spill_from: u64,
    pub(crate) progress: &'a Progress,
}

/// The column buffers that a worker is filling.
#[derive(Debug)]
pub(crate) struct Scatterer {
    buckets: Arc<Buckets>,
    worker: u32,
    /// The number of column buffers that were begun.
    begun: u64,
    /// For each bucket, the index in `buffers` of the column buffer that is being filled.
    current: Vec<Option<usize>>,
    buffers: Vec<Filling>,
    /// The unused indexes of `buffers`.
    vacant: Vec<usize>,
    full: Vec<usize>,
    groups: Vec<Group>,
    /// The rows of all groups, group by group.
    rows: Vec<u32>,
    /// The group of every live row.
    group_of_row: Vec<u32>,
    packer: BufferPacker,
    /// Empty sets of text pages of column buffers that were packed, and their bytes.
    pages: Vec<TextPages>,
    pages_bytes: usize,
}

#[derive(Debug)]
struct Filling {
    bucket: usize,
    open: Option<OpenBuffer>,
    /// The text bytes that are counted in `open`.
    counted: usize,
    /// The group of the present parsed batch that goes to this column buffer.
    group: Option<u32>,
}

/// Rows of a parsed batch that go to one column buffer (scatter-1).
#[derive(Debug, Clone, Copy)]
struct Group {
    buffer: usize,
    /// The first row of the column buffer that the group takes.
    first: usize,
    count: usize,
    /// The start of the group in `Scatterer::rows`.
    start: usize,
}

impl Scatterer {
    pub(crate) fn new(buckets: Arc<Buckets>, worker: u32) -> Scatterer {
        let current = vec![None; buckets.count()];
        Scatterer {
            buckets,
            worker,
            begun: 0,
            current,
            buffers: Vec::new(),
            vacant: Vec::new(),
            full: Vec::new(),
            groups: Vec::new(),
            rows: Vec::with_capacity(PARSED_BATCH_ROWS),
            group_of_row: Vec::with_capacity(PARSED_BATCH_ROWS),
            packer: BufferPacker::default(),
            pages: Vec::new(),
            pages_bytes: 0,
        }
    }

    /// Copies every row of the parsed batch that was not rejected to its bucket. `text` is the
    /// input chunk that the cells point into.
    pub(crate) fn scatter(&mut self, parsed: &ParsedBatch, text: &[u8]) {
        self.group_rows(parsed);
        let buckets = Arc::clone(&self.buckets);
        let columns = buckets.layout.columns.iter().zip(&parsed.columns);
        for (index, (layout, column)) in columns.enumerate() {
            match &column.values {
                Values::W1(values) => self.copy(layout, |row| values[row].to_le_bytes()),
                Values::W2(values) => self.copy(layout, |row| values[row].to_le_bytes()),
                Values::W4(values) => self.copy(layout, |row| values[row].to_le_bytes()),
                Values::W8(values) => self.copy(layout, |row| values[row].to_le_bytes()),
                Values::W16(values) => self.copy(layout, |row| values[row].to_le_bytes()),
                Values::Text(cells) => self.copy_texts(layout, cells, parsed, text),
            }
            if !column.nulls.is_empty() {
                self.copy_nulls(index, &column.nulls);
            }
        }
        while let Some(index) = self.full.pop() {
            self.retire(index);
        }
    }

    /// Gives every column buffer with rows to its bucket.
    pub(crate) fn finish(mut self) {
        for index in 0..self.buffers.len() {
            self.retire(index);
        }
    }

    /// Counts the memory of texts, and gives column buffers with too much text to their buckets.
    pub(crate) fn account(&mut self) {
        for index in 0..self.buffers.len() {
            let filling = &mut self.buffers[index];
            let Some(open) = &mut filling.open else { continue };
            let text = open.buffer.text_bytes();
            open.reservation.grow(text.saturating_sub(filling.counted) as u64);
            filling.counted = filling.counted.max(text);
            let text_max = self.buckets.options.buffer_text_max;
            if open.buffer.texts.pages.len() > TEXT_PAGES_MAX || text > text_max {
                self.retire(index);
            }
        }
    }

    /// Counts the bytes by which a worker's memory has grown, its interners with `interned_bytes`
    /// included, and spills the excess.
    ///
    /// # Errors
    /// If the spill file cannot be written.
    pub(crate) fn account_and_spill(
        &mut self,
        policy: &SpillPolicy<'_>,
        interners: &mut Reservation,
        interned_bytes: usize,
    ) -> Result<()> {
        self.account();
        let grown = (interned_bytes as u64).saturating_sub(interners.bytes());
        interners.grow(grown);
        self.buckets.add_symbols(grown);
        self.spill_down_to(self.buckets.spill_from(policy.spill_from), policy.spill)?;
        policy.progress.set_memory(self.buckets.budget.used_bytes());
        Ok(())
    }

    /// Spills until no more than `bytes` are in memory, or nothing worthwhile is left: first the
    /// buffers of buckets, then those of this worker that hold much text.
    ///
    /// # Errors
    /// If the spill file cannot be written.
    pub(crate) fn spill_down_to(&mut self, bytes: u64, spill: &SpillFile) -> Result<()> {
        let buckets = Arc::clone(&self.buckets);
        buckets.spill_down_to(bytes, spill)?;
        while buckets.budget.used_bytes() > bytes && self.retire_largest() {
            buckets.spill_down_to(bytes, spill)?;
        }
        Ok(())
    }

    /// Gives the column buffer with the most text to its bucket; returns false if there was none.
    fn retire_largest(&mut self) -> bool {
        let buffers = self.buffers.iter().enumerate();
        let open = buffers.filter(|(_, filling)| filling.open.is_some());
        match open.max_by_key(|(_, filling)| filling.counted) {
            Some((index, filling)) if filling.counted >= TEXT_WORTH_SPILLING => {
                self.retire(index);
                true
            }
            _ => false,
        }
    }

    /// Finds a column buffer for each live row, and collects the rows of each buffer.
    fn group_rows(&mut self, parsed: &ParsedBatch) {
        for group in self.groups.drain(..) {
            self.buffers[group.buffer].group = None;
        }
        self.group_of_row.clear();
        let live = LiveRows { rows: parsed.rows, rejected: &parsed.rejected };
        let buckets = Arc::clone(&self.buckets);
        let is_by_time = buckets.key == BucketKey::Time;
        let timestamps = buckets.layout.timestamp.filter(|_| is_by_time);
        let timestamps = timestamps.map(|column| &parsed.columns[column].values);
        // The bucket of the previous row, and its range: neighbours are often of one bucket.
        let mut near = match buckets.key {
            BucketKey::Time => (i64::MAX, i64::MIN, 0),
            BucketKey::Input => (i64::MIN, i64::MAX, buckets.plan.bucket(order_key(parsed.order))),
        };
        live.each(|row| {
            if let Some(Values::W8(values)) = timestamps {
                let ts = values[row].cast_signed();
                if !(near.0 <= ts && ts < near.1) {
                    let bucket = buckets.plan.bucket(ts);
                    let (start, end) = buckets.plan.range(bucket);
                    near = (start, end, bucket);
                }
            }
            let group = self.take_row(near.2, parsed.order);
            self.group_of_row.push(group);
        });
        let mut start = 0;
        for group in &mut self.groups {
            group.start = start;
            start += group.count;
            group.count = 0;
        }
        self.rows.resize(start, 0);
        let mut next = 0;
        live.each(|row| {
            let group = &mut self.groups[self.group_of_row[next] as usize];
            self.rows[group.start + group.count] =
                u32::try_from(row).expect("a parsed batch is small");
            group.count += 1;
            next += 1;
        });
    }

    /// Takes a row of the buffer that a bucket is filling; returns the group of the buffer.
    #[inline]
    fn take_row(&mut self, bucket: usize, order: u64) -> u32 {
        let index = match self.current[bucket] {
            Some(index) => index,
            None => self.open(bucket),
        };
        let filling = &mut self.buffers[index];
        let buffer = &mut filling.open.as_mut().expect("it is being filled").buffer;
        let group = *filling.group.get_or_insert_with(|| {
            buffer.begin_source(order);
            self.groups.push(Group { buffer: index, first: buffer.rows, count: 0, start: 0 });
            u32::try_from(self.groups.len() - 1).expect("a parsed batch is small")
        });
        self.groups[group as usize].count += 1;
        buffer.rows += 1;
        if buffer.rows == buffer.capacity {
            self.current[bucket] = None;
            self.full.push(index);
        }
        group
    }

    #[cold]
    fn open(&mut self, bucket: usize) -> usize {
        let pages = self.pages.pop().unwrap_or_default();
        self.pages_bytes -= pages.spare_bytes();
        let mut open = self.buckets.new_buffer(self.worker, pages);
        open.buffer.sequence = self.begun;
        self.begun += 1;
        let filling = Filling { bucket, open: Some(open), counted: 0, group: None };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.buffers[index] = filling;
                index
            }
            None => {
                self.buffers.push(filling);
                self.buffers.len() - 1
            }
        };
        self.current[bucket] = Some(index);
        index
    }

    fn copy<const N: usize>(&mut self, layout: &ColumnLayout, value: impl Fn(usize) -> [u8; N]) {
        for group in &self.groups {
            let rows = &self.rows[group.start..group.start + group.count];
            let buffer = self.buffers[group.buffer].buffer_mut();
            let slots = buffer.slots_mut::<N>(layout, group.first, group.count);
            for (slot, &row) in slots.iter_mut().zip(rows) {
                *slot = value(row as usize);
            }
        }
    }

    fn copy_texts(
        &mut self,
        layout: &ColumnLayout,
        cells: &[Cell],
        parsed: &ParsedBatch,
        text: &[u8],
    ) {
        for group in &self.groups {
            let rows = &self.rows[group.start..group.start + group.count];
            let buffer = self.buffers[group.buffer].buffer_mut();
            let (slots, texts) = buffer.text_slots_mut(layout, group.first, group.count);
            for (slot, &row) in slots.iter_mut().zip(rows) {
                let place = match cells[row as usize].kind() {
                    CellKind::Null => NULL_SLOT,
                    CellKind::Interned(number) => INTERNED | number,
                    CellKind::At(Place::Chunk(start, length)) => {
                        texts.push(&text[start..start + length])
                    }
                    CellKind::At(Place::Unescaped(start, length)) => {
                        texts.push(&parsed.unescaped[start..start + length])
                    }
                };
                *slot = place.to_le_bytes();
            }
        }
    }

    #[cold]
    fn copy_nulls(&mut self, column: usize, nulls: &[u32]) {
        for group in &self.groups {
            let rows = &self.rows[group.start..group.start + group.count];
            let buffer = self.buffers[group.buffer].buffer_mut();
            // Both ascend (parsed_batch-2, scatter-1).
            let mut nulls = nulls.iter().peekable();
            for (index, row) in rows.iter().enumerate() {
                while nulls.next_if(|&null| null < row).is_some() {}
                if nulls.next_if_eq(&row).is_some() {
                    buffer.set_null(column, group.first + index);
                }
            }
        }
    }

    /// Packs a column buffer and gives it to its bucket; its memory is reused.
    fn retire(&mut self, index: usize) {
        let filling = &mut self.buffers[index];
        let Some(OpenBuffer { mut buffer, reservation }) = filling.open.take() else { return };
        let bucket = filling.bucket;
        if self.current[bucket] == Some(index) {
            self.current[bucket] = None;
        }
        self.vacant.push(index);
        if buffer.rows > 0 {
            let Buckets { layout, compressors, .. } = &*self.buckets;
            let packed = self.packer.pack(&mut buffer, layout, compressors);
            self.packer.keep_at_most(self.buckets.options.reused_bytes_max);
            self.buckets.add(bucket, packed);
        }
        buffer.texts.clear();
        let bytes = self.pages_bytes + buffer.texts.spare_bytes();
        if bytes <= self.buckets.options.reused_bytes_max {
            self.pages_bytes = bytes;
            self.pages.push(buffer.texts);
        }
        self.buckets.recycle(buffer.fixed);
        drop(reservation);
    }
}

/// The number of an input chunk as a bucket key.
pub(crate) fn order_key(order: u64) -> i64 {
    i64::try_from(order).expect("an input has fewer than 2^62 chunks")
}

/// The bytes of text below which spilling a column buffer is not worth a disk operation.
const TEXT_WORTH_SPILLING: usize = 256 << 10;

impl Filling {
    #[inline]
    fn buffer_mut(&mut self) -> &mut ColumnBuffer {
        &mut self
            .open
            .as_mut()
            .expect("a group goes to a column buffer that is being filled")
            .buffer
    }
}

/// The rows of a parsed batch that were not rejected.
struct LiveRows<'a> {
    rows: usize,
    rejected: &'a [u32],
}

impl LiveRows<'_> {
    /// Calls `step` with every live row, ascending.
    #[inline]
    fn each(&self, mut step: impl FnMut(usize)) {
        let mut first = 0;
        for &rejected in self.rejected {
            (first..rejected as usize).for_each(&mut step);
            first = rejected as usize + 1;
        }
        (first..self.rows).for_each(step);
    }
}
