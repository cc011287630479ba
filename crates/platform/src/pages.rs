//! Measures whether fresh memory is available faster in huge pages or in small ones.
//!
//! Huge pages are made for large memory, and on most machines they are faster from the first touch
//! on. But a virtual machine whose host reclaims free memory loses the large free blocks first, and
//! gets each of them back slowly: 0.5 GB/s were measured in huge pages, and 2.6 GB/s in small ones.
//! No value that a program can read tells these machines apart; so the speed is measured.

use std::hint::black_box;

use memmap2::{Advice, MmapMut};

use crate::{Clock, SystemClock, sys};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const SMALL_PAGE_BYTES: usize = 4 << 10;
/// Measurements in which huge pages must have been slower.
const SLOW_MAX: u32 = 2;
/// A huge page that is faster than this is never slow: a thread can lose its core during a
/// measurement.
const SLOW_NANOS: u64 = 1_000_000;
/// Measurements after which the result is final.
const MEASUREMENTS_MAX: u32 = 32;

/// Measures huge and small pages repeatedly: the first pages may be ones that were just freed,
/// which are fast.
#[derive(Debug, Default)]
pub struct PageWatch {
    measurements: u32,
    slow: u32,
}

impl PageWatch {
    /// A watch without measurements.
    pub fn new() -> PageWatch {
        PageWatch::default()
    }

    /// Touches a fresh huge page and as much memory in small pages, which takes some milliseconds
    /// at worst. If huge pages prove to be slow, they are turned off for this process and measured
    /// no more; memory that exists already stays as it is.
    pub fn measure(&mut self) {
        if self.measurements >= MEASUREMENTS_MAX {
            return;
        }
        self.measurements += 1;
        let nanos = (nanos_to_touch(Advice::HugePage), nanos_to_touch(Advice::NoHugePage));
        let (Some(huge), Some(small)) = nanos else {
            self.measurements = MEASUREMENTS_MAX; // The kernel has one kind only.
            return;
        };
        self.slow += u32::from(huge > SLOW_NANOS && huge / 3 > small / 2);
        if self.slow >= SLOW_MAX {
            self.measurements = MEASUREMENTS_MAX;
            // Everything works even if the kernel refuses.
            sys::turn_huge_pages_off();
        }
    }
}

/// The time to touch a huge page's worth of fresh memory; `None` if pages of this kind are not
/// available.
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
        for _ in 0..2 * MEASUREMENTS_MAX {
            watch.measure();
        }
        assert_eq!(watch.measurements, MEASUREMENTS_MAX);
        let memory = vec![7_u8; 3 * HUGE_PAGE_BYTES];
        assert_eq!(memory.iter().map(|&byte| u64::from(byte)).sum::<u64>(), 7 * 3 * (2 << 20));
    }
}
