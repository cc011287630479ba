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
/// So many huge pages, and as much in small ones, are touched at least and at most: the first ones
/// may be those that somebody has just given back, which are quick.
const STEPS: std::ops::RangeInclusive<usize> = 4..=16;

/// Touches some fresh memory (some 20 ms, at worst twice that), and turns huge pages off for this
/// process if they were the slower ones by half. Says whether it has.
///
/// Memory that is there already stays as it is.
pub fn prefer_quicker_pages() -> bool {
    let memory = |advice| {
        let mut memory = MmapMut::map_anon((STEPS.end() + 1) * HUGE_PAGE_BYTES).ok()?;
        let start = memory.as_ptr().align_offset(HUGE_PAGE_BYTES);
        memory.advise_range(advice, start, STEPS.end() * HUGE_PAGE_BYTES).ok()?;
        Some(move |step: usize| {
            let at = start + step * HUGE_PAGE_BYTES;
            nanos_to_touch(&mut memory[at..at + HUGE_PAGE_BYTES])
        })
    };
    let (Some(mut touch_huge), Some(mut touch_small)) =
        (memory(Advice::HugePage), memory(Advice::NoHugePage))
    else {
        return false; // The kernel has one kind only.
    };
    let (mut huge, mut small) = (0, 0);
    for step in 0..*STEPS.end() {
        huge += touch_huge(step);
        small += touch_small(step);
        let is_slower = huge / 3 > small / 2;
        if STEPS.contains(&(step + 1)) && is_slower {
            return sys::turn_huge_pages_off();
        }
    }
    false
}

fn nanos_to_touch(memory: &mut [u8]) -> u64 {
    let begin = SystemClock.monotonic_nanos();
    for page in memory.chunks_mut(SMALL_PAGE_BYTES) {
        page[0] = 1;
    }
    black_box(memory);
    SystemClock.monotonic_nanos() - begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_works_either_way() {
        prefer_quicker_pages();
        let memory = vec![7_u8; 3 * HUGE_PAGE_BYTES];
        assert_eq!(memory.iter().map(|&byte| u64::from(byte)).sum::<u64>(), 7 * 3 * (2 << 20));
    }
}
