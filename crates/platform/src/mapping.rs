//! A file as memory, read only.
//!
//! - M1. The bytes of a mapping stay where they are while any clone of it lives.
//! - M2. A mapped file is immutable: whoever maps it writes to it no more and never cuts it. If
//!   somebody else does, or the disk fails under it, reading raises SIGBUS, for which see
//!   `mapping/sigbus.rs`.

#![expect(unsafe_code, reason = "the kernel maps files")]

mod sigbus;

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

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

/// Fields in the order in which they must go: first the slot in the table, then the pages.
struct FileMapping {
    slot: sigbus::Registration,
    pages: Mmap,
}

impl Mapping {
    /// Maps all of `file`; `path` is what SIGBUS will call it.
    pub(crate) fn of_file(file: &File, path: &Path) -> io::Result<Mapping> {
        // SAFETY: nobody changes the file (M2).
        let pages = unsafe { Mmap::map(file)? };
        if pages.is_empty() {
            return Ok(Mapping::from(&[][..]));
        }
        // Who reads says what comes next: the neighbours of a page are often of other columns.
        let _ = pages.advise(Advice::Random);
        let slot = sigbus::Registration::new(pages.as_ptr_range(), path.as_os_str().as_bytes());
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
