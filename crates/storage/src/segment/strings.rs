//! Encoding of string columns: a dictionary of codes, symbols, or contiguous strings.
//!
//! - strings-1. A dictionary is sorted by bytes and every value is used: codes compare like the
//!   strings.
//! - strings-2. Strings are compressed (FSST, each on its own) only where that saves a tenth or
//!   more: of a page frame or dictionary, or, if the caller passes them already compressed, of the
//!   strings that the column's table was trained on.
//! - strings-3. A compressor holds at most `COMPRESSOR_BYTES` of strings or tables, and those that
//!   share a [`CompressorCount`] are no more than that: a table has up to thousands of columns.
//!
//! Not here: finding the distinct values, which the owner of the rows does (`intern`).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_model::layout::{DictionaryFooter, DictionaryKind, Encoding, FrameFooter, Zone};
use tidegate_model::{SymbolId, limits};

use super::encode::kernels::{append_codes_by, code_width, frame_footer, has_null, is_valid};
use super::encode::zones::{code_zone, prefix, string_zone};
use super::encode::{ColumnEncoder, FRAME_ROWS, Validity, ZONE_ROWS};
use super::fsst::{Decoder, Encoder, SYMBOL_BYTES};

/// Bytes below which a table of two kilobytes does not pay off.
const COMPRESSED_FROM_BYTES: usize = 16 << 10;

/// Compressor for the strings of one column of one import: trained once, on the first strings that
/// are enough, because a column is similar in all segments.
#[derive(Debug, Default)]
pub struct StringCompressor {
    /// `None` if the strings it was trained on shrank by less than a tenth (strings-2).
    trained: OnceLock<Option<Trained>>,
    /// Strings of several callers, collected until they are enough for training.
    collected: Mutex<Collected>,
    is_off: bool,
    /// The compressors that may still begin; `None` if there is no limit (strings-3).
    count: Option<CompressorCount>,
    /// True if it may collect strings; undecided until there are some.
    has_begun: OnceLock<bool>,
}

/// Approximate maximal memory of a compressor: strings for training, and later a table.
pub const COMPRESSOR_BYTES: usize = 256 << 10;

/// The number of compressors that may still begin; clones are the same number (strings-3).
#[derive(Debug, Clone)]
pub struct CompressorCount(Arc<AtomicUsize>);

impl CompressorCount {
    /// So many compressors as take at most this much memory, but at least one.
    #[must_use]
    pub fn within(bytes: u64) -> CompressorCount {
        let count = usize::try_from(bytes).unwrap_or(usize::MAX) / COMPRESSOR_BYTES;
        CompressorCount(Arc::new(AtomicUsize::new(count.max(1))))
    }

    fn begin(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)).is_ok()
    }

    fn end(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Strings one after the other.
#[derive(Debug, Default)]
struct Collected {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Collected {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(offset(self.bytes.len()));
    }

    /// The memory of the strings: short ones are few bytes, but many.
    fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<u32>()
    }

    fn texts(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let text = |(start, &end): (u32, &u32)| &self.bytes[start as usize..end as usize];
        starts.zip(&self.ends).map(text).collect()
    }
}

#[derive(Debug)]
struct Trained {
    /// `None` if the table came from a segment: then strings are compressed already.
    encoder: Option<Encoder>,
    decoder: Decoder,
    /// The bytes of the table (fsst-1).
    table: Vec<u8>,
}

/// The form in which strings are passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// Uncompressed.
    Raw,
    /// Compressed by the column's [`StringCompressor`].
    Compressed,
}

/// Rows as strings.
#[derive(Debug, Clone, Copy)]
pub struct StringRows<'a> {
    /// One string for each row; that of a NULL must be empty.
    pub texts: &'a [&'a [u8]],
    /// The form of all strings.
    pub form: TextForm,
    /// The validity of all rows.
    pub validity: Validity<'a>,
}

/// Rows as indexes of distinct values.
#[derive(Debug, Clone, Copy)]
pub struct DictionaryRows<'a> {
    /// One index of `values` for each row; that of a NULL is ignored.
    pub ids: &'a [u32],
    /// The distinct values; each is used by a row that is not NULL.
    pub values: &'a [&'a [u8]],
    /// The form of all values.
    pub form: TextForm,
    /// The validity of all rows.
    pub validity: Validity<'a>,
}

impl DictionaryRows<'_> {
    /// Returns true if a dictionary is so much smaller than the strings that sorting it pays off.
    /// Offsets of values have four bytes, like those of strings.
    #[must_use]
    pub fn pays_off(&self) -> bool {
        if self.values.len() * 2 <= self.ids.len() {
            return true;
        }
        let distinct: usize = self.values.iter().map(|text| text.len()).sum();
        let values = self.ids.iter().filter_map(|&id| self.values.get(id as usize));
        let all: usize = values.map(|value| value.len()).sum();
        distinct * 4 <= all * 3
    }
}

impl StringCompressor {
    /// A compressor that compresses nothing.
    #[must_use]
    pub fn never() -> StringCompressor {
        StringCompressor { is_off: true, ..StringCompressor::default() }
    }

    /// A compressor that compresses nothing if too many others have begun (strings-3).
    #[must_use]
    pub fn counted(count: &CompressorCount) -> StringCompressor {
        StringCompressor { count: Some(count.clone()), ..StringCompressor::default() }
    }

    /// A compressor for strings that a segment has compressed with this table; `None` if it is not
    /// a table. Only such strings can be passed as [`TextForm::Compressed`].
    pub(crate) fn of_table(table: &[u8]) -> Option<StringCompressor> {
        let decoder = Decoder::new(table)?;
        let table = table.to_vec();
        let trained = OnceLock::from(Some(Trained { encoder: None, decoder, table }));
        Some(StringCompressor { trained, ..StringCompressor::never() })
    }

    /// Returns true if it is still to be trained by calls of `is_worthwhile`.
    pub(crate) fn is_to_be_trained(&self) -> bool {
        self.trained.get().is_none() && self.begin()
    }

    /// Returns true if it may hold strings or a table (strings-3).
    fn begin(&self) -> bool {
        let begin = || self.count.as_ref().is_none_or(CompressorCount::begin);
        !self.is_off && *self.has_begun.get_or_init(begin)
    }

    /// Trains a table; one that is not worthwhile is not kept.
    fn train(&self, texts: &[&[u8]]) -> Option<&Trained> {
        let train = || {
            let trained = Trained::new(texts);
            if trained.is_none() {
                self.count.iter().for_each(CompressorCount::end);
            }
            trained
        };
        self.trained.get_or_init(train).as_ref()
    }

    /// Returns true if strings like these should be compressed. Until the strings of enough calls
    /// were collected to train a table that represents the column, it returns false.
    pub fn is_worthwhile(&self, texts: &[&[u8]]) -> bool {
        if let Some(trained) = self.trained.get() {
            return trained.is_some();
        }
        if !self.begin() {
            return false;
        }
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        let step = (bytes / COLLECTED_AT_ONCE_BYTES).max(1);
        // One string may be longer than the whole sample.
        for text in texts.iter().step_by(step) {
            if COLLECTED_BYTES <= collected.memory_bytes() {
                break;
            }
            collected.push(&text[..text.len().min(COLLECTED_BYTES)]);
        }
        if collected.memory_bytes() < COLLECTED_BYTES {
            return false;
        }
        let texts = std::mem::take(&mut *collected);
        self.train(&texts.texts()).is_some()
    }

    /// Returns true if these strings shrink: the table was trained on others, which may be very
    /// different, and then they get up to twice as large. Of many bytes a sample is compressed,
    /// spread over all.
    ///
    /// # Panics
    /// As `compress`.
    #[must_use]
    pub fn shrinks(&self, texts: &[&[u8]]) -> bool {
        self.table().shrinks(texts)
    }

    /// Appends the compressed form of every string, and its end in `out` to `ends`.
    ///
    /// # Panics
    /// If it was not trained: [`is_worthwhile`](Self::is_worthwhile) returns true only if it was.
    pub fn compress(&self, texts: &[&[u8]], out: &mut Vec<u8>, ends: &mut Vec<u64>) {
        self.table().encoder().compress(texts, out, ends);
    }

    /// Appends the decompressed form of a compressed string.
    ///
    /// # Panics
    /// As `compress`.
    pub fn decompress(&self, compressed: &[u8], out: &mut Vec<u8>) {
        self.table().decoder.decompress(compressed, out);
    }

    /// The length of contiguous compressed strings after decompression.
    ///
    /// # Panics
    /// As `compress`.
    #[must_use]
    pub fn plain_bytes(&self, compressed: &[u8]) -> usize {
        self.table().decoder.plain_bytes(compressed)
    }

    /// Returns true if compressed strings have at most `bytes_max` bytes together after
    /// decompression.
    ///
    /// # Panics
    /// As `compress`.
    #[must_use]
    pub fn has_at_most(&self, compressed: &[&[u8]], bytes_max: usize) -> bool {
        let all: usize = compressed.iter().map(|text| text.len()).sum();
        if all.saturating_mul(SYMBOL_BYTES) <= bytes_max {
            return true;
        }
        let decoder = &self.table().decoder;
        let plain: usize = compressed.iter().map(|text| decoder.plain_bytes(text)).sum();
        plain <= bytes_max
    }

    /// The table, trained on these strings if there is none yet and they are enough; `None` if it
    /// is not worthwhile.
    fn trained(&self, texts: &[&[u8]]) -> Option<&Trained> {
        if let Some(trained) = self.trained.get() {
            return trained.as_ref();
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        let is_enough = bytes >= COMPRESSED_FROM_BYTES && self.begin();
        is_enough.then(|| self.train(texts)).flatten()
    }

    fn table(&self) -> &Trained {
        self.trained.get().and_then(Option::as_ref).expect("it is trained")
    }
}

/// Bytes collected for training: in total with the ends of the strings, and of one call.
const COLLECTED_BYTES: usize = 112 << 10;
const COLLECTED_AT_ONCE_BYTES: usize = 6 << 10;

/// Number of tables that are tried, each trained on other strings: the algorithm samples few, and
/// one table is up to a tenth better than another.
const CANDIDATES: usize = 4;

impl Trained {
    /// The best table for these strings; `None` if they shrink by less than a tenth (strings-2).
    fn new(texts: &[&[u8]]) -> Option<Trained> {
        // Repeated strings will be in a dictionary, once.
        let mut distinct = trained_on(texts);
        distinct.sort_unstable();
        distinct.dedup();
        let plain_bytes: usize = distinct.iter().map(|text| text.len()).sum();
        let is_enough = plain_bytes >= CANDIDATES * COMPRESSED_FROM_BYTES;
        let candidates = if is_enough { CANDIDATES } else { 1 };
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let candidate = |number: usize| {
            let count = distinct.len().saturating_sub(number).div_ceil(candidates);
            let encoder = Encoder::train(count, |index| distinct[index * candidates + number]);
            bytes.clear();
            ends.clear();
            encoder.compress(&distinct, &mut bytes, &mut ends);
            (bytes.len(), encoder)
        };
        let tried = (0..candidates).map(candidate).min_by_key(|&(bytes, _)| bytes);
        let (bytes, encoder) = tried.expect("one at least");
        let table = encoder.table();
        let decoder = Decoder::new(&table).expect("fsst-1");
        let is_worthwhile = bytes <= plain_bytes - plain_bytes / 10;
        is_worthwhile.then_some(Trained { encoder: Some(encoder), decoder, table })
    }

    /// As `StringCompressor::shrinks`; returns true for few bytes.
    fn shrinks(&self, texts: &[&[u8]]) -> bool {
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if bytes < SHRUNK_FROM_BYTES {
            return true;
        }
        let stride = bytes / SHRUNK_SAMPLES;
        let (mut sample, mut start, mut next) = (Vec::new(), 0, 0);
        for text in texts {
            while next < start + text.len() {
                let at = next - start;
                sample.push(&text[at..text.len().min(at + SHRUNK_SAMPLE_BYTES)]);
                next += stride;
            }
            start += text.len();
        }
        let plain_bytes: usize = sample.iter().map(|text| text.len()).sum();
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        self.encoder().compress(&sample, &mut bytes, &mut ends);
        bytes.len() <= plain_bytes - plain_bytes / 10
    }

    fn encoder(&self) -> &Encoder {
        self.encoder.as_ref().expect("the table was trained here")
    }
}

/// Strings for training a table: all of them, or at most `TRAINED_BYTES_MAX` spread over them.
fn trained_on<'a>(texts: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let step = bytes.div_ceil(TRAINED_BYTES_MAX).clamp(1, texts.len().max(1));
    let begun = |text: &&'a [u8]| match bytes <= TRAINED_BYTES_MAX {
        true => *text,
        false => &text[..text.len().min(COLLECTED_BYTES)],
    };
    texts.iter().step_by(step).map(begun).collect()
}

/// Bytes from which a sample of the strings is compressed first, and the number of its parts.
const SHRUNK_FROM_BYTES: usize = 1 << 20;
const SHRUNK_SAMPLES: usize = 64;
const SHRUNK_SAMPLE_BYTES: usize = 1 << 10;

/// Each candidate compresses these bytes once, to measure its size.
const TRAINED_BYTES_MAX: usize = 16 << 20;

/// A compressed or plain list of strings.
struct Packed {
    offsets: Vec<u32>,
    bytes: Vec<u8>,
    compressed: bool,
}

impl ColumnEncoder {
    /// Encodes the whole column as codes of its distinct values.
    ///
    /// # Panics
    /// If an id is not one of `values`.
    pub fn push_dictionary(&mut self, rows: DictionaryRows<'_>, compressor: &StringCompressor) {
        if rows.values.is_empty() {
            return self.push_null_frames(rows.ids.len());
        }
        let mut raw = RawTexts::default();
        let texts = match rows.form {
            TextForm::Raw => rows.values.to_vec(),
            TextForm::Compressed => raw.of(rows.values, compressor),
        };
        let order = text_order(&texts);
        let sorted: Vec<&[u8]> = order.iter().map(|&id| texts[id as usize]).collect();
        let packed = match rows.form {
            TextForm::Raw => pack(&sorted, compressor),
            TextForm::Compressed => {
                let plain_bytes: usize = sorted.iter().map(|text| text.len()).sum();
                let bytes: usize = rows.values.iter().map(|text| text.len()).sum();
                if plain_bytes >= COMPRESSED_FROM_BYTES && bytes <= plain_bytes - plain_bytes / 10 {
                    let sorted = order.iter().map(|&id| rows.values[id as usize]);
                    Packed { compressed: true, ..Packed::of(sorted, order.len(), bytes) }
                } else {
                    Packed::of(sorted.iter().copied(), sorted.len(), plain_bytes)
                }
            }
        };
        if packed.compressed {
            let table = &compressor.table().table;
            self.footer.string_table = self.append_region(|bytes, _| bytes.extend(table));
        }
        let region = self.append_region(|bytes, _| packed.append(bytes));
        let count = u32::try_from(sorted.len()).expect("limits::SEGMENT_ROWS");
        let kind = DictionaryKind::Strings;
        self.footer.dictionary = Some(DictionaryFooter { kind, count, region });
        self.push_code_frames(rows, &order);
    }

    /// Encodes the whole column as codes of symbols; `symbols[i]` is the id of `rows.values[i]`.
    ///
    /// # Panics
    /// As `push_dictionary`.
    pub fn push_symbols(&mut self, rows: DictionaryRows<'_>, symbols: &[SymbolId]) {
        assert_eq!(rows.values.len(), symbols.len(), "a symbol for every value");
        assert_eq!(rows.form, TextForm::Raw, "symbols are looked up by their text");
        if rows.values.is_empty() {
            return self.push_null_frames(rows.ids.len());
        }
        let order = text_order(rows.values);
        let region = self.append_region(|bytes, _| {
            for &id in &order {
                bytes.extend_from_slice(&symbols[id as usize].0.to_le_bytes());
            }
        });
        let count = u32::try_from(order.len()).expect("limits::SEGMENT_ROWS");
        let kind = DictionaryKind::Symbols;
        self.footer.dictionary = Some(DictionaryFooter { kind, count, region });
        self.push_code_frames(rows, &order);
    }

    /// Encodes the whole column string by string.
    ///
    /// # Panics
    /// If a page frame has more than 4 GiB of strings, which callers prevent by ending segments
    /// earlier.
    pub fn push_strings(&mut self, rows: StringRows<'_>, compressor: &StringCompressor) {
        for (index, texts) in rows.texts.chunks(FRAME_ROWS).enumerate() {
            let validity = frame_validity(rows.validity, index, texts.len());
            self.push_string_rows(StringRows { texts, validity, ..rows }, compressor);
        }
        self.end_strings(compressor);
    }

    /// Encodes the strings of a page frame; `end_strings` follows the last one.
    pub(crate) fn push_string_rows(&mut self, rows: StringRows<'_>, compressor: &StringCompressor) {
        let count = rows.texts.len();
        assert!(count <= FRAME_ROWS, "frame-1");
        let frame = if (0..count).all(|row| !is_valid(rows.validity, row)) {
            self.push_null(count)
        } else {
            let validity = rows.validity.filter(|words| has_null(words, count));
            self.push_string_frame(StringRows { validity, ..rows }, compressor)
        };
        self.footer.frames.push(frame);
    }

    /// Ends a column of strings.
    pub(crate) fn end_strings(&mut self, compressor: &StringCompressor) {
        if let Some(Some(trained)) = compressor.trained.get() {
            self.footer.string_table = self.append_region(|bytes, _| bytes.extend(&trained.table));
        }
    }

    fn push_string_frame(
        &mut self,
        rows: StringRows<'_>,
        compressor: &StringCompressor,
    ) -> FrameFooter {
        let StringRows { texts, form, validity } = rows;
        for (index, zone) in texts.chunks(ZONE_ROWS).enumerate() {
            self.push_zone(match form {
                TextForm::Raw => string_zone(zone, validity, index, prefix),
                TextForm::Compressed => {
                    let decoder = &compressor.table().decoder;
                    string_zone(zone, validity, index, |text| decoder.prefix(text))
                }
            });
        }
        let start = self.begin_frame(texts.len(), validity);
        let is_compressed = match form {
            TextForm::Raw => append_compressed(texts, compressor, &mut self.bytes),
            TextForm::Compressed => {
                append_texts(texts, &mut self.bytes);
                true
            }
        };
        let frame = FrameFooter {
            has_validity: validity.is_some(),
            // The scale of a string frame is 1 if its strings are compressed.
            scale: is_compressed.into(),
            ..frame_footer(Encoding::Strings)
        };
        self.end_frame(start, frame)
    }

    fn push_null_frames(&mut self, rows: usize) {
        let mut left = rows;
        while left > 0 {
            let frame = self.push_null(left.min(FRAME_ROWS));
            self.footer.frames.push(frame);
            left -= left.min(FRAME_ROWS);
        }
        self.footer.bounds = Zone { has_null: rows > 0, ..Zone::EMPTY };
    }

    fn push_code_frames(&mut self, rows: DictionaryRows<'_>, order: &[u32]) {
        let mut ranks = vec![0_u32; order.len()];
        for (rank, &id) in order.iter().enumerate() {
            ranks[id as usize] = u32::try_from(rank).expect("limits::SEGMENT_ROWS");
        }
        let width = code_width(order.len() as u64 - 1);
        let mut codes = Vec::with_capacity(FRAME_ROWS.min(rows.ids.len()));
        let mut used = vec![false; order.len()];
        for (index, ids) in rows.ids.chunks(FRAME_ROWS).enumerate() {
            let validity = frame_validity(rows.validity, index, ids.len());
            codes.clear();
            match validity {
                None => codes.extend(ids.iter().map(|&id| ranks[id as usize])),
                Some(_) => codes.extend(ids.iter().enumerate().map(|(row, &id)| {
                    if is_valid(validity, row) { ranks[id as usize] } else { 0 }
                })),
            }
            for (zone, codes) in codes.chunks(ZONE_ROWS).enumerate() {
                self.push_zone(code_zone(codes, validity, zone));
            }
            if cfg!(debug_assertions) {
                for (row, &code) in codes.iter().enumerate() {
                    used[code as usize] |= is_valid(validity, row);
                }
            }
            let frame = self.push_codes(&codes, validity, width);
            self.footer.frames.push(frame);
        }
        debug_assert!(used.iter().all(|&used| used), "strings-1");
        let last = u64::try_from(order.len() - 1).expect("a count");
        self.footer.bounds = Zone {
            has_null: self.footer.null_count > 0,
            has_value: true,
            has_nan: false,
            min: last << 32,
            max: if last >= 63 { u64::MAX } else { (1 << (last + 1)) - 1 },
        };
    }

    fn push_codes(&mut self, codes: &[u32], validity: Validity<'_>, width: u8) -> FrameFooter {
        if (0..codes.len()).all(|row| !is_valid(validity, row)) {
            self.footer.null_count += codes.len() as u64;
            return frame_footer(Encoding::Null);
        }
        let start = self.begin_frame(codes.len(), validity);
        let frame =
            FrameFooter { has_validity: validity.is_some(), ..frame_footer(Encoding::Dictionary) };
        let first = (0..codes.len()).find(|&row| is_valid(validity, row)).expect("one is valid");
        let code = codes[first];
        if (first..codes.len()).all(|row| codes[row] == code || !is_valid(validity, row)) {
            return self.end_frame(start, FrameFooter { base: code.into(), ..frame });
        }
        append_codes_by(codes, width, &mut self.bytes);
        self.end_frame(start, FrameFooter { width, ..frame })
    }
}

/// The validity words of a page frame, if one of its rows is NULL.
fn frame_validity(validity: Validity<'_>, index: usize, rows: usize) -> Validity<'_> {
    let words = &validity?[index * (FRAME_ROWS / 64)..];
    has_null(words, rows).then_some(words)
}

/// The indexes of strings in the order of their bytes.
fn text_order(texts: &[&[u8]]) -> Vec<u32> {
    let mut order: Vec<SortKey> = (0..texts.len())
        .map(|id| SortKey { key: 0, id: u32::try_from(id).expect("limits::SEGMENT_ROWS") })
        .collect();
    sort_from(&mut order, texts, 0);
    order.into_iter().map(|entry| entry.id).collect()
}

/// A string, and eight bytes of it.
#[derive(Clone, Copy)]
struct SortKey {
    key: u64,
    id: u32,
}

/// Depth from which strings are compared as a whole, because few strings agree in so many bytes.
const DEPTH_MAX: usize = 512;

/// Sorts distinct strings that agree in their first `depth` bytes: by their next eight bytes, then
/// those that agree in these as well by the following ones. A string is read once for each level,
/// not once for each comparison.
fn sort_from(entries: &mut [SortKey], texts: &[&[u8]], depth: usize) {
    let rest = |entry: &SortKey| &texts[entry.id as usize][depth..];
    if depth >= DEPTH_MAX {
        return entries.sort_unstable_by_key(rest);
    }
    for entry in entries.iter_mut() {
        entry.key = prefix(rest(entry));
    }
    entries.sort_unstable_by_key(|entry| entry.key);
    for equal in entries.chunk_by_mut(|a, b| a.key == b.key) {
        if equal.len() > 1 {
            // A string that ends here is padded with zeros, so it looks like one that continues
            // with zeros.
            equal.sort_unstable_by_key(|entry| rest(entry).len().min(8));
            let longer = equal.partition_point(|entry| rest(entry).len() < 8);
            sort_from(&mut equal[longer..], texts, depth + 8);
        }
    }
}

/// Decompressed strings.
#[derive(Debug, Default)]
struct RawTexts {
    bytes: Vec<u8>,
}

impl RawTexts {
    fn of(&mut self, compressed: &[&[u8]], compressor: &StringCompressor) -> Vec<&[u8]> {
        let decoder = &compressor.table().decoder;
        let mut ends = Vec::with_capacity(compressed.len());
        for text in compressed {
            decoder.decompress(text, &mut self.bytes);
            ends.push(self.bytes.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, &end)| &self.bytes[start..end]).collect()
    }
}

/// Appends strings in the form of `Packed`, without an intermediate copy: they may take most of the
/// available memory.
fn append_texts(texts: &[&[u8]], out: &mut Vec<u8>) {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    // The following bytes are few: reserve room for them, so that large strings are not copied
    // again.
    out.reserve_exact((texts.len() + 1) * 4 + bytes + BEHIND_TEXTS_BYTES);
    let mut end = 0;
    out.extend_from_slice(&offset(end).to_le_bytes());
    for text in texts {
        end += text.len();
        out.extend_from_slice(&offset(end).to_le_bytes());
    }
    for text in texts {
        out.extend_from_slice(text);
    }
}

/// Approximate bytes of a column after the strings of a page frame.
const BEHIND_TEXTS_BYTES: usize = 64 << 10;

/// Appends strings, compressed if that pays off (strings-2); returns true if they are compressed.
fn append_compressed(texts: &[&[u8]], compressor: &StringCompressor, out: &mut Vec<u8>) -> bool {
    let plain_bytes: usize = texts.iter().map(|text| text.len()).sum();
    let trained = compressor.trained(texts);
    let is_enough = plain_bytes >= COMPRESSED_FROM_BYTES;
    if let Some(trained) = trained.filter(|trained| is_enough && trained.shrinks(texts)) {
        let start = out.len();
        let first = start + (texts.len() + 1) * 4;
        out.resize(first, 0);
        let mut ends = Vec::with_capacity(texts.len());
        trained.encoder().compress(texts, out, &mut ends);
        if out.len() - first <= plain_bytes - plain_bytes / 10 {
            for (place, end) in out[start + 4..first].chunks_exact_mut(4).zip(ends) {
                let end = usize::try_from(end).expect("a place in `out`");
                place.copy_from_slice(&offset(end - first).to_le_bytes());
            }
            return true;
        }
        out.truncate(start);
    }
    append_texts(texts, out);
    false
}

fn offset(end: usize) -> u32 {
    u32::try_from(end).expect("a page frame has below 4 GiB of text")
}

/// Packs strings, compressed if that pays off (strings-2).
fn pack(texts: &[&[u8]], compressor: &StringCompressor) -> Packed {
    let plain_bytes: usize = texts.iter().map(|text| text.len()).sum();
    let trained = compressor.trained(texts);
    if let Some(trained) = trained.filter(|_| plain_bytes >= COMPRESSED_FROM_BYTES) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(texts.len() + 1));
        ends.push(0);
        trained.encoder().compress(texts, &mut bytes, &mut ends);
        if bytes.len() <= plain_bytes - plain_bytes / 10 {
            let offsets =
                ends.into_iter().map(|end| offset(usize::try_from(end).expect("in memory")));
            let offsets = offsets.collect();
            return Packed { offsets, bytes, compressed: true };
        }
    }
    Packed::of(texts.iter().copied(), texts.len(), plain_bytes)
}

impl Packed {
    /// The given strings uncompressed; `bytes` is their total length.
    fn of<'a>(texts: impl Iterator<Item = &'a [u8]>, count: usize, bytes: usize) -> Packed {
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0);
        let mut packed = Packed { offsets, bytes: Vec::with_capacity(bytes), compressed: false };
        for text in texts {
            packed.bytes.extend_from_slice(text);
            packed.end_string();
        }
        packed
    }

    fn end_string(&mut self) {
        self.offsets.push(offset(self.bytes.len()));
    }

    fn append(&self, out: &mut Vec<u8>) {
        out.reserve(self.offsets.len() * 4 + self.bytes.len());
        for offset in &self.offsets {
            out.extend_from_slice(&offset.to_le_bytes());
        }
        out.extend_from_slice(&self.bytes);
    }
}

const _: () = assert!(limits::SEGMENT_ROWS.0 < u32::MAX as u64);

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "test values are small")]
mod tests;
