//! Tests of this crate from outside: disks, queues, mappings, memory, signals.

#![cfg(test)]

mod conformance;
mod sim_disk;
mod queues;
mod memory;
mod signals;

use std::path::Path;
use std::sync::Arc;

use tidegate_platform::{
    BufferPool, BufferPoolOptions, Disk, DiskFile, IoChoice, IoMode, OpenMode, detect_io,
};

/// Pseudo-random numbers, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// The modes of I/O that this machine supports.
fn choices() -> Vec<IoChoice> {
    match detect_io(IoMode::Auto).unwrap() {
        IoChoice::Sync | IoChoice::Simulated { .. } => vec![IoChoice::Sync],
        IoChoice::Uring => vec![IoChoice::Sync, IoChoice::Uring],
    }
}

fn pool(headroom: usize, piece_bytes: usize, tailroom: usize) -> Arc<BufferPool> {
    Arc::new(BufferPool::new(BufferPoolOptions { headroom, piece_bytes, tailroom, vacant_max: 4 }))
}

fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.open(path, OpenMode::CreateOrTruncate).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}
