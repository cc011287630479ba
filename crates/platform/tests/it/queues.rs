//! Read-ahead and write queues, with every mode of I/O that the machine supports.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tidegate_platform::{
    Class, Disk, DiskFile, Error, IoChoice, IoMode, OpenMode, ReadAhead, RealDisk, SimDisk,
    WriteQueue, detect_io,
};

use crate::{Random, choices, pool, put};

const HEADROOM: usize = 4096;
const TAILROOM: usize = 64;

#[test]
fn choices_have_names() {
    assert_eq!(IoChoice::Uring.to_string(), "io_uring");
    assert_eq!(IoChoice::Sync.to_string(), "pread/pwrite");
    assert_eq!(detect_io(IoMode::Sync).unwrap(), IoChoice::Sync);
    match detect_io(IoMode::Uring) {
        Ok(choice) => assert_eq!(choice, IoChoice::Uring),
        Err(error) => {
            assert!(matches!(error, Error::NoUring { .. }), "{error:?}");
            assert_eq!(error.class(), Class::Caller);
        }
    }
}

#[test]
fn reading_ahead_equals_reading() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for len in [0_u64, 1, 4095, 4096, 4097, 8192, 100_000, 262_144, 300_001] {
        let bytes = Random(len).bytes(len);
        let file = put(&RealDisk, &path, &bytes);
        assert!(fs::read(&path).unwrap() == bytes);
        let direct = RealDisk::open_direct(&path).unwrap();
        let sim = put(&SimDisk::new(1), Path::new("/f"), &bytes);
        for choice in choices() {
            for (piece_bytes, depth) in [(4096, 1), (8192, 3), (65_536, 4), (1 << 20, 8)] {
                for file in [Some(&file), direct.as_ref(), Some(&sim)].into_iter().flatten() {
                    check_read(choice, file, piece_bytes, depth, &bytes);
                }
            }
            check_read(choice, &file, 997, 5, &bytes);
            check_read(choice, &sim, 997, 5, &bytes);
        }
    }
}

/// Reads the whole file, and ranges that begin and end at unaligned offsets.
#[track_caller]
fn check_read(
    choice: IoChoice,
    file: &Arc<dyn DiskFile>,
    piece_bytes: usize,
    depth: usize,
    bytes: &[u8],
) {
    let len = bytes.len();
    let pool = pool(HEADROOM, piece_bytes, TAILROOM);
    let mut dirty = pool.take();
    dirty.fill(0xff);
    pool.give(dirty);
    for range in [0..len, 1..len, len / 2..len, 0..len / 3, len / 3..len / 2, 5_000..len] {
        if range.end < range.start {
            continue;
        }
        let in_file = range.start as u64..range.end as u64;
        let reader = ReadAhead::new(
            choice,
            Arc::clone(file),
            in_file,
            piece_bytes,
            depth,
            Arc::clone(&pool),
        );
        let mut reader = reader.unwrap();
        let mut at = range.start;
        while let Some(mut piece) = reader.next().unwrap() {
            assert_eq!(piece.offset, at as u64, "read_ahead-1");
            assert_eq!(piece.bytes().len(), piece.len);
            assert!(
                piece.bytes() == &bytes[at..at + piece.len],
                "read_ahead-1: {choice} {range:?}"
            );
            let end = HEADROOM + piece.len;
            assert!(piece.buffer[HEADROOM..end] == *piece.bytes(), "read_ahead-2");
            assert!(
                piece.buffer[end..end + TAILROOM].iter().all(|&byte| byte == 0),
                "read_ahead-2"
            );
            at += piece.len;
            piece.buffer.fill(0xff);
            pool.give(piece.buffer);
        }
        assert_eq!(at, range.end, "read_ahead-1: {choice} {range:?}");
        assert!(reader.next().unwrap().is_none());
    }
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for choice in choices() {
        for depth in [1, 4] {
            for is_direct in [false, true] {
                let writer = put(&RealDisk, &path, &[1; 100_000]);
                let direct = RealDisk::open_direct(&path).unwrap().filter(|_| is_direct);
                let file = direct.unwrap_or_else(|| Arc::clone(&writer));
                let pool = pool(HEADROOM, 4096, TAILROOM);
                let mut reader =
                    ReadAhead::new(choice, file, 0..100_000, 4096, depth, pool).unwrap();
                assert!(reader.next().unwrap().is_some());
                writer.set_len(50_001).unwrap();
                let error = loop {
                    match reader.next() {
                        Ok(piece) => assert!(piece.unwrap().offset < 50_001),
                        Err(error) => break error,
                    }
                };
                assert!(
                    matches!(error, Error::Shrank { expected: 100_000, actual: 50_001, .. }),
                    "read_ahead-3: {choice}: {error:?}"
                );
                assert_eq!(error.class(), Class::Environment);
            }
        }
    }
}

#[test]
fn a_simulated_file_that_shrinks_is_an_error_too() {
    let file = put(&SimDisk::new(1), Path::new("/f"), &[1; 100]);
    let pool = pool(0, 64, 0);
    let mut reader = ReadAhead::new(IoChoice::Uring, file, 0..101, 64, 2, pool).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().len, 64);
    let error = reader.next().unwrap_err();
    assert!(matches!(error, Error::Shrank { expected: 101, actual: 100, .. }), "{error:?}");
}

#[test]
#[should_panic(expected = "nothing comes after an error")]
fn nothing_is_read_after_an_error() {
    let file = put(&SimDisk::new(1), Path::new("/f"), b"");
    let mut reader = ReadAhead::new(IoChoice::Sync, file, 0..1, 1, 1, pool(0, 1, 0)).unwrap();
    assert!(reader.next().is_err());
    let _ = reader.next();
}

#[test]
fn a_reader_can_be_dropped_half_way_and_moved() {
    let dir = tempfile::tempdir().unwrap();
    let file = put(&RealDisk, &dir.path().join("file"), &[7; 1 << 20]);
    for choice in choices() {
        let pool = pool(0, 65_536, 0);
        let file = Arc::clone(&file);
        let mut reader = ReadAhead::new(choice, file, 0..1 << 20, 65_536, 4, pool).unwrap();
        let first = reader.next().unwrap().unwrap();
        let second = std::thread::spawn(move || reader.next().unwrap().unwrap());
        assert_eq!(second.join().unwrap().offset, first.offset + 65_536);
        assert!(first.bytes().iter().all(|&byte| byte == 7));
    }
}

#[test]
fn an_unreadable_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = RealDisk.open(dir.path(), OpenMode::Read).unwrap();
    for choice in choices() {
        let folder = Arc::clone(&folder);
        let mut reader = ReadAhead::new(choice, folder, 0..10, 10, 2, pool(0, 10, 0)).unwrap();
        let error = reader.next().unwrap_err();
        assert_eq!(error.to_string(), format!("read {}", dir.path().display()), "platform-2");
    }
}

#[test]
fn queued_writes_are_all_there_after_a_flush() {
    let dir = tempfile::tempdir().unwrap();
    let sim = SimDisk::new(1);
    for choice in choices() {
        for depth in [1, 2, 7, 64] {
            let paths = [dir.path().join("a"), dir.path().join("b")];
            let files = [
                put(&RealDisk, &paths[0], b""),
                put(&RealDisk, &paths[1], b""),
                put(&sim, Path::new("/f"), b""),
            ];
            let mut queue = WriteQueue::new(choice, depth).unwrap();
            let mut expected = [const { Vec::new() }; 3];
            let mut random = Random(depth as u64);
            let mut spare: Option<Vec<u8>> = None;
            for step in 0..200 {
                let idx = step % 3;
                let mut bytes = spare.take().unwrap_or_default();
                assert!(bytes.is_empty(), "a buffer that comes back is empty");
                let count = random.below(20_000);
                bytes.extend(random.bytes(count));
                let offset = expected[idx].len() as u64;
                expected[idx].extend_from_slice(&bytes);
                spare = queue.write(&files[idx], bytes, offset).unwrap();
            }
            queue.flush().unwrap();
            queue.flush().unwrap();
            assert!(fs::read(&paths[0]).unwrap() == expected[0], "write_queue-1: {choice} {depth}");
            assert!(fs::read(&paths[1]).unwrap() == expected[1], "write_queue-1: {choice} {depth}");
            assert!(
                sim.read(Path::new("/f")).unwrap() == expected[2],
                "write_queue-1: {choice} {depth}"
            );
        }
    }
}

#[test]
fn large_writes_are_complete_on_every_path() {
    const PAGE: u64 = 4096;
    let dir = tempfile::tempdir().unwrap();
    for choice in choices() {
        for depth in [1, 3] {
            let path = dir.path().join("file");
            let file = put(&RealDisk, &path, b"");
            let mut queue = WriteQueue::around_cache(choice, depth).unwrap();
            let mut expected = Vec::new();
            let mut random = Random(depth as u64);
            for step in 0..30 {
                // Whole pages and unaligned ends, below and above the size that goes around the
                // cache, and sometimes more than one chunk.
                let whole = random.below(100) * PAGE + (step % 7 / 6) * (5 << 20);
                let count = whole + (step % 2) * random.below(PAGE);
                let bytes = random.bytes(count);
                let offset = expected.len() as u64;
                expected.extend_from_slice(&bytes);
                expected.resize(expected.len().next_multiple_of(4096), 0);
                queue.write(&file, bytes, offset).unwrap();
            }
            queue.flush().unwrap();
            file.sync_data().unwrap();
            let mut written = fs::read(&path).unwrap();
            written.resize(written.len().next_multiple_of(4096), 0);
            assert!(written == expected, "write_queue-1, write_queue-3: {choice} {depth}");
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn buffers_come_back_once_the_queue_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let file = put(&RealDisk, &dir.path().join("file"), b"");
    for choice in choices() {
        let mut queue = WriteQueue::new(choice, 3).unwrap();
        let mut outside = 0;
        for step in 0..50 {
            outside += 1;
            let back = queue.write(&file, vec![1; 100], step * 100).unwrap();
            outside -= usize::from(back.is_some());
            assert!(outside <= 3, "at most as many buffers as are in flight");
        }
        queue.flush().unwrap();
    }
}

/// Four writes of 30 MiB each, and the buffers kept after them, took 120 MiB that were not counted.
#[test]
fn bytes_in_flight_have_a_bound() {
    const BYTES_MAX: usize = 1 << 20;
    let file = put(&SimDisk::new(1), Path::new("/f"), &[]);
    let simulated = IoChoice::Simulated { seed: 5 };
    let mut queue = WriteQueue::new(simulated, 8).unwrap().with_bytes_max(BYTES_MAX);
    let mut expected = Vec::new();
    for (number, len) in [400_000, 600_000, 9 << 20, 1, 12 << 20, 900_000].into_iter().enumerate() {
        let bytes = vec![u8::try_from(number).unwrap() + 1; len];
        let offset = expected.len() as u64;
        expected.extend_from_slice(&bytes);
        expected.resize(expected.len().next_multiple_of(4096), 0);
        let vacant = queue.write(&file, bytes, offset).unwrap();
        assert!(queue.bytes_in_flight() <= BYTES_MAX, "write_queue-4");
        assert!(vacant.is_none_or(|vacant| vacant.capacity() <= 8 << 20), "write_queue-4");
    }
    queue.flush().unwrap();
    assert_eq!(queue.bytes_in_flight(), 0);
    let mut found = vec![0; expected.len() - 4096];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == expected[..found.len()]);
}

#[test]
fn a_failed_queue_stays_failed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    put(&RealDisk, &path, b"");
    let read_only = RealDisk.open(&path, OpenMode::Read).unwrap();
    let good = RealDisk.open(&path, OpenMode::ReadWrite).unwrap();
    let full = SimDisk::new(1);
    full.set_capacity(10);
    let small = put(&full, Path::new("/f"), b"");
    for choice in choices() {
        let mut queue = WriteQueue::new(choice, 4).unwrap();
        let _ = queue.write(&read_only, vec![1; 10], 0);
        let first = queue.flush().unwrap_err();
        assert_eq!(first.to_string(), format!("write {}", path.display()), "platform-2");
        let again = queue.write(&good, vec![1; 10], 0).unwrap_err();
        assert_eq!(again.to_string(), first.to_string(), "write_queue-2");
        assert!(queue.flush().is_err(), "write_queue-2");

        let mut queue = WriteQueue::new(choice, 4).unwrap();
        assert!(queue.write(&small, vec![1; 11], 0).is_err_and(|e| e.is_no_space()));
        assert!(queue.flush().is_err_and(|e| e.is_no_space()), "write_queue-2");
    }
}

#[test]
fn a_dropped_queue_finishes_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for choice in choices() {
        let file = put(&RealDisk, &path, b"");
        let mut queue = WriteQueue::new(choice, 8).unwrap();
        for step in 0..8 {
            queue.write(&file, vec![step; 1 << 16], u64::from(step) << 16).unwrap();
        }
        drop(queue);
        let bytes = fs::read(&path).unwrap();
        assert!((0..8).all(|step| bytes[usize::from(step) << 16] == step), "platform-1");
        assert_eq!(bytes.len(), 8 << 16);
    }
}
