//! Which pages fresh memory comes in quicker: huge ones or small ones.
//!
//! Huge pages are made for large memory, and on most machines they are quicker from the first touch
//! on. But a virtual machine whose host takes free memory back loses just the large free pieces,
//! and gets each of them back slowly: 0.5 GB/s were measured in huge pages, and 2.6 GB/s in small
//! ones. Nothing that a program can read says which machine it is on; so it is measured.

use std::hint::black_box;

use memmap2::{Advice, MmapMut};

use crate::{Clock, SystemClock, sys};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const SMALL_PAGE_BYTES: usize = 4 << 10;
/// Looks at which huge pages must have been the slower ones.
const SLOW_MAX: u32 = 2;
/// A huge page that is quicker than this is not slow, whatever else is: a thread can lose its core
/// meanwhile.
const SLOW_NANOS: u64 = 1_000_000;
/// Who has looked so often has seen enough.
const LOOKS_MAX: u32 = 32;

/// Looks at huge and small pages, again and again: the first ones may be those that somebody has
/// just given back, which are quick.
#[derive(Debug, Default)]
pub struct PageWatch {
    looks: u32,
    slow: u32,
}

impl PageWatch {
    /// Nothing is known.
    pub fn new() -> PageWatch {
        PageWatch::default()
    }

    /// Touches a fresh huge page and as much memory in small pages, some milliseconds at worst. If
    /// the huge ones are found to be slow, they are turned off for this process; memory that is
    /// there already stays as it is, and it is not looked any more.
    pub fn look(&mut self) {
        if self.looks >= LOOKS_MAX {
            return;
        }
        self.looks += 1;
        let nanos = (nanos_to_touch(Advice::HugePage), nanos_to_touch(Advice::NoHugePage));
        let (Some(huge), Some(small)) = nanos else {
            self.looks = LOOKS_MAX; // The kernel has one kind only.
            return;
        };
        self.slow += u32::from(huge > SLOW_NANOS && huge / 3 > small / 2);
        if self.slow >= SLOW_MAX {
            self.looks = LOOKS_MAX;
            // Whether the kernel does it or not, everything works.
            sys::turn_huge_pages_off();
        }
    }
}

/// How long a huge page's worth of fresh memory takes; `None` if there is none, or none such.
fn nanos_to_touch(advice: Advice) -> Option<u64> {
    let mut memory = MmapMut::map_anon(2 * HUGE_PAGE_BYTES).ok()?;
    let start = memory.as_ptr().align_offset(HUGE_PAGE_BYTES);
    memory.advise_range(advice, start, HUGE_PAGE_BYTES).ok()?;
    let begin = SystemClock.monotonic_nanos();
    for page in memory[start..start + HUGE_PAGE_BYTES].chunks_mut(SMALL_PAGE_BYTES) {
        page[0] = 1;
    }
    black_box(&memory);
    Some(SystemClock.monotonic_nanos() - begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_works_however_it_was_looked_at() {
        let mut watch = PageWatch::new();
        for _ in 0..2 * LOOKS_MAX {
            watch.look();
        }
        assert_eq!(watch.looks, LOOKS_MAX);
        let memory = vec![7_u8; 3 * HUGE_PAGE_BYTES];
        assert_eq!(memory.iter().map(|&byte| u64::from(byte)).sum::<u64>(), 7 * 3 * (2 << 20));
    }
}
