//! A file for each measurement, CSV or Parquet: `timestamp`, tags, fields.
//!
//! Rows stand in each file in the order in which they were generated. A value that was left out is
//! empty, or null.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    Float32Builder, Float64Builder, Int64Builder, StringBuilder, TimestampNanosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::options::{Format, Options};
use super::output::create;
use super::pipeline::{Generated, Rows};
use super::schema::{Cell, Measurement, TagKind};
use super::simulate::{NONE, Row, Stretch};
use crate::error::{Error, Result};

/// Rows of a row group of Parquet.
const GROUP_ROWS: usize = 65_536;

/// Writes the rows of one measurement.
trait Table: Sized {
    fn push(&mut self, row: &TableRow<'_>) -> Result<()>;
    fn finish(self) -> Result<u64>;
}

/// A row with its tags and cells.
struct TableRow<'a> {
    row: &'a Row,
    /// Values of the tags; `None` is left out.
    tags: &'a [Option<String>],
    cells: &'a [Cell],
}

/// Writes `NAME.csv` for each measurement into a directory, which is made if it is not there; times
/// are nanoseconds since 1970.
///
/// # Errors
///
/// Options that make no sense together, and files that cannot be made or written; what was written
/// before stays.
pub fn write_csv(options: &Options, dir: &Path) -> Result<Generated> {
    write(options, dir, CsvTable::new)
}

/// Writes `NAME.parquet` for each measurement into a directory, which is made if it is not there:
/// times with nanoseconds, tags as text or single floats, fields as integers or doubles.
///
/// # Errors
///
/// The same errors as of [`write_csv`].
pub fn write_parquet(options: &Options, dir: &Path) -> Result<Generated> {
    write(options, dir, ParquetTable::new)
}

fn write<T: Table>(
    options: &Options,
    dir: &Path,
    open: impl Fn(PathBuf, &Rows, &Measurement) -> Result<T>,
) -> Result<Generated> {
    let rows = Rows::new(options, Format::Line)?;
    fs::create_dir_all(dir).map_err(|source| Error::Make { path: dir.to_owned(), source })?;
    let measurements = &rows.formatter.schema().measurements;
    let mut tables: Vec<T> = measurements
        .iter()
        .map(|measurement| open(dir.join(measurement.name), &rows, measurement))
        .collect::<Result<_>>()?;
    let mut generated = Generated::default();
    let (mut stretch, mut cells, mut tags) = (Stretch::default(), Vec::new(), Vec::new());
    while rows.next(&mut stretch).is_some() {
        for (row, states) in stretch.iter() {
            let index = usize::from(row.measurement);
            measurements[index].cells(states, &mut cells);
            if let Some(cell) = cells.get_mut(usize::from(row.nil_field)) {
                *cell = Cell::Nil;
            }
            read_tags(&rows, row, &mut tags);
            tables[index].push(&TableRow { row, tags: &tags, cells: &cells })?;
            generated.rows += 1;
            generated.metrics += cells.len() as u64 - u64::from(row.nil_field != NONE);
        }
    }
    for table in tables {
        generated.bytes += table.finish()?;
    }
    Ok(generated)
}

fn read_tags(rows: &Rows, row: &Row, tags: &mut Vec<Option<String>>) {
    let (schema, entities) = (rows.formatter.schema(), rows.formatter.entities());
    let (entity, measurement) = (row.entity as usize, usize::from(row.measurement));
    tags.clear();
    let mut text = Vec::new();
    for tag in 0..schema.tags.len() {
        text.clear();
        entities.write_tag(entity, tag, &mut text);
        let is_nil = tag == usize::from(row.nil_tag);
        tags.push((!is_nil).then(|| String::from_utf8_lossy(&text).into_owned()));
    }
    for tag in 0..schema.measurements[measurement].extra_tags.len() {
        text.clear();
        entities.write_extra(entity, schema, measurement, tag, &mut text);
        tags.push(Some(String::from_utf8_lossy(&text).into_owned()));
    }
}

/// Returns the names of all columns but the timestamp, and the type of each.
fn columns(rows: &Rows, measurement: &Measurement) -> Vec<(String, DataType)> {
    let tags = rows.formatter.schema().tags.iter().map(|tag| {
        let ty = if tag.kind == TagKind::Text { DataType::Utf8 } else { DataType::Float32 };
        (tag.name.to_owned(), ty)
    });
    let extras = measurement.extra_tags.iter().map(|tag| ((*tag).to_owned(), DataType::Utf8));
    let fields = measurement.fields.iter().enumerate().map(|(index, field)| {
        let ty = if measurement.is_integer(index) { DataType::Int64 } else { DataType::Float64 };
        (field.to_string(), ty)
    });
    tags.chain(extras).chain(fields).collect()
}

struct CsvTable {
    path: PathBuf,
    file: File,
    text: Vec<u8>,
    bytes: u64,
    /// Number of columns: `devops-generic` has rows with fewer cells.
    columns: usize,
}

impl CsvTable {
    fn new(path: PathBuf, rows: &Rows, measurement: &Measurement) -> Result<CsvTable> {
        let path = path.with_extension("csv");
        let columns = columns(rows, measurement);
        let mut text = b"timestamp".to_vec();
        for (name, _) in &columns {
            text.push(b',');
            text.extend_from_slice(name.as_bytes());
        }
        text.push(b'\n');
        Ok(CsvTable { file: create(&path)?, path, text, bytes: 0, columns: columns.len() })
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.text);
        let place = || self.path.display().to_string();
        written.map_err(|source| Error::Output { place: place(), bytes: self.bytes, source })?;
        self.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

impl Table for CsvTable {
    fn push(&mut self, row: &TableRow<'_>) -> Result<()> {
        let text = &mut self.text;
        write!(text, "{}", row.row.ts).expect("memory takes it");
        for tag in row.tags {
            text.push(b',');
            text.extend_from_slice(tag.as_deref().unwrap_or_default().as_bytes());
        }
        for cell in row.cells {
            text.push(b',');
            match *cell {
                Cell::Nil => Ok(()),
                Cell::Integer(number) => write!(text, "{number}"),
                cell => write!(text, "{}", float_of(cell)),
            }
            .expect("memory takes it");
        }
        text.extend((row.tags.len() + row.cells.len()..self.columns).map(|_| b','));
        text.push(b'\n');
        if 1 << 20 <= self.text.len() { self.flush() } else { Ok(()) }
    }

    fn finish(mut self) -> Result<u64> {
        self.flush()?;
        Ok(self.bytes)
    }
}

/// Returns the float of a cell; the caller never asks for a cell that was left out.
fn float_of(cell: Cell) -> f64 {
    match cell {
        Cell::Nil => f64::NAN,
        Cell::Integer(number) => number as f64,
        Cell::Decimal { scaled, places } => scaled as f64 / 10_f64.powi(i32::from(places)),
        Cell::Float(number) => number,
    }
}

struct ParquetTable {
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<File>,
    timestamps: TimestampNanosecondBuilder,
    columns: Vec<Column>,
    rows: usize,
}

enum Column {
    Text(StringBuilder),
    Single(Float32Builder),
    Integer(Int64Builder),
    Float(Float64Builder),
}

impl ParquetTable {
    fn new(path: PathBuf, rows: &Rows, measurement: &Measurement) -> Result<ParquetTable> {
        let path = path.with_extension("parquet");
        let columns = columns(rows, measurement);
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let mut fields = vec![Field::new("timestamp", time, false)];
        fields.extend(columns.iter().map(|(name, ty)| Field::new(name, ty.clone(), true)));
        let schema = Arc::new(ArrowSchema::new(fields));
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = create(&path)?;
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties));
        let writer = writer.map_err(|source| Error::Parquet { path: path.clone(), source })?;
        let columns = columns.iter().map(|(_, ty)| match ty {
            DataType::Utf8 => Column::Text(StringBuilder::new()),
            DataType::Float32 => Column::Single(Float32Builder::new()),
            DataType::Int64 => Column::Integer(Int64Builder::new()),
            _ => Column::Float(Float64Builder::new()),
        });
        let timestamps = TimestampNanosecondBuilder::new().with_timezone("UTC");
        Ok(ParquetTable { path, schema, writer, timestamps, columns: columns.collect(), rows: 0 })
    }

    fn flush(&mut self) -> Result<()> {
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(self.timestamps.finish())];
        arrays.extend(self.columns.iter_mut().map(Column::finish));
        self.rows = 0;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).expect("as the schema");
        let written = self.writer.write(&batch);
        written.map_err(|source| Error::Parquet { path: self.path.clone(), source })
    }
}

impl Column {
    fn push_tag(&mut self, tag: Option<&str>) {
        match self {
            Column::Text(builder) => builder.append_option(tag),
            Column::Single(builder) => builder.append_option(tag.and_then(|tag| tag.parse().ok())),
            Column::Integer(_) | Column::Float(_) => unreachable!("a tag is no field"),
        }
    }

    fn push_cell(&mut self, cell: Cell) {
        match (self, cell) {
            (Column::Integer(builder), Cell::Integer(number)) => builder.append_value(number),
            (Column::Integer(builder), Cell::Nil) => builder.append_null(),
            (Column::Float(builder), Cell::Nil) => builder.append_null(),
            (Column::Float(builder), cell) => builder.append_value(float_of(cell)),
            _ => unreachable!("a column has one type"),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Text(builder) => Arc::new(builder.finish()),
            Column::Single(builder) => Arc::new(builder.finish()),
            Column::Integer(builder) => Arc::new(builder.finish()),
            Column::Float(builder) => Arc::new(builder.finish()),
        }
    }
}

impl Table for ParquetTable {
    fn push(&mut self, row: &TableRow<'_>) -> Result<()> {
        self.timestamps.append_value(row.row.ts);
        let (tags, fields) = self.columns.split_at_mut(row.tags.len());
        for (column, tag) in tags.iter_mut().zip(row.tags) {
            column.push_tag(tag.as_deref());
        }
        let cells = row.cells.iter().copied().chain(std::iter::repeat(Cell::Nil));
        for (column, cell) in fields.iter_mut().zip(cells) {
            column.push_cell(cell);
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn finish(mut self) -> Result<u64> {
        self.flush()?;
        let path = self.path;
        let finished = self.writer.finish();
        finished.map_err(|source| Error::Parquet { path, source })?;
        Ok(self.writer.bytes_written() as u64)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, TimestampNanosecondType};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use crate::tsbs::UseCase;

    #[test]
    fn csv_has_the_rows_of_line_protocol() {
        let dir = tempfile::tempdir().unwrap();
        let generated = write_csv(&Options::small(UseCase::Iot), dir.path()).unwrap();
        assert_eq!(generated.rows, 6_513);
        let text = fs::read_to_string(dir.path().join("readings.csv")).unwrap();
        let mut lines = text.lines();
        let expected = "timestamp,name,fleet,driver,model,device_version,load_capacity,\
            fuel_capacity,nominal_fuel_consumption,latitude,longitude,elevation,velocity,heading,\
            grade,fuel_consumption";
        assert_eq!(lines.next(), Some(expected));
        let expected = "1451606400000000000,truck_0,South,Trish,H-2,v2.3,1500,150,12,\
            52.31854,4.72037,124,0,221,0,25";
        assert_eq!(lines.next(), Some(expected));
        assert!(lines.all(|line| line.split(',').count() == 16));
        assert_eq!(
            fs::metadata(dir.path().join("diagnostics.csv")).unwrap().len() + text.len() as u64,
            generated.bytes
        );
    }

    #[test]
    fn parquet_has_the_rows_of_line_protocol() {
        let dir = tempfile::tempdir().unwrap();
        let generated = write_parquet(&Options::small(UseCase::Iot), dir.path()).unwrap();
        let mut rows = 0;
        let mut nils = 0;
        let mut fields = [0, 0];
        let mut begins = true;
        for (table, name) in ["readings", "diagnostics"].into_iter().enumerate() {
            let file = File::open(dir.path().join(name).with_extension("parquet")).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
            for batch in reader {
                let batch = batch.unwrap();
                rows += batch.num_rows() as u64;
                fields[table] += batch.num_rows() as u64;
                nils +=
                    batch.columns()[9..].iter().map(|column| column.null_count()).sum::<usize>();
                let is_first = std::mem::take(&mut begins);
                if is_first {
                    let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
                    assert_eq!(times.value(0), 1_451_606_400_000_000_000);
                    let latitudes = batch.column(9).as_primitive::<Float64Type>();
                    assert_eq!(latitudes.value(0), 52.31854);
                }
            }
        }
        assert_eq!((rows, generated.rows), (6_513, 6_513));
        // A reading has seven fields and a diagnosis three, less those left out.
        let cells = fields[0] * 7 + fields[1] * 3;
        assert_eq!(cells, generated.metrics + nils as u64);
        assert!(0 < nils);
    }

    #[test]
    fn hosts_with_fewer_metrics_have_nulls_behind() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::small(UseCase::DevopsGeneric);
        options.max_metrics = 20;
        let generated = write_csv(&options, dir.path()).unwrap();
        assert_eq!(generated.rows, 1_900);
        let text = fs::read_to_string(dir.path().join("generic_metrics.csv")).unwrap();
        assert!(text.lines().all(|line| line.split(',').count() == 31));
        assert_eq!(write_parquet(&options, dir.path()).unwrap().rows, 1_900);
    }
}
