//! Parser of hex digits, in either case, eight at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x80 * ONES;

/// Decodes two digits to each byte of `out`. Returns false if a byte of `digits` is not a hex
/// digit, or if there are not exactly two for each byte of `out`.
pub(super) fn decode_hex(digits: &[u8], out: &mut [u8]) -> bool {
    if digits.len() != out.len() * 2 {
        return false;
    }
    let (eights, rest) = digits.as_chunks::<8>();
    let (fours, ends) = out.as_chunks_mut::<4>();
    let mut are_digits = true;
    for (eight, four) in eights.iter().zip(fours) {
        let (value, is_hex) = decode_eight(u64::from_le_bytes(*eight));
        *four = value.to_le_bytes();
        are_digits &= is_hex;
    }
    // Fewer than eight digits are padded with zeros.
    let mut last = [b'0'; 8];
    last[..rest.len()].copy_from_slice(rest);
    let (value, is_hex) = decode_eight(u64::from_le_bytes(last));
    ends.copy_from_slice(&value.to_le_bytes()[..ends.len()]);
    are_digits & is_hex
}

/// Decodes eight digits to four bytes, the first one lowest; the flag is true if all eight were
/// digits.
#[inline]
pub(super) fn decode_eight(text: u64) -> (u32, bool) {
    // For each byte below 128: the addition sets the high bit if the byte is at least `bound`, and
    // never carries into the next byte.
    let from = |word: u64, bound: u64| (word & !HIGH_BITS).wrapping_add((0x80 - bound) * ONES);
    let lower = text | (0x20 * ONES);
    let numerals = from(text, 0x30) & !from(text, 0x3A) & HIGH_BITS;
    let letters = from(lower, 0x61) & !from(lower, 0x67) & HIGH_BITS;
    let is_hex = (numerals | letters) & !text & HIGH_BITS == HIGH_BITS;
    let nibbles = (text & (0x0F * ONES)).wrapping_add((letters >> 7) * 9);
    // Pairs of nibbles become bytes, and the bytes are packed.
    let bytes = (nibbles << 4 | nibbles >> 8) & 0x00FF_00FF_00FF_00FF;
    let pairs = (bytes | bytes >> 8) & 0x0000_FFFF_0000_FFFF;
    let value = (pairs | pairs >> 16) & 0xFFFF_FFFF;
    (u32::try_from(value).expect("masked"), is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_is_a_digit_or_not() {
        for len in [2, 8, 14] {
            for place in 0..len {
                for byte in 0..=u8::MAX {
                    let mut text = b"0123456789abcdef"[..len].to_vec();
                    text[place] = byte;
                    let mut out = vec![0; len / 2];
                    let is_hex = decode_hex(&text, &mut out);
                    assert_eq!(is_hex, byte.is_ascii_hexdigit(), "{byte} at {place} of {len}");
                    if is_hex {
                        let value = |digit: u8| char::from(digit).to_digit(16).expect("hex");
                        let pairs = text.chunks(2).map(|pair| value(pair[0]) * 16 + value(pair[1]));
                        assert!(pairs.eq(out.iter().map(|&byte| u32::from(byte))));
                    }
                }
            }
        }
        assert!(decode_hex(b"", &mut []));
        assert!(!decode_hex(b"0", &mut []));
    }
}
