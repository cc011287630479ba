//! CRC32C by its definition, so that the inputs of a fuzzer pass the checksums and reach the code
//! behind them.

/// The CRC32C of these bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |crc: u32, byte: &u8| {
        let index = (crc ^ u32::from(*byte)) & 0xFF;
        crc >> 8 ^ TABLE[index as usize]
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[expect(clippy::cast_possible_truncation, reason = "below 256")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// A checksummed file around a body: docs/format.md, Checksummed files.
pub(crate) fn checksummed_file(magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    checksummed_file_of(1, magic, body)
}

/// As `checksummed_file`, of the given version.
pub(crate) fn checksummed_file_of(version: u32, magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let mut file = magic.to_vec();
    file.extend_from_slice(&version.to_le_bytes());
    file.extend_from_slice(&(body.len() as u64).to_le_bytes());
    file.extend_from_slice(body);
    let crc = crc32c(&file);
    file.extend_from_slice(&crc.to_le_bytes());
    file
}
