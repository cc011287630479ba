//! Texts of a column: from symbols, dictionaries or strings, compressed or not.
//!
//! - filter_text-1. Damaged strings give the result of the segment decoder: an offset out of range
//!   gives the empty string, a code that the string table does not define one zero byte, an escape
//!   code without its byte no text.
//! - filter_text-2. A code or a symbol outside its dictionary is an error.
//!
//! Bytes: docs/format.md, Strings.

#![expect(unsafe_code, reason = "fsst writes into spare capacity")]

use std::borrow::Cow;
use std::ops::Range;

use fsst::{Decompressor, Symbol};
use tidegate_model::SymbolId;
use tidegate_model::frame::{Dictionary, Strings};

use crate::error::{Error, Result};

/// The texts of symbols. Many threads filter page frames at the same time.
pub trait SymbolText: Sync {
    /// The text of a symbol of filter column `column`; `None` if there is no such symbol, which
    /// happens only for a damaged segment.
    fn text(&self, column: usize, id: SymbolId) -> Option<&[u8]>;
}

/// The symbols of filters without SYMBOL columns: none.
#[derive(Debug, Clone, Copy)]
pub struct NoSymbols;

impl SymbolText for NoSymbols {
    fn text(&self, _column: usize, _id: SymbolId) -> Option<&[u8]> {
        None
    }
}

/// The bytes of a compressed string from which on the length of its text is counted before it is
/// decompressed: the bound of a long one can be many times as much.
const COUNTED_BYTES_MIN: usize = 4 << 10;
/// The bytes of memory beyond a text that decompression can use.
const SLACK: usize = 16;

/// A string table prepared for decompression.
pub(crate) struct Decoder {
    symbols: Box<[Symbol; 255]>,
    lengths: Box<[u8; 255]>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// Creates the decoder of a table's bytes; `None` if they are no table.
    fn new(table: &[u8]) -> Option<Decoder> {
        let (&count, rest) = table.split_first()?;
        let count = usize::from(count);
        if rest.len() != count * 9 {
            return None;
        }
        let (given_lengths, given_symbols) = rest.split_at(count);
        let mut symbols = Box::new([Symbol::from_u8(0); 255]);
        let mut lengths = Box::new([1_u8; 255]);
        for (index, symbol) in given_symbols.as_chunks::<8>().0.iter().enumerate() {
            if !(1..=8).contains(&given_lengths[index]) {
                return None;
            }
            symbols[index] = Symbol::from_slice(symbol);
            lengths[index] = given_lengths[index];
        }
        Some(Decoder { symbols, lengths })
    }

    /// The bytes that a code stands for; not that of escapes, 255.
    pub(crate) fn symbol(&self, code: usize) -> impl Iterator<Item = u8> {
        let bytes = self.symbols[code].to_u64().to_le_bytes();
        bytes.into_iter().take(usize::from(self.lengths[code]))
    }

    /// Replaces `out` by the text of a compressed string.
    fn decompress(&self, compressed: &[u8], out: &mut Vec<u8>) {
        out.clear();
        self.append(compressed, out);
    }

    /// Appends the text of a compressed string.
    fn append(&self, compressed: &[u8], out: &mut Vec<u8>) {
        if ends_inside_an_escape(compressed) {
            return; // filter_text-1
        }
        let decompressor = Decompressor::new(&self.symbols, &self.lengths);
        out.reserve(self.room(compressed));
        let written = decompressor.decompress_into(compressed, out.spare_capacity_mut());
        // SAFETY: the function has initialised this many bytes of the spare capacity.
        unsafe { out.set_len(out.len() + written) }
    }

    /// The room that `append` takes for the text of a compressed string.
    fn room(&self, compressed: &[u8]) -> usize {
        if compressed.len() < COUNTED_BYTES_MIN {
            return size_of::<Symbol>() * compressed.len() + SLACK;
        }
        let (mut length, mut codes) = (0, compressed.iter());
        while let Some(&code) = codes.next() {
            length += match self.lengths.get(usize::from(code)) {
                Some(&length) => usize::from(length),
                None => usize::from(codes.next().is_some()),
            };
        }
        length + SLACK
    }
}

/// Returns true if the last code is an escape code without its byte: a byte before an odd number of
/// them is a code, or stands for itself.
fn ends_inside_an_escape(compressed: &[u8]) -> bool {
    compressed.iter().rev().take_while(|&&code| code == 255).count() % 2 == 1
}

/// A form in which texts are stored: as they are, or compressed with a string table.
#[derive(Debug)]
pub(crate) struct TextForm(Option<Decoder>);

impl TextForm {
    /// The form of texts with this string table, or of those without one; `None` if it is no table.
    pub(crate) fn new(table: Option<&[u8]>) -> Option<TextForm> {
        match table {
            None => Some(TextForm(None)),
            Some(table) => Decoder::new(table).map(|decoder| TextForm(Some(decoder))),
        }
    }

    /// The room that `append` takes for the text of a stored string.
    #[inline]
    pub(crate) fn room(&self, stored: &[u8]) -> usize {
        self.0.as_ref().map_or(stored.len(), |decoder| decoder.room(stored))
    }

    /// Appends the text of a stored string.
    #[inline]
    pub(crate) fn append(&self, stored: &[u8], out: &mut Vec<u8>) {
        match &self.0 {
            None => out.extend_from_slice(stored),
            Some(decoder) => decoder.append(stored, out),
        }
    }
}

/// The unit of the length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthUnit {
    /// Bytes of UTF-8.
    Bytes,
    /// Characters.
    Characters,
}

impl LengthUnit {
    /// The length of bytes that are a part of a text.
    fn of(self, bytes: impl IntoIterator<Item = u8>) -> usize {
        let counts = |byte: &u8| match self {
            LengthUnit::Bytes => true,
            // All bytes but those that continue a character.
            LengthUnit::Characters => byte & 0xC0 != 0x80,
        };
        bytes.into_iter().filter(counts).count()
    }
}

/// The lengths of the texts of a list, found without decompressing them.
pub(crate) struct Lengths<'t, 'a> {
    texts: &'t Texts<'a>,
    unit: LengthUnit,
    /// The length of the text of each code.
    of_codes: Option<[u8; 255]>,
}

impl Lengths<'_, '_> {
    /// The length of a text.
    ///
    /// # Panics
    /// If there is no string `index`.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> usize {
        let stored = self.texts.stored(index);
        let Some(of_codes) = &self.of_codes else {
            return self.unit.of(stored.iter().copied());
        };
        let (mut length, mut codes) = (0, stored.iter());
        while let Some(&code) = codes.next() {
            length += match (of_codes.get(usize::from(code)), codes.as_slice()) {
                (Some(&length), _) => usize::from(length),
                (None, []) => return 0, // filter_text-1
                (None, [byte, rest @ ..]) => {
                    codes = rest.iter();
                    self.unit.of([*byte])
                }
            };
        }
        length
    }
}

/// A list of strings with the state that reading it needs.
#[derive(Debug)]
pub(crate) struct Texts<'a> {
    strings: Strings<'a>,
    decoder: Option<Decoder>,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(strings: Strings<'a>, column: usize) -> Result<Texts<'a>> {
        let decoder = match strings.table {
            None => None,
            Some(table) => Some(Decoder::new(table).ok_or(Error::StringTable { column })?),
        };
        Ok(Texts { strings, decoder })
    }

    /// The decoder of the strings; `None` if they are not compressed.
    pub(crate) fn decoder(&self) -> Option<&Decoder> {
        self.decoder.as_ref()
    }

    /// The string table; `None` if they are not compressed.
    pub(crate) fn table(&self) -> Option<&'a [u8]> {
        self.strings.table
    }

    /// The lengths of the texts.
    pub(crate) fn lengths(&self, unit: LengthUnit) -> Lengths<'_, 'a> {
        let of_codes = self.decoder.as_ref().map(|decoder| {
            let of_code = |code| unit.of(decoder.symbol(code));
            std::array::from_fn(|code| u8::try_from(of_code(code)).expect("at most 8 bytes"))
        });
        Lengths { texts: self, unit, of_codes }
    }

    /// The number of strings.
    pub(crate) fn count(&self) -> usize {
        self.strings.count()
    }

    /// The bytes of a string as they are stored.
    ///
    /// # Panics
    /// If there is no string `index`.
    #[inline]
    pub(crate) fn stored(&self, index: usize) -> &'a [u8] {
        self.strings.stored(index)
    }

    /// The bytes of all strings of a range as they are stored, found without reading each. Damaged
    /// strings may have more.
    pub(crate) fn stored_bytes(&self, range: Range<usize>) -> usize {
        let offset = |index: usize| self.strings.offsets.get(index).copied().unwrap_or_default();
        let at = |index: usize| u32::from_le_bytes(offset(index)) as usize;
        at(range.end).saturating_sub(at(range.start))
    }

    /// Returns true if a string is empty, which is known without decompressing it.
    ///
    /// # Panics
    /// If there is no string `index`.
    #[inline]
    pub(crate) fn is_empty_at(&self, index: usize) -> bool {
        let stored = self.strings.stored(index);
        stored.is_empty() || (self.decoder.is_some() && ends_inside_an_escape(stored))
    }

    /// The text of a string, in `scratch` if it is compressed.
    ///
    /// # Panics
    /// If there is no string `index`.
    #[inline]
    pub(crate) fn at<'b>(&self, index: usize, scratch: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        let stored = self.strings.stored(index);
        match &self.decoder {
            None => stored,
            Some(decoder) => {
                decoder.decompress(stored, scratch);
                scratch
            }
        }
    }
}

/// A dictionary with the state that reading it needs.
pub(crate) struct Entries<'a> {
    column: usize,
    source: Source<'a>,
}

enum Source<'a> {
    Strings(Texts<'a>),
    Symbols(Dictionary<'a>, &'a dyn SymbolText),
}

impl<'a> Entries<'a> {
    pub(crate) fn new(
        column: usize,
        dictionary: Dictionary<'a>,
        symbols: &'a dyn SymbolText,
    ) -> Result<Entries<'a>> {
        let source = match dictionary {
            Dictionary::Strings(strings) => Source::Strings(Texts::new(strings, column)?),
            Dictionary::Symbols(_) => Source::Symbols(dictionary, symbols),
        };
        Ok(Entries { column, source })
    }

    /// The number of values.
    pub(crate) fn count(&self) -> usize {
        match &self.source {
            Source::Strings(texts) => texts.count(),
            Source::Symbols(dictionary, _) => dictionary.count(),
        }
    }

    /// The strings, if they are not those of symbols.
    pub(crate) fn texts(&self) -> Option<&Texts<'a>> {
        match &self.source {
            Source::Strings(texts) => Some(texts),
            Source::Symbols(..) => None,
        }
    }

    /// The text of a code, in `scratch` if it is compressed (filter_text-2).
    pub(crate) fn at<'b>(&'b self, code: u64, scratch: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let count = self.count();
        let out_of_it = Error::Code { column: self.column, code, count };
        let index = usize::try_from(code).ok().filter(|&index| index < count).ok_or(out_of_it)?;
        match &self.source {
            Source::Strings(texts) => Ok(texts.at(index, scratch)),
            Source::Symbols(dictionary, symbols) => {
                let id = dictionary.symbol(index);
                let missing = Error::Symbol { column: self.column, symbol: id.0 };
                symbols.text(self.column, id).ok_or(missing)
            }
        }
    }

    /// Returns an owned copy of the text of a code (filter_text-2).
    pub(crate) fn owned(&self, code: u64) -> Result<Cow<'static, [u8]>> {
        let mut scratch = Vec::new();
        self.at(code, &mut scratch).map(|text| Cow::Owned(text.to_vec()))
    }
}
