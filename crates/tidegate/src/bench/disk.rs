//! Disk measurements on one file: sequential writes and reads, random reads, and syncs.
//!
//! - A read "from the disk" bypasses the page cache, or is done after the clean pages of the cache
//!   were dropped. On a file system that supports neither, it measures the cache.
//! - bench_disk-1. The file is removed after every measurement, also after a failed one; only a
//!   killed process leaves it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use tidegate_model::ByteCount;
use tidegate_platform::{
    AlignedBuffer, BufferPool, BufferPoolOptions, Disk, DiskFile, IoChoice, OpenMode, ReadAhead,
    WriteQueue, drop_caches,
};

use super::{Bench, ROUNDS};
use crate::error::{Error, Result};

/// Bytes of one request: large enough for any disk, and for a buffer of huge pages.
const PIECE_BYTES: usize = 2 << 20;
/// Requests in flight, as in imports.
const DEPTH: usize = 4;
const PAGE_BYTES: usize = 4 << 10;
const RANDOM_READS: u64 = 8_192;
/// Threads that read at the same time: about as many operations as a fast disk handles at once.
const READERS: u64 = 16;
const SYNCS: u64 = 64;

/// A file that is removed when this value is dropped (bench_disk-1).
struct Scratch<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // A file that cannot be removed stays; there is nothing more to do here.
        let _ = self.disk.remove(&self.path);
    }
}

pub(super) fn measure(
    bench: &mut Bench<'_>,
    disk: &dyn Disk,
    dir: &Path,
    size: ByteCount,
    io: IoChoice,
) -> Result<()> {
    let path = dir.join(format!("roofline-{}.tmp", std::process::id()));
    let file = disk.open(&path, OpenMode::CreateNew).map_err(Error::disk("make a file"))?;
    let _scratch = Scratch { disk, path: path.clone() };
    let size = ByteCount(size.0.next_multiple_of(PIECE_BYTES as u64));
    write(bench, &file, size, io)?;
    let direct = disk.open_direct(&path).map_err(Error::disk("open the file"))?;
    sequential(bench, &file, direct.as_ref(), size, io)?;
    random(bench, direct.as_ref().unwrap_or(&file), size)?;
    syncs(bench, &file)
}

fn write(
    bench: &mut Bench<'_>,
    file: &Arc<dyn DiskFile>,
    size: ByteCount,
    io: IoChoice,
) -> Result<()> {
    let disk_error = Error::disk("write the file");
    file.allocate(size.0).map_err(&disk_error)?;
    bench.measure("sequential write to a new file, and fdatasync", 1, 1, || {
        let mut queue = WriteQueue::new(io, DEPTH).map_err(&disk_error)?;
        let mut vacant = None;
        for offset in (0..size.0).step_by(PIECE_BYTES) {
            let piece = vacant.take().filter(|piece: &Vec<u8>| piece.len() == PIECE_BYTES);
            let piece = piece.unwrap_or_else(|| vec![0x5A; PIECE_BYTES]);
            vacant = queue.write(file, piece, offset).map_err(&disk_error)?;
        }
        queue.flush().map_err(&disk_error)?;
        file.sync_data().map_err(&disk_error)?;
        Ok(size.0)
    })
}

fn sequential(
    bench: &mut Bench<'_>,
    file: &Arc<dyn DiskFile>,
    direct: Option<&Arc<dyn DiskFile>>,
    size: ByteCount,
    io: IoChoice,
) -> Result<()> {
    let drop_pages = || drop_caches(file.as_ref()).map_err(Error::disk("drop the page cache"));
    let mut all = |what, file: &Arc<dyn DiskFile>, (io, is_cold): (IoChoice, bool)| {
        let pool = Arc::new(BufferPool::new(BufferPoolOptions {
            headroom: 0,
            piece_bytes: PIECE_BYTES,
            tailroom: 0,
            vacant_max: DEPTH + 1,
        }));
        // A first read touches the buffers, and fills the cache where a warm cache is measured
        // (bench-1).
        read(file, size, io, &pool)?;
        if !is_cold {
            return bench.measure(what, 1, ROUNDS, || read(file, size, io, &pool));
        }
        drop_pages()?;
        bench.measure(what, 1, 1, || read(file, size, io, &pool))
    };
    all("sequential read from the page cache", file, (IoChoice::Sync, false))?;
    all("sequential read from the disk, buffered", file, (IoChoice::Sync, true))?;
    if io == IoChoice::Uring {
        all("sequential read from the disk, io_uring", file, (io, true))?;
    }
    let Some(direct) = direct else { return Ok(()) };
    all("sequential read around the cache", direct, (IoChoice::Sync, true))?;
    if io == IoChoice::Uring {
        all("sequential read around the cache, io_uring", direct, (io, true))?;
    }
    Ok(())
}

/// Reads the whole file once.
fn read(
    file: &Arc<dyn DiskFile>,
    size: ByteCount,
    io: IoChoice,
    pool: &Arc<BufferPool>,
) -> Result<u64> {
    let disk_error = Error::disk("read the file");
    let (file, all) = (Arc::clone(file), 0..size.0);
    let reader = ReadAhead::new(io, file, all, PIECE_BYTES, DEPTH, Arc::clone(pool));
    let mut reader = reader.map_err(&disk_error)?;
    let mut bytes = 0;
    while let Some(piece) = reader.next().map_err(&disk_error)? {
        bytes += piece.len as u64;
        pool.give(piece.buffer);
    }
    Ok(bytes)
}

/// Measures random page reads: one at a time, then from several threads at once.
fn random(bench: &mut Bench<'_>, file: &Arc<dyn DiskFile>, size: ByteCount) -> Result<()> {
    let pages = size.0 / PAGE_BYTES as u64;
    let drop_pages = || drop_caches(file.as_ref()).map_err(Error::disk("drop the page cache"));
    drop_pages()?;
    let reads = RANDOM_READS / READERS;
    bench.count("random reads of 4 KiB, one at a time", 1, reads, || {
        read_pages(file.as_ref(), 0, reads, pages)
    })?;
    drop_pages()?;
    let readers = usize::try_from(READERS).expect("they are few");
    bench.count("random reads of 4 KiB, several at a time", readers, RANDOM_READS, || {
        thread::scope(|scope| {
            let reader =
                |first| scope.spawn(move || read_pages(file.as_ref(), first, reads, pages));
            let readers: Vec<_> =
                (1..=READERS).map(|reader_no| reader(reader_no * reads)).collect();
            let bytes =
                readers.into_iter().map(|reader| reader.join().map_err(|_| Error::Panicked)?);
            bytes.sum::<Result<u64>>()
        })
    })
}

/// Reads `count` pages of the random sequence, beginning with its page number `first`.
fn read_pages(file: &dyn DiskFile, first: u64, count: u64, pages: u64) -> Result<u64> {
    let mut page = AlignedBuffer::new(PAGE_BYTES);
    for number in first..first + count {
        let offset = page_number(number, pages) * PAGE_BYTES as u64;
        file.read_exact_at(&mut page, offset).map_err(Error::disk("read the file"))?;
    }
    Ok(count * PAGE_BYTES as u64)
}

/// Returns page `number` of a random sequence of pages.
fn page_number(number: u64, pages: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)) % pages
}

/// Measures durable writes: writes a page and syncs it, again and again.
fn syncs(bench: &mut Bench<'_>, file: &Arc<dyn DiskFile>) -> Result<()> {
    let disk_error = Error::disk("write the file");
    let page = [0xA5; PAGE_BYTES];
    bench.count("write of 4 KiB, and fdatasync", 1, SYNCS, || {
        for number in 0..SYNCS {
            file.write_all_at(&page, number * PAGE_BYTES as u64).map_err(&disk_error)?;
            file.sync_data().map_err(&disk_error)?;
        }
        Ok(SYNCS * PAGE_BYTES as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_spread_over_the_file() {
        let pages = 1_000;
        let mut seen: Vec<u64> = (0..1_000).map(|number| page_number(number, pages)).collect();
        assert!(seen.iter().all(|&page| page < pages));
        let steps = seen.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1).count();
        assert!(steps < 20, "{steps} neighbours");
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 500, "{} pages", seen.len());
    }
}
