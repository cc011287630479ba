//! Memory mapping of a file, read-only.
//!
//! - mapping-1. The bytes of a mapping stay at their address while any clone of it lives.
//! - mapping-2. Mapped bytes are immutable: the owner of the file never writes to them or truncates
//!   them. If another process does, or the disk fails, reading raises SIGBUS;
//!   see `mapping/sigbus.rs`.
//! - mapping-3. A process has at most `MAPPINGS_MAX` mappings of files; further files are read into
//!   memory. The kernel limits the mappings of a process, to 65,530 by default, and a process at
//!   that limit can neither allocate memory nor start threads.

#![expect(unsafe_code, reason = "the kernel maps files")]

mod sigbus;

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Advice, Mmap, MmapOptions};

pub use self::sigbus::install_sigbus_handler;

/// The bytes of a file, or of a range of it, as they were when it was mapped. A clone is another
/// reference to the same bytes.
#[derive(Clone)]
pub struct Mapping(Source);

#[derive(Clone)]
enum Source {
    File(Arc<FileMapping>),
    Memory(Arc<[u8]>),
}

/// The kernel reads at most this much for one request to read ahead, unless it is configured
/// otherwise.
const WILL_NEED_BYTES: usize = 128 << 10;

/// Number of mappings of files (mapping-3).
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);
const MAPPINGS_MAX: usize = 48 << 10;

/// A mapping of a file. Fields in the order in which they must be dropped: the slot in the table,
/// then the pages.
struct FileMapping {
    slot: sigbus::Registration,
    pages: Mmap,
}

impl Mapping {
    /// Maps all of `file`; a message about SIGBUS names `path`.
    pub(crate) fn of_file(file: &File, path: &Path) -> io::Result<Mapping> {
        Mapping::of_range(file, path, 0..file.metadata()?.len())
    }

    /// As `of_file`, for a range of the file, which must not end after it.
    pub(crate) fn of_range(file: &File, path: &Path, range: Range<u64>) -> io::Result<Mapping> {
        Mapping::within(file, path, range, MAPPINGS_MAX)
    }

    /// Maps a range of `file` unless there are `max` mappings already (mapping-3).
    fn within(file: &File, path: &Path, range: Range<u64>, max: usize) -> io::Result<Mapping> {
        if range.is_empty() {
            return Ok(Mapping::from(&[][..]));
        }
        let bytes = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        if max <= MAPPINGS.load(Ordering::Relaxed) {
            return read(file, range.start, bytes);
        }
        // SAFETY: these bytes of the file are not changed while they are mapped (mapping-2).
        let pages = unsafe { MmapOptions::new().offset(range.start).len(bytes).map(file)? };
        // Readers request read-ahead themselves: the neighbours of a page often belong to other
        // columns.
        let _ = pages.advise(Advice::Random);
        let slot = sigbus::Registration::new(pages.as_ptr_range(), path.as_os_str().as_bytes());
        MAPPINGS.fetch_add(1, Ordering::Relaxed);
        Ok(Mapping(Source::File(Arc::new(FileMapping { slot, pages }))))
    }

    /// Asks the kernel to start reading a range that is not in memory; the kernel may ignore it.
    pub fn will_need(&self, range: Range<usize>) {
        let Source::File(mapping) = &self.0 else { return };
        for start in range.clone().step_by(WILL_NEED_BYTES) {
            let bytes = WILL_NEED_BYTES.min(range.end - start);
            let _ = mapping.pages.advise_range(Advice::WillNeed, start, bytes);
        }
    }

    /// Returns true if these are pages of a file, which the kernel may drop and read again, and not
    /// memory of this process.
    pub fn is_file_backed(&self) -> bool {
        matches!(self.0, Source::File(_))
    }
}

/// Bytes of a file as they are now, in memory.
fn read(file: &File, offset: u64, bytes: usize) -> io::Result<Mapping> {
    let mut read = Vec::new();
    read.try_reserve_exact(bytes)?;
    read.resize(bytes, 0);
    file.read_exact_at(&mut read, offset)?;
    Ok(Mapping::from(Arc::<[u8]>::from(read)))
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        MAPPINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A mapping of bytes that are in memory already, copied.
impl From<&[u8]> for Mapping {
    fn from(bytes: &[u8]) -> Mapping {
        Mapping(Source::Memory(Arc::from(bytes)))
    }
}

/// A mapping of bytes that are in memory already, without copying.
impl From<Arc<[u8]>> for Mapping {
    fn from(bytes: Arc<[u8]>) -> Mapping {
        Mapping(Source::Memory(bytes))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::File(mapping) => &mapping.pages,
            Source::Memory(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = f.debug_struct("Mapping");
        match &self.0 {
            Source::File(mapping) => output.field("file", &mapping.slot.name()),
            Source::Memory(_) => &mut output,
        };
        output.field("bytes", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with 70,000 partitions ended the process: each of its segments was a mapping.
    #[test]
    fn a_file_that_would_be_one_mapping_too_many_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"some bytes").unwrap();
        let file = File::open(&path).unwrap();
        for range in [0..10, 5..10, 5..7] {
            let mapped = Mapping::within(&file, &path, range.clone(), usize::MAX).unwrap();
            assert!(mapped.is_file_backed());
            // Other tests may have mappings too.
            let read = Mapping::within(&file, &path, range, 1).unwrap();
            assert!(!read.is_file_backed() && *read == *mapped, "mapping-3");
        }
    }

    #[test]
    fn a_range_need_not_begin_with_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bytes: Vec<u8> = (0..20_000_u32).map(|n| n.to_le_bytes()[0] ^ 7).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        for range in [0..20_000, 1..2, 4_095..4_097, 4_096..8_192, 9_999..20_000, 5..5] {
            let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
            let expected = &bytes[start.unwrap()..end.unwrap()];
            let mapping = Mapping::of_range(&file, &path, range).unwrap();
            assert_eq!(&*mapping, expected);
            mapping.will_need(0..mapping.len());
        }
    }
}
