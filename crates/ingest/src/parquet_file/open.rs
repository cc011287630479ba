//! Opens Parquet files, and maps their columns to those of the table.
//!
//! - OP1. The metadata is checked before the library decodes it (`thrift`), and panics of the
//!   library become errors.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, Fields};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::SchemaDescriptor;
use tidegate_model::schema::same_name;
use tidegate_model::{Column, ColumnType, Schema, TimeUnit, limits};
use tidegate_platform::DiskFile;

use crate::error::{Error, Result};
use crate::import::{
    ImportContext, TargetSchema, existing_schema, given_unit, new_schema, require_designated,
};
use crate::options::{ColumnSource, DialectOptions, ImportOptions, Quote};
use crate::shares::Shares;
use crate::sniff::{self, Dialect, FirstLine, Header, LineEnd, SniffOptions, Sniffed, map_columns};
use crate::timestamp::{EpochUnit, TimestampFormat};

use super::columns::{self, ColumnCast, plain_type};
use super::flaw::Flaw;
use super::group::{FileColumn, ParquetFile, ReadAs, guarded, read_as, without_texts};
use super::pages::page_bytes_max;
use super::source::ParquetSource;
use super::thrift::check_footer;
use super::union::inferred_columns;

/// The table, the files, and the notes on them.
pub(super) struct Opened {
    pub(super) target: TargetSchema,
    pub(super) files: Vec<ParquetFile>,
    pub(super) notes: Vec<String>,
}

/// The rows that are decoded at a time.
const BATCH_ROWS: usize = 4_096;
/// The bytes of such rows in a column of values of a fixed length.
const BATCH_FIXED_BYTES: usize = 64 << 20;

/// A file with its metadata.
pub(super) struct Loaded {
    pub(super) path: PathBuf,
    source: ParquetSource,
    metadata: ArrowReaderMetadata,
    /// The file's columns, by the types of the writer; decimals in the narrowest type that holds
    /// them.
    fields: Fields,
}

impl Loaded {
    pub(super) fn fields(&self) -> impl Iterator<Item = (usize, &Arc<Field>)> {
        self.fields.iter().enumerate()
    }

    fn schema(&self) -> &SchemaDescriptor {
        self.metadata.parquet_schema()
    }

    /// The column of a field's values; `None` if the field is nested.
    fn leaf(&self, field: usize) -> Option<usize> {
        let schema = self.schema();
        let mut leaves = 0..schema.num_columns();
        let leaf = leaves.find(|&leaf| schema.get_column_root_idx(leaf) == field)?;
        let column = schema.column(leaf);
        let is_flat = schema.root_schema().get_fields()[field].is_primitive();
        (is_flat && column.max_rep_level() == 0).then_some(leaf)
    }

    /// Returns true if the writer's own types are kept beside those of Parquet.
    fn has_arrow_schema(&self) -> bool {
        let entries = self.metadata.metadata().file_metadata().key_value_metadata();
        entries.is_some_and(|entries| entries.iter().any(|it| it.key == ARROW_SCHEMA_META_KEY))
    }

    fn physical(&self, field: usize) -> Option<PhysicalType> {
        Some(self.schema().column(self.leaf(field)?).physical_type())
    }
}

/// Opens the files, and maps their columns to the table's.
pub(super) fn open(context: &ImportContext<'_>, opened: &[Arc<dyn DiskFile>]) -> Result<Opened> {
    let options = context.options;
    let loaded = opened.iter().map(|file| load(file, context)).collect::<Result<Vec<_>>>()?;
    check_skipped(&loaded, options)?;
    let existing = existing_schema(context.database, options)?;
    let exists = existing.is_some();
    let schema = match existing {
        Some(schema) => schema,
        None => {
            let first = loaded.first().expect("there is a file");
            let columns = match &options.columns {
                ColumnSource::Given(columns) => columns.clone(),
                ColumnSource::Infer | ColumnSource::Hinted(_) => {
                    inferred_columns(&loaded, options)?
                }
            };
            new_schema(columns, options, &first.path)?
        }
    };
    let (mut files, mut notes) = (Vec::new(), Vec::new());
    for file in loaded {
        let sources = map(&file, &schema, options, &mut notes)?;
        require_designated(&schema, &sources, &file.path)?;
        files.push(with_columns(file, &sources, &schema, options)?);
    }
    notes.extend(unused_options(options));
    Ok(Opened { target: TargetSchema { schema, exists }, files, notes })
}

/// Reads the metadata (OP1).
fn load(file: &Arc<dyn DiskFile>, context: &ImportContext<'_>) -> Result<Loaded> {
    let path = file.path().to_path_buf();
    let source = ParquetSource::new(file, context.progress)?;
    if let Some(footer) = footer(&**file, source.bytes())? {
        let damaged = |flaw| Error::Parquet { path: path.clone(), flaw };
        check_footer(&footer).map_err(damaged)?;
    }
    let metadata = guarded(|| {
        let loading = ArrowReaderMetadata::load(&source, ArrowReaderOptions::new());
        loading.map_err(|error| Flaw::of_library(&error))
    });
    let metadata = metadata.map_err(|flaw| match source.take_error() {
        Some(error) => Error::Input(error),
        None => Error::Parquet { path: path.clone(), flaw },
    })?;
    let fields = metadata.parquet_schema().root_schema().get_fields().len();
    if fields != metadata.schema().fields().len() || !has_all_values(metadata.metadata()) {
        return Err(Error::Parquet { path, flaw: Flaw::Metadata });
    }
    let fields = metadata.schema().fields().iter().map(narrowed).collect();
    Ok(Loaded { path, source, metadata, fields })
}

/// Returns false if a flat column does not declare a value, or NULL, for each row of its row group.
fn has_all_values(metadata: &ParquetMetaData) -> bool {
    let is_whole = |column: &ColumnChunkMetaData, rows: i64| {
        column.column_descr().max_rep_level() > 0 || column.num_values() == rows
    };
    let groups = metadata.row_groups().iter();
    groups
        .flat_map(|group| group.columns().iter().map(|column| (column, group.num_rows())))
        .all(|(column, rows)| is_whole(column, rows))
}

/// Narrows a decimal type by its number of digits: writers that compute declare decimals of 256
/// bits for numbers of 128.
fn narrowed(field: &Arc<Field>) -> Arc<Field> {
    match field.data_type() {
        &DataType::Decimal256(precision, scale) if precision <= DECIMAL128_MAX_PRECISION => {
            let ty = DataType::Decimal128(precision, scale);
            Arc::new(Field::clone(field).with_data_type(ty))
        }
        _ => Arc::clone(field),
    }
}

/// The footer of a file; `None` if there is none, which the library reports.
fn footer(file: &dyn DiskFile, bytes: u64) -> Result<Option<Vec<u8>>> {
    const TAIL_BYTES: u64 = 8;
    let Some(end) = bytes.checked_sub(TAIL_BYTES) else { return Ok(None) };
    let mut tail = [0; 8];
    file.read_exact_at(&mut tail, end).map_err(Error::Input)?;
    let length = u64::from(u32::from_le_bytes(*tail.first_chunk().expect("eight bytes")));
    if tail[4..] != *b"PAR1" || length > end {
        return Ok(None);
    }
    let mut footer = vec![0; usize::try_from(length).expect("32 bits")];
    file.read_exact_at(&mut footer, end - length).map_err(Error::Input)?;
    Ok(Some(footer))
}

/// Checks that each column to be left out is in one of the files.
fn check_skipped(files: &[Loaded], options: &ImportOptions) -> Result<()> {
    let is_there = |skipped: &String| {
        files.iter().any(|file| file.fields().any(|(_, field)| same_name(field.name(), skipped)))
    };
    match options.skip_columns.iter().find(|skipped| !is_there(skipped)) {
        None => Ok(()),
        Some(name) => {
            let place = files.first().map_or_else(String::new, |f| f.path.display().to_string());
            Err(Error::NoSuchColumn { name: name.clone(), place })
        }
    }
}

pub(super) fn is_skipped(file: &Loaded, field: &Field, options: &ImportOptions) -> bool {
    let names = || file.fields().map(|(_, field)| field.name().as_str());
    sniff::is_skipped(field.name(), &options.skip_columns, names)
}

/// The type of column for the values of a field.
pub(super) fn inferred(
    file: &Loaded,
    (at, field): (usize, &Field),
    options: &ImportOptions,
) -> Result<ColumnType> {
    let is_time = |name: &String| same_name(name, field.name());
    let own = field.data_type();
    let is_text = plain_type(own).is_string();
    if is_text && options.timestamp.as_ref().is_some_and(is_time) {
        return Ok(ColumnType::Timestamp(given_unit(options)));
    }
    let physical = file.physical(at);
    let ty = match physical {
        // The range of INT96 is that of all calendars, and its nanoseconds are mostly zero, unless
        // the writer's own types have nanoseconds.
        Some(PhysicalType::INT96) if !file.has_arrow_schema() => {
            Some(ColumnType::Timestamp(TimeUnit::Micros))
        }
        Some(_) => columns::column_type(own),
        None => None,
    };
    ty.ok_or_else(|| Error::ParquetType {
        path: file.path.clone(),
        column: field.name().clone(),
        ty: own.to_string(),
    })
}

/// Maps columns by name, as in a text file with a header.
fn map(
    file: &Loaded,
    schema: &Schema,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<usize>>> {
    let dialect = Dialect {
        delimiter: b',',
        quote: None,
        has_header: true,
        null_text: None,
        line_end: LineEnd::LfOrCrlf,
    };
    let names = file.fields().map(|(_, field)| field.name().clone()).collect();
    let sniffed = Sniffed { dialect, names, types: vec![], formats: vec![], notes: vec![] };
    let options = SniffOptions {
        delimiter: None,
        quote: Quote::Standard,
        header: Header::Present,
        timestamp_format: None,
        null_text: None,
        expected: Some(schema),
        columns: None,
        designated: None,
        symbols: &[],
        hints: &[],
        skip: &options.skip_columns,
        like: None,
        first_line: FirstLine::Unknown,
        blank_is_record: false,
        ragged_is_row: false,
        head_is_whole: true,
    };
    let map = map_columns(&sniffed, schema, &options)
        .map_err(|source| Error::Sniff { path: file.path.clone(), source })?;
    notes.extend(map.notes);
    let mut sources = vec![None; schema.columns().len()];
    for (field, target) in map.targets.iter().enumerate() {
        if let Some(column) = *target {
            sources[column] = Some(field);
        }
    }
    if sources.iter().all(Option::is_none) {
        // No column of its rows is left.
        return Err(Error::NoRecords { path: file.path.clone() });
    }
    Ok(sources)
}

fn with_columns(
    file: Loaded,
    sources: &[Option<usize>],
    schema: &Schema,
    options: &ImportOptions,
) -> Result<ParquetFile> {
    let epoch = epoch_unit(options.timestamp_format.as_ref());
    let columns = schema.columns().iter().zip(sources);
    let columns: Vec<Option<FileColumn>> = columns
        .map(|(column, &field)| field.map(|at| file_column(&file, at, column, epoch)).transpose())
        .collect::<Result<_>>()?;
    let Loaded { path, source, metadata, fields } = file;
    let damaged = |flaw| Error::Parquet { path: path.clone(), flaw };
    let batch_rows = batch_rows(metadata.parquet_schema(), &columns).map_err(damaged)?;
    let plain = without_texts(metadata.parquet_schema(), &fields)
        .map_err(|error| damaged(Flaw::of_library(&error)))?;
    let metadata = Arc::clone(metadata.metadata());
    Ok(ParquetFile {
        path,
        source,
        metadata,
        fields,
        columns,
        plain,
        batch_rows,
        page_bytes_max: page_bytes_max(options.memory_max),
        batch_bytes_max: Shares::new(options.memory_max, options.workers).batch_max(),
    })
}

/// The conversion of one column to that of the table.
fn file_column(
    file: &Loaded,
    field: usize,
    column: &Column,
    epoch: Option<EpochUnit>,
) -> Result<FileColumn> {
    let own = &file.fields[field];
    let (ty, name) = (column.ty, own.name().clone());
    let Some((leaf, physical)) = file.leaf(field).zip(file.physical(field)) else {
        let (path, ty) = (file.path.clone(), own.data_type().to_string());
        return Err(Error::ParquetType { path, column: name, ty });
    };
    let is_symbol = ty == ColumnType::Symbol;
    let read_as = read_as(own.data_type(), physical, is_symbol);
    let cast = match read_as {
        ReadAs::Int96 => ColumnCast::of_int96(ty),
        ReadAs::Arrow(_) => ColumnCast::new(own.data_type(), ty, epoch),
    };
    let path = || file.path.clone();
    match cast {
        None if columns::column_type(own.data_type()).is_none() => {
            let ty = own.data_type().to_string();
            Err(Error::ParquetType { path: path(), column: name, ty })
        }
        None => {
            let own = own.data_type().to_string();
            Err(Error::ParquetTarget { path: path(), column: name, own, ty })
        }
        Some(cast) if cast.lacks_epoch() => {
            let ty = columns::column_type(plain_type(own.data_type()));
            Err(Error::TimestampNeedsFormat { column: name, ty: ty.unwrap_or(ColumnType::Int64) })
        }
        Some(cast) => Ok(FileColumn { field, leaf, cast, read_as }),
    }
}

/// The rows of a batch: fewer if values have a large fixed length.
fn batch_rows(
    schema: &SchemaDescriptor,
    columns: &[Option<FileColumn>],
) -> std::result::Result<usize, Flaw> {
    let mut rows = BATCH_ROWS;
    for own in columns.iter().flatten() {
        let column = schema.column(own.leaf);
        if column.physical_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY {
            let bytes = usize::try_from(column.type_length()).ok().filter(|&bytes| bytes > 0);
            let bytes = bytes.ok_or(Flaw::Metadata)?;
            if bytes > limits::VALUE_BYTES {
                let max = limits::VALUE_BYTES as u64;
                return Err(Flaw::FixedTooLong { bytes: bytes as u64, max });
            }
            rows = rows.min(BATCH_FIXED_BYTES / bytes).max(1);
        }
    }
    Ok(rows)
}

/// The unit of integers that are times.
pub(super) fn epoch_unit(format: Option<&TimestampFormat>) -> Option<EpochUnit> {
    match format {
        Some(TimestampFormat::Epoch(unit)) => Some(*unit),
        _ => None,
    }
}

/// The options that were given although they only concern text.
fn unused_options(options: &ImportOptions) -> Option<String> {
    let DialectOptions { delimiter, quote, header, null_text, skip_lines, .. } = &options.dialect;
    let given = [
        (delimiter.is_some(), "--delimiter"),
        (*quote != Quote::Standard, "--quote"),
        (*header != Header::Auto, "--header or --no-header"),
        (null_text.is_some(), "--null"),
        (*skip_lines > 0, "--skip-lines"),
    ];
    let names: Vec<&str> =
        given.iter().filter(|(given, _)| *given).map(|(_, name)| *name).collect();
    let is_any = !names.is_empty();
    is_any.then(|| format!("Parquet says how it is to be read: {} not used", names.join(", ")))
}
