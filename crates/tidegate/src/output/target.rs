//! The destination of results: standard output, or a file that appears whole or not at all.
//!
//! - output_target-1. A file under the name the user gave is complete: rows are written beside it,
//!   and it is renamed at the end. A path that is not a regular file (`/dev/null`, a pipe) is
//!   written directly.
//!
//! Output files get the permissions of the user's umask and may be pipes, which `platform` does not
//! support; so this is the only module that opens files by itself.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "outputs are ordinary files of the user, or pipes"
)]

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Size of the buffer that collects rows, because rows are small.
const BUFFER_BYTES: usize = 256 << 10;

/// Name of standard output in errors.
pub(crate) const STDOUT: &str = "standard output";

/// An open destination of results. A file is removed if `finish` is not called.
pub(crate) struct Target {
    place: String,
    out: BufWriter<Box<dyn Write + Send>>,
    is_closed: bool,
    /// The file being written, and its final name.
    pending: Option<(PathBuf, PathBuf)>,
}

impl Target {
    /// Returns standard output, with a buffer.
    pub(crate) fn stdout() -> Target {
        Target::new(STDOUT.to_owned(), Box::new(io::stdout()), None)
    }

    /// Creates a file that replaces the one with this name.
    pub(crate) fn file(path: &Path) -> io::Result<Target> {
        let place = path.display().to_string();
        // A link stays a link: the file that it points to is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(&path)?;
                return Ok(Target::new(place, Box::new(file), None));
            }
            _ => {}
        }
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let mut partial = name.to_os_string();
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = path.with_file_name(partial);
        let file = File::create_new(&partial)?;
        Ok(Target::new(place, Box::new(file), Some((partial, path))))
    }

    fn new(
        place: String,
        out: Box<dyn Write + Send>,
        pending: Option<(PathBuf, PathBuf)>,
    ) -> Target {
        let out = BufWriter::with_capacity(BUFFER_BYTES, out);
        Target { place, out, is_closed: false, pending }
    }

    /// Returns the name of the destination for errors.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Returns true if the reader of a pipe went away (output-1).
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Flushes the buffer, and renames a file to its final name (output_target-1).
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        if let Some((partial, path)) = &self.pending {
            fs::rename(partial, path)?;
            self.pending = None;
        }
        Ok(())
    }

    fn note_closed<T>(&mut self, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &outcome {
            self.is_closed |= error.kind() == ErrorKind::BrokenPipe;
        }
        outcome
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.out.write(bytes);
        self.note_closed(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.out.flush();
        self.note_closed(outcome)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some((partial, _)) = self.pending.take() {
            // The error that led here is reported; a second one would add nothing.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        fs::write(&path, "old").unwrap();
        let mut target = Target::file(&path).unwrap();
        target.write_all(b"new").unwrap();
        target.flush().unwrap();
        drop(target);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old", "output_target-1");

        let mut target = Target::file(&path).unwrap();
        target.write_all(b"new").unwrap();
        target.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn devices_are_written_directly_and_folders_are_refused() {
        let mut target = Target::file(Path::new("/dev/null")).unwrap();
        target.write_all(b"gone").unwrap();
        target.finish().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let error = Target::file(dir.path()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn a_closed_pipe_is_noticed() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut target = Target::new("a pipe".to_owned(), Box::new(writer), None);
        target.write_all(b"x").unwrap();
        assert!(target.flush().is_err());
        assert!(target.is_closed(), "output-1");
        // The drop of the buffer writes its rest again, in vain and without an error.
    }
}
