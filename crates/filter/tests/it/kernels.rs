//! Every level gives the same bits as a loop over single codes (kernel-1).

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use tidegate_filter::SimdLevel;
use tidegate_filter::kernel::{
    CodeRange, CodeTest, FloatTest, select, select_doubles, select_floats,
};
use tidegate_model::Codes;

use crate::random::Random;

fn random_ranges(random: &mut Random, width: u8) -> Vec<CodeRange> {
    let most = *random.choose(&[2, 6, 40]);
    let count = random.below(most);
    let greatest = u64::MAX >> (64 - u32::from(width) * 8);
    let mut ends: Vec<u64> = (0..count * 2)
        .map(|_| match random.below(6) {
            0 => 0,
            1 => greatest,
            _ => random.word() >> random.below(64) & greatest,
        })
        .collect();
    ends.sort_unstable();
    ends.dedup();
    ends.chunks_exact(2).map(|pair| CodeRange { first: pair[0], last: pair[1] }).collect()
}

fn as_words(bits: impl Iterator<Item = bool>) -> Vec<u64> {
    let mut words = Vec::new();
    for (row, bit) in bits.enumerate() {
        if row % 64 == 0 {
            words.push(0);
        }
        *words.last_mut().expect("just pushed") |= u64::from(bit) << (row % 64);
    }
    words
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn codes_match_as_their_ranges_say(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let width = *random.choose(&[1, 2, 4, 8]);
        let ranges = random_ranges(random, width);
        let rows = random.below(400);
        let mut bytes = Vec::new();
        for _ in 0..rows {
            // Many codes lie on the ends of ranges and beside them.
            let code = match ranges.as_slice() {
                [] => random.word(),
                ranges => match random.below(6) {
                    0 => random.choose(ranges).first,
                    1 => random.choose(ranges).last,
                    2 => random.choose(ranges).first.wrapping_sub(1),
                    3 => random.choose(ranges).last.wrapping_add(1),
                    _ => random.word(),
                },
            };
            bytes.extend_from_slice(&code.to_le_bytes()[..usize::from(width)]);
        }
        let codes = Codes::new(width, &bytes).expect("whole codes");
        let test = CodeTest::new(width.into(), ranges.clone());
        let first = (random.below(3) * 64).min(rows / 64 * 64);
        let is_in = |code| ranges.iter().any(|range| range.first <= code && code <= range.last);
        let expected = as_words((first..rows).map(|row| is_in(codes.at(row))));
        for level in SimdLevel::available() {
            let mut out = vec![u64::MAX; expected.len()];
            select(level, &codes, first..rows, &test, &mut out);
            prop_assert_eq!(&out, &expected, "{} bytes, {}", width, level.name());
        }
    }

    #[test]
    fn floats_match_as_their_ranges_say(seed in any::<u64>()) {
        let random = &mut Random::new(seed);
        let special = [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
        let values: Vec<f64> = (0..random.below(300)).map(|_| *random.choose(&special)).collect();
        let ends = [f64::NEG_INFINITY, -1.5, 0.0, -0.0, 1.5, f64::INFINITY];
        let count = random.below(3);
        let ranges: Vec<(f64, f64)> =
            (0..count).map(|_| (*random.choose(&ends), *random.choose(&ends))).collect();
        let test = FloatTest { ranges, nan: random.once_in(2) };
        let matches = |value: f64| {
            test.ranges.iter().any(|&(a, b)| a <= value && value <= b) || test.nan && value.is_nan()
        };
        let expected = as_words(values.iter().map(|&value| matches(value)));
        let mut out = vec![u64::MAX; expected.len()];
        let doubles: Vec<[u8; 8]> = values.iter().map(|value| value.to_le_bytes()).collect();
        select_doubles(&doubles, &test, &mut out);
        prop_assert_eq!(&out, &expected);
        #[expect(clippy::cast_possible_truncation, reason = "the values are exact")]
        let floats: Vec<[u8; 4]> =
            values.iter().map(|&value| (value as f32).to_le_bytes()).collect();
        select_floats(&floats, &test, &mut out);
        prop_assert_eq!(&out, &expected);
    }
}

#[test]
fn sequences_and_bits_need_no_stored_codes() {
    let test = CodeTest::new(0, vec![CodeRange { first: 3, last: 70 }]);
    let mut out = [u64::MAX; 2];
    select(SimdLevel::PLAIN, &Codes::Sequence, 0..100, &test, &mut out);
    assert_eq!(out, [u64::MAX << 3, (1 << 7) - 1]);
    select(SimdLevel::PLAIN, &Codes::Sequence, 64..164, &test, &mut out);
    assert_eq!(out, [(1 << 7) - 1, 0]);
    select(SimdLevel::PLAIN, &Codes::Same(4), 0..70, &test, &mut out);
    assert_eq!(out, [u64::MAX, (1 << 6) - 1]);
    let ones = CodeTest::new(0, vec![CodeRange { first: 1, last: 1 }]);
    select(SimdLevel::PLAIN, &Codes::Bits(&[0b101; 9]), 0..70, &ones, &mut out);
    assert_eq!(out, [0x0505_0505_0505_0505, 0b101]);
    let zeros = CodeTest::new(0, vec![CodeRange { first: 0, last: 0 }]);
    select(SimdLevel::PLAIN, &Codes::Bits(&[0b101; 9]), 0..70, &zeros, &mut out);
    assert_eq!(out, [!0x0505_0505_0505_0505, 0b11_1010]);
}
