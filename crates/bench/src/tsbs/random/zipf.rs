//! Numbers with a Zipf distribution, by the algorithm of Go's `rand.Zipf`: the numbers of metrics
//! of hosts, of which few have many and many have few.

use super::{Source, ln};

/// Seed of the arrays, which are the same for every seed of a run.
const SEED: i64 = 1_234;
/// The exponent; the other parameter of the distribution is 1.
const Q: f64 = 1.01;
const V: f64 = 1.0;

/// Returns `count` numbers from 1 to `max`, from a random source of their own.
pub(crate) fn zipf_array(count: usize, max: u64) -> Vec<u64> {
    let mut source = Source::new(SEED);
    let zipf = Zipf::new(max);
    let draws = (0..count).map(|_| zipf.draw(&mut source));
    draws.map(|k| if k == max { k } else { k + 1 }).collect()
}

struct Zipf {
    at_max: f64,
    span: f64,
    squeeze: f64,
}

impl Zipf {
    fn new(max: u64) -> Zipf {
        let at_max = h(max as f64 + 0.5);
        let span = h(0.5) - (ln(V) * -Q).exp() - at_max;
        let squeeze = 1.0 - h_inverse(h(1.5) - (-Q * ln(V + 1.0)).exp());
        Zipf { at_max, span, squeeze }
    }

    fn draw(&self, source: &mut Source) -> u64 {
        loop {
            let drawn = self.at_max + source.float() * self.span;
            let x = h_inverse(drawn);
            let k = (x + 0.5).floor();
            if k - x <= self.squeeze || drawn >= h(k + 0.5) - (-ln(k + V) * Q).exp() {
                return whole(k);
            }
        }
    }
}

fn h(x: f64) -> f64 {
    ((1.0 - Q) * ln(V + x)).exp() * (1.0 / (1.0 - Q))
}

fn h_inverse(x: f64) -> f64 {
    ((1.0 / (1.0 - Q)) * ln((1.0 - Q) * x)).exp() - V
}

#[expect(clippy::cast_possible_truncation, reason = "the number is whole")]
#[expect(clippy::cast_sign_loss, reason = "and not negative")]
fn whole(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_those_of_go() {
        assert_eq!(zipf_array(9, 20), [9, 2, 2, 1, 2, 7, 1, 2, 18]);
        assert_eq!(zipf_array(5, 360), [83, 4, 5, 1, 7]);
    }
}
