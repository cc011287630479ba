//! Rows of the conversion table: the type that a value creates, the columns that accept it, and one
//! value just outside.

use std::sync::Arc;

use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit};
use tidegate_storage::{BatchValues, RowBatch};

use super::{LineHost, LineOptions, LineParser, OnBadLine, Precision, TableRows};

/// Some tables, and a clock that goes backwards.
#[derive(Default)]
struct Host {
    tables: Vec<(String, Arc<Schema>)>,
    now: i64,
}

impl LineHost for Host {
    fn schema_of(&mut self, table: &str) -> Option<Arc<Schema>> {
        let found = self.tables.iter().find(|(name, _)| name == table);
        found.map(|(_, schema)| Arc::clone(schema))
    }

    fn now_nanos(&mut self) -> i64 {
        self.now -= 1_000;
        self.now
    }
}

impl Host {
    /// A host with a table `t` that has a column `x`.
    fn with(ty: ColumnType) -> Host {
        Host { tables: vec![("t".to_owned(), schema_with(ty))], now: 0 }
    }
}

fn schema_with(ty: ColumnType) -> Arc<Schema> {
    let ts = ("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros));
    let columns = [ts, ("x".to_owned(), ty)];
    Arc::new(Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap())
}

/// The rows as text: columns with their types, then values; or the parse error.
fn read(lines: &str, host: &mut Host) -> String {
    let mut parser = LineParser::new(LineOptions::new(OnBadLine::Stop));
    let result = parser.feed(lines.as_bytes(), host).and_then(|()| parser.finish(host));
    match result {
        Err(error) => error.to_string(),
        Ok(()) => parser.take().iter().map(shown).collect::<Vec<_>>().join("; "),
    }
}

fn shown(rows: &TableRows) -> String {
    format!("{}: {}", rows.table, shown_batch(&rows.rows))
}

fn shown_batch(batch: &RowBatch) -> String {
    let columns = batch.columns().iter().map(|column| {
        let values: Vec<String> = (0..batch.rows())
            .map(|row| match &column.validity {
                Some(words) if words[row / 64] >> (row % 64) & 1 == 0 => "NULL".to_owned(),
                _ => shown_value(&column.values, row),
            })
            .collect();
        format!("{} {} {}", column.name, column.ty.sql(), values.join("|"))
    });
    columns.collect::<Vec<_>>().join(", ")
}

fn shown_value(values: &BatchValues, row: usize) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match values {
        BatchValues::Bits(values) => (values[row] != 0).to_string(),
        BatchValues::I8(values) => values[row].to_string(),
        BatchValues::I16(values) => values[row].to_string(),
        BatchValues::I32(values) => values[row].to_string(),
        BatchValues::I64(values) => values[row].to_string(),
        BatchValues::U8(values) => values[row].to_string(),
        BatchValues::U16(values) => values[row].to_string(),
        BatchValues::U32(values) => values[row].to_string(),
        BatchValues::U64(values) => values[row].to_string(),
        BatchValues::I128(values) => values[row].to_string(),
        BatchValues::F32(values) => format!("{:?}", values[row]),
        BatchValues::F64(values) => format!("{:?}", values[row]),
        BatchValues::Fixed16(values) => format!("{:032x}", u128::from_be_bytes(values[row])),
        BatchValues::Texts(texts) => text(texts.get(row)),
        BatchValues::Symbols { codes, texts } => text(texts.get(codes[row] as usize)),
    }
}

#[test]
fn a_table_is_created_with_tags_first_and_the_timestamp_last() {
    let lines = "t,a=x,b=y f=1,g=2i 1000\nt,b=y,c= h=t,F=2 2000\n";
    assert_eq!(
        read(lines, &mut Host::default()),
        "t: a SYMBOL x|NULL, b SYMBOL y|y, f DOUBLE 1.0|2.0, g BIGINT 2|NULL, \
         h BOOLEAN NULL|true, timestamp TIMESTAMP 1|2"
    );
}

/// The cases of a text, separated by semicolons: `value -> expected`.
fn cases(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(';').map(|case| case.trim().split_once(" -> ").expect("a case has an arrow"))
}

/// Checks the columns that values create.
#[track_caller]
fn creates(text: &str) {
    for (value, expected) in cases(text) {
        let actual = read(&format!("t x={value} 0\n"), &mut Host::default());
        let expected = if expected.starts_with("line") {
            expected.to_owned()
        } else {
            format!("t: x {expected}, timestamp TIMESTAMP 0")
        };
        assert_eq!(actual, expected, "{value}");
    }
}

#[test]
fn every_kind_of_value_creates_its_type() {
    creates("12i -> BIGINT 12; +12i -> BIGINT 12; 12u -> UBIGINT 12");
    creates("-9223372036854775808i -> BIGINT -9223372036854775808");
    creates("18446744073709551615u -> UBIGINT 18446744073709551615");
    creates("1 -> DOUBLE 1.0; 1.5 -> DOUBLE 1.5; -1.5e3 -> DOUBLE -1500.0; NaN -> DOUBLE NaN");
    creates("52.3185412345 -> DOUBLE 52.3185412345; -Infinity -> DOUBLE -inf");
    creates("1.5d -> DECIMAL(18,3) 1500; -1.50000d -> DECIMAL(18,3) -1500");
    creates("1.2345d -> DECIMAL(38,4) 12345");
    creates("1234567890123456d -> DECIMAL(38,3) 1234567890123456000");
    for value in ["t", "T", "true", "True", "TRUE"] {
        creates(&format!("{value} -> BOOLEAN true"));
    }
    for value in ["f", "F", "false", "False", "FALSE"] {
        creates(&format!("{value} -> BOOLEAN false"));
    }
    creates("\"text\" -> VARCHAR text");
    creates("\"a\\\"b\\\\c\\\nd\ne\\f,= g\" -> VARCHAR a\"b\\c\nd\ne\\f,= g");
    assert_eq!(read("t x=\"\" 0\n", &mut Host::default()), "t: x VARCHAR , timestamp TIMESTAMP 0");
    creates("5n -> TIMESTAMP_NS 5; -5t -> TIMESTAMP -5; 5m -> TIMESTAMP 5000");
}

#[test]
fn values_that_a_new_column_cannot_hold_are_refused() {
    for (value, kind, ty, why) in [
        ("9223372036854775808i", "integer", "BIGINT", "out of range"),
        ("-1u", "integer", "UBIGINT", "out of range"),
        ("1e400", "number", "DOUBLE", "out of range"),
        ("1e-40d", "decimal", "DECIMAL(38,38)", "it would be rounded"),
    ] {
        let shown = value.trim_end_matches(['i', 'u', 'd']);
        creates(&format!(
            "{value} -> line 1: {kind} '{shown}' cannot go into column 'x' of type {ty}: {why}"
        ));
    }
    creates(
        "0x1fi -> line 1: hexadecimal number '1f' cannot create column 'x': \
         integers of 256 bits are not supported",
    );
    creates(
        "=\u{10}abcdefgh -> line 1: field 'x' has a binary value, \
         which this protocol version does not have",
    );
}

#[test]
fn invalid_syntax_is_refused() {
    for value in [
        "x", "tr", "yes", "1i2", "i", "u", "n", "1.5i", "1e3i", "--1", "1..2", "0x", "0xgi", "1_0",
        "1,5", "'a'", "\"a\"b", "\t1", "1\t", "+1n", "1 ,5", "0b1", "\u{661}",
    ] {
        let actual = read(&format!("t x={value} 0\n"), &mut Host::default());
        let begins = ["line 1: field 'x' has value '", "line 1: '", "line 1: expected "];
        assert!(begins.iter().any(|it| actual.starts_with(it)), "{value:?}: {actual}");
    }
    creates("21,5 -> line 1: field 'x' has value '21,5', which is not a number, boolean or string");
}

/// Checks the values in an existing column, as its table stores them then, or behind an exclamation
/// mark the reason of a parse error.
#[track_caller]
fn goes(ty: ColumnType, text: &str) {
    for (value, expected) in cases(text) {
        let line = match value.strip_prefix("tag ") {
            Some(tag) => format!("t,x={tag} 0\n"),
            None => format!("t x={value} 0\n"),
        };
        let actual = read(&line, &mut Host::with(ty));
        let column = format!("t: x {} ", ty.sql());
        let misfit = format!(" cannot go into column 'x' of type {}: ", ty.sql());
        let actual = match actual.strip_prefix(&column) {
            Some(values) => values.strip_suffix(", ts TIMESTAMP 0").unwrap().to_owned(),
            None => format!("! {}", actual.split(&misfit).last().unwrap()),
        };
        assert_eq!(actual, expected, "{value} into {}", ty.sql());
    }
}

/// Checks that no column of these types accepts one of the values.
#[track_caller]
fn goes_nowhere(values: &[&str], types: &[ColumnType]) {
    for value in values {
        for ty in types {
            goes(*ty, &format!("{value} -> ! the types do not go together"));
        }
    }
}

const DECIMAL: ColumnType = ColumnType::Decimal { precision: 5, scale: 2 };
const MICROS: ColumnType = ColumnType::Timestamp(TimeUnit::Micros);
const NANOS: ColumnType = ColumnType::Timestamp(TimeUnit::Nanos);

#[test]
fn integers_take_what_is_whole_and_in_range() {
    for suffix in ["i", "u"] {
        let goes = |ty, text: &str| goes(ty, &text.replace('_', suffix));
        goes(ColumnType::Int8, "127_ -> 127; 128_ -> ! out of range; -129_ -> ! out of range");
        goes(ColumnType::Int16, "32767_ -> 32767; 32768_ -> ! out of range");
        goes(ColumnType::Int32, "2147483647_ -> 2147483647; 2147483648_ -> ! out of range");
        goes(ColumnType::Int64, "9223372036854775807_ -> 9223372036854775807");
        goes(ColumnType::Int64, "9223372036854775808_ -> ! out of range");
        goes(ColumnType::UInt8, "255_ -> 255; 256_ -> ! out of range; -1_ -> ! out of range");
        goes(ColumnType::UInt16, "65536_ -> ! out of range");
        goes(ColumnType::UInt32, "4294967295_ -> 4294967295; 4294967296_ -> ! out of range");
        goes(ColumnType::UInt64, "9223372036854775807_ -> 9223372036854775807");
    }
    goes(ColumnType::UInt64, "18446744073709551615u -> 18446744073709551615");
    goes(ColumnType::Int8, "1e2 -> 100; 128 -> ! out of range; t -> 1; F -> 0");
    goes(ColumnType::UInt8, "100.0 -> 100");
    goes(ColumnType::UInt16, "t -> 1; F -> 0");
    goes(ColumnType::Int32, "1.5 -> ! it is not whole; 1e-1 -> ! it is not whole");
    goes(ColumnType::Int64, "0.5e1 -> 5; 9007199254740993 -> 9007199254740993; t -> 1; F -> 0");
    goes(ColumnType::Int64, "Infinity -> ! it is not finite; 5t -> 5");
    goes_nowhere(&["tag 1", "1d", "\"1\""], &[ColumnType::Int64]);
    goes_nowhere(&["5t"], &[ColumnType::Int32]);
}

// A column of texts, decimals or floats took `-1u` and integers of more than 64 bits: only the
// range of the column was checked.
#[test]
fn values_are_in_the_range_of_their_suffix_in_every_column() {
    let wide = ColumnType::Decimal { precision: 38, scale: 0 };
    for ty in [
        ColumnType::Int64,
        ColumnType::UInt64,
        ColumnType::Float32,
        ColumnType::Float64,
        wide,
        MICROS,
        NANOS,
        ColumnType::Symbol,
        ColumnType::Varchar,
    ] {
        goes(ty, "9223372036854775808i -> ! out of range");
        goes(ty, "-9223372036854775809i -> ! out of range");
        goes(ty, "18446744073709551616u -> ! out of range");
        goes(ty, "-1u -> ! out of range; -0u -> ! out of range");
    }
    goes(wide, "-9223372036854775808i -> -9223372036854775808; +1i -> 1; +1u -> 1");
    goes(wide, "18446744073709551615u -> 18446744073709551615");
    goes(ColumnType::Varchar, "18446744073709551615u -> 18446744073709551615");
    for ty in [ColumnType::Float64, ColumnType::Symbol, ColumnType::Varchar] {
        goes(ty, "1e400 -> ! out of range; -1e400 -> ! out of range; NaN -> NaN");
    }
}

#[test]
fn floats_take_numbers_that_they_hold() {
    goes(ColumnType::Float32, "1.1 -> 1.1; 1e300 -> ! out of range; 1.5d -> 1.5; t -> 1.0");
    goes(ColumnType::Float64, "1e300 -> 1e300; 1.5d -> 1.5; f -> 0.0");
    for suffix in ["i", "u"] {
        let goes = |ty, text: &str| goes(ty, &text.replace('_', suffix));
        goes(ColumnType::Float32, "16777216_ -> 16777216.0; 16777217_ -> ! it would be rounded");
        goes(ColumnType::Float64, "9007199254740992_ -> 9007199254740992.0");
        goes(ColumnType::Float64, "9007199254740993_ -> ! it would be rounded");
    }
    goes_nowhere(&["tag 1", "\"1\"", "5t"], &[ColumnType::Float64]);
}

#[test]
fn decimals_take_what_has_their_digits() {
    goes(DECIMAL, "999i -> 99900; 999u -> 99900; 1000i -> ! out of range");
    goes(DECIMAL, "1.005 -> 101; -1.005 -> -101; 999.995 -> ! out of range");
    goes(DECIMAL, "NaN -> ! it is not finite; 1000d -> ! out of range");
    goes(DECIMAL, "1.25d -> 125; 1.2500d -> 125; 1.255d -> ! it would be rounded");
    goes(DECIMAL, "\"1.25\" -> 125; \"1.255\" -> ! it would be rounded");
    goes(DECIMAL, "\"x\" -> ! not a decimal number");
    goes_nowhere(&["tag 1", "t"], &[DECIMAL]);
}

#[test]
fn booleans_take_booleans() {
    goes(ColumnType::Boolean, "t -> true; False -> false");
    goes_nowhere(&["tag 1", "1i", "1u", "1", "1d", "\"1\""], &[ColumnType::Boolean]);
}

#[test]
fn texts_take_what_was_sent() {
    for ty in [ColumnType::Symbol, ColumnType::Varchar] {
        goes(ty, "tag a -> a; 007i -> 007; 12u -> 12; 1.50 -> 1.50; 1e3 -> 1e3");
        goes(ty, "T -> true; f -> false; \"a b\" -> a b");
    }
    goes_nowhere(&["1d", "5t", "0x61i"], &[ColumnType::Varchar]);
    goes(ColumnType::Binary, "\"\\\\x6162\" -> ab; \"6162\" -> ! not binary");
    goes(ColumnType::Binary, "0x616i -> \u{6}\u{16}");
    goes_nowhere(&["1i", "t"], &[ColumnType::Binary]);
}

#[test]
fn addresses_and_uuids_take_what_spells_them() {
    goes(ColumnType::Ipv4, "tag 10.0.0.1 -> 167772161; \"10.0.0.1\" -> 167772161");
    goes(ColumnType::Ipv4, "tag 10.0.0.256 -> ! not an IPv4 address");
    goes(ColumnType::Ipv4, "\"10.0.0\" -> ! not an IPv4 address");
    let uuid = "00112233-4455-6677-8899-aabbccddeeff";
    goes(ColumnType::Uuid, &format!("tag {uuid} -> {}", uuid.replace('-', "")));
    goes(ColumnType::Uuid, "tag x -> ! not a UUID; \"x\" -> ! not a UUID");
    goes_nowhere(&["1i", "1", "t"], &[ColumnType::Uuid]);
    goes_nowhere(&["1"], &[ColumnType::Ipv4]);
}

#[test]
fn times_take_counts_in_their_unit_and_texts() {
    goes(MICROS, "5i -> 5; 5u -> 5; 1999n -> 1; -1n -> -1");
    goes(NANOS, "5i -> 5; 1t -> 1000; 1m -> 1000000");
    goes(NANOS, "9223372036854775807m -> ! date or time out of range");
    goes(NANOS, "9223372036854775808u -> ! date or time out of range");
    goes(ColumnType::Int64, "-9223372036854775808n -> -9223372036854775808");
    for ty in [MICROS, NANOS, ColumnType::Date] {
        goes(ty, "99999999999999999999n -> ! date or time out of range");
    }
    goes(MICROS, "\"1970-01-01T00:00:01.0000019Z\" -> 1000001");
    goes(NANOS, "\"1970-01-01T00:00:01.0000019Z\" -> 1000001900");
    goes(MICROS, "\"1970-02-30\" -> ! date or time out of range");
    goes(ColumnType::Date, "-1m -> -1; 86400000m -> 1; \"1970-01-02\" -> 1");
    goes(ColumnType::Date, "\"1970-01-02T01:00:00\" -> ! a date with a time of day");
    goes_nowhere(&["tag 1"], &[MICROS]);
    goes_nowhere(&["1", "t"], &[MICROS, ColumnType::Date]);
    goes_nowhere(&["1i", "1u"], &[ColumnType::Date]);
}

#[test]
fn the_first_value_of_a_new_column_decides() {
    let read = |lines: &str| read(lines, &mut Host::default());
    assert_eq!(read("t x=1 0\nt x=2i 1\n"), "t: x DOUBLE 1.0|2.0, timestamp TIMESTAMP 0|0");
    assert_eq!(
        read("t x=1i 0\nt x=1.5 1\n"),
        "line 2: number '1.5' cannot go into column 'x' of type BIGINT: it is not whole"
    );
}

#[test]
fn the_first_of_two_values_counts_in_any_case() {
    let read = |lines: &str| read(lines, &mut Host::default());
    assert_eq!(read("t x=1i,x=2i 0\n"), "t: x BIGINT 1, timestamp TIMESTAMP 0");
    assert_eq!(read("t Te=1i,tE=2.5 0\n"), "t: Te BIGINT 1, timestamp TIMESTAMP 0");
    assert_eq!(read("t,x=a,X=b x=1i 0\n"), "t: x SYMBOL a, timestamp TIMESTAMP 0");
    assert_eq!(read("t x=,x=1i 0\nt x=2i 0\n"), "t: x BIGINT NULL|2, timestamp TIMESTAMP 0|0");
}

/// Checks the timestamps of a table, whose column is `ts`.
#[track_caller]
fn times(lines: &str, precision: Precision, unit: TimeUnit, expected: &str) {
    let columns = [("ts".to_owned(), ColumnType::Timestamp(unit))];
    let schema = Arc::new(Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap());
    let mut host = Host { tables: vec![("t".to_owned(), schema)], now: 9_000_000 };
    let options = LineOptions { precision, ..LineOptions::new(OnBadLine::Stop) };
    let mut parser = LineParser::new(options);
    let result = parser.feed(lines.as_bytes(), &mut host);
    let actual = match result {
        Err(error) => error.to_string(),
        Ok(()) => {
            let rows = parser.take().remove(0).rows;
            let BatchValues::I64(values) = &rows.columns().last().unwrap().values else {
                panic!("a timestamp");
            };
            format!("{values:?}")
        }
    };
    assert_eq!(actual, expected, "{lines:?}");
}

#[test]
fn timestamps_count_what_the_precision_says_unless_a_suffix_does() {
    let nanos = |precision, expected| times("t x=1 7200\n", precision, TimeUnit::Nanos, expected);
    for (precision, expected) in [
        (Precision::Nanos, "[7200]"),
        (Precision::Micros, "[7200000]"),
        (Precision::Millis, "[7200000000]"),
        (Precision::Seconds, "[7200000000000]"),
        (Precision::Minutes, "[432000000000000]"),
        (Precision::Hours, "[25920000000000000]"),
    ] {
        nanos(precision, expected);
    }
    for precision in [Precision::Nanos, Precision::Seconds, Precision::Hours] {
        for (time, expected) in [("1999n", 1), ("5t", 5), ("5m", 5_000), ("-5m", -5_000)] {
            let line = format!("t x=1 {time}\n");
            times(&line, precision, TimeUnit::Micros, &format!("[{expected}]"));
        }
    }
    times("t x=1 -1\n", Precision::Nanos, TimeUnit::Micros, "[-1]");
    times(
        "t x=1 1451606400000000000\n",
        Precision::Nanos,
        TimeUnit::Nanos,
        "[1451606400000000000]",
    );
    for text in ["9223372036854775808", "9223372036854775807", "-9223372036854775808m"] {
        times(
            &format!("t x=1 {text}\n"),
            Precision::Nanos,
            TimeUnit::Nanos,
            &format!("line 1: timestamp '{text}' is out of range"),
        );
    }
    // Microseconds reach further than nanoseconds, but a count has 64 bits.
    for text in ["99999999999999999999", "9223372036854775808", "-9223372036854775809n"] {
        times(
            &format!("t x=1 {text}\n"),
            Precision::Nanos,
            TimeUnit::Micros,
            &format!("line 1: timestamp '{text}' is out of range"),
        );
    }
    times(
        "t x=1 9223372036854775807\nt x=1 -9223372036854775808n\n",
        Precision::Nanos,
        TimeUnit::Micros,
        "[9223372036854775, -9223372036854776]",
    );
    times(
        "t x=1 9223372036854775807\n",
        Precision::Hours,
        TimeUnit::Micros,
        "line 1: timestamp '9223372036854775807' is out of range",
    );
    times(
        "t x=1 1.5\n",
        Precision::Nanos,
        TimeUnit::Micros,
        "line 1: '1.5' is not a timestamp: digits, optionally followed by n, t or m",
    );
}

#[test]
fn a_clock_that_goes_backwards_is_held() {
    times(
        "t x=1\nt x=2 \nt x=3\n",
        Precision::Nanos,
        TimeUnit::Nanos,
        "[8999000, 8999000, 8999000]",
    );
}

#[test]
fn a_field_with_the_name_of_the_timestamp_is_it() {
    let micros = |lines, expected| times(lines, Precision::Nanos, TimeUnit::Micros, expected);
    for (line, expected) in [
        ("t ts=5i 1000000\n", "[5]"),
        ("t TS=5t 1000000\n", "[5]"),
        ("t x=1,ts=7n\n", "[0]"),
        ("t ts=\"1970-01-01T00:00:01Z\"\n", "[1000000]"),
        ("t ts=5i,ts=6i\n", "[5]"),
        ("t ts=,ts=6i 3000\n", "[3]"),
    ] {
        micros(line, expected);
    }
    micros(
        "t ts=1.5 3000\n",
        "line 1: number '1.5' cannot go into column 'ts' of type TIMESTAMP: \
         the types do not go together",
    );
    micros("t,ts=a x=1 0\n", "line 1: tag 'ts' has the name of the designated timestamp");
    micros(
        "t ts=9223372036854775807i\n",
        "line 1: timestamp '9223372036854775807' is out of range",
    );
}

#[test]
fn names_are_checked() {
    let read = |lines: &str| read(lines, &mut Host::default());
    let long = "n".repeat(127);
    for name in ["a\\ b", "\u{1F600}", "a.b", "a-b", "a\\=b", long.as_str()] {
        let table = read(&format!("{name} {name}=1i 0\n"));
        let plain = name.replace('\\', "");
        assert_eq!(table, format!("{plain}: {plain} BIGINT 1, timestamp TIMESTAMP 0"));
    }
    let tables = |name: &str, why: &str| {
        let shown = name.replace('\\', "");
        let expected = format!("line 1: '{shown}' cannot be the name of a table: {why}");
        assert_eq!(read(&format!("{name} x=1i 0\n")), expected);
        let expected = format!("line 1: '{shown}' cannot be the name of a column: {why}");
        assert_eq!(read(&format!("t {name}=1i 0\n")), expected);
    };
    tables("a?b", "'?' may not be in a name");
    tables("a/b", "'/' may not be in a name");
    tables(".a", "it begins or ends with a dot");
    tables("a.", "it begins or ends with a dot");
    tables(&"n".repeat(128), "it has more than 127 bytes");
    for name in ["sys.ilp_rejects", "SYS.x", "sys.a.b"] {
        let expected = format!(
            "line 1: '{name}' cannot be the name of a table: tables of the schema `sys` are \
                 the system's own"
        );
        assert_eq!(read(&format!("{name} x=1i 0\n")), expected);
    }
    for name in ["sys", "sysx.a", "a.sys.b"] {
        assert!(read(&format!("{name} sys.x=1i 0\n")).starts_with(&format!("{name}: sys.x")));
    }
    assert_eq!(read(" x=1 0\n"), "line 1: the line has no table name");
    assert_eq!(read("t =1 0\n"), "line 1: '' cannot be the name of a column: it is empty");
}

#[test]
fn lines_without_rows_count_for_line_numbers() {
    let read = |lines: &str| read(lines, &mut Host::default());
    for lines in ["", "\n", "\r\n", "# a b=\"\n", "#", " \t\r\n\n#x\n\r\n"] {
        assert_eq!(read(lines), "", "{lines:?}");
    }
    assert_eq!(
        read("\n#\n \nt x=1 0\r\nt x=\"\n\n\" 0\nt"),
        "line 5: string '\\n\\n' cannot go \
         into column 'x' of type DOUBLE: the types do not go together"
    );
    assert_eq!(read("t x=\"\n\n\" 0\nt"), "line 4: table 't' has neither tags nor fields");
    assert_eq!(read("t x=1i 0"), "t: x BIGINT 1, timestamp TIMESTAMP 0");
    assert_eq!(read("t,a=b"), read("t,a=b\n"));
    assert_eq!(read("t,a=b  0  \r\n"), "t: a SYMBOL b, timestamp TIMESTAMP 0");
}

#[test]
fn a_line_that_was_cut_is_not_taken() {
    for (lines, expected) in [
        ("t x=1i 0\nt x=12", "line 2: the connection ended within the line"),
        ("t x=1i 0\n#", ""),
        ("t x=1i 0\n \r", ""),
        ("t x=\"a\nt y=1i 0\nt", "line 1: field 'x' has a string whose quote is never closed"),
    ] {
        let mut parser = LineParser::new(LineOptions::new(OnBadLine::Skip));
        let host = &mut Host::default();
        parser.feed(lines.as_bytes(), host).unwrap();
        parser.cut(host).unwrap();
        let (errors, _) = parser.take_errors();
        let error = errors.first().map_or(String::new(), ToString::to_string);
        assert_eq!((error.as_str(), parser.rows()), (expected, 1), "{lines:?}");
    }
}

#[test]
fn bad_lines_are_counted_by_what_is_wrong_with_them() {
    let mut parser = LineParser::new(LineOptions::new(OnBadLine::Skip));
    let lines = "t x=a 0\n".repeat(500) + "t x=1i 0\n,a=b x=1i 0\n";
    parser.feed(lines.as_bytes(), &mut Host::default()).unwrap();
    assert_eq!(parser.take_kinds(), [("value", 500), ("name", 1)]);
    assert_eq!(parser.take_errors().1, 501);
    assert_eq!(parser.take_kinds(), []);
}

#[test]
fn bad_lines_name_what_is_wrong() {
    let check = |line: &str, expected: &str| {
        assert_eq!(read(line, &mut Host::default()), format!("line 1: {expected}"), "{line:?}");
    };
    for (line, expected) in [
        ("t\n", "table 't' has neither tags nor fields"),
        ("t 5\n", "table 't' has neither tags nor fields"),
        ("t,a x=1\n", "expected a tag with '=', found 'a'"),
        ("t,a=b=c x=1\n", "tag 'a' has an '=' in its value that is not escaped by a backslash"),
        ("t a,b=1\n", "expected a field with '=', found 'a'"),
        ("t a=1 5 6\n", "expected the end of the line after the timestamp, found '6'"),
        ("t a=1 b=2\n", "'b=2' is not a timestamp: digits, optionally followed by n, t or m"),
        ("t a=\"b\n", "field 'a' has a string whose quote is never closed"),
        ("t,a=b\\", "the line ends with a backslash that escapes nothing"),
        ("t a=1\0\n", "the line has a NUL byte"),
        ("t,a=\0 a=1\n", "the line has a NUL byte"),
    ] {
        check(line, expected);
    }
}

/// A text as QuestDB's clients write it: a backslash before each of these bytes.
fn escaped(text: &str, special: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, char| {
        if special.contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
        escaped
    })
}

/// The values of a line with a tag `a` and a string `s`.
fn tag_and_string(line: &str) -> [String; 2] {
    let mut parser = LineParser::new(LineOptions::new(OnBadLine::Stop));
    let mut host = Host::default();
    let fed = parser.feed(line.as_bytes(), &mut host).and_then(|()| parser.finish(&mut host));
    fed.unwrap_or_else(|error| panic!("{line:?}: {error}"));
    let rows = parser.take();
    let columns = rows[0].rows.columns();
    let value = |name: &str| {
        let column = columns.iter().find(|column| column.name == name);
        column.map_or_else(String::new, |column| shown_value(&column.values, 0))
    };
    [value("a"), value("s")]
}

/// A return was kept with the backslash before it, so that texts with CRLF became longer.
#[test]
fn texts_arrive_as_the_clients_were_given_them() {
    const TAG: &str = " ,=\n\r\\";
    const STRING: &str = "\n\r\"\\";
    const PARTS: [&str; 16] = [
        "a", "n", "r", "t", "\\", "\\", "\"", "\n", "\r", "\r\n", "\t", "\u{1}", " ", ",", "=",
        "\u{20ac}",
    ];
    let mut random = 7_u64;
    let mut index = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        usize::try_from(random >> 33).unwrap() % below
    };
    for _ in 0..4_000 {
        let mut text = || (0..index(9)).map(|_| PARTS[index(PARTS.len())]).collect::<String>();
        let (tag, string) = (text(), text());
        let tag_escaped = escaped(&tag, TAG);
        let line = format!("t,a={tag_escaped} s=\"{}\" 0\n", escaped(&string, STRING));
        assert_eq!(tag_and_string(&line), [tag.clone(), string.clone()], "QuestDB: {line:?}");
        // InfluxDB's clients do not escape line ends in strings.
        let line = format!("t,a={tag_escaped} s=\"{}\" 0\n", escaped(&string, "\"\\"));
        assert_eq!(tag_and_string(&line), [tag, string], "InfluxDB: {line:?}");
    }
}

/// The case `escaped chars in string column` of the tests that QuestDB shares with its clients.
#[test]
fn the_line_that_every_client_of_questdb_writes_is_read() {
    let line = "test_table name\\ 1\\=2=\"value 1,2=3\\\n4\\\r5\\\"6\\\\7\" 0\n";
    let found = read(line, &mut Host::default());
    assert!(found.contains("VARCHAR value 1,2=3\n4\r5\"6\\7,"), "{found:?}");
    creates("-0 -> DOUBLE -0.0; -0.0 -> DOUBLE -0.0; -0i -> BIGINT 0");
}

/// 8,192 lines of one column each in a table of 512 columns have 32 MiB of NULLs. A request of
/// 400,000 such lines took 13 GB before the log refused it.
#[test]
fn nulls_of_columns_that_lines_do_not_name_have_a_bound() {
    let sparse: String = (0..16_384).map(|row| format!("t c{}=1i {row}\n", row % 512)).collect();
    let options =
        |on_bad_line| LineOptions { padding_bytes_max: 16 << 20, ..LineOptions::new(on_bad_line) };
    let text = "line 8193: the lines before it name so few of their table's columns that the NULLs \
                of the others take more than 16777216 bytes: send fewer lines at a time";
    for cut in [sparse.len(), 1_000, 77_777] {
        let mut parser = LineParser::new(options(OnBadLine::Stop));
        let mut chunks = sparse.as_bytes().chunks(cut);
        let error = chunks.find_map(|chunk| parser.feed(chunk, &mut Host::default()).err());
        let error = error.unwrap();
        assert_eq!(
            (error.to_string().as_str(), error.reason.is_too_large()),
            (text, true),
            "parser-1"
        );
        assert_eq!(parser.rows(), 8_192, "parser-5");
    }
    // Rows that are taken make room for others.
    let mut parser = LineParser::new(options(OnBadLine::Skip));
    parser.feed(sparse.as_bytes(), &mut Host::default()).unwrap();
    assert_eq!((parser.rows(), parser.take_errors().1), (8_192, 8_192), "parser-5");
    parser.take();
    assert_eq!(parser.pending_bytes(), 0);
    parser.feed(&sparse.as_bytes()[..50_000], &mut Host::default()).unwrap();
    assert_eq!(parser.take_errors().1, 0);
}

/// Lines that all name the same columns never meet the bound, however short they are.
#[test]
fn rows_without_nulls_are_never_too_sparse() {
    for line in ["t x=1\n", "t x=1,y=2\n", "t,a=b x=1\n", "t,a=b,c=d x=1i\n", "t x=t\n"] {
        let options = LineOptions { padding_bytes_max: 0, ..LineOptions::new(OnBadLine::Stop) };
        let mut parser = LineParser::new(options);
        parser.feed(line.repeat(20_000).as_bytes(), &mut Host::default()).unwrap();
        assert_eq!(parser.take()[0].rows.rows(), 20_000, "{line}");
    }
}
