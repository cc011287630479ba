//! Flat Parquet files: row groups are decoded in parallel and go through the same buckets, sealing
//! and commit as text.
//!
//! - PQ1. Rows stand in the order of files, row groups and rows: a row group's rows are marked with
//!   its number among all.
//! - PQ2. A value that its column cannot hold is a fault, as a bad cell of text is.
//!
//! Decoding is the `parquet` library's; strings that a file keeps in dictionaries become symbols
//! without being looked at one by one. Not here: nested types.

mod columns;
mod source;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use tidegate_model::schema::same_name;
use tidegate_model::{ColumnType, Schema};
use tidegate_platform::{DiskFile, Reservation};
use tidegate_storage::segment::intern::Interner;

use crate::bucket::{BucketPlan, Buckets, PlanOptions};
use crate::convert::Converter;
use crate::distribute::{Distributor, Room};
use crate::error::{Error, Result};
use crate::faults::FaultContext;
use crate::import::{
    BucketSetup, ImportContext, Parsed, PhaseClock, Remarks, TargetSchema, existing_schema,
    first_error, given_unit, new_schema, require_designated,
};
use crate::layout::RowLayout;
use crate::options::{ColumnSource, DialectOptions, ImportOptions, Quote};
use crate::progress::{Phase, Progress};
use crate::sniff::{Dialect, FirstLine, Header, LineEnd, SniffOptions, Sniffed, map_columns};
use crate::strip::Strip;
use crate::tally::Tallies;
use crate::timestamp::{EpochUnit, TimestampFormat};

use source::ParquetSource;

/// Memory is counted after every batch, and after so much text.
const SETTLE_TEXT_BYTES: usize = 32 << 20;
/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 4_096;

/// An open file.
struct ParquetFile {
    path: PathBuf,
    source: ParquetSource,
    metadata: ArrowReaderMetadata,
    /// For each column of the table, the column of the file.
    sources: Vec<Option<usize>>,
}

/// What all workers share.
struct ParquetJob<'a> {
    files: &'a [ParquetFile],
    /// File and row group of every task, in order (PQ1).
    tasks: &'a [(usize, usize)],
    next: AtomicUsize,
    layout: &'a RowLayout,
    /// Of the designated timestamp; what integers count goes for all times.
    format: Option<&'a TimestampFormat>,
    buckets: &'a Arc<Buckets>,
    room: Room<'a>,
    faults: FaultContext<'a>,
    progress: &'a Progress,
    cancel: &'a AtomicBool,
    stop: AtomicBool,
}

/// Reads all row groups into buckets.
pub(crate) fn read(
    context: &ImportContext<'_>,
    opened: &[Arc<dyn DiskFile>],
    phases: &mut PhaseClock<'_>,
) -> Result<Parsed> {
    let (target, files, notes) = prepare(context, opened)?;
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
    let tallies = Tallies::new(&paths);
    let layout = RowLayout::new(&target.schema);
    let tasks: Vec<(usize, usize)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, open)| (0..open.row_groups()).map(move |group| (file, group)))
        .collect();
    let format = context.options.timestamp_format.as_ref();
    let plan = plan(&files, (&layout, columns::epoch_unit(format)), &target.schema)?;
    let txn = context.begin(target.exists, &target.schema)?;
    let (buckets, spill) = context.buckets(&txn, BucketSetup { plan, layout: layout.clone() })?;
    context.progress.set_bytes_total(files.iter().map(|file| file.source.bytes()).sum());
    phases.end(Phase::Setup);
    context.progress.enter(Phase::Read);
    let job = ParquetJob {
        files: &files,
        tasks: &tasks,
        next: AtomicUsize::new(0),
        layout: &layout,
        format,
        buckets: &buckets,
        room: Room { spill: &spill, spill_from: context.spill_from(), progress: context.progress },
        faults: FaultContext {
            on_error: context.options.on_error,
            layout: &layout,
            unit: target.schema.time_unit(),
            paths: &paths,
            rejects: context.rejects,
            progress: context.progress,
            cells_nulled: AtomicU64::new(0),
            tallies: &tallies,
        },
        progress: context.progress,
        cancel: context.cancel,
        stop: AtomicBool::new(false),
    };
    let outcomes = std::thread::scope(|scope| {
        let job = &job;
        let threads: Vec<_> = (0..context.options.workers.get())
            .map(|number| {
                let number = u32::try_from(number).expect("few workers");
                scope.spawn(move || {
                    let outcome = Worker::new(job, number).run();
                    job.stop.fetch_or(outcome.is_err(), Relaxed);
                    outcome
                })
            })
            .collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let outcome = first_error(outcomes);
    if !matches!(outcome, Err(Error::Cancelled)) {
        // That a file was changed is the reason of whatever else is wrong with it.
        files.iter().try_for_each(|file| file.source.check_unchanged())?;
    }
    let (interners, held) = outcome?.into_iter().unzip();
    let cells_nulled = job.faults.cells_nulled.load(Relaxed);
    phases.end(Phase::Read);
    if context.progress.sample().rows_read == 0 {
        return Err(Error::NoRecords { path: context.source_name() });
    }
    let remarks = Remarks { created_table: !target.exists, has_header: false, notes };
    Ok(Parsed { txn, buckets, spill, interners, held, cells_nulled, tallies, remarks })
}

/// Opens the files, and maps their columns to the table's.
fn prepare(
    context: &ImportContext<'_>,
    opened: &[Arc<dyn DiskFile>],
) -> Result<(TargetSchema, Vec<ParquetFile>, Vec<String>)> {
    let options = context.options;
    let existing = existing_schema(context.database, options)?;
    let exists = existing.is_some();
    let (mut schema, mut files, mut notes) = (existing, Vec::new(), Vec::new());
    for file in opened {
        let path = &file.path().to_path_buf();
        let source = ParquetSource::new(file, context.progress)?;
        let damaged = |source| Error::Parquet { path: path.clone(), source };
        let metadata = load(&source, ArrowReaderOptions::new()).map_err(damaged)?;
        let fields = metadata.schema().fields();
        let schema = match &mut schema {
            Some(schema) => schema,
            none => {
                let columns = match &options.columns {
                    ColumnSource::Given(columns) => columns.clone(),
                    ColumnSource::Infer | ColumnSource::Hinted(_) => fields
                        .iter()
                        .map(|field| Ok((field.name().clone(), inferred(field, path, options)?)))
                        .collect::<Result<_>>()?,
                };
                none.insert(new_schema(columns, options, path)?)
            }
        };
        let sources =
            map(fields.iter().map(|field| field.name().clone()), schema, path, &mut notes)?;
        let metadata = with_wanted_types(&source, &metadata, &sources, schema)
            .map_err(|source| Error::Parquet { path: path.clone(), source })?;
        check_types(&metadata, &sources, schema, path)?;
        check_times(&metadata, &sources, schema, options)?;
        require_designated(schema, &sources, path)?;
        files.push(ParquetFile { path: path.clone(), source, metadata, sources });
    }
    let schema = schema.expect("there is a file");
    notes.extend(unused_options(options));
    Ok((TargetSchema { schema, exists }, files, notes))
}

/// What was asked for that is only done to text.
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

/// By name, as a text file with a header.
fn map(
    names: impl Iterator<Item = String>,
    schema: &Schema,
    path: &std::path::Path,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<usize>>> {
    let dialect = Dialect {
        delimiter: b',',
        quote: None,
        has_header: true,
        null_text: None,
        line_end: LineEnd::LfOrCrlf,
    };
    let names: Vec<String> = names.collect();
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
        skip: &[],
        like: None,
        first_line: FirstLine::Unknown,
        head_is_whole: true,
    };
    let map = map_columns(&sniffed, schema, &options)
        .map_err(|source| Error::Sniff { path: path.to_owned(), source })?;
    notes.extend(map.notes);
    let mut sources = vec![None; schema.columns().len()];
    for (field, target) in map.targets.iter().enumerate() {
        if let Some(column) = *target {
            sources[column] = Some(field);
        }
    }
    Ok(sources)
}

/// The type of column that holds a field's values.
fn inferred(field: &Field, path: &std::path::Path, options: &ImportOptions) -> Result<ColumnType> {
    let is_time = |name: &String| same_name(name, field.name());
    if options.timestamp.as_ref().is_some_and(is_time)
        && columns::plain_type(field.data_type()).is_string()
    {
        return Ok(ColumnType::Timestamp(given_unit(options)));
    }
    columns::column_type(field.data_type()).ok_or_else(|| Error::ParquetType {
        path: path.to_owned(),
        column: field.name().clone(),
        ty: field.data_type().to_string(),
    })
}

/// Asks the decoder for views of text, and for dictionaries where a symbol wants them.
fn with_wanted_types(
    source: &ParquetSource,
    metadata: &ArrowReaderMetadata,
    sources: &[Option<usize>],
    schema: &Schema,
) -> parquet::errors::Result<ArrowReaderMetadata> {
    let mut fields: Vec<Arc<Field>> = metadata.schema().fields().iter().cloned().collect();
    for (column, source) in schema.columns().iter().zip(sources) {
        let Some(source) = *source else { continue };
        let own: DataType = fields[source].data_type().clone();
        let is_text = matches!(own, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            || matches!(&own, DataType::Dictionary(_, value) if value.is_string());
        let is_binary = matches!(own, DataType::Binary | DataType::LargeBinary);
        let wanted = match column.ty {
            ColumnType::Symbol if is_text => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
            _ if is_text => DataType::Utf8View,
            _ if is_binary => DataType::BinaryView,
            // The decoder knows no dictionaries of anything but texts.
            _ if matches!(own, DataType::Dictionary(..)) => columns::plain_type(&own).clone(),
            _ => continue,
        };
        let field = Field::clone(&fields[source]).with_data_type(wanted);
        fields[source] = Arc::new(field);
    }
    let schema: SchemaRef = Arc::new(ArrowSchema::new(fields));
    load(source, ArrowReaderOptions::new().with_schema(schema))
}

/// Reads the footer. The decoder of the Arrow schema in it panics on some damaged bytes: that is an
/// error like any other.
fn load(
    source: &ParquetSource,
    options: ArrowReaderOptions,
) -> parquet::errors::Result<ArrowReaderMetadata> {
    let loading = AssertUnwindSafe(|| ArrowReaderMetadata::load(source, options));
    let damaged = || ParquetError::General("the schema in its footer is damaged".to_owned());
    std::panic::catch_unwind(loading).unwrap_or_else(|_| Err(damaged()))
}

fn check_types(
    metadata: &ArrowReaderMetadata,
    sources: &[Option<usize>],
    schema: &Schema,
    path: &std::path::Path,
) -> Result<()> {
    for (column, source) in schema.columns().iter().zip(sources) {
        let Some(source) = *source else { continue };
        let field = metadata.schema().field(source);
        if !columns::can_become(field.data_type(), column.ty) {
            let (path, ty) = (path.to_owned(), column.ty);
            return Err(Error::ParquetTarget { path, column: field.name().clone(), ty });
        }
    }
    Ok(())
}

/// An integer is a time only if somebody says what it counts.
fn check_times(
    metadata: &ArrowReaderMetadata,
    sources: &[Option<usize>],
    schema: &Schema,
    options: &ImportOptions,
) -> Result<()> {
    let has_unit = columns::epoch_unit(options.timestamp_format.as_ref()).is_some();
    for (column, source) in schema.columns().iter().zip(sources) {
        let Some(source) = *source else { continue };
        let field = metadata.schema().field(source);
        let own = columns::plain_type(field.data_type());
        if column.ty.time_unit().is_some() && own.is_integer() && !has_unit {
            let ty = columns::column_type(own).unwrap_or(ColumnType::Int64);
            return Err(Error::TimestampNeedsFormat { column: field.name().clone(), ty });
        }
    }
    Ok(())
}

/// Where buckets begin, from the statistics of the row groups: their rows are taken to be spread
/// evenly between their least and greatest timestamps.
fn plan(
    files: &[ParquetFile],
    (layout, epoch): (&RowLayout, Option<EpochUnit>),
    schema: &Schema,
) -> Result<BucketPlan> {
    let Some(column) = layout.timestamp else { return Ok(BucketPlan::single()) };
    let (mut sample, mut rows) = (Vec::new(), 0);
    for file in files {
        let Some(source) = file.sources[column] else { continue };
        let ty = layout.columns[column].column.ty;
        for group in file.timestamps(source, (ty, epoch))? {
            rows += group.rows;
            for step in 0..SAMPLES_PER_GROUP {
                let span = group.max.abs_diff(group.min);
                let offset =
                    u128::from(span) * u128::from(step) / u128::from(SAMPLES_PER_GROUP - 1);
                let offset = i64::try_from(offset).unwrap_or(i64::MAX);
                sample.push(group.min.saturating_add(offset));
            }
        }
    }
    let (partition_by, unit) = (schema.partition_by(), schema.time_unit());
    let options = PlanOptions { partition_by, unit, rows, bucket_rows_max: u64::MAX };
    Ok(BucketPlan::from_sample(sample, options))
}

const SAMPLES_PER_GROUP: u64 = 512;

/// The timestamps of a row group.
struct GroupTimes {
    min: i64,
    max: i64,
    rows: u64,
}

impl ParquetFile {
    fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// The bounds of the timestamps of each row group that says them.
    fn timestamps(
        &self,
        source: usize,
        ty: (ColumnType, Option<EpochUnit>),
    ) -> Result<Vec<GroupTimes>> {
        let damaged = |source| Error::Parquet { path: self.path.clone(), source };
        columns::group_bounds(&self.metadata, source, ty)
            .map(|bounds| {
                let of = |(min, max, rows)| GroupTimes { min, max, rows };
                bounds.into_iter().map(of).collect()
            })
            .map_err(damaged)
    }

    fn reader(&self, group: usize) -> parquet::errors::Result<ParquetRecordBatchReader> {
        ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.source.clone(),
            self.metadata.clone(),
        )
        .with_row_groups(vec![group])
        .with_batch_size(BATCH_ROWS)
        .build()
    }
}

/// One worker.
struct Worker<'a> {
    job: &'a ParquetJob<'a>,
    converter: Converter,
    distributor: Distributor,
    strip: Strip,
    interners: Reservation,
}

impl<'a> Worker<'a> {
    fn new(job: &'a ParquetJob<'a>, number: u32) -> Worker<'a> {
        let none = vec![None; job.layout.columns.len()];
        let formats: Vec<_> = job.layout.columns.iter().map(|_| None).collect();
        Worker {
            job,
            converter: Converter::new(job.layout, &none, &formats),
            distributor: Distributor::new(Arc::clone(job.buckets), number),
            strip: Strip::new(job.layout),
            interners: job.buckets.budget.reserve_unchecked(0),
        }
    }

    fn run(mut self) -> Result<(Vec<Interner>, Reservation)> {
        let job = self.job;
        loop {
            let task = job.next.fetch_add(1, Relaxed);
            let Some(&(file, group)) = job.tasks.get(task) else { break };
            self.row_group(task, file, group)?;
        }
        self.distributor.finish();
        Ok((self.converter.into_interners(), self.interners))
    }

    fn row_group(&mut self, task: usize, file: usize, group: usize) -> Result<()> {
        let job = self.job;
        let open = &job.files[file];
        let (path, number) = (&open.path, group + 1);
        let damaged = |source| Error::ParquetRows { path: path.clone(), group: number, source };
        let groups = open.metadata.metadata().row_groups();
        let before: i64 = groups[..group].iter().map(|group| group.num_rows()).sum();
        let mut first_row = u64::try_from(before).unwrap_or(0) + 1;
        let rows = u64::try_from(groups[group].num_rows()).unwrap_or(0);
        job.faults.tallies.of(file).seen.fetch_add(rows, Relaxed); // tally-1
        for batch in open.reader(group).map_err(damaged)? {
            if job.cancel.load(Relaxed) || job.stop.load(Relaxed) {
                return Err(Error::Cancelled);
            }
            let batch = batch.map_err(|error| damaged(error.into()))?;
            let rows = batch.num_rows();
            self.batch(&batch, task, file, first_row)?;
            first_row += rows as u64;
            job.progress.add_rows_read(rows as u64);
            self.settle()?;
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, task: usize, file: usize, first: u64) -> Result<()> {
        let job = self.job;
        let sources = &job.files[file].sources;
        let prepared = columns::prepare(batch, sources, (job.layout, job.format));
        let mut text_bytes = 0;
        for rows in prepared.stretches() {
            self.strip.clear();
            self.strip.order = 2 * task as u64;
            prepared.fill(rows.clone(), &mut self.converter, &mut self.strip);
            let origin = prepared.origin(file, first + rows.start as u64, rows.start);
            job.faults.resolve(&mut self.converter.faults, &origin, &mut self.strip)?;
            job.faults.tallies.of(file).add_strip(&self.strip);
            self.distributor.distribute(&self.strip, &[]);
            text_bytes += prepared.text_bytes(&rows);
            if text_bytes > SETTLE_TEXT_BYTES {
                text_bytes = 0;
                self.settle()?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        let interned = self.converter.memory_bytes();
        self.distributor.settle_in(&self.job.room, &mut self.interners, interned)
    }
}
