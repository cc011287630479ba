//! Which files are meant, and what kind they are.
//!
//! Not here: reading them, which is the pipeline's, and the confinement of paths that come from a
//! statement, which is `platform::Root`'s.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;
use tidegate_platform::{Class, Opened, Root};

/// Why a path or a pattern names no files.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error("{} is named twice: its rows would be imported once", .path.display())]
    Twice { path: PathBuf },
    #[error("no file matches `{pattern}`")]
    NoMatch { pattern: String },
    #[error(
        "{} is a directory: name its files, as in `{}`",
        .path.display(), .path.join("*").display()
    )]
    Directory { path: PathBuf },
    #[error("`{pattern}` is not a pattern")]
    BadPattern { pattern: String, source: glob::PatternError },
    #[error("look for `{pattern}`")]
    Unreadable { pattern: String, source: glob::GlobError },
}

impl SourceError {
    /// Whose fault it is.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            SourceError::Twice { .. }
            | SourceError::NoMatch { .. }
            | SourceError::Directory { .. }
            | SourceError::BadPattern { .. } => Class::Caller,
            SourceError::Unreadable { .. } => Class::Environment,
        }
    }
}

/// What paths and patterns name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExpandedPaths {
    /// Each file once, in the order in which they were named.
    pub paths: Vec<PathBuf>,
    /// Files that several patterns match.
    pub repeated: Vec<PathBuf>,
}

/// The files that paths and patterns (`*`, `?`, `[..]`, `**`) name: in the order of the patterns,
/// the matches of one in byte order, each file once. A path that exists is no pattern, whatever
/// characters it has; folders that a pattern matches are passed over.
///
/// # Errors
/// A path that is there twice, a pattern without a match, a path that is a directory, a folder that
/// cannot be read.
pub fn expand_paths(patterns: &[String]) -> Result<ExpandedPaths, SourceError> {
    let (mut named, mut seen) = (HashSet::new(), HashSet::new());
    let mut expanded = ExpandedPaths::default();
    for pattern in patterns {
        let path = Path::new(pattern);
        if path.is_dir() {
            return Err(SourceError::Directory { path: path.to_path_buf() });
        }
        let is_named = path.exists();
        if is_named && !named.insert(plain(path)) {
            return Err(SourceError::Twice { path: path.to_path_buf() });
        }
        let matches = if is_named { vec![path.to_path_buf()] } else { matches(pattern)? };
        for path in matches {
            let is_new = seen.insert(plain(&path));
            let list = if is_new { &mut expanded.paths } else { &mut expanded.repeated };
            list.push(path);
        }
    }
    expanded.repeated.sort();
    expanded.repeated.dedup();
    Ok(expanded)
}

/// A path without the dots that mean nothing, so that `./a` is `a`.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

fn matches(pattern: &str) -> Result<Vec<PathBuf>, SourceError> {
    let matches = glob::glob(pattern)
        .map_err(|source| SourceError::BadPattern { pattern: pattern.to_owned(), source })?;
    let mut paths = matches
        .collect::<Result<Vec<PathBuf>, glob::GlobError>>()
        .map_err(|source| SourceError::Unreadable { pattern: pattern.to_owned(), source })?;
    paths.retain(|path| !path.is_dir());
    if paths.is_empty() {
        return Err(SourceError::NoMatch { pattern: pattern.to_owned() });
    }
    // Paths themselves are ordered by component, where `a/b` comes before `a-b`.
    paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(paths)
}

/// The most folders in each other that a pattern goes down.
const DEPTH_MAX: usize = 32;

/// The files below a root that a pattern names (`*`, `?`, `[..]`, and `**` for any folders), in the
/// order of the bytes of their paths, as far as they are `files_max`. Links to folders are not
/// followed; nothing that begins with a dot is named by a sign.
///
/// # Errors
/// If a folder cannot be read, or the pattern leads out of the root.
pub fn expand_below(root: &Root, pattern: &str, files_max: usize) -> Opened<Vec<String>> {
    let parts: Vec<&str> = pattern.split('/').filter(|part| *part != ".").collect();
    if parts.iter().any(|part| part.is_empty() || *part == "..") {
        return Err(tidegate_platform::RootError::Refused);
    }
    let mut walk = Walk { root, files_max, found: Vec::new() };
    walk.enter("", &parts, 0)?;
    walk.found.sort();
    walk.found.dedup();
    Ok(walk.found)
}

/// A walk through folders below a root.
struct Walk<'a> {
    root: &'a Root,
    files_max: usize,
    found: Vec<String>,
}

impl Walk<'_> {
    fn enter(&mut self, folder: &str, parts: &[&str], depth: usize) -> Opened<()> {
        let [first, rest @ ..] = parts else { return Ok(()) };
        if DEPTH_MAX < depth || self.files_max <= self.found.len() {
            return Ok(());
        }
        let any_folders = *first == "**";
        if any_folders {
            self.enter(folder, rest, depth + 1)?;
        }
        let Ok(pattern) = glob::Pattern::new(first) else { return Ok(()) };
        let options = glob::MatchOptions {
            require_literal_leading_dot: true,
            ..glob::MatchOptions::default()
        };
        for entry in self.root.list(folder)? {
            if self.files_max <= self.found.len() {
                break;
            }
            let name = &entry.name;
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if any_folders {
                if entry.is_dir && !name.starts_with('.') {
                    self.enter(&path, parts, depth + 1)?;
                }
            } else if pattern.matches_with(name, options) {
                if rest.is_empty() && entry.is_file {
                    self.found.push(path);
                } else if entry.is_dir {
                    self.enter(&path, rest, depth + 1)?;
                }
            }
        }
        Ok(())
    }
}

/// What a file is by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Magic {
    /// RFC 1952.
    Gzip,
    /// RFC 8878, or one of its skippable frames.
    Zstd,
    /// Apache Parquet.
    Parquet,
    /// Nothing of the above: text.
    Plain,
}

impl Magic {
    /// How many bytes `of` and `foreign` want.
    pub const BYTES: usize = 10;

    /// Takes the first `BYTES` bytes of a file, or all of a shorter one.
    #[must_use]
    pub fn of(head: &[u8]) -> Magic {
        match head {
            [0x1F, 0x8B, ..] => Magic::Gzip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Magic::Zstd,
            [b'P', b'A', b'R', b'1', ..] => Magic::Parquet,
            _ => Magic::Plain,
        }
    }

    /// What a file is that has to be unpacked or converted first; takes the same bytes as `of`.
    #[must_use]
    pub fn foreign(head: &[u8]) -> Option<&'static str> {
        Some(match head {
            [b'P', b'K', 3, 4, ..] => "a ZIP archive",
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59] => "bzip2",
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => "xz",
            [b'7', b'z', 0xBC, 0xAF, 0x27, 0x1C, ..] => "a 7z archive",
            [4, 0x22, 0x4D, 0x18, ..] => "LZ4",
            [0xFF, 6, 0, 0, b's', b'N', b'a', b'P', ..] => "framed Snappy",
            [b'A', b'R', b'R', b'O', b'W', b'1', 0, 0, ..] => "Arrow IPC",
            [b'O', b'b', b'j', 1, ..] => "Avro",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use tidegate_platform::{Disk, OpenMode, RealDisk};

    use super::*;

    #[test]
    fn patterns_name_files_below_a_root() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/x1.csv", "a/x2.csv", "a/b/x3.csv", "b/x4.csv", "x5.csv", ".x6.csv"] {
            let path = folder.path().join(path);
            RealDisk.create_dir_all(path.parent().unwrap()).unwrap();
            RealDisk.open(&path, OpenMode::CreateNew).unwrap();
        }
        let root = Root::open(folder.path()).unwrap();
        for (pattern, expected) in [
            ("*.csv", "x5.csv"),
            ("a/x?.csv", "a/x1.csv a/x2.csv"),
            ("[ab]/*", "a/x1.csv a/x2.csv b/x4.csv"),
            ("**/x*.csv", "a/b/x3.csv a/x1.csv a/x2.csv b/x4.csv x5.csv"),
            ("a/**/x3*", "a/b/x3.csv"),
            ("nothing*", ""),
            ("[", ""),
        ] {
            let found = expand_below(&root, pattern, 100).unwrap();
            assert_eq!(found.join(" "), expected, "{pattern}");
        }
        assert_eq!(expand_below(&root, "**/*", 2).unwrap().len(), 2);
        assert!(expand_below(&root, "../*", 100).is_err());
    }

    #[test]
    fn magic_bytes() {
        assert_eq!(Magic::of(b"\x1F\x8B\x08\x00"), Magic::Gzip);
        assert_eq!(Magic::of(b"\x28\xB5\x2F\xFD"), Magic::Zstd);
        assert_eq!(Magic::of(b"\x50\x2A\x4D\x18"), Magic::Zstd);
        assert_eq!(Magic::of(b"PAR1"), Magic::Parquet);
        for head in [&b""[..], b"\x1F", b"PAR", b"a,b\n"] {
            assert_eq!(Magic::of(head), Magic::Plain);
        }
    }

    #[test]
    fn what_must_be_unpacked_first_has_a_name() {
        assert_eq!(Magic::foreign(b"PK\x03\x04\x14\0\0\0\x08\0"), Some("a ZIP archive"));
        assert_eq!(Magic::foreign(b"BZh91AY&SY"), Some("bzip2"));
        assert_eq!(Magic::foreign(b"\xFD7zXZ\0\0\x04\xE6\xD6"), Some("xz"));
        for text in [&b"BZh9,price"[..], b"PK,a,b\n1,2", b"", b"7zip,1\n2,3", b"PAR1"] {
            assert_eq!(Magic::foreign(text), None);
        }
    }
}
