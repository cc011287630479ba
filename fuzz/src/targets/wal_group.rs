//! Any bytes are a group of WAL records or an error; a decoded record can be applied to a table, or
//! is refused; and a table after that can be written and read.
//!
//! Input: the record count and the durable LSN of the header; then records, each a length of two
//! bytes and a body. All checksums are corrected.

use std::sync::Arc;

use tidegate_model::{ColumnType, Lsn, PartitionUnit, SeqTxn, TableId, TimeUnit};
use tidegate_storage::change::TableChange;
use tidegate_storage::manifest::{self, Manifest};
use tidegate_storage::wal::decode_group;

use super::checksum::crc32c;
use super::input::Input;
use crate::world::schema_of;

const LOG: u64 = 77;
const LSN: Lsn = Lsn(8_192);
/// Magic, log, LSN, durable LSN, bytes, count, room, zero sectors, checksum of these, checksum.
const HEADER_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 4 + 8 + 4 + 4 + 4;

pub(crate) fn check(bytes: &[u8]) {
    let _ = decode_group(bytes, LOG, LSN);
    let Ok(group) = decode_group(&with_checksum(bytes), LOG, LSN) else { return };
    assert!(group.durable <= LSN && LSN < group.end);
    let columns = [
        ("ts", ColumnType::Timestamp(TimeUnit::Micros)),
        ("host", ColumnType::Symbol),
        ("value", ColumnType::Int64),
    ];
    let schema = Arc::new(schema_of(&columns, Some("ts"), PartitionUnit::Day));
    let mut manifest = Manifest::new(TableId(1), SeqTxn(1), schema);
    for record in &group.records {
        for op in &record.ops {
            if let TableChange::Create { schema, .. } = &op.change {
                if op.seq_txn != SeqTxn(1) {
                    return;
                }
                manifest = Manifest::new(op.table, op.seq_txn, Arc::clone(schema));
                continue;
            }
            // Commits of a table have consecutive numbers, or the log is refused (wal-1).
            let is_next = [manifest.seq_txn, manifest.seq_txn.next()].contains(&op.seq_txn);
            if !is_next || manifest.apply(op.seq_txn, &op.change).is_err() {
                return;
            }
        }
        let again = manifest::decode(&manifest.encode(), manifest.table);
        assert_eq!(again.as_ref(), Ok(&manifest), "manifest-3");
    }
}

fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut input = Input::new(bytes);
    let (count, durable) = (u32::from(input.byte()), u64::from(input.byte()) * 4_096);
    let mut records = Vec::new();
    while !input.rest.is_empty() {
        let bytes = input.short();
        let body = input.take(bytes);
        let length = u32::try_from(body.len()).expect("two bytes");
        records.extend_from_slice(&length.to_le_bytes());
        records.extend_from_slice(&crc32c(body).to_le_bytes());
        records.extend_from_slice(body);
    }
    let mut group = b"TIDEGRP\0".to_vec();
    let length = (HEADER_BYTES + records.len()) as u64;
    for field in [LOG, LSN.0, durable, length] {
        group.extend_from_slice(&field.to_le_bytes());
    }
    group.extend_from_slice(&count.to_le_bytes());
    let (room, zero_sectors) = (0_u64, 0_u32);
    group.extend_from_slice(&room.to_le_bytes());
    group.extend_from_slice(&zero_sectors.to_le_bytes());
    group.extend_from_slice(&crc32c(&group).to_le_bytes());
    let mut covered = group.clone();
    covered.extend_from_slice(&records);
    group.extend_from_slice(&crc32c(&covered).to_le_bytes());
    group.extend_from_slice(&records);
    group
}
