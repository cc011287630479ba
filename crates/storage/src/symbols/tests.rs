//! Dictionaries compared with a plain list, their files, their memory, and the remains of failures.

use std::path::Path;

use proptest::prelude::{ProptestConfig, any, proptest};
use tidegate_model::TableId;
use tidegate_model::bytes::ByteWriter;
use tidegate_platform::{Disk, OpenMode, RealDisk, SimCall, SimDisk, SimErrno};

use super::file::{MAPPED_BYTES_MIN, encode_header};
use super::*;

const TABLE: TableId = TableId(5);
const COLUMN: ColumnId = ColumnId(2);
const OF: SymbolColumn = SymbolColumn { table: TABLE, column: COLUMN };
const DIR: &str = "/symbols";

fn open(disk: &SimDisk, watermark: SymbolWatermark) -> crate::Result<Dictionary> {
    open_within(disk, watermark, u64::MAX)
}

/// A dictionary that takes no new strings when it has more than `bytes_max` of memory.
fn open_within(
    disk: &SimDisk,
    watermark: SymbolWatermark,
    bytes_max: u64,
) -> crate::Result<Dictionary> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let memory = Arc::new(MemoryBudget::new(bytes_max));
    Dictionary::open(&disk, Path::new(DIR), OF, watermark, &memory)
}

/// Different strings of `width` bytes.
fn numbered(from: usize, to: usize, width: usize) -> Vec<String> {
    (from..to).map(|n| format!("{n:0width$}")).collect()
}

fn bytes_of(values: &[String]) -> Vec<&[u8]> {
    values.iter().map(|text| text.as_bytes()).collect()
}

/// Asserts that a table has these values, by id and by string.
#[track_caller]
fn check(table: &SymbolTable, expected: &[&[u8]]) {
    assert_eq!(texts(table), expected, "symbols-2");
    for (position, text) in expected.iter().enumerate() {
        let id = SymbolId(u32::try_from(position).unwrap());
        assert_eq!((table.find(text), table.text(id)), (Some(id), *text));
    }
    assert_eq!(table.find(b"never seen"), None);
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
            check(&table, &bytes_of(&model));
            assert!(table.parts.len() <= 8, "{} parts", table.parts.len());
        }
    }

    #[test]
    fn saved_and_fresh_parts_are_one_list(
        steps in proptest::collection::vec(
            (proptest::collection::vec("[a-d]{0,5}", 0..60), 0..6),
            1..14,
        ),
        // With the widest strings, parts are mapped.
        width in 0..3_usize,
    ) {
        let width = [0, 100, 2_000][width];
        let disk = new_disk(1);
        let mut watermark = SymbolWatermark::default();
        let mut dictionary = open(&disk, watermark).unwrap();
        let mut model: Vec<String> = Vec::new();
        let mut earlier = Vec::new();
        for (batch, action) in &steps {
            let batch: Vec<String> = batch.iter().map(|text| format!("{text:-<width$}")).collect();
            let given = dictionary.intern(&bytes_of(&batch)).unwrap();
            for (text, id) in batch.iter().zip(given) {
                let position = model.iter().position(|known| known == text);
                let position = position.unwrap_or_else(|| {
                    model.push(text.clone());
                    model.len() - 1
                });
                assert_eq!(id.0 as usize, position, "symbols-1");
            }
            match action {
                0 => {}
                1..4 => watermark = dictionary.save().unwrap_or(watermark),
                4 => {
                    disk.fail_sync_at(1);
                    watermark = dictionary.save().unwrap_or(watermark);
                }
                _ => {
                    model.truncate(watermark.count as usize);
                    dictionary = open(&disk, watermark).unwrap();
                }
            }
            earlier.push((dictionary.table(), model.clone()));
        }
        disk.clear_faults();
        watermark = dictionary.save().unwrap();
        let reopened = open(&disk.after_power_loss(), watermark).unwrap();
        earlier.extend([(dictionary.table(), model.clone()), (reopened.table(), model)]);
        for (table, model) in earlier {
            check(&table, &bytes_of(&model));
            assert!(table.parts.len() <= 16, "{} parts", table.parts.len());
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
        let mut w = ByteWriter(encode_header(OF));
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
fn a_watermark_that_is_not_the_end_of_a_symbol_range_is_an_error() {
    let (bytes, watermark) = sample();
    for end in 1..watermark.bytes {
        for count in 0..=watermark.count {
            let wrong = SymbolWatermark { count, bytes: end };
            let is_symbol_range = decode(&bytes, TABLE, COLUMN, wrong).is_ok();
            assert_eq!(
                is_symbol_range,
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
fn large_dictionaries_are_cut_into_symbol_ranges() {
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

/// Many small commits make many symbol ranges, whose headers are between the strings of a part.
#[test]
fn strings_that_are_saved_one_by_one_are_in_few_parts() {
    let disk = new_disk(1);
    let dictionary = open(&disk, SymbolWatermark::default()).unwrap();
    let values = numbered(0, 600, 400);
    let values = bytes_of(&values);
    let mut watermark = SymbolWatermark::default();
    for value in &values {
        dictionary.intern(&[*value]).unwrap();
        watermark = dictionary.save().unwrap();
    }
    assert!(watermark.bytes > 3 * MAPPED_BYTES_MIN, "some of them are mapped");
    let table = dictionary.table();
    assert!(table.parts.len() <= 11, "{} parts", table.parts.len());
    assert_eq!(table.fresh_bytes(), 0, "symbols-5");
    check(&table, &values);
    check(&open(&disk, watermark).unwrap().table(), &values);
}

/// A dictionary of 750,000 texts of 66 bytes took 200 MB for ever: all of them were on the heap, in
/// vectors that had room for twice as many. They are read from the file now.
#[test]
fn saved_strings_are_not_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let memory = Arc::new(MemoryBudget::new(u64::MAX));
    let open = |watermark| Dictionary::open(&disk, dir.path(), OF, watermark, &memory).unwrap();
    let values = numbered(0, 100_000, 66);
    let values = bytes_of(&values);
    let check = |dictionary: &Dictionary| {
        let table = dictionary.table();
        assert_eq!(texts(&table), values, "symbols-5");
        let bytes = table.heap_bytes();
        assert!(bytes < 16 * values.len(), "symbols-5: {bytes} bytes");
        assert_eq!(memory.used_bytes(), bytes as u64, "dictionary-3");
    };
    let dictionary = open(SymbolWatermark::default());
    let mut watermark = SymbolWatermark::default();
    for values in values.chunks(7_000) {
        dictionary.intern(values).unwrap();
        watermark = dictionary.save().unwrap();
    }
    check(&dictionary);
    drop(dictionary);
    assert_eq!(memory.used_bytes(), 0, "dictionary-3");
    check(&open(watermark));
}

#[test]
fn older_tables_keep_their_strings_when_the_file_is_written_anew() {
    let disk = new_disk(1);
    let dictionary = open(&disk, SymbolWatermark::default()).unwrap();
    let values = numbered(0, 5_000, 100);
    let values = bytes_of(&values);
    let mut tables = Vec::new();
    let mut watermark = SymbolWatermark::default();
    for (step, values) in values.chunks(1_000).enumerate() {
        dictionary.intern(values).unwrap();
        tables.push(dictionary.table());
        if step % 2 == 1 {
            disk.fail_sync_at(1);
            dictionary.save().unwrap_err();
            tables.push(dictionary.table());
        }
        watermark = dictionary.save().unwrap();
        tables.push(dictionary.table());
    }
    for table in &tables {
        check(table, &values[..table.len()]);
    }
    let table = open(&disk.after_power_loss(), watermark).unwrap().table();
    check(&table, &values);
}

#[test]
fn a_file_that_cannot_be_mapped_or_read_fails_the_save_or_the_open_alone() {
    for (call, width) in [(SimCall::Map, 100), (SimCall::Read, 5)] {
        let disk = new_disk(1);
        let fail = || disk.fail_call_at(call, 1, SimErrno::NoMemory, false);
        let dictionary = open(&disk, SymbolWatermark::default()).unwrap();
        let values = numbered(0, 2_000, width);
        let values = bytes_of(&values);
        let mut watermark = SymbolWatermark::default();
        // A new file, and one that is appended to.
        for values in values.chunks(1_000) {
            dictionary.intern(values).unwrap();
            fail();
            let error = dictionary.save().unwrap_err();
            assert!(matches!(error, Error::Disk { .. }), "{call:?}: {error:?}");
            let power_loss = open(&disk.after_power_loss(), watermark).unwrap().table();
            assert_eq!(power_loss.len(), watermark.count as usize, "dictionary-2");
            watermark = dictionary.save().unwrap();
            assert_eq!(dictionary.table().fresh_bytes(), 0, "symbols-5");
        }
        check(&dictionary.table(), &values);
        fail();
        let error = open(&disk, watermark).unwrap_err();
        assert!(matches!(error, Error::Disk { .. }), "{call:?}: {error:?}");
        check(&open(&disk, watermark).unwrap().table(), &values);
    }
}

#[test]
fn new_strings_are_refused_while_dictionaries_have_too_much_memory() {
    let disk = new_disk(1);
    let dictionary = open_within(&disk, SymbolWatermark::default(), 10_000).unwrap();
    let values = numbered(0, 1_000, 100);
    let values = bytes_of(&values);
    let error = dictionary.intern(&values).unwrap_err().to_string();
    let begin =
        "column `#2` takes no new symbols, because the dictionaries of SYMBOL columns have ";
    let end = " of memory, and their limit is 9.8 KiB: make it a VARCHAR, or raise memory.limit";
    assert!(error.starts_with(begin) && error.ends_with(end), "{error}");
    let known = dictionary.table().len();
    assert!((10..100).contains(&known), "{known} strings");
    assert_eq!(dictionary.intern(&values[..known]).unwrap().len(), known, "dictionary-3");
    dictionary.intern_and_freeze(&values[..known + 1]).unwrap_err();
    let watermark = dictionary.save().unwrap();
    // What is there is always read.
    let full = open_within(&disk, watermark, 0).unwrap();
    assert_eq!(full.intern(&values[..known]).unwrap().len(), known, "dictionary-3");
    full.intern(&values[..known + 1]).unwrap_err();
    let mut texts = BatchTexts::default();
    texts.push(values[known]);
    let first = u32::try_from(known).unwrap();
    full.replay(&SymbolTexts { column: COLUMN, first, texts }).unwrap();
    check(&full.table(), &values[..known + 1]);
}

/// The strings of a large import are in memory until its commit. They are saved before it is
/// refused, because what remains in memory is a fraction of them.
#[test]
fn new_strings_are_saved_before_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let memory = Arc::new(MemoryBudget::new(4 << 20));
    let empty = SymbolWatermark::default();
    let dictionary = Dictionary::open(&disk, dir.path(), OF, empty, &memory).unwrap();
    let values = numbered(0, 100_000, 66);
    let values = bytes_of(&values);
    assert_eq!(dictionary.intern(&values).unwrap(), ids(0, 100_000), "dictionary-3");
    assert_eq!(texts(&dictionary.table()), values);
    let watermark = dictionary.save().unwrap();
    assert!(memory.used_bytes() < 2 << 20, "{} bytes", memory.used_bytes());
    let again = Dictionary::open(&disk, dir.path(), OF, watermark, &memory).unwrap();
    assert_eq!(texts(&again.table()), values);
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

#[test]
fn the_end_of_a_symbol_range_is_found_by_the_number_of_values() {
    let disk = new_disk(1);
    let dictionary = open(&disk, SymbolWatermark::default()).unwrap();
    let mut ends = Vec::new();
    for (from, to) in [(0, 3), (3, 4), (4, 9)] {
        dictionary.intern(&bytes_of(&numbered(from, to, 7))).unwrap();
        ends.push(dictionary.save().unwrap());
    }
    let bytes = disk.read(&Path::new(DIR).join(file_name(COLUMN))).unwrap();
    for count in 1..=9 {
        let expected = ends.iter().find(|end| count <= end.count);
        assert_eq!(end_with(&bytes, count).as_ref(), expected, "{count}");
    }
    assert_eq!(end_with(&bytes, 10), None);
    assert_eq!(end_with(&bytes[..bytes.len() - 1], 9), None);
}
