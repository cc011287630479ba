//! Any bytes are a dictionary or an error; every text of a dictionary is found under its id.
//!
//! Input: the number of values by the watermark (two bytes), then extents as in the file; all their
//! checksums are corrected.

use tidegate_model::{ColumnId, SymbolId, TableId};
use tidegate_storage::symbols::{SymbolWatermark, decode};

use super::checksum::crc32c;
use super::input::Input;

const TABLE: TableId = TableId(1);
const COLUMN: ColumnId = ColumnId(2);
/// First id, count, bytes of text; then the checksum.
const FIELDS_BYTES: usize = 12;

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let count = u32::try_from(input.short()).expect("two bytes");
    check_file(input.rest, count);
    let mut file = b"TIDESYM\0".to_vec();
    file.extend_from_slice(&1_u32.to_le_bytes());
    file.extend_from_slice(&TABLE.0.to_le_bytes());
    file.extend_from_slice(&COLUMN.0.to_le_bytes());
    let crc = crc32c(&file);
    file.extend_from_slice(&crc.to_le_bytes());
    let start = file.len();
    file.extend_from_slice(input.rest);
    write_checksum(&mut file[start..]);
    check_file(&file, count);
}

fn check_file(file: &[u8], count: u32) {
    let watermark = SymbolWatermark { count, bytes: file.len() as u64 };
    let Ok(table) = decode(file, TABLE, COLUMN, watermark) else { return };
    assert_eq!(table.len(), count as usize, "symbols-3");
    for (id, text) in (0..).zip(table.texts()) {
        assert_eq!(table.find(text), Some(SymbolId(id)), "symbols-1");
        assert_eq!(table.text(SymbolId(id)), text);
        assert!(std::str::from_utf8(text).is_ok());
    }
}

/// Corrects the checksums of extents, as far as their lengths are valid.
fn write_checksum(mut extents: &mut [u8]) {
    while let Some(fields) = extents.first_chunk::<FIELDS_BYTES>() {
        let field = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| fields[at + byte]));
        let body = (field(4) as usize).saturating_mul(4).saturating_add(field(8) as usize);
        let end = body.saturating_add(FIELDS_BYTES + 4);
        if extents.len() < end {
            return;
        }
        let mut covered = extents[..FIELDS_BYTES].to_vec();
        covered.extend_from_slice(&extents[FIELDS_BYTES + 4..end]);
        extents[FIELDS_BYTES..FIELDS_BYTES + 4].copy_from_slice(&crc32c(&covered).to_le_bytes());
        extents = &mut extents[end..];
    }
}
