//! Random page frames of every shape that a segment can have, with their values computed
//! independently.

use tidegate_filter::SymbolText;
use tidegate_model::frame::{Dictionary, Strings};
use tidegate_model::layout::{ZONE_BYTES, Zone};
use tidegate_model::types::Physical;
use tidegate_model::{
    Codes, ColumnSlice, ColumnType, Encoded, PageFrame, SymbolId, TimeUnit, Value,
};

use crate::random::Random;

const ZONE_ROWS: usize = 4_096;

/// Column types of the tests; those with arithmetic are there several times.
pub(crate) const TYPES: [ColumnType; 22] = [
    ColumnType::Boolean,
    ColumnType::Int8,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Int64,
    ColumnType::UInt8,
    ColumnType::UInt16,
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Decimal { precision: 38, scale: 2 },
    ColumnType::Timestamp(TimeUnit::Micros),
    ColumnType::Timestamp(TimeUnit::Nanos),
    ColumnType::Date,
    ColumnType::Symbol,
    ColumnType::Varchar,
    ColumnType::Binary,
    ColumnType::Uuid,
    ColumnType::Ipv4,
];

/// The owner of the bytes of a column.
pub(crate) struct OwnedColumn {
    pub(crate) ty: ColumnType,
    pub(crate) values: Vec<Value>,
    validity: Option<Vec<u8>>,
    encoded: Owned,
    zones: Vec<[u8; ZONE_BYTES]>,
}

/// The owner of encoded values.
pub(crate) enum Owned {
    Null,
    Constant(i128),
    Narrow { base: i128, step: u64, codes: OwnedCodes },
    Decimal { base: i64, scale: u8, codes: OwnedCodes, exceptions: Vec<(u32, f64)>, parts: Parts },
    Dictionary { codes: OwnedCodes, texts: OwnedStrings },
    Symbols { codes: OwnedCodes, ids: Vec<[u8; 4]> },
    Bits(Vec<u8>),
    Fixed { width: usize, bytes: Vec<u8> },
    Strings(OwnedStrings),
}

/// Exceptions in the layout of the file.
pub(crate) type Parts = (Vec<[u8; 4]>, Vec<[u8; 8]>);

pub(crate) enum OwnedCodes {
    Same(u32),
    Sequence,
    Bits(Vec<u8>),
    Bytes { width: u8, bytes: Vec<u8> },
}

pub(crate) struct OwnedStrings {
    pub(crate) offsets: Vec<[u8; 4]>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) table: Option<Vec<u8>>,
}

/// Symbols of all columns: their ids are scattered, their texts are those of `words`.
pub(crate) struct Symbols(pub(crate) Vec<String>);

impl SymbolText for Symbols {
    fn text(&self, _column: usize, id: SymbolId) -> Option<&[u8]> {
        self.0.get(id.0 as usize).map(String::as_bytes)
    }
}

pub(crate) fn symbols() -> Symbols {
    Symbols((0..600_usize).map(|i| word(i * 7_919 % 600)).collect())
}

/// Text number `i`: the texts share prefixes and differ in length.
pub(crate) fn word(i: usize) -> String {
    match i % 5 {
        0 => format!("http://example.org/{}/{}", i % 11, i),
        1 => format!("host_{i:04}"),
        2 => format!("{i}"),
        3 => format!("\u{e4}\u{1f600}{i}%_\\"),
        _ => format!("host_{i:04}.example.org-and-a-long-tail"),
    }
}

impl OwnedColumn {
    pub(crate) fn slice(&self) -> ColumnSlice<'_> {
        ColumnSlice {
            ty: self.ty,
            rows: self.values.len(),
            validity: self.validity.as_deref(),
            encoded: self.encoded.borrow(),
            zones: &self.zones,
        }
    }

    /// Returns true if the column has a dictionary code for each row.
    pub(crate) fn has_codes(&self) -> bool {
        matches!(self.encoded, Owned::Symbols { codes: OwnedCodes::Bytes { .. }, .. })
    }

    /// A column of random shape and values.
    pub(crate) fn random(
        random: &mut Random,
        ty: ColumnType,
        rows: usize,
        symbols: &Symbols,
    ) -> Self {
        let mut encoded = random_encoding(random, ty, rows, symbols);
        let is_sequence =
            matches!(&encoded, Owned::Narrow { codes: OwnedCodes::Sequence, .. } | Owned::Null);
        let validity = (!is_sequence && random.once_in(2)).then(|| {
            let rarely = *random.choose(&[2, 10, 1_000]);
            (0..rows.div_ceil(64) * 8)
                .map(|_| {
                    (0..8).fold(0, |byte, bit| byte | u8::from(!random.once_in(rarely)) << bit)
                })
                .collect::<Vec<u8>>()
        });
        let is_valid = |row: usize| {
            validity.as_ref().is_none_or(|bits: &Vec<u8>| bits[row / 8] >> (row % 8) & 1 == 1)
        };
        encoded.clear_nulls(&is_valid, rows);
        let values: Vec<Value> = (0..rows)
            .map(|row| if is_valid(row) { encoded.value(ty, row, symbols) } else { Value::Null })
            .collect();
        let zones = if random.once_in(4) { vec![] } else { zones(ty, &values, &encoded) };
        OwnedColumn { ty, values, validity, encoded, zones }
    }
}

pub(crate) fn frame<'a>(columns: &'a [OwnedColumn], rows: usize) -> PageFrame<'a> {
    PageFrame::new(rows, columns.iter().map(OwnedColumn::slice).collect())
}

impl OwnedCodes {
    fn borrow(&self) -> Codes<'_> {
        match self {
            OwnedCodes::Same(code) => Codes::Same(*code),
            OwnedCodes::Sequence => Codes::Sequence,
            OwnedCodes::Bits(bits) => Codes::Bits(bits),
            OwnedCodes::Bytes { width, bytes } => Codes::new(*width, bytes).expect("whole codes"),
        }
    }

    /// Random codes below `end`; each zone has a part of them.
    fn random(random: &mut Random, rows: usize, end: u64, width: u8) -> OwnedCodes {
        let mut bytes = Vec::with_capacity(rows * usize::from(width));
        let (mut low, mut span) = (0, end);
        for row in 0..rows {
            if row % ZONE_ROWS == 0 {
                (low, span) = match random.below(4) {
                    0 => (random.word() % end, 1),
                    1 => (random.word() % end, (end / 16).max(1)),
                    _ => (0, end),
                };
            }
            let code = (u128::from(low) + u128::from(random.word() % span)) % u128::from(end);
            bytes.extend_from_slice(&code.to_le_bytes()[..usize::from(width)]);
        }
        OwnedCodes::Bytes { width, bytes }
    }
}

impl OwnedStrings {
    pub(crate) fn new<T: AsRef<[u8]>>(texts: &[T], is_compressed: bool) -> OwnedStrings {
        // A table of three symbols; everything else is escaped.
        let table = is_compressed.then(|| {
            let mut table = vec![3, 5, 4, 1];
            table.extend_from_slice(b"host_\0\0\0.org\0\0\0\0\x30\0\0\0\0\0\0\0");
            table
        });
        let mut strings = OwnedStrings { offsets: vec![[0; 4]], bytes: vec![], table };
        for text in texts {
            match is_compressed {
                false => strings.bytes.extend_from_slice(text.as_ref()),
                true => compress(text.as_ref(), &mut strings.bytes),
            }
            let end = u32::try_from(strings.bytes.len()).expect("tests are small");
            strings.offsets.push(end.to_le_bytes());
        }
        strings
    }

    fn borrow(&self) -> Strings<'_> {
        let table = self.table.as_deref();
        Strings { offsets: &self.offsets, bytes: &self.bytes, table }
    }

    fn text(&self, index: usize) -> Vec<u8> {
        let stored = self.borrow().stored(index);
        if self.table.is_none() {
            return stored.to_vec();
        }
        let mut text = Vec::new();
        let mut codes = stored.iter();
        while let Some(code) = codes.next() {
            match code {
                0 => text.extend_from_slice(b"host_"),
                1 => text.extend_from_slice(b".org"),
                2 => text.push(b'0'),
                _ => text.push(*codes.next().expect("an escape has its byte")),
            }
        }
        text
    }
}

fn compress(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some((&first, rest)) = text.split_first() {
        let (code, taken): (&[u8], usize) = if text.starts_with(b"host_") {
            (&[0], 5)
        } else if text.starts_with(b".org") {
            (&[1], 4)
        } else if first == b'0' {
            (&[2], 1)
        } else {
            out.push(255);
            out.push(first);
            text = rest;
            continue;
        };
        out.extend_from_slice(code);
        text = &text[taken..];
    }
}

impl Owned {
    fn borrow(&self) -> Encoded<'_> {
        match self {
            Owned::Null => Encoded::Null,
            Owned::Constant(value) => Encoded::Constant(*value),
            Owned::Narrow { base, step, codes } => {
                Encoded::Narrow { base: *base, step: *step, codes: codes.borrow() }
            }
            Owned::Decimal { base, scale, codes, parts, .. } => Encoded::Decimal {
                base: *base,
                scale: *scale,
                codes: codes.borrow(),
                exception_rows: &parts.0,
                exception_values: &parts.1,
            },
            Owned::Dictionary { codes, texts } => Encoded::Dictionary {
                codes: codes.borrow(),
                dictionary: Dictionary::Strings(texts.borrow()),
            },
            Owned::Symbols { codes, ids } => {
                Encoded::Dictionary { codes: codes.borrow(), dictionary: Dictionary::Symbols(ids) }
            }
            Owned::Bits(bits) => Encoded::Bits(bits),
            Owned::Fixed { width, bytes } => Encoded::Fixed { width: *width, bytes },
            Owned::Strings(strings) => Encoded::Strings(strings.borrow()),
        }
    }

    /// Sets the code under a NULL to 0 and removes exceptions that are NULL (frame-2).
    fn clear_nulls(&mut self, is_valid: &dyn Fn(usize) -> bool, rows: usize) {
        let (Owned::Narrow { codes, .. }
        | Owned::Decimal { codes, .. }
        | Owned::Dictionary { codes, .. }
        | Owned::Symbols { codes, .. }) = self
        else {
            return;
        };
        if let OwnedCodes::Bytes { width, bytes } = codes {
            let width = usize::from(*width);
            for row in (0..rows).filter(|&row| !is_valid(row)) {
                bytes[row * width..(row + 1) * width].fill(0);
            }
        }
        if let Owned::Decimal { exceptions, parts, .. } = self {
            exceptions.retain(|(row, _)| is_valid(*row as usize));
            parts.0 = exceptions.iter().map(|(row, _)| row.to_le_bytes()).collect();
            parts.1 = exceptions.iter().map(|(_, value)| value.to_le_bytes()).collect();
        }
    }

    /// The value of a row that is not NULL: docs/format.md, Encodings.
    #[expect(clippy::cast_possible_truncation, reason = "wrapping is what is wanted")]
    fn value(&self, ty: ColumnType, row: usize, symbols: &Symbols) -> Value {
        let float = |value: f64| match ty {
            ColumnType::Float32 => Value::Float((value as f32).into()),
            _ => Value::Float(value),
        };
        match self {
            Owned::Null => Value::Null,
            Owned::Constant(value) => match ty.physical() {
                Physical::Bit => Value::Bit(*value != 0),
                Physical::Float32 | Physical::Float64 => float(f64::from_bits(*value as u64)),
                Physical::Fixed16 => Value::Fixed16(value.to_le_bytes()),
                _ => Value::Integer(*value),
            },
            Owned::Narrow { base, step, codes } => {
                let wide = base
                    .wrapping_add(i128::from(*step).wrapping_mul(codes.borrow().at(row).into()));
                Value::Integer(cut(ty, wide))
            }
            Owned::Decimal { base, scale, codes, exceptions, .. } => {
                let exception = exceptions.iter().find(|(at, _)| *at as usize == row);
                let scaled = base.wrapping_add(codes.borrow().at(row) as i64) as f64;
                float(exception.map_or(scaled / 10_f64.powi(i32::from(*scale)), |(_, v)| *v))
            }
            Owned::Dictionary { codes, texts } => {
                Value::Bytes(texts.text(codes.borrow().at(row) as usize))
            }
            Owned::Symbols { codes, ids } => {
                let id = u32::from_le_bytes(ids[codes.borrow().at(row) as usize]);
                Value::Bytes(symbols.0[id as usize].clone().into_bytes())
            }
            Owned::Bits(bits) => Value::Bit(bits[row / 8] >> (row % 8) & 1 == 1),
            Owned::Fixed { bytes, .. } => match ty.physical() {
                Physical::Float32 => {
                    Value::Float(f32::from_le_bytes(bytes.as_chunks().0[row]).into())
                }
                Physical::Float64 => Value::Float(f64::from_le_bytes(bytes.as_chunks().0[row])),
                Physical::Wide => Value::Integer(i128::from_le_bytes(bytes.as_chunks().0[row])),
                _ => Value::Fixed16(bytes.as_chunks().0[row]),
            },
            Owned::Strings(strings) => Value::Bytes(strings.text(row)),
        }
    }
}

/// The low bytes of an integer, as many as its type has.
#[expect(clippy::cast_possible_truncation, reason = "wrapping is what is wanted")]
fn cut(ty: ColumnType, value: i128) -> i128 {
    match ty.physical() {
        Physical::Signed(1) => (value as i8).into(),
        Physical::Signed(2) => (value as i16).into(),
        Physical::Signed(4) => (value as i32).into(),
        Physical::Signed(_) => (value as i64).into(),
        Physical::Unsigned(1) => (value as u8).into(),
        Physical::Unsigned(2) => (value as u16).into(),
        Physical::Unsigned(4) => (value as u32).into(),
        Physical::Unsigned(_) => (value as u64).into(),
        _ => value,
    }
}

pub(crate) fn range(ty: ColumnType) -> (i128, i128) {
    match ty.physical() {
        Physical::Signed(bytes) => {
            let half = 1_i128 << (u32::from(bytes) * 8 - 1);
            (-half, half - 1)
        }
        Physical::Unsigned(bytes) => (0, (1_i128 << (u32::from(bytes) * 8)) - 1),
        _ => (-(10_i128.pow(38) - 1), 10_i128.pow(38) - 1),
    }
}

/// A random float, often a special one.
pub(crate) fn random_float(random: &mut Random, ty: ColumnType) -> f64 {
    let value = match random.below(12) {
        0 => f64::NAN,
        1 => -0.0,
        2 => 0.0,
        3 => *random.choose(&[f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 5e-324, -5e-324, 1e-40]),
        4..=7 => f64::from(u8::try_from(random.below(200)).expect("below 200")) / 10.0 - 10.0,
        8 => f64::from_bits(random.word()),
        _ => (random.below(1_000_000) as f64).mul_add(0.37, -1e5),
    };
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
    let rounded = if ty == ColumnType::Float32 { f64::from(value as f32) } else { value };
    if rounded.is_nan() { f64::NAN } else { rounded }
}

fn random_bits(random: &mut Random, rows: usize) -> Vec<u8> {
    (0..rows.div_ceil(8)).map(|_| random.word().to_le_bytes()[0]).collect()
}

fn random_encoding(random: &mut Random, ty: ColumnType, rows: usize, symbols: &Symbols) -> Owned {
    if random.once_in(20) {
        return Owned::Null;
    }
    match ty.physical() {
        Physical::Bit if random.once_in(5) => Owned::Constant(random.below(2) as i128),
        Physical::Bit => Owned::Bits(random_bits(random, rows)),
        Physical::Signed(_) | Physical::Unsigned(_) => random_integers(random, ty, rows),
        Physical::Wide if random.once_in(3) => {
            let bytes = (0..rows).flat_map(|_| {
                let value = i128::from(random.word().cast_signed()) << (random.below(3) * 30);
                value.to_le_bytes()
            });
            Owned::Fixed { width: 16, bytes: bytes.collect() }
        }
        Physical::Wide => random_integers(random, ty, rows),
        Physical::Float32 | Physical::Float64 => random_floats(random, ty, rows),
        Physical::Fixed16 if random.once_in(5) => {
            Owned::Constant(i128::from(random.word()) << 64 | i128::from(random.word()))
        }
        Physical::Fixed16 => {
            let few = random.once_in(2);
            let bytes = (0..rows * 2).flat_map(|_| match few {
                true => (random.word() % 3).to_be_bytes(),
                false => random.word().to_be_bytes(),
            });
            Owned::Fixed { width: 16, bytes: bytes.collect() }
        }
        Physical::Bytes => random_texts(random, ty, rows, symbols),
    }
}

fn random_integers(random: &mut Random, ty: ColumnType, rows: usize) -> Owned {
    let (min, max) = range(ty);
    let base = match random.below(4) {
        0 => min,
        1 => max - i128::try_from(random.below(100)).expect("small"),
        2 => cut(ty, i128::from(random.word().cast_signed())).max(min),
        _ => min.max(-50),
    };
    let room = u64::try_from(max.saturating_sub(base)).unwrap_or(u64::MAX);
    let step = match random.below(4) {
        _ if ty.physical() == Physical::Wide => 1,
        0 => 1_000,
        1 => 7,
        _ => 1,
    };
    match random.below(8) {
        0 => return Owned::Constant(base),
        1 => {
            let bits = OwnedCodes::Bits(random_bits(random, rows));
            return Owned::Narrow {
                base,
                step: (random.word() % 1_000).min(room).max(1),
                codes: bits,
            };
        }
        2 if room / step > rows as u64 => {
            return Owned::Narrow { base, step, codes: OwnedCodes::Sequence };
        }
        _ => {}
    }
    let width = *random.choose(&[1, 1, 2, 2, 4, 8]);
    let end = if width == 8 { u64::MAX } else { 1_u64 << (width * 8) };
    // Sometimes codes exceed the range of the type, which no encoder writes.
    let wraps = random.once_in(16);
    let end = if wraps { end } else { end.min((room / step).saturating_add(1)) };
    let end = if random.once_in(2) { end.min(300) } else { end };
    Owned::Narrow { base, step, codes: OwnedCodes::random(random, rows, end, width) }
}

fn random_floats(random: &mut Random, ty: ColumnType, rows: usize) -> Owned {
    match random.below(4) {
        0 => Owned::Constant(random_float(random, ty).to_bits().into()),
        1 => {
            let bytes = (0..rows).flat_map(|_| {
                let value = random_float(random, ty);
                #[expect(clippy::cast_possible_truncation, reason = "it was rounded before")]
                match ty {
                    ColumnType::Float32 => (value as f32).to_le_bytes().to_vec(),
                    _ => value.to_le_bytes().to_vec(),
                }
            });
            let width = if ty == ColumnType::Float32 { 4 } else { 8 };
            Owned::Fixed { width, bytes: bytes.collect() }
        }
        _ => {
            let width = *random.choose(&[1, 2, 4]);
            let end = (1_u64 << (width * 8)).min(*random.choose(&[50, 70_000, u64::MAX]));
            let codes = OwnedCodes::random(random, rows, end, width);
            let base = i64::try_from(random.below(4_000)).expect("small") - 2_000;
            let scale = *random.choose(&[0, 1, 2, 6, 15]);
            let often = *random.choose(&[20, 2_000]);
            let mut exceptions = Vec::new();
            for row in 0..u32::try_from(rows).expect("a frame") {
                if random.once_in(often) {
                    exceptions.push((row, random_float(random, ty)));
                }
            }
            Owned::Decimal { base, scale, codes, exceptions, parts: Parts::default() }
        }
    }
}

fn random_texts(random: &mut Random, ty: ColumnType, rows: usize, symbols: &Symbols) -> Owned {
    let is_symbol = ty == ColumnType::Symbol;
    let count = *random.choose(&[1, 3, 60, 250, 300, 550]);
    if !is_symbol && random.once_in(3) {
        let is_compressed = random.once_in(2);
        let texts: Vec<String> = (0..rows)
            .map(|_| if random.once_in(9) { String::new() } else { word(random.below(count)) })
            .collect();
        return Owned::Strings(OwnedStrings::new(&texts, is_compressed));
    }
    let width = if count > 256 { *random.choose(&[2, 4]) } else { *random.choose(&[1, 2, 4]) };
    let codes = match random.below(6) {
        0 => OwnedCodes::Same(u32::try_from(random.below(count)).expect("small")),
        _ => OwnedCodes::random(random, rows, count as u64, width),
    };
    if is_symbol {
        let mut ids: Vec<u32> = (0..u32::try_from(symbols.0.len()).expect("small")).collect();
        ids.sort_by_key(|&id| &symbols.0[id as usize]);
        let skip = random.below(symbols.0.len() - count + 1);
        let ids = ids[skip..skip + count].iter().map(|id| id.to_le_bytes()).collect();
        return Owned::Symbols { codes, ids };
    }
    let mut texts: Vec<String> = (0..count).map(word).collect();
    texts.sort();
    Owned::Dictionary { codes, texts: OwnedStrings::new(&texts, random.once_in(2)) }
}

/// Zones as docs/format.md describes them.
fn zones(ty: ColumnType, values: &[Value], encoded: &Owned) -> Vec<[u8; ZONE_BYTES]> {
    let codes = match encoded {
        Owned::Dictionary { codes, .. } | Owned::Symbols { codes, .. } => Some(codes.borrow()),
        _ => None,
    };
    (0..values.len())
        .step_by(ZONE_ROWS)
        .map(|first| {
            let rows = first..(first + ZONE_ROWS).min(values.len());
            let mut zone = Zone::EMPTY;
            zone.has_null = values[rows.clone()].contains(&Value::Null);
            let valued = rows.filter(|&row| values[row] != Value::Null);
            if let Some(codes) = codes {
                let codes: Vec<u64> = valued.map(|row| codes.at(row)).collect();
                if let (Some(min), Some(max)) = (codes.iter().min(), codes.iter().max()) {
                    zone.has_value = true;
                    zone.min = min | max << 32;
                    zone.max = codes.iter().fold(0, |bits, code| bits | 1 << (code % 64));
                }
            } else {
                bound(ty, valued.map(|row| &values[row]), &mut zone);
            }
            zone.encode()
        })
        .collect()
}

fn bound<'a>(ty: ColumnType, values: impl Iterator<Item = &'a Value>, zone: &mut Zone) {
    let mut least: Option<(i128, i128)> = None;
    let mut floats: Option<(f64, f64)> = None;
    for value in values {
        let key = match value {
            Value::Bit(bit) => i128::from(*bit),
            Value::Integer(value) if ty.physical() == Physical::Wide => {
                *value.clamp(&i64::MIN.into(), &i64::MAX.into())
            }
            Value::Integer(value) => *value,
            Value::Float(value) if value.is_nan() => {
                zone.has_nan = true;
                continue;
            }
            Value::Float(value) => {
                let (min, max) = floats.unwrap_or((*value, *value));
                floats = Some((min.min(*value), max.max(*value)));
                continue;
            }
            Value::Bytes(bytes) => {
                let mut first = [0; 8];
                let kept = bytes.len().min(8);
                first[..kept].copy_from_slice(&bytes[..kept]);
                u64::from_be_bytes(first).into()
            }
            Value::Fixed16(bytes) => {
                u64::from_be_bytes(bytes[..8].try_into().expect("8 bytes")).into()
            }
            Value::Null => continue,
        };
        let (min, max) = least.unwrap_or((key, key));
        least = Some((min.min(key), max.max(key)));
    }
    #[expect(clippy::cast_possible_truncation, reason = "bounds have eight bytes")]
    if let Some((min, max)) = least {
        (zone.has_value, zone.min, zone.max) = (true, min as u64, max as u64);
    }
    if let Some((min, max)) = floats {
        (zone.has_value, zone.min, zone.max) = (true, min.to_bits(), max.to_bits());
    }
}
