//! Grouping keys of any number of values: packed words, and the table of one worker for them.
//!
//! - hash_key-1. Each key has its own bits of a word of 128, and each of its values, NULL among
//!   them, has bits of its own. Only the numbers of texts are those of one table.
//! - A single text needs no word: its number is its group. Then a group may have no rows: that of
//!   the text below a NULL.
//!
//! Not here: keys with dense ids (`key`), hash tables (`filter::grouping`).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewBuilder, UInt64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use tidegate_filter::aggregate::{ZoneRows, ZoneValues};
use tidegate_filter::grouping::{
    DecompressedTexts, KeyTable, TextPiece, TextTable, TextZone, WholeTexts, hash_of_key, mix,
};
use tidegate_model::{ColumnType, SegmentId};

use super::integers::from_integers;
use super::key::{Key, KeyScratch, KeyZone, ZoneKey, cast_to};
use super::stored::{stored_column, zones_of};
use crate::error::Error;
use crate::scan::ScanSource;
use crate::scan::task::ZONE_ROWS;

/// The bits of a word.
const BITS: u32 = u128::BITS;
/// The bits of the number of a text.
const TEXT_BITS: u32 = u32::BITS;

/// The bytes that a group takes while a table becomes a run: a word and a hash, each twice, and a
/// number and a hash in the order of partitions.
const GROUP_BYTES: usize = 2 * (16 + 8) + 16;
/// The bytes that a text takes besides: a hash and an end, each twice, and its numbers.
const TEXT_BYTES: usize = 2 * (8 + 8) + 32 + 4;
/// The greatest number of bytes in a buffer of texts.
const TEXT_BLOCK_BYTES: usize = 1 << 20;

/// The keys of an aggregate.
#[derive(Debug)]
pub(super) struct HashKeys {
    keys: Vec<HashKey>,
    /// The number of the keys that are texts.
    pub(super) texts: usize,
    /// The bits of the word that mean the same in all tables (hash_key-1).
    common: u128,
    /// Makes the hashes of each aggregate others, so that no keys can be chosen that share one.
    seed: u64,
    /// True if the number of a text is the group.
    pub(super) is_one_text: bool,
}

/// A key, and its bits.
#[derive(Debug)]
struct HashKey {
    source: KeySource,
    shift: u32,
    width: u32,
}

#[derive(Debug)]
enum KeySource {
    /// A key with dense ids.
    Dense(Key),
    Integer(IntegerKey),
    Text(TextKey),
}

/// A column of integers or times, by the distance of its values to the least one, plus one; 0 is
/// NULL.
#[derive(Debug)]
struct IntegerKey {
    /// The index in `PushedAggregate::columns`.
    column: usize,
    /// The bits of the least value.
    least: u64,
    /// The greatest distance.
    span: u64,
    ty: DataType,
}

/// A column of texts, by their numbers.
#[derive(Debug)]
struct TextKey {
    /// The index in `PushedAggregate::columns`.
    column: usize,
    /// The index in `HashGroups::texts`, and in those of a run.
    table: usize,
    ty: DataType,
}

/// Rows of a zone, and the columns for them.
#[derive(Clone, Copy)]
pub(super) struct HashZone<'z> {
    pub(super) columns: &'z [ZoneValues<'z>],
    pub(super) segment: SegmentId,
    pub(super) rows: ZoneRows<'z>,
}

impl HashKeys {
    /// Returns the keys of expressions over a scan's columns; `None` if they cannot be packed.
    /// `column` returns the place of a column of the scan.
    pub(super) fn of(
        exprs: &[Arc<dyn PhysicalExpr>],
        source: &ScanSource,
        column: &mut impl FnMut(usize) -> usize,
    ) -> Result<Option<HashKeys>> {
        let (mut keys, mut tables, mut shift, mut common) = (Vec::new(), 0, 0, 0);
        for expr in exprs {
            let Some(key) = KeySource::of(expr, source, tables, column)? else { return Ok(None) };
            let (width, is_text) = (key.width(), matches!(key, KeySource::Text(_)));
            if BITS < shift + width {
                return Ok(None);
            }
            tables += usize::from(is_text);
            if !is_text {
                common |= mask(width) << shift;
            }
            keys.push(HashKey { source: key, shift, width });
            shift += width;
        }
        let is_one_text = keys.len() == 1 && tables == 1;
        let seed = RandomState::new().hash_one(0);
        let keys = HashKeys { keys, texts: tables, common, seed, is_one_text };
        Ok((0 < keys.count()).then_some(keys))
    }

    /// Returns their number.
    pub(super) fn count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the tables and the shifts of the keys that are texts.
    fn texts(&self) -> impl Iterator<Item = (usize, u32)> {
        self.keys.iter().filter_map(|key| match &key.source {
            KeySource::Text(text) => Some((text.table, key.shift)),
            KeySource::Dense(_) | KeySource::Integer(_) => None,
        })
    }

    /// Returns an empty table of packed words.
    pub(super) fn table(&self) -> KeyTable {
        KeyTable::new(self.seed)
    }

    /// Returns the hash of a word, the same in all tables, if these are the texts of its numbers.
    #[inline]
    pub(super) fn hash(&self, word: u128, texts: &[DecompressedTexts]) -> u64 {
        let common = hash_of_key(self.seed, word & self.common);
        self.texts().fold(common, |hash, (table, shift)| {
            mix(hash, texts[table].hashes()[low_half(word >> shift) as usize])
        })
    }

    /// Gives the texts of words new numbers, in the order in which the words have them, and returns
    /// the numbers of each key that is a text, by the new ones. Words that are read together have
    /// texts that are near to each other then.
    pub(super) fn renumber(&self, words: &mut [u128], groups: &HashGroups) -> Vec<Vec<u32>> {
        let renumbered = self.texts().map(|(table, shift)| {
            let mut known = vec![None; groups.texts[table].count()];
            let mut numbers = Vec::new();
            for word in &mut *words {
                let number = low_half(*word >> shift);
                let new = *known[number as usize].get_or_insert_with(|| {
                    numbers.push(number);
                    numbers.len() as u128 - 1
                });
                *word = *word & !(mask(TEXT_BITS) << shift) | new << shift;
            }
            numbers
        });
        renumbered.collect()
    }

    /// Returns true if two words with texts are the same key.
    #[inline]
    pub(super) fn is_same(&self, one: &TextWord<'_>, other: &TextWord<'_>) -> bool {
        (one.word ^ other.word) & self.common == 0
            && self.texts().all(|(table, shift)| {
                let (number, there) = (low_half(one.word >> shift), low_half(other.word >> shift));
                one.texts[table].is_same(number, &other.texts[table], there)
            })
    }

    /// Returns true if a key of a word is not NULL.
    pub(super) fn has_value(&self, key: usize, word: &TextWord<'_>) -> bool {
        let key = &self.keys[key];
        let part = word.word >> key.shift & mask(key.width);
        match &key.source {
            KeySource::Text(text) => word.texts[text.table].text(low_half(part)).is_some(),
            // Ids and distances of values begin at 1.
            KeySource::Dense(_) | KeySource::Integer(_) => part != 0,
        }
    }

    /// Returns the bytes of the texts of a word.
    pub(super) fn text_bytes(&self, word: &TextWord<'_>) -> usize {
        let texts = self.texts();
        let texts = texts.map(|(table, shift)| {
            let text = word.texts[table].text(low_half(word.word >> shift));
            text.map_or(0, str::len)
        });
        texts.sum()
    }

    /// Returns the values of each key of words.
    pub(super) fn arrays(&self, words: &[TextWord<'_>]) -> Result<Vec<ArrayRef>> {
        self.keys.iter().map(|key| key.array(words)).collect()
    }
}

/// A word, and the texts of its numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextWord<'t> {
    pub(super) word: u128,
    /// One for each key that is a text.
    pub(super) texts: &'t [WholeTexts],
}

impl HashKey {
    fn array<'t>(&self, words: &[TextWord<'t>]) -> Result<ArrayRef> {
        let part = |word: &TextWord<'_>| word.word >> self.shift & mask(self.width);
        match &self.source {
            KeySource::Dense(dense) => {
                let ids = words.iter().map(|word| low_half(part(word)) as usize);
                dense.values(&ids.collect::<Vec<_>>())
            }
            KeySource::Integer(integer) => integer.array(words.iter().map(part)),
            KeySource::Text(key) => {
                let text = |word: &TextWord<'t>| word.texts[key.table].text(low_half(part(word)));
                let bytes = words.iter().filter_map(text).map(str::len).sum::<usize>();
                let block = u32::try_from(bytes.clamp(1, TEXT_BLOCK_BYTES)).expect("a few");
                let builder = StringViewBuilder::with_capacity(words.len());
                let mut builder = builder.with_fixed_block_size(block);
                words.iter().for_each(|word| builder.append_option(text(word)));
                cast_to(&(Arc::new(builder.finish()) as ArrayRef), &key.ty)
            }
        }
    }
}

impl KeySource {
    fn of(
        expr: &Arc<dyn PhysicalExpr>,
        source: &ScanSource,
        table: usize,
        column: &mut impl FnMut(usize) -> usize,
    ) -> Result<Option<KeySource>> {
        let ty = expr.data_type(&source.read.schema)?;
        let dense = Key::of(expr, source, column)?;
        if let Some(key) = dense {
            let Some(least) = key.least().filter(|_| u32::try_from(key.domain).is_err()) else {
                let is_small = u32::try_from(key.domain).is_ok();
                return Ok(is_small.then_some(KeySource::Dense(key)));
            };
            // A domain that is too large is cut off at its end.
            let span = (key.domain as u64).checked_sub(2).filter(|_| key.domain < usize::MAX);
            let span = span.unwrap_or(u64::MAX);
            let (column, least) = (key.column, least.cast_unsigned());
            return Ok(Some(KeySource::Integer(IntegerKey { column, least, span, ty })));
        }
        let Some(named) = expr.downcast_ref::<ColumnExpr>() else { return Ok(None) };
        let Some(stored) = stored_column(named.index(), source) else { return Ok(None) };
        let column = column(named.index());
        Ok(match stored.ty {
            ColumnType::Varchar => Some(KeySource::Text(TextKey { column, table, ty })),
            ColumnType::UInt64 => {
                let zones = zones_of(stored, source)?;
                let least = zones.iter().map(|zone| zone.min).min().unwrap_or(0);
                let greatest = zones.iter().map(|zone| zone.max).max().unwrap_or(0);
                let span = greatest.saturating_sub(least);
                Some(KeySource::Integer(IntegerKey { column, least, span, ty }))
            }
            ColumnType::Timestamp(_) => {
                let zones = zones_of(stored, source)?;
                let least = zones.iter().map(|zone| zone.min.cast_signed()).min().unwrap_or(0);
                let greatest = zones.iter().map(|zone| zone.max.cast_signed()).max().unwrap_or(0);
                let span = greatest.max(least).wrapping_sub(least).cast_unsigned();
                let least = least.cast_unsigned();
                Some(KeySource::Integer(IntegerKey { column, least, span, ty }))
            }
            // Those of `Key`, and those without a place in a word.
            ColumnType::Boolean
            | ColumnType::Int8
            | ColumnType::Int16
            | ColumnType::Int32
            | ColumnType::Int64
            | ColumnType::UInt8
            | ColumnType::UInt16
            | ColumnType::UInt32
            | ColumnType::Date
            | ColumnType::Symbol
            | ColumnType::Float32
            | ColumnType::Float64
            | ColumnType::Decimal { .. }
            | ColumnType::Binary
            | ColumnType::Uuid
            | ColumnType::Ipv4 => None,
        })
    }

    /// Returns the number of bits of its values.
    fn width(&self) -> u32 {
        let bits = |greatest: u128| (BITS - greatest.leading_zeros()).max(1);
        match self {
            KeySource::Dense(key) => bits((key.domain as u128).saturating_sub(1)),
            KeySource::Integer(integer) => bits(u128::from(integer.span) + 1),
            KeySource::Text(_) => TEXT_BITS,
        }
    }
}

impl IntegerKey {
    /// Adds the bits of the values of rows to their words.
    fn pack(
        &self,
        zone: &HashZone<'_>,
        bits: Bits,
        scratch: &mut Scratch,
        words: &mut [u128],
    ) -> Result<()> {
        let values = &zone.columns[self.column];
        let integers = &mut scratch.integers[..words.len()];
        values.integers(zone.rows, integers).map_err(Error::Filter)?;
        values.nulls(zone.rows, &mut scratch.nulls);
        for &null in &scratch.nulls {
            integers[null as usize] = self.least.cast_signed();
        }
        let mut farthest = 0;
        for (word, integer) in words.iter_mut().zip(&*integers) {
            let distance = integer.cast_unsigned().wrapping_sub(self.least);
            farthest = distance.max(farthest);
            *word |= (u128::from(distance) + 1) << bits.shift;
        }
        for &null in &scratch.nulls {
            words[null as usize] &= !(mask(bits.width) << bits.shift);
        }
        if self.span < farthest {
            return internal_err!("hash_key-1: a value is outside of the bounds of its column");
        }
        Ok(())
    }

    fn array(&self, parts: impl ExactSizeIterator<Item = u128>) -> Result<ArrayRef> {
        let (mut values, mut valid) = (Vec::new(), Vec::new());
        values.reserve_exact(parts.len());
        valid.reserve_exact(parts.len());
        for part in parts {
            valid.push(part != 0);
            values.push(self.least.wrapping_add(low_word(part.saturating_sub(1))));
        }
        if self.ty == DataType::UInt64 {
            let values = values.into_iter().zip(valid);
            let values = values.map(|(value, is_valid)| is_valid.then_some(value));
            return Ok(Arc::new(values.collect::<UInt64Array>()));
        }
        let values = values.into_iter().zip(&valid);
        // The value of NULL must fit the type as well.
        let values = values.map(|(value, &it)| if it { value.cast_signed() } else { 0 });
        from_integers(values.collect(), Some(valid), &self.ty)
    }
}

/// The bits of a key.
#[derive(Clone, Copy)]
struct Bits {
    shift: u32,
    width: u32,
}

/// The way in which the groups of rows are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Rows with the same key have the same group.
    Find,
    /// Each row has a group of its own.
    Append,
}

/// The groups of one worker, until its table is full.
#[derive(Debug)]
pub(super) struct HashGroups {
    /// One for each key that is a text.
    pub(super) texts: Vec<TextTable>,
    pub(super) keys: KeyTable,
}

/// Memory that is reused for each zone.
pub(super) struct Scratch {
    words: Vec<u128>,
    ids: Vec<u32>,
    nulls: Vec<u32>,
    integers: Vec<i64>,
    /// One for each key (`key`).
    keys: Vec<KeyScratch>,
}

impl Scratch {
    pub(super) fn new(keys: &HashKeys) -> Scratch {
        Scratch {
            words: vec![0; ZONE_ROWS],
            ids: vec![0; ZONE_ROWS],
            nulls: Vec::new(),
            integers: vec![0; ZONE_ROWS],
            keys: keys.keys.iter().map(|_| KeyScratch::new(ZONE_ROWS)).collect(),
        }
    }
}

impl HashGroups {
    pub(super) fn new(keys: &HashKeys) -> HashGroups {
        let texts = (0..keys.texts).map(|_| TextTable::new(keys.seed));
        HashGroups { texts: texts.collect(), keys: keys.table() }
    }

    /// Returns the number of groups, or that of the texts of a key that has more.
    pub(super) fn count(&self) -> usize {
        let texts = self.texts.iter().map(TextTable::count);
        texts.fold(self.keys.keys().len(), usize::max)
    }

    /// Returns the stored bytes of the texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.texts.iter().map(TextTable::stored_bytes).sum()
    }

    /// Returns the bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.texts.iter().map(TextTable::bytes).sum::<usize>()
    }

    /// Removes all groups, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.texts.iter_mut().for_each(TextTable::clear);
    }

    /// Returns the first rows of a zone, whose stored texts have together at most so many bytes, at
    /// least one row.
    pub(super) fn rows_within(
        &mut self,
        keys: &HashKeys,
        zone: &HashZone<'_>,
        bytes_max: usize,
    ) -> TextPiece {
        let mut all = TextPiece { rows: zone.rows.count(), growth: 0 };
        for key in &keys.keys {
            let KeySource::Text(text) = &key.source else { continue };
            let (rows, _) = zone.rows.split_at(all.rows);
            let values = &zone.columns[text.column];
            let zone = TextZone { values, rows, nulls: &[], dictionary: zone.segment.0 };
            let of_key = self.texts[text.table].rows_within(&zone, bytes_max / keys.texts);
            all = TextPiece { rows: of_key.rows, growth: all.growth + of_key.growth };
        }
        all
    }

    /// Returns the most bytes that a run of all groups takes, with what is needed to make it,
    /// besides its states.
    pub(super) fn run_bytes_max(&self) -> usize {
        let texts = self.texts.iter().map(TextTable::decompressed_bytes_max).sum::<usize>();
        // Texts are there twice: by their numbers in the table, and by those in the run.
        texts * 2 + self.count() * (GROUP_BYTES + self.texts.len() * TEXT_BYTES)
    }

    /// Returns true if the texts of a zone can be added to those of the table.
    pub(super) fn fits(&self, keys: &HashKeys, zone: &HashZone<'_>) -> bool {
        keys.keys.iter().all(|key| match &key.source {
            KeySource::Text(text) => self.texts[text.table].fits(&zone.columns[text.column]),
            KeySource::Dense(_) | KeySource::Integer(_) => true,
        })
    }

    /// Writes the group of each row of a zone, which fits; keys that are new get new groups.
    pub(super) fn find(
        &mut self,
        keys: &HashKeys,
        zone: &HashZone<'_>,
        lookup: Lookup,
        scratch: &mut Scratch,
        groups: &mut [u32],
    ) -> Result<()> {
        if let ([key], true) = (keys.keys.as_slice(), keys.is_one_text)
            && let KeySource::Text(text) = &key.source
        {
            return self.numbers(text, zone, &mut scratch.nulls, groups);
        }
        let count = groups.len();
        let mut words = std::mem::take(&mut scratch.words);
        words[..count].fill(0);
        for (at, key) in keys.keys.iter().enumerate() {
            self.pack(key, at, zone, scratch, &mut words[..count])?;
        }
        match lookup {
            Lookup::Find => self.keys.groups(&words[..count], groups),
            Lookup::Append => self.keys.append(&words[..count], groups),
        }
        scratch.words = words;
        Ok(())
    }

    /// Adds the bits of a key's values to the words of rows.
    fn pack(
        &mut self,
        key: &HashKey,
        at: usize,
        zone: &HashZone<'_>,
        scratch: &mut Scratch,
        words: &mut [u128],
    ) -> Result<()> {
        let &HashKey { shift, width, .. } = key;
        match &key.source {
            KeySource::Dense(dense) => {
                let ids = &mut scratch.ids[..words.len()];
                let HashZone { columns, segment, rows } = *zone;
                let zone = KeyZone { values: &columns[dense.column], segment, rows };
                match dense.ids(&zone, &mut scratch.keys[at], ids)? {
                    ZoneKey::Same(id) => {
                        words.iter_mut().for_each(|word| *word |= u128::from(id) << shift);
                    }
                    ZoneKey::Each => add(words, ids, shift),
                }
            }
            KeySource::Integer(integer) => {
                integer.pack(zone, Bits { shift, width }, scratch, words)?;
            }
            KeySource::Text(text) => {
                let numbers = &mut scratch.ids[..words.len()];
                self.numbers(text, zone, &mut scratch.nulls, numbers)?;
                add(words, numbers, shift);
            }
        }
        Ok(())
    }

    fn numbers(
        &mut self,
        text: &TextKey,
        zone: &HashZone<'_>,
        nulls: &mut Vec<u32>,
        numbers: &mut [u32],
    ) -> Result<()> {
        let values = &zone.columns[text.column];
        values.nulls(zone.rows, nulls);
        let zone = TextZone { values, rows: zone.rows, nulls, dictionary: zone.segment.0 };
        self.texts[text.table].numbers(&zone, numbers).map_err(Error::Filter)?;
        Ok(())
    }
}

fn add(words: &mut [u128], ids: &[u32], shift: u32) {
    for (word, id) in words.iter_mut().zip(ids) {
        *word |= u128::from(*id) << shift;
    }
}

/// Returns so many bits that are set, at least one.
fn mask(width: u32) -> u128 {
    u128::MAX >> (BITS - width)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower bits are wanted")]
fn low_half(word: u128) -> u32 {
    word as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the lower bits are wanted")]
fn low_word(word: u128) -> u64 {
    word as u64
}
