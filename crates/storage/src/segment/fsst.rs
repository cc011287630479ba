//! FSST compression of strings: each string is compressed separately, with a table of up to 255
//! symbols of 1 to 8 bytes.
//!
//! - fsst-1. A table's bytes are: count, a length per symbol, eight bytes per symbol.
//! - fsst-2. `decompress(compress(s)) == s`, for each string on its own.
//!
//! The algorithm is in the `fsst` library. Not here: the decision to compress (`strings`).

#![expect(unsafe_code, reason = "fsst writes into spare capacity")]

use fsst::{Compressor, Decompressor, Symbol};

/// Bytes of sampled strings; a larger sample does not improve the table.
const TRAINING_BYTES: usize = 64 << 10;

/// A trained table, ready to compress.
pub(super) struct Encoder(Compressor);

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoder({} symbols)", self.0.n_symbols())
    }
}

impl Encoder {
    /// Trains on strings spread evenly over `count` of them.
    pub(super) fn train<'a>(count: usize, text: impl Fn(usize) -> &'a [u8]) -> Encoder {
        let mut sample: Vec<&[u8]> = Vec::new();
        let mut bytes = 0;
        // This stride has no common divisor with most counts, so that it visits all regions early.
        let stride = (count / 509).max(1);
        let mut index = 0;
        while index < count && bytes < TRAINING_BYTES {
            let value = text(index);
            if !value.is_empty() {
                sample.push(&value[..value.len().min(4_096)]);
                bytes += value.len().min(4_096);
            }
            index += stride;
        }
        Encoder(Compressor::train(&sample))
    }

    /// The bytes of the table (fsst-1).
    pub(super) fn table(&self) -> Vec<u8> {
        let symbols = self.0.symbol_table();
        let count = u8::try_from(symbols.len()).expect("an FSST table has at most 255 symbols");
        let mut bytes = vec![count];
        bytes.extend_from_slice(self.0.symbol_lengths());
        for symbol in symbols {
            bytes.extend_from_slice(&symbol.to_u64().to_le_bytes());
        }
        bytes
    }

    /// Appends the compressed form of every string, and its end to `ends`.
    pub(super) fn compress(&self, texts: &[&[u8]], out: &mut Vec<u8>, ends: &mut Vec<u64>) {
        self.0.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(texts, out, ends);
    }
}

/// Maximal length of a symbol of the table.
pub(super) const SYMBOL_BYTES: usize = 8;

/// Bytes from which a compressed string is measured before it is decompressed: memory for symbols
/// of the maximal length would be several times what it takes.
const MEASURED_FROM_BYTES: usize = 1 << 20;

/// A table, ready to decompress.
#[derive(Debug)]
pub(super) struct Decoder {
    symbols: Box<[Symbol; 255]>,
    lengths: Box<[u8; 255]>,
}

impl Decoder {
    /// The decoder of a table's bytes; `None` if they are not a table (fsst-1).
    pub(super) fn new(table: &[u8]) -> Option<Decoder> {
        let (&count, rest) = table.split_first()?;
        let count = count as usize;
        if rest.len() != count * 9 {
            return None;
        }
        let (lengths_given, symbols_given) = rest.split_at(count);
        // A code that the table does not define is decoded as one zero byte.
        let mut symbols = Box::new([Symbol::from_u8(0); 255]);
        let mut lengths = Box::new([1_u8; 255]);
        for (index, symbol) in symbols_given.as_chunks::<8>().0.iter().enumerate() {
            if !(1..=8).contains(&lengths_given[index]) {
                return None;
            }
            symbols[index] = Symbol::from_slice(symbol);
            lengths[index] = lengths_given[index];
        }
        Some(Decoder { symbols, lengths })
    }

    /// The first eight bytes of a compressed string after decompression, in the form of
    /// `zones::prefix`.
    #[inline]
    pub(super) fn prefix(&self, compressed: &[u8]) -> u64 {
        let (mut word, mut bits) = (0_u64, 0_u32);
        let mut codes = compressed.iter();
        while let Some(&code) = codes.next() {
            let (symbol, length) = match code {
                255 => (u64::from(codes.next().copied().unwrap_or_default()), 1),
                code => (self.symbols[code as usize].to_u64(), self.lengths[code as usize]),
            };
            word |= symbol << bits;
            bits += 8 * u32::from(length);
            if bits >= 64 {
                break;
            }
        }
        word.swap_bytes()
    }

    /// The length of a compressed string after decompression.
    pub(super) fn plain_bytes(&self, compressed: &[u8]) -> usize {
        let mut codes = compressed.iter();
        let mut bytes = 0;
        while let Some(&code) = codes.next() {
            bytes += match code {
                255 => codes.next().map_or(0, |_| 1),
                code => usize::from(self.lengths[code as usize]),
            };
        }
        bytes
    }

    /// Appends the decompressed form of a compressed string.
    pub(super) fn decompress(&self, compressed: &[u8], out: &mut Vec<u8>) {
        // An escape without its byte at the end occurs only in a damaged file, and is decoded as no
        // text.
        if ends_inside_an_escape(compressed) {
            return;
        }
        let decompressor = Decompressor::new(&self.symbols, &self.lengths);
        out.reserve(match compressed.len() {
            MEASURED_FROM_BYTES.. => self.plain_bytes(compressed) + SYMBOL_BYTES,
            _ => decompressor.max_decompression_capacity(compressed) + SYMBOL_BYTES,
        });
        let written = decompressor.decompress_into(compressed, out.spare_capacity_mut());
        // SAFETY: the function has initialised `written` bytes of the spare capacity.
        unsafe { out.set_len(out.len() + written) }
    }
}

fn ends_inside_an_escape(compressed: &[u8]) -> bool {
    // An escape takes the byte after it, so it is incomplete if an odd run of escapes ends the
    // string: a byte before such a run is either a code or itself escaped.
    let run = compressed.iter().rev().take_while(|&&code| code == 255).count();
    run % 2 == 1
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "test values are small")]
mod tests {
    use super::*;

    #[test]
    fn strings_of_every_length_survive_and_common_ones_shrink() {
        let texts: Vec<Vec<u8>> = (0..2_000_usize)
            .map(|i| format!("http://example.org/{}/{}", i % 37, "x".repeat(i % 50)).into_bytes())
            .chain((0..300).map(|len| vec![255_u8; len]))
            .chain((0..40).map(|len| (0..len).map(|i| (i as u8).wrapping_mul(31)).collect()))
            .collect();
        let encoder = Encoder::train(texts.len(), |i| &texts[i]);
        let decoder = Decoder::new(&encoder.table()).expect("a table");
        let (mut plain, mut packed) = (0, 0);
        let views: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let (mut compressed, mut ends) = (b"before".to_vec(), vec![6]);
        encoder.compress(&views, &mut compressed, &mut ends);
        for (text, end) in texts.iter().zip(ends.windows(2)) {
            let mut out = b"kept".to_vec();
            let (start, end) = (end[0] as usize, end[1] as usize);
            decoder.decompress(&compressed[start..end], &mut out);
            assert_eq!(&out[4..], text, "fsst-2");
            let mut first = [0; 8];
            let shown = text.len().min(8);
            first[..shown].copy_from_slice(&text[..shown]);
            assert_eq!(decoder.prefix(&compressed[start..end]), u64::from_be_bytes(first));
            plain += text.len();
            packed += end - start;
        }
        assert!(packed * 2 < plain, "{packed} of {plain}");
    }

    #[test]
    fn damaged_tables_and_strings_give_no_panic() {
        assert!(Decoder::new(&[]).is_none());
        assert!(Decoder::new(&[2, 1, 9]).is_none());
        let mut table = vec![1, 9];
        table.extend([0; 8]);
        assert!(Decoder::new(&table).is_none(), "a symbol of nine bytes");
        let decoder = Decoder::new(&[0]).expect("an empty table");
        for len in 0..64 {
            for fill in [0, 7, 254, 255] {
                let mut out = Vec::new();
                decoder.decompress(&vec![fill; len], &mut out);
            }
        }
    }
}
