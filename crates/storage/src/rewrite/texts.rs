//! Rewriting of string columns: symbols, dictionaries and plain strings of several runs become
//! codes of one dictionary, or contiguous strings.
//!
//! - A value of a run's dictionary is looked up once, however many rows have it, and only if a
//!   live row has it.
//! - texts-1. The choices of a dictionary and of compression are made as by an import, so that
//!   flushed rows are as small as imported ones.

use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tidegate_model::frame::{Dictionary, Strings};
use tidegate_model::types::Physical;
use tidegate_model::{Codes, Column, ColumnSlice, ColumnType, Encoded, SymbolId, limits};

use super::columns::{Source, Stretch, ValidRows, in_order};
use super::merge::{FramePlan, Span};
use crate::error::{Result, SegmentDamage};
use crate::segment::decode::{self, RowSelection};
use crate::segment::encode::ColumnEncoder;
use crate::segment::intern::Interner;
use crate::segment::strings::{DictionaryRows, StringCompressor, StringRows, TextForm};
use crate::symbols::SymbolTable;

/// The tools for encoding strings.
pub(super) struct Tools<'a> {
    /// The symbols of the column.
    pub(super) symbols: Option<&'a SymbolTable>,
    pub(super) compressor: &'a StringCompressor,
}

/// The bytes of the strings of some rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextBytes {
    /// Bytes in the stored form.
    pub(super) stored: u64,
    /// Maximal bytes in uncompressed form.
    pub(super) raw_max: u64,
}

/// Maximal number of bytes for a compressed byte.
const EXPANSION_MAX: u64 = 8;

/// Bytes of strings at which a dictionary is abandoned: it is in memory while it is made.
const DICTIONARY_TEXT_BYTES: usize = 128 << 20;

/// Number of strings without a code that are tried before a dictionary is abandoned.
const TRIAL_TEXTS: usize = 65_536;

/// Rows of a run from which its choice against a dictionary is trusted: it had enough rows to
/// decide.
const BELIEVED_FROM_ROWS: u64 = 1 << 20;

/// Number of stretches, and rows of each, on which a compression table is trained.
const SAMPLE_STRETCHES: usize = 32;
const SAMPLE_ROWS: u32 = 128;

/// The number of a value that has none yet.
const UNKNOWN: u32 = u32::MAX;
/// The number of a NULL.
const NULL_ID: u32 = u32::MAX - 1;

pub(super) fn is_text(ty: ColumnType) -> bool {
    ty.physical() == Physical::Bytes
}

/// The columns whose strings are stored in the segment.
pub(super) fn text_columns(columns: &[&Column]) -> impl Iterator<Item = usize> {
    let stores = |&at: &usize| is_text(columns[at].ty) && columns[at].ty != ColumnType::Symbol;
    (0..columns.len()).filter(stores)
}

/// The bytes of the strings of a plan's rows.
pub(super) fn text_bytes(source: &mut Source<'_>, plan: &FramePlan) -> Result<TextBytes> {
    let id = source.column.id;
    let of_dictionary = |reader: &std::sync::Arc<crate::segment::Reader>| {
        let dictionary = reader.footer().column(id).and_then(|column| column.dictionary);
        dictionary.map_or(0, |dictionary| dictionary.region.bytes)
    };
    // If the dictionaries together are too large for one, their strings may be stored row by row.
    let of_dictionaries: u64 = source.readers.iter().map(of_dictionary).sum();
    let stays_codes = of_dictionaries * EXPANSION_MAX <= DICTIONARY_TEXT_BYTES as u64;
    let mut sum = TextBytes::default();
    source.each(plan, |stretch, slice| {
        let rows = stretch.rows.clone();
        match &slice.encoded {
            Encoded::Null => {}
            Encoded::Strings(strings) => {
                let stored = strings_bytes(strings, rows);
                sum.stored += stored;
                sum.raw_max += stored * expansion(strings);
            }
            Encoded::Dictionary { codes, dictionary: Dictionary::Strings(strings) } => {
                let raw = dictionary_bytes(strings, codes, rows.clone()) * expansion(strings);
                sum.stored += if stays_codes { rows.len() as u64 * 4 } else { raw };
                sum.raw_max += raw;
            }
            _ => return Err(SegmentDamage::FrameShape),
        }
        Ok(())
    })?;
    Ok(sum)
}

fn expansion(strings: &Strings<'_>) -> u64 {
    if strings.table.is_some() { EXPANSION_MAX } else { 1 }
}

fn strings_bytes(strings: &Strings<'_>, rows: Range<usize>) -> u64 {
    let offset = |at: usize| u64::from(u32::from_le_bytes(strings.offsets[at]));
    offset(rows.end) - offset(rows.start)
}

fn dictionary_bytes(strings: &Strings<'_>, codes: &Codes<'_>, rows: Range<usize>) -> u64 {
    // An invalid code has no string here; decoding it returns the error.
    let bytes = |code: u32| match (code as usize) < strings.count() {
        true => strings_bytes(strings, code as usize..code as usize + 1),
        false => 0,
    };
    match codes {
        Codes::Same(code) => bytes(*code) * rows.len() as u64,
        _ => {
            let codes = decode::dictionary_codes(codes, &RowSelection::Range(rows));
            codes.into_iter().map(bytes).sum()
        }
    }
}

/// Encodes a column of a segment.
pub(super) fn encode(
    source: &mut Source<'_>,
    plans: &[FramePlan],
    tools: &Tools<'_>,
    encoder: &mut ColumnEncoder,
) -> Result<()> {
    let form = TextForm::Raw;
    let is_symbol = source.column.ty == ColumnType::Symbol;
    if is_symbol || is_worth_a_look(source) {
        let mut numbers = Numbers::new(source.readers.len(), tools.symbols, is_symbol);
        if let Some((ids, validity)) = numbers.of_rows(source, plans)? {
            let validity = validity.as_deref();
            if is_symbol {
                let text = |&id: &SymbolId| tools.symbols.expect("they were found").text(id);
                let values: Vec<&[u8]> = numbers.symbols.iter().map(text).collect();
                let rows = DictionaryRows { ids: &ids, values: &values, form, validity };
                encoder.push_symbols(rows, &numbers.symbols);
                return Ok(());
            }
            let values: Vec<&[u8]> = numbers.interner.texts().collect();
            let rows = DictionaryRows { ids: &ids, values: &values, form, validity };
            if rows.pays_off() {
                encoder.push_dictionary(rows, tools.compressor);
                return Ok(());
            }
        }
    }
    if let Some(table) = common_table(source, plans)? {
        let compressor = StringCompressor::of_table(table);
        let compressor = compressor.expect("`common_table` has decoded it");
        return push_plain(source, plans, TextForm::Compressed, &compressor, encoder);
    }
    train(source, plans, tools.compressor)?;
    push_plain(source, plans, form, tools.compressor, encoder)
}

/// Returns true if some run has a dictionary, or is too small for its choice against one to be
/// trusted.
fn is_worth_a_look(source: &Source<'_>) -> bool {
    source.readers.iter().any(|reader| {
        let footer = reader.footer();
        let has_dictionary = |column: &tidegate_model::layout::ColumnFooter| {
            column.dictionary.is_some() || footer.rows.0 < BELIEVED_FROM_ROWS
        };
        footer.column(source.column.id).is_some_and(has_dictionary)
    })
}

/// The string table with which all strings are compressed; `None` if there are others.
fn common_table<'a>(source: &mut Source<'a>, plans: &[FramePlan]) -> Result<Option<&'a [u8]>> {
    let (mut table, mut is_common) = (None, true);
    for plan in plans {
        source.each(plan, |_, slice| {
            let own = match &slice.encoded {
                Encoded::Null => return Ok(()),
                Encoded::Strings(strings) => strings.table,
                _ => None,
            };
            is_common &= own.is_some() && table.is_none_or(|table| Some(table) == own);
            table = own;
            Ok(())
        })?;
    }
    // An invalid table is reported when a string is decoded.
    let is_table = |table: &&[u8]| StringCompressor::of_table(table).is_some();
    Ok(table.filter(|_| is_common).filter(is_table))
}

/// Trains the compressor with strings from the whole segment.
fn train(
    source: &mut Source<'_>,
    plans: &[FramePlan],
    compressor: &StringCompressor,
) -> Result<()> {
    let rows: usize = plans.iter().map(|plan| plan.rows).sum();
    for stretch in 0..SAMPLE_STRETCHES {
        if !compressor.is_to_be_trained() {
            return Ok(());
        }
        let row = rows * stretch / SAMPLE_STRETCHES;
        let frame_rows = usize::try_from(limits::FRAME_ROWS.0).expect("65,536");
        let span = span_at(&plans[row / frame_rows], row % frame_rows);
        let sample = FramePlan::of(span);
        with_texts(source, &sample, TextForm::Raw, |texts| {
            compressor.is_worthwhile(texts);
        })?;
    }
    Ok(())
}

/// Some contiguous rows, beginning at a row of a page frame.
fn span_at(plan: &FramePlan, row: usize) -> Span {
    let place = plan.order.as_ref().map_or(row, |order| order[row] as usize);
    let mut left = u32::try_from(place).expect("a page frame's rows");
    let span = plan.spans.iter().find(|span| {
        let is_in = left < span.end - span.start;
        left -= if is_in { 0 } else { span.end - span.start };
        is_in
    });
    let span = span.expect("every place is in a span");
    let start = span.start + left;
    Span { start, end: span.end.min(start + SAMPLE_ROWS), ..*span }
}

fn push_plain(
    source: &mut Source<'_>,
    plans: &[FramePlan],
    form: TextForm,
    compressor: &StringCompressor,
    encoder: &mut ColumnEncoder,
) -> Result<()> {
    let mut valid = ValidRows::default();
    for plan in plans {
        let validity = valid.of(source, plan)?;
        with_texts(source, plan, form, |texts| {
            encoder.push_string_rows(StringRows { texts, form, validity }, compressor);
        })?;
    }
    encoder.end_strings(compressor);
    Ok(())
}

/// The string of a row.
#[derive(Debug, Clone, Copy)]
enum Text<'a> {
    Stored(&'a [u8]),
    /// Start and end among the decompressed strings.
    Decompressed(usize, usize),
}

/// Calls `step` with the strings of a plan's rows in order; NULL is empty.
fn with_texts(
    source: &mut Source<'_>,
    plan: &FramePlan,
    form: TextForm,
    step: impl FnOnce(&[&[u8]]),
) -> Result<()> {
    let mut decoders = Decoders::new(source.readers.len());
    let (mut bytes, mut of_spans, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    source.each(plan, |stretch, slice| {
        if let Encoded::Null = slice.encoded {
            of_spans.resize(of_spans.len() + stretch.rows.len(), Text::Stored(&[]));
            return Ok(());
        }
        let (strings, codes) = match &slice.encoded {
            Encoded::Strings(strings) => (strings, None),
            Encoded::Dictionary { codes, dictionary: Dictionary::Strings(strings) } => {
                let rows = RowSelection::Range(stretch.rows.clone());
                (strings, Some(decode::dictionary_codes(codes, &rows)))
            }
            _ => return Err(SegmentDamage::FrameShape),
        };
        let decoder = match (form, strings.table) {
            (TextForm::Raw, Some(table)) => Some(decoders.of(stretch.run, table)?),
            _ => None,
        };
        for (at, row) in stretch.rows.clone().enumerate() {
            if !slice.is_valid(row) {
                of_spans.push(Text::Stored(&[]));
                continue;
            }
            let index = codes.as_ref().map_or(row, |codes| codes[at] as usize);
            if index >= strings.count() {
                return Err(SegmentDamage::Code);
            }
            let stored = strings.stored(index);
            of_spans.push(match decoder {
                None => Text::Stored(stored),
                Some(decoder) => {
                    let start = bytes.len();
                    decoder.decompress(stored, &mut bytes);
                    Text::Decompressed(start, bytes.len())
                }
            });
        }
        Ok(())
    })?;
    in_order(plan, &mut of_spans, &mut texts);
    let texts: Vec<&[u8]> = texts
        .into_iter()
        .map(|text| match text {
            Text::Stored(text) => text,
            Text::Decompressed(start, end) => &bytes[start..end],
        })
        .collect();
    step(&texts);
    Ok(())
}

/// The decompressor of each run's strings.
struct Decoders(Vec<Option<StringCompressor>>);

impl Decoders {
    fn new(runs: usize) -> Decoders {
        Decoders((0..runs).map(|_| None).collect())
    }

    fn of(&mut self, run: usize, table: &[u8]) -> Result<&StringCompressor, SegmentDamage> {
        if self.0[run].is_none() {
            let decoder = StringCompressor::of_table(table).ok_or(SegmentDamage::StringTable)?;
            self.0[run] = Some(decoder);
        }
        Ok(self.0[run].as_ref().expect("it was just made"))
    }
}

/// Numbers distinct strings, in the order of first occurrence.
struct Numbers<'a> {
    table: Option<&'a SymbolTable>,
    /// True if there is no limit of distinct strings.
    always: bool,
    /// For each run, the numbers of its dictionary's values.
    known: Vec<Vec<u32>>,
    decoders: Decoders,
    interner: Interner,
    numbers: HashMap<SymbolId, u32, FixedState>,
    symbols: Vec<SymbolId>,
    text: Vec<u8>,
    /// Number of strings without a code.
    own: usize,
    rows: usize,
    is_full: bool,
}

impl<'a> Numbers<'a> {
    fn new(runs: usize, table: Option<&'a SymbolTable>, always: bool) -> Numbers<'a> {
        Numbers {
            table,
            always,
            known: vec![Vec::new(); runs],
            decoders: Decoders::new(runs),
            interner: Interner::default(),
            numbers: HashMap::default(),
            symbols: Vec::new(),
            text: Vec::new(),
            own: 0,
            rows: 0,
            is_full: false,
        }
    }

    /// The number of every row, and their validity; `None` if too many strings are distinct.
    #[expect(
        clippy::type_complexity,
        reason = "numbers and validity, absent if there are too many"
    )]
    fn of_rows(
        &mut self,
        source: &mut Source<'_>,
        plans: &[FramePlan],
    ) -> Result<Option<(Vec<u32>, Option<Vec<u64>>)>> {
        let count: usize = plans.iter().map(|plan| plan.rows).sum();
        let mut ids = Vec::with_capacity(count);
        let mut validity: Vec<u64> = Vec::new();
        let (mut of_spans, mut of_rows) = (Vec::new(), Vec::new());
        for plan in plans {
            of_spans.clear();
            let wanted = plan.wanted();
            source.each(plan, |stretch, slice| {
                let wanted = wanted.as_ref().map(|wanted| &wanted[of_spans.len()..]);
                self.push(stretch, slice, wanted, &mut of_spans)
            })?;
            let is_many = self.own >= TRIAL_TEXTS && self.interner.len() * 10 > self.rows * 9;
            let is_large = self.interner.text_bytes() > DICTIONARY_TEXT_BYTES;
            if !self.always && (self.is_full || is_large || is_many) {
                return Ok(None);
            }
            in_order(plan, &mut of_spans, &mut of_rows);
            for &id in &of_rows {
                if id == NULL_ID {
                    if validity.is_empty() {
                        validity = vec![u64::MAX; count.div_ceil(64)];
                    }
                    validity[ids.len() / 64] &= !(1 << (ids.len() % 64));
                }
                ids.push(if id == NULL_ID { 0 } else { id });
            }
        }
        Ok(Some((ids, Some(validity).filter(|words| !words.is_empty()))))
    }

    /// Appends the numbers of some rows. Rows that are not in `wanted` are deleted.
    fn push(
        &mut self,
        stretch: &Stretch,
        slice: &ColumnSlice<'_>,
        wanted: Option<&[bool]>,
        ids: &mut Vec<u32>,
    ) -> Result<(), SegmentDamage> {
        let rows = stretch.rows.clone();
        let has_id = |at: usize| {
            wanted.is_none_or(|wanted| wanted[at]) && slice.is_valid(stretch.rows.start + at)
        };
        match &slice.encoded {
            Encoded::Null => ids.resize(ids.len() + rows.len(), NULL_ID),
            Encoded::Dictionary { codes, dictionary } => {
                let codes = decode::dictionary_codes(codes, &RowSelection::Range(rows));
                let mut known = std::mem::take(&mut self.known[stretch.run]);
                known.resize(dictionary.count(), UNKNOWN);
                let all = wanted.is_none() && slice.validity.is_none();
                for (at, code) in codes.into_iter().enumerate() {
                    if !all && !has_id(at) {
                        ids.push(NULL_ID);
                        continue;
                    }
                    let id = known.get_mut(code as usize).ok_or(SegmentDamage::Code)?;
                    if *id == UNKNOWN {
                        *id = self.of_code(stretch.run, dictionary, code as usize)?;
                    }
                    ids.push(*id);
                }
                self.known[stretch.run] = known;
            }
            Encoded::Strings(strings) => {
                for (at, row) in rows.enumerate() {
                    let id = match has_id(at) {
                        true => self.of_text(stretch.run, strings, row)?,
                        false => NULL_ID,
                    };
                    ids.push(id);
                }
                self.own += stretch.rows.len();
            }
            _ => return Err(SegmentDamage::FrameShape),
        }
        self.rows += stretch.rows.len();
        Ok(())
    }

    fn of_code(
        &mut self,
        run: usize,
        dictionary: &Dictionary<'_>,
        code: usize,
    ) -> Result<u32, SegmentDamage> {
        match dictionary {
            Dictionary::Strings(strings) => self.of_text(run, strings, code),
            Dictionary::Symbols(_) => {
                let symbol = dictionary.symbol(code);
                let count = self.table.map_or(0, SymbolTable::len);
                if symbol.0 as usize >= count {
                    return Err(SegmentDamage::Symbol);
                }
                let next = u32::try_from(self.symbols.len()).expect("limits::SEGMENT_ROWS");
                let number = *self.numbers.entry(symbol).or_insert(next);
                if number == next {
                    self.symbols.push(symbol);
                }
                Ok(number)
            }
        }
    }

    fn of_text(
        &mut self,
        run: usize,
        strings: &Strings<'_>,
        at: usize,
    ) -> Result<u32, SegmentDamage> {
        let mut text = strings.stored(at);
        if let Some(table) = strings.table {
            self.text.clear();
            self.decoders.of(run, table)?.decompress(text, &mut self.text);
            text = &self.text;
        }
        let id = self.interner.intern(text);
        self.is_full |= id.is_none();
        Ok(id.unwrap_or(0))
    }
}
