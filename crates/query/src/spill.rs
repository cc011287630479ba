//! The files of queries that spill, in one directory.
//!
//! - The directory is made by the first query that spills: a full disk does not stop an engine from
//!   reading, only queries that spill fail until there is room.
//! - spill-1. A file that is not written or read has no open handle: a statement has thousands of
//!   them, and the server needs its handles for segments and connections.
//! - spill-2. Repartitioned rows have a file for each batch (`FILE_BYTES_MAX`). DataFusion's
//!   readers wait for the end of the oldest file, although the next batch is in another, whose
//!   writer may be waiting for the reader (docs/upstream/spilled-repartitions.md).
//! - The bytes of all files have a limit; a write beyond it is an error (`QuotaExceeded`). Those of
//!   a file count until it is removed, which its last user does.

use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use tempfile::{NamedTempFile, TempDir, TempPath};
use tidegate_model::ByteCount;
use tidegate_storage::{Disk, Error as StorageError};
use tokio::io::AsyncReadExt;

use crate::error::Error;

/// spill-2. The bytes behind which repartitioned rows begin another file.
pub(crate) const FILE_BYTES_MAX: usize = 1;

/// The bytes that are read at a time.
const READ_BYTES: usize = 128 << 10;

/// The files of all queries of an engine.
#[derive(Debug)]
pub(crate) struct SpillFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    bytes_max: ByteCount,
    made: Mutex<Option<Arc<TempDir>>>,
    bytes: Arc<AtomicU64>,
}

impl SpillFiles {
    /// Files of at most `bytes_max` bytes together, in a directory of their own within `dir`.
    pub(crate) fn new(disk: &Arc<dyn Disk>, dir: PathBuf, bytes_max: ByteCount) -> SpillFiles {
        let disk = Arc::clone(disk);
        SpillFiles { disk, dir, bytes_max, made: Mutex::default(), bytes: Arc::default() }
    }

    /// Returns the runtime of an engine that spills here.
    pub(crate) fn runtime(
        self: &Arc<SpillFiles>,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Arc<RuntimeEnv>> {
        let files = Arc::clone(self) as Arc<dyn TempFileFactory>;
        let disk = DiskManagerBuilder::default().with_temp_file_factory(files);
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(memory));
        runtime.with_disk_manager_builder(disk).build_arc()
    }

    /// Returns the bytes of all files.
    pub(crate) fn bytes(&self) -> ByteCount {
        ByteCount(self.bytes.load(Relaxed))
    }

    fn made_dir(&self) -> Result<Arc<TempDir>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = &*made {
            return Ok(Arc::clone(dir));
        }
        self.disk.create_dir_all(&self.dir).map_err(|source| {
            Error::Storage(StorageError::Disk { purpose: "make the spill folder", source })
        })?;
        let dir = tempfile::Builder::new().prefix("queries-").tempdir_in(&self.dir)?;
        Ok(Arc::clone(made.insert(Arc::new(dir))))
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let dir = self.made_dir()?;
        let (file, path) = NamedTempFile::new_in(dir.path())?.into_parts();
        let count =
            FileBytes { all: Arc::clone(&self.bytes), max: self.bytes_max, own: AtomicU64::new(0) };
        let file = Mutex::new(Some(Box::new(file) as Box<dyn Write + Send>));
        Ok(Arc::new(RowsFile { path, file, bytes: Arc::new(count), _dir: dir }))
    }
}

/// The bytes of a file, which count as long as it does.
struct FileBytes {
    all: Arc<AtomicU64>,
    max: ByteCount,
    own: AtomicU64,
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(*self.own.get_mut(), Relaxed);
    }
}

/// A file of spilled rows.
struct RowsFile {
    path: TempPath,
    /// `None` behind the first writer (spill-1).
    file: Mutex<Option<Box<dyn Write + Send>>>,
    bytes: Arc<FileBytes>,
    _dir: Arc<TempDir>,
}

impl SpillFile for RowsFile {
    fn size(&self) -> Option<u64> {
        Some(self.bytes.own.load(Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let path = self.path.to_path_buf();
        let parts = stream::once(async move {
            let file = tokio::fs::File::open(path).await?;
            Ok::<_, DataFusionError>(stream::try_unfold(file, async |mut file| {
                let mut part = Vec::with_capacity(READ_BYTES);
                let read = file.read_buf(&mut part).await?;
                Ok((0 < read).then(|| (Bytes::from(part), file)))
            }))
        });
        Ok(Box::pin(futures::TryStreamExt::try_flatten(parts)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(file) = file else { return internal_err!("spilled rows are written once") };
        Ok(Box::new(RowsWriter { file, bytes: Arc::clone(&self.bytes) }))
    }
}

/// The writer of a file.
struct RowsWriter {
    file: Box<dyn Write + Send>,
    bytes: Arc<FileBytes>,
}

impl Write for RowsWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let FileBytes { all, max, own } = &*self.bytes;
        let more = bytes.len() as u64;
        if max.0 < all.fetch_add(more, Relaxed).saturating_add(more) {
            all.fetch_sub(more, Relaxed);
            let text = format!("spilled rows of all queries have the {max} of spill.max_bytes");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        own.fetch_add(more, Relaxed);
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SpillWriter for RowsWriter {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;
    use std::time::Duration;

    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::execution::TaskContext;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::physical_expr::Partitioning;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
    use futures::TryStreamExt;
    use tidegate_platform::RealDisk;
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;
    use crate::engine::session_config;
    use crate::options::EngineOptions;

    fn files(dir: &Path, bytes_max: ByteCount) -> SpillFiles {
        let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
        SpillFiles::new(&disk, dir.to_owned(), bytes_max)
    }

    async fn text(file: &dyn SpillFile) -> Vec<u8> {
        let parts = file.read_stream().unwrap().try_collect::<Vec<_>>().await.unwrap();
        parts.concat()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the files are made without our disk")]
    fn a_folder_that_cannot_be_made_yet_is_made_by_a_later_query() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("spill");
        // No directory can be made in a file.
        std::fs::write(&dir, "").unwrap();
        let files = files(&dir, ByteCount(1 << 20));
        let error = files.create_temp_file("a sort").err().expect("there is no folder");
        assert!(format!("{error:?}").contains(dir.to_str().unwrap()), "{error:?}");
        std::fs::remove_file(&dir).unwrap();
        files.create_temp_file("a sort").unwrap();
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the files are made without our disk")]
    async fn files_are_counted_and_removed_and_have_no_open_handle() {
        let home = tempfile::tempdir().unwrap();
        let files = files(home.path(), ByteCount(300_000));
        let (one, other) =
            (files.create_temp_file("").unwrap(), files.create_temp_file("").unwrap());
        let rows = (0..200_000_u32).map(|it| it.to_le_bytes()[0]).collect::<Vec<_>>();
        let mut writer = one.open_writer().unwrap();
        writer.write_all(&rows).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let handles = || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let paths = all.filter_map(|it| std::fs::read_link(it.path()).ok());
            paths.filter(|it| it.starts_with(home.path())).count()
        };
        assert_eq!(handles(), 1, "spill-1: that of the other file");
        assert_eq!((one.size(), files.bytes()), (Some(200_000), ByteCount(200_000)));
        assert_eq!(text(&*one).await, rows);
        let mut writer = other.open_writer().unwrap();
        let error = writer.write_all(&rows).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded, "{error}");
        writer.write_all(&rows[..100_000]).unwrap();
        drop((writer, one));
        assert_eq!(files.bytes(), ByteCount(100_000));
        assert_eq!(text(&*other).await.len(), 100_000);
        drop(other);
        let dir = files.made_dir().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(files.bytes(), ByteCount(0));
    }

    /// No batch has memory: all of them are spilled, by two tasks at the same time. With one file
    /// for all batches of a task, most runs of this test stood still.
    #[test]
    fn repartitioned_rows_arrive_whatever_file_they_are_in() {
        let batch = |from: i64| {
            let numbers = Arc::new(Int64Array::from_iter_values(from..from + 256)) as ArrayRef;
            RecordBatch::try_from_iter([("n", numbers)]).unwrap()
        };
        let input = |at: i64| (0..400).map(|number| batch((at * 400 + number) * 256)).collect();
        let inputs = (0..4).map(input).collect::<Vec<Vec<_>>>();
        let home = tempfile::tempdir().unwrap();
        let files = Arc::new(files(home.path(), ByteCount(1 << 30)));
        let memory = Arc::new(GreedyMemoryPool::new(1)) as Arc<dyn MemoryPool>;
        let options = EngineOptions::standard(
            NonZeroUsize::new(4).unwrap(),
            ByteCount(1 << 20),
            home.path().to_owned(),
        );
        let config = session_config(&options);
        let context = TaskContext::default().with_session_config(config);
        let context = Arc::new(context.with_runtime(files.runtime(&memory).unwrap()));
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        for _ in 0..3 {
            let schema = inputs[0][0].schema();
            let source = MemorySourceConfig::try_new_exec(&inputs, schema, None).unwrap();
            let by = Partitioning::Hash(vec![Arc::new(Column::new("n", 0))], 2);
            let plan = Arc::new(RepartitionExec::try_new(source, by).unwrap());
            let streams = collect_partitioned(Arc::clone(&plan) as _, Arc::clone(&context));
            let streams = async { timeout(Duration::from_secs(30), streams).await };
            let streams = runtime.block_on(streams);
            let batches = streams.expect("spill-2").unwrap().concat();
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 4 * 400 * 256);
            assert!(0 < plan.metrics().unwrap().spill_count().unwrap());
            assert_eq!(files.bytes(), ByteCount(0));
        }
    }
}
