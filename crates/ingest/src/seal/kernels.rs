//! The hot loop of sealing, over plain slices: the values of a bucket's column in order.
//!
//! It needs nothing of the crate, so that `benches/seal.rs` can time this very file. Not here:
//! which order that is (`storage::time_order`).

/// Appends the values of a column that stand at these places, in their order.
#[inline]
pub(crate) fn gather<T, const N: usize>(
    values: &[[u8; N]],
    places: &[u32],
    into: &mut Vec<T>,
    value: impl Fn([u8; N]) -> T,
) {
    into.extend(places.iter().map(|&place| value(values[place as usize])));
}
