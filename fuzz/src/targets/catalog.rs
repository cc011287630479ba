//! Bytes are a catalog or an error, and a catalog is encoded to itself.

use tidegate_storage::catalog::decode;

use super::checksum::envelope;

pub(crate) fn check(bytes: &[u8]) {
    for file in [bytes, &envelope(b"TIDECAT\0", bytes)] {
        if let Ok(catalog) = decode(file) {
            assert_eq!(catalog.encode(), file);
        }
    }
}
