//! `tidegate import`: translates the arguments, runs the import of `ingest` with progress and
//! cancellation, and prints the summary.

mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use tidegate_ingest::{
    ColumnSource, DialectOptions, EmptyFields, Existing, ExtraFields, FileFormat, Header,
    ImportOptions, ImportSummary, MissingFields, OnError, Phase, Progress, RejectList, RowsTo,
    Source, expand_paths, left_out_note,
};
use tidegate_model::{ByteCount, ColumnType, PartitionUnit};
use tidegate_platform::IoMode;
use tidegate_query::parse_create_table;
use tidegate_storage::Database;

use crate::args::{
    DialectArguments, FileKind, ImportArguments, IoArgument, OnErrorArgument, Quote,
};
use crate::error::{Error, Exit, Result};
use crate::output::printable;
use crate::progress::{Drawing, Ending, show_while};
use crate::session::Session;
use crate::{sql, tell};

pub(crate) use self::summary::Report;

/// The default of `--memory` is RAM divided by this number.
const MEMORY_DIVISOR: u64 = 4;
/// Interval at which the waiting thread checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);
/// The time for an interrupted import to stop before it is abandoned.
const GRACE: Duration = Duration::from_secs(1);
const UNCHANGED: Error = Error::Interrupted { consequence: "; the table is as it was" };

pub(crate) fn run(arguments: &ImportArguments, session: &Session) -> Result<Exit> {
    let options = options(arguments, session)?;
    let interrupted = session.catch_interrupts();
    let database = session.open_within(arguments.memory)?;
    let drawing = arguments.progress.drawing(&session.environment);
    let start = session.clock.monotonic_nanos();
    let summary = import(&database, &options, drawing, session, &interrupted)?;
    let nanos = session.clock.monotonic_nanos() - start;
    let report = Report { table: &options.table, summary: &summary, nanos };
    sql::print(&report.to_string())?;
    Ok(report.exit())
}

/// Runs an import and shows its progress.
pub(crate) fn import(
    database: &Arc<Database>,
    options: &ImportOptions,
    drawing: Drawing,
    session: &Session,
    interrupted: &Arc<AtomicBool>,
) -> Result<ImportSummary> {
    let progress = Arc::new(Progress::new());
    let ending_of = |result: &Result<ImportSummary>| match result {
        Ok(_) => Ending::Done,
        Err(Error::Interrupted { .. }) => Ending::Interrupted,
        Err(_) => Ending::Failed,
    };
    show_while(drawing, &progress, &*session.clock, ending_of, || {
        let outcomes = start(database, options, &progress, interrupted)?;
        wait(&outcomes, &progress, interrupted)
    })
}

type Outcomes = Receiver<tidegate_ingest::Result<ImportSummary>>;

/// Starts the import on a thread of its own, which `wait` may abandon.
fn start(
    database: &Arc<Database>,
    options: &ImportOptions,
    progress: &Arc<Progress>,
    interrupted: &Arc<AtomicBool>,
) -> Result<Outcomes> {
    let (sender, outcomes) = sync_channel(1);
    let (database, options) = (Arc::clone(database), options.clone());
    let (progress, cancel) = (Arc::clone(progress), Arc::clone(interrupted));
    let work = move || {
        let outcome = tidegate_ingest::import(&database, &options, &progress, &cancel);
        // The last owner closes the database. So this thread gives up its share before it sends the
        // outcome: the waiting thread closes the database.
        drop(database);
        // The receiver is gone if the import was abandoned.
        let _ = sender.send(outcome);
    };
    let named = thread::Builder::new().name("import".to_owned()).spawn(work);
    named.map_err(|source| Error::Threads { source })?;
    Ok(outcomes)
}

/// Waits for the outcome.
///
/// An interrupted import that does not end within `GRACE` waits for its input, perhaps for ever. It
/// is abandoned: it will see the cancellation before it can commit, and the next program that opens
/// the database removes the files that it has written.
fn wait(
    outcomes: &Outcomes,
    progress: &Progress,
    interrupted: &AtomicBool,
) -> Result<ImportSummary> {
    let mut grace = GRACE;
    loop {
        match outcomes.recv_timeout(TICK) {
            Ok(Err(tidegate_ingest::Error::Cancelled)) => return Err(UNCHANGED),
            Ok(outcome) => return Ok(outcome?),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Panicked),
            Err(RecvTimeoutError::Timeout) if interrupted.load(Relaxed) => {
                let is_reading = matches!(progress.sample().phase, Phase::Setup | Phase::Read);
                grace = grace.saturating_sub(TICK);
                if is_reading && grace.is_zero() {
                    return Err(UNCHANGED);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Translates the arguments into import options.
fn options(arguments: &ImportArguments, session: &Session) -> Result<ImportOptions> {
    let definition = match &arguments.schema {
        Some(file) => Some(read_definition(file, session)?),
        None => None,
    };
    let mut lengths = Vec::new();
    let (columns, timestamp, partition_by) = match definition {
        Some(Definition { columns, lengths: given, timestamp, partition_by }) => {
            lengths = given;
            // A definition without PARTITION BY also matches an existing table with partitions.
            let unit = Some(partition_by).filter(|unit| *unit != PartitionUnit::None);
            (ColumnSource::Given(columns), timestamp, unit)
        }
        None => (ColumnSource::Infer, None, None),
    };
    let memory = ByteCount(session.environment.memory.0 / MEMORY_DIVISOR);
    Ok(ImportOptions {
        source: source(&arguments.paths)?,
        table: arguments.table.clone(),
        columns,
        fields: None,
        existing: Existing::Add,
        lengths,
        timestamp: arguments.timestamp.clone().or(timestamp),
        partition_by: arguments.partition_by.or(partition_by),
        symbols: arguments.symbols.clone(),
        skip_columns: arguments.skip_columns.clone(),
        format: match arguments.format {
            FileKind::Auto => FileFormat::Auto,
            FileKind::Csv => FileFormat::Csv,
            FileKind::Parquet => FileFormat::Parquet,
        },
        dialect: dialect(&arguments.dialect),
        timestamp_format: arguments.timestamp_format.clone(),
        column_formats: Vec::new(),
        on_error: match arguments.on_error {
            OnErrorArgument::Abort => OnError::Abort,
            OnErrorArgument::SkipRow => OnError::SkipRow,
            OnErrorArgument::Null => OnError::Null,
        },
        errors_max: arguments.max_errors,
        rejects: RejectList::File(
            arguments.rejects.clone().unwrap_or_else(|| rejects_file(&arguments.table)),
        ),
        rows_to: RowsTo::Table,
        workers: arguments.threads.unwrap_or(session.environment.cores),
        memory_max: arguments.memory.unwrap_or(memory),
        io: match arguments.io {
            IoArgument::Auto => IoMode::Auto,
            IoArgument::Uring => IoMode::Uring,
            IoArgument::Sync => IoMode::Sync,
        },
    })
}

fn source(paths: &[String]) -> Result<Source> {
    match paths {
        [path] if path == "-" => Ok(Source::Stdin),
        paths if paths.iter().any(|path| path == "-") => Err(Error::StdinAmongFiles),
        paths => {
            let expanded = expand_paths(paths)?;
            for path in &expanded.repeated {
                let path = printable(&path.display().to_string());
                tell(&format!("tidegate: import: {path} is named several times, and read once"));
            }
            if let Some(note) = left_out_note(&expanded.left_out) {
                tell(&format!("tidegate: import: {}", printable(&note)));
            }
            Ok(Source::Files(expanded.paths))
        }
    }
}

fn dialect(arguments: &DialectArguments) -> DialectOptions {
    DialectOptions {
        delimiter: arguments.delimiter,
        quote: match arguments.quote {
            None => tidegate_ingest::Quote::Standard,
            Some(Quote(Some(byte))) => tidegate_ingest::Quote::Byte(byte),
            Some(Quote(None)) => tidegate_ingest::Quote::None,
        },
        header: match (arguments.header, arguments.no_header) {
            (true, _) => Header::Present,
            (_, true) => Header::Absent,
            _ => Header::Auto,
        },
        null_text: arguments.null.clone(),
        empty_fields: EmptyFields::Null,
        skip_lines: arguments.skip_lines,
        missing_fields: MissingFields::Reject,
        extra_fields: ExtraFields::Reject,
    }
}

/// Returns the rejects file in the working directory. Characters of the table's name that a file
/// name cannot have become `_`.
fn rejects_file(table: &str) -> PathBuf {
    let name: String =
        table.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    PathBuf::from(format!("{name}.rejects.ndjson"))
}

/// The table definition that `--schema` names.
struct Definition {
    columns: Vec<(String, ColumnType)>,
    lengths: Vec<(String, u32)>,
    timestamp: Option<String>,
    partition_by: PartitionUnit,
}

fn read_definition(file: &std::path::Path, session: &Session) -> Result<Definition> {
    let text = sql::read_file(file, session)?;
    let definition =
        parse_create_table(text.trim_end().trim_end_matches(';')).map_err(|error| {
            Error::Script { file: file.to_path_buf(), source: Box::new(error.into()) }
        })?;
    for notice in &definition.notices {
        tell(&format!("tidegate: import: {}: {notice}", file.display()));
    }
    if definition.has_settings() {
        let notice = "DEDUP and TTL are ignored: use ALTER TABLE to set them";
        tell(&format!("tidegate: import: {}: {notice}", file.display()));
    }
    Ok(Definition {
        columns: definition.columns,
        lengths: definition.lengths,
        timestamp: definition.timestamp,
        partition_by: definition.partition_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_must_be_the_only_path() {
        let paths = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(matches!(source(&paths(&["-"])), Ok(Source::Stdin)));
        assert!(matches!(source(&paths(&["-", "x.csv"])), Err(Error::StdinAmongFiles)));
    }

    #[test]
    fn rejects_file_is_in_the_working_directory() {
        assert_eq!(rejects_file("hits"), PathBuf::from("hits.rejects.ndjson"));
        assert_eq!(rejects_file("../a"), PathBuf::from(".._a.rejects.ndjson"));
    }
}
