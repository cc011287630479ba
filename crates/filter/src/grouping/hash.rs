//! Hashes of keys and of texts.

const FIRST: u64 = 0xA076_1D64_78BD_642F;
const SECOND: u64 = 0xE703_7ED1_A0B4_28DB;
const THIRD: u64 = 0x8EBC_6AF0_9C88_C6E3;

/// The hash of NULL.
pub(super) const HASH_OF_NULL: u64 = 0x5896_79D7_2F36_41C5;

/// Mixes two hashes.
#[must_use]
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    let [low, high] = halves(u128::from(a ^ FIRST) * u128::from(b ^ SECOND));
    low ^ high
}

/// The hash of a packed key. Without the seed no keys with the same hash can be chosen.
#[must_use]
#[inline]
pub fn hash_of_key(seed: u64, key: u128) -> u64 {
    let [low, high] = halves(key);
    mix(mix(low ^ seed, THIRD), high)
}

/// The hash of bytes: each step takes two words, of which the seed hides one.
#[inline]
pub(super) fn hash_of_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<16>();
    let mut hash = mix(bytes.len() as u64 ^ seed, THIRD);
    for pair in pairs {
        let [low, high] = halves(u128::from_le_bytes(*pair));
        hash = mix(low ^ seed, high ^ hash);
    }
    let first = rest.first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first));
    mix(mix(first ^ seed, last_word(rest) ^ hash), seed)
}

/// The last eight bytes; of fewer, a word that differs if they do.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    if let Some(last) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*last);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>(), bytes) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        (.., []) => 0,
        (.., [first, .., last]) => {
            let middle = bytes[bytes.len() / 2];
            u64::from(*first) << 16 | u64::from(middle) << 8 | u64::from(*last)
        }
        (.., [only]) => u64::from(*only),
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of a word")]
fn halves(word: u128) -> [u64; 2] {
    [word as u64, (word >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_and_texts_that_differ_a_little_have_other_hashes() {
        let bits = (0..128).map(|bit| hash_of_key(5, 1 << bit)).chain([hash_of_key(5, 0)]);
        assert_eq!(bits.collect::<HashSet<_>>().len(), 129);
        let text = [b'a'; 40];
        let mut all = HashSet::new();
        for length in 0..text.len() {
            assert!(all.insert(hash_of_bytes(5, &text[..length])), "{length}");
            for at in 0..length {
                let mut other = text[..length].to_vec();
                other[at] = b'b';
                assert!(all.insert(hash_of_bytes(5, &other)), "{length}: {at}");
            }
        }
    }
}
