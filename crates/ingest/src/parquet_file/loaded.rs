//! Parquet files with their metadata.
//!
//! - loaded-1. The metadata is checked before the library decodes it (`thrift`), and panics of the
//!   library become errors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, Fields};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::SchemaDescriptor;
use tidegate_platform::DiskFile;

use crate::error::{Error, Result};
use crate::excerpt::shown;
use crate::parquet_flaw::Flaw;
use crate::progress::Progress;

use super::group::guarded;
use super::source::ParquetSource;
use super::thrift::check_footer;

/// A file with its metadata.
pub(super) struct Loaded {
    pub(super) path: PathBuf,
    pub(super) source: ParquetSource,
    pub(super) metadata: ArrowReaderMetadata,
    /// The file's columns, by the types of the writer; decimals in the narrowest type that holds
    /// them.
    pub(super) fields: Fields,
}

impl Loaded {
    pub(super) fn fields(&self) -> impl Iterator<Item = (usize, &Arc<Field>)> {
        self.fields.iter().enumerate()
    }

    fn schema(&self) -> &SchemaDescriptor {
        self.metadata.parquet_schema()
    }

    /// The column of a field's values; `None` if the field is nested.
    pub(super) fn leaf(&self, field: usize) -> Option<usize> {
        let schema = self.schema();
        let mut leaves = 0..schema.num_columns();
        let leaf = leaves.find(|&leaf| schema.get_column_root_idx(leaf) == field)?;
        let column = schema.column(leaf);
        let is_flat = schema.root_schema().get_fields()[field].is_primitive();
        (is_flat && column.max_rep_level() == 0).then_some(leaf)
    }

    /// Returns true if the writer's own types are kept beside those of Parquet.
    pub(super) fn has_arrow_schema(&self) -> bool {
        let entries = self.metadata.metadata().file_metadata().key_value_metadata();
        entries.is_some_and(|entries| entries.iter().any(|it| it.key == ARROW_SCHEMA_META_KEY))
    }

    pub(super) fn physical(&self, field: usize) -> Option<PhysicalType> {
        Some(self.schema().column(self.leaf(field)?).physical_type())
    }
}

/// Reads the metadata (loaded-1).
pub(super) fn load(file: &Arc<dyn DiskFile>, progress: &Arc<Progress>) -> Result<Loaded> {
    let path = file.path().to_path_buf();
    let source = ParquetSource::new(file, progress)?;
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
    check_own(&path, metadata.metadata())?;
    let fields = metadata.parquet_schema().root_schema().get_fields().len();
    if fields != metadata.schema().fields().len() || !has_all_values(metadata.metadata()) {
        return Err(Error::Parquet { path, flaw: Flaw::Metadata });
    }
    let fields = metadata.schema().fields().iter().map(narrowed).collect();
    Ok(Loaded { path, source, metadata, fields })
}

/// Refuses a file with columns that lie in another one, such as the `_metadata` of a data set:
/// their places are positions there.
fn check_own(path: &Path, metadata: &ParquetMetaData) -> Result<()> {
    for (at, group) in metadata.row_groups().iter().enumerate() {
        for column in group.columns() {
            let Some(file) = column.file_path() else { continue };
            let flaw = Flaw::Elsewhere(shown(file.as_bytes()));
            let (group, column) = (at + 1, Some(column.column_path().string()));
            return Err(Error::ParquetRows { path: path.to_path_buf(), group, column, flaw });
        }
    }
    Ok(())
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
