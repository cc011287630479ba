//! Any bytes are a deletion vector or an error, and a deletion vector has an answer for every row.

use tidegate_model::{SegmentId, TableId};
use tidegate_storage::deletion_vector::decode;

use super::checksum::checksummed_file;

const TABLE: TableId = TableId(1);
const SEGMENT: SegmentId = SegmentId(2);

pub(crate) fn check(bytes: &[u8]) {
    for file in [bytes, &checksummed_file(b"TIDEMSK\0", bytes)] {
        if let Ok(mask) = decode(file, TABLE, SEGMENT) {
            let live = (0..mask.rows().0).filter(|&row| mask.is_live(row)).count() as u64;
            assert_eq!(live, mask.live().0);
            let again = decode(&mask.encode(TABLE, SEGMENT), TABLE, SEGMENT);
            assert_eq!(again, Ok(mask));
        }
    }
}
