//! The spill file: slabs written one after the other, read back the same way.
//!
//! - J1. A slab comes back as it was: rows, slots, texts, NULLs and marks.
//!
//! A spill file lives in the transaction's scratch folder and ends with it, so its bytes have no
//! version and no checksum: nobody reads them after a crash. Each slab is a header of counts, then
//! marks, NULL bitmaps, columns of `rows` values, texts.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::bytes::{ByteReader, ByteWriter, Truncated};
use tidegate_platform::{AlignedBuffer, Disk, DiskFile, IoChoice, OpenMode, WriteQueue};

use super::HeldSlab;
use crate::error::{Error, Result};
use crate::layout::{Mark, RowLayout, Slab};
use crate::progress::Progress;

/// A file of slabs.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: Arc<dyn DiskFile>,
    end: AtomicU64,
    queue: Mutex<SpillQueue>,
}

struct SpillQueue(WriteQueue);

impl std::fmt::Debug for SpillQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpillQueue")
    }
}

/// A slab in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpilledSlab {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) worker: u32,
    pub(crate) sequence: u64,
}

/// Slabs are written in operations of about this size.
const WRITE_BYTES: usize = 4 << 20;

impl SpillFile {
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, io: IoChoice) -> Result<SpillFile> {
        let file = disk
            .open(&dir.join("spill"), OpenMode::CreateOrTruncate)
            .map_err(Error::disk("create spill file"))?;
        let queue = WriteQueue::new(io, 8).map_err(Error::disk("create spill file"))?;
        let queue = Mutex::new(SpillQueue(queue));
        Ok(SpillFile { file, end: AtomicU64::new(0), queue })
    }

    /// Writes slabs behind each other.
    pub(crate) fn write(&self, slabs: &[HeldSlab], layout: &RowLayout) -> Result<Vec<SpilledSlab>> {
        let mut spilled = Vec::with_capacity(slabs.len());
        let mut buffer = ByteWriter(Vec::with_capacity(WRITE_BYTES));
        for held in slabs {
            buffer.0.clear();
            encode(&held.slab, layout, &mut buffer);
            let bytes = buffer.0.len() as u64;
            let offset = self.end.fetch_add(bytes.next_multiple_of(4_096), Relaxed);
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let full = std::mem::take(&mut buffer.0);
            let spare = queue.0.write(&self.file, full, offset).map_err(Error::disk("spill"))?;
            buffer.0 = spare.unwrap_or_default();
            spilled.push(SpilledSlab {
                offset,
                bytes,
                worker: held.slab.worker,
                sequence: held.slab.sequence,
            });
        }
        Ok(spilled)
    }

    /// How many bytes were written, with the gaps between slabs.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// Waits until everything is written.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.0.flush().map_err(Error::disk("spill"))
    }

    /// Reads a slab back.
    pub(crate) fn read(
        &self,
        spilled: SpilledSlab,
        layout: &RowLayout,
        progress: &Progress,
    ) -> Result<Slab> {
        self.flush()?;
        let mut bytes = vec![0; usize::try_from(spilled.bytes).expect("it was in memory")];
        self.file
            .read_exact_at(&mut bytes, spilled.offset)
            .map_err(Error::disk("read spilled rows"))?;
        progress.add_spilled(spilled.bytes);
        Ok(decode(&bytes, layout).expect("J1: these bytes were written by this process"))
    }
}

fn encode(slab: &Slab, layout: &RowLayout, out: &mut ByteWriter) {
    let count = |count: usize| u32::try_from(count).expect("a slab is small");
    out.u32(count(slab.rows)).u32(slab.worker).u64(slab.sequence).u32(count(slab.marks.len()));
    for mark in &slab.marks {
        out.u64(mark.order).u32(mark.start);
    }
    for nulls in &slab.nulls {
        out.u8(nulls.is_some().into());
        let words = nulls.as_deref().map_or(&[][..], |words| &words[..slab.rows.div_ceil(64)]);
        for word in words {
            out.u64(*word);
        }
    }
    for column in &layout.columns {
        out.raw(slab.column(column));
    }
    out.u32(count(slab.texts.pages.len()));
    for page in &slab.texts.pages {
        out.counted(page);
    }
}

fn decode(bytes: &[u8], layout: &RowLayout) -> std::result::Result<Slab, Truncated> {
    let mut r = ByteReader::new(bytes);
    let (rows, worker) = (r.u32()? as usize, r.u32()?);
    let (sequence, marks) = (r.u64()?, r.u32()?);
    let capacity = rows.next_multiple_of(64).max(64);
    let fixed = AlignedBuffer::new(capacity * layout.row_bytes);
    let mut slab = Slab::new(fixed, layout, worker);
    slab.rows = rows;
    slab.sequence = sequence;
    for _ in 0..marks {
        slab.marks.push(Mark { order: r.u64()?, start: r.u32()? });
    }
    for nulls in &mut slab.nulls {
        if r.u8()? == 1 {
            let mut words = vec![0; capacity / 64];
            for word in &mut words[..rows.div_ceil(64)] {
                *word = r.u64()?;
            }
            *nulls = Some(words.into_boxed_slice());
        }
    }
    for column in &layout.columns {
        let values = r.raw(rows * column.width)?;
        let start = column.start * capacity;
        slab.fixed[start..start + values.len()].copy_from_slice(values);
    }
    for _ in 0..r.u32()? {
        slab.texts.restore(r.counted()?);
    }
    Ok(slab)
}
