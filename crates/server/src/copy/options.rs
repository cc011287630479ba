//! Options of COPY, turned into those of an import or of an export.

use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_ingest::{
    ColumnSource, DialectOptions, EmptyFields, Existing, ExtraFields, FileFormat, Header,
    ImportOptions, MissingFields, OnError, Quote, RejectList, RowsTo, Source,
};
use tidegate_model::schema::same_name;
use tidegate_model::{PartitionUnit, is_system_table};
use tidegate_platform::{IoMode, sentence};
use tidegate_query::{BulkImport, CopyFormat, CopyHeader, CopyOptions, CopyPolicy};

use super::Inner;
use super::error::CopyError;
use crate::results::{DelimitedForm, Escapes, ParquetForm, Quoting, ResultForm};

/// Returns the import that a statement asks for.
pub(super) fn of_statement(
    inner: &Inner,
    import: &BulkImport,
    source: Source,
    rejects: RejectList,
) -> Result<ImportOptions, CopyError> {
    let requested = &import.options;
    let is_stream = matches!(source, Source::Stream(_));
    let mut options = defaults(inner, &import.table.text, source, rejects)?;
    options.format = match requested.format {
        Some(CopyFormat::Csv) => FileFormat::Csv,
        Some(CopyFormat::Text) => FileFormat::PgText,
        Some(CopyFormat::Parquet) => FileFormat::Parquet,
        None => FileFormat::Auto,
        Some(CopyFormat::Jsonl | CopyFormat::Arrow | CopyFormat::Binary) => {
            return Err(CopyError::new(
                "0A000",
                "COPY from a file does not support the formats jsonl, arrow and binary",
            ));
        }
    };
    options.dialect = dialect(requested, is_stream)?;
    let columns = &import.columns;
    options.skip_columns.clone_from(&requested.skip_columns);
    options.fields = (!columns.is_empty()).then(|| columns.clone());
    options.timestamp = requested.timestamp.as_ref().map(|it| it.text.clone());
    if let Some(format) = &requested.timestamp_format {
        let parsed = TimestampFormat::parse(&format.text);
        let fail = |error| CopyError::new("22023", sentence(&error)).at(format.offset);
        options.timestamp_format = Some(parsed.map_err(fail)?);
    }
    options.on_error = match requested.on_error {
        Some(CopyPolicy::SkipRow) => OnError::SkipRow,
        Some(CopyPolicy::SkipColumn) => OnError::Null,
        Some(CopyPolicy::Abort) => OnError::Abort,
        None if is_stream => OnError::Abort,
        None => OnError::SkipRow,
    };
    options.errors_max = requested.max_errors;
    let partition_by = requested.partition_by.filter(|unit| *unit != PartitionUnit::None);
    match inner.database.schema_of(&import.table.text) {
        Some(schema) => {
            check_timestamp(import, schema.designated_column().map(|(it, _)| &*it.name))?
        }
        // The table is created by the import.
        None => {
            if partition_by.is_some() && requested.timestamp.is_none() {
                let message = "PARTITION BY needs TIMESTAMP, the column that it goes by";
                return Err(CopyError::new("22023", message));
            }
            options.partition_by = partition_by;
        }
    }
    Ok(options)
}

/// Checks that the statement does not name another designated timestamp than the table's.
fn check_timestamp(import: &BulkImport, own: Option<&str>) -> Result<(), CopyError> {
    let Some(given) = &import.options.timestamp else { return Ok(()) };
    if own.is_some_and(|own| same_name(own, &given.text)) {
        return Ok(());
    }
    let (table, own) = (&import.table.text, own.unwrap_or("none"));
    let message = format!("table `{table}` has designated timestamp {own}, not `{}`", given.text);
    Err(CopyError::new("22023", message).at(given.offset))
}

/// Returns an import with all options at their defaults.
pub(crate) fn defaults(
    inner: &Inner,
    table: &str,
    source: Source,
    rejects: RejectList,
) -> Result<ImportOptions, CopyError> {
    if is_system_table(table) {
        let message = format!("permission denied: table `{table}` is one of the system's");
        return Err(CopyError::new("42501", message));
    }
    Ok(ImportOptions {
        source,
        table: table.to_owned(),
        columns: ColumnSource::Infer,
        fields: None,
        existing: Existing::Add,
        lengths: Vec::new(),
        timestamp: None,
        partition_by: None,
        symbols: Vec::new(),
        skip_columns: Vec::new(),
        format: FileFormat::Auto,
        dialect: DialectOptions {
            delimiter: None,
            quote: Quote::Standard,
            header: Header::Auto,
            null_text: None,
            empty_fields: EmptyFields::Null,
            skip_lines: 0,
            missing_fields: MissingFields::Null,
            extra_fields: ExtraFields::Reject,
        },
        timestamp_format: None,
        column_formats: Vec::new(),
        on_error: OnError::SkipRow,
        errors_max: None,
        rejects,
        rows_to: RowsTo::Table,
        workers: inner.threads,
        memory_max: inner.config.memory_limit,
        io: IoMode::Auto,
    })
}

fn dialect(requested: &CopyOptions, is_stream: bool) -> Result<DialectOptions, CopyError> {
    let is_text = requested.format == Some(CopyFormat::Text);
    // PostgreSQL's text format is read as CSV with its own delimiter and backslashes.
    let delimiter = match (requested.delimiter, is_text) {
        (Some(delimiter), _) => Some(delimiter),
        (None, true) => Some(b'\t'),
        // The format of a stream is not guessed: it has the default.
        (None, false) => (requested.format == Some(CopyFormat::Csv) || is_stream).then_some(b','),
    };
    if let Some(delimiter) = delimiter.filter(|_| is_text) {
        check_text_delimiter(delimiter)?;
    }
    let quote = if is_text { None } else { requested.quote };
    let header = match requested.header {
        Some(CopyHeader::Auto) => Header::Auto,
        Some(CopyHeader::Present) => Header::Present,
        Some(CopyHeader::Absent) => Header::Absent,
        Some(CopyHeader::Match) => Header::Match,
        None if is_stream || is_text => Header::Absent,
        None => Header::Auto,
    };
    if delimiter.is_some() && delimiter == Some(quote.unwrap_or(b'"')) {
        return Err(CopyError::new("22023", "DELIMITER and QUOTE must be two characters"));
    }
    let null_text = requested.null.clone().filter(|text| is_text || !text.is_empty());
    Ok(DialectOptions {
        delimiter,
        quote: match quote {
            Some(quote) => Quote::Byte(quote),
            // CSV that is not guessed has the quote of the standard.
            None if delimiter.is_some() => Quote::Byte(b'"'),
            None => Quote::Standard,
        },
        header,
        // As in PostgreSQL, NULL replaces the empty field as the text of NULL.
        empty_fields: match null_text.is_some() && !is_text {
            true => EmptyFields::Quoted,
            false => EmptyFields::Null,
        },
        null_text,
        skip_lines: requested.skip_lines,
        missing_fields: match requested.rejects_missing_fields {
            true => MissingFields::Reject,
            false => MissingFields::Null,
        },
        extra_fields: match requested.ignores_extra_fields {
            true => ExtraFields::Ignore,
            false => ExtraFields::Reject,
        },
    })
}

/// Checks a delimiter of the text format: after a backslash, these bytes have another meaning.
fn check_text_delimiter(delimiter: u8) -> Result<(), CopyError> {
    match delimiter.is_ascii_alphanumeric() || matches!(delimiter, b'\\' | b'.') {
        true => {
            let message = "DELIMITER of a text cannot be a letter, a digit, a point or a backslash";
            Err(CopyError::new("22023", message))
        }
        false => Ok(()),
    }
}

/// Checks that a NULL cannot be confused with the signs around it.
fn check_null(null: &str, signs: &[u8]) -> Result<(), CopyError> {
    let is_sign = |byte: u8| signs.contains(&byte) || matches!(byte, b'\r' | b'\n');
    match null.bytes().any(is_sign) {
        true => {
            let message = "NULL cannot have DELIMITER, QUOTE or a line end in it";
            Err(CopyError::new("22023", message))
        }
        false => Ok(()),
    }
}

/// Returns the format of an exported file, or of the rows sent over a connection.
pub(crate) fn form_of(requested: &CopyOptions) -> Result<ResultForm, CopyError> {
    let has_header = |default| match requested.header {
        None | Some(CopyHeader::Auto) => default,
        Some(CopyHeader::Present | CopyHeader::Match) => true,
        Some(CopyHeader::Absent) => false,
    };
    Ok(match requested.format.unwrap_or(CopyFormat::Text) {
        CopyFormat::Csv => {
            let quote = requested.quote.unwrap_or(b'"');
            let delimiter = requested.delimiter.unwrap_or(b',');
            if quote == delimiter {
                let message = "DELIMITER and QUOTE must be two characters";
                return Err(CopyError::new("22023", message));
            }
            let null = requested.null.clone().unwrap_or_default();
            check_null(&null, &[delimiter, quote])?;
            ResultForm::Delimited(DelimitedForm {
                delimiter,
                escapes: Escapes::Quotes(quote, Quoting::WhereNeeded),
                null,
                header: has_header(false),
                ..DelimitedForm::csv()
            })
        }
        CopyFormat::Text => {
            let form = DelimitedForm::text();
            let delimiter = requested.delimiter.unwrap_or(form.delimiter);
            check_text_delimiter(delimiter)?;
            let null = requested.null.clone().unwrap_or_else(|| form.null.clone());
            check_null(&null, &[delimiter])?;
            ResultForm::Delimited(DelimitedForm {
                delimiter,
                null,
                header: has_header(false),
                ..form
            })
        }
        CopyFormat::Parquet => ResultForm::Parquet(parquet_form(requested)?),
        CopyFormat::Jsonl => ResultForm::Ndjson,
        CopyFormat::Arrow => ResultForm::ArrowFile,
        CopyFormat::Binary => {
            return Err(CopyError::new(
                "0A000",
                "COPY to a file does not support the format binary",
            ));
        }
    })
}

fn parquet_form(requested: &CopyOptions) -> Result<ParquetForm, CopyError> {
    let form = ParquetForm::default();
    let form = requested.row_group_size.map_or(form, |rows| form.with_group_rows(rows));
    let Some(codec) = &requested.codec else {
        return match requested.codec_level {
            None => Ok(form),
            Some(level) => form.with_codec("zstd", Some(level)).ok_or_else(no_such_codec),
        };
    };
    let chosen = form.with_codec(&codec.text, requested.codec_level);
    chosen.ok_or_else(|| no_such_codec().at(codec.offset))
}

fn no_such_codec() -> CopyError {
    CopyError::new("22023", "the codec does not exist, or does not have this level")
}

#[cfg(test)]
mod tests {
    use super::*;

    // A CSV of PostgreSQL with NULL 'na' has empty texts as empty fields: they were read as NULL.
    #[test]
    fn a_text_of_null_replaces_the_empty_field() {
        for (format, null, expected) in [
            (CopyFormat::Csv, Some("na"), EmptyFields::Quoted),
            (CopyFormat::Csv, Some(""), EmptyFields::Null),
            (CopyFormat::Csv, None, EmptyFields::Null),
            (CopyFormat::Text, Some("na"), EmptyFields::Null),
        ] {
            let null = null.map(str::to_owned);
            let requested = CopyOptions { format: Some(format), null, ..CopyOptions::default() };
            for is_stream in [false, true] {
                let found = dialect(&requested, is_stream).ok().map(|dialect| dialect.empty_fields);
                assert_eq!(found, Some(expected), "{requested:?}");
            }
        }
    }

    #[track_caller]
    fn check(format: CopyFormat, delimiter: u8, null: &str, expected: Option<&'static str>) {
        let (delimiter, null) = (Some(delimiter), Some(null.to_owned()));
        let requested =
            CopyOptions { format: Some(format), delimiter, null, ..CopyOptions::default() };
        let found = form_of(&requested).err().map(|error| error.cause.code);
        assert_eq!(found, expected, "{requested:?}");
    }

    // `n` was escaped to `\\n`, which every reader takes for a line feed.
    #[test]
    fn signs_that_cannot_be_told_from_values_are_refused() {
        for delimiter in *b"nN0.\\" {
            check(CopyFormat::Text, delimiter, "\\N", Some("22023"));
        }
        check(CopyFormat::Text, b'|', "a|b", Some("22023"));
        check(CopyFormat::Csv, b',', "a\nb", Some("22023"));
        check(CopyFormat::Csv, b',', "\"", Some("22023"));
        check(CopyFormat::Csv, b'n', "0", None);
        check(CopyFormat::Text, b'-', "\\N", None);
    }
}
