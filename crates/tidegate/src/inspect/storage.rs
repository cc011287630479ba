//! Sizes and encodings of the columns of a table, added up from the footers of its segments.

use std::collections::BTreeMap;

use tidegate_model::layout::{ColumnFooter, Encoding, FrameFooter};
use tidegate_storage::Snapshot;

use crate::error::Result;

/// Storage of one column, over all segments of the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnStorage {
    pub(super) nulls: u64,
    /// Bytes of values, dictionaries and zones.
    pub(super) bytes: u64,
    /// Number of page frames for each encoding.
    frames: BTreeMap<String, u64>,
    /// True if some strings are compressed.
    has_string_table: bool,
}

/// Returns the storage of each column of the schema, in its order.
pub(super) fn column_storage(snapshot: &Snapshot) -> Result<Vec<ColumnStorage>> {
    let columns = snapshot.schema.columns();
    let mut storage: Vec<ColumnStorage> =
        columns.iter().map(|_| ColumnStorage::default()).collect();
    for run in snapshot.segments() {
        let reader = run.reader()?;
        let footer = reader.footer();
        for (column, storage) in columns.iter().zip(&mut storage) {
            match footer.column(column.id) {
                Some(column) => storage.add(column),
                // The segment is older than the column.
                None => storage.nulls += footer.rows.0,
            }
        }
    }
    Ok(storage)
}

impl ColumnStorage {
    fn add(&mut self, column: &ColumnFooter) {
        let dictionary = column.dictionary.map_or(0, |dictionary| dictionary.region.bytes);
        let frames: u64 = column.frames.iter().map(|frame| frame.region.bytes).sum();
        self.nulls += column.null_count;
        self.bytes += frames + dictionary + column.string_table.bytes + column.zones.bytes;
        self.has_string_table |= column.string_table.bytes > 0;
        for frame in &column.frames {
            *self.frames.entry(encoding_name(frame)).or_insert(0) += 1;
        }
    }

    /// Formats the encodings with their shares of the page frames: `narrow(2) 97%, constant 3%`.
    pub(super) fn encodings(&self) -> String {
        let total: u64 = self.frames.values().sum();
        let mut by_count: Vec<_> = self.frames.iter().collect();
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let share = |(name, count): (&String, &u64)| match by_count.len() {
            1 => name.clone(),
            _ => format!("{name} {}%", (count * 100 / total).max(1)),
        };
        let mut names: Vec<String> = by_count.iter().copied().map(share).collect();
        if self.has_string_table {
            names.push("fsst".to_owned());
        }
        names.join(", ")
    }
}

/// Returns the name of an encoding, with the bytes of a value if they are fixed.
fn encoding_name(frame: &FrameFooter) -> String {
    let name = match frame.encoding {
        Encoding::Null => "null",
        Encoding::Constant => "constant",
        Encoding::Narrow if frame.width == 0 && frame.scale == 1 => "two values",
        Encoding::Narrow if frame.width == 0 => "regular",
        Encoding::Narrow => "narrow",
        Encoding::Decimal => "decimal",
        Encoding::Dictionary => "dictionary",
        Encoding::Bits => "bits",
        Encoding::Fixed => "plain",
        Encoding::Strings => "strings",
    };
    let is_fixed = matches!(
        frame.encoding,
        Encoding::Narrow | Encoding::Decimal | Encoding::Dictionary | Encoding::Fixed
    );
    if is_fixed && frame.width > 0 { format!("{name}({})", frame.width) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use tidegate_model::layout::{Region, Zone};
    use tidegate_model::{ColumnId, ColumnType};

    use super::*;

    fn frame(encoding: Encoding, width: u8) -> FrameFooter {
        FrameFooter {
            encoding,
            width,
            scale: 0,
            has_validity: false,
            exceptions: 0,
            base: 0,
            step: 1,
            region: Region { offset: 64, bytes: 100, crc: 0 },
        }
    }

    #[test]
    fn encodings_are_listed_with_their_share_of_page_frames() {
        let mut storage = ColumnStorage::default();
        let column = |frames| ColumnFooter {
            id: ColumnId(0),
            ty: ColumnType::Int64,
            null_count: 3,
            bounds: Zone::EMPTY,
            dictionary: None,
            string_table: Region::default(),
            zones: Region { offset: 64, bytes: 17, crc: 0 },
            frames,
        };
        storage.add(&column(vec![frame(Encoding::Narrow, 2); 3]));
        assert_eq!(storage.encodings(), "narrow(2)");
        storage.add(&column(vec![frame(Encoding::Constant, 0)]));
        assert_eq!(storage.encodings(), "narrow(2) 75%, constant 25%");
        assert_eq!((storage.nulls, storage.bytes), (6, 434));
        assert_eq!(ColumnStorage::default().encodings(), "");
    }
}
