//! The import of a small text gives the results of the plain reader: rows, rejects, counts, and the
//! error if there is one.
//!
//! Input: options of the dialect and of the import, then the text. One option places the text
//! across the boundary between two input chunks.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use tidegate_ingest::sniff::{FirstLine, Header, SniffOptions, Sniffed, map_columns, sniff};
use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_ingest::{Error, ImportOptions, ImportSummary, MissingFields, OnError, Quote};
use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit, limits};
use tidegate_platform::SimDisk;

use super::input::Input;
use crate::plain::{self, BadCell, Missing, PlainHeader, PlainOptions};
use crate::world::{Expected, World, check_import, schema_of};

/// The size of the input chunks of the pipeline.
const PIECE_BYTES: usize = 256 << 10;

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let partition_by = input.choose(&[PartitionUnit::Day, PartitionUnit::None]);
    let is_ordered = !input.byte().is_multiple_of(4);
    let schema = schema(is_ordered, partition_by);
    let mut options = world.options(&schema, &[]);
    choose(&mut input, &mut options);
    let text = text(&mut input, is_ordered, &options);
    let path = world.put("a.csv", &text);
    options.source = tidegate_ingest::Source::Files(vec![path.clone()]);
    let outcome = world.import(&options);
    if let Err(
        Error::GuessContradicted { .. }
        | Error::AmbiguousDates { .. }
        | Error::MixedLineEnds { .. }
        | Error::NotDelimited { .. }
        | Error::ForeignFormat { .. },
    ) = &outcome
    {
        // The plain reader is given the guesses of the import, which has made none here.
        world.check_sound("csv");
        return;
    }
    if text.contains(&0) || [b"\xFF\xFE", b"\xFE\xFF"].iter().any(|it| text.starts_with(*it)) {
        // A bad cell, or a file that is not text, or UTF-16: the plain reader cannot tell which.
        world.check_sound("csv");
        return;
    }
    let Ok((sniffed, targets)) = sniffed(&text, &schema, &options) else {
        let is_right =
            matches!(outcome, Err(Error::Sniff { .. })) || has_open_quote(&text, &outcome);
        assert!(is_right, "{outcome:?}");
        return;
    };
    if sniffed.names.is_empty() {
        let is_none = matches!(outcome, Err(Error::NoRecords { .. }));
        assert!(is_none || has_open_quote(&text, &outcome), "{outcome:?}");
        return;
    }
    let plain = PlainOptions {
        schema: &schema,
        targets,
        formats: sniffed.formats.clone(),
        delimiter: sniffed.dialect.delimiter,
        quote: sniffed.dialect.quote,
        line_end: sniffed.dialect.line_end,
        header: match sniffed.dialect.has_header {
            true => PlainHeader::Present,
            false => PlainHeader::Absent,
        },
        skip_lines: options.dialect.skip_lines,
        null_text: options.dialect.null_text.as_deref().map(str::as_bytes),
        empty_fields: options.dialect.empty_fields,
        bad_cell: match options.on_error {
            OnError::Null => BadCell::IsNull,
            _ => BadCell::SkipsRow,
        },
        missing_fields: match options.dialect.missing_fields {
            MissingFields::Null => Missing::AreNull,
            MissingFields::Reject => Missing::AreBad,
        },
        record_bytes_max: limits::CSV_ROW_BYTES,
    };
    let mut expected = Expected::default();
    expected.add(&path, plain::read(&text, &plain));
    check_import(&world, &outcome, &expected.sorted(&schema), "csv");
    world.check_sound("csv");
}

/// Returns true if the import reports an unclosed quote, and a quote stands at that place: it may
/// be the reason why the columns are not those of the table.
fn has_open_quote(text: &[u8], outcome: &Result<ImportSummary, Error>) -> bool {
    let Err(Error::UnclosedQuote { offset, .. }) = outcome else { return false };
    let at = usize::try_from(*offset).expect("a small text");
    matches!(text.get(at), Some(b'"' | b'\''))
}

fn schema(is_ordered: bool, partition_by: PartitionUnit) -> Schema {
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("s", ColumnType::Symbol),
        ("v", ColumnType::Varchar),
        ("i", ColumnType::Int32),
        ("d", ColumnType::Float64),
    ];
    match is_ordered {
        true => schema_of(&columns, Some("ts"), partition_by),
        false => schema_of(&columns, None, PartitionUnit::None),
    }
}

fn choose(input: &mut Input<'_>, options: &mut ImportOptions) {
    let dialect = &mut options.dialect;
    dialect.delimiter = input.choose(&[Some(b','), Some(b';'), Some(b'\t'), None]);
    dialect.quote = input.choose(&[Quote::Standard, Quote::Byte(b'\''), Quote::None]);
    dialect.header = input.choose(&[Header::Absent, Header::Present, Header::Auto]);
    dialect.null_text = input.choose(&[None, Some("NULL")]).map(str::to_owned);
    dialect.skip_lines = input.choose(&[0, 0, 0, 1, 2]);
    dialect.missing_fields = input.choose(&[MissingFields::Null, MissingFields::Reject]);
    options.on_error = input.choose(&[OnError::SkipRow, OnError::Null]);
    options.workers = NonZeroUsize::new(usize::from(input.byte() % 3) + 1).expect("not 0");
}

/// The text, perhaps behind rows that fill an input chunk up to some bytes.
fn text(input: &mut Input<'_>, is_ordered: bool, options: &ImportOptions) -> Vec<u8> {
    let (shift, overlap) = (input.byte(), input.short());
    let text = input.rest;
    if shift % 4 != 0 || !is_ordered {
        return text.to_vec();
    }
    let delimiter = char::from(options.dialect.delimiter.unwrap_or(b','));
    let row = ["2020-01-02T03:04:05", "s", "some text", "17", "2.5"].join(&delimiter.to_string());
    let wanted = PIECE_BYTES - overlap % (text.len() + 1);
    let mut padded = Vec::with_capacity(PIECE_BYTES + text.len());
    while padded.len() + 2 * row.len() + 2 < wanted {
        padded.extend_from_slice(row.as_bytes());
        padded.push(b'\n');
    }
    let missing = wanted - padded.len() - row.len() - 1;
    padded.extend_from_slice(row.replace("some", &"s".repeat(missing + 4)).as_bytes());
    padded.push(b'\n');
    assert_eq!(padded.len(), wanted);
    padded.extend_from_slice(text);
    padded
}

/// The dialect and columns that the import detects, and the fields of its columns.
fn sniffed(
    text: &[u8],
    schema: &Schema,
    options: &ImportOptions,
) -> Result<(Sniffed, Vec<Option<usize>>), tidegate_ingest::sniff::SniffError> {
    let dialect = &options.dialect;
    let mut head = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let line_end = if head.contains(&b'\n') { b'\n' } else { b'\r' };
    for _ in 0..dialect.skip_lines {
        let end = head.iter().position(|&byte| byte == line_end);
        head = end.map_or(&[][..], |end| &head[end + 1..]);
    }
    let sniff_options = SniffOptions {
        delimiter: dialect.delimiter,
        quote: dialect.quote,
        header: dialect.header,
        timestamp_format: None,
        null_text: dialect.null_text.as_deref(),
        expected: Some(schema),
        columns: None,
        designated: options.timestamp.as_deref(),
        symbols: &options.symbols,
        hints: &[],
        skip: &[],
        like: None,
        first_line: FirstLine::Unknown,
        blank_is_record: false,
        ragged_is_row: false,
        head_is_whole: true,
    };
    let mut sniffed = sniff(head, &[], &sniff_options)?;
    let map = map_columns(&sniffed, schema, &sniff_options)?;
    // A column without a format is not a timestamp, and the plain reader does not use its format.
    sniffed.formats.resize(map.targets.len(), Some(TimestampFormat::Iso));
    Ok((sniffed, map.targets))
}
