//! A table in memory: its manifest, the files it names, and the snapshot that queries get.
//!
//! - M3. A table changes only by `changed`, which asks the manifest.

use std::sync::{Arc, OnceLock};

use tidegate_model::{ColumnId, ColumnType, SegmentId, SeqTxn, TableId};

use super::folder::{TableFile, TableFolder};
use crate::envelope;
use crate::error::{Corruption, Error, Result};
use crate::manifest::{Manifest, Obsolete, SegmentEntry};
use crate::snapshot::{MaskFile, Run, ScanGroup, SegmentFile, SegmentRun, Snapshot, scan_groups};
use crate::symbols::{self, SymbolTable, SymbolTables};
use crate::wal::TableChange;

/// A table as of a commit. It never changes; a commit makes another one.
#[derive(Debug)]
pub(crate) struct TableState {
    pub(crate) folder: Arc<TableFolder>,
    pub(crate) name: String,
    pub(crate) manifest: Manifest,
    /// The commit that truncated it last, if one did since the database was opened.
    pub(crate) truncated_at: SeqTxn,
    /// One for each segment of the manifest, in the same order.
    files: Vec<SegmentFiles>,
    snapshot: OnceLock<Arc<Snapshot>>,
}

/// The files of a segment.
#[derive(Debug, Clone)]
struct SegmentFiles {
    segment: Arc<SegmentFile>,
    mask: Option<Arc<MaskFile>>,
}

impl TableState {
    /// A table as its manifest says.
    pub(crate) fn new(folder: Arc<TableFolder>, name: String, manifest: Manifest) -> TableState {
        assert_eq!(folder.table(), manifest.table, "a table's folder");
        let files = files_of(&folder, &manifest, &[]);
        let (truncated_at, snapshot) = (SeqTxn(0), OnceLock::new());
        TableState { folder, name, manifest, truncated_at, files, snapshot }
    }

    pub(crate) fn id(&self) -> TableId {
        self.manifest.table
    }

    /// This table after a commit.
    pub(crate) fn changed(
        &self,
        seq_txn: SeqTxn,
        change: &TableChange,
    ) -> Result<TableState, Corruption> {
        let mut manifest = self.manifest.clone();
        manifest.apply(seq_txn, change)?;
        let files = files_of(&self.folder, &manifest, &self.files);
        let name = match change {
            TableChange::Rename { name } => name.clone(),
            _ => self.name.clone(),
        };
        let truncated_at = match change {
            TableChange::Truncate => seq_txn,
            _ => self.truncated_at,
        };
        let folder = Arc::clone(&self.folder);
        Ok(TableState { folder, name, manifest, truncated_at, files, snapshot: OnceLock::new() })
    }

    /// What queries read; made when first asked for.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(Arc::clone(snapshot));
        }
        let snapshot = Arc::new(self.make_snapshot()?);
        Ok(Arc::clone(self.snapshot.get_or_init(|| snapshot)))
    }

    fn make_snapshot(&self) -> Result<Snapshot> {
        let run = |files: &SegmentFiles| SegmentRun::open(&files.segment, files.mask.as_ref());
        let symbols = self.folder.symbols(&self.manifest.schema, &self.manifest.symbols)?;
        self.snapshot_of(&run, symbols)
    }

    fn snapshot_of(
        &self,
        open: &dyn Fn(&SegmentFiles) -> Result<SegmentRun>,
        symbols: SymbolTables,
    ) -> Result<Snapshot> {
        let metas: Vec<_> = self.files.iter().map(|files| *files.segment.meta()).collect();
        let is_ordered = self.manifest.schema.designated().is_some();
        let run = |at: usize| Ok(Run::Segment(Arc::new(open(&self.files[at])?)));
        let groups = scan_groups(&metas, is_ordered).into_iter().map(|group| {
            let partition = metas[group[0]].partition;
            let runs = group.into_iter().map(run).collect::<Result<_>>()?;
            Ok(ScanGroup { partition, runs })
        });
        Ok(Snapshot {
            table: self.id(),
            name: self.name.clone(),
            schema: Arc::clone(&self.manifest.schema),
            seq_txn: self.manifest.seq_txn,
            groups: groups.collect::<Result<_>>()?,
            symbols,
        })
    }

    /// A change is durable, and this is the table before it: what it no longer has is removed when
    /// the last snapshot ends. What cannot be removed then, the next open removes.
    pub(crate) fn discard(&self, obsolete: &Obsolete) {
        let files = |id| self.files_of(id).expect("it is a segment of this table");
        match obsolete {
            Obsolete::Segment(meta) => files(meta.id).segment.file().discard(),
            Obsolete::Mask(meta, _) => {
                files(meta.id).mask.as_ref().expect("it has a mask").file().discard();
            }
            Obsolete::Symbols(column) => self.folder.discard_symbols(*column),
        }
    }

    /// The table was dropped, and that is durable.
    pub(crate) fn discard_all(&self) {
        for SegmentFiles { segment, mask } in &self.files {
            segment.file().discard();
            if let Some(mask) = mask {
                mask.file().discard();
            }
        }
        self.folder.drop_folder();
    }

    /// What can be read of it, for verification, and why the rest cannot be: masks and symbols are
    /// read anew, a segment whose mask is damaged has all its rows, and a column whose symbols are
    /// damaged has none.
    pub(crate) fn readable(&self) -> (Snapshot, Vec<Error>) {
        let mut problems = Vec::new();
        let mut symbols = Vec::new();
        for column in self.manifest.schema.columns() {
            if column.ty == ColumnType::Symbol {
                match self.read_symbols(column.id) {
                    Ok(table) => symbols.push((column.id, Arc::new(table))),
                    Err(error) => problems.push(error),
                }
            }
        }
        let masks = self.files.iter().filter_map(|files| files.mask.as_ref());
        problems.extend(masks.filter_map(|mask| mask.read().err()));
        let open = |files: &SegmentFiles| {
            SegmentRun::open(&files.segment, files.mask.as_ref())
                .or_else(|_| SegmentRun::open(&files.segment, None))
        };
        let snapshot = self.snapshot_of(&open, symbols.into_iter().collect());
        (snapshot.expect("a segment without a mask is only opened when it is read"), problems)
    }

    /// The symbols of a column, as its file says now.
    fn read_symbols(&self, column: ColumnId) -> Result<SymbolTable> {
        let Some(&mark) = self.manifest.symbols.get(&column) else {
            return Ok(SymbolTable::default());
        };
        let path = self.folder.paths().symbol_file(column);
        let bytes = envelope::read(self.folder.disk().as_ref(), &path, "read symbols")?;
        let bytes = bytes.ok_or_else(|| Error::missing(&path))?;
        symbols::decode(&bytes, self.id(), column, mark).map_err(Error::decode(&path))
    }

    fn files_of(&self, id: SegmentId) -> Option<&SegmentFiles> {
        let at = self.files.binary_search_by_key(&id, |files| files.segment.meta().id).ok()?;
        Some(&self.files[at])
    }
}

/// The files of a manifest's segments, of which `known` may have some; both ascend by id.
fn files_of(
    folder: &Arc<TableFolder>,
    manifest: &Manifest,
    known: &[SegmentFiles],
) -> Vec<SegmentFiles> {
    let mut known = known.iter().peekable();
    let files = |SegmentEntry { meta, mask }: &SegmentEntry| {
        let (paths, schema) = (folder.paths(), &manifest.schema);
        while known.next_if(|files| files.segment.meta().id < meta.id).is_some() {}
        let old = known.next_if(|files| files.segment.meta().id == meta.id);
        let segment = match old {
            Some(old) => Arc::clone(&old.segment),
            None => {
                let file = TableFile::new(folder, paths.segment(schema, meta));
                Arc::new(SegmentFile::new(file, *meta))
            }
        };
        let old_mask = old.and_then(|old| old.mask.as_ref());
        let mask = mask.map(|mark| match old_mask.filter(|old| *old.mark() == mark) {
            Some(old) => Arc::clone(old),
            None => {
                let file = TableFile::new(folder, paths.mask(schema, meta, &mark));
                Arc::new(MaskFile::new(file, meta.id, mark))
            }
        });
        SegmentFiles { segment, mask }
    };
    manifest.segments.iter().map(files).collect()
}
