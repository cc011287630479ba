//! Conversion of text fields to values, one column of a parsed batch at a time; the parser is
//! chosen once for each column.
//!
//! - An unquoted empty field is NULL, unless it has the meaning of `""`, and so is the given NULL
//!   text; `""` is empty text, and NULL in a column that is not text.
//! - A field that does not parse is a parse error: its place holds 0 (or NULL text) until the
//!   caller has decided about the error.
//! - convert-1. Text is UTF-8 without NUL; input chunks that were checked as a whole need no check
//!   of each cell.
//!
//! Not here: the bounds of fields (`index`, `read`), the handling of parse errors (`parse_errors`).

mod digits;

use tidegate_model::{ColumnType, TextLength, TimeUnit, limits};
use tidegate_storage::segment::intern::Interner;

use self::digits::{Bounds, PlainIntegers, Zeros};
use crate::exact;
use crate::index::Kernel;
use crate::layout::{ColumnLayout, RowLayout};
use crate::options::EmptyFields;
use crate::parse::{self, CellError};
use crate::parsed_batch::{Cell, ParsedBatch, ParsedColumn, Place, Values};
use crate::reject::Reason;
use crate::timestamp::{DateParser, TimestampFormat, TimestampParser};

/// A row of indexed text: its start, and the index of its first field end.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RowPlace {
    pub(crate) start: u32,
    pub(crate) first: u32,
}

/// Indexed text with the rows that have to be converted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowsOfText<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) field_ends: &'a [u32],
    pub(crate) rows: &'a [RowPlace],
    pub(crate) quote: Option<u8>,
    pub(crate) null_text: Option<&'a [u8]>,
    /// True if the text was checked as a whole (convert-1).
    pub(crate) is_checked: bool,
}

impl<'a> RowsOfText<'a> {
    /// The start and the end of a field of a row.
    #[inline]
    fn bounds(&self, row: RowPlace, field: usize) -> (usize, usize) {
        let end = row.first as usize + field;
        let start = match field {
            0 => row.start as usize,
            _ => self.field_ends[end - 1] as usize + 1,
        };
        (start, self.field_ends[end] as usize)
    }

    /// A field as it stands in the text, with its quotes.
    pub(crate) fn raw_field(&self, row: u32, field: usize) -> &'a [u8] {
        let (start, end) = self.bounds(self.rows[row as usize], field);
        // A field that its record lacks begins behind its end.
        self.text.get(start..end).unwrap_or_default()
    }
}

/// A field that did not parse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParseError {
    pub(crate) row: u32,
    pub(crate) column: u32,
    pub(crate) reason: Reason,
}

/// The parsers of a worker.
#[derive(Debug)]
pub(crate) struct Converter {
    kernel: Kernel,
    columns: Vec<ColumnParser>,
    pub(crate) errors: Vec<ParseError>,
}

#[derive(Debug)]
struct ColumnParser {
    layout: ColumnLayout,
    /// The field of a record; `None` if the file does not have the column.
    source: Option<usize>,
    kind: Parser,
    /// True if the type is a guess, which must not change a value (exact-1).
    is_guess: bool,
}

#[derive(Debug)]
enum Parser {
    Value,
    Timestamp(TimestampParser),
    Date(DateParser),
    Text(Box<TextColumn>),
}

/// The distinct values of a text column that one worker has seen.
#[derive(Debug)]
pub(crate) struct TextColumn {
    pub(crate) interner: Interner,
    /// The maximum size of the interner, unless texts are symbols.
    interned_max: usize,
    policy: Interning,
    bytes_max: usize,
    /// Texts of at most this many bytes need no length check.
    bytes_unchecked: usize,
    length: Option<TextLength>,
    empty_fields: EmptyFields,
    is_binary: bool,
}

/// The decision on interning the texts of a column, which gives each distinct one a number.
#[derive(Debug, Clone, Copy)]
enum Interning {
    /// Symbols: interned as long as there is room.
    Always,
    /// Interned as long as enough texts repeat. Counts texts and hits since the last decision.
    Trying { texts: u32, hits: u32 },
    /// Too few texts repeat: this many texts are not interned.
    Paused { left: u32 },
}

/// The number of texts after which a decision is made.
const TRIAL_TEXTS: u32 = 2_048;
/// The number of texts after which interning is tried again.
const PAUSE_TEXTS: u32 = 200_000;
/// The maximum number of texts, and of their bytes, in the interner of a column that is no symbol:
/// it stays within a core's L2.
const INTERNED_MAX: usize = 32_768;
const INTERNED_TEXT_MAX: usize = 1 << 20;
/// The maximum number of interned symbols, and of their bytes: further ones are deduplicated
/// segment by segment, so that memory stays bounded.
const SYMBOLS_INTERNED_MAX: usize = 1 << 20;
const SYMBOL_TEXT_MAX: usize = 32 << 20;
/// The maximum length of an interned text: longer ones repeat rarely and are expensive to hash.
const INTERNED_LENGTH_MAX: usize = 256;

impl Converter {
    /// Creates parsers: `sources[i]` is the field of column `i`; `formats[i]` the format of its
    /// timestamps.
    pub(crate) fn new(
        layout: &RowLayout,
        sources: &[Option<usize>],
        formats: &[Option<TimestampFormat>],
    ) -> Converter {
        let columns = layout
            .columns
            .iter()
            .zip(sources.iter().zip(formats))
            .map(|(column, (&source, format))| {
                let format = format.as_ref().unwrap_or(&TimestampFormat::Detect);
                let kind = Parser::new(column, format, layout.interned_max);
                ColumnParser { layout: column.clone(), source, kind, is_guess: false }
            })
            .collect();
        Converter { kernel: Kernel::detect(), columns, errors: Vec::new() }
    }

    /// Marks the types that are guesses: one entry for each column.
    pub(crate) fn with_guesses(mut self, guesses: &[bool]) -> Converter {
        for (column, &is_guess) in self.columns.iter_mut().zip(guesses) {
            column.is_guess = is_guess;
        }
        self
    }

    /// Sets the meaning of empty fields in columns of text.
    pub(crate) fn with_empty_fields(mut self, empty_fields: EmptyFields) -> Converter {
        for column in &mut self.columns {
            if let Parser::Text(text) = &mut column.kind {
                text.empty_fields = empty_fields;
            }
        }
        self
    }

    /// Sets the fields for another file.
    pub(crate) fn set_sources(&mut self, sources: &[Option<usize>]) {
        for (column, &source) in self.columns.iter_mut().zip(sources) {
            column.source = source;
        }
    }

    /// Appends the rows to an empty parsed batch. Parse errors are added to `errors`, column by
    /// column.
    pub(crate) fn convert(&mut self, rows: &RowsOfText<'_>, parsed: &mut ParsedBatch) {
        assert!(parsed.rows == 0, "parsed_batch-1");
        self.errors.clear();
        parsed.rows = rows.rows.len();
        let ParsedBatch { columns, unescaped, .. } = parsed;
        for (index, (parser, into)) in self.columns.iter_mut().zip(columns).enumerate() {
            let Some(source) = parser.source else {
                into.push_nulls(rows.rows.len());
                continue;
            };
            let column = u32::try_from(index).expect("limits::TABLE_COLUMNS");
            let errors = &mut self.errors;
            let mut cells = Cells { kernel: self.kernel, rows, source, column, errors, unescaped };
            parser.convert(&mut cells, into);
        }
    }

    /// Appends rows of a text with one field each to one empty column of a parsed batch: texts that
    /// do not come from a text file. Parse errors are added to `errors`.
    pub(crate) fn convert_column(
        &mut self,
        column: usize,
        rows: &RowsOfText<'_>,
        into: &mut ParsedColumn,
        unescaped: &mut Vec<u8>,
    ) {
        let number = u32::try_from(column).expect("limits::TABLE_COLUMNS");
        let (kernel, errors) = (self.kernel, &mut self.errors);
        let mut cells = Cells { kernel, rows, source: 0, column: number, errors, unescaped };
        self.columns[column].convert(&mut cells, into);
    }

    /// The interners of the text columns, in the order of the columns, for the time after parsing.
    pub(crate) fn into_interners(self) -> Vec<Interner> {
        self.columns
            .into_iter()
            .filter_map(|column| match column.kind {
                Parser::Text(text) => Some(text.interner),
                _ => None,
            })
            .collect()
    }

    /// The text column at this position of the layout, for rows that do not come from text.
    pub(crate) fn text_column(&mut self, column: usize) -> Option<&mut TextColumn> {
        match &mut self.columns[column].kind {
            Parser::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The memory that interners hold.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of = |column: &ColumnParser| match &column.kind {
            Parser::Text(text) => text.interner.memory_bytes(),
            _ => 0,
        };
        self.columns.iter().map(of).sum()
    }
}

impl Parser {
    fn new(column: &ColumnLayout, format: &TimestampFormat, interned_max: usize) -> Parser {
        match column.column.ty {
            ColumnType::Timestamp(unit) => Parser::Timestamp(TimestampParser::new(format, unit)),
            ColumnType::Date => Parser::Date(DateParser::new(format)),
            ColumnType::Symbol => {
                Parser::text(Interning::Always, limits::SYMBOL_BYTES, column, interned_max)
            }
            ColumnType::Varchar | ColumnType::Binary => {
                Parser::text(Interning::TRYING, limits::VALUE_BYTES, column, interned_max)
            }
            _ => Parser::Value,
        }
    }

    fn text(
        policy: Interning,
        bytes_max: usize,
        column: &ColumnLayout,
        interned_max: usize,
    ) -> Parser {
        let interner = Interner::default();
        let (length, is_binary) = (column.length, column.column.ty == ColumnType::Binary);
        // A text never has more characters than bytes.
        let bytes_unchecked = length.map_or(bytes_max, |length| bytes_max.min(length.max as usize));
        let column = TextColumn {
            interner,
            interned_max,
            policy,
            bytes_max,
            bytes_unchecked,
            length,
            empty_fields: EmptyFields::Null,
            is_binary,
        };
        Parser::Text(Box::new(column))
    }
}

impl Interning {
    const TRYING: Interning = Interning::Trying { texts: 0, hits: 0 };
}

impl TextColumn {
    /// The number of a text, if it is interned or is interned now.
    #[inline]
    pub(crate) fn number(&mut self, text: &[u8]) -> Option<u32> {
        match &mut self.policy {
            Interning::Always => {
                let has_room = self.interner.len() < SYMBOLS_INTERNED_MAX
                    && self.interner.text_bytes() < SYMBOL_TEXT_MAX;
                if has_room { self.interner.intern(text) } else { self.interner.find(text) }
            }
            Interning::Trying { texts, hits } => {
                if text.len() > INTERNED_LENGTH_MAX {
                    return None;
                }
                *texts += 1;
                let found = self.interner.find(text);
                if found.is_some() {
                    *hits += 1;
                }
                if *texts == TRIAL_TEXTS {
                    self.policy = if *hits < TRIAL_TEXTS / 2 {
                        Interning::Paused { left: PAUSE_TEXTS }
                    } else {
                        Interning::TRYING
                    };
                }
                let has_room = self.interner.len() < INTERNED_MAX
                    && self.interner.text_bytes() < INTERNED_TEXT_MAX
                    && self.interner.memory_bytes() < self.interned_max / 2;
                if found.is_none() && has_room { self.interner.intern(text) } else { found }
            }
            Interning::Paused { left } => {
                *left -= 1;
                if *left == 0 {
                    self.policy = Interning::TRYING;
                }
                // The empty text is interned even then: where it occurs it is the most common one.
                if text.is_empty() { self.interner.intern(text) } else { None }
            }
        }
    }

    /// Checks that a text is valid in this column (convert-1).
    pub(crate) fn check(&self, text: &[u8]) -> Result<(), CellError> {
        if self.is_binary {
            let is_long = text.len() > self.bytes_max;
            return if is_long { Err(CellError::TooLong) } else { Ok(()) };
        }
        parse::check_text(text, self.bytes_max)?;
        match self.length.is_some_and(|length| length.is_exceeded_by(text)) {
            true => Err(CellError::TooLong),
            false => Ok(()),
        }
    }
}

/// The cells of one column.
struct Cells<'a> {
    kernel: Kernel,
    rows: &'a RowsOfText<'a>,
    source: usize,
    column: u32,
    errors: &'a mut Vec<ParseError>,
    unescaped: &'a mut Vec<u8>,
}

/// A field.
enum Field<'a> {
    Null,
    /// Without a byte, quotes included.
    Empty,
    /// Unquoted, or quoted without a doubled quote; and its position in the text.
    Plain(&'a [u8], usize),
    /// Quoted with doubled quotes inside: the text between the outer quotes.
    Doubled(&'a [u8]),
    Bad,
}

impl<'a> Cells<'a> {
    #[inline]
    fn bounds(&self, row: RowPlace) -> (usize, usize) {
        self.rows.bounds(row, self.source)
    }

    #[expect(clippy::inline_always, reason = "a call for each cell is a fifth of the parsers")]
    #[inline(always)]
    fn field(&self, start: usize, end: usize) -> Field<'a> {
        // A field that its record lacks begins behind its end.
        let Some(raw) = self.rows.text.get(start..end) else { return Field::Null };
        let Some(&first) = raw.first() else { return Field::Empty };
        if Some(first) == self.rows.quote {
            return quoted(raw, first, start);
        }
        if self.rows.null_text.is_some_and(|null| raw == null) {
            return Field::Null;
        }
        Field::Plain(raw, start)
    }

    #[cold]
    fn add_error(&mut self, row: usize, reason: Reason) {
        let row = u32::try_from(row).expect("PARSED_BATCH_ROWS");
        self.errors.push(ParseError { row, column: self.column, reason });
    }

    /// Parses every cell of an integer column: plain digits by the fast path, all others by
    /// `parse`. `narrow` converts a value that is within the bounds.
    #[inline]
    fn parse_integers<T: Default>(
        &mut self,
        values: &mut Vec<T>,
        nulls: &mut Vec<u32>,
        bounds: Bounds,
        narrow: impl Fn(i64) -> T,
        parse: impl Fn(&[u8]) -> Result<T, CellError>,
    ) {
        if self.rows.null_text.is_some() {
            // The text of NULL may be a number.
            return self.parse_cells(values, nulls, parse);
        }
        let mut plain = PlainIntegers::NONE;
        plain.read(self.kernel, self.rows, self.source, bounds);
        for (eight, places) in self.rows.rows.chunks(8).enumerate() {
            let (numbers, is_plain) = (&plain.values[eight * 8..], plain.is_plain[eight]);
            if is_plain == u8::MAX >> (8 - places.len()) {
                values.extend(numbers[..places.len()].iter().map(|&number| narrow(number)));
                continue;
            }
            for (row, (&place, &number)) in places.iter().zip(numbers).enumerate() {
                let value = match is_plain >> row & 1 {
                    1 => narrow(number),
                    _ => {
                        let (start, end) = self.bounds(place);
                        self.parse_cell(eight * 8 + row, start, end, nulls, &parse)
                    }
                };
                values.push(value);
            }
        }
    }

    /// The value of one cell of a column that is not text.
    #[inline]
    fn parse_cell<T: Default>(
        &mut self,
        row: usize,
        start: usize,
        end: usize,
        nulls: &mut Vec<u32>,
        parse: impl FnOnce(&[u8]) -> Result<T, CellError>,
    ) -> T {
        let reason = match self.field(start, end) {
            Field::Plain(text, _) if !text.is_empty() => match parse(text) {
                Ok(value) => return value,
                Err(error) => Reason::Cell(error),
            },
            Field::Null | Field::Empty | Field::Plain(..) => {
                nulls.push(u32::try_from(row).expect("PARSED_BATCH_ROWS"));
                return T::default();
            }
            Field::Doubled(inner) => return self.doubled(row, inner, parse),
            Field::Bad => Reason::TextAfterQuote,
        };
        self.add_error(row, reason);
        T::default()
    }

    /// Does the work of `parse_cell` for a field with doubled quotes. Of the types that are not
    /// text, only a timestamp whose pattern has a quote can be written so, but each type has its
    /// own error.
    #[cold]
    fn doubled<T: Default>(
        &mut self,
        row: usize,
        inner: &[u8],
        parse: impl FnOnce(&[u8]) -> Result<T, CellError>,
    ) -> T {
        let mut text = Vec::new();
        self.undouble(inner, &mut text);
        parse(&text).unwrap_or_else(|error| {
            self.add_error(row, Reason::Cell(error));
            T::default()
        })
    }

    /// Appends the text between quotes; doubled quotes become single.
    fn undouble(&self, inner: &[u8], into: &mut Vec<u8>) {
        let quote = self.rows.quote.expect("the field was quoted");
        let mut rest = inner;
        while let Some(at) = memchr::memchr(quote, rest) {
            into.extend_from_slice(&rest[..=at]);
            rest = &rest[at + 2..];
        }
        into.extend_from_slice(rest);
    }

    /// Parses every cell of a column that is not text.
    #[inline]
    fn parse_cells<T: Default>(
        &mut self,
        values: &mut Vec<T>,
        nulls: &mut Vec<u32>,
        mut parse: impl FnMut(&[u8]) -> Result<T, CellError>,
    ) {
        values.reserve(self.rows.rows.len());
        for (row, &place) in self.rows.rows.iter().enumerate() {
            let (start, end) = self.bounds(place);
            values.push(self.parse_cell(row, start, end, nulls, &mut parse));
        }
    }
}

/// The field between quotes; `raw` begins with a quote.
#[inline]
fn quoted(raw: &[u8], quote: u8, start: usize) -> Field<'_> {
    if raw.len() < 2 || raw[raw.len() - 1] != quote {
        return Field::Bad;
    }
    let inner = &raw[1..raw.len() - 1];
    if !has_byte(inner, quote) {
        return Field::Plain(inner, start + 1);
    }
    // Every quote inside must be doubled; otherwise text follows a closing quote.
    let mut rest = inner;
    while let Some(at) = memchr::memchr(quote, rest) {
        if rest.get(at + 1) != Some(&quote) {
            return Field::Bad;
        }
        rest = &rest[at + 2..];
    }
    Field::Doubled(inner)
}

/// Searches for a byte without a call of `memchr` for short fields, which most are.
#[inline]
fn has_byte(text: &[u8], wanted: u8) -> bool {
    if text.len() > 64 {
        return memchr::memchr(wanted, text).is_some();
    }
    let (eights, rest) = text.as_chunks::<8>();
    let pattern = u64::from_le_bytes([wanted; 8]);
    let mut matches = 0;
    for eight in eights {
        let difference = u64::from_le_bytes(*eight) ^ pattern;
        matches |=
            difference.wrapping_sub(0x0101_0101_0101_0101) & !difference & 0x8080_8080_8080_8080;
    }
    matches != 0 || rest.contains(&wanted)
}

impl ColumnParser {
    fn convert(&mut self, cells: &mut Cells<'_>, into: &mut ParsedColumn) {
        let ParsedColumn { values, nulls } = into;
        match (&mut self.kind, values) {
            (Parser::Text(column), Values::Text(texts)) => column.convert(cells, texts),
            (Parser::Timestamp(parser), Values::W8(values))
                if self.is_guess && parser.unit() == TimeUnit::Micros =>
            {
                cells.parse_cells(values, nulls, |text| match exact::is_finer_than_micros(text) {
                    true => Err(CellError::Altered),
                    false => parser.parse(text).map(i64::cast_unsigned),
                });
            }
            (Parser::Timestamp(parser), Values::W8(values)) => {
                cells.parse_cells(values, nulls, |text| parser.parse(text).map(i64::cast_unsigned));
            }
            (Parser::Date(parser), Values::W4(values)) => {
                cells.parse_cells(values, nulls, |text| parser.parse(text).map(i32::cast_unsigned));
            }
            (Parser::Value, values) if self.is_guess => {
                convert_guessed(self.layout.column.ty, cells, values, nulls);
            }
            (Parser::Value, values) => convert_values(self.layout.column.ty, cells, values, nulls),
            _ => unreachable!("a parsed batch has the layout of its parsers"),
        }
    }
}

/// The bounds of a type, and the conversion of a number within them to the stored bits.
macro_rules! within {
    ($ty:ty, $bits:ty) => {{
        let (min, max) = (<$ty>::MIN as i64, <$ty>::MAX as i64);
        let bounds = Bounds { min, max, zeros: Zeros::Plain };
        (bounds, |number: i64| number as $bits)
    }};
}

/// Plain digits for an unsigned type of 64 bits.
const NOT_NEGATIVE: Bounds = Bounds { min: 0, max: i64::MAX, zeros: Zeros::Plain };
/// A guessed BIGINT (exact-1).
const EXACT: Bounds = Bounds { min: i64::MIN, max: i64::MAX, zeros: Zeros::NotPlain };

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`parse_integers` narrows what is within the bounds"
)]
fn convert_values(
    ty: ColumnType,
    cells: &mut Cells<'_>,
    values: &mut Values,
    nulls: &mut Vec<u32>,
) {
    match (ty, values) {
        (ColumnType::Boolean, Values::W1(v)) => {
            cells.parse_cells(v, nulls, |text| parse::parse_bool(text).map(u8::from));
        }
        (ColumnType::Int8, Values::W1(v)) => {
            let (bounds, narrow) = within!(i8, u8);
            cells.parse_integers(v, nulls, bounds, narrow, |text| {
                parse::parse_i8(text).map(i8::cast_unsigned)
            });
        }
        (ColumnType::Int16, Values::W2(v)) => {
            let (bounds, narrow) = within!(i16, u16);
            cells.parse_integers(v, nulls, bounds, narrow, |text| {
                parse::parse_i16(text).map(i16::cast_unsigned)
            });
        }
        (ColumnType::Int32, Values::W4(v)) => {
            let (bounds, narrow) = within!(i32, u32);
            cells.parse_integers(v, nulls, bounds, narrow, |text| {
                parse::parse_i32(text).map(i32::cast_unsigned)
            });
        }
        (ColumnType::Int64, Values::W8(v)) => {
            let (bounds, narrow) = within!(i64, u64);
            cells.parse_integers(v, nulls, bounds, narrow, |text| {
                parse::parse_i64(text).map(i64::cast_unsigned)
            });
        }
        (ColumnType::UInt8, Values::W1(v)) => {
            let (bounds, narrow) = within!(u8, u8);
            cells.parse_integers(v, nulls, bounds, narrow, parse::parse_u8);
        }
        (ColumnType::UInt16, Values::W2(v)) => {
            let (bounds, narrow) = within!(u16, u16);
            cells.parse_integers(v, nulls, bounds, narrow, parse::parse_u16);
        }
        (ColumnType::UInt32, Values::W4(v)) => {
            let (bounds, narrow) = within!(u32, u32);
            cells.parse_integers(v, nulls, bounds, narrow, parse::parse_u32);
        }
        (ColumnType::UInt64, Values::W8(v)) => {
            cells.parse_integers(v, nulls, NOT_NEGATIVE, i64::cast_unsigned, parse::parse_u64)
        }
        (ColumnType::Float32, Values::W4(v)) => {
            cells.parse_cells(v, nulls, |text| parse::parse_f32(text).map(f32::to_bits));
        }
        (ColumnType::Float64, Values::W8(v)) => {
            cells.parse_cells(v, nulls, |text| parse::parse_f64(text).map(f64::to_bits));
        }
        (ColumnType::Decimal { precision, scale }, Values::W16(v)) => {
            cells.parse_cells(v, nulls, |text| {
                parse::parse_decimal(text, precision, scale).map(i128::cast_unsigned)
            });
        }
        (ColumnType::Uuid, Values::W16(v)) => {
            cells.parse_cells(v, nulls, |text| parse::parse_uuid(text).map(u128::from_le_bytes));
        }
        (ColumnType::Ipv4, Values::W4(v)) => cells.parse_cells(v, nulls, parse::parse_ipv4),
        _ => unreachable!("a parsed batch has the layout of its parsers"),
    }
}

/// Does the work of `convert_values` for a type that is a guess (exact-1).
fn convert_guessed(
    ty: ColumnType,
    cells: &mut Cells<'_>,
    values: &mut Values,
    nulls: &mut Vec<u32>,
) {
    match (ty, values) {
        (ColumnType::Boolean, Values::W1(v)) => {
            cells.parse_cells(v, nulls, |text| exact::exact_bool(text).map(u8::from));
        }
        (ColumnType::Int64, Values::W8(v)) => {
            cells.parse_integers(v, nulls, EXACT, i64::cast_unsigned, |text| {
                exact::exact_i64(text).map(i64::cast_unsigned)
            });
        }
        (ColumnType::Float64, Values::W8(v)) => {
            cells.parse_cells(v, nulls, |text| exact::exact_f64(text).map(f64::to_bits));
        }
        (ColumnType::Uuid, Values::W16(v)) => {
            cells.parse_cells(v, nulls, |text| exact::exact_uuid(text).map(u128::from_le_bytes));
        }
        (ty, values) => convert_values(ty, cells, values, nulls),
    }
}

impl TextColumn {
    fn convert(&mut self, cells: &mut Cells<'_>, texts: &mut Vec<Cell>) {
        // The previous text and its cell: neighbours are often equal.
        let mut previous: (&[u8], Cell) = (&[], Cell::NULL);
        for (row, &place) in cells.rows.rows.iter().enumerate() {
            let (start, end) = cells.bounds(place);
            let field = match cells.field(start, end) {
                Field::Empty if self.empty_fields == EmptyFields::Quoted => {
                    Field::Plain(&[], start)
                }
                field => field,
            };
            let cell = match field {
                Field::Null | Field::Empty => Cell::NULL,
                Field::Plain([], _) if self.is_binary => Cell::NULL,
                Field::Plain(text, _) if text == previous.0 && previous.1 != Cell::NULL => {
                    previous.1
                }
                Field::Plain(text, start) if !self.is_binary => {
                    let cell = self.cell(cells, row, text, Place::Chunk(start, text.len()));
                    previous = (text, cell);
                    cell
                }
                Field::Plain(text, _) => self.binary(cells, row, text),
                Field::Doubled(inner) => self.doubled(cells, row, inner),
                Field::Bad => {
                    cells.add_error(row, Reason::TextAfterQuote);
                    Cell::NULL
                }
            };
            texts.push(cell);
        }
    }

    /// The cell of a text that stands at `place`.
    #[inline]
    fn cell(&mut self, cells: &mut Cells<'_>, row: usize, text: &[u8], place: Place) -> Cell {
        let is_valid = cells.rows.is_checked && text.len() <= self.bytes_unchecked;
        if !is_valid && let Err(error) = self.check(text) {
            cells.add_error(row, Reason::Cell(error));
            return Cell::NULL;
        }
        self.number(text).map_or_else(|| Cell::at(place), Cell::interned)
    }

    #[cold]
    fn doubled(&mut self, cells: &mut Cells<'_>, row: usize, inner: &[u8]) -> Cell {
        let mut text = Vec::new();
        cells.undouble(inner, &mut text);
        if self.is_binary {
            return self.binary(cells, row, &text);
        }
        let start = cells.unescaped.len();
        cells.unescaped.extend_from_slice(&text);
        let place = Place::Unescaped(start, text.len());
        let cell = self.cell(cells, row, &text, place);
        if cell != Cell::at(place) {
            cells.unescaped.truncate(start);
        }
        cell
    }

    fn binary(&mut self, cells: &mut Cells<'_>, row: usize, text: &[u8]) -> Cell {
        let start = cells.unescaped.len();
        if let Err(error) = parse::parse_binary(text, cells.unescaped) {
            cells.unescaped.truncate(start);
            cells.add_error(row, Reason::Cell(error));
            return Cell::NULL;
        }
        Cell::at(Place::Unescaped(start, cells.unescaped.len() - start))
    }
}
