//! Bytes are a manifest or an error, and a manifest is encoded to itself.

use tidegate_model::TableId;
use tidegate_storage::manifest::decode;

use super::checksum::envelope;

/// The table whose manifests these are.
const TABLE: TableId = TableId(1);

pub(crate) fn check(bytes: &[u8]) {
    for file in [bytes, &envelope(b"TIDEMAN\0", bytes)] {
        if let Ok(manifest) = decode(file, TABLE) {
            let again = decode(&manifest.encode(), TABLE);
            assert_eq!(again, Ok(manifest));
        }
    }
}
