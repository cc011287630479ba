//! The files of the log: one after another, each named after its first group.
//!
//! - wal-4 holds here too.

use std::path::{Path, PathBuf};

use tidegate_model::Lsn;
use tidegate_platform::Disk;

use crate::error::{Error, Result};

const SUFFIX: &str = ".wal";

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFile {
    /// The position of its first group, which is where its predecessor ends (wal-4).
    pub(crate) first: Lsn,
    pub(crate) path: PathBuf,
}

/// The log files of a directory, in order.
pub(crate) fn list_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<LogFile>> {
    let entries = disk.list(dir).map_err(|error| match error.is_not_found() {
        true => Error::missing(dir),
        false => Error::disk("list log")(error),
    })?;
    let named = entries.into_iter().filter(|entry| !entry.is_dir);
    let files = named.filter_map(|entry| {
        let first = parse_file_name(&entry.name)?;
        Some(LogFile { first, path: dir.join(entry.name) })
    });
    let mut files: Vec<LogFile> = files.collect();
    files.sort_by_key(|file| file.first);
    Ok(files)
}

/// The name of the file that begins at `first`; names sort as positions do.
pub(crate) fn file_name(first: Lsn) -> String {
    format!("{:020}{SUFFIX}", first.0)
}

fn parse_file_name(name: &str) -> Option<Lsn> {
    let first = Lsn(name.strip_suffix(SUFFIX)?.parse().ok()?);
    (file_name(first) == name).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_log_files() {
        assert_eq!(parse_file_name(&file_name(Lsn(4_096))), Some(Lsn(4_096)));
        for name in ["1.wal", "00000000000000000001.wal.tmp", "x.wal", ".wal", "notes"] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
