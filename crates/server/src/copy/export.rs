//! Export: writes rows to a file.
//!
//! - The file gets its name only when it is complete and durable (`platform::RootFile`).

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use futures::StreamExt;
use tidegate_platform::{DiskFile, Error as DiskError, RootFile, sentence};
use tidegate_query::{BulkOutcome, Error as QueryError, SendableRecordBatchStream};
use tokio::runtime::Handle;

use super::error::CopyError;
use super::job::{Ended, Job, cancelled};
use crate::results::{ResultForm, WriteError};
use crate::sqlstate;

/// The bytes of one write.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes all rows.
pub(super) fn write(
    job: &Arc<Job>,
    mut rows: SendableRecordBatchStream,
    runtime: &Handle,
    form: &ResultForm,
    file: &RootFile,
) -> Result<Ended, CopyError> {
    let out = FileOut { file: Arc::clone(file.file()), offset: 0 };
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let mut writer = form.writer(&mut out, rows.schema()).map_err(|error| failed(&error))?;
    let mut count = 0;
    loop {
        let batch = runtime.block_on(async {
            tokio::select! {
                biased;
                () = job.stopped() => Err(job.reason(cancelled())),
                batch = rows.next() => Ok(batch),
            }
        })?;
        let Some(batch) = batch else { break };
        let batch = batch.map_err(|error| {
            let error = QueryError::from(error);
            CopyError::new(sqlstate::of_query(&error), sentence(&error))
        })?;
        writer.write(&batch).map_err(|error| failed(&error))?;
        count += batch.num_rows() as u64;
        job.add_rows_written(batch.num_rows() as u64);
    }
    writer.finish().map_err(|error| failed(&error))?;
    out.flush().map_err(|error| failed(&WriteError::Io(error)))?;
    let outcome =
        BulkOutcome { rows_handled: count, rows_imported: count, ..BulkOutcome::default() };
    Ok(Ended { outcome, summary: None, message: String::new() })
}

fn failed(error: &WriteError) -> CopyError {
    let WriteError::Io(source) = error else {
        return CopyError::new("0A000", sentence(error));
    };
    let disk = source.get_ref().and_then(|inner| inner.downcast_ref::<DiskError>());
    let code = if disk.is_some_and(DiskError::is_no_space) { "53100" } else { "58030" };
    CopyError::new(code, sentence(error))
}

/// Writes a file sequentially.
struct FileOut {
    file: Arc<dyn DiskFile>,
    offset: u64,
}

impl Write for FileOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.offset).map_err(io::Error::other)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
