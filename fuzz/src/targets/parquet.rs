//! A Parquet file of any bytes: its import gives rows or an error that names the file, and leaves
//! no files behind.
//!
//! Input: the file.

use std::path::Path;
use std::sync::Arc;

use tidegate_ingest::{ColumnSource, Error, FileFormat, OnError};
use tidegate_model::{ColumnType, PartitionUnit};
use tidegate_platform::SimDisk;

use crate::world::{World, schema_of};

pub(crate) fn check(bytes: &[u8]) {
    if let Err(error) = import_of(bytes) {
        let shown = error.to_string();
        assert!(!matches!(error, Error::WorkerPanicked), "{shown}");
        // An error in the names of columns is not an error of one file.
        let is_of_schema = matches!(error, Error::Schema(_));
        assert!(is_of_schema || shown.contains("a.parquet"), "{shown}");
    }
}

/// Imports the file into a new table; returns the number of rows.
pub(crate) fn import_of(bytes: &[u8]) -> Result<u64, Error> {
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let schema = schema_of(&[("v", ColumnType::Int64)], None, PartitionUnit::None);
    let path = world.put("a.parquet", bytes);
    let mut options = world.options(&schema, &[path]);
    options.columns = ColumnSource::Infer;
    options.format = FileFormat::Parquet;
    options.on_error = OnError::Null;
    let outcome = world.import(&options);
    let imported = outcome.map(|summary| summary.rows_imported);
    world.check_sound("parquet");
    imported
}
