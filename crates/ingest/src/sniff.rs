//! Detection of the dialect, header, names and types of a text file, from samples (docs/import.md).
//!
//! - Samples are hints: any bytes are accepted, and a record that does not fit is left out.
//! - sniff-1. Options of the user and properties of the table are never overruled.
//!
//! The samples are the head of the file and windows anywhere behind it, so that a column that is
//! empty for its first million rows gets its type from later ones. Not here: reading the samples,
//! and skipping a byte-order mark or lines before the header, which the pipeline does.

use thiserror::Error;
use tidegate_model::{ColumnType, Schema, TimeUnit, limits};
use tidegate_platform::Class;

use crate::excerpt::shown;
use crate::index::{Before, FieldIndex, Kernel, QuoteState, Start, Structure};
use crate::options::Quote;
use crate::parse::parse_i64;
use crate::timestamp::{TimestampFormat, TimestampParser};

mod dialect;
mod records;
mod window;
mod shape;
mod evidence;
mod notation;
mod remarks;
mod columns;

pub use crate::options::Header;
pub(crate) use columns::{HeaderDecision, is_skipped};
use dialect::SniffedShape;
pub(crate) use dialect::line_end;
use evidence::Spoiled;
pub(crate) use evidence::{Evidence, Inferred, Orders};
use records::{Cell, Record, Records, Shape};
pub(crate) use remarks::{Surroundings, inferred, remarks};
use window::QuotedLines;

/// The end of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineEnd {
    /// LF, or CR and LF: each record may have its own.
    LfOrCrlf,
    /// CR alone.
    Cr,
}

/// The dialect of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dialect {
    /// The byte between cells.
    pub delimiter: u8,
    /// The byte around a cell, doubled inside; `None` if there are no quotes.
    pub quote: Option<u8>,
    /// True if the first record is a header.
    pub has_header: bool,
    /// The unquoted text that means NULL, beside the empty one, which always does.
    pub null_text: Option<Vec<u8>>,
    /// The end of a record.
    pub line_end: LineEnd,
}

/// The options of sniffing, which are known before the file is read.
#[derive(Clone, Copy, Debug)]
pub struct SniffOptions<'a> {
    /// The delimiter; `None`: one of comma, semicolon, tab, bar.
    pub delimiter: Option<u8>,
    /// The byte that quotes.
    pub quote: Quote,
    /// The kind of the first record.
    pub header: Header,
    /// The format of the designated timestamp, and of any other column that it fits. `None` and
    /// `Detect`: detected.
    pub timestamp_format: Option<&'a TimestampFormat>,
    /// The unquoted text that means NULL.
    pub null_text: Option<&'a str>,
    /// The table, if it exists or its columns are given.
    pub expected: Option<&'a Schema>,
    /// The columns of the table for those of the file, in order, if the statement lists them.
    pub columns: Option<&'a [String]>,
    /// The designated timestamp, if the user names it.
    pub designated: Option<&'a str>,
    /// The columns that the user makes symbols.
    pub symbols: &'a [String],
    /// The columns of a new table that the caller knows.
    pub hints: &'a [(String, ColumnType)],
    /// Columns of the file that are left out.
    pub skip: &'a [String],
    /// A file of the same import that was sniffed before.
    pub like: Option<Like<'a>>,
    /// The first lines of the other files of the import.
    pub first_line: FirstLine,
    /// True if a blank line is a record whose only cell is NULL; otherwise it is no record.
    pub blank_is_record: bool,
    /// True if a record with more or fewer fields than most is a row.
    pub ragged_is_row: bool,
    /// True if the head is the whole file: its last record counts even without a line end.
    pub head_is_whole: bool,
}

/// A file whose dialect others probably share.
#[derive(Clone, Copy, Debug)]
pub struct Like<'a> {
    /// The byte between its cells.
    pub delimiter: u8,
    /// The number of its columns.
    pub columns: usize,
    /// True if it has a header.
    pub has_header: bool,
    /// The names in its header, and those of other files.
    pub names: &'a [String],
}

/// The first lines of the other files of an import, which are evidence for a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstLine {
    /// There are no other files, or they were not compared.
    Unknown,
    /// All files begin with the same line.
    Repeats,
    /// The files begin with different lines.
    Differs,
}

/// The description of a file. The three lists have an entry for each column of the file, none if it
/// has no record at all.
#[derive(Clone, PartialEq, Debug)]
pub struct Sniffed {
    /// The dialect.
    pub dialect: Dialect,
    /// The names from the header, otherwise `f0`, `f1` and so on.
    pub names: Vec<String>,
    /// The types of the table, if there is one; otherwise inferred.
    pub types: Vec<ColumnType>,
    /// The formats of the cells of TIMESTAMP, TIMESTAMP_NS and DATE columns: never `Detect`.
    pub formats: Vec<Option<TimestampFormat>>,
    /// Notes for the user on decisions that were made.
    pub notes: Vec<String>,
}

/// The mapping of the columns of a file to a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnMap {
    /// For each column of the file, its position in the schema; `None` if it is left out.
    pub targets: Vec<Option<usize>>,
    /// Notes for the user on decisions that were made.
    pub notes: Vec<String>,
}

/// The reason why a file cannot be read with its options.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SniffError {
    #[error("column `{name}` is there twice (names are compared without case)")]
    DuplicateName { name: String },
    #[error("the name of column {position} in the header is not UTF-8")]
    NameNotUtf8 { position: usize },
    #[error("the file has {file} columns and the table {table}")]
    TooManyColumns { file: usize, table: usize },
    #[error("the header has {count} columns, and a table at most {}", limits::TABLE_COLUMNS)]
    TooWide { count: usize },
    #[error("the table has no column `{}`", .names.join("`, `"))]
    UnknownColumns { names: Vec<String> },
    #[error("column {position} is `{actual}` in the header and `{expected}` in the table")]
    HeaderDiffers { position: usize, actual: String, expected: String },
    #[error("delimiter and quote must be two ASCII characters, and no line ends")]
    BadDialect { delimiter: Option<char>, quote: Option<char> },
    #[error("no column is called `{name}`, which is to be the designated timestamp")]
    NoDesignated { name: String },
    #[error("most values of the designated timestamp `{name}` are not timestamps")]
    NotTimestamps {
        name: String,
        // A cell of the head that is no timestamp, and the byte of the head where its record
        // begins.
        example: Option<(Vec<u8>, usize)>,
    },
}

impl SniffError {
    /// The class of the error: the party that can mend it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            SniffError::DuplicateName { .. }
            | SniffError::NameNotUtf8 { .. }
            | SniffError::TooManyColumns { .. }
            | SniffError::TooWide { .. }
            | SniffError::UnknownColumns { .. }
            | SniffError::HeaderDiffers { .. }
            | SniffError::BadDialect { .. }
            | SniffError::NoDesignated { .. }
            | SniffError::NotTimestamps { .. } => Class::Caller,
        }
    }

    /// The SQLSTATE of the statement that fails.
    #[must_use]
    pub fn sqlstate(&self) -> &'static str {
        match self {
            SniffError::DuplicateName { .. } => "42701",
            SniffError::NameNotUtf8 { .. } => "22021",
            SniffError::TooManyColumns { .. } => "22P04",
            SniffError::TooWide { .. } => "54011",
            SniffError::UnknownColumns { .. }
            | SniffError::HeaderDiffers { .. }
            | SniffError::NoDesignated { .. } => "42703",
            SniffError::BadDialect { .. } => "22023",
            SniffError::NotTimestamps { .. } => "22007",
        }
    }
}

/// Detects the description of a file. `head` starts at its first byte, behind a byte-order mark and
/// skipped lines; `windows` may start and end anywhere behind it.
///
/// # Errors
/// If header, table and options contradict each other.
pub fn sniff(
    head: &[u8],
    windows: &[&[u8]],
    options: &SniffOptions<'_>,
) -> Result<Sniffed, SniffError> {
    let looked = look(head, windows, options)?;
    let sample = Sample { head, windows, shape: looked.shape, columns: looked.columns };
    with_types(looked, &sample, options)
}

/// The properties of a file that are known before its table is.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) dialect: Dialect,
    pub(crate) header: HeaderDecision,
    /// The names from the header, otherwise `f0`, `f1` and so on; empty if there is no record.
    pub(crate) names: Vec<String>,
    /// True if the first record is a row and could be names.
    pub(crate) has_words: bool,
    /// True if the names are those of a header: its own, or that of a file before it.
    pub(crate) has_names: bool,
    /// The evidence for each column.
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) notes: Vec<String>,
    /// The note on records at the beginning without which columns would have other types.
    pub(crate) preamble: Option<String>,
    shape: Shape,
    columns: usize,
}

/// Sniffs a file without deciding on its types.
pub(crate) fn look(
    head: &[u8],
    windows: &[&[u8]],
    options: &SniffOptions<'_>,
) -> Result<Look, SniffError> {
    let quote = options.quote.byte();
    let line_end = dialect::line_end(head, windows, quote);
    check_dialect(options.delimiter, quote)?;
    let SniffedShape { shape, columns, is_unquoted } = dialect::shape(head, line_end, options);
    let sample = Sample { head, windows, shape, columns };
    let (first, mut evidence) = sample.read(options);
    let header = match &first {
        Some(first) => columns::header(first, &evidence, options),
        None => HeaderDecision::Told(!matches!(options.header, Header::Auto | Header::Absent)),
    };
    let mut notes = Vec::new();
    notes.extend(first.as_ref().and_then(|first| columns::header_note(header, first, options)));
    let has_cr = first.as_ref().and_then(|first| first.cells.last());
    if has_cr.is_some_and(|cell| !cell.is_quoted && cell.text.ends_with(b"\r")) {
        notes
            .push("lines end with CR, CR and LF: the last field of each ends with a CR".to_owned());
    }
    if is_unquoted {
        let note =
            "`\"` is read as text, as it does not enclose fields: --quote '\"' makes it a quote";
        notes.push(note.to_owned());
    }
    let names = match &first {
        Some(first) if header.is_header() => columns::header_names(first)?,
        _ => {
            if let Some(first) = first.as_ref().filter(|first| sample.is_row(first, options)) {
                add(&mut evidence, first, options);
            }
            let count = if columns == 0 { evidence.len() } else { columns };
            (0..count).map(columns::default_name).collect()
        }
    };
    let preamble = sample.preamble(header, &evidence, options);
    evidence.resize_with(names.len(), || Evidence::new(options.timestamp_format));
    let dialect = Dialect {
        delimiter: shape.delimiter.expect("the shape that was chosen has one"),
        quote: shape.quote,
        has_header: header.is_header(),
        null_text: options.null_text.map(|text| text.as_bytes().to_vec()),
        line_end,
    };
    let has_names = header.is_header();
    let are_names = |first: &Record<'_>| columns::are_names(first, options);
    let has_words = !has_names && first.as_ref().is_some_and(are_names);
    Ok(Look {
        dialect,
        header,
        names,
        has_words,
        has_names,
        evidence,
        notes,
        preamble,
        shape,
        columns,
    })
}

/// The structure with which a text ends inside of quotes, if there is one, and the start of the
/// record with the open quote.
pub(crate) fn open_quote(head: &[u8], options: &SniffOptions<'_>) -> Option<(Structure, usize)> {
    let quote = options.quote.byte()?;
    let line_end = dialect::line_end(head, &[], Some(quote));
    let shape = dialect::shape(head, line_end, options).shape;
    // If a quote hides most of the text, its delimiter is a guess.
    let others = dialect::delimiters().filter(|_| options.delimiter.is_none());
    shape.delimiter.into_iter().chain(others).find_map(|delimiter| {
        let line_end = match line_end {
            LineEnd::LfOrCrlf => b'\n',
            LineEnd::Cr => b'\r',
        };
        let structure = Structure { delimiter, quote: Some(quote), line_end };
        let start = Start { state: QuoteState::Outside, after: Before::FieldStart };
        let mut index = FieldIndex::default();
        let outcome = Kernel::Scalar.index(head, start, &structure, &mut index);
        let last = index.row_ends.last().map(|&end| index.field_ends[end as usize] as usize + 1);
        (outcome.end.state == QuoteState::Inside).then_some((structure, last.unwrap_or(0)))
    })
}

/// Maps the columns of the file to columns of `schema`.
///
/// # Errors
/// Some names of the header are the table's and others not; a name occurs twice; the file has more
/// columns than the table; the header differs where it must `Match`.
pub fn map_columns(
    sniffed: &Sniffed,
    schema: &Schema,
    options: &SniffOptions<'_>,
) -> Result<ColumnMap, SniffError> {
    columns::map(&sniffed.names, sniffed.dialect.has_header, schema, options)
}

/// As `map_columns`, for a file whose types were not decided on.
pub(crate) fn map_look(
    looked: &Look,
    schema: &Schema,
    options: &SniffOptions<'_>,
) -> Result<ColumnMap, SniffError> {
    columns::map(&looked.names, looked.has_names, schema, options)
}

/// Returns the columns of a file that are not left out, with their evidence.
///
/// # Errors
/// If a name occurs twice.
pub(crate) fn imported_evidence<'a>(
    looked: &'a Look,
    options: &SniffOptions<'_>,
) -> Result<Vec<(&'a String, &'a Evidence)>, SniffError> {
    columns::check_distinct(&columns::imported_columns(&looked.names, options))?;
    let all = looked.names.iter().zip(&looked.evidence);
    Ok(all.filter(|(name, _)| columns::is_imported(name, &looked.names, options)).collect())
}

/// Counts of the cells of a column that is to be the designated timestamp and has too few
/// timestamps.
#[derive(Clone, Debug, Default)]
pub(crate) struct NoTimes {
    cells: u64,
    integers: u64,
    /// A cell, and the start of its record in the head.
    pub(crate) example: Option<(Vec<u8>, usize)>,
}

impl NoTimes {
    /// Returns true if most are integers, whose unit the user must give.
    pub(crate) fn are_integers(&self) -> bool {
        self.cells < 2 * self.integers
    }

    /// Adds the counts of another file.
    pub(crate) fn add(&mut self, other: &NoTimes) {
        self.cells += other.cells;
        self.integers += other.integers;
    }
}

/// Counts the cells of a column that are not timestamps.
pub(crate) fn no_times(
    head: &[u8],
    looked: &Look,
    field: usize,
    format: &TimestampFormat,
    options: &SniffOptions<'_>,
) -> NoTimes {
    let sample = Sample { head, windows: &[], shape: looked.shape, columns: looked.columns };
    sample.no_times(field, format, looked.dialect.has_header, options)
}

fn check_dialect(delimiter: Option<u8>, quote: Option<u8>) -> Result<(), SniffError> {
    let is_fine = |byte: u8| byte.is_ascii() && !matches!(byte, b'\r' | b'\n' | 0);
    let are_different = delimiter.is_none() || delimiter != quote;
    if delimiter.is_none_or(is_fine) && quote.is_none_or(is_fine) && are_different {
        return Ok(());
    }
    let [delimiter, quote] = [delimiter, quote].map(|byte| byte.map(char::from));
    Err(SniffError::BadDialect { delimiter, quote })
}

/// The maximum number of records before the rows, such as a line of a program or two headers.
const PREAMBLE_MAX: usize = 4;
/// The number of records that are read behind them.
const PREAMBLE_RECORDS: usize = 1_000;

/// The samples and their shape.
struct Sample<'a> {
    head: &'a [u8],
    windows: &'a [&'a [u8]],
    shape: Shape,
    /// The number of cells of most records of the head.
    columns: usize,
}

impl<'a> Sample<'a> {
    /// The first record, and the evidence of all others for each column.
    fn read(&self, options: &SniffOptions<'_>) -> (Option<Record<'a>>, Vec<Evidence>) {
        let mut lines = QuotedLines::Single;
        let mut records = Records::new(self.head, self.shape)
            .inspect(|record| {
                let goes_on = |cell: &Cell<'_>| {
                    cell.is_quoted && memchr::memchr2(b'\n', b'\r', &cell.text).is_some()
                };
                if record.cells.iter().any(goes_on) {
                    lines = QuotedLines::Several;
                }
            })
            .filter(|record| dialect::is_usable(record, options));
        let first = records.next();
        let columns = first.as_ref().map_or(0, |first| first.cells.len()).max(self.columns);
        let mut evidence = vec![Evidence::new(options.timestamp_format); columns];
        // A header shows the number of fields of a record.
        let field_count = first.as_ref().map_or(0, |first| first.count);
        let is_row = |record: &Record<'_>| {
            self.is_row(record, options) || record.is_sound && record.count == field_count
        };
        for record in records.by_ref().filter(is_row) {
            add(&mut evidence, &record, options);
        }
        drop(records);
        for window in self.windows {
            for record in window::fitting(window, self.shape, self.columns, lines) {
                add(&mut evidence, &record, options);
            }
        }
        (first, evidence)
    }

    /// Returns true if a record is a row: one that will be rejected is no evidence for types.
    fn is_row(&self, record: &Record<'_>, options: &SniffOptions<'_>) -> bool {
        record.is_sound && (options.ragged_is_row || record.count == self.columns)
    }

    /// The note on the few first records without which some text columns would have other types:
    /// lines that a program has written before the header.
    fn preamble(
        &self,
        header: HeaderDecision,
        evidence: &[Evidence],
        options: &SniffOptions<'_>,
    ) -> Option<String> {
        let is_told = options.expected.is_some() || options.header != Header::Auto;
        let are_texts = |evidence: &[Evidence]| !evidence.iter().any(Evidence::is_typed);
        if is_told || header.is_header() || self.columns < 2 || !are_texts(evidence) {
            return None;
        }
        (1..=PREAMBLE_MAX).find_map(|skipped| {
            let mut behind = vec![Evidence::new(None); self.columns];
            let records = Records::new(self.head, self.shape).skip(skipped);
            let records = records.filter(|record| self.is_row(record, options));
            for record in records.take(PREAMBLE_RECORDS) {
                add(&mut behind, &record, options);
            }
            (!are_texts(&behind)).then(|| {
                format!(
                    "all columns are text because of the first {skipped} records: \
                     --skip-lines steps over lines before the header"
                )
            })
        })
    }

    fn no_times(
        &self,
        field: usize,
        format: &TimestampFormat,
        has_header: bool,
        options: &SniffOptions<'_>,
    ) -> NoTimes {
        let mut parser = TimestampParser::new(format, TimeUnit::Micros);
        let mut no_times = NoTimes::default();
        let records = Records::new(self.head, self.shape)
            .filter(|record| dialect::is_usable(record, options))
            .skip(usize::from(has_header));
        for record in records.filter(|record| record.is_sound) {
            let Some(cell) = record.cells.get(field).filter(|cell| !is_null(cell, options)) else {
                continue;
            };
            no_times.cells += 1;
            no_times.integers += u64::from(parse_i64(&cell.text).is_ok());
            if no_times.example.is_none() && parser.parse(&cell.text).is_err() {
                no_times.example = Some((cell.text.to_vec(), record.start));
            }
        }
        no_times
    }
}

fn add(evidence: &mut [Evidence], record: &Record<'_>, options: &SniffOptions<'_>) {
    for (column, cell) in evidence.iter_mut().zip(&record.cells) {
        if !is_null(cell, options) {
            column.add(&cell.text);
        }
    }
}

fn is_null(cell: &Cell<'_>, options: &SniffOptions<'_>) -> bool {
    let null_text = options.null_text.map(str::as_bytes);
    cell.text.is_empty() || !cell.is_quoted && null_text == Some(&*cell.text)
}

/// Adds types and formats: the table's if there is one, otherwise inferred (sniff-1).
fn with_types(
    looked: Look,
    sample: &Sample<'_>,
    options: &SniffOptions<'_>,
) -> Result<Sniffed, SniffError> {
    let Look { dialect, names, evidence, notes, .. } = looked;
    let mut sniffed = Sniffed { dialect, names, types: vec![], formats: vec![], notes };
    let columns = match options.expected {
        Some(schema) => expected_columns(&mut sniffed, &evidence, schema, options)?,
        None => inferred_columns(&sniffed, sample, &evidence, options)?,
    };
    for ((name, column), evidence) in sniffed.names.iter().zip(&columns).zip(&evidence) {
        sniffed.notes.extend(ambiguity(name, column, evidence));
        let is_inferred = options.expected.is_none();
        sniffed.notes.extend(is_inferred.then(|| spoiled(name, column, evidence)).flatten());
    }
    (sniffed.types, sniffed.formats) =
        columns.into_iter().map(|column| (column.ty, column.format)).unzip();
    Ok(sniffed)
}

/// The note on a column whose dates can be read in two ways.
pub(crate) fn ambiguity(name: &str, column: &Inferred, evidence: &Evidence) -> Option<String> {
    let is_guess = column.format == Some(TimestampFormat::DayFirst) && evidence.is_ambiguous();
    is_guess.then(|| format!("column `{name}` could be month first; read as day first"))
}

/// The note on a column that is text because of few of its values.
pub(crate) fn spoiled(name: &str, column: &Inferred, evidence: &Evidence) -> Option<String> {
    let found = evidence.spoiled().filter(|_| column.ty == ColumnType::Varchar)?;
    let Spoiled { by, cells, example, others } = found;
    let example = shown(&example);
    Some(format!(
        "column `{name}` is VARCHAR because of {by} of {cells} sampled values, \
         such as `{example}`: all others are {others}; --schema gives it another type"
    ))
}

/// The format and the type by the evidence for a column of a table.
pub(crate) fn expected_column(
    column: &tidegate_model::Column,
    is_designated: bool,
    evidence: &Evidence,
    given: Option<&TimestampFormat>,
) -> Inferred {
    let given = given.filter(|format| **format != TimestampFormat::Detect);
    let format = match (column.ty, given) {
        (ColumnType::Timestamp(_), Some(given)) if is_designated => Some(given),
        (ColumnType::Timestamp(_) | ColumnType::Date, _) => Some(evidence.best_format()),
        _ => None,
    };
    Inferred { ty: column.ty, format: format.cloned() }
}

fn expected_columns(
    sniffed: &mut Sniffed,
    evidence: &[Evidence],
    schema: &Schema,
    options: &SniffOptions<'_>,
) -> Result<Vec<Inferred>, SniffError> {
    let map = map_columns(sniffed, schema, options)?;
    sniffed.notes.extend(map.notes);
    let column = |(target, evidence): (&Option<usize>, &Evidence)| {
        let Some(column) = target.map(|target| &schema.columns()[target]) else {
            return Inferred { ty: ColumnType::Varchar, format: None };
        };
        let is_designated = schema.designated() == Some(column.id);
        expected_column(column, is_designated, evidence, options.timestamp_format)
    };
    Ok(map.targets.iter().zip(evidence).map(column).collect())
}

fn inferred_columns(
    sniffed: &Sniffed,
    sample: &Sample<'_>,
    evidence: &[Evidence],
    options: &SniffOptions<'_>,
) -> Result<Vec<Inferred>, SniffError> {
    columns::check_distinct(&columns::imported_columns(&sniffed.names, options))?;
    let is_designated = |name: &str| {
        options
            .designated
            .is_some_and(|designated| tidegate_model::schema::same_name(name, designated))
    };
    if let Some(name) = options.designated
        && !sniffed.names.is_empty()
        && !sniffed.names.iter().any(|name| is_designated(name))
    {
        return Err(SniffError::NoDesignated { name: name.to_owned() });
    }
    let infer = |(field, (name, evidence)): (usize, (&String, &Evidence))| {
        if !is_designated(name) {
            return Ok(evidence.infer());
        }
        if let Some(inferred) = evidence.infer_designated(options.timestamp_format) {
            return Ok(inferred);
        }
        let format = evidence.best_format();
        let not_times = sample.no_times(field, format, sniffed.dialect.has_header, options);
        match not_times.are_integers() {
            true => Ok(Inferred { ty: ColumnType::Int64, format: None }),
            false => {
                Err(SniffError::NotTimestamps { name: name.clone(), example: not_times.example })
            }
        }
    };
    sniffed.names.iter().zip(evidence).enumerate().map(infer).collect()
}

#[cfg(test)]
mod tests;
