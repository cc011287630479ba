//! Files that COPY may read and write: those below two directories, whatever links there are.
//!
//! - Both directories are opened once (`platform::Root`); no file is opened in another way.
//! - copy_files-1. A client that names a forbidden file learns nothing about it, not even whether
//!   it exists.
//! - copy_files-2. The directories hold nothing of the database: neither is one of its own, inside
//!   one, or around one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_ingest::left_out_note;
use tidegate_ingest::source::{FilesBelow, expand_below};
use tidegate_platform::{DiskFile, Root, RootError, RootFile, sentence};
use tidegate_query::{BulkFile, Placed};
use tidegate_storage::Database;

use super::CopyConfig;
use super::error::CopyError;
use crate::log::Log;

/// The most files that are listed, or that match a pattern.
const FILES_MAX: usize = 10_000;

/// Both directories; `None` for one that is not configured, or that may not be used.
#[derive(Debug)]
pub(super) struct Files {
    import: Option<Root>,
    export: Option<Root>,
    /// The log, which gets the details that the client does not get (copy_files-1).
    log: Option<Arc<Log>>,
}

/// The reason why the directories cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// It lies in, or around, a directory of the database (copy_files-2).
    #[error("{key} = {} lies in, or around, a folder of the database: {}", .path.display(),
        .own.display())]
    OfDatabase {
        /// The key of the configuration.
        key: &'static str,
        /// The directory that it names.
        path: PathBuf,
        /// The directory of the database.
        own: PathBuf,
    },
    /// It cannot be opened, for example because it does not exist.
    #[error("{key}")]
    Disk {
        /// The key of the configuration.
        key: &'static str,
        /// The reason.
        source: tidegate_platform::Error,
    },
}

/// The files of an import.
pub(super) struct OpenedFiles {
    pub(super) files: Vec<Arc<dyn DiskFile>>,
    /// A note on names that were left out.
    pub(super) note: Option<String>,
}

impl Files {
    /// Opens the directories. Those below that of the database are created, if `makes_folders`.
    pub(super) fn open(
        database: &Database,
        config: &CopyConfig,
        makes_folders: bool,
        log: Option<Arc<Log>>,
    ) -> Result<Files, FolderError> {
        let open = |key, path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            folder(database, key, path, makes_folders)
        };
        let import = open("copy.root", &config.root)?;
        let export = open("copy.export_root", &config.export_root)?;
        Ok(Files { import, export, log })
    }

    /// Opens the files that a path or a pattern names, in the byte order of their names.
    pub(super) fn open_all(&self, path: &Placed) -> Result<OpenedFiles, CopyError> {
        let root = root(&self.import, "copy.root", path)?;
        let refuse = |error| self.refusal(&path.text, &error).at(path.offset);
        let FilesBelow { paths, left_out } = match root.open_file(&path.text) {
            Ok(file) => return Ok(OpenedFiles { files: vec![file], note: None }),
            Err(RootError::NotFound) => {
                expand_below(root, &path.text, FILES_MAX).map_err(refuse)?
            }
            Err(error) => return Err(refuse(error)),
        };
        let note = left_out_note(&left_out);
        match (paths.is_empty(), note) {
            (true, None) => Err(refuse(RootError::NotFound)),
            (true, Some(note)) => {
                let message = format!("no file matches `{}`: {note}", path.text);
                Err(CopyError::new("58P01", message).at(path.offset))
            }
            (false, note) => {
                let files = paths.iter().map(|path| root.open_file(path));
                let files = files.collect::<Result<_, _>>().map_err(refuse)?;
                Ok(OpenedFiles { files, note })
            }
        }
    }

    /// Creates a file without its name.
    pub(super) fn create(&self, path: &Placed) -> Result<RootFile, CopyError> {
        let root = root(&self.export, "copy.export_root", path)?;
        let created = root.create(&path.text);
        created.map_err(|error| self.refusal(&path.text, &error).at(path.offset))
    }

    /// Makes it durable and gives it its name.
    pub(super) fn finish(&self, file: RootFile, path: &Placed) -> Result<(), CopyError> {
        file.finish().map_err(|error| self.refusal(&path.text, &error))
    }

    /// Lists all files that can be imported.
    pub(super) fn list(&self) -> Result<Vec<BulkFile>, CopyError> {
        let Some(root) = &self.import else { return Ok(Vec::new()) };
        let (mut files, mut folders) = (Vec::new(), vec![String::new()]);
        while let Some(folder) = folders.pop() {
            let entries = match root.list(&folder) {
                Ok(entries) => entries,
                Err(RootError::NotFound | RootError::Refused) => continue,
                Err(error) => return Err(self.refusal(&folder, &error)),
            };
            for entry in entries {
                let name = &entry.name;
                let path =
                    if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                if entry.is_dir {
                    folders.push(path);
                } else if entry.is_file && files.len() < FILES_MAX {
                    let (bytes, modified) = (entry.bytes, entry.modified);
                    files.push(BulkFile { path, bytes, modified });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// Makes the error of a refused file, and logs its details (copy_files-1).
    fn refusal(&self, path: &str, error: &RootError) -> CopyError {
        if let Some(log) = &self.log
            && !matches!(error, RootError::NotFound)
        {
            log.warn_limited("copy", format_args!("`{path}` was refused: {}", sentence(error)));
        }
        match error {
            RootError::NotFound => CopyError::new("58P01", format!("file `{path}` does not exist")),
            RootError::NotAFile => {
                CopyError::new("42809", format!("`{path}` is not a regular file"))
            }
            RootError::Exists => CopyError::new("58P02", format!("`{path}` exists already")),
            RootError::Io(source) if source.is_no_space() => {
                CopyError::new("53100", sentence(source))
            }
            RootError::Io(source) => CopyError::new("58030", sentence(source)),
            _ => CopyError::new("42501", "permission denied: this path may not be used"),
        }
    }
}

fn root<'a>(
    root: &'a Option<Root>,
    key: &'static str,
    path: &Placed,
) -> Result<&'a Root, CopyError> {
    root.as_ref().ok_or_else(|| {
        let message = format!("files are not copied: {key} names no folder that is there");
        CopyError::new("0A000", message).at(path.offset)
    })
}

fn folder(
    database: &Database,
    key: &'static str,
    path: &Path,
    makes_folders: bool,
) -> Result<Option<Root>, FolderError> {
    let own = database.dir();
    let full = own.join(path);
    let fail = |source| FolderError::Disk { key, source };
    if path.is_relative() {
        let made = if makes_folders { database.disk().create_dir_all(&full) } else { Ok(()) };
        // A directory that is there is used on a read-only disk, too.
        made.or_else(|error| if error.is_read_only() { Ok(()) } else { Err(fail(error)) })?;
        if !database.disk().exists(&full).map_err(fail)? {
            return Ok(None);
        }
    }
    let root = Root::open(&full).map_err(fail)?;
    for own in ["data", "wal", "scratch"].map(|name| own.join(name)) {
        if root.contains(&own) || root.lies_in(&own) {
            return Err(FolderError::OfDatabase { key, path: full, own });
        }
    }
    Ok(Some(root))
}
