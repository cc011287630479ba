//! The table that Go mixes into every seed: the state of the generator after 7.8 * 10^12 steps.
//!
//! The steps are not executed. The generator is linear, so the word `N` steps ahead is a sum of the
//! present words, with the coefficients of `z^N` modulo `z^607 - z^334 - 1` as factors; squaring
//! finds them in 43 rounds.

use std::sync::OnceLock;

use super::{LAG, LENGTH, advance, history, seeded};

/// Number of steps from the seed to the table.
const STEPS: u64 = 7_800_000_000_000;

/// A polynomial of a degree below 607, its coefficients modulo 2^64, the constant one first.
type Polynomial = [u64; LENGTH];

/// Returns the 607 words, computed at the first call.
pub(super) fn table() -> &'static [u64; LENGTH] {
    static TABLE: OnceLock<Box<[u64; LENGTH]>> = OnceLock::new();
    TABLE.get_or_init(|| Box::new(compute()))
}

fn compute() -> [u64; LENGTH] {
    let factors = power_of_z(STEPS);
    let mut later = history(&seeded(1, (20, 10)));
    let mut words = later.to_vec();
    advance(&mut later);
    words.extend(later);
    let mut table = [0; LENGTH];
    for i in 0..LENGTH {
        let products = factors.iter().zip(&words[i..]).map(|(c, x)| c.wrapping_mul(*x));
        // The word with the number STEPS - 607 + i, in Go's order.
        let step = (STEPS + i as u64) % LENGTH as u64;
        let place = (333 + LENGTH as u64 - step) % LENGTH as u64;
        table[usize::try_from(place).expect("below 607")] = products.fold(0, u64::wrapping_add);
    }
    table
}

fn power_of_z(exponent: u64) -> Polynomial {
    let mut power = [0; LENGTH];
    power[0] = 1;
    for bit in (0..u64::BITS - exponent.leading_zeros()).rev() {
        power = square(&power);
        if exponent >> bit & 1 == 1 {
            power = times_z(&power);
        }
    }
    power
}

fn square(factor: &Polynomial) -> Polynomial {
    let mut product = [0_u64; 2 * LENGTH];
    for (i, &a) in factor.iter().enumerate() {
        for (sum, &b) in product[i..].iter_mut().zip(factor) {
            *sum = sum.wrapping_add(a.wrapping_mul(b));
        }
    }
    for degree in (LENGTH..product.len()).rev() {
        let coefficient = product[degree];
        for lower in [degree - LENGTH, degree - LAG] {
            product[lower] = product[lower].wrapping_add(coefficient);
        }
    }
    std::array::from_fn(|i| product[i])
}

fn times_z(factor: &Polynomial) -> Polynomial {
    let mut product = *factor;
    product.rotate_right(1);
    // The former z^606 is z^607 now: 1, and z^334.
    product[LENGTH - LAG] = product[LENGTH - LAG].wrapping_add(product[0]);
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsbs::sha256::hex_sha256;

    #[test]
    fn the_table_is_that_of_go() {
        assert_eq!(table()[0], 0xc5f7_4a33_eb98_ffea);
        let bytes: Vec<u8> = table().iter().flat_map(|word| word.to_le_bytes()).collect();
        let expected = "1928503b93a563e491119a5889baba73d1605b90b63634c14a408805797a7c7b";
        assert_eq!(hex_sha256(&bytes), expected);
    }
}
