//! Cells of random text: values of every type in many forms, and invalid ones.

use tidegate_model::time::IsoTimestamp;
use tidegate_model::{ColumnType, TimeUnit, Timestamp};

use super::random::Random;

/// The contents of a cell, before it is quoted.
pub(crate) enum Cell {
    Null,
    Text(Vec<u8>),
    /// The exact bytes in the file, quotes included.
    Raw(Vec<u8>),
}

/// An instant as ISO text, in one of the forms that keep all its digits.
pub(crate) fn instant_text(random: &mut Random, ts: i64, unit: TimeUnit) -> Vec<u8> {
    let full = IsoTimestamp(Timestamp(ts), unit).to_string();
    let seconds = &full[..19];
    let mut text = if ts.rem_euclid(unit.per_second()) == 0 && random.percent(70) {
        seconds.to_owned()
    } else {
        full.trim_end_matches('Z').to_owned()
    };
    if random.percent(50) {
        text = text.replace('T', " ");
    }
    text.push_str(random.choose(&["", "", "", "Z", "+00:00"]));
    text.into_bytes()
}

/// A random value of a type that is not the designated timestamp.
pub(crate) fn value(random: &mut Random, ty: ColumnType) -> Cell {
    if random.percent(12) {
        return Cell::Null;
    }
    let text = match ty {
        ColumnType::Boolean => {
            random.choose(&["true", "false", "1", "0", "T", "No", "yes"]).to_owned()
        }
        ColumnType::Int8 => integer(random, i8::MIN.into(), i8::MAX.into()),
        ColumnType::Int16 => integer(random, i16::MIN.into(), i16::MAX.into()),
        ColumnType::Int32 => integer(random, i32::MIN.into(), i32::MAX.into()),
        ColumnType::Int64 => integer(random, i64::MIN.into(), i64::MAX.into()),
        ColumnType::UInt8 => integer(random, 0, u8::MAX.into()),
        ColumnType::UInt16 => integer(random, 0, u16::MAX.into()),
        ColumnType::UInt32 => integer(random, 0, u32::MAX.into()),
        ColumnType::UInt64 => integer(random, 0, u64::MAX.into()),
        ColumnType::Float32 | ColumnType::Float64 => float(random),
        ColumnType::Decimal { precision, scale } => decimal(random, precision, scale),
        ColumnType::Timestamp(unit) => {
            let seconds = random.next() % 4_000_000_000;
            let ts = i64::try_from(seconds).expect("this century") * unit.per_second();
            return Cell::Text(instant_text(random, ts - unit.per_day() * 9_000, unit));
        }
        ColumnType::Date => {
            let (year, month, day) = (1900 + random.below(200), random.below(12), random.below(28));
            format!("{year:04}-{:02}-{:02}", month + 1, day + 1)
        }
        ColumnType::Symbol => symbol(random),
        ColumnType::Varchar => return Cell::Text(text(random)),
        ColumnType::Binary => {
            format!("\\x{:0width$x}", random.next(), width = 16 + 2 * random.index(9))
        }
        ColumnType::Uuid => uuid(random),
        ColumnType::Ipv4 => {
            let [a, b, c, d, ..] = random.next().to_le_bytes();
            format!("{a}.{b}.{c}.{d}")
        }
    };
    Cell::Text(text.into_bytes())
}

/// A random integer: mostly small, or a bound.
fn integer(random: &mut Random, min: i128, max: i128) -> String {
    let value = match random.below(10) {
        0 => min,
        1 => max,
        2 => 0,
        3..7 => i128::from(random.below(100)),
        _ => min + i128::from(random.next()) % (max - min + 1),
    };
    let value = value.clamp(min, max);
    match random.below(20) {
        0 if 0 <= value => format!("+{value}"),
        1 if 0 <= value => format!("00{value}"),
        2 => format!(" {value}\t"),
        _ => value.to_string(),
    }
}

fn float(random: &mut Random) -> String {
    let whole = random.below(100_000);
    match random.below(12) {
        0 => "NaN".to_owned(),
        1 => "-inf".to_owned(),
        2 => "-0.0".to_owned(),
        3 => format!("{whole}e-7"),
        4 => format!("{}", f64::from_bits(random.next() >> 2)),
        5 => format!("-{whole}.{}", random.next()),
        6 => whole.to_string(),
        _ => format!("{whole}.{:02}", random.below(100)),
    }
}

fn decimal(random: &mut Random, precision: u8, scale: u8) -> String {
    let whole_digits = usize::from(precision - scale);
    let digits = format!("{:020}{:020}", random.next(), random.next());
    let used = random.index(whole_digits.min(38) + 1);
    let sign = random.choose(&["", "", "-", "+"]);
    let whole = if used == 0 { "0" } else { &digits[40 - used..] };
    match random.below(3) {
        0 if 0 < used => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{}", &digits[..usize::from(scale).clamp(1, 10)]),
    }
}

fn uuid(random: &mut Random) -> String {
    let hex = format!("{:016x}{:016x}", random.next(), random.next());
    match random.percent(50) {
        true => hex,
        false => [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"),
    }
}

fn symbol(random: &mut Random) -> String {
    match random.below(10) {
        0 => String::new(),
        1 => format!("rare {}", random.below(100_000)),
        2 => "\u{e4}\u{20ac}\u{1F600}".to_owned(),
        _ => format!("s{}", random.below(40)),
    }
}

/// A random text: with characters that need quotes, characters of one to four bytes, or a long one.
pub(crate) fn text(random: &mut Random) -> Vec<u8> {
    const PARTS: [&str; 14] = [
        "a",
        "word ",
        ",",
        ";",
        "\t",
        "|",
        "\"",
        "''",
        "\n",
        "\r\n",
        "\u{e9}",
        "\u{20ac}",
        "\u{1F600}",
        "\\",
    ];
    let parts = match random.below(12) {
        0 => 0,
        1 => 60 + random.index(200),
        2..6 => 1,
        _ => random.index(12),
    };
    let plain = random.percent(60);
    let mut text = String::new();
    for _ in 0..parts {
        text.push_str(if plain { "some words " } else { random.choose(&PARTS) });
    }
    if random.percent(30) {
        text.push_str(&random.below(1_000).to_string());
    }
    text.into_bytes()
}

/// Bytes that are no value of the type, or no cell at all. `quote` is the byte that quotes.
pub(crate) fn bad(random: &mut Random, ty: ColumnType, quote: Option<u8>) -> Cell {
    if let Some(quote) = quote.filter(|_| random.percent(25)) {
        let behind = random.choose(&["x", " ", "\u{e9}", " and more"]);
        let quoted = [&[quote][..], b"quoted", &[quote], behind.as_bytes()].concat();
        return Cell::Raw(quoted);
    }
    let is_text = matches!(ty, ColumnType::Symbol | ColumnType::Varchar);
    let text: &[u8] = match random.below(6) {
        0 => b"\xC3(",
        1 => b"ab\xFF",
        2 if !is_text => b"99999999999999999999999999999999999999999",
        3 if !is_text => b"-1x",
        4 if !is_text => b"2020-02-30T00:00:00",
        _ if is_text => b"\xE2\x82",
        _ => b"nonsense",
    };
    Cell::Text(text.to_vec())
}
