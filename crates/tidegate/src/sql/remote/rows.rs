//! Rows of PostgreSQL's protocol, in its binary form, as Arrow's batches.
//!
//! - remote_rows-1. A batch has at most `BATCH_ROWS` rows and is closed behind about `BATCH_BYTES`.
//! - A server can send anything: a value that does not fit its type is an error of its column.
//!
//! Values of a type without an Arrow type here are taken as text. Not here: output formats
//! (`output`).

mod column;
mod numeric;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Column, Row};

use self::column::{Builder, builder};
use crate::error::RemoteError;

/// Most rows of a batch, as in the engine (remote_rows-1).
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 4 << 20;

/// The bytes of a value of any type.
struct Bytes<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Bytes<'a> {
    fn from_sql(
        _: &Type,
        bytes: &'a [u8],
    ) -> Result<Bytes<'a>, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Bytes(bytes))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Rows that are being collected into a batch.
pub(super) struct Batches {
    schema: SchemaRef,
    columns: Vec<Box<dyn Builder>>,
    rows: usize,
    bytes: usize,
}

impl Batches {
    pub(super) fn new(columns: &[Column]) -> Result<Batches, RemoteError> {
        let mut fields = Vec::with_capacity(columns.len());
        let mut builders = Vec::with_capacity(columns.len());
        for column in columns {
            let (ty, metadata, builder) = builder(column.type_(), column.type_modifier());
            fields.push(Field::new(column.name(), ty, true).with_metadata(metadata));
            builders.push(builder);
        }
        let schema = Arc::new(Schema::new(fields));
        Ok(Batches { schema, columns: builders, rows: 0, bytes: 0 })
    }

    pub(super) fn fields(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Adds a row, and returns the batch if it is full (remote_rows-1).
    pub(super) fn push(&mut self, row: &Row) -> Result<Option<RecordBatch>, RemoteError> {
        for (at, column) in self.columns.iter_mut().enumerate() {
            let malformed =
                || RemoteError::Malformed { column: self.schema.field(at).name().clone() };
            let value = row.try_get::<usize, Option<Bytes<'_>>>(at).map_err(|_| malformed())?;
            let value = value.map(|Bytes(bytes)| bytes);
            self.bytes += value.map_or(0, <[u8]>::len);
            column.push(value).ok_or_else(malformed)?;
        }
        self.rows += 1;
        if self.rows < BATCH_ROWS && self.bytes < BATCH_BYTES {
            return Ok(None);
        }
        self.finish()
    }

    /// Returns the rows that are in no batch yet, if there are some.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>, RemoteError> {
        if self.rows == 0 {
            return Ok(None);
        }
        (self.rows, self.bytes) = (0, 0);
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(|it| it.finish()).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        batch.map(Some).map_err(|error| RemoteError::Protocol { source: error.into() })
    }
}
