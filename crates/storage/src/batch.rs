//! Batches of rows to be written to a table, column by column, in the order of arrival.
//!
//! - storage_batch-1. Every column has exactly `rows` values, and a validity of as many bits if it
//!   has one.
//! - storage_batch-2. The value under a NULL is one of the type, and is ignored.
//!
//! A batch has names and types, but no table: its writer maps names to columns, and creates missing
//! ones. Not here: encoding (`mem_segment`), committing (`database`).

use tidegate_model::{ColumnType, types::Physical};

/// A batch of rows to be written to a table.
#[derive(Debug, Clone, Default)]
pub struct RowBatch {
    rows: usize,
    columns: Vec<BatchColumn>,
}

/// The values of one column.
#[derive(Debug, Clone)]
pub struct BatchColumn {
    /// The column's name, in any case.
    pub name: String,
    /// The type of the values.
    pub ty: ColumnType,
    /// One value for each row (storage_batch-1).
    pub values: BatchValues,
    /// A bit for each row, least significant first, set where there is a value; `None` if all rows
    /// have one.
    pub validity: Option<Vec<u64>>,
}

/// Values in memory, by the physical type of their column.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the types; FrameValues says which")]
pub enum BatchValues {
    /// BOOLEAN: 0 or 1.
    Bits(Vec<u8>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Fixed16(Vec<[u8; 16]>),
    /// VARCHAR, BINARY: contiguous strings.
    Texts(BatchTexts),
    /// SYMBOL: codes of distinct strings, which may be in any order.
    Symbols {
        /// One code for each row: a position in `texts`.
        codes: Vec<u32>,
        /// Each string once.
        texts: BatchTexts,
    },
}

/// Contiguous strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchTexts {
    /// The end of each string in `bytes`.
    pub ends: Vec<u32>,
    /// The bytes of all strings.
    pub bytes: Vec<u8>,
}

impl BatchTexts {
    /// Appends a string.
    ///
    /// # Panics
    /// If all strings together have 4 GiB: `limits::WAL_RECORD_BYTES` limits a batch to far less.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(self.bytes.len()).expect("a batch is below 4 GiB"));
    }

    /// Number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`.
    ///
    /// # Panics
    /// If `index` is not below `len`.
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }
}

impl RowBatch {
    /// A batch of these columns.
    ///
    /// # Panics
    /// If storage_batch-1 does not hold, or values are not of their column's physical type.
    #[must_use]
    pub fn new(rows: usize, columns: Vec<BatchColumn>) -> RowBatch {
        for column in &columns {
            assert_eq!(column.values.len(), rows, "storage_batch-1: column {}", column.name);
            let bits = column.validity.as_ref().map_or(rows, |words| words.len() * 64);
            assert!(bits >= rows, "storage_batch-1: validity of column {}", column.name);
            assert!(column.values.fits(column.ty), "values of column {}", column.name);
        }
        RowBatch { rows, columns }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns, in the order of their first appearance.
    #[must_use]
    pub fn columns(&self) -> &[BatchColumn] {
        &self.columns
    }

    /// The columns, consuming the batch.
    #[must_use]
    pub fn into_columns(self) -> Vec<BatchColumn> {
        self.columns
    }
}

impl BatchValues {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            BatchValues::Bits(values) | BatchValues::U8(values) => values.len(),
            BatchValues::I8(values) => values.len(),
            BatchValues::I16(values) => values.len(),
            BatchValues::I32(values) => values.len(),
            BatchValues::I64(values) => values.len(),
            BatchValues::U16(values) => values.len(),
            BatchValues::U32(values) => values.len(),
            BatchValues::U64(values) => values.len(),
            BatchValues::I128(values) => values.len(),
            BatchValues::F32(values) => values.len(),
            BatchValues::F64(values) => values.len(),
            BatchValues::Fixed16(values) => values.len(),
            BatchValues::Texts(texts) => texts.len(),
            BatchValues::Symbols { codes, .. } => codes.len(),
        }
    }

    /// Returns true if there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn fits(&self, ty: ColumnType) -> bool {
        match (self, ty.physical()) {
            (BatchValues::Symbols { .. }, _) => ty == ColumnType::Symbol,
            (BatchValues::Texts(_), Physical::Bytes) => ty != ColumnType::Symbol,
            (BatchValues::Bits(_), Physical::Bit)
            | (BatchValues::I8(_), Physical::Signed(1))
            | (BatchValues::I16(_), Physical::Signed(2))
            | (BatchValues::I32(_), Physical::Signed(4))
            | (BatchValues::I64(_), Physical::Signed(8))
            | (BatchValues::U8(_), Physical::Unsigned(1))
            | (BatchValues::U16(_), Physical::Unsigned(2))
            | (BatchValues::U32(_), Physical::Unsigned(4))
            | (BatchValues::U64(_), Physical::Unsigned(8))
            | (BatchValues::I128(_), Physical::Wide)
            | (BatchValues::F32(_), Physical::Float32)
            | (BatchValues::F64(_), Physical::Float64)
            | (BatchValues::Fixed16(_), Physical::Fixed16) => true,
            _ => false,
        }
    }
}
