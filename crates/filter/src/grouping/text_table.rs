//! Texts of one string table and their numbers, looked up in the form in which they are stored.
//!
//! - text_table-1. A text is found by its stored bytes, which does not decompress it. All texts in
//!   a table have the same string table (`fits`). A text that was compressed in two ways has two
//!   numbers: nothing depends on a compressor that is deterministic, because texts of different
//!   tables are compared anyway.
//! - Each text is decompressed once, when the table is full or the string table changes
//!   (`decompress`).
//! - The codes of a dictionary are looked up once.
//! - text_table-2. The memory that rows take, and that decompressing takes, is known before it is
//!   taken (`rows_within`, `decompressed_bytes_max`). For texts that are short this is a comparison
//!   for a zone; memory that became large for long ones is freed with them.

use std::ops::Range;

use tidegate_model::Encoded;

use super::BLOCK;
use super::hash::{HASH_OF_NULL, hash_of_bytes};
use super::slots::{Slots, hit};
use crate::aggregate::{ZoneRows, ZoneValues};
use crate::error::{Error, Result};
use crate::text::{TextForm, Texts};

/// A number that is not known yet.
const UNKNOWN: u32 = u32::MAX;
/// The most bytes for stored texts that a table without texts keeps.
const KEPT_STORED_BYTES: usize = 4 << 20;
/// The most bytes for decompressed texts that are kept for the next ones.
const KEPT_BYTES: usize = 16 << 20;

/// Rows of a zone, and the texts of a column for them.
#[derive(Debug, Clone, Copy)]
pub struct TextZone<'z> {
    /// The column.
    pub values: &'z ZoneValues<'z>,
    /// The rows.
    pub rows: ZoneRows<'z>,
    /// Those of them that are NULL (`ZoneValues::nulls`).
    pub nulls: &'z [u32],
    /// The number of the dictionary, if the column has one: other zones with this number have the
    /// same.
    pub dictionary: u64,
}

/// The first rows of a zone, so many that their texts are not too long together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPiece {
    /// The number of the rows.
    pub rows: usize,
    /// The most bytes that the table allocates for their texts.
    pub growth: usize,
}

/// A hash table from texts to numbers, from 0 on.
#[derive(Debug)]
pub struct TextTable {
    seed: u64,
    /// The string table, and the form that it gives to texts; `None` before the first text.
    form: Option<(Vec<u8>, TextForm)>,
    slots: Slots,
    /// The places of texts in `bytes`.
    places: Vec<Place>,
    /// The texts as they are stored.
    bytes: Vec<u8>,
    null: Option<u32>,
    dictionary: Option<DictionaryNumbers>,
    longest: Option<Longest>,
}

/// The longest of the stored texts of a dictionary.
#[derive(Debug, Clone, Copy)]
struct Longest {
    dictionary: u64,
    /// The number of the texts.
    count: usize,
    bytes: usize,
}

/// The numbers of a dictionary's codes.
#[derive(Debug)]
struct DictionaryNumbers {
    dictionary: u64,
    numbers: Vec<u32>,
}

/// The place of stored bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    start: usize,
    length: u32,
}

/// Texts that are decompressed, by their numbers, in memory that is used again.
#[derive(Debug, Default)]
pub struct DecompressedTexts {
    hashes: Vec<u64>,
    /// The end of each text in `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    null: Option<u32>,
}

/// Texts that are not compressed, and their hashes, the same in all tables with this seed.
#[derive(Debug)]
pub struct WholeTexts {
    hashes: Vec<u64>,
    /// The end of each text in `text`.
    ends: Vec<usize>,
    text: String,
    null: Option<u32>,
}

impl TextTable {
    /// An empty table whose hashes have this seed.
    #[must_use]
    pub fn new(seed: u64) -> TextTable {
        TextTable {
            seed,
            form: None,
            slots: Slots::default(),
            places: Vec::new(),
            bytes: Vec::new(),
            null: None,
            dictionary: None,
            longest: None,
        }
    }

    /// The number of texts, NULL among them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The bytes of the texts as they are stored.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let dictionary = self.dictionary.as_ref().map_or(0, |known| known.numbers.capacity());
        self.places.capacity() * size_of::<Place>()
            + self.bytes.capacity()
            + self.slots.bytes()
            + dictionary * size_of::<u32>()
    }

    /// Removes all texts, and keeps the memory unless it is large.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.places.clear();
        clear(&mut self.bytes, KEPT_STORED_BYTES);
        (self.form, self.null, self.dictionary) = (None, None, None);
    }

    /// Returns the first rows whose stored texts have together at most so many bytes, at least one
    /// row (text_table-2).
    pub fn rows_within(&mut self, zone: &TextZone<'_>, bytes_max: usize) -> TextPiece {
        let count = zone.rows.count();
        let bytes = self.stored_bytes_max(zone, bytes_max);
        if bytes <= bytes_max {
            return TextPiece { rows: count, growth: self.growth(count, bytes) };
        }
        let (mut rows, mut bytes) = (0, 0);
        while rows < count {
            let more = self.stored_bytes_at(zone, rows);
            if 0 < rows && bytes_max < bytes + more {
                break;
            }
            (rows, bytes) = (rows + 1, bytes + more);
        }
        TextPiece { rows, growth: self.growth(rows, bytes) }
    }

    /// The most bytes that `decompress` takes for the texts alone (text_table-2).
    #[must_use]
    pub fn decompressed_bytes_max(&self) -> usize {
        let Some((_, form)) = &self.form else { return 0 };
        self.places.iter().map(|&place| form.room(self.stored_at(place))).sum()
    }

    /// Returns true if the texts of a column have the string table of those in it (text_table-1).
    #[must_use]
    pub fn fits(&self, values: &ZoneValues<'_>) -> bool {
        let column = values.column();
        let entries = column.entries().and_then(|entries| entries.texts());
        match (&self.form, column.texts().or(entries)) {
            (Some((table, _)), Some(texts)) => table == texts.table().unwrap_or_default(),
            (None, _) | (_, None) => true,
        }
    }

    /// Replaces `texts` by those of the table.
    pub fn decompress(&self, texts: &mut DecompressedTexts) {
        texts.clear();
        texts.null = self.null;
        let bytes = self.decompressed_bytes_max();
        if texts.bytes.capacity() < bytes {
            // The memory before it is freed first.
            texts.bytes = Vec::new();
            texts.bytes.reserve_exact(bytes);
        }
        for (number, &place) in (0..).zip(&self.places) {
            let start = texts.bytes.len();
            if let Some((_, form)) = &self.form {
                form.append(self.stored_at(place), &mut texts.bytes);
            }
            let hash = || hash_of_bytes(self.seed, &texts.bytes[start..]);
            texts.hashes.push(if self.null == Some(number) { HASH_OF_NULL } else { hash() });
            texts.ends.push(texts.bytes.len());
        }
    }

    /// Writes the number of the text of each row.
    ///
    /// # Errors
    /// If the column has no texts, a code is outside its dictionary, or the string table is
    /// damaged.
    ///
    /// # Panics
    /// If there are 2^32 texts, or the string table is another one (text_table-1).
    pub fn numbers(&mut self, zone: &TextZone<'_>, numbers: &mut [u32]) -> Result<()> {
        let column = zone.values.column();
        match (&column.slice.encoded, column.texts(), column.entries()) {
            (Encoded::Null, ..) => numbers.fill(self.null()),
            (Encoded::Strings(_), Some(texts), _) => {
                self.enter(texts, zone.values)?;
                self.numbers_of_strings(texts, zone.rows, numbers);
            }
            (Encoded::Dictionary { .. }, _, Some(entries)) => {
                let (column, ty) = (column.position, column.slice.ty);
                let texts = entries.texts().ok_or(Error::FrameShape { column, ty })?;
                self.enter(texts, zone.values)?;
                self.numbers_of_codes(texts, zone, numbers)?;
            }
            _ => {
                let (column, ty) = (column.position, column.slice.ty);
                return Err(Error::FrameShape { column, ty });
            }
        }
        if !zone.nulls.is_empty() {
            let null = self.null();
            zone.nulls.iter().for_each(|&row| numbers[row as usize] = null);
        }
        Ok(())
    }

    /// An upper bound of the stored bytes of the texts of rows; one that is more than `bytes_max`
    /// may be far too high.
    fn stored_bytes_max(&mut self, zone: &TextZone<'_>, bytes_max: usize) -> usize {
        let column = zone.values.column();
        match (&column.slice.encoded, column.texts(), column.entries()) {
            (Encoded::Strings(_), Some(texts), _) => texts.stored_bytes(zone.rows.span()),
            (Encoded::Dictionary { .. }, _, Some(entries)) => {
                let Some(texts) = entries.texts() else { return 0 };
                let all = texts.stored_bytes(0..texts.count());
                if all <= bytes_max {
                    return all;
                }
                let longest = self.longest(texts, zone.dictionary);
                all.min(longest.saturating_mul(zone.rows.count()))
            }
            _ => 0,
        }
    }

    /// The stored bytes of the longest text of a dictionary.
    fn longest(&mut self, texts: &Texts<'_>, dictionary: u64) -> usize {
        let count = texts.count();
        let known = self.longest.filter(|it| it.dictionary == dictionary && it.count == count);
        let longest = known.unwrap_or_else(|| {
            let each = (0..count).map(|index| texts.stored(index).len());
            Longest { dictionary, count, bytes: each.max().unwrap_or(0) }
        });
        self.longest = Some(longest);
        longest.bytes
    }

    /// The stored bytes of the text of a row; 0 if it is that of a code which is known.
    fn stored_bytes_at(&self, zone: &TextZone<'_>, at: usize) -> usize {
        let (column, row) = (zone.values.column(), zone.rows.place(at));
        match (&column.slice.encoded, column.texts(), column.entries()) {
            (Encoded::Strings(_), Some(texts), _) => texts.stored(row).len(),
            (Encoded::Dictionary { codes, .. }, _, Some(entries)) => {
                let texts = entries.texts().filter(|_| column.slice.is_valid(row));
                let Some(texts) = texts else { return 0 };
                let code = usize::try_from(codes.at(row)).unwrap_or(usize::MAX);
                let known = self.dictionary.as_ref();
                let known = known.filter(|known| known.dictionary == zone.dictionary);
                let number = known.and_then(|known| known.numbers.get(code));
                let is_known = number.is_some_and(|&number| number != UNKNOWN);
                if is_known || texts.count() <= code { 0 } else { texts.stored(code).len() }
            }
            _ => 0,
        }
    }

    /// The most bytes that are allocated for the stored texts of so many more rows. Memory doubles
    /// as it grows, perhaps several times, and is there twice for a moment.
    fn growth(&self, rows: usize, bytes: usize) -> usize {
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        match rows {
            _ if bytes <= capacity - length => 0,
            1 => (capacity * 2).max(length + bytes),
            _ => (length + bytes) * 3,
        }
    }

    /// The number of NULL.
    fn null(&mut self) -> u32 {
        *self.null.get_or_insert_with(|| {
            let number = next_number(&self.places);
            self.places.push(Place::default());
            number
        })
    }

    /// Begins to read texts of a form.
    fn enter(&mut self, texts: &Texts<'_>, values: &ZoneValues<'_>) -> Result<()> {
        assert!(self.fits(values), "text_table-1");
        if self.form.is_none() {
            let column = values.column().position;
            let form = TextForm::new(texts.table()).ok_or(Error::StringTable { column })?;
            self.form = Some((texts.table().unwrap_or_default().to_vec(), form));
        }
        Ok(())
    }

    fn numbers_of_strings(&mut self, texts: &Texts<'_>, rows: ZoneRows<'_>, numbers: &mut [u32]) {
        let empty: &[u8] = &[];
        let (mut all_stored, mut hashes) = ([empty; BLOCK], [0; BLOCK]);
        let (mut firsts, mut places) = ([0; BLOCK], [Place::default(); BLOCK]);
        for (block, numbers) in numbers.chunks_mut(BLOCK).enumerate() {
            self.slots.reserve(numbers.len());
            let read = all_stored.iter_mut().zip(&mut hashes).zip(&mut firsts);
            for (at, ((stored, hash), first)) in read.take(numbers.len()).enumerate() {
                *stored = texts.stored(rows.place(block * BLOCK + at));
                *hash = hash_of_bytes(self.seed, stored);
                *first = self.slots.first(*hash);
            }
            // The texts of the block are read at the same time: each may be a cache miss.
            let found = hashes.iter().zip(&firsts);
            for ((number, place), (&hash, &first)) in numbers.iter_mut().zip(&mut places).zip(found)
            {
                *number = hit(first, hash).unwrap_or(UNKNOWN);
                *place = self.places.get(*number as usize).copied().unwrap_or_default();
            }
            let wanted = all_stored.iter().zip(&hashes);
            for ((number, &place), (&stored, &hash)) in numbers.iter_mut().zip(&places).zip(wanted)
            {
                if *number == UNKNOWN || self.stored_at(place) != stored {
                    *number = self.number(stored, hash);
                }
            }
        }
    }

    fn numbers_of_codes(
        &mut self,
        texts: &Texts<'_>,
        zone: &TextZone<'_>,
        numbers: &mut [u32],
    ) -> Result<()> {
        let (column, count) = (zone.values.column(), texts.count());
        zone.values.codes(zone.rows, numbers)?;
        let dictionary = zone.dictionary;
        let is_same = |known: &DictionaryNumbers| {
            known.dictionary == dictionary && known.numbers.len() == count
        };
        let known = self.dictionary.take().filter(is_same);
        let mut known = known
            .unwrap_or_else(|| DictionaryNumbers { dictionary, numbers: vec![UNKNOWN; count] });
        for (at, number) in numbers.iter_mut().enumerate() {
            let code = *number;
            *number = match known.numbers.get_mut(code as usize) {
                Some(known) if *known != UNKNOWN => *known,
                Some(known) => {
                    let stored = texts.stored(code as usize);
                    self.slots.reserve(1);
                    *known = self.number(stored, hash_of_bytes(self.seed, stored));
                    *known
                }
                // The code below a NULL counts for nothing.
                None if !column.slice.is_valid(zone.rows.place(at)) => 0,
                None => {
                    let (column, code) = (column.position, u64::from(code));
                    return Err(Error::Code { column, code, count });
                }
            };
        }
        self.dictionary = Some(known);
        Ok(())
    }

    /// Returns the number of a text by its stored bytes, for which there is room.
    fn number(&mut self, stored: &[u8], hash: u64) -> u32 {
        let is_it = |number| self.stored_at(self.places[number as usize]) == stored;
        match self.slots.find(hash, is_it) {
            Ok(number) => number,
            Err(vacancy) => {
                let number = next_number(&self.places);
                let length = u32::try_from(stored.len()).expect("below 4 GiB in a page frame");
                self.places.push(Place { start: self.bytes.len(), length });
                self.bytes.extend_from_slice(stored);
                self.slots.insert(&vacancy, number);
                number
            }
        }
    }

    #[inline]
    fn stored_at(&self, place: Place) -> &[u8] {
        &self.bytes[place.start..][..place.length as usize]
    }
}

impl DecompressedTexts {
    /// Removes all texts, and keeps the memory unless it is large.
    pub fn clear(&mut self) {
        self.hashes.clear();
        self.ends.clear();
        clear(&mut self.bytes, KEPT_BYTES);
        self.null = None;
    }

    /// The bytes that they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.hashes.capacity() + self.ends.capacity()) * size_of::<u64>() + self.bytes.capacity()
    }

    /// Their hashes, by their numbers.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The texts with these numbers, in their order; `None` if they are no UTF-8.
    ///
    /// # Panics
    /// If there is no such text.
    #[must_use]
    pub fn gathered(&self, numbers: &[u32]) -> Option<WholeTexts> {
        let all = simdutf8::basic::from_utf8(&self.bytes).ok()?;
        let length = numbers.iter().map(|&number| range(&self.ends, number).len()).sum();
        let (mut text, mut ends) = (String::with_capacity(length), Vec::new());
        ends.reserve_exact(numbers.len());
        for &number in numbers {
            text.push_str(all.get(range(&self.ends, number))?);
            ends.push(text.len());
        }
        let hashes = numbers.iter().map(|&number| self.hashes[number as usize]).collect();
        let null = numbers.iter().position(|&number| self.null == Some(number));
        let null = null.map(|at| u32::try_from(at).expect("as many as numbers"));
        Some(WholeTexts { hashes, ends, text, null })
    }
}

impl WholeTexts {
    /// The bytes that they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let hashes = (self.hashes.capacity() + self.ends.capacity()) * size_of::<u64>();
        hashes + self.text.capacity()
    }

    /// Their hashes, by their numbers.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// A text; `None` for NULL.
    ///
    /// # Panics
    /// If there is no such text.
    #[must_use]
    #[inline]
    pub fn text(&self, number: u32) -> Option<&str> {
        (self.null != Some(number)).then(|| &self.text[range(&self.ends, number)])
    }

    /// True if a text is the same as one of others with the same seed (grouping-1).
    ///
    /// # Panics
    /// If there are no such texts.
    #[must_use]
    #[inline]
    pub fn is_same(&self, number: u32, others: &WholeTexts, other: u32) -> bool {
        self.hashes[number as usize] == others.hashes[other as usize]
            && self.text(number) == others.text(other)
    }
}

/// Removes all bytes, and frees their memory if it is more than so much.
fn clear(bytes: &mut Vec<u8>, kept_max: usize) {
    if kept_max < bytes.capacity() {
        *bytes = Vec::new();
    }
    bytes.clear();
}

/// The place of a text, by the ends of all.
#[inline]
fn range(ends: &[usize], number: u32) -> Range<usize> {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    start..ends[number]
}

fn next_number(places: &[Place]) -> u32 {
    let number = u32::try_from(places.len()).expect("below 2^32 texts");
    assert!(number != UNKNOWN, "below 2^32 texts");
    number
}

#[cfg(test)]
mod tests {
    use tidegate_model::frame::{Dictionary, Strings};
    use tidegate_model::{Codes, ColumnSlice, ColumnType};

    use super::*;
    use crate::text::NoSymbols;

    /// A string table of these symbols.
    fn table(symbols: &[&str]) -> Vec<u8> {
        let mut table = vec![u8::try_from(symbols.len()).unwrap()];
        table.extend(symbols.iter().map(|symbol| u8::try_from(symbol.len()).unwrap()));
        for symbol in symbols {
            table.extend_from_slice(symbol.as_bytes());
            table.resize(table.len() + 8 - symbol.len(), 0);
        }
        table
    }

    /// Stored strings.
    struct Stored {
        offsets: Vec<[u8; 4]>,
        bytes: Vec<u8>,
        table: Option<Vec<u8>>,
    }

    impl Stored {
        fn new(table: Option<Vec<u8>>, texts: &[&[u8]]) -> Stored {
            let mut stored = Stored { offsets: vec![[0; 4]], bytes: Vec::new(), table };
            for text in texts {
                stored.bytes.extend_from_slice(text);
                let end = u32::try_from(stored.bytes.len()).unwrap();
                stored.offsets.push(end.to_le_bytes());
            }
            stored
        }

        fn strings(&self) -> Strings<'_> {
            let table = self.table.as_deref();
            Strings { offsets: &self.offsets, bytes: &self.bytes, table }
        }
    }

    /// Returns the numbers of all rows of a column, whose dictionary has a number too.
    fn numbers(
        into: &mut TextTable,
        encoded: Encoded<'_>,
        rows: usize,
        validity: Option<&[u8]>,
        dictionary: u64,
    ) -> Vec<u32> {
        let ty = ColumnType::Varchar;
        let slice = ColumnSlice { ty, rows, validity, encoded, zones: &[] };
        let values = ZoneValues::new(0, &slice, &NoSymbols).unwrap();
        let (zone_rows, mut nulls) = (ZoneRows::Run { start: 0, end: rows }, Vec::new());
        values.nulls(zone_rows, &mut nulls);
        let zone = TextZone { values: &values, rows: zone_rows, nulls: &nulls, dictionary };
        let mut numbers = vec![UNKNOWN; rows];
        into.numbers(&zone, &mut numbers).unwrap();
        numbers
    }

    /// Returns the texts with these numbers.
    fn whole(table: &TextTable, numbers: &[u32]) -> WholeTexts {
        let mut texts = DecompressedTexts::default();
        table.decompress(&mut texts);
        texts.gathered(numbers).unwrap()
    }

    fn texts(table: &TextTable) -> Vec<Option<String>> {
        let whole = whole(table, &(0..u32::try_from(table.count()).unwrap()).collect::<Vec<_>>());
        let text = |number| whole.text(number).map(str::to_owned);
        (0..u32::try_from(table.count()).unwrap()).map(text).collect()
    }

    #[test]
    fn texts_are_the_same_in_whatever_forms_they_are_stored() {
        let raw = Stored::new(None, &[b"ab", b"", b"b", b"ab"]);
        // "ab" as one symbol, as two, and with an escaped byte.
        let two = Stored::new(Some(table(&["ab", "a", "b"])), &[&[0], &[1, 2], &[1, 255, b'b']]);
        // Another table, and a dictionary.
        let three = Stored::new(Some(table(&["b", "ab", "c"])), &[&[1], &[], &[2]]);
        let strings = three.strings();
        let encoded = || Encoded::Dictionary {
            codes: Codes::U8(&[2, 0, 0, 1, 2]),
            dictionary: Dictionary::Strings(strings),
        };
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let mut known = [(); 3].map(|()| TextTable::new(3));
        // The third row is NULL.
        let found = numbers(&mut known[0], Encoded::Strings(raw.strings()), 4, Some(&[0b1011]), 0);
        assert_eq!(found, [0, 1, 3, 0], "grouping-1: the empty text is not NULL");
        assert_eq!(numbers(&mut known[0], Encoded::Null, 2, None, 0), [3, 3]);
        assert_eq!(texts(&known[0]), [Some("ab"), Some(""), Some("b"), None].map(owned));
        let found = numbers(&mut known[1], Encoded::Strings(two.strings()), 3, None, 0);
        assert_eq!(found, [0, 1, 2], "text_table-1");
        assert_eq!(texts(&known[1]), [Some("ab"); 3].map(owned));
        let found = numbers(&mut known[2], encoded(), 5, Some(&[0b11011]), 7);
        assert_eq!(found, [0, 1, 3, 2, 0], "text_table-1");
        assert_eq!(numbers(&mut known[2], encoded(), 5, None, 7), [0, 1, 1, 2, 0]);
        assert_eq!(texts(&known[2]), [Some("c"), Some("ab"), Some(""), None].map(owned));
        // Only those of the first table fit it, until it is cleared.
        let slice = |encoded| ColumnSlice {
            ty: ColumnType::Varchar,
            rows: 3,
            validity: None,
            encoded,
            zones: &[],
        };
        let other = slice(Encoded::Strings(three.strings()));
        let other = ZoneValues::new(0, &other, &NoSymbols).unwrap();
        assert!(known[2].fits(&other) && !known[0].fits(&other) && !known[1].fits(&other));
        let whole = known.each_ref().map(|known| {
            let count = u32::try_from(known.count()).unwrap();
            whole(known, &(0..count).rev().collect::<Vec<_>>())
        });
        // NULL, "b", "", "ab" against NULL, "", "ab", "c", in reverse order.
        let same = [(0, 0), (2, 1), (3, 2)];
        for number in 0..4 {
            for there in 0..4 {
                let is_same = whole[0].is_same(number, &whole[2], there);
                assert_eq!(is_same, same.contains(&(number, there)), "{number} {there}");
            }
        }
        assert!((0..3).all(|number| whole[1].is_same(number, &whole[0], 3)), "grouping-1");
        known[0].clear();
        assert!(known[0].fits(&other));
        numbers(&mut known[0], Encoded::Strings(three.strings()), 3, None, 0);
        assert_eq!(texts(&known[0]), [Some("ab"), Some(""), Some("c")].map(owned));
    }

    #[test]
    fn many_texts_are_found_again() {
        let texts = (0..5_000).map(|number| format!("https://example.org/{number}"));
        let texts = texts.collect::<Vec<_>>();
        let views = texts.iter().map(String::as_bytes).collect::<Vec<_>>();
        let stored = Stored::new(None, &views);
        let mut known = TextTable::new(3);
        for _ in 0..2 {
            let found = numbers(&mut known, Encoded::Strings(stored.strings()), 5_000, None, 0);
            assert!(found.into_iter().eq(0..5_000_u32), "grouping-1");
        }
        assert!(known.bytes() > texts.len() * 20);
    }

    // The texts of a whole zone were copied and decompressed before their memory was asked for: a
    // thousand of 200 KB took gigabytes, whatever the limits were.
    #[test]
    fn long_texts_are_read_in_pieces_whose_memory_is_known_before() {
        const COUNT: u8 = 100;
        // Each is 25 KB as it is stored, and 200 KB as a text.
        let texts = (0..COUNT).map(|last| [vec![0; 25_000], vec![255, last]].concat());
        let texts = texts.collect::<Vec<_>>();
        let views = texts.iter().map(Vec::as_slice).collect::<Vec<_>>();
        let stored = Stored::new(Some(table(&["abcdefgh"])), &views);
        let codes = (0..COUNT).collect::<Vec<_>>();
        let dictionary = Dictionary::Strings(stored.strings());
        let dictionary = Encoded::Dictionary { codes: Codes::U8(&codes), dictionary };
        for (encoded, again) in [(Encoded::Strings(stored.strings()), 3), (dictionary, 100)] {
            let (ty, rows) = (ColumnType::Varchar, usize::from(COUNT));
            let slice = ColumnSlice { ty, rows, validity: None, encoded, zones: &[] };
            let values = ZoneValues::new(0, &slice, &NoSymbols).unwrap();
            let zone = |rows| TextZone { values: &values, rows, nulls: &[], dictionary: 7 };
            let all = ZoneRows::Run { start: 0, end: rows };
            let (mut known, mut rest, mut pieces) = (TextTable::new(3), all, Vec::new());
            while 0 < rest.count() {
                let (piece, before) = (known.rows_within(&zone(rest), 100_000), known.bytes());
                let (first, behind) = rest.split_at(piece.rows);
                known.numbers(&zone(first), &mut vec![0; piece.rows]).unwrap();
                assert!(known.bytes() <= before + piece.growth + 8_192, "text_table-2");
                pieces.push(piece.rows);
                rest = behind;
            }
            assert_eq!(pieces, [vec![3; 33], vec![1]].concat(), "text_table-2");
            assert_eq!(known.rows_within(&zone(all), 100_000).rows, again);
            assert_eq!(known.rows_within(&zone(all), 3 << 20).rows, rows);
            let mut fresh = TextTable::new(3);
            for (bytes_max, expected) in [(0, 1), (60_000, 2), (100_000, 3)] {
                let listed = zone(ZoneRows::List(&[0, 50, 99]));
                assert_eq!(fresh.rows_within(&listed, bytes_max).rows, expected);
            }
            let bound = known.decompressed_bytes_max();
            assert_eq!(bound, rows * (200_001 + 16), "text_table-2");
            let mut texts = DecompressedTexts::default();
            known.decompress(&mut texts);
            assert!(texts.bytes() <= bound + 8_192, "text_table-2");
            let whole = texts.gathered(&[99, 7]).unwrap();
            assert_eq!(
                whole.text(1).map(|text| (text.len(), &text[199_998..])),
                Some((200_001, "gh\u{7}"))
            );
            texts.clear();
            assert!(texts.bytes() < 8_192, "text_table-2");
        }
    }

    #[test]
    fn a_code_outside_its_dictionary_is_an_error() {
        let stored = Stored::new(None, &[b"a"]);
        let dictionary = Dictionary::Strings(stored.strings());
        let encoded = Encoded::Dictionary { codes: Codes::U8(&[0, 1]), dictionary };
        let ty = ColumnType::Varchar;
        let slice = ColumnSlice { ty, rows: 2, validity: None, encoded, zones: &[] };
        let values = ZoneValues::new(0, &slice, &NoSymbols).unwrap();
        let rows = ZoneRows::Run { start: 0, end: 2 };
        let zone = TextZone { values: &values, rows, nulls: &[], dictionary: 0 };
        let mut known = TextTable::new(3);
        let found = known.numbers(&zone, &mut [0; 2]);
        assert!(matches!(found, Err(Error::Code { column: 0, code: 1, count: 1 })), "{found:?}");
    }
}
