//! Output of the commands: files, standard output and standard error.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;

use crate::error::{Error, Result};

/// Creates a file, and replaces an existing one.
pub(crate) fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|source| Error::Make { path: path.to_owned(), source })
}

/// Opens standard output without the buffer of the library.
pub(crate) fn standard_output() -> Result<File> {
    let cloned = io::stdout().as_fd().try_clone_to_owned();
    let place = || "standard output".to_owned();
    cloned.map(File::from).map_err(|source| Error::Output { place: place(), bytes: 0, source })
}

/// Writes a line to standard output.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.map_err(|source| Error::Output {
        place: "standard output".to_owned(),
        bytes: 0,
        source,
    })
}

/// Writes a line to standard error, and ignores errors: its reader may have closed it.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes everything, and counts the written bytes in `bytes`, also if it fails.
pub(crate) fn write_counted(out: &mut impl Write, text: &[u8], bytes: &mut u64) -> io::Result<()> {
    let mut rest = text;
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                *bytes += count as u64;
                rest = &rest[count..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_before_a_full_disk_are_counted() {
        let (mut disk, mut bytes) = ([0; 25], 100);
        let mut rest = &mut disk[..];
        write_counted(&mut rest, b"ten bytes.", &mut bytes).unwrap();
        write_counted(&mut rest, b"ten bytes.", &mut bytes).unwrap();
        let error = write_counted(&mut rest, b"ten bytes.", &mut bytes).unwrap_err();
        assert_eq!((error.kind(), bytes), (ErrorKind::WriteZero, 125));
    }
}
