//! Text columns of a segment: numbers of the workers' interners and texts of column buffers become
//! either codes of the segment's own distinct values or the texts one after the other.
//!
//! - segment_build_text-1. All texts of a column of a segment have one form: compressed, if the
//!   texts of one column buffer are and most of the bytes are not in buffers that would not shrink.
//!   Equal texts are equal in either form, so they are compared without being decompressed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use tidegate_model::ColumnType;
use tidegate_storage::segment::encode::ColumnEncoder;
use tidegate_storage::segment::intern::{INTERNED_BYTES_MAX, Interner};
use tidegate_storage::segment::strings::{DictionaryRows, StringCompressor, StringRows, TextForm};

use super::gather::{Encoder, Unpacked};
use super::{BuildJob, Part};
use crate::error::{Error, Result};
use crate::layout::{BUFFER_TEXT_MAX, ColumnLayout};
use crate::packed::{PackedTexts, SlotCode};

/// The number of texts that are not interned after which a dictionary is given up.
const TRIAL_ROWS: usize = 65_536;

/// The rows as numbers of distinct texts.
struct Distinct {
    ids: Vec<u32>,
    validity: Option<Vec<u64>>,
}

/// The statistics of a text column in the segments of an import: one segment is searched for
/// distinct texts, and later ones from time to time.
#[derive(Debug, Default)]
pub(crate) struct TextHistory {
    /// The number of segments encoded without a search for distinct texts since the last search.
    plain_segments: AtomicU32,
    /// True if the last segment that was searched was smaller without a dictionary.
    is_plain: AtomicBool,
}

/// The number of segments that are encoded plainly before distinct texts are searched again.
const PLAIN_SEGMENTS: u32 = 16;

impl TextHistory {
    fn is_worth_a_look(&self) -> bool {
        !self.is_plain.load(Relaxed)
            || self.plain_segments.fetch_add(1, Relaxed) % PLAIN_SEGMENTS == PLAIN_SEGMENTS - 1
    }
}

impl Encoder<'_> {
    pub(super) fn text_column(
        &mut self,
        parts: &[Part],
        rows: usize,
        column: usize,
        encoder: &mut ColumnEncoder,
    ) -> Result<()> {
        let layout = &self.job.buckets.layout.columns[column];
        let is_symbol = layout.column.ty == ColumnType::Symbol;
        let history = &self.job.histories[column];
        let compressor = &self.job.buckets.compressors[column];
        let texts = TextRows::new(self.job, parts, rows, column);
        let form = texts.form;
        if is_symbol || history.is_worth_a_look() {
            let distinct = texts.distinct(is_symbol, &mut self.unpacked, &mut self.interner);
            if is_symbol && distinct.is_none() {
                let column = layout.column.name.clone();
                return Err(Error::TooManySymbols { column });
            }
            let values = self.interner.texts().collect::<Vec<_>>();
            let rows = distinct.as_ref().map(|Distinct { ids, validity }| {
                let validity = validity.as_deref();
                DictionaryRows { ids, values: &values, form, validity }
            });
            // Its values are sorted as uncompressed texts.
            let bytes_max = self.job.shares.distinct_max();
            let fits = || form == TextForm::Raw || compressor.has_at_most(&values, bytes_max);
            let wanted = rows.filter(|rows| is_symbol || rows.pays_off() && fits());
            history.is_plain.store(wanted.is_none(), Relaxed);
            if let Some(rows) = wanted {
                if is_symbol {
                    let symbols = self.job.txn.intern(layout.column.id, &values)?;
                    encoder.push_symbols(rows, &symbols);
                } else {
                    encoder.push_dictionary(rows, compressor);
                }
                return Ok(());
            }
        }
        let interned = texts.interned(&mut self.unpacked);
        let (texts, validity) = texts.plain(&interned, &mut self.unpacked);
        let rows = StringRows { texts: &texts, form, validity: validity.as_deref() };
        encoder.push_strings(rows, compressor);
        Ok(())
    }
}

/// The rows of a text column.
struct TextRows<'a> {
    job: &'a BuildJob<'a>,
    parts: &'a [Part],
    rows: usize,
    column: usize,
    /// The form of all texts when they are handed over (segment_build_text-1).
    form: TextForm,
    /// For each part, the texts of this column in its column buffers, in `form`.
    buffers: Vec<Vec<BufferTexts<'a>>>,
}

/// The texts of a column in a column buffer, and the worker whose interner its numbers refer to.
struct BufferTexts<'a> {
    worker: usize,
    texts: Cow<'a, PackedTexts>,
}

/// For each worker, the texts of its interner that occur in a column.
struct InternedTexts {
    places: Vec<Vec<(u32, u32)>>,
    bytes: Vec<u8>,
}

impl<'a> TextRows<'a> {
    fn new(job: &'a BuildJob<'a>, parts: &'a [Part], rows: usize, column: usize) -> TextRows<'a> {
        let text = text_index(&job.buckets.layout.columns[column]);
        let compressor = &job.buckets.compressors[column];
        let all = || parts.iter().flat_map(|part| part.bucket.buffers()).map(|s| &s.texts[text]);
        let bytes_in = |form: TextForm| {
            let buffers = all().filter(|texts| texts.form == form && !texts.ends.is_empty());
            buffers.map(|texts| texts.plain_bytes(compressor)).sum::<usize>()
        };
        let is_compressed = all().any(|texts| texts.form == TextForm::Compressed);
        let form = match is_compressed {
            true if bytes_in(TextForm::Raw) <= bytes_in(TextForm::Compressed) => {
                TextForm::Compressed
            }
            _ => TextForm::Raw,
        };
        let in_form = |texts: &'a PackedTexts| match (form == texts.form, form) {
            _ if texts.ends.is_empty() => Cow::Borrowed(texts),
            (true, _) => Cow::Borrowed(texts),
            (_, TextForm::Compressed) => Cow::Owned(texts.compressed(compressor)),
            (_, TextForm::Raw) => Cow::Owned(texts.raw(compressor)),
        };
        let buffers_of = |part: &'a Part| {
            let buffers = part.bucket.buffers();
            let of = buffers.map(|buffer| BufferTexts {
                worker: buffer.worker as usize,
                texts: in_form(&buffer.texts[text]),
            });
            of.collect()
        };
        TextRows { job, parts, rows, column, form, buffers: parts.iter().map(buffers_of).collect() }
    }

    /// Calls `step` with every row, in the order of the segment.
    fn each<'b>(
        &'b self,
        unpacked: &mut Unpacked,
        mut step: impl FnMut(usize, &'b BufferTexts<'a>, SlotCode),
    ) {
        let layout = &self.job.buckets.layout.columns[self.column];
        let mut row = 0;
        for (part, buffers) in self.parts.iter().zip(&self.buffers) {
            let codes = unpacked.column(&part.bucket, self.column, layout).as_chunks::<4>().0;
            let bits = part.bucket.row_bits();
            for &place in part.bucket.order(part.start, part.end) {
                let code = SlotCode::decode(u32::from_le_bytes(codes[place as usize]));
                step(row, &buffers[(place >> bits) as usize], code);
                row += 1;
            }
        }
    }

    fn compressor(&self) -> &'a StringCompressor {
        &self.job.buckets.compressors[self.column]
    }

    fn interner(&self, worker: usize) -> &'a Interner {
        let layout = &self.job.buckets.layout.columns[self.column];
        &self.job.interners[worker][text_index(layout)]
    }

    /// Appends a text of an interner to `out`, in the common form.
    fn append_interned(&self, worker: usize, number: u32, out: &mut Vec<u8>) {
        let text = self.interner(worker).text(number);
        match self.form {
            TextForm::Raw => out.extend_from_slice(text),
            TextForm::Compressed => self.compressor().compress(&[text], out, &mut Vec::new()),
        }
    }

    /// For each worker, a copy of `value` for each number of its interner.
    fn known<T: Clone>(&self, value: &T) -> Vec<Vec<T>> {
        let workers = 0..self.job.interners.len();
        workers.map(|worker| vec![value.clone(); self.interner(worker).len()]).collect()
    }

    /// The interned texts that occur in rows.
    fn interned(&self, unpacked: &mut Unpacked) -> InternedTexts {
        const NOWHERE: (u32, u32) = (u32::MAX, 0);
        let mut interned = InternedTexts { places: self.known(&NOWHERE), bytes: Vec::new() };
        self.each(unpacked, |_, buffer, code| {
            if let SlotCode::Interned(number) = code {
                let InternedTexts { places, bytes } = &mut interned;
                let place = &mut places[buffer.worker][number as usize];
                if *place == NOWHERE {
                    let narrow = |at: usize| u32::try_from(at).expect("INTERNED_BYTES_MAX");
                    let start = narrow(bytes.len());
                    self.append_interned(buffer.worker, number, bytes);
                    *place = (start, narrow(bytes.len()));
                }
            }
        });
        interned
    }

    /// Every row's text; a NULL is empty.
    fn plain<'b>(
        &'b self,
        interned: &'b InternedTexts,
        unpacked: &mut Unpacked,
    ) -> (Vec<&'b [u8]>, Option<Vec<u64>>) {
        let mut validity = Validity::new(self.rows);
        let mut texts: Vec<&[u8]> = Vec::with_capacity(self.rows);
        self.each(unpacked, |row, buffer, code| {
            texts.push(match code {
                SlotCode::Null => {
                    validity.set_null(row);
                    &[]
                }
                SlotCode::Own(index) => buffer.texts.text(index),
                SlotCode::Interned(number) => interned.text(buffer.worker, number),
            });
        });
        (texts, validity.finish())
    }

    /// Every row as a number of a distinct text, which `interner` holds afterwards; `None` if there
    /// are too many distinct texts, which cannot happen with `always`.
    ///
    /// Rows are read in the order of their column buffers, and the numbers are put in order
    /// afterwards.
    fn distinct(
        &self,
        always: bool,
        unpacked: &mut Unpacked,
        interner: &mut Interner,
    ) -> Option<Distinct> {
        interner.clear();
        // For each worker, the numbers here of the numbers of its interner.
        let known = self.known(&UNKNOWN);
        let bytes_max = if always { usize::MAX } else { self.job.shares.distinct_max() };
        let (text, own, rows) = (Vec::new(), 0, 0);
        let is_over = false;
        let mut search =
            Search { texts: self, interner, known, text, own, rows, bytes_max, is_over };
        let layout = &self.job.buckets.layout.columns[self.column];
        let mut validity = Validity::new(self.rows);
        let mut ids = Vec::with_capacity(self.rows);
        let mut of_places = Vec::new();
        for (part, buffers) in self.parts.iter().zip(&self.buffers) {
            let codes = unpacked.column(&part.bucket, self.column, layout).as_chunks::<4>().0;
            let places = part.bucket.order(part.start, part.end);
            of_places.clear();
            of_places.resize(codes.len(), 0);
            let bits = part.bucket.row_bits();
            for (number, buffer) in buffers.iter().enumerate() {
                let first = number << bits;
                let rows = part.bucket.buffer_rows(number);
                let ids = &mut of_places[first..first + rows];
                // A part of a bucket may lack some of the texts.
                let wanted =
                    (places.len() < part.bucket.rows()).then(|| wanted(places, first, rows));
                search.buffer(buffer, &codes[first..first + rows], ids, wanted.as_deref());
                let is_many =
                    search.own >= TRIAL_ROWS && search.interner.len() * 10 > search.rows * 9;
                if search.is_full() || !always && (is_many || search.is_over) {
                    return None;
                }
            }
            for &place in places {
                let id = of_places[place as usize];
                if id == NULL_ID {
                    validity.set_null(ids.len());
                }
                ids.push(if id == NULL_ID { 0 } else { id });
            }
        }
        Some(Distinct { ids, validity: validity.finish() })
    }
}

/// The number is not assigned yet.
const UNKNOWN: u32 = u32::MAX;
/// The row is NULL.
const NULL_ID: u32 = u32::MAX - 1;

/// For each row of a column buffer, true if it is among these positions.
fn wanted(places: &[u32], first: usize, rows: usize) -> Vec<bool> {
    let mut wanted = vec![false; rows];
    for &place in places {
        if let Some(is_wanted) =
            (place as usize).checked_sub(first).and_then(|at| wanted.get_mut(at))
        {
            *is_wanted = true;
        }
    }
    wanted
}

/// The state of the search for distinct texts.
struct Search<'a, 'b> {
    texts: &'a TextRows<'b>,
    interner: &'a mut Interner,
    known: Vec<Vec<u32>>,
    text: Vec<u8>,
    /// The number of texts that were not interned before.
    own: usize,
    rows: usize,
    /// The bytes of texts above which there is no dictionary, unless they are symbols.
    bytes_max: usize,
    is_over: bool,
}

impl Search<'_, '_> {
    /// The numbers of a column buffer's rows.
    fn buffer(
        &mut self,
        buffer: &BufferTexts<'_>,
        codes: &[[u8; 4]],
        ids: &mut [u32],
        wanted: Option<&[bool]>,
    ) {
        let Search { texts, interner, known, text, own, rows, bytes_max, is_over } = self;
        let known = &mut known[buffer.worker];
        for (row, (id, code)) in ids.iter_mut().zip(codes).enumerate() {
            if wanted.is_some_and(|wanted| !wanted[row]) {
                continue;
            }
            *rows += 1;
            *id = match SlotCode::decode(u32::from_le_bytes(*code)) {
                SlotCode::Null => NULL_ID,
                SlotCode::Interned(number) => {
                    let id = &mut known[number as usize];
                    if *id == UNKNOWN {
                        text.clear();
                        texts.append_interned(buffer.worker, number, text);
                        *id = interner.intern(text).unwrap_or(UNKNOWN);
                    }
                    *id
                }
                SlotCode::Own(index) => {
                    *own += 1;
                    let text = buffer.texts.text(index);
                    *is_over |= text.len() > bytes_max.saturating_sub(interner.text_bytes());
                    if *is_over { UNKNOWN } else { interner.intern(text).unwrap_or(UNKNOWN) }
                }
            };
        }
    }

    /// Returns true if the next column buffer may have more texts than the numbers allow.
    fn is_full(&self) -> bool {
        self.interner.text_bytes() > DISTINCT_BYTES_MAX
    }
}

/// The limit that leaves room for the text of the next column buffer, within the limit of an
/// `Interner`.
const DISTINCT_BYTES_MAX: usize = INTERNED_BYTES_MAX - BUFFER_TEXT_MAX;

fn text_index(layout: &ColumnLayout) -> usize {
    layout.text.expect("a text column")
}

impl InternedTexts {
    fn text(&self, worker: usize, number: u32) -> &[u8] {
        let (start, end) = self.places[worker][number as usize];
        &self.bytes[start as usize..end as usize]
    }
}

/// A bitmap that is created at the first NULL.
struct Validity {
    rows: usize,
    words: Vec<u64>,
}

impl Validity {
    fn new(rows: usize) -> Validity {
        Validity { rows, words: Vec::new() }
    }

    fn set_null(&mut self, row: usize) {
        if self.words.is_empty() {
            self.words = vec![u64::MAX; self.rows.div_ceil(64)];
        }
        self.words[row / 64] &= !(1 << (row % 64));
    }

    fn finish(self) -> Option<Vec<u64>> {
        (!self.words.is_empty()).then_some(self.words)
    }
}
