//! The files of the project: their sizes, and the text of those that a rule reads.
//!
//! - tidy_tree-1. Paths are relative to the root of the workspace and separated by `/`.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::steps::start_error;

/// Every file that git tracks or would add, by its path (tidy_tree-1).
pub(crate) struct Tree {
    files: BTreeMap<String, File>,
}

pub(crate) struct File {
    pub(crate) bytes: u64,
    /// Text of sources, manifests and prose. Bytes that are not UTF-8 become U+FFFD.
    pub(crate) text: Option<String>,
}

impl Tree {
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Returns the text of a file; none if there is no such file, or no rule reads its kind.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }

    /// Returns true if `path` is a file or a directory with files. The root itself is the empty
    /// path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// Creates a tree for a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |text: &str| File { bytes: text.len() as u64, text: Some(text.to_owned()) };
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), file(text)));
        Tree { files: files.collect() }
    }
}

/// Reads the tree at `root`. A file that vanishes meanwhile, or is deleted and not yet committed,
/// is left out.
pub(crate) fn read(root: &Path) -> Result<Tree> {
    let mut files = BTreeMap::new();
    for path in paths(root)? {
        if let Some(file) = read_file(root, &path)? {
            files.insert(path, file);
        }
    }
    Ok(Tree { files })
}

fn paths(root: &Path) -> Result<Vec<String>> {
    // A checkout may belong to another user, as in a container. Git warns of that because a
    // repository can make it run programs; this program is about to compile and run the repository
    // anyway.
    let args = ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"];
    let mut command = Command::new("git");
    command.current_dir(root).args(args).arg("--exclude-standard").stderr(Stdio::inherit());
    let output = command.output().map_err(start_error("git ls-files"))?;
    if !output.status.success() {
        let command = "git ls-files".to_owned();
        return Err(Error::Failed { command, status: output.status });
    }
    Ok(parse_list(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses a list of paths, each of which ends with a zero byte. A merge conflict lists a path
/// twice.
fn parse_list(list: &str) -> Vec<String> {
    let mut paths: Vec<String> =
        list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn read_file(root: &Path, path: &str) -> Result<Option<File>> {
    let place = root.join(path);
    let read_error = |source| Error::Read { path: place.clone(), source };
    let bytes = match fs::symlink_metadata(&place) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        // A symbolic link, or a repository inside this one, is not a file.
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(error)),
    };
    if !is_read(path) {
        return Ok(Some(File { bytes, text: None }));
    }
    let text = match fs::read(&place) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(error)),
    };
    Ok(Some(File { bytes, text }))
}

fn is_read(path: &str) -> bool {
    [".rs", ".md", ".toml"].iter().any(|ending| path.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_if_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/format.md", ""), ("docs-old.md", "")]);
        for path in ["", "docs", "docs/format.md", "docs-old.md"] {
            assert!(tree.contains(path), "{path}");
        }
        for path in ["doc", "docs/format", "docs/other.md", "format.md"] {
            assert!(!tree.contains(path), "{path}");
        }
    }

    #[test]
    fn the_list_of_git_is_split_at_zero_bytes() {
        assert_eq!(parse_list("b c.rs\0a.md\0a.md\0"), ["a.md", "b c.rs"]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn this_file_is_read_and_what_git_ignores_is_not() {
        let tree = read(crate::root()).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").unwrap().starts_with("//! The files of"));
        assert!(tree.text("LICENSE").is_none() && tree.contains("LICENSE"));
        assert!(!tree.contains(".git") && !tree.contains("target"));
    }
}
