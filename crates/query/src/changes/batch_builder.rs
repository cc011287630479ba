//! The conversion of Arrow batches to row batches of the storage.
//!
//! - Arrays have the types of the columns that they are stored in: `plan::rows` casts them.

use std::collections::HashMap;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampNanosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use tidegate_model::{Column, ColumnId, ColumnType, TextLength, TimeUnit, limits};
use tidegate_storage::segment::arrow_type;
use tidegate_storage::{BatchColumn, BatchTexts, BatchValues, RowBatch};

use crate::error::{Error, Result, TextProblem};
use crate::limits::BATCH_BYTES_MAX;

const _: () = assert!(2 * BATCH_BYTES_MAX < limits::WAL_RECORD_BYTES);

/// Rows that are buffered until they are written.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    /// The column that must not be NULL.
    designated: Option<ColumnId>,
    lengths: Vec<TextLength>,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    bytes: usize,
}

#[derive(Debug)]
struct ColumnBuilder {
    column: Column,
    values: BatchValues,
    /// One bit per row; `None` until the first NULL.
    validity: Option<Vec<u64>>,
    /// The code of each text of a SYMBOL column.
    codes: HashMap<Box<[u8]>, u32>,
    has_value: bool,
}

impl BatchBuilder {
    pub(crate) fn new(columns: &[Column], designated: Option<ColumnId>) -> BatchBuilder {
        let columns = columns.iter().map(|column| ColumnBuilder::new(column.clone())).collect();
        BatchBuilder { designated, lengths: Vec::new(), columns, rows: 0, bytes: 0 }
    }

    /// Sets the maximal lengths of VARCHAR columns.
    pub(crate) fn with_lengths(self, lengths: &[TextLength]) -> BatchBuilder {
        BatchBuilder { lengths: lengths.to_vec(), ..self }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// True if the rows must be written before more are added.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES_MAX || self.rows as u64 >= limits::SEGMENT_ROWS.0 / 4
    }

    /// Adds the rows of a batch, whose first columns are those of the builder.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        for (builder, array) in self.columns.iter_mut().zip(batch.columns()) {
            if Some(builder.column.id) == self.designated && array.null_count() > 0 {
                let column = builder.column.name.clone();
                return Err(Error::TimestampMissing { position: None, column });
            }
            let id = builder.column.id;
            if let Some(length) = self.lengths.iter().find(|length| length.column == id) {
                check_length(array, *length)?;
            }
            self.bytes += builder.push(array, self.rows)?;
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Takes the rows out.
    pub(crate) fn take(&mut self) -> RowBatch {
        let columns = self.columns.iter().map(|builder| builder.column.clone()).collect::<Vec<_>>();
        let empty = BatchBuilder::new(&columns, self.designated).with_lengths(&self.lengths);
        let full = std::mem::replace(self, empty);
        let columns = full.columns.into_iter().filter(|builder| builder.has_value);
        RowBatch::new(full.rows, columns.map(ColumnBuilder::finish).collect())
    }
}

/// The approximate bytes of a batch's arrays.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    let texts = |array: &ArrayRef| match array.data_type() {
        ty if *ty == arrow_type(ColumnType::Varchar) => {
            array.as_string_view().iter().flatten().map(str::len).sum()
        }
        ty if *ty == arrow_type(ColumnType::Binary) => {
            array.as_binary_view().iter().flatten().map(<[u8]>::len).sum()
        }
        _ => array.len() * 16,
    };
    batch.columns().iter().map(texts).sum()
}

impl ColumnBuilder {
    fn new(column: Column) -> ColumnBuilder {
        let values = match column.ty {
            ColumnType::Boolean => BatchValues::Bits(Vec::new()),
            ColumnType::Int8 => BatchValues::I8(Vec::new()),
            ColumnType::Int16 => BatchValues::I16(Vec::new()),
            ColumnType::Int32 | ColumnType::Date => BatchValues::I32(Vec::new()),
            ColumnType::Int64 | ColumnType::Timestamp(_) => BatchValues::I64(Vec::new()),
            ColumnType::UInt8 => BatchValues::U8(Vec::new()),
            ColumnType::UInt16 => BatchValues::U16(Vec::new()),
            ColumnType::UInt32 | ColumnType::Ipv4 => BatchValues::U32(Vec::new()),
            ColumnType::UInt64 => BatchValues::U64(Vec::new()),
            ColumnType::Float32 => BatchValues::F32(Vec::new()),
            ColumnType::Float64 => BatchValues::F64(Vec::new()),
            ColumnType::Decimal { .. } => BatchValues::I128(Vec::new()),
            ColumnType::Uuid => BatchValues::Fixed16(Vec::new()),
            ColumnType::Varchar | ColumnType::Binary => BatchValues::Texts(BatchTexts::default()),
            ColumnType::Symbol => {
                BatchValues::Symbols { codes: Vec::new(), texts: BatchTexts::default() }
            }
        };
        ColumnBuilder { column, values, validity: None, codes: HashMap::new(), has_value: false }
    }

    fn finish(self) -> BatchColumn {
        let ColumnBuilder { column, values, validity, .. } = self;
        BatchColumn { name: column.name, ty: column.ty, values, validity }
    }

    /// Adds the values of an array after the first `rows` rows, and returns their bytes.
    fn push(&mut self, array: &ArrayRef, rows: usize) -> Result<usize> {
        let ty = arrow_type(self.column.ty);
        let array = if *array.data_type() == ty {
            array
        } else {
            &cast(array, &ty).map_err(datafusion::common::DataFusionError::from)?
        };
        self.push_validity(array, rows);
        self.has_value |= array.null_count() < array.len();
        Ok(match (&mut self.values, self.column.ty) {
            (BatchValues::Bits(values), _) => {
                values.extend(array.as_boolean().values().iter().map(u8::from));
                array.len()
            }
            (BatchValues::I8(values), _) => extend::<Int8Type>(values, array),
            (BatchValues::I16(values), _) => extend::<Int16Type>(values, array),
            (BatchValues::I32(values), ColumnType::Date) => extend::<Date32Type>(values, array),
            (BatchValues::I32(values), _) => extend::<Int32Type>(values, array),
            (BatchValues::I64(values), ColumnType::Timestamp(TimeUnit::Micros)) => {
                extend::<TimestampMicrosecondType>(values, array)
            }
            (BatchValues::I64(values), ColumnType::Timestamp(TimeUnit::Nanos)) => {
                extend::<TimestampNanosecondType>(values, array)
            }
            (BatchValues::I64(values), _) => extend::<Int64Type>(values, array),
            (BatchValues::U8(values), _) => extend::<UInt8Type>(values, array),
            (BatchValues::U16(values), _) => extend::<UInt16Type>(values, array),
            (BatchValues::U32(values), _) => extend::<UInt32Type>(values, array),
            (BatchValues::U64(values), _) => extend::<UInt64Type>(values, array),
            (BatchValues::F32(values), _) => extend::<Float32Type>(values, array),
            (BatchValues::F64(values), _) => extend::<Float64Type>(values, array),
            (BatchValues::I128(values), _) => extend::<Decimal128Type>(values, array),
            (BatchValues::Fixed16(values), _) => {
                let bytes = array.as_fixed_size_binary();
                let value = |row| <[u8; 16]>::try_from(bytes.value(row)).expect("sixteen bytes");
                values.extend((0..array.len()).map(value));
                array.len() * 16
            }
            (BatchValues::Texts(texts), ColumnType::Binary) => {
                let values = array.as_binary_view().iter();
                push_texts(texts, &self.column, values)?
            }
            (BatchValues::Texts(texts), _) => {
                let values = array.as_string_view().iter();
                push_texts(texts, &self.column, values.map(|text| text.map(str::as_bytes)))?
            }
            (BatchValues::Symbols { codes, texts }, _) => {
                let (before, count) = (texts.bytes.len(), array.len());
                for text in array.as_string_view() {
                    // The value under a NULL does not matter.
                    let Some(text) = text.map(str::as_bytes) else {
                        codes.push(0);
                        continue;
                    };
                    let code = self.codes.get(text).copied().unwrap_or_else(|| {
                        let code = u32::try_from(texts.len()).expect("fewer than rows");
                        texts.push(text);
                        self.codes.insert(text.into(), code);
                        code
                    });
                    codes.push(code);
                }
                // Each text is stored twice, in `texts` and in `self.codes`.
                count * 4 + 2 * (texts.bytes.len() - before)
            }
        })
    }

    fn push_validity(&mut self, array: &ArrayRef, rows: usize) {
        if self.validity.is_none() && array.null_count() == 0 {
            return;
        }
        let words = self.validity.get_or_insert_with(|| {
            let mut words = vec![u64::MAX; rows / 64];
            words.push((1 << (rows % 64)) - 1);
            words
        });
        words.resize((rows + array.len()).div_ceil(64), 0);
        for at in 0..array.len() {
            let row = rows + at;
            words[row / 64] |= u64::from(array.is_valid(at)) << (row % 64);
        }
    }
}

fn extend<T: ArrowPrimitiveType>(values: &mut Vec<T::Native>, array: &ArrayRef) -> usize {
    let array = array.as_primitive::<T>().values();
    values.extend_from_slice(array);
    std::mem::size_of_val::<[T::Native]>(array)
}

fn check_length(array: &ArrayRef, length: TextLength) -> Result<()> {
    let array = cast(array, &arrow_type(ColumnType::Varchar));
    let array = array.map_err(datafusion::common::DataFusionError::from)?;
    let mut texts = array.as_string_view().iter().flatten();
    match texts.find(|text| length.is_exceeded_by(text.as_bytes())) {
        None => Ok(()),
        Some(text) => {
            let reason = TextProblem::TooLong { length: length.max.into() };
            let (text, ty) = (text.to_owned(), ColumnType::Varchar);
            Err(Error::BadText { position: None, text, ty, reason })
        }
    }
}

/// Adds texts, and returns their bytes.
fn push_texts<'a>(
    texts: &mut BatchTexts,
    column: &Column,
    values: impl Iterator<Item = Option<&'a [u8]>>,
) -> Result<usize> {
    let (before, count) = (texts.bytes.len(), texts.len());
    for value in values {
        let value = value.unwrap_or_default();
        if value.len() > limits::VALUE_BYTES {
            let (column, bytes) = (column.name.clone(), value.len());
            return Err(Error::ValueTooLong { column, bytes });
        }
        texts.push(value);
    }
    Ok(texts.bytes.len() - before + 4 * (texts.len() - count))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int32Array, StringViewArray};

    use super::*;

    fn column(id: u32, name: &str, ty: ColumnType) -> Column {
        Column { id: ColumnId(id), name: name.to_owned(), ty }
    }

    #[test]
    fn nulls_are_marked_from_the_first_one_on() {
        let columns = [column(0, "a", ColumnType::Int32), column(1, "s", ColumnType::Symbol)];
        let mut builder = BatchBuilder::new(&columns, None);
        let texts = ["x", "y", "x"].map(Some);
        for (numbers, texts) in [
            (vec![Some(1); 3], texts.to_vec()),
            (vec![Some(2), None], vec![None, Some("y")]),
            (vec![Some(3); 70], vec![Some("z"); 70]),
        ] {
            let numbers = Arc::new(Int32Array::from(numbers)) as ArrayRef;
            let texts = Arc::new(StringViewArray::from(texts)) as ArrayRef;
            builder
                .push(&RecordBatch::try_from_iter([("a", numbers), ("s", texts)]).unwrap())
                .unwrap();
        }
        let batch = builder.take();
        assert_eq!((batch.rows(), builder.rows()), (75, 0));
        let [a, s] = batch.columns() else { panic!("two columns") };
        assert_eq!(a.validity, Some(vec![!(1 << 4), 0x7FF]));
        assert_eq!(s.validity, Some(vec![!(1 << 3), 0x7FF]));
        let BatchValues::Symbols { codes, texts } = &s.values else { panic!("symbols") };
        assert_eq!((&codes[..6], texts.len()), (&[0, 1, 0, 0, 1, 2][..], 3));
    }

    #[test]
    fn a_column_without_a_value_is_left_out_and_a_time_cannot_be_missing() {
        let columns = [column(0, "a", ColumnType::Int32)];
        let nulls = Arc::new(Int32Array::from(vec![None; 2])) as ArrayRef;
        let nulls = RecordBatch::try_from_iter([("a", nulls)]).unwrap();
        let mut builder = BatchBuilder::new(&columns, None);
        builder.push(&nulls).unwrap();
        let batch = builder.take();
        assert_eq!((batch.rows(), batch.columns().len()), (2, 0));
        let error = BatchBuilder::new(&columns, Some(ColumnId(0))).push(&nulls).unwrap_err();
        assert_eq!(error.to_string(), "column `a` is the designated timestamp, and cannot be NULL");
    }
}
