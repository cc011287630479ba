//! The bytes of a simulated file: sparse, and cheap to copy.
//!
//! - content-1. No page begins at or after `len`, and bytes of the last page after it are zero. So
//!   an extended file has zeros there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::usize_of;

type Page = [u8; 4096];
const PAGE_BYTES: u64 = size_of::<Page>() as u64;

/// Pages that are shared until one of their owners changes them. A missing page is zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Arc<Page>>,
    len: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Reads until `buf` is full or the file ends.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let count = self.len.saturating_sub(offset).min(buf.len() as u64);
        let buf = &mut buf[..usize_of(count)];
        for (page, within, part) in parts(offset, buf.len()) {
            match self.pages.get(&page) {
                Some(bytes) => buf[part.clone()].copy_from_slice(&bytes[within..][..part.len()]),
                None => buf[part].fill(0),
            }
        }
        buf.len()
    }

    /// Writes `bytes`; the file grows if necessary.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        for (page, within, part) in parts(offset, bytes.len()) {
            let target = self.pages.entry(page).or_insert_with(|| Arc::new([0; _]));
            Arc::make_mut(target)[within..][..part.len()].copy_from_slice(&bytes[part]);
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    /// Truncates the file, or extends it with zeros.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.pages.split_off(&len.div_ceil(PAGE_BYTES));
            if let Some(last) = self.pages.get_mut(&(len / PAGE_BYTES)) {
                Arc::make_mut(last)[usize_of(len % PAGE_BYTES)..].fill(0); // content-1
            }
        }
        self.len = len;
    }
}

/// Splits a range of a file at page boundaries: the page, the offset in it, and the part of the
/// caller's buffer.
fn parts(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = usize_of(at % PAGE_BYTES);
        let count = (usize_of(PAGE_BYTES) - within).min(bytes - done);
        let part = done..done + count;
        done += count;
        (0 < count).then_some((at / PAGE_BYTES, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::random::Random;

    #[test]
    fn content_behaves_like_a_vector() {
        let mut random = Random::new(1);
        let (mut content, mut model) = (Content::default(), Vec::new());
        for step in 0..2_000 {
            let offset = random.below(5 * PAGE_BYTES);
            if random.below(4) == 0 {
                content.set_len(offset);
                model.resize(usize_of(offset), 0);
            } else {
                let bytes = vec![random.next().to_le_bytes()[0]; usize_of(random.below(6_000))];
                content.write(&bytes, offset);
                let end = usize_of(offset) + bytes.len();
                if !bytes.is_empty() {
                    model.resize(model.len().max(end), 0);
                    model[usize_of(offset)..end].copy_from_slice(&bytes);
                }
            }
            let mut copy = vec![1; model.len() + 10];
            assert_eq!(content.read(&mut copy, 0), model.len(), "step {step}");
            assert!(copy[..model.len()] == model[..], "step {step}");
        }
    }
}
