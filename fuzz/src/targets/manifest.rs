//! Any bytes are a manifest or an error, in either version, and encoding a manifest gives its
//! bytes.

use tidegate_model::TableId;
use tidegate_storage::manifest::decode;

use super::checksum::checksummed_file_of;

/// The table of the manifests.
const TABLE: TableId = TableId(1);

pub(crate) fn check(bytes: &[u8]) {
    let of = |version| checksummed_file_of(version, b"TIDEMAN\0", bytes);
    for file in [bytes, &of(1), &of(2)] {
        if let Ok(manifest) = decode(file, TABLE) {
            let again = decode(&manifest.encode(), TABLE);
            assert_eq!(again, Ok(manifest));
        }
    }
}
