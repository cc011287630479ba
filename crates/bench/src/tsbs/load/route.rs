//! Routing of all rows of a host to one worker, by the hash of the first tag as in TSBS.
//!
//! One thread parses all rows here, because the rows of a host have to stay in order.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use memchr::memchr2;

use super::Load;
use super::rows::RowLayout;
use super::source::{Appended, Reader};
use crate::error::Result;
use crate::tsbs::format::Cursor;

/// Most pieces that wait for a worker.
const QUEUE: usize = 4;
/// Bytes of a piece that is sent to its worker.
const PIECE_BYTES: usize = 256 * 1024;

/// The sending ends of the queues, one for each worker.
type Routes = Vec<SyncSender<Vec<u8>>>;
/// The receiving end of a worker's queue, if rows are routed.
type Queue = Option<Receiver<Vec<u8>>>;

/// Creates a queue for each worker, if rows are routed.
pub(super) fn queues(load: &Load<'_>) -> (Option<Routes>, Vec<Queue>) {
    let workers = load.arguments.workers.get();
    if !load.arguments.hash_workers {
        return (None, (0..workers).map(|_| None).collect());
    }
    let (routes, queues): (Vec<_>, Vec<_>) = (0..workers).map(|_| sync_channel(QUEUE)).unzip();
    (Some(routes), queues.into_iter().map(Some).collect())
}

/// Reads all rows and hands each to its worker.
pub(super) fn route(load: &Load<'_>, routes: Routes) -> Result<()> {
    let layout = load.target.layout();
    let (mut reader, mut buffer) = (Reader::default(), Cursor::default());
    let mut pieces = vec![Vec::new(); routes.len()];
    while !load.is_over.load(Relaxed) {
        if let Appended::End = load.append(&mut reader, &mut buffer)? {
            for (piece, route) in pieces.into_iter().zip(routes) {
                // A worker that is gone has reported its error.
                let _ = route.send(piece);
            }
            return Ok(());
        }
        let mut rows = buffer.written();
        while let Some(end) = layout.cut(rows, 1) {
            let (row, rest) = rows.split_at(end);
            rows = rest;
            let worker = fnv1a(first_tag(layout, row)) as usize % routes.len();
            let piece = &mut pieces[worker];
            piece.extend_from_slice(row);
            if PIECE_BYTES <= piece.len() && routes[worker].send(std::mem::take(piece)).is_err() {
                return Ok(());
            }
        }
        buffer.clear();
    }
    Ok(())
}

/// Returns the first `key=value` of a row.
fn first_tag(layout: RowLayout, row: &[u8]) -> &[u8] {
    let separator = if layout == RowLayout::Tabs { b'\t' } else { b',' };
    let Some(begin) = memchr2(separator, b' ', row) else { return row };
    let rest = &row[begin + 1..];
    let end = rest.iter().position(|byte| matches!(byte, b',' | b' ' | b'\t' | b'\n' | b'}'));
    &rest[..end.unwrap_or(rest.len())]
}

fn fnv1a(text: &[u8]) -> u32 {
    text.iter()
        .fold(0x811c_9dc5, |hash: u32, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tag_decides() {
        for (layout, row, expected) in [
            (RowLayout::Line, "cpu,hostname=host_1,region=x usage=1i 2\n", "hostname=host_1"),
            (RowLayout::Line, "cpu,hostname=host_1 usage=1i 2\n", "hostname=host_1"),
            (RowLayout::TwoLines, "tags,hostname=host_1\ncpu,1,2\n", "hostname=host_1"),
            (RowLayout::Tabs, "cpu\t{\"hostname\":\"a\",\"b\":\"\"}\t1\n", "{\"hostname\":\"a\""),
        ] {
            assert_eq!(first_tag(layout, row.as_bytes()), expected.as_bytes(), "{row}");
        }
        // These are the check values of the authors of the hash.
        assert_eq!(
            (fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")),
            (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968)
        );
    }
}
