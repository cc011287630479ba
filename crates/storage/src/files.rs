//! The files of a database: their paths, and the directory of each table.
//!
//! Not here: the set of a table's files (`manifest`), and their content.

mod writes;
mod directory;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_model::{ByteCount, ColumnId, Lsn, PartitionKey, Schema, SegmentId, TableId, limits};
use tidegate_platform::MemoryBudget;

use crate::deletion_vector::DeletionVectorMeta;
use crate::manifest::Obsolete;
use crate::segment::{OpenReaders, SegmentMeta};
use crate::symbols;

pub(crate) use directory::{
    FailedStep, Failure, RewriteLock, RewriteScope, TableDirectory, TableFile, WaitMode,
};
pub use writes::TableWrites;

const SEGMENT_SUFFIX: &str = ".seg";
const DELETION_VECTOR_SUFFIX: &str = ".mask";
pub(crate) const RETAINED_SUFFIX: &str = ".kept";

/// The paths of the files of a database, its open segments, and the memory of its dictionaries.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    root: PathBuf,
    readers: Arc<OpenReaders>,
    symbol_memory: Arc<MemoryBudget>,
}

/// The names of the files of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TablePaths {
    root: PathBuf,
}

impl Paths {
    pub(crate) fn new(root: &Path) -> Paths {
        Paths::bounded(root, limits::OPEN_SEGMENTS, ByteCount(u64::MAX))
    }

    /// As `new`, with at most this many open segments, and with this memory of dictionaries, beyond
    /// which they take no new strings.
    pub(crate) fn bounded(root: &Path, open_max: usize, symbols_max: ByteCount) -> Paths {
        Paths {
            root: root.to_path_buf(),
            readers: Arc::new(OpenReaders::new(open_max)),
            symbol_memory: Arc::new(MemoryBudget::new(symbols_max.0)),
        }
    }

    /// The memory of all dictionaries (dictionary-3).
    pub(crate) fn symbol_memory(&self) -> &Arc<MemoryBudget> {
        &self.symbol_memory
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("wal")
    }

    pub(crate) fn tables(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// The directory of records that were retained.
    pub(crate) fn retained(&self) -> PathBuf {
        self.root.join("kept")
    }

    /// The file of a table's records before `until`.
    pub(crate) fn retained_file(&self, table: TableId, until: Lsn) -> PathBuf {
        self.retained().join(format!("{table}-{until}{RETAINED_SUFFIX}", until = until.0))
    }

    pub(crate) fn catalog(&self) -> PathBuf {
        self.tables().join("catalog")
    }

    /// The copy of the catalog.
    pub(crate) fn catalog_copy(&self) -> PathBuf {
        self.tables().join("catalog.copy")
    }

    pub(crate) fn table(&self, table: TableId) -> TablePaths {
        TablePaths { root: self.tables().join(table.to_string()) }
    }
}

impl TablePaths {
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.root.join("manifest")
    }

    pub(crate) fn symbols(&self) -> PathBuf {
        self.root.join("symbols")
    }

    pub(crate) fn symbol_file(&self, column: ColumnId) -> PathBuf {
        self.symbols().join(symbols::file_name(column))
    }

    pub(crate) fn partition(&self, schema: &Schema, partition: PartitionKey) -> PathBuf {
        self.root.join(schema.partition_by().name(partition, schema.time_unit()))
    }

    pub(crate) fn segment(&self, schema: &Schema, meta: &SegmentMeta) -> PathBuf {
        self.new_segment(schema, meta.partition, meta.id)
    }

    /// The path of a segment that is still to be written.
    pub(crate) fn new_segment(
        &self,
        schema: &Schema,
        partition: PartitionKey,
        id: SegmentId,
    ) -> PathBuf {
        self.partition(schema, partition).join(segment_name(id))
    }

    /// The path of a deletion vector, beside its segment.
    pub(crate) fn deletion_vector(
        &self,
        schema: &Schema,
        meta: &SegmentMeta,
        vector: &DeletionVectorMeta,
    ) -> PathBuf {
        self.partition(schema, meta.partition).join(deletion_vector_name(meta.id, vector.id))
    }

    pub(crate) fn obsolete(&self, schema: &Schema, obsolete: &Obsolete) -> PathBuf {
        match obsolete {
            Obsolete::Segment(meta) => self.segment(schema, meta),
            Obsolete::DeletionVector(meta, vector) => self.deletion_vector(schema, meta, vector),
            Obsolete::Symbols(column) => self.symbol_file(*column),
        }
    }
}

fn segment_name(id: SegmentId) -> String {
    format!("{id}{SEGMENT_SUFFIX}")
}

fn deletion_vector_name(segment: SegmentId, deletion_vector: SegmentId) -> String {
    format!("{segment}-{deletion_vector}{DELETION_VECTOR_SUFFIX}")
}

/// Returns true if a file in a partition's directory may be one of ours.
pub(crate) fn is_ours(name: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok().map(SegmentId);
    if let Some(id) = name.strip_suffix(SEGMENT_SUFFIX).and_then(number) {
        return segment_name(id) == name;
    }
    let deletion_vector =
        name.strip_suffix(DELETION_VECTOR_SUFFIX).and_then(|stem| stem.split_once('-'));
    match deletion_vector
        .map(|(segment, deletion_vector)| (number(segment), number(deletion_vector)))
    {
        Some((Some(segment), Some(deletion_vector))) => {
            deletion_vector_name(segment, deletion_vector) == name
        }
        _ => false,
    }
}

/// The last number in the name of a segment or a deletion vector.
pub(crate) fn last_number(name: &str) -> Option<SegmentId> {
    let stem =
        name.strip_suffix(SEGMENT_SUFFIX).or_else(|| name.strip_suffix(DELETION_VECTOR_SUFFIX))?;
    stem.rsplit('-').next()?.parse().ok().map(SegmentId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_ours() {
        for name in ["0.seg", "17.seg", "17-3.mask"] {
            assert!(is_ours(name), "{name}");
        }
        for name in ["", ".seg", "07.seg", "+7.seg", "7.seg.bak", "x.mask", "1-.mask", "notes.txt"]
        {
            assert!(!is_ours(name), "{name}");
        }
    }
}
