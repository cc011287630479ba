//! Opens Parquet files, and maps their columns to those of the table.

use std::sync::Arc;

use parquet::basic::Type as PhysicalType;
use parquet::schema::types::SchemaDescriptor;
use tidegate_model::schema::same_name;
use tidegate_model::{Column, ColumnType, Schema, limits};
use tidegate_platform::DiskFile;

use crate::context::ImportContext;
use crate::error::{Error, Result};
use crate::options::{ColumnSource, DialectOptions, Header, ImportOptions, Quote};
use crate::parquet_flaw::Flaw;
use crate::shares::Shares;
use crate::sniff::{Dialect, FirstLine, LineEnd, SniffOptions, Sniffed, map_columns};
use crate::target_schema::{TargetSchema, existing_table, new_schema, require_designated};
use crate::timestamp::{EpochUnit, TimestampFormat};

use super::columns::{self, ColumnCast, plain_type};
use super::group::{FileColumn, ParquetFile, ReadAs, read_as, without_texts};
use super::loaded::{Loaded, load};
use super::pages::page_bytes_max;
use super::union::inferred_columns;

/// The table, the files, and the notes on them.
pub(super) struct Opened {
    pub(super) target: TargetSchema,
    pub(super) files: Vec<ParquetFile>,
    pub(super) notes: Vec<String>,
}

/// The maximum number of rows that are decoded at a time.
const BATCH_ROWS: usize = 4_096;
/// The bytes of such rows in a column of values of a fixed length.
const BATCH_FIXED_BYTES: usize = 64 << 20;

/// Opens the files, and maps their columns to the table's.
pub(super) fn open(context: &ImportContext<'_>, opened: &[Arc<dyn DiskFile>]) -> Result<Opened> {
    let options = context.options;
    let loaded =
        opened.iter().map(|file| load(file, context.progress)).collect::<Result<Vec<_>>>()?;
    check_skipped(&loaded, options)?;
    let existing = existing_table(context.database, options)?;
    let exists = existing.is_some();
    let table = existing.as_ref().and_then(|existing| existing.id);
    let schema = match existing {
        Some(existing) => existing.schema,
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
    Ok(Opened { target: TargetSchema { schema, exists, table }, files, notes })
}

/// Checks that each column of `--skip-columns` is in one of the files.
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
        // All columns of the file are left out.
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

/// The given options that concern only text files.
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
