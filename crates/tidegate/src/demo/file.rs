//! Writes the rows of the demo to a CSV file, on several threads.
//!
//! - Memory is bounded: each thread is at most `QUEUE` pieces ahead of the file.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tidegate_platform::DiskFile;

use super::rows;

const PIECE_ROWS: u64 = 16_384;
const QUEUE: usize = 2;

/// Writes header and rows, and returns the number of bytes; `None` if it was interrupted.
pub(super) fn write(
    file: &dyn DiskFile,
    rows: u64,
    threads: NonZeroUsize,
    is_interrupted: &AtomicBool,
) -> tidegate_platform::Result<Option<u64>> {
    let pieces = rows.div_ceil(PIECE_ROWS);
    thread::scope(|scope| {
        // Thread t makes every piece whose number is t modulo the number of threads, so receiving
        // from the threads in turn gives all pieces in order.
        let receivers: Vec<Receiver<Vec<u8>>> = (0..threads.get() as u64)
            .map(|first| {
                let (sender, receiver) = sync_channel(QUEUE);
                scope.spawn(move || make((first..pieces).step_by(threads.get()), rows, &sender));
                receiver
            })
            .collect();
        file.write_all_at(rows::HEADER.as_bytes(), 0)?;
        let mut bytes = rows::HEADER.len() as u64;
        for receiver in receivers.iter().cycle() {
            let Ok(piece) = receiver.recv() else { break };
            if is_interrupted.load(Relaxed) {
                return Ok(None);
            }
            file.write_all_at(&piece, bytes)?;
            bytes += piece.len() as u64;
        }
        Ok(Some(bytes))
    })
}

/// Makes pieces until all are made or the receiver is gone.
fn make(pieces: impl Iterator<Item = u64>, rows: u64, sender: &SyncSender<Vec<u8>>) {
    for piece in pieces {
        let first = piece * PIECE_ROWS;
        let last = rows.min(first + PIECE_ROWS);
        let mut text = Vec::new();
        for row in first..last {
            rows::push(row, rows, &mut text);
        }
        if sender.send(text).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_platform::{Disk, OpenMode, SimDisk};

    use super::*;

    fn written(rows: u64, threads: usize) -> Vec<u8> {
        let disk = SimDisk::new(1);
        let path = Path::new("/demo.csv");
        let file = disk.open(path, OpenMode::CreateNew).unwrap();
        let threads = NonZeroUsize::new(threads).unwrap();
        let bytes = write(&*file, rows, threads, &AtomicBool::new(false)).unwrap();
        let text = disk.read(path).unwrap();
        assert_eq!(bytes, Some(text.len() as u64));
        text
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        for rows in [0, 1, PIECE_ROWS, 3 * PIECE_ROWS + 5] {
            let one = written(rows, 1);
            assert_eq!(one.iter().filter(|&&byte| byte == b'\n').count() as u64, rows + 1);
            assert!(one == written(rows, 3), "demo_rows-1: {rows} rows");
        }
    }

    #[test]
    fn an_interrupt_ends_it() {
        let disk = SimDisk::new(1);
        let file = disk.open(Path::new("/demo.csv"), OpenMode::CreateNew).unwrap();
        let threads = NonZeroUsize::new(2).unwrap();
        let bytes = write(&*file, 1 << 40, threads, &AtomicBool::new(true)).unwrap();
        assert_eq!(bytes, None);
    }
}
