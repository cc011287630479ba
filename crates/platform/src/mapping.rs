//! A file as memory, read only.
//!
//! - M1. The bytes of a mapping stay where they are while any clone of it lives.
//! - M2. A mapped file is immutable: whoever maps it writes to it no more and never cuts it. If
//!   somebody else does, or the disk fails under it, reading raises SIGBUS, for which see
//!   `mapping/sigbus.rs`.
//! - M3. A process has at most `MAPPINGS_MAX` mappings of files; what would be one more is read
//!   into memory. The kernel gives a process so many, 65,530 by default, and one that has them all
//!   can neither allocate memory nor begin threads.

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

use memmap2::{Advice, Mmap};

pub use self::sigbus::install_sigbus_handler;

/// The bytes of a whole file, as they were when it was mapped. A clone is another reference to
/// the same bytes.
#[derive(Clone)]
pub struct Mapping(Source);

#[derive(Clone)]
enum Source {
    File(Arc<FileMapping>),
    Memory(Arc<[u8]>),
}

/// The kernel reads no more than this for one request to read ahead, unless it is told otherwise.
const WILL_NEED_BYTES: usize = 128 << 10;

/// The mappings of files that there are (M3).
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);
const MAPPINGS_MAX: usize = 48 << 10;

/// Fields in the order in which they must go: first the slot in the table, then the pages.
struct FileMapping {
    slot: sigbus::Registration,
    pages: Mmap,
}

impl Mapping {
    /// Maps all of `file`; `path` is what SIGBUS will call it.
    pub(crate) fn of_file(file: &File, path: &Path) -> io::Result<Mapping> {
        Mapping::within(file, path, MAPPINGS_MAX)
    }

    /// The same, with so many mappings at most (M3).
    fn within(file: &File, path: &Path, max: usize) -> io::Result<Mapping> {
        if max <= MAPPINGS.load(Ordering::Relaxed) {
            return read(file);
        }
        // SAFETY: nobody changes the file (M2).
        let pages = unsafe { Mmap::map(file)? };
        if pages.is_empty() {
            return Ok(Mapping::from(&[][..]));
        }
        // Who reads says what comes next: the neighbours of a page are often of other columns.
        let _ = pages.advise(Advice::Random);
        let slot = sigbus::Registration::new(pages.as_ptr_range(), path.as_os_str().as_bytes());
        MAPPINGS.fetch_add(1, Ordering::Relaxed);
        Ok(Mapping(Source::File(Arc::new(FileMapping { slot, pages }))))
    }

    /// Asks the kernel to begin reading a range that is not in memory. Promises nothing.
    pub fn will_need(&self, range: Range<usize>) {
        let Source::File(mapping) = &self.0 else { return };
        for start in range.clone().step_by(WILL_NEED_BYTES) {
            let bytes = WILL_NEED_BYTES.min(range.end - start);
            let _ = mapping.pages.advise_range(Advice::WillNeed, start, bytes);
        }
    }

    /// Whether these are pages of a file, which the kernel may drop and read again, as opposed to
    /// memory of this process.
    pub fn is_file_backed(&self) -> bool {
        matches!(self.0, Source::File(_))
    }
}

/// The bytes of a file as they are now, in memory.
fn read(file: &File) -> io::Result<Mapping> {
    let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut read = Vec::new();
    read.try_reserve_exact(bytes)?;
    read.resize(bytes, 0);
    file.read_exact_at(&mut read, 0)?;
    Ok(Mapping::from(Arc::<[u8]>::from(read)))
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        MAPPINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A mapping of bytes that are in memory already.
impl From<&[u8]> for Mapping {
    fn from(bytes: &[u8]) -> Mapping {
        Mapping(Source::Memory(Arc::from(bytes)))
    }
}

/// As above, without copying.
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
        let mapped = Mapping::within(&file, &path, usize::MAX).unwrap();
        assert!(mapped.is_file_backed());
        // Others may have mappings too.
        let read = Mapping::within(&file, &path, 1).unwrap();
        assert!(!read.is_file_backed() && *read == *mapped, "M3");
    }
}
