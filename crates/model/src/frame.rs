//! Page frames: the input of every kernel, whether the rows are in a segment or in memory.
//!
//! - frame-1. Every column has exactly `rows` values, and `rows` is at most `limits::FRAME_ROWS`.
//! - Rows are in timestamp order.
//! - frame-2. Where a column has a validity bitmap, the code under a null is 0 and never counts.
//!
//! Values stay encoded; codes are little-endian byte arrays, so that a slice of a mapped file is
//! one. Not here: decoding (`storage::decode`) and filtering (`filter`).

use crate::ids::SymbolId;
use crate::limits;
use crate::rows::RowCount;
use crate::types::ColumnType;

/// Some columns of at most `limits::FRAME_ROWS` rows.
#[derive(Debug, Clone)]
pub struct PageFrame<'a> {
    rows: usize,
    columns: Vec<ColumnSlice<'a>>,
}

/// The values of one column in one page frame.
#[derive(Debug, Clone)]
pub struct ColumnSlice<'a> {
    /// The type of the values.
    pub ty: ColumnType,
    /// Number of values.
    pub rows: usize,
    /// A bit for each row, least significant first, set where there is a value; `None` if all rows
    /// have one.
    pub validity: Option<&'a [u8]>,
    /// The values.
    pub encoded: Encoded<'a>,
    /// Zone bounds, one entry per `limits::ZONE_ROWS` rows; empty for in-memory segments.
    pub zones: &'a [[u8; crate::layout::ZONE_BYTES]],
}

/// Values in their encoding: docs/format.md, Encodings.
#[derive(Debug, Clone)]
pub enum Encoded<'a> {
    /// Every row is NULL.
    Null,
    /// Every row has this value: an integer, the bits of a float, a boolean, sixteen bytes.
    Constant(i128),
    /// `base + step * code`, wrapping in the width of the type.
    Narrow {
        /// The value of code 0.
        base: i128,
        /// The difference between the values of two consecutive codes.
        step: u64,
        /// One code for each row.
        codes: Codes<'a>,
    },
    /// Floats that are `(base + code) / 10^scale`, except the exceptions.
    Decimal {
        /// The scaled value of code 0.
        base: i64,
        /// The power of ten.
        scale: u8,
        /// One code for each row.
        codes: Codes<'a>,
        /// Rows that are not such decimals, ascending.
        exception_rows: &'a [[u8; 4]],
        /// Their values, as bits of a DOUBLE.
        exception_values: &'a [[u8; 8]],
    },
    /// Codes into the segment's list of values, which is sorted.
    Dictionary {
        /// One code for each row.
        codes: Codes<'a>,
        /// The values of the codes.
        dictionary: Dictionary<'a>,
    },
    /// A bit for each row, least significant first.
    Bits(&'a [u8]),
    /// Values of a fixed width, contiguous.
    Fixed {
        /// 1, 2, 4, 8 or 16 bytes for each value.
        width: usize,
        /// `rows * width` bytes.
        bytes: &'a [u8],
    },
    /// Strings of any length.
    Strings(Strings<'a>),
}

/// Contiguous strings: value `i` is `bytes[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, Copy)]
pub struct Strings<'a> {
    /// One more than there are strings.
    pub offsets: &'a [[u8; 4]],
    /// The strings, each compressed on its own if there is a table.
    pub bytes: &'a [u8],
    /// The FSST symbol table: docs/format.md, Strings.
    pub table: Option<&'a [u8]>,
}

/// The values of dictionary codes.
#[derive(Debug, Clone, Copy)]
pub enum Dictionary<'a> {
    /// Strings, sorted by bytes.
    Strings(Strings<'a>),
    /// Ids of the table's symbol dictionary, sorted by their text.
    Symbols(&'a [[u8; 4]]),
}

/// Codes of one width.
#[derive(Debug, Clone, Copy)]
pub enum Codes<'a> {
    /// Every row has this code; no byte is stored.
    Same(u32),
    /// Every row's code is its number in the page frame; no byte is stored.
    Sequence,
    /// A bit for each row, least significant first: codes 0 and 1.
    Bits(&'a [u8]),
    /// A byte for each row.
    U8(&'a [u8]),
    /// Two bytes for each row.
    U16(&'a [[u8; 2]]),
    /// Four bytes for each row.
    U32(&'a [[u8; 4]]),
    /// Eight bytes for each row.
    U64(&'a [[u8; 8]]),
}

impl RowCount {
    /// Number of page frames that this many rows fill, the last one perhaps in part.
    #[must_use]
    pub fn frames(self) -> u64 {
        self.0.div_ceil(limits::FRAME_ROWS.0)
    }
}

impl<'a> PageFrame<'a> {
    /// A page frame of these columns.
    ///
    /// # Panics
    /// If frame-1 does not hold.
    #[must_use]
    pub fn new(rows: usize, columns: Vec<ColumnSlice<'a>>) -> PageFrame<'a> {
        assert!(rows as u64 <= limits::FRAME_ROWS.0, "frame-1");
        for column in &columns {
            assert_eq!(column.rows, rows, "frame-1");
        }
        PageFrame { rows, columns }
    }

    /// Number of rows of every column.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns in the order requested.
    #[must_use]
    pub fn columns(&self) -> &[ColumnSlice<'a>] {
        &self.columns
    }
}

impl<'a> ColumnSlice<'a> {
    /// A column that the segment does not contain: all NULL.
    #[must_use]
    pub fn null(ty: ColumnType, rows: usize) -> ColumnSlice<'a> {
        ColumnSlice { ty, rows, validity: None, encoded: Encoded::Null, zones: &[] }
    }

    /// Returns true if the row has a value.
    #[must_use]
    pub fn is_valid(&self, row: usize) -> bool {
        match (&self.encoded, self.validity) {
            (Encoded::Null, _) => false,
            (_, Some(bits)) => bits[row / 8] >> (row % 8) & 1 == 1,
            (_, None) => true,
        }
    }
}

impl<'a> Codes<'a> {
    /// Codes of `width` bytes in `bytes`; `None` if the width is invalid, or bytes are left over.
    #[must_use]
    pub fn new(width: u8, bytes: &'a [u8]) -> Option<Codes<'a>> {
        fn whole<const N: usize>(bytes: &[u8]) -> Option<&[[u8; N]]> {
            let (codes, rest) = bytes.as_chunks::<N>();
            rest.is_empty().then_some(codes)
        }
        match width {
            1 => Some(Codes::U8(bytes)),
            2 => whole(bytes).map(Codes::U16),
            4 => whole(bytes).map(Codes::U32),
            8 => whole(bytes).map(Codes::U64),
            _ => None,
        }
    }

    /// The code of a row. For single rows; kernels match once and loop over the slice.
    #[must_use]
    pub fn at(&self, row: usize) -> u64 {
        match self {
            Codes::Same(code) => u64::from(*code),
            Codes::Sequence => row as u64,
            Codes::Bits(bits) => u64::from(bits[row / 8] >> (row % 8) & 1),
            Codes::U8(codes) => u64::from(codes[row]),
            Codes::U16(codes) => u64::from(u16::from_le_bytes(codes[row])),
            Codes::U32(codes) => u64::from(u32::from_le_bytes(codes[row])),
            Codes::U64(codes) => u64::from_le_bytes(codes[row]),
        }
    }
}

impl<'a> Strings<'a> {
    /// Number of strings.
    #[must_use]
    pub fn count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The stored bytes of a string, compressed if there is a table; empty where the offsets are
    /// not those of `bytes`, which only a damaged file can have.
    #[must_use]
    pub fn stored(&self, index: usize) -> &'a [u8] {
        let at = |i: usize| u32::from_le_bytes(self.offsets[i]) as usize;
        self.bytes.get(at(index)..at(index + 1)).unwrap_or_default()
    }
}

impl Dictionary<'_> {
    /// Number of values.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Dictionary::Strings(strings) => strings.count(),
            Dictionary::Symbols(ids) => ids.len(),
        }
    }

    /// The symbol of a code.
    ///
    /// # Panics
    /// If it is not a dictionary of symbols, or the code is not in it.
    #[must_use]
    pub fn symbol(&self, code: usize) -> SymbolId {
        match self {
            Dictionary::Symbols(ids) => SymbolId(u32::from_le_bytes(ids[code])),
            Dictionary::Strings(_) => panic!("a symbol column's dictionary holds symbols"),
        }
    }
}
