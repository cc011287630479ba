//! The pages of one row group of a Parquet file: checks them before the library decodes them, and
//! measures the memory that decoding takes.
//!
//! - pages-1. A page that is passed to the decoder lies within its column chunk. The memory for its
//!   declared sizes is at most `page_bytes_max`, and at most what its bytes can decompress to.
//!
//! The library allocates memory by the sizes that a page declares, of its values, its dictionary or
//! its deltas, before it reads them. Damaged bytes may declare any size, and a failed allocation
//! ends the process. Not here: the values, which the library decodes and checks.

use std::sync::Arc;

use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;
use tidegate_model::{ByteCount, limits};

use crate::parquet_flaw::Flaw;

use super::source::ParquetSource;
use super::thrift::{DICTIONARY_PAGE, INDEX_PAGE, page_sizes};

/// One row group of an open file.
#[derive(Debug, Clone)]
pub(super) struct GroupPages {
    pub(super) source: ParquetSource,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) group: usize,
    /// The maximum bytes of a decompressed page (function `page_bytes_max`).
    pub(super) page_bytes_max: u64,
}

/// The maximum bytes of a decompressed page: the memory of the import, within the limits of the
/// format. There must be a maximum, since a few bytes of the file can decompress to any size.
pub(super) fn page_bytes_max(memory: ByteCount) -> u64 {
    memory.0.clamp(limits::PARQUET_PAGE_BYTES_LEAST, limits::PARQUET_PAGE_BYTES)
}

impl GroupPages {
    fn row_group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.group)
    }

    /// The pages of a column.
    pub(super) fn pages(&self, column: usize) -> Result<CheckedPages> {
        CheckedPages::new(self, column)
    }
}

impl RowGroups for GroupPages {
    fn num_rows(&self) -> usize {
        usize::try_from(self.row_group().num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let pages: Box<dyn PageReader> = Box::new(self.pages(column)?);
        Ok(Box::new(OneChunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.row_group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The column chunks of a column in one row group: exactly one.
struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}

/// The checked pages of a column chunk (pages-1).
pub(super) struct CheckedPages {
    pages: SerializedPageReader<ParquetSource>,
    source: ParquetSource,
    column: ColumnDescPtr,
    compression: Compression,
    /// The offset of the next page's header.
    at: u64,
    /// The end of the column chunk.
    end: u64,
    bytes_max: u64,
}

impl CheckedPages {
    fn new(pages: &GroupPages, column: usize) -> Result<Self> {
        let (source, group) = (&pages.source, pages.row_group());
        let chunk = group.column(column);
        let (at, end) = range_of(chunk, source.bytes())?;
        let rows = usize::try_from(group.num_rows())?;
        Ok(CheckedPages {
            pages: SerializedPageReader::new(Arc::new(source.clone()), chunk, rows, None)?,
            source: source.clone(),
            column: chunk.column_descr_ptr(),
            compression: chunk.compression(),
            at,
            end,
            bytes_max: pages.page_bytes_max,
        })
    }

    /// Checks the header of the next page, and those of index pages before it.
    fn check_next(&mut self) -> Result<()> {
        while self.at < self.end {
            let at = self.at;
            let sizes = self.header()?;
            let left = self.end - at - sizes.header as u64;
            let compressed = u64::try_from(sizes.compressed).ok().filter(|&bytes| bytes <= left);
            let compressed =
                compressed.ok_or(Flaw::PageCut { at, declared: sizes.compressed, left })?;
            let declared = u64::try_from(sizes.uncompressed).map_err(|_| Flaw::Metadata)?;
            if declared > limits::PARQUET_PAGE_BYTES {
                return Err(Flaw::PageTooLarge { at, declared }.into());
            }
            if declared > inflated_max(self.compression, compressed) {
                return Err(Flaw::PageInflated { at, declared, compressed }.into());
            }
            let max = self.bytes_max;
            if declared > max {
                return Err(Flaw::PageOverMemory { at, declared, max }.into());
            }
            if !(0..=sizes.uncompressed).contains(&sizes.levels) {
                return Err(Flaw::Metadata.into());
            }
            self.at += sizes.header as u64 + compressed;
            if sizes.kind != INDEX_PAGE {
                break;
            }
        }
        Ok(())
    }

    /// Returns the bytes of the dictionary and of two pages as large as the largest, and the rows
    /// and the bytes of each page, as far as the headers are readable.
    fn measure(mut self) -> (u64, Vec<PageRows>) {
        let (mut dictionary, mut largest, mut pages) = (0, 0, Vec::new());
        while self.at < self.end {
            let Ok(sizes) = self.header() else { break };
            let (Ok(bytes), Ok(compressed), Ok(rows)) = (
                u64::try_from(sizes.uncompressed),
                u64::try_from(sizes.compressed),
                u64::try_from(sizes.values),
            ) else {
                break;
            };
            // A page that is refused when it is decoded takes no memory.
            let is_refused =
                bytes > self.bytes_max || bytes > inflated_max(self.compression, compressed);
            let bytes = if is_refused { 0 } else { bytes };
            match sizes.kind {
                DICTIONARY_PAGE => dictionary = bytes.saturating_add(compressed),
                INDEX_PAGE => {}
                _ => {
                    largest = largest.max(bytes.saturating_add(compressed.min(self.bytes_max)));
                    pages.push((rows, bytes));
                }
            }
            self.at = self.at.saturating_add(sizes.header as u64).saturating_add(compressed);
        }
        let two = if pages.len() > 1 { largest.saturating_mul(2) } else { largest };
        (two.saturating_add(dictionary), pages)
    }

    /// Reads the header at `at`. Most headers have a few dozen bytes, but statistics may make them
    /// long.
    fn header(&self) -> Result<super::thrift::PageSizes> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let mut window = HEADER_BYTES.min(left);
        loop {
            let mut bytes = vec![0; window];
            self.source.read_header(&mut bytes, self.at)?;
            match page_sizes(&bytes)? {
                Some(sizes) => return Ok(sizes),
                None if window == left => return Err(Flaw::MetadataCut.into()),
                None => window = window.saturating_mul(16).min(left),
            }
        }
    }

    /// Checks that a page has enough bytes for the number of values that it declares.
    fn check_page(&self, page: &Page) -> Result<()> {
        let bytes = page.buffer().len() as u64;
        let declared = u64::from(page.num_values());
        let is_possible = match page {
            Page::DictionaryPage { .. } => {
                let least = match self.column.physical_type() {
                    Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
                    Type::INT64 | Type::DOUBLE => 8,
                    Type::INT96 => 12,
                    Type::BOOLEAN => 1,
                    Type::FIXED_LEN_BYTE_ARRAY => {
                        u64::try_from(self.column.type_length()).unwrap_or(0).max(1)
                    }
                };
                declared.saturating_mul(least) <= bytes
            }
            Page::DataPage { encoding, .. } | Page::DataPageV2 { encoding, .. } => {
                let lists = match encoding {
                    Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
                    Encoding::DELTA_BYTE_ARRAY => 2,
                    _ => 0,
                };
                are_deltas_possible(self.values_of(page), lists, declared)
            }
        };
        if is_possible { Ok(()) } else { Err(Flaw::PageValues { declared, bytes }.into()) }
    }

    /// Returns the bytes of a page after its levels. The column is flat, so there are levels only
    /// if a value may be NULL.
    fn values_of<'a>(&self, page: &'a Page) -> &'a [u8] {
        let bytes: &[u8] = page.buffer();
        let levels = match page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len)
            }
            _ if self.column.max_def_level() == 0 => 0,
            Page::DataPage { def_level_encoding: Encoding::RLE, .. } => {
                let length = bytes.first_chunk::<4>().map_or(0, |four| u32::from_le_bytes(*four));
                u64::from(length) + 4
            }
            // One bit for each value.
            page => u64::from(page.num_values()).div_ceil(8),
        };
        usize::try_from(levels).ok().and_then(|levels| bytes.get(levels..)).unwrap_or_default()
    }
}

/// The memory that decoding a row group takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupMemory {
    /// The bytes of the dictionaries, of two pages of each column, since a batch may begin in one
    /// page and end in the next, and of further pages if the texts of a batch lie in more.
    pub(super) bytes: u64,
    /// The rows that are decoded at a time.
    pub(super) batch_rows: usize,
}

/// A column chunk whose pages are measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeasuredColumn {
    pub(super) leaf: usize,
    /// True for texts: a batch refers to them, so all pages that have its texts stay in memory.
    pub(super) is_text: bool,
}

/// The rows and the bytes of a page.
type PageRows = (u64, u64);

impl GroupPages {
    /// Chooses the rows of a batch, at most `rows_max`, and returns the memory that decoding these
    /// columns takes with it. The batch is made smaller until its texts need at most `batch_max`
    /// bytes of pages besides the two pages of each column. Damaged pages are counted as far as
    /// they are readable: they are reported when they are decoded.
    pub(super) fn memory(
        &self,
        columns: impl Iterator<Item = MeasuredColumn>,
        mut rows_max: usize,
        batch_max: u64,
    ) -> GroupMemory {
        let (mut bytes, mut texts) = (0_u64, Vec::new());
        for column in columns {
            let Ok(pages) = self.pages(column.leaf) else { continue };
            let (own, page_rows) = pages.measure();
            bytes = bytes.saturating_add(own);
            let chunk = self.row_group().column(column.leaf);
            if chunk.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY) {
                // A few bytes of a page may repeat any number of bytes of the value before them.
                rows_max = rows_max.min(DELTA_BATCH_ROWS);
            }
            if column.is_text {
                let two = bytes_of_rows_max(&page_rows, 1).saturating_mul(2);
                texts.push((page_rows, two));
            }
        }
        let extra = |rows: usize| {
            let of = |(pages, two): &(Vec<PageRows>, u64)| {
                bytes_of_rows_max(pages, rows as u64).saturating_sub(*two)
            };
            texts.iter().map(of).fold(0, u64::saturating_add)
        };
        let mut batch_rows = rows_max;
        while batch_rows > 1 && extra(batch_rows) > batch_max {
            batch_rows /= 2;
        }
        let bytes = bytes.saturating_add(extra(batch_rows));
        GroupMemory { bytes, batch_rows }
    }
}

/// The maximum rows of a batch if values are stored as suffixes to a prefix of the value before.
const DELTA_BATCH_ROWS: usize = 512;

/// Returns the maximum bytes of the pages in which this many adjacent rows lie, over all positions
/// of the rows.
fn bytes_of_rows_max(pages: &[PageRows], rows: u64) -> u64 {
    let (mut most, mut first) = (0, 0);
    // The bytes of the pages `first..=last`, and the rows of the pages between these two.
    let (mut bytes, mut between) = (0_u64, 0_u64);
    for last in 0..pages.len() {
        bytes = bytes.saturating_add(pages[last].1);
        if first + 1 < last {
            between = between.saturating_add(pages[last - 1].0);
        }
        // Rows that reach from page `first` to page `last` have at least one row in each, and all
        // rows of the pages between.
        while first < last && rows < between.saturating_add(2) {
            bytes = bytes.saturating_sub(pages[first].1);
            first += 1;
            between = if first < last { between.saturating_sub(pages[first].0) } else { 0 };
        }
        most = most.max(bytes);
    }
    most
}

/// The bytes that are read for a header at first: most headers fit.
const HEADER_BYTES: usize = 256;

/// Returns the start and the end of a column chunk in its file.
fn range_of(chunk: &ColumnChunkMetaData, file: u64) -> Result<(u64, u64)> {
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let bytes = chunk.compressed_size();
    let range = u64::try_from(start).ok().zip(u64::try_from(bytes).ok());
    let range = range.and_then(|(start, bytes)| Some((start, start.checked_add(bytes)?)));
    let range = range.filter(|&(_, end)| end <= file);
    range.ok_or_else(|| Flaw::Place { start, bytes, file }.into())
}

/// The maximum bytes to which this number of compressed bytes can decompress; `u64::MAX` if the
/// compression has no bound.
fn inflated_max(compression: Compression, compressed: u64) -> u64 {
    let (factor, slack) = match compression {
        // A copy of up to 64 bytes takes two.
        Compression::SNAPPY => (64, 64),
        // Each further byte of a length adds up to 255 bytes.
        Compression::LZ4 | Compression::LZ4_RAW => (256, 256),
        // 258 bytes take at least two bits.
        Compression::GZIP(_) => (1_040, 1_040),
        // For uncompressed pages nothing is allocated; the other compressions have no bound.
        _ => return u64::MAX,
    };
    compressed.saturating_mul(factor).saturating_add(slack)
}

/// Returns true if adjacent lists of deltas declare at most `values` values each, and have about
/// enough bytes for them.
fn are_deltas_possible(bytes: &[u8], lists: usize, values: u64) -> bool {
    let mut rest = bytes;
    for _ in 0..lists {
        match delta_list(rest) {
            // Too few bytes for a list: the library allocates nothing, and returns an error.
            None => return true,
            Some((declared, _)) if declared > values => return false,
            // A block of equal deltas has few bytes, but at least one.
            Some((declared, _)) if declared / VALUES_PER_BYTE > rest.len() as u64 => return false,
            Some((_, after)) => rest = after,
        }
    }
    true
}

/// The maximum number of deltas per byte: a block of a few thousand equal deltas takes some ten
/// bytes.
const VALUES_PER_BYTE: u64 = 1_024;

/// The number of values that a list of deltas (DELTA_BINARY_PACKED) declares, and the bytes after
/// the list.
fn delta_list(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut at = 0;
    let block = varint(bytes, &mut at)?;
    let minis = varint(bytes, &mut at)?;
    let declared = varint(bytes, &mut at)?;
    varint(bytes, &mut at)?;
    if block == 0 || minis == 0 || minis > bytes.len() as u64 {
        return Some((declared, &[]));
    }
    let in_mini = block / minis;
    let mut left = declared.saturating_sub(1);
    while left > 0 {
        // The library finds the list cut off at the same place, after it has allocated memory by
        // the declared number.
        let widths = varint(bytes, &mut at).and_then(|_| {
            let minis = usize::try_from(minis).ok()?;
            bytes.get(at..at.checked_add(minis)?)
        });
        let Some(widths) = widths else { return Some((declared, &[])) };
        at += widths.len();
        for &width in widths {
            if left == 0 {
                break;
            }
            let bits = u64::from(width).saturating_mul(in_mini);
            at = at.saturating_add(usize::try_from(bits / 8).unwrap_or(usize::MAX));
            left = left.saturating_sub(in_mini.max(1));
        }
    }
    Some((declared, bytes.get(at..).unwrap_or_default()))
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.check_next()?;
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check_page(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.check_next()?;
        self.pages.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_rows_are_counted_with_all_bytes_of_their_pages() {
        let pages = [(10, 5), (1, 900), (1, 800), (1, 7), (20, 6)];
        for (rows, expected) in [(1, 900), (2, 1_700), (3, 1_707), (4, 1_713), (5, 1_718)] {
            assert_eq!(bytes_of_rows_max(&pages, rows), expected, "{rows}");
        }
        assert_eq!(bytes_of_rows_max(&pages, 1_000), 1_718);
        assert_eq!(bytes_of_rows_max(&[], 7), 0);
        assert_eq!(bytes_of_rows_max(&[(4_000, 3)], 4_096), 3);
    }

    #[test]
    fn lists_of_deltas_cannot_declare_more_values_than_the_page() {
        // Blocks of 128 in 4, two values, the first of them 1; one block of widths 0.
        let list = [0x80, 0x01, 4, 2, 2, 0, 0, 0, 0, 0];
        assert_eq!(delta_list(&list), Some((2, &[][..])));
        assert!(are_deltas_possible(&list, 1, 2));
        assert!(!are_deltas_possible(&list, 1, 1));
        let twice = [list, list].concat();
        assert!(are_deltas_possible(&twice, 2, 2));
        // The second list declares terabytes of lengths.
        let huge = [0x80, 0x01, 4, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0];
        assert!(!are_deltas_possible(&[list, huge].concat(), 2, u64::MAX));
        assert!(are_deltas_possible(&[], 2, 1), "nothing is allocated");
    }
}
