//! segment_read-1: for any bytes behind valid checksums, reading gives values or an error, the same
//! from a file and from memory; and a segment that `verify` finds sound can be read, and rewritten
//! into a sound one.
//!
//! Input: the length of a footer (two bytes), the footer, the bytes behind the file's header. All
//! checksums are corrected.

use std::path::Path;
use std::sync::Arc;

use tidegate_model::layout::{Region, SEGMENT_HEADER_BYTES, SEGMENT_VERSION, SegmentFooter};
use tidegate_model::schema::SchemaParts;
use tidegate_model::time::{TIMESTAMP_MAX, TIMESTAMP_MIN};
use tidegate_model::{
    ByteCount, Column, ColumnId, ColumnType, Comments, PartitionUnit, Schema, SchemaVersion,
    SegmentId, TimeRange,
};
use tidegate_platform::{Disk, OpenMode, SimDisk};
use tidegate_storage::segment::{Reader, RowSelection};
use tidegate_storage::{
    MemSegment, Rewrite, SegmentMeta, SegmentRun, SymbolTable, SymbolTables, rewrite,
};

use super::checksum::crc32c;
use super::input::Input;

/// The maximum number of values: more of them only take time.
const VALUES_MAX: u64 = 1 << 19;
const MAGIC: &[u8; 8] = b"TIDESEG\0";

pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let footer_bytes = input.short();
    let (footer, regions) = (input.take(footer_bytes), input.rest);
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&SEGMENT_VERSION.to_le_bytes());
    file.resize(SEGMENT_HEADER_BYTES, 0);
    file.extend_from_slice(regions);
    let Ok(mut footer) = SegmentFooter::decode(footer, file.len() as u64) else { return };
    if footer.columns.len() as u64 * footer.rows.0 > VALUES_MAX {
        return;
    }
    write_checksum(&mut footer, &file);
    let encoded = footer.encode();
    let footer_crc = crc32c(&encoded);
    file.extend_from_slice(&encoded);
    file.extend_from_slice(&(encoded.len() as u64).to_le_bytes());
    file.extend_from_slice(&footer_crc.to_le_bytes());
    file.extend_from_slice(&SEGMENT_VERSION.to_le_bytes());
    file.extend_from_slice(MAGIC);
    let meta = SegmentMeta {
        id: footer.segment,
        partition: footer.partition,
        rows: footer.rows,
        bytes: ByteCount(file.len() as u64),
        min_ts: footer.min_ts,
        max_ts: footer.max_ts,
        seq_first: footer.seq_first,
        seq_last: footer.seq_last,
        footer_crc,
    };
    let (disk, path) = (SimDisk::new(1), Path::new("/segment"));
    let written = disk.open(path, OpenMode::CreateNew).expect("an empty disk");
    written.write_all_at(&file, 0).expect("an endless disk");
    let reader = Reader::open(&disk, path, footer.table, &meta);
    let (Ok(reader), Some(schema)) = (reader, schema(&footer)) else { return };
    read(&reader, &schema);
    rewrite_mem_segment(MemSegment { meta, bytes: file.into() }, &schema, &reader);
}

/// Checks that the same bytes in memory are read in the same way; and that a compaction of them
/// with themselves has each row twice.
fn rewrite_mem_segment(mem_segment: MemSegment, schema: &Schema, reader: &Reader) {
    let (meta, table) = (mem_segment.meta, reader.footer().table);
    let run =
        SegmentRun::of_mem_segment(table, &mem_segment).expect("a file of these bytes was opened");
    let symbols = symbols(schema);
    let verified = run.reader().expect("it is open").verify(schema, &symbols);
    assert_eq!(verified.is_ok(), reader.verify(schema, &symbols).is_ok());
    let designated = schema.designated().is_some();
    let in_range = TIMESTAMP_MIN <= meta.min_ts && meta.max_ts <= TIMESTAMP_MAX;
    let run = Arc::new(run);
    let runs = [Arc::clone(&run), run];
    let rewritten = rewrite::to_mem_segments(
        &Rewrite { table, schema, symbols: &symbols, runs: &runs },
        &mut || SegmentId(1),
    );
    let is_sound = verified.is_ok() && (in_range || !designated);
    assert!(rewritten.is_ok() || !is_sound, "{rewritten:?}");
    if let Ok(mem_segments) = rewritten {
        let rows: u64 = mem_segments.iter().map(|mem_segment| mem_segment.meta.rows.0).sum();
        assert_eq!(rows, meta.rows.0 * 2);
        for mem_segment in mem_segments.iter().filter(|_| is_sound) {
            let reader =
                Reader::in_memory(Arc::clone(&mem_segment.bytes), table, &mem_segment.meta);
            let reader = reader.expect("it was just made");
            reader.verify(schema, &symbols).expect("what is made of sound rows is sound");
        }
    }
}

/// Corrects every checksum.
fn write_checksum(footer: &mut SegmentFooter, file: &[u8]) {
    let write_checksum = |region: &mut Region| {
        let start = usize::try_from(region.offset).expect("inside of the file");
        let bytes = usize::try_from(region.bytes).expect("inside of the file");
        region.crc = crc32c(&file[start..start + bytes]);
    };
    for column in &mut footer.columns {
        if let Some(dictionary) = &mut column.dictionary {
            write_checksum(&mut dictionary.region);
        }
        write_checksum(&mut column.string_table);
        write_checksum(&mut column.zones);
        column.frames.iter_mut().for_each(|frame| write_checksum(&mut frame.region));
    }
}

/// The schema of a table with the columns of the footer, ordered by its first timestamp.
fn schema(footer: &SegmentFooter) -> Option<Schema> {
    let columns = footer.columns.iter().map(|column| Column {
        id: column.id,
        name: format!("c{}", column.id),
        ty: column.ty,
    });
    let columns: Vec<Column> = columns.collect();
    let last = columns.last()?.id.0.checked_add(1)?;
    let designated = columns.iter().find(|column| column.ty.time_unit().is_some());
    let parts = SchemaParts {
        version: SchemaVersion(1),
        designated: designated.map(|column| column.id),
        columns,
        partition_by: PartitionUnit::None,
        next_column: ColumnId(last),
        dedup: Vec::new(),
        ttl: None,
        lengths: Vec::new(),
        comments: Comments::default(),
        defaults: Vec::new(),
        view: None,
    };
    Schema::from_parts(parts).ok()
}

/// Some symbols for every symbol column.
fn symbols(schema: &Schema) -> SymbolTables {
    let symbols =
        Arc::new(SymbolTable::of(&["", "a", "bb", "ccc", "a longer one than twelve bytes"]));
    let of_symbols = schema.columns().iter().filter(|column| column.ty == ColumnType::Symbol);
    of_symbols.map(|column| (column.id, Arc::clone(&symbols))).collect()
}

fn read(reader: &Reader, schema: &Schema) {
    let symbols = symbols(schema);
    let is_sound = reader.verify(schema, &symbols).is_ok();
    for frame in 0..reader.frame_count() {
        let rows = reader.frame_rows(frame);
        for range in [0..rows, rows / 3..rows / 2, rows..rows] {
            let arrays = reader.arrays(
                frame,
                &RowSelection::Range(range.clone()),
                schema.columns(),
                &symbols,
            );
            assert!(arrays.is_ok() || !is_sound, "{arrays:?}");
            for array in arrays.into_iter().flatten() {
                assert_eq!(array.len(), range.len());
                array.to_data().validate_full().expect("an array that Arrow calls valid");
            }
        }
        let _ = reader.frame(frame, schema.columns());
    }
    if let Some((column, unit)) = schema.designated_column() {
        let bounds = (reader.footer().min_ts, reader.footer().max_ts);
        for (start, end) in [bounds, (i64::MIN, i64::MAX), (bounds.1, i64::MAX), (0, 1)] {
            let rows = reader.rows_in(column, TimeRange { unit, start, end });
            assert!(rows.is_ok() || !is_sound, "{rows:?}");
            if let Ok(rows) = rows {
                assert!(rows.start <= rows.end && rows.end <= reader.footer().rows.0);
            }
        }
    }
}
