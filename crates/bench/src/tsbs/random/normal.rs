//! Numbers with a normal distribution, by the ziggurat of 128 layers.

use super::{Source, ln};

const STRIPS: usize = 128;
/// Beginning of the tail.
const TAIL: f64 = 3.442_619_855_899;
/// The area of a layer.
const AREA: f64 = 9.912_563_035_262_17e-3;

/// The layers of the ziggurat.
pub(crate) struct Normal {
    layers: [Layer; STRIPS],
    heights: [f32; STRIPS],
}

/// The data of the common case, side by side in memory.
#[derive(Clone, Copy, Default)]
struct Layer {
    /// Numbers whose magnitude is below this are accepted without a further test.
    sure_below: u32,
    width: f32,
}

impl Normal {
    pub(crate) fn new() -> Normal {
        let two31 = f64::from(1_u32 << 31);
        let mut layers = [Layer::default(); STRIPS];
        let mut heights = [0.0; STRIPS];
        let (mut edge, mut last) = (TAIL, TAIL);
        let density = |x: f64| (-0.5 * x * x).exp();
        let base = AREA / density(edge);
        layers[0] = Layer { sure_below: floor(edge / base * two31), width: single(base / two31) };
        layers[STRIPS - 1].width = single(edge / two31);
        heights[0] = 1.0;
        heights[STRIPS - 1] = single(density(edge));
        for i in (1..STRIPS - 1).rev() {
            edge = (-2.0 * (AREA / edge + density(edge)).ln()).sqrt();
            layers[i + 1].sure_below = floor(edge / last * two31);
            last = edge;
            heights[i] = single(density(edge));
            layers[i].width = single(edge / two31);
        }
        Normal { layers, heights }
    }

    /// Draws a number: Go's `NormFloat64`.
    #[inline]
    pub(crate) fn draw(&self, source: &mut Source) -> f64 {
        let drawn = source.uint32();
        let layer = self.layers[drawn as usize % STRIPS];
        let number = f64::from(drawn.cast_signed()) * f64::from(layer.width);
        if drawn.cast_signed().unsigned_abs() < layer.sure_below {
            return number;
        }
        self.draw_further(source, drawn, number)
    }

    /// Handles one case of 36: the number may lie outside of the curve, or in the tail.
    #[cold]
    fn draw_further(&self, source: &mut Source, drawn: u32, number: f64) -> f64 {
        let i = drawn as usize % STRIPS;
        if i == 0 {
            let beyond = TAIL + draw_tail(source);
            return if 0 < drawn.cast_signed() { beyond } else { -beyond };
        }
        let height =
            self.heights[i] + single(source.float()) * (self.heights[i - 1] - self.heights[i]);
        if height < single((-0.5 * number * number).exp()) {
            return number;
        }
        self.draw(source)
    }
}

fn draw_tail(source: &mut Source) -> f64 {
    loop {
        let x = -ln(source.float()) * (1.0 / TAIL);
        let y = -ln(source.float());
        if x * x <= y + y {
            return x;
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to 32 bits is part of the algorithm")]
fn single(x: f64) -> f32 {
    x as f32
}

#[expect(clippy::cast_possible_truncation, reason = "the floor is below 2^31")]
#[expect(clippy::cast_sign_loss, reason = "and not negative")]
fn floor(x: f64) -> u32 {
    x as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsbs::sha256::hex_sha256;

    #[test]
    fn the_tables_are_those_of_go() {
        let Normal { layers, heights } = Normal::new();
        let bytes =
            |word: fn(&Layer) -> [u8; 4]| -> Vec<u8> { layers.iter().flat_map(word).collect() };
        assert_eq!(layers[0].sure_below, 0x76ad_2212);
        for (bytes, expected) in [
            (
                bytes(|layer| layer.sure_below.to_le_bytes()),
                "3d2d71878b1adeda69fe4a5f1a320d654940a6e707948890ec94bfb165b96ec4",
            ),
            (
                bytes(|layer| layer.width.to_le_bytes()),
                "ad7d9370fef99dc77b47694a776d9fccb45aaf1326c09445e3cb14ba09600048",
            ),
            (
                heights.iter().flat_map(|height| height.to_le_bytes()).collect(),
                "b48fe81bd18a78dc0efbb5189baf0e24325c51d1e9aa8cb5cac1939ef900111b",
            ),
        ] {
            assert_eq!(hex_sha256(&bytes), expected);
        }
    }

    #[test]
    fn a_million_numbers_are_those_of_go() {
        let normal = Normal::new();
        let mut source = Source::new(123);
        let numbers: Vec<f64> = (0..1_000_000).map(|_| normal.draw(&mut source)).collect();
        let expected =
            [-0.794578529671558, 0.07123319016863422, 0.6991306302369095, -1.0744026840695597];
        assert_eq!(numbers[..4], expected);
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let expected = "cdb5b2644c9362c3761d8648aacf2df8e217cda30195a93dfe562a28e73873ef";
        assert_eq!(hex_sha256(&bytes), expected);
    }
}
