//! Text columns of a segment: numbers of the workers' interners and texts of slabs become either
//! codes of the segment's own distinct values or the texts one after the other.

use tidegate_model::ColumnType;
use tidegate_storage::segment::encode::ColumnEncoder;
use tidegate_storage::segment::intern::Interner;
use tidegate_storage::segment::strings::DictionaryRows;

use super::Part;
use super::gather::Encoder;
use crate::error::{Error, Result};
use crate::layout::{INTERNED, NULL_SLOT, Slab, text_at};

/// How many texts that are not interned are looked at before a dictionary is given up.
const TRIAL_ROWS: usize = 4_096;

/// Rows as numbers of distinct texts.
struct Distinct<'a> {
    ids: Vec<u32>,
    values: Vec<&'a [u8]>,
    validity: Option<Vec<u64>>,
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
        let texts = TextRows { encoder: self, parts, rows, column };
        if let Some(distinct) = texts.distinct(is_symbol) {
            let Distinct { ids, values, validity } = &distinct;
            let rows = DictionaryRows { ids, values, validity: validity.as_deref() };
            if is_symbol {
                let symbols = self.job.txn.intern(layout.column.id, values)?;
                encoder.push_symbols(rows, &symbols);
                return Ok(());
            }
            if values.len() * 2 <= ids.len() || values.is_empty() {
                encoder.push_dictionary(rows, &self.job.compressors[column]);
                return Ok(());
            }
        }
        if is_symbol {
            let column = layout.column.name.clone();
            return Err(Error::TooManySymbols { column });
        }
        let (texts, validity) = TextRows { encoder: self, parts, rows, column }.plain();
        encoder.push_strings(&texts, validity.as_deref(), &self.job.compressors[column]);
        Ok(())
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
            text_at(&row.slab.texts[self.text_index()], row.slot)
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
                    !always && loose.is_multiple_of(TRIAL_ROWS) && values.len() * 5 > index * 3;
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
