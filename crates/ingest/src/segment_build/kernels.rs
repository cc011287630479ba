//! The hot loop of segment building, over plain slices: the values of a bucket's column in the
//! order of rows.
//!
//! It uses nothing of the crate, so that `benches/segment_build.rs` can include this file. Not
//! here: computing the order (`storage::time_order`).

/// Appends the values of a column at these positions, in their order.
#[inline]
pub(crate) fn gather<T, const N: usize>(
    values: &[[u8; N]],
    places: &[u32],
    into: &mut Vec<T>,
    value: impl Fn([u8; N]) -> T,
) {
    into.extend(places.iter().map(|&place| value(values[place as usize])));
}
