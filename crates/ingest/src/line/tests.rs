//! Rows of the table of conversions: what creates which type, what goes into which column, and one
//! value just outside.

use std::sync::Arc;

use tidegate_model::{ColumnType, PartitionUnit, Schema, TimeUnit};
use tidegate_storage::{BatchValues, RowBatch};

use super::{LineHost, LineOptions, LineParser, OnBadLine, Precision, TableRows};

/// Tables, and a clock that goes backwards.
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
    /// With a table `t` that has a column `x`.
    fn with(ty: ColumnType) -> Host {
        Host { tables: vec![("t".to_owned(), schema_with(ty))], now: 0 }
    }
}

fn schema_with(ty: ColumnType) -> Arc<Schema> {
    let ts = ("ts".to_owned(), ColumnType::Timestamp(TimeUnit::Micros));
    let columns = [ts, ("x".to_owned(), ty)];
    Arc::new(Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap())
}

/// Rows as text: columns with their types, then values; or the fault.
fn read(lines: &str, host: &mut Host) -> String {
    let mut parser = LineParser::new(LineOptions::new(OnBadLine::Stop));
    let result = parser.feed(lines.as_bytes(), host).and_then(|()| parser.finish(host));
    match result {
        Err(fault) => fault.to_string(),
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

/// What a value creates.
#[track_caller]
fn creates(value: &str, expected: &str) {
    let actual = read(&format!("t x={value} 0\n"), &mut Host::default());
    let expected = if expected.starts_with("line") {
        expected.to_owned()
    } else {
        format!("t: x {expected}, timestamp TIMESTAMP 0")
    };
    assert_eq!(actual, expected, "{value}");
}

#[test]
fn every_form_creates_its_type() {
    creates("12i", "BIGINT 12");
    creates("+12i", "BIGINT 12");
    creates("-9223372036854775808i", "BIGINT -9223372036854775808");
    creates(
        "9223372036854775808i",
        "line 1: integer '9223372036854775808' cannot go into column 'x' of type BIGINT: \
         out of range",
    );
    creates("12u", "UBIGINT 12");
    creates("18446744073709551615u", "UBIGINT 18446744073709551615");
    creates("-1u", "line 1: integer '-1' cannot go into column 'x' of type UBIGINT: out of range");
    creates("1", "DOUBLE 1.0");
    creates("1.5", "DOUBLE 1.5");
    creates("-1.5e3", "DOUBLE -1500.0");
    creates("52.3185412345", "DOUBLE 52.3185412345");
    creates("NaN", "DOUBLE NaN");
    creates("-Infinity", "DOUBLE -inf");
    creates(
        "1e400",
        "line 1: number '1e400' cannot go into column 'x' of type DOUBLE: \
         out of range",
    );
    creates("1.5d", "DECIMAL(18,3) 1500");
    creates("-1.50000d", "DECIMAL(18,3) -1500");
    creates("1.2345d", "DECIMAL(38,4) 12345");
    creates("1234567890123456d", "DECIMAL(38,3) 1234567890123456000");
    creates(
        "1e-40d",
        "line 1: decimal '1e-40' cannot go into column 'x' of type DECIMAL(38,38): \
         it would be rounded",
    );
    for (value, text) in
        [("t", "true"), ("T", "true"), ("true", "true"), ("True", "true"), ("TRUE", "true")]
    {
        creates(value, &format!("BOOLEAN {text}"));
    }
    for value in ["f", "F", "false", "False", "FALSE"] {
        creates(value, "BOOLEAN false");
    }
    creates("\"text\"", "VARCHAR text");
    creates("\"\"", "VARCHAR ");
    creates("\"a\\\"b\\\\c\\\nd\ne\\f,= \"", "VARCHAR a\"b\\c\nd\ne\\f,= ");
    creates("5n", "TIMESTAMP_NS 5");
    creates("-5t", "TIMESTAMP -5");
    creates("5m", "TIMESTAMP 5000");
    creates(
        "0x1fi",
        "line 1: hexadecimal number '1f' creates no column 'x': \
         integers of 256 bits are not supported",
    );
    creates(
        "=\u{10}abcdefgh",
        "line 1: field 'x' has a binary value, \
         which this protocol version does not have",
    );
}

#[test]
fn what_has_no_form_is_refused() {
    for value in [
        "x", "tr", "yes", "1i2", "i", "u", "n", "1.5i", "1e3i", "--1", "1..2", "0x", "0xgi", "1_0",
        "1,5", "'a'", "\"a\"b", "\t1", "1\t", "+1n", "1 ,5", "0b1", "\u{661}",
    ] {
        let actual = read(&format!("t x={value} 0\n"), &mut Host::default());
        let is_refused =
            actual.starts_with("line 1: field 'x' has value '") || actual.starts_with("line 1: '");
        assert!(is_refused, "{value:?}: {actual}");
    }
    creates("21,5", "line 1: field 'x' has value '21,5' which is no number, boolean or string");
}

/// What goes into a column that is there, as its table has it then.
#[track_caller]
fn goes(value: &str, ty: ColumnType, expected: &str) {
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

const DECIMAL: ColumnType = ColumnType::Decimal { precision: 5, scale: 2 };
const MICROS: ColumnType = ColumnType::Timestamp(TimeUnit::Micros);
const NANOS: ColumnType = ColumnType::Timestamp(TimeUnit::Nanos);

#[test]
fn tags_go_into_texts_and_what_they_spell() {
    goes("tag a", ColumnType::Symbol, "a");
    goes("tag a", ColumnType::Varchar, "a");
    goes("tag 10.0.0.1", ColumnType::Ipv4, "167772161");
    goes("tag 10.0.0.256", ColumnType::Ipv4, "! not an IPv4 address");
    let uuid = "00112233-4455-6677-8899-aabbccddeeff";
    goes(&format!("tag {uuid}"), ColumnType::Uuid, "00112233445566778899aabbccddeeff");
    goes("tag x", ColumnType::Uuid, "! not a UUID");
    for ty in [ColumnType::Int64, ColumnType::Float64, ColumnType::Boolean, DECIMAL, MICROS] {
        goes("tag 1", ty, "! the types do not go together");
    }
}

#[test]
fn integers_go_where_they_are_in_range() {
    for suffix in ["i", "u"] {
        let goes =
            |value: &str, ty, expected: &str| goes(&format!("{value}{suffix}"), ty, expected);
        goes("127", ColumnType::Int8, "127");
        goes("128", ColumnType::Int8, "! out of range");
        goes("-129", ColumnType::Int8, "! out of range");
        goes("32767", ColumnType::Int16, "32767");
        goes("32768", ColumnType::Int16, "! out of range");
        goes("2147483647", ColumnType::Int32, "2147483647");
        goes("2147483648", ColumnType::Int32, "! out of range");
        goes("9223372036854775807", ColumnType::Int64, "9223372036854775807");
        goes("9223372036854775808", ColumnType::Int64, "! out of range");
        goes("255", ColumnType::UInt8, "255");
        goes("256", ColumnType::UInt8, "! out of range");
        goes("-1", ColumnType::UInt8, "! out of range");
        goes("65536", ColumnType::UInt16, "! out of range");
        goes("4294967295", ColumnType::UInt32, "4294967295");
        goes("4294967296", ColumnType::UInt32, "! out of range");
        goes("18446744073709551615", ColumnType::UInt64, "18446744073709551615");
        goes("18446744073709551616", ColumnType::UInt64, "! out of range");
        goes("16777216", ColumnType::Float32, "16777216.0");
        goes("16777217", ColumnType::Float32, "! it would be rounded");
        goes("9007199254740992", ColumnType::Float64, "9007199254740992.0");
        goes("9007199254740993", ColumnType::Float64, "! it would be rounded");
        goes("999", DECIMAL, "99900");
        goes("1000", DECIMAL, "! out of range");
        goes("5", MICROS, "5");
        goes("5", NANOS, "5");
        goes("9223372036854775808", NANOS, "! date or time out of range");
        goes("007", ColumnType::Symbol, "007");
        goes("12", ColumnType::Varchar, "12");
        for ty in [ColumnType::Boolean, ColumnType::Date, ColumnType::Uuid, ColumnType::Binary] {
            goes("1", ty, "! the types do not go together");
        }
    }
}

#[test]
fn floats_go_into_integers_only_if_whole() {
    goes("1.1", ColumnType::Float32, "1.1");
    goes("1e300", ColumnType::Float32, "! out of range");
    goes("1e300", ColumnType::Float64, "1e300");
    goes("1.005", DECIMAL, "101");
    goes("-1.005", DECIMAL, "-101");
    goes("999.995", DECIMAL, "! out of range");
    goes("NaN", DECIMAL, "! it is not finite");
    goes("1.50", ColumnType::Varchar, "1.50");
    goes("1e3", ColumnType::Symbol, "1e3");
    goes("1e2", ColumnType::Int8, "100");
    goes("100.0", ColumnType::UInt8, "100");
    goes("0.5e1", ColumnType::Int64, "5");
    goes("9007199254740993", ColumnType::Int64, "9007199254740993");
    goes("1.5", ColumnType::Int32, "! it is not whole");
    goes("1e-1", ColumnType::Int32, "! it is not whole");
    goes("128", ColumnType::Int8, "! out of range");
    goes("Infinity", ColumnType::Int64, "! it is not finite");
    for ty in [ColumnType::Boolean, MICROS, ColumnType::Date, ColumnType::Uuid, ColumnType::Ipv4] {
        goes("1", ty, "! the types do not go together");
    }
}

#[test]
fn decimals_go_into_numbers_with_a_point() {
    goes("1.25d", DECIMAL, "125");
    goes("1.2500d", DECIMAL, "125");
    goes("1.255d", DECIMAL, "! it would be rounded");
    goes("1000d", DECIMAL, "! out of range");
    goes("1.5d", ColumnType::Float32, "1.5");
    goes("1.5d", ColumnType::Float64, "1.5");
    for ty in [ColumnType::Int64, ColumnType::Varchar, ColumnType::Boolean] {
        goes("1d", ty, "! the types do not go together");
    }
}

#[test]
fn booleans_go_into_numbers_as_zero_and_one() {
    for ty in [ColumnType::Int8, ColumnType::Int64, ColumnType::UInt16] {
        goes("t", ty, "1");
        goes("F", ty, "0");
    }
    goes("t", ColumnType::Float32, "1.0");
    goes("f", ColumnType::Float64, "0.0");
    goes("T", ColumnType::Symbol, "true");
    goes("f", ColumnType::Varchar, "false");
    for ty in [DECIMAL, MICROS, ColumnType::Date, ColumnType::Uuid, ColumnType::Binary] {
        goes("t", ty, "! the types do not go together");
    }
}

#[test]
fn strings_go_into_what_they_spell() {
    goes("\"a b\"", ColumnType::Varchar, "a b");
    goes("\"a b\"", ColumnType::Symbol, "a b");
    goes("\"10.0.0.1\"", ColumnType::Ipv4, "167772161");
    goes("\"10.0.0\"", ColumnType::Ipv4, "! not an IPv4 address");
    goes("\"x\"", ColumnType::Uuid, "! not a UUID");
    goes("\"1.25\"", DECIMAL, "125");
    goes("\"1.255\"", DECIMAL, "! it would be rounded");
    goes("\"x\"", DECIMAL, "! not a decimal number");
    goes("\"1970-01-01T00:00:01.0000019Z\"", MICROS, "1000001");
    goes("\"1970-01-01T00:00:01.0000019Z\"", NANOS, "1000001900");
    goes("\"1970-02-30\"", MICROS, "! date or time out of range");
    goes("\"1970-01-02\"", ColumnType::Date, "1");
    goes("\"1970-01-02T01:00:00\"", ColumnType::Date, "! a date with a time of day");
    goes("\"\\\\x6162\"", ColumnType::Binary, "ab");
    goes("\"6162\"", ColumnType::Binary, "! not binary");
    for ty in [ColumnType::Int64, ColumnType::Float64, ColumnType::Boolean] {
        goes("\"1\"", ty, "! the types do not go together");
    }
}

#[test]
fn timestamps_are_scaled_to_their_column() {
    goes("1999n", MICROS, "1");
    goes("-1n", MICROS, "-1");
    goes("1t", NANOS, "1000");
    goes("1m", NANOS, "1000000");
    goes("9223372036854775807m", NANOS, "! date or time out of range");
    goes("-1m", ColumnType::Date, "-1");
    goes("86400000m", ColumnType::Date, "1");
    goes("5t", ColumnType::Int64, "5");
    for ty in [ColumnType::Int32, ColumnType::Float64, ColumnType::Varchar] {
        goes("5t", ty, "! the types do not go together");
    }
    goes("0x616i", ColumnType::Binary, "\u{6}\u{16}");
    goes("0x61i", ColumnType::Varchar, "! the types do not go together");
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

/// The timestamps of a table, `ts` by name.
#[track_caller]
fn times(lines: &str, precision: Precision, unit: TimeUnit, expected: &str) {
    let columns = [("ts".to_owned(), ColumnType::Timestamp(unit))];
    let schema = Arc::new(Schema::new(&columns, Some("ts"), PartitionUnit::Day).unwrap());
    let mut host = Host { tables: vec![("t".to_owned(), schema)], now: 9_000_000 };
    let options = LineOptions { precision, ..LineOptions::new(OnBadLine::Stop) };
    let mut parser = LineParser::new(options);
    let result = parser.feed(lines.as_bytes(), &mut host);
    let actual = match result {
        Err(fault) => fault.to_string(),
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
    nanos(Precision::Nanos, "[7200]");
    nanos(Precision::Micros, "[7200000]");
    nanos(Precision::Millis, "[7200000000]");
    nanos(Precision::Seconds, "[7200000000000]");
    nanos(Precision::Minutes, "[432000000000000]");
    nanos(Precision::Hours, "[25920000000000000]");
    for precision in [Precision::Nanos, Precision::Seconds, Precision::Hours] {
        let micros = |lines, expected| times(lines, precision, TimeUnit::Micros, expected);
        micros("t x=1 1999n\n", "[1]");
        micros("t x=1 5t\n", "[5]");
        micros("t x=1 5m\n", "[5000]");
        micros("t x=1 -5m\n", "[-5000]");
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
        "line 1: '1.5' is no timestamp: digits, and n, t or m behind them at most, are one",
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
    micros("t ts=5i 1000000\n", "[5]");
    micros("t TS=5t 1000000\n", "[5]");
    micros("t x=1,ts=7n\n", "[0]");
    micros("t ts=\"1970-01-01T00:00:01Z\"\n", "[1000000]");
    micros("t ts=5i,ts=6i\n", "[5]");
    micros("t ts=,ts=6i 3000\n", "[3]");
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
    assert_eq!(read(" x=1 0\n"), "line 1: there is no table name");
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
    assert_eq!(read("t x=\"\n\n\" 0\nt"), "line 4: table 't' has neither tags nor fields in it");
    assert_eq!(read("t x=1i 0"), "t: x BIGINT 1, timestamp TIMESTAMP 0");
    assert_eq!(read("t,a=b"), read("t,a=b\n"));
    assert_eq!(read("t,a=b  0  \r\n"), "t: a SYMBOL b, timestamp TIMESTAMP 0");
}

#[test]
fn bad_lines_name_what_is_wrong() {
    let check = |line: &str, expected: &str| {
        assert_eq!(read(line, &mut Host::default()), format!("line 1: {expected}"), "{line:?}");
    };
    check("t\n", "table 't' has neither tags nor fields in it");
    check("t 5\n", "table 't' has neither tags nor fields in it");
    check("t,a x=1\n", "'a' stands where a tag is wanted, but has no '='");
    check("t,a=b=c x=1\n", "tag 'a' has an '=' in its value, which wants a backslash before it");
    check("t a,b=1\n", "'a' stands where a field is wanted, but has no '='");
    check("t a=1 5 6\n", "'6' stands behind the timestamp, where the line should end");
    check(
        "t a=1 b=2\n",
        "'b=2' is no timestamp: digits, and n, t or m behind them at most, \
         are one",
    );
    check("t a=\"b\n", "field 'a' has a string whose quote is never closed");
    check("t,a=b\\", "a backslash stands at the end, with nothing behind it");
    check("t a=1\0\n", "the line has a NUL byte");
    check("t,a=\0 a=1\n", "the line has a NUL byte");
}
