//! Tests of the order, the dictionaries and the compression of strings.

use super::*;

#[test]
fn texts_are_ordered_as_their_bytes() {
    let mut texts: Vec<Vec<u8>> = vec![];
    let mut seed = 5_u64;
    for _ in 0..4_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let shared = (seed >> 60) as usize * 3;
        let mut text = vec![b'h'; shared];
        text.extend((0..(seed >> 40) % 12).map(|i| (seed >> (i % 5 * 3)) as u8 % 3));
        texts.push(text);
    }
    texts.sort();
    texts.dedup();
    let mut views: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    views.reverse();
    views.swap(3, 700);
    let order = text_order(&views);
    let sorted: Vec<&[u8]> = order.iter().map(|&id| views[id as usize]).collect();
    assert!(sorted.is_sorted(), "strings-1");
    assert_eq!(sorted.len(), texts.len());
}

/// Passes strings of so many random letters until the compressor is trained or will not be.
fn train(compressor: &StringCompressor, letters: usize, length: usize) -> bool {
    let mut seed = 7_u64;
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % letters
    };
    for _ in 0..20_000 {
        let mut text = || (0..length).map(|_| letter().to_le_bytes()[0]).collect::<Vec<_>>();
        let texts: Vec<Vec<u8>> = (0..16).map(|_| text()).collect();
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let is_worthwhile = compressor.is_worthwhile(&texts);
        let collected = compressor.collected.lock().unwrap();
        let held = collected.bytes.capacity() + collected.ends.capacity() * size_of::<u32>();
        assert!(held <= COMPRESSOR_BYTES, "strings-3: {held}");
        if compressor.trained.get().is_some() || compressor.has_begun.get() == Some(&false) {
            return is_worthwhile;
        }
    }
    panic!("there are enough strings");
}

// Each string for training was an allocation of its own, and only its bytes were counted: short
// strings of 1,500 columns took a gigabyte.
#[test]
fn a_compressor_holds_few_bytes_of_short_strings() {
    for length in [1, 2, 9, 100, 5_000] {
        train(&StringCompressor::default(), 3, length);
    }
    let text = vec![b'x'; 3 << 20];
    StringCompressor::default().is_worthwhile(&[&text, &text, &text]);
    assert!(train(&StringCompressor::default(), 3, 40), "strings-2");
}

#[test]
fn so_many_compressors_begin_as_the_count_says() {
    let count = CompressorCount::within(2 * COMPRESSOR_BYTES as u64);
    let compressor = || StringCompressor::counted(&count);
    let compressors = [compressor(), compressor(), compressor(), compressor(), compressor()];
    assert!(train(&compressors[0], 3, 40));
    // It is not worthwhile, and holds nothing afterwards.
    assert!(!train(&compressors[1], 256, 40));
    assert!(train(&compressors[2], 3, 40));
    assert!(!train(&compressors[3], 3, 40), "strings-3");
    assert!(!compressors[3].is_to_be_trained());
    let texts = [&[b'x'; 40_000][..]; 2];
    assert!(!pack(&texts, &compressors[4]).compressed, "strings-3");
}
