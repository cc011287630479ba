//! Input files: expansion of paths and patterns, and detection of file formats.
//!
//! Not here: reading the files, which the pipeline does, and the confinement of paths that come
//! from a statement, which `platform::Root` does.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;
use tidegate_platform::{Class, Opened, Root};

/// The reason why a path or a pattern names no files.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error("{} is named twice: its rows would be imported once", .path.display())]
    Twice { path: PathBuf },
    #[error("no file matches `{pattern}`")]
    NoMatch { pattern: String },
    #[error(
        "`{pattern}` matches only names that begin with `_` or `.`, such as {}: name them",
        .path.display()
    )]
    LeftOut { pattern: String, path: PathBuf },
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
    /// The class of the error: what has to be changed or repaired.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            SourceError::Twice { .. }
            | SourceError::NoMatch { .. }
            | SourceError::LeftOut { .. }
            | SourceError::Directory { .. }
            | SourceError::BadPattern { .. } => Class::Caller,
            SourceError::Unreadable { .. } => Class::Environment,
        }
    }
}

/// The files that paths and patterns name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExpandedPaths {
    /// Each file once, in the order of the paths and patterns.
    pub paths: Vec<PathBuf>,
    /// Files that several patterns match.
    pub repeated: Vec<PathBuf>,
    /// Files that a pattern matches only by its wildcards, and whose names are left out.
    pub left_out: Vec<PathBuf>,
}

/// Expands paths and patterns (`*`, `?`, `[..]`, `**`) to files: in the order of the patterns, the
/// matches of one in byte order, each file once. An existing path is not a pattern, whatever
/// characters it contains; directories that a pattern matches are skipped. Wildcards do not match
/// names that begin with `_` or `.`, of files and of directories, unless the pattern begins with
/// the same character: other programs write files that are not data under such names (`_metadata`,
/// `_SUCCESS`, `.part.crc`).
///
/// # Errors
/// A path that occurs twice, a pattern without a match, a path of a directory, a directory that
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
        if is_named && !named.insert(target(path)) {
            return Err(SourceError::Twice { path: path.to_path_buf() });
        }
        let Matches { paths, mut left_out } = match is_named {
            true => Matches { paths: vec![path.to_path_buf()], left_out: Vec::new() },
            false => matches(pattern)?,
        };
        expanded.left_out.append(&mut left_out);
        for path in paths {
            let is_new = seen.insert(target(&path));
            let list = if is_new { &mut expanded.paths } else { &mut expanded.repeated };
            list.push(path);
        }
    }
    expanded.repeated.sort();
    expanded.repeated.dedup();
    expanded.left_out.sort();
    expanded.left_out.dedup();
    expanded.left_out.retain(|path| !seen.contains(&target(path)));
    Ok(expanded)
}

/// A note on names that patterns leave out, if there are any.
#[must_use]
pub fn left_out_note(left_out: &[PathBuf]) -> Option<String> {
    let first = left_out.first()?.display();
    Some(match left_out.len() {
        1 => format!("{first} is left out: wildcards match no name that begins with `_` or `.`"),
        count => format!(
            "{count} files such as {first} are left out: wildcards match no name that begins with \
             `_` or `.`"
        ),
    })
}

/// Returns true for names that wildcards do not match.
fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}

/// The file that a path leads to: `./a`, and a link to `a`, is `a`. A hard link is another file.
fn target(path: &Path) -> PathBuf {
    let without_dots =
        || path.components().filter(|part| !matches!(part, Component::CurDir)).collect();
    // A path that cannot be resolved is reported when it is opened.
    path.canonicalize().unwrap_or_else(|_| without_dots())
}

/// The files that a pattern matches.
struct Matches {
    paths: Vec<PathBuf>,
    left_out: Vec<PathBuf>,
}

fn matches(pattern: &str) -> Result<Matches, SourceError> {
    let matches = glob::glob(pattern)
        .map_err(|source| SourceError::BadPattern { pattern: pattern.to_owned(), source })?;
    let mut paths = matches
        .collect::<Result<Vec<PathBuf>, glob::GlobError>>()
        .map_err(|source| SourceError::Unreadable { pattern: pattern.to_owned(), source })?;
    paths.retain(|path| !path.is_dir());
    let parts: Vec<&str> = pattern.split('/').collect();
    let (left_out, mut paths): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().partition(|path| is_left_out(path, &parts));
    if paths.is_empty() {
        let pattern = pattern.to_owned();
        return Err(match left_out.into_iter().min() {
            None => SourceError::NoMatch { pattern },
            Some(path) => SourceError::LeftOut { pattern, path },
        });
    }
    // Paths themselves are ordered by component, where `a/b` comes before `a-b`.
    paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(Matches { paths, left_out })
}

/// Returns true if only wildcards match some name in a path that begins with `_` or `.`. `parts`
/// are those of the pattern.
fn is_left_out(path: &Path, parts: &[&str]) -> bool {
    let names = |part: &&str, name: &str| {
        part.get(..1) == name.get(..1)
            && glob::Pattern::new(part).is_ok_and(|pattern| pattern.matches(name))
    };
    path.components().any(|component| {
        let Component::Normal(name) = component else { return false };
        let name = name.to_string_lossy();
        is_hidden(&name) && !parts.iter().any(|part| names(part, &name))
    })
}

/// The maximum depth of directories for a pattern.
const DEPTH_MAX: usize = 32;

/// The files below a root that a pattern names (`*`, `?`, `[..]`, and `**` for any directories), in
/// the byte order of their paths, at most `files_max`. Links to directories are not followed;
/// wildcards do not match names that begin with `_` or `.` (`expand_paths`).
///
/// # Errors
/// If a directory cannot be read, or the pattern leads out of the root.
pub fn expand_below(root: &Root, pattern: &str, files_max: usize) -> Opened<FilesBelow> {
    let parts: Vec<&str> = pattern.split('/').filter(|part| *part != ".").collect();
    if parts.iter().any(|part| part.is_empty() || *part == "..") {
        return Err(tidegate_platform::RootError::Refused);
    }
    let mut walk = Walk { root, files_max, found: FilesBelow::default() };
    walk.enter("", &parts, 0)?;
    let FilesBelow { mut paths, mut left_out } = walk.found;
    paths.sort();
    paths.dedup();
    left_out.sort();
    left_out.dedup();
    Ok(FilesBelow { paths, left_out })
}

/// The files below a root that a pattern names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FilesBelow {
    /// Their paths.
    pub paths: Vec<String>,
    /// Files and directories that only wildcards match, and whose names are left out; at most
    /// `files_max`.
    pub left_out: Vec<PathBuf>,
}

/// A walk through directories below a root.
struct Walk<'a> {
    root: &'a Root,
    files_max: usize,
    found: FilesBelow,
}

impl Walk<'_> {
    fn enter(&mut self, folder: &str, parts: &[&str], depth: usize) -> Opened<()> {
        let [first, rest @ ..] = parts else { return Ok(()) };
        if DEPTH_MAX < depth || self.files_max <= self.found.paths.len() {
            return Ok(());
        }
        let any_folders = *first == "**";
        if any_folders {
            self.enter(folder, rest, depth + 1)?;
        }
        let Ok(pattern) = glob::Pattern::new(first) else { return Ok(()) };
        for entry in self.root.list(folder)? {
            if self.files_max <= self.found.paths.len() {
                break;
            }
            let name = &entry.name;
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let is_last = !any_folders && rest.is_empty();
            let is_fit = any_folders || pattern.matches(name);
            let is_wanted = if is_last { entry.is_file } else { entry.is_dir };
            if !is_fit || !is_wanted {
                continue;
            }
            if is_hidden(name) && first.get(..1) != name.get(..1) {
                if self.found.left_out.len() < self.files_max {
                    self.found.left_out.push(PathBuf::from(path));
                }
            } else if is_last {
                self.found.paths.push(path);
            } else {
                self.enter(&path, if any_folders { parts } else { rest }, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// The names in paths such as `year=2024/a.csv`, by which other programs store columns that all
/// rows of a file share; each once.
pub(crate) fn folder_names(paths: &[PathBuf]) -> Vec<&str> {
    let mut names = Vec::new();
    for folder in paths.iter().filter_map(|path| path.parent()) {
        for part in folder.components().filter_map(|part| part.as_os_str().to_str()) {
            let Some((name, _)) = part.split_once('=') else { continue };
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The format of a file by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Magic {
    /// Gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878), or one of its skippable frames.
    Zstd,
    /// Apache Parquet.
    Parquet,
    /// UTF-16, by its byte order mark.
    Utf16,
    /// None of the above: text.
    Plain,
}

impl Magic {
    /// The number of bytes that `of` and `foreign` need.
    pub const BYTES: usize = 16;

    /// The format by the first `BYTES` bytes of a file, or by all of a shorter one.
    #[must_use]
    pub fn of(head: &[u8]) -> Magic {
        match head {
            [0x1F, 0x8B, ..] => Magic::Gzip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Magic::Zstd,
            [b'P', b'A', b'R', b'1', ..] => Magic::Parquet,
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Magic::Utf16,
            _ => Magic::Plain,
        }
    }

    /// The name of a format that has to be unpacked or converted first; takes the same bytes as
    /// `of`.
    #[must_use]
    pub fn foreign(head: &[u8]) -> Option<&'static str> {
        Some(match head {
            [b'P', b'K', 3, 4, ..] => "a ZIP archive, as .xlsx and .ods files are",
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => "bzip2",
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => "xz",
            [b'7', b'z', 0xBC, 0xAF, 0x27, 0x1C, ..] => "a 7z archive",
            [4, 0x22, 0x4D, 0x18, ..] => "LZ4",
            [0xFF, 6, 0, 0, b's', b'N', b'a', b'P', ..] => "framed Snappy",
            [b'P', b'G', b'D', b'M', b'P', ..] => "a dump of PostgreSQL in its own format",
            [b'P', b'A', b'R', b'E', ..] => "encrypted Parquet",
            [b'A', b'R', b'R', b'O', b'W', b'1', 0, 0, ..] => "Arrow IPC",
            [b'O', b'b', b'j', 1, ..] => "Avro",
            b"SQLite format 3\0" => "a SQLite database",
            [_, _, _, _, _, _, _, 0..0x20, b'D', b'U', b'C', b'K', ..] => "a DuckDB database",
            [0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1, ..] => "an old Office file, as .xls",
            [0x89, b'H', b'D', b'F', ..] => "HDF5",
            [b'F', b'E', b'A', b'1', 0, ..] => "Feather",
            [b'O', b'R', b'C', 0..=8, ..] => "ORC",
            [b'R', b'a', b'r', b'!', 0x1A, 7, ..] => "a RAR archive",
            [b'%', b'P', b'D', b'F', b'-', ..] => "a PDF document",
            [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] => "UTF-32 text",
            _ => return None,
        })
    }
}

/// The name of a text format without delimited records, by the beginning of the text. A cell of
/// delimited text seldom begins so, and a whole file hardly ever does.
#[must_use]
pub fn undelimited(text: &[u8]) -> Option<&'static str> {
    /// The position of the format's name in the header of a tar file.
    const TAR_AT: usize = 257;
    let text = text.trim_ascii_start();
    let begins =
        |word: &[u8]| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let second = || text[1..].trim_ascii_start().first().copied();
    Some(match text.first()? {
        b'{' if matches!(second(), Some(b'"' | b'}')) => "JSON",
        b'[' if matches!(second(), Some(b'"' | b'{' | b'[' | b']')) => "JSON",
        b'[' if is_array(text) => "JSON",
        b'<' if begins(b"<?xml") => "XML",
        b'<' if begins(b"<!doctype html") || begins(b"<html") => "HTML",
        b'{' if begins(b"{\\rtf") => "RTF",
        _ if is_sql(text) => "SQL",
        _ if text.get(TAR_AT..TAR_AT + 5) == Some(b"ustar") => "a tar archive",
        _ => return None,
    })
}

/// Returns true if the text begins like a database dump, or with an SQL statement.
fn is_sql(text: &[u8]) -> bool {
    /// The maximum number of comments and blank lines before the first statement.
    const LINES: usize = 32;
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let is_comment = |line: &&[u8]| line.is_empty() || line.starts_with(b"--");
    let mut comments = 0;
    for line in lines.take(LINES) {
        if is_comment(&line) {
            comments += 1;
            continue;
        }
        let begins = |words: &[u8]| {
            line.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words))
        };
        let statements: [&[u8]; 3] = [b"INSERT INTO ", b"CREATE TABLE ", b"DROP TABLE "];
        let of_dumps: [&[u8]; 3] = [b"SET ", b"/*!", b"BEGIN;"];
        let is_statement = statements.iter().any(|words| begins(words));
        return is_statement || 0 < comments && of_dumps.iter().any(|words| begins(words));
    }
    false
}

/// Returns true if the first line is a JSON array of numbers, words and strings only.
fn is_array(text: &[u8]) -> bool {
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    let inner = line.trim_ascii().strip_prefix(b"[").and_then(|line| line.strip_suffix(b"]"));
    let is_value = |text: &[u8]| {
        let text = text.trim_ascii();
        let is_number = || {
            let number = text.first().is_some_and(|byte| b"-0123456789".contains(byte));
            number && crate::parse::parse_f64(text).is_ok()
        };
        matches!(text, b"true" | b"false" | b"null") || text.starts_with(b"\"") || is_number()
    };
    inner.is_some_and(|inner| inner.split(|&byte| byte == b',').all(is_value))
}

#[cfg(test)]
mod tests {
    use tidegate_platform::{Disk, OpenMode, RealDisk};

    use super::*;

    #[test]
    fn patterns_name_files_below_a_root() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "a/x1.csv",
            "a/x2.csv",
            "a/b/x3.csv",
            "b/x4.csv",
            "x5.csv",
            ".x6.csv",
            "_x7.csv",
            "_b/x8.csv",
        ] {
            let path = folder.path().join(path);
            RealDisk.create_dir_all(path.parent().unwrap()).unwrap();
            RealDisk.open(&path, OpenMode::CreateNew).unwrap();
        }
        let root = Root::open(folder.path()).unwrap();
        for (pattern, expected, left_out) in [
            ("*.csv", "x5.csv", ".x6.csv _x7.csv"),
            ("a/x?.csv", "a/x1.csv a/x2.csv", ""),
            ("[ab]/*", "a/x1.csv a/x2.csv b/x4.csv", ""),
            ("**/x*.csv", "a/b/x3.csv a/x1.csv a/x2.csv b/x4.csv x5.csv", "_b"),
            ("a/**/x3*", "a/b/x3.csv", ""),
            ("_*", "_x7.csv", ""),
            ("_?/*", "_b/x8.csv", ""),
            (".x*", ".x6.csv", ""),
            ("nothing*", "", ""),
            ("[", "", ""),
        ] {
            let found = expand_below(&root, pattern, 100).unwrap();
            let hidden = found.left_out.iter().map(|path| path.to_str().unwrap());
            let hidden = hidden.collect::<Vec<_>>().join(" ");
            assert_eq!((found.paths.join(" ").as_str(), hidden.as_str()), (expected, left_out));
        }
        assert_eq!(expand_below(&root, "**/*", 2).unwrap().paths.len(), 2);
        assert!(expand_below(&root, "../*", 100).is_err());
    }

    #[test]
    fn folders_have_names() {
        let paths = ["a=b/year=2024/m=1/x=y.csv", "year=2025/=/c.csv", "d.csv"].map(PathBuf::from);
        assert_eq!(folder_names(&paths), ["a", "year", "m"]);
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
        assert_eq!(Magic::of(b"\xFF\xFEa\0"), Magic::Utf16);
    }

    #[test]
    fn text_that_is_not_delimited_has_a_name() {
        for (text, expected) in [
            ("{\"ts\": 1}\n{\"ts\": 2}\n", Some("JSON")),
            ("\n{\n  \"a\": [", Some("JSON")),
            ("[{\"a\": 1}]", Some("JSON")),
            ("<?xml version='1.0'?>", Some("XML")),
            ("<!DOCTYPE html>", Some("HTML")),
            ("{\\rtf1", Some("RTF")),
            ("--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\n", Some("SQL")),
            ("-- MySQL dump 10.13\n/*!40101 SET NAMES utf8 */;\n", Some("SQL")),
            ("insert into t values (1, 'a');\ninsert", Some("SQL")),
            ("--,note\nSET x,1\n", Some("SQL")),
            ("SET a,1\n", None),
            ("inserted,into\n", None),
            ("<DATE>,<OPEN>\n", None),
            ("[2024-01-01 10:00:00] begun\n", None),
            ("{x},1\n", None),
            ("a,{\"b\": 1}\n", None),
            ("", None),
        ] {
            assert_eq!(undelimited(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn unsupported_formats_are_named() {
        assert_eq!(
            Magic::foreign(b"PK\x03\x04\x14\0\0\0\x08\0"),
            Some("a ZIP archive, as .xlsx and .ods files are")
        );
        assert_eq!(Magic::foreign(b"PARE\x01\x02"), Some("encrypted Parquet"));
        assert_eq!(Magic::foreign(b"BZh91AY&SY"), Some("bzip2"));
        assert_eq!(Magic::foreign(b"\xFD7zXZ\0\0\x04\xE6\xD6"), Some("xz"));
        for text in [&b"BZh9,price"[..], b"PK,a,b\n1,2", b"", b"7zip,1\n2,3", b"PAR1"] {
            assert_eq!(Magic::foreign(text), None);
        }
    }
}
