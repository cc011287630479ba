//! Damaged Parquet files: for any bytes, an import gives rows or an error that names the file, and
//! allocates no memory for sizes that are only declared.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use tidegate_ingest::{ColumnSource, Error};
use tidegate_model::{ColumnType, PartitionUnit, Value};
use tidegate_platform::{Class, SimDisk};

use crate::fuzz::targets::parquet::import_of;
use crate::import::random::Random;
use crate::world::{World, schema_of};

/// A writer of Thrift's compact protocol: the fields of a struct, in ascending order.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

impl Thrift {
    fn field(mut self, id: u8, ty: u8) -> Thrift {
        self.bytes.push((id - self.last) << 4 | ty);
        self.last = id;
        self
    }

    fn varint(mut self, mut value: u64) -> Thrift {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
        self
    }

    fn i32(self, id: u8, value: u64) -> Thrift {
        self.field(id, 5).varint(value << 1)
    }

    fn i64(self, id: u8, value: u64) -> Thrift {
        self.field(id, 6).varint(value << 1)
    }

    fn name(self, id: u8, name: &str) -> Thrift {
        self.field(id, 8).text(name)
    }

    fn text(self, text: &str) -> Thrift {
        let mut thrift = self.varint(text.len() as u64);
        thrift.bytes.extend_from_slice(text.as_bytes());
        thrift
    }

    fn structure(self, id: u8, inner: Thrift) -> Thrift {
        let mut thrift = self.field(id, 12);
        thrift.bytes.extend_from_slice(&inner.end());
        thrift
    }

    fn list(self, id: u8, ty: u8, count: u64, items: &[u8]) -> Thrift {
        let mut thrift = self.field(id, 9);
        thrift.bytes.push(0xF0 | ty);
        thrift = thrift.varint(count);
        thrift.bytes.extend_from_slice(items);
        thrift
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

/// The numbers of physical types, encodings and codecs.
const INT64: u64 = 2;
const BYTE_ARRAY: u64 = 6;
const PLAIN: u64 = 0;
const DELTA_LENGTH: u64 = 6;
const RLE_DICTIONARY: u64 = 8;
const SNAPPY: u64 = 1;
const ZSTD: u64 = 6;

/// A file of one required column `v` in one row group, with the given metadata and pages.
struct OneColumn {
    physical: u64,
    codec: u64,
    rows: u64,
    pages: Vec<u8>,
}

impl OneColumn {
    fn file(&self) -> Vec<u8> {
        self.file_with(Thrift::default())
    }

    /// The file, whose column chunk begins with these fields.
    fn file_with(&self, chunk: Thrift) -> Vec<u8> {
        let mut file = b"PAR1".to_vec();
        file.extend_from_slice(&self.pages);
        let size = self.pages.len() as u64;
        let mut encodings = Thrift::default();
        encodings.bytes.push(0);
        let column = Thrift::default()
            .i32(1, self.physical)
            .list(2, 5, 1, &encodings.bytes)
            .list(3, 8, 1, &Thrift::default().text("v").bytes)
            .i32(4, self.codec)
            .i64(5, self.rows)
            .i64(6, size)
            .i64(7, size)
            .i64(9, 4);
        let chunk = chunk.i64(2, 4).structure(3, column).end();
        let group = Thrift::default().list(1, 12, 1, &chunk).i64(2, size).i64(3, self.rows).end();
        let leaf = Thrift::default().i32(1, self.physical).i32(3, 0).name(4, "v").end();
        let schema = [Thrift::default().name(4, "schema").i32(5, 1).end(), leaf].concat();
        let footer = Thrift::default()
            .i32(1, 1)
            .list(2, 12, 2, &schema)
            .i64(3, self.rows)
            .list(4, 12, 1, &group)
            .end();
        with_footer(file, &footer)
    }
}

fn with_footer(mut file: Vec<u8>, footer: &[u8]) -> Vec<u8> {
    file.extend_from_slice(footer);
    file.extend_from_slice(&u32::try_from(footer.len()).unwrap().to_le_bytes());
    file.extend_from_slice(b"PAR1");
    file
}

/// A page of data, whose header may declare a wrong size.
fn data_page(values: u64, encoding: u64, uncompressed: u64, bytes: &[u8]) -> Vec<u8> {
    let header = Thrift::default().i32(1, values).i32(2, encoding).i32(3, 3).i32(4, 3);
    let page = Thrift::default()
        .i32(1, 0)
        .i32(2, uncompressed)
        .i32(3, bytes.len() as u64)
        .structure(5, header);
    [page.end(), bytes.to_vec()].concat()
}

fn dictionary_page(values: u64, bytes: &[u8]) -> Vec<u8> {
    let size = bytes.len() as u64;
    let header = Thrift::default().i32(1, values).i32(2, PLAIN);
    let page = Thrift::default().i32(1, 2).i32(2, size).i32(3, size).structure(7, header);
    [page.end(), bytes.to_vec()].concat()
}

fn imported(bytes: &[u8], ty: ColumnType) -> Result<Vec<Vec<Value>>, Error> {
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let schema = schema_of(&[("v", ty)], None, PartitionUnit::None);
    let path = world.put("a.parquet", bytes);
    let outcome = world.import(&world.options(&schema, &[path]));
    world.check_sound("damaged");
    outcome.map(|_| world.rows())
}

#[track_caller]
fn refused(bytes: &[u8], ty: ColumnType, expected: &str) {
    let error = imported(bytes, ty).expect_err("it is damaged");
    let shown = error.to_string();
    assert!(shown.starts_with("/a.parquet: ") && shown.contains(expected), "{shown}");
    assert_eq!(error.class(), Class::Caller, "{shown}");
}

const PLACE: &str = "row group 1, column `v`: ";

#[test]
fn the_plain_file_of_these_tests_is_read() {
    let values = [5_i64, -1].map(i64::to_le_bytes).concat();
    let pages = data_page(2, PLAIN, 16, &values);
    let file = OneColumn { physical: INT64, codec: 0, rows: 2, pages }.file();
    let rows = imported(&file, ColumnType::Int64).unwrap();
    assert_eq!(rows, [[Value::Integer(5)], [Value::Integer(-1)]]);
}

// The file `_metadata` of a data set has the row groups of the other files: their places were
// looked up in this file, whose bytes would have been taken for pages if it was long enough.
#[test]
fn columns_in_another_file_are_refused() {
    let pages = data_page(2, PLAIN, 16, &[5_i64, -1].map(i64::to_le_bytes).concat());
    let file = OneColumn { physical: INT64, codec: 0, rows: 2, pages };
    let bytes = file.file_with(Thrift::default().name(1, "part.0.parquet"));
    let shown = format!("{PLACE}its values are in another file, part.0.parquet: import the files");
    refused(&bytes, ColumnType::Int64, &shown);
}

/// Each of these files reserved memory for a declared size: terabytes, which ended the process.
#[test]
fn declared_sizes_allocate_no_memory() {
    let huge = 0x7FFF_FFFF;
    let file = |physical, codec, pages| OneColumn { physical, codec, rows: 2, pages }.file();
    let page = data_page(2, PLAIN, huge, &[16, 0, 0, 0]);
    let shown = format!("{PLACE}the page at byte 4 has 2.0 GiB of values");
    refused(&file(INT64, SNAPPY, page), ColumnType::Int64, &shown);
    let page = data_page(2, PLAIN, 1 << 29, &[16, 0, 0, 0]);
    let shown = format!("{PLACE}the page at byte 4 declares 512.0 MiB of values, more than its 4");
    refused(&file(INT64, SNAPPY, page), ColumnType::Int64, &shown);
    // A few bytes of Zstandard can decompress to any number: the memory of the import bounds them.
    let page = data_page(2, PLAIN, 300 << 20, &[16, 0, 0, 0]);
    let shown = format!(
        "{PLACE}the page at byte 4 has 300.0 MiB of values, and the import has 256.0 MiB of memory"
    );
    refused(&file(INT64, ZSTD, page), ColumnType::Int64, &shown);
    let page = dictionary_page(huge, &[0; 8]);
    let shown = format!("{PLACE}a page is damaged: it declares 2147483647 values in 8 bytes");
    refused(&file(INT64, 0, page), ColumnType::Int64, &shown);
    // The list declares 2^40 lengths, and has none.
    let lengths = Thrift::default().varint(128).varint(4).varint(1 << 40).varint(0).bytes;
    let page = data_page(2, DELTA_LENGTH, lengths.len() as u64, &lengths);
    let shown = format!("{PLACE}a page is damaged: it declares 2 values");
    refused(&file(BYTE_ARRAY, 0, page), ColumnType::Varchar, &shown);
}

#[test]
fn a_footer_declares_no_more_than_it_has() {
    let damaged = |footer: &[u8]| with_footer(b"PAR1".to_vec(), footer);
    let root = Thrift::default().name(4, "schema").i32(5, 1).end();
    let leaf = Thrift::default().i32(1, INT64).i32(3, 0).name(4, "v").end();
    let schema = [root.clone(), leaf.clone()].concat();
    let groups = Thrift::default()
        .i32(1, 1)
        .list(2, 12, 2, &schema)
        .i64(3, 2)
        .list(4, 12, 0x7FFF_FFFF, &[])
        .end();
    refused(&damaged(&groups), ColumnType::Int64, "the metadata is damaged: it ends before");
    let root = Thrift::default().name(4, "schema").i32(5, 0x7FFF_FFFF).end();
    let schema = [root, leaf.clone()].concat();
    let wide = Thrift::default().i32(1, 1).list(2, 12, 2, &schema).end();
    refused(&damaged(&wide), ColumnType::Int64, "the schema is damaged");
    // The library recurses into groups, and a stack overflow cannot be caught.
    let group = Thrift::default().i32(3, 0).name(4, "g").i32(5, 1).end();
    let schema = [group.repeat(100_000), leaf].concat();
    let deep = Thrift::default().i32(1, 1).list(2, 12, 100_001, &schema).end();
    refused(&damaged(&deep), ColumnType::Int64, "nested more than 64 levels deep");
}

/// The error after a panic of the library was `a worker has panicked`, without a file.
#[test]
fn a_panic_of_the_decoder_is_an_error_with_its_place() {
    let dictionary = dictionary_page(1, &7_i64.to_le_bytes());
    // The codes have 200 bits.
    let page = data_page(2, RLE_DICTIONARY, 3, &[200, 4, 1]);
    let pages = [dictionary, page].concat();
    let file = OneColumn { physical: INT64, codec: 0, rows: 2, pages }.file();
    refused(&file, ColumnType::Int64, PLACE);
}

#[test]
fn a_row_group_has_the_rows_that_it_declares() {
    let values = [5_i64, -1].map(i64::to_le_bytes).concat();
    for (rows, expected) in
        [(3, "3 rows are declared, but there are 2"), (1, "1 rows are declared, but there are 2")]
    {
        let pages = data_page(2, PLAIN, 16, &values);
        let file = OneColumn { physical: INT64, codec: 0, rows, pages }.file();
        refused(&file, ColumnType::Int64, expected);
    }
}

/// Small files with common features: dictionaries, deltas, both versions of pages, some codecs.
fn seeds() -> Vec<Vec<u8>> {
    let numbers: ArrayRef =
        Arc::new((0..40).map(|n| (n % 7 != 0).then_some(n * n)).collect::<Int64Array>());
    let texts = (0..40).map(|n| (n % 5 != 0).then(|| format!("text {}", n % 9)));
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let floats: ArrayRef =
        Arc::new((0..40).map(|n| Some(f64::from(n) / 4.0)).collect::<Float64Array>());
    let columns = [("n", numbers), ("s", Arc::clone(&texts)), ("t", texts), ("f", floats)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap());
    let written = |codec, version, encodings: Option<[Encoding; 3]>| {
        let mut properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(25))
            .set_compression(codec)
            .set_writer_version(version);
        if let Some(encodings) = encodings {
            properties = properties.set_dictionary_enabled(false);
            for (name, encoding) in ["n", "s", "t"].into_iter().zip(encodings) {
                properties = properties.set_column_encoding(ColumnPath::from(name), encoding);
            }
        }
        let mut bytes = Vec::new();
        let properties = Some(properties.build());
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), properties).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes
    };
    let deltas = [
        Encoding::DELTA_BINARY_PACKED,
        Encoding::DELTA_LENGTH_BYTE_ARRAY,
        Encoding::DELTA_BYTE_ARRAY,
    ];
    vec![
        written(Compression::SNAPPY, WriterVersion::PARQUET_1_0, None),
        written(zstd, WriterVersion::PARQUET_2_0, None),
        written(Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0, Some(deltas)),
        written(Compression::SNAPPY, WriterVersion::PARQUET_2_0, Some(deltas)),
    ]
}

/// The start of the footer of a file.
fn footer_start(file: &[u8]) -> usize {
    let end = file.len() - 8;
    let length = u32::from_le_bytes(file[end..end + 4].try_into().unwrap());
    end - length as usize
}

/// Damages a file: it is cut off, a bit is inverted, a byte is overwritten, or a declared number is
/// changed so that the bytes behind it stay readable.
fn damage(random: &mut Random, file: &mut Vec<u8>) {
    let start = footer_start(file);
    let large: &[u8] = random.choose(&[
        &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F][..],
        &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F][..],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01][..],
        &[0x80, 0x80, 0x01][..],
    ]);
    match random.below(6) {
        0 => file.truncate(random.index(file.len())),
        1 => {
            let at = random.index(file.len());
            file[at] ^= 1 << random.below(8);
        }
        2 => {
            let at = 4 + random.index(start - 4);
            file[at] = random.next().to_le_bytes()[0];
        }
        3 => {
            let at = start + random.index(file.len() - 8 - start);
            file[at] = random.next().to_le_bytes()[0];
        }
        4 => {
            // A number in the footer is changed.
            let at = start + random.index(file.len() - 8 - start);
            file.splice(at..=at, large.iter().copied());
            let end = file.len() - 8;
            let length = u32::try_from(end - start).unwrap();
            file[end..end + 4].copy_from_slice(&length.to_le_bytes());
        }
        _ => {
            // A number or a length in the header of a page is changed.
            let at = 4 + random.index(start - 4);
            let end = (at + large.len()).min(start);
            file[at..end].copy_from_slice(&large[..end - at]);
        }
    }
}

/// The peak size of the address space of this process, in KiB.
#[expect(clippy::disallowed_methods, reason = "the process's own numbers, which are no file")]
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let digits = peak.unwrap_or_default().trim().split(' ').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[test]
fn thousands_of_damaged_files_are_rows_or_errors_and_take_little_memory() {
    let seeds = seeds();
    let before = peak_kib();
    let (mut failed, mut panicked) = (0, 0);
    for round in 0..2_500 {
        let mut random = Random::new(round);
        let mut file = seeds[random.index(seeds.len())].clone();
        for _ in 0..1 + random.index(2) {
            if file.len() > 12 && footer_start_is_fine(&file) {
                damage(&mut random, &mut file);
            }
        }
        match import_of(&file) {
            Ok(rows) => assert!(rows <= 200, "round {round}: {rows} rows"),
            Err(error) => {
                failed += 1;
                let shown = error.to_string();
                assert!(!matches!(error, Error::WorkerPanicked), "round {round}");
                let is_of_schema = matches!(error, Error::Schema(_));
                assert!(is_of_schema || shown.contains("a.parquet"), "round {round}: {shown}");
                assert!(!shown.contains("External"), "round {round}: {shown}");
                panicked += u32::from(shown.contains("the decoder stopped"));
            }
        }
    }
    assert!(failed > 1_000, "{failed} were refused, {panicked} of them by a panic");
    let grown = peak_kib() - before;
    // Other tests run at the same time. A single wrong size took terabytes.
    assert!(grown < 4 << 20, "{grown} KiB of address space");
}

fn footer_start_is_fine(file: &[u8]) -> bool {
    let end = file.len() - 8;
    let length = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    file.ends_with(b"PAR1") && length + 12 < end && length > 8
}

#[test]
fn a_nested_column_can_be_left_out_by_name() {
    let lists =
        arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>([
            Some([Some(1), None]),
            None,
        ]);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let columns: [(&str, ArrayRef); 2] = [("nested", Arc::new(lists)), ("v", numbers)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let world = World::on(Arc::new(SimDisk::new(1)), Path::new("/"));
    let schema = schema_of(&[("v", ColumnType::Int64)], None, PartitionUnit::None);
    let path = world.put("a.parquet", &bytes);
    for infer in [true, false] {
        let mut options = world.options(&schema, std::slice::from_ref(&path));
        options.table = format!("t{infer}");
        if infer {
            options.columns = ColumnSource::Infer;
            let shown = world.import(&options).unwrap_err().to_string();
            assert!(shown.contains("--skip-columns 'nested'"), "{shown}");
        }
        options.skip_columns = vec!["NESTED".to_owned()];
        assert_eq!(world.import(&options).unwrap().rows_imported, 2);
        options.skip_columns = vec!["other".to_owned()];
        let error = world.import(&options).unwrap_err();
        assert!(matches!(error, Error::NoSuchColumn { .. }), "{error:?}");
    }
}

/// Writes the corpus of the fuzz target: files of writers, and damaged ones.
#[test]
#[ignore = "slow: writes files of the repository, by hand after a change of them"]
fn corpus_of_parquet_is_written() {
    let folder = crate::fuzz::corpus().join("parquet");
    let names = ["v1_snappy", "v2_zstd", "deltas", "v2_deltas"];
    for (name, bytes) in names.into_iter().zip(seeds()) {
        crate::world::put(&tidegate_platform::RealDisk, &folder.join(name), &bytes);
    }
    let file = |physical, codec, pages| OneColumn { physical, codec, rows: 2, pages }.file();
    let dictionary = dictionary_page(1, &7_i64.to_le_bytes());
    let codes = data_page(2, RLE_DICTIONARY, 3, &[200, 4, 1]);
    let lengths = Thrift::default().varint(128).varint(4).varint(1 << 40).varint(0).bytes;
    for (name, bytes) in [
        ("wide_codes", file(INT64, 0, [dictionary, codes].concat())),
        ("large_page", file(INT64, SNAPPY, data_page(2, PLAIN, 0x7FFF_FFFF, &[16, 0, 0, 0]))),
        ("large_dictionary", file(INT64, 0, dictionary_page(0x7FFF_FFFF, &[0; 8]))),
        ("long_deltas", file(BYTE_ARRAY, 0, data_page(2, DELTA_LENGTH, 10, &lengths))),
    ] {
        crate::world::put(&tidegate_platform::RealDisk, &folder.join(name), &bytes);
    }
}
