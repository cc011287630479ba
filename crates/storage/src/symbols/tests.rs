//! Dictionaries compared with a plain list, their files, and the remains of failures.

use std::path::Path;

use proptest::prelude::{ProptestConfig, any, proptest};
use tidegate_platform::{Disk, OpenMode, SimDisk};

use super::*;

const TABLE: TableId = TableId(5);
const COLUMN: ColumnId = ColumnId(2);
const DIR: &str = "/symbols";

fn open(disk: &SimDisk, watermark: SymbolWatermark) -> crate::Result<Dictionary> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Dictionary::open(&disk, Path::new(DIR), TABLE, COLUMN, watermark)
}

fn new_disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn ids(from: u32, to: u32) -> Vec<SymbolId> {
    (from..to).map(SymbolId).collect()
}

fn texts(table: &SymbolTable) -> Vec<&[u8]> {
    table.texts().collect()
}

fn file(disk: &SimDisk) -> std::path::PathBuf {
    let path = Path::new(DIR).join(file_name(COLUMN));
    assert!(disk.exists(&path).unwrap());
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_dictionary_is_a_list_without_doubles(
        batches in proptest::collection::vec(proptest::collection::vec("[ab]{0,6}", 0..40), 0..12),
        freezes: u16,
    ) {
        let dictionary = open(&new_disk(1), SymbolWatermark::default()).unwrap();
        let mut model: Vec<String> = Vec::new();
        let mut earlier = Vec::new();
        for (step, batch) in batches.iter().enumerate() {
            let values: Vec<&[u8]> = batch.iter().map(|text| text.as_bytes()).collect();
            let given = dictionary.intern(&values).unwrap();
            for (text, id) in batch.iter().zip(given) {
                let position = model.iter().position(|known| known == text);
                let position = position.unwrap_or_else(|| {
                    model.push(text.clone());
                    model.len() - 1
                });
                assert_eq!(id.0 as usize, position, "symbols-1");
            }
            if freezes >> step & 1 == 1 {
                earlier.push((dictionary.table(), model.clone()));
            }
        }
        earlier.push((dictionary.table(), model));
        for (table, model) in earlier {
            let expected: Vec<&[u8]> = model.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(texts(&table), expected, "symbols-2");
            for (position, text) in expected.iter().enumerate() {
                let id = SymbolId(u32::try_from(position).unwrap());
                assert_eq!((table.find(text), table.text(id)), (Some(id), *text));
            }
            assert_eq!(table.find(b"never seen"), None);
            assert!(table.parts.len() <= 8, "{} parts", table.parts.len());
        }
    }

    #[test]
    fn a_damaged_file_is_an_error(at: usize, xor in 1_u8..) {
        let (bytes, watermark) = sample();
        let mut damaged = bytes.clone();
        damaged[at % bytes.len()] ^= xor;
        assert!(decode(&damaged, TABLE, COLUMN, watermark).is_err());
    }

    #[test]
    fn foreign_bytes_are_no_panic(bytes: Vec<u8>, count: u32, text in any::<[u8; 32]>()) {
        let watermark = SymbolWatermark { count, bytes: bytes.len() as u64 };
        let _ = decode(&bytes, TABLE, COLUMN, watermark);
        // After a valid header and a valid checksum.
        let mut w = ByteWriter(encode_header(TABLE, COLUMN));
        let mut fields = ByteWriter::default();
        fields.u32(0).u32(count % 9).u32(u32::try_from(bytes.len()).unwrap());
        let body = [&text[..(count % 9) as usize % 8 * 4], &bytes].concat();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&fields.0), &body);
        w.raw(&fields.0).u32(crc).raw(&body);
        let watermark = SymbolWatermark { count: count % 9, bytes: w.0.len() as u64 };
        let _ = decode(&w.0, TABLE, COLUMN, watermark);
    }
}

fn sample() -> (Vec<u8>, SymbolWatermark) {
    let disk = new_disk(1);
    let dictionary = open(&disk, SymbolWatermark::default()).unwrap();
    dictionary.intern(&[b"one", b"", b"two"]).unwrap();
    dictionary.save().unwrap();
    dictionary.intern(&[b"three", b"one"]).unwrap();
    let watermark = dictionary.save().unwrap();
    (disk.read(&file(&disk)).unwrap(), watermark)
}

#[test]
fn saved_symbols_are_read_again_although_other_bytes_follow() {
    let (mut bytes, watermark) = sample();
    assert_eq!(watermark, SymbolWatermark { count: 4, bytes: bytes.len() as u64 });
    bytes.extend_from_slice(b"what a crash left");
    let table = decode(&bytes, TABLE, COLUMN, watermark).unwrap();
    assert_eq!(texts(&table), [&b"one"[..], b"", b"two", b"three"], "symbols-4");
    for (table, column) in [(TableId(1), COLUMN), (TABLE, ColumnId(1))] {
        assert!(decode(&bytes, table, column, watermark).is_err());
    }
}

#[test]
fn a_watermark_that_is_not_the_end_of_an_extent_is_an_error() {
    let (bytes, watermark) = sample();
    for end in 1..watermark.bytes {
        for count in 0..=watermark.count {
            let wrong = SymbolWatermark { count, bytes: end };
            let is_extent = decode(&bytes, TABLE, COLUMN, wrong).is_ok();
            assert_eq!(
                is_extent,
                (count, end) == (3, 62) || (count, end) == (0, 28),
                "symbols-3 {wrong:?}"
            );
        }
    }
    assert!(
        decode(&bytes, TABLE, COLUMN, SymbolWatermark { bytes: watermark.bytes + 1, ..watermark })
            .is_err()
    );
}

#[test]
fn large_dictionaries_are_cut_into_extents() {
    let disk = new_disk(1);
    let dictionary = open(&disk, SymbolWatermark::default()).unwrap();
    let long = "x".repeat(limits::SYMBOL_BYTES - 5);
    let values: Vec<String> = (0..70_000_u32)
        .map(|n| if n % 2_000 == 0 { format!("{n:05}{long}") } else { format!("{n}") })
        .collect();
    let values: Vec<&[u8]> = values.iter().map(|text| text.as_bytes()).collect();
    assert_eq!(dictionary.intern(&values).unwrap(), ids(0, 70_000));
    let watermark = dictionary.save().unwrap();
    let table = open(&disk, watermark).unwrap().table();
    assert_eq!(texts(&table), values);
}

#[test]
fn symbols_that_are_too_long_or_not_utf_8_are_refused() {
    let dictionary = open(&new_disk(1), SymbolWatermark::default()).unwrap();
    let long = vec![b'x'; limits::SYMBOL_BYTES + 1];
    let refused = |text: &[u8]| dictionary.intern(&[b"good", text]).unwrap_err().to_string();
    assert_eq!(refused(&long), "a symbol of 65537 bytes exceeds the limit of 65536 bytes");
    assert_eq!(refused(b"ab\xff"), "a symbol is not UTF-8 at byte 2");
    // The strings before it are harmless.
    assert_eq!(dictionary.intern(&[b"good", &long[1..]]).unwrap(), ids(0, 2));
}

#[test]
fn threads_that_see_the_same_texts_get_the_same_ids() {
    let dictionary = open(&new_disk(1), SymbolWatermark::default()).unwrap();
    let intern = |from: usize| {
        let texts: Vec<String> = (0..2_000).map(|n| format!("{}", (n + from) % 2_000)).collect();
        let mut ids = vec![SymbolId(0); 2_000];
        for (at, text) in texts.iter().enumerate() {
            ids[(at + from) % 2_000] = dictionary.intern(&[text.as_bytes()]).unwrap()[0];
        }
        ids
    };
    let (a, b) = std::thread::scope(|scope| {
        let other = scope.spawn(|| intern(700));
        (intern(0), other.join().unwrap())
    });
    assert_eq!(a, b, "symbols-1");
    assert_eq!(dictionary.table().len(), 2_000);
}

#[test]
fn a_failed_write_or_sync_loses_nothing_that_was_saved_later() {
    // The third save fails, at each of its calls; then everything is saved, and power fails.
    for seed in 0..20 {
        for (writes, nth) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
            let disk = new_disk(seed);
            let dictionary = open(&disk, SymbolWatermark::default()).unwrap();
            dictionary.intern(&[b"a", b"b"]).unwrap();
            let first = dictionary.save().unwrap();
            dictionary.intern(&[b"c"]).unwrap();
            if writes {
                disk.fail_write_at(nth)
            } else {
                disk.fail_sync_at(nth)
            }
            let failed = dictionary.save();
            assert_eq!(failed.is_err(), nth == 1);
            dictionary.intern(&[b"d"]).unwrap();
            let syncs = disk.syncs();
            let again = dictionary.save();
            // A file whose sync has failed is not used again: a new one is synced, and its name.
            let expected = match (writes, nth) {
                (true, 2) => 0,
                (false, 1) => 2,
                _ => 1,
            };
            assert_eq!(disk.syncs() - syncs, expected, "dictionary-1");
            let watermark = if nth == 2 { dictionary.save() } else { again }.unwrap();
            assert!(first < watermark);
            let disk = disk.after_power_loss();
            let table = open(&disk, watermark).unwrap().table();
            assert_eq!(texts(&table), [b"a", b"b", b"c", b"d"], "dictionary-1, seed {seed}");
            let earlier = open(&disk, first).unwrap().table();
            assert_eq!(texts(&earlier), [b"a", b"b"], "symbols-3, seed {seed}");
        }
    }
}

#[test]
fn unsaved_symbols_may_be_lost_and_are_overwritten() {
    for seed in 0..50 {
        let disk = new_disk(seed);
        let dictionary = open(&disk, SymbolWatermark::default()).unwrap();
        dictionary.intern(&[b"a"]).unwrap();
        let watermark = dictionary.save().unwrap();
        dictionary.intern(&[&[b'x'; 3_000][..]]).unwrap();
        disk.crash_at_sync(1);
        dictionary.save().unwrap_err();
        let disk = disk.after_power_loss();
        // The next open cuts it; here it stays, which is the worst case.
        let dictionary = open(&disk, watermark).unwrap();
        assert_eq!(texts(&dictionary.table()), [b"a"], "symbols-4");
        dictionary.intern(&[b"b"]).unwrap();
        let watermark = dictionary.save().unwrap();
        let table = open(&disk.after_power_loss(), watermark).unwrap().table();
        assert_eq!(texts(&table), [b"a", b"b"], "seed {seed}");
    }
}

#[test]
fn a_missing_or_short_file_is_an_error() {
    let (_, watermark) = sample();
    let disk = new_disk(1);
    assert!(matches!(open(&disk, watermark), Err(crate::Error::Corrupt { .. })));
    let path = Path::new(DIR).join(file_name(COLUMN));
    disk.open(&path, OpenMode::CreateNew).unwrap().write_all_at(b"short", 0).unwrap();
    assert!(matches!(open(&disk, watermark), Err(crate::Error::Corrupt { .. })));
}

#[test]
fn only_our_names_are_symbol_files() {
    assert_eq!(parse_file_name(&file_name(COLUMN)), Some(COLUMN));
    for name in ["02.sym", "2.sym.tmp", "x.sym", "2"] {
        assert_eq!(parse_file_name(name), None, "{name}");
    }
}
