//! The parser of `COPY`: its source, its target, and the options in both of their forms.
//!
//! It also checks that a source or a target takes an option, as far as the text alone tells.

use std::ops::Range;

use tidegate_model::PartitionUnit;

use crate::error::{Error, Result, SyntaxError};
use crate::parse;
use crate::parse::copy_options::{CopyFormat, CopyHeader, CopyOptions, CopyPolicy, Placed};
use crate::parse::create::{expect_partition_unit, skip_brackets};
use crate::parse::cursor::{Cursor, Name};
use crate::parse::statement::Statement;
use crate::parse::token::TokenKind;
use crate::position::Position;

/// A parsed `COPY` statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Copy {
    Import {
        table: Name,
        columns: Vec<Name>,
        from: CopyPlace,
        options: CopyOptions,
    },
    Export {
        what: CopySource,
        to: CopyPlace,
        options: CopyOptions,
    },
    /// Cancels a job.
    Cancel {
        id: Placed,
    },
}

/// The place that bytes are read from or written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopyPlace {
    File(Placed),
    /// The client's connection, by STDIN or STDOUT at this byte.
    Connection {
        offset: usize,
    },
}

/// The rows that an export writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopySource {
    Table {
        table: Name,
        columns: Vec<Name>,
    },
    /// The bytes of a query in the statement.
    Query(Range<usize>),
}

/// The form in which the options are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `WITH HEADER true DELIMITER ';'`
    Words,
    /// `(HEADER true, DELIMITER ';')`
    Brackets,
}

/// The direction of the rows: into a table, or out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyDirection {
    In,
    Out,
}

pub(crate) fn copy(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip();
    let is_cancel = cursor.peek_at(1).is_some_and(|token| token.is_word("CANCEL"));
    if is_cancel {
        let id = expect_text(cursor, "the id of a job")?;
        cursor.expect_words(&["CANCEL"])?;
        cursor.expect_end()?;
        return Ok(Statement::Copy(Box::new(Copy::Cancel { id })));
    }
    let what = source(cursor)?;
    let copy = if cursor.peek().is_some_and(|token| token.is_word("FROM")) {
        let CopySource::Table { table, columns } = what else {
            return Err(cursor.unexpected("TO: rows are not copied into a query"));
        };
        cursor.skip();
        let from = place(cursor, "STDIN")?;
        let options = options(cursor, CopyDirection::In)?;
        Copy::Import { table, columns, from, options }
    } else {
        cursor.expect_words(&["TO"])?;
        let to = place(cursor, "STDOUT")?;
        let options = options(cursor, CopyDirection::Out)?;
        if options.format.is_none() && matches!(to, CopyPlace::File(_)) {
            return Err(cursor.unexpected("the option FORMAT: a file is csv, text or parquet"));
        }
        Copy::Export { what, to, options }
    };
    cursor.expect_end()?;
    Ok(Statement::Copy(Box::new(copy)))
}

fn source(cursor: &mut Cursor<'_>) -> Result<CopySource> {
    if cursor.peek().is_some_and(|token| token.is_sign('(')) {
        let start = cursor.offset() + 1;
        let mut ahead = cursor.clone();
        skip_brackets(&mut ahead)?;
        let last = cursor.distance(&ahead) - 1;
        let end = cursor.peek_at(last).map_or(start, |token| token.offset);
        *cursor = ahead;
        return Ok(CopySource::Query(start..end));
    }
    let table = cursor.expect_table()?;
    let mut columns = Vec::new();
    if cursor.take_sign('(') {
        columns = cursor.expect_list(|cursor| cursor.expect_name("the name of a column"))?;
        cursor.expect_sign(')')?;
    }
    Ok(CopySource::Table { table, columns })
}

fn place(cursor: &mut Cursor<'_>, connection: &str) -> Result<CopyPlace> {
    let offset = cursor.offset();
    if cursor.take_word(connection) {
        return Ok(CopyPlace::Connection { offset });
    }
    let what = format!("a file in quotes, or {connection}");
    Ok(CopyPlace::File(expect_text(cursor, &what)?))
}

fn expect_text(cursor: &mut Cursor<'_>, what: &str) -> Result<Placed> {
    match cursor.peek().filter(|token| token.kind == TokenKind::Text) {
        Some(token) => {
            let placed = Placed { text: token.unquoted(), offset: token.offset };
            cursor.skip();
            Ok(placed)
        }
        None => Err(cursor.unexpected(what)),
    }
}

/// The options that have been read so far.
#[derive(Default)]
struct ParsedOptions {
    options: CopyOptions,
    /// The character and its byte: it must be the QUOTE, which may be named behind it.
    escape: Option<(u8, usize)>,
}

impl ParsedOptions {
    fn checked(self, cursor: &Cursor<'_>) -> Result<CopyOptions> {
        let ParsedOptions { options, escape } = self;
        match escape {
            Some((sign, offset)) if sign != options.quote.unwrap_or(b'"') => {
                Err(not_supported_at(cursor, offset, "an ESCAPE that is not the QUOTE"))
            }
            _ => Ok(options),
        }
    }
}

fn not_supported_at(cursor: &Cursor<'_>, offset: usize, feature: &'static str) -> Error {
    Error::NotSupported { position: Some(Position::at(cursor.sql(), offset)), feature }
}

fn options(cursor: &mut Cursor<'_>, direction: CopyDirection) -> Result<CopyOptions> {
    let mut parsed = ParsedOptions::default();
    let has_with = cursor.take_word("WITH");
    if !cursor.take_sign('(') {
        if has_with && cursor.is_at_end() {
            return Err(cursor.unexpected("an option"));
        }
        while !cursor.is_at_end() {
            option(cursor, Form::Words, direction, &mut parsed)?;
        }
        return parsed.checked(cursor);
    }
    let mut seen: Vec<&'static str> = Vec::new();
    loop {
        let offset = cursor.offset();
        let name = option(cursor, Form::Brackets, direction, &mut parsed)?;
        if seen.contains(&name) {
            let what = SyntaxError::OptionTwice { option: name };
            return Err(Error::syntax(cursor.sql(), offset, what));
        }
        seen.push(name);
        if !cursor.take_sign(',') {
            cursor.expect_sign(')')?;
            return parsed.checked(cursor);
        }
    }
}

/// Options of an import, by their names in both forms. `FORMAT` has another meaning in each.
const OF_IMPORTS: [(&[&str], &str); 19] = [
    (&["FORMAT"], "FORMAT"),
    (&["HEADER"], "HEADER"),
    (&["DELIMITER"], "DELIMITER"),
    (&["QUOTE"], "QUOTE"),
    (&["ESCAPE"], "ESCAPE"),
    (&["NULL"], "NULL"),
    (&["TIMESTAMP"], "TIMESTAMP"),
    (&["TIMESTAMP_FORMAT"], "TIMESTAMP_FORMAT"),
    (&["PARTITION_BY"], "PARTITION_BY"),
    (&["ON_ERROR"], "ON_ERROR"),
    (&["MAX_ERRORS"], "MAX_ERRORS"),
    (&["REJECT_LIMIT"], "MAX_ERRORS"),
    (&["WAIT"], "WAIT"),
    (&["COMPRESSION"], "COMPRESSION"),
    (&["SKIP_LINES"], "SKIP_LINES"),
    (&["SKIP_COLUMNS"], "SKIP_COLUMNS"),
    (&["EXTRA_FIELDS"], "EXTRA_FIELDS"),
    (&["MISSING_FIELDS"], "MISSING_FIELDS"),
    (&["ENCODING"], "ENCODING"),
];
/// Options of an import in the form of words.
const IN_WORDS: [(&[&str], &str); 14] = [
    (&["FORMAT"], "TIMESTAMP_FORMAT"),
    (&["HEADER"], "HEADER"),
    (&["DELIMITER"], "DELIMITER"),
    (&["TIMESTAMP"], "TIMESTAMP"),
    (&["PARTITION", "BY"], "PARTITION_BY"),
    (&["ON", "ERROR"], "ON_ERROR"),
    (&["MAX", "ERRORS"], "MAX_ERRORS"),
    (&["COMPRESSION"], "COMPRESSION"),
    (&["SKIP", "LINES"], "SKIP_LINES"),
    (&["WAIT"], "WAIT"),
    (&["QUOTE"], "QUOTE"),
    (&["ESCAPE"], "ESCAPE"),
    (&["NULL"], "NULL"),
    (&["ENCODING"], "ENCODING"),
];
/// Formats that the form of words names without FORMAT.
const BARE: [(&[&str], &str); 2] = [(&["CSV"], "CSV"), (&["BINARY"], "BINARY")];
/// Options of an export, in both forms.
const OF_EXPORTS: [(&[&str], &str); 11] = [
    (&["FORMAT"], "FORMAT"),
    (&["HEADER"], "HEADER"),
    (&["DELIMITER"], "DELIMITER"),
    (&["QUOTE"], "QUOTE"),
    (&["ESCAPE"], "ESCAPE"),
    (&["NULL"], "NULL"),
    (&["ENCODING"], "ENCODING"),
    (&["WAIT"], "WAIT"),
    (&["COMPRESSION_CODEC"], "COMPRESSION_CODEC"),
    (&["COMPRESSION_LEVEL"], "COMPRESSION_LEVEL"),
    (&["ROW_GROUP_SIZE"], "ROW_GROUP_SIZE"),
];
/// Options that are known but not supported yet.
const NOT_YET: [&str; 9] = [
    "UNKNOWN_COLUMNS",
    "COLUMN_FORMATS",
    "ADD_COLUMNS",
    "FORCE_NULL",
    "FORCE_NOT_NULL",
    "FORCE_QUOTE",
    "FORCE",
    "DATA_PAGE_SIZE",
    "BLOOM_FILTER_COLUMNS",
];

/// Reads an option with its value, and returns its name.
fn option(
    cursor: &mut Cursor<'_>,
    form: Form,
    direction: CopyDirection,
    parsed: &mut ParsedOptions,
) -> Result<&'static str> {
    let known: &[(&[&str], &str)] = match (direction, form) {
        (CopyDirection::Out, _) => &OF_EXPORTS,
        (CopyDirection::In, Form::Words) => &IN_WORDS,
        (CopyDirection::In, Form::Brackets) => &OF_IMPORTS,
    };
    let bare = BARE.iter().filter(|_| form == Form::Words);
    let found = known.iter().chain(bare).find(|(words, _)| cursor.take_words(words));
    let Some(&(_, name)) = found else {
        let is_known = |token: &parse::Token<'_>| NOT_YET.iter().any(|name| token.is_word(name));
        if cursor.peek().is_some_and(is_known) {
            return Err(cursor.not_supported("this option of COPY"));
        }
        let names = known.iter().map(|(words, _)| words.join(" ")).collect::<Vec<_>>();
        return Err(cursor.unexpected(&format!("an option ({})", names.join(", "))));
    };
    if form == Form::Words && matches!(name, "DELIMITER" | "QUOTE" | "ESCAPE" | "NULL") {
        cursor.take_word("AS");
    }
    value(cursor, name, form, direction, parsed)?;
    Ok(name)
}

/// Reads the value behind the name of an option.
fn value(
    cursor: &mut Cursor<'_>,
    name: &'static str,
    form: Form,
    direction: CopyDirection,
    parsed: &mut ParsedOptions,
) -> Result<()> {
    let options = &mut parsed.options;
    match name {
        "CSV" => options.format = Some(CopyFormat::Csv),
        "BINARY" => options.format = Some(CopyFormat::Binary),
        "FORMAT" => options.format = Some(format(cursor, direction)?),
        "HEADER" => options.header = Some(header(cursor, form)?),
        "DELIMITER" => options.delimiter = Some(byte(cursor, "DELIMITER")?),
        "QUOTE" => options.quote = Some(byte(cursor, "QUOTE")?),
        "ESCAPE" => {
            let offset = cursor.offset();
            parsed.escape = Some((byte(cursor, "ESCAPE")?, offset));
        }
        "ENCODING" => encoding(cursor)?,
        "NULL" => options.null = Some(expect_text(cursor, "a text in quotes")?.text),
        "TIMESTAMP" => {
            let Name { text, offset, .. } = cursor.expect_name("the name of a column")?;
            options.timestamp = Some(Placed { text, offset });
        }
        "TIMESTAMP_FORMAT" => {
            options.timestamp_format = Some(expect_text(cursor, "a pattern in quotes")?);
        }
        "PARTITION_BY" => options.partition_by = Some(partition_by(cursor)?),
        "ON_ERROR" => options.on_error = Some(policy(cursor)?),
        "MAX_ERRORS" => options.max_errors = Some(cursor.expect_integer("a number of rejects")?),
        "WAIT" => options.wait = switch(cursor)?,
        "COMPRESSION" => compression(cursor)?,
        "SKIP_LINES" => options.skip_lines = cursor.expect_integer("a number of lines")?,
        "SKIP_COLUMNS" => {
            cursor.expect_sign('(')?;
            let names = cursor.expect_list(|cursor| cursor.expect_name("the name of a column"))?;
            cursor.expect_sign(')')?;
            options.skip_columns = names.into_iter().map(|name| name.text).collect();
        }
        "EXTRA_FIELDS" => {
            options.ignores_extra_fields = word(cursor, &["REJECT", "IGNORE"])? == "IGNORE";
        }
        "MISSING_FIELDS" => {
            options.rejects_missing_fields = word(cursor, &["NULL", "REJECT"])? == "REJECT";
        }
        "COMPRESSION_CODEC" => {
            let Name { text, offset, .. } = cursor.expect_name("the name of a codec")?;
            options.codec = Some(Placed { text, offset });
        }
        "COMPRESSION_LEVEL" => {
            let level = cursor.expect_integer("a level")?;
            options.codec_level = Some(u32::try_from(level).unwrap_or(u32::MAX));
        }
        "ROW_GROUP_SIZE" => {
            options.row_group_size = Some(cursor.expect_integer("a number of rows")?);
        }
        other => unreachable!("{other} is in no list"),
    }
    Ok(())
}

/// Reads the name of an encoding: UTF-8, under one of its names.
fn encoding(cursor: &mut Cursor<'_>) -> Result<()> {
    let Placed { text, offset } = expect_text(cursor, "the name of an encoding in quotes")?;
    match ["UTF8", "UTF-8", "UNICODE"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        true => Ok(()),
        false => Err(not_supported_at(cursor, offset, "an ENCODING that is not UTF8")),
    }
}

fn format(cursor: &mut Cursor<'_>, direction: CopyDirection) -> Result<CopyFormat> {
    let words = ["CSV", "TEXT", "BINARY", "PARQUET", "JSONL", "NDJSON", "ARROW"];
    Ok(match (word(cursor, &words)?, direction) {
        ("CSV", _) => CopyFormat::Csv,
        ("TEXT", _) => CopyFormat::Text,
        ("BINARY", _) => CopyFormat::Binary,
        ("PARQUET", _) => CopyFormat::Parquet,
        ("ARROW", CopyDirection::Out) => CopyFormat::Arrow,
        (_, CopyDirection::Out) => CopyFormat::Jsonl,
        (_, CopyDirection::In) => return Err(cursor.not_supported("import of jsonl and arrow")),
    })
}

fn header(cursor: &mut Cursor<'_>, form: Form) -> Result<CopyHeader> {
    let is_end = cursor.is_at_end()
        || cursor.peek().is_some_and(|token| token.is_sign(',') || token.is_sign(')'));
    if form == Form::Brackets && is_end {
        return Ok(CopyHeader::Present);
    }
    let words = ["TRUE", "FALSE", "ON", "OFF", "1", "0", "NONE", "MATCH", "AUTO"];
    let says_it = |token: &parse::Token<'_>| words.iter().any(|&it| is(token, it));
    if form == Form::Words && (begins_on_error(cursor) || !cursor.peek().is_some_and(says_it)) {
        return Ok(CopyHeader::Present);
    }
    Ok(match (word(cursor, &words)?, form) {
        ("TRUE" | "ON" | "1", _) => CopyHeader::Present,
        ("MATCH", _) => CopyHeader::Match,
        ("AUTO", _) => CopyHeader::Auto,
        ("FALSE" | "OFF" | "0", Form::Words) => CopyHeader::Auto,
        _ => CopyHeader::Absent,
    })
}

fn partition_by(cursor: &mut Cursor<'_>) -> Result<PartitionUnit> {
    expect_partition_unit(cursor)
}

fn policy(cursor: &mut Cursor<'_>) -> Result<CopyPolicy> {
    let words = ["SKIP_ROW", "SKIP_COLUMN", "ABORT", "IGNORE", "STOP"];
    Ok(match word(cursor, &words)? {
        "SKIP_ROW" | "IGNORE" => CopyPolicy::SkipRow,
        "SKIP_COLUMN" => CopyPolicy::SkipColumn,
        _ => CopyPolicy::Abort,
    })
}

/// Reads a compression, which has no effect: an import detects it by itself. NONE is refused.
fn compression(cursor: &mut Cursor<'_>) -> Result<()> {
    match word(cursor, &["AUTO", "GZIP", "ZSTD", "NONE"])? {
        "NONE" => Err(cursor.not_supported("COMPRESSION none: packed files are always unpacked")),
        _ => Ok(()),
    }
}

/// Reads a boolean; true if there is none.
fn switch(cursor: &mut Cursor<'_>) -> Result<bool> {
    let words = ["TRUE", "FALSE", "ON", "OFF", "1", "0"];
    let says_it = |token: &parse::Token<'_>| words.iter().any(|&it| is(token, it));
    match !begins_on_error(cursor) && cursor.peek().is_some_and(says_it) {
        true => Ok(matches!(word(cursor, &words)?, "TRUE" | "ON" | "1")),
        false => Ok(true),
    }
}

/// Returns true at `ON ERROR`: `WAIT ON ERROR ..` are two options.
fn begins_on_error(cursor: &Cursor<'_>) -> bool {
    cursor.peek().is_some_and(|token| is(token, "ON"))
        && cursor.peek_at(1).is_some_and(|token| is(token, "ERROR"))
}

fn is(token: &parse::Token<'_>, word: &str) -> bool {
    token.kind != TokenKind::Sign && token.unquoted().eq_ignore_ascii_case(word)
}

/// Reads one of these words, perhaps in quotes.
fn word(cursor: &mut Cursor<'_>, words: &[&'static str]) -> Result<&'static str> {
    let found = cursor.peek().and_then(|token| words.iter().find(|&&word| is(token, word)));
    let Some(&found) = found else {
        return Err(cursor.unexpected(&words.join(", ").to_lowercase()));
    };
    cursor.skip();
    Ok(found)
}

/// Reads one ASCII character that can separate or enclose fields.
fn byte(cursor: &mut Cursor<'_>, option: &'static str) -> Result<u8> {
    let Placed { text, offset } = expect_text(cursor, "a character in quotes")?;
    // Scripts for PostgreSQL write a tab as these two characters.
    let text = if text == "\\t" { "\t".to_owned() } else { text };
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, 0 | b'\r' | b'\n') => Ok(*byte),
        _ => {
            let position = Position::at(cursor.sql(), offset);
            let expected = "one ASCII character that is no line end".to_owned();
            Err(Error::CopyOption { position, option, expected })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_statement;

    fn parse(sql: &str) -> Result<Copy> {
        match parse_statement(sql)? {
            Statement::Copy(copy) => Ok(*copy),
            other => panic!("{other:?}"),
        }
    }

    fn options_of(with: &str) -> CopyOptions {
        match parse(&format!("COPY t FROM 'f' {with}")) {
            Ok(Copy::Import { options, .. }) => options,
            other => panic!("{with}: {other:?}"),
        }
    }

    #[track_caller]
    fn check_error(sql: &str, expected: &str) {
        let error = parse(sql).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{sql}: {error}");
    }

    #[test]
    fn both_forms_say_the_same() {
        let words = [
            "HEADER true",
            "TIMESTAMP ts",
            "FORMAT 'yyyy'",
            "DELIMITER ';'",
            "PARTITION BY day",
            "ON ERROR skip_column",
            "MAX ERRORS 7",
            "SKIP LINES 2",
            "COMPRESSION 'gzip'",
            "WAIT",
        ];
        let brackets = [
            "HEADER true",
            "TIMESTAMP ts",
            "TIMESTAMP_FORMAT 'yyyy'",
            "DELIMITER ';'",
            "PARTITION_BY day",
            "ON_ERROR 'skip_column'",
            "MAX_ERRORS 7",
            "SKIP_LINES 2",
            "COMPRESSION gzip",
            "WAIT true",
        ];
        // Only places differ between the two.
        let without_places = |mut options: CopyOptions| {
            let placed = [&mut options.timestamp, &mut options.timestamp_format];
            placed.into_iter().flatten().for_each(|it| it.offset = 0);
            options
        };
        for a in 0..words.len() {
            for b in (0..words.len()).filter(|&b| b != a) {
                for c in (0..words.len()).filter(|&c| c != a && c != b) {
                    let in_words = format!("WITH {} {} {}", words[a], words[b], words[c]);
                    let list = [brackets[a], brackets[b], brackets[c]].join(", ");
                    let parsed = without_places(options_of(&in_words));
                    assert_eq!(parsed, without_places(options_of(&format!("({list})"))), "{list}");
                    assert_eq!(parsed, without_places(options_of(&format!("WITH ({list})"))));
                }
            }
        }
    }

    #[test]
    fn headers_are_found_out_or_said() {
        for (with, expected) in [
            ("", None),
            ("WITH HEADER false", Some(CopyHeader::Auto)),
            ("WITH HEADER NONE", Some(CopyHeader::Absent)),
            ("WITH HEADER match", Some(CopyHeader::Match)),
            ("(HEADER)", Some(CopyHeader::Present)),
            ("(HEADER false)", Some(CopyHeader::Absent)),
            ("(HEADER auto, WAIT)", Some(CopyHeader::Auto)),
        ] {
            assert_eq!(options_of(with).header, expected, "{with}");
        }
        assert_eq!(options_of("WITH HEADER true HEADER none").header, Some(CopyHeader::Absent));
    }

    #[test]
    fn errors_in_copy_name_their_place() {
        check_error("COPY t FROM 'f' WITH HEDAER true", "line 1, column 22: expected an option (");
        check_error("COPY t FROM 'f' (WAIT, WAIT)", "line 1, column 24: the option WAIT");
        check_error("COPY (SELECT 1) FROM 'f'", "line 1, column 17: expected TO");
        check_error("COPY t TO 'f'", "line 1, column 14: expected the option FORMAT");
        check_error("COPY t FROM f", "line 1, column 13: expected a file in quotes");
        for bad in ["||", "\u{e9}", ""] {
            let sql = format!("COPY t FROM 'f' (DELIMITER '{bad}')");
            check_error(&sql, "line 1, column 28: DELIMITER takes one ASCII character");
        }
        check_error("COPY t FROM 'f' (ESCAPE 'x')", "line 1, column 25: an ESCAPE that");
        check_error("COPY t FROM STDIN CSV ESCAPE '\\'", "line 1, column 30: an ESCAPE that");
        check_error("COPY t FROM STDIN ENCODING 'LATIN1'", "line 1, column 28: an ENCODING that");
        check_error("COPY t TO STDOUT CSV FORCE QUOTE *", "line 1, column 22: this option");
        check_error("COPY t FROM STDIN CSV HEADR", "line 1, column 23: expected an option (");
        check_error("COPY t FROM STDIN (CSV)", "line 1, column 20: expected an option (");
    }

    // Only the form in brackets named formats, and words needed a WITH: the most common spelling
    // was refused.
    #[test]
    fn formats_are_named_by_a_word_alone() {
        for (words, brackets) in [
            ("CSV HEADER", "(FORMAT csv, HEADER)"),
            ("WITH CSV", "(FORMAT csv)"),
            ("WITH BINARY", "(FORMAT binary)"),
            ("BINARY", "(FORMAT binary)"),
            ("WITH CSV HEADER DELIMITER ';'", "(FORMAT csv, HEADER, DELIMITER ';')"),
            ("WITH DELIMITER ',' CSV", "(FORMAT csv, DELIMITER ',')"),
            ("DELIMITER AS '|' NULL AS ''", "(DELIMITER '|', NULL '')"),
            ("CSV NULL '' ESCAPE '\"'", "(FORMAT csv, NULL '', ESCAPE '\"')"),
            ("CSV ESCAPE '~' QUOTE '~'", "(FORMAT csv, ESCAPE '~', QUOTE '~')"),
            (r"CSV DELIMITER E'\t' NULL E'\\N'", "(FORMAT csv, DELIMITER '\t', NULL '\\N')"),
            ("CSV ENCODING 'utf-8'", "(FORMAT csv, ENCODING 'UTF8')"),
        ] {
            for place in ["t FROM STDIN", "t TO STDOUT"] {
                let of = |options| match parse(&format!("COPY {place} {options}")) {
                    Ok(Copy::Import { options, .. } | Copy::Export { options, .. }) => options,
                    other => panic!("{options}: {other:?}"),
                };
                assert_eq!(of(words), of(brackets), "{place} {words}");
            }
        }
        assert_eq!(options_of("CSV HEADER ON ERROR abort").header, Some(CopyHeader::Present));
    }

    #[test]
    fn columns_to_leave_out_are_listed() {
        let skipped = |words| options_of(words).skip_columns;
        assert_eq!(skipped("(SKIP_COLUMNS (a, \"B c\"), HEADER)"), ["a", "B c"]);
        assert_eq!(skipped("(skip_columns (a))"), ["a"]);
        assert_eq!(skipped("(HEADER)"), [""; 0]);
        assert!(parse("COPY t FROM 'x' (SKIP_COLUMNS a)").is_err());
    }

    #[test]
    fn queries_and_tables_are_written() {
        let sql = "COPY (SELECT (1) FROM t) TO STDOUT (FORMAT csv, HEADER)";
        let Ok(Copy::Export { what: CopySource::Query(query), to, options }) = parse(sql) else {
            panic!("{sql}");
        };
        assert_eq!(&sql[query], "SELECT (1) FROM t");
        assert_eq!(to, CopyPlace::Connection { offset: 28 });
        assert_eq!(options.header, Some(CopyHeader::Present));
        let sql = "COPY t (a, \"B c\") TO 'x.parquet' WITH FORMAT PARQUET ROW_GROUP_SIZE 5";
        let Ok(Copy::Export { what: CopySource::Table { columns, .. }, options, .. }) = parse(sql)
        else {
            panic!("{sql}");
        };
        assert_eq!((columns.len(), columns[1].text.as_str()), (2, "B c"));
        assert_eq!(options.format, Some(CopyFormat::Parquet));
        assert_eq!(options.row_group_size, Some(5));
    }

    #[test]
    fn a_job_is_ended_by_its_id() {
        let Ok(Copy::Cancel { id }) = parse("copy '00c1' cancel;") else { panic!("no cancel") };
        assert_eq!(id, Placed { text: "00c1".to_owned(), offset: 5 });
    }
}
