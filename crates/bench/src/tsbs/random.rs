//! The random numbers of TSBS: those of Go's `math/rand`, number for number.
//!
//! - tsbs_random-1. All draws of a run come from one `Source` in one order: one draw more or less
//!   changes every row that follows.
//! - tsbs_random-2. No multiplication is fused with an addition, and `ln` is written here: a
//!   difference in the last bit can turn an accepted number into a rejected one.
//!
//! The constant tables are computed when they are first needed, in a few milliseconds. Not here:
//! the use of the numbers (`simulate`).

mod cooked;
mod normal;
mod zipf;

pub(crate) use self::normal::Normal;
pub(crate) use self::zipf::zipf_array;

/// Words of the lagged Fibonacci generator `x[n] = x[n - 607] + x[n - 273]`.
const LENGTH: usize = 607;
/// The nearer of the two words that are added.
const LAG: usize = 273;
/// The prime of the Lehmer generator that seeds.
const LEHMER_PRIME: u64 = (1 << 31) - 1;
/// The seed that replaces the seed 0.
const SEED_OF_ZERO: u64 = 89_482_311;

/// One sequence of random words.
#[derive(Clone)]
pub(crate) struct Source {
    /// The last 607 words, the oldest first; those from `at` on are not yet drawn.
    words: [u64; LENGTH],
    at: usize,
}

impl Source {
    pub(crate) fn new(seed: i64) -> Source {
        let seeded = seeded(seed, (40, 20));
        let cooked = cooked::table();
        let mut vector = [0; LENGTH];
        for (word, (seeded, cooked)) in vector.iter_mut().zip(seeded.iter().zip(cooked)) {
            *word = seeded ^ cooked;
        }
        Source { words: history(&vector), at: LENGTH }
    }

    #[inline]
    pub(crate) fn word(&mut self) -> u64 {
        if let Some(&word) = self.words.get(self.at) {
            self.at += 1;
            return word;
        }
        advance(&mut self.words);
        self.at = 1;
        self.words[0]
    }

    /// Draws 63 random bits.
    #[inline]
    pub(crate) fn int63(&mut self) -> i64 {
        (self.word() & (u64::MAX >> 1)).cast_signed()
    }

    #[inline]
    fn int31(&mut self) -> u32 {
        u32::try_from(self.int63() >> 32).expect("31 bits")
    }

    /// Draws the low 32 of 63 bits shifted down by 31.
    #[inline]
    fn uint32(&mut self) -> u32 {
        low_half(self.word() >> 31)
    }

    /// Draws a float from 0 up to but not including 1.
    #[inline]
    pub(crate) fn float(&mut self) -> f64 {
        loop {
            let float = self.int63() as f64 / 9_223_372_036_854_775_808.0;
            // The 512 largest integers are rounded up to 1.
            if float < 1.0 {
                return float;
            }
        }
    }

    /// Draws a number below `n`, from the high bits of a word: Go's `Intn`.
    pub(crate) fn intn(&mut self, n: u32) -> u32 {
        assert!(0 < n && n < 1 << 31, "tsbs_random-1");
        if n.is_power_of_two() {
            return self.int31() & (n - 1);
        }
        let max = (1 << 31) - 1 - (1_u32 << 31) % n;
        loop {
            let drawn = self.int31();
            if drawn <= max {
                return drawn % n;
            }
        }
    }

    /// Draws a number below `n`, from all bits of a word: Go's `Int63n`, whose numbers differ from
    /// those of `intn`.
    pub(crate) fn int63n(&mut self, n: u32) -> u32 {
        assert!(0 < n, "tsbs_random-1");
        let n = u64::from(n);
        let max = (1 << 63) - 1 - (1_u64 << 63) % n;
        loop {
            let drawn = self.int63().cast_unsigned();
            if n.is_power_of_two() || drawn <= max {
                return u32::try_from(drawn % n).expect("below n");
            }
        }
    }
}

/// Replaces the last 607 words by the next.
fn advance(words: &mut [u64; LENGTH]) {
    let (first, last) = words.split_at_mut(LAG);
    for (word, earlier) in first.iter_mut().zip(&last[LENGTH - 2 * LAG..]) {
        *word = word.wrapping_add(*earlier);
    }
    let (middle, last) = last.split_at_mut(LAG);
    for (word, earlier) in middle.iter_mut().zip(&*first) {
        *word = word.wrapping_add(*earlier);
    }
    for (word, earlier) in last.iter_mut().zip(&*middle) {
        *word = word.wrapping_add(*earlier);
    }
}

/// Returns the words before the first, from a vector in the order in which Go stores it.
fn history(vector: &[u64; LENGTH]) -> [u64; LENGTH] {
    std::array::from_fn(|k| vector[(333 + LENGTH - k) % LENGTH])
}

/// Fills a vector from a seed: three Lehmer numbers make a word, shifted by `shifts` and by 0.
fn seeded(seed: i64, shifts: (u32, u32)) -> [u64; LENGTH] {
    let prime = LEHMER_PRIME.cast_signed();
    let mut x = match seed.rem_euclid(prime).cast_unsigned() {
        0 => SEED_OF_ZERO,
        seed => seed,
    };
    let mut step = || {
        x = x * 48_271 % LEHMER_PRIME;
        x
    };
    for _ in 0..20 {
        step();
    }
    std::array::from_fn(|_| step() << shifts.0 ^ step() << shifts.1 ^ step())
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
#[inline]
fn low_half(word: u64) -> u32 {
    word as u32
}

/// Returns the natural logarithm as Go computes it for amd64: FreeBSD's, in this order of
/// operations (tsbs_random-2).
pub(crate) fn ln(x: f64) -> f64 {
    const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const L: [f64; 7] = [
        0.666_666_666_666_673_5,
        0.399_999_999_994_094_2,
        0.285_714_287_436_623_9,
        0.222_221_984_321_497_84,
        0.181_835_721_616_180_5,
        0.153_138_376_992_093_73,
        0.147_981_986_051_165_86,
    ];
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    let (mut fraction, mut exponent) = fraction_and_exponent(x);
    if fraction <= std::f64::consts::FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1;
    }
    let f = fraction - 1.0;
    let k = f64::from(exponent);
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let t1 = s2 * (L[0] + s4 * (L[2] + s4 * (L[4] + s4 * L[6])));
    let t2 = s4 * (L[1] + s4 * (L[3] + s4 * L[5]));
    let r = t1 + t2;
    let half_square = (0.5 * f) * f;
    k * LN2_HIGH - ((half_square - (s * (half_square + r) + k * LN2_LOW)) - f)
}

/// Returns `x` as `fraction * 2^exponent` with a fraction in [1/2, 1); `x` is positive and not
/// subnormal: the smallest number drawn is 2^-63.
fn fraction_and_exponent(x: f64) -> (f64, i32) {
    assert!(x.is_normal() && 0.0 < x, "tsbs_random-2");
    let bits = x.to_bits();
    let exponent = i32::try_from(bits >> 52).expect("11 bits, and no sign") - 1_022;
    (f64::from_bits(bits & ((1 << 52) - 1) | 1_022 << 52), exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsbs::sha256::hex_sha256;

    fn words(seed: i64, count: usize) -> Vec<u64> {
        let mut source = Source::new(seed);
        (0..count).map(|_| source.word()).collect()
    }

    #[test]
    fn words_are_those_of_go() {
        let expected = [
            0x4a68_998b_ed5c_40f1,
            0x835b_5159_9210_f9ba,
            0x1fff_001b_295a_02f7,
            0xced4_51db_4c6a_fd7b,
        ];
        assert_eq!(words(123, 4), expected);
        for (seed, first) in
            [(0, 0x78fc_2ffa_c2fd_9401), (1, 0x4d65_8221_07fc_fd52), (-5, 0x1924_64d4_e00c_f63e)]
        {
            assert_eq!(words(seed, 1), [first], "seed {seed}");
        }
        // Seeds are taken modulo the prime, with any sign.
        assert_eq!(words(5 - LEHMER_PRIME.cast_signed(), 700), words(5, 700));
    }

    #[test]
    fn a_million_words_and_floats_are_those_of_go() {
        let bytes: Vec<u8> = words(123, 1_000_000).iter().flat_map(|x| x.to_le_bytes()).collect();
        let expected = "d314e7bcc98f28889f3d6996171d1d877f7a12153b93b00b55dc1b77e0d82998";
        assert_eq!(hex_sha256(&bytes), expected);
        let mut source = Source::new(123);
        let bytes: Vec<u8> = (0..1_000_000).flat_map(|_| source.float().to_le_bytes()).collect();
        let expected = "046d7755200024341d4c5bf98a10dd05f28aca22de5926ded3456c29718f9855";
        assert_eq!(hex_sha256(&bytes), expected);
    }

    #[test]
    fn small_integers_are_those_of_go() {
        let draw = |mut draw: Box<dyn FnMut(&mut Source) -> u32>| -> Vec<u32> {
            let mut source = Source::new(123);
            (0..10).map(|_| draw(&mut source)).collect()
        };
        assert_eq!(draw(Box::new(|x| x.intn(10))), [5, 9, 3, 5, 9, 9, 5, 5, 1, 1]);
        assert_eq!(draw(Box::new(|x| x.intn(4))), [3, 1, 3, 3, 3, 3, 3, 3, 1, 3]);
        assert_eq!(draw(Box::new(|x| x.int63n(100))), [89, 46, 43, 83, 87, 63, 48, 91, 75, 28]);
    }

    #[test]
    fn logarithms_are_near_those_of_the_library() {
        let mut source = Source::new(1);
        for _ in 0..10_000 {
            let x = source.float() + f64::MIN_POSITIVE;
            assert!((ln(x) - x.ln()).abs() <= 1e-15 * x.ln().abs().max(1.0), "{x}");
        }
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(1.0), 0.0);
    }
}
