//! Spilling: moves in-memory segments to a memory-mapped file, which frees their memory.

use std::path::Path;
use std::sync::Arc;

use tidegate_platform::{Disk, Mapping, OpenMode};

use super::memtable::MemtableRun;

/// Bytes written to a spill file at a time.
const WRITE_BYTES: usize = 1 << 20;

/// Writes the in-memory segments of runs that are not spilled yet into a file, one after another.
/// Then it maps the file and removes its name (replay_memory-2).
pub(crate) fn spill_mem_segments<'r>(
    disk: &dyn Disk,
    path: &Path,
    runs: impl Iterator<Item = &'r Arc<MemtableRun>>,
) -> tidegate_platform::Result<Mapping> {
    let file = disk.open(path, OpenMode::CreateOrTruncate)?;
    let mapping = (|| -> tidegate_platform::Result<Mapping> {
        let (mut buffer, mut offset) = (Vec::with_capacity(WRITE_BYTES), 0);
        for run in runs.filter(|run| !run.is_spilled()) {
            buffer
                .extend_from_slice(run.file.mem_segment().expect("a run is an in-memory segment"));
            if buffer.len() >= WRITE_BYTES {
                file.write_all_at(&buffer, offset)?;
                offset += buffer.len() as u64;
                buffer.clear();
            }
        }
        file.write_all_at(&buffer, offset)?;
        disk.open(path, OpenMode::Read)?.map()
    })();
    // The mapping keeps the content of the removed file; after an error none is needed.
    let removed = disk.remove(path);
    let mapping = mapping?;
    removed?;
    Ok(mapping)
}
