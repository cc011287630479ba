//! Samples and the descriptions that are detected.

use tidegate_model::{PartitionUnit, TimeUnit};

use super::*;

const OPTIONS: SniffOptions<'_> = SniffOptions {
    delimiter: None,
    quote: Quote::Standard,
    header: Header::Auto,
    timestamp_format: None,
    null_text: None,
    expected: None,
    columns: None,
    designated: None,
    symbols: &[],
    hints: &[],
    skip: &[],
    like: None,
    first_line: FirstLine::Unknown,
    blank_is_record: false,
    ragged_is_row: false,
    head_is_whole: true,
};

/// The result as text: `delimiter header name:TYPE(format) ...`, with the notes behind it, or the
/// error.
fn shown(result: Result<Sniffed, SniffError>) -> String {
    let sniffed = match result {
        Ok(sniffed) => sniffed,
        Err(error) => return format!("error: {error}"),
    };
    let columns = sniffed.names.iter().zip(&sniffed.types).zip(&sniffed.formats);
    let columns = columns.map(|((name, ty), format)| match format {
        Some(format) => format!(" {name}:{}({format})", ty.sql()),
        None => format!(" {name}:{}", ty.sql()),
    });
    let delimiter = char::from(sniffed.dialect.delimiter).escape_default();
    let header = if sniffed.dialect.has_header { "header" } else { "rows" };
    let notes: String = sniffed.notes.iter().map(|note| format!(" ({note})")).collect();
    format!("{delimiter} {header}{}{notes}", columns.collect::<String>())
}

#[track_caller]
fn check(head: &str, expected: &str) {
    check_with(head, &OPTIONS, expected);
}

#[track_caller]
fn check_with(head: &str, options: &SniffOptions<'_>, expected: &str) {
    assert_eq!(shown(sniff(head.as_bytes(), &[], options)), expected, "{head:?}");
}

/// Checks the type of one column with these cells.
#[track_caller]
fn check_type(cells: &[&str], expected: &str) {
    let rows: String = cells.iter().map(|cell| format!("\"\",{cell},x\n")).collect();
    let actual = shown(sniff(rows.as_bytes(), &[], &OPTIONS));
    let actual = actual.strip_prefix(", rows f0:VARCHAR f1:");
    assert_eq!(actual, Some(format!("{expected} f2:VARCHAR").as_str()), "{cells:?}");
}

fn schema(columns: &[(&str, ColumnType)], designated: Option<&str>) -> Schema {
    let columns: Vec<(String, ColumnType)> =
        columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect();
    Schema::new(&columns, designated, PartitionUnit::None).expect("a schema")
}

#[test]
fn delimiters_are_found() {
    check("a,b\n1,2\n", ", header a:BIGINT b:BIGINT");
    check("a;b\n1;2\n", "; header a:BIGINT b:BIGINT");
    check("a\tb\n1\t2\n", "\\t header a:BIGINT b:BIGINT");
    check("a|b\n1|2\n", "| header a:BIGINT b:BIGINT");
    check("1,5;2,5\n3,5;4,5\n", "; rows f0:VARCHAR f1:VARCHAR");
    check("1,5\n3,5\n", ", rows f0:BIGINT f1:BIGINT");
    check("\"a;b\",1\n\"c;d\",2\n", ", rows f0:VARCHAR f1:BIGINT");
    check("a;b;\"x,y,z\"\nc;d;\"x,y,z\"\n", "; rows f0:VARCHAR f1:VARCHAR f2:VARCHAR");
}

#[test]
fn a_colon_is_part_of_a_text_unless_it_is_given() {
    for lines in ["00:1a:2b\n00:1b:3c\n", "10:00:00\n11:00:00\n", "a:b\n1:2\n", "::1\n::2\n"] {
        let found = sniff(lines.as_bytes(), &[], &OPTIONS).expect("sniffed");
        assert_ne!(found.dialect.delimiter, b':', "dialect-3: {lines:?}");
    }
    let given = SniffOptions { delimiter: Some(b':'), ..OPTIONS };
    check_with("a:b\n1:2\n", &given, ": header a:BIGINT b:BIGINT");
}

// A title with a bar in it made one column of three, and the name of a browser split a file at
// colons.
#[test]
fn texts_with_delimiters_in_them_do_not_hide_a_regular_one() {
    let rows = |header: &str, row: &dyn Fn(usize) -> String| {
        let rows = (0..300).map(|at| row(at) + "\n").collect::<String>();
        format!("{header}\n{rows}")
    };
    let title = |at: usize| if at.is_multiple_of(3) { "Shop" } else { "Home | ACME" };
    let pages = rows("id,url,title", &|at| format!("{at},https://acme.org/p/{at},{}", title(at)));
    check(&pages, ", header id:BIGINT url:VARCHAR title:VARCHAR");
    let agents = |delimiter: &str| {
        rows(&format!("ts{delimiter}ua"), &|at| {
            let second = at % 60;
            format!("2024-01-01 10:00:{second:02}{delimiter}Mozilla/5.0 (X11; Linux x86_64)")
        })
    };
    check(&agents(","), ", header ts:TIMESTAMP(iso) ua:VARCHAR");
    check(&agents("\t"), "\\t header ts:TIMESTAMP(iso) ua:VARCHAR");
    let titles = rows("url\ttitle", &|at| {
        format!("https://a.org/{at}\t{}", if at.is_multiple_of(20) { "One, two" } else { "One" })
    });
    let found = sniff(titles.as_bytes(), &[], &OPTIONS).expect("sniffed");
    assert_eq!((found.dialect.delimiter, found.names.join(" ")), (b'\t', "url title".to_owned()));
    // One bad record is no reason to prefer another delimiter.
    check(&(pages + "1,2\n"), ", header id:BIGINT url:VARCHAR title:VARCHAR");
}

#[test]
fn quoted_files_are_read_with_the_delimiter_of_their_writer() {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let words = ["Home", "a|b", "x, y", "(X11; Linux)", "10:05", "1,5", "https://a.b/c", "7", ""];
    for delimiter in [',', ';', '\t', '|'] {
        for _ in 0..100 {
            let (columns, rows) = (2 + random(5), 12 + random(40));
            let mut text = String::new();
            for _ in 0..rows {
                let cells = (0..columns).map(|_| {
                    let cell = words[random(words.len())];
                    if cell.contains(delimiter) { format!("\"{cell}\"") } else { cell.to_owned() }
                });
                text += &cells.collect::<Vec<_>>().join(&delimiter.to_string());
                text += "\n";
            }
            let found = sniff(text.as_bytes(), &[], &OPTIONS).expect("sniffed");
            let found = (char::from(found.dialect.delimiter), found.names.len());
            assert_eq!(found, (delimiter, columns), "dialect-1:\n{text}");
        }
    }
}

#[test]
fn one_column_needs_no_delimiter() {
    check("v\n1\n2\n", "\\u{1f} header v:BIGINT");
    check("2024-01-15T10:00:00\n2024-01-15T10:00:01\n", "\\u{1f} rows f0:TIMESTAMP(iso)");
    check("https://a.b/c\nhttps://d.e/f\n", "\\u{1f} rows f0:VARCHAR");
    check("t\n2024-01-15 10:00:00\n", "\\u{1f} header t:TIMESTAMP(iso)");
    // The delimiter is a byte that no text contains, since a comma may occur behind the sample.
    check("a,b;c\td|e:f\ng\nh\ni\nj\nk\n", "\\u{1f} rows f0:VARCHAR");
}

#[test]
fn a_broken_row_or_a_time_does_not_change_the_delimiter() {
    let mut text = "ts,v\n".to_owned();
    for row in 0..50 {
        text += &format!("2024-01-15 10:00:{row:02},{row}\n");
    }
    text += "2024-01-15 10:00:00,1,2,3\n";
    check(&text, ", header ts:TIMESTAMP(iso) v:BIGINT");
}

#[test]
fn a_header_has_no_values_where_the_rows_have_some() {
    check("a,b\nx,1\n", ", header a:VARCHAR b:BIGINT");
    let note = |names: &str| {
        format!(
            " (the first record ({names}) is read as a row, as nothing shows that it is a header: \
             --header makes it one)"
        )
    };
    let rows = ", rows f0:VARCHAR f1:VARCHAR";
    check("a,b\nx,y\n", &(rows.to_owned() + &note("`a`, `b`")));
    check("a,2\nx,1\n", ", rows f0:VARCHAR f1:BIGINT");
    check("a,b\n", ", header a:VARCHAR b:VARCHAR");
    check("a,2\n", ", rows f0:VARCHAR f1:BIGINT");
    check("t,no\n1,2\n", ", header t:BIGINT no:BIGINT");
    check("t,no\nt,yes\n", &(rows.to_owned() + &note("`t`, `no`")));
    check("a,b\nTrue,FALSE\n", ", header a:BOOLEAN b:BOOLEAN");
    check("id,ok\nx,true\n", ", header id:VARCHAR ok:BOOLEAN");
    check(" a , \"b\",,\n1,2,3,4\n", ", header a:BIGINT \"b\":BIGINT f2:BIGINT f3:BIGINT");
    check("2024-01-15,b\n2024-01-16,c\n", ", rows f0:DATE(iso) f1:VARCHAR");
    check("", ", rows");
    check("\n\n", ", rows");
    let present = SniffOptions { header: Header::Present, ..OPTIONS };
    check_with("a,b\nx,y\n", &present, ", header a:VARCHAR b:VARCHAR");
    check_with("a,b\n", &present, ", header a:VARCHAR b:VARCHAR");
    let absent = SniffOptions { header: Header::Absent, ..OPTIONS };
    check_with("a,b\n1,2\n", &absent, ", rows f0:VARCHAR f1:VARCHAR");
}

// The first row of a file without a header was dropped, without a note, if its cells were texts
// that no type has, but no names either.
#[test]
fn a_value_in_an_unusual_form_makes_no_header() {
    let texts = [
        "inf",
        "-inf",
        "Infinity",
        "NaN",
        "-nan(ind)",
        "1.#QNAN",
        "\\N",
        "NULL",
        "(null)",
        "<NA>",
        ".",
        "--",
        "*",
        "#DIV/0!",
        "#VALUE!",
        "#N/A",
        "$5",
        "5%",
        "+ 5",
        "\u{20ac}5",
        "\"1,000\"",
        "1_000",
        "1e400",
        "0x10",
        "12:30",
        "0000-00-00",
        ">5",
    ];
    for text in texts {
        for rows in [format!("{text},a\n1,b\n2,c\n"), format!("ann,{text}\nbob,1.5\ncid,2\n")] {
            let found = sniff(rows.as_bytes(), &[], &OPTIONS).expect("sniffed");
            assert!(!found.dialect.has_header, "{rows:?}: {:?}", found.notes);
        }
    }
    for rows in ["yes,a\ntrue,b\nfalse,c\n", "t,a\ntrue,b\nfalse,c\n", "\\N\t\\N\n1\t2.5\n2\t3\n"] {
        let found = sniff(rows.as_bytes(), &[], &OPTIONS).expect("sniffed");
        assert!(!found.dialect.has_header, "{rows:?}: {:?}", found.notes);
    }
    let absent = SniffOptions { null_text: Some("absent"), ..OPTIONS };
    check_with("absent,a\n1,b\n2,c\n", &absent, ", rows f0:BIGINT f1:VARCHAR");
    check_with("\"absent\",a\n1,b\n2,c\n", &absent, ", header absent:BIGINT a:VARCHAR");
    // Units and other punctuation in names, and a name that begins with a digit.
    check("id,Temp [C]\n1,2\n", ", header id:BIGINT Temp [C]:BIGINT");
    check("@ts,$price\n1,2\n", ", header @ts:BIGINT $price:BIGINT");
    check(
        "id,24h\n1,2\n",
        ", header id:BIGINT 24h:BIGINT (the first record (`id`, `24h`) is read as the header, as \
         it has a name above values of another type than text: --no-header makes it a row)",
    );
}

// Decimal commas make all columns text: the header of such a file was a row without a note if its
// names had units or other punctuation in them.
#[test]
fn a_row_that_may_be_a_header_with_units_is_noted() {
    let rows = "01.02.2024 10:00;21,5;Koeln\n28.02.2024 11:00;-0,75;Bonn\n";
    let is_noted = |text: &str| {
        let found = sniff(text.as_bytes(), &[], &OPTIONS).expect("sniffed");
        assert!(!found.dialect.has_header, "{text}");
        found.notes.iter().any(|note| note.contains("--header makes it one"))
    };
    for header in ["Temp (\u{b0}C)", "rel. Feuchte %", "Wert #1", "d'eau", "kWh/m\u{b2}", ""] {
        assert!(is_noted(&format!("Datum;{header};Ort\n{rows}")), "{header}");
    }
    assert!(is_noted(",,c\n1,2.5,x\n"));
    assert!(!is_noted("Good morning!,Rome\nHow are you?,Oslo\n"));
    assert!(!is_noted("1. item,Rome\n2. item,Oslo\n"));
}

// The error counted the columns only up to the limit.
#[test]
fn a_header_with_too_many_columns_is_counted() {
    let record = |prefix: &str| {
        let cells = (0..10_000).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
        cells.join(",") + "\n"
    };
    check(
        &(record("c") + &record("")),
        "error: the header has 10000 columns, and a table at most 4096",
    );
}

#[test]
fn names_must_be_distinct_and_text() {
    check("a,A\n1,2\n", "error: column `A` is there twice (names are compared without case)");
    let actual = shown(sniff(b"a,\xFF\n1,2\n", &[], &OPTIONS));
    assert_eq!(actual, "error: the name of column 1 in the header is not UTF-8");
}

#[test]
fn types_of_columns() {
    check_type(&["1", "-2", ""], "BIGINT");
    check_type(&["1", "+2"], "VARCHAR");
    check_type(&["1", "2.5"], "DOUBLE");
    check_type(&["1e3", "NaN"], "DOUBLE");
    check_type(&["true", "FALSE"], "BOOLEAN");
    check_type(&["t", "f"], "VARCHAR");
    check_type(&["yes", "no"], "VARCHAR");
    check_type(&["NaN", "inf"], "VARCHAR");
    check_type(&["9007199254740993", "0.5"], "VARCHAR");
    check_type(&["9007199254740992", "0.5"], "DOUBLE");
    check_type(&["-0", "1"], "DOUBLE");
    check_type(&["1", "0"], "BIGINT");
    check_type(&["true", "1"], "VARCHAR");
    check_type(&["f", "m"], "VARCHAR");
    check_type(&["007", "1"], "VARCHAR");
    check_type(&["00.5", "1.5"], "VARCHAR");
    check_type(&["0", "0.5", "-0.25"], "DOUBLE");
    check_type(&["9223372036854775807"], "BIGINT");
    check_type(&["9223372036854775808"], "VARCHAR");
    check_type(&["", ""], "VARCHAR");
    check_type(&["1", "x"], "VARCHAR");
    check_type(&["01234567-89ab-cdef-0011-223344556677"], "UUID");
    check_type(&["0123456789abcdef0011223344556677"], "VARCHAR");
    check_type(&["192.168.0.1"], "VARCHAR");
    check_type(&[" 1", "2 "], "BIGINT");
}

#[test]
fn types_of_times() {
    check_type(&["2024-01-15", "2024-01-16"], "DATE(iso)");
    check_type(&["2024-01-15", "2024-01-16 00:00:00"], "TIMESTAMP(iso)");
    check_type(&["2024-01-15 00:00:00"], "TIMESTAMP(iso)");
    check_type(&["2024-01-15T10:00:00.123456"], "TIMESTAMP(iso)");
    check_type(
        &["2024-01-15T10:00:00.123456", "2024-01-15T10:00:00.1234567Z"],
        "TIMESTAMP_NS(iso)",
    );
    check_type(&["2024-02-30"], "VARCHAR");
    check_type(&["2024-01-15", "n/a"], "VARCHAR");
    check_type(&["31/12/2024", "01/02/2024"], "DATE(dd/MM/yyyy)");
    check_type(&["12/31/2024", "01/02/2024"], "DATE(MM/dd/yyyy)");
    check_type(&["12/31/2024", "31/12/2024"], "VARCHAR");
    check_type(&["12/31/2024 10:00"], "TIMESTAMP(MM/dd/yyyy)");
    check_type(&["1705312800000"], "BIGINT");
    let note = "(column `f0` could be month first; read as day first)";
    check("01/02/2024,1\n", &format!(", rows f0:DATE(dd/MM/yyyy) f1:BIGINT {note}"));
}

#[test]
fn the_designated_timestamp_is_what_its_format_says() {
    let designated = SniffOptions { designated: Some("TS"), ..OPTIONS };
    check_with("ts,v\n2024-01-15,1\n", &designated, ", header ts:TIMESTAMP(iso) v:BIGINT");
    check_with("ts,v\n1705312800,1\n", &designated, ", header ts:BIGINT v:BIGINT");
    // For the designated timestamp most values decide, for other columns all.
    check_with(
        "ts,v\n2024-01-15,2024-01-15\nx,x\n15/01/2024,2024-01-15\n2024-01-15 10:00,\n\
         2024-01-15,\n",
        &designated,
        ", header ts:TIMESTAMP(iso) v:VARCHAR",
    );
    check_with(
        "ts,v\n13/01/2024,1\n14/01/2024,1\n01/14/2024,1\n",
        &designated,
        ", header ts:TIMESTAMP(dd/MM/yyyy) v:BIGINT",
    );
    check_with(
        "ts,v\n01/02/2024,1\n02/03/2024,1\nx,1\n",
        &designated,
        ", header ts:TIMESTAMP(dd/MM/yyyy) v:BIGINT \
         (column `ts` could be month first; read as day first)",
    );
    check_with(
        "ts,v\n2024-01-15,1\nx,1\n",
        &designated,
        "error: most values of the designated timestamp `ts` are not timestamps",
    );
    check_with("ts,v\n", &designated, ", header ts:TIMESTAMP(iso) v:VARCHAR");
    check_with(
        "a,v\n1,2\n",
        &designated,
        "error: no column is called `TS`, which is to be the designated timestamp",
    );
    let with = |text: &str| TimestampFormat::parse(text).expect("a format");
    for (format, expected) in [
        ("epoch_s", ", header ts:TIMESTAMP(epoch_s) v:BIGINT"),
        ("epoch_ns", ", header ts:TIMESTAMP_NS(epoch_ns) v:BIGINT"),
    ] {
        let format = with(format);
        let options = SniffOptions { timestamp_format: Some(&format), ..designated };
        check_with("ts,v\n1705312800,1\n", &options, expected);
    }
    let epoch = with("epoch_s");
    let options = SniffOptions { timestamp_format: Some(&epoch), ..designated };
    check_with("ts,v\n1,007\n", &options, ", header ts:TIMESTAMP(epoch_s) v:VARCHAR");
    let pattern = with("dd.MM.yyyy");
    let options = SniffOptions { timestamp_format: Some(&pattern), ..designated };
    check_with(
        "ts,day,iso,n\n15.01.2024,16.01.2024,2024-01-15,1\n",
        &options,
        ", header ts:TIMESTAMP(dd.MM.yyyy) day:DATE(dd.MM.yyyy) iso:DATE(iso) n:BIGINT",
    );
    let pattern = with("dd.MM.yyyy HH:mm");
    let options = SniffOptions { timestamp_format: Some(&pattern), ..OPTIONS };
    check_with(
        "ts,n\n15.01.2024 10:00,1\n",
        &options,
        ", header ts:TIMESTAMP(dd.MM.yyyy HH:mm) n:BIGINT",
    );
}

#[test]
fn nulls_say_nothing() {
    let options = SniffOptions { null_text: Some("\\N"), ..OPTIONS };
    check_with("a,b\n1,\\N\n\\N,2.5\n", &options, ", header a:BIGINT b:DOUBLE");
    check(
        "a,b\n1,\\N\n\\N,2.5\n",
        ", rows f0:VARCHAR f1:VARCHAR (the first record (`a`, `b`) is read as a row, as nothing \
         shows that it is a header: --header makes it one)",
    );
    check("a,b\n1,\"\"\n", ", header a:BIGINT b:VARCHAR");
}

#[test]
fn a_table_knows_its_types() {
    let schema = schema(
        &[
            ("ts", ColumnType::Timestamp(TimeUnit::Nanos)),
            ("d", ColumnType::Date),
            ("s", ColumnType::Symbol),
        ],
        Some("ts"),
    );
    let options = SniffOptions { expected: Some(&schema), ..OPTIONS };
    let expected = "ts:TIMESTAMP_NS(iso) d:DATE(MM/dd/yyyy) s:SYMBOL";
    check_with("ts,d,s\n2024-01-15,12/31/2024,1\n", &options, &format!(", header {expected}"));
    check_with("TS,D,S\n", &options, ", header TS:TIMESTAMP_NS(iso) D:DATE(iso) S:SYMBOL");
    check_with("s,d\nx,2024-01-15\n", &options, ", header s:SYMBOL d:DATE(iso)");
    check_with(
        "2024-01-15,12/31/2024,1\n2024-01-15,99/99/9999,1\n",
        &options,
        ", rows f0:TIMESTAMP_NS(iso) f1:DATE(MM/dd/yyyy) f2:SYMBOL",
    );
    let epoch = TimestampFormat::parse("epoch_ms").expect("a format");
    let options = SniffOptions { timestamp_format: Some(&epoch), ..options };
    check_with(
        "1705312800000,2024-01-15,1\n",
        &options,
        ", rows f0:TIMESTAMP_NS(epoch_ms) f1:DATE(iso) f2:SYMBOL",
    );
}

#[test]
fn columns_go_by_name_or_by_position_or_nowhere() {
    let schema = schema(
        &[("a", ColumnType::Int64), ("b", ColumnType::Int64), ("c", ColumnType::Int64)],
        None,
    );
    let targets = |head: &str, header: Header, columns: Option<&[String]>| {
        let options = SniffOptions { expected: Some(&schema), header, columns, ..OPTIONS };
        let map = sniff(head.as_bytes(), &[], &options)
            .and_then(|sniffed| map_columns(&sniffed, &schema, &options));
        match map {
            Ok(map) => {
                let targets = map.targets.iter().map(|target| target.map_or(-1, |t| t as i64));
                format!("{:?} {}", targets.collect::<Vec<_>>(), map.notes.len())
            }
            Err(error) => format!("{error}"),
        }
    };
    let auto = |head: &str| targets(head, Header::Auto, None);
    assert_eq!(auto("C,a\n1,2\n"), "[2, 0] 0");
    assert_eq!(auto("1,2\n"), "[0, 1] 0");
    // Names that the table does not have may be values: the record is a row.
    assert_eq!(auto("x,y,z\n1,2,3\n"), "[0, 1, 2] 0");
    assert_eq!(targets("x,y,z\n1,2,3\n", Header::Present, None), "[0, 1, 2] 1");
    assert_eq!(auto("a,b,zz\n1,2,3\n"), "the table has no column `zz`");
    assert_eq!(auto("1,2,3,4\n"), "the file has 4 columns and the table 3");
    assert_eq!(
        auto("a,b,a\n1,2,3\n"),
        "column `a` is there twice (names are compared without case)"
    );
    let matched = |head: &str| targets(head, Header::Match, None);
    assert_eq!(matched("a,B,c\n1,2,3\n"), "[0, 1, 2] 0");
    assert_eq!(matched("a,c,b\n"), "column 1 is `c` in the header and `b` in the table");
    assert_eq!(matched("a,b\n"), "column 2 is `` in the header and `c` in the table");
    let listed = |head: &str, columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
        targets(head, Header::Auto, Some(&columns))
    };
    assert_eq!(listed("1,2\n", &["c", "A"]), "[2, 0] 0");
    assert_eq!(listed("1,2\n", &["c"]), "the file has 2 columns and the table 1");
    assert_eq!(listed("1\n", &["zz"]), "the table has no column `zz`");
    assert_eq!(
        listed("1,2\n", &["c", "C"]),
        "column `C` is there twice (names are compared without case)"
    );
}

#[test]
fn line_ends_are_cr_only_without_lf() {
    let line_end = |head: &[u8], windows: &[&[u8]]| {
        sniff(head, windows, &OPTIONS).expect("sniffed").dialect.line_end
    };
    assert_eq!(line_end(b"a,b\r1,2\r", &[]), LineEnd::Cr);
    assert_eq!(line_end(b"a,b\r\n1,2\r\n", &[]), LineEnd::LfOrCrlf);
    assert_eq!(line_end(b"a,b\r1,2\r", &[b"3,4\n"]), LineEnd::Cr);
    assert_eq!(line_end(b"a,\"b\nc\"\r1,2\r", &[]), LineEnd::Cr);
    assert_eq!(line_end(b"a,\"b\rc\"\n1,2\n", &[]), LineEnd::LfOrCrlf);
    assert_eq!(line_end(b"ab", &[b"3,4\r5,6\r"]), LineEnd::Cr);
    assert_eq!(line_end(b"a,b\r", &[]), LineEnd::Cr);
    assert_eq!(line_end(b"a,b\r1,2\n", &[]), LineEnd::Cr);
    assert_eq!(line_end(b"a,b\r1,2\r\n", &[]), LineEnd::Cr);
    assert_eq!(line_end(b"a,\"b\rc\"\n", &[]), LineEnd::LfOrCrlf);
    check("a,b\r1,2\r", ", header a:BIGINT b:BIGINT");
}

#[test]
fn the_last_record_counts_only_if_it_is_whole() {
    let cut = SniffOptions { head_is_whole: false, ..OPTIONS };
    check_with("a,b\n1,2\n3,x", &cut, ", header a:BIGINT b:BIGINT");
    check("a,b\n1,2\n3,x", ", header a:BIGINT b:VARCHAR");
    check("a,b\n1,2\n3,\"4", ", header a:BIGINT b:BIGINT");
}

#[test]
fn windows_are_read_from_the_first_record_that_begins_in_them() {
    let head = b"id,text\n1,a\n2,b\n";
    let check = |window: &[u8], expected: &str| {
        assert_eq!(shown(sniff(head, &[window], &OPTIONS)), format!(", header {expected}"));
    };
    check(b"9,9\n3.5,c\n", "id:DOUBLE text:VARCHAR");
    check(b".5,9\n3,c\n4,d", "id:BIGINT text:VARCHAR");
    // Inside quotes, lines that look like records are text until the quote is closed.
    check(b"x,y\nx,y\nx\"\n3.5,c\n4.5,d\n5.5,e\n6.5,f\n", "id:DOUBLE text:VARCHAR");
    check(
        b"text \"\"x\"\" text\nx,y\"\n3.5,\"p\nx,q\"\n4.5,\"p\nx,q\"\n",
        "id:DOUBLE text:VARCHAR",
    );
    check(b"1,2,3\nx,y,z\n", "id:BIGINT text:VARCHAR");
    check(b"", "id:BIGINT text:VARCHAR");
    check(b"\"", "id:BIGINT text:VARCHAR");
}

#[test]
fn a_dialect_of_line_ends_or_equal_characters_is_refused() {
    for (delimiter, quote) in [(b'"', b'"'), (b'\n', b'"'), (0xC3, b'"'), (b',', b'\r')] {
        let (delimiter, quote) = (Some(delimiter), Quote::Byte(quote));
        let options = SniffOptions { delimiter, quote, ..OPTIONS };
        let error = sniff(b"a,b\n", &[], &options).expect_err("refused");
        assert_eq!(error.sqlstate(), "22023");
    }
    let quoted = SniffOptions { quote: Quote::Byte(b'\''), ..OPTIONS };
    check_with("'a,b',1\n'c,d',2\n", &quoted, ", rows f0:VARCHAR f1:BIGINT");
    let bare = SniffOptions { quote: Quote::None, ..OPTIONS };
    check_with("\"a,1\n\"b,2\n", &bare, ", rows f0:VARCHAR f1:BIGINT");
}

#[test]
fn any_bytes_are_fine() {
    let mut state = 1_u64;
    let mut bytes = Vec::new();
    for _ in 0..20_000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.push(b",;\t|:\"\n\rab1.-/ \xFF\0\xC3"[(state >> 33) as usize % 18]);
    }
    for len in 0..200 {
        let start = len * 97;
        let (head, window) = (&bytes[start..start + len], &bytes[start + len..][..len]);
        for head_is_whole in [false, true] {
            let options = SniffOptions { head_is_whole, ..OPTIONS };
            if let Ok(sniffed) = sniff(head, &[window, head], &options) {
                assert_eq!(sniffed.names.len(), sniffed.types.len());
                assert_eq!(sniffed.names.len(), sniffed.formats.len());
            }
        }
    }
}
