//! The rows of a bucket in the order of time.

use tidegate_platform::Reservation;
use tidegate_storage::time_order;

use crate::layout::{ColumnLayout, RowLayout};
use crate::packed::PackedBuffer;

/// The column buffers of a bucket, and its rows in the order of time.
#[derive(Debug)]
pub(crate) struct SortedBucket {
    buffers: Vec<(PackedBuffer, Reservation)>,
    /// Its part of the memory of open buckets.
    reservation: Reservation,
    /// Buffer and row of every row, packed: `buffer << row_bits | row`.
    order: Vec<u32>,
    row_bits: u32,
    /// The timestamps in order; empty in a table without a designated one.
    timestamps: Vec<i64>,
}

impl SortedBucket {
    pub(crate) fn new(
        mut buffers: Vec<(PackedBuffer, Reservation)>,
        layout: &RowLayout,
        reservation: Reservation,
    ) -> SortedBucket {
        buffers.retain(|(buffer, _)| buffer.rows > 0);
        let capacity = buffers.iter().map(|(buffer, _)| buffer.rows).max().unwrap_or(1);
        let row_bits = capacity.next_power_of_two().trailing_zeros();
        let order = input_order(&buffers, row_bits);
        let Some(column) = layout.timestamp else {
            return SortedBucket { buffers, reservation, order, row_bits, timestamps: Vec::new() };
        };
        let mut bucket = SortedBucket {
            buffers,
            reservation,
            order: Vec::new(),
            row_bits,
            timestamps: Vec::new(),
        };
        let mut values = Vec::new();
        bucket.unpack(column, &layout.columns[column], &mut values);
        let values = values.as_chunks::<8>().0;
        let instant = |&place: &u32| i64::from_le_bytes(values[place as usize]);
        let instants = order.iter().map(instant).collect();
        (bucket.order, bucket.timestamps) = time_order::sort(order, instants); // segment_build-1
        bucket
    }

    /// The unpacked values of a column; `order` refers to them by position. The positions between
    /// the last row of a buffer and the next buffer have no value.
    pub(crate) fn unpack(&self, index: usize, column: &ColumnLayout, out: &mut Vec<u8>) {
        out.clear();
        for (number, (buffer, _)) in self.buffers.iter().enumerate() {
            out.resize((number << self.row_bits) * column.width, 0);
            buffer.unpack(index, column, out);
        }
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.reservation.bytes()
    }

    /// For each row in order, the sum of the memory of it and of all rows before it.
    pub(crate) fn row_ends(&self, layout: &RowLayout) -> Vec<u64> {
        let texts: Vec<Vec<u64>> = self.buffers().map(|buffer| buffer.row_texts(layout)).collect();
        let all: u64 = texts.iter().flatten().sum();
        let fixed = self.bytes().saturating_sub(all) / self.rows().max(1) as u64;
        let mask = (1_usize << self.row_bits) - 1;
        let mut end = 0;
        let of_row = |&place: &u32| {
            let place = place as usize;
            let text = texts[place >> self.row_bits].get(place & mask).copied().unwrap_or(0);
            end += fixed + text;
            end
        };
        self.order.iter().map(of_row).collect()
    }

    pub(crate) fn rows(&self) -> usize {
        self.order.len()
    }

    /// The timestamp of a row; 0 in a table without a designated one.
    pub(crate) fn timestamp(&self, row: usize) -> i64 {
        self.timestamps.get(row).copied().unwrap_or(0)
    }

    /// The first row from `start` on whose timestamp is at least `ts`.
    pub(crate) fn first_at(&self, start: usize, ts: i64) -> usize {
        if self.timestamps.is_empty() {
            return self.rows();
        }
        start + self.timestamps[start..].partition_point(|&own| own < ts)
    }

    pub(crate) fn buffers(&self) -> impl Iterator<Item = &PackedBuffer> {
        self.buffers.iter().map(|(buffer, _)| buffer)
    }

    /// The number of rows of a column buffer.
    pub(crate) fn buffer_rows(&self, buffer: usize) -> usize {
        self.buffers[buffer].0.rows
    }

    /// Buffer and row of some rows, packed with `row_bits`.
    pub(crate) fn order(&self, start: usize, end: usize) -> &[u32] {
        &self.order[start..end]
    }

    pub(crate) fn row_bits(&self) -> u32 {
        self.row_bits
    }
}

/// All rows in the order of the input, by the source ranges of their column buffers
/// (ingest_layout-3).
fn input_order(buffers: &[(PackedBuffer, Reservation)], row_bits: u32) -> Vec<u32> {
    let mut runs = Vec::new();
    for (index, (buffer, _)) in buffers.iter().enumerate() {
        assert!(index < 1 << (32 - row_bits), "column buffers and rows fit 32 bits together");
        for (position, source) in buffer.sources.iter().enumerate() {
            let end =
                buffer.sources.get(position + 1).map_or(buffer.rows, |next| next.start as usize);
            runs.push(((source.order, buffer.sequence), index, source.start as usize, end));
        }
    }
    // The sort is stable: rows of one chunk in one column buffer keep their order.
    runs.sort_by_key(|&(order, ..)| order);
    let mut places = Vec::with_capacity(buffers.iter().map(|(buffer, _)| buffer.rows).sum());
    for (_, buffer, start, end) in runs {
        let narrow = |value: usize| u32::try_from(value).expect("asserted above");
        let first = narrow(buffer) << row_bits;
        places.extend((start..end).map(|row| first | narrow(row)));
    }
    places
}
