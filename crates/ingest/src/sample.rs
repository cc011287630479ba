//! A sample of the input before it is read: windows spread over it, the timestamps in them, and the
//! length of records.
//!
//! A sample decides only the speed of an import (the bounds of buckets) and the columns of a new
//! table; it never affects the rows.

use tidegate_platform::DiskFile;

use crate::error::{Error, Result};
use crate::index::{Before, FieldIndex, Kernel, QuoteState, Start, Structure};
use crate::timestamp::TimestampParser;

/// The size of the first window, which includes the header.
const HEAD_BYTES: u64 = 2 << 20;
/// The sum of the sizes of all heads but the first, as far as none is below the minimum.
const HEADS_BYTES: u64 = 64 << 20;
/// The minimum size of a head: it includes the header, even one of thousands of columns.
const HEAD_BYTES_MIN: u64 = 64 << 10;
/// The number of windows behind the head, and their size.
const WINDOWS: u64 = 96;
const WINDOW_BYTES: u64 = 64 << 10;

/// Samples of the bytes of an input.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// The first bytes.
    pub(crate) head: Vec<u8>,
    pub(crate) windows: Vec<Vec<u8>>,
    /// True if `head` is the whole input.
    pub(crate) is_whole: bool,
}

/// The records of a sample.
#[derive(Debug, Default)]
pub(crate) struct RecordSample {
    pub(crate) timestamps: Vec<i64>,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Sample {
    /// Reads windows of an uncompressed file.
    pub(crate) fn of_file(file: &dyn DiskFile, bytes: u64) -> Result<Sample> {
        let read = |offset: u64, wanted: u64| {
            let wanted = wanted.min(bytes.saturating_sub(offset));
            let mut window = vec![0; usize::try_from(wanted).expect("a window is small")];
            file.read_exact_at(&mut window, offset).map_err(Error::Input)?;
            Ok(window)
        };
        let head = read(0, HEAD_BYTES)?;
        let rest = bytes - head.len() as u64;
        // The types come from the beginning of each window: a single window over all of the rest
        // would show nothing of its end.
        let count = rest.div_ceil(WINDOW_BYTES).min(WINDOWS);
        let step = (rest / count.max(1)).max(WINDOW_BYTES);
        let windows = (0..count).map(|i| read(HEAD_BYTES + i * step, WINDOW_BYTES));
        Ok(Sample { is_whole: rest == 0, head, windows: windows.collect::<Result<_>>()? })
    }

    /// Reads the beginning and the end of an uncompressed file that is not the first one: a file in
    /// the order of time has different days there.
    pub(crate) fn of_ends(file: &dyn DiskFile, bytes: u64, head_bytes: u64) -> Result<Sample> {
        let read = |offset: u64, wanted: u64| -> Result<Vec<u8>> {
            let mut window = vec![0; usize::try_from(wanted).expect("a window is small")];
            file.read_exact_at(&mut window, offset).map_err(Error::Input)?;
            Ok(window)
        };
        let head = read(0, bytes.min(head_bytes))?;
        let rest = bytes - head.len() as u64;
        let tail = rest.min(WINDOW_BYTES);
        let windows = if tail > 0 { vec![read(bytes - tail, tail)?] } else { Vec::new() };
        Ok(Sample { is_whole: rest == 0, head, windows })
    }

    /// The sample of the beginning of a stream, of which `wanted` bytes were requested; if there
    /// are fewer, it is the whole input.
    pub(crate) fn of_head(head: Vec<u8>, wanted: u64) -> Sample {
        let is_whole = (head.len() as u64) < wanted;
        Sample { head, windows: Vec::new(), is_whole }
    }

    /// The bytes that are read of the beginning of each of so many files after the first.
    pub(crate) fn head_bytes(files: usize) -> u64 {
        (HEADS_BYTES / (files as u64).max(1)).clamp(HEAD_BYTES_MIN, HEAD_BYTES)
    }

    /// The bytes that are read of the beginning of the first file.
    pub(crate) fn first_head_bytes() -> u64 {
        HEAD_BYTES
    }

    /// The windows as slices.
    pub(crate) fn window_slices(&self) -> Vec<&[u8]> {
        self.windows.iter().map(Vec::as_slice).collect()
    }

    /// Splits the windows into records of `fields` fields and parses the timestamp of each.
    pub(crate) fn records(
        &self,
        structure: &Structure,
        fields: usize,
        timestamp: Option<(usize, TimestampParser)>,
    ) -> RecordSample {
        let mut sample = RecordSample::default();
        let mut timestamp = timestamp;
        let kernel = Kernel::detect();
        let at_start = (self.head.as_slice(), true);
        for (window, is_head) in
            std::iter::once(at_start).chain(self.windows.iter().map(|w| (w.as_slice(), false)))
        {
            let states: &[QuoteState] = if is_head {
                &[QuoteState::Outside]
            } else {
                &[QuoteState::Outside, QuoteState::Inside]
            };
            let best = states
                .iter()
                .map(|&state| {
                    let mut index = FieldIndex::default();
                    let after = if is_head { Before::FieldStart } else { Before::Text };
                    kernel.index(window, Start { state, after }, structure, &mut index);
                    let rows = fitting_rows(&index, fields, is_head);
                    (rows, index)
                })
                .max_by_key(|(rows, _)| rows.len());
            if let Some((rows, index)) = best {
                for (first, last) in rows {
                    sample.add(window, &index, first, last, structure, timestamp.as_mut());
                }
            }
        }
        sample
    }
}

/// The first and last field ends of the records with the right number of fields.
fn fitting_rows(index: &FieldIndex, fields: usize, is_head: bool) -> Vec<(usize, usize)> {
    let mut rows = Vec::new();
    let mut first = 0;
    for (row, &last) in index.row_ends.iter().enumerate() {
        let last = last as usize;
        // The first record of a window is incomplete.
        if last + 1 - first == fields && (is_head || row > 0) {
            rows.push((first, last));
        }
        first = last + 1;
    }
    rows
}

impl RecordSample {
    fn add(
        &mut self,
        window: &[u8],
        index: &FieldIndex,
        first: usize,
        last: usize,
        structure: &Structure,
        timestamp: Option<&mut (usize, TimestampParser)>,
    ) {
        let start_of = |field: usize| match field {
            0 => 0,
            field => index.field_ends[field - 1] as usize + 1,
        };
        let (start, end) = (start_of(first), index.field_ends[last] as usize);
        self.records += 1;
        self.bytes += (end - start + 1) as u64;
        let Some((field, parser)) = timestamp else { return };
        let at = first + *field;
        let mut cell = &window[start_of(at)..index.field_ends[at] as usize];
        cell = cell.strip_suffix(b"\r").unwrap_or(cell);
        if let Some(quote) = structure.quote
            && let [first, inner @ .., last] = cell
            && *first == quote
            && *last == quote
        {
            cell = inner;
        }
        if let Ok(instant) = parser.parse(cell) {
            self.timestamps.push(instant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::TimestampFormat;
    use tidegate_model::TimeUnit;

    #[test]
    fn timestamps_come_from_records_that_fit() {
        let csv = Structure { delimiter: b',', quote: Some(b'"'), line_end: b'\n' };
        let head = b"1,\"2020-01-01 00:00:00\"\n2,nonsense\n3,1970-01-01T00:00:01\r\n4\n".to_vec();
        let sample = Sample::of_head(head, HEAD_BYTES);
        assert!(sample.is_whole);
        let parser = TimestampParser::new(&TimestampFormat::Iso, TimeUnit::Micros);
        let found = sample.records(&csv, 2, Some((1, parser)));
        assert_eq!(found.timestamps, [1_577_836_800_000_000, 1_000_000]);
        assert_eq!(found.records, 3);
    }
}
