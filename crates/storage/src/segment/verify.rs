//! Verification of a segment: reads every byte, and compares the footer with the content.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes as arrow_types;
use tidegate_model::frame::Dictionary;
use tidegate_model::layout::{
    ColumnFooter, Region, SEGMENT_TRAILER_BYTES, SegmentFooter, ZONE_BYTES, Zone,
};
use tidegate_model::{Codes, Column, ColumnType, Encoded, Schema, TimeUnit};

use super::encode::ZONE_ROWS;
use super::encode::kernels::is_valid;
use super::encode::zones::{
    code_zone, fixed16_zone, float_zone, integer_zone, prefix, string_zone, whole_bounds, wide_zone,
};
use super::{Reader, decode};
use crate::error::{Error, Result, SegmentDamage};
use crate::symbols::SymbolTables;

/// Magic and version, which `open` has read; zeros follow up to the end of the header.
const HEADER_FIELDS_BYTES: usize = 8 + 4;

impl Reader {
    /// Reads every byte: every CRC, every zone against its values, the order of rows.
    ///
    /// # Errors
    /// The first damage found.
    pub fn verify(&self, schema: &Schema, symbols: &SymbolTables) -> Result<()> {
        verify(self, schema, symbols)
    }
}

/// Checks every CRC, zeros outside of regions, every zone against its values, NULL counts,
/// dictionaries, and the order of rows (segment-2). Columns that the table has dropped are read
/// like the others. Symbols of a column that `symbols` does not have are not looked up: that error
/// has been reported elsewhere.
fn verify(reader: &Reader, schema: &Schema, symbols: &SymbolTables) -> Result<()> {
    verify_bytes(reader)?;
    for footer in &reader.footer().columns {
        let name = schema.column(footer.id).map_or(String::new(), |column| column.name.clone());
        let column = Column { id: footer.id, name, ty: footer.ty };
        verify_column(reader, &column, footer)?;
        if schema.column(footer.id).is_some() && footer.dictionary.is_some() {
            verify_dictionary(reader, &column, symbols)?;
        }
    }
    match schema.designated_column() {
        Some((column, _)) => verify_order(reader, column),
        None => Ok(()),
    }
}

/// Checks that every byte between magic and footer belongs to a region, or is zero.
fn verify_bytes(reader: &Reader) -> Result<()> {
    let bytes = reader.bytes();
    reader.will_need_all();
    let trailer = bytes.len() - SEGMENT_TRAILER_BYTES;
    let length = u64::from_le_bytes(bytes[trailer..trailer + 8].try_into().expect("8 bytes"));
    let footer = trailer - usize::try_from(length).expect("`open` has read it");
    let mut at = HEADER_FIELDS_BYTES;
    for region in regions(reader.footer()) {
        let start = usize::try_from(region.offset).expect("model_layout-3: it lies in the file");
        let end =
            start + usize::try_from(region.bytes).expect("model_layout-3: it lies in the file");
        check_zeros(reader, at, start)?;
        if crc32c::crc32c(&bytes[start..end]) != region.crc {
            return Err(Error::segment(reader.path(), region.offset, SegmentDamage::Crc));
        }
        at = at.max(end);
    }
    check_zeros(reader, at, footer)
}

/// All regions that have bytes, in the order of the file.
fn regions(footer: &SegmentFooter) -> Vec<Region> {
    let of_column = |column: &ColumnFooter| {
        let dictionary = column.dictionary.map(|dictionary| dictionary.region);
        let frames = column.frames.iter().map(|frame| frame.region);
        let others = [column.string_table, column.zones];
        dictionary.into_iter().chain(others).chain(frames).collect::<Vec<_>>()
    };
    let mut regions: Vec<Region> = footer.columns.iter().flat_map(of_column).collect();
    regions.retain(|region| region.bytes > 0);
    regions.sort_by_key(|region| region.offset);
    regions
}

fn check_zeros(reader: &Reader, start: usize, end: usize) -> Result<()> {
    let between = reader.bytes().get(start..end).unwrap_or_default();
    match between.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(at) => Err(Error::segment(reader.path(), (start + at) as u64, SegmentDamage::NotZero)),
    }
}

fn verify_column(reader: &Reader, column: &Column, footer: &ColumnFooter) -> Result<()> {
    let (mut nulls, mut zone_number, mut zones) = (0, 0, Vec::new());
    for frame in 0..reader.frame_count() {
        let slice = reader.slice(frame, column)?;
        let damaged = |damage| reader.frame_damage(column, frame, damage);
        let words = slice.validity.map(|bits| {
            bits.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>()
        });
        let computed = match &slice.encoded {
            Encoded::Null => vec![Zone { has_null: true, ..Zone::EMPTY }; slice.zones.len()],
            Encoded::Dictionary { codes, dictionary } => {
                let codes = codes_of(codes, slice.rows);
                if codes.iter().any(|&code| code as usize >= dictionary.count()) {
                    return Err(damaged(SegmentDamage::Code));
                }
                let zones = codes.chunks(ZONE_ROWS).enumerate();
                zones.map(|(index, codes)| code_zone(codes, words.as_deref(), index)).collect()
            }
            _ => {
                let rows = decode::RowSelection::Range(0..slice.rows);
                let array = decode::array(&slice, &rows, None).map_err(damaged)?;
                zones_of(column.ty, &array, words.as_deref())
            }
        };
        for (zone, stored) in computed.iter().zip(slice.zones) {
            if *zone != Zone::decode(stored) {
                return Err(damaged(SegmentDamage::Zone { zone: zone_number }));
            }
            zone_number += 1;
        }
        zones.extend_from_slice(slice.zones.as_flattened());
        nulls += (0..slice.rows).filter(|&row| !slice.is_valid(row)).count() as u64;
        if words.as_ref().is_some_and(|words| (0..slice.rows).all(|row| is_valid(Some(words), row)))
        {
            return Err(damaged(SegmentDamage::FrameShape));
        }
    }
    let at = footer.zones.offset;
    if nulls != footer.null_count {
        let damage = SegmentDamage::NullCount { expected: footer.null_count, actual: nulls };
        return Err(Error::segment(reader.path(), at, damage));
    }
    let bounds = whole_bounds(column.ty, &zones);
    if footer.dictionary.is_none() && bounds != footer.bounds {
        let zone = zones.len() as u64 / ZONE_BYTES as u64;
        return Err(Error::segment(reader.path(), at, SegmentDamage::Zone { zone }));
    }
    Ok(())
}

fn codes_of(codes: &Codes<'_>, rows: usize) -> Vec<u32> {
    (0..rows).map(|row| u32::try_from(codes.at(row)).unwrap_or(u32::MAX)).collect()
}

/// The zones of a page frame that is not a dictionary, from its decoded values.
fn zones_of(ty: ColumnType, array: &ArrayRef, words: Option<&[u64]>) -> Vec<Zone> {
    fn of<T: ArrowPrimitiveType>(
        array: &ArrayRef,
        words: Option<&[u64]>,
        zone: impl Fn(&[T::Native], Option<&[u64]>, usize) -> Zone,
    ) -> Vec<Zone> {
        let values = array.as_primitive::<T>().values();
        let zones = values.chunks(ZONE_ROWS).enumerate();
        zones.map(|(index, values)| zone(values, words, index)).collect()
    }
    match ty {
        ColumnType::Int8 => of::<arrow_types::Int8Type>(array, words, integer_zone),
        ColumnType::Int16 => of::<arrow_types::Int16Type>(array, words, integer_zone),
        ColumnType::Int32 => of::<arrow_types::Int32Type>(array, words, integer_zone),
        ColumnType::Int64 => of::<arrow_types::Int64Type>(array, words, integer_zone),
        ColumnType::UInt8 => of::<arrow_types::UInt8Type>(array, words, integer_zone),
        ColumnType::UInt16 => of::<arrow_types::UInt16Type>(array, words, integer_zone),
        ColumnType::UInt32 | ColumnType::Ipv4 => {
            of::<arrow_types::UInt32Type>(array, words, integer_zone)
        }
        ColumnType::UInt64 => of::<arrow_types::UInt64Type>(array, words, integer_zone),
        ColumnType::Timestamp(TimeUnit::Micros) => {
            of::<arrow_types::TimestampMicrosecondType>(array, words, integer_zone)
        }
        ColumnType::Timestamp(TimeUnit::Nanos) => {
            of::<arrow_types::TimestampNanosecondType>(array, words, integer_zone)
        }
        ColumnType::Date => of::<arrow_types::Date32Type>(array, words, integer_zone),
        ColumnType::Float32 => of::<arrow_types::Float32Type>(array, words, float_zone),
        ColumnType::Float64 => of::<arrow_types::Float64Type>(array, words, float_zone),
        ColumnType::Decimal { .. } => of::<arrow_types::Decimal128Type>(array, words, wide_zone),
        ColumnType::Boolean => {
            let bits: Vec<u8> = array.as_boolean().values().iter().map(u8::from).collect();
            let zones = bits.chunks(ZONE_ROWS).enumerate();
            zones.map(|(index, bits)| integer_zone(bits, words, index)).collect()
        }
        ColumnType::Uuid => {
            let values = array.as_fixed_size_binary().values().as_chunks::<16>().0;
            let zones = values.chunks(ZONE_ROWS).enumerate();
            zones.map(|(index, values)| fixed16_zone(values, words, index)).collect()
        }
        ColumnType::Symbol | ColumnType::Varchar | ColumnType::Binary => {
            let texts: Vec<&[u8]> = (0..array.len())
                .map(|row| match ty {
                    ColumnType::Binary => array.as_binary_view().value(row),
                    _ => array.as_string_view().value(row).as_bytes(),
                })
                .collect();
            let zones = texts.chunks(ZONE_ROWS).enumerate();
            zones.map(|(index, texts)| string_zone(texts, words, index, prefix)).collect()
        }
    }
}

/// Checks that the values of a dictionary can be decoded and ascend.
fn verify_dictionary(reader: &Reader, column: &Column, symbols: &SymbolTables) -> Result<()> {
    let Some(position) = reader.position(column) else { return Ok(()) };
    let Some(dictionary) = reader.dictionary(position)? else { return Ok(()) };
    let offset = reader.footer().columns[position].dictionary.map_or(0, |d| d.region.offset);
    let damaged = |damage| Error::segment(reader.path(), offset, damage);
    let table = symbols.get(column.id).map(|table| &**table);
    let are_symbols = matches!(dictionary, Dictionary::Symbols(_));
    if are_symbols && column.ty == ColumnType::Symbol && table.is_none() {
        return Ok(());
    }
    let decoded = decode::dictionary(column, dictionary, table).map_err(damaged)?;
    let texts = decoded.into_array(column.ty);
    let text = |code: usize| match column.ty {
        ColumnType::Binary => texts.as_binary_view().value(code),
        _ => texts.as_string_view().value(code).as_bytes(),
    };
    let ascends = (1..texts.len()).all(|code| text(code - 1) < text(code));
    let is_right_kind = are_symbols == (column.ty == ColumnType::Symbol);
    if ascends && is_right_kind { Ok(()) } else { Err(damaged(SegmentDamage::Dictionary)) }
}

fn verify_order(reader: &Reader, column: &Column) -> Result<()> {
    let meta = reader.footer();
    let (mut previous, mut row, mut first) = (i64::MIN, 0, None);
    for frame in 0..reader.frame_count() {
        let slice = reader.slice(frame, column)?;
        for index in 0..slice.rows {
            let value = decode::integer_at(&slice, index).ok_or_else(|| {
                reader.frame_damage(column, frame, SegmentDamage::TimestampMissing)
            })?;
            if value < previous {
                return Err(reader.frame_damage(column, frame, SegmentDamage::Order { row }));
            }
            first.get_or_insert(value);
            (previous, row) = (value, row + 1);
        }
    }
    if first == Some(meta.min_ts) && previous == meta.max_ts {
        return Ok(());
    }
    Err(Error::segment(reader.path(), reader.mapped_bytes(), SegmentDamage::ForeignFooter))
}
