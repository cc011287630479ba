//! `tidegate tables` and `tidegate describe`: the tables of a database and the storage of their
//! columns.
//!
//! Lists are results like those of queries, so they have the same formats; the table format rounds
//! sizes for people, the others have plain numbers. Not here: the rows themselves (`sql`), and
//! their verification (`verify`).

mod storage;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use tidegate_model::time::IsoTimestamp;
use tidegate_model::{Timestamp, limits};
use tidegate_storage::{Database, Snapshot};

use self::storage::column_storage;
use crate::args::{DescribeArguments, ListArguments};
use crate::environment::stdout_columns;
use crate::error::{Error, Exit, Result};
use crate::output::{Form, Format, Layout, Target, WriteError, printable};
use crate::session::Session;
use crate::text::{bytes, grouped};

pub(crate) fn tables(arguments: &ListArguments, session: &Session) -> Result<Exit> {
    let form = form(arguments.format, session)?;
    let database = session.open_existing()?;
    show(|target| list_tables(&database, form, target))
}

pub(crate) fn describe(arguments: &DescribeArguments, session: &Session) -> Result<Exit> {
    let form = form(arguments.format, session)?;
    let database = session.open_existing()?;
    show(|target| show_table(&database, &arguments.table, form, target))
}

/// Writes a list to standard output. A reader that closes the pipe is not an error.
fn show(list: impl FnOnce(&mut Target) -> Result<()>) -> Result<Exit> {
    let mut target = Target::stdout();
    let listed = list(&mut target);
    if target.is_closed() {
        return Ok(Exit::Done);
    }
    listed?;
    let place = target.place().to_owned();
    match target.finish() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Output { place, source: error.into() })
        }
        _ => Ok(Exit::Done),
    }
}

/// Shows the list of another command.
pub(crate) fn show_columns(
    named: &[(&str, ArrayRef)],
    format: Format,
    session: &Session,
) -> Result<Exit> {
    let (form, batch) = (form(format, session)?, columns(named));
    show(|target| write(&batch, form, target))
}

/// Writes one line to standard output.
pub(crate) fn show_line(line: &str) -> Result<Exit> {
    show(|target| {
        let place = target.place().to_owned();
        let written = target.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| Error::Output { place, source: error.into() })
    })
}

fn form(format: Format, session: &Session) -> Result<Form> {
    if format.is_binary() {
        return Err(Error::BinaryList { format: format.name() });
    }
    let layout = if session.environment.stdout_is_terminal {
        Layout::Terminal { columns: stdout_columns() }
    } else {
        Layout::Plain
    };
    Ok(Form { format, layout, is_file: false })
}

/// Writes the list of tables, one line a table.
pub(crate) fn list_tables(database: &Database, form: Form, target: &mut Target) -> Result<()> {
    let mut rows = Vec::new();
    for entry in database.tables() {
        // A table that was dropped meanwhile is left out.
        if let Ok(snapshot) = database.snapshot(&entry.name) {
            rows.push(TableLine::of(&snapshot));
        }
    }
    let text = |value_of: fn(&TableLine) -> Option<String>| texts(rows.iter().map(value_of));
    let number = |value_of: fn(&TableLine) -> u64| numbers(rows.iter().map(value_of));
    let size: ArrayRef = if form.format == Format::Table {
        text(|line| Some(bytes(line.bytes)))
    } else {
        number(|line| line.bytes)
    };
    let batch = columns(&[
        ("table", text(|line| Some(line.name.clone()))),
        ("rows", number(|line| line.rows)),
        ("partitions", number(|line| line.partitions)),
        ("segments", number(|line| line.segments)),
        ("bytes", size),
        ("first", text(|line| line.first.clone())),
        ("last", text(|line| line.last.clone())),
    ]);
    write(&batch, form, target)
}

/// The facts about a table that the list shows.
struct TableLine {
    name: String,
    rows: u64,
    partitions: u64,
    segments: u64,
    bytes: u64,
    first: Option<String>,
    last: Option<String>,
}

impl TableLine {
    fn of(snapshot: &Snapshot) -> TableLine {
        let unit = snapshot.schema.time_unit();
        let iso = |instant| IsoTimestamp(Timestamp(instant), unit).to_string();
        let partitions: BTreeSet<_> = snapshot.groups.iter().map(|group| group.partition).collect();
        let range = snapshot.min_max_ts();
        TableLine {
            name: snapshot.name.clone(),
            rows: snapshot.rows().0,
            partitions: partitions.len() as u64,
            segments: snapshot.segments().count() as u64,
            bytes: snapshot.segments().map(|run| run.meta.bytes.0).sum(),
            first: range.map(|(first, _)| iso(first)),
            last: range.map(|(_, last)| iso(last)),
        }
    }
}

/// Writes the columns of a table, one line a column, after facts about the table in the table
/// format.
pub(crate) fn show_table(
    database: &Database,
    table: &str,
    form: Form,
    target: &mut Target,
) -> Result<()> {
    let snapshot = database.snapshot(table)?;
    let storage = column_storage(&snapshot)?;
    if form.format == Format::Table {
        let place = target.place().to_owned();
        target
            .write_all(facts(&snapshot).as_bytes())
            .map_err(|error| Error::Output { place, source: error.into() })?;
    }
    let designated = snapshot.schema.designated();
    let pairs: Vec<_> = snapshot.schema.columns().iter().zip(&storage).collect();
    let size: ArrayRef = if form.format == Format::Table {
        texts(pairs.iter().map(|(_, storage)| Some(bytes(storage.bytes))))
    } else {
        numbers(pairs.iter().map(|(_, storage)| storage.bytes))
    };
    // The table format shows an empty cell in place of NULL.
    let none = (form.format == Format::Table).then(String::new);
    let role = |is_designated: bool| match is_designated {
        true => Some("designated timestamp".to_owned()),
        false => none.clone(),
    };
    let batch = columns(&[
        ("column", texts(pairs.iter().map(|(column, _)| Some(column.name.clone())))),
        ("type", texts(pairs.iter().map(|(column, _)| Some(column.ty.sql())))),
        ("role", texts(pairs.iter().map(|(column, _)| role(designated == Some(column.id))))),
        ("nulls", numbers(pairs.iter().map(|(_, storage)| storage.nulls))),
        ("bytes", size),
        ("encodings", texts(pairs.iter().map(|(_, storage)| Some(storage.encodings())))),
    ]);
    write(&batch, form, target)
}

fn facts(snapshot: &Snapshot) -> String {
    let line = TableLine::of(snapshot);
    let partition_by = snapshot.schema.partition_by().sql();
    let mut text = format!(
        "table         {}\nrows          {}\npartition by  {partition_by}\n\
         partitions    {}\nsegments      {}, of at most {} rows\nbytes         {}\n",
        printable(&line.name),
        grouped(line.rows),
        grouped(line.partitions),
        grouped(line.segments),
        grouped(limits::SEGMENT_ROWS.0),
        bytes(line.bytes),
    );
    if let (Some(first), Some(last)) = (&line.first, &line.last) {
        text.push_str(&format!("time          {first} to {last}\n"));
    }
    text.push('\n');
    text
}

pub(crate) fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(StringArray::from_iter(values))
}

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn columns(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let columns = columns.iter().map(|(name, array)| (*name, Arc::clone(array), true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("all columns have a value a line")
}

fn write(batch: &RecordBatch, form: Form, target: &mut Target) -> Result<()> {
    let place = target.place().to_owned();
    write_batch(batch, form, target).map_err(|source| Error::Output { place, source })
}

fn write_batch(
    batch: &RecordBatch,
    form: Form,
    target: &mut Target,
) -> std::result::Result<(), WriteError> {
    let mut writer = form.writer(target, batch.schema())?;
    writer.write(batch)?;
    writer.finish()
}
