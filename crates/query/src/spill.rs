//! The directory that queries spill to: it is made with the engine or, if the disk is full then, by
//! the first query that spills.
//!
//! - A full disk does not stop an engine from reading: queries that spill fail until there is room.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::DataFusionError;
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SpillFile, TempFileFactory};
use tidegate_model::ByteCount;

/// A directory, with the maximal bytes of its files.
#[derive(Debug, Clone)]
pub(crate) struct SpillFolder {
    pub(crate) dir: PathBuf,
    pub(crate) bytes_max: ByteCount,
}

/// The files of a directory that is made with the first of them.
struct LateFolder {
    folder: SpillFolder,
    made: Mutex<Option<Arc<DiskManager>>>,
}

impl SpillFolder {
    /// Returns the runtime of an engine that spills here.
    pub(crate) fn runtime(
        self,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Arc<RuntimeEnv>, DataFusionError> {
        let build = |disk| {
            let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(memory));
            runtime.with_disk_manager_builder(disk).build_arc()
        };
        if let Ok(runtime) = build(self.builder()) {
            return Ok(runtime);
        }
        let late = LateFolder { folder: self, made: Mutex::default() };
        build(DiskManagerBuilder::default().with_temp_file_factory(Arc::new(late)))
    }

    fn builder(&self) -> DiskManagerBuilder {
        DiskManagerBuilder::default()
            .with_max_temp_directory_size(self.bytes_max.0)
            .with_mode(DiskManagerMode::Directories(vec![self.dir.clone()]))
    }

    /// Adds the directory's name to an error, because the library leaves it out.
    fn failed(&self, error: DataFusionError) -> DataFusionError {
        let DataFusionError::IoError(source) = error else { return error };
        let dir = self.dir.display();
        let text = format!("make a folder in {dir} for queries that spill: {source}");
        DataFusionError::IoError(io::Error::new(source.kind(), text))
    }
}

impl TempFileFactory for LateFolder {
    fn create_temp_file(&self, purpose: &str) -> Result<Arc<dyn SpillFile>, DataFusionError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let manager = match &*made {
            Some(manager) => Arc::clone(manager),
            None => {
                let built = self.folder.builder().build();
                let manager = Arc::new(built.map_err(|error| self.folder.failed(error))?);
                Arc::clone(made.insert(manager))
            }
        };
        drop(made);
        manager.create_tmp_file(purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "DataFusion makes the folder without our disk")]
    fn a_folder_that_cannot_be_made_yet_is_made_by_a_later_query() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("spill");
        // No directory can be made in a file.
        std::fs::write(&dir, "").unwrap();
        let folder = SpillFolder { dir: dir.clone(), bytes_max: ByteCount(1 << 20) };
        let late = LateFolder { folder, made: Mutex::default() };
        let error = late.create_temp_file("a sort").err().expect("there is no folder");
        assert!(error.to_string().contains(dir.to_str().unwrap()), "{error}");
        std::fs::remove_file(&dir).unwrap();
        let file = late.create_temp_file("a sort").unwrap();
        assert!(file.path().unwrap().starts_with(&dir));
    }
}
