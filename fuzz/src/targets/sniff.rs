//! Any samples give a description that has an entry for each column, or an error; and options that
//! were given are kept (sniff-1).
//!
//! Input: options, the ends of the head and of the windows, then the samples.

use tidegate_ingest::Quote;
use tidegate_ingest::sniff::{FirstLine, Header, Like, SniffOptions, Sniffed, map_columns, sniff};
use tidegate_ingest::timestamp::TimestampFormat;
use tidegate_model::{ColumnType, PartitionUnit, TimeUnit};

use super::input::Input;
use crate::world::schema_of;

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Nanos)),
        ("a", ColumnType::Symbol),
        ("b", ColumnType::Date),
    ];
    let schema = schema_of(&columns, Some("ts"), PartitionUnit::Hour);
    let formats = [None, Some(TimestampFormat::Iso), TimestampFormat::parse("%d.%m.%Y").ok()];
    let format = input.byte();
    let symbols = ["a".to_owned()];
    let delimiter = input.choose(&[None, Some(b','), Some(b'"'), Some(b':'), Some(0xE4)]);
    let options = SniffOptions {
        delimiter,
        quote: input.choose(&[Quote::Standard, Quote::Byte(b'\''), Quote::None, Quote::Byte(b',')]),
        header: input.choose(&[Header::Auto, Header::Present, Header::Absent, Header::Match]),
        timestamp_format: formats[usize::from(format) % formats.len()].as_ref(),
        null_text: input.choose(&[None, Some("NULL"), Some("")]),
        expected: input.choose(&[None, Some(&schema)]),
        columns: None,
        designated: input.choose(&[None, Some("ts"), Some("f0")]),
        symbols: if format < 128 { &[] } else { &symbols },
        hints: &[],
        skip: &[],
        like: None,
        first_line: FirstLine::Unknown,
        blank_is_record: false,
        ragged_is_row: false,
        head_is_whole: input.byte().is_multiple_of(2),
    };
    let (head_bytes, window_bytes) = (input.short(), input.short());
    let head = input.take(head_bytes);
    let windows: Vec<&[u8]> = input.rest.chunks(window_bytes.max(16)).collect();
    let Ok(sniffed) = sniff(head, &windows, &options) else { return };
    assert_eq!(sniffed.names.len(), sniffed.types.len());
    assert_eq!(sniffed.names.len(), sniffed.formats.len());
    assert!(delimiter.is_none() || delimiter == Some(sniffed.dialect.delimiter), "sniff-1");
    assert_ne!(Some(sniffed.dialect.delimiter), sniffed.dialect.quote);
    for (ty, format) in sniffed.types.iter().zip(&sniffed.formats) {
        let is_time = matches!(ty, ColumnType::Timestamp(_) | ColumnType::Date);
        assert_eq!(format.is_some(), is_time, "{ty:?}");
        assert_ne!(*format, Some(TimestampFormat::Detect));
    }
    another(&sniffed, &windows, &options);
    if let Some(schema) = options.expected
        && let Ok(map) = map_columns(&sniffed, schema, &options)
    {
        assert_eq!(map.targets.len(), sniffed.names.len());
        let mut seen: Vec<usize> = map.targets.iter().flatten().copied().collect();
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "a column has one source");
        assert!(seen.iter().all(|&target| target < schema.columns().len()));
    }
}

/// Sniffs a further file of the same import: without a known name it has no header.
fn another(first: &Sniffed, windows: &[&[u8]], options: &SniffOptions<'_>) {
    let Some(head) = windows.first() else { return };
    let like = Like {
        delimiter: first.dialect.delimiter,
        columns: first.names.len(),
        has_header: first.dialect.has_header,
        names: &first.names,
    };
    let options = SniffOptions { like: Some(like), first_line: FirstLine::Differs, ..*options };
    let Ok(own) = sniff(head, &windows[1..], &options) else { return };
    assert_eq!(own.names.len(), own.types.len());
    if options.header == Header::Auto && !like.has_header && options.expected.is_none() {
        let is_named = own.names.iter().any(|name| name.trim().eq_ignore_ascii_case("ts"));
        let has_symbol = own.names.iter().any(|name| name.trim().eq_ignore_ascii_case("a"));
        let is_first = own.names.iter().any(|name| name.trim().eq_ignore_ascii_case("f0"));
        assert!(!own.dialect.has_header || is_named || has_symbol || is_first, "{own:?}");
    }
}
