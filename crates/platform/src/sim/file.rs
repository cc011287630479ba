//! The bytes of a simulated file as programs see them, and as the disk has them.
//!
//! - sim_file-1. `durable` has everything that was synced.
//! - sim_file-2. After a loss of power a file is `durable` with some of `pending` on it:
//!   - a write survives whole, not at all, or in some of its sectors;
//!   - a sector survives with all that it held when the surviving write was made, since it is
//!     written in one piece;
//!   - the length is that after some pending change, whichever bytes survive; bytes that did not
//!     are zero where the file was not as long before;
//!   - what follows a cut survives only with the cut.

use std::collections::BTreeMap;
use std::ops::Range;

use super::content::Content;
use super::random::Random;
use crate::usize_of;

/// The unit that a disk writes atomically.
type Sector = [u8; 512];
const SECTOR_BYTES: u64 = size_of::<Sector>() as u64;

#[derive(Debug, Default)]
pub(super) struct SimBytes {
    current: Content,
    durable: Content,
    /// The changes since the last sync, in order.
    pending: Vec<Change>,
    /// Number of changes, in place of a modification time.
    changes: u64,
}

#[derive(Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen { from: u64, to: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteOutcome {
    Durable,
    Lost,
    /// Each sector by itself.
    Torn,
}

impl SimBytes {
    /// A file whose content is durable.
    fn durable(content: Content) -> SimBytes {
        SimBytes { current: content.clone(), durable: content, pending: Vec::new(), changes: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.current.len()
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        self.current.read(buf, offset)
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        self.changes += 1;
        self.current.write(bytes, offset);
        self.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_len(&mut self, to: u64) {
        let from = self.current.len();
        if from == to {
            return;
        }
        self.changes += 1;
        self.current.set_len(to);
        self.pending.push(Change::SetLen { from, to });
    }

    /// Makes everything durable (sim_file-1).
    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::Write { offset, bytes } => self.durable.write(&bytes, offset),
                Change::SetLen { to, .. } => self.durable.set_len(to),
            }
        }
    }

    /// A failed sync: the pending changes survive or are lost now, and are not synced again.
    pub(super) fn settle(&mut self, random: &mut Random) {
        self.durable = self.survivor(random);
        self.pending.clear();
    }

    pub(super) fn after_power_loss(&self, random: &mut Random) -> SimBytes {
        SimBytes::durable(self.survivor(random))
    }

    pub(super) fn corrupt(&mut self, offset: u64, xor: u8) {
        assert!(offset < self.len(), "the byte to corrupt exists");
        self.changes += 1;
        for content in [&mut self.current, &mut self.durable] {
            let mut byte = [0];
            if content.read(&mut byte, offset) == 1 {
                content.write(&[byte[0] ^ xor], offset);
            }
        }
        for change in &mut self.pending {
            if let Change::Write { offset: start, bytes } = change
                && let Some(idx) = offset.checked_sub(*start)
                && let Some(byte) = bytes.get_mut(usize_of(idx))
            {
                *byte ^= xor;
            }
        }
    }

    pub(super) fn truncate(&mut self, len: u64) {
        assert!(len <= self.len(), "the file to truncate is that long");
        self.changes += 1;
        for content in [&mut self.current, &mut self.durable] {
            content.set_len(len.min(content.len()));
        }
        for change in &mut self.pending {
            match change {
                Change::Write { offset, bytes } => {
                    bytes.truncate(usize_of(len.saturating_sub(*offset)));
                }
                Change::SetLen { from, to } => (*from, *to) = (len.min(*from), len.min(*to)),
            }
        }
    }

    /// The content after a power loss (sim_file-2).
    fn survivor(&self, random: &mut Random) -> Content {
        let (changes, len) = self.surviving_length(random);
        let last_surviving = last_surviving(&self.pending[..changes], random);
        let mut content = self.durable.clone();
        for (idx, change) in self.pending[..changes].iter().enumerate() {
            let touched = change.touched();
            for sector in sectors(&touched) {
                if last_surviving.get(&sector).is_some_and(|&last| idx <= last) {
                    let start = touched.start.max(sector * SECTOR_BYTES);
                    let end = touched.end.min((sector + 1) * SECTOR_BYTES);
                    change.apply(&mut content, start..end);
                }
            }
        }
        content.set_len(len);
        content
    }

    /// Number of pending changes that may survive, and the length that does.
    fn surviving_length(&self, random: &mut Random) -> (usize, u64) {
        let count = self.pending.len();
        let durable_lens = match random.below(3) {
            0 => 0,
            1 => count,
            _ => usize_of(random.below(count as u64 + 1)),
        };
        let len = self.pending[..durable_lens].iter().fold(self.durable.len(), Change::len_after);
        // The first truncation that did not survive takes all later changes with it.
        let lost_cut = self.pending[durable_lens..].iter().position(Change::is_cut);
        (lost_cut.map_or(count, |idx| durable_lens + idx), len)
    }
}

/// The last surviving change of each sector that has one.
fn last_surviving(changes: &[Change], random: &mut Random) -> BTreeMap<u64, usize> {
    let mut last_surviving = BTreeMap::new();
    for (idx, change) in changes.iter().enumerate() {
        let outcome = match random.below(10) {
            _ if change.is_cut() => WriteOutcome::Durable,
            0..4 => WriteOutcome::Durable,
            4..7 => WriteOutcome::Lost,
            _ => WriteOutcome::Torn,
        };
        for sector in sectors(&change.touched()).filter(|_| outcome != WriteOutcome::Lost) {
            if outcome == WriteOutcome::Durable || random.coin() {
                last_surviving.insert(sector, idx);
            }
        }
    }
    last_surviving
}

impl Change {
    /// The range of bytes that change: of a truncation, those that are cut off.
    fn touched(&self) -> Range<u64> {
        match self {
            Change::Write { offset, bytes } => *offset..offset + bytes.len() as u64,
            Change::SetLen { from, to } => *to..(*from).max(*to),
        }
    }

    /// Applies a part of the range that `touched` returns; the caller sets the length.
    fn apply(&self, content: &mut Content, part: Range<u64>) {
        match self {
            Change::Write { offset, bytes } => {
                let range = usize_of(part.start - offset)..usize_of(part.end - offset);
                content.write(&bytes[range], part.start);
            }
            Change::SetLen { .. } => {
                let zeros: Sector = [0; _];
                content.write(&zeros[..usize_of(part.end - part.start)], part.start);
            }
        }
    }

    fn is_cut(&self) -> bool {
        matches!(self, Change::SetLen { from, to } if to < from)
    }

    fn len_after(len: u64, change: &Change) -> u64 {
        match change {
            Change::Write { .. } => len.max(change.touched().end),
            Change::SetLen { to, .. } => *to,
        }
    }
}

fn sectors(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES)
}
