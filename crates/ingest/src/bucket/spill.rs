//! The spill file: column buffers that are written one after the other, and read back later.
//!
//! - bucket_spill-1. A column buffer is read back unchanged: rows, slots, texts, NULLs and source
//!   ranges.
//!
//! A spill file is in the transaction's scratch directory and is removed with it, so its bytes have
//! no version and no checksum: they are never read after a crash. A column buffer in the file is
//! a header of counts, followed by source ranges, NULL bitmaps, the positions of columns, their
//! codes, and texts.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::bytes::{ByteReader, ByteWriter, Truncated};
use tidegate_platform::{Disk, DiskFile, IoChoice, OpenMode, WriteQueue};
use tidegate_storage::segment::strings::TextForm;

use super::InMemoryBuffer;
use crate::error::{Error, Result};
use crate::layout::{RowLayout, SourceRange};
use crate::packed::{PackedBuffer, PackedColumn, PackedTexts};
use crate::progress::Progress;

/// A file of spilled column buffers.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: Arc<dyn DiskFile>,
    end: AtomicU64,
    queue: Mutex<SpillQueue>,
}

struct SpillQueue {
    queue: WriteQueue,
    /// An empty buffer, ready for the next write.
    spare: Option<Vec<u8>>,
}

/// The size above which a buffer is freed instead of reused.
const SPARE_BYTES_MAX: usize = 1 << 20;

impl std::fmt::Debug for SpillQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpillQueue")
    }
}

/// The place of a column buffer in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpilledBuffer {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) worker: u32,
    pub(crate) sequence: u64,
}

/// The alignment of column buffers in the file.
const PAGE_BYTES: usize = 4_096;
/// The approximate size of the counts of a column buffer.
const SLACK_BYTES: usize = 1 << 10;

/// The options of a spill file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpillOptions {
    pub(crate) io: IoChoice,
    /// True if the file may become larger than the memory.
    pub(crate) is_large: bool,
    /// The maximum number of bytes of writes in flight.
    pub(crate) in_flight_max: usize,
}

impl SpillFile {
    /// Creates an empty spill file.
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, options: &SpillOptions) -> Result<SpillFile> {
        let &SpillOptions { io, is_large, in_flight_max } = options;
        let file = disk
            .open(&dir.join("spill"), OpenMode::CreateOrTruncate)
            .map_err(Error::disk("create spill file"))?;
        let queue = if is_large { WriteQueue::around_cache(io, 8) } else { WriteQueue::new(io, 8) };
        let queue = queue.map_err(Error::disk("create spill file"))?;
        let queue = queue.with_bytes_max(in_flight_max);
        let queue = Mutex::new(SpillQueue { queue, spare: None });
        Ok(SpillFile { file, end: AtomicU64::new(0), queue })
    }

    /// Appends a column buffer to the file, and frees its memory.
    pub(crate) fn write(&self, buffer: InMemoryBuffer) -> Result<SpilledBuffer> {
        let InMemoryBuffer { buffer, reservation } = buffer;
        let (worker, sequence) = (buffer.worker, buffer.sequence);
        // A column buffer may be as large as the largest record; until it is freed, it is in memory
        // twice.
        let mut encoded = self.spare();
        encoded.0.reserve_exact(buffer.memory_bytes() + PAGE_BYTES + SLACK_BYTES);
        encode(&buffer, &mut encoded);
        drop(buffer);
        let bytes = encoded.0.len() as u64;
        let offset = self.end.fetch_add(bytes.next_multiple_of(PAGE_BYTES as u64), Relaxed);
        let mut full = encoded.0;
        full.resize(full.len().next_multiple_of(PAGE_BYTES), 0);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.spare = queue.queue.write(&self.file, full, offset).map_err(Error::disk("spill"))?;
        queue.spare.take_if(|spare| spare.capacity() > SPARE_BYTES_MAX);
        drop(reservation);
        Ok(SpilledBuffer { offset, bytes, worker, sequence })
    }

    fn spare(&self) -> ByteWriter {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        ByteWriter(queue.spare.take().unwrap_or_default())
    }

    /// Waits until all column buffers are written.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.queue.flush().map_err(Error::disk("spill"))
    }

    /// Reads a column buffer back.
    pub(crate) fn read(
        &self,
        spilled: SpilledBuffer,
        layout: &RowLayout,
        progress: &Progress,
    ) -> Result<PackedBuffer> {
        self.flush()?;
        let mut bytes = vec![0; usize::try_from(spilled.bytes).expect("it was in memory")];
        self.file
            .read_exact_at(&mut bytes, spilled.offset)
            .map_err(Error::disk("read spilled rows"))?;
        progress.add_spilled(spilled.bytes);
        Ok(decode(bytes, layout).expect("bucket_spill-1: these bytes were written by this process"))
    }
}

fn encode(buffer: &PackedBuffer, out: &mut ByteWriter) {
    let count = |count: usize| u32::try_from(count).expect("a column buffer is small");
    out.u32(count(buffer.rows))
        .u32(buffer.worker)
        .u64(buffer.sequence)
        .u32(count(buffer.sources.len()));
    for source in &buffer.sources {
        out.u64(source.order).u32(source.start);
    }
    for nulls in &buffer.nulls {
        out.u8(nulls.is_some().into());
        let words = nulls.as_deref().map_or(&[][..], |words| &words[..buffer.rows.div_ceil(64)]);
        for word in words {
            out.u64(*word);
        }
    }
    for column in &buffer.columns {
        out.u32(column.start).u8(column.width).u64(column.base);
    }
    out.counted(&buffer.codes);
    for texts in &buffer.texts {
        out.u8((texts.form == TextForm::Compressed).into()).u32(count(texts.ends.len()));
        for end in &texts.ends {
            out.u32(*end);
        }
        out.counted(&texts.bytes);
    }
}

/// Decodes a column buffer. Its longest texts stay in the buffer into which they were read: they
/// may be most of the available memory.
fn decode(mut bytes: Vec<u8>, layout: &RowLayout) -> std::result::Result<PackedBuffer, Truncated> {
    let mut r = ByteReader::new(&bytes);
    let (rows, worker) = (r.u32()? as usize, r.u32()?);
    let (sequence, mark_count) = (r.u64()?, r.u32()?);
    let mut sources = Vec::new();
    for _ in 0..mark_count {
        sources.push(SourceRange { order: r.u64()?, start: r.u32()? });
    }
    let mut nulls = vec![None; layout.columns.len()];
    for nulls in &mut nulls {
        if r.u8()? == 1 {
            let words = (0..rows.div_ceil(64)).map(|_| r.u64());
            *nulls = Some(words.collect::<std::result::Result<Box<[u64]>, _>>()?);
        }
    }
    let mut columns = Vec::with_capacity(layout.columns.len());
    for _ in &layout.columns {
        columns.push(PackedColumn { start: r.u32()?, width: r.u8()?, base: r.u64()? });
    }
    let codes = r.counted()?.to_vec();
    let (mut texts, mut places) = (Vec::new(), Vec::new());
    for _ in layout.columns.iter().filter(|column| column.text.is_some()) {
        let form = if r.u8()? == 1 { TextForm::Compressed } else { TextForm::Raw };
        let ends = (0..r.u32()?).map(|_| r.u32()).collect::<std::result::Result<_, _>>()?;
        let own = r.counted()?;
        let end = r.offset();
        places.push(end - own.len()..end);
        texts.push(PackedTexts { form, ends, bytes: Vec::new() });
    }
    let longest = (0..places.len()).max_by_key(|&text| places[text].len());
    for (text, place) in places.iter().enumerate() {
        if Some(text) != longest {
            texts[text].bytes = bytes[place.clone()].to_vec();
        }
    }
    if let Some(longest) = longest {
        bytes.truncate(places[longest].end);
        bytes.drain(..places[longest].start);
        if bytes.len() < bytes.capacity() / 2 {
            bytes.shrink_to_fit();
        }
        texts[longest].bytes = bytes;
    }
    Ok(PackedBuffer { rows, columns, codes, nulls, texts, sources, worker, sequence })
}
