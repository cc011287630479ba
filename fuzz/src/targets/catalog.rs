//! Any bytes are a catalog or an error, in either version, and encoding a catalog gives its bytes.

use tidegate_storage::catalog::decode;

use super::checksum::checksummed_file_of;

pub(crate) fn check(bytes: &[u8]) {
    let of = |version| checksummed_file_of(version, b"TIDECAT\0", bytes);
    for file in [bytes, &of(1), &of(2)] {
        if let Ok(catalog) = decode(file) {
            assert_eq!(decode(&catalog.encode()), Ok(catalog));
        }
    }
}
