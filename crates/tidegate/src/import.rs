//! `tidegate import`: options for `ingest`, progress meanwhile, a summary at the end.

mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tidegate_ingest::{
    ColumnSource, DialectOptions, FileFormat, Header, ImportOptions, ImportSummary, MissingFields,
    OnError, Progress, Source, expand_paths,
};
use tidegate_model::schema::same_name;
use tidegate_model::{ByteCount, Column, ColumnType, PartitionUnit, Schema};
use tidegate_platform::IoMode;
use tidegate_query::parse_create_table;
use tidegate_storage::Database;

use crate::args::{
    DialectArguments, FileKind, ImportArguments, IoArgument, OnErrorArgument, Quote,
};
use crate::error::{Difference, Error, Exit, Result};
use crate::progress::{Drawing, Ending, show_while};
use crate::session::Session;
use crate::{sql, tell};

pub(crate) use self::summary::Report;

/// The part of RAM that an import takes unless told otherwise.
const MEMORY_PART: u64 = 4;

pub(crate) fn run(arguments: &ImportArguments, session: &Session) -> Result<Exit> {
    let options = options(arguments, session)?;
    let interrupted = session.catch_interrupts();
    let database = session.open()?;
    check_schema(&database, &options)?;
    let drawing = arguments.progress.drawing(&session.environment);
    let start = session.clock.monotonic_nanos();
    let summary = import(&database, &options, drawing, session, &interrupted)?;
    let nanos = session.clock.monotonic_nanos() - start;
    let report = Report { table: &options.table, summary: &summary, nanos };
    sql::print(&report.to_string())?;
    Ok(report.exit())
}

/// `--schema` must be the table's own, if the table exists: rows would go elsewhere than the user
/// thinks.
fn check_schema(database: &Database, options: &ImportOptions) -> Result<()> {
    let ColumnSource::Given(given) = &options.columns else { return Ok(()) };
    match database.snapshot(&options.table) {
        Ok(snapshot) => match difference(&snapshot.schema, given) {
            Some((column, difference)) => {
                Err(Error::OtherSchema { table: snapshot.name.clone(), column, difference })
            }
            None => Ok(()),
        },
        Err(tidegate_storage::Error::NoSuchTable { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The first column in which they differ; the order of columns does not matter.
fn difference(own: &Schema, given: &[(String, ColumnType)]) -> Option<(String, Difference)> {
    let of_given = given.iter().find_map(|(name, ty)| match own.find(name) {
        None => Some((name.clone(), Difference::OnlyGiven)),
        Some(column) if column.ty != *ty => {
            Some((name.clone(), Difference::Type { own: column.ty, given: *ty }))
        }
        Some(_) => None,
    });
    of_given.or_else(|| {
        let is_given =
            |column: &&Column| given.iter().any(|(name, _)| same_name(name, &column.name));
        let missing = own.columns().iter().find(|column| !is_given(column))?;
        Some((missing.name.clone(), Difference::OnlyThere))
    })
}

/// Runs an import and shows its progress.
pub(crate) fn import(
    database: &Arc<Database>,
    options: &ImportOptions,
    drawing: Drawing,
    session: &Session,
    interrupted: &AtomicBool,
) -> Result<ImportSummary> {
    let progress = Arc::new(Progress::new());
    let ending_of = |result: &tidegate_ingest::Result<ImportSummary>| match result {
        Ok(_) => Ending::Done,
        Err(tidegate_ingest::Error::Cancelled) => Ending::Interrupted,
        Err(_) => Ending::Failed,
    };
    let result = show_while(drawing, &progress, &*session.clock, ending_of, || {
        tidegate_ingest::import(database, options, &progress, interrupted)
    });
    result.map_err(|error| match error {
        tidegate_ingest::Error::Cancelled => {
            Error::Interrupted { consequence: "; the table is as it was" }
        }
        error => Error::from(error),
    })
}

/// What was typed, as what it means.
fn options(arguments: &ImportArguments, session: &Session) -> Result<ImportOptions> {
    let definition = match &arguments.schema {
        Some(file) => Some(read_definition(file, session)?),
        None => None,
    };
    let (columns, timestamp, partition_by) = match definition {
        Some(Definition { columns, timestamp, partition_by }) => {
            // Without the clause nothing is asked for: an existing table keeps its partitions.
            let unit = Some(partition_by).filter(|unit| *unit != PartitionUnit::None);
            (ColumnSource::Given(columns), timestamp, unit)
        }
        None => (ColumnSource::Infer, None, None),
    };
    let memory = ByteCount(session.environment.memory.0 / MEMORY_PART);
    Ok(ImportOptions {
        source: source(&arguments.paths)?,
        table: arguments.table.clone(),
        columns,
        timestamp: arguments.timestamp.clone().or(timestamp),
        partition_by: arguments.partition_by.or(partition_by),
        symbols: arguments.symbols.clone(),
        format: match arguments.format {
            FileKind::Auto => FileFormat::Auto,
            FileKind::Csv => FileFormat::Csv,
            FileKind::Parquet => FileFormat::Parquet,
        },
        dialect: dialect(&arguments.dialect),
        timestamp_format: arguments.timestamp_format.clone(),
        on_error: match arguments.on_error {
            OnErrorArgument::Abort => OnError::Abort,
            OnErrorArgument::SkipRow => OnError::SkipRow,
            OnErrorArgument::Null => OnError::Null,
        },
        errors_max: arguments.max_errors,
        rejects: arguments.rejects.clone().unwrap_or_else(|| rejects_file(&arguments.table)),
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
        paths => Ok(Source::Files(expand_paths(paths)?)),
    }
}

fn dialect(arguments: &DialectArguments) -> DialectOptions {
    DialectOptions {
        delimiter: arguments.delimiter,
        quote: match arguments.quote {
            Quote(Some(b'"')) => tidegate_ingest::Quote::Standard,
            Quote(Some(byte)) => tidegate_ingest::Quote::Byte(byte),
            Quote(None) => tidegate_ingest::Quote::None,
        },
        header: match (arguments.header, arguments.no_header) {
            (true, _) => Header::Present,
            (_, true) => Header::Absent,
            _ => Header::Auto,
        },
        null_text: arguments.null.clone(),
        skip_lines: arguments.skip_lines,
        missing_fields: MissingFields::Reject,
    }
}

/// In the working directory. A table's name may have characters that a file's has not.
fn rejects_file(table: &str) -> PathBuf {
    let name: String =
        table.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    PathBuf::from(format!("{name}.rejects.ndjson"))
}

/// What `--schema` says.
struct Definition {
    columns: Vec<(String, ColumnType)>,
    timestamp: Option<String>,
    partition_by: PartitionUnit,
}

fn read_definition(file: &std::path::Path, session: &Session) -> Result<Definition> {
    let text = sql::read_file(file, session)?;
    let definition = parse_create_table(text.trim_end().trim_end_matches(';'))
        .map_err(|source| Error::Script { file: file.to_path_buf(), source })?;
    for notice in &definition.notices {
        tell(&format!("tidegate: import: {}: {notice}", file.display()));
    }
    Ok(Definition {
        columns: definition.columns,
        timestamp: definition.timestamp,
        partition_by: definition.partition_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_stands_alone() {
        let paths = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(matches!(source(&paths(&["-"])), Ok(Source::Stdin)));
        assert!(matches!(source(&paths(&["-", "x.csv"])), Err(Error::StdinAmongFiles)));
    }

    #[test]
    fn a_schema_differs_in_a_type_or_a_column_but_not_in_case_or_order() {
        let columns = |list: &[(&str, ColumnType)]| -> Vec<(String, ColumnType)> {
            list.iter().map(|&(name, ty)| (name.to_owned(), ty)).collect()
        };
        let (a, b) = (("a", ColumnType::Int32), ("b", ColumnType::Varchar));
        let own = Schema::new(&columns(&[a, b]), None, PartitionUnit::None).unwrap();
        let check = |given: &[(&str, ColumnType)], expected: Option<(&str, Difference)>| {
            let expected = expected.map(|(column, difference)| (column.to_owned(), difference));
            assert_eq!(difference(&own, &columns(given)), expected);
        };
        check(&[("B", ColumnType::Varchar), a], None);
        check(&[a], Some(("b", Difference::OnlyThere)));
        check(&[a, b, ("c", ColumnType::Date)], Some(("c", Difference::OnlyGiven)));
        let other = Difference::Type { own: ColumnType::Int32, given: ColumnType::Int64 };
        check(&[("a", ColumnType::Int64), b], Some(("a", other)));
    }

    #[test]
    fn rejects_are_listed_beside_the_user() {
        assert_eq!(rejects_file("hits"), PathBuf::from("hits.rejects.ndjson"));
        assert_eq!(rejects_file("../a"), PathBuf::from(".._a.rejects.ndjson"));
    }
}
