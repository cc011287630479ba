//! Reads the values of one column for some rows of a page frame, as integers, floats or codes.
//!
//! - The values are the same as those that decoding the column gives (`column` filter_column-2).

use std::ops::Range;

use tidegate_model::frame::Dictionary;
use tidegate_model::layout::Zone;
use tidegate_model::types::Physical;
use tidegate_model::{Codes, ColumnSlice, Encoded, SymbolId};

use crate::column::{Column, POWERS};
use crate::error::{Error, Result};
use crate::selection::{ZONE_ROWS, ZONE_WORDS, bits};
use crate::text::{LengthUnit, SymbolText};

/// Some rows of a zone, by their indices in the page frame.
#[derive(Debug, Clone, Copy)]
pub enum ZoneRows<'r> {
    /// All rows of a range.
    Run {
        /// The first row.
        start: usize,
        /// The end of the range: one more than the last row.
        end: usize,
    },
    /// The listed rows, ascending.
    List(&'r [u16]),
}

impl<'r> ZoneRows<'r> {
    /// The rows of a zone whose bits are set. If they are not one contiguous range, they are listed
    /// in `list`.
    ///
    /// # Panics
    /// If `words` has not the length of a zone, or the zone is beyond the end of the page frame.
    #[must_use]
    pub fn selected(zone: usize, words: &[u64], list: &'r mut Vec<u16>) -> ZoneRows<'r> {
        assert_eq!(words.len(), ZONE_WORDS);
        let start = zone * ZONE_ROWS;
        let set = words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let full = words.iter().take_while(|word| **word == u64::MAX).count();
        let edge = words.get(full).map_or(0, |word| word.trailing_ones() as usize);
        if full * 64 + edge == set {
            return ZoneRows::Run { start, end: start + set };
        }
        list.clear();
        for (at, &word) in words.iter().enumerate() {
            let first = start + at * 64;
            list.extend(
                bits(word)
                    .map(|bit| u16::try_from(first + bit).expect("a page frame has 65,536 rows")),
            );
        }
        ZoneRows::List(list)
    }

    /// The number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            ZoneRows::Run { start, end } => end - start,
            ZoneRows::List(rows) => rows.len(),
        }
    }

    /// The first `count` rows, and the rows after them.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[must_use]
    pub fn split_at(self, count: usize) -> (ZoneRows<'r>, ZoneRows<'r>) {
        match self {
            ZoneRows::Run { start, end } => {
                let middle = start + count;
                assert!(middle <= end, "row {middle} of a run that ends at {end}");
                (ZoneRows::Run { start, end: middle }, ZoneRows::Run { start: middle, end })
            }
            ZoneRows::List(rows) => {
                let (first, rest) = rows.split_at(count);
                (ZoneRows::List(first), ZoneRows::List(rest))
            }
        }
    }

    /// The range from the first row to the last one.
    pub(crate) fn span(&self) -> Range<usize> {
        match *self {
            ZoneRows::Run { start, end } => start..end,
            ZoneRows::List([]) => 0..0,
            ZoneRows::List([first, .., last]) => usize::from(*first)..usize::from(*last) + 1,
            ZoneRows::List([only]) => usize::from(*only)..usize::from(*only) + 1,
        }
    }

    /// The index in the page frame of row number `at` of these rows.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[must_use]
    pub fn place(&self, at: usize) -> usize {
        match self {
            ZoneRows::Run { start, .. } => start + at,
            ZoneRows::List(rows) => usize::from(rows[at]),
        }
    }
}

/// A reader of one column of a page frame.
pub struct ZoneValues<'a>(Column<'a>);

impl std::fmt::Debug for ZoneValues<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ZoneValues({:?}, {} rows)", self.0.slice.ty, self.0.slice.rows)
    }
}

impl<'a> ZoneValues<'a> {
    /// Creates a reader of column `position` of a filter or an aggregate.
    ///
    /// # Errors
    /// If the page frame is damaged.
    pub fn new(
        position: usize,
        slice: &'a ColumnSlice<'a>,
        symbols: &'a dyn SymbolText,
    ) -> Result<ZoneValues<'a>> {
        Column::new(position, slice, symbols).map(ZoneValues)
    }

    /// The column.
    pub(crate) fn column(&self) -> &Column<'a> {
        &self.0
    }

    /// The bounds of a zone; `None` if the column has none.
    #[must_use]
    pub fn bounds(&self, zone: usize) -> Option<Zone> {
        self.0.slice.zones.get(zone).map(Zone::decode)
    }

    /// Replaces `nulls` by the indexes, among these rows, of those that are NULL.
    pub fn nulls(&self, rows: ZoneRows<'_>, nulls: &mut Vec<u32>) {
        nulls.clear();
        if self.0.has_nulls() {
            let is_null = |&(_, at): &(u32, usize)| !self.0.slice.is_valid(rows.place(at));
            let all = (0_u32..).zip(0..rows.count());
            nulls.extend(all.filter(is_null).map(|(at, _)| at));
        }
    }

    /// Writes the values of integers, booleans, dates and timestamps; UBIGINT as its bits, floats
    /// as keys that are ordered like integers (`key_of_float`).
    ///
    /// # Errors
    /// If the column has another type.
    pub fn integers(&self, rows: ZoneRows<'_>, out: &mut [i64]) -> Result<()> {
        let slice = self.0.slice;
        match &slice.encoded {
            Encoded::Null => out.fill(0),
            Encoded::Narrow { base, step: 1, codes } => {
                let base = low_word(*base);
                read_codes(codes, rows, out, |code| base.wrapping_add(code.cast_signed()));
            }
            Encoded::Narrow { base, step, codes } => {
                let base = low_word(*base);
                read_codes(codes, rows, out, |code| {
                    base.wrapping_add(step.wrapping_mul(code).cast_signed())
                });
            }
            Encoded::Bits(bits) => {
                read_codes(&Codes::Bits(bits), rows, out, |code| code.cast_signed());
            }
            Encoded::Constant(value) if !is_float(slice) => out.fill(low_word(*value)),
            _ if is_float(slice) => {
                let mut floats = vec![0.0; out.len()];
                self.floats(rows, &mut floats)?;
                for (key, float) in out.iter_mut().zip(floats) {
                    *key = key_of_float(float);
                }
            }
            _ => return Err(self.shape()),
        }
        Ok(())
    }

    /// Writes the lengths of texts that are not symbols; 0 for NULL.
    ///
    /// # Errors
    /// If the column has another type, or a code is outside its dictionary.
    pub fn lengths(&self, unit: LengthUnit, rows: ZoneRows<'_>, out: &mut [i64]) -> Result<()> {
        let length = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
        match (&self.0.slice.encoded, self.0.texts(), self.0.entries()) {
            (Encoded::Null, ..) => out.fill(0),
            (Encoded::Strings(_), Some(texts), _) => {
                let lengths = texts.lengths(unit);
                for (at, out) in out.iter_mut().enumerate() {
                    *out = length(lengths.at(rows.place(at)));
                }
            }
            (Encoded::Dictionary { codes, .. }, _, Some(entries)) => {
                let texts = entries.texts().ok_or_else(|| self.shape())?;
                let (lengths, count) = (texts.lengths(unit), texts.count());
                for (at, out) in out.iter_mut().enumerate() {
                    let row = rows.place(at);
                    // The code at a NULL row has no meaning.
                    if !self.0.slice.is_valid(row) {
                        *out = 0;
                        continue;
                    }
                    let code = codes.at(row);
                    let index = usize::try_from(code).ok().filter(|&index| index < count);
                    let column = self.0.position;
                    *out = length(lengths.at(index.ok_or(Error::Code { column, code, count })?));
                }
            }
            _ => return Err(self.shape()),
        }
        Ok(())
    }

    /// Writes the values of numbers, as floats.
    ///
    /// # Errors
    /// If the column has another type.
    pub fn floats(&self, rows: ZoneRows<'_>, out: &mut [f64]) -> Result<()> {
        let slice = self.0.slice;
        if !is_float(slice) {
            let mut integers = vec![0; out.len()];
            self.integers(rows, &mut integers)?;
            let is_unsigned = slice.ty.physical() == Physical::Unsigned(8);
            for (float, integer) in out.iter_mut().zip(integers) {
                *float = if is_unsigned { integer.cast_unsigned() as f64 } else { integer as f64 };
            }
            return Ok(());
        }
        match &slice.encoded {
            Encoded::Null => out.fill(0.0),
            Encoded::Constant(value) => {
                out.fill(f64::from_bits(low_word(*value).cast_unsigned()));
            }
            Encoded::Decimal { base, scale, codes, exception_rows, exception_values } => {
                let power = POWERS[usize::from(*scale)];
                read_codes(codes, rows, out, |code| {
                    base.wrapping_add(code.cast_signed()) as f64 / power
                });
                let exceptions = exception_rows.iter().zip(*exception_values);
                for (row, bits) in exceptions {
                    let row = u32::from_le_bytes(*row) as usize;
                    if let Some(at) = find(rows, row) {
                        out[at] = f64::from_le_bytes(*bits);
                    }
                }
            }
            Encoded::Fixed { width: 8, bytes } => {
                let (values, _) = bytes.as_chunks::<8>();
                read(values, rows, out, |bits| f64::from_le_bytes(*bits));
            }
            Encoded::Fixed { width: 4, bytes } => {
                let (values, _) = bytes.as_chunks::<4>();
                read(values, rows, out, |bits| f32::from_le_bytes(*bits).into());
            }
            _ => return Err(self.shape()),
        }
        if slice.ty.physical() == Physical::Float32 {
            for float in out {
                *float = to_float32(*float).into();
            }
        }
        Ok(())
    }

    /// Writes the codes of a column with a dictionary; 0 if all rows are NULL.
    ///
    /// # Errors
    /// If the column has no dictionary.
    pub fn codes(&self, rows: ZoneRows<'_>, out: &mut [u32]) -> Result<()> {
        match &self.0.slice.encoded {
            Encoded::Null => out.fill(0),
            Encoded::Dictionary { codes, .. } => {
                read_codes(codes, rows, out, |code| u32::try_from(code).unwrap_or(u32::MAX));
            }
            _ => return Err(self.shape()),
        }
        Ok(())
    }

    /// The number of values in the dictionary; `None` if there is none.
    #[must_use]
    pub fn dictionary_count(&self) -> Option<usize> {
        self.0.entries().map(|entries| entries.count())
    }

    /// The symbol of a code.
    ///
    /// # Errors
    /// If there is no such code, or the codes do not stand for symbols.
    pub fn symbol(&self, code: usize) -> Result<SymbolId> {
        match &self.0.slice.encoded {
            Encoded::Dictionary { dictionary: dictionary @ Dictionary::Symbols(ids), .. }
                if code < ids.len() =>
            {
                Ok(dictionary.symbol(code))
            }
            _ => Err(self.shape()),
        }
    }

    /// The text of a code.
    ///
    /// # Errors
    /// If there is no such code.
    pub fn text(&self, code: u64) -> Result<Vec<u8>> {
        let Some(entries) = self.0.entries() else { return Err(self.shape()) };
        let mut scratch = Vec::new();
        entries.at(code, &mut scratch).map(<[u8]>::to_vec)
    }

    fn shape(&self) -> Error {
        Error::FrameShape { column: self.0.position, ty: self.0.slice.ty }
    }
}

/// The key of a float: an integer of the same order. NaN is above all numbers, -0 below 0.
#[must_use]
pub fn key_of_float(float: f64) -> i64 {
    flipped(float.to_bits().cast_signed())
}

/// The float of a key.
#[must_use]
pub fn float_of_key(key: i64) -> f64 {
    f64::from_bits(flipped(key).cast_unsigned())
}

/// Reverses the order of negative floats.
fn flipped(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

fn is_float(slice: &ColumnSlice<'_>) -> bool {
    matches!(slice.ty.physical(), Physical::Float32 | Physical::Float64)
}

#[expect(clippy::cast_possible_truncation, reason = "a value of eight bytes lives in the low word")]
pub(super) fn low_word(value: i128) -> i64 {
    value as i64
}

#[expect(clippy::cast_possible_truncation, reason = "a FLOAT is rounded to its width")]
fn to_float32(float: f64) -> f32 {
    float as f32
}

/// The index of a row of the page frame among these rows.
fn find(rows: ZoneRows<'_>, row: usize) -> Option<usize> {
    match rows {
        ZoneRows::Run { start, end } => (start..end).contains(&row).then(|| row - start),
        ZoneRows::List(rows) => {
            let row = u16::try_from(row).ok()?;
            rows.binary_search(&row).ok()
        }
    }
}

#[inline]
fn read<V, T>(values: &[V], rows: ZoneRows<'_>, out: &mut [T], value_of: impl Fn(&V) -> T) {
    match rows {
        ZoneRows::Run { start, end } => {
            for (out, value) in out.iter_mut().zip(&values[start..end]) {
                *out = value_of(value);
            }
        }
        ZoneRows::List(rows) => {
            for (out, &row) in out.iter_mut().zip(rows) {
                *out = value_of(&values[usize::from(row)]);
            }
        }
    }
}

#[inline]
fn read_codes<T>(
    codes: &Codes<'_>,
    rows: ZoneRows<'_>,
    out: &mut [T],
    value_of: impl Fn(u64) -> T,
) {
    match codes {
        Codes::Same(code) => {
            out.iter_mut().for_each(|out| *out = value_of(u64::from(*code)));
        }
        Codes::Sequence | Codes::Bits(_) => {
            for (at, out) in out.iter_mut().enumerate() {
                *out = value_of(codes.at(rows.place(at)));
            }
        }
        Codes::U8(codes) => read(codes, rows, out, |code| value_of(u64::from(*code))),
        Codes::U16(codes) => {
            read(codes, rows, out, |code| value_of(u64::from(u16::from_le_bytes(*code))));
        }
        Codes::U32(codes) => {
            read(codes, rows, out, |code| value_of(u64::from(u32::from_le_bytes(*code))));
        }
        Codes::U64(codes) => read(codes, rows, out, |code| value_of(u64::from_le_bytes(*code))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_floats() {
        let ascending =
            [f64::NEG_INFINITY, -1e300, -1.5, -1e-300, -0.0, 0.0, 1e-300, 1.5, f64::INFINITY];
        let keys = ascending.map(key_of_float);
        assert!(keys.is_sorted() && key_of_float(f64::NAN) > keys[8]);
        for float in ascending {
            assert_eq!(float_of_key(key_of_float(float)).to_bits(), float.to_bits());
        }
    }

    #[test]
    fn selected_rows_are_a_run_or_a_list() {
        let mut words = [0; ZONE_WORDS];
        let mut list = Vec::new();
        let run = ZoneRows::selected(1, &words, &mut list);
        assert!(matches!(run, ZoneRows::Run { start: 4_096, end: 4_096 }));
        words[..2].copy_from_slice(&[u64::MAX, 0b111]);
        let run = ZoneRows::selected(1, &words, &mut list);
        assert!(matches!(run, ZoneRows::Run { start: 4_096, end: 4_163 }));
        words[2] = 0b10;
        let rows = ZoneRows::selected(1, &words, &mut list);
        assert_eq!((rows.count(), rows.place(66), rows.place(67)), (68, 4_162, 4_225));
        words.fill(u64::MAX);
        let run = ZoneRows::selected(15, &words, &mut list);
        assert!(matches!(run, ZoneRows::Run { start: 61_440, end: 65_536 }));
    }
}
