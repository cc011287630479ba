//! The catalog: names to table ids, and the part of the log that the checkpoints cover.
//!
//! - storage_catalog-1. No two names of tables differ only in case.
//! - storage_catalog-2. Table ids are below `next_table`, and are never reused.
//! - storage_catalog-3. The manifests on disk contain everything before `as_of`, except the rows of
//!   memtables, which are in the log from `lsn` on: replay begins there, and log files that end
//!   before it can be removed.
//! - storage_catalog-4. storage_catalog-3 may not hold for a table whose records were retained
//!   (`RetainedRecords`): those before `RetainedRecords::until` are in a file of their own, and no
//!   earlier record of the log is needed.
//!
//! Bytes: docs/format.md, Catalog. Not here: the content of a table (`manifest`).

use std::collections::BTreeSet;

use tidegate_model::bytes::ByteWriter;
use tidegate_model::{Lsn, SchemaError, SeqTxn, TableId, limits};

use crate::checksummed_file::{self, Kind};
use crate::error::{Corruption, DecodeError};
use crate::manifest::parts;

const KIND: Kind = Kind { magic: *b"TIDECAT\0", version: 3, oldest: 1, name: "catalog" };
/// Written while no table has records retained (storage_catalog-4), so that older programs can
/// read it.
const KIND_WITHOUT_RETAINED: Kind = Kind { version: 2, ..KIND };
/// Bytes of a table without its name.
const TABLE_BYTES_MIN: usize = 8 + 8 + 4;

/// Names to table ids as of a position in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// The log that the catalog belongs to.
    pub log: u64,
    /// The position at which replay begins (storage_catalog-3).
    pub lsn: Lsn,
    /// The position up to which names and manifests are complete; not before `lsn`.
    pub as_of: Lsn,
    /// The least id that was never used for a table.
    pub next_table: TableId,
    /// The tables, ascending by id.
    pub tables: Vec<CatalogTable>,
}

/// A table of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogTable {
    /// The id of the table, and the name of its directory.
    pub id: TableId,
    /// The table's last commit before the catalog's `as_of`. A manifest with later commits may not
    /// be durable, because its directory was not synced.
    pub seq_txn: SeqTxn,
    /// The name that users see, in the case it was created with.
    pub name: String,
    /// The records of the table that were retained, if any (storage_catalog-4).
    pub retained: Option<RetainedRecords>,
}

/// Records of a table that are no longer in the log, and not in its other files either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedRecords {
    /// All records of the table before this position that a replay needs are retained; part of the
    /// file's name.
    pub until: Lsn,
    /// The last commit that was retained.
    pub seq_txn: SeqTxn,
}

impl Catalog {
    /// The bytes of the catalog's file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let has_retained = self.tables.iter().any(|table| table.retained.is_some());
        let mut w = ByteWriter::default();
        w.u64(self.log).u64(self.lsn.0).u64(self.as_of.0).u64(self.next_table.0);
        w.u64(self.tables.len() as u64);
        for table in &self.tables {
            w.u64(table.id.0).u64(table.seq_txn.0);
            parts::encode_text(&mut w, &table.name);
            if has_retained {
                let retained =
                    table.retained.unwrap_or(RetainedRecords { until: Lsn(0), seq_txn: SeqTxn(0) });
                w.u64(retained.until.0).u64(retained.seq_txn.0);
            }
        }
        checksummed_file::encode(if has_retained { &KIND } else { &KIND_WITHOUT_RETAINED }, &w.0)
    }
}

/// The catalog in these bytes.
///
/// # Errors
/// If they are damaged, of a newer version, or storage_catalog-1 or storage_catalog-2 do not hold.
pub fn decode(bytes: &[u8]) -> Result<Catalog, DecodeError> {
    let (version, mut r) = checksummed_file::decode_versions(&KIND, bytes)?;
    let start = r.offset();
    let (log, lsn) = (r.u64()?, Lsn(r.u64()?));
    // Before version 2 all rows were in segments.
    let as_of = if version == 1 { lsn } else { Lsn(r.u64()?) };
    if as_of < lsn {
        let what = Corruption::Impossible { what: "the position of the catalog", value: as_of.0 };
        return Err(DecodeError::at(start, what));
    }
    let next_table = TableId(r.u64()?);
    let count = parts::decode_count(&mut r, TABLE_BYTES_MIN)?;
    let mut tables: Vec<CatalogTable> = Vec::with_capacity(count);
    let mut names = BTreeSet::new();
    for _ in 0..count {
        let at = r.offset();
        let (id, seq_txn) = (TableId(r.u64()?), SeqTxn(r.u64()?));
        let name = parts::decode_text(&mut r, "a table's name")?;
        let ascends = tables.last().is_none_or(|last| last.id < id);
        if !ascends || id >= next_table {
            let what = Corruption::Impossible { what: "a table id", value: id.0 };
            return Err(DecodeError::at(at, what));
        }
        check_name(&name).map_err(|error| DecodeError::at(at, error))?;
        if !names.insert(fold_name(&name)) {
            let what = Corruption::Impossible { what: "a table with a name taken", value: id.0 };
            return Err(DecodeError::at(at, what));
        }
        let mut retained = None;
        if version > 2 {
            let (at, until, seq_txn) = (r.offset(), Lsn(r.u64()?), SeqTxn(r.u64()?));
            if until > as_of || !until.0.is_multiple_of(limits::PAGE_BYTES) {
                let what =
                    Corruption::Impossible { what: "the end of retained records", value: until.0 };
                return Err(DecodeError::at(at, what));
            }
            retained = (until.0 > 0).then_some(RetainedRecords { until, seq_txn });
        }
        tables.push(CatalogTable { id, seq_txn, name, retained });
    }
    checksummed_file::finish(&r)?;
    Ok(Catalog { log, lsn, as_of, next_table, tables })
}

/// Checks that a table can have this name.
pub fn check_name(name: &str) -> Result<(), SchemaError> {
    if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains('\0') {
        return Err(SchemaError::BadName { name: name.to_owned() });
    }
    Ok(())
}

/// The form in which names are compared (storage_catalog-1).
pub(crate) fn fold_name(name: &str) -> String {
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    fn sample() -> Catalog {
        let table = |id, name: &str| CatalogTable {
            id: TableId(id),
            seq_txn: SeqTxn(id * 10),
            name: name.to_owned(),
            retained: None,
        };
        Catalog {
            log: 77,
            lsn: Lsn(8_192),
            as_of: Lsn(12_288),
            next_table: TableId(9),
            tables: vec![table(1, "cpu"), table(7, "Hits \u{e4}")],
        }
    }

    #[test]
    fn a_catalog_survives_the_round_trip() {
        assert_eq!(decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn a_catalog_with_retained_records_survives_the_round_trip() {
        let mut catalog = sample();
        catalog.tables[1].retained =
            Some(RetainedRecords { until: Lsn(4_096), seq_txn: SeqTxn(3) });
        assert_eq!(decode(&catalog.encode()), Ok(catalog.clone()));
        catalog.tables[1].retained =
            Some(RetainedRecords { until: Lsn(16_384), seq_txn: SeqTxn(3) });
        assert!(
            decode(&catalog.encode()).is_err(),
            "storage_catalog-4: behind what the catalog is as of"
        );
    }

    #[test]
    fn a_catalog_of_version_1_has_one_position_for_replay_and_manifests() {
        let body = sample().encode();
        let (body, old) = (&body[20..body.len() - 4], Kind { version: 1, oldest: 1, ..KIND });
        let without = [&body[..16], &body[24..]].concat();
        let expected = Catalog { as_of: Lsn(8_192), ..sample() };
        assert_eq!(decode(&checksummed_file::encode(&old, &without)), Ok(expected));
    }

    #[test]
    fn a_catalog_with_invalid_fields_is_refused() {
        let refused = |change: fn(&mut Catalog)| {
            let mut catalog = sample();
            change(&mut catalog);
            assert!(decode(&catalog.encode()).is_err(), "{catalog:?}");
        };
        refused(|catalog| catalog.tables[0].name = "hits \u{c4}".to_owned());
        refused(|catalog| catalog.tables[0].name = String::new());
        refused(|catalog| catalog.tables[0].id = TableId(7));
        refused(|catalog| catalog.next_table = TableId(7));
        refused(|catalog| catalog.as_of = Lsn(4_096));
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_an_error(at: usize, xor in 1_u8..) {
            let mut bytes = sample().encode();
            let at = at % bytes.len();
            bytes[at] ^= xor;
            assert!(decode(&bytes).is_err());
        }

        #[test]
        fn foreign_bytes_are_no_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&checksummed_file::encode(&KIND, &body));
        }

        #[test]
        fn a_changed_body_is_no_panic(at: usize, xor in 1_u8..) {
            let bytes = sample().encode();
            let mut body = bytes[20..bytes.len() - 4].to_vec();
            let at = at % body.len();
            body[at] ^= xor;
            let _ = decode(&checksummed_file::encode(&KIND, &body));
        }
    }
}
