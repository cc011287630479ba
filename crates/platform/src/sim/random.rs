//! Pseudo-random numbers, the same for the same seed.

/// SplitMix64: small, good enough to tear files, and not stuck at any seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Any number below `bound`; nearly uniform for small bounds.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        assert!(0 < bound, "there is a number below the bound");
        self.next() % bound
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
