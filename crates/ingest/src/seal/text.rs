//! Text columns of a segment: numbers of the workers' interners and texts of slabs become either
//! codes of the segment's own distinct values or the texts one after the other.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use tidegate_model::ColumnType;
use tidegate_storage::segment::encode::ColumnEncoder;
use tidegate_storage::segment::intern::Interner;
use tidegate_storage::segment::strings::DictionaryRows;

use super::Part;
use super::gather::Encoder;
use crate::error::{Error, Result};
use crate::layout::{INTERNED, NULL_SLOT, Slab};

/// How many texts that are not interned are looked at before a dictionary is given up.
const TRIAL_ROWS: usize = 65_536;

/// Rows as numbers of distinct texts.
struct Distinct<'a> {
    ids: Vec<u32>,
    values: Vec<&'a [u8]>,
    validity: Option<Vec<u64>>,
}

/// What the segments of an import have shown of a text column: the first of them pays for the
/// answer, which is asked again now and then.
#[derive(Debug, Default)]
pub(crate) struct TextHistory {
    /// Segments that were encoded without looking for distinct texts since one was looked at.
    plain_segments: AtomicU32,
    /// Whether the last one that was looked at was better off without a dictionary.
    is_plain: AtomicBool,
}

/// So many segments are encoded plainly before distinct texts are looked for again.
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
        let (history, compressor) = (&self.job.histories[column], &self.job.compressors[column]);
        let texts = TextRows { encoder: self, parts, rows, column };
        if is_symbol || history.is_worth_a_look() {
            let distinct = texts.distinct(is_symbol);
            if is_symbol && distinct.is_none() {
                let column = layout.column.name.clone();
                return Err(Error::TooManySymbols { column });
            }
            let wanted = distinct.filter(|distinct| is_symbol || distinct.pays_off());
            history.is_plain.store(wanted.is_none(), Relaxed);
            if let Some(Distinct { ids, values, validity }) = &wanted {
                let rows = DictionaryRows { ids, values, validity: validity.as_deref() };
                if is_symbol {
                    let symbols = self.job.txn.intern(layout.column.id, values)?;
                    encoder.push_symbols(rows, &symbols);
                } else {
                    encoder.push_dictionary(rows, compressor);
                }
                return Ok(());
            }
        }
        let (texts, validity) = texts.plain();
        encoder.push_strings(&texts, validity.as_deref(), compressor);
        Ok(())
    }
}

impl Distinct<'_> {
    /// Whether a dictionary is smaller than the texts by enough to be worth its sorting. Offsets
    /// of values have four bytes, as those of texts would.
    fn pays_off(&self) -> bool {
        if self.values.len() * 2 <= self.ids.len() {
            return true;
        }
        let distinct: usize = self.values.iter().map(|text| text.len()).sum();
        let all: usize = self.ids.iter().map(|&id| self.values[id as usize].len()).sum();
        distinct * 4 <= all * 3
    }
}

/// The rows of a text column.
struct TextRows<'a> {
    encoder: &'a Encoder<'a>,
    parts: &'a [Part],
    rows: usize,
    column: usize,
}

/// A row's slot, with the slab that gives it meaning.
#[derive(Clone, Copy)]
struct SlotRow<'a> {
    slab: &'a Slab,
    slot: u32,
}

impl<'a> TextRows<'a> {
    fn each(&self, mut step: impl FnMut(usize, SlotRow<'a>) -> bool) {
        let layout = &self.encoder.job.buckets.layout.columns[self.column];
        let mut row = 0;
        for part in self.parts {
            let slabs: Vec<(&Slab, &[[u8; 4]])> = part
                .bucket
                .slabs()
                .map(|slab| (slab, slab.column(layout).as_chunks::<4>().0))
                .collect();
            let bits = part.bucket.row_bits();
            let mask = (1_u32 << bits) - 1;
            for &place in part.bucket.order(part.start, part.end) {
                let (slab, slots) = slabs[(place >> bits) as usize];
                let slot = u32::from_le_bytes(slots[(place & mask) as usize]);
                if !step(row, SlotRow { slab, slot }) {
                    return;
                }
                row += 1;
            }
        }
    }

    fn text_index(&self) -> usize {
        let layout = &self.encoder.job.buckets.layout.columns[self.column];
        layout.text.expect("a text column")
    }

    fn interner(&self, worker: u32) -> &'a Interner {
        &self.encoder.job.interners[worker as usize][self.text_index()]
    }

    fn text(&self, row: SlotRow<'a>) -> &'a [u8] {
        if row.slot & INTERNED != 0 {
            self.interner(row.slab.worker).text(row.slot & !INTERNED)
        } else {
            row.slab.texts.text_at(row.slot)
        }
    }

    /// Every row's text; a NULL is empty.
    fn plain(&self) -> (Vec<&'a [u8]>, Option<Vec<u64>>) {
        let mut validity = Validity::new(self.rows);
        let mut texts = Vec::with_capacity(self.rows);
        self.each(|index, row| {
            if row.slot == NULL_SLOT {
                validity.set_null(index);
                texts.push(&[][..]);
            } else {
                texts.push(self.text(row));
            }
            true
        });
        (texts, validity.finish())
    }

    /// Every row as a number of a distinct text, unless too many are distinct; `always` says that
    /// there are never too many.
    fn distinct(&self, always: bool) -> Option<Distinct<'a>> {
        let job = self.encoder.job;
        let workers = job.interners.len();
        // For each worker, what its interner's numbers are here.
        let mut known: Vec<Vec<u32>> = (0..workers)
            .map(|worker| {
                let worker = u32::try_from(worker).expect("few workers");
                vec![u32::MAX; self.interner(worker).len()]
            })
            .collect();
        let mut found = Interner::default();
        let mut validity = Validity::new(self.rows);
        let mut ids = Vec::with_capacity(self.rows);
        let mut values: Vec<&[u8]> = Vec::new();
        let (mut loose, mut gave_up) = (0_usize, false);
        self.each(|index, row| {
            if row.slot == NULL_SLOT {
                validity.set_null(index);
                ids.push(0);
                return true;
            }
            let is_interned = row.slot & INTERNED != 0;
            let worker = row.slab.worker as usize;
            if is_interned {
                let id = known[worker][(row.slot & !INTERNED) as usize];
                if id != u32::MAX {
                    ids.push(id);
                    return true;
                }
            }
            let text = self.text(row);
            let Some(id) = found.intern(text) else {
                gave_up = true;
                return false;
            };
            if id as usize == values.len() {
                values.push(text);
            }
            if is_interned {
                known[worker][(row.slot & !INTERNED) as usize] = id;
            } else {
                loose += 1;
                gave_up =
                    !always && loose.is_multiple_of(TRIAL_ROWS) && values.len() * 10 > index * 9;
            }
            ids.push(id);
            !gave_up
        });
        let validity = validity.finish();
        (!gave_up).then_some(Distinct { ids, values, validity })
    }
}

/// A bitmap that is only made when a row is NULL.
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
