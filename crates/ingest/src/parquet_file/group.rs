//! Reading one row group as arrays for the columns of the table.
//!
//! - parquet_file_group-1. Reading any bytes gives rows or a `Flaw`: panics of the library are
//!   caught here. The flaw names the column, if it can be found.
//! - parquet_file_group-2. A row group has the rows that its metadata declares, or is damaged.
//!
//! Texts are read as bytes, so that one that is not UTF-8 is a bad cell and does not end the
//! import. INT96 is read here and not by the library, which lets instants beyond its range wrap.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal128Array};
use arrow::datatypes::{DataType, Field, Fields};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{Int96, Int96Type};
use parquet::errors::Result;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::parquet_flaw::Flaw;

use super::cast::Kind;
use super::columns::{ColumnCast, plain_type};
use super::pages::{GroupMemory, GroupPages, MeasuredColumn};
use super::source::ParquetSource;

/// An open file.
pub(super) struct ParquetFile {
    pub(super) path: PathBuf,
    pub(super) source: ParquetSource,
    pub(super) metadata: Arc<ParquetMetaData>,
    /// The file's columns, by the types of the writer.
    pub(super) fields: Fields,
    /// For each column of the table, the column of the file.
    pub(super) columns: Vec<Option<FileColumn>>,
    /// The schema in which texts are bytes.
    pub(super) plain: SchemaDescriptor,
    /// The rows that are decoded at a time.
    pub(super) batch_rows: usize,
    /// The maximum bytes of a page.
    pub(super) page_bytes_max: u64,
    /// The bytes of pages that a batch may need beside the pages that are in memory anyway.
    pub(super) batch_bytes_max: u64,
}

/// A column of a file that goes into one of the table.
#[derive(Debug, Clone)]
pub(super) struct FileColumn {
    /// Its position among the file's columns, and among those with values.
    pub(super) field: usize,
    pub(super) leaf: usize,
    pub(super) cast: ColumnCast,
    pub(super) read_as: ReadAs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadAs {
    /// Read by the library, as this type.
    Arrow(DataType),
    Int96,
}

/// The reader of one row group; several threads read the row groups of a file.
pub(super) struct GroupReader<'a> {
    file: &'a ParquetFile,
    /// The positions of the table's columns that the library reads, in the order of its batches.
    in_batches: Vec<usize>,
    batches: ParquetRecordBatchReader,
    int96: Vec<(usize, ColumnReaderImpl<Int96Type>)>,
    batch_rows: usize,
    /// The number of rows that the metadata declares, and of those still to come.
    rows: u64,
    rows_left: u64,
}

/// Some rows: for each column of the table, its array, if the file has the column.
pub(super) struct GroupBatch {
    pub(super) rows: usize,
    pub(super) arrays: Vec<Option<ArrayRef>>,
}

impl ParquetFile {
    /// The rows that the metadata declares for a group.
    pub(super) fn rows_of(&self, group: usize) -> i64 {
        self.metadata.row_group(group).num_rows()
    }

    /// The name of the file's column that goes into a column of the table.
    pub(super) fn name_of(&self, column: usize) -> Option<&str> {
        let own = self.columns[column].as_ref()?;
        Some(self.fields[own.field].name())
    }

    /// The memory that decoding these columns of the table in a row group takes.
    pub(super) fn memory_of(&self, group: usize, columns: &[usize]) -> GroupMemory {
        let own = columns.iter().filter_map(|&column| self.columns[column].as_ref());
        let measured = own.map(|own| MeasuredColumn {
            leaf: own.leaf,
            is_text: own.read_as == ReadAs::Arrow(DataType::BinaryView),
        });
        let measure =
            || Ok(self.pages(group).memory(measured, self.batch_rows, self.batch_bytes_max));
        // Damage is found when the row group is decoded.
        let none = GroupMemory { bytes: 0, batch_rows: self.batch_rows };
        guarded(measure).unwrap_or(none)
    }

    fn pages(&self, group: usize) -> GroupPages {
        let (source, metadata) = (self.source.clone(), Arc::clone(&self.metadata));
        GroupPages { source, metadata, group, page_bytes_max: self.page_bytes_max }
    }

    /// Begins to read a row group, with only these columns of the table.
    pub(super) fn group(
        &self,
        group: usize,
        columns: &[usize],
    ) -> std::result::Result<GroupReader<'_>, Flaw> {
        guarded(|| GroupReader::new(self, group, columns).map_err(|e| Flaw::of_library(&e)))
    }

    /// The first column of a row group that cannot be read, and its flaw: a search after a failure
    /// that does not name the column.
    pub(super) fn flawed_column(&self, group: usize) -> Option<(String, Flaw)> {
        let columns = self.columns.iter().enumerate().filter(|(_, own)| own.is_some());
        columns.map(|(column, _)| column).find_map(|column| {
            let flaw = self.drain(group, column).err()?;
            Some((self.name_of(column).unwrap_or_default().to_owned(), flaw))
        })
    }

    fn drain(&self, group: usize, column: usize) -> std::result::Result<(), Flaw> {
        let mut reader = self.group(group, &[column])?;
        while reader.next()?.is_some() {}
        Ok(())
    }

    fn levels(&self, columns: &[usize]) -> Result<FieldLevels> {
        let mut fields: Vec<Arc<Field>> = self.fields.iter().cloned().collect();
        let mut leaves = Vec::new();
        for own in columns.iter().filter_map(|&column| self.columns[column].as_ref()) {
            if let ReadAs::Arrow(ty) = &own.read_as {
                let field = Field::clone(&fields[own.field]).with_data_type(ty.clone());
                fields[own.field] = Arc::new(field);
                leaves.push(own.leaf);
            }
        }
        let mask = ProjectionMask::leaves(&self.plain, leaves);
        parquet_to_arrow_field_levels(&self.plain, mask, Some(&fields.into()))
    }
}

impl<'a> GroupReader<'a> {
    fn new(file: &'a ParquetFile, group: usize, columns: &[usize]) -> Result<GroupReader<'a>> {
        let pages = file.pages(group);
        let rows = u64::try_from(file.rows_of(group)).map_err(|_| Flaw::Metadata)?;
        let levels = file.levels(columns)?;
        let batch_rows = file.memory_of(group, columns).batch_rows;
        let batches =
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, &pages, batch_rows, None)?;
        let (mut in_batches, mut int96) = (Vec::new(), Vec::new());
        for &column in columns {
            let Some(own) = &file.columns[column] else { continue };
            match own.read_as {
                ReadAs::Arrow(_) => in_batches.push((own.field, column)),
                ReadAs::Int96 => int96.push((column, int96_reader(&pages, own.leaf)?)),
            }
        }
        in_batches.sort_unstable();
        let in_batches = in_batches.into_iter().map(|(_, column)| column).collect();
        Ok(GroupReader { file, in_batches, batches, int96, batch_rows, rows, rows_left: rows })
    }

    /// The next rows; `None` after all that were declared (parquet_file_group-2).
    pub(super) fn next(&mut self) -> std::result::Result<Option<GroupBatch>, Flaw> {
        guarded(|| self.read().map_err(|error| Flaw::of_library(&error)))
    }

    fn read(&mut self) -> Result<Option<GroupBatch>> {
        let mut arrays = vec![None; self.file.columns.len()];
        let rows = if self.in_batches.is_empty() {
            usize::try_from(self.rows_left).unwrap_or(usize::MAX).min(self.batch_rows)
        } else {
            match self.batches.next().transpose()? {
                Some(batch) => {
                    for (&column, array) in self.in_batches.iter().zip(batch.columns()) {
                        arrays[column] = Some(Arc::clone(array));
                    }
                    batch.num_rows()
                }
                None => 0,
            }
        };
        for (column, reader) in &mut self.int96 {
            let array = int96_array(reader, rows)?;
            let actual = self.rows - self.rows_left + array.len() as u64;
            if array.len() != rows {
                return Err(Flaw::Rows { declared: self.rows, actual }.into());
            }
            arrays[*column] = Some(array);
        }
        match (rows as u64, self.rows_left) {
            (0, 0) => Ok(None),
            (rows @ 1.., left) if rows <= left => {
                self.rows_left -= rows;
                Ok(Some(GroupBatch { rows: usize::try_from(rows)?, arrays }))
            }
            (rows, left) => {
                Err(Flaw::Rows { declared: self.rows, actual: self.rows - left + rows }.into())
            }
        }
    }
}

fn int96_reader(pages: &GroupPages, leaf: usize) -> Result<ColumnReaderImpl<Int96Type>> {
    let column = pages.metadata.file_metadata().schema_descr().column(leaf);
    match get_column_reader(column, Box::new(pages.pages(leaf)?)) {
        ColumnReader::Int96ColumnReader(reader) => Ok(reader),
        _ => Err(Flaw::Metadata.into()),
    }
}

/// The next values, as nanoseconds since 1970 with any number of digits.
fn int96_array(reader: &mut ColumnReaderImpl<Int96Type>, rows: usize) -> Result<ArrayRef> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let (read, _, _) = reader.read_records(rows, Some(&mut levels), None, &mut values)?;
    let mut values = values.into_iter().map(nanos_of);
    let array: Decimal128Array = match levels.is_empty() {
        // The column has no NULL.
        true => values.map(Some).collect(),
        false => {
            levels.iter().map(|&level| if level == 0 { None } else { values.next() }).collect()
        }
    };
    debug_assert_eq!(array.len(), read, "a flat column has a value for each record");
    Ok(Arc::new(array))
}

/// The nanoseconds since 1970 of an INT96: nanoseconds of the day in eight bytes, and the Julian
/// day in four.
fn nanos_of(value: Int96) -> i128 {
    const DAY_NANOS: i128 = 86_400_000_000_000;
    const EPOCH: i128 = 2_440_588;
    let &[low, high, day] = value.data() else { unreachable!("three words") };
    let of_day = u64::from(high) << 32 | u64::from(low);
    (i128::from(day) - EPOCH) * DAY_NANOS + i128::from(of_day.cast_signed())
}

/// The way in which a column is read.
pub(super) fn read_as(own: &DataType, physical: PhysicalType, is_symbol: bool) -> ReadAs {
    let plain = plain_type(own);
    let is_dictionary = is_symbol && !matches!(plain, DataType::FixedSizeBinary(_));
    match plain {
        _ if physical == PhysicalType::INT96 => ReadAs::Int96,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => ReadAs::Arrow(match is_dictionary {
            true => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Binary)),
            false => DataType::BinaryView,
        }),
        // The library supports dictionaries only for texts.
        plain => ReadAs::Arrow(plain.clone()),
    }
}

/// The schema of a file, changed so that columns of texts are columns of bytes.
pub(super) fn without_texts(
    schema: &SchemaDescriptor,
    fields: &Fields,
) -> Result<SchemaDescriptor> {
    let root = schema.root_schema();
    let own = root.get_fields().iter().zip(fields).map(|(own, field)| {
        let ty = plain_type(field.data_type());
        let is_text = matches!(Kind::of(ty), Some(Kind::Text | Kind::Binary));
        if !is_text || own.get_physical_type() != PhysicalType::BYTE_ARRAY {
            return Ok(Arc::clone(own));
        }
        let info = own.get_basic_info();
        Type::primitive_type_builder(info.name(), PhysicalType::BYTE_ARRAY)
            .with_repetition(info.repetition())
            .build()
            .map(Arc::new)
    });
    let own = own.collect::<Result<Vec<_>>>()?;
    let root = Type::group_type_builder(root.name()).with_fields(own).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while a panic of this thread is caught and becomes an error of an import: a panic
/// hook has nothing to report then.
#[must_use]
pub fn is_decoding_guarded() -> bool {
    IS_GUARDED.get()
}

/// Runs the library on bytes of a file (parquet_file_group-1). After a panic its state is dropped.
pub(super) fn guarded<T>(
    run: impl FnOnce() -> std::result::Result<T, Flaw>,
) -> std::result::Result<T, Flaw> {
    let before = IS_GUARDED.replace(true);
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(run));
    IS_GUARDED.set(before);
    outcome.unwrap_or_else(|cause| Err(Flaw::of_panic(&*cause)))
}
