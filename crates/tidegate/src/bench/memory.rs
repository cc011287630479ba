//! Memory and kernel measurements: sums, copies, counts of codes, the index of a CSV.
//!
//! Each loop reads its whole buffer, first on one thread, then on all threads, each of which has a
//! part of the buffer. The thread that allocates a buffer writes it before anything is measured
//! (bench-1).

use std::hint::black_box;
use std::thread;

use tidegate_filter::{SimdLevel, roofline};
use tidegate_ingest::index::{Before, FieldIndex, Kernel, QuoteState, Start, Structure};

use super::{Bench, ROUNDS};
use crate::error::Result;

/// Bytes that an import indexes at a time.
const PIECE_BYTES: usize = 256 << 10;

/// A record with the kinds of fields that log files have: numbers, a time, quoted text with a
/// doubled quote.
const RECORD: &str = "4611686018427387904,17,\"2013-07-14 20:38:47\",62,\"Cameras, lenses and \
                      \"\"films\"\"\",\"https://shop.example/cameras?page=2&sort=price\",0,1638\n";

pub(super) fn measure(bench: &mut Bench<'_>, bytes: usize) -> Result<()> {
    sums(bench, bytes)?;
    let codes = pattern(bytes, 251);
    counts(bench, &codes)?;
    copies(bench, &codes)?;
    drop(codes);
    csv(bench, bytes)
}

fn sums(bench: &mut Bench<'_>, bytes: usize) -> Result<()> {
    let words = vec![1_u64; bytes / size_of::<u64>()];
    measure_both(bench, "sum of 8-byte words", |bench, name, threads| {
        bench.measure(name, threads, ROUNDS, || {
            on_parts(&words, threads, roofline::sum_words);
            Ok(size_of_val(words.as_slice()) as u64)
        })
    })
}

fn counts(bench: &mut Bench<'_>, bytes: &[u8]) -> Result<()> {
    let level = SimdLevel::detect();
    measure_both(bench, "count of 1-byte codes in a range", |bench, name, threads| {
        bench.measure(name, threads, ROUNDS, || {
            on_parts(bytes, threads, |part| roofline::count_u8(level, part, 100, 200));
            Ok(bytes.len() as u64)
        })
    })?;
    let pairs = bytes.as_chunks::<2>().0;
    measure_both(bench, "count of 2-byte codes in a range", |bench, name, threads| {
        bench.measure(name, threads, ROUNDS, || {
            on_parts(pairs, threads, |part| roofline::count_u16(level, part, 1_000, 30_000));
            Ok(size_of_val(pairs) as u64)
        })
    })
}

fn copies(bench: &mut Bench<'_>, from: &[u8]) -> Result<()> {
    let mut to = pattern(from.len(), 13);
    measure_both(bench, "memcpy, bytes copied", |bench, name, threads| {
        bench.measure(name, threads, ROUNDS, || {
            let part = from.len().div_ceil(threads).max(1);
            thread::scope(|scope| {
                for (from, to) in from.chunks(part).zip(to.chunks_mut(part)) {
                    scope.spawn(|| roofline::copy_bytes(from, to));
                }
            });
            black_box(&to);
            Ok(from.len() as u64)
        })
    })
}

fn csv(bench: &mut Bench<'_>, bytes: usize) -> Result<()> {
    let piece = RECORD.repeat(PIECE_BYTES / RECORD.len());
    let pieces = (bytes / piece.len()).max(1);
    let text = piece.repeat(pieces).into_bytes();
    let pieces: Vec<&[u8]> = text.chunks(piece.len()).collect();
    measure_both(bench, "structural index of a CSV", |bench, name, threads| {
        bench.measure(name, threads, ROUNDS, || {
            on_parts(&pieces, threads, index);
            Ok(text.len() as u64)
        })
    })
}

/// Counts the fields. Each piece begins with a record.
fn index(pieces: &[&[u8]]) -> usize {
    let structure = Structure { delimiter: b',', quote: Some(b'"'), line_end: b'\n' };
    let start = Start { state: QuoteState::Outside, after: Before::FieldStart };
    let (kernel, mut index, mut fields) = (Kernel::detect(), FieldIndex::default(), 0);
    for piece in pieces {
        let outcome = kernel.index(piece, start, &structure, &mut index);
        assert!(outcome.is_regular, "the record is");
        fields += index.field_ends.len();
    }
    fields
}

/// Measures with one thread, then with all.
fn measure_both(
    bench: &mut Bench<'_>,
    name: &'static str,
    mut measure: impl FnMut(&mut Bench<'_>, &'static str, usize) -> Result<()>,
) -> Result<()> {
    measure(bench, name, 1)?;
    match bench.threads.get() {
        1 => Ok(()),
        threads => measure(bench, name, threads),
    }
}

/// Runs `work` on parts of equal size at the same time.
fn on_parts<T: Sync, R: Send>(all: &[T], threads: usize, work: impl Fn(&[T]) -> R + Sync) {
    let part = all.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        for part in all.chunks(part) {
            scope.spawn(|| black_box(work(black_box(part))));
        }
    });
}

/// Fills a buffer with bytes below `below`, in an order that the branch predictor cannot learn.
fn pattern(bytes: usize, below: u32) -> Vec<u8> {
    let value = |row: u32| row.wrapping_mul(2_654_435_761).rotate_left(15) % below;
    let block: Vec<u8> = (0..1 << 16).map(|row| value(row).to_le_bytes()[0]).collect();
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        all.extend_from_slice(&block[..block.len().min(bytes - all.len())]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_record_is_found() {
        let two = RECORD.repeat(2);
        assert_eq!(index(&[two.as_bytes(), RECORD.as_bytes()]), 3 * 8);
    }

    #[test]
    fn parts_cover_everything_once() {
        let seen = std::sync::Mutex::new(Vec::new());
        for threads in [1, 2, 3, 7] {
            on_parts(&[1, 2, 3, 4, 5], threads, |part| seen.lock().unwrap().extend(part.to_vec()));
            let mut seen = std::mem::take(&mut *seen.lock().unwrap());
            seen.sort_unstable();
            assert_eq!(seen, [1, 2, 3, 4, 5], "{threads}");
        }
    }

    #[test]
    fn a_pattern_has_the_bytes_asked_for() {
        let bytes = pattern(100_000, 13);
        assert_eq!((bytes.len(), bytes.iter().max()), (100_000, Some(&12)));
    }
}
